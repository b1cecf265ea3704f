/* tier_names.h: names of the kernels of the tier that is compiled, such as gyre_avx2_rotate_f32, and declarations of those
 * for the places of an encoding.  kernel_names.h has the others.
 *
 * A tier with TIER_BASE has only its own kernels (GYRE_KERNEL_OWN in kernels.def), which the templates define as KERNEL_OWN.
 * It takes the others from that tier, whose code they would repeat. */
#ifndef GYRE_KERNELS_TIER_NAMES_H
#define GYRE_KERNELS_TIER_NAMES_H
#include "kernels/tier_list.h"

#define NAME_IN_TIER(tier, name) gyre_##tier##_##name
#define NAME_IN(tier, name)      NAME_IN_TIER(tier, name)
#define OF_TIER(name)            NAME_IN(TIER, name)
#define TEXT2(a)                 #a
#define TEXT(a)                  TEXT2(a)

#define KERNEL_OWN(name) void OF_TIER(name)
#ifdef TIER_BASE
#define KERNEL(name) static inline void OF_TIER(name) /* the templates define more than the tier uses */
#else
#define KERNEL(name) void OF_TIER(name)
#endif
#ifdef TIER_BASE
#define GYRE_KERNEL(name, parameters) void NAME_IN(TIER_BASE, name) parameters;
#define GYRE_KERNEL_OWN(name, parameters)                                                                                   \
    GYRE_KERNEL(name, parameters)                                                                                           \
    void OF_TIER(name) parameters;
#else
#define GYRE_KERNEL(name, parameters) void OF_TIER(name) parameters;
#endif
/* Not exported by a shared library, so that calls of and pointers to them need no symbol at run time. */
#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif
#include "kernels/places/place_kernels.def"
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#undef GYRE_KERNEL

#endif
