/* angles_numpy.c: TensorRT-LLM writes its table of cos and sin with NumPy: powers in double, rounded to float; their
 * reciprocals, the products with positions, cos and sin in float.
 *
 * Sources: TensorRT-LLM, RopeEmbeddingUtils in tensorrt_llm/functional.py; NumPy, whose vector code for cos and sin in float
 * this repeats: Cody and Waite's reduction by pi / 2 in three parts, then polynomials of degree 8 and 9, all with FMA.
 * tests/reference/numpy_rows.json has what NumPy computed. */
#include "core/rotation/angles_numpy.h"
#include "core/encoding.h"

#include <math.h>

int gyre_numpy_supports(const gyre_config *config) {
    const struct gyre_rope_config *rope = &config->rope;
    if (rope->resonance || rope->axes > 1 || config->rope.axis[0].own || config->rope.diffusion.timed ||
        config->rope.clip.mode != GYRE_CLIP_NONE)
        return 0;
    return rope->scaling == GYRE_SCALING_NONE || rope->scaling == GYRE_SCALING_LINEAR ||
           rope->scaling == GYRE_SCALING_LLAMA3;
}

/* -- frequencies -- */

/* A Python loop over numbers of NumPy: with NumPy 1 each step is in double. */
static double llama3_frequency(const gyre_config *config, double frequency) {
    const struct gyre_rope_config *rope = &config->rope;
    const double trained = (double)config->trained_length, wavelength = 2 * 3.14159265358979323846 / frequency;
    if (wavelength < trained / rope->high_freq) return frequency;
    if (wavelength > trained / rope->low_freq) return frequency / rope->factor;
    const double kept = (trained / wavelength - rope->low_freq) / (rope->high_freq - rope->low_freq);
    return (1 - kept) * frequency / rope->factor + kept * frequency;
}

void gyre_numpy_frequencies(const gyre_config *config, int64_t first, int64_t count, gyre_frequency *out) {
    const struct gyre_rope_config *rope = &config->rope;
    const float numerator = rope->scaling == GYRE_SCALING_LINEAR ? (float)(1 / rope->factor) : 1;
    for (int64_t j = 0; j < count; j++) {
        const float power = (float)pow(rope->base, (double)(2 * (first + j)) / (double)rope->dim);
        float frequency = numerator / power;
        if (rope->scaling == GYRE_SCALING_LLAMA3) frequency = (float)llama3_frequency(config, (double)frequency);
        out[j] = (gyre_frequency){(double)frequency, 0};
    }
}

/* -- cos and sin -- */

static float cos_within(float square) {
    float sum = fmaf(0x1.98e616p-16f, square, -0x1.6c06dcp-10f);
    sum = fmaf(sum, square, 0x1.55553cp-5f);
    sum = fmaf(sum, square, -0.5f);
    return fmaf(sum, square, 1);
}

static float sin_within(float x, float square) {
    float sum = fmaf(0x1.7d3bbcp-19f, square, -0x1.a06bbap-13f);
    sum = fmaf(sum, square, 0x1.11119ap-7f);
    sum = fmaf(sum, square, -0x1.555556p-3f);
    return fmaf(sum * square, x, x);
}

/* Past these angles NumPy asks the C library. */
static const float most_for_cos = 71476.0625f, most_for_sin = 117435.992f;

static void cos_sin(float angle, float *cosine, float *sine) {
    const float magic = 0x1.8p23f; /* added and subtracted: rounds to an integer */
    if (!(fabsf(angle) <= most_for_sin)) {
        *cosine = cosf(angle), *sine = sinf(angle);
        return;
    }
    const float turns = fmaf(angle, 0x1.45f306p-1f, magic) - magic;
    float rest = fmaf(turns, -0x1.921fb0p+0f, angle);
    rest = fmaf(turns, -0x1.5110b4p-22f, rest);
    rest = fmaf(turns, -0x1.846988p-48f, rest);
    const float square = rest * rest, c = cos_within(square), s = sin_within(rest, square);
    const int quarter = (int)turns & 3;
    *sine = quarter & 1 ? c : s;
    *cosine = quarter & 1 ? s : c;
    if (quarter >= 2) *sine = -*sine;
    if (quarter == 1 || quarter == 2) *cosine = -*cosine;
    if (fabsf(angle) > most_for_cos) *cosine = cosf(angle);
}

void gyre_numpy_cos_sin(const gyre_angles *angles, const gyre_frequency *frequency, int64_t count, double position,
                        double *cosine, double *sine) {
    for (int64_t j = 0; j < count; j++) {
        float c, s;
        cos_sin((float)position * (float)frequency[j].high, &c, &s);
        cosine[j] = (double)(float)((double)c * angles->factor);
        sine[j] = (double)(float)((double)s * angles->factor);
    }
}
