/* attend_tier.h: one query of several heads with few keys, from the product of query and key to the finished row.
 *
 * A call of each kernel for each head costs more than its work where a head has a few keys.  Heads that share their
 * keys with none go through code that is inlined; those of a group share the keys that they read, by the kernels of
 * decode_tier.h. */
#ifndef GYRE_KERNELS_ATTEND_TIER_H
#define GYRE_KERNELS_ATTEND_TIER_H
#include "kernels/decode_rotated_tier.h"
#include "kernels/tier_kernels.h"

#include <math.h>

/* ATTEND_ROWS: rows of a group that are computed together, as many as the kernels of decoding take at once. */
enum { ATTEND_KEYS = 128, ATTEND_ROWS = 4 };

/* What a tile of keys is computed with; functions of one type. */
typedef struct attend_type {
    elem_type type;
    int is_bf16;
    void (*score)(const gyre_key_scores *job), (*score_rotated)(const gyre_key_scores *job);
    void (*add_values)(const gyre_weighted_values *job);
} attend_type;

typedef struct attend_rows {
    float q[ATTEND_ROWS * GYRE_MAX_QUERY_CHANNELS], out[ATTEND_ROWS * GYRE_MAX_QUERY_CHANNELS];
    float scores[ATTEND_ROWS * ATTEND_KEYS], row_max[ATTEND_ROWS];
    double row_sum[ATTEND_ROWS];
} attend_rows;

/* out = vectors that n floats take, in floats. */
TIER_INLINE int64_t attend_padded(int64_t n) {
    return (n + 15) / 16 * 16;
}

/* to[padded] = from[n] times `by`, and zeros. */
TIER_INLINE void attend_scale(const float *from, int64_t n, vec by, float *to) {
    const elem_type floats = {load_f32, store_f32, sizeof(float)};
    int64_t c = 0;
    for (; c + LANES <= n; c += LANES)
        vec_store(to + c, vec_mul(vec_load(from + c), by));
    for (; c < attend_padded(n); c += LANES)
        vec_store(to + c, vec_mul(load_partial(floats, (const char *)(from + c), n - c), by));
}

TIER_INLINE void attend_begin(const gyre_query_attention *p, const float *q, int64_t rows, attend_rows *s) {
    const int64_t value_pad = attend_padded(p->value_channels);
    for (int64_t r = 0; r < rows; r++) {
        attend_scale(q + r * p->q_head_stride, p->channels, vec_set1(p->scale), s->q + r * GYRE_MAX_QUERY_CHANNELS);
        for (int64_t c = 0; c < value_pad; c += LANES)
            vec_store(s->out + r * GYRE_MAX_QUERY_CHANNELS + c, vec_set1(0));
        s->row_max[r] = -INFINITY;
        s->row_sum[r] = 0;
    }
}

/* Scores of a row -> weights, as gyre_softmax_update.  columns: keys, padded. */
TIER_INLINE void attend_softmax(attend_rows *s, int64_t r, int64_t columns, int64_t value_pad) {
    float *scores = s->scores + r * ATTEND_KEYS, *out = s->out + r * GYRE_MAX_QUERY_CHANNELS, sum;
    vec largest = vec_set1(-INFINITY);
    for (int64_t i = 0; i < columns; i += LANES)
        largest = vec_max(vec_load(scores + i), largest);
    const float row_max = vec_reduce_max(largest);
    if (row_max > s->row_max[r]) {
        const float change = s->row_max[r] - row_max, shrink = change < GYRE_SMALLEST_WEIGHT_LOG ? 0 : expf(change);
        for (int64_t c = 0; s->row_sum[r] != 0 && c < value_pad; c += LANES) /* without a key before, all are zeros */
            vec_store(out + c, shrink == 0 ? vec_set1(0) : vec_mul(vec_load(out + c), vec_set1(shrink)));
        s->row_sum[r] *= (double)shrink;
        s->row_max[r] = row_max;
    }
    exp_row_from(scores, columns, s->row_max[r] == -INFINITY ? 0 : s->row_max[r], &sum, GYRE_SMALLEST_WEIGHT_LOG);
    s->row_sum[r] += (double)sum;
}

/* Scores and values of keys first .. first + keys - 1, of `rows` rows from r on. */
TIER_INLINE gyre_key_scores attend_scores_job(const attend_type *t, const gyre_query_attention *p, const char *k,
                                              int64_t first, int64_t keys, int64_t r, int64_t rows, attend_rows *s) {
    return (gyre_key_scores){.rows = rows,
                             .keys = keys,
                             .channels = p->channels,
                             .q = s->q + r * GYRE_MAX_QUERY_CHANNELS,
                             .q_row_stride = GYRE_MAX_QUERY_CHANNELS,
                             .k = k + first * p->k_row_stride * t->type.size,
                             .k_row_stride = p->k_row_stride,
                             .scores = s->scores + r * ATTEND_KEYS,
                             .score_row_stride = ATTEND_KEYS,
                             .prefetched = 1,
                             .angles = p->angles ? p->angles + first * 2 * p->pairs : NULL,
                             .pairs = p->pairs};
}
TIER_INLINE gyre_weighted_values attend_values_job(const attend_type *t, const gyre_query_attention *p, const char *v,
                                                   int64_t first, int64_t keys, int64_t r, int64_t rows, attend_rows *s) {
    return (gyre_weighted_values){.rows = rows,
                                  .keys = keys,
                                  .channels = p->value_channels,
                                  .weights = s->scores + r * ATTEND_KEYS,
                                  .weight_row_stride = ATTEND_KEYS,
                                  .v = v + first * p->v_row_stride * t->type.size,
                                  .v_row_stride = p->v_row_stride,
                                  .out = s->out + r * GYRE_MAX_QUERY_CHANNELS,
                                  .out_row_stride = GYRE_MAX_QUERY_CHANNELS,
                                  .prefetched = 1};
}

/* Adds keys first .. first + keys - 1 to `rows` rows: those of a group, or of as many key heads (group 1), whose steps
 * alternate, because each has to wait for its own one before. */
TIER_INLINE void attend_keys(const attend_type *t, const gyre_query_attention *p, const char *k, const char *v,
                             int64_t first, int64_t keys, int64_t rows, attend_rows *s) {
    const int64_t columns = attend_padded(keys), value_pad = attend_padded(p->value_channels);
    const int64_t each = p->group == 1 ? 1 : rows, k_step = p->k_head_stride * t->type.size,
                  v_step = p->v_head_stride * t->type.size;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = keys / LANES * LANES; j < columns; j += LANES)
            vec_store(s->scores + r * ATTEND_KEYS + j, vec_set1(-INFINITY));
    for (int64_t r = 0; r < rows; r += each) {
        const gyre_key_scores job = attend_scores_job(t, p, k + r * k_step, first, keys, r, each, s);
        if (p->angles)
            t->score_rotated(&job);
        else if (each == 1)
            score_rows(t->type, t->is_bf16, &job);
        else
            t->score(&job);
    }
    for (int64_t r = 0; r < rows; r++)
        attend_softmax(s, r, columns, value_pad);
    for (int64_t r = 0; r < rows; r += each) {
        const gyre_weighted_values job = attend_values_job(t, p, v + r * v_step, first, keys, r, each, s);
        if (each == 1)
            weighted_sum_rows(t->type, t->is_bf16, &job);
        else
            t->add_values(&job);
    }
}

/* Rows -> out.  out = 1 if all sums are finite. */
TIER_INLINE int attend_end(const gyre_query_attention *p, int64_t head, int64_t rows, const attend_rows *s) {
    const elem_type floats = {load_f32, store_f32, sizeof(float)};
    const vec zero = vec_set1(0);
    vec all = zero; /* 0 x is 0 for a finite x, NaN otherwise */
    int finite = 1;
    for (int64_t r = 0; r < rows; r++) {
        const float *from = s->out + r * GYRE_MAX_QUERY_CHANNELS;
        float *to = p->out + (head + r) * p->out_head_stride;
        const double sum = s->row_sum[r];
        const vec scale = vec_set1(sum == 0 ? 0 : (float)(1 / sum));
        for (int64_t c = 0; c < p->value_channels; c += LANES) {
            const vec x = vec_add(vec_load(from + c), zero); /* as the sum of partials leaves a negative zero */
            all = vec_fma(x, zero, all);
            store_up_to(floats, (char *)(to + c), vec_mul(x, scale), p->value_channels - c);
        }
        finite &= isfinite(sum);
        if (p->row_max) p->row_max[head + r] = s->row_max[r];
        if (p->row_sum) p->row_sum[head + r] = sum;
    }
    return finite && vec_reduce_add(all) == 0;
}

/* Query heads head .. head + rows - 1, of one key head. */
TIER_INLINE int attend_heads(const attend_type *t, const gyre_query_attention *p, int64_t head, int64_t rows) {
    const int64_t key_head = head / p->group;
    const char *k = (const char *)p->k + key_head * p->k_head_stride * t->type.size,
               *v = (const char *)p->v + key_head * p->v_head_stride * t->type.size;
    attend_rows s;
    attend_begin(p, p->q + head * p->q_head_stride, rows, &s);
    for (int64_t first = 0; first < p->keys; first += ATTEND_KEYS) {
        const int64_t left = p->keys - first;
        attend_keys(t, p, k, v, first, left < ATTEND_KEYS ? left : ATTEND_KEYS, rows, &s);
    }
    return attend_end(p, head, rows, &s);
}

/* Scores of the keys of a query head, a constant number of them.  out = its values. */
TIER_INLINE const char *attend_few_scores(const attend_type *t, const gyre_query_attention *p, int64_t head, int64_t keys,
                                          float *scores) {
    const int64_t key_head = head / p->group;
    float q[GYRE_MAX_QUERY_CHANNELS];
    const gyre_key_scores job = {.rows = 1,
                                 .keys = keys,
                                 .channels = p->channels,
                                 .q = q,
                                 .k = (const char *)p->k + key_head * p->k_head_stride * t->type.size,
                                 .k_row_stride = p->k_row_stride,
                                 .scores = scores,
                                 .prefetched = 1,
                                 .angles = p->angles,
                                 .pairs = p->pairs};
    attend_scale(p->q + head * p->q_head_stride, p->channels, vec_set1(p->scale), q);
    if (p->angles)
        t->score_rotated(&job);
    else
        score_rows(t->type, t->is_bf16, &job);
    return (const char *)p->v + key_head * p->v_head_stride * t->type.size;
}

/* All rows, of one key each: its weight is exp(0), and out is its value.  out = 1 if scores and values are finite. */
TIER_INLINE int attend_only_key(const attend_type *t, const gyre_query_attention *p) {
    const elem_type floats = {load_f32, store_f32, sizeof(float)};
    const vec zero = vec_set1(0);
    float score[ATTEND_ROWS];
    vec all = zero;
    int finite = 1;
    for (int64_t head = 0; head < p->heads * p->group; head++) {
        const char *v = attend_few_scores(t, p, head, 1, score);
        finite &= isfinite(score[0]);
        for (int64_t c = 0; c < p->value_channels; c += LANES) {
            const int64_t left = p->value_channels - c;
            const vec x = vec_add(load_up_to(t->type, v + c * t->type.size, left), zero); /* no negative zero */
            all = vec_fma(x, zero, all);
            store_up_to(floats, (char *)(p->out + head * p->out_head_stride + c), x, left);
        }
        if (p->row_max) p->row_max[head] = score[0];
        if (p->row_sum) p->row_sum[head] = 1;
    }
    return finite && vec_reduce_add(all) == 0;
}

/* Rows of two keys that share a vector of exponentials. */
typedef struct attend_two {
    float scores[LANES][2], weight[LANES]; /* weight: of the key with the lower score */
    const char *v[LANES];
} attend_two;

/* Row r of `two`, of a query head -> out; the sums as attend_keys and attend_end add them.  out = `all`, with 0 times
 * each number of the sums added. */
TIER_INLINE vec attend_two_values(const attend_type *t, const gyre_query_attention *p, int64_t head, const attend_two *two,
                                  int64_t r, vec all) {
    const elem_type floats = {load_f32, store_f32, sizeof(float)};
    const int first_lower = two->scores[r][0] < two->scores[r][1];
    const float w0 = first_lower ? two->weight[r] : 1, w1 = first_lower ? 1 : two->weight[r], sum = w0 + w1;
    const vec zero = vec_set1(0), by0 = vec_set1(w0), by1 = vec_set1(w1), scale = vec_set1((float)(1 / (double)sum));
    for (int64_t c = 0; c < p->value_channels; c += LANES) {
        const int64_t left = p->value_channels - c;
        const vec v0 = load_up_to(t->type, two->v[r] + c * t->type.size, left),
                  v1 = load_up_to(t->type, two->v[r] + (p->v_row_stride + c) * t->type.size, left);
        const vec x = vec_add(vec_fma(by1, v1, vec_fma(by0, v0, zero)), zero);
        all = vec_fma(x, zero, all);
        store_up_to(floats, (char *)(p->out + head * p->out_head_stride + c), vec_mul(x, scale), left);
    }
    if (p->row_max) p->row_max[head] = two->scores[r][first_lower];
    if (p->row_sum) p->row_sum[head] = (double)sum;
    return all;
}

/* All rows, of two keys each: the weight of the higher score is exp(0), so each row has one exponential.  out = as
 * attend_only_key. */
TIER_INLINE int attend_two_keys(const attend_type *t, const gyre_query_attention *p) {
    const int64_t rows = p->heads * p->group;
    attend_two two;
    vec all = vec_set1(0);
    int finite = 1;
    for (int64_t first = 0; first < rows; first += LANES) {
        const int64_t some = rows - first < LANES ? rows - first : LANES;
        vec_store(two.weight, vec_set1(0));
        for (int64_t r = 0; r < some; r++) {
            two.v[r] = attend_few_scores(t, p, first + r, 2, two.scores[r]);
            const float change = two.scores[r][1] - two.scores[r][0];
            finite &= isfinite(two.scores[r][0]) && isfinite(two.scores[r][1]);
            two.weight[r] = change < 0 ? change : -change;
        }
        vec_store(two.weight, vec_exp_from(vec_load(two.weight), GYRE_SMALLEST_WEIGHT_LOG));
        for (int64_t r = 0; r < some; r++)
            all = attend_two_values(t, p, first + r, &two, r, all);
    }
    return finite && vec_reduce_add(all) == 0;
}

TIER_INLINE void attend_query(const attend_type t, const gyre_query_attention *p, int *finite) {
    const int64_t some = p->group == 1 ? p->heads : p->group; /* heads that may be gone through together */
    *finite = 1;
    if (p->keys == 1 || p->keys == 2) {
        *finite = p->keys == 1 ? attend_only_key(&t, p) : attend_two_keys(&t, p);
        return;
    }
    for (int64_t h = 0; h < p->heads * p->group; h += some)
        for (int64_t r = 0; r < some; r += ATTEND_ROWS)
            *finite &= attend_heads(&t, p, h + r, some - r < ATTEND_ROWS ? some - r : ATTEND_ROWS);
}

#define DEFINE_ATTEND_KERNEL(name, load, size, is_bf16)                                                                     \
    KERNEL(attend_query_##name)(const gyre_query_attention *p, int *finite) {                                               \
        attend_query((attend_type){{load, NULL, size},                                                                      \
                                   is_bf16,                                                                                 \
                                   OF_TIER(score_rows_##name),                                                              \
                                   OF_TIER(score_rotated_##name),                                                           \
                                   OF_TIER(weighted_sum_##name)},                                                           \
                     p, finite);                                                                                            \
    }
DEFINE_ATTEND_KERNEL(f32, load_f32, 4, 0)
DEFINE_ATTEND_KERNEL(f16, load_f16, 2, 0)
DEFINE_ATTEND_KERNEL(bf16, load_bf16, 2, 1)

#endif
