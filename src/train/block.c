#include "train/block.h"

#include "model/ops/activation.h"
#include "model/ops/float_buffer.h"
#include "model/ops/log_gates.h"

#include <string.h>

/* -- buffers -- */
int64_t gyre_qkv_dim(const gyre_model_config *config) {
    return gyre_projected_heads(config->layer_parts, config->heads) * gyre_query_dim(config) +
           2 * config->kv_heads * config->head_dim;
}

enum { BLOCK_BUFFERS = 16 };

static void block_sizes(const gyre_model *model, int64_t rows, int64_t sizes[BLOCK_BUFFERS]) {
    const gyre_model_config *c = &model->config;
    const gyre_trained_heads heads = gyre_network_trained_heads(model->network, c->layers - 1);
    const int64_t per_row[BLOCK_BUFFERS] = {c->model_dim,
                                            c->model_dim,
                                            1,
                                            gyre_qkv_dim(c),
                                            c->heads * c->head_dim,
                                            c->heads,
                                            c->model_dim,
                                            c->model_dim,
                                            1,
                                            2 * c->mlp_dim,
                                            c->mlp_dim,
                                            c->rotates_input ? c->model_dim : 0,
                                            gyre_forgets(c) ? c->heads : 0,
                                            gyre_forgets(c) ? 2 * c->heads : 0, /* doubles */
                                            gyre_rotated_qk_dim(c),
                                            2 * gyre_part_kept(&heads)};
    for (int i = 0; i < BLOCK_BUFFERS; i++)
        sizes[i] = gyre_round_up_floats(per_row[i] * rows);
}

int64_t gyre_block_floats(const gyre_model *model, int64_t rows) {
    int64_t sizes[BLOCK_BUFFERS], sum = 0;
    block_sizes(model, rows, sizes);
    for (int i = 0; i < BLOCK_BUFFERS; i++)
        sum += sizes[i];
    return sum;
}

void gyre_block_assign_buffers(gyre_block *block, const gyre_model *model, int64_t rows, float *memory) {
    int64_t sizes[BLOCK_BUFFERS];
    block_sizes(model, rows, sizes);
    float *gate_sums, *part_kept;
    float **parts[BLOCK_BUFFERS] = {&block->x,        &block->attn_norm, &block->attn_rstd,     &block->qkv,
                                    &block->attn_out, &block->lse,       &block->attn_residual, &block->mlp_norm,
                                    &block->mlp_rstd, &block->gate_up,   &block->mlp_act,       &block->rotated,
                                    &block->gates,    &gate_sums,        &block->rotated_qk,    &part_kept};
    block->rows = rows;
    for (int i = 0; i < BLOCK_BUFFERS; i++) {
        *parts[i] = memory;
        memory += sizes[i];
    }
    block->gate_sums = (double *)(void *)gate_sums;
    block->part_kept = (double *)(void *)part_kept;
}

void gyre_block_rotated_views(const gyre_model_config *c, float *rotated_qk, int64_t rows, int64_t batch,
                              gyre_view views[2]) {
    const int64_t heads[2] = {c->heads, c->kv_heads}, dim = gyre_rotated_head_dim(c), row = gyre_rotated_qk_dim(c);
    for (int i = 0; i < 2; i++) {
        views[i] = gyre_dense(rotated_qk, GYRE_DTYPE_F32, batch, rows / batch, heads[i], dim);
        views[i].stride[0] = rows / batch * row;
        views[i].stride[1] = row;
        rotated_qk += heads[i] * dim;
    }
}

gyre_view gyre_block_gate_view(const gyre_model_config *config, double *sums, int64_t rows, int64_t batch) {
    return gyre_dense(sums, GYRE_DTYPE_F64, batch, rows / batch, config->heads, 1);
}

void gyre_block_qkv_views(const gyre_model_config *config, float *qkv, int64_t rows, int64_t batch, gyre_view views[3]) {
    const int64_t heads[3] = {gyre_projected_heads(config->layer_parts, config->heads), config->kv_heads, config->kv_heads};
    const int64_t qkv_dim = gyre_qkv_dim(config);
    for (int i = 0; i < 3; i++) {
        const int64_t dim = i == 0 ? gyre_query_dim(config) : config->head_dim;
        views[i] = gyre_dense(qkv, GYRE_DTYPE_F32, batch, rows / batch, heads[i], dim);
        views[i].stride[0] = rows / batch * qkv_dim;
        views[i].stride[1] = qkv_dim;
        qkv += heads[i] * dim;
    }
}

gyre_head_views gyre_block_head_views(const gyre_model_config *c, float *qkv, float *rotated_qk, int64_t rows,
                                      int64_t batch) {
    gyre_view views[3];
    gyre_block_qkv_views(c, qkv, rows, batch, views);
    gyre_head_views heads = {.in = {views[0], views[1]}, .out = {views[0], views[1]}};
    if (gyre_rotated_qk_dim(c)) gyre_block_rotated_views(c, rotated_qk, rows, batch, heads.out);
    return heads;
}

/* -- weights -- */
gyre_block_weights gyre_block_weights_of(const gyre_model *model, int64_t layer, int64_t rows) {
    const gyre_model_config *c = &model->config;
    const float *w[GYRE_WEIGHT_FIRST_TABLE];
    for (int i = 0; i < GYRE_WEIGHT_FIRST_TABLE; i++)
        w[i] = model->weights + gyre_layer_tensor_offset(&model->layout, layer, i);
    return (gyre_block_weights){
        .attn_norm = {w[GYRE_WEIGHT_ATTN_NORM], NULL, c->model_dim},
        .mlp_norm = {w[GYRE_WEIGHT_MLP_NORM], NULL, c->model_dim},
        .qkv = {w[GYRE_WEIGHT_Q], rows, c->model_dim, gyre_qkv_dim(c)},
        .o = {w[GYRE_WEIGHT_O], rows, c->heads * c->head_dim, c->model_dim},
        .gate_up = {w[GYRE_WEIGHT_GATE], rows, c->model_dim, 2 * c->mlp_dim},
        .down = {w[GYRE_WEIGHT_DOWN], rows, c->mlp_dim, c->model_dim},
        .forget_gate = {w[GYRE_WEIGHT_FORGET_GATE], rows, c->model_dim, gyre_forgets(c) ? c->heads : 0},
        .forget_gate_bias = w[GYRE_WEIGHT_FORGET_GATE_BIAS],
        .trained = gyre_network_trained_heads(model->network, layer)};
}

gyre_norm_args gyre_model_norm_args(const gyre_model *model, const gyre_norm_weights *weights, int64_t rows) {
    return (gyre_norm_args){GYRE_NORM_RMS, weights, model->config.norm_epsilon, rows, weights->dim};
}

/* -- forward -- */
gyre_linear gyre_block_value_map(const gyre_model_config *c, const gyre_linear *qkv) {
    const int64_t out = c->kv_heads * c->head_dim;
    return (gyre_linear){qkv->w + (qkv->out - out) * qkv->in, qkv->rows, qkv->in, out};
}

gyre_status gyre_block_rotate_input(const gyre_model *model, gyre_direction direction, const gyre_block *block,
                                    int64_t sequences, const float *in, float *x, gyre_error *err) {
    const gyre_model_config *c = &model->config;
    const int64_t heads = c->model_dim / c->head_dim;
    const gyre_cview from = gyre_cdense(in, GYRE_DTYPE_F32, sequences, block->rows / sequences, heads, c->head_dim);
    const gyre_view to = gyre_dense(x, GYRE_DTYPE_F32, sequences, block->rows / sequences, heads, c->head_dim);
    return gyre_rotate(model->encoding,
                       GYRE_ARGS(gyre_rotate_args, .direction = direction, .role = GYRE_ROLE_KEY,
                                 .positions = &block->positions, .in = from, .out = to),
                       NULL, err);
}

/* q and k of the rotated rows, v of the rows as they are: v takes the place of what the rotated rows gave. */
static gyre_status forward_rotated(const gyre_model *model, const gyre_linear_work *work, const gyre_linear *qkv,
                                   const gyre_block *block, int64_t sequences, gyre_error *err) {
    const gyre_linear values = gyre_block_value_map(&model->config, qkv);
    const gyre_status status =
        gyre_block_rotate_input(model, GYRE_DIRECTION_FORWARD, block, sequences, block->attn_norm, block->rotated, err);
    if (status) return status;
    gyre_linear_forward(qkv, work, block->rotated, 0, block->qkv);
    gyre_linear_forward(&values, work, block->attn_norm, 0, block->attn_out);
    for (int64_t i = 0; i < block->rows; i++)
        memcpy(block->qkv + (i + 1) * qkv->out - values.out, block->attn_out + i * values.out,
               (size_t)values.out * sizeof(float));
    return GYRE_OK;
}

void gyre_block_part_views(const gyre_trained_heads *t, const gyre_block *block, int64_t sequences, gyre_head_views *heads) {
    const int64_t length = block->rows / sequences;
    heads->x = gyre_dense(block->attn_norm, GYRE_DTYPE_F32, sequences, length, 1, t->model_dim);
    heads->kept = gyre_dense(block->part_kept, GYRE_DTYPE_F64, sequences, length, 1, gyre_part_kept(t));
}

static gyre_status forward_trained(const gyre_model_config *c, const gyre_part_work *work, const gyre_block_weights *w,
                                   const gyre_block *block, int64_t sequences, gyre_error *err) {
    gyre_head_views heads = gyre_block_head_views(c, block->qkv, block->rotated_qk, block->rows, sequences);
    gyre_block_part_views(&w->trained, block, sequences, &heads);
    return w->trained.part ? w->trained.part->forward(&w->trained, &block->positions, &heads, work, err) : GYRE_OK;
}

static gyre_status forward_gates(const gyre_model_config *c, const gyre_linear_work *work, const gyre_block_weights *w,
                                 const gyre_block *block, int64_t sequences, gyre_error *err) {
    const gyre_view sums = gyre_block_gate_view(c, block->gate_sums, block->rows, sequences);
    const gyre_cview log_gates = gyre_const(sums);
    for (int64_t i = 0; i < block->rows; i++)
        memcpy(block->gates + i * c->heads, w->forget_gate_bias, (size_t)c->heads * sizeof(float));
    gyre_linear_forward(&w->forget_gate, work, block->attn_norm, 1, block->gates);
    gyre_log_gates(block->gates, block->rows * c->heads, block->gate_sums);
    return gyre_gate_sums(GYRE_ARGS(gyre_gate_sums_args, .log_gates = log_gates, .sequences = sequences, .sums = sums), NULL,
                          err);
}

gyre_status gyre_block_forward_qkv(const gyre_model *model, const gyre_linear_work *work, const gyre_part_work *part,
                                   int64_t layer, const gyre_block *block, int64_t sequences, gyre_error *err) {
    const gyre_block_weights w = gyre_block_weights_of(model, layer, block->rows);
    const gyre_norm_args norm = gyre_model_norm_args(model, &w.attn_norm, block->rows);
    gyre_normalize_rows(&norm, block->x, block->attn_norm, w.attn_norm.dim, block->attn_rstd);
    if (w.forget_gate.out) {
        const gyre_status status = forward_gates(&model->config, work, &w, block, sequences, err);
        if (status) return status;
    }
    if (model->config.rotates_input) return forward_rotated(model, work, &w.qkv, block, sequences, err);
    gyre_linear_forward(&w.qkv, work, block->attn_norm, 0, block->qkv);
    return forward_trained(&model->config, part, &w, block, sequences, err);
}

void gyre_block_forward_output(const gyre_model *model, const gyre_linear_work *work, int64_t layer, const gyre_block *block,
                               float *out) {
    const gyre_model_config *c = &model->config;
    const size_t bytes = (size_t)(block->rows * c->model_dim) * sizeof(float);
    const gyre_block_weights w = gyre_block_weights_of(model, layer, block->rows);
    const gyre_norm_args norm = gyre_model_norm_args(model, &w.mlp_norm, block->rows);
    memcpy(block->attn_residual, block->x, bytes);
    gyre_linear_forward(&w.o, work, block->attn_out, 1, block->attn_residual);
    gyre_normalize_rows(&norm, block->attn_residual, block->mlp_norm, w.mlp_norm.dim, block->mlp_rstd);
    gyre_linear_forward(&w.gate_up, work, block->mlp_norm, 0, block->gate_up);
    gyre_activate(gyre_kernels_beside(model->encoding->kernels), GYRE_ACTIVATION_SILU, 1, block->rows, c->mlp_dim,
                  block->gate_up, block->mlp_act);
    memcpy(out, block->attn_residual, bytes);
    gyre_linear_forward(&w.down, work, block->mlp_act, 1, out);
}
