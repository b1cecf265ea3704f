#include "convert/convert_source.h"
#include "gyre/gyre_fields.h"

#include "files/file_read.h"
#include "files/replace_folder.h"
#include "model/architecture/architecture_families.h"
#include "model/architecture/layer_part_keys.h"
#include "model/architecture/model_config_json.h"
#include "model/model.h"
#include "util/checkpoint_files.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* -- tensors -- */
static int by_name(const void *a, const void *b) {
    return strcmp(((const gyre_file_tensor *)a)->name, ((const gyre_file_tensor *)b)->name);
}

static gyre_status list_tensors(gyre_convert_source *s, gyre_error *err) {
    s->count = s->store ? gyre_tensor_store_count(s->store) : gyre_llama2c_count(s->checkpoint);
    s->tensors = calloc((size_t)s->count + 1, sizeof *s->tensors);
    if (!s->tensors) return gyre_fail(err, GYRE_ENOMEM, "%s: no memory", s->path);
    for (int64_t i = 0; i < s->count; i++)
        s->tensors[i] = s->store ? gyre_tensor_store_at(s->store, i) : gyre_llama2c_at(s->checkpoint, i);
    qsort(s->tensors, (size_t)s->count, sizeof *s->tensors, by_name);
    return GYRE_OK;
}

const gyre_file_tensor *gyre_convert_source_find(const gyre_convert_source *source, const char *name) {
    const gyre_file_tensor key = {.name = name};
    return bsearch(&key, source->tensors, (size_t)source->count, sizeof key, by_name);
}

/* *a = a llama of these sizes.  llama2.c and Gyre train nothing else. */
static void describe_llama(gyre_architecture *a, const gyre_model_config *config, int tied) {
    gyre_architecture_from_row(a, gyre_family_row_of("llama"));
    a->vocab = config->vocab;
    a->model_dim = config->model_dim;
    a->layers = config->layers;
    a->heads = config->heads;
    a->kv_heads = config->kv_heads;
    a->head_dim = config->head_dim;
    a->mlp_dim = config->mlp_dim;
    a->norm_epsilon = config->norm_epsilon;
    a->tied = tied;
}

/* -- opening -- */
static gyre_status open_llama2c(gyre_convert_source *s, gyre_error *err) {
    int tied;
    s->kind = GYRE_SOURCE_LLAMA2C;
    gyre_status status = gyre_llama2c_open(&s->checkpoint, s->path, err);
    if (status) return status;
    const gyre_model_config config = gyre_llama2c_config(s->checkpoint, &tied);
    describe_llama(&s->arch, &config, tied);
    s->has_architecture = 1;
    return GYRE_OK;
}

static gyre_status open_config(gyre_convert_source *s, gyre_error *err) {
    if (snprintf(s->config_path, sizeof s->config_path, "%s/" GYRE_CONFIG_FILE, s->path) >= PATH_MAX)
        return gyre_fail(err, GYRE_EIO, "path too long (%.200s...)", s->path);
    const gyre_status status = gyre_config_document_open(&s->config, s->config_path, err);
    return !status ? gyre_reading_from_document(&s->reading, &s->config, GYRE_PROFILE_DEFAULT, 0, err) : status;
}

static gyre_status open_source(gyre_convert_source *s, gyre_error *err) {
    struct stat info;
    int is_llama2c = 0;
    gyre_status status = gyre_model_path_check(s->path, err);
    if (!status) status = gyre_llama2c_find(&is_llama2c, s->path, err);
    if (!status && is_llama2c) return open_llama2c(s, err);
    if (!status) status = gyre_tensor_store_open(&s->store, s->path, err);
    if (status) return status;
    s->kind = gyre_tensor_store_gguf(s->store) ? GYRE_SOURCE_GGUF : GYRE_SOURCE_FOLDER;
    if (s->kind == GYRE_SOURCE_FOLDER && (stat(s->path, &info) != 0 || !S_ISDIR(info.st_mode)))
        return gyre_fail(err, GYRE_EINVAL,
                         "%s: tensors without a config.json are not enough; name the folder, with its config.json", s->path);
    return s->kind == GYRE_SOURCE_FOLDER ? open_config(s, err) : gyre_reading_open(&s->reading, s->path, NULL, err);
}

gyre_status gyre_convert_source_open(gyre_convert_source *out, const char *path, gyre_error *err) {
    *out = (gyre_convert_source){.path = path};
    gyre_status status = open_source(out, err);
    if (!status) status = list_tensors(out, err);
    if (status) gyre_convert_source_close(out);
    return status;
}

gyre_status gyre_convert_source_check(const gyre_convert_source *s, gyre_error *err) {
    return s->store ? gyre_tensor_store_check(s->store, err) : gyre_llama2c_check(s->checkpoint, err);
}

void gyre_convert_source_close(gyre_convert_source *s) {
    gyre_tensor_store_free(s->store);
    gyre_llama2c_free(s->checkpoint);
    gyre_reading_free(s->reading);
    gyre_config_document_free(&s->config);
    free(s->tensors);
    *s = (gyre_convert_source){0};
}

/* -- architecture -- */
/* What a llama lacks beside positions: the layers of one would compute something else. */
static gyre_status check_experiments(const gyre_model_config *config, const char *path, gyre_error *err) {
    const char *part = gyre_layer_part_key(config->layer_parts);
    const char *what = part                    ? part
                       : config->rotates_input ? "rotates_input"
                       : config->position_form ? "position_form"
                                               : NULL;
    if (!what) return GYRE_OK;
    return gyre_fail(err, GYRE_EUNSUPPORTED, "%s: layers of a llama have none, and no other format states it (%s)", what,
                     path);
}

/* A model that Gyre wrote is a llama except for its positions. */
static gyre_status native_architecture(gyre_convert_source *s, gyre_error *err) {
    gyre_model_config config = gyre_model_config_default();
    gyre_config_arrays arrays = {.slopes = NULL};
    const gyre_status status = gyre_model_config_read(&s->config, &config, &arrays, err);
    gyre_config_arrays_free(&arrays);
    if (status) return status;
    const gyre_status plain = check_experiments(&config, s->path, err);
    if (plain) return plain;
    describe_llama(&s->arch, &config, 1);
    snprintf(s->arch.family, sizeof s->arch.family, "gyre");
    return GYRE_OK;
}

gyre_status gyre_convert_source_architecture(gyre_convert_source *s, gyre_error *err) {
    gyre_status status = GYRE_OK;
    if (s->has_architecture) return GYRE_OK;
    if (s->kind == GYRE_SOURCE_GGUF)
        status = gyre_architecture_from_gguf(&s->arch, gyre_tensor_store_gguf(s->store), s->path, err);
    else if (strcmp(s->reading->model_type, "gyre") == 0)
        status = native_architecture(s, err);
    else
        status = gyre_architecture_from_config(&s->arch, &s->config, err);
    s->has_architecture = !status;
    return status;
}

/* Layers that differ only in their window rotate alike. */
static int same_rotation(const gyre_config *a, const gyre_config *b) {
    return a->kind == b->kind && a->head_dim == b->head_dim && a->rope.base == b->rope.base && a->rope.dim == b->rope.dim &&
           a->rope.first_channel == b->rope.first_channel && a->rope.layout == b->rope.layout &&
           a->rope.scaling == b->rope.scaling && a->rope.factor == b->rope.factor;
}

const gyre_layer_reading *gyre_convert_source_rotation(const gyre_convert_source *s) {
    if (!s->reading) return NULL;
    const gyre_layer_reading *first = s->reading->groups[0];
    for (int64_t i = 0; i < s->reading->groups_count; i++)
        if (!same_rotation(&first->config, &s->reading->groups[i]->config)) return NULL;
    return gyre_kind_has(first->config.kind, GYRE_TRAIT_ROTATES) ? first : NULL;
}
