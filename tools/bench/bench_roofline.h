/* bench_roofline.h: what this machine gives at best, and calls measured beside it.
 *
 * No call of attention can take less time than its multiplications at the peak of the arithmetic, nor than its bytes at the
 * rate at which memory is read; a product of matrices by OpenBLAS is what people know to be fast. */
#ifndef GYRE_TOOLS_BENCH_ROOFLINE_H
#define GYRE_TOOLS_BENCH_ROOFLINE_H
#include "tools/bench/bench.h"

/* -- in turn -- */
/* One of several things that are timed round by round, so that a slow moment of the machine meets all of them. */
typedef struct bench_series {
    gyre_status (*run)(void *arg, const gyre_exec *exec);
    void *arg;
    const gyre_exec *exec;
    double amount;                    /* operations or bytes of a run */
    int64_t times;                    /* runs that are timed together, so many that the clock can tell */
    double seconds[BENCH_MAX_ROUNDS]; /* of a run */
} bench_series;

/* Runs each once, then rounds of all; *rounds: at most so many, and what there was time for, at least 3 of them.  A short
 * run follows one that is not timed, which fetches its memory into the caches, as far as it fits. */
gyre_status bench_run_interleaved(bench_series *const all[], int count, int64_t *rounds);
/* Medians over the rounds: of seconds; of amounts a second; of the time of a over that of b. */
double bench_series_seconds(const bench_series *s, int64_t rounds);
double bench_series_rate(const bench_series *s, int64_t rounds);
double bench_series_ratio(const bench_series *a, const bench_series *b, int64_t rounds);

/* -- limits: run and arg of a series, on all threads of its exec at once -- */
/* Fused multiplications and additions in registers.  arg is not looked at; bench_fma_flops(exec) is the amount. */
gyre_status bench_run_fma(void *arg, const gyre_exec *exec);
double bench_fma_flops(const gyre_exec *exec);

/* Memory read once, in four streams of each thread. */
typedef struct bench_memory_read {
    const float *data; /* 64-byte aligned */
    int64_t bytes;     /* what does not divide evenly is left out: less than 512 bytes of a thread */
} bench_memory_read;
gyre_status bench_run_memory_read(void *reading, const gyre_exec *exec);

/* For each thread a product of single precision, 2048 x 2048 x 128: that of a tile of queries with a tile of keys. */
typedef struct bench_sgemm {
    float *memory;
    int64_t threads;
} bench_sgemm;
gyre_status bench_sgemm_create(bench_sgemm *out, int64_t threads, gyre_error *err);
void bench_sgemm_free(bench_sgemm *sgemm);
gyre_status bench_run_sgemm(void *sgemm, const gyre_exec *exec);
double bench_sgemm_flops(const gyre_exec *exec);

/* -- memory -- */
/* In huge pages where the system has them, for all that is compared.  NULL where there is none; free() takes it. */
void *bench_alloc_huge(size_t bytes);

#endif
