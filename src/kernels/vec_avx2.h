/* vec_avx2.h: the kernels' vocabulary in AVX2 with FMA and F16C, eight floats at a time. */
#ifndef GYRE_KERNELS_VEC_AVX2_H
#define GYRE_KERNELS_VEC_AVX2_H
#include "kernels/transpose_avx.h"
#include <immintrin.h>
#include <string.h>

#define TIER                    avx2
#define LANES                   8
#define MATMUL_BLOCK_ROWS       6
#define MATMUL_BLOCK_VECS       2
#define PRODUCT_ROWS            3
#define PRODUCT_OPERAND(a)      (a)
#define PRODUCT_OUTS            4
#define GEMV_VECS               8
#define DECODE_ACCUMULATORS     8
#define ROTATE_HALF_VECS        2
#define ROTATE_INTERLEAVED_VECS 4
#define ROTATE_CROSS_VECS       8

typedef __m256 vec;
typedef __m256 mask;

static inline vec vec_load(const float *p) {
    return _mm256_loadu_ps(p);
}
/* Keeps a value in a register: GCC would otherwise load it again for each use. */
static inline vec vec_in_register(vec a) {
    __asm__("" : "+x"(a));
    return a;
}
static inline void vec_store(float *p, vec a) {
    _mm256_storeu_ps(p, a);
}
/* The first n elements, 0 < n < LANES, and zeros after them. */
#define VEC_LOAD_FIRST
static inline __m256i vec_first(int64_t n) {
    static const int32_t lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(const void *)(lanes + 8 - n));
}
static inline vec vec_load_first(const void *p, int64_t n) {
    return _mm256_maskload_ps(p, vec_first(n));
}
static inline void vec_store_first(void *p, vec a, int64_t n) {
    _mm256_maskstore_ps(p, vec_first(n), a);
}
/* Past the caches: a whole line is written without being read first.  p is a multiple of the bytes written.  Another thread
 * may read them after vec_stream_end. */
#define VEC_STREAM 1
static inline void vec_stream(float *p, vec a) {
    _mm256_stream_ps(p, a);
}
static inline void vec_stream_end(void) {
    _mm_sfence();
}
static inline vec vec_set1(float a) {
    return _mm256_set1_ps(a);
}
static inline vec vec_fma(vec a, vec b, vec c) {
    return _mm256_fmadd_ps(a, b, c);
}
#define VEC_FMS
static inline vec vec_fms(vec a, vec b, vec c) {
    return _mm256_fmsub_ps(a, b, c);
}
static inline vec vec_mul(vec a, vec b) {
    return _mm256_mul_ps(a, b);
}
static inline vec vec_div(vec a, vec b) {
    return _mm256_div_ps(a, b);
}
static inline vec vec_add(vec a, vec b) {
    return _mm256_add_ps(a, b);
}
static inline vec vec_sub(vec a, vec b) {
    return _mm256_sub_ps(a, b);
}
static inline vec vec_max(vec a, vec b) {
    return _mm256_max_ps(a, b);
}
static inline vec vec_min(vec a, vec b) {
    return _mm256_min_ps(a, b);
}
static inline mask vec_not_less(vec a, vec b) {
    return _mm256_cmp_ps(a, b, _CMP_NLT_UQ);
}
static inline mask vec_not_equal(vec a, vec b) {
    return _mm256_cmp_ps(a, b, _CMP_NEQ_UQ);
}
static inline vec vec_and_mask(mask m, vec a) {
    return _mm256_and_ps(m, a);
}
static inline vec vec_select(mask m, vec yes, vec no) {
    return _mm256_blendv_ps(no, yes, m);
}

/* y 2^n by adding to the exponent; n an integer, the result a normal number.  A NaN n converts to 2^31, which shifts out. */
static inline vec vec_ldexp(vec y, vec n) {
    const __m256i power = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), power));
}

/* In the order of vec_reduce_add_each. */
static inline float vec_reduce_add(vec a) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

static inline float vec_reduce_max(vec a) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}
/* lane i = the sum of a[i], i < 8, all in the same order.  Each step merges two vectors into one: a blend takes half the
 * lanes of each, and a shuffle puts the other halves where they are added. */
static inline vec vec_reduce_add_each(const vec *a) {
    vec x[4];
    for (int i = 0; i < 4; i++)
        x[i] = _mm256_add_ps(_mm256_blend_ps(a[i], a[i + 4], 0xF0), _mm256_permute2f128_ps(a[i], a[i + 4], 0x21));
    for (int i = 0; i < 2; i++)
        x[i] = _mm256_add_ps(_mm256_blend_ps(x[i], x[i + 2], 0xCC), _mm256_shuffle_ps(x[i], x[i + 2], 0x4E));
    const vec crossed = _mm256_blend_ps(x[1], x[0], 0xAA);
    return _mm256_add_ps(_mm256_blend_ps(x[0], x[1], 0xAA), _mm256_permute_ps(crossed, 0xB1));
}

/* lane i = from[row[i] - low] */
static inline vec vec_permute(const float *from, const int32_t *row, int32_t low) {
    const __m256i at = _mm256_sub_epi32(_mm256_loadu_si256((const __m256i *)(const void *)row), _mm256_set1_epi32(low));
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(from), at);
}

/* -- other types, and pairs of elements -- */
static inline vec vec_load_f16(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
/* All lanes = the f16 at p, which needs no alignment. */
static inline vec vec_broadcast_f16(const void *p) {
    int16_t bits;
    memcpy(&bits, p, sizeof bits);
    return _mm256_cvtph_ps(_mm_set1_epi16(bits));
}
/* All lanes of *a and *b = the two f16 at p. */
static inline void vec_broadcast_two_f16(const void *p, vec *a, vec *b) {
    *a = vec_broadcast_f16(p);
    *b = vec_broadcast_f16((const char *)p + 2);
}
static inline void vec_stream_f16(uint16_t *p, vec a) {
    _mm_stream_si128((__m128i *)(void *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
static inline void vec_store_f16(uint16_t *p, vec a) {
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
static inline vec vec_load_bf16(const uint16_t *p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
/* Rounds to nearest even: adds 0x7fff, plus the lowest bit kept, before the low 16 bits are dropped.  NaNs are quieted. */
static inline void vec_store_bf16(uint16_t *p, vec a) {
    const __m256i bits = _mm256_castps_si256(a), last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(last, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
    const __m128i narrow = _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
    _mm_storeu_si128((__m128i *)(void *)p, narrow);
}
/* 16 elements, split into even and odd places: each 32-bit lane holds two, which are widened in place. */
static inline void vec_load_even_odd_bf16(const uint16_t *p, vec *even, vec *odd) {
    const __m256i both = _mm256_loadu_si256((const __m256i *)(const void *)p);
    *even = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
    *odd = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32((int)0xffff0000)));
}
/* Rounds by adding half a unit of the last place before the low 16 bits are dropped.  That is wrong only for ties and NaNs.
 * If a lane has one, which is rare, all lanes go through vec_store_bf16. */
static inline void vec_store_even_odd_bf16(uint16_t *p, vec even, vec odd) {
    const __m256i half = _mm256_set1_epi32(0x8000);
    const __m256i e = _mm256_add_epi32(_mm256_castps_si256(even), half),
                  o = _mm256_add_epi32(_mm256_castps_si256(odd), half);
    const __m256i cut = _mm256_blend_epi16(e, _mm256_slli_epi32(o, 16), 0xAA);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(even, odd, _CMP_UNORD_Q));
    const __m256i rare = _mm256_or_si256(_mm256_cmpeq_epi16(cut, _mm256_setzero_si256()), nan);
    if (__builtin_expect(!_mm256_testz_si256(rare, rare), 0)) {
        uint16_t some[2][LANES];
        vec_store_bf16(some[0], even);
        vec_store_bf16(some[1], odd);
        for (int i = 0; i < 2 * LANES; i++)
            p[i] = some[i % 2][i / 2];
        return;
    }
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_blend_epi16(o, _mm256_srli_epi32(e, 16), 0x55));
}
static inline vec vec_load_q8(const int8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
/* Swaps neighbours: lanes 1, 0, 3, 2, ... */
static inline vec vec_swap_pairs(vec a) {
    return _mm256_permute_ps(a, 0xB1);
}
/* (a0 b0 a1 b1 ...) in two vectors becomes (a0 a1 ...), (b0 b1 ...); vec_interleave is the inverse. */
static inline void vec_deinterleave(vec *low, vec *high) {
    const __m256 a = _mm256_shuffle_ps(*low, *high, 0x88), b = _mm256_shuffle_ps(*low, *high, 0xDD);
    *low = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(a), 0xD8));
    *high = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(b), 0xD8));
}
static inline void vec_interleave(vec *a, vec *b) {
    const __m256 low = _mm256_unpacklo_ps(*a, *b), high = _mm256_unpackhi_ps(*a, *b);
    *a = _mm256_permute2f128_ps(low, high, 0x20);
    *b = _mm256_permute2f128_ps(low, high, 0x31);
}

/* -- doubles -- */
#define VECD_LANES 4
typedef __m256d vecd;
static inline vecd vecd_load(const double *p) {
    return _mm256_loadu_pd(p);
}
static inline void vecd_store(double *p, vecd a) {
    _mm256_storeu_pd(p, a);
}
static inline vecd vecd_in_register(vecd a) {
    __asm__("" : "+x"(a));
    return a;
}
static inline vecd vecd_set1(double a) {
    return _mm256_set1_pd(a);
}
static inline vecd vecd_mul(vecd a, vecd b) {
    return _mm256_mul_pd(a, b);
}
static inline vecd vecd_fma(vecd a, vecd b, vecd c) {
    return _mm256_fmadd_pd(a, b, c);
}
static inline vecd vecd_swap(vecd a) {
    return _mm256_permute_pd(a, 0x5);
}
static inline void vecd_deinterleave(vecd *low, vecd *high) {
    const __m256d a = _mm256_unpacklo_pd(*low, *high), b = _mm256_unpackhi_pd(*low, *high);
    *low = _mm256_permute4x64_pd(a, 0xD8);
    *high = _mm256_permute4x64_pd(b, 0xD8);
}
static inline void vecd_interleave(vecd *a, vecd *b) {
    const __m256d low = _mm256_unpacklo_pd(*a, *b), high = _mm256_unpackhi_pd(*a, *b);
    *a = _mm256_permute2f128_pd(low, high, 0x20);
    *b = _mm256_permute2f128_pd(low, high, 0x31);
}

/* -- 32-bit integers, as many lanes as vec -- */
typedef __m256i vecu;
static inline vecu vecu_load(const uint32_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
static inline void vecu_store(uint32_t *p, vecu a) {
    _mm256_storeu_si256((__m256i *)(void *)p, a);
}
static inline vecu vecu_set1(uint32_t a) {
    return _mm256_set1_epi32((int)a);
}
static inline vecu vecu_add(vecu a, vecu b) {
    return _mm256_add_epi32(a, b);
}
static inline vecu vecu_xor(vecu a, vecu b, vecu c) {
    return _mm256_xor_si256(_mm256_xor_si256(a, b), c);
}
/* out = the low 32 bits of the products; *high = the high 32 bits. */
static inline vecu vecu_mul(vecu a, vecu b, vecu *high) {
    const __m256i even = _mm256_mul_epu32(a, b), odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}
/* LANES bytes, each in a lane. */
static inline vecu vecu_load_u8(const unsigned char *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
static inline vecu vecu_and(vecu a, vecu b) {
    return _mm256_and_si256(a, b);
}
static inline vecu vecu_or(vecu a, vecu b) {
    return _mm256_or_si256(a, b);
}
static inline vecu vecu_shift_right(vecu a, int bits) {
    return _mm256_srli_epi32(a, bits);
}
static inline vecu vecu_shift_left(vecu a, int bits) {
    return _mm256_slli_epi32(a, bits);
}
/* Integers below 2^24 as floats. */
static inline vec vec_from_vecu(vecu a) {
    return _mm256_cvtepi32_ps(a);
}
/* Lane l = 16 if bit i + l of the 16 bits is set, else 0.  i: a multiple of LANES. */
static inline vecu vecu_sixteens(uint32_t bits, int i) {
    static const int32_t places[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const __m256i by = _mm256_loadu_si256((const __m256i *)(const void *)(places + i));
    return _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32((int)(bits << 4)), by), _mm256_set1_epi32(16));
}
/* Entries of a table of 16. */
static inline vec vec_lookup(const int8_t table[16], vecu i) {
    const __m256 low = _mm256_permutevar8x32_ps(vec_load_q8(table), i);
    const __m256 high = _mm256_permutevar8x32_ps(vec_load_q8(table + 8), i);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(i, 28))); /* by bit 3 of i */
}

#endif
