/* read_alibi.c: models with ALiBi: a slope per head lowers scores with distance.  Also Falcon, which may rotate instead. */
#include "gyre/gyre_fields.h"
#include "reading/schemes/class_defaults.h"

#include <math.h>
#include <string.h>

static const char *const length_keys[] = {"max_seq_len", "seq_length",       "max_position_embeddings",
                                          "n_positions", "model_max_length", NULL};

static gyre_layer_group *add_alibi_group(gyre_config_reader *r) {
    const char *key = gyre_scope_first(r->root, length_keys);
    gyre_reader_add_group(r, "all", "alibi");
    gyre_reader_read_head_sizes(r, gyre_heads_keys);
    r->group->config.score.max_bias = 8.0;
    gyre_build_set_number(r->build, r->group, "max_bias", GYRE_ORIGIN_FAMILY, NULL, NULL, 8.0);
    if (key || r->family->positions > 0) {
        r->group->config.trained_length = gyre_reader_read_size(r, "max_length", length_keys, r->family->positions);
    }
    return r->group;
}

/* -- BLOOM, Refact, Jais, Baichuan -- */
void gyre_read_alibi(const gyre_family *family, const gyre_scope *root) {
    gyre_config_reader r = gyre_reader_begin(family, root);
    add_alibi_group(&r);
}

/* "alibi_scaling" of Jais: its own code alone reads it.  A factor holds at every length; without one, slopes are divided by
 * length / train_seq_len past that. */
static void jais_scaling(gyre_config_reader *r) {
    static const char key[] = "alibi_scaling", factor_key[] = "factor", length_key[] = "train_seq_len";
    const json_t *value = gyre_scope_value(r->root, key);
    if (!value) return;
    if (gyre_profile_is_vllm(r->profile) || r->profile == GYRE_PROFILE_LLAMA_CPP) {
        gyre_scope_warn(r->root, key, "is ignored: this program never stretches slopes, the model's own code does");
        return;
    }
    const gyre_scope scaling = gyre_scope_child(r->root, key);
    const char *type = gyre_scope_string(&scaling, "type", "");
    if (strcmp(type, "linear") != 0) gyre_scope_fail(&scaling, GYRE_EFORMAT, "type", "\"%.60s\" is not linear", type);
    const int has_factor = gyre_scope_value(&scaling, factor_key) != NULL;
    const gyre_place place = gyre_scope_place(&scaling, has_factor ? factor_key : length_key);
    struct gyre_score_config *score = &r->group->config.score;
    score->slope_scaling = GYRE_SLOPE_SCALING_LINEAR;
    gyre_build_set_field(r->build, r->group, "slope_scaling", GYRE_ORIGIN_FILE, &place, NULL, "linear");
    if (has_factor) {
        score->slope_factor = gyre_scope_number(&scaling, factor_key, 1);
        if (!(score->slope_factor > 1))
            gyre_scope_fail(&scaling, GYRE_EFORMAT, factor_key, "%g is not above 1", score->slope_factor);
        gyre_build_set_number(r->build, r->group, "slope_factor", GYRE_ORIGIN_FILE, &place, NULL, score->slope_factor);
        return;
    }
    r->group->config.trained_length = gyre_scope_integer(&scaling, length_key, 2, 0);
    if (r->group->config.trained_length == 0) gyre_scope_fail(&scaling, GYRE_EFORMAT, length_key, "missing");
    r->group->config.length_policy = GYRE_LENGTH_POLICY_PREFIX;
    gyre_build_set_number(r->build, r->group, "trained_length", GYRE_ORIGIN_FILE, &place, NULL,
                          (double)r->group->config.trained_length);
}

void gyre_read_jais(const gyre_family *family, const gyre_scope *root) {
    gyre_config_reader r = gyre_reader_begin(family, root);
    const char *key = "position_embedding_type", *type = gyre_scope_string(root, key, "learned");
    if (strcmp(type, "alibi") == 0) {
        add_alibi_group(&r);
        jais_scaling(&r);
    } else {
        gyre_reader_add_group(&r, "all", "learned");
        gyre_reader_read_head_sizes(&r, gyre_heads_keys);
        gyre_reader_read_learned_table(&r, gyre_max_positions_keys, GYRE_ROW_0);
    }
    if (gyre_scope_bool(root, "mup_scale_qk_dot_by_d", 0) && r.group->config.head_dim > 0)
        gyre_reader_set_scale(&r, "mup_scale_qk_dot_by_d", GYRE_ORIGIN_FILE,
                              "scores are divided by head_dim, not by its root", 1.0 / (double)r.group->config.head_dim);
}

/* -- MPT -- */
static void mpt_alibi(gyre_config_reader *r, const gyre_scope *attention) {
    const char *key = "alibi_bias_max", *why = NULL;
    add_alibi_group(r);
    double max_bias = gyre_scope_number(attention, key, 8.0);
    if (!(max_bias > 0.0)) gyre_scope_fail(attention, GYRE_EFORMAT, key, "not above 0");
    const int given = gyre_scope_value(attention, key) != NULL;
    if (gyre_profile_is_hf(r->profile) && max_bias != 8.0) {
        why = "transformers does not hand alibi_bias_max on: slopes are those of 8";
        gyre_scope_warn(attention, key, "%g is ignored: transformers always computes slopes for 8", max_bias);
        max_bias = 8.0;
    }
    const gyre_place place = gyre_scope_place(attention, key);
    r->group->config.score.max_bias = max_bias;
    gyre_build_set_number(r->build, r->group, "max_bias", given ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY,
                          given ? &place : NULL, why, max_bias);
}

/* Handles attention without ALiBi, which programs treat differently.  out = 1 if the program uses slopes anyway. */
static int mpt_without_alibi(gyre_config_reader *r, const gyre_scope *attention) {
    if (gyre_profile_is_hf(r->profile)) {
        gyre_scope_warn(attention, "alibi", "false, but transformers has slopes in every MPT, and no table");
        return 1;
    }
    if (gyre_profile_is_vllm(r->profile))
        gyre_scope_fail(attention, GYRE_EUNSUPPORTED, "alibi", "vLLM runs MPT with ALiBi alone");
    const int rotates = gyre_scope_bool(attention, "rope", 0);
    if (rotates && r->profile == GYRE_PROFILE_LLAMA_CPP)
        gyre_scope_fail(attention, GYRE_EUNSUPPORTED, "rope", "llama.cpp's MPT does not rotate");
    if (!rotates && gyre_scope_bool(r->root, "learned_pos_emb", 1)) {
        gyre_reader_add_group(r, "all", "learned");
        gyre_reader_read_head_sizes(r, gyre_heads_keys);
        gyre_reader_read_learned_table(r, gyre_max_positions_keys, GYRE_ROW_0);
        return 0;
    }
    gyre_reader_add_group(r, "all", rotates ? "rope" : "nope");
    gyre_reader_read_head_sizes(r, gyre_heads_keys);
    if (!rotates) return 0;
    r->group->config.trained_length = gyre_reader_read_size(r, "max_length", gyre_max_positions_keys, r->family->positions);
    r->group->config.rope.base = gyre_scope_number(attention, "rope_theta", 10000.0);
    if (!(r->group->config.rope.base > 1.0)) gyre_scope_fail(attention, GYRE_EFORMAT, "rope_theta", "not above 1");
    const int given = gyre_scope_value(attention, "rope_theta") != NULL;
    const gyre_place place = gyre_scope_place(attention, "rope_theta");
    gyre_build_set_number(r->build, r->group, "base", given ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY, given ? &place : NULL,
                          NULL, r->group->config.rope.base);
    gyre_build_set_field(r->build, r->group, "layout", GYRE_ORIGIN_FAMILY, NULL, NULL, "half");
    return 0;
}

/* llm-foundry's own default is a learned table.  The default of transformers' class is ALiBi. */
void gyre_read_mpt(const gyre_family *family, const gyre_scope *root) {
    gyre_config_reader r = gyre_reader_begin(family, root);
    const gyre_scope attention = gyre_scope_child(root, "attn_config");
    const int has_slopes = gyre_scope_bool(&attention, "alibi", r.profile != GYRE_PROFILE_REFERENCE);
    if (has_slopes || mpt_without_alibi(&r, &attention)) mpt_alibi(&r, &attention);
    const gyre_scope types = gyre_scope_child(&attention, "rope_hf_config");
    const char *scaling = gyre_scope_string(&types, "type", "no_scaling");
    if (r.group && gyre_kind_has(r.group->config.kind, GYRE_TRAIT_ROTATES) && strcmp(scaling, "no_scaling") != 0)
        gyre_scope_warn(&types, "type", "\"%.40s\" is not read: the group describes the rotation without it", scaling);
    const double scale = gyre_scope_number(&attention, "softmax_scale", 0.0);
    if (scale == 0.0 || !r.group) return;
    if (gyre_profile_is_hf(r.profile) || r.profile == GYRE_PROFILE_REFERENCE) {
        r.root = &attention;
        gyre_reader_set_scale(&r, "softmax_scale", GYRE_ORIGIN_FILE, NULL, scale);
    } else {
        gyre_scope_warn(&attention, "softmax_scale", "%g is ignored: scores are divided by the root of head_dim", scale);
    }
}

/* -- Falcon -- */
void gyre_read_falcon(const gyre_family *family, const gyre_scope *root) {
    const int has_slopes = gyre_scope_bool(root, "alibi", 0);
    if (has_slopes && gyre_build_profile(root->source->build) == GYRE_PROFILE_LLAMA_CPP)
        gyre_scope_warn(root, "alibi", "true is ignored: llama.cpp rotates every Falcon, so this one is read wrongly");
    if (!has_slopes || gyre_build_profile(root->source->build) == GYRE_PROFILE_LLAMA_CPP) {
        gyre_read_rope(family, root);
        return;
    }
    gyre_config_reader r = gyre_reader_begin(family, root);
    const gyre_place place = gyre_scope_place(root, "alibi");
    add_alibi_group(&r)->config.score.before_scale = 1;
    gyre_build_set_field(r.build, r.group, "encoding", GYRE_ORIGIN_FILE, &place, NULL, "alibi");
    gyre_build_set_field(r.build, r.group, "before_scale", GYRE_ORIGIN_FAMILY, NULL,
                         "the bias is added before scores are divided by the root of head_dim, so slopes are too", "true");
    if (gyre_profile_is_hf(r.profile))
        gyre_build_warn(r.build, NULL,
                        "precision: transformers rounds Falcon's slopes, and their products with positions, to bf16");
}

/* -- Baichuan: the 7B model rotates, the larger one has slopes -- */
void gyre_read_baichuan(const gyre_family *family, const gyre_scope *root) {
    static const char *const depth[] = {"num_hidden_layers", NULL}, *const width[] = {"hidden_size", NULL};
    gyre_config_reader r = gyre_reader_begin(family, root);
    const int by_depth = r.profile == GYRE_PROFILE_LLAMA_CPP;
    const char *key = by_depth ? depth[0] : width[0];
    const int64_t value = gyre_reader_read_size(&r, NULL, by_depth ? depth : width, by_depth ? 32 : 4096);
    if (value == (by_depth ? 32 : 4096)) {
        gyre_read_rope(family, root);
        return;
    }
    add_alibi_group(&r);
    const gyre_place place = gyre_scope_place(root, key);
    gyre_build_set_field(r.build, r.group, "encoding", GYRE_ORIGIN_DERIVED, &place,
                         "model_type is one for all sizes: the 7B model rotates, larger ones have slopes", "alibi");
}
