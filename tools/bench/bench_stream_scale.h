/* bench_stream_scale.h: what no kernel that changes numbers in place can beat: multiplying them by a constant. */
#ifndef GYRE_TOOLS_BENCH_STREAM_SCALE_H
#define GYRE_TOOLS_BENCH_STREAM_SCALE_H
#include "gyre/gyre.h"

/* x[i] *= by, n elements of F32, F16, BF16 or F64 in place, with the widest vectors of this processor; 16-bit types are
 * widened, multiplied and rounded to nearest even, as any kernel has to.  by: a power of two. */
void bench_stream_scale(void *x, gyre_dtype dtype, int64_t n, float by);

#endif
