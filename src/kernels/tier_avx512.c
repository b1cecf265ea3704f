/* tier_avx512.c: the kernels for AVX-512, sixteen floats at a time.
 * Built with -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma. */
#include "kernels/tiers.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#include "kernels/transpose_avx.h"
#include <immintrin.h>

#define TIER       avx512
#define LANES      16
#define BLOCK_ROWS 8
#define BLOCK_VECS 2
#define WIDE_VECS  4

typedef __m512 vec;
typedef __mmask16 mask;

static inline vec vec_load(const float *p) {
    return _mm512_loadu_ps(p);
}
static inline void vec_store(float *p, vec a) {
    _mm512_storeu_ps(p, a);
}
static inline vec vec_set1(float a) {
    return _mm512_set1_ps(a);
}
static inline vec vec_fma(vec a, vec b, vec c) {
    return _mm512_fmadd_ps(a, b, c);
}
static inline vec vec_mul(vec a, vec b) {
    return _mm512_mul_ps(a, b);
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
static inline mask vec_unequal(vec a, vec b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ);
}
static inline vec vec_keep(mask m, vec a) {
    return _mm512_maskz_mov_ps(m, a);
}
static inline vec vec_scale(vec y, vec n) {
    return _mm512_scalef_ps(y, n);
}
static inline float vec_sum(vec a) {
    return _mm512_reduce_add_ps(a);
}
static inline float vec_top(vec a) {
    return _mm512_reduce_max_ps(a);
}

/* lane i = from[row[i] - low] */
static inline vec vec_deal(const float *from, const int32_t *row, int32_t low) {
    const __m512i at = _mm512_sub_epi32(_mm512_loadu_si512(row), _mm512_set1_epi32(low));
    return _mm512_permutexvar_ps(at, _mm512_loadu_ps(from));
}

#include "kernels/tier.h"
#else
const gyre_kernels *const gyre_tier_avx512 = 0;
#endif
