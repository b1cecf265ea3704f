/* ring_call.c: what a call was given, blocks of keys and values, and the arguments of a part. */
#include "ring/ring_call.h"
#include "attention/attention_check.h"
#include "call/call_views.h"
#include "core/convert.h"
#include "core/sized.h"
#include "core/view.h"
#include "positions/shards.h"
#include "util/error.h"
#include "util/integers.h"

#include <string.h>

enum { LINE = 64 };

/* -- blocks -- */

size_t gyre_ring_round_up(size_t bytes) {
    return (bytes + LINE - 1) / LINE * LINE;
}

int gyre_ring_sides(const gyre_ring_call *r) {
    return r->gated ? GYRE_RING_SIDE_GATES + 1 : GYRE_RING_SIDE_VALUES + 1;
}

static const gyre_cview *input_of(const gyre_ring_call *r, int side) {
    return side == GYRE_RING_SIDE_KEYS ? &r->args.k : side == GYRE_RING_SIDE_VALUES ? &r->args.v : &r->args.k_gate_sums;
}

/* out = bytes of the sides before `end` of a block. */
static size_t bytes_before(const gyre_ring_call *r, int end, int64_t tokens, int floats) {
    size_t bytes = 0;
    for (int side = 0; side < end; side++) {
        const gyre_cview *like = input_of(r, side);
        const size_t size = floats ? sizeof(float) : gyre_dtype_size(like->dtype);
        bytes += gyre_ring_round_up((size_t)(like->shape[0] * tokens * like->shape[2] * like->shape[3]) * size);
    }
    return bytes;
}

size_t gyre_ring_block_bytes(const gyre_ring_call *r, int64_t tokens, int floats) {
    return bytes_before(r, gyre_ring_sides(r), tokens, floats);
}

gyre_view gyre_ring_side(const gyre_ring_call *r, char *block, int side, int64_t tokens, int floats) {
    const gyre_cview *like = input_of(r, side);
    char *at = block ? block + bytes_before(r, side, tokens, floats) : NULL;
    return gyre_dense(at, floats ? GYRE_DTYPE_F32 : like->dtype, like->shape[0], tokens, like->shape[2], like->shape[3]);
}

void gyre_ring_use_block(const gyre_ring_call *r, char *block, int64_t tokens, gyre_attention_inputs *args) {
    args->k = gyre_const(gyre_ring_side(r, block, GYRE_RING_SIDE_KEYS, tokens, 0));
    args->v = gyre_const(gyre_ring_side(r, block, GYRE_RING_SIDE_VALUES, tokens, 0));
    if (r->gated) args->k_gate_sums = gyre_const(gyre_ring_side(r, block, GYRE_RING_SIDE_GATES, tokens, 0));
}

void gyre_ring_use_gradients(const gyre_ring_call *r, char *block, int64_t tokens, gyre_view dqkv[3],
                             gyre_attention_inputs *args) {
    dqkv[1] = gyre_ring_side(r, block, GYRE_RING_SIDE_KEYS, tokens, 1);
    dqkv[2] = gyre_ring_side(r, block, GYRE_RING_SIDE_VALUES, tokens, 1);
    if (r->gated) args->dk_gate_sums = gyre_ring_side(r, block, GYRE_RING_SIDE_GATES, tokens, 1);
}

void gyre_ring_give_gradients(const gyre_ring_call *r, char *block, int64_t tokens, const gyre_gradient_views *call) {
    for (int side = GYRE_RING_SIDE_KEYS; side <= GYRE_RING_SIDE_VALUES; side++) {
        const gyre_cview sum = gyre_const(gyre_ring_side(r, block, side, tokens, 1));
        gyre_ring_copy(&sum, &call->dqkv[1 + side]);
    }
    if (!r->gated || !r->args.dk_gate_sums.data) return;
    const gyre_view *to = &r->args.dk_gate_sums, sums = gyre_ring_side(r, block, GYRE_RING_SIDE_GATES, tokens, 1);
    for (int64_t b = 0; b < to->shape[0]; b++)
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t h = 0; h < to->shape[2]; h++) {
                const double x = (double)*(const float *)gyre_view_at(&sums, b, t, h, 0);
                gyre_store_row_f64(&x, 1, gyre_view_at(to, b, t, h, 0), to->dtype, 1);
            }
}

void gyre_ring_add_row(const float *from, int64_t n, int64_t stride, gyre_dtype dtype, void *to) {
    for (int64_t i = 0; i < n; i++)
        if (dtype == GYRE_DTYPE_F64)
            ((double *)to)[i * stride] = (double)((float)((double *)to)[i * stride] + from[i]);
        else
            ((float *)to)[i * stride] += from[i];
}

void gyre_ring_clear(const gyre_view *view) {
    const size_t size = gyre_dtype_size(view->dtype);
    for (int64_t b = 0; view->data && b < view->shape[0]; b++)
        for (int64_t t = 0; t < view->shape[1]; t++)
            for (int64_t h = 0; h < view->shape[2]; h++)
                for (int64_t c = 0; c < view->shape[3]; c++)
                    memset(gyre_view_at(view, b, t, h, c), 0, size);
}

void gyre_ring_copy(const gyre_cview *from, const gyre_view *to) {
    const size_t size = gyre_dtype_size(from->dtype);
    const int64_t *shape = from->shape, run = from->stride[3] == 1 && to->stride[3] == 1 ? shape[3] : 1;
    if (gyre_view_elements(shape) == 0) return; /* whose rows may be more than can be counted */
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t t = 0; t < shape[1]; t++)
            for (int64_t h = 0; h < shape[2]; h++)
                for (int64_t c = 0; c < shape[3]; c += run)
                    memcpy(gyre_view_at(to, b, t, h, c), gyre_cview_at(from, b, t, h, c), (size_t)run * size);
}

void gyre_ring_pack_keys(const gyre_ring_call *r, int64_t first, int64_t count, char *block) {
    for (int side = 0; side < gyre_ring_sides(r); side++) {
        gyre_cview from = *input_of(r, side);
        const gyre_view to = gyre_ring_side(r, block, side, count, 0);
        if (count > 0) from.data = gyre_cview_at(&from, 0, first, 0, 0);
        from.shape[1] = count;
        gyre_ring_copy(&from, &to);
    }
}

/* -- ranks -- */

static gyre_shard_info shard_of(const gyre_shards *shards, int64_t rank) {
    gyre_shard_info info = GYRE_INIT(gyre_shard_info);
    const gyre_status status = gyre_shards_get(shards, rank, &info);
    (void)status; /* the ranks were counted */
    return info;
}

gyre_shard_info gyre_ring_queries_of(const gyre_ring_call *r, int64_t rank) {
    return shard_of(r->shards, rank);
}

gyre_shard_info gyre_ring_keys_of(const gyre_ring_call *r, int64_t rank) {
    return shard_of(r->key_shards, rank);
}

int64_t gyre_ring_peer(const gyre_ring_call *r, int64_t distance) {
    const int64_t ranks = r->transport.ranks;
    return ((r->transport.rank + distance) % ranks + ranks) % ranks;
}

/* -- a part -- */

size_t gyre_ring_state_bytes(const gyre_ring_call *r, int64_t queries) {
    const int64_t *q = r->args.q.shape;
    return gyre_ring_round_up((size_t)(q[0] * queries * q[2] * (2 + r->args.v.shape[3])) * sizeof(double));
}

void gyre_ring_use_state(gyre_attention_inputs *args, const gyre_ring_call *r, char *state) {
    const int64_t *q = args->q.shape;
    args->state = gyre_dense(state, GYRE_DTYPE_F64, q[0], q[1], q[2], 2 + r->args.v.shape[3]);
}

/* Keys of each sequence that are in the range, counted as the call wants them: from the sequence on. */
static void cut_keys(gyre_ring_call *r, const gyre_shard_info *keys, const gyre_ring_range *range) {
    int64_t *const *to = r->numbers;
    const int64_t least = range->first, most = range->first + range->count;
    for (int64_t n = 0; n < keys->sequences; n++) {
        const int64_t from = keys->starts ? keys->starts[n] : 0, past = keys->starts ? keys->starts[n + 1] : keys->tokens;
        const int64_t begin = gyre_clamp_i64(from, least, most), end = gyre_clamp_i64(past, least, most);
        if (keys->starts) to[GYRE_RING_K_STARTS][n] = begin - least, to[GYRE_RING_K_STARTS][n + 1] = end - least;
        if (keys->k_first) to[GYRE_RING_K_FIRST][n] = gyre_clamp_i64(from + keys->k_first[n], begin, end) - begin;
        if (keys->k_end) to[GYRE_RING_K_END][n] = gyre_clamp_i64(from + keys->k_end[n], begin, end) - begin;
    }
}

void gyre_ring_part(gyre_ring_call *r, int64_t owner, const gyre_ring_range *range, char *block,
                    gyre_attention_inputs *args) {
    const gyre_shard_info keys = gyre_ring_keys_of(r, owner);
    const gyre_ring_range chunk = gyre_ring_chunk(r, r->transport.rank);
    *args = r->args;
    gyre_ring_take_queries(r, &r->own, &chunk, args);
    gyre_ring_use_block(r, block, range->count, args);
    args->k_pos = keys.positions;
    gyre_ring_narrow_positions(&args->k_pos, range->first);
    r->k_index = keys.order;
    gyre_ring_narrow_positions(&r->k_index, range->first);
    args->k_index = &r->k_index;
    cut_keys(r, &keys, range);
    args->k_starts = keys.starts ? r->numbers[GYRE_RING_K_STARTS] : NULL;
    args->k_first = keys.k_first ? r->numbers[GYRE_RING_K_FIRST] : NULL;
    args->k_end = keys.k_end ? r->numbers[GYRE_RING_K_END] : NULL;
    args->accumulate = r->gradient;
}

/* -- arguments -- */

/* out = 1 if some token between the first and the last of a row is padding. */
static int has_hole(const gyre_batch *b) {
    for (int64_t n = 0; n < b->rows && b->form == GYRE_BATCH_MASKED; n++) /* a row for each document */
        if (b->k_end[n] - b->k_first[n] > b->lengths[n]) return 1;
    return 0;
}

static gyre_status check_views(const gyre_ring_call *r, gyre_error *err) {
    const int64_t queries = r->own.tokens, keys = gyre_ring_keys_of(r, r->transport.rank).tokens;
    const struct {
        const char *name;
        const int64_t *shape;
        int64_t tokens;
    } views[] = {{"q", r->args.q.shape, queries}, {"k", r->args.k.shape, keys}, {"v", r->args.v.shape, keys}};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        if (views[i].shape[0] != r->own.rows || views[i].shape[1] != views[i].tokens)
            return gyre_fail(err, GYRE_ESHAPE,
                             "%s: %" PRId64 " rows of %" PRId64 " tokens, but the shard of rank %" PRId64 " has %" PRId64
                             " of %" PRId64 " (%s)",
                             views[i].name, views[i].shape[0], views[i].shape[1], r->transport.rank, r->own.rows,
                             views[i].tokens, r->name);
    if (r->args.mask.data || r->args.weights.data)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "%s: not supported while keys are on several ranks (%s)",
                         r->args.mask.data ? "mask" : "weights", r->name);
    if (r->args.q_pos_head_stride != 0 || r->args.k_pos_head_stride != 0)
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "%s_pos_head_stride: positions come from the shards, the same for all heads (%s)",
                         r->args.q_pos_head_stride != 0 ? "q" : "k", r->name);
    if (has_hole(r->key_shards->batch))
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "key_shards: a row has padding between its tokens, which needs a mask, but keys on several ranks "
                         "have no mask (%s)",
                         r->name);
    const gyre_attention_request request = {.name = r->name, .args = &r->args};
    gyre_status status = gyre_attention_check_views(&request, err); /* the rest is checked part by part, after a measure */
    /* What goes around is elements, not blocks. */
    if (!status) status = gyre_call_check_type(r->args.k.dtype, GYRE_TYPES_FLOATS, "k", r->name, err);
    if (!status) status = gyre_call_check_type(r->args.v.dtype, GYRE_TYPES_FLOATS, "v", r->name, err);
    if (!status) status = gyre_cview_check(&r->args.q, "q", r->name, err);
    if (!status) status = gyre_cview_check(&r->args.k, "k", r->name, err);
    if (!status) status = gyre_cview_check(&r->args.v, "v", r->name, err);
    return status;
}

/* Gate sums go around with the keys. */
static gyre_status check_gates(const gyre_ring_call *r, gyre_error *err) {
    const gyre_attention_inputs *a = &r->args;
    const struct {
        const char *name;
        const gyre_cview *view;
        int64_t tokens;
    } views[] = {{"gates.q", &a->q_gate_sums, a->q.shape[1]}, {"gates.k", &a->k_gate_sums, a->k.shape[1]}};
    for (size_t i = 0; i < sizeof views / sizeof *views && r->gated; i++) {
        const gyre_cview *view = views[i].view;
        const int64_t wanted[4] = {a->q.shape[0], views[i].tokens, a->q.shape[2], 1};
        if (!view->data) return gyre_fail(err, GYRE_EINVAL, "%s: is missing (%s)", views[i].name, r->name);
        if (view->dtype != GYRE_DTYPE_F32 && view->dtype != GYRE_DTYPE_F64)
            return gyre_fail(err, GYRE_EDTYPE, "%s: %s is not F32 or F64 (%s)", views[i].name, gyre_dtype_text(view->dtype),
                             r->name);
        gyre_status status = gyre_shape_check(view->shape, wanted, views[i].name, r->name, err);
        if (!status) status = gyre_cview_check(view, views[i].name, r->name, err);
        if (status) return status;
    }
    return GYRE_OK;
}

gyre_status gyre_ring_read_transport(gyre_ring_call *r, const gyre_transport *given, gyre_error *err) {
    const gyre_status status = gyre_sized_read(&r->transport, sizeof r->transport, given, "gyre_transport", err);
    if (status) return status;
    const gyre_transport *t = &r->transport;
    if (!t->begin || !t->wait || t->rank < 0 || t->rank >= t->ranks)
        return gyre_fail(err, GYRE_EINVAL, "transport: no functions, or rank %" PRId64 " of %" PRId64 " (%s)", t->rank,
                         t->ranks, r->name);
    r->can_talk = 1;
    return GYRE_OK;
}

static gyre_status check_shards(const gyre_ring_call *r, const gyre_shards *shards, const char *name, gyre_error *err) {
    const int64_t ranks = r->transport.ranks;
    gyre_shard_info past = GYRE_INIT(gyre_shard_info);
    if (!shards) return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (%s)", name, r->name);
    if (gyre_shards_get(shards, ranks - 1, &past) || !gyre_shards_get(shards, ranks, &past))
        return gyre_fail(err, GYRE_EINVAL, "%s: not of the %" PRId64 " ranks of the transport (%s)", name, ranks, r->name);
    return GYRE_OK;
}

static gyre_status read_shards(gyre_ring_call *r, const gyre_ring_args *args, gyre_error *err) {
    r->shards = args->shards;
    r->key_shards = args->key_shards ? args->key_shards : args->shards;
    gyre_status status = check_shards(r, r->shards, "shards", err);
    if (!status) status = check_shards(r, r->key_shards, "key_shards", err);
    if (status) return status;
    const gyre_shard_info q = gyre_ring_queries_of(r, 0), k = gyre_ring_keys_of(r, 0);
    if (q.rows != k.rows || q.sequences != k.sequences || !q.starts != !k.starts)
        return gyre_fail(err, GYRE_EINVAL, "key_shards: their batch has other rows or documents than that of shards (%s)",
                         r->name);
    for (int64_t rank = 0; rank < r->transport.ranks; rank++) {
        r->largest = gyre_max_i64(r->largest, gyre_ring_keys_of(r, rank).tokens);
        r->largest_queries = gyre_max_i64(r->largest_queries, gyre_ring_queries_of(r, rank).tokens);
    }
    return GYRE_OK;
}

/* What the ring fills in for the queries. */
static void take_queries(gyre_ring_call *r) {
    const int64_t length = r->args.q_pos.context_length;
    r->own = gyre_ring_queries_of(r, r->transport.rank);
    r->args.q_pos = r->own.positions;
    r->args.q_pos.context_length = length;
    r->args.q_starts = NULL;
    r->args.sequences = r->own.starts ? r->own.sequences : 0;
    r->args.q_end = NULL;
    r->args.state.data = NULL;
    r->q_index = r->own.order;
    r->whole = r->args;
}

/* -- the choice of what moves -- */

size_t gyre_ring_query_bytes(const gyre_ring_call *r, int64_t tokens) {
    const int64_t *q = r->args.q.shape;
    return gyre_ring_round_up((size_t)(q[0] * tokens * q[2] * q[3]) * gyre_dtype_size(r->args.q.dtype));
}

/* Every rank comes to the same choice: it depends on shapes and shards alone. */
static gyre_status choose(gyre_ring_call *r, const gyre_ring_args *args, gyre_error *err) {
    const int fixed = r->args.order == GYRE_ORDER_FIXED && !r->gradient;
    r->pass = args->pass;
    if ((int)args->pass < GYRE_RING_KEYS || args->pass > GYRE_RING_FEWEST)
        return gyre_fail(err, GYRE_EINVAL, "pass: %d is not a gyre_ring_pass (%s)", (int)args->pass, r->name);
    if (args->pass == GYRE_RING_QUERIES && (r->gradient || fixed))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "pass: QUERIES has no %s; KEYS and GATHER do (%s)",
                         fixed ? "ORDER_FIXED" : "gradient", r->name);
    if (args->pass == GYRE_RING_QUERIES && r->gated)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "pass: QUERIES has no gate sums; KEYS and GATHER do (%s)", r->name);
    if (args->pass == GYRE_RING_FEWEST) {
        size_t keys = 0, queries = 0;
        for (int64_t i = 0; i < r->transport.ranks; i++) {
            const int64_t n = gyre_ring_queries_of(r, i).tokens;
            keys += gyre_ring_block_bytes(r, gyre_ring_keys_of(r, i).tokens, 0);
            queries += gyre_ring_query_bytes(r, n) + gyre_ring_state_bytes(r, n);
        }
        r->pass = keys <= args->gather_bytes                            ? GYRE_RING_GATHER
                  : r->gradient || r->gated || fixed || keys <= queries ? GYRE_RING_KEYS
                                                                        : GYRE_RING_QUERIES;
    }
    r->in_order = r->pass == GYRE_RING_GATHER || fixed;
    r->by_heads = r->pass == GYRE_RING_GATHER && r->gradient && r->args.order == GYRE_ORDER_FIXED;
    return GYRE_OK;
}

gyre_status gyre_ring_open(gyre_ring_call *r, const char *name, const gyre_ring_args *given, int gradient, gyre_error *err) {
    gyre_ring_args args;
    *r = (gyre_ring_call){.name = name, .gradient = gradient};
    gyre_status status = gyre_sized_read(&args, sizeof args, given, "gyre_ring_args", err);
    if (!status) status = gyre_ring_read_transport(r, args.transport, err);
    if (status) return status;
    r->agreed = args.agreed;
    r->given_timeline = args.timeline;
    r->most_scratch = args.scratch_bytes ? args.scratch_bytes : (size_t)64 << 20;
    status = read_shards(r, &args, err);
    if (!status) status = gyre_attention_inputs_read(&r->args, args.attention, err);
    if (status) return status;
    r->gated = r->args.q_gate_sums.data || r->args.k_gate_sums.data;
    take_queries(r);
    status = check_views(r, err);
    if (!status) status = check_gates(r, err);
    if (!status) status = choose(r, &args, err);
    if (!status) r->rising = gyre_ring_orders_rise(r);
    return status;
}
