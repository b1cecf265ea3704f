/* dispatch_all.c: all kernels of the tier that dispatch.c chooses. */
#include "kernels/kernels.h"
#include <stddef.h>
#include <string.h>

/* The table of a name: that of an encoding may be libgyre_rope's, which is another copy. */
static const gyre_kernels *of_tier(const char *tier) {
#define TABLE_OF(wanted, name, text)                                                                                        \
    if (strcmp(wanted, text) == 0) return gyre_tier_##name;
    GYRE_TIERS(TABLE_OF, tier)
#undef TABLE_OF
    return NULL;
}

const gyre_kernels *gyre_kernels_beside(const gyre_place_kernels *places) {
#define TABLE_OF(wanted, name, text)                                                                                        \
    if ((wanted) == gyre_place_tier_##name) return gyre_tier_##name;
    GYRE_TIERS(TABLE_OF, places)
#undef TABLE_OF
    return of_tier(places->tier);
}

const gyre_kernels *gyre_kernels_tier(const char *tier) {
    const gyre_place_kernels *places = gyre_place_kernels_tier(tier);
    return places ? gyre_kernels_beside(places) : NULL;
}

const gyre_kernels *gyre_kernels_select(void) {
    return gyre_kernels_beside(gyre_place_kernels_select());
}

gyre_kernels gyre_kernels_rounding(const gyre_kernels *kernels) {
    gyre_kernels out = *kernels;
    out.tiles_bf16 = kernels->tiles_rounded_bf16;
    out.pack_rows_bf16 = kernels->pack_rounded_rows_bf16;
    out.product_tiles_bf16 = kernels->product_rounded_tiles_bf16;
    out.project_bf16 = kernels->project_rounded_bf16;
    return out;
}
