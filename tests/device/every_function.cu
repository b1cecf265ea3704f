/* every_function.cu: each function of gyre_device.h, and a kernel over q and k, for compilers of CUDA and HIP.  ci/run device
 * compiles it and runs nothing. */
#ifdef __HIP__
#include <hip/hip_runtime.h>
#endif
#include "gyre/gyre_device.h"

/* Any pair of a head, in one launch; the last argument shows that the biases compile too. */
extern "C" __global__ void rotate_heads(float *q, float *k, const uint64_t *increments, const int64_t *positions,
                                        float factor, int heads, int kv_heads, int pairs, int layout, float *biases) {
    const int pair = (int)threadIdx.x, token = (int)blockIdx.x;
    const int64_t m = positions[token], n = positions[0];
    const gyre_device_angle at = gyre_device_cos_sin(gyre_device_phase(increments[pair], m), factor);
    for (int h = 0; h < heads + kv_heads; h++) {
        float *head = h < heads ? q + ((int64_t)token * heads + h) * 2 * pairs
                                : k + ((int64_t)token * kv_heads + h - heads) * 2 * pairs;
        const int x = gyre_device_channel(layout, pairs, pair, 0), y = gyre_device_channel(layout, pairs, pair, 1);
        const gyre_device_pair in = gyre_device_pair_of(head[x], head[y]);
        const gyre_device_pair out = biases ? gyre_device_rotate_back(in, at) : gyre_device_rotate(in, at);
        head[x] = out.x;
        head[y] = out.y;
    }
    if (!biases || pair != 0) return;
    biases[4 * token] = gyre_device_alibi(factor, m, n);
    biases[4 * token + 1] = gyre_device_kerple_log(factor, factor, m, n);
    biases[4 * token + 2] = gyre_device_kerple_power(factor, factor, m, n);
    biases[4 * token + 3] = (float)gyre_device_distance_index(m, n, 128);
}
