/* torn_message.c: rank 1 stops itself in the middle of a large message, and rank 0 must not wait for its end.  ci/mpi runs
 * it on two ranks, over TCP, where a message arrives in pieces.
 *   torn_message MEGABYTES   rank 0 prints what its wait came to, and ends with 0 if that is an error in time */
#include "gyre/gyre_mpi.h"

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TIMEOUT = 2, PATIENCE = 10 };

static void nap(long milliseconds) {
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

/* Sends a little of it, and stops.  Its child lets it go on, long after rank 0 has to be done. */
static void send_some(const gyre_transport *t, char *bytes, size_t n) {
    const gyre_exchange e = {.to = 0, .from = 0, .send = bytes, .sent = n};
    int done = 0;
    if (t->begin(t->ctx, 0, &e)) _exit(3);
    for (int i = 0; i < 2 && !done; i++) {
        if (t->progress(t->ctx, 0, &done)) _exit(3);
        nap(1);
    }
    if (fork() == 0) {
        nap(3000 * PATIENCE);
        kill(getppid(), SIGKILL);
        _exit(0);
    }
    raise(SIGSTOP);
    _exit(1);
}

static int receive(const gyre_transport *t, char *bytes, size_t n) {
    const gyre_exchange e = {.to = 1, .from = 1, .receive = bytes, .received = n};
    const gyre_exchange next = {.to = 1, .from = 1, .send = bytes, .sent = 1};
    const double begun = MPI_Wtime();
    if (t->begin(t->ctx, 0, &e)) return 3;
    const gyre_status status = t->wait(t->ctx, 0), other = t->begin(t->ctx, 1, &next);
    const double waited = MPI_Wtime() - begun;
    printf("rank 0: %s after %.1f s; the next exchange: %s\n", gyre_status_text(status), waited, gyre_status_text(other));
    fflush(stdout);
    return status == GYRE_EIO && other == GYRE_EIO && waited < PATIENCE ? 0 : 1;
}

int main(int argc, char **argv) {
    int provided;
    gyre_mpi *mpi;
    gyre_error err = {0, ""};
    gyre_mpi_config config = GYRE_INIT(gyre_mpi_config);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    if (argc != 2) return 2;
    config.timeout = TIMEOUT;
    if (gyre_mpi_create(&mpi, &config, &err)) return 2;
    const gyre_transport t = gyre_mpi_transport(mpi);
    const size_t n = strtoul(argv[1], NULL, 10) << 20;
    char *bytes = malloc(n);
    if (!bytes) return 2;
    memset(bytes, (int)t.rank, n);
    MPI_Barrier(MPI_COMM_WORLD);
    if (t.rank == 1) send_some(&t, bytes, n);
    const int failed = receive(&t, bytes, n);
    _exit(failed); /* MPI_Finalize would wait for the rank that is silent */
}
