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

/* Channels c .. c + LANES - 1 of a rotated key, and their partners. */
typedef struct rotated_vecs {
    vec a, b;
} rotated_vecs;

TIER_INLINE rotated_vecs rotated_at(elem_type type, int64_t pairs, const char *k, const float *angles, int64_t c) {
    const vec cosine = vec_load(angles + c), sine = vec_load(angles + pairs + c);
    const vec u = vec_in_register(type.load(k + c * type.size)), v = vec_in_register(type.load(k + (pairs + c) * type.size));
    return (rotated_vecs){vec_fms(u, cosine, vec_mul(v, sine)), vec_fma(v, cosine, vec_mul(u, sine))}; /* as rotate_f32 */
}

/* Adds the products of pairs, LANES at a time; p->pairs is a multiple of LANES.  angles: of each key. */
TIER_INLINE void score_rotated_channels(elem_type type, const gyre_key_scores *p, const query_group *q, const char *const *k,
                                        const float *const *angles, vec *sum, int rows) {
    const int keys = DECODE_ACCUMULATORS / rows;
    for (int64_t c = 0; c < p->pairs; c += LANES) {
        vec y[4], z[4];
        DECODE_UNROLL
        for (int r = 0; r < rows; r++) {
            y[r] = vec_in_register(vec_load(q->q + r * q->row + c));
            z[r] = vec_in_register(vec_load(q->q + r * q->row + p->pairs + c));
        }
        DECODE_UNROLL
        for (int j = 0; j < keys; j++) {
            const rotated_vecs x = rotated_at(type, p->pairs, k[j], angles[j], c);
            DECODE_UNROLL
            for (int r = 0; r < rows; r++)
                sum[r * keys + j] = vec_fma(y[r], x.a, sum[r * keys + j]);
            DECODE_UNROLL
            for (int r = 0; r < rows; r++)
                sum[r * keys + j] = vec_fma(z[r], x.b, sum[r * keys + j]);
        }
    }
}

/* As score_block. */
TIER_INLINE void score_rotated_block(elem_type type, const gyre_key_scores *p, const query_group *q, int64_t first,
                                     int rows) {
    const int keys = DECODE_ACCUMULATORS / rows;
    const int64_t step = p->k_row_stride * type.size, whole = p->channels / LANES * LANES;
    const char *k[DECODE_ACCUMULATORS], *at = (const char *)p->k + first * step;
    const float *angles[DECODE_ACCUMULATORS];
    vec sum[DECODE_ACCUMULATORS];
    if (q->prefetch) prefetch_rows(at, keys, step, p->channels * type.size, q->to);
    DECODE_UNROLL
    for (int j = 0; j < keys; j++) {
        k[j] = at + j * step;
        angles[j] = p->angles + (first + j) * 2 * p->pairs;
    }
    DECODE_UNROLL
    for (int i = 0; i < DECODE_ACCUMULATORS; i++)
        sum[i] = vec_set1(0);
    score_rotated_channels(type, p, q, k, angles, sum, rows);
    score_channels(type, q, k, 2 * p->pairs, whole, sum, rows);
    if (whole < p->channels) score_last_channels(type, q, k, whole, p->channels - whole, sum, rows);
    store_scores(p, q, first, sum, rows);
}

/* A query and key j: the same sum as in score_rotated_block. */
TIER_INLINE vec rotated_pair(elem_type type, int deinterleaved, const gyre_key_scores *p, const float *query, int64_t j) {
    const char *k = (const char *)p->k + j * p->k_row_stride * type.size;
    const float *angles = p->angles + j * 2 * p->pairs;
    vec sum = vec_set1(0);
    int64_t c = 0;
    (void)deinterleaved;
    for (; c < p->pairs; c += LANES) {
        const rotated_vecs x = rotated_at(type, p->pairs, k, angles, c);
        sum = vec_fma(vec_load(query + c), x.a, sum);
        sum = vec_fma(vec_load(query + p->pairs + c), x.b, sum);
    }
    for (c = 2 * p->pairs; c + LANES <= p->channels; c += LANES)
        sum = vec_fma(vec_load(query + c), type.load(k + c * type.size), sum);
    return c < p->channels ? vec_fma(vec_load(query + c), load_partial(type, k + c * type.size, p->channels - c), sum) : sum;
}

/* Whole blocks of keys.  out = keys done. */
TIER_INLINE int64_t score_rotated_blocks(elem_type type, const gyre_key_scores *p, const query_group *q, int rows) {
    const int keys = DECODE_ACCUMULATORS / rows;
    int64_t j = 0;
    for (; j + keys <= p->keys; j += keys)
        score_rotated_block(type, p, q, j, rows);
    return j;
}

TIER_INLINE void score_rotated_rows(elem_type type, const gyre_key_scores *p) {
    query_group q;
    for (int64_t r = 0, done; r < p->rows; r += q.rows) {
        q = query_group_at(p, r, type.size, PREFETCH_BYTES);
        if (q.rows == 4)
            done = score_rotated_blocks(type, p, &q, 4);
        else if (q.rows == 2)
            done = score_rotated_blocks(type, p, &q, 2);
        else
            done = score_rotated_blocks(type, p, &q, 1);
        if (done < p->keys) score_rest(type, 0, rotated_pair, p, &q, done);
    }
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
