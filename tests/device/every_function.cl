/* every_function.cl: each function of gyre_device.h on a device; every_function.c compares the results. */
#include "gyre/gyre_device.h"

/* One item for each position and pair.  biases: ALiBi, both of KERPLE, for slope, r1 and r2 of `numbers`. */
kernel void every_function(global const ulong *increments, global const long *positions, global const float *numbers,
                           global ulong *phases, global float *angles, global float *rotated, global float *biases,
                           global int *indices) {
    const size_t pair = get_global_id(0), at = get_global_id(1), i = at * get_global_size(0) + pair;
    const ulong phase = gyre_device_phase(increments[pair], positions[at]);
    const gyre_device_angle angle = gyre_device_cos_sin(phase, numbers[3]);
    const gyre_device_pair in = gyre_device_pair_of(numbers[4], numbers[5]);
    const gyre_device_pair out = gyre_device_rotate(in, angle), back = gyre_device_rotate_back(in, angle);
    phases[i] = phase;
    angles[2 * i] = angle.cosine;
    angles[2 * i + 1] = angle.sine;
    rotated[4 * i] = out.x;
    rotated[4 * i + 1] = out.y;
    rotated[4 * i + 2] = back.x;
    rotated[4 * i + 3] = back.y;
    if (pair != 0) return;
    const long m = positions[at], n = positions[get_global_size(1) - 1 - at];
    biases[3 * at] = gyre_device_alibi(numbers[0], m, n);
    biases[3 * at + 1] = gyre_device_kerple_log(numbers[1], numbers[2], m, n);
    biases[3 * at + 2] = gyre_device_kerple_power(numbers[1], numbers[2], m, n);
    indices[at] = gyre_device_distance_index(m, n, 128) + 1000 * gyre_device_channel(GYRE_DEVICE_HALF, 64, 3, 1) +
                  1000000 * gyre_device_channel(GYRE_DEVICE_INTERLEAVED, 64, 3, 1);
}
