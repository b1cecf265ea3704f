/* ring.c: attention whose keys go from rank to rank.
 *
 * A block is what a rank has of keys and values, dense and in their types.  Two blocks alternate: one is computed with and
 * sent, the other is received.  Gradients of a block are floats and go one step behind: a rank sums its own while those of
 * the ranks before arrive, adds both, and sends them on. */
#include "attention/attention.h"
#include "core/sized.h"
#include "core/view.h"
#include "gyre/gyre_ring.h"
#include "util/error.h"
#include "util/integers.h"

#include <string.h>

enum { LINE = 64 };
typedef enum ring_channel { KEYS, GRADIENTS } ring_channel;

typedef struct ring {
    const char *name; /* of the call, for messages */
    gyre_transport transport;
    const gyre_shards *shards;
    gyre_attention_args args; /* with the queries, positions and indices of this rank */
    gyre_shard_info own;
    gyre_positions q_index, k_index;
    int gradient;
    int64_t largest; /* tokens of the largest shard */
    size_t block_bytes, gradient_bytes, state_bytes, part_bytes;
    char *block[2], *sums[2], *mine, *state, *part; /* parts of the scratch */
} ring;

/* -- blocks -- */

static size_t round_up(size_t bytes) {
    return (bytes + LINE - 1) / LINE * LINE;
}

/* out = bytes of keys (v: of values) of a block of `tokens` tokens of each row. */
static size_t side_bytes(const ring *r, int v, int64_t tokens, int floats) {
    const gyre_cview *like = v ? &r->args.v : &r->args.k;
    const size_t size = floats ? sizeof(float) : gyre_dtype_size(like->dtype);
    return round_up((size_t)(like->shape[0] * tokens * like->shape[2] * like->shape[3]) * size);
}

static size_t block_bytes(const ring *r, int64_t tokens, int floats) {
    return side_bytes(r, 0, tokens, floats) + side_bytes(r, 1, tokens, floats);
}

/* out = keys (v: values) in a block. */
static gyre_view side(const ring *r, char *block, int v, int64_t tokens, int floats) {
    const gyre_cview *like = v ? &r->args.v : &r->args.k;
    return gyre_dense(block + (v ? side_bytes(r, 0, tokens, floats) : 0), floats ? GYRE_DTYPE_F32 : like->dtype,
                      like->shape[0], tokens, like->shape[2], like->shape[3]);
}

static void copy(const gyre_cview *from, const gyre_view *to) {
    const size_t size = gyre_dtype_size(from->dtype);
    const int64_t *shape = from->shape, run = from->stride[3] == 1 && to->stride[3] == 1 ? shape[3] : 1;
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t t = 0; t < shape[1]; t++)
            for (int64_t h = 0; h < shape[2]; h++)
                for (int64_t c = 0; c < shape[3]; c += run)
                    memcpy(gyre_view_at(to, b, t, h, c), gyre_cview_at(from, b, t, h, c), (size_t)run * size);
}

static void clear(const gyre_view *view) {
    for (int64_t b = 0; b < view->shape[0]; b++)
        for (int64_t t = 0; t < view->shape[1]; t++)
            for (int64_t h = 0; h < view->shape[2]; h++)
                for (int64_t c = 0; c < view->shape[3]; c++)
                    *(float *)gyre_view_at(view, b, t, h, c) = 0;
}

/* -- a part -- */

static gyre_shard_info shard_of(const ring *r, int64_t rank) {
    gyre_shard_info info = GYRE_INIT(gyre_shard_info);
    const gyre_status status = gyre_shards_get(r->shards, rank, &info);
    (void)status; /* the ranks were counted */
    return info;
}

/* Whose keys a rank computes with at a step. */
static int64_t owner_at(const ring *r, int64_t step) {
    return (r->transport.rank - step + r->transport.ranks) % r->transport.ranks;
}

/* *args = this rank's queries with the keys of `owner`, which are in `block` (NULL: nowhere, for scratch). */
static void part_args(ring *r, int64_t owner, char *block, gyre_attention_args *args) {
    const gyre_shard_info keys = shard_of(r, owner);
    *args = r->args;
    args->k = gyre_const(side(r, block, 0, keys.tokens, 0));
    args->v = gyre_const(side(r, block, 1, keys.tokens, 0));
    args->k_pos = keys.positions;
    r->k_index = keys.order;
    args->q_index = &r->q_index;
    args->k_index = &r->k_index;
    args->k_starts = keys.starts;
    args->k_first = keys.k_first;
    args->k_end = keys.k_end;
    args->accumulate = r->gradient;
    if (r->gradient) return;
    const int64_t *q = r->args.q.shape;
    args->state = gyre_dense(r->state, GYRE_DTYPE_F64, q[0], q[1], q[2], 2 + r->args.v.shape[3]);
}

/* -- arguments -- */

static gyre_status check_views(const ring *r, gyre_error *err) {
    const int64_t rows = r->own.rows, tokens = r->own.tokens;
    const struct {
        const char *name;
        const int64_t *shape;
    } views[] = {{"q", r->args.q.shape}, {"k", r->args.k.shape}, {"v", r->args.v.shape}};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        if (views[i].shape[0] != rows || views[i].shape[1] != tokens)
            return gyre_fail(err, GYRE_ESHAPE,
                             "%s: %" PRId64 " rows of %" PRId64 " tokens, but the shard of rank %" PRId64 " has %" PRId64
                             " of %" PRId64 " (%s)",
                             views[i].name, views[i].shape[0], views[i].shape[1], r->transport.rank, rows, tokens, r->name);
    if (r->args.mask.data || r->args.weights.data)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "%s: not while keys go around a ring (%s)",
                         r->args.mask.data ? "mask" : "weights", r->name);
    if (r->args.order != GYRE_ORDER_FAST)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "order: FIXED needs keys in their order, which a ring has not (%s)",
                         r->name);
    return gyre_cview_check(&r->args.k, "k", r->name, err);
}

static gyre_status read_transport(ring *r, const gyre_ring_args *args, gyre_error *err) {
    gyre_shard_info past = GYRE_INIT(gyre_shard_info);
    gyre_status status = gyre_sized_read(&r->transport, sizeof r->transport, args->transport, "gyre_transport", err);
    if (status) return status;
    const gyre_transport *t = &r->transport;
    if (!t->begin || !t->wait || t->rank < 0 || t->rank >= t->ranks)
        return gyre_fail(err, GYRE_EINVAL, "transport: no functions, or rank %" PRId64 " of %" PRId64 " (%s)", t->rank,
                         t->ranks, r->name);
    if (!args->shards) return gyre_fail(err, GYRE_EINVAL, "shards: is NULL (%s)", r->name);
    if (gyre_shards_get(args->shards, t->ranks - 1, &past) || !gyre_shards_get(args->shards, t->ranks, &past))
        return gyre_fail(err, GYRE_EINVAL, "shards: not of the %" PRId64 " ranks of the transport (%s)", t->ranks, r->name);
    r->shards = args->shards;
    return GYRE_OK;
}

/* What the ring fills in for the queries. */
static void take_queries(ring *r) {
    const int64_t length = r->args.q_pos.context_length;
    r->own = shard_of(r, r->transport.rank);
    r->args.q_pos = r->own.positions;
    r->args.q_pos.context_length = length;
    r->args.q_starts = r->own.starts;
    r->args.sequences = r->own.starts ? r->own.sequences : 0;
    r->args.q_end = NULL;
    r->q_index = r->own.order;
}

/* Reads and measures; args->attention has to be right only as far as sizes go. */
static gyre_status open_ring(ring *r, const char *name, const gyre_ring_args *given, int gradient, const gyre_exec *exec,
                             gyre_error *err) {
    gyre_ring_args args;
    *r = (ring){.name = name, .gradient = gradient};
    gyre_status status = gyre_sized_read(&args, sizeof args, given, "gyre_ring_args", err);
    if (!status) status = read_transport(r, &args, err);
    if (!status) status = gyre_sized_read(&r->args, sizeof r->args, args.attention, "gyre_attention_args", err);
    if (status) return status;
    take_queries(r);
    status = check_views(r, err);
    for (int64_t rank = 0; rank < r->transport.ranks && !status; rank++) {
        gyre_attention_args part;
        part_args(r, rank, NULL, &part);
        const size_t bytes = gyre_attention_scratch(&part, gradient, exec);
        if (bytes == 0) status = gyre_fail(err, GYRE_EINVAL, "attention: gyre_attention refuses its shapes (%s)", name);
        if (bytes > r->part_bytes) r->part_bytes = bytes;
        r->largest = gyre_max_i64(r->largest, part.k.shape[1]);
    }
    if (status) return status;
    const int64_t *q = r->args.q.shape;
    r->block_bytes = block_bytes(r, r->largest, 0);
    r->gradient_bytes = gradient ? block_bytes(r, r->largest, 1) : 0;
    if (!gradient) r->state_bytes = round_up((size_t)(q[0] * q[1] * q[2] * (2 + r->args.v.shape[3])) * sizeof(double));
    return GYRE_OK;
}

static size_t ring_bytes(const ring *r) {
    return 2 * r->block_bytes + 3 * r->gradient_bytes + r->state_bytes + round_up(r->part_bytes);
}

static gyre_status lay_out(ring *r, void *scratch, size_t bytes, gyre_error *err) {
    char *at = scratch;
    if (bytes < ring_bytes(r))
        return gyre_fail(err, GYRE_ENOMEM, "scratch: %zu bytes, but the call needs %zu (%s)", bytes, ring_bytes(r), r->name);
    if (!scratch || (uintptr_t)scratch % LINE != 0)
        return gyre_fail(err, GYRE_EINVAL, "scratch: is NULL or not aligned to 64 bytes (%s)", r->name);
    for (int i = 0; i < 2; i++, at += r->block_bytes)
        r->block[i] = at;
    for (int i = 0; i < 2; i++, at += r->gradient_bytes)
        r->sums[i] = at;
    r->mine = at;
    r->state = at + r->gradient_bytes;
    r->part = r->state + r->state_bytes;
    return GYRE_OK;
}

/* Checks every part, so that a call that would fail later fails before anything is sent. */
static gyre_status check_parts(ring *r, const gyre_gradient_views *views, gyre_error *err) {
    gyre_status status = gyre_output_check(&r->args.out, "out", r->name, err); /* parts may leave it open */
    for (int64_t rank = 0; rank < r->transport.ranks && !status; rank++) {
        const int64_t tokens = shard_of(r, rank).tokens;
        gyre_attention_args args;
        part_args(r, rank, r->block[0], &args);
        gyre_gradient_views own = {0};
        gyre_view dqkv[3];
        if (views) {
            dqkv[0] = views->dqkv[0];
            dqkv[1] = side(r, r->mine, 0, tokens, 1);
            dqkv[2] = side(r, r->mine, 1, tokens, 1);
            own = (gyre_gradient_views){views->dout, dqkv, views->gradients};
        }
        const gyre_attention_request request = {r->name, &args, NULL, views ? &own : NULL};
        status = gyre_attention_check(&request, err);
    }
    return status;
}

/* -- exchanges -- */

static gyre_status fail_exchange(const ring *r, gyre_status status, gyre_error *err) {
    return gyre_fail(err, status, "transport: an exchange of rank %" PRId64 " failed: %s (%s)", r->transport.rank,
                     gyre_status_text(status), r->name);
}

/* The block of `sent` goes to the next rank, and that of `received` comes from the rank before. */
static gyre_status pass(const ring *r, ring_channel channel, char *send, int64_t sent, char *receive, int64_t received,
                        gyre_error *err) {
    const gyre_transport *t = &r->transport;
    const int floats = channel == GRADIENTS;
    const gyre_exchange exchange = {.to = (t->rank + 1) % t->ranks,
                                    .from = (t->rank - 1 + t->ranks) % t->ranks,
                                    .send = send,
                                    .receive = receive,
                                    .sent = block_bytes(r, shard_of(r, sent).tokens, floats),
                                    .received = block_bytes(r, shard_of(r, received).tokens, floats)};
    const gyre_status status = t->begin(t->ctx, channel, &exchange);
    return status ? fail_exchange(r, status, err) : GYRE_OK;
}

static gyre_status wait_for(const ring *r, ring_channel channel, gyre_error *err) {
    const gyre_status status = r->transport.wait(r->transport.ctx, channel);
    return status ? fail_exchange(r, status, err) : GYRE_OK;
}

static void begin_blocks(ring *r) {
    const gyre_view k = side(r, r->block[0], 0, r->own.tokens, 0), v = side(r, r->block[0], 1, r->own.tokens, 0);
    copy(&r->args.k, &k);
    copy(&r->args.v, &v);
}

/* -- forward -- */

static gyre_status forward_part(ring *r, int64_t step, char *block, const gyre_exec *exec, gyre_error *err) {
    gyre_attention_args args;
    part_args(r, owner_at(r, step), block, &args);
    if (step < r->transport.ranks - 1) { /* sink logits count once, and rows are complete with the last keys */
        args.out.data = NULL;
        args.lse.data = NULL;
        args.sink_logits.data = NULL;
    }
    return gyre_attention(&args, r->part, r->part_bytes, exec, err);
}

size_t gyre_ring_scratch(const gyre_ring_args *args, int gradient, const gyre_exec *exec) {
    ring r;
    return open_ring(&r, "gyre_ring_scratch", args, gradient != 0, exec, NULL) ? 0 : ring_bytes(&r);
}

gyre_status gyre_ring_attention(const gyre_ring_args *args, void *scratch, size_t bytes, const gyre_exec *exec,
                                gyre_error *err) {
    ring r;
    gyre_status status = open_ring(&r, "gyre_ring_attention", args, 0, exec, err);
    if (!status) status = lay_out(&r, scratch, bytes, err);
    if (!status) status = check_parts(&r, NULL, err);
    if (status) return status;
    memset(r.state, 0, r.state_bytes);
    begin_blocks(&r);
    for (int64_t step = 0, ranks = r.transport.ranks; step < ranks && !status; step++) {
        const int more = step < ranks - 1, at = (int)(step % 2);
        if (more) status = pass(&r, KEYS, r.block[at], owner_at(&r, step), r.block[!at], owner_at(&r, step + 1), err);
        if (!status) status = forward_part(&r, step, r.block[at], exec, err);
        if (more && !status) status = wait_for(&r, KEYS, err);
    }
    return status;
}

/* -- gradient -- */

static void add_floats(float *restrict to, const float *restrict from, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

/* r->mine = what this rank's queries give to the keys of the step. */
static gyre_status gradient_part(ring *r, const gyre_gradient_views *call, int64_t step, char *block, const gyre_exec *exec,
                                 gyre_error *err) {
    gyre_attention_args args;
    const int64_t owner = owner_at(r, step), tokens = shard_of(r, owner).tokens;
    const gyre_view dqkv[3] = {call->dqkv[0], side(r, r->mine, 0, tokens, 1), side(r, r->mine, 1, tokens, 1)};
    part_args(r, owner, block, &args);
    if (step > 0) args.sink_logits.data = NULL;
    memset(r->mine, 0, block_bytes(r, tokens, 1));
    return gyre_attention_gradient(&args, call->dout, dqkv, call->gradients, r->part, r->part_bytes, exec, err);
}

/* Adds r->mine to the sums of the ranks before, which arrive in sums[at], and sends both on. */
static gyre_status pass_gradients(ring *r, int64_t step, int at, gyre_error *err) {
    const int64_t owner = owner_at(r, step);
    const size_t bytes = block_bytes(r, shard_of(r, owner).tokens, 1);
    gyre_status status = GYRE_OK;
    if (step > 0)
        status = wait_for(r, GRADIENTS, err);
    else
        memset(r->sums[at], 0, bytes);
    if (status) return status;
    add_floats((float *)(void *)r->sums[at], (const float *)(const void *)r->mine, bytes / sizeof(float));
    if (r->transport.ranks == 1) return GYRE_OK;
    return pass(r, GRADIENTS, r->sums[at], owner, r->sums[!at], owner_at(r, step + 1), err);
}

static gyre_status check_gradient(const ring *r, const gyre_gradient_views *call, gyre_error *err) {
    const gyre_cview *like[3] = {&r->args.q, &r->args.k, &r->args.v};
    if (!call->dout || !call->dqkv)
        return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (%s)", call->dout ? "dqkv" : "dout", r->name);
    gyre_status status = GYRE_OK;
    for (int i = 0; i < 3 && !status; i++) {
        if (call->dqkv[i].dtype != GYRE_DTYPE_F32)
            return gyre_fail(err, GYRE_EDTYPE, "dqkv[%d]: %s is not F32 (%s)", i, gyre_dtype_text(call->dqkv[i].dtype),
                             r->name);
        if (!gyre_same_shape(call->dqkv[i].shape, like[i]->shape))
            return gyre_fail(err, GYRE_ESHAPE, "dqkv[%d]: " GYRE_SHAPE_FORMAT " is not " GYRE_SHAPE_FORMAT " (%s)", i,
                             GYRE_SHAPE_ARGS(call->dqkv[i].shape), GYRE_SHAPE_ARGS(like[i]->shape), r->name);
        status = gyre_output_check(&call->dqkv[i], "dqkv", r->name, err);
    }
    return status;
}

static gyre_status run_gradient(ring *r, const gyre_gradient_views *call, const gyre_exec *exec, gyre_error *err) {
    gyre_status status = GYRE_OK;
    clear(&call->dqkv[0]);
    begin_blocks(r);
    for (int64_t step = 0, ranks = r->transport.ranks; step < ranks && !status; step++) {
        const int more = step < ranks - 1, at = (int)(step % 2);
        if (more) status = pass(r, KEYS, r->block[at], owner_at(r, step), r->block[!at], owner_at(r, step + 1), err);
        if (!status) status = gradient_part(r, call, step, r->block[at], exec, err);
        if (!status) status = pass_gradients(r, step, at, err);
        if (more && !status) status = wait_for(r, KEYS, err);
    }
    if (!status && r->transport.ranks > 1) status = wait_for(r, GRADIENTS, err);
    return status;
}

gyre_status gyre_ring_attention_gradient(const gyre_ring_args *args, const gyre_cview *dout, const gyre_view dqkv[3],
                                         const gyre_table_gradients *gradients, void *scratch, size_t bytes,
                                         const gyre_exec *exec, gyre_error *err) {
    ring r;
    const gyre_gradient_views call = {dout, dqkv, gradients};
    gyre_status status = open_ring(&r, "gyre_ring_attention_gradient", args, 1, exec, err);
    if (!status) status = lay_out(&r, scratch, bytes, err);
    if (!status) status = check_gradient(&r, &call, err);
    if (!status) status = check_parts(&r, &call, err);
    if (!status) status = run_gradient(&r, &call, exec, err);
    if (status) return status;
    char *sums = r.sums[r.transport.ranks == 1 ? 0 : r.transport.ranks % 2];
    for (int v = 0; v < 2; v++) {
        const gyre_cview sum = gyre_const(side(&r, sums, v, r.own.tokens, 1));
        copy(&sum, &dqkv[1 + v]);
    }
    return GYRE_OK;
}
