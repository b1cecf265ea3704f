/* place_amx_emulated.c: the place kernels of tier_amx_emulated.c, all from the scalar tier. */
#include "kernels/tier_list.h"

#ifndef __wasm__
#define TIER      amx_emulated
#define TIER_TEXT "amx-emulated"
#define TIER_BASE scalar
#define TIER_BF16 scalar
#include "kernels/vec_scalar.h"

#include "kernels/places/place_tier.h"
#else
const gyre_place_kernels *const gyre_place_tier_amx_emulated = 0;
#endif
