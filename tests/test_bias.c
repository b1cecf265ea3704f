/* test_bias.c: ALiBi's slopes and what they add to scores. */
#include "core/encoding.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static gyre_encoding *alibi(int64_t heads, const double *slopes) {
    gyre_config config = GYRE_CONFIG_INIT;
    config.kind = GYRE_ALIBI;
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
        assert_ok(gyre_encoding_slopes(e, got));
        for (int64_t h = 0; h < heads; h++)
            test_close(got[h], want[h], 1e-15L * (long double)want[h], "slope");
        gyre_encoding_free(e);
    }
    json_decref(cases);
}

static void slopes_of_the_caller_are_copied(void **state) {
    (void)state;
    double given[3] = {0.25, -1.5, 0}, got[3];
    gyre_encoding *e = alibi(3, given);
    given[0] = NAN;
    assert_ok(gyre_encoding_slopes(e, got));
    assert_true(got[0] == 0.25 && got[1] == -1.5 && got[2] == 0);
    gyre_encoding_free(e);
    gyre_config nope = GYRE_CONFIG_INIT;
    e = test_encoding(&nope);
    assert_int_equal(gyre_encoding_slopes(e, got), GYRE_EUNSUPPORTED);
    gyre_encoding_free(e);
}

enum { BATCH = 2, QUERIES = 5, HEADS = 3, KEYS = 300, ALL = BATCH * QUERIES * HEADS * KEYS };
static const double slopes[HEADS] = {0.5, 1.0 / 3, 0.00390625};

/* Dense, then with the keys apart and backwards, by one thread and by three. */
static void every_score_gets_its_bias(void **state) {
    (void)state;
    static const gyre_dtype types[] = {GYRE_F32, GYRE_F16, GYRE_BF16, GYRE_F64};
    static double x[ALL], want[ALL], wide[2 * ALL];
    int64_t q[BATCH][QUERIES], k[BATCH][KEYS];
    test_random random = {31};
    for (int i = 0; i < BATCH * QUERIES; i++)
        q[i / QUERIES][i % QUERIES] = (int64_t)(test_next(&random) % 500) - 100;
    for (int i = 0; i < BATCH * KEYS; i++)
        k[i / KEYS][i % KEYS] = (int64_t)(test_next(&random) % 500) - 100;
    k[0][3] = -GYRE_MAX_POSITION;
    q[0][0] = GYRE_MAX_POSITION;
    const gyre_positions queries = {q, GYRE_I64, 0, 0, QUERIES, 1, 0}, keys = {k, GYRE_I64, 0, 0, KEYS, 1, 0};
    gyre_encoding *e = alibi(HEADS, slopes);
    gyre_pool *pool;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    for (int type = 0; type < 4; type++) {
        const size_t size = gyre_dtype_size(types[type]);
        for (int i = 0; i < ALL; i++) {
            const int b = i / (QUERIES * HEADS * KEYS), m = i / (HEADS * KEYS) % QUERIES, h = i / KEYS % HEADS, n = i % KEYS;
            test_put(x, types[type], (size_t)i, test_uniform(&random));
            test_put(want, types[type], (size_t)i,
                     test_get(x, types[type], (size_t)i) - slopes[h] * fabs((double)q[b][m] - (double)k[b][n]));
            memcpy((char *)wide + (size_t)(2 * (ALL - 1 - i)) * size, (char *)x + (size_t)i * size, size);
        }
        const gyre_view dense = gyre_dense(x, types[type], BATCH, QUERIES, HEADS, KEYS);
        gyre_view backwards = gyre_dense((char *)wide + 2 * (ALL - 1) * size, types[type], BATCH, QUERIES, HEADS, KEYS);
        for (int d = 0; d < 4; d++)
            backwards.stride[d] *= -2;
        assert_ok(gyre_bias_add(e, NULL, &queries, &keys, &dense, NULL));
        assert_memory_equal(x, want, ALL * size);
        assert_ok(gyre_bias_add(e, NULL, &queries, &keys, &backwards, &exec));
        for (size_t i = 0; i < ALL; i++)
            assert_memory_equal((char *)wide + 2 * (ALL - 1 - i) * size, (char *)want + i * size, size);
    }
    gyre_pool_free(pool);
    gyre_encoding_free(e);
}

/* Attention's tiles, in float: within the rounding of slope, distance, product and sum, and the same for any cut. */
static void tiles_agree(void **state) {
    (void)state;
    enum { M = 7, N = 37, LD = 48 };
    int64_t q[M], k[N], nearest[M];
    static float tile[M * LD], cut[M * LD], before[M * LD];
    test_random random = {32};
    gyre_encoding *e = alibi(HEADS, slopes);
    for (int far = 0; far < 2; far++)
        for (int64_t h = 0; h < HEADS; h++) {
            test_fill(&random, tile, M * LD);
            memcpy(cut, tile, sizeof tile);
            memcpy(before, tile, sizeof tile);
            for (int i = 0; i < M; i++)
                q[i] = far && i == 0 ? -GYRE_MAX_POSITION : (int64_t)(test_next(&random) % 100000);
            for (int j = 0; j < N; j++)
                k[j] = far && j == 1 ? GYRE_MAX_POSITION : (int64_t)(test_next(&random) % 100000);
            for (int i = 0; i < M; i++)
                nearest[i] = i % 2 ? q[i] : k[i];
            const gyre_tile whole = {q, k, nearest, M, N, LD, tile};
            e->scheme->score_tile(e, NULL, h, &whole);
            for (int i = 0; i < M; i++)
                for (int j = 0; j < N; j++) {
                    const gyre_tile one = {q + i, k + j, nearest + i, 1, 1, LD, cut + i * LD + j};
                    e->scheme->score_tile(e, NULL, h, &one);
                    const double bias =
                        -slopes[h] * (fabs((double)q[i] - (double)k[j]) - fabs((double)q[i] - (double)nearest[i]));
                    const double want = (double)before[i * LD + j] + bias;
                    test_close((long double)tile[i * LD + j], want, 4 * 0x1p-24 * (fabs(bias) + fabs(want)), "tile");
                }
            assert_memory_equal(tile, cut, sizeof tile); /* the columns past the keys, too: untouched */
        }
    gyre_encoding_free(e);
}

static void nothing_to_bias(void **state) {
    (void)state;
    float x[8];
    gyre_encoding *e = alibi(2, NULL);
    const gyre_positions good = {NULL, GYRE_I64, 0, 0, 0, 0, 0};
    const int64_t wide = (int64_t)1 << 62, shapes[][3] = {{2, 3, 0}, {2, 0, 3}, {0, 2, 3}, {wide, 4, 0}, {0, wide, wide}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const gyre_view scores = gyre_dense(i % 2 ? x : NULL, GYRE_F32, shapes[i][0], shapes[i][1], 2, shapes[i][2]);
        assert_ok(gyre_bias_add(e, NULL, &good, &good, &scores, NULL));
    }
    gyre_encoding_free(e);
}

static void wrong_arguments(void **state) {
    (void)state;
    float x[2 * 3 * 4] = {0}, before[2 * 3 * 4] = {0};
    gyre_encoding *e = alibi(3, NULL);
    const gyre_positions good = {NULL, GYRE_I64, 0, 0, 0, 0, 0}, far = {NULL, GYRE_I64, GYRE_MAX_POSITION - 2, 0, 0, 0, 0};
    const gyre_view scores = gyre_dense(x, GYRE_F32, 1, 2, 3, 4);
    gyre_view bad = gyre_dense(x, GYRE_F32, 1, 2, 4, 3);
    assert_int_equal(gyre_bias_add(e, NULL, &good, &good, &bad, NULL), GYRE_ESHAPE);
    bad = scores;
    bad.dtype = GYRE_I64;
    assert_int_equal(gyre_bias_add(e, NULL, &good, &good, &bad, NULL), GYRE_EDTYPE);
    bad = scores;
    bad.data = NULL;
    assert_int_equal(gyre_bias_add(e, NULL, &good, &good, &bad, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_bias_add(e, NULL, &good, NULL, &scores, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_bias_add(e, NULL, &good, &far, &scores, NULL), GYRE_ERANGE); /* 4 keys reach past 2^31 */
    assert_memory_equal(x, before, sizeof x);
    assert_ok(gyre_bias_add(e, NULL, &far, &good, &scores, NULL)); /* 2 queries do not */
    gyre_encoding_free(e);
    const gyre_config rope = test_rope_config(4, GYRE_HALF);
    e = test_encoding(&rope);
    assert_int_equal(gyre_bias_add(e, NULL, &good, &good, &scores, NULL), GYRE_EUNSUPPORTED);
    gyre_encoding_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slopes_agree_with_reference),
        cmocka_unit_test(slopes_of_the_caller_are_copied),
        cmocka_unit_test(every_score_gets_its_bias),
        cmocka_unit_test(tiles_agree),
        cmocka_unit_test(nothing_to_bias),
        cmocka_unit_test(wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
