/* torn_message.c: rank 1 stops itself in the middle of a large message, and rank 0 must not wait for its end.
 * ci/run mpi runs it on two ranks, over TCP, where a message arrives in pieces.
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

static void go_on_a_little(const gyre_transport *t, gyre_status begun) {
    int done = 0;
    for (int i = 0; i < 20 && !begun && !done; i++) {
        begun = t->progress(t->ctx, 0, &done);
        nap(1);
    }
    if (!begun && !done) return;
    fprintf(stderr, "rank %d: %s\n", (int)t->rank, begun ? gyre_status_text(begun) : "the message has arrived whole");
    _exit(3);
}

/* Offers the message, and stops; sends what fits between the two ranks, and stops for good.  Its child ends it long after
 * rank 0 has to be done. */
static void send_some(const gyre_transport *t, char *bytes, size_t n) {
    const gyre_exchange e = {.to = 0, .from = 0, .send = bytes, .sent = n};
    if (fork() == 0) {
        nap(3000 * PATIENCE);
        kill(getppid(), SIGKILL);
        _exit(0);
    }
    go_on_a_little(t, t->begin(t->ctx, 0, &e));
    raise(SIGSTOP);
    go_on_a_little(t, GYRE_OK);
    raise(SIGSTOP);
    _exit(1);
}

/* out = the letter that Linux has for the state of a process; T = stopped. */
static int state_of(int process) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 0;
    fclose(file);
    return state;
}

static void wait_until_stopped(int process) {
    for (int i = 0; i < 1000 * PATIENCE; i++) {
        if (state_of(process) == 'T') return;
        nap(1);
    }
    fprintf(stderr, "rank 0: rank 1 does not stop\n");
    _exit(3);
}

/* The ranks go on in turn: where both do, a message of any size can pass between two looks at it. */
static int receive(const gyre_transport *t, char *bytes, size_t n, int sender) {
    const gyre_exchange e = {.to = 1, .from = 1, .receive = bytes, .received = n};
    const gyre_exchange next = {.to = 1, .from = 1, .send = bytes, .sent = 1};
    wait_until_stopped(sender);
    go_on_a_little(t, t->begin(t->ctx, 0, &e));
    kill(sender, SIGCONT);
    wait_until_stopped(sender);
    const double begun = MPI_Wtime();
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
    int sender = (int)getpid();
    MPI_Bcast(&sender, 1, MPI_INT, 1, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (t.rank == 1) send_some(&t, bytes, n);
    const int failed = receive(&t, bytes, n, sender);
    _exit(failed); /* MPI_Finalize would wait for the rank that is silent */
}
