/* test_cache.c: what a cache is made from, and what appending keeps. */
#include "gyre/gyre_cache.h"
#include "naive_cache.h"

#include <inttypes.h>

static gyre_cache_config plain(void) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.heads = 2;
    config.head_dim = 16;
    config.max_tokens = 64;
    config.page_tokens = 16;
    return config;
}

/* -- configs -- */

static void refuse(const gyre_cache_config *config, gyre_status status, const char *field) {
    gyre_cache *cache = NULL;
    gyre_error err = {0, ""};
    assert_int_equal(gyre_cache_create(&cache, config, NULL, &err), status);
    assert_null(cache);
    if (!strstr(err.text, field)) fail_msg("\"%s\" does not name %s", err.text, field);
}

static void wrong_configs(void **state) {
    (void)state;
    gyre_cache_config config = plain();
    const struct {
        int64_t *field;
        const char *name;
        int64_t values[3];
    } wrong[] = {{&config.heads, "heads", {0, -1, INT64_MAX}},
                 {&config.head_dim, "head_dim", {0, -8, 65537}},
                 {&config.value_dim, "value_dim", {-1, -8, INT64_MAX}},
                 {&config.sequences, "sequences", {-1, INT64_MIN, INT64_MAX}},
                 {&config.max_tokens, "max_tokens", {0, -1, INT64_MAX}},
                 {&config.page_tokens, "page_tokens", {-1, INT64_MIN, INT64_MAX}},
                 {&config.context_length, "length", {-1, INT64_MIN, -5}}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int j = 0; j < 3; j++) {
            const int64_t right = *wrong[i].field;
            *wrong[i].field = wrong[i].values[j];
            refuse(&config, GYRE_EINVAL, wrong[i].name);
            *wrong[i].field = right;
        }
    config.size = 0;
    refuse(&config, GYRE_EINVAL, "size");
    config = plain();
    config.key_dtype = GYRE_DTYPE_F64;
    refuse(&config, GYRE_EDTYPE, "key_dtype");
    config = plain();
    config.value_dtype = GYRE_DTYPE_I32;
    refuse(&config, GYRE_EDTYPE, "value_dtype");
    config = plain();
    config.value_dtype = GYRE_DTYPE_Q8;
    config.head_dim = 12;
    refuse(&config, GYRE_EINVAL, "head_dim");
    config = plain();
    config.keys = (gyre_cache_keys)3;
    refuse(&config, GYRE_EINVAL, "keys");
    config.keys = (gyre_cache_keys)-1;
    refuse(&config, GYRE_EINVAL, "keys");
    config = plain();
    config.page_tokens = 0;
    config.sequences = 65; /* fewer tokens than sequences */
    refuse(&config, GYRE_EINVAL, "max_tokens");
    config = plain();
    config.max_tokens = INT64_C(1) << 40;
    config.head_dim = 1024;
    config.heads = 65536;
    refuse(&config, GYRE_ENOMEM, "memory");
    gyre_cache *cache = NULL;
    assert_int_equal(gyre_cache_create(NULL, &config, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_create(&cache, NULL, NULL, NULL), GYRE_EINVAL);
    gyre_cache_free(NULL);
}

/* Keys that depend on the query cannot be turned before it is there. */
static void configs_that_cannot_be_cached(void **state) {
    (void)state;
    gyre_config rope = test_rope_config(16, GYRE_LAYOUT_HALF);
    gyre_config changed[5] = {rope, rope, rope, rope, rope};
    changed[0].rope.xpos_base = 512;
    changed[1].rope.far = GYRE_FAR_CLAMPED;
    changed[1].rope.far_window = 8;
    changed[2].length_policy = GYRE_LENGTH_POLICY_CAUSAL;
    changed[3].length_policy = GYRE_LENGTH_POLICY_PREFIX;
    changed[4].rope.far = GYRE_FAR_CHUNKED;
    changed[4].rope.chunk.size = 12;
    changed[4].rope.chunk.local = 4;
    for (int i = 0; i < 5; i++) {
        gyre_encoding *encoding = test_encoding(&changed[i]);
        gyre_cache_config config = plain();
        gyre_cache *cache = NULL;
        config.encoding = encoding;
        config.keys = GYRE_CACHE_KEYS_ROTATED;
        refuse(&config, GYRE_EUNSUPPORTED, "keys");
        config.keys = GYRE_CACHE_KEYS_RAW;
        assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
        gyre_cache_free(cache);
        config.head_dim = 32;
        refuse(&config, GYRE_ESHAPE, "head_dim");
        gyre_encoding_free(encoding);
    }
}

/* A program built with a newer header has a larger struct: fine as long as it sets nothing that this library lacks. */
static void config_of_another_version(void **state) {
    (void)state;
    struct {
        gyre_cache_config config;
        char newer[16];
    } larger = {.config = plain()};
    gyre_cache *cache = NULL;
    larger.config.size = sizeof larger;
    assert_ok(gyre_cache_create(&cache, &larger.config, NULL, NULL));
    assert_int_equal(gyre_cache_get_config(cache)->size, sizeof(gyre_cache_config));
    gyre_cache_free(cache);
    larger.newer[9] = 1;
    refuse(&larger.config, GYRE_EINVAL, "size");
    /* An older one ends before context_length. */
    larger.config.context_length = -1;
    larger.config.size = offsetof(gyre_cache_config, context_length);
    assert_ok(gyre_cache_create(&cache, &larger.config, NULL, NULL));
    assert_int_equal(gyre_cache_get_config(cache)->context_length, 0);
    gyre_cache_free(cache);
}

static void defaults(void **state) {
    (void)state;
    const gyre_cache_config config = plain();
    gyre_cache *cache = NULL;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    const gyre_cache_config *filled = gyre_cache_get_config(cache);
    assert_int_equal(filled->value_dim, 16);
    assert_int_equal(filled->sequences, 1);
    assert_int_equal(gyre_cache_tokens(cache, 0), 0);
    assert_int_equal(gyre_cache_tokens(cache, 1), -1);
    assert_int_equal(gyre_cache_tokens(cache, -1), -1);
    assert_int_equal(gyre_cache_tokens(NULL, 0), -1);
    assert_null(gyre_cache_get_config(NULL));
    const gyre_cache_usage usage = cache_usage(cache);
    assert_int_equal(usage.pages, 5);
    assert_int_equal(usage.free_pages, 5);
    assert_int_equal(usage.used, 0);
    assert_true(usage.bytes >= 5 * 16 * 2 * (16 + 16) * sizeof(float));
    gyre_cache_free(cache);
}

/* One sequence side by side has the one page that it fills, and all of its room after any removals. */
static void a_sequence_alone(void **state) {
    enum { ROOM = 4096, PIECE = 64 };
    static float rows[2 * PIECE * DIM];
    (void)state;
    gyre_cache_config config = plain();
    test_random random = {39};
    gyre_cache *cache = NULL;
    config.page_tokens = 0, config.max_tokens = ROOM;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    assert_true((double)cache_usage(cache).bytes < 1.01 * ROOM * (double)gyre_cache_token_bytes(&config) + 65536);
    assert_int_equal(cache_usage(cache).pages, 1);
    int64_t want[ROOM], tokens = 0, next = 0, got[ROOM];
    for (int round = 0; round < 2000; round++) {
        const int64_t n = 1 + (int64_t)(test_next(&random) % PIECE), left = ROOM - tokens;
        const gyre_cview kv = gyre_cdense(rows, GYRE_DTYPE_F32, 1, n, 2, DIM);
        const gyre_positions at = {.base = next};
        const gyre_status status =
            gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = kv, .v = kv, .positions = &at), NULL, NULL);
        assert_int_equal(status, n <= left ? GYRE_OK : GYRE_ENOMEM);
        for (int64_t i = 0; i < n && !status; i++)
            want[tokens++] = next++;
        if (round % 3 == 0 && tokens > ROOM / 2) { /* a hole anywhere */
            const int64_t first = (int64_t)(test_next(&random) % (uint64_t)(tokens - PIECE)), end = first + PIECE;
            assert_ok(gyre_cache_remove(cache, (gyre_cache_range){0, first, PIECE}, NULL));
            memmove(want + first, want + end, (size_t)(tokens - end) * sizeof *want);
            tokens -= PIECE;
        }
    }
    assert_int_equal(gyre_cache_tokens(cache, 0), tokens);
    assert_ok(gyre_cache_positions(cache, (gyre_cache_range){0, 0, tokens}, 0, got, NULL));
    assert_memory_equal(got, want, (size_t)tokens * sizeof *got);
    assert_true(tokens > ROOM - 4 * PIECE);
    gyre_cache_free(cache);
}

/* -- memory that runs out -- */

/* All memory is taken at creation, or none is. */
static void failing_allocations(void **state) {
    (void)state;
    const cache_case c = {GYRE_CACHE_KEYS_RAW, GYRE_DTYPE_Q8, GYRE_DTYPE_F16, 2, 64, 16, 1, GYRE_LAYOUT_HALF, 0};
    gyre_encoding *encoding = case_encoding(&c);
    const gyre_cache_config config = case_config(&c, encoding);
    for (int n = 0;; n++) {
        test_budget b = {.left = n};
        const gyre_alloc alloc = test_budget_alloc(&b);
        gyre_cache *cache = NULL;
        gyre_error err = {0, ""};
        const gyre_status status = gyre_cache_create(&cache, &config, &alloc, &err);
        if (status != GYRE_OK) {
            assert_int_equal(status, GYRE_ENOMEM);
            assert_non_null(strstr(err.text, "memory"));
            assert_null(cache);
            assert_int_equal(b.live, 0);
            continue;
        }
        model_sequence *s = calloc(2, sizeof *s);
        test_random random = {1};
        const int live = b.live;
        assert_int_equal(cache_usage(cache).bytes, b.bytes);
        assert_ok(model_append(cache, &c, s, 0, 40, 0, 1, &random));
        assert_ok(gyre_cache_fork(cache, 0, 1, NULL));
        assert_ok(gyre_cache_slide(cache, 0, 2, 20, NULL, NULL));
        assert_int_equal(b.live, live);
        free(s);
        gyre_cache_free(cache);
        assert_int_equal(b.live, 0);
        break;
    }
    gyre_encoding_free(encoding);
}

/* -- appending -- */

static void wrong_appends(void **state) {
    (void)state;
    const cache_case c = {GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_Q8, GYRE_DTYPE_Q8, 1, 64, 16, 1, GYRE_LAYOUT_HALF, 0};
    gyre_encoding *encoding = case_encoding(&c);
    gyre_cache *cache = case_cache(&c, encoding);
    float k[3 * HEADS * DIM] = {1}, v[3 * HEADS * VALUES] = {1};
    const gyre_cview keys = gyre_cdense(k, GYRE_DTYPE_F32, 1, 3, HEADS, DIM),
                     values = gyre_cdense(v, GYRE_DTYPE_F32, 1, 3, HEADS, VALUES);
    const gyre_positions positions = {0};
    gyre_cview wrong;
    for (int i = 0; i < 4; i++) {
        wrong = keys;
        wrong.shape[i]++;
        assert_int_equal(
            gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = wrong, .v = values, .positions = &positions),
                              NULL, NULL),
            GYRE_ESHAPE);
        wrong = values;
        wrong.shape[i]--;
        assert_int_equal(gyre_cache_append(cache,
                                           GYRE_ARGS(gyre_cache_append_args, .k = keys, .v = wrong, .positions = &positions),
                                           NULL, NULL),
                         GYRE_ESHAPE);
    }
    wrong = keys;
    wrong.dtype = GYRE_DTYPE_F64;
    assert_int_equal(gyre_cache_append(cache,
                                       GYRE_ARGS(gyre_cache_append_args, .k = wrong, .v = values, .positions = &positions),
                                       NULL, NULL),
                     GYRE_EDTYPE);
    wrong.dtype = GYRE_DTYPE_Q8;
    assert_int_equal(gyre_cache_append(cache,
                                       GYRE_ARGS(gyre_cache_append_args, .k = keys, .v = wrong, .positions = &positions),
                                       NULL, NULL),
                     GYRE_EDTYPE);
    wrong = keys;
    wrong.data = NULL;
    assert_int_equal(gyre_cache_append(cache,
                                       GYRE_ARGS(gyre_cache_append_args, .k = wrong, .v = values, .positions = &positions),
                                       NULL, NULL),
                     GYRE_EINVAL);
    assert_int_equal(
        gyre_cache_append(cache,
                          GYRE_ARGS(gyre_cache_append_args, .sequence = 1, .k = keys, .v = values, .positions = &positions),
                          NULL, NULL),
        GYRE_EINVAL);
    wrong = values;
    wrong.data = NULL;
    assert_int_equal(gyre_cache_append(cache,
                                       GYRE_ARGS(gyre_cache_append_args, .k = keys, .v = wrong, .positions = &positions),
                                       NULL, NULL),
                     GYRE_EINVAL);
    assert_int_equal(/* v forgotten */
                     gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = keys, .positions = &positions), NULL,
                                       NULL),
                     GYRE_EINVAL);
    assert_int_equal(gyre_cache_append(cache, NULL, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = keys, .v = values), NULL, NULL),
                     GYRE_EINVAL);
    assert_int_equal(gyre_cache_append(NULL,
                                       GYRE_ARGS(gyre_cache_append_args, .k = keys, .v = values, .positions = &positions),
                                       NULL, NULL),
                     GYRE_EINVAL);
    gyre_positions far = {.base = (INT64_C(1) << 31) - 1};
    assert_int_equal(
        gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = keys, .v = values, .positions = &far), NULL, NULL),
        GYRE_ERANGE);
    far = (gyre_positions){.context_length = 9000}; /* plain frequencies are those of any length */
    assert_ok(
        gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = keys, .v = values, .positions = &far), NULL, NULL));
    const float nonfinite[3] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 6; i++) { /* whole numbers have neither */
        float *at = i < 3 ? &k[2 * HEADS * DIM + 3] : &v[2 * HEADS * VALUES + 3];
        *at = nonfinite[i % 3];
        assert_int_equal(
            gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = keys, .v = values, .positions = &positions),
                              NULL, NULL),
            GYRE_EINVAL);
        *at = 0;
    }
    assert_int_equal(gyre_cache_tokens(cache, 0), 3);
    wrong = gyre_cdense(NULL, GYRE_DTYPE_F32, 1, 0, HEADS, DIM);
    const gyre_cview nothing = gyre_cdense(NULL, GYRE_DTYPE_F32, 1, 0, HEADS, VALUES);
    assert_ok(gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = wrong, .v = nothing, .positions = &positions),
                                NULL, NULL));
    int64_t at[3];
    assert_int_equal(gyre_cache_positions(cache, (gyre_cache_range){0, 1, 3}, 0, at, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_positions(cache, (gyre_cache_range){0, 0, 3}, 1, at, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_positions(cache, (gyre_cache_range){0, -1, 3}, 0, at, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_positions(cache, (gyre_cache_range){1, 0, 0}, 0, at, NULL), GYRE_EINVAL);
    assert_ok(gyre_cache_positions(cache, (gyre_cache_range){0, 3, 0}, 0, NULL, NULL));
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
}

static const char *row_at(const gyre_cache *cache, int64_t token, int64_t head, gyre_key_run *run) {
    const gyre_key_source source = gyre_cache_source(cache, 0);
    source.run(&source, 0, head, token, run);
    return run->k;
}

/* Keys that are not turned, or stand at position 0, are rounded once: each is the nearest there is. */
static void rounded_once(void **state) {
    (void)state;
    const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    for (int from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++) {
            const cache_case c = {from % 2 ? GYRE_CACHE_KEYS_RAW : GYRE_CACHE_KEYS_ROTATED,
                                  types[to],
                                  types[to],
                                  1,
                                  64,
                                  16,
                                  1,
                                  GYRE_LAYOUT_HALF,
                                  0};
            gyre_encoding *encoding = case_encoding(&c);
            gyre_cache *cache = case_cache(&c, encoding);
            test_random random = {9};
            char k[2 * 2 * HEADS * DIM * 4];
            /* strided: channels two apart, heads before tokens */
            for (size_t i = 0; i < 2 * 2 * HEADS * DIM; i++)
                test_put(k, types[from], i, 100000 * test_uniform(&random));
            const gyre_cview keys = {k, types[from], {1, 2, HEADS, DIM}, {0, 2 * DIM, 4 * DIM, 2}},
                             values = {k, types[from], {1, 2, HEADS, VALUES}, {0, 2 * DIM, 4 * DIM, -1}};
            gyre_cview backwards = values;
            backwards.data = k + (VALUES - 1) * gyre_dtype_size(types[from]);
            const int64_t at[1] = {0};
            const gyre_positions positions = {at, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 1};
            assert_ok(gyre_cache_append(
                cache, GYRE_ARGS(gyre_cache_append_args, .k = keys, .v = backwards, .positions = &positions), NULL, NULL));
            for (int64_t t = 0; t < 2; t++)
                for (int64_t h = 0; h < HEADS; h++) {
                    gyre_key_run run;
                    row_at(cache, t, h, &run);
                    for (int64_t i = 0; i < DIM; i++) {
                        char want[4];
                        test_put(want, types[to], 0, test_get(k, types[from], (size_t)(t * 2 * DIM + h * 4 * DIM + 2 * i)));
                        assert_true(test_get(run.k, types[to], (size_t)i) == test_get(want, types[to], 0));
                    }
                    for (int64_t i = 0; i < VALUES; i++) {
                        char want[4];
                        test_put(want, types[to], 0,
                                 test_get(k, types[from], (size_t)(t * 2 * DIM + h * 4 * DIM + VALUES - 1 - i)));
                        assert_true(test_get(run.v, types[to], (size_t)i) == test_get(want, types[to], 0));
                    }
                }
            gyre_cache_free(cache);
            gyre_encoding_free(encoding);
        }
}

/* At position 0 nothing turns, and an infinite channel makes no other a NaN. */
static void keys_stored_raw(void **state) {
    (void)state;
    const cache_case c = {GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_F16, GYRE_DTYPE_F16, 1, 64, 16, 1, GYRE_LAYOUT_HALF, 0};
    gyre_encoding *encoding = case_encoding(&c);
    gyre_cache *cache = case_cache(&c, encoding);
    float k[HEADS * DIM] = {INFINITY, 1, 2}, v[HEADS * VALUES] = {0};
    const gyre_cview keys = gyre_cdense(k, GYRE_DTYPE_F32, 1, 1, HEADS, DIM),
                     values = gyre_cdense(v, GYRE_DTYPE_F32, 1, 1, HEADS, VALUES);
    const gyre_positions positions = {0};
    gyre_key_run run;
    assert_ok(gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = keys, .v = values, .positions = &positions),
                                NULL, NULL));
    row_at(cache, 0, 0, &run);
    for (size_t i = 0; i < DIM; i++)
        assert_true(test_get(run.k, GYRE_DTYPE_F16, i) == (double)k[i]);
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
}

/* Rows of Q8 by the definition: the scale is the largest magnitude over 127, each number the nearest whole one, even where
 * two are as near; a row of zeros has scale 0. */
static void int8_values(void **state) {
    (void)state;
    const cache_case c = {GYRE_CACHE_KEYS_RAW, GYRE_DTYPE_Q8, GYRE_DTYPE_Q8, 1, 64, 16, 1, GYRE_LAYOUT_HALF, 0};
    gyre_encoding *encoding = case_encoding(&c);
    gyre_cache *cache = case_cache(&c, encoding);
    float k[3 * HEADS * DIM] = {0}, v[3 * HEADS * VALUES] = {0};
    test_random random = {3};
    const float ties[DIM] = {127,    0.5f,   1.5f,   2.5f,  -0.5f, -1.5f, -2.5f, -127,
                             126.5f, 125.5f, 0.499f, -3.5f, 3.5f,  0,     64,    1};
    const int8_t even[DIM] = {127, 0, 2, 2, 0, -2, -2, -127, 126, 126, 0, -4, 4, 0, 64, 1};
    memcpy(k, ties, sizeof ties);
    test_fill(&random, k + DIM, DIM);
    k[2 * DIM] = 0x1p-149f; /* all that is left of its scale is 0 */
    k[3 * DIM] = -0.0f;
    for (int i = 0; i < DIM; i++)
        k[4 * DIM + i] = 3e-38f * (float)(i - 7);
    const gyre_cview keys = gyre_cdense(k, GYRE_DTYPE_F32, 1, 3, HEADS, DIM),
                     values = gyre_cdense(v, GYRE_DTYPE_F32, 1, 3, HEADS, VALUES);
    const gyre_positions positions = {.base = 50};
    assert_ok(gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = keys, .v = values, .positions = &positions),
                                NULL, NULL));
    for (int row = 0; row < 6; row++) {
        gyre_key_run run;
        const float *x = k + row * DIM;
        double most = 0;
        const int8_t *got = (const int8_t *)row_at(cache, row / HEADS, row % HEADS, &run);
        for (int i = 0; i < DIM; i++)
            most = fmax(most, fabs((double)x[i]));
        const float scale = (float)(most / 127);
        assert_true(*run.k_scale == scale);
        for (int i = 0; i < DIM; i++)
            assert_true(scale == 0 ? got[i] == 0 : fabs((double)x[i] / (double)scale - got[i]) <= 0.5 + 1e-6);
        if (row == 0) assert_memory_equal(got, even, sizeof even);
    }
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
}

/* Prefill on threads is prefill on one, to the last bit. */
static void backwards(void *ctx, void (*fn)(void *arg, int64_t i), void *arg, int64_t n) {
    (void)ctx;
    for (int64_t i = n - 1; i >= 0; i--)
        fn(arg, i);
}

static void any_order(void **state) {
    (void)state;
    const cache_case c = {GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8, 1, 256, 24, 1, GYRE_LAYOUT_HALF, 0};
    gyre_encoding *encoding = case_encoding(&c);
    gyre_cache *one = case_cache(&c, encoding), *many = case_cache(&c, encoding);
    static float k[200 * HEADS * DIM], v[200 * HEADS * VALUES];
    test_random random = {8};
    test_fill(&random, k, sizeof k / sizeof *k);
    test_fill(&random, v, sizeof v / sizeof *v);
    const gyre_cview keys = gyre_cdense(k, GYRE_DTYPE_F32, 1, 200, HEADS, DIM),
                     values = gyre_cdense(v, GYRE_DTYPE_F32, 1, 200, HEADS, VALUES);
    const gyre_positions positions = {.base = -70};
    const gyre_exec exec = {backwards, NULL, 3};
    assert_ok(gyre_cache_append(one, GYRE_ARGS(gyre_cache_append_args, .k = keys, .v = values, .positions = &positions),
                                NULL, NULL));
    assert_ok(gyre_cache_append(many, GYRE_ARGS(gyre_cache_append_args, .k = keys, .v = values, .positions = &positions),
                                &exec, NULL));
    for (int64_t t = 0; t < 200; t++)
        for (int64_t h = 0; h < HEADS; h++) {
            gyre_key_run a, b;
            const char *x = row_at(one, t, h, &a), *y = row_at(many, t, h, &b);
            assert_memory_equal(x, y, DIM * 2);
            assert_memory_equal(a.v, b.v, VALUES);
            assert_true(*a.v_scale == *b.v_scale);
        }
    gyre_cache_free(one);
    gyre_cache_free(many);
    gyre_encoding_free(encoding);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_configs),
        cmocka_unit_test(configs_that_cannot_be_cached),
        cmocka_unit_test(defaults),
        cmocka_unit_test(a_sequence_alone),
        cmocka_unit_test(failing_allocations),
        cmocka_unit_test(wrong_appends),
        cmocka_unit_test(rounded_once),
        cmocka_unit_test(keys_stored_raw),
        cmocka_unit_test(int8_values),
        cmocka_unit_test(config_of_another_version),
        cmocka_unit_test(any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
