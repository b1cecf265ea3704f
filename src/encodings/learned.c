/* learned.c: a trained vector for each position, added at the input.  For lengths past the table, rows are interpolated or
 * combined in pairs (hierarchy). */
#include "core/encoding.h"
#include "encodings/input_config.h"
#include "encodings/schemes.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>

typedef struct gyre_input_config input_config;

static int64_t trained_positions(const input_config *input) {
    return input->positions - input->offset;
}

/* Positions that the table has if input.resized_length is 0. */
static int64_t default_length(const input_config *input) {
    const int64_t n = trained_positions(input);
    if (input->hierarchy == 0.0) return n;
    return n <= INT32_MAX / n ? n * n : INT32_MAX; /* the largest value of input.resized_length */
}

static gyre_status check_table(const input_config *input, gyre_error *err) {
    if (input->positions == 0)
        return gyre_fail(err, GYRE_EINVAL,
                         "input.positions: missing; a learned table needs its number of rows (gyre_config)");
    if (input->offset >= input->positions)
        return gyre_fail(err, GYRE_EINVAL,
                         "input.offset: %" PRId64 " leaves no row of input.positions %" PRId64 " (gyre_config)",
                         input->offset, input->positions);
    if (input->zero_padding)
        return gyre_fail(err, GYRE_EINVAL,
                         "input.zero_padding: %d is for the sinusoid; padding has a row of a learned table (gyre_config)",
                         input->zero_padding);
    if (input->trained_scale)
        return gyre_fail(err, GYRE_EINVAL,
                         "input.trained_scale: %d is for the sinusoid; a learned table trains whole (gyre_config)",
                         input->trained_scale);
    return GYRE_OK;
}

static gyre_status check_extension(const input_config *input, gyre_error *err) {
    if (!(input->hierarchy == 0.0 || (input->hierarchy > 0.0 && input->hierarchy < 1.0)))
        return gyre_fail(err, GYRE_EINVAL, "input.hierarchy: %g is not between 0 and 1 (gyre_config)", input->hierarchy);
    if (input->hierarchy != 0.0 && input->resized_length > default_length(input))
        return gyre_fail(err, GYRE_EINVAL,
                         "input.resized_length: %" PRId64 " is past %" PRId64 ", all that %" PRId64
                         " rows make two by two (gyre_config)",
                         input->resized_length, default_length(input), trained_positions(input));
    return GYRE_OK;
}

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    const input_config *input = &encoding->config.input;
    gyre_status status = gyre_input_config_check(encoding, err);
    if (!status) status = check_table(input, err);
    if (!status) status = check_extension(input, err);
    if (status) return status;
    encoding->table[GYRE_TABLE_INPUT] = (gyre_table_size){1, input->positions, input->dim};
    encoding->first_position = -input->offset;
    encoding->last_position = (input->resized_length > 0 ? input->resized_length : default_length(input)) - 1;
    return GYRE_OK;
}

static void suggest(gyre_config *config) {
    input_config *input = &config->input;
    const int64_t trained = config->trained_length;
    if (input->positions == 0 && trained > 0 && input->offset >= 0 && trained <= INT64_MAX - input->offset)
        input->positions = trained + input->offset;
}

/* Position i n + j: p_j + alpha / (1 - alpha) (p_i - p_0), as in kexue.fm 7947 with u written out. */
static gyre_weighted_rows hierarchical_rows(const input_config *input, int64_t position) {
    const int64_t n = trained_positions(input), i = position / n, j = position % n;
    const double ratio = input->hierarchy / (1.0 - input->hierarchy);
    if (i == 0) return (gyre_weighted_rows){1, {j + input->offset}, {1.0}};
    return (gyre_weighted_rows){3, {j + input->offset, i + input->offset, input->offset}, {1.0, ratio, -ratio}};
}

/* Position m is at m (n - 1) / (length - 1): a row and an exact fraction of the way to the next row.  Not for position 0,
 * which is row 0 even if the length is 1. */
static gyre_weighted_rows interpolated_rows(const input_config *input, int64_t position) {
    const int64_t steps = input->resized_length - 1, scaled = position * (trained_positions(input) - 1);
    const int64_t row = scaled / steps + input->offset, rest = scaled % steps;
    if (rest == 0) return (gyre_weighted_rows){1, {row}, {1.0}};
    return (gyre_weighted_rows){2, {row, row + 1}, {(double)(steps - rest) / (double)steps, (double)rest / (double)steps}};
}

static gyre_weighted_rows input_weighted_rows(const gyre_encoding *encoding, int64_t position) {
    const input_config *input = &encoding->config.input;
    if (position >= 0 && input->hierarchy != 0.0) return hierarchical_rows(input, position);
    if (position > 0 && input->resized_length > 0) return interpolated_rows(input, position);
    return (gyre_weighted_rows){1, {position + input->offset}, {1.0}};
}

const gyre_scheme gyre_scheme_learned = {.kind = GYRE_KIND_LEARNED,
                                         .places = GYRE_PLACE_INPUT,
                                         .traits = GYRE_TRAIT_ENDS,
                                         .init = init,
                                         .suggest = suggest,
                                         .input_weighted_rows = input_weighted_rows};
