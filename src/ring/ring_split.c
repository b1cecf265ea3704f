/* ring_split.c: a call cut so that its scratch is bounded: groups of heads, chunks of queries, pieces of keys.
 *
 * A sweep is one group of heads and, forward, one chunk of queries: keys are sent once for each sweep.  Groups of heads
 * cost nothing, because each has its own keys.  Chunks of queries are the last resort: the keys are sent again for each.
 * The gradient keeps no rows, so its chunks follow each other on a rank and nothing comes twice.  Every rank cuts alike:
 * the choice depends on shapes and shards alone, and is made for one thread. */
#include "core/view.h"
#include "positions/shards.h"
#include "ring/ring_call.h"
#include "util/error.h"
#include "util/integers.h"

enum { TILE = 128, QUERY_TILE_ROWS = 64, MOST_PIECE = 8192, LEAST_PIECE = 512, GRADIENT_CHUNK = 16384 };

/* -- sweeps -- */

static int64_t parts_of(int64_t all, int64_t each) {
    return gyre_max_i64((all + each - 1) / each, 1);
}

static void set_split(gyre_ring_call *r, int64_t heads, int64_t queries, int64_t keys) {
    r->split = (gyre_ring_split){heads, gyre_max_i64(queries, 1), gyre_max_i64(keys, 1)};
    r->groups = parts_of(r->whole.k.shape[2], heads);
    r->chunks = r->gradient ? 1 : parts_of(r->largest_queries, r->split.queries);
    r->pieces = parts_of(r->largest, r->split.keys);
}

int64_t gyre_ring_sweeps(const gyre_ring_call *r) {
    return r->groups * r->chunks;
}

gyre_ring_range gyre_ring_chunk(const gyre_ring_call *r, int64_t rank) {
    const int64_t tokens = gyre_ring_queries_of(r, rank).tokens;
    if (r->gradient) return (gyre_ring_range){0, tokens};
    const int64_t first = gyre_min_i64(r->chunk * r->split.queries, tokens);
    return (gyre_ring_range){first, gyre_min_i64(r->split.queries, tokens - first)};
}

gyre_ring_range gyre_ring_piece(const gyre_ring_call *r, int64_t rank, int64_t piece) {
    const int64_t tokens = gyre_ring_keys_of(r, rank).tokens, first = gyre_min_i64(piece * r->split.keys, tokens);
    return (gyre_ring_range){first, gyre_min_i64(r->split.keys, tokens - first)};
}

/* -- narrowing -- */

void gyre_ring_narrow_positions(gyre_positions *positions, int64_t first) {
    if (!positions->data)
        positions->base += first;
    else if (first != 0)
        positions->data =
            (const char *)positions->data + first * positions->stride_token * (int64_t)gyre_dtype_size(positions->dtype);
}

/* starts[s] = where sequence s begins among tokens first .. first + count - 1. */
static void cut_starts(const gyre_ring_call *r, const int64_t *all, const gyre_ring_range *range, int64_t *starts) {
    for (int64_t s = 0; s <= r->own.sequences; s++)
        starts[s] = gyre_min_i64(gyre_max_i64(all[s] - range->first, 0), range->count);
}

void gyre_ring_take_queries(gyre_ring_call *r, const gyre_shard_info *shard, const gyre_ring_range *range,
                            gyre_attention_inputs *args) {
    gyre_positions index = shard->order;
    const int64_t length = r->whole.q_pos.context_length;
    gyre_ring_narrow_positions(&index, range->first);
    r->q_index = index;
    args->q_index = &r->q_index;
    args->q_pos = shard->positions;
    args->q_pos.context_length = length;
    gyre_ring_narrow_positions(&args->q_pos, range->first);
    args->q_starts = shard->starts ? r->numbers[GYRE_RING_Q_STARTS] : NULL;
    if (args->q_starts) cut_starts(r, shard->starts, range, r->numbers[GYRE_RING_Q_STARTS]);
}

void gyre_ring_narrow_queries(gyre_ring_call *r, const gyre_ring_range *range, gyre_attention_inputs *args, gyre_cview *dout,
                              gyre_view *dq) {
    gyre_cview_narrow(&args->q, 1, range->first, range->count);
    gyre_view_narrow(&args->out, 1, range->first, range->count);
    if (args->lse.data) gyre_view_narrow(&args->lse, 1, range->first, range->count);
    if (r->gated) gyre_cview_narrow(&args->q_gate_sums, 1, range->first, range->count);
    if (args->dq_gate_sums.data) gyre_view_narrow(&args->dq_gate_sums, 1, range->first, range->count);
    if (dout) gyre_cview_narrow(dout, 1, range->first, range->count);
    if (dq) gyre_view_narrow(dq, 1, range->first, range->count);
    gyre_ring_take_queries(r, &r->own, range, args);
}

void gyre_ring_narrow_heads(const gyre_ring_call *r, int64_t key_heads, gyre_attention_inputs *args) {
    const int64_t share = r->whole.q.shape[2] / r->whole.k.shape[2], heads = key_heads * share, first = r->head_first;
    gyre_cview_narrow(&args->q, 2, first, heads);
    gyre_view_narrow(&args->out, 2, first, heads);
    if (args->lse.data) gyre_view_narrow(&args->lse, 2, first, heads);
    gyre_cview_narrow(&args->k, 2, first / share, key_heads);
    gyre_cview_narrow(&args->v, 2, first / share, key_heads);
    if (!r->gated) return;
    gyre_cview_narrow(&args->q_gate_sums, 2, first, heads);
    gyre_cview_narrow(&args->k_gate_sums, 2, first, heads);
    if (args->dq_gate_sums.data) gyre_view_narrow(&args->dq_gate_sums, 2, first, heads);
    if (args->dk_gate_sums.data) gyre_view_narrow(&args->dk_gate_sums, 2, first, heads);
}

void gyre_ring_narrow_views(const gyre_ring_call *r, const gyre_gradient_views *call, gyre_ring_views *out) {
    const int64_t heads = r->args.q.shape[2], key_heads = r->args.k.shape[2], share = heads / key_heads;
    *out = (gyre_ring_views){.dout = *call->dout, .dqkv = {call->dqkv[0], call->dqkv[1], call->dqkv[2]}};
    gyre_cview_narrow(&out->dout, 2, r->head_first, heads);
    gyre_view_narrow(&out->dqkv[0], 2, r->head_first, heads);
    for (int i = 1; i < 3; i++)
        gyre_view_narrow(&out->dqkv[i], 2, r->head_first / share, key_heads);
}

void gyre_ring_enter(gyre_ring_call *r, int64_t sweep) {
    const int64_t group = sweep / r->chunks, all = r->whole.k.shape[2], share = r->whole.q.shape[2] / all;
    r->args = r->whole;
    r->chunk = sweep % r->chunks;
    r->head_first = group * r->split.heads * share;
    gyre_ring_narrow_heads(r, gyre_min_i64(r->split.heads, all - group * r->split.heads), &r->args);
    if (r->gradient) return;
    const gyre_ring_range chunk = gyre_ring_chunk(r, r->transport.rank);
    gyre_cview_narrow(&r->args.q, 1, chunk.first, chunk.count);
    gyre_view_narrow(&r->args.out, 1, chunk.first, chunk.count);
    if (r->args.lse.data) gyre_view_narrow(&r->args.lse, 1, chunk.first, chunk.count);
    if (r->gated) gyre_cview_narrow(&r->args.q_gate_sums, 1, chunk.first, chunk.count);
}

/* -- memory -- */

size_t gyre_ring_lay_out(gyre_ring_call *r, char *scratch, const size_t *bytes, char **const *parts, size_t count) {
    const size_t each = gyre_ring_round_up((size_t)(r->own.sequences + 1) * sizeof(int64_t));
    size_t at = 0;
    for (size_t i = 0; i < count; at += bytes[i++])
        *parts[i] = scratch ? scratch + at : NULL;
    for (int i = 0; i < GYRE_RING_NUMBERS; i++, at += each)
        r->numbers[i] = scratch ? (int64_t *)(void *)(scratch + at) : NULL;
    r->part = scratch ? scratch + at : NULL;
    return at + gyre_ring_round_up(r->part_bytes);
}

/* Dense, by token or by head. */
static void use_strides(gyre_cview *view, int by_head) {
    const int64_t *s = view->shape;
    view->stride[3] = 1;
    view->stride[2] = by_head ? gyre_max_i64(s[1], 1) * s[3] : s[3];
    view->stride[1] = by_head ? s[3] : s[2] * s[3];
    view->stride[0] = gyre_max_i64(s[1], 1) * s[2] * s[3];
}

/* What a part may need at most, whatever the strides of this rank are: received blocks are stored token by token, but
 * keys that stay while queries go around have the caller's layout. */
static gyre_status most_bytes_of(gyre_ring_call *r, gyre_attention_inputs *args, const gyre_exec *exec, size_t *most,
                                 gyre_error *err) {
    static const gyre_gradient_views no_views = {.dout = NULL};
    const gyre_attention_request request = {
        r->name, args, NULL, r->gradient ? &no_views : NULL, r->head_first, r->whole.q.shape[2], NULL};
    gyre_status status = GYRE_OK;
    *most = 0;
    for (int by_head = 0; by_head < 2 && !status; by_head++) {
        size_t bytes = 0;
        use_strides(&args->k, by_head);
        use_strides(&args->v, by_head);
        status = gyre_attention_request_bytes(&request, exec, &bytes, err);
        *most = bytes > *most ? bytes : *most;
    }
    return status;
}

/* A part of the first sweep, which is the largest.  A packed or padded batch is computed sequence by sequence, and one
 * sequence needs what any cut of as many tokens does.  Every rank comes to the same number. */
gyre_status gyre_ring_measure(gyre_ring_call *r, int64_t keys, int with_state, const gyre_exec *exec, gyre_error *err) {
    const int64_t queries = r->by_heads ? r->split.queries : gyre_min_i64(r->split.queries, r->largest_queries);
    const int64_t q_starts[2] = {0, queries}, k_starts[2] = {0, keys};
    const int one = r->own.starts || r->own.k_first || gyre_ring_keys_of(r, 0).k_first;
    gyre_attention_inputs args = r->args;
    gyre_cview *const inputs[] = {&args.q, &args.q_gate_sums, &args.k, &args.v, &args.k_gate_sums};
    gyre_view *const outputs[] = {&args.out, &args.lse, &args.dq_gate_sums};
    for (int i = 0; i < 5; i++) {
        inputs[i]->shape[1] = i < 2 ? queries : keys;
        if (one) inputs[i]->shape[0] = 1;
    }
    for (int i = 0; i < 3; i++) {
        outputs[i]->shape[1] = queries;
        if (one) outputs[i]->shape[0] = 1;
    }
    if (one) args.slopes.shape[0] = 1;
    args.dk_gate_sums.shape[1] = keys;
    if (one) args.dk_gate_sums.shape[0] = 1;
    args.k_pos = gyre_ring_keys_of(r, 0).positions;
    if (args.q.shape[0] > 1) { /* an empty shard says nothing about others: each row has its own positions */
        args.q_pos.data = args.k_pos.data = r;
        args.q_pos.stride_batch = args.k_pos.stride_batch = 1;
    }
    args.q_index = args.k_index = &r->q_index;
    args.k_first = args.k_end = NULL;
    args.q_starts = r->own.starts ? q_starts : NULL;
    args.k_starts = r->own.starts ? k_starts : NULL;
    args.sequences = r->own.starts ? 1 : 0;
    if (with_state) gyre_ring_use_state(&args, r, (char *)&r->args); /* only shapes are looked at */
    return most_bytes_of(r, &args, exec, &r->part_bytes, err);
}

/* -- the choice -- */

static int fits(gyre_ring_call *r, const gyre_ring_way *way, int64_t heads, int64_t queries, int64_t keys) {
    const int64_t pieces = parts_of(way->keys(r), gyre_max_i64(keys, 1)),
                  chunks = parts_of(r->largest_queries, gyre_max_i64(queries, 1));
    const size_t most_bytes = r->most_scratch - r->most_scratch / 4; /* the rest is for further threads */
    int64_t part_keys;
    if (pieces > 1) keys = (parts_of(way->keys(r), pieces) + TILE - 1) / TILE * TILE;
    if (chunks > 1)
        queries = (parts_of(r->largest_queries, chunks) + QUERY_TILE_ROWS - 1) / QUERY_TILE_ROWS * QUERY_TILE_ROWS;
    set_split(r, heads, queries, keys);
    gyre_ring_enter(r, 0);
    r->part_bytes = 0;
    if (way->memory(r, NULL, &part_keys) > most_bytes) return 0;
    if (gyre_ring_measure(r, part_keys, way->with_state(r), NULL, NULL)) return 1; /* told later */
    return way->memory(r, NULL, &part_keys) <= most_bytes;
}

/* Tries pieces of keys from all down to `least`. */
static int fits_pieces(gyre_ring_call *r, const gyre_ring_way *way, int64_t heads, int64_t queries, int64_t least) {
    int64_t keys = way->keys(r);
    while (!fits(r, way, heads, queries, keys)) {
        keys = keys > MOST_PIECE ? MOST_PIECE : keys / 2;
        if (keys < least) return 0;
    }
    return 1;
}

/* Groups of heads first: pieces of keys are unequal work where tokens are dealt out zigzag, and ranks wait at each. */
static int fits_heads(gyre_ring_call *r, const gyre_ring_way *way, int64_t queries) {
    for (int64_t heads = r->whole.k.shape[2];; heads = (heads + 1) / 2) {
        if (fits(r, way, heads, queries, way->keys(r))) return 1;
        if (heads == 1) return fits_pieces(r, way, 1, queries, LEAST_PIECE);
    }
}

static void search(gyre_ring_call *r, const gyre_ring_way *way) {
    int64_t queries = r->gradient ? gyre_min_i64(r->largest_queries, GRADIENT_CHUNK) : r->largest_queries;
    if (fits(r, way, r->whole.k.shape[2], r->largest_queries, way->keys(r)) || fits_heads(r, way, queries)) return;
    for (; queries > QUERY_TILE_ROWS; queries = (queries + 1) / 2)
        if (r->gradient ? fits_heads(r, way, queries) : fits_pieces(r, way, 1, queries, LEAST_PIECE)) return;
    while (!fits(r, way, 1, queries, gyre_min_i64(TILE, way->keys(r))) && queries * r->own.rows > QUERY_TILE_ROWS)
        queries = (queries + 1) / 2; /* many rows: a chunk has as many tokens of each */
}

gyre_status gyre_ring_choose_split(gyre_ring_call *r, const gyre_ring_way *way, const gyre_exec *exec, size_t *bytes,
                                   gyre_error *err) {
    int64_t part_keys;
    if (r->by_heads)
        set_split(r, 1, r->shards->batch->tokens, r->key_shards->batch->tokens);
    else if (r->pass == GYRE_RING_GATHER)
        set_split(r, r->whole.k.shape[2], r->largest_queries, r->largest);
    else
        search(r, way);
    gyre_ring_enter(r, 0);
    way->memory(r, NULL, &part_keys);
    const gyre_status status = gyre_ring_measure(r, part_keys, way->with_state(r), exec, err);
    *bytes = way->memory(r, NULL, &part_keys);
    return status;
}
