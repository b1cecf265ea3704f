/* test_last_tokens.c: calls over a cache that leave out what the cache knows: the positions of the last queries, the
 * encoding, and how keys are kept. */
#include "attention_memory.h"
#include "gyre/gyre_adaptive.h"
#include "gyre/gyre_cache.h"
#include "support.h"

#include <string.h>

enum { HEADS = 4, KEY_HEADS = 2, DIM = 16, ROWS = 3, MOST = 120, QUERIES = 5, AXES = 3 };

static float x[MOST * KEY_HEADS * DIM], q[ROWS * QUERIES * HEADS * DIM];
static float wanted[ROWS * QUERIES * HEADS * DIM], out[ROWS * QUERIES * HEADS * DIM];
static const int64_t all[ROWS] = {0, 1, 2};

static gyre_encoding *make_rope(int axes) {
    gyre_config config = test_rope_config(DIM, GYRE_LAYOUT_HALF);
    config.rope.axes = axes;
    if (axes == AXES) config.rope.axis_pairs[0] = 4, config.rope.axis_pairs[1] = config.rope.axis_pairs[2] = 2;
    return test_encoding(&config);
}

static gyre_cache *make_cache(const gyre_encoding *encoding, gyre_cache_keys keys) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache = NULL;
    config.encoding = encoding;
    config.keys = keys;
    config.heads = KEY_HEADS, config.head_dim = DIM;
    config.sequences = ROWS, config.max_tokens = ROWS * MOST, config.page_tokens = 8;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    return cache;
}

/* Appends tokens whose axes go apart: token t stands at first + t, first + 2 t and first + 5. */
static void append(gyre_cache *cache, int64_t sequence, int64_t first, int64_t count) {
    static test_random random = {1};
    int64_t place[MOST][AXES];
    test_fill(&random, x, MOST * KEY_HEADS * DIM);
    for (int64_t t = 0; t < count; t++)
        place[t][0] = first + t, place[t][1] = first + 2 * t, place[t][2] = first + 5;
    const gyre_positions at = {.data = place, .dtype = GYRE_DTYPE_I64, .stride_token = AXES, .stride_axis = 1};
    const gyre_cview k = gyre_cdense(x, GYRE_DTYPE_F32, 1, count, KEY_HEADS, DIM);
    assert_ok(gyre_cache_append(
        cache, GYRE_ARGS(gyre_cache_append_args, .sequence = sequence, .k = k, .v = k, .positions = &at), NULL, NULL));
}

/* Sequences of several lengths: removed from, shifted on one axis, and slid. */
static gyre_cache *filled(const gyre_encoding *encoding, gyre_cache_keys keys) {
    gyre_cache *cache = make_cache(encoding, keys);
    const int64_t shift[GYRE_MAX_AXES] = {-4, 9};
    append(cache, 0, 10, 100);
    append(cache, 1, 0, 37);
    append(cache, 2, 3, 60);
    assert_ok(gyre_cache_remove(cache, (gyre_cache_range){0, 20, 13}, NULL));
    assert_ok(gyre_cache_shift(cache, (gyre_cache_range){1, 30, 7}, shift, NULL));
    assert_ok(gyre_cache_slide(cache, 2, 4, 40, NULL, NULL));
    return cache;
}

static attention_setup setup_of(int64_t queries, float *to) {
    attention_setup s = GYRE_INIT(attention_setup);
    s.q = gyre_cdense(q, GYRE_DTYPE_F32, ROWS, queries, HEADS, DIM);
    s.causal = GYRE_CAUSAL_BY_POSITION;
    s.out = gyre_dense(to, GYRE_DTYPE_F32, ROWS, queries, HEADS, DIM);
    return s;
}

static void attend_cache(const gyre_cache *cache, const attention_setup *s) {
    const size_t bytes = cache_attention_scratch(cache, all, s, NULL);
    void *scratch = scratch_for(bytes);
    gyre_error err = {0, ""};
    if (run_cache_attention(cache, all, s, (gyre_scratch){scratch, bytes}, NULL, &err)) fail_msg("%s", err.text);
    free(scratch);
}

/* place[b][i][axis] = where query i of row b stands: the last tokens before `end`, and before the first token they count
 * down. */
static void last_places(const gyre_cache *cache, const int64_t *ends, int64_t queries, int axes,
                        int64_t place[ROWS][QUERIES][AXES]) {
    int64_t at[MOST];
    for (int64_t b = 0; b < ROWS; b++)
        for (int a = 0; a < axes; a++) {
            const int64_t tokens = gyre_cache_tokens(cache, b), end = ends ? ends[b] : tokens;
            assert_ok(gyre_cache_positions(cache, (gyre_cache_range){b, 0, tokens}, a, at, NULL));
            for (int64_t i = 0; i < queries; i++) {
                const int64_t t = end - queries + i;
                place[b][i][a] = t >= 0 ? at[t] : (tokens > 0 ? at[0] : 0) + t;
            }
        }
}

static void compare(const gyre_cache *cache, attention_setup s, const int64_t *ends, int64_t queries, int axes) {
    static int64_t place[ROWS][QUERIES][AXES];
    last_places(cache, ends, queries, axes, place);
    s.k_end = ends;
    s.q_pos.data = place, s.q_pos.dtype = GYRE_DTYPE_I64;
    s.q_pos.stride_batch = QUERIES * AXES, s.q_pos.stride_token = AXES, s.q_pos.stride_axis = axes > 1;
    s.out.data = wanted;
    attend_cache(cache, &s);
    s.q_pos = (gyre_positions){.context_length = s.q_pos.context_length};
    s.out.data = out;
    memset(out, 0x5A, sizeof out);
    attend_cache(cache, &s);
    assert_memory_equal(out, wanted, (size_t)(ROWS * queries * HEADS * DIM) * sizeof(float));
}

/* Positions that are left out are those of the last tokens: the bits of a call that lists them. */
static void forgotten_positions(void **state) {
    (void)state;
    static const int64_t ends[ROWS] = {80, 1, 33}, few[ROWS] = {2, 0, 40};
    test_random random = {2};
    test_fill(&random, q, sizeof q / sizeof *q);
    for (int axes = 1; axes <= AXES; axes += AXES - 1)
        for (int keys = GYRE_CACHE_KEYS_DEFAULT; keys <= GYRE_CACHE_KEYS_ROTATED; keys++)
            for (int order = GYRE_ORDER_FAST; order <= GYRE_ORDER_FIXED; order++) {
                gyre_encoding *encoding = make_rope(axes);
                gyre_cache *cache = filled(encoding, (gyre_cache_keys)keys);
                for (int64_t queries = 1; queries <= QUERIES; queries += 2) {
                    attention_setup s = setup_of(queries, out);
                    s.order = (gyre_order)order;
                    compare(cache, s, NULL, queries, axes);
                    compare(cache, s, ends, queries, axes);
                    compare(cache, s, few, queries, axes);
                    s.window = 7;
                    compare(cache, s, NULL, queries, axes);
                    s.window = 0, s.causal = GYRE_CAUSAL_BY_ORDER;
                    compare(cache, s, NULL, queries, axes);
                    compare(cache, s, ends, queries, axes);
                    s.q_pos.context_length = 500; /* beside positions that are left out */
                    compare(cache, s, NULL, queries, axes);
                }
                gyre_cache_free(cache);
                gyre_encoding_free(encoding);
            }
}

/* The last query stands beside the last token, so it sees all: not token 0 alone. */
static void a_forgotten_position_is_not_0(void **state) {
    (void)state;
    gyre_cache *cache = make_cache(NULL, GYRE_CACHE_KEYS_DEFAULT);
    float v[MOST * KEY_HEADS * DIM], k[MOST * KEY_HEADS * DIM] = {0}, seen[ROWS * HEADS * DIM];
    for (int64_t t = 0; t < MOST; t++)
        for (int64_t i = 0; i < KEY_HEADS * DIM; i++)
            v[t * KEY_HEADS * DIM + i] = (float)t;
    const int64_t counts[ROWS] = {9, 21, 33};
    for (int64_t b = 0; b < ROWS; b++)
        assert_ok(gyre_cache_append(cache,
                                    GYRE_ARGS(gyre_cache_append_args, .sequence = b,
                                              .k = gyre_cdense(k, GYRE_DTYPE_F32, 1, counts[b], KEY_HEADS, DIM),
                                              .v = gyre_cdense(v, GYRE_DTYPE_F32, 1, counts[b], KEY_HEADS, DIM),
                                              .positions = &(gyre_positions){0}),
                                    NULL, NULL));
    attention_setup s = setup_of(1, seen);
    attend_cache(cache, &s);
    for (int64_t b = 0; b < ROWS; b++)
        for (int64_t i = 0; i < HEADS * DIM; i++)
            test_close((long double)seen[b * HEADS * DIM + i], (counts[b] - 1) / 2.0L, 1e-5L, "mean of all values");
    s.q_pos.base = 2; /* given, so it counts */
    attend_cache(cache, &s);
    for (int64_t i = 0; i < ROWS * HEADS * DIM; i++)
        test_close((long double)seen[i], 1, 1e-6L, "mean of the first three values");
    gyre_cache_free(cache);
}

/* More queries than tokens: those before the first token count down from its position, and see nothing under a causal
 * mask. */
static void queries_before_the_first_token(void **state) {
    (void)state;
    gyre_encoding *encoding = make_rope(1);
    gyre_cache *cache = make_cache(encoding, GYRE_CACHE_KEYS_DEFAULT);
    append(cache, 0, 50, 2);
    append(cache, 1, 7, 4);
    for (int order = GYRE_ORDER_FAST; order <= GYRE_ORDER_FIXED; order++) { /* sequence 2 is empty */
        attention_setup s = setup_of(QUERIES, out);
        s.order = (gyre_order)order;
        compare(cache, s, NULL, QUERIES, 1);
        for (int64_t i = 0; i < 3 * HEADS * DIM; i++)
            assert_true(out[i] == 0);
        for (int64_t i = 2 * QUERIES * HEADS * DIM; i < ROWS * QUERIES * HEADS * DIM; i++)
            assert_true(out[i] == 0);
        s.causal = GYRE_CAUSAL_NONE;
        compare(cache, s, NULL, QUERIES, 1);
    }
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
}

/* Scratch for some queries, rows and tokens serves calls with fewer, whether positions are left out or not. */
static void scratch_is_for_the_most(void **state) {
    (void)state;
    gyre_encoding *encoding = make_rope(AXES);
    gyre_cache *cache = filled(encoding, GYRE_CACHE_KEYS_DEFAULT);
    attention_setup s = setup_of(QUERIES, out);
    const size_t bytes = cache_attention_scratch(cache, NULL, &s, NULL);
    unsigned char *scratch = scratch_for(bytes + 64);
    for (int64_t queries = QUERIES; queries > 0; queries--)
        for (int64_t rows = ROWS; rows > 0; rows--)
            for (int given = 0; given < 2; given++) {
                s = setup_of(queries, out);
                s.q.shape[0] = s.out.shape[0] = rows;
                s.q_pos.base = given ? 60 : 0;
                memset(scratch + bytes, 0xAB, 64);
                assert_ok(run_cache_attention(cache, all, &s, (gyre_scratch){scratch, bytes}, NULL, NULL));
                for (int i = 0; i < 64; i++)
                    assert_int_equal(scratch[bytes + (size_t)i], 0xAB);
            }
    free(scratch);
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
}

/* -- the encoding -- */

static void other_encodings_are_refused(void **state) {
    (void)state;
    static _Alignas(64) char memory[1 << 20];
    const gyre_scratch scratch = {memory, sizeof memory};
    gyre_encoding *own = make_rope(1), *other = make_rope(1);
    gyre_cache *cache = filled(own, GYRE_CACHE_KEYS_DEFAULT), *without = filled(NULL, GYRE_CACHE_KEYS_DEFAULT);
    gyre_error err = {0, ""};
    size_t bytes = 7;
    attention_structs structs;
    attention_setup s = setup_of(1, out);
    attend_cache(cache, &s);
    s.encoding = own;
    attend_cache(cache, &s);
    s.encoding = other; /* though it is the same in all */
    memset(out, 0x5A, sizeof out);
    memcpy(wanted, out, sizeof out);
    const gyre_cache *const caches[] = {cache, without};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_cache_attention(caches[i], all, &s, scratch, NULL, &err), GYRE_EINVAL);
        assert_string_equal(err.text, "encoding: is not that of the cache; leave it NULL, or see gyre_cache_set_encoding "
                                      "(gyre_cache_attention)");
        assert_int_equal(
            gyre_cache_attention_scratch(caches[i], all, attention_setup_args(&s, &structs), NULL, &bytes, &err),
            GYRE_EINVAL);
        assert_non_null(strstr(err.text, "encoding: is not that of the cache"));
        assert_int_equal(bytes, 7);
    }
    assert_memory_equal(out, wanted, sizeof out);
    gyre_cache_free(cache);
    gyre_cache_free(without);
    gyre_encoding_free(own);
    gyre_encoding_free(other);
}

static void other_encodings_of_adaptive_calls(void **state) {
    (void)state;
    static _Alignas(64) char memory[1 << 20];
    gyre_encoding *own = NULL, *other = NULL;
    gyre_error err = {0, ""};
    size_t bytes = 0;
    float weights[2 * HEADS * HEADS] = {0};
    assert_ok(gyre_alibi_create(&own, HEADS, NULL));
    assert_ok(gyre_alibi_create(&other, HEADS, NULL));
    gyre_cache *cache = filled(own, GYRE_CACHE_KEYS_DEFAULT);
    gyre_adaptive_args args = GYRE_INIT(gyre_adaptive_args);
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, ROWS, 1, HEADS, DIM);
    args.network.hidden_weights = gyre_cdense(weights, GYRE_DTYPE_F32, 1, 1, HEADS, 2 * HEADS);
    args.network.output_weights = gyre_cdense(weights, GYRE_DTYPE_F32, 1, 1, HEADS, HEADS);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, ROWS, 1, HEADS, DIM);
    const gyre_scratch scratch = {memory, sizeof memory};
    args.encoding = other;
    assert_int_equal(gyre_cache_adaptive_attention(cache, all, &args, scratch, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "encoding: is not that of the cache"));
    assert_int_equal(gyre_cache_adaptive_scratch(cache, all, &args, NULL, &bytes, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "encoding: is not that of the cache"));
    args.encoding = own;
    assert_ok(gyre_cache_adaptive_scratch(cache, all, &args, NULL, &bytes, &err));
    assert_true(bytes > 0 && bytes <= sizeof memory);
    assert_ok(gyre_cache_adaptive_attention(cache, all, &args, scratch, NULL, &err));
    memcpy(wanted, out, sizeof out);
    args.encoding = NULL;
    assert_ok(gyre_cache_adaptive_attention(cache, all, &args, scratch, NULL, &err));
    assert_memory_equal(out, wanted, sizeof out);
    gyre_cache_free(cache);
    gyre_encoding_free(own);
    gyre_encoding_free(other);
}

/* -- how keys are kept -- */

static gyre_cache_keys kept_by(const gyre_config *config, gyre_cache_keys asked, gyre_status want) {
    gyre_encoding *encoding = test_encoding(config);
    gyre_cache_config c = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache = NULL;
    c.encoding = encoding, c.keys = asked;
    c.heads = KEY_HEADS, c.head_dim = DIM, c.max_tokens = MOST;
    assert_int_equal(gyre_cache_create(&cache, &c, NULL, NULL), want);
    const gyre_cache_keys kept = cache ? gyre_cache_get_config(cache)->keys : GYRE_CACHE_KEYS_DEFAULT;
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
    return kept;
}

/* Rotated wherever ROTATED is allowed, raw elsewhere. */
static void keys_by_default(void **state) {
    (void)state;
    static const double list[DIM / 2] = {1, 1, 1, 1, 2, 2, 2, 2};
    const gyre_config plain = test_rope_config(DIM, GYRE_LAYOUT_HALF);
    gyre_config config[8];
    for (int i = 0; i < 8; i++)
        config[i] = plain, config[i].trained_length = 64;
    config[1].rope.scaling = GYRE_SCALING_YARN, config[1].rope.factor = 4;
    config[2].kind = GYRE_KIND_ALIBI, config[2].heads = HEADS;
    /* raw from here on */
    config[3].rope.xpos_base = 512;
    config[4].rope.far = GYRE_FAR_CLAMPED, config[4].rope.far_window = 8;
    config[5].rope.scaling = GYRE_SCALING_DYNAMIC_NTK, config[5].rope.factor = 2;
    config[6] = config[5];
    config[5].length_policy = GYRE_LENGTH_POLICY_CAUSAL;
    config[6].length_policy = GYRE_LENGTH_POLICY_PREFIX;
    config[7].rope.scaling = GYRE_SCALING_LONGROPE, config[7].rope.factor = 2;
    config[7].rope.short_factor = config[7].rope.long_factor = list;
    config[7].rope.longrope.start_tokens = 4;
    for (int i = 0; i < 8; i++) {
        const int rotated = i < 3;
        const gyre_cache_keys want = rotated ? GYRE_CACHE_KEYS_ROTATED : GYRE_CACHE_KEYS_RAW;
        assert_int_equal(kept_by(&config[i], GYRE_CACHE_KEYS_DEFAULT, GYRE_OK), want);
        assert_int_equal(kept_by(&config[i], GYRE_CACHE_KEYS_RAW, GYRE_OK), GYRE_CACHE_KEYS_RAW);
        kept_by(&config[i], GYRE_CACHE_KEYS_ROTATED, rotated ? GYRE_OK : GYRE_EUNSUPPORTED);
    }
    assert_true(GYRE_CACHE_KEYS_RAW != 0);
    /* A token takes as many bytes, and the bits are those of a cache that asked. */
    gyre_encoding *encoding = make_rope(1);
    gyre_cache *asked = make_cache(encoding, GYRE_CACHE_KEYS_ROTATED), *by_default = make_cache(encoding, 0);
    for (int64_t t = 0; t < MOST * KEY_HEADS * DIM; t++)
        x[t] = (float)(t % 13) - 6;
    const gyre_cview k = gyre_cdense(x, GYRE_DTYPE_F32, 1, 30, KEY_HEADS, DIM);
    for (int64_t b = 0; b < ROWS; b++)
        for (int i = 0; i < 2; i++)
            assert_ok(gyre_cache_append(i ? asked : by_default,
                                        GYRE_ARGS(gyre_cache_append_args, .sequence = b, .k = k, .v = k,
                                                  .positions = &(gyre_positions){.base = 3 * b}),
                                        NULL, NULL));
    attention_setup s = setup_of(1, out);
    attend_cache(asked, &s);
    memcpy(wanted, out, sizeof out);
    attend_cache(by_default, &s);
    assert_memory_equal(out, wanted, sizeof out);
    gyre_cache_free(asked);
    gyre_cache_free(by_default);
    gyre_encoding_free(encoding);
}

/* With padding behind the queries the last one that is none stands beside the last key. */
static void padded_queries(void **state) {
    (void)state;
    enum { REAL = 2 };
    static const int64_t q_end[ROWS] = {REAL, REAL, REAL};
    gyre_encoding *rope = make_rope(1);
    gyre_cache *cache = filled(rope, GYRE_CACHE_KEYS_ROTATED);
    test_random random = {8};
    test_fill(&random, q, ROWS * QUERIES * HEADS * DIM);
    attention_setup s = setup_of(QUERIES, out);
    s.causal = GYRE_CAUSAL_BY_ORDER;
    s.q_end = q_end;
    attend_cache(cache, &s);
    s = setup_of(REAL, wanted);
    s.causal = GYRE_CAUSAL_BY_ORDER;
    for (int b = 0; b < ROWS; b++) /* the same queries without the padding */
        memmove(q + b * REAL * HEADS * DIM, q + b * QUERIES * HEADS * DIM, REAL * HEADS * DIM * sizeof *q);
    attend_cache(cache, &s);
    for (int b = 0; b < ROWS; b++)
        assert_memory_equal(out + b * QUERIES * HEADS * DIM, wanted + b * REAL * HEADS * DIM,
                            REAL * HEADS * DIM * sizeof *out);
    gyre_cache_free(cache);
    gyre_encoding_free(rope);
}

/* A row without a token has no position, and needs none, also where positions begin at 0. */
static void an_empty_row(void **state) {
    (void)state;
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_BERT;
    config.head_dim = DIM, config.heads = HEADS;
    config.score.max_positions = 64;
    gyre_encoding *bert = test_encoding(&config);
    gyre_cache *cache = make_cache(bert, GYRE_CACHE_KEYS_DEFAULT);
    static float rows[127 * DIM];
    gyre_tables tables = {.query = gyre_cdense(rows, GYRE_DTYPE_F32, 1, 1, 127, DIM)};
    const gyre_cview k = gyre_cdense(x, GYRE_DTYPE_F32, 1, 20, KEY_HEADS, DIM);
    const gyre_positions from_zero = {.base = 0};
    assert_ok(
        gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = k, .v = k, .positions = &from_zero), NULL, NULL));
    attention_setup s = setup_of(1, out);
    s.tables = &tables;
    attend_cache(cache, &s);
    for (int i = HEADS * DIM; i < ROWS * HEADS * DIM; i++)
        assert_true(out[i] == 0);
    gyre_cache_free(cache);
    gyre_encoding_free(bert);
}

/* Each row is checked, not the longest alone: a token of a shorter row is past the trained length, and its queries come
 * before the lowest position there is. */
static void positions_of_every_row(void **state) {
    (void)state;
    static const int64_t first[2][ROWS] = {{0, 0, 60}, {0, 5, -((int64_t)1 << 31)}},
                         count[2][ROWS] = {{40, 8, 5}, {9, 8, 1}};
    static const float weights[HEADS * HEADS];
    gyre_config ntk = test_rope_config(DIM, GYRE_LAYOUT_HALF), alibi = GYRE_INIT(gyre_config);
    ntk.trained_length = 64;
    ntk.rope.scaling = GYRE_SCALING_DYNAMIC_NTK, ntk.rope.factor = 2;
    alibi.kind = GYRE_KIND_ALIBI, alibi.heads = HEADS;
    gyre_encoding *encodings[2] = {test_encoding(&ntk), test_encoding(&alibi)};
    gyre_cache *caches[2];
    gyre_error err = {0, ""};
    for (int i = 0; i < 2; i++) {
        caches[i] = make_cache(encodings[i], GYRE_CACHE_KEYS_RAW);
        for (int b = 0; b < ROWS; b++) {
            const gyre_cview k = gyre_cdense(x, GYRE_DTYPE_F32, 1, count[i][b], KEY_HEADS, DIM);
            const gyre_positions at = {.base = first[i][b]};
            assert_ok(gyre_cache_append(
                caches[i], GYRE_ARGS(gyre_cache_append_args, .sequence = b, .k = k, .v = k, .positions = &at), NULL, NULL));
        }
    }
    attention_setup s = setup_of(1, out);
    size_t bytes = cache_attention_scratch(caches[0], all, &s, NULL);
    void *scratch = scratch_for(bytes);
    assert_int_equal(run_cache_attention(caches[0], all, &s, (gyre_scratch){scratch, bytes}, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "q_pos: 64 of token 0 is past the trained length, 64"));
    s.q_pos.context_length = 128;
    assert_ok(run_cache_attention(caches[0], all, &s, (gyre_scratch){scratch, bytes}, NULL, NULL));
    free(scratch);
    gyre_adaptive_args args = GYRE_INIT(gyre_adaptive_args);
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, ROWS, QUERIES, HEADS, DIM);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, ROWS, QUERIES, HEADS, DIM);
    args.form = GYRE_ADAPTIVE_FORM_ADD_RESIDUAL;
    args.network.hidden_weights = args.network.output_weights = gyre_cdense(weights, GYRE_DTYPE_F32, 1, 1, HEADS, HEADS);
    assert_ok(gyre_cache_adaptive_scratch(caches[1], all, &args, NULL, &bytes, NULL));
    scratch = scratch_for(bytes);
    assert_int_equal(gyre_cache_adaptive_attention(caches[1], all, &args, (gyre_scratch){scratch, bytes}, NULL, &err),
                     GYRE_ERANGE);
    assert_non_null(strstr(err.text, "q_pos: -2147483652 of token 0 is past 2^31"));
    free(scratch);
    for (int i = 0; i < 2; i++) {
        gyre_cache_free(caches[i]);
        gyre_encoding_free(encodings[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forgotten_positions),
        cmocka_unit_test(a_forgotten_position_is_not_0),
        cmocka_unit_test(queries_before_the_first_token),
        cmocka_unit_test(scratch_is_for_the_most),
        cmocka_unit_test(other_encodings_are_refused),
        cmocka_unit_test(other_encodings_of_adaptive_calls),
        cmocka_unit_test(keys_by_default),
        cmocka_unit_test(padded_queries),
        cmocka_unit_test(an_empty_row),
        cmocka_unit_test(positions_of_every_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
