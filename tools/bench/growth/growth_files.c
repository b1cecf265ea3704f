/* growth_files.c: commands over files of a rising number of tokens, keys, tensors, words or layers. */
#include "gyre/gyre_model.h"
#include "tools/bench/growth/growth.h"
#include "tools/subcommands.h"
#include "util/error.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 16, VOCABULARY = 256, LINE = 64, WORDS_OF_COMMAND = 12, PATH = 2048 + 16, SHORT_CONTEXT = 64 };

/* out = the path of a file of the case, in one of four buffers. */
static const char *in_folder(const growth *g, const char *name) {
    static char paths[4][PATH];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, PATH, "%s/%s", g->folder.path, name);
    return path;
}

/* -- files -- */
static gyre_status write_failed(const char *path, gyre_error *err) {
    return gyre_fail(err, GYRE_EIO, "%s (%s)", strerror(errno ? errno : EIO), path);
}

/* Lines of words that differ. */
static gyre_status write_text(const growth *g, int64_t bytes, gyre_error *err) {
    const char *path = in_folder(g, "text");
    FILE *file = fopen(path, "w");
    uint64_t seed = 1;
    if (!file) return write_failed(path, err);
    for (int64_t i = 1; i <= bytes; i++)
        (void)putc(i % LINE ? 'a' + (int)(26 * bench_random(&seed)) : '\n', file);
    const int failed = ferror(file);
    return fclose(file) || failed ? write_failed(path, err) : GYRE_OK;
}

static gyre_status write_model(const growth *g, int64_t layers, int64_t vocabulary, gyre_error *err) {
    gyre_model_config config = GYRE_INIT(gyre_model_config);
    gyre_model *model = NULL;
    config.vocab = vocabulary;
    config.layers = layers;
    config.model_dim = config.head_dim = config.mlp_dim = WIDTH;
    config.heads = config.kv_heads = 1;
    config.position.kind = gyre_kind_find("rope");
    config.position.rope.dim = WIDTH;
    gyre_status status = gyre_model_create(&model, &config, 1, err);
    if (!status) status = gyre_model_save(model, in_folder(g, "model"), GYRE_DTYPE_F32, err);
    gyre_model_free(model);
    return status;
}

static gyre_status write_window(growth *g, gyre_error *err) {
    const gyre_status status = write_text(g, g->size + 1, err);
    return status ? status : write_model(g, 1, VOCABULARY, err);
}
static gyre_status write_layers(growth *g, gyre_error *err) {
    return write_model(g, g->size, VOCABULARY, err);
}
static gyre_status write_vocabulary(growth *g, gyre_error *err) {
    return write_model(g, 1, g->size, err);
}

static gyre_status write_config(growth *g, gyre_error *err) {
    const char *path = in_folder(g, "config.json");
    FILE *file = fopen(path, "w");
    if (!file) return write_failed(path, err);
    fprintf(file, "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 4, \"num_hidden_layers\": 2,\n"
                  " \"max_position_embeddings\": 4096, \"rope_theta\": 10000.0");
    for (int64_t i = 0; i < g->size; i++)
        fprintf(file, ",\n \"extra_%lld\": %lld", (long long)i, (long long)i);
    fprintf(file, "}\n");
    const int failed = ferror(file);
    return fclose(file) || failed ? write_failed(path, err) : GYRE_OK;
}

/* -- GGUF -- */
enum { GGUF_U32 = 4, GGUF_F32 = 6, GGUF_TEXT = 8, GGUF_ARRAY = 9, GGUF_VERSION = 3, TENSOR_FLOATS = 8, TENSOR_BYTES = 32 };

static void put_bytes(FILE *file, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        (void)putc((int)(value >> (8 * i) & 255), file);
}
static void put_text(FILE *file, const char *text) {
    put_bytes(file, strlen(text), 8);
    (void)fputs(text, file);
}
static void put_numbered(FILE *file, const char *prefix, int64_t number) {
    char text[32];
    snprintf(text, sizeof text, "%s%lld", prefix, (long long)number);
    put_text(file, text);
}
static void put_u32(FILE *file, const char *key, uint32_t value) {
    put_text(file, key);
    put_bytes(file, GGUF_U32, 4);
    put_bytes(file, value, 4);
}

static void put_metadata(FILE *file, int64_t keys, int64_t words) {
    put_text(file, "general.architecture");
    put_bytes(file, GGUF_TEXT, 4);
    put_text(file, "llama");
    put_u32(file, "llama.context_length", 4096);
    put_u32(file, "llama.embedding_length", 64);
    put_u32(file, "llama.attention.head_count", 4);
    put_u32(file, "llama.block_count", 2);
    put_u32(file, "llama.rope.dimension_count", 16);
    for (int64_t i = 0; i < keys; i++) {
        put_numbered(file, "extra.", i);
        put_bytes(file, GGUF_U32, 4);
        put_bytes(file, (uint64_t)i, 4);
    }
    if (words == 0) return;
    put_text(file, "tokenizer.ggml.tokens");
    put_bytes(file, GGUF_ARRAY, 4);
    put_bytes(file, GGUF_TEXT, 4);
    put_bytes(file, (uint64_t)words, 8);
    for (int64_t i = 0; i < words; i++)
        put_numbered(file, "word", i);
}

enum { USUAL_KEYS = 6 };

static gyre_status write_gguf(const growth *g, int64_t keys, int64_t words, int64_t tensors, gyre_error *err) {
    const char *path = in_folder(g, "model.gguf");
    FILE *file = fopen(path, "w");
    if (!file) return write_failed(path, err);
    (void)fputs("GGUF", file);
    put_bytes(file, GGUF_VERSION, 4);
    put_bytes(file, (uint64_t)tensors, 8);
    put_bytes(file, (uint64_t)(USUAL_KEYS + keys + (words > 0)), 8);
    put_metadata(file, keys, words);
    for (int64_t i = 0; i < tensors; i++) {
        put_numbered(file, "tensor.", i);
        put_bytes(file, 1, 4);
        put_bytes(file, TENSOR_FLOATS, 8);
        put_bytes(file, 0, 4);
        put_bytes(file, (uint64_t)i * TENSOR_BYTES, 8);
    }
    for (int64_t at = ftell(file); at % TENSOR_BYTES; at++)
        (void)putc(0, file);
    for (int64_t i = 0; i < tensors * TENSOR_BYTES / 8; i++)
        put_bytes(file, 0, 8);
    const int failed = ferror(file);
    return fclose(file) || failed ? write_failed(path, err) : GYRE_OK;
}

static gyre_status write_keys(growth *g, gyre_error *err) {
    return write_gguf(g, g->size, 0, 0, err);
}
static gyre_status write_words(growth *g, gyre_error *err) {
    return write_gguf(g, 0, g->size, 0, err);
}
static gyre_status write_tensors(growth *g, gyre_error *err) {
    return write_gguf(g, 0, 0, g->size, err);
}

/* -- the commands -- */
/* What it prints goes nowhere.  words: ends with NULL. */
static int run_command(growth *g, int (*command)(int argc, char **argv), const char *const *words) {
    static char texts[WORDS_OF_COMMAND][PATH];
    char *argv[WORDS_OF_COMMAND + 1] = {NULL};
    int argc = 0;
    const int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0 || dup2(nowhere, STDERR_FILENO) < 0) return 1;
    for (; words[argc] && argc < WORDS_OF_COMMAND; argc++) {
        snprintf(texts[argc], PATH, "%s", words[argc]);
        argv[argc] = texts[argc];
    }
    const double started = growth_processor_seconds();
    const int status = command(argc, argv);
    *g->seconds = growth_processor_seconds() - started;
    return status;
}

static int nothing_before(void *g) {
    (void)g;
    return 0;
}

static int eval(growth *g, int64_t context, const char *windows) {
    char length[24];
    snprintf(length, sizeof length, "%lld", (long long)context);
    const char *const words[] = {"gyre eval", in_folder(g, "model"), "--text", in_folder(g, "text"), "--contexts",
                                 length,      "--windows",           windows,  "--threads",          "1",
                                 NULL};
    return run_command(g, cmd_eval, words);
}
static int eval_context(void *arg) {
    growth *g = arg;
    return eval(g, g->size, "1");
}
static int eval_text(void *arg) {
    growth *g = arg;
    char windows[24];
    snprintf(windows, sizeof windows, "%lld", (long long)(g->size / SHORT_CONTEXT));
    return eval(g, SHORT_CONTEXT, windows);
}
static int explain_config(void *g) {
    return run_command(g, cmd_explain, (const char *const[]){"gyre explain", in_folder(g, "config.json"), NULL});
}
static int explain_gguf(void *g) {
    return run_command(g, cmd_explain, (const char *const[]){"gyre explain", in_folder(g, "model.gguf"), NULL});
}
static int convert(void *g) {
    const char *const words[] = {"gyre convert", in_folder(g, "model"), "-o", in_folder(g, "out.gguf"), "--force", NULL};
    return run_command(g, cmd_convert, words);
}

#define OF_FILES(write, work) write, nothing_before, work
const growth_case growth_file_cases[GROWTH_FILE_CASES] = {
    {"eval-context", "tokens", 1 << 9, 1 << 17, 4, 2, 1, OF_FILES(write_window, eval_context)},
    {"eval-text", "tokens", 1 << 10, 1 << 20, 4, 1, 1, OF_FILES(write_window, eval_text)},
    {"explain-config", "keys", 40, 40000, 10, 1, 1, OF_FILES(write_config, explain_config)},
    {"explain-keys", "keys", 10, 1000000, 10, 1, 1, OF_FILES(write_keys, explain_gguf)},
    {"explain-words", "words", 10, 1000000, 10, 1, 1, OF_FILES(write_words, explain_gguf)},
    {"explain-tensors", "tensors", 10, 1000000, 10, 1, 1, OF_FILES(write_tensors, explain_gguf)},
    {"convert-layers", "layers", 10, 10000, 10, 1, 1, OF_FILES(write_layers, convert)},
    {"convert-words", "words", 1 << 10, 1 << 20, 4, 1, 1, OF_FILES(write_vocabulary, convert)},
};
