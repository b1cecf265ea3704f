/* fuzz_input.c: the schemes that act at the input, learned and sinusoidal, with the gradient of their tables, and ALiBi's
 * slopes under every scaling: gyre_add_input, gyre_add_input_gradient, gyre_add_bias and the simple calls, against their
 * definitions in double. */
#include "fuzz_bytes.h"
#include "fuzz_support.h"
#include "fuzz_views.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_WIDTH = 700, MOST_ROWS = 60, MOST_HEADS = 12 };
static const double START = 0.25; /* gradients are added to it */

typedef struct call {
    fuzz_bytes in;
    test_random random;
    gyre_config config;
    gyre_encoding *encoding;
    gyre_exec exec; /* two threads */
    int64_t batch, tokens;
    int64_t *at; /* [batch][token] */
    gyre_positions where;
    fuzz_view table, gradient;
    gyre_tables tables;
    double slopes[2][MOST_HEADS];
} call;

static double given_or(double value, double standard) {
    return value != 0 ? value : standard;
}

/* -- at the input -- */
static void choose_input(call *c) {
    static const double scales[] = {0, 0, 2, 0.5, -3};
    struct gyre_input_config *i = &c->config.input;
    const int is_wide = fuzz_choice(&c->in, 6) == 5;
    i->dim = is_wide ? 250 + fuzz_between(&c->in, 0, MOST_WIDTH - 250) : 1 + fuzz_choice(&c->in, 40);
    i->offset = fuzz_choice(&c->in, 3) == 1 ? 1 + fuzz_choice(&c->in, 3) : 0;
    i->scale = scales[fuzz_choice(&c->in, 5)];
    if (c->config.kind == GYRE_KIND_LEARNED) {
        i->positions = i->offset + 1 + fuzz_choice(&c->in, MOST_ROWS - 4);
        const int64_t n = i->positions - i->offset;
        const int how = fuzz_choice(&c->in, 3);
        if (how == 1) i->hierarchy = (1 + fuzz_choice(&c->in, 9)) / 10.0;
        if (how == 1 && fuzz_choice(&c->in, 2)) i->resized_length = 1 + fuzz_between(&c->in, 0, n * n - 1);
        if (how == 2) i->resized_length = 1 + fuzz_between(&c->in, 0, 3 * n);
        return;
    }
    i->layout = (gyre_sinusoid)fuzz_choice(&c->in, 5);
    const int is_short = i->layout == GYRE_SINUSOID_SIN_COS_T2T || i->layout == GYRE_SINUSOID_COS_SIN_T2T;
    if (is_short && i->dim < 4) i->dim = 4;
    if (!is_short) i->dim += i->dim % 2;
    i->base = fuzz_choice(&c->in, 2) ? 100 : 0;
    i->zero_padding = fuzz_choice(&c->in, 2);
    i->trained_scale = fuzz_choice(&c->in, 3) == 1;
    c->config.trained_length = fuzz_choice(&c->in, 200);
}

/* The positions that the scheme has: first .. end - 1. */
static void reach_of(const call *c, int64_t *first, int64_t *end) {
    const struct gyre_input_config *i = &c->config.input;
    const int64_t n = i->positions - i->offset;
    *first = c->config.kind == GYRE_KIND_LEARNED ? -i->offset : -300;
    *end = c->config.kind != GYRE_KIND_LEARNED ? 9000
           : i->resized_length > 0             ? i->resized_length
           : i->hierarchy > 0                  ? n * n
                                               : n;
}

static void choose_positions(call *c) {
    int64_t first, end;
    reach_of(c, &first, &end);
    const int counted = fuzz_choice(&c->in, 2);
    c->at = fuzz_room((size_t)(c->batch * c->tokens), sizeof *c->at);
    if (counted && end - first < c->tokens) c->tokens = end - first;
    const int64_t begin = counted ? fuzz_between(&c->in, first, end - c->tokens) : 0;
    for (int64_t i = 0; i < c->batch * c->tokens; i++)
        c->at[i] = counted ? begin + i % c->tokens : first + (int64_t)(test_next(&c->random) % (uint64_t)(end - first));
    c->where = counted ? (gyre_positions){.base = begin} : (gyre_positions){c->at, GYRE_DTYPE_I64, 0, 0, c->tokens, 1, 0, 0};
}

static void make_table(call *c) {
    int64_t s[4];
    fuzz_require(!gyre_encoding_table_shape(c->encoding, GYRE_TABLE_INPUT, s), "a table has a shape");
    if (s[0] == 0) return;
    c->table = fuzz_view_make(&c->in, fuzz_choice(&c->in, 3) == 1 ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32, 1, s[1], s[2], s[3]);
    c->gradient = fuzz_view_make(&c->in, fuzz_choice(&c->in, 2) ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32, 1, s[1], s[2], s[3]);
    fuzz_view_fill(&c->table, &c->random, 1);
    for (size_t i = 0; i < c->gradient.bytes / gyre_dtype_size(c->gradient.view.dtype); i++)
        test_put(c->gradient.view.data, c->gradient.view.dtype, i, START);
    c->tables.input = gyre_const(c->table.view);
}

/* Rows of the table and their weights. */
typedef struct rows {
    int count;
    int64_t row[3];
    double weight[3];
} rows;

static rows rows_of(const gyre_config *config, int64_t m) {
    const struct gyre_input_config *i = &config->input;
    const int64_t n = i->positions - i->offset;
    if (m >= 0 && i->hierarchy > 0) {
        const double ratio = i->hierarchy / (1 - i->hierarchy);
        return (rows){3, {i->offset + m % n, i->offset + m / n, i->offset}, {1, ratio, -ratio}};
    }
    if (m <= 0 || i->resized_length <= 1) return (rows){1, {m + i->offset}, {1}};
    const double place = (double)m * (double)(n - 1) / (double)(i->resized_length - 1), part = place - floor(place);
    const int64_t row = i->offset + (int64_t)floor(place), last = i->offset + n - 1;
    return (rows){2, {row, row < last ? row + 1 : last}, {1 - part, part}};
}

static double sinusoid(const gyre_config *config, int64_t m, int64_t channel) {
    const struct gyre_input_config *i = &config->input;
    const int64_t pairs = i->dim / 2;
    const int is_short = i->layout == GYRE_SINUSOID_SIN_COS_T2T || i->layout == GYRE_SINUSOID_COS_SIN_T2T;
    const int cosine_first = i->layout == GYRE_SINUSOID_COS_SIN || i->layout == GYRE_SINUSOID_COS_SIN_T2T;
    const int interleaved = i->layout == GYRE_SINUSOID_INTERLEAVED;
    const int64_t pair = interleaved ? channel / 2 : channel % pairs;
    const int second = interleaved ? channel % 2 : channel >= pairs;
    if ((i->zero_padding && m == -1) || channel >= 2 * pairs) return 0;
    const double exponent = is_short ? (double)pair / (double)(pairs - 1) : 2 * (double)pair / (double)i->dim;
    const double angle = (double)(m + i->offset) * pow(given_or(i->base, 10000), -exponent);
    return second == cosine_first ? sin(angle) : cos(angle);
}

/* out = what is added to a channel at m, without input.scale and the trained scale. */
static double added(const call *c, int64_t m, int64_t channel) {
    double sum = 0;
    if (c->config.kind == GYRE_KIND_SINUSOIDAL) return sinusoid(&c->config, m, channel);
    const rows r = rows_of(&c->config, m);
    for (int i = 0; i < r.count; i++)
        sum += r.weight[i] == 0 ? 0 : r.weight[i] * fuzz_view_at(&c->table, 0, 0, r.row[i], channel);
    return sum;
}

static double trained_scale(const call *c) {
    return c->config.input.trained_scale ? fuzz_view_at(&c->table, 0, 0, 0, 0) : 1;
}

static void check_added(const call *c, const fuzz_view *x, const fuzz_view *y) {
    const double factor = given_or(c->config.input.scale, 1) * trained_scale(c);
    const int64_t dim = c->config.input.dim;
    const gyre_dtype dtype = x->view.dtype;
    for (int64_t i = 0; i < c->batch * c->tokens * dim; i++) {
        const int64_t b = i / dim / c->tokens, t = i / dim % c->tokens;
        const double p = factor * added(c, c->at[b * c->tokens + t], i % dim), before = fuzz_view_at(x, b, t, 0, i % dim);
        const double error =
            dtype == GYRE_DTYPE_F64 ? 1e-11 * (1 + fabs(factor)) : 0x1p-23 * (fabs(p) + fabs(factor) + fabs(before));
        fuzz_require(fabs(fuzz_view_at(y, b, t, 0, i % dim) - before - p) <= fuzz_rounding(dtype, before + p) * 1.01 + error,
                     "a channel has what the scheme adds");
    }
}

static gyre_status add(const call *c, const fuzz_view *x, const fuzz_view *y, const gyre_exec *exec) {
    gyre_error err = {0, ""};
    const gyre_cview in = gyre_const(x->view);
    const gyre_status status = gyre_add_input(
        c->encoding, GYRE_ARGS(gyre_add_input_args, .tables = &c->tables, .positions = &c->where, .in = in, .out = y->view),
        exec, &err);
    fuzz_require_error(status, &err);
    return status;
}

/* One position past what a learned table serves is refused, and nothing is written. */
static void check_past(call *c, const fuzz_view *x, const fuzz_view *y) {
    int64_t first, end;
    reach_of(c, &first, &end);
    const gyre_positions before = c->where;
    if (c->config.kind != GYRE_KIND_LEARNED || c->tokens == 0) return;
    for (int side = 0; side < 2; side++) {
        c->where = (gyre_positions){.base = side ? end - c->tokens + 1 : first - 1};
        fuzz_require(add(c, x, y, NULL) == GYRE_ERANGE, "a table has no row past its ends");
    }
    for (size_t i = 0; i < y->bytes; i++)
        fuzz_require(((unsigned char *)y->view.data)[i] == 0, "a refused call writes nothing");
    c->where = before;
}

static void check_gradient(call *c, const fuzz_view *dout) {
    const gyre_cview in = gyre_const(dout->view);
    const gyre_table_gradients gradients = {.input = c->gradient.view};
    const int64_t dim = c->config.input.dim, *s = c->gradient.view.shape;
    const double scale = given_or(c->config.input.scale, 1);
    gyre_error err = {0, ""};
    const size_t count = c->gradient.view.data ? (size_t)(s[2] * s[3]) : 0;
    double *want = fuzz_room(count, sizeof *want), *most = fuzz_room(count, sizeof *most);
    fuzz_require(!gyre_add_input_gradient(c->encoding, &c->where, &in, &gradients, &c->exec, &err), "a gradient");
    for (int64_t i = 0; count && i < c->batch * c->tokens * dim; i++) {
        const int64_t b = i / dim / c->tokens, t = i / dim % c->tokens, m = c->at[b * c->tokens + t];
        const double d = scale * fuzz_view_at(dout, b, t, 0, i % dim);
        const int learned = c->config.kind == GYRE_KIND_LEARNED;
        const rows r = learned ? rows_of(&c->config, m) : (rows){1, {0}, {sinusoid(&c->config, m, i % dim)}};
        for (int k = 0; k < r.count; k++) {
            const size_t at = (size_t)(learned ? r.row[k] * dim + i % dim : 0);
            want[at] += r.weight[k] * d;
            most[at] += fabs(r.weight[k] * d);
        }
    }
    const double relative =
        c->gradient.view.dtype == GYRE_DTYPE_F64 ? 1e-11 : 0x1p-23 * (double)(3 * c->batch * c->tokens + 2);
    for (size_t i = 0; i < count; i++) {
        const double got = fuzz_view_at(&c->gradient, 0, 0, (int64_t)i / s[3], (int64_t)i % s[3]);
        fuzz_require(fabs(got - START - want[i]) <= relative * (most[i] + 1),
                     "the gradient of a table is that of the definition");
    }
    free(want);
    free(most);
}

static void check_input(call *c) {
    const gyre_dtype dtype = fuzz_choice(&c->in, 4) == 3 ? GYRE_DTYPE_F64 : fuzz_dtype(&c->in);
    fuzz_view v[3];
    for (int i = 0; i < 3; i++)
        v[i] = fuzz_view_make(&c->in, dtype, c->batch, c->tokens, 1, c->config.input.dim);
    fuzz_view_fill(&v[0], &c->random, 1);
    check_past(c, &v[0], &v[1]);
    fuzz_require(!add(c, &v[0], &v[1], NULL), "a legal addition is done");
    check_added(c, &v[0], &v[1]);
    fuzz_require(!add(c, &v[0], &v[2], &c->exec), "on two threads");
    fuzz_views_require_same(&v[1], &v[2], "threads and strides change no bit");
    check_gradient(c, &v[0]);
    fuzz_require(!add(c, &v[0], &v[0], NULL), "in place");
    fuzz_views_require_same(&v[0], &v[1], "in place are the same bits");
    for (int i = 0; i < 3; i++)
        fuzz_view_free(&v[i]);
}

/* -- ALiBi -- */
static void choose_slopes(call *c) {
    struct gyre_score_config *s = &c->config.score;
    c->config.heads = 1 + fuzz_choice(&c->in, MOST_HEADS);
    c->config.trained_length = 1 + fuzz_choice(&c->in, 200);
    c->config.head_dim = 1 + fuzz_choice(&c->in, 100);
    for (int side = 0; side < 2; side++)
        for (int64_t h = 0; h < c->config.heads; h++)
            c->slopes[side][h] = (1 + fuzz_choice(&c->in, 250)) / 100.0;
    if (fuzz_choice(&c->in, 3) == 1) s->slopes = c->slopes[0];
    if (fuzz_choice(&c->in, 3) == 1) s->slopes_after = c->slopes[1];
    s->max_bias = fuzz_choice(&c->in, 3) * 4;
    s->before_scale = fuzz_choice(&c->in, 3) == 1;
    c->config.score.slope_scaling = (gyre_slope_scaling)fuzz_choice(&c->in, 4);
    c->config.score.slope_factor = fuzz_choice(&c->in, 3) == 1 ? 1 + fuzz_choice(&c->in, 16) : 0;
    c->config.context_length = fuzz_choice(&c->in, 3) == 1 ? 1 + fuzz_between(&c->in, 0, 1000) : 0;
}

/* The slopes of the paper: a geometric row for the largest power of two of heads, then every other one of twice as many. */
static double slope_of(const gyre_config *c, int64_t head) {
    const double most = given_or(c->score.max_bias, 8);
    int64_t whole = 1;
    if (c->score.slopes) return c->score.slopes[head];
    while (2 * whole <= c->heads)
        whole *= 2;
    if (head < whole) return pow(2, -most * (double)(head + 1) / (double)whole);
    return pow(2, -most * (double)(2 * (head - whole) + 1) / (double)(2 * whole));
}

static double exponent_of(const gyre_config *c, int64_t head) {
    double least = slope_of(c, 0), most = least;
    int64_t whole = 1;
    while (2 * whole <= c->heads)
        whole *= 2;
    for (int64_t h = 0; h < c->heads; h++) {
        least = fmin(least, slope_of(c, h));
        most = fmax(most, slope_of(c, h));
    }
    if (c->score.slope_scaling == GYRE_SLOPE_SCALING_NONE) return 0;
    if (c->score.slope_scaling == GYRE_SLOPE_SCALING_LINEAR) return 1;
    if (c->score.slope_scaling == GYRE_SLOPE_SCALING_NTK) return log(most / slope_of(c, head)) / log(most / least);
    return head < whole ? (double)head / (double)(c->heads - 1) : 0;
}

/* out = the slope of a head for keys on one side at a context length. */
static double scaled_slope(const gyre_config *c, int64_t head, int after, int64_t length) {
    const int64_t own = c->context_length > 0 ? c->context_length : c->trained_length;
    const double ratio = fmax(1, (double)(length > 0 ? length : own) / (double)c->trained_length);
    const double stretch = pow(given_or(c->score.slope_factor, ratio), exponent_of(c, head));
    const double slope = after && c->score.slopes_after ? c->score.slopes_after[head] : slope_of(c, head);
    return slope / stretch / (c->score.before_scale ? sqrt((double)c->head_dim) : 1);
}

static void check_slopes(const call *c, int64_t length) {
    double slopes[MOST_HEADS];
    gyre_encoding *simple = NULL;
    fuzz_require(!gyre_encoding_slopes(c->encoding, length, slopes), "slopes");
    for (int64_t h = 0; h < c->config.heads; h++)
        fuzz_require(fabs(slopes[h] - scaled_slope(&c->config, h, 0, length)) <= 1e-12 * fabs(slopes[h]), "a slope");
    fuzz_require(!gyre_alibi_create(&simple, c->config.heads, NULL), "the paper's slopes");
    fuzz_require(!gyre_encoding_slopes(simple, 0, slopes), "are told");
    const gyre_config paper = {.heads = c->config.heads};
    for (int64_t h = 0; h < c->config.heads; h++)
        fuzz_require(fabs(slopes[h] - slope_of(&paper, h)) <= 1e-12 * slopes[h], "a slope of the paper");
    gyre_encoding_free(simple);
}

static void check_bias(call *c) {
    const gyre_dtype dtype = fuzz_choice(&c->in, 4) == 3 ? GYRE_DTYPE_F64 : fuzz_dtype(&c->in);
    const int64_t keys = fuzz_choice(&c->in, 50), first = fuzz_between(&c->in, -300, 3000);
    const int64_t length = fuzz_choice(&c->in, 2) ? 1 + fuzz_between(&c->in, 0, 2000) : 0;
    const gyre_positions q = {.base = first, .context_length = length}, k = {.base = first - 20};
    gyre_error err = {0, ""};
    fuzz_view s = fuzz_view_make(&c->in, dtype, c->batch, c->tokens, c->config.heads, keys),
              z = fuzz_view_make(&c->in, dtype, c->batch, c->tokens, c->config.heads, keys);
    check_slopes(c, length);
    const gyre_status status =
        gyre_add_bias(c->encoding, GYRE_ARGS(gyre_add_bias_args, .queries = &q, .keys = &k, .scores = s.view), NULL, &err);
    /* Slopes that follow the length, past the trained one, where no length is known. */
    const int is_open = c->config.score.slope_scaling != GYRE_SLOPE_SCALING_NONE && c->config.score.slope_factor == 0 &&
                        length == 0 && c->config.context_length == 0;
    const int64_t last = first + (c->tokens > keys - 20 ? c->tokens : keys - 20) - 1;
    const int writes = c->batch * c->tokens * keys > 0;
    fuzz_require(status == (is_open && writes && last >= c->config.trained_length ? GYRE_EINVAL : GYRE_OK),
                 "a legal bias is added, one whose length is open is refused");
    if (status) {
        fuzz_require_error(status, &err);
        fuzz_view_free(&s);
        fuzz_view_free(&z);
        return;
    }
    fuzz_require(!gyre_add_bias(c->encoding, GYRE_ARGS(gyre_add_bias_args, .queries = &q, .keys = &k, .scores = z.view),
                                &c->exec, &err),
                 "on two threads");
    fuzz_views_require_same(&s, &z, "threads and strides change no bit");
    for (int64_t i = 0; i < c->batch * c->tokens * c->config.heads * keys; i++) {
        const int64_t n = i % keys, h = i / keys % c->config.heads, row = i / keys / c->config.heads, t = row % c->tokens;
        const int64_t ahead = (first - 20 + n) - (first + t);
        const double want = -scaled_slope(&c->config, h, ahead > 0, length) * fabs((double)ahead);
        fuzz_require(fabs(fuzz_view_at(&s, row / c->tokens, t, h, n) - want) <= fuzz_rounding(dtype, want) * 1.01 + 1e-11,
                     "a bias is its slope times the distance");
    }
    fuzz_view_free(&s);
    fuzz_view_free(&z);
}

static void free_call(call *c) {
    gyre_encoding_free(c->encoding);
    fuzz_view_free(&c->table);
    fuzz_view_free(&c->gradient);
    free(c->at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const gyre_kind kinds[] = {GYRE_KIND_LEARNED, GYRE_KIND_SINUSOIDAL, GYRE_KIND_ALIBI};
    static gyre_pool *pool;
    static call c;
    gyre_error err = {0, ""};
    if (!pool) fuzz_require(!gyre_pool_create(&pool, 2, NULL), "two threads");
    memset(&c, 0, sizeof c);
    c.exec = gyre_pool_exec(pool);
    c.in = (fuzz_bytes){data, size};
    c.random.state = 1 + fuzz_byte(&c.in);
    c.config = (gyre_config)GYRE_INIT(gyre_config);
    c.config.kind = kinds[fuzz_choice(&c.in, 3)];
    c.batch = 1 + fuzz_choice(&c.in, 3);
    c.tokens = 1 + fuzz_choice(&c.in, fuzz_choice(&c.in, 4) == 1 ? 150 : 9);
    const int slopes = c.config.kind == GYRE_KIND_ALIBI;
    slopes ? choose_slopes(&c) : choose_input(&c);
    const gyre_status status = gyre_encoding_create(&c.encoding, &c.config, NULL, &err);
    fuzz_require_error(status, &err);
    if (!status && slopes) check_bias(&c);
    if (!status && !slopes) {
        choose_positions(&c);
        make_table(&c);
        check_input(&c);
    }
    free_call(&c);
    return 0;
}
