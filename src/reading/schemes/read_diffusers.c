/* read_diffusers.c: transformers of diffusers: rotations along time, rows and columns, each with frequencies of its own. */
#include "reading/family.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LAYERS = 65536, MAX_CHANNELS = 65536 };
typedef enum rule { LISTED, WAN, COGVIDEOX } rule;

#define DIFFUSER(class, rule, list_key, a, b, c, d, base_key, base, layout)                                                 \
    {class, rule, layout, list_key, {a, b, c, d}, base_key, base},
#define UNDESCRIBED(class, what)
static const struct diffuser {
    const char *class;
    rule rule;
    gyre_layout layout;
    const char *list_key;
    int64_t channels[GYRE_MAX_AXES]; /* of each axis; with a rule, channels[0] of a head */
    const char *base_key;            /* NULL = the class has a constant */
    double base;
} diffusers[] = {
#include "reading/schemes/diffusers.def"
};
#undef DIFFUSER
#undef UNDESCRIBED
#define DIFFUSER(class, rule, list_key, a, b, c, d, base_key, base, layout)
#define UNDESCRIBED(class, what) {class, what},
static const struct undescribed {
    const char *class, *what;
} undescribed[] = {
#include "reading/schemes/diffusers.def"
};

static const char class_key[] = "_class_name", head_key[] = "attention_head_dim";

/* *from = the key that gave the channels; NULL = the class.  out = the number of axes; 0 after a failure. */
static int64_t read_listed(const struct diffuser *d, const gyre_scope *s, int64_t channels[GYRE_MAX_AXES],
                           const char **from) {
    const json_t *list = gyre_scope_value(s, d->list_key);
    int64_t axes = 0;
    memcpy(channels, d->channels, sizeof d->channels);
    while (axes < GYRE_MAX_AXES && channels[axes] > 0)
        axes++;
    if (!list) return axes;
    *from = d->list_key;
    axes = (int64_t)json_array_size(list);
    if (!json_is_array(list) || axes < 2 || axes > GYRE_MAX_AXES) {
        gyre_scope_fail(s, GYRE_EFORMAT, d->list_key, "not a list of two to %d numbers", (int)GYRE_MAX_AXES);
        return 0;
    }
    for (int64_t a = 0; a < axes; a++) {
        const json_t *entry = json_array_get(list, (size_t)a);
        channels[a] = json_is_integer(entry) ? (int64_t)json_integer_value(entry) : 0;
        if (channels[a] >= 2 && channels[a] % 2 == 0 && channels[a] <= MAX_CHANNELS) continue;
        gyre_scope_fail(s, GYRE_EFORMAT, d->list_key, "entry %" PRId64 " is not an even number of channels", a);
        return 0;
    }
    return axes;
}

/* out = the number of axes; 0 after a failure. */
static int64_t split_head(const struct diffuser *d, const gyre_scope *s, int64_t channels[GYRE_MAX_AXES]) {
    const int64_t head = gyre_scope_integer(s, head_key, 1, d->channels[0]);
    const int64_t each = d->rule == WAN ? 2 * (head / 6) : head / 8 * 3;
    channels[0] = d->rule == WAN ? head - 2 * each : head / 4;
    channels[1] = channels[2] = each;
    if (head <= MAX_CHANNELS && channels[0] > 0 && channels[0] % 2 == 0 && each > 0 && each % 2 == 0) return 3;
    gyre_scope_fail(s, GYRE_EFORMAT, head_key, "%" PRId64 " channels do not divide into pairs of three axes", head);
    return 0;
}

static void note_axes(gyre_build *build, gyre_layer_group *group, const gyre_place *place) {
    const struct gyre_rope_config *rope = &group->config.rope;
    char text[100] = "";
    for (int64_t a = 0; a < rope->axes; a++) {
        const size_t end = strlen(text);
        snprintf(text + end, sizeof text - end, "%s%" PRId64, a ? " " : "", rope->axis_pairs[a]);
    }
    gyre_build_set_number(build, group, "axes", GYRE_ORIGIN_DERIVED, NULL, NULL, (double)rope->axes);
    gyre_build_set_field(build, group, "axes_layout", GYRE_ORIGIN_FAMILY, NULL, NULL, "axial");
    gyre_build_set_field(build, group, "sections", place ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY, place,
                         rope->axes == 3 ? "pairs of time, rows and columns" : "pairs of each axis", "%s", text);
}

static void add_layers(const gyre_scope *s, gyre_layer_group *group) {
    static const char *const keys[] = {"num_layers", "num_single_layers", NULL};
    int64_t layers = 0;
    for (int i = 0; keys[i]; i++)
        layers += gyre_scope_integer(s, keys[i], 0, 0);
    if (layers > MAX_LAYERS)
        gyre_scope_fail(s, GYRE_EFORMAT, keys[0], "%" PRId64 " layers; the most is %d", layers, MAX_LAYERS);
    for (int64_t i = 0; i < layers && !gyre_build_status(s->source->build); i++)
        gyre_build_add_layer(s->source->build, group, i);
}

static void read_class(const struct diffuser *d, const gyre_scope *s) {
    gyre_build *build = s->source->build;
    int64_t channels[GYRE_MAX_AXES] = {0}, dim = 0;
    const char *from = gyre_scope_value(s, head_key) ? head_key : NULL;
    if (d->rule == LISTED) from = NULL;
    const int64_t axes = d->rule == LISTED ? read_listed(d, s, channels, &from) : split_head(d, s, channels);
    if (gyre_build_status(build)) return;
    gyre_layer_group *group = gyre_build_add_group(build, "all");
    struct gyre_rope_config *rope = &group->config.rope;
    const gyre_place place = gyre_scope_place(s, from ? from : class_key);
    gyre_build_set_kind(build, group, "rope", NULL);
    rope->layout = d->layout;
    rope->axes_layout = GYRE_AXES_AXIAL;
    rope->axes = axes;
    for (int64_t a = 0; a < axes; a++)
        dim += 2 * (rope->axis_pairs[a] = channels[a] / 2);
    group->config.head_dim = gyre_scope_integer(s, head_key, 1, dim);
    if (group->config.head_dim < dim)
        gyre_scope_fail(s, GYRE_EFORMAT, from ? from : head_key, "%" PRId64 " channels rotate of a head of %" PRId64, dim,
                        group->config.head_dim);
    rope->dim = dim;
    rope->base = d->base_key ? gyre_scope_number(s, d->base_key, d->base) : d->base;
    if (!(rope->base > 1.0)) gyre_scope_fail(s, GYRE_EFORMAT, d->base_key, "%g is not above 1", rope->base);
    const int stated = d->base_key && gyre_scope_value(s, d->base_key);
    const gyre_place base_place = gyre_scope_place(s, stated ? d->base_key : class_key);
    gyre_build_set_field(build, group, "layout", GYRE_ORIGIN_FAMILY, NULL, NULL, "%s",
                         d->layout == GYRE_LAYOUT_HALF ? "half" : "interleaved");
    gyre_build_set_number(build, group, "head_dim", from ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY, from ? &place : NULL, NULL,
                          (double)group->config.head_dim);
    gyre_build_set_number(build, group, "rotary_dim", GYRE_ORIGIN_DERIVED, NULL, NULL, (double)dim);
    gyre_build_set_number(build, group, "base", stated ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY, stated ? &base_place : NULL,
                          stated ? NULL : "of each axis", rope->base);
    note_axes(build, group, from ? &place : NULL);
    const int64_t length = gyre_scope_integer(s, "rope_max_seq_len", 1, 0);
    if (length > 0) {
        const gyre_place length_place = gyre_scope_place(s, "rope_max_seq_len");
        gyre_build_set_number(build, group, "max_length", GYRE_ORIGIN_FILE, &length_place, "positions along an axis",
                              (double)length);
        group->config.trained_length = length;
    }
    add_layers(s, group);
}

static int is_cogvideox_without(const struct diffuser *d, const gyre_scope *s) {
    static const char key[] = "use_rotary_positional_embeddings";
    if (d->rule != COGVIDEOX || gyre_scope_bool(s, key, 0)) return 0;
    gyre_scope_fail(s, GYRE_EUNSUPPORTED, key,
                    "false, so a table of sinusoids over time, rows and columns is added at the input, which Gyre does not "
                    "describe");
    return 1;
}

int gyre_read_diffusers(const gyre_scope *s) {
    const json_t *value = gyre_scope_value(s, class_key);
    const char *class = json_string_value(value);
    if (!class) return 0;
    gyre_build_set_model_type(s->source->build, class);
    for (size_t i = 0; i < sizeof diffusers / sizeof *diffusers; i++) {
        if (strcmp(diffusers[i].class, class) != 0) continue;
        if (!is_cogvideox_without(&diffusers[i], s)) read_class(&diffusers[i], s);
        return 1;
    }
    for (size_t i = 0; i < sizeof undescribed / sizeof *undescribed; i++)
        if (strncmp(undescribed[i].class, class, strlen(undescribed[i].class)) == 0) {
            gyre_scope_fail(s, GYRE_EUNSUPPORTED, class_key, "\"%.80s\" of diffusers is not described: %s", class,
                            undescribed[i].what);
            return 1;
        }
    gyre_scope_fail(s, GYRE_EUNSUPPORTED, class_key, "\"%.80s\" of diffusers is not known", class);
    return 1;
}
