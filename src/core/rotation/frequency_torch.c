/* frequency_torch.c: frequencies in float, in the order of operations of transformers' modeling_rope_utils. */
#include "core/rotation/frequency_torch.h"

#include "core/rotation/torch_math.h"

#include <math.h>

enum { PAIR_BLOCK = 64 }; /* pairs processed at a time */

int gyre_torch_supports(const gyre_config *config) {
    const struct gyre_rope_config *rope = &config->rope;
    if (!gyre_torch_math_available() || rope->resonance || (rope->axes > 1 && rope->axes_layout == GYRE_AXES_AXIAL))
        return 0;
    for (int64_t a = 0; a < GYRE_MAX_AXES; a++)
        if (config->rope.axis[a].own) return 0;
    return !config->rope.diffusion.timed && config->rope.clip.mode == GYRE_CLIP_NONE &&
           config->rope.longrope.start_tokens == 0 && rope->scaling != GYRE_SCALING_BY_PARTS_PAPER &&
           rope->scaling != GYRE_SCALING_NTK_MIXED && rope->scaling != GYRE_SCALING_DYNAMIC_YARN;
}

/* The base, which Python computes in double before it becomes a tensor. */
static float base_of(const gyre_config *config, int64_t length) {
    const struct gyre_rope_config *rope = &config->rope;
    const double dim = (double)rope->dim, trained = (double)config->trained_length;
    double factor = rope->factor;
    if (rope->scaling == GYRE_SCALING_DYNAMIC_NTK) {
        const int64_t in_use = length > 0                   ? length
                               : config->context_length > 0 ? config->context_length
                                                            : config->trained_length;
        const double n = in_use < config->trained_length ? trained : (double)in_use;
        factor = factor * n / trained - (factor - 1);
    } else if (rope->scaling != GYRE_SCALING_NTK) {
        return (float)rope->base;
    }
    return (float)(rope->base * pow(factor, dim / (dim - 2)));
}

static double correction_dim(const gyre_config *config, double revolutions) {
    const double two_pi = 2 * 3.14159265358979323846;
    return (double)config->rope.dim * log((double)config->trained_length / (revolutions * two_pi)) /
           (2 * log(config->rope.base));
}

/* power = base^(2 i / dim).  out = (1 - e) / (s power) + e / power, e = 1 - ramp(i). */
static float by_parts_frequency(const gyre_config *config, float power, int64_t pair) {
    const struct gyre_rope_config *rope = &config->rope;
    double low = correction_dim(config, rope->beta_fast), high = correction_dim(config, rope->beta_slow);
    if (!rope->fractional_bounds) low = floor(low), high = ceil(high);
    low = low < 0 ? 0 : low;
    high = high > (double)(rope->dim - 1) ? (double)(rope->dim - 1) : high;
    if (low == high) high += 0.001;
    float ramp = ((float)pair - (float)low) / (float)(high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    const float kept = 1 - ramp, scaled = 1 / ((float)rope->factor * power);
    return scaled * (1 - kept) + 1 / power * kept;
}

static float llama3_frequency(const gyre_config *config, float frequency) {
    const struct gyre_rope_config *rope = &config->rope;
    const double old = (double)config->trained_length;
    const float length = (float)(2 * 3.14159265358979323846) / frequency, factor = (float)rope->factor;
    const float low = (float)(old / rope->low_freq), high = (float)(old / rope->high_freq);
    if (length > low) return frequency / factor;
    if (length < high) return frequency;
    if (rope->low_freq == rope->high_freq) return frequency;
    const float smooth = ((float)old / length - (float)rope->low_freq) / (float)(rope->high_freq - rope->low_freq);
    return (1 - smooth) * frequency / factor + smooth * frequency;
}

static float scaled_torch_frequency(const gyre_config *config, int64_t length, int64_t pair, float power) {
    const struct gyre_rope_config *rope = &config->rope;
    switch (rope->scaling) {
    case GYRE_SCALING_LINEAR:
        return gyre_is_vllm(rope->angles) ? 1 / power : 1 / power / (float)rope->factor;
    case GYRE_SCALING_BY_PARTS:
    case GYRE_SCALING_YARN:
        return by_parts_frequency(config, power, pair);
    case GYRE_SCALING_LLAMA3:
        return llama3_frequency(config, 1 / power);
    case GYRE_SCALING_LONGROPE: {
        const int64_t in_use = length > 0                   ? length
                               : config->context_length > 0 ? config->context_length
                                                            : config->trained_length;
        const double *divisor = in_use > config->trained_length ? rope->long_factor : rope->short_factor;
        return 1 / ((float)divisor[pair] * power);
    }
    case GYRE_SCALING_PROPORTIONAL:
        return pair < (int64_t)(rope->proportion * (double)rope->dim / 2) ? 1 / power / (float)rope->factor : 0;
    default:
        return 1 / power;
    }
}

void gyre_torch_frequencies(const gyre_config *config, int64_t length, int64_t first, int64_t count, gyre_frequency *out) {
    const double divisor = gyre_torch_position_divisor(config);
    float exponent[PAIR_BLOCK], power[PAIR_BLOCK];
    for (int64_t done = 0, n; done < count; done += n) {
        n = count - done < PAIR_BLOCK ? count - done : PAIR_BLOCK;
        for (int64_t i = 0; i < n; i++)
            exponent[i] = (float)(2 * (first + done + i)) / (float)config->rope.dim;
        gyre_torch_pow(base_of(config, length), exponent, n, power);
        for (int64_t i = 0; i < n; i++)
            out[done + i] =
                (gyre_frequency){(double)scaled_torch_frequency(config, length, first + done + i, power[i]) / divisor, 0};
    }
}
