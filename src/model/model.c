/* model.c: a model's memory: its config, the layout of its weights, and their network. */
#include "model/model.h"
#include "core/encoding.h"
#include "core/sized.h"
#include "model/input_positions.h"
#include "model/network_groups.h"
#include "util/error.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_SCORE_SIZE = 1 << 20 }; /* of a size of score */

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
    const int64_t channels = c->position.score.relative_channels; /* gyre_query_dim counts them before an encoding checks */
    if (channels < 0 || channels > MAX_SCORE_SIZE)
        return gyre_fail(err, GYRE_EINVAL, "score.relative_channels: %lld is outside 0 .. %d (model)", (long long)channels,
                         MAX_SCORE_SIZE);
    if (c->heads % c->kv_heads != 0)
        return gyre_fail(err, GYRE_EINVAL, "heads: %lld is not a multiple of kv_heads %lld (model)", (long long)c->heads,
                         (long long)c->kv_heads);
    if (!(c->norm_epsilon > 0.0) || !isfinite(c->norm_epsilon))
        return gyre_fail(err, GYRE_EINVAL, "norm_epsilon: %g is not above 0 (model)", c->norm_epsilon);
    return GYRE_OK;
}

enum { MAX_CACHED_ANGLES = 65536 }; /* positions whose angles an encoding precomputes: 8 MiB for 16 pairs */

/* Layers whose attention is a separate call. */
static gyre_status check_own_attention(const gyre_model_config *c, const gyre_encoding *encoding, gyre_error *err) {
    enum { MOST_UNITS = 65536 };
    const char *needs = gyre_own_attention_needs(c->layer_parts, encoding);
    if (needs) return gyre_fail(err, GYRE_EINVAL, "layer_parts: %s (model)", needs);
    if (!(c->layer_parts & GYRE_LAYER_PART_ADAPTIVE) || c->position.score.hidden_units <= MOST_UNITS) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "score.hidden_units: %lld is past %d (model)",
                     (long long)c->position.score.hidden_units, MOST_UNITS);
}

/* What the parts of layers need of the rest of the config. */
static gyre_status check_parts(const gyre_model_config *c, const gyre_encoding *encoding, gyre_error *err) {
    const int64_t parts =
        GYRE_LAYER_PART_FORGET_GATES | GYRE_LAYER_PART_CONTEXTUAL | GYRE_LAYER_PARTS_ADAPTIVE | gyre_head_parts_all();
    if (c->layer_parts & ~parts)
        return gyre_fail(err, GYRE_EINVAL, "layer_parts: %lld is not a set of gyre_layer_part (model)",
                         (long long)c->layer_parts);
    const gyre_status status = gyre_head_part_check(c, encoding, err);
    return status ? status : check_own_attention(c, encoding, err);
}

/* What experiments need of the rest of the config. */
static gyre_status check_experiments(const gyre_model_config *c, const gyre_encoding *encoding, gyre_error *err) {
    const gyre_config *p = &c->position;
    if (c->position_form < 0 || c->position_form > GYRE_POSITION_FORM_CONCATENATED)
        return gyre_fail(err, GYRE_EINVAL, "position_form: %lld is not a gyre_position_form (model)",
                         (long long)c->position_form);
    const int plain = encoding->scheme->input_row && p->input.layout == GYRE_SINUSOID_INTERLEAVED &&
                      encoding->table[GYRE_TABLE_INPUT].rows == 0;
    if (c->position_form != GYRE_POSITION_FORM_SUM && (!plain || c->model_dim % 8 || c->model_dim > GYRE_MAX_FORMED_DIM))
        return gyre_fail(
            err, GYRE_EINVAL,
            "position_form: needs a sinusoid in its default layout and a width that 8 divides, up to %d (model)",
            GYRE_MAX_FORMED_DIM);
    if (c->shared_tables && gyre_is_projected(gyre_encoding_row_source(encoding)))
        return gyre_fail(err, GYRE_EINVAL, "shared_tables: the tables of %s are projected by each layer (model)",
                         gyre_kind_name(p->kind));
    const int rotates = gyre_encoding_rotates(encoding) && gyre_axes_of(encoding) == 1 && !p->rope.far &&
                        p->rope.xpos_base == 0 && p->query.temperature == GYRE_TEMPERATURE_NONE &&
                        c->model_dim % c->head_dim == 0;
    if (c->rotates_input && !rotates)
        return gyre_fail(err, GYRE_EINVAL,
                         "rotates_input: needs a plain rotation and a width that is a multiple of head_dim (model)");
    return GYRE_OK;
}

/* Bounds the memory that a config file can ask for: an encoding allocates an entry for each distance that has a row, and
 * some compute or project a vector for each. */
static gyre_status check_table_size(const gyre_model_config *c, gyre_error *err) {
    enum { MAX_NUMBERS = 1 << 26 };
    const struct gyre_score_config *score = &c->position.score;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"max_distance", score->max_distance},
                 {"max_positions", score->max_positions},
                 {"hidden_units", score->hidden_units},
                 {"sinusoid_dim", score->sinusoid_dim}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value > MAX_SCORE_SIZE)
            return gyre_fail(err, GYRE_EINVAL, "score.%s: %lld is past %d (model)", sizes[i].name, (long long)sizes[i].value,
                             MAX_SCORE_SIZE);
    const int positions = score->max_positions > score->max_distance;
    const int64_t reach = positions ? score->max_positions : score->max_distance;
    if ((2 * reach + 1) <= MAX_NUMBERS / c->layers / c->heads / c->head_dim) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "score.%s: %lld asks for more than %d numbers in tables (model)",
                     positions ? "max_positions" : "max_distance", (long long)reach, MAX_NUMBERS);
}

/* -- bases of layers -- */
static gyre_status check_layer_bases(const gyre_model_config *c, gyre_error *err) {
    const gyre_config *p = &c->position;
    if (!c->layer_bases || c->layer_bases_count < 1 || c->layer_bases_count > c->layers)
        return gyre_fail(err, GYRE_EINVAL, "layer_bases: a pattern of %lld, and the model has %lld layers (model)",
                         (long long)(c->layer_bases ? c->layer_bases_count : 0), (long long)c->layers);
    const int plain =
        gyre_kind_has(p->kind, GYRE_TRAIT_ROTATES) && !p->rope.frequencies && p->query.temperature == GYRE_TEMPERATURE_NONE;
    if (!plain || c->rotates_input || (c->layer_parts & ~(int64_t)GYRE_LAYER_PART_FORGET_GATES))
        return gyre_fail(err, GYRE_EINVAL,
                         "layer_bases: need a rotation of queries and keys by a base, without a temperature and trained "
                         "parts (model)");
    for (int64_t i = 0; i < c->layer_bases_count; i++)
        if (!(c->layer_bases[i] == 0 || (c->layer_bases[i] > 1 && isfinite(c->layer_bases[i]))))
            return gyre_fail(err, GYRE_EINVAL, "layer_bases: %g of layer %lld is neither 0 nor above 1 (model)",
                             c->layer_bases[i], (long long)i);
    return GYRE_OK;
}

/* out = how many of list[0 .. n - 1] are different; one more than the most, if there are more. */
static int count_different(const double *list, int64_t n) {
    double found[GYRE_MAX_BASE_GROUPS + 1];
    int count = 0;
    for (int64_t i = 0; i < n && count <= GYRE_MAX_BASE_GROUPS; i++) {
        int k = 0;
        while (k < count && found[k] != list[i])
            k++;
        if (k == count) found[count++] = list[i];
    }
    return count;
}

/* Sets the bases of the model's layers, and that of its position to the first that rotates. */
static gyre_status set_layer_bases(gyre_model *model, gyre_model_config *c, gyre_error *err) {
    if (!c->layer_bases && !c->layer_bases_count) return GYRE_OK;
    const gyre_status status = check_layer_bases(c, err);
    if (status) return status;
    const int different = count_different(c->layer_bases, c->layer_bases_count);
    double first = 0;
    for (int64_t i = 0; i < c->layer_bases_count && first == 0; i++)
        first = c->layer_bases[i];
    if (first == 0) return gyre_fail(err, GYRE_EINVAL, "layer_bases: all are 0, and no layer rotates (model)");
    if (different > GYRE_MAX_BASE_GROUPS)
        return gyre_fail(err, GYRE_EINVAL, "layer_bases: more than %d different ones (model)", GYRE_MAX_BASE_GROUPS);
    if (c->position.rope.base != 0 && c->position.rope.base != first)
        return gyre_fail(err, GYRE_EINVAL, "rope.base: %g, but the first of layer_bases that rotates is %g (model)",
                         c->position.rope.base, first);
    c->position.rope.base = first;
    if (different > 1) model->layer_bases = calloc((size_t)c->layers, sizeof *model->layer_bases);
    if (different > 1 && !model->layer_bases)
        return gyre_fail(err, GYRE_ENOMEM, "model: no memory for %lld layers", (long long)c->layers);
    for (int64_t i = 0; model->layer_bases && i < c->layers; i++)
        model->layer_bases[i] = c->layer_bases[i % c->layer_bases_count];
    c->layer_bases = model->layer_bases;
    c->layer_bases_count = model->layer_bases ? c->layers : 0;
    return GYRE_OK;
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
    /* Position 0 needs one more than the trained length; the paper of CoPE has 64. */
    if ((c->layer_parts & GYRE_LAYER_PART_CONTEXTUAL) && !c->position.score.max_positions)
        c->position.score.max_positions =
            c->position.trained_length > 0 && c->position.trained_length < 63 ? c->position.trained_length + 1 : 64;
    if ((c->layer_parts & GYRE_LAYER_PART_ADAPTIVE) && !c->position.score.hidden_units) c->position.score.hidden_units = 32;
    if (gyre_kind_has(c->position.kind, GYRE_TRAIT_QUERY_VECTORS) && !c->position.score.relative_channels)
        c->position.score.relative_channels = GYRE_RELATIVE_CHANNELS;
}

gyre_model_config gyre_model_config_default(void) {
    gyre_model_config config = GYRE_INIT(gyre_model_config);
    gyre_model_config_complete(&config);
    return config;
}

gyre_status gyre_model_init_layout(gyre_model *model, const gyre_model_config *given, gyre_error *err) {
    gyre_model_config own, *config = &own;
    if (gyre_sized_read(&own, sizeof own, given, "gyre_model_config", err)) return GYRE_EINVAL;
    gyre_model_config_complete(config);
    gyre_status status = gyre_model_check_sizes(config, err);
    if (!status) status = set_layer_bases(model, config, err);
    if (status) return status;
    gyre_config position = config->position;
    position.head_dim = gyre_rotated_head_dim(config);
    position.heads = config->heads;
    position.input.dim = config->model_dim;
    /* Training, and reading up to the trained length, then compute no sines. */
    if (!position.rope.table_positions && position.trained_length <= MAX_CACHED_ANGLES)
        position.rope.table_positions = position.trained_length;
    status = gyre_weight_layout_check(config, NULL, err);
    if (!status) status = check_table_size(config, err);
    if (!status) status = gyre_encoding_create(&model->encoding, &position, NULL, err);
    if (status) return status;
    model->config = *config;
    model->config.position = *gyre_encoding_get_config(model->encoding);
    /* No rows without a table, so that equal models have equal configs. */
    if (model->encoding->table[GYRE_TABLE_INPUT].rows != position.input.positions)
        model->config.position.input.positions = 0;
    status = check_experiments(&model->config, model->encoding, err);
    if (!status) status = check_parts(&model->config, model->encoding, err);
    if (!status) status = gyre_weight_layout_check(&model->config, model->encoding, err);
    if (status) return status;
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
    if (!status) status = gyre_model_allocate_weights(model, err);
    if (!status) status = gyre_model_attach_network(model, err);
    if (!status)
        *out = model;
    else
        gyre_model_free(model);
    return status;
}

void gyre_model_free(gyre_model *model) {
    if (!model) return;
    const int owns_encoding = !model->network || !model->network->store;
    gyre_network_free(model->network);
    if (owns_encoding) gyre_encoding_free(model->encoding);
    gyre_tensor_store_free(model->store);
    free(model->layer_bases);
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

gyre_cview gyre_model_get_input_table(const gyre_model *model) {
    return model->network->input;
}

gyre_cview gyre_model_get_bias_table(const gyre_model *model, int64_t layer) {
    const gyre_table_size *size = &model->encoding->table[GYRE_TABLE_BIAS];
    const int tensor = GYRE_WEIGHT_FIRST_TABLE + (GYRE_TABLE_BIAS - GYRE_TABLE_QUERY);
    const int has = model->weights && size->rows > 0 && layer >= 0 && layer < model->config.layers;
    if (!has) return gyre_cdense(NULL, GYRE_DTYPE_F32, 0, 0, 0, 0);
    const int64_t of = model->config.shared_tables ? 0 : layer;
    return gyre_cdense(model->weights + gyre_layer_tensor_offset(&model->layout, of, tensor), GYRE_DTYPE_F32, 1, size->heads,
                       size->rows, size->channels);
}

int64_t gyre_model_parameters(const gyre_model *model) {
    return model->network->parameter_count;
}
