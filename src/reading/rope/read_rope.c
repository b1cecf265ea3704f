/* read_rope.c: rotations: what all programs agree on, for each kind of layer, and dispatch to the profile's reader. */
#include "reading/rope/read_rope.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const gyre_place nowhere = {NULL, 0, 0};

static gyre_rope_provenance found_at(const gyre_scope *s, const char *key) {
    return (gyre_rope_provenance){GYRE_ORIGIN_FILE, gyre_scope_place(s, key)};
}

/* -- the size of a head -- */
/* Families whose sliding or full layers have their own head size. */
static const char *head_dim_key(const gyre_rope_source *source, int sliding) {
    static const char *const names[] = {"head_dim", "kv_channels", "attention_head_dim", "q_head_dim", NULL};
    const char *special = sliding ? "swa_head_dim" : "global_head_dim";
    if (gyre_scope_value(&source->root, special) && (source->family->traits & GYRE_DUAL_BASE)) return special;
    return gyre_scope_first(&source->root, names);
}

/* The class's model_dim over heads, for files that state neither, such as LLaVA's text_config. */
static int64_t class_head_dim(const gyre_family *family) {
    static const struct {
        const char *family;
        int64_t head;
    } heads[] = {{"llama", 128},   {"mistral", 128}, {"mixtral", 128}, {"qwen2", 128},      {"qwen2_vl", 128},
                 {"phi3", 96},     {"phi", 64},      {"gpt_neox", 96}, {"gptj", 256},       {"codegen", 256},
                 {"cohere", 128},  {"stablelm", 80}, {"olmo2", 128},   {"starcoder2", 128}, {"qwen2_5_vl", 128},
                 {"roformer", 64}, {"granite", 128}};
    /* A model that is only assumed to be a llama has no known class. */
    if (family != gyre_family_of(family->model_type)) return 0;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (strcmp(heads[i].family, family->model_type) == 0) return heads[i].head;
    return 0;
}

static int64_t derived_head_dim(const gyre_rope_source *source, gyre_rope_provenance *found) {
    const gyre_scope *root = &source->root;
    const char *width_key = gyre_rope_model_dim_key(root), *heads_key = gyre_rope_heads_key(root);
    if (!width_key && !heads_key && class_head_dim(source->family) > 0) {
        *found = (gyre_rope_provenance){GYRE_ORIGIN_FAMILY, nowhere};
        return class_head_dim(source->family);
    }
    *found = (gyre_rope_provenance){GYRE_ORIGIN_DERIVED, nowhere};
    if (!width_key || !heads_key) {
        gyre_scope_fail(root, GYRE_EFORMAT, width_key ? "num_attention_heads" : "hidden_size",
                        "missing, and head_dim too: the size of a head is unknown");
        return 2;
    }
    const int64_t width = gyre_scope_integer(root, width_key, 1, 1), heads = gyre_scope_integer(root, heads_key, 1, 1);
    if (width % heads != 0)
        gyre_scope_fail(root, GYRE_EFORMAT, heads_key,
                        "%" PRId64 " heads do not divide %s, %" PRId64 ", and head_dim is missing", heads, width_key, width);
    if (width / heads <= 65536) return width / heads;
    gyre_scope_fail(root, GYRE_EFORMAT, width_key, "%" PRId64 " channels per head; the most is 65536", width / heads);
    return 2;
}

/* Until 4.45, Llama's class divided model_dim by heads and ignored head_dim.  out = 0 if this does not apply. */
static int64_t old_llama_head_dim(const gyre_rope_source *source, const char *key, gyre_rope_provenance *found) {
    const gyre_scope *root = &source->root;
    const int is_llama = strcmp(source->family->model_type, "llama") == 0 && (source->family->traits & GYRE_WHOLE_HEAD);
    if (!gyre_profile_before(gyre_build_profile(gyre_rope_build_of(source)), 51) || !is_llama) return 0;
    if (!gyre_rope_model_dim_key(root) || !gyre_rope_heads_key(root)) return 0;
    const int64_t stated = gyre_rope_read_channels(root, key, 1, 1), head = derived_head_dim(source, found);
    if (stated != head)
        gyre_scope_warn(root, key,
                        "%s: transformers before 4.45 does not read it for a llama, but takes %" PRId64
                        ", the width divided by the heads",
                        key, head);
    return head;
}

/* out = the object of these layers in per_layer_config, for the places of its keys. */
static gyre_scope own_scope(const gyre_rope_source *source) {
    const gyre_scope all = gyre_scope_child(&source->root, "per_layer_config");
    return gyre_scope_child(&all, source->own.config_key);
}

/* Step's sliding layers may have heads of another size, in attention_other_setting.  transformers reads only their number.
 * out = 0 if the file does not say so. */
static int64_t head_dim_of_other(const gyre_rope_source *source, gyre_rope_provenance *found) {
    static const char setting[] = "attention_other_setting", type[] = "attention_type", size[] = "head_dim";
    if (!source->group_type || !json_is_object(gyre_scope_value(&source->root, setting))) return 0;
    const gyre_scope other = gyre_scope_child(&source->root, setting);
    if (strcmp(gyre_scope_string(&other, type, ""), source->group_type) != 0 || !gyre_scope_value(&other, size)) return 0;
    if (gyre_profile_is_hf(gyre_build_profile(gyre_rope_build_of(source)))) return 0;
    *found = found_at(&other, size);
    return gyre_rope_read_channels(&other, size, 1, 1);
}

static int64_t head_dim_of(const gyre_rope_source *source, int sliding, gyre_rope_provenance *found) {
    if (source->own.head_dim > 0) {
        const gyre_scope own = own_scope(source);
        *found = found_at(&own, "head_dim");
        return source->own.head_dim;
    }
    const int64_t of_other = head_dim_of_other(source, found);
    if (of_other > 0) return of_other;
    /* The class's default of global_head_dim. */
    if (!sliding && source->family->traits & GYRE_WIDE_FULL_LAYERS && !gyre_scope_has(&source->root, "global_head_dim") &&
        !gyre_scope_has(&source->root, "per_layer_config")) {
        *found = (gyre_rope_provenance){GYRE_ORIGIN_FAMILY, nowhere};
        return 512;
    }
    const char *key = head_dim_key(source, sliding);
    const int64_t old = key ? old_llama_head_dim(source, key, found) : 0;
    if (old > 0) return old;
    if (key) {
        *found = found_at(&source->root, key);
        return gyre_rope_read_channels(&source->root, key, 1, 1);
    }
    if (gyre_scope_has(&source->root, "head_dim"))
        gyre_scope_warn(&source->root, "head_dim",
                        "head_dim: null; with dynamic, yarn and longrope some classes of transformers fail on that, others "
                        "divide the width by the heads");
    else if (source->family->head_dim > 0) {
        *found = (gyre_rope_provenance){GYRE_ORIGIN_FAMILY, nowhere};
        return source->family->head_dim;
    }
    return derived_head_dim(source, found);
}

static void note_count(const gyre_rope_source *source, gyre_layer_group *group, const char *name,
                       const gyre_rope_provenance *found, const char *why, int64_t value) {
    gyre_build_set_number(gyre_rope_build_of(source), group, name, found->origin, &found->place, why, (double)value);
}

/* The sizes of the two parts of a head of latent attention.  head_dim in such a file may be either part or another size. */
typedef struct mla_head {
    int64_t still, turned;
    gyre_rope_provenance turned_from;
    int is_stated; /* both sizes are in the file */
} mla_head;

static mla_head read_mla_head(const gyre_rope_source *source) {
    static const char turned[] = "qk_rope_head_dim",
                      still[] = "qk_nope_head_dim", *const wholes[] = {"qk_head_dim", "q_head_dim", "head_dim", NULL};
    const gyre_scope *root = &source->root;
    const int64_t usual = source->family->head_dim > 0 ? source->family->head_dim : 64;
    mla_head head = {0, gyre_rope_read_channels(root, turned, 0, usual), {GYRE_ORIGIN_FAMILY, nowhere}, 0};
    if (gyre_scope_value(root, turned)) head.turned_from = found_at(root, turned);
    if (source->own.turned >= 0) {
        const gyre_scope own = own_scope(source);
        head.turned = source->own.turned;
        head.turned_from = found_at(&own, turned);
    }
    const char *key = gyre_scope_first(root, wholes);
    const int64_t whole = key && !gyre_scope_value(root, still) ? gyre_rope_read_channels(root, key, 0, 0) : 0;
    head.still = gyre_rope_read_channels(root, still, 0, whole > head.turned ? whole - head.turned : 2 * usual);
    if (source->own.still >= 0) head.still = source->own.still;
    head.is_stated = gyre_scope_value(root, still) != NULL;
    return head;
}

/* Latent attention: the first part of each head has no positions, the second part rotates. */
static void set_mla_head(const gyre_rope_source *source, gyre_layer_group *group) {
    const mla_head head = read_mla_head(source);
    const gyre_rope_provenance derived = {GYRE_ORIGIN_DERIVED, nowhere};
    if (head.turned % 2 != 0)
        gyre_build_fail(gyre_rope_build_of(source), GYRE_EFORMAT, &head.turned_from.place,
                        "%s: %" PRId64 " is odd; channels rotate in pairs",
                        head.turned_from.place.key ? head.turned_from.place.key : "qk_rope_head_dim", head.turned);
    group->config.head_dim = head.still + head.turned;
    group->config.rope.first_channel = head.still;
    group->config.rope.dim = head.turned;
    note_count(source, group, "head_dim", &derived, head.is_stated ? "qk_nope_head_dim and qk_rope_head_dim" : NULL,
               head.still + head.turned);
    note_count(source, group, "rotary_dim", &head.turned_from, head.still > 0 ? "the last channels of each head" : NULL,
               head.turned);
}

/* Classes of transformers modelled on Llama rotate whole heads and ignore the factor: version 5 if nothing is scaled.
 * The others compute too few angles for a head and stop. */
static double effective_partial_factor(const gyre_rope_source *source, gyre_rope_provenance *found, const char **why) {
    const gyre_profile profile = gyre_build_profile(gyre_rope_build_of(source));
    const double fraction = gyre_rope_read_partial_factor(source, found);
    const char *family = source->family->model_type;
    if (profile == GYRE_PROFILE_HF_5 && fraction != 1.0 && strcmp(family, "gpt_neox_japanese") == 0)
        gyre_build_fail(gyre_rope_build_of(source), GYRE_EUNSUPPORTED, &found->place,
                        "%s: %g; this class of transformers 5 fails on it", found->place.key, fraction);
    const int is_whole =
        (gyre_profile_is_hf(profile) || profile == GYRE_PROFILE_LLAMA_CPP) && (source->family->traits & GYRE_WHOLE_HEAD);
    const int is_whole_unscaled = profile == GYRE_PROFILE_HF_5 && strcmp(source->type, "default") == 0 &&
                                  (source->family->traits & GYRE_WHOLE_HEAD_UNSCALED);
    if (fraction == 1.0 || !(is_whole || is_whole_unscaled)) return fraction;
    if (gyre_profile_is_hf_4(profile) || (profile == GYRE_PROFILE_HF_5 && strcmp(source->type, "default") != 0)) {
        gyre_build_fail(
            gyre_rope_build_of(source), GYRE_EUNSUPPORTED, &found->place,
            "%s: %g; %s computes angles for that share of the head, but its %s class rotates the whole head and fails",
            found->place.key, fraction, gyre_profile_program(profile), source->family->model_type);
        return fraction;
    }
    *why = gyre_build_format(gyre_rope_build_of(source), "%s rotates whole heads of a %s and does not read it",
                             gyre_profile_program(profile), source->family->model_type);
    gyre_build_warn(gyre_rope_build_of(source), &found->place, "%s: %s", found->place.key, *why);
    return 1.0;
}

/* GPT-J's classes state how many channels rotate, not which fraction. */
static int64_t class_rotary_dim(const gyre_rope_source *source, int64_t head) {
    static const char *const families[] = {"gptj", "codegen", "minimax", "minimax_m2", "minimax_m3_vl", "minimax_m3_vl_text",
                                           NULL};
    /* The class of MiniMax-M2 in transformers rotates all. */
    if (gyre_profile_is_hf(gyre_build_profile(gyre_rope_build_of(source))) &&
        strcmp(source->family->model_type, "minimax_m2") == 0)
        return 0;
    if (gyre_scope_has(&source->root, "rotary_dim") || gyre_scope_value(&source->root, "partial_rotary_factor") ||
        gyre_scope_value(&source->dict, "partial_rotary_factor"))
        return 0;
    for (int i = 0; families[i]; i++)
        if (strcmp(families[i], source->family->model_type) == 0) return head < 64 ? head : 64;
    return 0;
}

/* transformers' classes of MiniMax rotate whole heads where only rotary_dim says otherwise: a defect.  The weights were
 * trained with rotary_dim, which other programs read. */
static int ignores_rotary_dim(const gyre_rope_source *source) {
    static const char key[] = "rotary_dim", *const families[] = {"minimax", "minimax_m3_vl", "minimax_m3_vl_text", NULL};
    if (!gyre_profile_is_hf(gyre_build_profile(gyre_rope_build_of(source)))) return 0;
    for (int i = 0; families[i]; i++) {
        if (strcmp(families[i], source->family->model_type) != 0) continue;
        if (gyre_scope_value(&source->root, key))
            gyre_scope_warn(
                &source->root, key,
                "%s: transformers does not read it for a %s, which was trained with it; the share of the head is "
                "partial_rotary_factor or all",
                key, families[i]);
        return 1;
    }
    return 0;
}

static void set_rotary_dim(const gyre_rope_source *source, const gyre_rope_provenance *of_head, gyre_layer_group *group) {
    gyre_rope_provenance found;
    const char *why = NULL, *dim_key = "rotary_dim";
    const int64_t head = group->config.head_dim;
    const int is_ignored = ignores_rotary_dim(source);
    int64_t dim;
    if (!is_ignored && gyre_scope_value(&source->root, dim_key)) {
        found = found_at(&source->root, dim_key);
        dim = gyre_scope_integer(&source->root, dim_key, 1, head);
        if (dim > head) gyre_scope_fail(&source->root, GYRE_EFORMAT, dim_key, "more than a head has, %" PRId64, head);
    } else if (!is_ignored && class_rotary_dim(source, head) > 0) {
        found = (gyre_rope_provenance){GYRE_ORIGIN_FAMILY, nowhere};
        dim = class_rotary_dim(source, head);
    } else {
        const double fraction = effective_partial_factor(source, &found, &why);
        /* Truncated, as by Python's int.  Other values have failed already. */
        dim = fraction > 0.0 && fraction <= 1.0 ? (int64_t)((double)head * fraction) : head;
        gyre_build_set_number(gyre_rope_build_of(source), group, "partial", found.origin, &found.place, why, fraction);
        found.origin = GYRE_ORIGIN_DERIVED;
    }
    const char *width = gyre_rope_model_dim_key(&source->root);
    const gyre_place of_width = width ? gyre_scope_place(&source->root, width) : nowhere;
    const gyre_place *place = found.place.key ? &found.place : of_head->place.key ? &of_head->place : &of_width;
    if (dim < 2 || dim % 2 != 0)
        gyre_build_fail(gyre_rope_build_of(source), GYRE_EFORMAT, place,
                        "%s: %" PRId64 " rotated channels of %" PRId64 " are not whole pairs",
                        place->key ? place->key : "head_dim", dim, head);
    group->config.rope.dim = dim;
    note_count(source, group, "rotary_dim", &found, NULL, dim);
}

static void set_head(const gyre_rope_source *source, int sliding, gyre_layer_group *group) {
    gyre_rope_provenance found;
    if (source->family->traits & GYRE_MLA) {
        set_mla_head(source, group);
        return;
    }
    const int64_t head = head_dim_of(source, sliding, &found);
    group->config.head_dim = head;
    note_count(source, group, "head_dim", &found, NULL, head);
    if (strcmp(source->type, "proportional") != 0) {
        set_rotary_dim(source, &found, group);
        return;
    }
    if (head % 2 != 0)
        gyre_build_fail(gyre_rope_build_of(source), GYRE_EFORMAT, &found.place, "head_dim: %" PRId64 " is odd", head);
    group->config.rope.dim = head;
    found.origin = GYRE_ORIGIN_DERIVED;
    note_count(source, group, "rotary_dim", &found, NULL, head);
}

/* -- layout, base, lengths -- */
static void set_layout(const gyre_rope_source *source, gyre_layer_group *group) {
    static const char *const names[] = {"half", "interleaved", "interleaved-to-half"};
    static const char *const keys[] = {"rope_interleave", "rotary_emb_interleaved", NULL};
    gyre_rope_provenance found = {GYRE_ORIGIN_FAMILY, nowhere};
    gyre_layout layout = source->family->layout;
    const char *key = gyre_scope_first(&source->root, keys);
    if (key) {
        const int pairs_beside = gyre_scope_bool(&source->root, key, 1);
        const gyre_layout paired = key == keys[0] ? GYRE_LAYOUT_INTERLEAVED_TO_HALF : GYRE_LAYOUT_INTERLEAVED;
        layout = pairs_beside ? paired : GYRE_LAYOUT_HALF;
        found = found_at(&source->root, key);
    }
    group->config.rope.layout = layout;
    gyre_build_set_field(gyre_rope_build_of(source), group, "layout", found.origin, &found.place, NULL, "%s", names[layout]);
    if (strcmp(source->family->model_type, "roformer") == 0 && gyre_scope_bool(&source->root, "rotary_value", 0))
        gyre_scope_warn(&source->root, "rotary_value", "rotary_value: values are rotated too, by the same angles");
    if (strncmp(source->family->model_type, "mistral_large4", 14) == 0)
        gyre_scope_warn(&source->root, "model_type",
                        "model_type: the weights of a %s multiply its frequencies by a learned factor, and its queries by "
                        "factors that grow with the logarithm of the position; the config has neither",
                        source->family->model_type);
    if (strcmp(source->family->model_type, "nanochat") != 0) return;
    group->config.rope.clockwise = 1;
    gyre_build_set_field(gyre_rope_build_of(source), group, "clockwise", GYRE_ORIGIN_FAMILY, NULL, NULL, "true");
}

static void set_base(const gyre_rope_source *source, int sliding, gyre_layer_group *group) {
    gyre_rope_provenance found;
    group->config.rope.base = gyre_rope_read_base(source, sliding, &found);
    gyre_build_set_number(gyre_rope_build_of(source), group, "base", found.origin, &found.place, NULL,
                          group->config.rope.base);
}

static void set_max_positions(gyre_rope_source *source, gyre_layer_group *group) {
    const char *key = gyre_rope_length_key(&source->root);
    const gyre_rope_provenance found =
        key ? found_at(&source->root, key) : (gyre_rope_provenance){GYRE_ORIGIN_FAMILY, nowhere};
    source->max_positions =
        key ? gyre_rope_read_length(&source->root, key, source->family->positions) : source->family->positions;
    group->config.trained_length = source->max_positions;
    if (source->max_positions > 0) note_count(source, group, "max_length", &found, NULL, source->max_positions);
}

/* -- one kind of layer -- */
/* Readers of other profiles are added here. */
static gyre_rope_profile_reader *profile_reader(gyre_profile profile) {
    if (profile == GYRE_PROFILE_REFERENCE) return gyre_rope_as_reference;
    if (gyre_profile_is_vllm(profile)) return gyre_rope_as_vllm;
    if (profile == GYRE_PROFILE_SGLANG) return gyre_rope_as_sglang;
    if (profile == GYRE_PROFILE_MLX_LM) return gyre_rope_as_mlx_lm;
    if (profile == GYRE_PROFILE_LLAMA_CPP) return gyre_rope_as_llama_cpp;
    return gyre_profile_is_hf(profile) ? gyre_rope_as_hf : NULL;
}

/* Step's files name the types of layers whose rotation is scaled.  transformers scales the full layers, whatever they
 * name. */
static int is_scaled_type(const gyre_family *family, const gyre_scope *root, const gyre_layer_kind *kind) {
    static const char key[] = "yarn_only_types", full[] = "full_attention";
    const json_t *names = gyre_scope_value(root, key), *name;
    const int is_step = strncmp(family->model_type, "step3p", 6) == 0,
              is_hf = gyre_profile_is_hf(gyre_build_profile(root->source->build));
    size_t i;
    if (is_step && (is_hf || !names)) return strcmp(kind->type, full) == 0;
    if (!json_is_array(names) || (!is_step && !gyre_family_is_assumed(family))) return 1;
    json_array_foreach((json_t *)names, i,
                       name) if (json_is_string(name) && strcmp(json_string_value(name), kind->type) == 0) return 1;
    return 0;
}

/* out = the part of the dict that applies to these layers. */
static gyre_scope dict_for_kind(const gyre_family *family, const gyre_scope *root, const gyre_rope_dict *dict,
                                const gyre_layer_kind *kind) {
    const gyre_scope none = {root->source, NULL, ""};
    /* ModernBERT has two bases, and scales both. */
    const int only_full = (family->traits & (GYRE_DUAL_BASE | GYRE_SCALING_FULL_ONLY)) != 0 &&
                          strncmp(family->model_type, "modernbert", 10) != 0;
    if (!dict->key) return none;
    if (!dict->nested) return (kind->sliding && only_full) || !is_scaled_type(family, root, kind) ? none : dict->scope;
    const char *entry = gyre_rope_entry_of(dict, kind->type);
    if (!gyre_scope_has(&dict->scope, entry)) {
        gyre_scope_fail(root, GYRE_EFORMAT, dict->key, "nothing for \"%.60s\" layers", entry);
        return none;
    }
    return gyre_scope_child(&dict->scope, entry);
}

static void read_layer_kind(const gyre_family *family, const gyre_scope *root, const gyre_rope_dict *dict,
                            const gyre_layer_kind *kind) {
    gyre_rope_source source = {family,
                               *root,
                               dict_for_kind(family, root, dict, kind),
                               dict->nested ? kind->type : NULL,
                               "default",
                               "rope_type",
                               0,
                               dict->nested,
                               dict->class_default != NULL,
                               kind->own,
                               kind->type};
    gyre_layer_group *group = kind->group;
    gyre_rope_profile_reader *as = profile_reader(gyre_build_profile(root->source->build));
    gyre_rope_find_type(&source);
    gyre_build_set_kind(root->source->build, group, "rope", NULL);
    set_layout(&source, group);
    set_head(&source, kind->sliding, group);
    set_base(&source, kind->sliding, group);
    set_max_positions(&source, group);
    if (gyre_build_status(root->source->build)) return;
    group->config.context_length = gyre_build_length(root->source->build);
    gyre_rope_read_scale(&source, group);
    gyre_rope_read_axes(&source, group);
    gyre_rope_read_temperature(&source, 1, group);
    if (gyre_rope_read_nomic(&source, group)) return;
    if (as)
        as(&source, group);
    else
        gyre_build_fail(root->source->build, GYRE_EUNSUPPORTED, NULL, "profile: %s does not read rotations yet",
                        gyre_profile_name(gyre_build_profile(root->source->build)));
}

static void read_nope_kind(const gyre_family *family, const gyre_scope *root, const gyre_layer_kind *kind) {
    gyre_rope_source source = {family,    *root,     {root->source, NULL, ""}, NULL, "default", "rope_type", 0, 0, 0,
                               kind->own, kind->type};
    gyre_build_set_kind(root->source->build, kind->group, "nope", NULL);
    if (kind->still_key) {
        const gyre_place place = gyre_scope_place(root, kind->still_key);
        gyre_build_set_field(root->source->build, kind->group, "encoding", GYRE_ORIGIN_FILE, &place, NULL, "nope");
    }
    gyre_rope_read_temperature(&source, 0, kind->group);
    if (!kind->is_attention) return;
    if (!(family->traits & GYRE_MLA)) {
        gyre_rope_read_scale(&source, kind->group);
        return;
    }
    const mla_head head = read_mla_head(&source);
    if (head.still + head.turned > 0) gyre_rope_set_scale_of_head(&source, kind->group, head.still + head.turned);
}

/* The longest context is a fact of the rotation, if there is any. */
static void note_length_of_nope(const gyre_family *family, const gyre_scope *root, const gyre_layer_kinds *division) {
    int rotates = 0;
    for (int i = 0; i < division->kinds; i++)
        rotates |= division->kind[i].has_rope;
    for (int i = 0; i < division->kinds && !rotates; i++) {
        gyre_rope_source source = {.family = family, .root = *root};
        if (division->kind[i].is_attention) set_max_positions(&source, division->kind[i].group);
        division->kind[i].group->config.trained_length = 0;
    }
}

/* The decoder of a streaming Moonshine adds a learned table to the encoder's output. */
static void note_cross_attention(const gyre_family *family, const gyre_scope *root) {
    if (strcmp(family->model_type, "moonshine_streaming") != 0) return;
    gyre_scope_warn(
        root, gyre_scope_value(root, "encoder_config") ? "encoder_config" : "model_type",
        "the encoder's layers have windows and no positions, and a learned table of max_position_embeddings rows is "
        "added to its output; neither is described");
}

void gyre_read_rope(const gyre_family *family, const gyre_scope *root) {
    gyre_layer_kinds division;
    gyre_build *build = root->source->build;
    const char *chunks = "dual_chunk_attention_config";
    gyre_rope_dict dict = gyre_rope_find_dict(family, root);
    const gyre_profile profile = gyre_build_profile(build);
    const int is_read = gyre_profile_is_vllm(profile) || profile == GYRE_PROFILE_SGLANG || profile == GYRE_PROFILE_REFERENCE;
    if (gyre_scope_value(root, chunks) && !is_read)
        gyre_scope_warn(root, chunks, "%s: %s has no dual chunk attention", chunks, gyre_profile_program(profile));
    if (profile != GYRE_PROFILE_REFERENCE) {
        gyre_rope_warn_clip(root);
        gyre_rope_warn_imaginary(root);
    }
    gyre_rope_group_layers(family, root, &dict, &division);
    for (int i = 0; i < division.kinds && !gyre_build_status(build); i++) {
        const gyre_layer_kind *kind = &division.kind[i];
        if (kind->has_rope)
            read_layer_kind(family, root, &dict, kind);
        else
            read_nope_kind(family, root, kind);
        kind->group->window = kind->window;
        if (kind->window > 0)
            gyre_build_set_number(build, kind->group, "window", kind->window_from.origin, &kind->window_from.place,
                                  strcmp(kind->type, "chunked_attention") == 0 ? GYRE_CHUNK_NOTE : NULL,
                                  (double)kind->window);
    }
    note_length_of_nope(family, root, &division);
    gyre_rope_free_dict(&dict);
    gyre_rope_read_beside(family, root, &division);
    note_cross_attention(family, root);
    gyre_build_sort_groups(build);
}

/* Attention without positions, although some of these files have rotation keys. */
void gyre_read_nope(const gyre_family *family, const gyre_scope *root) {
    static const char *const keys[] = {"rope_theta", "rope_scaling", "rope_parameters", NULL};
    gyre_build *build = root->source->build;
    gyre_layer_group *all = gyre_build_add_group(build, "all");
    const char *key = gyre_scope_first(root, keys);
    if (key) gyre_scope_warn(root, key, "%s: a %s has no positions, and no program reads it", key, family->model_type);
    gyre_build_set_kind(build, all, "nope", NULL);
}
