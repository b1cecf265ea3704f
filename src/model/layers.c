#include "model/layers.h"
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16 };

void gyre_blas_single_thread(void) {
    openblas_set_num_threads(1);
}

float *gyre_alloc_floats(int64_t count) {
    if (count < 0 || (uint64_t)count > SIZE_MAX / sizeof(float) - 64) return NULL;
    size_t bytes = ((size_t)count * sizeof(float) + 63) / 64 * 64;
    float *memory = aligned_alloc(64, bytes ? bytes : 64);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

/* -- layout -- */
int64_t gyre_qkv_dim(const gyre_model_config *config) {
    return (config->heads + 2 * config->kv_heads) * config->head_dim;
}

enum { BLOCK_BUFFERS = 11 };

static void block_sizes(const gyre_model_config *c, int64_t rows, int64_t sizes[BLOCK_BUFFERS]) {
    const int64_t per_row[BLOCK_BUFFERS] = {
        c->model_dim,   c->model_dim, 1, gyre_qkv_dim(c), c->heads * c->head_dim, c->heads, c->model_dim, c->model_dim, 1,
        2 * c->mlp_dim, c->mlp_dim};
    for (int i = 0; i < BLOCK_BUFFERS; i++)
        sizes[i] = (per_row[i] * rows + LANES - 1) / LANES * LANES;
}

int64_t gyre_block_floats(const gyre_model_config *config, int64_t rows) {
    int64_t sizes[BLOCK_BUFFERS], sum = 0;
    block_sizes(config, rows, sizes);
    for (int i = 0; i < BLOCK_BUFFERS; i++)
        sum += sizes[i];
    return sum;
}

void gyre_block_assign_buffers(gyre_block *block, const gyre_model_config *config, int64_t rows, float *memory) {
    int64_t sizes[BLOCK_BUFFERS];
    block_sizes(config, rows, sizes);
    float **parts[BLOCK_BUFFERS] = {&block->x,        &block->attn_norm, &block->attn_rstd,     &block->qkv,
                                    &block->attn_out, &block->lse,       &block->attn_residual, &block->mlp_norm,
                                    &block->mlp_rstd, &block->gate_up,   &block->mlp_act};
    block->rows = rows;
    for (int i = 0; i < BLOCK_BUFFERS; i++) {
        *parts[i] = memory;
        memory += sizes[i];
    }
}

void gyre_block_qkv_views(const gyre_model_config *config, float *qkv, int64_t rows, int64_t batch, gyre_view views[3]) {
    const int64_t heads[3] = {config->heads, config->kv_heads, config->kv_heads};
    const int64_t width = gyre_qkv_dim(config);
    for (int i = 0; i < 3; i++) {
        views[i] = gyre_dense(qkv, GYRE_DTYPE_F32, batch, rows / batch, heads[i], config->head_dim);
        views[i].stride[0] = rows / batch * width;
        views[i].stride[1] = width;
        qkv += heads[i] * config->head_dim;
    }
}

/* -- products -- */
void gyre_linear_forward(const gyre_linear *l, const float *x, float beta, float *y) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)l->rows, (int)l->out, (int)l->in, 1, x, (int)l->in, l->w,
                (int)l->in, beta, y, (int)l->out);
}

void gyre_linear_input_gradient(const gyre_linear *l, const float *dy, float beta, float *dx) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)l->rows, (int)l->in, (int)l->out, 1, dy, (int)l->out, l->w,
                (int)l->in, beta, dx, (int)l->in);
}

void gyre_linear_weight_gradient(const gyre_linear *l, const float *x, const float *dy, float *dw) {
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)l->out, (int)l->in, (int)l->rows, 1, dy, (int)l->out, x,
                (int)l->in, 1, dw, (int)l->in);
}

/* -- RMSNorm -- */
/* A fixed tree over sixteen lanes: wide registers can hold it, and every machine adds in the same order. */
static float lane_sum(const float *lanes) {
    float half[LANES];
    memcpy(half, lanes, sizeof half);
    for (int n = LANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            half[i] += half[i + n];
    return half[0];
}

static float dot(const float *a, const float *b, int64_t n) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] += a[i + l] * b[i + l];
    for (int l = 0; i < n; i++, l++)
        lanes[l] += a[i] * b[i];
    return lane_sum(lanes);
}

static float dot3(const float *a, const float *b, const float *c, int64_t n) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] += a[i + l] * b[i + l] * c[i + l];
    for (int l = 0; i < n; i++, l++)
        lanes[l] += a[i] * b[i] * c[i];
    return lane_sum(lanes);
}

void gyre_rmsnorm_forward(const gyre_rmsnorm *n, const float *x, float *restrict y, float *scale) {
    for (int64_t r = 0; r < n->rows; r++, x += n->dim, y += n->dim) {
        const double mean = (double)dot(x, x, n->dim) / (double)n->dim;
        const float s = (float)(1 / sqrt(mean + n->epsilon));
        scale[r] = s;
        for (int64_t i = 0; i < n->dim; i++)
            y[i] = x[i] * s * n->gain[i];
    }
}

/* With y = x s g and s = (mean x^2 + e)^(-1/2):  dx = s (dy g - x s^2 mean(dy g x)). */
void gyre_rmsnorm_gradient(const gyre_rmsnorm *n, const float *x, const float *scale, const float *dy, float *restrict dx,
                           float *restrict dgain) {
    for (int64_t r = 0; r < n->rows; r++, x += n->dim, dy += n->dim, dx += n->dim) {
        const float s = scale[r];
        const float shared = dot3(dy, n->gain, x, n->dim) / (float)n->dim * s * s;
        for (int64_t i = 0; i < n->dim; i++) {
            dgain[i] += dy[i] * x[i] * s;
            dx[i] += s * (dy[i] * n->gain[i] - x[i] * shared);
        }
    }
}

/* -- exponentials -- */
float gyre_exp_row(const gyre_kernels *kernels, float *x, int64_t n, float shift) {
    const int64_t whole = n / LANES * LANES;
    float sum = 0, rest = 0;
    if (whole) kernels->exp_row_f32(x, whole, shift, &sum);
    if (whole == n) return sum;
    float tail[LANES];
    for (int i = 0; i < LANES; i++)
        tail[i] = whole + i < n ? x[whole + i] : -INFINITY;
    kernels->exp_row_f32(tail, LANES, shift, &rest);
    memcpy(x + whole, tail, (size_t)(n - whole) * sizeof *x);
    return sum + rest;
}

double gyre_cross_entropy(const gyre_kernels *kernels, float *logits, int64_t vocab, int32_t target) {
    float top = logits[0];
    for (int64_t i = 1; i < vocab; i++)
        top = logits[i] > top ? logits[i] : top;
    const double chosen = (double)logits[target] - (double)top;
    const float sum = gyre_exp_row(kernels, logits, vocab, top);
    const float share = 1 / sum;
    for (int64_t i = 0; i < vocab; i++)
        logits[i] *= share;
    return log((double)sum) - chosen;
}

enum { CHUNK = 256 };

/* out[i] = 1 / (1 + exp(-x[i])), through exp(-|x|) so that nothing overflows. */
static void sigmoid(const gyre_kernels *kernels, const float *x, int64_t n, float *restrict out) {
    for (int64_t i = 0; i < n; i++)
        out[i] = -fabsf(x[i]);
    (void)gyre_exp_row(kernels, out, n, 0);
    for (int64_t i = 0; i < n; i++)
        out[i] = (x[i] >= 0 ? 1 : out[i]) / (1 + out[i]);
}

void gyre_swiglu_forward(const gyre_kernels *kernels, int64_t rows, int64_t hidden, const float *gate_up,
                         float *restrict product) {
    float s[CHUNK];
    for (int64_t r = 0; r < rows; r++, gate_up += 2 * hidden, product += hidden)
        for (int64_t from = 0; from < hidden; from += CHUNK) {
            const int64_t n = hidden - from < CHUNK ? hidden - from : CHUNK;
            const float *gate = gate_up + from, *up = gate + hidden;
            sigmoid(kernels, gate, n, s);
            for (int64_t i = 0; i < n; i++)
                product[from + i] = gate[i] * s[i] * up[i];
        }
}

void gyre_swiglu_gradient(const gyre_kernels *kernels, int64_t rows, int64_t hidden, float *gate_up, const float *dproduct) {
    float s[CHUNK];
    for (int64_t r = 0; r < rows; r++, gate_up += 2 * hidden, dproduct += hidden)
        for (int64_t from = 0; from < hidden; from += CHUNK) {
            const int64_t n = hidden - from < CHUNK ? hidden - from : CHUNK;
            float *restrict gate = gate_up + from, *restrict up = gate + hidden;
            const float *d = dproduct + from;
            sigmoid(kernels, gate, n, s);
            for (int64_t i = 0; i < n; i++) {
                const float silu = gate[i] * s[i];
                gate[i] = d[i] * up[i] * s[i] * (1 + gate[i] - silu);
                up[i] = d[i] * silu;
            }
        }
}

/* -- the layer -- */
static const float *layer_weight(const gyre_model *model, int64_t layer, int tensor) {
    return model->weights + gyre_layer_tensor_offset(&model->layout, layer, tensor);
}

void gyre_block_forward_qkv(const gyre_model *model, int64_t layer, const gyre_block *block) {
    const gyre_model_config *c = &model->config;
    const gyre_rmsnorm norm = {layer_weight(model, layer, GYRE_WEIGHT_ATTN_NORM), block->rows, c->model_dim,
                               c->norm_epsilon};
    const gyre_linear qkv = {layer_weight(model, layer, GYRE_WEIGHT_Q), block->rows, c->model_dim, gyre_qkv_dim(c)};
    gyre_rmsnorm_forward(&norm, block->x, block->attn_norm, block->attn_rstd);
    gyre_linear_forward(&qkv, block->attn_norm, 0, block->qkv);
}

void gyre_block_forward_output(const gyre_model *model, int64_t layer, const gyre_block *block, float *out) {
    const gyre_model_config *c = &model->config;
    const size_t bytes = (size_t)(block->rows * c->model_dim) * sizeof(float);
    const gyre_linear o = {layer_weight(model, layer, GYRE_WEIGHT_O), block->rows, c->heads * c->head_dim, c->model_dim};
    const gyre_rmsnorm norm = {layer_weight(model, layer, GYRE_WEIGHT_MLP_NORM), block->rows, c->model_dim, c->norm_epsilon};
    const gyre_linear gate_up = {layer_weight(model, layer, GYRE_WEIGHT_GATE), block->rows, c->model_dim, 2 * c->mlp_dim};
    const gyre_linear down = {layer_weight(model, layer, GYRE_WEIGHT_DOWN), block->rows, c->mlp_dim, c->model_dim};
    memcpy(block->attn_residual, block->x, bytes);
    gyre_linear_forward(&o, block->attn_out, 1, block->attn_residual);
    gyre_rmsnorm_forward(&norm, block->attn_residual, block->mlp_norm, block->mlp_rstd);
    gyre_linear_forward(&gate_up, block->mlp_norm, 0, block->gate_up);
    gyre_swiglu_forward(model->encoding->kernels, block->rows, c->mlp_dim, block->gate_up, block->mlp_act);
    memcpy(out, block->attn_residual, bytes);
    gyre_linear_forward(&down, block->mlp_act, 1, out);
}

/* -- the input -- */
/* The input table as it lies in the weights; that of another encoding has the same shape, or there is none. */
static gyre_tables input_tables(const gyre_model *model) {
    const gyre_tensor_spec *part = &model->layout.input;
    float *data = part->name ? model->weights + part->offset : NULL;
    return (gyre_tables){.input = gyre_cdense(data, GYRE_DTYPE_F32, 1, 1, part->shape[0], part->shape[1])};
}

gyre_status gyre_embed(const gyre_model *model, const gyre_encoding *encoding, const int32_t *tokens, int64_t sequences,
                       int64_t per_sequence, int64_t first, float *x) {
    const int64_t model_dim = model->config.model_dim;
    for (int64_t i = 0; i < sequences * per_sequence; i++)
        memcpy(x + i * model_dim, model->weights + tokens[i] * model_dim, (size_t)model_dim * sizeof *x);
    if (!(gyre_encoding_places(encoding) & GYRE_PLACE_INPUT)) return GYRE_OK;
    const gyre_tables tables = input_tables(model);
    const gyre_positions positions = {.base = first};
    const gyre_view view = gyre_dense(x, GYRE_DTYPE_F32, sequences, per_sequence, 1, model_dim);
    const gyre_cview in = gyre_const(view);
    return gyre_add_input(encoding, &tables, &positions, &in, &view, NULL, NULL);
}
