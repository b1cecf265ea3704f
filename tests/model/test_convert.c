/* test_convert.c: gyre_convert between folders, in and out of GGUF: rows, names, types, what is refused. */
#include "files/gguf.h"
#include "files/tensors/safetensors.h"
#include "files/tensors/tensor_store.h"
#include "make_convert_models.h"
#include "naive_decoder.h"
#include <sys/stat.h>
#include <unistd.h>

static const gyre_convert_options usual = GYRE_INIT(gyre_convert_options);

static const gyre_layout pairs_apart = GYRE_LAYOUT_HALF, pairs_beside = GYRE_LAYOUT_INTERLEAVED;

static gyre_convert_options laid(gyre_layout layout) {
    gyre_convert_options o = usual;
    o.layout = layout == GYRE_LAYOUT_HALF ? &pairs_apart : &pairs_beside;
    return o;
}
static gyre_convert_options typed(gyre_model_format format, gyre_dtype dtype) {
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_F64,
                                       GYRE_DTYPE_I32, GYRE_DTYPE_I64, GYRE_DTYPE_Q8};
    gyre_convert_options o = usual;
    o.format = format;
    o.dtype = &types[dtype];
    return o;
}
static gyre_convert_options to_gguf(void) {
    gyre_convert_options o = usual;
    o.format = GYRE_MODEL_FORMAT_GGUF;
    return o;
}

static gyre_tensor_store *open_store(const char *path) {
    gyre_tensor_store *store = NULL;
    gyre_error err = {0, ""};
    must(gyre_tensor_store_open(&store, path, &err), &err);
    return store;
}

/* -- layouts -- */
static void test_layout_round_trip(void **state) {
    (void)state;
    const gyre_convert_options there = laid(GYRE_LAYOUT_INTERLEAVED), back = laid(GYRE_LAYOUT_HALF);
    made_model *m = make_folder_of(in_folder("half"), "llama", TIED, ", \"rope_theta\": 5000.0", GYRE_DTYPE_F32);
    convert(in_folder("half"), in_folder("interleaved"), &there);
    gyre_tensor_store *store = open_store(in_folder("interleaved"));
    assert_interleaved(store, "model.layers.1.self_attn.q_proj.weight",
                       made_named(m, "model.layers.1.self_attn.q_proj.weight"));
    assert_interleaved(store, "model.layers.0.self_attn.k_proj.weight",
                       made_named(m, "model.layers.0.self_attn.k_proj.weight"));
    assert_unmoved(store, "model.layers.0.self_attn.v_proj.weight", made_named(m, "model.layers.0.self_attn.v_proj.weight"));
    assert_unmoved(store, "model.embed_tokens.weight", made_named(m, "model.embed_tokens.weight"));
    gyre_tensor_store_free(store);
    json_t *config = json_of(in_folder("interleaved/config.json"));
    assert_string_equal(test_string(config, "model_type"), "gyre");
    assert_string_equal(test_string(config, "rope_layout"), "interleaved");
    assert_true(test_number(config, "rope_theta") == 5000);
    json_decref(config);
    assert_same_logits(in_folder("half"), in_folder("interleaved"), 1e-6);
    convert(in_folder("interleaved"), in_folder("again"), &back);
    store = open_store(in_folder("again"));
    for (int i = 0; i < m->count; i++)
        assert_unmoved(store, m->tensor[i].name, &m->tensor[i]);
    gyre_tensor_store_free(store);
    config = json_of(in_folder("again/config.json"));
    assert_string_equal(test_string(config, "model_type"), "llama");
    assert_null(json_object_get(config, "rope_layout"));
    json_decref(config);
    /* Without permutation, the same model in the same order gives the same bytes. */
    convert(in_folder("half"), in_folder("copy"), NULL);
    assert_same_file(in_folder("copy/model.safetensors"), in_folder("again/model.safetensors"));
    made_model_free(m);
}

/* Weights whose pairs are in another layout than the file says: only their rows move. */
static void test_source_layout(void **state) {
    (void)state;
    gyre_convert_options mend = usual;
    made_model *m = make_folder_of(in_folder("qwen"), "qwen3", TIED | HEAD_NORMS | BIASES | OUT_BIAS,
                                   ", \"attention_bias\": true", GYRE_DTYPE_F32);
    mend.source_layout = &pairs_apart;
    convert(in_folder("qwen"), in_folder("qwen-same"), &mend);
    assert_same_file(in_folder("qwen/config.json"), in_folder("qwen-same/config.json"));
    mend.source_layout = &pairs_beside;
    convert(in_folder("qwen"), in_folder("qwen-mended"), &mend);
    assert_same_file(in_folder("qwen/config.json"), in_folder("qwen-mended/config.json"));
    static const char *const moved[] = {"model.layers.0.self_attn.q_proj.weight", "model.layers.1.self_attn.k_proj.weight",
                                        "model.layers.1.self_attn.q_proj.bias",   "model.layers.0.self_attn.k_proj.bias",
                                        "model.layers.0.self_attn.q_norm.weight", "model.layers.1.self_attn.k_norm.weight"};
    gyre_tensor_store *store = open_store(in_folder("qwen-mended"));
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
        const made_tensor *made = made_named(m, moved[i]);
        float *got = numbers_of(store, moved[i]);
        for (int64_t r = 0; r < made->rows; r++) { /* row r of the interleaved source is row half_row(r) now */
            const int64_t now = r / HEAD * HEAD + half_row(r % HEAD);
            assert_memory_equal(got + now * made->columns, made->data + r * made->columns,
                                (size_t)made->columns * sizeof *got);
        }
        free(got);
    }
    assert_unmoved(store, "model.layers.0.self_attn.v_proj.bias", made_named(m, "model.layers.0.self_attn.v_proj.bias"));
    gyre_tensor_store_free(store);
    made_model_free(m);
}

/* The size is that of what a call wrote, whatever another put in its place since. */
static void test_written_bytes(void **state) {
    (void)state;
    gyre_convert_options options[] = {usual, typed(GYRE_MODEL_FORMAT_SAFETENSORS, GYRE_DTYPE_F16), to_gguf(),
                                      typed(GYRE_MODEL_FORMAT_GGUF, GYRE_DTYPE_F16)};
    made_model_free(make_folder_of(in_folder("sized"), "llama", 0, "", GYRE_DTYPE_F32));
    for (int i = 0; i < 4; i += 2) {
        int64_t written[2] = {0, 0};
        struct stat info;
        const char *target = i ? "sized.gguf" : "sized-too";
        for (int j = 0; j < 2; j++) {
            options[i + j].written = &written[j];
            convert(in_folder("sized"), in_folder(target), &options[i + j]);
        }
        assert_int_equal(stat(in_folder(i ? "sized.gguf" : "sized-too/model.safetensors"), &info), 0);
        assert_int_equal(written[1], info.st_size);
        assert_true(written[0] > written[1] && written[0] < 2 * written[1]);
    }
}

/* -- GGUF -- */
static void test_llama_through_gguf(void **state) {
    (void)state;
    const gyre_convert_options there = to_gguf();
    made_model *m =
        make_folder_of(in_folder("biased"), "llama", BIASES | OUT_BIAS, ", \"attention_bias\": true", GYRE_DTYPE_F32);
    convert(in_folder("biased"), in_folder("biased.gguf"), &there);
    gyre_tensor_store *store = open_store(in_folder("biased.gguf"));
    assert_interleaved(store, "blk.1.attn_q.weight", made_named(m, "model.layers.1.self_attn.q_proj.weight"));
    assert_interleaved(store, "blk.0.attn_k.weight", made_named(m, "model.layers.0.self_attn.k_proj.weight"));
    assert_interleaved(store, "blk.0.attn_q.bias", made_named(m, "model.layers.0.self_attn.q_proj.bias"));
    assert_unmoved(store, "blk.0.attn_v.bias", made_named(m, "model.layers.0.self_attn.v_proj.bias"));
    assert_unmoved(store, "blk.1.ffn_down.weight", made_named(m, "model.layers.1.mlp.down_proj.weight"));
    assert_unmoved(store, "output.weight", made_named(m, "lm_head.weight"));
    assert_unmoved(store, "output_norm.weight", made_named(m, "model.norm.weight"));
    const gyre_gguf *file = gyre_tensor_store_gguf(store);
    int64_t x = 0;
    assert_true(gyre_gguf_integer(&gyre_gguf_find_key(file, "llama.attention.head_count_kv")->value, 0, &x) &&
                x == KV_HEADS);
    assert_true(gyre_gguf_integer(&gyre_gguf_find_key(file, "llama.context_length")->value, 0, &x) && x == CONTEXT);
    assert_true(gyre_gguf_integer(&gyre_gguf_find_key(file, "llama.rope.dimension_count")->value, 0, &x) && x == HEAD);
    assert_true(gyre_gguf_integer(&gyre_gguf_find_key(file, "general.file_type")->value, 0, &x) && x == 0);
    gyre_tensor_store_free(store);
    assert_same_logits(in_folder("biased"), in_folder("biased.gguf"), 1e-6);
    convert(in_folder("biased.gguf"), in_folder("biased-back"), NULL);
    store = open_store(in_folder("biased-back"));
    for (int i = 0; i < m->count; i++)
        assert_unmoved(store, m->tensor[i].name, &m->tensor[i]);
    assert_int_equal(gyre_tensor_store_count(store), m->count);
    gyre_tensor_store_free(store);
    json_t *config = json_of(in_folder("biased-back/config.json"));
    assert_true(json_is_true(json_object_get(config, "attention_bias")));
    assert_true(json_is_false(json_object_get(config, "tie_word_embeddings")));
    assert_true(test_number(config, "rms_norm_eps") == 1e-5);
    json_decref(config);
    assert_same_logits(in_folder("biased"), in_folder("biased-back"), 0);
    made_model_free(m);
}

/* Readers of both formats use a stored head, of a tied model too, so a GGUF goes without one only if it is the embedding. */
static void test_stored_head_of_a_tied_model(void **state) {
    (void)state;
    const gyre_convert_options there = to_gguf();
    for (int repeats = 0; repeats < 2; repeats++) {
        const char *from = repeats ? "repeated" : "own-head";
        made_model *m =
            make_folder_of(in_folder(from), "llama", TIED | (repeats ? REPEATED_HEAD : OWN_HEAD), "", GYRE_DTYPE_F32);
        convert(in_folder(from), in_folder("head.gguf"), &there);
        gyre_tensor_store *store = open_store(in_folder("head.gguf"));
        gyre_file_tensor head;
        assert_int_equal(gyre_tensor_store_find(store, "output.weight", &head), !repeats);
        if (!repeats) assert_unmoved(store, "output.weight", made_named(m, "lm_head.weight"));
        gyre_tensor_store_free(store);
        assert_same_logits(in_folder(from), in_folder("head.gguf"), 1e-6);
        made_model_free(m);
    }
}

/* llama.cpp rotates halves for this architecture: nothing moves. */
static void test_qwen_through_gguf(void **state) {
    (void)state;
    static const struct {
        const char *type;
        int traits;
    } families[] = {{"qwen2", BIASES}, {"qwen3", TIED | HEAD_NORMS}};
    const gyre_convert_options there = to_gguf();
    for (int f = 0; f < 2; f++) {
        char name[64], gguf[64], back[64];
        snprintf(name, sizeof name, "f%d", f);
        snprintf(gguf, sizeof gguf, "f%d.gguf", f);
        snprintf(back, sizeof back, "f%d-back", f);
        made_model *m = make_folder_of(in_folder(name), families[f].type, families[f].traits, "", GYRE_DTYPE_F32);
        convert(in_folder(name), in_folder(gguf), &there);
        gyre_tensor_store *store = open_store(in_folder(gguf));
        assert_unmoved(store, "blk.0.attn_q.weight", made_named(m, "model.layers.0.self_attn.q_proj.weight"));
        if (f == 1)
            assert_unmoved(store, "blk.1.attn_k_norm.weight", made_named(m, "model.layers.1.self_attn.k_norm.weight"));
        gyre_tensor_store_free(store);
        assert_same_logits(in_folder(name), in_folder(gguf), 1e-6);
        convert(in_folder(gguf), in_folder(back), NULL);
        store = open_store(in_folder(back));
        for (int i = 0; i < m->count; i++)
            assert_unmoved(store, m->tensor[i].name, &m->tensor[i]);
        gyre_tensor_store_free(store);
        json_t *config = json_of(in_folder(strcat(back, "/config.json")));
        assert_string_equal(test_string(config, "model_type"), families[f].type);
        json_decref(config);
        made_model_free(m);
    }
}

/* A qwen2 has no bias of o_proj: transformers leaves it out, and readers of a GGUF would add it. */
static void test_tensors_that_a_config_lacks(void **state) {
    (void)state;
    const gyre_convert_options there = to_gguf();
    made_model_free(make_folder_of(in_folder("out-bias"), "qwen2", BIASES | OUT_BIAS, "", GYRE_DTYPE_F32));
    refused(in_folder("out-bias"), in_folder("out-bias.gguf"), &there, GYRE_EFORMAT,
            "model.layers.0.self_attn.o_proj.bias: no tensor of the qwen2");
    made_model_free(make_folder_of(in_folder("some-bias"), "llama", BIASES, ", \"attention_bias\": true", GYRE_DTYPE_F32));
    refused(in_folder("some-bias"), in_folder("some-bias.gguf"), &there, GYRE_EFORMAT, "o_proj.bias: no such tensor");
    assert_int_equal(access(in_folder("out-bias.gguf"), F_OK), -1);
}

/* Scalings that GGUF has keys for, and scalings that it stores as divisors, give the same rotation after a round trip. */
static void test_scalings(void **state) {
    (void)state;
    static const char *const scalings[] = {
        ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 4.0}",
        ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 16}",
        ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 16, "
        "\"beta_fast\": 8.0}",
        ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, "
        "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 32}",
        ", \"rope_scaling\": {\"rope_type\": \"longrope\", \"factor\": 4.0, \"original_max_position_embeddings\": 16, "
        "\"short_factor\": [1.0, 1.0, 1.5, 2.0], \"long_factor\": [1.0, 1.5, 3.0, 4.0]}"};
    const gyre_convert_options there = to_gguf();
    for (int i = 0; i < 5; i++) {
        char name[64], gguf[64], back[64];
        snprintf(name, sizeof name, "s%d", i);
        snprintf(gguf, sizeof gguf, "s%d.gguf", i);
        snprintf(back, sizeof back, "s%d-back", i);
        made_model_free(make_folder_of(in_folder(name), "llama", TIED, scalings[i], GYRE_DTYPE_F32));
        convert(in_folder(name), in_folder(gguf), &there);
        convert(in_folder(gguf), in_folder(back), NULL);
        assert_same_logits(in_folder(name), in_folder(gguf), 2e-5); /* divisors and factors are floats there */
        assert_same_logits(in_folder(name), in_folder(back), 2e-5);
    }
}

/* -- types -- */
static void test_types(void **state) {
    (void)state;
    made_model *m = make_folder_of(in_folder("types"), "llama", TIED, "", GYRE_DTYPE_F32);
    const made_tensor *made = made_named(m, "model.layers.0.mlp.up_proj.weight");
    const gyre_convert_options brain = typed(GYRE_MODEL_FORMAT_SAFETENSORS, GYRE_DTYPE_BF16),
                               q8 = typed(GYRE_MODEL_FORMAT_GGUF, GYRE_DTYPE_Q8);
    convert(in_folder("types"), in_folder("brain"), &brain);
    gyre_tensor_store *store = open_store(in_folder("brain"));
    assert_int_equal(stored(store, made->name).type, GYRE_STORED_BF16);
    float *got = numbers_of(store, made->name);
    for (int64_t i = 0; i < made->count; i++) /* 8 bits of a number */
        assert_true(fabsf(got[i] - made->data[i]) <= fabsf(made->data[i]) / 256);
    free(got);
    gyre_tensor_store_free(store);
    json_t *config = json_of(in_folder("brain/config.json"));
    assert_string_equal(test_string(config, "torch_dtype"), "bfloat16");
    json_decref(config);
    convert(in_folder("types"), in_folder("types.gguf"), &q8);
    store = open_store(in_folder("types.gguf"));
    assert_int_equal(stored(store, "blk.0.ffn_up.weight").type, GYRE_STORED_Q8_0);
    assert_int_equal(stored(store, "output_norm.weight").type, GYRE_STORED_F32);
    got = numbers_of(store, "blk.0.ffn_up.weight");
    for (int64_t block = 0; block < made->count / 32;
         block++) { /* half a step of 1/127 of the largest number, with an f16 scale */
        float most = 0;
        for (int i = 0; i < 32; i++)
            most = fmaxf(most, fabsf(made->data[32 * block + i]));
        for (int i = 0; i < 32; i++)
            assert_true(fabsf(got[32 * block + i] - made->data[32 * block + i]) <=
                        most * (0.5f / 127 + 1.0f / 2048) * 1.01f);
    }
    free(got);
    gyre_tensor_store_free(store);
    /* Block types that safetensors does not have become f16. */
    convert(in_folder("types.gguf"), in_folder("from-q8"), NULL);
    store = open_store(in_folder("from-q8"));
    assert_int_equal(stored(store, made->name).type, GYRE_STORED_F16);
    gyre_tensor_store_free(store);
    made_model_free(m);
}

static void test_overflow(void **state) {
    (void)state;
    made_model *m = make_folder_of(in_folder("large"), "llama", TIED, "", GYRE_DTYPE_F32);
    made_tensor *t = (made_tensor *)made_named(m, "model.layers.1.mlp.up_proj.weight");
    gyre_safetensors_input list[MOST_TENSORS];
    t->data[70] = 1e6f;
    for (int i = 0; i < m->count; i++)
        list[i] = (gyre_safetensors_input){
            m->tensor[i].name, m->tensor[i].rank, {m->tensor[i].rows, m->tensor[i].columns, 1, 1}, m->tensor[i].data, 0};
    assert_ok(gyre_safetensors_write(in_folder("large/model.safetensors"), list, m->count, GYRE_DTYPE_F32, NULL));
    const gyre_convert_options half = typed(GYRE_MODEL_FORMAT_SAFETENSORS, GYRE_DTYPE_F16);
    refused(in_folder("large"), in_folder("large-half"), &half, GYRE_EINVAL,
            "model.layers.1.mlp.up_proj.weight: element 70");
    assert_int_equal(access(in_folder("large-half"), F_OK), -1);
    made_model_free(m);
}

/* Blocks of Q8_0 hold neither a NaN nor numbers whose step f16 does not have.  Sanitizers see what a cast made of both. */
static void test_blocks(void **state) {
    static const float cases[] = {NAN, INFINITY, 8.33e6f, 1e-40f}; /* f16 has no scale for the last two */
    const char *name = "model.layers.1.mlp.up_proj.weight";
    const gyre_convert_options q8 = typed(GYRE_MODEL_FORMAT_GGUF, GYRE_DTYPE_Q8);
    (void)state;
    made_model_free(make_folder_of(in_folder("odd"), "llama", TIED, "", GYRE_DTYPE_F32));
    gyre_tensor_store *store = open_store(in_folder("odd"));
    const long place = (long)stored(store, name).offset + 32 * 4; /* of the second block */
    gyre_tensor_store_free(store);
    for (int k = 0; k < 4; k++) {
        FILE *file = fopen(in_folder("odd/model.safetensors"), "r+b");
        assert_non_null(file);
        assert_int_equal(fseek(file, place, SEEK_SET), 0);
        for (int i = 0; i < 32; i++)
            assert_int_equal(fwrite(&cases[k], sizeof cases[k], 1, file), 1);
        assert_int_equal(fclose(file), 0);
        if (k < 3)
            refused(in_folder("odd"), in_folder("odd.gguf"), &q8, k < 2 ? GYRE_EFORMAT : GYRE_EINVAL,
                    "model.layers.1.mlp.up_proj.weight: element 32");
    }
    float numbers[64];
    convert(in_folder("odd"), in_folder("odd.gguf"), &q8);
    store = open_store(in_folder("odd.gguf"));
    const gyre_file_tensor up = stored(store, "blk.1.ffn_up.weight");
    gyre_stored_dequantize(gyre_kernels_select(), up.type, up.data, numbers, 64);
    for (int i = 0; i < 32; i++)
        assert_true(numbers[32 + i] == 0);
    gyre_tensor_store_free(store);
}

/* -- what is refused -- */
/* Neither a GGUF nor the config.json of a new class names an activation, so only SiLU gets there. */
static void test_activation(void **state) {
    (void)state;
    const gyre_convert_options gguf = to_gguf(), interleaved = laid(GYRE_LAYOUT_INTERLEAVED);
    const gyre_convert_options half = typed(GYRE_MODEL_FORMAT_SAFETENSORS, GYRE_DTYPE_F16);
    size_t bytes;
    made_model_free(make_folder_of(in_folder("relu"), "llama", TIED, "", GYRE_DTYPE_F32));
    char *config = whole_file(in_folder("relu/config.json"), &bytes), *name = strstr(config, "silu");
    assert_non_null(name);
    memcpy(name, "relu", 4);
    put_text(in_folder("relu/config.json"), config);
    free(config);
    refused(in_folder("relu"), in_folder("relu.gguf"), &gguf, GYRE_EUNSUPPORTED,
            "activation: ReLU, where readers of a GGUF of a llama");
    refused(in_folder("relu"), in_folder("relu-pairs"), &interleaved, GYRE_EUNSUPPORTED,
            "activation: ReLU, where readers of the config.json");
    assert_int_equal(access(in_folder("relu.gguf"), F_OK), -1);
    convert(in_folder("relu"), in_folder("relu-half"), &half);
    json_t *kept = json_of(in_folder("relu-half/config.json"));
    assert_string_equal(json_string_value(json_object_get(kept, "hidden_act")), "relu");
    json_decref(kept);
}

static void test_refused(void **state) {
    (void)state;
    const gyre_convert_options gguf = to_gguf(), interleaved = laid(GYRE_LAYOUT_INTERLEAVED);
    gyre_convert_options half_gguf = laid(GYRE_LAYOUT_HALF), wrong = usual;
    const gyre_convert_options q8 = typed(GYRE_MODEL_FORMAT_SAFETENSORS, GYRE_DTYPE_Q8);
    half_gguf.format = GYRE_MODEL_FORMAT_GGUF;
    wrong.size = 0;
    made_model_free(make_folder_of(in_folder("plain"), "llama", TIED, "", GYRE_DTYPE_F32));
    made_model_free(make_folder_of(in_folder("granite"), "granite", TIED, "", GYRE_DTYPE_F32));
    made_model_free(make_folder_of(in_folder("qwen2"), "qwen2", BIASES, "", GYRE_DTYPE_F32));
    made_model_free(make_folder_of(in_folder("dynamic"), "llama", TIED,
                                   ", \"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2.0}", GYRE_DTYPE_F32));
    refused(in_folder("plain"), in_folder("x.gguf"), &half_gguf, GYRE_EUNSUPPORTED, "a GGUF has no key for pairs");
    refused(in_folder("qwen2"), in_folder("x"), &interleaved, GYRE_EUNSUPPORTED, "config.json of a qwen2");
    refused(in_folder("granite"), in_folder("x.gguf"), &gguf, GYRE_EUNSUPPORTED, "granite: this family");
    refused(in_folder("dynamic"), in_folder("x.gguf"), &gguf, GYRE_EUNSUPPORTED, "its frequencies depend on the length");
    refused(in_folder("plain"), in_folder("x"), &q8, GYRE_EUNSUPPORTED, "eight bits");
    refused(in_folder("plain"), in_folder("x"), &wrong, GYRE_EINVAL, "size");
    refused(in_folder("plain"), in_folder("plain"), NULL, GYRE_EINVAL, "the model itself");
    refused(in_folder("nothing"), in_folder("x"), NULL, GYRE_EIO, "nothing");
    assert_int_equal(access(in_folder("x"), F_OK), -1);
    assert_int_equal(access(in_folder("x.gguf"), F_OK), -1);
}

/* Writes a model of Gyre's own. */
static void make_native(const char *name, gyre_kind kind, int64_t parts, void (*change)(gyre_model_config *c)) {
    gyre_model_config c = GYRE_INIT(gyre_model_config);
    gyre_model *model = NULL;
    gyre_error err = {0, ""};
    c.vocab = 256;
    c.model_dim = WIDTH;
    c.layers = LAYERS;
    c.heads = c.kv_heads = HEADS;
    c.head_dim = HEAD;
    c.mlp_dim = HIDDEN;
    c.layer_parts = parts;
    c.position.kind = kind;
    c.position.trained_length = CONTEXT;
    if (change) change(&c);
    must(gyre_model_create(&model, &c, 3, &err), &err);
    must(gyre_model_save(model, in_folder(name), GYRE_DTYPE_F32, &err), &err);
    gyre_model_free(model);
}

static void halve_keys(gyre_model_config *c) {
    c->kv_heads = c->heads / 2;
}
static void rotate_input(gyre_model_config *c) {
    c->rotates_input = 1;
}
static void clip_soft(gyre_model_config *c) {
    c->position.rope.clip = (struct gyre_clip_config){GYRE_CLIP_SOFT, 2};
}
static void clip_scaled(gyre_model_config *c) {
    c->position.rope.clip = (struct gyre_clip_config){GYRE_CLIP_HARD, 2};
    c->position.rope.scaling = GYRE_SCALING_LLAMA3;
    c->position.rope.factor = 4;
}
static void xpos(gyre_model_config *c) {
    c->position.rope.xpos_base = 512;
}
static void rerope(gyre_model_config *c) {
    c->position.rope.far = GYRE_FAR_CLAMPED;
    c->position.rope.far_window = 16;
}
static void logn(gyre_model_config *c) {
    c->position.query.temperature = GYRE_TEMPERATURE_LOG;
}
static void clockwise(gyre_model_config *c) {
    c->position.rope.clockwise = 1;
}
static void longrope_start(gyre_model_config *c) {
    static const double factors[HEAD / 2] = {1, 1.5, 2, 4};
    c->position.rope.scaling = GYRE_SCALING_LONGROPE;
    c->position.rope.short_factor = c->position.rope.long_factor = factors;
    c->position.rope.factor = 2;
    c->position.rope.longrope.start_tokens = 4;
}
static void longrope_policy(gyre_model_config *c) {
    longrope_start(c);
    c->position.rope.longrope.start_tokens = 0;
    c->position.length_policy = GYRE_LENGTH_POLICY_CAUSAL;
}

/* Tensors that turn queries and keys keep their bits in a copy in bf16, all others are bf16.  out = how many turn. */
static int check_turns_are_floats(const char *from, const char *to) {
    gyre_tensor_store *before = open_store(from), *after = open_store(to);
    int turns = 0;
    for (int64_t i = 0; i < gyre_tensor_store_count(after); i++) {
        const gyre_file_tensor t = gyre_tensor_store_at(after, i);
        int turning = 0;
        for (int p = 0; p < NAIVE_PARTS; p++)
            turning |= naive_parts[p].tensors && strstr(t.name, naive_parts[p].tensors);
        turns += turning;
        if (t.type != (turning ? GYRE_STORED_F32 : GYRE_STORED_BF16)) fail_msg("%s: %s", to, t.name);
        if (turning) assert_memory_equal(t.data, stored(before, t.name).data, t.bytes);
    }
    gyre_tensor_store_free(before);
    gyre_tensor_store_free(after);
    return turns;
}

static void count_loss(void *ctx, const char *what) {
    assert_non_null(strstr(what, "sliding_window: llama.cpp has none"));
    ++*(int *)ctx;
}

/* llama.cpp has no window for a llama.  One that hides no token is no loss; another is lost only if asked for. */
static void test_window(void **state) {
    (void)state;
    int told = 0;
    gyre_convert_options gguf = to_gguf();
    made_model_free(make_folder_of(in_folder("narrow"), "mistral", TIED, ", \"sliding_window\": 8", GYRE_DTYPE_F32));
    made_model_free(make_folder_of(in_folder("wide"), "mistral", TIED, ", \"sliding_window\": 4096", GYRE_DTYPE_F32));
    refused(in_folder("narrow"), in_folder("narrow.gguf"), &gguf, GYRE_EUNSUPPORTED,
            "sliding_window: llama.cpp has none for a llama, whose all layers see 8 of ");
    assert_int_equal(access(in_folder("narrow.gguf"), F_OK), -1);
    convert(in_folder("wide"), in_folder("wide.gguf"), &gguf);
    gguf.lost = count_loss;
    gguf.ctx = &told;
    convert(in_folder("narrow"), in_folder("narrow.gguf"), &gguf);
    assert_int_equal(told, 1);
    convert(in_folder("wide"), in_folder("wide.gguf"), &gguf);
    assert_int_equal(told, 1);
    gyre_reading *reading = NULL;
    assert_ok(gyre_reading_open(&reading, in_folder("narrow.gguf"), NULL, NULL));
    assert_int_equal(reading->groups[0]->window, 0);
    gyre_reading_free(reading);
}

/* What models of Gyre's own compute, and a llama does not: nothing is left out in silence.  As they are, they are copied.
 * Another order of pairs moves rows, which numbers of a layer would have to follow. */
static void test_native_refused(void **state) {
    (void)state;
    static const struct {
        gyre_kind kind;
        int64_t parts;
        void (*change)(gyre_model_config *c);
        const char *says;
    } cases[] = {{GYRE_KIND_NOPE, GYRE_LAYER_PART_FORGET_GATES, NULL, "forget_gates: layers of a llama have none"},
                 {GYRE_KIND_ROPE, GYRE_LAYER_PART_FORGET_GATES, NULL, "forget_gates: layers of a llama have none"},
                 {GYRE_KIND_NOPE, GYRE_LAYER_PART_CONTEXTUAL, NULL, "contextual: layers of a llama"},
                 {GYRE_KIND_ALIBI, GYRE_LAYER_PART_ADAPTIVE, NULL, "adaptive: layers of a llama"},
                 {GYRE_KIND_ROPE, 0, rotate_input, "rotates_input: layers of a llama"},
                 {GYRE_KIND_ALIBI, 0, NULL, "positions: alibi is not converted to a GGUF"},
                 {GYRE_KIND_ROPE, 0, clip_soft, "clipped rotation: a GGUF cannot state it"},
                 {GYRE_KIND_ROPE, 0, clip_scaled, "does not rotate, which a divisor in a GGUF cannot state"},
                 {GYRE_KIND_ROPE, 0, longrope_start, "start tokens of LongRoPE: a GGUF cannot state it"},
                 {GYRE_KIND_ROPE, 0, longrope_policy, "length policy: a GGUF cannot state it"},
                 {GYRE_KIND_ROPE, 0, xpos, "xPos: a GGUF cannot state it"},
                 {GYRE_KIND_ROPE, 0, rerope, "far positions: a GGUF cannot state it"},
                 {GYRE_KIND_ROPE, 0, logn, "temperature of queries: a GGUF cannot state it"},
                 {GYRE_KIND_ROPE, 0, clockwise, "rotation: a GGUF cannot state it"}};
    const gyre_convert_options gguf = to_gguf(), half = typed(GYRE_MODEL_FORMAT_SAFETENSORS, GYRE_DTYPE_BF16),
                               interleaved = laid(GYRE_LAYOUT_INTERLEAVED);
    enum { CASES = sizeof cases / sizeof *cases };
    int turns = 0, want = 0;
    for (int i = 0; i < CASES + NAIVE_PARTS; i++) {
        const naive_part *part = i < CASES ? NULL : &naive_parts[i - CASES];
        const int64_t parts = part ? part->parts : cases[i].parts;
        char name[32], copy[32], says[128];
        snprintf(name, sizeof name, "native%d", i);
        snprintf(copy, sizeof copy, "native%d-half", i);
        snprintf(says, sizeof says, part ? "%s: layers of a llama" : "%s", part ? part->key : cases[i].says);
        make_native(name, part ? GYRE_KIND_ROPE : cases[i].kind, parts, part ? halve_keys : cases[i].change);
        refused(in_folder(name), in_folder("native.gguf"), &gguf, GYRE_EUNSUPPORTED, says);
        if (part) refused(in_folder(name), in_folder("native-moved"), &interleaved, GYRE_EUNSUPPORTED, says);
        want += part ? part->count * (LAYERS - (part->first ? (int)part->first(LAYERS) : 0)) : 0;
        assert_int_equal(access(in_folder("native.gguf"), F_OK), -1);
        convert(in_folder(name), in_folder(copy), &half);
        gyre_model *model = NULL;
        gyre_error err = {0, ""};
        must(gyre_model_open(&model, in_folder(copy), NULL, &err), &err);
        assert_int_equal(gyre_model_get_config(model)->layer_parts, parts);
        gyre_model_free(model);
        turns += check_turns_are_floats(in_folder(name), in_folder(copy));
        must(gyre_model_open_to_train(&model, in_folder(name), &err), &err);
        must(gyre_model_save(model, in_folder("saved"), GYRE_DTYPE_BF16, &err), &err);
        gyre_model_free(model);
        check_turns_are_floats(in_folder(name), in_folder("saved"));
    }
    assert_int_equal(turns, want);
}

/* A wrong target name never destroys other files. */
static void test_targets(void **state) {
    (void)state;
    const gyre_convert_options gguf = to_gguf();
    made_model_free(make_folder_of(in_folder("source"), "llama", TIED, "", GYRE_DTYPE_F32));
    put_text(in_folder("source/tokenizer_config.json"), "{\"a\": 1}");
    put_text(in_folder("source/notes.txt"), "mine");
    assert_int_equal(mkdir(in_folder("other"), 0777), 0);
    put_text(in_folder("other/thesis.txt"), "mine");
    put_text(in_folder("thesis"), "mine");
    refused(in_folder("source"), in_folder("other"), NULL, GYRE_EINVAL, "thesis.txt");
    refused(in_folder("source"), in_folder("thesis"), NULL, GYRE_EINVAL, "a file has that name");
    refused(in_folder("source"), in_folder("thesis"), &gguf, GYRE_EINVAL, "is not a GGUF");
    refused(in_folder("source"), in_folder("other"), &gguf, GYRE_EINVAL, "a folder");
    /* A model replaces a model, and files next to the weights are copied, except those that belong to no model. */
    convert(in_folder("source"), in_folder("done"), NULL);
    convert(in_folder("source"), in_folder("done"), NULL);
    assert_same_file(in_folder("source/tokenizer_config.json"), in_folder("done/tokenizer_config.json"));
    assert_int_equal(access(in_folder("done/notes.txt"), F_OK), -1);
    convert(in_folder("source"), in_folder("done.gguf"), &gguf);
    convert(in_folder("source"), in_folder("done.gguf"), &gguf);
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (strstr(entry->d_name, "tmp")) fail_msg("%s was left", entry->d_name);
    closedir(dir);
}

/* A model without one of its tensors, or with one that the other format does not have. */
static void test_broken(void **state) {
    (void)state;
    const gyre_convert_options gguf = to_gguf();
    made_model *m = make_folder_of(in_folder("broken"), "llama", TIED, "", GYRE_DTYPE_F32);
    gyre_safetensors_input list[MOST_TENSORS];
    int n = 0;
    for (int i = 0; i < m->count; i++)
        if (strcmp(m->tensor[i].name, "model.layers.1.mlp.up_proj.weight") != 0)
            list[n++] = (gyre_safetensors_input){
                m->tensor[i].name, m->tensor[i].rank, {m->tensor[i].rows, m->tensor[i].columns, 1, 1}, m->tensor[i].data, 0};
    assert_ok(gyre_safetensors_write(in_folder("broken/model.safetensors"), list, n, GYRE_DTYPE_F32, NULL));
    refused(in_folder("broken"), in_folder("y.gguf"), &gguf, GYRE_EFORMAT, "no tensor model.layers.1.mlp.up_proj.weight");
    for (int i = 0; i < m->count; i++)
        list[i] = (gyre_safetensors_input){
            m->tensor[i].name, m->tensor[i].rank, {m->tensor[i].rows, m->tensor[i].columns, 1, 1}, m->tensor[i].data, 0};
    list[m->count] = list[0];
    list[m->count].name = "model.extra.weight";
    assert_ok(gyre_safetensors_write(in_folder("broken/model.safetensors"), list, m->count + 1, GYRE_DTYPE_F32, NULL));
    refused(in_folder("broken"), in_folder("y.gguf"), &gguf, GYRE_EUNSUPPORTED, "model.extra.weight");
    made_model_free(m);
}

typedef struct counted {
    int64_t done, all;
} counted;
static void count(void *ctx, int64_t done, int64_t all) {
    ((counted *)ctx)->done += done;
    ((counted *)ctx)->all = all;
}
static void test_progress(void **state) {
    (void)state;
    counted c = {0, 0};
    gyre_convert_options o = usual;
    o.watcher.progress = count;
    o.watcher.ctx = &c;
    made_model *m = make_folder_of(in_folder("counted"), "llama", TIED, "", GYRE_DTYPE_F32);
    int64_t bytes = 0;
    for (int i = 0; i < m->count; i++)
        bytes += 4 * m->tensor[i].count;
    convert(in_folder("counted"), in_folder("counted-to"), &o);
    assert_int_equal(c.all, bytes);
    assert_int_equal(c.done, bytes);
    made_model_free(m);
}

static int stop_at_once(void *ctx) {
    return ((counted *)ctx)->done > 0;
}
static void test_cancelled(void **state) {
    (void)state;
    counted c = {0, 0};
    gyre_convert_options o = usual;
    o.watcher.progress = count;
    o.watcher.stop = stop_at_once;
    o.watcher.ctx = &c;
    made_model_free(make_folder_of(in_folder("stopped"), "llama", TIED, "", GYRE_DTYPE_F32));
    refused(in_folder("stopped"), in_folder("stopped-to"), &o, GYRE_EIO, "stopped");
    o.format = GYRE_MODEL_FORMAT_GGUF;
    refused(in_folder("stopped"), in_folder("stopped-to.gguf"), &o, GYRE_EIO, "stopped");
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (strstr(entry->d_name, "stopped-to")) fail_msg("%s was left", entry->d_name);
    closedir(dir);
}

static void write_to_source(void *ctx, int64_t done, int64_t all) {
    (void)done, (void)all;
    struct stat info;
    assert_int_equal(stat(ctx, &info), 0);
    assert_int_equal(truncate(ctx, info.st_size - 1), 0);
}

/* A model whose file loses its end meanwhile would be converted with zeros there. */
static void test_source_cut_meanwhile(void **state) {
    (void)state;
    gyre_convert_options o = usual;
    char weights[512];
    struct stat info;
    for (int gguf = 0; gguf < 2; gguf++) {
        const char *target = gguf ? "cut-to.gguf" : "cut-to";
        made_model_free(make_folder_of(in_folder(gguf ? "cut2" : "cut"), "llama", TIED, "", GYRE_DTYPE_F32));
        snprintf(weights, sizeof weights, "%s", in_folder(gguf ? "cut2/model.safetensors" : "cut/model.safetensors"));
        o.format = gguf ? GYRE_MODEL_FORMAT_GGUF : GYRE_MODEL_FORMAT_SAFETENSORS;
        o.watcher.progress = write_to_source;
        o.watcher.ctx = weights;
        refused(in_folder(gguf ? "cut2" : "cut"), in_folder(target), &o, GYRE_EIO, "changed while it was read");
        assert_int_not_equal(stat(in_folder(target), &info), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout_round_trip),
        cmocka_unit_test(test_source_layout),
        cmocka_unit_test(test_written_bytes),
        cmocka_unit_test(test_llama_through_gguf),
        cmocka_unit_test(test_stored_head_of_a_tied_model),
        cmocka_unit_test(test_qwen_through_gguf),
        cmocka_unit_test(test_tensors_that_a_config_lacks),
        cmocka_unit_test(test_scalings),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_activation),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_native_refused),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_source_cut_meanwhile),
    };
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
