/* contextual_check.c: all that a call must satisfy. */
#include "contextual/contextual_check.h"
#include "contextual/contextual_plan.h"
#include "core/sized.h"
#include "core/view.h"
#include "tiling/call_views.h"
#include "util/error.h"

#include <math.h>

enum { MAX_POSITIONS = 1 << 24 };

gyre_status gyre_contextual_args_read(gyre_contextual_args *args, const gyre_contextual_args *given, gyre_error *err) {
    const gyre_status status = gyre_sized_read(args, sizeof *args, given, "gyre_contextual_args", err);
    if (status) return status;
    const double usual = 1 / sqrt((double)(args->q.shape[3] > 0 ? args->q.shape[3] : 1));
    if (args->scale == 0) args->scale = usual;
    if (args->gate_scale == 0) args->gate_scale = usual;
    if (args->position_scale == 0) args->position_scale = 1;
    return GYRE_OK;
}

/* -- types, shapes and numbers -- */

static gyre_status check_inputs(const gyre_contextual_args *args, const char *where, gyre_error *err) {
    const int64_t *q = args->q.shape, *e = args->embeddings.shape;
    gyre_status status = gyre_call_check_qkv(&args->q, &args->k, &args->v, where, err);
    if (args->gate_keys.data && !status) status = gyre_call_check_type(args->gate_keys.dtype, 0, "gate_keys", where, err);
    if (args->gate_keys.data && !status)
        status = gyre_shape_check(args->gate_keys.shape, args->k.shape, "gate_keys", where, err);
    if (!status) status = gyre_call_check_type(args->embeddings.dtype, 0, "embeddings", where, err);
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

gyre_status gyre_contextual_check_shapes(const gyre_contextual_args *args, const char *where, gyre_error *err) {
    const gyre_call_batch batch = gyre_contextual_batch(args);
    gyre_status status = check_inputs(args, where, err);
    if (!status) status = check_scales(args, where, err);
    return status ? status : gyre_call_check_packing(&batch, where, err);
}

/* -- memory -- */

static int inputs_of(const gyre_contextual_args *args, int cached, gyre_named_view inputs[5]) {
    int count = 0;
    inputs[count++] = (gyre_named_view){"q", args->q};
    inputs[count++] = (gyre_named_view){"embeddings", args->embeddings};
    if (!cached) inputs[count++] = (gyre_named_view){"k", args->k};
    if (!cached) inputs[count++] = (gyre_named_view){"v", args->v};
    if (args->gate_keys.data) inputs[count++] = (gyre_named_view){"gate_keys", args->gate_keys};
    return count;
}

gyre_status gyre_contextual_check(const gyre_contextual_args *args, gyre_contextual_use use, const char *where,
                                  gyre_error *err) {
    const gyre_call_batch batch = gyre_contextual_batch(args);
    const int gradient = use == GYRE_CONTEXTUAL_GRADIENT;
    gyre_named_view read[6];
    gyre_status status = gyre_contextual_check_shapes(args, where, err);
    if (!status) status = gyre_call_check_padding(&batch, where, err);
    const int count = inputs_of(args, use == GYRE_CONTEXTUAL_CACHED, read);
    for (int i = 0; i < count && !status; i++)
        status = gyre_cview_check(&read[i].view, read[i].name, where, err);
    if (!status) status = gyre_call_check_out(&args->out, &args->lse, &args->q, &args->v, gradient, where, err);
    if (status || gradient) return status;
    return gyre_call_check_out_apart(&args->out, &args->lse, read, count, where, err);
}

gyre_status gyre_contextual_check_gradient(const gyre_contextual_args *args, const gyre_cview *dout,
                                           const gyre_contextual_gradients *gradients, const char *where, gyre_error *err) {
    gyre_named_view read[13];
    gyre_status status = gyre_call_check_dout(dout, &args->out, where, err);
    if (status) return status;
    if (gradients->dgate_keys.data && !args->gate_keys.data)
        return gyre_fail(err, GYRE_EINVAL, "dgate_keys: gates are of k, whose gradient has them (%s)", where);
    int count = inputs_of(args, 0, read);
    read[count++] = (gyre_named_view){"out", gyre_const(args->out)};
    read[count++] = (gyre_named_view){"lse", gyre_const(args->lse)};
    read[count++] = (gyre_named_view){"dout", *dout};
    const gyre_named_result results[] = {{"dq", &gradients->dq, args->q.shape, 0},
                                         {"dk", &gradients->dk, args->k.shape, 0},
                                         {"dv", &gradients->dv, args->v.shape, 0},
                                         {"dgate_keys", &gradients->dgate_keys, args->k.shape, 0},
                                         {"dembeddings", &gradients->dembeddings, args->embeddings.shape, 1}};
    return gyre_call_check_results(results, 5, read, count, where, err);
}
