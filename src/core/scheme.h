/* scheme.h: what the file of a scheme (src/encodings/) implements.
 *
 * Nothing outside src/encodings knows a scheme by name (ci/run layers): attention, model and trainer ask the encoding, which
 * holds the scheme's table of functions; what has a config alone asks its kind (gyre_kind_has, gyre_kind_places). */
#ifndef GYRE_CORE_SCHEME_H
#define GYRE_CORE_SCHEME_H
#include "gyre/gyre_fields.h"

/* A tile of scores and the positions of its rows and columns. */
typedef struct gyre_bias_tile {
    const int64_t *q, *k;   /* positions, [queries] and [keys] */
    const int64_t *nearest; /* [queries]: biases of a row are relative to the bias of this position */
    int64_t queries, keys, ld;
    float *scores;      /* [queries][ld] */
    const float *slope; /* of the call, for schemes with slopes; NULL = the encoding's */
    int64_t length;     /* the context length in use; 0 = the encoding's own */
} gyre_bias_tile;

/* One query of one head and n keys. */
typedef struct gyre_bias_row {
    int64_t head, q;
    const int64_t *k; /* [n] positions */
    int64_t n;
    const float *slope; /* as in gyre_bias_tile */
    int64_t length;     /* the same */
} gyre_bias_row;

/* p(position) as a weighted sum of rows of the input table, at least one, summed in this order. */
enum { GYRE_MAX_WEIGHTED_ROWS = 3 };
typedef struct gyre_weighted_rows {
    int count;
    int64_t row[GYRE_MAX_WEIGHTED_ROWS];
    double weight[GYRE_MAX_WEIGHTED_ROWS];
} gyre_weighted_rows;

typedef struct gyre_scheme {
    gyre_kind kind;
    unsigned places; /* GYRE_PLACE_* */
    unsigned traits; /* GYRE_TRAIT_*, but BIAS, which bias_row below says */
    /* 1: b falls or grows with |k - q| without bound.  Attention then forms the scores of a row relative to the bias of its
     * nearest key. */
    int decays;
    /* 1 if two context lengths in use (0 = config's own) give the same encoding.  NULL = all do. */
    int (*same_at)(const gyre_config *config, int64_t length, int64_t other);
    gyre_row_source row_source;

    /* -- creation -- */
    /* Checks the config and completes the encoding: defaults into encoding->config, and the encoding's own arrays. */
    gyre_status (*init)(gyre_encoding *encoding, gyre_error *err);
    /* gyre_config_suggest: fills in fields that the scheme needs and config leaves at zero.  NULL = no such fields. */
    void (*suggest)(gyre_config *config);
    /* *entry comes filled in with the defaults of most tables; changes it where entry [row, channel] of table `which`
     * differs.  NULL = no entry differs. */
    void (*table_entry)(const gyre_encoding *encoding, gyre_table which, int64_t row, int64_t channel,
                        gyre_table_entry *entry);

    /* -- the input place: a scheme has one of the first two -- */
    /* p(position) as rows of the trained table. */
    gyre_weighted_rows (*input_weighted_rows)(const gyre_encoding *encoding, int64_t position);
    /* A fixed p: row[c] = p(position)[first + c] for c < count, in double.  add_input.c multiplies it by input.scale and, if
     * the scheme has an input table all the same, by the one number in that. */
    void (*input_row)(const gyre_encoding *encoding, int64_t position, int64_t first, int64_t count, double *row);
    /* row[c] = factor p(position)[c], all channels, in float, from a cache.  out = 1, or 0 if position is not cached; row is
     * then unchanged.  NULL = nothing is cached. */
    int (*input_row_f32)(const gyre_encoding *encoding, int64_t position, float factor, float *row);

    /* -- the score place -- */
    /* out[j] = b(head, q, k[j]) for n keys, in double.  NULL = no bias.  A scheme without bias_tile promises that b depends
     * on k - q alone: attention then asks once for each distance in a tile. */
    void (*bias_row)(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_bias_row *row, double *out);
    /* gradient += the gradient of sum over j of dscore[j] b(head, q, k[j]) to the bias table, into column `column` of a view
     * shaped as the table.  NULL = no trained bias. */
    void (*bias_row_gradient)(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_bias_row *row,
                              const double *dscore, const gyre_view *gradient, int64_t column);
    /* A whole tile in float: scores[i * ld + j] += b(head, q[i], k[j]).  If the scheme decays, minus b(head, q[i],
     * nearest[i]), with the difference formed before it is rounded: the bias itself may be so large that float cannot
     * distinguish neighbours apart.  NULL = attention uses bias_row. */
    void (*bias_tile)(const gyre_encoding *encoding, const gyre_tables *tables, int64_t head, const gyre_bias_tile *tile);
    /* With encoding->product_channels: turns[j], j < n, is what the product of the other channels of a query at q and
     * a key at k[j] is multiplied by to be a phase in revolutions.  It depends on |k[j] - q| alone. */
    void (*phase_row)(const gyre_encoding *encoding, int64_t q, const int64_t *k, int64_t n, double *turns);
} gyre_scheme;

#endif
