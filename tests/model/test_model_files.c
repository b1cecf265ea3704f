/* test_model_files.c: the layout of weights, their initial values, and model folders that stay whole after errors and
 * kills. */
#include "files/file_read.h"
#include "files/replace_folder.h"
#include "files/tensors/safetensors.h"
#include "left_names.h"
#include "make_small_model.h"
#include "model/model.h"
#include "naive_positions.h"
#include "support.h"
#include "util/random.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_text(const char *name, const char *text) {
    write_file(name, text, strlen(text));
}

static int exists(const char *name) {
    struct stat info;
    return lstat(in_folder(name), &info) == 0;
}

static void assert_holds(const char *name, const char *wanted) {
    char *text = NULL;
    size_t bytes;
    gyre_error err = {0, ""};
    if (gyre_file_read(in_folder(name), GYRE_FILE_MAX, &text, &bytes, &err) != GYRE_OK) fail_msg("%s", err.text);
    assert_string_equal(text, wanted);
    assert_int_equal(bytes, strlen(wanted));
    free(text);
}

/* -- weights -- */
static gyre_model *create_small(gyre_kind kind, uint64_t seed) {
    const gyre_model_config config = small_config(kind);
    return create(&config, seed);
}

static void test_random_numbers(void **state) {
    (void)state;
    uint64_t generator = 1234567; /* vectors published with the generator */
    assert_true(gyre_random_next(&generator) == 6457827717110365317u);
    assert_true(gyre_random_next(&generator) == 3203168211198807973u);
    assert_true(gyre_random_next(&generator) == 9817491932198370423u);
    double sum = 0, squares = 0, fourths = 0;
    enum { DRAWS = 200000 };
    for (int i = 0; i < DRAWS; i++) {
        const double x = gyre_random_normal(&generator);
        sum += x;
        squares += x * x;
        fourths += x * x * x * x;
    }
    assert_true(fabs(sum / DRAWS) < 0.01);
    assert_true(fabs(squares / DRAWS - 1.0) < 0.02);
    assert_true(fabs(fourths / DRAWS - 2.9) < 0.1); /* twelve uniforms: 3 - 1.2 / 12 */
}

static void test_layout(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t rows, columns;
        int rank;
    } wanted[] = {{"model.embed_tokens.weight", 50, 24, 2},
                  {"model.embed_positions.weight", 64, 24, 2},
                  {"model.layers.0.input_layernorm.weight", 24, 1, 1},
                  {"model.layers.0.self_attn.q_proj.weight", 32, 24, 2},
                  {"model.layers.0.self_attn.k_proj.weight", 16, 24, 2},
                  {"model.layers.0.self_attn.v_proj.weight", 16, 24, 2},
                  {"model.layers.0.self_attn.o_proj.weight", 24, 32, 2},
                  {"model.layers.0.post_attention_layernorm.weight", 24, 1, 1},
                  {"model.layers.0.mlp.gate_proj.weight", 40, 24, 2},
                  {"model.layers.0.mlp.up_proj.weight", 40, 24, 2},
                  {"model.layers.0.mlp.down_proj.weight", 24, 40, 2},
                  {"model.layers.1.input_layernorm.weight", 24, 1, 1}};
    gyre_model *model = create_small(GYRE_KIND_LEARNED, 1);
    int64_t offset = 0;
    assert_int_equal(gyre_tensor_count(&model->layout), 2 + 2 * 9 + 1);
    for (int64_t i = 0; i < gyre_tensor_count(&model->layout); i++) {
        const gyre_tensor tensor = gyre_tensor_at(&model->layout, i);
        assert_int_equal(tensor.offset, offset);
        offset += tensor.shape[0] * tensor.shape[1];
        if (i >= (int64_t)(sizeof wanted / sizeof *wanted)) continue;
        assert_string_equal(tensor.name, wanted[i].name);
        assert_int_equal(tensor.shape[0], wanted[i].rows);
        assert_int_equal(tensor.shape[1], wanted[i].columns);
        assert_int_equal(tensor.rank, wanted[i].rank);
    }
    assert_string_equal(gyre_tensor_at(&model->layout, 20).name, "model.norm.weight");
    assert_int_equal(gyre_model_parameters(model), offset);
    assert_int_equal(model->layout.final_norm.offset, offset - 24);
    assert_int_equal(model->layout.input.offset, 50 * 24);
    assert_int_equal(gyre_layer_tensor_offset(&model->layout, 1, GYRE_WEIGHT_DOWN),
                     gyre_tensor_at(&model->layout, 19).offset);
    assert_int_equal((uintptr_t)model->weights % 64, 0);
    gyre_model_free(model);
    model = create_small(GYRE_KIND_ROPE, 1);
    assert_null(model->layout.input.name);
    assert_int_equal(gyre_model_parameters(model), offset - 64 * 24);
    gyre_model_free(model);
}

static void test_initial_weights(void **state) {
    (void)state;
    /* Computed by another program from the definition of the generator. */
    const float embedding[3] = {-0x1.3d84bep-5f, -0x1.c17d7ap-5f, 0x1.21e2ap-5f};
    const float down[3] = {0x1.72fb8ep-4f, -0x1.1544bap-5f, 0x1.9516cep-5f};
    gyre_model *model = create_small(GYRE_KIND_NOPE, 1);
    const float *of_down = model->weights + gyre_layer_tensor_offset(&model->layout, 1, GYRE_WEIGHT_DOWN);
    assert_memory_equal(model->weights, embedding, sizeof embedding);
    assert_memory_equal(of_down, down, sizeof down);
    assert_true(fabs(deviation_of(model->weights, 50 * 24) / 0.05 - 1) < 0.1);
    assert_true(fabs(deviation_of(of_down, 24 * 40) * sqrt(40) * 2 - 1) < 0.1); /* 2 = sqrt(2 layers) */
    assert_true(fabs(deviation_of(model->weights + gyre_layer_tensor_offset(&model->layout, 0, GYRE_WEIGHT_O), 24 * 32) *
                         sqrt(32) * 2 -
                     1) < 0.1);
    assert_true(
        fabs(deviation_of(model->weights + gyre_layer_tensor_offset(&model->layout, 0, GYRE_WEIGHT_UP), 24 * 40) * sqrt(24) -
             1) < 0.1);
    for (int64_t i = 0; i < 24; i++) {
        assert_true(model->weights[gyre_layer_tensor_offset(&model->layout, 0, GYRE_WEIGHT_ATTN_NORM) + i] == 1.0f);
        assert_true(model->weights[model->layout.final_norm.offset + i] == 1.0f);
    }
    gyre_model_free(model);
}

static void test_seeds(void **state) {
    (void)state;
    gyre_model *a = create_small(GYRE_KIND_LEARNED, 9), *b = create_small(GYRE_KIND_LEARNED, 9),
               *other = create_small(GYRE_KIND_LEARNED, 8), *rope = create_small(GYRE_KIND_ROPE, 9);
    const int64_t layers = gyre_layer_tensor_offset(&a->layout, 0, 0),
                  of_rope = gyre_layer_tensor_offset(&rope->layout, 0, 0);
    assert_memory_equal(a->weights, b->weights, (size_t)a->weight_count * sizeof *a->weights);
    assert_memory_not_equal(a->weights, other->weights, 64);
    /* Encodings can be compared: their models start from the same weights. */
    assert_memory_equal(a->weights, rope->weights, 50 * 24 * sizeof *a->weights);
    assert_memory_equal(a->weights + layers, rope->weights + of_rope,
                        (size_t)(rope->weight_count - of_rope) * sizeof *a->weights);
    gyre_model_free(a);
    gyre_model_free(b);
    gyre_model_free(other);
    gyre_model_free(rope);
}

static void test_refuses_sizes(void **state) {
    (void)state;
    const int64_t large = INT32_MAX;
    enum { CASES = 13 };
    gyre_model_config c[CASES];
    static const char *const why[CASES] = {
        "vocab",        "width",   "layers",           "heads",    "kv_heads", "head_dim", "hidden", "not a multiple",
        "norm_epsilon", "x width", "heads x head_dim", "layers x", "size"};
    for (int i = 0; i < CASES; i++)
        c[i] = small_config(GYRE_KIND_NOPE);
    c[0].vocab = -1;
    c[1].model_dim = -1;
    c[2].layers = INT64_MAX;
    c[3].heads = large + 1;
    c[4].kv_heads = -1;
    c[5].head_dim = INT64_MIN;
    c[6].mlp_dim = -1;
    c[7].kv_heads = 3;
    c[8].norm_epsilon = NAN;
    c[9].vocab = c[9].model_dim = large;
    c[10].heads = c[10].head_dim = 1 << 20;
    c[11].layers = large;
    c[12].size = 4;
    for (int i = 0; i < CASES; i++) {
        gyre_model *model = NULL;
        gyre_error err = {0, ""};
        assert_int_equal(gyre_model_create(&model, &c[i], 1, &err), GYRE_EINVAL);
        if (!strstr(err.text, why[i])) fail_msg("\"%s\", not %s", err.text, why[i]);
        assert_null(model);
    }
    gyre_model_config far = small_config(GYRE_KIND_SHAW);
    gyre_error err = {0, ""};
    gyre_model *model;
    far.position.score.max_distance = (1 << 20) + 1;
    assert_int_equal(gyre_model_create(&model, &far, 1, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "score.max_distance: 1048577 is past 1048576"));
    gyre_model_config rope = small_config(GYRE_KIND_ROPE);
    rope.head_dim = 7;
    assert_int_equal(gyre_model_create(&model, &rope, 1, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_model_create(NULL, &rope, 1, NULL), GYRE_EINVAL);
}

/* -- save and open -- */
static void assert_comes_back(const gyre_model *model, gyre_dtype type) {
    save(model, "m", type);
    gyre_model *back = open_model("m");
    assert_int_equal(back->weight_count, model->weight_count);
    assert_int_equal(gyre_model_get_config(back)->position.kind, model->config.position.kind);
    for (int64_t i = 0; i < model->weight_count; i++) {
        double stored;
        test_put(&stored, type, 0, (double)model->weights[i]);
        assert_true(back->weights[i] == (float)test_get(&stored, type, 0));
    }
    gyre_model_free(back);
}

static void test_saves_and_opens(void **state) {
    (void)state;
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_BF16, GYRE_DTYPE_F16};
    gyre_model_config c = small_config(GYRE_KIND_NOPE);
    for (int i = 0; naive_case(i, 64, &c.position); i++)
        for (size_t t = 0; t < 3; t++) {
            gyre_model *model = create(&c, 3);
            assert_comes_back(model, types[t]);
            gyre_model_free(model);
        }
    assert_int_equal(count_entries(folder), 1);
    assert_int_equal(count_entries(in_folder("m")), 2);
}

enum { READ_TOKENS = 40 };
static void read_tokens(const gyre_model *model, float *logits) {
    int32_t tokens[READ_TOKENS];
    gyre_context *context = NULL;
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    options.max_tokens = READ_TOKENS;
    for (int i = 0; i < READ_TOKENS; i++)
        tokens[i] = (i * 7 + 3) % 50;
    assert_ok(gyre_context_create(&context, model, &options, NULL));
    assert_ok(gyre_context_forward(context, tokens, READ_TOKENS, READ_TOKENS, logits, NULL));
    gyre_context_free(context);
}

/* A model opened to be read keeps its matrices in the type of the file, and reads as its floats do.  It is not saved. */
static void test_matrices_stay_as_stored(void **state) {
    (void)state;
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_BF16, GYRE_DTYPE_F16};
    static const char *const names[] = {"F32", "BF16", "F16"};
    static float logits[2][READ_TOKENS * 50];
    const int64_t matrices = 50 * 24 + 2 * (32 * 24 + 2 * 16 * 24 + 24 * 32 + 3 * 40 * 24);
    gyre_model_config c = small_config(GYRE_KIND_NOPE);
    for (int i = 0; naive_case(i, 64, &c.position); i++)
        for (int t = 0; t < 3; t++) {
            gyre_model *made = create(&c, 3), *opened = NULL;
            gyre_error err = {0, ""};
            save(made, "m", types[t]);
            gyre_model *floats = open_model("m");
            if (gyre_model_open(&opened, in_folder("m"), NULL, &err)) fail_msg("%s", err.text);
            const gyre_model_source source = source_of(opened);
            assert_string_equal(source.stored, names[t]);
            const int64_t vectors = 2 * c.heads * gyre_query_vectors_of(&c) * 24; /* channels of queries that keys lack */
            assert_int_equal(source.weight_bytes, (matrices + vectors) * (int64_t)gyre_dtype_size(types[t]));
            read_tokens(floats, logits[0]);
            read_tokens(opened, logits[1]);
            for (int k = 0; k < READ_TOKENS * 50; k++)
                test_close((long double)logits[1][k], (long double)logits[0][k], 2e-5L, "logit");
            assert_int_equal(gyre_model_save(opened, in_folder("other"), GYRE_DTYPE_F32, &err), GYRE_EUNSUPPORTED);
            gyre_model_free(made);
            gyre_model_free(floats);
            gyre_model_free(opened);
        }
}

/* Writes the first `count` tensors of the model, and one more named `extra` if that is not NULL. */
static void write_tensors(const gyre_model *model, int64_t count, const char *extra, int64_t extra_rows) {
    gyre_tensor tensors[32];
    gyre_safetensors_input list[33];
    for (int64_t i = 0; i < count; i++) {
        tensors[i] = gyre_tensor_at(&model->layout, i);
        list[i] = (gyre_safetensors_input){tensors[i].name,
                                           tensors[i].rank,
                                           {tensors[i].shape[0], tensors[i].shape[1]},
                                           model->weights + tensors[i].offset,
                                           0};
    }
    list[count] = (gyre_safetensors_input){extra, 1, {extra_rows}, model->weights, 0};
    assert_ok(gyre_safetensors_write(in_folder("m/model.safetensors"), list, count + (extra != NULL), GYRE_DTYPE_F32, NULL));
}

/* Tensors lie in a file as its writer pleased: other programs sort them by name, which puts o between k and q. */
static void read_logits(const gyre_model *model, float logits[3 * 50]) {
    const int32_t tokens[3] = {7, 40, 3};
    gyre_context *context = NULL;
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_error err = {0, ""};
    options.max_tokens = 3;
    if (gyre_context_create(&context, model, &options, &err)) fail_msg("%s", err.text);
    if (gyre_context_forward(context, tokens, 3, 3, logits, &err)) fail_msg("%s", err.text);
    gyre_context_free(context);
}

/* Figures of a model whose file was cut would be part zeros: a read fails. */
static void test_cut_while_read(void **state) {
    (void)state;
    gyre_model *made = create_small(GYRE_KIND_ROPE, 3), *opened = NULL;
    gyre_error err = {0, ""};
    gyre_context *context = NULL;
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    const int32_t tokens[2] = {1, 2};
    save(made, "m", GYRE_DTYPE_F32);
    assert_ok(gyre_model_open(&opened, in_folder("m"), NULL, &err));
    options.max_tokens = 8;
    assert_ok(gyre_context_create(&context, opened, &options, NULL));
    assert_ok(gyre_context_forward(context, tokens, 2, 0, NULL, NULL));
    assert_int_equal(truncate(in_folder("m/model.safetensors"), source_of(opened).bytes - 1), 0);
    assert_int_equal(gyre_context_forward(context, tokens, 2, 0, NULL, &err), GYRE_EIO);
    assert_non_null(strstr(err.text, "m/model.safetensors: changed while it was read"));
    gyre_context_free(context);
    gyre_model_free(opened);
    gyre_model_free(made);
}

static void test_order_of_tensors(void **state) {
    (void)state;
    enum { MOST = 64 };
    for (int rotates = 0; rotates < 2; rotates++) {
        gyre_model_config c = small_config(GYRE_KIND_ROPE);
        gyre_safetensors_input list[MOST];
        gyre_tensor tensors[MOST];
        gyre_model *mapped = NULL;
        gyre_error err = {0, ""};
        float own[3 * 50], read[3 * 50];
        c.rotates_input = rotates;
        gyre_model *model = create(&c, 5);
        const int64_t count = gyre_tensor_count(&model->layout);
        assert_true(count <= MOST);
        save(model, "m", GYRE_DTYPE_F32);
        for (int64_t i = 0; i < count; i++) {
            tensors[i] = gyre_tensor_at(&model->layout, count - 1 - i);
            list[i] = (gyre_safetensors_input){tensors[i].name,
                                               tensors[i].rank,
                                               {tensors[i].shape[0], tensors[i].shape[1]},
                                               model->weights + tensors[i].offset,
                                               0};
        }
        assert_ok(gyre_safetensors_write(in_folder("m/model.safetensors"), list, count, GYRE_DTYPE_F32, &err));
        assert_ok(gyre_model_open(&mapped, in_folder("m"), NULL, &err));
        read_logits(model, own);
        read_logits(mapped, read);
        assert_memory_equal(own, read, sizeof own);
        gyre_model_free(mapped);
        gyre_model_free(model);
    }
}

static void test_refuses_weights(void **state) {
    (void)state;
    gyre_model *model = create_small(GYRE_KIND_ROPE, 3);
    const int64_t count = gyre_tensor_count(&model->layout);
    save(model, "m", GYRE_DTYPE_F32);
    write_tensors(model, count - 1, NULL, 0);
    assert_open_fails("m", GYRE_EFORMAT, "no tensor model.norm.weight");
    write_tensors(model, count - 1, "model.norm.weight", 23);
    assert_open_fails("m", GYRE_EFORMAT, "model.norm.weight: shape [23], not [24]");
    write_tensors(model, count, "model.layers.0.self_attn.q_proj.bias", 32);
    assert_open_fails("m", GYRE_EFORMAT, "q_proj.bias: no tensor of the model");
    write_tensors(model, count, "model.layers.2.input_layernorm.weight", 24);
    assert_open_fails("m", GYRE_EFORMAT, "layers.2.input_layernorm.weight: no tensor of the model");
    write_tensors(model, count, "lm_head.weight", 24);
    gyre_model_free(open_model("m"));
    write_tensors(model, count, "model.layers.0.self_attn.rotary_emb.inv_freq", 4);
    gyre_model_free(open_model("m"));
    assert_int_equal(unlink(in_folder("m/model.safetensors")), 0);
    assert_open_fails("m", GYRE_EIO, "model.safetensors: No such file");
    gyre_model_free(model);
}

static void test_refuses_nan_weights(void **state) {
    (void)state;
    gyre_model *model = create_small(GYRE_KIND_ROPE, 3);
    gyre_error err;
    save(model, "m", GYRE_DTYPE_F32);
    const float kept = model->weights[0];
    model->weights[0] = NAN;
    assert_int_equal(gyre_model_save(model, in_folder("m"), GYRE_DTYPE_F32, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "embed_tokens"));
    assert_int_equal(count_entries(folder), 1); /* the old model, and nothing next to it */
    gyre_model *back = open_model("m");
    assert_true(back->weights[0] == kept);
    gyre_model_free(back);
    /* The first number of the data is this weight. */
    const unsigned char bytes[4] = {0, 0, 0xc0, 0x7f};
    FILE *file = fopen(in_folder("m/model.safetensors"), "r+b");
    unsigned char size[8];
    assert_non_null(file);
    assert_int_equal(fread(size, 1, 8, file), 8);
    assert_int_equal(fseek(file, 8 + size[0] + 256 * size[1], SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, 4, file), 4);
    assert_int_equal(fclose(file), 0);
    assert_open_fails("m", GYRE_EFORMAT, "model.embed_tokens.weight: element 0 is not a number");
    gyre_model_free(model);
}

static void replace_in_config(const char *from, const char *to) {
    char *text, out[4096];
    size_t bytes;
    assert_ok(gyre_file_read(in_folder("m/config.json"), GYRE_FILE_MAX, &text, &bytes, NULL));
    char *at = strstr(text, from);
    assert_non_null(at);
    snprintf(out, sizeof out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    free(text);
    write_text("m/config.json", out);
}

/* Impossible sizes are refused before memory is allocated: the weights are missing. */
static void test_refuses_configs(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *why;
    } cases[] = {{"\"vocab_size\": 50", "\"vocab_size\": 51", "embed_tokens.weight: shape [50, 24], not [51, 24]"},
                 {"\"vocab_size\": 50", "\"vocab_size\": 2000000000", "embed_tokens.weight: shape"},
                 {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", "no tensor model.layers.2"},
                 {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1", "layers.1.input_layernorm.weight: no tensor of"},
                 {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1000000000", "num_hidden_layers: 1000000000 layers"},
                 {"\"head_dim\": 8", "\"head_dim\": 60000", "q_proj.weight: shape"},
                 {"\"head_dim\": 8", "\"head_dim\": 500000000", "head_dim: 500000000 channels"},
                 {"\"head_dim\": 8", "\"head_dim\": 9007199254740992", "head_dim"},
                 {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "not a multiple of kv_heads"},
                 {"\"rope_scaling\": null", "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2.0, \"mscale\": -1.0}",
                  "rope_scaling.mscale: -1 is below 0"},
                 {"\"hidden_size\": 24", "", "config"}};
    gyre_model *model = create_small(GYRE_KIND_ROPE, 3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        save(model, "m", GYRE_DTYPE_BF16);
        replace_in_config(cases[i].from, cases[i].to);
        assert_open_fails("m", GYRE_EFORMAT, cases[i].why);
    }
    assert_int_equal(unlink(in_folder("m/config.json")), 0);
    assert_open_fails("m", GYRE_EIO, "config.json: No such file");
    assert_open_fails("nowhere", GYRE_EIO, "No such file");
    gyre_model_free(model);
}

/* -- folders -- */
/* Commits one file and returns the status. */
static gyre_status commit(const char *path, const char *text, gyre_error *err) {
    gyre_folder_replacement f;
    gyre_status status = gyre_folder_begin(&f, path, err);
    if (status != GYRE_OK) return status;
    status = gyre_folder_write(&f, "config.json", text, err);
    if (status == GYRE_OK) status = gyre_folder_commit(&f, err);
    if (status != GYRE_OK) gyre_folder_discard(&f);
    return status;
}

static void test_replaces_in_one_step(void **state) {
    (void)state;
    gyre_folder_replacement f;
    char path[PATH_MAX];
    assert_ok(commit(in_folder("a"), "one", NULL));
    assert_ok(gyre_folder_begin(&f, in_folder("a"), NULL));
    assert_ok(gyre_folder_write(&f, "config.json", "two", NULL));
    assert_ok(gyre_folder_path(&f, "train.log", path, NULL));
    assert_non_null(strstr(path, ".gyre-"));
    assert_holds("a/config.json", "one");
    assert_ok(gyre_folder_commit(&f, NULL));
    assert_holds("a/config.json", "two");
    assert_int_equal(count_entries(folder), 1);
    assert_ok(gyre_folder_begin(&f, in_folder("a"), NULL));
    gyre_folder_discard(&f);
    gyre_folder_discard(&f);
    assert_holds("a/config.json", "two");
    assert_int_equal(count_entries(folder), 1);
}

static void test_any_folder_name(void **state) {
    (void)state;
    char here[PATH_MAX];
    assert_ok(commit(in_folder("x/y/z///"), "deep", NULL));
    assert_holds("x/y/z/config.json", "deep");
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    assert_ok(commit("relative", "r", NULL));
    assert_ok(commit("./x/../other/", "o", NULL));
    assert_int_equal(chdir("relative"), 0);
    assert_ok(commit(".", "dot", NULL));
    assert_int_equal(chdir(here), 0);
    assert_holds("relative/config.json", "dot");
    assert_holds("other/config.json", "o");
    assert_int_equal(symlink("relative", in_folder("link")), 0);
    assert_ok(commit(in_folder("link"), "through", NULL));
    assert_holds("relative/config.json", "through");
    struct stat info;
    assert_int_equal(lstat(in_folder("link"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
}

static void test_other_folders_are_untouched(void **state) {
    (void)state;
    gyre_error err;
    char long_name[PATH_MAX];
    assert_int_equal(mkdir(in_folder("photos"), 0755), 0);
    assert_ok(commit(in_folder("photos"), "empty before", NULL));
    write_text("photos/cat.jpg", "meow");
    assert_int_equal(commit(in_folder("photos"), "new", &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "holds other files, such as cat.jpg"));
    assert_holds("photos/cat.jpg", "meow");
    write_text("file", "text");
    assert_int_equal(commit(in_folder("file"), "new", &err), GYRE_EINVAL);
    assert_int_equal(commit(in_folder("file/below"), "new", &err), GYRE_EIO);
    assert_holds("file", "text");
    assert_int_equal(commit("", "new", &err), GYRE_EINVAL);
    assert_int_equal(commit("/", "new", &err), GYRE_EINVAL);
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(commit(long_name, "new", &err), GYRE_EIO);
    assert_int_equal(count_entries(folder), 2);
    /* A file that is created between begin and commit is preserved too. */
    gyre_folder_replacement f;
    assert_ok(gyre_folder_begin(&f, in_folder("late"), NULL));
    assert_int_equal(mkdir(in_folder("late"), 0755), 0);
    write_text("late/thesis.tex", "three years");
    assert_int_equal(gyre_folder_commit(&f, &err), GYRE_EINVAL);
    gyre_folder_discard(&f);
    assert_holds("late/thesis.tex", "three years");
}

static void test_user_files_are_kept(void **state) {
    (void)state;
    assert_ok(commit(in_folder("a"), "one", NULL));
    write_text("a/README.md", "mine");
    write_text("a/training.json", "old state");
    FILE *log = fopen(in_folder("a/train.log"), "w");
    assert_non_null(log);
    assert_ok(commit(in_folder("a"), "two", NULL));
    assert_true(fputs("step 1", log) >= 0);
    assert_int_equal(fclose(log), 0);
    assert_holds("a/README.md", "mine");
    assert_holds("a/train.log", "step 1");
    assert_int_equal(exists("a/training.json"), 0); /* of an older state of the weights */
}

/* The child ends where a kill -9 could hit it. */
static pid_t die_before_commit(void) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        gyre_folder_replacement f;
        if (gyre_folder_begin(&f, in_folder("a"), NULL) == GYRE_OK &&
            gyre_folder_write(&f, "config.json", "half", NULL) == GYRE_OK)
            raise(SIGKILL);
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    return child;
}

static void test_survives_a_kill(void **state) {
    (void)state;
    assert_ok(commit(in_folder("a"), "whole", NULL));
    const char *name = left_by("a", (long)die_before_commit(), 0);
    assert_holds("a/config.json", "whole");
    assert_true(exists(name));
    assert_ok(commit(in_folder("a"), "next", NULL));
    assert_holds("a/config.json", "next");
    assert_int_equal(exists(name), 0);
}

/* Folders of other names, or with other files, are nobody's leftovers, whether a process has that number or not. */
static void test_other_leftovers_are_kept(void **state) {
    (void)state;
    static const char *const others[] = {
        "a.tmp-4194305",      "a.gyre-x-0.tmp",  "a.gyre-.tmp",   "a.gyre-5.tmp",         "a.gyre-5-.tmp",
        "a.gyre-5-0.tmp.bak", "ab.gyre-5-0.tmp", "a.old-4194305", "a.gyre-4194305-0.tmp", "a.gyre-4194305-0-01234567.tmp"};
    enum { OTHERS = sizeof others / sizeof *others };
    const char *const left[] = {left_by("a", DEAD, 0), left_by("a", DEAD + 1, 0), left_by("a", DEAD + 2, 0)};
    char files[OTHERS + 1][128]; /* the last: a file that no checkpoint has, in a folder of a killed run */
    for (int i = 0; i <= OTHERS; i++) {
        snprintf(files[i], sizeof files[i], "%.100s/%s", i < OTHERS ? others[i] : left[0], i < OTHERS ? "config.json" : "x");
        assert_int_equal(mkdir(in_folder(i < OTHERS ? others[i] : left[0]), 0755), 0);
        write_text(files[i], "mine");
    }
    char half[128];
    assert_int_equal(mkdir(in_folder(left[1]), 0755), 0);
    snprintf(half, sizeof half, "%.100s/model.safetensors", left[1]);
    write_text(half, "half");
    write_text(left_by(half, 7, 0), "half");
    assert_int_equal(symlink("ab.gyre-5-0.tmp", in_folder(left[2])), 0);
    assert_ok(commit(in_folder("a"), "new", NULL));
    for (int i = 0; i <= OTHERS; i++)
        assert_holds(files[i], "mine");
    assert_int_equal(exists(left[1]), 0);
    assert_true(exists(left[2]));
}

/* A folder that a living process writes stays, whatever number its name has. */
static void test_a_living_writer_keeps_its_folder(void **state) {
    (void)state;
    gyre_folder_replacement f;
    assert_ok(gyre_folder_begin(&f, in_folder("a"), NULL));
    assert_ok(gyre_folder_write(&f, "config.json", "slow", NULL));
    const char *path = left_by(in_folder("a"), DEAD, 0);
    assert_int_equal(rename(f.temporary, path), 0);
    snprintf(f.temporary, sizeof f.temporary, "%s", path);
    assert_ok(commit(in_folder("a"), "quick", NULL));
    assert_holds("a/config.json", "quick");
    assert_ok(gyre_folder_commit(&f, NULL));
    assert_holds("a/config.json", "slow");
    assert_int_equal(count_entries(folder), 1);
}

/* Where two renames replace an exchange, a kill between them leaves the old model under a backup name. */
static void test_recovers_from_a_kill_between_renames(void **state) {
    (void)state;
    char aside[GYRE_TEMPORARY_PATH_BYTES];
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    const char *temporary = left_by("a", (long)child, 0);
    gyre_temporary_name_aside(aside, in_folder(temporary));
    assert_ok(commit(in_folder("a"), "old", NULL));
    assert_int_equal(rename(in_folder("a"), aside), 0);
    assert_int_equal(mkdir(in_folder(temporary), 0755), 0);
    assert_ok(gyre_folder_recover(in_folder("a"), NULL));
    assert_holds("a/config.json", "old");
    assert_int_equal(count_entries(folder), 1);
    assert_int_equal(mkdir(aside, 0755), 0);
    assert_ok(gyre_folder_recover(in_folder("a"), NULL));
    assert_int_equal(count_entries(folder), 1);
    assert_ok(gyre_folder_recover(in_folder("no/such/parent"), NULL));
}

/* A limit on file sizes acts as a full disk: the write fails with the system's reason. */
static void test_survives_a_full_disk(void **state) {
    (void)state;
    gyre_model *model = create_small(GYRE_KIND_ROPE, 3);
    save(model, "a", GYRE_DTYPE_F32);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit limit = {8192, 8192};
        gyre_error err = {0, ""};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
        const gyre_status status = gyre_model_save(model, in_folder("a"), GYRE_DTYPE_BF16, &err);
        _exit(status == GYRE_EIO && strstr(err.text, strerror(EFBIG)) && strstr(err.text, "model.safetensors") ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(count_entries(folder), 1);
    gyre_model *back = open_model("a");
    assert_memory_equal(back->weights, model->weights, (size_t)model->weight_count * sizeof *model->weights);
    gyre_model_free(back);
    gyre_model_free(model);
}

static void test_file_read(void **state) {
    (void)state;
    char *text = NULL;
    size_t bytes = 7;
    gyre_error err;
    write_text("empty", "");
    assert_holds("empty", "");
    assert_int_equal(gyre_file_read(folder, GYRE_FILE_MAX, &text, &bytes, &err), GYRE_EIO);
    assert_non_null(strstr(err.text, strerror(EISDIR)));
    assert_int_equal(gyre_file_read(in_folder("absent"), GYRE_FILE_MAX, &text, &bytes, &err), GYRE_EIO);
    assert_null(text);
    assert_int_equal(bytes, 7);
}

#define TEST(f) cmocka_unit_test_setup(f, clear_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_random_numbers),
        TEST(test_layout),
        TEST(test_initial_weights),
        TEST(test_seeds),
        TEST(test_refuses_sizes),
        TEST(test_saves_and_opens),
        TEST(test_matrices_stay_as_stored),
        TEST(test_cut_while_read),
        TEST(test_order_of_tensors),
        TEST(test_refuses_weights),
        TEST(test_refuses_nan_weights),
        TEST(test_refuses_configs),
        TEST(test_replaces_in_one_step),
        TEST(test_any_folder_name),
        TEST(test_other_folders_are_untouched),
        TEST(test_user_files_are_kept),
        TEST(test_survives_a_kill),
        TEST(test_other_leftovers_are_kept),
        TEST(test_a_living_writer_keeps_its_folder),
        TEST(test_recovers_from_a_kill_between_renames),
        TEST(test_survives_a_full_disk),
        TEST(test_file_read),
    };
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
