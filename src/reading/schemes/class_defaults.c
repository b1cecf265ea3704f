/* class_defaults.c: defaults of the classes, and what all readers of tables share. */
#include "reading/schemes/class_defaults.h"
#include "gyre/gyre_fields.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *const gyre_model_dim_keys[] = {"hidden_size", "d_model", "n_embd", "n_embed", "dim", "emb_dim", NULL};
const char *const gyre_heads_keys[] = {
    "num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads", NULL};
const char *const gyre_max_positions_keys[] = {"max_position_embeddings", "n_positions", "max_seq_len", NULL};

enum { MAX_HEADS = 65536 };

/* Shorthand for class_defaults.def. */
enum {
    VLLM = GYRE_IN_VLLM,
    LLAMA_CPP = GYRE_IN_LLAMA_CPP,
    REMOVED = GYRE_REMOVED_IN_HF_5,
    ENC_DEC = GYRE_ENCODER_DECODER,
    REMOTE_CODE = GYRE_NOT_IN_HF
};
#define CLASS_DEFAULTS(type, width, heads, traits, rows, sinusoid)                                                          \
    {type, width, heads, traits, GYRE_##rows, GYRE_##sinusoid},
static const gyre_class_defaults class_defaults[] = {
#include "reading/schemes/class_defaults.def"
};

static const gyre_class_defaults unknown_class = {
    "", 0, 0, GYRE_IN_VLLM | GYRE_IN_LLAMA_CPP, GYRE_ROW_0, GYRE_SINUSOID_INTERLEAVED};

static const gyre_class_defaults *class_defaults_of(const char *model_type) {
    for (size_t i = 0; i < sizeof class_defaults / sizeof *class_defaults; i++)
        if (strcmp(class_defaults[i].model_type, model_type) == 0) return &class_defaults[i];
    return &unknown_class;
}

/* -- which programs run the model -- */
static void check_program(const gyre_config_reader *r) {
    const unsigned traits = r->defaults->traits;
    const char *type = r->family->model_type;
    if (r->profile == GYRE_PROFILE_SGLANG || r->profile == GYRE_PROFILE_MLX_LM)
        gyre_scope_fail(r->root, GYRE_EUNSUPPORTED, "model_type",
                        "%s: for %s, Gyre reads only models that rotate queries and keys", type,
                        gyre_profile_program(r->profile));
    if (gyre_profile_is_vllm(r->profile) && !(traits & GYRE_IN_VLLM))
        gyre_scope_fail(r->root, GYRE_EUNSUPPORTED, "model_type", "vLLM has no class for %s", type);
    if (r->profile == GYRE_PROFILE_LLAMA_CPP && !(traits & GYRE_IN_LLAMA_CPP))
        gyre_scope_fail(r->root, GYRE_EUNSUPPORTED, "model_type", "llama.cpp's converter does not take %s", type);
    if (r->profile == GYRE_PROFILE_HF_5 && (traits & GYRE_REMOVED_IN_HF_5))
        gyre_scope_warn(r->root, "model_type", "transformers 5 no longer has %s: read as the last version that had it",
                        type);
    if (gyre_profile_is_hf(r->profile) && (traits & GYRE_NOT_IN_HF))
        gyre_scope_warn(r->root, "model_type", "transformers has no class for %s: read as the code that comes with it",
                        type);
}

gyre_config_reader gyre_reader_begin(const gyre_family *family, const gyre_scope *root) {
    gyre_build *build = root->source->build;
    const gyre_config_reader r = {family, class_defaults_of(family->model_type), root, build, gyre_build_profile(build),
                                  NULL};
    check_program(&r);
    return r;
}

/* Warns about keys of a rotation in a model that has none. */
static void warn_of_rotation(const gyre_config_reader *r) {
    static const char *const keys[] = {"rope_scaling", "rope_parameters", "partial_rotary_factor", NULL};
    for (int i = 0; keys[i]; i++)
        if (gyre_scope_value(r->root, keys[i]))
            gyre_scope_warn(r->root, keys[i], "%s: not read; this model does not rotate", keys[i]);
}

void gyre_reader_add_group(gyre_config_reader *r, const char *name, const char *kind) {
    const int given = gyre_scope_value(r->root, "model_type") != NULL;
    const gyre_place place = gyre_scope_place(r->root, "model_type");
    r->group = gyre_build_add_group(r->build, name);
    gyre_build_set_kind(r->build, r->group, kind, given ? &place : NULL);
    if (!gyre_kind_has(r->group->config.kind, GYRE_TRAIT_ROTATES)) warn_of_rotation(r);
}

/* -- values -- */
int64_t gyre_reader_read_size(const gyre_config_reader *r, const char *field, const char *const *names, int64_t of_class) {
    enum { MAX_SIZE = INT32_MAX - 2 }; /* what gyre_config can count, less two rows of padding */
    const char *key = gyre_scope_first(r->root, names);
    const int64_t value = key ? gyre_scope_integer(r->root, key, 1, 0) : of_class;
    if (value > MAX_SIZE) gyre_scope_fail(r->root, GYRE_EFORMAT, key, "%" PRId64 " is past %d", value, MAX_SIZE);
    if (!key && value == 0) gyre_scope_fail(r->root, GYRE_EFORMAT, names[0], "missing");
    if (field && key) {
        const gyre_place place = gyre_scope_place(r->root, key);
        gyre_build_set_number(r->build, r->group, field, GYRE_ORIGIN_FILE, &place, NULL, (double)value);
    } else if (field) {
        gyre_build_set_number(r->build, r->group, field, GYRE_ORIGIN_FAMILY, NULL, NULL, (double)value);
    }
    return value;
}

void gyre_reader_note_number(const gyre_config_reader *r, const char *field, const char *key, double value) {
    const int given = gyre_scope_value(r->root, key) != NULL;
    const gyre_place place = gyre_scope_place(r->root, key);
    gyre_build_set_number(r->build, r->group, field, given ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY, given ? &place : NULL,
                          NULL, value);
}

void gyre_reader_note_flag(const gyre_config_reader *r, const char *field, const char *key, int value) {
    const int given = key && gyre_scope_value(r->root, key);
    const gyre_place place = gyre_scope_place(r->root, key ? key : "model_type");
    gyre_build_set_field(r->build, r->group, field, given ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_FAMILY, given ? &place : NULL,
                         NULL, "%s", value ? "true" : "false");
}

void gyre_reader_set_scale(const gyre_config_reader *r, const char *key, gyre_origin origin, const char *why, double scale) {
    const gyre_place place = gyre_scope_place(r->root, key ? key : "model_type");
    r->group->scale = scale;
    gyre_build_set_number(r->build, r->group, "score_scale", origin, key ? &place : NULL, why, scale);
}

int64_t gyre_reader_read_heads(const gyre_config_reader *r, const char *const *names_of_heads) {
    const char *key = gyre_scope_first(r->root, names_of_heads);
    const int64_t heads = gyre_reader_read_size(r, NULL, names_of_heads, r->defaults->heads);
    if (heads > MAX_HEADS) gyre_scope_fail(r->root, GYRE_EFORMAT, key, "%" PRId64 " is past %d", heads, MAX_HEADS);
    return r->group->config.heads = heads;
}

static int64_t limited_distance(const gyre_config_reader *r, const char *key, int64_t distance) {
    if (distance > GYRE_MAX_TABLE_DISTANCE && !gyre_build_status(r->build))
        gyre_scope_fail(r->root, GYRE_EFORMAT, key ? key : "model_type", "distances to %" PRId64 " are past %d", distance,
                        GYRE_MAX_TABLE_DISTANCE);
    return distance < GYRE_MAX_TABLE_DISTANCE ? distance : GYRE_MAX_TABLE_DISTANCE;
}

void gyre_reader_set_max_distance(const gyre_config_reader *r, const char *key, int64_t distance) {
    r->group->config.score.max_distance = limited_distance(r, key, distance);
}

void gyre_reader_set_max_positions(const gyre_config_reader *r, const char *key, int64_t positions) {
    r->group->config.score.max_positions = limited_distance(r, key, positions);
}

void gyre_reader_read_head_sizes(const gyre_config_reader *r, const char *const *names_of_heads) {
    const int64_t width = gyre_reader_read_size(r, NULL, gyre_model_dim_keys, r->defaults->model_dim);
    const int64_t heads = gyre_reader_read_heads(r, names_of_heads);
    if (gyre_build_status(r->build) || heads == 0) return;
    const char *key = gyre_scope_first(r->root, names_of_heads);
    if (width % heads != 0)
        gyre_scope_fail(r->root, GYRE_EFORMAT, key ? key : names_of_heads[0],
                        "%" PRId64 " heads do not divide a width of %" PRId64, heads, width);
    r->group->config.head_dim = width / heads;
    gyre_build_set_number(r->build, r->group, "head_dim", GYRE_ORIGIN_DERIVED, NULL, NULL,
                          (double)r->group->config.head_dim);
}

void gyre_reader_read_head_dim(const gyre_config_reader *r, const char *key, int64_t of_class) {
    const char *const names[] = {key, NULL};
    r->group->config.head_dim = gyre_reader_read_size(r, "head_dim", names, of_class);
}

/* -- learned tables -- */
static int64_t row_after_padding(const gyre_config_reader *r) {
    const int given = gyre_scope_value(r->root, "pad_token_id") != NULL;
    const char *why = NULL;
    int64_t offset = gyre_scope_integer(r->root, "pad_token_id", 0, 1) + 1;
    if (r->profile == GYRE_PROFILE_LLAMA_CPP && strcmp(r->family->model_type, "camembert") == 0) {
        gyre_scope_warn(r->root, "model_type",
                        "llama.cpp's converter takes this for a BERT: each token gets the vector of the position %" PRId64
                        " before its own",
                        offset);
        why = "the converter keeps the rows of padding, and counts from the first";
        offset = 0;
    } else if (r->profile == GYRE_PROFILE_LLAMA_CPP && !given) {
        why = "without pad_token_id the converter keeps the rows of padding, and counts from the first";
        gyre_scope_warn(r->root, "pad_token_id",
                        "missing: llama.cpp's converter counts positions from row 0, not from row 2");
        offset = 0;
    } else if (gyre_scope_has(r->root, "pad_token_id") && !given) {
        gyre_scope_warn(r->root, "pad_token_id", "null: positions are counted from the row after it; 1 is assumed");
    }
    const gyre_place place = gyre_scope_place(r->root, "pad_token_id");
    gyre_build_set_number(r->build, r->group, "offset", given ? GYRE_ORIGIN_DERIVED : GYRE_ORIGIN_FAMILY,
                          given ? &place : NULL, why, (double)offset);
    return offset;
}

int64_t gyre_reader_first_row(const gyre_config_reader *r, gyre_first_row_rule rule) {
    if (rule == GYRE_ROW_AFTER_PADDING) return row_after_padding(r);
    const int64_t offset = rule == GYRE_ROW_2 ? 2 : 0;
    gyre_build_set_number(r->build, r->group, "offset", GYRE_ORIGIN_FAMILY, NULL, NULL, (double)offset);
    return offset;
}

/* Sets and records the rows of the table and the first token's row.  Fails if no row is left for a token. */
static void read_table_rows(const gyre_config_reader *r, const char *const *names, gyre_first_row_rule rule,
                            struct gyre_input_config *out) {
    const int64_t positions = gyre_reader_read_size(r, "max_length", names, r->family->positions);
    const char *key = gyre_scope_first(r->root, names);
    out->offset = gyre_reader_first_row(r, rule);
    out->positions = rule == GYRE_ROW_2 ? positions + 2 : positions;
    if (out->offset >= out->positions && !gyre_build_status(r->build))
        gyre_scope_fail(r->root, GYRE_EFORMAT, key ? key : names[0],
                        "a table of %" PRId64 " rows has none left: tokens begin at row %" PRId64, out->positions,
                        out->offset);
    gyre_build_set_number(r->build, r->group, "table_rows", GYRE_ORIGIN_DERIVED, NULL, NULL, (double)out->positions);
}

void gyre_reader_read_learned_table(const gyre_config_reader *r, const char *const *names_of_positions,
                                    gyre_first_row_rule rule) {
    struct gyre_input_config *input = &r->group->config.input;
    read_table_rows(r, names_of_positions, rule, input);
    if (input->dim == 0) input->dim = gyre_reader_read_size(r, NULL, gyre_model_dim_keys, r->defaults->model_dim);
    r->group->config.trained_length = input->positions - input->offset;
    gyre_build_set_number(r->build, r->group, "trained_length", GYRE_ORIGIN_DERIVED, NULL, NULL,
                          (double)r->group->config.trained_length);
}

void gyre_reader_note_learned_table(const gyre_config_reader *r, gyre_first_row_rule rule) {
    struct gyre_input_config input = {0};
    read_table_rows(r, gyre_max_positions_keys, rule, &input);
    r->group->config.trained_length = input.positions - input.offset;
    gyre_build_warn(r->build, NULL,
                    "two encodings: a learned table of %" PRId64 " rows, tokens from row %" PRId64
                    ", is added at the input as well; the group describes the scores alone",
                    input.positions, input.offset);
}
