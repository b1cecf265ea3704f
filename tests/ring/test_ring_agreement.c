/* test_ring_agreement.c: ranks that were called with different things all say so, a silent rank is named, and the timeline
 * counts what moved. */
#include "attention_setup.h"
#include "ring_threads.h"
#include "scratch_bytes.h"

enum { RANKS = 3 };
static const split_case plain_case = {.name = "rope", .config = {.kind = GYRE_KIND_ROPE}};
static const int64_t lengths[] = {37, 50};

/* What rank 1 has otherwise. */
typedef struct difference {
    const char *says; /* in the error of every rank */
    gyre_status status;
    void (*args)(attention_setup *args, gyre_ring_args *ring, const group *g);
    size_t spoils; /* byte of rank 1's greeting; 0 = none */
} difference;

typedef struct unlike_rank {
    endpoint at;
    const group *g;
    const difference *change; /* NULL = none */
    int silent;               /* 1: rank 1 does not make the call; 2: it begins after 0.1 s */
    gyre_status status;
    gyre_error err;
} unlike_rank;

static void no_scratch(attention_setup *args, gyre_ring_args *ring, const group *g) {
    (void)args, (void)ring, (void)g;
}

static void *run_unlike(void *arg) {
    unlike_rank *job = arg;
    const int64_t rank = job->at.rank;
    const gyre_transport transport = network_transport(&job->at, RANKS);
    attention_setup args = rank_args(job->g, rank);
    gyre_ring_args ring = GYRE_INIT(gyre_ring_args);
    attention_structs structs;
    ring.transport = &transport, ring.shards = job->g->shards;
    ring.attention = attention_setup_args(&args, &structs);
    if (rank == 1 && job->silent == 1) return NULL;
    const struct timespec nap = {0, 100000000};
    if (rank == 1 && job->silent == 2) nanosleep(&nap, NULL);
    const size_t bytes = ring_scratch(&ring, 0, NULL) + (1 << 20); /* enough for what a change may need */
    void *scratch = scratch_for(bytes);
    if (rank == 1 && job->change && job->change->args) job->change->args(&args, &ring, job->g);
    attention_setup_args(&args, &structs);
    const int none = rank == 1 && job->change && job->change->args == no_scratch;
    job->status = gyre_ring_attention(&ring, (gyre_scratch){none ? NULL : scratch, bytes}, NULL, &job->err);
    free(scratch);
    return NULL;
}

static void run_three(const group *g, const difference *change, int silent, double timeout, unlike_rank *jobs) {
    network net;
    pthread_t threads[RANKS];
    open_network(&net);
    net.timeout = timeout;
    if (change && change->spoils) net.spoiled_by = 2, net.spoiled_at = change->spoils;
    for (int r = 0; r < RANKS; r++) {
        jobs[r] = (unlike_rank){.at = {&net, r}, .g = g, .change = change, .silent = silent};
        assert_int_equal(pthread_create(&threads[r], NULL, run_unlike, &jobs[r]), 0);
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    close_network(&net);
}

static void make_three(whole *w, group *g) {
    make_whole(w, &plain_case, GYRE_BATCH_PACKED, lengths, 2);
    make_group(g, w, GYRE_SHARD_ZIGZAG, RANKS, 0);
}

/* -- differences -- */

static gyre_encoding *another;

static void other_window(attention_setup *args, gyre_ring_args *ring, const group *g) {
    (void)ring, (void)g;
    args->window = 60;
}
static void other_scale(attention_setup *args, gyre_ring_args *ring, const group *g) {
    (void)ring, (void)g;
    args->scale = 0.5;
}
static void other_base(attention_setup *args, gyre_ring_args *ring, const group *g) {
    (void)ring, (void)g;
    args->encoding = another;
}
static void other_type(attention_setup *args, gyre_ring_args *ring, const group *g) {
    (void)ring, (void)g;
    args->v.dtype = GYRE_DTYPE_BF16;
}
static void other_heads(attention_setup *args, gyre_ring_args *ring, const group *g) {
    (void)ring, (void)g;
    args->k.shape[2] = args->v.shape[2] = 1;
}
static void other_pass(attention_setup *args, gyre_ring_args *ring, const group *g) {
    (void)args, (void)g;
    ring->pass = GYRE_RING_QUERIES;
}
static void no_values(attention_setup *args, gyre_ring_args *ring, const group *g) {
    (void)ring, (void)g;
    args->v.data = NULL;
}
static void no_shards(attention_setup *args, gyre_ring_args *ring, const group *g) {
    (void)args, (void)g;
    ring->shards = NULL;
}
static gyre_shards *striped;
static void other_layout(attention_setup *args, gyre_ring_args *ring, const group *g) {
    (void)args, (void)g;
    ring->shards = striped;
}

static const difference changes[] = {
    {"window: 60 on rank 1, but 0 on rank 0", GYRE_EINVAL, other_window, 0},
    {"scale: 0.5 on rank 1, but 0.5999", GYRE_EINVAL, other_scale, 0},
    {"rope.base: 500 on rank 1, but 10000 on rank 0", GYRE_EINVAL, other_base, 0},
    {"type of v: ", GYRE_EINVAL, other_type, 0},
    {"heads of k: 1 on rank 1, but 2 on rank 0", GYRE_EINVAL, other_heads, 0},
    {"pass: 1 on rank 1, but 0 on rank 0", GYRE_EINVAL, other_pass, 0},
    {"rank 1: scratch: ", GYRE_EINVAL, no_scratch, 0},
    {"rank 1: v: ", GYRE_EINVAL, no_values, 0},
    {"rank 1: shards: is NULL", GYRE_EINVAL, no_shards, 0},
    {"shards: rank 1 and rank 0", GYRE_EINVAL, other_layout, 0},
    {"version: Gyre 0.1.1 on rank 1, but 0.1.0 on rank 0", GYRE_EINVAL, NULL, 8},
    {"the first message was not a greeting", GYRE_EINVAL, NULL, 1},
};

static void differences_are_named_on_every_rank(void **state) {
    whole w;
    group g;
    gyre_shard_config config = GYRE_INIT(gyre_shard_config);
    gyre_config encoding = {.size = sizeof encoding,
                            .kind = GYRE_KIND_ROPE,
                            .head_dim = DIM,
                            .heads = HEADS,
                            .trained_length = 1024,
                            .rope = {.base = 500}};
    (void)state;
    make_three(&w, &g);
    another = test_encoding(&encoding);
    config.layout = GYRE_SHARD_ZIGZAG;
    config.ranks = RANKS;
    config.sinks = 4; /* the same tokens, another count of work */
    assert_int_equal(gyre_shards_create(&striped, w.batch, &config, NULL, NULL), GYRE_OK);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        unlike_rank jobs[RANKS];
        run_three(&g, &changes[i], 0, 10, jobs);
        for (int r = 0; r < RANKS; r++) {
            if (jobs[r].status != changes[i].status || !strstr(jobs[r].err.text, changes[i].says))
                fail_msg("rank %d: %d, \"%s\" does not contain \"%s\"", r, (int)jobs[r].status, jobs[r].err.text,
                         changes[i].says);
        }
    }
    gyre_shards_free(striped);
    gyre_encoding_free(another);
    free_group(&g);
    free_whole(&w);
}

/* Keys may lack the vectors of queries, on every rank or on none. */
enum { VECTORS = 3 };
static void other_key_channels(attention_setup *args, gyre_ring_args *ring, const group *g) {
    (void)ring, (void)g;
    args->k.shape[3] -= VECTORS;
}

static void channels_of_keys_are_alike(void **state) {
    static const split_case inkling = {
        .name = "inkling", .config = SCORING(GYRE_KIND_INKLING, .max_distance = 9, .relative_channels = VECTORS)};
    static const difference change = {"channels of k: ", GYRE_EINVAL, other_key_channels, 0};
    unlike_rank jobs[RANKS];
    whole w;
    group g;
    (void)state;
    make_whole(&w, &inkling, GYRE_BATCH_PACKED, lengths, 2);
    make_group(&g, &w, GYRE_SHARD_ZIGZAG, RANKS, 0);
    run_three(&g, NULL, 0, 10, jobs);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(jobs[r].status, GYRE_OK);
    run_three(&g, &change, 0, 10, jobs);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(jobs[r].status, change.status);
        assert_non_null(strstr(jobs[r].err.text, change.says));
    }
    free_group(&g);
    free_whole(&w);
}

static void a_silent_rank_is_named(void **state) {
    whole w;
    group g;
    unlike_rank jobs[RANKS];
    (void)state;
    make_three(&w, &g);
    run_three(&g, NULL, 1, 0.4, jobs);
    for (int r = 0; r < RANKS; r += 2) {
        assert_int_equal(jobs[r].status, GYRE_EIO);
        /* On a busy machine rank 2 may give up before rank 0 has told it. */
        if (!strstr(jobs[r].err.text, "s for rank 1 to begin") &&
            !(r == 2 && strstr(jobs[r].err.text, "for rank 0 to begin")))
            fail_msg("rank %d says \"%s\"", r, jobs[r].err.text);
    }
    run_three(&g, NULL, 2, 30, jobs); /* late is not silent */
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(jobs[r].status, GYRE_OK);
    free_group(&g);
    free_whole(&w);
}

/* -- answers that are none -- */

/* Rank 0, for rank 1: says what rank 1 said, with another number in its place. */
typedef struct liar {
    char said[8192];
    size_t size, at; /* at: of the number; past the end: nothing of the greeting is kept */
    int64_t number;
} liar;

static gyre_status answer(void *ctx, int channel, const gyre_exchange *e) {
    liar *l = ctx;
    (void)channel;
    if (e->sent) {
        assert_true(e->sent <= sizeof l->said);
        l->size = e->sent;
        memcpy(l->said, e->send, e->sent);
    }
    if (!e->received) return GYRE_OK;
    memset(e->receive, 0, e->received);
    if (e->received == l->size && l->at < l->size) {
        memcpy(e->receive, l->said, l->size);
        memcpy((char *)e->receive + l->at, &l->number, sizeof l->number);
    }
    return GYRE_OK;
}
static gyre_status at_once(void *ctx, int channel) {
    (void)ctx, (void)channel;
    return GYRE_OK;
}

/* Each would be agreement, or a status that no function has, if the number were taken as it comes. */
static void other_bytes_are_no_agreement(void **state) {
    static const struct {
        size_t at;
        int64_t number;
        gyre_status status;
        const char *says;
    } answers[] = {
        {sizeof(liar), 0, GYRE_EINVAL, "the first message was not a greeting"},
        {0, 7, GYRE_EINVAL, "the first message was not a greeting"},
        {8, 7, GYRE_EINVAL, "version: Gyre 0.0.7 on rank 1, but 0.1.0"}, /* as it says itself, the number of a rank stays */
        {16, INT64_C(1) << 32, GYRE_EINVAL, "sent no reason"},
        {16, 3, GYRE_EINVAL, "sent no reason"},
        {16, GYRE_ERANGE - 1, GYRE_EINVAL, "sent no reason"},
        {16, GYRE_EIO, GYRE_EIO, "sent no reason"},
        {16, 0, GYRE_OK, ""},
    };
    double rows[2 * STATE] = {0};
    float out[2 * DIM];
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        liar l = {.at = answers[i].at, .number = answers[i].number};
        gyre_error err = {0, ""};
        gyre_transport transport = GYRE_INIT(gyre_transport);
        transport.rank = 1, transport.ranks = 2, transport.ctx = &l, transport.begin = answer, transport.wait = at_once;
        gyre_ring_merge_args merge = GYRE_INIT(gyre_ring_merge_args);
        merge.transport = &transport;
        merge.state = gyre_cdense(rows, GYRE_DTYPE_F64, 1, 1, 2, STATE);
        merge.out = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, 2, DIM);
        const size_t bytes = ring_merge_scratch(&merge);
        void *scratch = scratch_for(bytes);
        const gyre_status status = gyre_ring_merge(&merge, (gyre_scratch){scratch, bytes}, NULL, &err);
        if (status != answers[i].status || !strstr(err.text, answers[i].says))
            fail_msg("answer %zu: %d, \"%s\" does not contain \"%s\"", i, (int)status, err.text, answers[i].says);
        free(scratch);
    }
}

static void merges_agree_too(void **state) {
    double rows[2 * STATE] = {0};
    float out[2 * DIM];
    gyre_error err = {0, ""};
    network net;
    (void)state;
    open_network(&net);
    endpoint at = {&net, 0};
    const gyre_transport transport = network_transport(&at, 1);
    gyre_ring_merge_args merge = GYRE_INIT(gyre_ring_merge_args);
    merge.transport = &transport;
    merge.state = gyre_cdense(rows, GYRE_DTYPE_F64, 1, 1, 2, STATE);
    merge.out = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, 2, DIM);
    const size_t bytes = ring_merge_scratch(&merge);
    void *scratch = scratch_for(bytes);
    assert_int_equal(gyre_ring_merge(&merge, (gyre_scratch){scratch, bytes}, NULL, &err), GYRE_OK);
    assert_int_equal(gyre_ring_merge(&merge, (gyre_scratch){scratch, bytes - 64}, NULL, &err), GYRE_ENOMEM);
    gyre_ring_merge_args rowless = merge, countless = merge;
    rowless.state.shape[0] = (int64_t)1 << 62, rowless.state.shape[2] = 0;
    rowless.out.data = NULL;
    assert_int_equal(gyre_ring_merge(&rowless, (gyre_scratch){scratch, bytes}, NULL, &err), GYRE_OK); /* at once */
    countless.state.shape[1] = (int64_t)1 << 56; /* one row, over and over: 8 bytes of each number wrap around */
    countless.state.stride[0] = countless.state.stride[1] = countless.state.stride[2] = 0;
    assert_int_equal(ring_merge_scratch(&countless), 0);
    assert_int_equal(gyre_ring_merge(&countless, (gyre_scratch){scratch, bytes}, NULL, &err), GYRE_ENOMEM);
    assert_non_null(strstr(err.text, "state: its copies have more bytes than can be counted"));
    merge.out.shape[3] = 3;
    assert_int_equal(gyre_ring_merge(&merge, (gyre_scratch){scratch, bytes}, NULL, &err), GYRE_ESHAPE);
    merge.state.dtype = GYRE_DTYPE_F32;
    assert_int_equal(gyre_ring_merge(&merge, (gyre_scratch){scratch, bytes}, NULL, &err), GYRE_EDTYPE);
    assert_non_null(strstr(err.text, "state: F32 is not F64"));
    assert_int_equal(ring_merge_scratch(&merge), 0);
    free(scratch);
    close_network(&net);
}

/* -- the timeline -- */

static void check_times(const gyre_ring_timeline *t, const gyre_ring_plan *plan) {
    assert_int_equal(t->sent, plan->sent);
    assert_true(t->computing > 0 && t->seconds > 0);
    assert_true(t->computing + t->moving + t->waiting + t->agreeing <= t->seconds * 1.001 + 1e-6);
    assert_true(t->in_flight >= t->waiting && t->hidden >= 0 && t->hidden <= 1);
}

static void the_timeline_counts_what_moved(void **state) {
    whole w;
    group g;
    rank_job jobs[MOST_RANKS];
    gyre_pool *pool;
    (void)state;
    assert_int_equal(gyre_pool_create(&pool, 2, NULL), GYRE_OK);
    const gyre_exec exec = gyre_pool_exec(pool);
    make_three(&w, &g);
    for (int pass = GYRE_RING_KEYS; pass <= GYRE_RING_GATHER; pass++)
        for (int i = 0; i < 2; i++) {
            const ring_options options = {
                .pass = (gyre_ring_pass)pass, .forward = pass == GYRE_RING_QUERIES, .exec = i ? &exec : NULL};
            int64_t sent = 0, received = 0;
            run_jobs(&g, &options, NULL, jobs);
            for (int r = 0; r < RANKS; r++) {
                check_times(&jobs[r].forward, &jobs[r].forward_plan);
                sent += jobs[r].forward.sent + jobs[r].gradient.sent;
                received += jobs[r].forward.received + jobs[r].gradient.received;
                if (!options.forward) check_times(&jobs[r].gradient, &jobs[r].gradient_plan);
            }
            assert_true(sent > 0);
            assert_int_equal(sent, received);
        }
    gyre_pool_free(pool);
    free_group(&g);
    free_whole(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(differences_are_named_on_every_rank),
                                       cmocka_unit_test(channels_of_keys_are_alike),
                                       cmocka_unit_test(a_silent_rank_is_named),
                                       cmocka_unit_test(merges_agree_too),
                                       cmocka_unit_test(other_bytes_are_no_agreement),
                                       cmocka_unit_test(the_timeline_counts_what_moved)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
