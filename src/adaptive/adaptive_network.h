/* adaptive_network.h: the network, for some rows of a tile of pairs. */
#ifndef GYRE_ADAPTIVE_NETWORK_H
#define GYRE_ADAPTIVE_NETWORK_H
#include "adaptive/adaptive_plan.h"

/* Rows first .. first + count - 1 of the planes, at most NETWORK_ROWS. */
typedef struct gyre_adaptive_block {
    int64_t first, count;
} gyre_adaptive_block;

/* Fills the weights of a call. */
void gyre_adaptive_weights_fill(const gyre_adaptive_plan *plan, char *scratch);
/* Once for the memory of a job. */
void gyre_adaptive_network_begin(gyre_adaptive_buffers *b);
/* scores = those of a block, from x; -infinity where a query does not see a key of the tile.  hidden and, with a gradient,
 * units are left behind. */
void gyre_adaptive_scores(gyre_adaptive_buffers *b, int64_t tile, const gyre_adaptive_block *block);
/* After that, given dscores: adds to the sums of the network, and x becomes the gradients to A and B; where the network
 * reads A + B, those of A are both. */
void gyre_adaptive_scores_backward(gyre_adaptive_buffers *b, const gyre_adaptive_block *block);

#endif
