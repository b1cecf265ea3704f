/* frequency_torch.h: frequencies in float, with transformers' operations in PyTorch's order. */
#ifndef GYRE_CORE_FREQUENCY_TORCH_H
#define GYRE_CORE_FREQUENCY_TORCH_H
#include "core/rotation/frequency.h"

static inline int gyre_is_vllm(gyre_angle_path path) {
    return path == GYRE_ANGLE_PATH_VLLM_BF16 || path == GYRE_ANGLE_PATH_VLLM_F16;
}
/* 1 if frequencies, cos and sin are PyTorch's. */
static inline int gyre_is_torch(gyre_angle_path path) {
    return path == GYRE_ANGLE_PATH_TORCH || path == GYRE_ANGLE_PATH_TORCH_BF16 || path == GYRE_ANGLE_PATH_TORCH_F16 ||
           gyre_is_vllm(path);
}
/* out = what a position is divided by before its products with frequencies, which are then those without scaling. */
static inline double gyre_torch_position_divisor(const gyre_config *config) {
    return gyre_is_vllm(config->rope.angles) && config->rope.scaling == GYRE_SCALING_LINEAR ? config->rope.factor : 1;
}
/* 1 if transformers has this scaling and this build has SLEEF. */
int gyre_torch_supports(const gyre_config *config);
/* gyre_rope_frequencies as PyTorch computes it: high is a float over gyre_torch_position_divisor, low is 0.  That float is
 * (float)(high * divisor): two roundings of double change no float. */
void gyre_torch_frequencies(const gyre_config *config, int64_t length, int64_t first, int64_t count, gyre_frequency *out);

#endif
