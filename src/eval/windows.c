#include "eval/windows.h"
#include "model/layers.h"
#include <stdlib.h>

typedef struct worker {
    gyre_context *reader;
    float *logits;
    gyre_status status;
    gyre_error error;
} worker;

typedef struct run {
    const gyre_windows *windows;
    worker *workers;
    int64_t count;
} run;

/* Worker w takes every count-th window: which one reads a window changes nothing in what is read. */
static void work(void *arg, int64_t index) {
    run *r = arg;
    worker *w = &r->workers[index];
    for (int64_t i = index; i < r->windows->count && !w->status; i += r->count) {
        gyre_context_reset(w->reader);
        w->status = r->windows->fn(r->windows->ctx, w->reader, w->logits, i, &w->error);
    }
}

static void release(run *r) {
    for (int64_t i = 0; i < r->count; i++) {
        gyre_context_free(r->workers[i].reader);
        free(r->workers[i].logits);
    }
    free(r->workers);
}

static gyre_status prepare(run *r, gyre_error *err) {
    const gyre_windows *w = r->windows;
    const int64_t vocab = gyre_model_config_of(w->model)->vocab;
    gyre_context_options options = GYRE_CONTEXT_INIT;
    options.encoding = w->encoding;
    options.max_tokens = w->context;
    options.cache = w->cache;
    for (int64_t i = 0; i < r->count; i++) {
        const gyre_status status = gyre_context_open(&r->workers[i].reader, w->model, &options, err);
        if (status) return status;
        r->workers[i].logits = gyre_floats(GYRE_WINDOW_ROWS * vocab);
        if (!r->workers[i].logits) return gyre_fail(err, GYRE_ENOMEM, "logits: out of memory (evaluation)");
    }
    return GYRE_OK;
}

int64_t gyre_window_piece(const gyre_windows *windows, int64_t from, int64_t wanted) {
    enum { SHORT = 64 };
    const gyre_encoding *encoding = windows->encoding ? windows->encoding : gyre_model_encoding(windows->model);
    const gyre_config *config = gyre_encoding_config(encoding);
    const int64_t left = windows->context - from;
    int64_t most = GYRE_WINDOW_ROWS;
    if (config->kind == GYRE_ROPE && config->rope.length_policy == GYRE_LENGTH_PREFIX)
        most = from < wanted ? wanted - from : SHORT;
    return left < most ? left : most;
}

gyre_status gyre_windows_run(const gyre_windows *windows, const gyre_exec *exec, gyre_error *err) {
    run r = {windows, NULL, gyre_exec_width(exec)};
    if (r.count > windows->count) r.count = windows->count;
    r.workers = calloc((size_t)r.count, sizeof *r.workers);
    if (!r.workers) return gyre_fail(err, GYRE_ENOMEM, "windows: out of memory (evaluation)");
    gyre_status status = prepare(&r, err);
    if (!status) gyre_parallel(exec, work, &r, r.count);
    for (int64_t i = 0; i < r.count && !status; i++)
        if (r.workers[i].status) {
            status = r.workers[i].status;
            if (err) *err = r.workers[i].error;
        }
    release(&r);
    return status;
}
