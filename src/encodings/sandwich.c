/* sandwich.c: Sandwich: p_m . p_n / (8 (h + 1) / heads), where p is a sinusoid of dim = sinusoid_dim channels.  The product
 * is the sum over pairs of cos((m - n) theta_i), theta_i = 10000^(-2 i / dim).  Some implementations subtract dim / 2; a
 * constant cancels in the softmax. */
#include "core/encoding.h"
#include "core/relative_table.h"
#include "core/rotation/angles.h"
#include "encodings/schemes.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* CACHED_DISTANCES: sums of cosines computed at creation.  RECURRENCE_STEPS: rotations between computed cosines. */
enum { CACHED_DISTANCES = 8192, RECURRENCE_STEPS = 128, MAX_SINUSOID_DIM = 65536 };

/* out[j] += sum over `count` pairs of cos((k[j] - q) theta).  For consecutive keys the cosine follows from the previous one
 * by a rotation by theta, which is cheaper.  It is recomputed every RECURRENCE_STEPS, before roundings add up. */
static void add_cosines(const gyre_frequency *frequency, int64_t count, const gyre_bias_row *row, double *out) {
    double c[GYRE_PAIR_CHUNK], s[GYRE_PAIR_CHUNK], step_c[GYRE_PAIR_CHUNK], step_s[GYRE_PAIR_CHUNK];
    for (int64_t i = 0; i < count; i++)
        gyre_angle(frequency[i], 1, &step_c[i], &step_s[i]);
    for (int64_t j = 0; j < row->n; j++) {
        const int by_recurrence = j % RECURRENCE_STEPS != 0 && row->k[j] == row->k[j - 1] + 1;
        double sum = 0;
        for (int64_t i = 0; !by_recurrence && i < count; i++)
            gyre_angle(frequency[i], (double)(row->k[j] - row->q), &c[i], &s[i]);
        for (int64_t i = 0; by_recurrence && i < count; i++) {
            const double previous = c[i];
            c[i] = previous * step_c[i] - s[i] * step_s[i];
            s[i] = previous * step_s[i] + s[i] * step_c[i];
        }
        for (int64_t i = 0; i < count; i++)
            sum += c[i];
        out[j] += sum;
    }
}

/* out[j] = p_q . p_k[j]. */
static void sum_cosines(const gyre_encoding *encoding, const gyre_bias_row *row, double *out) {
    const int64_t pairs = encoding->config.score.sinusoid_dim / 2;
    memset(out, 0, (size_t)row->n * sizeof *out);
    for (int64_t first = 0; first < pairs; first += GYRE_PAIR_CHUNK)
        add_cosines(encoding->frequency + first, pairs - first < GYRE_PAIR_CHUNK ? pairs - first : GYRE_PAIR_CHUNK, row,
                    out);
}

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    struct gyre_score_config *score = &encoding->config.score;
    if (encoding->config.heads == 0)
        return gyre_fail(err, GYRE_EINVAL, "heads: missing; Sandwich divides by a number of each (gyre_config)");
    if (score->sinusoid_dim == 0) score->sinusoid_dim = 128;
    if (score->sinusoid_dim % 2 != 0 || score->sinusoid_dim > MAX_SINUSOID_DIM)
        return gyre_fail(err, GYRE_EINVAL, "score.sinusoid_dim: %" PRId64 " is not an even number up to %d (gyre_config)",
                         score->sinusoid_dim, MAX_SINUSOID_DIM);
    const gyre_status status = gyre_terms_check(encoding, 0, err);
    if (status) return status;
    encoding->frequency = gyre_encoding_allocate(encoding, score->sinusoid_dim / 2, sizeof *encoding->frequency, err);
    if (!encoding->frequency) return GYRE_ENOMEM;
    for (int64_t i = 0; i < score->sinusoid_dim / 2; i++)
        encoding->frequency[i] = gyre_frequency_power(10000, 2 * i, score->sinusoid_dim);
    encoding->fixed_table = gyre_encoding_allocate(encoding, CACHED_DISTANCES, sizeof *encoding->fixed_table, err);
    if (!encoding->fixed_table) return GYRE_ENOMEM;
    for (int64_t first = 0; first < CACHED_DISTANCES; first += RECURRENCE_STEPS) {
        int64_t k[RECURRENCE_STEPS];
        for (int64_t j = 0; j < RECURRENCE_STEPS; j++)
            k[j] = first + j;
        sum_cosines(encoding, &(gyre_bias_row){0, 0, k, RECURRENCE_STEPS, NULL, 0}, encoding->fixed_table + first);
    }
    return GYRE_OK;
}

static void suggest(gyre_config *config) {
    if (config->score.sinusoid_dim == 0) config->score.sinusoid_dim = 128;
}

static void bias_row(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_bias_row *row, double *out) {
    const double ratio = 8 * (double)(row->head + 1) / (double)encoding->config.heads;
    int cached = 1;
    (void)tables;
    for (int64_t j = 0; j < row->n; j++)
        cached &= llabs(row->k[j] - row->q) < CACHED_DISTANCES;
    if (!cached) sum_cosines(encoding, row, out);
    for (int64_t j = 0; j < row->n; j++)
        out[j] = (cached ? encoding->fixed_table[llabs(row->k[j] - row->q)] : out[j]) / ratio;
}

const gyre_scheme gyre_scheme_sandwich = {
    .kind = GYRE_KIND_SANDWICH, .places = GYRE_PLACE_SCORE, .init = init, .suggest = suggest, .bias_row = bias_row};
