/* place_scalar.c: the place kernels of tier_scalar.c, built with the same flags. */
#include "kernels/vec_scalar.h"

#include "kernels/places/place_tier.h"
