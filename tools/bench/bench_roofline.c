/* bench_roofline.c: arithmetic peak, memory read rate, and interleaved measuring. */
#include "tools/bench/bench_roofline.h"

#include <string.h>

/* -- interleaved series -- */
#define MIN_TIMED_SECONDS    0.01 /* of runs timed together */
#define WARMUP_BELOW_SECONDS 0.05 /* shorter runs get an untimed run first */
#define MAX_CASE_SECONDS     25.0 /* of all rounds together */
enum { MIN_ROUNDS = 3 };

static gyre_status run_times(bench_series *s, int64_t times, double *seconds) {
    const double started = cli_seconds();
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < times && !status; i++)
        status = cli_interrupted() ? GYRE_EIO : s->run(s->arg, s->exec);
    *seconds = (cli_seconds() - started) / (double)times;
    return status;
}

/* Runs are about as long in each round, and the first counts as a round. */
static void tell(const bench_part *part, int64_t runs) {
    if (part) cli_progress_step(part->bar, part->amount / runs, 0);
}

/* A round of all series.  A sample of the core follows each run, because a round may be long. */
static gyre_status run_round(bench_series *const all[], int count, bench_rounds *rounds, const bench_part *part) {
    const int64_t r = rounds->count;
    double seconds;
    gyre_status status = GYRE_OK;
    for (int i = 0; i < count && !status; i++) {
        bench_series *s = all[i];
        if (r > 0 ? s->seconds[r - 1] < WARMUP_BELOW_SECONDS : s->times > 1) status = run_times(s, 1, &seconds);
        if (!status) status = run_times(s, s->times, &s->seconds[r]);
        if (i + 1 < count) bench_rounds_sample(rounds);
        if (!status) tell(part, count * (rounds->limit + 1));
    }
    return status;
}

gyre_status bench_run_interleaved(bench_series *const all[], int count, int alike, bench_rounds *rounds,
                                  const bench_part *part) {
    double round = 0;
    int64_t most = 1;
    gyre_status status = GYRE_OK;
    for (int i = 0; i < count && !status; i++) {
        bench_series *s = all[i];
        double *once = &s->seconds[0];  /* until the first round */
        status = run_times(s, 1, once); /* with cold pages and caches */
        if (!status && *once < WARMUP_BELOW_SECONDS) status = run_times(s, 1, once);
        if (status) break;
        s->times = *once < MIN_TIMED_SECONDS ? (int64_t)(MIN_TIMED_SECONDS / *once) + 1 : 1;
        if (s->times > most) most = s->times;
    }
    for (int i = 0; i < count && !status; i++) {
        const double once = all[i]->seconds[0];
        if (alike) all[i]->times = most;
        round += once * (double)(all[i]->times + (once < WARMUP_BELOW_SECONDS));
    }
    const double fit = MAX_CASE_SECONDS / round;
    if (fit < (double)rounds->limit && rounds->limit > MIN_ROUNDS)
        rounds->limit = fit < MIN_ROUNDS ? MIN_ROUNDS : (int64_t)fit;
    if (!status) tell(part, rounds->limit + 1);
    while (!status && bench_rounds_next(rounds)) {
        status = run_round(all, count, rounds, part);
        bench_rounds_end(rounds);
    }
    return status;
}

double bench_series_seconds(const bench_series *s, const bench_rounds *rounds) {
    return bench_rounds_median(rounds, s->seconds);
}
double bench_series_rate(const bench_series *s, const bench_rounds *rounds) {
    return s->amount / bench_series_seconds(s, rounds);
}
double bench_series_ratio(const bench_series *a, const bench_series *b, const bench_rounds *rounds) {
    double ratios[BENCH_MAX_ROUNDS];
    for (int64_t r = 0; r < rounds->count; r++)
        ratios[r] = a->seconds[r] / b->seconds[r];
    return bench_rounds_median(rounds, ratios);
}

static int64_t concurrency_of(const gyre_exec *exec) {
    return exec->concurrency > 0 ? exec->concurrency : 1;
}

/* -- vectors of 64 bytes, which the compiler splits for the target -- */
typedef float floats __attribute__((vector_size(64), may_alias));
enum { LANES = 16, CHAINS = 12, STEPS = 1 << 17, STREAMS = 4 };

#if defined(__x86_64__)
#include <immintrin.h>
#define TARGET(features) __attribute__((target(features)))
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#define INLINE static inline __attribute__((always_inline))

/* Enough independent chains to hide the latency on any processor.  The factor below 1 keeps the numbers bounded. */
#define FMA_CHAINS(vec, set, fma)                                                                                           \
    vec sum[CHAINS];                                                                                                        \
    const vec by = set(0.75f), more = set(0.25f);                                                                           \
    for (int i = 0; i < CHAINS; i++)                                                                                        \
        sum[i] = set((float)i);                                                                                             \
    for (int64_t step = 0; step < steps; step++)                                                                            \
        for (int i = 0; i < CHAINS; i++)                                                                                    \
            sum[i] = fma(sum[i], by, more);                                                                                 \
    for (int i = 1; i < CHAINS; i++)                                                                                        \
        sum[0] = fma(sum[i], by, sum[0]);                                                                                   \
    memcpy(out, sum, sizeof *out)

/* Each does steps x CHAINS x LANES multiply-adds. */
#if defined(__x86_64__)
TARGET("avx512f") static void fma_chains_512(int64_t steps, float *out) {
    FMA_CHAINS(__m512, _mm512_set1_ps, _mm512_fmadd_ps);
}
TARGET("avx2,fma") static void fma_chains_256(int64_t steps, float *out) {
    steps *= 2;
    FMA_CHAINS(__m256, _mm256_set1_ps, _mm256_fmadd_ps);
}
#elif defined(__aarch64__)
#define FMA_128(a, b, c) vfmaq_f32(c, a, b)
static void fma_chains_128(int64_t steps, float *out) {
    steps *= 4;
    FMA_CHAINS(float32x4_t, vdupq_n_f32, FMA_128);
}
#endif
#define GENERIC_SET(x)       ((x) - (floats){0})
#define GENERIC_FMA(a, b, c) ((a) * (b) + (c))
static void fma_chains_generic(int64_t steps, float *out) {
    FMA_CHAINS(floats, GENERIC_SET, GENERIC_FMA);
}

static void fma_chains(void *arg, int64_t index) {
    volatile float sink;
    float out;
    (void)arg, (void)index;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        fma_chains_512(STEPS, &out);
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        fma_chains_256(STEPS, &out);
    else
        fma_chains_generic(STEPS, &out);
#elif defined(__aarch64__)
    fma_chains_128(STEPS, &out);
    (void)fma_chains_generic;
#else
    fma_chains_generic(STEPS, &out);
#endif
    sink = out;
    (void)sink;
}

double bench_fma_flops(const gyre_exec *exec) {
    return 2.0 * STEPS * CHAINS * LANES * (double)concurrency_of(exec);
}
gyre_status bench_run_fma(void *arg, const gyre_exec *exec) {
    exec->run(exec->ctx, fma_chains, arg, concurrency_of(exec));
    return GYRE_OK;
}

/* -- reading -- */
/* Several streams keep more cache lines in flight than one: 33 GB/s against 31 with huge pages, 24 against 20 without. */
INLINE float read_streams(const float *x, int64_t n) {
    floats sum[STREAMS][2] = {{{0}}};
    const int64_t part = n / STREAMS;
    for (int64_t i = 0; i < part; i += 2 * LANES)
        for (int s = 0; s < STREAMS; s++)
            for (int v = 0; v < 2; v++)
                sum[s][v] += *(const floats *)(const void *)(x + s * part + i + v * LANES);
    for (int s = 0; s < STREAMS; s++)
        sum[0][0] += sum[s][0] + sum[s][1];
    return sum[0][0][0];
}
#if defined(__x86_64__)
TARGET("avx512f") static float read_512(const float *x, int64_t n) {
    return read_streams(x, n);
}
TARGET("avx") static float read_256(const float *x, int64_t n) {
    return read_streams(x, n);
}
#endif
static float read_generic(const float *x, int64_t n) {
    return read_streams(x, n);
}

typedef struct read_job {
    const bench_memory_read *reading;
    int64_t floats; /* per thread: a multiple of what one step of all streams reads */
} read_job;

static void read_slice(void *arg, int64_t index) {
    const read_job *s = arg;
    const float *x = s->reading->data + index * s->floats;
    volatile float sink;
#if defined(__x86_64__)
    sink = __builtin_cpu_supports("avx512f") ? read_512(x, s->floats)
           : __builtin_cpu_supports("avx")   ? read_256(x, s->floats)
                                             : read_generic(x, s->floats);
#else
    sink = read_generic(x, s->floats);
#endif
    (void)sink;
}

gyre_status bench_run_memory_read(void *reading, const gyre_exec *exec) {
    const int64_t step = STREAMS * 2 * LANES, all = ((bench_memory_read *)reading)->bytes / (int64_t)sizeof(float);
    read_job job = {reading, all / concurrency_of(exec) / step * step};
    exec->run(exec->ctx, read_slice, &job, concurrency_of(exec));
    return GYRE_OK;
}
