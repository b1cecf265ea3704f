/* angles_llama_cpp.h: cos and sin in float, with the operations of ggml's CPU code in its order. */
#ifndef GYRE_CORE_ANGLES_LLAMA_CPP_H
#define GYRE_CORE_ANGLES_LLAMA_CPP_H
#include "core/rotation/angles.h"

/* 1 if llama.cpp has this scaling, on one axis. */
int gyre_llama_cpp_supports(const gyre_config *config);
/* cosine[j], sine[j] of pair first + j at `position`, j < count, with the factor of the rotation. */
void gyre_llama_cpp_cos_sin(const gyre_angles *angles, const gyre_frequency *frequency, int64_t first, int64_t count,
                            double position, double *cosine, double *sine);

#endif
