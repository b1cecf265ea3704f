/* explain_json.c: a reading as JSON.  Doubles are written with 17 digits, so that they read back the same. */
#include "gyre/gyre_fields.h"
#include "tools/cli/cli_json.h"
#include "tools/explain/explain_format.h"
#include "tools/explain/explain_stats.h"
#include "tools/explain/glossary.h"
#include "tools/options/value_names.h"

static json_t *known_number(double value) {
    return value > 0 ? cli_json_number(value) : json_null();
}

/* Numbers that JSON cannot hold become null. */
static json_t *numbers(const double *values, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        list = cli_json_append(list, cli_json_number(values[i]));
    return list;
}

static json_t *list_or_null(const double *values, int64_t count) {
    return values ? numbers(values, count) : json_null();
}

static json_t *wavelengths(const explain_stats *stats) {
    if (!stats->inv_freq) return json_null();
    json_t *list = json_array();
    for (int64_t i = 0; i < stats->pairs; i++)
        list = cli_json_append(list, cli_json_number(explain_wavelength(stats->inv_freq[i])));
    return list;
}

/* -- the scaling -- */
static int set_yarn(json_t *object, const explain_stats *stats) {
    const struct gyre_rope_config *rope = &stats->config->rope;
    int bad = cli_json_set(object, "original_length", cli_json_nonzero(stats->trained));
    bad |= cli_json_set(object, "beta_fast", cli_json_number(rope->beta_fast));
    bad |= cli_json_set(object, "beta_slow", cli_json_number(rope->beta_slow));
    bad |= cli_json_set(object, "truncate", json_boolean(!rope->fractional_bounds));
    if (rope->scaling != GYRE_SCALING_YARN && rope->scaling != GYRE_SCALING_DYNAMIC_YARN) return bad;
    bad |= cli_json_set(object, "attention_factor", cli_json_number(stats->attention_factor));
    bad |= cli_json_set(object, "mscale", known_number(rope->mscale));
    return bad | cli_json_set(object, "mscale_all_dim", known_number(rope->mscale_all_dim));
}

static int set_longrope(json_t *object, const explain_stats *stats) {
    const struct gyre_rope_config *rope = &stats->config->rope;
    int bad = cli_json_set(object, "original_length", cli_json_nonzero(stats->trained));
    bad |= cli_json_set(object, "attention_factor", cli_json_number(stats->attention_factor));
    bad |= cli_json_set(object, "short_factor", list_or_null(rope->short_factor, stats->pairs));
    return bad | cli_json_set(object, "long_factor", list_or_null(rope->long_factor, stats->pairs));
}

static json_t *scaling_json(const explain_stats *stats) {
    const struct gyre_rope_config *rope = &stats->config->rope;
    json_t *object = json_object();
    int bad = cli_json_set(object, "type", json_string(gyre_rope_type(rope->scaling)));
    if (rope->scaling != GYRE_SCALING_NONE) bad |= cli_json_set(object, "factor", cli_json_number(rope->factor));
    switch (rope->scaling) {
    case GYRE_SCALING_DYNAMIC_NTK:
        bad |= cli_json_set(object, "original_length", cli_json_nonzero(stats->trained));
        break;
    case GYRE_SCALING_BY_PARTS:
    case GYRE_SCALING_BY_PARTS_PAPER:
    case GYRE_SCALING_YARN:
    case GYRE_SCALING_DYNAMIC_YARN:
        bad |= set_yarn(object, stats);
        break;
    case GYRE_SCALING_LLAMA3:
        bad |= cli_json_set(object, "original_length", cli_json_nonzero(stats->trained));
        bad |= cli_json_set(object, "low_freq_factor", cli_json_number(rope->low_freq));
        bad |= cli_json_set(object, "high_freq_factor", cli_json_number(rope->high_freq));
        break;
    case GYRE_SCALING_LONGROPE:
        bad |= set_longrope(object, stats);
        break;
    case GYRE_SCALING_PROPORTIONAL:
        bad |= cli_json_set(object, "proportion", cli_json_number(rope->proportion));
        break;
    case GYRE_SCALING_NTK_MIXED:
        bad |= cli_json_set(object, "mixed_exponent", cli_json_number(rope->mixed_exponent));
        break;
    default:
        break;
    }
    return cli_json_checked(object, bad);
}

/* -- a group -- */
/* Every key is present for every scheme; it is null if it does not apply. */
static int set_rotation(json_t *object, const explain_stats *stats) {
    const gyre_config *config = stats->config;
    const int rotates = gyre_kind_has(config->kind, GYRE_TRAIT_ROTATES);
    int bad = cli_json_set(object, "layout", rotates ? json_string(gyre_layout_name(config->rope.layout)) : json_null());
    bad |= cli_json_set(object, "head_dim", cli_json_nonzero(config->head_dim));
    bad |= cli_json_set(object, "rotary_dim", rotates ? json_integer(config->rope.dim) : json_null());
    bad |= cli_json_set(object, "base",
                        rotates                                 ? cli_json_number(config->rope.base)
                        : gyre_config_has(config, "input.base") ? cli_json_number(config->input.base)
                                                                : json_null());
    bad |= cli_json_set(object, "base_in_use", rotates ? cli_json_number(explain_base_in_use(stats)) : json_null());
    bad |= cli_json_set(object, "scaling", rotates ? scaling_json(stats) : json_null());
    bad |= cli_json_set(object, "trained_length", cli_json_nonzero(stats->trained));
    bad |= cli_json_set(object, "length", cli_json_nonzero(stats->length));
    bad |= cli_json_set(object, "length_policy",
                        explain_depends_on_length(stats) ? json_string(gyre_length_policy_name(config->length_policy))
                                                         : json_null());
    bad |= cli_json_set(object, "length_block",
                        explain_depends_on_length(stats) && config->length_policy == GYRE_LENGTH_POLICY_CAUSAL
                            ? json_integer(config->length_block)
                            : json_null());
    bad |= cli_json_set(object, "attention_factor", rotates ? cli_json_number(stats->attention_factor) : json_null());
    bad |= cli_json_set(object, "inv_freq", list_or_null(stats->inv_freq, stats->pairs));
    bad |= cli_json_set(object, "wavelength", wavelengths(stats));
    bad |= cli_json_set(object, "unfinished", rotates && stats->trained > 0 ? json_integer(stats->incomplete) : json_null());
    return bad;
}

static json_t *parts_json(const explain_stats *stats) {
    gyre_scaling_parts parts;
    if (gyre_encoding_scaling_parts(stats->encoding, stats->length, &parts)) return json_null();
    return json_pack("{s:I, s:I, s:I}", "kept", (json_int_t)parts.kept, "blended", (json_int_t)parts.blended, "divided",
                     (json_int_t)parts.divided);
}

json_t *explain_field_json(const gyre_reading_field *field, int named) {
    json_t *object = json_object();
    int bad = named ? cli_json_set(object, "name", cli_json_text(field->name)) : 0;
    bad |= cli_json_set(object, "value", cli_json_text(field->value));
    bad |= cli_json_set(object, "from", json_string(explain_origin_name(field->origin)));
    bad |= cli_json_set(object, "key", cli_json_text(field->key));
    bad |= cli_json_set(object, "line", cli_json_nonzero(field->line));
    bad |= cli_json_set(object, "why", cli_json_text(field->note));
    return cli_json_checked(object, bad);
}

static json_t *fields_json(const gyre_layer_reading *group) {
    json_t *list = json_array();
    for (int64_t i = 0; i < group->fields_count; i++)
        list = cli_json_append(list, explain_field_json(&group->fields[i], 1));
    return list;
}

static json_t *scheme_json(const explain_stats *stats) {
    char text[1024];
    explain_describe_scheme(stats, text, sizeof text);
    return *text ? json_string(text) : json_null();
}

int explain_group_json(json_t *object, const gyre_reading *reading, const explain_stats *stats) {
    const gyre_layer_reading *group = stats->group;
    const int rotates = gyre_kind_has(stats->config->kind, GYRE_TRAIT_ROTATES);
    int bad = cli_json_set(object, "name", cli_json_text(group->name));
    bad |= cli_json_set(object, "layers", cli_json_integers(group->layers, group->layers_count));
    bad |= cli_json_set(object, "layers_in_all", cli_json_nonzero(explain_layer_count(reading, group)));
    bad |= cli_json_set(object, "encoding", json_string(stats->label));
    bad |= cli_json_set(object, "kind", json_string(gyre_kind_name(stats->config->kind)));
    bad |= set_rotation(object, stats);
    bad |= cli_json_set(object, "softmax_multiplier", cli_json_number(group->softmax_multiplier));
    bad |= cli_json_set(object, "scale", known_number(stats->scale));
    bad |= cli_json_set(object, "window", cli_json_nonzero(group->window));
    bad |= cli_json_set(object, "parts", parts_json(stats));
    bad |= cli_json_set(object, "reach", cli_json_nonzero(stats->max_length));
    bad |= cli_json_set(object, "unfinished_in_reach",
                        rotates && stats->max_length > 0 ? json_integer(stats->incomplete_max_length) : json_null());
    bad |= cli_json_set(object, "heads", cli_json_nonzero(stats->config->heads));
    bad |= cli_json_set(object, "slopes", list_or_null(stats->slopes, stats->config->heads));
    bad |= cli_json_set(object, "scheme", scheme_json(stats));
    return bad | cli_json_set(object, "fields", fields_json(group));
}

const char *explain_warning_kind(const gyre_reading_warning *warning) {
    static const char *const names[] = {"other", "unread_key", "assumed"};
    return names[warning->kind];
}

json_t *explain_warnings_json(const gyre_reading *reading) {
    json_t *list = json_array();
    for (int64_t i = 0; i < reading->warnings_count; i++) {
        const gyre_reading_warning *w = &reading->warnings[i];
        char entry[GLOSSARY_PLACE];
        json_t *object = json_object();
        const int bad = cli_json_set(object, "text", cli_json_text(w->text)) |
                        cli_json_set(object, "see", cli_json_text(glossary_place(w->key, entry))) |
                        cli_json_set(object, "key", cli_json_text(w->key)) |
                        cli_json_set(object, "line", cli_json_nonzero(w->line)) |
                        cli_json_set(object, "kind", json_string(explain_warning_kind(w)));
        list = cli_json_append(list, cli_json_checked(object, bad));
    }
    return list;
}
