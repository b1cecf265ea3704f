/* angles.c: cos and sin of position x frequency, in double, with the product in two doubles. */
#include "core/rotation/angles.h"
#include "core/convert.h"
#include "core/encoding.h"

#include "core/rotation/angles_llama_cpp.h"
#include "core/rotation/angles_numpy.h"
#include "core/rotation/frequency_torch.h"
#include "core/rotation/torch_math.h"

#include <math.h>

void gyre_angle(gyre_frequency frequency, double position, double *cosine, double *sine) {
    const double m = position, product = m * frequency.high;
    const double rest = fma(m, frequency.high, -product) + m * frequency.low;
    const double c = cos(product), s = sin(product), second = 0.5 * rest * rest;
    const double odd = rest - second * (1.0 / 3) * rest; /* rest is up to 2^-12 for 1024 rad per position at 2^31 */
    *cosine = c - (odd * s + second * c);
    *sine = s + (odd * c - second * s);
}

/* Start tokens as released have no attention factor. */
static double start_ratio(const gyre_encoding *encoding, gyre_direction direction, double factor) {
    if (encoding->config.rope.longrope.starts == GYRE_LONGROPE_START_PAPER) return 1;
    return direction == GYRE_DIRECTION_INVERSE ? factor : 1 / factor;
}

gyre_angles gyre_angles_of(const gyre_encoding *encoding, gyre_direction direction, int64_t length) {
    const int own = gyre_rope_same_frequencies(&encoding->config, length, 0);
    const double factor = own ? encoding->attention_factor : gyre_rope_attention_factor(&encoding->config, length);
    const gyre_angles angles = {.encoding = encoding,
                                .direction = direction,
                                .uses_stored = own,
                                .length = length,
                                .factor = direction == GYRE_DIRECTION_INVERSE ? 1.0 / factor : factor,
                                .start_below = gyre_rope_start_below(&encoding->config, length),
                                .start_ratio = start_ratio(encoding, direction, factor)};
    return angles;
}

int gyre_angles_have_start(const gyre_angles *angles) {
    return angles->start_below > -INFINITY;
}

int gyre_angles_identity(const gyre_angles *angles, const double *position) {
    if (angles->factor != 1.0) return 0;
    for (int64_t a = 0; a < gyre_axes_of(angles->encoding); a++)
        if (position[a] != 0) return 0;
    return 1;
}

static gyre_frequency divide_frequency(gyre_frequency frequency, double divisor) {
    const long double whole = ((long double)frequency.high + (long double)frequency.low) / (long double)divisor;
    const double high = (double)whole;
    return (gyre_frequency){high, (double)(whole - (long double)high)};
}

const gyre_frequency *gyre_angles_frequencies(const gyre_angles *angles, int64_t first, int64_t count,
                                              gyre_frequency *buffer) {
    const gyre_encoding *encoding = angles->encoding;
    if (angles->uses_stored && !angles->slower) return encoding->frequency + first;
    gyre_rope_frequencies(&encoding->config, angles->length, first, count, buffer);
    for (int64_t j = 0; angles->slower && j < count; j++)
        buffer[j] = divide_frequency(buffer[j], encoding->config.rope.far_factor);
    return buffer;
}

/* In the type of the table. */
static double table_entry(gyre_angle_path path, float value) {
    if (path == GYRE_ANGLE_PATH_TORCH_BF16 || path == GYRE_ANGLE_PATH_VLLM_BF16)
        return (double)gyre_bf16_to_f32(gyre_f32_to_bf16(value));
    return (double)(path == GYRE_ANGLE_PATH_TORCH ? value : gyre_f16_to_f32(gyre_f32_to_f16(value)));
}

/* As PyTorch: in float; the results are widened to double. */
static void torch_cos_sin(const gyre_angles *angles, const gyre_frequency *frequency, int64_t first, int64_t count,
                          const double *position, double *cosine, double *sine) {
    const gyre_encoding *encoding = angles->encoding;
    const float factor = (float)angles->factor;
    const double divisor = gyre_torch_position_divisor(&encoding->config);
    float angle[GYRE_PAIR_CHUNK], c[GYRE_PAIR_CHUNK], s[GYRE_PAIR_CHUNK];
    for (int64_t done = 0, n; done < count; done += n) {
        n = count - done < GYRE_PAIR_CHUNK ? count - done : GYRE_PAIR_CHUNK;
        for (int64_t j = 0; j < n; j++) {
            const int axis = encoding->axis ? encoding->axis[first + done + j] : 0;
            angle[j] = (float)position[axis] / (float)divisor * (float)(frequency[done + j].high * divisor);
        }
        gyre_torch_cos_sin(angle, n, c, s);
        for (int64_t j = 0; j < n; j++) {
            cosine[done + j] = table_entry(encoding->config.rope.angles, c[j] * factor);
            sine[done + j] = table_entry(encoding->config.rope.angles, s[j] * factor);
        }
    }
}

void gyre_angles_f64(const gyre_angles *angles, const gyre_frequency *frequency, int64_t first, int64_t count,
                     const double *position, double *cosine, double *sine) {
    const gyre_encoding *encoding = angles->encoding;
    const int negate_sine = (angles->direction != GYRE_DIRECTION_FORWARD) != (encoding->config.rope.clockwise != 0);
    const double sign = negate_sine ? -angles->factor : angles->factor;
    if (encoding->config.rope.angles != GYRE_ANGLE_PATH_EXACT) {
        if (encoding->config.rope.angles == GYRE_ANGLE_PATH_LLAMA_CPP)
            gyre_llama_cpp_cos_sin(angles, frequency, first, count, position[0], cosine, sine);
        else if (encoding->config.rope.angles == GYRE_ANGLE_PATH_TENSORRT_LLM)
            gyre_numpy_cos_sin(angles, frequency, count, position[0], cosine, sine);
        else
            torch_cos_sin(angles, frequency, first, count, position, cosine, sine);
        for (int64_t j = 0; negate_sine && j < count; j++)
            sine[j] = -sine[j];
        return;
    }
    const int is_start = position[0] < angles->start_below;
    const double ratio = is_start ? angles->start_ratio : 1;
    if (is_start) frequency = encoding->start_frequency + first;
    for (int64_t j = 0; j < count; j++) {
        double c, s;
        gyre_angle(frequency[j], position[encoding->axis ? encoding->axis[first + j] : 0], &c, &s);
        cosine[j] = c * (angles->factor * ratio);
        sine[j] = s * (sign * ratio);
    }
}
