/* ring_heads.c: the gradient with ORDER_FIXED and GATHER, whose bits are those of one rank.
 *
 * Gradients of keys are sums over queries that are on several ranks, and sums of floats depend on where they are cut.  Heads
 * are not summed over.  So each rank computes some key heads, with the query heads that share them, over all tokens: it
 * gathers what belongs to a head, makes the call that one machine would make, and sends everyone the gradients of their
 * tokens.  A sweep is one key head of each rank.  Nothing is computed while messages move. */
#include "core/convert.h"
#include "core/view.h"
#include "positions/shards.h"
#include "ring/ring_call.h"
#include "util/integers.h"

#include <string.h>

/* What belongs to tokens: inputs first. */
typedef enum head_field {
    FIELD_Q,
    FIELD_DOUT,
    FIELD_OUT,
    FIELD_LSE,
    FIELD_Q_GATES,
    FIELD_K,
    FIELD_V,
    FIELD_K_GATES,
    OUTPUTS,
    FIELD_DQ = OUTPUTS,
    FIELD_DQ_GATES,
    FIELD_DK,
    FIELD_DV,
    FIELD_DK_GATES,
    FIELDS
} head_field;

typedef struct head_call {
    gyre_ring_call *r;
    const gyre_gradient_views *call;
    gyre_batch_info queries, keys; /* of all tokens */
    gyre_view own[FIELDS];         /* of this rank's tokens, of the head entered */
    gyre_view all[FIELDS];         /* of all tokens, dense, of the head that this rank computes */
    char *sent, *received;
} head_call;

static int is_of_keys(head_field f) {
    return f == FIELD_K || f == FIELD_V || f == FIELD_K_GATES || f == FIELD_DK || f == FIELD_DV || f == FIELD_DK_GATES;
}

static int is_gate_gradient(head_field f) {
    return f == FIELD_DQ_GATES || f == FIELD_DK_GATES;
}

static int is_there(const gyre_ring_call *r, head_field f) {
    return r->gated || (f != FIELD_Q_GATES && f != FIELD_K_GATES && !is_gate_gradient(f));
}

static gyre_view writable(const gyre_cview *view) {
    gyre_view out = {.dtype = view->dtype};
    memcpy(&out.data, &view->data, sizeof out.data); /* inputs are only read */
    memcpy(out.shape, view->shape, sizeof out.shape);
    memcpy(out.stride, view->stride, sizeof out.stride);
    return out;
}

/* Enters a key head: c->own.  call NULL: shapes alone. */
static void enter_head(head_call *c, int64_t head) {
    gyre_ring_call *r = c->r;
    gyre_ring_views views = {.dout = {.data = NULL}};
    gyre_ring_enter(r, head);
    if (c->call) gyre_ring_narrow_views(r, c->call, &views);
    c->own[FIELD_Q] = writable(&r->args.q);
    c->own[FIELD_DOUT] = c->call ? writable(&views.dout) : r->args.out;
    c->own[FIELD_OUT] = r->args.out;
    c->own[FIELD_LSE] = r->args.lse;
    c->own[FIELD_Q_GATES] = writable(&r->args.q_gate_sums);
    c->own[FIELD_K] = writable(&r->args.k);
    c->own[FIELD_V] = writable(&r->args.v);
    c->own[FIELD_K_GATES] = writable(&r->args.k_gate_sums);
    c->own[FIELD_DQ] = c->call ? views.dqkv[0] : c->own[FIELD_Q];
    c->own[FIELD_DQ_GATES] = r->args.dq_gate_sums;
    c->own[FIELD_DK] = c->call ? views.dqkv[1] : c->own[FIELD_K];
    c->own[FIELD_DV] = c->call ? views.dqkv[2] : c->own[FIELD_V];
    c->own[FIELD_DK_GATES] = r->args.dk_gate_sums;
}

/* -- memory -- */

/* A field of some tokens of each row, dense, at `at`. */
static gyre_view dense_field(const head_call *c, head_field f, int64_t tokens, char *at) {
    static const head_field like[FIELDS] = {[FIELD_DQ_GATES] = FIELD_Q_GATES, [FIELD_DK_GATES] = FIELD_K_GATES};
    const gyre_view *v = &c->own[is_gate_gradient(f) ? like[f] : f];
    /* The type of dout is not known to a plan: it travels as floats, as which attention reads it. */
    const int floats = f >= OUTPUTS || f == FIELD_DOUT;
    const gyre_dtype type = is_gate_gradient(f) ? GYRE_DTYPE_F64 : floats ? GYRE_DTYPE_F32 : v->dtype;
    return gyre_dense(at, type, v->shape[0], tokens, v->shape[2], v->shape[3]);
}

static size_t field_bytes(const head_call *c, head_field f, int64_t tokens) {
    const gyre_view v = dense_field(c, f, tokens, NULL);
    if (!is_there(c->r, f)) return 0;
    return gyre_ring_round_up((size_t)(v.shape[0] * tokens * v.shape[2] * v.shape[3]) * gyre_dtype_size(v.dtype));
}

static int64_t tokens_of(const head_call *c, head_field f, int64_t rank) {
    return is_of_keys(f) ? gyre_ring_keys_of(c->r, rank).tokens : gyre_ring_queries_of(c->r, rank).tokens;
}

/* out = bytes of fields first .. end - 1 of the tokens of a rank. */
static size_t message_bytes(const head_call *c, int64_t rank, head_field first, head_field end) {
    size_t bytes = 0;
    for (head_field f = first; f < end; f++)
        bytes += field_bytes(c, f, tokens_of(c, f, rank));
    return bytes;
}

static size_t lay_out(head_call *c, char *scratch) {
    gyre_ring_call *r = c->r;
    size_t at = 0, most = 0;
    for (head_field f = FIELD_Q; f < FIELDS; f++) {
        const int64_t tokens = is_of_keys(f) ? r->key_shards->batch->tokens : r->shards->batch->tokens;
        c->all[f] = dense_field(c, f, tokens, scratch ? scratch + at : NULL);
        if (!is_there(r, f)) c->all[f].data = NULL;
        at += field_bytes(c, f, tokens);
    }
    for (int64_t rank = 0; rank < r->transport.ranks; rank++) {
        const size_t in = message_bytes(c, rank, FIELD_Q, OUTPUTS), out = message_bytes(c, rank, OUTPUTS, FIELDS);
        most = in > most ? in : most;
        most = out > most ? out : most;
    }
    c->sent = scratch ? scratch + at : NULL;
    c->received = scratch ? scratch + at + most : NULL;
    at += 2 * most;
    r->part = scratch ? scratch + at : NULL;
    return at + gyre_ring_round_up(r->part_bytes);
}

static void open_call(head_call *c, gyre_ring_call *r, char *scratch, const gyre_gradient_views *call) {
    *c = (head_call){.r = r, .call = call, .queries = GYRE_INIT(gyre_batch_info), .keys = GYRE_INIT(gyre_batch_info)};
    gyre_status status = gyre_batch_get(r->shards->batch, &c->queries);
    if (!status) status = gyre_batch_get(r->key_shards->batch, &c->keys);
    (void)status; /* there are such batches */
    enter_head(c, 0);
    lay_out(c, scratch);
}

static int64_t most_keys(const gyre_ring_call *r) {
    return r->key_shards->batch->tokens;
}

static int with_state(const gyre_ring_call *r) {
    (void)r;
    return 0;
}

static size_t memory(gyre_ring_call *r, char *scratch, int64_t *part_keys) {
    head_call c;
    *part_keys = r->key_shards->batch->tokens;
    open_call(&c, r, scratch, NULL);
    return lay_out(&c, scratch);
}

/* -- data -- */

/* Between a message, which has the tokens of a rank, and all tokens. */
static void move(head_call *c, int64_t rank, head_field first, head_field end, char *message, int out_of_message) {
    const gyre_shard_info shards[2] = {gyre_ring_queries_of(c->r, rank), gyre_ring_keys_of(c->r, rank)};
    for (head_field f = first; f < end; f++) {
        const gyre_shard_info *shard = &shards[is_of_keys(f)];
        const gyre_view part = dense_field(c, f, shard->tokens, message);
        const size_t row = (size_t)(part.shape[2] * part.shape[3]) * gyre_dtype_size(part.dtype);
        for (int64_t b = 0; b < part.shape[0] && is_there(c->r, f); b++)
            for (int64_t t = 0; t < shard->tokens; t++) {
                void *const here = gyre_view_at(&part, b, t, 0, 0), *const there =
                                                                        gyre_view_at(&c->all[f], b, shard->index[t], 0, 0);
                memcpy(out_of_message ? there : here, out_of_message ? here : there, row);
            }
        message += field_bytes(c, f, shard->tokens);
    }
}

static void copy_as_floats(const gyre_cview *from, const gyre_view *to) {
    const int64_t *n = from->shape;
    for (int64_t b = 0; b < n[0]; b++)
        for (int64_t t = 0; t < n[1]; t++)
            for (int64_t h = 0; h < n[2]; h++)
                gyre_load_row(gyre_cview_at(from, b, t, h, 0), from->dtype, from->stride[3], n[3],
                              gyre_view_at(to, b, t, h, 0));
}

/* message = inputs of this rank's tokens, of the head entered. */
static void pack(head_call *c, char *message) {
    for (head_field f = FIELD_Q; f < OUTPUTS; f++) {
        const int64_t tokens = tokens_of(c, f, c->r->transport.rank);
        const gyre_view to = dense_field(c, f, tokens, message);
        const gyre_cview from = gyre_const(c->own[f]);
        if (f == FIELD_DOUT)
            copy_as_floats(&from, &to);
        else if (is_there(c->r, f))
            gyre_ring_copy(&from, &to);
        message += field_bytes(c, f, tokens);
    }
}

/* The caller's gradients of the head entered = those of a message. */
static void unpack(head_call *c, char *message) {
    for (head_field f = FIELD_DQ; f < FIELDS; f++) {
        const int64_t tokens = tokens_of(c, f, c->r->transport.rank);
        const gyre_view part = dense_field(c, f, tokens, message), *to = &c->own[f];
        const gyre_cview from = gyre_const(part);
        if (is_there(c->r, f) && !is_gate_gradient(f)) gyre_ring_copy(&from, to);
        for (int64_t b = 0; b < part.shape[0] && is_there(c->r, f) && is_gate_gradient(f) && to->data; b++)
            for (int64_t t = 0; t < tokens; t++)
                for (int64_t h = 0; h < part.shape[2]; h++)
                    gyre_store_row_f64(gyre_view_at(&part, b, t, h, 0), 1, gyre_view_at(to, b, t, h, 0), to->dtype, 1);
        message += field_bytes(c, f, tokens);
    }
}

/* -- sweeps -- */

/* out = the key head that a rank computes in a sweep; -1: none. */
static int64_t head_of(const head_call *c, int64_t sweep, int64_t rank) {
    const int64_t head = sweep * c->r->transport.ranks + rank;
    return head < c->r->whole.k.shape[2] ? head : -1;
}

static int64_t count_sweeps(const gyre_ring_call *r) {
    return (r->whole.k.shape[2] + r->transport.ranks - 1) / r->transport.ranks;
}

/* out = the exchange with the ranks `t` away, without bytes yet.  At 0 a rank gives to itself. */
static gyre_exchange exchange_at(const head_call *c, int64_t t) {
    return (gyre_exchange){.to = gyre_ring_peer(c->r, t),
                           .from = gyre_ring_peer(c->r, -t),
                           .send = c->sent,
                           .receive = t == 0 ? c->sent : c->received};
}

static gyre_status exchange(head_call *c, gyre_ring_channel channel, const gyre_exchange *e, gyre_error *err) {
    if (e->sent == 0 && e->received == 0) return GYRE_OK;
    const gyre_status status = gyre_ring_begin(c->r, channel, e, err);
    return status ? status : gyre_ring_wait(c->r, channel, err);
}

/* c->all = inputs of all ranks, of the head that this one computes. */
static gyre_status gather(head_call *c, int64_t sweep, gyre_error *err) {
    gyre_ring_call *r = c->r;
    const int64_t mine = head_of(c, sweep, r->transport.rank);
    gyre_status status = GYRE_OK;
    for (int64_t t = 0; t < r->transport.ranks && !status; t++) {
        gyre_exchange e = exchange_at(c, t);
        const int64_t theirs = head_of(c, sweep, e.to);
        if (theirs >= 0) {
            enter_head(c, theirs);
            pack(c, c->sent);
            e.sent = message_bytes(c, r->transport.rank, FIELD_Q, OUTPUTS);
        }
        if (mine >= 0) e.received = message_bytes(c, e.from, FIELD_Q, OUTPUTS);
        if (t > 0) status = exchange(c, GYRE_RING_INPUTS, &e, err);
        if (!status && mine >= 0) move(c, e.from, FIELD_Q, OUTPUTS, e.receive, 1);
    }
    return status;
}

/* Gradients of a rank's tokens go to it. */
static gyre_status give(head_call *c, int64_t sweep, gyre_error *err) {
    gyre_ring_call *r = c->r;
    const int64_t mine = head_of(c, sweep, r->transport.rank);
    gyre_status status = GYRE_OK;
    for (int64_t t = 0; t < r->transport.ranks && !status; t++) {
        gyre_exchange e = exchange_at(c, t);
        const int64_t theirs = head_of(c, sweep, e.from);
        if (mine >= 0) move(c, e.to, OUTPUTS, FIELDS, c->sent, 0);
        if (mine >= 0) e.sent = message_bytes(c, e.to, OUTPUTS, FIELDS);
        if (theirs >= 0) e.received = message_bytes(c, r->transport.rank, OUTPUTS, FIELDS);
        if (t > 0) status = exchange(c, GYRE_RING_RESULTS, &e, err);
        if (status || theirs < 0) continue;
        enter_head(c, theirs);
        unpack(c, e.receive);
    }
    return status;
}

/* *args, *dout, dqkv = one key head over all tokens. */
static void whole_args(head_call *c, int64_t head, gyre_attention_inputs *args, gyre_cview *dout, gyre_view dqkv[3]) {
    gyre_ring_call *r = c->r;
    const gyre_view *all = c->all;
    const int64_t length = r->whole.q_pos.context_length;
    enter_head(c, head);
    *args = r->args;
    args->q = gyre_const(all[FIELD_Q]);
    args->k = gyre_const(all[FIELD_K]);
    args->v = gyre_const(all[FIELD_V]);
    args->out = all[FIELD_OUT];
    args->lse = all[FIELD_LSE];
    if (r->gated) {
        args->q_gate_sums = gyre_const(all[FIELD_Q_GATES]);
        args->k_gate_sums = gyre_const(all[FIELD_K_GATES]);
        args->dq_gate_sums = all[FIELD_DQ_GATES];
        args->dk_gate_sums = all[FIELD_DK_GATES];
    }
    args->q_pos = c->queries.positions;
    args->q_pos.context_length = length;
    args->k_pos = c->keys.positions;
    args->q_index = &c->queries.order;
    args->k_index = &c->keys.order;
    args->q_starts = c->queries.q_starts;
    args->k_starts = c->keys.q_starts;
    args->k_first = c->keys.k_first;
    args->k_end = c->keys.k_end;
    args->accumulate = 0;
    *dout = gyre_const(all[FIELD_DOUT]);
    dqkv[0] = all[FIELD_DQ];
    dqkv[1] = all[FIELD_DK];
    dqkv[2] = all[FIELD_DV];
}

static gyre_status check(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, gyre_error *err) {
    head_call c;
    gyre_attention_inputs args;
    gyre_cview dout;
    gyre_view dqkv[3];
    open_call(&c, r, scratch, call);
    whole_args(&c, 0, &args, &dout, dqkv);
    const gyre_gradient_views part = {&dout, dqkv, call->gradients, NULL};
    return gyre_ring_check_part(r, &args, &part, err);
}

static gyre_status compute(head_call *c, int64_t head, const gyre_exec *exec, gyre_error *err) {
    gyre_attention_inputs args;
    gyre_cview dout;
    gyre_view dqkv[3];
    whole_args(c, head, &args, &dout, dqkv);
    const gyre_gradient_views part = {&dout, dqkv, c->call->gradients, NULL};
    return gyre_ring_compute(c->r, &args, &part, exec, err);
}

static gyre_status run(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, const gyre_exec *exec,
                       gyre_error *err) {
    head_call c;
    gyre_status status = GYRE_OK;
    open_call(&c, r, scratch, call);
    for (int64_t sweep = 0; sweep < count_sweeps(r) && !status; sweep++) {
        const int64_t head = head_of(&c, sweep, r->transport.rank);
        status = gather(&c, sweep, err);
        if (!status && head >= 0) status = compute(&c, head, exec, err);
        if (!status) status = give(&c, sweep, err);
    }
    return status;
}

static int64_t bytes_sent(gyre_ring_call *r) {
    head_call c;
    size_t bytes = 0;
    open_call(&c, r, NULL, NULL);
    for (int64_t sweep = 0; sweep < count_sweeps(r); sweep++)
        for (int64_t t = 1; t < r->transport.ranks; t++) {
            const int64_t to = gyre_ring_peer(r, t);
            if (head_of(&c, sweep, to) >= 0) bytes += message_bytes(&c, r->transport.rank, FIELD_Q, OUTPUTS);
            if (head_of(&c, sweep, r->transport.rank) >= 0) bytes += message_bytes(&c, to, OUTPUTS, FIELDS);
        }
    return (int64_t)bytes;
}

const gyre_ring_way gyre_ring_way_heads = {most_keys, with_state, memory, check, run, bytes_sent};
