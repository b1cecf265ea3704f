/* read_native.c: model_type gyre: models that no other program can describe.  All profiles read them alike. */
#include "gyre/gyre_fields.h"
#include "reading/rope/read_rope.h"
#include "reading/scaling_traits.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char bases_key[] = "layer_rope_theta"; /* a base for each layer, 0 = it does not rotate */

/* -- fields -- */
static int choice_at(const gyre_scope *s, const gyre_config_field *f) {
    const char *text = gyre_scope_string(s, f->key, NULL);
    int value = 0;
    if (!text || !gyre_field_find_value(f, text, &value))
        gyre_scope_fail(s, GYRE_EFORMAT, f->key, "\"%.60s\" is not known", text ? text : "");
    return value;
}

static int64_t integer_at(const gyre_scope *s, const char *key) {
    const json_t *value = gyre_scope_value(s, key);
    if (!json_is_integer(value)) gyre_scope_fail(s, GYRE_EFORMAT, key, "not a whole number");
    return (int64_t)json_integer_value(value);
}

static double nonzero_at(const gyre_scope *s, const char *key) {
    const double number = gyre_scope_number(s, key, 0.0);
    if (number == 0.0) gyre_scope_fail(s, GYRE_EFORMAT, key, "0 is not a value of this key");
    return number;
}

/* Reads a list of names, each of which means a bit. */
static int set_at(const gyre_scope *s, const gyre_config_field *f) {
    const json_t *list = gyre_scope_value(s, f->key), *text;
    size_t i;
    int set = 0, bit;
    if (!json_is_array(list) || json_array_size(list) == 0) gyre_scope_fail(s, GYRE_EFORMAT, f->key, "not a list of words");
    json_array_foreach((json_t *)list, i, text) {
        if (json_is_string(text) && gyre_field_find_value(f, json_string_value(text), &bit))
            set |= bit;
        else
            gyre_scope_fail(s, GYRE_EFORMAT, f->key, "it has an unknown word");
    }
    return set;
}

/* A count or number of 0 would mean the default, so a file may not state it. */
static gyre_field_value value_at(const gyre_scope *s, const gyre_config *config, const gyre_config_field *f) {
    gyre_field_value value = {0, 0, NULL};
    switch (f->type) {
    case GYRE_FIELD_COUNT:
    case GYRE_FIELD_LENGTH:
        value.integer = gyre_scope_integer(s, f->key, 1, 0);
        break;
    case GYRE_FIELD_INTEGER:
        value.integer = integer_at(s, f->key);
        break;
    case GYRE_FIELD_NUMBER:
        value.number = nonzero_at(s, f->key);
        break;
    case GYRE_FIELD_FLAG:
        value.integer = gyre_scope_bool(s, f->key, 0);
        break;
    case GYRE_FIELD_CHOICE:
        value.integer = choice_at(s, f);
        break;
    case GYRE_FIELD_SET:
        value.integer = set_at(s, f);
        break;
    case GYRE_FIELD_LIST:
        value.list = gyre_scope_numbers(s, f->key, gyre_config_list_length(config, f));
        break;
    }
    return value;
}

/* Notes the value as it is written in the file. */
static void note_field(const gyre_scope *s, const char *key, const char *label, gyre_layer_group *group) {
    const json_t *value = gyre_scope_value(s, key);
    gyre_build *build = s->source->build;
    const gyre_place place = gyre_scope_place(s, key);
    if (json_is_number(value))
        gyre_build_set_number(build, group, label, GYRE_ORIGIN_FILE, &place, NULL, json_number_value(value));
    else if (json_is_string(value))
        gyre_build_set_field(build, group, label, GYRE_ORIGIN_FILE, &place, NULL, "%.60s", json_string_value(value));
    else if (json_is_boolean(value))
        gyre_build_set_field(build, group, label, GYRE_ORIGIN_FILE, &place, NULL, "%s",
                             json_is_true(value) ? "true" : "false");
    else
        gyre_build_set_field(build, group, label, GYRE_ORIGIN_FILE, &place, NULL, "%zu entries", json_array_size(value));
}

/* Fields whose name begins so: of one place of gyre_config. */
static void read_fields(const gyre_scope *s, const char *place, gyre_layer_group *group) {
    const gyre_config_field *f;
    for (int i = 0; (f = gyre_config_field_at(i)); i++) {
        if (!f->key || strncmp(f->name, place, strlen(place)) != 0 || !gyre_scope_value(s, f->key)) continue;
        gyre_config_set(&group->config, f, value_at(s, &group->config, f));
        note_field(s, f->key, f->label, group);
    }
}

/* -- rotations -- */
static void note_number(const gyre_scope *s, const char *key, gyre_layer_group *group, const char *name,
                        gyre_origin fallback, double value) {
    const int there = key && gyre_scope_value(s, key);
    const gyre_place place = there ? gyre_scope_place(s, key) : (gyre_place){NULL, 0, 0};
    gyre_build_set_number(s->source->build, group, name, there ? GYRE_ORIGIN_FILE : fallback, &place, NULL, value);
}

/* The trained length L, if the file states it apart from the length that the model now serves. */
static void read_trained_length(const gyre_scope *root, const gyre_scope *rope, gyre_layer_group *group) {
    const char *inside = "original_max_position_embeddings", *served = "max_position_embeddings";
    const int has_original =
        gyre_scaling_has_original_length(group->config.rope.scaling) && gyre_scope_value(rope, inside) != NULL;
    group->config.trained_length =
        has_original ? gyre_scope_integer(rope, inside, 1, 0) : gyre_scope_integer(root, served, 1, 0);
    if (group->config.trained_length == 0 && (gyre_scaling_has_original_length(group->config.rope.scaling) ||
                                              group->config.rope.scaling == GYRE_SCALING_DYNAMIC_NTK))
        gyre_scope_fail(root, GYRE_EFORMAT, served, "missing");
    if (gyre_scope_value(root, served))
        note_number(root, served, group, "max_length", GYRE_ORIGIN_FILE, (double)gyre_scope_integer(root, served, 1, 0));
    if (group->config.trained_length > 0)
        note_number(has_original ? rope : root, has_original ? inside : served, group, "trained_length", GYRE_ORIGIN_READER,
                    (double)group->config.trained_length);
}

/* Fraction of the head that rotates: as rope.dim, truncated as by Python's int, or as a fraction of its pairs. */
static void read_rotary_dim(const gyre_scope *root, const gyre_scope *dict, gyre_layer_group *group) {
    struct gyre_rope_config *rope = &group->config.rope;
    const char *key = "partial_rotary_factor";
    const int64_t head = group->config.head_dim;
    const gyre_scope *s = gyre_scope_value(root, key) ? root : dict;
    double fraction = gyre_scope_number(s, key, 1.0);
    if (!(fraction > 0.0 && fraction <= 1.0)) {
        gyre_scope_fail(s, GYRE_EFORMAT, key, "%g is not a share above 0 and up to 1", fraction);
        fraction = 1.0;
    }
    note_number(s, key, group, "partial", GYRE_ORIGIN_READER, fraction);
    rope->dim = head;
    if (rope->scaling == GYRE_SCALING_PROPORTIONAL)
        rope->proportion = fraction;
    else if (fraction > 0.0 && fraction <= 1.0)
        rope->dim = (int64_t)((double)head * fraction);
    if (rope->dim < 2 || rope->dim % 2 != 0)
        gyre_scope_fail(s, GYRE_EFORMAT, gyre_scope_value(s, key) ? key : "head_dim",
                        "the rotated channels are not whole pairs");
    note_number(root, NULL, group, "rotary_dim", GYRE_ORIGIN_DERIVED, (double)rope->dim);
}

static double positive_at(const gyre_scope *s, const char *key, double fallback) {
    const double number = gyre_scope_number(s, key, fallback);
    if (gyre_scope_value(s, key) && !(number > 0.0)) gyre_scope_fail(s, GYRE_EFORMAT, key, "%g is not above 0", number);
    return number;
}

static void read_numbers(const gyre_scope *dict, gyre_layer_group *group) {
    struct gyre_rope_config *rope = &group->config.rope;
    const struct {
        const char *key;
        double *target;
    } numbers[] = {{"beta_fast", &rope->beta_fast},
                   {"beta_slow", &rope->beta_slow},
                   {"mscale", &rope->mscale},
                   {"mscale_all_dim", &rope->mscale_all_dim},
                   {"low_freq_factor", &rope->low_freq},
                   {"high_freq_factor", &rope->high_freq},
                   {"attention_factor", &rope->attention_factor}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (!gyre_scope_value(dict, numbers[i].key)) continue;
        *numbers[i].target = positive_at(dict, numbers[i].key, 0.0);
        note_number(dict, numbers[i].key, group, numbers[i].key, GYRE_ORIGIN_FILE, *numbers[i].target);
    }
    rope->fractional_bounds = !gyre_scope_bool(dict, "truncate", 1);
    if (rope->scaling == GYRE_SCALING_LONGROPE) {
        rope->short_factor = gyre_scope_numbers(dict, "short_factor", rope->dim / 2);
        rope->long_factor = gyre_scope_numbers(dict, "long_factor", rope->dim / 2);
        note_field(dict, "short_factor", "short_factor", group);
        note_field(dict, "long_factor", "long_factor", group);
    }
}

static void read_sections(const gyre_scope *root, gyre_layer_group *group) {
    struct gyre_rope_config *rope = &group->config.rope;
    const char *key = "rope_section";
    const json_t *list = gyre_scope_value(root, key);
    if (rope->axes > GYRE_MAX_AXES) {
        gyre_scope_fail(root, GYRE_EFORMAT, "rope_axes", "more axes than a rotation can have");
        return;
    }
    if (!json_is_array(list) || (int64_t)json_array_size(list) != rope->axes)
        gyre_scope_fail(root, GYRE_EFORMAT, key, "not a list of one number for each of rope_axes");
    for (int64_t a = 0; a < rope->axes && !gyre_build_status(root->source->build); a++) {
        const json_t *pairs = json_array_get(list, (size_t)a);
        if (!json_is_integer(pairs))
            gyre_scope_fail(root, GYRE_EFORMAT, key, "it has an element that is not a whole number");
        rope->axis_pairs[a] = (int64_t)json_integer_value(pairs);
    }
}

/* own: the base that layer_rope_theta gives the group's layers; 0 = that of the file. */
static void read_base(const gyre_scope *root, const gyre_scope *dict, double own, gyre_layer_group *group) {
    const char *key = own != 0.0 ? bases_key : "rope_theta";
    double base = own;
    if (own == 0.0) base = gyre_scope_number(root, key, gyre_scope_number(dict, key, 10000.0));
    if (!(base > 1.0)) gyre_scope_fail(root, GYRE_EFORMAT, key, "%g is not above 1", base);
    note_number(gyre_scope_value(root, key) ? root : dict, key, group, "base", GYRE_ORIGIN_READER, base);
    group->config.rope.base = base;
}

static void read_rotation(const gyre_scope *root, double own_base, gyre_layer_group *group) {
    static const char *const dicts[] = {"rope_scaling", "rope_parameters", NULL}, *const words[] = {"rope_type", "type",
                                                                                                    NULL};
    struct gyre_rope_config *rope = &group->config.rope;
    const char *key = gyre_scope_first(root, dicts);
    const gyre_scope dict = key ? gyre_scope_child(root, key) : (gyre_scope){root->source, NULL, ""};
    const char *type = gyre_scope_first(&dict, words);
    const char *named = type ? gyre_scope_string(&dict, type, NULL) : NULL;
    if (type && (!named || !gyre_find_rope_type(named, &rope->scaling)))
        gyre_scope_fail(&dict, GYRE_EFORMAT, type, "\"%.60s\" is not known", named ? named : "");
    const gyre_place place = type ? gyre_scope_place(&dict, type) : (gyre_place){NULL, 0, 0};
    gyre_build_set_field(root->source->build, group, "scaling", type ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_READER, &place, NULL,
                         "%s", gyre_rope_type(rope->scaling));
    read_base(root, &dict, own_base, group);
    read_trained_length(root, &dict, group);
    read_rotary_dim(root, &dict, group);
    if (rope->scaling != GYRE_SCALING_NONE) {
        rope->factor = gyre_scope_number(
            &dict, "factor",
            rope->scaling == GYRE_SCALING_PROPORTIONAL || rope->scaling == GYRE_SCALING_DYNAMIC_YARN ? 1.0 : NAN);
        if (rope->factor < 1.0) gyre_scope_fail(&dict, GYRE_EFORMAT, "factor", "%g is below 1", rope->factor);
        note_number(&dict, "factor", group, "factor", GYRE_ORIGIN_READER, rope->factor);
    }
    read_numbers(&dict, group);
    group->config.context_length = gyre_scope_integer(root, "rope_length", 1, 0);
    if (gyre_build_length(root->source->build) > 0) group->config.context_length = gyre_build_length(root->source->build);
    if (gyre_scope_bool(root, "rope_interleaved", 0)) rope->layout = GYRE_LAYOUT_INTERLEAVED;
    gyre_build_set_field(root->source->build, group, "layout", GYRE_ORIGIN_READER, NULL, NULL, "%s",
                         rope->layout == GYRE_LAYOUT_INTERLEAVED ? "interleaved" : "half");
    read_fields(root, "rope.", group);
    read_fields(root, "length_", group);
    if (rope->axes > 1) read_sections(root, group);
}

/* -- the whole file -- */
static int kind_at(const gyre_scope *s, const char *key, gyre_kind *out) {
    const char *text = gyre_scope_string(s, key, NULL);
    *out = gyre_kind_find(text);
    if (*out) return 1;
    gyre_scope_fail(s, GYRE_EUNSUPPORTED, key, "\"%.60s\" is not known", text);
    return 0;
}

static void note_part(const gyre_scope *root, gyre_layer_group *group, const char *key, const char *note) {
    const gyre_place place = gyre_scope_place(root, key);
    if (gyre_scope_bool(root, key, 0))
        gyre_build_set_field(root->source->build, group, key, GYRE_ORIGIN_FILE, &place, note, "true");
}

/* What layers train beside the encoding. */
static void note_parts(const gyre_scope *root, gyre_layer_group *group) {
    static const char *const parts[] = {"forget_gates", "contextual"};
    const gyre_head_part_facts *part;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        note_part(root, group, parts[i], NULL);
    for (int i = 0; (part = gyre_head_part_facts_at(i)); i++) {
        note_part(root, group, part->key, part->note);
        if (part->option) note_part(root, group, part->option, NULL);
    }
    if (!gyre_scope_value(root, "adaptive")) return;
    const gyre_place place = gyre_scope_place(root, "adaptive");
    gyre_build_set_field(root->source->build, group, "adaptive", GYRE_ORIGIN_FILE, &place,
                         "the weights hold a network of each layer, which adapts the biases to queries and keys", "%s",
                         gyre_scope_string(root, "adaptive", ""));
}

static void read_sizes(const gyre_scope *root, gyre_layer_group *group) {
    gyre_config *config = &group->config;
    config->heads = gyre_scope_integer(root, "num_attention_heads", 1, 0);
    config->input.dim = gyre_scope_integer(root, "hidden_size", 1, 0);
    config->head_dim =
        gyre_rope_read_channels(root, "head_dim", 1, config->heads > 0 ? config->input.dim / config->heads : 0);
    config->trained_length = gyre_scope_integer(root, "max_position_embeddings", 1, 0);
    note_parts(root, group);
    const gyre_head_part_facts *part;
    for (int i = 0; (part = gyre_head_part_facts_at(i)); i++)
        if (gyre_scope_bool(root, part->key, 0) && config->head_dim <= INT32_MAX) config->head_dim *= part->channel_factor;
    if (gyre_kind_has(config->kind, GYRE_TRAIT_QUERY_VECTORS) && config->head_dim > 0 && config->head_dim <= INT32_MAX)
        config->head_dim += gyre_scope_integer(root, "score_relative_channels", 1, GYRE_RELATIVE_CHANNELS);
    if (config->head_dim > 0)
        note_number(root, "head_dim", group, "head_dim", GYRE_ORIGIN_DERIVED, (double)config->head_dim);
}

static void read_position(const gyre_scope *root, double own_base, gyre_layer_group *group) {
    read_sizes(root, group);
    read_fields(root, "input.", group);
    read_fields(root, "score.", group);
    read_fields(root, "query.", group);
    if (gyre_kind_has(group->config.kind, GYRE_TRAIT_ROTATES))
        read_rotation(root, own_base, group);
    else if (gyre_config_has(&group->config, "length_policy"))
        read_fields(root, "length_", group);
    if (gyre_config_has(&group->config, "input.positions") && !gyre_scope_value(root, "position_table_rows"))
        gyre_scope_fail(root, GYRE_EFORMAT, "position_table_rows", "missing");
    const int64_t heads = group->config.heads;
    if (gyre_scope_value(root, "alibi_slopes")) group->config.score.slopes = gyre_scope_numbers(root, "alibi_slopes", heads);
    if (gyre_scope_value(root, "alibi_slopes_after"))
        group->config.score.slopes_after = gyre_scope_numbers(root, "alibi_slopes_after", heads);
}

static gyre_layer_group *add_group(const gyre_scope *root, const char *name, const char *key, gyre_kind kind) {
    gyre_build *build = root->source->build;
    gyre_layer_group *group = gyre_build_add_group(build, name);
    const gyre_place place = gyre_scope_place(root, key);
    group->config.kind = kind;
    gyre_build_set_field(build, group, "encoding", GYRE_ORIGIN_FILE, &place, NULL, "%s", gyre_kind_name(kind));
    return group;
}

/* out = the group of layers with this base; 0 = they do not rotate. */
static gyre_layer_group *group_of_base(const gyre_scope *root, gyre_kind kind, double base) {
    gyre_build *build = root->source->build;
    const char *name = gyre_build_find_group(build, GYRE_NATIVE_ROTATES)
                           ? gyre_build_format(build, GYRE_NATIVE_ROTATES "_base_%.17g", base)
                           : GYRE_NATIVE_ROTATES;
    const gyre_reading *so_far = gyre_build_so_far(build);
    for (int64_t i = 0; i < so_far->groups_count; i++) {
        gyre_layer_group *group = gyre_build_find_group(build, so_far->groups[i]->name);
        if (group->config.rope.base == base) return group;
    }
    if (so_far->groups_count >= GYRE_MAX_LAYER_KINDS)
        gyre_scope_fail(root, GYRE_EUNSUPPORTED, bases_key, "more than %d different bases", GYRE_MAX_LAYER_KINDS);
    if (base == 0) return add_group(root, "nope", bases_key, gyre_kind_find("nope"));
    gyre_layer_group *group = add_group(root, name, "position_embedding_type", kind);
    read_position(root, base, group);
    return group;
}

/* Layers by their bases. */
static void read_bases(const gyre_scope *root, gyre_kind kind, int64_t layers) {
    gyre_build *build = root->source->build;
    const double *bases = gyre_scope_numbers(root, bases_key, layers);
    if (!gyre_kind_has(kind, GYRE_TRAIT_ROTATES))
        gyre_scope_fail(root, GYRE_EFORMAT, bases_key, "%s does not rotate", gyre_kind_name(kind));
    for (int64_t i = 0; bases && i < layers && !gyre_build_status(build); i++)
        gyre_build_add_layer(build, group_of_base(root, kind, bases[i]), i);
    if (!gyre_build_find_group(build, GYRE_NATIVE_ROTATES))
        gyre_scope_fail(root, GYRE_EFORMAT, bases_key, "all are 0, and no layer rotates");
}

void gyre_read_native(const gyre_family *family, const gyre_scope *root) {
    static const char kind_key[] = "position_embedding_type";
    gyre_kind kind;
    (void)family;
    if (!kind_at(root, kind_key, &kind)) return;
    const int64_t layers = gyre_scope_integer(root, "num_hidden_layers", 1, 0);
    if (layers > 65536)
        gyre_scope_fail(root, GYRE_EFORMAT, "num_hidden_layers", "%" PRId64 " layers; the most is 65536", layers);
    if (gyre_build_status(root->source->build)) return;
    if (gyre_scope_value(root, bases_key)) {
        read_bases(root, kind, layers);
        return;
    }
    gyre_layer_group *all = add_group(root, "all", kind_key, kind);
    read_position(root, 0, all);
    for (int64_t i = 0; i < layers; i++)
        gyre_build_add_layer(root->source->build, all, i);
}
