#include "eval/eval_windows.h"
#include "core/exec.h"
#include "model/ops/float_buffer.h"
#include "util/error.h"
#include <stdlib.h>

typedef struct worker {
    gyre_context *reader;
    float *logits;  /* [GYRE_EVAL_WINDOW_CHUNK][vocab] */
    int64_t window; /* that was read last */
    gyre_status status;
    gyre_error error;
} worker;

typedef struct window_pool {
    const gyre_eval_windows *windows;
    worker *workers;
    int64_t count;         /* workers */
    int64_t first, end;    /* the windows they read */
    const gyre_exec *exec; /* threads within a window; NULL = one */
} window_pool;

/* Worker w reads windows first + w, first + w + count, ...  Which worker reads a window does not change the result. */
static void run_worker(void *arg, int64_t index) {
    window_pool *r = arg;
    worker *w = &r->workers[index];
    for (int64_t i = r->first + index; i < r->end && !w->status; i += r->count) {
        gyre_context_reset(w->reader);
        w->window = i;
        w->status = r->windows->fn(r->windows->ctx, w->reader, w->logits, i, &w->error);
    }
}

static void free_workers(window_pool *r) {
    for (int64_t i = 0; i < r->count; i++) {
        gyre_context_free(r->workers[i].reader);
        free(r->workers[i].logits);
    }
    free(r->workers);
}

static gyre_status create_workers(window_pool *r, gyre_error *err) {
    const gyre_eval_windows *w = r->windows;
    const int64_t vocab = gyre_model_get_config(w->model)->vocab;
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    options.encoding = w->encoding;
    options.max_tokens = w->context;
    options.cache_dtype = w->cache;
    options.exec = r->exec;
    options.first_position = w->first_position;
    options.products = w->products;
    options.order = GYRE_ORDER_FIXED; /* a measurement must not depend on how its windows are read */
    for (int64_t i = 0; i < r->count; i++) {
        const gyre_status status = gyre_context_create(&r->workers[i].reader, w->model, &options, err);
        if (status) return status;
        r->workers[i].logits = gyre_alloc_floats(GYRE_EVAL_WINDOW_CHUNK * vocab);
        if (!r->workers[i].logits) return gyre_fail(err, GYRE_ENOMEM, "logits: out of memory (evaluation)");
    }
    return GYRE_OK;
}

int64_t gyre_eval_window_chunk(const gyre_eval_windows *windows, int64_t from, int64_t wanted) {
    enum { DECODE_CHUNK = 64 };
    const gyre_encoding *encoding = windows->encoding ? windows->encoding : gyre_model_get_encoding(windows->model);
    const gyre_config *config = gyre_encoding_get_config(encoding);
    const int64_t left = windows->context - from;
    int64_t max = GYRE_EVAL_WINDOW_CHUNK;
    if (config->length_policy == GYRE_LENGTH_POLICY_PREFIX) max = from < wanted ? wanted - from : DECODE_CHUNK;
    return left < max ? left : max;
}

/* Every worker stops at its own first failure, so the first of these is the same on any number of threads. */
static gyre_status first_failure(const window_pool *r, gyre_error *err) {
    const worker *first = NULL;
    for (int64_t i = 0; i < r->count; i++)
        if (r->workers[i].status && (!first || r->workers[i].window < first->window)) first = &r->workers[i];
    if (!first) return GYRE_OK;
    if (first->status == GYRE_EFORMAT) /* numbers that are not finite */
        return gyre_fail(err, first->status, "window %lld of %lld: %s", (long long)first->window + 1,
                         (long long)r->windows->count, first->error.text);
    if (err) *err = first->error;
    return first->status;
}

/* Reads the windows of r.  exec: the threads that the workers run on. */
static gyre_status run_pool(window_pool *r, const gyre_exec *exec, gyre_error *err) {
    r->workers = calloc((size_t)r->count, sizeof *r->workers);
    if (!r->workers) return gyre_fail(err, GYRE_ENOMEM, "windows: out of memory (evaluation)");
    gyre_status status = create_workers(r, err);
    if (!status) gyre_parallel(exec, run_worker, r, r->count);
    if (!status) status = first_failure(r, err);
    free_workers(r);
    return status;
}

/* -- the windows of this rank -- */
static int64_t first_of(const gyre_eval_windows *w, int64_t rank) {
    return w->team ? (rank * w->count + w->team->ranks - 1) / w->team->ranks : rank * w->count;
}

gyre_status gyre_team_check(const gyre_team *team, gyre_error *err) {
    if (!team) return GYRE_OK;
    if (team->size < sizeof *team) return gyre_fail(err, GYRE_EINVAL, "team: begin with GYRE_INIT (gyre_team)");
    if (!team->gather || !team->sum)
        return gyre_fail(err, GYRE_EINVAL, "team.%s: is NULL (gyre_team)", team->gather ? "sum" : "gather");
    if (team->ranks >= 1 && team->rank >= 0 && team->rank < team->ranks) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "team: rank %lld of %lld (gyre_team)", (long long)team->rank, (long long)team->ranks);
}

/* A thread reads whole windows, which is faster than sharing one.  Windows that are left over for at most half of the
 * threads are read one after the other, by all threads together. */
gyre_status gyre_eval_windows_run(const gyre_eval_windows *windows, const gyre_exec *exec, gyre_error *err) {
    const gyre_status known = gyre_team_check(windows->team, err);
    if (known) return known;
    const int64_t rank = windows->team ? windows->team->rank : 0, first = first_of(windows, rank);
    const int64_t end = first_of(windows, rank + 1), count = end - first;
    if (!count) return GYRE_OK; /* more ranks than windows */
    const int64_t threads = gyre_exec_concurrency(exec), over = count % threads;
    const int64_t alone = count > threads && 2 * over <= threads ? count - over : count;
    window_pool whole = {
        .windows = windows, .count = threads < alone ? threads : alone, .first = first, .end = first + alone};
    window_pool shared = {.windows = windows, .count = 1, .first = first + alone, .end = end, .exec = exec};
    const gyre_status status = run_pool(&whole, exec, err);
    return status || alone == count ? status : run_pool(&shared, NULL, err);
}

gyre_status gyre_eval_windows_share(const gyre_eval_windows *windows, gyre_status status, void *items, size_t bytes,
                                    gyre_error *err) {
    const gyre_team *team = windows->team;
    if (gyre_team_check(team, NULL)) return status ? status : GYRE_EINVAL;
    return team ? team->gather(team->ctx, status, items, windows->count, bytes, err) : status;
}
