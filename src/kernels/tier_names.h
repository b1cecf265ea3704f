/* tier_names.h: names of the kernels of the tier that is compiled, such as gyre_avx2_rotate_f32, and declarations of those
 * for the places of an encoding.  kernel_names.h has the others.
 *
 * A tier whose source defines TIER_BASE takes its kernels from that tier, whose code they would repeat, except for one of
 * the other classes in kernels.def, GYRE_KERNEL_OWN, GYRE_KERNEL_Q8 or GYRE_KERNEL_TILES.  TIER_BF16, TIER_Q8 and TIER_TILES
 * are the tiers that these come from. */
#ifndef GYRE_KERNELS_TIER_NAMES_H
#define GYRE_KERNELS_TIER_NAMES_H
#include "kernels/tier_list.h"

#define NAME_IN_TIER(tier, name) gyre_##tier##_##name
#define NAME_IN(tier, name)      NAME_IN_TIER(tier, name)
#define OF_TIER(name)            NAME_IN(TIER, name)
#define TEXT2(a)                 #a
#define TEXT(a)                  TEXT2(a)

#ifdef TIER_BASE /* the templates define more than the tier uses */
#define KERNEL(name) static inline void OF_TIER(name)
#else
#define KERNEL(name) void OF_TIER(name)
#define TIER_BASE    TIER
#endif
#ifdef TIER_BF16
#define KERNEL_OWN(name) static inline void OF_TIER(name)
#else
#define KERNEL_OWN(name) void OF_TIER(name)
#define TIER_BF16        TIER
#endif
#ifndef TIER_Q8
#define TIER_Q8 TIER_BASE
#endif
#ifndef TIER_TILES
#define TIER_TILES TIER_BASE
#endif
#ifndef TIER_TEXT
#define TIER_TEXT TEXT(TIER)
#endif

#define KERNEL_LIST "kernels/places/place_kernels.def"
#include "kernels/places/declare_kernels.def"

#endif
