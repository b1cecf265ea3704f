/* simple.c: the simple calls of gyre.h, in terms of the complete ones.  (Attention's: attention/attention_dense.c.) */
#include "core/encoding.h"

gyre_status gyre_rope_create(gyre_encoding **out, int64_t head_dim, double base, gyre_layout layout, gyre_error *err) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = head_dim;
    config.rope.base = base;
    config.rope.layout = layout;
    return gyre_encoding_create(out, &config, NULL, err);
}

gyre_status gyre_rope_create_scaled(gyre_encoding **out, int64_t head_dim, double base, gyre_scaling scaling, double factor,
                                    int64_t trained_length, gyre_error *err) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = head_dim;
    config.trained_length = trained_length;
    config.rope.base = base;
    config.rope.scaling = scaling;
    config.rope.factor = factor;
    return gyre_encoding_create(out, &config, NULL, err);
}

gyre_status gyre_alibi_create(gyre_encoding **out, int64_t heads, gyre_error *err) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ALIBI;
    config.heads = heads;
    return gyre_encoding_create(out, &config, NULL, err);
}

gyre_status gyre_rotate_dense(const gyre_encoding *encoding, gyre_role role, void *x, gyre_dtype dtype, gyre_shape shape,
                              int64_t first_position, gyre_error *err) {
    const gyre_view view = gyre_dense(x, dtype, shape.batch, shape.tokens, shape.heads, shape.head_dim);
    const gyre_cview in = gyre_const(view);
    const gyre_positions positions = {.base = first_position};
    return gyre_rotate(encoding, GYRE_DIRECTION_FORWARD, role, &positions, &in, &view, NULL, err);
}
