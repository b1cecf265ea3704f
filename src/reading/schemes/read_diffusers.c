/* read_diffusers.c: transformers of diffusers: rotations along time, rows and columns, each with its own frequencies. */
#include "reading/family.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LAYERS = 65536, MAX_CHANNELS = 65536 };
static const double MIN_DIVISOR = 0x1p-10; /* gyre_config's lower bound */
typedef enum rule { LISTED, WAN, COSMOS, COGVIDEOX, HALVES, SHARED, THIRDS, LINE, LONGROPE } rule;

#define DIFFUSER(class, rule, list_key, a, b, c, d, base_key, base, layout)                                                 \
    {class, rule, layout, list_key, {a, b, c, d}, base_key, base},
#define POSITIONS(class, what)
#define UNDESCRIBED(class, what)
static const struct diffuser {
    const char *class;
    rule rule;
    gyre_layout layout;
    const char *list_key;
    int64_t channels[GYRE_MAX_AXES]; /* of each axis, or as the rule says */
    const char *base_key;            /* NULL = the class has a constant */
    double base;
} diffusers[] = {
#include "reading/schemes/diffusers.def"
};
#undef DIFFUSER
#undef POSITIONS
#undef UNDESCRIBED
#define DIFFUSER(class, rule, list_key, a, b, c, d, base_key, base, layout)
#define POSITIONS(class, what) {class, what},
#define UNDESCRIBED(class, what)
static const struct sentence {
    const char *class, *what;
} positions[] = {
#include "reading/schemes/diffusers.def"
};
#undef POSITIONS
#undef UNDESCRIBED
#define POSITIONS(class, what)
#define UNDESCRIBED(class, what) {class, what},
static const struct sentence undescribed[] = {
#include "reading/schemes/diffusers.def"
};

static const char class_key[] = "_class_name";

/* A class, and what its file says. */
typedef struct axial_class {
    const struct diffuser *d;
    const gyre_scope *s;
    int64_t head, axes, channels[GYRE_MAX_AXES];
    const char *from; /* the key that gave the channels; NULL = the class */
} axial_class;

/* -- sizes -- */
/* out = the channels of a head; fallback if the file does not state them. */
static int64_t read_head(const gyre_scope *s, int64_t fallback) {
    static const char *const head_keys[] = {"attention_head_dim", "head_dim", NULL};
    static const char *const widths[][2] = {{"hidden_size", "num_attention_heads"},
                                            {"hidden_size", "num_heads"},
                                            {"embed_dim", "num_heads"},
                                            {"dit_dim", "dit_heads"},
                                            {"dim", "num_heads"}};
    const char *key = gyre_scope_first(s, head_keys);
    if (key) return gyre_scope_integer(s, key, 1, fallback);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        if (!gyre_scope_value(s, widths[i][0]) || !gyre_scope_value(s, widths[i][1])) continue;
        return gyre_scope_integer(s, widths[i][0], 1, fallback) / gyre_scope_integer(s, widths[i][1], 1, 1);
    }
    return fallback;
}

/* Cosmos 3 keeps its list in an object that it takes over from a language model. */
static const json_t *list_of(const axial_class *c) {
    const json_t *list = gyre_scope_value(c->s, c->d->list_key);
    if (list || c->d->rule != THIRDS || !json_is_object(gyre_scope_value(c->s, "rope_scaling"))) return list;
    const gyre_scope dict = gyre_scope_child(c->s, "rope_scaling");
    return gyre_scope_value(&dict, "mrope_section");
}

/* unit: channels, or pairs. */
static void read_list(axial_class *c, int64_t multiple, const char *unit) {
    const json_t *list = list_of(c);
    const char *key = c->d->list_key;
    if (!list) return;
    c->from = gyre_scope_value(c->s, key) ? key : "rope_scaling";
    c->axes = (int64_t)json_array_size(list);
    if (!json_is_array(list) || c->axes < 2 || c->axes > GYRE_MAX_AXES) {
        gyre_scope_fail(c->s, GYRE_EFORMAT, c->from, "not a list of two to %d numbers", (int)GYRE_MAX_AXES);
        return;
    }
    for (int64_t a = 0; a < c->axes; a++) {
        const json_t *entry = json_array_get(list, (size_t)a);
        const int64_t x = c->channels[a] = json_is_integer(entry) ? (int64_t)json_integer_value(entry) : 0;
        if (x >= multiple && x % multiple == 0 && x <= MAX_CHANNELS) continue;
        gyre_scope_fail(c->s, GYRE_EFORMAT, c->from, "entry %" PRId64 " is not an %snumber of %s", a,
                        multiple == 2 ? "even " : "", unit);
        return;
    }
}

static void split_head(axial_class *c) {
    const rule how = c->d->rule;
    const int64_t head = c->head, each = how == HALVES ? head / 2 : how == COGVIDEOX ? head / 8 * 3 : 2 * (head / 6);
    c->from = gyre_scope_value(c->s, "attention_head_dim") ? "attention_head_dim" : NULL;
    c->axes = how == HALVES ? 2 : 3;
    c->channels[0] = how == HALVES ? each : how == COGVIDEOX ? head / 4 : head - 2 * each;
    c->channels[1] = each;
    c->channels[2] = how == HALVES ? 0 : each;
    if (head <= MAX_CHANNELS && c->channels[0] > 0 && c->channels[0] % 2 == 0 && each > 0 && each % 2 == 0) return;
    gyre_scope_fail(c->s, GYRE_EFORMAT, c->from ? c->from : class_key,
                    "%" PRId64 " channels do not divide into pairs of %s axes", head, how == HALVES ? "two" : "three");
}

/* Every third pair is a row's or a column's, as far as there are such; the others are of time. */
static void deal_thirds(axial_class *c) {
    read_list(c, 1, "pairs");
    const int64_t pairs = c->head / 2, rest = pairs - c->channels[1] - c->channels[2];
    if (gyre_build_status(c->s->source->build)) return;
    if (c->axes != 3 || c->head % 2 != 0 || rest < 1 || 3 * c->channels[1] > pairs + 1 || 3 * c->channels[2] > pairs)
        gyre_scope_fail(c->s, GYRE_EFORMAT, c->from ? c->from : class_key,
                        "not three axes whose pairs have a place among every third of %" PRId64, pairs);
    c->channels[0] = 2 * rest;
    c->channels[1] *= 2;
    c->channels[2] *= 2;
}

static void read_shared(axial_class *c) {
    const int64_t pairs = gyre_scope_integer(c->s, c->d->list_key, 1, c->d->channels[0]);
    c->from = gyre_scope_value(c->s, c->d->list_key) ? c->d->list_key : NULL;
    c->axes = 3;
    if (pairs > MAX_CHANNELS) gyre_scope_fail(c->s, GYRE_EFORMAT, c->d->list_key, "more than %d pairs", MAX_CHANNELS);
    for (int a = 0; a < 3; a++)
        c->channels[a] = pairs <= MAX_CHANNELS ? 2 * pairs : 2;
}

/* The whole head or half of it. */
static void read_line(axial_class *c) {
    const int64_t share = c->d->channels[0] / c->d->channels[1], usual = c->head / share;
    c->channels[0] = c->d->list_key ? gyre_scope_integer(c->s, c->d->list_key, 2, usual) : usual;
    c->from = c->d->list_key && gyre_scope_value(c->s, c->d->list_key) ? c->d->list_key : NULL;
    c->axes = 1;
    if (c->channels[0] < 2 || c->channels[0] % 2 != 0 || c->channels[0] > MAX_CHANNELS)
        gyre_scope_fail(c->s, GYRE_EFORMAT, c->from ? c->from : class_key, "%" PRId64 " channels are not pairs",
                        c->channels[0]);
}

static void check_head(const axial_class *c) {
    if (c->head > MAX_CHANNELS)
        gyre_scope_fail(c->s, GYRE_EFORMAT, class_key, "a head of %" PRId64 " channels; the most is %d", c->head,
                        MAX_CHANNELS);
}

static void read_channels(axial_class *c) {
    const struct diffuser *d = c->d;
    int64_t sum = 0;
    memcpy(c->channels, d->channels, sizeof c->channels);
    for (c->axes = 0; c->axes < GYRE_MAX_AXES && c->channels[c->axes] > 0; c->axes++)
        sum += c->channels[c->axes];
    switch (d->rule) {
    case LISTED:
        read_list(c, 2, "channels");
        for (int64_t a = sum = 0; a < c->axes; a++)
            sum += c->channels[a];
        c->head = read_head(c->s, sum);
        break;
    case SHARED:
        c->head = read_head(c->s, d->channels[1]);
        read_shared(c);
        break;
    case THIRDS:
        c->head = read_head(c->s, d->channels[3]);
        c->axes = 3;
        deal_thirds(c);
        break;
    case LINE:
    case LONGROPE:
        c->head = read_head(c->s, d->channels[0]);
        read_line(c);
        break;
    default:
        c->head = read_head(c->s, d->channels[0]);
        split_head(c);
    }
    check_head(c);
}

/* -- the group -- */
static void note_axes(gyre_build *build, gyre_layer_group *group, const gyre_place *place) {
    const struct gyre_rope_config *rope = &group->config.rope;
    char text[100] = "";
    if (rope->axes <= 1) return;
    for (int64_t a = 0; a < rope->axes; a++) {
        const size_t end = strlen(text);
        snprintf(text + end, sizeof text - end, "%s%" PRId64, a ? " " : "", rope->axis_pairs[a]);
    }
    gyre_build_set_number(build, group, "axes", GYRE_ORIGIN_DERIVED, NULL, NULL, (double)rope->axes);
    gyre_build_set_field(build, group, "axes_layout", GYRE_ORIGIN_FAMILY, NULL, NULL, "%s",
                         rope->axes_layout == GYRE_AXES_INTERLEAVED ? "interleaved" : "axial");
    gyre_build_set_field(build, group, "sections", place ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY, place,
                         rope->axes == 3 ? "pairs of time, rows and columns" : "pairs of each axis", "%s", text);
}

static void add_layers(const gyre_scope *s, gyre_layer_group *group, const char *const *keys) {
    int64_t layers = 0;
    for (int i = 0; keys[i]; i++)
        layers += gyre_scope_integer(s, keys[i], 0, 0);
    if (layers > MAX_LAYERS)
        gyre_scope_fail(s, GYRE_EFORMAT, keys[0], "%" PRId64 " layers; the most is %d", layers, MAX_LAYERS);
    for (int64_t i = 0; i < layers && !gyre_build_status(s->source->build); i++)
        gyre_build_add_layer(s->source->build, group, i);
}

static void read_base(const axial_class *c, gyre_layer_group *group) {
    gyre_build *build = c->s->source->build;
    const char *key = c->d->base_key && gyre_scope_value(c->s, c->d->base_key) ? c->d->base_key : NULL;
    const gyre_place place = gyre_scope_place(c->s, key ? key : class_key);
    const double base = group->config.rope.base = key ? gyre_scope_number(c->s, key, c->d->base) : c->d->base;
    if (!(base > 1.0)) gyre_scope_fail(c->s, GYRE_EFORMAT, key ? key : class_key, "%g is not above 1", base);
    gyre_build_set_number(build, group, "base", key ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY, key ? &place : NULL,
                          key || group->config.rope.axes_layout != GYRE_AXES_AXIAL ? NULL : "of each axis", base);
}

/* Cosmos multiplies the base of an axis of d channels by s^(d / (d - 2)): NTK, of which a factor of 1 changes nothing. */
static void scale_axes(const axial_class *c, gyre_layer_group *group) {
    static const char key[] = "rope_scale";
    static const double usual[3] = {2, 1, 1};
    gyre_build *build = c->s->source->build;
    const json_t *list = gyre_scope_value(c->s, key);
    const gyre_place place = gyre_scope_place(c->s, list ? key : class_key);
    double s[3] = {1, 1, 1};
    if (c->d->rule != COSMOS) return;
    if (list && json_array_size(list) != 3) gyre_scope_fail(c->s, GYRE_EFORMAT, key, "not a list of three numbers");
    for (size_t a = 0; a < 3 && !gyre_build_status(build); a++) {
        const json_t *entry = json_array_get(list, a);
        s[a] = list ? json_number_value(entry) : usual[a];
        if (!(s[a] >= 1.0)) gyre_scope_fail(c->s, GYRE_EUNSUPPORTED, key, "entry %d is not a number from 1 on", (int)a);
        if (s[a] > 1.0)
            group->config.rope.axis[a] = (struct gyre_axis_config){.own = 1, .scaling = GYRE_SCALING_NTK, .factor = s[a]};
    }
    if (gyre_build_status(build)) return;
    gyre_build_set_field(build, group, "axes_scaling", list ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY, list ? &place : NULL,
                         "factors of time, rows and columns", "ntk %g %g %g", s[0], s[1], s[2]);
}

/* out = one divisor for each pair; NULL after a failure. */
static const double *read_divisors(const axial_class *c, const gyre_scope *dict, const char *key) {
    gyre_build *build = c->s->source->build;
    const json_t *list = gyre_scope_value(dict, key);
    const size_t pairs = (size_t)(c->channels[0] / 2);
    double *out = json_array_size(list) == pairs ? gyre_build_alloc_numbers(build, (int64_t)pairs) : NULL;
    int good = out != NULL;
    for (size_t i = 0; i < pairs && good; i++)
        good = (out[i] = json_number_value(json_array_get(list, i))) >= MIN_DIVISOR;
    if (!good) gyre_scope_fail(dict, GYRE_EFORMAT, key, "not a list of %zu divisors, one for each pair", pairs);
    return good ? out : NULL;
}

/* The long list past the original length; the factor of cos and sin is LongRoPE's at every length. */
static void read_longrope(const axial_class *c, gyre_layer_group *group) {
    static const char max_key[] = "max_position_embeddings", original_key[] = "original_max_position_embeddings";
    gyre_build *build = c->s->source->build;
    struct gyre_rope_config *rope = &group->config.rope;
    if (c->d->rule != LONGROPE || gyre_build_status(build)) return;
    const int64_t most = gyre_scope_integer(c->s, max_key, 1, 131072), own = gyre_scope_integer(c->s, original_key, 2, 4096);
    if (!json_is_object(gyre_scope_value(c->s, "rope_scaling")))
        gyre_scope_fail(c->s, GYRE_EFORMAT, "rope_scaling", "not an object with short_factor and long_factor");
    if (gyre_build_status(build)) return;
    const gyre_scope dict = gyre_scope_child(c->s, "rope_scaling");
    const gyre_place place = gyre_scope_place(c->s, "rope_scaling"), most_place = gyre_scope_place(c->s, max_key),
                     own_place = gyre_scope_place(c->s, original_key);
    const int has_most = gyre_scope_value(c->s, max_key) != NULL, has_own = gyre_scope_value(c->s, original_key) != NULL;
    rope->scaling = GYRE_SCALING_LONGROPE;
    rope->short_factor = read_divisors(c, &dict, "short_factor");
    rope->long_factor = read_divisors(c, &dict, "long_factor");
    rope->factor = most > own ? (double)most / (double)own : 1;
    rope->attention_factor = most > own ? sqrt(1 + log(rope->factor) / log((double)own)) : 1;
    group->config.trained_length = own;
    gyre_build_set_field(build, group, "scaling", GYRE_ORIGIN_FILE, &place, NULL, "longrope");
    gyre_build_set_number(build, group, "max_length", has_most ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY,
                          has_most ? &most_place : NULL, NULL, (double)most);
    gyre_build_set_number(build, group, "original_length", has_own ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY,
                          has_own ? &own_place : NULL, "the long list past it", (double)own);
    gyre_build_set_number(build, group, "attention_factor", GYRE_ORIGIN_DERIVED, NULL, NULL, rope->attention_factor);
}

static void set_sizes(const axial_class *c, gyre_layer_group *group, const gyre_place *place) {
    gyre_build *build = c->s->source->build;
    struct gyre_rope_config *rope = &group->config.rope;
    int64_t dim = 0;
    gyre_build_set_kind(build, group, "rope", NULL);
    rope->layout = c->d->layout;
    for (int64_t a = 0; a < c->axes; a++)
        dim += c->channels[a];
    if (c->axes > 1) {
        rope->axes = c->axes;
        rope->axes_layout = c->d->rule == THIRDS ? GYRE_AXES_INTERLEAVED : GYRE_AXES_AXIAL;
        for (int64_t a = 0; a < c->axes; a++)
            rope->axis_pairs[a] = c->channels[a] / 2;
    }
    group->config.head_dim = c->head;
    rope->dim = dim;
    if (c->head < dim)
        gyre_scope_fail(c->s, GYRE_EFORMAT, c->from ? c->from : class_key,
                        "%" PRId64 " channels rotate of a head of %" PRId64, dim, c->head);
    gyre_build_set_field(build, group, "layout", GYRE_ORIGIN_FAMILY, NULL, NULL, "%s",
                         rope->layout == GYRE_LAYOUT_HALF ? "half" : "interleaved");
    gyre_build_set_number(build, group, "head_dim", place ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY, place, NULL,
                          (double)c->head);
    gyre_build_set_number(build, group, "rotary_dim", GYRE_ORIGIN_DERIVED, NULL, NULL, (double)dim);
}

/* Kandinsky has separate layers for text, which rotate the whole head by one position. */
static void add_text_layers(const axial_class *c) {
    static const char *const keys[] = {"num_text_blocks", NULL};
    axial_class text = *c;
    if (strncmp(c->d->class, "Kandinsky5", 10) != 0 || gyre_build_status(c->s->source->build)) return;
    gyre_layer_group *group = gyre_build_add_group(c->s->source->build, "text");
    text.axes = 1;
    text.channels[0] = c->head;
    set_sizes(&text, group, NULL);
    read_base(&text, group);
    add_layers(c->s, group, keys);
}

static void note_positions(const axial_class *c) {
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++)
        if (strcmp(positions[i].class, c->d->class) == 0) gyre_scope_warn(c->s, class_key, "%s", positions[i].what);
    if (c->d->rule == COSMOS && json_is_string(gyre_scope_value(c->s, "extra_pos_embed_type")))
        gyre_scope_warn(c->s, "extra_pos_embed_type", "a learned table is added in each layer too, which is not described");
}

static void read_class(const struct diffuser *d, const gyre_scope *s) {
    static const char *const keys[] = {
        "num_layers", "num_single_layers", "num_hidden_layers", "num_visual_blocks", "depth", "dit_depth", NULL};
    gyre_build *build = s->source->build;
    axial_class c = {.d = d, .s = s};
    read_channels(&c);
    if (gyre_build_status(build)) return;
    gyre_layer_group *group = gyre_build_add_group(build, strncmp(d->class, "Kandinsky5", 10) == 0 ? "visual" : "all");
    const gyre_place place = gyre_scope_place(s, c.from ? c.from : class_key);
    set_sizes(&c, group, c.from ? &place : NULL);
    read_base(&c, group);
    note_axes(build, group, c.from ? &place : NULL);
    scale_axes(&c, group);
    read_longrope(&c, group);
    const int64_t length = gyre_scope_integer(s, "rope_max_seq_len", 1, 0);
    if (length > 0) {
        const gyre_place length_place = gyre_scope_place(s, "rope_max_seq_len");
        gyre_build_set_number(build, group, "max_length", GYRE_ORIGIN_FILE, &length_place, "positions along an axis",
                              (double)length);
        group->config.trained_length = length;
    }
    add_layers(s, group, keys);
    add_text_layers(&c);
    note_positions(&c);
}

static int is_cogvideox_without(const struct diffuser *d, const gyre_scope *s) {
    static const char key[] = "use_rotary_positional_embeddings";
    if (d->rule != COGVIDEOX || strncmp(d->class, "EasyAnimate", 11) == 0 || gyre_scope_bool(s, key, 0)) return 0;
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
