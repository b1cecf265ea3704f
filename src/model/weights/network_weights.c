#include "model/architecture/architecture_families.h"
#include "model/weights/weight_loader.h"

#include "core/encoding.h"
#include "files/printable_name.h"
#include "util/error.h"
#include "util/path.h"

#include <stdlib.h>
#include <string.h>

/* -- layers -- */
static void load_mlp(gyre_loader *o, int64_t layer) {
    const gyre_architecture *a = &o->net->arch;
    gyre_network_layer *l = &o->net->layer[layer];
    const int64_t dim = l->mlp_dim;
    if (a->gated && gyre_load_has(o, gyre_in_layer(GYRE_TENSOR_GATE_UP, layer), ".weight")) {
        l->gate_up[0] = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_GATE_UP, layer), 2 * dim, a->model_dim);
    } else {
        if (a->gated) l->gate_up[0] = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_GATE, layer), dim, a->model_dim);
        l->gate_up[a->gated] = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_UP, layer), dim, a->model_dim);
    }
    l->down = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_DOWN, layer), a->model_dim, dim);
}

static void load_layer(gyre_loader *o, int64_t layer) {
    const gyre_architecture *a = &o->net->arch;
    gyre_network_layer *l = &o->net->layer[layer];
    const int pre_norms = a->names[GYRE_TENSOR_ATTN_NORM] != NULL;
    if (pre_norms) l->attn_norm = gyre_load_norm(o, gyre_in_layer(GYRE_TENSOR_ATTN_NORM, layer), a->model_dim, 1);
    if (pre_norms && (!a->parallel_residual || a->parallel_mlp_norm))
        l->mlp_norm = gyre_load_norm(o, gyre_in_layer(GYRE_TENSOR_MLP_NORM, layer), a->model_dim, 1);
    if (a->post_norms) {
        l->post_attn_norm = gyre_load_norm(o, gyre_in_layer(GYRE_TENSOR_POST_ATTN_NORM, layer), a->model_dim, 1);
        l->post_mlp_norm = gyre_load_norm(o, gyre_in_layer(GYRE_TENSOR_POST_MLP_NORM, layer), a->model_dim, 1);
    }
    gyre_load_attention(o, layer);
    const int has_experts = gyre_mixture_has(&a->mixture, layer);
    if (has_experts) gyre_load_experts(o, layer);
    if (!has_experts || a->mixture.beside_mlp) load_mlp(o, layer);
    gyre_load_inputs_of_layer(o, layer);
}

/* The position table that the main group's encoding adds to the embeddings, if it has one.  Without groups, which only a
 * list of all faults does without, it is taken as it is. */
static void load_position_embedding(gyre_loader *o) {
    gyre_file_tensor tensor;
    if (o->net->groups == 0) {
        (void)gyre_load_take(o, gyre_in_layer(GYRE_TENSOR_POSITION_EMBEDDING, 0), ".weight", &tensor);
        return;
    }
    const gyre_encoding *encoding = o->net->group[o->net->main_group].encoding;
    const gyre_table_size *t = &encoding->table[GYRE_TABLE_INPUT];
    for (int which = 0; which < GYRE_TABLE_COUNT && !o->status; which++)
        if (which != GYRE_TABLE_INPUT && encoding->table[which].rows > 0)
            gyre_load_fail(o, GYRE_EUNSUPPORTED, "%s: a position table beside the input's is not read from such files (%s)",
                           gyre_kind_name(encoding->config.kind), gyre_tensor_store_path(o->net->store));
    if (t->rows == 0) return;
    if (!gyre_load_take(o, gyre_in_layer(GYRE_TENSOR_POSITION_EMBEDDING, 0), ".weight", &tensor)) {
        gyre_load_missing(o, gyre_in_layer(GYRE_TENSOR_POSITION_EMBEDDING, 0), ".weight");
        return;
    }
    (void)gyre_load_matrix(o, &tensor, t->rows, t->channels, 0);
    const float *rows = o->status ? NULL : gyre_load_floats(o, &tensor);
    if (rows) o->net->input = gyre_cdense(rows, GYRE_DTYPE_F32, 1, 1, t->rows, t->channels);
}

/* Uses the embedding if the model is tied and its files hold no lm_head, as transformers 5 does. */
static void load_lm_head(gyre_loader *o) {
    const gyre_architecture *a = &o->net->arch;
    if (a->tied && !gyre_load_has(o, gyre_in_layer(GYRE_TENSOR_LM_HEAD, 0), ".weight")) {
        o->net->lm_head = o->net->embedding;
    } else {
        if (!o->status) o->net->weight_bytes -= o->net->embedding.w.out * o->net->embedding.w.row_bytes;
        o->net->lm_head = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_LM_HEAD, 0), a->vocab, a->model_dim);
    }
}

static int has_embedding(gyre_network *n, const char *prefix) {
    char name[GYRE_TENSOR_NAME];
    n->arch.prefix = prefix;
    (void)gyre_network_tensor_name(n, GYRE_TENSOR_EMBEDDING, 0, ".weight", name);
    return gyre_network_find_tensor(n->store, name) >= 0;
}

/* The prefixes with which the files have the names of the family. */
static void choose_prefixes(gyre_network *n) {
    const char *const *prefix = gyre_wrapped_prefixes;
    if (!n->arch.wrapped) {
        if (!has_embedding(n, n->arch.prefix)) n->arch.prefix = "";
        return;
    }
    while (*prefix && !has_embedding(n, *prefix))
        prefix++;
    if (!*prefix) n->arch.prefix = gyre_wrapped_prefixes[0];
    n->arch.head_prefix =
        gyre_network_find_tensor(n->store, "language_model.lm_head.weight") >= 0 ? "language_model." : NULL;
}

static void load_tensors(gyre_loader *o) {
    const gyre_architecture *a = &o->net->arch;
    choose_prefixes(o->net);
    o->net->embedding = gyre_load_affine(o, gyre_in_layer(GYRE_TENSOR_EMBEDDING, 0), a->vocab, a->model_dim);
    load_position_embedding(o);
    gyre_load_layer_inputs(o);
    o->net->embed_norm =
        gyre_load_norm(o, gyre_in_layer(GYRE_TENSOR_EMBED_NORM, 0), a->model_dim,
                       a->names[GYRE_TENSOR_EMBED_NORM] && gyre_load_requires_bias(o, GYRE_TENSOR_EMBED_NORM));
    for (int64_t layer = 0; layer < a->layers && !o->status; layer++)
        load_layer(o, layer);
    o->net->final_norm = gyre_load_norm(o, gyre_in_layer(GYRE_TENSOR_FINAL_NORM, 0), a->model_dim, 1);
    load_lm_head(o);
}

/* -- tensors that nothing used -- */
/* Buffers that some classes save although the config implies them: masks, and frequencies (gyre_reading reads those that
 * matter). */
int gyre_network_ignores(const char *name) {
    static const char *const tails[] = {
        ".rotary_emb.inv_freq",   ".attn.bias",        ".attn.masked_bias",        ".attention.bias",
        ".attention.masked_bias", "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        if (gyre_ends_with(name, tails[i])) return 1;
    return 0;
}

/* Tensors that the files of a wrapper hold beside its language model. */
static int is_aside(const gyre_architecture *a, const char *name) {
    return a->wrapped && strncmp(name, a->prefix, strlen(a->prefix)) != 0 && !strstr(name, "lm_head.");
}

/* Tensors of layers of multi-token prediction, numbered on from the decoder's. */
static int is_extra_layer(const gyre_architecture *a, const char *name) {
    static const char before[] = "model.layers.", before_in_gguf[] = "blk.";
    const size_t length = strncmp(name, before, sizeof before - 1) == 0                   ? sizeof before - 1
                          : strncmp(name, before_in_gguf, sizeof before_in_gguf - 1) == 0 ? sizeof before_in_gguf - 1
                                                                                          : 0;
    char *end;
    if (a->extra_layers < 1 || !length) return 0;
    const long long layer = strtoll(name + length, &end, 10);
    return *end == '.' && layer >= a->layers && layer - a->layers < a->extra_layers;
}

/* Refuses weights that the decoder would silently ignore: a bias, an extra layer. */
static void check_unknown_tensors(gyre_loader *o) {
    for (int64_t i = 0; i < gyre_tensor_store_count(o->net->store) && !o->status; i++) {
        const gyre_file_tensor tensor = gyre_tensor_store_at(o->net->store, i);
        if (o->used[i] || gyre_network_ignores(tensor.name) || is_extra_layer(&o->net->arch, tensor.name)) continue;
        if (is_aside(&o->net->arch, tensor.name)) {
            if (o->faults) gyre_fault_list_add_aside(o->faults, &tensor);
            continue;
        }
        gyre_load_fail(o, GYRE_EFORMAT, "%.100s: no tensor of the %s that the config describes%s (%s, offset %llu)",
                       gyre_make_printable(tensor.name, strlen(tensor.name)).text, o->net->arch.family,
                       gyre_ends_with(tensor.name, ".bias") ? ", which has no such bias" : "", tensor.file,
                       (unsigned long long)tensor.offset);
    }
}

static gyre_status load(gyre_network *network, gyre_fault_list *faults, gyre_error *err) {
    gyre_loader o = {.net = network, .kernels = gyre_kernels_select(), .faults = faults, .err = err};
    o.used = calloc((size_t)gyre_tensor_store_count(network->store) + 1, 1);
    if (!o.used) return gyre_fail(err, GYRE_ENOMEM, "model: no memory for its list of tensors");
    load_tensors(&o);
    check_unknown_tensors(&o);
    free(o.used);
    return o.status;
}

gyre_status gyre_network_load_weights(gyre_network *network, gyre_error *err) {
    return load(network, NULL, err);
}

gyre_status gyre_network_list_faults(gyre_network *network, gyre_fault_list *faults, gyre_error *err) {
    return load(network, faults, err);
}
