/* trained_angles.h: the angles of a gyre_trained_rotation. */
#ifndef GYRE_TRAINED_ANGLES_H
#define GYRE_TRAINED_ANGLES_H
#include "trained/trained_pairs.h"

/* *own = the caller's rotation, whatever its version, checked for views with `heads` heads. */
gyre_status gyre_trained_rotation_read(const gyre_trained_rotation *given, int64_t heads, gyre_trained_rotation *own,
                                       const char *where, gyre_error *err);
/* Checks that its numbers are finite, once their count is known to fit the channels.  Errors: EINVAL. */
gyre_status gyre_trained_rotation_finite(const gyre_trained_rotation *own, const char *where, gyre_error *err);
/* *own = the caller's gradients, checked against the rotation. */
gyre_status gyre_trained_gradients_read(const gyre_trained_rotation *r, const gyre_trained_gradients *given,
                                        gyre_trained_gradients *own, const char *where, gyre_error *err);
/* out[i] = phase of pair at->pair + i of a head, i < count; 0 without phases. */
void gyre_trained_phases(const gyre_trained_rotation *r, const gyre_pair_place *at, int64_t count, double *out);
/* cosine[i], sine[i] of the angle of pair at->pair + i: phases[i] + sum over axes of position times frequency. */
void gyre_trained_cos_sin(const gyre_trained_rotation *r, const double *phases, const double *position,
                          const gyre_pair_place *at, int64_t count, double *cosine, double *sine);

/* Sums of the gradient to angles, for frequencies and phases. */
typedef struct gyre_trained_sums {
    const gyre_trained_rotation *rotation;
    gyre_pair_layout layout; /* of the pairs in dout */
    const gyre_positions *positions;
    const gyre_cview *in, *dout;
    const gyre_trained_gradients *gradients;
    double phase_low, phase_high; /* phases outside get no gradient */
    /* x[i], y[i] = pair at->pair + i as it was written, computed from `in`. */
    void (*rotated)(const struct gyre_trained_sums *sums, const gyre_pair_place *at, int64_t count, const double *position,
                    double *x, double *y);
    int64_t chunks; /* of pairs */
} gyre_trained_sums;
void gyre_trained_sums_run(gyre_trained_sums *c, const gyre_exec *exec);
/* F32, F16, BF16 or F64, with memory. */
gyre_status gyre_trained_real_check(const gyre_cview *view, const char *name, const char *where, gyre_error *err);

#endif
