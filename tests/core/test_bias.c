/* test_bias.c: ALiBi's slopes, and the bias added to scores. */
#include "core/encoding.h"
#include "core/positions.h"
#include "core/scheme.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static gyre_encoding *alibi(int64_t heads, const double *slopes) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ALIBI;
    config.heads = heads;
    config.score.slopes = slopes;
    return test_encoding(&config);
}

static void slopes_agree_with_reference(void **state) {
    (void)state;
    json_t *cases = test_reference("slopes.json"), *c;
    size_t index;
    json_array_foreach(cases, index, c) {
        double want[256], got[256];
        const int64_t heads = test_integer(c, "heads");
        assert_int_equal(test_numbers(c, "slopes", want, 256), heads);
        gyre_encoding *e = alibi(heads, NULL);
        assert_ok(gyre_encoding_slopes(e, 0, got));
        for (int64_t h = 0; h < heads; h++)
            test_close(got[h], want[h], 1e-15L * (long double)want[h], "slope");
        gyre_encoding_free(e);
    }
    json_decref(cases);
}

static void caller_slopes_are_copied(void **state) {
    (void)state;
    double given[3] = {0.25, -1.5, 0}, got[3];
    gyre_encoding *e = alibi(3, given);
    given[0] = NAN;
    assert_ok(gyre_encoding_slopes(e, 0, got));
    assert_true(got[0] == 0.25 && got[1] == -1.5 && got[2] == 0);
    gyre_encoding_free(e);
    gyre_config nope = GYRE_INIT(gyre_config);
    nope.kind = GYRE_KIND_NOPE;
    e = test_encoding(&nope);
    assert_int_equal(gyre_encoding_slopes(e, 0, got), GYRE_EUNSUPPORTED);
    gyre_encoding_free(e);
}

/* As MPT computes them: 2^(-most k / n) for the next power of two n. If heads is not a power of two, even k come first. */
static void mpt_slopes(int64_t heads, double most, double *out) {
    int64_t n = 1, at = 0;
    while (n < heads)
        n *= 2;
    for (int64_t k = 2; n != heads && k <= n && at < heads; k += 2)
        out[at++] = pow(2, -most * (double)k / (double)n);
    for (int64_t k = 1; k <= n && at < heads; k += n != heads ? 2 : 1)
        out[at++] = pow(2, -most * (double)k / (double)n);
}

static void slopes_with_another_maximum(void **state) {
    (void)state;
    static const double most[] = {8, 4, 16, 0.5};
    for (int64_t heads = 1; heads < 130; heads += heads < 20 ? 1 : 13)
        for (int i = 0; i < 4; i++) {
            double want[256], got[256], paper[256];
            gyre_config config = GYRE_INIT(gyre_config);
            config.kind = GYRE_KIND_ALIBI;
            config.heads = heads;
            config.score.max_bias = most[i];
            gyre_encoding *e = test_encoding(&config), *plain = alibi(heads, NULL);
            mpt_slopes(heads, most[i], want);
            assert_ok(gyre_encoding_slopes(e, 0, got));
            assert_ok(gyre_encoding_slopes(plain, 0, paper));
            for (int64_t h = 0; h < heads; h++)
                test_close(got[h], want[h], 1e-15L * (long double)want[h], "slope");
            if (i == 0) assert_memory_equal(got, paper, (size_t)heads * sizeof *got);
            gyre_encoding_free(plain);
            gyre_encoding_free(e);
        }
}

/* Falcon adds the bias before the scale, so the reported slopes are divided by sqrt(head_dim). The encoding's config must
 * create the same encoding again. */
static void bias_before_the_scale(void **state) {
    (void)state;
    const double given[3] = {0.25, -1.5, 0}, after[3] = {1, 2, 3};
    double got[3], scores[9] = {0}, again[9] = {0};
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ALIBI;
    config.heads = 3;
    config.head_dim = 80;
    config.score.before_scale = 1;
    config.score.slopes = given;
    config.score.slopes_after = after;
    gyre_encoding *e = test_encoding(&config), *twin = test_encoding(gyre_encoding_get_config(e));
    assert_ok(gyre_encoding_slopes(e, 0, got));
    for (int h = 0; h < 3; h++)
        test_close(got[h], given[h] / sqrtl(80), 1e-16L, "slope");
    const gyre_positions one = {NULL, GYRE_DTYPE_I64, 1, 0, 0, 0, 0, 0}, zero = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
    const gyre_view a = gyre_dense(scores, GYRE_DTYPE_F64, 1, 1, 3, 3), b = gyre_dense(again, GYRE_DTYPE_F64, 1, 1, 3, 3);
    assert_ok(gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .queries = &one, .keys = &zero, .scores = a), NULL, NULL));
    assert_ok(gyre_add_bias(twin, GYRE_ARGS(gyre_add_bias_args, .queries = &one, .keys = &zero, .scores = b), NULL, NULL));
    for (int h = 0; h < 3; h++) {
        test_close(scores[3 * h], -given[h] / sqrtl(80), 1e-16L, "before");
        assert_true(scores[3 * h + 1] == 0);
        test_close(scores[3 * h + 2], -after[h] / sqrtl(80), 1e-15L, "after");
    }
    assert_memory_equal(scores, again, sizeof scores);
    gyre_encoding_free(twin);
    gyre_encoding_free(e);
}

static void creation_errors(void **state) {
    (void)state;
    static const double good[2] = {1, 2}, nan[2] = {1, NAN}, infinite[2] = {-INFINITY, 1}, huge[2] = {1, 0x1p65};
    static const struct {
        struct gyre_score_config score;
        int64_t heads, head_dim;
        const char *field;
    } bad[] = {{{.slopes = nan}, 2, 4, "score.slopes[1]: nan"},
               {{.slopes = infinite}, 2, 4, "score.slopes[0]: -inf"},
               {{.slopes = huge}, 2, 4, "score.slopes[1]"},
               {{.slopes = good, .slopes_after = nan}, 2, 4, "score.slopes_after[1]: nan"},
               {{.slopes_after = infinite}, 2, 4, "score.slopes_after[0]: -inf"},
               {{.max_bias = NAN}, 2, 4, "score.max_bias: nan"},
               {{.max_bias = INFINITY}, 2, 4, "score.max_bias: inf"},
               {{.max_bias = -8}, 2, 4, "score.max_bias: -8"},
               {{.before_scale = 1}, 2, 0, "head_dim"},
               {{.max_bias = 8}, 0, 4, "heads"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gyre_config config = GYRE_INIT(gyre_config);
        gyre_encoding *e = NULL;
        gyre_error err = {0, ""};
        config.kind = GYRE_KIND_ALIBI;
        config.heads = bad[i].heads;
        config.head_dim = bad[i].head_dim;
        config.score = bad[i].score;
        assert_int_equal(gyre_encoding_create(&e, &config, NULL, &err), GYRE_EINVAL);
        assert_null(e);
        if (strncmp(err.text, bad[i].field, strlen(bad[i].field)) != 0) fail_msg("case %zu: %s", i, err.text);
    }
}

enum { BATCH = 2, QUERIES = 5, HEADS = 3, KEYS = 300, ALL = BATCH * QUERIES * HEADS * KEYS };
static const double slopes[HEADS] = {0.5, 1.0 / 3, 0.00390625};

/* Dense, then with gaps between keys and in reverse; on one thread and on three. */
static void bias_is_added_to_every_score(void **state) {
    (void)state;
    static double x[ALL], want[ALL], wide[2 * ALL];
    int64_t q[BATCH][QUERIES], k[BATCH][KEYS];
    test_random random = {31};
    for (int i = 0; i < BATCH * QUERIES; i++)
        q[i / QUERIES][i % QUERIES] = (int64_t)(test_next(&random) % 500) - 100;
    for (int i = 0; i < BATCH * KEYS; i++)
        k[i / KEYS][i % KEYS] = (int64_t)(test_next(&random) % 500) - 100;
    k[0][3] = -GYRE_MAX_POSITION;
    q[0][0] = GYRE_MAX_POSITION;
    const gyre_positions queries = {q, GYRE_DTYPE_I64, 0, 0, QUERIES, 1, 0, 0},
                         keys = {k, GYRE_DTYPE_I64, 0, 0, KEYS, 1, 0, 0};
    gyre_encoding *e = alibi(HEADS, slopes);
    gyre_pool *pool;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    for (int type = 0; type < 4; type++) {
        const size_t size = gyre_dtype_size(test_dtypes[type]);
        for (int i = 0; i < ALL; i++) {
            const int b = i / (QUERIES * HEADS * KEYS), m = i / (HEADS * KEYS) % QUERIES, h = i / KEYS % HEADS, n = i % KEYS;
            test_put(x, test_dtypes[type], (size_t)i, test_uniform(&random));
            test_put(want, test_dtypes[type], (size_t)i,
                     test_get(x, test_dtypes[type], (size_t)i) - slopes[h] * fabs((double)q[b][m] - (double)k[b][n]));
            memcpy((char *)wide + (size_t)(2 * (ALL - 1 - i)) * size, (char *)x + (size_t)i * size, size);
        }
        const gyre_view dense = gyre_dense(x, test_dtypes[type], BATCH, QUERIES, HEADS, KEYS);
        gyre_view backwards =
            gyre_dense((char *)wide + 2 * (ALL - 1) * size, test_dtypes[type], BATCH, QUERIES, HEADS, KEYS);
        for (int d = 0; d < 4; d++)
            backwards.stride[d] *= -2;
        assert_ok(gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .queries = &queries, .keys = &keys, .scores = dense), NULL,
                                NULL));
        assert_memory_equal(x, want, ALL * size);
        assert_ok(gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .queries = &queries, .keys = &keys, .scores = backwards),
                                &exec, NULL));
        for (size_t i = 0; i < ALL; i++)
            assert_memory_equal((char *)wide + 2 * (ALL - 1 - i) * size, (char *)want + i * size, size);
    }
    gyre_pool_free(pool);
    gyre_encoding_free(e);
}

/* Attention's tiles, in float: within the rounding of slope, distance, product and difference, and the same for any tile
 * width. `nearest` is a key with keys on both sides of the query, whose later keys have slopes of their own. */
static void check_tiles(const double *after) {
    enum { M = 7, N = 37, LD = 48 };
    int64_t q[M], k[N], nearest[M];
    static float tile[M * LD], cut[M * LD], before[M * LD];
    test_random random = {32};
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ALIBI;
    config.heads = HEADS;
    config.score.slopes = slopes;
    config.score.slopes_after = after;
    gyre_encoding *e = test_encoding(&config);
    for (int far = 0; far < 2; far++)
        for (int64_t h = 0; h < HEADS; h++) {
            const double slope[2] = {slopes[h], after ? after[h] : slopes[h]};
            test_fill(&random, tile, M * LD);
            memcpy(cut, tile, sizeof tile);
            memcpy(before, tile, sizeof tile);
            for (int i = 0; i < M; i++)
                q[i] = far && i == 0 ? -GYRE_MAX_POSITION : (int64_t)(test_next(&random) % 100000);
            for (int j = 0; j < N; j++)
                k[j] = far && j == 1 ? GYRE_MAX_POSITION : (int64_t)(test_next(&random) % 100000);
            for (int i = 0; i < M; i++)
                nearest[i] = i % 2 ? q[i] : k[i];
            const gyre_bias_tile whole = {q, k, nearest, M, N, LD, tile, NULL, 0};
            e->scheme->bias_tile(e, NULL, h, &whole);
            for (int i = 0; i < M; i++)
                for (int j = 0; j < N; j++) {
                    const gyre_bias_tile one = {q + i, k + j, nearest + i, 1, 1, LD, cut + i * LD + j, NULL, 0};
                    e->scheme->bias_tile(e, NULL, h, &one);
                    const double bias = slope[nearest[i] > q[i]] * fabs((double)q[i] - (double)nearest[i]) -
                                        slope[k[j] > q[i]] * fabs((double)q[i] - (double)k[j]);
                    const double want = (double)before[i * LD + j] + bias;
                    test_close((long double)tile[i * LD + j], want, 4 * 0x1p-24 * (fabs(bias) + fabs(want)), "tile");
                }
            assert_memory_equal(tile, cut, sizeof tile); /* the columns past the keys must not change */
        }
    gyre_encoding_free(e);
}

static void tiles_agree(void **state) {
    (void)state;
    static const double after[HEADS] = {0.125, 2.0 / 3, 0};
    check_tiles(NULL);
    check_tiles(after);
}

/* -- slopes past the trained length -- */

/* The rules as their sources state them: every slope divided by a; m_h = 1 / (2^(8h/H) a^((h-1)/(H-1))) for a power of two
 * of heads; and, for other numbers, the loop of the released code. */
static double stretched(gyre_slope_scaling scaling, int64_t heads, int64_t h, double a) {
    double paper[256], least = 1, most = 0;
    int64_t power = 1;
    mpt_slopes(heads, 8, paper);
    while (2 * power <= heads)
        power *= 2;
    for (int64_t i = 0; i < heads; i++) {
        least = fmin(least, paper[i]);
        most = fmax(most, paper[i]);
    }
    if (scaling == GYRE_SLOPE_SCALING_LINEAR) return paper[h] / a;
    if (scaling == GYRE_SLOPE_SCALING_NTK && power != heads)
        return paper[h] * pow(a, -log2(paper[h] / most) / log2(least / most));
    if (h >= power) return paper[h];
    return 1 / (pow(2, 8 * (double)(h + 1) / (double)power) * pow(a, (double)h / (double)(heads - 1)));
}

static gyre_config stretched_config(gyre_slope_scaling scaling, int64_t heads, double factor) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ALIBI;
    config.heads = heads;
    config.trained_length = 100;
    config.score.slope_scaling = scaling;
    config.score.slope_factor = factor;
    return config;
}

static void slopes_past_the_trained_length(void **state) {
    (void)state;
    static const int64_t head_counts[] = {2, 3, 8, 12, 32, 40}, lengths[] = {0, 1, 100, 101, 250, 1600};
    for (int scaling = GYRE_SLOPE_SCALING_LINEAR; scaling <= GYRE_SLOPE_SCALING_NTK_RELEASED; scaling++)
        for (size_t n = 0; n < sizeof head_counts / sizeof *head_counts; n++)
            for (int is_static = 0; is_static < 2; is_static++) {
                const int64_t heads = head_counts[n];
                const gyre_config config = stretched_config((gyre_slope_scaling)scaling, heads, is_static ? 3 : 0);
                gyre_encoding *e = test_encoding(&config), *twin = test_encoding(gyre_encoding_get_config(e));
                for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
                    double got[64], again[64];
                    const double a = is_static ? 3 : fmax(1, (double)lengths[l] / 100);
                    assert_ok(gyre_encoding_slopes(e, lengths[l], got));
                    assert_ok(gyre_encoding_slopes(twin, lengths[l], again));
                    assert_memory_equal(got, again, (size_t)heads * sizeof *got);
                    for (int64_t h = 0; h < heads; h++) {
                        const double want = stretched((gyre_slope_scaling)scaling, heads, h, a);
                        test_close(got[h], want, 4e-15L * (long double)want, "slope");
                    }
                }
                gyre_encoding_free(twin);
                gyre_encoding_free(e);
            }
}

/* The bias at a length that the call names, or that the encoding has. */
static void bias_follows_the_length(void **state) {
    (void)state;
    gyre_config config = stretched_config(GYRE_SLOPE_SCALING_LINEAR, 2, 0);
    config.context_length = 200;
    gyre_encoding *e = test_encoding(&config);
    for (int64_t length = 0; length <= 800; length += 400) {
        double scores[2] = {0};
        const gyre_positions query = {.base = 10, .context_length = length}, key = {0};
        const gyre_view view = gyre_dense(scores, GYRE_DTYPE_F64, 1, 1, 2, 1);
        assert_ok(
            gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .queries = &query, .keys = &key, .scores = view), NULL, NULL));
        const double a = length ? (double)length / 100 : 2;
        for (int h = 0; h < 2; h++)
            test_close(scores[h], -10 * pow(2, -4 * (h + 1)) / a, 1e-15L, "score");
    }
    gyre_encoding_free(e);
}

static void refuse_stretched(gyre_config config, const char *says) {
    gyre_encoding *e = NULL;
    gyre_error err = {0, ""};
    assert_int_equal(gyre_encoding_create(&e, &config, NULL, &err), GYRE_EINVAL);
    if (!strstr(err.text, says)) fail_msg("\"%s\" lacks \"%s\"", err.text, says);
}

static void wrong_scalings(void **state) {
    (void)state;
    static const double equal[2] = {0.5, 0.5}, below[2] = {0.5, -1};
    refuse_stretched(stretched_config((gyre_slope_scaling)4, 8, 2),
                     "score.slope_scaling: 4 is not one of none, linear, ntk, ntk-released");
    refuse_stretched(stretched_config(GYRE_SLOPE_SCALING_LINEAR, 8, 0.5), "score.slope_factor: 0.5");
    refuse_stretched(stretched_config(GYRE_SLOPE_SCALING_LINEAR, 8, NAN), "score.slope_factor: ");
    refuse_stretched(stretched_config(GYRE_SLOPE_SCALING_NTK, 1, 2), "heads: 1;");
    gyre_config config = stretched_config(GYRE_SLOPE_SCALING_LINEAR, 8, 0);
    config.trained_length = 0;
    refuse_stretched(config, "trained_length: missing");
    config.trained_length = 100;
    config.length_policy = (gyre_length_policy)3;
    refuse_stretched(config, "length_policy: 3");
    config = stretched_config(GYRE_SLOPE_SCALING_NTK, 2, 2);
    config.score.slopes = equal;
    refuse_stretched(config, "score.slopes: from 0.5 to 0.5");
    config.score.slopes = below;
    refuse_stretched(config, "score.slopes: from -1 to 0.5");
    double got[8];
    gyre_encoding *e = alibi(8, NULL);
    assert_int_equal(gyre_encoding_slopes(e, -1, got), GYRE_EINVAL);
    gyre_encoding_free(e);
}

static void empty_scores(void **state) {
    (void)state;
    float x[8];
    gyre_encoding *e = alibi(2, NULL);
    const gyre_positions good = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
    const int64_t wide = (int64_t)1 << 62, shapes[][3] = {{2, 3, 0}, {2, 0, 3}, {0, 2, 3}, {wide, 4, 0}, {0, wide, wide}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const gyre_view scores = gyre_dense(i % 2 ? x : NULL, GYRE_DTYPE_F32, shapes[i][0], shapes[i][1], 2, shapes[i][2]);
        assert_ok(
            gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .queries = &good, .keys = &good, .scores = scores), NULL, NULL));
    }
    gyre_encoding_free(e);
}

static void wrong_arguments(void **state) {
    (void)state;
    float x[2 * 3 * 4] = {0}, before[2 * 3 * 4] = {0};
    gyre_encoding *e = alibi(3, NULL);
    const gyre_positions good = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0},
                         far = {NULL, GYRE_DTYPE_I64, GYRE_MAX_POSITION - 2, 0, 0, 0, 0, 0};
    const gyre_view scores = gyre_dense(x, GYRE_DTYPE_F32, 1, 2, 3, 4);
    gyre_view bad = gyre_dense(x, GYRE_DTYPE_F32, 1, 2, 4, 3);
    assert_int_equal(
        gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .queries = &good, .keys = &good, .scores = bad), NULL, NULL),
        GYRE_ESHAPE);
    bad = scores;
    bad.dtype = GYRE_DTYPE_I64;
    assert_int_equal(
        gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .queries = &good, .keys = &good, .scores = bad), NULL, NULL),
        GYRE_EDTYPE);
    bad = scores;
    bad.data = NULL;
    assert_int_equal(
        gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .queries = &good, .keys = &good, .scores = bad), NULL, NULL),
        GYRE_EINVAL);
    assert_int_equal(gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .queries = &good, .scores = scores), NULL, NULL),
                     GYRE_EINVAL);
    /* 4 keys go past 2^31 */
    assert_int_equal(
        gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .queries = &good, .keys = &far, .scores = scores), NULL, NULL),
        GYRE_ERANGE);
    assert_memory_equal(x, before, sizeof x);
    /* 2 queries do not */
    assert_ok(gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .queries = &far, .keys = &good, .scores = scores), NULL, NULL));
    gyre_encoding_free(e);
    const gyre_config rope = test_rope_config(4, GYRE_LAYOUT_HALF);
    e = test_encoding(&rope);
    assert_int_equal(
        gyre_add_bias(e, GYRE_ARGS(gyre_add_bias_args, .queries = &good, .keys = &good, .scores = scores), NULL, NULL),
        GYRE_EUNSUPPORTED);
    gyre_encoding_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slopes_agree_with_reference),
        cmocka_unit_test(caller_slopes_are_copied),
        cmocka_unit_test(slopes_with_another_maximum),
        cmocka_unit_test(bias_before_the_scale),
        cmocka_unit_test(creation_errors),
        cmocka_unit_test(bias_is_added_to_every_score),
        cmocka_unit_test(tiles_agree),
        cmocka_unit_test(slopes_past_the_trained_length),
        cmocka_unit_test(bias_follows_the_length),
        cmocka_unit_test(wrong_scalings),
        cmocka_unit_test(empty_scores),
        cmocka_unit_test(wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
