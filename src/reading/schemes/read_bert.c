/* read_bert.c: BERT and its relatives, whose position_embedding_type selects the scheme. */
#include "reading/schemes/class_defaults.h"

#include <string.h>

/* The table is added to the embeddings, which may be narrower than the model. */
static void read_absolute(const gyre_config_reader *r) {
    static const char *const narrow[] = {"embedding_size", "input_embedding_size", NULL};
    static const struct {
        const char *model_type;
        int64_t width;
    } classes[] = {{"electra", 128}, {"albert", 128}, {"convbert", 768}, {"rembert", 256}};
    r->group->config.kind = gyre_kind_find("learned");
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp(classes[i].model_type, r->family->model_type) == 0)
            r->group->config.input.dim = gyre_reader_read_size(r, NULL, narrow, classes[i].width);
    gyre_reader_read_learned_table(r, gyre_max_positions_keys, r->defaults->first_row);
}

static void read_relative(const gyre_config_reader *r, int on_keys_too) {
    struct gyre_score_config *score = &r->group->config.score;
    r->group->config.kind = gyre_kind_find("bert");
    gyre_reader_set_max_positions(r, gyre_scope_first(r->root, gyre_max_positions_keys),
                                  gyre_reader_read_size(r, "max_length", gyre_max_positions_keys, r->family->positions));
    score->terms = on_keys_too ? GYRE_TERM_QUERY | GYRE_TERM_KEY : GYRE_TERM_QUERY;
    r->group->config.trained_length = score->max_positions;
    gyre_build_set_number(r->build, r->group, "max_distance", GYRE_ORIGIN_DERIVED, NULL,
                          "distances are not clipped: a longer text has no row", (double)score->max_positions - 1.0);
    gyre_build_set_field(r->build, r->group, "terms", GYRE_ORIGIN_DERIVED, NULL, NULL,
                         on_keys_too ? "query and key" : "query");
}

/* Jina's BERT brings its own code, and its distances have no direction. */
static void read_jina_alibi(const gyre_config_reader *r) {
    r->group->config.kind = gyre_kind_find("alibi");
    r->group->config.score.max_bias = 8.0;
    r->group->config.trained_length = gyre_reader_read_size(r, "max_length", gyre_max_positions_keys, r->family->positions);
    gyre_build_set_number(r->build, r->group, "max_bias", GYRE_ORIGIN_FAMILY, NULL, NULL, 8.0);
    if (r->profile != GYRE_PROFILE_REFERENCE && r->profile != GYRE_PROFILE_LLAMA_CPP)
        gyre_scope_warn(r->root, "position_embedding_type",
                        "\"alibi\" is known to the code that comes with the model alone, and is read as that does");
}

/* out = what a program makes of the type in the file. */
static const char *effective_type(const gyre_config_reader *r, const char *type, const char **why) {
    const int plain = strcmp(type, "absolute") == 0 || strcmp(type, "rotary") == 0 || strcmp(type, "alibi") == 0;
    *why = NULL;
    if (plain) return type;
    if (gyre_profile_is_vllm(r->profile))
        gyre_scope_fail(r->root, GYRE_EUNSUPPORTED, "position_embedding_type", "vLLM runs \"absolute\" alone, not \"%.40s\"",
                        type);
    if (r->profile == GYRE_PROFILE_HF_5) {
        *why =
            "transformers 5 took relative_key away (#41170): it adds the absolute table, trained or not, and says nothing";
        gyre_scope_warn(
            r->root, "position_embedding_type",
            "\"%.40s\" is lost: transformers 5 adds an absolute table instead and leaves out the one of distances "
            "that the model was trained with (#41170); 4.x runs it as trained",
            type);
        return "absolute";
    }
    if (r->profile == GYRE_PROFILE_LLAMA_CPP) {
        *why = "llama.cpp's converter does not look at position_embedding_type";
        gyre_scope_warn(r->root, "position_embedding_type",
                        "\"%.40s\" is lost: llama.cpp adds an absolute table and leaves out the one of distances", type);
        return "absolute";
    }
    return type;
}

void gyre_read_bert(const gyre_family *family, const gyre_scope *root) {
    gyre_config_reader r = gyre_reader_begin(family, root);
    const char *key = "position_embedding_type", *why, *given = gyre_scope_string(root, key, "absolute");
    const char *type = effective_type(&r, given, &why);
    if (strcmp(type, "rotary") == 0) {
        gyre_read_rope(family, root);
        return;
    }
    gyre_reader_add_group(&r, "all", "learned");
    gyre_reader_read_head_sizes(&r, gyre_heads_keys);
    if (strcmp(type, "absolute") == 0)
        read_absolute(&r);
    else if (strcmp(type, "relative_key") == 0 || strcmp(type, "relative_key_query") == 0)
        read_relative(&r, strcmp(type, "relative_key_query") == 0);
    else if (strcmp(type, "alibi") == 0)
        read_jina_alibi(&r);
    else
        gyre_scope_fail(root, GYRE_EFORMAT, key,
                        "\"%.60s\" is not one of absolute, relative_key, relative_key_query, rotary, alibi", type);
    const gyre_place place = gyre_scope_place(root, key);
    const int in_file = gyre_scope_value(root, key) != NULL;
    gyre_build_set_field(r.build, r.group, "encoding", in_file ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY,
                         in_file ? &place : NULL, why, "%s", gyre_kind_name(r.group->config.kind));
}
