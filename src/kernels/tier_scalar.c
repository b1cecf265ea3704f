/* tier_scalar.c: the kernels in portable C, one float at a time; multiply, then add. */
#include <stdint.h>
#include <string.h>

#define TIER       scalar
#define LANES      1
#define BLOCK_ROWS 4
#define BLOCK_VECS 2
#define WIDE_VECS  4
#define TRANSPOSE  1

typedef float vec;
typedef int mask;

static inline vec vec_load(const float *p) {
    return *p;
}
static inline void vec_store(float *p, vec a) {
    *p = a;
}
static inline vec vec_set1(float a) {
    return a;
}
static inline vec vec_fma(vec a, vec b, vec c) {
    return a * b + c;
}
static inline vec vec_mul(vec a, vec b) {
    return a * b;
}
static inline vec vec_add(vec a, vec b) {
    return a + b;
}
static inline vec vec_sub(vec a, vec b) {
    return a - b;
}
static inline vec vec_max(vec a, vec b) {
    return a > b ? a : b;
}
static inline vec vec_min(vec a, vec b) {
    return a < b ? a : b;
}
static inline mask vec_not_less(vec a, vec b) {
    return !(a < b);
}
static inline mask vec_unequal(vec a, vec b) {
    return a != b;
}
static inline vec vec_keep(mask m, vec a) {
    return m ? a : 0;
}
static inline float vec_sum(vec a) {
    return a;
}
static inline float vec_top(vec a) {
    return a;
}

/* y 2^n by adding to the exponent; n whole, the result a normal number. */
static inline vec vec_scale(vec y, vec n) {
    uint32_t bits;
    if (n != n) return n;
    memcpy(&bits, &y, sizeof bits);
    bits += (uint32_t)(int32_t)n << 23;
    memcpy(&y, &bits, sizeof y);
    return y;
}

static inline void transpose_square(const float *in, int64_t in_row, float *out, int64_t out_row) {
    (void)in_row, (void)out_row;
    *out = *in;
}

/* lane i = from[row[i] - low] */
static inline vec vec_deal(const float *from, const int32_t *row, int32_t low) {
    return from[row[0] - low];
}

#include "kernels/tier.h"
