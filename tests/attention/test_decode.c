/* test_decode.c: few queries over keys in place, of every type, contiguous or in pages, shifted since they were rotated or
 * not, against the definition in double. */
#include "attention/attention.h"
#include "attention/attention_planner.h"
#include "attention/forward/decode.h"
#include "attention/segments.h"
#include "attention_setup.h"

#include "attention_memory.h"
#include "naive_head.h"
#include "naive_schemes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- a problem -- */

typedef struct decode_case {
    int scheme;
    gyre_dtype q, k, v;
    int64_t queries, keys, group, key_heads, dim, value_dim;
    int64_t page;  /* tokens that lie together; 0 = all, in views */
    int64_t step;  /* between channels */
    int rotated;   /* keys have been, */
    int64_t shift; /* and have moved since, every page by another multiple of this */
    int causal;
    int64_t window;
} decode_case;

/* Everything dense in double, as the definition wants it, and the elements themselves, as the library does. */
typedef struct decode_problem {
    decode_case c;
    gyre_encoding *encoding;
    gyre_tables tables;
    scheme_context scheme;
    float *table[SCHEME_TABLES];
    double *table64[SCHEME_TABLES];
    int64_t heads, rows, *q_at, *k_at, (*shifts)[GYRE_MAX_AXES];
    void *q, *k, *v;
    float *k_scale, *v_scale; /* [key head][key] */
    double *q64, *k64, *v64;  /* the values of the elements, not rotated */
    double *want, *lse;
    float *out, *out_lse;
} decode_problem;

/* Elements of a page lie [head][token][channel x step], pages one after the other, with a gap between. */
enum { GAP = 24 };
static int64_t page_of(const decode_case *c) {
    return c->page ? c->page : c->keys;
}
static int64_t page_elements(const decode_case *c, int64_t dim) {
    return page_of(c) * c->key_heads * dim * c->step + GAP;
}
static int64_t element_at(const decode_case *c, int64_t dim, int64_t head, int64_t token, int64_t channel) {
    const int64_t page = page_of(c);
    return token / page * page_elements(c, dim) + ((head * page + token % page) * dim + channel) * c->step;
}

/* Rotates a key, and multiplies it by a factor. */
static void rotate_row(const decode_problem *p, double *row, int64_t position, double factor) {
    const struct gyre_rope_config *rope = &p->scheme.config.rope;
    naive_rotate_head(row, rope->dim / 2, rope->layout, p->scheme.inv_freq, (double)position, factor);
}

static void make_encoding(decode_problem *p, test_random *random) {
    const decode_case *c = &p->c;
    const gyre_config config = test_scheme_config(c->scheme, p->heads, c->dim, c->keys + 4);
    gyre_tables *t = &p->tables;
    gyre_cview *const of[SCHEME_TABLES] = {&t->input, &t->query,        &t->key,          &t->value,
                                           &t->bias,  &t->content_bias, &t->position_bias};
    p->encoding = test_encoding(&config);
    p->scheme = scheme_context_of(p->encoding);
    for (int i = 0; i < SCHEME_TABLES; i++) {
        int64_t s[4];
        assert_ok(gyre_encoding_table_shape(p->encoding, (gyre_table)i, s));
        const int64_t count = s[0] * s[1] * s[2] * s[3];
        p->table[i] = room(count, sizeof(float));
        p->table64[i] = room(count, sizeof(double));
        for (int64_t e = 0; e < count; e++) {
            const double x = scheme_entry(p->scheme.oracle, (gyre_table)i, e / s[3], test_uniform(random), (double)c->keys);
            p->table64[i][e] = (double)(p->table[i][e] = (float)x);
        }
        *of[i] = gyre_cdense(s[0] ? p->table[i] : NULL, GYRE_DTYPE_F32, s[0], s[1], s[2], s[3]);
        scheme_context_table(&p->scheme, p->encoding, (gyre_table)i, p->table64[i]);
    }
}

static void put_row(const decode_problem *p, gyre_dtype dtype, void *data, int64_t at, double *row, int64_t n,
                    float *scale) {
    double most = 1e-9;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(row[i]));
    *scale = (float)(most / 127);
    for (int64_t i = 0; i < n; i++, at += p->c.step)
        if (dtype == GYRE_DTYPE_Q8) {
            ((int8_t *)data)[at] = (int8_t)lrint(row[i] / (double)*scale);
            row[i] = (double)*scale * ((int8_t *)data)[at];
        } else {
            test_put(data, dtype, (size_t)at, row[i]);
            row[i] = test_get(data, dtype, (size_t)at);
        }
}

static void fill_keys(decode_problem *p, test_random *random) {
    const decode_case *c = &p->c;
    for (int64_t h = 0; h < c->key_heads; h++)
        for (int64_t t = 0; t < c->keys; t++) {
            double *k = p->k64 + (h * c->keys + t) * c->dim, *v = p->v64 + (h * c->keys + t) * c->value_dim;
            const int64_t moved = p->shifts[t / page_of(c)][0];
            test_fill_f64(random, k, (size_t)c->dim);
            test_fill_f64(random, v, (size_t)c->value_dim);
            if (c->rotated) rotate_row(p, k, p->k_at[t] - moved, p->scheme.factor);
            put_row(p, c->k, p->k, element_at(c, c->dim, h, t, 0), k, c->dim, &p->k_scale[h * c->keys + t]);
            put_row(p, c->v, p->v, element_at(c, c->value_dim, h, t, 0), v, c->value_dim, &p->v_scale[h * c->keys + t]);
            if (c->rotated) rotate_row(p, k, moved - p->k_at[t], 1 / p->scheme.factor);
        }
}

static void fill_queries(decode_problem *p, test_random *random) {
    const decode_case *c = &p->c;
    for (int64_t r = 0; r < c->queries * p->heads; r++) {
        double *row = p->q64 + r * c->dim;
        for (int64_t i = 0; i < c->dim; i++) { /* larger scores, so that weights are far from uniform */
            test_put(p->q, c->q, (size_t)(r * c->dim + i), 3 * test_uniform(random));
            row[i] = test_get(p->q, c->q, (size_t)(r * c->dim + i));
        }
    }
}

static decode_problem *make_problem(const decode_case *c, uint64_t seed) {
    decode_problem *p = room(1, sizeof *p);
    test_random random = {seed};
    const int64_t pages = (c->keys + page_of(c) - 1) / page_of(c);
    p->c = *c;
    p->heads = c->group * c->key_heads;
    p->rows = c->queries * p->heads;
    make_encoding(p, &random);
    p->q_at = room(c->queries, sizeof(int64_t));
    p->k_at = room(c->keys, sizeof(int64_t));
    p->shifts = room(pages, sizeof *p->shifts);
    p->q = room(p->rows * c->dim, sizeof(float));
    p->k = room(pages * page_elements(c, c->dim), sizeof(float));
    p->v = room(pages * page_elements(c, c->value_dim), sizeof(float));
    p->k_scale = room(c->key_heads * c->keys, sizeof(float));
    p->v_scale = room(c->key_heads * c->keys, sizeof(float));
    p->q64 = room(p->rows * c->dim, sizeof(double));
    p->k64 = room(c->key_heads * c->keys * c->dim, sizeof(double));
    p->v64 = room(c->key_heads * c->keys * c->value_dim, sizeof(double));
    p->want = room(p->rows * c->value_dim, sizeof(double));
    p->lse = room(p->rows, sizeof(double));
    p->out = room(p->rows * c->value_dim, sizeof(float));
    p->out_lse = room(p->rows, sizeof(float));
    for (int64_t i = 0; i < pages; i++)
        p->shifts[i][0] = c->shift * (i % 4 - 1); /* some not at all */
    for (int64_t t = 0; t < c->keys; t++)
        p->k_at[t] = t + 3 * (t > c->keys / 2); /* with a hole */
    for (int64_t t = 0; t < c->queries; t++)
        p->q_at[t] = c->keys + 3 - c->queries + t;
    fill_keys(p, &random);
    fill_queries(p, &random);
    return p;
}

static void free_problem(decode_problem *p) {
    void *all[] = {p->q_at, p->k_at, p->shifts, p->q,    p->k,   p->v,   p->k_scale, p->v_scale,
                   p->q64,  p->k64,  p->v64,    p->want, p->lse, p->out, p->out_lse};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    for (int i = 0; i < SCHEME_TABLES; i++) {
        free(p->table[i]);
        free(p->table64[i]);
    }
    gyre_encoding_free(p->encoding);
    free(p);
}

/* -- the definition -- */

static int is_visible(const decode_problem *p, int64_t query, int64_t key) {
    const decode_case *c = &p->c;
    const int by_order = c->causal == GYRE_CAUSAL_BY_ORDER;
    const int64_t q = by_order ? c->keys - c->queries + query : p->q_at[query], k = by_order ? key : p->k_at[key];
    return !(c->causal && k > q) && !(c->window && llabs(q - k) >= c->window);
}

static void define_row(const decode_problem *p, int64_t query, int64_t head) {
    const decode_case *c = &p->c;
    double *out = p->want + (query * p->heads + head) * c->value_dim, top = -INFINITY, sum = 0, more[256] = {0};
    double *score = room(c->keys, sizeof *score);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t j = 0; j < c->keys; j++) {
            const scheme_pair at = {head, p->q_at[query], p->k_at[j], p->q64 + (query * p->heads + head) * c->dim,
                                    p->k64 + (head / c->group * c->keys + j) * c->dim};
            if (pass == 0) {
                const scheme_terms terms = scheme_terms_of(&p->scheme, &at, NULL);
                score[j] = is_visible(p, query, j) ? terms.product / sqrt(terms.channels) + terms.bias : -INFINITY;
                top = fmax(top, score[j]);
                continue;
            }
            if (score[j] == -INFINITY) continue;
            const double weight = exp(score[j] - top), *v = p->v64 + (head / c->group * c->keys + j) * c->value_dim;
            if (scheme_adds_values(&p->scheme)) scheme_terms_of(&p->scheme, &at, more);
            sum += weight;
            for (int64_t i = 0; i < c->value_dim; i++)
                out[i] += weight * (v[i] + more[i]);
        }
    for (int64_t i = 0; i < c->value_dim && sum > 0; i++)
        out[i] /= sum;
    p->lse[query * p->heads + head] = sum > 0 ? top + log(sum) : -INFINITY;
    free(score);
}

static void define(decode_problem *p) {
    memset(p->want, 0, (size_t)(p->rows * p->c.value_dim) * sizeof *p->want);
    for (int64_t query = 0; query < p->c.queries; query++)
        for (int64_t head = 0; head < p->heads; head++)
            define_row(p, query, head);
}

/* -- the library -- */

static void run_of_pages(const gyre_key_source *source, int64_t batch, int64_t head, int64_t first, gyre_key_run *run) {
    const decode_problem *p = source->run_ctx;
    const decode_case *c = &p->c;
    const int64_t page = page_of(c), left = page - first % page;
    assert_int_equal(batch, 0);
    *run =
        (gyre_key_run){.k = (const char *)p->k + (size_t)element_at(c, c->dim, head, first, 0) * gyre_dtype_size(c->k),
                       .v = (const char *)p->v + (size_t)element_at(c, c->value_dim, head, first, 0) * gyre_dtype_size(c->v),
                       .k_scale = c->k == GYRE_DTYPE_Q8 ? p->k_scale + head * c->keys + first : NULL,
                       .v_scale = c->v == GYRE_DTYPE_Q8 ? p->v_scale + head * c->keys + first : NULL,
                       .count = left < c->keys - first ? left : c->keys - first,
                       .k_row_stride = c->dim * c->step,
                       .v_row_stride = c->value_dim * c->step,
                       .k_step = c->step,
                       .v_step = c->step,
                       .shift = c->rotated && p->shifts[first / page][0] != 0 ? p->shifts[first / page] : NULL};
}

static gyre_key_source source_of(const decode_problem *p) {
    return (gyre_key_source){
        .run_ctx = p, .k_dtype = p->c.k, .v_dtype = p->c.v, .rotated = p->c.rotated, .run = run_of_pages};
}

static gyre_positions positions_of(const int64_t *at) {
    return (gyre_positions){.data = at, .dtype = GYRE_DTYPE_I64, .stride_token = 1};
}

static attention_setup args_of(const decode_problem *p) {
    const decode_case *c = &p->c;
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = p->encoding;
    args.tables = &p->tables;
    args.q = gyre_cdense(p->q, c->q, 1, c->queries, p->heads, c->dim);
    args.k = gyre_cdense(p->k, c->k, 1, c->keys, c->key_heads, c->dim);
    args.v = gyre_cdense(p->v, c->v, 1, c->keys, c->key_heads, c->value_dim);
    if (!c->page) { /* in views: one page, head by head */
        const int64_t k[] = {0, c->dim * c->step, c->keys * c->dim * c->step, c->step};
        const int64_t v[] = {0, c->value_dim * c->step, c->keys * c->value_dim * c->step, c->step};
        memcpy(args.k.stride, k, sizeof k);
        memcpy(args.v.stride, v, sizeof v);
    }
    args.q_pos = positions_of(p->q_at);
    args.k_pos = positions_of(p->k_at);
    args.causal = c->causal;
    args.window = c->window;
    args.out = gyre_dense(p->out, GYRE_DTYPE_F32, 1, c->queries, p->heads, c->value_dim);
    args.lse = gyre_dense(p->out_lse, GYRE_DTYPE_F32, 1, c->queries, p->heads, 1);
    return args;
}

static gyre_attention_inputs inputs_of(const attention_setup *setup) {
    attention_structs structs;
    gyre_attention_inputs inputs;
    assert_ok(gyre_attention_inputs_read(&inputs, attention_setup_args(setup, &structs), NULL));
    return inputs;
}

/* The way that the tests of this file are about is the one that is taken. */
static void assert_served(const attention_setup *setup, const gyre_key_source *source) {
    const gyre_attention_inputs inputs = inputs_of(setup), *args = &inputs;
    gyre_attention_plan plan;
    gyre_segments segments;
    gyre_segment segment;
    gyre_segments_begin(&segments, args, source, 0);
    assert_int_equal(gyre_segments_next(&segments, &segment), 1);
    assert_ok(gyre_attention_plan_make(&plan, &segment, 0, NULL));
    assert_int_equal(gyre_decode_supported(&plan), 1);
    assert_true(gyre_decode_bytes(&plan) > 0);
}

/* out = 1 if the call is computed without splits. */
static int is_straight(const attention_setup *setup) {
    const gyre_attention_inputs inputs = inputs_of(setup);
    gyre_attention_plan plan;
    gyre_segments segments;
    gyre_segment segment;
    gyre_segments_begin(&segments, &inputs, NULL, 0);
    assert_int_equal(gyre_segments_next(&segments, &segment), 1);
    assert_ok(gyre_attention_plan_make(&plan, &segment, 0, NULL));
    return gyre_decode_is_straight(&plan);
}

static void run_args(const decode_problem *p, const attention_setup *setup, const gyre_exec *exec) {
    const gyre_key_source pages = source_of(p), *source = p->c.page ? &pages : NULL;
    const gyre_attention_inputs inputs = inputs_of(setup), *args = &inputs;
    const gyre_attention_request request = {.name = "test", .args = args, .source = source};
    gyre_attention_run run;
    assert_ok(gyre_attention_check(&request, NULL));
    size_t bytes = 0;
    run.request = &request;
    assert_ok(gyre_attention_steps.plan(&run, exec, &bytes));
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_true(bytes > 0 && scratch);
    memset(scratch, 0xFF, bytes); /* what is not written is a NaN */
    gyre_attention_steps.run(&run, scratch, exec);
    free(scratch);
}

static void run(const decode_problem *p, const gyre_exec *exec) {
    const attention_setup args = args_of(p);
    const gyre_key_source pages = source_of(p);
    assert_served(&args, p->c.page ? &pages : NULL);
    run_args(p, &args, exec);
}

/* Arithmetic is of floats, whatever the elements are.  Only with Q8 some tiers round queries and weights to 16 bits. */
static int rounds_to_16_bits(const decode_case *c) {
    return c->k == GYRE_DTYPE_Q8 || c->v == GYRE_DTYPE_Q8;
}

/* out = root mean square of the error divided by that of the expected output. */
static double error_of(const decode_problem *p) {
    double off = 0, size = 0;
    for (int64_t i = 0; i < p->rows * p->c.value_dim; i++) {
        off += pow((double)p->out[i] - p->want[i], 2);
        size += p->want[i] * p->want[i];
    }
    for (int64_t r = 0; r < p->rows; r++)
        if (isinf(p->lse[r]))
            assert_true(p->out_lse[r] == -INFINITY);
        else
            test_close((long double)p->out_lse[r], (long double)p->lse[r],
                       (rounds_to_16_bits(&p->c) ? 2e-5L : 3e-6L) * (1 + fabsl((long double)p->lse[r])), "lse");
    return size > 0 ? sqrt(off / size) : off;
}

/* -- tests -- */

#define F32 GYRE_DTYPE_F32
#define F16 GYRE_DTYPE_F16
#define B16 GYRE_DTYPE_BF16
#define Q8  GYRE_DTYPE_Q8
static const decode_case cases[] = {
    /* scheme, q, k, v, queries, keys, group, key heads, dim, value dim, page, step, turned, shift, causal, window */
    {SCHEME_none, F32, F32, F32, 1, 300, 4, 2, 128, 128, 0, 1, 0, 0, 1, 0},
    {SCHEME_none, F32, F16, F16, 1, 2500, 4, 2, 128, 128, 0, 1, 0, 0, 1, 0},
    {SCHEME_none, F32, B16, B16, 2, 2500, 4, 1, 128, 64, 16, 1, 0, 0, 1, 0},
    {SCHEME_none, F32, Q8, Q8, 1, 1300, 8, 2, 128, 128, 64, 1, 0, 0, 1, 0},
    {SCHEME_none, F16, F16, F32, 3, 129, 1, 3, 16, 24, 0, 2, 0, 0, 1, 0},
    {SCHEME_none, B16, Q8, F16, 8, 500, 3, 2, 24, 16, 7, 1, 0, 0, 2, 0},
    {SCHEME_none, F32, F32, Q8, 1, 77, 1, 1, 40, 40, 5, 1, 0, 0, 0, 0},
    {SCHEME_yarn, F32, F32, F32, 1, 1100, 4, 2, 128, 128, 0, 1, 0, 0, 1, 0},
    {SCHEME_yarn, F32, F16, F16, 5, 260, 3, 1, 80, 80, 32, 1, 0, 0, 1, 0},
    {SCHEME_yarn, F16, Q8, Q8, 2, 400, 8, 1, 64, 64, 48, 1, 0, 0, 1, 0},
    {SCHEME_yarn, F32, B16, F16, 1, 333, 2, 2, 256, 256, 0, 3, 0, 0, 1, 0},
    {SCHEME_yarn, F32, F32, F32, 1, 700, 4, 2, 128, 128, 50, 1, 1, 0, 1, 0},
    {SCHEME_yarn, F32, F32, F32, 2, 700, 4, 2, 64, 64, 40, 1, 1, 1237, 0, 0},
    {SCHEME_yarn, F32, F16, B16, 4, 1500, 1, 2, 40, 128, 16, 1, 1, -29, 0, 0},
    {SCHEME_yarn, B16, Q8, Q8, 1, 1025, 4, 1, 128, 128, 1, 1, 1, 100000, 0, 0},
    {SCHEME_yarn, F32, F16, F16, 1, 3000, 4, 1, 64, 64, 128, 1, 1, 5, 1, 200},
    {SCHEME_alibi, F32, F16, F16, 1, 2300, 4, 2, 64, 64, 0, 1, 0, 0, 1, 0},
    {SCHEME_alibi, F32, F32, F32, 8, 600, 3, 2, 80, 80, 33, 1, 0, 0, 1, 90},
    {SCHEME_alibi, F32, Q8, Q8, 3, 500, 1, 4, 48, 48, 64, 1, 0, 0, 2, 60},
    {SCHEME_t5, F32, F32, F32, 1, 1200, 4, 2, 64, 64, 0, 1, 0, 0, 1, 0},
    {SCHEME_t5, F32, F16, Q8, 6, 333, 2, 2, 64, 72, 20, 1, 0, 0, 1, 0},
    {SCHEME_kerple, F32, B16, B16, 2, 1400, 3, 2, 64, 64, 0, 1, 0, 0, 1, 0},
    {SCHEME_kerple, F32, F32, F32, 1, 90, 1, 2, 128, 128, 9, 1, 0, 0, 0, 15},
    {SCHEME_tapa, F32, F32, F32, 1, 1300, 4, 2, 128, 128, 0, 1, 0, 0, 1, 0},
    {SCHEME_tapa, F32, F16, F16, 8, 500, 3, 2, 40, 24, 33, 1, 0, 0, 0, 0},
    {SCHEME_tapa, B16, B16, F32, 2, 300, 1, 3, 22, 16, 0, 2, 0, 0, 1, 90},
    {SCHEME_tapa, F32, Q8, Q8, 1, 600, 4, 1, 64, 64, 16, 1, 0, 0, 1, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

static void agrees_with_definition(void **state) {
    static const char *const names[] = {[F32] = "f32", [F16] = "f16", [B16] = "bf16", [Q8] = "q8"};
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        decode_problem *p = make_problem(&cases[i], 60 + i);
        define(p);
        run(p, NULL);
        const double error = error_of(p);
        print_message("case %zu, keys %s, values %s: %.1e relative rms\n", i, names[p->c.k], names[p->c.v], error);
        /* A phase multiplies what rounding a query leaves. */
        const int steep = (p->scheme.oracle->traits & SCHEME_STEEP) != 0;
        assert_true(error <= (!rounds_to_16_bits(&cases[i]) ? 2e-6 : steep ? 5e-4 : 1e-4));
        free_problem(p);
    }
}

/* By whatever way a scheme has for few queries. */
static void every_scheme_agrees_with_definition(void **state) {
    (void)state;
    for (int scheme = 0; scheme < SCHEMES; scheme++)
        for (int i = 0; i < 3; i++) {
            decode_case c = {scheme, F32, i ? F16 : F32, F32, 1 + 2 * i, 700, 4, 2, 64, 64, 0, 1, 0, 0, 1, i == 1 ? 150 : 0};
            if (!test_scheme_attends(scheme, GYRE_CAUSAL_BY_POSITION)) continue;
            c.page = i == 2 ? 48 : 0;
            decode_problem *p = make_problem(&c, 40);
            const attention_setup args = args_of(p);
            define(p);
            run_args(p, &args, NULL);
            const double error = error_of(p);
            const double bound = p->scheme.oracle->traits & SCHEME_STEEP ? 2e-5 : 2e-6;
            if (!(error <= bound)) fail_msg("%s, case %d: %.1e relative rms", test_schemes[scheme].name, i, error);
            free_problem(p);
        }
}

/* first_page: 0 = views. */
static void check_threads_and_pages(gyre_dtype dtype, int64_t first_page) {
    decode_case c = {SCHEME_alibi, F32, dtype, dtype, 2, 5000, 4, 2, 64, 64, first_page, 1, 0, 0, 1, 0};
    gyre_pool *pool = NULL;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    decode_problem *one = make_problem(&c, 90);
    run(one, NULL);
    for (int64_t page = first_page; page <= 100; page += 25) {
        c.page = page;
        decode_problem *other = make_problem(&c, 90);
        run(other, page % 2 ? NULL : &exec);
        assert_memory_equal(one->out, other->out, (size_t)(one->rows * c.value_dim) * sizeof *one->out);
        assert_memory_equal(one->out_lse, other->out_lse, (size_t)one->rows * sizeof *one->out_lse);
        free_problem(other);
    }
    free_problem(one);
    gyre_pool_free(pool);
}

/* Neither threads nor pages change a bit. */
static void same_for_any_threads_and_pages(void **state) {
    (void)state;
    check_threads_and_pages(F16, 0);
    check_threads_and_pages(Q8, 25);
}

/* A query alone has the same bits as among others, and a head alone as in its group. */
static void same_for_any_rows(void **state) {
    (void)state;
    const decode_case c = {SCHEME_yarn, F32, B16, F16, 7, 1500, 3, 2, 80, 72, 0, 1, 0, 0, 1, 0};
    decode_problem *p = make_problem(&c, 91);
    run(p, NULL);
    float out[72];
    for (int64_t query = 0; query < c.queries; query++)
        for (int64_t head = 0; head < p->heads; head++) {
            attention_setup args = args_of(p);
            args.q = gyre_cdense((float *)p->q + (query * p->heads + head) * c.dim, F32, 1, 1, 1, c.dim);
            args.k.shape[2] = args.v.shape[2] = 1;
            args.k.data = (uint16_t *)p->k + head / c.group * c.keys * c.dim;
            args.v.data = (uint16_t *)p->v + head / c.group * c.keys * c.value_dim;
            args.q_pos = positions_of(p->q_at + query);
            args.out = gyre_dense(out, F32, 1, 1, 1, c.value_dim);
            args.lse.data = NULL;
            gyre_config config = *gyre_encoding_get_config(p->encoding);
            config.heads = 1;
            gyre_encoding *alone = test_encoding(&config);
            args.encoding = alone;
            assert_served(&args, NULL);
            run_args(p, &args, NULL);
            assert_memory_equal(out, p->out + (query * p->heads + head) * c.value_dim, sizeof out);
            gyre_encoding_free(alone);
        }
    free_problem(p);
}

/* A value with weight 0 may be anything. One with a weight shows in the output. */
static void nonfinite_values_do_not_spread(void **state) {
    (void)state;
    const decode_case c = {SCHEME_none, F32, F32, F32, 2, 1200, 2, 1, 32, 32, 0, 1, 0, 0, 1, 300};
    decode_problem *p = make_problem(&c, 92);
    float *v = p->v, *k = p->k;
    define(p);
    v[5 * c.value_dim] = INFINITY;  /* before the window */
    v[898 * c.value_dim + 3] = NAN; /* just before it: among keys that are looked at */
    k[20 * c.dim + 1] = NAN;
    k[890 * c.dim + 1] = NAN;
    run(p, NULL);
    assert_true(error_of(p) <= 2e-6);
    v[1100 * c.value_dim + 7] = INFINITY;
    run(p, NULL);
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t i = 0; i < c.value_dim; i++)
            assert_true(i == 7 ? p->out[r * c.value_dim + i] == INFINITY
                               : fabs((double)p->out[r * c.value_dim + i] - p->want[r * c.value_dim + i]) < 1e-5);
    free_problem(p);
}

/* Rows without a visible key, among other rows: zeros, and minus infinity. */
static void rows_without_visible_keys(void **state) {
    (void)state;
    const decode_case c = {SCHEME_alibi, F32, F16, F16, 4, 200, 2, 2, 32, 32, 0, 1, 0, 0, 1, 0};
    decode_problem *p = make_problem(&c, 93);
    p->q_at[1] = -5;
    p->q_at[2] = -1;
    define(p);
    run(p, NULL);
    assert_true(error_of(p) <= 2e-6);
    for (int64_t i = p->heads * c.value_dim; i < 3 * p->heads * c.value_dim; i++)
        assert_true(p->out[i] == 0);
    free_problem(p);
}

/* Biases far beyond the precision of floats: relative to the nearest visible key, differences of 1 remain. */
static void large_biases_keep_their_differences(void **state) {
    (void)state;
    const decode_case c = {SCHEME_alibi, F32, F32, F32, 1, 1500, 2, 1, 32, 32, 0, 1, 0, 0, 1, 0};
    decode_problem *p = make_problem(&c, 94);
    p->q_at[0] = 2000000000;
    define(p);
    run(p, NULL);
    double off = 0;
    for (int64_t i = 0; i < p->rows * c.value_dim; i++)
        off = fmax(off, fabs((double)p->out[i] - p->want[i]));
    assert_true(off < 1e-5);
    free_problem(p);
}

/* What decode.c does not know how to do goes another way. */
static void other_calls_use_tiles(void **state) {
    (void)state;
    const decode_case c = {SCHEME_none, F32, F32, F32, 9, 50, 1, 1, 32, 32, 0, 1, 0, 0, 1, 0};
    decode_problem *p = make_problem(&c, 95);
    attention_setup args = args_of(p);
    gyre_attention_plan plan;
    gyre_segments segments;
    gyre_segment segment;
    for (int way = 0; way < 3; way++) {
        args.q.shape[1] = args.out.shape[1] = args.lse.shape[1] = way == 0 ? 9 : 8;
        args.dropout = way == 2 ? 0.5 : 0;
        const gyre_attention_inputs inputs = inputs_of(&args);
        gyre_segments_begin(&segments, &inputs, NULL, 0);
        assert_int_equal(gyre_segments_next(&segments, &segment), 1);
        assert_ok(gyre_attention_plan_make(&plan, &segment, 0, NULL));
        assert_int_equal(gyre_decode_supported(&plan), way == 1);
    }
    free_problem(p);
}

/* A weight that is 0 once all keys are known hides an infinite value, though it is not 0 among the keys of its part; by the
 * way for few queries and, where dropout asks for it (of a chance that drops nothing), by tiles. */
static void parts_mask_like_the_whole(void **state) {
    (void)state;
    enum { DIM = 16, KEYS = 2048 };
    static float k[KEYS * DIM], v[KEYS * DIM];
    static _Alignas(64) unsigned char scratch[1 << 20];
    float q[DIM] = {1}, out[DIM];
    for (int j = 0; j < KEYS; j++)
        k[j * DIM] = -1000;
    k[5 * DIM] = -100; /* e^-80 in its part, e^-100 in all: less than a float that counts */
    k[6 * DIM] = -20;
    k[1500 * DIM] = 0;
    v[5 * DIM] = INFINITY;
    v[1500 * DIM] = 3;
    for (int tiles = 0; tiles < 2; tiles++) {
        attention_setup args = GYRE_INIT(attention_setup);
        args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, 1, 1, DIM);
        args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, KEYS, 1, DIM);
        args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, KEYS, 1, DIM);
        args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, 1, DIM);
        args.scale = 1;
        args.dropout = tiles ? 1e-12 : 0;
        assert_in_range(attention_scratch(&args, 0, NULL), 1, sizeof scratch);
        assert_ok(run_attention(&args, (gyre_scratch){scratch, sizeof scratch}, NULL, NULL));
        assert_true(fabsf(out[0] - 3) < 1e-5f);
    }
}

/* Adjacent heads are read together, others one by one: the same bits. */
static void heads_in_any_layout(void **state) {
    (void)state;
    enum { KEYS = 1300, HEADS = 5, DIM = 24, MOST = KEYS * HEADS * DIM };
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    test_random r = {11};
    double *numbers = room(2 * MOST, sizeof *numbers);
    for (int64_t i = 0; i < 2 * MOST; i++)
        numbers[i] = test_uniform(&r);
    for (int c = 0; c < 12; c++) {
        const gyre_dtype type = types[c % 3];
        const int64_t group = c < 6 ? 1 : 3, queries = c % 2 ? 1 : 2, size = (int64_t)gyre_dtype_size(type);
        float *q = room(queries * HEADS * group * DIM, sizeof *q), *out[2];
        void *together = room(2 * MOST, (size_t)size), *apart = room(2 * MOST, (size_t)size);
        for (int64_t i = 0; i < queries * HEADS * group * DIM; i++)
            q[i] = (float)(3 * test_uniform(&r));
        for (int64_t i = 0; i < 2 * MOST; i++) {
            const int64_t table = i / MOST, token = i % MOST / (HEADS * DIM), head = i % MOST / DIM % HEADS;
            test_put(together, type, i, numbers[i]);
            test_put(apart, type, table * MOST + (head * KEYS + token) * DIM + i % DIM, numbers[i]);
        }
        for (int way = 0; way < 2; way++) {
            attention_setup args = GYRE_INIT(attention_setup);
            char *memory = way ? apart : together;
            args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, queries, HEADS * group, DIM);
            args.k = gyre_cdense(memory, type, 1, KEYS, HEADS, DIM);
            args.v = gyre_cdense(memory + MOST * size, type, 1, KEYS, HEADS, DIM);
            if (way) {
                args.k.stride[1] = args.v.stride[1] = DIM;
                args.k.stride[2] = args.v.stride[2] = (int64_t)KEYS * DIM;
            }
            args.causal = GYRE_CAUSAL_BY_POSITION;
            args.window = 1000; /* begins inside a piece */
            args.q_pos.base = KEYS - queries;
            out[way] = room(queries * HEADS * group * DIM, sizeof(float));
            args.out = gyre_dense(out[way], GYRE_DTYPE_F32, 1, queries, HEADS * group, DIM);
            const size_t bytes = attention_scratch(&args, 0, NULL);
            void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
            assert_int_equal(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL), GYRE_OK);
            free(scratch);
        }
        assert_memory_equal(out[0], out[1], (size_t)(queries * HEADS * group * DIM) * sizeof(float));
        assert_true(fabsf(out[0][0]) > 0);
        free(out[0]), free(out[1]), free(q), free(together), free(apart);
    }
    free(numbers);
}

/* A call with few keys goes straight.  One that also wants the weights does not, and gives the same bits. */
static void straight_calls_have_the_bits_of_splits(void **state) {
    (void)state;
    enum { MOST_KEYS = 300, MOST = 2 * MOST_KEYS * 3 * 80 };
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    static const int64_t dims[] = {8, 16, 22, 64, 80};
    static const int schemes[] = {SCHEME_none, SCHEME_rope, SCHEME_yarn};
    test_random r = {4711};
    float *numbers = room(3 * MOST, sizeof *numbers), *weights = room(2 * 9 * MOST_KEYS, sizeof *weights);
    char *typed = room(2 * MOST, sizeof(float));
    for (int64_t i = 0; i < 3 * MOST; i++)
        numbers[i] = (float)(2 * test_uniform(&r));
    int straight = 0;
    for (int c = 0; c < 240; c++) {
        const gyre_dtype type = types[c % 3];
        const int64_t dim = dims[c / 3 % 5], batch = 1 + c % 2, heads = 1 + c / 2 % 3, group = 1 + c / 7 % 3;
        const int64_t keys = 1 + (int64_t)(fabs(test_uniform(&r)) * (c % 4 ? 40 : MOST_KEYS - 1)),
                      queries = batch * heads * group;
        const gyre_config config = test_scheme_config(schemes[c % 11 % 3], heads * group, dim, MOST_KEYS);
        gyre_encoding *encoding = test_encoding(&config);
        for (int64_t i = 0; i < 2 * MOST; i++)
            test_put(typed, type, i, (double)numbers[MOST + i]);
        float out[2][2 * 9 * 80], lse[2][2 * 9];
        for (int way = 0; way < 2; way++) {
            attention_setup args = GYRE_INIT(attention_setup);
            args.encoding = encoding;
            args.q = gyre_cdense(numbers, GYRE_DTYPE_F32, batch, 1, heads * group, dim);
            args.k = gyre_cdense(typed, type, batch, keys, heads, dim);
            args.v = gyre_cdense(typed + MOST * gyre_dtype_size(type), type, batch, keys, heads, dim);
            args.causal = c % 5 ? GYRE_CAUSAL_BY_POSITION : GYRE_CAUSAL_BY_ORDER;
            args.window = c % 9 == 0 ? MOST_KEYS : 0;
            args.q_pos.base = c % 5 ? 100000 + keys - 1 : keys - 1;
            args.k_pos.base = c % 5 ? 100000 : 0;
            args.out = gyre_dense(out[way], GYRE_DTYPE_F32, batch, 1, heads * group, dim);
            args.lse = gyre_dense(lse[way], GYRE_DTYPE_F32, batch, 1, heads * group, 1);
            if (way) args.weights = gyre_dense(weights, GYRE_DTYPE_F32, batch, 1, heads * group, keys);
            straight += !way && is_straight(&args);
            assert_false(way && is_straight(&args));
            const size_t bytes = attention_scratch(&args, 0, NULL);
            void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
            memset(scratch, 0xFF, bytes);
            assert_ok(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL));
            free(scratch);
        }
        assert_memory_equal(out[0], out[1], (size_t)(queries * dim) * sizeof(float));
        assert_memory_equal(lse[0], lse[1], (size_t)queries * sizeof(float));
        gyre_encoding_free(encoding);
    }
    assert_in_range(straight, 150, 240);
    free(numbers), free(weights), free(typed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_mask_like_the_whole),
        cmocka_unit_test(agrees_with_definition),
        cmocka_unit_test(every_scheme_agrees_with_definition),
        cmocka_unit_test(same_for_any_threads_and_pages),
        cmocka_unit_test(same_for_any_rows),
        cmocka_unit_test(nonfinite_values_do_not_spread),
        cmocka_unit_test(rows_without_visible_keys),
        cmocka_unit_test(large_biases_keep_their_differences),
        cmocka_unit_test(other_calls_use_tiles),
        cmocka_unit_test(heads_in_any_layout),
        cmocka_unit_test(straight_calls_have_the_bits_of_splits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
