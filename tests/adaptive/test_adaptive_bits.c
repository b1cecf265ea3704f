/* test_adaptive_bits.c: adaptive attention has the same bits under every cut, keys that a query does not see cannot leak
 * into it, wrong arguments are named, and scratch stays small. */
#include "adaptive_call.h"
#include "naive_schemes.h"
#include "random_cuts.h"
#include "run_each_tier.h"
#include "scratch_bytes.h"

#include <math.h>

enum { TOKENS = 300, HEADS = 4, KEY_HEADS = 2, DIM = 12, VALUE_DIM = 7, WIDTH = 9, MOST_ROWS = 32 };
static float all_q[TOKENS][HEADS][DIM], all_k[TOKENS][KEY_HEADS][DIM], all_v[TOKENS][KEY_HEADS][VALUE_DIM],
    w1[WIDTH][2 * HEADS], b1[WIDTH], w2[HEADS][WIDTH], b2[HEADS], all_b[TOKENS][HEADS][TOKENS], table[MOST_ROWS][HEADS],
    whole[TOKENS][HEADS][VALUE_DIM], whole_lse[TOKENS][HEADS], pieces[TOKENS][HEADS][VALUE_DIM], pieces_lse[TOKENS][HEADS];
static gyre_tables tables;

static void fill_all(uint64_t seed) {
    test_random random = {seed};
    test_fill(&random, &all_q[0][0][0], TOKENS * HEADS * DIM);
    test_fill(&random, &all_k[0][0][0], TOKENS * KEY_HEADS * DIM);
    test_fill(&random, &all_v[0][0][0], TOKENS * KEY_HEADS * VALUE_DIM);
    test_fill(&random, &all_b[0][0][0], TOKENS * HEADS * TOKENS);
    test_fill(&random, &w1[0][0], WIDTH * 2 * HEADS);
    test_fill(&random, &w2[0][0], HEADS * WIDTH);
    test_fill(&random, b1, WIDTH);
    test_fill(&random, b2, HEADS);
    test_fill(&random, &table[0][0], MOST_ROWS * HEADS);
    for (float *x = &table[0][0]; x < &table[0][0] + MOST_ROWS * HEADS; x++)
        *x = fabsf(*x) + 0.01F;
}

static gyre_encoding *make_encoding(int scheme, int64_t heads) {
    const gyre_config config = test_scheme_config(scheme, heads, DIM, TOKENS);
    gyre_encoding *encoding = test_encoding(&config);
    int64_t shape[4];
    assert_ok(gyre_encoding_table_shape(encoding, GYRE_TABLE_BIAS, shape));
    assert_in_range(shape[2], 0, MOST_ROWS);
    tables = (gyre_tables){.bias = gyre_cdense(table, GYRE_DTYPE_F32, 1, 1, shape[2] ? shape[2] : 1, HEADS)};
    return encoding;
}

/* Queries first .. end - 1 over keys 0 .. end - 1. */
static gyre_adaptive_args part_of_all(int64_t first, int64_t end, float (*out)[HEADS][VALUE_DIM], float (*lse)[HEADS]) {
    gyre_adaptive_args args = GYRE_INIT(gyre_adaptive_args);
    args.q = gyre_cdense(all_q[first], GYRE_DTYPE_F32, 1, end - first, HEADS, DIM);
    args.k = gyre_cdense(all_k, GYRE_DTYPE_F32, 1, end, KEY_HEADS, DIM);
    args.v = gyre_cdense(all_v, GYRE_DTYPE_F32, 1, end, KEY_HEADS, VALUE_DIM);
    args.network.hidden_weights = gyre_cdense(w1, GYRE_DTYPE_F32, 1, 1, WIDTH, 2 * HEADS);
    args.network.hidden_bias = gyre_cdense(b1, GYRE_DTYPE_F32, 1, 1, 1, WIDTH);
    args.network.output_weights = gyre_cdense(w2, GYRE_DTYPE_F32, 1, 1, HEADS, WIDTH);
    args.network.output_bias = gyre_cdense(b2, GYRE_DTYPE_F32, 1, 1, 1, HEADS);
    args.bias = gyre_cdense(all_b[first], GYRE_DTYPE_F32, 1, end - first, HEADS, end);
    args.bias.stride[1] = HEADS * TOKENS;
    args.bias.stride[2] = TOKENS;
    args.out = gyre_dense(out[first], GYRE_DTYPE_F32, 1, end - first, HEADS, VALUE_DIM);
    args.lse = gyre_dense(lse[first], GYRE_DTYPE_F32, 1, end - first, HEADS, 1);
    return args;
}

/* -- the same bits -- */

/* Every scheme with a bias, and none; positions that go on from call to call. */
static void cuts_have_the_same_bits(void **state) {
    if (!gyre_kernels_tier(*state)) skip();
    setenv("GYRE_CPU", *state, 1);
    test_random random = {5};
    fill_all(9);
    all_v[70][1][2] = INFINITY; /* rows that see it are not finite; rows that do not must not round otherwise */
    all_v[200][0][3] = NAN;
    for (int i = -1; i < 0 || (test_scheme_with(SCHEME_NUMBERS, i) < SCHEMES && (i < 1 || !is_short_test())); i++) {
        gyre_encoding *encoding = i < 0 ? NULL : make_encoding(test_scheme_with(SCHEME_NUMBERS, i), HEADS);
        gyre_adaptive_args args = part_of_all(0, TOKENS, whole, whole_lse);
        args.encoding = encoding;
        args.tables = &tables;
        run_forward(&args, NULL);
        assert_true(isfinite(whole[199][0][3]) && isnan(whole[200][0][3]));
        for (int cut = 0; cut < 4; cut++) {
            memset(pieces, 0, sizeof pieces);
            for (int64_t first = 0, count; first < TOKENS; first += count) {
                const int64_t left = TOKENS - first,
                              wanted = cut == 0 ? 1 : 1 + (int64_t)(test_next(&random) % (cut < 3 ? 9 : 150));
                const gyre_positions q_pos = {.base = first}, k_pos = {.base = 0};
                count = wanted < left ? wanted : left;
                args = part_of_all(first, first + count, pieces, pieces_lse);
                args.encoding = encoding;
                args.tables = &tables;
                if (cut % 2) args.q_pos = &q_pos, args.k_pos = &k_pos; /* which are the defaults */
                run_forward(&args, NULL);
            }
            assert_memory_equal(pieces, whole, sizeof whole);
            assert_memory_equal(pieces_lse, whole_lse, sizeof whole_lse);
        }
        gyre_encoding_free(encoding);
    }
    unsetenv("GYRE_CPU");
}

/* Packed beside others, and padded within a longer memory. */
static void packing_has_the_same_bits(void **state) {
    (void)state;
    fill_all(10);
    static const int64_t q_starts[] = {0, 37, 37, 170, TOKENS}, k_starts[] = {0, 37, 37, 170, TOKENS};
    gyre_encoding *encoding = make_encoding(SCHEME_fire, HEADS);
    gyre_adaptive_args args = part_of_all(0, TOKENS, whole, whole_lse);
    args.encoding = encoding;
    args.tables = &tables;
    args.q_starts = q_starts;
    args.k_starts = k_starts;
    args.sequences = 4;
    args.bias.shape[3] = 133;
    run_forward(&args, NULL);
    for (int s = 0; s < 4; s++) {
        const int64_t first = q_starts[s], count = q_starts[s + 1] - first;
        gyre_adaptive_args one = part_of_all(0, TOKENS, pieces, pieces_lse);
        one.encoding = encoding;
        one.tables = &tables;
        one.q.data = all_q[first];
        one.out.data = pieces[first];
        one.lse.data = pieces_lse[first];
        one.bias.data = (const float *)all_b[first] - (first < 37 ? 0 : first); /* its keys begin at k_first */
        one.q.shape[1] = one.out.shape[1] = one.lse.shape[1] = one.bias.shape[1] = count;
        one.k_first = &k_starts[s];
        one.k_end = &k_starts[s + 1];
        if (count > 0) run_forward(&one, NULL);
    }
    assert_memory_equal(pieces, whole, sizeof whole);
    assert_memory_equal(pieces_lse, whole_lse, sizeof whole_lse);
    gyre_encoding_free(encoding);
}

/* Two-sided, with all keys, queries may be cut too. */
static void two_sided_queries_have_the_same_bits(void **state) {
    (void)state;
    fill_all(17);
    gyre_adaptive_args args = part_of_all(0, TOKENS, whole, whole_lse);
    args.two_sided = 1;
    run_forward(&args, NULL);
    for (int64_t first = 0; first < TOKENS; first += 70) {
        const int64_t end = first + 70 < TOKENS ? first + 70 : TOKENS;
        args = part_of_all(first, end, pieces, pieces_lse);
        args.k.shape[1] = args.v.shape[1] = args.bias.shape[3] = TOKENS;
        args.two_sided = 1;
        run_forward(&args, NULL);
    }
    assert_memory_equal(pieces, whole, sizeof whole);
    assert_memory_equal(pieces_lse, whole_lse, sizeof whole_lse);
}

/* -- what cannot leak -- */

typedef struct gradient_memory {
    float dq[TOKENS][HEADS][DIM], dk[TOKENS][KEY_HEADS][DIM], dv[TOKENS][KEY_HEADS][VALUE_DIM], db[TOKENS][HEADS][TOKENS];
    double dw1[WIDTH][2 * HEADS], db1[WIDTH], dw2[HEADS][WIDTH], db2[HEADS], dtable[MOST_ROWS][HEADS];
} gradient_memory;

static gyre_adaptive_gradients all_gradients(gradient_memory *m, int64_t queries, int64_t table_rows) {
    gyre_adaptive_gradients to = GYRE_INIT(gyre_adaptive_gradients);
    to.dq = gyre_dense(m->dq, GYRE_DTYPE_F32, 1, queries, HEADS, DIM);
    to.dk = gyre_dense(m->dk, GYRE_DTYPE_F32, 1, TOKENS, KEY_HEADS, DIM);
    to.dv = gyre_dense(m->dv, GYRE_DTYPE_F32, 1, TOKENS, KEY_HEADS, VALUE_DIM);
    to.dhidden_weights = gyre_dense(m->dw1, GYRE_DTYPE_F64, 1, 1, WIDTH, 2 * HEADS);
    to.dhidden_bias = gyre_dense(m->db1, GYRE_DTYPE_F64, 1, 1, 1, WIDTH);
    to.doutput_weights = gyre_dense(m->dw2, GYRE_DTYPE_F64, 1, 1, HEADS, WIDTH);
    to.doutput_bias = gyre_dense(m->db2, GYRE_DTYPE_F64, 1, 1, 1, HEADS);
    to.dbias = gyre_dense(m->db, GYRE_DTYPE_F32, 1, queries, HEADS, TOKENS);
    if (table_rows) to.dtable = gyre_dense(m->dtable, GYRE_DTYPE_F64, 1, 1, table_rows, HEADS);
    return to;
}

/* Later keys and values, and their biases, are NaN: the outputs of earlier queries, and gradients that only they make,
 * stay. */
static void later_keys_do_not_leak(void **state) {
    enum { SEEN = 130 };
    (void)state;
    static gradient_memory memory[2];
    static float dout[TOKENS][HEADS][VALUE_DIM];
    fill_all(11);
    test_random random = {12};
    test_fill(&random, &dout[0][0][0], SEEN * HEADS * VALUE_DIM);
    gyre_encoding *encoding = make_encoding(SCHEME_kerple, HEADS);
    for (int spoiled = 0; spoiled < 2; spoiled++) {
        for (int64_t t = SEEN; t < TOKENS && spoiled; t++) {
            all_k[t][0][0] = all_v[t][1][2] = t % 2 ? NAN : INFINITY;
            for (int64_t m = 0; m < SEEN; m++)
                all_b[m][2][t] = NAN;
        }
        gyre_adaptive_args args = part_of_all(0, TOKENS, spoiled ? pieces : whole, spoiled ? pieces_lse : whole_lse);
        args.encoding = encoding;
        args.tables = &tables;
        run_forward(&args, NULL);
        for (int64_t t = SEEN; t < TOKENS; t++)
            for (int h = 0; h < HEADS; h++) {
                (spoiled ? pieces_lse : whole_lse)[t][h] = 0;
                memset((spoiled ? pieces : whole)[t][h], 0, VALUE_DIM * sizeof(float));
            }
        args.q.shape[1] = args.out.shape[1] = args.lse.shape[1] = args.bias.shape[1] = SEEN;
        const int64_t end = SEEN;
        args.k_end = &end;
        const gyre_cview from = gyre_cdense(dout, GYRE_DTYPE_F32, 1, SEEN, HEADS, VALUE_DIM);
        const gyre_adaptive_gradients to = all_gradients(&memory[spoiled], SEEN, 2);
        memset(memory[spoiled].dk, 0x5a, sizeof memory->dk);
        memset(memory[spoiled].db, 0x5a, sizeof memory->db);
        run_backward(&args, &from, &to, NULL);
    }
    assert_memory_equal(pieces, whole, sizeof whole);
    assert_memory_equal(&memory[1], &memory[0], sizeof memory[0]);
    for (int64_t t = SEEN; t < TOKENS; t++)
        assert_true(memory->dk[t][0][0] == 0 && memory->dk[t][1][DIM - 1] == 0 && memory->db[SEEN - 1][0][t] == 0);
    gyre_encoding_free(encoding);
}

/* Within one tile: causal queries beside keys that they do not see, NaN in both calls. */
static void hidden_keys_of_a_tile_do_not_leak(void **state) {
    (void)state;
    static gradient_memory memory;
    static float dout[TOKENS][HEADS][VALUE_DIM];
    fill_all(13);
    test_random random = {14};
    test_fill(&random, &dout[0][0][0], 50 * HEADS * VALUE_DIM); /* 0 for queries that see them */
    all_k[50][0][0] = NAN;
    all_v[52][0][0] = -INFINITY;
    all_b[3][1][51] = NAN;
    const gyre_adaptive_args args = part_of_all(0, TOKENS, whole, whole_lse);
    run_forward(&args, NULL);
    for (int t = 0; t < TOKENS; t++)
        for (int h = 0; h < HEADS; h++)
            assert_true(isfinite(whole_lse[t][h]) == (t < 50)); /* the network gives it to all heads */
    const gyre_cview from = gyre_cdense(dout, GYRE_DTYPE_F32, 1, 50, HEADS, VALUE_DIM);
    gyre_adaptive_args first = args;
    const int64_t end = 50;
    first.q.shape[1] = first.out.shape[1] = first.lse.shape[1] = first.bias.shape[1] = end;
    first.k_end = &end;
    const gyre_adaptive_gradients to = all_gradients(&memory, end, 0);
    run_backward(&first, &from, &to, NULL);
    for (int w = 0; w < WIDTH; w++)
        assert_true(isfinite(memory.db1[w]) && isfinite(memory.dw1[w][2]) && isfinite(memory.dw2[1][w]));
    for (int t = 0; t < 50; t++)
        assert_true(isfinite(memory.dq[t][0][0]) && isfinite(memory.dk[t][0][0]));
}

/* Biases of pairs that do not see each other are NaN, as a caller's mask may have them infinite: no result has a part of
 * them, not even the sums over pairs. */
static void hidden_biases_do_not_leak(void **state) {
    (void)state;
    static gradient_memory memory[2];
    static float dout[TOKENS][HEADS][VALUE_DIM];
    fill_all(18);
    test_random random = {19};
    test_fill(&random, &dout[0][0][0], TOKENS * HEADS * VALUE_DIM);
    const gyre_cview from = gyre_cdense(dout, GYRE_DTYPE_F32, 1, TOKENS, HEADS, VALUE_DIM);
    for (int spoiled = 0; spoiled < 2; spoiled++) {
        for (int64_t m = 0; m < TOKENS && spoiled; m++)
            for (int64_t t = m + 1; t < TOKENS; t++)
                all_b[m][t % HEADS][t] = t % 3 ? -INFINITY : NAN;
        const gyre_adaptive_args args = part_of_all(0, TOKENS, spoiled ? pieces : whole, spoiled ? pieces_lse : whole_lse);
        const gyre_adaptive_gradients to = all_gradients(&memory[spoiled], TOKENS, 0);
        run_forward(&args, NULL);
        run_backward(&args, &from, &to, NULL);
    }
    assert_memory_equal(pieces, whole, sizeof whole);
    assert_memory_equal(&memory[1], &memory[0], sizeof memory[0]);
    assert_true(isfinite(memory->dw1[0][HEADS]) && memory->dw1[0][HEADS] != 0);
}

/* -- arguments and scratch -- */

static const int64_t falling[] = {0, 200, 100, TOKENS}, short_of[] = {0, 100, 200, 299}, fine[] = {0, 100, 200, TOKENS};
static const gyre_positions from_zero = {.base = 0}, too_far = {.base = INT64_C(1) << 31}, negative = {.context_length = -1};

#define REFUSED(status, says, change)                                                                                       \
    do {                                                                                                                    \
        gyre_adaptive_args args = part_of_all(0, TOKENS, whole, whole_lse);                                                 \
        gyre_error err = {0, ""};                                                                                           \
        args.encoding = kerple;                                                                                             \
        args.tables = &tables;                                                                                              \
        memset(whole, 0x5a, sizeof whole);                                                                                  \
        change;                                                                                                             \
        assert_int_equal(gyre_adaptive_attention(&args, (gyre_scratch){scratch, bytes}, NULL, &err), status);               \
        if (!strstr(err.text, says)) fail_msg("\"%s\" lacks \"%s\"", err.text, says);                                       \
        assert_true(((unsigned char *)whole)[0] == 0x5a);                                                                   \
    } while (0)

static void wrong_arguments(void **state) {
    (void)state;
    fill_all(15);
    gyre_encoding *kerple = make_encoding(SCHEME_kerple, HEADS), *other = make_encoding(SCHEME_alibi, HEADS + 1),
                  *rope = make_encoding(SCHEME_rope, HEADS);
    tables.bias.shape[2] = 2;
    gyre_adaptive_args good = part_of_all(0, TOKENS, whole, whole_lse);
    good.encoding = kerple;
    good.tables = &tables;
    size_t bytes = adaptive_scratch(&good, 0, NULL);
    void *scratch = take(bytes);
    assert_ok(gyre_adaptive_attention(&good, (gyre_scratch){scratch, bytes}, NULL, NULL));
    REFUSED(GYRE_EINVAL, "size: 0 is not set", args.size = 0);
    REFUSED(GYRE_EDTYPE, "k: element type I32 is not F32, F16, BF16 or F64", args.k.dtype = GYRE_DTYPE_I32);
    REFUSED(GYRE_EDTYPE, "lse: element type F16", args.lse.dtype = GYRE_DTYPE_F16);
    REFUSED(GYRE_EDTYPE, "hidden_bias: element type I64", args.network.hidden_bias.dtype = GYRE_DTYPE_I64);
    REFUSED(GYRE_EDTYPE, "bias: element type I32", args.bias.dtype = GYRE_DTYPE_I32);
    REFUSED(GYRE_ESHAPE, "q: 4 heads are not a multiple of the 3", args.k.shape[2] = args.v.shape[2] = 3);
    REFUSED(GYRE_ESHAPE, "k: ", args.k.shape[3] = DIM - 1);
    REFUSED(GYRE_ESHAPE, "v: ", args.v.shape[1] = TOKENS - 1);
    REFUSED(GYRE_ESHAPE, "v: shape[3] = 65537", args.v.shape[3] = 65537);
    REFUSED(GYRE_ESHAPE, "out: ", args.out.shape[3] = VALUE_DIM - 1);
    REFUSED(GYRE_ESHAPE, "lse: ", args.lse.shape[3] = 2);
    REFUSED(GYRE_EINVAL, "form: 3 names no form", args.form = (gyre_adaptive_form)3);
    REFUSED(GYRE_ESHAPE, "hidden_weights: shape[2] = 0 is not in 1 .. 65536", args.network.hidden_weights.shape[2] = 0);
    REFUSED(GYRE_ESHAPE, "hidden_weights: ", args.form = GYRE_ADAPTIVE_FORM_ADD_RESIDUAL); /* reads HEADS numbers */
    REFUSED(GYRE_ESHAPE, "hidden_bias: ", args.network.hidden_bias.shape[3] = WIDTH - 1);
    REFUSED(GYRE_ESHAPE, "output_weights: ", args.network.output_weights.shape[2] = HEADS + 1);
    REFUSED(GYRE_ESHAPE, "output_bias: ", args.network.output_bias.shape[3] = 1);
    REFUSED(GYRE_ESHAPE, "bias: ", args.bias.shape[3] = TOKENS - 1);
    REFUSED(GYRE_EINVAL, "hidden_weights: ", args.network.hidden_weights.data = NULL);
    REFUSED(GYRE_EINVAL, "output_weights: ", args.network.output_weights.data = NULL);
    REFUSED(GYRE_EINVAL, "out: ", args.out.data = NULL);
    REFUSED(GYRE_EINVAL, "out: overlaps q", args.out.data = all_q);
    REFUSED(GYRE_EINVAL, "out: overlaps bias", args.out.data = all_b);
    REFUSED(GYRE_EINVAL, "lse: overlaps out", args.lse.data = whole[1]);
    REFUSED(GYRE_EINVAL, "out: overlaps tables.bias",
            (args.k_end = &fine[1], args.out.data = table,
             args.q.shape[1] = args.out.shape[1] = args.lse.shape[1] = args.bias.shape[1] = 1));
    REFUSED(GYRE_EINVAL, "scale: inf", args.scale = (double)INFINITY);
    REFUSED(GYRE_EINVAL, "slope: nan", args.slope = (double)NAN);
    REFUSED(GYRE_EUNSUPPORTED, "encoding: rope adds no bias to scores", args.encoding = rope);
    REFUSED(GYRE_ESHAPE, "q: 4 heads, the encoding has 5", args.encoding = other);
    REFUSED(GYRE_EINVAL, "bias: missing", args.tables = NULL);
    REFUSED(GYRE_EINVAL, "k_pos: is NULL, but q_pos is not", args.q_pos = &from_zero);
    REFUSED(GYRE_ERANGE, "k_pos", (args.q_pos = &from_zero, args.k_pos = &too_far));
    REFUSED(GYRE_EINVAL, "q_pos.context_length: -1", (args.q_pos = &negative, args.k_pos = &from_zero));
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
    gyre_encoding_free(kerple);
    gyre_encoding_free(other);
    gyre_encoding_free(rope);
}

#define GRADIENT_REFUSED(status, says, change)                                                                              \
    do {                                                                                                                    \
        gyre_adaptive_args args = good;                                                                                     \
        gyre_adaptive_gradients to = all_gradients(&memory, TOKENS, 0);                                                     \
        gyre_error err = {0, ""};                                                                                           \
        const gyre_cview *dout_given = &from;                                                                               \
        change;                                                                                                             \
        assert_int_equal(gyre_adaptive_gradient(&args, dout_given, &to, (gyre_scratch){scratch, bytes}, NULL, &err),        \
                         status);                                                                                           \
        if (!strstr(err.text, says)) fail_msg("\"%s\" lacks \"%s\"", err.text, says);                                       \
    } while (0)

static void wrong_gradients(void **state) {
    (void)state;
    fill_all(16);
    static gradient_memory memory;
    static float dout[TOKENS][HEADS][VALUE_DIM];
    const gyre_adaptive_args good = part_of_all(0, TOKENS, whole, whole_lse);
    gyre_adaptive_gradients nothing = GYRE_INIT(gyre_adaptive_gradients);
    const gyre_cview from = gyre_cdense(dout, GYRE_DTYPE_F32, 1, TOKENS, HEADS, VALUE_DIM);
    const size_t bytes = adaptive_scratch(&good, 1, NULL);
    void *scratch = take(bytes);
    GRADIENT_REFUSED(GYRE_EINVAL, "dout: is NULL", dout_given = NULL);
    GRADIENT_REFUSED(GYRE_EINVAL, "lse: is NULL", args.lse.data = NULL);
    GRADIENT_REFUSED(GYRE_EINVAL, "size: 0", to.size = 0);
    GRADIENT_REFUSED(GYRE_ESHAPE, "dq: ", to.dq.shape[3] = DIM - 1);
    GRADIENT_REFUSED(GYRE_EINVAL, "dk: overlaps dq", to.dk.data = memory.dq);
    GRADIENT_REFUSED(GYRE_EINVAL, "dv: overlaps v", to.dv.data = all_v);
    GRADIENT_REFUSED(GYRE_EDTYPE, "dhidden_weights: element type F16", to.dhidden_weights.dtype = GYRE_DTYPE_F16);
    GRADIENT_REFUSED(GYRE_ESHAPE, "doutput_weights: ", to.doutput_weights.shape[2] = 1);
    GRADIENT_REFUSED(GYRE_ESHAPE, "dbias: ", to.dbias.shape[3] = 1);
    GRADIENT_REFUSED(GYRE_EINVAL, "dbias: ", to.dbias.stride[1] = 0);
    GRADIENT_REFUSED(GYRE_EINVAL, "dbias: there is no bias", args.bias.data = NULL);
    GRADIENT_REFUSED(GYRE_EINVAL, "dhidden_bias: there is no hidden_bias", args.network.hidden_bias.data = NULL);
    GRADIENT_REFUSED(GYRE_EINVAL, "doutput_bias: there is no output_bias", args.network.output_bias.data = NULL);
    GRADIENT_REFUSED(GYRE_EINVAL, "dtable: there is no table of the encoding",
                     to.dtable = gyre_dense(memory.dtable, GYRE_DTYPE_F64, 1, 1, 2, HEADS));
    assert_ok(gyre_adaptive_gradient(&good, &from, &nothing, (gyre_scratch){scratch, bytes}, NULL, NULL));
    free(scratch);
}

/* Scratch only grows with the call, and not with n x n. */
static void scratch_is_small(void **state) {
    (void)state;
    gyre_adaptive_args args = part_of_all(0, TOKENS, whole, whole_lse);
    args.bias.data = NULL;
    for (int gradient = 0; gradient < 2; gradient++) {
        size_t before = 0;
        for (int64_t n = 1; n <= 1 << 20; n *= 2) {
            args.q.shape[1] = args.k.shape[1] = args.v.shape[1] = args.out.shape[1] = args.lse.shape[1] = n;
            const size_t bytes = adaptive_scratch(&args, gradient, NULL);
            assert_true(bytes >= before);
            assert_true(bytes < (size_t)(gradient ? n * 520 : 0) + 2000000);
            before = bytes;
        }
    }
    args.q.shape[2] = INT64_C(1) << 30;
    args.k.shape[2] = args.v.shape[2] = args.q.shape[2];
    args.network.hidden_weights.shape[3] = 2 * args.q.shape[2];
    args.network.output_weights.shape[2] = args.network.output_bias.shape[3] = args.q.shape[2];
    args.q.shape[3] = args.k.shape[3] = args.v.shape[3] = 512;
    assert_int_equal(adaptive_scratch(&args, 1, NULL), 0); /* more bytes than can be counted */
}

int main(void) {
    const struct CMUnitTest tests[] = {FOR_TIERS(cuts_have_the_same_bits),
                                       cmocka_unit_test(packing_has_the_same_bits),
                                       cmocka_unit_test(two_sided_queries_have_the_same_bits),
                                       cmocka_unit_test(later_keys_do_not_leak),
                                       cmocka_unit_test(hidden_keys_of_a_tile_do_not_leak),
                                       cmocka_unit_test(hidden_biases_do_not_leak),
                                       cmocka_unit_test(wrong_arguments),
                                       cmocka_unit_test(wrong_gradients),
                                       cmocka_unit_test(scratch_is_small)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
