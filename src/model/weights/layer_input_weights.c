/* layer_input_weights.c: the tensors of inputs that layers have beside the stream. */
#include "model/weights/weight_loader.h"

void gyre_load_layer_inputs(gyre_loader *o) {
    const gyre_architecture *a = &o->net->arch;
    const int64_t dim = a->layer_rules.inputs, all = a->layers * dim;
    gyre_network *n = o->net;
    if (!dim) return;
    n->layer_inputs = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_LAYER_INPUTS, 0), a->layer_rules.inputs_vocab, all);
    n->layer_inputs_map = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_LAYER_INPUTS_MAP, 0), all, a->model_dim);
    n->layer_inputs_norm = gyre_load_norm(o, gyre_in_layer(GYRE_TENSOR_LAYER_INPUTS_NORM, 0), dim, 1);
}

void gyre_load_inputs_of_layer(gyre_loader *o, int64_t layer) {
    const gyre_architecture *a = &o->net->arch;
    const int64_t dim = a->layer_rules.inputs;
    gyre_network_layer *l = &o->net->layer[layer];
    if (a->layer_rules.scaled) l->scale = gyre_load_vector(o, gyre_in_layer(GYRE_TENSOR_LAYER_SCALE, layer), "", 1, 1);
    if (!dim) return;
    l->inputs.gate = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_INPUT_GATE, layer), dim, a->model_dim);
    l->inputs.out = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_INPUT_OUT, layer), a->model_dim, dim);
    l->inputs.post_norm = gyre_load_norm(o, gyre_in_layer(GYRE_TENSOR_POST_INPUT_NORM, layer), a->model_dim, 1);
}
