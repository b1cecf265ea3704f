/* adaptive_cached.c: adaptive attention over the sequences of a cache: gyre_cache_adaptive_attention. */
#include "adaptive/adaptive_check.h"
#include "adaptive/adaptive_run.h"
#include "attention/attention.h"
#include "attention/plan/arena.h"
#include "core/positions.h"
#include "core/view.h"
#include "tiling/cached_call.h"
#include "util/error.h"

#include <inttypes.h>

static const char call_name[] = "gyre_cache_adaptive_attention";

typedef struct cached {
    gyre_cached_call call;
    gyre_adaptive_args args; /* of the whole batch, with keys as many as the longest sequence has */
    size_t position_bytes; /* at the front of the scratch: positions of one sequence, after one for each query, which has it
                              * where the query stands before the first token; 0 without an encoding */
} cached;

/* A batch row as a call of its own. */
typedef struct row_call {
    gyre_adaptive_args args;
    gyre_positions q_pos, k_pos; /* what those of args point to */
} row_call;

static int64_t end_of_keys(const cached *c, int64_t row) {
    return c->args.k_end ? c->args.k_end[row] : gyre_cached_call_tokens(&c->call, row);
}

/* positions: as in the scratch. */
static void make_row(const cached *c, int64_t row, const int64_t *positions, row_call *out) {
    const int64_t tokens = gyre_cached_call_tokens(&c->call, row);
    gyre_adaptive_args *args = &out->args;
    *args = c->args;
    args->k = gyre_cached_call_keys(&c->call, 1, tokens);
    args->v = gyre_cached_call_values(&c->call, 1, tokens);
    gyre_cview_narrow(&args->q, 0, row, 1);
    gyre_cview_narrow(&args->bias, 0, row, 1);
    gyre_view_narrow(&args->out, 0, row, 1);
    gyre_view_narrow(&args->lse, 0, row, 1);
    args->bias.shape[3] = tokens;
    if (args->k_first) args->k_first += row;
    if (args->k_end) args->k_end += row;
    if (!args->encoding) return;
    out->k_pos = (gyre_positions){.data = positions + args->q.shape[1], .dtype = GYRE_DTYPE_I64, .stride_token = 1};
    args->k_pos = &out->k_pos;
    args->q_pos = &out->q_pos;
    if (!c->args.q_pos || (!c->args.q_pos->data && c->args.q_pos->base == 0)) { /* the last query beside the last key */
        out->q_pos = out->k_pos;
        out->q_pos.data = positions + end_of_keys(c, row);
        if (c->args.q_pos) out->q_pos.context_length = c->args.q_pos->context_length;
        return;
    }
    out->q_pos = gyre_positions_of_row(c->args.q_pos, row);
}

static gyre_status check_options(const cached *c, gyre_error *err) {
    const gyre_adaptive_args *args = &c->args;
    if (c->call.cache->axes != 1)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "cache: positions have %" PRId64 " axes, not 1 (%s)", c->call.cache->axes,
                         call_name);
    return gyre_cached_call_check_packing(args->q_starts, args->k_starts, args->sequences, call_name, err);
}

static gyre_status begin(cached *c, const gyre_cache *cache, const int64_t *sequences, const gyre_adaptive_args *given,
                         gyre_error *err) {
    *c = (cached){.position_bytes = 0};
    gyre_status status = gyre_adaptive_args_read(&c->args, given, err);
    const int64_t batch = c->args.q.shape[0];
    if (!status) status = gyre_cached_call_begin(&c->call, cache, sequences, batch, call_name, err);
    if (!status) status = check_options(c, err);
    if (status) return status;
    if (c->args.encoding && c->args.encoding != c->call.cache->config.encoding)
        return gyre_fail(err, GYRE_EINVAL, "encoding: is not that of the cache; leave it NULL (%s)", call_name);
    c->args.encoding = c->call.cache->config.encoding;
    if (!c->args.encoding) c->args.q_pos = NULL; /* positions are those of an encoding */
    c->args.k_pos = c->args.q_pos;               /* those of the cache take its place in every row */
    c->args.k = gyre_cached_call_keys(&c->call, batch, c->call.longest);
    c->args.v = gyre_cached_call_values(&c->call, batch, c->call.longest);
    status = gyre_adaptive_check_shapes(&c->args, call_name, err);
    if (!status && c->args.encoding)
        c->position_bytes = gyre_arena_round_up((size_t)(c->call.longest + c->args.q.shape[1]) * sizeof(int64_t));
    return status;
}

/* Memory of the whole batch, because rows are computed one after the other. */
static gyre_status check_whole(const cached *c, gyre_error *err) {
    const gyre_positions_extent extent = {c->call.batch, c->args.q.shape[1], 1, 1, 0};
    gyre_adaptive_args whole = c->args;
    const gyre_status status =
        c->args.q_pos ? gyre_positions_memory_check(c->args.q_pos, &extent, "q_pos", call_name, err) : GYRE_OK;
    if (status) return status;
    whole.k_first = whole.k_end = NULL;
    whole.q_pos = whole.k_pos = NULL;
    return gyre_adaptive_check(&whole, GYRE_ADAPTIVE_CACHED, call_name, err);
}

static gyre_status read_positions(const cached *c, int64_t row, int64_t *to, gyre_error *err) {
    const int64_t tokens = gyre_cached_call_tokens(&c->call, row), queries = c->args.q.shape[1];
    if (!c->args.encoding) return GYRE_OK;
    const gyre_status status =
        gyre_cache_positions(c->call.cache, (gyre_cache_range){c->call.sequences[row], 0, tokens}, 0, to + queries, err);
    for (int64_t i = 0; i < queries && !status; i++)
        to[i] = (tokens > 0 ? to[queries] : 0) - (queries - i);
    return status;
}

static gyre_status check_rows(const cached *c, int64_t *positions, gyre_error *err) {
    row_call row;
    gyre_status status = gyre_cached_call_check_padding(&c->call, c->args.k_first, c->args.k_end, call_name, err);
    for (int64_t b = 0; b < c->call.batch && !status; b++) {
        status = read_positions(c, b, positions, err);
        if (status) return status;
        make_row(c, b, positions, &row);
        status = gyre_adaptive_check(&row.args, GYRE_ADAPTIVE_CACHED, call_name, err);
    }
    return status;
}

static gyre_status plan_longest(const cached *c, gyre_adaptive_args *args, gyre_adaptive_plan *plan, const gyre_exec *exec) {
    *args = c->args;
    args->q.shape[0] = args->k.shape[0] = args->v.shape[0] = 1;
    return gyre_adaptive_plan_make(plan, args, 0, exec);
}

/* *args, *plan = the row with the longest sequence, and *bytes = scratch of the call. */
static gyre_status plan_bytes(const cached *c, gyre_adaptive_args *args, gyre_adaptive_plan *plan, const gyre_exec *exec,
                              size_t *bytes, gyre_error *err) {
    gyre_status status = plan_longest(c, args, plan, exec);
    if (!status && plan->bytes > SIZE_MAX - c->position_bytes) status = GYRE_ENOMEM;
    if (status) return gyre_fail(err, status, "scratch: more bytes than can be counted (%s)", call_name);
    *bytes = c->position_bytes + plan->bytes;
    return GYRE_OK;
}

gyre_status gyre_cache_adaptive_scratch(const gyre_cache *cache, const int64_t *sequences, const gyre_adaptive_args *given,
                                        const gyre_exec *exec, size_t *bytes, gyre_error *err) {
    cached c;
    gyre_adaptive_args args;
    gyre_adaptive_plan plan;
    if (!bytes) return gyre_fail(err, GYRE_EINVAL, "bytes: is NULL (%s)", call_name);
    const gyre_status status = begin(&c, cache, sequences, given, err);
    return status ? status : plan_bytes(&c, &args, &plan, exec, bytes, err);
}

static void run_rows(const cached *c, int64_t *positions, char *scratch, const gyre_exec *exec) {
    row_call row;
    gyre_adaptive_plan plan;
    for (int64_t b = 0; b < c->call.batch; b++) {
        const gyre_key_source source = gyre_cache_source(c->call.cache, c->call.sequences[b]);
        /* Neither can fail: they did not in the checks, and the plan of the longest row was made. */
        if (read_positions(c, b, positions, NULL)) continue;
        make_row(c, b, positions, &row);
        if (gyre_adaptive_plan_make(&plan, &row.args, 0, exec)) continue;
        plan.source = &source;
        gyre_adaptive_forward_run(&plan, scratch, exec);
    }
}

gyre_status gyre_cache_adaptive_attention(const gyre_cache *cache, const int64_t *sequences, const gyre_adaptive_args *given,
                                          gyre_scratch scratch, const gyre_exec *exec, gyre_error *err) {
    cached c;
    gyre_adaptive_args args;
    gyre_adaptive_plan plan;
    size_t needed = 0;
    if (cache && !sequences) return gyre_fail(err, GYRE_EINVAL, "sequences: is NULL (%s)", call_name);
    gyre_status status = begin(&c, cache, sequences, given, err);
    if (!status) status = check_whole(&c, err);
    if (status || gyre_view_elements(c.args.out.shape) == 0) return status;
    status = plan_bytes(&c, &args, &plan, exec, &needed, err);
    if (!status) status = gyre_scratch_check(call_name, scratch, needed, err);
    if (!status) status = check_rows(&c, scratch.memory, err);
    if (!status) run_rows(&c, scratch.memory, (char *)scratch.memory + c.position_bytes, exec);
    return status;
}
