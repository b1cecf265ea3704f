/* test_layer_rules.c: a decoder whose layers differ in heads, and share keys: what a context does with its caches, and
 * what is refused.  Its logits are in test_families. */
#include "gyre/gyre_model.h"
#include "make_synthetic_model.h"
#include "temp_folder.h"

#include <string.h>

enum { TOKENS = 20, VOCAB = 61, SLIDING = 0, FULL = 3, SHARING = 5 };

static gyre_model *opened(const char *name) {
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    json_t *fixture = synthetic_fixture(name);
    synthetic_write_folder(fixture, folder);
    json_decref(fixture);
    if (gyre_model_open(&model, folder, NULL, &err)) fail_msg("%s", err.text);
    return model;
}

static gyre_context *context_of(const gyre_model *model) {
    gyre_context *context = NULL;
    assert_ok(gyre_context_create(&context, model, GYRE_ARGS(gyre_context_options, .max_tokens = TOKENS), NULL));
    return context;
}

static void read_tokens(gyre_context *context, int64_t from, int64_t n, float *logits) {
    int32_t tokens[TOKENS];
    gyre_error err = {0, ""};
    for (int64_t i = 0; i < n; i++)
        tokens[i] = (int32_t)((from + i) * 7 % VOCAB);
    if (gyre_context_forward(context, tokens, n, n, logits, &err)) fail_msg("%s", err.text);
}

/* The config is that of the layers that see all keys. */
static void test_sizes_of_the_model(void **state) {
    (void)state;
    gyre_model *model = opened("gemma4_keys_are_values");
    const gyre_model_config *config = gyre_model_get_config(model);
    assert_int_equal(config->head_dim, 12);
    assert_int_equal(config->kv_heads, 1);
    assert_int_equal(config->position.head_dim, 12);
    gyre_model_free(model);
}

/* Tokens dropped and read again leave the same caches. */
static void test_truncated(void **state) {
    static float whole[TOKENS][VOCAB], again[TOKENS][VOCAB];
    (void)state;
    gyre_model *model = opened("gemma4");
    gyre_context *context = context_of(model);
    read_tokens(context, 0, TOKENS, whole[0]);
    assert_ok(gyre_context_truncate(context, 5));
    read_tokens(context, 5, TOKENS - 5, again[5]);
    assert_memory_equal(again[5], whole[5], sizeof whole - sizeof *whole * 5);
    gyre_context_reset(context);
    read_tokens(context, 0, TOKENS, again[0]);
    assert_memory_equal(again, whole, sizeof whole);
    gyre_context_free(context);
    gyre_model_free(model);
}

/* A window that moves all caches: the cut into reads changes nothing. */
static void test_streamed(void **state) {
    static float whole[TOKENS][VOCAB], single[TOKENS][VOCAB];
    (void)state;
    gyre_model *model = opened("gemma4");
    gyre_context *contexts[2] = {context_of(model), context_of(model)};
    for (int i = 0; i < 2; i++)
        assert_ok(gyre_context_stream(contexts[i], 2, 8, NULL));
    read_tokens(contexts[0], 0, TOKENS, whole[0]);
    for (int64_t i = 0; i < TOKENS; i++)
        read_tokens(contexts[1], i, 1, single[i]);
    for (int64_t i = 0; i < TOKENS; i++)
        for (int64_t w = 0; w < VOCAB; w++)
            test_close(single[i][w], whole[i][w], 1e-5, "streamed");
    for (int i = 0; i < 2; i++)
        gyre_context_free(contexts[i]);
    gyre_model_free(model);
}

static void test_watched(void **state) {
    static float queries[TOKENS * 4 * 12], keys[TOKENS * 4 * 12], weights[TOKENS * 4 * TOKENS], logits[TOKENS * VOCAB];
    gyre_error err = {0, ""};
    (void)state;
    gyre_model *model = opened("gemma4");
    gyre_context *context = context_of(model);
    assert_int_equal(gyre_context_watch_heads(context, SLIDING, queries, keys, &err), GYRE_EUNSUPPORTED);
    if (!strstr(err.text, "0 has 2 key heads of 8 channels, the model 2 of 12")) fail_msg("%s", err.text);
    assert_int_equal(gyre_context_watch_heads(context, SHARING, queries, keys, &err), GYRE_EUNSUPPORTED);
    if (!strstr(err.text, "5 reads the keys of layer 3")) fail_msg("%s", err.text);
    assert_ok(gyre_context_watch_heads(context, FULL, queries, keys, NULL));
    assert_ok(gyre_context_watch(context, SHARING, weights, NULL));
    read_tokens(context, 0, TOKENS, logits);
    for (int64_t row = 0; row < TOKENS * 4; row++) { /* of a softmax */
        double sum = 0;
        for (int64_t key = 0; key <= row / 4; key++)
            sum += (double)weights[row * TOKENS + key];
        test_close((float)sum, 1, 1e-5, "weights");
    }
    for (int64_t i = 0; i < TOKENS * 2; i++) { /* a norm with gains within 0.6 .. 1.4 leaves lengths near sqrt(12) */
        double length = 0;
        for (int64_t c = 0; c < 12; c++)
            length += (double)keys[i * 12 + c] * (double)keys[i * 12 + c];
        assert_true(length > 12 * 0.36 * 0.9 && length < 12 * 1.96);
    }
    gyre_context_free(context);
    gyre_model_free(model);
}

/* out = the logits where layers that see all keys rotate the first 8 of their 12 channels with this base. */
static void read_with_base(double base, float *logits) {
    json_t *fixture = synthetic_fixture("gemma4");
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    json_object_set_new(
        json_object_get(json_object_get(fixture, "config"), "rope_parameters"), "full_attention",
        json_pack("{sssfsf}", "rope_type", "default", "partial_rotary_factor", 8.0 / 12, "rope_theta", base));
    synthetic_write_folder(fixture, folder);
    json_decref(fixture);
    if (gyre_model_open(&model, folder, NULL, &err)) fail_msg("%s", err.text);
    gyre_context *context = context_of(model);
    read_tokens(context, 0, TOKENS, logits);
    gyre_context_free(context);
    gyre_model_free(model);
}

/* Layers with a window rotate alike, and have heads of another size. */
static void test_frequencies_of_other_heads(void **state) {
    static float equal[TOKENS * VOCAB], near[TOKENS * VOCAB];
    (void)state;
    read_with_base(10000, equal);
    read_with_base(10000.0001, near);
    for (int64_t i = 0; i < TOKENS * VOCAB; i++)
        test_close(equal[i], near[i], 1e-5, "logits");
}

/* -- configs -- */
static gyre_status open_with(const char *name, const char *key, const char *value, gyre_error *err) {
    json_t *fixture = synthetic_fixture(name), *parsed = json_loads(value, JSON_DECODE_ANY, NULL);
    gyre_model *model = NULL;
    assert_non_null(parsed);
    json_object_set_new(json_object_get(fixture, "config"), key, parsed);
    synthetic_write_folder(fixture, folder);
    json_decref(fixture);
    const gyre_status status = gyre_model_open(&model, folder, NULL, err);
    gyre_model_free(model);
    return status;
}

static void refuses(const char *name, const char *key, const char *value, gyre_status status, const char *says) {
    gyre_error err = {0, ""};
    assert_int_equal(open_with(name, key, value, &err), status);
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

/* Of experts that enable_moe_block turns off. */
static void test_number_of_no_experts(void **state) {
    gyre_error err = {0, ""};
    (void)state;
    if (open_with("gemma4", "num_experts", "4", &err)) fail_msg("%s", err.text);
}

static void test_configs_that_are_not_run(void **state) {
    (void)state;
    refuses("gemma4_saved", "per_layer_config",
            "{\"1\": {\"head_dim\": 12, \"num_key_value_heads\": 4}, \"2\": {\"head_dim\": 12, \"num_key_value_heads\": 2}}",
            GYRE_EUNSUPPORTED, "per_layer_config.2.num_key_value_heads: 2, and 4 in another layer");
    refuses("gemma4_saved", "per_layer_config", "{\"1\": {\"num_key_value_heads\": 3}, \"2\": {}}", GYRE_EFORMAT,
            "3 key heads do not divide the 4 heads");
    refuses("gemma4_saved", "layer_types", "[\"full_attention\", \"full_attention\", \"full_attention\"]", GYRE_EFORMAT,
            "layers.0.self_attn.k_proj.weight: 16 x 24");
    refuses("gemma4", "num_kv_shared_layers", "5", GYRE_EUNSUPPORTED, "none of the first 1 has its positions");
    refuses("gemma4", "global_head_dim", "16", GYRE_EFORMAT, "layers.1.self_attn.q_norm.weight: 12 numbers");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes_of_the_model),
                                       cmocka_unit_test(test_truncated),
                                       cmocka_unit_test(test_streamed),
                                       cmocka_unit_test(test_watched),
                                       cmocka_unit_test(test_frequencies_of_other_heads),
                                       cmocka_unit_test(test_number_of_no_experts),
                                       cmocka_unit_test(test_configs_that_are_not_run)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
