/* brain_avx512bf16.h: the stores of bf16 in vec_avx512.h by the instruction of AVX512-BF16.
 *
 * It rounds to nearest even, and quiets a NaN as brain_round does, but takes subnormal numbers for zeros.  One look at what
 * comes out finds those and true zeros; only where there is one are the floats looked at, and only where one of them is
 * subnormal are all lanes rounded by whole numbers. */
#ifndef GYRE_KERNELS_BRAIN_AVX512BF16_H
#define GYRE_KERNELS_BRAIN_AVX512BF16_H

#if defined(__clang__)
#define BRAIN_UNROLL _Pragma("unroll")
#else
#define BRAIN_UNROLL _Pragma("GCC unroll 16")
#endif

/* All of a before all of b. */
static inline __m512i brain_convert(vec a, vec b) {
    return (__m512i)_mm512_cvtne2ps_pbh(b, a);
}
static inline __mmask32 brain_zeros(__m512i brains) {
    return _mm512_testn_epi16_mask(brains, _mm512_set1_epi16(0x7fff));
}
static inline __mmask16 brain_small(vec a) {
    return _mm512_fpclass_ps_mask(a, 0x20); /* subnormal */
}

static inline void vec_store_bf16(uint16_t *p, vec a) {
    __m512i out = brain_convert(a, a);
    if (__builtin_expect(brain_zeros(out) && brain_small(a), 0)) out = brain_in_order(brain_round(a), brain_round(a));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_castsi512_si256(out));
}

static __attribute__((noinline, cold)) void brain_store_rounded(uint16_t *const *p, const vec *a, const vec *b, int n,
                                                                int in_turn) {
    for (int i = 0; i < n; i++) {
        const __m512i x = brain_round(a[i]), y = brain_round(b[i]);
        _mm512_storeu_si512(p[i], in_turn ? brain_in_turn(x, y) : brain_in_order(x, y));
    }
}

/* One branch for all of them. */
#define VEC_STORE_ROWS_BF16
static inline __attribute__((always_inline)) void vec_store_rows_bf16(uint16_t *const *p, const vec *a, const vec *b, int n,
                                                                      int in_turn) {
    const __m512i turn = _mm512_setr_epi32(0x100000, 0x110001, 0x120002, 0x130003, 0x140004, 0x150005, 0x160006, 0x170007,
                                           0x180008, 0x190009, 0x1a000a, 0x1b000b, 0x1c000c, 0x1d000d, 0x1e000e, 0x1f000f);
    __m512i out[TURN_BLOCK];
    __mmask32 zeros = 0;
    BRAIN_UNROLL
    for (int i = 0; i < n; i++) {
        out[i] = brain_convert(a[i], b[i]);
        zeros |= brain_zeros(out[i]);
    }
    __mmask16 small = 0;
    if (__builtin_expect(zeros, 0)) {
        BRAIN_UNROLL
        for (int i = 0; i < n; i++)
            small |= brain_small(a[i]) | brain_small(b[i]);
    }
    if (__builtin_expect(small, 0)) {
        uint16_t *to[TURN_BLOCK];
        vec x[TURN_BLOCK], y[TURN_BLOCK]; /* copies, so that a and b need not be in memory */
        BRAIN_UNROLL
        for (int i = 0; i < n; i++)
            to[i] = p[i], x[i] = a[i], y[i] = b[i];
        brain_store_rounded(to, x, y, n, in_turn);
        return;
    }
    BRAIN_UNROLL
    for (int i = 0; i < n; i++)
        _mm512_storeu_si512(p[i], in_turn ? _mm512_permutexvar_epi16(turn, out[i]) : out[i]);
}

#endif
