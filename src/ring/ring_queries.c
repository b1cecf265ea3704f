/* ring_queries.c: GYRE_RING_QUERIES, queries that go to the keys.
 *
 * At step t a rank computes with its own keys the rows of the queries of the rank t before it, and sends these partial rows
 * (states) home.  Home keeps the states of all ranks and adds them in the order of ranks at the end. */
#include "core/view.h"
#include "ring/ring_call.h"

#include <string.h>

/* Parts of the scratch. */
typedef struct query_memory {
    char *queries[3];  /* own, and two that alternate */
    char *partial[2];  /* states of others' queries, on their way home */
    char *states;      /* [ranks]: of the own queries */
    gyre_cview *views; /* [ranks] */
    size_t state_bytes;
} query_memory;

static gyre_view dense_queries(const gyre_ring_call *r, char *at, int64_t tokens) {
    const int64_t *q = r->args.q.shape;
    return gyre_dense(at, r->args.q.dtype, q[0], tokens, q[2], q[3]);
}

static size_t query_bytes(const gyre_ring_call *r, int64_t tokens) {
    const int64_t *q = r->args.q.shape;
    return gyre_ring_round_up((size_t)(q[0] * tokens * q[2] * q[3]) * gyre_dtype_size(r->args.q.dtype));
}

/* Where the parts of the scratch begin. */
typedef struct query_layout {
    size_t queries, partial, state_bytes; /* bytes of a block of queries, of others' states, of own states */
    size_t states, views, part, end;      /* places */
} query_layout;

static query_layout layout_of(const gyre_ring_call *r) {
    const size_t ranks = (size_t)r->transport.ranks;
    query_layout l = {.queries = query_bytes(r, r->largest_queries),
                      .partial = gyre_ring_state_bytes(r, r->largest_queries),
                      .state_bytes = gyre_ring_state_bytes(r, r->own.tokens)};
    l.states = 3 * l.queries + 2 * l.partial;
    l.views = l.states + ranks * l.state_bytes;
    l.part = l.views + gyre_ring_round_up(ranks * sizeof(gyre_cview));
    l.end = l.part + gyre_ring_round_up(r->part_bytes);
    return l;
}

static query_memory lay_out(gyre_ring_call *r, char *scratch) {
    const query_layout l = layout_of(r);
    r->part = scratch + l.part;
    return (query_memory){
        .queries = {scratch, scratch + l.queries, scratch + 2 * l.queries},
        .partial = {scratch + 3 * l.queries, scratch + 3 * l.queries + l.partial},
        .states = scratch + l.states,
        .views = (gyre_cview *)(void *)(scratch + l.views),
        .state_bytes = l.state_bytes,
    };
}

/* *args = the queries of rank `home`, which are in `queries`, with this rank's keys.  q_index: memory that args point to. */
static void part_args(gyre_ring_call *r, int64_t home, char *queries, gyre_positions *q_index, gyre_attention_args *args) {
    const gyre_shard_info q = gyre_ring_queries_of(r, home);
    const int64_t length = r->args.q_pos.context_length;
    gyre_ring_part(r, r->transport.rank, NULL, args);
    args->k = r->args.k;
    args->v = r->args.v;
    args->q = gyre_const(dense_queries(r, queries, q.tokens));
    args->q_pos = q.positions;
    args->q_pos.context_length = length;
    *q_index = q.order;
    args->q_index = q_index;
    args->q_starts = q.starts;
    args->out = gyre_dense(NULL, args->out.dtype, q.rows, q.tokens, args->q.shape[2], args->v.shape[3]);
    args->lse.data = NULL;
    args->sink_logits.data = NULL;
}

gyre_status gyre_ring_queries_bytes(gyre_ring_call *r, const gyre_exec *exec, size_t *bytes, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t rank = 0; rank < r->transport.ranks && !status; rank++) {
        gyre_attention_args part;
        gyre_positions q_index;
        part_args(r, rank, NULL, &q_index, &part);
        gyre_ring_use_state(&part, r, (char *)&r->args); /* only shapes are looked at */
        status = gyre_ring_measure(r, &part, exec, err);
    }
    *bytes = layout_of(r).end;
    return status;
}

static void merge_args(gyre_ring_call *r, const query_memory *m, gyre_attention_merge_args *merge) {
    const int64_t *q = r->args.q.shape;
    for (int64_t rank = 0; rank < r->transport.ranks; rank++)
        m->views[rank] =
            gyre_cdense(m->states + (size_t)rank * m->state_bytes, GYRE_DTYPE_F64, q[0], q[1], q[2], 2 + r->args.v.shape[3]);
    *merge = (gyre_attention_merge_args)GYRE_INIT(gyre_attention_merge_args);
    merge->states = m->views;
    merge->parts = r->transport.ranks;
    merge->sink_logits = r->args.sink_logits;
    merge->out = r->args.out;
    merge->lse = r->args.lse;
}

gyre_status gyre_ring_queries_check(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, gyre_error *err) {
    const query_memory m = lay_out(r, scratch);
    gyre_status status = GYRE_OK;
    (void)call; /* there is no gradient */
    for (int64_t rank = 0; rank < r->transport.ranks && !status; rank++) {
        gyre_attention_args args;
        gyre_positions q_index;
        part_args(r, rank, m.queries[1], &q_index, &args);
        gyre_ring_use_state(&args, r, m.partial[0]);
        if (rank == r->transport.rank) args.q = r->args.q, args.out = r->args.out, args.lse = r->args.lse;
        const gyre_attention_request request = {r->name, &args, NULL, NULL};
        status = gyre_attention_check(&request, err);
    }
    return status;
}

/* state = partial rows of the queries of rank `home`. */
static gyre_status compute(gyre_ring_call *r, int64_t home, char *queries, char *state, const gyre_exec *exec,
                           gyre_error *err) {
    gyre_attention_args args;
    gyre_positions q_index;
    part_args(r, home, queries, &q_index, &args);
    gyre_ring_use_state(&args, r, state);
    memset(state, 0, gyre_ring_state_bytes(r, args.q.shape[1]));
    return gyre_ring_compute(r, &args, NULL, exec, err);
}

static gyre_status send_queries(gyre_ring_call *r, const query_memory *m, int64_t step, gyre_error *err) {
    const int64_t from = gyre_ring_peer(r, -step);
    const gyre_exchange e = {.to = gyre_ring_peer(r, step),
                             .from = from,
                             .send = m->queries[0],
                             .receive = m->queries[1 + step % 2],
                             .sent = query_bytes(r, r->own.tokens),
                             .received = query_bytes(r, gyre_ring_queries_of(r, from).tokens)};
    return gyre_ring_begin(r, GYRE_RING_INPUTS, &e, err);
}

static gyre_status send_home(gyre_ring_call *r, const query_memory *m, int64_t step, gyre_error *err) {
    const int64_t to = gyre_ring_peer(r, -step), from = gyre_ring_peer(r, step);
    const gyre_exchange e = {.to = to,
                             .from = from,
                             .send = m->partial[step % 2],
                             .receive = m->states + (size_t)from * m->state_bytes,
                             .sent = gyre_ring_state_bytes(r, gyre_ring_queries_of(r, to).tokens),
                             .received = m->state_bytes};
    return gyre_ring_begin(r, GYRE_RING_RESULTS, &e, err);
}

gyre_status gyre_ring_queries_run(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, const gyre_exec *exec,
                                  gyre_error *err) {
    const query_memory m = lay_out(r, scratch);
    gyre_attention_merge_args merge;
    const int64_t rank = r->transport.rank, ranks = r->transport.ranks;
    (void)call;
    const gyre_view own = dense_queries(r, m.queries[0], r->own.tokens);
    gyre_ring_copy(&r->args.q, &own);
    gyre_status status = ranks > 1 ? send_queries(r, &m, 1, err) : GYRE_OK;
    if (!status) status = compute(r, rank, m.queries[0], m.states + (size_t)rank * m.state_bytes, exec, err);
    for (int64_t step = 1; step < ranks && !status; step++) {
        status = gyre_ring_wait(r, GYRE_RING_INPUTS, err);
        if (!status && step < ranks - 1) status = send_queries(r, &m, step + 1, err);
        if (!status) status = compute(r, gyre_ring_peer(r, -step), m.queries[1 + step % 2], m.partial[step % 2], exec, err);
        if (!status && step > 1) status = gyre_ring_wait(r, GYRE_RING_RESULTS, err);
        if (!status) status = send_home(r, &m, step, err);
    }
    if (!status && ranks > 1) status = gyre_ring_wait(r, GYRE_RING_RESULTS, err);
    merge_args(r, &m, &merge);
    return status ? status : gyre_attention_merge(&merge, exec, err);
}
