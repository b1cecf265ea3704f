/* test_attention_schemes.c: attention and every gradient against the definition, for schemes with vectors of their own on
 * one side of the score (Transformer-XL) or with scores that depend on more than the distance (FIRE; ALiBi with slopes for
 * either direction), or that are a product times the cosine of another (TAPA). */
#include "attention_setup.h"
#include "naive_attention_tables.h"

#include "run_each_tier.h"

static const double before[4] = {0.5, 0.25, 0.0625, 1}, after[4] = {0.125, 0.75, 0, 0.5};

static const gyre_config schemes[] = {
    WITH(GYRE_KIND_TRANSFORMER_XL, .max_distance = 4),
    WITH(GYRE_KIND_TRANSFORMER_XL, .max_distance = 200),
    WITH(GYRE_KIND_TRANSFORMER_XL, .max_distance = 5, .bidirectional = 1),
    WITH(GYRE_KIND_FIRE, .hidden_units = 4),
    WITH(GYRE_KIND_FIRE, .hidden_units = 32),
    WITH(GYRE_KIND_ALIBI, .slopes = before, .slopes_after = after),
    WITH(GYRE_KIND_ALIBI, .slopes = before, .slopes_after = after, .before_scale = 1),
    WITH(GYRE_KIND_ALIBI, .max_bias = 16),
    PHASED(0),
    PHASED(.amplitudes = 3, .exponent = 0.5),
    PHASED(.amplitudes = 1, .exponent = 0.25),
};
enum { SCHEMES = sizeof schemes / sizeof *schemes };

static const layout layouts[] = {
    /* batch, queries, keys, heads, key heads, dim, value dim, causal, window, start, shuffled */
    {2, 5, 7, 4, 2, 6, 6, 0, 0, 0, 0},       {1, 9, 9, 2, 1, 8, 8, 1, 0, 3, 0},      {2, 6, 8, 2, 2, 4, 4, 1, 5, 0, 1},
    {1, 70, 150, 2, 1, 20, 20, 1, 0, 11, 0}, {1, 40, 140, 2, 2, 16, 16, 0, 0, 0, 1},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, SMALL = 3 };

static void agrees_with_definition(void **state) {
    const char *tier = *state;
    tier_or_skip(tier);
    assert_int_equal(setenv("GYRE_CPU", tier, 1), 0);
    for (size_t scheme = 0; scheme < SCHEMES; scheme++)
        for (size_t i = 0; i < LAYOUTS; i++) {
            problem p = make_problem(&schemes[scheme], &layouts[i], 3 + i);
            check_problem(&p, i < SMALL ? 400 : 5);
            free_problem(&p);
        }
    unsetenv("GYRE_CPU");
}

static void same_for_any_threads(void **state) {
    (void)state;
    const layout s = {2, 100, 150, 4, 2, 16, 16, 1, 0, 0, 0};
    for (size_t scheme = 0; scheme < SCHEMES; scheme++) {
        problem one = make_problem(&schemes[scheme], &s, 9), many = make_problem(&schemes[scheme], &s, 9);
        gyre_pool *pool;
        assert_ok(gyre_pool_create(&pool, 3, NULL));
        const gyre_exec exec = gyre_pool_exec(pool);
        run_problem(&one, NULL);
        run_problem(&many, &exec);
        assert_same_results(&one, &many);
        gyre_pool_free(pool);
        free_problem(&one);
        free_problem(&many);
    }
}

/* Adding the same number to every position changes nothing, except with FIRE, whose threshold does not move. */
static void only_distances_matter(void **state) {
    (void)state;
    for (size_t scheme = 0; scheme < SCHEMES; scheme++) {
        layout s = {1, 50, 90, 2, 1, 16, 16, 1, 0, 0, 0};
        if (schemes[scheme].kind == GYRE_KIND_FIRE) continue;
        problem here = make_problem(&schemes[scheme], &s, 21);
        s.start = -123456789;
        problem there = make_problem(&schemes[scheme], &s, 21);
        run_problem(&here, NULL);
        run_problem(&there, NULL);
        assert_memory_equal(here.out, there.out, here.out_size * sizeof(float));
        for (part i = TABLE_A; i <= LAST; i++)
            assert_memory_equal(here.table[i], there.table[i], here.size[i] * sizeof(double));
        free_problem(&here);
        free_problem(&there);
    }
}

/* A missing, mistyped or misshapen table is refused before anything is written. */
static void refuses_bad_tables(void **state) {
    (void)state;
    static const part needed[2][3] = {{TABLE_A, CONTENT, POSITION}, {BIAS, BIAS, BIAS}};
    for (int fire = 0; fire < 2; fire++)
        for (int i = 0; i < 3; i++) {
            const layout s = {1, 5, 7, 2, 1, 8, 8, 0, 0, 0, 0};
            problem p = make_problem(&schemes[fire ? 3 : 0], &s, 1);
            gyre_tables tables = problem_tables(&p);
            attention_setup args = problem_args(&p, &tables);
            gyre_cview *const views[PARTS] = {[TABLE_A] = &tables.query,
                                              [BIAS] = &tables.bias,
                                              [CONTENT] = &tables.content_bias,
                                              [POSITION] = &tables.position_bias};
            gyre_cview *view = views[needed[fire][i]];
            const gyre_cview original = *view;
            const size_t bytes = attention_scratch(&args, 0, NULL);
            void *scratch = scratch_for(bytes);
            memset(p.out, 0x5A, p.out_size * sizeof *p.out);
            view->data = NULL;
            assert_int_equal(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL), GYRE_EINVAL);
            *view = original;
            view->shape[2]++;
            assert_int_equal(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL), GYRE_ESHAPE);
            *view = original;
            view->dtype = GYRE_DTYPE_BF16;
            assert_int_equal(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL), GYRE_EDTYPE);
            *view = original;
            args.tables = NULL;
            assert_int_equal(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL), GYRE_EINVAL);
            for (size_t b = 0; b < p.out_size * sizeof *p.out; b++)
                assert_int_equal(((unsigned char *)p.out)[b], 0x5A);
            args.tables = &tables;
            assert_ok(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL));
            free(scratch);
            free_problem(&p);
        }
}

/* With u and v of zeros and one table for q and k, Transformer-XL is BERT's relative_key with its rows in reverse. */
static void transformer_xl_without_biases(void **state) {
    (void)state;
    const gyre_config xl = WITH(GYRE_KIND_TRANSFORMER_XL, .max_distance = 29, .bidirectional = 1);
    const gyre_config bert = WITH(GYRE_KIND_BERT, .max_positions = 30);
    const layout s = {1, 30, 30, 1, 1, 8, 8, 0, 0, 0, 0};
    problem a = make_problem(&xl, &s, 6), b = make_problem(&bert, &s, 6);
    for (part i = Q; i <= TABLE_A; i++)
        memcpy(a.x[i], b.x[i], b.size[i] * sizeof(float));
    memcpy(a.x[DOUT], b.x[DOUT], b.size[DOUT] * sizeof(float));
    memset(a.x[CONTENT], 0, a.size[CONTENT] * sizeof(float));
    memset(a.x[POSITION], 0, a.size[POSITION] * sizeof(float));
    run_problem(&a, NULL);
    run_problem(&b, NULL);
    for (size_t i = 0; i < a.out_size; i++)
        test_close((long double)a.out[i], (long double)b.out[i], 1e-6L, "out");
    for (size_t i = 0; i < a.size[TABLE_A]; i++)
        test_close(a.table[TABLE_A][i], b.table[TABLE_A][i], 1e-5L, "table");
    free_problem(&a);
    free_problem(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FOR_TIERS(agrees_with_definition),
        cmocka_unit_test(same_for_any_threads),
        cmocka_unit_test(only_distances_matter),
        cmocka_unit_test(refuses_bad_tables),
        cmocka_unit_test(transformer_xl_without_biases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
