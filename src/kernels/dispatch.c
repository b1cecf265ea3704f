/* dispatch.c: which tier's table this processor runs. */
#include "kernels/tiers.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* __builtin_cpu_supports asks CPUID and, for AVX and later, whether the system saves the registers (XCR0). */
static int runs_avx2(void) {
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}

static int runs_avx512(void) {
#if defined(__x86_64__) || defined(__i386__)
    return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
    return 0;
#endif
}

const gyre_kernels *gyre_kernels_tier(const char *tier) {
    if (strcmp(tier, "scalar") == 0) return gyre_tier_scalar;
    if (strcmp(tier, "avx2") == 0) return runs_avx2() ? gyre_tier_avx2 : NULL;
    if (strcmp(tier, "avx512") == 0) return runs_avx512() ? gyre_tier_avx512 : NULL;
    return NULL;
}

/* A wish that is unknown, or more than the processor has, is no wish. */
const gyre_kernels *gyre_kernels_pick(void) {
    static const char *const best_first[] = {"avx512", "avx2", "scalar"};
    const char *wish = getenv("GYRE_CPU");
    const gyre_kernels *kernels = wish ? gyre_kernels_tier(wish) : NULL;
    for (size_t i = 0; !kernels && i < sizeof best_first / sizeof *best_first; i++)
        kernels = gyre_kernels_tier(best_first[i]);
    return kernels;
}
