/* test_extend_trainers.c: gyre extend --write-for: the settings of a trainer, the refusals, and the way back through
 * gyre explain --as. */
#include "run_command.h"
#include "tools/cli/cli.h"

#ifdef GYRE_HAVE_YAML
#define NEEDS_YAML() (void)0
#else
#define NEEDS_YAML() skip() /* built without libyaml */
#endif

static const char llama[] = "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_attention_heads\": 32, "
                            "\"num_hidden_layers\": 4, \"rope_theta\": 500000.0, \"max_position_embeddings\": 8192}";
static const char partial[] = "{\"model_type\": \"phi\", \"hidden_size\": 2048, \"num_attention_heads\": 32, "
                              "\"num_hidden_layers\": 2, \"partial_rotary_factor\": 0.5, \"max_position_embeddings\": 2048}";

static int make_models(void **state) {
    if (make_empty_folder(state) || mkdir(in_folder("llama"), 0700) || mkdir(in_folder("phi"), 0700)) return -1;
    write_file("llama/config.json", llama, sizeof llama - 1);
    write_file("phi/config.json", partial, sizeof partial - 1);
    return 0;
}

static void prints(const char *options, const char *want) {
    char line[300];
    snprintf(line, sizeof line, "extend %s", options);
    const outcome *got = run(line);
    if (got->exit || strcmp(got->out, want) != 0)
        fail_msg("%s: %d\n%s%s\nnot\n%s", line, got->exit, got->out, got->err, want);
}

static void fails(const char *options, int status, const char *part) {
    char line[300];
    snprintf(line, sizeof line, "extend %s", options);
    assert_fails(line, status, part);
}

static void settings(void **state) {
    (void)state;
    prints("@llama --to 32k --method yarn --write-for megatron", "--position-embedding-type yarn\n"
                                                                 "--rotary-base 500000\n"
                                                                 "--kv-channels 128\n"
                                                                 "--max-position-embeddings 32768\n"
                                                                 "--rotary-scaling-factor 4.0\n"
                                                                 "--yarn-original-max-position-embeddings 8192\n"
                                                                 "--yarn-beta-fast 32.0\n"
                                                                 "--yarn-beta-slow 1.0\n");
    prints("@phi --to 8k --method linear --write-for megatron", "--position-embedding-type rope\n"
                                                                "--rotary-base 10000\n"
                                                                "--kv-channels 64\n"
                                                                "--rotary-percent 0.5\n"
                                                                "--max-position-embeddings 8192\n"
                                                                "--rotary-seq-len-interpolation-factor 4\n");
    prints("@llama --to 32k --method by-parts --write-for torchtitan", "CosSinRoPE.Config(\n"
                                                                       "    dim=128,\n"
                                                                       "    max_context_length=32768,\n"
                                                                       "    theta=500000.0,\n"
                                                                       "    scaling=\"yarn\",\n"
                                                                       "    rope_factor=4.0,\n"
                                                                       "    beta_fast=32.0,\n"
                                                                       "    beta_slow=1.0,\n"
                                                                       "    original_seq_len=8192,\n"
                                                                       ")\n");
}

static void settings_in_yaml(void **state) {
    (void)state;
    NEEDS_YAML();
    prints("@llama --to 32k --method linear --write-for axolotl", "base_model: FOLDER # of the model\n"
                                                                  "sequence_len: 32768\n"
                                                                  "overrides_of_model_config:\n"
                                                                  "  max_position_embeddings: 32768\n"
                                                                  "  rope_parameters:\n"
                                                                  "    rope_type: \"linear\"\n"
                                                                  "    factor: 4.0\n"
                                                                  "    rope_theta: 500000.0\n");
    prints("@llama --to 32k --method yarn --write-for llama-factory",
           "model_name_or_path: FOLDER # of the model\n"
           "rope_scaling: yarn # needs transformers 4; with transformers 5 LLaMA-Factory stops\n"
           "cutoff_len: 32768\n");
    prints("@llama --to 32k --method linear --write-for nanotron",
           "model:\n"
           "  model_config:\n"
           "    is_qwen2_config: true\n"
           "    rope_theta: 500000.0\n"
           "    rope_interleaved: false\n"
           "    rope_seq_len_interpolation_factor: 4.0 # only nanotron's Qwen2 reads it\n"
           "    max_position_embeddings: 32768\n");
    /* Half of each head rotates, which the object has to say. */
    prints("@phi --to 8k --method linear --write-for axolotl", "base_model: FOLDER # of the model\n"
                                                               "sequence_len: 8192\n"
                                                               "overrides_of_model_config:\n"
                                                               "  max_position_embeddings: 8192\n"
                                                               "  rope_parameters:\n"
                                                               "    rope_type: \"linear\"\n"
                                                               "    factor: 4.0\n"
                                                               "    rope_theta: 10000.0\n"
                                                               "    partial_rotary_factor: 0.5\n");
}

/* What is printed is read as the method: its frequencies are those of the config that --write makes. */
static void settings_say_the_method(void **state) {
    (void)state;
    static const char *const rows[][2] = {{"yarn", "megatron"},       {"llama3", "megatron"},     {"linear", "megatron"},
                                          {"by-parts", "torchtitan"}, {"llama3", "torchtitan"},   {"ntk", "torchtitan"},
                                          {"yarn", "axolotl"},        {"ntk", "axolotl"},         {"llama3", "axolotl"},
                                          {"yarn", "llama-factory"},  {"llama3", "llama-factory"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[300], text[2000] = "";
#ifndef GYRE_HAVE_YAML
        if (i > 5) continue;
#endif
        snprintf(line, sizeof line, "extend @llama --to 32k --method %s --write-for %s --json", rows[i][0], rows[i][1]);
        json_t *printed = run_json(line);
        assert_string_equal(json_string_value(json_object_get(printed, "trainer")), rows[i][1]);
        for (const char *c = json_string_value(json_object_get(printed, "settings")); *c; c++) {
            const size_t used = strlen(text);
            const int is_folder_word = strncmp(c, "FOLDER", 6) == 0;
            snprintf(text + used, sizeof text - used, "%.*s", is_folder_word ? 5 : 1, is_folder_word ? "llama" : c);
            c += is_folder_word ? 5 : 0;
        }
        json_decref(printed);
        write_file("settings", text, strlen(text));
        (void)unlink(in_folder("changed.json"));
        snprintf(line, sizeof line, "extend @llama --to 32k --method %s --write @changed.json --json", rows[i][0]);
        json_decref(run_json(line));
        snprintf(line, sizeof line, "explain @settings --length 32k --json --as %s", rows[i][1]);
        json_t *got = run_json(line), *want = run_json("explain @changed.json --length 32k --json");
        const json_t *a = json_object_get(got, "inv_freq"), *b = json_object_get(want, "inv_freq");
        assert_int_equal(json_array_size(a), 64);
        assert_int_equal(json_array_size(b), 64);
        for (size_t p = 0; p < 64; p++) {
            const double x = json_number_value(json_array_get(a, p)), y = json_number_value(json_array_get(b, p));
            test_close(x, y, 1e-12L * y, line);
        }
        test_close(json_number_value(json_object_get(got, "attention_factor")),
                   json_number_value(json_object_get(want, "attention_factor")), 1e-14L, line);
        json_decref(got);
        json_decref(want);
    }
}

static void refusals(void **state) {
    (void)state;
    static const struct {
        const char *options, *part;
        int status;
    } rows[] = {
        {"@llama --to 32k --method ntk --write-for megatron", "--rotary-base is a whole number, and the method needs",
         CLI_FAILED},
        {"@llama --to 30k --method linear --write-for megatron", "is a whole number, and the method needs 3.75", CLI_FAILED},
        {"@llama --to 32k --method dynamic --write-for megatron", "linear, yarn and Llama 3.1's scaling, and not dynamic",
         CLI_FAILED},
        {"@llama --to 32k --method yarn --write-for torchtitan", "its YaRN has no attention factor", CLI_FAILED},
        {"@llama --to 32k --method linear --write-for torchtitan", "by-parts and Llama 3.1's scaling, and not linear",
         CLI_FAILED},
        {"@llama --to 32k --method yarn --write-for nanotron", "its models read no rope_scaling", CLI_FAILED},
        {"@llama --to 32k --method by-parts --write-for llama-factory", "linear, dynamic, yarn and llama3", CLI_FAILED},
        {GYRE_BUNDLED_MODELS "/rope-tuned-ntk-4 --to 4k --method yarn --write-for axolotl", "one of Gyre's own", CLI_FAILED},
        {"@phi --to 8k --method yarn --write-for megatron", "rotates other channels", CLI_FAILED},
        {"@llama --to 32k --write-for deepspeed", "megatron", CLI_USAGE},
        {"@llama --to 32k --method yarn --write-for megatron --write @out", "--write-for: prints settings", CLI_USAGE},
        {"@llama --to 32k --write-for megatron --text @llama/config.json", "--write-for measures nothing", CLI_USAGE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        fails(rows[i].options, rows[i].status, rows[i].part);
#ifdef GYRE_HAVE_YAML
    fails("@phi --to 8k --method linear --write-for nanotron", CLI_FAILED, "rotates other channels");
    write_file("run.yaml", "base_model: llama\n", 18);
    fails("@run.yaml --as axolotl --to 32k", CLI_FAILED, "a trainer's settings are read, not changed");
#else
    fails("@llama --to 32k --method yarn --write-for axolotl", CLI_FAILED, "built without libyaml");
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(settings), cmocka_unit_test(settings_in_yaml),
                                       cmocka_unit_test(settings_say_the_method), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, make_models, remove_folder);
}
