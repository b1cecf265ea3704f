/* scratch.h: the layout of the scratch of a call.
 *
 *     0            angle_bytes    + info_bytes    + partial_bytes
 *     +------------+--------------+---------------+------------------------+---------------------+
 *     | angles of  | positions of | partials, and | key buffers, one       | job memory, one     |
 *     | queries,   | keys, by     | a flag for    | set for each job       | part for each job   |
 *     | of keys    | batch row    | each item     | (gradient only)        |                     |
 *     |            | (forward)    | (forward)     |                        |                     |
 *     +------------+--------------+---------------+------------------------+---------------------+
 *
 *     job memory, forward:   key tile | scores, tables | query buffers [job_query_tiles] | their rows | decoding
 *     job memory, gradient:  scores, tables | rows of each tile of queries
 *
 * Every size is a sum of products that only grow with the number of queries, keys and batch rows.  So the scratch for
 * the most of each suffices for every smaller call, as gyre.h promises. */
#ifndef GYRE_ATTENTION_SCRATCH_H
#define GYRE_ATTENTION_SCRATCH_H
#include "attention/plan/buffers.h"
#include <stdatomic.h>

/* These set pointers to parts of an arena, or only count (see arena.h). */
/* Positions, order and tiles of the keys of one batch row. */
void gyre_key_info_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_key_buffers *buffers);
/* Forward: keys and values of one tile. */
void gyre_key_tile_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_key_buffers *buffers);
/* Gradient: all key buffers of one item, from `memory` on; out = bytes.  memory NULL: only count. */
size_t gyre_key_buffers_layout(const gyre_attention_plan *plan, char *memory, gyre_key_buffers *buffers);
/* The rows of one tile of queries, and of its gradient if it has one. */
void gyre_query_rows_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_query_buffers *buffers);
/* What all query tiles of a job share.  tables NULL = only count. */
void gyre_query_scratch_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_query_buffers *buffers,
                               gyre_table_buffers *tables);

/* A segment being computed.  Job i of plan->jobs takes tasks from `next` until none is left, and uses part i of the job
 * memory. */
typedef struct gyre_attention_call {
    const gyre_attention_plan *plan;
    char *scratch;
    atomic_llong next;
    int64_t tasks;
    const gyre_cview *dout, *dlse;         /* dlse: data NULL = 0 */
    const gyre_view *dqkv;                 /* [3] */
    const gyre_table_gradients *gradients; /* NULL = none wanted */
    int64_t wave;                          /* with gradients: job i computes item wave + i */
} gyre_attention_call;

static inline char *gyre_partial_memory(const gyre_attention_call *call) {
    return call->scratch + call->plan->angle_bytes + call->plan->info_bytes;
}
static inline char *gyre_key_buffers_memory(const gyre_attention_call *call, int64_t index) {
    return gyre_partial_memory(call) + call->plan->partial_bytes + (size_t)index * call->plan->key_buffer_bytes;
}
static inline char *gyre_job_memory(const gyre_attention_call *call, int64_t job) {
    return gyre_key_buffers_memory(call, call->plan->jobs) + (size_t)job * call->plan->job_bytes;
}

#endif
