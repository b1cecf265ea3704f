/* test_older_header.c: a program built with a frozen copy of an older gyre.h (tests/frozen) runs with the library of today,
 * and structs of a newer header are accepted as long as they ask for nothing new. */
#include "gyre/gyre.h" /* that of tests/frozen: cmake/tests.cmake puts it first */
#include "gyre/gyre_cache.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef GYRE_FROZEN_HEADER
#error "this program must see the frozen header"
#endif

enum { TOKENS = 5, DIM = 8 };

static gyre_encoding *rope(void) {
    gyre_encoding *encoding = NULL;
    gyre_config config = GYRE_INIT(gyre_config);
    gyre_error err = {0, ""};
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = DIM;
    if (gyre_encoding_create(&encoding, &config, NULL, &err)) fail_msg("%s", err.text);
    return encoding;
}

static void fill(float *x) {
    for (int i = 0; i < TOKENS * DIM; i++)
        x[i] = (float)(i * 37 % 19 - 9) / 9;
}

/* The last query of one head, from its definition in double. */
static void expected(const float *q, const float *k, const float *v, double *out) {
    double score[TOKENS], sum = 0;
    for (int n = 0; n < TOKENS; n++) {
        score[n] = 0;
        for (int i = 0; i < DIM / 2; i++) {
            const double angle = (TOKENS - 1 - n) * pow(10000, -2.0 * i / DIM);
            const double qx = (double)q[(TOKENS - 1) * DIM + i], qy = (double)q[(TOKENS - 1) * DIM + i + DIM / 2];
            const double kx = (double)k[n * DIM + i], ky = (double)k[n * DIM + i + DIM / 2];
            score[n] += (qx * kx + qy * ky) * cos(angle) + (qx * ky - qy * kx) * sin(angle);
        }
        score[n] = exp(score[n] / sqrt(DIM));
        sum += score[n];
    }
    for (int c = 0; c < DIM; c++) {
        out[c] = 0;
        for (int n = 0; n < TOKENS; n++)
            out[c] += score[n] / sum * (double)v[n * DIM + c];
    }
}

static void check_last(const float *out, const double *want) {
    for (int c = 0; c < DIM; c++)
        assert_true(fabs((double)out[c] - want[c]) < 1e-5);
}

/* Memory that the library must take for absent, whatever it holds. */
static void *poisoned(const void *given, size_t size) {
    unsigned char *memory = malloc(size + 64);
    assert_non_null(memory);
    memcpy(memory, given, size);
    memset(memory + size, 0xff, 64);
    return memory;
}

static void attention_of_an_older_struct(void **state) {
    (void)state;
    float q[TOKENS * DIM], k[TOKENS * DIM], v[TOKENS * DIM], out[TOKENS * DIM];
    double want[DIM];
    gyre_error err = {0, ""};
    gyre_encoding *encoding = rope();
    fill(q), fill(k), fill(v);
    expected(q, k, v, want);
    gyre_attention_shape shape = GYRE_INIT(gyre_attention_shape);
    shape.batch = shape.heads = 1, shape.queries = shape.keys = TOKENS, shape.head_dim = DIM;
    shape.causal = GYRE_CAUSAL_BY_POSITION;
    assert_true(sizeof shape == offsetof(gyre_attention_shape, window) + sizeof shape.window); /* later: scale, softcap */
    gyre_attention_shape *given = poisoned(&shape, sizeof shape);
    if (gyre_attention_dense(encoding, q, k, v, out, given, &err)) fail_msg("%s", err.text);
    check_last(out + (TOKENS - 1) * DIM, want);
    free(given);
    gyre_encoding_free(encoding);
}

static void cache_of_an_older_struct(void **state) {
    (void)state;
    float q[TOKENS * DIM], k[TOKENS * DIM], v[TOKENS * DIM], out[DIM];
    double want[DIM];
    const int64_t sequence = 0;
    gyre_error err = {0, ""};
    gyre_encoding *encoding = rope();
    gyre_cache *cache = NULL;
    fill(q), fill(k), fill(v);
    expected(q, k, v, want);
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.encoding = encoding;
    config.heads = 1, config.head_dim = DIM, config.max_tokens = TOKENS;
    gyre_cache_config *given = poisoned(&config, sizeof config);
    if (gyre_cache_create(&cache, given, NULL, &err)) fail_msg("%s", err.text);
    const gyre_cview keys = gyre_cdense(k, GYRE_DTYPE_F32, 1, TOKENS, 1, DIM);
    const gyre_cview values = gyre_cdense(v, GYRE_DTYPE_F32, 1, TOKENS, 1, DIM);
    if (gyre_cache_append(cache, 0, &keys, &values, &(gyre_positions){.base = 0}, NULL, &err)) fail_msg("%s", err.text);
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.q = gyre_cdense(q + (TOKENS - 1) * DIM, GYRE_DTYPE_F32, 1, 1, 1, DIM);
    args.q_pos.base = TOKENS - 1;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, 1, DIM);
    gyre_attention_args *call = poisoned(&args, sizeof args);
    const size_t bytes = gyre_cache_attention_scratch(cache, &sequence, call, NULL);
    assert_true(bytes > 0);
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(scratch);
    if (gyre_cache_attention(cache, &sequence, call, scratch, bytes, NULL, &err)) fail_msg("%s", err.text);
    check_last(out, want);
    free(scratch), free(call), free(given);
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
}

/* A header of the first version, which knew no scheme but the rotation: its config ends there. */
static void config_without_its_last_fields(void **state) {
    (void)state;
    gyre_encoding *encoding = NULL;
    gyre_error err = {0, ""};
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = DIM;
    memset(&config.query, 0xff, sizeof config - offsetof(gyre_config, query));
    config.size = offsetof(gyre_config, query);
    if (gyre_encoding_create(&encoding, &config, NULL, &err)) fail_msg("%s", err.text);
    assert_int_equal(gyre_encoding_get_config(encoding)->query.temperature, GYRE_TEMPERATURE_NONE);
    gyre_encoding_free(encoding);
}

static void newer_struct(void **state) {
    (void)state;
    struct {
        gyre_config config;
        int64_t later[1000]; /* longer than any growth of the library since */
    } newer = {.config = GYRE_INIT(gyre_config)};
    gyre_encoding *encoding = NULL;
    gyre_error err = {0, ""};
    newer.config.size = sizeof newer;
    newer.config.kind = GYRE_KIND_ROPE;
    newer.config.head_dim = DIM;
    if (gyre_encoding_create(&encoding, &newer.config, NULL, &err)) fail_msg("%s", err.text);
    gyre_encoding_free(encoding);
    encoding = NULL;
    newer.later[999] = 1;
    assert_int_equal(gyre_encoding_create(&encoding, &newer.config, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "newer"));
    assert_non_null(strstr(err.text, "gyre_config"));
    assert_null(encoding);
    newer.config.size = 0;
    assert_int_equal(gyre_encoding_create(&encoding, &newer.config, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "GYRE_INIT(gyre_config)"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_of_an_older_struct),
        cmocka_unit_test(cache_of_an_older_struct),
        cmocka_unit_test(config_without_its_last_fields),
        cmocka_unit_test(newer_struct),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
