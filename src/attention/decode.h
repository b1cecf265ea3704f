/* decode.h: few queries against many keys that lie in memory as they are, read once, in whatever type they have. */
#ifndef GYRE_ATTENTION_DECODE_H
#define GYRE_ATTENTION_DECODE_H
#include "attention/partials.h"
#include "attention/tiles.h"

/* 1: the pass is few queries (at most FEW_QUERIES) and its scheme is one that decode.c knows how to do: rotations that
 * neither fade nor turn otherwise far away, and numbers on scores by gyre_scheme.score_tile or score_row.  No vectors by
 * distance, no biases of the query. */
int gyre_decode_serves(const gyre_attention_plan *plan);
/* Scratch of one job. */
size_t gyre_decode_bytes(const gyre_attention_plan *plan);
/* *out = keys first .. first + count - 1 of an item, masked, capped, windowed as plan->args has it; first is a multiple of
 * KEY_TILE.  keys: where all keys of the batch row are.  1; or 0 where a value or what came of it is infinite or NaN: then
 * the item is to be done over by tiles, which know what a weight of 0 hides. */
typedef struct gyre_key_stretch {
    int64_t first, count;
} gyre_key_stretch;
int gyre_decode_part(const gyre_attention_plan *plan, const gyre_key_side *keys, int64_t item, const gyre_key_stretch *part,
                     char *memory, const gyre_partial *out);

#endif
