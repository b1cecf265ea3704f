#include "model/architecture/weight_layout.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

/* Sizes come from files.  With at most 2^31 - 1 each and 2^40 weights in all, no product of two overflows int64. */
static const int64_t max_weights = (int64_t)1 << 40;

/* -- tensors of a layer -- */
static gyre_tensor_spec matrix(const char *name, int64_t rows, int64_t columns) {
    return (gyre_tensor_spec){name, {rows, columns}, 0, 2, -1, GYRE_TENSOR_PLAIN, NULL};
}

static gyre_tensor_spec norm(const char *name, int64_t dim) {
    return (gyre_tensor_spec){name, {dim, 1}, 0, 1, -1, GYRE_TENSOR_PLAIN, NULL};
}

static void gate_specs(const gyre_model_config *c, gyre_tensor_spec *layer) {
    const char *gate = "self_attn.fgate_proj";
    if (!(c->layer_parts & GYRE_LAYER_PART_FORGET_GATES)) return;
    layer[GYRE_WEIGHT_FORGET_GATE] = matrix(gate, c->heads, c->model_dim);
    layer[GYRE_WEIGHT_FORGET_GATE_BIAS] = (gyre_tensor_spec){gate, {c->heads, 1}, 0, 1, -1, GYRE_TENSOR_BIAS, NULL};
}

static void layer_specs(const gyre_model_config *c, gyre_tensor_spec *layer) {
    const int64_t q = gyre_projected_heads(c->layer_parts, c->heads) * gyre_query_dim(c), kv = c->kv_heads * c->head_dim;
    layer[GYRE_WEIGHT_ATTN_NORM] = norm("input_layernorm", c->model_dim);
    layer[GYRE_WEIGHT_Q] = matrix("self_attn.q_proj", q, c->model_dim);
    layer[GYRE_WEIGHT_K] = matrix("self_attn.k_proj", kv, c->model_dim);
    layer[GYRE_WEIGHT_V] = matrix("self_attn.v_proj", kv, c->model_dim);
    layer[GYRE_WEIGHT_O] = matrix("self_attn.o_proj", c->model_dim, c->heads * c->head_dim);
    layer[GYRE_WEIGHT_MLP_NORM] = norm("post_attention_layernorm", c->model_dim);
    layer[GYRE_WEIGHT_GATE] = matrix("mlp.gate_proj", c->mlp_dim, c->model_dim);
    layer[GYRE_WEIGHT_UP] = matrix("mlp.up_proj", c->mlp_dim, c->model_dim);
    layer[GYRE_WEIGHT_DOWN] = matrix("mlp.down_proj", c->model_dim, c->mlp_dim);
    gate_specs(c, layer);
}

static int has_vectors(gyre_table which) {
    return which == GYRE_TABLE_QUERY || which == GYRE_TABLE_KEY || which == GYRE_TABLE_VALUE;
}

/* out = how a table is stored in each layer.  name NULL: the encoding has no such table, or it shares another one. */
static gyre_tensor_spec table_spec(const gyre_model_config *c, const gyre_encoding *encoding, gyre_table which) {
    static const char *const names[GYRE_TABLE_COUNT] = {[GYRE_TABLE_QUERY] = "self_attn.position_query",
                                                        [GYRE_TABLE_KEY] = "self_attn.position_key",
                                                        [GYRE_TABLE_VALUE] = "self_attn.position_value",
                                                        [GYRE_TABLE_BIAS] = "self_attn.position_bias",
                                                        [GYRE_TABLE_CONTENT_BIAS] = "self_attn.position_content",
                                                        [GYRE_TABLE_POSITION_BIAS] = "self_attn.position_position"};
    const gyre_row_source source = gyre_encoding_row_source(encoding);
    const gyre_table_size *t = &encoding->table[which];
    const gyre_tensor_spec absent = {NULL, {0, 0}, 0, 0, -1, GYRE_TENSOR_PLAIN, NULL};
    if (t->rows == 0) return absent;
    if (source == GYRE_ROW_SOURCE_SHARED && which == GYRE_TABLE_KEY && encoding->table[GYRE_TABLE_QUERY].rows > 0)
        return absent;
    if (gyre_is_projected(source) && has_vectors(which)) return matrix(names[which], t->heads * t->channels, c->model_dim);
    return (gyre_tensor_spec){names[which], {t->heads * t->rows, t->channels}, 0, 2, which, GYRE_TENSOR_PLAIN, NULL};
}

/* A bias of the outputs would change nothing: softmax does not see a number that all keys of a row share. */
static void adaptive_specs(const gyre_model_config *c, int64_t units, gyre_tensor_spec *layer) {
    const int64_t inputs = gyre_adaptive_inputs_of(c->layer_parts, c->heads);
    layer[GYRE_WEIGHT_ADAPTIVE_HIDDEN] =
        (gyre_tensor_spec){"self_attn.adaptive.hidden", {units, inputs}, 0, 2, -1, GYRE_TENSOR_NETWORK, NULL};
    layer[GYRE_WEIGHT_ADAPTIVE_HIDDEN_BIAS] =
        (gyre_tensor_spec){"self_attn.adaptive.hidden", {units, 1}, 0, 1, -1, GYRE_TENSOR_NETWORK_BIAS, NULL};
    layer[GYRE_WEIGHT_ADAPTIVE_OUTPUT] =
        (gyre_tensor_spec){"self_attn.adaptive.output", {c->heads, units}, 0, 2, -1, GYRE_TENSOR_NETWORK, NULL};
}

/* The tensors of the part that makes queries and keys.  An encoding that does not rotate is refused later. */
static void head_part_specs(const gyre_model_config *c, const gyre_encoding *encoding, gyre_tensor_spec *layer) {
    const gyre_head_part *part = gyre_head_part_of(c->layer_parts);
    int64_t shapes[GYRE_PART_TENSORS][2];
    if (!part || !part->shapes || !gyre_encoding_rotates(encoding)) return;
    part->shapes(c, encoding, shapes);
    for (int i = 0; i < GYRE_PART_TENSORS && part->tensors[i].name; i++)
        layer[GYRE_WEIGHT_PART + i] = (gyre_tensor_spec){
            part->tensors[i].name, {shapes[i][0], shapes[i][1]}, 0, 2, -1, GYRE_TENSOR_PART, &part->tensors[i]};
}

/* Parts whose size the encoding says. */
static void sized_part_specs(const gyre_model_config *c, const gyre_encoding *encoding, gyre_tensor_spec *layer) {
    const gyre_config *p = &encoding->config;
    head_part_specs(c, encoding, layer);
    if (c->layer_parts & GYRE_LAYER_PART_CONTEXTUAL)
        layer[GYRE_WEIGHT_CONTEXTUAL] = (gyre_tensor_spec){
            "self_attn.contextual", {p->score.max_positions, c->head_dim}, 0, 2, -1, GYRE_TENSOR_EMBEDDINGS, NULL};
    if (c->layer_parts & GYRE_LAYER_PART_ADAPTIVE) adaptive_specs(c, p->score.hidden_units, layer);
}

/* out = rows of the trained embedding of positions, or 0. */
static int64_t position_rows(const gyre_encoding *encoding) {
    int64_t rows = 0;
    if (gyre_encoding_row_source(encoding) != GYRE_ROW_SOURCE_PROJECTED) return 0;
    for (int which = GYRE_TABLE_QUERY; which <= GYRE_TABLE_VALUE; which++)
        rows = encoding->table[which].rows > rows ? encoding->table[which].rows : rows;
    return rows;
}

static void position_specs(const gyre_model_config *c, const gyre_encoding *encoding, gyre_weight_layout *l) {
    const gyre_table_size *input = &encoding->table[GYRE_TABLE_INPUT];
    const int64_t rows = position_rows(encoding);
    l->row_source = gyre_encoding_row_source(encoding);
    sized_part_specs(c, encoding, l->layer);
    if (input->rows > 0)
        l->input = (gyre_tensor_spec){
            "model.embed_positions", {input->rows, input->channels}, 0, 2, GYRE_TABLE_INPUT, GYRE_TENSOR_PLAIN, NULL};
    if (rows > 0) l->relative_embedding = matrix("model.rel_embeddings", rows, c->model_dim);
    for (int which = GYRE_TABLE_QUERY; which < GYRE_TABLE_COUNT; which++)
        l->layer[GYRE_WEIGHT_FIRST_TABLE + which - GYRE_TABLE_QUERY] = table_spec(c, encoding, (gyre_table)which);
}

static int64_t set_offset(gyre_tensor_spec *spec, int64_t offset) {
    spec->offset = offset;
    return spec->name ? offset + spec->shape[0] * spec->shape[1] : offset;
}

/* out = the offset of the weights of a layer; of layer `layers`: their end. */
static int64_t layer_begin(const gyre_weight_layout *l, int64_t layer) {
    const int64_t lacking = layer < l->first_part_layer ? layer : l->first_part_layer;
    return l->layers_offset + layer * l->weights_per_layer - lacking * l->part_weights;
}

gyre_weight_layout gyre_weight_layout_of(const gyre_model_config *config, const gyre_encoding *encoding) {
    gyre_weight_layout l = {.embedding = matrix("model.embed_tokens", config->vocab, config->model_dim),
                            .final_norm = norm("model.norm", config->model_dim),
                            .layers = config->layers};
    layer_specs(config, l.layer);
    if (encoding) position_specs(config, encoding, &l);
    l.layers_offset = set_offset(&l.relative_embedding, set_offset(&l.input, set_offset(&l.embedding, 0)));
    for (int i = 0; i < GYRE_WEIGHTS_PER_LAYER; i++) {
        l.weights_per_layer = set_offset(&l.layer[i], l.weights_per_layer);
        l.tensors_per_layer += l.layer[i].name != NULL;
        l.part_weights += l.layer[i].part ? l.layer[i].shape[0] * l.layer[i].shape[1] : 0;
        l.part_tensors += l.layer[i].part != NULL;
    }
    l.first_part_layer = gyre_part_first_layer(config->layer_parts, config->layers);
    l.weight_count = set_offset(&l.final_norm, layer_begin(&l, l.layers));
    return l;
}

/* -- sizes -- */
static gyre_status check_product(const char *what, int64_t a, int64_t b, int64_t max, gyre_error *err) {
    if (a <= max / b) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "%s: %lld x %lld is too large (at most %lld)", what, (long long)a, (long long)b,
                     (long long)max);
}

/* heads x channels was bounded before.  The encoding bounds rows. */
static gyre_status check_tables(const gyre_model_config *c, const gyre_encoding *encoding, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int which = 0; which < GYRE_TABLE_COUNT && !status; which++) {
        const gyre_table_size *t = &encoding->table[which];
        const int64_t row_dim = t->channels > c->model_dim ? t->channels : c->model_dim;
        if (t->rows == 0) continue;
        status = check_product("heads x channels of a position table", t->heads, t->channels, INT32_MAX, err);
        if (!status)
            status = check_product("rows x channels of a position table", t->rows, t->heads * row_dim, max_weights / 8, err);
    }
    return status;
}

/* Rows of its tensors are at most sizes that were checked. */
static gyre_status check_head_part(const gyre_model_config *c, const gyre_encoding *encoding, gyre_error *err) {
    gyre_tensor_spec layer[GYRE_WEIGHTS_PER_LAYER] = {{.name = NULL}};
    gyre_status status = GYRE_OK;
    head_part_specs(c, encoding, layer);
    for (int i = GYRE_WEIGHT_PART; i <= GYRE_WEIGHT_PART_LAST && layer[i].name && !status; i++)
        status = check_product(layer[i].name, layer[i].shape[0], layer[i].shape[1], max_weights / GYRE_PART_TENSORS, err);
    return status;
}

gyre_status gyre_weight_layout_check(const gyre_model_config *c, const gyre_encoding *encoding, gyre_error *err) {
    gyre_status status = check_product("heads x head_dim", c->heads, gyre_query_dim(c), INT32_MAX, err);
    if (!status) status = check_product("vocab x width", c->vocab, c->model_dim, max_weights, err);
    if (!status)
        status = check_product("heads x head_dim x width", c->heads * gyre_query_dim(c), c->model_dim, max_weights, err);
    if (!status) status = check_product("hidden x width", c->mlp_dim, c->model_dim, max_weights, err);
    if (!status && encoding) status = check_tables(c, encoding, err);
    if (!status && encoding) status = check_head_part(c, encoding, err);
    if (status) return status;
    const gyre_model_config one = {.vocab = c->vocab,
                                   .model_dim = c->model_dim,
                                   .layers = 1,
                                   .heads = c->heads,
                                   .kv_heads = c->kv_heads,
                                   .head_dim = c->head_dim,
                                   .mlp_dim = c->mlp_dim,
                                   .layer_parts = c->layer_parts,
                                   .position = c->position};
    return check_product("layers x weights of a layer", c->layers, gyre_weight_layout_of(&one, encoding).weights_per_layer,
                         max_weights, err);
}

/* -- tensors -- */
int gyre_tensor_stays_float(const char *name) {
    return gyre_head_part_of_tensor(name) != NULL;
}

/* out = tensors of the layers before this one. */
static int64_t tensors_before(const gyre_weight_layout *l, int64_t layer) {
    const int64_t lacking = layer < l->first_part_layer ? layer : l->first_part_layer;
    return layer * l->tensors_per_layer - lacking * l->part_tensors;
}

int64_t gyre_tensor_count(const gyre_weight_layout *l) {
    return 2 + (l->input.name != NULL) + (l->relative_embedding.name != NULL) + tensors_before(l, l->layers);
}

/* Weight decay skips numbers with an absolute meaning: those added to scores, u and v, and a factor. */
static int has_decay(const gyre_tensor_spec *spec) {
    const int numbers = spec->table >= GYRE_TABLE_BIAS || (spec->table == GYRE_TABLE_INPUT && spec->shape[1] == 1);
    const gyre_tensor_purpose purpose = spec->purpose;
    if (spec->part) return spec->part->has_weight_decay;
    return spec->rank > 1 && !numbers &&
           (purpose == GYRE_TENSOR_PLAIN || purpose == GYRE_TENSOR_EMBEDDINGS || purpose == GYRE_TENSOR_NETWORK);
}

static const char *suffix(const gyre_tensor_spec *spec) {
    return spec->purpose == GYRE_TENSOR_BIAS || spec->purpose == GYRE_TENSOR_NETWORK_BIAS ? "bias" : "weight";
}

static gyre_tensor tensor_from_spec(const gyre_tensor_spec *spec, int64_t offset) {
    gyre_tensor out = {
        "", {spec->shape[0], spec->shape[1]}, spec->rank, offset, spec->table, has_decay(spec), spec->purpose, spec->part};
    snprintf(out.name, sizeof out.name, "%s.%s", spec->name, suffix(spec));
    return out;
}

static gyre_tensor layer_tensor_at(const gyre_weight_layout *l, int64_t layer, int64_t index) {
    int i = 0;
    for (int64_t seen = 0;; i++)
        if (l->layer[i].name && !(l->layer[i].part && layer < l->first_part_layer) && seen++ == index) break;
    gyre_tensor out = tensor_from_spec(&l->layer[i], gyre_layer_tensor_offset(l, layer, i));
    snprintf(out.name, sizeof out.name, "model.layers.%lld.%s.%s", (long long)layer, l->layer[i].name, suffix(&l->layer[i]));
    return out;
}

gyre_tensor gyre_tensor_at(const gyre_weight_layout *l, int64_t index) {
    const gyre_tensor_spec *first[] = {&l->embedding, &l->input, &l->relative_embedding};
    for (int i = 0; i < 3; i++)
        if (first[i]->name && index-- == 0) return tensor_from_spec(first[i], first[i]->offset);
    if (index == tensors_before(l, l->layers)) return tensor_from_spec(&l->final_norm, l->final_norm.offset);
    int64_t layer = index / l->tensors_per_layer;
    while (tensors_before(l, layer + 1) <= index)
        layer++;
    return layer_tensor_at(l, layer, index - tensors_before(l, layer));
}

int64_t gyre_layer_tensor_offset(const gyre_weight_layout *l, int64_t layer, int tensor) {
    const int lacks_part = layer < l->first_part_layer && tensor > GYRE_WEIGHT_PART_LAST;
    return layer_begin(l, layer) + l->layer[tensor].offset - (lacks_part ? l->part_weights : 0);
}

int64_t gyre_layer_at_offset(const gyre_weight_layout *l, int64_t offset) {
    int64_t layer = (offset - l->layers_offset) / l->weights_per_layer;
    if (offset < l->layers_offset || offset >= layer_begin(l, l->layers)) return -1;
    while (layer_begin(l, layer + 1) <= offset)
        layer++;
    return layer;
}
