/* contextual_cached.c: contextual attention over the sequences of a cache: gyre_cache_contextual_attention. */
#include "cache/cached_call.h"
#include "contextual/contextual_plan.h"
#include "core/view.h"
#include "util/error.h"

static const char call_name[] = "gyre_cache_contextual_attention";

typedef struct cached {
    gyre_cached_call cached;
    gyre_contextual_args args; /* of the whole batch, with keys as many as the longest sequence has */
    gyre_contextual_call row;  /* a batch row as a separate call; before the first, the batch */
} cached;

static void take_row(void *call, int64_t b, const int64_t *positions) {
    cached *c = call;
    (void)positions;
    c->row.args = c->args;
    gyre_cached_call_narrow(&c->cached, b);
}

static gyre_status check_options(const cached *c, gyre_error *err) {
    if (c->cached.cache->config.encoding)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "cache: has an encoding, but queries count positions (%s)", call_name);
    if (c->row.args.gate_keys.data)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "gate_keys: a cache keeps keys and values alone (%s)", call_name);
    return gyre_cached_call_check_options(&c->cached, c->row.args.q_starts, c->row.args.k_starts, c->row.args.sequences, 1,
                                          err);
}

static gyre_status begin(cached *c, const gyre_cache *cache, const int64_t *sequences, int measures,
                         const gyre_contextual_args *given, gyre_error *err) {
    gyre_contextual_args *args = &c->row.args;
    c->row = (gyre_contextual_call){.common = {call_name, GYRE_CALL_CACHED, given, NULL, &c->cached.source, NULL}};
    c->cached = (gyre_cached_call){
        .where = call_name,
        .cache = cache,
        .sequences = sequences,
        .rows = {
            .steps = &gyre_contextual_steps, .row = &c->row, .call = c, .views = GYRE_CACHED_VIEWS(args), .take = take_row}};
    gyre_status status = gyre_cached_call_begin(&c->cached, measures, err);
    if (!status) status = check_options(c, err);
    if (status) return status;
    gyre_cached_call_shapes(&c->cached, c->cached.batch, c->cached.longest);
    c->args = *args;
    return gyre_contextual_check_shapes(&c->row, err);
}

/* Memory of the whole batch, which rows are cut from. */
static gyre_status check_whole(cached *c, gyre_error *err) {
    c->row.args.k_first = c->row.args.k_end = NULL;
    const gyre_status status = gyre_contextual_check(&c->row, err);
    return status ? status : gyre_cached_call_check_padding(&c->cached, c->args.k_first, c->args.k_end, err);
}

gyre_status gyre_cache_contextual_scratch(const gyre_cache *cache, const int64_t *sequences,
                                          const gyre_contextual_args *given, const gyre_exec *exec, size_t *bytes,
                                          gyre_error *err) {
    cached c;
    const gyre_status status = begin(&c, cache, sequences, 1, given, err);
    return status ? status : gyre_cached_call_bytes(&c.cached, exec, bytes, err);
}

gyre_status gyre_cache_contextual_attention(const gyre_cache *cache, const int64_t *sequences,
                                            const gyre_contextual_args *given, gyre_scratch scratch, const gyre_exec *exec,
                                            gyre_error *err) {
    cached c;
    gyre_status status = begin(&c, cache, sequences, 0, given, err);
    if (!status) status = check_whole(&c, err);
    return status ? status : gyre_cached_call_perform(&c.cached, scratch, exec, err);
}
