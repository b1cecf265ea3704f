/* bench_core.c: nops a cycle, and the time that a thread waits for a processor. */
#include "tools/bench/rounds/bench_core.h"

#include "tools/cli/cli.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* -- nops a cycle -- */
/* A try is two loops of some ten microseconds, so that few tries meet an interrupt.  The middle try counts. */
enum { TRIES = 5, LOOPS = 200 };
#define NOPS                     512
#define PRODUCTS                 64
#define REPEAT(times, operation) ".rept " TEXT(times) "\n\t" operation "\n\t.endr"
#define TEXT(number)             TEXT_OF(number)
#define TEXT_OF(number)          #number

#if defined(__x86_64__)
/* 64-bit multiplications take 3 cycles on Intel's cores and on AMD's since Zen 2. */
#define PRODUCT_CYCLES 3
#define NOP_BLOCK      __asm__ volatile(REPEAT(NOPS, "nop"))
#define PRODUCT_BLOCK  __asm__ volatile(REPEAT(PRODUCTS, "imul %0, %0") : "+r"(x))
#elif defined(__aarch64__)
/* Cores differ: 3 is the latency on most (2 on some, 4 on others).  A wrong one scales all samples alike. */
#define PRODUCT_CYCLES 3
#define NOP_BLOCK      __asm__ volatile(REPEAT(NOPS, "nop"))
#define PRODUCT_BLOCK  __asm__ volatile(REPEAT(PRODUCTS, "mul %0, %0, %0") : "+r"(x))
#endif

#ifdef NOP_BLOCK
static double try_once(void) {
    unsigned long long x = 3;
    const double started = cli_seconds();
    for (int i = 0; i < LOOPS; i++)
        NOP_BLOCK;
    const double between = cli_seconds();
    for (int i = 0; i < LOOPS; i++)
        PRODUCT_BLOCK;
    const double cycles = (double)LOOPS * PRODUCTS * PRODUCT_CYCLES / (cli_seconds() - between);
    return (double)LOOPS * NOPS / (between - started) / cycles;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double nops_per_cycle(void *arg) {
    double tries[TRIES];
    (void)arg;
    for (int i = 0; i < TRIES; i++)
        tries[i] = try_once();
    qsort(tries, TRIES, sizeof *tries, ascending);
    return tries[TRIES / 2];
}
#else
static double nops_per_cycle(void *arg) {
    (void)arg;
    return NAN;
}
#endif

/* -- waiting -- */
/* Linux: nanoseconds that the thread ran, and those that it waited in a queue. */
static double waited(void *arg) {
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    char text[96] = "", *end = text;
    (void)arg;
    if (!file) return 0;
    const int read = fgets(text, sizeof text, file) != NULL;
    (void)fclose(file);
    (void)strtoull(text, &end, 10);
    return read ? 1e-9 * (double)strtoull(end, NULL, 10) : 0;
}

static double seconds(void *arg) {
    (void)arg;
    return cli_seconds();
}

/* -- the core -- */
/* A single sample may be too high, if the frequency changed between its loops.  Two in a row are not. */
double bench_core_sample(bench_core *core) {
    const double nops = core->nops_per_cycle ? core->nops_per_cycle(core->arg) : NAN;
    const double sure = fmin(nops, core->last); /* NAN counts as missing */
    if (nops > 0 && core->last > 0 && sure > core->usual) core->usual = sure;
    core->last = nops;
    return nops;
}

/* out = nops a cycle that a quiet core was seen to reach; 0 = nobody has measured this processor. */
static double known_usual(void) {
#if defined(__x86_64__)
    enum { SAPPHIRE_RAPIDS = 0x8f, EMERALD_RAPIDS = 0xcf };
    unsigned a = 0, b, c, d;
    if (!__builtin_cpu_is("intel") || !__get_cpuid(1, &a, &b, &c, &d)) return 0;
    const unsigned family = a >> 8 & 15, model = (a >> 4 & 15) | (a >> 12 & 0xf0);
    if (family == 6 && (model == SAPPHIRE_RAPIDS || model == EMERALD_RAPIDS)) return 5.6;
#endif
    return 0;
}

bench_core *bench_this_core(void) {
    enum { FIRST_SAMPLES = 20 };
    static bench_core core = {nops_per_cycle, waited, seconds, NULL, 0, 0};
    if (core.usual > 0) return &core;
    core.usual = known_usual();
    for (int i = 0; i < FIRST_SAMPLES; i++)
        (void)bench_core_sample(&core);
    return &core;
}
