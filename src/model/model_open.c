/* model_open.c: a model opened to be read: its files are mapped and its weights stay in them. */
#include "core/sized.h"
#include "model/model.h"
#include "util/error.h"

#include "files/file_read.h"
#include "files/gguf.h"
#include "util/checkpoint_files.h"
#include "util/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

gyre_status gyre_model_config_path(const char *path, char out[PATH_MAX], gyre_error *err) {
    const int is_file = gyre_ends_with(path, ".safetensors");
    const int folder = is_file ? (int)(gyre_path_name(path) - path) : (int)strlen(path);
    if (snprintf(out, PATH_MAX, "%.*s%s" GYRE_CONFIG_FILE, folder, path, is_file ? "" : "/") < PATH_MAX) return GYRE_OK;
    return gyre_fail(err, GYRE_EIO, "config.json: path too long (%.200s...)", path);
}

int gyre_model_is_native(const char *path, const gyre_config_document *config) {
    struct stat info;
    const char *type = json_string_value(json_object_get(config->root, "model_type"));
    /* A path that cannot be examined counts as the folder: opening it reports the reason. */
    return type && strcmp(type, "gyre") == 0 && (stat(path, &info) != 0 || S_ISDIR(info.st_mode));
}

static void fill_config(gyre_model *model) {
    const gyre_architecture *a = &model->network->arch;
    model->encoding = model->network->group[model->network->main_group].encoding;
    model->config = gyre_model_config_default();
    model->config.vocab = a->vocab;
    model->config.model_dim = a->model_dim;
    model->config.layers = a->layers;
    model->config.heads = a->heads;
    model->config.kv_heads = a->kv_heads;
    model->config.head_dim = a->head_dim;
    model->config.mlp_dim = a->mlp_dim;
    model->config.norm_epsilon = a->norm_epsilon;
    model->config.position = *gyre_encoding_get_config(model->encoding);
}

/* config: NULL for a GGUF. */
static gyre_status open_network(gyre_model **out, const char *path, const gyre_config_document *config, gyre_profile profile,
                                int64_t length, gyre_error *err) {
    gyre_model *model = calloc(1, sizeof *model);
    if (!model || !(model->path = strdup(path))) {
        free(model);
        return gyre_fail(err, GYRE_ENOMEM, "model: no memory (%zu bytes)", sizeof *model);
    }
    const gyre_status status = gyre_network_open(&model->network, path, config, profile, length, err);
    if (status) {
        gyre_model_free(model);
        return status;
    }
    fill_config(model);
    *out = model;
    return GYRE_OK;
}

/* *config = that of a model that is no GGUF; described = its path, which *config refers to. */
static gyre_status open_document(gyre_config_document *config, const char *path, char described[PATH_MAX], gyre_error *err) {
    gyre_status status = gyre_model_path_check(path, err);
    if (!status) status = gyre_model_config_path(path, described, err);
    return status ? status : gyre_config_document_open(config, described, err);
}

gyre_status gyre_model_open(gyre_model **out, const char *path, const gyre_reading_options *options, gyre_error *err) {
    char described[PATH_MAX];
    gyre_config_document config;
    gyre_reading_options read;
    if (!out || !path) return gyre_fail(err, GYRE_EINVAL, "model: out and path are needed (NULL given)");
    int is_gguf;
    gyre_status status = gyre_reading_options_read(&read, options, err);
    if (!status) status = gyre_gguf_is_file(path, &is_gguf, err);
    if (status) return status;
    if (is_gguf) return open_network(out, path, NULL, read.profile, read.context_length, err);
    status = open_document(&config, path, described, err);
    if (status) return status;
    status = gyre_model_is_native(path, &config) ? gyre_model_open_native(out, path, &config, 1, err)
                                                 : open_network(out, path, &config, read.profile, read.context_length, err);
    gyre_config_document_free(&config);
    return status;
}

static gyre_status check_gguf(const char *path, gyre_error *err) {
    gyre_architecture arch;
    gyre_tensor_store *store;
    gyre_status status = gyre_tensor_store_open(&store, path, err);
    if (status) return status;
    status = gyre_architecture_from_gguf(&arch, gyre_tensor_store_gguf(store), path, err);
    gyre_tensor_store_free(store);
    return status;
}

gyre_status gyre_model_check(const char *path, gyre_error *err) {
    char described[PATH_MAX];
    gyre_config_document config;
    gyre_architecture arch;
    int is_gguf;
    if (!path) return gyre_fail(err, GYRE_EINVAL, "path: is NULL (gyre_model_check)");
    gyre_status status = gyre_gguf_is_file(path, &is_gguf, err);
    if (!status && is_gguf) return check_gguf(path, err);
    if (!status) status = open_document(&config, path, described, err);
    if (status) return status;
    if (!gyre_model_is_native(path, &config)) status = gyre_architecture_from_config(&arch, &config, err);
    gyre_config_document_free(&config);
    return status;
}

gyre_status gyre_model_position_for_length(const gyre_model *model, int64_t length, gyre_config *out, gyre_reading **reading,
                                           gyre_error *err) {
    const gyre_network *n = model->network;
    const gyre_config *own = gyre_encoding_get_config(model->encoding);
    gyre_reading *read = NULL;
    gyre_config given;
    if (gyre_sized_read(&given, sizeof given, out, "gyre_config", err)) return GYRE_EINVAL;
    if (n->reading) {
        const gyre_status status = gyre_reading_open(
            &read, n->reading->path,
            GYRE_ARGS(gyre_reading_options, .profile = n->reading->profile, .context_length = length), err);
        if (status) return status;
        if (read->groups_count != n->groups) {
            gyre_reading_free(read);
            return gyre_fail(err, GYRE_EFORMAT, "positions: not the layers that were there when the model was opened (%s)",
                             n->reading->path);
        }
    }
    gyre_config config = read ? read->groups[n->main_group]->config : *own;
    config.heads = own->heads;
    config.head_dim = own->head_dim;
    config.input.dim = own->input.dim;
    gyre_sized_write(out, &config);
    *reading = read;
    return GYRE_OK;
}

/* -- source -- */
/* out = the type that stores most weights of the layers.  Files mix types and are called after that one. */
static const char *stored_type(const gyre_network *n) {
    int64_t count[GYRE_STORED_OTHER] = {0};
    int type_of_most = GYRE_STORED_F32;
    for (int64_t i = 0; i < n->arch.layers; i++) {
        const gyre_affine *linears[GYRE_LAYER_LINEARS];
        gyre_network_layer_linears(&n->layer[i], linears);
        for (size_t m = 0; m < GYRE_LAYER_LINEARS; m++)
            if (linears[m]->w.out > 0) count[linears[m]->w.type] += linears[m]->w.out * linears[m]->w.in;
    }
    for (int type = 0; type < GYRE_STORED_OTHER; type++)
        if (count[type] > count[type_of_most]) type_of_most = type;
    return gyre_stored_type_name((gyre_stored_type)type_of_most);
}

gyre_status gyre_model_get_source(const gyre_model *model, gyre_model_source *out) {
    gyre_model_source source;
    if (!model || gyre_sized_read(&source, sizeof source, out, "gyre_model_source", NULL)) return GYRE_EINVAL;
    const gyre_network *n = model->network;
    const int is_gguf = n->store && gyre_tensor_store_gguf(n->store);
    struct stat info;
    char weights[PATH_MAX];
    source = (gyre_model_source){.size = source.size,
                                 .path = model->path,
                                 .family = n->arch.family,
                                 .format = is_gguf       ? "GGUF"
                                           : model->path ? "safetensors"
                                                         : "memory",
                                 .profile = n->reading ? n->reading->profile : GYRE_PROFILE_HF_5,
                                 .bytes = n->store ? gyre_tensor_store_bytes(n->store) : 0,
                                 .weight_bytes = n->weight_bytes,
                                 .stored = stored_type(n)};
    if (!n->store && model->path &&
        snprintf(weights, sizeof weights, "%s/model.safetensors", model->path) < (int)sizeof weights &&
        stat(weights, &info) == 0)
        source.bytes = (int64_t)info.st_size;
    gyre_sized_write(out, &source);
    return GYRE_OK;
}

gyre_status gyre_model_hash(const gyre_model *model, uint64_t *out, gyre_error *err) {
    *out = 0;
    if (model->network->store) return gyre_tensor_store_hash(model->network->store, out, err);
    if (!model->path) return GYRE_OK;
    gyre_tensor_store *store;
    gyre_status status = gyre_tensor_store_open(&store, model->path, err);
    if (status) return status;
    status = gyre_tensor_store_hash(store, out, err);
    gyre_tensor_store_free(store);
    return status;
}
