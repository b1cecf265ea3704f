/* bench_in_place.c: times calls against a multiplication in place. */
#include "tools/bench/bench_in_place.h"

#include "tools/bench/bench_stream_scale.h"
#include "tools/options/value_names.h"
#include <math.h>
#include <stdlib.h>

enum { CHUNK = 1 << 16 /* elements */ };
const gyre_dtype bench_types[BENCH_TYPES] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_F64};
const int64_t bench_sizes[BENCH_SIZES] = {1, 16, 512, 4096};

/* -- the limit -- */
typedef struct scale_job {
    void *x;
    gyre_dtype dtype;
    float by;
    int64_t n; /* elements */
} scale_job;

static void scale_chunk(void *arg, int64_t chunk) {
    const scale_job *s = arg;
    const int64_t first = chunk * CHUNK, left = s->n - first;
    bench_stream_scale((char *)s->x + (size_t)first * gyre_dtype_size(s->dtype), s->dtype, left < CHUNK ? left : CHUNK,
                       s->by);
}

/* Multiplies by 1/2 and by 2 alternately, so that numbers stay in the range of the processor's fast paths. */
static void run_limit_once(scale_job *s, const gyre_exec *exec) {
    s->by = s->by == 2 ? 0.5f : 2;
    if (exec->concurrency > 1 && (size_t)s->n * gyre_dtype_size(s->dtype) >= (size_t)1 << 20)
        exec->run(exec->ctx, scale_chunk, s, (s->n + CHUNK - 1) / CHUNK);
    else
        bench_stream_scale(s->x, s->dtype, s->n, s->by);
}

/* -- measuring -- */
/* out = seconds per call, over `times` calls; NAN if one failed. */
static double time_calls(const bench_in_place *r, int64_t times) {
    const double started = cli_seconds();
    for (int64_t i = 0; i < times; i++)
        if (r->call(r)) return NAN;
    return (cli_seconds() - started) / (double)times;
}
/* times: even, because each halving is undone by a doubling. */
static double time_limit(scale_job *limit, const gyre_exec *exec, int64_t times) {
    const double started = cli_seconds();
    for (int64_t i = 0; i < times; i++)
        run_limit_once(limit, exec);
    return (cli_seconds() - started) / (double)times;
}

static void measure(const bench_in_place *r, scale_job *limit, int64_t limit_rounds, bench_in_place_result *out) {
    enum { SERIES = 5, UNTIMED = 2 };
    double s[SERIES][BENCH_MAX_ROUNDS];
    scale_job floats = {limit->x, GYRE_DTYPE_F32, 2, out->bytes / (int64_t)sizeof(float)};
    (void)time_calls(r, 3);
    const double once = time_calls(r, 3), enough = 2e-3;
    const int64_t times = once < enough ? (int64_t)(enough / once) / 2 * 2 + 2 : 2; /* even */
    (void)time_limit(limit, r->exec, times);
    bench_rounds rounds = bench_rounds_begin(bench_this_core(), limit_rounds);
    /* Untimed calls first load the memory into the caches, as far as it fits.  The limit has as many, untimed and timed: with
     * each, more of the memory is in the third-level cache. */
    while (bench_rounds_next(&rounds)) {
        const int64_t i = rounds.count;
        (void)time_calls(r, UNTIMED);
        s[0][i] = time_calls(r, times);
        (void)time_limit(limit, r->exec, UNTIMED);
        s[1][i] = time_limit(limit, r->exec, times);
        s[2][i] = s[1][i] / s[0][i];
        s[3][i] = time_limit(&floats, r->exec, times);
        s[4][i] = s[3][i] / s[0][i];
        bench_rounds_end(&rounds);
    }
    out->quiet = bench_rounds_quiet(&rounds);
    out->ns = 1e9 * bench_rounds_median(&rounds, s[0]);
    out->limit_ns = 1e9 * bench_rounds_median(&rounds, s[1]);
    out->of_limit = bench_rounds_median(&rounds, s[2]);
    out->bytes_ns = 1e9 * bench_rounds_median(&rounds, s[3]);
    out->of_bytes = bench_rounds_median(&rounds, s[4]);
}

/* Fills in numbers near 1, which are also valid floats if the bytes are read as floats. */
static void fill(void *data, gyre_dtype dtype, int64_t n) {
    const uint16_t half = dtype == GYRE_DTYPE_F16 ? 0x3c00 : 0x3f80;
    for (int64_t i = 0; i < n; i++) {
        const uint16_t bits = (uint16_t)(half + i % 64);
        const double number = 1 + (double)(i % 64) / 64;
        if (dtype == GYRE_DTYPE_F64)
            ((double *)data)[i] = number;
        else if (dtype == GYRE_DTYPE_F32)
            ((float *)data)[i] = (float)number;
        else
            ((uint16_t *)data)[i] = bits;
    }
}

gyre_status bench_measure_in_place(bench_in_place *run, int64_t rounds, bench_in_place_result *out, gyre_error *err) {
    const int64_t n = run->view.shape[0] * run->view.shape[1] * run->view.shape[2] * run->view.shape[3];
    const gyre_dtype dtype = run->view.dtype;
    out->bytes = n * (int64_t)gyre_dtype_size(dtype);
    scale_job limit = {bench_alloc_huge((size_t)out->bytes), dtype, 2, n};
    run->view.data = bench_alloc_huge((size_t)out->bytes);
    gyre_status status = GYRE_OK;
    if (!limit.x || !run->view.data) status = gyre_fail(err, GYRE_ENOMEM, "memory: out of it (gyre bench)");
    if (!status) {
        fill(run->view.data, dtype, n);
        fill(limit.x, dtype, n);
        measure(run, &limit, rounds, out);
        if (isnan(out->ns)) status = gyre_fail(err, GYRE_EINVAL, "call: it failed (gyre bench)");
    }
    free(run->view.data);
    free(limit.x);
    return status;
}

/* -- results -- */
enum { COLUMNS = 10 };
static bench_column columns[COLUMNS] = {
    {"dtype", "type", -5, 0, 0},      {NULL, NULL, -20, 0, 0}, /* the second is the benchmark's own */
    {"tokens", "tokens", 6, 0, 0},    {"threads", "threads", 7, 0, 0},  {"ns", "ns a call", 12, 0, 0},
    {"gbps", "GB/s", 9, 1, 0},        {"limit_gbps", "limit", 9, 1, 0}, {"of_limit", "of limit", 9, 2, 0},
    {"bytes_gbps", "bytes", 9, 1, 0}, {"of_bytes", "of bytes", 9, 2, 0}};

void bench_in_place_head(const char *column) {
    cli_page_printf(
        cli_stdout(),
        "limit: the same numbers multiplied by a constant in place, in their type; bytes: the same bytes multiplied as if "
        "they were floats. GB/s read and written together\n\n");
    columns[1].key = columns[1].title = column;
    bench_print_titles(columns, COLUMNS, "goal");
}

int bench_in_place_print(const bench_options *o, const bench_in_place_row *row, const bench_in_place_result *r) {
    const double moved = 2 * (double)r->bytes; /* read and written */
    const int has_goal = row->goal > 0 && row->threads == 1;
    char note[80];
    json_t *line = JSON_OBJECT("bench", JSON(row->bench), "dtype", JSON(dtype_name(bench_types[row->type])), row->column,
                               JSON(row->what), "tokens", JSON(row->tokens), "threads", JSON(row->threads), "ns",
                               JSON(r->ns), "gbps", JSON(moved / r->ns), "limit_gbps", JSON(moved / r->limit_ns), "of_limit",
                               JSON(r->of_limit), "bytes_gbps", JSON(moved / r->bytes_ns), "of_bytes", JSON(r->of_bytes),
                               "goal", bench_goal(has_goal ? "of_limit" : NULL, row->goal));
    return bench_print_row(o, line, &r->quiet, columns, COLUMNS, bench_goal_note(line, &r->quiet, note));
}

static int run_with_threads(const bench_options *o, int64_t threads,
                            int (*run)(const bench_options *o, const gyre_exec *exec, int64_t threads)) {
    cli_options common = o->common;
    gyre_pool *pool = NULL;
    gyre_exec exec;
    common.threads = (int)threads;
    int status = cli_pool_open(&common, &pool, &exec);
    if (!status) status = run(o, &exec, threads);
    gyre_pool_free(pool);
    return status;
}

int bench_for_threads(const bench_options *o, int (*run)(const bench_options *o, const gyre_exec *exec, int64_t threads)) {
    if (o->common.threads) return run_with_threads(o, o->common.threads, run);
    const int status = run_with_threads(o, 1, run);
    return status ? status : run_with_threads(o, 2, run);
}
