/* test_audit.c: gyre audit finds each contradiction between the files of a model, and nothing in models that are right. */
#include "run_audit.h"

#include <math.h>

#define TEXT_FILE GYRE_TEST_DATA "/texts/header.txt"
enum { PAIRS = 4 };

/* -- models -- */
/* The only tensor of the folder: `count` frequencies of layer 1. */
static void write_frequencies(const char *place, const char *dtype, const void *data, int count, int bytes) {
    char header[STORED_HEADER], path[256];
    snprintf(header, sizeof header,
             "{\"model.layers.1.self_attn.rotary_emb.inv_freq\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
             dtype, count, count * bytes);
    snprintf(path, sizeof path, "%s/model.safetensors", place);
    stored_safetensors(path, header, data, (size_t)(count * bytes));
}

/* -- what is right -- */
static void models_that_are_right(void **state) {
    (void)state;
    static const char *const models[] = {ROPE, "@rope", "@alibi", "@learned"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        json_t *root = audited(models[i], RIGHT);
        assert_int_equal(count_findings(root, "weights", "ok", "shapes that the config says"), 1);
        assert_int_equal(count_findings(root, "config", "ok", ""), 1);
        json_decref(root);
    }
    expect("@learned", RIGHT, "tables", "ok", "64 rows, as the config says");
    expect(ROPE " --text " TEXT_FILE, RIGHT, "layout", "ok", "half, as the files state");
    expect(ROPE, RIGHT, "layout", "left_out", "--text");
    const outcome *o = run("audit @rope");
    assert_int_equal(o->exit, RIGHT);
    assert_non_null(strstr(o->out, "nothing wrong was found"));
}

static void gguf(void **state) {
    (void)state;
    assert_int_equal(run("convert " ROPE " -o @whole.gguf")->exit, 0);
    json_t *root = audited("@whole.gguf", RIGHT);
    assert_string_equal(test_string(root, "profile"), "llama.cpp");
    assert_int_equal(count_findings(root, "weights", "ok", "shapes that the config says"), 1);
    assert_int_equal(count_findings(root, "programs", "note", "does not run it"), 3);
    json_decref(root);
}

/* -- what is not -- */
static void frequencies(void **state) {
    (void)state;
    const float right[PAIRS] = {1, 0.1f, 0.01f, 0.001f}, scaled[PAIRS] = {0.25f, 0.025f, 0.0025f, 0.00025f};
    const uint16_t rounded[PAIRS] = {0x3f80, 0x3dcd, 0x3c24, 0x3a83}; /* bf16 of 1, 0.1, 0.01, 0.001 */
    write_llama("same", "\"max_position_embeddings\": 128");
    write_frequencies("same", "F32", right, PAIRS, 4);
    expect("@same", FOUND, "frequencies", "ok", "as the config says");
    write_llama("scaled", "\"max_position_embeddings\": 128");
    write_frequencies("scaled", "F32", scaled, PAIRS, 4);
    /* pair 0 loses 0.75 radians a position, so the first one is off by more than 0.01 */
    expect("@scaled", FOUND, "frequencies", "wrong", "pair 0 rotates 0.25 radians per position, but the config says 1");
    expect("@scaled", FOUND, "frequencies", "wrong", "from position 1 on");
    /* 0.1 becomes 0.10009765625: 0.01 rad after 0.01 / 0.00009765625 = 102.4 positions */
    write_llama("rounded", "\"max_position_embeddings\": 128");
    write_frequencies("rounded", "BF16", rounded, PAIRS, 2);
    expect("@rounded", FOUND, "frequencies", "note", "0.01 rad off from position 103 on");
    write_llama("fewer", "\"max_position_embeddings\": 128");
    write_frequencies("fewer", "F32", right, PAIRS - 1, 4);
    expect("@fewer", FOUND, "frequencies", "wrong", "3 pairs, and the config says 4");
    /* in none of these folders are other weights */
    expect("@same", FOUND, "weights", "wrong", "");
}

static void tables(void **state) {
    (void)state;
    char config[4096];
    write_model("shortened", GYRE_KIND_LEARNED);
    read_whole(in_folder("shortened/config.json"), config, sizeof config);
    char *rows = strstr(config, "\"position_table_rows\": 64");
    assert_non_null(rows);
    rows[strlen("\"position_table_rows\": 6")] = '5'; /* 65 */
    write_in("shortened", "config.json", config);
    expect("@shortened", FOUND, "tables", "wrong", "64 rows, and the config says 65: the last positions have none");
}

static void lengths(void **state) {
    (void)state;
    write_llama("long", "\"max_position_embeddings\": 262144, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0,\n"
                        "  \"original_max_position_embeddings\": 32768}");
    expect("@long", FOUND, "lengths", "doubt", "262144 tokens are stated, and the scaling reaches 131072");
    write_llama("limits", "\"max_position_embeddings\": 4096");
    write_in("limits", "tokenizer_config.json", "{\"model_max_length\": 1000000000000000019884624838656}");
    write_in("limits", "generation_config.json", "{\"max_length\": 8192, \"max_new_tokens\": 2048}");
    expect("@limits", FOUND, "lengths", "ok", "tokenizer_config.json sets no limit");
    expect("@limits", FOUND, "lengths", "doubt", "max_length is 8192, and the model serves 4096 tokens");
    expect("@limits", FOUND, "lengths", "ok", "max_new_tokens is 2048");
    write_in("limits", "generation_config.json", "{}");
    write_in("limits", "tokenizer_config.json", "{\"model_max_length\": 2048}");
    expect("@limits", RIGHT, "lengths", "note", "texts are cut there, before the 4096 tokens");
    write_in("learned", "tokenizer_config.json", "{\"model_max_length\": 100}");
    expect("@learned", FOUND, "lengths", "wrong", "model_max_length is 100, and the table of positions ends after 64");
    remove(in_folder("learned/tokenizer_config.json"));
}

/* Files that are no JSON object, or no file. */
static void spoiled_files(void **state) {
    (void)state;
    write_llama("spoiled", "\"max_position_embeddings\": 4096");
    write_in("spoiled", "generation_config.json", "[1, 2]");
    write_in("spoiled", "tokenizer_config.json", "{\"model_max_length\": ");
    expect("@spoiled", FOUND, "lengths", "wrong", "generation_config.json is not a JSON object: it is an array");
    expect("@spoiled", FOUND, "lengths", "wrong", "tokenizer_config.json is not a JSON object");
    assert_non_null(strstr(run("audit @spoiled")->out, "tokenizer_config.json, line 1"));
    static const char *const texts[][2] = {{"5", "a number"},         {"\"a\"", "a string"}, {"null", "null"},
                                           {"true", "true or false"}, {" \n", "empty"},      {"[1]", "an array"}};
    char says[96];
    for (int i = 0; i < 6; i++) {
        write_in("spoiled", "tokenizer_config.json", texts[i][0]);
        snprintf(says, sizeof says, "tokenizer_config.json is not a JSON object: it is %s", texts[i][1]);
        expect("@spoiled", FOUND, "lengths", "wrong", says);
        if (strstr(run("audit @spoiled --json")->out, "line -1")) fail_msg("%s: line -1", texts[i][0]);
    }
    remove(in_folder("spoiled/generation_config.json"));
    assert_int_equal(mkfifo(in_folder("spoiled/generation_config.json"), 0666), 0);
    expect("@spoiled", FOUND, "lengths", "wrong", "generation_config.json is larger than 64 MiB or not a file");
    write_in("spoiled", "model.safetensors", "short");
    expect("@spoiled", FOUND, "weights", "wrong", "");
    assert_non_null(strstr(run("audit @spoiled")->out, "spoiled/model.safetensors"));
}

static void programs(void **state) {
    (void)state;
    write_llama("phi", "\"max_position_embeddings\": 4096, \"rope_scaling\": {\"factor\": 4.0}");
    json_t *root = audited("@phi", FOUND);
    const int differ = count_findings(root, "programs", "doubt", "ifferent"),
              warned = count_findings(root, "config", "doubt", "");
    json_decref(root);
    if (differ + warned < 1) fail_msg("a scaling without a type: %d programs differ, %d warnings", differ, warned);
    expect("@bloom.json", RIGHT, "weights", "left_out", "only a config.json:");
}

static void layout(void **state) {
    char config[4096];
    (void)state;
    assert_int_equal(run("convert " ROPE " -o @moved --layout interleaved")->exit, 0);
    read_whole(ROPE "/config.json", config, sizeof config);
    write_in("moved", "config.json", config);
    expect("@moved --text " TEXT_FILE, FOUND, "layout", "wrong",
           "the files state half, and the weights were trained with the other");
    assert_non_null(strstr(run("audit @moved --text " TEXT_FILE)->out, "--from-layout interleaved"));
}

static void tokens(void **state) {
    (void)state;
    static const char words[] = "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 300}, \"merges\": []}}";
    assert_int_equal(run("convert " ROPE " -o @worded")->exit, 0);
    write_in("worded", "tokenizer.json", words);
    json_t *root = audited("@worded", FOUND);
    assert_int_equal(count_findings(root, "tokens", "wrong", ""), 1);
    json_decref(root);
}

static void wrong_usage(void **state) {
    (void)state;
    assert_fails("audit", USAGE, "MODEL: missing");
    assert_fails("audit @nowhere", FAILED, "nowhere");
    assert_fails("audit @rope --as nobody", USAGE, "nobody");
    assert_fails("audit @rope -o @rope/config.json", USAGE, "config.json");
    assert_fails("audit @rope --text @nowhere", FAILED, "nowhere");
}

static int write_models(void **state) {
    static const char bloom[] = "{\"model_type\": \"bloom\", \"hidden_size\": 64, \"n_head\": 4, \"n_layer\": 2}\n";
    if (make_folder(state)) return -1;
    write_file("bloom.json", bloom, strlen(bloom));
    return 0;
}

int main(void) {
    static const struct CMUnitTest tests[] = {cmocka_unit_test(models_that_are_right),
                                              cmocka_unit_test(gguf),
                                              cmocka_unit_test(frequencies),
                                              cmocka_unit_test(tables),
                                              cmocka_unit_test(lengths),
                                              cmocka_unit_test(spoiled_files),
                                              cmocka_unit_test(programs),
                                              cmocka_unit_test(layout),
                                              cmocka_unit_test(tokens),
                                              cmocka_unit_test(wrong_usage)};
    return cmocka_run_group_tests(tests, write_models, remove_folder);
}
