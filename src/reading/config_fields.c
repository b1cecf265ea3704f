/* config_fields.c: Gyre's own keys and names in config.json. */
#include "reading/config_fields.h"

#include <stddef.h>
#include <string.h>

const gyre_config_enum_name gyre_rope_types[] = {{"default", GYRE_SCALING_NONE},
                                                 {"linear", GYRE_SCALING_LINEAR},
                                                 {"ntk", GYRE_SCALING_NTK},
                                                 {"dynamic", GYRE_SCALING_DYNAMIC_NTK},
                                                 {"by-parts", GYRE_SCALING_BY_PARTS},
                                                 {"by-parts-paper", GYRE_SCALING_BY_PARTS_PAPER},
                                                 {"yarn", GYRE_SCALING_YARN},
                                                 {"llama3", GYRE_SCALING_LLAMA3},
                                                 {"longrope", GYRE_SCALING_LONGROPE},
                                                 {"proportional", GYRE_SCALING_PROPORTIONAL},
                                                 {"ntk-mixed", GYRE_SCALING_NTK_MIXED},
                                                 {"dynamic-yarn", GYRE_SCALING_DYNAMIC_YARN},
                                                 {NULL, 0}};
static const gyre_config_enum_name sinusoid_layouts[] = {{"interleaved", GYRE_SINUSOID_INTERLEAVED},
                                                         {"concatenated", GYRE_SINUSOID_SIN_COS},
                                                         {"tensor2tensor", GYRE_SINUSOID_SIN_COS_T2T},
                                                         {"cosines-first", GYRE_SINUSOID_COS_SIN},
                                                         {"cosines-first-tensor2tensor", GYRE_SINUSOID_COS_SIN_T2T},
                                                         {NULL, 0}};
static const gyre_config_enum_name rope_layouts[] = {{"half", GYRE_LAYOUT_HALF},
                                                     {"interleaved", GYRE_LAYOUT_INTERLEAVED},
                                                     {"interleaved-to-half", GYRE_LAYOUT_INTERLEAVED_TO_HALF},
                                                     {NULL, 0}};
static const gyre_config_enum_name axes_layouts[] = {
    {"chunked", GYRE_AXES_CHUNKED}, {"interleaved", GYRE_AXES_INTERLEAVED}, {"axial", GYRE_AXES_AXIAL}, {NULL, 0}};
static const gyre_config_enum_name far_modes[] = {{"as-near", GYRE_FAR_AS_NEAR},
                                                  {"clamped", GYRE_FAR_CLAMPED},
                                                  {"leaky", GYRE_FAR_LEAKY},
                                                  {"grouped", GYRE_FAR_GROUPED},
                                                  {"chunked", GYRE_FAR_CHUNKED},
                                                  {"chunked-paper", GYRE_FAR_CHUNKED_PAPER},
                                                  {NULL, 0}};
static const gyre_config_enum_name clips[] = {
    {"none", GYRE_CLIP_NONE}, {"soft", GYRE_CLIP_SOFT}, {"hard", GYRE_CLIP_HARD}, {NULL, 0}};
static const gyre_config_enum_name starts[] = {
    {"paper", GYRE_LONGROPE_START_PAPER}, {"released", GYRE_LONGROPE_START_RELEASED}, {NULL, 0}};
static const gyre_config_enum_name length_policies[] = {{"declared", GYRE_LENGTH_POLICY_DECLARED},
                                                        {"causal", GYRE_LENGTH_POLICY_CAUSAL},
                                                        {"prefix", GYRE_LENGTH_POLICY_PREFIX},
                                                        {NULL, 0}};
static const gyre_config_enum_name temperatures[] = {{"none", GYRE_TEMPERATURE_NONE},
                                                     {"log", GYRE_TEMPERATURE_LOG},
                                                     {"llama4", GYRE_TEMPERATURE_LLAMA4},
                                                     {"ministral", GYRE_TEMPERATURE_MINISTRAL},
                                                     {NULL, 0}};
static const gyre_config_enum_name decays[] = {{"log", GYRE_DECAY_LOG}, {"power", GYRE_DECAY_POWER}, {NULL, 0}};
static const gyre_config_enum_name slope_scalings[] = {{"none", GYRE_SLOPE_SCALING_NONE},
                                                       {"linear", GYRE_SLOPE_SCALING_LINEAR},
                                                       {"ntk", GYRE_SLOPE_SCALING_NTK},
                                                       {"ntk-released", GYRE_SLOPE_SCALING_NTK_RELEASED},
                                                       {NULL, 0}};
static const gyre_config_enum_name score_terms[] = {
    {"query", GYRE_TERM_QUERY}, {"key", GYRE_TERM_KEY}, {"value", GYRE_TERM_VALUE}, {NULL, 0}};

#define AT(member) offsetof(struct gyre_config, member)

/* Positions at the input and on scores. */
const gyre_config_field gyre_input_score_fields[] = {
    {"position_table_rows", AT(input.positions), GYRE_CONFIG_SIZE, NULL},
    {"position_table_length", AT(input.resized_length), GYRE_CONFIG_SIZE, NULL},
    {"position_table_hierarchy", AT(input.hierarchy), GYRE_CONFIG_NUMBER, NULL},
    {"position_offset", AT(input.offset), GYRE_CONFIG_SIZE, NULL},
    {"position_zero_padding", AT(input.zero_padding), GYRE_CONFIG_FLAG, NULL},
    {"position_scale", AT(input.scale), GYRE_CONFIG_NUMBER, NULL},
    {"position_trained_scale", AT(input.trained_scale), GYRE_CONFIG_FLAG, NULL},
    {"sinusoid_base", AT(input.base), GYRE_CONFIG_NUMBER, NULL},
    {"sinusoid_layout", AT(input.layout), GYRE_CONFIG_ENUM, sinusoid_layouts},
    {"alibi_max_bias", AT(score.max_bias), GYRE_CONFIG_NUMBER, NULL},
    {"alibi_before_scale", AT(score.before_scale), GYRE_CONFIG_FLAG, NULL},
    {"alibi_scaling", AT(slope.scaling), GYRE_CONFIG_ENUM, slope_scalings},
    {"alibi_factor", AT(slope.factor), GYRE_CONFIG_NUMBER, NULL},
    {"score_buckets", AT(score.buckets), GYRE_CONFIG_SIZE, NULL},
    {"score_max_distance", AT(score.max_distance), GYRE_CONFIG_SIZE, NULL},
    {"score_bidirectional", AT(score.bidirectional), GYRE_CONFIG_FLAG, NULL},
    {"score_max_positions", AT(score.max_positions), GYRE_CONFIG_SIZE, NULL},
    {"score_position_buckets", AT(score.position_buckets), GYRE_CONFIG_SIZE, NULL},
    {"score_hidden_units", AT(score.hidden_units), GYRE_CONFIG_SIZE, NULL},
    {"score_sinusoid_dim", AT(score.sinusoid_dim), GYRE_CONFIG_SIZE, NULL},
    {"score_terms", AT(score.terms), GYRE_CONFIG_BITMASK, score_terms},
    {"score_decay", AT(score.decay), GYRE_CONFIG_ENUM, decays},
    {"tapa_amplitudes", AT(tapa.amplitudes), GYRE_CONFIG_SIZE, NULL},
    {"tapa_exponent", AT(tapa.exponent), GYRE_CONFIG_NUMBER, NULL},
    {NULL, 0, GYRE_CONFIG_SIZE, NULL}};

const gyre_config_older_field gyre_older_fields[] = {
    {GYRE_KIND_BERT, {"score_max_distance", AT(score.max_positions), GYRE_CONFIG_SIZE, NULL}},
    {GYRE_KIND_DEBERTA, {"score_buckets", AT(score.position_buckets), GYRE_CONFIG_SIZE, NULL}},
    {GYRE_KIND_FIRE, {"score_width", AT(score.hidden_units), GYRE_CONFIG_SIZE, NULL}},
    {GYRE_KIND_SANDWICH, {"score_width", AT(score.sinusoid_dim), GYRE_CONFIG_SIZE, NULL}},
    {GYRE_KIND_NOPE, {NULL, 0, GYRE_CONFIG_SIZE, NULL}}};

/* Queries, for every kind of encoding. */
const gyre_config_field gyre_query_fields[] = {{"query_temperature", AT(query.temperature), GYRE_CONFIG_ENUM, temperatures},
                                               {"query_length", AT(query.reference_length), GYRE_CONFIG_SIZE, NULL},
                                               {"query_slope", AT(query.slope), GYRE_CONFIG_NUMBER, NULL},
                                               {NULL, 0, GYRE_CONFIG_SIZE, NULL}};

/* Rotations: what transformers has no key for. */
const gyre_config_field gyre_rope_fields[] = {{"rope_first", AT(rope.first_channel), GYRE_CONFIG_SIZE, NULL},
                                              {"rope_layout", AT(rope.layout), GYRE_CONFIG_ENUM, rope_layouts},
                                              {"rope_clockwise", AT(rope.clockwise), GYRE_CONFIG_FLAG, NULL},
                                              {"rope_mixed_exponent", AT(rope.mixed_exponent), GYRE_CONFIG_NUMBER, NULL},
                                              {"rope_resonance", AT(rope.resonance), GYRE_CONFIG_FLAG, NULL},
                                              {"rope_xpos_base", AT(rope.xpos_base), GYRE_CONFIG_NUMBER, NULL},
                                              {"rope_xpos_center", AT(rope.xpos_center), GYRE_CONFIG_INTEGER, NULL},
                                              {"rope_axes", AT(rope.axes), GYRE_CONFIG_SIZE, NULL},
                                              {"rope_axes_layout", AT(rope.axes_layout), GYRE_CONFIG_ENUM, axes_layouts},
                                              {"rope_far", AT(rope.far), GYRE_CONFIG_ENUM, far_modes},
                                              {"rope_far_window", AT(rope.far_window), GYRE_CONFIG_SIZE, NULL},
                                              {"rope_far_factor", AT(rope.far_factor), GYRE_CONFIG_NUMBER, NULL},
                                              {"rope_chunk_size", AT(chunk.size), GYRE_CONFIG_SIZE, NULL},
                                              {"rope_chunk_local", AT(chunk.local), GYRE_CONFIG_SIZE, NULL},
                                              {"rope_chunk_length", AT(chunk.original_length), GYRE_CONFIG_SIZE, NULL},
                                              {"rope_clip", AT(clip.mode), GYRE_CONFIG_ENUM, clips},
                                              {"rope_clip_pairs", AT(clip.pairs), GYRE_CONFIG_SIZE, NULL},
                                              {"rope_start_tokens", AT(longrope.start_tokens), GYRE_CONFIG_SIZE, NULL},
                                              {"rope_starts", AT(longrope.starts), GYRE_CONFIG_ENUM, starts},
                                              {NULL, 0, GYRE_CONFIG_SIZE, NULL}};

/* Encodings that depend on the length in use: rotations and ALiBi. */
const gyre_config_field gyre_length_fields[] = {{"length_policy", AT(rope.length_policy), GYRE_CONFIG_ENUM, length_policies},
                                                {"length_block", AT(rope.length_block), GYRE_CONFIG_SIZE, NULL},
                                                {NULL, 0, GYRE_CONFIG_SIZE, NULL}};
#undef AT

const gyre_config_field *gyre_config_find_older(gyre_kind kind, const char *key) {
    for (const gyre_config_older_field *f = gyre_older_fields; f->field.key; f++)
        if (f->kind == kind && strcmp(f->field.key, key) == 0) return &f->field;
    return NULL;
}

int64_t *gyre_config_int64_field(gyre_config *config, const gyre_config_field *field) {
    return (int64_t *)(void *)((char *)config + field->offset);
}
double *gyre_config_double_field(gyre_config *config, const gyre_config_field *field) {
    return (double *)(void *)((char *)config + field->offset);
}
/* For flags, bit sets and enumerations: the library's enumerations have the size of unsigned. */
unsigned *gyre_config_unsigned_field(gyre_config *config, const gyre_config_field *field) {
    _Static_assert(sizeof(gyre_sinusoid) == sizeof(unsigned) && sizeof(gyre_far) == sizeof(unsigned), "enumerations");
    return (unsigned *)(void *)((char *)config + field->offset);
}

const char *gyre_config_clip_name(gyre_clip mode) {
    return gyre_config_enum_text(clips, (int)mode);
}

const char *gyre_config_start_name(gyre_longrope_start mode) {
    return gyre_config_enum_text(starts, (int)mode);
}

const gyre_config_enum_name *gyre_config_find_enum(const gyre_config_enum_name *enum_names, const char *text) {
    while (enum_names->text && strcmp(enum_names->text, text) != 0)
        enum_names++;
    return enum_names->text ? enum_names : NULL;
}

const char *gyre_config_enum_text(const gyre_config_enum_name *enum_names, int value) {
    while (enum_names->text && enum_names->value != value)
        enum_names++;
    return enum_names->text;
}

int gyre_scaling_has_original_length(gyre_scaling scaling) {
    return scaling == GYRE_SCALING_BY_PARTS || scaling == GYRE_SCALING_BY_PARTS_PAPER || scaling == GYRE_SCALING_YARN ||
           scaling == GYRE_SCALING_LLAMA3 || scaling == GYRE_SCALING_LONGROPE || scaling == GYRE_SCALING_DYNAMIC_YARN;
}

int gyre_scaling_has_attention_factor(gyre_scaling scaling) {
    return scaling == GYRE_SCALING_YARN || scaling == GYRE_SCALING_LONGROPE || scaling == GYRE_SCALING_DYNAMIC_YARN;
}
