#include "train/backprop.h"

#include "model/input_positions.h"

#include "model/ops/activation.h"
#include "model/ops/float_buffer.h"
#include "model/ops/log_gates.h"
#include "model/ops/logits.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFERS = 13 };

/* gates: memory for what the result points to. */
static gyre_attention_args attention_args(const gyre_backprop *b, int64_t layer, gyre_attention_gates *gates) {
    const gyre_model_config *c = &b->model->config;
    const gyre_block *block = &b->blocks[layer];
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    gyre_view views[3];
    gyre_block_qkv_views(c, block->qkv, b->rows, b->sequences, views);
    if (gyre_rotated_qk_dim(c)) gyre_block_rotated_views(c, block->rotated_qk, b->rows, b->sequences, views);
    const gyre_head_part *part = gyre_network_trained_heads(b->model->network, layer).part;
    const int before = c->rotates_input || (part && part->facts->replaces_rotation);
    args.encoding = before ? NULL : gyre_network_encoding(b->model->network, layer);
    args.scale = gyre_parts_scale(c->layer_parts, c->head_dim);
    args.tables = &b->tables->layer[layer];
    args.q = gyre_const(views[0]);
    args.k = gyre_const(views[1]);
    args.v = gyre_const(views[2]);
    args.q_pos = args.k_pos = b->positions;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.out = gyre_dense(block->attn_out, GYRE_DTYPE_F32, b->sequences, b->length, c->heads, c->head_dim);
    args.lse = gyre_dense(block->lse, GYRE_DTYPE_F32, b->sequences, b->length, c->heads, 1);
    if (!gyre_forgets(c)) return args;
    *gates = (gyre_attention_gates)GYRE_INIT(gyre_attention_gates);
    gates->q = gates->k = gyre_const(gyre_block_gate_view(c, block->gate_sums, b->rows, b->sequences));
    args.gates = gates;
    return args;
}

/* 1: the layers have an attention of their own. */
static int has_own_attention(const gyre_backprop *b) {
    return (b->model->config.layer_parts & GYRE_LAYER_PARTS_OWN_ATTENTION) != 0;
}

static gyre_own_call own_call(const gyre_backprop *b, int64_t layer) {
    gyre_attention_gates none;
    const gyre_attention_args same = attention_args(b, layer, &none);
    return (gyre_own_call){.layer = gyre_network_own_attention(b->model->network, layer),
                           .q = same.q,
                           .k = same.k,
                           .v = same.v,
                           .encoding = same.encoding,
                           .tables = same.tables,
                           .q_pos = b->positions,
                           .k_pos = b->positions,
                           .out = same.out,
                           .lse = same.lse};
}

/* For the layer that needs most; 0 = a call is refused. */
static size_t attention_scratch(const gyre_backprop *b, int gradient) {
    size_t most = 0;
    for (int64_t layer = 0; layer < b->model->config.layers; layer++) {
        gyre_attention_gates gates;
        const gyre_attention_args args = attention_args(b, layer, &gates);
        const gyre_own_call call = own_call(b, layer);
        size_t bytes = 0;
        if (has_own_attention(b))
            bytes = gyre_own_attention_scratch(&call, gradient, NULL);
        else if (gyre_attention_scratch(&args, gradient, NULL, &bytes, NULL))
            return 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static gyre_status assign_buffers(gyre_backprop *b) {
    const gyre_model_config *c = &b->model->config;
    const int64_t block = gyre_block_floats(b->model, b->rows);
    const int64_t gates = gyre_forgets(c) ? c->heads : 0;
    const int64_t per_row[BUFFERS] = {
        c->model_dim,           c->model_dim,    1,     c->vocab,  c->model_dim, c->model_dim,          c->mlp_dim,
        c->heads * c->head_dim, gyre_qkv_dim(c), gates, 2 * gates, 2 * gates,    gyre_rotated_qk_dim(c)};
    float *dgate_sums[2]; /* two floats take the place of a double */
    float **parts[BUFFERS] = {&b->layers_out, &b->final_norm, &b->final_rstd, &b->logits, &b->dx,
                              &b->dnorm,      &b->dmlp_act,   &b->dattn_out,  &b->dqkv,   &b->dgates,
                              &dgate_sums[0], &dgate_sums[1], &b->drotated};
    int64_t sum = c->layers * (block + b->tables->projected_count), sizes[BUFFERS];
    for (int i = 0; i < BUFFERS; i++)
        sum += sizes[i] = gyre_round_up_floats(per_row[i] * b->rows);
    b->memory = gyre_alloc_floats(sum);
    b->blocks = calloc((size_t)c->layers, sizeof *b->blocks);
    b->inputs = malloc((size_t)b->rows * sizeof *b->inputs);
    if (!b->memory || !b->blocks || !b->inputs) return GYRE_ENOMEM;
    float *next = b->memory;
    for (int64_t l = 0; l < c->layers; l++, next += block) {
        gyre_block_assign_buffers(&b->blocks[l], b->model, b->rows, next);
        b->blocks[l].positions = b->positions;
    }
    for (int i = 0; i < BUFFERS; next += sizes[i++])
        *parts[i] = next;
    for (int i = 0; i < 2; i++)
        b->dgate_sums[i] = (double *)(void *)dgate_sums[i];
    b->dprojected = next;
    return GYRE_OK;
}

/* For every linear map of the model, and for projected tables. */
static int64_t linear_scratch(const gyre_backprop *b) {
    const gyre_model_config *c = &b->model->config;
    const int64_t rows = b->rows > b->tables->rows ? b->rows : b->tables->rows;
    const int64_t in[] = {c->model_dim, c->heads * c->head_dim, c->mlp_dim};
    int64_t floats = 0;
    for (size_t i = 0; i < sizeof in / sizeof *in; i++) {
        const int64_t one = gyre_linear_scratch(rows, in[i]);
        floats = one > floats ? one : floats;
    }
    return floats;
}

gyre_status gyre_backprop_create(gyre_backprop *b, const gyre_layer_tables *tables, int64_t sequences, int64_t length,
                                 const int64_t *positions) {
    *b = (gyre_backprop){
        .model = tables->model, .tables = tables, .sequences = sequences, .length = length, .rows = sequences * length};
    if (positions)
        b->positions =
            (gyre_positions){.data = positions, .dtype = GYRE_DTYPE_I64, .stride_batch = length, .stride_token = 1};
    gyre_status status = assign_buffers(b);
    if (status) return status;
    const size_t forward = attention_scratch(b, 0), gradient = attention_scratch(b, 1);
    if (!forward || !gradient) return GYRE_EINVAL;
    b->scratch_bytes = forward > gradient ? forward : gradient;
    b->scratch = gyre_alloc_floats((int64_t)(b->scratch_bytes / sizeof(float)) + 1);
    b->work =
        (gyre_linear_work){gyre_kernels_beside(tables->model->encoding->kernels), gyre_alloc_floats(linear_scratch(b))};
    const gyre_trained_heads heads = gyre_network_trained_heads(b->model->network, b->model->config.layers - 1);
    b->part = (gyre_part_work){b->work.kernels, NULL, gyre_alloc_floats(gyre_part_scratch(&heads, b->rows, 1) + 1)};
    return b->scratch && b->work.scratch && b->part.scratch ? GYRE_OK : GYRE_ENOMEM;
}

void gyre_backprop_free(gyre_backprop *b) {
    free(b->memory);
    free(b->blocks);
    free(b->inputs);
    free(b->scratch);
    free(b->work.scratch);
    free(b->part.scratch);
    *b = (gyre_backprop){0};
}

/* -- the two ends of the decoder: embedding and lm_head -- */
static gyre_tables input_table(const gyre_model *model) {
    const gyre_tensor_spec *spec = &model->layout.input;
    float *data = spec->name ? model->weights + spec->offset : NULL;
    return (gyre_tables){.input = gyre_cdense(data, GYRE_DTYPE_F32, 1, 1, spec->shape[0], spec->shape[1])};
}

/* x[i] = embedding of input i, plus its position if the encoding adds positions at the input. */
static gyre_status embed(gyre_backprop *b, float *x) {
    const gyre_model *model = b->model;
    const int64_t model_dim = model->config.model_dim;
    for (int64_t i = 0; i < b->rows; i++)
        memcpy(x + i * model_dim, model->weights + b->inputs[i] * model_dim, (size_t)model_dim * sizeof *x);
    if (!(gyre_encoding_places(model->encoding) & GYRE_PLACE_INPUT)) return GYRE_OK;
    const gyre_tables tables = input_table(model);
    const gyre_view view = gyre_dense(x, GYRE_DTYPE_F32, b->sequences, b->length, 1, model_dim);
    return gyre_input_positions(model->encoding, model->config.position_form, &tables, &b->positions, &view, &b->error);
}

static gyre_status embed_gradient(gyre_backprop *b, float *gradient) {
    const gyre_model_config *c = &b->model->config;
    const gyre_view dx_rows = gyre_dense(b->dx, GYRE_DTYPE_F32, b->sequences, b->length, 1, c->model_dim);
    const gyre_status status =
        gyre_input_positions_gradient(b->model->encoding, c->position_form, &b->positions, &dx_rows, &b->error);
    if (status) return status;
    for (int64_t i = 0; i < b->rows; i++) {
        float *row = gradient + b->inputs[i] * c->model_dim;
        const float *dx = b->dx + i * c->model_dim;
        for (int64_t j = 0; j < c->model_dim; j++)
            row[j] += dx[j];
    }
    const gyre_tensor_spec *table = &b->model->layout.input;
    if (!table->name) return GYRE_OK;
    const gyre_cview dout = gyre_cdense(b->dx, GYRE_DTYPE_F32, b->sequences, b->length, 1, c->model_dim);
    const gyre_table_gradients gradients = {
        .input = gyre_dense(gradient + table->offset, GYRE_DTYPE_F32, 1, 1, table->shape[0], table->shape[1])};
    return gyre_add_input_gradient(b->model->encoding, &b->positions, &dout, &gradients, NULL, &b->error);
}

/* The final norm and the lm_head, which is the embedding. */
typedef struct lm_head {
    gyre_norm_weights norm;
    gyre_linear linear;
} lm_head;

static lm_head lm_head_of(const gyre_backprop *b) {
    const gyre_model *m = b->model;
    return (lm_head){{m->weights + m->layout.final_norm.offset, NULL, m->config.model_dim},
                     {m->weights, b->rows, m->config.model_dim, m->config.vocab}};
}

/* Replaces logits[i] by the gradient to it.  out = the loss. */
static double lm_head_loss(gyre_backprop *b, const gyre_microbatch *microbatch) {
    const gyre_model_config *c = &b->model->config;
    const lm_head head = lm_head_of(b);
    const gyre_norm_args norm = gyre_model_norm_args(b->model, &head.norm, b->rows);
    gyre_normalize_rows(&norm, b->layers_out, b->final_norm, c->model_dim, b->final_rstd);
    gyre_linear_forward(&head.linear, &b->work, b->final_norm, 0, b->logits);
    double loss = 0;
    float *logits = b->logits;
    for (int64_t s = 0; s < b->sequences; s++)
        for (int64_t t = 0; t < b->length; t++, logits += c->vocab) {
            const int64_t target = s * (b->length + 1) + t + 1;
            const float scale = (float)microbatch->grad_scale * microbatch->loss_weights[target];
            loss += (double)microbatch->loss_weights[target] *
                    gyre_cross_entropy(gyre_kernels_beside(b->model->encoding->kernels), logits, c->vocab,
                                       microbatch->tokens[target]);
            logits[microbatch->tokens[target]] -= 1;
            for (int64_t i = 0; i < c->vocab; i++)
                logits[i] *= scale;
        }
    return loss;
}

static void lm_head_gradient(gyre_backprop *b, float *gradient) {
    const lm_head head = lm_head_of(b);
    const gyre_norm_args norm = gyre_model_norm_args(b->model, &head.norm, b->rows);
    gyre_linear_weight_gradient(&head.linear, &b->work, b->final_norm, b->logits, gradient);
    gyre_linear_input_gradient(&head.linear, &b->work, b->logits, 0, b->dnorm);
    memset(b->dx, 0, (size_t)(b->rows * b->model->config.model_dim) * sizeof(float));
    gyre_rmsnorm_gradient(&norm, b->layers_out, b->final_rstd, b->dnorm, b->dx,
                          gradient + b->model->layout.final_norm.offset);
}

/* -- layers -- */
static gyre_status attend(gyre_backprop *b, int64_t layer) {
    gyre_attention_gates gates;
    const gyre_attention_args args = attention_args(b, layer, &gates);
    if (!has_own_attention(b)) return gyre_attention(&args, (gyre_scratch){b->scratch, b->scratch_bytes}, NULL, &b->error);
    const gyre_own_call call = own_call(b, layer);
    return gyre_own_attention_run(&call, b->scratch, b->scratch_bytes, NULL, &b->error);
}

static gyre_status forward(gyre_backprop *b) {
    const int64_t layers = b->model->config.layers;
    gyre_status status = embed(b, b->blocks[0].x);
    for (int64_t l = 0; l < layers && !status; l++) {
        gyre_block *block = &b->blocks[l];
        status = gyre_block_forward_qkv(b->model, &b->work, &b->part, l, block, b->sequences, &b->error);
        if (!status) status = attend(b, l);
        gyre_block_forward_output(b->model, &b->work, l, block, l + 1 < layers ? block[1].x : b->layers_out);
    }
    return status;
}

/* out = the place of the gradient to weights `w` of the model. */
static float *gradient_of(const gyre_backprop *b, float *gradient, const float *w) {
    return gradient + (w - b->model->weights);
}

/* dx: on entry the gradient to the block's output, on return the gradient to attn_residual. */
static void mlp_gradient(gyre_backprop *b, int64_t layer, float *gradient) {
    const gyre_block *block = &b->blocks[layer];
    const gyre_block_weights w = gyre_block_weights_of(b->model, layer, b->rows);
    const gyre_norm_args norm = gyre_model_norm_args(b->model, &w.mlp_norm, b->rows);
    gyre_linear_weight_gradient(&w.down, &b->work, block->mlp_act, b->dx, gradient_of(b, gradient, w.down.w));
    gyre_linear_input_gradient(&w.down, &b->work, b->dx, 0, b->dmlp_act);
    gyre_swiglu_gradient(gyre_kernels_beside(b->model->encoding->kernels), b->rows, b->model->config.mlp_dim, block->gate_up,
                         b->dmlp_act);
    gyre_linear_weight_gradient(&w.gate_up, &b->work, block->mlp_norm, block->gate_up,
                                gradient_of(b, gradient, w.gate_up.w));
    gyre_linear_input_gradient(&w.gate_up, &b->work, block->gate_up, 0, b->dnorm);
    gyre_rmsnorm_gradient(&norm, block->attn_residual, block->mlp_rstd, b->dnorm, b->dx,
                          gradient_of(b, gradient, w.mlp_norm.gain));
}

/* dnorm = the gradient to attn_norm, from dqkv, added to what a part that reads it left there; adds to that of W_qkv.  With
 * rotates_input the gradient to q and k passes back through the rotation; dattn_out, no longer needed, holds that to v
 * meanwhile. */
static gyre_status projection_gradient(gyre_backprop *b, const gyre_block *block, const gyre_block_weights *w,
                                       float *gradient) {
    const gyre_linear *qkv = &w->qkv;
    const int adds = w->trained.part && w->trained.part->reads_x;
    const gyre_model_config *c = &b->model->config;
    const gyre_linear values = gyre_block_value_map(c, qkv);
    const float *x = c->rotates_input ? block->rotated : block->attn_norm;
    for (int64_t i = 0; c->rotates_input && i < b->rows; i++) {
        float *dv = b->dqkv + (i + 1) * qkv->out - values.out;
        memcpy(b->dattn_out + i * values.out, dv, (size_t)values.out * sizeof *dv);
        memset(dv, 0, (size_t)values.out * sizeof *dv);
    }
    gyre_linear_weight_gradient(qkv, &b->work, x, b->dqkv, gradient_of(b, gradient, qkv->w));
    gyre_linear_input_gradient(qkv, &b->work, b->dqkv, adds, b->dnorm);
    if (!c->rotates_input) return GYRE_OK;
    const gyre_status status =
        gyre_block_rotate_input(b->model, GYRE_DIRECTION_ADJOINT, block, b->sequences, b->dnorm, b->dnorm, &b->error);
    gyre_linear_weight_gradient(&values, &b->work, block->attn_norm, b->dattn_out, gradient_of(b, gradient, values.w));
    gyre_linear_input_gradient(&values, &b->work, b->dattn_out, 1, b->dnorm);
    return status;
}

/* Adds to dnorm, and to the gradients of W_f and b_f. */
static gyre_status gates_gradient(gyre_backprop *b, const gyre_block *block, const gyre_block_weights *w, float *gradient) {
    const gyre_model_config *c = &b->model->config;
    const gyre_cview dsums[2] = {gyre_const(gyre_block_gate_view(c, b->dgate_sums[0], b->rows, b->sequences)),
                                 gyre_const(gyre_block_gate_view(c, b->dgate_sums[1], b->rows, b->sequences))};
    /* The sums have been used; their memory takes the gradient to log gates. */
    const gyre_view dlog_gates = gyre_block_gate_view(c, block->gate_sums, b->rows, b->sequences);
    const gyre_status status = gyre_gate_sums_gradient(dsums, NULL, b->sequences, &dlog_gates, NULL, &b->error);
    if (status) return status;
    float *dbias = gradient_of(b, gradient, w->forget_gate_bias);
    gyre_log_gates_gradient(block->gates, b->rows * c->heads, block->gate_sums, b->dgates);
    for (int64_t i = 0; i < b->rows * c->heads; i++)
        dbias[i % c->heads] += b->dgates[i];
    gyre_linear_weight_gradient(&w->forget_gate, &b->work, block->attn_norm, b->dgates,
                                gradient_of(b, gradient, w->forget_gate.w));
    gyre_linear_input_gradient(&w->forget_gate, &b->work, b->dgates, 1, b->dnorm);
    return GYRE_OK;
}

/* On entry dqkv, or drotated in models that have it, is the gradient to what attention took; on return dqkv is that to what
 * the projections gave, and dnorm that to attn_norm if the part reads it. */
static gyre_status trained_gradient(gyre_backprop *b, const gyre_block *block, const gyre_block_weights *w,
                                    float *gradient) {
    const gyre_model_config *c = &b->model->config;
    const gyre_head_part *part = w->trained.part;
    gyre_head_views heads = gyre_block_head_views(c, block->qkv, block->rotated_qk, b->rows, b->sequences),
                    d = gyre_block_head_views(c, b->dqkv, b->drotated, b->rows, b->sequences);
    if (!part) return GYRE_OK;
    gyre_block_part_views(&w->trained, block, b->sequences, &heads);
    if (part->reads_x) {
        memset(b->dnorm, 0, (size_t)(b->rows * c->model_dim) * sizeof *b->dnorm);
        d.x = gyre_dense(b->dnorm, GYRE_DTYPE_F32, b->sequences, b->length, 1, c->model_dim);
    }
    float *to = w->trained.data ? gradient_of(b, gradient, w->trained.data) : NULL;
    return part->gradient(&w->trained, &block->positions, &heads, &d, &b->part, to, &b->error);
}

/* The gradients to queries, keys and values as attention took them, from that to its output; adds to those of tables and
 * of what an attention of the layer's own trains. */
static gyre_status attend_gradient(gyre_backprop *b, int64_t layer, float *gradient) {
    const gyre_model_config *c = &b->model->config;
    const gyre_cview dout = gyre_cdense(b->dattn_out, GYRE_DTYPE_F32, b->sequences, b->length, c->heads, c->head_dim);
    const gyre_table_gradients tables = gyre_layer_table_gradients(b->tables, layer, gradient, b->dprojected);
    gyre_view dqkv[3];
    gyre_block_qkv_views(c, b->dqkv, b->rows, b->sequences, dqkv);
    if (gyre_rotated_qk_dim(c)) gyre_block_rotated_views(c, b->drotated, b->rows, b->sequences, dqkv);
    if (!has_own_attention(b)) {
        gyre_attention_gates gates;
        const gyre_attention_args args = attention_args(b, layer, &gates);
        gyre_attention_gradients all = GYRE_INIT(gyre_attention_gradients);
        all.dout = dout;
        all.dq = dqkv[0];
        all.dk = dqkv[1];
        all.dv = dqkv[2];
        all.tables = &tables;
        if (args.gates) {
            all.dq_gates = gyre_block_gate_view(c, b->dgate_sums[0], b->rows, b->sequences);
            all.dk_gates = gyre_block_gate_view(c, b->dgate_sums[1], b->rows, b->sequences);
        }
        return gyre_attention_gradient(&args, &all, (gyre_scratch){b->scratch, b->scratch_bytes}, NULL, &b->error);
    }
    const gyre_own_call call = own_call(b, layer);
    const gyre_own_gradients to = {dqkv[0], dqkv[1], dqkv[2], tables.bias, gradient_of(b, gradient, call.layer.data)};
    return gyre_own_attention_gradient(&call, &dout, &to, b->scratch, b->scratch_bytes, &b->error);
}

/* dx: on entry the gradient to attn_residual, on return the gradient to x. */
static gyre_status attention_gradient(gyre_backprop *b, int64_t layer, float *gradient) {
    const gyre_model_config *c = &b->model->config;
    const gyre_block *block = &b->blocks[layer];
    const gyre_block_weights w = gyre_block_weights_of(b->model, layer, b->rows);
    const gyre_norm_args norm = gyre_model_norm_args(b->model, &w.attn_norm, b->rows);
    gyre_linear_weight_gradient(&w.o, &b->work, block->attn_out, b->dx, gradient_of(b, gradient, w.o.w));
    gyre_linear_input_gradient(&w.o, &b->work, b->dx, 0, b->dattn_out);
    const gyre_status status = attend_gradient(b, layer, gradient);
    if (status) return status;
    const gyre_status trained = trained_gradient(b, block, &w, gradient);
    if (trained) return trained;
    gyre_status projected = projection_gradient(b, block, &w, gradient);
    if (!projected && gyre_forgets(c)) projected = gates_gradient(b, block, &w, gradient);
    if (projected) return projected;
    gyre_rmsnorm_gradient(&norm, block->x, block->attn_rstd, b->dnorm, b->dx, gradient_of(b, gradient, w.attn_norm.gain));
    return GYRE_OK;
}

/* -- running -- */
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
    return status ? status : embed_gradient(b, gradient);
}

void gyre_backprop_finish(gyre_backprop *b, float *gradient) {
    gyre_layer_tables_backward(b->tables, &b->work, b->dprojected, gradient);
}
