/* kernel_names.h: tier_names.h, with declarations of all kernels of the tier. */
#ifndef GYRE_KERNELS_KERNEL_NAMES_H
#define GYRE_KERNELS_KERNEL_NAMES_H
#include "kernels/kernels.h"
#include "kernels/tier_names.h"

#define KERNEL_LIST "kernels/kernels.def"
#include "kernels/places/declare_kernels.def"

#endif
