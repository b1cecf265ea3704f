/* growth.h: how time and memory of an operation grow with its size.
 *
 * A value that grows as a + b size^p has the exponent p.  A case knows the p that its work should have at most; a larger one
 * is a defect, such as a list that is searched once for each item. */
#ifndef GYRE_TOOLS_BENCH_GROWTH_H
#define GYRE_TOOLS_BENCH_GROWTH_H
#include "tools/bench/bench.h"
#include "tools/cli/temporary_folder.h"

enum { GROWTH_SIZES = 16 };
/* An exponent is above the expected one from this difference on: caches of a processor and noise bend a line by less. */
#define GROWTH_MARGIN 0.35
/* Below these at the largest size the exponent is 0: memory is that of pages that the system counts late, and time that of
 * the clock and of data that are no longer in the caches of the processor. */
enum { GROWTH_LEAST_BYTES = 1 << 20 };
#define GROWTH_LEAST_SECONDS 1e-5

typedef struct growth growth;
typedef struct growth_case {
    const char *name, *unit;                          /* "cache-fork", "tokens" */
    int64_t first, last, factor;                      /* sizes: first, first * factor ... last */
    double time, memory;                              /* expected exponents, at most */
    gyre_status (*write)(growth *g, gyre_error *err); /* files of the size in g->folder; NULL = none */
    int (*prepare)(void *g);                          /* in the process that is measured, before it */
    /* The operation, in that process.  *g->seconds = its processor time.  out = 0, or 1 if it failed. */
    int (*work)(void *g);
} growth_case;

struct growth {
    const growth_case *of;
    int64_t size, rounds;
    double *seconds; /* in memory that both processes see */
    temporary_folder folder;
    void *state; /* what prepare made for work; its process ends without releasing it */
};

/* out = seconds of the processor that this process has used. */
double growth_processor_seconds(void);

/* -- fitting -- */
/* out = p of values[i] = a + b sizes[i]^p, a >= 0: the median slope between the logarithms of the last four sizes.  The
 * least value is subtracted before, from all that are more than twice as large.  NAN for fewer than two sizes.  sizes rise,
 * values are positive. */
double growth_exponent(const int64_t *sizes, const double *values, int count);
/* out = 1 if the exponent is known and above the expected one by more than GROWTH_MARGIN. */
int growth_is_above(double exponent, double expected);

/* -- the cases -- */
enum { GROWTH_CACHE_CASES = 9, GROWTH_FILE_CASES = 8 };
extern const growth_case growth_cache_cases[GROWTH_CACHE_CASES];
extern const growth_case growth_file_cases[GROWTH_FILE_CASES];

#endif
