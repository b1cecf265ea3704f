/* extend_verdict.c: which method to take, and why: by what was measured, else by rules. */
#include "tools/extend/extend_verdict.h"
#include "tools/cli/cli_parse.h"
#include "tools/common/model_path.h"
#include "tools/common/result_table.h"
#include "util/error.h"
#include "util/path.h"
#include "util/plain_numbers.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Factors above this are published with fine-tuning alone (YaRN's paper: 16 and 32); Qwen's model cards give 4 without. */
enum { MAX_UNTUNED_FACTOR = 4 };
/* A perplexity of this share of the vocabulary or more is that of a model that guesses. */
static const double MIN_GUESSING_SHARE = 0.5;

/* -- what the model's config reaches by itself -- */
int64_t extend_stated_length(const extension *e) {
    for (int64_t i = 0; i < e->group->fields_count; i++)
        if (strcmp(e->group->fields[i].name, "max_length") == 0) return strtoll(e->group->fields[i].value, NULL, 10);
    return 0;
}

static int is_scaled(const struct gyre_rope_config *rope) {
    return rope->scaling != GYRE_SCALING_NONE && !(rope->scaling == GYRE_SCALING_PROPORTIONAL && !(rope->factor > 1));
}

/* out = tokens that the config reaches with the scaling that it has. */
static int64_t reach_of_config(const extension *e) {
    const struct gyre_rope_config *rope = &e->group->config.rope;
    if (!is_scaled(rope)) return e->trained;
    const int64_t stated = extend_stated_length(e), stretched = (int64_t)llround(rope->factor * (double)e->trained);
    const int counts_from_original = rope->scaling == GYRE_SCALING_YARN || rope->scaling == GYRE_SCALING_BY_PARTS ||
                                     rope->scaling == GYRE_SCALING_DYNAMIC_NTK;
    return counts_from_original && stretched > stated ? stretched : stated > e->trained ? stated : e->trained;
}

/* -- rules -- */
static int64_t find_row(const extend_method *methods, int64_t count, const char *name) {
    const size_t length = strlen(name);
    for (int64_t i = 0; i < count; i++)
        if (strncmp(methods[i].label, name, length) == 0 && (!methods[i].label[length] || methods[i].label[length] == ':'))
            return i;
    return -1;
}

/* out = the first row of a list of names, "" at its end; -1 if there is none of them. */
static int64_t first_row(const extend_method *methods, int64_t count, const char *const names[]) {
    for (int i = 0; *names[i]; i++) {
        const int64_t row = find_row(methods, count, names[i]);
        if (row >= 0) return row;
    }
    return -1;
}

static int is_published_for(const extension *e, double factor) {
    static const char *const types[] = {"qwen2", "qwen2_moe", "qwen3", "qwen3_moe"};
    if (e->trained != 32768 || factor > MAX_UNTUNED_FACTOR) return 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(e->reading->model_type, types[i]) == 0) return 1;
    return 0;
}

/* out = the name of the method that continues the model's own scaling; NULL = none can. */
static const char *same_family(gyre_scaling scaling) {
    switch (scaling) {
    case GYRE_SCALING_LINEAR:
    case GYRE_SCALING_PROPORTIONAL:
        return "linear";
    case GYRE_SCALING_DYNAMIC_NTK:
        return "dynamic";
    case GYRE_SCALING_BY_PARTS:
        return "by-parts";
    case GYRE_SCALING_YARN:
        return "yarn";
    case GYRE_SCALING_LLAMA3:
        return "llama3";
    case GYRE_SCALING_LONGROPE:
        return "longrope";
    default:
        return NULL;
    }
}

typedef struct rule {
    const extension *e;
    const extend_method *methods;
    const extend_effect *rows;
    int64_t count;
} rule;

/* The unchanged model, where it reaches.  out = -1 if it does not. */
static int64_t keep_model(const rule *r, char *reason, size_t size) {
    const extension *e = r->e;
    const int64_t reach = reach_of_config(e), none = find_row(r->methods, r->count, "none");
    if (none < 0 || e->to > reach) return -1;
    if (is_scaled(&e->group->config.rope))
        snprintf(reason, size,
                 "the config's own scaling already reaches %lld tokens, and published weights with a scaling are as a rule "
                 "tuned under it",
                 (long long)reach);
    else
        snprintf(reason, size, "%lld tokens are within the trained length of %lld: nothing has to change", (long long)e->to,
                 (long long)reach);
    return none;
}

/* out = the index of an engine among the readers of the table. */
static int reader_of(int engine) {
    static const gyre_profile profiles[EXTEND_ENGINES] = {GYRE_PROFILE_HF_5, GYRE_PROFILE_VLLM, GYRE_PROFILE_LLAMA_CPP};
    for (int i = 0; i < EXTEND_READERS; i++)
        if (extend_readers[i] == profiles[engine]) return i;
    return 0;
}

/* Adds a clause. */
static void add(char *reason, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(char *reason, size_t size, const char *format, ...) {
    size_t used = strlen(reason);
    va_list arguments;
    if (used) used += (size_t)snprintf(reason + used, size - used, "; ");
    va_start(arguments, format);
    if (used < size) vsnprintf(reason + used, size - used, format, arguments);
    va_end(arguments);
}

/* Goes on as the model's own scaling does, with a larger factor. */
static int64_t continue_scaling(const rule *r, char *reason, size_t size) {
    const struct gyre_rope_config *rope = &r->e->group->config.rope;
    const char *family = is_scaled(rope) ? same_family(rope->scaling) : NULL;
    const int64_t row = family ? find_row(r->methods, r->count, family) : -1, reach = reach_of_config(r->e);
    if (row < 0) return -1;
    if (rope->scaling == GYRE_SCALING_LONGROPE)
        add(reason, size,
            "the model was tuned under these lists, for %lld tokens; they go on as they are and stretch no further, and "
            "gyre "
            "search finds others",
            (long long)reach);
    else
        add(reason, size,
            "the model has this scaling already: a larger factor changes least of what it was tuned for, which ends at %lld "
            "tokens",
            (long long)reach);
    return row;
}

static int is_read_by_all(const extend_effect *row) {
    int all = 1;
    for (int i = 0; i < EXTEND_READERS; i++)
        all &= row->support[i] == EXTEND_SUPPORT_SAME;
    return all;
}

static int64_t stretch_untuned(const rule *r, char *reason, size_t size) {
    static const char *const order[] = {"yarn",    "by-parts",  "llama3", "longrope", "ntk",
                                        "dynamic", "ntk-mixed", "linear", ""};
    const extension *e = r->e;
    const double factor = (double)e->to / (double)e->trained;
    const int64_t row = first_row(r->methods, r->count, order), none = find_row(r->methods, r->count, "none");
    const int64_t dynamic = find_row(r->methods, r->count, "dynamic");
    if (row < 0) return -1;
    const extend_effect *effect = &r->rows[row];
    const int is_yarn = strncmp(r->methods[row].label, "yarn", 4) == 0;
    if (is_yarn && is_published_for(e, factor))
        add(reason, size, "the model cards of this family give YaRN, with factors up to %d", MAX_UNTUNED_FACTOR);
    else if (is_yarn)
        add(reason, size, "YaRN keeps the pairs that distinguish near positions");
    if (is_read_by_all(effect)) add(reason, size, "transformers, vLLM and llama.cpp read it alike");
    if (none >= 0 && r->rows[none].unseen > 0)
        add(reason, size, "%lld pairs would meet angles they never met in training, with it %lld do",
            (long long)r->rows[none].unseen, (long long)effect->unseen);
    if (factor > MAX_UNTUNED_FACTOR)
        add(reason, size, "a factor of %.4g is published with fine-tuning alone, so without it expect to lose much", factor);
    if (effect->changed_from < 0)
        add(reason, size, "prompts within the trained length stay as they are");
    else if (dynamic >= 0 && r->rows[dynamic].support[reader_of(EXTEND_TRANSFORMERS)] == EXTEND_SUPPORT_SAME)
        add(reason, size,
            "prompts within the trained length change too, so start an engine for short ones without it; dynamic leaves "
            "them "
            "alone, in transformers only");
    else
        add(reason, size, "prompts within the trained length change too");
    return row;
}

static int has_rope_ratio(const gyre_layer_reading *group) {
    for (int64_t i = 0; i < group->fields_count; i++)
        if (group->fields[i].key && strcmp(group->fields[i].key, "rope_ratio") == 0) return 1;
    return 0;
}

/* The unchanged model, where no program takes any of the methods from its config.  out = -1 if one takes one. */
static int64_t give_up(const rule *r, char *reason, size_t size) {
    const int64_t none = find_row(r->methods, r->count, "none");
    char why[200];
    if (none < 0 || r->count == 1 || extend_part_of_gyre(r->e, why)) return -1;
    for (int64_t i = 0; i < r->count; i++)
        for (int k = 0; k < EXTEND_READERS && i != none; k++)
            if (r->rows[i].support[k] != EXTEND_SUPPORT_NONE) return -1;
    snprintf(reason, size,
             "neither transformers nor vLLM nor llama.cpp reads any of these methods from the %s of a %s. What remains is "
             "%sfine-tuning",
             extend_is_gguf(r->e) ? "file" : "config", r->e->reading->model_type,
             has_rope_ratio(r->e->group) ? "a larger rope_ratio, or " : "");
    return none;
}

static int64_t by_rule(const rule *r, char *reason, size_t size) {
    int64_t row = keep_model(r, reason, size);
    if (row < 0) row = give_up(r, reason, size);
    if (row < 0) row = continue_scaling(r, reason, size);
    if (row < 0) row = stretch_untuned(r, reason, size);
    if (row >= 0) return row;
    snprintf(reason, size, "it is the only method here, and no rule speaks for or against it");
    return 0;
}

/* -- by what was measured -- */
/* out = 1 if row a is worse than row b by more than chance. */
static int is_worse(const extend_cost *cost, int range, int64_t a, int64_t b) {
    const extend_mean more = extend_cost_difference(cost, range, a, b);
    return more.half >= 0 ? more.nats - more.half > 0 : more.nats > 0;
}

static int is_measured(const extend_cost *cost, int64_t row) {
    return cost->losses[row].at[EXTEND_NEAR].windows > 0 && cost->losses[row].at[EXTEND_FAR].windows > 0;
}

static double far_nats(const void *of, int64_t row) {
    const extend_cost *cost = of;
    return is_measured(cost, row) ? cost->losses[row].at[EXTEND_FAR].nats : (double)NAN;
}

/* Near by, of the rows that only chance separates from the best far off. */
typedef struct near_rows {
    const extend_cost *cost;
    int64_t best;
} near_rows;

static double near_nats(const void *of, int64_t row) {
    const near_rows *rows = of;
    const int is_equal = is_measured(rows->cost, row) && !is_worse(rows->cost, EXTEND_FAR, row, rows->best);
    return is_equal ? rows->cost->losses[row].at[EXTEND_NEAR].nats : (double)NAN;
}

/* out = the unchanged model, if only chance may separate it from the best far off; else, among the rows of which that is
 * true, the one that costs least near by. */
static int64_t best_row(const extend_cost *cost) {
    const int64_t best = result_best_row(cost->methods, far_nats, cost);
    if (best < 0 || !is_worse(cost, EXTEND_FAR, cost->none, best)) return cost->none;
    return result_best_row(cost->methods, near_nats, &(near_rows){cost, best});
}

static int mean_text(char *out, size_t size, extend_mean m) {
    return m.half < 0 ? snprintf(out, size, "%+.3f nats", m.nats)
                      : snprintf(out, size, "%+.3f +- %.3f nats", m.nats, m.half);
}

static int64_t by_cost(const extend_cost *cost, char *reason, size_t size) {
    const int64_t row = best_row(cost);
    const extend_loss *loss = &cost->losses[row], *none = &cost->losses[cost->none];
    char near[64], far[64];
    mean_text(near, sizeof near, loss->over_none[EXTEND_NEAR]);
    mean_text(far, sizeof far, loss->over_none[EXTEND_FAR]);
    if (row == cost->none)
        snprintf(reason, size,
                 "no method is better than the model as it is at %lld tokens by more than chance (perplexity %.4g; "
                 "%.4g at %lld)",
                 (long long)cost->context[EXTEND_FAR], exp(none->at[EXTEND_FAR].nats), exp(none->at[EXTEND_NEAR].nats),
                 (long long)cost->context[EXTEND_NEAR]);
    else
        snprintf(reason, size,
                 "at %lld tokens perplexity is %.4g instead of %.4g (%s), at %lld tokens %.4g instead of %.4g (%s); "
                 "of the methods that only chance separates from the best far off, it costs least near by",
                 (long long)cost->context[EXTEND_FAR], exp(loss->at[EXTEND_FAR].nats), exp(none->at[EXTEND_FAR].nats), far,
                 (long long)cost->context[EXTEND_NEAR], exp(loss->at[EXTEND_NEAR].nats), exp(none->at[EXTEND_NEAR].nats),
                 near);
    return row;
}

/* -- the rest -- */
/* Names the rows that an engine reads as they are meant, for one that cannot say the method. */
static void list_alike(const rule *r, int64_t chosen, int engine, char out[200]) {
    const int reader = reader_of(engine);
    for (int64_t i = 0; i < r->count; i++) {
        const size_t used = strlen(out);
        if (i == chosen || method_is_none(&r->methods[i].method) || r->rows[i].support[reader] != EXTEND_SUPPORT_SAME)
            continue;
        snprintf(out + used, 200 - used, "%s%s", used ? ", " : "", r->methods[i].label);
    }
}

/* A config alone has no weights to measure. */
int extend_is_config_alone(const extension *e) {
    return strlen(e->path) > 5 && gyre_ends_with(e->path, ".json");
}

void extend_model_with_weights(const extension *e, char out[900]) {
    gyre_plain_snprintf(out, 900, "%.899s", extend_is_config_alone(e) ? "FOLDER" : model_path_as_given(e->path));
}

static void suggest_command(const extension *e, char *out, size_t size) {
    char command[] = "gyre extend", model[900], to[] = "--to", length[24], text[] = "--text", file[] = "TEXT";
    char *words[] = {command, model, to, length, text, file};
    extend_model_with_weights(e, model);
    snprintf(length, sizeof length, "%lld", (long long)e->to);
    cli_command_line(6, words, out, size);
}

/* Says why no method can be judged by the figures: a model that guesses, or windows too few for an interval. */
static void warn_unfit(const extend_cost *cost, char *out, size_t size) {
    const long long near = (long long)cost->context[EXTEND_NEAR], far = (long long)cost->context[EXTEND_FAR];
    const long long windows = (long long)cost->windows[EXTEND_FAR];
    const double perplexity = exp(cost->losses[cost->none].at[EXTEND_NEAR].nats);
    if (perplexity >= MIN_GUESSING_SHARE * (double)cost->vocab)
        snprintf(out, size,
                 "The model has a perplexity of %.4g at %lld tokens, within its trained length; a guess among its "
                 "vocabulary has %lld. It cannot read this text, so these results cannot judge the methods.",
                 perplexity, near, (long long)cost->vocab);
    else if (windows < EXTEND_MIN_WINDOWS && cost->max_windows < EXTEND_MIN_WINDOWS)
        snprintf(out, size,
                 "No recommendation follows from %lld window%s of %lld tokens, because chance is not known: %d are needed "
                 "(--windows).",
                 windows, windows == 1 ? "" : "s", far, EXTEND_MIN_WINDOWS);
    else if (windows < EXTEND_MIN_WINDOWS)
        snprintf(out, size,
                 "No recommendation follows from %lld window%s of %lld tokens, because chance is not known: %d are needed, "
                 "which a text of %lld tokens has.",
                 windows, windows == 1 ? "" : "s", far, EXTEND_MIN_WINDOWS, far + (EXTEND_MIN_WINDOWS - 1) * (far / 2) + 1);
}

gyre_status extend_verdict_make(const extension *e, const extend_method *methods, const extend_effect *rows, int64_t count,
                                extend_verdict *out, gyre_error *err) {
    const rule r = {e, methods, rows, count};
    const extend_cost *cost = &out->cost;
    const int complete = cost->losses && is_measured(cost, cost->none) && cost->complete;
    if (complete) warn_unfit(cost, out->warning, sizeof out->warning);
    const int measured = complete && !*out->warning;
    out->method = measured ? by_cost(cost, out->reason, sizeof out->reason) : by_rule(&r, out->reason, sizeof out->reason);
    if (!measured) suggest_command(e, out->measure, sizeof out->measure);
    const gyre_status status = extend_advice_make(&methods[out->method], &rows[out->method], e, out->advice, err);
    for (int i = 0; i < EXTEND_ENGINES && !status; i++)
        if (out->advice[i].support != EXTEND_SUPPORT_SAME && !method_is_none(&methods[out->method].method))
            list_alike(&r, out->method, i, out->alike[i]);
    return status;
}

void extend_verdict_free(extend_verdict *verdict) {
    extend_advice_free(verdict->advice);
    extend_cost_free(&verdict->cost);
}
