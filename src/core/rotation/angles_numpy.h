/* angles_numpy.h: frequencies, cos and sin in float, with NumPy's operations as TensorRT-LLM uses them for its table. */
#ifndef GYRE_CORE_ANGLES_NUMPY_H
#define GYRE_CORE_ANGLES_NUMPY_H
#include "core/rotation/angles.h"

/* 1 if TensorRT-LLM computes this scaling with NumPy, on one axis. */
int gyre_numpy_supports(const gyre_config *config);
/* out[j] = the frequency of pair first + j: high is a float, low is 0. */
void gyre_numpy_frequencies(const gyre_config *config, int64_t first, int64_t count, gyre_frequency *out);
/* cosine[j], sine[j] = those of position x frequency[j], j < count, times the factor of the rotation. */
void gyre_numpy_cos_sin(const gyre_angles *angles, const gyre_frequency *frequency, int64_t count, double position,
                        double *cosine, double *sine);

#endif
