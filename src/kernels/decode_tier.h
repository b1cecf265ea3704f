/* decode_tier.h: rows of other types, and few queries against keys and values that are read once, where they lie. */
#ifndef GYRE_KERNELS_DECODE_TIER_H
#define GYRE_KERNELS_DECODE_TIER_H
#include "kernels/rotate_tier.h"
#include <stddef.h>

/* Checked at every access, loops that are unrolled take a compiler minutes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FEW_UNROLL
#else
#define FEW_UNROLL TURN_UNROLL
#endif

/* -- rows of other types ---------------------------------------------------------------------------------------------- */
static inline vec few_load_q8(const void *p) {
    return vec_load_q8(p);
}

TURN_INLINE void row_load(turn_type type, const char *in, float *out, int64_t n) {
    const turn_type table = {turn_load_f32, turn_store_f32, sizeof(float)};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(out + i, type.load(in + i * type.size));
    if (i < n) turn_store_some(table, (char *)(out + i), turn_load_some(type, in + i * type.size, n - i), n - i);
}
TURN_INLINE void row_store(turn_type type, const float *in, char *out, int64_t n) {
    const turn_type table = {turn_load_f32, turn_store_f32, sizeof(float)};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        type.store(out + i * type.size, vec_load(in + i));
    if (i < n) turn_store_some(type, out + i * type.size, turn_load_some(table, (const char *)(in + i), n - i), n - i);
}
static void widen_f16(const void *in, float *out, int64_t n) {
    row_load((turn_type){turn_load_f16, turn_store_f16, 2}, in, out, n);
}
static void widen_bf16(const void *in, float *out, int64_t n) {
    row_load((turn_type){turn_load_bf16, turn_store_bf16, 2}, in, out, n);
}
static void narrow_f16(const float *in, void *out, int64_t n) {
    row_store((turn_type){turn_load_f16, turn_store_f16, 2}, in, out, n);
}
static void narrow_bf16(const float *in, void *out, int64_t n) {
    row_store((turn_type){turn_load_bf16, turn_store_bf16, 2}, in, out, n);
}
static void widen_q8(const void *in, float *out, int64_t n) {
    row_load((turn_type){few_load_q8, NULL, 1}, in, out, n);
}

/* -- few queries against keys ----------------------------------------------------------------------------------------- */
/* FEW_SUMS accumulators, one for each pair of a query and a key, each a vector over channels, summed over its lanes at the
 * end, all at once.  So a score is summed in one order, whoever else is asked for. */

#if defined(__GNUC__)
#define FEW_FETCH(p) __builtin_prefetch(p, 0, 2)
#else
#define FEW_FETCH(p) (void)(p)
#endif
/* Bytes of the rows to come that are asked for before they are read: one query asks so little of each that memory keeps up
 * by itself but for its latency.  FEW_LINE: what a fetch brings.  FEW_PARTED: channels that bf16 goes by two to a lane for.
 */
enum { FEW_AHEAD_ONE = 2048, FEW_AHEAD = 8192, FEW_LINE = 64, FEW_PARTED = 256 };

/* What lies `ahead` bytes past n rows.  It need not be there: a fetch from nowhere does nothing. */
TURN_INLINE void fetch_rows(const void *rows, int64_t first, int64_t n, int64_t step, int64_t bytes, int64_t ahead) {
    const int64_t away = ahead / bytes + 1;
    for (int64_t j = 0; j < n; j++) {
        const uintptr_t at = (uintptr_t)rows + (uintptr_t)((first + j + away) * step);
        for (int64_t b = 0; b < bytes; b += FEW_LINE)
            FEW_FETCH((const char *)(at + (uintptr_t)b)); /* NOLINT(performance-no-int-to-ptr): it may be past the end */
    }
}

/* Some queries, at most four. */
typedef struct few_queries {
    const float *q;
    int64_t row, first;
    int fetch; /* these are the first to read the keys */
} few_queries;

/* c on to the end of a row, a vector at a time, keys widened once for all queries. */
TURN_INLINE void score_channels(turn_type type, const few_queries *q, const char *const *k, int64_t from, int64_t channels,
                                vec *sum, int rows) {
    const int keys = FEW_SUMS / rows;
    for (int64_t c = from; c < channels; c += LANES) {
        const int64_t left = channels - c;
        vec y[4];
        FEW_UNROLL
        for (int r = 0; r < rows; r++)
            y[r] = vec_held(vec_load(q->q + r * q->row + c));
        FEW_UNROLL
        for (int j = 0; j < keys; j++) {
            const vec x = vec_held(turn_load_up_to(type, k[j] + c * type.size, left));
            FEW_UNROLL
            for (int r = 0; r < rows; r++)
                sum[r * keys + j] = vec_fma(y[r], x, sum[r * keys + j]);
        }
    }
}

/* bf16 by two to a lane; the queries were parted likewise.  out = channels done. */
TURN_INLINE int64_t score_parted(const few_queries *q, const char *const *k, int64_t channels, vec *sum, int rows) {
    const int keys = FEW_SUMS / rows;
    int64_t c = 0;
    for (; c + 2 * LANES <= channels; c += 2 * LANES) {
        vec y[4], z[4];
        FEW_UNROLL
        for (int r = 0; r < rows; r++) {
            y[r] = vec_held(vec_load(q->q + r * q->row + c));
            z[r] = vec_held(vec_load(q->q + r * q->row + c + LANES));
        }
        FEW_UNROLL
        for (int j = 0; j < keys; j++) {
            vec even, odd;
            vec_load_two_bf16((const uint16_t *)(const void *)k[j] + c, &even, &odd);
            FEW_UNROLL
            for (int r = 0; r < rows; r++)
                sum[r * keys + j] = vec_fma(y[r], even, sum[r * keys + j]);
            FEW_UNROLL
            for (int r = 0; r < rows; r++)
                sum[r * keys + j] = vec_fma(z[r], odd, sum[r * keys + j]);
        }
    }
    return c;
}

TURN_INLINE void score_together(turn_type type, int parted, const few_queries *q, const char *const *k, int64_t channels,
                                vec *sum, int rows) {
    const int64_t whole = channels / LANES * LANES;
    FEW_UNROLL
    for (int i = 0; i < FEW_SUMS; i++)
        sum[i] = vec_set1(0);
    score_channels(type, q, k, parted ? score_parted(q, k, channels, sum, rows) : 0, whole, sum, rows);
    if (whole < channels) score_channels(type, q, k, whole, channels, sum, rows);
}

/* One query: key after key, as they lie, which is how memory is read fastest; for each the same sum. */
TURN_INLINE vec score_pair(turn_type type, int parted, const float *q, const char *k, int64_t channels) {
    const int64_t whole = channels / LANES * LANES;
    vec sum = vec_set1(0);
    int64_t c = 0;
    for (; parted && c + 2 * LANES <= channels; c += 2 * LANES) {
        vec even, odd;
        vec_load_two_bf16((const uint16_t *)(const void *)k + c, &even, &odd);
        sum = vec_fma(vec_load(q + c + LANES), odd, vec_fma(vec_load(q + c), even, sum));
    }
    for (; c < whole; c += LANES)
        sum = vec_fma(vec_load(q + c), type.load(k + c * type.size), sum);
    return c < channels ? vec_fma(vec_load(q + c), turn_load_some(type, k + c * type.size, channels - c), sum) : sum;
}

/* Keys first .. first + n - 1 and `rows` queries; past the n-th, the last key stands in for those that are not there. */
TURN_INLINE void score_block(turn_type type, int parted, const gyre_key_scores *p, const few_queries *q, int64_t first,
                             int64_t n, int rows) {
    const int keys = FEW_SUMS / rows;
    const int64_t step = p->k_row * type.size;
    const char *k[FEW_SUMS], *at = (const char *)p->k + first * step;
    vec sum[FEW_SUMS];
    float total[FEW_SUMS];
    if (q->fetch && rows > 1) fetch_rows(p->k, first, n, step, p->channels * type.size, FEW_AHEAD);
    FEW_UNROLL
    for (int j = 0; j < keys; j++)
        k[j] = at + (j < n ? j : n - 1) * step;
    if (rows == 1)
        for (int j = 0; j < keys; j++) {
            if (q->fetch) fetch_rows(p->k, first + j, 1, step, p->channels * type.size, FEW_AHEAD_ONE);
            sum[j] = score_pair(type, parted, q->q, k[j], p->channels);
        }
    else
        score_together(type, parted, q, k, p->channels, sum, rows);
    FEW_UNROLL
    for (int i = 0; i < FEW_SUMS; i += LANES)
        vec_store(total + i, vec_sums(sum + i));
    float *scores = p->scores + q->first * p->score_row + first;
    FEW_UNROLL
    for (int r = 0; r < rows; r++)
        for (int64_t j = 0; j < (n < keys ? n : keys); j++)
            scores[r * p->score_row + j] = total[r * keys + j];
}

TURN_INLINE void score_keys(turn_type type, int parted, const gyre_key_scores *p, const few_queries *q, int rows) {
    const int keys = FEW_SUMS / rows;
    int64_t j = 0;
    for (; j + keys <= p->keys; j += keys)
        score_block(type, parted, p, q, j, keys, rows);
    if (j < p->keys) score_block(type, parted, p, q, j, p->keys - j, rows);
}

/* Queries as score_parted wants them: channels of even and odd places apart, as far as those go by two vectors. */
TURN_INLINE void part_queries(const few_queries *q, int64_t channels, int rows, float *to) {
    for (int r = 0; r < rows; r++, to += FEW_PARTED) {
        const float *from = q->q + r * q->row;
        int64_t c = 0;
        for (; c + 2 * LANES <= channels; c += 2 * LANES) {
            vec even = vec_load(from + c), odd = vec_load(from + c + LANES);
            vec_part(&even, &odd);
            vec_store(to + c, even);
            vec_store(to + c + LANES, odd);
        }
        for (; c < channels; c += LANES)
            vec_store(to + c, vec_load(from + c));
    }
}

TURN_INLINE void score_some(turn_type type, int brain, const gyre_key_scores *p, int64_t first, int rows) {
    const few_queries q = {p->q + first * p->q_row, p->q_row, first, first == 0 && !p->fetched};
    if (brain && p->channels <= FEW_PARTED) {
        float parted[4 * FEW_PARTED];
        part_queries(&q, p->channels, rows, parted);
        score_keys(type, 1, p, &(few_queries){parted, FEW_PARTED, first, first == 0 && !p->fetched}, rows);
    } else {
        score_keys(type, 0, p, &q, rows);
    }
}

TURN_INLINE void score_rows(turn_type type, int brain, const gyre_key_scores *p) {
    int64_t r = 0;
    for (; r + 4 <= p->rows; r += 4)
        score_some(type, brain, p, r, 4);
    if (r + 2 <= p->rows) score_some(type, brain, p, r, 2), r += 2;
    if (r < p->rows) score_some(type, brain, p, r, 1);
    for (r = 0; p->k_scale && r < p->rows; r++) {
        float *scores = p->scores + r * p->score_row;
        int64_t j = 0;
        for (; j + LANES <= p->keys; j += LANES)
            vec_store(scores + j, vec_mul(vec_load(scores + j), vec_load(p->k_scale + j)));
        for (; j < p->keys; j++)
            scores[j] *= p->k_scale[j];
    }
}

/* -- their weights and values ------------------------------------------------------------------------------------------ */
TURN_INLINE void part_all(vec *sum, int n) {
    FEW_UNROLL
    for (int i = 0; i < n; i += 2)
        vec_part(&sum[i], &sum[i + 1]);
}
TURN_INLINE void join_all(vec *sum, int n) {
    FEW_UNROLL
    for (int i = 0; i < n; i += 2)
        vec_join(&sum[i], &sum[i + 1]);
}

/* rows x vecs accumulators over all keys: each sum takes its products in the order of keys, whatever the blocks. */
TURN_INLINE void weigh_block(turn_type type, int parted, const gyre_value_sums *p, int64_t r0, int64_t c0, int rows,
                             int vecs) {
    const int64_t step = p->v_row * type.size;
    const char *v = (const char *)p->v + c0 * type.size;
    const float *weights = p->weights + r0 * p->weight_row;
    float *out = p->out + r0 * p->out_row + c0;
    vec sum[FEW_SUMS];
    FEW_UNROLL
    for (int i = 0; i < rows * vecs; i++)
        sum[i] = vec_load(out + i / vecs * p->out_row + i % vecs * LANES);
    if (parted) part_all(sum, rows * vecs);
    for (int64_t j = 0; j < p->keys; j++) {
        vec x[8];
        if (r0 == 0 && !p->fetched)
            fetch_rows(v, j, 1, step, vecs * LANES * type.size, p->rows == 1 ? FEW_AHEAD_ONE : FEW_AHEAD);
        FEW_UNROLL
        for (int i = 0; i < vecs; i += parted ? 2 : 1) {
            if (parted)
                vec_load_two_bf16((const uint16_t *)(const void *)(v + j * step) + i * LANES, &x[i], &x[i + 1]);
            else
                x[i] = vec_held(type.load(v + j * step + i * LANES * type.size));
        }
        FEW_UNROLL
        for (int r = 0; r < rows; r++) {
            const vec weight = vec_set1(weights[r * p->weight_row + j]);
            FEW_UNROLL
            for (int i = 0; i < vecs; i++)
                sum[r * vecs + i] = vec_fma(weight, x[i], sum[r * vecs + i]);
        }
    }
    if (parted) join_all(sum, rows * vecs);
    FEW_UNROLL
    for (int i = 0; i < rows * vecs; i++)
        vec_store(out + i / vecs * p->out_row + i % vecs * LANES, sum[i]);
}

/* The n < LANES channels past the last whole vector. */
TURN_INLINE void weigh_rest(turn_type type, const gyre_value_sums *p, int64_t r0, int64_t c0, int rows, int64_t n) {
    const turn_type table = {turn_load_f32, turn_store_f32, sizeof(float)};
    float *out = p->out + r0 * p->out_row + c0;
    vec sum[4];
    for (int r = 0; r < rows; r++)
        sum[r] = turn_load_some(table, (const char *)(out + r * p->out_row), n);
    for (int64_t j = 0; j < p->keys; j++) {
        const vec x = turn_load_some(type, (const char *)p->v + (j * p->v_row + c0) * type.size, n);
        for (int r = 0; r < rows; r++)
            sum[r] = vec_fma(vec_set1(p->weights[(r0 + r) * p->weight_row + j]), x, sum[r]);
    }
    for (int r = 0; r < rows; r++)
        turn_store_some(table, (char *)(out + r * p->out_row), sum[r], n);
}

TURN_INLINE void weigh_some(turn_type type, int brain, const gyre_value_sums *p, int64_t r, int rows) {
    int64_t c = 0;
    if (rows * 8 <= FEW_SUMS)
        for (; c + 8 * LANES <= p->channels; c += 8 * LANES)
            weigh_block(type, brain, p, r, c, rows, 8);
    if (rows * 4 <= FEW_SUMS)
        for (; c + 4 * LANES <= p->channels; c += 4 * LANES)
            weigh_block(type, brain, p, r, c, rows, 4);
    if (rows * 2 <= FEW_SUMS)
        for (; c + 2 * LANES <= p->channels; c += 2 * LANES)
            weigh_block(type, brain, p, r, c, rows, 2);
    for (; c + LANES <= p->channels; c += LANES)
        weigh_block(type, 0, p, r, c, rows, 1);
    if (c < p->channels) weigh_rest(type, p, r, c, rows, p->channels - c);
}

TURN_INLINE void weigh_rows(turn_type type, int brain, const gyre_value_sums *p) {
    int64_t r = 0;
    for (; r + 4 <= p->rows; r += 4)
        weigh_some(type, brain, p, r, 4);
    if (r + 2 <= p->rows) weigh_some(type, brain, p, r, 2), r += 2;
    if (r < p->rows) weigh_some(type, brain, p, r, 1);
}

#define FEW_ROWS(name, load, size, brain)                                                                                   \
    static void score_rows_##name(const gyre_key_scores *p) {                                                               \
        score_rows((turn_type){load, NULL, size}, brain, p);                                                                \
    }                                                                                                                       \
    static void weigh_rows_##name(const gyre_value_sums *p) {                                                               \
        weigh_rows((turn_type){load, NULL, size}, brain, p);                                                                \
    }
FEW_ROWS(f32, turn_load_f32, 4, 0)
FEW_ROWS(f16, turn_load_f16, 2, 0)
FEW_ROWS(bf16, turn_load_bf16, 2, 1)
FEW_ROWS(q8, few_load_q8, 1, 0)

#endif
