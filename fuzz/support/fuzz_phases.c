/* fuzz_phases.c: products of amplitudes and cosines. */
#include "fuzz_phases.h"

#include <math.h>

static const double ROUNDING = 0x1p-24, TURN = 6.283185307179586, SINE_ERROR = 0x1p-22;

int64_t fuzz_phases_first(const gyre_config *config) {
    return config->score.amplitudes ? config->score.amplitudes : config->head_dim / 2;
}

static fuzz_number dot(const double *a, const double *b, int64_t n) {
    double sum = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
        size += fabs(a[i] * b[i]);
    }
    return (fuzz_number){sum, (double)(n + 4) * ROUNDING * size};
}

fuzz_phased fuzz_phases_of(const gyre_config *config, const fuzz_pair *pair) {
    const int64_t first = fuzz_phases_first(config), phases = config->head_dim - first;
    const double alpha = config->score.exponent != 0 ? config->score.exponent : 0.1;
    const double rate = TURN * pow(fabs((double)(pair->m - pair->n)), alpha) / sqrt((double)phases);
    const fuzz_number a = dot(pair->q, pair->k, first), p = dot(pair->q + first, pair->k + first, phases);
    const double c = cos(rate * p.of), s = sin(rate * p.of), off = fmin(2, rate * p.error + SINE_ERROR);
    return (fuzz_phased){.product = {a.of * c, a.error + fabs(a.of) * off},
                         .of_amplitude = {c, off},
                         .of_phase = {-a.of * rate * s, rate * (a.error + fabs(a.of) * (off + 4 * ROUNDING))}};
}
