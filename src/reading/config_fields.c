/* config_fields.c: the keys and words of config.json that are Gyre's own. */
#include "reading/config_fields.h"

#include <stddef.h>
#include <string.h>

const gyre_config_word gyre_rope_types[] = {{"default", GYRE_UNSCALED},
                                            {"linear", GYRE_LINEAR},
                                            {"ntk", GYRE_NTK},
                                            {"dynamic", GYRE_DYNAMIC_NTK},
                                            {"by-parts", GYRE_BY_PARTS},
                                            {"by-parts-paper", GYRE_BY_PARTS_PAPER},
                                            {"yarn", GYRE_YARN},
                                            {"llama3", GYRE_LLAMA3},
                                            {"longrope", GYRE_LONGROPE},
                                            {"proportional", GYRE_PROPORTIONAL},
                                            {"ntk-mixed", GYRE_NTK_MIXED},
                                            {"dynamic-yarn", GYRE_DYNAMIC_YARN},
                                            {NULL, 0}};
static const gyre_config_word layouts[] = {{"interleaved", GYRE_SIN_INTERLEAVED},
                                           {"concatenated", GYRE_SIN_CONCATENATED},
                                           {"tensor2tensor", GYRE_SIN_TENSOR2TENSOR},
                                           {"cosines-first", GYRE_COS_CONCATENATED},
                                           {"cosines-first-tensor2tensor", GYRE_COS_TENSOR2TENSOR},
                                           {NULL, 0}};
static const gyre_config_word pairings[] = {
    {"half", GYRE_HALF}, {"interleaved", GYRE_INTERLEAVED}, {"interleaved-to-half", GYRE_INTERLEAVED_TO_HALF}, {NULL, 0}};
static const gyre_config_word axes_layouts[] = {
    {"chunked", GYRE_AXES_CHUNKED}, {"interleaved", GYRE_AXES_INTERLEAVED}, {"axial", GYRE_AXES_AXIAL}, {NULL, 0}};
static const gyre_config_word fars[] = {{"as-near", GYRE_FAR_AS_NEAR},
                                        {"clamped", GYRE_FAR_CLAMPED},
                                        {"leaky", GYRE_FAR_LEAKY},
                                        {"grouped", GYRE_FAR_GROUPED},
                                        {NULL, 0}};
static const gyre_config_word policies[] = {
    {"declared", GYRE_LENGTH_DECLARED}, {"causal", GYRE_LENGTH_CAUSAL}, {"prefix", GYRE_LENGTH_PREFIX}, {NULL, 0}};
static const gyre_config_word temperatures[] = {{"none", GYRE_TEMPERATURE_NONE},
                                                {"log", GYRE_TEMPERATURE_LOG},
                                                {"llama4", GYRE_TEMPERATURE_LLAMA4},
                                                {"ministral", GYRE_TEMPERATURE_MINISTRAL},
                                                {NULL, 0}};
static const gyre_config_word decays[] = {{"log", GYRE_DECAY_LOG}, {"power", GYRE_DECAY_POWER}, {NULL, 0}};
static const gyre_config_word sides[] = {
    {"query", GYRE_ON_QUERY}, {"key", GYRE_ON_KEY}, {"value", GYRE_ON_VALUE}, {NULL, 0}};

#define AT(member) offsetof(struct gyre_config, member)

/* At the input and on scores. */
const gyre_config_field gyre_table_fields[] = {{"position_table_rows", AT(input.positions), GYRE_CONFIG_SIZE, NULL},
                                               {"position_table_length", AT(input.length), GYRE_CONFIG_SIZE, NULL},
                                               {"position_table_hierarchy", AT(input.hierarchy), GYRE_CONFIG_NUMBER, NULL},
                                               {"position_offset", AT(input.offset), GYRE_CONFIG_SIZE, NULL},
                                               {"position_zero_padding", AT(input.zero_padding), GYRE_CONFIG_FLAG, NULL},
                                               {"position_scale", AT(input.scale), GYRE_CONFIG_NUMBER, NULL},
                                               {"position_trained_scale", AT(input.trained_scale), GYRE_CONFIG_FLAG, NULL},
                                               {"sinusoid_base", AT(input.base), GYRE_CONFIG_NUMBER, NULL},
                                               {"sinusoid_layout", AT(input.layout), GYRE_CONFIG_WORD, layouts},
                                               {"alibi_max_bias", AT(score.max_bias), GYRE_CONFIG_NUMBER, NULL},
                                               {"alibi_before_scale", AT(score.before_scale), GYRE_CONFIG_FLAG, NULL},
                                               {"score_buckets", AT(score.buckets), GYRE_CONFIG_SIZE, NULL},
                                               {"score_max_distance", AT(score.max_distance), GYRE_CONFIG_SIZE, NULL},
                                               {"score_bidirectional", AT(score.bidirectional), GYRE_CONFIG_FLAG, NULL},
                                               {"score_width", AT(score.width), GYRE_CONFIG_SIZE, NULL},
                                               {"score_terms", AT(score.terms), GYRE_CONFIG_SET, sides},
                                               {"score_decay", AT(score.decay), GYRE_CONFIG_WORD, decays},
                                               {NULL, 0, GYRE_CONFIG_SIZE, NULL}};

/* Of queries under any kind. */
const gyre_config_field gyre_query_fields[] = {{"query_temperature", AT(query.temperature), GYRE_CONFIG_WORD, temperatures},
                                               {"query_length", AT(query.length), GYRE_CONFIG_SIZE, NULL},
                                               {"query_slope", AT(query.slope), GYRE_CONFIG_NUMBER, NULL},
                                               {NULL, 0, GYRE_CONFIG_SIZE, NULL}};

/* Of rotations, beside what transformers has words for. */
const gyre_config_field gyre_rope_fields[] = {{"rope_first", AT(rope.first), GYRE_CONFIG_SIZE, NULL},
                                              {"rope_layout", AT(rope.layout), GYRE_CONFIG_WORD, pairings},
                                              {"rope_clockwise", AT(rope.clockwise), GYRE_CONFIG_FLAG, NULL},
                                              {"rope_mixed_exponent", AT(rope.mixed_exponent), GYRE_CONFIG_NUMBER, NULL},
                                              {"rope_resonance", AT(rope.resonance), GYRE_CONFIG_FLAG, NULL},
                                              {"rope_xpos_base", AT(rope.xpos_base), GYRE_CONFIG_NUMBER, NULL},
                                              {"rope_xpos_center", AT(rope.xpos_center), GYRE_CONFIG_WHOLE, NULL},
                                              {"rope_axes", AT(rope.axes), GYRE_CONFIG_SIZE, NULL},
                                              {"rope_axes_layout", AT(rope.axes_layout), GYRE_CONFIG_WORD, axes_layouts},
                                              {"rope_far", AT(rope.far), GYRE_CONFIG_WORD, fars},
                                              {"rope_far_window", AT(rope.window), GYRE_CONFIG_SIZE, NULL},
                                              {"rope_far_factor", AT(rope.far_factor), GYRE_CONFIG_NUMBER, NULL},
                                              {"length_policy", AT(rope.length_policy), GYRE_CONFIG_WORD, policies},
                                              {"length_block", AT(rope.length_block), GYRE_CONFIG_SIZE, NULL},
                                              {NULL, 0, GYRE_CONFIG_SIZE, NULL}};
#undef AT

int64_t *gyre_config_count(gyre_config *config, const gyre_config_field *field) {
    return (int64_t *)(void *)((char *)config + field->offset);
}
double *gyre_config_number(gyre_config *config, const gyre_config_field *field) {
    return (double *)(void *)((char *)config + field->offset);
}
/* Flags, sets and enumerations: the library's enumerations are all of this size. */
unsigned *gyre_config_bits(gyre_config *config, const gyre_config_field *field) {
    _Static_assert(sizeof(gyre_sinusoid) == sizeof(unsigned) && sizeof(gyre_far) == sizeof(unsigned), "enumerations");
    return (unsigned *)(void *)((char *)config + field->offset);
}

const gyre_config_word *gyre_config_word_of(const gyre_config_word *words, const char *text) {
    while (words->text && strcmp(words->text, text) != 0)
        words++;
    return words->text ? words : NULL;
}

const char *gyre_config_text_of(const gyre_config_word *words, int value) {
    while (words->text && words->value != value)
        words++;
    return words->text;
}

int gyre_scaling_has_original_length(gyre_scaling scaling) {
    return scaling == GYRE_BY_PARTS || scaling == GYRE_BY_PARTS_PAPER || scaling == GYRE_YARN || scaling == GYRE_LLAMA3 ||
           scaling == GYRE_LONGROPE || scaling == GYRE_DYNAMIC_YARN;
}

int gyre_scaling_has_attention_factor(gyre_scaling scaling) {
    return scaling == GYRE_YARN || scaling == GYRE_LONGROPE || scaling == GYRE_DYNAMIC_YARN;
}
