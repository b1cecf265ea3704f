/* test_head_dims.c: heads whose number of channels is no multiple of two, with a rotated part that is: rotation, attention,
 * its gradient and the cache, against the definition in double. */
#include "attention_memory.h"
#include "attention_setup.h"
#include "gyre/gyre_cache.h"
#include "naive_head.h"

enum { MOST_DIM = 81, KEYS = 150, MOST_QUERIES = 70, HEADS = 4, KEY_HEADS = 2, GROUP = HEADS / KEY_HEADS };

typedef struct head {
    int64_t dim, rotated, first;
} head;
static const head heads[] = {{81, 64, 0}, {81, 64, 17}, {81, 48, 5}, {15, 8, 0}, {5, 2, 1}, {33, 32, 0}};
enum { COUNT = sizeof heads / sizeof *heads };

static gyre_encoding *encoding_of(const head *h, gyre_layout layout) {
    gyre_config config = test_rope_config(h->dim, layout);
    config.rope.dim = h->rotated;
    config.rope.first_channel = h->first;
    config.rope.attention_factor = 1.25; /* so that adjoint and inverse differ */
    return test_encoding(&config);
}

static void turn(const gyre_encoding *encoding, double *x, double position) {
    const gyre_config *config = gyre_encoding_get_config(encoding);
    double inv_freq[MOST_DIM], factor;
    assert_ok(gyre_encoding_frequencies(encoding, 0, inv_freq, &factor));
    naive_rotate_head(x + config->rope.first_channel, config->rope.dim / 2, config->rope.layout, inv_freq, position, factor);
}

/* -- rotation -- */

static void check_rotation(const head *h, gyre_layout layout, gyre_dtype dtype, int in_place) {
    enum { TOKENS = 9 };
    const size_t n = (size_t)(2 * TOKENS * 3 * h->dim);
    gyre_encoding *encoding = encoding_of(h, layout);
    test_random random = {5};
    void *x = room(n, gyre_dtype_size(dtype)), *y = room(n, gyre_dtype_size(dtype)), *z = room(n, gyre_dtype_size(dtype));
    for (size_t i = 0; i < n; i++)
        test_put(x, dtype, i, test_uniform(&random));
    if (in_place) memcpy(y, x, n * gyre_dtype_size(dtype));
    const gyre_positions positions = {.base = 100};
    const gyre_cview in = gyre_cdense(in_place ? y : x, dtype, 2, TOKENS, 3, h->dim);
    const gyre_view out = gyre_dense(y, dtype, 2, TOKENS, 3, h->dim), back = gyre_dense(z, dtype, 2, TOKENS, 3, h->dim);
    const gyre_cview rotated = gyre_const(out);
    assert_ok(gyre_rotate(encoding,
                          GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &positions, .in = in, .out = out),
                          NULL, NULL));
    assert_ok(gyre_rotate(encoding,
                          GYRE_ARGS(gyre_rotate_args, .direction = GYRE_DIRECTION_INVERSE, .role = GYRE_ROLE_KEY,
                                    .positions = &positions, .in = rotated, .out = back),
                          NULL, NULL));
    for (size_t row = 0; row < n / (size_t)h->dim; row++) {
        double want[MOST_DIM];
        for (int64_t c = 0; c < h->dim; c++)
            want[c] = test_get(x, dtype, row * (size_t)h->dim + (size_t)c);
        turn(encoding, want, 100 + (double)(row / 3 % TOKENS));
        for (int64_t c = 0; c < h->dim; c++) {
            const size_t i = row * (size_t)h->dim + (size_t)c;
            const long double bound = 1e-6L + 4 * (long double)test_half_ulp(dtype, 2);
            test_close((long double)test_get(y, dtype, i), (long double)want[c], bound, "rotated");
            test_close((long double)test_get(z, dtype, i), (long double)test_get(x, dtype, i), bound, "rotated back");
            if (c < h->first || c >= h->first + h->rotated) /* bit for bit */
                assert_true(test_get(y, dtype, i) == test_get(x, dtype, i));
        }
    }
    free(x);
    free(y);
    free(z);
    gyre_encoding_free(encoding);
}

static void rotates(void **state) {
    (void)state;
    for (int i = 0; i < COUNT; i++)
        for (int d = 0; d < TEST_DTYPES; d++)
            for (int layout = 0; layout < 2; layout++)
                for (int in_place = 0; in_place < 2; in_place++)
                    check_rotation(&heads[i], (gyre_layout)layout, test_dtypes[d], in_place);
}

/* -- attention -- */

typedef struct trial {
    const gyre_encoding *encoding;
    int64_t dim, queries;
    float *q, *k, *v, *dout, *out, *lse;
    double *q64, *k64, *v64; /* q64, k64, v64: as the definition reads them */
} trial;

static float *floats(test_random *random, int64_t n) {
    float *x = room((size_t)n, sizeof *x);
    test_fill(random, x, (size_t)n);
    return x;
}

static double *widened(const float *x, int64_t n) {
    double *out = room((size_t)n, sizeof *out);
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)x[i];
    return out;
}

static trial make(const gyre_encoding *encoding, int64_t queries) {
    const int64_t dim = gyre_encoding_get_config(encoding)->head_dim, q = queries * HEADS * dim, k = KEYS * KEY_HEADS * dim;
    test_random random = {(uint64_t)queries};
    trial t = {.encoding = encoding, .dim = dim, .queries = queries};
    t.q = floats(&random, q), t.k = floats(&random, k), t.v = floats(&random, k), t.dout = floats(&random, q);
    t.out = room((size_t)q, sizeof(float)), t.lse = room((size_t)(queries * HEADS), sizeof(float));
    t.q64 = widened(t.q, q), t.k64 = widened(t.k, k), t.v64 = widened(t.v, k);
    return t;
}

static void release(trial *t) {
    void *all[] = {t->q, t->k, t->v, t->dout, t->out, t->lse, t->q64, t->k64, t->v64};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static attention_setup args_of(const trial *t) {
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = t->encoding;
    args.q = gyre_cdense(t->q, GYRE_DTYPE_F32, 1, t->queries, HEADS, t->dim);
    args.k = gyre_cdense(t->k, GYRE_DTYPE_F32, 1, KEYS, KEY_HEADS, t->dim);
    args.v = gyre_cdense(t->v, GYRE_DTYPE_F32, 1, KEYS, KEY_HEADS, t->dim);
    args.out = gyre_dense(t->out, GYRE_DTYPE_F32, 1, t->queries, HEADS, t->dim);
    args.lse = gyre_dense(t->lse, GYRE_DTYPE_F32, 1, t->queries, HEADS, 1);
    args.q_pos.base = KEYS - t->queries;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.window = 60;
    return args;
}

/* out = row i of head h, by the definition. */
static void define_row(const trial *t, int64_t i, int64_t h, double *out) {
    const int64_t m = KEYS - t->queries + i, first = m - 59 > 0 ? m - 59 : 0, dim = t->dim;
    double score[KEYS], q[MOST_DIM], k[MOST_DIM], sum = 0;
    memcpy(q, t->q64 + (i * HEADS + h) * dim, (size_t)dim * sizeof *q);
    turn(t->encoding, q, (double)m);
    for (int64_t j = first; j <= m; j++) {
        memcpy(k, t->k64 + (j * KEY_HEADS + h / GROUP) * dim, (size_t)dim * sizeof *k);
        turn(t->encoding, k, (double)j);
        score[j] = 0;
        for (int64_t c = 0; c < dim; c++)
            score[j] += q[c] * k[c];
        score[j] = exp(score[j] / sqrt((double)dim));
        sum += score[j];
    }
    for (int64_t c = 0; c < dim; c++) {
        out[c] = 0;
        for (int64_t j = first; j <= m; j++)
            out[c] += score[j] / sum * t->v64[(j * KEY_HEADS + h / GROUP) * dim + c];
    }
}

static double loss(const trial *t) {
    double sum = 0, out[MOST_DIM];
    for (int64_t i = 0; i < t->queries; i++)
        for (int64_t h = 0; h < HEADS; h++) {
            define_row(t, i, h, out);
            for (int64_t c = 0; c < t->dim; c++)
                sum += out[c] * (double)t->dout[(i * HEADS + h) * t->dim + c];
        }
    return sum;
}

static void check_out(const trial *t, const float *got, long double bound) {
    double want[MOST_DIM];
    for (int64_t i = 0; i < t->queries; i++)
        for (int64_t h = 0; h < HEADS; h++) {
            define_row(t, i, h, want);
            for (int64_t c = 0; c < t->dim; c++)
                test_close((long double)got[(i * HEADS + h) * t->dim + c], (long double)want[c], bound, "out");
        }
}

static void attends(void **state) {
    (void)state;
    static const int64_t queries[] = {1, 6, MOST_QUERIES};
    for (int i = 0; i < COUNT; i++)
        for (int layout = 0; layout < 2; layout++)
            for (int n = 0; n < 3; n++) {
                gyre_encoding *encoding = encoding_of(&heads[i], (gyre_layout)layout);
                trial t = make(encoding, queries[n]);
                const attention_setup args = args_of(&t);
                attend(&args, NULL);
                check_out(&t, t.out, 3e-6L);
                release(&t);
                gyre_encoding_free(encoding);
            }
}

/* Central differences of the definition, for some elements of each input. */
static void check_slopes(const trial *t, double *x, const float *dx, int64_t n, const char *what) {
    const double step = 1e-5;
    for (int64_t i = 3; i < n; i += n / 6) {
        const double before = x[i];
        x[i] = before + step;
        const double above = loss(t);
        x[i] = before - step;
        const double below = loss(t);
        x[i] = before;
        test_close((long double)dx[i], (long double)((above - below) / (2 * step)), 2e-5L, what);
    }
}

static void differentiates(void **state) {
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        gyre_encoding *encoding = encoding_of(&heads[i], GYRE_LAYOUT_HALF);
        trial t = make(encoding, 3);
        const int64_t q = t.queries * HEADS * t.dim, k = KEYS * KEY_HEADS * t.dim;
        const attention_setup args = args_of(&t);
        float *dq = room((size_t)q, sizeof *dq), *dk = room((size_t)k, sizeof *dk), *dv = room((size_t)k, sizeof *dv);
        const gyre_cview dout = gyre_cdense(t.dout, GYRE_DTYPE_F32, 1, t.queries, HEADS, t.dim);
        const gyre_view dqkv[3] = {gyre_dense(dq, GYRE_DTYPE_F32, 1, t.queries, HEADS, t.dim),
                                   gyre_dense(dk, GYRE_DTYPE_F32, 1, KEYS, KEY_HEADS, t.dim),
                                   gyre_dense(dv, GYRE_DTYPE_F32, 1, KEYS, KEY_HEADS, t.dim)};
        attend(&args, NULL);
        differentiate(&args, &dout, dqkv, NULL, NULL);
        check_slopes(&t, t.q64, dq, q, "dq");
        check_slopes(&t, t.k64, dk, k, "dk");
        check_slopes(&t, t.v64, dv, k, "dv");
        free(dq);
        free(dk);
        free(dv);
        release(&t);
        gyre_encoding_free(encoding);
    }
}

/* -- the cache -- */

/* Appends all keys 40 positions too early, moves them there, and decodes. */
static void check_cache(const trial *t, gyre_cache_keys kept, gyre_dtype dtype, long double bound) {
    gyre_cache *cache = NULL;
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    const attention_setup args = args_of(t);
    const gyre_positions positions = {.base = -40};
    const int64_t sequence = 0, delta[GYRE_MAX_AXES] = {40};
    config.encoding = t->encoding;
    config.keys = kept;
    config.key_dtype = config.value_dtype = dtype;
    config.heads = KEY_HEADS;
    config.head_dim = config.value_dim = t->dim;
    config.sequences = 1;
    config.max_tokens = KEYS;
    config.page_tokens = 16;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    assert_ok(gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = args.k, .v = args.v, .positions = &positions),
                                NULL, NULL));
    assert_ok(gyre_cache_shift(cache, (gyre_cache_range){0, 0, KEYS}, delta, NULL));
    const size_t bytes = cache_attention_scratch(cache, &sequence, &args, NULL);
    void *scratch = scratch_for(bytes);
    assert_ok(run_cache_attention(cache, &sequence, &args, (gyre_scratch){scratch, bytes}, NULL, NULL));
    check_out(t, t->out, bound);
    free(scratch);
    gyre_cache_free(cache);
}

static void caches(void **state) {
    (void)state;
    static const gyre_dtype dtypes[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    static const long double bounds[] = {3e-6L, 2e-3L, 2e-2L};
    for (int i = 0; i < COUNT; i++)
        for (int d = 0; d < 3; d++)
            for (int64_t queries = 1; queries < 20; queries += 11)
                for (int kept = 0; kept < 2; kept++) {
                    gyre_encoding *encoding = encoding_of(&heads[i], (gyre_layout)(i % 2));
                    trial t = make(encoding, queries);
                    check_cache(&t, (gyre_cache_keys)kept, dtypes[d], bounds[d]);
                    release(&t);
                    gyre_encoding_free(encoding);
                }
}

/* Q8 stores whole blocks of 8 channels. */
static void q8_needs_eights(void **state) {
    (void)state;
    gyre_encoding *encoding = encoding_of(&heads[0], GYRE_LAYOUT_HALF);
    gyre_cache *cache = NULL;
    gyre_error err = {0, ""};
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.encoding = encoding;
    config.key_dtype = config.value_dtype = GYRE_DTYPE_Q8;
    config.heads = config.sequences = 1;
    config.head_dim = 81;
    config.max_tokens = 16;
    assert_int_equal(gyre_cache_create(&cache, &config, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "81"));
    assert_null(cache);
    gyre_encoding_free(encoding);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rotates), cmocka_unit_test(attends),         cmocka_unit_test(differentiates),
        cmocka_unit_test(caches),  cmocka_unit_test(q8_needs_eights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
