/* vec_neon.h: the kernels' vocabulary in the Advanced SIMD that every AArch64 has, four floats at a time. */
#ifndef GYRE_KERNELS_VEC_NEON_H
#define GYRE_KERNELS_VEC_NEON_H
#include "kernels/half_precision.h"
#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

/* There are 32 registers: 24 accumulators leave eight for a row of b and an element of a. */
#define TIER                    neon
#define LANES                   4
#define MATMUL_BLOCK_ROWS       6
#define MATMUL_BLOCK_VECS       4
#define PRODUCT_ROWS            4
#define PRODUCT_OPERAND(a)      vec_in_register(a)
#define PRODUCT_OUTS            6
#define GEMV_VECS               8
#define TRANSPOSE               4
#define DECODE_ACCUMULATORS     16
#define ROTATE_HALF_VECS        4
#define ROTATE_INTERLEAVED_VECS 8
#define ROTATE_CROSS_VECS       16

typedef float32x4_t vec;
typedef uint32x4_t mask;

static inline vec vec_load(const float *p) {
    return vld1q_f32(p);
}
/* Nothing to do: arithmetic works on registers only. */
static inline vec vec_in_register(vec a) {
    return a;
}
static inline void vec_store(float *p, vec a) {
    vst1q_f32(p, a);
}
static inline vec vec_set1(float a) {
    return vdupq_n_f32(a);
}
static inline vec vec_fma(vec a, vec b, vec c) {
    return vfmaq_f32(c, a, b);
}
static inline vec vec_mul(vec a, vec b) {
    return vmulq_f32(a, b);
}
static inline vec vec_div(vec a, vec b) {
    return vdivq_f32(a, b);
}
static inline vec vec_add(vec a, vec b) {
    return vaddq_f32(a, b);
}
static inline vec vec_sub(vec a, vec b) {
    return vsubq_f32(a, b);
}
/* With a NaN operand, FMAX and FMIN give the NaN, FMAXNM and FMINNM the other operand.  vec_max must give the second. */
static inline vec vec_max(vec a, vec b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}
static inline vec vec_min(vec a, vec b) {
    return vbslq_f32(vcltq_f32(a, b), a, b);
}
static inline mask vec_not_less(vec a, vec b) {
    return vmvnq_u32(vcltq_f32(a, b));
}
static inline mask vec_not_equal(vec a, vec b) {
    return vmvnq_u32(vceqq_f32(a, b));
}
static inline vec vec_and_mask(mask m, vec a) {
    return vreinterpretq_f32_u32(vandq_u32(m, vreinterpretq_u32_f32(a)));
}
static inline vec vec_select(mask m, vec yes, vec no) {
    return vbslq_f32(m, yes, no);
}
/* In the order of vec_reduce_add_each. */
static inline float vec_reduce_add(vec a) {
    return vaddvq_f32(a);
}
static inline float vec_reduce_max(vec a) {
    return vmaxvq_f32(a);
}
/* lane i = the sum of a[i], i < 4, all in the same order. */
static inline vec vec_reduce_add_each(const vec *a) {
    return vpaddq_f32(vpaddq_f32(a[0], a[1]), vpaddq_f32(a[2], a[3]));
}

/* y 2^n by adding to the exponent; n an integer, the result a normal number.  If n is a NaN it converts to 0, and y is a
 * NaN too. */
static inline vec vec_ldexp(vec y, vec n) {
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(y), vshlq_n_s32(vcvtq_s32_f32(n), 23)));
}

static inline void transpose_square(const float *in, int64_t in_row_stride, float *out, int64_t out_row_stride) {
    const float32x4x2_t a = vtrnq_f32(vld1q_f32(in), vld1q_f32(in + in_row_stride));
    const float32x4x2_t b = vtrnq_f32(vld1q_f32(in + 2 * in_row_stride), vld1q_f32(in + 3 * in_row_stride));
    for (int i = 0; i < 2; i++) {
        const float64x2_t x = vreinterpretq_f64_f32(a.val[i]), y = vreinterpretq_f64_f32(b.val[i]);
        vst1q_f32(out + i * out_row_stride, vreinterpretq_f32_f64(vzip1q_f64(x, y)));
        vst1q_f32(out + (i + 2) * out_row_stride, vreinterpretq_f32_f64(vzip2q_f64(x, y)));
    }
}

/* lane i = from[row[i] - low], 0 <= row[i] - low < 4, by a table lookup of bytes. */
static inline vec vec_permute(const float *from, const int32_t *row, int32_t low) {
    const uint32x4_t lane = vreinterpretq_u32_s32(vsubq_s32(vld1q_s32(row), vdupq_n_s32(low)));
    const uint32x4_t bytes = vmlaq_u32(vdupq_n_u32(0x03020100), lane, vdupq_n_u32(0x04040404));
    return vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(vld1q_f32(from)), vreinterpretq_u8_u32(bytes)));
}

/* -- other types, and pairs of elements -- */
/* FCVTL and FCVTN are in the first version of the architecture; only f16 arithmetic came later. */
static inline vec vec_load_f16(const uint16_t *p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
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
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a)));
}
static inline vec vec_load_bf16(const uint16_t *p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
/* Rounds to nearest even: adds 0x7fff, plus the lowest bit kept; the upper half of each lane is the result.  A NaN could
 * overflow into infinity or into the sign, so it is quieted instead. */
static inline uint32x4_t bf16_round(vec a) {
    const uint32x4_t bits = vreinterpretq_u32_f32(a), last = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), last);
    return vbslq_u32(vceqq_f32(a, a), rounded, vorrq_u32(bits, vdupq_n_u32(0x400000)));
}
static inline void vec_store_bf16(uint16_t *p, vec a) {
    vst1_u16(p, vshrn_n_u32(bf16_round(a), 16));
}
/* 8 elements, split into even and odd places: each 32-bit lane holds two, which are widened in place. */
static inline void vec_load_even_odd_bf16(const uint16_t *p, vec *even, vec *odd) {
    const uint32x4_t both = vreinterpretq_u32_u16(vld1q_u16(p));
    *even = vreinterpretq_f32_u32(vshlq_n_u32(both, 16));
    *odd = vreinterpretq_f32_u32(vandq_u32(both, vdupq_n_u32(0xffff0000u)));
}
static inline void vec_store_even_odd_bf16(uint16_t *p, vec even, vec odd) {
    vst1q_u16(p, vreinterpretq_u16_u32(vsriq_n_u32(bf16_round(odd), bf16_round(even), 16)));
}
static inline vec vec_load_q8(const int8_t *p) {
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(four))))));
}
/* Swaps neighbours: lanes 1, 0, 3, 2. */
static inline vec vec_swap_pairs(vec a) {
    return vrev64q_f32(a);
}
/* (a0 b0 a1 b1 ...) in two vectors becomes (a0 a1 ...), (b0 b1 ...); vec_interleave is the inverse. */
static inline void vec_deinterleave(vec *low, vec *high) {
    const vec a = vuzp1q_f32(*low, *high);
    *high = vuzp2q_f32(*low, *high);
    *low = a;
}
static inline void vec_interleave(vec *a, vec *b) {
    const vec low = vzip1q_f32(*a, *b);
    *b = vzip2q_f32(*a, *b);
    *a = low;
}

/* -- doubles -- */
#define VECD_LANES 2
typedef float64x2_t vecd;
static inline vecd vecd_load(const double *p) {
    return vld1q_f64(p);
}
static inline vecd vecd_in_register(vecd a) {
    return a;
}
static inline void vecd_store(double *p, vecd a) {
    vst1q_f64(p, a);
}
static inline vecd vecd_set1(double a) {
    return vdupq_n_f64(a);
}
static inline vecd vecd_mul(vecd a, vecd b) {
    return vmulq_f64(a, b);
}
static inline vecd vecd_fma(vecd a, vecd b, vecd c) {
    return vfmaq_f64(c, a, b);
}
static inline vecd vecd_swap(vecd a) {
    return vextq_f64(a, a, 1);
}
static inline void vecd_deinterleave(vecd *low, vecd *high) {
    const vecd a = vuzp1q_f64(*low, *high);
    *high = vuzp2q_f64(*low, *high);
    *low = a;
}
static inline void vecd_interleave(vecd *a, vecd *b) {
    const vecd low = vzip1q_f64(*a, *b);
    *b = vzip2q_f64(*a, *b);
    *a = low;
}

/* -- 32-bit integers, as many lanes as vec -- */
typedef uint32x4_t vecu;
static inline vecu vecu_load(const uint32_t *p) {
    return vld1q_u32(p);
}
static inline void vecu_store(uint32_t *p, vecu a) {
    vst1q_u32(p, a);
}
static inline vecu vecu_set1(uint32_t a) {
    return vdupq_n_u32(a);
}
static inline vecu vecu_add(vecu a, vecu b) {
    return vaddq_u32(a, b);
}
static inline vecu vecu_xor(vecu a, vecu b, vecu c) {
    return veorq_u32(veorq_u32(a, b), c);
}
/* out = the low 32 bits of the products; *high = the high 32 bits. */
static inline vecu vecu_mul(vecu a, vecu b, vecu *high) {
    const uint32x4_t first = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(a), vget_low_u32(b)));
    const uint32x4_t second = vreinterpretq_u32_u64(vmull_high_u32(a, b));
    *high = vuzp2q_u32(first, second);
    return vuzp1q_u32(first, second);
}
/* LANES bytes, each in a lane. */
static inline vecu vecu_load_u8(const unsigned char *p) {
    uint32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(bytes)))));
}
static inline vecu vecu_and(vecu a, vecu b) {
    return vandq_u32(a, b);
}
static inline vecu vecu_or(vecu a, vecu b) {
    return vorrq_u32(a, b);
}
static inline vecu vecu_shift_right(vecu a, int bits) {
    return vshlq_u32(a, vdupq_n_s32(-bits));
}
static inline vecu vecu_shift_left(vecu a, int bits) {
    return vshlq_u32(a, vdupq_n_s32(bits));
}
/* Integers below 2^24 as floats. */
static inline vec vec_from_vecu(vecu a) {
    return vcvtq_f32_u32(a);
}
/* Lane l = 16 if bit i + l of the 16 bits is set, else 0.  i: a multiple of LANES. */
static inline vecu vecu_sixteens(uint32_t bits, int i) {
    static const int32_t by[16] = {0, -1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12, -13, -14, -15};
    return vandq_u32(vshlq_u32(vdupq_n_u32(bits << 4), vld1q_s32(by + i)), vdupq_n_u32(16));
}
/* Entries of a table of 16.  The three upper bytes of a lane become the entry of place 0 and are shifted out. */
static inline vec vec_lookup(const int8_t table[16], vecu i) {
    const int8x16_t entries = vqtbl1q_s8(vld1q_s8(table), vreinterpretq_u8_u32(i));
    return vcvtq_f32_s32(vshrq_n_s32(vshlq_n_s32(vreinterpretq_s32_s8(entries), 24), 24));
}

#endif
