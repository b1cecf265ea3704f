/* sinusoidal.c: sines and cosines of the position, added at the input. */
#include "core/angles.h"
#include "encodings/schemes.h"

#include <math.h>

static gyre_status check(gyre_encoding *encoding, gyre_error *err) {
    struct gyre_input_config *input = &encoding->config.input;
    if (input->layout != GYRE_SIN_INTERLEAVED && input->layout != GYRE_SIN_CONCATENATED &&
        input->layout != GYRE_SIN_TENSOR2TENSOR)
        return gyre_fail(err, GYRE_EINVAL, "input.layout: %d names no layout (gyre_config)", (int)input->layout);
    if (input->dim == 0)
        return gyre_fail(err, GYRE_EINVAL, "input.dim: missing; the sinusoid needs the model's width (gyre_config)");
    if (input->layout == GYRE_SIN_TENSOR2TENSOR && input->dim < 4)
        return gyre_fail(err, GYRE_EINVAL, "input.dim: %d is below 4; this layout divides by dim / 2 - 1 (gyre_config)",
                         (int)input->dim);
    if (input->layout != GYRE_SIN_TENSOR2TENSOR && input->dim % 2 != 0)
        return gyre_fail(err, GYRE_EINVAL, "input.dim: %d is odd; each sine needs its cosine (gyre_config)",
                         (int)input->dim);
    if (input->base == 0.0) input->base = 10000.0;
    if (!isfinite(input->base) || input->base <= 1.0)
        return gyre_fail(err, GYRE_EINVAL, "input.base: %g is not a number above 1 (gyre_config)", input->base);
    return GYRE_OK;
}

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    const gyre_status status = check(encoding, err);
    if (status != GYRE_OK) return status;
    const struct gyre_input_config *input = &encoding->config.input;
    const int64_t pairs = input->dim / 2;
    encoding->frequency = gyre_encoding_allocate(encoding, pairs, sizeof *encoding->frequency, err);
    if (!encoding->frequency) return GYRE_ENOMEM;
    for (int64_t i = 0; i < pairs; i++)
        encoding->frequency[i] = input->layout == GYRE_SIN_TENSOR2TENSOR
                                     ? gyre_frequency_power(input->base, i, pairs - 1)
                                     : gyre_frequency_power(input->base, 2 * i, input->dim);
    return GYRE_OK;
}

/* Channel c is a sine or a cosine of pair *pair, or neither (-1). */
enum { SINE, COSINE };
static int channel_kind(const struct gyre_input_config *input, int64_t c, int64_t *pair) {
    const int64_t pairs = input->dim / 2;
    if (c >= 2 * pairs) return -1; /* the odd last channel */
    if (input->layout == GYRE_SIN_INTERLEAVED) {
        *pair = c / 2;
        return c % 2 == 0 ? SINE : COSINE;
    }
    *pair = c % pairs;
    return c < pairs ? SINE : COSINE;
}

static void input_row(const gyre_encoding *encoding, const gyre_tables *tables, int64_t position, int64_t first,
                      int64_t count, double *row) {
    double cosine = 1.0, sine = 0.0;
    int64_t known = -1; /* the pair those are of: neighbours share it where interleaved */
    (void)tables;
    for (int64_t c = 0; c < count; c++) {
        int64_t pair = known;
        const int kind = channel_kind(&encoding->config.input, first + c, &pair);
        if (pair != known) gyre_angle(encoding->frequency[pair], (double)position, &cosine, &sine);
        known = pair;
        row[c] = kind == SINE ? sine : kind == COSINE ? cosine : 0.0;
    }
}

const gyre_scheme gyre_scheme_sinusoidal = {
    .kind = GYRE_SINUSOIDAL, .name = "sinusoidal", .places = GYRE_AT_INPUT, .init = init, .input_row = input_row};
