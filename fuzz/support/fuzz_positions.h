/* fuzz_positions.h: random but legal encodings, and what they do by their definitions, in double. */
#ifndef GYRE_FUZZ_POSITIONS_H
#define GYRE_FUZZ_POSITIONS_H
#include "fuzz_bytes.h"
#include "fuzz_tables.h"
#include "fuzz_views.h"
#include "gyre/gyre.h"

enum { FUZZ_MOST_DIM = 96, FUZZ_MOST_HEADS = 8 };

/* An encoding and the numbers of its definition. */
typedef struct fuzz_positions {
    gyre_config config;
    gyre_encoding *encoding; /* NULL = the config was refused */
    double inv_freq[FUZZ_MOST_DIM / 2], factor;
    int64_t axes, axis[FUZZ_MOST_DIM / 2]; /* axis: of each pair */
    fuzz_tables tables;
} fuzz_positions;

/* What is chosen from. */
typedef enum fuzz_schemes {
    FUZZ_SCHEMES_FEW,    /* NoPE, RoPE of one axis with any scaling that needs no lists, ALiBi and T5 */
    FUZZ_SCHEMES_ALL,    /* every scheme that acts inside attention, and RoPE of several axes */
    FUZZ_SCHEMES_NUMBERS /* NoPE, and those that add a number to each score */
} fuzz_schemes;

typedef struct fuzz_limits {
    int64_t head_dim, heads;
    fuzz_schemes schemes;
    int64_t positions;                                   /* BERT: its positions are 0 .. positions - 1 */
    void (*choose)(gyre_config *config, fuzz_bytes *in); /* RoPE by this in place of `schemes`; NULL = none */
} fuzz_limits;

/* *out = a config within the limits, its encoding and its tables. */
void fuzz_positions_make(fuzz_positions *out, fuzz_bytes *in, const fuzz_limits *limits, test_random *random);
void fuzz_positions_free(fuzz_positions *p);
/* Rotates a head, in place; m: the position on each axis.  sign 1: E(m) x; -1: its transpose. */
void fuzz_positions_rotate(const fuzz_positions *p, const int64_t *m, int sign, double *x);
/* out = 1 if the scheme adds numbers to scores. */
int fuzz_positions_adds(const fuzz_positions *p);
/* out = what is added to the score of a query at m and a key at n, after the scale. */
double fuzz_positions_bias(const fuzz_positions *p, int64_t head, int64_t m, int64_t n);
/* out = the scale of scores where the call names none. */
double fuzz_positions_scale(const fuzz_positions *p);

#endif
