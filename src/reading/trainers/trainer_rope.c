/* trainer_rope.c: steps that the readers of trainers' rotations share. */
#include "reading/trainers/trainer_rope.h"

#include "gyre/gyre_fields.h"
#include "reading/scaling_traits.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LENGTH = 1 << 30, MAX_CHANNELS = 65536, MAX_LAYERS = 4096 };

static gyre_build *build_of(const gyre_scope *s) {
    return s->source->build;
}

/* Records a number with the key that states it, or as the trainer's default. */
static void note(const gyre_scope *s, gyre_layer_group *group, const char *name, const char *key, double value) {
    gyre_place place = {NULL, 0, 0};
    if (gyre_build_status(build_of(s))) return;
    const int there = key && gyre_scope_value(s, key);
    if (there) place = gyre_scope_place(s, key);
    gyre_build_set_number(build_of(s), group, name, there ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_READER, &place, NULL, value);
}

/* A text in the place of a number. */
static void check_text(const gyre_scope *s, const char *key) {
    const char *text = json_string_value(gyre_scope_value(s, key));
    char *end;
    if (!text) return;
    const double value = strtod(text, &end);
    if (*text == '$')
        gyre_scope_fail(s, GYRE_EFORMAT, key, "%.60s is not set in this text", text);
    else if (end > text && !*end && isfinite(value))
        gyre_scope_fail(s, GYRE_EFORMAT, key, "\"%.40s\" is a text to YAML, which writes the number as %.1f", text, value);
}

double gyre_trainer_number(const gyre_scope *s, gyre_layer_group *group, const char *name, const char *key,
                           double fallback) {
    check_text(s, key);
    const double value = gyre_scope_number(s, key, fallback);
    if (!isfinite(value)) gyre_scope_fail(s, GYRE_EFORMAT, key, "not finite");
    if (name) note(s, group, name, key, value);
    return value;
}

int64_t gyre_trainer_integer(const gyre_scope *s, gyre_layer_group *group, const char *name, const char *key,
                             int64_t minimum, int64_t fallback) {
    check_text(s, key);
    if (fallback < minimum && !gyre_scope_value(s, key)) gyre_scope_fail(s, GYRE_EFORMAT, key, "missing");
    const int64_t value = gyre_scope_integer(s, key, minimum, fallback);
    if (name) note(s, group, name, key, (double)value);
    return value;
}

double gyre_trainer_factor(const gyre_scope *s, gyre_layer_group *group, const char *key, double fallback) {
    const double value = gyre_trainer_number(s, group, "factor", key, fallback);
    if (!(value >= 1.0)) gyre_scope_fail(s, GYRE_EFORMAT, key, "%g is below 1", value);
    group->config.rope.factor = value;
    return value;
}

void gyre_trainer_scaling(const gyre_scope *s, gyre_layer_group *group, gyre_scaling scaling, const char *key,
                          const char *why) {
    gyre_place place = {NULL, 0, 0};
    const int there = key && gyre_scope_value(s, key);
    if (there) place = gyre_scope_place(s, key);
    group->config.rope.scaling = scaling;
    gyre_build_set_field(build_of(s), group, "scaling", there ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_READER, &place, why, "%s",
                         gyre_rope_type(scaling));
}

void gyre_trainer_layout(const gyre_scope *s, gyre_layer_group *group, gyre_layout layout, const char *key) {
    gyre_place place = {NULL, 0, 0};
    const int there = key && gyre_scope_value(s, key);
    if (there) place = gyre_scope_place(s, key);
    group->config.rope.layout = layout;
    gyre_build_set_field(build_of(s), group, "layout", there ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_READER, &place, NULL, "%s",
                         layout == GYRE_LAYOUT_HALF ? "half" : "interleaved");
}

void gyre_trainer_head(const gyre_scope *s, gyre_layer_group *group, const char *head_key, const char *width_key,
                       const char *heads_key) {
    int64_t head = 0;
    if (head_key && gyre_scope_value(s, head_key)) {
        head = gyre_trainer_integer(s, group, "head_dim", head_key, 1, 0);
    } else {
        const int64_t width = gyre_trainer_integer(s, group, NULL, width_key, 1, 0),
                      heads = gyre_trainer_integer(s, group, NULL, heads_key, 1, 0);
        head = heads > 0 ? width / heads : 0;
        if (heads > 0 && width % heads != 0)
            gyre_scope_fail(s, GYRE_EFORMAT, heads_key, "%" PRId64 " heads do not divide %s, %" PRId64, heads, width_key,
                            width);
        gyre_build_set_number(build_of(s), group, "head_dim", GYRE_ORIGIN_DERIVED, NULL, NULL, (double)head);
    }
    if (head > MAX_CHANNELS)
        gyre_scope_fail(s, GYRE_EFORMAT, head_key ? head_key : width_key, "%" PRId64 " channels per head; the most is %d",
                        head, MAX_CHANNELS);
    const int fits = !gyre_build_status(build_of(s));
    group->config.head_dim = group->config.rope.dim = fits ? head : 2;
}

void gyre_trainer_base(const gyre_scope *s, gyre_layer_group *group, const char *key) {
    const double base = gyre_trainer_number(s, group, "base", key, 10000.0);
    if (!(base > 1.0)) gyre_scope_fail(s, GYRE_EFORMAT, key, "%g is not above 1", base);
    group->config.rope.base = base;
}

void gyre_trainer_length(const gyre_scope *s, gyre_layer_group *group, const char *key) {
    if (!gyre_scope_value(s, key)) return;
    const int64_t length = gyre_trainer_integer(s, group, "max_length", key, 1, 0);
    if (length > MAX_LENGTH) gyre_scope_fail(s, GYRE_EFORMAT, key, "%" PRId64 " is too large", length);
    group->config.trained_length = length;
}

void gyre_trainer_original(const gyre_scope *s, gyre_layer_group *group, const char *key, int64_t fallback) {
    const int64_t length = gyre_trainer_integer(s, group, "trained_length", key, 1, fallback);
    if (length > MAX_LENGTH) gyre_scope_fail(s, GYRE_EFORMAT, key, "%" PRId64 " is too large", length);
    group->config.trained_length = length;
}

void gyre_trainer_ramp(const gyre_scope *s, gyre_layer_group *group, const char *fast, const char *slow) {
    struct gyre_rope_config *rope = &group->config.rope;
    rope->beta_fast = gyre_trainer_number(s, group, "beta_fast", fast, 32.0);
    rope->beta_slow = gyre_trainer_number(s, group, "beta_slow", slow, 1.0);
    if (!(rope->beta_slow > 0.0)) gyre_scope_fail(s, GYRE_EFORMAT, slow, "%g is not above 0", rope->beta_slow);
    if (rope->beta_fast < rope->beta_slow)
        gyre_scope_fail(s, GYRE_EFORMAT, fast, "%g is below %s, %g", rope->beta_fast, slow, rope->beta_slow);
}

gyre_layer_group *gyre_trainer_group(const gyre_scope *s, const char *name) {
    gyre_layer_group *group = gyre_build_add_group(build_of(s), name);
    gyre_build_set_kind(build_of(s), group, "rope", NULL);
    group->config.context_length = gyre_build_length(build_of(s));
    return group;
}

void gyre_trainer_layers(const gyre_scope *s, gyre_layer_group *rotating, int64_t layers,
                         int (*is_still)(const void *context, int64_t layer), const void *context) {
    gyre_layer_group *still = NULL;
    if (layers > MAX_LAYERS) {
        gyre_scope_fail(s, GYRE_EFORMAT, "num_layers", "%" PRId64 " layers; the most is %d", layers, MAX_LAYERS);
        return;
    }
    for (int64_t i = 0; i < layers && !gyre_build_status(build_of(s)); i++) {
        const int stays = is_still && is_still(context, i);
        if (stays && !still) {
            still = gyre_build_add_group(build_of(s), "no_rope");
            gyre_build_set_kind(build_of(s), still, "nope", NULL);
        }
        gyre_build_add_layer(build_of(s), stays ? still : rotating, i);
    }
}
