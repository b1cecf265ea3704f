/* test_network_open.c: models that do not open: the message names the file, the field and its offset or line, and no small
 * file can ask for large memory. */
#include "files/tensors/safetensors.h"
#include "gyre/gyre_model.h"
#include "make_gguf.h"
#include "make_synthetic_model.h"
#include "temp_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_PATH = 400, HEADER_ROOM = 1 << 20, FILE_ROOM = 1 << 23 };

/* Fails where a test left another file behind. */
static int remove_files(void **state) {
    static const char *const files[] = {"config.json", "model.safetensors", "model.gguf"};
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(in_folder(files[i]));
    return rmdir(folder);
}

/* -- what is expected -- */
static void assert_says(const gyre_error *err, const char *what) {
    if (what && !strstr(err->text, what)) fail_msg("\"%s\" does not say \"%s\"", err->text, what);
}

/* Fails unless the file is refused with this status and a message that contains all of `says`. */
static void refuses(const char *path, gyre_status status, const char *const says[4]) {
    gyre_model *const untouched = (gyre_model *)(void *)&folder, *model = untouched;
    gyre_error err = {0, ""};
    const gyre_status got = gyre_model_open(&model, path, NULL, &err);
    if (got != status) fail_msg("%s: status %d, not %d: \"%s\"", says[0], (int)got, (int)status, err.text);
    assert_ptr_equal(model, untouched);
    for (int i = 0; i < 4; i++)
        assert_says(&err, says[i]);
}

static void opens(const char *path, const char *what) {
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    if (gyre_model_check(path, &err) || gyre_model_open(&model, path, NULL, &err)) fail_msg("%s: %s", what, err.text);
    gyre_model_free(model);
}

/* -- fixtures, changed -- */
/* key: "attn_config.prefix_lm" is inside an object. */
static void set_key(json_t *config, const char *key, const char *value) {
    const char *dot = strchr(key, '.');
    json_error_t why;
    json_t *parsed = json_loads(value, JSON_DECODE_ANY, &why);
    assert_non_null(parsed);
    if (dot) {
        char outer[64];
        snprintf(outer, sizeof outer, "%.*s", (int)(dot - key), key);
        if (!json_is_object(json_object_get(config, outer))) json_object_set_new(config, outer, json_object());
        config = json_object_get(config, outer);
        key = dot + 1;
    }
    assert_int_equal(json_object_set_new(config, key, parsed), 0);
}

/* The line of config.json with the key, as "line 7". No fixture has a key twice. */
static const char *line_of(const char *key, char out[32]) {
    char line[4096], quoted[80];
    const char *dot = strrchr(key, '.');
    int number = 0;
    FILE *file = fopen(in_folder("config.json"), "rb");
    assert_non_null(file);
    snprintf(quoted, sizeof quoted, "\"%s\":", dot ? dot + 1 : key);
    snprintf(out, 32, "line ?");
    for (int n = 1; fgets(line, sizeof line, file); n++)
        if (strstr(line, quoted)) number = n;
    fclose(file);
    if (number) snprintf(out, 32, "line %d", number);
    return out;
}

/* The offset of a tensor's data in model.safetensors, read from the header here. */
static uint64_t offset_of(const char *name, int64_t *bytes) {
    static char header[HEADER_ROOM];
    unsigned char length[8];
    uint64_t n = 0;
    json_error_t why;
    FILE *file = fopen(in_folder("model.safetensors"), "rb");
    assert_non_null(file);
    assert_int_equal(fread(length, 1, 8, file), 8);
    for (int i = 0; i < 8; i++)
        n |= (uint64_t)length[i] << (8 * i);
    assert_true(n < sizeof header);
    assert_int_equal(fread(header, 1, n, file), n);
    fclose(file);
    json_t *root = json_loadb(header, n, 0, &why);
    const json_t *ends = json_object_get(json_object_get(root, name), "data_offsets");
    assert_int_equal(json_array_size(ends), 2);
    const int64_t first = json_integer_value(json_array_get(ends, 0));
    *bytes = json_integer_value(json_array_get(ends, 1)) - first;
    json_decref(root);
    return 8 + n + (uint64_t)first;
}

static void overwrite(const char *name, uint64_t at, const void *bytes, size_t count) {
    FILE *file = fopen(in_folder(name), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void shape(json_t *fixture, const char *tensor, const char *sizes) {
    set_key(json_object_get(fixture, "tensors"), "t", sizes); /* checks that it parses */
    json_object_del(json_object_get(fixture, "tensors"), "t");
    json_error_t why;
    json_t *described = json_pack_ex(&why, 0, "[o, f, f]", json_loads(sizes, 0, &why), 0.0, 0.5);
    assert_non_null(described);
    assert_int_equal(json_object_set_new(json_object_get(fixture, "tensors"), tensor, described), 0);
}

/* -- tensors -- */
static void test_missing_tensors(void **state) {
    static const struct {
        const char *fixture, *tensor;
    } missing[] = {
        /* clang-format off */
        {"llama", "model.embed_tokens.weight"}, {"llama", "model.norm.weight"}, {"llama", "lm_head.weight"},
        {"llama", "model.layers.1.input_layernorm.weight"}, {"llama", "model.layers.1.post_attention_layernorm.weight"},
        {"llama", "model.layers.1.self_attn.q_proj.weight"}, {"llama", "model.layers.0.self_attn.v_proj.weight"},
        {"llama", "model.layers.1.mlp.gate_proj.weight"}, {"llama", "model.layers.1.mlp.down_proj.weight"},
        {"llama_biases", "model.layers.1.self_attn.o_proj.bias"}, {"llama_biases", "model.layers.0.mlp.up_proj.bias"},
        {"qwen2", "model.layers.1.self_attn.k_proj.bias"}, {"qwen3", "model.layers.1.self_attn.q_norm.weight"},
        {"qwen3", "model.layers.0.self_attn.k_norm.weight"}, {"olmo2", "model.layers.1.self_attn.k_norm.weight"},
        {"olmo2", "model.layers.1.post_feedforward_layernorm.weight"}, {"gemma2", "model.layers.1.pre_feedforward_layernorm.weight"},
        {"gemma3", "model.layers.1.self_attn.q_norm.weight"}, {"cohere_biases", "model.layers.1.self_attn.o_proj.bias"},
        {"starcoder2", "model.layers.1.mlp.c_fc.bias"}, {"stablelm", "model.layers.0.self_attn.q_proj.bias"},
        {"stablelm", "model.layers.0.input_layernorm.bias"}, {"phi", "lm_head.bias"}, {"phi", "model.layers.1.self_attn.dense.bias"},
        {"gpt_neox", "gpt_neox.layers.1.post_attention_layernorm.weight"}, {"gpt_neox", "gpt_neox.layers.1.post_attention_layernorm.bias"},
        {"gpt_neox", "gpt_neox.layers.0.attention.query_key_value.bias"}, {"gpt2_plain", "wpe.weight"}, {"gpt2_plain", "h.1.attn.c_attn.bias"},
        {"gpt2_prefixed", "transformer.ln_f.bias"}, {"gptj", "transformer.h.1.mlp.fc_in.bias"},
        {"bloom", "transformer.word_embeddings_layernorm.weight"}, {"bloom", "transformer.word_embeddings_layernorm.bias"},
        {"mpt", "transformer.blocks.1.norm_2.weight"}, {"mixtral", "model.layers.1.block_sparse_moe.experts.5.w3.weight"},
        {"mixtral", "model.layers.0.block_sparse_moe.gate.weight"}, {"qwen2_moe", "model.layers.1.mlp.shared_expert.down_proj.weight"},
        {"qwen2_moe", "model.layers.1.mlp.shared_expert_gate.weight"}, {"ernie4_5_moe", "model.layers.1.mlp.moe_statics.e_score_correction_bias"},
        {"gpt_oss", "model.layers.1.self_attn.sinks"}, {"gpt_oss", "model.layers.0.mlp.experts.gate_up_proj_bias"},
        {"gpt_oss", "model.layers.0.mlp.experts.gate_up_proj"}, {"llama4", "model.layers.2.feed_forward.experts.gate_up_proj"},
        {"gpt_oss", "model.layers.0.mlp.experts.down_proj"}, {"gpt_oss", "model.layers.0.mlp.router.bias"},
        {"deepseek_v3", "model.layers.1.self_attn.kv_a_layernorm.weight"}, {"deepseek_v3", "model.layers.1.self_attn.q_b_proj.weight"},
        {"glm4", "model.layers.1.post_mlp_layernorm.weight"}, {"falcon_grouped", "transformer.h.1.ln_mlp.bias"},
        {"falcon_grouped", "transformer.h.1.self_attention.query_key_value.weight"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        json_t *fixture = synthetic_fixture(missing[i].fixture);
        if (json_object_del(json_object_get(fixture, "tensors"), missing[i].tensor))
            fail_msg("%s has no %s", missing[i].fixture, missing[i].tensor);
        synthetic_write_folder(fixture, folder);
        refuses(folder, GYRE_EFORMAT, (const char *const[4]){missing[i].tensor, "no such tensor", folder, NULL});
        json_decref(fixture);
    }
}

/* Tensors that the class of the family, as configured, would ignore silently. */
static void test_extra_tensors(void **state) {
    static const struct {
        const char *fixture, *tensor, *sizes;
    } more[] = {
        {"llama", "model.layers.0.self_attn.q_proj.bias", "[24]"}, /* attention_bias false */
        {"llama", "model.layers.1.mlp.down_proj.bias", "[24]"}, {"llama", "model.layers.1.self_attn.q_norm.weight", "[6]"},
        {"llama", "model.layers.2.input_layernorm.weight", "[24]"}, {"llama", "model.layers.0.adapter.weight", "[2, 24]"},
        {"qwen2", "model.layers.0.self_attn.o_proj.bias", "[24]"},
        {"gpt_neox_serial", "gpt_neox.layers.0.attention.dense.bias", "[48]"}, /* attention_bias false */
        {"starcoder2_window", "model.layers.0.mlp.c_proj.bias", "[24]"},       /* use_bias false */
        {"stablelm_parallel", "model.layers.0.self_attn.v_proj.bias", "[24]"}, /* use_qkv_bias false */
        {"mpt", "transformer.blocks.0.norm_1.bias", "[24]"},                   /* no_bias true */
        {"cohere", "model.layers.0.post_attention_layernorm.weight", "[24]"},
        {"mixtral", "model.layers.0.block_sparse_moe.experts.6.w1.weight", "[40, 24]"},
        {"qwen3_moe_dense", "model.layers.1.mlp.gate.weight", "[6, 24]"}, /* mlp_only_layers */
        {"qwen3_moe", "model.layers.0.mlp.shared_expert.gate_proj.weight", "[20, 24]"},
        {"falcon_grouped", "transformer.h.0.self_attention.dense.bias", "[32]"},      /* bias false */
        {"deepseek_v3_yarn", "model.layers.0.self_attn.q_a_proj.weight", "[14, 24]"}, /* q_lora_rank null */
        {"deepseek_v3", "model.layers.2.input_layernorm.weight", "[24]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        json_t *fixture = synthetic_fixture(more[i].fixture);
        int64_t bytes;
        char offset[40];
        assert_null(json_object_get(json_object_get(fixture, "tensors"), more[i].tensor));
        shape(fixture, more[i].tensor, more[i].sizes);
        synthetic_write_folder(fixture, folder);
        snprintf(offset, sizeof offset, "offset %llu", (unsigned long long)offset_of(more[i].tensor, &bytes));
        refuses(folder, GYRE_EFORMAT,
                (const char *const[4]){more[i].tensor, "no tensor of the", in_folder("model.safetensors"), offset});
        json_decref(fixture);
    }
}

static void test_wrong_shapes(void **state) {
    static const struct {
        const char *fixture, *tensor, *sizes, *says;
    } wrong[] = {
        {"llama", "model.embed_tokens.weight", "[60, 24]", "61 x 24"}, {"llama", "model.layers.0.self_attn.q_proj.weight", "[24, 23]", "24 x 24"},
        {"llama", "model.layers.0.self_attn.q_proj.weight", "[576]", "24 x 24"},
        {"llama", "model.layers.0.self_attn.q_proj.weight", "[24, 24, 1]", "24 x 24"},
        {"llama", "model.layers.1.mlp.down_proj.weight", "[40, 24]", "24 x 40"}, {"llama", "model.norm.weight", "[25]", "24"},
        {"llama", "model.norm.weight", "[24, 1]", "24"}, {"llama", "model.norm.weight", "[0]", "24"},
        {"llama", "lm_head.weight", "[62, 24]", "61 x 24"}, {"llama_biases", "model.layers.1.self_attn.q_proj.bias", "[23]", "32 in one"},
        {"gpt2_plain", "wpe.weight", "[3, 24]", "x 24"}, {"gpt2_plain", "h.0.mlp.c_fc.weight", "[96, 24]", "24 x"},
        {"qwen3", "model.layers.0.self_attn.q_norm.weight", "[4096]", "in one"},
        {"mixtral", "model.layers.0.block_sparse_moe.experts.1.w2.weight", "[24, 41]", "24 x 40"},
        {"gpt_oss", "model.layers.0.mlp.experts.gate_up_proj", "[4, 24, 80]", "5 experts"},
        {"gpt_oss", "model.layers.0.mlp.experts.gate_up_proj", "[5, 24, 40]", "24 x 80"},
        {"gpt_oss", "model.layers.0.mlp.experts.down_proj", "[5, 24]", "5 experts"},
        {"gpt_oss", "model.layers.0.mlp.experts.down_proj_bias", "[5, 25]", "24"},
        {"ernie4_5_moe", "model.layers.1.mlp.moe_statics.e_score_correction_bias", "[1, 5]", "6"},
        {"deepseek_v3", "model.layers.1.self_attn.kv_b_proj.weight", "[72, 13]", "72 x 12"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_t *fixture = synthetic_fixture(wrong[i].fixture);
        int64_t bytes;
        char offset[40];
        assert_non_null(json_object_get(json_object_get(fixture, "tensors"), wrong[i].tensor));
        shape(fixture, wrong[i].tensor, wrong[i].sizes);
        synthetic_write_folder(fixture, folder);
        snprintf(offset, sizeof offset, "model.safetensors, offset %llu",
                 (unsigned long long)offset_of(wrong[i].tensor, &bytes));
        refuses(folder, GYRE_EFORMAT, (const char *const[4]){wrong[i].tensor, wrong[i].says, folder, offset});
        json_decref(fixture);
    }
}

/* Layers of multi-token prediction are not read, if the config says that there are some. */
static void test_extra_layers(void **state) {
    (void)state;
    json_t *fixture = synthetic_fixture("deepseek_v3");
    set_key(json_object_get(fixture, "config"), "num_nextn_predict_layers", "1");
    shape(fixture, "model.layers.2.eh_proj.weight", "[24, 48]");
    synthetic_write_folder(fixture, folder);
    opens(folder, "num_nextn_predict_layers");
    json_decref(fixture);
}

/* A query norm over all heads where the class has one per head, and vice versa. */
static void test_wrong_kind_of_norm(void **state) {
    static const char *const names[] = {"qwen3", "olmo2"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        json_t *fixture = synthetic_fixture(names[i]);
        const json_t *config = json_object_get(fixture, "config");
        char sizes[40];
        const int64_t heads = test_integer(config, "num_attention_heads"), width = test_integer(config, "hidden_size");
        const int64_t dim = json_object_get(config, "head_dim") ? test_integer(config, "head_dim") : width / heads;
        snprintf(sizes, sizeof sizes, "[%d]", (int)(i == 0 ? heads * dim : dim));
        shape(fixture, "model.layers.0.self_attn.q_norm.weight", sizes);
        synthetic_write_folder(fixture, folder);
        refuses(folder, GYRE_EFORMAT, (const char *const[4]){"self_attn.q_norm.weight", "offset", folder, NULL});
        json_decref(fixture);
    }
}

static void test_nonfinite_weights(void **state) {
    static const unsigned char nan[4] = {0, 0, 0xc0, 0x7f}, infinite[4] = {0, 0, 0x80, 0xff};
    static const char *const names[] = {"model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight",
                                        "model.layers.1.input_layernorm.weight", "model.layers.0.self_attn.k_proj.bias"};
    (void)state;
    json_t *fixture = synthetic_fixture("llama_biases");
    for (size_t i = 0; i < 2 * sizeof names / sizeof *names; i++) {
        int64_t bytes;
        char offset[40];
        const char *name = names[i / 2];
        synthetic_write_folder(fixture, folder);
        const uint64_t first = offset_of(name, &bytes), at = first + (uint64_t)(bytes / 4 - 1) * 4; /* the last number */
        overwrite("model.safetensors", at, i % 2 ? nan : infinite, 4);
        snprintf(offset, sizeof offset, "byte %llu", (unsigned long long)at);
        refuses(folder, GYRE_EFORMAT, (const char *const[4]){name, in_folder("model.safetensors"), offset, NULL});
    }
    json_decref(fixture);
}

/* Reads eight tokens and returns the last logit. */
static float last_logit(const char *path) {
    static const int32_t tokens[8] = {3, 1, 4, 1, 5, 9, 2, 6};
    float logits[61];
    gyre_model *model = NULL;
    gyre_context *context = NULL;
    gyre_error err = {0, ""};
    if (gyre_model_open(&model, path, NULL, &err) != GYRE_OK) fail_msg("%s", err.text);
    assert_int_equal(gyre_context_create(&context, model,
                                         &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = 8},
                                         &err),
                     GYRE_OK);
    assert_int_equal(gyre_context_forward(context, tokens, 8, 1, logits, &err), GYRE_OK);
    gyre_context_free(context);
    gyre_model_free(model);
    return logits[60];
}

/* One more space in the header makes all data unaligned. */
static void test_unaligned_data(void **state) {
    static unsigned char file[FILE_ROOM];
    static const char *const names[] = {"llama", "llama_wide_bf16", "gpt2_f16", "gpt2_plain"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *fixture = synthetic_fixture(names[i]);
        synthetic_write_folder(fixture, folder);
        const float aligned = last_logit(folder);
        FILE *in = fopen(in_folder("model.safetensors"), "rb");
        const size_t size = fread(file, 1, sizeof file, in);
        fclose(in);
        assert_true(size > 8 && size < sizeof file);
        uint64_t header = 0;
        for (int b = 0; b < 8; b++)
            header |= (uint64_t)file[b] << (8 * b);
        const uint64_t longer = header + 1;
        unsigned char length[8];
        for (int b = 0; b < 8; b++)
            length[b] = (unsigned char)(longer >> (8 * b));
        FILE *out = fopen(in_folder("model.safetensors"), "wb");
        fwrite(length, 1, 8, out);
        fwrite(file + 8, 1, header, out);
        fwrite(" ", 1, 1, out);
        fwrite(file + 8 + header, 1, size - 8 - header, out);
        assert_int_equal(fclose(out), 0);
        test_close(last_logit(folder), aligned, 0, names[i]);
        json_decref(fixture);
    }
}

/* -- a tower for images -- */
enum { MOST_TENSORS = 128, LONGEST_NAME = 128 };

/* The same decoder inside a multimodal model: tensors under "language_model.", config in text_config. */
static void write_with_tower(json_t *fixture) {
    static char names[MOST_TENSORS][LONGEST_NAME];
    static const float patch[12] = {1};
    gyre_safetensors_input tensors[MOST_TENSORS];
    float *data[MOST_TENSORS];
    gyre_error err = {0, ""};
    int64_t n = 0;
    const char *name;
    json_t *described;
    json_object_foreach(json_object_get(fixture, "tensors"), name, described) {
        int64_t count;
        assert_true(n < MOST_TENSORS - 2);
        snprintf(names[n], LONGEST_NAME, "language_model.%s", name);
        tensors[n] = (gyre_safetensors_input){.name = names[n], .rank = (int)json_array_size(json_array_get(described, 0))};
        for (int i = 0; i < tensors[n].rank; i++)
            tensors[n].shape[i] = json_integer_value(json_array_get(json_array_get(described, 0), (size_t)i));
        tensors[n].data = data[n] = synthetic_tensor(fixture, name, &count);
        n++;
    }
    const int64_t own = n;
    tensors[n++] = (gyre_safetensors_input){"multi_modal_projector.mm_soft_emb_norm.weight", 1, {12}, patch, 0};
    tensors[n++] =
        (gyre_safetensors_input){"vision_tower.vision_model.embeddings.patch_embedding.weight", 4, {1, 3, 2, 2}, patch, 0};
    if (gyre_safetensors_write(in_folder("model.safetensors"), tensors, n, GYRE_DTYPE_F32, &err)) fail_msg("%s", err.text);
    for (int64_t i = 0; i < own; i++)
        free(data[i]);
    json_t *config =
        json_pack("{s:s, s:O, s:{s:s, s:i, s:i, s:i, s:i, s:i}}", "model_type", "gemma3", "text_config",
                  json_object_get(fixture, "config"), "vision_config", "model_type", "siglip_vision_model", "hidden_size",
                  12, "num_attention_heads", 2, "num_hidden_layers", 3, "image_size", 4, "patch_size", 2);
    assert_non_null(config);
    assert_int_equal(json_dump_file(config, in_folder("config.json"), JSON_INDENT(2)), 0);
    json_decref(config);
}

static void test_decoder_with_a_vision_tower(void **state) {
    static const char *const fixtures[] = {"gemma3", "gemma3_six", "gemma3_types"};
    (void)state;
    for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
        json_t *fixture = synthetic_fixture(fixtures[i]);
        synthetic_write_folder(fixture, folder);
        const float alone = last_logit(folder);
        write_with_tower(fixture);
        test_close(last_logit(folder), alone, 0, fixtures[i]);
        set_key(json_object_get(fixture, "config"), "use_bidirectional_attention", "true");
        write_with_tower(fixture);
        refuses(folder, GYRE_EUNSUPPORTED,
                (const char *const[4]){"text_config.use_bidirectional_attention", in_folder("config.json"), "line", NULL});
        json_decref(fixture);
    }
}

/* -- config.json -- */
typedef struct config_case {
    const char *fixture, *key, *value;
    gyre_status status;
} config_case;

/* The check says what opening says, without the weights. */
static void refuses_without_weights(gyre_status wanted) {
    gyre_error opened = {0, ""}, checked = {0, ""};
    gyre_model *model = NULL;
    assert_int_equal(gyre_model_open(&model, folder, NULL, &opened), wanted);
    assert_int_equal(unlink(in_folder("model.safetensors")), 0);
    assert_int_equal(gyre_model_check(folder, &checked), wanted);
    assert_string_equal(checked.text, opened.text);
}

/* Families that run, as folders without weights; `opens` checks what has them. */
static void test_check_without_weights(void **state) {
    static const char *const runs[] = {"llama", "gemma3", "gpt2_plain", "mpt", "phi3", "bloom"};
    gyre_error err = {0, ""};
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        json_t *fixture = synthetic_fixture(runs[i]);
        synthetic_write_folder(fixture, folder);
        assert_int_equal(unlink(in_folder("model.safetensors")), 0);
        if (gyre_model_check(folder, &err)) fail_msg("%s: %s", runs[i], err.text);
        gyre_model *model = NULL;
        assert_int_equal(gyre_model_open(&model, folder, NULL, &err), GYRE_EIO);
        json_decref(fixture);
    }
    assert_int_equal(gyre_model_check(NULL, &err), GYRE_EINVAL);
    assert_int_equal(gyre_model_check("/nowhere", &err), GYRE_EIO);
    assert_int_equal(gyre_model_check(in_folder("config.json"), &err), GYRE_EIO);
}

static void check_configs(const config_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        json_t *fixture = synthetic_fixture(cases[i].fixture);
        char line[32];
        set_key(json_object_get(fixture, "config"), cases[i].key, cases[i].value);
        synthetic_write_folder(fixture, folder);
        const char *place = line_of(cases[i].key, line);
        refuses(folder, cases[i].status, (const char *const[4]){cases[i].key, in_folder("config.json"), place, NULL});
        refuses_without_weights(cases[i].status);
        json_decref(fixture);
    }
}

static void test_unsupported_keys(void **state) {
    static const config_case cases[] = {
        {"llama", "model_type", "\"mamba\"", GYRE_EUNSUPPORTED}, {"llama", "model_type", "\"paligemma\"", GYRE_EUNSUPPORTED},
        {"llama", "hidden_act", "\"quick_gelu\"", GYRE_EUNSUPPORTED}, {"llama", "quantization_config", "{\"bits\": 4}", GYRE_EUNSUPPORTED},
        {"llama", "num_local_experts", "8", GYRE_EUNSUPPORTED}, {"qwen3", "num_experts", "8", GYRE_EUNSUPPORTED},
        {"phi", "qk_layernorm", "true", GYRE_EUNSUPPORTED}, {"stablelm", "use_qk_norm", "true", GYRE_EUNSUPPORTED},
        {"gpt2_plain", "scale_attn_by_inverse_layer_idx", "true", GYRE_EUNSUPPORTED}, {"gpt2_plain", "add_cross_attention", "true", GYRE_EUNSUPPORTED},
        {"llama", "rope_config", "{\"imag\": true, \"imag_mode\": \"imag2\"}", GYRE_EUNSUPPORTED}, {"bloom", "apply_residual_connection_post_layernorm", "true", GYRE_EUNSUPPORTED},
        {"gemma3", "use_bidirectional_attention", "true", GYRE_EUNSUPPORTED}, {"mpt", "attn_config.prefix_lm", "true", GYRE_EUNSUPPORTED},
        {"mpt", "attn_config.attn_type", "\"multiquery_attention\"", GYRE_EUNSUPPORTED}, {"mpt", "attn_config.qk_ln", "true", GYRE_EUNSUPPORTED},
        {"mpt", "attn_config.qk_gn", "true", GYRE_EUNSUPPORTED}, {"mpt", "norm_type", "\"rmsnorm\"", GYRE_EUNSUPPORTED},
        {"mpt", "ffn_config.ffn_type", "\"mptglu\"", GYRE_EUNSUPPORTED}, {"mpt", "block_overrides", "{\"order\": []}", GYRE_EUNSUPPORTED},
        {"mpt", "logit_scale", "0.5", GYRE_EUNSUPPORTED},
        {"bloom", "num_key_value_heads", "2", GYRE_EUNSUPPORTED}, /* fused heads cannot be grouped */
        {"gpt_neox", "num_key_value_heads", "1", GYRE_EUNSUPPORTED}, {"gpt_oss", "swiglu_limit", "8", GYRE_EUNSUPPORTED},
        {"falcon_grouped", "parallel_attn", "false", GYRE_EUNSUPPORTED}, {"falcon", "num_ln_in_parallel_attn", "2", GYRE_EUNSUPPORTED},
        {"gpt_oss", "quantization_config", "{\"quant_method\": \"fp8\"}", GYRE_EUNSUPPORTED},
        {"mixtral", "quantization_config", "{\"quant_method\": \"mxfp4\"}", GYRE_EUNSUPPORTED},
        {"gemma4", "use_bidirectional_attention", "\"all\"", GYRE_EUNSUPPORTED}, {"gemma4", "vocab_size_per_layer_input", "60", GYRE_EUNSUPPORTED},
    };
    (void)state;
    check_configs(cases, sizeof cases / sizeof *cases);
}

static void test_invalid_keys(void **state) {
    static const config_case cases[] = {
        {"llama", "vocab_size", "0", GYRE_EFORMAT}, {"llama", "vocab_size", "2147483648", GYRE_EFORMAT}, {"llama", "vocab_size", "-61", GYRE_EFORMAT},
        {"llama", "vocab_size", "61.5", GYRE_EFORMAT}, {"llama", "vocab_size", "\"61\"", GYRE_EFORMAT}, {"llama", "hidden_size", "0", GYRE_EFORMAT},
        {"llama", "hidden_size", "1e300", GYRE_EFORMAT}, {"llama", "intermediate_size", "0", GYRE_EFORMAT},
        {"llama", "num_hidden_layers", "0", GYRE_EFORMAT}, {"llama", "num_hidden_layers", "1000000000", GYRE_EFORMAT},
        {"llama", "num_attention_heads", "0", GYRE_EFORMAT}, {"llama", "num_key_value_heads", "3", GYRE_EFORMAT},
        {"llama", "num_key_value_heads", "8", GYRE_EFORMAT}, {"llama", "head_dim", "0", GYRE_EFORMAT},
        {"llama", "head_dim", "2147483647", GYRE_EFORMAT}, {"llama", "rms_norm_eps", "0", GYRE_EFORMAT},
        {"llama", "rms_norm_eps", "-1e-5", GYRE_EFORMAT}, {"gemma2", "final_logit_softcapping", "-30", GYRE_EFORMAT},
        {"granite", "logits_scaling", "0", GYRE_EFORMAT}, {"mpt", "expansion_ratio", "1e30", GYRE_EFORMAT},
        {"mixtral", "num_local_experts", "0", GYRE_EFORMAT}, {"mixtral", "num_local_experts", "1000000", GYRE_EFORMAT},
        {"mixtral", "num_experts_per_tok", "7", GYRE_EFORMAT}, {"qwen3_moe", "decoder_sparse_step", "0", GYRE_EFORMAT}, {"qwen3_moe", "mlp_only_layers", "[2]", GYRE_EFORMAT},
        {"llama4", "moe_layers", "[-1]", GYRE_EFORMAT}, {"deepseek_v3", "n_group", "3", GYRE_EFORMAT},
        {"deepseek_v3", "kv_lora_rank", "0", GYRE_EFORMAT}, {"deepseek_v3", "qk_rope_head_dim", "2147483647", GYRE_EFORMAT},
        {"falcon_grouped", "num_kv_heads", "3", GYRE_EFORMAT}, {"mpt", "attn_config.kv_n_heads", "5", GYRE_EFORMAT},
        {"mpt", "attn_config.clip_qkv", "-6", GYRE_EFORMAT},
        {"gemma4", "num_kv_shared_layers", "6", GYRE_EFORMAT}, {"gemma4", "hidden_size_per_layer_input", "1000000000", GYRE_EFORMAT},
        {"gemma4_keys_are_values", "num_global_key_value_heads", "3", GYRE_EFORMAT}, {"gemma4_saved", "top_k_experts", "7", GYRE_EFORMAT},
        /* clang-format on */
    };
    (void)state;
    check_configs(cases, sizeof cases / sizeof *cases);
}

/* A bias for every projection and norm, which no_bias true would not have. */
static void test_biases_of_mpt(void **state) {
    static const char *const maps[] = {"norm_1", "norm_2", "attn.Wqkv", "attn.out_proj", "ffn.up_proj", "ffn.down_proj"};
    (void)state;
    json_t *fixture = synthetic_fixture("mpt");
    set_key(json_object_get(fixture, "config"), "no_bias", "false");
    synthetic_write_folder(fixture, folder);
    refuses(folder, GYRE_EFORMAT,
            (const char *const[4]){"transformer.blocks.0.norm_1.bias", "no such tensor", folder, NULL});
    for (int layer = 0; layer < (int)test_integer(json_object_get(fixture, "config"), "n_layers"); layer++)
        for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
            char weight[80], bias[80], sizes[40];
            snprintf(weight, sizeof weight, "transformer.blocks.%d.%s.weight", layer, maps[i]);
            snprintf(bias, sizeof bias, "transformer.blocks.%d.%s.bias", layer, maps[i]);
            const json_t *dims = json_array_get(json_object_get(json_object_get(fixture, "tensors"), weight), 0);
            snprintf(sizes, sizeof sizes, "[%d]", (int)json_integer_value(json_array_get(dims, 0)));
            shape(fixture, bias, sizes);
        }
    synthetic_write_folder(fixture, folder);
    refuses(folder, GYRE_EFORMAT, (const char *const[4]){"transformer.norm_f.bias", "no such tensor", folder, NULL});
    const json_t *dims =
        json_array_get(json_object_get(json_object_get(fixture, "tensors"), "transformer.norm_f.weight"), 0);
    char sizes[40];
    snprintf(sizes, sizeof sizes, "[%d]", (int)json_integer_value(json_array_get(dims, 0)));
    shape(fixture, "transformer.norm_f.bias", sizes);
    synthetic_write_folder(fixture, folder);
    opens(folder, "no_bias false, with biases");
    json_decref(fixture);
}

/* A model trained by Gyre, opened by the path of one of its files. */
static void test_own_models_open(void **state) {
    (void)state;
    json_t *fixture = synthetic_fixture("llama");
    set_key(json_object_get(fixture, "config"), "model_type", "\"gyre\"");
    synthetic_write_folder(fixture, folder);
    refuses(in_folder("model.safetensors"), GYRE_EUNSUPPORTED,
            (const char *const[4]){"model_type", "name its folder", in_folder("config.json"), "line"});
    json_decref(fixture);
}

/* -- memory -- */
static long peak_kilobytes(void) {
    char line[256];
    long peak = 0;
    FILE *status = fopen("/proc/self/status", "rb");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0) peak = strtol(line + 6, NULL, 10);
    if (status) fclose(status);
    return peak;
}

/* Sizes that a config states but the files do not have. */
static void test_hostile_sizes(void **state) {
    static const struct {
        const char *fixture, *keys[3], *values[3];
    } hostile[] = {
        {"llama", {"num_hidden_layers"}, {"65536"}},
        {"llama", {"vocab_size"}, {"536870911"}},
        {"llama", {"hidden_size", "num_attention_heads", "num_key_value_heads"}, {"536870908", "4", "4"}},
        {"llama", {"hidden_size", "num_attention_heads", "num_key_value_heads"}, {"536870910", "1", "1"}},
        {"llama", {"num_attention_heads", "num_key_value_heads", "head_dim"}, {"268435455", "1", "2"}},
        {"llama", {"intermediate_size"}, {"536870911"}},
        {"llama", {"max_position_embeddings"}, {"9007199254740991"}},
        {"gpt2_plain", {"n_positions"}, {"2147483647"}},
        {"gpt2_plain", {"n_embd", "n_head"}, {"536870910", "1"}},
        {"bloom", {"n_head", "hidden_size"}, {"536870911", "536870911"}},
        {"mpt", {"n_heads", "d_model"}, {"536870911", "536870911"}},
        {"gemma3", {"num_hidden_layers", "layer_types"}, {"65536", "null"}},
    };
    const long before = peak_kilobytes();
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        json_t *fixture = synthetic_fixture(hostile[i].fixture);
        for (int k = 0; k < 3 && hostile[i].keys[k]; k++)
            set_key(json_object_get(fixture, "config"), hostile[i].keys[k], hostile[i].values[k]);
        synthetic_write_folder(fixture, folder);
        gyre_model *model = NULL;
        gyre_error err = {0, ""};
        const gyre_status status = gyre_model_open(&model, folder, NULL, &err);
        if (status == GYRE_OK) { /* max_position_embeddings is only informative */
            assert_string_equal(hostile[i].keys[0], "max_position_embeddings");
            gyre_model_free(model);
        } else {
            assert_true(status == GYRE_EFORMAT || status == GYRE_EUNSUPPORTED || status == GYRE_ENOMEM);
            assert_says(&err, folder);
        }
        if (peak_kilobytes() - before > 128L << 10)
            fail_msg("%s with %s %s: %ld KiB, \"%s\"", hostile[i].fixture, hostile[i].keys[0], hostile[i].values[0],
                     peak_kilobytes() - before, err.text);
        json_decref(fixture);
    }
}

/* -- GGUF -- */
/* A llama of 4 tokens, model_dim 8, one layer, two heads, with one tensor renamed or reshaped. */
typedef struct gguf_case {
    const char *tensor;
    uint64_t dims[2];
    const char *says;
} gguf_case;

static void put_tensor(made_gguf *made, const char *name, uint64_t first, uint64_t second, const gguf_case *change) {
    static const float numbers[4096] = {0.5F};
    uint64_t dims[2] = {first, second};
    const int changed = change && strcmp(change->tensor, name) == 0;
    if (changed) memcpy(dims, change->dims, sizeof dims);
    if (changed && dims[0] == 0) return;
    made_info(made, name, dims[1] ? 2 : 1, dims, 0, made->data_bytes);
    const uint64_t count = dims[0] * (dims[1] ? dims[1] : 1);
    assert_true(count <= 4096);
    memcpy(made->data + made->data_bytes, numbers, (size_t)count * 4);
    made->data_bytes += (size_t)count * 4;
    while (made->data_bytes % made->alignment)
        made->data_bytes++;
}

static void write_gguf(const gguf_case *change, const char *key, uint32_t value) {
    static const struct {
        const char *key;
        uint32_t value;
    } keys[] = {{"llama.embedding_length", 8},
                {"llama.block_count", 1},
                {"llama.attention.head_count", 2},
                {"llama.feed_forward_length", 16},
                {"llama.context_length", 32}};
    static const struct {
        const char *name;
        uint64_t dims[2];
    } tensors[] = {
        {"token_embd.weight", {8, 4}},        {"output_norm.weight", {8, 0}},    {"blk.0.attn_norm.weight", {8, 0}},
        {"blk.0.ffn_norm.weight", {8, 0}},    {"blk.0.attn_q.weight", {8, 8}},   {"blk.0.attn_k.weight", {8, 8}},
        {"blk.0.attn_v.weight", {8, 8}},      {"blk.0.ffn_up.weight", {8, 16}},  {"blk.0.ffn_gate.weight", {8, 16}},
        {"blk.0.attn_output.weight", {8, 8}}, {"blk.0.ffn_down.weight", {16, 8}}};
    made_gguf *made = made_begin(3);
    made_string(made, "general.architecture", "llama");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        made_u32(made, keys[i].key, key && strcmp(key, keys[i].key) == 0 ? value : keys[i].value);
    made_f32(made, "llama.attention.layer_norm_rms_epsilon", 1e-5F);
    if (key && strstr(key, "key_length")) made_u32(made, key, value);
    if (key && strstr(key, "value_length")) made_u32(made, key, value);
    if (key && strstr(key, "head_count_kv")) made_u32(made, key, value);
    if (key && strstr(key, "expert_count")) made_u32(made, key, value);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        put_tensor(made, tensors[i].name, tensors[i].dims[0], tensors[i].dims[1], change);
    if (change && change->dims[0] > 0) {
        size_t i = 0;
        while (i < sizeof tensors / sizeof *tensors && strcmp(tensors[i].name, change->tensor) != 0)
            i++;
        if (i == sizeof tensors / sizeof *tensors) put_tensor(made, change->tensor, 0, 0, change);
    }
    made_finish(made);
    FILE *file = fopen(in_folder("model.gguf"), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(made->file, 1, made->file_bytes, file), made->file_bytes);
    assert_int_equal(fclose(file), 0);
    free(made);
}

static void test_tensors_of_ggufs(void **state) {
    static const gguf_case cases[] = {
        {"token_embd.weight", {7, 4}, "4 x 8"},       {"token_embd.weight", {32, 0}, "token_embd.weight"},
        {"blk.0.attn_q.weight", {8, 9}, "8 x 8"},     {"blk.0.attn_norm.weight", {9, 0}, "8 in one"},
        {"blk.0.ffn_down.weight", {8, 16}, "8 x 16"}, {"output_norm.weight", {8, 1}, "8 in one"},
        {"blk.0.attn_k.weight", {0, 0}, "no such"},   {"blk.0.ffn_norm.weight", {0, 0}, "no such"},
        {"blk.1.attn_q.weight", {8, 8}, "no tensor"}, {"blk.0.attn_q_norm.weight", {4, 0}, "no tensor"},
        {"blk.0.attn_q.bias", {7, 0}, "8 in one"},    {"output.weight", {8, 5}, "4 x 8"}};
    (void)state;
    write_gguf(NULL, NULL, 0);
    opens(in_folder("model.gguf"), "as it should be");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_gguf(&cases[i], NULL, 0);
        const int lies = cases[i].dims[0] > 0 && !strstr(cases[i].says, "token_embd");
        refuses(in_folder("model.gguf"), GYRE_EFORMAT,
                (const char *const[4]){cases[i].tensor, cases[i].says, in_folder("model.gguf"), lies ? "offset" : NULL});
    }
}

static void test_keys_of_ggufs(void **state) {
    static const struct {
        const char *key;
        uint32_t value;
        gyre_status status;
    } cases[] = {{"llama.embedding_length", 0, GYRE_EFORMAT},
                 {"llama.embedding_length", 0xffffffffu, GYRE_EFORMAT},
                 {"llama.block_count", 0, GYRE_EFORMAT},
                 {"llama.block_count", 0x7fffffffu, GYRE_EFORMAT},
                 {"llama.attention.head_count", 0, GYRE_EFORMAT},
                 {"llama.attention.head_count_kv", 3, GYRE_EFORMAT},
                 {"llama.attention.key_length", 0, GYRE_EFORMAT},
                 {"llama.attention.key_length", 0x7fffffffu, GYRE_EFORMAT},
                 {"llama.attention.value_length", 8, GYRE_EUNSUPPORTED},
                 {"llama.feed_forward_length", 0, GYRE_EFORMAT},
                 {"llama.expert_count", 5000, GYRE_EFORMAT}};
    const long before = peak_kilobytes();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_gguf(NULL, cases[i].key, cases[i].value);
        refuses(in_folder("model.gguf"), cases[i].status,
                (const char *const[4]){cases[i].key, in_folder("model.gguf"), "byte ", NULL});
        assert_int_equal(gyre_model_check(in_folder("model.gguf"), NULL), cases[i].status);
    }
    assert_true(peak_kilobytes() - before < 128L << 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_tensors),  cmocka_unit_test(test_extra_tensors),
        cmocka_unit_test(test_wrong_shapes),     cmocka_unit_test(test_wrong_kind_of_norm),
        cmocka_unit_test(test_extra_layers),     cmocka_unit_test(test_nonfinite_weights),
        cmocka_unit_test(test_unaligned_data),   cmocka_unit_test(test_decoder_with_a_vision_tower),
        cmocka_unit_test(test_unsupported_keys), cmocka_unit_test(test_check_without_weights),
        cmocka_unit_test(test_invalid_keys),     cmocka_unit_test(test_biases_of_mpt),
        cmocka_unit_test(test_own_models_open),  cmocka_unit_test(test_hostile_sizes),
        cmocka_unit_test(test_tensors_of_ggufs), cmocka_unit_test(test_keys_of_ggufs)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_files);
}
