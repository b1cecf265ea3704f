/* model_init.c: the initial weights of a model. */
#include "core/encoding.h"
#include "model/model.h"
#include "util/error.h"
#include "util/fnv1a.h"
#include "util/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int is_network(const gyre_tensor *tensor) {
    return tensor->purpose == GYRE_TENSOR_NETWORK || tensor->purpose == GYRE_TENSOR_NETWORK_BIAS;
}

/* Of the network of adapted biases, as PyTorch's linear layers, which the released code of DAPE takes as they begin: uniform
 * numbers of this deviation. */
static double network_std(const gyre_model *model, const gyre_tensor *tensor) {
    const gyre_tensor_spec *hidden = &model->layout.layer[GYRE_WEIGHT_ADAPTIVE_HIDDEN];
    return 1 / sqrt(3.0 * (double)(tensor->purpose == GYRE_TENSOR_NETWORK ? tensor->shape[1] : hidden->shape[1]));
}

/* Standard deviation of a tensor's initial weights.  1 / sqrt(inputs) keeps the variance of what a matrix multiplies.
 * The outputs of a block are scaled down by sqrt(2 layers), as in GPT-2. */
static double init_std(const gyre_model *model, const gyre_tensor *tensor) {
    if (is_network(tensor)) return network_std(model, tensor);
    const int ends_block = strstr(tensor->name, ".o_proj.") != NULL || strstr(tensor->name, ".down_proj.") != NULL;
    if (strncmp(tensor->name, "model.layers.", 13) != 0) return 0.05;
    const double std = 1 / sqrt((double)tensor->shape[1]);
    return ends_block ? std / sqrt(2.0 * (double)model->config.layers) : std;
}

/* out = the initial value of entry i of a position table, from one normal draw. */
static double init_table_entry(const gyre_model *model, const gyre_tensor *tensor, int64_t i, double normal) {
    const int64_t rows = model->encoding->table[tensor->table].rows, row = i / tensor->shape[1];
    gyre_table_entry entry = {0};
    const gyre_status status = gyre_encoding_table_entry(model->encoding, (gyre_table)tensor->table, row / rows, row % rows,
                                                         i % tensor->shape[1], &entry);
    const double value = entry.initial_mean + entry.initial_deviation * normal;
    if (status) return 0; /* cannot happen: every entry of the layout is one of the table */
    return value < entry.minimum ? entry.minimum : value > entry.maximum ? entry.maximum : value;
}

/* out = what number i of a part's tensor begins as. */
static float start_of(const gyre_model *model, const gyre_tensor *tensor, const double *inv_freq, int64_t i, double normal) {
    const gyre_part_start at = {.config = &model->config,
                                .encoding = model->encoding,
                                .inv_freq = inv_freq,
                                .shape = {tensor->shape[0], tensor->shape[1]},
                                .i = i,
                                .normal = normal};
    return tensor->part->start ? (float)tensor->part->start(&at) : 0;
}

/* Each tensor has its own random stream, seeded with the tensor's name.  Two models that differ only in their encoding
 * therefore start from the same weights, so that the encodings can be compared. */
static void init_tensor(const gyre_model *model, const gyre_tensor *tensor, const double *inv_freq, uint64_t seed) {
    float *out = model->weights + tensor->offset;
    const double std = init_std(model, tensor);
    uint64_t state = seed;
    state = gyre_random_next(&state) ^ gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, tensor->name, strlen(tensor->name));
    for (int64_t i = 0; i < tensor->shape[0] * tensor->shape[1]; i++) {
        const double normal = gyre_random_normal(&state);
        out[i] = tensor->part                           ? start_of(model, tensor, inv_freq, i, normal)
                 : is_network(tensor)                   ? (float)(std * normal)
                 : tensor->purpose != GYRE_TENSOR_PLAIN ? 0
                 : tensor->rank == 1                    ? 1.0f
                 : tensor->table >= 0                   ? (float)init_table_entry(model, tensor, i, normal)
                                                        : (float)(std * normal);
    }
}

/* *out = the frequencies of the encoding, which the caller frees; NULL = it does not rotate. */
static gyre_status list_frequencies(const gyre_model *model, double **out, gyre_error *err) {
    const int64_t pairs = model->config.position.rope.dim / 2;
    *out = NULL;
    if (!gyre_encoding_rotates(model->encoding)) return GYRE_OK;
    *out = calloc((size_t)pairs, sizeof **out);
    if (!*out) return gyre_fail(err, GYRE_ENOMEM, "model: no memory for %lld frequencies", (long long)pairs);
    return gyre_encoding_frequencies(model->encoding, 0, *out, NULL);
}

gyre_status gyre_model_create(gyre_model **out, const gyre_model_config *config, uint64_t seed, gyre_error *err) {
    if (!out || !config) return gyre_fail(err, GYRE_EINVAL, "model: out and config are needed (NULL given)");
    gyre_model *model;
    double *inv_freq;
    gyre_status status = gyre_model_allocate(&model, config, err);
    if (status) return status;
    status = list_frequencies(model, &inv_freq, err);
    for (int64_t i = 0; i < gyre_tensor_count(&model->layout) && !status; i++) {
        const gyre_tensor tensor = gyre_tensor_at(&model->layout, i);
        init_tensor(model, &tensor, inv_freq, seed);
    }
    free(inv_freq);
    if (status)
        gyre_model_free(model);
    else
        *out = model;
    return status;
}
