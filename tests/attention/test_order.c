/* test_order.c: in the fixed order a query has the same bits however its sequence is cut into calls, for any number of
 * threads, beside any other sequences, over views and over caches of any pages, on every tier. */
#include "attention_setup.h"
#include "gyre/gyre_cache.h"
#include "naive_attention_tables.h"
#include "random_cuts.h"
#include "run_each_tier.h"

enum { TOKENS = 200, HEADS = 2, DIM = 16, THREADS = 3, ROWS = 2 };
static const uint64_t SEED = 20;

/* -- what is run -- */
/* Some values are infinite or NaN; all are so small that products round to zeros of both signs; some keys are NaNs of both
 * signs; a row of the value table is, which no pair uses and only long calls read. */
typedef enum spoil { NOT_SPOILED, SPOILED_VALUES, TINY_VALUES, SPOILED_KEYS, SPOILED_TABLE } spoil;
typedef struct order_case {
    const char *name;
    gyre_config config;
    int64_t tokens, key_heads;         /* 0 = TOKENS; 0 = 1 */
    int64_t value_dim;                 /* 0 = DIM */
    gyre_causal causal;                /* 0 = by position */
    int both_ways;                     /* 1: no causal mask, all keys in every call */
    int64_t window, sinks, start, gap; /* gap: positions are gap + 1 apart, now and then more */
    double softcap;
    int sink_logits, mask;
    double gates; /* log gates around minus this; 0 = no gates */
    spoil spoiled;
    gyre_dtype dtype, out_dtype;
    int is_cached; /* 1: over caches too */
} order_case;

#define TURNING(...)                                                                                                        \
    {                                                                                                                       \
        .size = sizeof(gyre_config), .kind = GYRE_KIND_ROPE, .trained_length = 512, .rope = { __VA_ARGS__ }                 \
    }
#define FOLLOWING(policy, block, ...)                                                                                       \
    {                                                                                                                       \
        .size = sizeof(gyre_config), .kind = GYRE_KIND_ROPE, .trained_length = 512, .length_policy = policy,                \
        .length_block = block, .rope = {                                                                                    \
            __VA_ARGS__                                                                                                     \
        }                                                                                                                   \
    }
#define CHUNKED(...)                                                                                                        \
    {                                                                                                                       \
        .size = sizeof(gyre_config), .kind = GYRE_KIND_ROPE, .rope = {.far = GYRE_FAR_CHUNKED, .chunk = {__VA_ARGS__} }     \
    }
#define PLAIN                                                                                                               \
    { .size = sizeof(gyre_config), .kind = GYRE_KIND_NOPE }
static const double slopes[HEADS] = {0.5, 0.0625}, slopes_after[HEADS] = {1, 0.125};

static const order_case cases[] = {
    {.name = "none, both ways", .config = PLAIN, .both_ways = 1},
    {.name = "none, a key head for each head", .is_cached = 1, .config = PLAIN, .key_heads = 2, .value_dim = 24},
    {.name = "none, odd values", .config = PLAIN, .value_dim = 7},
    {.name = "none, 2100 tokens", .config = PLAIN, .tokens = 2100},
    {.name = "none, window", .config = PLAIN, .window = 37},
    {.name = "none, window and sinks", .is_cached = 1, .config = PLAIN, .window = 37, .sinks = 5},
    {.name = "none, window and sinks by order", .config = PLAIN, .window = 37, .sinks = 5, .causal = GYRE_CAUSAL_BY_ORDER},
    {.name = "none, softcap", .config = PLAIN, .softcap = 3},
    {.name = "none, sink logits", .config = PLAIN, .sink_logits = 1},
    {.name = "none, mask", .config = PLAIN, .mask = 1},
    {.name = "none, spoiled values", .is_cached = 1, .config = PLAIN, .spoiled = SPOILED_VALUES},
    {.name = "none, tiny values", .config = PLAIN, .spoiled = TINY_VALUES},
    {.name = "none, spoiled keys", .config = PLAIN, .spoiled = SPOILED_KEYS},
    {.name = "none, f16", .config = PLAIN, .dtype = GYRE_DTYPE_F16, .out_dtype = GYRE_DTYPE_F16},
    {.name = "none, bf16", .config = PLAIN, .dtype = GYRE_DTYPE_BF16, .out_dtype = GYRE_DTYPE_BF16},
    {.name = "rope, window, sinks, softcap",
     .is_cached = 1,
     .config = TURNING(0),
     .window = 50,
     .sinks = 3,
     .softcap = 2,
     .start = 700},
    {.name = "rope, length of the query",
     .config = FOLLOWING(GYRE_LENGTH_POLICY_CAUSAL, 0, .scaling = GYRE_SCALING_DYNAMIC_NTK, .factor = 2),
     .start = 400},
    {.name = "xpos, gaps", .config = TURNING(.xpos_base = 512), .gap = 5, .start = -300},
    {.name = "far, window", .config = TURNING(.far = GYRE_FAR_CLAMPED, .far_window = 20), .window = 60},
    {.name = "dual chunks, window, gaps", .config = CHUNKED(60, 17, 0), .window = 90, .gap = 7, .start = -300},
    {.name = "alibi, window and sinks",
     .is_cached = 1,
     .config = WITH(GYRE_KIND_ALIBI, .slopes = slopes),
     .window = 40,
     .sinks = 2},
    {.name = "alibi, two slopes, both ways",
     .config = WITH(GYRE_KIND_ALIBI, .slopes = slopes, .slopes_after = slopes_after),
     .both_ways = 1},
    {.name = "alibi, mask", .config = WITH(GYRE_KIND_ALIBI, .slopes = slopes), .mask = 1},
    {.name = "alibi, softcap", .config = WITH(GYRE_KIND_ALIBI, .slopes = slopes), .softcap = 4},
    {.name = "alibi, gaps", .config = WITH(GYRE_KIND_ALIBI, .slopes = slopes), .gap = 3},
    {.name = "gates", .config = PLAIN, .gates = 0.3},
    {.name = "gates, strong, far from the start",
     .is_cached = 1,
     .config = PLAIN,
     .gates = 30,
     .key_heads = 2,
     .start = 5000},
    {.name = "gates, window and sinks", .is_cached = 1, .config = TURNING(0), .gates = 0.2, .window = 40, .sinks = 2},
    {.name = "gates, by order", .config = PLAIN, .gates = 0.5, .causal = GYRE_CAUSAL_BY_ORDER},
    {.name = "gates, mask", .config = PLAIN, .gates = 0.3, .mask = 1},
    {.name = "gates, softcap", .config = PLAIN, .gates = 0.3, .softcap = 4},
    {.name = "gates, alibi, gaps", .config = WITH(GYRE_KIND_ALIBI, .slopes = slopes), .gates = 0.1, .gap = 3},
    {.name = "gates, kerple", .config = WITH(GYRE_KIND_KERPLE, .decay = GYRE_DECAY_LOG), .gates = 0.1},
    {.name = "gates, tapa", .config = PHASED(0), .gates = 0.1},
    {.name = "tapa, both ways, f16", .config = PHASED(.amplitudes = 3), .both_ways = 1, .dtype = GYRE_DTYPE_F16},
    {.name = "tapa, 2100 tokens", .config = PHASED(.exponent = 0.3), .tokens = 2100},
    {.name = "tapa, far from the start, gaps, softcap", .config = PHASED(0), .start = 1 << 30, .gap = 6, .softcap = 3},
    {.name = "tapa, window and sinks", .config = PHASED(0), .window = 37, .sinks = 5},
    {.name = "tapa, mask", .config = PHASED(0), .mask = 1},
    {.name = "tapa, spoiled keys", .config = PHASED(0), .spoiled = SPOILED_KEYS},
    {.name = "t5, gaps", .is_cached = 1, .config = WITH(GYRE_KIND_T5, .buckets = 32), .gap = 2, .window = 200},
    {.name = "fire, gaps", .config = WITH(GYRE_KIND_FIRE, .hidden_units = 4), .gap = 6},
    {.name = "shaw, window and sinks", .config = WITH(GYRE_KIND_SHAW, .max_distance = 20), .window = 50, .sinks = 3},
    {.name = "shaw, long, gaps", .config = WITH(GYRE_KIND_SHAW, .max_distance = 700), .gap = 3},
    {.name = "shaw, spoiled values", .config = WITH(GYRE_KIND_SHAW, .max_distance = 20), .spoiled = SPOILED_VALUES},
    {.name = "shaw, spoiled table", .config = WITH(GYRE_KIND_SHAW, .max_distance = 700), .spoiled = SPOILED_TABLE},
    {.name = "deberta, gaps", .config = WITH(GYRE_KIND_DEBERTA, .max_distance = 600), .gap = 4},
#define GYRE_TEST_SCHEME(id, oracle, ...)                                                                                   \
    {.name = #id, .config = {__VA_ARGS__}, .key_heads = 1 + SCHEME_##id % 2, .is_cached = 1},
#define GYRE_TEST_VARIANT(id, oracle, ...)
#define GYRE_TEST_INPUT(id, oracle, ...)
#include "../test_schemes.def"
};
enum { CASES = sizeof cases / sizeof *cases };

/* Memory of a call: tokens one after the other, in whatever batch.  All calls of a test use the same. */
typedef struct call_memory {
    void *q, *k, *v, *out;
    float *lse;
    int64_t *q_at, *k_at;
    double *q_gates, *k_gates;
    int64_t queries, keys; /* put so far */
} call_memory;

static call_memory make_memory(int64_t most, int64_t value_dim) {
    const size_t tokens = (size_t)(4 * most);
    return (call_memory){.q = room(tokens * HEADS * DIM, 4),
                         .k = room(tokens * HEADS * DIM, 4),
                         .v = room(tokens * HEADS * (size_t)value_dim, 4),
                         .out = room(tokens * HEADS * (size_t)value_dim, 4),
                         .lse = room(tokens * HEADS, 4),
                         .q_at = room(tokens, sizeof(int64_t)),
                         .k_at = room(tokens, sizeof(int64_t)),
                         .q_gates = room(tokens * HEADS, sizeof(double)),
                         .k_gates = room(tokens * HEADS, sizeof(double))};
}

static void free_memory(call_memory *m) {
    void *all[] = {m->q, m->k, m->v, m->out, m->lse, m->q_at, m->k_at, m->q_gates, m->k_gates};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Two sequences: row 0 is cut, row 1 is beside it. */
typedef struct order_test {
    const order_case *c;
    problem p;
    gyre_tables tables;
    int64_t tokens, value_dim;
    float sinks[HEADS], *mask; /* mask: [tokens][HEADS][tokens] */
    double *gates;             /* sums: [ROWS][tokens][HEADS] */
    float *out, *lse;          /* of row 0, as one call: [tokens][HEADS][value_dim], [tokens][HEADS]; out as floats */
    gyre_pool *pool[THREADS];
    call_memory memory;
    test_random random;
} order_test;

static int64_t below(test_random *random, int64_t n) {
    return (int64_t)(test_next(random) % (uint64_t)n);
}

static void place(order_test *t) {
    const int64_t gap = t->c->gap;
    for (int64_t i = 0, at = t->c->start; i < t->tokens; i++) {
        for (int64_t r = 0; r < ROWS; r++)
            t->p.q_at[r * t->tokens + i] = t->p.k_at[r * t->tokens + i] = at;
        at += 1 + gap + (gap && i % 7 == 6 ? 9 : 0);
    }
}

static void make_gates(order_test *t) {
    const int64_t count = ROWS * t->tokens * HEADS, row = t->tokens * HEADS;
    t->gates = room((size_t)count, sizeof *t->gates);
    for (int64_t i = 0; i < count; i++) {
        const double before = i % row < HEADS ? -t->c->gates * (double)t->c->start : t->gates[i - HEADS];
        t->gates[i] = before - t->c->gates * (1 + test_uniform(&t->random));
    }
}

static void spoil_inputs(problem *p, spoil how) {
    for (size_t i = 3; how == SPOILED_VALUES && i < p->size[V]; i += 997)
        p->x[V][i] = i % 2 ? INFINITY : NAN;
    for (size_t i = 5; how == SPOILED_VALUES && i < p->size[TABLE_V]; i += 61)
        p->x[TABLE_V][i] = -INFINITY;
    for (size_t i = 0; how == TINY_VALUES && i < p->size[V]; i++)
        p->x[V][i] = i % 50 ? 0 : -1e-45F;
    for (size_t i = 3; how == SPOILED_KEYS && i < p->size[K]; i += 997)
        p->x[K][i] = i % 2 ? NAN : -NAN;
    if (how == SPOILED_TABLE) p->x[TABLE_V][310 * DIM] = p->x[TABLE_V][1090 * DIM] = NAN; /* distances -390 and 390 */
}

static order_test begin_test(const order_case *c, const char *tier) {
    order_test t = {.c = c, .random = {SEED}};
    t.tokens = c->tokens ? c->tokens : TOKENS;
    t.value_dim = c->value_dim ? c->value_dim : DIM;
    const layout s = {ROWS, t.tokens, t.tokens, HEADS, c->key_heads ? c->key_heads : 1, DIM, t.value_dim, 1, 0, 0, 0};
    assert_int_equal(setenv("GYRE_CPU", tier, 1), 0);
    gyre_config config = c->config;
    test_scheme_complete(&config, HEADS, DIM, 4096);
    t.p = make_problem(&config, &s, SEED);
    t.tables = problem_tables(&t.p);
    place(&t);
    for (size_t i = 0; i < t.p.size[Q]; i++)
        t.p.x[Q][i] *= 4; /* largest scores that change from tile to tile */
    spoil_inputs(&t.p, c->spoiled);
    make_gates(&t);
    test_fill(&t.random, t.sinks, HEADS);
    const size_t mask = c->mask ? (size_t)(t.tokens * HEADS * t.tokens) : 0;
    t.mask = room(mask, sizeof *t.mask);
    test_fill(&t.random, t.mask, mask);
    for (size_t i = 0; i < mask; i++)
        t.mask[i] = below(&t.random, 3) ? t.mask[i] : -INFINITY;
    t.out = room((size_t)(t.tokens * HEADS * t.value_dim), sizeof *t.out);
    t.lse = room((size_t)(t.tokens * HEADS), sizeof *t.lse);
    t.memory = make_memory(t.tokens, t.value_dim);
    for (int i = 0; i < THREADS; i++)
        assert_ok(gyre_pool_create(&t.pool[i], i + 1, NULL));
    return t;
}

static void end_test(order_test *t) {
    free_problem(&t->p);
    free_memory(&t->memory);
    free(t->mask);
    free(t->gates);
    free(t->out);
    free(t->lse);
    for (int i = 0; i < THREADS; i++)
        gyre_pool_free(t->pool[i]);
    unsetenv("GYRE_CPU");
}

/* -- one call -- */
/* Queries first .. first + count - 1 of row 0. */
typedef struct piece {
    int64_t first, count;
} piece;

/* Which keys the piece has in its call. */
static int64_t keys_of(const order_test *t, piece at) {
    return t->c->both_ways ? t->tokens : at.first + at.count;
}

/* out = the memory, with nothing put yet. */
static call_memory *begin_call(order_test *t) {
    t->memory.queries = t->memory.keys = 0;
    return &t->memory;
}

static void put_rows(gyre_dtype dtype, void *to, int64_t at, const float *from, int64_t first, int64_t count,
                     int64_t width) {
    for (int64_t i = 0; i < count * width; i++)
        test_put(to, dtype, (size_t)(at * width + i), (double)from[first * width + i]);
}

static void put_queries(const order_test *t, call_memory *m, int64_t row, piece at) {
    const int64_t first = row * t->tokens + at.first;
    put_rows(t->c->dtype, m->q, m->queries, t->p.x[Q], first, at.count, HEADS * DIM);
    memcpy(m->q_at + m->queries, t->p.q_at + first, (size_t)at.count * sizeof(int64_t));
    memcpy(m->q_gates + m->queries * HEADS, t->gates + first * HEADS, (size_t)(at.count * HEADS) * sizeof(double));
    m->queries += at.count;
}

static void put_keys(const order_test *t, call_memory *m, int64_t row, int64_t first, int64_t count) {
    const int64_t from = row * t->tokens + first;
    put_rows(t->c->dtype, m->k, m->keys, t->p.x[K], from, count, t->p.s.key_heads * DIM);
    put_rows(t->c->dtype, m->v, m->keys, t->p.x[V], from, count, t->p.s.key_heads * t->value_dim);
    memcpy(m->k_at + m->keys, t->p.k_at + from, (size_t)count * sizeof(int64_t));
    memcpy(m->k_gates + m->keys * HEADS, t->gates + from * HEADS, (size_t)(count * HEADS) * sizeof(double));
    m->keys += count;
}

/* Arguments without a mask over what was put, as `batch` rows. */
static attention_setup call_args(const order_test *t, const call_memory *m, int64_t batch) {
    const int64_t queries = m->queries / batch, keys = m->keys / batch;
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = t->p.encoding;
    args.tables = &t->tables;
    args.q = gyre_cdense(m->q, t->c->dtype, batch, queries, HEADS, DIM);
    args.k = gyre_cdense(m->k, t->c->dtype, batch, keys, t->p.s.key_heads, DIM);
    args.v = gyre_cdense(m->v, t->c->dtype, batch, keys, t->p.s.key_heads, t->value_dim);
    args.out = gyre_dense(m->out, t->c->out_dtype, batch, queries, HEADS, t->value_dim);
    args.lse = gyre_dense(m->lse, GYRE_DTYPE_F32, batch, queries, HEADS, 1);
    args.q_pos = (gyre_positions){m->q_at, GYRE_DTYPE_I64, 0, 0, queries, 1, 0, 0};
    args.k_pos = (gyre_positions){m->k_at, GYRE_DTYPE_I64, 0, 0, keys, 1, 0, 0};
    args.scale = 0.7;
    args.causal = t->c->both_ways ? GYRE_CAUSAL_NONE : t->c->causal ? t->c->causal : GYRE_CAUSAL_BY_POSITION;
    args.window = t->c->window;
    args.sinks = t->c->sinks;
    args.softcap = t->c->softcap;
    if (t->c->sink_logits) args.sink_logits = gyre_cdense(t->sinks, GYRE_DTYPE_F32, 1, 1, HEADS, 1);
    if (t->c->gates > 0) args.q_gate_sums = gyre_cdense(m->q_gates, GYRE_DTYPE_F64, batch, queries, HEADS, 1);
    if (t->c->gates > 0) args.k_gate_sums = gyre_cdense(m->k_gates, GYRE_DTYPE_F64, batch, keys, HEADS, 1);
    args.order = GYRE_ORDER_FIXED;
    return args;
}

/* 1: the rows of `at` in the call, from query `place` of batch row 0 on, are those of the whole. */
static int same_rows(const order_test *t, const call_memory *m, int64_t place, piece at, const float *out,
                     const float *lse) {
    const size_t numbers = (size_t)(at.count * HEADS * t->value_dim), bytes = gyre_dtype_size(t->c->out_dtype);
    const size_t from = (size_t)(place * HEADS * t->value_dim), to = (size_t)(at.first * HEADS * t->value_dim);
    return memcmp((const char *)m->out + from * bytes, (const char *)out + to * bytes, numbers * bytes) == 0 &&
           memcmp(m->lse + place * HEADS, lse + at.first * HEADS, (size_t)(at.count * HEADS) * sizeof *lse) == 0;
}

static void run_call(order_test *t, const attention_setup *args) {
    const gyre_exec exec = gyre_pool_exec(t->pool[below(&t->random, THREADS)]);
    attend(args, &exec);
}

/* -- the piece among other sequences: each fills the call and returns where the piece begins in it -- */
static void use_mask(const order_test *t, attention_setup *args, piece at) {
    if (!t->c->mask) return;
    args->mask = gyre_cdense(t->mask + at.first * HEADS * t->tokens, GYRE_DTYPE_F32, args->q.shape[0], at.count, HEADS,
                             keys_of(t, at));
    args->mask.stride[0] = 0;
    args->mask.stride[1] = HEADS * t->tokens;
    args->mask.stride[2] = t->tokens;
}

static int64_t run_alone(order_test *t, call_memory *m, piece at) {
    put_queries(t, m, 0, at);
    put_keys(t, m, 0, 0, keys_of(t, at));
    attention_setup args = call_args(t, m, 1);
    if (t->c->gap == 0 && below(&t->random, 2)) { /* positions that count up have biases computed once */
        args.q_pos = (gyre_positions){.base = t->c->start + at.first};
        args.k_pos = (gyre_positions){.base = t->c->start};
    }
    use_mask(t, &args, at);
    run_call(t, &args);
    return 0;
}

static int64_t run_in_batch(order_test *t, call_memory *m, piece at) {
    for (int64_t row = 0; row < ROWS; row++) {
        put_queries(t, m, row, at);
        put_keys(t, m, row, 0, keys_of(t, at));
    }
    attention_setup args = call_args(t, m, ROWS);
    use_mask(t, &args, at);
    run_call(t, &args);
    return 0;
}

static int64_t run_packed(order_test *t, call_memory *m, piece at) {
    const int64_t keys = 1 + below(&t->random, t->tokens), queries = below(&t->random, keys);
    const piece other = {keys - queries, queries};
    put_queries(t, m, 1, other);
    put_keys(t, m, 1, 0, keys);
    put_queries(t, m, 0, at);
    put_keys(t, m, 0, 0, keys_of(t, at));
    const int64_t q_starts[3] = {0, queries, m->queries}, k_starts[3] = {0, keys, m->keys};
    attention_setup args = call_args(t, m, 1);
    args.q_starts = q_starts;
    args.k_starts = k_starts;
    args.sequences = 2;
    run_call(t, &args);
    return queries;
}

static int64_t run_padded(order_test *t, call_memory *m, piece at) {
    const int64_t keys = keys_of(t, at), before = below(&t->random, 150), after = below(&t->random, 20);
    const int64_t queries[ROWS] = {at.count, at.count};
    const int64_t padding = before + after, first[ROWS] = {before, padding / 2}, end[ROWS] = {before + keys, keys + padding};
    for (int64_t row = 0; row < ROWS; row++) {
        put_queries(t, m, row, at);
        put_keys(t, m, 1, 0, row ? padding / 2 : before);
        put_keys(t, m, row, 0, keys);
        put_keys(t, m, 1, 0, row ? padding - padding / 2 : after);
    }
    attention_setup args = call_args(t, m, ROWS);
    args.k_first = first;
    args.k_end = end;
    args.q_end = queries;
    run_call(t, &args);
    return 0;
}

/* -- views -- */
static void run_whole(order_test *t, float *out, float *lse) {
    call_memory *m = begin_call(t);
    const piece all = {0, t->tokens};
    put_queries(t, m, 0, all);
    put_keys(t, m, 0, 0, t->tokens);
    attention_setup args = call_args(t, m, 1);
    use_mask(t, &args, all);
    attend(&args, NULL);
    memcpy(out, m->out, (size_t)(t->tokens * HEADS * t->value_dim) * gyre_dtype_size(t->c->out_dtype));
    memcpy(lse, m->lse, (size_t)(t->tokens * HEADS) * sizeof *lse);
}

/* One query as often as any other number: that is decoding. */
static piece random_piece(order_test *t, int64_t first) {
    const int64_t left = t->tokens - first, most[4] = {1, 8, 40, left}, want = most[below(&t->random, 4)];
    return (piece){first, 1 + below(&t->random, want < left ? want : left)};
}

static void same_for_any_cut(void **state) {
    static int64_t (*const ways[])(order_test *, call_memory *, piece) = {run_alone, run_in_batch, run_packed, run_padded};
    tier_or_skip(*state);
    for (int c = 0; c < CASES; c++) {
        order_test t = begin_test(&cases[c], *state);
        run_whole(&t, t.out, t.lse);
        for (int i = 0; i < (t.tokens > TOKENS ? random_cuts() / 10 : random_cuts()); i++) {
            const piece at = random_piece(&t, below(&t.random, t.tokens));
            const int way = (int)below(&t.random, cases[c].mask ? 2 : 4);
            call_memory *m = begin_call(&t);
            const int64_t place = ways[way](&t, m, at);
            if (!same_rows(&t, m, place, at, t.out, t.lse))
                fail_msg("%s, %s: queries %lld .. %lld, way %d", cases[c].name, (const char *)*state, (long long)at.first,
                         (long long)(at.first + at.count - 1), way);
        }
        end_test(&t);
    }
}

/* The fixed order is another rounding of the same sums. */
static void means_the_same(void **state) {
    tier_or_skip(*state);
    for (int c = 0; c < CASES; c++) {
        order_test t = begin_test(&cases[c], *state);
        const int is_f32 = cases[c].out_dtype == GYRE_DTYPE_F32;
        const piece last = {t.tokens - 1, 1};
        run_whole(&t, t.out, t.lse);
        call_memory *m = begin_call(&t);
        put_queries(&t, m, 0, last);
        put_keys(&t, m, 0, 0, t.tokens);
        attention_setup args = call_args(&t, m, 1);
        args.order = GYRE_ORDER_FAST;
        use_mask(&t, &args, last);
        attend(&args, NULL);
        for (int64_t i = 0; i < HEADS * t.value_dim; i++) {
            const double want = test_get(m->out, cases[c].out_dtype, (size_t)i);
            const double got = test_get(t.out, cases[c].out_dtype, (size_t)(last.first * HEADS * t.value_dim + i));
            if (isfinite(want))
                test_close((long double)got, (long double)want, is_f32 ? 1e-5L : 1e-2L, cases[c].name);
            else
                assert_true(isnan(want) ? isnan(got) : got == want);
        }
        end_test(&t);
    }
}

/* -- caches -- */
static const order_case *find_case(const char *name) {
    for (int c = 0; c < CASES; c++)
        if (strcmp(cases[c].name, name) == 0) return &cases[c];
    fail_msg("%s: no such case", name);
    return NULL;
}

static gyre_cache *make_cache(const order_test *t, const gyre_cache_config *kind, int64_t page_tokens) {
    gyre_cache_config config = *kind;
    gyre_cache *cache;
    config.encoding = t->p.encoding;
    config.heads = t->p.s.key_heads;
    config.head_dim = DIM;
    config.value_dim = t->value_dim;
    config.sequences = 3;
    config.max_tokens = 3 * t->tokens + 3 * page_tokens;
    config.page_tokens = page_tokens;
    config.gate_heads = t->c->gates > 0 ? HEADS : 0;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    return cache;
}

/* Appends tokens of a row to a sequence. */
static void append(order_test *t, gyre_cache *cache, int64_t sequence, int64_t row, piece at) {
    call_memory *m = begin_call(t);
    put_keys(t, m, row, at.first, at.count);
    const attention_setup args = call_args(t, m, 1);
    const gyre_exec exec = gyre_pool_exec(t->pool[below(&t->random, THREADS)]);
    if (t->c->gates > 0) {
        gyre_cache_append_args gated = GYRE_INIT(gyre_cache_append_args);
        gated.sequence = sequence;
        gated.k = args.k;
        gated.v = args.v;
        gated.positions = &args.k_pos;
        gated.gates = args.k_gate_sums;
        assert_ok(gyre_cache_append(cache, &gated, &exec, NULL));
        return;
    }
    assert_ok(gyre_cache_append(
        cache, GYRE_ARGS(gyre_cache_append_args, .sequence = sequence, .k = args.k, .v = args.v, .positions = &args.k_pos),
        &exec, NULL));
}

static void attend_cache(order_test *t, const gyre_cache *cache, const int64_t *sequences, const attention_setup *args) {
    const gyre_exec exec = gyre_pool_exec(t->pool[below(&t->random, THREADS)]);
    const size_t bytes = cache_attention_scratch(cache, sequences, args, &exec);
    void *scratch = scratch_for(bytes);
    assert_ok(run_cache_attention(cache, sequences, args, (gyre_scratch){scratch, bytes}, &exec, NULL));
    free(scratch);
}

/* The queries of `at` over sequence `held`, alone or beside the same number of queries of sequence `other`. */
static int same_over_cache(order_test *t, const gyre_cache *cache, int64_t held, int64_t other, piece at) {
    const int64_t sequences[ROWS] = {held, other}, tokens = gyre_cache_tokens(cache, other);
    const int beside = tokens >= at.count && below(&t->random, 2);
    call_memory *m = begin_call(t);
    put_queries(t, m, 0, at);
    if (beside) put_queries(t, m, 1, (piece){tokens - at.count, at.count});
    const attention_setup args = call_args(t, m, beside ? 2 : 1);
    attend_cache(t, cache, sequences, &args);
    const int same = same_rows(t, m, 0, at, t->out, t->lse);
    return same;
}

/* Reads the whole sequence in random pieces; now and then it goes on in a fork.  out = number of pieces. */
static int read_in_pieces(order_test *t, const gyre_cache_config *kind, const char *tier) {
    static const int64_t pages[] = {0, 1, 7, 16, 64, 128, 300};
    const int64_t page = pages[below(&t->random, 7)];
    gyre_cache *cache = make_cache(t, kind, page);
    int64_t held = 0, count = 0, behind = 0;
    for (int64_t first = 0; first < t->tokens; count++) {
        const piece at = random_piece(t, first);
        append(t, cache, held, 0, at);
        const int64_t more = below(&t->random, 1 + (t->tokens - behind) / 4);
        append(t, cache, 1, 1, (piece){behind, more});
        behind += more;
        if (below(&t->random, 6) == 0) {
            assert_ok(gyre_cache_fork(cache, held, 2 - held, NULL));
            held = 2 - held;
        }
        if (!same_over_cache(t, cache, held, 1, at))
            fail_msg("%s, %s, keys of type %d, values of type %d, %s, pages of %lld: queries %lld .. %lld", t->c->name, tier,
                     (int)kind->key_dtype, (int)kind->value_dtype, kind->keys == GYRE_CACHE_KEYS_ROTATED ? "rotated" : "raw",
                     (long long)page, (long long)at.first, (long long)(at.first + at.count - 1));
        first += at.count;
    }
    gyre_cache_free(cache);
    return (int)count;
}

static void read_at_once(order_test *t, const gyre_cache_config *kind) {
    const piece all = {0, t->tokens};
    const int64_t sequence = 0;
    gyre_cache *cache = make_cache(t, kind, 0);
    call_memory *m = begin_call(t);
    append(t, cache, 0, 0, all);
    put_queries(t, m, 0, all);
    attention_setup args = call_args(t, m, 1);
    attend_cache(t, cache, &sequence, &args);
    memcpy(t->out, m->out, (size_t)(t->tokens * HEADS * t->value_dim) * gyre_dtype_size(t->c->out_dtype));
    memcpy(t->lse, m->lse, (size_t)(t->tokens * HEADS) * sizeof *t->lse);
    args.order = GYRE_ORDER_FAST;
    attend_cache(t, cache, &sequence, &args);
    for (int64_t i = 0; i < t->tokens * HEADS; i++)
        if (isfinite(m->lse[i])) test_close((long double)t->lse[i], (long double)m->lse[i], 1e-4L, "lse of a cache");
    for (int64_t i = 0; i < t->tokens * HEADS * t->value_dim; i++) {
        const double want = test_get(m->out, t->c->out_dtype, (size_t)i), got = test_get(t->out, t->c->out_dtype, (size_t)i);
        if (isfinite(want)) test_close((long double)got, (long double)want, 1e-4L, "out of a cache");
    }
    gyre_cache_free(cache);
}

static const gyre_cache_config cache_kinds[] = {
    {.size = sizeof(gyre_cache_config),
     .key_dtype = GYRE_DTYPE_F32,
     .value_dtype = GYRE_DTYPE_F32,
     .keys = GYRE_CACHE_KEYS_RAW},
    {.size = sizeof(gyre_cache_config),
     .key_dtype = GYRE_DTYPE_F16,
     .value_dtype = GYRE_DTYPE_BF16,
     .keys = GYRE_CACHE_KEYS_RAW},
    {.size = sizeof(gyre_cache_config),
     .key_dtype = GYRE_DTYPE_BF16,
     .value_dtype = GYRE_DTYPE_F16,
     .keys = GYRE_CACHE_KEYS_RAW},
    {.size = sizeof(gyre_cache_config),
     .key_dtype = GYRE_DTYPE_Q8,
     .value_dtype = GYRE_DTYPE_Q8,
     .keys = GYRE_CACHE_KEYS_RAW},
    {.size = sizeof(gyre_cache_config),
     .key_dtype = GYRE_DTYPE_F16,
     .value_dtype = GYRE_DTYPE_F16,
     .keys = GYRE_CACHE_KEYS_ROTATED},
    {.size = sizeof(gyre_cache_config),
     .key_dtype = GYRE_DTYPE_Q8,
     .value_dtype = GYRE_DTYPE_Q8,
     .keys = GYRE_CACHE_KEYS_ROTATED},
};
enum { CACHE_KINDS = sizeof cache_kinds / sizeof *cache_kinds };

static void same_over_any_cache(void **state) {
    tier_or_skip(*state);
    for (int c = 0; c < CASES; c++)
        for (int k = 0; k < CACHE_KINDS; k++) {
            const order_case *of = &cases[c];
            const int rotated = cache_kinds[k].keys == GYRE_CACHE_KEYS_ROTATED;
            if (!of->is_cached) continue;
            if (rotated && (of->config.kind != GYRE_KIND_ROPE || of->config.rope.xpos_base > 0)) continue;
            if (rotated && of->config.rope.far != GYRE_FAR_AS_NEAR) continue;
            if (!rotated && k % 2 == 0 && of->config.kind != GYRE_KIND_ROPE) continue; /* other types add nothing there */
            if (of->spoiled && cache_kinds[k].value_dtype == GYRE_DTYPE_Q8) continue;
            if (of->value_dim % 8 && cache_kinds[k].value_dtype == GYRE_DTYPE_Q8) continue;
            order_test t = begin_test(of, *state);
            read_at_once(&t, &cache_kinds[k]);
            for (int pieces = 0; pieces < random_cuts();)
                pieces += read_in_pieces(&t, &cache_kinds[k], *state);
            end_test(&t);
        }
}

/* Keys that were rotated when they were stored, and have moved since. */
static void slide(order_test *t, gyre_cache *cache, int64_t moved, int64_t sinks, int64_t window) {
    append(t, cache, 0, 0, (piece){0, moved});
    assert_ok(gyre_cache_slide(cache, 0, sinks, window, NULL, NULL));
    append(t, cache, 0, 0, (piece){moved, t->tokens - moved});
}

static void same_after_a_slide(void **state) {
    enum { MOVED = 150, SINKS = 4, WINDOW = 140 };
    const int64_t held = 0;
    tier_or_skip(*state);
    for (int k = 4; k < CACHE_KINDS; k++) {
        order_test t = begin_test(find_case("rope"), *state);
        const piece all = {MOVED, t.tokens - MOVED};
        const size_t row = (size_t)(HEADS * t.value_dim);
        for (int i = 0; i < 1 + random_cuts() / 10; i++) {
            gyre_cache *cache = make_cache(&t, &cache_kinds[k], i ? 16 : 0);
            const piece at = i ? random_piece(&t, MOVED + below(&t.random, all.count)) : all;
            slide(&t, cache, MOVED, SINKS, WINDOW);
            /* The text goes on at its old positions, 10 behind those of the moved keys. */
            assert_ok(gyre_cache_remove(
                cache, (gyre_cache_range){0, WINDOW + at.first + at.count - MOVED, t.tokens - at.first - at.count}, NULL));
            call_memory *m = begin_call(&t);
            put_queries(&t, m, 0, at);
            const attention_setup args = call_args(&t, m, 1);
            attend_cache(&t, cache, &held, &args);
            if (i == 0) memcpy(t.out + (size_t)at.first * row, m->out, (size_t)at.count * row * sizeof *t.out);
            if (i == 0) memcpy(t.lse + at.first * HEADS, m->lse, (size_t)(at.count * HEADS) * sizeof *t.lse);
            assert_true(same_rows(&t, m, 0, at, t.out, t.lse));
            gyre_cache_free(cache);
        }
        end_test(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {FOR_TIERS(means_the_same), FOR_TIERS(same_for_any_cut),
                                       FOR_TIERS(same_over_any_cache), FOR_TIERS(same_after_a_slide)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
