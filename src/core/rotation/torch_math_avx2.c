/* torch_math_avx2.c: SLEEF's functions, eight floats at a time. */
#include "core/rotation/torch_math.h"

#if defined(GYRE_HAVE_SLEEF) && defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#include <sleef.h>
#include <string.h>

/* The first n floats, padded with zeros. */
static __m256 load_padded(const float *x, int64_t n) {
    float padded[8] = {0};
    memcpy(padded, x, (size_t)(n < 8 ? n : 8) * sizeof *x);
    return _mm256_loadu_ps(padded);
}
static void store_first(float *out, __m256 x, int64_t n) {
    memcpy(out, &x, (size_t)(n < 8 ? n : 8) * sizeof *out);
}

static void power(float base, const float *exponent, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i += 8)
        store_first(out + i, Sleef_powf8_u10avx2(_mm256_set1_ps(base), load_padded(exponent + i, n - i)), n - i);
}
static void cos_sin(const float *angle, int64_t n, float *cosine, float *sine) {
    for (int64_t i = 0; i < n; i += 8) {
        const __m256 x = load_padded(angle + i, n - i);
        store_first(cosine + i, Sleef_cosf8_u10avx2(x), n - i);
        store_first(sine + i, Sleef_sinf8_u10avx2(x), n - i);
    }
}

static const gyre_torch_functions avx2_functions = {power, cos_sin};
const gyre_torch_functions *const gyre_torch_math_avx2 = &avx2_functions;
#else
const gyre_torch_functions *const gyre_torch_math_avx2 = 0;
#endif
