/* network_map.c: the matrices of a model made here, read where its file has them and in the type it has. */
#include "core/encoding.h"
#include "model/model.h"
#include "util/error.h"

#include <string.h>

/* out = the matrix that the tensor at `offset` of the weights is; NULL for norms and tables, which stay floats. */
static gyre_matrix *matrix_at(gyre_network *n, const gyre_weight_layout *layout, int64_t offset) {
    const int64_t layer = gyre_layer_at_offset(layout, offset);
    if (offset == layout->embedding.offset) return &n->embedding.w;
    if (layer < 0) return NULL;
    gyre_network_layer *l = &n->layer[layer];
    const struct {
        int tensor;
        gyre_matrix *matrix;
    } places[] = {{GYRE_WEIGHT_Q, &l->qkv[0].w},        {GYRE_WEIGHT_K, &l->qkv[1].w},
                  {GYRE_WEIGHT_V, &l->qkv[2].w},        {GYRE_WEIGHT_O, &l->o.w},
                  {GYRE_WEIGHT_GATE, &l->gate_up[0].w}, {GYRE_WEIGHT_UP, &l->gate_up[1].w},
                  {GYRE_WEIGHT_DOWN, &l->down.w},       {GYRE_WEIGHT_FORGET_GATE, &l->forget_gate.w}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (layout->layer[places[i].tensor].name && offset == gyre_layer_tensor_offset(layout, layer, places[i].tensor))
            return places[i].matrix;
    return NULL;
}

static gyre_status map_matrix(gyre_network *n, const gyre_kernels *kernels, const gyre_file_tensor *stored, gyre_matrix *out,
                              gyre_error *err) {
    const size_t size = (size_t)gyre_stored_row_bytes(stored->type, 1);
    const void *data = stored->data;
    const gyre_status status = gyre_stored_check_finite(kernels, stored, err);
    if (status) return status;
    if ((uintptr_t)data % size != 0) {
        void *copy = gyre_network_alloc(n, (size_t)stored->bytes);
        if (!copy) return gyre_fail(err, GYRE_ENOMEM, "%s: no memory to align it (%s)", stored->name, stored->file);
        data = memcpy(copy, stored->data, (size_t)stored->bytes);
    }
    *out = (gyre_matrix){stored->type, data, stored->shape[0], stored->shape[1],
                         gyre_stored_row_bytes(stored->type, stored->shape[1])};
    n->weight_bytes += (int64_t)stored->bytes;
    return GYRE_OK;
}

gyre_status gyre_model_map_weights(gyre_model *model, const char *folder, gyre_error *err) {
    gyre_network *n = model->network;
    const gyre_kernels *kernels = gyre_kernels_beside(model->encoding->kernels);
    gyre_status status = gyre_tensor_store_open(&model->store, folder, err);
    n->weight_bytes = 0;
    n->mapped = model->store;
    for (int64_t i = 0; i < gyre_tensor_count(&model->layout) && !status; i++) {
        const gyre_tensor tensor = gyre_tensor_at(&model->layout, i);
        gyre_matrix *matrix = matrix_at(n, &model->layout, tensor.offset);
        gyre_file_tensor stored;
        if (!gyre_tensor_store_find(model->store, tensor.name, &stored))
            status = gyre_fail(err, GYRE_EFORMAT, "%s: no such tensor (%s)", tensor.name, folder);
        else if (stored.count != (tensor.rank > 1 ? tensor.shape[0] * tensor.shape[1] : tensor.shape[0]))
            status = gyre_fail(err, GYRE_EFORMAT, "%s: changed while it was read (%s)", tensor.name, folder);
        else if (matrix && stored.type <= GYRE_STORED_BF16)
            status = map_matrix(n, kernels, &stored, matrix, err);
        else
            status = gyre_stored_read(kernels, &stored, model->weights + tensor.offset, err);
    }
    n->lm_head = n->embedding;
    return status;
}
