/* eval_budget.c: how long gyre eval will take on this machine, and what fits into --budget. */
#include "tools/cli/cli_progress.h"
#include "tools/eval/eval.h"
#include "tools/team/team.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a window costs: products cost the same for every token, attention more with each.  The trial reads two windows. */
typedef struct cost {
    double per_token, per_pair; /* seconds, seconds per square of the window */
} cost;

enum { SHORT_TRIAL = 128, LONG_TRIAL = 512, FEW_WINDOWS = 3 /* fewest that give an interval */ };
static const double LONG_WORK = 1e12; /* products of a weight and a token, below which a run takes seconds */

static gyre_status time_window(const evaluation *e, int64_t tokens, double *seconds, gyre_error *err) {
    gyre_eval_options eval = eval_options_at(e, tokens);
    gyre_eval_result figures;
    eval.windows = 1;
    eval.stride = 0;
    const double started = cli_seconds();
    const gyre_status status = gyre_evaluate(e->input.model, &e->input.texts[0], &eval, &figures, &e->exec, err);
    *seconds = cli_seconds() - started;
    return status;
}

/* The first window touches the weights and is not counted. */
static gyre_status try_cost(const evaluation *e, cost *out, gyre_error *err) {
    const int64_t longest = e->options.contexts.values[e->options.contexts.count - 1];
    const int64_t many = longest < LONG_TRIAL ? longest : LONG_TRIAL, few = many < 4 * SHORT_TRIAL ? many : SHORT_TRIAL;
    double first, short_time, long_time;
    gyre_status status = time_window(e, few, &first, err);
    if (!status) status = time_window(e, few, &short_time, err);
    if (!status) status = time_window(e, many, &long_time, err);
    if (status) return status;
    const double n = (double)few, m = (double)many;
    out->per_pair = m > n ? fmax((long_time / m - short_time / n) / (m - n), 0) : 0;
    out->per_token = long_time / m - out->per_pair * m;
    return GYRE_OK;
}

static double window_seconds(const cost *c, int64_t context) {
    const double n = (double)context;
    return c->per_token * n + c->per_pair * n * n;
}

/* Seconds of the whole run with at most so many windows per context (0 = all), at the first `contexts` contexts. */
static double run_seconds(const evaluation *e, const cost *c, int64_t windows, int64_t contexts) {
    double sum = 0;
    for (int64_t t = 0; t < e->input.texts_count; t++)
        for (int64_t l = 0; l < contexts; l++) {
            const int64_t context = e->options.contexts.values[l], all = eval_windows_of(e, t, context);
            sum += (double)(windows && windows < all ? windows : all) * window_seconds(c, context);
        }
    return sum * (double)e->rows_count;
}

static double run_work(const evaluation *e) {
    const cost each = {(double)gyre_model_parameters(e->input.model), 0};
    return run_seconds(e, &each, e->options.windows, e->options.contexts.count);
}

static int64_t most_windows(const evaluation *e) {
    int64_t most = 1;
    for (int64_t t = 0; t < e->input.texts_count; t++) {
        const int64_t windows = eval_windows_of(e, t, e->options.contexts.values[0]);
        if (windows > most) most = windows;
    }
    return e->options.windows && e->options.windows < most ? e->options.windows : most;
}

enum { SPAN = 48 };
static const char *span_text(double seconds, char out[SPAN]) {
    if (seconds < 100)
        snprintf(out, SPAN, "%.2g s", seconds);
    else if (seconds < 5400)
        snprintf(out, SPAN, "%.0f min", seconds / 60);
    else
        snprintf(out, SPAN, "%.1f h", seconds / 3600);
    return out;
}

/* Says what is left, with the options that do the same again: another trial may choose otherwise. */
static void say_choice(const evaluation *e, int64_t windows, int64_t all, int64_t dropped, double seconds) {
    char took[SPAN], left_out[96] = "";
    const length_list *contexts = &e->options.contexts;
    if (dropped)
        snprintf(left_out, sizeof left_out, "; %lld tokens%s left out", (long long)contexts->values[contexts->count],
                 dropped > 1 ? " and longer contexts are" : " are");
    cli_warn("--budget: --windows %lld (at most %lld are in the text) and contexts up to %lld take about %s here%s (eval)",
             (long long)windows, (long long)all, (long long)contexts->values[contexts->count - 1], span_text(seconds, took),
             left_out);
}

static int say_time(double seconds) {
    char span[SPAN];
    cli_warn("about %s here, by a trial of %d tokens (eval)", span_text(seconds, span), LONG_TRIAL);
    return 0;
}

/* As many windows as fit; if fewer than FEW_WINDOWS do, the longest contexts are left out. */
static int fit(evaluation *e, const cost *c) {
    eval_options *o = &e->options;
    char span[SPAN], budget[SPAN];
    const int64_t all = most_windows(e), few = all < FEW_WINDOWS ? all : FEW_WINDOWS, count = o->contexts.count;
    int64_t contexts = count, windows = all;
    while (contexts > 1 && run_seconds(e, c, few, contexts) > o->budget)
        contexts--;
    while (windows > 1 && run_seconds(e, c, windows, contexts) > o->budget)
        windows = windows > 64 ? windows - windows / 16 : windows - 1;
    const double seconds = run_seconds(e, c, windows, contexts);
    if (seconds > o->budget)
        return cli_fail(
            "--budget: %s are too few for one window of %lld tokens under each method, which take about %s (eval)",
            span_text(o->budget, budget), (long long)o->contexts.values[0], span_text(seconds, span));
    if (contexts == count && windows == all) return say_time(seconds); /* the run stays what it is without --budget */
    o->contexts.count = contexts;
    o->windows = windows;
    say_choice(e, windows, all, count - contexts, seconds);
    return 0;
}

int eval_budget_plan(evaluation *e) {
    const eval_options *o = &e->options;
    cost each;
    gyre_error err = {0, ""};
    if (team_get()) return o->budget > 0 ? cli_fail("--budget: is for one process, and here are several (mpirun)") : 0;
    if (!(o->budget > 0) && run_work(e) < LONG_WORK) return 0;
    if (try_cost(e, &each, &err)) return cli_fail_error(&err);
    if (o->budget > 0) return fit(e, &each);
    return say_time(run_seconds(e, &each, o->windows, o->contexts.count));
}
