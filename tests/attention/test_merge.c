/* test_merge.c: gyre_attention_merge against its definition, at its limits, and its messages. */
#include "attention_memory.h"

#include <math.h>

enum { PARTS = 5, QUERIES = 7, HEADS = 3, CHANNELS = 130, STATE = CHANNELS + 2, ROWS = QUERIES * HEADS };

static double state[PARTS][ROWS][STATE];
static float out[ROWS][CHANNELS], sinks[HEADS];
static double lse[ROWS];

static gyre_attention_merge_args all_parts(gyre_cview *views) {
    gyre_attention_merge_args args = GYRE_INIT(gyre_attention_merge_args);
    for (int p = 0; p < PARTS; p++)
        views[p] = gyre_cdense(state[p], GYRE_DTYPE_F64, 1, QUERIES, HEADS, STATE);
    args.states = views;
    args.parts = PARTS;
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, QUERIES, HEADS, CHANNELS);
    args.lse = gyre_dense(lse, GYRE_DTYPE_F64, 1, QUERIES, HEADS, 1);
    return args;
}

/* Part p of a row is left out now and then: its largest score, which means nothing then, is anything. */
static void fill_states(uint64_t seed) {
    test_random random = {seed};
    for (int p = 0; p < PARTS; p++)
        for (int r = 0; r < ROWS; r++) {
            const int empty = test_next(&random) % 4 == 0;
            state[p][r][0] = empty ? 900 : 40 * test_uniform(&random) - 1e5 * (r % 2);
            state[p][r][1] = empty ? 0 : 1.5 + test_uniform(&random);
            for (int c = 0; c < CHANNELS; c++)
                state[p][r][2 + c] = empty ? 0 : test_uniform(&random);
        }
    test_fill(&random, sinks, HEADS);
}

static void is_the_sum_over_all_keys(void **unused) {
    gyre_cview views[PARTS];
    (void)unused;
    for (uint64_t seed = 1; seed < 30; seed++) {
        gyre_attention_merge_args args = all_parts(views);
        fill_states(seed);
        if (seed % 2) args.sink_logits = gyre_cdense(sinks, GYRE_DTYPE_F32, 1, 1, HEADS, 1);
        assert_int_equal(gyre_attention_merge(&args, NULL, NULL), GYRE_OK);
        for (int r = 0; r < ROWS; r++) {
            long double most = seed % 2 ? (long double)sinks[r % HEADS] : -INFINITY, sum, values[CHANNELS] = {0};
            for (int p = 0; p < PARTS; p++)
                if (state[p][r][1] != 0) most = fmaxl(most, (long double)state[p][r][0]);
            sum = seed % 2 ? expl((long double)sinks[r % HEADS] - most) : 0;
            for (int p = 0; p < PARTS; p++)
                for (int c = -1; c < CHANNELS && state[p][r][1] != 0; c++) {
                    const long double weight = expl((long double)state[p][r][0] - most);
                    *(c < 0 ? &sum : &values[c]) += weight * (long double)state[p][r][2 + c];
                }
            if (sum == 0) continue;
            test_close((long double)lse[r], most + logl(sum), 1e-15L * (1 + fabsl(most)) * 4, "lse");
            for (int c = 0; c < CHANNELS; c++)
                test_close((long double)out[r][c], values[c] / sum, 2e-7L, "out");
        }
    }
}

static void rows_without_keys(void **unused) {
    gyre_cview views[PARTS];
    gyre_attention_merge_args args = all_parts(views);
    (void)unused;
    memset(state, 0, sizeof state);
    memset(out, 0x5A, sizeof out);
    assert_int_equal(gyre_attention_merge(&args, NULL, NULL), GYRE_OK);
    assert_true(lse[0] == (double)-INFINITY && out[0][0] == 0 && out[ROWS - 1][CHANNELS - 1] == 0);
    sinks[0] = 2, sinks[1] = sinks[2] = -INFINITY;
    args.sink_logits = gyre_cdense(sinks, GYRE_DTYPE_F32, 1, 1, HEADS, 1);
    assert_int_equal(gyre_attention_merge(&args, NULL, NULL), GYRE_OK);
    assert_true(lse[0] == 2 && lse[1] == (double)-INFINITY && out[0][0] == 0);
}

/* A part that the others leave no weight adds nothing, even of infinite values; otherwise they reach the row. */
static void infinite_values(void **unused) {
    gyre_cview views[PARTS];
    gyre_attention_merge_args args = all_parts(views);
    (void)unused;
    memset(state, 0, sizeof state);
    state[0][0][0] = -1e6, state[0][0][1] = 1, state[0][0][2] = INFINITY, state[0][0][3] = NAN;
    state[1][0][0] = 5, state[1][0][1] = 2, state[1][0][2] = 4, state[1][0][3] = 6;
    assert_int_equal(gyre_attention_merge(&args, NULL, NULL), GYRE_OK);
    assert_true(out[0][0] == 2 && out[0][1] == 3);
    state[0][0][0] = 0;
    assert_int_equal(gyre_attention_merge(&args, NULL, NULL), GYRE_OK);
    assert_true(isinf(out[0][0]) && isnan(out[0][1]));
    state[0][0][1] = NAN;
    assert_int_equal(gyre_attention_merge(&args, NULL, NULL), GYRE_OK);
    assert_true(isnan(out[0][2]) && isnan(lse[0]));
}

static void says(const gyre_attention_merge_args *args, gyre_status want, const char *fragment) {
    gyre_error err = {0, ""};
    assert_int_equal(gyre_attention_merge(args, NULL, &err), want);
    if (!strstr(err.text, fragment)) fail_msg("\"%s\" does not contain \"%s\"", err.text, fragment);
}
#define SAYS(want, fragment, ...)                                                                                           \
    do {                                                                                                                    \
        gyre_cview v[PARTS];                                                                                                \
        gyre_attention_merge_args a = all_parts(v);                                                                         \
        __VA_ARGS__;                                                                                                        \
        says(&a, want, fragment);                                                                                           \
    } while (0)

static void mistakes_are_named(void **unused) {
    (void)unused;
    SAYS(GYRE_EINVAL, "size: 0 is not set", a.size = 0);
    SAYS(GYRE_EINVAL, "parts: 0 is below 1", a.parts = 0);
    SAYS(GYRE_EINVAL, "states: is NULL", a.states = NULL);
    SAYS(GYRE_EDTYPE, "states: element type F32 is not F64", v[3].dtype = GYRE_DTYPE_F32);
    SAYS(GYRE_ESHAPE, "states: shape [1, 6, 3, 132] is not [1, 7, 3, 132]", v[1].shape[1] = 6);
    SAYS(GYRE_ESHAPE, "states: 2 numbers a row", v[0].shape[3] = 2);
    SAYS(GYRE_EINVAL, "states: the last stride is 0", v[4].stride[3] = 0);
    SAYS(GYRE_EDTYPE, "out: element type F64 is not F32, F16 or BF16", a.out.dtype = GYRE_DTYPE_F64);
    SAYS(GYRE_ESHAPE, "out: shape [1, 7, 3, 131] is not [1, 7, 3, 130]", a.out.shape[3] = 131);
    SAYS(GYRE_EDTYPE, "lse: element type F16 is not F32 or F64", a.lse.dtype = GYRE_DTYPE_F16);
    SAYS(GYRE_ESHAPE, "lse: shape [1, 7, 3, 2]", a.lse.shape[3] = 2);
    SAYS(GYRE_EINVAL, "out: overlaps states[2]", a.out.data = state[2]);
    SAYS(GYRE_EINVAL, "out: overlaps lse", a.lse.data = out);
    SAYS(GYRE_ESHAPE, "sink_logits: shape [1, 1, 2, 1] is not [1, 1, 3, 1]",
         a.sink_logits = gyre_cdense(sinks, GYRE_DTYPE_F32, 1, 1, 2, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_the_sum_over_all_keys), cmocka_unit_test(rows_without_keys),
                                       cmocka_unit_test(infinite_values), cmocka_unit_test(mistakes_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
