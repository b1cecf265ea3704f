/* angles.c: exact angles.
 *
 * position x (high + low) is formed without rounding error: fma gives what the product lost, and since that rest is tiny,
 * cos(p + e) = cos p (1 - e^2 / 2) - e sin p.  libm reduces p itself exactly. */
#include "core/angles.h"

#include <math.h>

void gyre_angle(gyre_frequency frequency, int64_t position, double *cosine, double *sine) {
    const double m = (double)position, product = m * frequency.high;
    const double rest = fma(m, frequency.high, -product) + m * frequency.low;
    const double c = cos(product), s = sin(product), second = 0.5 * rest * rest;
    *cosine = c - (rest * s + second * c);
    *sine = s + (rest * c - second * s);
}

gyre_angles gyre_angles_of(const gyre_encoding *encoding, gyre_direction direction, int64_t length) {
    const double factor = encoding->attention_factor;
    const gyre_angles angles = {encoding, direction, gyre_rope_same_frequencies(&encoding->config, length, 0), length,
                                direction == GYRE_INVERSE ? 1.0 / factor : factor};
    return angles;
}

int gyre_angles_identity(const gyre_angles *angles, int64_t position) {
    return position == 0 && angles->factor == 1.0;
}

const gyre_frequency *gyre_angles_frequencies(const gyre_angles *angles, int64_t first, int64_t count,
                                              gyre_frequency *buffer) {
    if (angles->own) return angles->encoding->frequency + first;
    gyre_rope_frequencies(&angles->encoding->config, angles->length, first, count, buffer);
    return buffer;
}

void gyre_angles_f64(const gyre_angles *angles, const gyre_frequency *frequency, int64_t count, int64_t position,
                     double *cosine, double *sine) {
    const double sign = angles->direction == GYRE_FORWARD ? angles->factor : -angles->factor;
    for (int64_t j = 0; j < count; j++) {
        double c, s;
        gyre_angle(frequency[j], position, &c, &s);
        cosine[j] = c * angles->factor;
        sine[j] = s * sign;
    }
}

/* The table holds forward angles with the forward factor, so an inverse that divides by it cannot use them. */
static const float *table_row(const gyre_angles *angles, int64_t position) {
    const gyre_encoding *e = angles->encoding;
    if (!e->angles || !angles->own || position < 0 || position >= e->config.rope.table_positions) return NULL;
    return angles->factor == e->attention_factor ? e->angles + position * e->config.rope.dim : NULL;
}

gyre_cos_sin gyre_angles_f32(const gyre_angles *angles, const gyre_frequency *frequency, int64_t first, int64_t count,
                             int64_t position, float *buffer) {
    const float *row = table_row(angles, position);
    gyre_cos_sin out = {buffer, buffer + count};
    if (!row) {
        double c[GYRE_PAIR_CHUNK], s[GYRE_PAIR_CHUNK];
        gyre_angles_f64(angles, frequency, count, position, c, s);
        for (int64_t j = 0; j < count; j++) {
            buffer[j] = (float)c[j];
            buffer[count + j] = (float)s[j];
        }
        return out;
    }
    out.cosine = row + first;
    const float *sine = row + angles->encoding->config.rope.dim / 2 + first;
    if (angles->direction == GYRE_FORWARD) {
        out.sine = sine;
        return out;
    }
    for (int64_t j = 0; j < count; j++)
        buffer[count + j] = -sine[j];
    return out;
}
