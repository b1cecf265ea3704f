/* bench_in_place.h: times calls that change numbers in place against multiplying them by a constant.
 *
 * The multiplication reads and writes every byte once, so no such call can be faster.  Both alternate, each in memory of its
 * own, so that a slow moment of the machine affects both. */
#ifndef GYRE_TOOLS_BENCH_IN_PLACE_H
#define GYRE_TOOLS_BENCH_IN_PLACE_H
#include "tools/bench/bench.h"

enum { BENCH_TYPES = 4, BENCH_SIZES = 4 };
extern const gyre_dtype bench_types[BENCH_TYPES];
extern const int64_t bench_sizes[BENCH_SIZES]; /* tokens */

typedef struct bench_in_place {
    gyre_view view; /* dense */
    gyre_encoding *encoding;
    const gyre_tables *tables;
    const gyre_exec *exec;
    gyre_status (*call)(const struct bench_in_place *run);
} bench_in_place;
typedef struct bench_in_place_result {
    bench_quiet quiet;
    /* Medians over the quiet rounds.  of_limit, of_bytes: time of the multiplication over time of the call.  bytes_ns: the
     * multiplication on the same bytes read as floats, which needs no widening of 16-bit types. */
    double ns, limit_ns, of_limit, bytes_ns, of_bytes;
    int64_t bytes;
} bench_in_place_result;

/* Allocates the memory of run->view, fills it with numbers near 1, measures, and frees it.  Errors: ENOMEM, EINVAL (the call
 * failed). */
gyre_status bench_measure_in_place(bench_in_place *run, int64_t rounds, bench_in_place_result *out, gyre_error *err);

/* A row of the table, or a line of JSON.  column: title of the second column; what: its value. */
typedef struct bench_in_place_row {
    const char *bench, *column, *what; /* "rotate", "layout", "half" */
    double goal;                       /* least of_limit on one thread; 0 = none */
    int type;
    int64_t tokens, threads;
} bench_in_place_row;
void bench_in_place_head(const char *column);
int bench_in_place_print(const bench_options *o, const bench_in_place_row *row, const bench_in_place_result *result);
/* Calls run() with one thread and then with two, or only with --threads. */
int bench_for_threads(const bench_options *o, int (*run)(const bench_options *o, const gyre_exec *exec, int64_t threads));

#endif
