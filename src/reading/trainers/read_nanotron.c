/* read_nanotron.c: rotations of nanotron (April 2026): the config of the model in its YAML. */
#include "reading/family.h"
#include "reading/trainers/trainer_rope.h"

#include <inttypes.h>

static int is_nth(const void *context, int64_t layer) {
    return (layer + 1) % *(const int64_t *)context == 0;
}

void gyre_read_nanotron(const gyre_settings *settings, const gyre_scope *root) {
    const gyre_scope model = gyre_scope_child(root, "model"), config = gyre_scope_child(&model, "model_config"),
                     *s = &config;
    const int is_qwen = gyre_scope_bool(s, "is_qwen2_config", 0),
              is_starcoder = gyre_scope_bool(s, "is_starcoder2_config", 0);
    if (!is_qwen && !is_starcoder && !gyre_scope_bool(s, "is_llama_config", 0)) {
        gyre_scope_fail(s, GYRE_EFORMAT, "is_llama_config",
                        "missing, and is_qwen2_config and is_starcoder2_config too: the model of nanotron is unknown");
        return;
    }
    if (is_starcoder && !gyre_scope_bool(s, "use_rotary_embeddings", 1)) {
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "use_rotary_embeddings", "false: a learned table, which is not read");
        return;
    }
    gyre_layer_group *group = gyre_trainer_group(s, "all");
    gyre_trainer_head(s, group, NULL, "hidden_size", "num_attention_heads");
    const int beside = !is_starcoder && gyre_scope_bool(s, "rope_interleaved", 0);
    gyre_trainer_layout(s, group, beside ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF,
                        is_starcoder ? NULL : "rope_interleaved");
    gyre_trainer_base(s, group, "rope_theta");
    gyre_trainer_length(s, group, "max_position_embeddings");
    if (gyre_scope_value(s, "rope_scaling"))
        gyre_scope_warn(s, "rope_scaling", "rope_scaling: no model of nanotron reads it");
    static const char interpolation[] = "rope_seq_len_interpolation_factor", still[] = "no_rope_layer";
    if (is_qwen && gyre_scope_value(s, interpolation)) {
        gyre_trainer_scaling(s, group, GYRE_SCALING_LINEAR, interpolation, NULL);
        (void)gyre_trainer_factor(s, group, interpolation, 1.0);
    } else {
        gyre_trainer_scaling(s, group, GYRE_SCALING_NONE, NULL, NULL);
    }
    const int64_t nth = is_qwen && gyre_scope_value(s, still) ? gyre_trainer_integer(s, group, NULL, still, 1, 0) : 0;
    const int64_t layers = gyre_trainer_integer(s, group, NULL, "num_hidden_layers", 0, 0);
    gyre_trainer_layers(s, group, layers, nth > 0 ? is_nth : NULL, &nth);
    gyre_build_sort_groups(s->source->build);
    gyre_warn_unread_keys(root->source, settings->root);
}
