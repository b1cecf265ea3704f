/* torch_math.h: pow, cos and sin in float, equal to PyTorch's on a CPU to the last bit: both call SLEEF. */
#ifndef GYRE_CORE_TORCH_MATH_H
#define GYRE_CORE_TORCH_MATH_H
#include "gyre/gyre.h"

/* 1 if this build has SLEEF.  Without it the functions below must not be called. */
int gyre_torch_math_available(void);
/* out[i] = base^exponent[i], i < n. */
void gyre_torch_pow(float base, const float *exponent, int64_t n, float *out);
/* cosine[i], sine[i] = cos and sin of angle[i] radians, at most 1 ulp off. */
void gyre_torch_cos_sin(const float *angle, int64_t n, float *cosine, float *sine);

/* The functions above for eight floats at a time (torch_math_avx2.c), or NULL. */
typedef struct gyre_torch_functions {
    void (*pow)(float base, const float *exponent, int64_t n, float *out);
    void (*cos_sin)(const float *angle, int64_t n, float *cosine, float *sine);
} gyre_torch_functions;
extern const gyre_torch_functions *const gyre_torch_math_avx2;

#endif
