/* test_cache_attention.c: attention over a cache is attention over its tokens at their current positions, by the
 * definition. */
#include "attention_memory.h"
#include "attention_setup.h"
#include "gyre/gyre_cache.h"
#include "naive_cache.h"

enum { GROUP = 2, QUERIES = 3, ROWS = 4, MOST_ROWS = 4 };

/* A call: batch rows over sequences of the cache. */
typedef struct ask {
    int64_t batch, queries, sequences[MOST_ROWS];
    int causal, bias; /* bias: an additive mask */
    int64_t window, sinks;
    double softcap;
    const int64_t *k_first, *k_end;
    int64_t window_after;
    const int64_t *q_end;
} ask;

static int64_t longest_of(const ask *a, const model_sequence *s) {
    int64_t most = 0;
    for (int64_t b = 0; b < a->batch; b++)
        most = s[a->sequences[b]].count > most ? s[a->sequences[b]].count : most;
    return most;
}

typedef struct problem {
    int64_t longest;
    size_t q_size, out_size, mask_size;
    float *q, *out, *lse, *mask, *weights;
    int64_t *at; /* [batch][query][2] */
    attention_setup args;
} problem;

/* Queries are at the last tokens of their sequences. */
static problem make_problem(const cache_case *c, const ask *a, const model_sequence *s, uint64_t seed) {
    const int64_t heads = HEADS * GROUP, rows = a->batch * a->queries * heads;
    test_random random = {seed};
    problem p = {.longest = longest_of(a, s), .args = GYRE_INIT(attention_setup)};
    p.q_size = (size_t)(rows * DIM);
    p.out_size = (size_t)(rows * VALUES);
    p.mask_size = (size_t)(rows * p.longest);
    p.q = room(p.q_size, sizeof(float));
    p.out = room(p.out_size, sizeof(float));
    p.lse = room((size_t)rows, sizeof(float));
    p.mask = room(p.mask_size, sizeof(float));
    p.at = room((size_t)(a->batch * a->queries * 2), sizeof(int64_t));
    test_fill(&random, p.q, p.q_size);
    test_fill(&random, p.mask, p.mask_size);
    for (size_t i = 0; i < p.mask_size; i++)
        if (i % 7 == 3) p.mask[i] = -INFINITY;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t i = 0; i < a->queries; i++) {
            const model_sequence *of = &s[a->sequences[b]];
            const int64_t t = of->count - a->queries + i;
            for (int x = 0; x < 2; x++)
                p.at[(b * a->queries + i) * 2 + x] = t >= 0 ? of->token[t].at[x] : i;
        }
    p.args.q = gyre_cdense(p.q, GYRE_DTYPE_F32, a->batch, a->queries, heads, DIM);
    p.args.out = gyre_dense(p.out, GYRE_DTYPE_F32, a->batch, a->queries, heads, VALUES);
    p.args.lse = gyre_dense(p.lse, GYRE_DTYPE_F32, a->batch, a->queries, heads, 1);
    if (a->bias) p.args.mask = gyre_cdense(p.mask, GYRE_DTYPE_F32, a->batch, a->queries, heads, p.longest);
    p.args.q_pos = (gyre_positions){p.at, GYRE_DTYPE_I64, 0, 0, 2 * a->queries, 2, c->axes == 2, 0};
    p.args.causal = a->causal;
    p.args.window = a->window;
    p.args.sinks = a->sinks;
    p.args.softcap = a->softcap;
    p.args.k_first = a->k_first;
    p.args.k_end = a->k_end;
    p.args.window_after = a->window_after;
    p.args.q_end = a->q_end;
    return p;
}

static void free_problem(problem *p) {
    void *all[] = {p->q, p->out, p->lse, p->mask, p->weights, p->at};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* -- the definition -- */

typedef struct place {
    int64_t b, i, h;
} place;

static int is_visible(const ask *a, const problem *p, const model_sequence *of, const place *at, int64_t j) {
    const int64_t q = p->at[(at->b * a->queries + at->i) * 2], k = of->token[j].at[0];
    if ((a->k_first && j < a->k_first[at->b]) || (a->k_end && j >= a->k_end[at->b])) return 0;
    if (a->causal == GYRE_CAUSAL_BY_ORDER) {
        const int64_t end = a->k_end ? a->k_end[at->b] : of->count;
        return j <= at->i + (a->q_end ? end - a->q_end[at->b] : of->count - a->queries);
    }
    if (a->causal && k > q) return 0;
    const int64_t after = a->window_after ? a->window_after : a->window;
    return ((a->window == 0 || q - k < a->window) && (after == 0 || k - q < after)) || k < a->sinks;
}

static double score(const cache_case *c, const ask *a, const problem *p, const model_token *token, const place *at) {
    const int64_t row = (at->b * a->queries + at->i) * HEADS * GROUP + at->h;
    double q[DIM], k[DIM], sum = 0;
    for (int i = 0; i < DIM; i++) {
        q[i] = (double)p->q[row * DIM + i];
        k[i] = token->k[at->h / GROUP][i];
    }
    case_rotate(c, p->at + (at->b * a->queries + at->i) * 2, 1, q);
    case_rotate(c, token->at, 1, k);
    for (int i = 0; i < DIM; i++)
        sum += q[i] * k[i];
    sum *=
        case_factor(c) * case_factor(c) / sqrt(DIM); /* once for queries and once for keys, however often it was shifted */
    return a->softcap > 0 ? a->softcap * tanh(sum / a->softcap) : sum;
}

/* scores[of->count], out[VALUES], and the log-sum-exp. */
static double naive_row(const cache_case *c, const ask *a, const problem *p, const model_sequence *of, const place *at,
                        double *scores, double *out) {
    double top = -INFINITY, sum = 0;
    const int64_t row = (at->b * a->queries + at->i) * HEADS * GROUP + at->h;
    memset(out, 0, VALUES * sizeof *out);
    for (int64_t j = 0; j < of->count; j++) {
        scores[j] = is_visible(a, p, of, at, j) ? score(c, a, p, &of->token[j], at) : -INFINITY;
        if (a->bias) scores[j] += (double)p->mask[row * p->longest + j];
        top = fmax(top, scores[j]);
    }
    if (top == -INFINITY) return top;
    for (int64_t j = 0; j < of->count; j++)
        sum += exp(scores[j] - top);
    for (int64_t j = 0; j < of->count; j++)
        for (int i = 0; i < VALUES; i++)
            out[i] += exp(scores[j] - top) / sum * of->token[j].v[at->h / GROUP][i];
    return top + log(sum);
}

static void compare_call(const cache_case *c, const ask *a, const problem *p, const model_sequence *s) {
    /* rounding of a key moves its scores by up to |q| |dk|, factor squared, over the root of the channels */
    const double key = case_error(c->key_dtype, 1) * 4 * case_factor(c) * case_factor(c);
    const double bound = 3 * key + case_error(c->value_dtype, 1) + 4e-6;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t i = 0; i < a->queries; i++)
            for (int64_t h = 0; h < HEADS * GROUP; h++) {
                const place at = {b, i, h};
                const int64_t row = (b * a->queries + i) * HEADS * GROUP + h;
                double want[VALUES], scores[MOST_TOKENS];
                const double lse = naive_row(c, a, p, &s[a->sequences[b]], &at, scores, want);
                for (int x = 0; x < VALUES; x++)
                    test_close((long double)p->out[row * VALUES + x], (long double)want[x], (long double)bound, "out");
                if (lse == -INFINITY)
                    assert_true(p->lse[row] == -INFINITY);
                else
                    test_close((long double)p->lse[row], (long double)lse, (long double)bound, "lse");
            }
}

static void run(const gyre_cache *cache, const ask *a, const problem *p, const gyre_exec *exec) {
    const size_t bytes = cache_attention_scratch(cache, a->sequences, &p->args, exec);
    assert_true(bytes > 0);
    assert_true(cache_attention_scratch(cache, NULL, &p->args, exec) >= bytes); /* before it is known which */
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(scratch);
    memset(scratch, 0xFF, bytes);
    assert_ok(run_cache_attention(cache, a->sequences, &p->args, (gyre_scratch){scratch, bytes}, exec, NULL));
    free(scratch);
}

/* -- caches with a history -- */

/* Four sequences: long, with holes and shifts; a fork of it; slid; empty. */
static void make_history(gyre_cache *cache, const cache_case *c, model_sequence *s) {
    test_random random = {31};
    const int64_t back[GYRE_MAX_AXES] = {-7, -7, 0, 0}, far[GYRE_MAX_AXES] = {40, 12, 0, 0};
    for (int i = 0; i < 5; i++)
        assert_ok(model_append(cache, c, &s[0], 0, 60, 60 * i, 1, &random));
    assert_ok(gyre_cache_fork(cache, 0, 1, NULL));
    s[1] = s[0];
    assert_ok(gyre_cache_remove(cache, (gyre_cache_range){0, 20, 7}, NULL));
    model_drop(&s[0], 20, 7);
    assert_ok(gyre_cache_shift(cache, (gyre_cache_range){0, 20, s[0].count - 20}, back, NULL));
    for (int64_t i = 20; i < s[0].count; i++)
        for (int a = 0; a < 2; a++)
            s[0].token[i].at[a] -= 7;
    assert_ok(model_append(cache, c, &s[0], 0, 4, s[0].token[s[0].count - 1].at[0] + 1, 1, &random));
    assert_ok(gyre_cache_shift(cache, (gyre_cache_range){1, 100, 200}, far, NULL));
    for (int i = 100; i < 300; i++)
        s[1].token[i].at[0] += 40, s[1].token[i].at[1] += 12;
    assert_ok(gyre_cache_fork(cache, 1, 2, NULL));
    s[2] = s[1];
    assert_ok(gyre_cache_slide(cache, 2, 4, 33, NULL, NULL));
    model_drop(&s[2], 4, 300 - 33);
    for (int i = 0; i < 33; i++)
        s[2].token[i].at[0] = s[2].token[i].at[1] = i;
}

static const cache_case cases[] = {
    {GYRE_CACHE_KEYS_RAW, GYRE_DTYPE_F32, GYRE_DTYPE_F32, 4, 1000, 16, 1, GYRE_LAYOUT_HALF, 0},
    {GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_F32, GYRE_DTYPE_F32, 4, 1000, 16, 1, GYRE_LAYOUT_HALF, 1.3},
    {GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_F16, GYRE_DTYPE_F16, 4, 1280, 0, 2, GYRE_LAYOUT_HALF, 0},
    {GYRE_CACHE_KEYS_RAW, GYRE_DTYPE_BF16, GYRE_DTYPE_F16, 4, 1000, 7, 2, GYRE_LAYOUT_INTERLEAVED, 0},
    {GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_BF16, GYRE_DTYPE_BF16, 4, 1000, 32, 1, GYRE_LAYOUT_INTERLEAVED, 0},
    {GYRE_CACHE_KEYS_RAW, GYRE_DTYPE_Q8, GYRE_DTYPE_Q8, 4, 1000, 16, 1, GYRE_LAYOUT_HALF, 1.3},
    {GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_Q8, GYRE_DTYPE_F16, 4, 1280, 0, 1, GYRE_LAYOUT_HALF, 1.3},
    {GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_F32, GYRE_DTYPE_Q8, 4, 1000, 100, 2, GYRE_LAYOUT_HALF, 0}};

typedef struct fixture {
    const cache_case *c;
    gyre_encoding *encoding;
    gyre_cache *cache;
    model_sequence *s;
} fixture;

static fixture make_fixture(const cache_case *c) {
    fixture f = {.c = c, .encoding = case_encoding(c), .s = room(4, sizeof(model_sequence))};
    f.cache = case_cache(c, f.encoding);
    make_history(f.cache, c, f.s);
    return f;
}

static void free_fixture(fixture *f) {
    free(f->s);
    gyre_cache_free(f->cache);
    gyre_encoding_free(f->encoding);
}

static const int64_t first[] = {3, 0, 11, 0}, end[] = {250, 300, 30, 0}, q_end[] = {4, 3, 2, 0};

static void ask_all(const ask *asks, int count) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f = make_fixture(&cases[i]);
        for (int j = 0; j < count; j++) {
            problem p = make_problem(f.c, &asks[j], f.s, 100 * i + (uint64_t)j);
            run(f.cache, &asks[j], &p, NULL);
            compare_call(f.c, &asks[j], &p, f.s);
            free_problem(&p);
        }
        free_fixture(&f);
    }
}

static void matches_the_definition(void **state) {
    (void)state;
    const ask asks[] = {{1, 1, {0}, 1, 0, 0, 0, 0, NULL, NULL, 0, NULL},
                        {4, 1, {0, 1, 2, 3}, 1, 0, 0, 0, 0, NULL, NULL, 0, NULL},
                        {4, 3, {2, 0, 1, 0}, 0, 0, 0, 0, 0, NULL, NULL, 0, NULL}, /* one sequence twice */
                        {3, 11, {1, 2, 0}, 1, 0, 0, 0, 0, NULL, NULL, 0, NULL},
                        {2, 40, {1, 0}, 1, 0, 50, 0, 0, NULL, NULL, 0, NULL},
                        {4, 2, {0, 1, 2, 3}, 0, 0, 0, 0, 0, first, end, 0, NULL},
                        {2, 5, {1, 0}, GYRE_CAUSAL_BY_ORDER, 0, 0, 0, 0, NULL, NULL, 0, NULL},
                        {4, 3, {2, 0, 1, 0}, 0, 1, 0, 0, 0, NULL, NULL, 0, NULL},
                        {3, 11, {1, 2, 0}, 1, 1, 0, 0, 3, NULL, NULL, 0, NULL},
                        {2, 40, {1, 0}, 1, 0, 50, 6, 0, NULL, NULL, 0, NULL},
                        {4, 2, {0, 1, 2, 3}, 0, 1, 0, 0, 0, first, end, 0, NULL},
                        {4, 5, {0, 1, 2, 3}, GYRE_CAUSAL_BY_ORDER, 0, 0, 0, 0, first, end, 0, NULL},
                        {4, 5, {0, 1, 2, 3}, GYRE_CAUSAL_BY_ORDER, 0, 0, 0, 0, first, end, 0, q_end},
                        {2, 12, {1, 0}, GYRE_CAUSAL_BY_ORDER, 1, 0, 0, 0, NULL, NULL, 0, q_end},
                        {2, 30, {1, 0}, 0, 0, 20, 0, 0, NULL, NULL, 4, NULL},
                        {2, 5, {1, 0}, 0, 0, 0, 3, 0, NULL, NULL, 2, NULL},
                        {3, 11, {1, 2, 0}, 0, 1, 6, 0, 3, NULL, NULL, 1, NULL}};
    ask_all(asks, sizeof asks / sizeof *asks);
}

/* Weights of a batch of sequences of different lengths: 0 for keys that a shorter sequence does not have. */
static void weights(void **state) {
    (void)state;
    const ask a = {3, 4, {2, 0, 3}, 1, 0, 0, 0, 0, NULL, NULL, 0, NULL};
    fixture f = make_fixture(&cases[1]);
    problem p = make_problem(f.c, &a, f.s, 3);
    const int64_t heads = HEADS * GROUP, wanted = 2;
    const size_t size = (size_t)(a.batch * wanted * heads * p.longest);
    p.weights = room(size, sizeof(float));
    for (size_t i = 0; i < size; i++)
        p.weights[i] = 9;
    p.args.weights = gyre_dense(p.weights, GYRE_DTYPE_F32, a.batch, wanted, heads, p.longest);
    p.args.weights_first = 1;
    run(f.cache, &a, &p, NULL);
    for (int64_t row = 0; row < a.batch * wanted * heads; row++) {
        const place at = {row / heads / wanted, 1 + row / heads % wanted, row % heads};
        const model_sequence *of = &f.s[a.sequences[at.b]];
        double scores[MOST_TOKENS], out[VALUES];
        const double lse = naive_row(f.c, &a, &p, of, &at, scores, out);
        for (int64_t k = 0; k < p.longest; k++) {
            const double want = k < of->count ? exp(scores[k] - lse) : 0;
            test_close((long double)p.weights[row * p.longest + k], (long double)want, 1e-5L, "weight");
        }
    }
    p.args.weights_are_scores = 1;
    run(f.cache, &a, &p, NULL);
    for (int64_t row = 0; row < a.batch * wanted * heads; row++) {
        const place at = {row / heads / wanted, 1 + row / heads % wanted, row % heads};
        const model_sequence *of = &f.s[a.sequences[at.b]];
        double scores[MOST_TOKENS], out[VALUES];
        naive_row(f.c, &a, &p, of, &at, scores, out);
        for (int64_t k = 0; k < p.longest; k++) {
            const float got = p.weights[row * p.longest + k];
            if (k >= of->count || scores[k] == -INFINITY)
                assert_true(got == -INFINITY);
            else
                test_close((long double)got, (long double)scores[k], 1e-5L * (1 + fabsl((long double)scores[k])), "score");
        }
    }
    free_problem(&p);
    free_fixture(&f);
}

/* Page size, rotated or raw keys, and threads do not show in the results; paged and contiguous caches agree to the last
 * bit. */
static void backwards(void *ctx, void (*fn)(void *arg, int64_t i), void *arg, int64_t n) {
    (void)ctx;
    for (int64_t i = n - 1; i >= 0; i--)
        fn(arg, i);
}

static void same_bits(void **state) {
    (void)state;
    const cache_case kinds[] = {
        {GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_F16, GYRE_DTYPE_F16, 4, 1280, 0, 1, GYRE_LAYOUT_HALF, 0},
        {GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_F16, GYRE_DTYPE_F16, 4, 1280, 16, 1, GYRE_LAYOUT_HALF, 0},
        {GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_F16, GYRE_DTYPE_F16, 4, 1280, 5, 1, GYRE_LAYOUT_HALF, 0}};
    const ask asks[] = {{3, 1, {1, 0, 2}, 1, 0, 0, 0, 0, NULL, NULL, 0, NULL},
                        {2, 20, {1, 0}, 1, 0, 0, 0, 0, NULL, NULL, 0, NULL}};
    const gyre_exec exec = {backwards, NULL, 3};
    for (int j = 0; j < 2; j++) {
        float *first_out = NULL;
        for (int i = 0; i < 6; i++) {
            fixture f = make_fixture(&kinds[i / 2]);
            problem p = make_problem(f.c, &asks[j], f.s, 7);
            run(f.cache, &asks[j], &p, i % 2 ? &exec : NULL);
            if (!first_out) {
                first_out = room(p.out_size, sizeof *first_out);
                memcpy(first_out, p.out, p.out_size * sizeof *first_out);
            }
            assert_memory_equal(first_out, p.out, p.out_size * sizeof *first_out);
            free_problem(&p);
            free_fixture(&f);
        }
        free(first_out);
    }
}

/* -- refusals -- */

/* Scratch for any sequences, asked for with views of those that have no token yet. */
static void scratch_before_tokens(void **state) {
    const cache_case c = {GYRE_CACHE_KEYS_RAW, GYRE_DTYPE_F32, GYRE_DTYPE_F32, 2, 96, 16, 1, GYRE_LAYOUT_HALF, 0};
    gyre_encoding *encoding = case_encoding(&c);
    gyre_cache *cache = case_cache(&c, encoding);
    float q[2 * HEADS * DIM] = {0}, out[2 * HEADS * VALUES], weights[1];
    const int64_t sequences[] = {0, 1};
    attention_setup args = GYRE_INIT(attention_setup);
    (void)state;
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 2, 1, HEADS, DIM);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 2, 1, HEADS, VALUES);
    args.weights = gyre_dense(weights, GYRE_DTYPE_F32, 2, 1, HEADS, 0);
    const size_t now = cache_attention_scratch(cache, sequences, &args, NULL),
                 any = cache_attention_scratch(cache, NULL, &args, NULL);
    assert_true(now > 0 && any >= now);
    gyre_cache_free(cache);
    gyre_encoding_free(encoding);
}

static void refused(void **state) {
    (void)state;
    fixture f = make_fixture(&cases[1]);
    const ask a = {4, 1, {0, 1, 2, 3}, 1, 1, 0, 0, 0, NULL, NULL, 0, NULL};
    problem p = make_problem(f.c, &a, f.s, 5);
    const size_t bytes = cache_attention_scratch(f.cache, a.sequences, &p.args, NULL);
    void *scratch = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(scratch);
    for (size_t i = 0; i < p.out_size; i++)
        p.out[i] = 7;
    const int64_t starts[] = {0, 1}, none[] = {0, 1, 2, 4}, negative[] = {0, -1, 2, 3}, past[] = {0, 0, 34, 0};
    int64_t far[8] = {0, 0, 0, 0, 0, 0, INT64_C(1) << 32, 0};
    attention_setup wrong[16];
    const gyre_status expected[16] = {GYRE_ESHAPE, GYRE_EINVAL, GYRE_EINVAL, GYRE_EINVAL, GYRE_EINVAL, GYRE_ESHAPE,
                                      GYRE_ESHAPE, GYRE_ESHAPE, GYRE_ERANGE, GYRE_EINVAL, GYRE_EDTYPE, GYRE_ESHAPE,
                                      GYRE_EINVAL, GYRE_ESHAPE, GYRE_EINVAL, GYRE_EINVAL};
    for (int i = 0; i < 16; i++)
        wrong[i] = p.args;
    wrong[0].q_starts = starts;
    wrong[1].k_starts = starts;
    wrong[2].sequences = 1;
    wrong[3].dropout = 0.1;
    wrong[4].size = 3;
    wrong[5].mask.shape[3]--;
    wrong[6].out.shape[0]--;
    wrong[7].lse.shape[0]++;
    /* of the last row: the others are not written */
    wrong[8].q_pos = (gyre_positions){far, GYRE_DTYPE_I64, 0, 0, 2, 2, 0, 0};
    wrong[9].k_end = past;
    wrong[10].q.dtype = GYRE_DTYPE_F64;
    wrong[11].q.shape[3] = 8;
    wrong[12].out.data = NULL;
    wrong[13].q.shape[0] = -1;
    wrong[14].window = -1;
    wrong[15].out.stride[0] = 0;
    for (int i = 0; i < 16; i++) {
        const gyre_status status =
            run_cache_attention(f.cache, a.sequences, &wrong[i], (gyre_scratch){scratch, bytes}, NULL, NULL);
        if (status != expected[i]) fail_msg("%d: %d is not %d", i, status, expected[i]);
    }
    assert_int_equal(run_cache_attention(f.cache, none, &p.args, (gyre_scratch){scratch, bytes}, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(run_cache_attention(f.cache, negative, &p.args, (gyre_scratch){scratch, bytes}, NULL, NULL),
                     GYRE_EINVAL);
    assert_int_equal(run_cache_attention(f.cache, NULL, &p.args, (gyre_scratch){scratch, bytes}, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(run_cache_attention(NULL, a.sequences, &p.args, (gyre_scratch){scratch, bytes}, NULL, NULL),
                     GYRE_EINVAL);
    assert_int_equal(run_cache_attention(f.cache, a.sequences, NULL, (gyre_scratch){scratch, bytes}, NULL, NULL),
                     GYRE_EINVAL);
    assert_int_equal(run_cache_attention(f.cache, a.sequences, &p.args, (gyre_scratch){NULL, bytes}, NULL, NULL),
                     GYRE_EINVAL);
    assert_int_equal(
        run_cache_attention(f.cache, a.sequences, &p.args, (gyre_scratch){(char *)scratch + 8, bytes}, NULL, NULL),
        GYRE_EINVAL);
    for (size_t less = 0; less < bytes; less += bytes / 7)
        assert_int_equal(run_cache_attention(f.cache, a.sequences, &p.args, (gyre_scratch){scratch, less}, NULL, NULL),
                         GYRE_ENOMEM);
    assert_int_equal(cache_attention_scratch(f.cache, none, &p.args, NULL), 0);
    assert_int_equal(cache_attention_scratch(f.cache, a.sequences, &wrong[3], NULL), 0);
    for (size_t i = 0; i < p.out_size; i++)
        assert_true(p.out[i] == 7);
    free(scratch);
    free_problem(&p);
    free_fixture(&f);
}

/* Rotated keys are for one length. */
static void other_length(void **state) {
    (void)state;
    for (int raw = 0; raw < 2; raw++) {
        gyre_config config = test_rope_config(DIM, GYRE_LAYOUT_HALF);
        config.rope.scaling = GYRE_SCALING_DYNAMIC_NTK;
        config.rope.factor = 2;
        config.trained_length = 32;
        gyre_encoding *encoding = test_encoding(&config);
        const cache_case c = {raw ? GYRE_CACHE_KEYS_RAW : GYRE_CACHE_KEYS_ROTATED,
                              GYRE_DTYPE_F32,
                              GYRE_DTYPE_F32,
                              1,
                              64,
                              16,
                              1,
                              GYRE_LAYOUT_HALF,
                              0};
        gyre_cache_config of = case_config(&c, encoding);
        gyre_cache *cache = NULL;
        model_sequence *s = room(1, sizeof *s);
        test_random random = {4};
        of.context_length = 100;
        assert_ok(gyre_cache_create(&cache, &of, NULL, NULL));
        assert_ok(model_append(cache, &c, s, 0, 20, 0, 1, &random));
        const ask a = {1, 1, {0}, 1, 0, 0, 0, 0, NULL, NULL, 0, NULL};
        problem p = make_problem(&c, &a, s, 5);
        const int64_t lengths[] = {0, 100, 101};
        float *outs[3];
        for (int i = 0; i < 3; i++) {
            p.args.q_pos.context_length = lengths[i];
            outs[i] = room(p.out_size, sizeof(float));
            if (i == 2 && !raw) {
                _Alignas(64) char scratch[64];
                assert_int_equal(cache_attention_scratch(cache, a.sequences, &p.args, NULL), 0);
                assert_int_equal(run_cache_attention(cache, a.sequences, &p.args, (gyre_scratch){scratch, 64}, NULL, NULL),
                                 GYRE_EINVAL);
            } else {
                run(cache, &a, &p, NULL);
                memcpy(outs[i], p.out, p.out_size * sizeof(float));
            }
        }
        /* 0 means the cache's length for rotated keys, else the encoding's own */
        assert_int_equal(memcmp(outs[0], outs[1], p.out_size * sizeof(float)) == 0, !raw);
        for (int i = 0; i < 3; i++)
            free(outs[i]);
        free(s);
        free_problem(&p);
        gyre_cache_free(cache);
        gyre_encoding_free(encoding);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(matches_the_definition),
                                       cmocka_unit_test(weights),
                                       cmocka_unit_test(same_bits),
                                       cmocka_unit_test(refused),
                                       cmocka_unit_test(other_length),
                                       cmocka_unit_test(scratch_before_tokens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
