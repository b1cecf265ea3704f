/* logits.h: exponentials, cross entropy and the argmax of a row of logits. */
#ifndef GYRE_MODEL_LOGITS_H
#define GYRE_MODEL_LOGITS_H
#include "kernels/kernels.h"

#include <stdint.h>

/* x[i] = exp(x[i] - shift) for i < n.  out = their sum.  n may be any number, not only a multiple of the vector width. */
float gyre_exp_row(const gyre_kernels *kernels, float *x, int64_t n, float shift);

/* out = -log softmax(logits)[target].  Replaces logits by softmax(logits). */
double gyre_cross_entropy(const gyre_kernels *kernels, float *logits, int64_t vocab, int32_t target);

/* out = the id of the largest logit, the first of several. */
int32_t gyre_argmax(const float *logits, int64_t vocab);

#endif
