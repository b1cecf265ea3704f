/* add.c: the input place, p(position) added to each token. */
#include "core/convert.h"
#include "core/encoding.h"
#include "core/view.h"

enum { CHANNEL_CHUNK = 256, TOKEN_CHUNK = 64, GRADIENT_CHANNELS = 64 };

typedef struct addition {
    const gyre_encoding *encoding;
    const gyre_tables *tables;
    const gyre_positions *positions;
    const gyre_cview *in;
    const gyre_view *out;
} addition;

static int acts_at_input(const gyre_encoding *encoding) {
    return (encoding->scheme->places & GYRE_AT_INPUT) != 0;
}

/* [batch, token, 1, dim]. */
static gyre_status check_rows(const gyre_encoding *encoding, const int64_t shape[4]) {
    return shape[2] == 1 && shape[3] == encoding->config.input.dim ? GYRE_OK : GYRE_ESHAPE;
}

/* One token of every batch row: where the rows share their positions, p is computed once for all. */
static void add_token(void *arg, int64_t t) {
    const addition *a = arg;
    const int64_t dim = a->in->shape[3];
    const int shared = !a->positions->data || a->positions->stride_batch == 0;
    int64_t position;
    double x[CHANNEL_CHUNK], p[CHANNEL_CHUNK];
    for (int64_t first = 0; first < dim; first += CHANNEL_CHUNK) {
        const int64_t count = dim - first < CHANNEL_CHUNK ? dim - first : CHANNEL_CHUNK;
        for (int64_t b = 0; b < a->in->shape[0]; b++) {
            if (b == 0 || !shared) {
                gyre_positions_read(a->positions, b, t, 1, &position);
                a->encoding->scheme->input_row(a->encoding, a->tables, position, first, count, p);
            }
            gyre_load_row_f64(gyre_cview_at(a->in, b, t, 0, first), a->in->dtype, a->in->stride[3], count, x);
            for (int64_t c = 0; c < count; c++)
                x[c] += p[c];
            gyre_store_row_f64(x, count, gyre_view_at(a->out, b, t, 0, first), a->out->dtype, a->out->stride[3]);
        }
    }
}

gyre_status gyre_add(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_positions *positions,
                     const gyre_cview *in, const gyre_view *out, const gyre_exec *exec) {
    if (!encoding || !positions || !in || !out) return GYRE_EINVAL;
    if (!acts_at_input(encoding)) return GYRE_EUNSUPPORTED;
    gyre_status status = gyre_pair_check(in, out);
    if (status == GYRE_OK) status = check_rows(encoding, in->shape);
    if (status == GYRE_OK) status = gyre_table_check(encoding, GYRE_TABLE_INPUT, tables ? &tables->input : NULL);
    if (status != GYRE_OK || gyre_view_elements(in->shape) == 0) return status;
    status = gyre_positions_check(encoding, positions, in->shape[0], in->shape[1]);
    if (status != GYRE_OK) return status;
    addition a = {encoding, tables, positions, in, out};
    gyre_parallel(exec, add_token, &a, in->shape[1]);
    return GYRE_OK;
}

typedef struct accumulation {
    const gyre_positions *positions;
    const gyre_cview *dout;
    const gyre_view *gradient;
} accumulation;

static void accumulate_row(const accumulation *a, int64_t b, int64_t t, int64_t position, int64_t first, int64_t count) {
    double x[GRADIENT_CHANNELS], sum[GRADIENT_CHANNELS];
    void *row = gyre_view_at(a->gradient, 0, 0, position, first);
    gyre_load_row_f64(gyre_cview_at(a->dout, b, t, 0, first), a->dout->dtype, a->dout->stride[3], count, x);
    gyre_load_row_f64(row, a->gradient->dtype, a->gradient->stride[3], count, sum);
    for (int64_t c = 0; c < count; c++)
        sum[c] += x[c];
    gyre_store_row_f64(sum, count, row, a->gradient->dtype, a->gradient->stride[3]);
}

/* Work is split by channel, never by token: two tokens may share a row, and the order of their sum must not move. */
static void accumulate_channels(void *arg, int64_t block) {
    const accumulation *a = arg;
    const int64_t tokens = a->dout->shape[1], first = block * GRADIENT_CHANNELS, left = a->dout->shape[3] - first;
    const int64_t count = left < GRADIENT_CHANNELS ? left : GRADIENT_CHANNELS;
    int64_t positions[TOKEN_CHUNK];
    for (int64_t b = 0; b < a->dout->shape[0]; b++)
        for (int64_t t = 0; t < tokens; t++) {
            const int64_t ahead = tokens - t < TOKEN_CHUNK ? tokens - t : TOKEN_CHUNK;
            if (t % TOKEN_CHUNK == 0) gyre_positions_read(a->positions, b, t, ahead, positions);
            accumulate_row(a, b, t, positions[t % TOKEN_CHUNK], first, count);
        }
}

gyre_status gyre_add_gradient(const gyre_encoding *encoding, const gyre_positions *positions, const gyre_cview *dout,
                              const gyre_table_gradients *gradients, const gyre_exec *exec) {
    if (!encoding || !positions || !dout) return GYRE_EINVAL;
    if (!acts_at_input(encoding)) return GYRE_EUNSUPPORTED;
    if (!gyre_is_real(dout->dtype)) return GYRE_EDTYPE;
    gyre_status status = gyre_cview_check(dout);
    if (status == GYRE_OK) status = check_rows(encoding, dout->shape);
    if (status != GYRE_OK || encoding->table[GYRE_TABLE_INPUT].rows == 0) return status;
    if (!gradients) return GYRE_EINVAL;
    const gyre_cview table = gyre_const(gradients->input);
    status = gyre_table_check(encoding, GYRE_TABLE_INPUT, &table);
    if (status == GYRE_OK) status = gyre_output_check(&gradients->input);
    if (status != GYRE_OK || gyre_view_elements(dout->shape) == 0) return status;
    status = gyre_positions_check(encoding, positions, dout->shape[0], dout->shape[1]);
    if (status != GYRE_OK) return status;
    accumulation a = {positions, dout, &gradients->input};
    gyre_parallel(exec, accumulate_channels, &a, (dout->shape[3] + GRADIENT_CHANNELS - 1) / GRADIENT_CHANNELS);
    return GYRE_OK;
}
