/* tiles_amx.h: the operations of AMX that amx_tier.h uses.  tiles_emulated.h defines the same in plain C.
 *
 *     tile_begin(t)                       eight tiles of TILE_ROWS rows of TILE_ROW_BYTES bytes, all 0
 *     tile_zero(t, i)
 *     tile_load(t, i, from, stride)       rows are `stride` bytes apart
 *     tile_store(t, i, to, stride)
 *     tile_dot_bf16(t, c, a, b)           c += the products of pairs of bf16
 *     tile_end(t)                         gives the registers back, so that a change of threads need not save them
 *
 * The number of a tile is a literal.  A thread has one set of tiles, and t is only for the emulation. */
#ifndef GYRE_KERNELS_TILES_AMX_H
#define GYRE_KERNELS_TILES_AMX_H
#include "kernels/amx/tile_sizes.h"
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

typedef struct tile_registers {
    char unused;
} tile_registers;

/* The operand of LDTILECFG. */
typedef struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_shapes;

/* GCC's _tile_loadd does not say that it reads memory, so what was written must be there before. */
#define TILE_MEMORY() __asm__ volatile("" ::: "memory")

static inline void tile_begin(tile_registers *t) {
    tile_shapes shapes = {.palette = 1};
    for (int i = 0; i < 8; i++)
        shapes.row_bytes[i] = TILE_ROW_BYTES, shapes.rows[i] = TILE_ROWS;
    (void)t;
    TILE_MEMORY();
    _tile_loadconfig(&shapes);
}
static inline void tile_end(tile_registers *t) {
    (void)t;
    _tile_release();
}
#define TILE_STATEMENT(t, statement)                                                                                        \
    do {                                                                                                                    \
        (void)(t);                                                                                                          \
        TILE_MEMORY();                                                                                                      \
        statement;                                                                                                          \
    } while (0)
#define tile_zero(t, tile)               TILE_STATEMENT(t, _tile_zero(tile))
#define tile_load(t, tile, from, stride) TILE_STATEMENT(t, _tile_loadd(tile, from, stride))
#define tile_store(t, tile, to, stride)  TILE_STATEMENT(t, _tile_stored(tile, to, stride))
#define tile_dot_bf16(t, c, a, b)        TILE_STATEMENT(t, _tile_dpbf16ps(c, a, b))

#endif
