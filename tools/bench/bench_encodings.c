/* bench_encodings.c: gyre bench encodings: what positions cost attention, in time and in memory.  Each scheme alternates
 * with attention without positions, round by round, so that a slow moment of the machine affects both. */
#include "tools/bench/bench.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { FIRST_TOKENS = 64 };
#define MEBIBYTE 1048576.0

typedef struct bench_result {
    double ms, base_ms, ratio, goal; /* goal 0: none */
    bench_quiet quiet;
    int64_t scratch, peak; /* bytes; peak -1: not known */
} bench_result;

/* -- memory -- */
typedef struct memory_job {
    const bench_call *call;
    const cli_options *options;
    gyre_pool *pool;
    gyre_exec exec;
    void *scratch;
    size_t bytes;
} memory_job;

/* Creates the threads and touches the code.  Maps the scratch without touching its pages. */
static int prepare_memory(void *arg) {
    memory_job *job = arg;
    if (cli_pool_open(job->options, &job->pool, &job->exec)) return 1;
    const int64_t all = job->call->args.q.shape[1];
    const bench_call shortened = bench_call_shortened(job->call, all < FIRST_TOKENS ? all : FIRST_TOKENS);
    const size_t bytes = bench_call_scratch(&shortened, &job->exec);
    void *scratch = bench_map_untouched(bytes);
    const int failed = !scratch || bench_call_run(&shortened, scratch, bytes, &job->exec);
    if (scratch) munmap(scratch, bytes);
    job->bytes = bench_call_scratch(job->call, &job->exec);
    job->scratch = bench_map_untouched(job->bytes);
    return failed || !job->scratch;
}

static int work_in_memory(void *arg) {
    memory_job *job = arg;
    return !!bench_call_run(job->call, job->scratch, job->bytes, &job->exec);
}

/* -- time -- */
typedef struct timed_call {
    const bench_call *call;
    void *scratch;
    size_t bytes;
} timed_call;

static gyre_status time_once(const timed_call *t, const gyre_exec *exec, double *ms, gyre_error *err) {
    const double started = cli_seconds();
    const gyre_status status = bench_call_run(t->call, t->scratch, t->bytes, exec);
    *ms = 1e3 * (cli_seconds() - started);
    return status ? gyre_fail(err, status, "%s: %s (gyre bench)", t->call->name, gyre_status_text(status)) : GYRE_OK;
}

static gyre_status timed_open(timed_call *t, const bench_call *call, const gyre_exec *exec, gyre_error *err) {
    *t = (timed_call){.call = call, .bytes = bench_call_scratch(call, exec)};
    double ms;
    if (t->bytes && posix_memalign(&t->scratch, 64, t->bytes)) {
        t->scratch = NULL;
        return gyre_fail(err, GYRE_ENOMEM, "%s: out of memory for the scratch (gyre bench)", call->name);
    }
    const gyre_status status = bench_call_forward(call, exec, err);
    return status ? status : time_once(t, exec, &ms, err); /* the first call runs with cold pages and caches */
}

/* calls[0]: without positions; calls[1]: with. */
static gyre_status time_calls(const bench_call *const calls[2], int64_t limit, const gyre_exec *exec, bench_result *result,
                              gyre_error *err) {
    double ms[2][BENCH_MAX_ROUNDS], ratio[BENCH_MAX_ROUNDS];
    timed_call timed[2] = {{NULL, NULL, 0}, {NULL, NULL, 0}};
    gyre_status status = timed_open(&timed[0], calls[0], exec, err);
    if (!status) status = timed_open(&timed[1], calls[1], exec, err);
    bench_rounds rounds = bench_rounds_begin(bench_this_core(), limit);
    while (!status && bench_rounds_next(&rounds)) {
        const int64_t r = rounds.count;
        status = time_once(&timed[0], exec, &ms[0][r], err);
        if (!status) status = time_once(&timed[1], exec, &ms[1][r], err);
        ratio[r] = status ? 0 : ms[1][r] / ms[0][r];
        bench_rounds_end(&rounds);
    }
    result->scratch = (int64_t)timed[1].bytes;
    free(timed[0].scratch);
    free(timed[1].scratch);
    if (status) return status;
    result->base_ms = bench_rounds_median(&rounds, ms[0]);
    result->ms = bench_rounds_median(&rounds, ms[1]);
    result->ratio = bench_rounds_median(&rounds, ratio);
    result->quiet = bench_rounds_quiet(&rounds);
    return GYRE_OK;
}

/* -- one scheme -- */
static gyre_status measure_calls(const bench_options *o, const bench_call *const calls[2], bench_result *result,
                                 gyre_error *err) {
    memory_job job = {.call = calls[1], .options = &o->common};
    result->peak = bench_peak_rss_growth(prepare_memory, work_in_memory, &job); /* while there is one thread */
    gyre_pool *pool = NULL;
    gyre_status status = gyre_pool_create(&pool, o->common.threads, err);
    if (status) return status;
    const gyre_exec exec = gyre_pool_exec(pool);
    status = time_calls(calls, o->rounds, &exec, result, err);
    gyre_pool_free(pool);
    return status;
}

static gyre_status measure_scheme(const bench_options *o, const bench_scheme *scheme, const bench_data *data,
                                  bench_result *result, gyre_error *err) {
    const bench_shape *s = &data->shape;
    const int has_goal =
        s->tokens == BENCH_GOAL_TOKENS && s->heads == BENCH_GOAL_HEADS && s->head_dim == BENCH_GOAL_CHANNELS && !s->gradient;
    bench_call base, with;
    gyre_status status = bench_call_create(&base, NULL, scheme->causal, data, err);
    if (status) return status;
    status = bench_call_create(&with, scheme, scheme->causal, data, err);
    if (!status) {
        status = measure_calls(o, (const bench_call *const[]){&base, &with}, result, err);
        bench_call_free(&with);
    }
    bench_call_free(&base);
    result->goal = has_goal ? scheme->goal : 0;
    return status;
}

/* -- results -- */
/* out = four bytes per pair of tokens and head: the memory that no scheme may need. */
static double matrix_bytes(const bench_shape *s) {
    return 4.0 * (double)s->heads * (double)s->tokens * (double)s->tokens;
}

static const bench_column columns[] = {{"scheme", "scheme", -24, 0, 0},
                                       {"causal", "mask", -6, 0, 0},
                                       {"ms", "ms", 10, 2, 0},
                                       {"base_ms", "none ms", 10, 2, 0},
                                       {"ratio", "ratio", 7, 2, 0},
                                       {"goal", "goal", 6, 2, 0},
                                       {"scratch_bytes", "scratch MiB", 12, 2, 1 / MEBIBYTE},
                                       {"peak_bytes", "peak MiB", 10, 2, 1 / MEBIBYTE}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static int print_row(const bench_options *o, const bench_scheme *scheme, const bench_shape *s, const bench_result *r) {
    json_t *row = JSON_OBJECT("bench", JSON("encodings"), "scheme", JSON(scheme->name), "tokens", JSON(s->tokens), "heads",
                              JSON(s->heads), "head_dim", JSON(s->head_dim), "threads", JSON(o->common.threads), "rounds",
                              JSON(o->rounds), "causal", json_boolean(scheme->causal), "gradient", json_boolean(s->gradient),
                              "ms", JSON(r->ms), "base_ms", JSON(r->base_ms), "ratio", JSON(r->ratio), "goal",
                              r->goal > 0 ? JSON(r->goal) : json_null(), "scratch_bytes", JSON(r->scratch), "peak_bytes",
                              r->peak < 0 ? json_null() : JSON(r->peak), "matrix_bytes", JSON((int64_t)matrix_bytes(s)));
    const char *verdict = r->goal > 0 ? bench_goal_verdict(&r->quiet, r->ratio <= r->goal) : "";
    return bench_print_row(o, row, &r->quiet, columns, COLUMNS, *verdict ? verdict + strlen(", ") : NULL);
}

static void print_head(const bench_options *o, const bench_shape *s) {
    fprintf(cli_stdout(),
            "%s%lld tokens, %lld heads of %lld, %s, %d thread%s, medians of %lld rounds; a float for each pair: %.1f MiB\n",
            s->tokens == o->encodings.tokens[0] ? "" : "\n", (long long)s->tokens, (long long)s->heads,
            (long long)s->head_dim, s->gradient ? "gradient" : "forward", o->common.threads,
            o->common.threads == 1 ? "" : "s", (long long)o->rounds, matrix_bytes(s) / MEBIBYTE);
    bench_print_titles(columns, COLUMNS, NULL);
}

static int bench_tokens(const bench_options *o, const bench_scheme *schemes, int count, int64_t tokens) {
    const bench_shape shape = {tokens, o->encodings.heads, o->encodings.head_dim, o->encodings.gradient};
    gyre_error err = {0, ""};
    bench_data data;
    int failed = 0;
    if (bench_data_create(&data, &shape, &err)) return cli_fail_error(&err);
    for (int i = 0; i < count && !failed; i++) {
        bench_result result = {0};
        failed = measure_scheme(o, &schemes[i], &data, &result, &err) ? cli_fail_error(&err) : 0;
        if (!failed && !o->common.json && i == 0) print_head(o, &shape);
        if (!failed) failed = print_row(o, &schemes[i], &shape, &result);
    }
    bench_data_free(&data);
    return failed;
}

/* Replaces 0 threads by the number of processors, the concurrency of a pool. */
static int count_threads(bench_options *o) {
    gyre_pool *pool = NULL;
    gyre_exec exec;
    if (cli_pool_open(&o->common, &pool, &exec)) return CLI_FAILED;
    o->common.threads = (int)(exec.concurrency ? exec.concurrency : 1);
    gyre_pool_free(pool);
    return 0;
}

/* Checks all schemes before the first row, because an error would end the table in the middle. */
static int check_schemes(const bench_options *o, const bench_scheme *schemes, int count) {
    gyre_error err = {0, ""};
    for (int64_t t = 0; t < o->encodings.tokens_count; t++)
        for (int i = 0; i < count; i++) {
            const bench_shape shape = {o->encodings.tokens[t], o->encodings.heads, o->encodings.head_dim,
                                       o->encodings.gradient};
            if (bench_scheme_check(&schemes[i], &shape, &err)) return cli_fail_error(&err);
        }
    return 0;
}

int bench_encodings(const bench_options *options) {
    static int64_t usual[] = {512, 2048, 8192};
    bench_options o = *options;
    bench_scheme schemes[BENCH_MAX_SCHEMES];
    const int count = bench_choose_schemes(o.encodings.schemes, schemes);
    if (!o.encodings.tokens_count) {
        o.encodings.tokens = usual;
        o.encodings.tokens_count = sizeof usual / sizeof *usual;
    }
    int failed = check_schemes(&o, schemes, count);
    if (!failed) failed = count_threads(&o);
    for (int64_t i = 0; i < o.encodings.tokens_count && !failed; i++)
        failed = bench_tokens(&o, schemes, count, o.encodings.tokens[i]);
    return failed;
}
