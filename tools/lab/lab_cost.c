/* lab_cost.c: how much work the lab has, for the estimate of the remaining time.
 *
 A token costs the products of a layer, 4 x width^2 + 3 x width x mlp multiply-adds, and attention to half a window of keys,
 twice.  Divided by the width: 4 x width + 3 x mlp + window. */
#include "gyre/gyre_fields.h"
#include "tools/lab/lab.h"
#include "tools/team/team.h"
#include <stdlib.h>
#include <string.h>

enum { TRAINING = 3 /* forward, and twice as much backward */ };

static int64_t token_cost(const lab *l, int64_t window) {
    const gyre_model_config *m = &l->plan.run.model;
    const int64_t width = m->model_dim ? m->model_dim : 128, mlp = m->mlp_dim ? m->mlp_dim : 8 * width / 3;
    return 4 * width + 3 * mlp + window;
}

int64_t lab_cost_token(const lab *l, int c) {
    return token_cost(l, l->plan.contexts[c]);
}

int64_t lab_cost_cell(const lab *l, int c) {
    const lab_plan *p = &l->plan;
    const int64_t keys = (p->trials + GYRE_PASSKEY_KEYS - 1) / GYRE_PASSKEY_KEYS,
                  copies = p->measures > LAB_COPIES ? (p->trials + 3) / 4 : 0;
    return (lab_plan_windows(p, c, 0, NULL) + keys + copies) * p->contexts[c] * lab_cost_token(l, c);
}

int64_t lab_cost_trained(const lab *l, const gyre_train_options *o) {
    return TRAINING * (l->task ? 1 : token_cost(l, o->context));
}

void lab_cost_step(void *ctx, int64_t tokens, int64_t all) {
    lab *l = ctx;
    team_progress_step(&l->progress, tokens * l->token_cost, all);
}

/* -- all of it -- */
/* out = 1 if the encoding has no rows for this many positions. */
static int ends_before(const gyre_encoding *encoding, int64_t context) {
    const gyre_config *config = gyre_encoding_get_config(encoding);
    return gyre_config_has(config, "input.positions") && config->input.positions < context;
}

/* Cells of an equal key are measured once.  `counted` holds the keys so far.  Counts the row if it has work. */
static int64_t row_cost(lab *l, const lab_measurement *s, json_t *counted) {
    const lab_plan *p = &l->plan;
    int64_t cost = 0;
    for (int c = 0; c < l->plan.contexts_count; c++) {
        gyre_encoding *encoding = NULL;
        char key[LAB_KEY];
        lab_entry known;
        if (method_encoding(s->method, &s->model->position, p->trained, p->contexts[c], &p->betas, &encoding, NULL))
            continue;
        lab_cell_key(l, s, encoding, c, key);
        if (!ends_before(encoding, p->contexts[c]) && !lab_entry_find(l, key, &known) && !json_object_get(counted, key)) {
            json_object_set_new(counted, key, json_true());
            cost += lab_cost_cell(l, c);
        }
        gyre_encoding_free(encoding);
    }
    l->rows_wanted += cost > 0;
    return cost;
}

/* out = cost, and that of the training if anything is to be measured of the model.  Bundled models are not trained. */
static int64_t with_training(const lab *l, const gyre_train_options *o, int64_t cost) {
    return cost && l->work ? cost + o->steps * o->batch * o->context * lab_cost_trained(l, o) : cost;
}

static int64_t tuned_cost(lab *l, int t, lab_model *base, json_t *counted) {
    const lab_plan *p = &l->plan;
    lab_model model;
    int64_t cost = 0;
    if (lab_model_begin(l, &(lab_model_spec){.seed = base->spec.seed, .tuned = t, .base = base}, &model, NULL)) return 0;
    for (int r = 0; r < p->tuned_methods && t < LAB_TUNED; r++)
        if (p->tuned_of[r] == t) cost += row_cost(l, &(lab_measurement){&model, &p->methods[p->tuned_method[r]]}, counted);
    for (int d = 0; d < LAB_DROPPED && t == LAB_TUNED; d++)
        cost += row_cost(l, &(lab_measurement){&model, &p->dropped[d]}, counted);
    return with_training(l, t == LAB_TUNED ? &p->recalibrate : &p->tune, cost);
}

static int64_t methods_cost(lab *l, lab_model *base, json_t *counted) {
    const int models = l->plan.tuned_rows == l->plan.tuned_methods ? LAB_TUNED : LAB_TUNED + 1;
    int64_t cost = 0;
    for (int m = 0; m < l->plan.methods_count; m++)
        cost += row_cost(l, &(lab_measurement){base, &l->plan.methods[m]}, counted);
    for (int t = 0; t < models; t++)
        cost += tuned_cost(l, t, base, counted);
    return cost;
}

static int64_t seed_cost(lab *l, int64_t seed, json_t *counted) {
    int64_t cost = 0;
    for (int i = 0; i < l->plan.encodings_count; i++) {
        lab_model model;
        if (!lab_model_begin(l, &(lab_model_spec){.seed = seed, .encoding = &l->plan.encodings[i]}, &model, NULL)) {
            int64_t of_model = row_cost(l, &(lab_measurement){&model, &l->plan.methods[0]}, counted);
            if (i == l->plan.rope) of_model += methods_cost(l, &model, counted);
            for (int m = 0; i == l->plan.alibi && m < l->plan.stretched_count; m++)
                of_model += row_cost(l, &(lab_measurement){&model, &l->plan.stretched[m]}, counted);
            cost += with_training(l, &l->plan.run, of_model);
        }
        lab_model_end(&model);
    }
    return cost;
}

int64_t lab_cost_all(lab *l) {
    json_t *counted = json_object();
    int64_t cost = 0;
    l->rows_wanted = 0;
    for (int64_t seed = 0; counted && seed < l->plan.seeds; seed++)
        cost += seed_cost(l, seed, counted);
    json_decref(counted);
    return cost;
}
