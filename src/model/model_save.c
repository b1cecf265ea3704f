/* model_save.c: a model's folder: config.json and model.safetensors. */
#include "files/replace_folder.h"
#include "files/tensors/safetensors.h"
#include "model/architecture/model_config_json.h"
#include "model/model.h"
#include "util/checkpoint_files.h"
#include "util/error.h"

#include <stdlib.h>

static gyre_status write_weights(const gyre_model *model, const char *path, gyre_dtype dtype, gyre_error *err) {
    const int64_t count = gyre_tensor_count(&model->layout);
    gyre_tensor *tensors = calloc((size_t)count, sizeof *tensors);
    gyre_safetensors_input *list = calloc((size_t)count, sizeof *list);
    gyre_status status;
    if (tensors && list) {
        for (int64_t i = 0; i < count; i++) {
            const gyre_tensor t = tensors[i] = gyre_tensor_at(&model->layout, i);
            list[i] = (gyre_safetensors_input){tensors[i].name,
                                               t.rank,
                                               {t.shape[0], t.shape[1]},
                                               model->weights + t.offset,
                                               gyre_tensor_stays_float(tensors[i].name)};
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
    if (status) return status;
    status = gyre_folder_write(folder, GYRE_CONFIG_FILE, json, err);
    free(json);
    if (!status) status = gyre_folder_path(folder, GYRE_WEIGHTS_FILE, path, err);
    return !status ? write_weights(model, path, dtype, err) : status;
}

gyre_status gyre_model_save(const gyre_model *model, const char *folder, gyre_dtype dtype, gyre_error *err) {
    if (!model || !folder) return gyre_fail(err, GYRE_EINVAL, "model: model and folder are needed (NULL given)");
    if (!model->weights || model->store)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "model: opened to be read, its weights are those of its files (%s)",
                         model->path);
    gyre_folder_replacement place;
    gyre_status status = gyre_folder_begin(&place, folder, err);
    if (status) return status;
    status = gyre_model_save_into(model, &place, dtype, err);
    if (!status) status = gyre_folder_commit(&place, err);
    if (status) gyre_folder_discard(&place);
    return status;
}
