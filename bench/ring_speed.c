/* ring_speed.c: attention over ranks of MPI against one rank, in alternation, with where the time went.
 *   mpirun -n R ring_speed [--tokens N] [--heads H] [--kv-heads H] [--dim D] [--layout 0..3] [--pass 0..3] [--rounds N]
 *                          [--bf16 | --f16] [--not-alone] [--mbits N --microseconds N]
 *   ring_speed --plan R [--tokens N] ...
 * layout and pass: as the enums gyre_shard_layout and gyre_ring_pass count.
 * plan: computes nothing; prints the scratch of rank 0 of R ranks, and what it sends, with one thread.
 * mbits, microseconds: exchanges take at least bytes / bandwidth + latency, as over such a network.  They are delayed by the
 * program; the network itself is that of the machine.
 * In each round rank 0 computes the whole alone while the others sleep, then all compute it together.  Ranks are pinned to
 * processors: rank r to r modulo their number.  Prints medians and minima of the rounds. */
#define _GNU_SOURCE
#include "gyre/gyre_mpi.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MOST_ROUNDS = 64 };
typedef struct options {
    int64_t tokens, heads, kv_heads, dim;
    int layout, pass, rounds, alone, mbits, microseconds, plan;
    gyre_dtype dtype;
} options;

typedef struct memory {
    void *q, *k, *v, *out, *lse, *dout, *dq, *dk, *dv;
} memory;

static gyre_error err;

static void check(gyre_status status) {
    if (!status) return;
    fprintf(stderr, "ring_speed: %s\n", err.text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *room(size_t bytes) {
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes + 64)) MPI_Abort(MPI_COMM_WORLD, 1);
    memset(p, 0, bytes);
    return p;
}

static void *fill(const options *o, int64_t tokens, int64_t heads) {
    const size_t n = (size_t)(tokens * heads * o->dim);
    unsigned state = 7;
    char *p = room(n * gyre_dtype_size(o->dtype));
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525U + 1013904223U;
        const float x = (float)(state >> 8) / 8388608.0F - 1;
        unsigned bits;
        memcpy(&bits, &x, sizeof bits);
        const unsigned short top = (unsigned short)(bits >> 16);
        if (o->dtype == GYRE_DTYPE_F32)
            memcpy(p + 4 * i, &x, 4);
        else
            memcpy(p + 2 * i, &top, 2);
    }
    return p;
}

static memory make_memory(const options *o, int64_t tokens) {
    const size_t q = (size_t)(tokens * o->heads * o->dim) * 4, k = (size_t)(tokens * o->kv_heads * o->dim) * 4;
    return (memory){fill(o, tokens, o->heads),
                    fill(o, tokens, o->kv_heads),
                    fill(o, tokens, o->kv_heads),
                    room(q),
                    room((size_t)(tokens * o->heads) * 8),
                    fill(o, tokens, o->heads),
                    room(q),
                    room(k),
                    room(k)};
}

static gyre_attention_args arguments(const options *o, const memory *m, int64_t tokens, const gyre_encoding *encoding) {
    gyre_attention_args a = GYRE_INIT(gyre_attention_args);
    a.encoding = encoding;
    a.causal = GYRE_CAUSAL_BY_POSITION;
    a.q = gyre_cdense(m->q, o->dtype, 1, tokens, o->heads, o->dim);
    a.k = gyre_cdense(m->k, o->dtype, 1, tokens, o->kv_heads, o->dim);
    a.v = gyre_cdense(m->v, o->dtype, 1, tokens, o->kv_heads, o->dim);
    a.out = gyre_dense(m->out, GYRE_DTYPE_F32, 1, tokens, o->heads, o->dim);
    a.lse = gyre_dense(m->lse, GYRE_DTYPE_F64, 1, tokens, o->heads, 1);
    return a;
}

typedef struct gradient_views {
    gyre_cview dout;
    gyre_view dqkv[3];
} gradient_views;

static gradient_views gradients(const options *o, const memory *m, int64_t tokens) {
    return (gradient_views){gyre_cdense(m->dout, o->dtype, 1, tokens, o->heads, o->dim),
                            {gyre_dense(m->dq, GYRE_DTYPE_F32, 1, tokens, o->heads, o->dim),
                             gyre_dense(m->dk, GYRE_DTYPE_F32, 1, tokens, o->kv_heads, o->dim),
                             gyre_dense(m->dv, GYRE_DTYPE_F32, 1, tokens, o->kv_heads, o->dim)}};
}

/* -- a slower network -- */
typedef struct slow_link {
    gyre_transport inner;
    double bytes_a_second, latency;
    double free_at;                          /* when the link has sent all before */
    double done_at[GYRE_TRANSPORT_CHANNELS]; /* not before */
} slow_link;

static gyre_status slow_begin(void *ctx, int channel, const gyre_exchange *e) {
    slow_link *link = ctx;
    const double now = seconds(CLOCK_MONOTONIC), bytes = (double)(e->sent > e->received ? e->sent : e->received);
    link->free_at = (link->free_at > now ? link->free_at : now) + bytes / link->bytes_a_second;
    link->done_at[channel] = link->free_at + link->latency;
    return link->inner.begin(link->inner.ctx, channel, e);
}

static gyre_status slow_progress(void *ctx, int channel, int *done) {
    slow_link *link = ctx;
    const gyre_status status = link->inner.progress(link->inner.ctx, channel, done);
    if (seconds(CLOCK_MONOTONIC) < link->done_at[channel]) *done = 0;
    return status;
}

static gyre_status slow_wait(void *ctx, int channel) {
    slow_link *link = ctx;
    const gyre_status status = link->inner.wait(link->inner.ctx, channel);
    const double left = link->done_at[channel] - seconds(CLOCK_MONOTONIC);
    const struct timespec nap = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
    if (left > 0) nanosleep(&nap, NULL);
    return status;
}

static gyre_transport slow_transport(slow_link *link, const options *o, const gyre_transport *inner) {
    gyre_transport t = *inner;
    if (o->mbits == 0) return t;
    *link = (slow_link){.inner = *inner, .bytes_a_second = o->mbits * 125000.0, .latency = o->microseconds * 1e-6};
    t.ctx = link, t.begin = slow_begin, t.wait = slow_wait, t.progress = slow_progress;
    return t;
}

/* out = the gradients as calls take them. */
static gyre_attention_gradients all_of(const gradient_views *g) {
    gyre_attention_gradients out = GYRE_INIT(gyre_attention_gradients);
    out.dout = g->dout;
    out.dq = g->dqkv[0], out.dk = g->dqkv[1], out.dv = g->dqkv[2];
    return out;
}

/* -- one rank -- */
static void run_alone(const options *o, const gyre_encoding *encoding, double took[2], double cpu[2]) {
    static memory m;
    static void *scratch;
    static size_t bytes[2];
    if (!m.q) m = make_memory(o, o->tokens);
    const gyre_attention_args a = arguments(o, &m, o->tokens, encoding);
    const gradient_views g = gradients(o, &m, o->tokens);
    const gyre_attention_gradients own = all_of(&g);
    for (int i = 0; i < 2; i++)
        check(gyre_attention_scratch(&a, i, NULL, &bytes[i], &err));
    if (!scratch) scratch = room(bytes[0] > bytes[1] ? bytes[0] : bytes[1]);
    const double begun = seconds(CLOCK_MONOTONIC), cpu_begun = seconds(CLOCK_PROCESS_CPUTIME_ID);
    check(gyre_attention(&a, (gyre_scratch){scratch, bytes[0]}, NULL, &err));
    const double between = seconds(CLOCK_MONOTONIC);
    cpu[0] = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_begun;
    check(gyre_attention_gradient(&a, &own, (gyre_scratch){scratch, bytes[1]}, NULL, &err));
    took[0] = between - begun;
    took[1] = seconds(CLOCK_MONOTONIC) - begun;
    cpu[1] = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_begun;
}

/* -- all ranks -- */
typedef struct together {
    gyre_ring_args ring;
    gyre_attention_args args;
    gradient_views g;
    memory m;
    void *scratch;
    size_t bytes[2];
} together;

static void wait_for_all(const gyre_transport *t) { /* without keeping a processor busy */
    const struct timespec nap = {0, 1000000};
    MPI_Request request;
    int done = 0;
    (void)t;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (MPI_Status status; !done;) {
        MPI_Test(&request, &done, &status);
        if (!done) nanosleep(&nap, NULL);
    }
}

static void run_together(together *c, double took[2], double cpu[2], gyre_ring_timeline times[2]) {
    const gyre_attention_gradients own = all_of(&c->g);
    double begun = seconds(CLOCK_MONOTONIC);
    const double start = begun, cpu_start = seconds(CLOCK_PROCESS_CPUTIME_ID);
    c->ring.timeline = &times[0];
    check(gyre_ring_attention(&c->ring, (gyre_scratch){c->scratch, c->bytes[0]}, NULL, &err));
    MPI_Barrier(MPI_COMM_WORLD);
    took[0] = seconds(CLOCK_MONOTONIC) - begun;
    cpu[0] = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
    c->ring.timeline = &times[1];
    if (c->ring.pass == GYRE_RING_QUERIES) return;
    check(gyre_ring_attention_gradient(&c->ring, &own, (gyre_scratch){c->scratch, c->bytes[1]}, NULL, &err));
    MPI_Barrier(MPI_COMM_WORLD);
    took[1] = seconds(CLOCK_MONOTONIC) - start;
    cpu[1] = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_ratio(const char *what, double *one, double *all, int rounds) {
    double ratio[MOST_ROUNDS];
    for (int i = 0; i < rounds; i++)
        ratio[i] = one[i] / all[i];
    qsort(ratio, (size_t)rounds, sizeof *ratio, by_size);
    qsort(one, (size_t)rounds, sizeof *one, by_size);
    qsort(all, (size_t)rounds, sizeof *all, by_size);
    printf("%-22s one rank %7.3f s  all %7.3f s  ratio: of the fastest %.2f, median of rounds %.2f\n", what, one[0], all[0],
           one[0] / all[0], ratio[rounds / 2]);
}

static void print_times(const char *what, const gyre_ring_timeline *t, const gyre_transport *transport) {
    for (int64_t r = 0; r < transport->ranks; r++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (r == transport->rank && t->seconds > 0)
            printf("%s, rank %lld: %.3f s = computing %.3f + moving %.3f + waiting %.3f + agreeing %.4f + other %.3f; "
                   "sent %.1f MB; in flight %.3f s, hidden %.1f%%\n",
                   what, (long long)r, t->seconds, t->computing, t->moving, t->waiting, t->agreeing,
                   t->seconds - t->computing - t->moving - t->waiting - t->agreeing, (double)t->sent / 1e6, t->in_flight,
                   100 * t->hidden);
        fflush(stdout);
    }
}

static void pin(int64_t rank) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((int)(rank % sysconf(_SC_NPROCESSORS_ONLN)), &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void bench(const options *o, const gyre_transport *t) {
    const gyre_config config = {.size = sizeof config, .kind = GYRE_KIND_ROPE, .head_dim = o->dim};
    gyre_batch_config batch_config = GYRE_INIT(gyre_batch_config);
    gyre_shard_config shard_config = GYRE_INIT(gyre_shard_config);
    gyre_shard_info info = GYRE_INIT(gyre_shard_info);
    gyre_encoding *encoding;
    gyre_batch *batch;
    gyre_shards *shards;
    double one[2][MOST_ROUNDS], all[2][MOST_ROUNDS], work[2][MOST_ROUNDS], own[2][MOST_ROUNDS], took[2] = {0}, cpu[2] = {0};
    gyre_ring_timeline times[2] = {GYRE_INIT(gyre_ring_timeline), GYRE_INIT(gyre_ring_timeline)};
    together c = {.ring = GYRE_INIT(gyre_ring_args)};
    batch_config.documents = 1, batch_config.lengths = &o->tokens;
    shard_config.layout = (gyre_shard_layout)o->layout, shard_config.ranks = t->ranks;
    shard_config.causal = GYRE_CAUSAL_BY_POSITION;
    check(gyre_encoding_create(&encoding, &config, NULL, &err));
    check(gyre_batch_create(&batch, &batch_config, NULL, &err));
    check(gyre_shards_create(&shards, batch, &shard_config, NULL, &err));
    check(gyre_shards_get(shards, t->rank, &info));
    c.m = make_memory(o, info.tokens);
    c.args = arguments(o, &c.m, info.tokens, encoding);
    c.g = gradients(o, &c.m, info.tokens);
    c.ring.transport = t, c.ring.shards = shards, c.ring.attention = &c.args, c.ring.pass = (gyre_ring_pass)o->pass;
    check(gyre_ring_scratch(&c.ring, 0, NULL, &c.bytes[0], &err));
    if (o->pass != GYRE_RING_QUERIES) check(gyre_ring_scratch(&c.ring, 1, NULL, &c.bytes[1], &err));
    c.scratch = room(c.bytes[0] > c.bytes[1] ? c.bytes[0] : c.bytes[1]);
    const int parts = o->pass == GYRE_RING_QUERIES ? 1 : 2;
    for (int i = 0; i < o->rounds; i++) {
        if (t->rank == 0 && o->alone) run_alone(o, encoding, took, cpu);
        for (int p = 0; p < 2; p++)
            one[p][i] = took[p], own[p][i] = cpu[p];
        wait_for_all(t);
        run_together(&c, took, cpu, times);
        for (int p = 0; p < 2; p++)
            all[p][i] = took[p], work[p][i] = cpu[p];
    }
    if (t->rank == 0) {
        printf("%lld tokens, %lld heads, %lld of keys, %lld channels, %s; %lld ranks; imbalance %.3f; scratch of rank 0: "
               "%.1f MB forward, %.1f MB gradient\n",
               (long long)o->tokens, (long long)o->heads, (long long)o->kv_heads, (long long)o->dim,
               o->dtype == GYRE_DTYPE_F32 ? "f32" : "bf16", (long long)t->ranks, gyre_shards_imbalance(shards),
               (double)c.bytes[0] / 1e6, (double)c.bytes[1] / 1e6);
        if (o->alone) {
            print_ratio("forward", one[0], all[0], o->rounds);
            if (parts > 1) print_ratio("forward and gradient", one[1], all[1], o->rounds);
            print_ratio("forward, cpu time", own[0], work[0], o->rounds);
            if (parts > 1) print_ratio("both, cpu time", own[1], work[1], o->rounds);
        }
    }
    print_times("forward", &times[0], t);
    if (parts > 1) print_times("gradient", &times[1], t);
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    if (t->rank == t->ranks - 1) printf("rank %lld: most memory %.1f MB\n", (long long)t->rank, (double)use.ru_maxrss / 1e3);
    gyre_shards_free(shards);
    gyre_batch_free(batch);
    gyre_encoding_free(encoding);
}

/* -- a plan -- */
static gyre_status no_exchange(void *ctx, int channel, const gyre_exchange *exchange) {
    (void)ctx, (void)channel, (void)exchange;
    return GYRE_EIO;
}

static gyre_status no_wait(void *ctx, int channel) {
    (void)ctx, (void)channel;
    return GYRE_EIO;
}

static void print_plan(const options *o) {
    static float elsewhere[16]; /* no element is looked at */
    const memory m = {elsewhere, elsewhere, elsewhere, elsewhere, elsewhere, elsewhere, elsewhere, elsewhere, elsewhere};
    const gyre_config config = {.size = sizeof config, .kind = GYRE_KIND_ROPE, .head_dim = o->dim};
    gyre_batch_config batch_config = GYRE_INIT(gyre_batch_config);
    gyre_shard_config shard_config = GYRE_INIT(gyre_shard_config);
    gyre_shard_info info = GYRE_INIT(gyre_shard_info);
    gyre_transport transport = GYRE_INIT(gyre_transport);
    gyre_ring_args ring = GYRE_INIT(gyre_ring_args);
    gyre_encoding *encoding;
    gyre_batch *batch;
    gyre_shards *shards;
    transport.ranks = o->plan, transport.begin = no_exchange, transport.wait = no_wait;
    batch_config.documents = 1, batch_config.lengths = &o->tokens;
    shard_config.layout = (gyre_shard_layout)o->layout, shard_config.ranks = o->plan;
    shard_config.causal = GYRE_CAUSAL_BY_POSITION;
    check(gyre_encoding_create(&encoding, &config, NULL, &err));
    check(gyre_batch_create(&batch, &batch_config, NULL, &err));
    check(gyre_shards_create(&shards, batch, &shard_config, NULL, &err));
    check(gyre_shards_get(shards, 0, &info));
    const gyre_attention_args args = arguments(o, &m, info.tokens, encoding);
    ring.transport = &transport, ring.shards = shards, ring.attention = &args, ring.pass = (gyre_ring_pass)o->pass;
    for (int gradient = 0; gradient < 2 - (o->pass == GYRE_RING_QUERIES); gradient++) {
        gyre_ring_plan plan = GYRE_INIT(gyre_ring_plan);
        const double size = (double)gyre_dtype_size(o->dtype);
        check(gyre_ring_get_plan(&ring, gradient, NULL, &plan, &err));
        printf("%s: scratch %.1f MiB, sent %.4g MB, %.2f blocks of keys and values to each other rank\n",
               gradient ? "gradient" : "forward", (double)plan.scratch / (1 << 20), (double)plan.sent / 1e6,
               (double)plan.sent / (2 * size * (double)(info.tokens * o->kv_heads * o->dim)) / (o->plan - 1));
    }
    gyre_shards_free(shards);
    gyre_batch_free(batch);
    gyre_encoding_free(encoding);
}

/* Moves *at past a value.  out = 1: there is such an option. */
static int read_option(options *o, const char *name, int *at, const char *value) {
    struct {
        const char *name;
        int64_t *number;
        int *choice;
    } known[] = {{"--tokens", &o->tokens, NULL}, {"--heads", &o->heads, NULL},   {"--kv-heads", &o->kv_heads, NULL},
                 {"--dim", &o->dim, NULL},       {"--layout", NULL, &o->layout}, {"--pass", NULL, &o->pass},
                 {"--rounds", NULL, &o->rounds}, {"--mbits", NULL, &o->mbits},   {"--microseconds", NULL, &o->microseconds},
                 {"--plan", NULL, &o->plan}};
    if (strcmp(name, "--bf16") == 0) return o->dtype = GYRE_DTYPE_BF16, 1;
    if (strcmp(name, "--f16") == 0) return o->dtype = GYRE_DTYPE_F16, 1;
    if (strcmp(name, "--not-alone") == 0) return o->alone = 0, 1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(name, known[i].name) != 0) continue;
        if (known[i].number) *known[i].number = strtoll(value, NULL, 10);
        if (known[i].choice) *known[i].choice = (int)strtol(value, NULL, 10);
        ++*at;
        return o->rounds >= 1 && o->rounds <= MOST_ROUNDS;
    }
    return 0;
}

int main(int argc, char **argv) {
    int provided;
    gyre_mpi *mpi;
    gyre_mpi_config config = GYRE_INIT(gyre_mpi_config);
    options o = {16384, 4, 2, 64, GYRE_SHARD_ZIGZAG, GYRE_RING_KEYS, 3, 1, 0, 0, 0, GYRE_DTYPE_F32};
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    check(gyre_mpi_create(&mpi, &config, &err));
    const gyre_transport t = gyre_mpi_transport(mpi);
    for (int i = 1; i < argc; i++)
        if (!read_option(&o, argv[i], &i, i + 1 < argc ? argv[i + 1] : "0")) return 2;
    slow_link link;
    if (o.plan > 1) print_plan(&o);
    const gyre_transport through = slow_transport(&link, &o, &t);
    pin(t.rank);
    if (o.plan <= 1) bench(&o, &through);
    gyre_mpi_free(mpi);
    MPI_Finalize();
    return 0;
}
