/* cache_attention.c: attention over the sequences of a cache, one batch row after the other.  The keys of a row are those of
 * its sequence, so each row has a number of keys of its own. */
#include "attention/attention.h"
#include "attention/plan/arena.h"
#include "cache/cache.h"
#include "core/positions.h"
#include "core/sized.h"
#include "core/view.h"
#include "util/integers.h"

#include <inttypes.h>
#include <string.h>

static const char call_name[] = "gyre_cache_attention";

typedef struct call {
    const gyre_cache *cache;
    const int64_t *sequences;   /* NULL: scratch for any sequences, as long as they may become */
    gyre_attention_inputs args; /* as the caller gave them */
    int64_t batch, longest;     /* longest: tokens of the longest sequence */
    int64_t longest_row;        /* a batch row that has it */
    int measures;               /* 1: the call that tells the scratch, which needs no memory for out */
    /* At the front of the scratch: positions of one sequence, between one for each query that stands before the first token
     * and one for each that stands after the last: padding. */
    size_t position_bytes;
} call;

/* -- checks of the whole batch -- */

static gyre_status check_batch_extent(const call *c, const char *field, int64_t batch, gyre_error *err) {
    if (batch == c->batch) return GYRE_OK;
    return gyre_fail(err, GYRE_ESHAPE, "%s: %" PRId64 " batch rows, but q has %" PRId64 " (%s)", field, batch, c->batch,
                     call_name);
}

/* Keys of mask and weights: those of the longest sequence. */
static gyre_status check_keys(const call *c, const char *field, int64_t keys, gyre_error *err) {
    if (keys == c->longest) return GYRE_OK;
    return gyre_fail(err, GYRE_ESHAPE, "%s: %" PRId64 " keys, but the longest sequence has %" PRId64 " (%s)", field, keys,
                     c->longest, call_name);
}

static gyre_status check_masks(const call *c, gyre_error *err) {
    const gyre_cview *mask = &c->args.mask;
    const gyre_view *weights = &c->args.weights;
    gyre_status status = GYRE_OK;
    if (!c->sequences) return GYRE_OK; /* the number of keys is not known yet */
    if (mask->data) status = check_batch_extent(c, "mask", mask->shape[0], err);
    if (mask->data && !status) status = check_keys(c, "mask", mask->shape[3], err);
    if (status || !weights->data) return status;
    if (weights->dtype != GYRE_DTYPE_F32)
        return gyre_fail(err, GYRE_EDTYPE, "weights: element type is not F32 (%s)", call_name);
    status = check_batch_extent(c, "weights", weights->shape[0], err);
    if (!status) status = check_keys(c, "weights", weights->shape[3], err);
    return status ? status : gyre_output_check(weights, "weights", call_name, err);
}

static gyre_status check_sequences(call *c, gyre_error *err) {
    if (!c->sequences) {
        c->longest = c->cache->contiguous ? c->cache->page_tokens : c->cache->config.max_tokens;
        return GYRE_OK;
    }
    for (int64_t b = 0; b < c->batch; b++) {
        const int64_t tokens = gyre_cache_tokens(c->cache, c->sequences[b]);
        if (tokens < 0)
            return gyre_fail(err, GYRE_EINVAL, "sequences[%" PRId64 "]: %" PRId64 " is not in 0 .. %" PRId64 " (%s)", b,
                             c->sequences[b], c->cache->config.sequences - 1, call_name);
        if (tokens > c->longest) c->longest = tokens, c->longest_row = b;
    }
    return GYRE_OK;
}

static gyre_status check_options(const call *c, gyre_error *err) {
    const gyre_attention_inputs *args = &c->args;
    if (args->q_starts || args->k_starts || args->sequences != 0)
        return gyre_fail(err, GYRE_EINVAL, "q_starts, k_starts: a cache takes no packed batch (%s)", call_name);
    if (args->q_pos_head_stride != 0 || args->k_pos_head_stride != 0)
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "%s_pos_head_stride: a cache keeps one position for each token, which all heads share (%s)",
                         args->k_pos_head_stride != 0 ? "k" : "q", call_name);
    if (args->dropout != 0) return gyre_fail(err, GYRE_EINVAL, "dropout: %g is not 0 (%s)", args->dropout, call_name);
    if (c->cache->rotated && args->context_lengths)
        return gyre_fail(err, GYRE_EINVAL, "context_lengths: are set, but keys are stored rotated (%s)", call_name);
    const int64_t length = args->q_pos.context_length;
    if (c->cache->rotated && length != 0 && !gyre_cache_same_length(c->cache, length))
        return gyre_fail(err, GYRE_EINVAL,
                         "q_pos.context_length: %" PRId64 ", but keys are stored rotated for %" PRId64 " (%s)", length,
                         c->cache->config.context_length, call_name);
    return GYRE_OK;
}

static gyre_status check_gate_heads(const call *c, gyre_error *err) {
    const gyre_cview *sums = &c->args.q_gate_sums;
    const int64_t heads = c->cache->config.gate_heads;
    if (heads > 0 && sums->shape[2] != heads)
        return gyre_fail(err, GYRE_ESHAPE, "gates.q: %" PRId64 " heads, but the cache keeps those of %" PRId64 " (%s)",
                         sums->shape[2], heads, call_name);
    return check_batch_extent(c, "gates.q", sums->shape[0], err);
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
    } positions[] = {{"q_pos", &args->q_pos, {c->batch, args->q.shape[1], c->cache->axes, 1, 0}},
                     {"q_index", args->q_index, {c->batch, args->q.shape[1], 1, 1, 0}},
                     {"k_index", args->k_index, {c->batch, c->longest, 1, 1, 0}}};
    gyre_status status = GYRE_OK;
    for (size_t i = 0; i < sizeof views / sizeof *views && !status; i++)
        if (views[i].view->data) status = gyre_cview_check(views[i].view, views[i].name, call_name, err);
    for (size_t i = 0; i < sizeof positions / sizeof *positions && !status; i++)
        if (positions[i].positions)
            status =
                gyre_positions_memory_check(positions[i].positions, &positions[i].extent, positions[i].name, call_name, err);
    return status;
}

/* What a row alone does not tell. */
static gyre_status check_batch(call *c, gyre_error *err) {
    const gyre_attention_inputs *args = &c->args;
    gyre_status status = check_options(c, err);
    c->batch = args->q.shape[0];
    if (!status && c->batch < 0) status = gyre_fail(err, GYRE_ESHAPE, "q: %" PRId64 " batch rows (%s)", c->batch, call_name);
    if (!status) status = check_batch_extent(c, "out", args->out.shape[0], err);
    if (!status && args->lse.data) status = check_batch_extent(c, "lse", args->lse.shape[0], err);
    if (!status && args->slopes.data) status = check_batch_extent(c, "slopes", args->slopes.shape[0], err);
    if (!status && args->q_gate_sums.data) status = check_gate_heads(c, err);
    if (!status && args->state.data) status = check_batch_extent(c, "state", args->state.shape[0], err);
    if (!status && args->state.data) status = gyre_output_check(&args->state, "state", call_name, err);
    if (!status && (args->out.data || (!args->state.data && !c->measures)))
        status = gyre_output_check(&args->out, "out", call_name, err);
    if (!status && args->lse.data) status = gyre_output_check(&args->lse, "lse", call_name, err);
    if (!status) status = check_sequences(c, err);
    if (!status) status = check_masks(c, err);
    if (!status) status = check_inputs(c, err);
    if (status) return status;
    const int64_t queries = args->q.shape[1], most = INT64_MAX / (int64_t)sizeof(int64_t) / c->cache->axes - ALIGNMENT;
    if (queries < 0 || queries > (most - c->longest) / 2)
        return gyre_fail(err, GYRE_ESHAPE, "q: %" PRId64 " queries (%s)", queries, call_name);
    c->position_bytes = gyre_arena_round_up((size_t)((2 * queries + c->longest) * c->cache->axes) * sizeof(int64_t));
    return GYRE_OK;
}

/* Reads the arguments; args->encoding, k, v and k_pos are replaced in every row. */
static gyre_status begin(call *c, const gyre_attention_args *given, gyre_error *err) {
    const gyre_cache *cache = c->cache;
    if (!cache) return gyre_fail(err, GYRE_EINVAL, "cache: is NULL (%s)", call_name);
    const gyre_status status = gyre_attention_args_read(&c->args, given, err);
    if (status) return status;
    if (c->args.encoding && c->args.encoding != cache->config.encoding)
        return gyre_fail(err, GYRE_EINVAL,
                         "encoding: is not that of the cache; leave it NULL, or see gyre_cache_set_encoding (%s)",
                         call_name);
    if (c->args.state.data && !c->args.out.data) c->args.out.shape[3] = cache->v.channels;
    return check_batch(c, err);
}

/* -- one row -- */

static int64_t tokens_of(const call *c, int64_t b) {
    return c->sequences ? gyre_cache_tokens(c->cache, c->sequences[b]) : c->longest;
}

/* 1: the queries are the last tokens of their sequences. */
static int queries_are_last(const call *c) {
    return !c->args.q_pos.data && c->args.q_pos.base == 0;
}

/* out = the arguments of batch row b.  positions: as in the scratch. */
static gyre_attention_inputs row_args(const call *c, int64_t b, const int64_t *positions) {
    const gyre_cache *cache = c->cache;
    gyre_attention_inputs row = c->args;
    const int64_t tokens = tokens_of(c, b);
    row.encoding = cache->config.encoding;
    row.k = gyre_cdense(NULL, cache->k.dtype, 1, tokens, cache->config.heads, cache->k.channels);
    row.v = gyre_cdense(NULL, cache->v.dtype, 1, tokens, cache->config.heads, cache->v.channels);
    row.k_pos = (gyre_positions){.data = positions ? positions + c->args.q.shape[1] * cache->axes : NULL,
                                 .dtype = GYRE_DTYPE_I64,
                                 .stride_token = cache->axes,
                                 .stride_axis = cache->axes > 1};
    if (cache->rotated) row.q_pos.context_length = cache->config.context_length;
    if (queries_are_last(c) && positions) {
        const int64_t queries = row.q.shape[1], length = row.q_pos.context_length,
                      end = row.k_end ? gyre_max_i64(0, gyre_min_i64(row.k_end[b], tokens)) : tokens,
                      q_end = row.q_end && row.causal == GYRE_CAUSAL_BY_ORDER
                                  ? gyre_max_i64(0, gyre_min_i64(row.q_end[b], queries))
                                  : queries;
        row.q_pos = row.k_pos;
        row.q_pos.data = positions + (end + queries - q_end) * cache->axes;
        row.q_pos.context_length = length;
    } else {
        row.q_pos = gyre_positions_of_row(&row.q_pos, b);
    }
    if (row.k_first) row.k_first += b;
    if (row.k_end) row.k_end += b;
    if (row.q_end) row.q_end += b;
    if (row.context_lengths) row.context_lengths += b;
    gyre_cview_narrow(&row.q, 0, b, 1);
    gyre_cview_narrow(&row.mask, 0, b, 1);
    gyre_cview_narrow(&row.slopes, 0, b, 1);
    gyre_cview_narrow(&row.q_gate_sums, 0, b, 1);
    row.k_gate_sums.data = NULL;
    gyre_view_narrow(&row.out, 0, b, 1);
    gyre_view_narrow(&row.lse, 0, b, 1);
    gyre_view_narrow(&row.state, 0, b, 1);
    gyre_view_narrow(&row.weights, 0, b, 1);
    if (row.mask.data) row.mask.shape[3] = tokens;
    if (row.weights.data) row.weights.shape[3] = tokens;
    /* Dense: the strides for a shorter sequence would make rows overlap. */
    if (row.weights.data && !c->sequences)
        row.weights = gyre_dense(row.weights.data, row.weights.dtype, 1, row.weights.shape[1], row.weights.shape[2], tokens);
    return row;
}

static void read_positions(const call *c, int64_t b, int64_t *positions) {
    const gyre_sequence *s = &c->cache->sequence[c->sequences[b]];
    const int64_t axes = c->cache->axes, queries = c->args.q.shape[1];
    int64_t *first = positions + queries * axes, *out = first;
    for (int64_t i = 0; i < s->count; i++) {
        const gyre_slot_range *range = &s->ranges[i];
        const int64_t *at = gyre_cache_position(c->cache, range->page, range->first);
        for (int64_t t = 0; t < range->count; t++)
            for (int64_t a = 0; a < axes; a++)
                *out++ = *at++ + range->delta[a];
    }
    const gyre_encoding *encoding = c->cache->config.encoding;
    const int64_t low = encoding ? encoding->first_position : INT64_MIN,
                  high = encoding ? encoding->last_position : INT64_MAX;
    const int any = out > first;
    for (int64_t i = 0; i < queries * axes; i++) { /* they see no key, so any position will do */
        positions[i] = gyre_max_i64(low, (any ? first[i % axes] : 0) - (queries - i / axes));
        out[i] = gyre_min_i64(high, (any ? out[i % axes - axes] : -1) + 1 + i / axes);
    }
}

/* Zeros the weights of keys that only longer sequences have. */
static void clear_missing_keys(const call *c, int64_t b) {
    const gyre_view *weights = &c->args.weights;
    const int64_t tokens = gyre_cache_tokens(c->cache, c->sequences[b]);
    for (int64_t i = 0; weights->data && i < weights->shape[1]; i++)
        for (int64_t h = 0; h < weights->shape[2]; h++)
            for (int64_t k = tokens; k < c->longest; k++)
                *(float *)gyre_view_at(weights, b, i, h, k) = 0;
}

/* A batch row as a call of its own. */
typedef struct row_call {
    gyre_attention_inputs args;
    gyre_positions q_index, k_index; /* what those of args point to */
    gyre_key_source source;
    gyre_attention_request request;
} row_call;

/* positions: memory for those of its keys; NULL for scratch and for calls that write nothing. */
static void make_row(const call *c, int64_t b, int64_t *positions, row_call *row) {
    row->args = row_args(c, b, positions);
    if (row->args.q_index) row->q_index = gyre_positions_of_row(row->args.q_index, b), row->args.q_index = &row->q_index;
    if (row->args.k_index) row->k_index = gyre_positions_of_row(row->args.k_index, b), row->args.k_index = &row->k_index;
    row->source = gyre_cache_source(c->cache, c->sequences ? c->sequences[b] : 0);
    row->request = (gyre_attention_request){call_name, &row->args, &row->source, NULL, 0, 0, NULL};
}

/* -- the calls -- */

/* *run = the plan of the row with the longest sequence, which needs the most scratch.  A batch of one row is run from it:
 * its positions are there already. */
static gyre_status plan_longest(const call *c, int64_t *positions, row_call *row, gyre_attention_run *run,
                                const gyre_exec *exec, gyre_error *err) {
    make_row(c, c->longest_row, positions, row);
    return gyre_attention_run_plan(run, &row->request, exec, err);
}

/* What rows have in shapes and types, which needs no positions. */
static gyre_status check_row_shapes(const call *c, gyre_error *err) {
    row_call row;
    gyre_status status = GYRE_OK;
    for (int64_t b = 0; b < c->batch && !status; b++) {
        make_row(c, b, NULL, &row);
        status = gyre_attention_check_shapes(&row.request, err);
    }
    return status;
}

gyre_status gyre_cache_attention_scratch(const gyre_cache *cache, const int64_t *sequences, const gyre_attention_args *args,
                                         const gyre_exec *exec, size_t *bytes, gyre_error *err) {
    call c = {.cache = cache, .sequences = sequences, .measures = 1};
    row_call row;
    gyre_attention_run run;
    if (!bytes) return gyre_fail(err, GYRE_EINVAL, "bytes: is NULL (%s)", call_name);
    gyre_status status = begin(&c, args, err);
    if (!status) status = check_row_shapes(&c, err);
    if (status) return status;
    if (c.batch == 0) {
        *bytes = c.position_bytes + ALIGNMENT;
        return GYRE_OK;
    }
    status = plan_longest(&c, NULL, &row, &run, exec, err);
    if (status) return status;
    const size_t rest = gyre_attention_run_bytes(&run);
    if (rest > SIZE_MAX - c.position_bytes)
        return gyre_fail(err, GYRE_ENOMEM, "scratch: more bytes than can be counted (%s)", call_name);
    *bytes = c.position_bytes + rest;
    return GYRE_OK;
}

/* Checks every row.  positions: memory for those of one sequence. */
static gyre_status check_rows(const call *c, int64_t *positions, gyre_error *err) {
    row_call row;
    gyre_status status = GYRE_OK;
    for (int64_t b = 0; b < c->batch && !status; b++) {
        make_row(c, b, positions, &row);
        if (positions) read_positions(c, b, positions);
        status = gyre_attention_check(&row.request, err);
    }
    return status;
}

/* Rows run one after the other, so the output of one may not be an input of the next either. */
static gyre_status check_batch_overlap(const call *c, gyre_error *err) {
    const gyre_key_source source = gyre_cache_source(c->cache, c->sequences[0]);
    const gyre_attention_request request = {call_name, &c->args, &source, NULL, 0, 0, NULL};
    return gyre_attention_check_overlap(&request, err);
}

static void run_rows(const call *c, int64_t *positions, void *scratch, const gyre_exec *exec) {
    row_call row;
    gyre_attention_run run;
    for (int64_t b = 0; b < c->batch; b++) {
        make_row(c, b, positions, &row);
        read_positions(c, b, positions);
        /* Cannot fail: the plan of the longest row did not. */
        if (gyre_attention_run_plan(&run, &row.request, exec, NULL)) continue;
        gyre_attention_run_execute(&run, scratch, exec);
        clear_missing_keys(c, b);
    }
}

gyre_status gyre_cache_attention(const gyre_cache *cache, const int64_t *sequences, const gyre_attention_args *args,
                                 gyre_scratch scratch, const gyre_exec *exec, gyre_error *err) {
    call c = {.cache = cache, .sequences = sequences};
    row_call row;
    gyre_attention_run run;
    gyre_status status = begin(&c, args, err);
    if (status) return status;
    if (c.batch > 0 && !sequences) return gyre_fail(err, GYRE_EINVAL, "sequences: is NULL (%s)", call_name);
    if (gyre_view_elements(c.args.out.shape) == 0) return check_rows(&c, NULL, err);
    /* gyre_cache_attention_scratch refuses shapes that cannot be, so these are the fault rather than the scratch. */
    if (scratch.bytes < c.position_bytes && (status = check_row_shapes(&c, err)) != GYRE_OK) return status;
    /* The checks read the positions of a row from the scratch, so that comes first. */
    status = gyre_scratch_check(call_name, scratch, c.position_bytes, err);
    int64_t *positions = scratch.memory;
    if (!status) status = check_rows(&c, positions, err);
    if (!status && c.batch > 1) status = check_batch_overlap(&c, err);
    if (!status) status = plan_longest(&c, positions, &row, &run, exec, err);
    if (status) return status;
    status = gyre_scratch_check(call_name, scratch, c.position_bytes + gyre_attention_run_bytes(&run), err);
    if (status) return status;
    char *rest = (char *)scratch.memory + c.position_bytes;
    if (c.batch > 1)
        run_rows(&c, positions, rest, exec);
    else
        gyre_attention_run_execute(&run, rest, exec);
    return GYRE_OK;
}
