/* prepared_attention.c: a call of attention that is kept between runs: its arguments, checks, plan and scratch.
 *
 * A run is the call with other memory, positions and number of keys.  The first run makes every check.  What later runs
 * check depends on the call: a plain one has only new addresses and positions, any other is checked and planned again. */
#include "attention/attention.h"
#include "attention/attention_planner.h"
#include "attention/segments.h"
#include "core/encoding.h"
#include "core/exec.h"
#include "core/sized.h"
#include "core/system_alloc.h"
#include "core/view.h"
#include "util/error.h"
#include "util/integers.h"

#include <inttypes.h>

static const char run_name[] = "gyre_prepared_attention_run";

/* The views that a run may replace. */
enum { VIEW_Q, VIEW_K, VIEW_V, VIEW_OUT, VIEW_LSE };

struct gyre_prepared_attention {
    gyre_alloc alloc;
    gyre_exec exec;             /* run NULL = the calling thread */
    gyre_attention_inputs args; /* of the last run */
    int64_t keys;               /* at creation */
    gyre_attention_request request;
    gyre_attention_run run;
    gyre_bound_views views;
    const void *data[GYRE_MOST_BOUND_VIEWS];
    int is_plain;         /* 1: runs differ in addresses, positions and keys alone */
    int is_checked;       /* 1: a run has made every check */
    int64_t planned_keys; /* of run.plan; 0 = none */
    int64_t most_keys;    /* plans of up to so many keys differ in their number alone */
    gyre_scratch scratch;
};

/* -- creation -- */

static int is_plain(const gyre_attention_inputs *args) {
    return !gyre_split_by_sequence(args) && !args->tables && !args->mask.data && !args->slopes.data &&
           !args->q_gate_sums.data && !args->k_gate_sums.data && !args->weights.data && !args->state.data && !args->q_index;
}

static void bind_views(gyre_prepared_attention *p) {
    const gyre_attention_inputs *args = &p->args;
    const gyre_cview out = gyre_const(args->out), lse = gyre_const(args->lse);
    gyre_bound_views_add(&p->views, "q", &args->q, 0);
    gyre_bound_views_add(&p->views, "k", &args->k, 0);
    gyre_bound_views_add(&p->views, "v", &args->v, 0);
    gyre_bound_views_add(&p->views, "out", &out, 1);
    if (lse.data) gyre_bound_views_add(&p->views, "lse", &lse, 1);
    if (!args->sink_logits.data) return;
    p->data[p->views.count] = args->sink_logits.data;
    gyre_bound_views_add(&p->views, "sink_logits", &args->sink_logits, 0);
}

static void set_keys(gyre_prepared_attention *p, int64_t keys) {
    gyre_attention_inputs *args = &p->args;
    args->k.shape[1] = args->v.shape[1] = keys;
    if (args->mask.data) args->mask.shape[3] = keys;
    if (args->weights.data) args->weights.shape[3] = keys;
    if (args->k_gate_sums.data) args->k_gate_sums.shape[1] = keys;
}

static const gyre_exec *exec_of(const gyre_prepared_attention *p) {
    return p->exec.run ? &p->exec : NULL;
}

/* Plans the call with `keys` keys, or with those of all plans of its kind. */
static gyre_status make_plan(gyre_prepared_attention *p, int64_t keys, gyre_error *err) {
    size_t bytes = 0;
    const int64_t planned = p->is_plain && keys <= p->most_keys ? p->most_keys : keys;
    set_keys(p, planned);
    gyre_status status = gyre_call_plan(&gyre_attention_steps, &p->run, exec_of(p), &bytes, err);
    p->planned_keys = 0;
    if (!status && planned != keys) gyre_attention_plan_set_keys(&p->run.plan, &p->run.segment, keys);
    set_keys(p, keys);
    if (!status) status = gyre_scratch_check(run_name, p->scratch, bytes, err);
    if (!status) p->planned_keys = planned;
    return status;
}

static gyre_status allocate(const gyre_alloc *alloc, size_t scratch, gyre_prepared_attention **out, gyre_error *err) {
    const size_t own = gyre_arena_round_up(sizeof **out);
    char *memory = scratch <= SIZE_MAX - own ? alloc->alloc(alloc->ctx, own + scratch, ALIGNMENT) : NULL;
    if (!memory)
        return gyre_fail(err, GYRE_ENOMEM,
                         "memory: %zu bytes of scratch cannot be allocated "
                         "(gyre_prepared_attention_create)",
                         scratch);
    *out = (gyre_prepared_attention *)(void *)memory;
    **out = (gyre_prepared_attention){.alloc = *alloc, .scratch = {memory + own, scratch}};
    return GYRE_OK;
}

gyre_status gyre_prepared_attention_create(gyre_prepared_attention **out, const gyre_attention_args *given,
                                           const gyre_exec *exec, const gyre_alloc *alloc, gyre_error *err) {
    static const char name[] = "gyre_prepared_attention_create";
    gyre_attention_inputs args;
    gyre_alloc own;
    size_t bytes = 0;
    if (!out) return gyre_fail(err, GYRE_EINVAL, "out: is NULL (%s)", name);
    gyre_status status = gyre_alloc_read(&own, alloc, name, err);
    if (!status) status = gyre_attention_args_read(&args, given, err);
    const gyre_attention_request request = {name, &args, NULL, NULL, 0, 0, NULL};
    if (!status) status = gyre_attention_request_bytes(&request, exec, &bytes, err);
    gyre_prepared_attention *p = NULL;
    if (!status) status = allocate(&own, bytes, &p, err);
    if (status) return status;
    if (exec) p->exec = *exec;
    p->args = args;
    p->keys = args.k.shape[1];
    p->request = (gyre_attention_request){run_name, &p->args, NULL, NULL, 0, 0, NULL};
    p->run.common = (gyre_call){.where = run_name};
    p->run.request = &p->request;
    p->is_plain = is_plain(&args);
    bind_views(p);
    status = gyre_bound_views_reach(&p->views, name, err);
    if (status) {
        gyre_prepared_attention_free(p);
        return status;
    }
    if (!gyre_call_plan(&gyre_attention_steps, &p->run, exec_of(p), &bytes, NULL))
        p->most_keys = gyre_min_i64(p->keys, p->run.plan.most_straight_keys);
    *out = p;
    return GYRE_OK;
}

void gyre_prepared_attention_free(gyre_prepared_attention *p) {
    if (!p) return;
    const gyre_alloc alloc = p->alloc;
    alloc.free(alloc.ctx, p);
}

/* -- a run -- */

static void take_memory(gyre_prepared_attention *p, const gyre_attention_memory *memory) {
    gyre_attention_inputs *args = &p->args;
    if (memory->q) args->q.data = memory->q;
    if (memory->k) args->k.data = memory->k;
    if (memory->v) args->v.data = memory->v;
    if (memory->out) args->out.data = memory->out;
    if (memory->lse) args->lse.data = memory->lse;
    if (!args->q_pos.data) args->q_pos.base = memory->q_base;
    if (!args->k_pos.data) args->k_pos.base = memory->k_base;
    p->data[VIEW_Q] = args->q.data;
    p->data[VIEW_K] = args->k.data;
    p->data[VIEW_V] = args->v.data;
    p->data[VIEW_OUT] = args->out.data;
    if (args->lse.data) p->data[VIEW_LSE] = args->lse.data;
}

/* The segment, which is the call, of this run.  Its shapes are those of the plan. */
static void take_segment(gyre_prepared_attention *p) {
    const gyre_attention_inputs *args = &p->args;
    gyre_attention_inputs *own = &p->run.segment.args;
    own->q.data = args->q.data;
    own->k.data = args->k.data;
    own->v.data = args->v.data;
    own->out.data = args->out.data;
    own->lse.data = args->lse.data;
    own->q_pos.base = args->q_pos.base;
    own->k_pos.base = args->k_pos.base;
}

/* 1: the plan of the last run serves this one, whose keys may be fewer.  Keys that had the positions of the queries, and so
 * their angles, may have others now. */
static int fits_plan(const gyre_prepared_attention *p, int64_t keys) {
    const gyre_attention_inputs *args = &p->args;
    const int differ = !args->q_pos.data && args->q_pos.base != args->k_pos.base;
    return p->planned_keys == keys && !(p->run.plan.rotation.shared && differ);
}

/* A run of a call that is checked and plain. */
static gyre_status prepare_plain(gyre_prepared_attention *p, int64_t keys, gyre_error *err) {
    int apart;
    gyre_status status = gyre_bound_views_check(&p->views, p->data, &apart, run_name, err);
    if (!status && !apart) status = gyre_attention_check_overlap(&p->request, err);
    if (status) return status;
    if (p->planned_keys > 0 && keys <= p->most_keys && p->planned_keys == p->most_keys)
        gyre_attention_plan_set_keys(&p->run.plan, &p->run.segment, keys);
    else if (!fits_plan(p, keys))
        status = make_plan(p, keys, err);
    if (status) return status;
    take_segment(p);
    return gyre_attention_check_segment(&p->request, &p->run.segment, err);
}

static gyre_status prepare_any(gyre_prepared_attention *p, int64_t keys, gyre_error *err) {
    gyre_status status = gyre_attention_steps.check(&p->run, err);
    if (!status && !gyre_attention_is_empty(&p->request)) status = make_plan(p, keys, err);
    p->is_checked = !status && !gyre_attention_is_empty(&p->request);
    return status;
}

gyre_status gyre_prepared_attention_run(gyre_prepared_attention *p, const gyre_attention_memory *given, gyre_error *err) {
    gyre_attention_memory memory;
    if (!p) return gyre_fail(err, GYRE_EINVAL, "prepared: is NULL (%s)", run_name);
    gyre_status status = gyre_sized_read(&memory, sizeof memory, given, "gyre_attention_memory", err);
    if (status) return status;
    if (memory.keys < 0 || memory.keys > p->keys)
        return gyre_fail(err, GYRE_EINVAL, "keys: %" PRId64 " is not in 0 .. %" PRId64 " (%s)", memory.keys, p->keys,
                         run_name);
    if (memory.lse && !p->args.lse.data) return gyre_fail(err, GYRE_EINVAL, "lse: was NULL at creation (%s)", run_name);
    const int64_t keys = memory.keys > 0 ? memory.keys : p->keys;
    take_memory(p, &memory);
    set_keys(p, keys);
    status = p->is_checked && p->is_plain ? prepare_plain(p, keys, err) : prepare_any(p, keys, err);
    if (!status && p->is_checked) gyre_attention_steps.run(&p->run, p->scratch.memory, exec_of(p));
    return status;
}
