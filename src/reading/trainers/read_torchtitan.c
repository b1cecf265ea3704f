/* read_torchtitan.c: rotations of torchtitan (August 2026).  Its YaRN turns without an attention factor. */
#include "reading/family.h"
#include "reading/trainers/trainer_rope.h"

#include <string.h>

static void read_llama(const gyre_scope *s, gyre_layer_group *group) {
    struct gyre_rope_config *rope = &group->config.rope;
    if (rope->layout == GYRE_LAYOUT_HALF)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "scaling", "\"llama\"; torchtitan's CosSinRoPE refuses it");
    gyre_trainer_scaling(s, group, GYRE_SCALING_LLAMA3, "scaling", NULL);
    (void)gyre_trainer_factor(s, group, "scaling_factor", 8.0);
    rope->low_freq = gyre_trainer_number(s, group, "low_freq_factor", "low_freq_factor", 1.0);
    rope->high_freq = gyre_trainer_number(s, group, "high_freq_factor", "high_freq_factor", 4.0);
    if (!(rope->low_freq > 0.0 && rope->high_freq > rope->low_freq))
        gyre_scope_fail(s, GYRE_EFORMAT, "high_freq_factor", "%g is not above low_freq_factor, %g", rope->high_freq,
                        rope->low_freq);
    gyre_trainer_original(s, group, "original_max_position_embeddings", 8192);
}

static void read_yarn(const gyre_scope *s, gyre_layer_group *group) {
    gyre_trainer_scaling(s, group, GYRE_SCALING_BY_PARTS, "scaling",
                         "yarn without its attention factor: a model may put that into its scores, beside the rotation");
    (void)gyre_trainer_factor(s, group, "rope_factor", 1.0);
    gyre_trainer_ramp(s, group, "beta_fast", "beta_slow");
    gyre_trainer_original(s, group, "original_seq_len", 4096);
    group->config.rope.fractional_bounds = !gyre_scope_bool(s, "truncate", 1);
}

static void read_call(const gyre_scope *root, const char *name) {
    const gyre_scope call = gyre_scope_child(root, name), *s = &call;
    gyre_layer_group *group = gyre_trainer_group(s, name);
    gyre_trainer_head(s, group, "dim", "dim", "dim");
    gyre_trainer_layout(s, group, gyre_scope_bool(s, "interleaved", 0) ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF, NULL);
    gyre_trainer_base(s, group, "theta");
    gyre_trainer_length(s, group, "max_context_length");
    const char *scaling = gyre_scope_string(s, "scaling", "none");
    if (strcmp(scaling, "none") == 0)
        gyre_trainer_scaling(s, group, GYRE_SCALING_NONE, "scaling", NULL);
    else if (strcmp(scaling, "llama") == 0)
        read_llama(s, group);
    else if (strcmp(scaling, "yarn") == 0)
        read_yarn(s, group);
    else
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "scaling", "\"%.40s\" is not known: none, llama or yarn", scaling);
}

void gyre_read_torchtitan(const gyre_settings *settings, const gyre_scope *root) {
    const char *name;
    json_t *value;
    json_object_foreach(settings->root, name, value) read_call(root, name);
    gyre_warn_unread_keys(root->source, settings->root);
}
