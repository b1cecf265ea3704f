/* dispatch.c: chooses the tier. */
#include "kernels/tier_list.h"
#ifndef GYRE_ROPE_ALONE
#include "kernels/amx/amx_permission.h"
#endif
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* __builtin_cpu_supports looks up what CPUID said when the program started, and for AVX and later also what the system
 * saves of the registers (XCR0).  A plan without an encoding selects its kernels, and CPUID itself would cost it tens of
 * microseconds in a virtual machine.  F16C uses the registers of AVX, so its CPUID bit is all that remains to check. */
#if defined(__clang__) ? __clang_major__ >= 19 : __GNUC__ >= 11
#define runs_f16c() __builtin_cpu_supports("f16c")
#else
static int runs_f16c(void) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}
#endif
static int runs_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && runs_f16c();
}
#ifndef GYRE_ROPE_ALONE
static int runs_avx512(void) {
    return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
static int runs_avx512vnni(void) {
    return runs_avx512() && __builtin_cpu_supports("avx512vnni");
}
static int runs_avx512bf16(void) {
    return runs_avx512vnni() && __builtin_cpu_supports("avx512bf16");
}
static int runs_amx(void) {
    return runs_avx512bf16() && gyre_amx_permitted();
}
#endif
#else
#define runs_amx()        0
#define runs_avx2()       0
#define runs_avx512()     0
#define runs_avx512vnni() 0
#define runs_avx512bf16() 0
#endif
/* If a build contains one of these tiers, the processor can run it: every AArch64 has Advanced SIMD, and a WebAssembly
 * module is accepted as a whole or not at all. */
#define runs_neon()         1
#define runs_wasm()         1
#define runs_scalar()       1
#define runs_amx_emulated() 1

const gyre_place_kernels *gyre_place_kernels_tier(const char *tier) {
#define TABLE_OF(wanted, name, text)                                                                                        \
    if (strcmp(wanted, text) == 0) return gyre_place_tier_##name && runs_##name() ? gyre_place_tier_##name : NULL;
    GYRE_TIERS(TABLE_OF, tier)
#undef TABLE_OF
    return NULL;
}

/* A GYRE_CPU that is unknown, or that the processor cannot run, is ignored here; gyre_cpu_check refuses it. */
const gyre_place_kernels *gyre_place_kernels_select(void) {
#define NAME_OF(unused, name, text) text,
    static const char *const best_first[] = {GYRE_TIERS(NAME_OF, )};
#undef NAME_OF
    const char *requested_tier = getenv("GYRE_CPU");
    const gyre_place_kernels *kernels = requested_tier ? gyre_place_kernels_tier(requested_tier) : NULL;
    for (size_t i = 0; !kernels && i < sizeof best_first / sizeof *best_first; i++)
        kernels = gyre_place_kernels_tier(best_first[i]);
    return kernels;
}
