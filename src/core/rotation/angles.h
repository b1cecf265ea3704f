/* angles.h: from a position to the cos and sin of each pair. */
#ifndef GYRE_CORE_ANGLES_H
#define GYRE_CORE_ANGLES_H
#include "core/rotation/frequency.h"
#include "gyre/gyre.h"
#include "kernels/places/place_kernels.h"

/* Pairs processed at a time, so that stack memory does not depend on the dimension. */
enum { GYRE_PAIR_CHUNK = GYRE_ROTATE_MAX_PAIRS };

/* 0 in libgyre_rope, which has exact angles alone (rope.angles). */
int gyre_has_program_angles(void);

/* *cosine, *sine of position * (high + low), within about an ulp of double for |position| <= 2^31. */
void gyre_angle(gyre_frequency frequency, double position, double *cosine, double *sine);

/* The state of a walk over the pairs of one position.  llama.cpp computes an angle from the one before it. */
typedef struct gyre_angle_walk {
    int64_t next; /* pair */
    float theta;  /* of it */
} gyre_angle_walk;

/* The rotation of one call.  Positions below are position[axis], one number for each axis of the encoding (gyre_axes_of), in
 * double, because an angle is a product in double. */
typedef struct gyre_angles {
    const gyre_encoding *encoding;
    gyre_direction direction;
    int uses_stored; /* encoding->frequency is right for `length` */
    int slower;      /* 1: rope.far_factor times slower (gyre_variant_is_slower) */
    int64_t length;
    double factor;      /* multiplies cos and sin */
    double start_below; /* positions below rotate by encoding->start_frequency (LongRoPE's start tokens); -INFINITY = none */
    double start_ratio; /* multiplies their factor */
    gyre_angle_walk *walk; /* begun for each position whose pairs are read in order; NULL = a call counts from pair 0 */
} gyre_angles;
gyre_angles gyre_angles_of(const gyre_encoding *encoding, gyre_direction direction, int64_t length);
/* 1 if the rotation at a position is not that of the difference to another one. */
int gyre_angles_have_start(const gyre_angles *angles);
/* 1 if the rotation at `position` is the identity, exactly. */
int gyre_angles_identity(const gyre_angles *angles, const double *position);
/* out = the frequencies of pairs first .. first + count - 1: the stored ones, or computed into buffer[count]. */
const gyre_frequency *gyre_angles_frequencies(const gyre_angles *angles, int64_t first, int64_t count,
                                              gyre_frequency *buffer);
/* cosine[j], sine[j] of pair first + j with frequency[j] at `position`, j < count; direction, sense of rotation and factor
 * included. */
void gyre_angles_f64(const gyre_angles *angles, const gyre_frequency *frequency, int64_t first, int64_t count,
                     const double *position, double *cosine, double *sine);

#endif
