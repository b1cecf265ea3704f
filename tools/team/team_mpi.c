/* team_mpi.c: the ranks of a team talk over MPI 3.
 *
 * A thread of each rank says every second that the process is there.  If a rank is not heard of for GYRE_RANK_TIMEOUT
 * seconds (default: 60), rank 0 names it and ends all. */
#include "tools/cli/cli.h"
#include "tools/team/team_link.h"
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    TAG_REPORT = 1,
    TAG_ANSWER,
    TAG_SUM,
    TAG_HERE,
    TAG_LAST,
    MOST_BYTES = 1 << 30,
    SUM_CHUNK = 1 << 16,
    DEFAULT_TIMEOUT = 60
};

static struct {
    MPI_Comm work, watch;
    int rank, ranks;
    MPI_Request *requests; /* [ranks] */
    char (*hosts)[TEAM_HOST];
    /* of the thread that watches */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stop;
    int watches, stops;
    double timeout, *heard; /* heard[rank]: when */
} mpi;

/* -- waiting -- */
static double now(void) {
    return cli_seconds();
}

static void sleep_for(long nanoseconds) {
    (void)nanosleep(&(struct timespec){.tv_nsec = nanoseconds}, NULL);
}

/* Gives the processor up between tests: ranks may be more than processors, and may wait for hours.  seconds 0: no limit.
 * out = 0, or -1 if time ran out or MPI failed. */
static int wait_for(int count, MPI_Request *requests, double seconds) {
    const double begun = now();
    for (int left = count;;) {
        for (int done = 1; left > 0 && done; left -= done) /* not MPI_Testall: gcc refuses MPICH's MPI_STATUSES_IGNORE */
            if (MPI_Test(&requests[left - 1], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return -1;
        if (left == 0) return 0;
        const double waited = now() - begun;
        if (seconds > 0 && waited > seconds) return -1;
        sleep_for(waited < 0.002 ? 1000 : waited < 0.1 ? 50000 : 1000000);
    }
}

/* Ends all ranks.  MPI_Abort of MPICH may wait for a rank that is stopped; the launcher ends the others when this process
 * dies. */
static void end_all(int status) {
    enum { GRACE = 5 };
    cli_output_remove_in_handler();
    (void)signal(SIGALRM, SIG_DFL);
    (void)alarm(GRACE);
    (void)MPI_Abort(mpi.work, status);
}

/* -- which ranks answer -- */
static void announce(void) {
    static char here = 1;
    const int first = mpi.rank ? 0 : 1, end = mpi.rank ? 1 : mpi.ranks;
    for (int r = first; r < end; r++) {
        int done = 1;
        /* One that was not taken yet is enough. */
        if (mpi.requests[mpi.ranks + r] != MPI_REQUEST_NULL)
            (void)MPI_Test(&mpi.requests[mpi.ranks + r], &done, MPI_STATUS_IGNORE);
        if (done) (void)MPI_Isend(&here, 1, MPI_CHAR, r, TAG_HERE, mpi.watch, &mpi.requests[mpi.ranks + r]);
    }
}

static void listen(void) {
    char here;
    for (int found = 1; found;) {
        MPI_Status from;
        if (MPI_Iprobe(MPI_ANY_SOURCE, TAG_HERE, mpi.watch, &found, &from) != MPI_SUCCESS || !found) return;
        if (MPI_Recv(&here, 1, MPI_CHAR, from.MPI_SOURCE, TAG_HERE, mpi.watch, MPI_STATUS_IGNORE) == MPI_SUCCESS)
            mpi.heard[from.MPI_SOURCE] = now();
    }
}

/* Rank 0 names the missing rank.  Another rank ends later by itself, if it is rank 0 that does not answer. */
static void judge(void) {
    const int first = mpi.rank ? 0 : 1, end = mpi.rank ? 1 : mpi.ranks;
    for (int r = first; r < end; r++) {
        if (now() - mpi.heard[r] < mpi.timeout * (mpi.rank ? 2 : 1)) continue;
        (void)cli_fail("rank %d (%s): has not been heard of for %.0f seconds; ending all (mpirun)", r, mpi.hosts[r],
                       mpi.timeout);
        end_all(CLI_FAILED);
    }
}

static void *watch(void *unused) {
    (void)pthread_mutex_lock(&mpi.lock);
    double before = now();
    while (!mpi.stops) {
        struct timespec at;
        (void)clock_gettime(CLOCK_REALTIME, &at);
        at.tv_sec++;
        (void)pthread_cond_timedwait(&mpi.stop, &mpi.lock, &at);
        announce();
        listen();
        /* If this process itself was stopped, the others get their full time again. */
        if (now() - before > 3)
            for (int r = 0; r < mpi.ranks; r++)
                mpi.heard[r] = now();
        before = now();
        judge();
    }
    (void)pthread_mutex_unlock(&mpi.lock);
    return unused;
}

static void read_timeout(void) {
    const char *text = getenv("GYRE_RANK_TIMEOUT");
    mpi.timeout = text && *text ? cli_number("GYRE_RANK_TIMEOUT", text, 2, 1e6) : DEFAULT_TIMEOUT;
}

static void begin_watch(void) {
    for (int r = 0; r < mpi.ranks; r++)
        mpi.heard[r] = now();
    (void)pthread_mutex_init(&mpi.lock, NULL);
    (void)pthread_cond_init(&mpi.stop, NULL);
    mpi.watches = pthread_create(&mpi.thread, NULL, watch, NULL) == 0;
}

static void end_watch(void) {
    if (!mpi.watches) return;
    (void)pthread_mutex_lock(&mpi.lock);
    mpi.stops = 1;
    (void)pthread_cond_signal(&mpi.stop);
    (void)pthread_mutex_unlock(&mpi.lock);
    (void)pthread_join(mpi.thread, NULL);
    mpi.watches = 0;
}

/* Nobody watches any more. */
static void abandon(int r) {
    (void)cli_fail("rank %d (%s): has not ended within %.0f seconds; ending all (mpirun)", r, mpi.hosts[r], mpi.timeout);
    end_all(CLI_FAILED);
}

/* Takes all that was sent to this rank and was not listened to: some transports print what is left at the end.  Messages of
 * a rank come in order, so the last one is the last. */
static void take_leave(void) {
    static const char last = 0;
    const double patience = mpi.timeout * (mpi.rank ? 2 : 1);
    const int first = mpi.rank ? 0 : 1, end = mpi.rank ? 1 : mpi.ranks;
    int failed = 0;
    for (int r = first; r < end && !failed; r++)
        failed = MPI_Isend(&last, 1, MPI_CHAR, r, TAG_LAST, mpi.watch, &mpi.requests[r]) != MPI_SUCCESS;
    for (int r = first; r < end; r++)
        for (char told = 1; told && !failed;) {
            MPI_Request request;
            failed = MPI_Irecv(&told, 1, MPI_CHAR, r, MPI_ANY_TAG, mpi.watch, &request) != MPI_SUCCESS;
            if (!failed) failed = wait_for(1, &request, patience) != 0;
            if (failed) abandon(r);
        }
    if (!failed && wait_for(2 * mpi.ranks, mpi.requests, patience)) abandon(first);
}

/* -- begin and end -- */
static int learn_hosts(void) {
    char name[MPI_MAX_PROCESSOR_NAME] = "", own[TEAM_HOST];
    int length = 0;
    (void)MPI_Get_processor_name(name, &length);
    snprintf(own, sizeof own, "%.*s", TEAM_HOST - 1, name);
    return MPI_Allgather(own, TEAM_HOST, MPI_CHAR, mpi.hosts, TEAM_HOST, MPI_CHAR, mpi.work) == MPI_SUCCESS ? 0 : -1;
}

static int open_comms(void) {
    if (MPI_Comm_dup(MPI_COMM_WORLD, &mpi.work) || MPI_Comm_dup(MPI_COMM_WORLD, &mpi.watch)) return -1;
    if (MPI_Comm_set_errhandler(mpi.work, MPI_ERRORS_RETURN) || MPI_Comm_set_errhandler(mpi.watch, MPI_ERRORS_RETURN))
        return -1;
    mpi.hosts = calloc((size_t)mpi.ranks, sizeof *mpi.hosts);
    mpi.heard = calloc((size_t)mpi.ranks, sizeof *mpi.heard);
    mpi.requests = malloc(2 * (size_t)mpi.ranks * sizeof(MPI_Request)); /* of reports; of "here" */
    for (int i = 0; mpi.requests && i < 2 * mpi.ranks; i++)
        mpi.requests[i] = MPI_REQUEST_NULL;
    return mpi.hosts && mpi.heard && mpi.requests ? learn_hosts() : -1;
}

int team_link_open(team_link *link, gyre_error *err) {
    int provided = MPI_THREAD_SINGLE;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) {
        (void)gyre_fail(err, GYRE_EIO, "MPI: does not start (mpirun)");
        return -1;
    }
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &mpi.rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &mpi.ranks);
    if (mpi.ranks < 2) {
        (void)gyre_fail(err, GYRE_EINVAL,
                        "MPI: counts one rank where several were started; mpirun is of another MPI than "
                        "the one that gyre was built with (mpirun)");
        (void)MPI_Finalize();
        return -1;
    }
    if (mpi.rank) cli_silence();
    if (open_comms()) {
        (void)gyre_fail(err, GYRE_EIO, "MPI: the ranks do not find each other, or memory ran out (mpirun)");
        (void)MPI_Abort(MPI_COMM_WORLD, CLI_FAILED);
    }
    read_timeout();
    if (provided == MPI_THREAD_MULTIPLE) begin_watch();
    *link = (team_link){mpi.rank, mpi.ranks, mpi.hosts};
    return 0;
}

/* MPI_Abort ends the processes that do not answer too. */
void team_link_close(int abort_status) {
    if (abort_status) end_all(abort_status);
    end_watch();
    take_leave();
    (void)MPI_Finalize();
    free(mpi.requests);
    free(mpi.heard);
    free(mpi.hosts);
}

/* -- reports -- */
int team_link_collect(team_report *reports, const unsigned char *waits, double seconds) {
    for (int r = 1; r < mpi.ranks; r++)
        if (waits[r] && MPI_Irecv(&reports[r], sizeof *reports, MPI_BYTE, r, TAG_REPORT, mpi.work, &mpi.requests[r]))
            return -1;
    return wait_for(mpi.ranks, mpi.requests, seconds);
}

void team_link_answer(const team_report *answer, const unsigned char *waits) {
    for (int r = 1; r < mpi.ranks; r++)
        if (waits[r]) (void)MPI_Isend(answer, sizeof *answer, MPI_BYTE, r, TAG_ANSWER, mpi.work, &mpi.requests[r]);
    (void)wait_for(mpi.ranks, mpi.requests, 0);
}

void team_link_report(team_report *report) {
    MPI_Request both[2];
    team_report answer;
    (void)MPI_Irecv(&answer, sizeof answer, MPI_BYTE, 0, TAG_ANSWER, mpi.work, &both[0]);
    (void)MPI_Isend(report, sizeof *report, MPI_BYTE, 0, TAG_REPORT, mpi.work, &both[1]);
    (void)wait_for(2, both, 0);
    *report = answer;
}

/* -- data -- */
static int first_of(int rank, int64_t count) {
    return (int)((rank * count + mpi.ranks - 1) / mpi.ranks);
}

/* Items of `bytes` bytes that are `stride` apart, at `items`. */
static int gather_part(char *items, int64_t count, size_t bytes, size_t stride) {
    MPI_Datatype part, item;
    MPI_Request request;
    int *counts = malloc(2 * (size_t)mpi.ranks * sizeof *counts), *firsts = counts ? counts + mpi.ranks : NULL;
    if (!counts) return -1;
    for (int r = 0; r < mpi.ranks; r++) {
        firsts[r] = first_of(r, count);
        counts[r] = first_of(r + 1, count) - firsts[r];
    }
    (void)MPI_Type_contiguous((int)bytes, MPI_BYTE, &part);
    (void)MPI_Type_create_resized(part, 0, (MPI_Aint)stride, &item);
    (void)MPI_Type_commit(&item);
    int failed = MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, items, counts, firsts, item, mpi.work, &request);
    if (!failed) failed = wait_for(1, &request, 0);
    (void)MPI_Type_free(&item);
    (void)MPI_Type_free(&part);
    free(counts);
    return failed ? -1 : 0;
}

int team_link_gather(void *items, int64_t count, size_t bytes) {
    int failed = count > INT32_MAX;
    for (size_t at = 0; at < bytes && !failed; at += MOST_BYTES) {
        const size_t left = bytes - at;
        failed = gather_part((char *)items + at, count, left < MOST_BYTES ? left : MOST_BYTES, bytes);
    }
    return failed ? -1 : 0;
}

int team_link_share(void *value, size_t bytes) {
    int failed = 0;
    for (size_t at = 0; at < bytes && !failed; at += MOST_BYTES) {
        const size_t left = bytes - at, n = left < MOST_BYTES ? left : MOST_BYTES;
        MPI_Request request;
        failed = MPI_Ibcast((char *)value + at, (int)n, MPI_BYTE, 0, mpi.work, &request);
        if (!failed) failed = wait_for(1, &request, 0);
    }
    return failed ? -1 : 0;
}

/* out[i] += each of the items, in order. */
static void add_items(float *restrict out, const float *items, int64_t n, int64_t how_many, int count) {
    for (int64_t item = 0; item < how_many; item++) {
        const float *restrict more = items + item * n;
        for (int i = 0; i < count; i++)
            out[i] += more[i];
    }
}

/* The sum so far goes from rank to rank, chunk after chunk, so that while one rank adds a chunk the next adds the one
 * before; the last rank has the whole, and sends it to all.  Rank 0 has an item.  `received` has room for two chunks. */
static int sum_along(float *items, int64_t own, int64_t n, float *received) {
    MPI_Request in[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}, out = MPI_REQUEST_NULL;
    const int64_t chunks = (n + SUM_CHUNK - 1) / SUM_CHUNK;
    int failed = 0;
    for (int64_t c = 0; c <= chunks && !failed; c++) {
        const int64_t at = c * SUM_CHUNK, before = at - SUM_CHUNK;
        if (c < chunks && mpi.rank)
            failed = MPI_Irecv(received + c % 2 * SUM_CHUNK, (int)(n - at < SUM_CHUNK ? n - at : SUM_CHUNK), MPI_FLOAT,
                               mpi.rank - 1, TAG_SUM, mpi.work, &in[c % 2]);
        if (!c || failed) continue;
        const int count = (int)(n - before < SUM_CHUNK ? n - before : SUM_CHUNK);
        float *sum = items + before, *so_far = received + (c - 1) % 2 * SUM_CHUNK;
        if (mpi.rank) {
            failed = wait_for(1, &in[(c - 1) % 2], 0);
            add_items(so_far, sum, n, own, count);
            memcpy(sum, so_far, (size_t)count * sizeof *sum);
        } else
            add_items(sum, sum + n, n, own - 1, count);
        if (!failed) failed = wait_for(1, &out, 0);
        if (!failed && mpi.rank + 1 < mpi.ranks)
            failed = MPI_Isend(sum, count, MPI_FLOAT, mpi.rank + 1, TAG_SUM, mpi.work, &out);
    }
    return failed ? -1 : wait_for(1, &out, 0);
}

int team_link_sum(float *items, int64_t own, int64_t n) {
    float *received = malloc(2 * SUM_CHUNK * sizeof *received);
    int failed = received ? sum_along(items, own, n, received) : -1;
    for (int64_t at = 0; at < n && !failed; at += MOST_BYTES / 4) {
        MPI_Request request;
        const int64_t left = n - at;
        failed = MPI_Ibcast(items + at, (int)(left < MOST_BYTES / 4 ? left : MOST_BYTES / 4), MPI_FLOAT, mpi.ranks - 1,
                            mpi.work, &request);
        if (!failed) failed = wait_for(1, &request, 0);
    }
    free(received);
    return failed ? -1 : 0;
}
