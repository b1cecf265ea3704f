#include "train/backprop.h"
#include <stdlib.h>
#include <string.h>

enum { BUFFERS = 9, ALIGN = 16 };

static gyre_attention_args attention_args(const gyre_backprop *b, int64_t layer) {
    const gyre_model_config *c = &b->model->config;
    const gyre_block *block = &b->blocks[layer];
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    gyre_view views[3];
    gyre_block_qkv_views(c, block->qkv, b->rows, b->sequences, views);
    args.encoding = b->model->encoding;
    args.tables = &b->tables->layer[layer];
    args.q = gyre_const(views[0]);
    args.k = gyre_const(views[1]);
    args.v = gyre_const(views[2]);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.out = gyre_dense(block->attn_out, GYRE_DTYPE_F32, b->sequences, b->length, c->heads, c->head_dim);
    args.lse = gyre_dense(block->lse, GYRE_DTYPE_F32, b->sequences, b->length, c->heads, 1);
    return args;
}

static gyre_status assign_buffers(gyre_backprop *b) {
    const gyre_model_config *c = &b->model->config;
    const int64_t block = gyre_block_floats(c, b->rows);
    const int64_t per_row[BUFFERS] = {c->model_dim, c->model_dim,           1,
                                      c->vocab,     c->model_dim,           c->model_dim,
                                      c->mlp_dim,   c->heads * c->head_dim, gyre_qkv_dim(c)};
    float **parts[BUFFERS] = {&b->layers_out, &b->final_norm, &b->final_rstd, &b->logits, &b->dx,
                              &b->dnorm,      &b->dmlp_act,   &b->dattn_out,  &b->dqkv};
    int64_t sum = c->layers * (block + b->tables->projected_count), sizes[BUFFERS];
    for (int i = 0; i < BUFFERS; i++)
        sum += sizes[i] = (per_row[i] * b->rows + ALIGN - 1) / ALIGN * ALIGN;
    b->memory = gyre_alloc_floats(sum);
    b->blocks = calloc((size_t)c->layers, sizeof *b->blocks);
    b->inputs = malloc((size_t)b->rows * sizeof *b->inputs);
    if (!b->memory || !b->blocks || !b->inputs) return GYRE_ENOMEM;
    float *next = b->memory;
    for (int64_t l = 0; l < c->layers; l++, next += block)
        gyre_block_assign_buffers(&b->blocks[l], c, b->rows, next);
    for (int i = 0; i < BUFFERS; next += sizes[i++])
        *parts[i] = next;
    b->dprojected = next;
    return GYRE_OK;
}

gyre_status gyre_backprop_create(gyre_backprop *b, const gyre_layer_tables *tables, int64_t sequences, int64_t length) {
    *b = (gyre_backprop){
        .model = tables->model, .tables = tables, .sequences = sequences, .length = length, .rows = sequences * length};
    gyre_blas_single_thread();
    gyre_status status = assign_buffers(b);
    if (status) return status;
    const gyre_attention_args args = attention_args(b, 0);
    const size_t forward = gyre_attention_scratch(&args, 0, NULL), gradient = gyre_attention_scratch(&args, 1, NULL);
    if (!forward || !gradient) return GYRE_EINVAL;
    b->scratch_bytes = forward > gradient ? forward : gradient;
    b->scratch = gyre_alloc_floats((int64_t)(b->scratch_bytes / sizeof(float)) + 1);
    return b->scratch ? GYRE_OK : GYRE_ENOMEM;
}

void gyre_backprop_free(gyre_backprop *b) {
    free(b->memory);
    free(b->blocks);
    free(b->inputs);
    free(b->scratch);
    *b = (gyre_backprop){0};
}

/* -- forward -- */
static gyre_status forward(gyre_backprop *b) {
    const gyre_model *model = b->model;
    const gyre_model_config *c = &model->config;
    gyre_status status = gyre_embed(model, model->encoding, b->inputs, b->sequences, b->length, 0, b->blocks[0].x);
    for (int64_t l = 0; l < c->layers && !status; l++) {
        gyre_block *block = &b->blocks[l];
        gyre_block_forward_qkv(model, l, block);
        const gyre_attention_args args = attention_args(b, l);
        status = gyre_attention(&args, b->scratch, b->scratch_bytes, NULL, NULL);
        gyre_block_forward_output(model, l, block, l + 1 < c->layers ? block[1].x : b->layers_out);
    }
    return status;
}

/* logits[i] becomes the gradient to itself. */
static double lm_head_loss(gyre_backprop *b, const gyre_microbatch *microbatch) {
    const gyre_model_config *c = &b->model->config;
    const gyre_rmsnorm norm = {b->model->weights + b->model->layout.final_norm.offset, b->rows, c->model_dim,
                               c->norm_epsilon};
    const gyre_linear head = {b->model->weights, b->rows, c->model_dim, c->vocab};
    gyre_rmsnorm_forward(&norm, b->layers_out, b->final_norm, b->final_rstd);
    gyre_linear_forward(&head, b->final_norm, 0, b->logits);
    double loss = 0;
    float *logits = b->logits;
    for (int64_t s = 0; s < b->sequences; s++)
        for (int64_t t = 0; t < b->length; t++, logits += c->vocab) {
            const int64_t at = s * (b->length + 1) + t + 1;
            const float share = (float)microbatch->grad_scale * microbatch->loss_weights[at];
            loss += (double)microbatch->loss_weights[at] *
                    gyre_cross_entropy(b->model->encoding->kernels, logits, c->vocab, microbatch->tokens[at]);
            logits[microbatch->tokens[at]] -= 1;
            for (int64_t i = 0; i < c->vocab; i++)
                logits[i] *= share;
        }
    return loss;
}

/* -- gradient -- */
static void lm_head_gradient(gyre_backprop *b, float *gradient) {
    const gyre_model_config *c = &b->model->config;
    const int64_t norm_offset = b->model->layout.final_norm.offset;
    const gyre_rmsnorm norm = {b->model->weights + norm_offset, b->rows, c->model_dim, c->norm_epsilon};
    const gyre_linear head = {b->model->weights, b->rows, c->model_dim, c->vocab};
    gyre_linear_weight_gradient(&head, b->final_norm, b->logits, gradient);
    gyre_linear_input_gradient(&head, b->logits, 0, b->dnorm);
    memset(b->dx, 0, (size_t)(b->rows * c->model_dim) * sizeof(float));
    gyre_rmsnorm_gradient(&norm, b->layers_out, b->final_rstd, b->dnorm, b->dx, gradient + norm_offset);
}

/* Through out = mid + W_down swiglu(W_gate_up norm(mid)); dx comes in as the gradient to out, leaves as that to mid. */
static void mlp_gradient(gyre_backprop *b, int64_t layer, float *gradient) {
    const gyre_model_config *c = &b->model->config;
    const gyre_block *block = &b->blocks[layer];
    const float *w = b->model->weights;
    const int64_t o_down = gyre_layer_tensor_offset(&b->model->layout, layer, GYRE_WEIGHT_DOWN),
                  o_gate = gyre_layer_tensor_offset(&b->model->layout, layer, GYRE_WEIGHT_GATE);
    const int64_t o_norm = gyre_layer_tensor_offset(&b->model->layout, layer, GYRE_WEIGHT_MLP_NORM);
    const gyre_linear down = {w + o_down, b->rows, c->mlp_dim, c->model_dim};
    const gyre_linear gate_up = {w + o_gate, b->rows, c->model_dim, 2 * c->mlp_dim};
    const gyre_rmsnorm norm = {w + o_norm, b->rows, c->model_dim, c->norm_epsilon};
    gyre_linear_weight_gradient(&down, block->mlp_act, b->dx, gradient + o_down);
    gyre_linear_input_gradient(&down, b->dx, 0, b->dmlp_act);
    gyre_swiglu_gradient(b->model->encoding->kernels, b->rows, c->mlp_dim, block->gate_up, b->dmlp_act);
    gyre_linear_weight_gradient(&gate_up, block->mlp_norm, block->gate_up, gradient + o_gate);
    gyre_linear_input_gradient(&gate_up, block->gate_up, 0, b->dnorm);
    gyre_rmsnorm_gradient(&norm, block->attn_residual, block->mlp_rstd, b->dnorm, b->dx, gradient + o_norm);
}

/* Through mid = x + W_o attention(W_qkv norm(x)). */
static gyre_status attention_gradient(gyre_backprop *b, int64_t layer, float *gradient) {
    const gyre_model_config *c = &b->model->config;
    const gyre_block *block = &b->blocks[layer];
    const float *w = b->model->weights;
    const int64_t o_out = gyre_layer_tensor_offset(&b->model->layout, layer, GYRE_WEIGHT_O),
                  o_qkv = gyre_layer_tensor_offset(&b->model->layout, layer, GYRE_WEIGHT_Q);
    const int64_t o_norm = gyre_layer_tensor_offset(&b->model->layout, layer, GYRE_WEIGHT_ATTN_NORM);
    const gyre_linear out = {w + o_out, b->rows, c->heads * c->head_dim, c->model_dim};
    const gyre_linear qkv = {w + o_qkv, b->rows, c->model_dim, gyre_qkv_dim(c)};
    const gyre_rmsnorm norm = {w + o_norm, b->rows, c->model_dim, c->norm_epsilon};
    gyre_linear_weight_gradient(&out, block->attn_out, b->dx, gradient + o_out);
    gyre_linear_input_gradient(&out, b->dx, 0, b->dattn_out);
    const gyre_attention_args args = attention_args(b, layer);
    const gyre_cview dout = gyre_cdense(b->dattn_out, GYRE_DTYPE_F32, b->sequences, b->length, c->heads, c->head_dim);
    gyre_view dqkv[3];
    gyre_block_qkv_views(c, b->dqkv, b->rows, b->sequences, dqkv);
    const gyre_table_gradients tables = gyre_layer_table_gradients(b->tables, layer, gradient, b->dprojected);
    const gyre_status status =
        gyre_attention_gradient(&args, &dout, dqkv, &tables, b->scratch, b->scratch_bytes, NULL, NULL);
    if (status) return status;
    gyre_linear_weight_gradient(&qkv, block->attn_norm, b->dqkv, gradient + o_qkv);
    gyre_linear_input_gradient(&qkv, b->dqkv, 0, b->dnorm);
    gyre_rmsnorm_gradient(&norm, block->x, block->attn_rstd, b->dnorm, b->dx, gradient + o_norm);
    return GYRE_OK;
}

static gyre_status input_gradient(gyre_backprop *b, float *gradient) {
    const gyre_model_config *c = &b->model->config;
    for (int64_t i = 0; i < b->rows; i++) {
        float *row = gradient + b->inputs[i] * c->model_dim;
        const float *dx = b->dx + i * c->model_dim;
        for (int64_t j = 0; j < c->model_dim; j++)
            row[j] += dx[j];
    }
    const gyre_tensor_spec *table = &b->model->layout.input;
    if (!table->name) return GYRE_OK;
    const gyre_positions positions = {0};
    const gyre_cview dout = gyre_cdense(b->dx, GYRE_DTYPE_F32, b->sequences, b->length, 1, c->model_dim);
    const gyre_table_gradients gradients = {
        .input = gyre_dense(gradient + table->offset, GYRE_DTYPE_F32, 1, 1, table->shape[0], table->shape[1])};
    return gyre_add_input_gradient(b->model->encoding, &positions, &dout, &gradients, NULL, NULL);
}

gyre_status gyre_backprop_run(gyre_backprop *b, const gyre_microbatch *microbatch, double *loss, float *gradient) {
    for (int64_t s = 0; s < b->sequences; s++)
        memcpy(b->inputs + s * b->length, microbatch->tokens + s * (b->length + 1), (size_t)b->length * sizeof *b->inputs);
    gyre_status status = forward(b);
    if (!status) {
        *loss += lm_head_loss(b, microbatch);
        lm_head_gradient(b, gradient);
    }
    for (int64_t l = b->model->config.layers - 1; l >= 0 && !status; l--) {
        mlp_gradient(b, l, gradient);
        status = attention_gradient(b, l, gradient);
    }
    return status ? status : input_gradient(b, gradient);
}

void gyre_backprop_finish(gyre_backprop *b, float *gradient) {
    gyre_layer_tables_backward(b->tables, b->dprojected, gradient);
}
