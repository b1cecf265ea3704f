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
    config.head_dim = a->head_dim; /* a reading may have the rotated channels of latents alone */
    config.input.dim = a->model_dim;
    to->scale = from->scale;
    to->window = a->chunked ? 0 : from->window;
    to->chunk = a->chunked ? from->window : 0;
    const gyre_status status = gyre_encoding_create(&to->encoding, &config, NULL, &why);
    if (!status) return GYRE_OK;
    return gyre_fail(err, status == GYRE_EINVAL ? GYRE_EFORMAT : status, "%s (%s)", why.text, n->reading->path);
}

/* 1 if both encodings rotate alike.  Gemma 2's local and global layers do.  Gemma 3's local layers do not, and keep
 * their own encoding when the global ones are extended. */
static int same_positions(const gyre_encoding *a, const gyre_encoding *b) {
    const gyre_config *c = gyre_encoding_get_config(a), *d = gyre_encoding_get_config(b);
    const int64_t pairs = c->rope.dim / 2;
    double one, other, x[MAX_PAIRS], y[MAX_PAIRS];
    if (a == b) return 1;
    if (!gyre_encoding_rotates(a) || !gyre_encoding_rotates(b) || c->rope.dim != d->rope.dim ||
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

gyre_status gyre_network_create_groups(gyre_network *n, gyre_error *err) {
    const gyre_reading *reading = n->reading;
    for (int64_t layer = 0; layer < n->arch.layers; layer++)
        n->layer[layer].group = reading->groups_count == 1 && reading->groups[0]->layers_count == 0 ? 0 : -1;
    for (int64_t g = 0; g < reading->groups_count; g++) {
        const gyre_layer_reading *from = reading->groups[g];
        if (n->arch.vision_tower && strcmp(from->name, "vision") == 0) continue;
        const gyre_status status = create_group(n, from, &n->group[n->groups], err);
        if (status) return status;
        for (int64_t i = 0; i < from->layers_count; i++)
            if (from->layers[i] < n->arch.layers) n->layer[from->layers[i]].group = n->groups;
        n->groups++;
    }
    choose_main_group(n);
    for (int64_t layer = 0; layer < n->arch.layers; layer++)
        if (n->layer[layer].group < 0)
            return gyre_fail(err, GYRE_EUNSUPPORTED, "layer %lld: its positions are not in the reading of %s",
                             (long long)layer, reading->path);
    return GYRE_OK;
}
