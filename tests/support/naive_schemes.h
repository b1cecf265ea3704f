/* naive_schemes.h: the schemes of tests/test_schemes.def, and what each does to one query and one key by the formulas of its
 * paper, in double.  From the library the oracles take only the completed config, frequencies and shapes of tables: no row,
 * no bucket, no slope. */
#ifndef GYRE_TESTS_NAIVE_SCHEMES_H
#define GYRE_TESTS_NAIVE_SCHEMES_H
#include "gyre/gyre.h"

enum { SCHEME_TABLES = GYRE_TABLE_POSITION_BIAS + 1 };
typedef struct scheme_table {
    const double *x; /* [heads][rows][channels]; NULL = the scheme has none */
    int64_t heads, rows, channels;
} scheme_table;

/* What all pairs share. */
typedef struct scheme_context {
    const struct scheme_oracle *oracle;
    gyre_config config; /* completed */
    int64_t heads, dim; /* of the config */
    scheme_table table[SCHEME_TABLES];
    int rotates; /* 0: nothing rotates, or q and k have been rotated */
    double inv_freq[128], factor;
} scheme_context;

typedef struct scheme_pair {
    int64_t head, m, n; /* query at m, key at n */
    const double *q, *k;
} scheme_pair;

/* The score is scale x product + bias. */
typedef struct scheme_terms {
    double product;  /* q . k, or what stands in its place */
    double bias;     /* 0 */
    double channels; /* head_dim: the default scale is 1 / sqrt(channels) */
    double *value;   /* [dim] zeros: what is added to the value; NULL = not asked for */
} scheme_terms;

typedef enum scheme_trait {
    SCHEME_CAUSAL = 1,    /* is causal by position and nothing else */
    SCHEME_FROM_ZERO = 2, /* has no positions below 0 */
    SCHEME_ABSOLUTE = 4,  /* depends on more than the distance of a pair */
    SCHEME_STEEP = 8,     /* a score multiplies rounding errors of its products */
    SCHEME_BY_HEAD = 16,  /* depends on the number of a head and of all heads */
    SCHEME_KINKS = 32,    /* has kinks: differences need short steps */
    SCHEME_NUMBERS = 64   /* adds a number to each score and does nothing else */
} scheme_trait;

/* What a scheme computes; NULL = nothing there. */
typedef struct scheme_oracle {
    void (*pair)(const scheme_context *of, const scheme_pair *at, scheme_terms *out); /* changes what differs in *out */
    void (*input)(const scheme_context *of, int64_t position, double *x);             /* x += p(position) */
    /* out = an entry of the bias table in its range, from x in [-1, 1]; positions are up to `last`.  NULL = x */
    double (*entry)(int64_t row, double x, double last);
    unsigned traits; /* scheme_trait */
} scheme_oracle;

typedef struct test_scheme {
    const char *name;
    const scheme_oracle *oracle;
    int is_variant;
    gyre_config config;
} test_scheme;
#define GYRE_TEST_SCHEME(id, oracle, ...) SCHEME_##id,
enum {
#include "../test_schemes.def"
    SCHEMES
};
extern const test_scheme test_schemes[SCHEMES];
/* Slopes of ALiBi for up to 12 heads. */
extern const double test_slopes[12], test_slopes_after[12];

/* out = the distance by which a pair is rotated, also under ReRoPE, leaky ReRoPE, Self-Extend and Dual Chunk Attention. */
double scheme_rotation_distance(const gyre_config *config, int64_t m, int64_t n);
double scheme_dot(const double *a, const double *b, int64_t n);
/* out = the oracle of a kind. */
const scheme_oracle *scheme_oracle_of(gyre_kind kind);
/* Adds to the fields of a row what a test chooses.  length: trained, where the row has none, and the rows of a table that
 * has one for each position. */
void test_scheme_complete(gyre_config *config, int64_t heads, int64_t head_dim, int64_t length);
gyre_config test_scheme_config(int scheme, int64_t heads, int64_t head_dim, int64_t length); /* of a row, complete */
/* out = 1 if a long test runs case i of a scheme: every case, of variants one of `share`, with GYRE_TEST_ALL all. */
int test_scheme_tried(int scheme, int64_t i, int64_t share);
/* out = row i, counted from 0, that has a trait and is no variant; SCHEMES past the last. */
int test_scheme_with(scheme_trait trait, int i);
/* out = 1 if the scheme acts in attention, under this mask. */
int test_scheme_attends(int scheme, gyre_causal causal);

/* Without tables: scheme_context_table adds them. */
scheme_context scheme_context_of(const gyre_encoding *encoding);
/* x: [heads][rows][channels] of gyre_encoding_table_shape, read when pairs are computed. */
void scheme_context_table(scheme_context *of, const gyre_encoding *encoding, gyre_table which, const double *x);
/* out = x, mapped to the range that an entry of a table has. */
double scheme_entry(const scheme_oracle *oracle, gyre_table which, int64_t row, double x, double last);
/* *out = what the scheme computes for a pair; value: [dim] or NULL. */
scheme_terms scheme_terms_of(const scheme_context *of, const scheme_pair *at, double *value);
/* out = 1 if values get vectors. */
int scheme_adds_values(const scheme_context *of);

#endif
