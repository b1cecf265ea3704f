/* read_bert.c: BERT and its kin, whose position_embedding_type says where positions act. */
#include "reading/schemes/family_sizes.h"

#include <string.h>

/* The table is added to the embeddings, which may be narrower than the model. */
static void absolute(const gyre_table_reader *r) {
    static const char *const narrow[] = {"embedding_size", "input_embedding_size", NULL};
    static const struct {
        const char *model_type;
        int64_t width;
    } classes[] = {{"electra", 128}, {"albert", 128}, {"convbert", 768}, {"rembert", 256}};
    r->group->config.kind = GYRE_LEARNED;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp(classes[i].model_type, r->family->model_type) == 0)
            r->group->config.input.dim = gyre_tables_size(r, NULL, narrow, classes[i].width);
    gyre_tables_learned(r, gyre_names_of_positions, r->sizes->rows);
}

static void relative(const gyre_table_reader *r, int on_keys_too) {
    struct gyre_score_config *score = &r->group->config.score;
    r->group->config.kind = GYRE_BERT;
    gyre_tables_distance(r, gyre_scope_first(r->root, gyre_names_of_positions),
                         gyre_tables_size(r, "max_length", gyre_names_of_positions, r->family->positions));
    score->terms = on_keys_too ? GYRE_ON_QUERY | GYRE_ON_KEY : GYRE_ON_QUERY;
    r->group->config.trained_length = score->max_distance;
    gyre_build_number(r->build, r->group, "max_distance", GYRE_DERIVED, NULL,
                      "distances are not clipped: a longer text has no row", (double)score->max_distance - 1.0);
    gyre_build_field(r->build, r->group, "terms", GYRE_DERIVED, NULL, NULL, on_keys_too ? "query and key" : "query");
}

/* Jina's BERT: code of its own, and its distances have no direction. */
static void alibi(const gyre_table_reader *r) {
    r->group->config.kind = GYRE_ALIBI;
    r->group->config.score.max_bias = 8.0;
    r->group->config.trained_length = gyre_tables_size(r, "max_length", gyre_names_of_positions, r->family->positions);
    gyre_build_number(r->build, r->group, "max_bias", GYRE_FROM_FAMILY, NULL, NULL, 8.0);
    if (r->profile != GYRE_AS_REFERENCE && r->profile != GYRE_AS_LLAMA_CPP)
        gyre_scope_warn(r->root, "position_embedding_type",
                        "\"alibi\" is known to the code that comes with the model alone, and is read as that does");
}

/* What a program makes of the type in the file. */
static const char *as_read(const gyre_table_reader *r, const char *type, const char **why) {
    const int plain = strcmp(type, "absolute") == 0 || strcmp(type, "rotary") == 0 || strcmp(type, "alibi") == 0;
    *why = NULL;
    if (plain) return type;
    if (r->profile == GYRE_AS_VLLM)
        gyre_scope_fail(r->root, GYRE_EUNSUPPORTED, "position_embedding_type", "vLLM runs \"absolute\" alone, not \"%.40s\"",
                        type);
    if (r->profile == GYRE_AS_HF_5) {
        *why =
            "transformers 5 took relative_key away (#41170): it adds the absolute table, trained or not, and says nothing";
        gyre_scope_warn(
            r->root, "position_embedding_type",
            "\"%.40s\" is lost: transformers 5 adds an absolute table instead and leaves out the one of distances "
            "that the model was trained with (#41170); 4.x runs it as trained",
            type);
        return "absolute";
    }
    if (r->profile == GYRE_AS_LLAMA_CPP) {
        *why = "llama.cpp's converter does not look at position_embedding_type";
        gyre_scope_warn(r->root, "position_embedding_type",
                        "\"%.40s\" is lost: llama.cpp adds an absolute table and leaves out the one of distances", type);
        return "absolute";
    }
    return type;
}

void gyre_read_bert(const gyre_family *family, const gyre_scope *root) {
    gyre_table_reader r = gyre_tables_begin(family, root);
    const char *key = "position_embedding_type", *why, *given = gyre_scope_text(root, key, "absolute");
    const char *type = as_read(&r, given, &why);
    if (strcmp(type, "rotary") == 0) {
        gyre_read_rope(family, root);
        return;
    }
    gyre_tables_group(&r, "all", GYRE_LEARNED);
    gyre_tables_heads(&r, gyre_names_of_heads);
    if (strcmp(type, "absolute") == 0)
        absolute(&r);
    else if (strcmp(type, "relative_key") == 0 || strcmp(type, "relative_key_query") == 0)
        relative(&r, strcmp(type, "relative_key_query") == 0);
    else if (strcmp(type, "alibi") == 0)
        alibi(&r);
    else
        gyre_scope_fail(root, GYRE_EFORMAT, key,
                        "\"%.60s\" is none of absolute, relative_key, relative_key_query, rotary, alibi", type);
    const gyre_place place = gyre_scope_place(root, key);
    const int said = gyre_scope_value(root, key) != NULL;
    gyre_build_field(r.build, r.group, "encoding", said ? GYRE_FROM_FILE : GYRE_FROM_FAMILY, said ? &place : NULL, why, "%s",
                     gyre_kind_name(r.group->config.kind));
}
