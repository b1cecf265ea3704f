/* convert_target.c: what the result is: its family, its layout of pairs and its rotation. */
#include "convert/conversion.h"
#include "model/architecture/architecture_families.h"
#include "reading/gguf/gguf_source.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

/* -- family -- */
/* What llama.cpp's converter makes of a model_type, and the way back: the first row with that architecture. */
static const struct {
    const char *model_type, *architecture;
} families[] = {{"llama", "llama"}, {"mistral", "llama"}, {"gyre", "llama"}, {"qwen2", "qwen2"}, {"qwen3", "qwen3"}};
enum { FAMILIES = sizeof families / sizeof *families };

static gyre_status set_family(gyre_conversion *c, gyre_error *err) {
    const gyre_convert_source *s = &c->source;
    const int from_gguf = s->kind == GYRE_SOURCE_GGUF, to_gguf = c->options->format == GYRE_MODEL_FORMAT_GGUF;
    const char *source_family = s->reading ? s->reading->model_type : "llama";
    c->family = source_family;
    if (from_gguf == to_gguf) return GYRE_OK;
    for (int i = 0; i < FAMILIES; i++)
        if (strcmp(source_family, from_gguf ? families[i].architecture : families[i].model_type) == 0) {
            c->family = from_gguf ? families[i].model_type : families[i].architecture;
            c->names = (from_gguf ? gyre_family_row_of(c->family) : gyre_family_row_of_gguf(c->family))->names;
            return GYRE_OK;
        }
    return gyre_fail(err, GYRE_EUNSUPPORTED,
                     "%s: this family is not converted to %s; llama, mistral, qwen2 and qwen3 are (%s)", source_family,
                     to_gguf ? "GGUF" : "safetensors", c->source.path);
}

/* -- layout of pairs -- */
static gyre_layout layout_of_gguf(const char *architecture) {
    const gyre_gguf_architecture *known = gyre_gguf_architecture_named(architecture);
    return known && known->pairs != GYRE_GGUF_NORM ? GYRE_LAYOUT_HALF : GYRE_LAYOUT_INTERLEAVED;
}

/* out = the layout that readers of the result expect.  Used unless the options ask for another. */
static gyre_layout default_layout(const gyre_conversion *c) {
    const int from_gguf = c->source.kind == GYRE_SOURCE_GGUF;
    if (c->options->format == GYRE_MODEL_FORMAT_GGUF) return from_gguf ? c->declared_layout : layout_of_gguf(c->family);
    return c->source.kind == GYRE_SOURCE_FOLDER ? c->declared_layout : GYRE_LAYOUT_HALF;
}

/* Changes the family of a config.json to one that expects the layout asked for. */
static gyre_status change_class(gyre_conversion *c, gyre_error *err) {
    const gyre_layer_reading *rotation = gyre_convert_source_rotation(&c->source);
    const int is_llama = strcmp(c->family, "llama") == 0 || strcmp(c->family, "mistral") == 0;
    if (c->options->format == GYRE_MODEL_FORMAT_GGUF)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "layout: a GGUF has no key for pairs other than those of a %s, %s (%s)",
                         c->family, layout_of_gguf(c->family) == GYRE_LAYOUT_HALF ? "half" : "interleaved", c->source.path);
    if ((!is_llama && strcmp(c->family, "gyre") != 0) || (rotation && rotation->window > 0))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "layout: the config.json of a %s%s has no key for other pairs (%s)",
                         c->family, rotation && rotation->window > 0 ? " with a window" : "", c->source.path);
    c->family = c->to == GYRE_LAYOUT_HALF ? "llama" : "gyre";
    return GYRE_OK;
}

static int64_t served_length(const gyre_layer_reading *group) {
    for (int64_t i = 0; i < group->fields_count; i++)
        if (strcmp(group->fields[i].name, "max_length") == 0) return strtoll(group->fields[i].value, NULL, 10);
    return group->config.trained_length;
}

/* -- rotation -- */
static gyre_status set_rotation(gyre_conversion *c, gyre_error *err) {
    const gyre_convert_options *o = c->options;
    const gyre_layer_reading *rotation = gyre_convert_source_rotation(&c->source);
    const int known = rotation || c->source.kind == GYRE_SOURCE_LLAMA2C;
    gyre_config config = GYRE_INIT(gyre_config);
    int tied;
    if (!known || (rotation && rotation->config.rope.layout == GYRE_LAYOUT_INTERLEAVED_TO_HALF)) {
        if (o->layout || o->source_layout)
            return gyre_fail(err, GYRE_EUNSUPPORTED, "layout: the layers of this model have no pairs of one kind (%s)",
                             c->source.path);
        return GYRE_OK;
    }
    c->declared_layout = rotation ? rotation->config.rope.layout : GYRE_LAYOUT_INTERLEAVED;
    c->from = o->source_layout ? *o->source_layout : c->declared_layout;
    c->to = o->layout ? *o->layout : default_layout(c);
    config = rotation ? rotation->config : gyre_llama2c_config(c->source.checkpoint, &tied).position;
    if (!rotation) {
        config.head_dim = c->source.arch.head_dim;
        config.heads = c->source.arch.heads;
    }
    c->length = rotation ? served_length(rotation) : config.trained_length;
    const int needs_other_class =
        c->names || c->source.kind == GYRE_SOURCE_LLAMA2C ? c->to != default_layout(c) : c->to != c->declared_layout;
    const gyre_status status = needs_other_class ? change_class(c, err) : GYRE_OK;
    if (status) return status;
    config.rope.layout = c->to;
    return gyre_encoding_create(&c->encoding, &config, NULL, err);
}

gyre_status gyre_convert_set_target(gyre_conversion *c, gyre_error *err) {
    const gyre_status status = set_family(c, err);
    return !status ? set_rotation(c, err) : status;
}
