/* family_sizes.c: what the classes have where config.json says nothing, and what all readers of tables share. */
#include "reading/schemes/family_sizes.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *const gyre_names_of_width[] = {"hidden_size", "d_model", "n_embd", "n_embed", "dim", "emb_dim", NULL};
const char *const gyre_names_of_heads[] = {
    "num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads", NULL};
const char *const gyre_names_of_positions[] = {"max_position_embeddings", "n_positions", "max_seq_len", NULL};

enum { MOST_HEADS = 65536 };

/* The table's own shorthand. */
enum { V = GYRE_IN_VLLM, C = GYRE_IN_LLAMA_CPP, GONE = GYRE_GONE_IN_5, TWO = GYRE_TWO_STACKS, OWN = GYRE_NOT_IN_HF };
#define SIZES(type, width, heads, traits, rows, sinusoid) {type, width, heads, traits, GYRE_##rows, GYRE_##sinusoid},
static const gyre_sizes all_sizes[] = {
#include "reading/schemes/family_sizes.def"
};

static const gyre_sizes unknown = {"", 0, 0, GYRE_IN_VLLM | GYRE_IN_LLAMA_CPP, GYRE_ROW_0, GYRE_SIN_INTERLEAVED};

static const gyre_sizes *sizes_of(const char *model_type) {
    for (size_t i = 0; i < sizeof all_sizes / sizeof *all_sizes; i++)
        if (strcmp(all_sizes[i].model_type, model_type) == 0) return &all_sizes[i];
    return &unknown;
}

/* -- who runs it ----------------------------------------------------------------------------------------------------- */
static int is_hf(gyre_profile profile) {
    return profile == GYRE_AS_HF_5 || profile == GYRE_AS_HF_4_56 || profile == GYRE_AS_HF_4_51 || profile == GYRE_AS_HF_4_43;
}

static void check_program(const gyre_table_reader *r) {
    const unsigned traits = r->sizes->traits;
    const char *type = r->family->model_type;
    if (r->profile == GYRE_AS_VLLM && !(traits & GYRE_IN_VLLM))
        gyre_scope_fail(r->root, GYRE_EUNSUPPORTED, "model_type", "vLLM has no class for %s", type);
    if (r->profile == GYRE_AS_LLAMA_CPP && !(traits & GYRE_IN_LLAMA_CPP))
        gyre_scope_fail(r->root, GYRE_EUNSUPPORTED, "model_type", "llama.cpp's converter does not take %s", type);
    if (r->profile == GYRE_AS_HF_5 && (traits & GYRE_GONE_IN_5))
        gyre_scope_warn(r->root, "model_type", "transformers 5 no longer has %s: read as the last version that had it",
                        type);
    if (is_hf(r->profile) && (traits & GYRE_NOT_IN_HF))
        gyre_scope_warn(r->root, "model_type", "transformers has no class for %s: read as the code that comes with it",
                        type);
}

gyre_table_reader gyre_tables_begin(const gyre_family *family, const gyre_scope *root) {
    gyre_build *build = root->source->build;
    const gyre_table_reader r = {family, sizes_of(family->model_type), root, build, gyre_build_profile(build), NULL};
    check_program(&r);
    return r;
}

/* A rotation that somebody described for a model that has none. */
static void warn_of_rotation(const gyre_table_reader *r) {
    static const char *const keys[] = {"rope_scaling", "rope_parameters", "partial_rotary_factor", NULL};
    for (int i = 0; keys[i]; i++)
        if (gyre_scope_value(r->root, keys[i]))
            gyre_scope_warn(r->root, keys[i], "%s: not read; this model does not rotate", keys[i]);
}

void gyre_tables_group(gyre_table_reader *r, const char *name, gyre_kind kind) {
    if (kind != GYRE_ROPE) warn_of_rotation(r);
    const int given = gyre_scope_value(r->root, "model_type") != NULL;
    const gyre_place place = gyre_scope_place(r->root, "model_type");
    r->group = gyre_build_layers(r->build, name);
    r->group->config.kind = kind;
    gyre_build_field(r->build, r->group, "encoding", GYRE_FROM_FAMILY, given ? &place : NULL, NULL, "%s",
                     gyre_kind_name(kind));
}

/* -- values ---------------------------------------------------------------------------------------------------------- */
int64_t gyre_tables_size(const gyre_table_reader *r, const char *field, const char *const *names, int64_t of_class) {
    enum { MOST = INT32_MAX - 2 }; /* what gyre_config counts, with two rows of padding */
    const char *key = gyre_scope_first(r->root, names);
    const int64_t value = key ? gyre_scope_size(r->root, key, 1, 0) : of_class;
    if (value > MOST) gyre_scope_fail(r->root, GYRE_EFORMAT, key, "%" PRId64 " is past %d", value, MOST);
    if (!key && value == 0) gyre_scope_fail(r->root, GYRE_EFORMAT, names[0], "missing");
    if (field && key) {
        const gyre_place place = gyre_scope_place(r->root, key);
        gyre_build_number(r->build, r->group, field, GYRE_FROM_FILE, &place, NULL, (double)value);
    } else if (field) {
        gyre_build_number(r->build, r->group, field, GYRE_FROM_FAMILY, NULL, NULL, (double)value);
    }
    return value;
}

void gyre_tables_number(const gyre_table_reader *r, const char *field, const char *key, double value) {
    const int given = gyre_scope_value(r->root, key) != NULL;
    const gyre_place place = gyre_scope_place(r->root, key);
    gyre_build_number(r->build, r->group, field, given ? GYRE_FROM_FILE : GYRE_FROM_FAMILY, given ? &place : NULL, NULL,
                      value);
}

void gyre_tables_flag(const gyre_table_reader *r, const char *field, const char *key, int value) {
    const int given = key && gyre_scope_value(r->root, key);
    const gyre_place place = gyre_scope_place(r->root, key ? key : "model_type");
    gyre_build_field(r->build, r->group, field, given ? GYRE_FROM_FILE : GYRE_FROM_FAMILY, given ? &place : NULL, NULL, "%s",
                     value ? "true" : "false");
}

void gyre_tables_scale(const gyre_table_reader *r, const char *key, gyre_origin origin, const char *why, double scale) {
    const gyre_place place = gyre_scope_place(r->root, key ? key : "model_type");
    r->group->scale = scale;
    gyre_build_number(r->build, r->group, "score_scale", origin, key ? &place : NULL, why, scale);
}

int64_t gyre_tables_head_count(const gyre_table_reader *r, const char *const *names_of_heads) {
    const char *key = gyre_scope_first(r->root, names_of_heads);
    const int64_t heads = gyre_tables_size(r, NULL, names_of_heads, r->sizes->heads);
    if (heads > MOST_HEADS) gyre_scope_fail(r->root, GYRE_EFORMAT, key, "%" PRId64 " is past %d", heads, MOST_HEADS);
    return r->group->config.heads = heads;
}

void gyre_tables_distance(const gyre_table_reader *r, const char *key, int64_t distance) {
    if (distance > GYRE_FARTHEST && gyre_build_status(r->build) == GYRE_OK)
        gyre_scope_fail(r->root, GYRE_EFORMAT, key ? key : "model_type", "distances to %" PRId64 " are past %d", distance,
                        GYRE_FARTHEST);
    r->group->config.score.max_distance = distance < GYRE_FARTHEST ? distance : GYRE_FARTHEST;
}

void gyre_tables_heads(const gyre_table_reader *r, const char *const *names_of_heads) {
    const int64_t width = gyre_tables_size(r, NULL, gyre_names_of_width, r->sizes->width);
    const int64_t heads = gyre_tables_head_count(r, names_of_heads);
    if (gyre_build_status(r->build) != GYRE_OK || heads == 0) return;
    const char *key = gyre_scope_first(r->root, names_of_heads);
    if (width % heads != 0)
        gyre_scope_fail(r->root, GYRE_EFORMAT, key ? key : names_of_heads[0],
                        "%" PRId64 " heads do not divide a width of %" PRId64, heads, width);
    r->group->config.head_dim = width / heads;
    gyre_build_number(r->build, r->group, "head_dim", GYRE_DERIVED, NULL, NULL, (double)r->group->config.head_dim);
}

void gyre_tables_head_dim(const gyre_table_reader *r, const char *key, int64_t of_class) {
    const char *const names[] = {key, NULL};
    r->group->config.head_dim = gyre_tables_size(r, "head_dim", names, of_class);
}

/* -- learned tables -------------------------------------------------------------------------------------------------- */
static int64_t after_padding(const gyre_table_reader *r) {
    const int given = gyre_scope_value(r->root, "pad_token_id") != NULL;
    const char *why = NULL;
    int64_t offset = gyre_scope_size(r->root, "pad_token_id", 0, 1) + 1;
    if (r->profile == GYRE_AS_LLAMA_CPP && strcmp(r->family->model_type, "camembert") == 0) {
        gyre_scope_warn(r->root, "model_type",
                        "llama.cpp's converter takes this for a BERT: each token gets the vector of the position %" PRId64
                        " before its own",
                        offset);
        why = "the converter keeps the rows of padding, and counts from the first";
        offset = 0;
    } else if (r->profile == GYRE_AS_LLAMA_CPP && !given) {
        why = "without pad_token_id the converter keeps the rows of padding, and counts from the first";
        gyre_scope_warn(r->root, "pad_token_id",
                        "missing: llama.cpp's converter counts positions from row 0, not from row 2");
        offset = 0;
    } else if (gyre_scope_has(r->root, "pad_token_id") && !given) {
        gyre_scope_warn(r->root, "pad_token_id", "null: positions are counted from the row after it; 1 is assumed");
    }
    const gyre_place place = gyre_scope_place(r->root, "pad_token_id");
    gyre_build_number(r->build, r->group, "offset", given ? GYRE_DERIVED : GYRE_FROM_FAMILY, given ? &place : NULL, why,
                      (double)offset);
    return offset;
}

int64_t gyre_tables_offset(const gyre_table_reader *r, gyre_row_rule rule) {
    if (rule == GYRE_ROW_AFTER_PADDING) return after_padding(r);
    const int64_t offset = rule == GYRE_ROW_2 ? 2 : 0;
    gyre_build_number(r->build, r->group, "offset", GYRE_FROM_FAMILY, NULL, NULL, (double)offset);
    return offset;
}

/* Rows of the table and the first token's, noted; fails where no row is left for a token. */
static void table_of(const gyre_table_reader *r, const char *const *names, gyre_row_rule rule,
                     struct gyre_input_config *out) {
    const int64_t positions = gyre_tables_size(r, "max_length", names, r->family->positions);
    const char *key = gyre_scope_first(r->root, names);
    out->offset = gyre_tables_offset(r, rule);
    out->positions = rule == GYRE_ROW_2 ? positions + 2 : positions;
    if (out->offset >= out->positions && gyre_build_status(r->build) == GYRE_OK)
        gyre_scope_fail(r->root, GYRE_EFORMAT, key ? key : names[0],
                        "a table of %" PRId64 " rows has none left: tokens begin at row %" PRId64, out->positions,
                        out->offset);
    gyre_build_number(r->build, r->group, "table_rows", GYRE_DERIVED, NULL, NULL, (double)out->positions);
}

void gyre_tables_learned(const gyre_table_reader *r, const char *const *names_of_positions, gyre_row_rule rule) {
    struct gyre_input_config *input = &r->group->config.input;
    table_of(r, names_of_positions, rule, input);
    if (input->dim == 0) input->dim = gyre_tables_size(r, NULL, gyre_names_of_width, r->sizes->width);
    r->group->config.trained_length = input->positions - input->offset;
    gyre_build_number(r->build, r->group, "trained_length", GYRE_DERIVED, NULL, NULL,
                      (double)r->group->config.trained_length);
}

void gyre_tables_learned_too(const gyre_table_reader *r, gyre_row_rule rule) {
    struct gyre_input_config input = {0};
    table_of(r, gyre_names_of_positions, rule, &input);
    r->group->config.trained_length = input.positions - input.offset;
    gyre_build_warn(r->build, NULL,
                    "two encodings: a learned table of %" PRId64 " rows, tokens from row %" PRId64
                    ", is added at the input as well; the group describes the scores alone",
                    input.positions, input.offset);
}
