/* test_extend_verdict.c: how gyre extend ends: the recommendation, what to write for each engine, and measured costs. */
#include "extend_models.h"
#include "make_gguf.h"

#include <math.h>

#define PHI3                                                                                                                \
    "{\"model_type\": \"phi3\", \"hidden_size\": 8, \"num_attention_heads\": 2, \"num_hidden_layers\": 2, "                 \
    "\"rope_theta\": 10000.0, "

static int make_models(void **state) {
    if (make_folder(state)) return -1;
    put_llamas();
    put_config("new", LLAMA "\"max_position_embeddings\": 4096, \"rope_parameters\": {\"rope_type\": \"default\", "
                            "\"rope_theta\": 500000.0}}");
    put_config("qwen", "{\"model_type\": \"qwen2\", \"hidden_size\": 3584, \"num_attention_heads\": 28, "
                       "\"num_hidden_layers\": 2, \"max_position_embeddings\": 32768, \"rope_theta\": 1000000.0}");
    put_config("gptj", "{\"model_type\": \"gptj\", \"n_embd\": 4096, \"n_head\": 16, \"n_layer\": 2, \"n_positions\": 2048, "
                       "\"rotary_dim\": 64}");
    put_config("chatglm",
               "{\"model_type\": \"chatglm\", \"hidden_size\": 4096, \"num_attention_heads\": 32, \"num_layers\": "
               "2, \"kv_channels\": 128, \"seq_length\": 8192, \"rope_ratio\": 50}");
    put_config("qwen1", "{\"model_type\": \"qwen\", \"hidden_size\": 2048, \"num_attention_heads\": 16, "
                        "\"num_hidden_layers\": 2, \"seq_length\": 8192, \"max_position_embeddings\": 8192, "
                        "\"kv_channels\": 128, \"rotary_emb_base\": 10000}");
    put_config("phi3", PHI3 "\"max_position_embeddings\": 131072, \"original_max_position_embeddings\": 4096, "
                            "\"rope_scaling\": {\"type\": \"su\", \"short_factor\": [1.0, 2.0], \"long_factor\": [1.0, "
                            "60.0]}}");
    put_config("phi3-4k", PHI3 "\"max_position_embeddings\": 4096, \"original_max_position_embeddings\": 4096, "
                               "\"rope_scaling\": null}");
    put_config("two", "{\"model_type\": \"gemma3_text\", \"hidden_size\": 3840, \"num_attention_heads\": 16, \"head_dim\": "
                      "256, \"num_hidden_layers\": 12, \"sliding_window\": 1024, \"sliding_window_pattern\": 6, "
                      "\"max_position_embeddings\": 32768, \"rope_theta\": 1000000.0, \"rope_local_base_freq\": 10000.0}");
    return 0;
}

/* -- what to write -- */
static void assert_keys(const json_t *keys, const char *want) {
    json_t *expected = json_loads(want, 0, NULL);
    assert_non_null(expected);
    char *text = json_dumps(keys, JSON_ENCODE_ANY);
    if (!json_equal(keys, expected)) fail_msg("%s, expected %s", text, want);
    free(text);
    json_decref(expected);
}

static void yarn_in_every_form(void **state) {
    (void)state;
    json_t *v = verdict_of("extend @llama2 --to 16k --json");
    assert_string_equal(test_string(v, "method"), "yarn");
    assert_string_equal(test_string(v, "basis"), "rule");
    assert_true(json_is_null(json_object_get(v, "cost")));
    const json_t *hf = engine_of(v, "transformers"), *vllm = engine_of(v, "vLLM"), *cpp = engine_of(v, "llama.cpp");
    assert_keys(json_object_get(hf, "keys"),
                "{\"max_position_embeddings\": 16384, \"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4.0, "
                "\"original_max_position_embeddings\": 4096, \"rope_theta\": 10000.0}}");
    assert_keys(json_object_get(hf, "keys_4"),
                "{\"max_position_embeddings\": 16384, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, "
                "\"original_max_position_embeddings\": 4096}}");
    /* 4.43 ramps over the new length. */
    assert_string_equal(test_string(hf, "read_so_by"), "hf-5, hf-4.56, hf-4.55, hf-4.51");
    char want[1024];
    snprintf(want, sizeof want,
             "vllm serve %s --max-model-len 16384 --hf-overrides '{\"max_position_embeddings\": 16384, "
             "\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 4096, "
             "\"rope_theta\": 10000.0}}'",
             in_folder("llama2"));
    assert_string_equal(test_string(vllm, "command"), want);
    assert_string_equal(
        test_string(cpp, "command"),
        "llama-server -m MODEL.gguf --ctx-size 16384 --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 4096");
    json_decref(v);
    v = verdict_of("extend @llama2 --to 16k --json --beta-fast 16 --methods yarn");
    assert_non_null(strstr(test_string(engine_of(v, "llama.cpp"), "command"), "--yarn-orig-ctx 4096 --yarn-beta-fast 16"));
    json_decref(v);
}

/* Changes of keys, applied by hand, as a reader would. */
static void write_patched(const char *model, const json_t *keys, const char *to) {
    char path[64];
    const char *key;
    json_t *value;
    snprintf(path, sizeof path, "%s/config.json", model);
    json_t *config = json_load_file(in_folder(path), 0, NULL);
    json_object_foreach((json_t *)keys, key, value) {
        if (json_is_null(value))
            json_object_del(config, key);
        else
            json_object_set(config, key, value);
    }
    assert_int_equal(json_dump_file(config, in_folder(to), 0), 0);
    json_decref(config);
}

/* What --write writes and what the keys make of the config are the same to the program that they are for. */
static void check_same(const char *model, const char *label, const json_t *keys, const char *profile) {
    char line[512];
    if (json_is_null(keys)) return;
    write_patched(model, keys, "patched.json");
    snprintf(line, sizeof line, "extend @%s --to 131072 --method %s --force --write @written.json", model, label);
    if (run(line)->exit) fail_msg("%s", line);
    snprintf(line, sizeof line, "diff @patched.json @written.json --as %s --with hf-5 --length 131072", profile);
    const outcome *o = run(line);
    if (o->exit != 0) fail_msg("%s under %s for %s: exit %d: %s%s", label, model, profile, o->exit, o->out, o->err);
}

static void keys_rotate_as_the_written_config(void **state) {
    (void)state;
    static const char *const models[] = {"llama2", "new", "qwen", "llama31"};
    static const char *const labels[] = {"linear", "ntk", "dynamic", "llama3", "by-parts", "yarn"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
            char line[256];
            if (strcmp(models[m], "llama31") == 0 && strcmp(labels[i], "dynamic") == 0) continue;
            snprintf(line, sizeof line, "extend @%s --to 131072 --methods %s --json", models[m], labels[i]);
            json_t *v = verdict_of(line);
            const json_t *hf = engine_of(v, "transformers"), *vllm = engine_of(v, "vLLM");
            assert_string_equal(test_string(v, "method"), labels[i]);
            assert_string_equal(test_string(hf, "says"), "same");
            check_same(models[m], labels[i], json_object_get(hf, "keys"), "hf-5");
            check_same(models[m], labels[i], json_object_get(hf, "keys_4"), "hf-4.56");
            if (strcmp(models[m], "llama31") != 0) /* there its own rope_scaling is replaced in memory, not in the file */
                check_same(models[m], labels[i], json_object_get(vllm, "keys"), "vllm");
            assert_int_equal(strcmp(test_string(vllm, "says"), "same") == 0, strcmp(labels[i], "dynamic") != 0);
            json_decref(v);
        }
}

/* transformers 4 refuses Phi-3's object unless it has exactly three fields. */
static void phi3_has_three_fields(void **state) {
    (void)state;
    json_t *v = verdict_of("extend @phi3 --to 512k --json");
    assert_string_equal(test_string(v, "method"), "longrope");
    const json_t *hf = engine_of(v, "transformers");
    assert_keys(json_object_get(hf, "keys_4"),
                "{\"max_position_embeddings\": 524288, \"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1.0, "
                "2.0], \"long_factor\": [1.0, 60.0]}}");
    assert_non_null(strstr(test_string(hf, "read_so_by"), "hf-4.51"));
    assert_int_equal(json_object_size(json_object_get(json_object_get(hf, "keys"), "rope_parameters")), 4);
    json_decref(v);
    /* YaRN's attention factor needs a fourth field. */
    v = verdict_of("extend @phi3-4k --to 64k --json");
    hf = engine_of(v, "transformers");
    assert_string_equal(test_string(v, "method"), "yarn");
    assert_true(json_is_null(json_object_get(hf, "keys_4")));
    assert_null(strstr(test_string(hf, "read_so_by"), "hf-4"));
    json_decref(v);
    assert_int_equal(run("extend @phi3 --to 512k --method longrope --write @phi3-long.json")->exit, 0);
    json_t *written = json_load_file(in_folder("phi3-long.json"), 0, NULL);
    assert_int_equal(json_object_size(json_object_get(written, "rope_scaling")), 3);
    assert_string_equal(test_string(json_object_get(written, "rope_scaling"), "type"), "longrope");
    assert_int_equal(json_integer_value(json_object_get(written, "original_max_position_embeddings")), 4096);
    json_decref(written);
    assert_int_equal(run("explain @phi3-long.json --as hf-4.51")->exit, 0);
}

/* A scaling that no class reads is not recommended. */
static void classes_without_scaling(void **state) {
    (void)state;
    json_t *v = verdict_of("extend @gptj --to 8k --json");
    assert_string_equal(test_string(v, "method"), "none");
    assert_non_null(strstr(test_string(v, "reason"), "from the config of a gptj"));
    assert_null(strstr(test_string(v, "reason"), "rope_ratio"));
    json_decref(v);
    v = verdict_of("extend @chatglm --to 32k --json");
    assert_string_equal(test_string(v, "method"), "none");
    assert_non_null(strstr(test_string(v, "reason"), "a larger rope_ratio"));
    json_decref(v);
    v = verdict_of("extend @qwen1 --to 32k --json");
    assert_string_equal(test_string(engine_of(v, "transformers"), "says"), "no");
    assert_true(json_is_null(json_object_get(engine_of(v, "transformers"), "keys_4")));
    assert_non_null(strstr(test_string(engine_of(v, "transformers"), "why"), "use_logn_attn"));
    assert_null(strstr(test_string(v, "reason"), "0 pairs would"));
    assert_null(strstr(test_string(v, "reason"), "read it alike"));
    json_decref(v);
}

/* llama.cpp rounds the ends of gpt-oss's ramp: the plain command, and where it shows. */
static void model_as_it_is_in_llama_cpp(void **state) {
    (void)state;
    json_t *v = verdict_of("extend " GYRE_TEST_DATA "/configs/gpt-oss-20b.json --to 64k --json");
    const json_t *cpp = engine_of(v, "llama.cpp");
    assert_string_equal(test_string(v, "method"), "none");
    assert_string_equal(test_string(cpp, "says"), "differs");
    assert_string_equal(test_string(cpp, "command"), "llama-server -m MODEL.gguf --ctx-size 65536");
    assert_non_null(strstr(test_string(cpp, "note"), "from position 46 on"));
    assert_true(json_is_null(json_object_get(cpp, "reads_as_meant")));
    json_decref(v);
    const outcome *o = run("extend " GYRE_TEST_DATA "/configs/gpt-oss-20b.json --to 64k");
    assert_non_null(strstr(o->out, "--ctx-size 65536"));
    assert_null(strstr(o->out, "cannot do none"));
}

/* A config alone has nothing to measure. */
static void weights_are_asked_for(void **state) {
    (void)state;
    const outcome *o = run("extend " GYRE_TEST_DATA "/configs/llama-2-7b.json --to 16k");
    assert_non_null(strstr(o->out, "gyre extend FOLDER --to 16384 --text TEXT"));
    assert_non_null(strstr(o->out, "the weights:"));
    assert_fails("extend " GYRE_TEST_DATA "/configs/llama-2-7b.json --to 16k --text " GYRE_TEST_DATA "/README.md", 1,
                 "--text: measuring needs weights");
}

/* A key of its own for each version: an old object would replace the new one as a whole. */
static void old_forms_are_removed(void **state) {
    (void)state;
    json_t *v = verdict_of("extend @llama31 --to 256k --json --methods yarn");
    const json_t *hf = engine_of(v, "transformers");
    assert_true(json_is_null(json_object_get(json_object_get(hf, "keys"), "rope_scaling")));
    assert_null(json_object_get(json_object_get(hf, "keys_4"), "rope_parameters"));
    assert_null(strstr(test_string(engine_of(v, "vLLM"), "command"), "null")); /* it would undo rope_parameters */
    json_decref(v);
    v = verdict_of("extend @new --to 16k --json --methods yarn");
    hf = engine_of(v, "transformers");
    assert_true(json_is_null(json_object_get(json_object_get(hf, "keys_4"), "rope_parameters")));
    assert_true(test_number(json_object_get(hf, "keys_4"), "rope_theta") == 500000);
    json_decref(v);
}

static void vllm_is_told_the_length_where_it_has_to(void **state) {
    (void)state;
    static const struct {
        const char *label;
        int states_length;
    } cases[] = {{"yarn", 1}, {"linear", 0}, {"ntk", 1}, {"llama3", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[128];
        snprintf(line, sizeof line, "extend @llama2 --to 16k --methods %s --json", cases[i].label);
        json_t *v = verdict_of(line);
        const json_t *keys = json_object_get(engine_of(v, "vLLM"), "keys");
        assert_int_equal(json_object_get(keys, "max_position_embeddings") != NULL, cases[i].states_length);
        json_decref(v);
    }
    json_t *v = verdict_of("extend @llama2 --to 16k --methods none --json"); /* past what the config says */
    assert_non_null(strstr(test_string(engine_of(v, "vLLM"), "command"), "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm serve"));
    json_decref(v);
}

/* The scale of dynamic NTK is the factor by which a model is to be stretched, as without a number of other methods. */
static void scale_of_dynamic(void **state) {
    (void)state;
    static const char config[] = "{\"model_type\": \"llama\", \"hidden_size\": 256, \"num_attention_heads\": 4, "
                                 "\"max_position_embeddings\": 4096, \"rope_theta\": 10000.0, \"rope_scaling\": {\"type\": "
                                 "\"dynamic\", \"factor\": 2.0}}";
    write_file("scaled.json", config, sizeof config - 1);
    json_t *v = verdict_of("extend @scaled.json --to 8k --json");
    assert_string_equal(test_string(v, "method"), "none"); /* its scale is for that length */
    json_decref(v);
    v = verdict_of("extend @scaled.json --to 16k --json");
    assert_string_equal(test_string(v, "method"), "dynamic");
    json_decref(v);
    assert_non_null(strstr(run("extend @scaled.json --to 16k")->out, "\"rope_type\": \"dynamic\", \"factor\": 4.0"));
    assert_non_null(strstr(run("extend @llama2 --to 16k --methods dynamic:3")->out, "\"factor\": 3.0"));
    unlink(in_folder("scaled.json"));
}

static void engines_that_cannot_say_it(void **state) {
    (void)state;
    json_t *v = verdict_of("extend @llama2 --to 16k --methods dynamic --json");
    assert_string_equal(test_string(engine_of(v, "vLLM"), "says"), "differs");
    assert_true(json_is_null(json_object_get(engine_of(v, "vLLM"), "command")));
    assert_string_equal(test_string(engine_of(v, "llama.cpp"), "why"), "it has no scaling that follows the length in use");
    json_decref(v);
    v = verdict_of("extend @llama2 --to 16k --methods rerope --json");
    assert_string_equal(test_string(engine_of(v, "transformers"), "says"), "no");
    json_decref(v);
    v = verdict_of("extend @llama2 --to 16k --methods llama3 --json"); /* a tensor of the GGUF: by file alone */
    char want[600];
    snprintf(want, sizeof want, "gyre extend %s --to 16384 --method llama3 --write STRETCHED", in_folder("llama2"));
    assert_string_equal(test_string(engine_of(v, "llama.cpp"), "command"), want);
    json_decref(v);
    v = verdict_of("extend @llama31 --to 256k --methods yarn --json"); /* that tensor stays in the file */
    assert_non_null(strstr(test_string(engine_of(v, "llama.cpp"), "note"), "which flags do not remove"));
    json_decref(v);
    v = verdict_of("extend @two --to 128k --methods yarn --json"); /* layers with two bases */
    assert_non_null(strstr(test_string(engine_of(v, "llama.cpp"), "note"), "its flags are one for all layers"));
    json_decref(v);
    /* An engine that cannot do the method is told which of the others it reads as they are meant. */
    v = verdict_of("extend rope --to 1k --methods dynamic,linear,none --json");
    assert_string_equal(test_string(v, "method"), "dynamic");
    assert_string_equal(test_string(engine_of(v, "vLLM"), "reads_as_meant"), "linear");
    json_decref(v);
}

/* out = the number after a flag; `otherwise` if the command lacks it. */
static double flag_of(const char *command, const char *flag, double otherwise) {
    const char *at = strstr(command, flag);
    return at ? strtod(at + strlen(flag), NULL) : otherwise;
}

/* The keys of a GGUF that the flags override, set to what the flags say. */
static void put_flagged_gguf(const char *name, const char *command) {
    static float weights[8];
    const int yarn = strstr(command, "--rope-scaling yarn") != NULL,
              linear = strstr(command, "--rope-scaling linear") != NULL;
    made_gguf *made = made_begin(3);
    made_string(made, "general.architecture", "llama");
    made_u32(made, "llama.context_length", (unsigned)flag_of(command, "--ctx-size ", 0));
    made_u32(made, "llama.embedding_length", 4096);
    made_u32(made, "llama.block_count", 2);
    made_u32(made, "llama.attention.head_count", 32);
    made_f32(made, "llama.rope.freq_base", (float)flag_of(command, "--rope-freq-base ", 10000));
    made_string(made, "llama.rope.scaling.type", yarn ? "yarn" : linear ? "linear" : "none");
    made_f32(made, "llama.rope.scaling.factor", (float)flag_of(command, "--rope-scale ", 1));
    made_u32(made, "llama.rope.scaling.original_context_length", (unsigned)flag_of(command, "--yarn-orig-ctx ", 4096));
    made_tensor(made, "token_embd.weight", weights, 8);
    made_finish(made);
    write_file(name, (const char *)made->file, made->file_bytes);
    free(made);
}

/* A file with the flags in its keys turns as the config that is written for the method does. */
static void flags_rotate_as_the_written_config(void **state) {
    (void)state;
    static const char *const labels[] = {"none", "linear", "ntk", "yarn", "yarn:6"};
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        char line[256];
        snprintf(line, sizeof line, "extend @llama2 --to 16k --methods %s --json", labels[i]);
        json_t *v = verdict_of(line);
        put_flagged_gguf("flagged.gguf", test_string(engine_of(v, "llama.cpp"), "command"));
        json_decref(v);
        snprintf(line, sizeof line, "extend @llama2 --to 16k --method %s --force --write @flags.json", labels[i]);
        assert_int_equal(run(line)->exit, 0);
        json_t *got = run_json("explain @flagged.gguf --length 16k --json"),
               *want = run_json("explain @flags.json --length 16k --json");
        const json_t *a = json_object_get(got, "inv_freq"), *b = json_object_get(want, "inv_freq");
        assert_int_equal(json_array_size(a), 64);
        for (size_t p = 0; p < 64; p++) {
            const double one = json_number_value(json_array_get(a, p)), other = json_number_value(json_array_get(b, p));
            test_close(one, other, 1e-6 * other, labels[i]);
        }
        test_close(test_number(got, "attention_factor"), test_number(want, "attention_factor"), 1e-6, labels[i]);
        json_decref(got);
        json_decref(want);
    }
}

static void gguf_gets_flags_or_a_file(void **state) {
    (void)state;
    assert_int_equal(run("convert @rope -o @rope.gguf")->exit, 0);
    json_t *v = verdict_of("extend @rope.gguf --to 128 --methods yarn --json");
    char want[600];
    snprintf(want, sizeof want, "llama-server -m %s --ctx-size 128 --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32",
             in_folder("rope.gguf"));
    assert_string_equal(test_string(engine_of(v, "llama.cpp"), "command"), want);
    assert_string_equal(test_string(engine_of(v, "vLLM"), "why"), "its settings go into a config.json, and this is a GGUF");
    json_decref(v);
    v = verdict_of("extend @rope.gguf --to 128 --methods by-parts --json");
    assert_non_null(strstr(test_string(engine_of(v, "llama.cpp"), "command"), "--method by-parts --write STRETCHED.gguf"));
    json_decref(v);
}

/* -- the recommendation -- */
static void rules(void **state) {
    (void)state;
    static const struct {
        const char *line, *method, *reason;
    } cases[] = {
        {"extend @llama2 --to 4k --json", "none", "within the trained length of 4096"},
        {"extend @llama2 --to 16k --json", "yarn", "transformers, vLLM and llama.cpp read it alike"},
        {"extend @llama2 --to 64k --json", "yarn", "a factor of 16 is published with fine-tuning alone"},
        {"extend @llama2 --to 16k --json --methods ntk,linear", "ntk", "prompts within the trained length change too"},
        {"extend @llama2 --to 16k --json --methods dynamic", "dynamic", "stay as they are"},
        {"extend @llama31 --to 64k --json", "none", "own scaling already reaches 131072"},
        {"extend @llama31 --to 256k --json", "llama3", "has this scaling already"},
        {"extend @qwen --to 128k --json", "yarn", "model cards of this family give YaRN"},
        {"extend @qwen --to 512k --json", "yarn", "a factor of 16 is published with fine-tuning alone"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *v = verdict_of(cases[i].line);
        if (strcmp(test_string(v, "method"), cases[i].method) != 0 || !strstr(test_string(v, "reason"), cases[i].reason))
            fail_msg("%s: %s: %s", cases[i].line, test_string(v, "method"), test_string(v, "reason"));
        json_decref(v);
    }
    json_t *v = verdict_of("extend @llama2 --to 16k --json");
    char want[600];
    snprintf(want, sizeof want, "gyre extend %s --to 16384 --text TEXT", in_folder("llama2"));
    assert_string_equal(test_string(v, "measure"), want); /* what is not known, and how to learn it */
    json_decref(v);
}

/* -- costs -- */
static const json_t *row_of(const json_t *cost, const char *method) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(cost, "methods"), i, row) {
        if (strcmp(test_string(row, "method"), method) == 0) return row;
    }
    fail_msg("no row for %s", method);
    return NULL;
}

static double nats_of(const json_t *row, const char *range) {
    return test_number(json_object_get(row, range), "nats");
}

/* The figures are those of gyre eval with the same factor. */
static void costs_are_those_of_eval(void **state) {
    (void)state;
    json_t *v = verdict_of("extend @rope --to 128 --text @text --methods linear,yarn,dynamic --windows 5 --json");
    const json_t *cost = json_object_get(v, "cost");
    assert_int_equal(test_integer(cost, "near"), TRAINED);
    assert_int_equal(test_integer(cost, "far"), 128);
    json_t *eval =
        run_json("eval @rope --text @text --contexts 32,128 --windows 5 --methods none,linear:4,yarn:4,dynamic --json");
    static const char *const names[] = {"none", "linear", "yarn", "dynamic"};
    const json_t *results = json_object_get(eval, "results");
    assert_int_equal(json_array_size(results), 8);
    for (size_t i = 0; i < 8; i++) {
        static const char *const ranges[] = {"near", "far"};
        const json_t *row = row_of(cost, names[i / 2]), *want = json_array_get(results, i);
        const json_t *got = json_object_get(row, ranges[i % 2]);
        const json_t *low = json_array_get(json_object_get(want, "perplexity_interval"), 0);
        const double nats = test_number(got, "nats"), half = test_number(got, "half_interval");
        assert_int_equal(test_integer(got, "windows"), 5);
        test_close(exp(nats), test_number(want, "perplexity"), 1e-9, "perplexity");
        test_close(exp(nats - half), json_number_value(low), 1e-9, "interval");
        test_close(nats_of(row, "far_over_none"), nats_of(row, "far") - nats_of(row_of(cost, "none"), "far"), 1e-12,
                   "difference");
    }
    assert_true(nats_of(row_of(cost, "dynamic"), "near_over_none") == 0); /* it leaves the trained length alone */
    json_decref(eval);
    json_decref(v);
}

/* The bundled model is one that a method helps by far more than chance: none is never taken, nor a method that is worse. */
static void measured_verdict(void **state) {
    (void)state;
    FILE *text = fopen(in_folder("code"), "w");
    assert_non_null(text);
    for (int i = 0; i < 400; i++)
        fprintf(text, "/* line %d of a header */\nextern int function_%d(const char *name, size_t size);\n", i * 7 % 1000,
                i);
    fclose(text);
    json_t *v = verdict_of("extend rope --to 1k --text @code --methods linear,yarn --windows 3 --json");
    const json_t *cost = json_object_get(v, "cost");
    assert_string_equal(test_string(v, "basis"), "measured");
    assert_string_equal(test_string(v, "method"), "yarn");
    assert_true(json_is_null(json_object_get(v, "measure")));
    assert_non_null(strstr(test_string(v, "reason"), "at 1024 tokens perplexity is"));
    assert_true(nats_of(row_of(cost, "yarn"), "far") < nats_of(row_of(cost, "none"), "far"));
    assert_true(nats_of(row_of(cost, "yarn"), "far") < nats_of(row_of(cost, "linear"), "far"));
    json_decref(v);
    const outcome *o = run("extend rope --to 512 --text @code --methods yarn --windows 3 --near 128");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "128 tokens"));
    assert_non_null(strstr(o->out, "nats over none"));
    assert_non_null(strstr(o->out, "Recommended: yarn x 2\nReason: at 512 tokens"));
    assert_null(strstr(o->out, "--text TEXT"));
}

/* With fewer than three windows chance is not known: the figures are shown, and rules recommend. */
static void few_windows_recommend_nothing(void **state) {
    (void)state;
    FILE *text = fopen(in_folder("little"), "w");
    assert_non_null(text);
    for (int i = 0; i < 1100; i++)
        fputs(i % 8 ? "a" : " ", text);
    fclose(text);
    const outcome *o = run("extend rope --to 1k --text @little --methods yarn");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "No recommendation follows from 1 window of 1024 tokens"));
    assert_non_null(strstr(o->out, "2049 tokens"));
    assert_non_null(strstr(o->out, "Reason, by rules and not measured"));
    assert_null(strstr(o->out, "more than chance"));
    assert_null(strstr(o->out, "only chance"));
    json_t *v = verdict_of("extend rope --to 1k --text @code --methods yarn --windows 2 --json");
    assert_string_equal(test_string(v, "basis"), "rule");
    assert_non_null(strstr(test_string(v, "warning"), "3 are needed (--windows)"));
    json_decref(v);
    o = run("extend rope --to 1k --text @code --methods yarn --windows 2");
    assert_null(strstr(o->out, "+-"));
}

/* A model with random weights reads no text.  How little worse a method makes it says nothing. */
static void a_guessing_model_judges_nothing(void **state) {
    (void)state;
    json_t *v = verdict_of("extend @rope --to 128 --text @text --methods linear,yarn --windows 5 --json");
    assert_string_equal(test_string(v, "basis"), "rule");
    assert_non_null(strstr(test_string(v, "warning"), "It cannot read this text"));
    json_decref(v);
    v = verdict_of("extend rope --to 512 --text @code --methods yarn --windows 3 --json");
    assert_true(json_is_null(json_object_get(v, "warning")));
    json_decref(v);
}

/* An interrupted measurement keeps the rows that it has, and recommends by rules. */
static void interrupt_keeps_rows(void **state) {
    (void)state;
    static outcome o;
    write_text("long", 1 << 20);
    const pid_t child = start("extend @rope --to 4k --text @long --windows 200 -o @partial", in_folder(".out"));
    nanosleep(&(struct timespec){.tv_nsec = 400000000}, NULL);
    assert_int_equal(kill(child, SIGINT), 0);
    finish(child, &o);
    if (o.exit != 130) fail_msg("exit %d, signal %d: %s", o.exit, o.signal, o.err);
    if (!strstr(o.err, "stopped: a dash stands for what was not measured")) return; /* it came before the first window */
    static char page[1 << 15];
    read_whole(in_folder("partial"), page, sizeof page);
    assert_non_null(strstr(page, "Reason, by rules and not measured"));
    assert_non_null(strstr(page, "The measurement was stopped, so the recommendation is by rules."));
    assert_null(strstr(page, "without a text"));
}

static void wrong_use(void **state) {
    (void)state;
    assert_fails("extend @rope --to 64 --text @text --method yarn --write @out", 2, "--write measures nothing");
    assert_fails("extend @rope --to 64 --near 16", 2, "nothing is measured without --text");
    assert_fails("extend @rope --to 64 --text @text --near 48", 1, "past the trained length of 32");
    assert_fails("extend @rope --to 64 --text @text --layer-type all", 2, "--layer-type");
    assert_fails("extend @rope --to 64 --text @short", 1, "65 are needed");
    assert_fails("extend @llama2 --to 16k --text @text", 1, "vocab_size: missing"); /* it is a config alone */
    assert_fails("extend @rope --to 64 --text @text --windows 0", 2, "--windows");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(yarn_in_every_form),
                                       cmocka_unit_test(keys_rotate_as_the_written_config),
                                       cmocka_unit_test(classes_without_scaling),
                                       cmocka_unit_test(model_as_it_is_in_llama_cpp),
                                       cmocka_unit_test(weights_are_asked_for),
                                       cmocka_unit_test(phi3_has_three_fields),
                                       cmocka_unit_test(old_forms_are_removed),
                                       cmocka_unit_test(vllm_is_told_the_length_where_it_has_to),
                                       cmocka_unit_test(scale_of_dynamic),
                                       cmocka_unit_test(engines_that_cannot_say_it),
                                       cmocka_unit_test(flags_rotate_as_the_written_config),
                                       cmocka_unit_test(gguf_gets_flags_or_a_file),
                                       cmocka_unit_test(rules),
                                       cmocka_unit_test(costs_are_those_of_eval),
                                       cmocka_unit_test(measured_verdict),
                                       cmocka_unit_test(few_windows_recommend_nothing),
                                       cmocka_unit_test(a_guessing_model_judges_nothing),
                                       cmocka_unit_test(interrupt_keeps_rows),
                                       cmocka_unit_test(wrong_use)};
    return cmocka_run_group_tests(tests, make_models, remove_folder);
}
