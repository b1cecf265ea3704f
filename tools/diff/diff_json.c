/* diff_json.c: a comparison as JSON. */
#include "tools/cli/cli_json.h"
#include "tools/diff/diff_draft.h"
#include "tools/options/value_names.h"
#include <math.h>

static json_t *operand_json(const diff_operand *operand) {
    json_t *object = json_object();
    const gyre_reading *reading = operand->reading;
    const gyre_profile profile = reading ? reading->profile : operand->profile;
    const char *name = gyre_profile_name(profile);
    int bad = cli_json_set(object, "path", cli_json_text(reading ? reading->path : operand->path));
    bad |= cli_json_set(object, "format", reading ? json_string(reading->format) : json_null());
    bad |= cli_json_set(object, "model_type", reading ? cli_json_text(reading->model_type) : json_null());
    bad |= cli_json_set(object, "profile", name ? json_string(name) : json_null());
    bad |= cli_json_set(object, "label", cli_json_text(operand->label));
    bad |= cli_json_set(object, "refused", reading ? json_null() : cli_json_text(operand->err.text));
    bad |= cli_json_set(object, "warnings", reading ? explain_warnings_json(reading) : json_array());
    return cli_json_checked(object, bad);
}

static json_t *fields_json(const diff_layers *d) {
    diff_field fields[DIFF_MAX_FIELDS];
    const int count = diff_fields_compare(d->a.group, d->b.group, fields, DIFF_MAX_FIELDS);
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        const gyre_reading_field *a = fields[i].a, *b = fields[i].b;
        json_t *object = json_object();
        int bad = cli_json_set(object, "name", cli_json_text(a ? a->name : b->name));
        bad |= cli_json_set(object, "a", a ? explain_field_json(a, 0) : json_null());
        bad |= cli_json_set(object, "b", b ? explain_field_json(b, 0) : json_null());
        list = cli_json_append(list, cli_json_checked(object, bad));
    }
    return list;
}

static json_t *settings_json(const diff_layers *d) {
    json_t *list = json_array();
    for (int i = 0; i < d->settings_count; i++) {
        const diff_setting *s = &d->settings[i];
        json_t *object = json_object();
        const int bad = cli_json_set(object, "name", cli_json_text(s->name)) |
                        cli_json_set(object, "a", cli_json_text(s->a)) | cli_json_set(object, "b", cli_json_text(s->b));
        list = cli_json_append(list, cli_json_checked(object, bad));
    }
    return list;
}

static json_t *two_texts(const char *a, const char *b) {
    json_t *object = json_object();
    return cli_json_checked(object,
                            cli_json_set(object, "a", cli_json_text(a)) | cli_json_set(object, "b", cli_json_text(b)));
}

static json_t *wavelength_json(const explain_stats *f, int64_t pair) {
    return pair >= 0 && pair < f->pairs ? cli_json_number(explain_wavelength(f->inv_freq[pair])) : json_null();
}

static json_t *pair_json(int64_t pair) {
    return pair < 0 ? json_null() : json_integer(pair);
}

static json_t *layout_json(const diff_layers *d) {
    return d->rotates ? two_texts(gyre_layout_name(d->a.config->rope.layout), gyre_layout_name(d->b.config->rope.layout))
                      : json_null();
}

static json_t *accuracy_json(const diff_layers *d) {
    json_t *object = json_object();
    int bad = 0;
    for (int s = 0; s < 2; s++)
        bad |= cli_json_set(object, s ? "b" : "a", d->accuracy[s] ? explain_accuracy_json(d->accuracy[s]) : json_null());
    return cli_json_checked(object, bad);
}

static json_t *layers_json(const diff_layers *d) {
    json_t *object = json_object();
    int bad = cli_json_set(object, "name", two_texts(d->a.group->name, d->b.group->name));
    bad |= cli_json_set(object, "encoding", two_texts(d->a.label, d->b.label));
    bad |= cli_json_set(object, "same", json_boolean(d->same));
    bad |= cli_json_set(object, "max_relative_difference",
                        d->rotates ? cli_json_number(d->max_relative_difference) : json_null());
    bad |= cli_json_set(object, "pair", pair_json(d->pair));
    bad |= cli_json_set(object, "wavelength_a", wavelength_json(&d->a, d->pair));
    bad |= cli_json_set(object, "wavelength_b", wavelength_json(&d->b, d->pair));
    bad |= cli_json_set(object, "max_difference", d->rotates ? cli_json_number(d->max_difference) : json_null());
    bad |= cli_json_set(object, "max_difference_pair", pair_json(d->max_difference_pair));
    bad |= cli_json_set(object, "first_position", pair_json(d->first_position));
    bad |= cli_json_set(object, "first_distance", pair_json(d->first_distance));
    bad |= cli_json_set(object, "length", cli_json_nonzero(d->length));
    bad |= cli_json_set(object, "angle_at_length", d->rotates ? cli_json_number(d->angle_difference) : json_null());
    bad |= cli_json_set(object, "layout", layout_json(d));
    bad |= cli_json_set(object, "reordered", json_boolean(d->reordered));
    bad |= cli_json_set(object, "attention_factor_ratio", cli_json_number(d->factor_ratio));
    bad |= cli_json_set(object, "softmax_multiplier_ratio", cli_json_number(d->softmax_ratio));
    bad |= cli_json_set(object, "scale_ratio", cli_json_number(d->scale_ratio));
    bad |= cli_json_set(object, "score_ratio", cli_json_number(d->score_ratio));
    bad |= cli_json_set(object, "settings", settings_json(d));
    bad |= cli_json_set(object, "fields", fields_json(d));
    if (d->accuracy[0] || d->accuracy[1]) bad |= cli_json_set(object, "accuracy", accuracy_json(d));
    return cli_json_checked(object, bad);
}

static json_t *unmatched_json(const diff_result *r) {
    json_t *list = json_array();
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < r->unmatched_count[s]; i++) {
            json_t *object = json_object();
            const int bad = cli_json_set(object, "name", cli_json_text(r->unmatched[s][i]->name)) |
                            cli_json_set(object, "side", json_string(s ? "b" : "a"));
            list = cli_json_append(list, cli_json_checked(object, bad));
        }
    return list;
}

int diff_write_json(const diff_result *r, const diff_draft *draft, FILE *file) {
    json_t *root = json_object(), *groups = json_array();
    for (int i = 0; i < r->count; i++)
        groups = cli_json_append(groups, layers_json(&r->layers[i]));
    int bad = cli_json_set(root, "a", operand_json(&r->operand[0]));
    bad |= cli_json_set(root, "b", operand_json(&r->operand[1]));
    bad |= cli_json_set(root, "same", json_boolean(r->same));
    bad |= cli_json_set(root, "verdict", cli_json_text(r->verdict));
    bad |= cli_json_set(root, "groups", groups);
    bad |= cli_json_set(root, "alone", unmatched_json(r));
    if (draft) bad |= cli_json_set(root, "draft", diff_draft_json(draft));
    return cli_json_write(file, cli_json_checked(root, bad));
}
