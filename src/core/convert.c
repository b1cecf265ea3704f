/* convert.c: conversion of elements and rows between types. */
#include "core/convert.h"

#include "kernels/half_precision.h"

#include <math.h>
#include <string.h>

float gyre_bf16_to_f32(uint16_t bf16) {
    return gyre_bf16_widen(bf16);
}
uint16_t gyre_f32_to_bf16(float value) {
    return gyre_bf16_round(value);
}
float gyre_f16_to_f32(uint16_t f16) {
    return gyre_f16_widen(f16);
}
uint16_t gyre_f32_to_f16(float value) {
    return gyre_f16_round(value);
}

/* Rounds to float, to odd.  A second rounding to a type with at least two bits less then equals a single rounding. */
static float round_to_odd(double value) {
    const float nearest = (float)value;
    if (isnan(value) || (double)nearest == value) return nearest;
    uint32_t bits = gyre_float_bits(nearest);
    if (fabs((double)nearest) > fabs(value)) bits--;
    return gyre_float_from_bits(bits | 1u);
}

uint16_t gyre_f64_to_f16(double value) {
    return gyre_f32_to_f16(round_to_odd(value));
}
uint16_t gyre_f64_to_bf16(double value) {
    return gyre_f32_to_bf16(round_to_odd(value));
}

void gyre_load_row(const void *row, gyre_dtype dtype, int64_t stride, int64_t n, float *out) {
    switch (dtype) {
    case GYRE_DTYPE_F32:
        for (int64_t i = 0; i < n; i++)
            out[i] = ((const float *)row)[i * stride];
        return;
    case GYRE_DTYPE_F16:
        for (int64_t i = 0; i < n; i++)
            out[i] = gyre_f16_to_f32(((const uint16_t *)row)[i * stride]);
        return;
    case GYRE_DTYPE_BF16:
        for (int64_t i = 0; i < n; i++)
            out[i] = gyre_bf16_to_f32(((const uint16_t *)row)[i * stride]);
        return;
    default:
        for (int64_t i = 0; i < n; i++)
            out[i] = (float)((const double *)row)[i * stride];
    }
}

void gyre_store_row(const float *in, int64_t n, void *row, gyre_dtype dtype, int64_t stride) {
    switch (dtype) {
    case GYRE_DTYPE_F32:
        for (int64_t i = 0; i < n; i++)
            ((float *)row)[i * stride] = in[i];
        return;
    case GYRE_DTYPE_F16:
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)row)[i * stride] = gyre_f32_to_f16(in[i]);
        return;
    case GYRE_DTYPE_BF16:
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)row)[i * stride] = gyre_f32_to_bf16(in[i]);
        return;
    default:
        for (int64_t i = 0; i < n; i++)
            ((double *)row)[i * stride] = (double)in[i];
    }
}

void gyre_load_row_f64(const void *row, gyre_dtype dtype, int64_t stride, int64_t n, double *out) {
    switch (dtype) {
    case GYRE_DTYPE_F32:
        for (int64_t i = 0; i < n; i++)
            out[i] = (double)((const float *)row)[i * stride];
        return;
    case GYRE_DTYPE_F16:
        for (int64_t i = 0; i < n; i++)
            out[i] = (double)gyre_f16_to_f32(((const uint16_t *)row)[i * stride]);
        return;
    case GYRE_DTYPE_BF16:
        for (int64_t i = 0; i < n; i++)
            out[i] = (double)gyre_bf16_to_f32(((const uint16_t *)row)[i * stride]);
        return;
    default:
        for (int64_t i = 0; i < n; i++)
            out[i] = ((const double *)row)[i * stride];
    }
}

void gyre_store_row_f64(const double *in, int64_t n, void *row, gyre_dtype dtype, int64_t stride) {
    switch (dtype) {
    case GYRE_DTYPE_F32:
        for (int64_t i = 0; i < n; i++)
            ((float *)row)[i * stride] = (float)in[i];
        return;
    case GYRE_DTYPE_F16:
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)row)[i * stride] = gyre_f64_to_f16(in[i]);
        return;
    case GYRE_DTYPE_BF16:
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)row)[i * stride] = gyre_f64_to_bf16(in[i]);
        return;
    default:
        for (int64_t i = 0; i < n; i++)
            ((double *)row)[i * stride] = in[i];
    }
}

/* With a constant size the compiler replaces memcpy by a load and a store. */
static inline void copy_elements(const char *in, int64_t in_step, char *out, int64_t out_step, int64_t n, size_t size) {
    for (int64_t i = 0; i < n; i++)
        memcpy(out + i * out_step, in + i * in_step, size);
}

void gyre_copy_row(const void *in, int64_t in_stride, void *out, int64_t out_stride, gyre_dtype dtype, int64_t n) {
    const size_t size = gyre_dtype_size(dtype);
    if (n <= 0 || in == out) return;
    /* The stride of an axis of one element may be any number. */
    const int64_t in_step = n > 1 ? in_stride * (int64_t)size : 0, out_step = n > 1 ? out_stride * (int64_t)size : 0;
    if (in_stride == 1 && out_stride == 1)
        memcpy(out, in, (size_t)n * size);
    else if (size == 2)
        copy_elements(in, in_step, out, out_step, n, 2);
    else if (size == 4)
        copy_elements(in, in_step, out, out_step, n, 4);
    else
        copy_elements(in, in_step, out, out_step, n, 8);
}
