/* passkey.c: passkey retrieval: can the model still find a key that it read long ago?  Perplexity alone does not tell. */
#include "core/sized.h"
#include "eval/eval_windows.h"
#include "model/ops/logits.h"
#include "model/ops/random.h"
#include "util/error.h"
#include <stdlib.h>
#include <string.h>

enum {
    END_MARK = GYRE_PASSKEY_MARK + GYRE_PASSKEY_KEYS,
    DIGITS = 4,
    MIN_BYTES_PER_KEY = 2 * GYRE_PASSKEY_LENGTH + 4 /* bytes of a window per key: hidden, asked for, and some text */
};

/* No pair of adjacent digits occurs twice in a window, so that any two symbols of an answer determine the next one. */
static void draw_keys(int64_t keys, uint64_t *state, int32_t digits[][DIGITS]) {
    unsigned char used[100] = {0};
    for (int64_t k = 0; k < keys; k++) {
        int fresh;
        do {
            for (int i = 0; i < DIGITS; i++)
                digits[k][i] = (int32_t)gyre_random_below(state, 10);
            const int32_t *d = digits[k];
            const int a = d[0] * 10 + d[1], b = d[1] * 10 + d[2], c = d[2] * 10 + d[3];
            fresh = !used[a] && !used[b] && !used[c] && a != b && b != c && a != c;
            if (fresh) used[a] = used[b] = used[c] = 1;
        } while (!fresh);
    }
}

static void write_key(int32_t *out, int32_t mark, const int32_t *digits) {
    out[0] = mark;
    for (int i = 0; i < DIGITS; i++)
        out[1 + i] = '0' + digits[i];
    out[1 + DIGITS] = END_MARK;
}

static void shuffle(int32_t *order, int64_t n, uint64_t *state) {
    for (int64_t i = 0; i < n; i++)
        order[i] = (int32_t)i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = gyre_random_below(state, i + 1);
        const int32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

static int64_t clamp_keys(int64_t keys, int64_t length) {
    const int64_t fit = length / MIN_BYTES_PER_KEY, max = fit < GYRE_PASSKEY_KEYS ? fit : GYRE_PASSKEY_KEYS;
    return keys > max ? max : keys;
}

void gyre_passkey_window(const gyre_text *text, int64_t keys, int64_t length, uint64_t *state, int32_t *out,
                         unsigned char *asked) {
    int32_t digits[GYRE_PASSKEY_KEYS][DIGITS], marks[GYRE_PASSKEY_KEYS], order[GYRE_PASSKEY_KEYS];
    keys = clamp_keys(keys, length);
    const int64_t start = gyre_random_below(state, text->count - length + 1), body = length - keys * GYRE_PASSKEY_LENGTH;
    for (int64_t i = 0; i < length; i++)
        out[i] = text->ids[start + i] >= GYRE_PASSKEY_MARK ? '?' : text->ids[start + i];
    if (asked) memset(asked, 0, (size_t)length);
    draw_keys(keys, state, digits);
    shuffle(marks, GYRE_PASSKEY_KEYS, state);
    shuffle(order, keys, state);
    for (int64_t k = 0; k < keys; k++) { /* the body is split into equal parts, with one key anywhere in each */
        const int64_t from = k * body / keys, slack = (k + 1) * body / keys - from - GYRE_PASSKEY_LENGTH;
        write_key(out + from + gyre_random_below(state, slack + 1), GYRE_PASSKEY_MARK + marks[k], digits[k]);
    }
    for (int64_t k = 0; k < keys; k++) {
        const int64_t at = body + k * GYRE_PASSKEY_LENGTH;
        write_key(out + at, GYRE_PASSKEY_MARK + marks[order[k]], digits[order[k]]);
        if (asked) memset(asked + at + 1, 1, DIGITS);
    }
}

typedef struct trials {
    const gyre_model *model;
    const gyre_text *text;
    const gyre_passkey_options *options;
    const gyre_eval_windows *eval_windows;
    int64_t keys, windows;
    int32_t *tokens; /* [windows][context] */
    int64_t *right;  /* [windows] keys found */
} trials;

/* The questions are the last keys * GYRE_PASSKEY_LENGTH tokens; logits row i predicts the token after it. */
static gyre_status read_window(void *ctx, gyre_context *reader, float *logits, int64_t index, gyre_error *err) {
    trials *t = ctx;
    const int64_t context = t->options->context, vocab = gyre_model_get_config(t->model)->vocab;
    const int64_t rows = t->keys * GYRE_PASSKEY_LENGTH, first = context - rows;
    const int32_t *tokens = t->tokens + index * context;
    float *out = logits;
    for (int64_t from = 0, n; from < context; from += n) {
        if (t->options->stop && t->options->stop(t->options->progress_ctx))
            return gyre_fail(err, GYRE_EIO, "windows: stopped (passkey)");
        n = gyre_eval_window_chunk(t->eval_windows, from, first);
        const int64_t wanted = from + n <= first ? 0 : from < first ? from + n - first : n;
        const gyre_status status = gyre_context_forward(reader, tokens + from, n, wanted, out, err);
        if (status) return status;
        out += wanted * vocab;
    }
    for (int64_t k = 0; k < t->keys; k++) {
        int right = 1;
        for (int64_t i = k * GYRE_PASSKEY_LENGTH; i < k * GYRE_PASSKEY_LENGTH + DIGITS; i++)
            right &= gyre_argmax(logits + i * vocab, vocab) == tokens[first + i + 1];
        t->right[index] += right;
    }
    if (t->options->progress) t->options->progress(t->options->progress_ctx, context, t->windows * context);
    return GYRE_OK;
}

static gyre_status check_options(const gyre_model *model, const gyre_text *text, const gyre_passkey_options *o,
                                 gyre_error *err) {
    if (gyre_model_get_config(model)->vocab < 256)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "passkey: a vocabulary of %lld holds no bytes (passkey)",
                         (long long)gyre_model_get_config(model)->vocab);
    if (o->trials < 1 || o->keys < 1 || o->keys > GYRE_PASSKEY_KEYS || o->context < MIN_BYTES_PER_KEY)
        return gyre_fail(
            err, GYRE_EINVAL, "passkey: context %lld, trials %lld, keys %lld: at least %d, 1 and 1 .. %d (passkey)",
            (long long)o->context, (long long)o->trials, (long long)o->keys, MIN_BYTES_PER_KEY, GYRE_PASSKEY_KEYS);
    if (text->count < o->context)
        return gyre_fail(err, GYRE_EINVAL, "text: %lld tokens, a window needs %lld (passkey)", (long long)text->count,
                         (long long)o->context);
    return GYRE_OK;
}

static gyre_status measure(const gyre_model *model, const gyre_encoding *encoding, const gyre_text *text,
                           const gyre_passkey_options *options, gyre_passkey_result *out, const gyre_exec *exec,
                           gyre_error *err) {
    gyre_status status = check_options(model, text, options, err);
    if (status) return status;
    trials t = {.model = model, .text = text, .options = options, .keys = clamp_keys(options->keys, options->context)};
    t.windows = (options->trials + t.keys - 1) / t.keys;
    const size_t count = (size_t)(t.windows * options->context);
    t.tokens = malloc(count * sizeof *t.tokens);
    t.right = calloc((size_t)t.windows, sizeof *t.right);
    if (!t.tokens || !t.right) status = gyre_fail(err, GYRE_ENOMEM, "passkey: out of memory (passkey)");
    uint64_t state = options->seed;
    for (int64_t w = 0; w < t.windows && !status; w++)
        gyre_passkey_window(text, t.keys, options->context, &state, t.tokens + w * options->context, NULL);
    const gyre_eval_windows windows = {model,       encoding, options->context, t.windows,
                                       read_window, &t,       GYRE_DTYPE_F32,   options->team};
    t.eval_windows = &windows;
    if (!status) status = gyre_eval_windows_run(&windows, exec, err);
    status = gyre_eval_windows_share(&windows, status, t.right, sizeof *t.right, err);
    if (!status) {
        *out = (gyre_passkey_result){t.windows * t.keys, 0, t.windows};
        for (int64_t w = 0; w < t.windows; w++)
            out->right += t.right[w];
    }
    free(t.tokens);
    free(t.right);
    return status;
}

gyre_status gyre_passkey(const gyre_model *model, const gyre_encoding *encoding, const gyre_text *text,
                         const gyre_passkey_options *options, gyre_passkey_result *out, const gyre_exec *exec,
                         gyre_error *err) {
    gyre_passkey_options own;
    const gyre_status status = gyre_sized_read(&own, sizeof own, options, "gyre_passkey_options", err);
    if (status) return status;
    if (!own.trials) own.trials = 104;
    if (!own.keys) own.keys = GYRE_PASSKEY_KEYS;
    return measure(model, encoding, text, &own, out, exec, err);
}
