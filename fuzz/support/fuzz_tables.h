/* fuzz_tables.h: what the schemes with tables add to scores and values, and its gradients, by definition in double. */
#ifndef GYRE_FUZZ_TABLES_H
#define GYRE_FUZZ_TABLES_H
#include "fuzz_bytes.h"
#include "fuzz_views.h"
#include "gyre/gyre.h"
#include "naive_schemes.h"

/* A, B, V, the numbers that are added, u and v of gyre_table, in its order. */
typedef enum fuzz_table { FUZZ_A, FUZZ_B, FUZZ_V, FUZZ_BIAS, FUZZ_CONTENT, FUZZ_POSITION, FUZZ_TABLES } fuzz_table;

enum { FUZZ_MOST_CHANNELS = 512 };
typedef struct fuzz_tables {
    const gyre_encoding *encoding; /* borrowed */
    const gyre_config *config;     /* its own */
    fuzz_view table[FUZZ_TABLES], gradient[FUZZ_TABLES];
    int64_t rows, heads;    /* of tables of vectors, and how many heads have their own */
    double *x[FUZZ_TABLES]; /* what a table holds, [head][row][channel]; NEZHA's too, which are not trained */
    double *want[FUZZ_TABLES], *error[FUZZ_TABLES]; /* of the gradients: the definition's, and what they may be off */
    scheme_context scheme;                          /* what the scheme computes, with these tables */
    gyre_tables views;
    gyre_table_gradients gradients;
} fuzz_tables;

/* A query and a key, their positions, and the head of the query. */
typedef struct fuzz_pair {
    int64_t head, m, n;
    const double *q, *k; /* as given, not rotated; a scheme with tables for them does not rotate */
} fuzz_pair;

/* Chooses the fields of the score of a config of this kind.  positions: every position lies in 0 .. positions - 1 (BERT). */
void fuzz_tables_choose(gyre_config *config, fuzz_bytes *in, int64_t positions);
/* *out = the tables of the encoding, filled, and room for their gradients. */
void fuzz_tables_make(fuzz_tables *out, fuzz_bytes *in, const gyre_encoding *encoding, test_random *random);
void fuzz_tables_free(fuzz_tables *t);

/* out = what is added to q . k before the scale. */
double fuzz_tables_product(const fuzz_tables *t, const fuzz_pair *p);
/* out = [head_dim]: what the product of each channel of q and k is multiplied by; NULL = nothing. */
const double *fuzz_tables_factors(const fuzz_tables *t, const fuzz_pair *p);
/* out = how many channels a query has past those of a key, for Inkling's vector of the token; 0 under other schemes. */
int64_t fuzz_tables_relative_channels(const fuzz_tables *t);
/* out = the product of that vector and the row of the distance, which is added after the scale. */
double fuzz_tables_relative(const fuzz_tables *t, const fuzz_pair *p);
/* out = what the scheme makes of a query and a key of zeros: its bias, and the channels of the scale. */
scheme_terms fuzz_tables_terms(const fuzz_tables *t, int64_t head, int64_t m, int64_t n);
/* value += the row that the scheme adds to values. */
void fuzz_tables_add_value(const fuzz_tables *t, const fuzz_pair *p, double *value);

/* A number of the definition, and what that of the library may be off. */
typedef struct fuzz_number {
    double of, error;
} fuzz_number;
/* Adds to the gradients of the tables and to dq and dk, given the gradient to fuzz_tables_product.  What fuzz_tables_factors
 * multiplies is the caller's: of that, only the gradient of the factors. */
void fuzz_tables_product_gradient(fuzz_tables *t, const fuzz_pair *p, fuzz_number s, double *dq, double *dk);
/* The same for fuzz_tables_relative. */
void fuzz_tables_relative_gradient(fuzz_tables *t, const fuzz_pair *p, fuzz_number s, double *dq);
void fuzz_tables_bias_gradient(fuzz_tables *t, const fuzz_pair *p, fuzz_number s);
/* weight: of the pair; dout [head_dim]. */
void fuzz_tables_value_gradient(fuzz_tables *t, const fuzz_pair *p, fuzz_number weight, const double *dout);
/* fuzz_require that the gradients are those of the definition. */
void fuzz_tables_check(const fuzz_tables *t);

#endif
