/* permute.h: the two orders in which the members of pairs lie. */
#ifndef GYRE_CORE_PERMUTE_H
#define GYRE_CORE_PERMUTE_H
#include "gyre/gyre.h"

/* The channel where member 0 or 1 of pair `pair` lies, counted from the first rotated one, and the channels from pair to
 * pair.  layout: HALF or INTERLEAVED. */
static inline int64_t gyre_member_channel(gyre_layout layout, int64_t dim, int64_t pair, int member) {
    return layout == GYRE_LAYOUT_HALF ? pair + member * (dim / 2) : 2 * pair + member;
}
static inline int64_t gyre_member_stride(gyre_layout layout) {
    return layout == GYRE_LAYOUT_HALF ? 1 : 2;
}

/* 2 * pairs elements, `stride` apart, moved in place, bit for bit, from the interleaved to the half layout, and back. */
void gyre_deinterleave_row(void *data, gyre_dtype dtype, int64_t stride, int64_t pairs);
void gyre_interleave_row(void *data, gyre_dtype dtype, int64_t stride, int64_t pairs);

#endif
