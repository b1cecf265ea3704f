/* cached_call.c: the batch rows of a call over a cache. */
#include "cache/cached_call.h"
#include "call/call_sequences.h"
#include "core/encoding.h"
#include "core/exec.h"
#include "core/positions.h"
#include "core/view.h"
#include "util/error.h"
#include "util/integers.h"

#include <inttypes.h>

/* -- sequences -- */

/* Rows and queries of a call. */
static gyre_status count_queries(gyre_cached_call *call, gyre_error *err) {
    const int64_t *q = call->rows.views.q->shape;
    call->batch = q[0];
    call->queries = q[1];
    if (!call->q_starts) return GYRE_OK;
    if (q[0] != 1)
        return gyre_fail(err, GYRE_ESHAPE, "q: %" PRId64 " batch rows, but with q_starts it has 1 (%s)", q[0], call->where);
    if (call->q_rows < 1)
        return gyre_fail(err, GYRE_EINVAL, "sequences: %" PRId64 " is below 1, but q_starts is set (%s)", call->q_rows,
                         call->where);
    call->batch = call->q_rows;
    call->queries = gyre_call_longest(call->q_starts, call->q_rows, q[1]);
    return gyre_call_check_starts(call->q_starts, call->q_rows, q[1], "q_starts", call->where, err);
}

int64_t gyre_cached_call_queries(const gyre_cached_call *call, int64_t row) {
    return call->q_starts ? call->q_starts[row + 1] - call->q_starts[row] : call->queries;
}

gyre_status gyre_cached_call_begin(gyre_cached_call *call, int measures, gyre_error *err) {
    const gyre_cache *cache = call->cache;
    const int64_t *sequences = call->sequences;
    gyre_status status = gyre_call_read(call->rows.steps, call->rows.row, err);
    if (status) return status;
    if (!cache) return gyre_fail(err, GYRE_EINVAL, "cache: is NULL (%s)", call->where);
    status = count_queries(call, err);
    if (status) return status;
    call->lowest = INT64_MIN;
    call->highest = INT64_MAX;
    if (!sequences && !measures && call->batch > 0)
        return gyre_fail(err, GYRE_EINVAL, "sequences: is NULL (%s)", call->where);
    if (call->batch < 0) return gyre_fail(err, GYRE_ESHAPE, "q: %" PRId64 " batch rows (%s)", call->batch, call->where);
    int64_t most = -1; /* tokens of longest_row */
    if (!sequences) call->longest = cache->contiguous ? cache->page_tokens : cache->config.max_tokens;
    for (int64_t b = 0; sequences && b < call->batch; b++) {
        const int64_t tokens = gyre_cache_tokens(cache, sequences[b]);
        if (tokens < 0)
            return gyre_fail(err, GYRE_EINVAL, "sequences[%" PRId64 "]: %" PRId64 " is not in 0 .. %" PRId64 " (%s)", b,
                             sequences[b], cache->config.sequences - 1, call->where);
        const int takes_part = !call->q_starts || gyre_cached_call_queries(call, b) > 0;
        if (takes_part && (most < 0 || tokens > most)) most = tokens, call->longest_row = b;
        if (tokens > call->longest) call->longest = tokens;
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

void gyre_cached_call_take_queries(const gyre_cached_call *call, int64_t row, gyre_cview *view) {
    gyre_call_take_queries(view, call->q_starts, row);
}

void gyre_cached_call_take_results(const gyre_cached_call *call, int64_t row, gyre_view *view) {
    gyre_call_take_results(view, call->q_starts, row);
}

gyre_positions gyre_cached_call_row_positions(const gyre_cached_call *call, int64_t row, const gyre_positions *positions) {
    return gyre_call_query_positions(positions, call->q_starts, row);
}

void gyre_cached_call_narrow(gyre_cached_call *call, int64_t row) {
    const gyre_cached_views *views = &call->rows.views;
    call->source = gyre_cache_source(call->cache, call->sequences ? call->sequences[row] : 0);
    gyre_cached_call_shapes(call, 1, gyre_cached_call_tokens(call, row));
    gyre_cached_call_take_queries(call, row, views->q);
    gyre_cached_call_take_results(call, row, views->out);
    gyre_cached_call_take_results(call, row, views->lse);
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
        const int64_t moved = range->delta[0]; /* one axis: a loop of vectors */
        for (int64_t t = 0; t < range->count && axes == 1; t++)
            out[t] = at[t] + moved;
        for (int64_t t = 0; t < range->count && axes > 1; t++)
            for (int64_t a = 0; a < axes; a++)
                out[t * axes + a] = at[t * axes + a] + range->delta[a];
        out += range->count * axes;
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
    if (call->q_starts && k_starts)
        return gyre_fail(err, GYRE_EINVAL, "k_starts: are set, but each sequence of the cache has its own keys (%s)",
                         call->where);
    if (without_gates && call->cache->config.gate_heads > 0)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "cache: keeps gate sums, which have no part in this attention (%s)",
                         call->where);
    if (call->q_starts || (!q_starts && !k_starts && sequences == 0)) return GYRE_OK;
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

/* out = threads to which rows are dealt out, at most; 1: they run one after the other. */
static int64_t row_threads(const gyre_cached_call *c, const gyre_exec *exec) {
    return c->rows.copy ? gyre_min_i64(gyre_exec_concurrency(exec), c->batch) : 1;
}

/* *bytes += bytes of a row; ragged: of one with the most queries and the most keys, which is then in place. */
static gyre_status plan_row(const gyre_cached_call *c, const gyre_exec *exec, size_t *bytes, gyre_error *err) {
    size_t needed = 0;
    if (c->q_starts) c->rows.views.q->shape[1] = c->rows.views.out->shape[1] = c->rows.views.lse->shape[1] = c->queries;
    const gyre_status status = gyre_call_plan(c->rows.steps, c->rows.row, exec, &needed, err);
    if (!status && needed > SIZE_MAX - *bytes)
        return gyre_fail(err, GYRE_ENOMEM, "scratch: more bytes than can be counted (%s)", c->where);
    *bytes += needed;
    return status;
}

/* *each = bytes of a thread to which rows are dealt out. */
static gyre_status plan_thread(const gyre_cached_call *c, size_t *each, gyre_error *err) {
    *each = c->position_bytes + gyre_arena_round_up(c->rows.size);
    return plan_row(c, NULL, each, err);
}

/* *bytes = position_bytes and the scratch of c->rows.row: the longest needs the most.  Also what threads need to which rows
 * are dealt out; *each = of one of them. */
static gyre_status plan(const gyre_cached_call *c, const gyre_exec *exec, size_t *bytes, size_t *each, gyre_error *err) {
    const int64_t threads = row_threads(c, exec);
    gyre_status status = threads > 1 ? plan_thread(c, each, err) : GYRE_OK;
    size_t of_threads = 0;
    if (!status && threads > 1 && __builtin_mul_overflow(*each, (size_t)threads, &of_threads))
        status = gyre_fail(err, GYRE_ENOMEM, "scratch: more bytes than can be counted (%s)", c->where);
    *bytes = c->position_bytes;
    if (!status) status = plan_row(c, exec, bytes, err);
    if (!status && of_threads > *bytes) *bytes = of_threads;
    return status;
}

gyre_status gyre_cached_call_bytes(const gyre_cached_call *c, const gyre_exec *exec, size_t *bytes, gyre_error *err) {
    size_t needed = c->position_bytes + ALIGNMENT, each = 0;
    if (!bytes) return gyre_fail(err, GYRE_EINVAL, "bytes: is NULL (%s)", c->where);
    gyre_status status = check_shapes(c, err);
    if (status) return status;
    if (c->batch > 0) {
        c->rows.take(c->rows.call, c->longest_row, NULL);
        status = plan(c, exec, &needed, &each, err);
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

/* Runs row b with scratch memory; is_planned: it is in place. */
static void run_row(const gyre_cached_call *c, int64_t b, int is_planned, char *memory, const gyre_exec *exec) {
    size_t bytes = 0;
    if (!is_planned) {
        take_row(c, b, (int64_t *)(void *)memory);
        if (c->rows.steps->plan(c->rows.row, exec, &bytes)) return; /* cannot be: that of the longest row was made */
    }
    c->rows.steps->run(c->rows.row, memory + c->position_bytes, exec);
    if (c->rows.end) c->rows.end(c->rows.call, b);
}

/* -- rows that are dealt out -- */

typedef struct row_deal {
    const gyre_cached_call *call;
    char *memory;
    size_t each;  /* bytes of a thread */
    double small; /* rows of more work run with all threads */
    atomic_int_least64_t next;
} row_deal;

static double work_of(const gyre_cached_call *c, int64_t b) {
    return (double)gyre_cached_call_queries(c, b) * (double)(gyre_cached_call_tokens(c, b) + 1);
}

static void run_dealt(void *arg, int64_t thread) {
    row_deal *deal = arg;
    char *memory = deal->memory + (size_t)thread * deal->each;
    const gyre_cached_call *c = deal->call->rows.copy(deal->call->rows.call, memory);
    memory += gyre_arena_round_up(c->rows.size);
    for (int64_t b; (b = atomic_fetch_add(&deal->next, 1)) < c->batch;)
        if (work_of(c, b) <= deal->small && gyre_cached_call_queries(c, b) > 0) run_row(c, b, 0, memory, NULL);
}

/* Runs every row.  The longest is planned, unless the batch is ragged. */
static void run_rows(const gyre_cached_call *c, gyre_scratch scratch, size_t each, const gyre_exec *exec) {
    const int64_t threads = row_threads(c, exec);
    row_deal deal = {.call = c, .memory = scratch.memory, .each = each, .small = -1};
    double all = 0;
    int64_t dealt = 0;
    for (int64_t b = 0; threads > 1 && b < c->batch; b++)
        all += work_of(c, b);
    if (threads > 1) deal.small = all / (2 * (double)threads);
    for (int64_t i = c->batch - 1; i >= 0; i--) {
        const int64_t b = row_at(c, i);
        if (c->q_starts && gyre_cached_call_queries(c, b) == 0) continue;
        if (work_of(c, b) <= deal.small)
            dealt++;
        else
            run_row(c, b, i == c->batch - 1 && !c->q_starts, scratch.memory, exec);
    }
    atomic_init(&deal.next, 0);
    if (dealt > 0) gyre_parallel(exec, run_dealt, &deal, gyre_min_i64(threads, dealt));
}

gyre_status gyre_cached_call_perform(const gyre_cached_call *c, gyre_scratch scratch, const gyre_exec *exec,
                                     gyre_error *err) {
    size_t needed = 0, each = 0;
    if (c->rows.steps->is_empty(c->rows.row)) return check_rows(c, NULL, err);
    /* Shapes that cannot be are refused for the scratch too, so they are the fault rather than the scratch. */
    gyre_status status = scratch.bytes < c->position_bytes ? check_shapes(c, err) : GYRE_OK;
    /* The checks read the positions of a row from the scratch, so that comes first. */
    if (!status && c->position_bytes > 0) status = gyre_scratch_check(c->where, scratch, c->position_bytes, err);
    if (!status) status = check_rows(c, scratch.memory, err);
    if (!status) status = plan(c, exec, &needed, &each, err);
    if (!status) status = gyre_scratch_check(c->where, scratch, needed, err);
    if (!status) run_rows(c, scratch, each, exec);
    return status;
}
