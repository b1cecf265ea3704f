/* mpi_transport.c: exchanges between ranks as messages of MPI that are waited for later. */
#include "core/sized.h"
#include "gyre/gyre_mpi.h"
#include "util/error.h"

#include <mpi.h>
#include <sched.h>
#include <stdlib.h>

/* A message has at most MOST_MESSAGE bytes, because MPI 3 counts in int; an exchange has at most MOST_MESSAGES each way. */
enum { MOST_MESSAGE = 1 << 30, MOST_MESSAGES = 256, DEFAULT_TIMEOUT = 300 };

typedef struct channel {
    MPI_Request requests[2 * MOST_MESSAGES];
    MPI_Status statuses[2 * MOST_MESSAGES]; /* not looked at; gcc does not know MPICH's MPI_STATUSES_IGNORE */
    int count;                              /* requests that are not done; the first `receives` receive */
    int receives;
    int64_t to, from;
} channel;

struct gyre_mpi {
    MPI_Comm comm;
    int rank, ranks;
    double timeout;
    channel channels[GYRE_TRANSPORT_CHANNELS];
    unsigned char *lost; /* [ranks]: 1 = an exchange with this rank failed, so its messages no longer match */
};

/* Messages between two ranks with one tag arrive in the order in which they were sent. */
static int post(gyre_mpi *mpi, channel *c, int tag, const gyre_exchange *e) {
    int failed = MPI_SUCCESS;
    for (size_t at = 0; at < e->received && !failed; at += MOST_MESSAGE) {
        const size_t left = e->received - at, n = left < MOST_MESSAGE ? left : MOST_MESSAGE;
        failed = MPI_Irecv((char *)e->receive + at, (int)n, MPI_BYTE, (int)e->from, tag, mpi->comm, &c->requests[c->count]);
        c->count += !failed;
    }
    c->receives = c->count;
    for (size_t at = 0; at < e->sent && !failed; at += MOST_MESSAGE) {
        const size_t left = e->sent - at, n = left < MOST_MESSAGE ? left : MOST_MESSAGE;
        failed = MPI_Isend((const char *)e->send + at, (int)n, MPI_BYTE, (int)e->to, tag, mpi->comm, &c->requests[c->count]);
        c->count += !failed;
    }
    return failed;
}

static gyre_status begin(void *ctx, int which, const gyre_exchange *e) {
    const size_t most = (size_t)MOST_MESSAGE * MOST_MESSAGES;
    gyre_mpi *mpi = ctx;
    channel *c = &mpi->channels[which];
    if (c->count > 0 || e->sent > most || e->received > most) return GYRE_EINVAL;
    if (mpi->lost[e->to] || mpi->lost[e->from]) return GYRE_EIO;
    c->to = e->to;
    c->from = e->from;
    return post(mpi, c, which, e) == MPI_SUCCESS ? GYRE_OK : GYRE_EIO;
}

/* Nothing is received into the caller's memory any more.  What is being sent may still be read. */
static gyre_status give_up(gyre_mpi *mpi, channel *c) {
    for (int i = 0; i < c->count; i++) {
        if (c->requests[i] == MPI_REQUEST_NULL) continue;
        if (i < c->receives && MPI_Cancel(&c->requests[i]) == MPI_SUCCESS)
            MPI_Wait(&c->requests[i], &c->statuses[i]);
        else
            MPI_Request_free(&c->requests[i]);
    }
    c->count = 0;
    mpi->lost[c->to] = mpi->lost[c->from] = 1;
    return GYRE_EIO;
}

static gyre_status progress(void *ctx, int which, int *done) {
    gyre_mpi *mpi = ctx;
    channel *c = &mpi->channels[which];
    *done = c->count == 0;
    if (*done) return GYRE_OK;
    if (MPI_Testall(c->count, c->requests, done, c->statuses) != MPI_SUCCESS) return give_up(mpi, c);
    if (*done) c->count = 0;
    return GYRE_OK;
}

/* Gives the processor up between tests: ranks may be more than processors. */
static gyre_status wait_for(void *ctx, int which) {
    gyre_mpi *mpi = ctx;
    channel *c = &mpi->channels[which];
    const double end = MPI_Wtime() + mpi->timeout;
    int done = 0;
    for (;;) {
        const gyre_status status = progress(mpi, which, &done);
        if (status || done) return status;
        if (MPI_Wtime() > end) return give_up(mpi, c);
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
    free(mpi);
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
