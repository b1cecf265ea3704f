/* layers.h: the parts of a decoder layer, forward and gradient, over blocks of rows (tokens).
 *
 * Matrix products are single-threaded BLAS calls: the caller splits the work, so the bits do not depend on the threads.
 * Rows are dense.  Everything is float; sums over channels run in sixteen fixed lanes. */
#ifndef GYRE_MODEL_LAYERS_H
#define GYRE_MODEL_LAYERS_H
#include "model/model.h"

/* What one layer computes for `rows` tokens, kept for the gradient. */
typedef struct gyre_block {
    int64_t rows;
    float *x;                     /* [rows][width] entering */
    float *attn_norm, *attn_rstd; /* [rows][width], [rows]: normalised x and 1 / rms */
    float *qkv;                   /* [rows][query, key and value heads][head_dim] */
    float *attn_out, *lse;        /* [rows][heads][head_dim], [rows][heads]: attention's out and log-sum-exp */
    float *attn_residual;         /* [rows][width] after attention */
    float *mlp_norm, *mlp_rstd;   /* of mid */
    float *gate_up, *mlp_act;     /* [rows][2 hidden], [rows][hidden]: silu(gate) up */
} gyre_block;

/* Floats of one block, and its pointers laid out in `memory` (64-byte aligned parts). */
int64_t gyre_block_floats(const gyre_model_config *config, int64_t rows);
void gyre_block_assign_buffers(gyre_block *block, const gyre_model_config *config, int64_t rows, float *memory);

/* Channels of one row of qkv. */
int64_t gyre_qkv_dim(const gyre_model_config *config);

/* block->qkv = W_qkv rmsnorm(block->x). */
void gyre_block_forward_qkv(const gyre_model *model, int64_t layer, const gyre_block *block);
/* out = mid + W_down swiglu(W_gate_up rmsnorm(mid)), mid = x + W_o mixed.  out may be block->x. */
void gyre_block_forward_output(const gyre_model *model, int64_t layer, const gyre_block *block, float *out);

/* The views of q, k and v inside block->qkv as [batch, rows / batch, heads, head_dim]. */
void gyre_block_qkv_views(const gyre_model_config *config, float *qkv, int64_t rows, int64_t batch, gyre_view views[3]);

/* y[rows][out] = x[rows][in] w^T + beta y, w [out][in]. */
typedef struct gyre_linear {
    const float *w;
    int64_t rows, in, out;
} gyre_linear;
void gyre_linear_forward(const gyre_linear *l, const float *x, float beta, float *y);
/* dx = dy w + beta dx;  dw += dy^T x. */
void gyre_linear_input_gradient(const gyre_linear *l, const float *dy, float beta, float *dx);
void gyre_linear_weight_gradient(const gyre_linear *l, const float *x, const float *dy, float *dw);

/* y = x * scale * gain by row, scale = 1 / sqrt(mean(x^2) + epsilon). */
typedef struct gyre_rmsnorm {
    const float *gain;
    int64_t rows, dim;
    double epsilon;
} gyre_rmsnorm;
void gyre_rmsnorm_forward(const gyre_rmsnorm *n, const float *x, float *y, float *scale);
/* dx += gradient to x; dgain += gradient to the gain.  scale: as the forward pass wrote it. */
void gyre_rmsnorm_gradient(const gyre_rmsnorm *n, const float *x, const float *scale, const float *dy, float *dx,
                           float *dgain);

/* product[i] = silu(gate[i]) up[i], gate_up row = gate, then up. */
void gyre_swiglu_forward(const gyre_kernels *kernels, int64_t rows, int64_t hidden, const float *gate_up, float *product);
/* gate_up is replaced by its gradient. */
void gyre_swiglu_gradient(const gyre_kernels *kernels, int64_t rows, int64_t hidden, float *gate_up, const float *dproduct);

/* out = sum over i < n of exp(x[i] - shift); x[i] = that exp.  Any n. */
float gyre_exp_row(const gyre_kernels *kernels, float *x, int64_t n, float shift);
/* out = -log softmax(logits)[target]; logits is replaced by softmax(logits). */
double gyre_cross_entropy(const gyre_kernels *kernels, float *logits, int64_t vocab, int32_t target);

/* x[i] = embedding[token i] + p(first + i % per_sequence); `sequences` of `per_sequence` tokens each. */
gyre_status gyre_embed(const gyre_model *model, const gyre_encoding *encoding, const int32_t *tokens, int64_t sequences,
                       int64_t per_sequence, int64_t first, float *x);

/* One thread for OpenBLAS, whose own split of a product would change the bits. */
void gyre_blas_single_thread(void);
/* 64-byte aligned floats, zeroed; NULL if there is no memory.  Freed by free(). */
float *gyre_alloc_floats(int64_t count);

#endif
