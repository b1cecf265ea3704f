/* ring_slabs.c: keys that come to every rank in the order of their tokens.
 *
 * The tokens of a row are cut in slabs.  Each rank sends what it has of a slab to every other rank, in rounds: in round t
 * to the rank t after it, from the rank t before it.  The next slab is gathered while this one is computed with.  A rank
 * gets no slab of which it sees nothing.
 *
 * GYRE_RING_GATHER has one slab, with all keys, and one call; its gradient takes the keys in parts, and sends the
 * gradients of one home while it computes the next.  GYRE_RING_KEYS with ORDER_FIXED has as many slabs as ranks, or
 * more, in each sweep, and its rows continue from slab to slab.  For that the keys of each document end at a multiple of
 * its tiles in every slab but its last, so a slab reaches back by up to one tile. */
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
    int64_t span, slabs, closing; /* closing: the last slab of the sweep that this rank sees */
    int64_t part_span, parts;     /* of the gradient of GATHER */
    /* What is on its way: the slab, counted over all sweeps, or the part whose gradients return. */
    int64_t gathering, returning;
    int64_t round; /* transport.ranks: it has arrived */
    gyre_ring_channel channel;
    gyre_status (*end_round)(struct slab_call *c, gyre_error *err); /* it is done, or is waited for: the next one begins */
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

/* What a rank has of the slab that is on its way. */
static piece piece_of(const slab_call *c, int64_t rank) {
    const slab s = slab_at(c, c->gathering % c->slabs);
    return piece_within(c, rank, s.from, s.end);
}

/* out = the last tile at or before `token`, of the sequence that has it. */
static int64_t tile_before(const slab_call *c, int64_t token) {
    const gyre_batch *b = c->batch;
    int64_t low = 0, high = b->form == GYRE_BATCH_PACKED ? b->sequences : 1;
    if (token >= b->tokens) return b->tokens;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (b->q_starts[middle] <= token)
            low = middle;
        else
            high = middle;
    }
    const int64_t first = b->form == GYRE_BATCH_PACKED ? b->q_starts[low] : 0;
    return first + (token - first) / TILE * TILE;
}

/* 1: a rank gets slab i, because its queries of the sweep see some of the keys that are computed with it. */
static int slab_wanted(const slab_call *c, int64_t rank, int64_t i) {
    const slab s = slab_at(c, i);
    const int64_t first = tile_before(c, s.begin), end = tile_before(c, s.end);
    const gyre_positions *orders = c->r->whole.causal == GYRE_CAUSAL_BY_ORDER ? &c->info.order : &c->info.positions;
    const gyre_ring_side_info keys = {
        orders, c->batch->form == GYRE_BATCH_PACKED ? c->batch->q_starts : NULL, {first, end - first}};
    return c->slabs == 1 || gyre_ring_seen(c->r, rank, &keys).count > 0;
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
    c->span = r->split.keys;
    c->slabs = gyre_max_i64((tokens + c->span - 1) / c->span, 1);
}

static int64_t most_tokens(const slab_call *c) {
    return c->slabs == 1 ? c->batch->tokens : c->span + TILE - 1;
}

static int with_state(const gyre_ring_call *r) {
    return r->pass != GYRE_RING_GATHER && r->split.keys < r->key_shards->batch->tokens; /* more than one slab */
}

/* As the first sweep needs it, which is the largest. */
static size_t lay_out(slab_call *c, char *scratch) {
    gyre_ring_call *r = c->r;
    gyre_ring_enter(r, 0);
    slab_memory *m = &c->m;
    const int64_t largest = gyre_min_i64(r->largest, most_tokens(c)), sequences = c->batch->sequences;
    const int64_t queries = gyre_min_i64(r->split.queries, r->largest_queries);
    const size_t slab_bytes = gyre_ring_block_bytes(r, most_tokens(c), 0);
    const size_t moved = gyre_ring_block_bytes(r, largest, r->gradient), keys = gyre_ring_block_bytes(r, largest, 0);
    const size_t most = moved > keys ? moved : keys;
    const size_t numbers = gyre_ring_round_up((size_t)(sequences + 1) * sizeof(int64_t));
    char *starts, *first, *end;
    const size_t bytes[] = {slab_bytes,
                            c->slabs * gyre_ring_sweeps(r) > 1 ? slab_bytes : 0,
                            most,
                            most,
                            with_state(r) ? gyre_ring_state_bytes(r, queries) : 0,
                            r->gradient ? gyre_ring_block_bytes(r, c->batch->tokens, 1) : 0,
                            r->gradient ? moved : 0,
                            numbers,
                            numbers,
                            numbers};
    char **const parts[] = {&m->slab[0], &m->slab[1], &m->sent, &m->received, &m->state,
                            &m->sums,    &m->mine,    &starts,  &first,       &end};
    const size_t used = gyre_ring_lay_out(r, scratch, bytes, parts, sizeof bytes / sizeof *bytes);
    m->starts = (int64_t *)(void *)starts;
    m->first = (int64_t *)(void *)first;
    m->end = (int64_t *)(void *)end;
    return used;
}

/* -- a part -- */

/* out = where the keys of a sequence that begin at `first` and end at `end` are cut by a slab that begins at `at`. */
static int64_t cut(int64_t first, int64_t end, int64_t at) {
    if (at <= first) return first;
    return at >= end ? end : first + (at - first) / TILE * TILE;
}

/* Keys of each sequence within the slab, counted as the call wants them. */
static void fill_sequences(slab_call *c, int64_t i) {
    const slab s = slab_at(c, i);
    const gyre_batch *b = c->batch;
    const int packed = b->form == GYRE_BATCH_PACKED;
    for (int64_t n = 0; n < b->sequences; n++) {
        const int64_t first = packed ? b->q_starts[n] : b->k_first[n];
        const int64_t end = !packed ? b->k_end[n] : n < b->documents ? b->q_starts[n + 1] : first;
        const int64_t origin = packed ? gyre_clamp_i64(first, s.from, s.end) : s.from;
        const int64_t limit = packed ? gyre_clamp_i64(b->q_starts[n + 1], s.from, s.end) : s.end;
        c->m.starts[n] = origin - s.from;
        c->m.first[n] = gyre_clamp_i64(cut(first, end, s.begin), origin, limit) - origin;
        c->m.end[n] = gyre_clamp_i64(cut(first, end, s.end), origin, limit) - origin;
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
        c->m.first[n] = gyre_clamp_i64(part->begin, first, end) - c->m.starts[n];
        c->m.end[n] = gyre_clamp_i64(part->end, first, end) - c->m.starts[n];
    }
    c->m.starts[b->sequences] = b->tokens;
}

/* *args = the queries of the sweep with slab i, which is in slab[at].  k_index: memory that args point to. */
static void part_args(slab_call *c, int64_t i, int64_t at, gyre_positions *k_index, gyre_attention_inputs *args) {
    gyre_ring_call *r = c->r;
    const slab s = slab_at(c, i);
    const int64_t tokens = s.end - s.from;
    const gyre_ring_range none = {0, 0};
    gyre_ring_part(r, r->transport.rank, &none, NULL, args);
    gyre_ring_use_block(r, c->m.slab[at], tokens, args);
    args->k_pos = c->info.positions;
    gyre_ring_narrow_positions(&args->k_pos, s.from);
    *k_index = c->info.order;
    gyre_ring_narrow_positions(k_index, s.from);
    args->k_index = k_index;
    fill_sequences(c, i);
    const int cuts = c->slabs > 1 || c->batch->padded;
    args->k_starts = r->own.starts ? c->m.starts : NULL;
    args->k_first = cuts ? c->m.first : NULL;
    args->k_end = cuts ? c->m.end : NULL;
    if (with_state(r)) gyre_ring_use_state(args, r, c->m.state);
    if (i == c->closing) return;
    args->out.data = NULL;
    args->lse.data = NULL;
    args->sink_logits.data = NULL;
}

static int64_t most_keys(const gyre_ring_call *r) {
    const int64_t tokens = r->key_shards->batch->tokens, ranks = r->transport.ranks;
    return r->pass == GYRE_RING_GATHER ? gyre_max_i64(tokens, 1) : gyre_max_i64((tokens + ranks - 1) / ranks, TILE);
}

static size_t memory(gyre_ring_call *r, char *scratch, int64_t *part_keys) {
    slab_call c;
    open_slabs(&c, r);
    *part_keys = most_tokens(&c);
    return lay_out(&c, scratch);
}

/* out = bytes of gradients that a rank sends home in GATHER. */
static size_t bytes_returned(const slab_call *c) {
    const gyre_ring_call *r = c->r;
    size_t bytes = 0;
    for (int64_t i = 0; i < c->parts; i++)
        for (int64_t to = 0; to < r->transport.ranks; to++) {
            const slab part = part_at(c, i);
            if (to != r->transport.rank)
                bytes += gyre_ring_block_bytes(r, piece_within(c, to, part.begin, part.end).count, 1);
        }
    return bytes;
}

/* out = bytes of keys that this rank sends in a sweep. */
static size_t sweep_bytes(slab_call *c, int64_t sweep) {
    gyre_ring_call *r = c->r;
    size_t bytes = 0;
    gyre_ring_enter(r, sweep);
    for (c->gathering = 0; c->gathering < c->slabs; c->gathering++) {
        const size_t piece_bytes = gyre_ring_block_bytes(r, piece_of(c, r->transport.rank).count, 0);
        for (int64_t t = 1; t < r->transport.ranks && piece_bytes > 0; t++)
            if (slab_wanted(c, gyre_ring_peer(r, t), c->gathering)) bytes += piece_bytes;
    }
    return bytes;
}

/* All groups of heads but the last have equal bytes. */
static int64_t bytes_sent(gyre_ring_call *r) {
    slab_call c;
    size_t bytes = 0;
    open_slabs(&c, r);
    for (int64_t chunk = 0; chunk < r->chunks; chunk++) {
        if (r->groups > 1) bytes += (size_t)(r->groups - 1) * sweep_bytes(&c, chunk);
        bytes += sweep_bytes(&c, (r->groups - 1) * r->chunks + chunk);
    }
    return (int64_t)(bytes + (r->gradient ? bytes_returned(&c) : 0));
}

/* Enters the sweep of slab `i` of all. */
static int64_t enter_slab(slab_call *c, int64_t i) {
    gyre_ring_enter(c->r, i / c->slabs);
    return i % c->slabs;
}

static gyre_status check_slab(slab_call *c, int64_t i, const gyre_gradient_views *call, gyre_error *err) {
    gyre_ring_call *r = c->r;
    gyre_attention_inputs args;
    gyre_positions k_index;
    gyre_gradient_views own = {0};
    gyre_view dqkv[3];
    c->closing = enter_slab(c, i);
    part_args(c, c->closing, 0, &k_index, &args);
    if (call) {
        dqkv[0] = call->dqkv[0];
        gyre_ring_use_gradients(r, c->m.sums, c->batch->tokens, dqkv, &args);
        own = (gyre_gradient_views){call->dout, dqkv, call->gradients, NULL};
    }
    return gyre_ring_check_part(r, &args, call ? &own : NULL, err);
}

/* Every slab in the first sweep, and each sweep once. */
static gyre_status check(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, gyre_error *err) {
    slab_call c;
    gyre_status status = GYRE_OK;
    open_slabs(&c, r);
    lay_out(&c, scratch);
    for (int64_t i = 0, all = gyre_ring_sweeps(r) * c.slabs; i < all && !status; i += i < c.slabs ? 1 : c.slabs)
        status = check_slab(&c, i, call, err);
    return status;
}

/* -- rounds: what each rank has goes to the others, one after the other -- */

static void begin_rounds(slab_call *c, gyre_ring_channel channel, gyre_status (*end_round)(slab_call *, gyre_error *)) {
    c->round = 1;
    c->channel = channel;
    c->end_round = end_round;
}

static gyre_status advance(gyre_ring_call *r, gyre_error *err) {
    slab_call *c = r->advance_arg;
    int done = 0;
    if (c->round >= r->transport.ranks) return GYRE_OK;
    const gyre_status status = gyre_ring_poll(r, c->channel, &done, err);
    return status || !done ? status : c->end_round(c, err);
}

static gyre_status finish_rounds(slab_call *c, gyre_error *err) {
    gyre_status status = GYRE_OK;
    while (!status && c->round < c->r->transport.ranks)
        status = c->end_round(c, err);
    return status;
}

/* -- gathering -- */

/* Tokens of the piece of a rank, from dense memory to their places in the slab. */
static void place(const slab_call *c, int64_t rank, char *from) {
    gyre_ring_call *r = c->r;
    const gyre_shard_info keys = gyre_ring_keys_of(r, rank);
    const slab s = slab_at(c, c->gathering % c->slabs);
    const piece p = piece_of(c, rank);
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
    const int64_t to = gyre_ring_peer(r, c->round), from = gyre_ring_peer(r, -c->round), i = c->gathering % c->slabs;
    gyre_exchange e = {.to = to, .from = from, .send = c->m.sent, .receive = c->m.received};
    if (slab_wanted(c, to, i)) e.sent = gyre_ring_block_bytes(r, piece_of(c, r->transport.rank).count, 0);
    if (slab_wanted(c, r->transport.rank, i)) e.received = gyre_ring_block_bytes(r, piece_of(c, from).count, 0);
    return e.sent > 0 || e.received > 0 ? gyre_ring_begin(r, GYRE_RING_INPUTS, &e, err) : GYRE_OK;
}

static gyre_status end_gathering_round(slab_call *c, gyre_error *err) {
    gyre_ring_call *r = c->r;
    const int64_t i = enter_slab(c, c->gathering);
    const gyre_status status = r->exchanges[GYRE_RING_INPUTS].open ? gyre_ring_wait(r, GYRE_RING_INPUTS, err) : GYRE_OK;
    if (status) return status;
    if (slab_wanted(c, r->transport.rank, i)) place(c, gyre_ring_peer(r, -c->round), c->m.received);
    return ++c->round < r->transport.ranks ? begin_round(c, err) : GYRE_OK;
}

/* i: of the slabs of all sweeps. */
static gyre_status begin_gathering(slab_call *c, int64_t i, gyre_error *err) {
    gyre_ring_call *r = c->r;
    c->gathering = i;
    begin_rounds(c, GYRE_RING_INPUTS, end_gathering_round);
    enter_slab(c, i);
    const piece own = piece_of(c, r->transport.rank);
    gyre_ring_pack_keys(r, own.first, own.count, c->m.sent);
    place(c, r->transport.rank, c->m.sent);
    return r->transport.ranks > 1 ? begin_round(c, err) : GYRE_OK;
}

/* -- running -- */

/* out = the last slab that this rank sees in the sweep; 0: it sees none. */
static int64_t closing_slab(const slab_call *c) {
    int64_t i = c->slabs - 1;
    while (i > 0 && !slab_wanted(c, c->r->transport.rank, i))
        i--;
    return i;
}

static gyre_status forward_slab(slab_call *c, int64_t index, const gyre_exec *exec, gyre_error *err) {
    gyre_ring_call *r = c->r;
    gyre_attention_inputs args;
    gyre_positions k_index;
    const int64_t i = enter_slab(c, index);
    if (i == 0) c->closing = closing_slab(c);
    if (i == 0 && with_state(r)) memset(c->m.state, 0, gyre_ring_state_bytes(r, r->args.q.shape[1]));
    part_args(c, i, index % 2, &k_index, &args);
    if (!slab_wanted(c, r->transport.rank, i)) {
        const slab s = slab_at(c, i);
        if (i != c->closing) return GYRE_OK;
        memset(c->m.slab[index % 2], 0, gyre_ring_block_bytes(r, s.end - s.from, 0)); /* nothing came: no row sees it */
    }
    return gyre_ring_compute(r, &args, NULL, exec, err);
}

static gyre_status run_forward(slab_call *c, const gyre_exec *exec, gyre_error *err) {
    const int64_t all = gyre_ring_sweeps(c->r) * c->slabs;
    gyre_status status = begin_gathering(c, 0, err);
    for (int64_t i = 0; i < all && !status; i++) {
        status = finish_rounds(c, err);
        if (!status && i + 1 < all) status = begin_gathering(c, i + 1, err);
        if (!status) status = forward_slab(c, i, exec, err);
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
    const int64_t to = gyre_ring_peer(r, c->round);
    const piece theirs = returning_of(c, to), own = returning_of(c, r->transport.rank);
    take_gradients(c, to, &theirs, c->m.sent);
    const gyre_exchange e = {.to = to,
                             .from = gyre_ring_peer(r, -c->round),
                             .send = c->m.sent,
                             .receive = c->m.received,
                             .sent = gyre_ring_block_bytes(r, theirs.count, 1),
                             .received = gyre_ring_block_bytes(r, own.count, 1)};
    return gyre_ring_begin(r, GYRE_RING_RESULTS, &e, err);
}

static gyre_status end_return(slab_call *c, gyre_error *err) {
    const gyre_status status = gyre_ring_wait(c->r, GYRE_RING_RESULTS, err);
    if (status) return status;
    const piece own = returning_of(c, c->r->transport.rank);
    add_gradients(c, &own, c->m.received);
    return ++c->round < c->r->transport.ranks ? begin_return(c, err) : GYRE_OK;
}

/* Every rank has gradients of the keys of a part.  Those of a rank's keys go to it, and are added in the order in which they
 * come: its own, from the rank before, from that before it, ... */
static gyre_status begin_returns(slab_call *c, int64_t part, gyre_error *err) {
    c->returning = part;
    begin_rounds(c, GYRE_RING_RESULTS, end_return);
    const piece own = returning_of(c, c->r->transport.rank);
    take_gradients(c, c->r->transport.rank, &own, c->m.received);
    add_gradients(c, &own, c->m.received);
    return c->r->transport.ranks > 1 ? begin_return(c, err) : GYRE_OK;
}

static gyre_status compute_part(slab_call *c, int64_t i, const gyre_gradient_views *part, const gyre_exec *exec,
                                gyre_error *err) {
    gyre_attention_inputs args;
    gyre_positions k_index;
    const slab within_part = part_at(c, i);
    part_args(c, 0, 0, &k_index, &args);
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
    const gyre_gradient_views part = {call->dout, dqkv, call->gradients, NULL};
    memset(c->m.sums, 0, gyre_ring_block_bytes(r, c->batch->tokens, 1));
    memset(c->m.mine, 0, gyre_ring_block_bytes(r, tokens, 1));
    gyre_status status = begin_gathering(c, 0, err);
    if (!status) status = finish_rounds(c, err);
    for (int64_t i = 0; i < c->parts && !status; i++) {
        status = compute_part(c, i, &part, exec, err);
        if (!status) status = finish_rounds(c, err); /* of the part before */
        if (!status) status = begin_returns(c, i, err);
    }
    if (!status) status = finish_rounds(c, err);
    if (!status) gyre_ring_give_gradients(r, c->m.mine, tokens, call);
    return status;
}

static gyre_status run(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, const gyre_exec *exec,
                       gyre_error *err) {
    slab_call c;
    open_slabs(&c, r);
    lay_out(&c, scratch);
    r->advance_arg = &c;
    r->advance = advance;
    c.round = r->transport.ranks;
    const gyre_status status = call ? run_gradient(&c, call, exec, err) : run_forward(&c, exec, err);
    r->advance = NULL;
    return status;
}

const gyre_ring_way gyre_ring_way_slabs = {most_keys, with_state, memory, check, run, bytes_sent};
