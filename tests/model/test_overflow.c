/* test_overflow.c: numbers that are not finite are refused, with the first token, the layer and the tensor they begin at. */
#include "make_synthetic_model.h"
#include "model/model.h"
#include "temp_folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 24, LAYER = 1 };

/* -- files -- */
static long header_of(FILE *file) {
    unsigned char size[8];
    assert_int_equal(fread(size, 1, 8, file), 8);
    return size[0] + 256L * size[1] + 65536L * size[2];
}

/* Sets all numbers of an F32 tensor of model.safetensors; the file must be of that type. */
static void fill_tensor(const char *name, float value) {
    json_error_t why;
    FILE *file = fopen(in_folder("model.safetensors"), "r+b");
    assert_non_null(file);
    const long header = header_of(file);
    char *text = calloc((size_t)header + 1, 1);
    assert_int_equal(fread(text, 1, (size_t)header, file), (size_t)header);
    json_t *root = json_loads(text, 0, &why), *offsets = json_object_get(json_object_get(root, name), "data_offsets");
    if (!json_is_array(offsets)) fail_msg("no tensor %s", name);
    assert_string_equal(test_string(json_object_get(root, name), "dtype"), "F32");
    const long from = (long)json_integer_value(json_array_get(offsets, 0)),
               to = (long)json_integer_value(json_array_get(offsets, 1));
    assert_int_equal(fseek(file, 8 + header + from, SEEK_SET), 0);
    for (long i = from; i < to; i += 4)
        assert_int_equal(fwrite(&value, sizeof value, 1, file), 1);
    assert_int_equal(fclose(file), 0);
    json_decref(root);
    free(text);
}

/* -- reading -- */
static gyre_status read_cut(const gyre_model *model, int64_t piece, int64_t *read, gyre_error *err) {
    const int64_t vocab = gyre_model_get_config(model)->vocab;
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_context *context = NULL;
    int32_t ids[COUNT];
    gyre_status status = GYRE_OK;
    float *logits = malloc((size_t)(COUNT * vocab) * sizeof *logits);
    options.max_tokens = COUNT;
    options.order = GYRE_ORDER_FIXED;
    assert_non_null(logits);
    for (int i = 0; i < COUNT; i++)
        ids[i] = (int32_t)((7 * i + 3) % vocab);
    assert_ok(gyre_context_create(&context, model, &options, err));
    for (int64_t from = 0, n; from < COUNT && !status; from += n) {
        n = COUNT - from < piece ? COUNT - from : piece;
        status = gyre_context_forward(context, ids + from, n, n, logits, err);
        *read = gyre_context_tokens(context);
        assert_int_equal(*read, from + (status ? 0 : n)); /* a failed read leaves the sequence as it was */
    }
    gyre_context_free(context);
    free(logits);
    return status;
}

/* A tensor of layer 1 and how a message must go on after "logits: not finite: ". */
typedef struct overflow {
    const char *family, *tensor, *says;
} overflow;

static void tensors_are_named(void **state) {
    static const overflow cases[] = {
        {"llama", "model.layers.1.self_attn.q_proj.weight", "the query projection overflows first in layer 1, at token "},
        {"llama", "model.layers.1.self_attn.k_proj.weight", "the key projection overflows first in layer 1, at token "},
        {"llama", "model.layers.1.self_attn.v_proj.weight", "the value projection overflows first in layer 1, at token "},
        {"llama", "model.layers.1.mlp.gate_proj.weight", "the gate projection overflows first in layer 1, at token "},
        {"llama", "model.layers.1.mlp.up_proj.weight", "the up projection overflows first in layer 1, at token "},
        {"llama", "model.norm.weight", "the final norm overflows first, at token "},
        {"phi3", "model.layers.1.self_attn.qkv_proj.weight", "the query projection overflows first in layer 1, at token "},
        {"phi3", "model.layers.1.mlp.gate_up_proj.weight", "the gate projection overflows first in layer 1, at token "},
        {"gpt2_prefixed", "transformer.h.1.attn.c_attn.weight",
         "the query projection overflows first in layer 1, at token "},
        {"gpt2_plain", "h.1.mlp.c_fc.weight", "the up projection overflows first in layer 1, at token "},
        {"gpt_neox", "gpt_neox.layers.1.attention.query_key_value.weight",
         "the query projection overflows first in layer 1, at token "},
        {"llama_head", "lm_head.weight", "the output projection overflows first, at token "}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const overflow *c = &cases[i];
        json_t *fixture = synthetic_fixture(c->family);
        json_object_set_new(fixture, "dtype", json_string("F32"));
        synthetic_write_folder(fixture, folder);
        json_decref(fixture);
        fill_tensor(c->tensor, 3.3e38f);
        gyre_model *model = NULL;
        gyre_error err = {0, ""}, cut = {0, ""};
        int64_t read;
        char want[256];
        assert_ok(gyre_model_open(&model, folder, NULL, &err));
        assert_int_equal(read_cut(model, COUNT + 1, &read, &err), GYRE_EFORMAT);
        snprintf(want, sizeof want, "logits: not finite: %s", c->says);
        if (strncmp(err.text, want, strlen(want)) != 0) fail_msg("%s %s: %s", c->family, c->tensor, err.text);
        snprintf(want, sizeof want, "(%s)", c->tensor);
        if (!strstr(err.text, want)) fail_msg("%s %s: %s", c->family, c->tensor, err.text);
        for (int64_t piece = 1; piece < COUNT; piece += 4) { /* the same words however the tokens are cut */
            assert_int_equal(read_cut(model, piece, &read, &cut), GYRE_EFORMAT);
            assert_string_equal(cut.text, err.text);
        }
        gyre_model_free(model);
    }
}

static gyre_model_config small_config(void) {
    gyre_model_config config = gyre_model_config_default();
    config.vocab = 50;
    config.model_dim = 24;
    config.layers = 2;
    config.heads = config.kv_heads = 4;
    config.head_dim = 8;
    config.mlp_dim = 40;
    config.position.kind = GYRE_KIND_NOPE;
    return config;
}

/* Finite queries and keys whose products overflow: attention, and the tensor behind the larger of the two. */
static void products_are_named(void **state) {
    (void)state;
    gyre_model_config config = small_config();
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    int64_t read;
    assert_ok(gyre_model_create(&model, &config, 1, &err));
    const float large[] = {1e25f, 1e20f};
    for (int i = 0; i < 2; i++) {
        const int tensor = i ? GYRE_WEIGHT_K : GYRE_WEIGHT_Q;
        float *weights = model->weights + gyre_layer_tensor_offset(&model->layout, LAYER, tensor);
        for (int64_t k = 0; k < config.heads * config.head_dim * config.model_dim; k++)
            weights[k] *= large[i];
    }
    assert_int_equal(read_cut(model, COUNT + 1, &read, &err), GYRE_EFORMAT);
    if (!strstr(err.text, "attention overflows first in layer 1, at token 0 (model.layers.1.self_attn.q_proj.weight)"))
        fail_msg("%s", err.text);
    gyre_model_free(model);
}

/* Before the window slides and after; no logits are asked for. */
static void while_streaming(void **state) {
    enum { WINDOW = 8, BAD = 7 };
    (void)state;
    gyre_model_config config = small_config();
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    assert_ok(gyre_model_create(&model, &config, 1, &err));
    model->weights[BAD * config.model_dim] = INFINITY; /* of the embedding */
    for (int before = 3; before <= 3 * WINDOW; before += 3) {
        const int32_t good = 3, bad = BAD;
        char want[80];
        gyre_context_options options = GYRE_INIT(gyre_context_options);
        gyre_context *context = NULL;
        options.max_tokens = 2 * WINDOW;
        assert_ok(gyre_context_create(&context, model, &options, &err));
        assert_ok(gyre_context_stream(context, 1, WINDOW, &err));
        for (int i = 0; i < before; i++)
            assert_ok(gyre_context_forward(context, &good, 1, 0, NULL, &err));
        assert_int_equal(gyre_context_forward(context, &bad, 1, 0, NULL, &err), GYRE_EFORMAT);
        snprintf(want, sizeof want, "the embedding overflows first, at token %d (model.embed_tokens.weight)", before);
        if (!strstr(err.text, want)) fail_msg("%s", err.text);
        assert_int_equal(gyre_context_tokens(context), 0);
        assert_ok(gyre_context_forward(context, &good, 1, 0, NULL, &err));
        gyre_context_free(context);
    }
    gyre_model_free(model);
}

/* Their exponentials end, and are not finite. */
static void matrices_that_are_not_finite(void **state) {
    (void)state;
    gyre_model_config c = GYRE_INIT(gyre_model_config);
    gyre_model *model;
    gyre_context *context;
    gyre_error err = {0, ""};
    const int32_t token = 3;
    static float logits[256];
    c.layers = 1;
    c.position.kind = GYRE_KIND_ROPE;
    c.layer_parts = GYRE_LAYER_PART_HEAD_MATRICES;
    assert_ok(gyre_model_create(&model, &c, 1, NULL));
    model->weights[gyre_layer_tensor_offset(&model->layout, 0, GYRE_WEIGHT_PART) + 1] = INFINITY;
    assert_ok(gyre_context_create(&context, model, GYRE_ARGS(gyre_context_options, .max_tokens = 4), NULL));
    assert_int_equal(gyre_context_forward(context, &token, 1, 1, logits, &err), GYRE_EFORMAT);
    gyre_context_free(context);
    gyre_model_free(model);
}

/* Products of sizes stay within the range of integers. */
static void matrices_that_are_too_large(void **state) {
    (void)state;
    gyre_model_config c = GYRE_INIT(gyre_model_config);
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    c.model_dim = c.layers = c.heads = 1;
    c.position.kind = GYRE_KIND_ROPE;
    c.layer_parts = GYRE_LAYER_PART_HEAD_MATRICES;
    c.head_dim = 258;
    assert_int_equal(gyre_model_create(&model, &c, 1, &err), GYRE_EINVAL);
    if (!strstr(err.text, "head_matrices of 258 channels are past 256")) fail_msg("%s", err.text);
    c.head_dim = INT32_MAX;
    assert_int_equal(gyre_model_create(&model, &c, 1, &err), GYRE_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tensors_are_named), cmocka_unit_test(products_are_named),
                                       cmocka_unit_test(while_streaming), cmocka_unit_test(matrices_that_are_not_finite),
                                       cmocka_unit_test(matrices_that_are_too_large)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
