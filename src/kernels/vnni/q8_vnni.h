/* q8_vnni.h: the kernels of decoding for Q8 with the integer dot products of AVX512-VNNI: 32 products an instruction, and
 * one instruction to widen 32 integers for up to four queries.
 *
 * Queries and weights are rounded to 16 bits: a row x becomes integers near x / unit, where unit = max |x| / 32767, so each
 * is off by at most unit / 2.  A row with an infinity or a NaN goes through the float kernels of the base tier.  A row's
 * integers depend on nothing else, so neither do its results. */
#ifndef GYRE_KERNELS_Q8_VNNI_H
#define GYRE_KERNELS_Q8_VNNI_H
#include "kernels/decode_tier.h"

/* Q8_PAIRS: channels that one register of 16-bit integers holds.  Q8_KEYS: keys whose weights are rounded together; sums
 * over them fit 32 bits. */
enum { Q8_PAIRS = 2 * LANES, Q8_KEYS = 128, Q8_MAX_CHANNELS = 512 };

/* Lanes i .. i + LANES - 1 of a row of n floats; zeros past its end. */
TIER_INLINE __m512 load_row_q8(const float *x, int64_t n, int64_t i) {
    const int64_t left = n - i;
    if (left >= LANES) return _mm512_loadu_ps(x + i);
    return _mm512_maskz_loadu_ps(left > 0 ? (__mmask16)((1 << left) - 1) : 0, x + i);
}

/* *unit = max |x| / 32767, to[i] = x[i] / *unit rounded, for i < n; zeros up to the next multiple of Q8_PAIRS.  out = 0 if
 * an x[i] is infinite or a NaN, or all are too small.  The bits of floats without a sign are in the order of the floats. */
static inline int quantize_row(const float *x, int64_t n, int16_t *to, float *unit) {
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    __m512i most = _mm512_setzero_si512();
    for (int64_t i = 0; i < n; i += LANES)
        most = _mm512_max_epu32(most, _mm512_castps_si512(_mm512_abs_ps(load_row_q8(x, n, i))));
    const unsigned bits = _mm512_reduce_max_epu32(most);
    const float largest = _mm512_cvtss_f32(_mm512_castsi512_ps(_mm512_set1_epi32((int)bits)));
    if (!(largest <= __FLT_MAX__) || (largest > 0 && largest < 0x1p-100f)) return 0;
    const __m512 by = _mm512_set1_ps(largest > 0 ? 32767 / largest : 0);
    *unit = largest / 32767;
    for (int64_t i = 0; i < n; i += Q8_PAIRS) {
        const __m512i a = _mm512_cvtps_epi32(_mm512_mul_ps(load_row_q8(x, n, i), by)),
                      b = _mm512_cvtps_epi32(_mm512_mul_ps(load_row_q8(x, n, i + LANES), by));
        _mm512_storeu_si512(to + i, _mm512_permutexvar_epi64(order, _mm512_packs_epi32(a, b)));
    }
    return 1;
}

/* lane i = the sum of a[i], i < 16.  Each step merges two vectors into one, as vec_reduce_add_each does. */
TIER_INLINE __m512i add_each_q8(const __m512i *a) {
    __m512i x[8];
    DECODE_UNROLL
    for (int i = 0; i < 8; i++)
        x[i] = _mm512_add_epi32(_mm512_mask_mov_epi32(a[i], 0xFF00, a[i + 8]), _mm512_shuffle_i32x4(a[i], a[i + 8], 0x4E));
    DECODE_UNROLL
    for (int i = 0; i < 4; i++) {
        const __m512i crossed = _mm512_mask_mov_epi32(x[i + 4], 0xF0F0, x[i]);
        x[i] = _mm512_add_epi32(_mm512_mask_mov_epi32(x[i], 0xF0F0, x[i + 4]), _mm512_shuffle_i32x4(crossed, crossed, 0xB1));
    }
    DECODE_UNROLL
    for (int i = 0; i < 2; i++)
        x[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(x[i], x[i + 2]), _mm512_unpackhi_epi64(x[i], x[i + 2]));
    const __m512i crossed = _mm512_mask_mov_epi32(x[1], 0xAAAA, x[0]);
    return _mm512_add_epi32(_mm512_mask_mov_epi32(x[0], 0xAAAA, x[1]), _mm512_shuffle_epi32(crossed, _MM_PERM_CDAB));
}

/* Q8_PAIRS bytes at p as 16-bit integers; `whole` 0: the first `left` of them, and zeros. */
TIER_INLINE __m512i load_q8_pairs(const int8_t *p, int whole, int64_t left) {
    if (whole) return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8((__mmask32)((1u << left) - 1), p));
}

/* -- scores -- */
/* Some queries, at most four. */
typedef struct q8_rows {
    int16_t x[4][Q8_MAX_CHANNELS];
    float units[DECODE_ACCUMULATORS]; /* of the row of each sum */
    int finite[4];
    prefetch_place to;
} q8_rows;

/* Adds the products of Q8_PAIRS channels from c on, or of `left` (load_q8_pairs). */
TIER_INLINE void score_q8_channels(const q8_rows *q, const int8_t *const *k, int64_t c, int whole, int64_t left,
                                   __m512i *sum, int rows) {
    const int keys = DECODE_ACCUMULATORS / rows;
    __m512i y[4];
    DECODE_UNROLL
    for (int r = 0; r < rows; r++)
        y[r] = _mm512_loadu_si512(q->x[r] + c);
    DECODE_UNROLL
    for (int j = 0; j < keys; j++) {
        const __m512i x = load_q8_pairs(k[j] + c, whole, left);
        DECODE_UNROLL
        for (int r = 0; r < rows; r++)
            sum[r * keys + j] = _mm512_dpwssd_epi32(sum[r * keys + j], y[r], x);
    }
}

/* n keys from `first` on, at most a block; the last one fills the places of those that are missing.  A sum has at most
 * Q8_MAX_CHANNELS products, which fit 32 bits. */
TIER_INLINE void score_q8_block(const gyre_key_scores *p, const q8_rows *q, int64_t r0, int64_t first, int64_t n, int rows) {
    const int keys = DECODE_ACCUMULATORS / rows;
    const int8_t *k[DECODE_ACCUMULATORS], *at = (const int8_t *)p->k + first * p->k_row_stride;
    __m512i sum[DECODE_ACCUMULATORS];
    float total[DECODE_ACCUMULATORS];
    if (r0 == 0 && !p->prefetched) prefetch_rows(at, n, p->k_row_stride, p->channels, q->to);
    DECODE_UNROLL
    for (int j = 0; j < keys; j++)
        k[j] = at + (j < n ? j : n - 1) * p->k_row_stride;
    DECODE_UNROLL
    for (int i = 0; i < DECODE_ACCUMULATORS; i++)
        sum[i] = _mm512_setzero_si512();
    int64_t c = 0;
    for (; c + Q8_PAIRS <= p->channels; c += Q8_PAIRS)
        score_q8_channels(q, k, c, 1, 0, sum, rows);
    if (c < p->channels) score_q8_channels(q, k, c, 0, p->channels - c, sum, rows);
    vec_store(total, vec_mul(_mm512_cvtepi32_ps(add_each_q8(sum)), vec_load(q->units)));
    DECODE_UNROLL
    for (int r = 0; r < rows; r++) {
        float *scores = p->scores + (r0 + r) * p->score_row_stride + first;
        if (n == keys && q->finite[r])
            memcpy(scores, total + r * keys, (size_t)keys * sizeof *total);
        else
            for (int64_t j = 0; q->finite[r] && j < n && j < keys; j++)
                scores[j] = total[r * keys + j];
    }
}

TIER_INLINE void score_q8_group(const gyre_key_scores *p, int64_t r0, int rows) {
    const int keys = DECODE_ACCUMULATORS / rows;
    q8_rows q;
    q.to = prefetch_place_of(PREFETCH_BYTES, p->channels, p->k_row_stride);
    for (int r = 0; r < rows; r++) {
        float unit = 0;
        q.finite[r] = quantize_row(p->q + (r0 + r) * p->q_row_stride, p->channels, q.x[r], &unit);
        for (int j = 0; j < keys; j++)
            q.units[r * keys + j] = unit;
    }
    for (int64_t j = 0; j < p->keys; j += keys)
        score_q8_block(p, &q, r0, j, p->keys - j < keys ? p->keys - j : keys, rows);
    for (int r = 0; r < rows; r++) {
        gyre_key_scores one = *p;
        if (q.finite[r]) continue;
        one.rows = 1;
        one.q += (r0 + r) * p->q_row_stride;
        one.scores += (r0 + r) * p->score_row_stride;
        one.k_scale = NULL;
        NAME_IN(TIER_BASE, score_rows_q8)(&one);
    }
}

void NAME_IN(TIER_Q8, score_rows_q8)(const gyre_key_scores *p) {
    int64_t r = 0;
    if (p->channels > Q8_MAX_CHANNELS) {
        NAME_IN(TIER_BASE, score_rows_q8)(p);
        return;
    }
    for (; r + 4 <= p->rows; r += 4)
        score_q8_group(p, r, 4);
    if (r + 2 <= p->rows) score_q8_group(p, r, 2), r += 2;
    if (r < p->rows) score_q8_group(p, r, 1);
    multiply_by_key_scales(p);
}

/* -- weighted sums of values -- */
typedef struct q8_weights {
    int32_t pair[4][Q8_KEYS / 2 + Q8_PAIRS]; /* weights of two keys */
    float unit[4];
    int finite[4];
} q8_weights;

/* out += unit sum, for the channels of a block.  Undoes the order of unpack. */
TIER_INLINE void add_q8_sums(const gyre_weighted_values *p, const q8_weights *w, const __m512i *sum, int64_t r0, int64_t c0,
                             int rows, int halves) {
    const int64_t left = p->channels - c0, room = (left + LANES - 1) / LANES * LANES;
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    for (int r = 0; r < rows; r++)
        for (int h = 0; w->finite[r] && h < halves; h++) {
            const vec a = _mm512_cvtepi32_ps(sum[(r * halves + h) * 2]),
                      b = _mm512_cvtepi32_ps(sum[(r * halves + h) * 2 + 1]);
            float *out = p->out + (r0 + r) * p->out_row_stride + c0 + h * Q8_PAIRS;
            const vec unit = vec_set1(w->unit[r]);
            if (h * Q8_PAIRS < room) vec_store(out, vec_fma(_mm512_permutex2var_ps(a, first, b), unit, vec_load(out)));
            if (h * Q8_PAIRS + LANES < room)
                vec_store(out + LANES, vec_fma(_mm512_permutex2var_ps(a, second, b), unit, vec_load(out + LANES)));
        }
}

/* Channels c0 .. c0 + 32 halves - 1; `whole` 0: as far as there are any, and halves is 1.  The integers of two keys
 * alternate, so that an instruction adds both products; that leaves the channels in the order of unpack. */
TIER_INLINE void sum_q8_block(const gyre_weighted_values *p, const q8_weights *w, int64_t r0, int64_t c0, int rows,
                              int halves, int whole) {
    const int8_t *v = (const int8_t *)p->v + c0;
    const int64_t bytes = halves * Q8_PAIRS, left = p->channels - c0;
    const prefetch_place to = prefetch_place_of(PREFETCH_BYTES, bytes, p->v_row_stride);
    __m512i sum[DECODE_ACCUMULATORS];
    DECODE_UNROLL
    for (int i = 0; i < rows * 2 * halves; i++)
        sum[i] = _mm512_setzero_si512();
    for (int64_t j = 0; j < p->keys; j += 2) {
        const int8_t *at = v + j * p->v_row_stride, *next = j + 1 < p->keys ? at + p->v_row_stride : at;
        if (r0 == 0 && !p->prefetched) {
            prefetch_rows(at, 1, bytes, bytes, to);
            prefetch_rows(next, 1, bytes, bytes, to);
        }
        __m512i x[4];
        DECODE_UNROLL
        for (int h = 0; h < halves; h++) {
            const __m512i a = load_q8_pairs(at + h * Q8_PAIRS, whole, left),
                          b = load_q8_pairs(next + h * Q8_PAIRS, whole, left);
            x[2 * h] = _mm512_unpacklo_epi16(a, b);
            x[2 * h + 1] = _mm512_unpackhi_epi16(a, b);
        }
        DECODE_UNROLL
        for (int r = 0; r < rows; r++) {
            const __m512i weight = _mm512_set1_epi32(w->pair[r][j / 2]);
            DECODE_UNROLL
            for (int i = 0; i < 2 * halves; i++)
                sum[r * 2 * halves + i] = _mm512_dpwssd_epi32(sum[r * 2 * halves + i], weight, x[i]);
        }
    }
    add_q8_sums(p, w, sum, r0, c0, rows, halves);
}

TIER_INLINE void sum_q8_group(const gyre_weighted_values *p, int64_t r0, int rows) {
    q8_weights w;
    for (int r = 0; r < rows; r++)
        w.finite[r] =
            quantize_row(p->weights + (r0 + r) * p->weight_row_stride, p->keys, (int16_t *)(void *)w.pair[r], &w.unit[r]);
    int64_t c = 0;
    for (; c + 2 * Q8_PAIRS <= p->channels; c += 2 * Q8_PAIRS)
        sum_q8_block(p, &w, r0, c, rows, 2, 1);
    for (; c + Q8_PAIRS <= p->channels; c += Q8_PAIRS)
        sum_q8_block(p, &w, r0, c, rows, 1, 1);
    if (c < p->channels) sum_q8_block(p, &w, r0, c, rows, 1, 0);
    for (int r = 0; r < rows; r++) {
        gyre_weighted_values one = *p;
        if (w.finite[r]) continue;
        one.rows = 1;
        one.weights += (r0 + r) * p->weight_row_stride;
        one.out += (r0 + r) * p->out_row_stride;
        NAME_IN(TIER_BASE, weighted_sum_q8)(&one);
    }
}

void NAME_IN(TIER_Q8, weighted_sum_q8)(const gyre_weighted_values *all) {
    for (int64_t first = 0; first < all->keys; first += Q8_KEYS) {
        gyre_weighted_values p = *all;
        int64_t r = 0;
        p.keys = all->keys - first < Q8_KEYS ? all->keys - first : Q8_KEYS;
        p.weights += first;
        p.v = (const int8_t *)all->v + first * all->v_row_stride;
        for (; r + 4 <= p.rows; r += 4)
            sum_q8_group(&p, r, 4);
        if (r + 2 <= p.rows) sum_q8_group(&p, r, 2), r += 2;
        if (r < p.rows) sum_q8_group(&p, r, 1);
    }
}

#endif
