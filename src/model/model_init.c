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

/* Every key head begins with the frequencies of the encoding. */
static gyre_status init_frequencies(const gyre_model *model, const gyre_tensor *tensor, gyre_error *err) {
    const int64_t pairs = tensor->shape[1];
    double *inv_freq = calloc((size_t)pairs, sizeof *inv_freq);
    if (!inv_freq) return gyre_fail(err, GYRE_ENOMEM, "model: no memory for %lld frequencies", (long long)pairs);
    const gyre_status status = gyre_encoding_frequencies(model->encoding, 0, inv_freq, NULL);
    for (int64_t i = 0; i < tensor->shape[0] * pairs; i++)
        model->weights[tensor->offset + i] = (float)inv_freq[i % pairs];
    free(inv_freq);
    return status;
}

/* Where a number of a series begins, as in the released code of FoPE (eye_xavier_norm): term i step of pair i is 1.  The
 * gain is that of its smallest models.  Xavier's normal sees the first two of [heads][terms][series], and takes the last for
 * a receptive field. */
static double init_series(const gyre_model *model, const gyre_tensor *tensor, int64_t i, double normal) {
    const gyre_fourier_size size = gyre_fourier_size_of(model->encoding);
    const int64_t heads = tensor->shape[0] / size.terms, step = (size.terms + size.series - 1) / size.series;
    const double deviation = 0.3 * sqrt(2 / (double)((size.terms + heads) * size.series));
    const int64_t term = i / size.series % size.terms, pair = i % size.series;
    return (term == pair * step ? 1 : 0) + deviation * normal;
}

/* Each tensor has its own random stream, seeded with the tensor's name.  Two models that differ only in their encoding
 * therefore start from the same weights, so that the encodings can be compared. */
static void init_tensor(const gyre_model *model, const gyre_tensor *tensor, uint64_t seed) {
    float *out = model->weights + tensor->offset;
    const double std = init_std(model, tensor);
    uint64_t state = seed;
    state = gyre_random_next(&state) ^ gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, tensor->name, strlen(tensor->name));
    for (int64_t i = 0; i < tensor->shape[0] * tensor->shape[1]; i++) {
        const double normal = gyre_random_normal(&state);
        out[i] = tensor->purpose == GYRE_TENSOR_SERIES   ? (float)init_series(model, tensor, i, normal)
                 : is_network(tensor)                    ? (float)(std * normal)
                 : tensor->purpose == GYRE_TENSOR_SCALES ? (float)log(expm1(1))
                 : tensor->purpose != GYRE_TENSOR_PLAIN  ? 0
                 : tensor->rank == 1                     ? 1.0f
                 : tensor->table >= 0                    ? (float)init_table_entry(model, tensor, i, normal)
                                                         : (float)(std * normal);
    }
}

gyre_status gyre_model_create(gyre_model **out, const gyre_model_config *config, uint64_t seed, gyre_error *err) {
    if (!out || !config) return gyre_fail(err, GYRE_EINVAL, "model: out and config are needed (NULL given)");
    gyre_model *model;
    gyre_status status = gyre_model_allocate(&model, config, err);
    if (status) return status;
    for (int64_t i = 0; i < gyre_tensor_count(&model->layout) && !status; i++) {
        const gyre_tensor tensor = gyre_tensor_at(&model->layout, i);
        if (tensor.purpose == GYRE_TENSOR_FREQUENCIES)
            status = init_frequencies(model, &tensor, err);
        else
            init_tensor(model, &tensor, seed);
    }
    if (status)
        gyre_model_free(model);
    else
        *out = model;
    return status;
}
