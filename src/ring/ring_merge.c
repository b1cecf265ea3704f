/* ring_merge.c: rows whose keys are on several ranks, added up on every rank. */
#include "core/sized.h"
#include "core/view.h"
#include "ring/ring_call.h"
#include "util/error.h"

#include <string.h>

typedef struct merge_call {
    gyre_ring_call r;
    gyre_ring_merge_args args;
    size_t state_bytes;
} merge_call;

static gyre_view dense_state(const merge_call *c, char *at) {
    const int64_t *s = c->args.state.shape;
    return gyre_dense(at, GYRE_DTYPE_F64, s[0], s[1], s[2], s[3]);
}

static gyre_status open_merge(merge_call *c, const char *name, const gyre_ring_merge_args *given, gyre_error *err) {
    *c = (merge_call){.r = {.name = name}};
    gyre_status status = gyre_sized_read(&c->args, sizeof c->args, given, "gyre_ring_merge_args", err);
    if (!status) status = gyre_ring_read_transport(&c->r, c->args.transport, err);
    if (status) return status;
    c->r.agreed = c->args.agreed;
    c->r.given_timeline = c->args.timeline;
    status = gyre_cview_check(&c->args.state, "state", name, err);
    if (!status && c->args.state.dtype != GYRE_DTYPE_F64)
        status = gyre_fail(err, GYRE_EDTYPE, "state: %s is not F64 (%s)", gyre_dtype_text(c->args.state.dtype), name);
    const int64_t most = (int64_t)(PTRDIFF_MAX / 2) / (int64_t)sizeof(double) / c->r.transport.ranks;
    if (!status && gyre_view_elements(c->args.state.shape) > most)
        status = gyre_fail(err, GYRE_ENOMEM, "state: its copies have more bytes than can be counted (%s)", name);
    if (!status) c->state_bytes = gyre_ring_round_up((size_t)gyre_view_elements(c->args.state.shape) * sizeof(double));
    return status;
}

static size_t merge_bytes(const merge_call *c) {
    const size_t ranks = (size_t)c->r.transport.ranks;
    return ranks * c->state_bytes + gyre_ring_round_up(ranks * sizeof(gyre_cview));
}

static void add_fields(const merge_call *c, gyre_ring_fields *fields) {
    static const char *const names[] = {"state: rows", "state: queries", "state: heads", "state: numbers of a row"};
    for (int i = 0; i < 4; i++)
        gyre_ring_add_field(fields, names[i], 'i', (uint64_t)c->args.state.shape[i]);
}

/* The states of all ranks, in the order of ranks. */
static gyre_attention_merge_args merge_args(const merge_call *c, char *scratch) {
    const int64_t ranks = c->r.transport.ranks;
    gyre_cview *states = (gyre_cview *)(void *)(scratch + (size_t)ranks * c->state_bytes);
    for (int64_t i = 0; i < ranks; i++)
        states[i] = gyre_const(dense_state(c, scratch + (size_t)i * c->state_bytes));
    gyre_attention_merge_args merge = GYRE_INIT(gyre_attention_merge_args);
    merge.states = states;
    merge.parts = ranks;
    merge.sink_logits = c->args.sink_logits;
    merge.out = c->args.out;
    merge.lse = c->args.lse;
    return merge;
}

/* What does not depend on the other ranks' numbers is found out here. */
static gyre_status check_merge(const merge_call *c, char *scratch, gyre_error *err) {
    gyre_attention_merge_args merge = merge_args(c, scratch);
    return gyre_attention_merge_check(&merge, err);
}

static gyre_status exchange_states(merge_call *c, char *scratch, gyre_error *err) {
    gyre_ring_call *r = &c->r;
    char *own = scratch + (size_t)r->transport.rank * c->state_bytes;
    const gyre_view dense = dense_state(c, own);
    gyre_status status = GYRE_OK;
    gyre_ring_copy(&c->args.state, &dense);
    for (int64_t round = 1; round < r->transport.ranks && !status; round++) {
        const int64_t from = gyre_ring_peer(r, -round);
        const gyre_exchange e = {.to = gyre_ring_peer(r, round),
                                 .from = from,
                                 .send = own,
                                 .receive = scratch + (size_t)from * c->state_bytes,
                                 .sent = c->state_bytes,
                                 .received = c->state_bytes};
        status = gyre_ring_begin(r, GYRE_RING_RESULTS, &e, err);
        if (!status) status = gyre_ring_wait(r, GYRE_RING_RESULTS, err);
    }
    return status;
}

gyre_status gyre_ring_merge_scratch(const gyre_ring_merge_args *args, size_t *bytes, gyre_error *err) {
    static const char name[] = "gyre_ring_merge_scratch";
    merge_call c;
    if (!bytes) return gyre_fail(err, GYRE_EINVAL, "bytes: is NULL (%s)", name);
    const gyre_status status = open_merge(&c, name, args, err);
    if (!status) *bytes = merge_bytes(&c);
    return status;
}

gyre_status gyre_ring_merge(const gyre_ring_merge_args *args, gyre_scratch scratch, const gyre_exec *exec, gyre_error *err) {
    char *memory = scratch.memory;
    merge_call c;
    gyre_error own_error = {0, ""};
    gyre_error *error = err ? err : &own_error;
    gyre_ring_fields fields = {.count = 0};
    const double began = gyre_ring_seconds();
    gyre_status status = open_merge(&c, "gyre_ring_merge", args, error);
    if (!status) status = gyre_scratch_check(c.r.name, scratch, merge_bytes(&c), error);
    if (!status) status = check_merge(&c, memory, error);
    c.r.began = began;
    gyre_ring_add_field(&fields, "call", 'i', 2);
    if (!status) add_fields(&c, &fields);
    status = gyre_ring_agree(&c.r, &fields, status, error);
    if (!status) status = exchange_states(&c, memory, error);
    if (!status) {
        const double begun = gyre_ring_seconds();
        const gyre_attention_merge_args merge = merge_args(&c, memory);
        status = gyre_attention_merge(&merge, exec, error);
        c.r.timeline.computing += gyre_ring_seconds() - begun;
    }
    gyre_ring_stop_clock(&c.r);
    return status;
}
