/* simple.c: the simple calls of gyre.h, in terms of the complete ones.  (Creation: the file of the scheme.  Attention's:
 * attention/attention_dense.c.) */
#include "core/encoding.h"

gyre_status gyre_rotate_dense(const gyre_encoding *encoding, gyre_role role, void *x, gyre_dtype dtype, gyre_shape shape,
                              int64_t first_position, gyre_error *err) {
    const gyre_view view = gyre_dense(x, dtype, shape.batch, shape.tokens, shape.heads, shape.head_dim);
    const gyre_cview in = gyre_const(view);
    const gyre_positions positions = {.base = first_position};
    return gyre_rotate(encoding, GYRE_DIRECTION_FORWARD, role, &positions, &in, &view, NULL, err);
}
