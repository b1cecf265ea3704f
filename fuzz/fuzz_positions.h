/* fuzz_positions.h: random but legal encodings, and what they do by their definitions, in double. */
#ifndef GYRE_FUZZ_POSITIONS_H
#define GYRE_FUZZ_POSITIONS_H
#include "fuzz_bytes.h"
#include "fuzz_views.h"
#include "gyre/gyre.h"

enum { FUZZ_MOST_DIM = 96, FUZZ_MOST_HEADS = 8, FUZZ_MOST_ROWS = 64 };

/* An encoding and the numbers of its definition. */
typedef struct fuzz_positions {
    gyre_config config;
    gyre_encoding *encoding; /* NULL = the config was refused */
    double inv_freq[FUZZ_MOST_DIM / 2], factor, slopes[FUZZ_MOST_HEADS];
    float bias[FUZZ_MOST_ROWS * FUZZ_MOST_HEADS]; /* T5's table [row][head] */
    gyre_tables tables;
} fuzz_positions;

/* *out = a config of NoPE, RoPE with any scaling that needs no lists, ALiBi or T5, and its encoding. */
void fuzz_positions_make(fuzz_positions *out, fuzz_bytes *in, int64_t head_dim, int64_t heads, test_random *random);
void fuzz_positions_free(fuzz_positions *p);
/* Rotates a head, in place.  sign 1: E(m) x; -1: its transpose. */
void fuzz_positions_rotate(const fuzz_positions *p, int64_t m, int sign, double *x);
/* out = what is added to the score of a query at m and a key at n. */
double fuzz_positions_bias(const fuzz_positions *p, int64_t head, int64_t m, int64_t n);

#endif
