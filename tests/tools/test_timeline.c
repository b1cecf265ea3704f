/* test_timeline.c: gyre explain --timeline: versions, what they have no class for, equal readings and changes.  Expected
 * values are those of the programs' release notes and sources, restated in the comments. */
#include "run_command.h"
#include <math.h>

static void write_config(const char *name, const char *text) {
    write_file(name, text, strlen(text));
}

/* transformers 4.43 to 4.50 count YaRN's ramp from max_position_embeddings, 4.51 to 4.55 take the ratio of the lengths for
 * the factor, 4.55 began to read truncate, 4.56 takes the factor of the file again. */
static const char YARN[] = "{\"model_type\": \"llama\", \"transformers_version\": \"4.56.1\",\n"
                           " \"hidden_size\": 4096, \"num_attention_heads\": 32, \"num_hidden_layers\": 4,\n"
                           " \"max_position_embeddings\": 40960,\n"
                           " \"rope_theta\": 500000.0,\n"
                           " \"rope_scaling\": {\"rope_type\": \"yarn\", \"truncate\": false,\n"
                           "  \"factor\": 4.0,\n"
                           "  \"original_max_position_embeddings\": 8192}}\n";
/* As transformers 5 saves: version 4 knows none of these keys. */
static const char ONLY_5[] = "{\"model_type\": \"llama\",\n"
                             " \"hidden_size\": 256, \"num_attention_heads\": 4, \"num_hidden_layers\": 2,\n"
                             " \"max_position_embeddings\": 4096,\n"
                             " \"rope_parameters\": {\"rope_type\": \"default\",\n"
                             "  \"rope_theta\": 500000.0}}\n";
#define SMALL "\"hidden_size\": 256, \"num_attention_heads\": 4, \"num_hidden_layers\": 2, \"max_position_embeddings\": 4096"
static const char GEMMA3[] =
    "{\"model_type\": \"gemma3_text\", \"head_dim\": 64, \"hidden_size\": 256, \"num_attention_heads\": 4,\n"
    " \"num_hidden_layers\": 6, \"max_position_embeddings\": 32768, \"sliding_window\": 512,\n"
    " \"layer_types\": [\"sliding_attention\", \"sliding_attention\", \"sliding_attention\", \"sliding_attention\",\n"
    "  \"sliding_attention\", \"full_attention\"],\n"
    " \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 8.0, \"rope_theta\": 2000000.0},\n"
    "  \"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}}}\n";

static int write_configs(void **state) {
    if (make_folder(state)) return -1;
    write_config("yarn.json", YARN);
    write_config("only-5.json", ONLY_5);
    write_config("gemma3.json", GEMMA3);
    write_config("attention-factor.json",
                 "{\"model_type\": \"llama\", \"rope_theta\": 10000.0, " SMALL ",\n"
                 " \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, \"attention_factor\": 1.0,\n"
                 "  \"original_max_position_embeddings\": 1024}}\n");
    write_config("qwen3.json", "{\"model_type\": \"qwen3\", \"head_dim\": 64, \"rope_theta\": 1000000.0, " SMALL "}\n");
    write_config("with-code.json", "{\"model_type\": \"qwen3\", \"head_dim\": 64, \"rope_theta\": 1000000.0, " SMALL ",\n"
                                   " \"auto_map\": {\"AutoConfig\": \"configuration_qwen3.Qwen3Config\"}}\n");
    write_config("solar.json", "{\"model_type\": \"solar_open\", \"rope_theta\": 10000.0, " SMALL "}\n");
    write_config("late.json", "{\"model_type\": \"youtu\", \"rope_theta\": 10000.0, \"qk_rope_head_dim\": 64,\n"
                              " \"qk_nope_head_dim\": 128, \"v_head_dim\": 128, \"kv_lora_rank\": 512, " SMALL "}\n");
    write_config("dropped.json", "{\"model_type\": \"nezha\", \"max_relative_position\": 64, " SMALL "}\n");
    write_config("own.json", "{\"model_type\": \"internlm2\", \"rope_theta\": 10000.0, " SMALL "}\n");
    write_config("unknown.json", "{\"model_type\": \"nobody\", \"hidden_size\": 4}\n");
    write_config("diffusers.json", "{\"_class_name\": \"WanTransformer3DModel\", \"attention_head_dim\": 128,\n"
                                   " \"num_attention_heads\": 12, \"num_layers\": 30, \"rope_max_seq_len\": 1024}\n");
    write_config("broken.json", "{\n \"model_type\": \"llama\",\n oops\n}\n");
    return setenv("LC_ALL", "C", 1) || setenv("COLUMNS", "100", 1);
}

static const json_t *row_of(const json_t *root, size_t i) {
    return json_array_get(json_object_get(root, "rows"), i);
}

/* out = the row of these versions, or fails. */
static const json_t *find_row(const json_t *root, const char *program, const char *versions) {
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(root, "rows"), i,
                       row) if (strcmp(test_string(row, "program"), program) == 0 &&
                                strcmp(test_string(row, "versions"), versions) == 0) return row;
    fail_msg("no row %s %s", program, versions);
    return NULL;
}

static void assert_change(const json_t *row, const char *name, const char *before, const char *after, int line) {
    size_t i;
    const json_t *change;
    json_array_foreach(json_object_get(row, "changes"), i, change) {
        if (strcmp(test_string(change, "name"), name) != 0) continue;
        assert_string_equal(test_string(change, "before"), before);
        assert_string_equal(test_string(change, "after"), after);
        if (line) assert_int_equal(test_integer(change, "line"), line);
        if (!line) assert_true(json_is_null(json_object_get(change, "line")));
        return;
    }
    fail_msg("no change of %s", name);
}

static void assert_refused(const json_t *row, const char *says) {
    assert_true(json_is_null(json_object_get(row, "positions")));
    if (!strstr(test_string(row, "refused"), says)) fail_msg("\"%s\" lacks \"%s\"", test_string(row, "refused"), says);
}

/* -- versions -- */
static void test_versions_of_yarn(void **state) {
    (void)state;
    json_t *root = run_json("explain @yarn.json --timeline --json");
    assert_string_equal(test_string(root, "saved_by"), "4.56.1");
    const char *const versions[] = {"4.43 to 4.50", "4.51 to 4.54", "4.55", "4.56 to 5"};
    const char *const since[] = {"2024-07", "2025-04", "2025-08", "2025-08"};
    for (size_t i = 0; i < 4; i++) {
        const json_t *row = row_of(root, i);
        assert_string_equal(test_string(row, "program"), "transformers");
        assert_string_equal(test_string(row, "versions"), versions[i]);
        assert_string_equal(test_string(row, "since"), since[i]);
        const char letter[2] = {(char)('A' + i), 0};
        assert_string_equal(test_string(row, "positions"), letter);
        if (i) assert_int_equal(test_integer(row, "compared_with"), i - 1);
    }
    assert_true(json_is_null(json_object_get(row_of(root, 0), "compared_with")));
    assert_change(row_of(root, 1), "trained_length", "40960", "8192", 7);
    assert_change(row_of(root, 1), "factor", "4", "5", 6);
    assert_change(row_of(root, 2), "truncate", "true", "false", 5);
    assert_change(row_of(root, 3), "factor", "5", "4", 6);
    /* 0.1 ln(factor) + 1. */
    const char *const summary = test_string(row_of(root, 3), "summary");
    char want[64];
    snprintf(want, sizeof want, "attention factor %.6g,", 0.1 * log(4) + 1);
    assert_non_null(strstr(summary, want));
    snprintf(want, sizeof want, "attention factor %.6g,", 0.1 * log(5) + 1);
    assert_non_null(strstr(test_string(row_of(root, 1), "summary"), want));
    const json_t *vllm = find_row(root, "vLLM", "2026-05 to 2026-09");
    assert_int_equal(test_integer(vllm, "same_as"), 3);
    assert_string_equal(test_string(vllm, "positions"), "D");
    assert_change(find_row(root, "mlx-lm", "2026-08"), "truncate", "false", "true", 5);
    assert_string_equal(test_string(find_row(root, "llama.cpp", "2026-08"), "positions"), "E");
    json_decref(root);
}

/* vLLM multiplies by YaRN's own factor whatever attention_factor says, until September 2026. */
static void test_versions_of_vllm(void **state) {
    (void)state;
    json_t *root = run_json("explain @attention-factor.json --timeline --json");
    const json_t *may = find_row(root, "vLLM", "2026-05"), *september = find_row(root, "vLLM", "2026-09");
    char own[64];
    snprintf(own, sizeof own, "%.16g", 0.1 * log(4) + 1);
    assert_change(september, "attention_factor", own, "1", 2);
    assert_true(json_is_null(json_object_get(september, "first_position"))); /* the angles are the same */
    assert_non_null(strstr(test_string(september, "verdict"), "scores are"));
    assert_string_not_equal(test_string(may, "positions"), test_string(september, "positions"));
    assert_int_equal(test_integer(september, "same_as"), 1); /* 4.51 to 5: the factor is the ratio */
    json_decref(root);
}

static void test_keys_of_version_5(void **state) {
    (void)state;
    json_t *root = run_json("explain @only-5.json --timeline --json");
    const json_t *before = row_of(root, 0), *five = row_of(root, 1);
    assert_string_equal(test_string(before, "versions"), "4.43 to 4.57");
    assert_string_equal(test_string(five, "versions"), "5");
    assert_string_equal(test_string(five, "since"), "2026-01");
    assert_change(five, "base", "10000", "500000", 5);
    assert_int_equal(json_array_size(json_object_get(five, "changes")), 1);
    /* Base 10000 and 500000 are 0.01 rad apart where the pair that differs most is: 32 pairs of 64 channels. */
    double most = 0;
    for (int i = 0; i < 32; i++)
        most = fmax(most, pow(1e4, -i / 32.0) - pow(5e5, -i / 32.0));
    assert_int_equal(test_integer(five, "first_position"), (int)floor(0.01 / most) + 1);
    assert_int_equal(json_array_size(json_object_get(before, "profiles")), 4);
    assert_string_equal(json_string_value(json_array_get(json_object_get(before, "profiles"), 0)), "hf-4.43");
    assert_true(json_is_null(json_object_get(root, "saved_by")));
    json_decref(root);
}

/* Each profile is in one row, all but that of the papers and those of trainers, which read no config.json. */
static void test_all_profiles(void **state) {
    (void)state;
    json_t *root = run_json("explain @qwen3.json --timeline --json");
    for (int p = GYRE_PROFILE_DEFAULT + 1; gyre_profile_name((gyre_profile)p); p++) {
        int found = 0;
        for (size_t i = 0; i < json_array_size(json_object_get(root, "rows")); i++) {
            const json_t *profiles = json_object_get(row_of(root, i), "profiles");
            for (size_t k = 0; k < json_array_size(profiles); k++)
                found |= strcmp(json_string_value(json_array_get(profiles, k)), gyre_profile_name((gyre_profile)p)) == 0;
        }
        const int is_row = p != GYRE_PROFILE_REFERENCE && !gyre_profile_is_trainer((gyre_profile)p);
        if (found != is_row) fail_msg("%s", gyre_profile_name((gyre_profile)p));
    }
    json_decref(root);
}

/* -- classes -- */
static void test_classes(void **state) {
    (void)state;
    json_t *root = run_json("explain @qwen3.json --timeline --json"); /* in 4.51.0 */
    assert_refused(find_row(root, "transformers", "4.43 to 4.50"), "no class for qwen3, which came with 4.51");
    assert_string_equal(test_string(find_row(root, "transformers", "4.51 to 5"), "positions"), "A");
    assert_int_equal(test_integer(find_row(root, "vLLM", "2026-05 to 2026-09"), "same_as"), 1);
    json_decref(root);
    root = run_json("explain @gemma3.json --timeline --json"); /* in 4.50.0, within the versions of one profile */
    assert_refused(find_row(root, "transformers", "4.43 to 4.49"), "which came with 4.50");
    const json_t *four = find_row(root, "transformers", "4.50 to 4.57"), *five = find_row(root, "transformers", "5");
    assert_string_equal(test_string(four, "since"), "2025-03");
    assert_change(five, "base", "1000000", "2000000", 5);
    assert_change(five, "factor", "none", "8", 5);
    assert_string_equal(test_string(json_array_get(json_object_get(five, "changes"), 0), "layers"), "full_attention");
    json_decref(root);
    root = run_json("explain @gemma3.json --timeline --layer-type sliding_attention --json");
    assert_string_equal(test_string(find_row(root, "transformers", "4.50 to 5"), "summary"),
                        "sliding_attention (layers 0-4): rope, base 10000, 64 of 64 channels, pairs half, a window of 512");
    json_decref(root);
    root = run_json("explain @solar.json --timeline --json"); /* in 5.0.0 */
    assert_refused(find_row(root, "transformers", "4.43 to 4.57"), "which came with 5.0");
    (void)find_row(root, "transformers", "5");
    json_decref(root);
    root = run_json("explain @late.json --timeline --json"); /* not in 5.0.0, but in 5.24.0 */
    assert_refused(find_row(root, "transformers", "4.43 to 5.0"), "no class for youtu, which came after 5.0");
    assert_true(json_is_null(json_object_get(find_row(root, "transformers", "5 after 5.0"), "since")));
    json_decref(root);
    root = run_json("explain @dropped.json --timeline --json"); /* in 4.57.0, not in 5.0.0 */
    assert_string_equal(test_string(find_row(root, "transformers", "4.43 to 4.57"), "positions"), "A");
    assert_refused(find_row(root, "transformers", "5"), "no class for nezha, which was dropped with 5.0");
    json_decref(root);
}

static void test_code_beside_the_file(void **state) {
    (void)state;
    json_t *root = run_json("explain @with-code.json --timeline --json");
    assert_refused(row_of(root, 0), "came with 4.51; with trust_remote_code, the code beside the file decides");
    assert_true(json_is_true(json_object_get(root, "class_in_transformers")));
    json_decref(root);
    root = run_json("explain @own.json --timeline --json");
    assert_true(json_is_false(json_object_get(root, "class_in_transformers")));
    (void)find_row(root, "transformers", "4.43 to 5");
    json_decref(root);
    assert_non_null(strstr(run("explain @own.json --timeline")->out, "no class for this model_type"));
    assert_null(strstr(run("explain @qwen3.json --timeline")->out, "no class for this model_type"));
}

/* -- the page -- */
static void test_page(void **state) {
    (void)state;
    const outcome *o = run("explain @yarn.json --timeline");
    assert_int_equal(o->exit, 0);
    static const char *const lines[] = {
        "llama - config.json as programs and their versions read it - saved by transformers 4.56.1\n",
        "  since    read by                    positions\n",
        "  2024-07  transformers 4.43 to 4.50  A  rope+yarn, base 500000, factor 4, attention factor 1.13863,",
        "  2025-04  transformers 4.51 to 4.54  B  not as transformers 4.43 to 4.50: factor 4 -> 5",
        "-> transformers before 4.51 counts YaRN's ramp",
        "  2025-08  transformers 4.55          C  not as transformers 4.51 to 4.54: truncate true -> false",
        "  2025-08  transformers 4.56 to 5     D  not as transformers 4.55: factor 5 -> 4",
        "  2026-05  vLLM 2026-05 to 2026-09    D  as transformers 4.56 to 5\n",
        "\nRows with one letter read the same positions.",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(o->out, lines[i])) fail_msg("\"%s\" is not in\n%s", lines[i], o->out);
    for (const char *line = o->out; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 100 || strchr(line, '/')); /* the path may be longer */
    assert_non_null(strstr(run("explain @qwen3.json --timeline")->out,
                           "  2024-07  transformers 4.43 to 4.50  -  refused: no class for qwen3, which came with 4.51\n"));
    assert_non_null(strstr(run("explain @qwen3.json --timeline --length 8k")->out, " - length in use 8192\n"));
}

/* The reason of a refusal stands without the path, which the head has. */
static void test_refusals(void **state) {
    (void)state;
    json_t *root = run_json("explain @dropped.json --timeline --json");
    const json_t *row = find_row(root, "mlx-lm", "2026-08");
    assert_null(strstr(test_string(row, "refused"), in_folder("")));
    assert_non_null(strstr(test_string(row, "refused"), "(line 1)"));
    json_decref(root);
}

static void test_failures(void **state) {
    (void)state;
    assert_fails("explain @yarn.json --timeline --as vllm", 2, "reads as every program");
    assert_fails("explain @yarn.json --timeline --accuracy", 2, "it has no --accuracy");
    assert_fails("explain @yarn.json --timeline --check @text", 2, "it has no --check");
    assert_fails("explain @yarn.json --timeline --layer-type nowhere", 2, "is not one of all");
    assert_fails("explain @unknown.json --timeline", 1, "\"nobody\" is not known");
    assert_fails("explain @broken.json --timeline", 1, "line 3");
    assert_fails("explain @missing.json --timeline", 1, "No such file");
    assert_fails("explain @diffusers.json --timeline", 1, "a model of diffusers");
    assert_int_equal(run("convert @rope -o @rope.gguf")->exit, 0);
    assert_fails("explain @rope.gguf --timeline", 1, "only llama.cpp reads a GGUF");
    assert_int_equal(mkfifo(in_folder("pipe"), 0666), 0);
    assert_fails("explain @pipe --timeline", 1, "not a regular file");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_versions_of_yarn),
                                       cmocka_unit_test(test_versions_of_vllm),
                                       cmocka_unit_test(test_keys_of_version_5),
                                       cmocka_unit_test(test_all_profiles),
                                       cmocka_unit_test(test_classes),
                                       cmocka_unit_test(test_code_beside_the_file),
                                       cmocka_unit_test(test_page),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_failures)};
    return cmocka_run_group_tests(tests, write_configs, remove_folder);
}
