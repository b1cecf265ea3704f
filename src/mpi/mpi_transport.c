/* mpi_transport.c: exchanges between ranks as messages of MPI that are waited for later. */
#include "core/sized.h"
#include "gyre/gyre_mpi.h"
#include "util/error.h"

#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* A message has at most MOST_MESSAGE bytes, because MPI 3 counts in int; an exchange has at most MOST_MESSAGES each way.
 * Exchanges of at most SMALL bytes go through memory of the transport, so that what the caller had on its stack is not
 * looked at after an error. */
enum { MOST_MESSAGE = 1 << 30, MOST_MESSAGES = 256, SMALL = 1 << 12, DEFAULT_TIMEOUT = 300 };

typedef struct channel {
    MPI_Request requests[2 * MOST_MESSAGES];
    MPI_Status statuses[2 * MOST_MESSAGES]; /* not looked at; gcc does not know MPICH's MPI_STATUSES_IGNORE */
    int count;                              /* requests that are not done; the first `receives` receive */
    int receives;
    int failed; /* 1: the exchange was given up, but the error is not yet reported */
    int64_t to, from;
    void *receive; /* where `received` bytes of small_in go; NULL = they are there */
    size_t received;
    char small_in[SMALL], small_out[SMALL];
} channel;

struct gyre_mpi {
    MPI_Comm comm;
    int rank, ranks;
    double timeout;
    channel channels[GYRE_TRANSPORT_CHANNELS];
    unsigned char *lost; /* [ranks]: 1 = an exchange with this rank failed, so its messages no longer match */
    int broken;          /* 1: some rank is lost, and MPI may still use the channels */
};

/* Messages between two ranks with one tag arrive in the order in which they were sent. */
static int post(gyre_mpi *mpi, channel *c, int tag, const gyre_exchange *e) {
    const int copies_in = e->received > 0 && e->received <= SMALL, copies_out = e->sent > 0 && e->sent <= SMALL;
    char *in = copies_in ? c->small_in : e->receive;
    const char *out = copies_out ? c->small_out : e->send;
    int failed = MPI_SUCCESS;
    c->receive = copies_in ? e->receive : NULL;
    c->received = e->received;
    if (copies_out) memcpy(c->small_out, e->send, e->sent);
    for (size_t at = 0; at < e->received && !failed; at += MOST_MESSAGE) {
        const size_t left = e->received - at, n = left < MOST_MESSAGE ? left : MOST_MESSAGE;
        failed = MPI_Irecv(in + at, (int)n, MPI_BYTE, (int)e->from, tag, mpi->comm, &c->requests[c->count]);
        c->count += !failed;
    }
    c->receives = c->count;
    for (size_t at = 0; at < e->sent && !failed; at += MOST_MESSAGE) {
        const size_t left = e->sent - at, n = left < MOST_MESSAGE ? left : MOST_MESSAGE;
        failed = MPI_Isend(out + at, (int)n, MPI_BYTE, (int)e->to, tag, mpi->comm, &c->requests[c->count]);
        c->count += !failed;
    }
    return failed;
}

/* Lets go of a request.  A message of which a part has arrived cannot be cancelled, and the rest may never come, so this
 * waits for a moment only: `until`. */
static void let_go(MPI_Request *request, int receives, double until) {
    MPI_Status status;
    int done = 0;
    if (receives && MPI_Cancel(request) == MPI_SUCCESS)
        while (!done && MPI_Wtime() < until) {
            if (MPI_Test(request, &done, &status) != MPI_SUCCESS) return;
            if (!done) sched_yield();
        }
    if (!done) MPI_Request_free(request);
}

/* Cancels the messages under way on all channels: an exchange that outlives its call would write into memory that the
 * caller has back. */
static gyre_status give_up(gyre_mpi *mpi) {
    const double until = MPI_Wtime() + 1;
    for (int which = 0; which < GYRE_TRANSPORT_CHANNELS; which++) {
        channel *c = &mpi->channels[which];
        if (c->count == 0) continue;
        for (int i = 0; i < c->count; i++)
            if (c->requests[i] != MPI_REQUEST_NULL) let_go(&c->requests[i], i < c->receives, until);
        c->count = 0;
        c->failed = 1;
        mpi->lost[c->to] = mpi->lost[c->from] = 1;
    }
    mpi->broken = 1;
    return GYRE_EIO;
}

static gyre_status begin(void *ctx, int which, const gyre_exchange *e) {
    const size_t most = (size_t)MOST_MESSAGE * MOST_MESSAGES;
    gyre_mpi *mpi = ctx;
    channel *c = &mpi->channels[which];
    if (mpi->lost[e->to] || mpi->lost[e->from]) return GYRE_EIO;
    if (c->count > 0 || e->sent > most || e->received > most) return GYRE_EINVAL;
    c->to = e->to;
    c->from = e->from;
    c->failed = 0;
    if (post(mpi, c, which, e) == MPI_SUCCESS) return GYRE_OK;
    (void)give_up(mpi);
    mpi->lost[e->to] = mpi->lost[e->from] = 1;
    return GYRE_EIO;
}

static gyre_status progress(void *ctx, int which, int *done) {
    gyre_mpi *mpi = ctx;
    channel *c = &mpi->channels[which];
    *done = c->count == 0;
    if (c->failed) return GYRE_EIO;
    if (*done) return GYRE_OK;
    if (MPI_Testall(c->count, c->requests, done, c->statuses) != MPI_SUCCESS) return give_up(mpi);
    if (!*done) return GYRE_OK;
    c->count = 0;
    if (c->receive) memcpy(c->receive, c->small_in, c->received);
    return GYRE_OK;
}

/* Gives the processor up between tests: ranks may be more than processors. */
static gyre_status wait_for(void *ctx, int which) {
    gyre_mpi *mpi = ctx;
    const double end = MPI_Wtime() + mpi->timeout;
    int done = 0;
    for (;;) {
        const gyre_status status = progress(mpi, which, &done);
        if (status || done) return status;
        if (MPI_Wtime() > end) return give_up(mpi);
        sched_yield();
    }
}

static gyre_status fail(gyre_mpi *mpi, gyre_error *err) {
    free(mpi->lost);
    free(mpi);
    return gyre_fail(err, GYRE_EIO, "comm: MPI cannot duplicate it (gyre_mpi_create)");
}

gyre_status gyre_mpi_create(gyre_mpi **out, const gyre_mpi_config *given, gyre_error *err) {
    gyre_mpi_config config;
    int ready = 0;
    const gyre_status status = gyre_sized_read(&config, sizeof config, given, "gyre_mpi_config", err);
    if (status) return status;
    if (!out) return gyre_fail(err, GYRE_EINVAL, "out: is NULL (gyre_mpi_create)");
    if (!(config.timeout >= 0)) return gyre_fail(err, GYRE_EINVAL, "timeout: %g seconds (gyre_mpi_create)", config.timeout);
    if (MPI_Initialized(&ready) != MPI_SUCCESS || !ready)
        return gyre_fail(err, GYRE_EINVAL, "MPI: MPI_Init was not called (gyre_mpi_create)");
    gyre_mpi *mpi = calloc(1, sizeof *mpi);
    if (!mpi) return gyre_fail(err, GYRE_ENOMEM, "memory: %zu bytes (gyre_mpi_create)", sizeof *mpi);
    MPI_Comm comm = MPI_COMM_WORLD;
    if (config.comm) comm = *(MPI_Comm const *)config.comm;
    mpi->timeout = config.timeout > 0 ? config.timeout : DEFAULT_TIMEOUT;
    if (MPI_Comm_dup(comm, &mpi->comm) != MPI_SUCCESS) return fail(mpi, err);
    if (MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN) || MPI_Comm_rank(mpi->comm, &mpi->rank) ||
        MPI_Comm_size(mpi->comm, &mpi->ranks)) {
        MPI_Comm_free(&mpi->comm);
        return fail(mpi, err);
    }
    mpi->lost = calloc((size_t)mpi->ranks, 1);
    if (!mpi->lost) {
        const int ranks = mpi->ranks;
        gyre_mpi_free(mpi);
        return gyre_fail(err, GYRE_ENOMEM, "memory: %d bytes (gyre_mpi_create)", ranks);
    }
    *out = mpi;
    return GYRE_OK;
}

void gyre_mpi_free(gyre_mpi *mpi) {
    if (!mpi) return;
    MPI_Comm_free(&mpi->comm);
    free(mpi->lost);
    if (!mpi->broken) free(mpi); /* MPI may still send from it, or receive into it */
}

gyre_transport gyre_mpi_transport(gyre_mpi *mpi) {
    gyre_transport out = GYRE_INIT(gyre_transport);
    out.rank = mpi->rank;
    out.ranks = mpi->ranks;
    out.ctx = mpi;
    out.begin = begin;
    out.wait = wait_for;
    out.progress = progress;
    out.timeout = mpi->timeout;
    return out;
}
