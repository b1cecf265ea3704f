/* vec_wasm.h: the kernels' vocabulary in the 128-bit SIMD of WebAssembly, four floats at a time.  It has no fused product
 * (relaxed SIMD may fuse or not, depending on the machine), so vec_fma rounds twice: multiply, then add. */
#ifndef GYRE_KERNELS_VEC_WASM_H
#define GYRE_KERNELS_VEC_WASM_H
#include "kernels/half_precision.h"
#include <stdint.h>
#include <string.h>
#include <wasm_simd128.h>

/* Most machines that run it have the 16 registers of x86-64. */
#define TIER                    wasm
#define LANES                   4
#define MATMUL_BLOCK_ROWS       4
#define MATMUL_BLOCK_VECS       2
#define PRODUCT_ROWS            3
#define PRODUCT_OPERAND(a)      (a)
#define PRODUCT_OUTS            4
#define GEMV_VECS               8
#define TRANSPOSE               4
#define DECODE_ACCUMULATORS     8
#define ROTATE_HALF_VECS        2
#define ROTATE_INTERLEAVED_VECS 4
#define ROTATE_CROSS_VECS       16

typedef v128_t vec;
typedef v128_t mask;

static inline vec vec_load(const float *p) {
    return wasm_v128_load(p);
}
/* Nothing to do: arithmetic works on registers only. */
static inline vec vec_in_register(vec a) {
    return a;
}
static inline void vec_store(float *p, vec a) {
    wasm_v128_store(p, a);
}
static inline vec vec_set1(float a) {
    return wasm_f32x4_splat(a);
}
static inline vec vec_mul(vec a, vec b) {
    return wasm_f32x4_mul(a, b);
}
static inline vec vec_div(vec a, vec b) {
    return wasm_f32x4_div(a, b);
}
static inline vec vec_add(vec a, vec b) {
    return wasm_f32x4_add(a, b);
}
static inline vec vec_sub(vec a, vec b) {
    return wasm_f32x4_sub(a, b);
}
static inline vec vec_fma(vec a, vec b, vec c) {
    return vec_add(vec_mul(a, b), c);
}
/* pmax(x, y) is x < y ? y : x, so with a NaN it gives its first operand.  vec_max must give the second: swap them. */
static inline vec vec_max(vec a, vec b) {
    return wasm_f32x4_pmax(b, a);
}
static inline vec vec_min(vec a, vec b) {
    return wasm_f32x4_pmin(b, a);
}
static inline mask vec_not_less(vec a, vec b) {
    return wasm_v128_not(wasm_f32x4_lt(a, b));
}
static inline mask vec_not_equal(vec a, vec b) {
    return wasm_f32x4_ne(a, b);
}
static inline vec vec_and_mask(mask m, vec a) {
    return wasm_v128_and(m, a);
}
static inline vec vec_select(mask m, vec yes, vec no) {
    return wasm_v128_bitselect(yes, no, m);
}
/* In the order of vec_reduce_add_each. */
static inline float vec_reduce_add(vec a) {
    const vec x = vec_add(a, wasm_i32x4_shuffle(a, a, 1, 0, 3, 2));
    return wasm_f32x4_extract_lane(x, 0) + wasm_f32x4_extract_lane(x, 2);
}
static inline float vec_reduce_max(vec a) {
    const vec x = vec_max(a, wasm_i32x4_shuffle(a, a, 2, 3, 0, 1));
    return wasm_f32x4_extract_lane(vec_max(x, wasm_i32x4_shuffle(x, x, 1, 0, 3, 2)), 0);
}
static inline vec sum_neighbours(vec a, vec b) {
    return vec_add(wasm_i32x4_shuffle(a, b, 0, 2, 4, 6), wasm_i32x4_shuffle(a, b, 1, 3, 5, 7));
}
/* lane i = the sum of a[i], i < 4, all in the same order. */
static inline vec vec_reduce_add_each(const vec *a) {
    return sum_neighbours(sum_neighbours(a[0], a[1]), sum_neighbours(a[2], a[3]));
}

/* y 2^n by adding to the exponent; n an integer, the result a normal number.  If n is a NaN it converts to 0, and y is a
 * NaN too. */
static inline vec vec_ldexp(vec y, vec n) {
    return wasm_i32x4_add(y, wasm_i32x4_shl(wasm_i32x4_trunc_sat_f32x4(n), 23));
}

static inline void transpose_square(const float *in, int64_t in_row_stride, float *out, int64_t out_row_stride) {
    const vec a = wasm_v128_load(in), b = wasm_v128_load(in + in_row_stride);
    const vec c = wasm_v128_load(in + 2 * in_row_stride), d = wasm_v128_load(in + 3 * in_row_stride);
    const vec ab = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), cd = wasm_i32x4_shuffle(c, d, 0, 4, 1, 5);
    const vec ab2 = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7), cd2 = wasm_i32x4_shuffle(c, d, 2, 6, 3, 7);
    wasm_v128_store(out, wasm_i64x2_shuffle(ab, cd, 0, 2));
    wasm_v128_store(out + out_row_stride, wasm_i64x2_shuffle(ab, cd, 1, 3));
    wasm_v128_store(out + 2 * out_row_stride, wasm_i64x2_shuffle(ab2, cd2, 0, 2));
    wasm_v128_store(out + 3 * out_row_stride, wasm_i64x2_shuffle(ab2, cd2, 1, 3));
}

/* lane i = from[row[i] - low], 0 <= row[i] - low < 4, by a table lookup of bytes. */
static inline vec vec_permute(const float *from, const int32_t *row, int32_t low) {
    const v128_t lane = wasm_i32x4_sub(wasm_v128_load(row), wasm_i32x4_splat(low));
    const v128_t bytes = wasm_i32x4_add(wasm_i32x4_mul(lane, wasm_i32x4_splat(0x04040404)), wasm_i32x4_splat(0x03020100));
    return wasm_i8x16_swizzle(wasm_v128_load(from), bytes);
}

/* -- other types, and pairs of elements -- */
/* The bits below the sign, shifted to their place in a float, are the number times 2^-112, for subnormals too; the product
 * with 2^112 is exact.  Infinities and NaNs have the largest exponent in both types. */
static inline vec vec_load_f16(const uint16_t *p) {
    const v128_t half = wasm_u32x4_load16x4(p), rest = wasm_v128_and(half, wasm_i32x4_splat(0x7fff));
    const v128_t sign = wasm_i32x4_shl(wasm_v128_xor(half, rest), 16);
    const v128_t finite = vec_mul(wasm_i32x4_shl(rest, 13), vec_set1(0x1p112f));
    const v128_t nonfinite = wasm_i32x4_gt(rest, wasm_i32x4_splat(0x7bff));
    return wasm_v128_or(sign, wasm_v128_or(finite, wasm_v128_and(nonfinite, wasm_i32x4_splat(0x7f800000))));
}
/* As gyre_f16_round (half_precision.h): computes every case and selects the right one. */
static inline v128_t f16_round(vec a) {
    const v128_t rest = wasm_v128_and(a, wasm_i32x4_splat(0x7fffffff)), sign = wasm_u32x4_shr(wasm_v128_xor(a, rest), 16);
    const v128_t last = wasm_v128_and(wasm_u32x4_shr(rest, 13), wasm_i32x4_splat(1));
    const v128_t sum = wasm_i32x4_add(wasm_i32x4_add(rest, last), wasm_i32x4_splat(0xfff - 0x38000000));
    const v128_t normal = wasm_u32x4_shr(sum, 13);
    const v128_t subnormal = wasm_i32x4_sub(vec_add(rest, vec_set1(0.5f)), wasm_i32x4_splat(0x3f000000));
    const v128_t payload = wasm_v128_and(wasm_u32x4_shr(rest, 13), wasm_i32x4_splat(0x3ff));
    const v128_t nan = wasm_v128_or(payload, wasm_i32x4_splat(0x7e00));
    v128_t out = wasm_v128_bitselect(subnormal, normal, wasm_i32x4_lt(rest, wasm_i32x4_splat(0x38800000)));
    out = wasm_v128_bitselect(wasm_i32x4_splat(0x7c00), out, wasm_i32x4_ge(rest, wasm_i32x4_splat(0x477ff000)));
    out = wasm_v128_bitselect(nan, out, wasm_i32x4_gt(rest, wasm_i32x4_splat(0x7f800000)));
    return wasm_v128_or(sign, out);
}
/* All lanes = the f16 at p, which needs no alignment. */
static inline vec vec_broadcast_f16(const void *p) {
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return vec_set1(gyre_f16_widen(bits));
}
/* All lanes of *a and *b = the two f16 at p. */
static inline void vec_broadcast_two_f16(const void *p, vec *a, vec *b) {
    *a = vec_broadcast_f16(p);
    *b = vec_broadcast_f16((const char *)p + 2);
}
static inline void vec_store_f16(uint16_t *p, vec a) {
    const v128_t half = f16_round(a);
    wasm_v128_store64_lane(p, wasm_u16x8_narrow_i32x4(half, half), 0);
}
static inline vec vec_load_bf16(const uint16_t *p) {
    return wasm_i32x4_shl(wasm_u32x4_load16x4(p), 16);
}
/* Rounds to nearest even: adds 0x7fff, plus the lowest bit kept; the upper half of each lane is the result.  A NaN could
 * overflow into infinity or into the sign, so it is quieted instead. */
static inline v128_t bf16_round(vec a) {
    const v128_t last = wasm_v128_and(wasm_u32x4_shr(a, 16), wasm_i32x4_splat(1));
    const v128_t rounded = wasm_i32x4_add(wasm_i32x4_add(a, wasm_i32x4_splat(0x7fff)), last);
    return wasm_v128_bitselect(rounded, wasm_v128_or(a, wasm_i32x4_splat(0x400000)), wasm_f32x4_eq(a, a));
}
static inline void vec_store_bf16(uint16_t *p, vec a) {
    const v128_t bf16 = wasm_u32x4_shr(bf16_round(a), 16);
    wasm_v128_store64_lane(p, wasm_u16x8_narrow_i32x4(bf16, bf16), 0);
}
/* 8 elements, split into even and odd places: each 32-bit lane holds two, which are widened in place. */
static inline void vec_load_even_odd_bf16(const uint16_t *p, vec *even, vec *odd) {
    const v128_t both = wasm_v128_load(p);
    *even = wasm_i32x4_shl(both, 16);
    *odd = wasm_v128_and(both, wasm_i32x4_splat((int32_t)0xffff0000));
}
static inline void vec_store_even_odd_bf16(uint16_t *p, vec even, vec odd) {
    const v128_t high = wasm_v128_and(bf16_round(odd), wasm_i32x4_splat((int32_t)0xffff0000));
    wasm_v128_store(p, wasm_v128_or(high, wasm_u32x4_shr(bf16_round(even), 16)));
}
static inline vec vec_load_q8(const int8_t *p) {
    /* the bytes as if they had no sign, 128 more: clang would convert signed ones lane by lane */
    const v128_t bytes = wasm_v128_xor(wasm_v128_load32_zero(p), wasm_i8x16_const_splat(-128));
    const v128_t wide = wasm_u32x4_extend_low_u16x8(wasm_u16x8_extend_low_u8x16(bytes));
    return wasm_f32x4_convert_i32x4(wasm_i32x4_sub(wide, wasm_i32x4_const_splat(128)));
}
/* Swaps neighbours: lanes 1, 0, 3, 2. */
static inline vec vec_swap_pairs(vec a) {
    return wasm_i32x4_shuffle(a, a, 1, 0, 3, 2);
}
/* (a0 b0 a1 b1 ...) in two vectors becomes (a0 a1 ...), (b0 b1 ...); vec_interleave is the inverse. */
static inline void vec_deinterleave(vec *low, vec *high) {
    const vec a = wasm_i32x4_shuffle(*low, *high, 0, 2, 4, 6);
    *high = wasm_i32x4_shuffle(*low, *high, 1, 3, 5, 7);
    *low = a;
}
static inline void vec_interleave(vec *a, vec *b) {
    const vec low = wasm_i32x4_shuffle(*a, *b, 0, 4, 1, 5);
    *b = wasm_i32x4_shuffle(*a, *b, 2, 6, 3, 7);
    *a = low;
}

/* -- doubles -- */
#define VECD_LANES 2
typedef v128_t vecd;
static inline vecd vecd_load(const double *p) {
    return wasm_v128_load(p);
}
static inline vecd vecd_in_register(vecd a) {
    return a;
}
static inline void vecd_store(double *p, vecd a) {
    wasm_v128_store(p, a);
}
static inline vecd vecd_set1(double a) {
    return wasm_f64x2_splat(a);
}
static inline vecd vecd_mul(vecd a, vecd b) {
    return wasm_f64x2_mul(a, b);
}
static inline vecd vecd_fma(vecd a, vecd b, vecd c) {
    return wasm_f64x2_add(wasm_f64x2_mul(a, b), c);
}
static inline vecd vecd_swap(vecd a) {
    return wasm_i64x2_shuffle(a, a, 1, 0);
}
static inline void vecd_deinterleave(vecd *low, vecd *high) {
    const vecd a = wasm_i64x2_shuffle(*low, *high, 0, 2);
    *high = wasm_i64x2_shuffle(*low, *high, 1, 3);
    *low = a;
}
static inline void vecd_interleave(vecd *a, vecd *b) {
    vecd_deinterleave(a, b); /* for 2 x 2 elements both are the same */
}

/* -- 32-bit integers, as many lanes as vec -- */
typedef v128_t vecu;
static inline vecu vecu_load(const uint32_t *p) {
    return wasm_v128_load(p);
}
static inline void vecu_store(uint32_t *p, vecu a) {
    wasm_v128_store(p, a);
}
static inline vecu vecu_set1(uint32_t a) {
    return wasm_u32x4_splat(a);
}
static inline vecu vecu_add(vecu a, vecu b) {
    return wasm_i32x4_add(a, b);
}
static inline vecu vecu_xor(vecu a, vecu b, vecu c) {
    return wasm_v128_xor(wasm_v128_xor(a, b), c);
}
/* out = the low 32 bits of the products; *high = the high 32 bits. */
static inline vecu vecu_mul(vecu a, vecu b, vecu *high) {
    const v128_t first = wasm_u64x2_extmul_low_u32x4(a, b), second = wasm_u64x2_extmul_high_u32x4(a, b);
    *high = wasm_i32x4_shuffle(first, second, 1, 3, 5, 7);
    return wasm_i32x4_shuffle(first, second, 0, 2, 4, 6);
}
/* LANES bytes, each in a lane. */
static inline vecu vecu_load_u8(const unsigned char *p) {
    return wasm_u32x4_extend_low_u16x8(wasm_u16x8_extend_low_u8x16(wasm_v128_load32_zero(p)));
}
static inline vecu vecu_and(vecu a, vecu b) {
    return wasm_v128_and(a, b);
}
static inline vecu vecu_or(vecu a, vecu b) {
    return wasm_v128_or(a, b);
}
static inline vecu vecu_shift_right(vecu a, int bits) {
    return wasm_u32x4_shr(a, (uint32_t)bits);
}
static inline vecu vecu_shift_left(vecu a, int bits) {
    return wasm_i32x4_shl(a, (uint32_t)bits);
}
/* Integers below 2^24 as floats. */
static inline vec vec_from_vecu(vecu a) {
    return wasm_f32x4_convert_i32x4(a);
}
/* Lane l = 16 if bit i + l of the 16 bits is set, else 0.  i: a multiple of LANES. */
static inline vecu vecu_sixteens(uint32_t bits, int i) {
    const v128_t set = wasm_v128_and(wasm_i32x4_splat((int)(bits >> i)), wasm_i32x4_const(1, 2, 4, 8));
    return wasm_i32x4_dot_i16x8(set, wasm_i32x4_const(16, 8, 4, 2)); /* the product that is one instruction of an x86 */
}
/* Entries of a table of 16.  The three upper bytes of a lane become the entry of place 0 and are shifted out. */
static inline vec vec_lookup(const int8_t table[16], vecu i) {
    const v128_t entries = wasm_i8x16_swizzle(wasm_v128_load(table), i);
    return wasm_f32x4_convert_i32x4(wasm_i32x4_shr(wasm_i32x4_shl(entries, 24), 24));
}

#endif
