/* expert_weights.c: the experts of a layer: one tensor for each matrix of an expert, or one of all experts for their gates
 * and ups, and one for their downs. */
#include "model/weights/weight_loader.h"

#include <math.h>
#include <string.h>

static const char BARE[] = ""; /* suffix of tensors of all experts, and of vectors that are no bias */

/* out = the part of expert e in a tensor whose slowest dimension is the experts. */
static gyre_file_tensor part_of(const gyre_file_tensor *all, int64_t experts, int64_t e) {
    gyre_file_tensor part = *all;
    part.rank--;
    part.shape[0] = all->shape[1];
    part.shape[1] = all->shape[2];
    part.shape[2] = 1;
    part.count /= experts;
    part.bytes /= (uint64_t)experts;
    if (part.data) part.data += (uint64_t)e * part.bytes;
    part.offset += (uint64_t)e * part.bytes;
    return part;
}

/* Takes a tensor [experts][..][..], of rank 3, or [experts][..], of rank 2. */
static int take_stack(gyre_loader *o, gyre_tensor_place place, const char *suffix, int rank, gyre_file_tensor *out) {
    const int64_t experts = o->net->arch.mixture.routing.experts;
    if (!gyre_load_take(o, place, suffix, out)) {
        gyre_load_missing(o, place, suffix);
        return 0;
    }
    if (out->rank == rank && out->shape[0] == experts) return 1;
    gyre_load_fail(o, GYRE_EFORMAT,
                   "%s: %lld in %d dimensions, where the config asks for %lld experts in %d (%s, offset %llu)", out->name,
                   (long long)out->shape[0], out->rank, (long long)experts, rank, out->file,
                   (unsigned long long)out->offset);
    return 0;
}

/* Gate and up of an expert in one matrix [2 dim][in]. */
static void split_gate_up(const gyre_mixture *m, const gyre_matrix *both, const float *bias, gyre_expert *to) {
    const int64_t rows = m->interleaved ? 2 : 1, up = m->interleaved ? 1 : m->expert_dim;
    gyre_matrix half = *both;
    half.out = both->out / 2;
    half.row_bytes = both->row_bytes * rows;
    to->gate = to->up = (gyre_affine){half, NULL};
    to->up.w.data = (const unsigned char *)both->data + up * both->row_bytes;
    to->gate.bias = bias;
    to->up.bias = bias ? bias + m->expert_dim : NULL;
}

static void sort_interleaved(gyre_loader *o, const float *all, int64_t n, float *sorted) {
    const int64_t count = o->net->arch.mixture.routing.experts * n;
    for (int64_t i = 0; i < count; i++)
        sorted[i / n * n + i % n % 2 * (n / 2) + i % n / 2] = all[i];
}

/* out[expert][n] = those of the file; gates first, where they and ups alternate.  NULL = none. */
static const float *load_biases(gyre_loader *o, gyre_tensor_place place, int64_t n) {
    const gyre_mixture *m = &o->net->arch.mixture;
    gyre_file_tensor tensor;
    if (!gyre_load_requires_bias(o, place.role) || !take_stack(o, place, m->with_suffix ? ".bias" : "_bias", 2, &tensor))
        return NULL;
    if (tensor.shape[1] != n)
        gyre_load_fail(o, GYRE_EFORMAT, "%s: %lld numbers for an expert, where the config asks for %lld (%s, offset %llu)",
                       tensor.name, (long long)tensor.shape[1], (long long)n, tensor.file,
                       (unsigned long long)tensor.offset);
    float *all = o->status ? NULL : gyre_load_floats(o, &tensor);
    if (!all || place.role != GYRE_TENSOR_EXPERTS_GATE_UP || !m->interleaved) return all;
    float *sorted = gyre_network_alloc(o->net, (size_t)(m->routing.experts * n) * sizeof *sorted);
    if (!sorted)
        gyre_load_fail(o, GYRE_ENOMEM, "model: no memory for %lld numbers", (long long)(m->routing.experts * n));
    else
        sort_interleaved(o, all, n, sorted);
    return sorted;
}

/* The tensor of a matrix of all experts, as it is stored. */
typedef struct expert_stack {
    gyre_file_tensor tensor;
    gyre_matrix packed; /* data NULL: the tensor has the numbers */
    int64_t out, in;
    const float *biases; /* [expert][out]; NULL = none */
    int is_open;
} expert_stack;

static expert_stack open_stack(gyre_loader *o, gyre_tensor_place place, int64_t out, int64_t in) {
    const char *suffix = o->net->arch.mixture.with_suffix ? ".weight" : BARE;
    expert_stack stack = {.out = out, .in = in, .biases = load_biases(o, place, out)};
    if (gyre_load_packed(o, place, out, in, &stack.packed))
        stack.is_open = stack.packed.data != NULL;
    else
        stack.is_open = take_stack(o, place, suffix, 3, &stack.tensor);
    return stack;
}

static gyre_affine map_of(gyre_loader *o, const expert_stack *stack, int64_t e) {
    const gyre_mixture *m = &o->net->arch.mixture;
    gyre_affine map = {stack->packed, stack->biases ? stack->biases + e * stack->out : NULL};
    if (map.w.data) {
        map.w.out = stack->out;
        map.w.data = (const unsigned char *)map.w.data + e * map.w.out * map.w.row_bytes;
    } else {
        const gyre_file_tensor tensor = part_of(&stack->tensor, m->routing.experts, e);
        map.w = gyre_load_matrix(o, &tensor, stack->out, stack->in, m->in_out);
    }
    if (!o->status) o->net->weight_bytes += map.w.out * map.w.row_bytes;
    return map;
}

/* Tensors of all experts: gate and up in one or in two, and down. */
static void load_stacks(gyre_loader *o, int64_t layer, int fused, gyre_expert *expert) {
    const gyre_architecture *a = &o->net->arch;
    const gyre_mixture *m = &a->mixture;
    const int64_t dim = m->expert_dim, width = a->model_dim;
    const gyre_tensor_role first = fused ? GYRE_TENSOR_EXPERTS_GATE_UP : GYRE_TENSOR_EXPERTS_GATE;
    expert_stack up = {.is_open = fused};
    const expert_stack gate = open_stack(o, gyre_in_layer(first, layer), fused ? 2 * dim : dim, width);
    if (!fused) up = open_stack(o, gyre_in_layer(GYRE_TENSOR_EXPERTS_UP, layer), dim, width);
    const expert_stack down = open_stack(o, gyre_in_layer(GYRE_TENSOR_EXPERTS_DOWN, layer), width, dim);
    if (!gate.is_open || !up.is_open || !down.is_open) return;
    for (int64_t e = 0; e < (o->faults ? 1 : m->routing.experts) && !o->status; e++) { /* all parts have the same faults */
        const gyre_affine map = map_of(o, &gate, e);
        expert[e].down = map_of(o, &down, e);
        expert[e].gate = map;
        if (fused && map.w.data) split_gate_up(m, &map.w, map.bias, &expert[e]);
        if (!fused) expert[e].up = map_of(o, &up, e);
    }
}

/* The three matrices of an expert, each in a separate tensor. */
static void load_separate(gyre_loader *o, int64_t layer, gyre_expert *expert) {
    const int64_t dim = o->net->arch.mixture.expert_dim, width = o->net->arch.model_dim;
    for (int64_t e = 0; e < o->net->arch.mixture.routing.experts && !o->status; e++) {
        expert[e].gate = gyre_load_affine(o, (gyre_tensor_place){GYRE_TENSOR_EXPERT_GATE, layer, e}, dim, width);
        expert[e].up = gyre_load_affine(o, (gyre_tensor_place){GYRE_TENSOR_EXPERT_UP, layer, e}, dim, width);
        expert[e].down = gyre_load_affine(o, (gyre_tensor_place){GYRE_TENSOR_EXPERT_DOWN, layer, e}, width, dim);
    }
}

/* A vector, which some files store as a matrix of one row. */
static const float *load_choice_bias(gyre_loader *o, int64_t layer, int64_t experts) {
    const gyre_tensor_place place = gyre_in_layer(GYRE_TENSOR_ROUTER_CHOICE, layer);
    gyre_file_tensor tensor;
    if (!gyre_load_take(o, place, BARE, &tensor)) {
        gyre_load_missing(o, place, BARE);
        return NULL;
    }
    if (tensor.count != experts)
        gyre_load_fail(o, GYRE_EFORMAT, "%s: %lld numbers, where the config asks for %lld (%s, offset %llu)", tensor.name,
                       (long long)tensor.count, (long long)experts, tensor.file, (unsigned long long)tensor.offset);
    return o->status ? NULL : gyre_load_floats(o, &tensor);
}

static void load_shared(gyre_loader *o, int64_t layer, gyre_experts *to) {
    const gyre_architecture *a = &o->net->arch;
    const int64_t dim = a->mixture.shared_dim, width = a->model_dim;
    to->shared.gate = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_SHARED_GATE, layer), dim, width);
    to->shared.up = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_SHARED_UP, layer), dim, width);
    to->shared.down = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_SHARED_DOWN, layer), width, dim);
    if (a->mixture.shared_switch)
        to->shared_switch = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_SHARED_SWITCH, layer), 1, width);
}

/* Norms and scales of experts beside the mlp.  The norm of the router also multiplies by 1 / sqrt(model_dim). */
static void load_beside(gyre_loader *o, int64_t layer, gyre_experts *to) {
    const gyre_architecture *a = &o->net->arch;
    const int64_t dim = a->model_dim;
    const gyre_norm_weights none = {NULL, NULL, dim};
    float *gains = gyre_load_vector(o, gyre_in_layer(GYRE_TENSOR_ROUTER_NORM, layer), BARE, dim, 1);
    for (int64_t i = 0; gains && i < dim; i++)
        gains[i] = (float)(gains[i] / sqrt((double)dim));
    to->router_norm = none;
    to->router_norm.gain = gains;
    to->scales = gyre_load_vector(o, gyre_in_layer(GYRE_TENSOR_EXPERT_SCALES, layer), BARE, a->mixture.routing.experts, 1);
    to->norm = gyre_load_norm(o, gyre_in_layer(GYRE_TENSOR_EXPERTS_NORM, layer), dim, 1);
    to->post_norm = gyre_load_norm(o, gyre_in_layer(GYRE_TENSOR_POST_EXPERTS_NORM, layer), dim, 1);
    to->post_dense_norm = gyre_load_norm(o, gyre_in_layer(GYRE_TENSOR_POST_DENSE_NORM, layer), dim, 1);
}

void gyre_load_experts(gyre_loader *o, int64_t layer) {
    const gyre_architecture *a = &o->net->arch;
    const int64_t experts = a->mixture.routing.experts;
    gyre_experts *to = &o->net->layer[layer].experts;
    to->router = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_ROUTER, layer), experts, a->model_dim);
    if (a->mixture.beside_mlp) load_beside(o, layer, to);
    if (a->mixture.choice_bias) to->choice_bias = load_choice_bias(o, layer, experts);
    to->expert = gyre_network_alloc(o->net, (size_t)experts * sizeof *to->expert);
    if (!to->expert) {
        gyre_load_fail(o, GYRE_ENOMEM, "model: no memory for %lld experts", (long long)experts);
        return;
    }
    memset(to->expert, 0, (size_t)experts * sizeof *to->expert);
    const char *suffix = a->mixture.with_suffix ? ".weight" : BARE;
    const int fused = gyre_load_has(o, gyre_in_layer(GYRE_TENSOR_EXPERTS_GATE_UP, layer), suffix);
    const int split = gyre_load_has(o, gyre_in_layer(GYRE_TENSOR_EXPERTS_GATE, layer), suffix);
    if (a->names[GYRE_TENSOR_EXPERT_GATE] && !fused && !split)
        load_separate(o, layer, to->expert);
    else
        load_stacks(o, layer, !a->names[GYRE_TENSOR_EXPERTS_GATE] || fused, to->expert);
    if (a->mixture.shared_dim > 0) load_shared(o, layer, to);
}
