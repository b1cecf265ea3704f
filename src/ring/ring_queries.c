/* ring_queries.c: GYRE_RING_QUERIES, queries that go to the keys.
 *
 * At step t of a sweep a rank computes with its own keys the rows of the queries of the rank t before it, and sends these
 * partial rows (states) home.  Home keeps the states of all ranks and adds them in the order of ranks at the end.  Keys stay
 * where they are and are taken piece by piece.  Queries that see no key of a rank do not go there. */
#include "core/view.h"
#include "ring/ring_call.h"
#include "util/integers.h"

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

static int64_t most_keys(const gyre_ring_call *r) {
    return r->largest;
}

static int with_state(const gyre_ring_call *r) {
    (void)r;
    return 1;
}

static size_t lay_out(gyre_ring_call *r, char *scratch, query_memory *m) {
    const size_t ranks = (size_t)r->transport.ranks;
    const int64_t most = gyre_min_i64(r->split.queries, r->largest_queries);
    const size_t queries = gyre_ring_query_bytes(r, most);
    m->state_bytes = gyre_ring_state_bytes(r, most);
    char *views;
    const size_t bytes[] = {queries,
                            queries,
                            queries,
                            m->state_bytes,
                            m->state_bytes,
                            ranks * m->state_bytes,
                            gyre_ring_round_up(ranks * sizeof(gyre_cview))};
    char **const parts[] = {&m->queries[0], &m->queries[1], &m->queries[2], &m->partial[0],
                            &m->partial[1], &m->states,     &views};
    const size_t used = gyre_ring_lay_out(r, scratch, bytes, parts, sizeof bytes / sizeof *bytes);
    m->views = (gyre_cview *)(void *)views;
    return used;
}

static size_t memory(gyre_ring_call *r, char *scratch, int64_t *part_keys) {
    query_memory m;
    *part_keys = gyre_min_i64(r->split.keys, r->largest);
    return lay_out(r, scratch, &m);
}

/* 1: queries of rank `home` see a key of rank `owner`. */
static int meet(const gyre_ring_call *r, int64_t home, int64_t owner) {
    for (int64_t piece = 0; piece < r->pieces; piece++)
        if (gyre_ring_seen_piece(r, home, owner, piece).count > 0) return 1;
    return 0;
}

/* -- parts -- */

/* *args = the queries of rank `home`, which are in `queries`, with some keys of this rank. */
static void part_args(gyre_ring_call *r, int64_t home, const gyre_ring_range *keys, char *queries,
                      gyre_attention_inputs *args) {
    const gyre_shard_info shard = gyre_ring_queries_of(r, home);
    const gyre_ring_range chunk = gyre_ring_chunk(r, home);
    gyre_ring_part(r, r->transport.rank, keys, NULL, args);
    gyre_ring_take_queries(r, &shard, &chunk, args);
    args->k = r->args.k;
    args->v = r->args.v;
    if (keys->first > 0) args->k.data = gyre_cview_at(&args->k, 0, keys->first, 0, 0);
    if (keys->first > 0) args->v.data = gyre_cview_at(&args->v, 0, keys->first, 0, 0);
    args->k.shape[1] = args->v.shape[1] = keys->count;
    args->q = gyre_const(dense_queries(r, queries, chunk.count));
    args->out = gyre_dense(NULL, args->out.dtype, shard.rows, chunk.count, args->q.shape[2], args->v.shape[3]);
    args->lse.data = NULL;
    args->sink_logits.data = NULL;
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
    merge->sink_logits.shape[2] = q[2];
    if (merge->sink_logits.data) merge->sink_logits.data = gyre_cview_at(&r->args.sink_logits, 0, 0, r->head_first, 0);
    merge->out = r->args.out;
    merge->lse = r->args.lse;
}

/* Each rank's queries with each piece of the keys, in the first sweep. */
static gyre_status check(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, gyre_error *err) {
    query_memory m;
    gyre_status status = GYRE_OK;
    (void)call; /* there is no gradient */
    gyre_ring_enter(r, 0);
    lay_out(r, scratch, &m);
    for (int64_t i = 0; i < r->transport.ranks * r->pieces && !status; i++) {
        const int64_t home = i % r->transport.ranks;
        const gyre_ring_range keys = gyre_ring_piece(r, r->transport.rank, i / r->transport.ranks);
        gyre_attention_inputs args;
        part_args(r, home, &keys, m.queries[1], &args);
        gyre_ring_use_state(&args, r, m.partial[0]);
        if (home == r->transport.rank) args.q = r->args.q, args.out = r->args.out, args.lse = r->args.lse;
        status = gyre_ring_check_part(r, &args, NULL, err);
    }
    return status;
}

/* state = partial rows of the queries of rank `home`. */
static gyre_status compute(gyre_ring_call *r, int64_t home, char *queries, char *state, const gyre_exec *exec,
                           gyre_error *err) {
    gyre_status status = GYRE_OK;
    memset(state, 0, gyre_ring_state_bytes(r, gyre_ring_chunk(r, home).count));
    for (int64_t piece = 0; piece < r->pieces && !status; piece++) {
        const gyre_ring_range keys = gyre_ring_seen_piece(r, home, r->transport.rank, piece);
        gyre_attention_inputs args;
        if (keys.count == 0) continue;
        part_args(r, home, &keys, queries, &args);
        gyre_ring_use_state(&args, r, state);
        status = gyre_ring_compute(r, &args, NULL, exec, err);
    }
    return status;
}

/* -- exchanges -- */

static gyre_status begin(gyre_ring_call *r, gyre_ring_channel channel, const gyre_exchange *e, gyre_error *err) {
    return e->sent > 0 || e->received > 0 ? gyre_ring_begin(r, channel, e, err) : GYRE_OK;
}

static gyre_status wait(gyre_ring_call *r, gyre_ring_channel channel, gyre_error *err) {
    return r->exchanges[channel].open ? gyre_ring_wait(r, channel, err) : GYRE_OK;
}

static gyre_status send_queries(gyre_ring_call *r, const query_memory *m, int64_t step, gyre_error *err) {
    const int64_t from = gyre_ring_peer(r, -step), to = gyre_ring_peer(r, step), rank = r->transport.rank;
    gyre_exchange e = {.to = to, .from = from, .send = m->queries[0], .receive = m->queries[1 + step % 2]};
    if (meet(r, rank, to)) e.sent = gyre_ring_query_bytes(r, gyre_ring_chunk(r, rank).count);
    if (meet(r, from, rank)) e.received = gyre_ring_query_bytes(r, gyre_ring_chunk(r, from).count);
    return begin(r, GYRE_RING_INPUTS, &e, err);
}

static gyre_status send_home(gyre_ring_call *r, const query_memory *m, int64_t step, gyre_error *err) {
    const int64_t to = gyre_ring_peer(r, -step), from = gyre_ring_peer(r, step), rank = r->transport.rank;
    char *const receive = m->states + (size_t)from * m->state_bytes;
    gyre_exchange e = {.to = to, .from = from, .send = m->partial[step % 2], .receive = receive};
    if (meet(r, to, rank)) e.sent = gyre_ring_state_bytes(r, gyre_ring_chunk(r, to).count);
    if (meet(r, rank, from))
        e.received = gyre_ring_state_bytes(r, gyre_ring_chunk(r, rank).count);
    else
        memset(receive, 0, gyre_ring_state_bytes(r, gyre_ring_chunk(r, rank).count));
    return begin(r, GYRE_RING_RESULTS, &e, err);
}

static gyre_status run_sweep(gyre_ring_call *r, const query_memory *m, const gyre_exec *exec, gyre_error *err) {
    gyre_attention_merge_args merge;
    const int64_t rank = r->transport.rank, ranks = r->transport.ranks;
    const gyre_view own = dense_queries(r, m->queries[0], r->args.q.shape[1]);
    gyre_ring_copy(&r->args.q, &own);
    gyre_status status = ranks > 1 ? send_queries(r, m, 1, err) : GYRE_OK;
    if (!status) status = compute(r, rank, m->queries[0], m->states + (size_t)rank * m->state_bytes, exec, err);
    for (int64_t step = 1; step < ranks && !status; step++) {
        status = wait(r, GYRE_RING_INPUTS, err);
        if (!status && step < ranks - 1) status = send_queries(r, m, step + 1, err);
        if (!status)
            status = compute(r, gyre_ring_peer(r, -step), m->queries[1 + step % 2], m->partial[step % 2], exec, err);
        if (!status && step > 1) status = wait(r, GYRE_RING_RESULTS, err);
        if (!status) status = send_home(r, m, step, err);
    }
    if (!status && ranks > 1) status = wait(r, GYRE_RING_RESULTS, err);
    merge_args(r, m, &merge);
    return status ? status : gyre_attention_merge(&merge, exec, err);
}

static gyre_status run(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, const gyre_exec *exec,
                       gyre_error *err) {
    query_memory m;
    gyre_status status = GYRE_OK;
    (void)call;
    gyre_ring_enter(r, 0);
    lay_out(r, scratch, &m);
    for (int64_t sweep = 0; sweep < gyre_ring_sweeps(r) && !status; sweep++) {
        gyre_ring_enter(r, sweep);
        status = run_sweep(r, &m, exec, err);
    }
    return status;
}

static int64_t bytes_sent(gyre_ring_call *r) {
    const int64_t rank = r->transport.rank;
    size_t bytes = 0;
    for (int64_t sweep = 0; sweep < gyre_ring_sweeps(r); sweep++) {
        gyre_ring_enter(r, sweep);
        for (int64_t step = 1; step < r->transport.ranks; step++) {
            const int64_t other = gyre_ring_peer(r, step);
            if (meet(r, rank, other)) bytes += gyre_ring_query_bytes(r, gyre_ring_chunk(r, rank).count);
            if (meet(r, other, rank)) bytes += gyre_ring_state_bytes(r, gyre_ring_chunk(r, other).count);
        }
    }
    return (int64_t)bytes;
}

const gyre_ring_way gyre_ring_way_queries = {most_keys, with_state, memory, check, run, bytes_sent};
