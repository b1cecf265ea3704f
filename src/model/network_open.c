/* network_open.c: a network from a model's files. */
#include "core/encoding.h"
#include "files/file_read.h"
#include "model/network_groups.h"
#include "model/network_weights.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

/* The config.json beside the weights. */
static gyre_status config_path(const char *path, char out[PATH_MAX], gyre_error *err) {
    const size_t length = strlen(path);
    int written;
    if (length > 12 && strcmp(path + length - 12, ".safetensors") == 0) {
        const char *slash = strrchr(path, '/');
        written = snprintf(out, PATH_MAX, "%.*sconfig.json", slash ? (int)(slash - path + 1) : 0, path);
    } else {
        written = snprintf(out, PATH_MAX, "%s/config.json", path);
    }
    return written < PATH_MAX ? GYRE_OK : gyre_fail(err, GYRE_EIO, "config.json: path too long (%.200s...)", path);
}

/* Called before the weight files are opened, so that an unsupported model is reported before a broken file of it. */
static gyre_status load_architecture(gyre_network *n, const char *described, gyre_error *err) {
    char *json;
    size_t bytes;
    gyre_status status = gyre_file_read(described, &json, &bytes, err);
    if (status) return status;
    status = gyre_architecture_from_config(&n->arch, json, bytes, described, err);
    free(json);
    return status;
}

static gyre_status open_files(gyre_network *n, const char *path, gyre_profile profile, int64_t length, gyre_error *err) {
    const int is_gguf = gyre_file_starts_with(path, "GGUF", 4);
    char described[PATH_MAX];
    gyre_status status = is_gguf ? GYRE_OK : config_path(path, described, err);
    if (!status && !is_gguf) status = load_architecture(n, described, err);
    if (!status) status = gyre_tensor_store_open(&n->store, path, err);
    if (!status && is_gguf) status = gyre_architecture_from_gguf(&n->arch, gyre_tensor_store_gguf(n->store), path, err);
    if (!status) status = gyre_reading_open(&n->reading, is_gguf ? path : described, profile, length, err);
    return status;
}

static gyre_status load_network(gyre_network *n, gyre_error *err) {
    n->layer = calloc((size_t)n->arch.layers, sizeof *n->layer);
    n->group = calloc((size_t)n->reading->groups_count, sizeof *n->group);
    if (!n->layer || !n->group)
        return gyre_fail(err, GYRE_ENOMEM, "model: no memory for %lld layers", (long long)n->arch.layers);
    (void)gyre_network_set_head_layout(n);
    const gyre_status status = gyre_network_create_groups(n, err);
    return status ? status : gyre_network_load_weights(n, err);
}

gyre_status gyre_network_open(gyre_network **out, const char *path, gyre_profile profile, int64_t length, gyre_error *err) {
    gyre_network *n = calloc(1, sizeof *n);
    if (!n) return gyre_fail(err, GYRE_ENOMEM, "model: no memory (%s)", path);
    gyre_error local;
    gyre_status status = open_files(n, path, profile, length, err ? err : &local);
    if (!status) status = load_network(n, err ? err : &local);
    if (status)
        gyre_network_free(n);
    else
        *out = n;
    return status;
}
