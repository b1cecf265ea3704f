/* test_diff_draft.c: gyre diff --draft from outside: its kinds, what must agree in each, and its exit status. */
#include "run_command.h"

#include <math.h>

enum { AGREES = 0, FAILED = 1, USAGE = 2, DIFFERS = 3, REFUSED = 4 };

static const char target_scaling[] =
    "\"rope_theta\": 500000.0, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, "
    "\"original_max_position_embeddings\": 8192}";

/* A llama of heads of this size. */
static void write_llama(const char *name, int head_dim, int length, const char *more) {
    char text[2048];
    const int size =
        snprintf(text, sizeof text,
                 "{\"model_type\": \"llama\", \"hidden_size\": %d, \"num_attention_heads\": 4, \"head_dim\": %d,\n"
                 " \"num_hidden_layers\": 2, \"max_position_embeddings\": %d, %s}\n",
                 4 * head_dim, head_dim, length, more);
    assert_true(size > 0 && size < (int)sizeof text);
    write_file(name, text, (size_t)size);
}

static void write_gemma(const char *name, const char *type, int layers, int window, const char *base, int length) {
    char text[2048], types[1024] = "";
    for (int i = 0; i < layers; i++)
        strcat(types, i == layers - 1 ? "\"full_attention\"" : "\"sliding_attention\", ");
    const int size =
        snprintf(text, sizeof text,
                 "{\"model_type\": \"%s\", \"text_config\": {\"model_type\": \"gemma4_text\", \"hidden_size\": 256,\n"
                 " \"num_hidden_layers\": %d, \"num_attention_heads\": 4, \"head_dim\": 64, \"global_head_dim\": 128,\n"
                 " \"sliding_window\": %d, \"max_position_embeddings\": %d, \"layer_types\": [%s],\n"
                 " \"rope_parameters\": {\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0},\n"
                 " \"full_attention\": {\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.25,\n"
                 "  \"rope_theta\": %s}}}}\n",
                 type, layers, window, length, types, base);
    assert_true(size > 0 && size < (int)sizeof text);
    write_file(name, text, (size_t)size);
}

static int write_configs(void **state) {
    char more[1024];
    if (make_empty_folder(state)) return -1;
    write_llama("target.json", 128, 32768, target_scaling);
    snprintf(more, sizeof more, "\"architectures\": [\"LlamaForCausalLMEagle3\"], %s", target_scaling);
    write_llama("right.json", 128, 32768, more);
    write_llama("small.json", 64, 32768, more);
    write_llama("short.json", 128, 2048, more);
    write_llama("lost.json", 128, 32768, "\"draft_vocab_size\": 32000, \"rope_theta\": 10000.0");
    write_llama("base.json", 64, 32768,
                "\"draft_vocab_size\": 32000, \"rope_theta\": 510000.0, \"rope_scaling\": {\"rope_type\": \"yarn\", "
                "\"factor\": 4.0, \"original_max_position_embeddings\": 8192}");
    write_llama("factor.json", 128, 32768,
                "\"draft_vocab_size\": 32000, \"rope_theta\": 500000.0, \"rope_scaling\": {\"rope_type\": \"yarn\", "
                "\"factor\": 4.0, \"original_max_position_embeddings\": 8192, \"attention_factor\": 1.0}");
    write_llama("model.json", 64, 32768, "\"rope_theta\": 10000.0");
    write_llama("model-short.json", 64, 4096, "\"rope_theta\": 10000.0");
    write_llama("eagle-plain.json", 128, 32768, target_scaling);
    write_gemma("gemma.json", "gemma4", 6, 512, "1000000.0", 131072);
    write_gemma("assistant.json", "gemma4_assistant", 4, 512, "1000000.0", 131072);
    write_gemma("wide.json", "gemma4_assistant", 4, 1024, "1000000.0", 131072);
    write_gemma("other.json", "gemma4_assistant", 4, 512, "1010000.0", 131072);
    write_file("t5.json", "{\"model_type\": \"t5\"}", 20);
    static const char refused[] = "{\"model_type\": \"llama\", \"hidden_size\": -1}";
    write_file("refused.json", refused, sizeof refused - 1);
    static const char vl[] = "{\"model_type\": \"qwen2_vl\", \"hidden_size\": 512, \"num_attention_heads\": 4,\n"
                             " \"num_hidden_layers\": 2, \"max_position_embeddings\": 32768, \"rope_theta\": 1000000.0,\n"
                             " \"rope_scaling\": {\"type\": \"mrope\", \"mrope_section\": [16, 24, 24]}}";
    write_file("vl.json", vl, sizeof vl - 1);
    write_llama("text-head.json", 128, 32768, "\"draft_vocab_size\": 32000, \"rope_theta\": 1000000.0");
    return setenv("LC_ALL", "C", 1) || setenv("COLUMNS", "160", 1);
}

static json_t *compare(const char *line, int status) {
    const outcome *o = run(line);
    if (o->exit != status) fail_msg("gyre %s: exit %d, not %d: %s%s", line, o->exit, status, o->err, o->out);
    json_error_t error;
    json_t *root = json_loads(o->out, 0, &error);
    if (!root) fail_msg("gyre %s: %s", line, o->out);
    const json_t *draft = json_object_get(root, "draft");
    assert_int_equal(json_is_true(json_object_get(draft, "agrees")), status == AGREES);
    return root;
}

static const json_t *draft_of(const json_t *root) {
    return json_object_get(root, "draft");
}

/* out = the check of that name of a group of the draft; fails if there is none. */
static const json_t *check_of(const json_t *root, size_t group, const char *name) {
    const json_t *check;
    size_t i;
    json_array_foreach(json_object_get(json_array_get(json_object_get(draft_of(root), "groups"), group), "checks"), i,
                       check) {
        if (strcmp(test_string(check, "name"), name) == 0) return check;
    }
    fail_msg("no check %s", name);
    return NULL;
}

/* Fails unless exactly the named check, which is needed, does not agree. */
static void expect_fault(const char *draft, const char *target, const char *kind, size_t group, const char *name,
                         const char *need) {
    char line[256];
    snprintf(line, sizeof line, "diff @%s @%s --draft auto --json", draft, target);
    json_t *root = compare(line, DIFFERS);
    assert_string_equal(test_string(draft_of(root), "kind"), kind);
    const json_t *check;
    size_t g, i, faults = 0;
    const json_t *each;
    json_array_foreach(json_object_get(draft_of(root), "groups"), g, each) {
        json_array_foreach(json_object_get(each, "checks"), i, check) {
            faults += !json_is_true(json_object_get(check, "agrees")) && strcmp(test_string(check, "need"), "own") != 0;
        }
    }
    if (faults != 1) fail_msg("%s: %zu faults: %s", line, faults, test_string(draft_of(root), "verdict"));
    check = check_of(root, group, name);
    assert_int_equal(json_is_true(json_object_get(check, "agrees")), 0);
    assert_string_equal(test_string(check, "need"), need);
    assert_true(json_is_string(json_object_get(check, "note")));
    assert_non_null(strstr(test_string(draft_of(root), "verdict"), name));
    json_decref(root);
}

static void expect_agrees(const char *draft, const char *target, const char *kind) {
    char line[256];
    snprintf(line, sizeof line, "diff @%s @%s --draft auto --json", draft, target);
    json_t *root = compare(line, AGREES);
    assert_string_equal(test_string(draft_of(root), "kind"), kind);
    json_decref(root);
}

/* A head of another size rotates by the target's rule at its own size. */
static void test_heads(void **state) {
    (void)state;
    expect_agrees("right.json", "target.json", "head");
    expect_agrees("small.json", "target.json", "head");
    expect_fault("short.json", "target.json", "head", 0, "length", "must");
    expect_fault("base.json", "target.json", "head", 0, "frequencies", "as-trained");
    expect_fault("factor.json", "target.json", "head", 0, "attention factor", "as-trained");
    json_t *root = compare("diff @lost.json @target.json --draft auto --json", DIFFERS);
    const json_t *check = check_of(root, 0, "frequencies");
    /* Base 10000 of no scaling against YaRN: the gap is largest at pair 1, or near it. */
    double gap = 0;
    for (int i = 0; i < 16; i++) /* fast pairs, which YaRN keeps */
        gap = fmax(gap, fabs(pow(1e4, -i / 64.0) - pow(5e5, -i / 64.0)));
    assert_true(fabs((double)test_integer(check, "first_position") - 0.01 / gap) <= 1);
    json_decref(root);
}

static void test_caches(void **state) {
    (void)state;
    expect_agrees("assistant.json", "gemma.json", "cache");
    expect_fault("wide.json", "gemma.json", "cache", 0, "window", "must");
    expect_fault("other.json", "gemma.json", "cache", 1, "frequencies", "must");
    json_t *root = compare("diff @small.json @target.json --draft cache --json", DIFFERS); /* right as a head */
    assert_string_equal(test_string(check_of(root, 0, "head size"), "need"), "must");
    assert_int_equal(json_is_true(json_object_get(check_of(root, 0, "head size"), "agrees")), 0);
    json_decref(root);
}

static void test_models(void **state) {
    (void)state;
    expect_agrees("model.json", "target.json", "model");
    expect_fault("model-short.json", "target.json", "model", 0, "length", "must");
    json_decref(compare("diff @model-short.json @target.json --draft model --length 4096 --json", AGREES));
    expect_fault("vl.json", "target.json", "model", 0, "axes", "must");
}

/* Positions of several axes: a head of one axis is right for text. */
static void test_axes(void **state) {
    (void)state;
    json_t *root = compare("diff @text-head.json @vl.json --draft auto --json", AGREES);
    assert_non_null(strstr(test_string(draft_of(root), "verdict"), "as long as the text has no images"));
    assert_string_equal(test_string(check_of(root, 0, "axes"), "target"), "16 + 24 + 24");
    json_decref(root);
    json_decref(compare("diff @vl.json @vl.json --draft auto --json", AGREES));
    json_decref(compare("diff @text-head.json @vl.json --draft cache --json", DIFFERS));
}

static void test_known_by(void **state) {
    (void)state;
    static const struct {
        const char *line, *kind, *known_by;
    } cases[] = {{"diff @right.json @target.json --draft auto --json", "head", "architectures LlamaForCausalLMEagle3"},
                 {"diff @text-head.json @vl.json --draft auto --json", "head", "the key draft_vocab_size"},
                 {"diff @assistant.json @gemma.json --draft auto --json", "cache", "model_type gemma4_assistant"},
                 {"diff @eagle-plain.json @target.json --draft auto --json", "head", "its path "},
                 {"diff @target.json @target.json --draft auto --json", "head", "one file for both"},
                 {"diff @model.json @target.json --draft auto --json", "model", "nothing"},
                 {"diff @right.json @target.json --draft model --json", "model", "--draft"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *root = compare(cases[i].line, AGREES);
        assert_string_equal(test_string(draft_of(root), "kind"), cases[i].kind);
        if (!strstr(test_string(draft_of(root), "known_by"), cases[i].known_by))
            fail_msg("%s: %s", cases[i].line, test_string(draft_of(root), "known_by"));
        json_decref(root);
    }
}

static void test_page(void **state) {
    (void)state;
    const outcome *o = run("diff @short.json @target.json --draft auto");
    assert_int_equal(o->exit, DIFFERS);
    assert_non_null(strstr(o->out, "DIFFERS     2048; target 32768"));
    assert_non_null(strstr(o->out, "vllm#48894"));
    o = run("diff @small.json @target.json --draft auto");
    assert_int_equal(o->exit, AGREES);
    assert_non_null(strstr(o->out, "its own     64; target 128"));
    assert_non_null(strstr(o->out, "The draft head rotates as its target"));
}

static void test_refusals(void **state) {
    (void)state;
    assert_fails("diff @t5.json @target.json --draft auto", FAILED, "--draft: no layer of the draft");
    assert_fails("diff @target.json @t5.json --draft auto", FAILED, "--draft: no layer of the draft");
    assert_fails("diff @right.json @target.json --draft tree", USAGE, "--draft");
    assert_fails("diff @right.json @target.json --draft head --layer-type all", USAGE, "--draft: compares all layers");
    assert_fails("diff @refused.json @target.json --draft auto", FAILED, "refused.json");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_heads),    cmocka_unit_test(test_caches),
                                       cmocka_unit_test(test_models),   cmocka_unit_test(test_axes),
                                       cmocka_unit_test(test_known_by), cmocka_unit_test(test_page),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, write_configs, remove_folder);
}
