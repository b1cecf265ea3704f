/* test_rope_mlx_lm.c: the rotation that mlx-lm makes of a config.json, by values of its formulas, and what its classes
 * read. */
#include "check_engine_reading.h"

static gyre_reading *read_text(const char *text) {
    const engine_file file = {"llama", GYRE_WHOLE_HEAD, GYRE_LAYOUT_HALF, NULL, text, 0};
    return engine_read(gyre_rope_as_mlx_lm, GYRE_PROFILE_MLX_LM, &file);
}
static void refuses(const char *text, gyre_status status, const char *part) {
    const engine_file file = {"llama", GYRE_WHOLE_HEAD, GYRE_LAYOUT_HALF, NULL, text, 0};
    engine_refuses(gyre_rope_as_mlx_lm, GYRE_PROFILE_MLX_LM, &file, status, part);
}
static engine_figures figures(const char *text) {
    gyre_reading *reading = read_text(text);
    const engine_figures out = engine_at(reading, 0);
    gyre_reading_free(reading);
    return out;
}

/* mlx-lm computes wavelengths over 2 pi and blends them harmonically: (a b) / (a m + b (1 - m)) with a = s b.  out = its
 * reciprocal, the frequency. */
static long double mlx_yarn(long double base, int64_t channels, int64_t pair, long double s, long double low,
                            long double high) {
    const long double extra = powl(base, 2.0L * (long double)pair / (long double)channels), inter = s * extra;
    long double ramp = ((long double)pair - low) / (high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    const long double mask = 1.0L - ramp;
    return (inter * mask + extra * (1.0L - mask)) / (inter * extra);
}

static void check_yarn(const engine_figures *got, long double base, long double s, long double low, long double high) {
    for (int64_t i = 0; i < got->pairs; i++)
        engine_is(got->omega[i], mlx_yarn(base, 2 * got->pairs, i, s, low, high), "yarn");
}

static void yarn(void **state) {
    (void)state;
    static const struct {
        const char *more;
        long double attention;
    } files[] = {{"\"beta_fast\": 32", 1.1386294361L},
                 {"\"attention_factor\": 3.0", 1.1386294361L},
                 {"\"mscale\": 1.0, \"mscale_all_dim\": 1.0", 1.0L},
                 {"\"mscale\": 2.0", 1.2772588722L},
                 {"\"mscale_all_dim\": 1.0", 1.0L},
                 {"\"truncate\": false", 1.1386294361L}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char text[300];
        snprintf(
            text, sizeof text,
            "{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 32768, %s}, "
            "\"rope_theta\": 1e6}",
            files[i].more);
        const engine_figures got = figures(text);
        check_yarn(&got, 1e6L, 4.0L, 23.0L, 40.0L);
        test_close(got.attention, files[i].attention, 1e-10L, files[i].more);
    }
    /* Without the key the ramp is that of 4096 tokens, whatever the model's length. */
    gyre_reading *reading =
        read_text("{\"max_position_embeddings\": 131072, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0}}");
    const engine_figures got = engine_at(reading, 0);
    check_yarn(&got, 10000.0L, 4.0L, 20.0L, 46.0L);
    engine_says(reading, "original_length", "4096", "mlx-lm's default");
    gyre_reading_free(reading);
}

/* As written: wavelengths are multiplied, and those between are divided by (1 - m) / s + m. */
static void llama3(void **state) {
    (void)state;
    const engine_figures got =
        figures("{\"rope_theta\": 500000, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0}}");
    for (int64_t i = 0; i < got.pairs; i++) {
        const long double freq = powl(500000.0L, 2.0L * (long double)i / 128.0L),
                          wave = 6.283185307179586476925286766559L * freq;
        const long double smooth = (8192.0L / wave - 1.0L) / 3.0L;
        long double want = wave > 8192.0L ? freq * 8.0L : freq;
        if (wave > 2048.0L && wave < 8192.0L) want = freq / ((1.0L - smooth) / 8.0L + smooth);
        engine_is(got.omega[i], 1.0L / want, "llama3 with its defaults 1, 4 and 8192");
    }
}

static void dynamic_follows_the_length(void **state) {
    (void)state;
    gyre_reading *reading = read_text("{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4.0}}");
    static const int64_t lengths[] = {1, 2048, 8192, 100000};
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        const engine_figures got = engine_at(reading, lengths[n]);
        const long double tokens = lengths[n] > 2048 ? (long double)lengths[n] : 2048.0L;
        check_base(&got, 10000.0L * powl(4.0L * tokens / 2048.0L - 3.0L, 128.0L / 126.0L));
    }
    gyre_reading_free(reading);
    const engine_file hunyuan = {"hunyuan_v1_dense",
                                 GYRE_WHOLE_HEAD,
                                 GYRE_LAYOUT_HALF,
                                 NULL,
                                 "{\"rope_scaling\": {\"type\": \"dynamic\", \"alpha\": 1000.0, \"factor\": 1.0}}",
                                 0};
    reading = engine_read(gyre_rope_as_mlx_lm, GYRE_PROFILE_MLX_LM, &hunyuan);
    test_close(powl(engine_at(reading, 0).omega[1], -64.0L), 11158839.9251L, 0.001L, "base");
    gyre_reading_free(reading);
}

static void longrope_is_always_long(void **state) {
    (void)state;
    static const double far[] = {4, 8, 16, 32};
    gyre_reading *reading = read_text("{\"head_dim\": 8, \"max_position_embeddings\": 131072, \"rope_scaling\": "
                                      "{\"type\": \"longrope\", \"original_max_position_embeddings\": 4096, "
                                      "\"short_factor\": [1, 1.5, 2, 3], \"long_factor\": [4, 8, 16, 32]}}");
    for (int64_t length = 1; length < 100000; length += 30000) {
        const engine_figures got = engine_at(reading, length);
        for (int64_t p = 0; p < 4; p++)
            engine_is(got.omega[p], paper_theta(10000.0L, 8, p) / far[p], "longrope");
        test_close(got.attention, 1.1902380714L, 5e-11L, "attention factor"); /* of s = 32, L = 4096 */
    }
    assert_string_equal(field_of(reading->groups[0], "long_factor")->note, "used at every length: mlx-lm has no choice");
    assert_string_equal(field_of(reading->groups[0], "short_factor")->note, "not used: mlx-lm has no choice");
    gyre_reading_free(reading);
    refuses("{\"head_dim\": 8, \"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 1.5, 2, 3], "
            "\"long_factor\": [4, 8, 16, 32]}}",
            GYRE_EFORMAT, "original_max_position_embeddings: missing");
}

static void other_types(void **state) {
    (void)state;
    engine_figures got = figures("{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 8}}");
    for (int64_t i = 0; i < got.pairs; i++)
        engine_is(got.omega[i], paper_theta(10000.0L, 128, i) / 8.0L, "linear");
    got = figures("{\"head_dim\": 64, \"rope_theta\": 1e6, \"rope_parameters\": {\"rope_type\": \"proportional\", "
                  "\"partial_rotary_factor\": 0.25, \"factor\": 4.0}}");
    for (int64_t i = 0; i < got.pairs; i++)
        engine_is(got.omega[i], i < 8 ? paper_theta(1e6L, 64, i) / 4.0L : 0.0L, "proportional reads the factor");
    refuses("{\"rope_scaling\": {\"type\": \"ntk\", \"factor\": 2.0}}", GYRE_EUNSUPPORTED,
            "\"ntk\" is not a type that mlx-lm knows");
    refuses("{\"rope_scaling\": {\"type\": \"su\", \"factor\": 2.0}}", GYRE_EUNSUPPORTED, "\"su\"");
}

static void latent_attention(void **state) {
    (void)state;
    const engine_file file = {"deepseek_v3",
                              GYRE_MLA,
                              GYRE_LAYOUT_INTERLEAVED,
                              NULL,
                              "{\"head_dim\": 192, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"rope_scaling\": "
                              "{\"type\": \"yarn\", \"factor\": 40, \"original_max_position_embeddings\": 4096, "
                              "\"mscale\": 1.0, \"mscale_all_dim\": 1.0}}",
                              0};
    gyre_reading *reading = engine_read(gyre_rope_as_mlx_lm, GYRE_PROFILE_MLX_LM, &file);
    const engine_figures got = engine_at(reading, 0);
    check_yarn(&got, 10000.0L, 40.0L, 10.0L, 23.0L);
    engine_is(got.attention, 1, "attention factor");
    test_close(reading->groups[0]->softmax_multiplier, 1.8738542071L, 6e-11L, "softmax multiplier");
    gyre_reading_free(reading);
}

/* -- classes -- */
static gyre_status try_parse(const char *text, gyre_reading **out, gyre_error *err) {
    return gyre_reading_parse(out, text, strlen(text), GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_MLX_LM), err);
}
static gyre_reading *parse(const char *text) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    if (try_parse(text, &reading, &err)) fail_msg("%s\n%s", err.text, text);
    return reading;
}
static void parse_refuses(const char *text, const char *part) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    if (!try_parse(text, &reading, &err)) fail_msg("read: %s", text);
    if (!strstr(err.text, part)) fail_msg("\"%s\" for %s", err.text, text);
}

/* Files saved by transformers 5 have rope_parameters, which most classes do not read. */
static void parameters_are_not_read(void **state) {
    (void)state;
#define SAVED(type)                                                                                                         \
    "{\"model_type\": \"" type "\", \"head_dim\": 128, \"max_position_embeddings\": 40960,\n\"rope_parameters\": "          \
    "{\"rope_type\": \"yarn\", \"rope_theta\": 1e6, \"factor\": 4.0, \"original_max_position_embeddings\": 32768}}"
    gyre_reading *reading = parse(SAVED("llama"));
    engine_figures got = engine_at(reading, 0);
    check_base(&got, 10000.0L);
    assert_non_null(find_warning(reading, "reads only rope_scaling"));
    assert_non_null(find_warning(reading, "takes 10000, whatever rope_parameters says"));
    assert_int_equal(reading->warnings[0].line, 2);
    gyre_reading_free(reading);
    parse_refuses(SAVED("qwen3"), "mlx-lm's class for qwen3 fails without it beside rope_parameters");
    reading = parse(SAVED("ministral3"));
    got = engine_at(reading, 0);
    check_yarn(&got, 1e6L, 4.0L, 23.0L, 40.0L);
    assert_int_equal(reading->warnings_count, 0);
    gyre_reading_free(reading);
    reading = parse(SAVED("lfm2")); /* of it, only the base */
    got = engine_at(reading, 0);
    check_base(&got, 1e6L);
    gyre_reading_free(reading);
}

static void classes_that_read_less(void **state) {
    (void)state;
#define SCALED(type, dict)                                                                                                  \
    "{\"model_type\": \"" type "\", \"head_dim\": 128, \"rope_theta\": 1e6, \"max_position_embeddings\": 4096, " dict "}"
    gyre_reading *reading = parse(SCALED("qwen3_moe", "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0}"));
    engine_figures got = engine_at(reading, 0);
    check_base(&got, 1e6L);
    assert_non_null(find_warning(reading, "mlx-lm's class for qwen3_moe does not read it"));
    gyre_reading_free(reading);
    reading = parse(SCALED("nemotron", "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4.0}"));
    got = engine_at(reading, 8192);
    check_base(&got, 1e6L);
    assert_non_null(find_warning(reading, "scales nothing"));
    gyre_reading_free(reading);
    reading = parse(SCALED("qwen", "\"n\": 1"));
    got = engine_at(reading, 0);
    check_base(&got, 10000.0L);
    assert_non_null(find_warning(reading, "does not read it"));
    gyre_reading_free(reading);
    reading = parse(SCALED("glm", "\"partial_rotary_factor\": 0.5"));
    assert_int_equal(engine_at(reading, 0).pairs, 64);
    engine_says(reading, "rotary_dim", "128", "rotates the whole head");
    gyre_reading_free(reading);
    reading = parse(SCALED("llama", "\"rope_traditional\": true"));
    assert_int_equal(reading->groups[0]->config.rope.layout, GYRE_LAYOUT_INTERLEAVED);
    engine_says(reading, "layout", "interleaved", "a key of mlx-lm");
    gyre_reading_free(reading);
    parse_refuses("{\"model_type\": \"cwm\", \"head_dim\": 128}", "mlx-lm has no class for cwm");
    parse_refuses("{\"model_type\": \"bloom\", \"n_head\": 8, \"hidden_size\": 64}", "for mlx-lm, Gyre reads only");
}

static void phi3(void **state) {
    (void)state;
#define PHI(dict)                                                                                                           \
    "{\"model_type\": \"phi3\", \"hidden_size\": 64, \"num_attention_heads\": 8, \"max_position_embeddings\": 131072, "     \
    "\"original_max_position_embeddings\": 4096, \"rope_scaling\": " dict "}"
    gyre_reading *reading =
        parse(PHI("{\"type\": \"su\", \"short_factor\": [1, 1, 1, 1], \"long_factor\": [4, 8, 16, 32]}"));
    engine_is(engine_at(reading, 100).omega[1], paper_theta(10000.0L, 8, 1) / 8.0L, "the long list");
    gyre_reading_free(reading);
    parse_refuses(PHI("{\"rope_type\": \"longrope\", \"short_factor\": [1, 1, 1, 1], \"long_factor\": [4, 8, 16, 32]}"),
                  "rope_scaling.type: missing; mlx-lm's class for phi3 fails");
}

static void axes_are_dropped(void **state) {
    (void)state;
    gyre_reading *reading =
        parse(SCALED("qwen2_vl", "\"rope_scaling\": {\"type\": \"mrope\", \"mrope_section\": [16, 24, 24]}"));
    assert_int_equal(reading->groups[0]->config.rope.axes, 0);
    assert_non_null(find_warning(reading, "by one position alone"));
    gyre_reading_free(reading);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(yarn),
                                       cmocka_unit_test(llama3),
                                       cmocka_unit_test(dynamic_follows_the_length),
                                       cmocka_unit_test(longrope_is_always_long),
                                       cmocka_unit_test(other_types),
                                       cmocka_unit_test(latent_attention),
                                       cmocka_unit_test(parameters_are_not_read),
                                       cmocka_unit_test(classes_that_read_less),
                                       cmocka_unit_test(phi3),
                                       cmocka_unit_test(axes_are_dropped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
