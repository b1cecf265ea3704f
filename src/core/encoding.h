/* encoding.h: what is inside a gyre_encoding.
 *
 * Creation (src/encodings/encoding_create.c) fills it in once; after that only the angle table is written to, which
 * locks its own blocks. */
#ifndef GYRE_CORE_ENCODING_H
#define GYRE_CORE_ENCODING_H
#include "core/distance_map.h"
#include "core/rotation/frequency.h"
#include "core/scheme.h"
#include "gyre/gyre.h"
#include "kernels/places/place_kernels.h"
#include "util/error.h"

struct gyre_angle_table; /* core/rotation/angle_table.h */
struct gyre_frequency;   /* core/rotation/frequency.h */
struct gyre_scheme;      /* core/scheme.h */

/* Shape of a trained table (gyre_encoding_table_shape); rows 0 = no such table. */
typedef struct gyre_table_size {
    int64_t heads, rows, channels;
} gyre_table_size;
enum { GYRE_TABLE_COUNT = GYRE_TABLE_POSITION_BIAS + 1 };

struct gyre_encoding {
    gyre_config config; /* all defaults filled in; its pointers point to the arrays below */
    const struct gyre_scheme *scheme;
    const gyre_place_kernels *kernels;
    gyre_alloc alloc;
    int uses_malloc;                       /* 1: alloc is malloc, so pages cost nothing until they are touched */
    unsigned places;                       /* GYRE_PLACE_*: the scheme's, unless init found fewer or more */
    int64_t first_position, last_position; /* the range the scheme can represent, both included */
    int64_t last_scaled;           /* the last position at which the encoding is right in calls without a context length */
    double *slopes, *slopes_after; /* [heads]; slopes_after NULL = equal to slopes */
    double slope_divisor;          /* slopes are divided by this when used */
    double *slope_exponents;       /* [heads], and by a^this, a the factor at a length; NULL = none */
    double *short_factor, *long_factor;     /* [rope.dim / 2] */
    double *given_frequencies;              /* [rope.dim / 2] or NULL: config.rope.frequencies */
    struct gyre_frequency *frequency;       /* [rope.dim / 2] at the default context length; sinusoid: [input.dim / 2] */
    struct gyre_frequency *start_frequency; /* [rope.dim / 2], LongRoPE's start tokens: without a scaling; NULL = none */
    double attention_factor;                /* multiplies cos and sin at that length; 1 where nothing rotates */
    unsigned char *axis;                    /* [rope.dim / 2]: position axis that rotates a pair; NULL = axis 0 for all */
    double *xpos_log2_decay; /* [rope.dim / 2], xPos: log2 of the decay of a pair per position; NULL = no xPos */
    gyre_table_size table[GYRE_TABLE_COUNT]; /* trained tables, which the caller owns */
    gyre_distance_map distance_map;
    double *fixed_table;      /* NeZha: [2 clip_distance + 1][head_dim] rows of the sides in fixed_terms; Sandwich:
                                      * sums of cosines by distance; TAPA: powers (tapa.c) */
    unsigned fixed_terms;     /* GYRE_TERM_*: sides whose vectors are in fixed_table, not trained */
    int64_t product_channels; /* the first of queries and keys, whose product is the score; 0 = all.  The others have a
                                 * product of their own, a phase (gyre_scheme.phase_row), or without a phase_row they are
                                 * vectors of queries alone: what the query table is multiplied with */
    int zero_row;             /* 1: the distance map has one more row than the vector tables, whose vectors are zeros */
    int query_factors;        /* 1: rows of the query table multiply the products of queries and keys, channel by channel; 0:
                                 * they are multiplied with queries, and the products added to scores */
    double score_terms;       /* the default scale is 1 / sqrt(channels score_terms), channels those of the product
                                      * that is scaled: product_channels or head_dim */
    struct gyre_angle_table *angles; /* cos and sin of positions 0 .. rope.table_positions - 1, or NULL */
};

/* out = the number of position axes the encoding reads, at least 1. */
static inline int64_t gyre_axes_of(const gyre_encoding *encoding) {
    return encoding->axis ? encoding->config.rope.axes : 1;
}

/* out = 1 if it rotates pairs of channels of queries and keys. */
static inline int gyre_encoding_rotates(const gyre_encoding *encoding) {
    return (encoding->scheme->traits & GYRE_TRAIT_ROTATES) != 0;
}

/* out = the last channels of queries that are vectors for the query table.  Keys may lack them, and are not read there. */
static inline int64_t gyre_encoding_query_vectors(const gyre_encoding *encoding) {
    const int own = encoding->product_channels > 0 && !encoding->scheme->phase_row;
    return own ? encoding->config.head_dim - encoding->product_channels : 0;
}

/* out = 1 if two context lengths in use (0 = the encoding's own) give the same rotations and biases. */
int gyre_encoding_same_at(const gyre_encoding *encoding, int64_t length, int64_t other);
/* out = what slopes of head `head` are divided by at a length in use (0 = the encoding's own). */
double gyre_slope_divisor(const gyre_encoding *encoding, int64_t head, int64_t length);

/* out = count elements of `size` bytes from the encoding's allocator, or NULL with err filled in (ENOMEM). */
void *gyre_encoding_allocate(const gyre_encoding *encoding, int64_t count, size_t size, gyre_error *err);

#endif
