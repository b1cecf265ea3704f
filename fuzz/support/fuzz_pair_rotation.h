/* fuzz_pair_rotation.h: rotations whose angle depends on a query and a key together, or on the length in use, by gyre.h in
 * double: far distances, scalings that follow the length, LongRoPE's start tokens, xPos and the temperature. */
#ifndef GYRE_FUZZ_PAIR_ROTATION_H
#define GYRE_FUZZ_PAIR_ROTATION_H
#include "fuzz_bytes.h"
#include "fuzz_positions.h"

/* A rotation at one length in use. */
typedef struct fuzz_pair_rotation {
    const gyre_config *config;
    int64_t length; /* -1 = not yet set */
    double rate[FUZZ_MOST_DIM / 2], start[FUZZ_MOST_DIM / 2], factor;
    int has_starts;
} fuzz_pair_rotation;

/* q and k, not rotated, and their positions on each axis. */
typedef struct fuzz_rotated_pair {
    const int64_t *m, *n;
    const double *q, *k;
} fuzz_rotated_pair;

/* Chooses a rotation of head_dim channels. */
void fuzz_pair_rotation_choose(gyre_config *config, fuzz_bytes *in);
/* Sets the length in use. */
void fuzz_pair_rotation_at(fuzz_pair_rotation *t, int64_t length);
/* out = the distance by which they rotate, under rope.far. */
double fuzz_pair_rotation_distance(const gyre_config *config, int64_t m, int64_t n);
/* out = E(m)q . E(n)k, and what a sum of as many floats may be off. */
fuzz_number fuzz_pair_rotation_product(const fuzz_pair_rotation *t, const fuzz_rotated_pair *pair);
/* dq += s d product / dq, dk alike.  out = the most that a rotated channel is multiplied by. */
double fuzz_pair_rotation_gradient(const fuzz_pair_rotation *t, const fuzz_rotated_pair *pair, double s, double *dq,
                                   double *dk);

#endif
