/* decoder_latents.c: queries, keys and values of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434).
 *
 *     query latent = norm(query_down x)               q = Q latent, or Q x
 *     [kv latent | shared channels] = kv_down x       [k | v] of each head = kv_up norm(kv latent)
 *     key of a head = [k | shared channels]           the shared channels rotate
 *
 * Keys and values are cached as those of other models, for every head. */
#include "model/decoder.h"
#include "model/ops/float_buffer.h"

#include <string.h>

/* Floats of a row: the larger latent as mapped, and keys and values head by head. */
int64_t gyre_decoder_latent_dim(const gyre_architecture *a) {
    const gyre_latents *l = &a->latents;
    const int64_t kv = l->kv + a->head_dim - l->still, heads = a->kv_heads * (l->still + a->value_dim);
    if (!l->kv) return 0;
    return gyre_round_up_floats(kv > l->query ? kv : l->query) + gyre_round_up_floats(heads);
}

static void run(const gyre_decoder *d, const gyre_affine *map, const gyre_gemm *shape) {
    gyre_gemm gemm = *shape;
    gemm.w = &map->w;
    gemm.bias = map->bias;
    gyre_gemm_run(&gemm, d->kernels, d->buffers.gemm_scratch, d->exec);
}

static void normalize(const gyre_decoder *d, const gyre_norm_weights *norm, float *x, int64_t rows, int64_t stride) {
    const gyre_norm_args args = {d->net->arch.norm, norm, d->net->arch.latents.epsilon, rows, stride};
    gyre_normalize_rows(&args, x, x, stride, NULL);
}

static void project_queries(gyre_decoder *d, const gyre_network_layer *l, int64_t rows) {
    const int64_t in = d->net->arch.model_dim, latent = l->latent.query_down.w.out;
    const float *from = d->buffers.norm;
    float *to = d->buffers.latent;
    if (latent > 0) {
        run(d, &l->latent.query_down,
            &(gyre_gemm){.x = from, .y = to, .rows = rows, .x_row_stride = in, .y_row_stride = latent});
        normalize(d, &l->latent.query_norm, to, rows, latent);
        from = to;
    }
    run(d, &l->qkv[0],
        &(gyre_gemm){.x = from,
                     .y = d->buffers.qkv + l->q.offset,
                     .rows = rows,
                     .x_row_stride = latent > 0 ? latent : in,
                     .y_row_stride = d->qkv_dim});
}

/* A row of heads is [k | v] of each; a row of latents ends in the shared channels. */
static void place_keys_and_values(gyre_decoder *d, const gyre_network_layer *l, const float *latent, const float *heads,
                                  int64_t row) {
    const gyre_architecture *a = &d->net->arch;
    const int64_t still = a->latents.still, turning = a->head_dim - still, value = a->value_dim;
    float *const qkv = d->buffers.qkv + row * d->qkv_dim;
    for (int64_t h = 0; h < a->kv_heads; h++, heads += still + value) {
        float *k = qkv + l->k.offset + h * l->k.stride;
        memcpy(k, heads, (size_t)still * sizeof *k);
        memcpy(k + still, latent + a->latents.kv, (size_t)turning * sizeof *k);
        memcpy(qkv + l->v.offset + h * l->v.stride, heads + still, (size_t)value * sizeof *k);
    }
}

void gyre_decoder_project_latents(gyre_decoder *d, const gyre_network_layer *l, int64_t rows) {
    const gyre_architecture *a = &d->net->arch;
    const int64_t latent = l->latent.kv_down.w.out, width = l->latent.kv_up.w.out;
    float *const latents = d->buffers.latent;
    float *const heads = latents + (gyre_decoder_latent_dim(a) - gyre_round_up_floats(width)) * rows;
    project_queries(d, l, rows);
    run(d, &l->latent.kv_down,
        &(gyre_gemm){
            .x = d->buffers.norm, .y = latents, .rows = rows, .x_row_stride = a->model_dim, .y_row_stride = latent});
    normalize(d, &l->latent.kv_norm, latents, rows, latent);
    run(d, &l->latent.kv_up,
        &(gyre_gemm){.x = latents, .y = heads, .rows = rows, .x_row_stride = latent, .y_row_stride = width});
    for (int64_t row = 0; row < rows; row++)
        place_keys_and_values(d, l, latents + row * latent, heads + row * width, row);
}
