/* contextual_plan.h: what a checked call computes, and the memory that its jobs work in. */
#ifndef GYRE_CONTEXTUAL_PLAN_H
#define GYRE_CONTEXTUAL_PLAN_H
#include "call/call_steps.h"
#include "call/tile_rows.h"
#include "gyre/gyre_contextual.h"
#include "kernels/kernels.h"

enum { ROWS_AT_ONCE = 4 };

/* Tiles are QUERY_TILE rows by KEY_TILE keys.  An item is a key head of a sequence.  Its rows are (query, query head of the
 * group), the head fastest, so that the rows of few queries share a tile of keys. */
typedef struct gyre_contextual_plan {
    const gyre_contextual_args *args;    /* scales not 0 */
    gyre_key_source source, gate_source; /* of keys and values; of gate keys, if they are apart */
    const gyre_cview *dout;              /* NULL: forward */
    const gyre_contextual_gradients *gradients;
    const gyre_kernels *kernels;
    int gates_apart; /* there are gate_keys */
    int64_t sequences, key_heads, group, items;
    int64_t head_pad, value_pad;
    int64_t most_rows, most_keys;   /* of an item: row tiles, and key tiles */
    int64_t embedding_heads, z_pad; /* columns of products with embeddings: the reachable positions and one more, which
                                        * is 0 */
    int64_t rows_at_once, chunks;   /* row tiles that a job reads the keys for; such parts of an item */
    int64_t jobs;
    size_t shared_bytes, job_bytes; /* of scratch: shared_bytes + jobs * job_bytes */
} gyre_contextual_plan;

/* Embeddings times position_scale, which all jobs read. */
typedef struct gyre_contextual_embeddings {
    float *rows;    /* [embedding_heads][z_pad][head_pad] */
    float *columns; /* [embedding_heads][head_pad][z_pad] */
} gyre_contextual_embeddings;

/* A tile of keys, and what is computed with one tile of rows at a time.  The row tiles of a job share it. */
typedef struct gyre_contextual_keys {
    int64_t item, tile;              /* whose keys are here; item -1: none yet */
    int has_k, has_gates, has_v;     /* which of them were read.  Without gates apart gate_* and dgates are those of k */
    float *k_rows, *k_columns;       /* [KEY_TILE][head_pad], [head_pad][KEY_TILE] */
    float *gate_rows, *gate_columns; /* the same */
    float *v_rows, *v_columns;       /* [KEY_TILE][value_pad]; the gradient alone: [value_pad][KEY_TILE] */
    float *scores, *gate_logits;     /* [QUERY_TILE][KEY_TILE] */
    float *dscores, *dgates;         /* the gradient alone: the same */
} gyre_contextual_keys;

/* The working memory of a tile of rows, and of the item that a job computes the gradient of. */
typedef struct gyre_contextual_buffers {
    const gyre_contextual_plan *plan;
    gyre_contextual_embeddings embeddings;
    gyre_contextual_keys *keys;
    int64_t item;
    /* the rows of a tile */
    gyre_call_sequence sequence;
    gyre_query_rows all_rows;
    int64_t key_head, first_row, rows, z_columns; /* z_columns: those that these rows reach */
    int64_t visible[QUERY_TILE];                  /* each row sees keys 0 .. visible - 1.  Not falling */
    double position[QUERY_TILE];                  /* where each row has counted to, from its last key on */
    float *q_rows;                                /* [QUERY_TILE][head_pad] */
    float *z;                                     /* [QUERY_TILE][z_pad]: q . e */
    float *out_rows;                              /* [QUERY_TILE][value_pad] */
    float row_max[QUERY_TILE];
    double row_sum[QUERY_TILE];
    /* the gradient alone */
    float *dout_rows, *dq_rows, *dz; /* as out_rows, q_rows and z */
    float *dk, *dv, *dgate_keys;     /* [key tiles][KEY_TILE][head_pad or value_pad], of an item */
    float *dembeddings;              /* [group or 1][z_pad][head_pad], of an item */
    double *starts;                  /* [key tiles][QUERY_TILE]: position of each row before its scan of a tile */
    double carry[QUERY_TILE];        /* what changes of the positions of earlier keys add to the gates */
    float lse[QUERY_TILE], delta[QUERY_TILE];
    int q_finite, dout_finite;
} gyre_contextual_buffers;

GYRE_CALL_KIND(contextual);

/* The parts of scratch.  buffers[rows_at_once] */
void gyre_contextual_shared(const gyre_contextual_plan *plan, char *scratch, gyre_contextual_embeddings *embeddings);
void gyre_contextual_job(const gyre_contextual_plan *plan, char *scratch, int64_t job, gyre_contextual_keys *keys,
                         gyre_contextual_buffers *buffers);

/* out = the sequence of an item. */
static inline gyre_call_sequence gyre_contextual_sequence_of(const gyre_contextual_plan *plan, int64_t item) {
    const gyre_call_batch batch = GYRE_CALL_BATCH(plan->args);
    return gyre_call_sequence_at(&batch, item / plan->key_heads);
}

#endif
