/* angles.h: from a position to the cos and sin that turn each pair. */
#ifndef GYRE_CORE_ANGLES_H
#define GYRE_CORE_ANGLES_H
#include "core/rotation/frequency.h"
#include "gyre/gyre.h"
#include "kernels/kernels.h"

/* Pairs worked on at a time: bounds the stack, whatever the dimension. */
enum { GYRE_PAIR_CHUNK = GYRE_ROTATE_MAX_PAIRS };

/* cos and sin of position * (high + low), within an ulp or so of double for |position| <= 2^31. */
void gyre_angle(gyre_frequency frequency, double position, double *cosine, double *sine);

/* How the rows of one call turn.  Positions below are position[axis], one number an axis of the encoding (gyre_axes_of), in
 * double: the far ones may be fractions. */
typedef struct gyre_angles {
    const gyre_encoding *encoding;
    gyre_direction direction;
    int uses_stored; /* the frequencies stored in the encoding are those of `length` */
    int far; /* turn as pairs of query and key at a distance of rope.far_window or more do: far positions in, far angles
              * out */
    int64_t length;
    double factor; /* multiplies cos and sin */
} gyre_angles;
gyre_angles gyre_angles_of(const gyre_encoding *encoding, gyre_direction direction, int64_t length);
/* 1 if `position` leaves a row as it is, to the last bit. */
int gyre_angles_identity(const gyre_angles *angles, const double *position);
/* Frequencies of pairs first .. first + count - 1, stored ones or computed into buffer[count]. */
const gyre_frequency *gyre_angles_frequencies(const gyre_angles *angles, int64_t first, int64_t count,
                                              gyre_frequency *buffer);
/* cosine[j], sine[j] of pair first + j, of frequency[j], at `position`, direction, sense and factor included, in double. */
void gyre_angles_f64(const gyre_angles *angles, const gyre_frequency *frequency, int64_t first, int64_t count,
                     const double *position, double *cosine, double *sine);

/* The same rounded once to float: pointers into the encoding's table where it reaches, else into buffer[2 * count].  back: 1
 * = sine is that of the forward turn, and this one goes the other way. */
typedef struct gyre_cos_sin_view {
    const float *cosine, *sine;
    int negate_sine;
} gyre_cos_sin_view;
gyre_cos_sin_view gyre_angles_f32(const gyre_angles *angles, const gyre_frequency *frequency, int64_t first, int64_t count,
                                  const double *position, float *buffer);

/* out = where a query (key) at `position` is placed for keys (queries) at a distance of rope.far_window or more. */
double gyre_far_position(const gyre_encoding *encoding, gyre_role role, int64_t position);

#endif
