/* frequency_torch.h: frequencies in float, with transformers' operations in PyTorch's order. */
#ifndef GYRE_CORE_FREQUENCY_TORCH_H
#define GYRE_CORE_FREQUENCY_TORCH_H
#include "core/rotation/frequency.h"

/* 1 if frequencies, cos and sin are PyTorch's. */
static inline int gyre_is_torch(gyre_angle_path path) {
    return path == GYRE_ANGLE_PATH_TORCH || path == GYRE_ANGLE_PATH_TORCH_BF16 || path == GYRE_ANGLE_PATH_TORCH_F16;
}
/* 1 if transformers has this scaling and this build has SLEEF. */
int gyre_torch_supports(const gyre_config *config);
/* gyre_rope_frequencies as PyTorch computes it: high is a float, low is 0. */
void gyre_torch_frequencies(const gyre_config *config, int64_t length, int64_t first, int64_t count, gyre_frequency *out);

#endif
