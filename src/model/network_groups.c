#include "model/network_groups.h"

#include "core/encoding.h"
#include "util/error.h"

#include <string.h>

enum { MAX_PAIRS = 1024 }; /* encodings with more rotated pairs are taken to differ */

static gyre_status create_group(const gyre_network *n, const gyre_layer_reading *from, gyre_network_group *to,
                                gyre_error *err) {
    const gyre_architecture *a = &n->arch;
    gyre_config config = from->config;
    gyre_error why = {0, ""};
    if (gyre_kind_has(config.kind, GYRE_TRAIT_SLOPES) && config.heads != a->heads)
        return gyre_fail(err, GYRE_EFORMAT, "heads: slopes of %lld, but %lld heads (%s)", (long long)config.heads,
                         (long long)a->heads, n->reading->path);
    config.heads = a->heads;
    if (!a->layer_rules.heads_by_group) config.head_dim = a->head_dim; /* a reading may have the rotated channels alone */
    config.input.dim = a->model_dim;
    to->scale = from->scale;
    to->window = a->chunked ? 0 : from->window;
    to->chunk = a->chunked ? from->window : 0;
    const gyre_status status = gyre_encoding_create(&to->encoding, &config, NULL, &why);
    if (!status) return GYRE_OK;
    return gyre_fail(err, status == GYRE_EINVAL ? GYRE_EFORMAT : status, "%s (%s)", why.text, n->reading->path);
}

/* The sizes of a layer, and the layer whose keys it reads: the last of its group that computes keys. */
static gyre_status set_layer(gyre_network *n, int64_t layer, gyre_error *err) {
    const gyre_architecture *a = &n->arch;
    const gyre_layer_rules *rules = &a->layer_rules;
    gyre_network_layer *l = &n->layer[layer];
    const gyre_network_group *group = &n->group[l->group];
    const int64_t sharing_from = a->layers - rules->sharing;
    const int64_t head_dim = rules->heads_by_group ? gyre_encoding_get_config(group->encoding)->head_dim : a->head_dim;
    const int wide = group->window == 0;
    gyre_network_set_layer_sizes(n, layer, head_dim, wide && rules->wide_kv_heads ? rules->wide_kv_heads : a->kv_heads);
    l->values_are_keys = wide && rules->wide_values_are_keys;
    if (layer < sharing_from) return GYRE_OK;
    if (rules->sharing_mlp_dim) l->mlp_dim = rules->sharing_mlp_dim;
    l->keys_of = sharing_from - 1;
    while (l->keys_of >= 0 && n->layer[l->keys_of].group != l->group)
        l->keys_of--;
    if (l->keys_of >= 0) return GYRE_OK;
    return gyre_fail(err, GYRE_EUNSUPPORTED,
                     "layer %lld: reads keys of an earlier layer, and none of the first %lld has its positions (%s)",
                     (long long)layer, (long long)sharing_from, n->reading->path);
}

/* 1 if both encodings rotate alike.  Gemma 2's local and global layers do.  Gemma 3's local layers do not, and keep
 * their own encoding when the global ones are extended. */
static int same_positions(const gyre_encoding *a, const gyre_encoding *b) {
    const gyre_config *c = gyre_encoding_get_config(a), *d = gyre_encoding_get_config(b);
    const int64_t pairs = c->rope.dim / 2;
    double one, other, x[MAX_PAIRS], y[MAX_PAIRS];
    if (a == b) return 1;
    if (!gyre_encoding_rotates(a) || !gyre_encoding_rotates(b) || c->head_dim != d->head_dim || c->rope.dim != d->rope.dim ||
        c->rope.layout != d->rope.layout || c->rope.scaling != d->rope.scaling || pairs > MAX_PAIRS)
        return 0;
    return !gyre_encoding_frequencies(a, 0, x, &one) && !gyre_encoding_frequencies(b, 0, y, &other) && one == other &&
           memcmp(x, y, (size_t)pairs * sizeof *x) == 0;
}

static void choose_main_group(gyre_network *n) {
    for (int g = n->groups - 1; g >= 0; g--) {
        const gyre_encoding *encoding = n->group[g].encoding;
        if (n->group[g].window == 0 && n->group[g].chunk == 0 && encoding && gyre_encoding_places(encoding) != 0)
            n->main_group = g;
    }
    for (int g = 0; g < n->groups; g++)
        n->group[g].shares_main = same_positions(n->group[n->main_group].encoding, n->group[g].encoding);
}

/* Where layers differ, the sizes of the model are those of its main group. */
static void set_main_sizes(gyre_network *n) {
    for (int64_t layer = 0; layer < n->arch.layers && n->arch.layer_rules.heads_by_group; layer++)
        if (n->layer[layer].group == n->main_group) {
            n->arch.head_dim = n->arch.value_dim = n->layer[layer].k.channels;
            n->arch.kv_heads = n->layer[layer].k.count;
        }
}

gyre_status gyre_network_create_groups(gyre_network *n, gyre_error *err) {
    const gyre_reading *reading = n->reading;
    for (int64_t layer = 0; layer < n->arch.layers; layer++)
        n->layer[layer].group = reading->groups_count == 1 && reading->groups[0]->layers_count == 0 ? 0 : -1;
    for (int64_t g = 0; g < reading->groups_count; g++) {
        const gyre_layer_reading *from = reading->groups[g];
        if (n->arch.wrapped && (strcmp(from->name, "vision") == 0 || strcmp(from->name, "audio") == 0)) continue;
        const gyre_status status = create_group(n, from, &n->group[n->groups], err);
        if (status) return status;
        for (int64_t i = 0; i < from->layers_count; i++)
            if (from->layers[i] < n->arch.layers) n->layer[from->layers[i]].group = n->groups;
        n->groups++;
    }
    choose_main_group(n);
    for (int64_t layer = 0; layer < n->arch.layers; layer++) {
        if (n->layer[layer].group < 0)
            return gyre_fail(err, GYRE_EUNSUPPORTED, "layer %lld: its positions are not in the reading of %s",
                             (long long)layer, reading->path);
        const gyre_status status = set_layer(n, layer, err);
        if (status) return status;
    }
    set_main_sizes(n);
    return GYRE_OK;
}

/* -- models made here -- */
/* *to = the group of layers with this base of config->position; 0 = they do not rotate. */
static gyre_status create_base_group(const gyre_model_config *config, double base, gyre_network_group *to, gyre_error *err) {
    gyre_config position = config->position;
    if (base == 0) {
        position = (gyre_config)GYRE_INIT(gyre_config);
        position.kind = gyre_kind_find("nope");
        position.heads = config->position.heads;
        position.head_dim = config->position.head_dim;
    }
    position.rope.base = base;
    return gyre_encoding_create(&to->encoding, &position, NULL, err);
}

static double base_of(const gyre_encoding *encoding) {
    return gyre_encoding_rotates(encoding) ? gyre_encoding_get_config(encoding)->rope.base : 0;
}

gyre_status gyre_network_create_base_groups(gyre_network *n, const gyre_model_config *config, gyre_encoding *encoding,
                                            gyre_error *err) {
    n->borrowed = n->group[0].encoding = encoding;
    n->group[0].shares_main = n->groups = 1;
    for (int64_t layer = 0; config->layer_bases && layer < config->layers; layer++) {
        int g = 0;
        while (g < n->groups && base_of(n->group[g].encoding) != config->layer_bases[layer])
            g++;
        n->layer[layer].group = g;
        if (g < n->groups) continue;
        const gyre_status status = create_base_group(config, config->layer_bases[layer], &n->group[n->groups++], err);
        if (status) return status;
    }
    return GYRE_OK;
}
