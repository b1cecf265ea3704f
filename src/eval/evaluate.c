/* evaluate.c: perplexity against context length, under the protocols that papers use. */
#include "core/encoding.h"
#include "core/sized.h"
#include "eval/eval_windows.h"
#include "model/ops/logits.h"
#include "util/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct evaluation {
    const gyre_model *model;
    const gyre_text *text;
    const gyre_eval_options *options;
    const gyre_eval_windows *eval_windows;
    int64_t context, stride, first_scored; /* predictions before first_scored in a window are not scored */
    int64_t windows, available;            /* read; that the text holds */
    double *nats;                          /* [windows] sum over the scored predictions */
    int64_t *scored;                       /* [windows] number of them */
    double *bucket_nats;                   /* [windows][buckets], or NULL */
} evaluation;

/* Windows are spread evenly over the text if fewer are read than it holds. */
static int64_t window_start(const evaluation *e, int64_t index) {
    if (e->options->starts) return e->options->starts[index];
    return (e->windows == e->available ? index : index * e->available / e->windows) * e->stride;
}

/* out = 1 if the prediction of the token after token i of the window counts. */
static int is_scored(const evaluation *e, int64_t index, int64_t i) {
    const unsigned char *counted = e->options->counted;
    return i >= e->first_scored && (!counted || counted[window_start(e, index) + i + 1]);
}

static void score_rows(const evaluation *e, int64_t index, int64_t from, int64_t rows, float *logits) {
    const int64_t vocab = gyre_model_get_config(e->model)->vocab;
    const int32_t *ids = e->text->ids + window_start(e, index);
    const gyre_kernels *kernels = gyre_kernels_beside(gyre_model_get_encoding(e->model)->kernels);
    for (int64_t i = from; i < from + rows; i++, logits += vocab) {
        const double nats = gyre_cross_entropy(kernels, logits, vocab, ids[i + 1]);
        if (is_scored(e, index, i)) e->nats[index] += nats;
        if (e->bucket_nats) e->bucket_nats[index * e->options->buckets + i * e->options->buckets / e->context] += nats;
    }
}

static gyre_status read_window(void *ctx, gyre_context *reader, float *logits, int64_t index, gyre_error *err) {
    evaluation *e = ctx;
    const int32_t *ids = e->text->ids + window_start(e, index);
    const int64_t wanted_from = e->bucket_nats ? 0 : e->first_scored;
    for (int64_t from = 0, n; from < e->context; from += n) {
        if (e->options->watcher.stop && e->options->watcher.stop(e->options->watcher.ctx))
            return gyre_fail(err, GYRE_EIO, "windows: stopped (eval)");
        n = gyre_eval_window_chunk(e->eval_windows, from, wanted_from);
        int64_t rows = from + n - wanted_from;
        rows = rows < 0 ? 0 : rows > n ? n : rows;
        const gyre_status status = gyre_context_forward(reader, ids + from, n, rows, logits, err);
        if (status) return status;
        score_rows(e, index, from + n - rows, rows, logits);
        if (e->options->watcher.progress) e->options->watcher.progress(e->options->watcher.ctx, n, e->windows * e->context);
    }
    return GYRE_OK;
}

static gyre_status plan_windows(evaluation *e, gyre_error *err) {
    const gyre_eval_options *o = e->options;
    if (o->context < 2 || o->stride < 0 || o->stride > o->context || o->windows < 0 || o->buckets < 0)
        return gyre_fail(err, GYRE_EINVAL,
                         "context %lld, stride %lld: the context is at least 2, the stride 1 .. context (eval)",
                         (long long)o->context, (long long)o->stride);
    e->context = o->context;
    e->stride = o->protocol == GYRE_EVAL_PROTOCOL_TRUNCATE ? o->context : o->stride ? o->stride : o->context / 2;
    const int64_t last = o->context / 2 < 200 ? o->context / 2 : 200; /* of GYRE_EVAL_PROTOCOL_LAST */
    e->first_scored = o->protocol == GYRE_EVAL_PROTOCOL_TRUNCATE
                          ? 0
                          : o->context - (o->protocol == GYRE_EVAL_PROTOCOL_LAST ? last : e->stride);
    if (e->text->count < o->context + 1)
        return gyre_fail(err, GYRE_EINVAL, "text: %lld tokens, a window of %lld needs %lld (eval)",
                         (long long)e->text->count, (long long)o->context, (long long)o->context + 1);
    const int64_t vocab = gyre_model_get_config(e->model)->vocab;
    for (int64_t i = 0; i < e->text->count; i++)
        if (e->text->ids[i] < 0 || e->text->ids[i] >= vocab)
            return gyre_fail(err, GYRE_EINVAL, "token %lld: %d is outside the model's vocabulary of %lld (eval)",
                             (long long)i, e->text->ids[i], (long long)vocab);
    const int64_t last_start = e->text->count - 1 - o->context;
    for (int64_t i = 0; o->starts && i < o->windows; i++)
        if (o->starts[i] < 0 || o->starts[i] > last_start)
            return gyre_fail(err, GYRE_EINVAL, "window %lld: begins at %lld of a text where the last can at %lld (eval)",
                             (long long)i, (long long)o->starts[i], (long long)last_start);
    e->available = o->starts ? o->windows : last_start / e->stride + 1;
    e->windows = o->windows && o->windows < e->available ? o->windows : e->available;
    return GYRE_OK;
}

static gyre_status count_scored(evaluation *e, gyre_error *err) {
    for (int64_t w = 0; w < e->windows; w++) {
        for (int64_t i = e->first_scored; i < e->context; i++)
            e->scored[w] += is_scored(e, w, i);
        if (e->scored[w] == 0)
            return gyre_fail(err, GYRE_EINVAL, "counted: no prediction of the window at token %lld counts (eval)",
                             (long long)window_start(e, w));
    }
    return GYRE_OK;
}

/* A loss whose perplexity is infinite is no result either. */
static gyre_status check_losses(const evaluation *e, gyre_error *err) {
    for (int64_t w = 0; w < e->windows; w++) {
        const double mean = e->nats[w] / (double)e->scored[w];
        double most = mean;
        for (int64_t b = 0; e->bucket_nats && b < e->options->buckets; b++)
            most =
                fmax(most, e->bucket_nats[w * e->options->buckets + b] * (double)e->options->buckets / (double)e->context);
        if (!isfinite(exp(most)))
            return gyre_fail(err, GYRE_EFORMAT,
                             "window %lld of %lld: loss: %g nats per token, whose perplexity is infinite (eval)",
                             (long long)w + 1, (long long)e->windows, most);
    }
    return GYRE_OK;
}

static void summarise(const evaluation *e, gyre_eval_result *out) {
    const gyre_eval_options *o = e->options;
    double sum = 0;
    int64_t scored = 0;
    for (int64_t w = 0; w < e->windows; w++) {
        sum += e->nats[w];
        scored += e->scored[w];
        if (o->by_window) o->by_window[w] = e->nats[w] / (double)e->scored[w];
    }
    *out = (gyre_eval_result){sum / (double)scored, e->windows, scored};
    for (int64_t b = 0; e->bucket_nats && b < o->buckets; b++) {
        double in_bucket = 0;
        int64_t count = 0;
        for (int64_t w = 0; w < e->windows; w++)
            in_bucket += e->bucket_nats[w * o->buckets + b];
        for (int64_t i = 0; i < e->context; i++)
            count += i * o->buckets / e->context == b;
        o->by_position[b] = count ? in_bucket / (double)(count * e->windows) : 0;
    }
}

static gyre_status evaluate(const gyre_model *model, const gyre_encoding *encoding, const gyre_text *text,
                            const gyre_eval_options *options, gyre_eval_result *out, const gyre_exec *exec,
                            gyre_error *err) {
    evaluation e = {.model = model, .text = text, .options = options};
    gyre_status status = plan_windows(&e, err);
    if (status) return status;
    const int by_position = options->by_position && options->buckets;
    e.nats = calloc((size_t)e.windows, sizeof *e.nats);
    e.scored = calloc((size_t)e.windows, sizeof *e.scored);
    if (by_position) e.bucket_nats = calloc((size_t)(e.windows * options->buckets), sizeof *e.bucket_nats);
    if (!e.nats || !e.scored || (by_position && !e.bucket_nats))
        status = gyre_fail(err, GYRE_ENOMEM, "windows: out of memory for %lld (eval)", (long long)e.windows);
    const gyre_eval_windows windows = {model,
                                       encoding,
                                       e.context,
                                       e.windows,
                                       read_window,
                                       &e,
                                       options->cache_dtype,
                                       options->team,
                                       options->first_position,
                                       options->products};
    e.eval_windows = &windows;
    if (!status) status = count_scored(&e, err);
    if (!status) status = gyre_eval_windows_run(&windows, exec, err);
    status = gyre_eval_windows_share(&windows, status, e.nats, sizeof *e.nats, err);
    if (!status && by_position)
        status =
            gyre_eval_windows_share(&windows, status, e.bucket_nats, (size_t)options->buckets * sizeof *e.bucket_nats, err);
    if (!status) status = check_losses(&e, err);
    if (!status) summarise(&e, out);
    free(e.nats);
    free(e.scored);
    free(e.bucket_nats);
    return status;
}

gyre_status gyre_evaluate(const gyre_model *model, const gyre_text *text, const gyre_eval_options *options,
                          gyre_eval_result *out, const gyre_exec *exec, gyre_error *err) {
    gyre_eval_options own;
    const gyre_status status = gyre_sized_read(&own, sizeof own, options, "gyre_eval_options", err);
    if (status) return status;
    return evaluate(model, own.encoding, text, &own, out, exec, err);
}
