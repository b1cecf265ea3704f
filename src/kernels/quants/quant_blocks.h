/* quant_blocks.h: sizes of the stored types of stored_types.def.  A block holds some numbers of a row: small integers, or
 * places in a table, and scales. */
#ifndef GYRE_KERNELS_QUANT_BLOCKS_H
#define GYRE_KERNELS_QUANT_BLOCKS_H

/* Numbers in the blocks of most types. */
enum { GYRE_Q_BLOCK = 32, GYRE_QK_K = 256 };

/* GYRE_Q4_K_COUNT = numbers of a block, GYRE_Q4_K_BYTES = its bytes, GYRE_Q4_K_SCALE, GYRE_Q4_K_LEAST = where its f16
 * begin. */
#define GYRE_STORED_BLOCK(NAME, name, number, file_type, count, bytes, scale, least)                                        \
    enum {                                                                                                                  \
        GYRE_##NAME##_COUNT = count,                                                                                        \
        GYRE_##NAME##_BYTES = bytes,                                                                                        \
        GYRE_##NAME##_SCALE = scale,                                                                                        \
        GYRE_##NAME##_LEAST = least                                                                                         \
    };
#define GYRE_STORED_RARE GYRE_STORED_BLOCK
#include "kernels/quants/stored_types.def"

#endif
