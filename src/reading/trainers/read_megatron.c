/* read_megatron.c: rotations of Megatron-LM (August 2026), from its arguments or its YAML. */
#include "reading/family.h"
#include "reading/trainers/trainer_rope.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATTERN = 4096 };

static int has(const gyre_scope *s, const char *key) {
    return gyre_scope_value(s, key) != NULL;
}

/* -- layers that do not rotate -- */
/* A list as Python writes it: ([0]*3+[1]*1)*2. */
typedef struct pattern {
    const char *at;
    int64_t count;
    int depth, bad;
    unsigned char still[MAX_PATTERN];
} pattern;

static void read_sum(pattern *p);

static void add_layer(pattern *p, int still) {
    if (p->count < MAX_PATTERN)
        p->still[p->count++] = (unsigned char)still;
    else
        p->bad = 1;
}

static void skip_spaces(pattern *p) {
    while (*p->at == ' ')
        p->at++;
}

static void read_list(pattern *p) {
    for (p->at++; !p->bad;) {
        skip_spaces(p);
        if (*p->at == ']') {
            p->at++;
            return;
        }
        if (*p->at != '0' && *p->at != '1') p->bad = 1;
        add_layer(p, *p->at == '1');
        if (!p->bad) p->at++;
        skip_spaces(p);
        if (*p->at == ',') p->at++;
    }
}

static void read_product(pattern *p) {
    const int64_t begin = p->count;
    skip_spaces(p);
    if (*p->at == '[') {
        read_list(p);
    } else if (*p->at == '(' && p->depth < 8) {
        p->at++;
        p->depth++;
        read_sum(p);
        p->depth--;
        if (*p->at++ != ')') p->bad = 1;
    } else {
        p->bad = 1;
    }
    if (p->bad) return;
    skip_spaces(p);
    while (!p->bad && *p->at == '*') {
        char *end;
        const long times = strtol(p->at + 1, &end, 10);
        const int64_t size = p->count - begin;
        p->bad |= end == p->at + 1 || times < 0 || times > MAX_PATTERN;
        if (p->bad) return;
        p->at = end;
        if (times == 0) p->count = begin;
        for (int64_t i = size; i < size * times && !p->bad; i++)
            add_layer(p, p->still[begin + i - size]);
        skip_spaces(p);
    }
}

static void read_sum(pattern *p) {
    read_product(p);
    skip_spaces(p);
    while (!p->bad && *p->at == '+') {
        p->at++;
        read_product(p);
        skip_spaces(p);
    }
}

static int is_in_pattern(const void *context, int64_t layer) {
    const pattern *p = context;
    return layer < p->count && p->still[layer];
}

/* Every N-th layer, or a list. */
static int read_pattern(const gyre_scope *s, int64_t layers, pattern *p) {
    static const char key[] = "no_rope_freq";
    const json_t *value = gyre_scope_value(s, key), *entry;
    size_t i;
    if (json_is_integer(value)) {
        const int64_t nth = gyre_scope_integer(s, key, 1, 1);
        if (layers % nth != 0)
            gyre_scope_fail(s, GYRE_EFORMAT, key, "%" PRId64 " does not divide num_layers, %" PRId64, nth, layers);
        for (int64_t l = 0; l < layers && l < MAX_PATTERN; l++)
            add_layer(p, (l + 1) % nth == 0);
        return 1;
    }
    if (json_is_array(value)) {
        json_array_foreach(value, i, entry) add_layer(p, json_integer_value(entry) == 1);
    } else if (json_is_string(value)) {
        p->at = json_string_value(value);
        read_sum(p);
        p->bad |= *p->at != '\0';
    } else {
        if (value) gyre_scope_fail(s, GYRE_EFORMAT, key, "neither a number nor a list");
        return 0;
    }
    if (p->bad) gyre_scope_fail(s, GYRE_EFORMAT, key, "not a list such as ([0]*3+[1]*1)*12");
    if (p->count != layers)
        gyre_scope_fail(s, GYRE_EFORMAT, key, "%" PRId64 " entries for %" PRId64 " layers", p->count, layers);
    return 1;
}

static void divide_layers(const gyre_scope *s, gyre_layer_group *group) {
    pattern *p = calloc(1, sizeof *p);
    if (!p) {
        gyre_scope_fail(s, GYRE_ENOMEM, "num_layers", "no memory");
        return;
    }
    const int64_t layers = gyre_trainer_integer(s, group, NULL, "num_layers", 0, 0);
    const int divided = read_pattern(s, layers, p);
    gyre_trainer_layers(s, group, layers, divided ? is_in_pattern : NULL, p);
    free(p);
}

/* -- scalings -- */
static double magnitude(double s, double mscale) {
    return s <= 1.0 ? 1.0 : 0.1 * mscale * log(s) + 1.0;
}

static void set_attention(const gyre_scope *s, gyre_layer_group *group, double mscale, double all) {
    const double factor = group->config.rope.factor, value = magnitude(factor, mscale) / magnitude(factor, all);
    if (!(value > 0.0 && isfinite(value)))
        gyre_scope_fail(s, GYRE_EFORMAT, "mscale", "the attention factor would be %g", value);
    group->config.rope.attention_factor = value;
    gyre_build_set_number(s->source->build, group, "attention_factor", GYRE_ORIGIN_DERIVED, NULL, NULL, value);
}

static int rounds(const gyre_scope *s) {
    static const char key[] = "yarn_correction_range_round_to_int", no[] = "no_yarn_correction_range_round_to_int";
    return gyre_scope_bool(s, key, 1) && !gyre_scope_bool(s, no, 0);
}

static void read_yarn(const gyre_scope *s, gyre_layer_group *group) {
    static const char *const factors[] = {"yarn_rotary_scaling_factor", "rotary_scaling_factor", NULL},
                             *const scales[] = {"yarn_mscale", "mscale", NULL},
                             *const alls[] = {"yarn_mscale_all_dim", "mscale_all_dim", NULL};
    const char *factor = gyre_scope_first(s, factors), *mscale = gyre_scope_first(s, scales),
               *all = gyre_scope_first(s, alls);
    if (gyre_scope_bool(s, "rotary_interleaved", 0))
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "rotary_interleaved", "Megatron's YaRN refuses interleaved pairs");
    if (has(s, "rotary_percent") && gyre_trainer_number(s, group, NULL, "rotary_percent", 1.0) < 1.0)
        gyre_scope_warn(s, "rotary_percent", "rotary_percent: Megatron's YaRN rotates the whole head");
    gyre_trainer_scaling(s, group, GYRE_SCALING_YARN, "position_embedding_type", NULL);
    (void)gyre_trainer_factor(s, group, factor ? factor : factors[1], 1.0);
    gyre_trainer_original(s, group, "yarn_original_max_position_embeddings", 4096);
    gyre_trainer_ramp(s, group, "yarn_beta_fast", "yarn_beta_slow");
    group->config.rope.fractional_bounds = !rounds(s);
    set_attention(s, group, gyre_trainer_number(s, group, NULL, mscale ? mscale : scales[1], 1.0),
                  gyre_trainer_number(s, group, NULL, all ? all : alls[1], 0.0));
}

static void read_rotary_dim(const gyre_scope *s, gyre_layer_group *group) {
    static const char key[] = "rotary_percent";
    const double share = gyre_trainer_number(s, group, NULL, key, 1.0);
    if (!(share > 0.0)) gyre_scope_fail(s, GYRE_EFORMAT, key, "%g is not above 0", share);
    if (gyre_build_status(s->source->build) || share >= 1.0) return;
    group->config.rope.dim = (int64_t)((double)group->config.head_dim * share);
    if (group->config.rope.dim < 2) gyre_scope_fail(s, GYRE_EFORMAT, key, "%g of a head is less than a pair", share);
}

static void read_rope_scaling(const gyre_scope *s, gyre_layer_group *group) {
    static const char interpolation[] = "rotary_seq_len_interpolation_factor", llama3[] = "use_rope_scaling";
    const int scales = gyre_scope_bool(s, llama3, 0);
    if (scales && has(s, interpolation)) {
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, interpolation,
                        "together with use_rope_scaling: Megatron does one after the "
                        "other, which no scaling of Gyre does");
    } else if (scales) {
        gyre_trainer_scaling(s, group, GYRE_SCALING_LLAMA3, llama3,
                             "as Llama 3.1: 1 and 4 over 8192 tokens, which are fixed");
        (void)gyre_trainer_factor(s, group, "rope_scaling_factor", 8.0);
        group->config.rope.low_freq = 1.0;
        group->config.rope.high_freq = 4.0;
        group->config.trained_length = 8192;
        gyre_build_set_number(s->source->build, group, "trained_length", GYRE_ORIGIN_READER, NULL, NULL, 8192.0);
    } else if (has(s, interpolation)) {
        gyre_trainer_scaling(s, group, GYRE_SCALING_LINEAR, interpolation, NULL);
        (void)gyre_trainer_factor(s, group, interpolation, 1.0);
    } else {
        gyre_trainer_scaling(s, group, GYRE_SCALING_NONE, NULL, NULL);
    }
}

/* -- latent attention -- */
static void read_latent(const gyre_scope *s, gyre_layer_group *group) {
    static const char turned[] = "qk_pos_emb_head_dim", still[] = "qk_head_dim", type_key[] = "rope_type";
    gyre_build *build = s->source->build;
    const char *type = gyre_scope_string(s, type_key, "yarn");
    const int64_t turns = gyre_trainer_integer(s, group, "rotary_dim", turned, 2, 64),
                  stays = gyre_trainer_integer(s, group, NULL, still, 0, 128), head = turns + stays;
    if (turns > 32768 || stays > 32768) gyre_scope_fail(s, GYRE_EFORMAT, turned, "too many channels per head");
    if (gyre_build_status(build)) return;
    group->config.head_dim = head;
    group->config.rope.dim = turns;
    group->config.rope.first_channel = stays;
    gyre_build_set_number(build, group, "head_dim", GYRE_ORIGIN_DERIVED, NULL, "qk_head_dim and qk_pos_emb_head_dim",
                          (double)head);
    gyre_trainer_layout(s, group, GYRE_LAYOUT_INTERLEAVED_TO_HALF, NULL);
    gyre_trainer_base(s, group, "rotary_base");
    gyre_trainer_length(s, group, "max_position_embeddings");
    group->scale = 1.0 / sqrt((double)head);
    if (strcmp(type, "rope") == 0) {
        gyre_trainer_scaling(s, group, GYRE_SCALING_NONE, type_key, NULL);
    } else if (strcmp(type, "yarn") == 0) {
        gyre_trainer_scaling(s, group, GYRE_SCALING_YARN, type_key, NULL);
        (void)gyre_trainer_factor(s, group, "rotary_scaling_factor", 1.0);
        gyre_trainer_original(s, group, "original_max_position_embeddings", 4096);
        gyre_trainer_ramp(s, group, "beta_fast", "beta_slow");
        set_attention(s, group, gyre_trainer_number(s, group, NULL, "mscale", 1.0),
                      gyre_trainer_number(s, group, NULL, "mscale_all_dim", 0.0));
    } else {
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, type_key, "\"%.40s\" is not known: rope or yarn", type);
    }
    /* The scores are multiplied under either type. */
    const double of_scores = magnitude(gyre_trainer_number(s, group, NULL, "rotary_scaling_factor", 1.0),
                                       gyre_trainer_number(s, group, NULL, "mscale_all_dim", 0.0));
    group->softmax_multiplier = of_scores * of_scores;
    group->scale *= of_scores * of_scores;
    gyre_build_set_number(build, group, "softmax_multiplier", GYRE_ORIGIN_DERIVED, NULL, NULL, of_scores * of_scores);
    gyre_build_set_number(build, group, "score_scale", GYRE_ORIGIN_DERIVED, NULL, NULL, group->scale);
}

/* -- the settings -- */
/* Copies the settings, with the names that arguments have, out of the objects that Megatron's YAML nests them in. */
static void flatten(const gyre_settings *from, json_t *object, const char *prefix, json_t *root, json_t *lines) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        char name[100], path[300];
        const char *plain = strncmp(key, "--", 2) == 0 ? key + 2 : key;
        if (strlen(plain) >= sizeof name) continue;
        snprintf(name, sizeof name, "%s", plain);
        for (char *c = name; *c; c++)
            if (*c == '-') *c = '_';
        const int nests = strcmp(key, "language_model") == 0 || strcmp(key, "model") == 0 || strcmp(key, "MODEL_ARGS") == 0;
        const int enters = json_is_object(value) && nests && !*prefix;
        if (snprintf(path, sizeof path, "%s%s%s", prefix, key, enters ? "." : "") >= (int)sizeof path) continue;
        if (enters) {
            flatten(from, value, path, root, lines);
            continue;
        }
        json_object_set(root, name, value);
        json_object_set(lines, name, json_object_get(from->lines, path));
    }
}

static void read_rotation(const gyre_scope *s) {
    static const char key[] = "position_embedding_type", old[] = "use_rotary_position_embeddings",
                      mla[] = "multi_latent_attention";
    const int rotates = gyre_scope_bool(s, old, 0), latent = gyre_scope_bool(s, mla, 0);
    const char *type = rotates ? "rope" : gyre_scope_string(s, key, latent ? "rope" : "learned_absolute");
    if (!latent && strcmp(type, "none") == 0) {
        gyre_layer_group *all = gyre_build_add_group(s->source->build, "all");
        const gyre_place place = gyre_scope_place(s, key);
        gyre_build_set_kind(s->source->build, all, "nope", &place);
        return;
    }
    if (!latent && strcmp(type, "rope") != 0 && strcmp(type, "yarn") != 0) {
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, key,
                        has(s, key) ? "\"%.40s\" is not read: rope, yarn or none"
                                    : "missing; Megatron's default, %.40s, has no rotation",
                        type);
        return;
    }
    gyre_layer_group *group = gyre_trainer_group(s, "all");
    if (latent) {
        read_latent(s, group);
    } else {
        const int beside = gyre_scope_bool(s, "rotary_interleaved", 0), yarn = strcmp(type, "yarn") == 0;
        gyre_trainer_head(s, group, "kv_channels", "hidden_size", "num_attention_heads");
        gyre_trainer_layout(s, group, beside ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF, "rotary_interleaved");
        gyre_trainer_base(s, group, "rotary_base");
        gyre_trainer_length(s, group, "max_position_embeddings");
        if (!yarn) read_rotary_dim(s, group);
        gyre_build_set_number(s->source->build, group, "rotary_dim", GYRE_ORIGIN_DERIVED, NULL, NULL,
                              (double)group->config.rope.dim);
        (yarn ? read_yarn : read_rope_scaling)(s, group);
    }
    divide_layers(s, group);
    gyre_build_sort_groups(s->source->build);
}

void gyre_read_megatron(const gyre_settings *settings, const gyre_scope *root) {
    json_t *flat = json_object(), *lines = json_object();
    gyre_json_source source = *root->source;
    source.lines = lines;
    const gyre_scope s = {&source, flat, ""};
    if (flat && lines) {
        flatten(settings, settings->root, "", flat, lines);
        read_rotation(&s);
        gyre_warn_unread_keys(&source, flat);
    } else {
        gyre_build_fail(source.build, GYRE_ENOMEM, NULL, "settings: no memory");
    }
    json_decref(flat);
    json_decref(lines);
}
