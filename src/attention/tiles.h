/* tiles.h: what the forward and the backward pass of attention share.
 *
 * One item of work is one key head of one batch row.  Its keys are turned once, laid out by tiles and then meet the queries
 * of every head of their group, tile_rows of them at a time.  Only a tile of scores exists at any time. */
#ifndef GYRE_ATTENTION_TILES_H
#define GYRE_ATTENTION_TILES_H
#include "attention/partials.h"
#include "attention/segments.h"
#include "core/rotation/angle_table.h"
#include "kernels/kernels.h"
#include <stdatomic.h>

/* 64 queries share what a tile of keys costs: its reads, and products with table rows, of which 64 queries need little more
 * than 32 do.  Short causal calls take 32, which keeps the half-empty tiles on the diagonal small.  Past 128 keys the
 * softmax gains nothing from more. */
enum { QUERY_TILE = 64, SHORT_QUERY_TILE = 32, SHORT_QUERIES = 512, KEY_TILE = 128, ALIGNMENT = 64 };

/* A call, checked and measured. */
typedef struct gyre_attention_plan {
    const gyre_segment *segment;
    const gyre_attention_args *args; /* the pass's */
    const gyre_key_source *source;   /* likewise */
    const gyre_encoding *encoding;   /* NULL = none */
    const gyre_kernels *kernels;
    int64_t queries, keys, query_heads, key_heads, group;
    int64_t head_dim, head_pad, value_dim, value_pad; /* pad: up to a multiple of 16 */
    int64_t tile_rows, query_tiles, key_tiles, items; /* tile_rows: at most QUERY_TILE */
    int64_t window;                                   /* 0 = unlimited */
    int64_t sinks;
    float scale, softcap; /* softcap: 0 = none */
    int gradient;
    int by_order;          /* who sees whom goes by the order of tokens, not by their positions */
    int split_keys;        /* forward: so few queries that an item's keys are dealt out in parts */
    int64_t heads_at_once; /* forward: query heads of an item that meet a tile of keys together */
    int64_t chunk_tiles,
        chunks;              /* forward: query tiles of each of those heads that do, and how many such chunks there are */
    int64_t job_query_tiles; /* forward: query sides of a job, at most */
    int64_t key_splits;      /* forward: of keys, KEYS_PER_SPLIT each; 1 unless few */
    int64_t partial_rows;    /* rows of a partial, at most */
    int64_t heads_together;  /* forward: key heads that a task of few queries reads together, at most */
    int64_t key_info_sets;   /* forward: batch rows whose keys have positions of their own */
    struct gyre_rotation_plan {
        int64_t pairs; /* 0 = nothing turns */
        int64_t window;
        int far, xpos;               /* far: pairs at a distance of window and more turn otherwise; fades: xPos */
        int shared;                  /* the angles of queries are those of keys */
        int64_t sets[2];             /* by gyre_role: batch rows that have angles of their own */
        float *rows[2][2];           /* [gyre_role][far]: [sets][tokens][2][pairs] */
        const float *cached_rows[2]; /* [gyre_role]: near rows that the encoding has in its own memory, or NULL */
        int use_angle_steps;         /* rows of consecutive positions are made by these */
        gyre_angle_steps steps;
        void *angle_step_memory;
    } rotation;
    struct gyre_table_plan {
        int query, key, value, has_score_bias;  /* which the encoding has; numbers: a score that depends on distance alone */
        int content, position;                  /* biases of the query, before the keys and before the query table */
        int trains_pair_bias;                   /* numbers that depend on more than distance are trained */
        int64_t rows, row_pad;                  /* of the vector tables; row_pad leaves room to read 15 past any row */
        int64_t bias_rows;                      /* of the bias table */
        int64_t first_distance, distance_count; /* of tokens that see each other; span 0: positions are in no order */
        int64_t first_row, end_row;             /* of the vector tables, those that such distances have */
    } table;
    int uses_tables; /* one of the above: tables.c has work */
    int64_t jobs;
    /* The scratch: angles; forward: positions of keys and partials; gradient: a key side for each job; a part for each
     * job. */
    size_t angle_bytes, info_bytes, partial_bytes, key_buffer_bytes, job_bytes, bytes;
} gyre_attention_plan;

/* GYRE_OK, or what is wrong with the numbers, shapes and types of a whole call.  Touches no element but starts and ends. */
gyre_status gyre_attention_args_check(const gyre_attention_args *args, const gyre_key_source *source);
/* GYRE_OK and the plan of a pass of a call that was found right; ENOMEM where its scratch is past counting. */
gyre_status gyre_attention_plan_make(gyre_attention_plan *plan, const gyre_segment *segment, int gradient,
                                     const gyre_exec *exec);
/* Memory of the call's views. */
gyre_status gyre_attention_views_check(const gyre_attention_args *args, const gyre_key_source *source);
/* The rest of the check, before anything is written: scratch, tables, positions. */
gyre_status gyre_attention_plan_check(const gyre_attention_plan *plan, const void *scratch, size_t bytes);

/* -- scratch -- */
typedef struct gyre_key_tile {
    int64_t low, high;            /* positions */
    int64_t order_min, order_max; /* what decides who sees them: positions too, or their order */
    int64_t count;
    int sorted, consecutive; /* sorted: in what decides; steady: each position is the one before + 1 */
    int k_finite, v_finite;  /* gradient */
} gyre_key_tile;

/* The keys and values of one item, or of one tile of it.  Rows past the last key are zeros. */
typedef struct gyre_key_buffers {
    int64_t *positions; /* these three: of all keys of the batch row */
    int64_t *order;     /* what decides who sees them; mostly the positions themselves */
    gyre_key_tile *tiles;
    /* Two of each where far pairs turn otherwise: [0] near, [1] far. */
    int v_finite;              /* forward: of the tile that is held */
    int64_t first_buffer_tile; /* tile whose rows and columns come first below: forward, the only one */
    float *k_columns[2];       /* [tile][head_pad][KEY_TILE]: turned keys, transposed */
    float *k_rows[2];          /* gradient: [tile][KEY_TILE][head_pad] */
    float *dk_rows[2];         /* gradient: as k_rows */
    float *v_rows;             /* forward: [tile][KEY_TILE][value_pad] */
    float *v_columns;          /* gradient: [tile][value_pad][KEY_TILE] */
    float *dv_rows;            /* gradient: as v_rows would be */
} gyre_key_buffers;

/* A vector table of one head, in floats. */
typedef struct gyre_packed_table {
    int64_t head;       /* -1 = none yet */
    int finite, shared; /* shared: all heads have this one */
    float *rows;        /* [rows][pad] */
    float *columns;     /* [pad][row_pad] */
    float *gradient;    /* [heads of an item][rows][pad] */
} gyre_packed_table;

/* What a job holds of the tables (tables.c).  The distance of query i and key j of a meeting is entry offset[i] + j. */
typedef struct gyre_table_buffers {
    int64_t offset[QUERY_TILE], entries;
    int distinct,
        row_steps; /* each distance is listed once, in order; steps: and rows change by 0 or 1 between neighbours, one way */
    int64_t *distance;           /* [QUERY_TILE * KEY_TILE], all four */
    int toeplitz;                /* once, and the queries' positions are consecutive too */
    int32_t *row, *row_reversed; /* row_reversed: last distance first; where there is a key table */
    float *score_bias;           /* on the score */
    double *dscore_bias;         /* gradient */
    double *cached_bias;         /* [queries + keys]: numbers of head cached_bias_head, from plan->table.first_distance on */
    int64_t cached_bias_head;    /* -1 = none yet */
    float *query_products,
        *key_products;            /* products with rows low .. of a table: [QUERY_TILE][ROW_BLOCK], [ROW_BLOCK][KEY_BLOCK] */
    double *dbias;                /* gradient: [bias_rows][heads of an item] */
    int q_finite;                 /* gradient: the table_rows of the query side are */
    float *dq_rows;               /* gradient: of those */
    double *dcontent, *dposition; /* gradient: [heads of an item][head_pad], of the two biases */
    gyre_packed_table query, key, value;
} gyre_table_buffers;

/* What one job in progress holds beside its key side: a tile of queries and a tile of scores. */
typedef struct gyre_query_buffers {
    int64_t positions[QUERY_TILE], order[QUERY_TILE];
    int64_t batch, head, first, count;
    int64_t low, high, order_min, order_max; /* of positions; of order */
    int64_t nearest[QUERY_TILE];   /* where biases decay: position of the nearest key that is seen; its own where none is */
    double bias[QUERY_TILE];       /* b(head, row, nearest): scores are relative to it; 0 where it does not decay */
    float row_max[QUERY_TILE];     /* the largest score so far; in the gradient, the row's log-sum-exp */
    double row_sum[QUERY_TILE];    /* of exp(score - top) */
    float delta[QUERY_TILE];       /* gradient: dout . out */
    float scale[QUERY_TILE];       /* the call's, times the temperature of the row */
    int nonfinite;                 /* forward: a value that these rows meet is infinite or NaN */
    int q_finite, dout_finite;     /* gradient */
    float *q_rows[2];              /* [QUERY_TILE][head_pad], turned and scaled, near and far */
    float *xpos_rows, *xpos_decay; /* xPos: as q_rows; [head_pad] */
    float *near_q_rows;            /* q_rows[0] or xpos_rows: what meets near keys */
    float *far_scores;             /* as scores */
    float *out_rows;               /* [QUERY_TILE][value_pad] */
    float *scores;                 /* [QUERY_TILE][KEY_TILE], then the weights */
    float *key_rows;               /* [KEY_TILE][the larger pad]: keys or values on their way into columns */
    float *dout_rows;              /* gradient */
    float *dq_rows[2];             /* gradient, as q_rows */
    float *dscores;                /* gradient, as scores */
    float *table_rows;             /* what the query table meets: q_rows[0], or queries with a bias of their own */
    float *cap_slope;              /* gradient under a softcap: its derivative, as scores */
    gyre_table_buffers *tables;    /* where the encoding has any; the job's */
} gyre_query_buffers;

/* Memory handed out front to back. */
typedef struct gyre_arena {
    char *memory; /* NULL = only count */
    size_t used;
} gyre_arena;
void *gyre_arena_alloc(gyre_arena *a, int64_t count, size_t size);

/* Pointers into one side's (job's) part of the scratch, or, with memory NULL, only the bytes that takes.  Gradient: all
 * tiles of an item. */
void gyre_key_info_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_key_buffers *buffers);
void gyre_key_tile_layout(const gyre_attention_plan *plan, gyre_arena *a,
                          gyre_key_buffers *buffers); /* forward: rows, columns of one */
size_t gyre_key_buffers_layout(const gyre_attention_plan *plan, char *memory, gyre_key_buffers *buffers);
/* What each tile of queries that is under way has of its own, and what a job has once for all of them (tables NULL = only
 * count). */
void gyre_query_rows_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_query_buffers *buffers);
void gyre_query_scratch_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_query_buffers *buffers,
                               gyre_table_buffers *tables);

/* -- rows in and out of the caller's views -- */
typedef struct gyre_row_range {
    int64_t batch, head, first, count;
} gyre_row_range;

/* n elements `step` apart, widened; whole numbers without their scale. */
void gyre_row_read(const gyre_kernels *kernels, const void *from, gyre_dtype dtype, int64_t step, int64_t n, float *to);
/* to[i * pad + c] = view[batch, first + i, head, c], widened; the channels from there to pad are zeros. */
void gyre_rows_read(const gyre_attention_plan *plan, const gyre_cview *view, const gyre_row_range *rows, float *to,
                    int64_t pad);
/* The same back, rounded once. */
void gyre_rows_write(const gyre_attention_plan *plan, const gyre_view *view, const gyre_row_range *rows, const float *from,
                     int64_t pad);

/* 1: some query of the batch row sees one of these keys, or it cannot be ruled out at a glance. */
int gyre_keys_visible(const gyre_attention_plan *plan, const gyre_row_range *keys);
/* Positions, order and extent of key tile t of a batch row. */
void gyre_key_info_fill(const gyre_attention_plan *plan, int64_t batch, int64_t t, gyre_key_buffers *buffers);
/* Lays out the keys and values of tile t, whose info is there, in place `held`: turned, transposed as the pass wants them.
 * key_rows: [KEY_TILE][the larger pad], to work in.  */
void gyre_key_tile_fill(const gyre_attention_plan *plan, int64_t item, int64_t t, gyre_key_buffers *buffers,
                        float *key_rows);
/* Gradient: lays out all key tiles of an item, those that no query sees left out. */
void gyre_key_buffers_fill(const gyre_attention_plan *plan, int64_t item, gyre_key_buffers *buffers,
                           gyre_query_buffers *work);
/* Reads, turns and scales a tile of queries, and finds what their biases are relative to. */
void gyre_query_buffers_fill(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_row_range *rows,
                             gyre_query_buffers *buffers);

/* -- one tile of queries against one tile of keys -- */
typedef struct gyre_tile_pair {
    int64_t tile;
    int64_t buffer_tile;  /* the tile's place among those whose rows and columns the key side holds */
    int64_t first, count; /* keys first .. first + count - 1 of the tile; first a multiple of 16 */
    int64_t columns;      /* count up to a multiple of 16 */
    int masked;           /* some of the rows x columns are not visible */
    int near, far;        /* which turns their pairs need */
    const gyre_key_tile *keys;
} gyre_tile_pair;

/* 0 where no query of the tile sees any of the keys; else 1 and the part of the tile that matters. */
int gyre_tile_pair_visible(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_query_buffers *queries,
                           int64_t tile, gyre_tile_pair *tile_pair);
/* scores = scale (E(m)q . E(n)k + q . A[r] + k . B[r]) + b - the row's bias, -infinity where not visible. */
void gyre_tile_pair_score(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                          const gyre_tile_pair *tile_pair);
/* The last of that, once the scores are whole: the softcap, the mask, and -infinity where not visible. */
void gyre_tile_pair_mask(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                         const gyre_tile_pair *tile_pair);
/* top = the largest score of each row over all tiles, -infinity where there is none; overwrites the scores. */
void gyre_tiles_row_max(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries);
/* The product with weights in a.  An entry of a that is exactly 0 adds nothing, even of an infinite or NaN b; `finite` says
 * that b holds none, and then the kernel has the same meaning. */
void gyre_weighted_sum(const gyre_attention_plan *plan, const gyre_matmul *product, int finite);

/* Rows of an online softmax, which meet tile after tile of keys. */
typedef struct gyre_online_softmax {
    int64_t rows, columns;
    float *scores;   /* [rows][KEY_TILE] */
    float *row_max;  /* [rows]: the largest score so far */
    double *row_sum; /* [rows] */
    float *out;      /* [rows][value_pad] */
} gyre_online_softmax;
/* The rows' scores -> weights, their sums brought to their new largest score. */
void gyre_online_softmax_update(const gyre_attention_plan *plan, const gyre_online_softmax *softmax);
/* A row of value_pad numbers times `factor`, of which 0 clears whatever stands there. */
void gyre_row_rescale(const gyre_attention_plan *plan, float *row, float factor);

/* -- a row that has met its keys -- */
typedef struct gyre_row_state {
    float row_max;        /* -infinity: nothing seen */
    double row_sum, bias; /* of exp(score - top); what the scores are relative to */
    float *out;           /* [value_pad]: the weighted sum of values */
} gyre_row_state;
typedef struct gyre_row_normalizer {
    float out_scale, lse; /* what out is multiplied by; the log-sum-exp of the row */
} gyre_row_normalizer;
/* With the sink's share, where the head has one. */
gyre_row_normalizer gyre_row_finish(const gyre_attention_plan *plan, int64_t head, const gyre_row_state *state);

/* Where partial `part` of an item lies, counted from `memory`; out = bytes of one.  out NULL: only those. */
size_t gyre_partials_layout(const gyre_attention_plan *plan, char *memory, int64_t item, int64_t part, gyre_partial *out);
/* *state = row `row` of the first `parts` partials of an item, added up; state->out is memory to write. */
void gyre_partials_combine(const gyre_attention_plan *plan, char *memory, int64_t item, int64_t key_splits, int64_t row,
                           gyre_row_state *state);
/* Bytes of a forward job. */
size_t gyre_forward_job_bytes(const gyre_attention_plan *plan);

/* -- jobs -- */
/* Job i of plan->jobs takes tasks from `next` until none is left, so it may use part i of the scratch as its own. */
typedef struct gyre_attention_call {
    const gyre_attention_plan *plan;
    char *scratch;
    atomic_llong next;
    int64_t tasks;
    const gyre_cview *dout;
    const gyre_view *dqkv;                 /* [3] */
    const gyre_table_gradients *gradients; /* NULL = none wanted */
    int64_t wave;                          /* with those: job i takes item wave + i */
} gyre_attention_call;

static inline char *gyre_key_buffers_memory(const gyre_attention_call *call, int64_t index) {
    const gyre_attention_plan *plan = call->plan;
    return call->scratch + plan->angle_bytes + plan->info_bytes + plan->partial_bytes +
           (size_t)index * plan->key_buffer_bytes;
}
static inline char *gyre_job_memory(const gyre_attention_call *call, int64_t job) {
    return gyre_key_buffers_memory(call, call->plan->jobs) + (size_t)job * call->plan->job_bytes;
}

#endif
