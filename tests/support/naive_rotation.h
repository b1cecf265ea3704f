/* naive_rotation.h: E(position) x by the formulas of the papers, one pair at a time, in long double. */
#ifndef GYRE_TESTS_NAIVE_ROTATION_H
#define GYRE_TESTS_NAIVE_ROTATION_H
#include "support.h"

#include <float.h>
#include <math.h>

typedef struct naive_rotation {
    const gyre_config *config; /* complete */
    const int *axis;           /* [dim / 2], the test's own map; NULL = one axis */
    gyre_direction direction;
    gyre_role role;
} naive_rotation;

static long double naive_theta(const naive_rotation *n, int64_t pair) {
    const struct gyre_rope_config *rope = &n->config->rope;
    long double place = (long double)pair / (long double)(rope->dim / 2);
    if (n->axis && rope->axes_layout == GYRE_AXES_AXIAL) {
        int64_t before = 0;
        for (int64_t i = 0; i < pair; i++)
            before += n->axis[i] == n->axis[pair];
        place = (long double)before / (long double)rope->axis_pairs[n->axis[pair]];
    }
    return powl((long double)rope->base, -place);
}

static long double naive_temperature(const naive_rotation *n, int64_t m) {
    const struct gyre_query_config *query = &n->config->query;
    const long double length = (long double)query->reference_length, slope = (long double)query->slope;
    if (n->role != GYRE_ROLE_QUERY || m < 0) return 1;
    switch (query->temperature) {
    case GYRE_TEMPERATURE_LOG:
        return fmaxl(1, logl((long double)m + 1) / logl(length));
    case GYRE_TEMPERATURE_LLAMA4:
        return 1 + slope * logl(1 + floorl(((long double)m + 1) / length));
    case GYRE_TEMPERATURE_MINISTRAL:
        return 1 + slope * logl(1 + floorl((long double)m / length));
    default:
        return 1;
    }
}

/* What xPos multiplies pair `pair` by in the forward direction. */
static long double naive_magnitude(const naive_rotation *n, int64_t pair, int64_t m) {
    const struct gyre_rope_config *rope = &n->config->rope;
    const long double dim = (long double)rope->dim, zeta = (2 * (long double)pair + 0.4L * dim) / (1.4L * dim);
    if (rope->xpos_base == 0) return 1;
    const long double power = (long double)(m - rope->xpos_center) / (long double)rope->xpos_base;
    return powl(zeta, n->role == GYRE_ROLE_QUERY ? power : -power);
}

/* y = E x, its inverse or its transpose, of head_dim channels; size[c] = what y[c] is a sum of, without signs.  position:
 * one number an axis; attention: the factor of cos and sin. */
static void naive_rotate(const naive_rotation *n, const int64_t *position, long double attention, const long double *x,
                         long double *y, long double *size) {
    const struct gyre_rope_config *rope = &n->config->rope;
    const int64_t half = rope->dim / 2;
    const int forward = n->direction == GYRE_DIRECTION_FORWARD, back = n->direction == GYRE_DIRECTION_INVERSE;
    const int reads_half = rope->layout == GYRE_LAYOUT_HALF || (rope->layout == GYRE_LAYOUT_INTERLEAVED_TO_HALF && !forward);
    const int writes_half = rope->layout == GYRE_LAYOUT_HALF || (rope->layout == GYRE_LAYOUT_INTERLEAVED_TO_HALF && forward);
    const long double heat = naive_temperature(n, position[0]), whole = back ? 1 / heat : heat;
    for (int64_t c = 0; c < n->config->head_dim; c++) {
        y[c] = x[c] * whole;
        size[c] = fabsl(y[c]);
    }
    for (int64_t i = 0; i < half; i++) {
        const long double angle = naive_theta(n, i) * (long double)position[n->axis ? n->axis[i] : 0];
        const long double length = attention * naive_magnitude(n, i, position[0]), by = whole * (back ? 1 / length : length);
        const long double turned = forward == !rope->clockwise ? angle : -angle;
        const long double c = by * cosl(turned), s = by * sinl(turned);
        const int64_t in[2] = {rope->first_channel + (reads_half ? i : 2 * i),
                               rope->first_channel + (reads_half ? i + half : 2 * i + 1)};
        const int64_t out[2] = {rope->first_channel + (writes_half ? i : 2 * i),
                                rope->first_channel + (writes_half ? i + half : 2 * i + 1)};
        y[out[0]] = x[in[0]] * c - x[in[1]] * s;
        y[out[1]] = x[in[0]] * s + x[in[1]] * c;
        size[out[0]] = size[out[1]] = by * (fabsl(x[in[0]]) + fabsl(x[in[1]]));
    }
}

enum { NAIVE_CHANNELS = 1400 };

/* Fails where got, channels of `dtype`, is not E x within the error of its arithmetic: two products and a sum of numbers
 * rounded once, angles good to 2^-50 or so of a turn, and one last rounding. */
static void naive_check(const naive_rotation *n, const int64_t *position, long double attention, gyre_dtype dtype,
                        const void *x, const void *got) {
    static long double given[NAIVE_CHANNELS], want[NAIVE_CHANNELS], size[NAIVE_CHANNELS];
    const long double u = dtype == GYRE_DTYPE_F64 ? 0x1p-49L : 0x1p-22L;
    long double farthest = 0;
    for (int64_t c = 0; c < n->config->head_dim; c++)
        given[c] = (long double)test_get(x, dtype, (size_t)c);
    for (int64_t a = 0; a < (n->axis ? n->config->rope.axes : 1); a++)
        farthest = fmaxl(farthest, fabsl((long double)position[a]));
    naive_rotate(n, position, attention, given, want, size);
    for (int64_t c = 0; c < n->config->head_dim; c++) {
        const double y = test_get(got, dtype, (size_t)c);
        const long double store = dtype == GYRE_DTYPE_F16 || dtype == GYRE_DTYPE_BF16 ? test_half_ulp(dtype, y) : 0;
        test_close(y, want[c], size[c] * (u + 64 * LDBL_EPSILON * farthest) + store, "channel");
    }
}

#endif
