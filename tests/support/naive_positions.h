/* naive_positions.h: the terms that every encoding adds, from the formulas of the papers, one pair of query and key at a
 * time, in double. From the library it takes only the config, the frequencies of rotations and the offsets of tensors: no
 * row, no bucket. */
#ifndef GYRE_TESTS_NAIVE_POSITIONS_H
#define GYRE_TESTS_NAIVE_POSITIONS_H
#include "model/model.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Context lengths that differ from query to query: the length of the query at m, and the frequencies at that length,
 * computed independently. */
typedef struct naive_lengths {
    int64_t (*of)(const struct naive_lengths *lengths, int64_t m);
    void (*frequencies)(const gyre_config *p, int64_t length, double *inv_freq, double *attention);
    int64_t step, last; /* for `of` */
} naive_lengths;

typedef struct naive {
    const gyre_model *m;
    const gyre_encoding *encoding;
    const double *w;
    int64_t n, length;            /* tokens; current context length */
    const naive_lengths *lengths; /* NULL = `length` for all queries, with the library's frequencies */
} naive;

typedef struct naive_pair {
    int64_t layer, head, m, n; /* query and key position, n <= m */
} naive_pair;

static inline const gyre_config *naive_config(const naive *d) {
    return gyre_encoding_get_config(d->encoding);
}

static inline const double *naive_table(const naive *d, int64_t layer, gyre_table which) {
    const int64_t of = d->m->config.shared_tables ? 0 : layer;
    return d->w + gyre_layer_tensor_offset(&d->m->layout, of, GYRE_WEIGHT_FIRST_TABLE + (int)which - GYRE_TABLE_QUERY);
}

static inline int64_t naive_clip(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

static inline double naive_dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* -- numbers -- */
/* Press 2021: 2^(-8 k / c) for the largest power of two c of heads, then the odd ones for 2 c. */
static inline double naive_slope(int64_t heads, int64_t h) {
    int64_t c = 1;
    while (2 * c <= heads)
        c *= 2;
    return h < c ? pow(2, -8.0 * (double)(h + 1) / (double)c) : pow(2, -8.0 * (double)(2 * (h - c) + 1) / (double)(2 * c));
}

/* Raffel 2019, for keys up to the query. */
static inline int64_t naive_t5_bucket(const gyre_config *p, int64_t distance) {
    const int64_t buckets = p->score.bidirectional ? p->score.buckets / 2 : p->score.buckets, exact = buckets / 2;
    if (distance < exact) return distance;
    const double share = log((double)distance / (double)exact) / log((double)p->score.max_distance / (double)exact);
    const int64_t bucket = exact + (int64_t)floor(share * (double)(buckets - exact));
    return bucket < buckets - 1 ? bucket : buckets - 1;
}

/* Li 2023: f(ln(c d + 1) / ln(c max(L, m) + 1)). f is a network with one hidden layer of ReLUs. c and L by absolute
 * value. */
static inline double naive_fire(const gyre_config *p, const double *column, int64_t stride, int64_t m, int64_t distance) {
    const int64_t width = p->score.hidden_units;
    const double c = fabs(column[0]), threshold = fabs(column[stride]);
    const double x = log(c * (double)distance + 1) / log(c * fmax(threshold, (double)m) + 1);
    double sum = column[(3 * width + 2) * stride];
    for (int64_t i = 0; i < width; i++) {
        const double unit = column[(2 + i) * stride] * x + column[(2 + width + i) * stride];
        sum += column[(2 + 2 * width + i) * stride] * fmax(unit, 0);
    }
    return sum;
}

/* Chi 2022: the dot product of two sinusoids, divided by 8 h / heads. */
static inline double naive_sandwich(const gyre_config *p, int64_t head, int64_t distance) {
    double sum = 0;
    for (int64_t i = 0; i < p->score.sinusoid_dim / 2; i++)
        sum += cos((double)distance / pow(10000, 2 * (double)i / (double)p->score.sinusoid_dim));
    return sum * (double)p->heads / (8 * (double)(head + 1));
}

static inline double naive_number(const naive *d, const naive_pair *at) {
    const gyre_config *p = naive_config(d);
    const int64_t heads = d->m->config.heads, distance = at->m - at->n;
    const double *bias = naive_table(d, at->layer, GYRE_TABLE_BIAS) + at->head;
    switch (p->kind) {
    case GYRE_KIND_ALIBI:
        return -naive_slope(heads, at->head) * (double)distance;
    case GYRE_KIND_T5:
        return bias[naive_t5_bucket(p, distance) * heads];
    case GYRE_KIND_KERPLE:
        return p->score.decay == GYRE_DECAY_LOG ? -bias[0] * log(1 + bias[heads] * (double)distance)
                                                : -bias[0] * pow((double)distance, bias[heads]);
    case GYRE_KIND_FIRE:
        return naive_fire(p, bias, heads, at->m, distance);
    case GYRE_KIND_SANDWICH:
        return naive_sandwich(p, at->head, distance);
    default:
        return 0;
    }
}

/* -- vectors -- */
/* He 2020 (v1: clamped) and 2021 (v2: log buckets), as in the released code: the row for m - n. */
static inline int64_t naive_deberta_row(const gyre_config *p, int64_t distance) {
    const int64_t most = p->score.max_distance, buckets = p->score.position_buckets, half = buckets / 2;
    if (buckets == 0) return naive_clip(distance + most, 0, 2 * most - 1);
    int64_t at = distance;
    if (distance > half)
        at = half + (int64_t)ceil(log((double)distance / (double)half) / log((double)(most - 1) / (double)half) *
                                  (double)(half - 1));
    return naive_clip(at + buckets, 0, 2 * buckets - 1);
}

/* Dai 2019: all sines, then all cosines, of the distance. */
static inline double naive_sinusoid(int64_t width, int64_t c, double distance) {
    const int64_t half = (width + 1) / 2;
    const double angle = distance / pow(10000, 2 * (double)(c % half) / (double)width);
    return c < half ? sin(angle) : cos(angle);
}

/* x . W_h P[row], with P given, or the sinusoid of `row` if p is NULL. */
static inline double naive_projected(const naive *d, const double *w, const double *p, int64_t head, int64_t row,
                                     const double *x) {
    const int64_t model_dim = d->m->config.model_dim, dim = d->m->config.head_dim;
    double sum = 0;
    for (int64_t i = 0; i < dim; i++)
        for (int64_t j = 0; j < model_dim; j++)
            sum += x[i] * w[(head * dim + i) * model_dim + j] *
                   (p ? p[row * model_dim + j] : naive_sinusoid(model_dim, j, (double)row));
    return sum;
}

static inline double naive_deberta(const naive *d, const naive_pair *at, const double *q, const double *k) {
    const gyre_config *c = naive_config(d);
    const double *p = d->w + d->m->layout.relative_embedding.offset;
    const int64_t row = naive_deberta_row(c, at->m - at->n);
    double sum = 0;
    if (c->score.terms & GYRE_TERM_QUERY)
        sum += naive_projected(d, naive_table(d, at->layer, GYRE_TABLE_QUERY), p, at->head, row, q);
    if (c->score.terms & GYRE_TERM_KEY)
        sum += naive_projected(d, naive_table(d, at->layer, GYRE_TABLE_KEY), p, at->head, row, k);
    return sum;
}

static inline double naive_transformer_xl(const naive *d, const naive_pair *at, const double *q, const double *k) {
    const int64_t dim = d->m->config.head_dim, most = naive_config(d)->score.max_distance;
    const double *u = naive_table(d, at->layer, GYRE_TABLE_CONTENT_BIAS) + at->head * dim;
    const double *v = naive_table(d, at->layer, GYRE_TABLE_POSITION_BIAS) + at->head * dim;
    const double *w = naive_table(d, at->layer, GYRE_TABLE_QUERY);
    const int64_t distance = at->m - at->n < most ? at->m - at->n : most;
    return naive_dot(u, k, dim) + naive_projected(d, w, NULL, at->head, distance, q) +
           naive_projected(d, w, NULL, at->head, distance, v);
}

/* Wei 2019: alternating sine and cosine of the clipped distance, counted from 0. */
static inline double naive_nezha(int64_t dim, int64_t row, int64_t i) {
    const double angle = (double)row / pow(10000, (double)(i / 2 * 2) / (double)dim);
    return i % 2 ? cos(angle) : sin(angle);
}

/* Wang 2025, eq. 12, with `first` amplitudes: (q_A . k_A) cos(2 pi |m - n|^alpha (q_P . k_P) / sqrt(channels of P)). */
static inline double naive_phased(const double *q, const double *k, int64_t dim, int64_t first, double alpha,
                                  double distance) {
    const double turns =
        pow(fabs(distance), alpha) * naive_dot(q + first, k + first, dim - first) / sqrt((double)(dim - first));
    return naive_dot(q, k, first) * cos(2 * 3.14159265358979323846 * turns);
}

/* How far floats may be from the definition, relative to the largest logit.  A phase of several turns multiplies the error
 * of its product: numbers that are off by 2^-23 in each product, here in the definition, move logits of the tests' models by
 * 2e-5. */
static inline double naive_error(const gyre_encoding *encoding) {
    return gyre_encoding_get_config(encoding)->kind == GYRE_KIND_TAPA ? 1e-4 : 1e-5;
}

/* q . k, or what a scheme has in its place. */
static inline double naive_query_key(const naive *d, const naive_pair *at, const double *q, const double *k) {
    const gyre_config *p = naive_config(d);
    const int64_t dim = d->m->config.head_dim;
    if (p->kind != GYRE_KIND_TAPA) return naive_dot(q, k, dim);
    return naive_phased(q, k, dim, p->score.amplitudes, p->score.exponent, (double)(at->m - at->n));
}

/* The term added to q . k before the scale. */
static inline double naive_vectors(const naive *d, const naive_pair *at, const double *q, const double *k) {
    const gyre_config *p = naive_config(d);
    const int64_t dim = d->m->config.head_dim, most = p->score.max_distance, near = naive_clip(at->n - at->m, -most, most);
    const double *query = naive_table(d, at->layer, GYRE_TABLE_QUERY);
    double sum = 0;
    switch (p->kind) {
    case GYRE_KIND_SHAW:
        return p->score.terms & GYRE_TERM_QUERY ? naive_dot(q, query + (near + most) * dim, dim) : 0;
    case GYRE_KIND_NEZHA:
        for (int64_t i = 0; i < dim; i++)
            sum += q[i] * naive_nezha(dim, near + most, i);
        return p->score.terms & GYRE_TERM_QUERY ? sum : 0;
    case GYRE_KIND_BERT: /* relative_key_query has one embedding for both */
        query += (at->m - at->n + p->score.max_positions - 1) * dim;
        if (p->score.terms & GYRE_TERM_QUERY) sum += naive_dot(q, query, dim);
        if (p->score.terms == GYRE_TERM_KEY)
            query = naive_table(d, at->layer, GYRE_TABLE_KEY) + (at->m - at->n + p->score.max_positions - 1) * dim;
        if (p->score.terms & GYRE_TERM_KEY) sum += naive_dot(k, query, dim);
        return sum;
    case GYRE_KIND_DEBERTA:
        return naive_deberta(d, at, q, k);
    case GYRE_KIND_TRANSFORMER_XL:
        return naive_transformer_xl(d, at, q, k);
    default:
        return 0;
    }
}

static inline double naive_scale(const naive *d) {
    const gyre_config *p = naive_config(d);
    if (p->kind == GYRE_KIND_TAPA) return 1 / sqrt((double)p->score.amplitudes);
    const int terms =
        p->kind != GYRE_KIND_DEBERTA ? 1 : 1 + !!(p->score.terms & GYRE_TERM_QUERY) + !!(p->score.terms & GYRE_TERM_KEY);
    return 1 / sqrt((double)(d->m->config.head_dim * terms));
}

/* The vector added to the value. */
static inline void naive_value(const naive *d, const naive_pair *at, double *out) {
    const gyre_config *p = naive_config(d);
    const int64_t dim = d->m->config.head_dim, most = p->score.max_distance;
    const int64_t row = naive_clip(at->n - at->m, -most, most) + most;
    memset(out, 0, (size_t)dim * sizeof *out);
    if (!(p->score.terms & GYRE_TERM_VALUE)) return;
    if (p->kind == GYRE_KIND_SHAW)
        memcpy(out, naive_table(d, at->layer, GYRE_TABLE_VALUE) + row * dim, (size_t)dim * sizeof *out);
    for (int64_t i = 0; i < dim && p->kind == GYRE_KIND_NEZHA; i++)
        out[i] = naive_nezha(dim, row, i);
}

/* -- input -- */
/* Channel i of the learned vector of a position, with Su's hierarchical decomposition (kexue.fm 7947) or a resized table. */
static inline double naive_learned(const struct gyre_input_config *in, const double *table, int64_t width, int64_t position,
                                   int64_t i) {
    const int64_t n = in->positions - in->offset;
    const double *first = table + in->offset * width + i;
    if (in->hierarchy > 0) {
        const double a = in->hierarchy / (1 - in->hierarchy);
        return first[position % n * width] + a * (first[position / n * width] - first[0]);
    }
    if (in->resized_length == 0 || in->resized_length == n) return first[position * width];
    const double at = (double)position * (double)(n - 1) / (double)(in->resized_length - 1), low = floor(at);
    const int64_t next = (int64_t)low + 1 < n ? (int64_t)low + 1 : n - 1;
    return (1 - (at - low)) * first[(int64_t)low * width] + (at - low) * first[next * width];
}

static inline void naive_input(const naive *d, int64_t position, double *x) {
    const gyre_config *p = naive_config(d);
    const int64_t model_dim = d->m->config.model_dim;
    const double *table = d->w + d->m->layout.input.offset, scale = p->input.scale != 0 ? p->input.scale : 1;
    for (int64_t i = 0; i < model_dim; i++) {
        if (p->kind == GYRE_KIND_LEARNED) x[i] += scale * naive_learned(&p->input, table, model_dim, position, i);
        if (p->kind == GYRE_KIND_SINUSOIDAL) {
            const double angle = (double)position / pow(10000, (double)(i / 2 * 2) / (double)model_dim);
            x[i] += scale * (p->input.trained_scale ? table[0] : 1) * (i % 2 ? cos(angle) : sin(angle));
        }
    }
}

/* -- what is tested -- */
/* *p = case i: every kind, then the fields that change what a kind computes, for sequences of up to `length` tokens, with
 * small tables so that distances are clipped. gyre_config_suggest fills the rest. Returns 0 past the last case. */
static inline int naive_case(int i, int64_t length, gyre_config *p) {
    static const struct {
        gyre_kind kind;
        gyre_decay decay;
        unsigned terms;
        int64_t buckets;
    } more[] = {{GYRE_KIND_KERPLE, GYRE_DECAY_POWER, 0, 0},
                {GYRE_KIND_SHAW, GYRE_DECAY_LOG, GYRE_TERM_VALUE, 0},
                {GYRE_KIND_NEZHA, GYRE_DECAY_LOG, GYRE_TERM_QUERY, 0},
                {GYRE_KIND_BERT, GYRE_DECAY_LOG, GYRE_TERM_QUERY | GYRE_TERM_KEY, 0},
                {GYRE_KIND_BERT, GYRE_DECAY_LOG, GYRE_TERM_KEY, 0},
                {GYRE_KIND_DEBERTA, GYRE_DECAY_LOG, GYRE_TERM_KEY, 8}};
    int kinds = 0;
    while (gyre_kind_name((gyre_kind)(GYRE_KIND_NOPE + kinds)))
        kinds++;
    const int extra = i - kinds;
    if (extra >= (int)(sizeof more / sizeof *more)) return 0;
    p->kind = extra < 0 ? (gyre_kind)(GYRE_KIND_NOPE + i) : more[extra].kind;
    p->trained_length = p->input.positions = length;
    p->score.decay = extra < 0 ? GYRE_DECAY_LOG : more[extra].decay;
    p->score.terms = extra < 0 ? 0 : more[extra].terms;
    p->score.buckets = p->kind == GYRE_KIND_T5 ? 8 : 0;
    p->score.position_buckets = extra >= 0 ? more[extra].buckets : 0;
    p->score.max_distance = p->kind < GYRE_KIND_T5 || p->kind == GYRE_KIND_BERT ? 0 : length / 2;
    p->score.max_positions = p->kind == GYRE_KIND_BERT ? length : 0;
    p->score.hidden_units = p->score.sinusoid_dim = p->kind < GYRE_KIND_T5 ? 0 : 6;
    return gyre_config_suggest(p) == GYRE_OK;
}

/* Adds noise in [-by, by) to every weight of a fresh model, and keeps tables within the bounds of their entries. */
static inline void naive_perturb(gyre_model *m, double by, test_random *random) {
    for (int64_t i = 0; i < m->weight_count; i++)
        m->weights[i] += (float)(by * test_uniform(random));
    for (int64_t t = 0; t < gyre_tensor_count(&m->layout); t++) {
        const gyre_tensor tensor = gyre_tensor_at(&m->layout, t);
        for (int64_t i = 0; tensor.table >= 0 && i < tensor.shape[0] * tensor.shape[1]; i++) {
            const int64_t rows = m->encoding->table[tensor.table].rows, row = i / tensor.shape[1];
            float *w = m->weights + tensor.offset + i;
            gyre_table_entry e;
            if (gyre_encoding_table_entry(m->encoding, (gyre_table)tensor.table, row / rows, row % rows, i % tensor.shape[1],
                                          &e) != GYRE_OK)
                abort();
            /* At a distance from both bounds, for central differences. */
            if ((double)*w < e.minimum + 0.01) *w = (float)(e.minimum + 0.01);
            if ((double)*w > e.maximum - 0.01) *w = (float)(e.maximum - 0.01);
        }
    }
}

#endif
