/* rotate_heads.cl: the queries and keys of a layer, rotated in place in one launch.  rotate_opencl.c runs it. */
#include "gyre/gyre_device.h"

typedef struct head_view {
    global float *data; /* [tokens][heads][head_dim] */
    int heads, head_dim;
} head_view;

static void rotate_all(head_view view, int token, int pair, int pairs, gyre_device_angle at) {
    for (int h = 0; h < view.heads; h++) {
        global float *head = view.data + ((size_t)token * view.heads + h) * view.head_dim;
        const int x = gyre_device_channel(GYRE_DEVICE_HALF, pairs, pair, 0);
        const int y = gyre_device_channel(GYRE_DEVICE_HALF, pairs, pair, 1);
        const gyre_device_pair out = gyre_device_rotate(gyre_device_pair_of(head[x], head[y]), at);
        head[x] = out.x;
        head[y] = out.y;
    }
}

/* One item for each pair of a token: all heads share its angle. */
kernel void rotate_heads(global float *q, global float *k, global const ulong *increments, global const long *positions,
                         float attention_factor, int heads, int kv_heads, int head_dim) {
    const int pair = get_global_id(0), pairs = get_global_size(0), token = get_global_id(1);
    const gyre_device_angle at =
        gyre_device_cos_sin(gyre_device_phase(increments[pair], positions[token]), attention_factor);
    const head_view queries = {q, heads, head_dim}, keys = {k, kv_heads, head_dim};
    rotate_all(queries, token, pair, pairs, at);
    rotate_all(keys, token, pair, pairs, at);
}
