/* quant_blocks.h: sizes of the block formats of ggml.  A block holds 32 or 256 numbers of a row: small integers q and one or
 * two f16 scales. */
#ifndef GYRE_KERNELS_QUANT_BLOCKS_H
#define GYRE_KERNELS_QUANT_BLOCKS_H

/* Numbers per block, and bytes per block. */
enum { GYRE_Q_BLOCK = 32, GYRE_QK_K = 256 };
enum { GYRE_Q8_0_BYTES = 34, GYRE_Q4_0_BYTES = 18, GYRE_Q4_K_BYTES = 144, GYRE_Q5_K_BYTES = 176, GYRE_Q6_K_BYTES = 210 };
/* Offsets in a block, both f16: the scale d, and the scale m of the minima (Q4_K, Q5_K). */
enum { GYRE_Q_SCALE = 0, GYRE_K_DMIN = 2, GYRE_Q6_K_SCALE = 208 };

#endif
