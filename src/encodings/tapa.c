/* tapa.c: TAPA (Wang 2025, arXiv 2509.12635, eq. 12): the product of the first channels of q and k, the amplitudes, times
 * the cosine of that of the others, the phases, times distance^alpha:
 *
 *     scale (q_A . k_A) cos(2 pi |m - n|^alpha (q_P . k_P) / sqrt(phase channels)),    scale = 1 / sqrt(amplitude channels)
 *
 * Nothing is trained.  Attention computes the products and the cosine (attention/terms/phases.h); this file has the
 * factor of the second product, in revolutions. */
#include "core/encoding.h"
#include "core/relative_table.h"
#include "encodings/schemes.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Powers of distances below NEAR come from a table.  A distance of LEAD_BITS + s bits is 2^s (lead + rest), lead an integer
 * of LEAD_BITS bits, rest in [0, 1), and its power is that of lead times 2^(s alpha) times (1 + rest / lead)^alpha, whose
 * series ends before (rest / lead)^4, below 2^-48.  So no call computes a power, and every whole distance has its own. */
enum { LEAD_BITS = 13, NEAR = 1 << LEAD_BITS, SHIFTS = 64 - LEAD_BITS };

static gyre_status check_channels(const gyre_config *config, gyre_error *err) {
    if (config->head_dim < 2)
        return gyre_fail(err, GYRE_EINVAL,
                         "head_dim: %" PRId64 "; TAPA needs at least 2 channels, for amplitude and phase "
                         "(gyre_config)",
                         config->head_dim);
    if (config->score.amplitudes < config->head_dim) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL,
                     "score.amplitudes: %" PRId64 " channels of %" PRId64 " leave none for the phase (gyre_config)",
                     config->score.amplitudes, config->head_dim);
}

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    struct gyre_score_config *tapa = &encoding->config.score;
    gyre_status status = check_channels(&encoding->config, err);
    if (!status) status = gyre_terms_check(encoding, 0, err);
    if (status) return status;
    if (tapa->amplitudes == 0) tapa->amplitudes = encoding->config.head_dim / 2;
    encoding->product_channels = tapa->amplitudes;
    encoding->fixed_table = gyre_encoding_allocate(encoding, NEAR + SHIFTS, sizeof *encoding->fixed_table, err);
    if (!encoding->fixed_table) return GYRE_ENOMEM;
    const double factor = 1 / sqrt((double)(encoding->config.head_dim - tapa->amplitudes));
    for (int64_t d = 0; d < NEAR; d++)
        encoding->fixed_table[d] = factor * pow((double)d, tapa->exponent);
    for (int64_t s = 0; s < SHIFTS; s++)
        encoding->fixed_table[NEAR + s] = exp2(tapa->exponent * (double)s);
    return GYRE_OK;
}

static double turns_at(const gyre_encoding *encoding, int64_t distance) {
    if (distance < NEAR) return encoding->fixed_table[distance];
    const double alpha = encoding->config.score.exponent;
    const int shift = 64 - LEAD_BITS - __builtin_clzll((unsigned long long)distance);
    const int64_t lead = distance >> shift;
    const double x = (double)(distance - (lead << shift)) / (double)(lead << shift);
    const double series = 1 + alpha * x * (1 + (alpha - 1) / 2 * x * (1 + (alpha - 2) / 3 * x));
    return encoding->fixed_table[lead] * encoding->fixed_table[NEAR + shift] * series;
}

static void phase_row(const gyre_encoding *encoding, int64_t q, const int64_t *k, int64_t n, double *turns) {
    for (int64_t j = 0; j < n; j++)
        turns[j] = turns_at(encoding, llabs(q - k[j]));
}

const gyre_scheme gyre_scheme_tapa = {
    .kind = GYRE_KIND_TAPA, .places = GYRE_PLACE_SCORE, .init = init, .phase_row = phase_row};
