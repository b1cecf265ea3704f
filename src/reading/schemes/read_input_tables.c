/* read_input_tables.c: models that add a learned table or a sinusoid to the token embeddings. */
#include "core/config/config_names.h"
#include "reading/schemes/class_defaults.h"

#include <inttypes.h>
#include <string.h>

/* An encoder, a decoder, or a model that is one of them, with the names of its sizes. */
typedef struct stack {
    const char *name;
    const char *heads[6], *positions[6];
} stack;
static const stack single_stack = {
    "all",
    {"num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads", NULL},
    {"max_position_embeddings", "n_positions", "max_seq_len", NULL}};
static const stack stacks[2] = {
    {"encoder",
     {"encoder_attention_heads", "num_attention_heads", NULL},
     {"max_encoder_position_embeddings", "max_source_positions", "max_position_embeddings", NULL}},
    {"decoder",
     {"decoder_attention_heads", "num_attention_heads", NULL},
     {"max_decoder_position_embeddings", "max_target_positions", "max_position_embeddings", NULL}}};

/* out = the object that describes the text model: CLIP and SigLIP nest it. */
static gyre_scope text_scope(const gyre_scope *root) {
    return gyre_scope_value(root, "text_config") ? gyre_scope_child(root, "text_config") : *root;
}

/* -- learned -- */
/* The configs of GPT-2 and its relatives may switch the scaling of scores off. */
static void gpt2_scale(const gyre_config_reader *r) {
    if (!gyre_scope_bool(r->root, "scale_attn_weights", 1))
        gyre_reader_set_scale(r, "scale_attn_weights", GYRE_ORIGIN_FILE, "false: scores are not scaled", 1.0);
    if (gyre_scope_bool(r->root, "scale_attn_by_inverse_layer_idx", 0))
        gyre_scope_warn(r->root, "scale_attn_by_inverse_layer_idx",
                        "layer i also divides its scores by i + 1, which one group cannot say");
}

/* Classes other than BERT's have a table whatever this key says. */
static void warn_of_type(const gyre_config_reader *r) {
    const char *key = "position_embedding_type", *type = gyre_scope_string(r->root, key, "absolute");
    if (strcmp(type, "absolute") != 0 && strcmp(type, "learned") != 0)
        gyre_scope_warn(r->root, key, "\"%.40s\" is ignored: %s has an absolute table", type, r->family->model_type);
}

static void learned_stack(gyre_config_reader *r, const stack *s) {
    warn_of_type(r);
    gyre_reader_add_group(r, s->name, "learned");
    gyre_reader_read_head_sizes(r, s->heads);
    gyre_reader_read_learned_table(r, s->positions, r->defaults->first_row);
    gpt2_scale(r);
}

void gyre_read_learned(const gyre_family *family, const gyre_scope *root) {
    const gyre_scope text = text_scope(root);
    gyre_config_reader r = gyre_reader_begin(family, &text);
    if (strcmp(family->model_type, "trocr") == 0 && !gyre_scope_bool(&text, "use_learned_position_embeddings", 1)) {
        gyre_read_sinusoidal(family, root);
        return;
    }
    if (!(r.defaults->traits & GYRE_ENCODER_DECODER)) {
        learned_stack(&r, &single_stack);
        return;
    }
    for (int i = 0; i < 2; i++)
        learned_stack(&r, &stacks[i]);
}

/* -- GPT-Neo: layers with full attention alternate with layers with a window -- */
/* Assigns layers by a list of names with a repeat count, as in [[["global", "local"], 12]]. */
static void assign_layers(gyre_config_reader *r, const json_t *types, gyre_layer_group *const groups[2], int64_t *layer) {
    const json_t *names = json_array_get(types, 0), *times = json_array_get(types, 1);
    enum { MAX_LAYERS = 65536 };
    if (!json_is_array(names) || json_array_size(names) == 0 || !json_is_integer(times)) {
        gyre_scope_fail(r->root, GYRE_EFORMAT, "attention_types", "not a list of [names, how often]");
        return;
    }
    for (json_int_t t = 0; t < json_integer_value(times); t++)
        for (size_t i = 0; i < json_array_size(names); i++, (*layer)++) {
            const char *name = json_string_value(json_array_get(names, i));
            const int known = name && (strcmp(name, "global") == 0 || strcmp(name, "local") == 0);
            if (!known || *layer >= MAX_LAYERS) {
                gyre_scope_fail(r->root, GYRE_EFORMAT, "attention_types",
                                known ? "more than %d layers" : "a layer is neither \"global\" nor \"local\"", MAX_LAYERS);
                return;
            }
            gyre_build_add_layer(r->build, groups[name[0] == 'l'], *layer);
        }
}

static gyre_layer_group *gpt_neo_group(gyre_config_reader *r, const char *name) {
    gyre_reader_add_group(r, name, "learned");
    gyre_reader_read_head_sizes(r, gyre_heads_keys);
    gyre_reader_read_learned_table(r, gyre_max_positions_keys, r->defaults->first_row);
    gyre_reader_set_scale(r, NULL, GYRE_ORIGIN_FAMILY, "GPT-Neo does not scale its scores", 1.0);
    return r->group;
}

static void add_gpt_neo_groups(const gyre_family *family, const gyre_scope *root) {
    gyre_config_reader r = gyre_reader_begin(family, root);
    const json_t *types = gyre_scope_value(root, "attention_types");
    gyre_layer_group *groups[2] = {gpt_neo_group(&r, "global"), gpt_neo_group(&r, "local")};
    static const char *const window[] = {"window_size", NULL};
    int64_t layer = 0;
    groups[1]->window = gyre_reader_read_size(&r, "window", window, 256);
    for (size_t i = 0; i < json_array_size(types); i++)
        assign_layers(&r, json_array_get(types, i), groups, &layer);
    if (layer > 0) return;
    const int64_t layers = gyre_scope_integer(root, "num_layers", 1, 24);
    if (layers > 65536) gyre_scope_fail(root, GYRE_EUNSUPPORTED, "num_layers", "more than 65536");
    for (; layer < layers && !gyre_build_status(r.build); layer++)
        gyre_build_add_layer(r.build, groups[layer % 2], layer);
}

void gyre_read_gpt_neo(const gyre_family *family, const gyre_scope *root) {
    add_gpt_neo_groups(family, root);
    gyre_build_sort_groups(root->source->build);
}

/* -- sinusoids -- */
static void sinusoidal_stack(gyre_config_reader *r, const stack *s, gyre_sinusoid layout) {
    gyre_reader_add_group(r, s->name, "sinusoidal");
    struct gyre_input_config *input = &r->group->config.input;
    gyre_reader_read_head_sizes(r, s->heads);
    r->group->config.trained_length = gyre_reader_read_size(r, "max_length", s->positions, r->family->positions);
    input->dim = gyre_reader_read_size(r, NULL, gyre_model_dim_keys, r->defaults->model_dim);
    input->layout = layout;
    input->base = 10000.0;
    input->offset = gyre_reader_first_row(r, r->defaults->first_row);
    /* The row of pad_token_id is zero and belongs to padding.  With tokens from row 2 on and id 1, that is position -1. */
    input->zero_padding = r->defaults->first_row == GYRE_ROW_AFTER_PADDING ||
                          (r->defaults->first_row == GYRE_ROW_2 && gyre_scope_integer(r->root, "pad_token_id", 0, 1) == 1);
    gyre_build_set_field(r->build, r->group, "sinusoid", GYRE_ORIGIN_FAMILY, NULL, NULL, "%s", gyre_sinusoid_name(layout));
    gyre_build_set_number(r->build, r->group, "base", GYRE_ORIGIN_FAMILY, NULL, NULL, 10000.0);
    gyre_reader_note_flag(r, "zero_padding", NULL, input->zero_padding);
}

void gyre_read_sinusoidal(const gyre_family *family, const gyre_scope *root) {
    gyre_config_reader r = gyre_reader_begin(family, root);
    if (!(r.defaults->traits & GYRE_ENCODER_DECODER)) {
        sinusoidal_stack(&r, &single_stack, r.defaults->sinusoid);
        return;
    }
    for (int i = 0; i < 2; i++)
        sinusoidal_stack(&r, &stacks[i], r.defaults->sinusoid);
}

/* XLM, Flaubert and DistilBERT may have either. */
void gyre_read_learned_or_sinusoidal(const gyre_family *family, const gyre_scope *root) {
    gyre_config_reader r = gyre_reader_begin(family, root);
    static const char *const names[] = {"sinusoidal_embeddings", "sinusoidal_pos_embds", NULL};
    const char *key = gyre_scope_first(root, names);
    if (!key || !gyre_scope_bool(root, key, 0)) {
        learned_stack(&r, &single_stack);
        return;
    }
    sinusoidal_stack(&r, &single_stack, GYRE_SINUSOID_INTERLEAVED);
    const gyre_place place = gyre_scope_place(root, key);
    gyre_build_set_field(r.build, r.group, "encoding", GYRE_ORIGIN_FILE, &place, NULL, "sinusoidal");
}

void gyre_read_whisper(const gyre_family *family, const gyre_scope *root) {
    gyre_config_reader r = gyre_reader_begin(family, root);
    gyre_family encoder = *family, decoder = *family;
    encoder.positions = 1500;
    decoder.positions = 448;
    r.family = &encoder;
    sinusoidal_stack(&r, &stacks[0], GYRE_SINUSOID_SIN_COS_T2T);
    r.family = &decoder;
    learned_stack(&r, &stacks[1]);
}

/* -- MusicGen: a T5 encoder, and its own decoder -- */
void gyre_read_musicgen(const gyre_family *family, const gyre_scope *root) {
    gyre_config_reader r = gyre_reader_begin(family, root);
    const gyre_scope inside = gyre_scope_value(root, "decoder") ? gyre_scope_child(root, "decoder") : *root;
    stack decoder = single_stack;
    decoder.name = "decoder";
    r.root = &inside;
    sinusoidal_stack(&r, &decoder, r.defaults->sinusoid);
    if (gyre_scope_value(root, "text_encoder"))
        gyre_scope_warn(root, "text_encoder", "its text encoder is a separate model; read that model's config.json");
}
