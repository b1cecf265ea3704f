/* test_rope_vllm_2026_09.c: the rotation that vLLM of September 2026 makes of a config.json, by values: what vllm#56446
 * changed, against transformers' formulas and against the profile of May. */
#include "check_engine_reading.h"

static gyre_reading *read_text(const char *text) {
    const engine_file file = {"llama", GYRE_WHOLE_HEAD, GYRE_LAYOUT_HALF, NULL, text, 0};
    return engine_read(gyre_rope_as_vllm, GYRE_PROFILE_VLLM_2026_09, &file);
}
static void refuses(const char *text, gyre_status status, const char *part) {
    const engine_file file = {"llama", GYRE_WHOLE_HEAD, GYRE_LAYOUT_HALF, NULL, text, 0};
    engine_refuses(gyre_rope_as_vllm, GYRE_PROFILE_VLLM_2026_09, &file, status, part);
}
static engine_figures figures(const char *text) {
    gyre_reading *reading = read_text(text);
    const engine_figures out = engine_at(reading, 0);
    gyre_reading_free(reading);
    return out;
}
static gyre_reading *parse(const char *text, gyre_profile profile) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    if (gyre_reading_parse(&reading, text, strlen(text), GYRE_ARGS(gyre_reading_options, .profile = profile), &err))
        fail_msg("%s", err.text);
    return reading;
}

/* -- YaRN -- */
#define YARN(more)                                                                                                          \
    "{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 16.0, \"original_max_position_embeddings\": 4096"                  \
    ",\n" more "}}"

static void attention_as_transformers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        long double attention;
    } files[] = {{YARN("\"beta_slow\": 1"), 1.2772588722L},
                 {YARN("\"attention_factor\": 1.0"), 1.0L},
                 {YARN("\"attention_factor\": 1.5, \"mscale\": 1, \"mscale_all_dim\": 2"), 1.5L},
                 {YARN("\"mscale\": 1.0, \"mscale_all_dim\": 1.0"), 1.0L},
                 {YARN("\"mscale\": 1.0, \"mscale_all_dim\": 0.5"), 1.2772588722L / 1.1386294361L},
                 {YARN("\"mscale\": 0.707"), 1.2772588722L}, /* one key alone counts for nothing */
                 {YARN("\"mscale\": 0, \"mscale_all_dim\": 1"), 1.2772588722L}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const engine_figures got = figures(files[i].text);
        test_close(got.attention, files[i].attention, 1e-10L, files[i].text);
        check_ramp(&got, 10000.0L, 16.0L, 20.0L, 46.0L, 1.0L);
    }
}

/* Keys of vLLM's own are gone: each is a note or a warning with its line. */
static void own_keys_are_dropped(void **state) {
    (void)state;
    gyre_reading *reading = read_text(YARN("\"attn_factor\": 0.5"));
    test_close(engine_at(reading, 0).attention, 1.2772588722L, 1e-10L, "attention factor");
    assert_string_equal(engine_field(reading, "attention_factor")->note,
                        "vLLM does not read rope_scaling.attn_factor (line 2: 0.5)");
    gyre_reading_free(reading);
    reading = read_text(YARN("\"extrapolation_factor\": 0.25, \"apply_yarn_scaling\": false"));
    const engine_figures got = engine_at(reading, 0);
    check_ramp(&got, 10000.0L, 16.0L, 20.0L, 46.0L, 1.0L);
    test_close(got.attention, 1.2772588722L, 1e-10L, "attention factor");
    assert_non_null(find_warning(reading, "extrapolation_factor"));
    assert_non_null(find_warning(reading, "apply_yarn_scaling"));
    gyre_reading_free(reading);
}

static void truncate_is_honoured(void **state) {
    (void)state;
    const engine_figures got =
        figures("{\"head_dim\": 64, \"rope_theta\": 150000, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 32.0, "
                "\"truncate\": false, \"original_max_position_embeddings\": 4096}}");
    check_ramp(&got, 150000.0L, 32.0L, 8.092779116L, 17.398024502L, 1.0L);
}

/* A quarter of the original length gives exactly transformers' frequencies, and max_position_embeddings stays. */
static void several_axes_count_four_times(void **state) {
    (void)state;
    gyre_reading *reading = read_text("{\"max_position_embeddings\": 131072, \"rope_theta\": 1e6, \"rope_scaling\": "
                                      "{\"type\": \"yarn\", \"factor\": 4.0, \"mrope_section\": [16, 24, 24], "
                                      "\"original_max_position_embeddings\": 32768}}");
    engine_figures got = engine_at(reading, 0);
    check_ramp(&got, 1e6L, 4.0L, 30.0L, 47.0L, 1.0L);
    engine_says(reading, "trained_length", "131072", "four times");
    for (int64_t i = 0; i < reading->groups[0]->fields_count; i++)
        assert_string_not_equal(reading->groups[0]->fields[i].name, "max_length");
    gyre_reading_free(reading);
    got = figures("{\"rope_theta\": 1e6, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, \"mrope_section\": "
                  "[16, 24, 24], \"original_max_position_embeddings\": 8192}}");
    check_ramp(&got, 1e6L, 4.0L, 23.0L, 40.0L, 1.0L); /* transformers' for 32768 */
}

static void length_is_never_multiplied_for_yarn(void **state) {
    (void)state;
    static const char *const types[] = {"yarn", "deepseek_yarn", "telechat3-yarn"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char text[300];
        snprintf(text, sizeof text,
                 "{\"max_position_embeddings\": 40960, \"rope_scaling\": {\"type\": \"%s\", \"factor\": 40.0, "
                 "\"original_max_position_embeddings\": 4096}}",
                 types[i]);
        gyre_reading *reading = read_text(text);
        for (int64_t f = 0; f < reading->groups[0]->fields_count; f++)
            assert_string_not_equal(reading->groups[0]->fields[f].name, "max_length");
        gyre_reading_free(reading);
    }
    gyre_reading *linear =
        read_text("{\"max_position_embeddings\": 32768, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 8.0}}");
    engine_says(linear, "max_length", "262144", "includes the factor");
    gyre_reading_free(linear);
}

/* The file's factor, where May took the ratio of the lengths. */
static void telechat_is_yarn(void **state) {
    (void)state;
    const engine_figures got =
        figures("{\"max_position_embeddings\": 32768, \"rope_scaling\": {\"type\": \"telechat3-yarn\", \"factor\": 4.0, "
                "\"original_max_position_embeddings\": 4096}}");
    engine_is(got.attention, 0.07L * logl(4.0L) + 1.0L, "attention factor");
    check_ramp(&got, 10000.0L, 4.0L, 20.0L, 46.0L, 1.0L);
}

static void latent_attention_lost_its_keys(void **state) {
    (void)state;
    const engine_file file = {"deepseek_v3",
                              GYRE_MLA,
                              GYRE_LAYOUT_INTERLEAVED,
                              NULL,
                              "{\"head_dim\": 192, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"rope_scaling\": "
                              "{\"type\": \"yarn\", \"factor\": 40, \"original_max_position_embeddings\": 4096, "
                              "\"mscale\": 1.0, \"mscale_all_dim\": 1.0, \"attn_factor\": 3.0, "
                              "\"extrapolation_factor\": 0.5, \"truncate\": false}}",
                              0};
    gyre_reading *reading = engine_read(gyre_rope_as_vllm, GYRE_PROFILE_VLLM_2026_09, &file);
    const engine_figures got = engine_at(reading, 0);
    check_ramp(&got, 10000.0L, 40.0L, 10.0L, 23.0L, 1.0L);
    engine_is(got.attention, 1, "attention factor");
    test_close(reading->groups[0]->softmax_multiplier, 1.8738542071L, 6e-11L, "softmax multiplier");
    gyre_reading_free(reading);
}

/* -- other types -- */
static void dynamic_needs_a_trained_length(void **state) {
    (void)state;
    gyre_reading *reading = read_text("{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4.0}}");
    engine_figures got = engine_at(reading, 8192);
    check_base(&got, 10000.0L);
    engine_says(reading, "scaling", "default", "by nothing");
    assert_int_equal(reading->warnings_count, 0);
    gyre_reading_free(reading);
    reading = read_text("{\"max_position_embeddings\": 8192, \"head_dim\": 64, \"rope_scaling\": {\"type\": \"dynamic\", "
                        "\"factor\": 2.0, \"max_trained_positions\": 2048}}");
    got = engine_at(reading, 0);
    check_base(&got, 10000.0L * powl(7.0L, 64.0L / 62.0L)); /* 2 * 8192 / 2048 - 1 */
    engine_says(reading, "scaling", "ntk", "once");
    gyre_reading_free(reading);
    refuses("{\"max_position_embeddings\": 512, \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0, "
            "\"max_trained_positions\": 2048}}",
            GYRE_EFORMAT, "max_trained_positions: gives -0.5 times");
}

static void types(void **state) {
    (void)state;
    const engine_figures got = figures("{\"rope_scaling\": {\"factor\": 2.0}}");
    check_base(&got, 10000.0L); /* transformers 5 takes a missing type for "default" */
    refuses("{\"rope_scaling\": {\"type\": \"mrope\"}}", GYRE_EFORMAT, "mrope_section: missing");
    refuses("{\"rope_scaling\": {\"type\": \"xdrope\", \"alpha\": 50}}", GYRE_EUNSUPPORTED,
            "\"xdrope\" is not a type that vLLM knows");
    refuses("{\"rope_scaling\": {\"rope_type\": \"yarn\", \"type\": \"linear\", \"factor\": 2.0}}", GYRE_EUNSUPPORTED,
            "contradicts rope_type");
}

/* -- the whole file -- */
static void older_names(void **state) {
    (void)state;
    gyre_reading *reading = parse("{\"model_type\": \"llama\", \"head_dim\": 128, \"rotary_emb_base\": 1000, "
                                  "\"rotary_emb_fraction\": 0.5, \"max_position_embeddings\": 2048}",
                                  GYRE_PROFILE_VLLM_2026_09);
    engine_figures got = engine_at(reading, 0);
    assert_int_equal(got.pairs, 32);
    check_base(&got, 1000.0L);
    assert_string_equal(engine_field(reading, "base")->key, "rotary_emb_base");
    gyre_reading_free(reading);
    reading =
        parse("{\"model_type\": \"llama\", \"head_dim\": 128, \"rotary_pct\": 0.25, \"max_position_embeddings\": 2048}",
              GYRE_PROFILE_VLLM_2026_09);
    assert_int_equal(engine_at(reading, 0).pairs, 16);
    gyre_reading_free(reading);
}

/* Laguna's and Ministral's keys: the figure of May beside that of September, which is transformers'. */
static void meets_transformers(void **state) {
    (void)state;
    static const struct {
        const char *more;
        long double may, later;
    } files[] = {{"\"factor\": 64.0, \"attention_factor\": 1.0", 1.4158883083L, 1.0L},
                 {"\"factor\": 16.0, \"mscale\": 1.0, \"mscale_all_dim\": 1.0", 1.2772588722L, 1.0L}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "{\"model_type\": \"llama\", \"head_dim\": 128, \"rope_scaling\": {\"rope_type\": \"yarn\", "
                 "\"original_max_position_embeddings\": 2048, %s}}",
                 files[i].more);
        const gyre_profile profiles[] = {GYRE_PROFILE_VLLM_2026_05, GYRE_PROFILE_VLLM, GYRE_PROFILE_HF_5};
        for (int p = 0; p < 3; p++) {
            gyre_reading *reading = parse(text, profiles[p]);
            test_close(engine_at(reading, 0).attention, p == 0 ? files[i].may : files[i].later, 5e-11L, "attention factor");
            gyre_reading_free(reading);
        }
    }
}

static void names(void **state) {
    (void)state;
    assert_int_equal(gyre_profile_find("vllm"), GYRE_PROFILE_VLLM_2026_09);
    assert_int_equal(gyre_profile_find("vllm-2026.09"), GYRE_PROFILE_VLLM);
    assert_int_equal(gyre_profile_find("vllm-2026.05"), GYRE_PROFILE_VLLM_2026_05);
    assert_int_equal(gyre_profile_find("vllm-2026"), GYRE_PROFILE_DEFAULT);
    assert_int_equal(gyre_profile_find(NULL), GYRE_PROFILE_DEFAULT);
    assert_string_equal(gyre_profile_alias(GYRE_PROFILE_VLLM), "vllm");
    assert_null(gyre_profile_alias(GYRE_PROFILE_VLLM_2026_05));
    assert_string_equal(gyre_profile_title(GYRE_PROFILE_VLLM), "vLLM of September 2026");
    assert_null(gyre_profile_title(GYRE_PROFILE_DEFAULT));
    /* Each has a name and a title of its own, and is found by both of its names. */
    int count = 0;
    for (int p = GYRE_PROFILE_DEFAULT + 1; gyre_profile_name((gyre_profile)p); p++, count++) {
        const char *alias = gyre_profile_alias((gyre_profile)p);
        assert_non_null(gyre_profile_title((gyre_profile)p));
        assert_int_equal(gyre_profile_find(gyre_profile_name((gyre_profile)p)), p);
        if (alias) assert_int_equal(gyre_profile_find(alias), p);
    }
    assert_true(count >= 11);
    assert_null(gyre_profile_name((gyre_profile)-1));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(attention_as_transformers),
                                       cmocka_unit_test(own_keys_are_dropped),
                                       cmocka_unit_test(truncate_is_honoured),
                                       cmocka_unit_test(several_axes_count_four_times),
                                       cmocka_unit_test(length_is_never_multiplied_for_yarn),
                                       cmocka_unit_test(telechat_is_yarn),
                                       cmocka_unit_test(latent_attention_lost_its_keys),
                                       cmocka_unit_test(dynamic_needs_a_trained_length),
                                       cmocka_unit_test(types),
                                       cmocka_unit_test(older_names),
                                       cmocka_unit_test(meets_transformers),
                                       cmocka_unit_test(names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
