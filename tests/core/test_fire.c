/* test_fire.c: FIRE against its formula, computed unit by unit. */
#include "core/encoding.h"
#include "core/positions.h"
#include "core/scheme.h"
#include "naive_attention_tables.h"

enum { HEADS = 3, QUERIES = 9, KEYS = 300, SCORES = QUERIES * HEADS * KEYS, MOST_ROWS = 3 * 256 + 3 };

static gyre_encoding *fire(int64_t width) {
    gyre_config config = WITH(GYRE_KIND_FIRE, .hidden_units = width);
    config.heads = HEADS;
    return test_encoding(&config);
}

/* b of one head, whose weights are column x with stride `stride`. */
static long double formula(const double *x, int64_t stride, int64_t width, int64_t m, int64_t n) {
    const long double c = fabsl((long double)x[0]), limit = fabsl((long double)x[stride]);
    const long double reach = (long double)m > limit ? (long double)m : limit;
    const long double share = log1pl(c * fabsl((long double)m - (long double)n)) / log1pl(c * reach);
    long double sum = x[(2 + 3 * width) * stride];
    for (int64_t u = 0; u < width; u++) {
        const long double in = x[(2 + u) * stride] * share + x[(2 + width + u) * stride];
        if (in > 0) sum += x[(2 + 2 * width + u) * stride] * in;
    }
    return sum;
}

/* Weights as after training: of both signs, some units without weight or bias. */
static void fill_table(test_random *random, int64_t width, double *x) {
    test_fill_f64(random, x, (size_t)((3 * width + 3) * HEADS));
    for (int h = 0; h < HEADS; h++) {
        x[h] = h == 1 ? -0.1 : 0.05 + 0.5 * h;
        x[HEADS + h] = h == 2 ? -40.5 : 512.25;
    }
    if (width < 4) return;
    x[2 * HEADS] = 0; /* never bends */
    x[(2 + width) * HEADS] = fabs(x[(2 + width) * HEADS]);
    x[(2 + width + 1) * HEADS] = 0;                                  /* bends at distance 0 */
    x[(2 + width + 2) * HEADS] = x[(2 + width + 3) * HEADS] = -0.25; /* two at one position, from both sides */
    x[(2 + 2) * HEADS] = 0.5, x[(2 + 3) * HEADS] = -0.5;
    x[(2 + width + 3) * HEADS] = 0.25;
}

static void place(test_random *random, int64_t *q, int64_t *k) {
    for (int i = 0; i < QUERIES; i++)
        q[i] = (int64_t)(test_next(random) % 3000) - 100;
    for (int j = 0; j < KEYS; j++)
        k[j] = j < 150 ? 700 + j : (int64_t)(test_next(random) % 3000) - 100;
    q[0] = 0, q[1] = 750, q[2] = GYRE_MAX_POSITION, q[3] = -GYRE_MAX_POSITION;
    k[KEYS - 1] = GYRE_MAX_POSITION, k[KEYS - 2] = 0;
}

/* The rounding error: a few ulp of every term of the sum. */
static long double size_of(const double *x, int64_t width) {
    long double sum = fabsl((long double)x[(2 + 3 * width) * HEADS]);
    for (int64_t u = 0; u < width; u++)
        sum += fabsl((long double)x[(2 + 2 * width + u) * HEADS]) *
               (3 * fabsl((long double)x[(2 + u) * HEADS]) + fabsl((long double)x[(2 + width + u) * HEADS]));
    return sum;
}

static void agrees_with_formula(void **state) {
    (void)state;
    static const int64_t widths[] = {1, 5, 32, 256};
    static double x[MOST_ROWS * HEADS], apart[MOST_ROWS * HEADS], scores[SCORES], was[SCORES], again[SCORES];
    int64_t q[QUERIES], k[KEYS];
    test_random random = {61};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const int64_t w = widths[i], rows = 3 * w + 3;
        gyre_encoding *e = fire(w);
        fill_table(&random, w, x);
        place(&random, q, k);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t h = 0; h < HEADS; h++)
                apart[rows * h + (rows - 1 - r)] = x[r * HEADS + h]; /* heads by columns, rows backwards */
        gyre_tables tables = {.bias = gyre_cdense(x, GYRE_DTYPE_F64, 1, 1, rows, HEADS)};
        const gyre_positions queries = {q, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0}, keys = {k, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
        const gyre_view view = gyre_dense(scores, GYRE_DTYPE_F64, 1, QUERIES, HEADS, KEYS);
        const gyre_view other = gyre_dense(again, GYRE_DTYPE_F64, 1, QUERIES, HEADS, KEYS);
        test_fill_f64(&random, scores, SCORES);
        memcpy(was, scores, sizeof was);
        memcpy(again, scores, sizeof was);
        assert_ok(gyre_add_bias(
            e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &queries, .keys = &keys, .scores = view), NULL,
            NULL));
        for (int s = 0; s < SCORES; s++) {
            const int m = s / (HEADS * KEYS), h = s / KEYS % HEADS, n = s % KEYS;
            const long double want = (long double)was[s] + formula(x + h, HEADS, w, q[m], k[n]);
            test_close(scores[s], want, 1e-15L * (8 + size_of(x + h, w) * (8 + (long double)w / 16)), "score");
        }
        tables.bias.data = apart + rows - 1;
        tables.bias.stride[2] = -1;
        tables.bias.stride[3] = rows;
        assert_ok(gyre_add_bias(
            e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &queries, .keys = &keys, .scores = other), NULL,
            NULL));
        assert_memory_equal(scores, again, sizeof scores);
        gyre_encoding_free(e);
    }
}

/* By hand: c = 1, L = 3, one unit 2 x - 1 with weight 4, and a bias of 0.5. psi(3) = 2 ln 2. */
static void case_computed_by_hand(void **state) {
    (void)state;
    const double table[6] = {1, 3, 2, -1, 4, 0.5};
    const gyre_tables tables = {.bias = gyre_cdense(table, GYRE_DTYPE_F64, 1, 1, 6, 1)};
    gyre_config config = WITH(GYRE_KIND_FIRE, .hidden_units = 1);
    config.heads = 1;
    gyre_encoding *e = test_encoding(&config);
    const gyre_positions one = {NULL, GYRE_DTYPE_I64, 1, 0, 0, 0, 0, 0}, zero = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
    double scores[16] = {0};
    const gyre_view view = gyre_dense(scores, GYRE_DTYPE_F64, 1, 1, 1, 4); /* query 1, keys 0 .. 3 */
    assert_ok(gyre_add_bias(
        e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &one, .keys = &zero, .scores = view), NULL, NULL));
    test_close(scores[0], 0.5, 1e-15L, "distance 1: x = 1 / 2, at the bend");
    test_close(scores[1], 0.5, 1e-15L, "distance 0");
    test_close(scores[2], 0.5, 1e-15L, "distance 1 ahead");
    test_close(scores[3], 0.5 + 4 * (logl(3) / logl(2) - 1), 1e-15L, "distance 2 ahead");
    const gyre_positions seven = {NULL, GYRE_DTYPE_I64, 7, 0, 0, 0, 0, 0};
    double far[1] = {0};
    const gyre_view last = gyre_dense(far, GYRE_DTYPE_F64, 1, 1, 1, 1);
    assert_ok(
        /* past L, the query's own position is used: x = 1 */
        gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &seven, .keys = &zero, .scores = last),
                      NULL, NULL));
    test_close(far[0], 4.5, 1e-15L, "first key of a far query");
    gyre_encoding_free(e);
}

/* -- gradients -- */

static long double loss(const double *x, int64_t width, const int64_t *q, const int64_t *k, const double *d) {
    long double sum = 0;
    for (int s = 0; s < SCORES; s++)
        sum += (long double)d[s] * formula(x + s / KEYS % HEADS, HEADS, width, q[s / (HEADS * KEYS)], k[s % KEYS]);
    return sum;
}

/* Steps are short enough that no pair crosses a kink of a ReLU. Sums are long double, so that short steps do not lose
 * precision. */
static void gradient_matches_differences(void **state) {
    (void)state;
    enum { WIDTH = 6, ROWS = 3 * WIDTH + 3 };
    static double d[SCORES];
    double x[ROWS * HEADS], got[ROWS * HEADS], twice[ROWS * HEADS];
    int64_t q[QUERIES], k[KEYS];
    test_random random = {17};
    gyre_encoding *e = fire(WIDTH);
    test_fill_f64(&random, x, ROWS * HEADS);
    for (int h = 0; h < HEADS; h++)
        x[h] = h == 1 ? -0.1 : 0.05 + 0.5 * h, x[HEADS + h] = h == 2 ? -40.5 : 512.25;
    place(&random, q, k);
    for (int i = 0; i < QUERIES; i++)
        q[i] = q[i] > 5000 ? 4000 : q[i]; /* large positions have their own test: these steps would be too long */
    k[KEYS - 1] = 5000;
    test_fill_f64(&random, d, SCORES);
    memset(got, 0, sizeof got);
    const gyre_tables tables = {.bias = gyre_cdense(x, GYRE_DTYPE_F64, 1, 1, ROWS, HEADS)};
    const gyre_table_gradients gradients = {.bias = gyre_dense(got, GYRE_DTYPE_F64, 1, 1, ROWS, HEADS)};
    const gyre_positions queries = {q, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0}, keys = {k, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
    const gyre_cview dscores = gyre_cdense(d, GYRE_DTYPE_F64, 1, QUERIES, HEADS, KEYS);
    assert_ok(gyre_add_bias_gradient(e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &queries, .keys = &keys),
                                     &dscores, &gradients, NULL, NULL));
    for (int i = 0; i < ROWS * HEADS; i++) {
        const double original = x[i], step = 1e-7;
        x[i] = original + step;
        const long double above = loss(x, WIDTH, q, k, d), high = x[i];
        x[i] = original - step;
        const long double want = (above - loss(x, WIDTH, q, k, d)) / (high - (long double)x[i]);
        x[i] = original;
        test_close(got[i], want, 1e-7L * (1 + fabsl(want)), "gradient");
    }
    memcpy(twice, got, sizeof twice);
    assert_ok(
        /* added to, not written */
        gyre_add_bias_gradient(e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &queries, .keys = &keys),
                               &dscores, &gradients, NULL, NULL));
    for (int i = 0; i < ROWS * HEADS; i++)
        test_close(got[i], 2 * twice[i], 1e-13L * (1 + fabsl((long double)twice[i])), "twice");
    gyre_encoding_free(e);
}

/* A ReLU at 0 has slope 0. The threshold has a gradient only for queries below it. A pair at distance 0 contributes only to
 * terms that do not depend on the distance. */
static void gradient_at_the_edges(void **state) {
    (void)state;
    enum { ROWS = 9 }; /* two units: one rises from x = 0, one has weight 0 */
    const double table[ROWS] = {0.5, 10, 2, 0, 0, 0.75, 3, -1, 0.25}, one = 1;
    double got[ROWS] = {0};
    gyre_config config = WITH(GYRE_KIND_FIRE, .hidden_units = 2);
    config.heads = 1;
    gyre_encoding *e = test_encoding(&config);
    const gyre_tables tables = {.bias = gyre_cdense(table, GYRE_DTYPE_F64, 1, 1, ROWS, 1)};
    const gyre_table_gradients gradients = {.bias = gyre_dense(got, GYRE_DTYPE_F64, 1, 1, ROWS, 1)};
    const gyre_cview d = gyre_cdense(&one, GYRE_DTYPE_F64, 1, 1, 1, 1);
    gyre_positions at = {NULL, GYRE_DTYPE_I64, 4, 0, 0, 0, 0, 0}, from = at;
    assert_ok(gyre_add_bias_gradient(e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &at, .keys = &from), &d,
                                     &gradients, NULL, NULL));
    const double still[ROWS] = {0, 0, 0, 0, 0, -1, 0, 0.75, 1};
    assert_memory_equal(got, still, sizeof got);
    for (int past = 0; past < 2;
         past++) { /* 3 positions before a query below the threshold, and before a query at the threshold */
        memset(got, 0, sizeof got);
        at.base = past ? 10 : 4;
        from.base = at.base - 3;
        assert_ok(gyre_add_bias_gradient(e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &at, .keys = &from),
                                         &d, &gradients, NULL, NULL));
        const double share = log(2.5) / log(6);
        test_close(got[2], 3 * share, 1e-15L, "weight");
        test_close(got[4], 3, 0, "bias");
        test_close(got[6], 2 * share, 1e-15L, "output");
        test_close(got[0], 6 * (3 / 2.5 / log(6) - share * 10 / 6 / log(6)), 1e-14L, "c");
        test_close(got[1], past ? 0 : -6 * share * 0.5 / 6 / log(6), 1e-15L, "threshold");
    }
    gyre_encoding_free(e);
}

/* -- tiles -- */

/* Attention's tiles in float: scores rounded once, the same for any tile width, and columns past the keys unchanged. */
static void tiles_agree(void **state) {
    (void)state;
    enum { M = 7, N = 150, LD = 160, WIDTH = 32, ROWS = 3 * WIDTH + 3 };
    static float tile[M * LD], cut[M * LD], before[M * LD];
    static double x[ROWS * HEADS];
    int64_t q[M], k[N];
    test_random random = {62};
    gyre_encoding *e = fire(0);
    fill_table(&random, WIDTH, x);
    const gyre_tables tables = {.bias = gyre_cdense(x, GYRE_DTYPE_F64, 1, 1, ROWS, HEADS)};
    for (int order = 0; order < 3; order++)
        for (int64_t h = 0; h < HEADS; h++) {
            test_fill(&random, tile, M * LD);
            memcpy(cut, tile, sizeof tile);
            memcpy(before, tile, sizeof tile);
            for (int i = 0; i < M; i++)
                q[i] = order == 1 ? (int64_t)(test_next(&random) % 100000) : 600 + i;
            for (int j = 0; j < N; j++)
                k[j] = order == 0 ? 500 + j : order == 1 ? (int64_t)(test_next(&random) % 100000) : 700 - j % 97;
            const gyre_bias_tile whole = {q, k, q, M, N, LD, tile, NULL, 0};
            e->scheme->bias_tile(e, &tables, h, &whole);
            for (int i = 0; i < M; i++)
                for (int j = 0; j < N; j++) {
                    const gyre_bias_tile one = {q + i, k + j, q + i, 1, 1, LD, cut + i * LD + j, NULL, 0};
                    e->scheme->bias_tile(e, &tables, h, &one);
                    const long double b = formula(x + h, HEADS, WIDTH, q[i], k[j]);
                    const long double want = (long double)before[i * LD + j] + b;
                    test_close((long double)tile[i * LD + j], want, 0x1p-24L * (fabsl(b) + fabsl(want) + 1e-6L), "tile");
                }
            assert_memory_equal(tile, cut, sizeof tile);
        }
    gyre_encoding_free(e);
}

/* -- laws and bad input -- */

/* Below the threshold only distances matter. Above it the query's position matters too. */
static void shifts_below_the_threshold(void **state) {
    (void)state;
    double x[9 * HEADS], here[4 * HEADS * 4] = {0}, there[4 * HEADS * 4] = {0};
    test_random random = {5};
    gyre_encoding *e = fire(2);
    test_fill_f64(&random, x, 9 * HEADS);
    for (int h = 0; h < HEADS; h++)
        x[h] = 0.3, x[HEADS + h] = 100, x[2 * HEADS + h] = 1, x[4 * HEADS + h] = 0.5, x[6 * HEADS + h] = 1;
    const gyre_tables tables = {.bias = gyre_cdense(x, GYRE_DTYPE_F64, 1, 1, 9, HEADS)};
    const gyre_positions zero = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0}, near = {NULL, GYRE_DTYPE_I64, 90, 0, 0, 0, 0, 0};
    const gyre_positions far = {NULL, GYRE_DTYPE_I64, 200, 0, 0, 0, 0, 0};
    const gyre_view a = gyre_dense(here, GYRE_DTYPE_F64, 1, 4, HEADS, 4),
                    b = gyre_dense(there, GYRE_DTYPE_F64, 1, 4, HEADS, 4);
    assert_ok(gyre_add_bias(
        e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &zero, .keys = &zero, .scores = a), NULL, NULL));
    assert_ok(gyre_add_bias(
        e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &near, .keys = &near, .scores = b), NULL, NULL));
    assert_memory_equal(here, there, sizeof here);
    memset(there, 0, sizeof there);
    assert_ok(gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &far, .keys = &far, .scores = b),
                            NULL, NULL));
    assert_true(fabs(here[1] - there[1]) > 1e-6);
    gyre_encoding_free(e);
}

/* A table of NaNs, as after a failed step, gives NaN, and the call returns. */
static void nan_propagates(void **state) {
    (void)state;
    enum { ROWS = 9 };
    gyre_encoding *e = fire(2);
    const gyre_positions zero = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
    for (int row = 0; row < ROWS; row++) {
        double x[ROWS * HEADS], got[ROWS * HEADS] = {0}, scores[4 * HEADS * 4] = {0};
        for (int i = 0; i < ROWS * HEADS; i++)
            x[i] = i / HEADS == row ? NAN : 0.5;
        const gyre_tables tables = {.bias = gyre_cdense(x, GYRE_DTYPE_F64, 1, 1, ROWS, HEADS)};
        const gyre_table_gradients gradients = {.bias = gyre_dense(got, GYRE_DTYPE_F64, 1, 1, ROWS, HEADS)};
        const gyre_view view = gyre_dense(scores, GYRE_DTYPE_F64, 1, 4, HEADS, 4);
        assert_ok(gyre_add_bias(
            e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &zero, .keys = &zero, .scores = view), NULL,
            NULL));
        for (int i = 0; i < 4 * HEADS * 4; i++)
            assert_true(isnan(scores[i]));
        const gyre_cview d = gyre_const(view);
        assert_ok(gyre_add_bias_gradient(e,
                                         GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &zero, .keys = &zero),
                                         &d, &gradients, NULL, NULL));
        assert_true(isnan(got[(ROWS - 1) * HEADS]));
    }
    gyre_encoding_free(e);
}

static void bad_input(void **state) {
    (void)state;
    static const bad_config bad[] = {{WITH(GYRE_KIND_FIRE, .hidden_units = 4), 0, "heads"},
                                     {WITH(GYRE_KIND_FIRE, .hidden_units = 257), 2, "score.hidden_units"},
                                     {WITH(GYRE_KIND_FIRE, .hidden_units = -1), 2, "score.hidden_units"},
                                     {WITH(GYRE_KIND_FIRE, .terms = GYRE_TERM_QUERY), 2, "score.terms"}};
    assert_configs_refused(bad, sizeof bad / sizeof *bad);
    double x[9 * HEADS] = {0}, scores[HEADS] = {1, 2, 3};
    const double was[HEADS] = {1, 2, 3};
    gyre_encoding *e = fire(2);
    int64_t row = -7;
    gyre_tables tables = {.bias = gyre_cdense(x, GYRE_DTYPE_F64, 1, 1, 8, HEADS)};
    const gyre_positions zero = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
    const gyre_view view = gyre_dense(scores, GYRE_DTYPE_F64, 1, 1, HEADS, 1);
    assert_int_equal(
        gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &zero, .keys = &zero, .scores = view),
                      NULL, NULL),
        GYRE_ESHAPE);
    tables.bias = gyre_cdense(x, GYRE_DTYPE_F16, 1, 1, 9, HEADS);
    assert_int_equal(
        gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &zero, .keys = &zero, .scores = view),
                      NULL, NULL),
        GYRE_EDTYPE);
    assert_int_equal(
        gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .queries = &zero, .keys = &zero, .scores = view), NULL, NULL),
        GYRE_EINVAL);
    assert_memory_equal(scores, was, sizeof was);
    assert_int_equal(gyre_encoding_row(e, 0, 0, &row), GYRE_EUNSUPPORTED);
    assert_int_equal(row, -7);
    gyre_encoding_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_formula),
        cmocka_unit_test(case_computed_by_hand),
        cmocka_unit_test(gradient_matches_differences),
        cmocka_unit_test(gradient_at_the_edges),
        cmocka_unit_test(tiles_agree),
        cmocka_unit_test(shifts_below_the_threshold),
        cmocka_unit_test(nan_propagates),
        cmocka_unit_test(bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
