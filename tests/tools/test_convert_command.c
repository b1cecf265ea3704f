/* test_convert_command.c: gyre convert from outside. */
#include "run_command.h"
#include "tools/cli/cli.h"

static void test_there_and_back(void **state) {
    (void)state;
    json_t *told = run_json("convert @rope -o @rope.gguf --json");
    assert_string_equal(test_string(told, "format"), "GGUF");
    assert_string_equal(test_string(told, "model_type"), "llama");
    assert_string_equal(test_string(told, "layout"), "interleaved");
    struct stat info;
    assert_int_equal(stat(in_folder("rope.gguf"), &info), 0);
    assert_int_equal(test_integer(told, "bytes"), info.st_size);
    json_decref(told);
    told = run_json("convert @rope.gguf -o @back --json");
    assert_string_equal(test_string(told, "layout"), "half");
    json_decref(told);
    assert_int_equal(run("convert @rope -o @named --to gguf")->exit, 0);
    assert_int_equal(run("explain @named")->exit, 0);
}

/* What other programs would read wrong is not written in silence. */
static void test_warns(void **state) {
    (void)state;
    const outcome *o = run("convert @rope -o @interleaved --layout interleaved");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->err, "a key of Gyre's own"));
    o = run("convert @interleaved -o @half --layout half");
    assert_int_equal(o->exit, 0);
    assert_string_equal(o->err, "");
    assert_non_null(strstr(o->out, "llama"));
}

/* The losses that are warned of stand in the JSON too. */
static void test_losses(void **state) {
    (void)state;
    static const char tokens[] =
        "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, \"decoder\": {\"type\": \"Fuse\"}, "
        "\"model\": {\"type\": \"BPE\", \"dropout\": 0.5, \"vocab\": {\"a\": 0}, \"merges\": []}}";
    json_t *told = run_json("convert @rope -o @told --json");
    assert_true(json_is_array(json_object_get(told, "losses")));
    assert_int_equal(json_array_size(json_object_get(told, "losses")), 0);
    json_decref(told);
    write_file("told/tokenizer.json", tokens, sizeof tokens - 1);
    const outcome *o = run("convert @told -o @told.gguf --json");
    assert_int_equal(o->exit, 0);
    told = json_loads(o->out, 0, NULL);
    const json_t *losses = json_object_get(told, "losses");
    assert_int_equal(json_array_size(losses), 2);
    assert_non_null(strstr(json_string_value(json_array_get(losses, 0)), "model.dropout"));
    assert_non_null(strstr(json_string_value(json_array_get(losses, 1)), "decoder"));
    json_decref(told);
}

/* A folder with a model is replaced where that is asked for. */
static void test_replace(void **state) {
    (void)state;
    static char before[1 << 16], after[1 << 16];
    assert_int_equal(run("convert @rope -o @taken")->exit, 0);
    write_file("taken/tokenizer.json", "{}", 2);
    read_whole(in_folder("taken/config.json"), before, sizeof before);
    assert_fails("convert @alibi -o @taken", 1, "folder: exists and is not empty; --force replaces it");
    assert_fails("convert @alibi -o @taken/", 1, "--force");
    read_whole(in_folder("taken/config.json"), after, sizeof after);
    assert_string_equal(before, after);
    assert_int_equal(run("convert @alibi -o @taken --force")->exit, 0);
    read_whole(in_folder("taken/config.json"), after, sizeof after);
    assert_non_null(strstr(after, "alibi"));
    assert_int_equal(run("convert @rope -o @fresh --force")->exit, 0);
    assert_int_equal(mkdir(in_folder("void"), 0777), 0);
    assert_int_equal(run("convert @rope -o @void")->exit, 0); /* an empty folder holds nothing to lose */
}

static void test_wrong_use(void **state) {
    (void)state;
    assert_fails("convert", CLI_USAGE, "MODEL: missing");
    assert_fails("convert @rope", CLI_USAGE, "-o: missing");
    assert_fails("convert Qwen/Qwen2.5-7B -o @x", 1, "nothing is downloaded");
    assert_fails("convert @rope/config.json -o @x", 1, "the file is JSON text; a model is named by its folder");
    assert_fails("convert @rope @alibi -o @x", CLI_USAGE, "one model at a time");
    write_model("without", GYRE_KIND_ROPE);
    write_file("without/model.safetensors", "\2\0\0\0\0\0\0\0{}", 10);
    assert_fails("convert @without -o @x", 1, "no tensors");
    assert_fails("convert @rope -o @x --layout sideways", CLI_USAGE, "--layout");
    assert_fails("convert @rope -o @x --dtype q8", CLI_USAGE, "--dtype q8");
    assert_fails("convert @rope -o @x --to onnx", CLI_USAGE, "--to");
    assert_fails("convert @alibi -o @x.gguf", CLI_FAILED, "positions");
    assert_fails("convert @rope -o @text", CLI_FAILED, "a file has that name");
    assert_fails("convert @texts -o @x", CLI_FAILED, "texts");
    assert_fails("convert @rope -o @rope", CLI_USAGE, "is read by this run");
    assert_int_equal(access(in_folder("x"), F_OK), -1);
    assert_int_equal(access(in_folder("x.gguf"), F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_warns),     cmocka_unit_test(test_losses),
        cmocka_unit_test(test_replace),        cmocka_unit_test(test_wrong_use),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
