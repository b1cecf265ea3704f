/* attention_rotation.h: rotation of queries and keys inside a call of attention.
 *
 * The angles of every position are computed once for each segment, then each row of queries and keys is rotated once.
 * Where the angles depend on both sides (ReRoPE, Self-Extend, Dual Chunk Attention), queries and keys are stored once
 * for each of their variants (core/rotation/far_variants.h), and each score of a tile takes one of them.  xPos makes the
 * magnitudes of keys relative to the last of their tile and those of queries relative to the first of theirs.  The rest,
 * one factor for each channel, is applied where two tiles are multiplied, so no position is too large for a float.  In
 * the fixed order neither may depend on what else is in the tile: keys are relative to the first of their tile, which no
 * longer call changes, and queries to a multiple of XPOS_QUERY_GRID. */
#ifndef GYRE_ATTENTION_ATTENTION_ROTATION_H
#define GYRE_ATTENTION_ATTENTION_ROTATION_H
#include "attention/plan/buffers.h"

/* Fills in plan->rotation.  The rest of the plan's sizes are known. */
void gyre_attention_rotation_measure(gyre_attention_plan *plan);
/* Sets plan->rotation.rows to parts of `memory` (NULL = only count); out = bytes. */
size_t gyre_attention_rotation_layout(gyre_attention_plan *plan, char *memory);
/* out = the position that xPos magnitudes of `count` keys, the first of a tile, are relative to. */
int64_t gyre_xpos_key_center(const gyre_attention_plan *plan, const int64_t *positions, int64_t count);
/* Computes the angles. */
void gyre_attention_rotation_prepare(gyre_attention_plan *plan, const gyre_exec *exec);

/* x[i] = row i of `rows`, rotated by the angles of a variant of its role.  transpose: by the transposed rotation (for
 * gradients). */
typedef struct gyre_attention_rotation {
    gyre_role role;
    int variant, transpose;
} gyre_attention_rotation;
void gyre_attention_rotate(const gyre_attention_plan *plan, const gyre_row_range *rows, const gyre_attention_rotation *how,
                           float *x);

/* out = the angle rows that it rotates by (core/rotation/rotate_rows.h), adjacent; NULL for queries without stored
 * angles. */
const float *gyre_attention_angle_rows(const gyre_attention_plan *plan, const gyre_row_range *rows,
                                       const gyre_attention_rotation *how);

/* x = `count` rows of rotated keys, rotated by `shift` more positions on each axis, without magnitudes. */
void gyre_attention_rotate_shift(const gyre_attention_plan *plan, const int64_t *shift, int64_t count, float *x);

/* near_q_rows = the queries with what xPos has between the two tiles. */
void gyre_attention_near_queries(const gyre_attention_plan *plan, gyre_query_buffers *queries,
                                 const gyre_tile_pair *tile_pair);
/* For a tile pair with pairs of several variants: scores[i][j] = variant_scores[i][j] where query i sees key j in
 * variant `variant` or a later one. */
void gyre_attention_select_variant(const gyre_attention_plan *plan, const int64_t *keys, int variant,
                                   gyre_query_buffers *queries, const gyre_tile_pair *tile_pair);
/* Its gradient: dscores of those pairs move to variant_scores, and both have 0 elsewhere. */
void gyre_attention_split_variant(const gyre_attention_plan *plan, const int64_t *keys, int variant,
                                  gyre_query_buffers *queries, const gyre_tile_pair *tile_pair);

#endif
