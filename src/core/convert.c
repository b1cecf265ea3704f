/* convert.c: f16 and bf16 by their bits. */
#include "core/convert.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float gyre_bf16_to_f32(uint16_t brain) {
    return float_of((uint32_t)brain << 16);
}

uint16_t gyre_f32_to_bf16(float value) {
    const uint32_t bits = bits_of(value);
    if (isnan(value)) return (uint16_t)((bits >> 16) | 0x40u); /* quiet: a truncated payload could read as infinity */
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float gyre_f16_to_f32(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u) return float_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest >= 0x0400u) return float_of(sign | ((rest << 13) + 0x38000000u));
    return float_of(sign | bits_of((float)rest * 0x1p-24f)); /* subnormal: an integer times 2^-24 */
}

uint16_t gyre_f32_to_f16(float value) {
    const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (rest >> 13 & 0x3ffu));
    if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and up round to infinity */
    if (rest < 0x38800000u) /* below 2^-14: adding 1/2 aligns the last f16 bit with the last f32 bit, which rounds */
        return (uint16_t)(sign | (bits_of(float_of(rest) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | ((rest + 0xfffu + (rest >> 13 & 1u) - 0x38000000u) >> 13));
}

/* To float by rounding to odd: a second rounding to a type with two bits less then equals one rounding of the whole. */
static float round_to_odd(double value) {
    const float nearest = (float)value;
    if (isnan(value) || (double)nearest == value) return nearest;
    uint32_t bits = bits_of(nearest);
    if (fabs((double)nearest) > fabs(value)) bits--;
    return float_of(bits | 1u);
}

uint16_t gyre_f64_to_f16(double value) {
    return gyre_f32_to_f16(round_to_odd(value));
}
uint16_t gyre_f64_to_bf16(double value) {
    return gyre_f32_to_bf16(round_to_odd(value));
}

void gyre_load_row(const void *row, gyre_dtype dtype, int64_t stride, int64_t n, float *out) {
    switch (dtype) {
    case GYRE_F32:
        for (int64_t i = 0; i < n; i++)
            out[i] = ((const float *)row)[i * stride];
        return;
    case GYRE_F16:
        for (int64_t i = 0; i < n; i++)
            out[i] = gyre_f16_to_f32(((const uint16_t *)row)[i * stride]);
        return;
    case GYRE_BF16:
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
    case GYRE_F32:
        for (int64_t i = 0; i < n; i++)
            ((float *)row)[i * stride] = in[i];
        return;
    case GYRE_F16:
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)row)[i * stride] = gyre_f32_to_f16(in[i]);
        return;
    case GYRE_BF16:
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
    case GYRE_F32:
        for (int64_t i = 0; i < n; i++)
            out[i] = (double)((const float *)row)[i * stride];
        return;
    case GYRE_F16:
        for (int64_t i = 0; i < n; i++)
            out[i] = (double)gyre_f16_to_f32(((const uint16_t *)row)[i * stride]);
        return;
    case GYRE_BF16:
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
    case GYRE_F32:
        for (int64_t i = 0; i < n; i++)
            ((float *)row)[i * stride] = (float)in[i];
        return;
    case GYRE_F16:
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)row)[i * stride] = gyre_f64_to_f16(in[i]);
        return;
    case GYRE_BF16:
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)row)[i * stride] = gyre_f64_to_bf16(in[i]);
        return;
    default:
        for (int64_t i = 0; i < n; i++)
            ((double *)row)[i * stride] = in[i];
    }
}

/* With a size known to the compiler a copy is a load and a store. */
static inline void copy_elements(const char *in, int64_t in_step, char *out, int64_t out_step, int64_t n, size_t size) {
    for (int64_t i = 0; i < n; i++)
        memcpy(out + i * out_step, in + i * in_step, size);
}

void gyre_copy_row(const void *in, int64_t in_stride, void *out, int64_t out_stride, gyre_dtype dtype, int64_t n) {
    const size_t size = gyre_dtype_size(dtype);
    const int64_t in_step = in_stride * (int64_t)size, out_step = out_stride * (int64_t)size;
    if (n <= 0 || in == out) return;
    if (in_stride == 1 && out_stride == 1)
        memcpy(out, in, (size_t)n * size);
    else if (size == 2)
        copy_elements(in, in_step, out, out_step, n, 2);
    else if (size == 4)
        copy_elements(in, in_step, out, out_step, n, 4);
    else
        copy_elements(in, in_step, out, out_step, n, 8);
}
