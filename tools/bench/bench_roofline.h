/* bench_roofline.h: the limits of this machine, and calls measured beside them.
 *
 * A call takes at least the time of its arithmetic at peak rate, and at least the time to read its bytes from memory. */
#ifndef GYRE_TOOLS_BENCH_ROOFLINE_H
#define GYRE_TOOLS_BENCH_ROOFLINE_H
#include "tools/bench/bench.h"

/* -- interleaved series -- */
/* One of several runs that alternate round by round, so that a slow moment of the machine affects all of them. */
typedef struct bench_series {
    gyre_status (*run)(void *arg, const gyre_exec *exec);
    void *arg;
    const gyre_exec *exec;
    double amount;                    /* operations or bytes of a run */
    int64_t times;                    /* runs timed together, enough for the resolution of the clock */
    double seconds[BENCH_MAX_ROUNDS]; /* of a run */
} bench_series;

/* A part of the work of a benchmark, which brings `amount` of the work that the bar counts. */
typedef struct bench_part {
    cli_progress *bar;
    int64_t amount;
} bench_part;

/* Runs each once, then rounds of all: as many of rounds->limit as fit into the time limit, but at least 3.  Before a short
 * run, an untimed run loads its memory into the caches, as far as it fits.  alike: 1 = all are timed over as many runs as
 * the shortest, because with each run more of the memory is in the third-level cache.  part: NULL, or called after each
 * run, outside the timed part.  Errors: those of the runs. */
gyre_status bench_run_interleaved(bench_series *const all[], int count, int alike, bench_rounds *rounds,
                                  const bench_part *part);
/* Medians over the quiet rounds: seconds; amount per second; time of a over time of b. */
double bench_series_seconds(const bench_series *s, const bench_rounds *rounds);
double bench_series_rate(const bench_series *s, const bench_rounds *rounds);
double bench_series_ratio(const bench_series *a, const bench_series *b, const bench_rounds *rounds);

/* -- limits: run and arg of a series, on all threads of its exec -- */
/* Multiply-adds in registers.  arg is not used; bench_fma_flops(exec) is the amount. */
gyre_status bench_run_fma(void *arg, const gyre_exec *exec);
double bench_fma_flops(const gyre_exec *exec);

/* Memory that is read once, in four streams per thread. */
typedef struct bench_memory_read {
    const float *data; /* 64-byte aligned */
    int64_t bytes;     /* a remainder of less than 512 bytes per thread is left out */
} bench_memory_read;
gyre_status bench_run_memory_read(void *reading, const gyre_exec *exec);

#endif
