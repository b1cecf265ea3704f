/* bench_growth.c: gyre bench growth: each case at rising sizes, each in a separate process, and the exponents of its time
 * and memory. */
#define _DEFAULT_SOURCE // NOLINT(bugprone-reserved-identifier): for MAP_ANONYMOUS; glibc defines this name
#include "tools/bench/bench_only.h"
#include "tools/bench/growth/growth.h"
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { CASES = GROWTH_CACHE_CASES + GROWTH_FILE_CASES };
#define LONGEST 8.0 /* seconds of a size after which a case ends: the next would take minutes */

double growth_processor_seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const growth_case *case_of(int i) {
    return i < GROWTH_CACHE_CASES ? &growth_cache_cases[i] : &growth_file_cases[i - GROWTH_CACHE_CASES];
}

/* What is known of a case; sizes[0 .. count - 1] are measured. */
typedef struct growth_curve {
    int count;
    int64_t sizes[GROWTH_SIZES], bytes[GROWTH_SIZES]; /* bytes: by how much memory grew; -1: the system does not say */
    double seconds[GROWTH_SIZES];
} growth_curve;

static int measure_size(growth *g, int64_t size, growth_curve *curve) {
    gyre_error err = {0, ""};
    g->size = size;
    *g->seconds = NAN;
    gyre_status status = temporary_folder_create(&g->folder, "bench", &err);
    if (!status && g->of->write) status = g->of->write(g, &err);
    const int64_t bytes = status ? -1 : bench_peak_rss_growth(g->of->prepare, g->of->work, g);
    temporary_folder_remove(&g->folder);
    if (status) return cli_fail_error(&err);
    if (cli_interrupted()) return CLI_FAILED;
    if (!isfinite(*g->seconds))
        return cli_fail("%s: failed at %lld %s (gyre bench growth)", g->of->name, (long long)size, g->of->unit);
    curve->sizes[curve->count] = size;
    curve->seconds[curve->count] = *g->seconds > 0 ? *g->seconds : 1e-9; /* below the clock's resolution */
    curve->bytes[curve->count++] = bytes;
    return 0;
}

static int measure_case(growth *g, growth_curve *curve) {
    const growth_case *c = g->of;
    for (int64_t size = c->first; size <= c->last && curve->count < GROWTH_SIZES; size *= c->factor) {
        const int failed = cli_interrupted() ? CLI_FAILED : measure_size(g, size, curve);
        if (failed) return failed;
        if (*g->seconds > LONGEST) break;
    }
    return 0;
}

static double time_exponent(const growth_curve *curve) {
    const int is_known = curve->seconds[curve->count - 1] >= GROWTH_LEAST_SECONDS;
    return is_known ? growth_exponent(curve->sizes, curve->seconds, curve->count) : 0;
}

/* out = NAN where the growth of memory is unknown. */
static double memory_exponent(const growth_curve *curve) {
    double bytes[GROWTH_SIZES];
    for (int i = 0; i < curve->count; i++) {
        if (curve->bytes[i] < 0) return NAN;
        bytes[i] = curve->bytes[i] > 0 ? (double)curve->bytes[i] : 1;
    }
    return curve->bytes[curve->count - 1] < GROWTH_LEAST_BYTES ? 0 : growth_exponent(curve->sizes, bytes, curve->count);
}

static const bench_column columns[] = {{"case", "case", -17, 0, 0},
                                       {"unit", "of", -8, 0, 0},
                                       {"largest", "up to", 8, 0, 0},
                                       {"seconds", "ms", 10, 3, 1e3},
                                       {"time_exponent", "time ^", 7, 2, 0},
                                       {"time_expected", "at most", 8, 0, 0},
                                       {"bytes", "MiB", 8, 1, 0x1p-20},
                                       {"memory_exponent", "memory ^", 9, 2, 0},
                                       {"memory_expected", "at most", 8, 0, 0}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static int print_case(const bench_options *o, const growth_case *c, const growth_curve *curve) {
    const double time = time_exponent(curve), memory = memory_exponent(curve);
    const int slow = growth_is_above(time, c->time), large = growth_is_above(memory, c->memory), last = curve->count - 1;
    static const char *const notes[] = {"", "DEFECT: time", "DEFECT: memory", "DEFECT: time, memory"};
    json_t *row = JSON_OBJECT("bench", JSON("growth"), "case", JSON(c->name), "unit", JSON(c->unit), "largest",
                              JSON(curve->sizes[last]), "seconds", JSON(curve->seconds[last]), "time_exponent", JSON(time),
                              "time_expected", JSON(c->time), "bytes",
                              curve->bytes[last] < 0 ? json_null() : JSON(curve->bytes[last]), "memory_exponent",
                              JSON(memory), "memory_expected", JSON(c->memory), "defect", json_boolean(slow || large));
    JSON_ADD(row, "sizes", cli_json_integers(curve->sizes, curve->count), "seconds_by_size",
             cli_json_numbers(curve->seconds, curve->count), "bytes_by_size", cli_json_integers(curve->bytes, curve->count));
    const bench_quiet no_rounds = {.quiet = -1, .nops = NAN}; /* processor time of separate processes */
    return bench_print_row(o, row, &no_rounds, columns, COLUMNS, notes[slow + 2 * large]);
}

static int run_case(const bench_options *o, const growth_case *c, double *seconds, cli_progress *progress) {
    growth g = {.of = c, .rounds = o->rounds, .seconds = seconds, .folder = {.lock = -1}};
    growth_curve curve = {.count = 0};
    cli_progress_label(progress, "%s", c->name);
    const int failed = measure_case(&g, &curve);
    cli_progress_step(progress, 1, 0);
    cli_progress_erase();
    return failed ? failed : print_case(o, c, &curve);
}

static void print_head(void) {
    cli_page_printf(cli_stdout(),
                    "Processor time and extra memory of one operation, least of the rounds, at the largest size that was "
                    "reached; exponents of a + b size^p, fitted to the last sizes, beside those expected at most.  More "
                    "than %.2f above is a defect.\n\n",
                    GROWTH_MARGIN);
    bench_print_titles(columns, COLUMNS, NULL);
}

int bench_growth(const bench_options *o) {
    const char *names[CASES];
    cli_progress progress;
    int wanted = 0, failed = 0;
    for (int i = 0; i < CASES; i++) {
        names[i] = case_of(i)->name;
        wanted += !o->only || bench_only_matches(o->only, names[i]);
    }
    bench_only_check(o->only, names, CASES);
    double *seconds = mmap(NULL, sizeof *seconds, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seconds == MAP_FAILED) return cli_fail("times: out of memory (gyre bench growth)");
    cli_defer_signals_to_window();
    if (!o->common.json) print_head();
    cli_progress_begin(&progress, "growth", NULL, wanted);
    for (int i = 0; i < CASES && !failed; i++)
        if (!o->only || bench_only_matches(o->only, names[i])) failed = run_case(o, case_of(i), seconds, &progress);
    cli_progress_end(&progress);
    (void)munmap(seconds, sizeof *seconds);
    return failed;
}
