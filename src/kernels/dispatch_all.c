/* dispatch_all.c: all kernels of the tier that dispatch.c chooses. */
#include "kernels/kernels.h"
#include <stddef.h>

const gyre_kernels *gyre_kernels_beside(const gyre_place_kernels *places) {
#define TABLE_OF(wanted, name)                                                                                              \
    if ((wanted) == gyre_place_tier_##name) return gyre_tier_##name;
    GYRE_TIERS(TABLE_OF, places)
#undef TABLE_OF
    return NULL;
}

const gyre_kernels *gyre_kernels_tier(const char *tier) {
    const gyre_place_kernels *places = gyre_place_kernels_tier(tier);
    return places ? gyre_kernels_beside(places) : NULL;
}

const gyre_kernels *gyre_kernels_select(void) {
    return gyre_kernels_beside(gyre_place_kernels_select());
}
