/* network_open.c: a network from a model's files. */
#include "model/network_groups.h"
#include "model/weights/network_weights.h"
#include "util/error.h"

#include <stdlib.h>

/* Reads the config before the weight files are opened, so that an unsupported model is reported before a broken file of
 * it. */
static gyre_status open_files(gyre_network *n, const char *path, const gyre_config_document *config, gyre_profile profile,
                              int64_t length, gyre_error *err) {
    gyre_status status = config ? gyre_architecture_from_config(&n->arch, config, err) : GYRE_OK;
    if (!status) status = gyre_tensor_store_open(&n->store, path, err);
    n->mapped = n->store;
    if (!status && !config) status = gyre_architecture_from_gguf(&n->arch, gyre_tensor_store_gguf(n->store), path, err);
    if (status) return status;
    return config ? gyre_reading_from_document(&n->reading, config, profile, length, err)
                  : gyre_reading_open(&n->reading, path,
                                      GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = length), err);
}

static gyre_status load_network(gyre_network *n, gyre_error *err) {
    n->layer = calloc((size_t)n->arch.layers, sizeof *n->layer);
    n->group = calloc((size_t)n->reading->groups_count, sizeof *n->group);
    if (!n->layer || !n->group)
        return gyre_fail(err, GYRE_ENOMEM, "model: no memory for %lld layers", (long long)n->arch.layers);
    const gyre_status status = gyre_network_create_groups(n, err);
    return status ? status : gyre_network_load_weights(n, err);
}

gyre_status gyre_network_open(gyre_network **out, const char *path, const gyre_config_document *config, gyre_profile profile,
                              int64_t length, gyre_error *err) {
    gyre_network *n = calloc(1, sizeof *n);
    if (!n) return gyre_fail(err, GYRE_ENOMEM, "model: no memory (%s)", path);
    gyre_error local;
    gyre_status status = open_files(n, path, config, profile, length, err ? err : &local);
    if (!status) status = load_network(n, err ? err : &local);
    if (status)
        gyre_network_free(n);
    else
        *out = n;
    return status;
}
