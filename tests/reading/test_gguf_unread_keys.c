/* test_gguf_unread_keys.c: a key of a GGUF whose name is that of a position's, and that nothing reads, is a doubt. */
#include "make_gguf_models.h"

static int64_t count_doubts(const gyre_reading *reading) {
    int64_t count = 0;
    for (int64_t i = 0; i < reading->warnings_count; i++)
        count += reading->warnings[i].kind == GYRE_WARNING_UNREAD_KEY;
    return count;
}

/* Fails unless the only doubt is about this key. */
static void expect_doubt(made_gguf *made, gyre_profile profile, const char *key) {
    gyre_reading *reading = read_gguf_as(made, profile, 0);
    const gyre_reading_warning *warning = find_warning(reading, "nothing reads it");
    free(made);
    if (!warning) fail_msg("%s: no doubt", key);
    assert_int_equal(count_doubts(reading), 1);
    assert_int_equal(warning->kind, GYRE_WARNING_UNREAD_KEY);
    assert_string_equal(warning->key, key);
    assert_int_equal(warning->line, 0);
    gyre_reading_free(reading);
}

static void expect_none(made_gguf *made, const char *what) {
    gyre_reading *reading = read_made(made);
    const gyre_reading_warning *warning = find_warning(reading, "nothing reads");
    if (warning) fail_msg("%s: %s", what, warning->text);
    assert_int_equal(count_doubts(reading), 0);
    gyre_reading_free(reading);
}

static void unread_keys(void **state) {
    (void)state;
    static const char *const keys[] = {"rope.freq_base_per_layer", "rope.partial_factor",        "rotary.span",
                                       "attention.rope_interval",  "attention.window_left",      "attention.chunk_span",
                                       "attention.indexer.rank",   "no_rope_layer_interval",     "attention.nope_every",
                                       "original_context",         "attention.freq_base_global", "scaling.alpha_2"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (int reference = 0; reference < 2; reference++) {
            char whole[100];
            made_gguf *made = model("qwen2", 64, 4096, 2);
            real_of(made, "qwen2", keys[i], 3);
            snprintf(whole, sizeof whole, "qwen2.%s", keys[i]);
            expect_doubt(made, reference ? GYRE_PROFILE_REFERENCE : GYRE_PROFILE_LLAMA_CPP, whole);
        }
}

/* Of architectures that do not read a key, although others do. */
static void keys_of_other_architectures(void **state) {
    (void)state;
    static const int32_t sections[4] = {8, 12, 12, 0};
    made_gguf *made = model("qwen2", 64, 4096, 2);
    made_i32s(made, "qwen2.rope.dimension_sections", sections, 4);
    expect_doubt(made, GYRE_PROFILE_LLAMA_CPP, "qwen2.rope.dimension_sections");
    made = model("qwen2", 64, 4096, 2);
    real_of(made, "qwen2", "rope.freq_base_swa", 500);
    expect_doubt(made, GYRE_PROFILE_LLAMA_CPP, "qwen2.rope.freq_base_swa");
    made = model("gpt2", 64, 4096, 2);
    real_of(made, "gpt2", "rope.freq_base", 500);
    expect_doubt(made, GYRE_PROFILE_LLAMA_CPP, "gpt2.rope.freq_base");
    made = model("deepseek32", 192, 4096, 2);
    size_of(made, "deepseek32", "rope.dimension_count", 64);
    size_of(made, "deepseek32", "attention.indexer.head_count", 64);
    size_of(made, "deepseek32", "attention.indexer.top_k", 2048);
    size_of(made, "deepseek32", "attention.indexer.key_length", 128);
    expect_doubt(made, GYRE_PROFILE_LLAMA_CPP, "deepseek32.attention.indexer.key_length");
}

/* Values that ask for nothing or say the same again, other names, and keys of an architecture that does not rotate. */
static void keys_without_doubt(void **state) {
    (void)state;
    static const int32_t zeros[3] = {0, 0, 0};
    made_gguf *made = model("qwen2", 64, 4096, 2);
    real_of(made, "qwen2", "rope.freq_base", 1e6f);
    real_of(made, "qwen2", "rope.freq_base_swa", 1e6f);
    real_of(made, "qwen2", "rope.theta", 1e6f);
    size_of(made, "qwen2", "original_context", 4096);
    real_of(made, "qwen2", "rope.nothing", 0);
    made_bool(made, "qwen2.rope.no_switch", 0);
    made_bool(made, "qwen2.rope.scaling.finetuned", 1);
    made_string(made, "qwen2.rope.no_text", "");
    made_i32s(made, "qwen2.rope.no_list", zeros, 3);
    size_of(made, "qwen2", "attention.value_length_swa", 64);
    real_of(made, "qwen2", "expert_weights_scale", 2);
    real_of(made, "qwen2", "properties", 2);
    real_of(made, "qwen3", "rope.freq_base_per_layer", 2); /* of no architecture here */
    made_string(made, "general.rope_note", "of no architecture either");
    expect_none(made, "qwen2");
    made = model("kimi-linear", 64, 4096, 2);
    real_of(made, "kimi-linear", "rope.freq_base", 500);
    size_of(made, "kimi-linear", "rope.dimension_count", 64);
    expect_none(made, "kimi-linear");
    made = model("granite", 64, 4096, 2);
    made_bool(made, "granite.rope.scaling.finetuned", 0);
    real_of(made, "granite", "rope.freq_base", 500);
    expect_none(made, "granite without positions");
    made = model("baichuan", 128, 4096, 40);
    size_of(made, "baichuan", "rope.dimension_count", 128);
    expect_none(made, "baichuan with slopes");
}

/* Every layer has a window, so the base of the others is of none. */
static void base_of_no_layer(void **state) {
    (void)state;
    static const int32_t all[4] = {1, 1, 1, 1};
    made_gguf *made = model("gemma3", 64, 4096, 4);
    real_of(made, "gemma3", "rope.freq_base", 1e6f);
    real_of(made, "gemma3", "rope.freq_base_swa", 1e4f);
    size_of(made, "gemma3", "attention.sliding_window", 512);
    made_i32s(made, "gemma3.attention.sliding_window_pattern", all, 4);
    expect_none(made, "gemma3");
}

/* A stranger's file with many such keys has twenty doubts and one for the rest.  Odd bytes of a name are not printed. */
static void doubts_have_an_end(void **state) {
    (void)state;
    enum { KEYS = 200 };
    char key[40];
    made_gguf *made = model("qwen2", 64, 4096, 2);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "rope.k\x1b%d", i);
        real_of(made, "qwen2", key, 7);
    }
    gyre_reading *reading = read_made(made);
    assert_int_equal(reading->warnings_count, 21);
    assert_string_equal(reading->warnings[0].key, "qwen2.rope.k?0");
    assert_string_equal(reading->warnings[20].text, "180 more keys with names of positions that nothing reads");
    assert_string_equal(reading->warnings[20].key, "qwen2.rope.k?20");
    gyre_reading_free(reading);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(unread_keys), cmocka_unit_test(keys_of_other_architectures),
                                       cmocka_unit_test(keys_without_doubt), cmocka_unit_test(base_of_no_layer),
                                       cmocka_unit_test(doubts_have_an_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
