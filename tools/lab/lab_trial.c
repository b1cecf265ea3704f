/* lab_trial.c: how long the lab will take here: a part of its work that takes less than a second, timed. */
#include "tools/lab/lab.h"
#include "tools/team/team.h"
#include <math.h>

enum { ROUNDS = 2 }; /* the first one also meets cold memory */

static double least(double a, double b) {
    return a < b ? a : b;
}

/* *seconds = those of a unit of cost: windows of a bundled model. */
static gyre_status time_windows(lab *l, double *seconds, gyre_error *err) {
    const lab_plan *p = &l->plan;
    const variant *encoding = &p->encodings[p->rope >= 0 ? p->rope : 0];
    lab_model model;
    const gyre_model *opened = NULL;
    gyre_status status = lab_model_begin(l, &(lab_model_spec){.encoding = encoding}, &model, err);
    if (!status) status = lab_model_need(l, &model, &opened, err);
    *seconds = INFINITY;
    for (int round = 0; round < ROUNDS && !status; round++) {
        gyre_eval_options o = GYRE_INIT(gyre_eval_options);
        gyre_eval_result r;
        o.context = o.stride = p->trained;
        o.windows = 8 * (l->exec.concurrency > 0 ? l->exec.concurrency : 1);
        const double started = cli_seconds();
        status = gyre_evaluate(opened, &l->held_out, &o, &r, &l->exec, err);
        if (!status)
            *seconds = least(*seconds, (cli_seconds() - started) / (double)(r.windows * o.context * lab_cost_token(l, 0)));
    }
    lab_model_end(&model);
    return status;
}

/* The same: steps of a training that is not kept. */
static gyre_status time_steps(lab *l, double *seconds, gyre_error *err) {
    gyre_train_options o = l->plan.run;
    gyre_trainer *trainer = NULL;
    gyre_status status = lab_position_config(l, &l->plan.encodings[0], &o.model, err);
    if (!status) status = gyre_trainer_create(&trainer, &o, NULL, &l->train, &l->exec, err);
    *seconds = INFINITY;
    for (int round = 0; round < ROUNDS && !status; round++) {
        double loss;
        const double started = cli_seconds();
        status = gyre_trainer_step(trainer, &loss, err);
        *seconds = least(*seconds, (cli_seconds() - started) / (double)(o.batch * o.context * lab_cost_trained(l, &o)));
    }
    gyre_trainer_free(trainer);
    return status;
}

static void describe(double seconds, char out[32]) {
    if (seconds < 90)
        snprintf(out, 32, "%.0f s", fmax(1, seconds));
    else if (seconds < 5400)
        snprintf(out, 32, "%.0f min", seconds / 60);
    else
        snprintf(out, 32, "%.1f h", seconds / 3600);
}

gyre_status lab_say_duration(lab *l, int64_t cost, gyre_error *err) {
    double seconds = 0;
    char time[32];
    if (cost == 0 || cli_is_silent() || team_get()) return GYRE_OK; /* several processes share the work by no fixed rate */
    const gyre_status status = l->work ? time_steps(l, &seconds, err) : time_windows(l, &seconds, err);
    if (status) return status;
    describe(seconds * (double)cost, time);
    fprintf(stderr, "gyre lab: %lld row%s to measure at %lld to %lld bytes, about %s here\n", (long long)l->rows_wanted,
            l->rows_wanted == 1 ? "" : "s", (long long)l->plan.contexts[0], (long long)l->plan.longest, time);
    return GYRE_OK;
}
