/* permute.h: the two layouts of pairs.  For 4 pairs with members a and b:
 *
 *     half          a0 a1 a2 a3 b0 b1 b2 b3
 *     interleaved   a0 b0 a1 b1 a2 b2 a3 b3 */
#ifndef GYRE_CORE_PERMUTE_H
#define GYRE_CORE_PERMUTE_H
#include "gyre/gyre.h"

/* The channel of member 0 (a) or 1 (b) of a pair, counted from the first rotated channel, and the distance in channels
 * between neighbouring pairs.  layout: HALF or INTERLEAVED. */
static inline int64_t gyre_member_channel(gyre_layout layout, int64_t dim, int64_t pair, int member) {
    return layout == GYRE_LAYOUT_HALF ? pair + member * (dim / 2) : 2 * pair + member;
}
static inline int64_t gyre_member_stride(gyre_layout layout) {
    return layout == GYRE_LAYOUT_HALF ? 1 : 2;
}

/* Moves 2 * pairs elements, `stride` apart, in place and bit for bit: deinterleave to the half layout, interleave back. */
void gyre_deinterleave_row(void *data, gyre_dtype dtype, int64_t stride, int64_t pairs);
void gyre_interleave_row(void *data, gyre_dtype dtype, int64_t stride, int64_t pairs);

#endif
