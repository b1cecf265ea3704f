/* ring_keys.c: GYRE_RING_KEYS, keys that go from rank to rank.
 *
 * Two blocks alternate: one is computed with and sent, the other is received.  Gradients of a block are floats and go one
 * step behind: a rank sums its own while those of the ranks before arrive, adds both, and sends them on. */
#include "core/view.h"
#include "ring/ring_call.h"

#include <string.h>

/* Parts of the scratch. */
typedef struct key_memory {
    char *block[2], *sums[2], *mine, *state;
} key_memory;

/* Whose keys this rank computes with at a step. */
static int64_t owner_at(const gyre_ring_call *r, int64_t step) {
    return gyre_ring_peer(r, -step);
}

static size_t lay_out(gyre_ring_call *r, char *scratch, key_memory *m) {
    const size_t block = gyre_ring_block_bytes(r, r->largest, 0), floats = gyre_ring_block_bytes(r, r->largest, 1);
    const size_t bytes[] = {block,
                            block,
                            r->gradient ? floats : 0,
                            r->gradient ? floats : 0,
                            r->gradient ? floats : 0,
                            r->gradient ? 0 : gyre_ring_state_bytes(r, r->own.tokens)};
    char **const parts[] = {&m->block[0], &m->block[1], &m->sums[0], &m->sums[1], &m->mine, &m->state};
    size_t at = 0;
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; at += bytes[i++])
        *parts[i] = scratch ? scratch + at : NULL;
    r->part = scratch ? scratch + at : NULL;
    return at + gyre_ring_round_up(r->part_bytes);
}

gyre_status gyre_ring_keys_bytes(gyre_ring_call *r, const gyre_exec *exec, size_t *bytes, gyre_error *err) {
    key_memory m;
    gyre_status status = GYRE_OK;
    for (int64_t rank = 0; rank < r->transport.ranks && !status; rank++) {
        gyre_attention_args part;
        gyre_ring_part(r, rank, NULL, &part);
        if (!r->gradient) gyre_ring_use_state(&part, r, (char *)&r->args); /* only shapes are looked at */
        status = gyre_ring_measure(r, &part, exec, err);
    }
    *bytes = lay_out(r, NULL, &m);
    return status;
}

/* Checks every part, so that a call that would fail later fails before any part is sent. */
gyre_status gyre_ring_keys_check(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, gyre_error *err) {
    key_memory m;
    gyre_status status = GYRE_OK;
    lay_out(r, scratch, &m);
    for (int64_t rank = 0; rank < r->transport.ranks && !status; rank++) {
        const int64_t tokens = gyre_ring_keys_of(r, rank).tokens;
        gyre_attention_args args;
        gyre_ring_part(r, rank, m.block[0], &args);
        if (!call) gyre_ring_use_state(&args, r, m.state);
        gyre_gradient_views own = {0};
        gyre_view dqkv[3];
        if (call) {
            dqkv[0] = call->dqkv[0];
            gyre_ring_use_gradients(r, m.mine, tokens, dqkv, &args);
            own = (gyre_gradient_views){call->dout, dqkv, call->gradients};
        }
        const gyre_attention_request request = {r->name, &args, NULL, call ? &own : NULL};
        status = gyre_attention_check(&request, err);
    }
    return status;
}

/* -- exchanges -- */

/* The block of rank `sent` goes to the next rank, and that of `received` comes from the rank before. */
static gyre_status pass(gyre_ring_call *r, gyre_ring_channel channel, char *send, int64_t sent, char *receive,
                        int64_t received, gyre_error *err) {
    const int floats = channel == GYRE_RING_RESULTS;
    const gyre_exchange exchange = {.to = gyre_ring_peer(r, 1),
                                    .from = gyre_ring_peer(r, -1),
                                    .send = send,
                                    .receive = receive,
                                    .sent = gyre_ring_block_bytes(r, gyre_ring_keys_of(r, sent).tokens, floats),
                                    .received = gyre_ring_block_bytes(r, gyre_ring_keys_of(r, received).tokens, floats)};
    return gyre_ring_begin(r, channel, &exchange, err);
}

/* -- forward -- */

static gyre_status forward_part(gyre_ring_call *r, const key_memory *m, int64_t step, const gyre_exec *exec,
                                gyre_error *err) {
    gyre_attention_args args;
    gyre_ring_part(r, owner_at(r, step), m->block[step % 2], &args);
    gyre_ring_use_state(&args, r, m->state);
    if (step < r->transport.ranks - 1) { /* sink logits count once, and rows are complete with the last keys */
        args.out.data = NULL;
        args.lse.data = NULL;
        args.sink_logits.data = NULL;
    }
    return gyre_ring_compute(r, &args, NULL, exec, err);
}

static gyre_status run_forward(gyre_ring_call *r, const key_memory *m, const gyre_exec *exec, gyre_error *err) {
    gyre_status status = GYRE_OK;
    memset(m->state, 0, gyre_ring_state_bytes(r, r->own.tokens));
    for (int64_t step = 0, ranks = r->transport.ranks; step < ranks && !status; step++) {
        const int more = step < ranks - 1, at = (int)(step % 2);
        if (more)
            status = pass(r, GYRE_RING_INPUTS, m->block[at], owner_at(r, step), m->block[!at], owner_at(r, step + 1), err);
        if (!status) status = forward_part(r, m, step, exec, err);
        if (more && !status) status = gyre_ring_wait(r, GYRE_RING_INPUTS, err);
    }
    return status;
}

/* -- gradient -- */

static void add_floats(float *restrict to, const float *restrict from, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

/* m->mine = what this rank's queries give to the keys of the step. */
static gyre_status gradient_part(gyre_ring_call *r, const key_memory *m, const gyre_gradient_views *call, int64_t step,
                                 const gyre_exec *exec, gyre_error *err) {
    gyre_attention_args args;
    const int64_t owner = owner_at(r, step), tokens = gyre_ring_keys_of(r, owner).tokens;
    gyre_view dqkv[3] = {call->dqkv[0]};
    const gyre_gradient_views part = {call->dout, dqkv, call->gradients};
    gyre_ring_part(r, owner, m->block[step % 2], &args);
    gyre_ring_use_gradients(r, m->mine, tokens, dqkv, &args);
    if (step > 0) args.sink_logits.data = NULL;
    memset(m->mine, 0, gyre_ring_block_bytes(r, tokens, 1));
    return gyre_ring_compute(r, &args, &part, exec, err);
}

/* Adds m->mine to the sums of the ranks before, which arrive in sums[at], and sends both on. */
static gyre_status pass_gradients(gyre_ring_call *r, const key_memory *m, int64_t step, gyre_error *err) {
    const int at = (int)(step % 2);
    const int64_t owner = owner_at(r, step);
    const size_t bytes = gyre_ring_block_bytes(r, gyre_ring_keys_of(r, owner).tokens, 1);
    gyre_status status = GYRE_OK;
    if (step > 0)
        status = gyre_ring_wait(r, GYRE_RING_RESULTS, err);
    else
        memset(m->sums[at], 0, bytes);
    if (status) return status;
    add_floats((float *)(void *)m->sums[at], (const float *)(const void *)m->mine, bytes / sizeof(float));
    if (r->transport.ranks == 1) return GYRE_OK;
    return pass(r, GYRE_RING_RESULTS, m->sums[at], owner, m->sums[!at], owner_at(r, step + 1), err);
}

static gyre_status run_gradient(gyre_ring_call *r, const key_memory *m, const gyre_gradient_views *call,
                                const gyre_exec *exec, gyre_error *err) {
    gyre_status status = GYRE_OK;
    const int64_t ranks = r->transport.ranks;
    for (int64_t step = 0; step < ranks && !status; step++) {
        const int more = step < ranks - 1, at = (int)(step % 2);
        if (more)
            status = pass(r, GYRE_RING_INPUTS, m->block[at], owner_at(r, step), m->block[!at], owner_at(r, step + 1), err);
        if (!status) status = gradient_part(r, m, call, step, exec, err);
        if (!status) status = pass_gradients(r, m, step, err);
        if (more && !status) status = gyre_ring_wait(r, GYRE_RING_INPUTS, err);
    }
    if (!status && ranks > 1) status = gyre_ring_wait(r, GYRE_RING_RESULTS, err);
    if (status) return status;
    gyre_ring_give_gradients(r, m->sums[ranks == 1 ? 0 : ranks % 2], call->dqkv[1].shape[1], call);
    return GYRE_OK;
}

gyre_status gyre_ring_keys_run(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, const gyre_exec *exec,
                               gyre_error *err) {
    key_memory m;
    lay_out(r, scratch, &m);
    gyre_ring_pack_keys(r, 0, gyre_ring_keys_of(r, r->transport.rank).tokens, m.block[0]);
    return call ? run_gradient(r, &m, call, exec, err) : run_forward(r, &m, exec, err);
}
