/* cached_call.c: the batch rows of a call over a cache. */
#include "cache/cached_call.h"
#include "core/encoding.h"
#include "core/positions.h"
#include "core/view.h"
#include "util/error.h"
#include "util/integers.h"

#include <inttypes.h>

/* -- sequences -- */

gyre_status gyre_cached_call_begin(gyre_cached_call *call, int measures, gyre_error *err) {
    const gyre_cache *cache = call->cache;
    const int64_t *sequences = call->sequences, *q = call->rows.views.q->shape;
    const gyre_status status = gyre_call_read(call->rows.steps, call->rows.row, err);
    if (status) return status;
    if (!cache) return gyre_fail(err, GYRE_EINVAL, "cache: is NULL (%s)", call->where);
    call->batch = q[0];
    call->queries = q[1];
    call->lowest = INT64_MIN;
    call->highest = INT64_MAX;
    if (!sequences && !measures && call->batch > 0)
        return gyre_fail(err, GYRE_EINVAL, "sequences: is NULL (%s)", call->where);
    if (call->batch < 0) return gyre_fail(err, GYRE_ESHAPE, "q: %" PRId64 " batch rows (%s)", call->batch, call->where);
    if (!sequences) call->longest = cache->contiguous ? cache->page_tokens : cache->config.max_tokens;
    for (int64_t b = 0; sequences && b < call->batch; b++) {
        const int64_t tokens = gyre_cache_tokens(cache, sequences[b]);
        if (tokens < 0)
            return gyre_fail(err, GYRE_EINVAL, "sequences[%" PRId64 "]: %" PRId64 " is not in 0 .. %" PRId64 " (%s)", b,
                             sequences[b], cache->config.sequences - 1, call->where);
        if (tokens > call->longest) call->longest = tokens, call->longest_row = b;
    }
    return GYRE_OK;
}

gyre_status gyre_cached_call_take_positions(gyre_cached_call *call, gyre_error *err) {
    const int64_t axes = call->cache->axes, most = INT64_MAX / (int64_t)sizeof(int64_t) / axes - ALIGNMENT;
    if (call->queries < 0 || call->queries > (most - call->longest) / 2)
        return gyre_fail(err, GYRE_ESHAPE, "q: %" PRId64 " queries (%s)", call->queries, call->where);
    call->position_bytes = gyre_arena_round_up((size_t)((2 * call->queries + call->longest) * axes) * sizeof(int64_t));
    return GYRE_OK;
}

int64_t gyre_cached_call_tokens(const gyre_cached_call *call, int64_t row) {
    return call->sequences ? gyre_cache_tokens(call->cache, call->sequences[row]) : call->longest;
}

void gyre_cached_call_shapes(const gyre_cached_call *call, int64_t batch, int64_t tokens) {
    const gyre_cache *cache = call->cache;
    *call->rows.views.k = gyre_cdense(NULL, GYRE_DTYPE_F32, batch, tokens, cache->config.heads, cache->k.channels);
    *call->rows.views.v = gyre_cdense(NULL, GYRE_DTYPE_F32, batch, tokens, cache->config.heads, cache->v.channels);
}

void gyre_cached_call_narrow(gyre_cached_call *call, int64_t row) {
    const gyre_cached_views *views = &call->rows.views;
    call->source = gyre_cache_source(call->cache, call->sequences ? call->sequences[row] : 0);
    gyre_cached_call_shapes(call, 1, gyre_cached_call_tokens(call, row));
    gyre_cview_narrow(views->q, 0, row, 1);
    gyre_view_narrow(views->out, 0, row, 1);
    gyre_view_narrow(views->lse, 0, row, 1);
    if (*views->k_first) *views->k_first += row;
    if (*views->k_end) *views->k_end += row;
}

/* -- positions -- */

void gyre_cached_call_positions(const gyre_cached_call *call, const int64_t *positions, int64_t end, gyre_positions *q_pos,
                                gyre_positions *k_pos) {
    const int64_t axes = call->cache->axes;
    *k_pos = (gyre_positions){.data = positions ? positions + call->queries * axes : NULL,
                              .dtype = GYRE_DTYPE_I64,
                              .stride_token = axes,
                              .stride_axis = axes > 1};
    *q_pos = *k_pos;
    if (positions) q_pos->data = positions + end * axes;
}

static void read_positions(const gyre_cached_call *call, int64_t row, int64_t *positions) {
    const gyre_sequence *s = &call->cache->sequence[call->sequences[row]];
    const int64_t axes = call->cache->axes, queries = call->queries;
    int64_t *first = positions + queries * axes, *out = first;
    for (int64_t i = 0; i < s->count; i++) {
        const gyre_slot_range *range = &s->ranges[i];
        const int64_t *at = gyre_cache_position(call->cache, range->page, range->first);
        for (int64_t t = 0; t < range->count; t++)
            for (int64_t a = 0; a < axes; a++)
                *out++ = *at++ + range->delta[a];
    }
    const int any = out > first;
    for (int64_t i = 0; i < queries * axes; i++) { /* they see no key, so any position will do */
        positions[i] = gyre_max_i64(call->lowest, (any ? first[i % axes] : 0) - (queries - i / axes));
        out[i] = gyre_min_i64(call->highest, (any ? out[i % axes - axes] : -1) + 1 + i / axes);
    }
}

int gyre_cached_call_in_range(const gyre_cached_call *call, int64_t row, int64_t length) {
    const gyre_encoding *encoding = call->cache->config.encoding;
    const gyre_sequence *s = &call->cache->sequence[call->sequences[row]];
    const int64_t axes = call->cache->axes;
    int64_t low = s->tokens > 0 ? INT64_MAX : 0, high = INT64_MIN;
    for (int64_t i = 0; i < s->count; i++) {
        const gyre_slot_range *range = &s->ranges[i];
        const int64_t *at = gyre_cache_position(call->cache, range->page, range->first);
        for (int64_t t = 0; t < range->count; t++)
            for (int64_t a = 0; a < axes; a++, at++) {
                low = gyre_min_i64(low, *at + range->delta[a]);
                high = gyre_max_i64(high, *at + range->delta[a]);
            }
    }
    low = gyre_max_i64(call->lowest, low - call->queries); /* queries before the first token */
    if (!encoding) return -GYRE_MAX_POSITION <= low && high <= GYRE_MAX_POSITION;
    return encoding->first_position <= low && high <= encoding->last_position &&
           (length != 0 || high <= encoding->last_scaled);
}

/* -- checks -- */

gyre_status gyre_cached_call_check_options(const gyre_cached_call *call, const int64_t *q_starts, const int64_t *k_starts,
                                           int64_t sequences, int without_gates, gyre_error *err) {
    if (without_gates && call->cache->config.gate_heads > 0)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "cache: keeps gate sums, which have no part in this attention (%s)",
                         call->where);
    if (!q_starts && !k_starts && sequences == 0) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "q_starts, k_starts: a cache takes no packed batch (%s)", call->where);
}

gyre_status gyre_cached_call_check_padding(const gyre_cached_call *call, const int64_t *k_first, const int64_t *k_end,
                                           gyre_error *err) {
    for (int64_t row = 0; row < call->batch && (k_first || k_end); row++) {
        const int64_t tokens = gyre_cached_call_tokens(call, row);
        const int64_t first = k_first ? k_first[row] : 0, end = k_end ? k_end[row] : tokens;
        if (first < 0 || first > end || end > tokens)
            return gyre_fail(err, GYRE_EINVAL,
                             "k_first, k_end: keys %" PRId64 " .. %" PRId64 " of row %" PRId64
                             ", whose sequence has %" PRId64 " tokens (%s)",
                             first, end, row, tokens, call->where);
    }
    return GYRE_OK;
}

/* -- the rows -- */

/* What rows have in shapes and types, which needs no positions. */
static gyre_status check_shapes(const gyre_cached_call *c, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t b = 0; b < c->batch && !status; b++) {
        c->rows.take(c->rows.call, b, NULL);
        status = c->rows.steps->check_shapes(c->rows.row, err);
    }
    return status;
}

/* *bytes = position_bytes and the scratch of c->rows.row: the longest needs the most. */
static gyre_status plan(const gyre_cached_call *c, const gyre_exec *exec, size_t *bytes, gyre_error *err) {
    size_t needed = 0;
    const gyre_status status = gyre_call_plan(c->rows.steps, c->rows.row, exec, &needed, err);
    if (!status && needed > SIZE_MAX - c->position_bytes)
        return gyre_fail(err, GYRE_ENOMEM, "scratch: more bytes than can be counted (%s)", c->where);
    *bytes = c->position_bytes + needed;
    return status;
}

gyre_status gyre_cached_call_bytes(const gyre_cached_call *c, const gyre_exec *exec, size_t *bytes, gyre_error *err) {
    size_t needed = c->position_bytes + ALIGNMENT;
    if (!bytes) return gyre_fail(err, GYRE_EINVAL, "bytes: is NULL (%s)", c->where);
    gyre_status status = check_shapes(c, err);
    if (status) return status;
    if (c->batch > 0) {
        c->rows.take(c->rows.call, c->longest_row, NULL);
        status = plan(c, exec, &needed, err);
    }
    if (!status) *bytes = needed;
    return status;
}

/* Positions of row b, if they are needed and have memory, and the row. */
static void take_row(const gyre_cached_call *c, int64_t b, int64_t *positions) {
    if (c->position_bytes > 0 && positions) read_positions(c, b, positions);
    c->rows.take(c->rows.call, b, positions);
}

/* Rows i = 0 .. batch - 1 in the order of checks: the longest comes last, so its plan and its positions are there when the
 * first row runs. */
static int64_t row_at(const gyre_cached_call *c, int64_t i) {
    return (c->longest_row + 1 + i) % c->batch;
}

/* Checks every row, and leaves the longest in place. */
static gyre_status check_rows(const gyre_cached_call *c, int64_t *positions, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < c->batch && !status; i++) {
        const int64_t b = row_at(c, i);
        if (b != c->longest_row && (!c->rows.is_alike || c->rows.is_alike(c->rows.call, b))) continue;
        take_row(c, b, positions);
        status = c->rows.steps->check(c->rows.row, err);
    }
    return status || !c->rows.check_batch || c->batch < 2 || !positions ? status : c->rows.check_batch(c->rows.call, err);
}

/* Runs every row.  The longest is planned. */
static void run_rows(const gyre_cached_call *c, gyre_scratch scratch, const gyre_exec *exec) {
    char *rest = (char *)scratch.memory + c->position_bytes;
    for (int64_t i = c->batch - 1; i >= 0; i--) {
        const int64_t b = row_at(c, i);
        size_t bytes = 0;
        if (i < c->batch - 1) {
            take_row(c, b, scratch.memory);
            if (c->rows.steps->plan(c->rows.row, exec, &bytes)) continue; /* cannot be: that of the longest row was made */
        }
        c->rows.steps->run(c->rows.row, rest, exec);
        if (c->rows.end) c->rows.end(c->rows.call, b);
    }
}

gyre_status gyre_cached_call_perform(const gyre_cached_call *c, gyre_scratch scratch, const gyre_exec *exec,
                                     gyre_error *err) {
    size_t needed = 0;
    if (c->rows.steps->is_empty(c->rows.row)) return check_rows(c, NULL, err);
    /* Shapes that cannot be are refused for the scratch too, so they are the fault rather than the scratch. */
    gyre_status status = scratch.bytes < c->position_bytes ? check_shapes(c, err) : GYRE_OK;
    /* The checks read the positions of a row from the scratch, so that comes first. */
    if (!status && c->position_bytes > 0) status = gyre_scratch_check(c->where, scratch, c->position_bytes, err);
    if (!status) status = check_rows(c, scratch.memory, err);
    if (!status) status = plan(c, exec, &needed, err);
    if (!status) status = gyre_scratch_check(c->where, scratch, needed, err);
    if (!status) run_rows(c, scratch, exec);
    return status;
}
