/* explain_check.c: reads a text under both layouts of pairs, window by window, and decides which one fits. */
#include "tools/explain/explain_check.h"
#include "gyre/gyre_fields.h"
#include "tools/cli/cli.h"
#include "tools/common/model_input.h"
#include "tools/options/value_names.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const gyre_layout layouts[2] = {GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED};
static const double MAX_P_VALUE = 0.05,
                    MIN_DIFFERENCE = 0.01; /* of the sign test; in nats per token, 1% of the perplexity */

/* -- the verdict -- */
/* out = the probability that `larger` or more of n fair coins show the same side. */
static double sign_test_p_value(int64_t n, int64_t larger) {
    double term = 1, sum = 0; /* term = n choose i */
    for (int64_t i = 0; i <= n; i++) {
        if (i >= larger) sum += term;
        term = term * (double)(n - i) / (double)(i + 1);
    }
    return fmin(1, 2 * sum / pow(2, (double)n));
}

void explain_check_decide(explain_check *c, double unigram_entropy) {
    c->half_wins = 0;
    for (int i = 0; i < 2; i++) {
        c->nats[i] = 0;
        for (int64_t w = 0; w < c->windows; w++)
            c->nats[i] += c->window_nats[i][w] / (double)c->windows;
    }
    for (int64_t w = 0; w < c->windows; w++)
        c->half_wins += c->window_nats[0][w] < c->window_nats[1][w];
    const int64_t other = c->windows - c->half_wins, larger = c->half_wins > other ? c->half_wins : other;
    c->p_value = sign_test_p_value(c->windows, larger);
    const int better = c->half_wins > other ? 0 : 1;
    const double gained = c->nats[1 - better] - c->nats[better];
    c->verdict = CHECK_UNDECIDED;
    if (fmin(c->nats[0], c->nats[1]) >= unigram_entropy)
        snprintf(c->why, sizeof c->why,
                 "under either layout the text is read no better than by how often its tokens come: are these its weights, "
                 "its tokenizer, its language? Rows that were permuted twice lie in neither layout");
    else if (c->p_value > MAX_P_VALUE)
        snprintf(c->why, sizeof c->why,
                 "half is better in %lld of %lld windows, which chance alone does in %.0f of 100 texts",
                 (long long)c->half_wins, (long long)c->windows, 100 * c->p_value);
    else if (!(gained >= MIN_DIFFERENCE))
        snprintf(c->why, sizeof c->why, "the perplexities differ by less than 1%%");
    else
        c->verdict = layouts[better] == c->file ? CHECK_AGREES : CHECK_DISAGREES;
}

gyre_status explain_check_unigram_entropy(const gyre_text *text, int64_t vocab, double *out, gyre_error *err) {
    int64_t *counts = calloc((size_t)vocab, sizeof *counts), once = 0;
    if (!counts) return gyre_fail(err, GYRE_ENOMEM, "--check: out of memory for %lld tokens (vocabulary)", (long long)vocab);
    for (int64_t i = 0; i < text->count; i++)
        counts[text->ids[i]]++;
    for (int64_t i = 0; i < vocab; i++)
        once += counts[i] == 1;
    const double n = (double)text->count, covered = 1 - (double)once / n;
    double nats = covered > 0 ? 0 : log((double)vocab);
    for (int64_t i = 0; i < vocab && covered > 0; i++) {
        const double p = covered * (double)counts[i] / n;
        if (counts[i]) nats -= p * log(p) / (1 - pow(1 - p, n));
    }
    free(counts);
    *out = fmin(nats, log((double)vocab));
    return GYRE_OK;
}

/* -- measuring -- */
/* All trials; one trial is one window under one layout. */
typedef struct trials {
    const model_input *input;
    const gyre_encoding *encodings[2];
    int64_t starts[CHECK_WINDOWS];
    explain_check *check;
    cli_progress progress;
    gyre_status status[2 * CHECK_WINDOWS];
    gyre_error err[2 * CHECK_WINDOWS];
} trials;

static void run_trial(void *arg, int64_t i) {
    trials *t = arg;
    const int64_t window = i / 2;
    gyre_eval_options options = GYRE_INIT(gyre_eval_options);
    gyre_eval_result result = {0};
    options.context = t->check->context;
    options.protocol = GYRE_EVAL_PROTOCOL_TRUNCATE;
    options.starts = &t->starts[window];
    options.windows = 1;
    options.encoding = t->encodings[i % 2];
    options.watcher = (gyre_watcher){cli_progress_step, NULL, &t->progress};
    t->status[i] = gyre_evaluate(t->input->model, &t->input->texts[0], &options, &result, NULL, &t->err[i]);
    t->check->window_nats[i % 2][window] = result.nats;
}

static gyre_status run_trials(trials *t, const gyre_exec *exec, gyre_error *err) {
    const int64_t count = 2 * t->check->windows;
    cli_progress_begin(&t->progress, "checking the layout", "tokens", count * t->check->context);
    exec->run(exec->ctx, run_trial, t, count);
    cli_progress_end(&t->progress);
    for (int64_t i = 0; i < count; i++)
        if (t->status[i]) {
            if (err) *err = t->err[i];
            return method_name_failure(t->status[i], gyre_layout_name(layouts[i % 2]), t->check->context, err);
        }
    return GYRE_OK;
}

/* Spreads the windows over the text, without overlap. */
static gyre_status place_windows(trials *t, int64_t trained, const char *path, gyre_error *err) {
    explain_check *c = t->check;
    const int64_t last = t->input->texts[0].count - 1;
    c->tokens = t->input->texts[0].count;
    c->windows = CHECK_WINDOWS;
    c->context = trained > 0 && trained < CHECK_MAX_CONTEXT ? trained : CHECK_MAX_CONTEXT;
    if (c->context > last / c->windows) c->context = last / c->windows;
    if (c->context < CHECK_MIN_CONTEXT)
        return gyre_fail(err, GYRE_EINVAL, "--check: %lld tokens, where at least %d are needed (%.300s)",
                         (long long)c->tokens, CHECK_WINDOWS * CHECK_MIN_CONTEXT + 1, path);
    for (int64_t i = 0; i < c->windows; i++)
        t->starts[i] = i * (last - c->context) / (c->windows - 1);
    return GYRE_OK;
}

static gyre_status measure(explain_check *c, model_input *input, const char *path, const gyre_exec *exec, gyre_error *err) {
    gyre_encoding *other = NULL; /* of the layout that the file does not state */
    const gyre_encoding *own = gyre_model_get_encoding(input->model);
    gyre_config config = *gyre_encoding_get_config(own);
    const int stated = config.rope.layout == layouts[0] ? 0 : 1;
    trials *t = calloc(1, sizeof *t);
    gyre_status status = t ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "--check: out of memory (%.300s)", path);
    config.rope.layout = layouts[1 - stated];
    if (!status) status = gyre_encoding_create(&other, &config, NULL, err);
    if (!status) {
        t->input = input;
        t->check = c;
        t->encodings[stated] = own;
        t->encodings[1 - stated] = other;
        status = place_windows(t, config.trained_length, path, err);
    }
    if (!status) status = run_trials(t, exec, err);
    double unigram_entropy = 0;
    if (!status)
        status = explain_check_unigram_entropy(&input->texts[0], gyre_model_get_config(input->model)->vocab,
                                               &unigram_entropy, err);
    if (!status) explain_check_decide(c, unigram_entropy);
    gyre_encoding_free(other);
    free(t);
    return status;
}

/* -- whether there is anything to check -- */
static int has_pairs(explain_check *c, const gyre_config *config) {
    c->verdict = CHECK_NOT_APPLICABLE;
    if (!gyre_kind_has(config->kind, GYRE_TRAIT_ROTATES))
        snprintf(c->why, sizeof c->why, "the model does not rotate queries and keys (%s)", gyre_kind_name(config->kind));
    else if (config->rope.axes > 1)
        snprintf(c->why, sizeof c->why, "the model rotates along several axes; the check is for one axis");
    else if (config->rope.layout != GYRE_LAYOUT_HALF && config->rope.layout != GYRE_LAYOUT_INTERLEAVED)
        snprintf(c->why, sizeof c->why, "the model's rotation converts pairs from one layout to the other");
    else if (config->rope.dim < 4)
        snprintf(c->why, sizeof c->why, "a head has a single pair, which is the same in both layouts");
    else
        return 1;
    return 0;
}

static gyre_status store_card(explain_check *c, const model_input *input, int argc, char **argv, gyre_error *err) {
    run_card card;
    const gyre_status status = run_card_make(&card, input, NULL, argc, argv, err);
    if (status) return status;
    run_card_text(&card, c->card_text);
    c->card = run_card_json(&card);
    return c->card ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "--check: out of memory (card)");
}

gyre_status explain_check_run(explain_check *out, const model_options *options, int argc, char **argv, const gyre_exec *exec,
                              gyre_error *err) {
    model_input input = {0};
    explain_check c = {0};
    gyre_status status = model_input_open(&input, options, 0, err);
    if (!status) {
        const gyre_config *config = gyre_encoding_get_config(gyre_model_get_encoding(input.model));
        c.file = config->rope.layout;
        if (has_pairs(&c, config)) {
            status = model_input_read(&input, 2, err);
            if (!status) status = measure(&c, &input, options->texts[0], exec, err);
            if (!status) status = store_card(&c, &input, argc, argv, err);
        }
    }
    model_input_free(&input);
    if (!status) *out = c;
    return status;
}

void explain_check_free(explain_check *check) {
    json_decref(check->card);
    check->card = NULL;
}
