/* test_ring_split.c: calls of a ring that are cut to stay below a number of bytes: some heads, some keys, some queries at a
 * time.  They are the attention of one machine, and take what their plan says.  Keys that nobody sees do not travel. */
#include "attention_setup.h"
#include "gyre/gyre_ring.h"
#include "ring_threads.h"
#include "scratch_bytes.h"

static const split_case cases[] = {
    RING_CASES,
    {.name = "alibi", .config = SCORING(GYRE_KIND_ALIBI, 0), .sink_logits = 1},
    {.name = "gates, sinks", .config = {.kind = GYRE_KIND_NOPE}, .gates = 0.2, .sink_logits = 1, .window = 150, .sinks = 2},
    {.name = "shaw, softcap", .config = SCORING(GYRE_KIND_SHAW, .max_distance = 10), .softcap = 4},
    {.name = "none, two-sided window", .config = {.kind = GYRE_KIND_NOPE}, .both_ways = 1, .window = 40, .window_after = 90},
    {.name = "window by position", .config = TURNING(0), .window = 33, .sinks = 5},
#include "split_schemes.def"
};
enum { CASES = sizeof cases / sizeof *cases };
static const int64_t groups[] = {1, 2, 3, 4, 7};
static const gyre_batch_form forms[] = {GYRE_BATCH_PACKED, GYRE_BATCH_PADDED_LEFT, GYRE_BATCH_PADDED_RIGHT};
static const int64_t batches[][3] = {{700, 0, 0}, {130, 451, 0}, {201, 37, 300}};

enum { GROUPS = sizeof groups / sizeof *groups };

/* out = 1 if a case is tried in a form of batch: each case in one, and in all of them with GYRE_TEST_ALL. */
static int is_tried(int c, int form) {
    return test_all() || form == c % 3;
}

/* The groups of a case in a form, the others in other forms and cases: group_step apart from the first on; with
 * GYRE_TEST_ALL every second one, otherwise one. */
static int first_group(int c, int form) {
    return (c + form) % (test_all() ? 2 : GROUPS);
}
static int group_step(void) {
    return test_all() ? 2 : GROUPS;
}

/* -- the same numbers -- */

/* From one head at a time to 64 queries with 128 keys. */
static const size_t sizes[] = {1, 600000, 900000, 1400000, 2000000};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void check_way(whole *w, const ring_options *options, gyre_shard_layout layout, int64_t ranks,
                      const shared_gradients *wanted) {
    group g;
    rank_job jobs[MOST_RANKS];
    make_group(&g, w, layout, ranks, 0);
    shared_gradients sum = make_shared(w);
    run_jobs(&g, options, &sum, jobs);
    check_group(&g, options->forward, &sum, wanted);
    for (int64_t rank = 0; rank < ranks; rank++) {
        assert_int_equal(jobs[rank].forward_plan.sent, jobs[rank].forward.sent);
        if (!options->forward) assert_int_equal(jobs[rank].gradient_plan.sent, jobs[rank].gradient.sent);
    }
    free_shared(&sum);
    free_group(&g);
}

static void every_cut_is_one_machine(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int f = 0; f < 3; f++) {
            whole w;
            if (!is_tried(c, f)) continue;
            make_whole(&w, &cases[c], forms[f], batches[(c + f) % 3], 1 + (c + f) % 3);
            shared_gradients wanted = make_shared(&w);
            run_whole(&w, GYRE_ORDER_FAST, &wanted);
            for (int r = first_group(c, f); r < GROUPS; r += group_step()) {
                const gyre_shard_layout layout = (gyre_shard_layout)((c + r) % (f == 0 ? 4 : 3));
                const size_t size = sizes[(c + f + r) % SIZES];
                const ring_options keys = {.pass = GYRE_RING_KEYS, .scratch = size};
                const ring_options queries = {.pass = GYRE_RING_QUERIES, .scratch = size, .forward = 1};
                check_way(&w, &keys, layout, groups[r], &wanted);
                if (!(cases[c].gates > 0)) check_way(&w, &queries, layout, groups[r], &wanted);
            }
            free_shared(&wanted);
            free_whole(&w);
        }
}

/* -- the same bits -- */

static void fixed_order_has_the_bits_of_one_rank_in_any_cut(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int f = 0; f < 3; f++) {
            whole w;
            if (!is_tried(c, f)) continue;
            make_whole(&w, &cases[c], forms[f], batches[(c + f) % 3], 1 + (c + f) % 3);
            run_whole(&w, GYRE_ORDER_FIXED, NULL);
            for (int r = first_group(c, f); r < GROUPS; r += group_step()) {
                const ring_options options = {
                    .pass = GYRE_RING_KEYS, .order = GYRE_ORDER_FIXED, .forward = 1, .scratch = sizes[(c + f + r) % SIZES]};
                group g;
                make_group(&g, &w, (gyre_shard_layout)((c + f + r) % (f == 0 ? 4 : 3)), groups[r], 0);
                run_group(&g, &options, NULL);
                expect_bits(&g, &w, F_OUT);
                expect_bits(&g, &w, F_LSE);
                free_group(&g);
            }
            free_whole(&w);
        }
}

/* GATHER: each rank computes heads, whole.  Tables that heads share are sums over heads, and those are on several ranks. */
static void check_fixed_gradient(const split_case *c, gyre_batch_form form, const int64_t *lengths, int64_t documents,
                                 gyre_shard_layout layout, int64_t ranks) {
    static const field of[] = {F_DQ, F_DK, F_DV, F_DQ_GATES, F_DK_GATES};
    const ring_options options = {.pass = GYRE_RING_GATHER, .order = GYRE_ORDER_FIXED};
    rank_job jobs[MOST_RANKS];
    whole w;
    group g;
    make_whole(&w, c, form, lengths, documents);
    shared_gradients wanted = make_shared(&w), sum = make_shared(&w);
    run_whole(&w, GYRE_ORDER_FIXED, &wanted);
    make_group(&g, &w, layout, ranks, 0);
    run_jobs(&g, &options, &sum, jobs);
    for (int i = 0; i < (c->gates > 0 ? 5 : 3); i++)
        expect_bits(&g, &w, of[i]);
    assert_memory_equal(sum.sink, wanted.sink, sizeof sum.sink);
    check_group(&g, 0, &sum, &wanted);
    for (int64_t rank = 0; rank < ranks; rank++)
        assert_int_equal(jobs[rank].gradient_plan.sent, jobs[rank].gradient.sent);
    free_group(&g);
    free_shared(&sum);
    free_shared(&wanted);
    free_whole(&w);
}

static void the_gradient_in_fixed_order_has_the_bits_of_one_rank(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int f = 0; f < 3; f++)
            for (int r = first_group(c, f); r < GROUPS && is_tried(c, f); r += group_step())
                check_fixed_gradient(&cases[c], forms[f], batches[(c + f) % 3], 1 + (c + f) % 3,
                                     (gyre_shard_layout)((c + f + r) % (f == 0 ? 4 : 3)), groups[r]);
}

/* Ranks without queries compute heads of rows whose positions they do not have themselves. */
static void the_gradient_of_few_tokens_in_fixed_order_has_the_bits_of_one_rank(void **state) {
    static const int64_t lengths[] = {2, 2, 2};
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int f = 0; f < 3 && !cases[c].images; f++) { /* an image has six tokens */
            if (!is_tried(c, f)) continue;
            check_fixed_gradient(&cases[c], forms[f], lengths, 3, (gyre_shard_layout)((c + f) % 3), 3 + 4 * (f % 2));
        }
}

/* -- memory -- */

typedef struct shape {
    int64_t tokens, heads, key_heads, channels;
    gyre_dtype dtype;
} shape;

typedef struct planned {
    gyre_batch *batch;
    gyre_shards *shards;
    gyre_transport transport;
    attention_setup args;
    gyre_ring_args ring;
    attention_structs structs;
} planned;

static gyre_status no_transport(void *ctx, int channel, const gyre_exchange *exchange) {
    (void)ctx, (void)channel, (void)exchange;
    return GYRE_EIO;
}

static gyre_status no_wait(void *ctx, int channel) {
    (void)ctx, (void)channel;
    return GYRE_EIO;
}

static void open_batch(planned *p, int64_t tokens, gyre_shard_layout layout, int64_t ranks) {
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    gyre_shard_config dealt = GYRE_INIT(gyre_shard_config);
    config.documents = 1, config.lengths = &tokens;
    dealt.layout = layout, dealt.ranks = ranks;
    assert_int_equal(gyre_batch_create(&p->batch, &config, NULL, NULL), GYRE_OK);
    assert_int_equal(gyre_shards_create(&p->shards, p->batch, &dealt, NULL, NULL), GYRE_OK);
}

static void close_batch(planned *p) {
    gyre_shards_free(p->shards);
    gyre_batch_free(p->batch);
}

/* What rank 0 needs, by its plan; no element is looked at. */
static size_t scratch_of(planned *p, const shape *s, const gyre_encoding *encoding, int64_t ranks, int gradient,
                         gyre_order order) {
    static float elsewhere[4];
    gyre_shard_info mine = GYRE_INIT(gyre_shard_info);
    assert_int_equal(gyre_shards_get(p->shards, 0, &mine), GYRE_OK);
    p->transport = (gyre_transport)GYRE_INIT(gyre_transport);
    p->transport.ranks = ranks, p->transport.begin = no_transport, p->transport.wait = no_wait;
    p->args = (attention_setup)GYRE_INIT(attention_setup);
    p->args.encoding = encoding;
    p->args.causal = GYRE_CAUSAL_BY_POSITION;
    p->args.order = order;
    p->args.q = gyre_cdense(elsewhere, s->dtype, 1, mine.tokens, s->heads, s->channels);
    p->args.k = p->args.v = gyre_cdense(elsewhere, s->dtype, 1, mine.tokens, s->key_heads, s->channels);
    p->args.out = gyre_dense(elsewhere, GYRE_DTYPE_F32, 1, mine.tokens, s->heads, s->channels);
    p->args.lse = gyre_dense(elsewhere, GYRE_DTYPE_F64, 1, mine.tokens, s->heads, 1);
    p->ring = (gyre_ring_args)GYRE_INIT(gyre_ring_args);
    p->ring.transport = &p->transport, p->ring.shards = p->shards,
    p->ring.attention = attention_setup_args(&p->args, &p->structs);
    return ring_scratch(&p->ring, gradient, NULL);
}

static void check_bound(planned *p, const shape *s, const gyre_encoding *encoding, int64_t ranks) {
    for (int way = 0; way < 3; way++) { /* forward, in the fixed order, gradient */
        const gyre_order order = way == 1 ? GYRE_ORDER_FIXED : GYRE_ORDER_FAST;
        const size_t bytes = scratch_of(p, s, encoding, ranks, way == 2, order);
        if (bytes == 0 || bytes > (size_t)64 << 20)
            fail_msg("%lld tokens, %lld / %lld heads of %lld, %lld ranks, %d: %.1f MiB", (long long)s->tokens,
                     (long long)s->heads, (long long)s->key_heads, (long long)s->channels, (long long)ranks, way,
                     (double)bytes / (1 << 20));
    }
}

/* Besides its part of keys and values a rank needs at most 64 MiB, whatever width and length. */
static void scratch_is_bounded(void **state) {
    static const int64_t tokens[] = {4096, 16384, 131072, 1000000, 10000000}, ranks[] = {1, 2, 3, 8, 64, 1024};
    static const int64_t heads[][3] = {{1, 1, 256},  {8, 1, 64},    {32, 8, 128},    {32, 32, 128},
                                       {64, 8, 128}, {128, 8, 128}, {128, 128, 192}, {16, 16, 512}};
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    (void)state;
    for (int t = 0; t < 5; t++)
        for (int r = 0; r < 6; r++) {
            planned p;
            if (!test_all() && (t + r) % 5) continue; /* each length, and each number of ranks */
            if (tokens[t] == 10000000 && ranks[r] > 2 && ranks[r] < 1024) continue; /* time */
            open_batch(&p, tokens[t], GYRE_SHARD_ZIGZAG, ranks[r]);
            for (int h = 0; h < 8; h++) {
                gyre_config config = {.kind = GYRE_KIND_ROPE, .head_dim = heads[h][2], .rope = {.base = 10000}};
                config.size = sizeof config;
                gyre_encoding *encoding = test_encoding(&config);
                for (int d = 0; d < (tokens[t] > 1000000 ? 1 : 3); d++) {
                    const shape s = {tokens[t], heads[h][0], heads[h][1], heads[h][2], types[(d + h) % 3]};
                    check_bound(&p, &s, h % 2 ? encoding : NULL, ranks[r]);
                }
                gyre_encoding_free(encoding);
            }
            close_batch(&p);
        }
}

/* The library allocates nothing, so what a call writes of its scratch is what it needs: nearly all that the plan says, which
 * counts buffers of a tile that a short call does not fill. */
static void scratch_is_what_the_plan_says(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int i = 0; i < SIZES; i++) {
            const ring_options options = {.pass = GYRE_RING_KEYS, .scratch = sizes[i]};
            const int64_t ranks = groups[(c + i) % 5];
            rank_job jobs[MOST_RANKS];
            whole w;
            group g;
            if (!test_all() && i != c % SIZES) continue;
            make_whole(&w, &cases[c], GYRE_BATCH_PACKED, batches[0], 1);
            make_group(&g, &w, GYRE_SHARD_ZIGZAG, ranks, 0);
            run_jobs(&g, &options, NULL, jobs);
            for (int64_t r = 0; r < ranks; r++) {
                assert_int_equal(jobs[r].forward_plan.scratch, jobs[0].forward_plan.scratch);
                assert_int_equal(jobs[r].gradient_plan.scratch, jobs[0].gradient_plan.scratch);
                assert_true(jobs[r].forward_bytes > jobs[r].forward_plan.scratch / 4 * 3);
                assert_true(jobs[r].gradient_bytes > jobs[r].gradient_plan.scratch / 4 * 3);
            }
            free_group(&g);
            free_whole(&w);
        }
}

/* -- keys that nobody sees -- */

static void run_windowed(const split_case *c, const ring_options *options, gyre_shard_layout layout, rank_job *jobs) {
    static const int64_t length[] = {1024};
    whole w;
    group g;
    make_whole(&w, c, GYRE_BATCH_PACKED, length, 1);
    run_whole(&w, options->order, NULL);
    make_group(&g, &w, layout, 4, 0);
    run_jobs(&g, options, NULL, jobs);
    check_group(&g, 1, NULL, NULL);
    free_group(&g);
    free_whole(&w);
}

/* 1024 tokens on 4 ranks, a window of 100: the last 99 keys of a rank go to the next one, from a tile of 128 on. */
static void keys_outside_the_window_stay(void **state) {
    static const split_case by_order = {
        .name = "window", .config = TURNING(0), .causal = GYRE_CAUSAL_BY_ORDER, .window = 100};
    static const split_case both = {.name = "both ways", .config = TURNING(0), .both_ways = 1, .window = 100};
    static const split_case causal = {.name = "causal", .config = TURNING(0)};
    static const int64_t token = 2 * KEY_HEADS * DIM * (int64_t)sizeof(float), row = HEADS * (DIM + 2) * 8;
    rank_job jobs[MOST_RANKS];
    (void)state;
    const ring_options keys = {.pass = GYRE_RING_KEYS}, queries = {.pass = GYRE_RING_QUERIES, .forward = 1};
    const ring_options fixed = {.pass = GYRE_RING_KEYS, .order = GYRE_ORDER_FIXED, .forward = 1};
    run_windowed(&by_order, &keys, GYRE_SHARD_CONTIGUOUS, jobs);
    for (int r = 0; r < 4; r++) { /* gradients of the keys of rank r - 1 go home */
        assert_int_equal(jobs[r].forward.sent, r < 3 ? 128 * token : 0);
        assert_int_equal(jobs[r].gradient.sent, (r < 3 ? 128 * token : 0) + (r > 0 ? 128 * token : 0));
    }
    run_windowed(&by_order, &keys, GYRE_SHARD_ZIGZAG, jobs); /* chunks r and 7 - r; rank 3 has both in the middle */
    for (int r = 0; r < 4; r++)
        assert_int_equal(jobs[r].forward.sent, (r < 3 ? 128 * token : 0) + (r > 0 ? 128 * token : 0));
    run_windowed(&both, &keys, GYRE_SHARD_CONTIGUOUS, jobs);
    for (int r = 0; r < 4; r++)
        assert_int_equal(jobs[r].forward.sent, (r < 3 ? 128 * token : 0) + (r > 0 ? 99 * token : 0));
    run_windowed(&by_order, &queries, GYRE_SHARD_CONTIGUOUS, jobs); /* to the rank before, and rows to the one after */
    for (int r = 0; r < 4; r++)
        assert_int_equal(jobs[r].forward.sent,
                         (r > 0 ? 256 * HEADS * DIM * (int64_t)sizeof(float) : 0) + (r < 3 ? 256 * row : 0));
    run_windowed(&by_order, &fixed, GYRE_SHARD_CONTIGUOUS, jobs); /* a slab to the next rank; slabs reach back by 127 keys */
    for (int r = 0; r < 4; r++)
        assert_int_equal(jobs[r].forward.sent, ((r < 3 ? 256 + 127 : 0) + (r < 2 ? 127 : 0)) * token);
    run_windowed(&causal, &keys, GYRE_SHARD_CONTIGUOUS, jobs); /* no keys go back */
    for (int r = 0; r < 4; r++)
        assert_int_equal(jobs[r].forward.sent, (3 - r) * 256 * token);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_cut_is_one_machine),
                                       cmocka_unit_test(fixed_order_has_the_bits_of_one_rank_in_any_cut),
                                       cmocka_unit_test(the_gradient_in_fixed_order_has_the_bits_of_one_rank),
                                       cmocka_unit_test(the_gradient_of_few_tokens_in_fixed_order_has_the_bits_of_one_rank),
                                       cmocka_unit_test(scratch_is_bounded),
                                       cmocka_unit_test(scratch_is_what_the_plan_says),
                                       cmocka_unit_test(keys_outside_the_window_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
