#include "train/backprop.h"
#include <stdlib.h>
#include <string.h>

enum { PARTS = 9, ALIGN = 16 };

static gyre_attention_args attention_args(const gyre_backprop *b, int64_t layer) {
    const gyre_model_config *c = &b->model->config;
    const gyre_block *block = &b->blocks[layer];
    gyre_attention_args args = GYRE_ATTENTION_INIT;
    gyre_view views[3];
    gyre_block_views(c, block->qkv, b->rows, b->sequences, views);
    args.encoding = b->model->encoding;
    args.tables = &b->tables->layer[layer];
    args.q = gyre_const(views[0]);
    args.k = gyre_const(views[1]);
    args.v = gyre_const(views[2]);
    args.causal = 1;
    args.out = gyre_dense(block->mixed, GYRE_F32, b->sequences, b->length, c->heads, c->head_dim);
    args.lse = gyre_dense(block->lse, GYRE_F32, b->sequences, b->length, c->heads, 1);
    return args;
}

static gyre_status carve(gyre_backprop *b) {
    const gyre_model_config *c = &b->model->config;
    const int64_t block = gyre_block_floats(c, b->rows);
    const int64_t per_row[PARTS] = {
        c->width, c->width, 1, c->vocab, c->width, c->width, c->hidden, c->heads * c->head_dim, gyre_qkv_width(c)};
    float **parts[PARTS] = {&b->last,  &b->final,    &b->final_scale, &b->logits, &b->dx,
                            &b->dnorm, &b->dproduct, &b->dmixed,      &b->dqkv};
    int64_t sum = c->layers * (block + b->tables->made_count), sizes[PARTS];
    for (int i = 0; i < PARTS; i++)
        sum += sizes[i] = (per_row[i] * b->rows + ALIGN - 1) / ALIGN * ALIGN;
    b->memory = gyre_floats(sum);
    b->blocks = calloc((size_t)c->layers, sizeof *b->blocks);
    b->inputs = malloc((size_t)b->rows * sizeof *b->inputs);
    if (!b->memory || !b->blocks || !b->inputs) return GYRE_ENOMEM;
    float *next = b->memory;
    for (int64_t l = 0; l < c->layers; l++, next += block)
        gyre_block_carve(&b->blocks[l], c, b->rows, next);
    for (int i = 0; i < PARTS; next += sizes[i++])
        *parts[i] = next;
    b->dmade = next;
    return GYRE_OK;
}

gyre_status gyre_backprop_create(gyre_backprop *b, const gyre_layer_tables *tables, int64_t sequences, int64_t length) {
    *b = (gyre_backprop){
        .model = tables->model, .tables = tables, .sequences = sequences, .length = length, .rows = sequences * length};
    gyre_blas_single_thread();
    gyre_status status = carve(b);
    if (status) return status;
    const gyre_attention_args args = attention_args(b, 0);
    const size_t forward = gyre_attention_scratch(&args, 0, NULL), gradient = gyre_attention_scratch(&args, 1, NULL);
    if (!forward || !gradient) return GYRE_EINVAL;
    b->scratch_bytes = forward > gradient ? forward : gradient;
    b->scratch = gyre_floats((int64_t)(b->scratch_bytes / sizeof(float)) + 1);
    return b->scratch ? GYRE_OK : GYRE_ENOMEM;
}

void gyre_backprop_free(gyre_backprop *b) {
    free(b->memory);
    free(b->blocks);
    free(b->inputs);
    free(b->scratch);
    *b = (gyre_backprop){0};
}

/* -- forward ------------------------------------------------------------------------------------------------------ */
static gyre_status forward(gyre_backprop *b) {
    const gyre_model *model = b->model;
    const gyre_model_config *c = &model->config;
    gyre_status status = gyre_embed(model, model->encoding, b->inputs, b->sequences, b->length, 0, b->blocks[0].x);
    for (int64_t l = 0; l < c->layers && !status; l++) {
        gyre_block *block = &b->blocks[l];
        gyre_block_begin(model, l, block);
        const gyre_attention_args args = attention_args(b, l);
        status = gyre_attention(&args, b->scratch, b->scratch_bytes, NULL);
        gyre_block_end(model, l, block, l + 1 < c->layers ? block[1].x : b->last);
    }
    return status;
}

/* logits[i] becomes the gradient to itself. */
static double head_loss(gyre_backprop *b, const gyre_lesson *lesson) {
    const gyre_model_config *c = &b->model->config;
    const gyre_norm norm = {b->model->weights + b->model->layout.norm.offset, b->rows, c->width, c->norm_epsilon};
    const gyre_linear head = {b->model->weights, b->rows, c->width, c->vocab};
    gyre_norm_forward(&norm, b->last, b->final, b->final_scale);
    gyre_linear_forward(&head, b->final, 0, b->logits);
    double loss = 0;
    float *logits = b->logits;
    for (int64_t s = 0; s < b->sequences; s++)
        for (int64_t t = 0; t < b->length; t++, logits += c->vocab) {
            const int64_t at = s * (b->length + 1) + t + 1;
            const float share = (float)lesson->share * lesson->weights[at];
            loss += (double)lesson->weights[at] *
                    gyre_cross_entropy(b->model->encoding->kernels, logits, c->vocab, lesson->tokens[at]);
            logits[lesson->tokens[at]] -= 1;
            for (int64_t i = 0; i < c->vocab; i++)
                logits[i] *= share;
        }
    return loss;
}

/* -- gradient -------------------------------------------------------------------------------------------------------- */
static void head_gradient(gyre_backprop *b, float *gradient) {
    const gyre_model_config *c = &b->model->config;
    const int64_t norm_offset = b->model->layout.norm.offset;
    const gyre_norm norm = {b->model->weights + norm_offset, b->rows, c->width, c->norm_epsilon};
    const gyre_linear head = {b->model->weights, b->rows, c->width, c->vocab};
    gyre_linear_weight_gradient(&head, b->final, b->logits, gradient);
    gyre_linear_input_gradient(&head, b->logits, 0, b->dnorm);
    memset(b->dx, 0, (size_t)(b->rows * c->width) * sizeof(float));
    gyre_norm_gradient(&norm, b->last, b->final_scale, b->dnorm, b->dx, gradient + norm_offset);
}

/* Through out = mid + W_down swiglu(W_gate_up norm(mid)); dx comes in as the gradient to out, leaves as that to mid. */
static void feed_forward_gradient(gyre_backprop *b, int64_t layer, float *gradient) {
    const gyre_model_config *c = &b->model->config;
    const gyre_block *block = &b->blocks[layer];
    const float *w = b->model->weights;
    const int64_t o_down = gyre_layer_offset(&b->model->layout, layer, GYRE_DOWN),
                  o_gate = gyre_layer_offset(&b->model->layout, layer, GYRE_GATE);
    const int64_t o_norm = gyre_layer_offset(&b->model->layout, layer, GYRE_NORM2);
    const gyre_linear down = {w + o_down, b->rows, c->hidden, c->width};
    const gyre_linear gate_up = {w + o_gate, b->rows, c->width, 2 * c->hidden};
    const gyre_norm norm = {w + o_norm, b->rows, c->width, c->norm_epsilon};
    gyre_linear_weight_gradient(&down, block->product, b->dx, gradient + o_down);
    gyre_linear_input_gradient(&down, b->dx, 0, b->dproduct);
    gyre_swiglu_gradient(b->model->encoding->kernels, b->rows, c->hidden, block->gate_up, b->dproduct);
    gyre_linear_weight_gradient(&gate_up, block->norm2, block->gate_up, gradient + o_gate);
    gyre_linear_input_gradient(&gate_up, block->gate_up, 0, b->dnorm);
    gyre_norm_gradient(&norm, block->mid, block->scale2, b->dnorm, b->dx, gradient + o_norm);
}

/* Through mid = x + W_o attention(W_qkv norm(x)). */
static gyre_status attention_gradient(gyre_backprop *b, int64_t layer, float *gradient) {
    const gyre_model_config *c = &b->model->config;
    const gyre_block *block = &b->blocks[layer];
    const float *w = b->model->weights;
    const int64_t o_out = gyre_layer_offset(&b->model->layout, layer, GYRE_O),
                  o_qkv = gyre_layer_offset(&b->model->layout, layer, GYRE_Q);
    const int64_t o_norm = gyre_layer_offset(&b->model->layout, layer, GYRE_NORM1);
    const gyre_linear out = {w + o_out, b->rows, c->heads * c->head_dim, c->width};
    const gyre_linear qkv = {w + o_qkv, b->rows, c->width, gyre_qkv_width(c)};
    const gyre_norm norm = {w + o_norm, b->rows, c->width, c->norm_epsilon};
    gyre_linear_weight_gradient(&out, block->mixed, b->dx, gradient + o_out);
    gyre_linear_input_gradient(&out, b->dx, 0, b->dmixed);
    const gyre_attention_args args = attention_args(b, layer);
    const gyre_cview dout = gyre_cdense(b->dmixed, GYRE_F32, b->sequences, b->length, c->heads, c->head_dim);
    gyre_view dqkv[3];
    gyre_block_views(c, b->dqkv, b->rows, b->sequences, dqkv);
    const gyre_table_gradients tables = gyre_layer_table_gradients(b->tables, layer, gradient, b->dmade);
    const gyre_status status = gyre_attention_gradient(&args, &dout, dqkv, &tables, b->scratch, b->scratch_bytes, NULL);
    if (status) return status;
    gyre_linear_weight_gradient(&qkv, block->norm1, b->dqkv, gradient + o_qkv);
    gyre_linear_input_gradient(&qkv, b->dqkv, 0, b->dnorm);
    gyre_norm_gradient(&norm, block->x, block->scale1, b->dnorm, b->dx, gradient + o_norm);
    return GYRE_OK;
}

static gyre_status input_gradient(gyre_backprop *b, float *gradient) {
    const gyre_model_config *c = &b->model->config;
    for (int64_t i = 0; i < b->rows; i++) {
        float *row = gradient + b->inputs[i] * c->width;
        const float *dx = b->dx + i * c->width;
        for (int64_t j = 0; j < c->width; j++)
            row[j] += dx[j];
    }
    const gyre_part *table = &b->model->layout.input;
    if (!table->name) return GYRE_OK;
    const gyre_positions positions = {0};
    const gyre_cview dout = gyre_cdense(b->dx, GYRE_F32, b->sequences, b->length, 1, c->width);
    const gyre_table_gradients gradients = {
        .input = gyre_dense(gradient + table->offset, GYRE_F32, 1, 1, table->shape[0], table->shape[1])};
    return gyre_add_gradient(b->model->encoding, &positions, &dout, &gradients, NULL);
}

gyre_status gyre_backprop_run(gyre_backprop *b, const gyre_lesson *lesson, double *loss, float *gradient) {
    for (int64_t s = 0; s < b->sequences; s++)
        memcpy(b->inputs + s * b->length, lesson->tokens + s * (b->length + 1), (size_t)b->length * sizeof *b->inputs);
    gyre_status status = forward(b);
    if (!status) {
        *loss += head_loss(b, lesson);
        head_gradient(b, gradient);
    }
    for (int64_t l = b->model->config.layers - 1; l >= 0 && !status; l--) {
        feed_forward_gradient(b, l, gradient);
        status = attention_gradient(b, l, gradient);
    }
    return status ? status : input_gradient(b, gradient);
}

void gyre_backprop_finish(gyre_backprop *b, float *gradient) {
    gyre_layer_tables_backward(b->tables, b->dmade, gradient);
}
