/* angles_llama_cpp.c: the angle of a pair is that of the pair before it times base^(-2 / dim), all in float, so errors grow
 * from pair to pair.
 *
 * Source: ggml d99724f, ggml-cpu/ops.cpp (rope cache) and ggml.c (ends of the ramp), as compilers contract them with FMA.
 * tests/reference/llama_cpp_rows.json has what that program computed. */
#include "core/rotation/angles_llama_cpp.h"
#include "core/encoding.h"

#include <math.h>

static const float two_pi = 2 * 3.14159265358979323846f;

int gyre_llama_cpp_supports(const gyre_config *config) {
    const struct gyre_rope_config *rope = &config->rope;
    if (rope->resonance || rope->axes > 1 || config->rope.axis[0].own || config->rope.diffusion.timed ||
        rope->fractional_bounds || config->rope.clip.mode != GYRE_CLIP_NONE || config->rope.longrope.start_tokens != 0)
        return 0;
    return rope->scaling == GYRE_SCALING_NONE || rope->scaling == GYRE_SCALING_LINEAR ||
           rope->scaling == GYRE_SCALING_YARN || rope->scaling == GYRE_SCALING_LLAMA3 ||
           rope->scaling == GYRE_SCALING_LONGROPE;
}

/* What all pairs of a call share. */
typedef struct program {
    const struct gyre_rope_config *rope;
    float freq_scale, step, low, high;
    int blends; /* YaRN: pairs between `low` and `high` */
} program;

static float ramp_end(const gyre_config *config, float revolutions) {
    const float base = (float)config->rope.base;
    return (float)config->rope.dim * logf((float)config->trained_length / (revolutions * two_pi)) / (2 * logf(base));
}

static program program_of(const gyre_config *config) {
    const struct gyre_rope_config *rope = &config->rope;
    program p = {.rope = rope, .freq_scale = 1, .step = powf((float)rope->base, -2.0f / (float)rope->dim)};
    if (rope->scaling == GYRE_SCALING_LINEAR || rope->scaling == GYRE_SCALING_YARN) p.freq_scale = 1 / (float)rope->factor;
    p.blends = rope->scaling == GYRE_SCALING_YARN;
    if (!p.blends) return p;
    p.low = fmaxf(0, floorf(ramp_end(config, (float)rope->beta_fast)));
    p.high = fminf((float)(rope->dim - 1), ceilf(ramp_end(config, (float)rope->beta_slow)));
    return p;
}

/* The program reads divisors from the file.  Here they are quotients in double, rounded once; those of each call, so without
 * the long double of other frequencies. */
static float divisor_of(const gyre_angles *angles, gyre_frequency frequency, int64_t pair) {
    const struct gyre_rope_config *rope = &angles->encoding->config.rope;
    if (rope->scaling != GYRE_SCALING_LLAMA3 && rope->scaling != GYRE_SCALING_LONGROPE) return 1;
    return (float)(pow(rope->base, -2.0 * (double)pair / (double)rope->dim) / frequency.high);
}

static float angle_of(const program *p, float theta, int64_t pair) {
    const float interpolated = p->freq_scale * theta;
    if (!p->blends) return interpolated;
    const float along = ((float)pair - p->low) / fmaxf(0.001f, p->high - p->low);
    const float kept = 1 - fminf(1, fmaxf(0, along));
    return fmaf(interpolated, 1 - kept, theta * kept);
}

/* The factor of cos and sin.  YaRN's comes from a logarithm in float; a factor of the file multiplies it. */
static double factor_of(const gyre_angles *angles, const program *p) {
    const gyre_config *config = &angles->encoding->config;
    const double own = gyre_rope_attention_factor(config, angles->length);
    const double usual = p->blends && p->rope->factor > 1 ? 1 + 0.1 * log(p->rope->factor) : 1;
    float factor = (float)(own / usual);
    if (p->blends) factor *= fmaf(0.1f, logf(1 / p->freq_scale), 1);
    const int inverse = angles->direction == GYRE_DIRECTION_INVERSE;
    return inverse ? angles->factor * own / (double)factor : angles->factor / own * (double)factor;
}

void gyre_llama_cpp_cos_sin(const gyre_angles *angles, const gyre_frequency *frequency, int64_t first, int64_t count,
                            double position, double *cosine, double *sine) {
    const program p = program_of(&angles->encoding->config);
    const double factor = factor_of(angles, &p);
    const int goes_on = angles->walk && first > 0 && angles->walk->next == first;
    float theta = goes_on ? angles->walk->theta : (float)position;
    for (int64_t i = goes_on ? first : 0; i < first; i++)
        theta *= p.step;
    for (int64_t j = 0; j < count; j++) {
        const float angle = angle_of(&p, theta / divisor_of(angles, frequency[j], first + j), first + j);
        cosine[j] = (double)(float)((double)cosf(angle) * factor);
        sine[j] = (double)(float)((double)sinf(angle) * factor);
        theta *= p.step;
    }
    if (angles->walk) *angles->walk = (gyre_angle_walk){first + count, theta};
}
