/* trained_pairs.h: what rotations with trained numbers share: pairs of channels as doubles, positions, tables and checks. */
#ifndef GYRE_TRAINED_PAIRS_H
#define GYRE_TRAINED_PAIRS_H
#include "gyre/gyre_trained.h"

enum { GYRE_TRAINED_CHUNK = 128 }; /* pairs that are gone through together */

/* The place of the pairs of a head: 2 x pairs channels from first_channel on, in a layout. */
typedef struct gyre_pair_layout {
    gyre_layout layout;
    int64_t first_channel, pairs;
} gyre_pair_layout;

typedef struct gyre_pair_place {
    int64_t batch, token, head, pair; /* the first of some pairs */
} gyre_pair_place;

/* x[i], y[i] = both members of pair at->pair + i, i < count; and back, rounded once. */
void gyre_pairs_load(const gyre_cview *view, const gyre_pair_layout *layout, const gyre_pair_place *at, int64_t count,
                     double *x, double *y);
void gyre_pairs_store(const double *x, const double *y, const gyre_view *view, const gyre_pair_layout *layout,
                      const gyre_pair_place *at, int64_t count);

/* out[a] = position of a token on each axis. */
void gyre_trained_positions(const gyre_positions *positions, int64_t batch, int64_t token, int64_t axes,
                            double out[GYRE_MAX_AXES]);
/* Checks the positions of all axes.  Errors: EINVAL, EDTYPE, ERANGE. */
gyre_status gyre_trained_positions_check(const gyre_positions *positions, const int64_t shape[4], int64_t axes,
                                         const char *where, gyre_error *err);
/* Checks numbers of the caller before one is read: F32 or F64, this shape.  Errors: EDTYPE, ESHAPE, EINVAL. */
gyre_status gyre_trained_shape_check(const gyre_cview *view, const int64_t shape[4], const char *name, const char *where,
                                     gyre_error *err);
/* Checks that all of them are finite, once their count is known to fit.  A view without data has none.  Errors: EINVAL. */
gyre_status gyre_trained_finite_check(const gyre_cview *view, const char *name, const char *where, gyre_error *err);
/* Checks a gradient: F32 or F64, this shape, every element with its own address. */
gyre_status gyre_trained_gradient_check(const gyre_view *view, const int64_t shape[4], const char *name, const char *where,
                                        gyre_error *err);
/* Checks that `pairs` pairs, as many as `name` is for, are within the channels of a head. */
gyre_status gyre_pair_layout_check(const gyre_pair_layout *layout, int64_t channels, const char *name, const char *where,
                                   gyre_error *err);
/* view[batch][token][head][pair + i] += x[i], i < count. */
void gyre_trained_add(const double *x, const gyre_view *view, const gyre_pair_place *at, int64_t count);

/* Rows whose pairs rotate. */
typedef struct gyre_pair_rotation {
    gyre_pair_layout layout;
    const gyre_cview *in;
    const gyre_view *out; /* not apart from `in`: the same memory */
    double sign;          /* of the sine */
    int shared;           /* all heads rotate by the angles of head 0 */
    /* angle[i] = that of pair at->pair + i, i < count */
    void (*angles)(const struct gyre_pair_rotation *r, const gyre_pair_place *at, int64_t count, double *angle);
} gyre_pair_rotation;
/* out = in, rotated; other channels are copied bit for bit.  A task is a token. */
void gyre_pair_rotation_run(const gyre_pair_rotation *r, const gyre_exec *exec);

#endif
