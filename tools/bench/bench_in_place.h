/* bench_in_place.h: calls that change numbers in place, against multiplying them by a constant in place.
 *
 * The multiplication is what no such call can beat: every byte is read and written once.  Both are measured in turn, in the
 * same memory's twin, so that a slow moment of the machine meets both. */
#ifndef GYRE_TOOLS_BENCH_IN_PLACE_H
#define GYRE_TOOLS_BENCH_IN_PLACE_H
#include "tools/bench/bench.h"

enum { BENCH_TYPES = 4, BENCH_SIZES = 4 };
extern const gyre_dtype bench_types[BENCH_TYPES];
extern const char *const bench_type_names[BENCH_TYPES];
extern const int64_t bench_sizes[BENCH_SIZES]; /* tokens */

typedef struct bench_in_place {
    gyre_view view; /* dense */
    gyre_encoding *encoding;
    const gyre_tables *tables;
    const gyre_exec *exec;
    gyre_status (*call)(const struct bench_in_place *run);
} bench_in_place;
typedef struct bench_in_place_result {
    /* Medians; ratios are limit over call, round by round.  bytes: the multiplication on the same bytes taken for floats,
     * which spares 16-bit types the widening. */
    double ns, limit_ns, of_limit, bytes_ns, of_bytes;
    int64_t bytes;
} bench_in_place_result;

/* Makes run->view's memory for shape and type, fills it with numbers near 1, measures, and frees it. */
gyre_status bench_measure_in_place(bench_in_place *run, int64_t rounds, bench_in_place_result *out, gyre_error *err);

/* One row for people, or a line of JSON: what is a name for the second column. */
typedef struct bench_in_place_row {
    const char *bench, *column, *what; /* "rotate", "layout", "half" */
    int type;
    int64_t tokens, threads;
} bench_in_place_row;
void bench_in_place_head(const char *column);
int bench_in_place_print(const bench_options *o, const bench_in_place_row *row, const bench_in_place_result *result);
/* Calls run with one thread, then with two, or with as many as --threads says. */
int bench_for_threads(const bench_options *o, int (*run)(const bench_options *o, const gyre_exec *exec, int64_t threads));

#endif
