/* ring_keys.c: GYRE_RING_KEYS, keys that go from rank to rank.
 *
 * A step is one piece of the keys of one rank, in one sweep.  At step t of a piece a rank sends those of its keys that
 * the rank t after it sees, and receives what it sees of those of the rank t before it.  Two blocks alternate: one is
 * computed with, the other is received.  Gradients of a block are floats and go home one step behind, where they are
 * added in the order of steps.  Steps at which a rank has nothing to send, to receive or to compute are left out. */
#include "core/view.h"
#include "ring/ring_call.h"
#include "util/integers.h"

#include <string.h>

/* Parts of the scratch. */
typedef struct key_memory {
    char *sent, *block[2], *mine[2], *home, *state;
} key_memory;

typedef struct key_step {
    int64_t index, sweep, piece, step; /* index: of all steps of the call */
    int64_t owner, to;                 /* whose keys this rank computes with; to whom it sends its own */
    gyre_ring_range seen, sent;        /* of the owner's keys, of this rank's keys */
    int at;                            /* of two that alternate */
} key_step;

typedef struct key_call {
    gyre_ring_call *r;
    key_memory m;
    int64_t steps, closing; /* closing: the last step of the sweep with keys */
    key_step home;          /* whose gradients are on their way; index -1: none */
    const gyre_gradient_views *call;
} key_call;

/* -- memory -- */

static int64_t most_keys(const gyre_ring_call *r) {
    return r->largest;
}

static int with_state(const gyre_ring_call *r) {
    return !r->gradient;
}

static size_t lay_out(gyre_ring_call *r, char *scratch, key_memory *m) {
    const int64_t keys = gyre_min_i64(r->split.keys, r->largest),
                  queries = gyre_min_i64(r->split.queries, r->largest_queries);
    const int several = r->transport.ranks > 1;
    const size_t block = gyre_ring_block_bytes(r, keys, 0), floats = r->gradient ? gyre_ring_block_bytes(r, keys, 1) : 0;
    const size_t bytes[] = {several ? block : 0,
                            block,
                            several ? block : 0,
                            floats,
                            several ? floats : 0,
                            several ? floats : 0,
                            r->gradient ? 0 : gyre_ring_state_bytes(r, queries)};
    char **const parts[] = {&m->sent, &m->block[0], &m->block[1], &m->mine[0], &m->mine[1], &m->home, &m->state};
    return gyre_ring_lay_out(r, scratch, bytes, parts, sizeof bytes / sizeof *bytes);
}

static size_t memory(gyre_ring_call *r, char *scratch, int64_t *part_keys) {
    key_memory m;
    *part_keys = gyre_min_i64(r->split.keys, r->largest);
    return lay_out(r, scratch, &m);
}

/* -- steps -- */

static int64_t count_steps(const gyre_ring_call *r) {
    return gyre_ring_sweeps(r) * r->pieces * r->transport.ranks;
}

/* Enters the sweep of step `index` of all. */
static key_step step_at(gyre_ring_call *r, int64_t index) {
    const int64_t ranks = r->transport.ranks, rank = r->transport.rank, piece = index / ranks;
    key_step s = {.index = index, .sweep = piece / r->pieces, .piece = piece % r->pieces, .step = index % ranks};
    gyre_ring_enter(r, s.sweep);
    s.owner = gyre_ring_peer(r, -s.step);
    s.to = gyre_ring_peer(r, s.step);
    s.seen = gyre_ring_seen_piece(r, rank, s.owner, s.piece);
    if (s.step > 0) s.sent = gyre_ring_seen_piece(r, s.to, rank, s.piece);
    return s;
}

/* 1: the first step of a sweep.  It is computed in any case: it counts sinks, and rows without keys are written. */
static int begins(const key_step *s) {
    return s->step == 0 && s->piece == 0;
}

/* *s = the first step from `index` on at which there is something to do. */
static void find_step(const key_call *c, int64_t index, key_step *s) {
    const int at = s->at;
    *s = (key_step){.index = c->steps};
    for (; index < c->steps; index++) {
        *s = step_at(c->r, index);
        if (s->seen.count > 0 || s->sent.count > 0 || begins(s)) break;
    }
    s->index = index;
    s->at = c->r->transport.ranks > 1 && !at; /* one rank has one block: nothing arrives */
}

/* out = the last step of a sweep whose keys this rank sees. */
static int64_t closing_step(gyre_ring_call *r, int64_t sweep) {
    const int64_t each = r->pieces * r->transport.ranks;
    for (int64_t i = (sweep + 1) * each - 1; i > sweep * each; i--)
        if (step_at(r, i).seen.count > 0) return i;
    return sweep * each;
}

static gyre_status begin_keys(key_call *c, const key_step *s, gyre_error *err) {
    gyre_ring_call *r = c->r;
    if (s->step == 0 || (s->seen.count == 0 && s->sent.count == 0)) return GYRE_OK;
    gyre_ring_enter(r, s->sweep);
    gyre_ring_pack_keys(r, s->sent.first, s->sent.count, c->m.sent);
    const gyre_exchange e = {.to = s->to,
                             .from = s->owner,
                             .send = c->m.sent,
                             .receive = c->m.block[s->at],
                             .sent = gyre_ring_block_bytes(r, s->sent.count, 0),
                             .received = gyre_ring_block_bytes(r, s->seen.count, 0)};
    return gyre_ring_begin(r, GYRE_RING_INPUTS, &e, err);
}

/* The block of the step is there: own keys are taken, those of others were begun. */
static gyre_status end_keys(key_call *c, const key_step *s, gyre_error *err) {
    gyre_ring_call *r = c->r;
    gyre_ring_enter(r, s->sweep);
    if (s->step == 0) gyre_ring_pack_keys(r, s->seen.first, s->seen.count, c->m.block[s->at]);
    return r->exchanges[GYRE_RING_INPUTS].open ? gyre_ring_wait(r, GYRE_RING_INPUTS, err) : GYRE_OK;
}

/* -- forward -- */

static void forward_args(key_call *c, const key_step *s, gyre_attention_inputs *args) {
    gyre_ring_call *r = c->r;
    gyre_ring_enter(r, s->sweep);
    gyre_ring_part(r, s->owner, &s->seen, c->m.block[s->at], args);
    gyre_ring_use_state(args, r, c->m.state);
    if (s->index == c->closing) return; /* sink logits count once, and rows are complete with the last keys */
    args->out.data = NULL;
    args->lse.data = NULL;
    args->sink_logits.data = NULL;
}

static gyre_status forward_part(key_call *c, const key_step *s, const gyre_exec *exec, gyre_error *err) {
    gyre_ring_call *r = c->r;
    gyre_attention_inputs args;
    if (begins(s)) {
        c->closing = closing_step(r, s->sweep);
        gyre_ring_enter(r, s->sweep);
        memset(c->m.state, 0, gyre_ring_state_bytes(r, r->args.q.shape[1]));
    }
    if (s->seen.count == 0 && s->index != c->closing) return GYRE_OK;
    forward_args(c, s, &args);
    return gyre_ring_compute(r, &args, NULL, exec, err);
}

/* -- gradient -- */

/* Adds gradients of this rank's keys to those of the caller. */
static void add_gradients(key_call *c, const key_step *s, const gyre_ring_range *range, char *block) {
    gyre_ring_call *r = c->r;
    gyre_ring_views views;
    gyre_ring_enter(r, s->sweep);
    gyre_ring_narrow_views(r, c->call, &views);
    for (int side = 0; side < gyre_ring_sides(r); side++) {
        const gyre_view from = gyre_ring_side(r, block, side, range->count, 1);
        const gyre_view to = side == GYRE_RING_SIDE_GATES ? r->args.dk_gate_sums : views.dqkv[1 + side];
        const int64_t *n = from.shape;
        for (int64_t b = 0; to.data && b < n[0]; b++)
            for (int64_t t = 0; t < range->count; t++)
                for (int64_t h = 0; h < n[2]; h++)
                    gyre_ring_add_row(gyre_view_at(&from, b, t, h, 0), n[3], to.stride[3], to.dtype,
                                      gyre_view_at(&to, b, range->first + t, h, 0));
    }
}

static gyre_status end_home(key_call *c, gyre_error *err) {
    if (c->home.index < 0) return GYRE_OK;
    const gyre_status status = gyre_ring_wait(c->r, GYRE_RING_RESULTS, err);
    if (!status) add_gradients(c, &c->home, &c->home.sent, c->m.home);
    c->home.index = -1;
    return status;
}

/* Gradients of the owner's keys go home, those of own keys come from the rank that they were sent to. */
static gyre_status begin_home(key_call *c, const key_step *s, gyre_error *err) {
    gyre_ring_call *r = c->r;
    if (s->step == 0) {
        add_gradients(c, s, &s->seen, c->m.mine[s->at]);
        return GYRE_OK;
    }
    gyre_ring_enter(r, s->sweep);
    const gyre_exchange e = {.to = s->owner,
                             .from = s->to,
                             .send = c->m.mine[s->at],
                             .receive = c->m.home,
                             .sent = gyre_ring_block_bytes(r, s->seen.count, 1),
                             .received = gyre_ring_block_bytes(r, s->sent.count, 1)};
    c->home = *s;
    return gyre_ring_begin(r, GYRE_RING_RESULTS, &e, err);
}

/* *args, *views = what the queries of a chunk give to the keys of the step. */
static void gradient_args(key_call *c, const key_step *s, int64_t first, gyre_attention_inputs *args,
                          gyre_ring_views *views) {
    gyre_ring_call *r = c->r;
    const gyre_ring_range chunk = {first, gyre_min_i64(r->split.queries, r->own.tokens - first)};
    gyre_ring_enter(r, s->sweep);
    gyre_ring_narrow_views(r, c->call, views);
    gyre_ring_part(r, s->owner, &s->seen, c->m.block[s->at], args);
    gyre_ring_use_gradients(r, c->m.mine[s->at], s->seen.count, views->dqkv, args);
    gyre_ring_narrow_queries(r, &chunk, args, &views->dout, &views->dqkv[0]);
    if (!begins(s)) args->sink_logits.data = NULL;
}

static gyre_status gradient_part(key_call *c, const key_step *s, const gyre_exec *exec, gyre_error *err) {
    gyre_ring_call *r = c->r;
    gyre_status status = GYRE_OK;
    if (s->seen.count == 0 && !begins(s)) return GYRE_OK;
    gyre_ring_enter(r, s->sweep);
    memset(c->m.mine[s->at], 0, gyre_ring_block_bytes(r, s->seen.count, 1));
    for (int64_t first = 0; first < r->own.tokens && !status; first += r->split.queries) {
        gyre_attention_inputs args;
        gyre_ring_views views;
        gradient_args(c, s, first, &args, &views);
        const gyre_gradient_views part = {&views.dout, views.dqkv, c->call->gradients, NULL};
        status = gyre_ring_compute(r, &args, &part, exec, err);
    }
    return status;
}

/* -- the call -- */

static void open_call(key_call *c, gyre_ring_call *r, char *scratch, const gyre_gradient_views *call) {
    *c = (key_call){.r = r, .steps = count_steps(r), .home = {.index = -1}, .call = call};
    gyre_ring_enter(r, 0);
    lay_out(r, scratch, &c->m);
}

static gyre_status check_step(key_call *c, const key_step *s, gyre_error *err) {
    gyre_attention_inputs args;
    gyre_ring_views views;
    c->closing = s->index;
    if (!c->call) {
        forward_args(c, s, &args);
        return gyre_ring_check_part(c->r, &args, NULL, err);
    }
    const int64_t chunk = c->r->split.queries, chunks = (c->r->own.tokens + chunk - 1) / chunk;
    gradient_args(c, s, chunks > 0 ? s->index % chunks * chunk : 0, &args, &views);
    const gyre_gradient_views part = {&views.dout, views.dqkv, c->call->gradients, NULL};
    return gyre_ring_check_part(c->r, &args, &part, err);
}

/* Every piece in the first sweep, and each sweep once: more would only repeat checks of the same positions. */
static gyre_status check(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, gyre_error *err) {
    key_call c;
    gyre_status status = GYRE_OK;
    open_call(&c, r, scratch, call);
    const int64_t each = r->pieces * r->transport.ranks;
    for (int64_t i = 0; i < c.steps && !status; i += i < each ? 1 : each) {
        const key_step s = step_at(r, i);
        if (s.seen.count > 0 || begins(&s)) status = check_step(&c, &s, err);
    }
    return status;
}

static void clear_gradients(const gyre_ring_call *r, const gyre_gradient_views *call) {
    gyre_ring_clear(&call->dqkv[1]);
    gyre_ring_clear(&call->dqkv[2]);
    if (r->gated) gyre_ring_clear(&r->whole.dk_gate_sums);
}

static gyre_status run(gyre_ring_call *r, char *scratch, const gyre_gradient_views *call, const gyre_exec *exec,
                       gyre_error *err) {
    key_call c;
    key_step now = {.at = 1}, next;
    open_call(&c, r, scratch, call);
    if (call) clear_gradients(r, call);
    find_step(&c, 0, &now);
    gyre_status status = begin_keys(&c, &now, err);
    for (; now.index < c.steps && !status; now = next) {
        next = now;
        status = end_keys(&c, &now, err);
        find_step(&c, now.index + 1, &next);
        if (!status && next.index < c.steps) status = begin_keys(&c, &next, err);
        if (!status) status = call ? gradient_part(&c, &now, exec, err) : forward_part(&c, &now, exec, err);
        if (!status && call) status = end_home(&c, err);
        if (!status && call) status = begin_home(&c, &now, err);
    }
    return status ? status : end_home(&c, err);
}

/* All groups of heads but the last have equal bytes. */
static int64_t bytes_sent(gyre_ring_call *r) {
    const int64_t steps = count_steps(r), each = steps / r->groups;
    size_t first = 0, last = 0;
    for (int64_t i = 0; i < steps; i = i + 1 == each && r->groups > 1 ? steps - each : i + 1) {
        const key_step s = step_at(r, i);
        size_t *bytes = i < steps - each ? &first : &last;
        *bytes += gyre_ring_block_bytes(r, s.sent.count, 0);
        if (r->gradient && s.step > 0) *bytes += gyre_ring_block_bytes(r, s.seen.count, 1);
    }
    return (int64_t)((size_t)(r->groups - 1) * first + last);
}

const gyre_ring_way gyre_ring_way_keys = {most_keys, with_state, memory, check, run, bytes_sent};
