/* decode.h: few queries with many keys, which are read once, in place and in their type. */
#ifndef GYRE_ATTENTION_DECODE_H
#define GYRE_ATTENTION_DECODE_H
#include "attention/forward/partials.h"

/* 1: the segment has at most MAX_DECODE_QUERIES queries and an encoding that decode.c can compute: rotations without xPos
 * and with one variant, and biases by gyre_scheme.bias_tile or bias_row.  No vectors by distance, no query biases, no
 * dropout. */
int gyre_decode_supported(const gyre_attention_plan *plan);
/* out = key heads that one call of gyre_decode_split takes, at most. */
int64_t gyre_decode_heads_together(const gyre_attention_plan *plan);
/* out = bytes of working memory of one job. */
size_t gyre_decode_bytes(const gyre_attention_plan *plan);

/* Some items of one batch row, at most plan->heads_together, and some of their keys.  first is a multiple of KEY_TILE. */
typedef struct gyre_decode_task {
    int64_t item, items, first, count;
} gyre_decode_task;
/* out[i] = partial of item + i over those keys, with mask, softcap and window.  keys: positions of all keys of the batch
 * row.  nonfinite[i] = 1 if a value or the result is infinite or NaN.  Then the item must be computed again by tiles, which
 * keep such a value out of rows that give it weight 0. */
void gyre_decode_split(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_decode_task *task,
                       char *memory, const gyre_partial *out, int *nonfinite);

/* out = keys of a segment of this kind up to which gyre_decode_is_straight may hold; 0: it never does.  alone: 1 = the call
 * has one thread. */
int64_t gyre_decode_most_straight_keys(const gyre_attention_plan *plan, int alone);
/* 1: gyre_decode_straight gives the bits of gyre_decode_split: one query for each head sees all its keys, which are few, and
 * nothing is added to scores. */
int gyre_decode_is_straight(const gyre_attention_plan *plan);
/* *to = partial of an item over all its keys.  memory: as gyre_decode_split takes it.  out = 0 where that says nonfinite. */
int gyre_decode_straight(const gyre_attention_plan *plan, int64_t item, char *memory, const gyre_partial *to);

#endif
