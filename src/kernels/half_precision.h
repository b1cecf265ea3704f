/* half_precision.h: conversion of f16 and bf16 by integer operations, one number at a time. */
#ifndef GYRE_KERNELS_HALF_PRECISION_H
#define GYRE_KERNELS_HALF_PRECISION_H
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t gyre_float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float gyre_float_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float gyre_bf16_widen(uint16_t bf16) {
    return gyre_float_from_bits((uint32_t)bf16 << 16);
}

static inline uint16_t gyre_bf16_round(float value) {
    const uint32_t bits = gyre_float_bits(value);
    if (isnan(value)) return (uint16_t)((bits >> 16) | 0x40u); /* quiet: a truncated payload could read as infinity */
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static inline float gyre_f16_widen(uint16_t f16) {
    const uint32_t sign = (uint32_t)(f16 & 0x8000u) << 16, rest = f16 & 0x7fffu;
    if (rest >= 0x7c00u) return gyre_float_from_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest >= 0x0400u) return gyre_float_from_bits(sign | ((rest << 13) + 0x38000000u));
    return gyre_float_from_bits(sign | gyre_float_bits((float)rest * 0x1p-24f)); /* subnormal: an integer times 2^-24 */
}

static inline uint16_t gyre_f16_round(float value) {
    const uint32_t bits = gyre_float_bits(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (rest >> 13 & 0x3ffu));
    if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and up round to infinity */
    if (rest < 0x38800000u) /* below 2^-14: adding 1/2 aligns the last f16 bit with the last f32 bit, which rounds */
        return (uint16_t)(sign | (gyre_float_bits(gyre_float_from_bits(rest) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | ((rest + 0xfffu + (rest >> 13 & 1u) - 0x38000000u) >> 13));
}

#endif
