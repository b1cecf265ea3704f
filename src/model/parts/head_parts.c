#include "model/parts/head_parts.h"
#include "core/encoding.h"
#include "util/error.h"

#include <math.h>
#include <string.h>

static const gyre_head_part *const parts[] = {
#define GYRE_HEAD_PART(name, key, option, acts, channels, note) &gyre_head_part_##name,
#include "core/config/head_parts.def"
#undef GYRE_HEAD_PART
    NULL};
enum {
    PARTS = 0
#define GYRE_HEAD_PART(name, key, option, acts, channels, note) +1
#include "core/config/head_parts.def"
#undef GYRE_HEAD_PART
};

/* -- the list -- */
const gyre_head_part *gyre_head_part_at(int i) {
    return i >= 0 && i < PARTS ? parts[i] : NULL;
}

const gyre_head_part *gyre_head_part_of(int64_t layer_parts) {
    const gyre_head_part *const *part = parts;
    while (*part && !(layer_parts & (*part)->part))
        part++;
    return *part;
}

int64_t gyre_head_parts_all(void) {
    int64_t all = 0;
    for (int i = 0; i < PARTS; i++)
        all |= parts[i]->part | parts[i]->option;
    return all;
}

/* 1: `name` has `end` after its layer and before .weight. */
static int is_named(const char *name, const char *end) {
    const size_t length = strlen(name), own = strlen(end), suffix = strlen(".weight");
    return length > own + suffix && name[length - suffix - own - 1] == '.' &&
           memcmp(name + length - suffix - own, end, own) == 0 && strcmp(name + length - suffix, ".weight") == 0;
}

const gyre_head_part *gyre_head_part_of_tensor(const char *name) {
    for (int i = 0; i < PARTS; i++)
        for (int t = 0; t < GYRE_PART_TENSORS && parts[i]->tensors[t].name; t++)
            if (is_named(name, parts[i]->tensors[t].name)) return parts[i];
    return NULL;
}

int gyre_layer_part_variant_at(int i, gyre_layer_part_variant *out) {
    for (int p = 0; p < PARTS && i >= 0; p++)
        for (int v = 0; v < GYRE_PART_VARIANTS && parts[p]->variants[v].name; v++)
            if (i-- == 0) {
                *out = parts[p]->variants[v];
                out->channel_factor = gyre_channel_factor(parts[p]->part);
                return 1;
            }
    return 0;
}

double gyre_parts_scale(int64_t layer_parts, int64_t head_dim) {
    return gyre_channel_factor(layer_parts) > 1 ? 1 / sqrt((double)head_dim) : 0;
}

/* -- what parts need -- */
int gyre_rotation_is_plain(const gyre_encoding *encoding) {
    const gyre_config *p = gyre_encoding_get_config(encoding);
    const struct gyre_rope_config *rope = &p->rope;
    return gyre_encoding_rotates(encoding) && gyre_axes_of(encoding) == 1 && rope->scaling == GYRE_SCALING_NONE &&
           !p->rope.axis[0].own && !p->rope.diffusion.timed && p->rope.clip.mode == GYRE_CLIP_NONE && !rope->far &&
           rope->xpos_base == 0 && !rope->clockwise && (rope->attention_factor == 0 || rope->attention_factor == 1) &&
           p->query.temperature == GYRE_TEMPERATURE_NONE;
}

static gyre_status check_rotation(const gyre_head_part *part, const gyre_model_config *c, const gyre_encoding *encoding,
                                  gyre_error *err) {
    const struct gyre_rope_config *rope = &c->position.rope;
    const int rotates = gyre_encoding_rotates(encoding) && !c->rotates_input && rope->first_channel == 0 &&
                        rope->layout != GYRE_LAYOUT_INTERLEAVED_TO_HALF;
    const int64_t channels = gyre_channel_factor(c->layer_parts) * c->head_dim;
    if ((part->needs & GYRE_PART_NEEDS_PLAIN) && (!rotates || !gyre_rotation_is_plain(encoding)))
        return gyre_fail(
            err, GYRE_EINVAL,
            "layer_parts: %s needs a plain rotation: what the layers train takes its place, so no method changes "
            "it (model)",
            part->facts->key);
    if (rotates && (!(part->needs & GYRE_PART_NEEDS_WHOLE) || rope->dim == channels)) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "layer_parts: %s needs a rotation of all channels of queries and keys (model)",
                     part->facts->key);
}

gyre_status gyre_head_part_check(const gyre_model_config *c, const gyre_encoding *encoding, gyre_error *err) {
    const gyre_head_part *own = gyre_head_part_of(c->layer_parts);
    for (int i = 0; i < PARTS; i++) {
        const gyre_head_part *part = parts[i];
        if (part != own && (c->layer_parts & part->part))
            return gyre_fail(err, GYRE_EINVAL, "layer_parts: %s and %s both make queries and keys (model)", own->facts->key,
                             part->facts->key);
        if (part != own && (c->layer_parts & part->option))
            return gyre_fail(err, GYRE_EINVAL, "layer_parts: %s needs %s (model)", part->facts->option, part->facts->key);
    }
    if (!own) return GYRE_OK;
    const gyre_status status = check_rotation(own, c, encoding, err);
    return status || !own->check ? status : own->check(c, encoding, err);
}
