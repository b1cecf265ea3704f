/* simple.c: the simple calls of gyre.h, in terms of the complete ones.  (Creation: the file of the scheme.  Attention's:
 * attention/attention_dense.c.) */
#include "core/encoding.h"

gyre_status gyre_rotate_dense(const gyre_encoding *encoding, gyre_role role, gyre_view x, int64_t first_position,
                              int64_t context_length, gyre_error *err) {
    const gyre_positions positions = {.base = first_position, .context_length = context_length};
    const gyre_rotate_args args = {
        .size = sizeof args, .role = role, .positions = &positions, .in = gyre_const(x), .out = x};
    return gyre_rotate(encoding, &args, NULL, err);
}
