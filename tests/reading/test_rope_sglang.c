/* test_rope_sglang.c: the rotation that SGLang makes of a config.json, by values of its formulas. */
#include "check_engine_reading.h"

static gyre_reading *read_text(const char *text) {
    const engine_file file = {"llama", GYRE_WHOLE_HEAD, GYRE_LAYOUT_HALF, NULL, text, 0};
    return engine_read(gyre_rope_as_sglang, GYRE_PROFILE_SGLANG, &file);
}
static void refuses(const char *text, gyre_status status, const char *part) {
    const engine_file file = {"llama", GYRE_WHOLE_HEAD, GYRE_LAYOUT_HALF, NULL, text, 0};
    engine_refuses(gyre_rope_as_sglang, GYRE_PROFILE_SGLANG, &file, status, part);
}
static engine_figures figures(const char *text) {
    gyre_reading *reading = read_text(text);
    const engine_figures out = engine_at(reading, 0);
    gyre_reading_free(reading);
    return out;
}

static void plain_types(void **state) {
    (void)state;
    engine_figures got = figures("{\"rope_theta\": 500000.0}");
    check_base(&got, 500000.0L);
    got = figures("{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 8.0}}");
    for (int64_t i = 0; i < got.pairs; i++)
        engine_is(got.omega[i], paper_theta(10000.0L, 128, i) / 8.0L, "linear");
    got = figures("{\"rope_theta\": 500000, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, "
                  "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}}");
    for (int64_t i = 0; i < got.pairs; i++)
        test_close(got.omega[i], paper_llama3(paper_theta(500000.0L, 128, i), 8, 1, 4, 8192), 1e-15L, "llama3");
    gyre_reading *reading = read_text("{\"rope_scaling\": {\n\"type\": \"linear\",\n\"factor\": 8}}");
    assert_non_null(find_warning(reading, "SGLang takes it as a list of factors"));
    assert_int_equal(reading->warnings[0].line, 3);
    gyre_reading_free(reading);
    refuses("{\"rope_parameters\": {\"rope_type\": \"default\", \"use_fope\": true}}", GYRE_EUNSUPPORTED, "use_fope");
    static const char *const unknown[] = {"ntk", "xdrope", "telechat3-yarn", "su", "deepseek_llama_scaling"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        char text[100];
        snprintf(text, sizeof text, "{\"rope_scaling\": {\"type\": \"%s\", \"factor\": 2.0}}", unknown[i]);
        refuses(text, GYRE_EUNSUPPORTED, "is not a type that SGLang knows");
    }
}

static void dynamic_has_one_base(void **state) {
    (void)state;
    gyre_reading *reading = read_text("{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4.0}}");
    for (int64_t length = 1; length < 100000; length += 20000) {
        const engine_figures got = engine_at(reading, length);
        check_base(&got, 10000.0L * powl(4.0L * 4.0L - 3.0L, 128.0L / 126.0L));
    }
    engine_says(reading, "scaling", "ntk", "SGLang computes");
    engine_says(reading, "max_length", "8192", "even if it includes the factor");
    gyre_reading_free(reading);
    const engine_figures got = figures("{\"rope_scaling\": {\"type\": \"dynamic\", \"alpha\": 1000.0, \"factor\": 1.0}}");
    test_close(powl(got.omega[1], -64.0L), 11158839.9251L, 0.001L, "base");
}

static void yarn(void **state) {
    (void)state;
    static const struct {
        const char *more;
        long double attention, kept;
    } files[] = {{"\"beta_fast\": 32", 1.1386294361L, 1},
                 {"\"attention_factor\": 3.0", 1.1386294361L, 1},                /* not read */
                 {"\"attn_factor\": 0.5", 0.5L * 1.1386294361L, 1},              /* of SGLang */
                 {"\"mscale\": 1.0, \"mscale_all_dim\": 1.0", 1.0L, 1},          /* as transformers */
                 {"\"mscale\": 2.0, \"mscale_all_dim\": 0.0", 1.2772588722L, 1}, /* 0 counts, unlike there */
                 {"\"mscale\": 2.0", 1.1386294361L, 1},                          /* one alone does not */
                 {"\"mscale\": 1, \"mscale_all_dim\": 1, \"attn_factor\": 0.25", 0.25L, 1},
                 {"\"extrapolation_factor\": 0.25", 1.1386294361L, 0.25L}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char text[300];
        snprintf(text, sizeof text,
                 "{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 4096, %s}}",
                 files[i].more);
        gyre_reading *reading = read_text(text);
        const engine_figures got = engine_at(reading, 0);
        check_ramp(&got, 10000.0L, 4.0L, 20.0L, 46.0L, files[i].kept);
        test_close(got.attention, files[i].attention, 1e-10L, files[i].more);
        assert_int_equal(reading->warnings_count, 0);
        gyre_reading_free(reading);
    }
    const engine_figures got =
        figures("{\"head_dim\": 64, \"rope_theta\": 150000, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 32.0, "
                "\"truncate\": false, \"original_max_position_embeddings\": 4096}}");
    check_ramp(&got, 150000.0L, 32.0L, 8.092779116L, 17.398024502L, 1.0L);
}

/* Unlike in vLLM, revolutions are counted over the original length. */
static void yarn_with_axes(void **state) {
    (void)state;
    const engine_figures got =
        figures("{\"rope_theta\": 1e6, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, \"mrope_section\": "
                "[16, 24, 24], \"original_max_position_embeddings\": 32768}}");
    check_ramp(&got, 1e6L, 4.0L, 23.0L, 40.0L, 1.0L);
    refuses("{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, \"mrope_section\": [16, 24, 24], \"mscale\": 1, "
            "\"original_max_position_embeddings\": 32768}}",
            GYRE_EUNSUPPORTED, "rope_scaling.mscale: SGLang's YaRN for several axes fails");
}

static void latent_attention(void **state) {
    (void)state;
    static const struct {
        const char *more;
        long double attention, softmax;
    } files[] = {{"\"mscale\": 1.0, \"mscale_all_dim\": 1.0", 1.0L, 1.8738542071L},
                 {"\"mscale\": 0.707, \"mscale_all_dim\": 0.707", 1.0L, 1.5896261651L},
                 {"\"beta_fast\": 32", 1.3688879454L, 1.0L},
                 {"\"mscale_all_dim\": 1.0, \"apply_yarn_scaling\": false", 1.0L, 1.0L},
                 {"\"mscale_all_dim\": 1.0, \"attn_factor\": 2.0", 2.0L, 1.8738542071L}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "{\"head_dim\": 192, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"rope_scaling\": {\"type\": "
                 "\"yarn\", \"factor\": 40, \"original_max_position_embeddings\": 4096, %s}}",
                 files[i].more);
        const engine_file file = {"deepseek_v3", GYRE_MLA, GYRE_LAYOUT_INTERLEAVED, NULL, text, 0};
        gyre_reading *reading = engine_read(gyre_rope_as_sglang, GYRE_PROFILE_SGLANG, &file);
        const engine_figures got = engine_at(reading, 0);
        check_ramp(&got, 10000.0L, 40.0L, 10.0L, 23.0L, 1.0L);
        test_close(got.attention, files[i].attention, 1e-10L, "attention factor");
        test_close(reading->groups[0]->softmax_multiplier, files[i].softmax, 6e-11L, "softmax multiplier");
        gyre_reading_free(reading);
    }
}

/* Both lists, by the tokens of a call, where vLLM chooses once. */
static void longrope_alternates(void **state) {
    (void)state;
    static const double near[] = {1, 1.5, 2, 3}, far[] = {4, 8, 16, 32};
    const engine_file file = {"phi3",
                              0,
                              GYRE_LAYOUT_HALF,
                              NULL,
                              "{\"head_dim\": 8, \"max_position_embeddings\": 131072, "
                              "\"original_max_position_embeddings\": 4096, \"rope_scaling\": {\"rope_type\": \"longrope\", "
                              "\"short_factor\": [1, 1.5, 2, 3], \"long_factor\": [4, 8, 16, 32]}}",
                              0};
    gyre_reading *reading = engine_read(gyre_rope_as_sglang, GYRE_PROFILE_SGLANG, &file);
    static const int64_t lengths[] = {1, 4096, 4098, 131072};
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        const engine_figures got = engine_at(reading, lengths[n]);
        const double *list = lengths[n] > 4096 ? far : near;
        for (int64_t p = 0; p < 4; p++)
            engine_is(got.omega[p], paper_theta(10000.0L, 8, p) / list[p], "longrope");
        test_close(got.attention, 1.1902380714L, 5e-11L, "attention factor"); /* of s = 32, L = 4096 */
    }
    gyre_reading_free(reading);
    const engine_file paired = {"phi3", 0, GYRE_LAYOUT_INTERLEAVED, NULL, file.text, 0};
    engine_refuses(gyre_rope_as_sglang, GYRE_PROFILE_SGLANG, &paired, GYRE_EUNSUPPORTED, "(i, i + d/2)");
}

static void proportional_has_no_factor(void **state) {
    (void)state;
    const engine_figures got =
        figures("{\"head_dim\": 64, \"rope_theta\": 1e6, \"rope_parameters\": {\"rope_type\": \"proportional\", "
                "\"partial_rotary_factor\": 0.25, \"factor\": 4.0}}");
    for (int64_t i = 0; i < got.pairs; i++)
        engine_is(got.omega[i], i < 8 ? paper_theta(1e6L, 64, i) : 0.0L, "proportional");
}

/* -- the whole file -- */
static gyre_reading *parse(const char *text) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    if (gyre_reading_parse(&reading, text, strlen(text), GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_SGLANG),
                           &err))
        fail_msg("%s", err.text);
    return reading;
}

static void classes(void **state) {
    (void)state;
    gyre_reading *reading = parse("{\"model_type\": \"llama\", \"head_dim\": 128, \"partial_rotary_factor\": 0.5}");
    assert_int_equal(engine_at(reading, 0).pairs, 32);
    engine_says(reading, "rotary_dim", "64", "transformers rotates the whole");
    gyre_reading_free(reading);
    /* Chunks as in vLLM. */
    reading =
        parse("{\"model_type\": \"qwen2\", \"head_dim\": 128, \"dual_chunk_attention_config\": {\"chunk_size\": 262144, "
              "\"local_size\": 8192, \"original_max_position_embeddings\": 262144}}");
    assert_int_equal(reading->groups[0]->config.rope.far, GYRE_FAR_CHUNKED);
    assert_non_null(strstr(engine_field(reading, "length_policy")->note, "at n tokens SGLang multiplies"));
    gyre_reading_free(reading);
    /* Ministral's temperature is read beside the rotation's keys, as in transformers. */
    reading =
        parse("{\"model_type\": \"ministral3\", \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1e6, "
              "\"llama_4_scaling_beta\": 0.1, \"original_max_position_embeddings\": 16384}}");
    assert_int_equal(reading->groups[0]->config.query.temperature, GYRE_TEMPERATURE_MINISTRAL);
    gyre_reading_free(reading);
    gyre_reading *none = NULL;
    gyre_error err = {0, ""};
    static const char bloom[] = "{\"model_type\": \"bloom\", \"n_head\": 8, \"hidden_size\": 64}";
    assert_int_equal(gyre_reading_parse(&none, bloom, sizeof bloom - 1,
                                        GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_SGLANG), &err),
                     GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "for SGLang, Gyre reads only models that rotate queries and keys"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(plain_types),
                                       cmocka_unit_test(dynamic_has_one_base),
                                       cmocka_unit_test(yarn),
                                       cmocka_unit_test(yarn_with_axes),
                                       cmocka_unit_test(latent_attention),
                                       cmocka_unit_test(longrope_alternates),
                                       cmocka_unit_test(proportional_has_no_factor),
                                       cmocka_unit_test(classes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
