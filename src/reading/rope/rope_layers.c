/* rope_layers.c: groups the layers of a decoder, by the lists in the file or by the family's rule. */
#include "reading/rope/read_rope.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_LAYERS = 65536 };

static const char full[] = "full_attention", sliding[] = "sliding_attention", chunked[] = "chunked_attention",
                  linear[] = "linear_attention";

/* How a family arranges its layers if the file does not list them. */
typedef enum rule {
    NO_RULE,
    ALL_SLIDING,        /* if there is a window, every layer has it */
    FULL_EVERY_NTH,     /* layer i is full if (i + 1) % n == 0; the others slide */
    FULL_FIRST_OF_N,    /* layer i is full if i % n == 0 */
    SLIDING_FROM_LAYER, /* layers from max_window_layers on slide if use_sliding_window is set */
    NOPE_SLIDING,       /* layers that do not rotate slide if use_sliding_window is set */
    NOPE_EVERY_NTH,     /* layer i is full and does not rotate if (i + 1) % n == 0; the others see chunks */
    LINEAR_EXCEPT_NTH   /* layer i is full if (i + 1) % n == 0; the others are linear attention */
} rule;
typedef struct layer_pattern {
    const char *family; /* model_type; a * at its end matches anything */
    rule rule;
    const char *count_key; /* the key that gives n */
    int64_t count, window; /* defaults; window 0 = none */
} layer_pattern;
static const layer_pattern layer_patterns[] = {{"mistral", ALL_SLIDING, NULL, 0, 4096},
                                               {"mixtral", ALL_SLIDING, NULL, 0, 0},
                                               {"ministral3", ALL_SLIDING, NULL, 0, 0},
                                               {"ministral", ALL_SLIDING, NULL, 0, 0},
                                               {"mistral4*", ALL_SLIDING, NULL, 0, 0},
                                               {"phi3*", ALL_SLIDING, NULL, 0, 0},
                                               {"phi4*", ALL_SLIDING, NULL, 0, 0},
                                               {"phimoe", ALL_SLIDING, NULL, 0, 0},
                                               {"starcoder2", ALL_SLIDING, NULL, 0, 0},
                                               {"qwen2*", SLIDING_FROM_LAYER, NULL, 28, 4096},
                                               {"qwen3_next", LINEAR_EXCEPT_NTH, "full_attention_interval", 4, 0},
                                               {"qwen3_5*", LINEAR_EXCEPT_NTH, "full_attention_interval", 4, 0},
                                               {"qwen3_vl*", NO_RULE, NULL, 0, 0},
                                               {"qwen3*", SLIDING_FROM_LAYER, NULL, 28, 4096},
                                               {"gemma2", FULL_EVERY_NTH, NULL, 2, 4096},
                                               {"gemma3n*", FULL_EVERY_NTH, NULL, 5, 512},
                                               {"gemma3*", FULL_EVERY_NTH, "sliding_window_pattern", 6, 4096},
                                               {"gemma4*", FULL_EVERY_NTH, "sliding_window_pattern", 6, 512},
                                               {"t5gemma*", FULL_EVERY_NTH, NULL, 2, 4096},
                                               {"cohere2*", FULL_EVERY_NTH, "sliding_window_pattern", 4, 4096},
                                               {"exaone4*", FULL_EVERY_NTH, "sliding_window_pattern", 4, 4096},
                                               {"olmo3", FULL_EVERY_NTH, NULL, 4, 4096},
                                               {"gpt_oss", FULL_EVERY_NTH, NULL, 2, 128},
                                               {"modernbert-decoder", FULL_FIRST_OF_N, "global_attn_every_n_layers", 3, 64},
                                               {"modernbert", FULL_FIRST_OF_N, "global_attn_every_n_layers", 3, 65},
                                               {"cwm", FULL_FIRST_OF_N, "window_pattern", 4, 8192},
                                               {"llama4*", NOPE_EVERY_NTH, "no_rope_layer_interval", 4, 8192},
                                               {"smollm3", NOPE_SLIDING, "no_rope_layer_interval", 4, 0}};

static int is_named(const char *pattern, const char *name) {
    const size_t length = strlen(pattern);
    if (pattern[length - 1] == '*') return strncmp(pattern, name, length - 1) == 0;
    return strcmp(pattern, name) == 0 || (strncmp(pattern, name, length) == 0 && strcmp(name + length, "_text") == 0);
}

static const layer_pattern *layer_pattern_of(const gyre_family *family) {
    static const layer_pattern none = {"", NO_RULE, NULL, 0, 0};
    for (size_t i = 0; i < sizeof layer_patterns / sizeof *layer_patterns; i++)
        if (is_named(layer_patterns[i].family, family->model_type)) return &layer_patterns[i];
    return &none;
}

/* Everything that determines the kind of a layer. */
typedef struct layer_rules {
    const gyre_family *family;
    const gyre_scope *root;
    const gyre_rope_dict *dict;
    const layer_pattern *layer_pattern;
    const json_t *types;          /* layer_types */
    const json_t *hybrid_pattern; /* hybrid_layer_pattern: 1 = slides */
    const json_t *no_rope;        /* 1 = the layer rotates: the opposite of the key's name */
    int64_t layers, full_interval, nope_interval, window, first_sliding;
    gyre_rope_provenance window_from;
} layer_rules;

/* -- lists in the file -- */
static const json_t *list_at(const gyre_scope *root, const char *key, int64_t count) {
    const json_t *list = gyre_scope_value(root, key);
    if (!list) return NULL;
    if (!json_is_array(list)) {
        gyre_scope_fail(root, GYRE_EFORMAT, key, "not a list");
        return NULL;
    }
    if (json_array_size(list) == 0) return NULL;
    if (count > 0 && (int64_t)json_array_size(list) != count) {
        gyre_scope_fail(root, GYRE_EFORMAT, key, "%zu entries for %" PRId64 " layers", json_array_size(list), count);
        return NULL;
    }
    return list;
}

/* list_at for flags: 0 and 1, true and false. */
static const json_t *flags_at(const gyre_scope *root, const char *key, int64_t count) {
    const json_t *list = list_at(root, key, count), *flag;
    size_t i;
    json_array_foreach((json_t *)list, i, flag) {
        const json_int_t number = json_integer_value(flag);
        if (json_is_boolean(flag) || (json_is_integer(flag) && (number == 0 || number == 1))) continue;
        gyre_scope_fail(root, GYRE_EFORMAT, key, "entry %zu is neither 0 nor 1", i);
        return NULL;
    }
    return list;
}

static int needs_use_sliding_window(rule is) {
    return is == SLIDING_FROM_LAYER || is == NOPE_SLIDING;
}

/* Finds the window; 0 = none.  Some families have a window only if a key asks for it. */
static void find_window(layer_rules *p) {
    static const char *const keys[] = {"sliding_window", "local_attention", "sliding_window_size", "attention_window_size",
                                       NULL};
    static const char chunk[] = "attention_chunk_size";
    const char *key = p->layer_pattern->rule == NOPE_EVERY_NTH ? chunk : gyre_scope_first(p->root, keys);
    p->window = p->layer_pattern->window;
    p->window_from = (gyre_rope_provenance){GYRE_ORIGIN_FAMILY, {NULL, 0, 0}};
    const int is_off =
        needs_use_sliding_window(p->layer_pattern->rule) && !gyre_scope_bool(p->root, "use_sliding_window", 0);
    if (is_off || (!key && gyre_scope_has(p->root, keys[0]))) p->window = 0;
    if (is_off) return;
    if (!key || !gyre_scope_value(p->root, key)) return;
    p->window = gyre_scope_integer(p->root, key, 0, 0);
    p->window_from = (gyre_rope_provenance){GYRE_ORIGIN_FILE, gyre_scope_place(p->root, key)};
    if (strcmp(key, "local_attention") != 0) return;
    /* Half of it to either side of a token; the decoder's window of half of it has the token in it. */
    p->window = p->window / 2 + (strcmp(p->family->model_type, "modernbert-decoder") != 0);
}

static int64_t interval_of(const layer_rules *p) {
    return gyre_scope_integer(p->root, "no_rope_layer_interval", 1, 4);
}

static layer_rules read_layer_rules(const gyre_family *family, const gyre_scope *root, const gyre_rope_dict *dict) {
    layer_rules p = {family, root, dict, layer_pattern_of(family),          NULL, NULL, NULL, 0, 0,
                     0,      0,    0,    {GYRE_ORIGIN_FAMILY, {NULL, 0, 0}}};
    const char *key = gyre_rope_layers_key(root);
    p.layers = key ? gyre_scope_integer(root, key, 1, 0) : 0;
    p.types = list_at(root, "layer_types", p.layers);
    p.hybrid_pattern = flags_at(root, "hybrid_layer_pattern", p.layers);
    if (family->traits & GYRE_NO_ROPE_LAYERS) p.no_rope = flags_at(root, "no_rope_layers", p.layers);
    if (p.layers == 0 && p.types) p.layers = (int64_t)json_array_size(p.types);
    if (p.layers > MAX_LAYERS)
        gyre_scope_fail(root, GYRE_EFORMAT, key ? key : "layer_types", "%" PRId64 " layers; the most is %d", p.layers,
                        MAX_LAYERS);
    find_window(&p);
    p.nope_interval = interval_of(&p);
    p.full_interval = p.layer_pattern->count;
    /* EXAONE 4 may also give the pattern in letters, with L for a sliding layer. */
    const char *count_key = p.layer_pattern->count_key;
    if (count_key && json_is_string(gyre_scope_value(root, count_key)))
        p.full_interval = (int64_t)strlen(gyre_scope_string(root, count_key, ""));
    else if (count_key)
        p.full_interval = gyre_scope_integer(root, count_key, 1, p.full_interval);
    if (p.full_interval < 1) p.full_interval = 1;
    p.first_sliding = gyre_scope_integer(root, "max_window_layers", 0, p.layer_pattern->count);
    return p;
}

/* -- one layer -- */
static const char *type_by_rule(const layer_rules *p, int64_t layer) {
    switch (p->layer_pattern->rule) {
    case ALL_SLIDING:
        return p->window > 0 ? sliding : full;
    case FULL_EVERY_NTH:
        return p->window > 0 && (layer + 1) % p->full_interval != 0 ? sliding : full;
    case FULL_FIRST_OF_N:
        return p->window > 0 && layer % p->full_interval != 0 ? sliding : full;
    case SLIDING_FROM_LAYER:
        return p->window > 0 && layer >= p->first_sliding ? sliding : full;
    case LINEAR_EXCEPT_NTH:
        return (layer + 1) % p->full_interval == 0 ? full : linear;
    default:
        return full;
    }
}

static int has_rope_by_rule(const layer_rules *p, int64_t layer) {
    if (!(p->family->traits & GYRE_NO_ROPE_LAYERS)) return 1;
    if (!p->no_rope) return (layer + 1) % p->nope_interval != 0;
    const json_t *entry = json_array_get(p->no_rope, (size_t)layer);
    return json_is_true(entry) || json_integer_value(entry) != 0;
}

static const char *type_of(const layer_rules *p, int64_t layer) {
    const json_t *listed = json_array_get(p->types, (size_t)layer);
    /* Gemma 4's last layer is always full, whatever is listed. */
    if (p->layers > 0 && layer == p->layers - 1 && strncmp(p->family->model_type, "gemma4", 6) == 0) return full;
    if (p->types && json_is_string(listed)) return json_string_value(listed);
    if (p->types) {
        gyre_scope_fail(p->root, GYRE_EFORMAT, "layer_types", "entry %" PRId64 " is not a string", layer);
        return full;
    }
    if (p->hybrid_pattern) {
        const json_t *entry = json_array_get(p->hybrid_pattern, (size_t)layer);
        return json_is_true(entry) || json_integer_value(entry) != 0 ? sliding : full;
    }
    if (p->layer_pattern->rule == NOPE_EVERY_NTH) return has_rope_by_rule(p, layer) ? chunked : full;
    if (p->layer_pattern->rule == NOPE_SLIDING) return p->window > 0 && !has_rope_by_rule(p, layer) ? sliding : full;
    return type_by_rule(p, layer);
}

static int is_sliding(const char *type) {
    return strcmp(type, sliding) == 0 || strcmp(type, chunked) == 0 || strcmp(type, "local_attention") == 0;
}

/* Convolutions, state space layers and linear attention do not use positions. */
static int is_attention(const char *type) {
    static const char *const others[] = {"linear_attention", "conv", "mamba", "mamba2", "recurrent", "mlp", "moe", NULL};
    for (int i = 0; others[i]; i++)
        if (strcmp(others[i], type) == 0) return 0;
    return 1;
}

static gyre_layer_kind kind_of(const layer_rules *p, int64_t layer) {
    const char *type = type_of(p, layer);
    gyre_layer_kind kind = {type, 1, is_sliding(type), 0, p->window_from, NULL};
    if (kind.sliding) kind.window = p->window;
    if (!is_attention(type)) kind.has_rope = 0;
    if (!has_rope_by_rule(p, layer)) kind.has_rope = 0;
    if (strcmp(p->family->model_type, "granitemoehybrid") == 0 &&
        strcmp(gyre_scope_string(p->root, "position_embedding_type", ""), "rope") != 0)
        kind.has_rope = 0;
    if ((p->family->traits & GYRE_SLIDING_ROPE) && !kind.sliding && p->window > 0) kind.has_rope = 0;
    const char *entry = p->dict->nested ? gyre_rope_entry_of(p->dict, type) : NULL;
    if (entry && gyre_scope_has(&p->dict->scope, entry) && !gyre_scope_value(&p->dict->scope, entry)) kind.has_rope = 0;
    return kind;
}

/* -- all layers -- */
static const char *group_name(gyre_build *build, const gyre_layer_kind *kind) {
    if (kind->has_rope || !is_attention(kind->type)) return kind->type;
    return gyre_build_find_group(build, "nope") ? gyre_build_format(build, "nope_%s", kind->type) : "nope";
}

static gyre_layer_kind *add_layer_kind(gyre_build *build, gyre_layer_kinds *out, const gyre_layer_kind *kind) {
    for (int i = 0; i < out->kinds; i++)
        if (strcmp(out->kind[i].type, kind->type) == 0 && out->kind[i].has_rope == kind->has_rope) return &out->kind[i];
    if (out->kinds == GYRE_MAX_LAYER_KINDS) {
        gyre_build_fail(build, GYRE_EUNSUPPORTED, NULL, "layer_types: more than %d kinds of layers", GYRE_MAX_LAYER_KINDS);
        return &out->kind[0];
    }
    gyre_layer_kind *fresh = &out->kind[out->kinds++];
    *fresh = *kind;
    fresh->group = gyre_build_add_group(build, group_name(build, kind));
    return fresh;
}

/* If the number of layers is unknown: one of each kind that the dict names, or that the rule produces first. */
static void add_unlisted_kinds(const layer_rules *p, gyre_layer_kinds *out) {
    gyre_build *build = p->root->source->build;
    const char *type;
    json_t *value;
    if (p->dict->nested) {
        json_object_foreach((json_t *)p->dict->scope.object, type, value) {
            const gyre_layer_kind kind = {
                type, json_is_object(value), is_sliding(type), is_sliding(type) ? p->window : 0, p->window_from, NULL};
            (void)add_layer_kind(build, out, &kind);
        }
        return;
    }
    for (int64_t layer = 0; layer < 12; layer++) {
        const gyre_layer_kind kind = kind_of(p, layer);
        (void)add_layer_kind(build, out, &kind);
    }
}

void gyre_rope_group_layers(const gyre_family *family, const gyre_scope *root, const gyre_rope_dict *dict,
                            gyre_layer_kinds *out) {
    gyre_build *build = root->source->build;
    const layer_rules p = read_layer_rules(family, root, dict);
    out->kinds = 0;
    if (p.layers == 0) add_unlisted_kinds(&p, out);
    for (int64_t layer = 0; layer < p.layers && !gyre_build_status(build); layer++) {
        const gyre_layer_kind kind = kind_of(&p, layer);
        gyre_build_add_layer(build, add_layer_kind(build, out, &kind)->group, layer);
    }
    if (out->kinds == 1) out->kind[0].group->name = "all";
}
