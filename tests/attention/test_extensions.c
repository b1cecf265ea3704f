/* test_extensions.c: gyre_attention_args with each of the structs that it points to, alone: the bits of a call that has all
 * of them, the others empty, and an effect. */
#include "attention_memory.h"
#include "support.h"

#include <math.h>
#include <string.h>

enum { QUERIES = 20, KEYS = 150, HEADS = 4, KEY_HEADS = 2, DIM = 16, ROWS = 2, OUT = ROWS * QUERIES * HEADS * DIM };

static float q[ROWS * QUERIES * HEADS * DIM], k[ROWS * KEYS * KEY_HEADS * DIM], v[ROWS * KEYS * KEY_HEADS * DIM];
static float out[OUT], plain_out[OUT], wanted[OUT];

static gyre_attention_args args_of(const gyre_encoding *encoding) {
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.encoding = encoding;
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, ROWS, QUERIES, HEADS, DIM);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, ROWS, KEYS, KEY_HEADS, DIM);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, ROWS, KEYS, KEY_HEADS, DIM);
    args.q_pos.base = KEYS - QUERIES;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.out = gyre_dense(out, GYRE_DTYPE_F32, ROWS, QUERIES, HEADS, DIM);
    return args;
}

static void run(const gyre_attention_args *args) {
    size_t bytes = 0;
    gyre_error err = {0, ""};
    if (gyre_attention_scratch(args, 0, NULL, &bytes, &err)) fail_msg("%s", err.text);
    void *scratch = scratch_for(bytes);
    if (gyre_attention(args, (gyre_scratch){scratch, bytes}, NULL, &err)) fail_msg("%s", err.text);
    free(scratch);
}

/* The call with its extension, the same with all others empty beside it, and the call without. */
static void check(gyre_attention_args args) {
    const gyre_attention_batch batch = GYRE_INIT(gyre_attention_batch);
    const gyre_attention_gates gates = GYRE_INIT(gyre_attention_gates);
    const gyre_attention_dropout dropout = GYRE_INIT(gyre_attention_dropout);
    const gyre_attention_weights weights = GYRE_INIT(gyre_attention_weights);
    const gyre_attention_part part = GYRE_INIT(gyre_attention_part);
    run(&args);
    memcpy(wanted, out, sizeof out);
    gyre_attention_args all = args;
    if (!all.batch) all.batch = &batch;
    if (!all.gates) all.gates = &gates;
    if (!all.dropout) all.dropout = &dropout;
    if (!all.weights) all.weights = &weights;
    if (!all.part) all.part = &part;
    run(&all);
    assert_memory_equal(out, wanted, sizeof out);
}

static int changes(void) {
    return memcmp(wanted, plain_out, sizeof wanted) != 0;
}

static gyre_encoding *encoding;

static int set_up(void **state) {
    (void)state;
    test_random random = {4};
    test_fill(&random, q, sizeof q / sizeof *q);
    test_fill(&random, k, sizeof k / sizeof *k);
    test_fill(&random, v, sizeof v / sizeof *v);
    assert_ok(gyre_alibi_create(&encoding, HEADS, NULL));
    const gyre_attention_args args = args_of(encoding);
    check(args); /* all of them empty */
    memcpy(plain_out, out, sizeof out);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    gyre_encoding_free(encoding);
    return 0;
}

static void batch_of_padded_rows(void **state) {
    (void)state;
    static const int64_t first[ROWS] = {0, 100}, end[ROWS] = {140, KEYS};
    const float slopes[ROWS * HEADS] = {0.5f, 0.25f, 0.125f, 1, 0, 0.1f, 0.2f, 0.3f};
    gyre_attention_args args = args_of(encoding);
    args.batch = GYRE_ARGS(gyre_attention_batch, .k_first = first, .k_end = end);
    check(args);
    assert_true(changes());
    gyre_attention_args alone = args_of(encoding); /* row 1 by itself, without its padding */
    alone.q.shape[0] = alone.k.shape[0] = alone.v.shape[0] = alone.out.shape[0] = 1;
    alone.q.data = q + QUERIES * HEADS * DIM;
    alone.k.data = k + (KEYS + 100) * KEY_HEADS * DIM, alone.v.data = v + (KEYS + 100) * KEY_HEADS * DIM;
    alone.k.shape[1] = alone.v.shape[1] = KEYS - 100;
    alone.k_pos.base = 100;
    run(&alone);
    for (int i = 0; i < QUERIES * HEADS * DIM; i++)
        test_close((long double)out[i], (long double)wanted[QUERIES * HEADS * DIM + i], 2e-6L, "a row without padding");
    args.batch = GYRE_ARGS(gyre_attention_batch, .slopes = gyre_cdense(slopes, GYRE_DTYPE_F32, ROWS, 1, HEADS, 1));
    check(args);
    assert_true(changes());
}

static void gates_that_forget(void **state) {
    (void)state;
    static double c[ROWS * KEYS * HEADS];
    double slope[HEADS];
    assert_ok(gyre_encoding_slopes(encoding, 0, slope));
    for (int64_t i = 0; i < ROWS * KEYS * HEADS; i++)
        c[i] = -slope[i % HEADS] * (double)(i / HEADS % KEYS); /* ALiBi by gates, on no encoding */
    gyre_attention_args args = args_of(NULL);
    gyre_cview of_queries = gyre_cdense(c + (KEYS - QUERIES) * HEADS, GYRE_DTYPE_F64, ROWS, QUERIES, HEADS, 1);
    of_queries.stride[0] = KEYS * HEADS;
    args.gates = GYRE_ARGS(gyre_attention_gates, .q = of_queries, .k = gyre_cdense(c, GYRE_DTYPE_F64, ROWS, KEYS, HEADS, 1));
    check(args);
    for (int i = 0; i < OUT; i++)
        test_close((long double)wanted[i], (long double)plain_out[i], 2e-6L, "ALiBi by gates");
}

static void dropout_of_weights(void **state) {
    (void)state;
    static float other[OUT];
    gyre_attention_args args = args_of(encoding);
    args.dropout = GYRE_ARGS(gyre_attention_dropout, .rate = 0.5, .seed = 1);
    check(args);
    assert_true(changes());
    memcpy(other, wanted, sizeof other);
    args.dropout = GYRE_ARGS(gyre_attention_dropout, .rate = 0.5, .seed = 2);
    check(args);
    assert_memory_not_equal(other, wanted, sizeof other);
    args.dropout = GYRE_ARGS(gyre_attention_dropout, .seed = 2); /* a seed alone drops nothing */
    check(args);
    assert_false(changes());
}

static void weights_for_pictures(void **state) {
    (void)state;
    static float picture[ROWS * 3 * HEADS * KEYS];
    gyre_attention_args args = args_of(encoding);
    args.weights =
        GYRE_ARGS(gyre_attention_weights, .out = gyre_dense(picture, GYRE_DTYPE_F32, ROWS, 3, HEADS, KEYS), .first = 5);
    check(args);
    for (int i = 0; i < OUT; i++)
        test_close((long double)wanted[i], (long double)plain_out[i], 2e-6L, "the result beside weights");
    for (int64_t b = 0; b < ROWS; b++)
        for (int64_t i = 0; i < 3; i++)
            for (int64_t h = 0; h < HEADS; h++) {
                const float *row = picture + ((b * 3 + i) * HEADS + h) * KEYS;
                for (int64_t channel = 0; channel < DIM; channel++) {
                    double sum = 0;
                    for (int64_t n = 0; n < KEYS; n++)
                        sum += (double)row[n] *
                               (double)v[((b * KEYS + n) * KEY_HEADS + h / (HEADS / KEY_HEADS)) * DIM + channel];
                    const float is = wanted[((b * QUERIES + 5 + i) * HEADS + h) * DIM + channel];
                    test_close((long double)is, (long double)sum, 5e-6L, "weights of query 5 on");
                }
            }
}

static void parts_of_keys(void **state) {
    (void)state;
    static double rows[ROWS * QUERIES * HEADS * (DIM + 2)];
    gyre_attention_args args = args_of(encoding);
    memset(rows, 0, sizeof rows);
    const gyre_attention_part part = {.size = sizeof part,
                                      .state = gyre_dense(rows, GYRE_DTYPE_F64, ROWS, QUERIES, HEADS, DIM + 2)};
    args.part = &part;
    args.k.shape[1] = args.v.shape[1] = 90; /* strides of the whole */
    args.out.data = NULL;
    run(&args);
    args.k.data = k + 90 * KEY_HEADS * DIM, args.v.data = v + 90 * KEY_HEADS * DIM;
    args.k.shape[1] = args.v.shape[1] = KEYS - 90;
    args.k_pos.base = 90;
    args.out.data = out;
    run(&args);
    for (int i = 0; i < OUT; i++)
        test_close((long double)out[i], (long double)plain_out[i], 2e-6L, "two parts are the whole");
}

/* The gradient reads batch, gates and dropout as the forward call does, and dq_gates and dk_gates are its own. */
static void gradients(void **state) {
    (void)state;
    static float dq[2][ROWS * QUERIES * HEADS * DIM], dk[2][ROWS * KEYS * KEY_HEADS * DIM],
        dv[2][ROWS * KEYS * KEY_HEADS * DIM];
    static float lse[ROWS * QUERIES * HEADS];
    static double c[ROWS * KEYS * HEADS], dc[2][2][ROWS * KEYS * HEADS];
    static const int64_t first[ROWS] = {0, 9};
    test_random random = {9};
    for (int64_t i = 0; i < ROWS * KEYS * HEADS; i++)
        c[i] = -0.01 * (double)(i % KEYS);
    attention_setup setup = GYRE_INIT(attention_setup);
    const gyre_attention_args base = args_of(encoding);
    gyre_attention_args args = base;
    args.lse = gyre_dense(lse, GYRE_DTYPE_F32, ROWS, QUERIES, HEADS, 1);
    args.batch = GYRE_ARGS(gyre_attention_batch, .k_first = first);
    args.gates = GYRE_ARGS(gyre_attention_gates, .q = gyre_cdense(c, GYRE_DTYPE_F64, ROWS, QUERIES, HEADS, 1),
                           .k = gyre_cdense(c, GYRE_DTYPE_F64, ROWS, KEYS, HEADS, 1));
    args.dropout = GYRE_ARGS(gyre_attention_dropout, .rate = 0.25, .seed = 6);
    run(&args);
    test_fill(&random, wanted, OUT);
    gyre_attention_gradients g = GYRE_INIT(gyre_attention_gradients);
    g.dout = gyre_cdense(wanted, GYRE_DTYPE_F32, ROWS, QUERIES, HEADS, DIM);
    for (int way = 0; way < 2; way++) {
        size_t bytes = 0;
        g.dq = gyre_dense(dq[way], GYRE_DTYPE_F32, ROWS, QUERIES, HEADS, DIM);
        g.dk = gyre_dense(dk[way], GYRE_DTYPE_F32, ROWS, KEYS, KEY_HEADS, DIM);
        g.dv = gyre_dense(dv[way], GYRE_DTYPE_F32, ROWS, KEYS, KEY_HEADS, DIM);
        const gyre_view of_queries = gyre_dense(dc[way][0], GYRE_DTYPE_F64, ROWS, QUERIES, HEADS, 1),
                        of_keys = gyre_dense(dc[way][1], GYRE_DTYPE_F64, ROWS, KEYS, HEADS, 1);
        assert_ok(gyre_attention_scratch(&args, 1, NULL, &bytes, NULL));
        void *scratch = scratch_for(bytes);
        const gyre_scratch room = {scratch, bytes};
        if (way == 0) {
            g.dq_gates = of_queries, g.dk_gates = of_keys;
            assert_ok(gyre_attention_gradient(&args, &g, room, NULL, NULL));
        } else {
            setup.encoding = args.encoding, setup.q = args.q, setup.k = args.k, setup.v = args.v, setup.out = args.out;
            setup.lse = args.lse, setup.q_pos = args.q_pos, setup.causal = args.causal;
            setup.k_first = first, setup.q_gate_sums = args.gates->q, setup.k_gate_sums = args.gates->k;
            setup.dropout = 0.25, setup.seed = 6, setup.dq_gate_sums = of_queries, setup.dk_gate_sums = of_keys;
            assert_ok(run_attention_gradient(&setup, &g, room, NULL, NULL));
        }
        free(scratch);
    }
    assert_memory_equal(dq[0], dq[1], sizeof dq[0]);
    assert_memory_equal(dk[0], dk[1], sizeof dk[0]);
    assert_memory_equal(dv[0], dv[1], sizeof dv[0]);
    assert_memory_equal(dc[0], dc[1], sizeof dc[0]);
    double sum[2] = {0};
    for (int64_t i = 0; i < ROWS * QUERIES * HEADS; i++)
        sum[0] += dc[0][0][i];
    for (int64_t i = 0; i < ROWS * KEYS * HEADS; i++)
        sum[1] += fabs(dc[0][1][i]);
    assert_true(fabs(sum[0]) < 1e-3 && sum[1] > 0.1); /* a softmax does not change when its row shifts */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_of_padded_rows), cmocka_unit_test(gates_that_forget), cmocka_unit_test(dropout_of_weights),
        cmocka_unit_test(weights_for_pictures), cmocka_unit_test(parts_of_keys),     cmocka_unit_test(gradients),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
