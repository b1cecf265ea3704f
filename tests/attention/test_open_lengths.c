/* test_open_lengths.c: scalings that follow the context length in use.  Past the trained length each call has to know one:
 * from the call, from the config or from a policy.  Otherwise it is refused, because such a scaling would be none. */
#include "attention_memory.h"
#include "gyre/gyre_cache.h"
#include "gyre/gyre_fields.h"
#include "support.h"

#include <math.h>
#include <string.h>

enum { L = 32, LONG = 80, DIM = 16, HEADS = 2, ROW = HEADS * DIM, CASES = 8 };

static const double short_list[DIM / 2] = {1, 1, 1, 1, 1.5, 2, 3, 4}, long_list[DIM / 2] = {1, 1, 2, 3, 4, 5, 6, 7};

static gyre_config rope(gyre_scaling scaling) {
    gyre_config config = test_rope_config(DIM, GYRE_LAYOUT_HALF);
    config.trained_length = L;
    config.rope.scaling = scaling;
    config.rope.factor = scaling ? 4 : 0;
    if (scaling == GYRE_SCALING_LONGROPE) config.rope.short_factor = short_list, config.rope.long_factor = long_list;
    return config;
}

static gyre_config alibi(gyre_slope_scaling scaling) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ALIBI;
    config.heads = HEADS;
    config.trained_length = L;
    config.score.slope_scaling = scaling;
    return config;
}

/* The last two are slopes, the others rotations. */
static gyre_config follower(int i) {
    gyre_config config =
        rope((gyre_scaling[]){GYRE_SCALING_DYNAMIC_NTK, GYRE_SCALING_DYNAMIC_YARN, GYRE_SCALING_LONGROPE}[i % 3]);
    if (i == 3) config.rope.resonance = 1;
    if (i == 4) {
        config = rope(GYRE_SCALING_NONE);
        config.rope.axes = 2;
        config.rope.axis_pairs[0] = 5, config.rope.axis_pairs[1] = 3;
        config.rope.axis[1].own = 1, config.rope.axis[1].scaling = GYRE_SCALING_DYNAMIC_NTK;
    }
    if (i == 5) {
        config = rope(GYRE_SCALING_NONE);
        config.rope.far = GYRE_FAR_CHUNKED;
        config.rope.chunk.size = 24, config.rope.chunk.local = 8, config.rope.chunk.original_length = L;
    }
    if (i == 6) return alibi(GYRE_SLOPE_SCALING_LINEAR);
    if (i == 7) return alibi(GYRE_SLOPE_SCALING_NTK);
    return config;
}

static const char refusal[] = "is past the trained length, 32, and this scaling depends on the length in use";

static void refused(gyre_status status, const gyre_error *err, const char *says) {
    if (status != GYRE_EINVAL || !strstr(err->text, refusal) || !strstr(err->text, says))
        fail_msg("%d, \"%s\" lacks \"%s\"", (int)status, err->text, says);
}

/* -- one place at a time -- */

static gyre_status rotate(const gyre_encoding *e, const gyre_positions *at, int64_t tokens, float *x, gyre_error *err) {
    const gyre_view view = gyre_dense(x, GYRE_DTYPE_F32, 1, tokens, HEADS, DIM);
    return gyre_rotate(
        e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = at, .in = gyre_const(view), .out = view), NULL,
        err);
}

static void rotations(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        gyre_config config = follower(i);
        gyre_encoding *open = test_encoding(&config);
        config.context_length = LONG;
        gyre_encoding *told = test_encoding(&config);
        gyre_error err = {0, ""};
        float x[2 * ROW], y[2 * ROW], z[2 * ROW];
        double cosine[DIM], sine[DIM];
        test_random random = {1};
        test_fill(&random, x, 2 * ROW);
        memcpy(y, x, sizeof x);
        memcpy(z, x, sizeof x);
        const int32_t apart[2] = {-5, L};
        const gyre_positions last = {.base = L - 2}, past = {.base = L - 1}, far = {.base = ((int64_t)1 << 31) + 1},
                             listed = {apart, GYRE_DTYPE_I32, 0, 0, 0, 1, 0, 0},
                             with = {.base = L - 1, .context_length = LONG};
        refused(rotate(open, &past, 2, y, &err), &err, "positions: 32 of token 1 is past");
        assert_int_equal(rotate(open, &past, 2, y, NULL), GYRE_EINVAL);
        refused(rotate(open, &listed, 2, y, &err), &err, "positions: 32 of token 1 is past");
        assert_int_equal(rotate(open, &far, 1, y, &err), GYRE_ERANGE);
        const gyre_view c = gyre_dense(cosine, GYRE_DTYPE_F64, 1, 2, 1, DIM / 2),
                        s = gyre_dense(sine, GYRE_DTYPE_F64, 1, 2, 1, DIM / 2);
        refused(gyre_cos_sin(open, &past, &c, &s, NULL, &err), &err, "(gyre_cos_sin)");
        refused(gyre_rotate_dense(open, GYRE_ROLE_KEY, gyre_dense(y, GYRE_DTYPE_F32, 1, 2, HEADS, DIM), L - 1, 0, &err),
                &err, "(gyre_rotate)");
        assert_memory_equal(x, y, sizeof x); /* nothing was written */
        assert_ok(gyre_cos_sin(open, &with, &c, &s, NULL, &err));
        assert_ok(rotate(open, &with, 2, y, &err));
        assert_ok(rotate(told, &past, 2, z, &err));
        assert_memory_equal(y, z, sizeof y);
        memcpy(z, x, sizeof x);
        assert_ok(
            gyre_rotate_dense(open, GYRE_ROLE_KEY, gyre_dense(z, GYRE_DTYPE_F32, 1, 2, HEADS, DIM), L - 1, LONG, &err));
        assert_memory_equal(y, z, sizeof y);
        assert_ok(rotate(open, &last, 2, y, &err));
        gyre_encoding_free(open);
        gyre_encoding_free(told);
    }
}

static gyre_status bias(const gyre_encoding *e, const gyre_positions *q, const gyre_positions *k, float *scores,
                        gyre_error *err) {
    return gyre_add_bias(
        e,
        GYRE_ARGS(gyre_add_bias_args, .queries = q, .keys = k, .scores = gyre_dense(scores, GYRE_DTYPE_F32, 1, 2, HEADS, 2)),
        NULL, err);
}

static void slopes(void **state) {
    (void)state;
    for (int i = 6; i < CASES; i++) {
        gyre_config config = follower(i);
        gyre_encoding *open = test_encoding(&config);
        float s[2 * HEADS * 2] = {0}, t[2 * HEADS * 2] = {0};
        gyre_error err = {0, ""};
        const gyre_positions last = {.base = L - 2}, past = {.base = L - 1}, with = {.base = L - 1, .context_length = LONG};
        refused(bias(open, &past, &last, s, &err), &err, "queries: 32 of token 1");
        refused(bias(open, &last, &past, s, &err), &err, "keys: 32 of token 1");
        refused(bias(open, &last, &with, s, &err), &err,
                "keys: 32 of token 1"); /* the length of a call is that of queries */
        assert_memory_equal(s, t, sizeof s);
        assert_ok(bias(open, &last, &last, s, &err));
        assert_ok(bias(open, &with, &past, s, &err));
        config.score.slope_factor = 4; /* follows nothing */
        gyre_encoding *fixed = test_encoding(&config);
        assert_ok(bias(fixed, &past, &past, s, &err));
        gyre_encoding_free(open);
        gyre_encoding_free(fixed);
    }
}

/* What does not follow the length, or has a length, is never asked for one. */
static void other_scalings(void **state) {
    (void)state;
    static const gyre_scaling fixed[] = {GYRE_SCALING_NONE,     GYRE_SCALING_LINEAR,   GYRE_SCALING_NTK,
                                         GYRE_SCALING_YARN,     GYRE_SCALING_BY_PARTS, GYRE_SCALING_LLAMA3,
                                         GYRE_SCALING_NTK_MIXED};
    float x[ROW] = {0};
    gyre_error err;
    const gyre_positions past = {.base = 100 * L};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        const gyre_config config = rope(fixed[i]);
        gyre_encoding *e = test_encoding(&config);
        assert_ok(rotate(e, &past, 1, x, &err));
        gyre_encoding_free(e);
    }
    for (int i = 0; i < 6; i++) {
        gyre_config config = follower(i);
        config.context_length = L; /* said to be the trained one */
        gyre_encoding *e = test_encoding(&config);
        assert_ok(rotate(e, &past, 1, x, &err));
        gyre_encoding_free(e);
    }
}

/* -- attention -- */

static float q[2 * LONG * ROW], k[2 * LONG * ROW], v[2 * LONG * ROW], out[2 * LONG * ROW];

static void fill_all(uint64_t seed) {
    test_random random = {seed};
    test_fill(&random, q, 2 * LONG * ROW);
    test_fill(&random, k, 2 * LONG * ROW);
    test_fill(&random, v, 2 * LONG * ROW);
}

static attention_setup setup_of(const gyre_encoding *e, int64_t batch, int64_t tokens) {
    attention_setup s = GYRE_INIT(attention_setup);
    s.encoding = e;
    s.causal = GYRE_CAUSAL_BY_POSITION;
    s.q = gyre_cdense(q, GYRE_DTYPE_F32, batch, tokens, HEADS, DIM);
    s.k = gyre_cdense(k, GYRE_DTYPE_F32, batch, tokens, HEADS, DIM);
    s.v = gyre_cdense(v, GYRE_DTYPE_F32, batch, tokens, HEADS, DIM);
    s.out = gyre_dense(out, GYRE_DTYPE_F32, batch, tokens, HEADS, DIM);
    return s;
}

static gyre_status attended(const attention_setup *s, gyre_error *err) {
    const size_t bytes = attention_scratch(s, 0, NULL); /* which looks at no position */
    void *scratch = scratch_for(bytes);
    const gyre_status status = run_attention(s, (gyre_scratch){scratch, bytes}, NULL, err);
    free(scratch);
    return status;
}

static void attention(void **state) {
    (void)state;
    fill_all(2);
    for (int i = 0; i < CASES; i++) {
        gyre_config config = follower(i);
        gyre_encoding *e = test_encoding(&config);
        gyre_error err = {0, ""};
        attention_setup s = setup_of(e, 2, LONG);
        memset(out, 0x5A, sizeof out);
        refused(attended(&s, &err), &err, "q_pos: 32 of token 32");
        s.context_lengths = (const int64_t[]){LONG, 0};
        refused(attended(&s, &err), &err, "q_pos: 32 of token 32");
        s.q_pos.context_length = LONG; /* that of each row counts */
        refused(attended(&s, &err), &err, "q_pos: 32 of token 32");
        for (size_t b = 0; b < sizeof out; b++)
            assert_int_equal(((unsigned char *)out)[b], 0x5A);
        s.q_pos.context_length = 0;
        s.context_lengths = (const int64_t[]){LONG, LONG};
        if (attended(&s, &err)) fail_msg("%d: %s", i, err.text);
        s.context_lengths = NULL;
        s.q_pos.context_length = LONG;
        if (attended(&s, &err)) fail_msg("%d: %s", i, err.text);
        s = setup_of(e, 2, L);
        if (attended(&s, &err)) fail_msg("%d: %s", i, err.text);
        s.q.shape[1] = s.out.shape[1] = 1; /* keys alone are past it */
        s.k_pos.base = 1;
        s.causal = i == 5 ? GYRE_CAUSAL_BY_POSITION : GYRE_CAUSAL_NONE;
        refused(attended(&s, &err), &err, "k_pos: 32 of token 31");
        gyre_encoding_free(e);
    }
}

static void dense_attention(void **state) {
    (void)state;
    fill_all(3);
    for (int i = 0; i < CASES; i++) {
        gyre_config config = follower(i);
        gyre_encoding *e = test_encoding(&config);
        gyre_error err = {0, ""};
        gyre_attention_dense_args args = GYRE_INIT(gyre_attention_dense_args);
        args.encoding = e;
        args.q = q, args.k = k, args.v = v, args.out = out;
        args.batch = 1, args.queries = args.keys = LONG, args.heads = HEADS, args.head_dim = DIM;
        args.causal = GYRE_CAUSAL_BY_POSITION;
        refused(gyre_attention_dense(&args, &err), &err, "q_pos: 32 of token 32");
        args.context_length = LONG;
        assert_ok(gyre_attention_dense(&args, &err));
        args.context_length = 0, args.queries = args.keys = L;
        assert_ok(gyre_attention_dense(&args, &err));
        gyre_encoding_free(e);
    }
}

/* -- caches -- */

static gyre_cache *open_cache(const gyre_encoding *e, gyre_cache_keys keys, int64_t length) {
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache = NULL;
    config.encoding = e;
    config.keys = keys;
    config.heads = HEADS, config.head_dim = DIM, config.max_tokens = 2 * LONG;
    config.context_length = length;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    return cache;
}

static gyre_status append(gyre_cache *cache, int64_t first, int64_t count, int64_t length, gyre_error *err) {
    const gyre_positions at = {.base = first, .context_length = length};
    return gyre_cache_append(
        cache,
        GYRE_ARGS(gyre_cache_append_args, .k = gyre_cdense(k + first * ROW, GYRE_DTYPE_F32, 1, count, HEADS, DIM),
                  .v = gyre_cdense(v + first * ROW, GYRE_DTYPE_F32, 1, count, HEADS, DIM), .positions = &at),
        NULL, err);
}

static gyre_status ask(const gyre_cache *cache, int64_t tokens, int64_t length, gyre_error *err) {
    const int64_t sequence = 0;
    attention_setup s = setup_of(NULL, 1, tokens);
    s.q_pos.context_length = length;
    const size_t bytes = cache_attention_scratch(cache, &sequence, &s, NULL);
    void *scratch = scratch_for(bytes);
    const gyre_status status = run_cache_attention(cache, &sequence, &s, (gyre_scratch){scratch, bytes}, NULL, err);
    free(scratch);
    return status;
}

static void caches(void **state) {
    (void)state;
    fill_all(4);
    for (int i = 0; i < 5; i++) {
        gyre_config config = follower(i);
        gyre_encoding *e = test_encoding(&config);
        gyre_error err = {0, ""};
        gyre_cache *cache = open_cache(e, GYRE_CACHE_KEYS_DEFAULT, 0);
        assert_int_equal(gyre_cache_get_config(cache)->keys, GYRE_CACHE_KEYS_ROTATED);
        assert_ok(append(cache, 0, L, 0, &err));
        refused(append(cache, L, 1, 0, &err), &err, "positions: 32 of token 0");
        assert_int_equal(append(cache, L, 1, LONG, &err), GYRE_EINVAL); /* keys before are rotated for another length */
        assert_int_equal(gyre_cache_tokens(cache, 0), L);
        assert_ok(ask(cache, L, 0, &err));
        gyre_cache_free(cache);

        cache = open_cache(e, GYRE_CACHE_KEYS_ROTATED, LONG);
        assert_ok(append(cache, 0, LONG, 0, &err));
        assert_ok(ask(cache, LONG, 0, &err)); /* by the length of the cache */
        assert_ok(ask(cache, LONG, LONG, &err));
        gyre_cache_free(cache);

        cache = open_cache(e, GYRE_CACHE_KEYS_RAW, 0);
        assert_ok(append(cache, 0, LONG, 0, &err)); /* attention will have a length */
        refused(ask(cache, LONG, 0, &err), &err, "(gyre_cache_attention)");
        assert_ok(ask(cache, LONG, LONG, &err));
        gyre_cache_free(cache);
        gyre_encoding_free(e);
    }
}

/* -- a policy in place of a length -- */

enum { TEXT = 200 };
static float text[3][TEXT * ROW], whole[TEXT * ROW], row[ROW], other[TEXT * ROW];

static void attend_dense(const gyre_encoding *e, int64_t queries, int64_t keys, int64_t length, float *to) {
    gyre_attention_dense_args args = GYRE_INIT(gyre_attention_dense_args);
    gyre_error err = {0, ""};
    args.encoding = e;
    args.q = text[0] + (keys - queries) * ROW, args.k = text[1], args.v = text[2], args.out = to;
    args.batch = 1, args.queries = queries, args.keys = keys, args.heads = HEADS, args.head_dim = DIM;
    args.causal = GYRE_CAUSAL_BY_POSITION, args.context_length = length;
    if (gyre_attention_dense(&args, &err)) fail_msg("%s", err.text);
}

/* Of gyre_rope_create_scaled: a text read at once and token by token agree, and a query at m has the frequencies of m + 1,
 * rounded up to a block of 64. */
static void decoding_equals_reading_at_once(void **state) {
    (void)state;
    static const gyre_scaling scalings[] = {GYRE_SCALING_DYNAMIC_NTK, GYRE_SCALING_DYNAMIC_YARN};
    test_random random = {5};
    for (int i = 0; i < 3; i++)
        test_fill(&random, text[i], TEXT * ROW);
    for (int i = 0; i < 2; i++) {
        gyre_encoding *plain = NULL, *scaled = NULL;
        assert_ok(gyre_rope_create(&plain, DIM, 0, GYRE_LAYOUT_INTERLEAVED, NULL));
        assert_ok(gyre_rope_create_scaled(&scaled, plain, scalings[i], 4, L, NULL));
        assert_int_equal(gyre_encoding_get_config(scaled)->length_policy, GYRE_LENGTH_POLICY_CAUSAL);
        assert_int_equal(gyre_encoding_get_config(scaled)->rope.layout, GYRE_LAYOUT_INTERLEAVED);
        gyre_config declared = *gyre_encoding_get_config(scaled);
        declared.length_policy = GYRE_LENGTH_POLICY_DECLARED;
        gyre_config_clear_unused(&declared); /* length_block */
        attend_dense(scaled, TEXT, TEXT, 0, whole);
        attend_dense(plain, TEXT, TEXT, 0, other);
        double off = 0, moved = 0;
        for (int64_t m = 0; m < TEXT; m++) {
            attend_dense(scaled, 1, m + 1, 0, row);
            for (int c = 0; c < ROW; c++)
                off = fmax(off, fabs((double)row[c] - (double)whole[m * ROW + c]));
            declared.context_length = (m / 64 + 1) * 64;
            gyre_encoding *at = test_encoding(&declared);
            attend_dense(at, 1, m + 1, 0, row);
            gyre_encoding_free(at);
            for (int c = 0; c < ROW; c++) {
                off = fmax(off, fabs((double)row[c] - (double)whole[m * ROW + c]));
                moved = fmax(moved, fabs((double)other[m * ROW + c] - (double)whole[m * ROW + c]));
            }
        }
        if (!(off < 3e-6) || !(moved > 0.05)) fail_msg("off by %g, moved by %g", off, moved);
        gyre_encoding_free(plain);
        gyre_encoding_free(scaled);
    }
}

/* Under a policy attention has a length of its own; a rotation outside it has none. */
static void policies_are_of_attention(void **state) {
    (void)state;
    fill_all(6);
    for (int i = 0; i < CASES; i++)
        for (int policy = GYRE_LENGTH_POLICY_CAUSAL; policy <= GYRE_LENGTH_POLICY_PREFIX; policy++) {
            gyre_config config = follower(i);
            config.length_policy = (gyre_length_policy)policy;
            gyre_encoding *e = NULL;
            gyre_error err = {0, ""};
            if (gyre_encoding_create(&e, &config, NULL, &err)) continue; /* it has none of this */
            const attention_setup s = setup_of(e, 1, LONG);
            if (attended(&s, &err)) fail_msg("%d: %s", i, err.text);
            const gyre_positions past = {.base = L};
            if (i < 6) refused(rotate(e, &past, 1, q, &err), &err, "positions: 32 of token 0");
            gyre_cache *cache = open_cache(e, GYRE_CACHE_KEYS_DEFAULT, 0);
            if (i < 6) assert_int_equal(gyre_cache_get_config(cache)->keys, GYRE_CACHE_KEYS_RAW);
            assert_ok(append(cache, 0, LONG, 0, &err));
            assert_ok(ask(cache, LONG, 0, &err));
            gyre_cache_free(cache);
            gyre_encoding_free(e);
        }
}

/* A config copied from an encoding has its trained length as the length in use, which is as open as none. */
static void copies(void **state) {
    (void)state;
    float x[DIM] = {1};
    const gyre_view view = gyre_dense(x, GYRE_DTYPE_F32, 1, 1, 1, DIM);
    gyre_error err;
    for (int i = 0; i < 3; i++) {
        const gyre_config config = follower(i);
        gyre_encoding *encoding = test_encoding(&config), *copy = test_encoding(gyre_encoding_get_config(encoding));
        assert_ok(gyre_rotate_dense(copy, GYRE_ROLE_KEY, view, L - 1, 0, &err));
        refused(gyre_rotate_dense(copy, GYRE_ROLE_KEY, view, L, 0, &err), &err, "positions: 32");
        assert_ok(gyre_rotate_dense(copy, GYRE_ROLE_KEY, view, L, LONG, &err));
        gyre_encoding_free(encoding);
        gyre_encoding_free(copy);
    }
}

/* The length that a scaling counts from may be that of an axis or of the chunks alone. */
static void lengths_of_their_own(void **state) {
    (void)state;
    float x[DIM] = {1};
    const gyre_view view = gyre_dense(x, GYRE_DTYPE_F32, 1, 1, 1, DIM);
    gyre_error err;
    for (int i = 4; i < 6; i++) {
        gyre_config config = follower(i);
        config.trained_length = 0;
        config.rope.axis[1].trained_length = i == 4 ? L : 0;
        gyre_encoding *encoding = test_encoding(&config);
        assert_ok(gyre_rotate_dense(encoding, GYRE_ROLE_KEY, view, L - 1, 0, &err));
        refused(gyre_rotate_dense(encoding, GYRE_ROLE_KEY, view, L, 0, &err), &err, "positions: 32");
        gyre_encoding_free(encoding);
    }
}

/* What would stretch nothing, or half of it. */
static void stretched_by_nothing(void **state) {
    (void)state;
    const gyre_config plain = test_rope_config(DIM, GYRE_LAYOUT_INTERLEAVED), axes = follower(4);
    gyre_encoding *rope = test_encoding(&plain), *own = test_encoding(&axes), *none = NULL, *scaled = NULL;
    gyre_error err;
    assert_int_equal(gyre_rope_create_scaled(&none, rope, GYRE_SCALING_LINEAR, 0, L, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "factor: is 0"));
    assert_int_equal(gyre_rope_create_scaled(&none, own, GYRE_SCALING_LINEAR, 4, L, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "axis 1 has its own scaling"));
    assert_null(none);
    assert_ok(gyre_rope_create_scaled(&none, rope, GYRE_SCALING_DYNAMIC_NTK, 4, L, NULL));
    assert_int_equal(gyre_encoding_get_config(none)->length_policy, GYRE_LENGTH_POLICY_CAUSAL);
    assert_ok(gyre_rope_create_scaled(&scaled, none, GYRE_SCALING_LINEAR, 4, 0, NULL));
    assert_int_equal(gyre_encoding_get_config(scaled)->length_policy, GYRE_LENGTH_POLICY_DECLARED);
    assert_int_equal(gyre_encoding_get_config(scaled)->rope.layout, GYRE_LAYOUT_INTERLEAVED);
    gyre_encoding_free(rope);
    gyre_config yarn = plain; /* its beta_fast goes with its scaling */
    yarn.trained_length = L;
    yarn.rope.scaling = GYRE_SCALING_YARN;
    yarn.rope.factor = 4;
    yarn.rope.beta_fast = 8;
    rope = test_encoding(&yarn);
    gyre_encoding_free(scaled);
    assert_ok(gyre_rope_create_scaled(&scaled, rope, GYRE_SCALING_NONE, 0, 0, NULL));
    assert_int_equal(gyre_encoding_get_config(scaled)->rope.scaling, GYRE_SCALING_NONE);
    gyre_encoding_free(rope);
    gyre_encoding_free(own);
    gyre_encoding_free(none);
    gyre_encoding_free(scaled);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rotations),
        cmocka_unit_test(slopes),
        cmocka_unit_test(other_scalings),
        cmocka_unit_test(attention),
        cmocka_unit_test(dense_attention),
        cmocka_unit_test(caches),
        cmocka_unit_test(decoding_equals_reading_at_once),
        cmocka_unit_test(policies_are_of_attention),
        cmocka_unit_test(copies),
        cmocka_unit_test(lengths_of_their_own),
        cmocka_unit_test(stretched_by_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
