/* kernel_names.h: tier_names.h, with declarations of all kernels of the tier. */
#ifndef GYRE_KERNELS_KERNEL_NAMES_H
#define GYRE_KERNELS_KERNEL_NAMES_H
#include "kernels/kernels.h"
#include "kernels/tier_names.h"

#define GYRE_KERNEL(name, parameters) void NAME_IN(TIER_BASE, name) parameters;
#define GYRE_KERNEL_OWN(name, parameters)                                                                                   \
    GYRE_KERNEL(name, parameters)                                                                                           \
    void NAME_IN(TIER_BF16, name) parameters;
#define GYRE_KERNEL_TILES(name, parameters)                                                                                 \
    GYRE_KERNEL(name, parameters)                                                                                           \
    void NAME_IN(TIER_TILES, name) parameters;
#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif
#include "kernels/kernels.def"
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#undef GYRE_KERNEL

#endif
