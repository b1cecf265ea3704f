/* test_ring_ways.c: queries that go around, keys that every rank gets, keys in the order of their tokens, and decoding over
 * keys that are dealt out: each is the attention of one machine. */
#include "attention_setup.h"
#include "gyre/gyre_cache.h"
#include "ring_threads.h"
#include "scratch_bytes.h"

static const split_case cases[] = {
    RING_CASES,
    {.name = "alibi, sink logits", .config = {.kind = GYRE_KIND_ALIBI}, .sink_logits = 1},
    {.name = "kerple, one way", .config = {.kind = GYRE_KIND_KERPLE}},
    {.name = "gates", .config = {.kind = GYRE_KIND_NOPE}, .gates = 0.4},
    {.name = "shaw, softcap", .config = SCORING(GYRE_KIND_SHAW, .max_distance = 10), .softcap = 4},
#include "split_schemes.def"
};
enum { CASES = sizeof cases / sizeof *cases };
static const int64_t groups[] = {1, 2, 3, 4, 7};

/* out = 1 if a case is tried in choice i of `count`: each case in one, and in all of them with GYRE_TEST_ALL. */
static int is_tried(int c, int i, int count) {
    return test_all() || i % count == c % count;
}

static const gyre_batch_form forms[] = {GYRE_BATCH_PACKED, GYRE_BATCH_PADDED_LEFT, GYRE_BATCH_PADDED_RIGHT};

/* -- the same numbers -- */

static void check_ways(whole *w, gyre_shard_layout layout, int64_t ranks, const shared_gradients *wanted) {
    static const ring_options ways[] = {{.pass = GYRE_RING_GATHER}, {.pass = GYRE_RING_QUERIES, .forward = 1}};
    for (int i = 0; i < (w->c->gates > 0 ? 1 : 2); i++) { /* queries do not go around with gates */
        group g;
        make_group(&g, w, layout, ranks, 0);
        shared_gradients sum = make_shared(w);
        run_group(&g, &ways[i], &sum);
        check_group(&g, ways[i].forward, &sum, wanted);
        free_shared(&sum);
        free_group(&g);
    }
}

static void every_way_is_one_machine(void **state) {
    static const int64_t lengths[] = {37, 10, 50};
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int f = 0; f < 2; f++) {
            whole w;
            if (!is_tried(c, f, 2)) continue;
            make_whole(&w, &cases[c], forms[f], lengths, 3);
            shared_gradients wanted = make_shared(&w);
            run_whole(&w, GYRE_ORDER_FAST, &wanted);
            for (int r = 0; r < 5; r++)
                check_ways(&w, (gyre_shard_layout)((c + f + r) % 3), groups[r], &wanted);
            free_shared(&wanted);
            free_whole(&w);
        }
}

/* Keys in several parts: their gradients go home while the next part is computed. */
static void gathered_gradients_go_home_in_parts(void **state) {
    static const int64_t batches[][3] = {{700, 0, 0}, {130, 451, 0}, {201, 37, 300}};
    static const ring_options gather = {.pass = GYRE_RING_GATHER};
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int f = 0; f < 3; f++) {
            whole w;
            if (!is_tried(c, f, 3)) continue;
            make_whole(&w, &cases[c], forms[f], batches[(c + f) % 3], 1 + (c + f) % 3);
            shared_gradients wanted = make_shared(&w);
            run_whole(&w, GYRE_ORDER_FAST, &wanted);
            for (int r = 0; r < 5; r++) {
                group g;
                make_group(&g, &w, (gyre_shard_layout)((c + r) % 3), groups[r], 0);
                shared_gradients sum = make_shared(&w);
                rank_job jobs[MOST_RANKS];
                run_jobs(&g, &gather, &sum, jobs);
                check_group(&g, 0, &sum, &wanted);
                for (int64_t rank = 0; rank < g.ranks; rank++)
                    assert_int_equal(jobs[rank].gradient_plan.sent, jobs[rank].gradient.sent);
                free_shared(&sum);
                free_group(&g);
            }
            free_shared(&wanted);
            free_whole(&w);
        }
}

/* -- the same bits -- */

static void check_fixed(whole *w, gyre_ring_pass pass, gyre_shard_layout layout, int64_t ranks) {
    const ring_options options = {.pass = pass, .order = GYRE_ORDER_FIXED, .forward = 1};
    group g;
    make_group(&g, w, layout, ranks, 0);
    run_group(&g, &options, NULL);
    expect_bits(&g, w, F_OUT);
    expect_bits(&g, w, F_LSE);
    free_group(&g);
}

/* Any number of ranks, any layout, parts that end anywhere in a tile. */
static void fixed_order_has_the_bits_of_one_rank(void **state) {
    static const int64_t batches[][3] = {{700, 0, 0}, {130, 451, 0}, {201, 37, 300}};
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int b = 0; b < 3; b++)
            for (int f = 0; f < 3; f++) {
                whole w;
                if (!is_tried(c, b + f, 2)) continue;
                make_whole(&w, &cases[c], forms[f], batches[b], 1 + b);
                run_whole(&w, GYRE_ORDER_FIXED, NULL);
                for (int r = 0; r < 5; r++) {
                    const gyre_shard_layout layout = (gyre_shard_layout)((c + b + r) % (f == 0 ? 4 : 3));
                    check_fixed(&w, r % 2 ? GYRE_RING_FEWEST : GYRE_RING_KEYS, layout, groups[r]);
                    if (r == (c + b) % 5) check_fixed(&w, GYRE_RING_GATHER, layout, groups[r]);
                }
                free_whole(&w);
            }
}

/* -- few queries over keys that are dealt out -- */

enum { NEW = 5 };
typedef struct late_rank {
    endpoint at;
    const whole *w; /* all tokens */
    const group *keys;
    const gyre_shards *queries;
    gyre_ring_pass pass;
    int64_t ranks;
    float out[2 * NEW][HEADS][DIM];
    gyre_ring_timeline times;
    gyre_ring_plan plan;
} late_rank;

/* The last NEW tokens of both documents ask, on the ranks that `queries` says. */
static void *run_late(void *arg) {
    late_rank *job = arg;
    gyre_error err = {0, ""};
    const whole *w = job->w;
    const int64_t rank = job->at.rank;
    const gyre_transport transport = network_transport(&job->at, job->ranks);
    gyre_shard_info mine = GYRE_INIT(gyre_shard_info);
    float q[2 * NEW][HEADS][DIM];
    expect_ok(gyre_shards_get(job->queries, rank, &mine), &err);
    for (int64_t i = 0; i < mine.tokens; i++) {
        const int64_t d = mine.index[i] / NEW, token = w->info.q_starts[d + 1] - NEW + mine.index[i] % NEW;
        memcpy(q[i], (const float *)w->data.at[F_Q] + token * HEADS * DIM, sizeof q[i]);
    }
    attention_setup args = shared_args(w, GYRE_ORDER_FAST);
    use_data(w->c, &job->keys->data[rank], &job->keys->data[rank], &args);
    use_sinks(w, &args);
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, 1, mine.tokens, HEADS, DIM);
    args.out = gyre_dense(job->out, GYRE_DTYPE_F32, 1, mine.tokens, HEADS, DIM);
    args.lse.data = NULL;
    gyre_ring_args ring = GYRE_INIT(gyre_ring_args);
    attention_structs structs;
    ring.transport = &transport, ring.attention = attention_setup_args(&args, &structs), ring.pass = job->pass;
    ring.shards = job->queries, ring.key_shards = job->keys->shards;
    ring.timeline = &job->times;
    expect_ok(gyre_ring_get_plan(&ring, 0, NULL, &job->plan, &err), &err);
    void *scratch = scratch_for(job->plan.scratch);
    expect_ok(gyre_ring_attention(&ring, (gyre_scratch){scratch, job->plan.scratch}, NULL, &err), &err);
    free(scratch);
    return NULL;
}

static void check_late(const whole *w, int64_t ranks, gyre_ring_pass pass, gyre_ring_pass chosen) {
    static const int64_t fresh[2] = {NEW, NEW};
    const int64_t cached[2] = {w->info.q_starts[1] - NEW, w->info.q_starts[2] - w->info.q_starts[1] - NEW};
    gyre_batch_config config = GYRE_INIT(gyre_batch_config);
    gyre_shard_config dealt = GYRE_INIT(gyre_shard_config);
    gyre_batch *batch;
    gyre_shards *shards;
    group keys;
    network net;
    late_rank jobs[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    config.documents = 2, config.lengths = fresh, config.cached = cached;
    dealt.ranks = ranks, dealt.layout = GYRE_SHARD_STRIPED;
    assert_int_equal(gyre_batch_create(&batch, &config, NULL, NULL), GYRE_OK);
    assert_int_equal(gyre_shards_create(&shards, batch, &dealt, NULL, NULL), GYRE_OK);
    make_group(&keys, (whole *)w, GYRE_SHARD_CONTIGUOUS, ranks, 0);
    open_network(&net);
    for (int64_t r = 0; r < ranks; r++) {
        jobs[r] = (late_rank){.at = {&net, r}, .w = w, .keys = &keys, .queries = shards, .pass = pass, .ranks = ranks};
        jobs[r].times.size = sizeof jobs[r].times;
        jobs[r].plan.size = sizeof jobs[r].plan;
        assert_int_equal(pthread_create(&threads[r], NULL, run_late, &jobs[r]), 0);
    }
    for (int64_t r = 0; r < ranks; r++) {
        gyre_shard_info mine = GYRE_INIT(gyre_shard_info);
        pthread_join(threads[r], NULL);
        assert_int_equal(gyre_shards_get(shards, r, &mine), GYRE_OK);
        assert_int_equal(jobs[r].plan.pass, chosen);
        assert_int_equal(jobs[r].plan.sent, jobs[r].times.sent);
        for (int64_t i = 0; i < mine.tokens; i++) {
            const int64_t token = w->info.q_starts[mine.index[i] / NEW + 1] - NEW + mine.index[i] % NEW;
            for (int64_t e = 0; e < HEADS * DIM; e++)
                test_close((long double)(&jobs[r].out[i][0][0])[e],
                           (long double)((const float *)w->data.at[F_OUT])[token * HEADS * DIM + e], 3e-6L, "late queries");
        }
    }
    close_network(&net);
    free_group(&keys);
    gyre_shards_free(shards);
    gyre_batch_free(batch);
}

static void few_queries_go_to_the_keys(void **state) {
    static const int64_t lengths[] = {211, 98};
    static const int of[] = {0, 4, 7}; /* F32, without dropout */
    (void)state;
    for (int c = 0; c < 3; c++) {
        whole w;
        make_whole(&w, &cases[of[c]], GYRE_BATCH_PACKED, lengths, 2);
        run_whole(&w, GYRE_ORDER_FAST, NULL);
        for (int r = 0; r < 5; r++) {
            check_late(&w, groups[r], GYRE_RING_FEWEST, GYRE_RING_QUERIES);
            check_late(&w, groups[r], GYRE_RING_KEYS, GYRE_RING_KEYS);
            check_late(&w, groups[r], GYRE_RING_GATHER, GYRE_RING_GATHER);
        }
        free_whole(&w);
    }
}

/* -- decoding over caches -- */

typedef struct cache_rank {
    endpoint at;
    const group *g;
    float out[HEADS][DIM];
    double lse[HEADS];
    gyre_ring_timeline times;
} cache_rank;

static void *decode_rank(void *arg) {
    cache_rank *job = arg;
    gyre_error err;
    const group *g = job->g;
    const whole *w = g->w;
    const int64_t rank = job->at.rank, sequence = 0;
    const gyre_transport transport = network_transport(&job->at, g->ranks);
    gyre_cache *cache;
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.encoding = w->encoding, config.keys = GYRE_CACHE_KEYS_RAW, config.heads = KEY_HEADS, config.head_dim = DIM,
    config.max_tokens = 512;
    expect_ok(gyre_cache_create(&cache, &config, NULL, &err), &err);
    const gyre_cview k = field_cview(w->c, &g->data[rank], F_K), v = field_cview(w->c, &g->data[rank], F_V);
    expect_ok(gyre_cache_append(cache,
                                GYRE_ARGS(gyre_cache_append_args, .k = k, .v = v, .positions = &g->info[rank].positions),
                                NULL, &err),
              &err);
    double rows[HEADS][STATE] = {{0}};
    attention_setup args = shared_args(w, GYRE_ORDER_FAST);
    args.sequences = 0;
    args.q = field_cview(w->c, &w->data, F_Q);
    args.q.data = (const float *)args.q.data + (w->info.tokens - 1) * HEADS * DIM;
    args.q.shape[1] = 1;
    args.q_pos.base = w->info.tokens - 1;
    args.state = gyre_dense(rows, GYRE_DTYPE_F64, 1, 1, HEADS, STATE);
    const size_t bytes = cache_attention_scratch(cache, &sequence, &args, NULL);
    void *scratch = scratch_for(bytes);
    expect_ok(run_cache_attention(cache, &sequence, &args, (gyre_scratch){scratch, bytes}, NULL, &err), &err);
    free(scratch);
    gyre_ring_merge_args merge = GYRE_INIT(gyre_ring_merge_args);
    merge.transport = &transport;
    merge.state = gyre_const(args.state);
    merge.out = gyre_dense(job->out, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    merge.lse = gyre_dense(job->lse, GYRE_DTYPE_F64, 1, 1, HEADS, 1);
    job->times.size = sizeof job->times;
    merge.timeline = &job->times;
    use_sinks(w, &args);
    merge.sink_logits = args.sink_logits;
    const size_t more = ring_merge_scratch(&merge);
    void *room_for_states = scratch_for(more);
    expect_ok(gyre_ring_merge(&merge, (gyre_scratch){room_for_states, more}, NULL, &err), &err);
    free(room_for_states);
    gyre_cache_free(cache);
    return NULL;
}

static void a_cache_may_be_dealt_out(void **state) {
    static const int64_t length[] = {300};
    static const int of[] = {0, 4, 5};
    (void)state;
    for (int c = 0; c < 3; c++)
        for (int r = 0; r < 5; r++) {
            whole w;
            group g;
            network net;
            cache_rank jobs[MOST_RANKS] = {{.g = NULL}};
            pthread_t threads[MOST_RANKS];
            make_whole(&w, &cases[of[c]], GYRE_BATCH_PACKED, length, 1);
            run_whole(&w, GYRE_ORDER_FAST, NULL);
            make_group(&g, &w, (gyre_shard_layout)(r % 3), groups[r], 0);
            open_network(&net);
            for (int64_t i = 0; i < g.ranks; i++) {
                jobs[i] = (cache_rank){.at = {&net, i}, .g = &g};
                assert_int_equal(pthread_create(&threads[i], NULL, decode_rank, &jobs[i]), 0);
            }
            for (int64_t i = 0; i < g.ranks; i++) {
                pthread_join(threads[i], NULL);
                assert_memory_equal(jobs[i].out, jobs[0].out, sizeof jobs[0].out); /* on every rank alike */
                assert_memory_equal(jobs[i].lse, jobs[0].lse, sizeof jobs[0].lse);
                assert_int_equal(jobs[i].times.sent, (g.ranks - 1) * HEADS * STATE * 8);
            }
            for (int e = 0; e < HEADS * DIM; e++)
                test_close((long double)(&jobs[0].out[0][0])[e],
                           (long double)((const float *)w.data.at[F_OUT])[(w.info.tokens - 1) * HEADS * DIM + e], 3e-6L,
                           w.c->name);
            close_network(&net);
            free_group(&g);
            free_whole(&w);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_is_one_machine), cmocka_unit_test(gathered_gradients_go_home_in_parts),
        cmocka_unit_test(fixed_order_has_the_bits_of_one_rank), cmocka_unit_test(few_queries_go_to_the_keys),
        cmocka_unit_test(a_cache_may_be_dealt_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
