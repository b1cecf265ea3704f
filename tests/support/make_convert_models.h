/* make_convert_models.h: folders with small models of random weights, made without the converter's code. */
#ifndef GYRE_TESTS_MAKE_CONVERT_MODELS_H
#define GYRE_TESTS_MAKE_CONVERT_MODELS_H
#include "files/tensors/safetensors.h"
#include "files/tensors/tensor_store.h"
#include "gyre/gyre_model.h"
#include "temp_folder.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WIDTH = 32, HEADS = 4, KV_HEADS = 2, HEAD = 8, HIDDEN = 64, LAYERS = 2, VOCAB = 48, CONTEXT = 64, MOST_TENSORS = 64 };

static inline void put_text(const char *path, const char *text) {
    write_path(path, text, strlen(text));
}
static inline char *whole_file(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s: not there", path);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(*bytes + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *bytes, file), *bytes);
    text[*bytes] = '\0';
    fclose(file);
    return text;
}
static inline void assert_same_file(const char *a, const char *b) {
    size_t n, m;
    char *one = whole_file(a, &n), *two = whole_file(b, &m);
    if (n != m || memcmp(one, two, n) != 0) fail_msg("%s and %s differ", a, b);
    free(one);
    free(two);
}
static inline json_t *json_of(const char *path) {
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (!root) fail_msg("%s: line %d: %s", path, error.line, error.text);
    return root;
}

/* -- a model in safetensors -- */
typedef struct made_tensor {
    char name[80];
    int rank;
    int64_t rows, columns, count; /* columns 1 of a vector */
    float *data;
} made_tensor;
typedef struct made_model {
    made_tensor tensor[MOST_TENSORS];
    int count;
} made_model;

static inline void make_tensor(made_model *m, const char *name, int64_t rows, int64_t columns) {
    static test_random random = {11};
    made_tensor *t = &m->tensor[m->count++];
    assert_true(m->count <= MOST_TENSORS);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->rank = columns > 0 ? 2 : 1;
    t->rows = rows;
    t->columns = columns > 0 ? columns : 1;
    t->count = t->rows * t->columns;
    t->data = malloc((size_t)t->count * sizeof *t->data);
    assert_non_null(t->data);
    for (int64_t i = 0; i < t->count; i++)
        t->data[i] =
            (float)(((double)(test_next(&random) >> 40) / (double)(1 << 24) - 0.5) * 0.4) + (t->rank == 1 ? 1.0f : 0);
}

static inline const made_tensor *made_named(const made_model *m, const char *name) {
    for (int i = 0; i < m->count; i++)
        if (strcmp(m->tensor[i].name, name) == 0) return &m->tensor[i];
    fail_msg("no tensor %s was made", name);
    return NULL;
}

static inline void made_model_free(made_model *m) {
    for (int i = 0; i < m->count; i++)
        free(m->tensor[i].data);
    free(m);
}

/* Of a tied model, OWN_HEAD stores a head all the same, and REPEATED_HEAD one that is the embedding. */
enum { TIED = 1, BIASES = 2, HEAD_NORMS = 4, OUT_BIAS = 8, OWN_HEAD = 16, REPEATED_HEAD = 32 };

static inline made_model *make_weights(int traits) {
    made_model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    make_tensor(m, "model.embed_tokens.weight", VOCAB, WIDTH);
    make_tensor(m, "model.norm.weight", WIDTH, 0);
    if (!(traits & TIED) || traits & (OWN_HEAD | REPEATED_HEAD)) make_tensor(m, "lm_head.weight", VOCAB, WIDTH);
    if (traits & REPEATED_HEAD)
        memcpy(m->tensor[2].data, m->tensor[0].data, (size_t)m->tensor[0].count * sizeof *m->tensor[0].data);
    for (int layer = 0; layer < LAYERS; layer++) {
        static const struct {
            const char *name;
            int64_t rows, columns;
            int trait;
        } parts[] = {{"input_layernorm.weight", WIDTH, 0, 0},
                     {"post_attention_layernorm.weight", WIDTH, 0, 0},
                     {"self_attn.q_proj.weight", HEADS * HEAD, WIDTH, 0},
                     {"self_attn.k_proj.weight", KV_HEADS * HEAD, WIDTH, 0},
                     {"self_attn.v_proj.weight", KV_HEADS * HEAD, WIDTH, 0},
                     {"self_attn.o_proj.weight", WIDTH, HEADS * HEAD, 0},
                     {"self_attn.q_proj.bias", HEADS * HEAD, 0, BIASES},
                     {"self_attn.k_proj.bias", KV_HEADS * HEAD, 0, BIASES},
                     {"self_attn.v_proj.bias", KV_HEADS * HEAD, 0, BIASES},
                     {"self_attn.o_proj.bias", WIDTH, 0, OUT_BIAS},
                     {"self_attn.q_norm.weight", HEAD, 0, HEAD_NORMS},
                     {"self_attn.k_norm.weight", HEAD, 0, HEAD_NORMS},
                     {"mlp.gate_proj.weight", HIDDEN, WIDTH, 0},
                     {"mlp.up_proj.weight", HIDDEN, WIDTH, 0},
                     {"mlp.down_proj.weight", WIDTH, HIDDEN, 0}};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            char name[80];
            if (parts[i].trait && !(traits & parts[i].trait)) continue;
            snprintf(name, sizeof name, "model.layers.%d.%s", layer, parts[i].name);
            make_tensor(m, name, parts[i].rows, parts[i].columns);
        }
    }
    return m;
}

/* more: additional JSON keys, with a leading comma, or "". */
static inline made_model *make_folder_of(const char *target, const char *model_type, int traits, const char *more,
                                         gyre_dtype dtype) {
    char config[2048], path[600];
    gyre_safetensors_input list[MOST_TENSORS];
    made_model *m = make_weights(traits);
    assert_true(mkdir(target, 0777) == 0);
    snprintf(config, sizeof config,
             "{\"architectures\": [\"X\"], \"model_type\": \"%s\", \"vocab_size\": %d, \"hidden_size\": %d, "
             "\"intermediate_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": %d, "
             "\"num_key_value_heads\": %d, \"head_dim\": %d, \"rms_norm_eps\": 1e-05, \"hidden_act\": \"silu\", "
             "\"torch_dtype\": \"float32\", \"max_position_embeddings\": %d, \"tie_word_embeddings\": %s%s}\n",
             model_type, VOCAB, WIDTH, HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD, CONTEXT, traits & TIED ? "true" : "false",
             more);
    snprintf(path, sizeof path, "%s/config.json", target);
    put_text(path, config);
    for (int i = 0; i < m->count; i++) {
        const made_tensor *t = &m->tensor[i];
        list[i] = (gyre_safetensors_input){t->name, t->rank, {t->rows, t->columns, 1, 1}, t->data, 0};
    }
    snprintf(path, sizeof path, "%s/model.safetensors", target);
    assert_ok(gyre_safetensors_write(path, list, m->count, dtype, NULL));
    return m;
}

/* -- looking -- */
static inline void must(gyre_status status, const gyre_error *err) {
    if (status) fail_msg("%s", err->text);
}

static inline void convert(const char *from, const char *to, const gyre_convert_options *options) {
    gyre_error err = {0, ""};
    must(gyre_convert(from, to, options, &err), &err);
}

static inline void refused(const char *from, const char *to, const gyre_convert_options *options, gyre_status status,
                           const char *says) {
    gyre_error err = {0, ""};
    const gyre_status got = gyre_convert(from, to, options, &err);
    if (got != status || !strstr(err.text, says))
        fail_msg("status %d, \"%s\"; expected %d and \"%s\"", (int)got, err.text, (int)status, says);
}

static inline gyre_file_tensor stored(const gyre_tensor_store *store, const char *name) {
    gyre_file_tensor t;
    if (!gyre_tensor_store_find(store, name, &t)) fail_msg("no tensor %s", name);
    return t;
}

static inline float *numbers_of(const gyre_tensor_store *store, const char *name) {
    const gyre_file_tensor t = stored(store, name);
    gyre_error err = {0, ""};
    float *out = malloc((size_t)t.count * sizeof *out);
    assert_non_null(out);
    must(gyre_stored_read(gyre_kernels_select(), &t, out, &err), &err);
    return out;
}

/* The permutation by its formula: in the half layout, the rows of a head are first member 0 of all pairs, then member 1. */
static inline int64_t half_row(int64_t interleaved) {
    return interleaved % 2 == 0 ? interleaved / 2 : HEAD / 2 + interleaved / 2;
}

/* Row `interleaved` of each head of `name` must be row half_row of the original. */
static inline void assert_interleaved(const gyre_tensor_store *store, const char *name, const made_tensor *made) {
    float *got = numbers_of(store, name);
    for (int64_t r = 0; r < made->rows; r++) {
        const int64_t from = r / HEAD * HEAD + half_row(r % HEAD);
        if (memcmp(got + r * made->columns, made->data + from * made->columns, (size_t)made->columns * sizeof *got) != 0)
            fail_msg("%s: row %d is not row %d of the source", name, (int)r, (int)from);
    }
    free(got);
}

static inline void assert_unmoved(const gyre_tensor_store *store, const char *name, const made_tensor *made) {
    float *got = numbers_of(store, name);
    if (memcmp(got, made->data, (size_t)made->count * sizeof *got) != 0) fail_msg("%s: changed", name);
    free(got);
}

/* out = the logits of every token of a fixed text. */
static inline void logits_of(const char *path, float out[CONTEXT * VOCAB]) {
    gyre_model *model = NULL;
    gyre_context *context = NULL;
    gyre_error err = {0, ""};
    int32_t tokens[CONTEXT];
    for (int i = 0; i < CONTEXT; i++)
        tokens[i] = (i * 7 + i * i) % VOCAB;
    must(gyre_model_open(&model, path, GYRE_ARGS(gyre_reading_options, .context_length = CONTEXT), &err), &err);
    must(gyre_context_create(&context, model,
                             &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = CONTEXT}, &err),
         &err);
    must(gyre_context_forward(context, tokens, CONTEXT, CONTEXT, out, &err), &err);
    gyre_context_free(context);
    gyre_model_free(model);
}

static inline void assert_same_logits(const char *a, const char *b, double bound) {
    static float one[CONTEXT * VOCAB], two[CONTEXT * VOCAB];
    double most = 0, size = 0;
    logits_of(a, one);
    logits_of(b, two);
    for (int i = 0; i < CONTEXT * VOCAB; i++) {
        most = fmax(most, fabs((double)one[i] - (double)two[i]));
        size = fmax(size, fabs((double)one[i]));
    }
    assert_true(size > 0.01);
    if (!(most <= bound * size)) fail_msg("logits of %s and %s differ by %g", a, b, most);
}

#endif
