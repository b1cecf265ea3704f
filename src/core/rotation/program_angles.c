/* program_angles.c: what libgyre_rope has in the place of the angles of other programs.  An encoding with rope.angles is
 * refused there when it is created, so none of these functions is called for one. */
#include "core/rotation/angles.h"

#ifdef GYRE_ROPE_ALONE
#include "core/rotation/angles_llama_cpp.h"
#include "core/rotation/angles_numpy.h"
#include "core/rotation/frequency_torch.h"
#include "core/rotation/torch_math.h"

int gyre_has_program_angles(void) {
    return 0;
}

int gyre_llama_cpp_supports(const gyre_config *config) {
    (void)config;
    return 0;
}
void gyre_llama_cpp_cos_sin(const gyre_angles *angles, const gyre_frequency *frequency, int64_t first, int64_t count,
                            double position, double *cosine, double *sine) {
    (void)angles, (void)frequency, (void)first, (void)count, (void)position, (void)cosine, (void)sine;
}

int gyre_numpy_supports(const gyre_config *config) {
    (void)config;
    return 0;
}
void gyre_numpy_frequencies(const gyre_config *config, int64_t first, int64_t count, gyre_frequency *out) {
    (void)config, (void)first, (void)count, (void)out;
}
void gyre_numpy_cos_sin(const gyre_angles *angles, const gyre_frequency *frequency, int64_t count, double position,
                        double *cosine, double *sine) {
    (void)angles, (void)frequency, (void)count, (void)position, (void)cosine, (void)sine;
}

int gyre_torch_supports(const gyre_config *config) {
    (void)config;
    return 0;
}
void gyre_torch_frequencies(const gyre_config *config, int64_t length, int64_t first, int64_t count, gyre_frequency *out) {
    (void)config, (void)length, (void)first, (void)count, (void)out;
}
int gyre_torch_math_available(void) {
    return 0;
}
void gyre_torch_cos_sin(const float *angle, int64_t n, float *cosine, float *sine) {
    (void)angle;
    for (int64_t i = 0; i < n; i++) /* as if nothing rotated: a compiler that sees everything wants them written */
        cosine[i] = 1, sine[i] = 0;
}
#else
int gyre_has_program_angles(void) {
    return 1;
}
#endif
