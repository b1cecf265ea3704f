/* run_budget.c: the trial, and the choice of what fits. */
#include "tools/measuring/run_budget.h"
#include "gyre/gyre_fields.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_progress.h"
#include <math.h>
#include <stdio.h>

/* -- the trial -- */
enum { SHORT_TRIAL = 128, LONG_TRIAL = 512, LONGEST_TRIAL = 2048, SHARE = 16, MOST_ROUNDS = 64 };
static const double ENOUGH = 0.2; /* seconds: other programs share the processor in slices of some milliseconds */

/* *seconds = of one window, the mean of several if they are short. */
static gyre_status time_window(run_trial *trial, void *ctx, int64_t tokens, double *seconds, gyre_error *err) {
    const double started = cli_seconds();
    gyre_status status = GYRE_OK;
    int rounds = 0;
    do {
        status = trial(ctx, tokens, err);
        *seconds = cli_seconds() - started;
    } while (++rounds < MOST_ROUNDS && *seconds < ENOUGH && !status);
    *seconds /= rounds;
    return status;
}

/* out = tokens of the longer window: attention to 16k tokens is not seen in 512. */
static int64_t trial_tokens(int64_t longest) {
    const int64_t share = longest / SHARE < LONGEST_TRIAL ? longest / SHARE : LONGEST_TRIAL;
    return longest < LONG_TRIAL ? longest : share < LONG_TRIAL ? LONG_TRIAL : share;
}

/* n tokens take n P products with weights and n^2 / 2 times two products of every head channel of every layer. */
run_cost run_products(const gyre_model *model) {
    const gyre_model_config *c = gyre_model_get_config(model);
    const double per_pair = (double)c->layers * (double)c->heads * (double)c->head_dim;
    return (run_cost){.per_token = (double)gyre_model_parameters(model), .per_pair = per_pair};
}

/* What two times say of the share of pairs, within what the model allows: layers may see few tokens, experts may rest, and
 * products and attention do not run at one rate. */
static double share_of_pairs(double few, double few_time, double many, double many_time, double counted) {
    enum { LEAST = 4, MOST = 8 };
    if (many <= few) return counted;
    const double per_pair = (many_time / many - few_time / few) / (many - few), per_token = few_time / few - per_pair * few;
    const double share = per_token > 0 ? per_pair / per_token : per_pair > 0 ? INFINITY : 0;
    return fmin(fmax(share, counted / LEAST), counted * MOST);
}

/* The first window touches the weights and is not counted. */
static gyre_status try_windows(run_cost *out, const run_cost *counted, int64_t many, run_trial *trial, void *ctx,
                               gyre_error *err) {
    const int64_t few = many < 4 * SHORT_TRIAL ? many : many / 4;
    double few_time = 0, many_time = 0;
    gyre_status status = trial(ctx, few < SHORT_TRIAL ? few : SHORT_TRIAL, err);
    if (!status) status = time_window(trial, ctx, few, &few_time, err);
    if (!status) status = time_window(trial, ctx, many, &many_time, err);
    if (status) return status;
    const double n = (double)few, m = (double)many;
    const double share = share_of_pairs(n, few_time, m, many_time, counted->per_pair / counted->per_token);
    *out = (run_cost){.trial = many};
    out->per_token = (few_time + many_time) / (n + m + share * (n * n + m * m));
    out->per_pair = share * out->per_token;
    return GYRE_OK;
}

gyre_status run_cost_try(run_cost *out, const gyre_model *model, int64_t longest, run_trial *trial, void *ctx,
                         gyre_error *err) {
    const run_cost counted = run_products(model);
    int64_t many = trial_tokens(longest);
    gyre_status status = try_windows(out, &counted, many, trial, ctx, err);
    while (status == GYRE_ERANGE && (many /= 2) >= 1) /* a table of positions ends before */
        status = try_windows(out, &counted, many, trial, ctx, err);
    return status;
}

double run_cost_seconds(const run_cost *cost, int64_t from, int64_t to) {
    const double n = (double)from, m = (double)to;
    return cost->per_token * (m - n) + cost->per_pair * (m * m - n * n);
}

int run_is_long(double products) {
    return products >= 1e12;
}

int64_t run_positions(const gyre_model *model) {
    const gyre_config *c = gyre_encoding_get_config(gyre_model_get_encoding(model));
    const int64_t rows = c->input.positions - c->input.offset;
    if (!gyre_kind_has(c->kind, GYRE_TRAIT_ENDS)) return INT64_MAX;
    if (!(gyre_kind_places(c->kind) & GYRE_PLACE_INPUT)) return c->score.max_positions;
    if (c->input.resized_length > 0) return c->input.resized_length;
    return c->input.hierarchy != 0 ? rows * rows : rows;
}

/* -- the plan -- */
enum { SPAN = 48, FEW = 3 /* the fewest units that give an interval */ };

static const char *span_text(double seconds, char out[SPAN]) {
    if (seconds < 100)
        snprintf(out, SPAN, "%.2g s", seconds);
    else if (seconds < 5400)
        snprintf(out, SPAN, "%.0f min", seconds / 60);
    else
        snprintf(out, SPAN, "%.1f h", seconds / 3600);
    return out;
}

static void say_time(const run_plan *p, double seconds) {
    char span[SPAN];
    cli_warn("about %s here, by a trial of %lld tokens (%s)", span_text(seconds, span), (long long)p->trial, p->command);
}

/* Says what is left, with the options that do the same again: another trial may choose otherwise. */
static void say_choice(const run_plan *p, double seconds) {
    char took[SPAN], of_all[80], up_to[80] = "", left_out[96] = "";
    const long long last = (long long)p->lengths[p->kept - 1];
    snprintf(of_all, sizeof of_all, "%s %lld%s", p->before_all, (long long)p->all, p->after_all);
    if (p->lengths_of) snprintf(up_to, sizeof up_to, " and %s up to %lld", p->lengths_of, last);
    if (p->kept + 1 == p->count)
        snprintf(left_out, sizeof left_out, "; %lld tokens are left out", (long long)p->lengths[p->kept]);
    else if (p->kept < p->count)
        snprintf(left_out, sizeof left_out, "; %lld tokens and longer %s are left out", (long long)p->lengths[p->kept],
                 p->lengths_of);
    cli_warn("--budget: %s %lld (%s)%s take about %s here%s (%s)", p->option, (long long)p->units, of_all, up_to,
             span_text(seconds, took), left_out, p->command);
}

int run_plan_fit(run_plan *p, double budget) {
    char span[SPAN], allowed[SPAN];
    const int64_t few = p->all < FEW ? p->all : FEW;
    p->kept = p->count;
    p->units = p->all;
    while (p->lengths_of && p->kept > 1 && p->seconds(p->ctx, few, p->kept) > budget)
        p->kept--;
    while (p->units > 1 && p->seconds(p->ctx, p->units, p->kept) > budget)
        p->units = p->units > 64 ? p->units - p->units / 16 : p->units - 1;
    const double seconds = p->seconds(p->ctx, p->units, p->kept);
    if (seconds > budget)
        return cli_fail("--budget: %s are too few for one %s of %lld tokens under each method, which take about %s (%s)",
                        span_text(budget, allowed), p->unit, (long long)p->lengths[0], span_text(seconds, span), p->command);
    if (p->kept == p->count && p->units == p->all)
        say_time(p, seconds); /* the run stays what it is without --budget */
    else
        say_choice(p, seconds);
    return 0;
}

void run_plan_say(run_plan *p) {
    const double seconds = p->seconds(p->ctx, p->all, p->count);
    if (seconds > 0) say_time(p, seconds);
}
