/* test_config_fields.c: every field of a config through config.json, one by one. */
#include "check_same_config.h"
#include "model/architecture/model_config_json.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>

static const char path[] = "the/config.json";

/* Writes a config as it is, for an encoding of any kind, and reads it again. */
static json_t *print_and_parse(const gyre_config *position, const gyre_config *plain) {
    gyre_model_config config = gyre_model_config_default(), back;
    gyre_config_arrays arrays;
    gyre_error err = {0, ""};
    char *text;
    config.position = *position;
    assert_ok(gyre_model_config_to_json(&config, GYRE_DTYPE_F32, &text, &err));
    if (gyre_model_config_parse(text, strlen(text), path, &back, &arrays, &err) != GYRE_OK)
        fail_msg("%s\n%s", err.text, text);
    assert_reads(&config.position, &back.position, plain);
    gyre_config_arrays_free(&arrays);
    json_t *root = json_loads(text, 0, NULL);
    free(text);
    return root;
}

/* Every field under its key: a config with this field alone, whether or not an encoding accepts it. */
static void check_fields(gyre_config (*blank)(void), const char *key, void (*set)(gyre_config *c)) {
    gyre_config c = blank(), none = c;
    set(&c);
    json_t *root = print_and_parse(&c, &none), *plain = print_and_parse(&none, &none);
    if (!json_object_get(root, key)) fail_msg("no %s", key);
    if (json_object_get(plain, key)) fail_msg("%s where nothing is to be said", key);
    assert_string_equal(test_string(root, "model_type"), "gyre");
    json_decref(root);
    json_decref(plain);
}

static const double some_slopes[4] = {0.5, 0.25, 0.1, 1.0 / 3.0};

#define FIELD(name, statement)                                                                                              \
    static void name(gyre_config *c) {                                                                                      \
        statement;                                                                                                          \
    }
FIELD(set_rows, c->input.positions = 99)
FIELD(set_length, c->input.resized_length = 1234)
FIELD(set_hierarchy, c->input.hierarchy = 0.4)
FIELD(set_offset, c->input.offset = 2)
FIELD(set_zero_padding, c->input.zero_padding = 1)
FIELD(set_scale, c->input.scale = -0.3)
FIELD(set_trained_scale, c->input.trained_scale = 1)
FIELD(set_sin_base, c->input.base = 1234.5)
FIELD(set_sin_layout, c->input.layout = GYRE_SINUSOID_COS_SIN_T2T)
FIELD(set_temperature, c->query.temperature = GYRE_TEMPERATURE_MINISTRAL)
FIELD(set_query_length, c->query.reference_length = 4096)
FIELD(set_query_slope, c->query.slope = 0.7)
FIELD(set_max_bias, c->score.max_bias = 16)
FIELD(set_before_scale, c->score.before_scale = 1)
FIELD(set_slopes, c->score.slopes = some_slopes)
FIELD(set_slopes_after, c->score.slopes_after = some_slopes)
FIELD(set_buckets, c->score.buckets = 32)
FIELD(set_max_distance, c->score.max_distance = 77)
FIELD(set_bidirectional, c->score.bidirectional = 1)
FIELD(set_positions, c->score.max_positions = 40)
FIELD(set_position_buckets, c->score.position_buckets = 16)
FIELD(set_units, c->score.hidden_units = 16)
FIELD(set_sinusoid, c->score.sinusoid_dim = 64)
FIELD(set_terms, c->score.terms = GYRE_TERM_QUERY | GYRE_TERM_VALUE)
FIELD(set_decay, c->score.decay = GYRE_DECAY_POWER)
FIELD(set_amplitudes, c->tapa.amplitudes = 5)
FIELD(set_exponent, c->tapa.exponent = 0.3)
FIELD(set_first, c->rope.first_channel = 8)
FIELD(set_layout, c->rope.layout = GYRE_LAYOUT_INTERLEAVED_TO_HALF)
FIELD(set_clockwise, c->rope.clockwise = 1)
FIELD(set_mixed, c->rope.mixed_exponent = 0.5)
FIELD(set_resonance, c->rope.resonance = 1)
FIELD(set_xpos, c->rope.xpos_base = 512)
FIELD(set_center, c->rope.xpos_center = -7)
FIELD(set_axes, (c->rope.axes = 3, c->rope.axis_pairs[0] = 8, c->rope.axis_pairs[1] = c->rope.axis_pairs[2] = 4))
FIELD(set_axes_layout, c->rope.axes_layout = GYRE_AXES_AXIAL)
FIELD(set_far, c->rope.far = GYRE_FAR_GROUPED)
FIELD(set_window, c->rope.far_window = 512)
FIELD(set_far_factor, c->rope.far_factor = 2.5)
FIELD(set_chunk_size, c->chunk.size = 4096)
FIELD(set_chunk_local, c->chunk.local = 512)
FIELD(set_chunk_length, c->chunk.original_length = 8192)
FIELD(set_clip, c->clip.mode = GYRE_CLIP_HARD)
FIELD(set_clip_pairs, c->clip.pairs = 12)
FIELD(set_start_tokens, c->longrope.start_tokens = 4)
FIELD(set_starts, c->longrope.starts = GYRE_LONGROPE_START_RELEASED)
FIELD(set_slope_scaling, c->slope.scaling = GYRE_SLOPE_SCALING_NTK_RELEASED)
FIELD(set_slope_factor, c->slope.factor = 2.5)
FIELD(set_policy, c->rope.length_policy = GYRE_LENGTH_POLICY_PREFIX)
FIELD(set_block, c->rope.length_block = 48)
#undef FIELD

/* A config of the default model with all defaults filled in; arrays left out. */
static gyre_config complete(gyre_kind kind) {
    const gyre_model_config sizes = gyre_model_config_default();
    gyre_config c = GYRE_INIT(gyre_config);
    c.kind = kind;
    c.head_dim = sizes.head_dim;
    c.heads = sizes.heads;
    c.input.dim = sizes.model_dim;
    c.trained_length = 300;
    gyre_encoding *encoding = test_encoding(&c);
    c = *gyre_encoding_get_config(encoding);
    c.score.slopes = c.score.slopes_after = NULL;
    gyre_encoding_free(encoding);
    return c;
}
static gyre_config nothing(void) {
    return complete(GYRE_KIND_NOPE);
}
static gyre_config alibi(void) {
    return complete(GYRE_KIND_ALIBI);
}
static gyre_config rope(void) {
    return complete(GYRE_KIND_ROPE);
}

static void test_writes_every_field(void **state) {
    (void)state;
    static const struct {
        gyre_config (*blank)(void);
        const char *key;
        void (*set)(gyre_config *c);
    } fields[] = {{nothing, "position_table_rows", set_rows},
                  {nothing, "position_table_length", set_length},
                  {nothing, "position_table_hierarchy", set_hierarchy},
                  {nothing, "position_offset", set_offset},
                  {nothing, "position_zero_padding", set_zero_padding},
                  {nothing, "position_scale", set_scale},
                  {nothing, "position_trained_scale", set_trained_scale},
                  {nothing, "sinusoid_base", set_sin_base},
                  {nothing, "sinusoid_layout", set_sin_layout},
                  {nothing, "query_temperature", set_temperature},
                  {nothing, "query_length", set_query_length},
                  {nothing, "query_slope", set_query_slope},
                  {alibi, "alibi_max_bias", set_max_bias},
                  {alibi, "alibi_before_scale", set_before_scale},
                  {alibi, "alibi_slopes", set_slopes},
                  {alibi, "alibi_slopes_after", set_slopes_after},
                  {alibi, "alibi_scaling", set_slope_scaling},
                  {alibi, "alibi_factor", set_slope_factor},
                  {alibi, "length_policy", set_policy},
                  {alibi, "length_block", set_block},
                  {nothing, "score_buckets", set_buckets},
                  {nothing, "score_max_distance", set_max_distance},
                  {nothing, "score_bidirectional", set_bidirectional},
                  {nothing, "score_max_positions", set_positions},
                  {nothing, "score_position_buckets", set_position_buckets},
                  {nothing, "score_hidden_units", set_units},
                  {nothing, "score_sinusoid_dim", set_sinusoid},
                  {nothing, "score_terms", set_terms},
                  {nothing, "score_decay", set_decay},
                  {nothing, "tapa_amplitudes", set_amplitudes},
                  {nothing, "tapa_exponent", set_exponent},
                  {rope, "query_temperature", set_temperature},
                  {rope, "rope_first", set_first},
                  {rope, "rope_layout", set_layout},
                  {rope, "rope_clockwise", set_clockwise},
                  {rope, "rope_mixed_exponent", set_mixed},
                  {rope, "rope_resonance", set_resonance},
                  {rope, "rope_xpos_base", set_xpos},
                  {rope, "rope_xpos_center", set_center},
                  {rope, "rope_axes", set_axes},
                  {rope, "rope_section", set_axes},
                  {rope, "rope_axes_layout", set_axes_layout},
                  {rope, "rope_far", set_far},
                  {rope, "rope_far_window", set_window},
                  {rope, "rope_far_factor", set_far_factor},
                  {rope, "rope_chunk_size", set_chunk_size},
                  {rope, "rope_chunk_local", set_chunk_local},
                  {rope, "rope_chunk_length", set_chunk_length},
                  {rope, "rope_clip", set_clip},
                  {rope, "rope_clip_pairs", set_clip_pairs},
                  {rope, "rope_start_tokens", set_start_tokens},
                  {rope, "rope_starts", set_starts},
                  {rope, "length_policy", set_policy},
                  {rope, "length_block", set_block}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        check_fields(fields[i].blank, fields[i].key, fields[i].set);
    const gyre_config plain = rope();
    gyre_config c = plain;
    c.rope.scaling = GYRE_SCALING_NTK_MIXED;
    c.rope.factor = 4;
    c.rope.mixed_exponent = 0.375;
    json_t *root = print_and_parse(&c, &plain);
    assert_string_equal(test_string(json_object_get(root, "rope_scaling"), "rope_type"), "ntk-mixed");
    json_decref(root);
}

/* Every name, written and read. */
static void test_writes_every_word(void **state) {
    (void)state;
    for (int i = 0; i <= GYRE_SINUSOID_COS_SIN_T2T; i++) {
        const gyre_config blank = nothing(), turning = rope();
        gyre_config c = blank, r = turning;
        c.input.layout = (gyre_sinusoid)i;
        c.query.temperature = (gyre_temperature)(i % (GYRE_TEMPERATURE_MINISTRAL + 1));
        c.score.terms = (unsigned)i + 1;
        json_decref(print_and_parse(&c, &blank));
        r.rope.layout = (gyre_layout)(i % (GYRE_LAYOUT_INTERLEAVED_TO_HALF + 1));
        r.rope.axes_layout = (gyre_axes)(i % (GYRE_AXES_AXIAL + 1));
        r.rope.far = (gyre_far)(i % (GYRE_FAR_CHUNKED_PAPER + 1));
        r.clip.mode = (gyre_clip)(i % (GYRE_CLIP_HARD + 1));
        json_decref(print_and_parse(&r, &turning));
    }
}

/* Files of older models have a flag for interleaved pairs. */
static void test_reads_the_older_flag(void **state) {
    (void)state;
    static const char text[] = "{\"model_type\":\"gyre\",\"position_embedding_type\":\"rope\",\"rope_interleaved\":true,"
                               "\"vocab_size\":256,\"hidden_size\":32,\"intermediate_size\":48,\"num_hidden_layers\":2,"
                               "\"num_attention_heads\":4,\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":true}";
    gyre_model_config config;
    gyre_config_arrays arrays;
    assert_ok(gyre_model_config_parse(text, strlen(text), path, &config, &arrays, NULL));
    assert_int_equal(config.position.rope.layout, GYRE_LAYOUT_INTERLEAVED);
    gyre_config_arrays_free(&arrays);
}

/* One key served several kinds in older files: the kind decides which field it fills. */
static void test_reads_older_keys(void **state) {
    (void)state;
    static const struct {
        const char *kind, *key;
        size_t offset;
    } older[] = {{"t5", "score_buckets", offsetof(gyre_config, score.buckets)},
                 {"deberta", "score_buckets", offsetof(gyre_config, score.position_buckets)},
                 {"shaw", "score_max_distance", offsetof(gyre_config, score.max_distance)},
                 {"deberta", "score_max_distance", offsetof(gyre_config, score.max_distance)},
                 {"bert", "score_max_distance", offsetof(gyre_config, score.max_positions)},
                 {"fire", "score_width", offsetof(gyre_config, score.hidden_units)},
                 {"sandwich", "score_width", offsetof(gyre_config, score.sinusoid_dim)}};
    for (size_t i = 0; i < sizeof older / sizeof *older; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"model_type\":\"gyre\",\"position_embedding_type\":\"%s\",\"%s\":24,\"vocab_size\":256,"
                 "\"hidden_size\":32,\"intermediate_size\":48,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
                 "\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":true}",
                 older[i].kind, older[i].key);
        gyre_model_config config;
        gyre_config_arrays arrays;
        gyre_error err = {0, ""};
        if (gyre_model_config_parse(text, strlen(text), path, &config, &arrays, &err)) fail_msg("%s", err.text);
        const gyre_config *position = &config.position;
        assert_int_equal(*(const int64_t *)(const void *)((const char *)position + older[i].offset), 24);
        assert_int_equal(position->score.buckets + position->score.max_distance + position->score.max_positions +
                             position->score.position_buckets + position->score.hidden_units + position->score.sinusoid_dim,
                         24);
        gyre_config_arrays_free(&arrays);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes_every_field),
        cmocka_unit_test(test_writes_every_word),
        cmocka_unit_test(test_reads_the_older_flag),
        cmocka_unit_test(test_reads_older_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
