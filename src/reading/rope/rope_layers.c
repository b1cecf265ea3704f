/* rope_layers.c: groups the layers of a decoder, by the lists in the file or by the family's rule. */
#include "reading/rope/read_rope.h"
#include "reading/rope/rope_lists.h"

#include <inttypes.h>
#include <string.h>

static const char full[] = "full_attention", sliding[] = "sliding_attention", chunked[] = "chunked_attention",
                  linear[] = "linear_attention", cross[] = "cross_attention";

/* How a family arranges its layers if the file does not list them. */
typedef enum rule {
    NO_RULE,
    ALL_SLIDING,          /* if there is a window, every layer has it */
    FULL_EVERY_NTH,       /* layer i is full if (i + 1) % n == 0; the others slide */
    FULL_FIRST_OF_N,      /* layer i is full if i % n == 0 */
    SLIDING_FROM_LAYER,   /* layers from max_window_layers on slide if use_sliding_window is set */
    NOPE_SLIDING,         /* layers that do not rotate slide if use_sliding_window is set */
    NOPE_EVERY_NTH,       /* layer i is full and does not rotate if (i + 1) % n == 0; the others see chunks */
    LINEAR_EXCEPT_NTH,    /* layer i is full if (i + 1) % n == 0; the others are linear attention */
    LINEAR_EXCEPT_FIRST,  /* ... if i % n == 0 */
    LINEAR_BUT_MULTIPLES, /* ... if i % n == 0 and i > 0 */
    FULL_FROM_LAST,       /* layer i is full if it is a multiple of n before the last; the others slide */
    FULL_ENDS             /* the first two layers, the last and those with i % n == 1 are full; the others slide */
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
                                               {"embedding_gemma2*", FULL_EVERY_NTH, "sliding_window_pattern", 6, 512},
                                               {"diffusion_gemma*", FULL_EVERY_NTH, NULL, 6, 512},
                                               {"t5gemma2*", FULL_EVERY_NTH, "sliding_window_pattern", 6, 4096},
                                               {"t5gemma*", FULL_EVERY_NTH, NULL, 2, 4096},
                                               {"t5_gemma_module", FULL_EVERY_NTH, NULL, 2, 4096},
                                               {"cohere2*", FULL_EVERY_NTH, "sliding_window_pattern", 4, 4096},
                                               {"exaone4*", FULL_EVERY_NTH, "sliding_window_pattern", 4, 4096},
                                               {"olmo3", FULL_EVERY_NTH, NULL, 4, 4096},
                                               {"gpt_oss", FULL_EVERY_NTH, NULL, 2, 128},
                                               {"modernbert-decoder", FULL_FIRST_OF_N, "global_attn_every_n_layers", 3, 64},
                                               {"modernbert", FULL_FIRST_OF_N, "global_attn_every_n_layers", 3, 65},
                                               {"cwm", FULL_FIRST_OF_N, "window_pattern", 4, 8192},
                                               {"llama4*", NOPE_EVERY_NTH, "no_rope_layer_interval", 4, 8192},
                                               {"smollm3", NOPE_SLIDING, "no_rope_layer_interval", 4, 0},
                                               {"afmoe", FULL_EVERY_NTH, "global_attn_every_n_layers", 4, 1024},
                                               {"exaone_moe", FULL_EVERY_NTH, "sliding_window_pattern", 4, 4096},
                                               {"kolibri1", FULL_EVERY_NTH, NULL, 5, 513},
                                               {"dory", FULL_EVERY_NTH, NULL, 4, 1024},
                                               {"ultrabert", FULL_EVERY_NTH, NULL, 3, 128},
                                               {"openai_privacy_filter", ALL_SLIDING, NULL, 0, 128},
                                               {"voxtral_realtime_text", ALL_SLIDING, NULL, 0, 4096},
                                               {"flint", FULL_ENDS, NULL, 4, 513},
                                               {"muse_glimmer_assistant", ALL_SLIDING, NULL, 0, 2048},
                                               {"muse_*", FULL_FROM_LAST, NULL, 4, 2048},
                                               {"granite_swa", FULL_FIRST_OF_N, NULL, 4, 128},
                                               {"granitemoe_swa", FULL_FIRST_OF_N, NULL, 4, 128},
                                               {"recurrent_gemma", LINEAR_EXCEPT_NTH, NULL, 3, 2048},
                                               {"bailing_hybrid", LINEAR_EXCEPT_NTH, "layer_group_size", 6, 0},
                                               {"qwen4_exp*", LINEAR_EXCEPT_NTH, "full_attention_interval", 4, 0},
                                               {"glm5_next*", LINEAR_EXCEPT_NTH, NULL, 4, 0},
                                               {"olmo_hybrid", LINEAR_EXCEPT_NTH, NULL, 4, 0},
                                               {"minimax", LINEAR_EXCEPT_FIRST, NULL, 2, 0},
                                               {"kimi_linear", LINEAR_BUT_MULTIPLES, NULL, 4, 0}};

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
    gyre_layer_lists lists;
    const json_t *hybrid_pattern; /* hybrid_layer_pattern: 1 = slides */
    int64_t layers, full_interval, window, first_sliding;
    const char *letters; /* L for a sliding layer, repeated: a form of sliding_window_pattern; NULL = none */
    gyre_rope_provenance window_from;
} layer_rules;

/* -- lists and windows of the file -- */
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
    if (is_off && key && !gyre_scope_has(p->root, "use_sliding_window"))
        gyre_scope_warn(p->root, key, "%s: not read without use_sliding_window", key);
    if (is_off || (!key && gyre_scope_has(p->root, keys[0]))) p->window = 0;
    if (is_off) return;
    if (!key || !gyre_scope_value(p->root, key)) return;
    p->window = gyre_scope_integer(p->root, key, 0, 0);
    p->window_from = (gyre_rope_provenance){GYRE_ORIGIN_FILE, gyre_scope_place(p->root, key)};
    if (strcmp(key, "local_attention") != 0) return;
    /* Half of it to either side of a token; the decoder's window of half of it has the token in it. */
    p->window = p->window / 2 + (strcmp(p->family->model_type, "modernbert-decoder") != 0);
}

static layer_rules read_layer_rules(const gyre_family *family, const gyre_scope *root, const gyre_rope_dict *dict) {
    layer_rules p = {.family = family, .root = root, .dict = dict, .layer_pattern = layer_pattern_of(family)};
    const char *key = gyre_rope_layers_key(root);
    gyre_layer_lists_read(family, root, key ? gyre_scope_integer(root, key, 1, 0) : 0, &p.lists);
    p.layers = p.lists.layers;
    p.hybrid_pattern = gyre_layer_flags(root, "hybrid_layer_pattern", p.layers, p.lists.mtp);
    if (p.layers > GYRE_MAX_LAYERS)
        gyre_scope_fail(root, GYRE_EFORMAT, key ? key : "layer_types", "%" PRId64 " layers; the most is %d", p.layers,
                        (int)GYRE_MAX_LAYERS);
    find_window(&p);
    p.full_interval = p.layer_pattern->count;
    const char *count_key = p.layer_pattern->count_key;
    if (count_key && json_is_string(gyre_scope_value(root, count_key)))
        p.letters = gyre_scope_string(root, count_key, "");
    else if (count_key)
        p.full_interval = gyre_scope_integer(root, count_key, 1, p.full_interval);
    if (p.letters) p.full_interval = (int64_t)strlen(p.letters);
    if (p.full_interval < 1) p.full_interval = 1;
    p.first_sliding = gyre_scope_integer(root, "max_window_layers", 0, p.layer_pattern->count);
    if (p.layer_pattern->rule == SLIDING_FROM_LAYER && p.window > 0 && !p.lists.types && p.layers > 0 &&
        p.first_sliding >= p.layers)
        gyre_scope_warn(root, p.window_from.place.key ? "sliding_window" : "max_window_layers",
                        "max_window_layers: %" PRId64 ", and there are %" PRId64 " layers; none slides", p.first_sliding,
                        p.layers);
    return p;
}

/* -- one layer -- */
static const char *type_by_rule(const layer_rules *p, int64_t layer) {
    switch (p->layer_pattern->rule) {
    case ALL_SLIDING:
        return p->window > 0 ? sliding : full;
    case FULL_EVERY_NTH:
        if (p->letters && *p->letters) return p->window > 0 && p->letters[layer % p->full_interval] == 'L' ? sliding : full;
        return p->window > 0 && (layer + 1) % p->full_interval != 0 ? sliding : full;
    case FULL_FIRST_OF_N:
        return p->window > 0 && layer % p->full_interval != 0 ? sliding : full;
    case SLIDING_FROM_LAYER:
        return p->window > 0 && layer >= p->first_sliding ? sliding : full;
    case LINEAR_EXCEPT_NTH:
        return (layer + 1) % p->full_interval == 0 ? full : linear;
    case LINEAR_EXCEPT_FIRST:
        return layer % p->full_interval == 0 ? full : linear;
    case LINEAR_BUT_MULTIPLES:
        return layer > 0 && layer % p->full_interval == 0 ? full : linear;
    case FULL_FROM_LAST:
        return p->window > 0 && (p->layers - 1 - layer) % p->full_interval != 0 ? sliding : full;
    case FULL_ENDS:
        return p->window > 0 && layer > 1 && layer % p->full_interval != 1 && layer != p->layers - 1 ? sliding : full;
    default:
        return full;
    }
}

/* The marks of a layer.  If the number of layers is unknown, of a model with many. */
static int marks_of(const layer_rules *p, int64_t layer) {
    if (p->lists.marks && layer < p->lists.layers + p->lists.mtp_listed) return p->lists.marks[layer];
    if (p->layers > 0 || !(p->family->traits & GYRE_NO_ROPE_LAYERS)) return 0;
    return (layer + 1) % gyre_scope_integer(p->root, "no_rope_layer_interval", 1, 4) == 0 ? GYRE_MARK_STILL : 0;
}

static const char *type_of(const layer_rules *p, int64_t layer) {
    const int marks = marks_of(p, layer), is_still = (marks & GYRE_MARK_STILL) != 0;
    if (marks & GYRE_MARK_CROSS) return cross;
    /* Gemma 4's last layer is always full, whatever is listed. */
    if (p->layers > 0 && layer == p->layers - 1 && p->family->traits & GYRE_WIDE_FULL_LAYERS) return full;
    const char *listed = gyre_layer_lists_type(&p->lists, layer);
    if (listed) return listed;
    if (marks & GYRE_MARK_FULL) return full;
    if (marks & GYRE_MARK_LINEAR) return linear;
    if (p->hybrid_pattern) {
        const json_t *entry = json_array_get(p->hybrid_pattern, (size_t)layer);
        return json_is_true(entry) || json_integer_value(entry) != 0 ? sliding : full;
    }
    if (p->layer_pattern->rule == NOPE_EVERY_NTH) return is_still ? full : chunked;
    if (p->layer_pattern->rule == NOPE_SLIDING) return p->window > 0 && is_still ? sliding : full;
    return type_by_rule(p, layer);
}

static int is_sliding(const char *type) {
    return strcmp(type, sliding) == 0 || strcmp(type, chunked) == 0 || strcmp(type, "local_attention") == 0 ||
           strcmp(type, "hybrid_sliding") == 0;
}

/* Convolutions, state space layers and linear attention do not use positions. */
static int is_attention(const char *type) {
    static const char *const others[] = {
        "linear_attention", "conv", "mamba", "mamba2",         "recurrent",           "mlp",   "moe",
        "short_conv",       "kda",  "gdn",   "gated_deltanet", "lightning_attention", "rglru", NULL};
    for (int i = 0; others[i]; i++)
        if (strcmp(others[i], type) == 0) return 0;
    return 1;
}

/* What a dict for each type of layers has under a type: null = these layers do not rotate. */
static int is_null_in_dict(const layer_rules *p, const char *type) {
    const char *entry = p->dict->nested ? gyre_rope_entry_of(p->dict, type) : NULL;
    return entry && gyre_scope_has(&p->dict->scope, entry) && !gyre_scope_value(&p->dict->scope, entry);
}

static int rotates(const layer_rules *p, const gyre_layer_kind *kind, int64_t layer) {
    if (!kind->is_attention || marks_of(p, layer) & (GYRE_MARK_STILL | GYRE_MARK_CROSS)) return 0;
    if (p->lists.base && !kind->own.base_key) return 0;
    if (gyre_family_is_assumed(p->family) && strstr(kind->type, "nope")) return 0;
    if (p->family->traits & GYRE_MLA && kind->own.turned == 0) return 0;
    if (strcmp(p->family->model_type, "granitemoehybrid") == 0 &&
        strcmp(gyre_scope_string(p->root, "position_embedding_type", ""), "rope") != 0)
        return 0;
    if ((p->family->traits & GYRE_SLIDING_ROPE) && !kind->sliding && p->window > 0) return 0;
    return !is_null_in_dict(p, kind->type);
}

/* out = the key of the file by which an attention layer does not rotate; NULL = none. */
static const char *still_key_of(const layer_rules *p, const gyre_layer_kind *kind, int64_t layer) {
    static const char cross_key[] = "cross_attention_layers";
    const int marks = marks_of(p, layer);
    if (marks & GYRE_MARK_CROSS) return gyre_scope_value(p->root, cross_key) ? cross_key : NULL;
    if (marks & GYRE_MARK_STILL) return p->lists.still_key;
    return p->lists.base && !kind->own.base_key ? p->lists.base_key : NULL;
}

/* RecurrentGemma names its blocks otherwise, and all of its attention has the window. */
static const char *common_type_of(const layer_rules *p, int64_t layer) {
    const char *type = type_of(p, layer);
    if (strcmp(p->family->model_type, "recurrent_gemma") != 0) return type;
    return is_attention(type) ? sliding : linear;
}

static gyre_layer_kind kind_of(const layer_rules *p, int64_t layer) {
    const char *type = common_type_of(p, layer);
    gyre_layer_kind kind = {.type = type, .sliding = is_sliding(type), .is_attention = is_attention(type)};
    kind.own = gyre_layer_lists_of(&p->lists, layer);
    kind.is_mtp = p->layers > 0 && layer >= p->layers;
    kind.window_from = p->window_from;
    if (kind.sliding) kind.window = p->window;
    if (kind.sliding && kind.own.window >= 0) kind.window = kind.own.window;
    kind.has_rope = rotates(p, &kind, layer);
    if (!kind.has_rope && kind.is_attention) kind.still_key = still_key_of(p, &kind, layer);
    return kind;
}

/* -- all layers -- */
static const char *type_name(const gyre_layer_kind *kind) {
    if (kind->is_mtp) return "mtp";
    if (kind->has_rope || !kind->is_attention || strcmp(kind->type, cross) == 0) return kind->type;
    return "nope";
}

/* Groups that differ in more than their type are told apart by what differs. */
static const char *group_name(gyre_build *build, const gyre_layer_kind *kind) {
    const char *name = type_name(kind);
    const int is_type = strcmp(name, kind->type) == 0;
    if (!gyre_build_find_group(build, name)) return name;
    if (!is_type) name = gyre_build_format(build, "%s_%s", name, kind->type);
    if (is_type && kind->own.base_key) name = gyre_build_format(build, "%s_base_%g", name, kind->own.base);
    for (int i = 2; gyre_build_find_group(build, name) && i <= GYRE_MAX_LAYER_KINDS; i++)
        name = gyre_build_format(build, "%s_%d", is_type ? kind->type : name, i);
    return name;
}

static int is_same_kind(const gyre_layer_kind *a, const gyre_layer_kind *b) {
    const gyre_layer_own *p = &a->own, *q = &b->own;
    if (strcmp(a->type, b->type) != 0 || a->has_rope != b->has_rope || a->is_mtp != b->is_mtp) return 0;
    if (a->window != b->window) return 0;
    if (!a->has_rope) return 1;
    return p->base == q->base && p->partial == q->partial && p->head_dim == q->head_dim && p->turned == q->turned &&
           p->still == q->still;
}

static gyre_layer_kind *add_layer_kind(const layer_rules *p, gyre_layer_kinds *out, const gyre_layer_kind *kind) {
    gyre_build *build = p->root->source->build;
    for (int i = 0; i < out->kinds; i++)
        if (is_same_kind(&out->kind[i], kind)) return &out->kind[i];
    if (out->kinds == GYRE_MAX_LAYER_KINDS) {
        gyre_build_fail(build, GYRE_EUNSUPPORTED, NULL, "layer_types: more than %d kinds of layers", GYRE_MAX_LAYER_KINDS);
        return &out->kind[0];
    }
    gyre_layer_kind *fresh = &out->kind[out->kinds++];
    *fresh = *kind;
    fresh->group = gyre_build_add_group(build, group_name(build, kind));
    if (!kind->sliding || kind->own.window < 0) return fresh;
    /* Once for each kind: the place of a key is searched for in the text. */
    const gyre_scope all = gyre_scope_child(p->root, "per_layer_config"), own = gyre_scope_child(&all, kind->own.config_key);
    fresh->window_from = (gyre_rope_provenance){GYRE_ORIGIN_FILE, gyre_scope_place(&own, "sliding_window")};
    return fresh;
}

/* If the number of layers is unknown: one of each kind that the dict names, or that the rule produces first. */
static void add_unlisted_kinds(const layer_rules *p, gyre_layer_kinds *out) {
    const char *type;
    json_t *value;
    if (p->dict->nested) {
        json_object_foreach((json_t *)p->dict->scope.object, type, value) {
            if (!json_is_object(value) && !json_is_null(value)) continue; /* a key for all layers */
            const gyre_layer_kind kind = {.type = type,
                                          .has_rope = json_is_object(value),
                                          .sliding = is_sliding(type),
                                          .is_attention = is_attention(type),
                                          .own = gyre_layer_lists_of(&p->lists, 0),
                                          .window = is_sliding(type) ? p->window : 0,
                                          .window_from = p->window_from};
            (void)add_layer_kind(p, out, &kind);
        }
        return;
    }
    for (int64_t layer = 0; layer < 12; layer++) {
        const gyre_layer_kind kind = kind_of(p, layer);
        (void)add_layer_kind(p, out, &kind);
    }
}

/* out = 0 if nothing is said of how layers of multi-token prediction rotate. */
static int is_described(const layer_rules *p, const gyre_layer_kind *kind) {
    if (!kind->is_mtp || !kind->has_rope || !p->dict->nested) return 1;
    return gyre_scope_has(&p->dict->scope, gyre_rope_entry_of(p->dict, kind->type));
}

void gyre_rope_group_layers(const gyre_family *family, const gyre_scope *root, const gyre_rope_dict *dict,
                            gyre_layer_kinds *out) {
    gyre_build *build = root->source->build;
    const layer_rules p = read_layer_rules(family, root, dict);
    const int64_t count = p.layers > 0 ? p.layers + p.lists.mtp_listed : 0;
    out->kinds = 0;
    const unsigned indexers = GYRE_INDEXER | GYRE_INDEXER_HALF | GYRE_INDEXER_LAST;
    out->indexer_types = NULL;
    if (family->traits & indexers || gyre_family_is_assumed(family))
        out->indexer_types = gyre_layer_list(root, "indexer_types", p.layers, p.lists.mtp);
    out->layers = p.layers;
    out->mtp = p.lists.mtp - p.lists.mtp_listed;
    if (p.layers == 0) add_unlisted_kinds(&p, out);
    for (int64_t layer = 0; layer < count && !gyre_build_status(build); layer++) {
        const gyre_layer_kind kind = kind_of(&p, layer);
        if (is_described(&p, &kind)) gyre_build_add_layer(build, add_layer_kind(&p, out, &kind)->group, layer);
    }
    if (out->kinds == 1) out->kind[0].group->name = "all";
}
