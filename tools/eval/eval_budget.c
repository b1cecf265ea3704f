/* eval_budget.c: how long gyre eval will take on this machine, and what fits into --budget. */
#include "tools/eval/eval.h"
#include "tools/measuring/run_budget.h"
#include "tools/team/team.h"

typedef struct planning {
    evaluation *e;
    run_cost cost;
    int64_t given, all; /* given: --windows; all: the most that a context reads of a text */
    int64_t positions;  /* of the encoding: no longer context is read */
} planning;

/* -- the trial -- */
static gyre_status read_window(void *ctx, int64_t tokens, gyre_error *err) {
    const evaluation *e = ((planning *)ctx)->e;
    gyre_eval_options eval = eval_options_at(e, tokens);
    gyre_eval_result figures;
    double by_position[EVAL_MAX_BUCKETS];
    eval.windows = 1;
    eval.stride = 0;
    eval.buckets = e->options.buckets;
    eval.by_position = eval.buckets ? by_position : NULL;
    return gyre_evaluate(e->input.model, &e->input.texts[0], &eval, &figures, &e->exec, err);
}

/* -- the work -- */
/* out = windows of a text that one row reads at a context: of predictions, and of keys that are asked for. */
static int64_t windows_read(const evaluation *e, int64_t text, int64_t context, int64_t windows) {
    const int64_t all = eval_windows_of(e, text, context);
    const int64_t keys = (e->options.passkey + GYRE_PASSKEY_KEYS - 1) / GYRE_PASSKEY_KEYS;
    return (windows && windows < all ? windows : all) + keys;
}

/* out = what the run has to read with at most so many windows (0 = all) at the first `contexts` contexts. */
static double run_sum(planning *p, const run_cost *cost, int64_t windows, int64_t contexts) {
    evaluation *e = p->e;
    double sum = 0;
    e->options.windows = windows; /* part of the name of a cell in the journal */
    for (int64_t t = 0; t < e->input.texts_count; t++)
        for (int64_t l = 0; l < contexts; l++) {
            const int64_t context = e->options.contexts.values[l], read = windows_read(e, t, context, windows);
            const int reaches = context <= p->positions - e->options.first_position;
            for (int64_t r = 0; r < e->rows_count && reaches; r++)
                if (eval_cell_is_open(e, t, r, l)) sum += (double)read * run_cost_seconds(cost, 0, context);
        }
    e->options.windows = p->given;
    return sum;
}

/* As many windows as were asked for keep their option. */
static double run_seconds(void *ctx, int64_t units, int64_t lengths) {
    planning *p = ctx;
    return run_sum(p, &p->cost, units == p->all ? p->given : units, lengths);
}

static double all_products(planning *p) {
    const run_cost each = run_products(p->e->input.model);
    return run_sum(p, &each, p->given, p->e->options.contexts.count);
}

static int64_t most_windows(const evaluation *e) {
    int64_t most = 1;
    for (int64_t t = 0; t < e->input.texts_count; t++) {
        const int64_t windows = eval_windows_of(e, t, e->options.contexts.values[0]);
        if (windows > most) most = windows;
    }
    return e->options.windows && e->options.windows < most ? e->options.windows : most;
}

int eval_budget_plan(evaluation *e) {
    eval_options *o = &e->options;
    planning p = {.e = e, .given = o->windows, .all = most_windows(e), .positions = run_positions(e->input.model)};
    gyre_error err = {0, ""};
    if (team_get()) return o->run.budget > 0 ? cli_fail("--budget: is for one process, and here are several (mpirun)") : 0;
    const double products = all_products(&p);
    if (!(products > 0) || (!(o->run.budget > 0) && !run_is_long(products))) return 0;
    if (run_cost_try(&p.cost, e->input.model, o->contexts.values[o->contexts.count - 1], read_window, &p, &err))
        return cli_fail_error(&err);
    run_plan plan = {.command = "eval",
                     .option = "--windows",
                     .unit = "window",
                     .before_all = "at most",
                     .after_all = " are in the text",
                     .lengths_of = "contexts",
                     .lengths = o->contexts.values,
                     .count = o->contexts.count,
                     .all = p.all,
                     .trial = p.cost.trial,
                     .seconds = run_seconds,
                     .ctx = &p};
    if (!(o->run.budget > 0)) {
        run_plan_say(&plan);
        return 0;
    }
    const int status = run_plan_fit(&plan, o->run.budget);
    if (status || (plan.kept == plan.count && plan.units == plan.all)) return status;
    o->contexts.count = plan.kept;
    o->windows = plan.units;
    return 0;
}
