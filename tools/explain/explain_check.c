/* explain_check.c: a text read under both layouts of pairs, window by window, and what that says. */
#include "tools/explain/explain_check.h"
#include "tools/common/model_input.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const gyre_layout layouts[2] = {GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED};
static const char *const names[2] = {"half", "interleaved"};
static const double MAX_P_VALUE = 0.05, MIN_DIFFERENCE = 0.01; /* of the sign test; nats per token, 1% of a perplexity */

/* -- the verdict -- */
/* out = the chance that of n fair coins so many, or more, fall on one side: `most` on the larger. */
static double sign_test_p_value(int64_t n, int64_t most) {
    double term = 1, sum = 0; /* term = n over i */
    for (int64_t i = 0; i <= n; i++) {
        if (i >= most) sum += term;
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
    const int64_t other = c->windows - c->half_wins, most = c->half_wins > other ? c->half_wins : other;
    c->p_value = sign_test_p_value(c->windows, most);
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
    int64_t *seen = calloc((size_t)vocab, sizeof *seen), once = 0;
    if (!seen) return gyre_fail(err, GYRE_ENOMEM, "--check: out of memory for %lld tokens (vocabulary)", (long long)vocab);
    for (int64_t i = 0; i < text->count; i++)
        seen[text->ids[i]]++;
    for (int64_t i = 0; i < vocab; i++)
        once += seen[i] == 1;
    const double n = (double)text->count, covered = 1 - (double)once / n;
    double nats = covered > 0 ? 0 : log((double)vocab);
    for (int64_t i = 0; i < vocab && covered > 0; i++) {
        const double share = covered * (double)seen[i] / n;
        if (seen[i]) nats -= share * log(share) / (1 - pow(1 - share, n));
    }
    free(seen);
    *out = fmin(nats, log((double)vocab));
    return GYRE_OK;
}

/* -- the figures -- */
/* What is read, and by how many at once: one trial is one layout of one window. */
typedef struct trials {
    const model_input *input;
    const gyre_encoding *encodings[2];
    int64_t starts[CHECK_WINDOWS];
    explain_check *check;
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
    t->status[i] =
        gyre_evaluate(t->input->model, t->encodings[i % 2], &t->input->texts[0], &options, &result, NULL, &t->err[i]);
    t->check->window_nats[i % 2][window] = result.nats;
}

static gyre_status run_trials(trials *t, const gyre_exec *exec, gyre_error *err) {
    const int64_t count = 2 * t->check->windows;
    exec->run(exec->ctx, run_trial, t, count);
    for (int64_t i = 0; i < count; i++)
        if (t->status[i]) {
            if (err) *err = t->err[i];
            return t->status[i];
        }
    return GYRE_OK;
}

/* Windows side by side, spread over the text. */
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
    gyre_encoding *own[2] = {NULL, NULL};
    gyre_config config = *gyre_encoding_get_config(gyre_model_get_encoding(input->model));
    trials *t = calloc(1, sizeof *t);
    gyre_status status = t ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "--check: out of memory (%.300s)", path);
    for (int i = 0; i < 2 && status == GYRE_OK; i++) {
        config.rope.layout = layouts[i];
        status = gyre_encoding_create(&own[i], &config, NULL, err);
    }
    if (status == GYRE_OK) {
        t->input = input;
        t->check = c;
        t->encodings[0] = own[0];
        t->encodings[1] = own[1];
        status = place_windows(t, config.trained_length, path, err);
    }
    if (status == GYRE_OK) status = run_trials(t, exec, err);
    double unigram_entropy = 0;
    if (status == GYRE_OK)
        status = explain_check_unigram_entropy(&input->texts[0], gyre_model_get_config(input->model)->vocab,
                                               &unigram_entropy, err);
    if (status == GYRE_OK) explain_check_decide(c, unigram_entropy);
    gyre_encoding_free(own[0]);
    gyre_encoding_free(own[1]);
    free(t);
    return status;
}

/* -- whether there is anything to find out -- */
static int has_pairs(explain_check *c, const gyre_config *config) {
    c->verdict = CHECK_NOT_APPLICABLE;
    if (config->kind != GYRE_KIND_ROPE)
        snprintf(c->why, sizeof c->why, "the model does not turn queries and keys (%s)", gyre_kind_name(config->kind));
    else if (config->rope.axes > 1)
        snprintf(c->why, sizeof c->why, "the model turns along several axes, whose pairs are not looked for elsewhere");
    else if (config->rope.layout != GYRE_LAYOUT_HALF && config->rope.layout != GYRE_LAYOUT_INTERLEAVED)
        snprintf(c->why, sizeof c->why, "the model's pairs move from one layout to the other while they turn");
    else if (config->rope.dim < 4)
        snprintf(c->why, sizeof c->why, "a head has a single pair, which lies alike in both layouts");
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
    if (status == GYRE_OK) {
        const gyre_config *config = gyre_encoding_get_config(gyre_model_get_encoding(input.model));
        c.file = config->rope.layout;
        if (has_pairs(&c, config)) {
            status = model_input_read(&input, 2, err);
            if (status == GYRE_OK) status = measure(&c, &input, options->texts[0], exec, err);
            if (status == GYRE_OK) status = store_card(&c, &input, argc, argv, err);
        }
    }
    model_input_free(&input);
    if (status == GYRE_OK) *out = c;
    return status;
}

void explain_check_free(explain_check *check) {
    json_decref(check->card);
    check->card = NULL;
}

/* -- printing -- */
static const char *perplexity(double nats, char out[EXPLAIN_TEXT_SIZE]) {
    const double value = exp(nats);
    snprintf(out, EXPLAIN_TEXT_SIZE, value < 100 ? "%.3f" : value < 1e6 ? "%.1f" : "%.3g", value);
    return out;
}

static const char *trained_name(const explain_check *c) {
    return names[(c->verdict == CHECK_AGREES) == (c->file == GYRE_LAYOUT_HALF) ? 0 : 1];
}

static void say(const explain_terminal *page, explain_style style, const char *mark, const char *text) {
    const int column = *mark ? explain_print(page, style, "%s", mark) : 0;
    explain_print_wrapped(page, *mark ? EXPLAIN_STYLE_PLAIN : style, column, column, text);
}

void explain_check_view(const explain_terminal *page, const explain_check *c, const char *model) {
    char text[1200], half[EXPLAIN_TEXT_SIZE], inter[EXPLAIN_TEXT_SIZE];
    const char *file = names[c->file == GYRE_LAYOUT_HALF ? 0 : 1];
    const size_t length = strlen(model);
    const int is_gguf = length > 5 && strcmp(model + length - 5, ".gguf") == 0;
    fputc('\n', page->file);
    if (c->verdict == CHECK_NOT_APPLICABLE) {
        snprintf(text, sizeof text, "check: nothing to check, for %s", c->why);
        say(page, EXPLAIN_STYLE_PLAIN, "", text);
        return;
    }
    snprintf(text, sizeof text, "check: perplexity over %lld windows of %lld tokens: half %s, interleaved %s",
             (long long)c->windows, (long long)c->context, perplexity(c->nats[0], half), perplexity(c->nats[1], inter));
    say(page, EXPLAIN_STYLE_PLAIN, "", text);
    if (c->verdict == CHECK_UNDECIDED) {
        snprintf(text, sizeof text, "undecided: %s", c->why);
        say(page, EXPLAIN_STYLE_YELLOW, "? ", text);
    } else if (c->verdict == CHECK_AGREES) {
        snprintf(text, sizeof text, "trained with %s, as the file says", trained_name(c));
        say(page, EXPLAIN_STYLE_GREEN, "", text);
    } else {
        snprintf(text, sizeof text, "WRONG LAYOUT: the file says %s, the weights were trained with %s.  Convert them with\n",
                 file, trained_name(c));
        text[strlen(text) - 1] = '\0';
        say(page, EXPLAIN_STYLE_RED, "! ", text);
        explain_print_spaces(page, 2);
        explain_print(page, EXPLAIN_STYLE_BOLD, "gyre convert %.400s -o FIXED%s --from-layout %s", model,
                      is_gguf ? ".gguf" : "", trained_name(c));
        fputc('\n', page->file);
    }
    fprintf(page->file, "\n%s\n", c->card_text);
}

static json_t *numbers_json(const double *x, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count && list; i++)
        (void)json_array_append_new(list, cli_json_number(exp(x[i])));
    return list;
}

json_t *explain_check_json(const explain_check *c, const char *text) {
    static const char *const verdicts[] = {"nothing", "undecided", "agrees", "disagrees"};
    const int decided = c->verdict == CHECK_AGREES || c->verdict == CHECK_DISAGREES;
    json_t *root = json_object();
    int bad = json_object_set_new(root, "verdict", json_string(verdicts[c->verdict]));
    bad |= json_object_set_new(root, "trained", decided ? json_string(trained_name(c)) : json_null());
    bad |= json_object_set_new(root, "why", *c->why ? json_string(c->why) : json_null());
    bad |= json_object_set_new(root, "text", explain_json_text(text));
    if (c->verdict != CHECK_NOT_APPLICABLE) {
        bad |= json_object_set_new(root, "file", json_string(names[c->file == GYRE_LAYOUT_HALF ? 0 : 1]));
        bad |= json_object_set_new(root, "half", cli_json_number(exp(c->nats[0])));
        bad |= json_object_set_new(root, "interleaved", cli_json_number(exp(c->nats[1])));
        bad |= json_object_set_new(root, "windows", json_integer(c->windows));
        bad |= json_object_set_new(root, "context", json_integer(c->context));
        bad |= json_object_set_new(root, "half_better", json_integer(c->half_wins));
        bad |= json_object_set_new(root, "chance", cli_json_number(c->p_value));
        bad |= json_object_set(root, "card", c->card);
        bad |= json_object_set_new(root, "half_by_window", numbers_json(c->window_nats[0], c->windows));
        bad |= json_object_set_new(root, "interleaved_by_window", numbers_json(c->window_nats[1], c->windows));
    }
    if (!bad) return root;
    json_decref(root);
    return NULL;
}
