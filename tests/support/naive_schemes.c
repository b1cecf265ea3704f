/* naive_schemes.c: one oracle for each scheme, and the list of schemes. */
#include "naive_schemes.h"

#include "naive_chunks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

double scheme_dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static int64_t clip(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Row r of a table of vectors, or NULL if there is no such table. */
static const double *row_of(const scheme_context *of, gyre_table which, int64_t head, int64_t r) {
    const scheme_table *t = &of->table[which];
    return t->x ? t->x + ((t->heads == 1 ? 0 : head) * t->rows + r) * t->channels : NULL;
}

/* Row r of the numbers of a head. */
static double number(const scheme_context *of, int64_t head, int64_t r) {
    return of->table[GYRE_TABLE_BIAS].x[r * of->table[GYRE_TABLE_BIAS].channels + head];
}

static double distance(const scheme_pair *at) {
    return fabs((double)(at->m - at->n));
}

static void nothing(const scheme_context *of, const scheme_pair *at, scheme_terms *out) {
    (void)of, (void)at, (void)out;
}
static const scheme_oracle naive_none = {.pair = nothing};

/* -- at the input -- */
/* Channel i of the learned vector of a position, with Su's hierarchical decomposition (kexue.fm 7947) or a resized table. */
static double learned_at(const struct gyre_input_config *in, const double *table, int64_t position, int64_t i) {
    const int64_t n = in->positions - in->offset;
    const double *first = table + in->offset * in->dim + i;
    if (in->hierarchy > 0) {
        const double a = in->hierarchy / (1 - in->hierarchy);
        return first[position % n * in->dim] + a * (first[position / n * in->dim] - first[0]);
    }
    if (in->resized_length == 0 || in->resized_length == n) return first[position * in->dim];
    const double at = (double)position * (double)(n - 1) / (double)(in->resized_length - 1), low = floor(at);
    const int64_t next = (int64_t)low + 1 < n ? (int64_t)low + 1 : n - 1;
    return (1 - (at - low)) * first[(int64_t)low * in->dim] + (at - low) * first[next * in->dim];
}
static void learned(const scheme_context *of, int64_t position, double *x) {
    for (int64_t i = 0; i < of->config.input.dim; i++)
        x[i] += of->config.input.scale * learned_at(&of->config.input, of->table[GYRE_TABLE_INPUT].x, position, i);
}
static const scheme_oracle naive_learned = {.input = learned};

static void sinusoidal(const scheme_context *of, int64_t position, double *x) {
    const struct gyre_input_config *in = &of->config.input;
    const double scale = in->scale * (in->trained_scale ? of->table[GYRE_TABLE_INPUT].x[0] : 1);
    for (int64_t i = 0; i < in->dim; i++) {
        const double angle = (double)position / pow(10000, (double)(i / 2 * 2) / (double)in->dim);
        x[i] += scale * (i % 2 ? cos(angle) : sin(angle));
    }
}
static const scheme_oracle naive_sinusoidal = {.input = sinusoidal};

/* -- rotations -- */
double scheme_rotation_distance(const gyre_config *config, int64_t m, int64_t n) {
    const struct gyre_rope_config *rope = &config->rope;
    if (naive_is_chunked(config)) return naive_chunk_distance(config, m, n);
    const double near = (double)(m - n), window = (double)rope->far_window, group = rope->far_factor;
    if (rope->far == GYRE_FAR_AS_NEAR || near < window) return near;
    if (rope->far == GYRE_FAR_CLAMPED) return window;
    if (rope->far == GYRE_FAR_LEAKY) return window + (near - window) / group;
    return floor((double)m / group) - floor((double)n / group) + window - floor(window / group);
}

/* The product of a query and a key that are turned against each other by their distance. */
static void rope(const scheme_context *of, const scheme_pair *at, scheme_terms *out) {
    const struct gyre_rope_config *r = &of->config.rope;
    const int64_t pairs = r->dim / 2;
    const double *q = at->q + r->first_channel, *k = at->k + r->first_channel;
    const double turn = scheme_rotation_distance(&of->config, at->m, at->n);
    double sum = out->product - (of->rotates ? scheme_dot(q, k, r->dim) : 0);
    for (int64_t i = 0; i < pairs && of->rotates; i++) {
        const int half = r->layout == GYRE_LAYOUT_HALF;
        const int64_t a = half ? i : 2 * i, b = half ? i + pairs : 2 * i + 1;
        const double angle = turn * of->inv_freq[i];
        double pair = (q[a] * k[a] + q[b] * k[b]) * cos(angle) - (q[b] * k[a] - q[a] * k[b]) * sin(angle);
        if (r->xpos_base > 0)
            pair *=
                pow((2.0 * (double)i + 0.8 * (double)pairs) / (2.8 * (double)pairs), (double)(at->m - at->n) / r->xpos_base);
        sum += pair * of->factor * of->factor;
    }
    const double length = (double)of->config.query.reference_length;
    if (of->config.query.temperature == GYRE_TEMPERATURE_LOG) sum *= fmax(1, log((double)at->m + 1) / log(length));
    out->product = sum;
}
static const scheme_oracle naive_rope = {.pair = rope};
static const scheme_oracle naive_far_rope = {.pair = rope, .traits = SCHEME_CAUSAL};

/* -- numbers -- */
/* Press 2021: 2^(-8 k / c) for the largest power of two c of heads, then the odd ones for 2 c. */
static double paper_slope(int64_t heads, int64_t h, double most) {
    int64_t c = 1;
    while (2 * c <= heads)
        c *= 2;
    return h < c ? pow(2, -most * (double)(h + 1) / (double)c) : pow(2, -most * (double)(2 * (h - c) + 1) / (double)(2 * c));
}
static void alibi(const scheme_context *of, const scheme_pair *at, scheme_terms *out) {
    const struct gyre_score_config *s = &of->config.score;
    const double *given = at->n > at->m && s->slopes_after ? s->slopes_after : s->slopes;
    const double slope = given ? given[at->head] : paper_slope(of->heads, at->head, s->max_bias);
    out->bias = -slope * distance(at) / (s->before_scale ? sqrt((double)of->dim) : 1);
}
static const scheme_oracle naive_alibi = {.pair = alibi, .traits = SCHEME_NUMBERS | SCHEME_BY_HEAD};

/* Raffel 2019. */
static void t5(const scheme_context *of, const scheme_pair *at, scheme_terms *out) {
    const struct gyre_score_config *s = &of->config.score;
    const int64_t buckets = s->bidirectional ? s->buckets / 2 : s->buckets, exact = buckets / 2;
    const int64_t away = s->bidirectional ? llabs(at->m - at->n) : at->n < at->m ? at->m - at->n : 0;
    int64_t bucket = away;
    if (away >= exact) {
        const double share = log((double)away / (double)exact) / log((double)s->max_distance / (double)exact);
        bucket = clip(exact + (int64_t)floor(share * (double)(buckets - exact) + 1e-9), 0, buckets - 1);
    }
    out->bias = number(of, at->head, bucket + (s->bidirectional && at->n > at->m ? buckets : 0));
}
static const scheme_oracle naive_t5 = {.pair = t5, .traits = SCHEME_NUMBERS};

/* Chi 2022 (KERPLE). */
static void kerple(const scheme_context *of, const scheme_pair *at, scheme_terms *out) {
    const double r1 = number(of, at->head, 0), r2 = number(of, at->head, 1), d = distance(at);
    out->bias = of->config.score.decay == GYRE_DECAY_LOG ? -r1 * log1p(r2 * d) : -r1 * pow(d, r2);
}
static double above_zero(int64_t row, double x, double last) {
    (void)row, (void)last;
    return 0.8 + 0.5 * x;
}
static const scheme_oracle naive_kerple = {.pair = kerple, .entry = above_zero, .traits = SCHEME_NUMBERS};

/* Li 2023: f(ln(c d + 1) / ln(c max(L, m) + 1)), f a network with one hidden layer of ReLUs, c and L by absolute value. */
static void fire(const scheme_context *of, const scheme_pair *at, scheme_terms *out) {
    const int64_t width = of->config.score.hidden_units, h = at->head;
    const double c = fabs(number(of, h, 0)), reach = fmax((double)at->m, fabs(number(of, h, 1)));
    const double share = log1p(c * distance(at)) / log1p(c * reach);
    double sum = number(of, h, 2 + 3 * width);
    for (int64_t u = 0; u < width; u++)
        sum += number(of, h, 2 + 2 * width + u) * fmax(0, number(of, h, 2 + u) * share + number(of, h, 2 + width + u));
    out->bias = sum;
}
static double fire_entry(int64_t row, double x, double last) {
    return row == 0 ? 0.6 + 0.5 * x : row == 1 ? (0.3 + 0.1 * x) * last : x;
}
static const scheme_oracle naive_fire = {
    .pair = fire, .entry = fire_entry, .traits = SCHEME_NUMBERS | SCHEME_ABSOLUTE | SCHEME_KINKS};

/* Chi 2022 (Sandwich): the dot product of two sinusoids, divided by 8 h / heads. */
static void sandwich(const scheme_context *of, const scheme_pair *at, scheme_terms *out) {
    const int64_t dim = of->config.score.sinusoid_dim;
    const double ratio = pow(10000, -2 / (double)dim);
    double sum = 0, angle = distance(at);
    for (int64_t i = 0; i < dim / 2; i++, angle *= ratio)
        sum += cos(angle);
    out->bias = sum * (double)of->heads / (8 * (double)(at->head + 1));
}
static const scheme_oracle naive_sandwich = {.pair = sandwich, .traits = SCHEME_NUMBERS | SCHEME_BY_HEAD};

/* -- vectors -- */
static void add_products(const scheme_context *of, const scheme_pair *at, int64_t row, scheme_terms *out) {
    const double *a = row_of(of, GYRE_TABLE_QUERY, at->head, row), *b = row_of(of, GYRE_TABLE_KEY, at->head, row);
    out->product += (a ? scheme_dot(at->q, a, of->dim) : 0) + (b ? scheme_dot(at->k, b, of->dim) : 0);
}

/* Shaw 2018. */
static void shaw(const scheme_context *of, const scheme_pair *at, scheme_terms *out) {
    const int64_t most = of->config.score.max_distance, row = clip(at->n - at->m, -most, most) + most;
    const double *v = row_of(of, GYRE_TABLE_VALUE, at->head, row);
    add_products(of, at, row, out);
    if (v && out->value) memcpy(out->value, v, (size_t)of->dim * sizeof *v);
}
static const scheme_oracle naive_shaw = {.pair = shaw};

/* Huang 2020, method 3: the product of three vectors, channel by channel. */
static void multiplicative(const scheme_context *of, const scheme_pair *at, scheme_terms *out) {
    const int64_t most = of->config.score.max_distance;
    const double *a = row_of(of, GYRE_TABLE_QUERY, at->head, clip(at->n - at->m, -most, most) + most);
    out->product = 0;
    for (int64_t c = 0; c < of->dim; c++)
        out->product += at->q[c] * at->k[c] * a[c];
}
static const scheme_oracle naive_multiplicative = {.pair = multiplicative};

/* Wei 2019: alternating sine and cosine of the clipped distance, counted from 0. */
static void nezha(const scheme_context *of, const scheme_pair *at, scheme_terms *out) {
    const struct gyre_score_config *s = &of->config.score;
    const double ratio = pow(10000, -2 / (double)of->dim);
    double angle = (double)(clip(at->n - at->m, -s->max_distance, s->max_distance) + s->max_distance);
    for (int64_t i = 0; i < of->dim; i++) {
        const double x = i % 2 ? cos(angle) : sin(angle);
        if (s->terms & GYRE_TERM_QUERY) out->product += at->q[i] * x;
        if (out->value && (s->terms & GYRE_TERM_VALUE)) out->value[i] = x;
        if (i % 2) angle *= ratio;
    }
}
static const scheme_oracle naive_nezha = {.pair = nezha};

/* Huang 2020. */
static void bert(const scheme_context *of, const scheme_pair *at, scheme_terms *out) {
    add_products(of, at, at->m - at->n + of->config.score.max_positions - 1, out);
}
static const scheme_oracle naive_bert = {.pair = bert, .traits = SCHEME_FROM_ZERO};

/* He 2020 (v1: clamped) and 2021 (v2: log buckets), as in the released code: the row for m - n. */
static void deberta(const scheme_context *of, const scheme_pair *at, scheme_terms *out) {
    const struct gyre_score_config *s = &of->config.score;
    const int64_t half = s->position_buckets / 2, side = half ? s->position_buckets : s->max_distance;
    const int64_t away = llabs(at->m - at->n);
    int64_t bucket = away;
    if (half && away > half)
        bucket = half + (int64_t)ceil(log((double)away / (double)half) / log((double)(s->max_distance - 1) / (double)half) *
                                          (double)(half - 1) -
                                      1e-9);
    add_products(of, at, clip((at->n > at->m ? -bucket : bucket) + side, 0, 2 * side - 1), out);
    out->channels *= 1 + !!(s->terms & GYRE_TERM_QUERY) + !!(s->terms & GYRE_TERM_KEY);
}
static const scheme_oracle naive_deberta = {.pair = deberta};

/* Dai 2019: (q + u) . k + (q + v) . r. */
static void transformer_xl(const scheme_context *of, const scheme_pair *at, scheme_terms *out) {
    const struct gyre_score_config *s = &of->config.score;
    const int64_t most = s->max_distance, first = s->bidirectional ? -most : 0;
    const double *r = row_of(of, GYRE_TABLE_QUERY, at->head, clip(at->m - at->n, first, most) - first);
    out->product += scheme_dot(row_of(of, GYRE_TABLE_CONTENT_BIAS, at->head, 0), at->k, of->dim) +
                    scheme_dot(at->q, r, of->dim) +
                    scheme_dot(row_of(of, GYRE_TABLE_POSITION_BIAS, at->head, 0), r, of->dim);
}
static const scheme_oracle naive_transformer_xl = {.pair = transformer_xl};

/* Inkling: the last channels of the query are r, multiplied with the row of the distance, up to the last row. */
static void inkling(const scheme_context *of, const scheme_pair *at, scheme_terms *out) {
    const struct gyre_query_config *query = &of->config.query;
    const int64_t own = of->config.score.relative_channels, first = of->dim - own, d = at->m - at->n;
    const double more = fmax(0, log((double)(at->m + 1) / (double)query->reference_length));
    const double warm = query->temperature == GYRE_TEMPERATURE_INKLING && at->m > 0 ? 1 + query->slope * more : 1;
    out->product = warm * scheme_dot(at->q, at->k, first);
    if (d >= 0 && d < of->config.score.max_distance)
        out->bias = warm * scheme_dot(at->q + first, row_of(of, GYRE_TABLE_QUERY, 0, d), own);
    out->channels = (double)first;
}
static const scheme_oracle naive_inkling = {.pair = inkling};

/* -- phases -- */
/* Wang 2025, eq. 12: (q_A . k_A) cos(2 pi |m - n|^alpha (q_P . k_P) / sqrt(channels of P)). */
static void tapa(const scheme_context *of, const scheme_pair *at, scheme_terms *out) {
    const int64_t first = of->config.score.amplitudes, phases = of->dim - first;
    const double turns = pow(distance(at), of->config.score.exponent) * scheme_dot(at->q + first, at->k + first, phases) /
                         sqrt((double)phases);
    out->product = scheme_dot(at->q, at->k, first) * cos(2 * PI * turns);
    out->channels = (double)first;
}
static const scheme_oracle naive_tapa = {.pair = tapa, .traits = SCHEME_STEEP};

/* -- the list -- */
const double test_slopes[12] = {0.5, 0.25, 0.0625, 1, 0.125, 0.03125, 0.75, 0, 0.375, 0.015625, 0.875, 0.1875};
const double test_slopes_after[12] = {0.125, 0.75, 0, 0.5, 0.25, 1, 0.0625, 0.03125, 0.625, 0.1875, 0.875, 0.375};

#define GYRE_TEST_SCHEME(id, oracle, ...)  {#id, &oracle, 0, {__VA_ARGS__}},
#define GYRE_TEST_VARIANT(id, oracle, ...) {#id, &oracle, 1, {__VA_ARGS__}},
const test_scheme test_schemes[SCHEMES] = {
#include "../test_schemes.def"
};

const scheme_oracle *scheme_oracle_of(gyre_kind kind) {
    int i = 0;
    while (i < SCHEMES && test_schemes[i].config.kind != kind)
        i++;
    if (i == SCHEMES) abort(); /* tests/test_schemes.def has a row for each kind */
    return test_schemes[i].oracle;
}

void test_scheme_complete(gyre_config *config, int64_t heads, int64_t head_dim, int64_t length) {
    config->size = sizeof *config;
    config->heads = heads;
    config->head_dim = head_dim;
    if (config->trained_length == 0) config->trained_length = length;
    if (config->score.max_positions > 0) config->score.max_positions = length;
    if (scheme_oracle_of(config->kind)->input) config->input.dim = heads * head_dim;
    if (gyre_config_suggest(config)) abort();
}

gyre_config test_scheme_config(int scheme, int64_t heads, int64_t head_dim, int64_t length) {
    gyre_config config = test_schemes[scheme].config;
    test_scheme_complete(&config, heads, head_dim, length);
    return config;
}

int test_scheme_with(scheme_trait trait, int i) {
    int scheme = 0;
    for (; scheme < SCHEMES; scheme++)
        if (test_schemes[scheme].oracle->traits & (unsigned)trait && !test_schemes[scheme].is_variant && i-- == 0) break;
    return scheme;
}

int test_scheme_attends(int scheme, gyre_causal causal) {
    const scheme_oracle *oracle = test_schemes[scheme].oracle;
    return oracle->pair && (causal == GYRE_CAUSAL_BY_POSITION || !(oracle->traits & SCHEME_CAUSAL));
}

scheme_context scheme_context_of(const gyre_encoding *encoding) {
    scheme_context of = {.config = *gyre_encoding_get_config(encoding)};
    of.oracle = scheme_oracle_of(of.config.kind);
    of.heads = of.config.heads;
    of.dim = of.config.head_dim;
    of.rotates = !gyre_encoding_frequencies(encoding, 0, of.inv_freq, &of.factor);
    return of;
}

void scheme_context_table(scheme_context *of, const gyre_encoding *encoding, gyre_table which, const double *x) {
    int64_t s[4];
    if (gyre_encoding_table_shape(encoding, which, s)) abort();
    of->table[which] = (scheme_table){s[0] ? x : NULL, s[1], s[2], s[3]};
}

double scheme_entry(const scheme_oracle *oracle, gyre_table which, int64_t row, double x, double last) {
    return which == GYRE_TABLE_BIAS && oracle->entry ? oracle->entry(row, x, last) : x;
}

scheme_terms scheme_terms_of(const scheme_context *of, const scheme_pair *at, double *value) {
    scheme_terms out = {scheme_dot(at->q, at->k, of->dim), 0, (double)of->dim, value};
    if (value) memset(value, 0, (size_t)of->dim * sizeof *value);
    if (of->oracle->pair) of->oracle->pair(of, at, &out);
    return out;
}

int scheme_adds_values(const scheme_context *of) {
    return (of->config.score.terms & GYRE_TERM_VALUE) != 0;
}
