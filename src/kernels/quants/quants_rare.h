/* quants_rare.h: the types of stored_types.def that have one decoder in plain C, for every tier. */
#ifndef GYRE_KERNELS_QUANTS_RARE_H
#define GYRE_KERNELS_QUANTS_RARE_H
#include <stdint.h>

/* out[0 .. n - 1] = the numbers of a row, n a multiple of the block, bit-identical to ggml's reference code.  `row` needs no
 * alignment. */
#define GYRE_STORED_RARE(NAME, name, ...) void gyre_dequantize_##name(const void *row, float *out, int64_t n);
#include "kernels/quants/stored_types.def"

#endif
