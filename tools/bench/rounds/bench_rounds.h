/* bench_rounds.h: the rounds of a benchmark.  Those in which the core was quiet count.
 *
 *   bench_rounds rounds = bench_rounds_begin(bench_this_core(), 7);
 *   while (bench_rounds_next(&rounds)) {
 *       seconds[rounds.count] = ...;
 *       bench_rounds_end(&rounds);
 *   }
 *   ... bench_rounds_median(&rounds, seconds) */
#ifndef GYRE_TOOLS_BENCH_ROUNDS_H
#define GYRE_TOOLS_BENCH_ROUNDS_H
#include "tools/bench/rounds/bench_core.h"
#include <stdint.h>

enum { BENCH_MAX_ROUNDS = 99 };

typedef struct bench_rounds {
    bench_core *core;
    int64_t limit, count;            /* rounds that are wanted; rounds that ended */
    double nops[BENCH_MAX_ROUNDS];   /* a cycle, the least sample of each round; NAN = not measured */
    double waited[BENCH_MAX_ROUNDS]; /* share of the round in which this thread waited for a processor */
    double waited_before, started;   /* of the round that runs */
} bench_rounds;

/* Which rounds counted, for a row of results. */
typedef struct bench_quiet {
    int64_t rounds, quiet; /* quiet: how many of the rounds were quiet; -1 = this processor has no way to measure it */
    double nops;           /* a cycle, median over all rounds; NAN = not measured */
} bench_quiet;

/* limit: 1 to BENCH_MAX_ROUNDS. */
bench_rounds bench_rounds_begin(bench_core *core, int64_t limit);
/* Begins a round, unless there were enough.  out = 1: it began. */
int bench_rounds_next(bench_rounds *rounds);
/* Takes a sample within a round: between runs that take long. */
void bench_rounds_sample(bench_rounds *rounds);
void bench_rounds_end(bench_rounds *rounds);

/* out = 1: nothing disturbed the round, as far as was measured. */
int bench_rounds_is_quiet(const bench_rounds *rounds, int64_t round);
bench_quiet bench_rounds_quiet(const bench_rounds *rounds);
/* values[rounds->count], one of each round.  out = their median over quiet rounds, over all rounds if none was quiet; of an
 * even number the upper of the two middle values. */
double bench_rounds_median(const bench_rounds *rounds, const double *values);
/* The least, over the same rounds. */
double bench_rounds_least(const bench_rounds *rounds, const double *values);

#endif
