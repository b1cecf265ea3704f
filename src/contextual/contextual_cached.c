/* contextual_cached.c: contextual attention over the sequences of a cache: gyre_cache_contextual_attention. */
#include "attention/attention.h"
#include "contextual/contextual_check.h"
#include "contextual/contextual_run.h"
#include "core/view.h"
#include "tiling/cached_call.h"
#include "util/error.h"

static const char call_name[] = "gyre_cache_contextual_attention";

typedef struct cached {
    gyre_cached_call call;
    gyre_contextual_args args; /* of the whole batch, with keys as many as the longest sequence has */
} cached;

/* out = the arguments of a batch row. */
static gyre_contextual_args row_args(const cached *c, int64_t row) {
    gyre_contextual_args args = c->args;
    const int64_t tokens = gyre_cached_call_tokens(&c->call, row);
    args.k = gyre_cached_call_keys(&c->call, 1, tokens);
    args.v = gyre_cached_call_values(&c->call, 1, tokens);
    gyre_cview_narrow(&args.q, 0, row, 1);
    gyre_view_narrow(&args.out, 0, row, 1);
    gyre_view_narrow(&args.lse, 0, row, 1);
    if (args.k_first) args.k_first += row;
    if (args.k_end) args.k_end += row;
    return args;
}

static gyre_status check_options(const cached *c, gyre_error *err) {
    if (c->call.cache->config.encoding)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "cache: has an encoding, but queries count positions (%s)", call_name);
    if (c->args.gate_keys.data)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "gate_keys: a cache keeps keys and values alone (%s)", call_name);
    return gyre_cached_call_check_packing(c->args.q_starts, c->args.k_starts, c->args.sequences, call_name, err);
}

static gyre_status begin(cached *c, const gyre_cache *cache, const int64_t *sequences, const gyre_contextual_args *given,
                         gyre_error *err) {
    gyre_status status = gyre_contextual_args_read(&c->args, given, err);
    const int64_t batch = c->args.q.shape[0];
    if (!status) status = gyre_cached_call_begin(&c->call, cache, sequences, batch, call_name, err);
    if (!status) status = check_options(c, err);
    if (status) return status;
    c->args.k = gyre_cached_call_keys(&c->call, batch, c->call.longest);
    c->args.v = gyre_cached_call_values(&c->call, batch, c->call.longest);
    return gyre_contextual_check_shapes(&c->args, call_name, err);
}

/* Memory of the whole batch, because rows are computed one after the other; then what each row has of its own. */
static gyre_status check(const cached *c, gyre_error *err) {
    gyre_contextual_args whole = c->args;
    whole.k_first = whole.k_end = NULL;
    gyre_status status = gyre_contextual_check(&whole, GYRE_CONTEXTUAL_CACHED, call_name, err);
    if (!status) status = gyre_cached_call_check_padding(&c->call, c->args.k_first, c->args.k_end, call_name, err);
    for (int64_t b = 0; b < c->call.batch && !status; b++) {
        const gyre_contextual_args args = row_args(c, b);
        status = gyre_contextual_check(&args, GYRE_CONTEXTUAL_CACHED, call_name, err);
    }
    return status;
}

/* The row with the longest sequence needs the most scratch. */
static gyre_status plan_longest(const cached *c, gyre_contextual_args *args, gyre_contextual_plan *plan,
                                const gyre_exec *exec) {
    *args = c->args;
    args->q.shape[0] = args->k.shape[0] = args->v.shape[0] = 1;
    return gyre_contextual_plan_make(plan, args, 0, exec);
}

static gyre_status plan_bytes(const cached *c, gyre_contextual_args *args, gyre_contextual_plan *plan, const gyre_exec *exec,
                              gyre_error *err) {
    const gyre_status status = plan_longest(c, args, plan, exec);
    return status ? gyre_fail(err, status, "scratch: more bytes than can be counted (%s)", call_name) : GYRE_OK;
}

gyre_status gyre_cache_contextual_scratch(const gyre_cache *cache, const int64_t *sequences,
                                          const gyre_contextual_args *given, const gyre_exec *exec, size_t *bytes,
                                          gyre_error *err) {
    cached c;
    gyre_contextual_args args;
    gyre_contextual_plan plan;
    if (!bytes) return gyre_fail(err, GYRE_EINVAL, "bytes: is NULL (%s)", call_name);
    gyre_status status = begin(&c, cache, sequences, given, err);
    if (!status) status = plan_bytes(&c, &args, &plan, exec, err);
    if (!status) *bytes = plan.bytes;
    return status;
}

gyre_status gyre_cache_contextual_attention(const gyre_cache *cache, const int64_t *sequences,
                                            const gyre_contextual_args *given, gyre_scratch scratch, const gyre_exec *exec,
                                            gyre_error *err) {
    cached c;
    gyre_contextual_args args;
    gyre_contextual_plan plan;
    if (cache && !sequences) return gyre_fail(err, GYRE_EINVAL, "sequences: is NULL (%s)", call_name);
    gyre_status status = begin(&c, cache, sequences, given, err);
    if (!status) status = check(&c, err);
    if (status || gyre_view_elements(c.args.out.shape) == 0) return status;
    status = plan_bytes(&c, &args, &plan, exec, err);
    if (!status) status = gyre_scratch_check(call_name, scratch, plan.bytes, err);
    for (int64_t b = 0; b < c.call.batch && !status; b++) {
        const gyre_key_source source = gyre_cache_source(cache, sequences[b]);
        args = row_args(&c, b);
        if (gyre_contextual_plan_make(&plan, &args, 0, exec)) continue; /* cannot be: that of the longest row was made */
        plan.source = &source;
        gyre_contextual_forward_run(&plan, scratch.memory, exec);
    }
    return status;
}
