/* decoder_layer_inputs.c: inputs that every layer has beside the stream (Gemma 3n and 4).
 *
 *     p = norm(map x / sqrt(model_dim)), layer by layer, of embedded tokens x
 *     inputs = (p + sqrt(inputs) table[token]) / sqrt(2)
 *     at the end of a layer:  x += post_norm(out (act(gate x) * inputs of the layer)) */
#include "model/decoder.h"
#include "model/ops/float_buffer.h"

#include <math.h>
#include <string.h>

int64_t gyre_decoder_layer_inputs_floats(const gyre_architecture *a, int64_t rows) {
    return (rows + 1) * gyre_round_up_floats(a->layers * a->layer_rules.inputs);
}

void gyre_decoder_embed_layers(gyre_decoder *d, const int32_t *tokens, int64_t rows) {
    const gyre_network *n = d->net;
    const gyre_architecture *a = &n->arch;
    const int64_t dim = a->layer_rules.inputs, width = a->layers * dim;
    const float map_scale = (float)(1 / sqrt((double)a->model_dim)), table_scale = (float)sqrt((double)dim),
                half = (float)sqrt(0.5);
    float *const inputs = d->buffers.layer_inputs, *const entry = inputs + rows * width;
    const gyre_gemm gemm = {&n->layer_inputs_map.w, NULL, d->buffers.x, inputs, rows, a->model_dim, width, 0};
    const gyre_norm_args norm = {a->norm, &n->layer_inputs_norm, a->norm_epsilon, rows * a->layers, dim};
    if (!dim) return;
    gyre_gemm_run(&gemm, d->kernels, d->buffers.gemm_scratch, d->exec);
    for (int64_t i = 0; i < rows * width; i++)
        inputs[i] *= map_scale;
    gyre_normalize_rows(&norm, inputs, inputs, dim, NULL);
    for (int64_t row = 0; row < rows; row++) {
        float *to = inputs + row * width;
        gyre_matrix_row(&n->layer_inputs.w, d->kernels, tokens[row], entry);
        for (int64_t i = 0; i < width; i++)
            to[i] = (to[i] + table_scale * entry[i]) * half;
    }
}

void gyre_decoder_add_layer_inputs(gyre_decoder *d, int64_t layer, int64_t rows) {
    const gyre_architecture *a = &d->net->arch;
    const gyre_layer_inputs *l = &d->net->layer[layer].inputs;
    const gyre_decoder_buffers *b = &d->buffers;
    const int64_t dim = a->layer_rules.inputs, width = a->layers * dim;
    if (!l->gate.w.out) return;
    const gyre_gemm gate = {&l->gate.w, l->gate.bias, b->x, b->gate_up, rows, a->model_dim, 2 * dim, 0};
    const gyre_gemm out = {&l->out.w, l->out.bias, b->mlp_act, b->block_out, rows, dim, a->model_dim, 0};
    gyre_gemm_run(&gate, d->kernels, b->gemm_scratch, d->exec);
    for (int64_t row = 0; row < rows; row++)
        memcpy(b->gate_up + (2 * row + 1) * dim, b->layer_inputs + row * width + layer * dim, (size_t)dim * sizeof(float));
    gyre_activate(d->kernels, a->activation, 1, rows, dim, b->gate_up, b->mlp_act);
    gyre_gemm_run(&out, d->kernels, b->gemm_scratch, d->exec);
    gyre_decoder_add_block(d, &l->post_norm, rows);
}
