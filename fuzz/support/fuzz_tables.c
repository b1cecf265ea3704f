/* fuzz_tables.c: tables of numbers and of vectors.  From the library the definitions take rows. */
#include "fuzz_tables.h"

#include "fuzz_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_UNITS = 8, LAST = 40 };
static const double START = 0.25; /* gradients are added to it */

/* -- choosing -- */
void fuzz_tables_choose(gyre_config *c, fuzz_bytes *in, int64_t positions) {
    struct gyre_score_config *s = &c->score;
    static const unsigned terms[] = {0, GYRE_TERM_QUERY, GYRE_TERM_VALUE, GYRE_TERM_KEY};
    if (c->kind == GYRE_KIND_ALIBI) s->max_bias = fuzz_choice(in, 3) * 4;
    if (c->kind == GYRE_KIND_T5) {
        s->bidirectional = fuzz_choice(in, 2);
        s->buckets = 2 * (2 + fuzz_choice(in, 15)); /* half of them for each direction */
        s->max_distance = s->buckets + fuzz_between(in, 0, 255);
    }
    if (c->kind == GYRE_KIND_KERPLE) s->decay = fuzz_choice(in, 2) ? GYRE_DECAY_POWER : GYRE_DECAY_LOG;
    if (c->kind == GYRE_KIND_FIRE) s->hidden_units = 1 + fuzz_choice(in, MOST_UNITS);
    if (c->kind == GYRE_KIND_SANDWICH) s->sinusoid_dim = 2 + 2 * fuzz_choice(in, 40);
    if (c->kind == GYRE_KIND_SHAW || c->kind == GYRE_KIND_NEZHA) s->terms = terms[fuzz_choice(in, 3)];
    if (c->kind == GYRE_KIND_BERT) s->terms = fuzz_choice(in, 2) ? GYRE_TERM_QUERY | GYRE_TERM_KEY : 0;
    if (c->kind == GYRE_KIND_BERT) s->max_positions = positions;
    if (c->kind == GYRE_KIND_SHAW || c->kind == GYRE_KIND_NEZHA || c->kind == GYRE_KIND_TRANSFORMER_XL ||
        c->kind == GYRE_KIND_MULTIPLICATIVE)
        s->max_distance = 1 + fuzz_choice(in, 40);
    if (c->kind == GYRE_KIND_TRANSFORMER_XL) s->bidirectional = fuzz_choice(in, 2);
    if (c->kind == GYRE_KIND_INKLING) {
        s->relative_channels = 1 + fuzz_choice(in, (int)c->head_dim); /* all of them is refused */
        s->max_distance = 1 + fuzz_choice(in, 40);
    }
    if (c->kind == GYRE_KIND_DEBERTA) {
        static const unsigned of_deberta[] = {0, GYRE_TERM_QUERY, GYRE_TERM_KEY};
        s->terms = of_deberta[fuzz_choice(in, 3)];
        s->position_buckets = fuzz_choice(in, 2) ? 4 + 2 * fuzz_choice(in, 10) : 0;
        s->max_distance = s->position_buckets / 2 + 2 + fuzz_choice(in, 60);
    }
}

static gyre_dtype table_dtype(fuzz_bytes *in) {
    return fuzz_choice(in, 4) == 1 ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32;
}

static void put(const fuzz_view *v, int64_t i, double x) {
    const int64_t *s = v->view.shape, *stride = v->view.stride;
    const int64_t at = i / s[3] / s[2] * stride[1] + i / s[3] % s[2] * stride[2] + i % s[3] * stride[3];
    test_put(v->view.data, v->view.dtype, (size_t)at, x);
}

static int64_t count_of(const fuzz_view *v) {
    return v->view.data ? v->view.shape[1] * v->view.shape[2] * v->view.shape[3] : 0;
}

static void make_table(fuzz_tables *t, fuzz_table which, fuzz_bytes *in, test_random *random) {
    int64_t s[4];
    const gyre_table name = (gyre_table)(GYRE_TABLE_QUERY + (int)which);
    fuzz_require(!gyre_encoding_table_shape(t->encoding, name, s), "a table has a shape");
    if (s[0] == 0) return;
    t->table[which] = fuzz_view_make(in, table_dtype(in), 1, s[1], s[2], s[3]);
    t->gradient[which] = fuzz_view_make(in, table_dtype(in), 1, s[1], s[2], s[3]);
    if (which <= FUZZ_V) t->heads = s[1], t->rows = s[2];
    const int64_t count = count_of(&t->table[which]);
    t->x[which] = fuzz_room((size_t)count, sizeof(double));
    t->want[which] = fuzz_room((size_t)count, sizeof(double));
    t->error[which] = fuzz_room((size_t)count, sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        put(&t->table[which], i, scheme_entry(t->scheme.oracle, name, i / s[3] % s[2], test_uniform(random), LAST));
        put(&t->gradient[which], i, START);
        t->x[which][i] = fuzz_view_at(&t->table[which], 0, i / s[3] / s[2], i / s[3] % s[2], i % s[3]);
    }
    scheme_context_table(&t->scheme, t->encoding, name, t->x[which]);
}

/* NEZHA's rows: sin, cos, sin, cos, ... of the row's number. */
static void make_fixed(fuzz_tables *t, fuzz_table which, unsigned term) {
    const int64_t dim = t->config->head_dim;
    if (t->config->kind != GYRE_KIND_NEZHA || !(t->config->score.terms & term)) return;
    t->heads = 1;
    t->rows = 2 * t->config->score.max_distance + 1;
    t->x[which] = fuzz_room((size_t)(t->rows * dim), sizeof(double));
    for (int64_t i = 0; i < t->rows * dim; i++) {
        const int64_t c = i % dim;
        const double angle = (double)(i / dim) / pow(10000, (double)(c - c % 2) / (double)dim);
        t->x[which][i] = c % 2 ? cos(angle) : sin(angle);
    }
}

void fuzz_tables_make(fuzz_tables *t, fuzz_bytes *in, const gyre_encoding *encoding, test_random *random) {
    memset(t, 0, sizeof *t);
    t->encoding = encoding;
    t->config = gyre_encoding_get_config(encoding);
    t->scheme = scheme_context_of(encoding);
    for (fuzz_table i = FUZZ_A; i < FUZZ_TABLES; i++)
        make_table(t, i, in, random);
    make_fixed(t, FUZZ_A, GYRE_TERM_QUERY);
    make_fixed(t, FUZZ_V, GYRE_TERM_VALUE);
    gyre_cview *const views[FUZZ_TABLES] = {&t->views.query, &t->views.key,          &t->views.value,
                                            &t->views.bias,  &t->views.content_bias, &t->views.position_bias};
    gyre_table_gradients *g = &t->gradients;
    gyre_view *const gradients[FUZZ_TABLES] = {&g->query, &g->key, &g->value, &g->bias, &g->content_bias, &g->position_bias};
    for (int i = 0; i < FUZZ_TABLES; i++) {
        if (!t->table[i].view.data) continue;
        *views[i] = gyre_const(t->table[i].view);
        *gradients[i] = t->gradient[i].view;
    }
}

void fuzz_tables_free(fuzz_tables *t) {
    for (int i = 0; i < FUZZ_TABLES; i++) {
        fuzz_view_free(&t->table[i]);
        fuzz_view_free(&t->gradient[i]);
        free(t->x[i]);
        free(t->want[i]);
        free(t->error[i]);
    }
}

/* -- rows -- */
/* out = the row of a distance, which tables of vectors and T5's are indexed by; -1 where none is. */
static int64_t row_of(const fuzz_tables *t, int64_t m, int64_t n) {
    int64_t row = -1;
    const gyre_status status = gyre_encoding_row(t->encoding, m, n, &row);
    fuzz_require(!status || status == GYRE_EUNSUPPORTED, "every distance has a row, or none has");
    return !status ? row : -1;
}

/* out = the row of a table of vectors for a pair. */
static const double *vectors_at(const fuzz_tables *t, fuzz_table which, const fuzz_pair *p) {
    const int64_t row = row_of(t, p->m, p->n), head = t->heads == 1 ? 0 : p->head;
    fuzz_require(row >= 0 && row < t->rows, "a row of the table");
    return t->x[which] + (head * t->rows + row) * t->config->head_dim;
}

/* out = the row whose product with q or k is added before the scale, or which is added to values; NULL = none. */
static const double *row_at(const fuzz_tables *t, fuzz_table which, const fuzz_pair *p) {
    const int adds = t->config->kind != GYRE_KIND_INKLING && t->config->kind != GYRE_KIND_MULTIPLICATIVE;
    return adds && t->x[which] ? vectors_at(t, which, p) : NULL;
}

/* The same for u and v. */
static const double *vector_at(const fuzz_tables *t, fuzz_table which, const fuzz_pair *p) {
    return t->x[which] ? t->x[which] + p->head * t->config->head_dim : NULL;
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

double fuzz_tables_product(const fuzz_tables *t, const fuzz_pair *p) {
    const int64_t dim = t->config->head_dim;
    const double *a = row_at(t, FUZZ_A, p), *b = row_at(t, FUZZ_B, p);
    const double *u = vector_at(t, FUZZ_CONTENT, p), *v = vector_at(t, FUZZ_POSITION, p);
    return (a ? dot(p->q, a, dim) : 0) + (a && v ? dot(v, a, dim) : 0) + (b ? dot(p->k, b, dim) : 0) +
           (u ? dot(u, p->k, dim) : 0);
}

const double *fuzz_tables_factors(const fuzz_tables *t, const fuzz_pair *p) {
    return t->config->kind == GYRE_KIND_MULTIPLICATIVE ? vectors_at(t, FUZZ_A, p) : NULL;
}

int64_t fuzz_tables_relative_channels(const fuzz_tables *t) {
    return t->config->kind == GYRE_KIND_INKLING ? t->config->score.relative_channels : 0;
}

/* out = the row of Inkling's table for a pair; -1 where the scheme adds nothing. */
static int64_t relative_row(const fuzz_tables *t, const fuzz_pair *p) {
    const int64_t distance = p->m - p->n;
    const int has_row = distance >= 0 && distance < t->config->score.max_distance;
    return t->config->kind == GYRE_KIND_INKLING && has_row ? distance : -1;
}

double fuzz_tables_relative(const fuzz_tables *t, const fuzz_pair *p) {
    const int64_t n = fuzz_tables_relative_channels(t), row = relative_row(t, p);
    return row < 0 ? 0 : dot(p->q + t->config->head_dim - n, t->x[FUZZ_A] + row * n, n);
}

void fuzz_tables_add_value(const fuzz_tables *t, const fuzz_pair *p, double *value) {
    const double *x = row_at(t, FUZZ_V, p);
    for (int64_t c = 0; x && c < t->config->head_dim; c++)
        value[c] += x[c];
}

/* -- numbers -- */
static double number(const fuzz_tables *t, int64_t row, int64_t head) {
    return t->x[FUZZ_BIAS][row * t->config->heads + head];
}

/* Of FIRE: *share = psi(distance) / psi(max(m, L)), its parts, and the units' sums. */
typedef struct fire {
    double share, c, reach, of_distance, of_reach, sum[MOST_UNITS];
    int is_reach_trained; /* 1: L is above m */
} fire;

static fire fire_of(const fuzz_tables *t, int64_t head, int64_t m, int64_t n) {
    const int64_t units = t->config->score.hidden_units;
    fire f = {.c = fabs(number(t, 0, head)), .reach = fabs(number(t, 1, head))};
    f.is_reach_trained = (double)m < f.reach;
    if (!f.is_reach_trained) f.reach = (double)m;
    f.of_distance = log1p(f.c * fabs((double)(m - n)));
    f.of_reach = log1p(f.c * f.reach);
    f.share = f.of_distance / f.of_reach;
    for (int64_t u = 0; u < units; u++)
        f.sum[u] = number(t, 2 + u, head) * f.share + number(t, 2 + units + u, head);
    return f;
}

scheme_terms fuzz_tables_terms(const fuzz_tables *t, int64_t head, int64_t m, int64_t n) {
    static const double zeros[FUZZ_MOST_CHANNELS];
    fuzz_require(t->scheme.dim <= FUZZ_MOST_CHANNELS, "as many channels as there are zeros");
    return scheme_terms_of(&t->scheme, &(scheme_pair){head, m, n, zeros, zeros}, NULL);
}

/* -- gradients -- */
static void add(fuzz_tables *t, fuzz_table which, const int64_t at[3], fuzz_number s, double factor) {
    const int64_t *shape = t->table[which].view.shape, i = (at[0] * shape[2] + at[1]) * shape[3] + at[2];
    t->want[which][i] += s.of * factor;
    t->error[which][i] += fabs(factor) * (s.error + 1e-5 * fabs(s.of));
}

static void add_row(fuzz_tables *t, fuzz_table which, const fuzz_pair *p, fuzz_number s, const double *x) {
    if (!t->want[which] || !x) return;
    const int is_vector = which == FUZZ_CONTENT || which == FUZZ_POSITION;
    const int64_t row = is_vector ? 0 : row_of(t, p->m, p->n), head = !is_vector && t->heads == 1 ? 0 : p->head;
    for (int64_t c = 0; c < t->config->head_dim; c++)
        add(t, which, (int64_t[]){head, row, c}, s, x[c]);
}

static void add_to(double *to, double factor, const double *x, int64_t n) {
    for (int64_t i = 0; x && i < n; i++)
        to[i] += factor * x[i];
}

/* As add_row, of a row that multiplies. */
static void add_factors(fuzz_tables *t, const fuzz_pair *p, fuzz_number s) {
    const int64_t row = row_of(t, p->m, p->n), head = t->heads == 1 ? 0 : p->head;
    for (int64_t c = 0; c < t->config->head_dim; c++)
        add(t, FUZZ_A, (int64_t[]){head, row, c}, s, p->q[c] * p->k[c]);
}

void fuzz_tables_product_gradient(fuzz_tables *t, const fuzz_pair *p, fuzz_number s, double *dq, double *dk) {
    const int64_t dim = t->config->head_dim;
    const double *a = row_at(t, FUZZ_A, p), *v = vector_at(t, FUZZ_POSITION, p);
    if (fuzz_tables_factors(t, p)) add_factors(t, p, s);
    add_to(dq, s.of, a, dim);
    if (a) add_row(t, FUZZ_A, p, s, p->q);
    add_row(t, FUZZ_A, p, s, v);
    add_row(t, FUZZ_POSITION, p, s, a);
    add_to(dk, s.of, row_at(t, FUZZ_B, p), dim);
    add_row(t, FUZZ_B, p, s, p->k);
    add_to(dk, s.of, vector_at(t, FUZZ_CONTENT, p), dim);
    add_row(t, FUZZ_CONTENT, p, s, p->k);
}

void fuzz_tables_relative_gradient(fuzz_tables *t, const fuzz_pair *p, fuzz_number s, double *dq) {
    const int64_t n = fuzz_tables_relative_channels(t), first = t->config->head_dim - n, row = relative_row(t, p);
    if (row < 0) return;
    add_to(dq + first, s.of, t->x[FUZZ_A] + row * n, n);
    for (int64_t c = 0; c < n; c++)
        add(t, FUZZ_A, (int64_t[]){0, row, c}, s, p->q[first + c]);
}

static void add_number(fuzz_tables *t, int64_t row, int64_t head, fuzz_number s, double factor) {
    add(t, FUZZ_BIAS, (int64_t[]){0, row, head}, s, factor);
}

static void add_fire(fuzz_tables *t, const fuzz_pair *p, fuzz_number s) {
    const int64_t units = t->config->score.hidden_units;
    const fire f = fire_of(t, p->head, p->m, p->n);
    const double d = fabs((double)(p->m - p->n));
    double of_share = 0;
    for (int64_t u = 0; u < units; u++) {
        const double output = number(t, 2 + 2 * units + u, p->head), weight = number(t, 2 + u, p->head);
        if (f.sum[u] <= 0) continue;
        add_number(t, 2 + u, p->head, s, output * f.share);
        add_number(t, 2 + units + u, p->head, s, output);
        add_number(t, 2 + 2 * units + u, p->head, s, f.sum[u]);
        of_share += output * weight;
    }
    add_number(t, 2 + 3 * units, p->head, s, 1);
    const double of_c = d / (1 + f.c * d) - f.share * f.reach / (1 + f.c * f.reach);
    add_number(t, 0, p->head, s, of_share * of_c / f.of_reach);
    if (f.is_reach_trained) add_number(t, 1, p->head, s, -of_share * f.share * f.c / (1 + f.c * f.reach) / f.of_reach);
}

/* By differences, except where a scheme has kinks or says its row. */
void fuzz_tables_bias_gradient(fuzz_tables *t, const fuzz_pair *p, fuzz_number s) {
    const double step = 1e-6;
    if (!t->want[FUZZ_BIAS]) return;
    const int64_t row = row_of(t, p->m, p->n), rows = t->table[FUZZ_BIAS].view.shape[2];
    if (t->config->kind == GYRE_KIND_FIRE) {
        add_fire(t, p, s);
    } else if (row >= 0) {
        add_number(t, row, p->head, s, 1);
    } else {
        for (int64_t r = 0; r < rows; r++) {
            double *x = &t->x[FUZZ_BIAS][r * t->config->heads + p->head];
            const double kept = *x;
            *x = kept + step;
            const double above = fuzz_tables_terms(t, p->head, p->m, p->n).bias;
            *x = kept - step;
            const double below = fuzz_tables_terms(t, p->head, p->m, p->n).bias;
            *x = kept;
            add_number(t, r, p->head, s, (above - below) / (2 * step));
        }
    }
}

void fuzz_tables_value_gradient(fuzz_tables *t, const fuzz_pair *p, fuzz_number weight, const double *dout) {
    add_row(t, FUZZ_V, p, weight, dout);
}

void fuzz_tables_check(const fuzz_tables *t) {
    for (int which = 0; which < FUZZ_TABLES; which++) {
        const fuzz_view *g = &t->gradient[which];
        const int64_t *s = g->view.shape;
        for (int64_t i = 0; i < count_of(g); i++) {
            const double got = fuzz_view_at(g, 0, i / s[3] / s[2], i / s[3] % s[2], i % s[3]), want = t->want[which][i];
            fuzz_require(fabs(got - START - want) <= t->error[which][i] + 1e-6 * (1 + fabs(want)),
                         "the gradient of a table is that of the definition");
        }
    }
}
