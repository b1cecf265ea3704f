/* test_attention_gradient.c: the backward pass against central differences of the definition, in double. */
#include "attention_setup.h"
#include "naive_attention.h"

#include "run_each_tier.h"

/* -- central differences -- */

static const double *dlse; /* of the loss, for each row; NULL = 0 */

/* sum of dout . out + dlse lse over one batch row, by the definition. */
static double loss(const problem *p, int64_t batch) {
    const size_t size = p->out_size / (size_t)p->s.batch, first = size * (size_t)batch;
    const size_t rows = p->rows / (size_t)p->s.batch;
    double sum = 0;
    naive_batch(p, batch);
    for (size_t i = first; i < first + size; i++)
        sum += (double)p->dout[i] * p->out64[i];
    for (size_t i = rows * (size_t)batch; dlse && i < rows * (size_t)(batch + 1); i++)
        if (p->lse64[i] != -INFINITY) sum += dlse[i] * p->lse64[i];
    return sum;
}

static double difference(const problem *p, double *x, size_t i, size_t size) {
    const double saved = x[i], step = 1e-4;
    const int64_t batch = (int64_t)(i / (size / (size_t)p->s.batch));
    x[i] = saved + step;
    const double above = loss(p, batch);
    x[i] = saved - step;
    const double below = loss(p, batch);
    x[i] = saved;
    return (above - below) / (2 * step);
}

/* About `samples` elements of one input, evenly spread, with a step coprime to the shapes. */
static void check_input(const problem *p, double *x, const float *got, size_t size, size_t samples, const char *name) {
    const size_t step = size <= samples ? 1 : size / samples | 1;
    for (size_t i = 0; i < size; i += step)
        test_close((long double)got[i], difference(p, x, i, size), 4e-5L, name);
}

static void check_gradients(const problem *p, size_t samples) {
    check_input(p, p->q64, p->dq, p->q_size, samples, "dq");
    check_input(p, p->k64, p->dk, p->k_size, samples, "dk");
    check_input(p, p->v64, p->dv, p->v_size, samples, "dv");
}

static void check_problem(const problem *p, const attention_setup *args, size_t samples) {
    attend(args, NULL);
    run_gradient(p, args, NULL);
    check_gradients(p, samples);
}

/* The gradients of `loss` with numbers of type F32 or F64 for dlse; NaN for a row that sees no key. */
static void check_with_dlse(problem *p, gyre_dtype dtype) {
    const attention_setup args = problem_args(p);
    double *wide = room(p->rows, sizeof *wide);
    float *narrow = room(p->rows, sizeof *narrow);
    test_random random = {7};
    test_fill(&random, narrow, p->rows);
    attend(&args, NULL);
    for (size_t i = 0; i < p->rows; i++) {
        if (p->lse[i] == -INFINITY) narrow[i] = NAN;
        wide[i] = (double)narrow[i];
    }
    gyre_cview view = args.lse.data ? gyre_const(args.lse) : (gyre_cview){.data = NULL};
    view.data = dtype == GYRE_DTYPE_F64 ? (const void *)wide : narrow;
    view.dtype = dtype;
    const gyre_cview dout = gyre_cdense(p->dout, GYRE_DTYPE_F32, p->s.batch, p->s.queries, p->s.query_heads, p->s.value_dim);
    const size_t bytes = attention_scratch(&args, 1, NULL);
    void *scratch = scratch_for(bytes);
    const gyre_view dq = gyre_dense(p->dq, GYRE_DTYPE_F32, p->s.batch, p->s.queries, p->s.query_heads, p->s.dim),
                    dk = gyre_dense(p->dk, GYRE_DTYPE_F32, p->s.batch, p->s.keys, p->s.key_heads, p->s.dim),
                    dv = gyre_dense(p->dv, GYRE_DTYPE_F32, p->s.batch, p->s.keys, p->s.key_heads, p->s.value_dim);
    assert_ok(run_attention_gradient(
        &args, GYRE_ARGS(gyre_attention_gradients, .dout = dout, .dq = dq, .dk = dk, .dv = dv, .dlse = view),
        (gyre_scratch){scratch, bytes}, NULL, NULL));
    dlse = wide;
    check_gradients(p, SIZE_MAX);
    dlse = NULL;
    free(scratch);
    free(narrow);
    free(wide);
}

static void check_shape(const shape *s, size_t samples) {
    problem p = make_problem(s, 17);
    const attention_setup args = problem_args(&p);
    check_problem(&p, &args, samples);
    free_problem(&p);
}

static const shape small[] = {
    /* kind, layout, batch, queries, keys, query heads, key heads, dim, value dim, causal, window, order */
    {GYRE_KIND_NOPE, GYRE_LAYOUT_HALF, 1, 1, 1, 1, 1, 1, 1, 0, 0, IN_ORDER},
    {GYRE_KIND_NOPE, GYRE_LAYOUT_HALF, 2, 5, 7, 4, 2, 6, 5, 0, 0, IN_ORDER},
    {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 2, 6, 6, 2, 2, 8, 8, 1, 0, ROW_OFFSETS},
    {GYRE_KIND_ROPE, GYRE_LAYOUT_INTERLEAVED, 1, 9, 12, 6, 2, 6, 3, 1, 4, SHUFFLED},
    {GYRE_KIND_ALIBI, GYRE_LAYOUT_HALF, 2, 7, 9, 4, 1, 4, 4, 1, 0, IN_ORDER},
    {GYRE_KIND_ALIBI, GYRE_LAYOUT_HALF, 1, 12, 8, 2, 1, 4, 4, 1, 3, SHUFFLED}, /* some rows see no key */
};

static const shape large[] = {
    {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 2, 100, 100, 2, 1, 32, 32, 1, 0, IN_ORDER},
    {GYRE_KIND_ROPE, GYRE_LAYOUT_INTERLEAVED, 1, 65, 150, 2, 2, 20, 24, 1, 30, SHUFFLED},
    {GYRE_KIND_ALIBI, GYRE_LAYOUT_HALF, 1, 70, 130, 2, 2, 16, 40, 0, 0, ROW_OFFSETS},
};
enum { SMALL = sizeof small / sizeof *small, LARGE = sizeof large / sizeof *large };

static void agrees_with_differences(void **state) {
    const char *tier = *state;
    tier_or_skip(tier);
    assert_int_equal(setenv("GYRE_CPU", tier, 1), 0);
    for (size_t i = 0; i < SMALL; i++)
        check_shape(&small[i], SIZE_MAX);
    for (size_t i = 0; i < LARGE; i++)
        check_shape(&large[i], 13);
    unsetenv("GYRE_CPU");
}

static void caller_scale(void **state) {
    (void)state;
    problem p = make_problem(&small[2], 18);
    attention_setup args = problem_args(&p);
    p.scale = args.scale = -0.7;
    check_problem(&p, &args, SIZE_MAX);
    free_problem(&p);
}

static void context_length_comes_from_the_queries(void **state) {
    (void)state;
    for (int64_t length = 0; length <= 1000; length += 500) {
        problem p = make_problem(&small[2], 19);
        const attention_setup args = at_length(&p, length);
        check_problem(&p, &args, SIZE_MAX);
        free_problem(&p);
    }
}

/* Keys so distant that a float lse cannot separate their weights. Their gradients can. */
static void large_positions_keep_their_difference(void **state) {
    (void)state;
    const shape s = {GYRE_KIND_ALIBI, GYRE_LAYOUT_HALF, 1, 6, 150, 2, 1, 8, 8, 1, 0, SHUFFLED};
    problem p = make_problem(&s, 20);
    for (int i = 0; i < 6; i++)
        p.q_at[i] = i % 3 ? 1000000001 + i : 100 + i; /* some rows see only distant keys, some near ones */
    const attention_setup args = problem_args(&p);
    check_problem(&p, &args, 200);
    free_problem(&p);
}

static void the_loss_depends_on_lse(void **state) {
    (void)state;
    for (size_t i = 0; i < SMALL; i++) {
        problem p = make_problem(&small[i], 21);
        check_with_dlse(&p, i % 2 ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32);
        free_problem(&p);
    }
}

/* -- laws -- */

static void same_for_any_threads(void **state) {
    (void)state;
    const shape s = {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 3, 130, 130, 6, 2, 32, 32, 1, 0, IN_ORDER};
    problem p = make_problem(&s, 5);
    const attention_setup args = problem_args(&p);
    float *parts[3] = {p.dq, p.dk, p.dv}, *saved[3];
    const size_t sizes[3] = {p.q_size, p.k_size, p.v_size};
    attend(&args, NULL);
    run_gradient(&p, &args, NULL);
    for (int i = 0; i < 3; i++) {
        saved[i] = room(sizes[i], sizeof(float));
        memcpy(saved[i], parts[i], sizes[i] * sizeof(float));
    }
    for (int threads = 1; threads <= 7; threads += 3) {
        gyre_pool *pool;
        assert_ok(gyre_pool_create(&pool, threads, NULL));
        const gyre_exec exec = gyre_pool_exec(pool);
        for (int i = 0; i < 3; i++)
            memset(parts[i], 0xFF, sizes[i] * sizeof(float));
        run_gradient(&p, &args, &exec);
        for (int i = 0; i < 3; i++)
            assert_memory_equal(parts[i], saved[i], sizes[i] * sizeof(float));
        gyre_pool_free(pool);
    }
    for (int i = 0; i < 3; i++)
        free(saved[i]);
    free_problem(&p);
}

/* Gradients written into one [token][q | k | v | gap] buffer, as in trainers: same as dense, the gap unchanged. */
static void strided_matches_dense(void **state) {
    (void)state;
    enum { TOKENS = 77, HEADS = 3, DIM = 20, PART = HEADS * DIM, GAP = 4, ROW = 3 * PART + GAP };
    const shape s = {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 2, TOKENS, TOKENS, HEADS, HEADS, DIM, DIM, 1, 0, IN_ORDER};
    problem p = make_problem(&s, 8);
    const attention_setup args = problem_args(&p);
    attend(&args, NULL);
    run_gradient(&p, &args, NULL);
    float *fused = room(2 * TOKENS * ROW, sizeof *fused);
    for (int64_t i = 0; i < 2 * TOKENS * ROW; i++)
        fused[i] = 99.25f;
    gyre_view dqkv[3];
    for (int part = 0; part < 3; part++) {
        const gyre_view view = {fused + part * PART, GYRE_DTYPE_F32, {2, TOKENS, HEADS, DIM}, {TOKENS * ROW, ROW, DIM, 1}};
        dqkv[part] = view;
    }
    const gyre_cview dout = gyre_cdense(p.dout, GYRE_DTYPE_F32, 2, TOKENS, HEADS, DIM);
    const size_t bytes = attention_scratch(&args, 1, NULL);
    unsigned char *scratch = scratch_for(bytes + 64);
    assert_ok(run_attention_gradient(
        &args, GYRE_ARGS(gyre_attention_gradients, .dout = dout, .dq = dqkv[0], .dk = dqkv[1], .dv = dqkv[2]),
        (gyre_scratch){scratch, bytes}, NULL, NULL));
    for (size_t j = 0; j < 64; j++)
        assert_int_equal(scratch[bytes + j], 0xFF);
    const float *parts[3] = {p.dq, p.dk, p.dv};
    for (int64_t i = 0; i < 2 * TOKENS; i++) {
        for (int part = 0; part < 3; part++)
            assert_memory_equal(fused + i * ROW + part * PART, parts[part] + i * PART, PART * sizeof *fused);
        for (int c = 3 * PART; c < ROW; c++)
            assert_true(fused[i * ROW + c] == 99.25f);
    }
    free(scratch);
    free(fused);
    free_problem(&p);
}

/* Rows without a visible key have no gradient, and keys that no query sees get exact zeros. */
static void masked_keys_get_no_gradient(void **state) {
    (void)state;
    const shape s = {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 1, 50, 200, 2, 1, 16, 16, 1, 8, ROW_OFFSETS};
    problem p = make_problem(&s, 9);
    attention_setup args = problem_args(&p);
    args.q_pos =
        /* from 20 before the first key, at -37, to 29 after it */
        (gyre_positions){NULL, GYRE_DTYPE_I64, -57, 0, 0, 0, 0, 0};
    attend(&args, NULL);
    memset(p.dq, 0xFF, p.q_size * sizeof(float));
    memset(p.dk, 0xFF, p.k_size * sizeof(float));
    memset(p.dv, 0xFF, p.v_size * sizeof(float));
    run_gradient(&p, &args, NULL);
    for (int64_t i = 0; i < 20 * 2 * 16; i++)
        assert_true(p.dq[i] == 0);
    for (int64_t i = 30 * 16; i < 200 * 16; i++)
        assert_true(p.dk[i] == 0 && p.dv[i] == 0);
    assert_true(p.dq[21 * 2 * 16] != 0 && p.dv[29 * 16] != 0);
    free_problem(&p);
}

/* A NaN in a query reaches only the keys that it sees. A NaN in a key reaches no query before it. */
static void masked_nan_has_no_effect(void **state) {
    const char *tier = *state;
    tier_or_skip(tier);
    assert_int_equal(setenv("GYRE_CPU", tier, 1), 0);
    enum { TOKENS = 90, DIM = 16, KEY = 60, QUERY = 20 };
    const shape s = {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 1, TOKENS, TOKENS, 1, 1, DIM, DIM, 1, 0, IN_ORDER};
    problem p = make_problem(&s, 13);
    const attention_setup args = problem_args(&p);
    for (int c = 0; c < DIM; c++) {
        p.k[KEY * DIM + c] = p.v[KEY * DIM + c] = NAN;
        p.dout[QUERY * DIM + c] = p.q[QUERY * DIM + c] = NAN;
    }
    attend(&args, NULL);
    run_gradient(&p, &args, NULL);
    for (int64_t t = 0; t < TOKENS; t++)
        for (int64_t c = 0; c < DIM; c++)
            assert_int_equal(isnan(p.dq[t * DIM + c]) != 0, t == QUERY || t >= KEY);
    for (int64_t i = (KEY + 1) * DIM; i < TOKENS * DIM; i++) /* visible only to rows with NaNs */
        assert_true(isnan(p.dk[i]) && isnan(p.dv[i]));
    free_problem(&p);

    p = make_problem(&s, 13); /* without the bad key: keys past the bad query are as if it had no gradient */
    for (int c = 0; c < DIM; c++)
        p.dout[QUERY * DIM + c] = 0;
    const attention_setup clean = problem_args(&p);
    attend(&clean, NULL);
    run_gradient(&p, &clean, NULL);
    float *dk = room(p.k_size, sizeof *dk), *dv = room(p.v_size, sizeof *dv);
    memcpy(dk, p.dk, p.k_size * sizeof *dk);
    memcpy(dv, p.dv, p.v_size * sizeof *dv);
    for (int in_q = 0; in_q < 2; in_q++) {
        float *bad = in_q ? p.q : p.dout; /* the one or the other, alone */
        for (int c = 0; c < DIM; c++) {
            p.dout[QUERY * DIM + c] = 0;
            bad[QUERY * DIM + c] = NAN;
        }
        if (in_q) attend(&clean, NULL);
        run_gradient(&p, &clean, NULL);
        for (int64_t i = 0; i < TOKENS * DIM; i++)
            if (i / DIM <= QUERY) {
                assert_true(isnan(p.dk[i]) && isnan(p.dv[i]));
            } else {
                test_close((long double)p.dk[i], (long double)dk[i], 1e-5L, "dk");
                test_close((long double)p.dv[i], (long double)dv[i], 1e-5L, "dv");
            }
    }
    free(dk);
    free(dv);
    free_problem(&p);
    unsetenv("GYRE_CPU");
}

static void refuses_bad_arguments(void **state) {
    (void)state;
    const shape s = {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 1, 5, 7, 2, 1, 8, 6, 1, 0, IN_ORDER};
    problem p = make_problem(&s, 1);
    attention_setup args = problem_args(&p);
    attend(&args, NULL);
    const size_t bytes = attention_scratch(&args, 1, NULL);
    void *scratch = scratch_for(bytes);
    const gyre_cview dout = gyre_cdense(p.dout, GYRE_DTYPE_F32, 1, 5, 2, 6);
    const gyre_view good[3] = {gyre_dense(p.dq, GYRE_DTYPE_F32, 1, 5, 2, 8), gyre_dense(p.dk, GYRE_DTYPE_F32, 1, 7, 1, 8),
                               gyre_dense(p.dv, GYRE_DTYPE_F32, 1, 7, 1, 6)};
    memset(p.dq, 0x5A, p.q_size * sizeof(float));
#define GRADIENT(of, to, bytes)                                                                                             \
    run_attention_gradient(&args,                                                                                           \
                           GYRE_ARGS(gyre_attention_gradients, .dout = (of), .dq = (to)[0], .dk = (to)[1], .dv = (to)[2]),  \
                           (gyre_scratch){scratch, bytes}, NULL, NULL)
    gyre_cview no_dout = dout;
    no_dout.data = NULL;
    assert_int_equal(GRADIENT(no_dout, good, bytes), GYRE_EINVAL);
    assert_int_equal(gyre_attention_gradient(NULL, GYRE_ARGS(gyre_attention_gradients, .dout = dout),
                                             (gyre_scratch){scratch, bytes}, NULL, NULL),
                     GYRE_EINVAL);
    assert_int_equal(GRADIENT(dout, good, bytes - 1), GYRE_ENOMEM);
    for (int i = 0; i < 3; i++) {
        gyre_view bad[3] = {good[0], good[1], good[2]};
        bad[i].dtype = GYRE_DTYPE_BF16;
        assert_int_equal(GRADIENT(dout, bad, bytes), GYRE_EDTYPE);
        bad[i] = good[i];
        bad[i].shape[1]++;
        assert_int_equal(GRADIENT(dout, bad, bytes), GYRE_ESHAPE);
        bad[i] = good[i];
        bad[i].data = NULL;
        assert_int_equal(GRADIENT(dout, bad, bytes), GYRE_EINVAL);
        bad[i] = good[i];
        bad[i].stride[1] = 0;
        assert_int_equal(GRADIENT(dout, bad, bytes), GYRE_EINVAL);
    }
    gyre_cview wrong = dout;
    wrong.shape[3] = 8;
    assert_int_equal(GRADIENT(wrong, good, bytes), GYRE_ESHAPE);
    gyre_cview of_lse = gyre_const(args.lse);
#define WITH_DLSE(of)                                                                                                       \
    run_attention_gradient(                                                                                                 \
        &args,                                                                                                              \
        GYRE_ARGS(gyre_attention_gradients, .dout = dout, .dq = good[0], .dk = good[1], .dv = good[2], .dlse = (of)),       \
        (gyre_scratch){scratch, bytes}, NULL, NULL)
    of_lse.dtype = GYRE_DTYPE_BF16;
    assert_int_equal(WITH_DLSE(of_lse), GYRE_EDTYPE);
    of_lse.dtype = GYRE_DTYPE_F32;
    of_lse.shape[1]++;
    assert_int_equal(WITH_DLSE(of_lse), GYRE_ESHAPE);
    of_lse.shape[1]--;
    of_lse.data = p.dq;
    assert_int_equal(WITH_DLSE(of_lse), GYRE_EINVAL);
#undef WITH_DLSE
    args.lse.data = NULL;
    assert_int_equal(GRADIENT(dout, good, bytes), GYRE_EINVAL);
#undef GRADIENT
    for (size_t i = 0; i < p.q_size * sizeof(float); i++)
        assert_int_equal(((unsigned char *)p.dq)[i], 0x5A);
    free(scratch);
    free_problem(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FOR_TIERS(agrees_with_differences),
        FOR_TIERS(masked_nan_has_no_effect),
        cmocka_unit_test(the_loss_depends_on_lse),
        cmocka_unit_test(same_for_any_threads),
        cmocka_unit_test(strided_matches_dense),
        cmocka_unit_test(masked_keys_get_no_gradient),
        cmocka_unit_test(refuses_bad_arguments),
        cmocka_unit_test(caller_scale),
        cmocka_unit_test(context_length_comes_from_the_queries),
        cmocka_unit_test(large_positions_keep_their_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
