/* tier_avx2.c: the kernels for AVX2 with FMA, eight floats at a time.  Built with -mavx2 -mfma. */
#include "kernels/tiers.h"

#if defined(__AVX2__) && defined(__FMA__)
#include "kernels/transpose_avx.h"
#include <immintrin.h>

#define TIER       avx2
#define LANES      8
#define BLOCK_ROWS 6
#define BLOCK_VECS 2
#define WIDE_VECS  8

typedef __m256 vec;
typedef __m256 mask;

static inline vec vec_load(const float *p) {
    return _mm256_loadu_ps(p);
}
static inline void vec_store(float *p, vec a) {
    _mm256_storeu_ps(p, a);
}
static inline vec vec_set1(float a) {
    return _mm256_set1_ps(a);
}
static inline vec vec_fma(vec a, vec b, vec c) {
    return _mm256_fmadd_ps(a, b, c);
}
static inline vec vec_mul(vec a, vec b) {
    return _mm256_mul_ps(a, b);
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
static inline mask vec_unequal(vec a, vec b) {
    return _mm256_cmp_ps(a, b, _CMP_NEQ_UQ);
}
static inline vec vec_keep(mask m, vec a) {
    return _mm256_and_ps(m, a);
}

/* y 2^n by adding to the exponent; n whole, the result a normal number.  A NaN converts to 2^31, which shifts out. */
static inline vec vec_scale(vec y, vec n) {
    const __m256i power = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), power));
}

static inline float vec_sum(vec a) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

static inline float vec_top(vec a) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

/* lane i = from[row[i] - low] */
static inline vec vec_deal(const float *from, const int32_t *row, int32_t low) {
    const __m256i at = _mm256_sub_epi32(_mm256_loadu_si256((const __m256i *)(const void *)row), _mm256_set1_epi32(low));
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(from), at);
}

#include "kernels/tier.h"
#else
const gyre_kernels *const gyre_tier_avx2 = 0;
#endif
