/* test_rows_and_heads.c: slopes of each batch row and positions of each head: the bits of a call for each row or head, and
 * the definition in double. */
#include "attention_memory.h"
#include "attention_setup.h"
#include "gyre/gyre_cache.h"

#include <math.h>

enum { BATCH = 3, HEADS = 4, KEY_HEADS = 2, GROUP = HEADS / KEY_HEADS, DIM = 16, MOST_KEYS = 300, BUCKETS = 8, CLIP = 6 };
enum { ROWS = 2 * CLIP + 1 };

typedef struct trial {
    gyre_dtype dtype;
    int64_t queries, keys;
    size_t q_size, k_size, rows;
    void *q, *k, *v, *out, *dout;
    float *lse, *dq, *dk, *dv;
    int64_t *q_at, *k_at;        /* [batch][head][token] */
    float slopes[BATCH * HEADS]; /* [batch][head] */
    float bias[BUCKETS * HEADS], dbias[BUCKETS * HEADS];
    float vectors[ROWS * DIM], dvectors[ROWS * DIM];
    float sinks[HEADS], dsinks[HEADS];
    gyre_tables tables;
    gyre_table_gradients gradients;
    attention_setup args;
} trial;

static void *numbers(test_random *random, gyre_dtype dtype, size_t n) {
    void *out = room(n, gyre_dtype_size(dtype));
    for (size_t i = 0; i < n; i++) {
        float x;
        test_fill(random, &x, 1);
        test_put(out, dtype, i, (double)x);
    }
    return out;
}

/* Positions rise by 1 to 3 a token, differently in each head. */
static void place(test_random *random, trial *t) {
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t h = 0; h < HEADS; h++) {
            int64_t at = 5 * h;
            for (int64_t i = 0; i < t->keys; i++) {
                at += 1 + (int64_t)(test_next(random) % 3);
                if (h < KEY_HEADS) t->k_at[(b * KEY_HEADS + h) * t->keys + i] = at;
                if (i >= t->keys - t->queries)
                    t->q_at[(b * HEADS + h) * t->queries + i - t->keys + t->queries] = at - (int64_t)(h == 3 ? 4 : 0);
            }
        }
}

static trial make(gyre_dtype dtype, int64_t queries, int64_t keys) {
    test_random random = {(uint64_t)(7 * queries + keys)};
    trial t = {.dtype = dtype, .queries = queries, .keys = keys, .args = GYRE_INIT(attention_setup)};
    t.rows = (size_t)(BATCH * queries * HEADS);
    t.q_size = t.rows * DIM;
    t.k_size = (size_t)(BATCH * keys * KEY_HEADS * DIM);
    t.q = numbers(&random, dtype, t.q_size);
    t.k = numbers(&random, dtype, t.k_size);
    t.v = numbers(&random, dtype, t.k_size);
    t.dout = numbers(&random, dtype, t.q_size);
    t.out = room(t.q_size, gyre_dtype_size(dtype));
    t.lse = room(t.rows, sizeof(float));
    t.dq = room(t.q_size, sizeof(float));
    t.dk = room(t.k_size, sizeof(float));
    t.dv = room(t.k_size, sizeof(float));
    t.q_at = room((size_t)(BATCH * HEADS * queries), sizeof(int64_t));
    t.k_at = room((size_t)(BATCH * KEY_HEADS * keys), sizeof(int64_t));
    place(&random, &t);
    test_fill(&random, t.slopes, BATCH * HEADS);
    for (int i = 0; i < BATCH * HEADS; i++)
        t.slopes[i] = fabsf(t.slopes[i]) / 4;
    test_fill(&random, t.bias, BUCKETS * HEADS);
    test_fill(&random, t.vectors, ROWS * DIM);
    test_fill(&random, t.sinks, HEADS);
    return t;
}

static void release(trial *t) {
    void *all[] = {t->q, t->k, t->v, t->out, t->dout, t->lse, t->dq, t->dk, t->dv, t->q_at, t->k_at};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* The whole call, at positions 0, 1, ... */
static void describe(trial *t, const gyre_encoding *encoding, gyre_causal causal, int64_t window) {
    t->args = (attention_setup)GYRE_INIT(attention_setup);
    t->args.encoding = encoding;
    t->args.q = gyre_cdense(t->q, t->dtype, BATCH, t->queries, HEADS, DIM);
    t->args.k = gyre_cdense(t->k, t->dtype, BATCH, t->keys, KEY_HEADS, DIM);
    t->args.v = gyre_cdense(t->v, t->dtype, BATCH, t->keys, KEY_HEADS, DIM);
    t->args.out = gyre_dense(t->out, t->dtype, BATCH, t->queries, HEADS, DIM);
    t->args.lse = gyre_dense(t->lse, GYRE_DTYPE_F32, BATCH, t->queries, HEADS, 1);
    t->args.causal = causal;
    t->args.window = window;
    t->args.q_pos.base = t->keys - t->queries;
    t->tables = (gyre_tables){.bias = gyre_cdense(t->bias, GYRE_DTYPE_F32, 1, 1, BUCKETS, HEADS),
                              .query = gyre_cdense(t->vectors, GYRE_DTYPE_F32, 1, 1, ROWS, DIM),
                              .value = gyre_cdense(t->vectors, GYRE_DTYPE_F32, 1, 1, ROWS, DIM)};
    t->gradients = (gyre_table_gradients){.bias = gyre_dense(t->dbias, GYRE_DTYPE_F32, 1, 1, BUCKETS, HEADS),
                                          .query = gyre_dense(t->dvectors, GYRE_DTYPE_F32, 1, 1, ROWS, DIM),
                                          .sink_logits = gyre_dense(t->dsinks, GYRE_DTYPE_F32, 1, 1, HEADS, 1)};
    t->args.tables = &t->tables;
}

static void run(const trial *t, const gyre_exec *exec) {
    const gyre_cview dout = gyre_cdense(t->dout, t->dtype, BATCH, t->queries, HEADS, DIM);
    const gyre_view dqkv[3] = {gyre_dense(t->dq, GYRE_DTYPE_F32, BATCH, t->queries, HEADS, DIM),
                               gyre_dense(t->dk, GYRE_DTYPE_F32, BATCH, t->keys, KEY_HEADS, DIM),
                               gyre_dense(t->dv, GYRE_DTYPE_F32, BATCH, t->keys, KEY_HEADS, DIM)};
    attend(&t->args, exec);
    differentiate(&t->args, &dout, dqkv, &t->gradients, exec);
}

static void *at(void *data, gyre_dtype dtype, int64_t element) {
    return (char *)data + element * (int64_t)gyre_dtype_size(dtype);
}

static void same(const void *a, const void *b, size_t n, gyre_dtype dtype, const char *what) {
    if (memcmp(a, b, n * gyre_dtype_size(dtype)) == 0) return;
    for (size_t i = 0; i < n; i++)
        if (memcmp((const char *)a + i * gyre_dtype_size(dtype), (const char *)b + i * gyre_dtype_size(dtype),
                   gyre_dtype_size(dtype)) != 0)
            fail_msg("%s[%zu]: %.9g alone, %.9g together", what, i, test_get(b, dtype, i), test_get(a, dtype, i));
}

/* -- slopes of each row -- */

static gyre_encoding *alibi_of(const float *slopes, int64_t heads) {
    double own[HEADS];
    gyre_config config = GYRE_INIT(gyre_config);
    for (int64_t h = 0; slopes && h < heads; h++)
        own[h] = (double)slopes[h];
    config.kind = GYRE_KIND_ALIBI;
    config.heads = heads;
    config.score.slopes = slopes ? own : NULL;
    return test_encoding(&config);
}

/* The encoding has other slopes, after the query too, and a divisor: none of them may count. */
static gyre_encoding *other_slopes(void) {
    static const double before[HEADS] = {3, 1, 4, 1}, after[HEADS] = {5, 9, 2, 6};
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ALIBI;
    config.heads = HEADS;
    config.head_dim = DIM;
    config.score.slopes = before;
    config.score.slopes_after = after;
    config.score.before_scale = 1;
    return test_encoding(&config);
}

static attention_setup with_slopes(trial *t) {
    t->args.slopes = gyre_cdense(t->slopes, GYRE_DTYPE_F32, BATCH, 1, HEADS, 1);
    return t->args;
}

/* Batch row b alone, with slopes of the encoding. */
static void check_slopes_of_row(trial *whole, int64_t b, gyre_order order) {
    trial one = make(whole->dtype, whole->queries, whole->keys);
    gyre_encoding *own = alibi_of(whole->slopes + b * HEADS, HEADS);
    describe(&one, own, whole->args.causal, whole->args.window);
    const int64_t q = b * whole->queries * HEADS * DIM, k = b * whole->keys * KEY_HEADS * DIM;
    const size_t q_count = one.q_size / BATCH, k_count = one.k_size / BATCH;
    one.args.order = order;
    one.args.q.data = at(one.q, one.dtype, q);
    one.args.k.data = at(one.k, one.dtype, k);
    one.args.v.data = at(one.v, one.dtype, k);
    one.args.q.shape[0] = one.args.k.shape[0] = one.args.v.shape[0] = one.args.out.shape[0] = one.args.lse.shape[0] = 1;
    const gyre_cview dout = gyre_cdense(at(one.dout, one.dtype, q), one.dtype, 1, one.queries, HEADS, DIM);
    const gyre_view dqkv[3] = {gyre_dense(one.dq, GYRE_DTYPE_F32, 1, one.queries, HEADS, DIM),
                               gyre_dense(one.dk, GYRE_DTYPE_F32, 1, one.keys, KEY_HEADS, DIM),
                               gyre_dense(one.dv, GYRE_DTYPE_F32, 1, one.keys, KEY_HEADS, DIM)};
    attend(&one.args, NULL);
    differentiate(&one.args, &dout, dqkv, NULL, NULL);
    same(at(whole->out, one.dtype, q), one.out, q_count, one.dtype, "out");
    same(whole->lse + b * whole->queries * HEADS, one.lse, (size_t)(one.queries * HEADS), GYRE_DTYPE_F32, "lse");
    same(whole->dq + q, one.dq, q_count, GYRE_DTYPE_F32, "dq");
    same(whole->dk + k, one.dk, k_count, GYRE_DTYPE_F32, "dk");
    same(whole->dv + k, one.dv, k_count, GYRE_DTYPE_F32, "dv");
    gyre_encoding_free(own);
    release(&one);
}

static const int64_t lengths[][2] = {{1, 200}, {5, 40}, {70, 300}, {130, 130}};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static void slopes_of_each_row(void **state) {
    (void)state;
    gyre_encoding *encoding = other_slopes();
    gyre_pool *pool;
    assert_ok(gyre_pool_create(&pool, 2, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    for (int d = 0; d < 3; d++)
        for (int causal = 0; causal < 3; causal++)
            for (int l = 0; l < LENGTHS; l++)
                for (int fixed = 0; fixed < 2; fixed++) {
                    trial t = make(test_dtypes[d], lengths[l][0], lengths[l][1]);
                    describe(&t, encoding, (gyre_causal)causal, l % 2 ? 25 : 0);
                    t.args.order = fixed ? GYRE_ORDER_FIXED : GYRE_ORDER_FAST;
                    t.args = with_slopes(&t);
                    run(&t, fixed ? &exec : NULL);
                    for (int64_t b = 0; b < BATCH; b++)
                        check_slopes_of_row(&t, b, t.args.order);
                    release(&t);
                }
    gyre_pool_free(pool);
    gyre_encoding_free(encoding);
}

/* Sequences of a packed batch: row s of the slopes is sequence s. */
static void slopes_of_each_sequence(void **state) {
    (void)state;
    enum { TOKENS = 90 };
    const int64_t starts[BATCH + 1] = {0, 20, 21, TOKENS};
    gyre_encoding *encoding = other_slopes();
    trial t = make(GYRE_DTYPE_F32, TOKENS, TOKENS), alone = make(GYRE_DTYPE_F32, TOKENS, TOKENS);
    describe(&t, encoding, GYRE_CAUSAL_NONE, 0);
    t.args.q.shape[0] = t.args.k.shape[0] = t.args.v.shape[0] = t.args.out.shape[0] = t.args.lse.shape[0] = 1;
    t.args.q_starts = t.args.k_starts = starts;
    t.args.sequences = BATCH;
    t.args = with_slopes(&t);
    attend(&t.args, NULL);
    for (int64_t s = 0; s < BATCH; s++) {
        gyre_encoding *own = alibi_of(t.slopes + s * HEADS, HEADS);
        const int64_t n = starts[s + 1] - starts[s], first = starts[s] * HEADS * DIM;
        describe(&alone, own, GYRE_CAUSAL_NONE, 0);
        attention_setup *a = &alone.args;
        a->q = gyre_cdense((float *)alone.q + first, GYRE_DTYPE_F32, 1, n, HEADS, DIM);
        a->k = gyre_cdense((float *)alone.k + first / GROUP, GYRE_DTYPE_F32, 1, n, KEY_HEADS, DIM);
        a->v = gyre_cdense((float *)alone.v + first / GROUP, GYRE_DTYPE_F32, 1, n, KEY_HEADS, DIM);
        a->out = gyre_dense((float *)alone.out + first, GYRE_DTYPE_F32, 1, n, HEADS, DIM);
        a->lse = gyre_dense(alone.lse + starts[s] * HEADS, GYRE_DTYPE_F32, 1, n, HEADS, 1);
        attend(a, NULL);
        gyre_encoding_free(own);
    }
    same(t.out, alone.out, TOKENS * HEADS * DIM, GYRE_DTYPE_F32, "out");
    gyre_encoding_free(encoding);
    release(&t);
    release(&alone);
}

static void attend_cache(const gyre_cache *cache, const int64_t *sequences, const attention_setup *args) {
    const size_t bytes = cache_attention_scratch(cache, sequences, args, NULL);
    void *scratch = scratch_for(bytes);
    assert_ok(run_cache_attention(cache, sequences, args, (gyre_scratch){scratch, bytes}, NULL, NULL));
    free(scratch);
}

static gyre_cache *fill_cache(trial *t, const gyre_encoding *encoding, gyre_dtype dtype) {
    gyre_cache *cache = NULL;
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.encoding = encoding;
    config.keys = GYRE_CACHE_KEYS_RAW;
    config.key_dtype = config.value_dtype = dtype;
    config.heads = KEY_HEADS;
    config.head_dim = config.value_dim = DIM;
    config.sequences = BATCH;
    config.max_tokens = BATCH * t->keys;
    config.page_tokens = 16;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    const gyre_positions positions = {0};
    for (int64_t b = 0; b < BATCH; b++) {
        const gyre_cview k =
            gyre_cdense((float *)t->k + b * t->keys * KEY_HEADS * DIM, GYRE_DTYPE_F32, 1, t->keys - 7 * b, KEY_HEADS, DIM);
        const gyre_cview v =
            gyre_cdense((float *)t->v + b * t->keys * KEY_HEADS * DIM, GYRE_DTYPE_F32, 1, t->keys - 7 * b, KEY_HEADS, DIM);
        assert_ok(gyre_cache_append(
            cache, GYRE_ARGS(gyre_cache_append_args, .sequence = b, .k = k, .v = v, .positions = &positions), NULL, NULL));
    }
    return cache;
}

static void slopes_through_a_cache(void **state) {
    (void)state;
    static const gyre_dtype dtypes[3] = {GYRE_DTYPE_F32, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};
    const int64_t sequences[BATCH] = {2, 0, 1};
    gyre_encoding *encoding = other_slopes();
    for (int d = 0; d < 3; d++)
        for (int64_t queries = 1; queries < 20; queries += 9) {
            trial t = make(GYRE_DTYPE_F32, queries, 200), one = make(GYRE_DTYPE_F32, queries, 200);
            gyre_cache *cache = fill_cache(&t, encoding, dtypes[d]);
            describe(&t, encoding, GYRE_CAUSAL_BY_POSITION, 50);
            t.args = with_slopes(&t);
            attend_cache(cache, sequences, &t.args);
            for (int64_t b = 0; b < BATCH; b++) {
                gyre_encoding *own = alibi_of(t.slopes + b * HEADS, HEADS);
                gyre_cache *other = fill_cache(&t, own, dtypes[d]);
                describe(&one, own, GYRE_CAUSAL_BY_POSITION, 50);
                one.args.q.data = (float *)one.q + b * queries * HEADS * DIM;
                one.args.q.shape[0] = one.args.out.shape[0] = one.args.lse.shape[0] = 1;
                attend_cache(other, sequences + b, &one.args);
                same((float *)t.out + b * queries * HEADS * DIM, one.out, (size_t)(queries * HEADS * DIM), GYRE_DTYPE_F32,
                     "out");
                gyre_cache_free(other);
                gyre_encoding_free(own);
            }
            t.args.slopes.shape[0] = 1;
            assert_int_equal(cache_attention_scratch(cache, sequences, &t.args, NULL), 0);
            gyre_cache_free(cache);
            release(&t);
            release(&one);
        }
    gyre_encoding_free(encoding);
}

/* -- positions of each head -- */

static void positions_of_heads(trial *t, int of_queries, int of_keys) {
    const int64_t q = t->queries, k = t->keys;
    t->args.q_pos = (gyre_positions){t->q_at, GYRE_DTYPE_I64, 0, 0, HEADS * q, 1, 0, 0};
    t->args.k_pos = (gyre_positions){t->k_at, GYRE_DTYPE_I64, 0, 0, KEY_HEADS * k, 1, 0, 0};
    t->args.q_pos_head_stride = of_queries ? q : 0;
    t->args.k_pos_head_stride = of_keys ? k : 0;
}

static gyre_encoding *scheme(int which, int64_t heads) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = which == 0 ? GYRE_KIND_NOPE : which <= 2 ? GYRE_KIND_ROPE : which == 3 ? GYRE_KIND_T5 : GYRE_KIND_SHAW;
    config.head_dim = DIM;
    config.heads = config.kind == GYRE_KIND_T5 ? heads : 0;
    config.trained_length = 32;
    config.score.buckets = BUCKETS;
    config.score.max_distance = config.kind == GYRE_KIND_SHAW ? CLIP : 64;
    config.score.terms = config.kind == GYRE_KIND_SHAW ? GYRE_TERM_QUERY | GYRE_TERM_VALUE : 0;
    if (which == 2) { /* a context length for each query */
        config.rope.scaling = GYRE_SCALING_DYNAMIC_NTK;
        config.rope.factor = 2;
        config.length_policy = GYRE_LENGTH_POLICY_CAUSAL;
    }
    return test_encoding(&config);
}
enum { SCHEMES = 5, ALIBI = SCHEMES };

/* A call for query head h of every row, added to dk and dv of its key head. */
static void run_head(trial *one, const trial *whole, int64_t h, const gyre_encoding *encoding) {
    const int64_t key_head = h / GROUP;
    float *part[2] = {room(one->k_size, sizeof(float)), room(one->k_size, sizeof(float))};
    gyre_tables tables = one->tables;
    gyre_table_gradients gradients = one->gradients;
    attention_setup a = one->args;
    a.encoding = encoding;
    a.tables = &tables;
    tables.bias.data = (const float *)tables.bias.data + h;
    gradients.bias.data = (float *)gradients.bias.data + h;
    tables.bias.shape[3] = gradients.bias.shape[3] = 1;
    a.sink_logits.data = one->sinks + h;
    gradients.sink_logits.data = one->dsinks + h;
    a.sink_logits.shape[2] = gradients.sink_logits.shape[2] = 1;
    a.q.data = at(one->q, one->dtype, h * DIM);
    a.k.data = at(one->k, one->dtype, key_head * DIM);
    a.v.data = at(one->v, one->dtype, key_head * DIM);
    a.out.data = at(one->out, one->dtype, h * DIM);
    a.lse.data = one->lse + h;
    a.q.shape[2] = a.k.shape[2] = a.v.shape[2] = a.out.shape[2] = a.lse.shape[2] = 1;
    a.q_pos.data = one->q_at + h * whole->args.q_pos_head_stride;
    a.k_pos.data = one->k_at + key_head * whole->args.k_pos_head_stride;
    a.q_pos_head_stride = a.k_pos_head_stride = 0;
    gyre_cview dout = gyre_cdense(one->dout, one->dtype, BATCH, one->queries, HEADS, DIM);
    gyre_view dqkv[3] = {gyre_dense(one->dq + h * DIM, GYRE_DTYPE_F32, BATCH, one->queries, HEADS, DIM),
                         gyre_dense(part[0] + key_head * DIM, GYRE_DTYPE_F32, BATCH, one->keys, KEY_HEADS, DIM),
                         gyre_dense(part[1] + key_head * DIM, GYRE_DTYPE_F32, BATCH, one->keys, KEY_HEADS, DIM)};
    dout.data = at(one->dout, one->dtype, h * DIM);
    dout.shape[2] = dqkv[0].shape[2] = dqkv[1].shape[2] = dqkv[2].shape[2] = 1;
    attend(&a, NULL);
    differentiate(&a, &dout, dqkv, &gradients, NULL);
    for (size_t i = 0; i < one->k_size; i++)
        one->dk[i] += part[0][i], one->dv[i] += part[1][i];
    free(part[0]);
    free(part[1]);
}

static void check_heads(int which, gyre_dtype dtype, const int64_t length[2], int causal) {
    trial whole = make(dtype, length[0], length[1]), one = make(dtype, length[0], length[1]);
    gyre_encoding *encoding = which == ALIBI ? alibi_of(whole.slopes, HEADS) : scheme(which, HEADS);
    trial *const both[2] = {&whole, &one};
    for (int i = 0; i < 2; i++) {
        describe(both[i], encoding, (gyre_causal)causal, which % 2 ? 40 : 0);
        positions_of_heads(both[i], 1, 1);
        both[i]->args.sink_logits = gyre_cdense(both[i]->sinks, GYRE_DTYPE_F32, 1, 1, HEADS, 1);
    }
    run(&whole, NULL);
    for (int64_t h = 0; h < HEADS; h++) {
        gyre_encoding *own = which == ALIBI ? alibi_of(whole.slopes + h, 1) : scheme(which, 1);
        run_head(&one, &whole, h, own);
        gyre_encoding_free(own);
    }
    same(whole.out, one.out, one.q_size, dtype, "out");
    same(whole.lse, one.lse, one.rows, GYRE_DTYPE_F32, "lse");
    same(whole.dq, one.dq, one.q_size, GYRE_DTYPE_F32, "dq");
    for (size_t i = 0; i < one.k_size; i++) { /* where lengths differ too, parts are added in another order */
        test_close((long double)whole.dk[i], (long double)one.dk[i], 2e-6L, "dk");
        test_close((long double)whole.dv[i], (long double)one.dv[i], 2e-6L, "dv");
    }
    for (int i = 0; i < BUCKETS * HEADS; i++)
        test_close((long double)whole.dbias[i], (long double)one.dbias[i], 1e-4L, "dbias");
    for (int i = 0; i < ROWS * DIM; i++)
        test_close((long double)whole.dvectors[i], (long double)one.dvectors[i], 1e-4L, "dvectors");
    for (int i = 0; i < HEADS; i++)
        test_close((long double)whole.dsinks[i], (long double)one.dsinks[i], 1e-4L, "dsinks");
    gyre_encoding_free(encoding);
    release(&whole);
    release(&one);
}

static void positions_of_each_head(void **state) {
    (void)state;
    for (int which = 0; which <= ALIBI; which++)
        for (int d = 0; d < 3; d++)
            for (int l = 0; l < LENGTHS; l++)
                check_heads(which, test_dtypes[d], lengths[l], (which + d + l) % 2);
}

/* Heads with equal positions give what they give without a stride, dropout and mask included; so do keys alone. */
static void equal_positions(void **state) {
    (void)state;
    gyre_encoding *encoding = scheme(1, HEADS);
    for (int l = 0; l < LENGTHS; l++)
        for (int only_keys = 0; only_keys < 2; only_keys++) {
            const int64_t queries = lengths[l][0], keys = lengths[l][1];
            trial a = make(GYRE_DTYPE_F32, queries, keys), b = make(GYRE_DTYPE_F32, queries, keys);
            float *mask = room((size_t)(BATCH * queries * HEADS * keys), sizeof *mask);
            test_random random = {3};
            test_fill(&random, mask, (size_t)(BATCH * queries * HEADS * keys));
            for (int64_t i = 0; i < BATCH * HEADS * queries; i++)
                a.q_at[i] = b.q_at[i] = keys - queries + i % queries;
            for (int64_t i = 0; i < BATCH * KEY_HEADS * keys; i++)
                a.k_at[i] = b.k_at[i] = i % keys;
            describe(&a, encoding, GYRE_CAUSAL_BY_POSITION, 0);
            describe(&b, encoding, GYRE_CAUSAL_BY_POSITION, 0);
            positions_of_heads(&a, !only_keys, 1);
            a.args.dropout = b.args.dropout = 0.25;
            a.args.mask = b.args.mask = gyre_cdense(mask, GYRE_DTYPE_F32, BATCH, queries, HEADS, keys);
            run(&a, NULL);
            run(&b, NULL);
            for (size_t i = 0; i < a.q_size; i++) {
                test_close((long double)((float *)a.out)[i], (long double)((float *)b.out)[i], 1e-6L, "out");
                test_close((long double)a.dq[i], (long double)b.dq[i], 2e-6L, "dq");
            }
            for (size_t i = 0; i < a.k_size; i++) {
                test_close((long double)a.dk[i], (long double)b.dk[i], 4e-6L, "dk");
                test_close((long double)a.dv[i], (long double)b.dv[i], 4e-6L, "dv");
            }
            free(mask);
            release(&a);
            release(&b);
        }
    gyre_encoding_free(encoding);
}

/* -- the definition -- */

/* out = q . k of query head h after rotation by their distance, or at distance 0. */
static double dot_at(const trial *t, int64_t q, int64_t k, int64_t distance, const double *inv_freq) {
    double sum = 0;
    for (int64_t i = 0; i < DIM / 2; i++) {
        const double a = inv_freq ? (double)distance * inv_freq[i] : 0;
        const double qx = test_get(t->q, t->dtype, (size_t)(q + i)),
                     qy = test_get(t->q, t->dtype, (size_t)(q + i + DIM / 2)),
                     kx = test_get(t->k, t->dtype, (size_t)(k + i)),
                     ky = test_get(t->k, t->dtype, (size_t)(k + i + DIM / 2));
        sum += (qx * kx + qy * ky) * cos(a) + (qy * kx - qx * ky) * sin(a);
    }
    return sum;
}

static void define_row(const trial *t, int64_t b, int64_t h, int64_t i, const double *inv_freq, double slope, double *out) {
    const int64_t kh = h / GROUP, q = ((b * t->queries + i) * HEADS + h) * DIM,
                  m = t->q_at[(b * HEADS + h) * t->queries + i];
    double weight[MOST_KEYS], most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < t->keys; j++) {
        const int64_t n = t->k_at[(b * KEY_HEADS + kh) * t->keys + j];
        weight[j] = dot_at(t, q, ((b * t->keys + j) * KEY_HEADS + kh) * DIM, n - m, inv_freq) / sqrt(DIM) -
                    slope * fabs((double)(m - n));
        if (n > m) weight[j] = -INFINITY;
        most = fmax(most, weight[j]);
    }
    for (int c = 0; c < DIM; c++)
        out[c] = 0;
    for (int64_t j = 0; j < t->keys && most > -INFINITY; j++)
        sum += exp(weight[j] - most);
    for (int64_t j = 0; j < t->keys && most > -INFINITY; j++)
        for (int c = 0; c < DIM; c++)
            out[c] += exp(weight[j] - most) / sum *
                      test_get(t->v, t->dtype, (size_t)(((b * t->keys + j) * KEY_HEADS + kh) * DIM + c));
}

static void agrees_with_definition(void **state) {
    (void)state;
    for (int l = 0; l < LENGTHS; l++)
        for (int rotates = 0; rotates < 2; rotates++) {
            trial t = make(GYRE_DTYPE_F32, lengths[l][0], lengths[l][1]);
            gyre_encoding *encoding = rotates ? scheme(1, HEADS) : other_slopes();
            double inv_freq[DIM / 2], want[DIM];
            if (rotates) assert_ok(gyre_encoding_frequencies(encoding, 0, inv_freq, NULL));
            describe(&t, encoding, GYRE_CAUSAL_BY_POSITION, 0);
            positions_of_heads(&t, 1, 1);
            if (!rotates) t.args = with_slopes(&t);
            attend(&t.args, NULL);
            for (int64_t row = 0; row < (int64_t)t.rows; row++) {
                const int64_t h = row % HEADS, i = row / HEADS % t.queries, b = row / HEADS / t.queries;
                define_row(&t, b, h, i, rotates ? inv_freq : NULL, rotates ? 0 : (double)t.slopes[b * HEADS + h], want);
                for (int c = 0; c < DIM; c++)
                    test_close((long double)((float *)t.out)[row * DIM + c], (long double)want[c], 3e-6L, "out");
            }
            gyre_encoding_free(encoding);
            release(&t);
        }
}

/* gyre_rotate: heads as batch rows. */
static void rotates_heads(void **state) {
    (void)state;
    for (int d = 0; d < TEST_DTYPES; d++) {
        const gyre_dtype dtype = test_dtypes[d];
        trial t = make(dtype, 33, 40);
        gyre_encoding *encoding = scheme(1, HEADS);
        for (int64_t b = 0; b < BATCH; b++) {
            const int64_t first = b * t.queries * HEADS * DIM;
            gyre_cview in = gyre_cdense(at(t.q, dtype, first), dtype, HEADS, t.queries, 1, DIM);
            in.stride[0] = DIM, in.stride[1] = HEADS * DIM;
            gyre_view out = gyre_dense(at(t.out, dtype, first), dtype, HEADS, t.queries, 1, DIM);
            out.stride[0] = DIM, out.stride[1] = HEADS * DIM;
            const gyre_positions positions = {t.q_at + b * HEADS * t.queries, GYRE_DTYPE_I64, 0, 0, t.queries, 1, 0, 0};
            assert_ok(gyre_rotate(
                encoding,
                GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_QUERY, .positions = &positions, .in = in, .out = out), NULL,
                NULL));
        }
        for (int64_t row = 0; row < (int64_t)t.rows; row++) {
            const int64_t h = row % HEADS, i = row / HEADS % t.queries, b = row / HEADS / t.queries;
            double one[DIM];
            memcpy(one, at(t.q, dtype, row * DIM), DIM * gyre_dtype_size(dtype));
            assert_ok(gyre_rotate_dense(encoding, GYRE_ROLE_QUERY, gyre_dense(one, dtype, 1, 1, 1, DIM),
                                        t.q_at[(b * HEADS + h) * t.queries + i], 0, NULL));
            same(at(t.out, dtype, row * DIM), one, DIM, dtype, "out");
        }
        gyre_encoding_free(encoding);
        release(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slopes_of_each_row),     cmocka_unit_test(slopes_of_each_sequence),
        cmocka_unit_test(slopes_through_a_cache), cmocka_unit_test(positions_of_each_head),
        cmocka_unit_test(equal_positions),        cmocka_unit_test(agrees_with_definition),
        cmocka_unit_test(rotates_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
