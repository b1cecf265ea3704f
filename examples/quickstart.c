#include <gyre/gyre.h>
#include <stdio.h>
int main(void) {
    static float q[4][8][128] = {{{1}}}; /* 4 tokens, 8 heads, 128 channels */
    gyre_config config = {.size = sizeof config, .kind = GYRE_KIND_ROPE, .head_dim = 128, .trained_length = 8192};
    config.rope = (struct gyre_rope_config){.base = 500000, .scaling = GYRE_SCALING_YARN, .factor = 4};
    gyre_view view = gyre_dense(q, GYRE_DTYPE_F32, 1, 4, 8, 128);
    gyre_cview in = gyre_const(view);
    gyre_encoding *rope = NULL;
    gyre_status status = gyre_encoding_create(&rope, &config, NULL, NULL);
    if (!status)
        status = gyre_rotate(rope, GYRE_DIRECTION_FORWARD, GYRE_ROLE_QUERY, &(gyre_positions){.base = 100000}, &in, &view,
                             NULL, NULL);
    printf("%s: (1, 0) at position 100000 is (%f, %f)\n", gyre_status_text(status), q[0][0][0], q[0][0][64]);
    gyre_encoding_free(rope);
    return status != GYRE_OK;
}
