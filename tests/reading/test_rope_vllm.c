/* test_rope_vllm.c: the rotation that vLLM makes of a config.json, by values: where it differs from transformers, and where
 * it does not. */
#include "check_engine_reading.h"

static gyre_reading *read_file(const engine_file *file) {
    return engine_read(gyre_rope_as_vllm, GYRE_PROFILE_VLLM_2026_05, file);
}
static gyre_reading *read_text(const char *text) {
    const engine_file file = {"llama", GYRE_WHOLE_HEAD, GYRE_LAYOUT_HALF, NULL, text, 0};
    return read_file(&file);
}
static void refuses(const char *text, gyre_status status, const char *part) {
    const engine_file file = {"llama", GYRE_WHOLE_HEAD, GYRE_LAYOUT_HALF, NULL, text, 0};
    engine_refuses(gyre_rope_as_vllm, GYRE_PROFILE_VLLM_2026_05, &file, status, part);
}
static engine_figures figures(const char *text) {
    gyre_reading *reading = read_text(text);
    const engine_figures out = engine_at(reading, 0);
    gyre_reading_free(reading);
    return out;
}

/* -- dynamic and its kin -- */
static void dynamic_has_one_base(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double growth;
    } files[] = {{"{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0}}", 3},
                 {"{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4.0}}", 13},
                 {"{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 8.0}}", 57}};
    static const int64_t lengths[] = {1, 2048, 8192, 100000};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        gyre_reading *reading = read_text(files[i].text);
        for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
            const engine_figures got = engine_at(reading, lengths[n]);
            check_base(&got, 10000.0L * powl(files[i].growth, 128.0L / 126.0L));
            engine_is(got.attention, 1, "attention factor");
        }
        assert_int_equal(reading->groups[0]->config.trained_length, 2048);
        engine_says(reading, "scaling", "ntk", "once");
        assert_string_equal(engine_field(reading, "factor")->key, "rope_scaling.factor");
        gyre_reading_free(reading);
    }
}

static void alpha_grows_the_base(void **state) {
    (void)state;
    /* 11158839.9251: the base of HunYuan-A13B, as its converter for llama.cpp states it. */
    engine_figures got = figures("{\"rope_scaling\": {\"type\": \"dynamic\", \"alpha\": 1000.0, \"factor\": 1.0}}");
    test_close(powl(got.omega[1], -64.0L), 11158839.9251L, 0.001L, "base");
    check_base(&got, 10000.0L * powl(1000.0L, 128.0L / 126.0L));
    got = figures("{\"rope_scaling\": {\"type\": \"xdrope\", \"alpha\": 50, \"xdrope_section\": [16, 16, 16, 16]}}");
    check_base(&got, 10000.0L * powl(50.0L, 128.0L / 126.0L));
    refuses("{\"rope_scaling\": {\"type\": \"dynamic\"}}", GYRE_EFORMAT, "rope_scaling.factor: missing");
    refuses("{\"rope_scaling\": {\"type\": \"dynamic\", \"alpha\": 0.5}}", GYRE_EFORMAT, "rope_scaling.alpha");
}

static void ntk_changes_more_than_the_base(void **state) {
    (void)state;
    gyre_reading *reading = read_text("{\"rope_scaling\": {\"rope_type\": \"ntk\", \"factor\": 4.0}, \"head_dim\": 64}");
    engine_figures got = engine_at(reading, 0);
    assert_int_equal(got.pairs, 32);
    for (int64_t i = 0; i < got.pairs; i++)
        engine_is(got.omega[i], paper_theta(40000.0L, 64, i) / powl(4.0L, 2.0L / 64.0L), "ntk");
    engine_says(reading, "base", "40000", "times its factor");
    gyre_reading_free(reading);

    reading = read_text("{\"rope_scaling\": {\"rope_type\": \"ntk\", \"factor\": 8.0, \"mixed_b\": 0.6}}");
    got = engine_at(reading, 0);
    const long double a = logl(8.0L) / powl(64.0L, 0.6L);
    for (int64_t i = 0; i < got.pairs; i++)
        engine_is(got.omega[i], paper_theta(10000.0L, 128, i) / expl(a * powl((long double)(i + 1), 0.6L)), "mixed");
    gyre_reading_free(reading);
    got = figures("{\"rope_scaling\": {\"rope_type\": \"ntk\", \"factor\": 8.0, \"mixed_b\": 0}}");
    for (int64_t i = 0; i < got.pairs; i++)
        engine_is(got.omega[i], paper_theta(10000.0L, 128, i) / 8.0L, "mixed_b 0");
}

static void linear_factor_must_be_a_float(void **state) {
    (void)state;
    gyre_reading *reading = read_text("{\"rope_scaling\": {\n\"type\": \"linear\",\n\"factor\": 8}}");
    const engine_figures got = engine_at(reading, 0);
    for (int64_t i = 0; i < got.pairs; i++)
        engine_is(got.omega[i], paper_theta(10000.0L, 128, i) / 8.0L, "linear");
    assert_non_null(find_warning(reading, "TypeError"));
    assert_int_equal(reading->warnings[0].line, 3);
    gyre_reading_free(reading);
    reading = read_text("{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 8.0}}");
    assert_int_equal(reading->warnings_count, 0);
    gyre_reading_free(reading);
    refuses("{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0.5}}", GYRE_EFORMAT,
            "rope_scaling.factor: 0.5 is below 1");
    refuses("{\"rope_scaling\": {\"type\": \"linear\"}}", GYRE_EFORMAT, "rope_scaling.factor: missing");
}

/* -- YaRN -- */
static void yarn_ignores_attention_factor(void **state) {
    (void)state;
    gyre_reading *reading =
        read_text("{\"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 10000.0, \"factor\": 64.0,\n"
                  "\"original_max_position_embeddings\": 4096,\n\"attention_factor\": 1.0}}");
    engine_figures got = engine_at(reading, 0);
    test_close(got.attention, 1.4158883083L, 5e-11L, "attention factor");
    check_ramp(&got, 10000.0L, 64.0L, 20.0L, 46.0L, 1.0L); /* 20.944482 .. 45.026881, rounded outwards */
    const gyre_reading_field *field = engine_field(reading, "attention_factor");
    assert_string_equal(field->note, "vLLM of May 2026 does not read rope_parameters.attention_factor (line 3: 1.0)");
    assert_int_equal(field->line, 3);
    assert_int_equal(field->origin, GYRE_ORIGIN_DERIVED);
    assert_int_equal(engine_field(reading, "beta_fast")->origin, GYRE_ORIGIN_READER);
    gyre_reading_free(reading);
    /* Where the class brings the keys there is no line to name. */
    static const char bare[] = "{\"model_type\": \"ministral3\", \"hidden_size\": 64}";
    assert_ok(gyre_reading_parse(&reading, bare, sizeof bare - 1,
                                 GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_VLLM_2026_05), NULL));
    assert_string_equal(engine_field(reading, "attention_factor")->note,
                        "vLLM of May 2026 does not read rope_parameters.mscale (1.0), rope_parameters.mscale_all_dim (1.0)");
    gyre_reading_free(reading);
    /* Ministral 3: 1 in transformers. */
    got = figures("{\"rope_theta\": 1e6, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 16.0, \"mscale\": 1.0, "
                  "\"mscale_all_dim\": 1.0, \"original_max_position_embeddings\": 16384}}");
    test_close(got.attention, 1.2772588722L, 5e-11L, "attention factor");
    check_ramp(&got, 1e6L, 16.0L, 20.0L, 37.0L, 1.0L);
}

static void yarn_reads_vllm_keys(void **state) {
    (void)state;
    engine_figures got = figures("{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, \"attn_factor\": 0.5, "
                                 "\"original_max_position_embeddings\": 4096}}");
    engine_is(got.attention, 0.5L * paper_magnitude(4, 1), "times attn_factor");
    got = figures(
        "{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, \"attn_factor\": 0.5, \"apply_yarn_scaling\": false, "
        "\"original_max_position_embeddings\": 4096}}");
    engine_is(got.attention, 0.5L, "attn_factor alone");
    got = figures("{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, \"apply_yarn_scaling\": false, "
                  "\"original_max_position_embeddings\": 4096}}");
    engine_is(got.attention, 1.0L, "none");
    gyre_reading *reading =
        read_text("{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, \"extrapolation_factor\": 0.25, "
                  "\"original_max_position_embeddings\": 4096}}");
    for (int64_t length = 0; length < 100000; length += 16384) {
        got = engine_at(reading, length);
        check_ramp(&got, 10000.0L, 4.0L, 20.0L, 46.0L, 0.25L);
        engine_is(got.attention, paper_magnitude(4, 1), "attention factor");
    }
    engine_says(reading, "scaling", "yarn", "extrapolation_factor");
    gyre_reading_free(reading);
    refuses("{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, \"attn_factor\": 0, "
            "\"original_max_position_embeddings\": 4096}}",
            GYRE_EUNSUPPORTED, "attention factor");
    refuses("{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, \"beta_fast\": 0, "
            "\"original_max_position_embeddings\": 4096}}",
            GYRE_EUNSUPPORTED, "rope_scaling.beta_fast");
    refuses("{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, \"extrapolation_factor\": -2.0, "
            "\"original_max_position_embeddings\": 4096}}",
            GYRE_EUNSUPPORTED, "extrapolation_factor: pair");
}

/* gpt-oss: the bounds as in vLLM's pull request and in transformers. */
static void yarn_honours_truncate(void **state) {
    (void)state;
    const engine_figures got = figures(
        "{\"head_dim\": 64, \"rope_theta\": 150000, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 32.0, "
        "\"beta_fast\": 32.0, \"beta_slow\": 1.0, \"truncate\": false, \"original_max_position_embeddings\": 4096}}");
    check_ramp(&got, 150000.0L, 32.0L, 8.092779116L, 17.398024502L, 1.0L);
    test_close(got.attention, 1.3465735903L, 5e-11L, "attention factor");
}

static void yarn_with_axes_counts_four_times(void **state) {
    (void)state;
    gyre_reading *reading = read_text("{\"rope_theta\": 1e6, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, "
                                      "\"mrope_section\": [16, 24, 24], \"original_max_position_embeddings\": 32768, "
                                      "\"apply_yarn_scaling\": false}}");
    const engine_figures got = engine_at(reading, 0);
    check_ramp(&got, 1e6L, 4.0L, 30.0L, 47.0L, 1.0L); /* transformers: 23 and 40 */
    engine_is(got.attention, paper_magnitude(4, 1), "apply_yarn_scaling is not passed on");
    engine_says(reading, "trained_length", "131072", "four times");
    engine_says(reading, "original_length", "32768", NULL);
    engine_says(reading, "max_length", "131072", "original length");
    gyre_reading_free(reading);
}

static void telechat_magnitude_has_a_smaller_slope(void **state) {
    (void)state;
    const engine_figures got =
        figures("{\"max_position_embeddings\": 32768, \"rope_scaling\": {\"type\": \"telechat3-yarn\", \"factor\": 2.0, "
                "\"original_max_position_embeddings\": 4096}}");
    engine_is(got.attention, 0.07L * logl(8.0L) + 1.0L, "attention factor");
    check_ramp(&got, 10000.0L, 8.0L, 20.0L, 46.0L, 1.0L);
}

/* -- latent attention -- */
static gyre_reading *deepseek(const char *type, const char *more) {
    char text[700];
    snprintf(text, sizeof text,
             "{\"head_dim\": 192, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"rope_scaling\": {\"type\": \"%s\", "
             "\"factor\": 40, \"beta_fast\": 32, \"beta_slow\": 1, \"original_max_position_embeddings\": 4096%s}}",
             type, more);
    const engine_file file = {"deepseek_v3", GYRE_MLA, GYRE_LAYOUT_INTERLEAVED, NULL, text, 0};
    return read_file(&file);
}

static void deepseek_multiplies_scores(void **state) {
    (void)state;
    static const struct {
        const char *type, *more;
        long double attention, softmax;
    } files[] = {
        {"yarn", ", \"mscale\": 1.0, \"mscale_all_dim\": 1.0", 1.0L, 1.8738542071L},
        {"yarn", ", \"mscale\": 0.707, \"mscale_all_dim\": 0.707", 1.0L, 1.5896261651L},
        {"yarn", "", 1.3688879454L, 1.0L},
        {"yarn", ", \"mscale\": 0.707", 1.2608037774L, 1.0L}, /* the root of the figure above; transformers: 1.3688879454 */
        {"yarn", ", \"mscale_all_dim\": 1.0, \"attention_factor\": 3", 1.0L, 1.8738542071L},
        {"yarn", ", \"mscale_all_dim\": 1.0, \"apply_yarn_scaling\": false", 1.0L, 1.0L},
        {"deepseek_llama_scaling", ", \"mscale_all_dim\": 1.0", 1.0L, 1.0L},
        {"linear", ", \"mscale_all_dim\": 1.0", 1.0L, 1.8738542071L}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        gyre_reading *reading = deepseek(files[i].type, files[i].more);
        const gyre_layer_reading *group = reading->groups[0];
        const engine_figures got = engine_at(reading, 0);
        check_ramp(&got, 10000.0L, 40.0L, 10.0L, 23.0L, 1.0L);
        test_close(got.attention, files[i].attention, 5e-11L, "attention factor");
        test_close(group->softmax_multiplier, files[i].softmax, 6e-11L, "softmax multiplier");
        if (files[i].softmax != 1.0L)
            test_close(group->scale, files[i].softmax / sqrtl(192.0L), 6e-11L, "scale");
        else
            assert_true(group->scale == 0.0);
        assert_int_equal(find_warning(reading, "deepseek_yarn") != NULL, strcmp(files[i].type, "linear") == 0);
        gyre_reading_free(reading);
    }
}

/* Its class sets both keys to 0. */
static void deepseek_v4_has_no_factors(void **state) {
    (void)state;
    const engine_file file = {
        "deepseek_v4",
        GYRE_MLA,
        GYRE_LAYOUT_INTERLEAVED,
        "compress",
        "{\"head_dim\": 64, \"rope_parameters\": {\"compress\": {\"rope_type\": \"yarn\", \"factor\": 16, "
        "\"original_max_position_embeddings\": 65536, \"mscale\": 1, \"mscale_all_dim\": 1}}}",
        0};
    gyre_reading *reading = read_file(&file);
    engine_is(engine_at(reading, 0).attention, 1, "attention factor");
    engine_is(reading->groups[0]->softmax_multiplier, 1, "softmax multiplier");
    gyre_reading_free(reading);
}

static void deepseek_always_truncates(void **state) {
    (void)state;
    gyre_reading *reading = deepseek("yarn", ", \"truncate\": false, \"mscale_all_dim\": 1");
    const engine_figures got = engine_at(reading, 0);
    check_ramp(&got, 10000.0L, 40.0L, 10.0L, 23.0L, 1.0L);
    engine_says(reading, "truncate", "true", "always rounds the ramp's ends");
    gyre_reading_free(reading);
}

/* -- LongRoPE -- */
static const char long_file[] =
    "{\"head_dim\": 8, \"max_position_embeddings\": 131072, \"original_max_position_embeddings\": "
    "4096, \"rope_scaling\": {\"type\": \"su\", \"rope_type\": \"longrope\", \"short_factor\": [1, 1.5, "
    "2, 3], \"long_factor\": [4, 8, 16, 32], \"factor\": 8.0, \"attention_factor\": 1.5%s}}";

static gyre_reading *longrope(int64_t length, const char *more, gyre_layout layout, gyre_error *err) {
    char text[600];
    snprintf(text, sizeof text, long_file, more);
    const engine_file file = {"phi3", 0, layout, NULL, text, length};
    gyre_reading *reading = NULL;
    return engine_try(gyre_rope_as_vllm, GYRE_PROFILE_VLLM_2026_05, &file, &reading, err) == GYRE_OK ? reading : NULL;
}

static void longrope_chooses_once(void **state) {
    (void)state;
    static const double near[] = {1, 1.5, 2, 3}, far[] = {4, 8, 16, 32};
    static const struct {
        int64_t length;
        const double *list;
    } engines[] = {{0, near}, {4096, near}, {4097, far}, {131072, far}};
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        gyre_reading *reading = longrope(engines[i].length, "", GYRE_LAYOUT_HALF, NULL);
        assert_non_null(reading);
        for (int64_t length = 1; length < 200000; length += 50000) {
            const engine_figures got = engine_at(reading, length);
            for (int64_t p = 0; p < 4; p++)
                engine_is(got.omega[p], paper_theta(10000.0L, 8, p) / engines[i].list[p], "longrope");
            test_close(got.attention, 1.1902380714L, 5e-11L, "attention factor"); /* of s = 32, L = 4096 */
        }
        engine_says(reading, "attention_factor", engine_field(reading, "attention_factor")->value,
                    "rope_scaling.factor (line 1: 8.0)");
        engine_says(reading, "short_factor", "4 numbers, 1 to 3", engines[i].list == near ? "used at every" : "not used");
        engine_says(reading, "max_length", "4096", "original length");
        gyre_reading_free(reading);
    }
}

static void longrope_has_magnitudes_of_its_own(void **state) {
    (void)state;
    gyre_error err = {0, ""};
    const char *more = ", \"short_mscale\": 1.1, \"long_mscale\": 1.25";
    gyre_reading *reading = longrope(4096, more, GYRE_LAYOUT_HALF, &err);
    assert_true(reading && engine_at(reading, 0).attention == 1.1);
    gyre_reading_free(reading);
    reading = longrope(8192, more, GYRE_LAYOUT_HALF, &err);
    assert_true(reading && engine_at(reading, 0).attention == 1.25);
    gyre_reading_free(reading);
    assert_null(longrope(0, "", GYRE_LAYOUT_INTERLEAVED, &err));
    assert_non_null(strstr(err.text, "(i, i + d/2)"));
    refuses(
        "{\"head_dim\": 8, \"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 2], \"long_factor\": [1, 2]}}",
        GYRE_EFORMAT, "rope_scaling.short_factor: not a list of 4 numbers");
}

/* -- the others -- */
static void llama3_agrees(void **state) {
    (void)state;
    engine_figures got =
        figures("{\"rope_theta\": 500000, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, "
                "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": "
                "8192}}");
    for (int64_t i = 0; i < got.pairs; i++)
        test_close(got.omega[i], paper_llama3(paper_theta(500000.0L, 128, i), 8, 1, 4, 8192), 1e-15L, "llama3");
    /* Llama 4 Scout has both bounds at one place. */
    got = figures(
        "{\"rope_theta\": 500000, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 16.0, \"low_freq_factor\": "
        "1.0, \"high_freq_factor\": 1.0, \"original_max_position_embeddings\": 8192}}");
    for (int64_t i = 0; i < got.pairs; i++)
        test_close(got.omega[i], paper_llama3(paper_theta(500000.0L, 128, i), 16, 1, 1, 8192), 1e-15L, "one place");
    refuses("{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"high_freq_factor\": 4.0}}", GYRE_EFORMAT,
            "rope_scaling.low_freq_factor: missing");
}

static void proportional_has_no_factor(void **state) {
    (void)state;
    gyre_reading *reading =
        read_text("{\"head_dim\": 64, \"rope_theta\": 1e6, \"rope_parameters\": {\"rope_type\": \"proportional\", "
                  "\"partial_rotary_factor\": 0.25, \"factor\": 4.0}}");
    const engine_figures got = engine_at(reading, 0);
    assert_int_equal(got.pairs, 32);
    for (int64_t i = 0; i < got.pairs; i++)
        engine_is(got.omega[i], i < 8 ? paper_theta(1e6L, 64, i) : 0.0L, "proportional");
    engine_says(reading, "factor", "1", "rope_parameters.factor (line 1: 4.0)");
    gyre_reading_free(reading);
}

static gyre_reading *parse(const char *text, gyre_profile profile) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    if (gyre_reading_parse(&reading, text, strlen(text), GYRE_ARGS(gyre_reading_options, .profile = profile), &err) !=
        GYRE_OK)
        fail_msg("%s", err.text);
    return reading;
}

/* The class is written like Llama's: transformers turns the whole head. */
static void partial_in_every_class(void **state) {
    (void)state;
    const char *text = "{\"model_type\": \"llama\", \"head_dim\": 128, \"partial_rotary_factor\": 0.5}";
    gyre_reading *reading = parse(text, GYRE_PROFILE_HF_5);
    assert_int_equal(engine_at(reading, 0).pairs, 64);
    gyre_reading_free(reading);
    reading = parse(text, GYRE_PROFILE_VLLM_2026_05);
    assert_int_equal(engine_at(reading, 0).pairs, 32);
    engine_says(reading, "rotary_dim", "64", "transformers rotates the whole");
    gyre_reading_free(reading);
    reading = read_text("{\"rope_parameters\": {\"rope_type\": \"default\", \"rope_dim\": 48}}");
    assert_int_equal(engine_at(reading, 0).pairs, 24);
    engine_says(reading, "rotary_dim", "48", "a key of vLLM");
    gyre_reading_free(reading);
    refuses("{\"rope_parameters\": {\"rope_type\": \"default\", \"rope_dim\": 130}}", GYRE_EFORMAT,
            "rope_parameters.rope_dim: 130");
    refuses("{\"rope_parameters\": {\"rope_type\": \"default\", \"rope_dim\": 3}}", GYRE_EFORMAT,
            "rope_parameters.rope_dim: 3");
}

static void types(void **state) {
    (void)state;
    refuses("{\"rope_scaling\": {\"rope_type\": \"yarn\", \"type\": \"linear\", \"factor\": 2.0}}", GYRE_EUNSUPPORTED,
            "rope_scaling.type: \"linear\" contradicts rope_type \"yarn\"");
    refuses("{\"rope_scaling\": {\"factor\": 2.0}}", GYRE_EFORMAT, "rope_scaling.rope_type: missing");
    refuses("{\"rope_scaling\": {\"type\": \"by-parts\", \"factor\": 2.0}}", GYRE_EUNSUPPORTED,
            "\"by-parts\" is not a type that vLLM of May 2026 knows");
    refuses("{\"rope_scaling\": {\"type\": \"openpangu\"}}", GYRE_EUNSUPPORTED, "openpangu");
    refuses("{\"rope_parameters\": {\"rope_type\": \"default\", \"use_fope\": true}}", GYRE_EUNSUPPORTED, "use_fope");
    engine_figures got =
        figures("{\"rope_scaling\": {\"rope_type\": \"default\", \"type\": \"mrope\", \"mrope_section\": [16, 24, 24]}}");
    check_base(&got, 10000.0L);
    got = figures("{\"rope_parameters\": {\"rope_theta\": 500000.0}}");
    check_base(&got, 500000.0L);
}

/* Qwen2.5-1M; the sizes and what follows from them are those of vLLM's class. */
static void chunks_go_before_scaling(void **state) {
    (void)state;
    gyre_reading *reading =
        read_text("{\"rope_theta\": 1e7,\n\"dual_chunk_attention_config\": {\"chunk_size\": 262144, \"local_size\": 8192,\n"
                  "\"original_max_position_embeddings\": 262144},\n"
                  "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0}}");
    engine_figures got = engine_at(reading, 262144);
    const gyre_config *config = &reading->groups[0]->config;
    check_base(&got, 1e7L);
    engine_is(got.attention, 1, "up to the original length");
    got = engine_at(reading, 1010000);
    engine_is(got.attention, 0.1L * logl(1010000.0L / 262144.0L) + 1, "past it");
    assert_non_null(find_warning(reading, "up to 0.10"));
    assert_int_equal(reading->warnings[0].line, 2);
    assert_int_equal(config->rope.far, GYRE_FAR_CHUNKED);
    assert_int_equal(config->rope.chunk.size, 262144);
    assert_int_equal(config->rope.chunk.local, 8192);
    assert_int_equal(config->rope.chunk.original_length, 262144);
    assert_int_equal(config->length_policy, GYRE_LENGTH_POLICY_PREFIX);
    engine_says(reading, "far", "chunked", "within chunks");
    engine_says(reading, "chunk_local", "8192", NULL);
    assert_int_equal(engine_field(reading, "chunk_length")->line, 3);
    gyre_reading_free(reading);
}

/* The note of the factor's length policy names whose factor it is: the paper has none. */
static void the_factor_is_of_the_program(void **state) {
    (void)state;
    static const char text[] = "{\"model_type\": \"llama\", \"head_dim\": 128, \"max_position_embeddings\": 4096, "
                               "\"dual_chunk_attention_config\": {\"chunk_size\": 3072, \"local_size\": 512, "
                               "\"original_max_position_embeddings\": 4096}}";
    static const gyre_profile profiles[] = {GYRE_PROFILE_VLLM_2026_05, GYRE_PROFILE_REFERENCE};
    static const char *const begins[] = {"at n tokens vLLM multiplies", "at n tokens the authors' fork of vLLM,"};
    for (int i = 0; i < 2; i++) {
        gyre_reading *reading = parse(text, profiles[i]);
        const char *note = engine_field(reading, "length_policy")->note;
        assert_non_null(strstr(note, begins[i]));
        assert_true(!strstr(note, "the paper of dual chunks has no such factor") == (i == 0));
        gyre_reading_free(reading);
    }
}

/* The authors' code has no scaling to go before. */
static void reference_reads_chunks_and_scaling(void **state) {
    (void)state;
    gyre_reading *reading = parse("{\"model_type\": \"llama\", \"head_dim\": 128, \"max_position_embeddings\": 4096, "
                                  "\"dual_chunk_attention_config\": {\"chunk_size\": 3072, \"local_size\": 512}, "
                                  "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4.0}}",
                                  GYRE_PROFILE_REFERENCE);
    const gyre_config *config = &reading->groups[0]->config;
    assert_int_equal(config->rope.far, GYRE_FAR_CHUNKED);
    assert_int_equal(config->rope.chunk.size, 3072);
    assert_int_equal(config->rope.chunk.local, 512);
    assert_int_equal(config->rope.scaling, GYRE_SCALING_LINEAR);
    assert_int_equal(reading->warnings_count, 0);
    gyre_reading_free(reading);
}

/* vLLM's defaults, and what it does not say. */
static void chunks_that_say_less(void **state) {
    (void)state;
    gyre_reading *reading = read_text("{\"dual_chunk_attention_config\": {\"sparse_attention_enabled\": true}}");
    const engine_figures got = engine_at(reading, 1 << 20);
    assert_int_equal(reading->groups[0]->config.rope.chunk.size, 8192);
    assert_int_equal(reading->groups[0]->config.rope.chunk.local, 1024);
    assert_int_equal(reading->groups[0]->config.length_policy, GYRE_LENGTH_POLICY_DECLARED);
    engine_is(got.attention, 1, "without an original length");
    assert_non_null(find_warning(reading, "omits keys"));
    assert_int_equal(engine_field(reading, "chunk_size")->origin, GYRE_ORIGIN_READER);
    gyre_reading_free(reading);
    reading = read_text("{\"dual_chunk_attention_config\": {}}");
    assert_int_equal(reading->groups[0]->config.rope.far, GYRE_FAR_AS_NEAR);
    gyre_reading_free(reading);
    refuses("{\"dual_chunk_attention_config\": {\"chunk_size\": 1024}}", GYRE_EFORMAT,
            "dual_chunk_attention_config.local_size: 1024 leaves no token of a chunk of 1024");
    refuses("{\"dual_chunk_attention_config\": {\"chunk_size\": 0}}", GYRE_EFORMAT, "chunk_size");
    refuses("{\"dual_chunk_attention_config\": 7}", GYRE_EFORMAT, "dual_chunk_attention_config");
}

static void temperature_outside_the_rotation(void **state) {
    (void)state;
    const engine_file file = {"ministral3",
                              GYRE_LLAMA4_SCALING_BETA,
                              GYRE_LAYOUT_HALF,
                              NULL,
                              "{\"rope_parameters\": {\"rope_type\": \"default\", \"llama_4_scaling_beta\": 0.1}}",
                              0};
    gyre_reading *reading = read_file(&file);
    assert_int_equal(reading->groups[0]->config.query.temperature, GYRE_TEMPERATURE_NONE);
    engine_says(reading, "query_temperature", "none", "beside the rotation");
    gyre_reading_free(reading);
    reading =
        parse("{\"model_type\": \"llama\", \"head_dim\": 128, \"llama_4_scaling\": {\"original_max_position_embeddings\": "
              "8192, \"beta\": 0.2}}",
              GYRE_PROFILE_VLLM_2026_05);
    assert_int_equal(reading->groups[0]->config.query.temperature, GYRE_TEMPERATURE_MINISTRAL);
    assert_int_equal(reading->groups[0]->config.query.reference_length, 8192);
    assert_true(reading->groups[0]->config.query.slope == 0.2);
    gyre_reading_free(reading);
}

/* What transformers makes of the same file, beside it. */
static void differs_from_transformers(void **state) {
    (void)state;
    static const struct {
        const char *scaling;
        long double theirs, ours;
    } files[] = {{"\"rope_type\": \"yarn\", \"factor\": 64.0, \"original_max_position_embeddings\": 2048, "
                  "\"attention_factor\": 1.0",
                  1.0L, 1.4158883083L},
                 {"\"rope_type\": \"yarn\", \"factor\": 16.0, \"original_max_position_embeddings\": 2048, \"mscale\": 1.0, "
                  "\"mscale_all_dim\": 1.0",
                  1.0L, 1.2772588722L}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char text[400];
        snprintf(text, sizeof text, "{\"model_type\": \"llama\", \"head_dim\": 128, \"rope_scaling\": {%s}}",
                 files[i].scaling);
        gyre_reading *theirs = parse(text, GYRE_PROFILE_HF_5), *ours = parse(text, GYRE_PROFILE_VLLM_2026_05);
        test_close(engine_at(theirs, 0).attention, files[i].theirs, 5e-11L, "transformers");
        test_close(engine_at(ours, 0).attention, files[i].ours, 5e-11L, "vLLM");
        gyre_reading_free(theirs);
        gyre_reading_free(ours);
    }
    const char *text =
        "{\"model_type\": \"llama\", \"head_dim\": 128, \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4.0}}";
    gyre_reading *theirs = parse(text, GYRE_PROFILE_HF_5), *ours = parse(text, GYRE_PROFILE_VLLM_2026_05);
    const engine_figures short_theirs = engine_at(theirs, 2048), short_ours = engine_at(ours, 2048);
    const engine_figures long_theirs = engine_at(theirs, 8192), long_ours = engine_at(ours, 8192);
    check_base(&short_theirs, 10000.0L);
    check_base(&short_ours, 10000.0L * powl(13.0L, 128.0L / 126.0L));
    for (int64_t i = 0; i < 64; i++)
        engine_is(long_theirs.omega[i], long_ours.omega[i], "where they meet, at factor x length");
    gyre_reading_free(theirs);
    gyre_reading_free(ours);
}

static void unread_keys(void **state) {
    (void)state;
    gyre_reading *reading = read_text("{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0,\n\"beta_fast\": 32}}");
    assert_int_equal(reading->warnings_count, 1);
    assert_string_equal(reading->warnings[0].key, "rope_scaling.beta_fast");
    assert_int_equal(reading->warnings[0].line, 2);
    gyre_reading_free(reading);
}

static void original_length(void **state) {
    (void)state;
    gyre_reading *reading =
        read_text("{\"original_max_position_embeddings\": 2048, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": "
                  "4.0, \"original_max_position_embeddings\": 4096}}");
    assert_int_equal(reading->groups[0]->config.trained_length, 2048);
    engine_says(reading, "original_length", "2048", "has precedence");
    gyre_reading_free(reading);
    reading = read_text("{\"max_position_embeddings\": 8192, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0}}");
    assert_int_equal(reading->groups[0]->config.trained_length, 8192);
    engine_says(reading, "original_length", "8192", "missing");
    assert_int_equal(engine_field(reading, "original_length")->origin, GYRE_ORIGIN_READER);
    gyre_reading_free(reading);
    const engine_file nested = {"gemma3",
                                0,
                                GYRE_LAYOUT_HALF,
                                "full_attention",
                                "{\"original_max_position_embeddings\": 2048, \"rope_parameters\": {\"full_attention\": "
                                "{\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 4096}}}",
                                0};
    reading = read_file(&nested);
    assert_int_equal(reading->groups[0]->config.trained_length, 4096);
    gyre_reading_free(reading);
}

/* max_model_len, where none is given. */
static void served_length(void **state) {
    (void)state;
    gyre_reading *reading =
        read_text("{\"max_position_embeddings\": 32768, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 8.0}}");
    engine_says(reading, "max_length", "262144", "includes the factor");
    gyre_reading_free(reading);
    reading = read_text("{\"max_position_embeddings\": 40960, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, "
                        "\"original_max_position_embeddings\": 32768}}");
    engine_says(reading, "max_length", "131072", "times the original length");
    gyre_reading_free(reading);
    const engine_file gemma = {
        "gemma3_text",
        0,
        GYRE_LAYOUT_HALF,
        NULL,
        "{\"max_position_embeddings\": 131072, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 8.0}}",
        0};
    reading = read_file(&gemma);
    for (int64_t i = 0; i < reading->groups[0]->fields_count; i++)
        assert_string_not_equal(reading->groups[0]->fields[i].name, "max_length");
    gyre_reading_free(reading);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(dynamic_has_one_base),
                                       cmocka_unit_test(alpha_grows_the_base),
                                       cmocka_unit_test(ntk_changes_more_than_the_base),
                                       cmocka_unit_test(linear_factor_must_be_a_float),
                                       cmocka_unit_test(yarn_ignores_attention_factor),
                                       cmocka_unit_test(yarn_reads_vllm_keys),
                                       cmocka_unit_test(yarn_honours_truncate),
                                       cmocka_unit_test(yarn_with_axes_counts_four_times),
                                       cmocka_unit_test(telechat_magnitude_has_a_smaller_slope),
                                       cmocka_unit_test(deepseek_multiplies_scores),
                                       cmocka_unit_test(deepseek_v4_has_no_factors),
                                       cmocka_unit_test(deepseek_always_truncates),
                                       cmocka_unit_test(longrope_chooses_once),
                                       cmocka_unit_test(longrope_has_magnitudes_of_its_own),
                                       cmocka_unit_test(llama3_agrees),
                                       cmocka_unit_test(proportional_has_no_factor),
                                       cmocka_unit_test(partial_in_every_class),
                                       cmocka_unit_test(types),
                                       cmocka_unit_test(chunks_go_before_scaling),
                                       cmocka_unit_test(reference_reads_chunks_and_scaling),
                                       cmocka_unit_test(the_factor_is_of_the_program),
                                       cmocka_unit_test(chunks_that_say_less),
                                       cmocka_unit_test(temperature_outside_the_rotation),
                                       cmocka_unit_test(differs_from_transformers),
                                       cmocka_unit_test(unread_keys),
                                       cmocka_unit_test(original_length),
                                       cmocka_unit_test(served_length)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
