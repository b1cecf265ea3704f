/* test_attention_error.c: the accuracy of attention: the root mean square of its errors divided by that of the outputs,
 * against the definition in double with sums in long double. Frequencies, slopes and roundings are computed here; no code is
 * shared with the library. */
#include "attention_memory.h"
#include "attention_setup.h"
#include "gyre/gyre_cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- cases -- */
typedef struct problem_case {
    const char *name;
    gyre_kind kind; /* NOPE, ROPE or ALIBI */
    int64_t queries, keys, heads, key_heads, dim;
    int64_t last; /* position of the last token */
    float sharp;  /* standard deviation of the scores, approximately */
    double cap;   /* softcap; 0 = none */
} problem_case;

/* All causal, the queries the last of the keys' tokens. */
static const problem_case cases[] = {
    {"prefill", GYRE_KIND_NOPE, 2048, 2048, 4, 2, 128, 2047, 1, 0},
    {"prefill, sharp", GYRE_KIND_NOPE, 1024, 1024, 4, 2, 128, 1023, 4, 0},
    {"prefill", GYRE_KIND_NOPE, 300, 300, 4, 4, 16, 299, 2, 0},
    {"prefill", GYRE_KIND_NOPE, 300, 300, 4, 2, 40, 299, 2, 0},
    {"prefill", GYRE_KIND_NOPE, 300, 300, 4, 1, 64, 299, 2, 0},
    {"prefill", GYRE_KIND_NOPE, 300, 300, 2, 1, 200, 299, 2, 0},
    {"prefill", GYRE_KIND_NOPE, 300, 300, 2, 1, 256, 299, 2, 0},
    {"prefill after a prefix", GYRE_KIND_NOPE, 64, 1500, 4, 2, 128, 1499, 2, 0},
    {"prefill after a long prefix", GYRE_KIND_NOPE, 20, 32768, 2, 1, 128, 32767, 1, 0},
    {"prefill", GYRE_KIND_ROPE, 2048, 2048, 4, 2, 128, 2047, 1, 0},
    {"prefill around 2^20", GYRE_KIND_ROPE, 2048, 2048, 4, 2, 128, (1 << 20) + 1000, 2, 0},
    {"prefill around 2^20", GYRE_KIND_ROPE, 400, 400, 2, 1, 64, (1 << 20) + 200, 4, 0},
    {"prefill", GYRE_KIND_ALIBI, 2048, 2048, 8, 2, 128, 2047, 1, 0},
    {"prefill around 2^20", GYRE_KIND_ALIBI, 400, 400, 8, 8, 32, (1 << 20) + 200, 2, 0},
    {"decode", GYRE_KIND_NOPE, 1, 32768, 4, 1, 128, 32767, 1, 0},
    {"decode, sharp", GYRE_KIND_NOPE, 1, 4096, 4, 1, 128, 4095, 4, 0},
    {"decode", GYRE_KIND_NOPE, 1, 4096, 2, 2, 16, 4095, 2, 0},
    {"decode", GYRE_KIND_NOPE, 1, 4096, 4, 1, 64, 4095, 2, 0},
    {"decode", GYRE_KIND_NOPE, 1, 4096, 2, 2, 256, 4095, 2, 0},
    {"decode, 8 queries", GYRE_KIND_NOPE, 8, 4096, 4, 1, 128, 4095, 2, 0},
    {"decode", GYRE_KIND_ROPE, 1, 32768, 4, 1, 128, 32767, 1, 0},
    {"decode around 2^20", GYRE_KIND_ROPE, 1, 4096, 4, 2, 128, (1 << 20) + 2000, 2, 0},
    {"decode around 2^20, 3 queries", GYRE_KIND_ROPE, 3, 4096, 4, 2, 64, (1 << 20) + 2000, 2, 0},
    {"decode", GYRE_KIND_ALIBI, 1, 32768, 8, 2, 128, 32767, 1, 0},
    {"prefill, softcap 30", GYRE_KIND_NOPE, 512, 512, 4, 2, 128, 511, 4, 30},
    {"prefill, softcap 50", GYRE_KIND_NOPE, 512, 512, 4, 2, 128, 511, 4, 50},
    {"prefill, sharp under softcap 30", GYRE_KIND_NOPE, 512, 512, 4, 2, 128, 511, 20, 30},
    {"prefill, sharp under softcap 50", GYRE_KIND_NOPE, 512, 512, 4, 2, 128, 511, 20, 50},
    {"decode, softcap 30", GYRE_KIND_NOPE, 1, 4096, 4, 1, 128, 4095, 4, 30},
    {"decode, softcap 50", GYRE_KIND_NOPE, 1, 4096, 4, 1, 128, 4095, 4, 50},
};
enum { CASES = sizeof cases / sizeof *cases };

/* -- the problem -- */
typedef struct types {
    gyre_dtype q, kv, out;
} types;
static const char *type_name(gyre_dtype dtype) {
    return dtype == GYRE_DTYPE_F32 ? "f32" : dtype == GYRE_DTYPE_F16 ? "f16" : dtype == GYRE_DTYPE_BF16 ? "bf16" : "q8";
}

typedef struct problem {
    const problem_case *c;
    types types;
    size_t size[3];        /* of q, k and v */
    void *x[3];            /* what the library reads ... */
    double *x64[3];        /* ... and the definition, with the same values */
    double *cosine, *sine; /* [token][pair] */
    void *out;
    float *lse;
} problem;

/* Scores of q . k / sqrt(dim) with both uniform deviate by a third of what q's largest is. */
static problem make_problem(const problem_case *c, types t) {
    problem p = {.c = c, .types = t};
    test_random random = {17};
    p.size[0] = (size_t)(c->queries * c->heads * c->dim);
    p.size[1] = p.size[2] = (size_t)(c->keys * c->key_heads * c->dim);
    for (int i = 0; i < 3; i++) {
        p.x[i] = room(p.size[i], sizeof(float));
        p.x64[i] = room(p.size[i], sizeof(double));
        for (size_t e = 0; e < p.size[i]; e++) {
            test_put(p.x[i], i ? t.kv : t.q, e, (i ? 1 : 3 * (double)c->sharp) * test_uniform(&random));
            p.x64[i][e] = test_get(p.x[i], i ? t.kv : t.q, e);
        }
    }
    p.out = room(p.size[0], sizeof(float));
    p.lse = room((size_t)(c->queries * c->heads), sizeof(float));
    return p;
}
static void free_problem(problem *p) {
    for (int i = 0; i < 3; i++) {
        free(p->x[i]);
        free(p->x64[i]);
    }
    free(p->out);
    free(p->lse);
    free(p->cosine);
    free(p->sine);
}

static gyre_config problem_config(const problem_case *c) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = c->kind;
    config.head_dim = c->dim;
    config.heads = c->heads;
    config.rope.table_positions = GYRE_NO_TABLE;
    return config;
}

static attention_setup problem_args(const problem *p, const gyre_encoding *encoding) {
    const problem_case *c = p->c;
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = encoding;
    args.q = gyre_cdense(p->x[0], p->types.q, 1, c->queries, c->heads, c->dim);
    args.k = gyre_cdense(p->x[1], p->types.kv, 1, c->keys, c->key_heads, c->dim);
    args.v = gyre_cdense(p->x[2], p->types.kv, 1, c->keys, c->key_heads, c->dim);
    args.out = gyre_dense(p->out, p->types.out, 1, c->queries, c->heads, c->dim);
    args.lse = gyre_dense(p->lse, GYRE_DTYPE_F32, 1, c->queries, c->heads, 1);
    args.q_pos.base = c->last - c->queries + 1;
    args.k_pos.base = c->last - c->keys + 1;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.softcap = c->cap;
    return args;
}

static void run_problem(const problem *p) {
    const gyre_config config = problem_config(p->c);
    gyre_encoding *encoding = test_encoding(&config);
    const attention_setup args = problem_args(p, encoding);
    const size_t bytes = attention_scratch(&args, 0, NULL);
    void *scratch = scratch_for(bytes);
    assert_ok(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL));
    free(scratch);
    gyre_encoding_free(encoding);
}

/* -- the definition -- */
/* In double: off by about 2^-33 around position 2^20, a thousandth of the measured error. */
static void find_angles(problem *p) {
    const int64_t pairs = p->c->dim / 2, first = p->c->last - p->c->keys + 1;
    p->cosine = room((size_t)(p->c->keys * pairs), sizeof(double));
    p->sine = room((size_t)(p->c->keys * pairs), sizeof(double));
    for (int64_t i = 0; i < pairs; i++) {
        const double step = pow(10000, -2 * (double)i / (double)p->c->dim);
        for (int64_t t = 0; t < p->c->keys; t++) {
            p->cosine[t * pairs + i] = cos((double)(first + t) * step);
            p->sine[t * pairs + i] = sin((double)(first + t) * step);
        }
    }
}

/* Rows [token][head] in place; token 0 of them is `offset` tokens past the first key. */
static void rotate_rows(const problem *p, double *x, int64_t tokens, int64_t heads, int64_t offset) {
    const int64_t dim = p->c->dim, pairs = dim / 2;
    for (int64_t row = 0; row < tokens * heads; row++)
        for (int64_t i = 0; i < pairs; i++) {
            const int64_t angle = (offset + row / heads) * pairs + i;
            double *a = x + row * dim + i, *b = a + pairs;
            const double c = p->cosine[angle], s = p->sine[angle], before = *a;
            *a = before * c - *b * s;
            *b = before * s + *b * c;
        }
}

/* The paper's, for powers of two. */
static double slope(int64_t head, int64_t heads) {
    return exp2(-8 * (double)(head + 1) / (double)heads);
}

/* In double, off by less than a millionth of a float. The sum has four independent parts, for speed. */
static double product(const double *a, const double *b, int64_t n) {
    double part[4] = {0};
    for (int64_t e = 0; e < n; e++)
        part[e % 4] += a[e] * b[e];
    return part[0] + part[1] + (part[2] + part[3]);
}

/* Query i of head h; score has room for all keys.  out = the log-sum-exp. */
static double define_row(const problem *p, int64_t i, int64_t h, double *restrict score, double *restrict out) {
    const problem_case *c = p->c;
    const int64_t dim = c->dim, visible = c->keys - c->queries + i + 1, kh = h / (c->heads / c->key_heads);
    const double *q = p->x64[0] + (i * c->heads + h) * dim, scale = sqrt((double)dim);
    double top = -(double)INFINITY, sum = 0;
    for (int64_t j = 0; j < visible; j++) {
        score[j] = product(q, p->x64[1] + (j * c->key_heads + kh) * dim, dim) / scale;
        if (c->cap > 0) score[j] = (double)c->cap * tanh(score[j] / (double)c->cap);
        if (c->kind == GYRE_KIND_ALIBI) score[j] -= slope(h, c->heads) * (double)(visible - 1 - j);
        top = fmax(top, score[j]);
    }
    for (int64_t e = 0; e < dim; e++)
        out[e] = 0;
    for (int64_t j = 0; j < visible; j++) {
        const double *v = p->x64[2] + (j * c->key_heads + kh) * dim;
        const double weight = exp(score[j] - top);
        sum += weight;
        for (int64_t e = 0; e < dim; e++)
            out[e] += weight * v[e];
    }
    for (int64_t e = 0; e < dim; e++)
        out[e] /= sum;
    return top + log(sum);
}

/* -- errors -- */
/* Of many queries, some: both ends of all tiles come up. */
static int is_checked(const problem_case *c, int64_t i) {
    return c->queries <= 64 || i % 67 == 0 || i % 64 == 63 || i >= c->queries - 2;
}

typedef struct errors {
    double rms; /* over that of the outputs */
    double lse; /* the largest, over 1 + |lse| */
} errors;

static errors find_errors(const problem *p) {
    const problem_case *c = p->c;
    double *score = room((size_t)c->keys, sizeof *score);
    double of = 0, over = 0;
    errors e = {0, 0};
    double want[256];
    for (int64_t row = 0; row < c->queries * c->heads; row++) {
        if (!is_checked(c, row / c->heads)) continue;
        const double lse = define_row(p, row / c->heads, row % c->heads, score, want);
        e.lse = fmax(e.lse, fabs((double)p->lse[row] - lse) / (1 + fabs(lse)));
        for (int64_t j = 0; j < c->dim; j++) {
            const double off = test_get(p->out, p->types.out, (size_t)(row * c->dim + j)) - want[j];
            of += off * off;
            over += want[j] * want[j];
        }
    }
    free(score);
    e.rms = sqrt(of / over);
    return e;
}

static void check_error(const problem *p, double bound) {
    static const char *const kinds[] = {
        [GYRE_KIND_NOPE] = "no positions", [GYRE_KIND_ROPE] = "rope", [GYRE_KIND_ALIBI] = "alibi"};
    const problem_case *c = p->c;
    const errors e = find_errors(p);
    char name[160];
    snprintf(name, sizeof name, "%s, %s, %lld keys, dim %lld, q %s, k and v %s, out %s", c->name, kinds[c->kind],
             (long long)c->keys, (long long)c->dim, type_name(p->types.q), type_name(p->types.kv), type_name(p->types.out));
    print_message("%-85s %.2e of %.1e; lse %.2e\n", name, e.rms, bound, e.lse);
    if (!(e.rms <= bound)) fail_msg("%s: %.3e is above %.1e", name, e.rms, bound);
    if (!(e.lse <= 1e-6)) fail_msg("%s: log-sum-exp off by %.3e", name, e.lse);
}

/* Some 30 times half a unit in the last place of a float. */
static const double bound_f32 = 2e-6;

static problem prepare(const problem_case *c, types t) {
    problem p = make_problem(c, t);
    run_problem(&p);
    if (c->kind == GYRE_KIND_ROPE) {
        find_angles(&p);
        rotate_rows(&p, p.x64[0], c->queries, c->heads, c->keys - c->queries);
        rotate_rows(&p, p.x64[1], c->keys, c->key_heads, 0);
    }
    return p;
}

static void floats(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        problem p = prepare(&cases[i], (types){GYRE_DTYPE_F32, GYRE_DTYPE_F32, GYRE_DTYPE_F32});
        check_error(&p, bound_f32);
        free_problem(&p);
    }
}

/* -- types of 16 bits -- */
/* Values that a type holds exactly have the errors of floats. Only the rounding of the output adds to them, by 0.43 units on
 * average, one unit being 2^-11 or 2^-8. */
static double rounding_bound(gyre_dtype dtype) {
    return dtype == GYRE_DTYPE_F32 ? bound_f32 : dtype == GYRE_DTYPE_F16 ? 2.5e-4 : 2e-3;
}

/* Rounded once: the same as the float output of the call, rounded. */
static void check_rounded_once(const problem *p, const problem *wide) {
    uint16_t want;
    for (size_t i = 0; i < p->size[0]; i++) {
        test_put(&want, p->types.out, 0, (double)((float *)wide->out)[i]);
        assert_true(want == ((uint16_t *)p->out)[i]);
    }
}

static void small_types(void **state) {
    (void)state;
    static const problem_case some[] = {
        {"prefill", GYRE_KIND_NOPE, 400, 400, 4, 2, 128, 399, 1, 0},
        {"prefill around 2^20", GYRE_KIND_ROPE, 300, 300, 2, 1, 64, (1 << 20) + 100, 2, 0},
        {"prefill", GYRE_KIND_ALIBI, 300, 300, 8, 2, 40, 299, 1, 0},
        {"decode", GYRE_KIND_NOPE, 1, 8192, 2, 1, 128, 8191, 1, 0},
        {"decode, 5 queries", GYRE_KIND_NOPE, 5, 2100, 2, 1, 128, 2099, 2, 0},
        {"decode around 2^20", GYRE_KIND_ROPE, 1, 2100, 4, 1, 128, (1 << 20) + 1000, 2, 0},
        {"decode", GYRE_KIND_ALIBI, 1, 2100, 4, 2, 256, 2099, 1, 0},
    };
    static const types all[] = {{GYRE_DTYPE_F16, GYRE_DTYPE_F16, GYRE_DTYPE_F16},
                                {GYRE_DTYPE_BF16, GYRE_DTYPE_BF16, GYRE_DTYPE_BF16},
                                {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_F32},
                                {GYRE_DTYPE_F32, GYRE_DTYPE_BF16, GYRE_DTYPE_F32},
                                {GYRE_DTYPE_BF16, GYRE_DTYPE_F32, GYRE_DTYPE_F16}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        for (size_t t = 0; t < sizeof all / sizeof *all; t++) {
            problem p = prepare(&some[i], all[t]);
            check_error(&p, rounding_bound(all[t].out));
            if (all[t].out != GYRE_DTYPE_F32) {
                problem wide = make_problem(&some[i], (types){all[t].q, all[t].kv, GYRE_DTYPE_F32});
                run_problem(&wide);
                check_rounded_once(&p, &wide);
                free_problem(&wide);
            }
            free_problem(&p);
        }
}

/* -- from a cache -- */
typedef struct cached {
    gyre_dtype dtype;
    gyre_cache_keys keys;
    double bound;
} cached;

/* The last query against a cache that was given all keys, 100 tokens at a time. */
static void run_cached(const problem *p, const cached *how, int64_t page) {
    const problem_case *c = p->c;
    gyre_config config = problem_config(c);
    gyre_cache_config shape = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache;
    gyre_error err;
    shape.encoding = test_encoding(&config);
    shape.keys = how->keys;
    shape.key_dtype = shape.value_dtype = how->dtype;
    shape.heads = c->key_heads;
    shape.head_dim = c->dim;
    shape.max_tokens = (c->keys + 127) / 128 * 128;
    shape.page_tokens = page;
    if (gyre_cache_create(&cache, &shape, NULL, &err)) fail_msg("%s", err.text);
    for (int64_t first = 0, count = 100; first < c->keys; first += count) {
        if (count > c->keys - first) count = c->keys - first;
        const int64_t at = first * c->key_heads * c->dim;
        const gyre_cview k = gyre_cdense((float *)p->x[1] + at, GYRE_DTYPE_F32, 1, count, c->key_heads, c->dim);
        const gyre_cview v = gyre_cdense((float *)p->x[2] + at, GYRE_DTYPE_F32, 1, count, c->key_heads, c->dim);
        const gyre_positions positions = {NULL, GYRE_DTYPE_I64, c->last - c->keys + 1 + first, 0, 0, 0, 0, 0};
        assert_ok(gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = k, .v = v, .positions = &positions), NULL,
                                    NULL));
    }
    attention_setup args = problem_args(p, shape.encoding);
    const int64_t sequence = 0;
    const size_t bytes = cache_attention_scratch(cache, &sequence, &args, NULL);
    void *scratch = scratch_for(bytes);
    assert_ok(run_cache_attention(cache, &sequence, &args, (gyre_scratch){scratch, bytes}, NULL, NULL));
    free(scratch);
    gyre_cache_free(cache);
    gyre_encoding_free((gyre_encoding *)shape.encoding);
}

/* Keys and values are exact floats, so the error is that of storing them in the cache: none for floats, 0.43 units for a
 * 16-bit type, 0.4% for q8. (A step of q8 is a 127th of the row's largest number. A third of a step is lost on average, and
 * the row's mean square is a third of the square of its largest.) It enters once with the values and once with the scores,
 * whose deviation is 1. */
static void caches(void **state) {
    (void)state;
    static const problem_case some[] = {{"cache", GYRE_KIND_ROPE, 1, 16384, 2, 1, 128, 16383, 1, 0},
                                        {"cache around 2^20", GYRE_KIND_ROPE, 1, 4096, 4, 2, 64, (1 << 20) + 2000, 1, 0},
                                        {"cache, 7 queries", GYRE_KIND_ROPE, 7, 1100, 2, 1, 128, 1099, 1, 0}};
    static const cached all[] = {
        {GYRE_DTYPE_F32, GYRE_CACHE_KEYS_RAW, 2e-6},  {GYRE_DTYPE_F32, GYRE_CACHE_KEYS_ROTATED, 2e-6},
        {GYRE_DTYPE_F16, GYRE_CACHE_KEYS_RAW, 5e-4},  {GYRE_DTYPE_F16, GYRE_CACHE_KEYS_ROTATED, 5e-4},
        {GYRE_DTYPE_BF16, GYRE_CACHE_KEYS_RAW, 4e-3}, {GYRE_DTYPE_BF16, GYRE_CACHE_KEYS_ROTATED, 4e-3},
        {GYRE_DTYPE_Q8, GYRE_CACHE_KEYS_RAW, 8e-3},   {GYRE_DTYPE_Q8, GYRE_CACHE_KEYS_ROTATED, 8e-3}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        problem p = prepare(&some[i], (types){GYRE_DTYPE_F32, GYRE_DTYPE_F32, GYRE_DTYPE_F32});
        for (size_t h = 0; h < sizeof all / sizeof *all; h++) {
            run_cached(&p, &all[h], h % 3 == 0 ? 0 : 64);
            const double rms = find_errors(&p).rms;
            print_message("%s, %lld keys, dim %lld, %s, %s: %.2e of %.1e\n", some[i].name, (long long)some[i].keys,
                          (long long)some[i].dim, type_name(all[h].dtype),
                          all[h].keys == GYRE_CACHE_KEYS_RAW ? "raw" : "rotated", rms, all[h].bound);
            if (!(rms <= all[h].bound)) fail_msg("%.3e is above %.1e", rms, all[h].bound);
        }
        free_problem(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats),
        cmocka_unit_test(small_types),
        cmocka_unit_test(caches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
