/* forward_pass.c: the layers of a decoder, whatever its family: one pass over some tokens of a sequence. */
#include "model/context.h"

#include "model/elementwise.h"
#include "model/layers.h"

#include <string.h>

/* -- the input -----------------------------------------------------------------------------------------------------------
 */
static void norm_rows(const gyre_context *x, const gyre_gain *norm, int64_t rows, const float *in, float *out) {
    const gyre_architecture *a = &x->net->arch;
    const gyre_norm_rows job = {a->norm, norm, a->norm_epsilon, rows, a->width};
    gyre_norm_rows_run(&job, in, out, a->width);
}

gyre_status gyre_context_embed(gyre_context *x, const int32_t *tokens, int64_t rows) {
    const gyre_network *n = x->net;
    const int64_t width = n->arch.width;
    const float scale = (float)n->arch.embed_scale;
    for (int64_t i = 0; i < rows; i++) {
        float *row = x->pass.x + i * width;
        gyre_matrix_row(&n->embedding.w, x->kernels, tokens[i], row);
        for (int64_t c = 0; scale != 1 && c < width; c++)
            row[c] *= scale;
    }
    if (n->embed_norm.gain) norm_rows(x, &n->embed_norm, rows, x->pass.x, x->pass.x);
    if (!(gyre_encoding_places(x->encoding) & GYRE_AT_INPUT)) return GYRE_OK;
    const gyre_tables tables = {.input = n->input};
    const gyre_positions positions = {.base = x->held};
    const gyre_view view = gyre_dense(x->pass.x, GYRE_F32, 1, rows, 1, width);
    const gyre_cview in = gyre_const(view);
    return gyre_add(x->encoding, &tables, &positions, &in, &view, NULL);
}

/* -- products ------------------------------------------------------------------------------------------------------------
 */
typedef struct rows_of {
    const float *x;
    int64_t rows;
} rows_of;

static gyre_product product_of(const gyre_affine *map, rows_of in, float *y, int64_t y_row, int add) {
    return (gyre_product){&map->w, map->bias, in.x, y, in.rows, map->w.in, y_row, add};
}

static void multiply(const gyre_context *x, const gyre_affine *map, rows_of in, float *y, int64_t y_row, int add) {
    const gyre_product product = product_of(map, in, y, y_row, add);
    gyre_product_run(&product, x->kernels, x->pass.products, x->exec);
}

/* Maps, at most three, one after another in a row of y: threads are woken once for all. */
static void multiply_beside(const gyre_context *x, const gyre_affine *maps, int count, rows_of in, float *y, int64_t y_row) {
    gyre_product products[3];
    int n = 0;
    for (; n < count && maps[n].w.out > 0; n++) {
        products[n] = product_of(&maps[n], in, y, y_row, 0);
        y += maps[n].w.out;
    }
    gyre_products_run(products, n, x->kernels, x->pass.products, x->exec);
}

/* -- query, key, value ---------------------------------------------------------------------------------------------------
 */
static void clip(float *x, int64_t n, float most) {
    for (int64_t i = 0; i < n; i++)
        x[i] = x[i] > most ? most : x[i] < -most ? -most : x[i];
}

static void norm_heads(const gyre_context *x, const gyre_gain *norm, const gyre_heads *heads, int64_t rows) {
    const gyre_architecture *a = &x->net->arch;
    if (!norm->gain) return;
    const int whole = norm->width != a->head_dim;
    const gyre_norm_rows job = {a->norm, norm, a->norm_epsilon, whole ? 1 : heads->count, heads->step};
    for (int64_t r = 0; r < rows; r++) {
        float *row = x->pass.qkv + r * x->qkv_width + heads->first;
        gyre_norm_rows_run(&job, row, row, heads->step);
    }
}

static gyre_view view_of(const gyre_context *x, const gyre_heads *heads, int64_t rows) {
    gyre_view view = gyre_dense(x->pass.qkv + heads->first, GYRE_F32, 1, rows, heads->count, x->net->arch.head_dim);
    view.stride[0] = rows * x->qkv_width;
    view.stride[1] = x->qkv_width;
    view.stride[2] = heads->step;
    return view;
}

gyre_attention_args gyre_context_attention_args(const gyre_context *x, int64_t layer, int64_t rows, int64_t tokens) {
    const gyre_architecture *a = &x->net->arch;
    const int group = x->net->layer[layer].group;
    gyre_attention_args args = GYRE_ATTENTION_INIT;
    args.encoding = gyre_context_encoding(x, group);
    args.tables = x->tables.layer ? &x->tables.layer[layer] : NULL;
    args.q = gyre_const(view_of(x, &x->net->q, rows));
    args.q_pos.base = tokens - rows;
    args.q_pos.length = x->net->group[group].shares ? x->length : 0;
    args.scale = x->net->group[group].scale;
    args.window = x->net->group[group].window;
    args.softcap = a->score_cap;
    args.causal = 1;
    args.out = gyre_dense(x->pass.mixed, GYRE_F32, 1, rows, a->heads, a->head_dim);
    return args;
}

static gyre_status attend(gyre_context *x, int64_t layer, int64_t rows, int wanted) {
    const gyre_network_layer *l = &x->net->layer[layer];
    const gyre_positions positions = {.base = x->held};
    const int64_t only = 0;
    const gyre_cview k = gyre_const(view_of(x, &x->net->k, rows)), v = gyre_const(view_of(x, &x->net->v, rows));
    multiply_beside(x, l->qkv, 3, (rows_of){x->pass.norm, rows}, x->pass.qkv, x->qkv_width);
    if (x->net->arch.clip_qkv > 0) clip(x->pass.qkv, rows * x->qkv_width, (float)x->net->arch.clip_qkv);
    norm_heads(x, &l->query_norm, &x->net->q, rows);
    norm_heads(x, &l->key_norm, &x->net->k, rows);
    const gyre_status status = gyre_cache_append(x->cache[layer], 0, &k, &v, &positions, x->exec);
    if (status || !wanted) return status;
    const gyre_attention_args args = gyre_context_attention_args(x, layer, rows, x->held + rows);
    return gyre_cache_attention(x->cache[layer], &only, &args, x->pass.attention, x->pass.attention_bytes, x->exec);
}

/* -- a block's output, added to x ------------------------------------------------------------------------------------------
 */
static void add_block(const gyre_context *x, const gyre_affine *map, const gyre_gain *post, rows_of in) {
    const gyre_architecture *a = &x->net->arch;
    const float scale = (float)a->residual_scale;
    if (!post->gain && scale == 1) {
        multiply(x, map, in, x->pass.x, a->width, 1);
        return;
    }
    multiply(x, map, in, x->pass.branch, a->width, 0);
    if (post->gain) norm_rows(x, post, in.rows, x->pass.branch, x->pass.branch);
    for (int64_t i = 0; i < in.rows * a->width; i++)
        x->pass.x[i] += scale * x->pass.branch[i];
}

typedef struct activation {
    const gyre_context *x;
    int64_t rows;
} activation;

enum { ACTIVATED_ROWS = 32 };

static void activate_rows(void *arg, int64_t i) {
    const activation *job = arg;
    const gyre_architecture *a = &job->x->net->arch;
    const int64_t first = i * ACTIVATED_ROWS, left = job->rows - first, up_width = (a->gated ? 2 : 1) * a->hidden;
    gyre_activate(job->x->kernels, a->activation, a->gated, left < ACTIVATED_ROWS ? left : ACTIVATED_ROWS, a->hidden,
                  job->x->pass.up + first * up_width, job->x->pass.product + first * a->hidden);
}

static void perceive(gyre_context *x, const gyre_network_layer *l, int64_t rows) {
    const gyre_architecture *a = &x->net->arch;
    const int64_t pieces = (rows + ACTIVATED_ROWS - 1) / ACTIVATED_ROWS;
    activation job = {x, rows};
    multiply_beside(x, l->up, 2, (rows_of){x->pass.norm, rows}, x->pass.up, (a->gated ? 2 : 1) * a->hidden);
    if (x->exec && pieces > 1)
        x->exec->run(x->exec->ctx, activate_rows, &job, pieces);
    else
        for (int64_t i = 0; i < pieces; i++)
            activate_rows(&job, i);
    add_block(x, &l->down, &l->post2, (rows_of){x->pass.product, rows});
}

/* x as a block reads it: normalised, or as it is where norms come after. */
static void enter(gyre_context *x, const gyre_gain *norm, int64_t rows) {
    if (norm->gain)
        norm_rows(x, norm, rows, x->pass.x, x->pass.norm);
    else
        memcpy(x->pass.norm, x->pass.x, (size_t)(rows * x->net->arch.width) * sizeof(float));
}

/* Both blocks read what entered: the perceptron's norm, where it has its own, is taken before attention's output is added.
 */
static void finish_parallel(gyre_context *x, const gyre_network_layer *l, int64_t rows) {
    if (l->norm2.gain) enter(x, &l->norm2, rows);
    add_block(x, &l->o, &l->post1, (rows_of){x->pass.mixed, rows});
    perceive(x, l, rows);
}

gyre_status gyre_context_layers(gyre_context *x, int64_t rows, int wanted) {
    const int64_t layers = x->net->arch.layers;
    for (int64_t i = 0; i < layers; i++) {
        const gyre_network_layer *l = &x->net->layer[i];
        const int last = i + 1 == layers && !wanted;
        enter(x, &l->norm1, rows);
        const gyre_status status = attend(x, i, rows, !last);
        if (status || last) return status;
        if (x->net->arch.parallel) {
            finish_parallel(x, l, rows);
            continue;
        }
        add_block(x, &l->o, &l->post1, (rows_of){x->pass.mixed, rows});
        enter(x, &l->norm2, rows);
        perceive(x, l, rows);
    }
    return GYRE_OK;
}

/* -- the output ----------------------------------------------------------------------------------------------------------
 */
void gyre_context_logits(gyre_context *x, int64_t rows, int64_t wanted, float *logits) {
    const gyre_architecture *a = &x->net->arch;
    const float scale = (float)a->logit_scale;
    norm_rows(x, &x->net->last_norm, wanted, x->pass.x + (rows - wanted) * a->width, x->pass.norm);
    multiply(x, &x->net->head, (rows_of){x->pass.norm, wanted}, logits, a->vocab, 0);
    for (int64_t i = 0; scale != 1 && i < wanted * a->vocab; i++)
        logits[i] *= scale;
    if (a->logit_cap > 0) gyre_cap(x->kernels, logits, wanted * a->vocab, a->logit_cap);
}
