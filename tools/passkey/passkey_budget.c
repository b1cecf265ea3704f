/* passkey_budget.c: how long gyre passkey will take on this machine, and what fits into --budget. */
#include "tools/measuring/run_budget.h"
#include "tools/passkey/passkey.h"
#include "tools/team/team.h"
#include <stdlib.h>

typedef struct planning {
    passkey *p;
    passkey_prompt prompt; /* its tokens are read, again and again */
    run_cost cost;
    int64_t all; /* --trials */
} planning;

/* -- the trial -- */
enum { CHUNK = 128 /* as passkey_run */, STEPS = 4, USUAL_STEPS = 6 /* of a key of five digits */ };

/* Reads so many tokens, and then one by one as many as *steps; NULL = none.  *seconds = of the latter. */
static gyre_status read_prompt(planning *plan, int64_t tokens, double *seconds, gyre_error *err) {
    const passkey *p = plan->p;
    const int64_t steps = seconds ? STEPS : 0;
    gyre_context *context = NULL;
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    options.max_tokens = tokens + steps;
    options.cache_dtype = p->options.method.cache;
    options.order = GYRE_ORDER_FIXED;
    options.exec = &p->exec;
    int32_t *ids = cli_alloc(tokens + steps, sizeof *ids);
    float *logits = cli_alloc(gyre_model_get_config(p->input.model)->vocab, sizeof *logits);
    for (int64_t i = 0; i < tokens + steps; i++)
        ids[i] = plan->prompt.ids[i % plan->prompt.count];
    gyre_status status = gyre_context_create(&context, p->input.model, &options, err);
    double started = 0;
    for (int64_t at = 0, n; at < tokens + steps && !status; at += n) {
        n = at >= tokens ? 1 : tokens - at < CHUNK ? tokens - at : CHUNK;
        if (at == tokens) started = cli_seconds();
        status = gyre_context_forward(context, ids + at, n, at + n >= tokens, logits, err);
    }
    if (seconds) *seconds = cli_seconds() - started;
    gyre_context_free(context);
    free(ids);
    free(logits);
    return status;
}

static gyre_status read_window(void *ctx, int64_t tokens, gyre_error *err) {
    return read_prompt(ctx, tokens, NULL, err);
}

static gyre_status try_cost(planning *plan, gyre_error *err) {
    const passkey *p = plan->p;
    const length_list *lengths = &p->options.lengths;
    const int64_t half = lengths->values[0] / 2; /* leaves room for the steps */
    double steps = 0;
    gyre_status status = passkey_prompt_make(&plan->prompt, &p->templates[0], 0.5, passkey_key(1, 1, 0, 0), err);
    if (!status)
        status = run_cost_try(&plan->cost, p->input.model, lengths->values[lengths->count - 1], read_window, plan, err);
    if (!status) status = read_prompt(plan, CHUNK < half ? CHUNK : half, &steps, err);
    plan->cost.per_step = steps / STEPS;
    passkey_prompt_free(&plan->prompt);
    return status;
}

/* -- the work -- */
/* Prompts of a row are read from the deepest needle on, and each keeps what the ones before it share; a worker reads only
 * its first prompt whole. */
static double column_seconds(const planning *plan, const run_cost *cost, int64_t row, int64_t length) {
    const passkey *p = plan->p;
    const passkey_options *o = &p->options;
    const passkey_row *r = &p->rows[row];
    const int64_t tokens = o->lengths.values[length], steps = o->answer_tokens ? o->answer_tokens : USUAL_STEPS;
    const int shares = !(r->depends_on_length && r->policy == GYRE_LENGTH_POLICY_PREFIX);
    const int64_t threads = p->exec.concurrency > 1 ? p->exec.concurrency : 1;
    double sum = 0, deepest = 0;
    int64_t trials = 0;
    if (tokens > run_positions(p->input.model)) return 0; /* no prompt is read */
    for (int64_t d = 0; d < o->depths_count; d++) {
        if (!passkey_cell_is_open(p, row, length, d)) continue;
        const int64_t from = shares ? (int64_t)(o->depths[d] * (double)tokens) : 0;
        sum += (double)o->trials * (run_cost_seconds(cost, from, tokens) + (double)steps * cost->per_step);
        trials += o->trials;
        deepest = (double)from; /* depths rise */
    }
    const int64_t workers = trials < threads ? trials > 0 : threads;
    return sum + (double)workers * run_cost_seconds(cost, 0, (int64_t)deepest);
}

static double run_sum(planning *plan, const run_cost *cost, int64_t trials, int64_t lengths) {
    passkey_options *o = &plan->p->options;
    double sum = 0;
    o->trials = trials; /* part of the name of a cell in the journal */
    for (int64_t m = 0; m < o->method.count; m++)
        for (int64_t l = 0; l < lengths; l++)
            sum += column_seconds(plan, cost, m, l);
    o->trials = plan->all;
    return sum;
}

static double run_seconds(void *ctx, int64_t units, int64_t lengths) {
    planning *plan = ctx;
    return run_sum(plan, &plan->cost, units, lengths);
}

static double all_products(planning *plan) {
    run_cost each = run_products(plan->p->input.model);
    each.per_step = each.per_token;
    return run_sum(plan, &each, plan->all, plan->p->options.lengths.count);
}

int passkey_budget_plan(passkey *p) {
    passkey_options *o = &p->options;
    planning of = {.p = p, .all = o->trials};
    gyre_error err = {0, ""};
    if (team_get()) return o->run.budget > 0 ? cli_fail("--budget: is for one process, and here are several (mpirun)") : 0;
    const double products = all_products(&of);
    if (!(products > 0) || (!(o->run.budget > 0) && !run_is_long(products))) return 0;
    if (try_cost(&of, &err)) return cli_fail_error(&err);
    run_plan plan = {.command = "passkey",
                     .option = "--trials",
                     .unit = "trial at each depth",
                     .before_all = "of",
                     .after_all = "",
                     .lengths_of = "lengths",
                     .lengths = o->lengths.values,
                     .count = o->lengths.count,
                     .all = o->trials,
                     .trial = of.cost.trial,
                     .seconds = run_seconds,
                     .ctx = &of};
    if (!(o->run.budget > 0)) {
        run_plan_say(&plan);
        return 0;
    }
    const int status = run_plan_fit(&plan, o->run.budget);
    if (status) return status;
    if (o->run.figure && plan.kept < 2)
        return cli_fail("--budget: one length fits, and the heat map of --figure takes two (passkey)");
    o->lengths.count = plan.kept;
    o->trials = plan.units;
    return 0;
}
