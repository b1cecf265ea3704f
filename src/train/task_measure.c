/* task_measure.c: how many tokens of a task's sequences a model predicts. */
#include "core/sized.h"
#include "eval/eval_windows.h"
#include "gyre/gyre_research.h"
#include "gyre/gyre_train.h"
#include "model/ops/logits.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

enum { MIN_LENGTH = 16, MAX_LENGTH = 1 << 24 };

typedef struct measurement {
    const gyre_model *model;
    const gyre_task_options *options;
    int64_t vocab;
    int32_t *tokens;      /* [sequences][length + 1] */
    float *weights;       /* [length + 1] the same for all sequences */
    unsigned char *right; /* [sequences][length] */
} measurement;

static gyre_status read_sequence(void *ctx, gyre_context *reader, float *logits, int64_t index, gyre_error *err) {
    const measurement *a = ctx;
    const int64_t length = a->options->length;
    const int32_t *tokens = a->tokens + index * (length + 1);
    unsigned char *right = a->right + index * length;
    for (int64_t from = 0, n; from < length; from += n) {
        n = length - from < GYRE_EVAL_WINDOW_CHUNK ? length - from : GYRE_EVAL_WINDOW_CHUNK;
        const gyre_status status = gyre_context_forward(reader, tokens + from, n, n, logits, err);
        if (status) return status;
        for (int64_t i = from; i < from + n; i++)
            right[i] = gyre_argmax(logits + (i - from) * a->vocab, a->vocab) == tokens[i + 1];
    }
    if (a->options->watcher.progress)
        a->options->watcher.progress(a->options->watcher.ctx, length, a->options->sequences * length);
    return GYRE_OK;
}

static gyre_status check_options(const gyre_model *model, const gyre_task_options *o, gyre_error *err) {
    if (o->length < MIN_LENGTH || o->length > MAX_LENGTH || o->sequences < 1 || o->sequences > INT32_MAX / o->length)
        return gyre_fail(err, GYRE_EINVAL, "length %lld, sequences %lld: at least %d and 1, below 2^31 tokens in all (task)",
                         (long long)o->length, (long long)o->sequences, MIN_LENGTH);
    const int64_t vocab = gyre_task_vocab(o->task), has = gyre_model_get_config(model)->vocab;
    if (!vocab) return gyre_fail(err, GYRE_EINVAL, "task: %d is not one that can be measured (task)", (int)o->task);
    if (has < vocab)
        return gyre_fail(err, GYRE_EINVAL, "vocabulary: the model has %lld symbols, the task %lld (task)", (long long)has,
                         (long long)vocab);
    return GYRE_OK;
}

static void count_right(const measurement *a, int64_t *right, int64_t *asked) {
    const int64_t length = a->options->length;
    for (int64_t i = 0; i < length; i++) {
        asked[i] = a->weights[i + 1] > 0 ? a->options->sequences : 0;
        right[i] = 0;
        for (int64_t s = 0; asked[i] && s < a->options->sequences; s++)
            right[i] += a->right[s * length + i];
    }
}

static gyre_status measure(const gyre_model *model, const gyre_task_options *options, int64_t *right, int64_t *asked,
                           const gyre_exec *exec, gyre_error *err) {
    gyre_status status = check_options(model, options, err);
    if (status) return status;
    const int64_t length = options->length, count = options->sequences;
    measurement a = {.model = model, .options = options, .vocab = gyre_model_get_config(model)->vocab};
    a.tokens = malloc((size_t)(count * (length + 1)) * sizeof *a.tokens);
    a.weights = malloc((size_t)(length + 1) * sizeof *a.weights);
    a.right = malloc((size_t)(count * length));
    if (!a.tokens || !a.weights || !a.right)
        status = gyre_fail(err, GYRE_ENOMEM, "sequences: out of memory for %lld (task)", (long long)count);
    uint64_t state = options->seed;
    for (int64_t s = 0; !status && s < count; s++)
        gyre_task_sequence(options->task, length, length - GYRE_TASK_COPY_SPAN, &state, a.tokens + s * (length + 1),
                           a.weights);
    const gyre_eval_windows windows = {model, options->encoding, length,        count, read_sequence,
                                       &a,    GYRE_DTYPE_F32,    options->team, 0,     GYRE_PRODUCTS_F32};
    if (!status) status = gyre_eval_windows_run(&windows, exec, err);
    status = gyre_eval_windows_share(&windows, status, a.right, (size_t)length, err);
    if (!status) count_right(&a, right, asked);
    free(a.tokens);
    free(a.weights);
    free(a.right);
    return status;
}

gyre_status gyre_task_measure(const gyre_model *model, const gyre_task_options *options, int64_t *right, int64_t *asked,
                              const gyre_exec *exec, gyre_error *err) {
    gyre_task_options own;
    const gyre_status status = gyre_sized_read(&own, sizeof own, options, "gyre_task_options", err);
    if (status) return status;
    if (!right || !asked) return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (task)", right ? "asked" : "right");
    if (!own.length) own.length = 64;
    if (!own.sequences) own.sequences = 1000;
    return measure(model, &own, right, asked, exec, err);
}
