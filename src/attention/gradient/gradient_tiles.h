/* gradient_tiles.h: the gradient of one item. */
#ifndef GYRE_ATTENTION_GRADIENT_TILES_H
#define GYRE_ATTENTION_GRADIENT_TILES_H
#include "attention/tiles/scratch.h"

/* Tiles of queries that use a tile of keys before the next tile of keys does.  A tile of keys takes 320 KiB at 128 channels
 * (keys in rows and columns, values, both gradients), which is then read from memory once for all of them, and the tiles of
 * queries still fit beside it in a cache of 1 MiB. */
enum { TILES_AT_ONCE = 4 };

/* What a job holds in addition to its key buffers. */
typedef struct gyre_gradient_job {
    gyre_query_buffers q[TILES_AT_ONCE]; /* each with its own rows; they share the rest */
    gyre_query_gradient gradient[TILES_AT_ONCE];
    gyre_table_buffers tables;
} gyre_gradient_job;

/* *job (NULL = only count) = pointers into the memory of a job; out = bytes. */
size_t gyre_gradient_job_layout(const gyre_attention_plan *plan, char *memory, gyre_gradient_job *job);
/* Writes dq, dk and dv of one item; leaves its part of the gradients of the tables in job->tables. */
void gyre_gradient_of_item(const gyre_attention_call *call, int64_t item, gyre_key_buffers *keys, gyre_gradient_job *job);

#endif
