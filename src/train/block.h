/* block.h: one decoder layer in training.  Its forward pass stores what the gradient needs.
 *
 *     qkv           = W_qkv rmsnorm(x)                        gyre_block_forward_qkv
 *                     rotates_input: q and k of E rmsnorm(x)
 *                     a part that makes q and k (architecture/head_part.h): in place, or in rotated_qk
 *     gate_sums     = running sums of log sigmoid(W_f rmsnorm(x) + b_f)
 *     attn_out      = attention(qkv, gate_sums)               gyre_attention, called by backprop.c, or
 *                                                             gyre_own_attention_run
 *     attn_residual = x + W_o attn_out                        gyre_block_forward_output
 *     out           = attn_residual + W_down swiglu(W_gate_up rmsnorm(attn_residual)) */
#ifndef GYRE_TRAIN_BLOCK_H
#define GYRE_TRAIN_BLOCK_H
#include "model/model.h"
#include "model/ops/linear.h"

/* The activations of one layer for `rows` tokens. */
typedef struct gyre_block {
    int64_t rows;
    gyre_positions positions;     /* of the tokens of each sequence */
    float *x;                     /* [rows][model_dim] input */
    float *attn_norm, *attn_rstd; /* [rows][model_dim], [rows]: normalized x and 1 / rms */
    float *qkv;                   /* [rows][qkv_dim] */
    float *rotated;               /* [rows][model_dim] attn_norm, rotated; with rotates_input alone */
    float *rotated_qk;            /* [rows][gyre_rotated_qk_dim] q and k as attention takes them, if not in place */
    double *part_kept;            /* [rows][kept] what tokens keep of the part that makes q and k */
    float *gates;                 /* [rows][heads] what forget gates are the sigmoid of; in models that have them */
    double *gate_sums;            /* [rows][heads] running sums of their logarithms, from 0 in each sequence */
    float *attn_out, *lse;        /* [rows][heads][head_dim], [rows][heads]: attention's output and log-sum-exp */
    float *attn_residual;         /* [rows][model_dim] */
    float *mlp_norm, *mlp_rstd;   /* [rows][model_dim], [rows]: normalized attn_residual and 1 / rms */
    float *gate_up, *mlp_act;     /* [rows][2 mlp_dim], [rows][mlp_dim]: silu(gate) * up */
} gyre_block;

/* out = floats that the buffers of one block need. */
int64_t gyre_block_floats(const gyre_model *model, int64_t rows);
/* Points the buffers of a block into `memory`, each 64-byte aligned. */
void gyre_block_assign_buffers(gyre_block *block, const gyre_model *model, int64_t rows, float *memory);

/* The weights of a layer, as maps of `rows` rows. */
typedef struct gyre_block_weights {
    gyre_norm_weights attn_norm, mlp_norm;
    gyre_linear qkv, o, gate_up, down, forget_gate; /* forget_gate.out = 0: none */
    const float *forget_gate_bias;
    gyre_trained_heads trained; /* data NULL = none */
} gyre_block_weights;
gyre_block_weights gyre_block_weights_of(const gyre_model *model, int64_t layer, int64_t rows);

/* out = arguments of an RMSNorm of the model over `rows` rows.  weights is borrowed. */
gyre_norm_args gyre_model_norm_args(const gyre_model *model, const gyre_norm_weights *weights, int64_t rows);

/* block->qkv from block->x, of `sequences` sequences.  Overwrites attn_out.  Errors: those of gyre_rotate. */
gyre_status gyre_block_forward_qkv(const gyre_model *model, const gyre_linear_work *work, const gyre_part_work *part,
                                   int64_t layer, const gyre_block *block, int64_t sequences, gyre_error *err);
/* out = the map of the values alone, the last rows of qkv. */
gyre_linear gyre_block_value_map(const gyre_model_config *config, const gyre_linear *qkv);
/* x[rows][model_dim] rotated by the model's rotation, forward, or from a gradient (ADJOINT).  in: as x, or x.  block: its
 * rows and positions are read. */
gyre_status gyre_block_rotate_input(const gyre_model *model, gyre_direction direction, const gyre_block *block,
                                    int64_t sequences, const float *in, float *x, gyre_error *err);
/* out[rows][model_dim] from block->x and block->attn_out.  out may be block->x. */
void gyre_block_forward_output(const gyre_model *model, const gyre_linear_work *work, int64_t layer, const gyre_block *block,
                               float *out);

/* out = channels of a row of qkv: those of all query, key and value heads. */
int64_t gyre_qkv_dim(const gyre_model_config *config);
/* out = floats of a row of queries and keys as attention takes them; 0 = they are those of the projections, in place. */
static inline int64_t gyre_rotated_qk_dim(const gyre_model_config *config) {
    const gyre_head_part *part = gyre_head_part_of(config->layer_parts);
    return gyre_head_part_resizes(part) || (part && part->reads_in)
               ? (config->heads + config->kv_heads) * gyre_rotated_head_dim(config)
               : 0;
}
/* views = q and k inside rotated_qk, each [batch, rows / batch, heads, gyre_rotated_head_dim]. */
void gyre_block_rotated_views(const gyre_model_config *config, float *rotated_qk, int64_t rows, int64_t batch,
                              gyre_view views[2]);
/* 1: the layers have forget gates. */
static inline int gyre_forgets(const gyre_model_config *config) {
    return (config->layer_parts & GYRE_LAYER_PART_FORGET_GATES) != 0;
}
/* out = gate sums, or gradients to them, [batch, rows / batch, heads, 1]. */
gyre_view gyre_block_gate_view(const gyre_model_config *config, double *sums, int64_t rows, int64_t batch);

/* out = q and k of the projections and of attention, in qkv and rotated_qk or in memory shaped like them; x and kept are
 * the caller's. */
gyre_head_views gyre_block_head_views(const gyre_model_config *config, float *qkv, float *rotated_qk, int64_t rows,
                                      int64_t batch);

/* Sets x and kept of `heads`, those of the block. */
void gyre_block_part_views(const gyre_trained_heads *t, const gyre_block *block, int64_t sequences, gyre_head_views *heads);

/* views = q, k and v inside qkv, each [batch, rows / batch, heads, head_dim], q gyre_query_dim. */
void gyre_block_qkv_views(const gyre_model_config *config, float *qkv, int64_t rows, int64_t batch, gyre_view views[3]);

#endif
