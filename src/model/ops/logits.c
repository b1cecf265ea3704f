#include "model/ops/logits.h"

#include <math.h>
#include <string.h>

enum { LANES = 16 }; /* exp_row_f32 takes multiples of it */

float gyre_exp_row(const gyre_kernels *kernels, float *x, int64_t n, float shift) {
    const int64_t whole = n / LANES * LANES;
    float sum = 0, tail_sum = 0;
    if (whole) kernels->exp_row_f32(x, whole, shift, &sum);
    if (whole == n) return sum;
    float tail[LANES];
    for (int i = 0; i < LANES; i++)
        tail[i] = whole + i < n ? x[whole + i] : -INFINITY;
    kernels->exp_row_f32(tail, LANES, shift, &tail_sum);
    memcpy(x + whole, tail, (size_t)(n - whole) * sizeof *x);
    return sum + tail_sum;
}

double gyre_cross_entropy(const gyre_kernels *kernels, float *logits, int64_t vocab, int32_t target) {
    float row_max = logits[0];
    for (int64_t i = 1; i < vocab; i++)
        row_max = logits[i] > row_max ? logits[i] : row_max;
    const double shifted = (double)logits[target] - (double)row_max;
    const float row_sum = gyre_exp_row(kernels, logits, vocab, row_max);
    const float scale = 1 / row_sum;
    for (int64_t i = 0; i < vocab; i++)
        logits[i] *= scale;
    return log((double)row_sum) - shifted;
}

int32_t gyre_argmax(const float *logits, int64_t vocab) {
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}
