/* forward_pass.c: the layers of a decoder, whatever its family: one pass over some tokens of a sequence. */
#include "model/context.h"

#include "model/elementwise.h"
#include "model/layers.h"

#include <string.h>

/* -- the input -- */
static void normalize(const gyre_context *x, const gyre_norm_weights *norm, int64_t rows, const float *in, float *out) {
    const gyre_architecture *a = &x->net->arch;
    const gyre_norm_args job = {a->norm, norm, a->norm_epsilon, rows, a->model_dim};
    gyre_normalize_rows(&job, in, out, a->model_dim);
}

gyre_status gyre_context_embed(gyre_context *x, const int32_t *tokens, int64_t rows) {
    const gyre_network *n = x->net;
    const int64_t model_dim = n->arch.model_dim;
    const float scale = (float)n->arch.embed_scale;
    for (int64_t i = 0; i < rows; i++) {
        float *row = x->buffers.x + i * model_dim;
        gyre_matrix_row(&n->embedding.w, x->kernels, tokens[i], row);
        for (int64_t c = 0; scale != 1 && c < model_dim; c++)
            row[c] *= scale;
    }
    if (n->embed_norm.gain) normalize(x, &n->embed_norm, rows, x->buffers.x, x->buffers.x);
    if (!(gyre_encoding_places(x->encoding) & GYRE_PLACE_INPUT)) return GYRE_OK;
    const gyre_tables tables = {.input = n->input};
    const gyre_positions positions = {.base = x->cached};
    const gyre_view view = gyre_dense(x->buffers.x, GYRE_DTYPE_F32, 1, rows, 1, model_dim);
    const gyre_cview in = gyre_const(view);
    return gyre_add_input(x->encoding, &tables, &positions, &in, &view, NULL, NULL);
}

/* -- products -- */
typedef struct row_block {
    const float *x;
    int64_t rows;
} row_block;

static gyre_gemm gemm_of(const gyre_affine *map, row_block in, float *y, int64_t y_row_stride, int add) {
    return (gyre_gemm){&map->w, map->bias, in.x, y, in.rows, map->w.in, y_row_stride, add};
}

static void linear(const gyre_context *x, const gyre_affine *map, row_block in, float *y, int64_t y_row_stride, int add) {
    const gyre_gemm product = gemm_of(map, in, y, y_row_stride, add);
    gyre_gemm_run(&product, x->kernels, x->buffers.gemm_scratch, x->exec);
}

/* Maps, at most three, one after another in a row of y: threads are woken once for all. */
static void linears_side_by_side(const gyre_context *x, const gyre_affine *maps, int count, row_block in, float *y,
                                 int64_t y_row_stride) {
    gyre_gemm products[3];
    int n = 0;
    for (; n < count && maps[n].w.out > 0; n++) {
        products[n] = gemm_of(&maps[n], in, y, y_row_stride, 0);
        y += maps[n].w.out;
    }
    gyre_gemm_run_many(products, n, x->kernels, x->buffers.gemm_scratch, x->exec);
}

/* -- query, key, value -- */
static void clamp(float *x, int64_t n, float most) {
    for (int64_t i = 0; i < n; i++)
        x[i] = x[i] > most ? most : x[i] < -most ? -most : x[i];
}

static void normalize_heads(const gyre_context *x, const gyre_norm_weights *norm, const gyre_head_layout *heads,
                            int64_t rows) {
    const gyre_architecture *a = &x->net->arch;
    if (!norm->gain) return;
    const int whole = norm->dim != a->head_dim;
    const gyre_norm_args job = {a->norm, norm, a->norm_epsilon, whole ? 1 : heads->count, heads->stride};
    for (int64_t r = 0; r < rows; r++) {
        float *row = x->buffers.qkv + r * x->qkv_dim + heads->offset;
        gyre_normalize_rows(&job, row, row, heads->stride);
    }
}

static gyre_view heads_view(const gyre_context *x, const gyre_head_layout *heads, int64_t rows) {
    gyre_view view =
        gyre_dense(x->buffers.qkv + heads->offset, GYRE_DTYPE_F32, 1, rows, heads->count, x->net->arch.head_dim);
    view.stride[0] = rows * x->qkv_dim;
    view.stride[1] = x->qkv_dim;
    view.stride[2] = heads->stride;
    return view;
}

gyre_attention_args gyre_context_attention_args(const gyre_context *x, int64_t layer, int64_t rows, int64_t tokens) {
    const gyre_architecture *a = &x->net->arch;
    const int group = x->net->layer[layer].group;
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.encoding = gyre_context_encoding(x, group);
    args.tables = x->tables.layer ? &x->tables.layer[layer] : NULL;
    args.q = gyre_const(heads_view(x, &x->net->q, rows));
    args.q_pos.base = tokens - rows;
    args.q_pos.context_length = x->net->group[group].shares_main ? x->length : 0;
    args.scale = x->net->group[group].scale;
    args.window = x->net->group[group].window;
    args.softcap = a->attn_softcap;
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.out = gyre_dense(x->buffers.attn_out, GYRE_DTYPE_F32, 1, rows, a->heads, a->head_dim);
    return args;
}

static gyre_status attention_block(gyre_context *x, int64_t layer, int64_t rows, int wanted) {
    const gyre_network_layer *l = &x->net->layer[layer];
    const gyre_positions positions = {.base = x->cached};
    const int64_t only = 0;
    const gyre_cview k = gyre_const(heads_view(x, &x->net->k, rows)), v = gyre_const(heads_view(x, &x->net->v, rows));
    linears_side_by_side(x, l->qkv, 3, (row_block){x->buffers.norm, rows}, x->buffers.qkv, x->qkv_dim);
    if (x->net->arch.clip_qkv > 0) clamp(x->buffers.qkv, rows * x->qkv_dim, (float)x->net->arch.clip_qkv);
    normalize_heads(x, &l->query_norm, &x->net->q, rows);
    normalize_heads(x, &l->key_norm, &x->net->k, rows);
    const gyre_status status = gyre_cache_append(x->cache[layer], 0, &k, &v, &positions, x->exec, NULL);
    if (status || !wanted) return status;
    const gyre_attention_args args = gyre_context_attention_args(x, layer, rows, x->cached + rows);
    return gyre_cache_attention(x->cache[layer], &only, &args, x->buffers.attn_scratch, x->buffers.attn_scratch_bytes,
                                x->exec, NULL);
}

/* -- a block's output, added to x -- */
static void add_to_residual(const gyre_context *x, const gyre_affine *map, const gyre_norm_weights *post, row_block in) {
    const gyre_architecture *a = &x->net->arch;
    const float scale = (float)a->residual_scale;
    if (!post->gain && scale == 1) {
        linear(x, map, in, x->buffers.x, a->model_dim, 1);
        return;
    }
    linear(x, map, in, x->buffers.block_out, a->model_dim, 0);
    if (post->gain) normalize(x, post, in.rows, x->buffers.block_out, x->buffers.block_out);
    for (int64_t i = 0; i < in.rows * a->model_dim; i++)
        x->buffers.x[i] += scale * x->buffers.block_out[i];
}

typedef struct activation_job {
    const gyre_context *x;
    int64_t rows;
} activation_job;

enum { ACTIVATION_ROWS = 32 };

static void activate_rows(void *arg, int64_t i) {
    const activation_job *job = arg;
    const gyre_architecture *a = &job->x->net->arch;
    const int64_t first = i * ACTIVATION_ROWS, left = job->rows - first, up_width = (a->gated ? 2 : 1) * a->mlp_dim;
    gyre_activate(job->x->kernels, a->activation, a->gated, left < ACTIVATION_ROWS ? left : ACTIVATION_ROWS, a->mlp_dim,
                  job->x->buffers.gate_up + first * up_width, job->x->buffers.mlp_act + first * a->mlp_dim);
}

static void mlp_block(gyre_context *x, const gyre_network_layer *l, int64_t rows) {
    const gyre_architecture *a = &x->net->arch;
    const int64_t pieces = (rows + ACTIVATION_ROWS - 1) / ACTIVATION_ROWS;
    activation_job job = {x, rows};
    linears_side_by_side(x, l->gate_up, 2, (row_block){x->buffers.norm, rows}, x->buffers.gate_up,
                         (a->gated ? 2 : 1) * a->mlp_dim);
    if (x->exec && pieces > 1)
        x->exec->run(x->exec->ctx, activate_rows, &job, pieces);
    else
        for (int64_t i = 0; i < pieces; i++)
            activate_rows(&job, i);
    add_to_residual(x, &l->down, &l->post_mlp_norm, (row_block){x->buffers.mlp_act, rows});
}

/* x as a block reads it: normalised, or as it is where norms come after. */
static void pre_norm(gyre_context *x, const gyre_norm_weights *norm, int64_t rows) {
    if (norm->gain)
        normalize(x, norm, rows, x->buffers.x, x->buffers.norm);
    else
        memcpy(x->buffers.norm, x->buffers.x, (size_t)(rows * x->net->arch.model_dim) * sizeof(float));
}

/* Both blocks read what entered: the perceptron's norm, where it has its own, is taken before attention's output is
 * added. */
static void parallel_residual_blocks(gyre_context *x, const gyre_network_layer *l, int64_t rows) {
    if (l->mlp_norm.gain) pre_norm(x, &l->mlp_norm, rows);
    add_to_residual(x, &l->o, &l->post_attn_norm, (row_block){x->buffers.attn_out, rows});
    mlp_block(x, l, rows);
}

gyre_status gyre_context_forward_layers(gyre_context *x, int64_t rows, int wanted) {
    const int64_t layers = x->net->arch.layers;
    for (int64_t i = 0; i < layers; i++) {
        const gyre_network_layer *l = &x->net->layer[i];
        const int last = i + 1 == layers && !wanted;
        pre_norm(x, &l->attn_norm, rows);
        const gyre_status status = attention_block(x, i, rows, !last);
        if (status || last) return status;
        if (x->net->arch.parallel_residual) {
            parallel_residual_blocks(x, l, rows);
            continue;
        }
        add_to_residual(x, &l->o, &l->post_attn_norm, (row_block){x->buffers.attn_out, rows});
        pre_norm(x, &l->mlp_norm, rows);
        mlp_block(x, l, rows);
    }
    return GYRE_OK;
}

/* -- the output -- */
void gyre_context_logits(gyre_context *x, int64_t rows, int64_t wanted, float *logits) {
    const gyre_architecture *a = &x->net->arch;
    const float scale = (float)a->logit_scale;
    normalize(x, &x->net->final_norm, wanted, x->buffers.x + (rows - wanted) * a->model_dim, x->buffers.norm);
    linear(x, &x->net->lm_head, (row_block){x->buffers.norm, wanted}, logits, a->vocab, 0);
    for (int64_t i = 0; scale != 1 && i < wanted * a->vocab; i++)
        logits[i] *= scale;
    if (a->logit_softcap > 0) gyre_softcap(x->kernels, logits, wanted * a->vocab, a->logit_softcap);
}
