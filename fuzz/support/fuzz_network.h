/* fuzz_network.h: the network of adaptive attention for one pair of a query and a key, by the formulas of gyre_adaptive.h in
 * double.  Every number has with it what floats may leave it off: a sum of n products n roundings of their sizes, and what
 * its own inputs are off.  Where the input of a leaky ReLU may lie on either side of 0, its slope is off too. */
#ifndef GYRE_FUZZ_NETWORK_H
#define GYRE_FUZZ_NETWORK_H
#include "fuzz_tables.h"
#include "gyre/gyre_adaptive.h"

enum { FUZZ_MOST_WIDTH = 40, FUZZ_NETWORK_HEADS = 8 };

typedef struct fuzz_network {
    int64_t heads, inputs, width;
    gyre_adaptive_form form;
    double slope;
    double *w1, *b1, *w2, *b2; /* [width][inputs], [width], [heads][width], [heads] */
} fuzz_network;

/* Gradients to its numbers, in the same order; added to. */
typedef struct fuzz_network_gradients {
    fuzz_number *w1, *b1, *w2, *b2;
} fuzz_network_gradients;

typedef struct fuzz_network_pair {
    fuzz_number x[2 * FUZZ_NETWORK_HEADS], unit[FUZZ_MOST_WIDTH], hidden[FUZZ_MOST_WIDTH], score[FUZZ_NETWORK_HEADS];
} fuzz_network_pair;

/* *to += a b, where `to` is a sum of `terms` products. */
void fuzz_number_add(fuzz_number *to, fuzz_number a, fuzz_number b, int64_t terms);
/* *pair = what the network reads and makes of products and biases, one for each head. */
void fuzz_network_run(const fuzz_network *n, const fuzz_number *products, const fuzz_number *biases,
                      fuzz_network_pair *pair);
/* Gradients to the network, to products and to biases, given those to scores. */
void fuzz_network_back(const fuzz_network *n, const fuzz_network_pair *pair, const fuzz_number *dscores,
                       const fuzz_network_gradients *to, fuzz_number *dproducts, fuzz_number *dbiases);

#endif
