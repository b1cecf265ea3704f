/* naive_positions.h: what every encoding adds in a model: the tables of its layers in double for the oracles of
 * naive_schemes.h, and the configs that tests of models try. */
#ifndef GYRE_TESTS_NAIVE_POSITIONS_H
#define GYRE_TESTS_NAIVE_POSITIONS_H
#include "model/model.h"
#include "naive_schemes.h"
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
    const int64_t *at;            /* [n] position of each token; NULL = 0 .. n - 1 */
} naive;

static inline int64_t naive_position(const naive *d, int64_t token) {
    return d->at ? d->at[token] : token;
}

/* A layer's encoding, and the tables that the model computes for it. */
typedef struct naive_scheme {
    scheme_context of;
    double *computed[SCHEME_TABLES];
} naive_scheme;

/* A query of a layer at m and a key at n <= m. */
typedef struct naive_pair {
    int64_t layer, head, m, n;
} naive_pair;

static inline const gyre_config *naive_config(const naive *d) {
    return gyre_encoding_get_config(d->encoding);
}

/* Dai 2019: all sines, then all cosines, of the distance. */
static inline double naive_sinusoid(int64_t width, int64_t c, double distance) {
    const int64_t half = (width + 1) / 2;
    const double angle = distance / pow(10000, 2 * (double)(c % half) / (double)width);
    return c < half ? sin(angle) : cos(angle);
}

/* out = W_h P[row] for all heads and rows: P is the model's, or the sinusoids of the distances of the rows. */
static inline double *naive_projected(const naive *d, const double *w, const scheme_table *t) {
    const int64_t model_dim = d->m->config.model_dim, dim = t->channels;
    const struct gyre_score_config *score = &naive_config(d)->score;
    const double *p = d->w + d->m->layout.relative_embedding.offset;
    const int sines = d->m->layout.row_source == GYRE_ROW_SOURCE_SINUSOID;
    double *out = calloc((size_t)(t->heads * t->rows * dim), sizeof *out);
    for (int64_t r = 0; r < t->rows; r++)
        for (int64_t j = 0; j < model_dim; j++) {
            const double x =
                sines ? naive_sinusoid(model_dim, j, (double)(r - (score->bidirectional ? score->max_distance : 0)))
                      : p[r * model_dim + j];
            for (int64_t i = 0; i < t->heads * dim; i++)
                out[(i / dim * t->rows + r) * dim + i % dim] += x * w[i * model_dim + j];
        }
    return out;
}

/* The scheme with the tables of a layer.  Rotations are left to the caller, except those that depend on both positions. */
static inline naive_scheme naive_scheme_make(const naive *d, int64_t layer) {
    naive_scheme s = {.of = scheme_context_of(d->encoding)};
    const struct gyre_rope_config *rope = &s.of.config.rope;
    const gyre_row_source source = d->m->layout.row_source;
    s.of.heads = d->m->config.heads;
    s.of.dim = gyre_query_dim(&d->m->config); /* polar coordinates make two of a channel */
    s.of.rotates = s.of.rotates && !d->lengths && (rope->far != GYRE_FAR_AS_NEAR || rope->xpos_base > 0);
    if (s.of.rotates && gyre_encoding_frequencies(d->encoding, d->length, s.of.inv_freq, &s.of.factor)) abort();
    for (int i = GYRE_TABLE_QUERY; i < SCHEME_TABLES; i++) {
        const gyre_table t = (gyre_table)i;
        const gyre_table from =
            source == GYRE_ROW_SOURCE_SHARED && t == GYRE_TABLE_KEY && s.of.table[GYRE_TABLE_QUERY].x ? GYRE_TABLE_QUERY : t;
        const double *w = d->w + gyre_layer_tensor_offset(&d->m->layout, d->m->config.shared_tables ? 0 : layer,
                                                          GYRE_WEIGHT_FIRST_TABLE + (int)from - GYRE_TABLE_QUERY);
        scheme_context_table(&s.of, d->encoding, t, w);
        if (!s.of.table[t].x || t > GYRE_TABLE_VALUE || !gyre_is_projected(source)) continue;
        s.of.table[t].x = s.computed[t] = naive_projected(d, w, &s.of.table[t]);
    }
    return s;
}

static inline void naive_scheme_free(naive_scheme *s) {
    for (int t = 0; t < SCHEME_TABLES; t++)
        free(s->computed[t]);
}

/* What the scheme makes of a pair; value: [head_dim], or NULL. */
static inline scheme_terms naive_terms(const naive_scheme *s, const naive_pair *at, const double *q, const double *k,
                                       double *value) {
    return scheme_terms_of(&s->of, &(scheme_pair){at->head, at->m, at->n, q, k}, value);
}

/* How far floats may be from the definition, relative to the largest logit.  A phase of several turns multiplies the error
 * of its product: numbers that are off by 2^-23 in each product, here in the definition, move logits of the tests' models by
 * 2e-5, and by more where phases grow faster. */
static inline double naive_error(const gyre_encoding *encoding) {
    const gyre_config *config = gyre_encoding_get_config(encoding);
    if (!(scheme_oracle_of(config->kind)->traits & SCHEME_STEEP)) return 1e-5;
    return config->score.exponent > 0.1 ? 6e-4 : 1e-4;
}

static inline void naive_input(const naive *d, int64_t position, double *x) {
    scheme_context of = scheme_context_of(d->encoding);
    scheme_context_table(&of, d->encoding, GYRE_TABLE_INPUT, d->w + d->m->layout.input.offset);
    if (of.oracle->input) of.oracle->input(&of, position, x);
}

/* *p = row i of tests/test_schemes.def for sequences of up to `length` tokens; 0 past the last row. */
static inline int naive_case(int i, int64_t length, gyre_config *p) {
    if (i >= SCHEMES) return 0;
    *p = test_schemes[i].config;
    p->size = sizeof *p;
    p->trained_length = p->input.positions = length;
    if (p->score.max_positions > 0) p->score.max_positions = length;
    assert_ok(gyre_config_suggest(p));
    return 1;
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
                                          &e))
                abort();
            /* At a distance from both bounds, for central differences. */
            if ((double)*w < e.minimum + 0.01) *w = (float)(e.minimum + 0.01);
            if ((double)*w > e.maximum - 0.01) *w = (float)(e.maximum - 0.01);
        }
    }
}

#endif
