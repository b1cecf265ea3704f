/* encoding_frequencies.c: queries about an encoding's rotation: frequencies, attention factor, parts of the scaling. */
#include "core/encoding.h"
#include "core/rotation/angles.h"
#include "core/rotation/frequency.h"
#include "core/scheme.h"

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
