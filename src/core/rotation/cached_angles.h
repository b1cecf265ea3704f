/* cached_angles.h: angles in float, from the angle table where it has them. */
#ifndef GYRE_CORE_CACHED_ANGLES_H
#define GYRE_CORE_CACHED_ANGLES_H
#include "core/rotation/angles.h"

/* gyre_angles_f64 rounded once to float: pointers into the encoding's table if it has the row, else into buffer[2 * count].
 * negate_sine 1: `sine` belongs to the forward rotation; the caller negates it. */
typedef struct gyre_cos_sin_view {
    const float *cosine, *sine;
    int negate_sine;
} gyre_cos_sin_view;
gyre_cos_sin_view gyre_angles_f32(const gyre_angles *angles, const gyre_frequency *frequency, int64_t first, int64_t count,
                                  const double *position, float *buffer);

#endif
