/* adaptive_plan.h: what a checked call computes, and the memory that its jobs work in.
 *
 * The network reads all heads of a pair, so a tile is ADAPTIVE_ROWS queries by KEY_TILE keys of all heads.  Numbers of
 * its pairs are in planes, one for each head:
 *
 *     plane [rows][KEY_TILE]            a layer of the network is then a product of a matrix with planes:
 *     x     [heads of A | of B][plane]  hidden [W][pairs] = hidden_weights [W][inputs] x [inputs][pairs]
 *
 * It is computed for NETWORK_ROWS rows at a time, whose hidden units stay in a near cache.  From plane to plane and from
 * unit to unit there is a gap of a cache line: at a power of two of bytes from each other, all would share one set of a
 * cache. */
#ifndef GYRE_ADAPTIVE_PLAN_H
#define GYRE_ADAPTIVE_PLAN_H
#include "call/call_steps.h"
#include "call/tile_rows.h"
#include "gyre/gyre_adaptive.h"
#include "kernels/kernels.h"

enum {
    ADAPTIVE_ROWS = 64,
    NETWORK_ROWS = 4,
    NETWORK_PAIRS = NETWORK_ROWS * KEY_TILE,
    PLANE_GAP = 16,
    UNIT_STRIDE = NETWORK_PAIRS + PLANE_GAP,
    MAX_DISTANCES = 256,              /* of a tile, for schemes whose bias depends on the distance alone */
    GRADIENT_ROWS = 4 * ADAPTIVE_ROWS /* queries of a task of the gradient, whose sums are added in order */
};

typedef struct gyre_adaptive_plan {
    const gyre_adaptive_args *args; /* scale and slope not 0 */
    gyre_key_source source;         /* of keys and values */
    const gyre_cview *dout;         /* NULL: forward */
    const gyre_adaptive_gradients *gradients;
    const gyre_kernels *kernels;
    int biased; /* 1: there are biases, of a scheme or of the caller */
    int adds;   /* 1: the network reads A + B */
    int64_t sequences, heads, key_heads, group, inputs, width;
    int64_t head_pad, value_pad, table_rows;
    int64_t row_tiles, most_keys; /* of a sequence: tiles of queries, and of keys */
    int64_t jobs;
    size_t shared_bytes, job_bytes; /* of scratch: shared_bytes + jobs * job_bytes */
} gyre_adaptive_plan;

/* The network in floats, which all jobs read. */
typedef struct gyre_adaptive_weights {
    float *hidden, *hidden_bias; /* [W][inputs], [W] */
    float *output;               /* [heads][W + 1], the bias last: it belongs to a hidden unit that is always 1 */
} gyre_adaptive_weights;

/* Gradients that are summed over pairs. */
typedef struct gyre_adaptive_sums {
    double *dhidden, *dhidden_bias, *doutput; /* shaped as the weights */
    double *dtable;                           /* [table rows][heads] */
    float *dk, *dv;                           /* [key heads][key tiles][KEY_TILE][head_pad or value_pad] */
} gyre_adaptive_sums;

/* Rows first .. first + count - 1 of the queries of a sequence, all heads: a tile, or a task of the gradient. */
typedef struct gyre_adaptive_task {
    int64_t sequence, first, count;
} gyre_adaptive_task;

/* The working memory of a job. */
typedef struct gyre_adaptive_buffers {
    const gyre_adaptive_plan *plan;
    gyre_adaptive_weights weights;
    /* the tile of rows */
    int64_t sequence_index, first, rows; /* queries first .. first + rows - 1 of the sequence */
    gyre_call_sequence sequence;
    gyre_query_rows all_rows; /* of all heads */
    int64_t q_positions[ADAPTIVE_ROWS], k_positions[KEY_TILE];
    float *q_rows;   /* [heads][rows][head_pad]: queries times scale */
    float *out_rows; /* [heads][rows][value_pad] */
    float *row_max;  /* [heads][rows] */
    double *row_sum; /* [heads][rows] */
    /* the tile of keys */
    float *key_rows, *key_columns; /* [KEY_TILE][head_pad], [head_pad][KEY_TILE], of one key head */
    float *value_rows;             /* [KEY_TILE][value_pad], of one key head */
    float *x;                      /* [2 heads][plane] */
    float *hidden;                 /* [W + 1][UNIT_STRIDE], the last row ones */
    float *scores;                 /* [heads][plane]; forward: those of A in x */
    /* the gradient alone */
    float *value_columns;       /* [value_pad][KEY_TILE] */
    float *dout_rows, *dq_rows; /* as out_rows and q_rows */
    float *lse, *delta;         /* [heads][rows] */
    float *dscores;             /* as scores */
    float *units, *dunits;      /* [W][UNIT_STRIDE]: hidden units before the ReLU, and the gradient to them */
    gyre_adaptive_sums sums;    /* of a task */
    int q_finite, dout_finite;
} gyre_adaptive_buffers;

/* What the jobs of a gradient add up to. */
typedef struct gyre_adaptive_totals {
    gyre_adaptive_task *tasks; /* [jobs]: of a wave */
    gyre_adaptive_sums sums;   /* dk and dv: of the sequence that the last task is of */
} gyre_adaptive_totals;

GYRE_CALL_KIND(adaptive);

/* The parts of scratch. */
void gyre_adaptive_shared(const gyre_adaptive_plan *plan, char *scratch, gyre_adaptive_weights *weights,
                          gyre_adaptive_totals *totals);
void gyre_adaptive_job(const gyre_adaptive_plan *plan, char *scratch, int64_t job, gyre_adaptive_buffers *buffers);

static inline gyre_call_sequence gyre_adaptive_sequence(const gyre_adaptive_plan *plan, int64_t sequence) {
    const gyre_call_batch batch = GYRE_CALL_BATCH(plan->args);
    return gyre_call_sequence_at(&batch, sequence);
}
/* out = keys of a sequence that dk and dv have room for. */
static inline int64_t gyre_adaptive_keys_padded(const gyre_adaptive_plan *plan) {
    return plan->most_keys * KEY_TILE;
}

#endif
