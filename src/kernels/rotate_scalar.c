/* rotate_scalar.c: pairs of channels turned in plain C that compilers turn into vectors.
 *
 * Two products and one sum, each rounded, in every layout and at every width: strided equals dense to the last bit. */
#include "kernels/tiers.h"

/* in == out or no overlap at all: iterations are independent either way, which `restrict` could not say. */
#if defined(__clang__)
#define INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#else
#define INDEPENDENT_ITERATIONS
#endif

void gyre_rotate_half_f32_scalar(const float *in, float *out, const gyre_heads *heads, const float *cos, const float *sin) {
    const int64_t pairs = heads->pairs;
    for (int64_t h = 0; h < heads->count; h++) {
        const float *a = in + h * heads->in_stride, *b = a + pairs;
        float *low = out + h * heads->out_stride, *high = low + pairs;
        INDEPENDENT_ITERATIONS
        for (int64_t i = 0; i < pairs; i++) {
            const float x = a[i], y = b[i];
            low[i] = x * cos[i] - y * sin[i];
            high[i] = x * sin[i] + y * cos[i];
        }
    }
}

void gyre_rotate_interleaved_f32_scalar(const float *in, float *out, const gyre_heads *heads, const float *cos,
                                        const float *sin) {
    for (int64_t h = 0; h < heads->count; h++) {
        const float *pair = in + h * heads->in_stride;
        float *turned = out + h * heads->out_stride;
        INDEPENDENT_ITERATIONS
        for (int64_t i = 0; i < heads->pairs; i++) {
            const float x = pair[2 * i], y = pair[2 * i + 1];
            turned[2 * i] = x * cos[i] - y * sin[i];
            turned[2 * i + 1] = x * sin[i] + y * cos[i];
        }
    }
}

void gyre_rotate_interleaved_to_half_f32_scalar(const float *in, float *out, const gyre_heads *heads, const float *cos,
                                                const float *sin) {
    const int64_t pairs = heads->pairs;
    for (int64_t h = 0; h < heads->count; h++) {
        const float *pair = in + h * heads->in_stride;
        float *low = out + h * heads->out_stride, *high = low + pairs;
        INDEPENDENT_ITERATIONS
        for (int64_t i = 0; i < pairs; i++) {
            const float x = pair[2 * i], y = pair[2 * i + 1];
            low[i] = x * cos[i] - y * sin[i];
            high[i] = x * sin[i] + y * cos[i];
        }
    }
}

void gyre_rotate_half_to_interleaved_f32_scalar(const float *in, float *out, const gyre_heads *heads, const float *cos,
                                                const float *sin) {
    const int64_t pairs = heads->pairs;
    for (int64_t h = 0; h < heads->count; h++) {
        const float *a = in + h * heads->in_stride, *b = a + pairs;
        float *turned = out + h * heads->out_stride;
        INDEPENDENT_ITERATIONS
        for (int64_t i = 0; i < pairs; i++) {
            const float x = a[i], y = b[i];
            turned[2 * i] = x * cos[i] - y * sin[i];
            turned[2 * i + 1] = x * sin[i] + y * cos[i];
        }
    }
}
