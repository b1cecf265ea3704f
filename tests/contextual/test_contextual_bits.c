/* test_contextual_bits.c: contextual attention has the same bits under every cut, later keys cannot leak into a row, wrong
 * arguments are named, and scratch stays small. */
#include "contextual_call.h"
#include "run_each_tier.h"
#include "scratch_bytes.h"

enum { TOKENS = 300, HEADS = 4, KEY_HEADS = 2, DIM = 12, VALUE_DIM = 7, POSITIONS = 20 };
static float all_q[TOKENS][HEADS][DIM], all_k[TOKENS][KEY_HEADS][DIM], all_g[TOKENS][KEY_HEADS][DIM],
    all_v[TOKENS][KEY_HEADS][VALUE_DIM], all_e[POSITIONS][HEADS][DIM], whole[TOKENS][HEADS][VALUE_DIM],
    whole_lse[TOKENS][HEADS], pieces[TOKENS][HEADS][VALUE_DIM], pieces_lse[TOKENS][HEADS];

static void fill_all(uint64_t seed) {
    test_random random = {seed};
    test_fill(&random, &all_q[0][0][0], TOKENS * HEADS * DIM);
    test_fill(&random, &all_k[0][0][0], TOKENS * KEY_HEADS * DIM);
    test_fill(&random, &all_g[0][0][0], TOKENS * KEY_HEADS * DIM);
    test_fill(&random, &all_v[0][0][0], TOKENS * KEY_HEADS * VALUE_DIM);
    test_fill(&random, &all_e[0][0][0], POSITIONS * HEADS * DIM);
    for (float *x = &all_g[0][0][0]; x < &all_g[0][0][0] + TOKENS * KEY_HEADS * DIM; x++)
        *x *= 8; /* gates near 0 and 1 */
}

/* Queries first .. end - 1 over keys 0 .. end - 1. */
static gyre_contextual_args part_of_all(int64_t first, int64_t end, float (*out)[HEADS][VALUE_DIM], float (*lse)[HEADS]) {
    gyre_contextual_args args = GYRE_INIT(gyre_contextual_args);
    args.q = gyre_cdense(all_q[first], GYRE_DTYPE_F32, 1, end - first, HEADS, DIM);
    args.k = gyre_cdense(all_k, GYRE_DTYPE_F32, 1, end, KEY_HEADS, DIM);
    args.v = gyre_cdense(all_v, GYRE_DTYPE_F32, 1, end, KEY_HEADS, VALUE_DIM);
    args.gate_keys = gyre_cdense(all_g, GYRE_DTYPE_F32, 1, end, KEY_HEADS, DIM);
    args.embeddings = gyre_cdense(all_e, GYRE_DTYPE_F32, 1, POSITIONS, HEADS, DIM);
    args.out = gyre_dense(out[first], GYRE_DTYPE_F32, 1, end - first, HEADS, VALUE_DIM);
    args.lse = gyre_dense(lse[first], GYRE_DTYPE_F32, 1, end - first, HEADS, 1);
    return args;
}

static void cuts_have_the_same_bits(void **state) {
    if (!gyre_kernels_tier(*state)) skip();
    setenv("GYRE_CPU", *state, 1);
    test_random random = {5};
    fill_all(9);
    all_v[70][1][2] = INFINITY; /* rows that see it are not finite; rows that do not must not round otherwise */
    all_v[200][0][3] = NAN;
    gyre_contextual_args args = part_of_all(0, TOKENS, whole, whole_lse);
    run_forward(&args, NULL);
    assert_true(isfinite(whole[199][0][3]) && isnan(whole[200][0][3]));
    for (int cut = 0; cut < 6; cut++) {
        memset(pieces, 0, sizeof pieces);
        for (int64_t first = 0, count; first < TOKENS; first += count) {
            const int64_t left = TOKENS - first,
                          wanted = cut == 0 ? 1 : 1 + (int64_t)(test_next(&random) % (cut < 3 ? 9 : 150));
            count = wanted < left ? wanted : left;
            args = part_of_all(first, first + count, pieces, pieces_lse);
            run_forward(&args, NULL);
        }
        assert_memory_equal(pieces, whole, sizeof whole);
        assert_memory_equal(pieces_lse, whole_lse, sizeof whole_lse);
    }
    unsetenv("GYRE_CPU");
}

/* Packed beside others, and padded within a longer memory. */
static void packing_has_the_same_bits(void **state) {
    (void)state;
    fill_all(10);
    static const int64_t q_starts[] = {0, 37, 37, 170, TOKENS}, k_starts[] = {0, 37, 37, 170, TOKENS};
    gyre_contextual_args args = part_of_all(0, TOKENS, whole, whole_lse);
    args.q_starts = q_starts;
    args.k_starts = k_starts;
    args.sequences = 4;
    run_forward(&args, NULL);
    for (int s = 0; s < 4; s++) {
        const int64_t first = q_starts[s], count = q_starts[s + 1] - first;
        gyre_contextual_args one = part_of_all(0, TOKENS, pieces, pieces_lse);
        one.q.data = all_q[first];
        one.out.data = pieces[first];
        one.lse.data = pieces_lse[first];
        one.q.shape[1] = one.out.shape[1] = one.lse.shape[1] = count;
        one.k_first = &k_starts[s];
        one.k_end = &k_starts[s + 1];
        if (count > 0) run_forward(&one, NULL);
    }
    assert_memory_equal(pieces, whole, sizeof whole);
    assert_memory_equal(pieces_lse, whole_lse, sizeof whole_lse);
}

/* -- what cannot leak -- */

/* Later keys, gate keys and values are NaN: the outputs of earlier queries, and gradients that only they make, stay. */
static void later_keys_do_not_leak(void **state) {
    enum { SEEN = 130 };
    (void)state;
    static float dq[2][TOKENS][HEADS][DIM], dk[2][TOKENS][KEY_HEADS][DIM], dg[2][TOKENS][KEY_HEADS][DIM],
        dv[2][TOKENS][KEY_HEADS][VALUE_DIM], dout[TOKENS][HEADS][VALUE_DIM];
    fill_all(11);
    test_random random = {12};
    test_fill(&random, &dout[0][0][0], SEEN * HEADS * VALUE_DIM); /* 0 for later queries */
    for (int spoiled = 0; spoiled < 2; spoiled++) {
        for (int64_t t = SEEN; t < TOKENS && spoiled; t++)
            all_k[t][0][0] = all_g[t][1][1] = all_v[t][1][2] = t % 2 ? NAN : INFINITY;
        gyre_contextual_args args = part_of_all(0, TOKENS, spoiled ? pieces : whole, spoiled ? pieces_lse : whole_lse);
        run_forward(&args, NULL);
        /* Of the queries that see all this, none: as if the call had SEEN tokens, but in the same tiles. */
        for (int64_t t = SEEN; t < TOKENS; t++)
            for (int h = 0; h < HEADS; h++) {
                (spoiled ? pieces_lse : whole_lse)[t][h] = 0;
                memset((spoiled ? pieces : whole)[t][h], 0, VALUE_DIM * sizeof(float));
            }
        args.q.shape[1] = args.out.shape[1] = args.lse.shape[1] = SEEN;
        const int64_t end = SEEN;
        args.k_end = &end;
        const gyre_cview from = gyre_cdense(dout, GYRE_DTYPE_F32, 1, SEEN, HEADS, VALUE_DIM);
        gyre_contextual_gradients to = GYRE_INIT(gyre_contextual_gradients);
        to.dq = gyre_dense(dq[spoiled], GYRE_DTYPE_F32, 1, SEEN, HEADS, DIM);
        to.dk = gyre_dense(dk[spoiled], GYRE_DTYPE_F32, 1, TOKENS, KEY_HEADS, DIM);
        to.dgate_keys = gyre_dense(dg[spoiled], GYRE_DTYPE_F32, 1, TOKENS, KEY_HEADS, DIM);
        to.dv = gyre_dense(dv[spoiled], GYRE_DTYPE_F32, 1, TOKENS, KEY_HEADS, VALUE_DIM);
        memset(dk[spoiled], 0x5a, sizeof dk[0]);
        run_backward(&args, &from, &to, NULL);
    }
    assert_memory_equal(pieces, whole, sizeof whole);
    assert_memory_equal(dq[1], dq[0], sizeof dq[0]);
    assert_memory_equal(dk[1], dk[0], sizeof dk[0]);
    assert_memory_equal(dg[1], dg[0], sizeof dg[0]);
    assert_memory_equal(dv[1], dv[0], sizeof dv[0]);
    for (int64_t t = SEEN; t < TOKENS; t++)
        assert_true(dk[0][t][0][0] == 0 && dk[0][t][1][DIM - 1] == 0); /* padding has gradients of 0 */
}

/* Within one tile: causal queries beside keys that they do not see, NaN in both calls. */
static void hidden_keys_of_a_tile_do_not_leak(void **state) {
    (void)state;
    static float dq[TOKENS][HEADS][DIM], dout[TOKENS][HEADS][VALUE_DIM], dk[TOKENS][KEY_HEADS][DIM];
    fill_all(13);
    test_random random = {14};
    test_fill(&random, &dout[0][0][0], TOKENS * HEADS * VALUE_DIM);
    all_k[50][0][0] = NAN;
    all_g[51][0][0] = INFINITY;
    all_v[52][0][0] = -INFINITY;
    const gyre_contextual_args args = part_of_all(0, TOKENS, whole, whole_lse);
    run_forward(&args, NULL);
    const gyre_cview from = gyre_cdense(dout, GYRE_DTYPE_F32, 1, TOKENS, HEADS, VALUE_DIM);
    gyre_contextual_gradients to = GYRE_INIT(gyre_contextual_gradients);
    to.dq = gyre_dense(dq, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM);
    to.dk = gyre_dense(dk, GYRE_DTYPE_F32, 1, TOKENS, KEY_HEADS, DIM);
    run_backward(&args, &from, &to, NULL);
    for (int t = 0; t < TOKENS; t++)
        for (int h = 0; h < HEADS; h++)
            for (int c = 0; c < DIM; c++) {
                const int clean = t < 50 || h >= HEADS / KEY_HEADS;
                assert_true(!clean || isfinite(dq[t][h][c]));
                assert_true(!clean || isfinite(whole[t][h][c % VALUE_DIM]));
            }
    assert_true(isnan(whole[50][0][0]) && isnan(dq[50][0][0]));
    assert_true(isfinite(dk[60][1][0]));
}

/* -- arguments and scratch -- */

static const int64_t falling[] = {0, 200, 100, TOKENS}, short_of[] = {0, 100, 200, 299}, fine[] = {0, 100, 200, TOKENS};

#define REFUSED(status, says, change)                                                                                       \
    do {                                                                                                                    \
        gyre_contextual_args args = part_of_all(0, TOKENS, whole, whole_lse);                                               \
        gyre_error err = {0, ""};                                                                                           \
        memset(whole, 0x5a, sizeof whole);                                                                                  \
        change;                                                                                                             \
        assert_int_equal(gyre_contextual_attention(&args, (gyre_scratch){scratch, bytes}, NULL, &err), status);             \
        if (!strstr(err.text, says)) fail_msg("\"%s\" lacks \"%s\"", err.text, says);                                       \
        assert_true(((unsigned char *)whole)[0] == 0x5a);                                                                   \
    } while (0)

static void wrong_arguments(void **state) {
    (void)state;
    fill_all(15);
    gyre_contextual_args good = part_of_all(0, TOKENS, whole, whole_lse);
    size_t bytes = contextual_scratch(&good, 0, NULL);
    void *scratch = take(bytes);
    assert_ok(gyre_contextual_attention(&good, (gyre_scratch){scratch, bytes}, NULL, NULL));
    REFUSED(GYRE_EINVAL, "size: 0 is not set", args.size = 0);
    REFUSED(GYRE_EDTYPE, "k: element type I32 is not F32, F16, BF16 or F64", args.k.dtype = GYRE_DTYPE_I32);
    REFUSED(GYRE_EDTYPE, "lse: element type F16", args.lse.dtype = GYRE_DTYPE_F16);
    REFUSED(GYRE_ESHAPE, "q: 4 heads are not a multiple of the 3",
            args.k.shape[2] = args.v.shape[2] = args.gate_keys.shape[2] = 3);
    REFUSED(GYRE_ESHAPE, "k: ", args.k.shape[3] = args.gate_keys.shape[3] = DIM - 1);
    REFUSED(GYRE_ESHAPE, "v: ", args.v.shape[1] = TOKENS - 1);
    REFUSED(GYRE_ESHAPE, "gate_keys: ", args.gate_keys.shape[1] = TOKENS - 1);
    REFUSED(GYRE_ESHAPE, "embeddings: ", args.embeddings.shape[2] = 2);
    REFUSED(GYRE_ESHAPE, "embeddings: shape[1] = 0 is not in 1 ..", args.embeddings.shape[1] = 0);
    REFUSED(GYRE_ESHAPE, "embeddings: shape[1] = 16777217", args.embeddings.shape[1] = (1 << 24) + 1);
    REFUSED(GYRE_ESHAPE, "v: shape[3] = 65537", args.v.shape[3] = 65537);
    REFUSED(GYRE_ESHAPE, "out: ", args.out.shape[3] = VALUE_DIM - 1);
    REFUSED(GYRE_ESHAPE, "lse: ", args.lse.shape[3] = 2);
    REFUSED(GYRE_EINVAL, "embeddings: ", args.embeddings.data = NULL);
    REFUSED(GYRE_EINVAL, "out: ", args.out.data = NULL);
    REFUSED(GYRE_EINVAL, "out: overlaps q", args.out.data = all_q);
    REFUSED(GYRE_EINVAL, "lse: overlaps gate_keys", args.lse.data = all_g);
    REFUSED(GYRE_EINVAL, "lse: overlaps out", args.lse.data = whole[1]);
    REFUSED(GYRE_EINVAL, "scale: inf", args.scale = (double)INFINITY);
    REFUSED(GYRE_EINVAL, "gate_scale: nan", args.gate_scale = (double)NAN);
    REFUSED(GYRE_EINVAL, "position_scale: 1e+39", args.position_scale = 1e39);
    REFUSED(GYRE_EINVAL, "k_starts: is NULL, but q_starts is not", args.q_starts = fine);
    REFUSED(GYRE_EINVAL, "sequences: 0 is below 1", args.q_starts = args.k_starts = fine);
    REFUSED(GYRE_EINVAL, "q_starts[2]: 100 is below 200",
            (args.q_starts = falling, args.k_starts = fine, args.sequences = 3));
    REFUSED(GYRE_EINVAL, "k_starts[3]: 299 is not", (args.q_starts = fine, args.k_starts = short_of, args.sequences = 3));
    const int64_t past = TOKENS + 1, end = TOKENS;
    REFUSED(GYRE_EINVAL, "keys 0 .. 301 of sequence 0", args.k_end = &past);
    REFUSED(GYRE_EINVAL, "keys 301 .. 300 of sequence 0", (args.k_first = &past, args.k_end = &end));
    bytes--;
    REFUSED(GYRE_ENOMEM, "but the call needs", (void)args);
    bytes++;
    free(scratch);
    scratch = NULL;
    REFUSED(GYRE_EINVAL, "scratch: is NULL", (void)args);
}

static void wrong_gradients(void **state) {
    (void)state;
    fill_all(16);
    static float dk[TOKENS][KEY_HEADS][DIM], dq[TOKENS][HEADS][DIM], dout[TOKENS][HEADS][VALUE_DIM];
    gyre_contextual_args args = part_of_all(0, TOKENS, whole, whole_lse);
    gyre_contextual_gradients to = GYRE_INIT(gyre_contextual_gradients);
    gyre_error err = {0, ""};
    const gyre_cview from = gyre_cdense(dout, GYRE_DTYPE_F32, 1, TOKENS, HEADS, VALUE_DIM);
    const size_t bytes = contextual_scratch(&args, 1, NULL);
    void *scratch = take(bytes);
    assert_int_equal(gyre_contextual_gradient(&args, NULL, &to, (gyre_scratch){scratch, bytes}, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "dout: is NULL"));
    assert_int_equal(gyre_contextual_gradient(&args, &from, NULL, (gyre_scratch){scratch, bytes}, NULL, &err), GYRE_EINVAL);
    to.dk = gyre_dense(dk, GYRE_DTYPE_F32, 1, TOKENS, KEY_HEADS, DIM);
    to.dq = gyre_dense(dq, GYRE_DTYPE_F32, 1, TOKENS, HEADS, DIM - 1);
    assert_int_equal(gyre_contextual_gradient(&args, &from, &to, (gyre_scratch){scratch, bytes}, NULL, &err), GYRE_ESHAPE);
    assert_non_null(strstr(err.text, "dq: "));
    to.dq = gyre_dense(dk, GYRE_DTYPE_BF16, 1, TOKENS, HEADS, DIM);
    assert_int_equal(gyre_contextual_gradient(&args, &from, &to, (gyre_scratch){scratch, bytes}, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "dk: overlaps dq"));
    to.dq.data = NULL;
    to.dembeddings = gyre_dense(dq, GYRE_DTYPE_F16, 1, POSITIONS, HEADS, DIM);
    assert_int_equal(gyre_contextual_gradient(&args, &from, &to, (gyre_scratch){scratch, bytes}, NULL, &err), GYRE_EDTYPE);
    to.dembeddings.data = NULL;
    args.gate_keys.data = NULL;
    to.dgate_keys = gyre_dense(dq, GYRE_DTYPE_F32, 1, TOKENS, KEY_HEADS, DIM);
    assert_int_equal(gyre_contextual_gradient(&args, &from, &to, (gyre_scratch){scratch, bytes}, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "dgate_keys: gates are of k"));
    to.dgate_keys.data = NULL;
    assert_ok(gyre_contextual_gradient(&args, &from, &to, (gyre_scratch){scratch, bytes}, NULL, &err));
    args.lse.data = NULL;
    assert_int_equal(gyre_contextual_gradient(&args, &from, &to, (gyre_scratch){scratch, bytes}, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "lse: is NULL"));
    free(scratch);
}

/* Scratch only grows with the call, and not with n x n. */
static void scratch_is_small(void **state) {
    (void)state;
    gyre_contextual_args args = part_of_all(0, TOKENS, whole, whole_lse);
    for (int gradient = 0; gradient < 2; gradient++) {
        size_t before = 0;
        for (int64_t n = 1; n <= 1 << 20; n *= 2) {
            args.q.shape[1] = args.k.shape[1] = args.v.shape[1] = args.gate_keys.shape[1] = args.out.shape[1] =
                args.lse.shape[1] = n;
            const size_t bytes = contextual_scratch(&args, gradient, NULL);
            assert_true(bytes >= before);
            assert_true(bytes < (size_t)(gradient ? n * 260 : 0) + 2000000);
            before = bytes;
        }
    }
    args.q.shape[2] = INT64_C(1) << 30;
    args.embeddings.shape[2] = args.q.shape[2];
    args.out.shape[2] = args.lse.shape[2] = args.q.shape[2];
    args.embeddings.shape[1] = 1 << 24;
    args.embeddings.shape[3] = args.q.shape[3] = args.k.shape[3] = args.gate_keys.shape[3] = 512;
    assert_int_equal(contextual_scratch(&args, 1, NULL), 0); /* more bytes than can be counted */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FOR_TIERS(cuts_have_the_same_bits),       cmocka_unit_test(packing_has_the_same_bits),
        cmocka_unit_test(later_keys_do_not_leak), cmocka_unit_test(hidden_keys_of_a_tile_do_not_leak),
        cmocka_unit_test(wrong_arguments),        cmocka_unit_test(wrong_gradients),
        cmocka_unit_test(scratch_is_small)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
