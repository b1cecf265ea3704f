/* decode_tier.h: conversion of rows, and the kernels of decoding: a few queries against keys and values that are read once,
 * in place. */
#ifndef GYRE_KERNELS_DECODE_TIER_H
#define GYRE_KERNELS_DECODE_TIER_H
#include "kernels/kernel_names.h"
#include "kernels/row_tier.h"
#include <stddef.h>

/* With sanitizers, which check every access, a compiler takes minutes for unrolled loops. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DECODE_UNROLL
#else
#define DECODE_UNROLL TIER_UNROLL
#endif

/* -- rows of other types -- */
static inline vec load_q8(const void *p) {
    return vec_load_q8(p);
}

TIER_INLINE void widen_row(elem_type type, const char *in, float *out, int64_t n) {
    const elem_type table = {load_f32, store_f32, sizeof(float)};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(out + i, type.load(in + i * type.size));
    if (i < n) store_partial(table, (char *)(out + i), load_partial(type, in + i * type.size, n - i), n - i);
}
TIER_INLINE void narrow_row(elem_type type, const float *in, char *out, int64_t n) {
    const elem_type table = {load_f32, store_f32, sizeof(float)};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        type.store(out + i * type.size, vec_load(in + i));
    if (i < n) store_partial(type, out + i * type.size, load_partial(table, (const char *)(in + i), n - i), n - i);
}
KERNEL(widen_f16)(const void *in, float *out, int64_t n) {
    widen_row((elem_type){load_f16, store_f16, 2}, in, out, n);
}
KERNEL(widen_bf16)(const void *in, float *out, int64_t n) {
    widen_row((elem_type){load_bf16, store_bf16, 2}, in, out, n);
}
KERNEL(narrow_f16)(const float *in, void *out, int64_t n) {
    narrow_row((elem_type){load_f16, store_f16, 2}, in, out, n);
}
KERNEL_OWN(narrow_bf16)(const float *in, void *out, int64_t n) {
    narrow_row((elem_type){load_bf16, store_bf16, 2}, in, out, n);
}
KERNEL(widen_q8)(const void *in, float *out, int64_t n) {
    widen_row((elem_type){load_q8, NULL, 1}, in, out, n);
}

/* -- scores of a few queries -- */
/* There are DECODE_ACCUMULATORS accumulators, one for each pair of query and key.  Each is a vector over channels; its lanes
 * are summed at the end, for all accumulators at once.  So the order of summation of a score does not depend on which other
 * scores are computed.
 *
 *                 key 0    key 1    key 2    key 3
 *     query 0     sum[0]   sum[1]   sum[2]   sum[3]       rows = 2, DECODE_ACCUMULATORS = 8:
 *     query 1     sum[4]   sum[5]   sum[6]   sum[7]       sum[r * keys + j] */

/* PREFETCH_BYTES: how far ahead keys are prefetched into the second-level cache; PREFETCH_BYTES_NEAR: into the first-level
 * one.  PREFETCH_BYTES_ONE_ROW: into the second-level one with a single query, where a kernel needs so little work per key
 * that only the latency of memory must be hidden.  MAX_DEINTERLEAVED: up to so many channels, bf16 keys are loaded two to a
 * 32-bit lane. */
enum {
    PREFETCH_BYTES_ONE_ROW = 2048,
    PREFETCH_BYTES_NEAR = 2048,
    PREFETCH_BYTES = 8192,
    CACHE_LINE_BYTES = 64,
    MAX_DEINTERLEAVED = 256
};

/* Where keys are prefetched.  away: bytes from a row to the one that is prefetched for it.  near: 1 = into the first-level
 * cache, which Intel's processors gain from, while AMD's take 1.6 times as long (docs/performance.md). */
typedef struct prefetch_place {
    int64_t away;
    int near;
} prefetch_place;

/* out = the place for rows of so many bytes, `step` bytes apart.  ahead: bytes, unless near. */
TIER_INLINE prefetch_place prefetch_place_of(int64_t ahead, int64_t bytes, int64_t step) {
    const int near = is_intel();
    if (near) ahead = PREFETCH_BYTES_NEAR;
    return (prefetch_place){bytes > 0 ? (ahead / bytes + 1) * step : 0, near};
}
/* out = `ahead` of kernels that do nothing to keys or values but multiply them. */
TIER_INLINE int64_t prefetch_bytes_for(int64_t queries) {
    return queries == 1 ? PREFETCH_BYTES_ONE_ROW : PREFETCH_BYTES;
}

/* Prefetches for n rows.  The memory need not exist: a prefetch never faults. */
TIER_INLINE void prefetch_rows(const void *rows, int64_t n, int64_t step, int64_t bytes, prefetch_place to) {
    const int dense = step == bytes; /* one loop over all lines */
    const int64_t each = dense ? n * bytes : bytes;
    for (int64_t j = 0; j < (dense ? 1 : n); j++) {
        const uintptr_t row = (uintptr_t)rows + (uintptr_t)(j * step + to.away);
        for (int64_t b = 0; b < each; b += CACHE_LINE_BYTES) {
            /* NOLINTNEXTLINE(performance-no-int-to-ptr): it may be past the end */
            prefetch_line((const char *)(row + (uintptr_t)b), to.near);
        }
    }
}

/* Four queries, two or one. */
typedef struct query_group {
    const float *q;
    int64_t row, first, rows;
    int prefetch; /* 1: this group is the first to read the keys */
    prefetch_place to;
} query_group;

/* Adds channels from .. whole - 1 to the sums, one vector at a time; keys are widened once for all queries. */
TIER_INLINE void score_channels(elem_type type, const query_group *q, const char *const *k, int64_t from, int64_t whole,
                                vec *sum, int rows) {
    const int keys = DECODE_ACCUMULATORS / rows;
    for (int64_t c = from; c < whole; c += LANES) {
        vec y[4];
        DECODE_UNROLL
        for (int r = 0; r < rows; r++)
            y[r] = vec_in_register(vec_load(q->q + r * q->row + c));
        DECODE_UNROLL
        for (int j = 0; j < keys; j++) {
            const vec x = vec_in_register(type.load(k[j] + c * type.size));
            DECODE_UNROLL
            for (int r = 0; r < rows; r++)
                sum[r * keys + j] = vec_fma(y[r], x, sum[r * keys + j]);
        }
    }
}

/* The last n < LANES channels, from c on.  The sums go through memory, so that the loops need no code for each of them. */
TIER_INLINE void score_last_channels(elem_type type, const query_group *q, const char *const *k, int64_t c, int64_t n,
                                     vec *sum, int rows) {
    const int keys = DECODE_ACCUMULATORS / rows;
    vec all[DECODE_ACCUMULATORS];
    DECODE_UNROLL
    for (int i = 0; i < DECODE_ACCUMULATORS; i++)
        all[i] = sum[i];
    for (int j = 0; j < keys; j++) {
        const vec x = load_partial(type, k[j] + c * type.size, n);
        for (int r = 0; r < rows; r++)
            all[r * keys + j] = vec_fma(vec_load(q->q + r * q->row + c), x, all[r * keys + j]);
    }
    DECODE_UNROLL
    for (int i = 0; i < DECODE_ACCUMULATORS; i++)
        sum[i] = all[i];
}

/* bf16 keys, two to a 32-bit lane; the queries were deinterleaved to match.  out = channels done. */
TIER_INLINE int64_t score_deinterleaved(const query_group *q, const char *const *k, int64_t channels, vec *sum, int rows) {
    const int keys = DECODE_ACCUMULATORS / rows;
    int64_t c = 0;
    for (; c + 2 * LANES <= channels; c += 2 * LANES) {
        vec y[4], z[4];
        DECODE_UNROLL
        for (int r = 0; r < rows; r++) {
            y[r] = vec_in_register(vec_load(q->q + r * q->row + c));
            z[r] = vec_in_register(vec_load(q->q + r * q->row + c + LANES));
        }
        DECODE_UNROLL
        for (int j = 0; j < keys; j++) {
            vec even, odd;
            vec_load_even_odd_bf16((const uint16_t *)(const void *)k[j] + c, &even, &odd);
            DECODE_UNROLL
            for (int r = 0; r < rows; r++)
                sum[r * keys + j] = vec_fma(y[r], even, sum[r * keys + j]);
            DECODE_UNROLL
            for (int r = 0; r < rows; r++)
                sum[r * keys + j] = vec_fma(z[r], odd, sum[r * keys + j]);
        }
    }
    return c;
}

TIER_INLINE void score_accumulators(elem_type type, int deinterleaved, const query_group *q, const char *const *k,
                                    int64_t channels, vec *sum, int rows) {
    const int64_t whole = channels / LANES * LANES;
    DECODE_UNROLL
    for (int i = 0; i < DECODE_ACCUMULATORS; i++)
        sum[i] = vec_set1(0);
    score_channels(type, q, k, deinterleaved ? score_deinterleaved(q, k, channels, sum, rows) : 0, whole, sum, rows);
    if (whole < channels) score_last_channels(type, q, k, whole, channels - whole, sum, rows);
}

/* One query and one key; the sum is the same as in score_accumulators.  With a single query the keys are read one after the
 * other, which is the fastest order for memory. */
TIER_INLINE vec score_pair(elem_type type, int deinterleaved, const float *q, const char *k, int64_t channels) {
    const int64_t whole = channels / LANES * LANES;
    vec sum = vec_set1(0);
    int64_t c = 0;
    for (; deinterleaved && c + 2 * LANES <= channels; c += 2 * LANES) {
        vec even, odd;
        vec_load_even_odd_bf16((const uint16_t *)(const void *)k + c, &even, &odd);
        sum = vec_fma(vec_load(q + c + LANES), odd, vec_fma(vec_load(q + c), even, sum));
    }
    for (; c < whole; c += LANES)
        sum = vec_fma(vec_load(q + c), type.load(k + c * type.size), sum);
    return c < channels ? vec_fma(vec_load(q + c), load_partial(type, k + c * type.size, channels - c), sum) : sum;
}

/* scores of a block of keys from `first` on = the sums of each accumulator. */
TIER_INLINE void store_scores(const gyre_key_scores *p, const query_group *q, int64_t first, const vec *sum, int rows) {
    const int keys = DECODE_ACCUMULATORS / rows;
    float total[DECODE_ACCUMULATORS];
    float *scores = p->scores + q->first * p->score_row_stride + first;
    DECODE_UNROLL
    for (int i = 0; i < DECODE_ACCUMULATORS; i += LANES)
        vec_store(total + i, vec_reduce_add_each(sum + i));
    DECODE_UNROLL
    for (int r = 0; r < rows; r++)
        memcpy(scores + r * p->score_row_stride, total + r * keys, (size_t)keys * sizeof *total);
}

/* A block of keys from `first` on, and `rows` queries. */
TIER_INLINE void score_block(elem_type type, int deinterleaved, const gyre_key_scores *p, const query_group *q,
                             int64_t first, int rows) {
    const int keys = DECODE_ACCUMULATORS / rows;
    const int64_t step = p->k_row_stride * type.size;
    const char *k[DECODE_ACCUMULATORS], *at = (const char *)p->k + first * step;
    vec sum[DECODE_ACCUMULATORS];
    if (q->prefetch && rows > 1) prefetch_rows(at, keys, step, p->channels * type.size, q->to);
    DECODE_UNROLL
    for (int j = 0; j < keys; j++)
        k[j] = at + j * step;
    if (rows == 1)
        for (int j = 0; j < keys; j++) {
            if (q->prefetch) prefetch_rows(at + j * step, 1, step, p->channels * type.size, q->to);
            sum[j] = score_pair(type, deinterleaved, q->q, k[j], p->channels);
        }
    else
        score_accumulators(type, deinterleaved, q, k, p->channels, sum, rows);
    store_scores(p, q, first, sum, rows);
}

/* Whole blocks of keys.  out = keys done. */
TIER_INLINE int64_t score_blocks(elem_type type, int deinterleaved, const gyre_key_scores *p, const query_group *q,
                                 int rows) {
    const int keys = DECODE_ACCUMULATORS / rows;
    int64_t j = 0;
    for (; j + keys <= p->keys; j += keys)
        score_block(type, deinterleaved, p, q, j, rows);
    return j;
}

/* out = the products of a query and key j, a sum in each lane.  Always inlined. */
typedef vec pair_products(elem_type type, int deinterleaved, const gyre_key_scores *p, const float *query, int64_t j);

TIER_INLINE vec stored_pair(elem_type type, int deinterleaved, const gyre_key_scores *p, const float *query, int64_t j) {
    return score_pair(type, deinterleaved, query, (const char *)p->k + j * p->k_row_stride * type.size, p->channels);
}

/* The keys from `first` on, fewer than a block: one pair at a time.  q->rows is not a constant, so all groups share this
 * code. */
TIER_INLINE void score_rest(elem_type type, int deinterleaved, pair_products *products, const gyre_key_scores *p,
                            const query_group *q, int64_t first) {
    const int64_t n = p->keys - first, step = p->k_row_stride * type.size;
    if (q->prefetch) prefetch_rows((const char *)p->k + first * step, n, step, p->channels * type.size, q->to);
    for (int64_t r = 0; r < q->rows; r++) {
        float *scores = p->scores + (q->first + r) * p->score_row_stride + first;
        for (int64_t j = 0; j < n; j++)
            scores[j] = vec_reduce_add(products(type, deinterleaved, p, q->q + r * q->row, first + j));
    }
}

/* Prepares queries for score_deinterleaved: splits each 2 LANES channels into those at even and at odd places. */
TIER_INLINE void deinterleave_queries(const query_group *q, int64_t channels, float *to) {
    for (int64_t r = 0; r < q->rows; r++, to += MAX_DEINTERLEAVED) {
        const float *from = q->q + r * q->row;
        int64_t c = 0;
        for (; c + 2 * LANES <= channels; c += 2 * LANES) {
            vec even = vec_load(from + c), odd = vec_load(from + c + LANES);
            vec_deinterleave(&even, &odd);
            vec_store(to + c, even);
            vec_store(to + c + LANES, odd);
        }
        for (; c < channels; c += LANES)
            vec_store(to + c, vec_load(from + c));
    }
}

/* The queries from `first` on: four of them, or two, or one.  ahead: of prefetch_place_of. */
TIER_INLINE query_group query_group_at(const gyre_key_scores *p, int64_t first, int64_t size, int64_t ahead) {
    const int64_t left = p->rows - first;
    prefetch_place to = {0, 0};
    if (!p->prefetched) to = prefetch_place_of(ahead, p->channels * size, p->k_row_stride * size);
    return (query_group){p->q + first * p->q_row_stride,
                         p->q_row_stride,
                         first,
                         left >= 4 ? 4 : left >= 2 ? 2 : 1,
                         first == 0 && !p->prefetched,
                         to};
}

TIER_INLINE void score_group(elem_type type, int deinterleaved, const gyre_key_scores *p, const query_group *q) {
    int64_t done = 0;
    if (q->rows == 4)
        done = score_blocks(type, deinterleaved, p, q, 4);
    else if (q->rows == 2)
        done = score_blocks(type, deinterleaved, p, q, 2);
    else
        done = score_blocks(type, deinterleaved, p, q, 1);
    if (done < p->keys) score_rest(type, deinterleaved, stored_pair, p, q, done);
}

TIER_INLINE void multiply_by_key_scales(const gyre_key_scores *p) {
    for (int64_t r = 0; p->k_scale && r < p->rows; r++) {
        float *scores = p->scores + r * p->score_row_stride;
        int64_t j = 0;
        for (; j + LANES <= p->keys; j += LANES)
            vec_store(scores + j, vec_mul(vec_load(scores + j), vec_load(p->k_scale + j)));
        for (; j < p->keys; j++)
            scores[j] *= p->k_scale[j];
    }
}

TIER_INLINE void score_rows(elem_type type, int is_bf16, const gyre_key_scores *p) {
    query_group q;
    for (int64_t r = 0; r < p->rows; r += q.rows) {
        q = query_group_at(p, r, type.size, prefetch_bytes_for(p->rows - r));
        if (is_bf16 && p->channels <= MAX_DEINTERLEAVED) {
            float deinterleaved[4 * MAX_DEINTERLEAVED];
            deinterleave_queries(&q, p->channels, deinterleaved);
            q.q = deinterleaved;
            q.row = MAX_DEINTERLEAVED;
            score_group(type, 1, p, &q);
        } else {
            score_group(type, 0, p, &q);
        }
    }
    multiply_by_key_scales(p);
}

/* -- weighted sums of values -- */
TIER_INLINE void deinterleave_all(vec *sum, int n) {
    DECODE_UNROLL
    for (int i = 0; i < n; i += 2)
        vec_deinterleave(&sum[i], &sum[i + 1]);
}
TIER_INLINE void interleave_all(vec *sum, int n) {
    DECODE_UNROLL
    for (int i = 0; i < n; i += 2)
        vec_interleave(&sum[i], &sum[i + 1]);
}

/* rows x vecs accumulators over all keys.  Each sum adds its products in the order of keys, whatever the blocks. */
TIER_INLINE void weighted_sum_block(elem_type type, int deinterleaved, const gyre_weighted_values *p, int64_t r0, int64_t c0,
                                    int rows, int vecs) {
    const int64_t step = p->v_row_stride * type.size;
    const char *v = (const char *)p->v + c0 * type.size;
    const float *weights = p->weights + r0 * p->weight_row_stride;
    float *out = p->out + r0 * p->out_row_stride + c0;
    const int64_t bytes = vecs * LANES * type.size;
    prefetch_place to = {0, 0};
    if (!p->prefetched) to = prefetch_place_of(prefetch_bytes_for(p->rows), bytes, step);
    vec sum[DECODE_ACCUMULATORS];
    DECODE_UNROLL
    for (int i = 0; i < rows * vecs; i++)
        sum[i] = vec_load(out + i / vecs * p->out_row_stride + i % vecs * LANES);
    if (deinterleaved) deinterleave_all(sum, rows * vecs);
    for (int64_t j = 0; j < p->keys; j++) {
        vec x[8];
        if (r0 == 0 && !p->prefetched) prefetch_rows(v + j * step, 1, bytes, bytes, to);
        DECODE_UNROLL
        for (int i = 0; i < vecs; i += deinterleaved ? 2 : 1) {
            if (deinterleaved)
                vec_load_even_odd_bf16((const uint16_t *)(const void *)(v + j * step) + i * LANES, &x[i], &x[i + 1]);
            else
                x[i] = vec_in_register(type.load(v + j * step + i * LANES * type.size));
        }
        DECODE_UNROLL
        for (int r = 0; r < rows; r++) {
            const vec weight = vec_set1(weights[r * p->weight_row_stride + j]);
            DECODE_UNROLL
            for (int i = 0; i < vecs; i++)
                sum[r * vecs + i] = vec_fma(weight, x[i], sum[r * vecs + i]);
        }
    }
    if (deinterleaved) interleave_all(sum, rows * vecs);
    DECODE_UNROLL
    for (int i = 0; i < rows * vecs; i++)
        vec_store(out + i / vecs * p->out_row_stride + i % vecs * LANES, sum[i]);
}

/* The last n < LANES channels, past the last whole vector. */
TIER_INLINE void weighted_sum_rest(elem_type type, const gyre_weighted_values *p, int64_t r0, int64_t c0, int rows,
                                   int64_t n) {
    const elem_type table = {load_f32, store_f32, sizeof(float)};
    float *out = p->out + r0 * p->out_row_stride + c0;
    vec sum[4];
    for (int r = 0; r < rows; r++)
        sum[r] = load_partial(table, (const char *)(out + r * p->out_row_stride), n);
    for (int64_t j = 0; j < p->keys; j++) {
        const vec x = load_partial(type, (const char *)p->v + (j * p->v_row_stride + c0) * type.size, n);
        for (int r = 0; r < rows; r++)
            sum[r] = vec_fma(vec_set1(p->weights[(r0 + r) * p->weight_row_stride + j]), x, sum[r]);
    }
    for (int r = 0; r < rows; r++)
        store_partial(table, (char *)(out + r * p->out_row_stride), sum[r], n);
}

TIER_INLINE void weighted_sum_group(elem_type type, int is_bf16, const gyre_weighted_values *p, int64_t r, int rows) {
    int64_t c = 0;
    if (rows * 8 <= DECODE_ACCUMULATORS)
        for (; c + 8 * LANES <= p->channels; c += 8 * LANES)
            weighted_sum_block(type, is_bf16, p, r, c, rows, 8);
    if (rows * 4 <= DECODE_ACCUMULATORS)
        for (; c + 4 * LANES <= p->channels; c += 4 * LANES)
            weighted_sum_block(type, is_bf16, p, r, c, rows, 4);
    if (rows * 2 <= DECODE_ACCUMULATORS)
        for (; c + 2 * LANES <= p->channels; c += 2 * LANES)
            weighted_sum_block(type, is_bf16, p, r, c, rows, 2);
    for (; c + LANES <= p->channels; c += LANES)
        weighted_sum_block(type, 0, p, r, c, rows, 1);
    if (c < p->channels) weighted_sum_rest(type, p, r, c, rows, p->channels - c);
}

TIER_INLINE void weighted_sum_some(elem_type type, int is_bf16, const gyre_weighted_values *p) {
    int64_t r = 0;
    for (; r + 4 <= p->rows; r += 4)
        weighted_sum_group(type, is_bf16, p, r, 4);
    if (r + 2 <= p->rows) weighted_sum_group(type, is_bf16, p, r, 2), r += 2;
    if (r < p->rows) weighted_sum_group(type, is_bf16, p, r, 1);
}

/* VALUES_TOGETHER: rows of values that all passes over channels take before the next rows, if there are several passes.
 * Each reads a part of each row, while Intel's second-level cache fetches all lines in order: over all keys, the first pass
 * would wait for what later ones need (docs/performance.md). */
enum { VALUES_TOGETHER = 16 };
TIER_INLINE void weighted_sum_rows(elem_type type, int is_bf16, const gyre_weighted_values *all) {
    const int in_parts = is_intel() && !all->prefetched && all->rows * all->channels > DECODE_ACCUMULATORS * LANES;
    const int64_t together = in_parts ? VALUES_TOGETHER : all->keys;
    for (int64_t first = 0; first < all->keys; first += together) {
        gyre_weighted_values p = *all;
        p.keys = all->keys - first < together ? all->keys - first : together;
        p.weights += first;
        p.v = (const char *)all->v + first * all->v_row_stride * type.size;
        weighted_sum_some(type, is_bf16, &p);
    }
}

#define DEFINE_DECODE_KERNELS(name, load, size, is_bf16)                                                                    \
    KERNEL(score_rows_##name)(const gyre_key_scores *p) {                                                                   \
        score_rows((elem_type){load, NULL, size}, is_bf16, p);                                                              \
    }                                                                                                                       \
    KERNEL(weighted_sum_##name)(const gyre_weighted_values *p) {                                                            \
        weighted_sum_rows((elem_type){load, NULL, size}, is_bf16, p);                                                       \
    }
DEFINE_DECODE_KERNELS(f32, load_f32, 4, 0)
DEFINE_DECODE_KERNELS(f16, load_f16, 2, 0)
DEFINE_DECODE_KERNELS(bf16, load_bf16, 2, 1)
#ifndef VNNI_INSTRUCTIONS /* vnni/q8_vnni.h has them */
DEFINE_DECODE_KERNELS(q8, load_q8, 1, 0)
#endif

#endif
