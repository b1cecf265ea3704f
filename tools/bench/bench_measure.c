/* bench_measure.c: medians, memory, random numbers and printed results for the benchmarks. */
#define _DEFAULT_SOURCE // NOLINT(bugprone-reserved-identifier): for MAP_ANONYMOUS and madvise; glibc defines this name
#include "tools/bench/bench.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
double bench_median(double *values, int64_t n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    return values[n / 2];
}

/* -- resident memory -- */
/* out = resident bytes now; -1 if the system does not provide it. */
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

/* The high-water mark of a child starts with what it inherits.  It also covers the temporary memory of prepare, so work must
 * need more than that for the result to be exact. */
static int64_t measure(int (*prepare)(void *arg), int (*work)(void *arg), void *arg) {
    struct rusage usage;
#ifdef __linux__
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* otherwise the result is a multiple of 2 MiB */
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
    (void)fflush(NULL); /* otherwise the child would print the buffer again */
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

/* -- memory, random numbers, output -- */
void *bench_map_untouched(size_t bytes) {
    void *memory = bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    return memory == MAP_FAILED ? NULL : memory;
}

void *bench_alloc_huge(size_t bytes) {
    const size_t page = (size_t)2 << 20, whole = (bytes + page - 1) / page * page;
    void *memory = aligned_alloc(page, whole > 0 ? whole : page);
#ifdef MADV_HUGEPAGE
    if (memory) (void)madvise(memory, whole, MADV_HUGEPAGE);
#endif
    return memory;
}

static void *alloc_huge(void *ctx, size_t bytes, size_t align) {
    (void)ctx, (void)align; /* pages have a larger alignment */
    return bench_alloc_huge(bytes);
}
static void free_huge(void *ctx, void *memory) {
    (void)ctx;
    free(memory);
}
const gyre_alloc bench_huge_alloc = {alloc_huge, free_huge, NULL};

double bench_random(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 40) * 0x1p-24;
}

int bench_flush(void) {
    return fflush(cli_stdout()) ? cli_fail("standard output: %s (writing the result)", strerror(errno)) : 0;
}

const char *bench_number(double x, int digits, char out[16]) {
    if (isnan(x))
        snprintf(out, 16, "-");
    else
        snprintf(out, 16, "%.*f", digits, x);
    return out;
}

int bench_json_line(json_t *line, const char *const names[], const double numbers[], int count, json_t *goal) {
    int failed = 0;
    for (int i = 0; i < count; i++) /* jansson refuses a NULL object, and takes the value over all the same */
        failed |= json_object_set_new(line, names[i], cli_json_number(numbers[i]));
    failed |= json_object_set_new(line, "goal", goal);
    if (failed) json_decref(line);
    return cli_json_line(failed ? NULL : line);
}
