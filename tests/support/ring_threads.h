/* ring_threads.h: a batch that is dealt out to ranks, each of which a thread plays with calls of gyre_ring.h. */
#ifndef GYRE_TESTS_RING_THREADS_H
#define GYRE_TESTS_RING_THREADS_H
#include "attention_setup.h"
#include "scratch_bytes.h"
#include "split_attention.h"
#include "thread_network.h"

/* What both tests of rings begin with: initializers of split_case. */
#define RING_CASES                                                                                                          \
    {.name = "rope", .config = TURNING(0)},                                                                                 \
        {.name = "rope, bf16, sink logits, dropout",                                                                        \
         .config = TURNING(0),                                                                                              \
         .dtype = GYRE_DTYPE_BF16,                                                                                          \
         .sink_logits = 1,                                                                                                  \
         .dropout = 0.2},                                                                                                   \
        {.name = "m-rope by order",                                                                                         \
         .config = TURNING(.axes = 3, .axis_pairs = {4, 2, 2}),                                                             \
         .images = 1,                                                                                                       \
         .causal = GYRE_CAUSAL_BY_ORDER,                                                                                    \
         .window = 20,                                                                                                      \
         .sinks = 3},                                                                                                       \
    {                                                                                                                       \
        .name = "length of the prefix",                                                                                     \
        .config = FOLLOWING(GYRE_LENGTH_POLICY_PREFIX, 0, .scaling = GYRE_SCALING_DYNAMIC_NTK, .factor = 2)                 \
    }

typedef struct ring_options {
    gyre_ring_pass pass;
    gyre_order order;
    int forward;    /* 1: no gradient */
    size_t scratch; /* gyre_ring_args.scratch_bytes */
    const gyre_exec *exec;
    int64_t *polls; /* = calls of progress, which never sees an exchange done; NULL = it does */
} ring_options;

typedef struct rank_job {
    endpoint at;
    group *g;
    ring_options options;
    shared_gradients sum;
    gyre_transport transport;
    gyre_ring_timeline forward, gradient;
    gyre_ring_plan forward_plan, gradient_plan;
    size_t forward_bytes, gradient_bytes; /* of scratch, up to the last that was written */
} rank_job;

enum { UNTOUCHED = 0xC3 };

/* out = scratch that tells which bytes were written. */
static inline void *marked_scratch(size_t bytes) {
    void *scratch = scratch_for(bytes);
    memset(scratch, UNTOUCHED, bytes);
    return scratch;
}

static inline size_t bytes_written(const void *scratch, size_t bytes) {
    const unsigned char *at = scratch;
    while (bytes > 0 && at[bytes - 1] == UNTOUCHED)
        bytes--;
    return bytes;
}

static inline attention_setup rank_args(const group *g, int64_t rank) {
    attention_setup args = shared_args(g->w, GYRE_ORDER_FAST);
    use_data(g->w->c, &g->data[rank], &g->data[rank], &args);
    use_sinks(g->w, &args);
    if (g->w->c->config.length_policy == GYRE_LENGTH_POLICY_PREFIX) args.context_lengths = g->w->info.context_lengths;
    return args;
}

static inline void run_rank_gradient(rank_job *job, gyre_ring_args *ring) {
    group *g = job->g;
    gyre_error err;
    const int64_t rank = job->at.rank;
    const gyre_table_gradients tables = shared_views(g->w, &job->sum);
    const gyre_attention_gradients plain = {.size = sizeof plain,
                                            .dout = field_cview(g->w->c, &g->data[rank], F_DOUT),
                                            .dq = field_view(g->w->c, &g->data[rank], F_DQ),
                                            .dk = field_view(g->w->c, &g->data[rank], F_DK),
                                            .dv = field_view(g->w->c, &g->data[rank], F_DV),
                                            .tables = &tables};
    const attention_setup setup = rank_args(g, rank);
    const gyre_attention_gradients gradients = attention_setup_gradients(&setup, &plain);
    const size_t bytes = ring_scratch(ring, 1, job->options.exec);
    void *scratch = marked_scratch(bytes);
    for (field f = F_DQ; f <= F_DK_GATES; f++) /* they are overwritten */
        memset(g->data[rank].at[f], 0x5A, field_bytes(g->w->c, &g->data[rank], f));
    ring->timeline = &job->gradient;
    expect_ok(gyre_ring_get_plan(ring, 1, job->options.exec, &job->gradient_plan, &err), &err);
    expect_ok(gyre_ring_attention_gradient(ring, &gradients, (gyre_scratch){scratch, bytes}, job->options.exec, &err), &err);
    job->gradient_bytes = bytes_written(scratch, bytes);
    free(scratch);
}

static inline void *run_rank(void *arg) {
    rank_job *job = arg;
    attention_setup args = rank_args(job->g, job->at.rank);
    attention_structs structs;
    gyre_ring_args ring = GYRE_INIT(gyre_ring_args);
    gyre_error err;
    args.order = job->options.order;
    job->transport = network_transport(&job->at, job->g->ranks);
    ring.transport = &job->transport;
    ring.shards = job->g->shards;
    ring.attention = attention_setup_args(&args, &structs);
    ring.pass = job->options.pass;
    ring.scratch_bytes = job->options.scratch;
    ring.timeline = &job->forward;
    const size_t bytes = ring_scratch(&ring, 0, job->options.exec);
    void *scratch = marked_scratch(bytes);
    expect_ok(gyre_ring_get_plan(&ring, 0, job->options.exec, &job->forward_plan, &err), &err);
    expect_ok(gyre_ring_attention(&ring, (gyre_scratch){scratch, bytes}, job->options.exec, &err), &err);
    job->forward_bytes = bytes_written(scratch, bytes);
    free(scratch);
    if (!job->options.forward) run_rank_gradient(job, &ring);
    return NULL;
}

/* *sum = gradients of the tables, added in the order of ranks.  jobs: [MOST_RANKS]; their times and plans stay. */
static inline void run_jobs(group *g, const ring_options *options, shared_gradients *sum, rank_job *jobs) {
    network net;
    pthread_t threads[MOST_RANKS];
    open_network(&net);
    net.late = options->polls != NULL;
    for (int64_t r = 0; r < g->ranks; r++) {
        jobs[r] = (rank_job){.at = {&net, r},
                             .g = g,
                             .options = *options,
                             .sum = make_shared(g->w),
                             .forward = GYRE_INIT(gyre_ring_timeline),
                             .gradient = GYRE_INIT(gyre_ring_timeline),
                             .forward_plan = GYRE_INIT(gyre_ring_plan),
                             .gradient_plan = GYRE_INIT(gyre_ring_plan)};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &jobs[r]), 0);
    }
    for (int64_t r = 0; r < g->ranks; r++) {
        pthread_join(threads[r], NULL);
        for (int t = 0; t < TABLES && sum; t++)
            for (size_t i = 0; i < g->w->table_size[t]; i++)
                sum->table[t][i] += jobs[r].sum.table[t][i];
        for (int h = 0; h < HEADS && sum; h++)
            sum->sink[h] += jobs[r].sum.sink[h];
        free_shared(&jobs[r].sum);
    }
    if (options->polls) *options->polls = net.polls;
    close_network(&net);
}

static inline void run_group(group *g, const ring_options *options, shared_gradients *sum) {
    rank_job jobs[MOST_RANKS];
    run_jobs(g, options, sum, jobs);
}

/* How far what the ranks computed is from the whole, at most; padding does not count. */
static inline double apart(const whole *w, const token_data *a, field which) {
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

/* Fails unless the ranks have the bits of w->data; padding does not count. */
static inline void expect_bits(const group *g, const whole *w, field which) {
    token_data all = make_data(w->c, w->info.rows, w->info.tokens);
    gather(g, which, &all);
    const size_t n = field_size(w->c, &all, which), row = n / (size_t)(all.rows * all.tokens);
    const size_t size = field_bytes(w->c, &all, which) / n;
    for (size_t i = 0; i < n; i++)
        if (w->info.document_of[i / row] >= 0 &&
            memcmp((char *)all.at[which] + i * size, (char *)w->data.at[which] + i * size, size) != 0)
            fail_msg("%s, %lld ranks, %d: token %zu has other bits than on one rank", w->c->name, (long long)g->ranks,
                     (int)which, i / row);
    free_data(&all);
}

/* Against w->data and the gradients of one machine.  forward: 1 = out and lse alone. */
static inline void check_group(const group *g, int forward, const shared_gradients *sum, const shared_gradients *wanted) {
    whole *w = g->w;
    token_data all = make_data(w->c, w->info.rows, w->info.tokens);
    static const field of[] = {F_OUT, F_LSE, F_DQ, F_DK, F_DV, F_DQ_GATES, F_DK_GATES};
    const size_t count = forward ? 2 : w->c->gates > 0 ? 7 : 5;
    for (size_t i = 0; i < count; i++) {
        gather(g, of[i], &all);
        if (!(apart(w, &all, of[i]) <= 5e-6))
            fail_msg("%s, %lld ranks: field %d is off by %.1e", w->c->name, (long long)g->ranks, (int)of[i],
                     apart(w, &all, of[i]));
    }
    free_data(&all);
    if (forward) return;
    for (int t = 0; t < TABLES; t++)
        for (size_t i = 0; i < w->table_size[t]; i++)
            test_close((long double)sum->table[t][i], (long double)wanted->table[t][i],
                       2e-5L * (1 + fabsl((long double)wanted->table[t][i])), "tables");
    for (int h = 0; h < HEADS; h++)
        test_close((long double)sum->sink[h], (long double)wanted->sink[h], 2e-5L, "sink logits");
}

#endif
