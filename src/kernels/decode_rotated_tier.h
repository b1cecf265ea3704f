/* decode_rotated_tier.h: scores of a few queries with keys that are rotated while they are read, in the half layout.
 *
 * A block rotates each key in registers, once for all its queries, so a rotated key is never written to memory. */
#ifndef GYRE_KERNELS_DECODE_ROTATED_TIER_H
#define GYRE_KERNELS_DECODE_ROTATED_TIER_H
#include "kernels/decode_tier.h"

#ifndef VEC_FMS
static inline vec vec_fms(vec a, vec b, vec c) { /* a b - c */
    return vec_fma(a, b, vec_mul(vec_set1(-1), c));
}
#endif

/* Adds the products of pairs, LANES at a time; p->pairs is a multiple of LANES.  angles: of the first key. */
TIER_INLINE void score_rotated_channels(elem_type type, const gyre_key_scores *p, const query_group *q, const char *const *k,
                                        const float *const *angles, vec *sum, int rows) {
    const int keys = DECODE_ACCUMULATORS / rows;
    const int64_t half = p->pairs * type.size;
    for (int64_t c = 0; c < p->pairs; c += LANES) {
        vec y[4], z[4];
        DECODE_UNROLL
        for (int r = 0; r < rows; r++) {
            y[r] = vec_in_register(vec_load(q->q + r * q->row + c));
            z[r] = vec_in_register(vec_load(q->q + r * q->row + p->pairs + c));
        }
        DECODE_UNROLL
        for (int j = 0; j < keys; j++) {
            const vec cosine = vec_load(angles[j] + c), sine = vec_load(angles[j] + p->pairs + c);
            const vec u = vec_in_register(type.load(k[j] + c * type.size)),
                      v = vec_in_register(type.load(k[j] + half + c * type.size));
            const vec a = vec_fms(u, cosine, vec_mul(v, sine)), b = vec_fma(v, cosine, vec_mul(u, sine)); /* as rotate_f32 */
            DECODE_UNROLL
            for (int r = 0; r < rows; r++)
                sum[r * keys + j] = vec_fma(y[r], a, sum[r * keys + j]);
            DECODE_UNROLL
            for (int r = 0; r < rows; r++)
                sum[r * keys + j] = vec_fma(z[r], b, sum[r * keys + j]);
        }
    }
}

/* As score_block. */
TIER_INLINE void score_rotated_block(elem_type type, const gyre_key_scores *p, const query_group *q, int64_t first,
                                     int64_t n, int rows) {
    const int keys = DECODE_ACCUMULATORS / rows;
    const int64_t step = p->k_row_stride * type.size, whole = p->channels / LANES * LANES;
    const char *k[DECODE_ACCUMULATORS], *at = (const char *)p->k + first * step;
    const float *angles[DECODE_ACCUMULATORS];
    vec sum[DECODE_ACCUMULATORS];
    if (q->prefetch) prefetch_rows(at, n, step, p->channels * type.size, q->away);
    DECODE_UNROLL
    for (int j = 0; j < keys; j++) {
        k[j] = at + (j < n ? j : n - 1) * step;
        angles[j] = p->angles + (first + (j < n ? j : n - 1)) * 2 * p->pairs;
    }
    DECODE_UNROLL
    for (int i = 0; i < DECODE_ACCUMULATORS; i++)
        sum[i] = vec_set1(0);
    score_rotated_channels(type, p, q, k, angles, sum, rows);
    score_channels(type, q, k, 2 * p->pairs, whole, sum, rows);
    if (whole < p->channels) score_channels(type, q, k, whole, p->channels, sum, rows);
    store_scores(p, q, first, n, sum, rows);
}

TIER_INLINE void score_rotated_group(elem_type type, const gyre_key_scores *p, int64_t first, int rows) {
    const int keys = DECODE_ACCUMULATORS / rows;
    const int64_t away = prefetch_distance(PREFETCH_BYTES, p->channels * type.size, p->k_row_stride * type.size);
    const query_group q = {p->q + first * p->q_row_stride, p->q_row_stride, first, first == 0 && !p->prefetched, away};
    int64_t j = 0;
    for (; j + keys <= p->keys; j += keys)
        score_rotated_block(type, p, &q, j, keys, rows);
    if (j < p->keys) score_rotated_block(type, p, &q, j, p->keys - j, rows);
}

TIER_INLINE void score_rotated_rows(elem_type type, const gyre_key_scores *p) {
    int64_t r = 0;
    for (; r + 4 <= p->rows; r += 4)
        score_rotated_group(type, p, r, 4);
    if (r + 2 <= p->rows) score_rotated_group(type, p, r, 2), r += 2;
    if (r < p->rows) score_rotated_group(type, p, r, 1);
    multiply_by_key_scales(p);
}

KERNEL(score_rotated_f32)(const gyre_key_scores *p) {
    score_rotated_rows((elem_type){load_f32, NULL, 4}, p);
}
KERNEL(score_rotated_f16)(const gyre_key_scores *p) {
    score_rotated_rows((elem_type){load_f16, NULL, 2}, p);
}
KERNEL(score_rotated_bf16)(const gyre_key_scores *p) {
    score_rotated_rows((elem_type){load_bf16, NULL, 2}, p);
}
KERNEL(score_rotated_q8)(const gyre_key_scores *p) {
    score_rotated_rows((elem_type){load_q8, NULL, 1}, p);
}

#endif
