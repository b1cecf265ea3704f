/* show_encodings.c: the encodings that questions are about. */
#include "tools/common/variants.h"
#include "tools/show/show.h"
#include "util/random.h"
#include <string.h>

gyre_status show_sinusoid(const show_options *o, gyre_encoding **out, gyre_error *err) {
    return sinusoid_create(out, o->dim, o->base, GYRE_SINUSOID_INTERLEAVED, err);
}

gyre_status show_rotation(const show_options *o, int clockwise, double factor, gyre_encoding **out, gyre_error *err) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = gyre_kind_find("rope");
    config.head_dim = o->dim;
    config.rope.base = o->base;
    config.rope.layout = GYRE_LAYOUT_INTERLEAVED;
    config.rope.clockwise = clockwise;
    config.rope.scaling = GYRE_SCALING_LINEAR;
    config.rope.factor = factor;
    config.rope.table_positions = GYRE_NO_TABLE;
    return gyre_encoding_create(out, &config, NULL, err);
}

gyre_status show_rows(const show_options *o, const gyre_encoding *sinusoid, int64_t first, int64_t count, double *rows,
                      gyre_error *err) {
    const gyre_positions positions = {.base = first};
    const gyre_view out = gyre_dense(rows, GYRE_DTYPE_F64, 1, count, 1, o->dim);
    const gyre_cview in = gyre_const(out);
    memset(rows, 0, (size_t)(count * o->dim) * sizeof *rows);
    return gyre_add_input(sinusoid, GYRE_ARGS(gyre_add_input_args, .positions = &positions, .in = in, .out = out), &o->exec,
                          err);
}

/* out = a multiple of 2^-63 in [-1, 1). */
double show_random(uint64_t *state) {
    return (double)(int64_t)gyre_random_next(state) * 0x1p-63;
}
