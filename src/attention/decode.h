/* decode.h: few queries against many keys that lie in memory as they are, read once, in whatever type they have. */
#ifndef GYRE_ATTENTION_DECODE_H
#define GYRE_ATTENTION_DECODE_H
#include "attention/partials.h"
#include "attention/tiles.h"

enum { MAX_HEADS_TOGETHER = 32 }; /* key heads read together, at most */

/* 1: the pass is few queries (at most MAX_DECODE_QUERIES) and its scheme is one that decode.c knows how to do: rotations
 * that neither fade nor turn otherwise far away, and numbers on scores by gyre_scheme.bias_tile or score_row.  No vectors by
 * distance, no biases of the query. */
int gyre_decode_supported(const gyre_attention_plan *plan);
/* out = how many key heads one call of gyre_decode_split takes at most. */
int64_t gyre_decode_heads_together(const gyre_attention_plan *plan);
/* Scratch of one job. */
size_t gyre_decode_bytes(const gyre_attention_plan *plan);
/* Some items of a batch row, plan->beside at most, and a part of its keys; first is a multiple of KEY_TILE. */
typedef struct gyre_decode_task {
    int64_t item, items, first, count;
} gyre_decode_task;
/* out[i] = those keys for item + i, masked, capped, windowed as plan->args has it.  keys: where all keys of the batch row
 * are.  strange[i] = 1 where a value or what came of it is infinite or NaN: then the item is to be done over by tiles, which
 * know what a weight of 0 hides; else 0. */
void gyre_decode_split(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_decode_task *task,
                       char *memory, const gyre_partial *out, int *nonfinite);

#endif
