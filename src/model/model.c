/* model.c: making a decoder, what its weights start from, and its folder. */
#include "model/model.h"
#include "core/sized.h"
#include "util/error.h"

#include "files/fnv1a.h"
#include "files/replace_folder.h"
#include "files/safetensors.h"
#include "model/architecture/model_config_json.h"
#include "model/random.h"
#include "util/checkpoint_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- creation -- */
static gyre_status check_sizes(const gyre_model_config *c, gyre_error *err) {
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"vocab", c->vocab},       {"width", c->model_dim},   {"layers", c->layers}, {"heads", c->heads},
                 {"kv_heads", c->kv_heads}, {"head_dim", c->head_dim}, {"hidden", c->mlp_dim}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < 1 || sizes[i].value > INT32_MAX)
            return gyre_fail(err, GYRE_EINVAL, "%s: %lld is outside 1 .. 2147483647 (model)", sizes[i].name,
                             (long long)sizes[i].value);
    if (c->heads % c->kv_heads != 0)
        return gyre_fail(err, GYRE_EINVAL, "heads: %lld is no multiple of kv_heads %lld (model)", (long long)c->heads,
                         (long long)c->kv_heads);
    if (!(c->norm_epsilon > 0.0) || !isfinite(c->norm_epsilon))
        return gyre_fail(err, GYRE_EINVAL, "norm_epsilon: %g is not above 0 (model)", c->norm_epsilon);
    return GYRE_OK;
}

enum { MAX_CACHED_ANGLES = 65536 }; /* positions whose angles a model keeps: 8 MiB for 16 pairs */

/* An encoding makes an array of all distances that have a row, and some make or project a vector for each.  What a file asks
 * for there must not be any size. */
static gyre_status check_table_size(const gyre_model_config *c, gyre_error *err) {
    enum { MOST = 1 << 20, MOST_NUMBERS = 1 << 26 };
    const struct gyre_score_config *score = &c->position.score;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"max_distance", score->max_distance},
                 {"max_positions", score->max_positions},
                 {"hidden_units", score->hidden_units},
                 {"sinusoid_dim", score->sinusoid_dim}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value > MOST)
            return gyre_fail(err, GYRE_EINVAL, "score.%s: %lld is past %d (model)", sizes[i].name, (long long)sizes[i].value,
                             MOST);
    const int positions = score->max_positions > score->max_distance;
    const int64_t reach = positions ? score->max_positions : score->max_distance;
    if ((2 * reach + 1) <= MOST_NUMBERS / c->layers / c->heads / c->head_dim) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "score.%s: %lld asks for more than %d numbers in tables (model)",
                     positions ? "max_positions" : "max_distance", (long long)reach, MOST_NUMBERS);
}

void gyre_model_config_complete(gyre_model_config *c) {
    c->size = sizeof *c;
    c->position.size = sizeof c->position;
    if (!c->vocab) c->vocab = 256;
    if (!c->model_dim) c->model_dim = 128;
    if (!c->layers) c->layers = 5;
    if (!c->heads) c->heads = 4;
    if (!c->kv_heads) c->kv_heads = c->heads;
    if (!c->head_dim && c->heads > 0) c->head_dim = c->model_dim / c->heads;
    if (!c->mlp_dim) c->mlp_dim = (c->model_dim * 8 / 3 + 31) / 32 * 32;
    if (c->norm_epsilon == 0.0) c->norm_epsilon = 1e-5;
}

gyre_model_config gyre_model_config_default(void) {
    gyre_model_config config = GYRE_INIT(gyre_model_config);
    gyre_model_config_complete(&config);
    return config;
}

/* The model without its weights: config complete, encoding made. */
static gyre_status init_layout(gyre_model *model, const gyre_model_config *given, gyre_error *err) {
    gyre_model_config own, *config = &own;
    if (gyre_sized_read(&own, sizeof own, given, "gyre_model_config", err)) return GYRE_EINVAL;
    gyre_model_config_complete(config);
    gyre_config position = config->position;
    position.head_dim = config->head_dim;
    position.heads = config->heads;
    position.input.dim = config->model_dim;
    /* So that training, and reading up to the trained length, meet no trigonometry. */
    if (!position.rope.table_positions && position.trained_length <= MAX_CACHED_ANGLES)
        position.rope.table_positions = position.trained_length;
    gyre_status status = check_sizes(config, err);
    if (status == GYRE_OK) status = gyre_weight_layout_check(config, NULL, err);
    if (status == GYRE_OK) status = check_table_size(config, err);
    if (status == GYRE_OK) status = gyre_encoding_create(&model->encoding, &position, NULL, err);
    if (status != GYRE_OK) return status;
    model->config = *config;
    model->config.position = *gyre_encoding_get_config(model->encoding);
    /* So that two models that are the same have the same config: no rows where there is no table of them. */
    if (model->encoding->table[GYRE_TABLE_INPUT].rows != position.input.positions)
        model->config.position.input.positions = 0;
    status = gyre_weight_layout_check(&model->config, model->encoding, err);
    if (status != GYRE_OK) return status;
    model->layout = gyre_weight_layout_of(&model->config, model->encoding);
    model->weight_count = model->layout.weight_count;
    return GYRE_OK;
}

static gyre_status allocate_weights(gyre_model *model, gyre_error *err) {
    const uint64_t bytes = ((uint64_t)model->weight_count * sizeof(float) + 63) / 64 * 64;
    model->weights = bytes <= SIZE_MAX ? aligned_alloc(64, (size_t)bytes) : NULL;
    if (model->weights) return GYRE_OK;
    return gyre_fail(err, GYRE_ENOMEM, "weights: no memory for %lld of them (model)", (long long)model->weight_count);
}

gyre_status gyre_model_allocate(gyre_model **out, const gyre_model_config *config, gyre_error *err) {
    gyre_model *model = calloc(1, sizeof *model);
    if (!model) return gyre_fail(err, GYRE_ENOMEM, "model: no memory (%zu bytes)", sizeof *model);
    gyre_status status = init_layout(model, config, err);
    if (status == GYRE_OK) status = allocate_weights(model, err);
    if (status == GYRE_OK) status = gyre_network_from_model(&model->network, model, err);
    if (status == GYRE_OK)
        *out = model;
    else
        gyre_model_free(model);
    return status;
}

void gyre_model_free(gyre_model *model) {
    if (!model) return;
    if (!model->network || !model->network->store) gyre_encoding_free(model->encoding);
    gyre_network_free(model->network);
    free(model->weights);
    free(model->path);
    free(model);
}

/* A matrix keeps the size of what goes through it, whatever the width; blocks' outputs start small, as GPT-2's do. */
static double init_std(const gyre_model *model, const gyre_tensor *tensor) {
    const int ends_block = strstr(tensor->name, ".o_proj.") != NULL || strstr(tensor->name, ".down_proj.") != NULL;
    if (strncmp(tensor->name, "model.layers.", 13) != 0) return 0.05;
    const double kept = 1 / sqrt((double)tensor->shape[1]);
    return ends_block ? kept / sqrt(2.0 * (double)model->config.layers) : kept;
}

/* Entry i of a tensor that is a table, from one draw. */
static double init_table_entry(const gyre_model *model, const gyre_tensor *tensor, int64_t i, double normal) {
    const int64_t rows = model->encoding->table[tensor->table].rows, row = i / tensor->shape[1];
    gyre_table_entry entry = {0};
    const gyre_status status = gyre_encoding_table_entry(model->encoding, (gyre_table)tensor->table, row / rows, row % rows,
                                                         i % tensor->shape[1], &entry);
    const double value = entry.initial_mean + entry.initial_deviation * normal;
    if (status != GYRE_OK) return 0; /* every entry of the layout is one of the table */
    return value < entry.minimum ? entry.minimum : value > entry.maximum ? entry.maximum : value;
}

/* Each tensor has its own stream, named by the tensor: two models that differ in their encoding alone start from the same
 * weights, which is what comparing encodings asks for. */
static void init_tensor(const gyre_model *model, const gyre_tensor *tensor, uint64_t seed) {
    float *out = model->weights + tensor->offset;
    const double deviation = init_std(model, tensor);
    uint64_t state = seed;
    state = gyre_random_next(&state) ^ gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, tensor->name, strlen(tensor->name));
    for (int64_t i = 0; i < tensor->shape[0] * tensor->shape[1]; i++) {
        const double normal = tensor->rank == 1 ? 0 : gyre_random_normal(&state);
        out[i] = tensor->rank == 1    ? 1.0f
                 : tensor->table >= 0 ? (float)init_table_entry(model, tensor, i, normal)
                                      : (float)(deviation * normal);
    }
}

gyre_status gyre_model_create(gyre_model **out, const gyre_model_config *config, uint64_t seed, gyre_error *err) {
    if (!out || !config) return gyre_fail(err, GYRE_EINVAL, "model: out and config are needed (NULL given)");
    gyre_model *model;
    const gyre_status status = gyre_model_allocate(&model, config, err);
    if (status != GYRE_OK) return status;
    for (int64_t i = 0; i < gyre_tensor_count(&model->layout); i++) {
        const gyre_tensor tensor = gyre_tensor_at(&model->layout, i);
        init_tensor(model, &tensor, seed);
    }
    *out = model;
    return GYRE_OK;
}

/* -- its folder -- */
static gyre_status join_path(const char *folder, const char *name, char out[PATH_MAX], gyre_error *err) {
    if (snprintf(out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX) return GYRE_OK;
    return gyre_fail(err, GYRE_EIO, "%s: path too long (%.200s...)", name, folder);
}

/* What a file may hold beside the weights: the output matrix of a tied model, and tables that the config gives. */
static int is_ignored(const char *name) {
    static const char table[] = ".rotary_emb.inv_freq";
    const size_t length = strlen(name), tail = sizeof table - 1;
    return strcmp(name, "lm_head.weight") == 0 || (length > tail && strcmp(name + length - tail, table) == 0);
}

static int has_tensor(const gyre_weight_layout *layout, const char *name) {
    for (int64_t i = 0; i < gyre_tensor_count(layout); i++)
        if (strcmp(gyre_tensor_at(layout, i).name, name) == 0) return 1;
    return 0;
}

/* A weight that the config knows nothing of (a bias, a layer more) would be left out without a word. */
static gyre_status check_unknown_tensors(const gyre_weight_layout *layout, const gyre_safetensors *file, const char *path,
                                         gyre_error *err) {
    int64_t known = 0;
    const int64_t count = gyre_safetensors_count(file);
    for (int64_t i = 0; i < count; i++)
        known += !is_ignored(gyre_safetensors_name(file, i));
    if (known == gyre_tensor_count(layout)) return GYRE_OK;
    int64_t i = 0;
    while (i + 1 < count &&
           (is_ignored(gyre_safetensors_name(file, i)) || has_tensor(layout, gyre_safetensors_name(file, i))))
        i++;
    return gyre_fail(err, GYRE_EFORMAT, "%.100s: no tensor of the model that config.json describes (%s)",
                     gyre_safetensors_name(file, i), path);
}

static gyre_status check_shapes(const gyre_weight_layout *layout, const gyre_safetensors *file, gyre_error *err) {
    gyre_safetensors_view stored;
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; status == GYRE_OK && i < gyre_tensor_count(layout); i++) {
        const gyre_tensor tensor = gyre_tensor_at(layout, i);
        status = gyre_safetensors_expect(file, tensor.name, tensor.shape, tensor.rank, &stored, err);
    }
    return status;
}

/* The sizes in config.json may be anything: shapes are compared before memory is asked for, those of the position tables as
 * soon as the encoding has told them. */
static gyre_status check_file(gyre_model *model, const gyre_model_config *config, const gyre_safetensors *file,
                              const char *path, gyre_error *err) {
    gyre_status status = check_sizes(config, err);
    if (status == GYRE_OK) status = gyre_weight_layout_check(config, NULL, err);
    if (status != GYRE_OK) return status;
    const gyre_weight_layout plain = gyre_weight_layout_of(config, NULL);
    status = check_shapes(&plain, file, err);
    if (status == GYRE_OK) status = init_layout(model, config, err);
    if (status == GYRE_OK) status = check_shapes(&model->layout, file, err);
    return status == GYRE_OK ? check_unknown_tensors(&model->layout, file, path, err) : status;
}

static gyre_status read_weights(gyre_model *model, const gyre_safetensors *file, gyre_error *err) {
    gyre_status status = allocate_weights(model, err);
    for (int64_t i = 0; i < gyre_tensor_count(&model->layout) && status == GYRE_OK; i++) {
        const gyre_tensor tensor = gyre_tensor_at(&model->layout, i);
        status = gyre_safetensors_read(file, tensor.name, tensor.shape, tensor.rank, model->weights + tensor.offset, err);
    }
    return status;
}

/* A config that no model can have is a malformed file here, whoever found it out. */
static gyre_status fail_with_path(gyre_status status, const gyre_error *why, const char *path, gyre_error *err) {
    return gyre_fail(err, status == GYRE_EINVAL ? GYRE_EFORMAT : status, "%s (%s)", why->text, path);
}

static gyre_status load_folder(gyre_model *model, const char *folder, const gyre_config_document *document,
                               gyre_error *err) {
    char weights[PATH_MAX];
    gyre_model_config config;
    gyre_config_arrays arrays = {NULL, NULL, NULL, NULL};
    gyre_safetensors *file = NULL;
    gyre_error why = {0, ""};
    gyre_status status = join_path(folder, GYRE_WEIGHTS_FILE, weights, err);
    if (status == GYRE_OK) status = gyre_model_config_read(document, &config, &arrays, err);
    if (status == GYRE_OK) status = gyre_safetensors_open(&file, weights, err);
    if (status == GYRE_OK) {
        status = check_file(model, &config, file, weights, &why);
        if (status != GYRE_OK) status = fail_with_path(status, &why, document->path, err);
    }
    if (status == GYRE_OK) status = read_weights(model, file, err);
    if (status == GYRE_OK) status = gyre_network_from_model(&model->network, model, err);
    gyre_config_arrays_free(&arrays);
    gyre_safetensors_free(file);
    return status;
}

gyre_status gyre_model_open_native(gyre_model **out, const char *folder, const gyre_config_document *document,
                                   gyre_error *err) {
    gyre_model *model = calloc(1, sizeof *model);
    if (!model) return gyre_fail(err, GYRE_ENOMEM, "model: no memory (%zu bytes)", sizeof *model);
    gyre_status status = load_folder(model, folder, document, err);
    if (status == GYRE_OK && !(model->path = strdup(folder)))
        status = gyre_fail(err, GYRE_ENOMEM, "model: no memory (%s)", folder);
    if (status == GYRE_OK)
        *out = model;
    else
        gyre_model_free(model);
    return status;
}

gyre_status gyre_model_open_to_train(gyre_model **out, const char *folder, gyre_error *err) {
    char path[PATH_MAX];
    gyre_config_document document;
    if (!out || !folder) return gyre_fail(err, GYRE_EINVAL, "model: out and folder are needed (NULL given)");
    gyre_status status = join_path(folder, GYRE_CONFIG_FILE, path, err);
    if (status == GYRE_OK) status = gyre_config_document_open(&document, path, err);
    if (status != GYRE_OK) return status;
    status = gyre_model_open_native(out, folder, &document, err);
    gyre_config_document_free(&document);
    return status;
}

static gyre_status write_weights(const gyre_model *model, const char *path, gyre_dtype dtype, gyre_error *err) {
    const int64_t count = gyre_tensor_count(&model->layout);
    gyre_tensor *tensors = calloc((size_t)count, sizeof *tensors);
    gyre_safetensors_input *list = calloc((size_t)count, sizeof *list);
    gyre_status status;
    if (tensors && list) {
        for (int64_t i = 0; i < count; i++) {
            const gyre_tensor t = tensors[i] = gyre_tensor_at(&model->layout, i);
            list[i] = (gyre_safetensors_input){tensors[i].name, t.rank, {t.shape[0], t.shape[1]}, model->weights + t.offset};
        }
        status = gyre_safetensors_write(path, list, count, dtype, err);
    } else {
        status = gyre_fail(err, GYRE_ENOMEM, "model: no memory for %lld tensors (%s)", (long long)count, path);
    }
    free(tensors);
    free(list);
    return status;
}

gyre_status gyre_model_save_into(const gyre_model *model, const gyre_folder_replacement *folder, gyre_dtype dtype,
                                 gyre_error *err) {
    char path[PATH_MAX], *json;
    gyre_status status = gyre_model_config_to_json(&model->config, dtype, &json, err);
    if (status != GYRE_OK) return status;
    status = gyre_folder_write(folder, GYRE_CONFIG_FILE, json, err);
    free(json);
    if (status == GYRE_OK) status = gyre_folder_path(folder, GYRE_WEIGHTS_FILE, path, err);
    return status == GYRE_OK ? write_weights(model, path, dtype, err) : status;
}

gyre_status gyre_model_save(const gyre_model *model, const char *folder, gyre_dtype dtype, gyre_error *err) {
    if (!model || !folder) return gyre_fail(err, GYRE_EINVAL, "model: model and folder are needed (NULL given)");
    if (!model->weights)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "model: opened to be read, its weights are those of its files (%s)",
                         model->path);
    gyre_folder_replacement place;
    gyre_status status = gyre_folder_begin(&place, folder, err);
    if (status != GYRE_OK) return status;
    status = gyre_model_save_into(model, &place, dtype, err);
    if (status == GYRE_OK) status = gyre_folder_commit(&place, err);
    if (status != GYRE_OK) gyre_folder_discard(&place);
    return status;
}

/* -- what is inside -- */
const gyre_model_config *gyre_model_get_config(const gyre_model *model) {
    return &model->config;
}
const gyre_encoding *gyre_model_get_encoding(const gyre_model *model) {
    return model->encoding;
}
int64_t gyre_model_parameters(const gyre_model *model) {
    return model->network->parameter_count;
}
