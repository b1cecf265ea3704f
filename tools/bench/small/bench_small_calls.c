/* bench_small_calls.c: gyre bench call: what a call costs beside its work.  One query over few keys and the rotation of one
 * token, each as a plain call, as a prepared one, and as a plain loop. */
#include "tools/bench/bench.h"
#include "tools/bench/small/bench_plain_loop.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HEADS = 8, MOST_DIM = 256, MOST_KEYS = 1024, POSITION = 1000, TRY_NS = 300000 };
static const int64_t dims[] = {8, 16, 32, 64, 128, 256}, key_counts[] = {1, 2, 4, 16, 64, 256, 1024};
enum { DIMS = sizeof dims / sizeof *dims, KEY_COUNTS = sizeof key_counts / sizeof *key_counts };

enum { PLAIN_CALL, PREPARED, LOOP, WAYS };

/* A call in each of its ways. */
typedef struct small_call {
    bench_plain_attention loop;
    gyre_encoding *rope; /* NULL: attention */
    gyre_attention_args args;
    gyre_scratch scratch;
    gyre_prepared_attention *attention;
    gyre_prepared_rotation *rotation;
    float cosine[MOST_DIM / 2], sine[MOST_DIM / 2];
} small_call;

/* Of all calls. */
typedef struct small_memory {
    float *q, *k, *v, *out, *weights;
    void *scratch;
    size_t bytes;
} small_memory;

static const gyre_positions at = {.base = POSITION};

/* -- one call -- */

static gyre_status run_attention(const small_call *c, int way) {
    if (way == PLAIN_CALL) return gyre_attention(&c->args, c->scratch, NULL, NULL);
    if (way == PREPARED)
        return gyre_prepared_attention_run(c->attention,
                                           GYRE_ARGS(gyre_attention_memory, .q = c->loop.q, .k = c->loop.k, .v = c->loop.v,
                                                     .out = c->loop.out, .keys = c->loop.keys, .q_base = c->loop.keys - 1),
                                           NULL);
    bench_plain_attend(&c->loop);
    return GYRE_OK;
}

/* Rotates q to out, or out in place; both rotate as many channels. */
static gyre_status run_rotation(const small_call *c, int way) {
    const int64_t dim = c->loop.dim;
    const gyre_view x = gyre_dense(c->loop.out, GYRE_DTYPE_F32, 1, 1, HEADS, dim);
    if (way == PLAIN_CALL)
        return gyre_rotate(c->rope, GYRE_ARGS(gyre_rotate_args, .positions = &at, .in = gyre_const(x), .out = x), NULL,
                           NULL);
    if (way == PREPARED) return gyre_prepared_rotation_run(c->rotation, c->loop.out, c->loop.out, POSITION, NULL);
    bench_plain_rotate(c->loop.out, HEADS, dim, c->cosine, c->sine);
    return GYRE_OK;
}

static gyre_status run(const small_call *c, int way) {
    return c->rope ? run_rotation(c, way) : run_attention(c, way);
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* -- measuring -- */

/* best[way] = the least processor time of a call, in nanoseconds, over quiet rounds of tries. */
static gyre_status measure(const small_call *c, int64_t limit, double best[WAYS], bench_quiet *quiet) {
    const double work = 200 + (double)(c->rope ? 1 : c->loop.keys) * HEADS * (double)c->loop.dim / 8; /* about, in ns */
    const int64_t count = 1 + (int64_t)(TRY_NS / work);
    double ns[WAYS][BENCH_MAX_ROUNDS];
    bench_rounds rounds = bench_rounds_begin(bench_this_core(), limit);
    gyre_status status = GYRE_OK;
    while (!status && bench_rounds_next(&rounds)) {
        for (int way = 0; way < WAYS; way++) {
            const double started = seconds_now();
            for (int64_t i = 0; i < count && !status; i++)
                status = run(c, way);
            ns[way][rounds.count] = 1e9 * (seconds_now() - started) / (double)count;
        }
        bench_rounds_end(&rounds);
    }
    for (int way = 0; way < WAYS; way++)
        best[way] = bench_rounds_least(&rounds, ns[way]);
    *quiet = bench_rounds_quiet(&rounds);
    return status;
}

static gyre_status open_attention(small_call *c, gyre_error *err) {
    const int64_t keys = c->loop.keys, dim = c->loop.dim;
    c->args = (gyre_attention_args)GYRE_INIT(gyre_attention_args);
    c->args.q = gyre_cdense(c->loop.q, GYRE_DTYPE_F32, 1, 1, HEADS, dim);
    c->args.k = gyre_cdense(c->loop.k, GYRE_DTYPE_F32, 1, keys, HEADS, dim);
    c->args.v = gyre_cdense(c->loop.v, GYRE_DTYPE_F32, 1, keys, HEADS, dim);
    c->args.out = gyre_dense(c->loop.out, GYRE_DTYPE_F32, 1, 1, HEADS, dim);
    c->args.q_pos.base = keys - 1;
    return gyre_prepared_attention_create(&c->attention, &c->args, NULL, NULL, err);
}

static gyre_status open_rotation(small_call *c, gyre_error *err) {
    const gyre_view x = gyre_dense(NULL, GYRE_DTYPE_F32, 1, 1, HEADS, c->loop.dim);
    gyre_status status = gyre_rope_create(&c->rope, c->loop.dim, 10000, GYRE_LAYOUT_HALF, err);
    for (int64_t i = 0; i < c->loop.dim / 2; i++)
        c->cosine[i] = (float)cos(0.1 * (double)i), c->sine[i] = (float)sin(0.1 * (double)i);
    if (status) return status;
    return gyre_prepared_rotation_create(&c->rotation, c->rope,
                                         GYRE_ARGS(gyre_rotate_args, .positions = &at, .in = gyre_const(x), .out = x), NULL,
                                         NULL, err);
}

static void close_call(small_call *c) {
    gyre_prepared_attention_free(c->attention);
    gyre_prepared_rotation_free(c->rotation);
    gyre_encoding_free(c->rope);
}

/* -- rows -- */

static const bench_column columns[] = {{"operation", "operation", -10, 0, 0},
                                       {"head_dim", "channels", 8, 0, 0},
                                       {"keys", "keys", 6, 0, 0},
                                       {"loop_ns", "loop ns", 10, 0, 0},
                                       {"prepared_ns", "prepared", 10, 0, 0},
                                       {"call_ns", "plain call", 10, 0, 0},
                                       {"ratio", "ratio", 7, 2, 0}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static int print(const bench_options *o, const small_call *c, const double best[WAYS], const bench_quiet *quiet) {
    char note[80];
    json_t *row =
        json_pack("{s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:o}", "bench", "call", "operation",
                  c->rope ? "rotate" : "attention", "head_dim", (json_int_t)c->loop.dim, "keys",
                  (json_int_t)(c->rope ? 0 : c->loop.keys), "loop_ns", best[LOOP], "prepared_ns", best[PREPARED], "call_ns",
                  best[PLAIN_CALL], "ratio", best[PREPARED] / best[LOOP], "goal", bench_goal("ratio", 1.2));
    return bench_print_row(o, row, quiet, columns, COLUMNS, bench_goal_note(row, quiet, note));
}

static int run_case(const bench_options *o, const small_memory *m, int rotates, int64_t dim, int64_t keys) {
    gyre_error err = {0, ""};
    double best[WAYS] = {0};
    bench_quiet quiet = {0};
    small_call c = {.loop = {keys, HEADS, dim, m->q, m->k, m->v, m->out, m->weights}, .scratch = {m->scratch, m->bytes}};
    gyre_status status = rotates ? open_rotation(&c, &err) : open_attention(&c, &err);
    memcpy(m->out, m->q, (size_t)(HEADS * dim) * sizeof *m->q);
    if (!status) status = measure(&c, o->rounds, best, &quiet);
    const int printed = status ? CLI_FAILED : print(o, &c, best, &quiet);
    close_call(&c);
    return status ? cli_fail_error(&err) : printed;
}

static int run_all(const bench_options *o, const small_memory *m) {
    int status = 0;
    if (!o->common.json) {
        fprintf(cli_stdout(), "One query and one token in %d heads of floats, one thread, in the caches.\n", HEADS);
        bench_print_titles(columns, COLUMNS, "goal");
    }
    for (int d = 0; d < DIMS && !status; d++)
        for (int k = 0; k < KEY_COUNTS && !status; k++)
            status = run_case(o, m, 0, dims[d], key_counts[k]);
    for (int d = 0; d < DIMS && !status; d++)
        status = run_case(o, m, 1, dims[d], 1);
    return status ? status : bench_flush();
}

static float *alloc_random(int64_t count, uint64_t seed) {
    float *out = malloc((size_t)count * sizeof *out);
    for (int64_t i = 0; out && i < count; i++)
        out[i] = -1 + 2 * (float)bench_random(&seed);
    return out;
}

static gyre_status most_scratch(size_t *bytes, gyre_error *err) {
    small_call c = {.loop = {MOST_KEYS, HEADS, MOST_DIM, NULL, NULL, NULL, NULL, NULL}};
    const gyre_status status = open_attention(&c, err);
    close_call(&c);
    return status ? status : gyre_attention_scratch(&c.args, 0, NULL, bytes, err);
}

int bench_small_calls(const bench_options *o) {
    const int64_t most = (int64_t)MOST_KEYS * HEADS * MOST_DIM;
    gyre_error err = {0, ""};
    small_memory m = {.q = alloc_random(HEADS * MOST_DIM, 1),
                      .k = alloc_random(most, 2),
                      .v = alloc_random(most, 3),
                      .out = alloc_random(HEADS * MOST_DIM, 4),
                      .weights = alloc_random(MOST_KEYS, 5)};
    gyre_status status = most_scratch(&m.bytes, &err);
    if (!status && (!m.q || !m.k || !m.v || !m.out || !m.weights || posix_memalign(&m.scratch, 64, m.bytes)))
        status = gyre_fail(&err, GYRE_ENOMEM, "keys: out of memory (gyre bench)");
    const int out = status ? cli_fail_error(&err) : run_all(o, &m);
    free(m.q), free(m.k), free(m.v), free(m.out), free(m.weights), free(m.scratch);
    return out;
}
