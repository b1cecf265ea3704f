/* encoding_frequencies.c: queries about an encoding's rotation: frequencies, phases, attention factor, scaling parts. */
#include "core/encoding.h"
#include "core/positions.h"
#include "core/rotation/angles.h"
#include "core/rotation/frequency.h"
#include "core/scheme.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>

static gyre_status check_rotates(const gyre_encoding *encoding, int64_t length) {
    if (!encoding || length < 0) return GYRE_EINVAL;
    return encoding->scheme->places & GYRE_PLACE_QUERY_KEY ? GYRE_OK : GYRE_EUNSUPPORTED;
}

gyre_status gyre_encoding_frequencies(const gyre_encoding *encoding, int64_t length, double *inv_freq,
                                      double *attention_factor) {
    const gyre_status status = check_rotates(encoding, length);
    if (status) return status;
    if (inv_freq) gyre_rope_rounded_frequencies(&encoding->config, length, inv_freq);
    if (attention_factor) *attention_factor = gyre_angles_of(encoding, GYRE_DIRECTION_FORWARD, length).factor;
    return GYRE_OK;
}

gyre_status gyre_encoding_scaling_parts(const gyre_encoding *encoding, int64_t length, gyre_scaling_parts *out) {
    if (!out) return GYRE_EINVAL;
    const gyre_status status = check_rotates(encoding, length);
    if (!status) *out = gyre_rope_parts(&encoding->config, length);
    return status;
}

/* Turns per position modulo 1, in units of 2^-64. */
static uint64_t increment_of(gyre_frequency frequency, int clockwise) {
    static const long double two_pi = 6.283185307179586476925286766559005768L;
    const long double turns = ((long double)frequency.high + (long double)frequency.low) / two_pi;
    const long double scaled = rintl(ldexpl(turns - floorl(turns), 64)); /* 2^64 = a whole turn = 0 */
    const uint64_t increment = scaled < 0x1p64L ? (uint64_t)scaled : 0;
    return clockwise ? 0 - increment : increment;
}

static gyre_status check_phases(const gyre_encoding *encoding, int64_t length, const uint64_t *increments, gyre_error *err) {
    if (!encoding || !increments)
        return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (gyre_encoding_phases)", encoding ? "increments" : "encoding");
    if (length < 0)
        return gyre_fail(err, GYRE_EINVAL, "context_length: %" PRId64 " is below 0 (gyre_encoding_phases)", length);
    if (!encoding->frequency || !gyre_encoding_rotates(encoding))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "encoding: %s rotates nothing (gyre_encoding_phases)",
                         gyre_kind_name(encoding->scheme->kind));
    if (encoding->config.rope.angles != GYRE_ANGLE_PATH_EXACT)
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "rope.angles: angles as another program computes them are no multiples of a phase "
                         "(gyre_encoding_phases)");
    if (length == 0 && encoding->last_scaled < GYRE_MAX_POSITION)
        return gyre_fail(err, GYRE_EINVAL,
                         "context_length: 0, but the scaling follows the length in use past position %" PRId64
                         " (gyre_encoding_phases)",
                         encoding->last_scaled);
    return GYRE_OK;
}

gyre_status gyre_encoding_phases(const gyre_encoding *encoding, int64_t length, uint64_t *increments, unsigned char *axes,
                                 double *attention_factor, gyre_error *err) {
    const gyre_status status = check_phases(encoding, length, increments, err);
    if (status) return status;
    const gyre_angles angles = gyre_angles_of(encoding, GYRE_DIRECTION_FORWARD, length);
    if (gyre_angles_have_start(&angles))
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "rope.longrope.start_tokens: the first tokens rotate by other frequencies (gyre_encoding_phases)");
    gyre_frequency buffer[GYRE_PAIR_CHUNK];
    for (int64_t first = 0, pairs = encoding->config.rope.dim / 2, count; first < pairs; first += count) {
        count = pairs - first < GYRE_PAIR_CHUNK ? pairs - first : GYRE_PAIR_CHUNK;
        const gyre_frequency *frequency = gyre_angles_frequencies(&angles, first, count, buffer);
        for (int64_t j = 0; j < count; j++) {
            increments[first + j] = increment_of(frequency[j], encoding->config.rope.clockwise);
            if (axes) axes[first + j] = encoding->axis ? encoding->axis[first + j] : 0;
        }
    }
    if (attention_factor) *attention_factor = angles.factor;
    return GYRE_OK;
}
