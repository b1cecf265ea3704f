/* bench_rotate.c: gyre bench rotate: turning queries in place, against multiplying the same bytes by a constant in place.
 *
 * The multiplication is what no rotation can beat: every byte is read and written once.  Both are measured in turn, in the
 * same memory's twin, so that a slow moment of the machine meets both. */
#include "bench.h"
#include "bench_limit.h"
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { HEADS = 32, HEAD_DIM = 128, FIRST = 1000, TYPES = 4, LAYOUTS = 3, SIZES = 4, PIECE = 1 << 16 /* floats */ };
static const gyre_dtype types[TYPES] = {GYRE_F32, GYRE_F16, GYRE_BF16, GYRE_F64};
static const char *const type_names[TYPES] = {"f32", "f16", "bf16", "f64"};
static const gyre_layout layouts[LAYOUTS] = {GYRE_HALF, GYRE_INTERLEAVED, GYRE_INTERLEAVED_TO_HALF};
static const char *const layout_names[LAYOUTS] = {"half", "interleaved", "interleaved-to-half"};
static const int64_t sizes[SIZES] = {1, 16, 512, 4096};

/* -- the limit --------------------------------------------------------------------------------------------------------- */
typedef struct scaling {
    void *x;
    gyre_dtype dtype;
    float by;
    int64_t n; /* elements */
} scaling;

static void multiply_piece(void *arg, int64_t piece) {
    const scaling *s = arg;
    const int64_t first = piece * PIECE, left = s->n - first;
    bench_multiply((char *)s->x + (size_t)first * gyre_dtype_size(s->dtype), s->dtype, left < PIECE ? left : PIECE, s->by);
}

/* By 1/2 and by 2 in turn: numbers stay what they are, and none grows too small for the processor's fast paths. */
static void limit_once(scaling *s, const gyre_exec *exec) {
    s->by = s->by == 2 ? 0.5f : 2;
    if (exec->width > 1 && (size_t)s->n * gyre_dtype_size(s->dtype) >= (size_t)1 << 20)
        exec->run(exec->ctx, multiply_piece, s, (s->n + PIECE - 1) / PIECE);
    else
        bench_multiply(s->x, s->dtype, s->n, s->by);
}

/* -- one row of the table ---------------------------------------------------------------------------------------------- */
typedef struct rotate_case {
    int type, layout;
    int64_t tokens, threads;
} rotate_case;
typedef struct rotate_result {
    /* Medians; ratios are limit over rotation, round by round.  bytes: the multiplication on the same bytes taken for
     * floats, which spares 16-bit types the widening. */
    double ns, limit_ns, of_limit, bytes_ns, of_bytes;
    int64_t bytes;
} rotate_result;

typedef struct rotate_run {
    gyre_encoding *encoding;
    gyre_view view;
    scaling limit, floats; /* one memory */
    const gyre_exec *exec;
} rotate_run;

static gyre_status turn_once(const rotate_run *r) {
    const gyre_positions positions = {NULL, GYRE_I64, FIRST, 0, 0, 0, 0}; /* at 0 there is nothing to turn */
    const gyre_cview in = gyre_const(r->view);
    return gyre_rotate(r->encoding, GYRE_FORWARD, GYRE_QUERY, &positions, &in, &r->view, r->exec);
}

/* Seconds of one call, over as many as take about a millisecond. */
static double time_turns(const rotate_run *r, int64_t times) {
    const double begun = bench_seconds();
    for (int64_t i = 0; i < times; i++)
        if (turn_once(r) != GYRE_OK) return NAN;
    return (bench_seconds() - begun) / (double)times;
}
static double time_limit(scaling *limit, const gyre_exec *exec, int64_t times) {
    const double begun = bench_seconds();
    for (int64_t i = 0; i < times / 2 * 2 + 2; i++) /* an even number: what is halved is doubled again */
        limit_once(limit, exec);
    return (bench_seconds() - begun) / (double)(times / 2 * 2 + 2);
}

static void measure(rotate_run *r, int64_t rounds, rotate_result *out) {
    enum { SERIES = 5 };
    double s[SERIES][BENCH_MOST_ROUNDS];
    (void)time_turns(r, 3);
    const double once = time_turns(r, 3), enough = 2e-3;
    const int64_t times = once < enough ? (int64_t)(enough / once) + 1 : 1;
    (void)time_limit(&r->limit, r->exec, times);
    for (int64_t i = 0; i < rounds; i++) {
        s[0][i] = time_turns(r, times);
        s[1][i] = time_limit(&r->limit, r->exec, times);
        s[2][i] = s[1][i] / s[0][i];
        s[3][i] = time_limit(&r->floats, r->exec, times);
        s[4][i] = s[3][i] / s[0][i];
    }
    out->ns = 1e9 * bench_median(s[0], rounds);
    out->limit_ns = 1e9 * bench_median(s[1], rounds);
    out->of_limit = bench_median(s[2], rounds);
    out->bytes_ns = 1e9 * bench_median(s[3], rounds);
    out->of_bytes = bench_median(s[4], rounds);
}

/* Huge pages for both, or for neither. */
static void *take(size_t bytes) {
    const size_t page = (size_t)2 << 20, whole = (bytes + page - 1) / page * page;
    void *memory = aligned_alloc(page, whole);
#ifdef MADV_HUGEPAGE
    if (memory) (void)madvise(memory, whole, MADV_HUGEPAGE);
#endif
    return memory;
}

/* Numbers near 1 in any of the types, and as floats too. */
static void fill(void *data, gyre_dtype dtype, int64_t n) {
    const uint16_t half = dtype == GYRE_F16 ? 0x3c00 : 0x3f80;
    for (int64_t i = 0; i < n; i++) {
        const uint16_t bits = (uint16_t)(half + i % 64);
        const double number = 1 + (double)(i % 64) / 64;
        if (dtype == GYRE_F64)
            ((double *)data)[i] = number;
        else if (dtype == GYRE_F32)
            ((float *)data)[i] = (float)number;
        else
            ((uint16_t *)data)[i] = bits;
    }
}

static gyre_status create(rotate_run *r, const rotate_case *c, gyre_error *err) {
    gyre_config config = GYRE_CONFIG_INIT;
    config.kind = GYRE_ROPE;
    config.head_dim = HEAD_DIM;
    config.rope.layout = layouts[c->layout];
    config.rope.table_positions = FIRST + sizes[SIZES - 1];
    const int64_t elements = c->tokens * HEADS * HEAD_DIM;
    const size_t bytes = (size_t)elements * gyre_dtype_size(types[c->type]);
    void *turned = take(bytes), *scaled = take(bytes);
    r->view = gyre_dense(turned, types[c->type], 1, c->tokens, HEADS, HEAD_DIM);
    r->limit = (scaling){scaled, types[c->type], 2, elements};
    r->floats = (scaling){scaled, GYRE_F32, 2, (int64_t)(bytes / sizeof(float))};
    r->encoding = NULL;
    if (!turned || !scaled) return cli_error(err, GYRE_ENOMEM, "rotate: out of memory (gyre bench)");
    fill(turned, types[c->type], elements);
    fill(scaled, types[c->type], elements);
    return gyre_encoding_create(&r->encoding, &config, NULL, err);
}

static gyre_status run_case(const rotate_case *c, const gyre_exec *exec, int64_t rounds, rotate_result *out,
                            gyre_error *err) {
    rotate_run r = {.exec = exec};
    gyre_status status = create(&r, c, err);
    out->bytes = r.floats.n * (int64_t)sizeof(float);
    if (status == GYRE_OK) measure(&r, rounds, out);
    if (status == GYRE_OK && isnan(out->ns)) status = cli_error(err, GYRE_EINVAL, "rotate: the call failed (gyre bench)");
    gyre_encoding_free(r.encoding);
    free(r.view.data);
    free(r.limit.x);
    return status;
}

/* -- results -------------------------------------------------------------------------------------------------------------
 */
static int print_case(const bench_options *o, const rotate_case *c, const rotate_result *r) {
    const double moved = 2 * (double)r->bytes; /* read and written */
    if (o->common.json)
        return cli_json_write(stdout, json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "bench", "rotate",
                                                "dtype", type_names[c->type], "layout", layout_names[c->layout], "tokens",
                                                (json_int_t)c->tokens, "threads", (json_int_t)c->threads, "ns", r->ns,
                                                "gbps", moved / r->ns, "limit_gbps", moved / r->limit_ns, "of_limit",
                                                r->of_limit, "bytes_gbps", moved / r->bytes_ns, "of_bytes", r->of_bytes));
    printf("%-5s %-20s %6lld %7lld %12.0f %9.1f %9.1f %9.2f %9.1f %9.2f\n", type_names[c->type], layout_names[c->layout],
           (long long)c->tokens, (long long)c->threads, r->ns, moved / r->ns, moved / r->limit_ns, r->of_limit,
           moved / r->bytes_ns, r->of_bytes);
    return fflush(stdout) ? cli_fail("standard output: writing failed (gyre bench)") : 0;
}

static int run_threads(const bench_options *o, int64_t threads) {
    gyre_error err = {0, ""};
    cli_options common = o->common;
    gyre_pool *pool = NULL;
    gyre_exec exec;
    common.threads = (int)threads;
    int status = cli_pool_open(&common, &pool, &exec);
    for (int type = 0; type < TYPES && !status; type++)
        for (int layout = 0; layout < LAYOUTS && !status; layout++)
            for (int size = 0; size < SIZES && !status; size++) {
                const rotate_case c = {type, layout, sizes[size], threads};
                rotate_result result;
                status = run_case(&c, &exec, o->rounds, &result, &err) ? cli_fail_error(&err) : print_case(o, &c, &result);
            }
    gyre_pool_free(pool);
    return status;
}

int bench_rotate(const bench_options *o) {
    if (!o->common.json)
        printf("%d heads of %d channels, turned in place.  limit: the same numbers multiplied by a constant in place, in "
               "their type;\nbytes: the same bytes multiplied as if they were floats.  GB/s read and written together\n\n"
               "%-5s %-20s %6s %7s %12s %9s %9s %9s %9s %9s\n",
               HEADS, HEAD_DIM, "type", "layout", "tokens", "threads", "ns a call", "GB/s", "limit", "of limit", "bytes",
               "of bytes");
    if (o->common.threads) return run_threads(o, o->common.threads);
    const int status = run_threads(o, 1);
    return status ? status : run_threads(o, 2);
}
