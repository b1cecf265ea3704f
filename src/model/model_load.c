/* model_load.c: a model from a folder, its weights as floats so that it can be trained. */
#include "files/file_read.h"
#include "files/tensors/safetensors.h"
#include "model/architecture/model_config_json.h"
#include "model/model.h"
#include "util/checkpoint_files.h"
#include "util/error.h"
#include "util/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int gyre_model_is_implied(const char *tensor) {
    return strcmp(tensor, "lm_head.weight") == 0 || gyre_ends_with(tensor, ".rotary_emb.inv_freq");
}

static int has_tensor(const gyre_weight_layout *layout, const char *name) {
    for (int64_t i = 0; i < gyre_tensor_count(layout); i++)
        if (strcmp(gyre_tensor_at(layout, i).name, name) == 0) return 1;
    return 0;
}

/* Refuses weights that the config does not describe (a bias, an extra layer).  Ignoring them silently would give another
 * model. */
static gyre_status check_unknown_tensors(const gyre_weight_layout *layout, const gyre_safetensors *file, const char *path,
                                         gyre_error *err) {
    int64_t known = 0;
    const int64_t count = gyre_safetensors_count(file);
    for (int64_t i = 0; i < count; i++)
        known += !gyre_model_is_implied(gyre_safetensors_name(file, i));
    if (known == gyre_tensor_count(layout)) return GYRE_OK;
    int64_t i = 0;
    while (i + 1 < count &&
           (gyre_model_is_implied(gyre_safetensors_name(file, i)) || has_tensor(layout, gyre_safetensors_name(file, i))))
        i++;
    return gyre_fail(err, GYRE_EFORMAT, "%.100s: no tensor of the model that config.json describes (%s)",
                     gyre_safetensors_name(file, i), path);
}

static gyre_status check_shapes(const gyre_weight_layout *layout, const gyre_safetensors *file, gyre_error *err) {
    gyre_safetensors_view stored;
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; !status && i < gyre_tensor_count(layout); i++) {
        const gyre_tensor tensor = gyre_tensor_at(layout, i);
        status = gyre_safetensors_expect(file, tensor.name, tensor.shape, tensor.rank, &stored, err);
    }
    return status;
}

/* The sizes in config.json may be arbitrary, so shapes are compared with the file's before memory is allocated: those of
 * the plain decoder first, those of the position tables once the encoding exists. */
static gyre_status check_file(gyre_model *model, const gyre_model_config *config, const gyre_safetensors *file,
                              const char *path, gyre_error *err) {
    gyre_status status = gyre_model_check_sizes(config, err);
    if (!status) status = gyre_weight_layout_check(config, NULL, err);
    if (status) return status;
    const gyre_weight_layout plain = gyre_weight_layout_of(config, NULL);
    status = check_shapes(&plain, file, err);
    if (!status) status = gyre_model_init_layout(model, config, err);
    if (!status) status = check_shapes(&model->layout, file, err);
    return !status ? check_unknown_tensors(&model->layout, file, path, err) : status;
}

static gyre_status read_weights(gyre_model *model, const gyre_safetensors *file, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < gyre_tensor_count(&model->layout) && !status; i++) {
        const gyre_tensor tensor = gyre_tensor_at(&model->layout, i);
        status = gyre_safetensors_read(file, tensor.name, tensor.shape, tensor.rank, model->weights + tensor.offset, err);
    }
    return status;
}

/* Adds the path.  An impossible config (EINVAL) is a malformed file (EFORMAT) here. */
static gyre_status fail_with_path(gyre_status status, const gyre_error *why, const char *path, gyre_error *err) {
    return gyre_fail(err, status == GYRE_EINVAL ? GYRE_EFORMAT : status, "%s (%s)", why->text, path);
}

static gyre_status load_folder(gyre_model *model, const char *folder, const gyre_config_document *document, int to_read,
                               gyre_error *err) {
    char weights[PATH_MAX];
    gyre_model_config config;
    gyre_config_arrays arrays = {.slopes = NULL};
    gyre_safetensors *file = NULL;
    gyre_error why = {0, ""};
    gyre_status status = gyre_file_path(folder, GYRE_WEIGHTS_FILE, weights, err);
    if (!status) status = gyre_model_config_read(document, &config, &arrays, err);
    if (!status) status = gyre_safetensors_open(&file, weights, err);
    if (!status) {
        status = check_file(model, &config, file, weights, &why);
        if (status) status = fail_with_path(status, &why, document->path, err);
    }
    if (!status) status = gyre_model_allocate_weights(model, err);
    if (!status) status = gyre_model_attach_network(model, err);
    if (!status) status = to_read ? gyre_model_map_weights(model, folder, err) : read_weights(model, file, err);
    if (!status) status = gyre_safetensors_check(file, err);
    gyre_config_arrays_free(&arrays);
    gyre_safetensors_free(file);
    return status;
}

gyre_status gyre_model_open_native(gyre_model **out, const char *folder, const gyre_config_document *document, int to_read,
                                   gyre_error *err) {
    gyre_model *model = calloc(1, sizeof *model);
    if (!model) return gyre_fail(err, GYRE_ENOMEM, "model: no memory (%zu bytes)", sizeof *model);
    gyre_status status = load_folder(model, folder, document, to_read, err);
    if (!status && !(model->path = strdup(folder))) status = gyre_fail(err, GYRE_ENOMEM, "model: no memory (%s)", folder);
    if (!status)
        *out = model;
    else
        gyre_model_free(model);
    return status;
}

gyre_status gyre_model_open_to_train(gyre_model **out, const char *folder, gyre_error *err) {
    char path[PATH_MAX];
    gyre_config_document document;
    if (!out || !folder) return gyre_fail(err, GYRE_EINVAL, "model: out and folder are needed (NULL given)");
    gyre_status status = gyre_file_path(folder, GYRE_CONFIG_FILE, path, err);
    if (!status) status = gyre_config_document_open(&document, path, err);
    if (status) return status;
    status = gyre_model_open_native(out, folder, &document, 0, err);
    gyre_config_document_free(&document);
    return status;
}
