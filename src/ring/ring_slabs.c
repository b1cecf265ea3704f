/* ring_slabs.c: keys that come to every rank in the order of their tokens.
 *
 * The tokens of a row are cut in slabs.  Each rank sends what it has of a slab to every other rank, in rounds: in round t to
 * the rank t after it, from the rank t before it.  The next slab is gathered while this one is computed with.
 * GYRE_RING_GATHER has one slab, with all keys, and one call; its gradient takes the keys in parts, and sends the gradients
 * of one home while it computes the next.  GYRE_RING_KEYS with ORDER_FIXED has as many slabs as ranks,
 * and its rows go on from slab to slab.  For that the keys of each document end at a multiple of its tiles in every slab but
 * its last, so a slab reaches back by up to one tile. */
#include "core/view.h"
#include "positions/shards.h"
#include "ring/ring_call.h"
#include "util/integers.h"

#include <string.h>

enum { TILE = 128 };  /* of keys, as ORDER_FIXED adds them */
enum { RETURNS = 4 }; /* parts of the keys, at most, whose gradients go home one by one; the last hides behind nothing */

typedef struct slab_memory {
    char *slab[2], *sent, *received, *state;
    char *sums, *mine; /* gradients of all keys, of this rank's */
    int64_t *starts, *first, *end;
} slab_memory;

typedef struct slab_call {
    gyre_ring_call *r;
    slab_memory m;
    const gyre_batch *batch;
    gyre_batch_info info;
    int64_t span, slabs;
    int64_t gathering, round; /* the slab that is on its way; ranks: it is there */
    int64_t part_span, parts; /* of the gradient of GATHER */
    int64_t returning, back;  /* the part whose gradients are on their way; the round; ranks: they are home */
} slab_call;

/* -- slabs -- */

typedef struct slab {
    int64_t from, begin, end; /* tokens from .. end - 1 are there; keys before begin belong to the end of a tile */
} slab;

static slab slab_at(const slab_call *c, int64_t i) {
    const int64_t begin = i * c->span;
    return (slab){begin < TILE ? 0 : begin - (TILE - 1), begin, gyre_min_i64(begin + c->span, c->batch->tokens)};
}

/* Tokens of a rank within a slab: places first .. first + count - 1 of its shard. */
typedef struct piece {
    int64_t first, count;
} piece;

static int64_t places_below(const gyre_shard_info *keys, int64_t token) {
    int64_t low = 0, high = keys->tokens;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (keys->index[middle] < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static piece piece_within(const slab_call *c, int64_t rank, int64_t from, int64_t end) {
    const gyre_shard_info keys = gyre_ring_keys_of(c->r, rank);
    const int64_t first = places_below(&keys, from);
    return (piece){first, places_below(&keys, end) - first};
}

static piece piece_of(const slab_call *c, int64_t rank, int64_t i) {
    const slab s = slab_at(c, i);
    return piece_within(c, rank, s.from, s.end);
}

/* out = tokens begin .. end - 1, whose gradients are computed together. */
static slab part_at(const slab_call *c, int64_t i) {
    const int64_t begin = i * c->part_span;
    return (slab){0, begin, gyre_min_i64(begin + c->part_span, c->batch->tokens)};
}

static void open_slabs(slab_call *c, gyre_ring_call *r) {
    *c = (slab_call){.r = r, .batch = r->key_shards->batch, .info = GYRE_INIT(gyre_batch_info), .slabs = 1};
    const int64_t tokens = c->batch->tokens, ranks = r->transport.ranks;
    const gyre_status status = gyre_batch_get(c->batch, &c->info);
    (void)status;
    c->span = gyre_max_i64(tokens, 1);
    c->part_span = gyre_max_i64(((tokens + RETURNS - 1) / RETURNS + TILE - 1) / TILE * TILE, TILE);
    if (ranks == 1) c->part_span = c->span;
    c->parts = gyre_max_i64((tokens + c->part_span - 1) / c->part_span, 1);
    if (r->pass == GYRE_RING_GATHER) return;
    c->span = gyre_max_i64((tokens + ranks - 1) / ranks, TILE);
    c->slabs = gyre_max_i64((tokens + c->span - 1) / c->span, 1);
}

static int64_t largest_piece(const slab_call *c) {
    int64_t most = 0;
    for (int64_t rank = 0; rank < c->r->transport.ranks; rank++)
        for (int64_t i = 0; i < c->slabs; i++)
            most = gyre_max_i64(most, piece_of(c, rank, i).count);
    return most;
}

static int64_t most_tokens(const slab_call *c) {
    return c->slabs == 1 ? c->batch->tokens : c->span + TILE - 1;
}

static size_t lay_out(slab_call *c, char *scratch) {
    gyre_ring_call *r = c->r;
    slab_memory *m = &c->m;
    const int64_t largest = largest_piece(c), sequences = c->batch->sequences;
    const size_t slab_bytes = gyre_ring_block_bytes(r, most_tokens(c), 0);
    const size_t moved = gyre_ring_block_bytes(r, largest, r->gradient), keys = gyre_ring_block_bytes(r, largest, 0);
    const size_t most = moved > keys ? moved : keys;
    const size_t numbers = gyre_ring_round_up((size_t)(sequences + 1) * sizeof(int64_t));
    char *starts, *first, *end;
    const size_t bytes[] = {slab_bytes,
                            c->slabs > 1 ? slab_bytes : 0,
                            most,
                            most,
                            c->slabs > 1 ? gyre_ring_state_bytes(r, r->own.tokens) : 0,
                            r->gradient ? gyre_ring_block_bytes(r, c->batch->tokens, 1) : 0,
                            r->gradient ? moved : 0,
                            numbers,
                            numbers,
                            numbers};
    char **const parts[] = {&m->slab[0], &m->slab[1], &m->sent, &m->received, &m->state,
                            &m->sums,    &m->mine,    &starts,  &first,       &end};
    size_t at = 0;
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; at += bytes[i++])
        *parts[i] = scratch ? scratch + at : NULL;
    m->starts = (int64_t *)(void *)starts;
    m->first = (int64_t *)(void *)first;
    m->end = (int64_t *)(void *)end;
    r->part = scratch ? scratch + at : NULL;
    return at + gyre_ring_round_up(r->part_bytes);
}

/* -- a part -- */

/* out = where the keys of a sequence that begin at `first` and end at `end` are cut by a slab that begins at `at`. */
static int64_t cut(int64_t first, int64_t end, int64_t at) {
    if (at <= first) return first;
    return at >= end ? end : first + (at - first) / TILE * TILE;
}

static int64_t within(int64_t x, int64_t least, int64_t most) {
    return x < least ? least : x > most ? most : x;
}

/* Keys of each sequence within the slab, counted as the call wants them. */
static void fill_sequences(slab_call *c, int64_t i) {
    const slab s = slab_at(c, i);
    const gyre_batch *b = c->batch;
    const int packed = b->form == GYRE_BATCH_PACKED;
    for (int64_t n = 0; n < b->sequences; n++) {
        const int64_t first = packed ? b->q_starts[n] : b->k_first[n];
        const int64_t end = !packed ? b->k_end[n] : n < b->documents ? b->q_starts[n + 1] : first;
        const int64_t origin = packed ? within(first, s.from, s.end) : s.from;
        const int64_t limit = packed ? within(b->q_starts[n + 1], s.from, s.end) : s.end;
        c->m.starts[n] = origin - s.from;
        c->m.first[n] = within(cut(first, end, s.begin), origin, limit) - origin;
        c->m.end[n] = within(cut(first, end, s.end), origin, limit) - origin;
    }
    c->m.starts[b->sequences] = s.end - s.from;
}

/* Keys of each sequence within a part of the slab that has all. */
static void fill_part(slab_call *c, const slab *part) {
    const gyre_batch *b = c->batch;
    const int packed = b->form == GYRE_BATCH_PACKED;
    for (int64_t n = 0; n < b->sequences; n++) {
        const int64_t first = packed ? b->q_starts[n] : b->k_first[n];
        const int64_t end = !packed ? b->k_end[n] : n < b->documents ? b->q_starts[n + 1] : first;
        c->m.starts[n] = packed ? first : 0;
        c->m.first[n] = within(part->begin, first, end) - c->m.starts[n];
        c->m.end[n] = within(part->end, first, end) - c->m.starts[n];
    }
    c->m.starts[b->sequences] = b->tokens;
}

/* *args = this rank's queries with slab i.  k_index: memory that args point to. */
static void part_args(slab_call *c, int64_t i, gyre_positions *k_index, gyre_attention_args *args) {
    gyre_ring_call *r = c->r;
    const slab s = slab_at(c, i);
    const int64_t tokens = s.end - s.from;
    gyre_ring_part(r, r->transport.rank, NULL, args);
    gyre_ring_use_block(r, c->m.slab[i % 2], tokens, args);
    args->k_pos = c->info.positions;
    args->k_pos.data = (const int64_t *)args->k_pos.data + s.from;
    *k_index = c->info.order;
    k_index->data = (const int64_t *)k_index->data + s.from;
    args->k_index = k_index;
    fill_sequences(c, i);
    const int cuts = c->slabs > 1 || c->batch->padded;
    args->k_starts = r->own.starts ? c->m.starts : NULL;
    args->k_first = cuts ? c->m.first : NULL;
    args->k_end = cuts ? c->m.end : NULL;
    if (c->slabs > 1) gyre_ring_use_state(args, r, c->m.state);
    if (i == c->slabs - 1) return;
    args->out.data = NULL;
    args->lse.data = NULL;
    args->sink_logits.data = NULL;
}

/* As one sequence: it needs what any cut of as many tokens does. */
gyre_status gyre_ring_slabs_bytes(gyre_ring_call *r, const gyre_exec *exec, size_t *bytes, gyre_error *err) {
    slab_call c;
    gyre_attention_args part;
    open_slabs(&c, r);
    const int64_t tokens = most_tokens(&c), q_starts[2] = {0, r->own.tokens}, k_starts[2] = {0, tokens};
    gyre_ring_part(r, r->transport.rank, NULL, &part);
    gyre_ring_use_block(r, NULL, tokens, &part);
    part.k_first = part.k_end = NULL;
    if (r->own.starts) {
        part.q_starts = q_starts;
        part.k_starts = k_starts;
        part.sequences = 1;
        part.slopes.shape[0] = 1;
    }
    if (c.slabs > 1) gyre_ring_use_state(&part, r, (char *)&r->args); /* only shapes are looked at */
    const gyre_status status = gyre_ring_measure(r, &part, exec, err);
    *bytes = lay_out(&c, NULL);
    return status;
}

size_t gyre_ring_slabs_returned(gyre_ring_call *r, int64_t rank) {
    slab_call c;
    size_t bytes = 0;
    open_slabs(&c, r);
    for (int64_t i = 0; i < c.parts; i++)
        for (int64_t to = 0; to < r->transport.ranks; to++) {
            const slab part = part_at(&c, i);
            if (to != rank) bytes += gyre_ring_block_bytes(r, piece_within(&c, to, part.begin, part.end).count, 1);
        }
    return bytes;
}

gyre_status gyre_ring_slabs_check(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, gyre_error *err) {
    slab_call c;
    gyre_status status = GYRE_OK;
    open_slabs(&c, r);
    lay_out(&c, scratch);
    for (int64_t i = 0; i < c.slabs && !status; i++) {
        gyre_attention_args args;
        gyre_positions k_index;
        gyre_gradient_views own = {0};
        gyre_view dqkv[3];
        part_args(&c, i, &k_index, &args);
        if (call) {
            dqkv[0] = call->dqkv[0];
            gyre_ring_use_gradients(r, c.m.sums, c.batch->tokens, dqkv, &args);
            own = (gyre_gradient_views){call->dout, dqkv, call->gradients};
        }
        const gyre_attention_request request = {r->name, &args, NULL, call ? &own : NULL};
        status = gyre_attention_check(&request, err);
    }
    return status;
}

/* -- gathering -- */

/* Tokens of the piece of a rank, from dense memory to their places in the slab. */
static void place(const slab_call *c, int64_t rank, char *from) {
    gyre_ring_call *r = c->r;
    const gyre_shard_info keys = gyre_ring_keys_of(r, rank);
    const slab s = slab_at(c, c->gathering);
    const piece p = piece_of(c, rank, c->gathering);
    for (int v = 0; v < gyre_ring_sides(r); v++) {
        const gyre_view in = gyre_ring_side(r, from, v, p.count, 0);
        const gyre_view out = gyre_ring_side(r, c->m.slab[c->gathering % 2], v, s.end - s.from, 0);
        const size_t size = (size_t)(in.shape[2] * in.shape[3]) * gyre_dtype_size(in.dtype);
        for (int64_t b = 0; b < in.shape[0] && size > 0; b++)
            for (int64_t t = 0; t < p.count; t++)
                memcpy(gyre_view_at(&out, b, keys.index[p.first + t] - s.from, 0, 0), gyre_view_at(&in, b, t, 0, 0), size);
    }
}

static gyre_status begin_round(slab_call *c, gyre_error *err) {
    gyre_ring_call *r = c->r;
    const int64_t to = gyre_ring_peer(r, c->round), from = gyre_ring_peer(r, -c->round);
    const gyre_exchange e = {.to = to,
                             .from = from,
                             .send = c->m.sent,
                             .receive = c->m.received,
                             .sent = gyre_ring_block_bytes(r, piece_of(c, r->transport.rank, c->gathering).count, 0),
                             .received = gyre_ring_block_bytes(r, piece_of(c, from, c->gathering).count, 0)};
    return gyre_ring_begin(r, GYRE_RING_INPUTS, &e, err);
}

static gyre_status begin_gathering(slab_call *c, int64_t i, gyre_error *err) {
    gyre_ring_call *r = c->r;
    c->gathering = i;
    c->round = 1;
    const piece own = piece_of(c, r->transport.rank, i);
    gyre_ring_pack_keys(r, own.first, own.count, c->m.sent);
    place(c, r->transport.rank, c->m.sent);
    return r->transport.ranks > 1 ? begin_round(c, err) : GYRE_OK;
}

/* The round is done, or is waited for: the next one begins. */
static gyre_status end_round(slab_call *c, gyre_error *err) {
    gyre_ring_call *r = c->r;
    const gyre_status status = gyre_ring_wait(r, GYRE_RING_INPUTS, err);
    if (status) return status;
    place(c, gyre_ring_peer(r, -c->round), c->m.received);
    return ++c->round < r->transport.ranks ? begin_round(c, err) : GYRE_OK;
}

static gyre_status advance(gyre_ring_call *r, gyre_error *err) {
    slab_call *c = r->advance_arg;
    int done = 0;
    if (c->round >= r->transport.ranks) return GYRE_OK;
    const gyre_status status = gyre_ring_poll(r, GYRE_RING_INPUTS, &done, err);
    return status || !done ? status : end_round(c, err);
}

static gyre_status finish_gathering(slab_call *c, gyre_error *err) {
    gyre_status status = GYRE_OK;
    while (!status && c->round < c->r->transport.ranks)
        status = end_round(c, err);
    return status;
}

/* -- running -- */

static gyre_status run_forward(slab_call *c, const gyre_exec *exec, gyre_error *err) {
    gyre_ring_call *r = c->r;
    if (c->slabs > 1) memset(c->m.state, 0, gyre_ring_state_bytes(r, r->own.tokens));
    gyre_status status = begin_gathering(c, 0, err);
    for (int64_t i = 0; i < c->slabs && !status; i++) {
        gyre_attention_args args;
        gyre_positions k_index;
        status = finish_gathering(c, err);
        if (!status && i + 1 < c->slabs) status = begin_gathering(c, i + 1, err);
        part_args(c, i, &k_index, &args);
        if (!status) status = gyre_ring_compute(r, &args, NULL, exec, err);
    }
    return status;
}

/* -- gradients that go home -- */

/* block = gradients of the piece of a rank, out of those of all keys. */
static void take_gradients(const slab_call *c, int64_t rank, const piece *p, char *block) {
    const gyre_shard_info keys = gyre_ring_keys_of(c->r, rank);
    for (int v = 0; v < gyre_ring_sides(c->r); v++) {
        const gyre_view all = gyre_ring_side(c->r, c->m.sums, v, c->batch->tokens, 1);
        const gyre_view out = gyre_ring_side(c->r, block, v, p->count, 1);
        const size_t size = (size_t)(out.shape[2] * out.shape[3]) * sizeof(float);
        for (int64_t b = 0; b < out.shape[0] && size > 0; b++)
            for (int64_t t = 0; t < p->count; t++)
                memcpy(gyre_view_at(&out, b, t, 0, 0), gyre_view_at(&all, b, keys.index[p->first + t], 0, 0), size);
    }
}

/* Adds a piece of this rank's gradients. */
static void add_gradients(const slab_call *c, const piece *p, char *block) {
    const int64_t tokens = gyre_ring_keys_of(c->r, c->r->transport.rank).tokens;
    for (int v = 0; v < gyre_ring_sides(c->r); v++) {
        const gyre_view from = gyre_ring_side(c->r, block, v, p->count, 1);
        const gyre_view sums = gyre_ring_side(c->r, c->m.mine, v, tokens, 1);
        for (int64_t b = 0; b < from.shape[0]; b++)
            for (int64_t t = 0; t < p->count; t++) {
                const float *const row = gyre_view_at(&from, b, t, 0, 0);
                float *const sum = gyre_view_at(&sums, b, p->first + t, 0, 0);
                for (int64_t e = 0; e < from.shape[2] * from.shape[3]; e++)
                    sum[e] += row[e];
            }
    }
}

static piece returning_of(const slab_call *c, int64_t rank) {
    const slab part = part_at(c, c->returning);
    return piece_within(c, rank, part.begin, part.end);
}

static gyre_status begin_return(slab_call *c, gyre_error *err) {
    gyre_ring_call *r = c->r;
    const int64_t to = gyre_ring_peer(r, c->back);
    const piece theirs = returning_of(c, to), own = returning_of(c, r->transport.rank);
    take_gradients(c, to, &theirs, c->m.sent);
    const gyre_exchange e = {.to = to,
                             .from = gyre_ring_peer(r, -c->back),
                             .send = c->m.sent,
                             .receive = c->m.received,
                             .sent = gyre_ring_block_bytes(r, theirs.count, 1),
                             .received = gyre_ring_block_bytes(r, own.count, 1)};
    return gyre_ring_begin(r, GYRE_RING_RESULTS, &e, err);
}

/* Every rank has gradients of the keys of a part.  Those of a rank's keys go to it, and are added in the order in which they
 * come: its own, from the rank before, from that before it, ... */
static gyre_status begin_returns(slab_call *c, int64_t part, gyre_error *err) {
    c->returning = part;
    c->back = 1;
    const piece own = returning_of(c, c->r->transport.rank);
    take_gradients(c, c->r->transport.rank, &own, c->m.received);
    add_gradients(c, &own, c->m.received);
    return c->r->transport.ranks > 1 ? begin_return(c, err) : GYRE_OK;
}

static gyre_status end_return(slab_call *c, gyre_error *err) {
    const gyre_status status = gyre_ring_wait(c->r, GYRE_RING_RESULTS, err);
    if (status) return status;
    const piece own = returning_of(c, c->r->transport.rank);
    add_gradients(c, &own, c->m.received);
    return ++c->back < c->r->transport.ranks ? begin_return(c, err) : GYRE_OK;
}

static gyre_status advance_returns(gyre_ring_call *r, gyre_error *err) {
    slab_call *c = r->advance_arg;
    int done = 0;
    if (c->back >= r->transport.ranks) return GYRE_OK;
    const gyre_status status = gyre_ring_poll(r, GYRE_RING_RESULTS, &done, err);
    return status || !done ? status : end_return(c, err);
}

static gyre_status finish_returns(slab_call *c, gyre_error *err) {
    gyre_status status = GYRE_OK;
    while (!status && c->back < c->r->transport.ranks)
        status = end_return(c, err);
    return status;
}

static gyre_status compute_part(slab_call *c, int64_t i, const gyre_gradient_views *part, const gyre_exec *exec,
                                gyre_error *err) {
    gyre_attention_args args;
    gyre_positions k_index;
    const slab within_part = part_at(c, i);
    part_args(c, 0, &k_index, &args);
    if (c->r->gated) args.dk_gate_sums = gyre_ring_side(c->r, c->m.sums, GYRE_RING_SIDE_GATES, c->batch->tokens, 1);
    if (c->parts > 1) {
        fill_part(c, &within_part);
        args.k_first = c->m.first;
        args.k_end = c->m.end;
    }
    if (i > 0) args.sink_logits.data = NULL; /* they count once */
    return gyre_ring_compute(c->r, &args, part, exec, err);
}

static gyre_status run_gradient(slab_call *c, const gyre_gradient_views *call, const gyre_exec *exec, gyre_error *err) {
    gyre_ring_call *r = c->r;
    const int64_t tokens = gyre_ring_keys_of(r, r->transport.rank).tokens;
    const gyre_view dqkv[3] = {call->dqkv[0], gyre_ring_side(r, c->m.sums, 0, c->batch->tokens, 1),
                               gyre_ring_side(r, c->m.sums, 1, c->batch->tokens, 1)};
    const gyre_gradient_views part = {call->dout, dqkv, call->gradients};
    memset(c->m.sums, 0, gyre_ring_block_bytes(r, c->batch->tokens, 1));
    memset(c->m.mine, 0, gyre_ring_block_bytes(r, tokens, 1));
    gyre_status status = begin_gathering(c, 0, err);
    if (!status) status = finish_gathering(c, err);
    r->advance = advance_returns;
    for (int64_t i = 0; i < c->parts && !status; i++) {
        status = compute_part(c, i, &part, exec, err);
        if (!status) status = finish_returns(c, err); /* of the part before */
        if (!status) status = begin_returns(c, i, err);
    }
    if (!status) status = finish_returns(c, err);
    if (!status) gyre_ring_give_gradients(r, c->m.mine, tokens, call);
    return status;
}

gyre_status gyre_ring_slabs_run(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, const gyre_exec *exec,
                                gyre_error *err) {
    slab_call c;
    open_slabs(&c, r);
    lay_out(&c, scratch);
    r->advance_arg = &c;
    r->advance = advance;
    c.round = c.back = r->transport.ranks;
    const gyre_status status = call ? run_gradient(&c, call, exec, err) : run_forward(&c, exec, err);
    r->advance = NULL;
    return status;
}
