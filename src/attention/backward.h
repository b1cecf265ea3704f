/* backward.h: what the parts of gyre_attention_gradient share. */
#ifndef GYRE_ATTENTION_BACKWARD_H
#define GYRE_ATTENTION_BACKWARD_H
#include "attention/tiles.h"

/* Tiles of queries that meet a tile of keys before the next one does.  What a tile of keys takes (its keys twice, values and
 * both gradients: 320 KiB at 128 channels) then comes from far away once for all of them, and they still fit beside it in a
 * cache of 1 MiB. */
enum { TILES_AT_ONCE = 4 };

/* What one job of the gradient holds beside its key side. */
typedef struct gyre_gradient_job {
    gyre_query_buffers q[TILES_AT_ONCE]; /* each with rows of its own; they share the rest */
    gyre_table_buffers tables;
} gyre_gradient_job;

/* Pointers into a job's part of the scratch, or, with memory NULL, only the bytes that takes. */
size_t gyre_gradient_job_layout(const gyre_attention_plan *plan, char *memory, gyre_gradient_job *job);
/* dq, dk and dv of one item, and its part of the tables' gradients. */
void gyre_gradient_of_item(const gyre_attention_call *call, int64_t item, gyre_key_buffers *keys, gyre_gradient_job *job);

/* The score that no key has: GYRE_OK, or what is wrong with the memory for its gradient. */
gyre_status gyre_sink_gradient_check(const gyre_attention_plan *plan, const gyre_table_gradients *gradients);
/* Adds its gradient to the caller's memory. */
void gyre_sink_gradient(gyre_attention_call *call, const gyre_exec *exec);

#endif
