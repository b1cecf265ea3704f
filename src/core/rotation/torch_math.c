/* torch_math.c: SLEEF's 1.0-ulp functions, called as PyTorch calls them: eight floats at a time with AVX2 and FMA, else
 * four.  The number matters: lanes of a vector share one argument reduction, so the neighbours of a large angle may differ
 * in the last bit. */
#include "core/rotation/torch_math.h"

#include <string.h>

#if defined(GYRE_HAVE_SLEEF) && (defined(__SSE2__) || defined(__aarch64__))
#include <sleef.h>

#if defined(__aarch64__)
typedef float32x4_t vec4;
#else
typedef __m128 vec4;
#endif

int gyre_torch_math_available(void) {
    return 1;
}

static int has_avx2(void) {
#if defined(__x86_64__)
    return gyre_torch_math_avx2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}

/* The first n floats, padded with zeros. */
static vec4 load_padded(const float *x, int64_t n) {
    float padded[4] = {0};
    vec4 out;
    memcpy(padded, x, (size_t)(n < 4 ? n : 4) * sizeof *x);
    memcpy(&out, padded, sizeof out);
    return out;
}
static void store_first(float *out, vec4 x, int64_t n) {
    memcpy(out, &x, (size_t)(n < 4 ? n : 4) * sizeof *out);
}

void gyre_torch_pow(float base, const float *exponent, int64_t n, float *out) {
    const float bases[4] = {base, base, base, base};
    if (has_avx2()) {
        gyre_torch_math_avx2->pow(base, exponent, n, out);
        return;
    }
    for (int64_t i = 0; i < n; i += 4)
        store_first(out + i, Sleef_powf4_u10(load_padded(bases, 4), load_padded(exponent + i, n - i)), n - i);
}

void gyre_torch_cos_sin(const float *angle, int64_t n, float *cosine, float *sine) {
    if (has_avx2()) {
        gyre_torch_math_avx2->cos_sin(angle, n, cosine, sine);
        return;
    }
    for (int64_t i = 0; i < n; i += 4) {
        const vec4 x = load_padded(angle + i, n - i);
        store_first(cosine + i, Sleef_cosf4_u10(x), n - i);
        store_first(sine + i, Sleef_sinf4_u10(x), n - i);
    }
}
#else
int gyre_torch_math_available(void) {
    return 0;
}
void gyre_torch_pow(float base, const float *exponent, int64_t n, float *out) {
    (void)base, (void)exponent;
    memset(out, 0, (size_t)n * sizeof *out);
}
void gyre_torch_cos_sin(const float *angle, int64_t n, float *cosine, float *sine) {
    (void)angle;
    memset(cosine, 0, (size_t)n * sizeof *cosine);
    memset(sine, 0, (size_t)n * sizeof *sine);
}
#endif
