/* read_relative.c: models whose scores depend on the distance of query and key, through tables of numbers or of vectors. */
#include "reading/schemes/class_defaults.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* -- T5 -- */
static const char *const buckets_key[] = {"relative_attention_num_buckets", NULL};
static const char *const distance_key[] = {"relative_attention_max_distance", NULL};

static void check_buckets(const gyre_config_reader *r, const struct gyre_score_config *score) {
    const int64_t minimum = score->bidirectional ? 4 : 2, exact = score->buckets / minimum;
    if (gyre_build_status(r->build)) return;
    if (score->buckets < minimum || score->buckets % 2 != 0)
        gyre_scope_fail(r->root, GYRE_EFORMAT, buckets_key[0], "%" PRId64 " is not an even number from %" PRId64 " up",
                        score->buckets, minimum);
    else if (score->max_distance <= exact)
        gyre_scope_fail(r->root, GYRE_EFORMAT, gyre_scope_first(r->root, distance_key) ? distance_key[0] : buckets_key[0],
                        "%" PRId64 " is not past the %" PRId64 " distances that have a bucket each", score->max_distance,
                        exact);
}

/* llama.cpp stores the number of buckets, but not the distance. */
static int64_t bucket_distance(const gyre_config_reader *r) {
    const int64_t given = gyre_reader_read_size(r, "max_distance", distance_key, 128);
    if (r->profile != GYRE_PROFILE_LLAMA_CPP || given == 128) return given;
    const gyre_place place = gyre_scope_place(r->root, distance_key[0]);
    gyre_build_set_number(r->build, r->group, "max_distance", GYRE_ORIGIN_READER, &place, "llama.cpp has 128 in its code",
                          128.0);
    gyre_scope_warn(r->root, distance_key[0], "%" PRId64 " is ignored: llama.cpp always takes 128", given);
    return 128;
}

static void bucket_stack(gyre_config_reader *r, const char *name, int bidirectional) {
    gyre_reader_add_group(r, name, "t5");
    struct gyre_score_config *score = &r->group->config.score;
    score->bidirectional = bidirectional;
    score->buckets = gyre_reader_read_size(r, "buckets", buckets_key, 32);
    gyre_reader_set_max_distance(r, distance_key[0], bucket_distance(r));
    gyre_reader_note_flag(r, "bidirectional", NULL, bidirectional);
    check_buckets(r, score);
}

void gyre_read_t5(const gyre_family *family, const gyre_scope *root) {
    static const char *const trained[] = {"n_positions", NULL};
    gyre_config_reader r = gyre_reader_begin(family, root);
    const int decodes = gyre_scope_bool(root, "is_encoder_decoder", 1);
    for (int i = 0; i < 1 + decodes; i++) {
        bucket_stack(&r, i == 0 ? "encoder" : "decoder", i == 0);
        gyre_reader_read_heads(&r, gyre_heads_keys);
        gyre_reader_read_head_dim(&r, "d_kv", 64);
        gyre_reader_set_scale(&r, NULL, GYRE_ORIGIN_FAMILY, "T5 does not scale its scores", 1.0);
        if (gyre_scope_first(root, trained))
            r.group->config.trained_length = gyre_reader_read_size(&r, "max_length", trained, 0);
    }
    const char *local = gyre_scope_string(root, "encoder_attention_type", "");
    if (strncmp(local, "transient", 9) == 0)
        gyre_scope_warn(root, "encoder_attention_type",
                        "\"%.40s\": the numbers for global tokens are a second table, which is not described", local);
}

/* MPNet: buckets on the scores, which are scaled, and RoBERTa's table at the input. */
void gyre_read_mpnet(const gyre_family *family, const gyre_scope *root) {
    gyre_config_reader r = gyre_reader_begin(family, root);
    bucket_stack(&r, "all", 1);
    gyre_reader_read_head_sizes(&r, gyre_heads_keys);
    gyre_reader_note_learned_table(&r, r.defaults->first_row);
}

/* -- DeBERTa -- */
static unsigned term_of(const gyre_config_reader *r, const char *name, size_t length, int any_case) {
    int (*const differ)(const char *, const char *, size_t) = any_case ? strncasecmp : strncmp;
    while (length > 0 && name[0] == ' ')
        name++, length--;
    while (length > 0 && name[length - 1] == ' ')
        length--;
    if (length == 3 && differ(name, "c2p", 3) == 0) return GYRE_TERM_QUERY;
    if (length == 3 && differ(name, "p2c", 3) == 0) return GYRE_TERM_KEY;
    if (length > 0)
        gyre_scope_warn(r->root, "pos_att_type", "\"%.*s\" is ignored: c2p and p2c alone are known",
                        length > 40 ? 40 : (int)length, name);
    return 0;
}

/* "c2p|p2c" in any case, or a list. */
static unsigned terms_of(const gyre_config_reader *r) {
    const json_t *value = gyre_scope_value(r->root, "pos_att_type");
    unsigned terms = 0;
    for (const char *name = json_string_value(value); name;) {
        const size_t length = strcspn(name, "|");
        terms |= term_of(r, name, length, 1);
        name = name[length] ? name + length + 1 : NULL;
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *name = json_string_value(json_array_get(value, i));
        terms |= name ? term_of(r, name, strlen(name), 0) : 0;
        if (!name) gyre_scope_fail(r->root, GYRE_EFORMAT, "pos_att_type", "entry %zu is not a text", i);
    }
    if (value && !json_is_string(value) && !json_is_array(value))
        gyre_scope_fail(r->root, GYRE_EFORMAT, "pos_att_type", "neither a text nor a list");
    return terms;
}

/* out = an integer; 0 for values below 1, which mean "none". */
static int64_t positive_or_zero(const gyre_config_reader *r, const char *key) {
    const double value = gyre_scope_number(r->root, key, -1.0);
    if (value < 1.0) return 0;
    return gyre_scope_integer(r->root, key, 1, 0);
}

static void deberta_distances(const gyre_config_reader *r) {
    struct gyre_score_config *score = &r->group->config.score;
    const char *key = "max_relative_positions";
    gyre_reader_set_max_distance(r, key, positive_or_zero(r, key));
    if (score->max_distance > 0) {
        gyre_reader_note_number(r, "max_distance", key, (double)score->max_distance);
    } else {
        key = gyre_scope_first(r->root, gyre_max_positions_keys);
        gyre_reader_set_max_distance(r, key, gyre_reader_read_size(r, NULL, gyre_max_positions_keys, r->family->positions));
        gyre_build_set_number(r->build, r->group, "max_distance", GYRE_ORIGIN_DERIVED, NULL,
                              "max_relative_positions is below 1: as many "
                              "as there are positions",
                              (double)score->max_distance);
    }
    if (strcmp(r->family->model_type, "deberta-v2") != 0) return;
    score->position_buckets = positive_or_zero(r, "position_buckets");
    gyre_reader_note_number(r, "buckets", "position_buckets", (double)score->position_buckets);
    if (score->position_buckets == 2 || score->position_buckets % 2 != 0)
        gyre_scope_fail(r->root, GYRE_EFORMAT, "position_buckets", "%" PRId64 " is not an even number from 4 up",
                        score->position_buckets);
    else if (score->position_buckets > 0 && score->max_distance <= score->position_buckets / 2 + 1)
        gyre_scope_fail(r->root, GYRE_EFORMAT, key ? key : "max_relative_positions",
                        "a largest distance of %" PRId64 " leaves none for the logarithmic buckets of %" PRId64,
                        score->max_distance, score->position_buckets);
}

static void deberta_relative(gyre_config_reader *r, unsigned terms) {
    const int count = ((terms & GYRE_TERM_QUERY) != 0) + ((terms & GYRE_TERM_KEY) != 0);
    const gyre_place place = gyre_scope_place(r->root, "pos_att_type");
    gyre_reader_add_group(r, "all", "deberta");
    gyre_reader_read_head_sizes(r, gyre_heads_keys);
    deberta_distances(r);
    r->group->config.score.terms = terms;
    gyre_build_set_field(r->build, r->group, "terms", GYRE_ORIGIN_FILE, &place, NULL, "%s",
                         count == 2                 ? "query and key"
                         : terms == GYRE_TERM_QUERY ? "query"
                                                    : "key");
    if (r->group->config.head_dim > 0)
        gyre_reader_set_scale(r, NULL, GYRE_ORIGIN_DERIVED, "1 / sqrt(head_dim (1 + terms))",
                              1.0 / sqrt((double)r->group->config.head_dim * (1.0 + count)));
}

void gyre_read_deberta(const gyre_family *family, const gyre_scope *root) {
    gyre_config_reader r = gyre_reader_begin(family, root);
    const int at_input = gyre_scope_bool(root, "position_biased_input", 1);
    const int relative = gyre_scope_bool(root, "relative_attention", 0);
    const unsigned terms = relative ? terms_of(&r) : 0;
    if (relative && terms == 0)
        gyre_scope_warn(root, "pos_att_type", "names neither c2p nor p2c: relative_attention does nothing");
    if (terms > 0) {
        deberta_relative(&r, terms);
        if (at_input) gyre_reader_note_learned_table(&r, GYRE_ROW_0);
    } else {
        gyre_reader_add_group(&r, "all", at_input ? "learned" : "nope");
        gyre_reader_read_head_sizes(&r, gyre_heads_keys);
        if (at_input) gyre_reader_read_learned_table(&r, gyre_max_positions_keys, GYRE_ROW_0);
    }
    if (gyre_scope_integer(root, "conv_kernel_size", 0, 0) > 0)
        gyre_scope_warn(root, "conv_kernel_size",
                        "a convolution behind the first layer sees order too, and is not described");
}

/* -- NeZha -- */
void gyre_read_nezha(const gyre_family *family, const gyre_scope *root) {
    static const char *const distance[] = {"max_relative_position", NULL};
    gyre_config_reader r = gyre_reader_begin(family, root);
    gyre_reader_add_group(&r, "all", "nezha");
    gyre_reader_read_head_sizes(&r, gyre_heads_keys);
    gyre_reader_set_max_distance(&r, distance[0], gyre_reader_read_size(&r, "max_distance", distance, 64));
    r.group->config.trained_length = gyre_reader_read_size(&r, "max_length", gyre_max_positions_keys, family->positions);
    gyre_build_set_field(r.build, r.group, "terms", GYRE_ORIGIN_FAMILY, NULL, NULL, "key and value");
    const char *key = gyre_scope_first(root, gyre_heads_keys);
    if (r.group->config.head_dim % 2 != 0)
        gyre_scope_fail(root, GYRE_EFORMAT, key ? key : gyre_heads_keys[0],
                        "heads of %" PRId64 " channels: each sine needs its cosine", r.group->config.head_dim);
}

/* -- Transformer-XL, XLNet -- */
/* Both compute the sinusoid of any distance.  Gyre's table is finite: without a clamp it ends at the context length in
 * use. */
static void set_clamp_length(const gyre_config_reader *r, int64_t of_class, int64_t context) {
    struct gyre_score_config *score = &r->group->config.score;
    const int given = gyre_scope_value(r->root, "clamp_len") != NULL;
    gyre_reader_set_max_distance(r, "clamp_len", given ? positive_or_zero(r, "clamp_len") : of_class);
    if (score->max_distance > 0) {
        gyre_reader_note_number(r, "clamp", "clamp_len", (double)score->max_distance);
        return;
    }
    const int64_t asked = gyre_build_length(r->build);
    const int64_t farthest = asked > 0 ? asked : context;
    score->max_distance = farthest < GYRE_MAX_TABLE_DISTANCE ? farthest : GYRE_MAX_TABLE_DISTANCE;
    gyre_reader_note_number(r, "clamp", "clamp_len", -1.0);
    gyre_build_set_number(r->build, r->group, "max_distance", GYRE_ORIGIN_READER, NULL,
                          "the model does not clamp distances: the table ends at the length asked for",
                          (double)score->max_distance);
}

void gyre_read_transformer_xl(const gyre_family *family, const gyre_scope *root) {
    gyre_config_reader r = gyre_reader_begin(family, root);
    const int64_t kind = gyre_scope_integer(root, "attn_type", 0, 0);
    if (kind != 0)
        gyre_scope_fail(root, GYRE_EUNSUPPORTED, "attn_type", "%" PRId64 ": only 0, Transformer-XL's own, has a class",
                        kind);
    gyre_reader_add_group(&r, "all", "transformer-xl");
    gyre_reader_read_heads(&r, gyre_heads_keys);
    gyre_reader_read_head_dim(&r, "d_head", 64);
    set_clamp_length(&r, 1000, gyre_scope_integer(root, "mem_len", 0, 1600) + 1);
    gyre_reader_note_flag(&r, "bidirectional", NULL, 0);
}

void gyre_read_xlnet(const gyre_family *family, const gyre_scope *root) {
    gyre_config_reader r = gyre_reader_begin(family, root);
    const char *way = gyre_scope_string(root, "attn_type", "bi");
    const int both = strcmp(way, "bi") == 0;
    if (!both && strcmp(way, "uni") != 0)
        gyre_scope_fail(root, GYRE_EFORMAT, "attn_type", "\"%.40s\" is neither \"bi\" nor \"uni\"", way);
    gyre_reader_add_group(&r, "all", "transformer-xl");
    gyre_reader_read_head_sizes(&r, gyre_heads_keys);
    set_clamp_length(&r, 0, 512);
    r.group->config.score.bidirectional = both;
    gyre_reader_note_flag(&r, "bidirectional", "attn_type", both);
}

/* -- Inkling -- */
/* Layers with a window, of which the class has five in six, have other keys and no temperature. */
typedef struct inkling_layers {
    const char *name, *heads[2], *dim[2], *extent[2];
    int64_t default_extent;
} inkling_layers;
static const inkling_layers inkling_kinds[2] = {
    {"full", {"num_attention_heads", NULL}, {"head_dim", NULL}, {"rel_extent", NULL}, 1024},
    {"sliding", {"swa_num_attention_heads", NULL}, {"swa_head_dim", NULL}, {"sliding_window_size", "sliding_window"}, 512}};

static void inkling_temperature(const gyre_config_reader *r) {
    static const char length_key[] = "log_scaling_n_floor", slope_key[] = "log_scaling_alpha";
    struct gyre_query_config *query = &r->group->config.query;
    if (!gyre_scope_value(r->root, length_key)) return;
    query->temperature = GYRE_TEMPERATURE_INKLING;
    query->reference_length = gyre_scope_integer(r->root, length_key, 1, 0);
    query->slope = gyre_scope_number(r->root, slope_key, 0.1);
    gyre_build_set_field(r->build, r->group, "query_temperature", GYRE_ORIGIN_FAMILY, NULL,
                         "of the query and of its bias, as in the class", "inkling");
    gyre_reader_note_number(r, "temperature_length", length_key, (double)query->reference_length);
    gyre_reader_note_number(r, "temperature_slope", slope_key, query->slope);
}

static gyre_layer_group *inkling_group(gyre_config_reader *r, int slides) {
    static const char *const own[] = {"d_rel", NULL}, *const length[] = {"max_position_embeddings", "model_max_length",
                                                                         NULL};
    const inkling_layers *kind = &inkling_kinds[slides];
    const char *const extent[] = {kind->extent[0], kind->extent[1], NULL};
    gyre_reader_add_group(r, kind->name, "inkling");
    gyre_config *config = &r->group->config;
    gyre_reader_read_heads(r, kind->heads);
    const int64_t keys = gyre_reader_read_size(r, "head_dim", kind->dim, 128);
    config->score.relative_channels = gyre_reader_read_size(r, "relative_channels", own, 16);
    config->head_dim = keys + config->score.relative_channels;
    gyre_reader_set_max_distance(r, kind->extent[0], gyre_reader_read_size(r, "max_distance", extent, kind->default_extent));
    if (slides) {
        r->group->window = gyre_reader_read_size(r, "window", extent, kind->default_extent);
    } else {
        inkling_temperature(r);
    }
    gyre_reader_set_scale(r, NULL, GYRE_ORIGIN_FAMILY, "1 / head_dim: queries and keys are normalized", 1.0 / (double)keys);
    config->trained_length = gyre_reader_read_size(r, "max_length", length, r->family->positions);
    return r->group;
}

enum { MOST_LAYERS = 65536 };

/* has_window[layer] = 1 for those of local_layer_ids, or, without it, as in the class. */
static void inkling_local_layers(const gyre_config_reader *r, int64_t layers, unsigned char *has_window) {
    const json_t *ids = gyre_scope_value(r->root, "local_layer_ids");
    for (int64_t layer = 0; layer < layers; layer++)
        has_window[layer] = !ids && (layer + 1) % 6 != 0;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        if (json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < layers)
            has_window[json_integer_value(id)] = 1;
    }
}

/* 1: the layer has a window, by layer_types, or as `local` says. */
static int inkling_slides(const gyre_config_reader *r, int64_t layer, int local) {
    const json_t *types = gyre_scope_value(r->root, "layer_types");
    const char *type = json_string_value(json_array_get(types, (size_t)layer));
    if (types && (!type || (strcmp(type, "hybrid") != 0 && strcmp(type, "hybrid_sliding") != 0)))
        gyre_scope_fail(r->root, GYRE_EFORMAT, "layer_types", "layer %" PRId64 " is neither hybrid nor hybrid_sliding",
                        layer);
    return type ? strcmp(type, "hybrid_sliding") == 0 : local;
}

void gyre_read_inkling(const gyre_family *family, const gyre_scope *root) {
    gyre_config_reader r = gyre_reader_begin(family, root);
    unsigned char local[MOST_LAYERS];
    const int64_t layers = gyre_scope_integer(root, "num_hidden_layers", 1, 66);
    if (layers > MOST_LAYERS) gyre_scope_fail(root, GYRE_EFORMAT, "num_hidden_layers", "more than %d", (int)MOST_LAYERS);
    gyre_layer_group *const groups[2] = {inkling_group(&r, 0), inkling_group(&r, 1)};
    if (gyre_build_status(r.build)) return;
    inkling_local_layers(&r, layers, local);
    for (int64_t layer = 0; layer < layers && !gyre_build_status(r.build); layer++)
        gyre_build_add_layer(r.build, groups[inkling_slides(&r, layer, local[layer])], layer);
    gyre_build_sort_groups(r.build);
}

/* -- Wav2Vec2-BERT, Wav2Vec2-Conformer -- */
static const char type_key[] = "position_embeddings_type";

/* Vectors for distances that are clipped at other lengths before the query than after it. */
static void read_clipped_keys(gyre_config_reader *r) {
    static const char left_key[] = "left_max_position_embeddings", right_key[] = "right_max_position_embeddings";
    const int64_t left = gyre_scope_integer(r->root, left_key, 1, 64), right = gyre_scope_integer(r->root, right_key, 1, 8);
    gyre_reader_add_group(r, "all", "shaw");
    gyre_reader_read_head_sizes(r, gyre_heads_keys);
    gyre_reader_set_max_distance(r, left > right ? left_key : right_key, left > right ? left : right);
    gyre_reader_note_number(r, "max_distance", left > right ? left_key : right_key, (double)(left > right ? left : right));
    r->group->config.score.terms = GYRE_TERM_QUERY;
    gyre_build_set_field(r->build, r->group, "terms", GYRE_ORIGIN_FAMILY, NULL, NULL, "query");
    if (left != right)
        gyre_scope_warn(r->root, left < right ? left_key : right_key,
                        "keys more than %" PRId64 " tokens %s the query have one vector, so rows of the table repeat it",
                        left < right ? left : right, left < right ? "before" : "after");
}

void gyre_read_conformer(const gyre_family *family, const gyre_scope *root) {
    static const char *const positions[] = {"max_source_positions", NULL};
    gyre_config_reader r = gyre_reader_begin(family, root);
    const int is_bert = strcmp(family->model_type, "wav2vec2-bert") == 0;
    const json_t *given = json_object_get(root->object, type_key);
    const char *type = gyre_scope_string(root, type_key, is_bert ? "relative_key" : "relative");
    /* Files have the keys of all types, of which one counts. */
    static const char *const keys[] = {"rotary_embedding_base", "left_max_position_embeddings",
                                       "right_max_position_embeddings", "max_source_positions", NULL};
    for (int i = 0; keys[i]; i++)
        (void)gyre_scope_value(root, keys[i]);
    if (json_is_null(given)) {
        gyre_reader_add_group(&r, "all", "nope");
        gyre_reader_read_head_sizes(&r, gyre_heads_keys);
    } else if (strcmp(type, "relative") == 0) {
        gyre_reader_add_group(&r, "all", "transformer-xl");
        gyre_reader_read_head_sizes(&r, gyre_heads_keys);
        gyre_reader_set_max_distance(&r, positions[0], gyre_reader_read_size(&r, "max_distance", positions, 5000));
        r.group->config.score.bidirectional = 1;
        gyre_reader_note_flag(&r, "bidirectional", NULL, 1);
    } else if (is_bert && strcmp(type, "relative_key") == 0) {
        read_clipped_keys(&r);
    } else if (strcmp(type, "rotary") == 0) {
        gyre_scope_fail(
            root, GYRE_EUNSUPPORTED, type_key,
            "\"rotary\" rotates the input of a layer, before queries and keys are projected from it; Gyre rotates "
            "queries and keys");
    } else {
        gyre_scope_fail(root, GYRE_EFORMAT, type_key, "\"%.40s\" is not one of rotary, relative%s", type,
                        is_bert ? ", relative_key" : "");
    }
}
