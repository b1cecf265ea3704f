/* rope_clip.c: clipped RoPE (arXiv 2602.05258), which its authors' class of Llama reads from two flags. */
#include "core/config/config_names.h"
#include "reading/rope/read_rope.h"
#include "reading/scaling_traits.h"

static const char soft_key[] = "use_cope", hard_key[] = "use_hardclip";

/* out = the key that counts: use_cope has precedence over use_hardclip; NULL if neither is true. */
static const char *key_of(const gyre_scope *root) {
    if (gyre_scope_bool(root, soft_key, 0)) return soft_key;
    return gyre_scope_bool(root, hard_key, 0) ? hard_key : NULL;
}

void gyre_rope_read_clip(const gyre_rope_source *source, gyre_layer_group *group) {
    const char *key = key_of(&source->root);
    struct gyre_clip_config *clip = &group->config.rope.clip;
    if (!key) return;
    const gyre_place place = gyre_scope_place(&source->root, key);
    clip->mode = key == soft_key ? GYRE_CLIP_SOFT : GYRE_CLIP_HARD;
    clip->pairs = 20;
    gyre_build_set_field(gyre_rope_build_of(source), group, "clip", GYRE_ORIGIN_FILE, &place,
                         "clipped RoPE, arXiv 2602.05258; not the CoPE that counts positions by content", "%s",
                         gyre_clip_name(clip->mode));
    gyre_build_set_number(gyre_rope_build_of(source), group, "clip_pairs", GYRE_ORIGIN_READER, &place,
                          "a constant of the released code", (double)clip->pairs);
}

void gyre_rope_warn_clip(const gyre_scope *root) {
    const char *key = key_of(root);
    if (!key) return;
    gyre_scope_warn(root, key, "%s: %s has no clipped RoPE", key,
                    gyre_profile_program(gyre_build_profile(root->source->build)));
}
