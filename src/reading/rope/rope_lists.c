/* rope_lists.c: lists of the file with an entry for each layer, indices and intervals: types, bases, shares, and which
 * layers do not rotate. */
#include "reading/rope/rope_lists.h"
#include "reading/rope/read_rope.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* -- lists -- */
const json_t *gyre_layer_list(const gyre_scope *root, const char *key, int64_t count, int64_t mtp) {
    const json_t *list = gyre_scope_value(root, key);
    const int64_t size = (int64_t)json_array_size(list);
    if (!list) return NULL;
    if (!json_is_array(list)) {
        gyre_scope_fail(root, GYRE_EFORMAT, key, "not a list");
        return NULL;
    }
    if (size == 0) return NULL;
    if (count > 0 && size < count) {
        gyre_scope_fail(root, GYRE_EFORMAT, key, "%" PRId64 " entries for %" PRId64 " layers", size, count);
        return NULL;
    }
    if (count > 0 && size > count && size != count + mtp)
        gyre_scope_warn(root, key, "%s: %" PRId64 " entries for %" PRId64 " layers; those past the last layer are not read",
                        key, size, count);
    return list;
}

static int is_flag(const json_t *entry) {
    const json_int_t number = json_integer_value(entry);
    return json_is_boolean(entry) || (json_is_integer(entry) && (number == 0 || number == 1));
}

static int is_set(const json_t *flag) {
    return json_is_true(flag) || json_integer_value(flag) != 0;
}

const json_t *gyre_layer_flags(const gyre_scope *root, const char *key, int64_t count, int64_t mtp) {
    const json_t *list = gyre_layer_list(root, key, count, mtp), *flag;
    size_t i;
    json_array_foreach((json_t *)list, i, flag) {
        if (is_flag(flag)) continue;
        gyre_scope_fail(root, GYRE_EFORMAT, key, "entry %zu is neither 0 nor 1", i);
        return NULL;
    }
    return list;
}

/* -- marks -- */
static int is_assumed(const gyre_layer_lists *l) {
    return gyre_family_is_assumed(l->family);
}

/* For a model_type that is not known: says that a meaning was assumed. */
static void note_assumed(const gyre_layer_lists *l, const char *key, const char *meaning) {
    if (is_assumed(l) && gyre_scope_value(l->root, key))
        gyre_scope_warn(l->root, key, "%s: read as in other models (%s); this model_type is not known", key, meaning);
}

static void mark(gyre_layer_lists *l, int64_t layer, unsigned char as) {
    if (l->marks && layer >= 0 && layer < l->layers + l->mtp_listed) l->marks[layer] |= as;
}

static void mark_all(gyre_layer_lists *l, unsigned char as) {
    for (int64_t i = 0; i < l->layers + l->mtp_listed; i++)
        mark(l, i, as);
}

/* Marks the layers that a list names, the first of which is `first`.  Indices past the last layer mark nothing. */
static void mark_indices(gyre_layer_lists *l, const gyre_scope *s, const char *key, int64_t first, unsigned char as) {
    const json_t *list = gyre_scope_value(s, key), *entry;
    size_t i;
    if (list && !json_is_array(list)) gyre_scope_fail(s, GYRE_EFORMAT, key, "not a list");
    json_array_foreach((json_t *)list, i, entry) {
        const int64_t layer = json_is_integer(entry) ? (int64_t)json_integer_value(entry) : -1;
        if (layer < first || layer > INT64_MAX / 2) {
            gyre_scope_fail(s, GYRE_EFORMAT, key, "entry %zu is not a layer, from %" PRId64, i, first);
            return;
        }
        mark(l, layer - first, as);
    }
}

/* Marks the layers whose flag is `value`. */
static void mark_flags(gyre_layer_lists *l, const json_t *flags, int value, unsigned char as) {
    const json_t *flag;
    size_t i;
    json_array_foreach((json_t *)flags, i, flag) if (is_set(flag) == value) mark(l, (int64_t)i, as);
}

/* Every n-th layer, counted from 1. */
static void mark_every(gyre_layer_lists *l, int64_t n, unsigned char as) {
    for (int64_t i = 0; n > 0 && i < l->layers + l->mtp_listed; i++)
        if ((i + 1) % n == 0) mark(l, i, as);
}

/* -- layers that do not rotate -- */
/* The entries of no_rope_layers are 1 for a layer that rotates: the opposite of its name.  A list of other numbers, which
 * no known class has, can only be indices. */
static int mark_by_flags(gyre_layer_lists *l) {
    static const char key[] = "no_rope_layers";
    const json_t *list = gyre_scope_value(l->root, key), *entry;
    size_t i;
    json_array_foreach((json_t *)list, i, entry) {
        if (is_flag(entry) || !is_assumed(l)) continue;
        note_assumed(l, key, "indices of layers that do not rotate");
        mark_indices(l, l->root, key, 0, GYRE_MARK_STILL);
        l->still_key = key;
        return 1;
    }
    list = gyre_layer_flags(l->root, key, l->layers, l->mtp);
    if (list) note_assumed(l, key, "1 = the layer rotates, 0 = it does not");
    mark_flags(l, list, 0, GYRE_MARK_STILL);
    if (list) l->still_key = key;
    return list != NULL;
}

static void mark_by_interval(gyre_layer_lists *l) {
    static const char *const names[] = {"no_rope_layer_interval", "nope_layer_interval", "no_rope_interval", "nope_interval",
                                        NULL};
    const int is_known = (l->family->traits & GYRE_NO_ROPE_LAYERS) != 0;
    const char *key = is_known ? names[0] : gyre_scope_first(l->root, names);
    if (!key) return;
    note_assumed(l, key, "every n-th layer, counted from 1, does not rotate");
    if (gyre_scope_value(l->root, key)) l->still_key = key;
    mark_every(l, gyre_scope_integer(l->root, key, is_known, is_known ? 4 : 0), GYRE_MARK_STILL);
}

/* Muse's classes without a list: every fourth layer, counted from the last. */
static void mark_by_theta(gyre_layer_lists *l) {
    if (l->base || !(l->family->traits & GYRE_LAYER_THETA) || strncmp(l->family->model_type, "muse_", 5) != 0) return;
    for (int64_t i = 0; i < l->layers; i++)
        if ((l->layers - 1 - i) % 4 == 0) mark(l, i, GYRE_MARK_STILL);
}

static void mark_cross_attention(gyre_layer_lists *l) {
    static const char key[] = "cross_attention_layers";
    if (!is_assumed(l) && !(l->family->traits & GYRE_CROSS_LAYERS)) return;
    note_assumed(l, key, "these layers are cross-attention and do not rotate");
    if (gyre_scope_value(l->root, key))
        mark_indices(l, l->root, key, 0, GYRE_MARK_CROSS);
    else
        for (int64_t i = 3; i < 40 && (l->family->traits & GYRE_CROSS_LAYERS); i += 5) /* the class's default */
            mark(l, i, GYRE_MARK_CROSS);
}

/* Latent attention whose heads have no rotating part, or none that is used. */
static int has_no_rotation(gyre_layer_lists *l) {
    static const char none[] = "mla_use_nope", size[] = "qk_rope_head_dim", memory[] = "use_mem_rope";
    const json_t *stated = gyre_scope_value(l->root, size);
    const char *type = l->family->model_type;
    const int is_latent = (l->family->traits & GYRE_MLA) != 0;
    if (l->family->traits & GYRE_NEVER_ROTATES) {
        (void)gyre_scope_bool(l->root, none, 1); /* true in every file */
        l->still_key = gyre_scope_value(l->root, none) ? none : NULL;
        return 1;
    }
    if (is_latent && json_is_integer(stated) && json_integer_value(stated) == 0) {
        l->still_key = size;
        return 1;
    }
    if (is_latent && is_assumed(l) && gyre_scope_bool(l->root, none, 0)) {
        note_assumed(l, none, "no layer rotates");
        l->still_key = none;
        return 1;
    }
    return strcmp(type, "zamba2") == 0 && !gyre_scope_bool(l->root, memory, 0);
}

/* -- layers that are recurrent -- */
/* Kimi Linear's lists count layers from 1. */
static void mark_by_linear_config(gyre_layer_lists *l) {
    static const char key[] = "linear_attn_config", attention[] = "full_attn_layers", recurrent[] = "kda_layers";
    const int is_kimi = strcmp(l->family->model_type, "kimi_linear") == 0;
    if ((!is_kimi && !is_assumed(l)) || !json_is_object(gyre_scope_value(l->root, key))) return;
    const gyre_scope linear = gyre_scope_child(l->root, key);
    if (!gyre_scope_value(&linear, attention)) return;
    note_assumed(l, key, "lists of layers that count from 1");
    if (!gyre_scope_value(&linear, recurrent)) mark_all(l, GYRE_MARK_LINEAR);
    mark_indices(l, &linear, attention, 1, GYRE_MARK_FULL);
    mark_indices(l, &linear, recurrent, 1, GYRE_MARK_LINEAR);
}

/* Keys of families whose other layers are recurrent.  An unknown model may have any. */
static void mark_recurrent(gyre_layer_lists *l) {
    static const struct {
        const char *key, *family;
        int is_flags;
    } lists[] = {{"attn_layer_indices", "bamba", 0},
                 {"full_attn_idxs", "lfm2", 0},
                 {"hybrid_layer_ids", "zamba2", 0},
                 {"attn_type_list", "minimax", 1}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const char *key = lists[i].key;
        const int is_own = strncmp(l->family->model_type, lists[i].family, strlen(lists[i].family)) == 0;
        if ((!is_own && !is_assumed(l)) || !gyre_scope_value(l->root, key)) continue;
        note_assumed(l, key, "the layers with attention; the others are recurrent");
        mark_all(l, GYRE_MARK_LINEAR);
        if (lists[i].is_flags)
            mark_flags(l, gyre_layer_flags(l->root, key, l->layers, l->mtp), 1, GYRE_MARK_FULL);
        else
            mark_indices(l, l->root, key, 0, GYRE_MARK_FULL);
        return;
    }
    /* The class of Bamba lists no layer by default. */
    if (strcmp(l->family->model_type, "bamba") == 0) mark_all(l, GYRE_MARK_LINEAR);
}

/* The layers with attention of an unknown model.  Known ones have a rule in rope_layers.c. */
static void mark_by_full_interval(gyre_layer_lists *l) {
    static const char *const names[] = {"full_attention_interval", "layer_group_size", NULL};
    const char *key = is_assumed(l) ? gyre_scope_first(l->root, names) : NULL;
    if (!key) return;
    note_assumed(l, key, "every n-th layer is full attention; the others are linear");
    mark_all(l, GYRE_MARK_LINEAR);
    mark_every(l, gyre_scope_integer(l->root, key, 1, 1), GYRE_MARK_FULL);
}

static void read_marks(gyre_layer_lists *l) {
    const int64_t count = l->layers + l->mtp_listed;
    l->marks = (unsigned char *)gyre_build_alloc_numbers(l->root->source->build, (count + 7) / 8);
    if (gyre_build_status(l->root->source->build)) return;
    if (is_assumed(l) || l->family->traits & GYRE_NO_ROPE_LAYERS)
        if (!mark_by_flags(l)) mark_by_interval(l);
    mark_by_theta(l);
    mark_cross_attention(l);
    if (has_no_rotation(l)) mark_all(l, GYRE_MARK_STILL);
    if (l->types) return;
    mark_by_linear_config(l);
    mark_recurrent(l);
    mark_by_full_interval(l);
}

/* -- everything together -- */
static int has_name(const json_t *names, const char *name) {
    const json_t *entry;
    size_t i;
    json_array_foreach((json_t *)names, i,
                       entry) if (json_is_string(entry) && strcmp(json_string_value(entry), name) == 0) return 1;
    return 0;
}

/* Dory's files count the attention and the feed-forward part of a layer as two. */
/* Families whose classes have this name for layer_types. */
static int has_block_types(const gyre_layer_lists *l) {
    static const char *const families[] = {"granitemoehybrid", "falcon_h1", "zamba2", "bamba", "recurrent_gemma", NULL};
    for (int i = 0; families[i]; i++)
        if (strcmp(families[i], l->family->model_type) == 0) return 1;
    return is_assumed(l);
}

static void find_types(gyre_layer_lists *l) {
    static const char *const names[] = {"layer_types", "layers_block_type", NULL}, *const patterns[] = {
                                                                                       "block_types", "_block_types", NULL};
    l->types_key = has_block_types(l) ? gyre_scope_first(l->root, names) : names[0];
    l->types = l->types_key ? gyre_layer_list(l->root, l->types_key, l->layers, l->mtp) : NULL;
    const char *pattern = l->types ? NULL : gyre_scope_sees(l->root, patterns);
    const int is_own = strcmp(l->family->model_type, "recurrent_gemma") == 0;
    if (l->types && strcmp(l->family->model_type, "dory") == 0 && has_name(l->types, "mlp")) {
        l->types_step = 2;
        l->layers /= 2;
    }
    if (!pattern || (!is_own && !is_assumed(l))) return;
    note_assumed(l, pattern, "types of layers, repeated to the last");
    l->types_key = pattern;
    l->types = gyre_layer_list(l->root, pattern, 0, 0);
    l->types_repeat = 1;
}

static void find_numbers(gyre_layer_lists *l) {
    static const char theta[] = "layer_rope_theta", *const bases[] = {"rope_theta", NULL};
    static const char *const shares[] = {"partial_rotary_factors", "partial_rotary_factor", NULL};
    const char *type = l->family->model_type;
    const int reads_theta = is_assumed(l) || l->family->traits & GYRE_LAYER_THETA;
    const int reads_lists = is_assumed(l) || strncmp(type, "step3p", 6) == 0 || strcmp(type, "ultrabert") == 0;
    const char *key = reads_theta && gyre_scope_value(l->root, theta) ? theta : NULL;
    if (!key && reads_lists) key = gyre_scope_sees(l->root, bases);
    if (key && json_is_array(json_object_get(l->root->object, key))) {
        note_assumed(l, key, "a base for each layer; 0 = the layer does not rotate");
        l->base = gyre_layer_list(l->root, key, l->layers, l->mtp);
        l->base_key = key;
    }
    key = reads_lists ? gyre_scope_sees(l->root, shares) : NULL;
    if (!key || !json_is_array(json_object_get(l->root->object, key))) return;
    note_assumed(l, key, "the rotating share of the heads of each layer");
    l->partial = gyre_layer_list(l->root, key, l->layers, l->mtp);
    l->partial_key = key;
}

const char *gyre_layer_mtp_key(const gyre_scope *root) {
    static const char *const names[] = {"num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers", NULL};
    return gyre_scope_first(root, names);
}

static int64_t count_mtp(const gyre_scope *root) {
    const char *key = gyre_layer_mtp_key(root);
    const json_t *count = key ? gyre_scope_value(root, key) : NULL;
    return json_is_integer(count) && json_integer_value(count) > 0 ? (int64_t)json_integer_value(count) : 0;
}

/* out = the longest of the lists, for a file that does not state its layers.  A known class may not read all of them. */
static int64_t longest_list(const gyre_family *family, const gyre_scope *root) {
    static const char *const names[] = {"layer_types",      "layers_block_type", "no_rope_layers",
                                        "layer_rope_theta", "rope_theta",        NULL};
    size_t longest = 0;
    const int known = family->traits & (GYRE_NO_ROPE_LAYERS | GYRE_LAYER_THETA) ? 4 : 1;
    for (int i = 0; names[i] && (i < known || gyre_family_is_assumed(family)); i++) {
        const size_t size = json_array_size(json_object_get(root->object, names[i]));
        if (size > longest) longest = size;
    }
    return (int64_t)longest;
}

void gyre_layer_lists_read(const gyre_family *family, const gyre_scope *root, int64_t layers, gyre_layer_lists *out) {
    static const char by_layer[] = "per_layer_config", mtp_types[] = "mtp_layer_types";
    *out = (gyre_layer_lists){.family = family, .root = root, .layers = layers, .types_step = 1, .mtp = count_mtp(root)};
    if (layers == 0) out->layers = longest_list(family, root);
    find_types(out);
    find_numbers(out);
    if (out->mtp > 0 && (int64_t)json_array_size(gyre_scope_value(root, mtp_types)) >= out->mtp)
        out->mtp_types = gyre_layer_list(root, mtp_types, out->mtp, 0);
    const int64_t listed = out->types_repeat ? 0 : (int64_t)json_array_size(out->types);
    if (out->mtp_types || (out->mtp <= GYRE_MAX_LAYERS && listed == out->layers + out->mtp)) out->mtp_listed = out->mtp;
    const json_t *object = gyre_scope_value(root, by_layer);
    out->by_layer = json_is_object(object) && json_object_size(object) > 0 ? object : NULL;
    if (out->layers <= GYRE_MAX_LAYERS && out->mtp_listed <= GYRE_MAX_LAYERS) read_marks(out);
}

const char *gyre_layer_lists_type(const gyre_layer_lists *l, int64_t layer) {
    const int is_mtp = l->layers > 0 && layer >= l->layers;
    const size_t size = json_array_size(l->types);
    size_t at = (size_t)layer;
    const json_t *list = l->types;
    if (is_mtp && l->mtp_types) {
        list = l->mtp_types;
        at = (size_t)(layer - l->layers);
    } else if (l->types_repeat && size > 0) {
        at %= size;
    } else {
        at *= (size_t)l->types_step;
    }
    const json_t *name = list ? json_array_get(list, at) : NULL;
    if (json_is_string(name)) return json_string_value(name);
    if (list && at < json_array_size(list))
        gyre_scope_fail(l->root, GYRE_EFORMAT, list == l->mtp_types ? "mtp_layer_types" : l->types_key,
                        "entry %zu is not a string", at);
    return NULL;
}

/* out = the number of the layer, from a list; 0 = no list, or the layer is past its end. */
static double number_at(const gyre_layer_lists *l, const json_t *list, const char *key, int64_t layer) {
    const json_t *entry = list ? json_array_get(list, (size_t)layer) : NULL;
    if (!entry || json_is_null(entry)) return 0.0;
    if (!json_is_number(entry)) gyre_scope_fail(l->root, GYRE_EFORMAT, key, "entry %" PRId64 " is not a number", layer);
    return json_number_value(entry);
}

/* transformers saves what single layers have otherwise by their index, with zeros before it in a deep model. */
static void read_own_config(const gyre_layer_lists *l, int64_t layer, gyre_layer_own *own) {
    enum { WIDEST = 6 }; /* digits of the largest number of layers, and one more */
    static const char head[] = "head_dim", turned[] = "qk_rope_head_dim", still[] = "qk_nope_head_dim",
                      window[] = "sliding_window";
    for (int digits = 1; digits <= WIDEST && !own->config; digits++) {
        snprintf(own->config_key, sizeof own->config_key, "%0*" PRId64, digits, layer);
        const json_t *object = json_object_get(l->by_layer, own->config_key);
        if (json_is_object(object)) own->config = object;
    }
    if (!own->config) return;
    const gyre_scope all = gyre_scope_child(l->root, "per_layer_config"), s = gyre_scope_child(&all, own->config_key);
    if (gyre_scope_value(&s, head)) own->head_dim = gyre_rope_read_channels(&s, head, 1, 1);
    if (gyre_scope_value(&s, turned)) own->turned = gyre_rope_read_channels(&s, turned, 0, 0);
    if (gyre_scope_value(&s, still)) own->still = gyre_rope_read_channels(&s, still, 0, 0);
    if (gyre_scope_has(&s, window)) own->window = gyre_scope_integer(&s, window, 0, 0);
}

gyre_layer_own gyre_layer_lists_of(const gyre_layer_lists *l, int64_t layer) {
    gyre_layer_own own = {.head_dim = -1, .turned = -1, .still = -1, .window = -1};
    own.base = number_at(l, l->base, l->base_key, layer);
    own.base_key = own.base != 0.0 ? l->base_key : NULL;
    own.partial = number_at(l, l->partial, l->partial_key, layer);
    own.partial_key = own.partial != 0.0 ? l->partial_key : NULL;
    if (l->by_layer) read_own_config(l, layer, &own);
    return own;
}
