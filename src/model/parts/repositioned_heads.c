/* repositioned_heads.c: RePo: a network of the layer's input gives each key head, and the query heads that share it, a
 * position z that is a real number, by which they rotate:
 *
 *     r = silu(G x) * (C x),   z_h = w_h . r,   angle of pair i = z_h theta_i */
#include "core/encoding.h"
#include "model/ops/activation.h"
#include "model/ops/float_buffer.h"
#include "model/ops/linear.h"
#include "model/ops/matrix.h"
#include "model/parts/token_angles.h"

#include <string.h>

static int64_t units_of(int64_t model_dim) {
    return model_dim > 8 ? model_dim / 8 : 1;
}

/* The memory of a call, over `rows` tokens. */
typedef struct work_memory {
    int64_t rows, units;
    float *gated;            /* [rows][2 units] G x, then C x; their gradients */
    float *r, *dr;           /* [rows][units] */
    double *z, *dz;          /* [rows][kv_heads] */
    double *angles, *change; /* [rows][pairs] of a key head, and the gradient to them */
    float *products;         /* scratch of products */
} work_memory;

static gyre_matrix gates_of(const gyre_trained_heads *t) {
    return (gyre_matrix){GYRE_STORED_F32, t->data, 2 * units_of(t->model_dim), t->model_dim,
                         t->model_dim * (int64_t)sizeof(float)};
}

/* out = floats of it but for products; memory NULL = counts only. */
static int64_t assign(const gyre_trained_heads *t, int64_t rows, float *memory, work_memory *out) {
    const int64_t units = units_of(t->model_dim);
    float *z, *dz, *angles, *change; /* two floats take the place of a double */
    float **parts[] = {&out->gated, &out->r, &out->dr, &z, &dz, &angles, &change, &out->products};
    const int64_t floats[] = {2 * units, units, units, 2 * t->kv_heads, 2 * t->kv_heads, 2 * t->pairs, 2 * t->pairs, 0};
    int64_t sum = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i] = memory ? memory + sum : NULL;
        sum += gyre_round_up_floats(rows * floats[i]);
    }
    out->rows = rows;
    out->units = units;
    out->z = (double *)(void *)z;
    out->dz = (double *)(void *)dz;
    out->angles = (double *)(void *)angles;
    out->change = (double *)(void *)change;
    return sum;
}

static int64_t scratch(const gyre_trained_heads *t, int64_t rows, int concurrency) {
    const gyre_matrix gates = gates_of(t);
    const int64_t forward = gyre_gemm_scratch(&gates, rows, concurrency), gradient = gyre_linear_scratch(rows, t->model_dim);
    work_memory m;
    return assign(t, rows, NULL, &m) + (forward > gradient ? forward : gradient);
}

/* The weights of the position of a key head, [units]. */
static const float *map_of(const gyre_trained_heads *t, int64_t h) {
    const int64_t units = units_of(t->model_dim);
    return t->data + 2 * units * t->model_dim + h * units;
}

/* The positions, summed in double in the order of units, so that they do not depend on how a text is cut. */
static void find_positions(const gyre_trained_heads *t, const float *x, const gyre_part_work *work, const work_memory *m) {
    const gyre_matrix gates = gates_of(t);
    const gyre_gemm gemm = {&gates, NULL, x, m->gated, m->rows, t->model_dim, 2 * m->units, 0};
    gyre_gemm_run(&gemm, work->kernels, m->products, work->exec);
    gyre_activate(work->kernels, GYRE_ACTIVATION_SILU, 1, m->rows, m->units, m->gated, m->r);
    for (int64_t row = 0; row < m->rows; row++)
        for (int64_t h = 0; h < t->kv_heads; h++) {
            double sum = 0;
            for (int64_t j = 0; j < m->units; j++)
                sum += (double)map_of(t, h)[j] * (double)m->r[row * m->units + j];
            m->z[row * t->kv_heads + h] = sum;
        }
}

/* out = the angles of the tokens in a key head, in m->angles.  in: views of tokens. */
static gyre_angle_rotation rotation_of(const gyre_trained_heads *t, int64_t h, const work_memory *m, const gyre_view *in) {
    gyre_angle_rotation rotation = GYRE_INIT(gyre_angle_rotation);
    for (int64_t row = 0; row < m->rows; row++)
        for (int64_t i = 0; i < t->pairs; i++)
            m->angles[row * t->pairs + i] = m->z[row * t->kv_heads + h] * t->encoding->frequency[i].high;
    rotation.layout = t->layout;
    rotation.angles = gyre_cdense(m->angles, GYRE_DTYPE_F64, in->shape[0], in->shape[1], 1, t->pairs);
    return rotation;
}

static gyre_status rotate_heads(const gyre_trained_heads *t, gyre_direction direction, const work_memory *m,
                                const gyre_view in[2], const gyre_view out[2], const gyre_exec *exec, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t h = 0; h < t->kv_heads && !status; h++) {
        const gyre_angle_rotation rotation = rotation_of(t, h, m, &in[0]);
        status = gyre_turn_key_head(t, h, &rotation, direction, in, out, exec, err);
    }
    return status;
}

static gyre_status forward(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                           const gyre_part_work *work, gyre_error *err) {
    work_memory m;
    (void)positions;
    (void)assign(t, heads->x.shape[0] * heads->x.shape[1], work->scratch, &m);
    find_positions(t, heads->x.data, work, &m);
    return rotate_heads(t, GYRE_DIRECTION_FORWARD, &m, heads->in, heads->out, work->exec, err);
}

/* m->dz = the gradients to the positions: those to angles, times the frequencies. */
static gyre_status position_gradient(const gyre_trained_heads *t, const gyre_head_views *heads, const gyre_head_views *d,
                                     const work_memory *m, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t h = 0; h < t->kv_heads && !status; h++) {
        const gyre_angle_rotation rotation = rotation_of(t, h, m, &heads->out[0]);
        const int64_t *shape = rotation.angles.shape;
        const gyre_view change = gyre_dense(m->change, GYRE_DTYPE_F64, shape[0], shape[1], 1, t->pairs);
        memset(m->change, 0, (size_t)(m->rows * t->pairs) * sizeof *m->change);
        status = gyre_turn_key_head_gradient(t, h, &rotation, heads->out, d->out, &change, err);
        for (int64_t row = 0; row < m->rows; row++) {
            double sum = 0;
            for (int64_t i = 0; i < t->pairs; i++)
                sum += m->change[row * t->pairs + i] * t->encoding->frequency[i].high;
            m->dz[row * t->kv_heads + h] = sum;
        }
    }
    return status;
}

/* The gradients to the network and to x, from those to the positions. */
static void network_gradient(const gyre_trained_heads *t, const gyre_head_views *heads, const gyre_head_views *d,
                             const gyre_part_work *work, const work_memory *m, float *numbers) {
    const gyre_linear gates = {t->data, m->rows, t->model_dim, 2 * m->units};
    const gyre_linear_work linear = {work->kernels, m->products};
    for (int64_t row = 0; row < m->rows; row++)
        for (int64_t j = 0; j < m->units; j++) {
            double sum = 0;
            for (int64_t h = 0; h < t->kv_heads; h++)
                sum += m->dz[row * t->kv_heads + h] * (double)map_of(t, h)[j];
            m->dr[row * m->units + j] = (float)sum;
        }
    for (int64_t h = 0; h < t->kv_heads; h++)
        for (int64_t j = 0; j < m->units; j++) {
            double sum = 0;
            for (int64_t row = 0; row < m->rows; row++)
                sum += m->dz[row * t->kv_heads + h] * (double)m->r[row * m->units + j];
            numbers[map_of(t, h) + j - t->data] += (float)sum;
        }
    gyre_swiglu_gradient(work->kernels, m->rows, m->units, m->gated, m->dr);
    gyre_linear_weight_gradient(&gates, &linear, heads->x.data, m->gated, numbers);
    gyre_linear_input_gradient(&gates, &linear, m->gated, 1, d->x.data);
}

static gyre_status gradient(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                            const gyre_head_views *d, const gyre_part_work *work, float *numbers, gyre_error *err) {
    work_memory m;
    (void)positions;
    (void)assign(t, heads->x.shape[0] * heads->x.shape[1], work->scratch, &m);
    find_positions(t, heads->x.data, work, &m);
    const gyre_status status = position_gradient(t, heads, d, &m, err);
    if (status) return status;
    network_gradient(t, heads, d, work, &m, numbers);
    return rotate_heads(t, GYRE_DIRECTION_ADJOINT, &m, d->out, d->in, work->exec, err);
}

/* -- what the list says of it -- */
/* As in the released model of 16 layers, whose first 5 count positions. */
static int64_t first_layer(int64_t layers) {
    const int64_t first = (5 * layers + 15) / 16;
    return first < layers ? first : layers - 1;
}

static void shapes(const gyre_model_config *c, const gyre_encoding *encoding, int64_t (*out)[2]) {
    (void)encoding;
    out[0][0] = out[1][0] = out[2][1] = units_of(c->model_dim);
    out[0][1] = out[1][1] = c->model_dim;
    out[2][0] = c->kv_heads;
}

/* The released code's, which draws again past 3 deviations. */
static double start(const gyre_part_start *at) {
    return 0.02 * at->normal;
}

const gyre_head_part gyre_head_part_repositioned = {
    .part = GYRE_LAYER_PART_REPOSITIONED,
    .facts = &gyre_head_part_facts_repositioned,
    .variants = {{.name = "repo", .layer_parts = GYRE_LAYER_PART_REPOSITIONED}},
    .needs = GYRE_PART_NEEDS_PLAIN,
    .tensors = {{.name = "self_attn.gate_map", .start = start, .has_weight_decay = 1},
                {.name = "self_attn.content_map", .start = start, .has_weight_decay = 1},
                {.name = "self_attn.final_map", .start = start, .has_weight_decay = 1}},
    .shapes = shapes,
    .first_layer = first_layer,
    .reads_x = 1,
    .reads_no_positions = 1,
    .scratch = scratch,
    .forward = forward,
    .gradient = gradient};
