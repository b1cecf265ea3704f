/* vec_avx512.h: the kernels' vocabulary in AVX-512 (F, BW, VL, DQ), sixteen floats at a time. */
#ifndef GYRE_KERNELS_VEC_AVX512_H
#define GYRE_KERNELS_VEC_AVX512_H
#include "kernels/transpose_avx.h"
#include <immintrin.h>
#include <string.h>

#ifndef TIER /* the tiers above this one define their own names */
#define TIER avx512
#endif
#define LANES                   16
#define MATMUL_BLOCK_ROWS       8
#define MATMUL_BLOCK_VECS       2
#define PRODUCT_ROWS            4
#define PRODUCT_OPERAND(a)      vec_in_register(a)
#define PRODUCT_OUTS            6
#define GEMV_VECS               4
#define DECODE_ACCUMULATORS     16
#define ROTATE_HALF_VECS        4
#define ROTATE_INTERLEAVED_VECS 8
#define ROTATE_CROSS_VECS       4

typedef __m512 vec;
typedef __mmask16 mask;

static inline vec vec_load(const float *p) {
    return _mm512_loadu_ps(p);
}
/* Keeps a value in a register: GCC would otherwise load it again for each use. */
static inline vec vec_in_register(vec a) {
    __asm__("" : "+v"(a));
    return a;
}
static inline void vec_store(float *p, vec a) {
    _mm512_storeu_ps(p, a);
}
/* The first n elements, 0 < n < LANES, and zeros after them. */
#define VEC_LOAD_FIRST
static inline vec vec_load_first(const void *p, int64_t n) {
    return _mm512_maskz_loadu_ps((__mmask16)((1U << n) - 1), p);
}
static inline void vec_store_first(void *p, vec a, int64_t n) {
    _mm512_mask_storeu_ps(p, (__mmask16)((1U << n) - 1), a);
}
/* Halves and quarters of a vector, without a mask: a masked store holds up loads from any of its 64 bytes. */
#define VEC_LOAD_PARTS
static inline vec vec_load_half(const void *p) {
    return _mm512_zextps256_ps512(_mm256_loadu_ps(p));
}
static inline vec vec_load_quarter(const void *p) {
    return _mm512_zextps128_ps512(_mm_loadu_ps(p));
}
static inline void vec_store_half(void *p, vec a) {
    _mm256_storeu_ps(p, _mm512_castps512_ps256(a));
}
static inline void vec_store_quarter(void *p, vec a) {
    _mm_storeu_ps(p, _mm512_castps512_ps128(a));
}
#define VEC_LOAD_FIRST_16
static inline vec vec_load_first_f16(const void *p, int64_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)((1U << n) - 1), p));
}
static inline vec vec_load_first_bf16(const void *p, int64_t n) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16((__mmask16)((1U << n) - 1), p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
/* Past the caches: a whole line is written without being read first.  p is a multiple of the bytes written.  Another thread
 * may read them after vec_stream_end. */
#define VEC_STREAM 1
static inline void vec_stream(float *p, vec a) {
    _mm512_stream_ps(p, a);
}
static inline void vec_stream_end(void) {
    _mm_sfence();
}
static inline vec vec_set1(float a) {
    return _mm512_set1_ps(a);
}
static inline vec vec_fma(vec a, vec b, vec c) {
    return _mm512_fmadd_ps(a, b, c);
}
#define VEC_FMS
static inline vec vec_fms(vec a, vec b, vec c) {
    return _mm512_fmsub_ps(a, b, c);
}
static inline vec vec_mul(vec a, vec b) {
    return _mm512_mul_ps(a, b);
}
static inline vec vec_div(vec a, vec b) {
    return _mm512_div_ps(a, b);
}
static inline vec vec_add(vec a, vec b) {
    return _mm512_add_ps(a, b);
}
static inline vec vec_sub(vec a, vec b) {
    return _mm512_sub_ps(a, b);
}
static inline vec vec_max(vec a, vec b) {
    return _mm512_max_ps(a, b);
}
static inline vec vec_min(vec a, vec b) {
    return _mm512_min_ps(a, b);
}
static inline mask vec_not_less(vec a, vec b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ);
}
static inline mask vec_not_equal(vec a, vec b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ);
}
static inline vec vec_and_mask(mask m, vec a) {
    return _mm512_maskz_mov_ps(m, a);
}
static inline vec vec_select(mask m, vec yes, vec no) {
    return _mm512_mask_mov_ps(no, m, yes);
}
static inline vec vec_ldexp(vec y, vec n) {
    return _mm512_scalef_ps(y, n);
}
/* In the order of vec_reduce_add_each. */
static inline float vec_reduce_add(vec a) {
    const __m256 y = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
static inline float vec_reduce_max(vec a) {
    return _mm512_reduce_max_ps(a);
}
/* lane i = the sum of a[i], i < 16, all in the same order.  Each step merges two vectors into one: a mask takes half the
 * lanes of each, and a shuffle puts the other halves where they are added. */
static inline vec vec_reduce_add_each(const vec *a) {
    vec x[8];
    for (int i = 0; i < 8; i++)
        x[i] = _mm512_add_ps(_mm512_mask_mov_ps(a[i], 0xFF00, a[i + 8]), _mm512_shuffle_f32x4(a[i], a[i + 8], 0x4E));
    for (int i = 0; i < 4; i++) {
        const vec crossed = _mm512_mask_mov_ps(x[i + 4], 0xF0F0, x[i]);
        x[i] = _mm512_add_ps(_mm512_mask_mov_ps(x[i], 0xF0F0, x[i + 4]), _mm512_shuffle_f32x4(crossed, crossed, 0xB1));
    }
    for (int i = 0; i < 2; i++)
        x[i] = _mm512_add_ps(_mm512_mask_mov_ps(x[i], 0xCCCC, x[i + 2]), _mm512_shuffle_ps(x[i], x[i + 2], 0x4E));
    const vec crossed = _mm512_mask_mov_ps(x[1], 0xAAAA, x[0]);
    return _mm512_add_ps(_mm512_mask_mov_ps(x[0], 0xAAAA, x[1]), _mm512_permute_ps(crossed, 0xB1));
}
/* lane i = the sum of a[i], i < 8, in the order of vec_reduce_add_each; the other lanes are not used. */
#define VEC_REDUCE_HALF
static inline vec vec_reduce_add_half(const vec *a) {
    vec x[4];
    for (int i = 0; i < 4; i++)
        x[i] = _mm512_add_ps(_mm512_mask_mov_ps(a[i], 0xFF00, a[i + 4]), _mm512_shuffle_f32x4(a[i], a[i + 4], 0x4E));
    for (int i = 0; i < 2; i++) {
        const vec crossed = _mm512_mask_mov_ps(x[i + 2], 0xF0F0, x[i]);
        x[i] = _mm512_add_ps(_mm512_mask_mov_ps(x[i], 0xF0F0, x[i + 2]), _mm512_shuffle_f32x4(crossed, crossed, 0xB1));
    }
    x[0] = _mm512_add_ps(_mm512_mask_mov_ps(x[0], 0xCCCC, x[1]), _mm512_shuffle_ps(x[0], x[1], 0x4E));
    x[0] = _mm512_add_ps(x[0], _mm512_permute_ps(x[0], 0xB1));
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 0, 2, 4, 6, 8, 10, 12, 14), x[0]);
}

/* lane i = from[row[i] - low] */
static inline vec vec_permute(const float *from, const int32_t *row, int32_t low) {
    const __m512i at = _mm512_sub_epi32(_mm512_loadu_si512(row), _mm512_set1_epi32(low));
    return _mm512_permutexvar_ps(at, _mm512_loadu_ps(from));
}

/* -- other types, and pairs of elements -- */
static inline vec vec_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
/* All lanes = the f16 at p, which needs no alignment. */
static inline vec vec_broadcast_f16(const void *p) {
    int16_t bits;
    memcpy(&bits, p, sizeof bits);
    return _mm512_cvtph_ps(_mm256_set1_epi16(bits));
}
/* All lanes of *a and *b = the two f16 at p.  The floats are read back from memory, where a broadcast costs no shuffle. */
static inline void vec_broadcast_two_f16(const void *p, vec *a, vec *b) {
    float both[2];
    int32_t bits;
    memcpy(&bits, p, sizeof bits);
    _mm_storel_pi((__m64 *)(void *)both, _mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
    __asm__("" : "+m"(both));
    *a = _mm512_set1_ps(both[0]);
    *b = _mm512_set1_ps(both[1]);
}
static inline void vec_stream_f16(uint16_t *p, vec a) {
    _mm256_stream_si256((__m256i *)(void *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
static inline void vec_store_f16(uint16_t *p, vec a) {
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
static inline vec vec_load_bf16(const uint16_t *p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
/* 32 elements, split into even and odd places: each 32-bit lane holds two, which are widened in place. */
static inline void vec_load_even_odd_bf16(const uint16_t *p, vec *even, vec *odd) {
    const __m512i both = _mm512_loadu_si512(p);
    *even = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
    *odd = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32((int)0xffff0000)));
}
/* 32 elements in order. */
#define VEC_CONSECUTIVE_BF16
static inline void vec_load_consecutive_bf16(const uint16_t *p, vec *a, vec *b) {
    *a = vec_load_bf16(p);
    *b = vec_load_bf16(p + LANES);
}

/* Rounds to nearest even by integer operations; the upper half of each lane is the result.  NaNs are quieted. */
static inline __m512i bf16_round(vec a) {
    const __m512i bits = _mm512_castps_si512(a), last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(last, _mm512_set1_epi32(0x7fff)));
    const __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
}
/* out = the upper halves of a and b, alternating (interleave), or all of a before all of b (concat). */
static inline __m512i bf16_interleave(__m512i a, __m512i b) {
    return _mm512_mask_blend_epi16(0x55555555, b, _mm512_srli_epi32(a, 16));
}
static inline __m512i bf16_concat(__m512i a, __m512i b) {
    const __m512i odd = _mm512_setr_epi32(0x030001, 0x070005, 0x0b0009, 0x0f000d, 0x130011, 0x170015, 0x1b0019, 0x1f001d,
                                          0x230021, 0x270025, 0x2b0029, 0x2f002d, 0x330031, 0x370035, 0x3b0039, 0x3f003d);
    return _mm512_permutex2var_epi16(a, odd, b);
}
#ifdef BF16_INSTRUCTIONS
#include "kernels/bf16_avx512.h"
#else
static inline void vec_store_bf16(uint16_t *p, vec a) {
    const __m512i out = _mm512_srli_epi32(bf16_round(a), 16);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(out));
}
/* Rounds by adding half a unit of the last place before the low 16 bits are dropped.  That is wrong only for ties and NaNs.
 * If a lane has one, which is rare, all lanes go through bf16_round. */
static inline void bf16_round_two(vec a, vec b, __m512i *x, __m512i *y) {
    const __m512i half = _mm512_set1_epi32(0x8000);
    const __mmask32 low = 0x55555555;
    *x = _mm512_add_epi32(_mm512_castps_si512(a), half);
    *y = _mm512_add_epi32(_mm512_castps_si512(b), half);
    const __mmask32 ties = _mm512_mask_testn_epi16_mask(low, *x, *x), others = _mm512_mask_testn_epi16_mask(low, *y, *y);
    const __mmask16 nan = _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
    if (__builtin_expect(ties | others | nan, 0)) {
        *x = bf16_round(a);
        *y = bf16_round(b);
    }
}
static inline void vec_store_even_odd_bf16(uint16_t *p, vec even, vec odd) {
    __m512i e, o;
    bf16_round_two(even, odd, &e, &o);
    _mm512_storeu_si512(p, bf16_interleave(e, o));
}
static inline void vec_store_consecutive_bf16(uint16_t *p, vec a, vec b) {
    __m512i x, y;
    bf16_round_two(a, b, &x, &y);
    _mm512_storeu_si512(p, bf16_concat(x, y));
}
#endif
static inline vec vec_load_q8(const int8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
/* Swaps neighbours: lanes 1, 0, 3, 2, ... */
static inline vec vec_swap_pairs(vec a) {
    return _mm512_permute_ps(a, 0xB1);
}
/* (a0 b0 a1 b1 ...) in two vectors becomes (a0 a1 ...), (b0 b1 ...); vec_interleave is the inverse. */
static inline void vec_deinterleave(vec *low, vec *high) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512 a = _mm512_permutex2var_ps(*low, even, *high);
    *high = _mm512_permutex2var_ps(*low, _mm512_add_epi32(even, _mm512_set1_epi32(1)), *high);
    *low = a;
}
static inline void vec_interleave(vec *a, vec *b) {
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512 low = _mm512_permutex2var_ps(*a, first, *b);
    *b = _mm512_permutex2var_ps(*a, _mm512_add_epi32(first, _mm512_set1_epi32(8)), *b);
    *a = low;
}

/* -- doubles -- */
#define VECD_LANES 8
typedef __m512d vecd;
static inline vecd vecd_load(const double *p) {
    return _mm512_loadu_pd(p);
}
static inline void vecd_store(double *p, vecd a) {
    _mm512_storeu_pd(p, a);
}
static inline vecd vecd_in_register(vecd a) {
    __asm__("" : "+v"(a));
    return a;
}
static inline vecd vecd_set1(double a) {
    return _mm512_set1_pd(a);
}
static inline vecd vecd_mul(vecd a, vecd b) {
    return _mm512_mul_pd(a, b);
}
static inline vecd vecd_fma(vecd a, vecd b, vecd c) {
    return _mm512_fmadd_pd(a, b, c);
}
static inline vecd vecd_swap(vecd a) {
    return _mm512_permute_pd(a, 0x55);
}
static inline void vecd_deinterleave(vecd *low, vecd *high) {
    const __m512i even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    const __m512d a = _mm512_permutex2var_pd(*low, even, *high);
    *high = _mm512_permutex2var_pd(*low, _mm512_add_epi64(even, _mm512_set1_epi64(1)), *high);
    *low = a;
}
static inline void vecd_interleave(vecd *a, vecd *b) {
    const __m512i first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const __m512d low = _mm512_permutex2var_pd(*a, first, *b);
    *b = _mm512_permutex2var_pd(*a, _mm512_add_epi64(first, _mm512_set1_epi64(4)), *b);
    *a = low;
}

/* -- 32-bit integers, as many lanes as vec -- */
typedef __m512i vecu;
static inline vecu vecu_load(const uint32_t *p) {
    return _mm512_loadu_si512(p);
}
static inline void vecu_store(uint32_t *p, vecu a) {
    _mm512_storeu_si512(p, a);
}
static inline vecu vecu_set1(uint32_t a) {
    return _mm512_set1_epi32((int)a);
}
static inline vecu vecu_add(vecu a, vecu b) {
    return _mm512_add_epi32(a, b);
}
static inline vecu vecu_xor(vecu a, vecu b, vecu c) {
    return _mm512_ternarylogic_epi32(a, b, c, 0x96);
}
/* out = the low 32 bits of the products; *high = the high 32 bits. */
static inline vecu vecu_mul(vecu a, vecu b, vecu *high) {
    const __m512i even = _mm512_mul_epu32(a, b), odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    *high = _mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), 0xAAAA, odd);
    return _mm512_mask_mov_epi32(even, 0xAAAA, _mm512_slli_epi64(odd, 32));
}
/* LANES bytes, each in a lane. */
static inline vecu vecu_load_u8(const unsigned char *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline vecu vecu_and(vecu a, vecu b) {
    return _mm512_and_si512(a, b);
}
static inline vecu vecu_or(vecu a, vecu b) {
    return _mm512_or_si512(a, b);
}
static inline vecu vecu_shift_right(vecu a, int bits) {
    return _mm512_srli_epi32(a, (unsigned)bits);
}
static inline vecu vecu_shift_left(vecu a, int bits) {
    return _mm512_slli_epi32(a, (unsigned)bits);
}
/* Integers below 2^24 as floats. */
static inline vec vec_from_vecu(vecu a) {
    return _mm512_cvtepi32_ps(a);
}
/* Lane l of the result = the entry at the low four bits of lane l of i.  The other bits are not used. */
#define VEC_ENTRIES 1
static inline vec vec_entry(vec entries, vecu i) {
    return _mm512_permutexvar_ps(i, entries);
}
/* The entry of `upper` instead where bit l of `tops` is set. */
static inline vec vec_entry_of_two(vec entries, vec upper, uint32_t tops, vecu i) {
    return _mm512_mask_permutexvar_ps(_mm512_permutexvar_ps(i, entries), (__mmask16)tops, i, upper);
}
/* 32 bytes.  A shift moves the bits of two bytes together: of each, those at its end come from the other. */
typedef __m256i bytes32;
static inline bytes32 bytes32_load(const unsigned char *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
static inline bytes32 bytes32_shift_right(bytes32 a, int bits) {
    return _mm256_srl_epi16(a, _mm_cvtsi32_si128(bits));
}
static inline bytes32 bytes32_shift_left(bytes32 a, int bits) {
    return _mm256_sll_epi16(a, _mm_cvtsi32_si128(bits));
}
/* The low two bits of each byte of a, and the others of b. */
static inline bytes32 bytes32_low_two(bytes32 a, bytes32 b) {
    return _mm256_ternarylogic_epi32(_mm256_set1_epi8(3), a, b, 0xCA);
}
/* Bytes 0 .. 15, or 16 .. 31 with half 1, each in a lane. */
static inline vecu bytes32_half(bytes32 a, int half) {
    return _mm512_cvtepu8_epi32(half ? _mm256_extracti128_si256(a, 1) : _mm256_castsi256_si128(a));
}
/* Entries of a table of 16. */
static inline vec vec_lookup(const int8_t table[16], vecu i) {
    return _mm512_permutexvar_ps(i, vec_load_q8(table));
}

#endif
