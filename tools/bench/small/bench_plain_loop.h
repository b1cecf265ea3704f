/* bench_plain_loop.h: attention and rotation of one query as an engine without a library writes them: loops that a compiler
 * makes vectors of, for dense floats. */
#ifndef GYRE_TOOLS_BENCH_PLAIN_LOOP_H
#define GYRE_TOOLS_BENCH_PLAIN_LOOP_H
#include <stdint.h>

/* q, out: [heads][dim]; k, v: [keys][heads][dim]; weights: room for the keys; dim: a multiple of 8. */
typedef struct bench_plain_attention {
    int64_t keys, heads, dim;
    const float *q, *k, *v;
    float *out, *weights;
} bench_plain_attention;
void bench_plain_attend(const bench_plain_attention *call);
/* x[heads][dim] rotated in place in the half layout by cosine[dim / 2] and sine[dim / 2]. */
void bench_plain_rotate(float *x, int64_t heads, int64_t dim, const float *cosine, const float *sine);

#endif
