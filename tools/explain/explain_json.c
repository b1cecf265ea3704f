/* explain_json.c: a reading for machines.  Doubles are written with 17 digits, so that they survive. */
#include "tools/explain/explain_stats.h"
#include "tools/explain/explain_text.h"

/* Without memory jansson hands out NULL, which it refuses here: one check at the end of many calls is enough. */
static int set(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) != 0;
}

static json_t *known_number(double value) {
    return value > 0 ? cli_json_number(value) : json_null();
}

static json_t *numbers(const double *values, int64_t count) {
    json_t *list = json_array();
    int bad = !list;
    for (int64_t i = 0; i < count && !bad; i++)
        bad = json_array_append_new(list, cli_json_number(values[i])) != 0;
    if (!bad) return list;
    json_decref(list);
    return NULL;
}

static json_t *list_or_null(const double *values, int64_t count) {
    return values ? numbers(values, count) : json_null();
}

static json_t *wavelengths(const explain_stats *f) {
    json_t *list = f->inv_freq ? json_array() : NULL;
    int bad = !list;
    for (int64_t i = 0; i < f->pairs && !bad; i++)
        bad = json_array_append_new(list, cli_json_number(explain_wavelength(f->inv_freq[i]))) != 0;
    if (!f->inv_freq) return json_null();
    if (!bad) return list;
    json_decref(list);
    return NULL;
}

/* -- what a scaling was made of -- */
static int set_yarn(json_t *object, const explain_stats *f) {
    const struct gyre_rope_config *rope = &f->config->rope;
    int bad = set(object, "original_length", explain_json_nonzero(f->trained));
    bad |= set(object, "beta_fast", cli_json_number(rope->beta_fast));
    bad |= set(object, "beta_slow", cli_json_number(rope->beta_slow));
    bad |= set(object, "truncate", json_boolean(!rope->fractional_bounds));
    if (rope->scaling != GYRE_SCALING_YARN && rope->scaling != GYRE_SCALING_DYNAMIC_YARN) return bad;
    bad |= set(object, "attention_factor", cli_json_number(f->attention_factor));
    bad |= set(object, "mscale", known_number(rope->mscale));
    return bad | set(object, "mscale_all_dim", known_number(rope->mscale_all_dim));
}

static int set_longrope(json_t *object, const explain_stats *f) {
    const struct gyre_rope_config *rope = &f->config->rope;
    int bad = set(object, "original_length", explain_json_nonzero(f->trained));
    bad |= set(object, "attention_factor", cli_json_number(f->attention_factor));
    bad |= set(object, "short_factor", list_or_null(rope->short_factor, f->pairs));
    return bad | set(object, "long_factor", list_or_null(rope->long_factor, f->pairs));
}

static json_t *scaling_json(const explain_stats *f) {
    const struct gyre_rope_config *rope = &f->config->rope;
    json_t *object = json_object();
    int bad = set(object, "type", json_string(explain_scaling_name(rope->scaling)));
    if (rope->scaling != GYRE_SCALING_NONE) bad |= set(object, "factor", cli_json_number(rope->factor));
    switch (rope->scaling) {
    case GYRE_SCALING_DYNAMIC_NTK:
        bad |= set(object, "original_length", explain_json_nonzero(f->trained));
        break;
    case GYRE_SCALING_BY_PARTS:
    case GYRE_SCALING_BY_PARTS_PAPER:
    case GYRE_SCALING_YARN:
    case GYRE_SCALING_DYNAMIC_YARN:
        bad |= set_yarn(object, f);
        break;
    case GYRE_SCALING_LLAMA3:
        bad |= set(object, "original_length", explain_json_nonzero(f->trained));
        bad |= set(object, "low_freq_factor", cli_json_number(rope->low_freq));
        bad |= set(object, "high_freq_factor", cli_json_number(rope->high_freq));
        break;
    case GYRE_SCALING_LONGROPE:
        bad |= set_longrope(object, f);
        break;
    case GYRE_SCALING_PROPORTIONAL:
        bad |= set(object, "proportion", cli_json_number(rope->proportion));
        break;
    case GYRE_SCALING_NTK_MIXED:
        bad |= set(object, "mixed_exponent", cli_json_number(rope->mixed_exponent));
        break;
    default:
        break;
    }
    if (!bad) return object;
    json_decref(object);
    return NULL;
}

/* -- a group -- */
/* Every key is there for every scheme, null where it says nothing of it. */
static int set_rotation(json_t *object, const explain_stats *f) {
    static const char *const policies[] = {"declared", "causal", "prefix"};
    const gyre_config *config = f->config;
    const int turns = config->kind == GYRE_KIND_ROPE;
    int bad = set(object, "layout", turns ? json_string(explain_layout_name(config->rope.layout)) : json_null());
    bad |= set(object, "head_dim", explain_json_nonzero(config->head_dim));
    bad |= set(object, "rotary_dim", turns ? json_integer(config->rope.dim) : json_null());
    bad |= set(object, "base",
               turns                                  ? cli_json_number(config->rope.base)
               : config->kind == GYRE_KIND_SINUSOIDAL ? cli_json_number(config->input.base)
                                                      : json_null());
    bad |= set(object, "scaling", turns ? scaling_json(f) : json_null());
    bad |= set(object, "trained_length", explain_json_nonzero(f->trained));
    bad |= set(object, "length", explain_json_nonzero(f->length));
    bad |= set(object, "length_policy",
               explain_depends_on_length(f) ? json_string(policies[config->rope.length_policy]) : json_null());
    bad |= set(object, "length_block",
               explain_depends_on_length(f) && config->rope.length_policy == GYRE_LENGTH_POLICY_CAUSAL
                   ? json_integer(config->rope.length_block)
                   : json_null());
    bad |= set(object, "attention_factor", turns ? cli_json_number(f->attention_factor) : json_null());
    bad |= set(object, "inv_freq", list_or_null(f->inv_freq, f->pairs));
    bad |= set(object, "wavelength", wavelengths(f));
    bad |= set(object, "unfinished", turns && f->trained > 0 ? json_integer(f->incomplete) : json_null());
    return bad;
}

static json_t *parts_json(const explain_stats *f) {
    gyre_scaling_parts parts;
    if (gyre_encoding_scaling_parts(f->encoding, f->length, &parts)) return json_null();
    return json_pack("{s:I, s:I, s:I}", "kept", (json_int_t)parts.kept, "blended", (json_int_t)parts.blended, "divided",
                     (json_int_t)parts.divided);
}

static json_t *layers_json(const gyre_layer_reading *group) {
    json_t *list = json_array();
    int bad = !list;
    for (int64_t i = 0; i < group->layers_count && !bad; i++)
        bad = json_array_append_new(list, json_integer(group->layers[i])) != 0;
    if (!bad) return list;
    json_decref(list);
    return NULL;
}

json_t *explain_field_json(const gyre_reading_field *field, int named) {
    json_t *object = json_object();
    int bad = named ? set(object, "name", explain_json_text(field->name)) : 0;
    bad |= set(object, "value", explain_json_text(field->value));
    bad |= set(object, "from", json_string(explain_origin_name(field->origin)));
    bad |= set(object, "key", explain_json_text(field->key));
    bad |= set(object, "line", explain_json_nonzero(field->line));
    bad |= set(object, "why", explain_json_text(field->note));
    if (!bad) return object;
    json_decref(object);
    return NULL;
}

static json_t *fields_json(const gyre_layer_reading *group) {
    json_t *list = json_array();
    int bad = !list;
    for (int64_t i = 0; i < group->fields_count && !bad; i++)
        bad = json_array_append_new(list, explain_field_json(&group->fields[i], 1)) != 0;
    if (!bad) return list;
    json_decref(list);
    return NULL;
}

static json_t *scheme_json(const explain_stats *f) {
    char text[1024];
    explain_describe_scheme(f, text, sizeof text);
    return *text ? json_string(text) : json_null();
}

int explain_group_json(json_t *object, const gyre_reading *reading, const explain_stats *f) {
    const gyre_layer_reading *group = f->group;
    const int turns = f->config->kind == GYRE_KIND_ROPE;
    int bad = set(object, "name", explain_json_text(group->name));
    bad |= set(object, "layers", layers_json(group));
    bad |= set(object, "layers_in_all", explain_json_nonzero(explain_layer_count(reading, group)));
    bad |= set(object, "encoding", json_string(f->label));
    bad |= set(object, "kind", json_string(gyre_kind_name(f->config->kind)));
    bad |= set_rotation(object, f);
    bad |= set(object, "softmax_multiplier", cli_json_number(group->softmax_multiplier));
    bad |= set(object, "scale", known_number(f->scale));
    bad |= set(object, "window", explain_json_nonzero(group->window));
    bad |= set(object, "parts", parts_json(f));
    bad |= set(object, "reach", explain_json_nonzero(f->max_length));
    bad |= set(object, "unfinished_in_reach",
               turns && f->max_length > 0 ? json_integer(f->incomplete_max_length) : json_null());
    bad |= set(object, "heads", explain_json_nonzero(f->config->heads));
    bad |= set(object, "slopes", list_or_null(f->slopes, f->config->heads));
    bad |= set(object, "scheme", scheme_json(f));
    return bad | set(object, "fields", fields_json(group));
}

json_t *explain_warnings_json(const gyre_reading *reading) {
    json_t *list = json_array();
    int bad = !list;
    for (int64_t i = 0; i < reading->warnings_count && !bad; i++) {
        const gyre_reading_warning *w = &reading->warnings[i];
        json_t *object = json_object();
        bad = set(object, "text", explain_json_text(w->text)) | set(object, "key", explain_json_text(w->key)) |
              set(object, "line", explain_json_nonzero(w->line));
        bad = json_array_append_new(list, object) != 0 || bad;
    }
    if (!bad) return list;
    json_decref(list);
    return NULL;
}
