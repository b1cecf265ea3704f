/* audit_limits.c: how many tokens the tokenizer and the generation of a model are limited to. */
#include "gyre/gyre_fields.h"
#include "tools/audit/audit.h"
#include "tools/diff/diff_compare.h"
#include "util/checkpoint_files.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GENERATION_FILE "generation_config.json"
/* Above this a tokenizer means "no limit": transformers writes 10^30. */
#define NO_LIMIT 1e15

typedef struct limit {
    const char *key;
    int least; /* 0: none need be made */
    int cuts;  /* 1: texts are cut there, not refused */
} limit;

/* out = positions that have a row of a learned table; 0 = positions do not end. */
static int64_t last_length(const gyre_layer_reading *group) {
    if (!group || !gyre_config_has(&group->config, "input.positions")) return 0;
    const gyre_reading_field *offset = explain_find_field(group, "offset");
    return group->config.input.positions - (offset ? strtoll(offset->value, NULL, 10) : 0);
}

/* -- a scaling that was lost -- */
/* LongLoRA and its like train with a linear factor that some scripts do not save. */
static double lost_factor(const audit *a, const limit *l, double length) {
    const gyre_layer_reading *group = a->reading ? a->reading->groups[0] : NULL;
    if (!group || !l->cuts || !gyre_kind_has(group->config.kind, GYRE_TRAIT_ROTATES)) return 0;
    if (group->config.rope.scaling != GYRE_SCALING_NONE || group->config.trained_length < 1) return 0;
    const double factor = length / (double)group->config.trained_length;
    return length < NO_LIMIT && factor >= 2 && factor == floor(factor) && factor <= 512 ? factor : 0;
}

/* -- against what the model serves -- */
static void compare(audit *a, const audit_file *file, const limit *l, double length) {
    const int64_t context = audit_context(a), end = last_length(a->reading ? a->reading->groups[0] : NULL);
    audit_finding *f = NULL;
    if (length >= NO_LIMIT && l->cuts)
        f = audit_add(a, AUDIT_OK, "lengths", "%s sets no limit", file->name);
    else if (end > 0 && length > (double)end)
        f = audit_add(a, AUDIT_WRONG, "lengths",
                      "%s is %.16g, and the table of positions ends after %" PRId64
                      ": a text in between fails, or reads past the table",
                      l->key, length, end);
    else if (context > 0 && length > (double)context)
        f = audit_add(a, AUDIT_DOUBT, "lengths", "%s is %.16g, and the model serves %" PRId64 " tokens", l->key, length,
                      context);
    else if (context > 0 && l->cuts && length < (double)context)
        f = audit_add(a, AUDIT_NOTE, "lengths",
                      "%s is %.0f: with truncation on, texts are cut there, before the %" PRId64
                      " tokens that the model serves",
                      l->key, length, context);
    else
        f = audit_add(a, AUDIT_OK, "lengths", "%s is %.16g, within what the model serves", l->key, length);
    audit_set_place(f, "%s, line %" PRId64, file->name, audit_file_line(file, l->key));
    const double lost = f->status == AUDIT_DOUBT ? lost_factor(a, l, length) : 0;
    if (lost > 0) {
        const size_t used = strlen(f->text);
        snprintf(f->text + used, sizeof f->text - used,
                 ", and no scaling reaches further: %.0f is %.0f times that, as of a model that was trained with a scaling "
                 "which its config has lost",
                 length, lost);
        audit_set_remedy(
            f,
            "if it was trained with one (LongLoRA: linear), write it: \"rope_scaling\": {\"rope_type\": "
            "\"linear\", \"factor\": %.1f}, with max_position_embeddings %.0f; if not, set %s to at most %" PRId64,
            lost, length, l->key, context);
    } else if (f->status >= AUDIT_DOUBT)
        audit_set_remedy(f, "set %s to at most %" PRId64, l->key, end > 0 ? end : context);
}

/* -- by itself -- */
/* out = a number of tokens; 0 = none, with a finding unless it is not stated. */
static double length_of(audit *a, const audit_file *file, const limit *l) {
    const json_t *value = json_object_get(file->root, l->key);
    const double length = json_number_value(value);
    char text[AUDIT_VALUE];
    if (!value || json_is_null(value)) return 0;
    const char *why = !json_is_number(value)      ? "not a number"
                      : length < 0                ? "below 0"
                      : length != floor(length)   ? "not a whole number"
                      : length < (double)l->least ? "room for no token"
                                                  : NULL;
    if (!why) return length;
    audit_value_text(value, text);
    audit_finding *f = audit_add(a, AUDIT_WRONG, "lengths", "%s is %s, which is %s", l->key, text, why);
    audit_set_place(f, "%s, line %" PRId64, file->name, audit_file_line(file, l->key));
    audit_set_remedy(f, "set %s to a number of tokens, or remove it", l->key);
    return 0;
}

/* At least as many tokens as at most. */
static void check_order(audit *a, const audit_file *file, const char *least, const char *most) {
    const double from = json_number_value(json_object_get(file->root, least)),
                 to = json_number_value(json_object_get(file->root, most));
    if (!(to >= 1) || !(from > to)) return;
    audit_finding *f = audit_add(a, AUDIT_WRONG, "lengths", "%s is %.16g, above %s, which is %.16g", least, from, most, to);
    audit_set_place(f, "%s, line %" PRId64, file->name, audit_file_line(file, least));
}

static gyre_status check_file(audit *a, audit_file *file, const char *name, const limit *limits, gyre_error *err) {
    const gyre_status status = audit_file_find(a, file, name, "lengths", err);
    for (int i = 0; file->root && limits[i].key; i++) {
        const double length = length_of(a, file, &limits[i]);
        if (length > 0) compare(a, file, &limits[i], length);
    }
    return status;
}

gyre_status audit_limits(audit *a, gyre_error *err) {
    static const limit of_tokenizer[] = {{"model_max_length", 1, 1}, {NULL, 0, 0}},
                       of_generation[] = {{"max_length", 1, 0},
                                          {"max_new_tokens", 1, 0},
                                          {"min_length", 0, 0},
                                          {"min_new_tokens", 0, 0},
                                          {NULL, 0, 0}};
    audit_file file;
    gyre_status status = check_file(a, &file, GYRE_TOKENIZER_CONFIG_FILE, of_tokenizer, err);
    audit_file_close(&file);
    if (status) return status;
    status = check_file(a, &file, GENERATION_FILE, of_generation, err);
    check_order(a, &file, "min_length", "max_length");
    check_order(a, &file, "min_new_tokens", "max_new_tokens");
    audit_file_close(&file);
    return status;
}
