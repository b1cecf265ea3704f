/* bench_stream_scale.c: multiplies by a constant in place, as fast as this processor can. */
#include "tools/bench/bench_stream_scale.h"

#include <string.h>

/* Vectorised by the compiler.  16-bit numbers are multiplied by a power of two by changing their exponents. */
static void scale_generic(void *x, gyre_dtype dtype, int64_t n, float by) {
    const int16_t step = by > 1 ? 1 : -1;
    if (dtype == GYRE_DTYPE_F64)
        for (int64_t i = 0; i < n; i++)
            ((double *)x)[i] *= (double)by;
    else if (dtype == GYRE_DTYPE_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)x)[i] *= by;
    else
        for (int64_t i = 0; i < n; i++)
            ((int16_t *)x)[i] = (int16_t)(((int16_t *)x)[i] + step * (dtype == GYRE_DTYPE_F16 ? 1 << 10 : 1 << 7));
}

#if defined(__x86_64__)
#include <immintrin.h>
#define TARGET(features) __attribute__((target(features)))

TARGET("avx512f") static void scale_f32_512(float *x, int64_t n, float by) {
    const __m512 b = _mm512_set1_ps(by);
    for (int64_t i = 0; i + 16 <= n; i += 16)
        _mm512_storeu_ps(x + i, _mm512_mul_ps(_mm512_loadu_ps(x + i), b));
}
TARGET("avx512f") static void scale_f64_512(double *x, int64_t n, float by) {
    const __m512d b = _mm512_set1_pd((double)by);
    for (int64_t i = 0; i + 8 <= n; i += 8)
        _mm512_storeu_pd(x + i, _mm512_mul_pd(_mm512_loadu_pd(x + i), b));
}
TARGET("avx512f") static void scale_f16_512(uint16_t *x, int64_t n, float by) {
    const __m512 b = _mm512_set1_ps(by);
    for (int64_t i = 0; i + 16 <= n; i += 16) {
        const __m512 wide = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(x + i)));
        _mm256_storeu_si256((__m256i *)(void *)(x + i), _mm512_cvtps_ph(_mm512_mul_ps(wide, b), _MM_FROUND_TO_NEAREST_INT));
    }
}
/* Two numbers per 32-bit lane, widened in place.  Rounds by adding half a unit before truncation, which is wrong only for
 * ties.  Checks for ties, as a real kernel must; multiplying by a power of two produces none. */
TARGET("avx512f,avx512bw") static void scale_bf16_512(uint16_t *x, int64_t n, float by) {
    const __m512 b = _mm512_set1_ps(by);
    const __m512i top = _mm512_set1_epi32((int)0xffff0000), half = _mm512_set1_epi32(0x8000);
    const __mmask32 low = 0x55555555;
    for (int64_t i = 0; i + 32 <= n; i += 32) {
        const __m512i both = _mm512_loadu_si512(x + i);
        const __m512 even = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(both, 16)), b);
        const __m512 odd = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_and_si512(both, top)), b);
        const __m512i e = _mm512_add_epi32(_mm512_castps_si512(even), half);
        const __m512i o = _mm512_add_epi32(_mm512_castps_si512(odd), half);
        if (_mm512_mask_testn_epi16_mask(low, e, e) | _mm512_mask_testn_epi16_mask(low, o, o)) return;
        _mm512_storeu_si512(x + i, _mm512_mask_blend_epi16(low, o, _mm512_srli_epi32(e, 16)));
    }
}
/* With the conversion instruction, four vectors at a time.  It flushes subnormal numbers to zero, so this checks for zeros,
 * as a real kernel must; here there are none. */
TARGET("avx512f,avx512bw,avx512bf16") static void scale_bf16_native(uint16_t *x, int64_t n, float by) {
    enum { VECTORS = 4 };
    const __m512 b = _mm512_set1_ps(by);
    const __m512i top = _mm512_set1_epi32((int)0xffff0000), number = _mm512_set1_epi16(0x7fff);
    const __m512i interleave =
        _mm512_setr_epi32(0x100000, 0x110001, 0x120002, 0x130003, 0x140004, 0x150005, 0x160006, 0x170007, 0x180008, 0x190009,
                          0x1a000a, 0x1b000b, 0x1c000c, 0x1d000d, 0x1e000e, 0x1f000f);
    for (int64_t i = 0; i + 32 * VECTORS <= n; i += 32 * VECTORS) {
        __m512i out[VECTORS];
        __mmask32 zeros = 0;
        for (int v = 0; v < VECTORS; v++) {
            const __m512i both = _mm512_loadu_si512(x + i + 32 * v);
            const __m512 even = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(both, 16)), b);
            const __m512 odd = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_and_si512(both, top)), b);
            out[v] = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
            zeros |= _mm512_testn_epi16_mask(out[v], number);
        }
        if (zeros) return;
        for (int v = 0; v < VECTORS; v++)
            _mm512_storeu_si512(x + i + 32 * v, _mm512_permutexvar_epi16(interleave, out[v]));
    }
}

TARGET("avx") static void scale_f32_256(float *x, int64_t n, float by) {
    const __m256 b = _mm256_set1_ps(by);
    for (int64_t i = 0; i + 8 <= n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), b));
}
TARGET("avx") static void scale_f64_256(double *x, int64_t n, float by) {
    const __m256d b = _mm256_set1_pd((double)by);
    for (int64_t i = 0; i + 4 <= n; i += 4)
        _mm256_storeu_pd(x + i, _mm256_mul_pd(_mm256_loadu_pd(x + i), b));
}
TARGET("avx,f16c") static void scale_f16_256(uint16_t *x, int64_t n, float by) {
    const __m256 b = _mm256_set1_ps(by);
    for (int64_t i = 0; i + 8 <= n; i += 8) {
        const __m256 wide = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + i)));
        _mm_storeu_si128((__m128i *)(void *)(x + i), _mm256_cvtps_ph(_mm256_mul_ps(wide, b), _MM_FROUND_TO_NEAREST_INT));
    }
}
TARGET("avx2") static __m256i round_bf16_256(__m256 a) {
    const __m256i bits = _mm256_castps_si256(a), last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), last);
}
TARGET("avx2") static void scale_bf16_256(uint16_t *x, int64_t n, float by) {
    const __m256 b = _mm256_set1_ps(by);
    for (int64_t i = 0; i + 16 <= n; i += 16) {
        const __m256i both = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
        const __m256i top = _mm256_set1_epi32((int)0xffff0000);
        const __m256i even = round_bf16_256(_mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(both, 16)), b));
        const __m256i odd = round_bf16_256(_mm256_mul_ps(_mm256_castsi256_ps(_mm256_and_si256(both, top)), b));
        _mm256_storeu_si256((__m256i *)(void *)(x + i), _mm256_blend_epi16(odd, _mm256_srli_epi32(even, 16), 0x55));
    }
}

void bench_stream_scale(void *x, gyre_dtype dtype, int64_t n, float by) {
    const int wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    if (!wide && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) { /* processors with these have F16C */
        scale_generic(x, dtype, n, by);
        return;
    }
    switch (dtype) {
    case GYRE_DTYPE_F64:
        (wide ? scale_f64_512 : scale_f64_256)(x, n, by);
        break;
    case GYRE_DTYPE_F16:
        (wide ? scale_f16_512 : scale_f16_256)(x, n, by);
        break;
    case GYRE_DTYPE_BF16:
        (wide && __builtin_cpu_supports("avx512bf16") ? scale_bf16_native
         : wide                                       ? scale_bf16_512
                                                      : scale_bf16_256)(x, n, by);
        break;
    default:
        (wide ? scale_f32_512 : scale_f32_256)(x, n, by);
    }
}
#else
void bench_stream_scale(void *x, gyre_dtype dtype, int64_t n, float by) {
    scale_generic(x, dtype, n, by);
}
#endif
