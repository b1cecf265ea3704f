/* test_simple.c: the simple calls against definitions in double: rotation by cos and sin, attention by its whole score
 * row. */
#include "attention_setup.h"
#include "naive_attention.h"

static void rope_by_cos_and_sin(void **state) {
    (void)state;
    enum { BATCH = 2, TOKENS = 3, HEADS = 2, DIM = 8 };
    static float x[BATCH][TOKENS][HEADS][DIM], before[BATCH][TOKENS][HEADS][DIM];
    const gyre_layout layouts[] = {GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED};
    test_random random = {3};
    for (int l = 0; l < 2; l++) {
        gyre_encoding *rope = NULL;
        gyre_error err;
        test_fill(&random, &x[0][0][0][0], sizeof x / sizeof(float));
        memcpy(before, x, sizeof x);
        assert_ok(gyre_rope_create(&rope, DIM, 500000, layouts[l], &err));
        assert_ok(gyre_rotate_dense(rope, GYRE_ROLE_KEY, gyre_dense(x, GYRE_DTYPE_F32, BATCH, TOKENS, HEADS, DIM), 1000000,
                                    0, &err));
        for (int i = 0; i < BATCH * TOKENS * HEADS; i++)
            for (int pair = 0; pair < DIM / 2; pair++) {
                const int b = i / (TOKENS * HEADS), t = i / HEADS % TOKENS, h = i % HEADS;
                const int low = l ? 2 * pair : pair, high = l ? low + 1 : low + DIM / 2;
                const long double angle = (1000000 + t) * powl(500000, -2.0L * pair / DIM);
                const float *from = before[b][t][h], *to = x[b][t][h];
                test_close((long double)to[low], from[low] * cosl(angle) - from[high] * sinl(angle), 3e-7L, "low");
                test_close((long double)to[high], from[low] * sinl(angle) + from[high] * cosl(angle), 3e-7L, "high");
            }
        gyre_encoding_free(rope);
    }
}

static void scaled_rope_has_scaled_frequencies(void **state) {
    (void)state;
    gyre_encoding *rope = NULL, *linear = NULL;
    double inv_freq[8];
    assert_ok(gyre_rope_create(&rope, 16, 0, GYRE_LAYOUT_INTERLEAVED, NULL));
    assert_ok(gyre_rope_create_scaled(&linear, rope, GYRE_SCALING_LINEAR, 4, 2048, NULL));
    gyre_encoding_free(rope);
    const gyre_config *config = gyre_encoding_get_config(linear);
    assert_int_equal(config->rope.layout, GYRE_LAYOUT_INTERLEAVED);
    assert_int_equal(config->trained_length, 2048);
    assert_int_equal(config->length_policy, GYRE_LENGTH_POLICY_DECLARED);
    assert_ok(gyre_encoding_frequencies(linear, 0, inv_freq, NULL));
    for (int i = 0; i < 8; i++)
        test_close((long double)inv_freq[i], powl(10000, -i / 8.0L) / 4, 1e-16L, "inv_freq");
    gyre_encoding_free(linear);
}

static void attention_by_definition(void **state) {
    (void)state;
    static const shape shapes[] = {
        {GYRE_KIND_NOPE, GYRE_LAYOUT_HALF, 2, 9, 9, 4, 4, 16, 16, 0, 0, IN_ORDER},
        {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 2, 70, 70, 4, 2, 32, 32, GYRE_CAUSAL_BY_POSITION, 0, IN_ORDER},
        {GYRE_KIND_ROPE, GYRE_LAYOUT_INTERLEAVED, 1, 1, 200, 8, 2, 64, 64, GYRE_CAUSAL_BY_POSITION, 0, IN_ORDER},
        {GYRE_KIND_ALIBI, GYRE_LAYOUT_HALF, 1, 33, 50, 6, 3, 24, 24, GYRE_CAUSAL_BY_POSITION, 17, IN_ORDER},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape *s = &shapes[i];
        problem p = make_problem(s, 5 + i);
        gyre_attention_dense_args dense = GYRE_INIT(gyre_attention_dense_args);
        gyre_error err;
        dense.q = p.q, dense.k = p.k, dense.v = p.v, dense.out = p.out;
        dense.dtype = GYRE_DTYPE_F32;
        dense.batch = s->batch, dense.queries = s->queries, dense.keys = s->keys;
        dense.heads = s->query_heads, dense.kv_heads = s->key_heads == s->query_heads ? 0 : s->key_heads;
        dense.head_dim = s->dim;
        dense.causal = (gyre_causal)s->causal;
        dense.window = s->window;
        dense.encoding = s->kind == GYRE_KIND_NOPE ? NULL : p.encoding;
        assert_ok(gyre_attention_dense(&dense, &err));
        naive(&p);
        for (size_t c = 0; c < p.out_size; c++)
            test_close((long double)p.out[c], (long double)p.out64[c], 1e-5L, "out");
        double *wide = room(p.out_size, sizeof *wide);
        dense.q = p.q64, dense.k = p.k64, dense.v = p.v64, dense.out = wide;
        dense.dtype = GYRE_DTYPE_F64;
        assert_ok(gyre_attention_dense(&dense, &err));
        for (size_t c = 0; c < p.out_size; c++)
            test_close(wide[c], p.out64[c], 1e-12L, "out in double");
        free(wide);
        free_problem(&p);
    }
}

static void scale_and_softcap_as_in_the_complete_call(void **state) {
    (void)state;
    const shape s = {GYRE_KIND_NOPE, GYRE_LAYOUT_HALF, 1, 7, 7, 2, 2, 16, 16, GYRE_CAUSAL_BY_POSITION, 0, IN_ORDER};
    problem p = make_problem(&s, 8);
    float out[7 * 2 * 16];
    attention_setup args = problem_args(&p);
    args.scale = 0.7, args.softcap = 1.5;
    attend(&args, NULL);
    gyre_attention_dense_args dense = GYRE_INIT(gyre_attention_dense_args);
    dense.q = p.q, dense.k = p.k, dense.v = p.v, dense.out = out;
    dense.batch = 1, dense.queries = dense.keys = 7, dense.heads = 2, dense.head_dim = 16;
    dense.causal = GYRE_CAUSAL_BY_POSITION;
    dense.scale = 0.7, dense.softcap = 1.5;
    assert_ok(gyre_attention_dense(&dense, NULL));
    assert_memory_equal(out, p.out, sizeof out);
    dense.softcap = 0;
    assert_ok(gyre_attention_dense(&dense, NULL));
    assert_memory_not_equal(out, p.out, sizeof out);
    free_problem(&p);
}

/* No scores but zeros: row t is the mean of the values it sees, from t - 2 to t + 1. */
static void window_with_two_sides(void **state) {
    (void)state;
    enum { TOKENS = 12 };
    float q[TOKENS] = {0}, v[TOKENS], out[TOKENS];
    for (int t = 0; t < TOKENS; t++)
        v[t] = (float)(t * t);
    gyre_attention_dense_args dense = GYRE_INIT(gyre_attention_dense_args);
    dense.q = dense.k = q, dense.v = v, dense.out = out;
    dense.batch = dense.heads = dense.head_dim = 1, dense.queries = dense.keys = TOKENS;
    dense.window = 3, dense.window_after = 2;
    assert_ok(gyre_attention_dense(&dense, NULL));
    for (int t = 0; t < TOKENS; t++) {
        double sum = 0, count = 0;
        for (int n = t - 2; n <= t + 1; n++)
            if (n >= 0 && n < TOKENS) sum += (double)v[n], count++;
        test_close((long double)out[t], (long double)(sum / count), 1e-5L, "out");
    }
}

static void says_what_is_wrong(void **state) {
    (void)state;
    gyre_encoding *rope = NULL;
    gyre_error err = {0, ""};
    float x[64] = {0};
    gyre_encoding *scaled = NULL, *alibi = NULL;
    gyre_attention_dense_args one = GYRE_INIT(gyre_attention_dense_args);
    assert_int_equal(gyre_rope_create(&rope, 7, 10000, GYRE_LAYOUT_HALF, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "7"));
    assert_int_equal(gyre_alibi_create(&rope, 0, &err), GYRE_EINVAL);
    assert_null(rope);
    assert_ok(gyre_rope_create(&rope, 8, 10000, GYRE_LAYOUT_HALF, &err));
    assert_ok(gyre_alibi_create(&alibi, 2, &err));
    assert_int_equal(gyre_rope_create_scaled(&scaled, rope, GYRE_SCALING_LONGROPE, 2, 64, &err), GYRE_EINVAL);
    assert_int_equal(gyre_rope_create_scaled(&scaled, rope, GYRE_SCALING_YARN, 2, 0, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "trained_length"));
    assert_int_equal(gyre_rope_create_scaled(&scaled, alibi, GYRE_SCALING_LINEAR, 2, 64, &err), GYRE_EINVAL);
    assert_int_equal(gyre_rope_create_scaled(&scaled, NULL, GYRE_SCALING_LINEAR, 2, 64, &err), GYRE_EINVAL);
    assert_null(scaled);
    gyre_encoding_free(rope);
    gyre_encoding_free(alibi);
    one.q = one.k = one.v = x, one.out = x + 32;
    one.batch = one.queries = one.keys = 1, one.heads = 3, one.kv_heads = 2, one.head_dim = 8;
    assert_int_equal(gyre_attention_dense(&one, &err), GYRE_ESHAPE);
    one.heads = one.kv_heads = 1;
    one.k = x + 8, one.v = x + 16, one.out = x + 23;
    assert_int_equal(gyre_attention_dense(&one, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "out: overlaps v"));
    one.queries = INT64_MIN;
    one.out = x + 32;
    assert_int_equal(gyre_attention_dense(&one, &err), GYRE_ESHAPE);
    assert_non_null(strstr(err.text, "q: shape[1] = -9223372036854775808 is not in "));
    one.queries = 1;
    one.size = 3;
    assert_int_equal(gyre_attention_dense(&one, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "GYRE_INIT(gyre_attention_dense_args)"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rope_by_cos_and_sin),     cmocka_unit_test(scaled_rope_has_scaled_frequencies),
        cmocka_unit_test(attention_by_definition), cmocka_unit_test(scale_and_softcap_as_in_the_complete_call),
        cmocka_unit_test(window_with_two_sides),   cmocka_unit_test(says_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
