/* fuzz_turns.h: rotations whose angle is of a query and a key together, or of the length in use, by gyre.h in double: far
 * distances, scalings that follow the length, LongRoPE's start tokens, xPos and the temperature. */
#ifndef GYRE_FUZZ_TURNS_H
#define GYRE_FUZZ_TURNS_H
#include "fuzz_bytes.h"
#include "fuzz_positions.h"

/* A rotation at one length in use. */
typedef struct fuzz_turns {
    const gyre_config *config;
    int64_t length; /* -1 = not yet set */
    double rate[FUZZ_MOST_DIM / 2], start[FUZZ_MOST_DIM / 2], factor;
    int has_starts;
} fuzz_turns;

/* q and k, not rotated, and their positions on each axis. */
typedef struct fuzz_turned {
    const int64_t *m, *n;
    const double *q, *k;
} fuzz_turned;

/* Chooses a rotation of head_dim channels. */
void fuzz_turns_choose(gyre_config *config, fuzz_bytes *in);
/* Sets the length in use. */
void fuzz_turns_at(fuzz_turns *t, int64_t length);
/* out = the distance by which they rotate, under rope.far. */
double fuzz_turns_distance(const gyre_config *config, int64_t m, int64_t n);
/* out = E(m)q . E(n)k, and what a sum of as many floats may be off. */
fuzz_number fuzz_turns_product(const fuzz_turns *t, const fuzz_turned *pair);
/* dq += s d product / dq, dk alike.  out = the most that a rotated channel is multiplied by. */
double fuzz_turns_gradient(const fuzz_turns *t, const fuzz_turned *pair, double s, double *dq, double *dk);

#endif
