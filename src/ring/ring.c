/* ring.c: the calls of gyre_ring.h: read, agree with the other ranks, run one of the ways. */
#include "core/sized.h"
#include "core/view.h"
#include "ring/ring_call.h"
#include "util/error.h"

#include <string.h>

/* -- the ways -- */

static const gyre_ring_way *way_of(const gyre_ring_call *r) {
    if (r->by_heads) return &gyre_ring_way_heads;
    if (r->in_order) return &gyre_ring_way_slabs;
    return r->pass == GYRE_RING_QUERIES ? &gyre_ring_way_queries : &gyre_ring_way_keys;
}

/* -- checks -- */

/* One of the gradients to gate sums. */
static gyre_status check_gate_gradient(const gyre_ring_call *r, const gyre_view *view, const gyre_cview *of,
                                       const char *name, gyre_error *err) {
    if (!r->gated || !view->data) return GYRE_OK;
    if (view->dtype != GYRE_DTYPE_F32 && view->dtype != GYRE_DTYPE_F64)
        return gyre_fail(err, GYRE_EDTYPE, "%s: %s is not F32 or F64 (%s)", name, gyre_dtype_text(view->dtype), r->name);
    const gyre_status status = gyre_shape_check(view->shape, of->shape, name, r->name, err);
    return status ? status : gyre_output_check(view, name, r->name, err);
}

static gyre_status check_gradient_inputs(const gyre_ring_call *r, const gyre_gradient_views *call, gyre_error *err) {
    if (!r->whole.lse.data && gyre_view_elements(r->whole.q.shape) > 0)
        return gyre_fail(err, GYRE_EINVAL, "lse: data is NULL, but the gradient needs it (%s)", r->name);
    if (call->dlse && call->dlse->data)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "dlse: is set, but a ring takes the gradient for out alone (%s)", r->name);
    const gyre_status status = gyre_shape_check(call->dout->shape, r->whole.out.shape, "dout", r->name, err);
    return status ? status : gyre_cview_check(call->dout, "dout", r->name, err);
}

static gyre_status check_outputs(const gyre_ring_call *r, const gyre_gradient_views *call, gyre_error *err) {
    static const char *const names[3] = {"dq", "dk", "dv"};
    const gyre_cview *like[3] = {&r->whole.q, &r->whole.k, &r->whole.v};
    gyre_status status = gyre_output_check(&r->whole.out, "out", r->name, err); /* parts may leave it open */
    if (!status && r->whole.lse.data) status = gyre_output_check(&r->whole.lse, "lse", r->name, err);
    if (status || !call) return status;
    status = check_gradient_inputs(r, call, err);
    for (int i = 0; i < 3 && !status; i++) {
        if (call->dqkv[i].dtype != GYRE_DTYPE_F32)
            return gyre_fail(err, GYRE_EDTYPE, "%s: %s is not F32 (%s)", names[i], gyre_dtype_text(call->dqkv[i].dtype),
                             r->name);
        if (!gyre_same_shape(call->dqkv[i].shape, like[i]->shape))
            return gyre_fail(err, GYRE_ESHAPE, "%s: " GYRE_SHAPE_FORMAT " is not " GYRE_SHAPE_FORMAT " (%s)", names[i],
                             GYRE_SHAPE_ARGS(call->dqkv[i].shape), GYRE_SHAPE_ARGS(like[i]->shape), r->name);
        status = gyre_output_check(&call->dqkv[i], names[i], r->name, err);
    }
    if (!status) status = check_gate_gradient(r, &r->whole.dq_gate_sums, &r->whole.q_gate_sums, "dq_gates", err);
    return status ? status : check_gate_gradient(r, &r->whole.dk_gate_sums, &r->whole.k_gate_sums, "dk_gates", err);
}

/* -- the calls -- */

/* A call as this rank made it. */
typedef struct ring_request {
    const gyre_ring_args *args;
    const gyre_attention_gradients *gradients;
    int gradient; /* 1: a call of the gradient, also if gradients is NULL */
    gyre_gradients own;
    gyre_scratch scratch;
} ring_request;

static const gyre_gradient_views *views_of(const ring_request *request) {
    return request->gradient ? &request->own.views : NULL;
}

/* What the gradient writes beside dq, dk and dv. */
static gyre_status read_gradients(gyre_ring_call *r, ring_request *request, gyre_error *err) {
    const gyre_status status = gyre_gradients_read(&request->own, &r->whole, request->gradients, err);
    r->args.dq_gate_sums = r->whole.dq_gate_sums;
    r->args.dk_gate_sums = r->whole.dk_gate_sums;
    return status;
}

/* Reads, measures and checks what this rank was given. */
static gyre_status prepare(gyre_ring_call *r, ring_request *request, const gyre_exec *exec, gyre_error *err) {
    size_t needed = 0;
    gyre_status status = gyre_ring_open(r, r->name, request->args, request->gradient, err);
    r->exec = exec;
    if (!status && request->gradient) status = read_gradients(r, request, err);
    if (!status) status = gyre_ring_choose_split(r, way_of(r), exec, &needed, err);
    if (!status) status = gyre_scratch_check(r->name, request->scratch, needed, err);
    if (!status) status = check_outputs(r, views_of(request), err);
    return status ? status : way_of(r)->check(r, request->scratch.memory, views_of(request), err);
}

static gyre_status run_call(const char *name, ring_request *request, const gyre_exec *exec, gyre_error *err) {
    gyre_error own_error = {0, ""};
    gyre_error *error = err ? err : &own_error; /* other ranks learn of it */
    gyre_ring_call r = {.name = name};
    gyre_ring_fields fields = {.count = 0};
    const double began = gyre_ring_seconds();
    gyre_status status = prepare(&r, request, exec, error);
    r.began = began;
    gyre_ring_add_field(&fields, "call", 'i', request->gradient);
    if (!status) gyre_ring_add_call(&fields, &r);
    status = gyre_ring_agree(&r, &fields, status, error);
    if (!status && request->gradient) gyre_ring_clear(&request->own.dqkv[0]);
    if (!status && request->gradient && r.gated) gyre_ring_clear(&r.whole.dq_gate_sums);
    if (!status) status = way_of(&r)->run(&r, request->scratch.memory, views_of(request), exec, error);
    gyre_ring_stop_clock(&r);
    return status;
}

gyre_status gyre_ring_get_plan(const gyre_ring_args *args, int gradient, const gyre_exec *exec, gyre_ring_plan *out,
                               gyre_error *err) {
    gyre_ring_plan plan;
    gyre_ring_call r;
    gyre_status status = gyre_sized_read(&plan, sizeof plan, out, "gyre_ring_plan", err);
    if (!status) status = gyre_ring_open(&r, "gyre_ring_get_plan", args, gradient != 0, err);
    if (!status) status = gyre_ring_choose_split(&r, way_of(&r), exec, &plan.scratch, err);
    if (status) return status;
    plan.pass = r.pass;
    plan.sent = r.transport.ranks > 1 ? way_of(&r)->sent(&r) : 0;
    gyre_sized_write(out, &plan);
    return GYRE_OK;
}

gyre_status gyre_ring_scratch(const gyre_ring_args *args, int gradient, const gyre_exec *exec, size_t *bytes,
                              gyre_error *err) {
    static const char name[] = "gyre_ring_scratch";
    gyre_ring_call r;
    size_t needed = 0;
    if (!bytes) return gyre_fail(err, GYRE_EINVAL, "bytes: is NULL (%s)", name);
    gyre_status status = gyre_ring_open(&r, name, args, gradient != 0, err);
    if (!status) status = gyre_ring_choose_split(&r, way_of(&r), exec, &needed, err);
    if (!status) *bytes = needed;
    return status;
}

gyre_status gyre_ring_attention(const gyre_ring_args *args, gyre_scratch scratch, const gyre_exec *exec, gyre_error *err) {
    ring_request request = {.args = args, .scratch = scratch};
    return run_call("gyre_ring_attention", &request, exec, err);
}

gyre_status gyre_ring_attention_gradient(const gyre_ring_args *args, const gyre_attention_gradients *gradients,
                                         gyre_scratch scratch, const gyre_exec *exec, gyre_error *err) {
    ring_request request = {.args = args, .gradients = gradients, .gradient = 1, .scratch = scratch};
    return run_call("gyre_ring_attention_gradient", &request, exec, err);
}
