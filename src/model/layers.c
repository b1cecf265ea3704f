#include "model/layers.h"
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16 };

void gyre_blas_single_thread(void) {
    openblas_set_num_threads(1);
}

float *gyre_floats(int64_t count) {
    if (count < 0 || (uint64_t)count > SIZE_MAX / sizeof(float) - 64) return NULL;
    size_t bytes = ((size_t)count * sizeof(float) + 63) / 64 * 64;
    float *memory = aligned_alloc(64, bytes ? bytes : 64);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

/* -- layout ------------------------------------------------------------------------------------------------------ */
int64_t gyre_qkv_width(const gyre_model_config *config) {
    return (config->heads + 2 * config->kv_heads) * config->head_dim;
}

enum { BLOCK_PARTS = 11 };

static void block_sizes(const gyre_model_config *c, int64_t rows, int64_t sizes[BLOCK_PARTS]) {
    const int64_t per_row[BLOCK_PARTS] = {
        c->width, c->width,      1,        gyre_qkv_width(c), c->heads * c->head_dim, c->heads, c->width, c->width,
        1,        2 * c->hidden, c->hidden};
    for (int i = 0; i < BLOCK_PARTS; i++)
        sizes[i] = (per_row[i] * rows + LANES - 1) / LANES * LANES;
}

int64_t gyre_block_floats(const gyre_model_config *config, int64_t rows) {
    int64_t sizes[BLOCK_PARTS], sum = 0;
    block_sizes(config, rows, sizes);
    for (int i = 0; i < BLOCK_PARTS; i++)
        sum += sizes[i];
    return sum;
}

void gyre_block_carve(gyre_block *block, const gyre_model_config *config, int64_t rows, float *memory) {
    int64_t sizes[BLOCK_PARTS];
    block_sizes(config, rows, sizes);
    float **parts[BLOCK_PARTS] = {&block->x,   &block->norm1, &block->scale1, &block->qkv,     &block->mixed,  &block->lse,
                                  &block->mid, &block->norm2, &block->scale2, &block->gate_up, &block->product};
    block->rows = rows;
    for (int i = 0; i < BLOCK_PARTS; i++) {
        *parts[i] = memory;
        memory += sizes[i];
    }
}

void gyre_block_views(const gyre_model_config *config, float *qkv, int64_t rows, int64_t batch, gyre_view views[3]) {
    const int64_t heads[3] = {config->heads, config->kv_heads, config->kv_heads};
    const int64_t width = gyre_qkv_width(config);
    for (int i = 0; i < 3; i++) {
        views[i] = gyre_dense(qkv, GYRE_F32, batch, rows / batch, heads[i], config->head_dim);
        views[i].stride[0] = rows / batch * width;
        views[i].stride[1] = width;
        qkv += heads[i] * config->head_dim;
    }
}

/* -- products ---------------------------------------------------------------------------------------------------- */
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

/* -- RMSNorm ------------------------------------------------------------------------------------------------------ */
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

void gyre_norm_forward(const gyre_norm *n, const float *x, float *restrict y, float *scale) {
    for (int64_t r = 0; r < n->rows; r++, x += n->width, y += n->width) {
        const double mean = (double)dot(x, x, n->width) / (double)n->width;
        const float s = (float)(1 / sqrt(mean + n->epsilon));
        scale[r] = s;
        for (int64_t i = 0; i < n->width; i++)
            y[i] = x[i] * s * n->gain[i];
    }
}

/* With y = x s g and s = (mean x^2 + e)^(-1/2):  dx = s (dy g - x s^2 mean(dy g x)). */
void gyre_norm_gradient(const gyre_norm *n, const float *x, const float *scale, const float *dy, float *restrict dx,
                        float *restrict dgain) {
    for (int64_t r = 0; r < n->rows; r++, x += n->width, dy += n->width, dx += n->width) {
        const float s = scale[r];
        const float shared = dot3(dy, n->gain, x, n->width) / (float)n->width * s * s;
        for (int64_t i = 0; i < n->width; i++) {
            dgain[i] += dy[i] * x[i] * s;
            dx[i] += s * (dy[i] * n->gain[i] - x[i] * shared);
        }
    }
}

/* -- exponentials ---------------------------------------------------------------------------------------------------- */
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

/* -- the layer -----------------------------------------------------------------------------------------------------------
 */
static const float *weight(const gyre_model *model, int64_t layer, int tensor) {
    return model->weights + gyre_layer_offset(&model->layout, layer, tensor);
}

void gyre_block_begin(const gyre_model *model, int64_t layer, const gyre_block *block) {
    const gyre_model_config *c = &model->config;
    const gyre_norm norm = {weight(model, layer, GYRE_NORM1), block->rows, c->width, c->norm_epsilon};
    const gyre_linear qkv = {weight(model, layer, GYRE_Q), block->rows, c->width, gyre_qkv_width(c)};
    gyre_norm_forward(&norm, block->x, block->norm1, block->scale1);
    gyre_linear_forward(&qkv, block->norm1, 0, block->qkv);
}

void gyre_block_end(const gyre_model *model, int64_t layer, const gyre_block *block, float *out) {
    const gyre_model_config *c = &model->config;
    const size_t bytes = (size_t)(block->rows * c->width) * sizeof(float);
    const gyre_linear o = {weight(model, layer, GYRE_O), block->rows, c->heads * c->head_dim, c->width};
    const gyre_norm norm = {weight(model, layer, GYRE_NORM2), block->rows, c->width, c->norm_epsilon};
    const gyre_linear gate_up = {weight(model, layer, GYRE_GATE), block->rows, c->width, 2 * c->hidden};
    const gyre_linear down = {weight(model, layer, GYRE_DOWN), block->rows, c->hidden, c->width};
    memcpy(block->mid, block->x, bytes);
    gyre_linear_forward(&o, block->mixed, 1, block->mid);
    gyre_norm_forward(&norm, block->mid, block->norm2, block->scale2);
    gyre_linear_forward(&gate_up, block->norm2, 0, block->gate_up);
    gyre_swiglu_forward(model->encoding->kernels, block->rows, c->hidden, block->gate_up, block->product);
    memcpy(out, block->mid, bytes);
    gyre_linear_forward(&down, block->product, 1, out);
}

/* -- the input
 * -------------------------------------------------------------------------------------------------------------- */
/* The input table as it lies in the weights; that of another encoding has the same shape, or there is none. */
static gyre_tables input_tables(const gyre_model *model) {
    const gyre_part *part = &model->layout.input;
    float *data = part->name ? model->weights + part->offset : NULL;
    return (gyre_tables){.input = gyre_cdense(data, GYRE_F32, 1, 1, part->shape[0], part->shape[1])};
}

gyre_status gyre_embed(const gyre_model *model, const gyre_encoding *encoding, const int32_t *tokens, int64_t sequences,
                       int64_t per_sequence, int64_t first, float *x) {
    const int64_t width = model->config.width;
    for (int64_t i = 0; i < sequences * per_sequence; i++)
        memcpy(x + i * width, model->weights + tokens[i] * width, (size_t)width * sizeof *x);
    if (!(gyre_encoding_places(encoding) & GYRE_AT_INPUT)) return GYRE_OK;
    const gyre_tables tables = input_tables(model);
    const gyre_positions positions = {.base = first};
    const gyre_view view = gyre_dense(x, GYRE_F32, sequences, per_sequence, 1, width);
    const gyre_cview in = gyre_const(view);
    return gyre_add(encoding, &tables, &positions, &in, &view, NULL);
}
