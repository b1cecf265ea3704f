/* read_vision.c: the positions of an image tower.  What it cannot describe it warns about; the reading of the text model
 * never fails because of it. */
#include "reading/family.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* -- values that may be malformed -- */
static const json_t *value_of(const gyre_scope *s, const char *const *names, const char **key) {
    const json_t *value = NULL;
    for (*key = NULL; *names && !value; names++) {
        value = json_object_get(s->object, *names);
        if (json_is_null(value)) value = NULL;
        if (value) *key = *names;
    }
    return value;
}

/* out = an integer from 1 to 2^20; of_class if there is none; 0 if the value is something else. */
static int64_t size_of(const gyre_scope *s, const char *const *names, int64_t of_class, const char **key) {
    const json_t *value = value_of(s, names, key);
    if (!value) return of_class;
    const json_int_t size = json_is_integer(value) ? json_integer_value(value) : 0;
    return size >= 1 && size <= 1 << 20 ? (int64_t)size : 0;
}

static const char *text_of(const gyre_scope *s, const char *key) {
    const char *text = json_string_value(json_object_get(s->object, key));
    return text ? text : "";
}

static int has_prefix(const char *type, const char *prefix) {
    return strncmp(type, prefix, strlen(prefix)) == 0;
}

static int text_is(const json_t *value, const char *text) {
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

static const char *const model_dim_keys[] = {"hidden_size", "embed_dim", "vt_hidden_size", NULL};
static const char *const heads_keys[] = {"num_heads", "num_attention_heads", "vt_num_attention_heads", NULL};

typedef struct tower {
    const gyre_scope *scope;
    gyre_build *build;
    const char *type;
    gyre_config config;
    const char *model_dim_key, *heads_key;
} tower;

/* Reads model_dim and heads.  out = 0, with a warning, if they are inconsistent. */
static int read_tower_sizes(tower *t, const char *const *names_of_width, int64_t width_of_class, int64_t heads_of_class) {
    const int64_t width = size_of(t->scope, names_of_width, width_of_class, &t->model_dim_key);
    const int64_t heads = size_of(t->scope, heads_keys, heads_of_class, &t->heads_key);
    if (width == 0 || heads == 0 || width % heads != 0) {
        gyre_scope_warn(t->scope, t->heads_key ? t->heads_key : "num_heads",
                        "the image tower (%.40s) is not described: %" PRId64 " heads do not divide a width of %" PRId64,
                        t->type, heads, width);
        return 0;
    }
    t->config.heads = heads;
    t->config.head_dim = width / heads;
    t->config.input.dim = width;
    return 1;
}

/* Adds the group if an encoding can be created from it. */
static gyre_layer_group *add_vision_group(tower *t) {
    gyre_encoding *encoding = NULL;
    gyre_error why = {0, ""};
    const gyre_status status = gyre_encoding_create(&encoding, &t->config, NULL, &why);
    gyre_encoding_free(encoding);
    if (status) {
        const gyre_place place = gyre_scope_place(t->scope, "model_type");
        gyre_build_warn(t->build, &place, "the image tower (%.40s) is not described: %s", t->type, why.text);
        return NULL;
    }
    gyre_layer_group *group = gyre_build_add_group(t->build, "vision");
    group->config = t->config;
    gyre_build_set_field(t->build, group, "encoding", GYRE_ORIGIN_FAMILY, NULL, NULL, "%s", gyre_kind_name(t->config.kind));
    gyre_build_set_number(t->build, group, "head_dim", GYRE_ORIGIN_DERIVED, NULL, NULL, (double)t->config.head_dim);
    return group;
}

/* -- rotations over rows and columns -- */
/* columns: the scaling of the second axis; NULL = none. */
static void axial_rope_with(tower *t, gyre_layout layout, double base, const char *key_of_base,
                            const struct gyre_axis_config *columns) {
    struct gyre_rope_config *rope = &t->config.rope;
    if (t->config.head_dim % 4 != 0) {
        gyre_scope_warn(t->scope, t->heads_key ? t->heads_key : "num_heads",
                        "the image tower (%.40s) is not described: heads of %" PRId64
                        " channels are not divided between two axes",
                        t->type, t->config.head_dim);
        return;
    }
    const int64_t each = t->config.head_dim / 4;
    t->config.kind = gyre_kind_find("rope");
    *rope = (struct gyre_rope_config){.layout = layout, .base = base, .axes = 2, .axes_layout = GYRE_AXES_AXIAL};
    rope->axis_pairs[0] = rope->axis_pairs[1] = each;
    if (columns) rope->axis[1] = *columns;
    gyre_layer_group *group = add_vision_group(t);
    if (!group) return;
    const gyre_place place = gyre_scope_place(t->scope, key_of_base ? key_of_base : "model_type");
    gyre_build_set_field(t->build, group, "layout", GYRE_ORIGIN_FAMILY, NULL, NULL,
                         layout == GYRE_LAYOUT_HALF ? "half" : "interleaved");
    gyre_build_set_number(t->build, group, "rotary_dim", GYRE_ORIGIN_DERIVED, NULL, NULL, (double)t->config.head_dim);
    gyre_build_set_number(t->build, group, "base", key_of_base ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY,
                          key_of_base ? &place : NULL, NULL, base);
    gyre_build_set_number(t->build, group, "axes", GYRE_ORIGIN_FAMILY, NULL, NULL, 2.0);
    gyre_build_set_field(t->build, group, "axes_layout", GYRE_ORIGIN_FAMILY, NULL, NULL, "axial");
    gyre_build_set_field(t->build, group, "sections", GYRE_ORIGIN_DERIVED, NULL, NULL, "%" PRId64 " %" PRId64, each, each);
}

static void axial_rope(tower *t, gyre_layout layout, double base, const char *key_of_base) {
    axial_rope_with(t, layout, base, key_of_base, NULL);
}

/* out = a key of rope_parameters; NULL if that is no object or does not have it. */
static const json_t *rope_parameter(const gyre_scope *s, const char *key) {
    static const char dict[] = "rope_parameters";
    if (!json_is_object(json_object_get(s->object, dict))) return NULL;
    const gyre_scope inside = gyre_scope_child(s, dict);
    return gyre_scope_value(&inside, key);
}

/* out = the base of the tower's own keys. */
static double base_of(const tower *t, const char **key) {
    static const char *const names[] = {"rope_theta", NULL};
    const json_t *inside = rope_parameter(t->scope, names[0]), *value = value_of(t->scope, names, key);
    if (inside) *key = "rope_parameters.rope_theta";
    const double stated = json_number_value(inside ? inside : value);
    if (stated > 1.0) return stated;
    *key = NULL;
    return 10000.0;
}

/* out = 1 for the name that transformers gives to a rotation by row and column since version 5. */
static int is_axial(const gyre_scope *s) {
    return text_is(rope_parameter(s, "rope_type"), "axial");
}

enum { MAX_TOWER_LAYERS = 1024 };

/* Of a tower with convolutions only the layers of attention rotate. */
static void add_attention_layers(tower *t) {
    const json_t *types = json_object_get(t->scope->object, "layer_types");
    gyre_layer_group *group = gyre_build_find_group(t->build, "vision");
    size_t convolutions = 0;
    for (size_t i = 0; i < json_array_size(types); i++)
        convolutions += text_is(json_array_get(types, i), "conv");
    for (size_t i = 0; group && convolutions && i < json_array_size(types) && i < MAX_TOWER_LAYERS; i++)
        if (!text_is(json_array_get(types, i), "conv")) gyre_build_add_layer(t->build, group, (int64_t)i);
}

typedef struct tower_class {
    const char *prefix;
    int64_t width, heads;
    int adds_table;
} tower_class;

static const tower_class tower_classes[] = {
#define TOWER(prefix, width, heads, adds_table) {prefix, width, heads, adds_table},
#include "reading/schemes/towers.def"
};

static const tower_class *tower_class_of(const char *type) {
    for (size_t i = 0; i < sizeof tower_classes / sizeof *tower_classes; i++)
        if (has_prefix(type, tower_classes[i].prefix)) return &tower_classes[i];
    return NULL;
}

/* Rows, then columns, as in Qwen2-VL's tower. */
static void rows_and_columns(tower *t, const tower_class *class) {
    static const char *const embed[] = {"embed_dim", "hidden_size", "vt_hidden_size", NULL};
    /* In Qwen2-VL hidden_size is that of the language model. */
    const int is_first = has_prefix(class->prefix, "qwen2_vl");
    const char *key = NULL;
    const double base = base_of(t, &key);
    (void)rope_parameter(t->scope, "rope_type"); /* axial, or it would be another class */
    if (!read_tower_sizes(t, is_first ? embed : model_dim_keys, class->width, class->heads)) return;
    axial_rope(t, GYRE_LAYOUT_HALF, base, key);
    add_attention_layers(t);
    if (has_prefix(class->prefix, "kimi"))
        gyre_scope_warn(t->scope, "model_type",
                        "the image tower's pairs alternate between columns and rows, in this order; "
                        "they are described in another order, rows first");
    if (class->adds_table)
        gyre_scope_warn(t->scope, "model_type",
                        "the image tower adds a learned table too, resized to each image, which is not described");
}

/* A tower whose type is not known, but whose file names its rotation. */
static void unknown_rows_and_columns(tower *t) {
    static const tower_class class = {"", 0, 0, 0};
    gyre_scope_doubt(t->scope, GYRE_WARNING_ASSUMED, "model_type",
                     "model_type: \"%.60s\" is not known; its patches rotate by row and column because rope_parameters "
                     "says axial; its layout of pairs, half, is assumed",
                     t->type);
    rows_and_columns(t, &class);
}

/* Rows take the even entries of one list of frequencies, columns the odd ones.  Both are the frequencies of an axis with
 * half of the pairs, divided by base^(2 / head_dim) along columns. */
static void pixtral_tower(tower *t) {
    static const char *const head_names[] = {"head_dim", NULL};
    const char *key = NULL, *head_key = NULL;
    const double base = base_of(t, &key);
    if (!read_tower_sizes(t, model_dim_keys, 1024, 16)) return;
    t->config.head_dim = size_of(t->scope, head_names, t->config.head_dim, &head_key);
    const struct gyre_axis_config own = {
        .own = 1, .scaling = GYRE_SCALING_LINEAR, .factor = pow(base, 2.0 / (double)t->config.head_dim)};
    axial_rope_with(t, GYRE_LAYOUT_HALF, base, key, &own);
}

static void llama4_tower(tower *t) {
    static const char *const names[] = {"rope_theta", NULL};
    const char *key = NULL;
    const json_t *value = value_of(t->scope, names, &key);
    const double base = json_is_number(value) ? json_number_value(value) : 10000.0;
    if (!read_tower_sizes(t, model_dim_keys, 768, 16)) return;
    axial_rope(t, GYRE_LAYOUT_INTERLEAVED, base, key);
    gyre_scope_warn(t->scope, "model_type",
                    "the image tower counts columns and rows from 1, in this order, and does not rotate its class token");
}

/* -- tables -- */
static void patch_table(tower *t, int64_t width, int64_t heads, int64_t image, int64_t patch, int class_token) {
    static const char *const image_names[] = {"image_size", NULL}, *const patch_names[] = {"patch_size", NULL};
    const char *key_of_image, *key_of_patch;
    const int64_t pixels = size_of(t->scope, image_names, image, &key_of_image);
    const int64_t patch_size = size_of(t->scope, patch_names, patch, &key_of_patch);
    if (!read_tower_sizes(t, model_dim_keys, width, heads)) return;
    const int64_t grid = patch_size > 0 ? pixels / patch_size : 0;
    if (grid == 0 || grid > 1 << 12) {
        gyre_scope_warn(t->scope, key_of_image ? key_of_image : "image_size",
                        "the image tower (%.40s) is not described: images of %" PRId64 " pixels, patches of %" PRId64,
                        t->type, pixels, patch_size);
        return;
    }
    t->config.kind = gyre_kind_find("learned");
    t->config.input.positions = grid * grid + class_token;
    gyre_layer_group *group = add_vision_group(t);
    const gyre_place place = gyre_scope_place(t->scope, key_of_image ? key_of_image : "image_size");
    if (group)
        gyre_build_set_number(t->build, group, "table_rows", GYRE_ORIGIN_DERIVED, key_of_image ? &place : NULL,
                              class_token ? "a patch each, and the class token, which comes first" : "a patch each",
                              (double)t->config.input.positions);
}

/* -- dispatch -- */
/* Towers that are not described, and what they do instead. */
static const struct {
    const char *prefix, *what;
} undescribed_towers[] = {
    {"gemma4", "rows and columns each rotate a half of the head, in separate pairs, with base 100"},
    {"mllama", "learned tables of patches and of tiles, opened by a trained gate"},
    {"dinov3", "patch centres between -1 and 1 rotate pairs, with base 100"},
    {"eomt_dinov3", "patch centres between -1 and 1 rotate pairs, with base 100"},
    {"sapiens2", "patch centres between -1 and 1 rotate pairs, with base 100"},
    {"sam", "tables of rows and columns, or a rotation by both, with blocks that see windows"},
    {"siglip2", "a learned table, resized to each image"},
    {"vjepa2", "the two channels of a pair rotate by different angles, so it is not a rotation"},
    {"minimax", "three axes, over a part of the head"},
    {"inkling_vision", "it folds the pixels of a patch into a vector, without attention"},
    {"inkling",
     "its layers add a learned bias by distance to the scores, W h . P[distance] for each head, and rotate nothing"},
};

/* Configs of the first Qwen2-VL models do not name the type of their tower. */
static const char *type_of(const gyre_scope *vision) {
    const char *type = text_of(vision, "model_type");
    if (*type || !json_object_get(vision->object, "spatial_merge_size")) return type;
    return json_object_get(vision->object, "embed_dim")               ? "qwen2_vl"
           : json_object_get(vision->object, "fullatt_block_indexes") ? "qwen2_5_vl"
                                                                      : "";
}

/* out = what such a tower does, or NULL. */
static const char *undescribed(const char *type) {
    for (size_t i = 0; i < sizeof undescribed_towers / sizeof *undescribed_towers; i++)
        if (has_prefix(type, undescribed_towers[i].prefix)) return undescribed_towers[i].what;
    return NULL;
}

static void warn_undescribed_tower(const tower *t) {
    const char *type = *t->type ? t->type : "no model_type", *what = undescribed(t->type);
    gyre_scope_warn(t->scope, "model_type", "the image tower (%.40s) is not described%s%s", type, what ? ": " : "",
                    what ? what : "");
}

void gyre_read_vision(const gyre_scope *vision) {
    tower t = {vision, vision->source->build, type_of(vision), GYRE_INIT(gyre_config), NULL, NULL};
    if (!vision->object || gyre_build_status(t.build)) return;
    const tower_class *class = tower_class_of(t.type);
    if (class)
        rows_and_columns(&t, class);
    else if (has_prefix(t.type, "pixtral"))
        pixtral_tower(&t);
    else if (has_prefix(t.type, "llama4"))
        llama4_tower(&t);
    else if (strcmp(t.type, "clip_vision_model") == 0)
        patch_table(&t, 768, 12, 224, 32, 1);
    else if (strcmp(t.type, "siglip_vision_model") == 0)
        patch_table(&t, 768, 12, 224, 16, 0);
    else if (is_axial(vision) && !undescribed(t.type))
        unknown_rows_and_columns(&t);
    else
        warn_undescribed_tower(&t);
}

/* out = 1 for types of whole models; the others are towers only if their type says so. */
static int is_whole(const char *type) {
    static const char *const prefixes[] = {"inkling", "dinov3", "eomt_dinov3", "sapiens2", "vjepa2", "sam"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (has_prefix(type, prefixes[i])) return 1;
    return 0;
}

int gyre_read_tower_alone(const gyre_scope *s) {
    static const char *const described[] = {"clip_vision_model", "siglip_vision_model", "pixtral", "mlcd"};
    const char *type = text_of(s, "model_type"), *what = undescribed(type);
    int is_tower = strstr(type, "_vision") != NULL || is_axial(s);
    if (what && (is_tower || is_whole(type))) {
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "model_type", "\"%.60s\" is not described: %s", type, what);
        return 1;
    }
    for (size_t i = 0; i < sizeof described / sizeof *described; i++)
        is_tower = is_tower || has_prefix(type, described[i]);
    if (!is_tower) return 0;
    gyre_read_vision(s);
    if (gyre_build_so_far(s->source->build)->groups_count == 0)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "model_type", "\"%.60s\": a tower for images that is not described", type);
    return 1;
}
