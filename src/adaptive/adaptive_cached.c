/* adaptive_cached.c: adaptive attention over the sequences of a cache: gyre_cache_adaptive_attention. */
#include "adaptive/adaptive_plan.h"
#include "cache/cached_call.h"
#include "core/positions.h"
#include "core/view.h"
#include "util/error.h"

#include <inttypes.h>

static const char call_name[] = "gyre_cache_adaptive_attention";

typedef struct cached {
    gyre_cached_call cached;
    gyre_adaptive_args args; /* of the whole batch, with keys as many as the longest sequence has */
    /* A batch row as a separate call; before the first, the batch. */
    gyre_adaptive_call row;
    gyre_positions q_pos, k_pos; /* what those of row point to */
} cached;

/* Positions of row b, which has `tokens` keys. */
static void take_positions(cached *c, int64_t b, int64_t tokens, const int64_t *positions) {
    gyre_adaptive_args *args = &c->row.args;
    const gyre_positions *given = c->args.q_pos;
    args->k_pos = args->q_pos = NULL;
    if (!args->encoding || !positions) return;
    gyre_cached_call_positions(&c->cached, positions, args->k_end ? *args->k_end : tokens, &c->q_pos, &c->k_pos);
    args->k_pos = &c->k_pos;
    args->q_pos = &c->q_pos;
    if (given && (given->data || given->base != 0)) c->q_pos = gyre_positions_of_row(given, b);
    if (given) c->q_pos.context_length = given->context_length;
}

static void take_row(void *call, int64_t b, const int64_t *positions) {
    cached *c = call;
    gyre_adaptive_args *args = &c->row.args;
    const int64_t tokens = gyre_cached_call_tokens(&c->cached, b);
    *args = c->args;
    gyre_cached_call_narrow(&c->cached, b);
    take_positions(c, b, tokens, positions);
    gyre_cview_narrow(&args->bias, 0, b, 1);
    args->bias.shape[3] = tokens;
}

static int is_alike(const void *call, int64_t b) {
    const cached *c = call;
    const gyre_positions *given = c->args.q_pos;
    if (!c->args.encoding) return 1;
    return !(given && given->data) && gyre_cached_call_in_range(&c->cached, b, given ? given->context_length : 0);
}

static gyre_status check_options(const cached *c, gyre_error *err) {
    const gyre_adaptive_args *args = &c->row.args;
    const gyre_cache *cache = c->cached.cache;
    if (cache->axes != 1)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "cache: positions have %" PRId64 " axes, not 1 (%s)", cache->axes,
                         call_name);
    if (args->encoding && args->encoding != cache->config.encoding)
        return gyre_fail(err, GYRE_EINVAL, "encoding: is not that of the cache; leave it NULL (%s)", call_name);
    return gyre_cached_call_check_options(&c->cached, args->q_starts, args->k_starts, args->sequences, 1, err);
}

static gyre_status begin(cached *c, const gyre_cache *cache, const int64_t *sequences, int measures,
                         const gyre_adaptive_args *given, gyre_error *err) {
    gyre_adaptive_args *args = &c->row.args;
    c->row = (gyre_adaptive_call){.common = {call_name, GYRE_CALL_CACHED, given, NULL, &c->cached.source, NULL}};
    c->cached = (gyre_cached_call){.where = call_name,
                                   .cache = cache,
                                   .sequences = sequences,
                                   .rows = {.steps = &gyre_adaptive_steps,
                                            .row = &c->row,
                                            .call = c,
                                            .views = GYRE_CACHED_VIEWS(args),
                                            .take = take_row,
                                            .is_alike = is_alike}};
    gyre_status status = gyre_cached_call_begin(&c->cached, measures, err);
    if (!status) status = check_options(c, err);
    if (status) return status;
    args->encoding = cache->config.encoding;
    if (!args->encoding) args->q_pos = NULL; /* positions are those of an encoding */
    args->k_pos = args->q_pos;               /* those of the cache take its place in every row */
    gyre_cached_call_shapes(&c->cached, c->cached.batch, c->cached.longest);
    c->args = *args;
    status = gyre_adaptive_check_shapes(&c->row, err);
    return status || !args->encoding ? status : gyre_cached_call_take_positions(&c->cached, err);
}

/* Memory of the whole batch, which rows are cut from. */
static gyre_status check_whole(cached *c, gyre_error *err) {
    const gyre_positions_extent extent = {c->cached.batch, c->cached.queries, 1, 1, 0};
    gyre_adaptive_args *whole = &c->row.args;
    gyre_status status =
        c->args.q_pos ? gyre_positions_memory_check(c->args.q_pos, &extent, "q_pos", call_name, err) : GYRE_OK;
    whole->k_first = whole->k_end = NULL;
    whole->q_pos = whole->k_pos = NULL;
    if (!status) status = gyre_adaptive_check(&c->row, err);
    return status ? status : gyre_cached_call_check_padding(&c->cached, c->args.k_first, c->args.k_end, err);
}

gyre_status gyre_cache_adaptive_scratch(const gyre_cache *cache, const int64_t *sequences, const gyre_adaptive_args *given,
                                        const gyre_exec *exec, size_t *bytes, gyre_error *err) {
    cached c;
    const gyre_status status = begin(&c, cache, sequences, 1, given, err);
    return status ? status : gyre_cached_call_bytes(&c.cached, exec, bytes, err);
}

gyre_status gyre_cache_adaptive_attention(const gyre_cache *cache, const int64_t *sequences, const gyre_adaptive_args *given,
                                          gyre_scratch scratch, const gyre_exec *exec, gyre_error *err) {
    cached c;
    gyre_status status = begin(&c, cache, sequences, 0, given, err);
    if (!status) status = check_whole(&c, err);
    return status ? status : gyre_cached_call_perform(&c.cached, scratch, exec, err);
}
