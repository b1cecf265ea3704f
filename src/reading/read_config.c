/* read_config.c: reads a config.json: which family it is, and which object describes the decoder. */
#include "reading/family.h"
#include "util/plain_numbers.h"
#include "util/suggest.h"

#include <stdio.h>
#include <string.h>

/* -- an unknown name -- */
static const char *closest_model_type(const char *type) {
    const gyre_family *family;
    /* Two edits are most of a short name. */
    gyre_suggestion best = {NULL, strlen(type) < 6 ? 2 : GYRE_SUGGEST_LIMIT};
    for (size_t i = 0; (family = gyre_family_at(i)) != NULL; i++)
        gyre_suggest(&best, type, family->model_type);
    return best.name;
}

/* Keys that only a model with a rotation has. */
static const char *rotation_key(const gyre_scope *s) {
    static const char *const keys[] = {"rope_theta",
                                       "rope_scaling",
                                       "rope_parameters",
                                       "partial_rotary_factor",
                                       "rotary_pct",
                                       "rotary_emb_base",
                                       "rotary_dim",
                                       "qk_rope_head_dim",
                                       "rope_local_base_freq",
                                       "global_rope_theta",
                                       "rope_ratio",
                                       "layer_rope_theta",
                                       "partial_rotary_factors",
                                       "no_rope_layers",
                                       "mla_use_nope",
                                       NULL};
    return gyre_scope_sees(s, keys);
}

/* An unknown class is most likely modelled on Llama.  If only a fraction of the head rotates, the file says so. */
static const gyre_family like_llama = {"llama", gyre_read_rope, 0, 0, 0, 0, GYRE_LAYOUT_HALF, 0};
/* One whose heads have a part that rotates and one that does not is most likely modelled on DeepSeek. */
static const gyre_family like_deepseek = {"deepseek_v3", gyre_read_rope, 0, 0, 0, 0, GYRE_LAYOUT_INTERLEAVED_TO_HALF,
                                          GYRE_MLA};

static void read_unknown(const gyre_scope *s, const char *type) {
    if (*type && gyre_read_tower_alone(s)) return;
    static const char *const layout_keys[] = {"rope_interleave", "rope_interleaved", "rotary_emb_interleaved", NULL};
    static const char *const part[] = {"qk_rope_head_dim", NULL};
    const int is_latent = gyre_scope_sees(s, part) != NULL;
    const gyre_family *like = is_latent ? &like_deepseek : &like_llama;
    const char *key = is_latent ? part[0] : rotation_key(s), *near = closest_model_type(type);
    const char *layout = gyre_scope_sees(s, layout_keys) ? ""
                         : is_latent                     ? "; its layout of pairs, interleaved-to-half, is assumed"
                                                         : "; its layout of pairs, half, is assumed";
    char hint[100] = "";
    if (near && *type) snprintf(hint, sizeof hint, " (did you mean \"%s\"?)", near);
    if (key) {
        if (*type)
            gyre_scope_doubt(s, GYRE_WARNING_ASSUMED, "model_type",
                             "model_type: \"%.60s\" is not known%s; read as a %s, because of %s%s", type, hint,
                             like->model_type, key, layout);
        else
            gyre_scope_doubt(s, GYRE_WARNING_ASSUMED, key, "model_type: missing; read as a %s, because of %s%s",
                             like->model_type, key, layout);
        gyre_read_rope(like, s);
        return;
    }
    gyre_scope_fail(s, *type ? GYRE_EUNSUPPORTED : GYRE_EFORMAT, "model_type",
                    "%s%.60s%s%s, and the config has no rope_theta, rope_scaling, rope_parameters, partial_rotary_factor, "
                    "rotary_dim or rotary_pct",
                    *type ? "\"" : "missing", type, *type ? "\" is not known" : "", hint);
}

/* -- models within models -- */
/* Composite models describe their decoder in one of these objects.  The first one that exists is taken. */
static int decoder_scope(const gyre_scope *root, gyre_scope *out) {
    static const char *const keys[] = {"text_config",    "llm_config", "language_config", "thinker_config", "decoder",
                                       "decoder_config", NULL};
    for (int i = 0; keys[i]; i++) {
        if (!json_is_object(gyre_scope_value(root, keys[i]))) continue;
        *out = gyre_scope_child(root, keys[i]);
        gyre_scope inner;
        if (strcmp(keys[i], "thinker_config") == 0 && decoder_scope(out, &inner)) *out = inner;
        return 1;
    }
    return 0;
}

/* Models without a decoder, whose outer object has no rotation, describe their encoder in one of these objects. */
static int encoder_scope(const gyre_scope *root, gyre_scope *out) {
    static const char *const keys[] = {"encoder_config", "audio_config", "asr_config", NULL};
    const char *key = rotation_key(root) ? NULL : gyre_scope_first(root, keys);
    if (!key || !json_is_object(gyre_scope_value(root, key))) return 0;
    *out = gyre_scope_child(root, key);
    return gyre_family_of(gyre_scope_string(out, "model_type", "")) || rotation_key(out);
}

/* The parts of a BLT are four models of different sizes. */
static void warn_of_other_parts(const gyre_scope *root) {
    static const char *const keys[] = {"global_config", "encoder_config", "patcher_config", NULL};
    if (strcmp(gyre_scope_string(root, "model_type", ""), "blt") != 0) return;
    for (int i = 0; keys[i]; i++)
        if (gyre_scope_value(root, keys[i]))
            gyre_scope_warn(root, keys[i], "%s: rotates too, and its layers and heads are not described", keys[i]);
}

/* The decoder's own type; else "OUTER_text"; else the outer type. */
static const gyre_family *decoder_family(const gyre_scope *root, const gyre_scope *text, const char **type) {
    char name[100];
    const char *outer = gyre_scope_string(root, "model_type", "");
    *type = gyre_scope_string(text, "model_type", "");
    const gyre_family *family = gyre_family_of(*type);
    if (family || **type) return family;
    *type = outer;
    gyre_plain_snprintf(name, sizeof name, "%.90s_text", outer);
    family = gyre_family_of(name);
    return family ? family : gyre_family_of(outer);
}

/* Nothing reads rotary keys beside text_config. */
static void warn_of_outer_keys(const gyre_scope *root, const gyre_scope *text) {
    static const char *const keys[] = {"rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor", NULL};
    for (int i = 0; keys[i]; i++)
        if (gyre_scope_value(root, keys[i]))
            gyre_scope_warn(root, keys[i], "%s: not read; the decoder is described in %.*s", keys[i],
                            (int)(strlen(text->prefix) - 1), text->prefix);
}

/* -- the file -- */
static void read_tower(const gyre_scope *root) {
    static const char *const keys[] = {"vision_config", NULL};
    if (!json_is_object(gyre_scope_value(root, keys[0]))) return;
    const gyre_scope vision = gyre_scope_child(root, keys[0]);
    gyre_read_vision(&vision);
}

void gyre_read_config_json(const gyre_json_source *source, const json_t *root) {
    const gyre_scope s = {source, root, ""};
    const char *type = gyre_scope_string(&s, "model_type", "");
    const gyre_family *family = gyre_family_of(type);
    gyre_scope text;
    if (!*type && gyre_read_diffusers(&s)) return;
    gyre_build_set_model_type(source->build, type);
    if (gyre_scope_value(&s, "text_config")) (void)gyre_scope_child(&s, "text_config"); /* fails if it is not an object */
    const int is_whole = family && !(family->traits & GYRE_TEXT_CONFIG) && family->read != gyre_read_rope;
    if (!is_whole && (decoder_scope(&s, &text) || (!family && encoder_scope(&s, &text)))) {
        warn_of_other_parts(&s);
        family = decoder_family(&s, &text, &type);
        warn_of_outer_keys(&s, &text);
        if (!*gyre_scope_string(&s, "model_type", "")) gyre_build_set_model_type(source->build, type);
    } else {
        text = s;
    }
    if (family)
        family->read(family, &text);
    else
        read_unknown(&text, type);
    read_tower(&s);
}
