/* fuzz_pair_rotation.c: one pair of channels of one query and one key at a time. */
#include "fuzz_pair_rotation.h"

#include "fuzz_frequencies.h"

#include <math.h>

/* -- choosing -- */
static void choose_far(gyre_config *c, fuzz_bytes *in, gyre_far far) {
    c->rope.far = far;
    if (far == GYRE_FAR_CHUNKED || far == GYRE_FAR_CHUNKED_PAPER) {
        c->rope.chunk.size = 2 + fuzz_between(in, 0, fuzz_choice(in, 2) ? 90 : 20);
        c->rope.chunk.local = 1 + fuzz_between(in, 0, c->rope.chunk.size - 2);
        c->rope.chunk.original_length = fuzz_choice(in, 3) == 1 ? 1 + fuzz_choice(in, 200) : 0;
        return;
    }
    c->rope.far_window = 1 + fuzz_between(in, 0, fuzz_choice(in, 2) ? 70 : 12);
    if (far == GYRE_FAR_LEAKY) c->rope.far_factor = 0.25 * (1 + fuzz_choice(in, 80));
    if (far == GYRE_FAR_GROUPED) c->rope.far_factor = 1 + fuzz_choice(in, 20);
}

static void choose_lists(gyre_config *c, fuzz_bytes *in) {
    static double lists[2][FUZZ_MOST_DIM / 2];
    for (int64_t i = 0; i < c->rope.dim / 2; i++) {
        lists[0][i] = 1 + 0.05 * (double)i;
        lists[1][i] = 1 + (double)(i * (1 + fuzz_choice(in, 4)));
    }
    c->rope.short_factor = lists[0];
    c->rope.long_factor = lists[1];
}

static void choose_axes(gyre_config *c, fuzz_bytes *in) {
    c->rope.axes = 2;
    c->rope.axes_layout = fuzz_choice(in, 2) ? GYRE_AXES_AXIAL : GYRE_AXES_CHUNKED;
    c->rope.axis_pairs[1] = fuzz_between(in, 0, c->rope.dim / 2);
    c->rope.axis_pairs[0] = c->rope.dim / 2 - c->rope.axis_pairs[1];
}

/* What follows the length, most often. */
static void choose_scaling(gyre_config *c, fuzz_bytes *in) {
    static const gyre_scaling scalings[] = {GYRE_SCALING_DYNAMIC_NTK,  GYRE_SCALING_DYNAMIC_YARN, GYRE_SCALING_LONGROPE,
                                            GYRE_SCALING_DYNAMIC_NTK,  GYRE_SCALING_NONE,         GYRE_SCALING_LINEAR,
                                            GYRE_SCALING_DYNAMIC_YARN, GYRE_SCALING_YARN};
    c->rope.scaling = scalings[fuzz_choice(in, 8)];
    if (c->rope.scaling == GYRE_SCALING_DYNAMIC_NTK && c->rope.dim == 2) c->rope.scaling = GYRE_SCALING_DYNAMIC_YARN;
    c->rope.factor = 1 + fuzz_choice(in, 16) / 2.0;
    if (c->rope.scaling == GYRE_SCALING_LONGROPE) choose_lists(c, in);
    c->length_policy = (gyre_length_policy)fuzz_choice(in, 3);
    c->length_block = fuzz_choice(in, 3) == 1 ? 0 : 1 + fuzz_choice(in, 70);
    c->context_length = fuzz_choice(in, 3) == 1 ? 1 + fuzz_between(in, 0, 600) : 0;
}

void fuzz_pair_rotation_choose(gyre_config *c, fuzz_bytes *in) {
    static const double bases[] = {10000, 100, 500000, 10};
    enum { FARS = 5 };
    const int64_t pairs = c->head_dim / 2;
    const int what = fuzz_choice(in, 12);
    c->trained_length = 2 + fuzz_between(in, 0, 200);
    c->rope.dim = pairs > 0 ? 2 * fuzz_between(in, 1, pairs) : 0;
    c->rope.first_channel = fuzz_choice(in, 2) ? c->head_dim - c->rope.dim : 0;
    c->rope.layout = (gyre_layout)(fuzz_choice(in, 5) % 3);
    c->rope.clockwise = fuzz_choice(in, 8) == 1;
    c->rope.base = bases[fuzz_choice(in, 4)];
    c->rope.table_positions = fuzz_choice(in, 3) == 1 ? GYRE_NO_TABLE : fuzz_choice(in, 2) ? 100 : 0;
    choose_scaling(c, in);
    if (what < FARS) choose_far(c, in, (gyre_far)(GYRE_FAR_CLAMPED + what));
    if (what == FARS || what == FARS + 1) c->rope.xpos_base = 8 << fuzz_choice(in, 7);
    if (what == FARS) c->rope.xpos_center = fuzz_between(in, -2000, 2000);
    if (what == FARS + 2) choose_axes(c, in);
    if (what == FARS + 3 && c->rope.scaling == GYRE_SCALING_LONGROPE) {
        c->rope.longrope.start_tokens = 1 + fuzz_choice(in, 100);
        c->rope.longrope.starts = (gyre_longrope_start)fuzz_choice(in, 2);
    }
    c->query.temperature = (gyre_temperature)(fuzz_choice(in, 3) == 1 ? fuzz_choice(in, 4) : 0);
    if (c->query.temperature && fuzz_choice(in, 2)) c->query.reference_length = 2 + fuzz_between(in, 0, 300);
    if (c->query.temperature) c->query.slope = fuzz_choice(in, 4) / 4.0;
}

/* -- the definition -- */
void fuzz_pair_rotation_at(fuzz_pair_rotation *t, int64_t length) {
    if (t->length == length) return;
    t->length = length;
    for (int64_t i = 0; i < t->config->rope.dim / 2; i++) {
        t->rate[i] = fuzz_frequency(t->config, length, i);
        t->start[i] = fuzz_unscaled_frequency(t->config, i);
    }
    t->factor = fuzz_attention_factor(t->config, length);
    t->has_starts = fuzz_has_start_tokens(t->config, length);
}

/* Of a quotient that may be negative. */
static int64_t floored(int64_t x, int64_t by) {
    return x / by - (x % by < 0);
}

static double chunked_distance(const gyre_config *c, int64_t m, int64_t n) {
    const int is_paper = c->rope.far == GYRE_FAR_CHUNKED_PAPER;
    const int64_t size = c->rope.chunk.size, length = size - c->rope.chunk.local, cap = is_paper ? size - 1 : size;
    const int64_t between = floored(m, length) - floored(n, length);
    const int64_t of_query = m - floored(m, length) * length, of_key = n - floored(n, length) * length;
    const int64_t next = length + of_query < cap ? length + of_query : cap;
    const int64_t last = is_paper ? cap : 2 * length - 1 < size ? 2 * length - 1 : size;
    return (double)((between == 0 ? of_query : between == 1 ? next : last) - of_key);
}

double fuzz_pair_rotation_distance(const gyre_config *c, int64_t m, int64_t n) {
    const int64_t near = m - n, w = c->rope.far_window, group = (int64_t)c->rope.far_factor;
    if (c->rope.far == GYRE_FAR_CHUNKED || c->rope.far == GYRE_FAR_CHUNKED_PAPER) return chunked_distance(c, m, n);
    if (c->rope.far == GYRE_FAR_AS_NEAR || near < w) return (double)near;
    if (c->rope.far == GYRE_FAR_CLAMPED) return (double)w;
    if (c->rope.far == GYRE_FAR_LEAKY) return (double)w + (double)(near - w) / c->rope.far_factor;
    const int64_t grouped = floored(m, group) - floored(n, group) + w - w / group;
    return (double)grouped;
}

/* A pair of channels: x and y of both, the cosine and sine that take k to q, and the magnitude of their product. */
typedef struct lane {
    int64_t x, y;
    double cosine, sine, magnitude;
} lane;

static lane lane_of(const fuzz_pair_rotation *t, const fuzz_rotated_pair *pair, int64_t i) {
    const gyre_config *c = t->config;
    const int64_t pairs = c->rope.dim / 2, axis = fuzz_axis_of(c, i), m = pair->m[axis], n = pair->n[axis];
    const int half = c->rope.layout == GYRE_LAYOUT_HALF;
    const int starts[2] = {t->has_starts && m < c->rope.longrope.start_tokens,
                           t->has_starts && n < c->rope.longrope.start_tokens};
    double angle = t->rate[i] * fuzz_pair_rotation_distance(c, m, n), magnitude = 1;
    if (starts[0] || starts[1])
        angle = (double)m * (starts[0] ? t->start[i] : t->rate[i]) - (double)n * (starts[1] ? t->start[i] : t->rate[i]);
    for (int side = 0; side < 2; side++)
        magnitude *= starts[side] && c->rope.longrope.starts == GYRE_LONGROPE_START_RELEASED ? 1 : t->factor;
    if (c->rope.xpos_base > 0) {
        const double dim = (double)c->rope.dim, zeta = (2 * (double)i + 0.4 * dim) / (1.4 * dim);
        magnitude *= pow(zeta, (double)(m - n) / c->rope.xpos_base);
    }
    if (c->rope.clockwise) angle = -angle;
    return (lane){c->rope.first_channel + (half ? i : 2 * i), c->rope.first_channel + (half ? i + pairs : 2 * i + 1),
                  magnitude * cos(angle), magnitude * sin(angle), magnitude};
}

static int rotates(const gyre_config *c, int64_t channel) {
    return channel >= c->rope.first_channel && channel < c->rope.first_channel + c->rope.dim;
}

fuzz_number fuzz_pair_rotation_product(const fuzz_pair_rotation *t, const fuzz_rotated_pair *pair) {
    const double *q = pair->q, *k = pair->k, heat = fuzz_temperature(t->config, pair->m[0]);
    double sum = 0, size = 0;
    for (int64_t i = 0; i < t->config->rope.dim / 2; i++) {
        const lane l = lane_of(t, pair, i);
        sum += (q[l.x] * k[l.x] + q[l.y] * k[l.y]) * l.cosine + (q[l.x] * k[l.y] - q[l.y] * k[l.x]) * l.sine;
        size += l.magnitude * (fabs(q[l.x]) + fabs(q[l.y])) * (fabs(k[l.x]) + fabs(k[l.y]));
    }
    for (int64_t n = 0; n < t->config->head_dim; n++) {
        if (rotates(t->config, n)) continue;
        sum += q[n] * k[n];
        size += fabs(q[n] * k[n]);
    }
    return (fuzz_number){heat * sum, heat * size * (double)(t->config->head_dim + 12) * 0x1p-24};
}

double fuzz_pair_rotation_gradient(const fuzz_pair_rotation *t, const fuzz_rotated_pair *pair, double s, double *dq,
                                   double *dk) {
    const double *q = pair->q, *k = pair->k, heat = fuzz_temperature(t->config, pair->m[0]), of = s * heat;
    double most = 1;
    for (int64_t i = 0; i < t->config->rope.dim / 2; i++) {
        const lane l = lane_of(t, pair, i);
        dq[l.x] += of * (k[l.x] * l.cosine + k[l.y] * l.sine);
        dq[l.y] += of * (k[l.y] * l.cosine - k[l.x] * l.sine);
        dk[l.x] += of * (q[l.x] * l.cosine - q[l.y] * l.sine);
        dk[l.y] += of * (q[l.y] * l.cosine + q[l.x] * l.sine);
        most = fmax(most, l.magnitude);
    }
    for (int64_t n = 0; n < t->config->head_dim; n++) {
        if (rotates(t->config, n)) continue;
        dq[n] += of * k[n];
        dk[n] += of * q[n];
    }
    return heat * most;
}
