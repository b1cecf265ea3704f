/* explorer_model.c: the bundled model in the page. */
#include "explorer/wasm/explorer_model.h"
#include "gyre/gyre_research.h"
#include "tools/common/methods.h"
#include "util/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__wasm__)
/* Tells the page how many more tokens were read. */
__attribute__((import_module("gyre"), import_name("progress"))) void explorer_progress(double tokens);
#else
static void explorer_progress(double tokens) {
    (void)tokens;
}
#endif

enum { DIGITS = 4 };

static gyre_model *model;
static int64_t first_position; /* of the windows of explorer_evaluate */

int explorer_model_open(const char *folder) {
    if (model) return GYRE_OK;
    return gyre_model_open(&model, folder, NULL, &explorer_failure);
}

double explorer_model_number(int which) {
    if (!model) return 0;
    const gyre_model_config *config = gyre_model_get_config(model);
    const double numbers[] = {(double)gyre_model_parameters(model),
                              (double)config->layers,
                              (double)config->heads,
                              (double)config->head_dim,
                              config->position.rope.base,
                              (double)config->position.trained_length};
    return which >= 0 && which < (int)(sizeof numbers / sizeof *numbers) ? numbers[which] : 0;
}

/* -- a text and a method -- */
/* What a measurement needs, made from the strings of the page. */
typedef struct job {
    gyre_text text; /* ids: bytes */
    gyre_encoding *encoding;
} job;

static void job_end(job *j) {
    gyre_text_free(&j->text);
    gyre_encoding_free(j->encoding);
}

static gyre_status read_bytes(const char *text, int bytes, gyre_text *out, gyre_error *err) {
    out->ids = malloc((size_t)bytes * sizeof *out->ids + 1);
    if (!out->ids) return gyre_fail(err, GYRE_ENOMEM, "text: out of memory (explorer)");
    for (int i = 0; i < bytes; i++)
        out->ids[i] = (unsigned char)text[i];
    out->count = out->bytes = bytes;
    out->files = 1;
    return GYRE_OK;
}

/* As gyre eval: a method is made for the length of the window. */
static gyre_status job_begin(job *out, const char *text, int bytes, const char *name, int context, gyre_error *err) {
    *out = (job){.encoding = NULL};
    if (!model) return gyre_fail(err, GYRE_EINVAL, "model: not open (explorer)");
    const gyre_config *base = gyre_encoding_get_config(gyre_model_get_encoding(model));
    method m;
    gyre_status status = read_bytes(text, bytes, &out->text, err);
    if (!status) status = method_parse(name, &m, err);
    if (!status) status = method_encoding(&m, base, base->trained_length, context, NULL, &out->encoding, err);
    return status;
}

static void progress(void *ctx, int64_t done, int64_t all) {
    (void)ctx, (void)all;
    explorer_progress((double)done);
}

/* -- measurements -- */
void explorer_move(double first) {
    first_position = (int64_t)first;
}

int explorer_evaluate(const char *text, int bytes, const char *method, int context, int windows, int buckets,
                      double *by_position, double *out) {
    job j;
    gyre_eval_options options = GYRE_INIT(gyre_eval_options);
    options.context = context;
    options.windows = windows;
    options.first_position = first_position;
    options.by_position = buckets > 0 ? by_position : NULL;
    options.buckets = buckets;
    options.watcher.progress = progress;
    gyre_eval_result result = {0, 0, 0};
    gyre_status status = job_begin(&j, text, bytes, method, context, &explorer_failure);
    options.encoding = j.encoding;
    if (!status) status = gyre_evaluate(model, &j.text, &options, &result, NULL, &explorer_failure);
    job_end(&j);
    if (status) return status;
    out[0] = result.nats;
    out[1] = (double)result.windows;
    out[2] = (double)result.scored;
    out[3] = exp(result.nats);
    return GYRE_OK;
}

/* One head of what a whole layer wrote: rows of `heads` blocks of `width` floats. */
static void copy_head(const float *all, int64_t rows, int64_t heads, int64_t head, int64_t width, float *out) {
    for (int64_t r = 0; r < rows; r++)
        memcpy(out + r * width, all + (r * heads + head) * width, (size_t)width * sizeof *out);
}

int explorer_attention(const char *text, int bytes, const char *method, int layer, int head, float *weights, float *q,
                       float *k) {
    job j;
    gyre_status status = job_begin(&j, text, bytes, method, bytes, &explorer_failure);
    if (status) {
        job_end(&j);
        return status;
    }
    const gyre_model_config *c = gyre_model_get_config(model);
    const int64_t n = bytes, group = c->heads / c->kv_heads;
    if (head < 0 || head >= c->heads)
        status = gyre_fail(&explorer_failure, GYRE_EINVAL, "head: %d of %lld (explorer)", head, (long long)c->heads);
    float *all = status ? NULL : calloc((size_t)(n * c->heads * n), sizeof *all);
    float *queries = malloc((size_t)(n * c->heads * c->head_dim) * sizeof *queries);
    float *keys = malloc((size_t)(n * c->kv_heads * c->head_dim) * sizeof *keys);
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_context *reader = NULL;
    options.encoding = j.encoding;
    options.max_tokens = n;
    options.order = GYRE_ORDER_FIXED;
    if (!status && (!all || !queries || !keys))
        status =
            gyre_fail(&explorer_failure, GYRE_ENOMEM, "weights: out of memory for %lld tokens (explorer)", (long long)n);
    if (!status) status = gyre_context_create(&reader, model, &options, &explorer_failure);
    if (!status) status = gyre_context_watch(reader, layer, all, &explorer_failure);
    if (!status) status = gyre_context_watch_heads(reader, layer, queries, keys, &explorer_failure);
    if (!status) status = gyre_context_forward(reader, j.text.ids, n, 0, NULL, &explorer_failure);
    if (!status) {
        copy_head(all, n, c->heads, head, n, weights);
        copy_head(queries, n, c->heads, head, c->head_dim, q);
        copy_head(keys, n, c->kv_heads, head / group, c->head_dim, k);
    }
    explorer_progress((double)n);
    gyre_context_free(reader);
    free(all);
    free(queries);
    free(keys);
    job_end(&j);
    return status;
}

int explorer_passkey(const char *text, int bytes, const char *method, int context, int trials, double seed, double *out) {
    job j;
    gyre_passkey_options options = GYRE_INIT(gyre_passkey_options);
    options.context = context;
    options.trials = trials;
    options.seed = (uint64_t)seed;
    options.watcher.progress = progress;
    gyre_passkey_result result = {0, 0, 0};
    gyre_status status = job_begin(&j, text, bytes, method, context, &explorer_failure);
    options.encoding = j.encoding;
    if (!status) status = gyre_passkey(model, &j.text, &options, &result, NULL, &explorer_failure);
    job_end(&j);
    if (status) return status;
    out[0] = (double)result.trials;
    out[1] = (double)result.right;
    return GYRE_OK;
}

/* -- one hidden key -- */
/* answer[i] = the likeliest byte where digit i was asked for: logits[rows][vocab] of the last rows tokens. */
static void read_answer(float *logits, int64_t vocab, char *answer) {
    const gyre_sampling likeliest = GYRE_INIT(gyre_sampling);
    uint64_t state = 0;
    for (int i = 0; i < DIGITS; i++) {
        const int32_t byte = gyre_sample(logits + i * vocab, vocab, &likeliest, &state);
        answer[i] = (char)(byte >= '0' && byte <= '9' ? byte : '?');
    }
}

/* The question is the last GYRE_PASSKEY_LENGTH bytes of the window, mark first. */
static gyre_status ask(const job *j, const int32_t *tokens, int context, char *answer, gyre_error *err) {
    const int64_t vocab = gyre_model_get_config(model)->vocab, rows = GYRE_PASSKEY_LENGTH;
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    options.encoding = j->encoding;
    options.max_tokens = context;
    options.order = GYRE_ORDER_FIXED;
    gyre_context *reader = NULL;
    float *logits = malloc((size_t)(vocab * rows) * sizeof *logits);
    gyre_status status = logits ? gyre_context_create(&reader, model, &options, err)
                                : gyre_fail(err, GYRE_ENOMEM, "logits: out of memory (explorer)");
    if (!status) status = gyre_context_forward(reader, tokens, context, rows, logits, err);
    if (!status) read_answer(logits, vocab, answer);
    gyre_context_free(reader);
    free(logits);
    explorer_progress(context);
    return status;
}

/* out = where the key with the mark of the question stands. */
static int find_key(const int32_t *tokens, int context) {
    const int question = context - GYRE_PASSKEY_LENGTH;
    int at = 0;
    while (at < question && tokens[at] != tokens[question])
        at++;
    return at;
}

int explorer_hide_key(const char *text, int bytes, const char *method, int context, double seed, unsigned char *window,
                      int *out, char *answer) {
    job j;
    gyre_status status = job_begin(&j, text, bytes, method, context, &explorer_failure);
    if (!status && (context < 4 * GYRE_PASSKEY_LENGTH || context > bytes))
        status = gyre_fail(&explorer_failure, GYRE_EINVAL, "context: %d bytes; %d to the %d of the text (explorer)", context,
                           4 * GYRE_PASSKEY_LENGTH, bytes);
    int32_t *tokens = status ? NULL : malloc((size_t)context * sizeof *tokens);
    if (!status && !tokens) status = gyre_fail(&explorer_failure, GYRE_ENOMEM, "window: out of memory (explorer)");
    if (!status) {
        uint64_t state = (uint64_t)seed;
        gyre_passkey_window(&j.text, 1, context, &state, tokens, NULL);
        for (int i = 0; i < context; i++)
            window[i] = (unsigned char)tokens[i];
        out[0] = find_key(tokens, context) + 1;
        out[1] = context - GYRE_PASSKEY_LENGTH + 1;
        status = ask(&j, tokens, context, answer, &explorer_failure);
    }
    free(tokens);
    job_end(&j);
    return status;
}
