/* tile_sizes.h: the size of a register of AMX. */
#ifndef GYRE_KERNELS_TILE_SIZES_H
#define GYRE_KERNELS_TILE_SIZES_H
enum { TILE_ROWS = 16, TILE_ROW_BYTES = 64 };
#endif
