/* attention_rotation.h: the rotation's part in a call of attention.
 *
 * Angles are computed once a call for every position, then each row of queries and keys is turned once.  Where far pairs
 * turn otherwise (ReRoPE, Self-Extend), both sides are there twice, and a tile of scores takes each from one or the other.
 * xPos shrinks keys relative to the last of their tile and queries relative to the first of theirs; what is left, one factor
 * a channel, is made up for where the tiles meet, so that no position is too far out for float. */
#ifndef GYRE_ATTENTION_ATTENTION_ROTATION_H
#define GYRE_ATTENTION_ATTENTION_ROTATION_H
#include "attention/tiles.h"

/* GYRE_OK, or what the rotation asks of args and does not get. */
gyre_status gyre_attention_rotation_check(const gyre_attention_args *args);
/* GYRE_OK, or ERANGE where xPos has no number for tokens so far apart in one tile.  Positions were checked. */
gyre_status gyre_attention_rotation_check_range(const gyre_attention_plan *plan);
/* plan->turn, once the tiles are counted. */
void gyre_attention_rotation_measure(gyre_attention_plan *plan);
/* Where the angles lie, from `memory` on (NULL = only count); out = bytes. */
size_t gyre_attention_rotation_layout(gyre_attention_plan *plan, char *memory);
/* Computes them. */
void gyre_attention_rotation_prepare(gyre_attention_plan *plan, const gyre_exec *exec);

/* x[i] = row i of `rows` turned, far or near; back 1: by the transpose. */
typedef struct gyre_attention_rotation {
    gyre_role role;
    int far, inverse;
} gyre_attention_rotation;
void gyre_attention_rotate(const gyre_attention_plan *plan, const gyre_row_range *rows, const gyre_attention_rotation *how,
                           float *x);

/* x[i] = rows of turned keys, turned further by `shift` positions on each axis, without factors. */
void gyre_attention_rotate_shift(const gyre_attention_plan *plan, const int64_t *shift, int64_t count, float *x);

/* near_q_rows = the queries as the keys of the meeting expect them. */
void gyre_attention_near_queries(const gyre_attention_plan *plan, gyre_query_buffers *queries,
                                 const gyre_tile_pair *tile_pair);
/* scores[i][j] = far_scores[i][j] where the distance is rope.far_window or more.  For a meeting that has both. */
void gyre_attention_select_far(const gyre_attention_plan *plan, const int64_t *keys, gyre_query_buffers *queries,
                               const gyre_tile_pair *tile_pair);
/* The same way back: far_scores = dscores where the distance is that, else 0, and dscores 0 there. */
void gyre_attention_split_far(const gyre_attention_plan *plan, const int64_t *keys, gyre_query_buffers *queries,
                              const gyre_tile_pair *tile_pair);

#endif
