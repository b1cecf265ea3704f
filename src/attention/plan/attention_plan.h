/* attention_plan.h: all that is decided about a segment before any work.  attention_planner.h makes it; every later step
 * reads it.
 *
 * Queries and keys are cut into tiles.  An item is one key head of one batch row with the query heads that share it (its
 * group).  Its keys are rotated once and laid out by tiles, and each tile of keys is multiplied with the query tiles of all
 * heads of the group.  At any time a job holds one tile of scores.
 *
 *                 keys of an item, KEY_TILE columns each
 *               +---------+---------+---------+--
 *     queries   |  pair   |         |  masked |      row max, row sum and the weighted sum of values
 *     tile_rows | (0, 0)  | (0, 1)  | (0, 2)  |      are carried from tile to tile of a row
 *               +---------+---------+---------+--
 *               | (1, 0)  |         |         |      causal tiles above the diagonal are skipped */
#ifndef GYRE_ATTENTION_ATTENTION_PLAN_H
#define GYRE_ATTENTION_ATTENTION_PLAN_H
#include "attention/plan/segment.h"
#include "call/tile_rows.h"
#include "core/encoding.h"
#include "core/rotation/angle_table.h"
#include "core/rotation/far_variants.h"
#include "core/view.h"

#include <math.h>

/* Short causal calls take smaller tiles of queries, which keeps the half-empty tiles on the diagonal small.  Among many keys
 * the diagonal counts for little, and each key read serves more queries of a larger tile. */
enum { SHORT_QUERY_TILE = 32, SHORT_QUERIES = 512, SHORT_KEYS = 2048 };

/* The decoding path serves up to MAX_DECODE_QUERIES queries.  It splits the keys into parts of KEYS_PER_SPLIT, a multiple of
 * KEY_TILE, and reads at most MAX_HEADS_TOGETHER key heads together. */
enum { MAX_DECODE_QUERIES = 8, KEYS_PER_SPLIT = 1024, MAX_HEADS_TOGETHER = 32 };

typedef struct gyre_rotation_plan {
    int64_t pairs;         /* 0 = nothing is rotated */
    int variants[2], xpos; /* variants: [gyre_role] (far_variants.h).  xpos: magnitudes decay */
    int shared;            /* queries and keys have the same angles */
    int64_t sets[2];       /* [gyre_role]: batch rows with angles of their own; 0: none are needed */
    int64_t query_rows;    /* queries of a set whose angles are stored; those of the others are computed when used */
    float *rows[2][GYRE_MAX_VARIANTS]; /* [gyre_role][variant]: [sets][query_rows or keys][2][pairs], cos then sin */
    const float *cached_rows[2];       /* [gyre_role]: the rows of the only variant in the encoding's own table, or NULL */
    int use_angle_steps;               /* rows of consecutive positions are computed from `steps` */
    gyre_angle_steps steps;
    void *angle_step_memory;
} gyre_rotation_plan;

/* Channels first .. first + count - 1 of a head.  In rows of floats they begin at channel `at`, a multiple of 16, and are
 * padded with zeros to `pad`, so that products of a part go by whole vectors. */
typedef struct gyre_channel_part {
    int64_t first, count, at, pad;
} gyre_channel_part;
enum { MAX_PARTS = 2 };

typedef struct gyre_table_plan {
    int query, key, value, has_score_bias;  /* terms of the encoding; has_score_bias: b depends on distance alone */
    int factors;                            /* instead of query: the query table multiplies (terms/factors.h) */
    int content, position;                  /* biases of the query: before the keys, before the query table */
    int trains_pair_bias;                   /* a bias that depends on more than distance is trained */
    gyre_channel_part query_part;           /* of queries: what the query table is multiplied with */
    int64_t rows, row_pad;                  /* of the vector tables; row_pad leaves room to read 15 past any row */
    int64_t bias_rows;                      /* of the bias table */
    int64_t first_distance, distance_count; /* of visible pairs; count 0: positions are not consecutive */
    int64_t first_row, end_row;             /* rows of the vector tables that such distances use */
} gyre_table_plan;

/* What threads that compute call between tiles: exchanges of a ring move on there. */
typedef struct gyre_between_tiles {
    void (*fn)(void *ctx);
    void *ctx;
} gyre_between_tiles;

typedef struct gyre_attention_plan {
    const gyre_segment *segment;
    const gyre_attention_inputs *args; /* of the segment */
    const gyre_key_source *source;     /* of the segment */
    const gyre_encoding *encoding;     /* NULL = none */
    const gyre_kernels *kernels;
    int64_t queries, keys, query_heads, key_heads, group; /* group: query heads for each key head */
    int64_t head_dim, head_pad, value_dim, value_pad;     /* pad: rounded up to a multiple of 16, head_pad each part */
    int64_t key_dim;                                      /* channels of keys that are read: head_dim, or those of part 0 */
    gyre_channel_part part[MAX_PARTS]; /* of queries and keys: one, or amplitudes and phases (terms/phases.h), or what keys
                                        * and what the query table are multiplied with */
    int parts, products;               /* products: of queries and keys, each over a part; 2 with phases */
    int64_t tile_rows, query_tiles, key_tiles, items; /* tile_rows: at most QUERY_TILE */
    int64_t window, window_after;                     /* distances before and after a query below which it sees keys; 0 =
                                                           * unlimited.  window_after: 0 in causal calls */
    int64_t sinks;
    float scale, softcap; /* softcap: 0 = none */
    int gradient;
    int is_double;              /* queries, keys and values are doubles: double/ computes the segment */
    int by_order;               /* visibility goes by the order of tokens, not by their positions */
    int fixed_order;            /* GYRE_ORDER_FIXED, forward only */
    int bf16_keys, bf16_values; /* 1: their floats are bf16, and not in the fixed order: matmul_bf16 multiplies them */
    int continues; /* rows begin at args->state and go on in the fixed order; in the fast one they are added to it */
    /* Fixed order, Q8: scores and weights are multiplied by the scales of keys and values, so that few queries need not
     * widen values.  0: the rows are, as products with tables need. */
    int key_scales_apart, value_scales_apart;
    /* Forward only. */
    int split_keys;              /* few queries: the keys of an item are split among jobs */
    int64_t heads_at_once;       /* query heads of an item multiplied with a tile of keys together */
    int64_t chunk_tiles, chunks; /* query tiles of each of those heads in a task; such tasks for each set of heads */
    int64_t job_query_tiles;     /* query buffers of a job, at most */
    int64_t split_keys_each;     /* keys of a split: KEYS_PER_SPLIT; all of them in the fixed order */
    int64_t key_splits;          /* such parts, at least 1 */
    int64_t most_straight_keys;  /* gyre_decode_most_straight_keys */
    int straight_kernel;         /* gyre_straight_suits */
    int64_t partial_rows;        /* rows of a partial, at most */
    int64_t heads_together;      /* key heads that a decoding task reads together, at most */
    int64_t key_info_sets;       /* batch rows whose keys have positions of their own */
    gyre_rotation_plan rotation;
    gyre_table_plan table;
    int uses_tables;                   /* terms/tables.h has work */
    int gated;                         /* the call has gate sums */
    const gyre_between_tiles *between; /* NULL = nothing */
    int64_t jobs;
    size_t angle_bytes, info_bytes, partial_bytes, key_buffer_bytes, job_bytes, bytes; /* scratch: tiles/scratch.h */
} gyre_attention_plan;

static inline void gyre_between(const gyre_attention_plan *plan) {
    if (plan->between) plan->between->fn(plan->between->ctx);
}

/* out = what products of queries and keys are multiplied by. */
static inline double gyre_score_scale(const gyre_attention_plan *plan) {
    const double terms = plan->encoding ? plan->encoding->score_terms : 1;
    return plan->args->scale != 0 ? plan->args->scale : 1 / sqrt((double)plan->part[0].count * terms);
}

/* out = the index in the call of head `head` of the segment: that of tables, slopes, sink logits and dropout. */
static inline int64_t gyre_head_in_call(const gyre_attention_plan *plan, int64_t head) {
    return plan->segment->head_first + head;
}

/* out = the variant of the keys that queries of variant `variant` see. */
static inline int gyre_key_variant(const gyre_attention_plan *plan, int variant) {
    const int last = plan->rotation.variants[GYRE_ROLE_KEY] - 1;
    return variant < last ? variant : last;
}

/* out = the slope that the call gives to a query head of a batch row of the segment; NULL = none. */
static inline const float *gyre_slope_of_call(const gyre_attention_plan *plan, int64_t batch, int64_t head) {
    const gyre_cview *slopes = &plan->args->slopes;
    return slopes->data ? gyre_cview_at(slopes, batch, 0, gyre_head_in_call(plan, head), 0) : NULL;
}

/* out = rows of a query tile. */
static inline int64_t gyre_query_tile_rows(const gyre_attention_inputs *args) {
    const int is_short = args->q.shape[1] <= SHORT_QUERIES && args->k.shape[1] <= SHORT_KEYS;
    return args->causal && is_short ? SHORT_QUERY_TILE : QUERY_TILE;
}

#endif
