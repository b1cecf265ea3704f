/* recall.c: reads windows that ask at their end for earlier parts, and counts the right answers. */
#include "eval/recall.h"
#include "core/sized.h"
#include "eval/eval_windows.h"
#include "model/ops/logits.h"
#include "util/error.h"
#include "util/random.h"
#include <stdint.h>
#include <stdlib.h>

static const int64_t MAX_TOKENS = (int64_t)1 << 32; /* of all windows, which are drawn before the first is read */

typedef struct trials {
    const gyre_recall *recall;
    const gyre_model *model;
    const gyre_passkey_options *options;
    const gyre_eval_windows *eval_windows;
    int64_t count, windows;
    int32_t *tokens; /* [windows][context] */
    int64_t *right;  /* [windows] */
} trials;

int64_t gyre_recall_fit(int64_t wanted, int64_t length, int64_t min_bytes) {
    const int64_t fit = length / min_bytes, max = fit < GYRE_RECALL_MAX ? fit : GYRE_RECALL_MAX;
    return wanted > max ? max : wanted;
}

void gyre_recall_shuffle(int32_t *order, int64_t n, uint64_t *state) {
    for (int64_t i = 0; i < n; i++)
        order[i] = (int32_t)i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = gyre_random_below(state, i + 1);
        const int32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

int64_t gyre_recall_place(int64_t k, int64_t count, int64_t length, int64_t body, uint64_t *state) {
    const int64_t from = k * body / count, slack = (k + 1) * body / count - from - length;
    return from + gyre_random_below(state, slack + 1);
}

/* logits: row i predicts token first + i + 1 of the window. */
static int64_t count_right(const trials *t, const float *logits, const int32_t *tokens, int64_t first) {
    const gyre_recall *r = t->recall;
    const int64_t vocab = gyre_model_get_config(t->model)->vocab;
    int64_t right = 0;
    for (int64_t k = 0; k < t->count; k++) {
        int64_t bytes = 0;
        for (int64_t i = k * r->length + r->from - 1; i < k * r->length + r->to - 1; i++)
            bytes += gyre_argmax(logits + i * vocab, vocab) == tokens[first + i + 1];
        right += r->whole ? bytes == r->to - r->from : bytes;
    }
    return right;
}

static gyre_status read_window(void *ctx, gyre_context *reader, float *logits, int64_t index, gyre_error *err) {
    trials *t = ctx;
    const int64_t context = t->options->context, vocab = gyre_model_get_config(t->model)->vocab;
    const int64_t rows = t->count * t->recall->length, first = context - rows;
    const int32_t *tokens = t->tokens + index * context;
    float *out = logits;
    for (int64_t from = 0, n; from < context; from += n) {
        if (t->options->watcher.stop && t->options->watcher.stop(t->options->watcher.ctx))
            return gyre_fail(err, GYRE_EIO, "windows: stopped (%s)", t->recall->what);
        n = gyre_eval_window_chunk(t->eval_windows, from, first);
        const int64_t wanted = from + n <= first ? 0 : from < first ? from + n - first : n;
        const gyre_status status = gyre_context_forward(reader, tokens + from, n, wanted, out, err);
        if (status) return status;
        out += wanted * vocab;
    }
    t->right[index] = count_right(t, logits, tokens, first);
    if (t->options->watcher.progress) t->options->watcher.progress(t->options->watcher.ctx, context, t->windows * context);
    return GYRE_OK;
}

static gyre_status check_options(const gyre_recall *r, const gyre_model *model, const gyre_text *text,
                                 const gyre_passkey_options *o, gyre_error *err) {
    if (gyre_model_get_config(model)->vocab < 256)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "%s: a vocabulary of %lld holds no bytes (%s)", r->what,
                         (long long)gyre_model_get_config(model)->vocab, r->what);
    if (o->trials < 1 || o->keys < 1 || o->keys > GYRE_RECALL_MAX || o->context < r->min_bytes)
        return gyre_fail(err, GYRE_EINVAL, "%s: context %lld, trials %lld, keys %lld: at least %lld, 1 and 1 .. %d (%s)",
                         r->what, (long long)o->context, (long long)o->trials, (long long)o->keys, (long long)r->min_bytes,
                         GYRE_RECALL_MAX, r->what);
    if (text->count < o->context)
        return gyre_fail(err, GYRE_EINVAL, "text: %lld tokens, a window needs %lld (%s)", (long long)text->count,
                         (long long)o->context, r->what);
    return GYRE_OK;
}

static void summarise(const trials *t, gyre_passkey_result *out) {
    const gyre_recall *r = t->recall;
    *out = (gyre_passkey_result){t->windows * t->count * (r->whole ? 1 : r->to - r->from), 0, t->windows};
    for (int64_t w = 0; w < t->windows; w++) {
        out->right += t->right[w];
        if (t->options->by_window) t->options->by_window[w] = t->right[w];
    }
}

static gyre_status measure(trials *t, const gyre_text *text, gyre_passkey_result *out, const gyre_exec *exec,
                           gyre_error *err) {
    const gyre_passkey_options *o = t->options;
    gyre_status status = check_options(t->recall, t->model, text, o, err);
    if (status) return status;
    t->count = gyre_recall_fit(o->keys, o->context, t->recall->min_bytes);
    t->windows = o->trials / t->count + (o->trials % t->count != 0);
    if (t->windows > MAX_TOKENS / o->context || t->windows > (int64_t)(SIZE_MAX / sizeof *t->tokens / 2) / o->context)
        return gyre_fail(err, GYRE_EINVAL,
                         "%s: %lld windows of %lld bytes are too many to draw at once, at most 2^32 bytes (%s)",
                         t->recall->what, (long long)t->windows, (long long)o->context, t->recall->what);
    t->tokens = malloc((size_t)(t->windows * o->context) * sizeof *t->tokens);
    t->right = calloc((size_t)t->windows, sizeof *t->right);
    if (!t->tokens || !t->right)
        status = gyre_fail(err, GYRE_ENOMEM, "%s: out of memory (%s)", t->recall->what, t->recall->what);
    uint64_t state = o->seed;
    for (int64_t w = 0; w < t->windows && !status; w++)
        t->recall->draw(text, t->count, o->context, &state, t->tokens + w * o->context, NULL);
    const gyre_eval_windows windows = {t->model, o->encoding,    o->context, t->windows, read_window,
                                       t,        GYRE_DTYPE_F32, o->team,    0,          GYRE_PRODUCTS_F32};
    t->eval_windows = &windows;
    if (!status) status = gyre_eval_windows_run(&windows, exec, err);
    status = gyre_eval_windows_share(&windows, status, t->right, sizeof *t->right, err);
    if (!status) summarise(t, out);
    free(t->tokens);
    free(t->right);
    return status;
}

gyre_status gyre_recall_measure(const gyre_recall *recall, const gyre_model *model, const gyre_text *text,
                                const gyre_passkey_options *options, gyre_passkey_result *out, const gyre_exec *exec,
                                gyre_error *err) {
    gyre_passkey_options own;
    const gyre_status status = gyre_sized_read(&own, sizeof own, options, "gyre_passkey_options", err);
    if (status) return status;
    if (!own.trials) own.trials = 104;
    if (!own.keys) own.keys = recall->default_count;
    trials t = {.recall = recall, .model = model, .options = &own};
    return measure(&t, text, out, exec, err);
}
