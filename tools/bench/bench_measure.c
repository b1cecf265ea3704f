/* bench_measure.c: memory, random numbers and printed results for the benchmarks. */
#define _DEFAULT_SOURCE // NOLINT(bugprone-reserved-identifier): for MAP_ANONYMOUS and madvise; glibc defines this name
#include "tools/bench/bench.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

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

/* -- rows -- */
static const char *text_of(const json_t *row, const bench_column *c, char out[32]) {
    const json_t *value = json_object_get(row, c->key);
    if (json_is_boolean(value)) return json_is_true(value) ? c->key : "none";
    if (!json_is_number(value)) return json_is_string(value) ? json_string_value(value) : "-";
    const double x = json_number_value(value) * (c->unit != 0 ? c->unit : 1);
    if (c->decimals == BENCH_EXPONENT)
        snprintf(out, 32, "%.1e", x);
    else
        snprintf(out, 32, "%.*f", c->decimals, x);
    return out;
}

enum { QUIET_WIDTH = 7 };
void bench_print_titles(const bench_column *columns, int count, const char *end) {
    for (int i = 0; i < count; i++)
        fprintf(cli_stdout(), "%s%*s", i ? " " : "", columns[i].width, columns[i].title);
    fprintf(cli_stdout(), " %*s%s%s\n", QUIET_WIDTH, "quiet", end ? "  " : "", end ? end : "");
}

const char *bench_quiet_text(const bench_quiet *quiet, char out[32]) {
    if (quiet->quiet < 0) return "-";
    snprintf(out, 32, "%lld/%lld", (long long)quiet->quiet, (long long)quiet->rounds);
    return out;
}

int bench_print_row(const bench_options *o, json_t *row, const bench_quiet *quiet, const bench_column *columns, int count,
                    const char *note) {
    char text[32];
    if (o->common.json) {
        json_object_set_new(row, "quiet_rounds", quiet->quiet < 0 ? json_null() : JSON(quiet->quiet));
        json_object_set_new(row, "nops_per_cycle", JSON(quiet->nops));
        return cli_json_line(row);
    }
    for (int i = 0; i < count; i++)
        fprintf(cli_stdout(), "%s%*s", i ? " " : "", columns[i].width, text_of(row, &columns[i], text));
    fprintf(cli_stdout(), " %*s%s%s\n", QUIET_WIDTH, bench_quiet_text(quiet, text), note ? "  " : "", note ? note : "");
    json_decref(row);
    return bench_flush();
}

json_t *bench_goal(const char *of, double value) {
    if (!of) return json_null();
    return JSON_OBJECT("of", JSON(of), strcmp(of, "ratio") == 0 ? "most" : "least", JSON(value));
}

const char *bench_goal_verdict(const bench_quiet *quiet, int is_reached) {
    return quiet->quiet == 0 ? ", not judged: no quiet round" : is_reached ? "" : ", missed";
}

const char *bench_goal_note(const json_t *row, const bench_quiet *quiet, char out[80]) {
    const json_t *goal = json_object_get(row, "goal"), *most = json_object_get(goal, "most");
    const char *of = json_string_value(json_object_get(goal, "of"));
    if (!of) return "";
    const double value = json_number_value(most ? most : json_object_get(goal, "least"));
    const double x = json_number_value(json_object_get(row, of));
    snprintf(out, 80, "%s %s %.2f%s", of, most ? "<=" : ">=", value,
             bench_goal_verdict(quiet, most ? x <= value : x >= value));
    return out;
}

/* -- threads -- */
void bench_execs_close(bench_execs *execs) {
    for (int i = 0; i < execs->count; i++)
        gyre_pool_free(execs->pools[i]);
}

gyre_status bench_execs_open(bench_execs *execs, int threads, gyre_error *err) {
    *execs = (bench_execs){.count = 0};
    for (int i = 0; i < (threads ? 1 : BENCH_MAX_EXECS); i++) {
        const gyre_status status = gyre_pool_create(&execs->pools[i], threads ? threads : i + 1, err);
        if (status) {
            bench_execs_close(execs);
            return status;
        }
        execs->of[execs->count++] = gyre_pool_exec(execs->pools[i]);
    }
    return GYRE_OK;
}
