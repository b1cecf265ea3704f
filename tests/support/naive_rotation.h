/* naive_rotation.h: E(position) x by the formulas of the papers, one pair at a time, in long double. */
#ifndef GYRE_TESTS_NAIVE_ROTATION_H
#define GYRE_TESTS_NAIVE_ROTATION_H
#include "support.h"

#include <float.h>
#include <math.h>

/* The rotation of a head whose first `dim` channels rotate. */
static inline gyre_encoding *rope_encoding(int64_t head_dim, int64_t dim, gyre_layout layout) {
    gyre_config config = test_rope_config(head_dim, layout);
    config.rope.dim = dim;
    return test_encoding(&config);
}

/* out = one row of one head, head_dim channels of `dtype`, rotated to `position`. */
static inline gyre_status rotate_row(const gyre_encoding *e, gyre_direction direction, gyre_role role, gyre_dtype dtype,
                                     int64_t position, const void *in, void *out) {
    const int64_t n = gyre_encoding_get_config(e)->head_dim;
    const gyre_positions positions = {NULL, GYRE_DTYPE_I64, position, 0, 0, 0, 0, 0};
    const gyre_cview from = gyre_cdense(in, dtype, 1, 1, 1, n);
    const gyre_view to = gyre_dense(out, dtype, 1, 1, 1, n);
    return gyre_rotate(
        e, GYRE_ARGS(gyre_rotate_args, .direction = direction, .role = role, .positions = &positions, .in = from, .out = to),
        NULL, NULL);
}

/* The error bound of stored results: half an ulp in the types that results are rounded to at the end. */
static inline long double store_error(gyre_dtype dtype, double x) {
    return dtype == GYRE_DTYPE_F16 || dtype == GYRE_DTYPE_BF16 ? (long double)test_half_ulp(dtype, x) : 0;
}

/* -- plain RoPE, with a tight bound -- */

typedef struct naive_pair_rotation {
    int64_t low, high; /* channels */
    long double c, s;  /* cos and sin of the angle */
} naive_pair_rotation;

static inline naive_pair_rotation naive_rope_pair(const gyre_config *config, int64_t pair, int64_t position) {
    const int64_t dim = config->rope.dim ? config->rope.dim : config->head_dim;
    const long double base = config->rope.base != 0 ? (long double)config->rope.base : 10000.0L;
    const long double angle = (long double)position * powl(base, -2.0L * (long double)pair / (long double)dim);
    const int half = config->rope.layout == GYRE_LAYOUT_HALF;
    return (naive_pair_rotation){half ? pair : 2 * pair, half ? pair + dim / 2 : 2 * pair + 1, cosl(angle), sinl(angle)};
}

/* Fails unless every rotated channel of y is within gamma_2 (|a c| + |b s|), the rounding of cos and sin, and half an ulp of
 * E(position) x.  Channels are counted from element `first` of x and of y. */
static inline void naive_check_rope(const gyre_config *config, gyre_dtype dtype, int64_t position, const void *x,
                                    const void *y, int64_t first) {
    const int64_t dim = config->rope.dim ? config->rope.dim : config->head_dim;
    const long double u = dtype == GYRE_DTYPE_F64 ? 0x1p-53L : 0x1p-24L, gamma_2 = 2 * u / (1 - 2 * u);
    /* The error of the angle computed here, in long double. */
    const long double angle_error = 1e-18L + 32.0L * LDBL_EPSILON * fabsl((long double)position);
    for (int64_t i = 0; i < dim / 2; i++) {
        const naive_pair_rotation r = naive_rope_pair(config, i, position);
        const long double a = (long double)test_get(x, dtype, (size_t)(first + r.low));
        const long double b = (long double)test_get(x, dtype, (size_t)(first + r.high));
        const long double want[2] = {a * r.c - b * r.s, a * r.s + b * r.c};
        const long double size[2] = {fabsl(a * r.c) + fabsl(b * r.s), fabsl(a * r.s) + fabsl(b * r.c)};
        /* F64 cos and sin come from libm, off by an ulp or two, not rounded from something better. */
        const long double angle =
            (fabsl(a) + fabsl(b)) * angle_error + (dtype == GYRE_DTYPE_F64 ? 4 * u : u) * (size[0] + size[1]);
        for (int m = 0; m < 2; m++) {
            const double got = test_get(y, dtype, (size_t)(first + (m ? r.high : r.low)));
            test_close(got, want[m], gamma_2 * size[m] + angle + store_error(dtype, got), "rotated pair");
        }
    }
}

/* -- every variant -- */

typedef struct naive_rotation {
    const gyre_config *config; /* with all defaults filled in */
    const int *axis;           /* [dim / 2] the axis of each pair; NULL = one axis */
    gyre_direction direction;
    gyre_role role;
} naive_rotation;

static inline long double naive_theta(const naive_rotation *n, int64_t pair) {
    const struct gyre_rope_config *rope = &n->config->rope;
    long double exponent = (long double)pair / (long double)(rope->dim / 2);
    if (n->axis && rope->axes_layout == GYRE_AXES_AXIAL) {
        int64_t before = 0;
        for (int64_t i = 0; i < pair; i++)
            before += n->axis[i] == n->axis[pair];
        exponent = (long double)before / (long double)rope->axis_pairs[n->axis[pair]];
    }
    return powl((long double)rope->base, -exponent);
}

static inline long double naive_temperature(const naive_rotation *n, int64_t m) {
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
    case GYRE_TEMPERATURE_INKLING:
        return 1 + slope * fmaxl(0, logl(((long double)m + 1) / length));
    default:
        return 1;
    }
}

/* The xPos factor of pair `pair` in the forward direction. */
static inline long double naive_magnitude(const naive_rotation *n, int64_t pair, int64_t m) {
    const struct gyre_rope_config *rope = &n->config->rope;
    const long double dim = (long double)rope->dim, zeta = (2 * (long double)pair + 0.4L * dim) / (1.4L * dim);
    if (rope->xpos_base == 0) return 1;
    const long double power = (long double)(m - rope->xpos_center) / (long double)rope->xpos_base;
    return powl(zeta, n->role == GYRE_ROLE_QUERY ? power : -power);
}

/* y = E x, its inverse or its transpose, of head_dim channels.  size[c]: the sum of the absolute values of the terms of
 * y[c], for error bounds.  position: one number per axis.  attention: the factor of cos and sin. */
static inline void naive_rotate(const naive_rotation *n, const int64_t *position, long double attention,
                                const long double *x, long double *y, long double *size) {
    const struct gyre_rope_config *rope = &n->config->rope;
    const int64_t half = rope->dim / 2;
    const int forward = n->direction == GYRE_DIRECTION_FORWARD, inverse = n->direction == GYRE_DIRECTION_INVERSE;
    const int reads_half = rope->layout == GYRE_LAYOUT_HALF || (rope->layout == GYRE_LAYOUT_INTERLEAVED_TO_HALF && !forward);
    const int writes_half = rope->layout == GYRE_LAYOUT_HALF || (rope->layout == GYRE_LAYOUT_INTERLEAVED_TO_HALF && forward);
    const long double temperature = naive_temperature(n, position[0]), row_factor = inverse ? 1 / temperature : temperature;
    for (int64_t c = 0; c < n->config->head_dim; c++) {
        y[c] = x[c] * row_factor;
        size[c] = fabsl(y[c]);
    }
    for (int64_t i = 0; i < half; i++) {
        const long double theta_m = naive_theta(n, i) * (long double)position[n->axis ? n->axis[i] : 0];
        const long double length = attention * naive_magnitude(n, i, position[0]);
        const long double factor = row_factor * (inverse ? 1 / length : length);
        const long double angle = forward == !rope->clockwise ? theta_m : -theta_m;
        const long double c = factor * cosl(angle), s = factor * sinl(angle);
        const int64_t in[2] = {rope->first_channel + (reads_half ? i : 2 * i),
                               rope->first_channel + (reads_half ? i + half : 2 * i + 1)};
        const int64_t out[2] = {rope->first_channel + (writes_half ? i : 2 * i),
                                rope->first_channel + (writes_half ? i + half : 2 * i + 1)};
        y[out[0]] = x[in[0]] * c - x[in[1]] * s;
        y[out[1]] = x[in[0]] * s + x[in[1]] * c;
        size[out[0]] = size[out[1]] = factor * (fabsl(x[in[0]]) + fabsl(x[in[1]]));
    }
}

enum { NAIVE_CHANNELS = 1400 };

/* Fails unless `got`, channels of `dtype`, is E x within the error of its arithmetic: two products and a sum of numbers
 * rounded once, angles good to about 2^-50 of a revolution, and one last rounding. */
static inline void naive_check(const naive_rotation *n, const int64_t *position, long double attention, gyre_dtype dtype,
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
        test_close(y, want[c], size[c] * (u + 64 * LDBL_EPSILON * farthest) + store_error(dtype, y), "channel");
    }
}

#endif
