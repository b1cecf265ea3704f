/* cache_attention.c: attention over the sequences of a cache: gyre_cache_attention. */
#include "attention/attention.h"
#include "attention/forward/attention_weights.h"
#include "attention/sequence_options.h"
#include "cache/cached_call.h"
#include "call/tile_rows.h"
#include "core/positions.h"
#include "core/sized.h"
#include "core/view.h"
#include "util/integers.h"

#include <inttypes.h>

static const char call_name[] = "gyre_cache_attention";

typedef struct call {
    gyre_cached_call cached;
    gyre_attention_inputs args; /* as the caller gave them */
    int measures;               /* 1: the call that measures scratch, which needs no memory for out */
    /* A batch row as a separate call; before the first, the batch. */
    gyre_attention_inputs row;
    gyre_sequence_indices indices; /* what those of row point to */
    gyre_attention_request request;
    gyre_attention_run run;
} call;

/* -- checks of the whole batch -- */

static gyre_status check_batch_extent(const call *c, const char *field, int64_t batch, gyre_error *err) {
    if (batch == c->cached.batch) return GYRE_OK;
    return gyre_fail(err, GYRE_ESHAPE, "%s: %" PRId64 " batch rows, but q has %" PRId64 " (%s)", field, batch,
                     c->cached.batch, call_name);
}

/* Batch rows and queries of a view of all queries. */
static gyre_status check_rows(const call *c, const char *field, const int64_t *shape, gyre_error *err) {
    if (!c->cached.q_starts) return check_batch_extent(c, field, shape[0], err);
    const int64_t tokens = c->args.q.shape[1];
    if (shape[0] != 1)
        return gyre_fail(err, GYRE_ESHAPE, "%s: %" PRId64 " batch rows, but q has 1 (%s)", field, shape[0], call_name);
    if (shape[1] == tokens) return GYRE_OK;
    return gyre_fail(err, GYRE_ESHAPE, "%s: %" PRId64 " tokens, but q has %" PRId64 " (%s)", field, shape[1], tokens,
                     call_name);
}

/* Keys of mask and weights: those of the longest sequence. */
static gyre_status check_keys(const call *c, const char *field, int64_t keys, gyre_error *err) {
    if (keys == c->cached.longest) return GYRE_OK;
    return gyre_fail(err, GYRE_ESHAPE, "%s: %" PRId64 " keys, but the longest sequence has %" PRId64 " (%s)", field, keys,
                     c->cached.longest, call_name);
}

static gyre_status check_masks(const call *c, gyre_error *err) {
    const gyre_cview *mask = &c->args.mask;
    const gyre_view *weights = &c->args.weights;
    gyre_status status = GYRE_OK;
    if (!c->cached.sequences) return GYRE_OK; /* the number of keys is not known yet */
    if (mask->data) status = check_rows(c, "mask", mask->shape, err);
    if (mask->data && !status) status = check_keys(c, "mask", mask->shape[3], err);
    if (status || !weights->data) return status;
    if (weights->dtype != GYRE_DTYPE_F32)
        return gyre_fail(err, GYRE_EDTYPE, "weights: element type is not F32 (%s)", call_name);
    status = check_batch_extent(c, "weights", weights->shape[0], err);
    if (!status) status = check_keys(c, "weights", weights->shape[3], err);
    return status ? status : gyre_output_check(weights, "weights", call_name, err);
}

static gyre_status check_options(const call *c, gyre_error *err) {
    const gyre_attention_inputs *args = &c->args;
    const gyre_cache *cache = c->cached.cache;
    const int64_t length = args->q_pos.context_length;
    const gyre_status status =
        gyre_cached_call_check_options(&c->cached, args->q_starts, args->k_starts, args->sequences, 0, err);
    if (status) return status;
    if (args->encoding && args->encoding != cache->config.encoding)
        return gyre_fail(err, GYRE_EINVAL,
                         "encoding: is not that of the cache; leave it NULL, or see gyre_cache_set_encoding (%s)",
                         call_name);
    if (args->q_pos_head_stride != 0 || args->k_pos_head_stride != 0)
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "%s_pos_head_stride: a cache keeps one position for each token, which all heads share (%s)",
                         args->k_pos_head_stride != 0 ? "k" : "q", call_name);
    if (args->q_starts && args->weights.data)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "weights: of a batch with q_starts, over a cache (%s)", call_name);
    if (args->q_starts && args->q_index)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "q_index: of a batch with q_starts, over a cache (%s)", call_name);
    if (args->dropout != 0) return gyre_fail(err, GYRE_EINVAL, "dropout: %g is not 0 (%s)", args->dropout, call_name);
    if (cache->rotated && args->context_lengths)
        return gyre_fail(err, GYRE_EINVAL, "context_lengths: are set, but keys are stored rotated (%s)", call_name);
    if (cache->rotated && length != 0 && !gyre_cache_same_length(cache, length))
        return gyre_fail(err, GYRE_EINVAL,
                         "q_pos.context_length: %" PRId64 ", but keys are stored rotated for %" PRId64 " (%s)", length,
                         cache->config.context_length, call_name);
    return GYRE_OK;
}

static gyre_status check_gate_heads(const call *c, gyre_error *err) {
    const gyre_cview *sums = &c->args.q_gate_sums;
    const int64_t heads = c->cached.cache->config.gate_heads;
    if (heads > 0 && sums->shape[2] != heads)
        return gyre_fail(err, GYRE_ESHAPE, "gates.q: %" PRId64 " heads, but the cache keeps those of %" PRId64 " (%s)",
                         sums->shape[2], heads, call_name);
    return check_rows(c, "gates.q", sums->shape, err);
}

/* What rows are cut from. */
static gyre_status check_inputs(const call *c, gyre_error *err) {
    const gyre_attention_inputs *args = &c->args;
    const struct {
        const char *name;
        const gyre_cview *view;
    } views[] = {{"q", &args->q}, {"mask", &args->mask}, {"slopes", &args->slopes}, {"gates.q", &args->q_gate_sums}};
    const struct {
        const char *name;
        const gyre_positions *positions;
        gyre_positions_extent extent;
    } positions[] = {{"q_pos", &args->q_pos, {args->q.shape[0], args->q.shape[1], c->cached.cache->axes, 1, 0}},
                     {"q_index", args->q_index, {c->cached.batch, args->q.shape[1], 1, 1, 0}},
                     {"k_index", args->k_index, {c->cached.batch, c->cached.longest, 1, 1, 0}}};
    gyre_status status = GYRE_OK;
    for (size_t i = 0; i < sizeof views / sizeof *views && !status; i++)
        if (views[i].view->data) status = gyre_cview_check(views[i].view, views[i].name, call_name, err);
    for (size_t i = 0; i < sizeof positions / sizeof *positions && !status; i++)
        if (positions[i].positions)
            status =
                gyre_positions_memory_check(positions[i].positions, &positions[i].extent, positions[i].name, call_name, err);
    return status;
}

/* Checks of the batch that a row alone cannot make. */
static gyre_status check_batch(call *c, gyre_error *err) {
    const gyre_attention_inputs *args = &c->args;
    gyre_status status = check_options(c, err);
    if (!status) status = check_rows(c, "out", args->out.shape, err);
    if (!status && args->lse.data) status = check_rows(c, "lse", args->lse.shape, err);
    if (!status && args->slopes.data) status = check_batch_extent(c, "slopes", args->slopes.shape[0], err);
    if (!status && args->q_gate_sums.data) status = check_gate_heads(c, err);
    if (!status && args->state.data) status = check_rows(c, "state", args->state.shape, err);
    if (!status && args->state.data) status = gyre_output_check(&args->state, "state", call_name, err);
    if (!status && (args->out.data || (!args->state.data && !c->measures)))
        status = gyre_output_check(&args->out, "out", call_name, err);
    if (!status && args->lse.data) status = gyre_output_check(&args->lse, "lse", call_name, err);
    if (!status) status = check_masks(c, err);
    if (!status) status = check_inputs(c, err);
    if (!status) status = gyre_cached_call_check_padding(&c->cached, args->k_first, args->k_end, err);
    return status ? status : gyre_cached_call_take_positions(&c->cached, err);
}

/* -- one row -- */

/* 1: the queries are the last tokens of their sequences. */
static int queries_are_last(const call *c) {
    return !c->args.q_pos.data && c->args.q_pos.base == 0;
}

/* Positions of row b, which has `tokens` keys. */
static void take_positions(call *c, int64_t b, int64_t tokens, const int64_t *positions) {
    gyre_attention_inputs *row = &c->row;
    const int64_t queries = gyre_cached_call_queries(&c->cached, b), length = row->q_pos.context_length,
                  end = row->k_end ? *row->k_end : tokens,
                  q_end = row->q_end && row->causal == GYRE_CAUSAL_BY_ORDER
                              ? gyre_max_i64(0, gyre_min_i64(row->q_end[b], queries))
                              : queries;
    gyre_positions q_pos;
    gyre_cached_call_positions(&c->cached, positions, end + c->cached.queries - q_end, &q_pos, &row->k_pos);
    row->q_pos = queries_are_last(c) && positions ? q_pos : gyre_cached_call_row_positions(&c->cached, b, &row->q_pos);
    row->q_pos.context_length = length;
}

static void take_row(void *arg, int64_t b, const int64_t *positions) {
    call *c = arg;
    const gyre_cache *cache = c->cached.cache;
    gyre_attention_inputs *row = &c->row;
    const int64_t tokens = gyre_cached_call_tokens(&c->cached, b);
    *row = c->args;
    row->encoding = cache->config.encoding;
    if (cache->rotated) row->q_pos.context_length = cache->config.context_length;
    gyre_cached_call_narrow(&c->cached, b);
    take_positions(c, b, tokens, positions);
    gyre_sequence_options_take(row, b, tokens, &c->indices);
    gyre_view_narrow(&row->weights, 0, b, 1);
    if (row->weights.data) row->weights.shape[3] = tokens;
    /* Dense: the strides for a shorter sequence would make rows overlap. */
    if (row->weights.data && !c->cached.sequences)
        row->weights =
            gyre_dense(row->weights.data, row->weights.dtype, 1, row->weights.shape[1], row->weights.shape[2], tokens);
}

/* Of what differs by row, only positions of the cache are looked at here. */
static int is_alike(const void *arg, int64_t b) {
    const call *c = arg;
    const gyre_attention_inputs *args = &c->args;
    const gyre_cache *cache = c->cached.cache;
    const gyre_encoding *encoding = cache->config.encoding;
    if (args->q_pos.data || args->q_index || args->k_index || args->q_end || args->context_lengths || args->slopes.data)
        return 0;
    if (c->cached.q_starts && !queries_are_last(c)) return 0; /* a row may have more positions than the longest */
    if (encoding && (encoding->xpos_log2_decay || encoding->config.length_policy != GYRE_LENGTH_POLICY_DECLARED)) return 0;
    return gyre_cached_call_in_range(&c->cached, b,
                                     cache->rotated ? cache->config.context_length : args->q_pos.context_length);
}

/* Clears the weights of keys that only longer sequences have. */
static void clear_missing_keys(const void *arg, int64_t b) {
    const call *c = arg;
    const int64_t tokens = gyre_cached_call_tokens(&c->cached, b);
    gyre_attention_inputs missing = c->args;
    gyre_view_narrow(&missing.weights, 0, b, 1);
    gyre_view_narrow(&missing.weights, 3, tokens, c->cached.longest - tokens);
    gyre_weights_clear(&missing, NULL);
}

/* -- the calls -- */

static gyre_status check_overlap(const void *arg, gyre_error *err) {
    const call *c = arg;
    gyre_attention_request batch = c->request;
    batch.args = &c->args;
    return gyre_attention_check_overlap(&batch, err);
}

/* What points to parts of the call itself. */
static void point_inward(call *c) {
    c->cached.rows.row = &c->run;
    c->cached.rows.call = c;
    c->cached.rows.views = (gyre_cached_views)GYRE_CACHED_VIEWS(&c->row);
    c->request.args = &c->row;
    c->request.source = &c->cached.source;
    c->run.request = &c->request;
}

static gyre_cached_call *copy_call(const void *from, void *memory) {
    call *c = memory;
    *c = *(const call *)from;
    point_inward(c);
    return &c->cached;
}

/* Reads the arguments; encoding, k, v and k_pos are replaced in every row. */
static gyre_status begin(call *c, const gyre_cache *cache, const int64_t *sequences, int measures,
                         const gyre_attention_args *given, gyre_error *err) {
    c->cached = (gyre_cached_call){.where = call_name,
                                   .cache = cache,
                                   .sequences = sequences,
                                   .rows = {.steps = &gyre_attention_steps,
                                            .copy = copy_call,
                                            .size = sizeof *c,
                                            .take = take_row,
                                            .is_alike = is_alike,
                                            .end = clear_missing_keys,
                                            .check_batch = check_overlap}};
    c->measures = measures;
    c->request = (gyre_attention_request){.name = call_name};
    c->run.common = (gyre_call){.where = call_name};
    point_inward(c);
    gyre_status status = gyre_attention_args_read(&c->args, given, err);
    if (status) return status;
    c->row = c->args;
    c->cached.q_starts = c->args.q_starts;
    c->cached.q_rows = c->args.sequences;
    status = gyre_cached_call_begin(&c->cached, c->measures, err);
    if (status) return status;
    const gyre_encoding *encoding = c->cached.cache->config.encoding;
    if (encoding) c->cached.lowest = encoding->first_position, c->cached.highest = encoding->last_position;
    if (c->args.state.data && !c->args.out.data) c->args.out.shape[3] = c->cached.cache->v.channels;
    c->row = c->args;
    return check_batch(c, err);
}

gyre_status gyre_cache_attention_scratch(const gyre_cache *cache, const int64_t *sequences, const gyre_attention_args *args,
                                         const gyre_exec *exec, size_t *bytes, gyre_error *err) {
    call c;
    const gyre_status status = begin(&c, cache, sequences, 1, args, err);
    return status ? status : gyre_cached_call_bytes(&c.cached, exec, bytes, err);
}

gyre_status gyre_cache_attention(const gyre_cache *cache, const int64_t *sequences, const gyre_attention_args *args,
                                 gyre_scratch scratch, const gyre_exec *exec, gyre_error *err) {
    call c;
    const gyre_status status = begin(&c, cache, sequences, 0, args, err);
    return status ? status : gyre_cached_call_perform(&c.cached, scratch, exec, err);
}
