/* test_sandwich.c: Sandwich against the product of its sinusoids, alone and in attention. */
#include "attention_setup.h"
#include "naive_attention_tables.h"

enum { HEADS = 3, DIM = 8 };

static gyre_encoding *sandwich(int64_t width) {
    gyre_config config = WITH(GYRE_KIND_SANDWICH, .sinusoid_dim = width);
    config.heads = HEADS;
    return test_encoding(&config);
}

/* p_m . p_n / (8 (h + 1) / heads): the two sinusoids multiplied channel by channel. */
static long double formula(int64_t width, int64_t h, int64_t m, int64_t n) {
    long double sum = 0;
    for (int64_t i = 0; i < width / 2; i++) {
        const long double theta = powl(10000, -2 * (long double)i / width);
        sum += sinl(m * theta) * sinl(n * theta) + cosl(m * theta) * cosl(n * theta);
    }
    return sum / (8 * (long double)(h + 1) / HEADS);
}

static void agrees_with_formula(void **state) {
    (void)state;
    enum { KEYS = 300 };
    static const int64_t widths[] = {2, 10, 128, 0, 700}, starts[] = {0, -70, 8000, 2147482000};
    static double scores[2 * HEADS * KEYS], was[2 * HEADS * KEYS];
    test_random random = {5};
    for (int i = 0; i < 5; i++)
        for (int apart = 1; apart < 4; apart += 2)
            for (int s = 0; s < 4; s++) {
                int64_t k[KEYS];
                gyre_encoding *e = sandwich(widths[i]);
                const int64_t width = widths[i] ? widths[i] : 128;
                for (int j = 0; j < KEYS; j++)
                    k[j] = starts[s] + apart * j;
                const gyre_positions queries = {NULL, GYRE_DTYPE_I64, 100, 0, 0, 0, 0, 0},
                                     keys = {k, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
                const gyre_view view = gyre_dense(scores, GYRE_DTYPE_F64, 1, 2, HEADS, KEYS);
                test_fill_f64(&random, scores, 2 * HEADS * KEYS);
                memcpy(was, scores, sizeof was);
                assert_ok(gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .queries = &queries, .keys = &keys, .scores = view),
                                        NULL, NULL));
                for (int at = 0; at < 2 * HEADS * KEYS; at += 7) {
                    const long double want = formula(width, at / KEYS % HEADS, 100 + at / KEYS / HEADS, k[at % KEYS]);
                    /* angles above 10^9 are good to 1e-10 in the arithmetic of the test too */
                    test_close(scores[at], (long double)was[at] + want, (s == 3 ? 1e-9L : 1e-14L) * width, "score");
                }
                gyre_encoding_free(e);
            }
}

/* A key at the query's position has the largest bias, width / 2 divided by the head's ratio. Sandwich has no trained
 * table. */
static void bias_is_largest_at_distance_0(void **state) {
    (void)state;
    double scores[HEADS * 400] = {0};
    int64_t shape[4];
    gyre_encoding *e = sandwich(0);
    const gyre_positions zero = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
    const gyre_view view = gyre_dense(scores, GYRE_DTYPE_F64, 1, 1, HEADS, 400);
    assert_ok(gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .queries = &zero, .keys = &zero, .scores = view), NULL, NULL));
    for (int h = 0; h < HEADS; h++) {
        test_close(scores[h * 400], 64 / (8 * (h + 1) / 3.0L), 1e-13L, "at the query");
        for (int j = 1; j < 400; j++)
            assert_true(scores[h * 400 + j] < scores[h * 400]);
    }
    assert_int_equal(gyre_encoding_places(e), GYRE_PLACE_SCORE);
    assert_ok(gyre_encoding_table_shape(e, GYRE_TABLE_BIAS, shape));
    assert_int_equal(shape[0], 0);
    gyre_encoding_free(e);
}

/* Attention with Sandwich equals attention with extra channels in q and k: the sinusoids themselves, scaled so that their
 * product is the bias of the head. */
static void attention_matches_wider_heads(void **state) {
    (void)state;
    enum { N = 150, WIDTH = 16, WIDE = DIM + WIDTH };
    static float q[N * HEADS * DIM], k[N * HEADS * DIM], v[N * HEADS * DIM], out[N * HEADS * DIM], want[N * HEADS * DIM];
    static float wide_q[N * HEADS * WIDE], wide_k[N * HEADS * WIDE];
    test_random random = {6};
    test_fill(&random, q, N * HEADS * DIM);
    test_fill(&random, k, N * HEADS * DIM);
    test_fill(&random, v, N * HEADS * DIM);
    for (int row = 0; row < N * HEADS; row++) {
        const float ratio = 8.0f * (float)(row % HEADS + 1) / HEADS;
        memcpy(wide_q + row * WIDE, q + row * DIM, DIM * sizeof *q);
        memcpy(wide_k + row * WIDE, k + row * DIM, DIM * sizeof *k);
        for (int c = 0; c < WIDTH; c++) {
            const double angle = (double)(row / HEADS) * pow(10000, -2 * (double)(c / 2) / WIDTH);
            const float p = (float)(c % 2 ? cos(angle) : sin(angle));
            wide_q[row * WIDE + DIM + c] = p / ratio / 0.3f; /* the scale multiplies it */
            wide_k[row * WIDE + DIM + c] = p;
        }
    }
    gyre_encoding *e = sandwich(WIDTH);
    for (int causal = 0; causal < 2; causal++)
        for (int with = 0; with < 2; with++) {
            attention_setup args = GYRE_INIT(attention_setup);
            args.encoding = with ? e : NULL;
            args.q = gyre_cdense(with ? q : wide_q, GYRE_DTYPE_F32, 1, N, HEADS, with ? DIM : WIDE);
            args.k = gyre_cdense(with ? k : wide_k, GYRE_DTYPE_F32, 1, N, HEADS, with ? DIM : WIDE);
            args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, N, HEADS, DIM);
            args.out = gyre_dense(with ? out : want, GYRE_DTYPE_F32, 1, N, HEADS, DIM);
            args.scale = 0.3;
            args.causal = causal;
            attend(&args, NULL);
            for (int i = 0; with && i < N * HEADS * DIM; i++)
                test_close((long double)out[i], (long double)want[i], 1e-5L, "out");
        }
    gyre_encoding_free(e);
}

static void bad_input(void **state) {
    (void)state;
    static const bad_config bad[] = {{WITH(GYRE_KIND_SANDWICH, .sinusoid_dim = 8), 0, "heads"},
                                     {WITH(GYRE_KIND_SANDWICH, .sinusoid_dim = 7), 2, "score.sinusoid_dim"},
                                     {WITH(GYRE_KIND_SANDWICH, .sinusoid_dim = -2), 2, "score.sinusoid_dim"},
                                     {WITH(GYRE_KIND_SANDWICH, .sinusoid_dim = 65538), 2, "score.sinusoid_dim"},
                                     {WITH(GYRE_KIND_SANDWICH, .terms = GYRE_TERM_KEY), 2, "score.terms"}};
    assert_configs_refused(bad, sizeof bad / sizeof *bad);
    gyre_config config = WITH(GYRE_KIND_SANDWICH, .sinusoid_dim = 0);
    assert_ok(gyre_config_suggest(&config));
    assert_int_equal(config.score.sinusoid_dim, 128);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_formula),
        cmocka_unit_test(bias_is_largest_at_distance_0),
        cmocka_unit_test(attention_matches_wider_heads),
        cmocka_unit_test(bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
