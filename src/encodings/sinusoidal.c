/* sinusoidal.c: sines and cosines of the position, added at the input.  Layouts, for 3 pairs:
 *
 *     INTERLEAVED                   s0 c0 s1 c1 s2 c2
 *     SIN_COS, SIN_COS_T2T          s0 s1 s2 c0 c1 c2
 *     COS_SIN, COS_SIN_T2T          c0 c1 c2 s0 s1 s2
 *
 * The T2T (tensor2tensor) layouts have exponent i / (pairs - 1) instead of 2 i / dim, and an odd last channel is 0. */
#include "core/encoding.h"
#include "core/rotation/angle_table.h"
#include "core/rotation/angles.h"
#include "encodings/input_config.h"
#include "encodings/schemes.h"
#include "util/error.h"

#include <math.h>

typedef struct gyre_input_config input_config;

typedef struct layout_traits {
    int interleaved, cosines_first;
    int short_exponent; /* tensor2tensor's */
} layout_traits;
static const layout_traits layouts[] = {[GYRE_SINUSOID_INTERLEAVED] = {1, 0, 0},
                                        [GYRE_SINUSOID_SIN_COS] = {0, 0, 0},
                                        [GYRE_SINUSOID_SIN_COS_T2T] = {0, 0, 1},
                                        [GYRE_SINUSOID_COS_SIN] = {0, 1, 0},
                                        [GYRE_SINUSOID_COS_SIN_T2T] = {0, 1, 1}};

static gyre_status check_layout(const input_config *input, gyre_error *err) {
    const int short_exponent = layouts[input->layout].short_exponent;
    if (short_exponent && input->dim < 4)
        return gyre_fail(err, GYRE_EINVAL, "input.dim: %d is below 4; this layout divides by dim / 2 - 1 (gyre_config)",
                         (int)input->dim);
    if (!short_exponent && input->dim % 2 != 0)
        return gyre_fail(err, GYRE_EINVAL, "input.dim: %d is odd; each sine needs its cosine (gyre_config)",
                         (int)input->dim);
    return GYRE_OK;
}

static gyre_status check(gyre_encoding *encoding, gyre_error *err) {
    input_config *input = &encoding->config.input;
    gyre_status status = gyre_input_config_check(encoding, err);
    if (!status) status = check_layout(input, err);
    if (status) return status;
    if (input->resized_length != 0)
        return gyre_fail(err, GYRE_EINVAL,
                         "input.resized_length: %d is for a learned table; a sinusoid has no end (gyre_config)",
                         (int)input->resized_length);
    if (input->hierarchy != 0.0)
        return gyre_fail(err, GYRE_EINVAL, "input.hierarchy: %g is for a learned table; a sinusoid has no end (gyre_config)",
                         input->hierarchy);
    return GYRE_OK;
}

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    const gyre_status status = check(encoding, err);
    if (status) return status;
    const input_config *input = &encoding->config.input;
    const int64_t pairs = input->dim / 2;
    encoding->frequency = gyre_encoding_allocate(encoding, pairs, sizeof *encoding->frequency, err);
    if (!encoding->frequency) return GYRE_ENOMEM;
    for (int64_t i = 0; i < pairs; i++)
        encoding->frequency[i] = layouts[input->layout].short_exponent
                                     ? gyre_frequency_power(input->base, i, pairs - 1)
                                     : gyre_frequency_power(input->base, 2 * i, input->dim);
    gyre_angle_table_make_default(encoding, pairs, encoding->config.trained_length);
    if (input->trained_scale) encoding->table[GYRE_TABLE_INPUT] = (gyre_table_size){1, 1, 1};
    return GYRE_OK;
}

/* out = whether channel c is the sine or the cosine of pair *pair, or neither. */
enum { SINE, COSINE, NEITHER };
static int channel_kind(const input_config *input, int64_t c, int64_t *pair) {
    const layout_traits *traits = &layouts[input->layout];
    const int64_t pairs = input->dim / 2;
    if (c >= 2 * pairs) return NEITHER; /* the odd last channel */
    *pair = traits->interleaved ? c / 2 : c % pairs;
    const int second = traits->interleaved ? c % 2 != 0 : c >= pairs;
    return second != traits->cosines_first ? COSINE : SINE;
}

static void input_row(const gyre_encoding *encoding, int64_t position, int64_t first, int64_t count, double *row) {
    const input_config *input = &encoding->config.input;
    const int padding = input->zero_padding && position == -1;
    const double angle_position = (double)(position + input->offset);
    double cosine = 1.0, sine = 0.0;
    int64_t current = -1; /* the pair of cosine and sine: interleaved neighbours share it */
    for (int64_t c = 0; c < count; c++) {
        int64_t pair = current;
        const int kind = padding ? NEITHER : channel_kind(input, first + c, &pair);
        if (pair != current) gyre_angle(encoding->frequency[pair], angle_position, &cosine, &sine);
        current = pair;
        row[c] = kind == SINE ? sine : kind == COSINE ? cosine : 0.0;
    }
}

/* From the angle table.  out = 0 if it has no row for the position. */
static int input_row_f32(const gyre_encoding *encoding, int64_t position, float factor, float *row) {
    const input_config *input = &encoding->config.input;
    const layout_traits *traits = &layouts[input->layout];
    const int64_t pairs = input->dim / 2;
    if (input->zero_padding && position == -1) return 0;
    const float *cosine = gyre_angle_table_row(encoding, position + input->offset);
    if (!cosine) return 0;
    const float *first = traits->cosines_first ? cosine : cosine + pairs,
                *second = traits->cosines_first ? cosine + pairs : cosine;
    for (int64_t i = 0; traits->interleaved && i < pairs; i++) {
        row[2 * i] = factor * first[i];
        row[2 * i + 1] = factor * second[i];
    }
    for (int64_t i = 0; !traits->interleaved && i < pairs; i++) {
        row[i] = factor * first[i];
        row[pairs + i] = factor * second[i];
    }
    if (input->dim % 2 != 0) row[2 * pairs] = 0;
    return 1;
}

const gyre_scheme gyre_scheme_sinusoidal = {.kind = GYRE_KIND_SINUSOIDAL,
                                            .places = GYRE_PLACE_INPUT,
                                            .init = init,
                                            .input_row = input_row,
                                            .input_row_f32 = input_row_f32};
