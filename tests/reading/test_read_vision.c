/* test_read_vision.c: vision towers under vision_config. */
#include "check_reading.h"
#include "reading/family.h"

#include <math.h>

/* Reads a tower next to a text model without positions. */
static gyre_reading *read_tower(const char *text) {
    gyre_error err = {0, ""};
    gyre_reading *reading = NULL;
    gyre_build *build = gyre_build_begin("config.json", "config.json", GYRE_PROFILE_HF_5, 0, &err);
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    const gyre_json_source source = {build, text, strlen(text), NULL, NULL};
    const gyre_scope vision = {&source, json_object_get(root, "vision_config"), "vision_config."};
    (void)gyre_build_add_group(build, "all");
    gyre_read_vision(&vision);
    if (gyre_build_finish(build, &reading) != GYRE_OK) fail_msg("%s", err.text);
    json_decref(root);
    return reading;
}

/* -- rows and columns -- */
typedef struct axial_case {
    const char *text;
    int head_dim, interleaved, learned_too;
} axial_case;

/* Both axes have the same d / 4 frequencies, 10000^(-4 i / d). */
static void check_axial(const axial_case *c) {
    double frequencies[256];
    gyre_reading *reading = read_tower(c->text);
    const gyre_layer_reading *vision = group_of(reading, "vision");
    const int each = c->head_dim / 4;
    assert_int_equal(vision->config.kind, GYRE_KIND_ROPE);
    assert_int_equal(vision->config.head_dim, c->head_dim);
    assert_int_equal(vision->config.rope.axes, 2);
    assert_int_equal(vision->config.rope.axes_layout, GYRE_AXES_AXIAL);
    assert_int_equal(vision->config.rope.axis_pairs[0], each);
    assert_int_equal(vision->config.rope.axis_pairs[1], each);
    assert_int_equal(vision->config.rope.layout, c->interleaved ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF);
    gyre_encoding *encoding = test_encoding(&vision->config);
    assert_ok(gyre_encoding_frequencies(encoding, 0, frequencies, NULL));
    for (int i = 0; i < 2 * each; i++)
        test_close(frequencies[i], powl(10000.0L, -4.0L * (i % each) / c->head_dim), 1e-15L, c->text);
    gyre_encoding_free(encoding);
    assert_int_equal(find_warning(reading, "learned table too") != NULL, c->learned_too);
    gyre_reading_free(reading);
}

static void test_rotations_over_rows_and_columns(void **state) {
    (void)state;
    static const axial_case cases[] = {
        /* Qwen2-VL as published: no model_type, and hidden_size is that of the language model. */
        {"{\"vision_config\": {\"depth\": 32, \"embed_dim\": 1280, \"num_heads\": 16, \"hidden_size\": 3584, "
         "\"spatial_merge_size\": 2}}",
         80, 0, 0},
        {"{\"vision_config\": {\"model_type\": \"qwen2_vl\"}}", 80, 0, 0},
        {"{\"vision_config\": {\"model_type\": \"qwen2_vl_vision\", \"embed_dim\": 1280, \"num_heads\": 16, "
         "\"hidden_size\": 3584}}",
         80, 0, 0},
        {"{\"vision_config\": {\"model_type\": \"qwen2_5_vl\", \"hidden_size\": 1280, \"num_heads\": 16}}", 80, 0, 0},
        {"{\"vision_config\": {\"hidden_size\": 1280, \"num_heads\": 16, \"fullatt_block_indexes\": [7], "
         "\"spatial_merge_size\": 2}}",
         80, 0, 0},
        {"{\"vision_config\": {\"model_type\": \"qwen3_vl\", \"hidden_size\": 1152, \"num_heads\": 16}}", 72, 0, 1},
        {"{\"vision_config\": {\"model_type\": \"glm4v_vision\", \"hidden_size\": 1536, \"num_heads\": 12}}", 128, 0, 1},
        {"{\"vision_config\": {\"model_type\": \"kimi_k25_vision\", \"vt_hidden_size\": 1152, "
         "\"vt_num_attention_heads\": 16}}",
         72, 0, 1},
        {"{\"vision_config\": {\"model_type\": \"llama4_vision_model\", \"hidden_size\": 1408, "
         "\"num_attention_heads\": 16, \"rope_theta\": 10000}}",
         88, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_axial(&cases[i]);
}

static void test_fields_of_a_rotation(void **state) {
    (void)state;
    gyre_reading *reading = read_tower("{\n\"vision_config\": {\n\"model_type\": \"llama4_vision_model\",\n"
                                       "\"hidden_size\": 1408, \"num_attention_heads\": 16,\n\"rope_theta\": 500}}");
    const gyre_layer_reading *vision = group_of(reading, "vision");
    assert_field(vision, "base", "500", GYRE_ORIGIN_FILE, "vision_config.rope_theta", 5);
    assert_field(vision, "sections", "22 22", GYRE_ORIGIN_DERIVED, NULL, 0);
    assert_field(vision, "axes", "2", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_field(vision, "axes_layout", "axial", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_field(vision, "layout", "interleaved", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_warns(reading, "from 1", "vision_config.model_type", 3);
    gyre_reading_free(reading);
}

/* -- tables -- */
static void test_tables_of_patches(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int rows, dim;
    } cases[] = {
        /* CLIP's ViT-L/14 at 336 pixels: 24 x 24 patches and a class token. */
        {"{\"vision_config\": {\"model_type\": \"clip_vision_model\", \"image_size\": 336, \"patch_size\": 14, "
         "\"hidden_size\": 1024, \"num_attention_heads\": 16}}",
         577, 1024},
        {"{\"vision_config\": {\"model_type\": \"clip_vision_model\"}}", 50, 768},
        {"{\"vision_config\": {\"model_type\": \"siglip_vision_model\", \"image_size\": 896, \"patch_size\": 14, "
         "\"hidden_size\": 1152, \"num_attention_heads\": 16}}",
         4096, 1152},
        {"{\"vision_config\": {\"model_type\": \"siglip_vision_model\"}}", 196, 768},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gyre_reading *reading = read_tower(cases[i].text);
        const gyre_layer_reading *vision = group_of(reading, "vision");
        assert_int_equal(vision->config.kind, GYRE_KIND_LEARNED);
        assert_int_equal(vision->config.input.positions, cases[i].rows);
        assert_int_equal(vision->config.input.dim, cases[i].dim);
        assert_int_equal(reading->warnings_count, 0);
        gyre_reading_free(reading);
    }
    gyre_reading *reading = read_tower("{\"vision_config\": {\"model_type\": \"clip_vision_model\",\n\"image_size\": 336}}");
    assert_field(group_of(reading, "vision"), "table_rows", "101", GYRE_ORIGIN_DERIVED, "vision_config.image_size", 2);
    gyre_reading_free(reading);
}

/* transformers 5 names the rotation of a tower in its config; layers of convolutions have none. */
static void test_rotations_named_axial(void **state) {
    (void)state;
    gyre_reading *reading =
        read_tower("{\"vision_config\": {\"model_type\": \"new_vision\",\n\"hidden_size\": 768, \"num_heads\": "
                   "12, \"rope_parameters\": {\n\"rope_type\": \"axial\", \"rope_theta\": 500}}}");
    const gyre_layer_reading *vision = group_of(reading, "vision");
    assert_field(vision, "base", "500", GYRE_ORIGIN_FILE, "vision_config.rope_parameters.rope_theta", 3);
    assert_field(vision, "sections", "16 16", GYRE_ORIGIN_DERIVED, NULL, 0);
    assert_field(vision, "layout", "half", GYRE_ORIGIN_FAMILY, NULL, 0);
    assert_warns(reading, "its layout of pairs, half, is assumed", "vision_config.model_type", 1);
    gyre_reading_free(reading);
    reading = read_tower("{\"vision_config\": {\"model_type\": \"new_vision\", \"hidden_size\": 768, \"num_heads\": 12, "
                         "\"rope_parameters\": {\"rope_type\": \"default\"}}}");
    assert_null(find_group(reading, "vision"));
    gyre_reading_free(reading);
    reading = read_tower("{\"vision_config\": {\"model_type\": \"lfm3_vl_vision\", \"layer_types\": [\"conv\", "
                         "\"full_attention\", \"conv\", \"full_attention\"], \"rope_parameters\": {\"rope_theta\": 1e6}}}");
    vision = group_of(reading, "vision");
    assert_int_equal(vision->layers_count, 2);
    assert_int_equal(vision->layers[0], 1);
    assert_int_equal(vision->layers[1], 3);
    gyre_reading_free(reading);
}

/* -- what is not described -- */
static void test_others_are_warned_of(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"{\"vision_config\": {\"model_type\": \"dinov3_vit\"}}", "(dinov3_vit) is not described: patch centres"},
        {"{\"vision_config\": {\"model_type\": \"gemma4_vision\"}}", "base 100"},
        {"{\"vision_config\": {\"model_type\": \"mllama_vision_model\"}}", "trained gate"},
        {"{\"vision_config\": {\"model_type\": \"something new\"}}", "(something new) is not described"},
        {"{\"vision_config\": {}}", "(no model_type) is not described"},
        {"{\"vision_config\": {\"model_type\": 7}}", "(no model_type) is not described"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gyre_reading *reading = read_tower(cases[i].text);
        assert_null(find_group(reading, "vision"));
        assert_int_equal(reading->warnings_count, 1);
        if (!strstr(reading->warnings[0].text, cases[i].words)) fail_msg("%s", reading->warnings[0].text);
        gyre_reading_free(reading);
    }
}

/* A wrong value removes the tower's group, never the text model's. */
static void test_wrong_values_do_not_fail(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{\"vision_config\": {\"model_type\": \"qwen2_vl\", \"embed_dim\": \"1280\"}}",
        "{\"vision_config\": {\"model_type\": \"qwen2_vl\", \"num_heads\": 0}}",
        "{\"vision_config\": {\"model_type\": \"qwen2_vl\", \"num_heads\": 7}}",
        "{\"vision_config\": {\"model_type\": \"qwen2_vl\", \"num_heads\": 1e300}}",
        "{\"vision_config\": {\"model_type\": \"qwen2_vl\", \"embed_dim\": 12, \"num_heads\": 2}}",
        "{\"vision_config\": {\"model_type\": \"kimi_k25\"}}",
        "{\"vision_config\": {\"model_type\": \"llama4\", \"rope_theta\": -1}}",
        "{\"vision_config\": {\"model_type\": \"clip_vision_model\", \"image_size\": 8}}",
        "{\"vision_config\": {\"model_type\": \"clip_vision_model\", \"patch_size\": -1}}",
        "{\"vision_config\": {\"model_type\": \"clip_vision_model\", \"image_size\": 1000000, \"patch_size\": 1}}",
        "{\"vision_config\": {\"model_type\": \"siglip_vision_model\", \"hidden_size\": 99999999999}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        gyre_reading *reading = read_tower(texts[i]);
        if (find_group(reading, "vision")) fail_msg("%s", texts[i]);
        if (!find_warning(reading, "is not described")) fail_msg("%s", texts[i]);
        gyre_reading_free(reading);
    }
    gyre_reading *reading = read_tower("{\"text\": 1}"); /* no tower at all */
    assert_int_equal(reading->warnings_count, 0);
    gyre_reading_free(reading);
}

/* -- beside a text model -- */
static void test_follows_the_text_model(void **state) {
    (void)state;
    gyre_reading *reading =
        read_text("{\"model_type\": \"qwen2_vl\", \"hidden_size\": 3584, \"num_attention_heads\": 28, "
                  "\"max_position_embeddings\": 32768, \"rope_theta\": 1000000.0, "
                  "\"rope_scaling\": {\"type\": \"mrope\", \"mrope_section\": [16, 24, 24]},\n"
                  "\"vision_config\": {\"embed_dim\": 1280, \"num_heads\": 16, \"spatial_merge_size\": 2}}");
    assert_int_equal(reading->groups_count, 2);
    assert_int_equal(reading->groups[0]->config.rope.axes, 3);
    assert_string_equal(reading->groups[1]->name, "vision");
    assert_int_equal(reading->groups[1]->config.rope.axes, 2);
    gyre_reading_free(reading);
    reading = read_text("{\"model_type\": \"clip\", \"text_config\": {\"model_type\": \"clip_text_model\"}, "
                        "\"vision_config\": {\"model_type\": \"clip_vision_model\"}}");
    assert_int_equal(reading->groups[0]->config.input.positions, 77);
    assert_int_equal(group_of(reading, "vision")->config.input.positions, 50);
    gyre_reading_free(reading);
    reading = read_text("{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 2,\n"
                        "\"vision_config\": {\"model_type\": \"dinov3_vit\"}}");
    assert_int_equal(reading->groups_count, 1);
    assert_warns(reading, "(dinov3_vit) is not described", "vision_config.model_type", 2);
    gyre_reading_free(reading);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rotations_over_rows_and_columns),
        cmocka_unit_test(test_fields_of_a_rotation),
        cmocka_unit_test(test_rotations_named_axial),
        cmocka_unit_test(test_tables_of_patches),
        cmocka_unit_test(test_others_are_warned_of),
        cmocka_unit_test(test_wrong_values_do_not_fail),
        cmocka_unit_test(test_follows_the_text_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
