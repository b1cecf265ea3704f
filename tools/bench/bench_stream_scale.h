/* bench_stream_scale.h: multiplication by a constant, the limit of kernels that change numbers in place. */
#ifndef GYRE_TOOLS_BENCH_STREAM_SCALE_H
#define GYRE_TOOLS_BENCH_STREAM_SCALE_H
#include "gyre/gyre.h"

/* x[i] *= by for n elements of F32, F16, BF16 or F64, with the widest vectors of this processor.  16-bit types are widened,
 * multiplied and rounded to nearest even, as in a real kernel.  by: a power of two. */
void bench_stream_scale(void *x, gyre_dtype dtype, int64_t n, float by);

#endif
