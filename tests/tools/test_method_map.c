/* test_method_map.c: the angles of a method by pair and distance, against formulas computed here. */
#include "naive_chunks.h"
#include "tools/common/method_map.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DIM = 16, PAIRS = DIM / 2, COLUMNS = 33 };

static gyre_error err;

static gyre_config rope(double base) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = DIM;
    config.rope.base = base;
    return config;
}

static method_map map_of(const char *text, double base, int64_t trained, int64_t length, double longest) {
    const gyre_config config = rope(base);
    method m;
    method_map map;
    assert_int_equal(method_parse(text, &m, &err), GYRE_OK);
    const method_map_range range = {length, COLUMNS, longest};
    if (method_map_of_method(&m, &config, trained, NULL, &range, &map, &err)) fail_msg("%s", err.text);
    assert_int_equal(map.pairs, PAIRS);
    assert_int_equal(map.columns, COLUMNS);
    return map;
}

static void check_close(double value, double expected) {
    if (!(fabs(value - expected) <= 1e-9 * fmax(1, fabs(expected)))) fail_msg("%.17g instead of %.17g", value, expected);
}

/* inv_freq as the papers have it. */
static double near_frequency(const char *text, double base, double factor, int pair) {
    if (strcmp(text, "linear") == 0) return pow(base, -2.0 * pair / DIM) / factor;
    if (strcmp(text, "ntk") == 0) base *= pow(factor, (double)DIM / (DIM - 2));
    return pow(base, -2.0 * pair / DIM);
}

static void any_base_and_length(void **state) {
    (void)state;
    static const char *const methods[] = {"none", "linear", "ntk"};
    static const double bases[] = {10000, 500000};
    static const int64_t lengths[][2] = {{512, 2048}, {300, 1200}, {4096, 4096}};
    for (int m = 0; m < 3; m++)
        for (int b = 0; b < 2; b++)
            for (int l = 0; l < 3; l++) {
                const int64_t trained = lengths[l][0], target = lengths[l][1];
                const double longest = (double)target / 3;
                method_map map = map_of(methods[m], bases[b], trained, target, longest);
                for (int p = 0; p < PAIRS; p++)
                    for (int c = 0; c < COLUMNS; c++)
                        check_close(map.angle[p * COLUMNS + c],
                                    near_frequency(methods[m], bases[b], (double)target / (double)trained, p) * longest * c /
                                        (COLUMNS - 1));
                assert_string_equal(map.label, methods[m]);
                method_map_free(&map);
            }
}

/* Far distances turn less: by half the trained length, and for leaky so that the longest turns as the longest trained. */
static void far_distances(void **state) {
    (void)state;
    const int64_t trained = 256, length = 1024;
    method_map kept = map_of("none", 10000, trained, length, 1000), clamped = map_of("rerope", 10000, trained, length, 1000),
               leaky = map_of("leaky:8", 10000, trained, length, 1000);
    for (int p = 0; p < PAIRS; p++)
        for (int c = 0; c < COLUMNS; c++) {
            const double d = 1000.0 * c / (COLUMNS - 1), inv_freq = pow(10000, -2.0 * p / DIM);
            check_close(kept.angle[p * COLUMNS + c], inv_freq * d);
            check_close(clamped.angle[p * COLUMNS + c], inv_freq * fmin(d, 128));
            check_close(leaky.angle[p * COLUMNS + c], inv_freq * (d <= 128 ? d : 128 + (d - 128) / 8));
        }
    method_map_free(&kept);
    method_map_free(&clamped);
    method_map_free(&leaky);
}

/* Chunks: the angle between the last token of a chunk and the one that is d before it. */
static void chunks_by_distance(void **state) {
    (void)state;
    static const char *const methods[] = {"dca", "dca-paper", "dca:40", "dca-paper:9", "dca:2"};
    static const int64_t sizes[][2] = {{192, 32}, {256, 64}, {40, 6}, {9, 2}, {2, 1}};
    for (int i = 0; i < 5; i++) {
        const int64_t length = 6 * 256, own = sizes[i][0] - sizes[i][1];
        gyre_config config = rope(10000);
        config.rope.far = i % 2 ? GYRE_FAR_CHUNKED_PAPER : GYRE_FAR_CHUNKED;
        config.rope.chunk.size = sizes[i][0];
        config.rope.chunk.local = sizes[i][1];
        method_map map = map_of(methods[i], 10000, 256, length, 32 * 31);
        const int64_t m = 1000 * own - 1;
        for (int p = 0; p < PAIRS; p++)
            for (int c = 0; c < COLUMNS; c++)
                check_close(map.angle[p * COLUMNS + c],
                            pow(10000, -2.0 * p / DIM) * naive_chunk_distance(&config, m, m - 31 * c));
        method_map_free(&map);
    }
}

/* The mean over a column, against a sum of many cosines.  A pair that turns faster than the columns is near 0. */
static void means(void **state) {
    (void)state;
    enum { SAMPLES = 20000 };
    static const char *const methods[] = {"none", "leaky:8", "rerope", "dca"};
    gyre_config chunks = rope(10000);
    chunks.rope.far = GYRE_FAR_CHUNKED;
    chunks.rope.chunk = (struct gyre_chunk_config){192, 32, 0};
    for (int i = 0; i < 4; i++) {
        method_map map = map_of(methods[i], 10000, 256, 1024, 960);
        const double step = 960.0 / (COLUMNS - 1), window = i ? 128 : INFINITY, slope = i == 1 ? 1.0 / 8 : 0;
        for (int p = 0; p < PAIRS; p++)
            for (int c = 0; c < COLUMNS; c++) {
                const double low = fmax(0, (c - 0.5) * step), high = fmin(960, (c + 0.5) * step);
                double sum = 0;
                for (int k = 0; k < SAMPLES; k++) {
                    const double d = low + (high - low) * (k + 0.5) / SAMPLES;
                    /* the last token of a chunk of 160: the pieces of d are those of whole distances below it */
                    const double turned =
                        i == 3        ? naive_chunk_distance(&chunks, 160 * 50 - 1, 160 * 50 - 1 - (int64_t)d) + d - floor(d)
                        : d <= window ? d
                                      : window + (d - window) * slope;
                    sum += cos(map.inv_freq[p] * turned);
                }
                assert_true(fabs(map.cosine[p * COLUMNS + c] - sum / SAMPLES) < 1e-4);
            }
        if (i == 0)
            for (int c = 1; c < COLUMNS - 1; c++)
                assert_true(fabs(map.cosine[c]) < 0.07); /* pair 0 turns 4.8 times within a column */
        method_map_free(&map);
    }
}

static void equal_maps_are_one(void **state) {
    (void)state;
    method_map maps[4] = {{.pairs = 0}}, added;
    int64_t count = 0;
    static const char *const methods[] = {"none", "yarn", "ntk", "by-parts"};
    for (int i = 0; i < 4; i++) {
        added = map_of(methods[i], 10000, 256, 1024, 1024);
        method_maps_add(maps, &count, &added);
        assert_null(added.angle);
    }
    assert_int_equal(count, 3);
    assert_string_equal(maps[0].label, "none");
    assert_string_equal(maps[1].label, "yarn, by-parts");
    assert_string_equal(maps[2].label, "ntk");
    for (int i = 0; i < 3; i++)
        method_map_free(&maps[i]);
}

static gyre_status status_of(const gyre_config *config, int64_t length, int64_t columns, double longest) {
    const method_map_range range = {length, columns, longest};
    gyre_encoding *encoding = NULL;
    method_map map;
    assert_int_equal(gyre_encoding_create(&encoding, config, NULL, &err), GYRE_OK);
    const gyre_status status = method_map_of_encoding(encoding, "none", &range, &map, &err);
    assert_null(map.angle);
    gyre_encoding_free(encoding);
    return status;
}

static void errors(void **state) {
    (void)state;
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ALIBI;
    config.heads = 4;
    config.head_dim = DIM;
    assert_int_equal(status_of(&config, 512, COLUMNS, 512), GYRE_EUNSUPPORTED);
    config = rope(10000);
    assert_int_equal(status_of(&config, 512, COLUMNS, 0), GYRE_EINVAL);
    assert_int_equal(status_of(&config, 512, 1, 512), GYRE_EINVAL);
    assert_int_equal(status_of(&config, -1, COLUMNS, 512), GYRE_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_base_and_length), cmocka_unit_test(far_distances),
                                       cmocka_unit_test(chunks_by_distance),  cmocka_unit_test(means),
                                       cmocka_unit_test(equal_maps_are_one),  cmocka_unit_test(errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
