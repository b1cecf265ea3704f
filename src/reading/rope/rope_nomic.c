/* rope_nomic.c: the keys of Nomic's own BERT class: a base of its own, and dynamic NTK beyond the trained length. */
#include "reading/rope/read_rope.h"

#include <string.h>

static const char factor_key[] = "rotary_scaling_factor", trained_key[] = "max_trained_positions";
enum { TRAINED_POSITIONS = 2048 }; /* of the class */

/* Engines leave the scaling out.  vLLM then serves no more than the trained length. */
static int leaves_it_out(const gyre_rope_source *source, gyre_profile profile) {
    if (!gyre_profile_is_engine(profile)) return 0;
    gyre_scope_doubt(&source->root, GYRE_WARNING_UNREAD_KEY, factor_key,
                     "%s: %s does not read it, and rotates as trained at every length", factor_key,
                     gyre_profile_program(profile));
    if (gyre_scope_value(&source->root, trained_key) && gyre_profile_is_vllm(profile))
        gyre_scope_warn(&source->root, trained_key, "%s: vLLM serves no more unless another length is asked for",
                        trained_key);
    return 1;
}

int gyre_rope_read_nomic(const gyre_rope_source *source, gyre_layer_group *group) {
    const gyre_scope *root = &source->root;
    gyre_build *build = gyre_rope_build_of(source);
    const gyre_profile profile = gyre_build_profile(build);
    if (strcmp(source->family->model_type, "nomic_bert") != 0 || !gyre_scope_value(root, factor_key)) return 0;
    if (leaves_it_out(source, profile)) return 0;
    const double factor = gyre_scope_number(root, factor_key, 1.0);
    const int64_t trained = gyre_rope_read_length(root, trained_key, TRAINED_POSITIONS);
    const gyre_place place = gyre_scope_place(root, factor_key);
    const gyre_rope_provenance found = gyre_scope_value(root, trained_key)
                                           ? gyre_rope_provenance_of(source, root, trained_key)
                                           : (gyre_rope_provenance){GYRE_ORIGIN_FAMILY, {NULL, 0, 0}};
    if (!(factor >= 1.0)) gyre_scope_fail(root, GYRE_EFORMAT, factor_key, "%g is below 1", factor);
    if (gyre_profile_is_hf(profile))
        gyre_scope_warn(root, factor_key,
                        "%s: a key of the model's own code, which is read here; the class of transformers does not read it",
                        factor_key);
    group->config.rope.scaling = GYRE_SCALING_DYNAMIC_NTK;
    group->config.rope.factor = factor;
    gyre_build_set_field(build, group, "scaling", GYRE_ORIGIN_FILE, &place,
                         "Nomic's own code: dynamic NTK beyond the trained length", "dynamic");
    gyre_build_set_number(build, group, "factor", GYRE_ORIGIN_FILE, &place, NULL, factor);
    gyre_rope_set_trained_length(source, group, trained, &found, NULL);
    gyre_rope_derive_attention_factor(source, group, 1.0, 0);
    return 1;
}
