/* frequency_torch.h: a rotation's frequencies in float, operation by operation as transformers computes them in PyTorch. */
#ifndef GYRE_CORE_FREQUENCY_TORCH_H
#define GYRE_CORE_FREQUENCY_TORCH_H
#include "core/rotation/frequency.h"

/* 1: transformers has that scaling, and this build SLEEF. */
int gyre_torch_supports(const gyre_config *config);
/* As gyre_rope_frequencies; high is a float, low 0. */
void gyre_torch_frequencies(const gyre_config *config, int64_t length, int64_t first, int64_t count, gyre_frequency *out);

#endif
