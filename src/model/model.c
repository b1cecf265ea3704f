/* model.c: a model's memory: its config, the layout of its weights, and their network. */
#include "model/model.h"

#include <math.h>
#include <stdlib.h>

gyre_status gyre_model_check_sizes(const gyre_model_config *c, gyre_error *err) {
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

enum { MAX_CACHED_ANGLES = 65536 }; /* positions whose angles an encoding precomputes: 8 MiB for 16 pairs */

/* Bounds the memory that a config file can ask for: an encoding allocates an entry for each distance that has a row, and
 * some compute or project a vector for each. */
static gyre_status check_table_size(const gyre_model_config *c, gyre_error *err) {
    enum { MAX_DISTANCE = 1 << 20, MAX_NUMBERS = 1 << 26 };
    const int64_t distance = c->position.score.max_distance, width = c->position.score.width;
    if (distance > MAX_DISTANCE || width > MAX_DISTANCE)
        return gyre_fail(err, GYRE_EINVAL, "score.%s: %lld is past %d (model)",
                         distance > MAX_DISTANCE ? "max_distance" : "width",
                         (long long)(distance > MAX_DISTANCE ? distance : width), MAX_DISTANCE);
    if ((2 * distance + 1) <= MAX_NUMBERS / c->layers / c->heads / c->head_dim) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "score.max_distance: %lld asks for more than %d numbers in tables (model)",
                     (long long)distance, MAX_NUMBERS);
}

gyre_status gyre_model_init_layout(gyre_model *model, const gyre_model_config *config, gyre_error *err) {
    if (config->size != sizeof *config)
        return gyre_fail(err, GYRE_EINVAL, "size: %zu is not %zu, set by GYRE_MODEL_CONFIG_INIT (model)", config->size,
                         sizeof *config);
    gyre_config position = config->position;
    position.head_dim = config->head_dim;
    position.heads = config->heads;
    position.input.dim = config->model_dim;
    /* Training, and reading up to the trained length, then compute no sines. */
    if (!position.rope.table_positions && position.trained_length <= MAX_CACHED_ANGLES)
        position.rope.table_positions = position.trained_length;
    gyre_status status = gyre_model_check_sizes(config, err);
    if (status == GYRE_OK) status = gyre_weight_layout_check(config, NULL, err);
    if (status == GYRE_OK) status = check_table_size(config, err);
    if (status == GYRE_OK) status = gyre_encoding_create(&model->encoding, &position, NULL, err);
    if (status != GYRE_OK) return status;
    model->config = *config;
    model->config.position = *gyre_encoding_get_config(model->encoding);
    /* No rows without a table, so that equal models have equal configs. */
    if (model->encoding->table[GYRE_TABLE_INPUT].rows != position.input.positions)
        model->config.position.input.positions = 0;
    status = gyre_weight_layout_check(&model->config, model->encoding, err);
    if (status != GYRE_OK) return status;
    model->layout = gyre_weight_layout_of(&model->config, model->encoding);
    model->weight_count = model->layout.weight_count;
    return GYRE_OK;
}

gyre_status gyre_model_allocate_weights(gyre_model *model, gyre_error *err) {
    const uint64_t bytes = ((uint64_t)model->weight_count * sizeof(float) + 63) / 64 * 64;
    model->weights = bytes <= SIZE_MAX ? aligned_alloc(64, (size_t)bytes) : NULL;
    if (model->weights) return GYRE_OK;
    return gyre_fail(err, GYRE_ENOMEM, "weights: no memory for %lld of them (model)", (long long)model->weight_count);
}

gyre_status gyre_model_attach_network(gyre_model *model, gyre_error *err) {
    return gyre_network_from_weights(&model->network, &model->config, &model->layout, model->weights, model->encoding, err);
}

gyre_status gyre_model_allocate(gyre_model **out, const gyre_model_config *config, gyre_error *err) {
    gyre_model *model = calloc(1, sizeof *model);
    if (!model) return gyre_fail(err, GYRE_ENOMEM, "model: no memory (%zu bytes)", sizeof *model);
    gyre_status status = gyre_model_init_layout(model, config, err);
    if (status == GYRE_OK) status = gyre_model_allocate_weights(model, err);
    if (status == GYRE_OK) status = gyre_model_attach_network(model, err);
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

const gyre_model_config *gyre_model_get_config(const gyre_model *model) {
    return &model->config;
}

const gyre_encoding *gyre_model_get_encoding(const gyre_model *model) {
    return model->encoding;
}

int64_t gyre_model_parameters(const gyre_model *model) {
    return model->network->parameter_count;
}
