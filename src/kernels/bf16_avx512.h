/* bf16_avx512.h: the bf16 stores of vec_avx512.h with the conversion instruction of AVX512-BF16.
 *
 The instruction rounds to nearest even and quiets NaNs, like bf16_round, but it flushes subnormal inputs to zero.  So the
 result is tested for zeros.  If there is one, the inputs are tested for subnormals, and if there is one of those, all lanes
 are rounded by integer operations. */
#ifndef GYRE_KERNELS_BF16_AVX512_H
#define GYRE_KERNELS_BF16_AVX512_H

#if defined(__clang__)
#define BF16_UNROLL _Pragma("unroll")
#else
#define BF16_UNROLL _Pragma("GCC unroll 16")
#endif

/* out = a, then b, as bf16. */
static inline __m512i bf16_convert(vec a, vec b) {
    return (__m512i)_mm512_cvtne2ps_pbh(b, a);
}
static inline __mmask32 bf16_zeros(__m512i packed) {
    return _mm512_testn_epi16_mask(packed, _mm512_set1_epi16(0x7fff));
}
static inline __mmask16 bf16_subnormal(vec a) {
    return _mm512_fpclass_ps_mask(a, 0x20); /* subnormal */
}

static inline void vec_store_bf16(uint16_t *p, vec a) {
    __m512i out = bf16_convert(a, a);
    if (__builtin_expect(bf16_zeros(out) && bf16_subnormal(a), 0)) out = bf16_concat(bf16_round(a), bf16_round(a));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_castsi512_si256(out));
}

static __attribute__((noinline, cold)) void bf16_store_rounded(uint16_t *const *p, const vec *a, const vec *b, int n,
                                                               int interleaved) {
    for (int i = 0; i < n; i++) {
        const __m512i x = bf16_round(a[i]), y = bf16_round(b[i]);
        _mm512_storeu_si512(p[i], interleaved ? bf16_interleave(x, y) : bf16_concat(x, y));
    }
}

/* Tests all n vectors with a single branch. */
#define VEC_STORE_MANY_BF16
static inline __attribute__((always_inline)) void vec_store_many_bf16(uint16_t *const *p, const vec *a, const vec *b, int n,
                                                                      int interleaved, int stream) {
    const __m512i interleave_index =
        _mm512_setr_epi32(0x100000, 0x110001, 0x120002, 0x130003, 0x140004, 0x150005, 0x160006, 0x170007, 0x180008, 0x190009,
                          0x1a000a, 0x1b000b, 0x1c000c, 0x1d000d, 0x1e000e, 0x1f000f);
    __m512i out[ROTATE_HALF_VECS];
    __mmask32 zeros = 0;
    BF16_UNROLL
    for (int i = 0; i < n; i++) {
        out[i] = bf16_convert(a[i], b[i]);
        zeros |= bf16_zeros(out[i]);
    }
    __mmask16 small = 0;
    if (__builtin_expect(zeros, 0)) {
        BF16_UNROLL
        for (int i = 0; i < n; i++)
            small |= bf16_subnormal(a[i]) | bf16_subnormal(b[i]);
    }
    if (__builtin_expect(small, 0)) {
        uint16_t *to[ROTATE_HALF_VECS];
        vec x[ROTATE_HALF_VECS], y[ROTATE_HALF_VECS]; /* copies, so that a and b need not be in memory */
        BF16_UNROLL
        for (int i = 0; i < n; i++)
            to[i] = p[i], x[i] = a[i], y[i] = b[i];
        bf16_store_rounded(to, x, y, n, interleaved);
        return;
    }
    BF16_UNROLL
    for (int i = 0; i < n; i++) {
        if (interleaved) out[i] = _mm512_permutexvar_epi16(interleave_index, out[i]);
        if (stream)
            _mm512_stream_si512((__m512i *)(void *)p[i], out[i]);
        else
            _mm512_storeu_si512(p[i], out[i]);
    }
}

#endif
