/* test_attention.c: the forward pass against reference values, against the definition, and against itself where two ways
 * must agree. */
#include "attention_setup.h"
#include "naive_attention.h"

#include "run_each_tier.h"

#include <float.h>

/* -- the reference figures -- */

/* json [head][token][channel] -> dense [token][head][channel]. */
static void read_heads(const json_t *object, const char *key, float *out, int64_t heads, int64_t tokens, int64_t channels) {
    const json_t *all = json_object_get(object, key);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t c = 0; c < channels; c++) {
                const json_t *row = json_array_get(json_array_get(all, (size_t)h), (size_t)t);
                const json_t *number = json_array_get(row, (size_t)c);
                assert_true(json_is_number(number));
                out[(t * heads + h) * channels + c] = (float)json_number_value(number);
            }
}

/* The encoding of a reference case, or NULL for a kind that the library does not have. */
static gyre_encoding *reference_encoding(const json_t *object, int64_t heads, int64_t head_dim) {
    const char *kind = test_string(object, "kind");
    const json_t *parameters = json_object_get(object, "parameters");
    gyre_config config = GYRE_INIT(gyre_config);
    double slopes[8];
    config.kind = GYRE_KIND_NOPE;
    config.head_dim = head_dim;
    config.heads = heads;
    if (strcmp(kind, "alibi") == 0) {
        config.kind = GYRE_KIND_ALIBI;
        config.score.slopes = slopes;
        assert_int_equal(test_numbers(parameters, "slopes", slopes, 8), heads);
    } else if (strncmp(kind, "rope-", 5) == 0) {
        config.kind = GYRE_KIND_ROPE;
        config.rope.base = test_number(parameters, "base");
        config.rope.layout =
            strcmp(test_string(parameters, "pairing"), "half") == 0 ? GYRE_LAYOUT_HALF : GYRE_LAYOUT_INTERLEAVED;
        const json_t *yarn = json_object_get(parameters, "yarn");
        if (yarn) {
            config.rope.scaling = GYRE_SCALING_YARN;
            config.rope.factor = test_number(yarn, "factor");
            config.trained_length = test_integer(yarn, "original_max_position_embeddings");
            config.context_length = 64;
        }
    } else if (strcmp(kind, "none") != 0) {
        return NULL;
    }
    return test_encoding(&config);
}

static void check_reference_case(const json_t *object, const gyre_encoding *encoding) {
    const int64_t heads = test_integer(object, "heads"), queries = test_integer(object, "queries");
    const int64_t keys = test_integer(object, "keys"), dim = test_integer(object, "head_dim");
    float q[512], k[512], v[512], want[512], out[512];
    read_heads(object, "q", q, heads, queries, dim);
    read_heads(object, "k", k, heads, keys, dim);
    read_heads(object, "v", v, heads, keys, dim);
    read_heads(object, "out", want, heads, queries, dim);
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = encoding;
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, queries, heads, dim);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, keys, heads, dim);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, keys, heads, dim);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, queries, heads, dim);
    args.q_pos.base = test_integer(object, "query_offset");
    args.causal = json_is_true(json_object_get(object, "causal"));
    args.scale = test_number(object, "scale");
    attend(&args, NULL);
    for (int64_t row = 0; row < queries * heads; row++) {
        float largest = 0;
        for (int64_t c = 0; c < dim; c++)
            largest = fmaxf(largest, fabsf(want[row * dim + c]));
        for (int64_t c = 0; c < dim; c++)
            test_close((long double)out[row * dim + c], (long double)want[row * dim + c], 1e-5L * (long double)largest,
                       test_string(object, "kind"));
    }
}

static void agrees_with_reference(void **state) {
    (void)state;
    json_t *cases = test_reference("attention.json");
    int checked = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *object = json_array_get(cases, i);
        gyre_encoding *encoding =
            reference_encoding(object, test_integer(object, "heads"), test_integer(object, "head_dim"));
        if (!encoding) continue;
        check_reference_case(object, encoding);
        gyre_encoding_free(encoding);
        checked++;
    }
    assert_int_equal(checked, 10); /* five kinds, causal and not */
    json_decref(cases);
}

/* -- the definition -- */

static const shape shapes[] = {
    /* kind, layout, batch, queries, keys, query heads, key heads, dim, value dim, causal, window, order */
    {GYRE_KIND_NOPE, GYRE_LAYOUT_HALF, 1, 1, 1, 1, 1, 1, 1, 0, 0, IN_ORDER},
    {GYRE_KIND_NOPE, GYRE_LAYOUT_HALF, 2, 70, 130, 2, 1, 32, 32, 0, 0, IN_ORDER},
    {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 2, 256, 256, 4, 4, 32, 32, 1, 0, IN_ORDER},
    {GYRE_KIND_ROPE, GYRE_LAYOUT_INTERLEAVED, 2, 65, 129, 6, 2, 20, 24, 1, 0, ROW_OFFSETS},
    {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 3, 33, 200, 4, 1, 64, 7, 1, 19, ROW_OFFSETS},
    {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 2, 90, 150, 2, 2, 48, 16, 1, 40, SHUFFLED},
    {GYRE_KIND_ALIBI, GYRE_LAYOUT_HALF, 2, 100, 100, 6, 3, 17, 33, 1, 0, IN_ORDER},
    {GYRE_KIND_ALIBI, GYRE_LAYOUT_HALF, 2, 40, 200, 4, 2, 16, 16, 0, 30, SHUFFLED},
    {GYRE_KIND_NOPE, GYRE_LAYOUT_HALF, 1, 20, 300, 1, 1, 8, 8, 0, 1, IN_ORDER},
    {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 1, 1, 500, 8, 2, 128, 128, 1, 0, IN_ORDER},
    {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 1, 3, 67, 1, 1, 256, 256, 0, 0, IN_ORDER},
    {GYRE_KIND_NOPE, GYRE_LAYOUT_HALF, 2, 50, 10, 1, 1, 4, 4, 1, 0,
     IN_ORDER}, /* queries before every key: some rows have no visible key */
    {GYRE_KIND_NOPE, GYRE_LAYOUT_HALF, 1, 5, 0, 1, 1, 4, 4, 0, 0, IN_ORDER},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void compare(const problem *p) {
    const shape *s = &p->s;
    for (size_t row = 0; row < p->rows; row++) {
        if (isinf(p->lse64[row]))
            assert_true(p->lse[row] == -INFINITY);
        else
            test_close((long double)p->lse[row], (long double)p->lse64[row], 5e-6L * (1 + fabsl(p->lse64[row])), "lse");
        for (int64_t c = 0; c < s->value_dim; c++) {
            const size_t at = row * (size_t)s->value_dim + (size_t)c;
            test_close((long double)p->out[at], (long double)p->out64[at], isinf(p->lse64[row]) ? 0 : 1e-5L, "out");
        }
    }
}

static void agrees_with_definition(void **state) {
    const char *tier = *state;
    tier_or_skip(tier);
    assert_int_equal(setenv("GYRE_CPU", tier, 1), 0);
    for (size_t i = 0; i < SHAPES; i++) {
        problem p = make_problem(&shapes[i], 11 + i);
        const attention_setup args = problem_args(&p);
        attend(&args, NULL);
        naive(&p);
        compare(&p);
        free_problem(&p);
    }
    unsetenv("GYRE_CPU");
}

static void run_and_compare(problem *p, const attention_setup *args) {
    attend(args, NULL);
    naive(p);
    compare(p);
}

static void caller_scale(void **state) {
    (void)state;
    static const double scales[] = {0.61, -0.3, 1e-300};
    for (int i = 0; i < 3; i++) {
        const shape s = {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 1, 40, 140, 2, 1, 16, 16, 1, 0, IN_ORDER};
        problem p = make_problem(&s, 41);
        attention_setup args = problem_args(&p);
        p.scale = args.scale = scales[i];
        run_and_compare(&p, &args);
        free_problem(&p);
    }
}

static void context_length_comes_from_the_queries(void **state) {
    (void)state;
    const shape s = {GYRE_KIND_ROPE, GYRE_LAYOUT_INTERLEAVED, 2, 30, 140, 2, 1, 16, 16, 1, 0, IN_ORDER};
    for (int64_t length = 0; length <= 1000; length += 500) {
        problem p = make_problem(&s, 42);
        const attention_setup args = at_length(&p, length);
        run_and_compare(&p, &args);
        free_problem(&p);
    }
}

/* Positions of 32 bits, one key head for all batch rows, one query for all heads, and angles from a table. */
static void other_strides(void **state) {
    (void)state;
    enum { QUERIES = 40, KEYS = 140, DIM = 16 };
    const shape s = {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 2, QUERIES, KEYS, 4, 2, DIM, DIM, 1, 0, IN_ORDER};
    problem p = make_problem(&s, 43);
    gyre_config config = *gyre_encoding_get_config(p.encoding);
    config.rope.table_positions = 120;
    change_encoding(&p, &config, 0);
    for (size_t i = p.k_size / 2; i < p.k_size; i++) {
        p.k64[i] = p.k64[i - p.k_size / 2];
        p.v64[i] = p.v64[i - p.v_size / 2];
    }
    for (size_t i = 0; i < p.q_size; i++)
        p.q64[i] = p.q64[i / (4 * DIM) * 4 * DIM + i % DIM];
    int32_t q_at[QUERIES], k_at[KEYS];
    for (int i = 0; i < QUERIES; i++)
        q_at[i] = (int32_t)p.q_at[i];
    for (int i = 0; i < KEYS; i++)
        k_at[i] = (int32_t)p.k_at[i];
    attention_setup args = problem_args(&p);
    args.q_pos = (gyre_positions){q_at, GYRE_DTYPE_I32, 0, 0, 0, 1, 0, 0};
    args.k_pos = (gyre_positions){k_at, GYRE_DTYPE_I32, 0, 0, 0, 1, 0, 0};
    args.k.stride[0] = args.v.stride[0] = args.q.stride[2] = 0;
    run_and_compare(&p, &args);
    free_problem(&p);
}

/* The ends of the range of positions, where windows reach beyond it. */
static void farthest_positions(void **state) {
    (void)state;
    static const gyre_kind kinds[] = {GYRE_KIND_ROPE, GYRE_KIND_ALIBI};
    const int64_t end = (int64_t)1 << 31;
    for (int i = 0; i < 8; i++) {
        const shape s = {kinds[i / 4], GYRE_LAYOUT_HALF, 1, 40, 140, 2, 1, 16, 16, i % 2, i / 2 % 2 ? 30 : 0, SHUFFLED};
        for (int side = -1; side <= 1; side += 2) {
            problem p = make_problem(&s, 44);
            for (int t = 0; t < 40; t++)
                p.q_at[t] = side * (end - 20 - p.q_at[t] % 10);
            for (int t = 0; t < 140; t++)
                p.k_at[t] = side * (end - p.k_at[t]);
            p.k_at[5] = -side * end;
            const attention_setup args = problem_args(&p);
            run_and_compare(&p, &args);
            free_problem(&p);
        }
    }
}

/* No window is wider than INT64_MAX, and a window that wide masks no key. */
static void widest_window(void **state) {
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        const shape s = {GYRE_KIND_ALIBI, GYRE_LAYOUT_HALF, 1, 40, 140, 2, 1, 16, 16, causal, 0, ROW_OFFSETS};
        problem p = make_problem(&s, 45);
        attention_setup args = problem_args(&p);
        for (int64_t less = 0; less < 3; less++) {
            args.window = INT64_MAX - less;
            run_and_compare(&p, &args);
        }
        free_problem(&p);
    }
}

/* A query that sees only distant keys, in any order and tile: only the differences of their distances count. */
static void large_positions_keep_their_difference(void **state) {
    (void)state;
    enum { KEYS = 200 };
    static float q[4], k[KEYS * 4], v[KEYS * 4];
    float out[4], lse[1];
    const double slope = 0.5;
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ALIBI;
    config.heads = 1;
    config.score.slopes = &slope;
    gyre_encoding *e = test_encoding(&config);
    attention_setup args = GYRE_INIT(attention_setup);
    int64_t at[KEYS];
    args.encoding = e;
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, 1, 1, 4);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, KEYS, 1, 4);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, KEYS, 1, 4);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, 1, 4);
    args.lse = gyre_dense(lse, GYRE_DTYPE_F32, 1, 1, 1, 1);
    args.k_pos = (gyre_positions){at, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
    args.q_pos.base = 100000001;
    const int places[][2] = {{0, 1}, {1, 0}, {0, 199}, {199, 0}, {150, 40}, {150, 199}};
    for (size_t i = 0; i < 3 * sizeof places / sizeof *places; i++) {
        const int near = places[i / 3][0], far = places[i / 3][1];
        for (int j = 0; j < KEYS; j++)
            at[j] = i % 3 == 0 || (i % 3 == 1 && j % 2) ? 400000000 : -400000000; /* farther, on either side or both */
        memset(v, 0, sizeof v);
        at[near] = 1;
        at[far] = 0;
        v[near * 4] = 1;
        attend(&args, NULL);
        test_close((long double)out[0], 1 / (1 + expl(-0.5L)), 1e-6L, "out");            /* 0.62246 */
        test_close((long double)lse[0], -0.5L * 1e8L + logl(1 + expl(-0.5L)), 2, "lse"); /* neighbours there are 4 apart */
    }
    gyre_encoding_free(e);
}

/* -- laws -- */

static void same_for_any_threads(void **state) {
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        problem p = make_problem(&shapes[i], 5);
        const attention_setup args = problem_args(&p);
        attend(&args, NULL);
        float *out = room(p.out_size, sizeof *out), *lse = room(p.rows, sizeof *lse);
        memcpy(out, p.out, p.out_size * sizeof *out);
        memcpy(lse, p.lse, p.rows * sizeof *lse);
        for (int threads = 1; threads <= 7; threads += 2) {
            gyre_pool *pool;
            assert_ok(gyre_pool_create(&pool, threads, NULL));
            const gyre_exec exec = gyre_pool_exec(pool);
            memset(p.out, 0xFF, p.out_size * sizeof *out);
            memset(p.lse, 0xFF, p.rows * sizeof *lse);
            attend(&args, &exec);
            assert_memory_equal(out, p.out, p.out_size * sizeof *out);
            assert_memory_equal(lse, p.lse, p.rows * sizeof *lse);
            gyre_pool_free(pool);
        }
        free(out);
        free(lse);
        free_problem(&p);
    }
}

/* Token t alone, with the keys up to it, gives row t of the whole. */
static void decode_matches_the_whole(void **state) {
    (void)state;
    static const gyre_kind kinds[] = {GYRE_KIND_NOPE, GYRE_KIND_ROPE, GYRE_KIND_ALIBI};
    for (int kind = 0; kind < 3; kind++) {
        const shape s = {kinds[kind], GYRE_LAYOUT_HALF, 2, 140, 140, 4, 2, 32, 32, 1, 0, IN_ORDER};
        problem p = make_problem(&s, 3);
        attention_setup args = problem_args(&p);
        attend(&args, NULL);
        float one[2 * 4 * 32];
        for (int64_t t = 0; t < s.queries; t++) {
            attention_setup step = args;
            step.q.data = p.q + t * 4 * 32;
            step.q.shape[1] = 1;
            step.k.shape[1] = step.v.shape[1] = t + 1;
            step.q_pos = (gyre_positions){NULL, GYRE_DTYPE_I64, t, 0, 0, 0, 0, 0};
            step.out = gyre_dense(one, GYRE_DTYPE_F32, 2, 1, 4, 32);
            step.lse.data = NULL;
            attend(&step, NULL);
            for (int64_t i = 0; i < 2 * 4 * 32; i++) {
                const float want = p.out[(i / 128 * s.queries + t) * 128 + i % 128];
                test_close((long double)one[i], (long double)want, 1e-6L, "decode");
            }
        }
        free_problem(&p);
    }
}

/* A fused [token][q | k | v] buffer, channels in reverse order, outputs with gaps: as dense, gaps untouched. */
static void strided_matches_dense(void **state) {
    (void)state;
    enum { TOKENS = 77, HEADS = 3, DIM = 20, ROW = 3 * HEADS * DIM, GAP = 5, OUT = DIM + GAP };
    const shape s = {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 2, TOKENS, TOKENS, HEADS, HEADS, DIM, DIM, 1, 0, IN_ORDER};
    problem p = make_problem(&s, 8);
    const attention_setup dense = problem_args(&p);
    attend(&dense, NULL);
    float *fused = room(2 * TOKENS * ROW, sizeof *fused), *out = room(2 * TOKENS * HEADS * OUT, sizeof *out);
    const float *parts[] = {p.q, p.k, p.v};
    for (int64_t i = 0; i < 2 * TOKENS; i++)
        for (int part = 0; part < 3; part++)
            for (int64_t c = 0; c < HEADS * DIM; c++)
                fused[i * ROW + part * HEADS * DIM + c / DIM * DIM + (DIM - 1 - c % DIM)] = parts[part][i * HEADS * DIM + c];
    for (int64_t i = 0; i < 2 * TOKENS * HEADS * OUT; i++)
        out[i] = 1234.5f;
    attention_setup args = dense;
    gyre_cview *views[] = {&args.q, &args.k, &args.v};
    for (int part = 0; part < 3; part++) {
        const gyre_cview view = {
            fused + part * HEADS * DIM + DIM - 1, GYRE_DTYPE_F32, {2, TOKENS, HEADS, DIM}, {TOKENS * ROW, ROW, DIM, -1}};
        *views[part] = view;
    }
    const gyre_view gaps = {out, GYRE_DTYPE_F32, {2, TOKENS, HEADS, DIM}, {TOKENS * HEADS * OUT, HEADS * OUT, OUT, 1}};
    args.out = gaps;
    float *lse = room(2 * TOKENS * HEADS * 3, sizeof *lse); /* tokens last and backwards, gaps of 2 */
    const gyre_view apart = {
        lse + 3 * (TOKENS - 1), GYRE_DTYPE_F32, {2, TOKENS, HEADS, 1}, {3 * HEADS * TOKENS, -3, 3 * TOKENS, 1}};
    args.lse = apart;
    attend(&args, NULL);
    for (int64_t i = 0; i < 2 * TOKENS * HEADS; i++) {
        const int64_t b = i / HEADS / TOKENS, t = i / HEADS % TOKENS, h = i % HEADS;
        float *got = lse + 3 * ((b * HEADS + h) * TOKENS + TOKENS - 1 - t);
        assert_true(got[0] == p.lse[i] && got[1] == 0 && got[2] == 0);
    }
    free(lse);
    for (int64_t row = 0; row < 2 * TOKENS * HEADS; row++) {
        assert_memory_equal(out + row * OUT, p.out + row * DIM, DIM * sizeof *out);
        for (int c = DIM; c < OUT; c++)
            assert_true(out[row * OUT + c] == 1234.5f);
    }
    free(fused);
    free(out);
    free_problem(&p);
}

/* Neither a NaN in a masked key nor the NaN of another query reaches a row. */
static void masked_nan_has_no_effect(void **state) {
    const char *tier = *state;
    tier_or_skip(tier);
    assert_int_equal(setenv("GYRE_CPU", tier, 1), 0);
    const shape s = {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 1, 100, 100, 2, 1, 32, 32, 1, 0, IN_ORDER};
    problem p = make_problem(&s, 21);
    const attention_setup args = problem_args(&p);
    naive(&p);
    enum { BAD = 41 };
    for (int c = 0; c < 32; c++) {
        p.k[BAD * 32 + c] = NAN;
        p.v[BAD * 32 + c] = c % 2 ? INFINITY : NAN;
        p.q[7 * 64 + c] = NAN; /* head 0 of query 7 */
    }
    attend(&args, NULL);
    for (int64_t row = 0; row < 200; row++)
        for (int64_t c = 0; c < 32; c++)
            if (row / 2 >= BAD || row == 14)
                assert_true(isnan(p.out[row * 32 + c]));
            else
                test_close((long double)p.out[row * 32 + c], (long double)p.out64[row * 32 + c], 1e-5L, "before the NaN");
    free_problem(&p);
    unsetenv("GYRE_CPU");
}

/* A weight that ends as 0 adds nothing, whether the score that makes it 0 comes before it or after. */
static void vanishing_weights_add_nothing(void **state) {
    (void)state;
    enum { KEYS = 400 };
    static const struct {
        int bad, big;
        float score;
    } cases[] = {{200, 3, 1000}, {3, 200, 1000}, {3, 390, 1000}, {200, 3, 95}, {3, 200, 95}, {3, 390, 95}, {3, 4, 95}};
    static float q[16], k[KEYS * 16], v[KEYS * 16];
    float out[16];
    q[0] = 1;
    attention_setup args = GYRE_INIT(attention_setup);
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, 1, 1, 16);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, 1, KEYS, 1, 16);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, 1, KEYS, 1, 16);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, 1, 16);
    args.scale = 1;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const int bad = cases[i / 2].bad, big = cases[i / 2].big;
        memset(k, 0, sizeof k);
        for (int j = 0; j < KEYS * 16; j++)
            v[j] = 1;
        k[250 * 16] = cases[i / 2].score / 2; /* a step on the way */
        k[big * 16] = cases[i / 2].score;
        v[bad * 16] = INFINITY;
        v[bad * 16 + 1] = i % 2 ? NAN : -INFINITY;
        attend(&args, NULL);
        for (int c = 0; c < 16; c++)
            assert_true(out[c] == 1);
        k[big * 16] = 0; /* and one that is not 0 does add */
        k[250 * 16] = 0;
        attend(&args, NULL);
        assert_true(out[0] == INFINITY && out[2] == 1);
    }
    memset(k, 0, sizeof k);
    for (int j = 0; j < 200 * 16; j++)
        v[j] = FLT_MAX; /* finite, but their sum is not */
    v[200 * 16] = v[200 * 16 + 1] = 1;
    k[390 * 16] = 1000;
    attend(&args, NULL);
    assert_true(out[0] == 1 && out[15] == 1);
    k[7 * 16] = NAN; /* a NaN among the scores is not lost when a large score follows */
    attend(&args, NULL);
    assert_true(isnan(out[0]) && isnan(out[5]));
}

static void huge_scores_do_not_overflow(void **state) {
    (void)state;
    const shape s = {GYRE_KIND_NOPE, GYRE_LAYOUT_HALF, 1, 40, 90, 1, 1, 16, 16, 0, 0, IN_ORDER};
    problem p = make_problem(&s, 2);
    for (size_t i = 0; i < p.q_size; i++)
        p.q[i] *= 1e4f, p.q64[i] = (double)p.q[i];
    const attention_setup args = problem_args(&p);
    attend(&args, NULL);
    naive(&p);
    for (size_t i = 0; i < p.out_size; i++)
        test_close((long double)p.out[i], (long double)p.out64[i], 0.05L, "out"); /* scores of 1e5 are good to 0.01 */
    free_problem(&p);
}

/* -- scratch and errors -- */

static void scratch_grows_linearly(void **state) {
    (void)state;
    const shape s = {GYRE_KIND_NOPE, GYRE_LAYOUT_HALF, 1, 4, 4, 4, 2, 64, 64, 1, 0, IN_ORDER};
    problem p = make_problem(&s, 1);
    attention_setup args = problem_args(&p);
    for (int gradient = 0; gradient < 2; gradient++) {
        size_t bytes[2];
        for (int i = 0; i < 2; i++) {
            args.q.shape[1] = args.k.shape[1] = args.v.shape[1] = args.out.shape[1] = args.lse.shape[1] = (int64_t)100000
                                                                                                          << i;
            bytes[i] = attention_scratch(&args, gradient, NULL);
        }
        assert_true(bytes[1] < 2 * bytes[0]);
        assert_true(bytes[1] < (size_t)200000 * (gradient ? 5 * 64 + 8 : 2 * 64 + 8) * sizeof(float));
    }
    free_problem(&p);
}

/* Queries at the positions of their keys share the keys' angles: 65536 tokens stay within 64 MiB. */
static void scratch_of_a_long_prefill(void **state) {
    (void)state;
    enum { N = 65536 };
    gyre_config config = test_rope_config(128, GYRE_LAYOUT_HALF);
    gyre_encoding *encoding = test_encoding(&config);
    static float x;
    static const int64_t starts[4] = {0, 100, 40000, N};
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = encoding;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.sequences = 3;
    args.q = gyre_cdense(&x, GYRE_DTYPE_F32, 1, N, 32, 128);
    args.k = args.v = gyre_cdense(&x, GYRE_DTYPE_F32, 1, N, 8, 128);
    args.out = gyre_dense(&x, GYRE_DTYPE_F32, 1, N, 32, 128);
    for (int threads = 1; threads <= 2; threads++) {
        gyre_pool *pool;
        assert_ok(gyre_pool_create(&pool, threads, NULL));
        const gyre_exec exec = gyre_pool_exec(pool);
        args.q_starts = args.k_starts = NULL;
        assert_in_range(attention_scratch(&args, 0, &exec), 1, (size_t)64 << 20);
        args.q_starts = args.k_starts = starts;
        assert_in_range(attention_scratch(&args, 0, &exec), 1, (size_t)64 << 20);
        gyre_pool_free(pool);
    }
    gyre_encoding_free(encoding);
}

static void scratch_is_enough(void **state) {
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        problem p = make_problem(&shapes[i], 4);
        const attention_setup args = problem_args(&p);
        const size_t bytes = attention_scratch(&args, 0, NULL);
        unsigned char *scratch = scratch_for(bytes + 64);
        assert_ok(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL));
        for (size_t j = 0; j < 64; j++)
            assert_int_equal(scratch[bytes + j], 0xFF);
        free(scratch);
        free_problem(&p);
    }
}

static void fails(const attention_setup *args, gyre_status want) {
    static _Alignas(64) unsigned char scratch[1 << 22];
    assert_int_equal(run_attention(args, (gyre_scratch){scratch, sizeof scratch}, NULL, NULL), want);
    if (want == GYRE_ESHAPE) assert_int_equal(attention_scratch(args, 0, NULL), 0);
}

static void refuses_bad_arguments(void **state) {
    (void)state;
    const shape s = {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 2, 5, 7, 4, 2, 8, 8, 1, 0, IN_ORDER};
    problem p = make_problem(&s, 1);
    const attention_setup good = problem_args(&p);
    attention_setup args;
    memset(p.out, 0x5A, p.out_size * sizeof(float));
    memset(p.lse, 0x5A, p.rows * sizeof(float));
#define FAILS(want, ...) (args = good, __VA_ARGS__, fails(&args, want))
    FAILS(GYRE_EINVAL, args.size = 0);
    FAILS(GYRE_ESHAPE, args.size = sizeof args.size); /* all other fields are zeros */
    FAILS(GYRE_EINVAL, args.scale = NAN);
    FAILS(GYRE_EINVAL, args.scale = INFINITY);
    FAILS(GYRE_EINVAL, args.scale = -1e39); /* infinite as a float */
    FAILS(GYRE_EINVAL, args.out.stride[1] = 0);
    FAILS(GYRE_EINVAL, args.out.stride[3] = 0);
    FAILS(GYRE_EINVAL, args.lse.stride[2] = 0);
    FAILS(GYRE_EINVAL, args.window = -1);
    FAILS(GYRE_EINVAL, args.q_pos.context_length = -1);
    FAILS(GYRE_EINVAL, args.q.data = NULL);
    FAILS(GYRE_EINVAL, args.k.data = NULL);
    FAILS(GYRE_EINVAL, args.v.data = NULL);
    FAILS(GYRE_EINVAL, args.out.data = NULL);
    FAILS(GYRE_EDTYPE, args.q.dtype = GYRE_DTYPE_F64);
    FAILS(GYRE_EDTYPE, args.lse.dtype = GYRE_DTYPE_BF16);
    FAILS(GYRE_EDTYPE, args.q_pos.dtype = GYRE_DTYPE_F32);
    FAILS(GYRE_ESHAPE, args.k.shape[0] = 1);
    FAILS(GYRE_ESHAPE, args.k.shape[3] = 4);
    FAILS(GYRE_ESHAPE, args.v.shape[1] = 6);
    FAILS(GYRE_ESHAPE, args.v.shape[2] = 1);
    FAILS(GYRE_ESHAPE, args.k.shape[2] = args.v.shape[2] = 3);
    FAILS(GYRE_ESHAPE, args.k.shape[2] = args.v.shape[2] = 0);
    FAILS(GYRE_ESHAPE, args.q.shape[3] = args.k.shape[3] = 6); /* not the encoding's head */
    FAILS(GYRE_ESHAPE, args.q.shape[1] = -1);
    FAILS(GYRE_ESHAPE, args.out.shape[3] = 4);
    FAILS(GYRE_ESHAPE, args.lse.shape[3] = 2);
#undef FAILS
    const int64_t original = p.k_at[3];
    p.k_at[3] = ((int64_t)1 << 31) + 1;
    fails(&good, GYRE_ERANGE);
    p.k_at[3] = original;
    const size_t bytes = attention_scratch(&good, 0, NULL);
    char *scratch = scratch_for(bytes + 64);
    assert_int_equal(run_attention(&good, (gyre_scratch){scratch, bytes - 1}, NULL, NULL), GYRE_ENOMEM);
    assert_int_equal(run_attention(&good, (gyre_scratch){scratch + 4, bytes}, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(run_attention(&good, (gyre_scratch){NULL, bytes}, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(run_attention(NULL, (gyre_scratch){scratch, bytes}, NULL, NULL), GYRE_EINVAL);
    free(scratch);
    for (size_t i = 0; i < p.out_size * sizeof(float); i++)
        assert_int_equal(((unsigned char *)p.out)[i], 0x5A);
    for (size_t i = 0; i < p.rows * sizeof(float); i++)
        assert_int_equal(((unsigned char *)p.lse)[i], 0x5A);
    free_problem(&p);
}

/* Extents at their limit, whose products overflow int64, in the shapes that are read and counted. */
static void refuses_absurd_shapes(void **state) {
    (void)state;
    float x[16] = {0};
    const int64_t most = INT32_MAX;
    attention_setup args = GYRE_INIT(attention_setup);
    args.q = args.k = args.v = (gyre_cview){x, GYRE_DTYPE_F32, {most, most, most, 16}, {0}};
    args.out = gyre_dense(x, GYRE_DTYPE_F32, most, most, most, 16);
    gyre_pool *pool;
    assert_ok(gyre_pool_create(&pool, 2, NULL));
    gyre_exec exec = gyre_pool_exec(pool);
    exec.concurrency = INT64_MAX;
    assert_int_equal(attention_scratch(&args, 0, &exec), 0);
    fails(&args, GYRE_ESHAPE);
    args.k.shape[2] = args.v.shape[2] = 1;
    assert_int_equal(attention_scratch(&args, 0, &exec), 0);
    fails(&args, GYRE_ESHAPE);
    args.q = (gyre_cview){x, GYRE_DTYPE_F32, {most, 1 << 17, 1, 65536}, {0}}; /* this one alone */
    args.k = (gyre_cview){x, GYRE_DTYPE_F32, {most, 1, 1, 65536}, {0}};
    args.v = (gyre_cview){x, GYRE_DTYPE_F32, {most, 1, 1, 1}, {0}};
    args.out = gyre_dense(x, GYRE_DTYPE_F32, most, 1 << 17, 1, 1);
    assert_int_equal(attention_scratch(&args, 0, &exec), 0);
    gyre_pool_free(pool);
}

/* No keys: rows of zeros.  No queries: nothing to write, and no key gets a gradient. */
static void empty_inputs(void **state) {
    (void)state;
    const shape no_keys = {GYRE_KIND_ALIBI, GYRE_LAYOUT_HALF, 2, 5, 0, 4, 2, 8, 8, 0, 0, IN_ORDER};
    const shape no_queries = {GYRE_KIND_ROPE, GYRE_LAYOUT_HALF, 2, 0, 7, 4, 2, 8, 8, 1, 9, IN_ORDER};
    problem p = make_problem(&no_keys, 3);
    attention_setup args = problem_args(&p);
    memset(p.out, 0x5A, p.out_size * sizeof(float));
    memset(p.dq, 0x5A, p.q_size * sizeof(float));
    attend(&args, NULL);
    run_gradient(&p, &args, NULL);
    for (size_t i = 0; i < p.out_size; i++)
        assert_true(p.out[i] == 0 && p.dq[i] == 0);
    for (size_t i = 0; i < p.rows; i++)
        assert_true(p.lse[i] == -INFINITY);
    free_problem(&p);
    p = make_problem(&no_queries, 3);
    args = problem_args(&p);
    memset(p.dk, 0x5A, p.k_size * sizeof(float));
    memset(p.dv, 0x5A, p.v_size * sizeof(float));
    attend(&args, NULL);
    run_gradient(&p, &args, NULL);
    for (size_t i = 0; i < p.k_size; i++)
        assert_true(p.dk[i] == 0 && p.dv[i] == 0);

    const int64_t most = INT32_MAX; /* empty, but with more heads and keys than could be looped over */
    args.encoding = NULL;
    args.q = (gyre_cview){NULL, GYRE_DTYPE_F32, {most, 0, most, 8}, {0}};
    args.k = args.v = (gyre_cview){NULL, GYRE_DTYPE_F32, {most, 0, most, 8}, {0}};
    args.out = gyre_dense(NULL, GYRE_DTYPE_F32, most, 0, most, 8);
    args.lse = gyre_dense(p.lse, GYRE_DTYPE_F32, most, 0, most, 1);
    const gyre_view none = gyre_dense(NULL, GYRE_DTYPE_F32, most, 0, most, 8), dqkv[3] = {none, none, none};
    const gyre_cview dout = gyre_const(none);
    assert_ok(run_attention(&args, (gyre_scratch){NULL, 0}, NULL, NULL));
    assert_ok(run_attention_gradient(
        &args, GYRE_ARGS(gyre_attention_gradients, .dout = dout, .dq = dqkv[0], .dk = dqkv[1], .dv = dqkv[2]),
        (gyre_scratch){NULL, 0}, NULL, NULL));
    args.k.shape[1] = args.v.shape[1] = most;
    args.k.shape[0] = args.v.shape[0] = args.q.shape[0] = args.out.shape[0] = args.lse.shape[0] = 0;
    assert_ok(run_attention(&args, (gyre_scratch){NULL, 0}, NULL, NULL));
    free_problem(&p);
}

static void bias_needs_its_heads(void **state) {
    (void)state;
    const shape s = {GYRE_KIND_ALIBI, GYRE_LAYOUT_HALF, 1, 2, 2, 4, 2, 8, 8, 1, 0, IN_ORDER};
    problem p = make_problem(&s, 1);
    attention_setup args = problem_args(&p);
    args.q.shape[2] = args.out.shape[2] = args.lse.shape[2] = 2;
    fails(&args, GYRE_ESHAPE);
    free_problem(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_reference),
        FOR_TIERS(agrees_with_definition),
        FOR_TIERS(masked_nan_has_no_effect),
        cmocka_unit_test(same_for_any_threads),
        cmocka_unit_test(decode_matches_the_whole),
        cmocka_unit_test(strided_matches_dense),
        cmocka_unit_test(huge_scores_do_not_overflow),
        cmocka_unit_test(scratch_grows_linearly),
        cmocka_unit_test(scratch_of_a_long_prefill),
        cmocka_unit_test(scratch_is_enough),
        cmocka_unit_test(refuses_bad_arguments),
        cmocka_unit_test(bias_needs_its_heads),
        cmocka_unit_test(caller_scale),
        cmocka_unit_test(context_length_comes_from_the_queries),
        cmocka_unit_test(other_strides),
        cmocka_unit_test(farthest_positions),
        cmocka_unit_test(widest_window),
        cmocka_unit_test(large_positions_keep_their_difference),
        cmocka_unit_test(vanishing_weights_add_nothing),
        cmocka_unit_test(refuses_absurd_shapes),
        cmocka_unit_test(empty_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
