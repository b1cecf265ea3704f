/* test_families.c: a small model of every family against logits from tests/oracle, which shares no code with the library,
 * for the same weights in double precision. */
#include "gyre/gyre_model.h"
#include "make_synthetic_model.h"
#include "temp_folder.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_TOKENS = 256, VOCAB = 61, MOST_ROWS = 8 };

/* Relative to the largest logit. It separates the two kinds of GELU, which 1e-4 would not. */
static const double BOUND = 1e-5;

#define FAMILIES(family)                                                                                                    \
    family(bloom) family(bloom_long) family(bloom_plain) family(bloom_unsaid) family(cohere) family(cohere2) family(        \
        cohere_biases) family(gemma4) family(gemma4_keys_are_values) family(gemma4_saved) family(deepseek_v3)               \
        family(deepseek_v3_fine) family(deepseek_v3_yarn) family(ernie4_5_moe) family(exaone4) family(falcon) family(       \
            falcon_alibi) family(falcon_grouped) family(gemma) family(gemma2) family(gemma2_long) family(gemma2_scalar)     \
            family(gemma2_unsaid) family(gemma3) family(gemma3_six) family(gemma3_types) family(gemma3_unsaid) family(      \
                gemma_unsaid) family(glm4) family(gpt2_f16) family(gpt2_head) family(gpt2_plain) family(gpt2_prefixed)      \
                family(gpt2_unsaid) family(gpt_neox) family(gpt_neox_bf16) family(gpt_neox_serial) family(gpt_neox_unsaid)  \
                    family(gpt_oss) family(gpt_oss_f16) family(gpt_oss_mxfp4) family(gpt_oss_plain) family(gptj)            \
                        family(granite) family(granite_unsaid) family(llama) family(llama4) family(llama_biases) family(    \
                            llama_dynamic) family(llama_head) family(llama_linear) family(llama_llama3) family(llama_tied)  \
                            family(llama_unsaid) family(llama_wide) family(llama_wide_bf16) family(llama_yarn) family(      \
                                llama_yarn_mscale) family(llama_yarn_usual) family(mistral) family(mistral_long)            \
                                family(mistral_unsaid) family(mistral_window) family(mixtral) family(mixtral_bf16)          \
                                    family(mpt) family(mpt_bias_max) family(mpt_clamp) family(mpt_clip) family(mpt_unsaid)  \
                                        family(olmo2) family(olmo2_unsaid) family(olmo3) family(phi) family(phi3)           \
                                            family(phi3_long) family(phi3_partial) family(phi3_short) family(phi3_unsaid)   \
                                                family(phi3_window) family(phi_unsaid) family(qwen2) family(qwen2_moe)      \
                                                    family(qwen2_unsaid) family(qwen2_window) family(qwen3)                 \
                                                        family(qwen3_moe) family(qwen3_moe_dense) family(qwen3_types)       \
                                                            family(qwen3_unsaid) family(seed_oss) family(smollm3)           \
                                                                family(smollm3_listed) family(smollm3_unsaid)               \
                                                                    family(smollm3_window) family(stablelm)                 \
                                                                        family(stablelm_parallel) family(stablelm_unsaid)   \
                                                                            family(starcoder2) family(starcoder2_unsaid)    \
                                                                                family(starcoder2_window)

/* Fails where a test left another file behind. */
static int remove_files(void **state) {
    (void)state;
    unlink(in_folder("config.json"));
    unlink(in_folder("model.safetensors"));
    unlink(in_folder("model.gguf"));
    return rmdir(folder);
}

/* The expected results of a model. */
typedef struct expected {
    const char *name;
    int32_t tokens[MOST_TOKENS];
    int64_t rows[MOST_ROWS]; /* tokens whose logits are stored */
    double logits[MOST_ROWS][VOCAB], largest;
    int64_t tokens_count, rows_count;
    int64_t length; /* current context length, if frequencies depend on it; else 0 */
} expected;

static expected expectation(const json_t *fixture, const char *name) {
    expected e = {.name = name, .length = test_integer(fixture, "length")};
    double numbers[MOST_TOKENS];
    e.tokens_count = (int64_t)test_numbers(fixture, "tokens", numbers, MOST_TOKENS);
    for (int64_t i = 0; i < e.tokens_count; i++)
        e.tokens[i] = (int32_t)numbers[i];
    e.rows_count = (int64_t)test_numbers(fixture, "rows", numbers, MOST_ROWS);
    assert_true(e.tokens_count > 0 && e.rows_count > 0);
    for (int64_t i = 0; i < e.rows_count; i++) {
        const json_t *row = json_array_get(json_object_get(fixture, "logits"), (size_t)i);
        e.rows[i] = (int64_t)numbers[i];
        assert_int_equal(json_array_size(row), VOCAB);
        for (size_t w = 0; w < VOCAB; w++) {
            e.logits[i][w] = json_number_value(json_array_get(row, w));
            e.largest = fmax(e.largest, fabs(e.logits[i][w]));
        }
    }
    return e;
}

/* Reads all tokens, `piece` at a time, and compares. */
static void check_pieces(const gyre_model *model, const expected *e, int64_t piece, const char *format) {
    static float logits[MOST_TOKENS][VOCAB];
    gyre_context *context = NULL;
    gyre_error err = {0, ""};
    double worst = 0;
    if (gyre_context_create(&context, model,
                            &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = e->tokens_count},
                            &err) != GYRE_OK)
        fail_msg("%s: %s", e->name, err.text);
    for (int64_t at = 0; at < e->tokens_count; at += piece) {
        const int64_t n = piece < e->tokens_count - at ? piece : e->tokens_count - at;
        if (gyre_context_forward(context, e->tokens + at, n, n, logits[at], &err) != GYRE_OK)
            fail_msg("%s: %s", e->name, err.text);
    }
    gyre_context_free(context);
    for (int64_t i = 0; i < e->rows_count; i++)
        for (int64_t w = 0; w < VOCAB; w++) {
            const double off = fabs(logits[e->rows[i]][w] - e->logits[i][w]);
            if (!(off <= BOUND * e->largest))
                fail_msg("%s from %s, %d at a time: logit %d of token %d is %.8g, not %.8g", e->name, format, (int)piece,
                         (int)w, (int)e->rows[i], (double)logits[e->rows[i]][w], e->logits[i][w]);
            worst = fmax(worst, off / e->largest);
        }
    print_message("%s from %s, %d at a time: within %.1e\n", e->name, format, (int)piece, worst);
}

static void check_model(const char *path, const expected *e) {
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    if (gyre_model_open(&model, path, GYRE_ARGS(gyre_reading_options, .context_length = e->length), &err) != GYRE_OK)
        fail_msg("%s: %s", e->name, err.text);
    assert_int_equal(gyre_model_get_config(model)->vocab, VOCAB);
    gyre_model_source source = GYRE_INIT(gyre_model_source);
    assert_ok(gyre_model_get_source(model, &source));
    const char *format = source.format;
    check_pieces(model, e, e->tokens_count, format);
    check_pieces(model, e, 1, format);
    check_pieces(model, e, 7, format);
    gyre_model_free(model);
}

static void check_family(const char *name) {
    json_t *fixture = synthetic_fixture(name);
    const expected e = expectation(fixture, name);
    synthetic_write_folder(fixture, folder);
    check_model(folder, &e);
    if (json_object_get(fixture, "gguf")) {
        synthetic_write_gguf(fixture, in_folder("model.gguf"));
        check_model(in_folder("model.gguf"), &e);
    }
    json_decref(fixture);
}

#define FAMILY_TEST(family)                                                                                                 \
    static void test_##family(void **state) {                                                                               \
        (void)state;                                                                                                        \
        check_family(#family);                                                                                              \
    }
FAMILIES(FAMILY_TEST)

/* Printed by numpy. */
static void test_weights_match_the_oracle(void **state) {
    static const struct {
        const char *name;
        int64_t index;
        float value;
    } known[] = {
        {"gpt_neox.embed_in.weight", 0, -0x1.ab6f08p+0f},
        {"gpt_neox.embed_in.weight", 1, -0x1.530d7p+0f},
        {"gpt_neox.embed_in.weight", 2, -0x1.706accp+0f},
        {"gpt_neox.embed_in.weight", 2927, -0x1.978f54p-2f},
        {"gpt_neox.layers.1.input_layernorm.weight", 0, 0x1.0d54bap+0f},
        {"gpt_neox.layers.1.input_layernorm.weight", 47, 0x1.1403cp+0f},
    };
    (void)state;
    json_t *fixture = synthetic_fixture("gpt_neox");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int64_t count;
        float *x = synthetic_tensor(fixture, known[i].name, &count);
        assert_true(known[i].index < count);
        test_close(x[known[i].index], known[i].value, 0, known[i].name);
        free(x);
    }
    json_decref(fixture);
}

#define FAMILY_NAME(family) #family,
static void test_every_fixture_is_tested(void **state) {
    static const char *const names[] = {FAMILIES(FAMILY_NAME)};
    const size_t count = sizeof names / sizeof *names;
    size_t files = 0;
    (void)state;
    DIR *families = opendir(GYRE_TEST_DATA "/families");
    assert_non_null(families);
    for (const struct dirent *entry; (entry = readdir(families));) {
        const char *dot = strstr(entry->d_name, ".json");
        if (!dot) continue;
        const size_t length = (size_t)(dot - entry->d_name);
        size_t i = 0;
        while (i < count && (strlen(names[i]) != length || strncmp(names[i], entry->d_name, length) != 0))
            i++;
        if (i == count) fail_msg("%s is not tested", entry->d_name);
        files++;
    }
    closedir(families);
    assert_int_equal(files, count);
}

#define FAMILY_ENTRY(family) cmocka_unit_test(test_##family),
int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_weights_match_the_oracle),
                                       cmocka_unit_test(test_every_fixture_is_tested), FAMILIES(FAMILY_ENTRY)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_files);
}
