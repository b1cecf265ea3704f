/* test_advice.c: gyre extend's advice for engines of different dates, and lost scalings in extend and audit. */
#include "run_audit.h"

#define CONFIGS GYRE_TEST_DATA "/configs/"

/* out = the text with each run of blanks and line breaks, and the \ before these, as one blank: pages are wrapped. */
static const char *unwrapped(const char *text) {
    static char out[1 << 16];
    size_t used = 0;
    for (; *text && used + 1 < sizeof out; text++) {
        const char c = *text == '\n' || *text == '\\' ? ' ' : *text;
        if (c != ' ' || used == 0 || out[used - 1] != ' ') out[used++] = c;
    }
    out[used] = 0;
    return out;
}

static void expect_page(const char *line, const char *const *words) {
    const outcome *o = run(line);
    const char *page = unwrapped(o->out);
    for (; *words; words++)
        if (!strstr(page, *words)) fail_msg("%s: no \"%s\" in %s", line, *words, page);
}

static void several_axes_in_vllm(void **state) {
    (void)state;
    static const char *const words[] = {"--max-model-len 1048576",
                                        "'{\"text_config\": {\"max_position_embeddings\": 1048576",
                                        "\"original_max_position_embeddings\": 65536", "a quarter of the real one", NULL};
    expect_page("extend " CONFIGS "qwen3.8-flash-next.json --to 1048576", words);
}

/* Linear scaling never lifts the cap. */
static void dates_of_llama_cpp(void **state) {
    (void)state;
    static const char *const yarn[] = {"--rope-scaling yarn --rope-scale 3.2 --yarn-orig-ctx 40960",
                                       "(with #28030) lifts the context by these flags alone; an older server needs "
                                       "--override-kv qwen3.context_length=int:131072",
                                       NULL};
    static const char *const linear[] = {"the server needs --override-kv qwen3.context_length=int:131072", NULL};
    expect_page("extend " CONFIGS "qwen3-8b.json --to 131072", yarn);
    expect_page("extend " CONFIGS "qwen3-8b.json --to 131072 --methods linear", linear);
    assert_null(strstr(unwrapped(run("extend " CONFIGS "qwen3-8b.json --to 131072 --methods linear")->out), "#28030"));
}

static void lost_scalings(void **state) {
    (void)state;
    static const char cure[] = "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8.0}";
    static const char *const of_tokenizer[] = {"tokenizer_config.json says 32768 tokens, 8 times", cure, NULL};
    static const char *const of_name[] = {"the model's name says 32768 tokens, 8 times", cure, NULL};
    static const char *const audited_words[] = {"a scaling which its config has lost", cure, NULL};
    const char *of_4096 = "\"max_position_embeddings\": 4096";
    write_llama("lost", of_4096);
    write_in("lost", "tokenizer_config.json", "{\"model_max_length\": 32768}");
    write_llama("llama-longlora-32k", of_4096);
    write_llama("uneven", of_4096);
    write_in("uneven", "tokenizer_config.json", "{\"model_max_length\": 6000}");
    expect_page("extend @lost --to 8192", of_tokenizer);
    expect_page("extend @llama-longlora-32k --to 8192", of_name);
    expect_page("audit @lost", audited_words);
    assert_null(strstr(run("extend @uneven --to 8192")->out, "has lost"));
    assert_null(strstr(unwrapped(run("audit @uneven")->out), "has lost"));
}

/* What the page says, as JSON: 32768 tokens are 8 times 4096. */
static void lost_scalings_as_json(void **state) {
    (void)state;
    static const char *const lines[] = {"extend @lost --to 8192 --json", "extend @llama-longlora-32k --to 8192 --json"};
    static const char *const stated_by[] = {"tokenizer_config.json", "the model's name"};
    for (int i = 0; i < 2; i++) {
        json_t *root = run_json(lines[i]);
        const json_t *lost = json_object_get(root, "lost_scaling"), *keys = json_object_get(lost, "keys");
        assert_string_equal(test_string(lost, "stated_by"), stated_by[i]);
        assert_int_equal(test_integer(lost, "length"), 32768);
        assert_true(test_number(lost, "factor") == 8.0);
        assert_int_equal(test_integer(keys, "max_position_embeddings"), 32768);
        assert_string_equal(test_string(json_object_get(keys, "rope_scaling"), "rope_type"), "linear");
        assert_true(test_number(json_object_get(keys, "rope_scaling"), "factor") == 8.0);
        json_decref(root);
    }
    json_t *root = run_json("extend @uneven --to 8192 --json");
    assert_true(json_is_null(json_object_get(root, "lost_scaling")));
    json_decref(root);
}

/* transformers 4 does not read rope_parameters: another base, 354 times as fast in the slowest pair. */
static void transformers_4_is_compared(void **state) {
    (void)state;
    static const char *const words[] = {"hf-4.56: Different from position 1 on: pair 31 rotates 353.97 times faster", NULL};
    expect_page("audit " CONFIGS "protein-llama-v5-only.json", words);
}

/* The doubts of a reading are on the pages of explain, diff and extend, and in their JSON. */
static void doubts_on_every_page(void **state) {
    (void)state;
    static const char *const lines[] = {"explain @odd", "diff @odd @odd", "extend @odd --to 256", "audit @odd"};
    write_llama("odd", "\"max_position_embeddings\": 128,\n \"rope_span\": 3");
    static const char *const words[] = {"rope_span: its name is that of a position's key, and nothing reads it",
                                        "rope_span, line 4", NULL};
    for (int i = 0; i < 4; i++)
        expect_page(lines[i], words);
    static const char *const keys[] = {"\"kind\": \"unread_key\"", "\"key\": \"rope_span\"", "\"line\": 4", NULL};
    expect_page("explain @odd --json", keys);
    expect_page("diff @odd @odd --json", keys);
    expect_page("extend @odd --to 256 --json", keys);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_axes_in_vllm),
        cmocka_unit_test(dates_of_llama_cpp),
        cmocka_unit_test(lost_scalings),
        cmocka_unit_test(lost_scalings_as_json),
        cmocka_unit_test(transformers_4_is_compared),
        cmocka_unit_test(doubts_on_every_page),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
