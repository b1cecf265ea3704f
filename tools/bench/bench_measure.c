/* bench_measure.c: time and resident memory. */
#include "tools/bench/bench.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

double bench_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
double bench_median(double *values, int64_t n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    return values[n / 2];
}

/* -- resident memory -- */
/* out = bytes resident now, -1 where the system does not tell. */
static int64_t resident(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    char text[128] = "", *end = text;
    if (!file) return -1;
    const int read = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    const long long all = read ? strtoll(text, &end, 10) : 0;
    const long long pages = strtoll(end, NULL, 10);
    return all > 0 && pages > 0 ? (int64_t)pages * sysconf(_SC_PAGESIZE) : -1;
}

/* A child's high-water mark begins with what it inherits.  What prepare needed for a moment is above what it leaves, but
 * below what work needs, or work is the smaller of the two. */
static int64_t measure(int (*prepare)(void *arg), int (*work)(void *arg), void *arg) {
    struct rusage usage;
#ifdef __linux__
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* else the figure is in steps of 2 MiB */
#endif
    if (prepare(arg)) return -1;
    const int64_t before = resident();
    if (before < 0 || work(arg) || getrusage(RUSAGE_SELF, &usage)) return -1;
    const int64_t peak = (int64_t)usage.ru_maxrss * 1024;
    return peak > before ? peak - before : 0;
}

int64_t bench_peak_rss_growth(int (*prepare)(void *arg), int (*work)(void *arg), void *arg) {
    int ends[2], status = 0;
    int64_t growth = -1;
    if (pipe(ends)) return -1;
    (void)fflush(NULL); /* or the child has it too */
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        growth = measure(prepare, work, arg);
        _exit(write(ends[1], &growth, sizeof growth) != (ssize_t)sizeof growth);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], &growth, sizeof growth) != (ssize_t)sizeof growth) growth = -1;
    close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return growth;
}
