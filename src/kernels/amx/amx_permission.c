/* amx_permission.c: whether this process may use AMX. */
#if defined(__linux__) && defined(__x86_64__)
#define _DEFAULT_SOURCE /* syscall */
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include "kernels/amx/amx_permission.h"

#include <stdint.h>

#if defined(__linux__) && defined(__x86_64__) && defined(SYS_arch_prctl)
enum { REQUEST_STATE = 0x1023 /* ARCH_REQ_XCOMP_PERM */, TILE_DATA = 18, TILE_STATE = 3 << 17 /* XCR0: both parts */ };

/* CPUID costs tens of microseconds in a virtual machine (dispatch.c). */
#if !defined(__clang__) && __GNUC__ >= 11 /* __builtin_cpu_supports looks at XCR0 too */
static int has_amx(void) {
    return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16");
}
#else
static int has_amx(void) {
    const unsigned tile = 1U << 24, bf16 = 1U << 22, saved = 1U << 27; /* saved: XCR0 can be read */
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & saved)) return 0;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || (edx & (tile | bf16)) != (tile | bf16)) return 0;
    __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
    return (eax & TILE_STATE) == TILE_STATE;
}
#endif

int gyre_amx_permitted(void) {
    return has_amx() && syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}
#else
int gyre_amx_permitted(void) {
    return 0;
}
#endif
