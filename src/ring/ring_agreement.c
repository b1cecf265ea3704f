/* ring_agreement.c: ranks compare their arguments before any data is sent.
 *
 * All ranks greet rank 0, which compares and sends the result to all.  So rank 0 names a rank that does not answer.  A
 * rank that cannot continue takes part too, so no rank waits for it.  A greeting has one size in all versions, and its
 * first numbers keep their places. */
#include "core/view.h"
#include "ring/ring_call.h"
#include "util/error.h"
#include "util/plain_numbers.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct greeting {
    uint64_t magic, version;
    int64_t status; /* 0, or what went wrong, as text says */
    int64_t rank, count;
    char text[504];
    uint64_t values[GYRE_RING_MOST_FIELDS];
} greeting;

static const uint64_t magic = 0x4759524552494E47U; /* GYRERING */
static const uint64_t version = (uint64_t)GYRE_VERSION_MAJOR << 32 | GYRE_VERSION_MINOR << 16 | GYRE_VERSION_PATCH;

static void say(greeting *own, gyre_status status, const char *text) {
    own->status = (int64_t)status;
    snprintf(own->text, sizeof own->text, "%s", text);
}

/* -- comparing -- */

static void say_differ(greeting *own, const gyre_ring_fields *fields, int i, const greeting *other, const char *name) {
    char text[504];
    const uint64_t a = other->values[i], b = own->values[i];
    double x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    const gyre_locale locale = gyre_plain_numbers_begin();
    if (fields->kinds[i] == 'i')
        snprintf(text, sizeof text, "%s: %" PRId64 " on rank %" PRId64 ", but %" PRId64 " on rank %" PRId64 " (%s)",
                 fields->names[i], (int64_t)a, other->rank, (int64_t)b, own->rank, name);
    else if (fields->kinds[i] == 'd')
        snprintf(text, sizeof text, "%s: %.17g on rank %" PRId64 ", but %.17g on rank %" PRId64 " (%s)", fields->names[i], x,
                 other->rank, y, own->rank, name);
    else
        snprintf(text, sizeof text, "%s: rank %" PRId64 " and rank %" PRId64 " have different ones (%s)", fields->names[i],
                 other->rank, own->rank, name);
    gyre_plain_numbers_end(locale);
    say(own, GYRE_EINVAL, text);
}

static void say_version(greeting *own, const greeting *other, const char *name) {
    char text[504];
    snprintf(text, sizeof text,
             "version: Gyre %d.%d.%d on rank %" PRId64 ", but %d.%d.%d on rank %" PRId64 "; all ranks need one build (%s)",
             (int)(other->version >> 32), (int)(other->version >> 16 & 0xFFFF), (int)(other->version & 0xFFFF), other->rank,
             (int)(own->version >> 32), (int)(own->version >> 16 & 0xFFFF), (int)(own->version & 0xFFFF), own->rank, name);
    say(own, GYRE_EINVAL, text);
}

static void say_no_greeting(greeting *own) {
    say(own, GYRE_EINVAL, "transport: the first message was not a greeting of Gyre");
}

/* What arrives may be any bytes: the status becomes one that gyre.h names, the text ends. */
static void say_as(greeting *own, const greeting *other) {
    const int known = other->status >= GYRE_ERANGE && other->status < GYRE_OK;
    own->status = known ? other->status : GYRE_EINVAL;
    memcpy(own->text, other->text, sizeof own->text);
    own->text[sizeof own->text - 1] = 0;
    if (!own->text[0]) say(own, (gyre_status)own->status, "another rank cannot continue and sent no reason");
}

/* The first thing that is wrong stays. */
static void compare(greeting *own, const gyre_ring_fields *fields, const greeting *other, const char *name) {
    if (own->status) return;
    if (other->magic != own->magic) {
        say_no_greeting(own);
    } else if (other->version != own->version) {
        say_version(own, other, name);
    } else if (other->status) {
        say_as(own, other);
    } else {
        for (int i = 0; i < fields->count && !own->status; i++)
            if (own->values[i] != other->values[i]) say_differ(own, fields, i, other, name);
    }
}

/* -- messages -- */

static gyre_status fail_wait(const gyre_ring_call *r, int64_t peer, double begun, gyre_status status, gyre_error *err) {
    return gyre_fail(err, status, "transport: rank %" PRId64 " waited %.1f s for rank %" PRId64 " to begin: %s (%s)",
                     r->transport.rank, gyre_ring_seconds() - begun, peer, gyre_status_text(status), r->name);
}

/* One greeting from this rank to `peer` (sends 1), or the other way. */
static gyre_status exchange(gyre_ring_call *r, int64_t peer, int sends, greeting *g, gyre_error *err) {
    const gyre_exchange e = {.to = peer,
                             .from = peer,
                             .send = sends ? g : NULL,
                             .receive = sends ? NULL : g,
                             .sent = sends ? sizeof *g : 0,
                             .received = sends ? 0 : sizeof *g};
    const double begun = gyre_ring_seconds();
    gyre_status status = r->transport.begin(r->transport.ctx, GYRE_RING_INPUTS, &e);
    if (!status) status = r->transport.wait(r->transport.ctx, GYRE_RING_INPUTS);
    return status ? fail_wait(r, peer, begun, status, err) : GYRE_OK;
}

/* A rank that does not answer is named to the others too. */
static void compare_all(gyre_ring_call *r, const gyre_ring_fields *fields, greeting *own) {
    greeting other;
    gyre_error error;
    for (int64_t rank = 1; rank < r->transport.ranks; rank++) {
        const gyre_status failed = exchange(r, rank, 0, &other, &error);
        if (!failed) compare(own, fields, &other, r->name);
        if (failed && !own->status) say(own, failed, error.text);
    }
    for (int64_t rank = 1; rank < r->transport.ranks; rank++)
        if (exchange(r, rank, 1, own, &error) && !own->status) say(own, GYRE_EIO, error.text);
}

/* What rank 0 found.  It may be waiting for another rank: that one has its time, and then this rank's begins. */
static gyre_status hear(gyre_ring_call *r, greeting *own, gyre_error *err) {
    greeting found;
    const gyre_exchange e = {.to = 0, .from = 0, .receive = &found, .received = sizeof found};
    const double begun = gyre_ring_seconds(), patience = r->transport.timeout;
    const struct timespec nap = {0, 200000};
    int done = 0;
    gyre_status status = r->transport.begin(r->transport.ctx, GYRE_RING_INPUTS, &e);
    for (int i = 0; !status && !done && r->transport.progress && patience > gyre_ring_seconds() - begun; i++) {
        status = r->transport.progress(r->transport.ctx, GYRE_RING_INPUTS, &done);
        if (i > 1000 && !done) nanosleep(&nap, NULL);
    }
    if (!status) status = r->transport.wait(r->transport.ctx, GYRE_RING_INPUTS);
    if (status) return fail_wait(r, 0, begun, status, err);
    if (found.magic != own->magic)
        say_no_greeting(own);
    else if (found.status)
        say_as(own, &found);
    else if (found.version != own->version)
        say_version(own, &found, r->name);
    return GYRE_OK;
}

static gyre_status hear_and_tell(gyre_ring_call *r, const gyre_ring_fields *fields, greeting *own, gyre_error *err) {
    if (r->transport.rank == 0) {
        compare_all(r, fields, own);
        return GYRE_OK;
    }
    const gyre_status status = exchange(r, 0, 1, own, err);
    return status ? status : hear(r, own, err);
}

gyre_status gyre_ring_agree(gyre_ring_call *r, const gyre_ring_fields *fields, gyre_status status, gyre_error *err) {
    if (!r->can_talk || r->transport.ranks == 1 || r->agreed) return status;
    const double begun = gyre_ring_seconds();
    greeting own = {.magic = magic, .version = version, .rank = r->transport.rank, .count = fields->count};
    memcpy(own.values, fields->values, sizeof own.values);
    if (status) {
        char text[504];
        gyre_plain_snprintf(text, sizeof text, "rank %" PRId64 ": %.450s", r->transport.rank,
                            err ? err->text : gyre_status_text(status));
        say(&own, status, text);
    }
    const gyre_status failed = hear_and_tell(r, fields, &own, err);
    r->timeline.agreeing += gyre_ring_seconds() - begun;
    if (failed) return failed;
    if (!own.status) return GYRE_OK;
    own.text[sizeof own.text - 1] = 0;
    return gyre_fail(err, (gyre_status)own.status, "%s", own.text);
}
