/* test_rope_llama_cpp.c: the rotation that llama.cpp's converter makes of a config.json, by values: what is converted, what
 * is lost, and the result. */
#include "check_engine_reading.h"

static gyre_reading *read_file(const engine_file *file) {
    return engine_read(gyre_rope_as_llama_cpp, GYRE_PROFILE_LLAMA_CPP, file);
}
static gyre_reading *read_as(const char *model_type, const char *text) {
    const engine_file file = {model_type, 0, GYRE_LAYOUT_HALF, NULL, text, 0};
    return read_file(&file);
}
static void refuses(const char *model_type, const char *text, gyre_status status, const char *part) {
    const engine_file file = {model_type, 0, GYRE_LAYOUT_HALF, NULL, text, 0};
    engine_refuses(gyre_rope_as_llama_cpp, GYRE_PROFILE_LLAMA_CPP, &file, status, part);
}

/* Fails unless the rotation is the trained one, with a warning at the type and a reason at the scaling. */
static void check_dropped(const char *model_type, const char *text, const char *why) {
    gyre_reading *reading = read_as(model_type, text);
    const engine_figures got = engine_at(reading, 1000000);
    check_base(&got, 10000.0L);
    engine_is(got.attention, 1, "attention factor");
    engine_says(reading, "scaling", "default", why);
    assert_non_null(find_warning(reading, "does not reach llama.cpp"));
    assert_non_null(strstr(reading->warnings[0].key, "rope_scaling."));
    gyre_reading_free(reading);
}

/* -- YaRN -- */
/* gpt-oss: the pairs that rotate too fast, and by how much, as measured against transformers. */
static void yarn_always_truncates(void **state) {
    (void)state;
    static const double faster[] = {1.05, 1.09, 1.15, 1.27, 1.76}; /* pairs 13 .. 17 */
    gyre_reading *reading =
        read_as("gpt_oss",
                "{\"head_dim\": 64, \"rope_theta\": 150000, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 32.0, "
                "\"truncate\": false, \"original_max_position_embeddings\": 4096}}");
    const engine_figures got = engine_at(reading, 0);
    check_ramp(&got, 150000.0L, 32.0L, 8.0L, 18.0L, 1.0L);
    for (int64_t i = 13; i < 18; i++) {
        const long double theirs = paper_ramp(paper_theta(150000.0L, 64, i), i, 32.0L, 8.092779116L, 17.398024502L, 1.0L);
        test_close((long double)got.omega[i] / theirs, faster[i - 13], 0.006L, "ratio");
    }
    test_close(got.attention, 1.3465735903L, 5e-11L, "attention factor");
    engine_says(reading, "truncate", "true", "always rounds the ramp's ends");
    gyre_reading_free(reading);
}

static void yarn_loses_factors(void **state) {
    (void)state;
    gyre_reading *reading = read_as(
        "olmo3",
        "{\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 8.0, \"original_max_position_embeddings\": 4096,\n"
        "\"attention_factor\": 1.5, \"mscale\": 1.0, \"mscale_all_dim\": 0.5,\n\"beta_fast\": 16, \"beta_slow\": 2}}");
    const engine_figures got = engine_at(reading, 0);
    test_close(got.attention, 1.2079441542L, 5e-11L, "attention factor");
    check_ramp(&got, 10000.0L, 8.0L, 20.0L, 46.0L, 1.0L);
    engine_says(reading, "attention_factor", engine_field(reading, "attention_factor")->value,
                "llama.cpp does not read rope_scaling.attention_factor (line 2: 1.5), rope_scaling.mscale (line 2: 1.0), "
                "rope_scaling.mscale_all_dim (line 2: 0.5)");
    assert_non_null(find_warning(reading, "context shift"));
    engine_says(reading, "beta_fast", "32", "rope_scaling.beta_fast (line 3: 16)");
    engine_says(reading, "beta_slow", "1", "rope_scaling.beta_slow (line 3: 2)");
    gyre_reading_free(reading);
    check_dropped(
        "qwen2",
        "{\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": null, \"original_max_position_embeddings\": 4096}}",
        "missing or null");
}

/* The only architecture here whose betas and mscale_all_dim are read. */
static void ministral_reads_more(void **state) {
    (void)state;
    const char *text =
        "{\"rope_theta\": 1e6, \"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 16.0, \"mscale\": 1.0, "
        "\"mscale_all_dim\": 1.0, \"beta_fast\": 8.0, \"beta_slow\": 2.0, \"extrapolation_factor\": 0.5, "
        "\"original_max_position_embeddings\": 16384}}";
    gyre_reading *reading = read_as("ministral3", text);
    const engine_figures got = engine_at(reading, 0);
    /* 128 ln(16384 / (2 pi 8)) / (2 ln 1e6) = 26.81 -> 26; for 2 revolutions 33.23 -> 34 */
    check_ramp(&got, 1e6L, 16.0L, 26.0L, 34.0L, 0.5L);
    engine_is(got.attention, 1, "attention factor");
    engine_says(reading, "mscale_all_dim", "1", NULL);
    gyre_reading_free(reading);
    refuses(
        "ministral3",
        "{\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 16.0, \"original_max_position_embeddings\": 16384}}",
        GYRE_EFORMAT, "rope_parameters.mscale_all_dim: missing");
}

static gyre_reading *latent(const char *model_type, const char *more) {
    char text[600];
    snprintf(
        text, sizeof text,
        "{\"head_dim\": 192, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"rope_scaling\": {\"type\": \"yarn\", "
        "\"factor\": 40, \"original_max_position_embeddings\": 4096%s}}",
        more);
    const engine_file file = {model_type, GYRE_MLA, GYRE_LAYOUT_INTERLEAVED, NULL, text, 0};
    return read_file(&file);
}

static void latent_attention(void **state) {
    (void)state;
    static const struct {
        const char *model_type, *more;
        long double attention, softmax;
    } files[] = {
        {"deepseek_v3", ", \"mscale\": 1.0, \"mscale_all_dim\": 1.0", 1.0L, 1.8738542071L},
        {"deepseek_v2", ", \"mscale\": 0.707, \"mscale_all_dim\": 0.707", 1.0L, 1.5896261651L},
        {"deepseek_v2", ", \"mscale\": 1.0, \"mscale_all_dim\": 0.707", 1.0L, 1.5896261651L}, /* mscale is ignored */
        {"deepseek_v3", "", 1.3688879454L, 1.8738542071L},                                    /* counted twice */
        /* Other architectures: g(40, 1) / g(40, 0.707), and its square times that of g(40, 0.707): g(40, 1)^2. */
        {"mistral4", ", \"mscale\": 0.707, \"mscale_all_dim\": 0.707", 1.3688879454L / 1.2608037774L, 1.8738542071L}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        gyre_reading *reading = latent(files[i].model_type, files[i].more);
        const engine_figures got = engine_at(reading, 0);
        check_ramp(&got, 10000.0L, 40.0L, 10.0L, 23.0L, 1.0L);
        test_close(got.attention, files[i].attention, 2e-10L, "attention factor");
        test_close(reading->groups[0]->softmax_multiplier, files[i].softmax, 2e-10L, "softmax multiplier");
        test_close(reading->groups[0]->scale, files[i].softmax / sqrtl(192.0L), 2e-10L, "scale");
        gyre_reading_free(reading);
    }
    gyre_reading *four = latent("deepseek_v4", ", \"mscale_all_dim\": 1");
    engine_is(engine_at(four, 0).attention, 1, "attention factor");
    assert_non_null(find_warning(four, "in this architecture is not known"));
    gyre_reading_free(four);
    gyre_reading *reading = latent("kimi_k2", ", \"beta_fast\": 1, \"beta_slow\": 1, \"mscale_all_dim\": 1");
    const engine_figures got = engine_at(reading, 0);
    check_ramp(&got, 10000.0L, 40.0L, 10.0L, 23.0L, 1.0L);
    engine_says(reading, "beta_fast", "32", "rope_scaling.beta_fast");
    gyre_reading_free(reading);
}

/* -- Llama 3 -- */
static void check_llama3(const char *model_type, const char *text, long double s, long double length) {
    gyre_reading *reading = read_as(model_type, text);
    const engine_figures got = engine_at(reading, 0);
    for (int64_t i = 0; i < got.pairs; i++)
        test_close(got.omega[i], paper_llama3(paper_theta(500000.0L, 128, i), s, 1, 4, length), 1e-15L, "llama3");
    gyre_reading_free(reading);
}

static void llama3_is_written_as_divisors(void **state) {
    (void)state;
    const char *usual = "{\"rope_theta\": 500000, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 32.0, "
                        "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}}";
    const char *shorter = "{\"rope_theta\": 500000, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 32.0, "
                          "\"original_max_position_embeddings\": 2048}}";
    check_llama3("llama", usual, 32, 8192);
    check_llama3("llama", shorter, 32, 8192);
    check_llama3("llama4_text", "{\"rope_theta\": 500000, \"rope_scaling\": {\"rope_type\": \"llama3\"}}", 8, 8192);
    check_llama3("granite",
                 "{\"rope_theta\": 500000, \"original_max_position_embeddings\": 4096, \"rope_scaling\": {\"rope_type\": "
                 "\"llama3\", \"factor\": 32.0, \"original_max_position_embeddings\": 2048}}",
                 32, 4096);
    check_llama3("exaone4",
                 "{\"rope_theta\": 500000, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 16.0, "
                 "\"original_max_position_embeddings\": 4096}}",
                 16, 4096);
    check_llama3("cwm", usual, 32, 8192);
    gyre_reading *reading = read_as("cwm", usual);
    assert_non_null(find_warning(reading, "no class for cwm"));
    gyre_reading_free(reading);
    reading = read_as("llama", shorter);
    engine_says(reading, "original_length", "8192", "(2048), so it takes 8192");
    assert_non_null(find_warning(reading, "takes 8192"));
    gyre_reading_free(reading);
    reading = read_as("llama", usual);
    engine_says(reading, "original_length", "8192", NULL);
    assert_int_equal(reading->warnings_count, 0);
    gyre_reading_free(reading);
    check_dropped("qwen2", "{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 32.0}}", "with Llama's structure");
}

/* -- LongRoPE -- */
static const char long_file[] =
    "{\"head_dim\": 8, \"max_position_embeddings\": 131072, \"original_max_position_embeddings\": "
    "4096, \"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 1.5, 2, 3], "
    "\"long_factor\": [4, 8, 16, 32], \"factor\": 8.0, \"attention_factor\": 1.5}}";

static void check_lists(const char *model_type, int64_t length, const double *list, long double attention) {
    const engine_file file = {model_type, 0, GYRE_LAYOUT_HALF, NULL, long_file, length};
    gyre_reading *reading = read_file(&file);
    for (int64_t n = 1; n < 200000; n += 50000) {
        const engine_figures got = engine_at(reading, n);
        for (int64_t i = 0; i < 4; i++)
            engine_is(got.omega[i], paper_theta(10000.0L, 8, i) / list[i], "longrope");
        test_close(got.attention, attention, 5e-11L, "attention factor");
    }
    gyre_reading_free(reading);
}

static void longrope_chooses_once(void **state) {
    (void)state;
    static const double near[] = {1, 1.5, 2, 3}, far[] = {4, 8, 16, 32};
    const long double a = 1.1902380714L; /* of s = 32, L = 4096 */
    check_lists("phi3", 0, far, a);      /* without a request the context is the longest that the model states */
    check_lists("phi3", 4096, near, a);
    check_lists("phi3", 4097, far, a);
    /* MiniCPM's converter writes only the lists. */
    check_lists("minicpm", 8192, near, 1);
    check_lists("minicpm", 131073, far, 1);
    check_lists("minicpm3", 0, near, 1);
    gyre_reading *reading = read_as("llama", long_file);
    const engine_figures got = engine_at(reading, 0);
    check_base(&got, 10000.0L);
    engine_says(reading, "scaling", "default", "Phi-3 and MiniCPM");
    gyre_reading_free(reading);
    refuses("minicpm", "{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4.0}}", GYRE_EUNSUPPORTED,
            "wants short_factor");
}

/* -- the others -- */
static void unknown_types_are_dropped(void **state) {
    (void)state;
    check_dropped("internlm2", "{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0}}", "grows with the context");
    check_dropped("llama", "{\"rope_scaling\": {\"type\": \"ntk\", \"factor\": 2.0}}", "does not know the type");
    check_dropped("llama", "{\"rope_scaling\": {\"type\": \"by-parts\", \"factor\": 2.0}}", "does not know the type");
    check_dropped("llama", "{\"rope_scaling\": {\"type\": \"linear\"}}", "factor is missing");
    check_dropped("gpt_neox", "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}}", "for this architecture");
    check_dropped("phi3", "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}}", "for this architecture");
    check_dropped("llama", "{\"rope_scaling\": {\"type\": \"proportional\"}}", "Gemma 4");
}

static void linear_is_read(void **state) {
    (void)state;
    gyre_reading *reading = read_as("llama", "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 8}}");
    const engine_figures got = engine_at(reading, 0);
    for (int64_t i = 0; i < got.pairs; i++)
        engine_is(got.omega[i], paper_theta(10000.0L, 128, i) / 8.0L, "linear");
    assert_int_equal(reading->warnings_count, 0);
    gyre_reading_free(reading);
    reading = read_as("llama", "{\"rope_theta\": 500000}");
    const engine_figures plain = engine_at(reading, 0);
    check_base(&plain, 500000.0L);
    gyre_reading_free(reading);
}

/* 11158839.9251: as the converter states it for alpha 1000. */
static void hunyuan_has_a_fixed_base(void **state) {
    (void)state;
    static const struct {
        const char *model_type, *text;
        long double alpha;
    } files[] = {{"hunyuan_v1_moe", "{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 1.0}}", 1000},
                 {"hunyuan_v1_dense", "{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 1.0}}", 50},
                 {"hunyuan_vl", "{\"rope_scaling\": {\"type\": \"xdrope\", \"alpha\": 7.5}}", 7.5L}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        gyre_reading *reading = read_as(files[i].model_type, files[i].text);
        const engine_figures got = engine_at(reading, 300000);
        check_base(&got, 10000.0L * powl(files[i].alpha, 128.0L / 126.0L));
        if (i == 0) test_close(powl(got.omega[1], -64.0L), 11158839.9251L, 0.001L, "base");
        gyre_reading_free(reading);
    }
    refuses("hunyuan_vl", "{\"rope_scaling\": {\"type\": \"xdrope\", \"alpha\": 0.5}}", GYRE_EFORMAT, "rope_scaling.alpha");
}

static void missing_bases(void **state) {
    (void)state;
    gyre_reading *reading = read_as("gemma2", "{\n\"rope_theta\": 500000}");
    engine_figures got = engine_at(reading, 0);
    check_base(&got, 10000.0L);
    engine_says(reading, "base", "10000", "writes no base");
    assert_int_equal(engine_field(reading, "base")->line, 2);
    gyre_reading_free(reading);
    reading = read_as("gemma3_text", "{\"rope_theta\": 1000000}");
    got = engine_at(reading, 0);
    check_base(&got, 1e6L);
    gyre_reading_free(reading);
}

static void proportional_has_no_factor(void **state) {
    (void)state;
    const engine_file file = {
        "gemma4_text",
        0,
        GYRE_LAYOUT_HALF,
        "full_attention",
        "{\"head_dim\": 64, \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"proportional\", "
        "\"rope_theta\": 1e6, \"partial_rotary_factor\": 0.25, \"factor\": 2.0}}}",
        0};
    gyre_reading *reading = read_file(&file);
    const engine_figures got = engine_at(reading, 0);
    for (int64_t i = 0; i < 32; i++)
        engine_is(got.omega[i], i < 8 ? paper_theta(1e6L, 64, i) : 0.0L, "proportional");
    engine_says(reading, "factor", "1", "rope_parameters.full_attention.factor");
    gyre_reading_free(reading);
}

static void sliding_layers_use_only_the_base(void **state) {
    (void)state;
    const char *text =
        "{\"rope_parameters\": {\"sliding_attention\": {\"rope_type\": \"linear\", \"factor\": 4.0, \"rope_theta\": "
        "20000.0}, \"full_attention\": {\"rope_type\": \"linear\", \"factor\": 4.0, \"rope_theta\": 20000.0}}}";
    const engine_file near = {"gemma3_text", 0, GYRE_LAYOUT_HALF, "sliding_attention", text, 0};
    const engine_file far = {"gemma3_text", 0, GYRE_LAYOUT_HALF, "full_attention", text, 0};
    gyre_reading *reading = read_file(&near);
    engine_figures got = engine_at(reading, 0);
    check_base(&got, 20000.0L);
    engine_says(reading, "scaling", "default", "takes only the base");
    gyre_reading_free(reading);
    reading = read_file(&far);
    got = engine_at(reading, 0);
    engine_is(got.omega[1], paper_theta(20000.0L, 128, 1) / 4.0L, "linear");
    gyre_reading_free(reading);
}

/* Qwen3-VL: of pairs 60 .. 63 only 60 and 63 belong to the first axis. */
static void fourth_axis_does_not_rotate(void **state) {
    (void)state;
    const engine_file plain = {
        "qwen3_vl",
        GYRE_MROPE_INTERLEAVED,
        GYRE_LAYOUT_HALF,
        NULL,
        "{\"rope_theta\": 5e6, \"rope_scaling\": {\"rope_type\": \"default\", \"mrope_section\": [24, 20, "
        "20]}}",
        0};
    const engine_file yarn = {"qwen3_vl",
                              GYRE_MROPE_INTERLEAVED,
                              GYRE_LAYOUT_HALF,
                              NULL,
                              "{\"rope_theta\": 1e4, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, "
                              "\"original_max_position_embeddings\": 4096, \"mrope_section\": [24, 20, 20]}}",
                              0};
    gyre_reading *reading = read_file(&plain);
    engine_figures got = engine_at(reading, 0);
    for (int64_t i = 0; i < 64; i++)
        test_close(got.omega[i], i == 61 || i == 62 ? 0.0L : paper_theta(5e6L, 128, i), 1e-15L, "plain");
    engine_is(got.attention, 1, "attention factor");
    engine_says(reading, "sections", "24 20 20", "2 of 64 pairs do not rotate:");
    engine_says(reading, "scaling", "default", NULL);
    assert_non_null(find_warning(reading, "pairs do not rotate"));
    gyre_reading_free(reading);
    reading = read_file(&yarn);
    got = engine_at(reading, 0);
    for (int64_t i = 0; i < 64; i++)
        test_close(got.omega[i],
                   i == 61 || i == 62 ? 0.0L : paper_ramp(paper_theta(1e4L, 128, i), i, 4.0L, 20.0L, 46.0L, 1.0L), 1e-15L,
                   "yarn");
    engine_is(got.attention, paper_magnitude(4, 1), "attention factor");
    gyre_reading_free(reading);
    const engine_file fits = {
        "qwen3_5",
        GYRE_MROPE_INTERLEAVED,
        GYRE_LAYOUT_HALF,
        NULL,
        "{\"head_dim\": 64, \"rope_scaling\": {\"rope_type\": \"default\", \"mrope_section\": [11, 11, 10]}}",
        0};
    reading = read_file(&fits);
    got = engine_at(reading, 0);
    check_base(&got, 10000.0L);
    assert_int_equal(reading->groups[0]->config.rope.scaling, GYRE_SCALING_NONE);
    gyre_reading_free(reading);
}

static void temperature_is_lost(void **state) {
    (void)state;
    const char *text = "{\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 16.0, \"mscale_all_dim\": 1.0, "
                       "\"llama_4_scaling_beta\": 0.1, \"original_max_position_embeddings\": 1024}}";
    const engine_file small = {"mistral4", GYRE_LLAMA4_SCALING_BETA | GYRE_MLA, GYRE_LAYOUT_INTERLEAVED, NULL, text, 0};
    const engine_file mini = {"ministral3", GYRE_LLAMA4_SCALING_BETA, GYRE_LAYOUT_HALF, NULL, text, 0};
    gyre_reading *reading = read_file(&small);
    assert_int_equal(reading->groups[0]->config.query.temperature, GYRE_TEMPERATURE_NONE);
    engine_says(reading, "query_temperature", "none", "does not write it");
    assert_non_null(find_warning(reading, "llama_4_scaling_beta"));
    gyre_reading_free(reading);
    reading = read_file(&mini);
    assert_int_equal(reading->groups[0]->config.query.temperature, GYRE_TEMPERATURE_MINISTRAL);
    assert_int_equal(reading->warnings_count, 0);
    gyre_reading_free(reading);
}

static void permuted_rows_keep_scores(void **state) {
    (void)state;
    gyre_reading *reading = read_as("mistral", "{}");
    engine_says(reading, "layout", "half", "reorders the rows");
    assert_int_equal(reading->groups[0]->config.rope.layout, GYRE_LAYOUT_HALF);
    gyre_reading_free(reading);
    reading = read_as("qwen2", "{}");
    for (int64_t i = 0; i < reading->groups[0]->fields_count; i++)
        assert_string_not_equal(reading->groups[0]->fields[i].name, "layout");
    gyre_reading_free(reading);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yarn_always_truncates),         cmocka_unit_test(yarn_loses_factors),
        cmocka_unit_test(ministral_reads_more),          cmocka_unit_test(latent_attention),
        cmocka_unit_test(llama3_is_written_as_divisors), cmocka_unit_test(longrope_chooses_once),
        cmocka_unit_test(unknown_types_are_dropped),     cmocka_unit_test(linear_is_read),
        cmocka_unit_test(hunyuan_has_a_fixed_base),      cmocka_unit_test(missing_bases),
        cmocka_unit_test(proportional_has_no_factor),    cmocka_unit_test(sliding_layers_use_only_the_base),
        cmocka_unit_test(fourth_axis_does_not_rotate),   cmocka_unit_test(temperature_is_lost),
        cmocka_unit_test(permuted_rows_keep_scores)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
