/* vec_scalar.h: the kernels' vocabulary in portable C, one float at a time.  vec_fma rounds twice: multiply, then add. */
#ifndef GYRE_KERNELS_VEC_SCALAR_H
#define GYRE_KERNELS_VEC_SCALAR_H
#include "kernels/half_precision.h"

#include <stdint.h>
#include <string.h>

#ifndef TIER /* tier_amx_emulated.c defines its own name */
#define TIER scalar
#endif
#define LANES               1
#define MATMUL_BLOCK_ROWS   4
#define MATMUL_BLOCK_VECS   2
#define PRODUCT_ROWS        2
#define PRODUCT_OPERAND(a)  (a)
#define PRODUCT_OUTS        4
#define GEMV_VECS           4
#define DECODE_ACCUMULATORS 4
#define TRANSPOSE           1

typedef float vec;
typedef int mask;

static inline vec vec_load(const float *p) {
    return *p;
}
static inline vec vec_in_register(vec a) {
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
static inline mask vec_not_equal(vec a, vec b) {
    return a != b;
}
static inline vec vec_and_mask(mask m, vec a) {
    return m ? a : 0;
}
static inline vec vec_select(mask m, vec yes, vec no) {
    return m ? yes : no;
}
static inline float vec_reduce_add(vec a) {
    return a;
}
static inline float vec_reduce_max(vec a) {
    return a;
}
static inline vec vec_reduce_add_each(const vec *a) {
    return *a;
}

/* y 2^n by adding to the exponent; n an integer, the result a normal number. */
static inline vec vec_ldexp(vec y, vec n) {
    uint32_t bits;
    if (n != n) return n;
    memcpy(&bits, &y, sizeof bits);
    bits += (uint32_t)(int32_t)n << 23;
    memcpy(&y, &bits, sizeof y);
    return y;
}

static inline void transpose_square(const float *in, int64_t in_row_stride, float *out, int64_t out_row_stride) {
    (void)in_row_stride, (void)out_row_stride;
    *out = *in;
}

/* lane i = from[row[i] - low]. */
static inline vec vec_permute(const float *from, const int32_t *row, int32_t low) {
    return from[row[0] - low];
}

/* -- other types, and pairs of elements -- */
/* By memcpy: row_tier.h reads and writes parts of rows in memory that holds floats. */
static inline uint16_t vec_bits16(const void *p) {
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return bits;
}
static inline vec vec_load_f16(const uint16_t *p) {
    return gyre_f16_widen(vec_bits16(p));
}
/* All lanes = the f16 at p, which needs no alignment. */
static inline vec vec_broadcast_f16(const void *p) {
    return vec_set1(gyre_f16_widen(vec_bits16(p)));
}
/* All lanes of *a and *b = the two f16 at p. */
static inline void vec_broadcast_two_f16(const void *p, vec *a, vec *b) {
    *a = vec_broadcast_f16(p);
    *b = vec_broadcast_f16((const char *)p + 2);
}
static inline void vec_store_f16(uint16_t *p, vec a) {
    const uint16_t bits = gyre_f16_round(a);
    memcpy(p, &bits, sizeof bits);
}
static inline vec vec_load_bf16(const uint16_t *p) {
    return gyre_bf16_widen(vec_bits16(p));
}
static inline void vec_store_bf16(uint16_t *p, vec a) {
    const uint16_t bits = gyre_bf16_round(a);
    memcpy(p, &bits, sizeof bits);
}
static inline void vec_load_even_odd_bf16(const uint16_t *p, vec *even, vec *odd) {
    *even = gyre_bf16_widen(p[0]);
    *odd = gyre_bf16_widen(p[1]);
}
static inline vec vec_load_q8(const int8_t *p) {
    return *p;
}
/* -- doubles -- */
#define VECD_LANES 1
typedef double vecd;
static inline vecd vecd_load(const double *p) {
    return *p;
}
static inline void vecd_store(double *p, vecd a) {
    *p = a;
}
static inline vecd vecd_in_register(vecd a) {
    return a;
}
static inline vecd vecd_set1(double a) {
    return a;
}
static inline vecd vecd_mul(vecd a, vecd b) {
    return a * b;
}
static inline vecd vecd_fma(vecd a, vecd b, vecd c) {
    return a * b + c;
}
static inline void vecd_deinterleave(vecd *low, vecd *high) {
    (void)low, (void)high;
}
static inline void vecd_interleave(vecd *a, vecd *b) {
    (void)a, (void)b;
}

/* Two vectors of one lane are the two members of a pair already. */
static inline void vec_deinterleave(vec *low, vec *high) {
    (void)low, (void)high;
}
static inline void vec_interleave(vec *a, vec *b) {
    (void)a, (void)b;
}

/* -- 32-bit integers, as many lanes as vec -- */
typedef uint32_t vecu;
static inline vecu vecu_load(const uint32_t *p) {
    return *p;
}
static inline void vecu_store(uint32_t *p, vecu a) {
    *p = a;
}
static inline vecu vecu_set1(uint32_t a) {
    return a;
}
static inline vecu vecu_add(vecu a, vecu b) {
    return a + b;
}
static inline vecu vecu_xor(vecu a, vecu b, vecu c) {
    return a ^ b ^ c;
}
/* out = the low 32 bits of the product; *high = the high 32 bits. */
static inline vecu vecu_mul(vecu a, vecu b, vecu *high) {
    const uint64_t product = (uint64_t)a * b;
    *high = (uint32_t)(product >> 32);
    return (uint32_t)product;
}
static inline vecu vecu_load_u8(const unsigned char *p) {
    return *p;
}
static inline vecu vecu_and(vecu a, vecu b) {
    return a & b;
}
static inline vecu vecu_or(vecu a, vecu b) {
    return a | b;
}
static inline vecu vecu_shift_right(vecu a, int bits) {
    return a >> bits;
}
static inline vecu vecu_shift_left(vecu a, int bits) {
    return a << bits;
}
/* Integers below 2^24 as floats.  An x86 converts signed ones at once. */
static inline vec vec_from_vecu(vecu a) {
    return (float)(int32_t)a;
}
/* Lane l = 16 if bit i + l of the 16 bits is set, else 0.  i: a multiple of LANES. */
static inline vecu vecu_sixteens(uint32_t bits, int i) {
    return bits << 4 >> i & 16;
}
/* Entries of a table of 16. */
static inline vec vec_lookup(const int8_t table[16], vecu i) {
    return table[i];
}

#endif
