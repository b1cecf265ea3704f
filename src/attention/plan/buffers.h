/* buffers.h: the working memory of a job.  tiles/scratch.h has its place in the scratch. */
#ifndef GYRE_ATTENTION_BUFFERS_H
#define GYRE_ATTENTION_BUFFERS_H
#include "attention/plan/attention_plan.h"
#include "call/arena.h"

/* -- keys -- */
typedef struct gyre_key_tile {
    int64_t low, high;            /* of positions */
    int64_t order_min, order_max; /* of gyre_key_buffers.order */
    int64_t count;
    int64_t center;          /* xPos: the position that magnitudes of the keys are relative to */
    int sorted, consecutive; /* sorted: `order` never falls.  consecutive: each position is the one before + 1 */
    int k_finite, v_finite;  /* gradient */
} gyre_key_tile;

/* The keys and values of one item (gradient) or of one tile of it (forward).  Rows past the last key are zeros.
 * k_columns, k_rows and dk_rows: by variant (core/rotation/far_variants.h). */
typedef struct gyre_key_buffers {
    int64_t *positions; /* of all keys of the batch row, as are order and tiles */
    int64_t *order;     /* what visibility is decided by: positions, or the index in the sequence */
    gyre_key_tile *tiles;
    int v_finite;              /* forward: of the tile in the buffers, before zeros took the place of other values */
    int zero_nonfinite;        /* fixed order: 1 = infinite and NaN values are read as zeros */
    int64_t first_buffer_tile; /* the tile that comes first in the arrays below; forward: the only one */
    float *k_columns[GYRE_MAX_KEY_VARIANTS]; /* [tile][head_pad][KEY_TILE]: rotated keys, transposed */
    float *k_rows[GYRE_MAX_KEY_VARIANTS];    /* gradient: [tile][KEY_TILE][head_pad] */
    float *dk_rows[GYRE_MAX_KEY_VARIANTS];   /* gradient: as k_rows */
    float *v_rows;                           /* forward: [tile][KEY_TILE][value_pad] */
    float *k_scale, *v_scale;                /* with key_scales_apart, value_scales_apart: [KEY_TILE] */
    float *v_columns;                        /* gradient: [tile][value_pad][KEY_TILE] */
    float *dv_rows;                          /* gradient: [tile][KEY_TILE][value_pad] */
    double *dgate_sums;                      /* gradient, with gates: [query heads of an item][tile][KEY_TILE] */
} gyre_key_buffers;

/* -- tables -- */
/* A vector table of one head, in floats. */
typedef struct gyre_packed_table {
    int64_t head;       /* -1 = none yet */
    int finite, shared; /* finite: the caller's rows are.  shared: all heads use this one */
    int zero_nonfinite; /* fixed order, V: 1 = infinite and NaN entries are packed as zeros */
    float *rows;        /* [rows][pad] */
    float *columns;     /* [pad][row_pad] */
    float *gradient;    /* [heads of an item][rows][pad] */
} gyre_packed_table;

/* The distance of query i and key j of a tile pair is entry offset[i] + j of `distance`. */
typedef struct gyre_table_buffers {
    int64_t offset[QUERY_TILE], entries;
    int distinct;      /* each distance is listed once, in order */
    int row_steps;     /* distinct, and from one distance to the next the row changes by 0 or 1, always the same way */
    int toeplitz;      /* distinct, and the positions of the queries are consecutive */
    int64_t *distance; /* [QUERY_TILE * KEY_TILE], as are row, row_reversed, score_bias and dscore_bias */
    int32_t *row, *row_reversed;  /* row_reversed: last distance first; only with a key table */
    float *score_bias;            /* added to the score */
    double *dscore_bias;          /* gradient */
    double *cached_bias;          /* [queries + keys]: biases of head cached_bias_head, from table.first_distance on */
    int64_t cached_bias_head;     /* -1 = none yet */
    float *query_products;        /* [QUERY_TILE][ROW_BLOCK]: queries times a block of table rows */
    float *key_products;          /* [ROW_BLOCK][KEY_BLOCK]: a block of table rows times keys */
    float *factor_columns;        /* with factors: [head_pad][FACTOR_COLUMNS]: rows of the query table by distance */
    float *factored_rows;         /* with factors: [QUERY_TILE][head_pad]: queries times one row */
    double *dbias;                /* gradient: [bias_rows][heads of an item] */
    int q_finite;                 /* gradient: of table_rows of the query tile */
    float *dq_rows;               /* gradient: of table_rows */
    double *dcontent, *dposition; /* gradient: [heads of an item][head_pad], of the two query biases */
    gyre_packed_table query, key, value;
} gyre_table_buffers;

/* -- queries -- */
/* What a gradient adds to a tile of queries. */
typedef struct gyre_query_gradient {
    double dgate_sums[QUERY_TILE];     /* with gates: to the gate sums of the queries */
    float delta[QUERY_TILE];           /* dout . out - dlse */
    int q_finite, dout_finite;         /* of q_rows; of dout_rows */
    float *dout_rows;                  /* as out_rows */
    float *dq_rows[GYRE_MAX_VARIANTS]; /* as q_rows */
    float *dscores;                    /* as scores */
    float *cap_slope;                  /* derivative of the softcap, as scores; NULL without one */
} gyre_query_gradient;

/* What phases add, as scores. */
typedef struct gyre_query_phases {
    float *products; /* of the second part; gradient: then the derivative of the score by them, then dscores times that */
    float *cosines;  /* NULL: not wanted, in a forward */
} gyre_query_phases;

/* What xPos adds: queries for one tile of keys, and by what they are multiplied for it. */
typedef struct gyre_query_xpos {
    float *rows, *decay; /* as q_rows[0]; [head_pad] */
} gyre_query_xpos;

/* A tile of queries and a tile of scores: what forward and gradient have in common, and the parts that a call may have. */
typedef struct gyre_query_buffers {
    int64_t positions[QUERY_TILE], order[QUERY_TILE]; /* order: as in gyre_key_buffers */
    int64_t batch, head, first, count;
    int64_t low, high, order_min, order_max; /* of positions; of order */
    int64_t nearest[QUERY_TILE];    /* decaying biases: position of the nearest visible key; the query's own if none is */
    double bias[QUERY_TILE];        /* of the row at that key: scores are relative to it (terms/biases.h); 0 if none fall */
    double scheme_bias[QUERY_TILE]; /* the part of the scheme: b(head, row, nearest) */
    double gate_sum[QUERY_TILE];    /* with gates: that of the key */
    float row_max[QUERY_TILE];      /* largest score so far; gradient: log-sum-exp of the row */
    double row_sum[QUERY_TILE];     /* of exp(score - row_max) */
    float scale[QUERY_TILE];        /* of the call, times the temperature of the row */
    float temperature[QUERY_TILE];
    float *q_rows[GYRE_MAX_VARIANTS]; /* [variant]: [QUERY_TILE][head_pad], rotated and scaled */
    float *near_q_rows;               /* q_rows[0] or xpos.rows: multiplied with keys of variant 0 */
    float *table_rows;                /* multiplied with the query table: q_rows[0], or queries with a bias of their own */
    float *out_rows;                  /* [QUERY_TILE][value_pad] */
    float *scores;                    /* [QUERY_TILE][KEY_TILE]; the softmax turns them into weights */
    float *variant_scores;            /* as scores, of a variant past the first of a tile pair; NULL with one variant */
    float *key_rows;                  /* [KEY_TILE][max(head_pad, value_pad)]: keys or values before the transpose */
    gyre_table_buffers *tables;       /* of the job; unused without tables */
    gyre_query_xpos xpos;             /* NULL without xPos */
    gyre_query_phases phases;         /* NULL without phases */
    gyre_query_gradient *gradient;    /* NULL in a forward */
} gyre_query_buffers;

/* -- a part of the work -- */
/* Tokens first .. first + count - 1 of one head of one batch row. */
typedef struct gyre_row_range {
    int64_t batch, head, first, count;
} gyre_row_range;

/* One query: position and order as in gyre_query_buffers, and its index in the views. */
typedef struct gyre_query_token {
    int64_t position, order;
    int64_t batch, query, head;
} gyre_query_token;

/* A tile of queries and the part of a tile of keys that it sees. */
typedef struct gyre_tile_pair {
    int64_t tile;
    int64_t buffer_tile;             /* index of the tile in the key buffers */
    int64_t first, count;            /* keys first .. first + count - 1 of the tile; first is a multiple of 16 */
    int64_t columns;                 /* count rounded up to a multiple of 16 */
    int masked;                      /* some of the rows x columns are not visible */
    int first_variant, last_variant; /* of its pairs: no variant outside this range occurs */
    const gyre_key_tile *keys;
} gyre_tile_pair;

#endif
