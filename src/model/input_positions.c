/* input_positions.c: position by sum, by product and by concatenation. */
#include "model/input_positions.h"
#include "core/positions.h"
#include "core/view.h"

#include <string.h>

/* p = the row that the encoding adds at a position. */
static gyre_status row_of(const gyre_encoding *encoding, gyre_positions one, int64_t dim, float *p, gyre_error *err) {
    const gyre_view out = gyre_dense(p, GYRE_DTYPE_F32, 1, 1, 1, dim);
    const gyre_cview in = gyre_const(out);
    memset(p, 0, (size_t)dim * sizeof *p);
    return gyre_add_input(encoding, GYRE_ARGS(gyre_add_input_args, .positions = &one, .in = in, .out = out), NULL, err);
}

/* The last quarter of the channels takes every fourth pair of p: those are the frequencies of a sinusoid of that size. */
static void concatenate(const float *p, int64_t dim, int gradient, float *x) {
    const int64_t count = dim / 4, first = dim - count;
    for (int64_t c = 0; c < count; c++)
        x[first + c] = gradient ? 0 : p[c / 2 * 8 + c % 2];
}

static void form_row(int64_t form, const float *p, int64_t dim, int gradient, float *x) {
    if (form == GYRE_POSITION_FORM_CONCATENATED) {
        concatenate(p, dim, gradient, x);
        return;
    }
    for (int64_t c = 0; c < dim; c++)
        x[c] *= p[c];
}

static gyre_status form_rows(const gyre_encoding *encoding, int64_t form, const gyre_positions *positions, int gradient,
                             const gyre_view *x, gyre_error *err) {
    float p[GYRE_MAX_FORMED_DIM];
    const int64_t dim = x->shape[3];
    gyre_status status = GYRE_OK;
    for (int64_t t = 0, last = 0; t < x->shape[1] && !status; t++)
        for (int64_t b = 0; b < x->shape[0] && !status; b++) {
            const int64_t position = gyre_position_at(positions, b, t, 0);
            const gyre_positions one = {.base = position, .context_length = positions->context_length};
            if (b == 0 || position != last) status = row_of(encoding, one, dim, p, err);
            if (!status) form_row(form, p, dim, gradient, gyre_view_at(x, b, t, 0, 0));
            last = position;
        }
    return status;
}

gyre_status gyre_input_positions(const gyre_encoding *encoding, int64_t form, const gyre_tables *tables,
                                 const gyre_positions *positions, const gyre_view *x, gyre_error *err) {
    const gyre_cview in = gyre_const(*x);
    if (form == GYRE_POSITION_FORM_SUM)
        return gyre_add_input(encoding,
                              GYRE_ARGS(gyre_add_input_args, .tables = tables, .positions = positions, .in = in, .out = *x),
                              NULL, err);
    return form_rows(encoding, form, positions, 0, x, err);
}

gyre_status gyre_input_positions_gradient(const gyre_encoding *encoding, int64_t form, const gyre_positions *positions,
                                          const gyre_view *dx, gyre_error *err) {
    return form == GYRE_POSITION_FORM_SUM ? GYRE_OK : form_rows(encoding, form, positions, 1, dx, err);
}
