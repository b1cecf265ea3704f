/* test_gguf_doubts.c: explain, diff, extend and audit name a key of a GGUF that nothing reads, and find none in a file that
 * gyre convert wrote. */
#include "make_gguf.h"
#include "run_audit.h"

static const char key[] = "qwen2.rope.freq_base_per_layer";
static float weights[64];

static int make_models(void **state) {
    if (make_empty_folder(state)) return -1;
    made_gguf *made = made_begin(3);
    made_string(made, "general.architecture", "qwen2");
    made_u32(made, "qwen2.context_length", 4096);
    made_u32(made, "qwen2.embedding_length", 256);
    made_u32(made, "qwen2.block_count", 2);
    made_u32(made, "qwen2.attention.head_count", 4);
    made_f32(made, key, 500);
    made_words(made, "tokenizer.ggml.tokens", 100);
    made_tensor(made, "token_embd.weight", weights, 64);
    made_finish(made);
    write_file("odd.gguf", (const char *)made->file, made->file_bytes);
    free(made);
    return setenv("LC_ALL", "C", 1) || setenv("COLUMNS", "100", 1);
}

/* out = how many warnings of a command's JSON are about the key.  They have no line. */
static int count_warnings(const json_t *root) {
    const json_t *warning;
    size_t i;
    int count = 0;
    json_array_foreach(json_object_get(root, "warnings"), i, warning) {
        if (strcmp(test_string(warning, "key"), key) != 0) continue;
        assert_true(json_is_null(json_object_get(warning, "line")));
        assert_non_null(strstr(test_string(warning, "text"), "nothing reads it"));
        count++;
    }
    return count;
}

static void texts_name_the_key(void **state) {
    (void)state;
    static const char *const lines[] = {"explain @odd.gguf", "diff @odd.gguf --with reference", "extend @odd.gguf --to 8k",
                                        "audit @odd.gguf"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const outcome *o = run(lines[i]);
        if (!strstr(o->out, key)) fail_msg("gyre %s: %s%s", lines[i], o->out, o->err);
    }
}

static void json_names_the_key(void **state) {
    (void)state;
    json_t *root = run_json("explain @odd.gguf --json");
    assert_int_equal(count_warnings(root), 1);
    json_decref(root);
    root = run_json("extend @odd.gguf --to 8k --json");
    assert_int_equal(count_warnings(root), 1);
    json_decref(root);
    root = run_json("diff @odd.gguf --with reference --json");
    assert_int_equal(count_warnings(json_object_get(root, "a")), 1);
    json_decref(root);
    root = audited("@odd.gguf", FOUND);
    assert_int_equal(count_findings(root, "config", "doubt", key), 1);
    json_decref(root);
}

static void none_in_what_convert_writes(void **state) {
    (void)state;
    static const char *const models[] = {"rope", "rope-tuned-linear-16", "rope-tuned-by-parts-16", "rope-tuned-ntk-16",
                                         "rope-tuned-yarn-16"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char line[300];
        snprintf(line, sizeof line, "convert " GYRE_TEST_DATA "/../models/%s -o @%s.gguf", models[i], models[i]);
        const outcome *o = run(line);
        if (o->exit) fail_msg("gyre %s: %s", line, o->err);
        snprintf(line, sizeof line, "explain @%s.gguf", models[i]);
        o = run(line);
        assert_int_equal(o->exit, 0);
        if (strstr(o->out, "nothing reads it")) fail_msg("gyre %s: %s", line, o->out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_name_the_key), cmocka_unit_test(json_names_the_key),
                                       cmocka_unit_test(none_in_what_convert_writes)};
    return cmocka_run_group_tests(tests, make_models, remove_folder);
}
