/* vec_scalar.h: the vocabulary of tier.h and rotate_tier.h in portable C, one float at a time; multiply, then add. */
#ifndef GYRE_KERNELS_VEC_SCALAR_H
#define GYRE_KERNELS_VEC_SCALAR_H
#include "kernels/half.h"

#include <stdint.h>
#include <string.h>

#define TIER       scalar
#define LANES      1
#define BLOCK_ROWS 4
#define BLOCK_VECS 2
#define WIDE_VECS  4
#define FEW_SUMS   4
#define TRANSPOSE  1

typedef float vec;
typedef int mask;

static inline vec vec_load(const float *p) {
    return *p;
}
static inline vec vec_held(vec a) {
    return a;
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
static inline vec vec_div(vec a, vec b) {
    return a / b;
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
static inline vec vec_choose(mask m, vec yes, vec no) {
    return m ? yes : no;
}
static inline float vec_sum(vec a) {
    return a;
}
static inline float vec_top(vec a) {
    return a;
}
static inline vec vec_sums(const vec *a) {
    return *a;
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

/* -- other types, and pairs ------------------------------------------------------------------------------------------ */
static inline vec vec_load_f16(const uint16_t *p) {
    return gyre_half_widen(*p);
}
static inline void vec_store_f16(uint16_t *p, vec a) {
    *p = gyre_half_round(a);
}
static inline vec vec_load_bf16(const uint16_t *p) {
    return gyre_brain_widen(*p);
}
static inline void vec_store_bf16(uint16_t *p, vec a) {
    *p = gyre_brain_round(a);
}
static inline void vec_load_two_bf16(const uint16_t *p, vec *even, vec *odd) {
    *even = gyre_brain_widen(p[0]);
    *odd = gyre_brain_widen(p[1]);
}
static inline vec vec_load_q8(const int8_t *p) {
    return *p;
}
/* -- doubles ------------------------------------------------------------------------------------------------------------ */
#define WIDE_LANES 1
typedef double wide;
static inline wide wide_load(const double *p) {
    return *p;
}
static inline void wide_store(double *p, wide a) {
    *p = a;
}
static inline wide wide_held(wide a) {
    return a;
}
static inline wide wide_set1(double a) {
    return a;
}
static inline wide wide_mul(wide a, wide b) {
    return a * b;
}
static inline wide wide_fma(wide a, wide b, wide c) {
    return a * b + c;
}
static inline void wide_part(wide *low, wide *high) {
    (void)low, (void)high;
}
static inline void wide_join(wide *a, wide *b) {
    (void)a, (void)b;
}

/* A pair takes two vectors of one lane, which are its members already. */
static inline void vec_part(vec *low, vec *high) {
    (void)low, (void)high;
}
static inline void vec_join(vec *a, vec *b) {
    (void)a, (void)b;
}

/* -- whole numbers of 32 bits, one for each lane of vec ---------------------------------------------------------------- */
typedef uint32_t words;
static inline words words_load(const uint32_t *p) {
    return *p;
}
static inline void words_store(uint32_t *p, words a) {
    *p = a;
}
static inline words words_set1(uint32_t a) {
    return a;
}
static inline words words_add(words a, words b) {
    return a + b;
}
static inline words words_xor(words a, words b, words c) {
    return a ^ b ^ c;
}
/* The lower half of the product. out: the upper one. */
static inline words words_multiply(words a, words b, words *high) {
    const uint64_t product = (uint64_t)a * b;
    *high = (uint32_t)(product >> 32);
    return (uint32_t)product;
}

#endif
