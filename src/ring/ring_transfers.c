/* ring_transfers.c: exchanges that go on while parts are computed, and where the time went. */
#include "core/exec.h"
#include "core/sized.h"
#include "core/view.h"
#include "ring/ring_call.h"
#include "util/error.h"

#include <string.h>
#include <time.h>
#if GYRE_HAS_THREADS
#include <pthread.h>
#endif

/* -- time -- */

double gyre_ring_seconds(void) {
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void gyre_ring_stop_clock(gyre_ring_call *r) {
    gyre_ring_timeline *t = &r->timeline;
    if (!r->given_timeline) return;
    t->size = sizeof *t;
    t->seconds = gyre_ring_seconds() - r->began;
    t->hidden = t->in_flight > 0 ? 1 - t->waiting / t->in_flight : 1;
    gyre_sized_write(r->given_timeline, t);
}

/* -- exchanges -- */

static gyre_status fail_exchange(const gyre_ring_call *r, gyre_ring_channel channel, gyre_status status, gyre_error *err) {
    const gyre_ring_open_exchange *x = &r->exchanges[channel];
    return gyre_fail(err, status,
                     "transport: rank %" PRId64 " sends %zu bytes to rank %" PRId64 " and receives %zu from rank %" PRId64
                     ", which failed after %.1f s: %s (%s)",
                     r->transport.rank, x->exchange.sent, x->exchange.to, x->exchange.received, x->exchange.from,
                     gyre_ring_seconds() - x->begun, gyre_status_text(status), r->name);
}

gyre_status gyre_ring_begin(gyre_ring_call *r, gyre_ring_channel channel, const gyre_exchange *exchange, gyre_error *err) {
    gyre_ring_open_exchange *x = &r->exchanges[channel];
    *x = (gyre_ring_open_exchange){*exchange, 1, 0, gyre_ring_seconds()};
    const gyre_status status = r->transport.begin(r->transport.ctx, (int)channel, exchange);
    r->timeline.moving += gyre_ring_seconds() - x->begun;
    r->timeline.exchanges++;
    r->timeline.sent += (int64_t)exchange->sent;
    r->timeline.received += (int64_t)exchange->received;
    return status ? fail_exchange(r, channel, status, err) : GYRE_OK;
}

static void see_done(gyre_ring_call *r, gyre_ring_open_exchange *x, double now) {
    if (!x->done) r->timeline.in_flight += now - x->begun;
    x->done = 1;
}

gyre_status gyre_ring_wait(gyre_ring_call *r, gyre_ring_channel channel, gyre_error *err) {
    gyre_ring_open_exchange *x = &r->exchanges[channel];
    const double begun = gyre_ring_seconds();
    const gyre_status status = r->transport.wait(r->transport.ctx, (int)channel);
    const double now = gyre_ring_seconds();
    if (!x->done) r->timeline.waiting += now - begun;
    see_done(r, x, now);
    if (status) return fail_exchange(r, channel, status, err);
    x->open = 0;
    return GYRE_OK;
}

gyre_status gyre_ring_poll(gyre_ring_call *r, gyre_ring_channel channel, int *done, gyre_error *err) {
    gyre_ring_open_exchange *x = &r->exchanges[channel];
    *done = !x->open || x->done;
    if (*done || !r->transport.progress) return GYRE_OK;
    const gyre_status status = r->transport.progress(r->transport.ctx, (int)channel, done);
    if (status) return fail_exchange(r, channel, status, err);
    if (*done) see_done(r, x, gyre_ring_seconds());
    return GYRE_OK;
}

/* -- exchanges move on while parts are computed -- */

/* A call into the transport takes some microseconds, as does a tile. */
static const double poll_every = 50e-6;

typedef struct mover {
    gyre_ring_call *r;
    double last; /* poll, seconds */
#if GYRE_HAS_THREADS
    pthread_t caller;
#endif
} mover;

static void move_on(void *ctx) {
    mover *m = ctx;
    gyre_ring_call *r = m->r;
#if GYRE_HAS_THREADS
    if (!pthread_equal(m->caller, pthread_self())) return; /* the transport has one thread */
#endif
    const double begun = gyre_ring_seconds();
    if (begun - m->last < poll_every) return;
    for (int c = 0; c < GYRE_TRANSPORT_CHANNELS && !r->failed; c++) {
        int done;
        if (r->exchanges[c].open && !r->exchanges[c].done)
            r->failed = gyre_ring_poll(r, (gyre_ring_channel)c, &done, &r->failure);
    }
    if (r->advance && !r->failed) r->failed = r->advance(r, &r->failure);
    m->last = gyre_ring_seconds();
    r->polling += m->last - begun;
}

gyre_status gyre_ring_check_part(const gyre_ring_call *r, const gyre_attention_inputs *args,
                                 const gyre_gradient_views *gradient, gyre_error *err) {
    const gyre_attention_request request = {r->name, args, NULL, gradient, r->head_first, r->whole.q.shape[2], NULL};
    size_t needed = 0;
    gyre_status status = gyre_attention_check(&request, err);
    if (status || gyre_attention_is_empty(&request)) return status;
    /* Found now, all ranks learn of it.  Found later, they would wait. */
    status = gyre_attention_request_bytes(&request, r->exec, &needed, err);
    if (status || needed <= r->part_bytes) return status;
    return gyre_fail(err, GYRE_ENOMEM, "scratch: a part needs %zu bytes of the %zu of a part (%s)", needed, r->part_bytes,
                     r->name);
}

gyre_status gyre_ring_compute(gyre_ring_call *r, const gyre_attention_inputs *args, const gyre_gradient_views *gradient,
                              const gyre_exec *exec, gyre_error *err) {
    mover m = {.r = r};
#if GYRE_HAS_THREADS
    m.caller = pthread_self();
#endif
    const gyre_between_tiles between = {move_on, &m};
    const double begun = gyre_ring_seconds();
    r->polling = 0;
    gyre_attention_inputs own = *args;
    const int64_t *q = own.q.shape;
    if (!own.out.data) own.out = (gyre_view){.shape = {q[0], q[1], q[2], own.v.shape[3]}}; /* rows stay in the state */
    const gyre_attention_request request = {r->name, &own, NULL, gradient, r->head_first, r->whole.q.shape[2], &between};
    const gyre_status status = gyre_attention_perform(&request, (gyre_scratch){r->part, r->part_bytes}, exec, err);
    r->timeline.computing += gyre_ring_seconds() - begun - r->polling;
    r->timeline.moving += r->polling;
    if (status || !r->failed) return status;
    if (err) *err = r->failure;
    return r->failed;
}
