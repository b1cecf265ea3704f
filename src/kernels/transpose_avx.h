/* transpose_avx.h: an 8 x 8 transpose in registers, for tiers with AVX. */
#ifndef GYRE_KERNELS_TRANSPOSE_AVX_H
#define GYRE_KERNELS_TRANSPOSE_AVX_H
#include <immintrin.h>
#include <stdint.h>

#define TRANSPOSE 8

/* Rows i and i + 4 are loaded into one register, so that only shuffles within 128-bit halves remain. */
static inline void transpose_square(const float *in, int64_t in_row_stride, float *out, int64_t out_row_stride) {
    __m256 a[8], b[8];
    for (int i = 0; i < 4; i++) {
        for (int half = 0; half < 2; half++) {
            const __m256 low = _mm256_castps128_ps256(_mm_loadu_ps(in + i * in_row_stride + 4 * half));
            a[i + 4 * half] = _mm256_insertf128_ps(low, _mm_loadu_ps(in + (i + 4) * in_row_stride + 4 * half), 1);
        }
    }
    for (int half = 0; half < 8; half += 4) {
        b[half] = _mm256_unpacklo_ps(a[half], a[half + 1]);
        b[half + 1] = _mm256_unpackhi_ps(a[half], a[half + 1]);
        b[half + 2] = _mm256_unpacklo_ps(a[half + 2], a[half + 3]);
        b[half + 3] = _mm256_unpackhi_ps(a[half + 2], a[half + 3]);
        _mm256_storeu_ps(out + half * out_row_stride, _mm256_shuffle_ps(b[half], b[half + 2], 0x44));
        _mm256_storeu_ps(out + (half + 1) * out_row_stride, _mm256_shuffle_ps(b[half], b[half + 2], 0xEE));
        _mm256_storeu_ps(out + (half + 2) * out_row_stride, _mm256_shuffle_ps(b[half + 1], b[half + 3], 0x44));
        _mm256_storeu_ps(out + (half + 3) * out_row_stride, _mm256_shuffle_ps(b[half + 1], b[half + 3], 0xEE));
    }
}

#endif
