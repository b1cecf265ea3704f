/* test_ring.c: attention over a ring of ranks, each a thread, is the attention of one machine. */
#include "gyre/gyre_ring.h"
#include "split_attention.h"

#include <pthread.h>

/* -- a transport between threads -- */

/* What one rank has begun on one channel.  The rank it comes from copies into `receive`. */
typedef struct mailbox {
    gyre_exchange exchange;
    int open, filled, sent; /* open: begun and not waited for; filled: received; sent: the other has it */
} mailbox;

typedef struct network {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    mailbox box[MOST_RANKS][GYRE_TRANSPORT_CHANNELS];
    int fail_at; /* this many exchanges from now on fail; 0 = none does */
} network;

typedef struct endpoint {
    network *net;
    int64_t rank;
} endpoint;

/* Moves what can be moved on a channel.  The lock is held. */
static void deliver(network *net, int channel) {
    for (int64_t to = 0; to < MOST_RANKS; to++) {
        mailbox *in = &net->box[to][channel];
        if (!in->open || in->filled) continue;
        mailbox *out = &net->box[in->exchange.from][channel];
        if (!out->open || out->sent || out->exchange.to != to) continue;
        assert_true(out->exchange.sent == in->exchange.received);
        memcpy(in->exchange.receive, out->exchange.send, out->exchange.sent);
        in->filled = out->sent = 1;
    }
    pthread_cond_broadcast(&net->changed);
}

static gyre_status begin(void *ctx, int channel, const gyre_exchange *exchange) {
    const endpoint *e = ctx;
    mailbox *box = &e->net->box[e->rank][channel];
    pthread_mutex_lock(&e->net->lock);
    const int fails = e->net->fail_at > 0 && --e->net->fail_at == 0;
    assert_false(box->open);
    *box = (mailbox){*exchange, 1, 0, 0};
    deliver(e->net, channel);
    pthread_mutex_unlock(&e->net->lock);
    return fails ? GYRE_EIO : GYRE_OK;
}

static gyre_status wait_for(void *ctx, int channel) {
    const endpoint *e = ctx;
    mailbox *box = &e->net->box[e->rank][channel];
    pthread_mutex_lock(&e->net->lock);
    while (!box->filled || !box->sent)
        pthread_cond_wait(&e->net->changed, &e->net->lock);
    box->open = 0;
    pthread_mutex_unlock(&e->net->lock);
    return GYRE_OK;
}

/* -- ranks -- */
typedef struct rank_job {
    endpoint at;
    group *g;
    shared_gradients sum;
    gyre_transport transport;
} rank_job;

static gyre_attention_args rank_args(const group *g, int64_t rank) {
    gyre_attention_args args = shared_args(g->w, GYRE_ORDER_FAST);
    use_data(g->w->c, &g->data[rank], &g->data[rank], &args);
    use_sinks(g->w, &args);
    if (g->w->c->config.rope.length_policy == GYRE_LENGTH_POLICY_PREFIX) args.context_lengths = g->w->info.context_lengths;
    return args;
}

static void *run_rank(void *arg) {
    rank_job *job = arg;
    group *g = job->g;
    const int64_t rank = job->at.rank;
    const gyre_attention_args args = rank_args(g, rank);
    gyre_ring_args ring = GYRE_INIT(gyre_ring_args);
    job->transport = (gyre_transport){sizeof job->transport, rank, g->ranks, &job->at, begin, wait_for};
    ring.transport = &job->transport;
    ring.shards = g->shards;
    ring.attention = &args;
    const size_t bytes = gyre_ring_scratch(&ring, 0, NULL), more = gyre_ring_scratch(&ring, 1, NULL);
    void *scratch = scratch_for(bytes > more ? bytes : more);
    assert_int_equal(gyre_ring_attention(&ring, scratch, bytes, NULL, NULL), GYRE_OK);
    const gyre_cview dout = field_cview(g->w->c, &g->data[rank], F_DOUT);
    const gyre_view dqkv[3] = {field_view(g->w->c, &g->data[rank], F_DQ), field_view(g->w->c, &g->data[rank], F_DK),
                               field_view(g->w->c, &g->data[rank], F_DV)};
    const gyre_table_gradients gradients = shared_views(g->w, &job->sum);
    for (field f = F_DQ; f <= F_DV; f++) /* they are overwritten */
        memset(g->data[rank].at[f], 0x5A, field_bytes(g->w->c, &g->data[rank], f));
    assert_int_equal(gyre_ring_attention_gradient(&ring, &dout, dqkv, &gradients, scratch, more, NULL, NULL), GYRE_OK);
    free(scratch);
    return NULL;
}

/* *sum = gradients of the tables, added in the order of ranks. */
static void run_group(group *g, shared_gradients *sum) {
    network net = {.fail_at = 0};
    rank_job jobs[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    pthread_mutex_init(&net.lock, NULL);
    pthread_cond_init(&net.changed, NULL);
    for (int64_t r = 0; r < g->ranks; r++) {
        jobs[r] = (rank_job){{&net, r}, g, make_shared(g->w), GYRE_INIT(gyre_transport)};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &jobs[r]), 0);
    }
    for (int64_t r = 0; r < g->ranks; r++) {
        pthread_join(threads[r], NULL);
        for (int t = 0; t < TABLES; t++)
            for (size_t i = 0; i < g->w->table_size[t]; i++)
                sum->table[t][i] += jobs[r].sum.table[t][i];
        for (int h = 0; h < HEADS; h++)
            sum->sink[h] += jobs[r].sum.sink[h];
        free_shared(&jobs[r].sum);
    }
    pthread_cond_destroy(&net.changed);
    pthread_mutex_destroy(&net.lock);
}

/* -- tests -- */
#define TURNING(...)                                                                                                        \
    {                                                                                                                       \
        .kind = GYRE_KIND_ROPE, .trained_length = 32, .rope = { __VA_ARGS__ }                                               \
    }
static const split_case cases[] = {
    {.name = "rope", .config = TURNING(0)},
    {.name = "rope, bf16, sink logits, dropout",
     .config = TURNING(0),
     .dtype = GYRE_DTYPE_BF16,
     .sink_logits = 1,
     .dropout = 0.2},
    {.name = "m-rope by order",
     .config = TURNING(.axes = 3, .axis_pairs = {4, 2, 2}),
     .images = 1,
     .causal = GYRE_CAUSAL_BY_ORDER,
     .window = 20,
     .sinks = 3},
    {.name = "length of the prefix",
     .config = TURNING(.scaling = GYRE_SCALING_DYNAMIC_NTK, .factor = 2, .length_policy = GYRE_LENGTH_POLICY_PREFIX)},
    {.name = "alibi, both ways", .config = {.kind = GYRE_KIND_ALIBI}, .both_ways = 1},
    {.name = "shaw", .config = {.kind = GYRE_KIND_SHAW, .score = {.max_distance = 10}}},
};
enum { CASES = sizeof cases / sizeof *cases };
static const int64_t lengths[] = {37, 10, 50};

static double apart(const whole *w, const token_data *a, field which) {
    const size_t n = field_size(w->c, a, which), row = n / (size_t)(a->rows * a->tokens);
    const gyre_dtype dtype = field_view(w->c, a, which).dtype;
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        const double is = test_get(a->at[which], dtype, i), wanted = test_get(w->data.at[which], dtype, i);
        if (is == wanted || (w->info.document_of[i / row] < 0 && which < F_DQ)) continue;
        most = fmax(most, isfinite(is) ? fabs(is - wanted) / (1 + fabs(wanted)) : INFINITY);
    }
    return most;
}

static void check_group(const group *g, const shared_gradients *sum, const shared_gradients *wanted) {
    whole *w = g->w;
    token_data all = make_data(w->c, w->info.rows, w->info.tokens);
    static const field of[] = {F_OUT, F_LSE, F_DQ, F_DK, F_DV};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        gather(g, of[i], &all);
        if (!(apart(w, &all, of[i]) <= 5e-6))
            fail_msg("%s, %lld ranks: field %d is off by %.1e", w->c->name, (long long)g->ranks, (int)of[i],
                     apart(w, &all, of[i]));
    }
    for (int t = 0; t < TABLES; t++)
        for (size_t i = 0; i < w->table_size[t]; i++)
            test_close((long double)sum->table[t][i], (long double)wanted->table[t][i],
                       2e-5L * (1 + fabsl((long double)wanted->table[t][i])), "tables");
    for (int h = 0; h < HEADS; h++)
        test_close((long double)sum->sink[h], (long double)wanted->sink[h], 2e-5L, "sink logits");
    free_data(&all);
}

static void a_ring_is_one_machine(void **state) {
    static const int64_t groups[] = {1, 2, 3, 4, 7};
    static const gyre_batch_form forms[] = {GYRE_BATCH_PACKED, GYRE_BATCH_PADDED_LEFT};
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int f = 0; f < 2; f++) {
            whole w;
            make_whole(&w, &cases[c], forms[f], lengths, 3);
            shared_gradients wanted = make_shared(&w);
            run_whole(&w, GYRE_ORDER_FAST, &wanted);
            for (int r = 0; r < 5; r++)
                for (int l = 0; l < 3; l++) {
                    group g;
                    make_group(&g, &w, (gyre_shard_layout)l, groups[r], 0);
                    shared_gradients sum = make_shared(&w);
                    run_group(&g, &sum);
                    check_group(&g, &sum, &wanted);
                    free_shared(&sum);
                    free_group(&g);
                }
            free_shared(&wanted);
            free_whole(&w);
        }
}

static void bits_repeat(void **state) {
    whole w;
    group one, two;
    (void)state;
    make_whole(&w, &cases[1], GYRE_BATCH_PACKED, lengths, 3);
    make_group(&one, &w, GYRE_SHARD_ZIGZAG, 4, 0);
    make_group(&two, &w, GYRE_SHARD_ZIGZAG, 4, 0);
    shared_gradients first = make_shared(&w), second = make_shared(&w);
    for (int i = 0; i < 20; i++) { /* threads arrive in another order each time */
        run_group(&one, &first);
        run_group(&two, &second);
        for (int64_t r = 0; r < 4; r++)
            for (field f = F_OUT; f < FIELDS; f++)
                assert_memory_equal(one.data[r].at[f], two.data[r].at[f], field_bytes(w.c, &one.data[r], f));
    }
    assert_memory_equal(first.sink, second.sink, sizeof first.sink);
    free_shared(&first);
    free_shared(&second);
    free_group(&one);
    free_group(&two);
    free_whole(&w);
}

/* -- errors -- */

static void mistakes_are_named(void **state) {
    whole w;
    group g;
    gyre_error err = {0, ""};
    network net = {.fail_at = 1};
    endpoint at = {&net, 0};
    (void)state;
    pthread_mutex_init(&net.lock, NULL);
    pthread_cond_init(&net.changed, NULL);
    make_whole(&w, &cases[0], GYRE_BATCH_PACKED, lengths, 3);
    make_group(&g, &w, GYRE_SHARD_ZIGZAG, 2, 0);
    gyre_attention_args args = rank_args(&g, 0);
    gyre_transport transport = {sizeof transport, 0, 2, &at, begin, wait_for};
    gyre_ring_args ring = GYRE_INIT(gyre_ring_args);
    ring.transport = &transport, ring.shards = g.shards, ring.attention = &args;
    const size_t bytes = gyre_ring_scratch(&ring, 0, NULL);
    void *scratch = scratch_for(bytes);
#define SAYS(want, fragment)                                                                                                \
    do {                                                                                                                    \
        assert_int_equal(gyre_ring_attention(&ring, scratch, bytes, NULL, &err), want);                                     \
        if (!strstr(err.text, fragment)) fail_msg("\"%s\" does not contain \"%s\"", err.text, fragment);                    \
    } while (0)
    args.order = GYRE_ORDER_FIXED;
    SAYS(GYRE_EUNSUPPORTED, "order: FIXED needs keys in their order");
    args = rank_args(&g, 1);
    args.q = g.info[0].tokens == g.info[1].tokens ? gyre_cdense(args.q.data, args.q.dtype, 1, 3, HEADS, DIM) : args.q;
    SAYS(GYRE_ESHAPE, "but the shard of rank 0 has");
    args = rank_args(&g, 0);
    args.softcap = -1;
    SAYS(GYRE_EINVAL, "attention: gyre_attention refuses its shapes");
    args.softcap = 0;
    args.out.data = NULL;
    SAYS(GYRE_EINVAL, "");
    args = rank_args(&g, 0);
    transport.ranks = 3;
    SAYS(GYRE_EINVAL, "shards: not of the 3 ranks of the transport");
    transport.ranks = 2;
    ring.shards = NULL;
    SAYS(GYRE_EINVAL, "shards: is NULL");
    ring.shards = g.shards;
    assert_int_equal(gyre_ring_attention(&ring, scratch, bytes - 64, NULL, &err), GYRE_ENOMEM);
    SAYS(GYRE_EIO, "transport: an exchange of rank 0 failed"); /* the first exchange of all */
    free(scratch);
    free_group(&g);
    free_whole(&w);
    pthread_cond_destroy(&net.changed);
    pthread_mutex_destroy(&net.lock);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_ring_is_one_machine), cmocka_unit_test(bits_repeat),
                                       cmocka_unit_test(mistakes_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
