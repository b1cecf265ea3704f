/* adaptive_biases.h: the biases that the network adapts, of a scheme and of the caller, and their gradients. */
#ifndef GYRE_ADAPTIVE_BIASES_H
#define GYRE_ADAPTIVE_BIASES_H
#include "adaptive/adaptive_plan.h"

/* Reads the positions of a tile of queries. */
void gyre_adaptive_query_positions(gyre_adaptive_buffers *b);
/* to[head][row][KEY_TILE] += the biases of a tile of keys, unseen ones included; to is zeros where there are no keys. */
void gyre_adaptive_biases(gyre_adaptive_buffers *b, int64_t tile, float *to);
/* Adds to sums.dtable, and writes dbias of the caller, given dbiases as `to` above, which are 0 for unseen pairs. */
void gyre_adaptive_biases_backward(gyre_adaptive_buffers *b, int64_t tile, const float *dbiases);
/* dbias of the caller = 0 for the queries of a tile and all keys. */
void gyre_adaptive_biases_clear(const gyre_adaptive_buffers *b);

#endif
