/* contextual_check.c: all that a call must satisfy. */
#include "call/call_views.h"
#include "contextual/contextual_plan.h"
#include "core/view.h"
#include "util/error.h"

#include <math.h>

enum { MAX_POSITIONS = 1 << 24 };

void gyre_contextual_set_defaults(void *call) {
    gyre_contextual_args *args = &((gyre_contextual_call *)call)->args;
    const double usual = 1 / sqrt((double)(args->q.shape[3] > 0 ? args->q.shape[3] : 1));
    if (args->scale == 0) args->scale = usual;
    if (args->gate_scale == 0) args->gate_scale = usual;
    if (args->position_scale == 0) args->position_scale = 1;
}

/* -- types, shapes and numbers -- */

static gyre_status check_inputs(const gyre_contextual_args *args, const char *where, gyre_error *err) {
    const int64_t *q = args->q.shape, *e = args->embeddings.shape;
    gyre_status status = gyre_call_check_qkv(&args->q, &args->k, &args->v, GYRE_TYPES_REALS, where, err);
    if (args->gate_keys.data && !status)
        status = gyre_call_check_type(args->gate_keys.dtype, GYRE_TYPES_REALS, "gate_keys", where, err);
    if (args->gate_keys.data && !status)
        status = gyre_shape_check(args->gate_keys.shape, args->k.shape, "gate_keys", where, err);
    if (!status) status = gyre_call_check_type(args->embeddings.dtype, GYRE_TYPES_REALS, "embeddings", where, err);
    if (!status) status = gyre_call_check_extents(e, MAX_POSITIONS, 1, "embeddings", where, err);
    const int64_t wanted[4] = {1, e[1], e[2] == 1 ? 1 : q[2], q[3]};
    return status ? status : gyre_shape_check(e, wanted, "embeddings", where, err);
}

static gyre_status check_scales(const gyre_contextual_args *args, const char *where, gyre_error *err) {
    const struct {
        const char *name;
        double value;
    } scales[] = {{"scale", args->scale}, {"gate_scale", args->gate_scale}, {"position_scale", args->position_scale}};
    gyre_status status = GYRE_OK;
    for (int i = 0; i < 3 && !status; i++)
        status = gyre_call_check_factor(scales[i].value, scales[i].name, where, err);
    return status;
}

gyre_status gyre_contextual_check_shapes(const void *call, gyre_error *err) {
    const gyre_contextual_call *c = call;
    const gyre_call_batch batch = GYRE_CALL_BATCH(&c->args);
    gyre_status status = check_inputs(&c->args, c->common.where, err);
    if (!status) status = check_scales(&c->args, c->common.where, err);
    return status ? status : gyre_call_check_packing(&batch, c->common.where, err);
}

/* -- memory -- */

/* The views that a call reads. */
static gyre_named_views inputs_of(const gyre_contextual_call *c) {
    const gyre_contextual_args *args = &c->args;
    gyre_named_views views = {2, {{"q", args->q}, {"embeddings", args->embeddings}}};
    if (c->common.use != GYRE_CALL_CACHED) gyre_named_views_add(&views, "k", args->k);
    if (c->common.use != GYRE_CALL_CACHED) gyre_named_views_add(&views, "v", args->v);
    if (args->gate_keys.data) gyre_named_views_add(&views, "gate_keys", args->gate_keys);
    return views;
}

gyre_status gyre_contextual_check(const void *call, gyre_error *err) {
    const gyre_contextual_call *c = call;
    const gyre_contextual_args *args = &c->args;
    const gyre_contextual_gradients *to = &c->gradients;
    const gyre_call_batch batch = GYRE_CALL_BATCH(args);
    const gyre_named_result gradients[] = {{"dq", &to->dq, args->q.shape, GYRE_TYPES_REALS},
                                           {"dk", &to->dk, args->k.shape, GYRE_TYPES_REALS},
                                           {"dv", &to->dv, args->v.shape, GYRE_TYPES_REALS},
                                           {"dgate_keys", &to->dgate_keys, args->k.shape, GYRE_TYPES_REALS},
                                           {"dembeddings", &to->dembeddings, args->embeddings.shape, GYRE_TYPES_WIDE}};
    const gyre_call_results results = {&args->q, &args->v, &args->out, &args->lse, c->common.dout, gradients, 5};
    gyre_named_views read = inputs_of(c);
    gyre_status status = gyre_contextual_check_shapes(c, err);
    if (!status) status = gyre_call_check_padding(&batch, c->common.where, err);
    if (!status) status = gyre_call_check_inputs(&read, c->common.where, err);
    if (!status && to->dgate_keys.data && !args->gate_keys.data)
        status = gyre_fail(err, GYRE_EINVAL, "dgate_keys: gates are of k, whose gradient has them (%s)", c->common.where);
    return status ? status
                  : gyre_call_check_results(&results, c->common.use == GYRE_CALL_GRADIENT, &read, c->common.where, err);
}

int gyre_contextual_is_empty(const void *call) {
    const gyre_contextual_call *c = call;
    const gyre_call_batch batch = GYRE_CALL_BATCH(&c->args);
    return c->common.use == GYRE_CALL_GRADIENT ? gyre_call_sequences(&batch) == 0
                                               : gyre_view_elements(c->args.out.shape) == 0;
}
