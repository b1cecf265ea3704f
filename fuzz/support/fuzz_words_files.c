/* fuzz_words_files.c: tokenizer.json, tokenizer_config.json and the keys of a GGUF for a vocabulary, in a small llama. */
#include "fuzz_words.h"

#include "files/gguf_writer.h"
#include "fuzz_support.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { WIDTH = 2 };

/* -- pre-tokenizers -- */
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST         "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define LLAMA3       CONTRACTIONS "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}" REST
#define QWEN2        CONTRACTIONS "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}" REST
#define SPLIT(kind, pattern, behavior, invert)                                                                              \
    "{\"type\": \"Split\", \"pattern\": {\"" kind "\": \"" pattern "\"}, \"behavior\": \"" behavior                         \
    "\", \"invert\": " invert "}"
#define BYTES(prefix, regex)                                                                                                \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": " prefix ", \"trim_offsets\": true, \"use_regex\": " regex "}"
#define TWO(one, other) "{\"type\": \"Sequence\", \"pretokenizers\": [" one ", " other "]}"
#define DIGITS(alone)   "{\"type\": \"Digits\", \"individual_digits\": " alone "}"
#define METASPACE(more) "{\"type\": \"Metaspace\", \"replacement\": \"\xE2\x96\x81\", " more "}"

typedef struct row {
    const char *text;
    fuzz_words_outcome outcome;
    int ignores_merges;
} row;

/* Of byte-level tokenizers.  The first four have a name in llama.cpp. */
static const row byte_level_rows[] = {
    {BYTES("false", "true"), FUZZ_WORDS_CONVERT, 0},
    {TWO(DIGITS("true"), BYTES("false", "true")), FUZZ_WORDS_CONVERT, 0},
    {TWO(SPLIT("Regex", LLAMA3, "Isolated", "false"), BYTES("false", "false")), FUZZ_WORDS_CONVERT, 1},
    {TWO(SPLIT("Regex", QWEN2, "Isolated", "false"), BYTES("false", "false")), FUZZ_WORDS_CONVERT, 0},
    {TWO(SPLIT("Regex", LLAMA3, "Isolated", "false"), BYTES("false", "false")), FUZZ_WORDS_EITHER, 0},
    {BYTES("false", "true"), FUZZ_WORDS_EITHER, 1},
    {BYTES("true", "true"), FUZZ_WORDS_REFUSE, 0},
    {BYTES("false", "false"), FUZZ_WORDS_REFUSE, 0},
    {"null", FUZZ_WORDS_REFUSE, 0},
    {TWO(SPLIT("String", "a", "Isolated", "false"), BYTES("false", "false")), FUZZ_WORDS_REFUSE, 0},
    {TWO(SPLIT("Regex", LLAMA3, "Isolated", "true"), BYTES("false", "false")), FUZZ_WORDS_REFUSE, 1},
    {TWO(SPLIT("Regex", QWEN2, "MergedWithNext", "false"), BYTES("false", "false")), FUZZ_WORDS_REFUSE, 0},
    {TWO(SPLIT("Regex", QWEN2, "Isolated", "false"), BYTES("false", "true")), FUZZ_WORDS_REFUSE, 0},
    {TWO("{\"type\": \"Punctuation\"}", BYTES("false", "true")), FUZZ_WORDS_REFUSE, 0},
    {TWO(DIGITS("false"), BYTES("false", "true")), FUZZ_WORDS_REFUSE, 0},
    {TWO(DIGITS("true"), TWO(SPLIT("Regex", QWEN2, "Isolated", "false"), BYTES("false", "false"))), FUZZ_WORDS_REFUSE, 0},
    {TWO(SPLIT("Regex", "[ab]", "Isolated", "false"), BYTES("false", "false")), FUZZ_WORDS_REFUSE, 0}};

/* Of pieces, beside a normalizer that writes spaces as U+2581, or without one where Metaspace does. */
static const row piece_rows[] = {
    {"null", FUZZ_WORDS_CONVERT, 0},
    {METASPACE("\"prepend_scheme\": \"never\", \"split\": false"), FUZZ_WORDS_CONVERT, 0},
    {METASPACE("\"prepend_scheme\": \"always\", \"split\": false"), FUZZ_WORDS_CONVERT, 0},
    {METASPACE("\"prepend_scheme\": \"first\", \"split\": false"), FUZZ_WORDS_CONVERT, 0},
    {METASPACE("\"add_prefix_space\": false, \"split\": false"), FUZZ_WORDS_CONVERT, 0},
    {METASPACE("\"prepend_scheme\": \"always\", \"add_prefix_space\": false, \"split\": false"), FUZZ_WORDS_CONVERT, 0},
    {SPLIT("String", " ", "MergedWithPrevious", "false"), FUZZ_WORDS_EITHER, 0},
    {METASPACE("\"prepend_scheme\": \"never\", \"split\": true"), FUZZ_WORDS_EITHER, 0},
    {DIGITS("true"), FUZZ_WORDS_REFUSE, 0},
    {"{\"type\": \"Punctuation\"}", FUZZ_WORDS_REFUSE, 0}};

enum { FIRST_NAMES = 4 }; /* others are names of the same */
static const row names[] = {{"gpt-2", FUZZ_WORDS_CONVERT, 0},
                            {"llama-bpe", FUZZ_WORDS_CONVERT, 1},
                            {"qwen2", FUZZ_WORDS_CONVERT, 0},
                            {"smollm", FUZZ_WORDS_CONVERT, 0},
                            {"llama3", FUZZ_WORDS_CONVERT, 1},
                            {"llama-v3", FUZZ_WORDS_CONVERT, 1},
                            {"deepseek-r1-qwen", FUZZ_WORDS_CONVERT, 0},
                            {"phi-2", FUZZ_WORDS_CONVERT, 0},
                            {"olmo", FUZZ_WORDS_CONVERT, 0},
                            {"mpt", FUZZ_WORDS_CONVERT, 0},
                            {"starcoder", FUZZ_WORDS_CONVERT, 0},
                            {"refact", FUZZ_WORDS_CONVERT, 0},
                            {"command-r", FUZZ_WORDS_CONVERT, 0},
                            {"smaug-bpe", FUZZ_WORDS_EITHER, 0},
                            {"falcon", FUZZ_WORDS_EITHER, 0},
                            {"default", FUZZ_WORDS_REFUSE, 0},
                            {"nobody knows this one", FUZZ_WORDS_REFUSE, 0},
                            {NULL, FUZZ_WORDS_REFUSE, 0}};

static const row *row_of(const fuzz_words *w, int *count) {
    const row *rows = w->gguf ? names : w->byte_level ? byte_level_rows : piece_rows;
    const size_t bytes = w->gguf ? sizeof names : w->byte_level ? sizeof byte_level_rows : sizeof piece_rows;
    *count = (int)(bytes / sizeof *rows);
    return rows + w->pre_tokenizer;
}

void fuzz_words_choose_pre_tokenizer(fuzz_words *w, fuzz_bytes *b) {
    int count;
    w->pre_tokenizer = 0;
    (void)row_of(w, &count);
    w->pre_tokenizer = fuzz_choice(b, count);
    const row *r = row_of(w, &count);
    w->ignores_merges = w->byte_level && r->ignores_merges;
    if (w->gguf && !w->byte_level) return; /* the name of a pre-tokenizer says nothing then */
    w->other_name = w->gguf && w->pre_tokenizer >= FIRST_NAMES;
    if (r->outcome != FUZZ_WORDS_CONVERT && w->outcome == FUZZ_WORDS_CONVERT) w->outcome = r->outcome;
    if (r->outcome == FUZZ_WORDS_REFUSE) w->outcome = r->outcome;
    if (!w->gguf && !w->byte_level && w->pre_tokenizer > 0) w->space_prefix = 0;
}

/* -- decoders -- */
#define STEPS                                                                                                               \
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \"\xE2\x96\x81\"}, \"content\": \" \"}, {\"type\": "                 \
    "\"ByteFallback\"}, "                                                                                                   \
    "{\"type\": \"Fuse\"}"
#define STRIP         "{\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}"
#define DECODERS(all) "{\"type\": \"Sequence\", \"decoders\": [" all "]}"
#define MARKS(scheme) DECODERS(METASPACE("\"prepend_scheme\": \"" scheme "\"") ", {\"type\": \"ByteFallback\"}")

/* The first two of each do what readers of a GGUF do: of byte-level tokens, of pieces, and of those that get a space. */
enum { DECODERS_EACH = 6, RIGHT_DECODERS = 2 };
static const char *const decoders[3][DECODERS_EACH] = {
    {BYTES("false", "true"), DECODERS(BYTES("true", "false")), "null", DECODERS(BYTES("false", "true") ", " STRIP),
     DECODERS(STEPS), "{\"type\": \"Fuse\"}"},
    {DECODERS(STEPS), MARKS("never"), "null", DECODERS(STEPS ", " STRIP), MARKS("first"), BYTES("false", "true")},
    {DECODERS(STEPS ", " STRIP), MARKS("always"), "null", DECODERS(STEPS), DECODERS(STEPS ", " STRIP ", " STRIP),
     DECODERS(STRIP ", " STEPS)}};

static int has_normalizer(const fuzz_words *w) {
    return !w->byte_level && (w->pre_tokenizer == 0 || w->pre_tokenizer > 5);
}

static const char *decoder_of(const fuzz_words *w) {
    const int by_metaspace = w->pre_tokenizer == 2 || w->pre_tokenizer == 3 || w->pre_tokenizer == 5;
    const int gets_space = has_normalizer(w) ? w->space_prefix > 0 : by_metaspace;
    return decoders[w->byte_level ? 0 : gets_space ? 2 : 1][w->decoder];
}

/* Prepend writes a token that is normalized with a space before it, which a GGUF does not say. */
static int writes_tokens_otherwise(const fuzz_words *w) {
    int added = 0;
    for (int i = 0; i < w->count; i++)
        added |= w->word[i].kind == FUZZ_WORD_UNKNOWN || w->word[i].kind == FUZZ_WORD_CONTROL ||
                 w->word[i].kind == FUZZ_WORD_USER_DEFINED;
    return added && w->normalized && has_normalizer(w) && w->space_prefix > 0;
}

void fuzz_words_choose_decoder(fuzz_words *w, fuzz_bytes *b) {
    const int drawn = fuzz_choice(b, 4 * DECODERS_EACH);
    if (w->gguf) return;
    if (writes_tokens_otherwise(w)) w->outcome = FUZZ_WORDS_REFUSE;
    w->decoder = drawn < DECODERS_EACH ? drawn : drawn % RIGHT_DECODERS;
    if (w->decoder >= RIGHT_DECODERS) w->outcome = FUZZ_WORDS_REFUSE;
}

/* -- JSON -- */
typedef struct text {
    char *to;
    size_t used;
} text;

static void say(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(t->to + t->used, WORDS_FILE_BYTES - t->used, format, arguments);
    va_end(arguments);
    fuzz_require(n >= 0 && (size_t)n < WORDS_FILE_BYTES - t->used, "room for the files of the target itself");
    t->used += (size_t)n;
}

static void say_string(text *t, const char *string) {
    say(t, "\"");
    for (; *string; string++)
        if (*string == '"' || *string == '\\')
            say(t, "\\%c", *string);
        else if ((unsigned char)*string < 0x20)
            say(t, "\\u%04x", (unsigned)*string);
        else
            say(t, "%c", *string);
    say(t, "\"");
}

static void say_added(text *t, const fuzz_words *w) {
    int first = 1;
    for (int i = 0; i < w->count; i++) {
        const fuzz_word_kind kind = w->word[i].kind;
        if (kind != FUZZ_WORD_UNKNOWN && kind != FUZZ_WORD_CONTROL && kind != FUZZ_WORD_USER_DEFINED) continue;
        say(t, "%s{\"id\": %d, \"content\": ", first ? "" : ", ", i);
        say_string(t, w->word[i].text);
        say(t, ", \"single_word\": false, \"lstrip\": %s, \"rstrip\": %s, \"normalized\": %s, \"special\": %s}",
            w->strips && i & 1 ? "true" : "false", w->strips ? "true" : "false", w->normalized ? "true" : "false",
            kind == FUZZ_WORD_USER_DEFINED ? "false" : "true");
        first = 0;
    }
}

static void say_merge(text *t, const fuzz_words *w, const fuzz_merge *m) {
    char pair[2 * WORDS_BYTES];
    if (w->pairs_are_lists) {
        say(t, "[");
        say_string(t, w->word[m->left].text);
        say(t, ", ");
        say_string(t, w->word[m->right].text);
        say(t, "]");
        return;
    }
    snprintf(pair, sizeof pair, "%s %s", w->word[m->left].text, w->word[m->right].text);
    say_string(t, pair);
}

static void say_model(text *t, const fuzz_words *w) {
    const char *between = "";
    say(t, "\"model\": {\"type\": \"BPE\", \"byte_fallback\": %s, \"ignore_merges\": %s, ", w->byte_level ? "false" : "true",
        w->ignores_merges ? "true" : "false");
    if (!w->byte_level) say(t, "\"unk_token\": \"<unk>\", ");
    say(t, "\"vocab\": {");
    for (int i = 0; i < w->count; i++) {
        if (w->word[i].kind == FUZZ_WORD_NONE) continue;
        say(t, "%s", between);
        say_string(t, w->word[i].text);
        say(t, ": %d", i);
        between = ", ";
    }
    say(t, "}, \"merges\": [");
    for (int i = 0; i < w->merges; i++) {
        say(t, "%s", i ? ", " : "");
        say_merge(t, w, &w->merge[i]);
    }
    say(t, "]}");
}

static void say_post_processor(text *t, const fuzz_words *w) {
    if (w->adds_begin <= 0 || w->begin < 0) return;
    say(t, "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": ");
    say_string(t, w->word[w->begin].text);
    say(t, ", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}");
    if (w->adds_end && w->end >= 0) {
        say(t, ", {\"SpecialToken\": {\"id\": ");
        say_string(t, w->word[w->end].text);
        say(t, ", \"type_id\": 0}}");
    }
    say(t, "]}, ");
}

size_t fuzz_words_json(const fuzz_words *w, char out[WORDS_FILE_BYTES]) {
    static const char replace[] = "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\xE2\x96\x81\"}";
    text t = {out, 0};
    int count;
    say(&t, "{\"version\": \"1.0\", \"added_tokens\": [");
    say_added(&t, w);
    say(&t, "], \"pre_tokenizer\": %s, ", row_of(w, &count)->text);
    const int replaces = has_normalizer(w);
    say(&t, "\"decoder\": %s, ", decoder_of(w));
    if (replaces && w->space_prefix > 0)
        say(&t,
            "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"%s\"}, "
            "%s]}, ",
            w->prepends_first ? " " : "\xE2\x96\x81", replace);
    else if (replaces)
        say(&t, "\"normalizer\": %s, ", replace);
    say_post_processor(&t, w);
    say_model(&t, w);
    say(&t, "}");
    return t.used;
}

size_t fuzz_words_settings(const fuzz_words *w, char out[WORDS_FILE_BYTES]) {
    const struct {
        const char *key;
        int id;
    } names_of[] = {{"bos_token", w->begin}, {"eos_token", w->end}, {"pad_token", w->pad}, {"unk_token", w->unknown}};
    text t = {out, 0};
    say(&t, "{\"add_bos_token\": %s", w->adds_begin > 0 ? "true" : "false");
    for (int i = w->config_names_them ? 2 : 0; i < 4; i++) {
        if (names_of[i].id < 0) continue;
        say(&t, ", \"%s\": ", names_of[i].key);
        say_string(&t, w->word[names_of[i].id].text);
    }
    say(&t, "}");
    return t.used;
}

/* -- the model -- */
typedef struct tensor {
    const char *name, *gguf_name;
    int rank;
    int64_t shape[4];
} tensor;

static const tensor tensors[] = {
    {"model.embed_tokens.weight", "token_embd.weight", 2, {0, WIDTH, 1, 1}},
    {"model.layers.0.input_layernorm.weight", "blk.0.attn_norm.weight", 1, {WIDTH, 1, 1, 1}},
    {"model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight", 2, {2, WIDTH, 1, 1}},
    {"model.layers.0.self_attn.k_proj.weight", "blk.0.attn_k.weight", 2, {2, WIDTH, 1, 1}},
    {"model.layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight", 2, {2, WIDTH, 1, 1}},
    {"model.layers.0.self_attn.o_proj.weight", "blk.0.attn_output.weight", 2, {WIDTH, 2, 1, 1}},
    {"model.layers.0.post_attention_layernorm.weight", "blk.0.ffn_norm.weight", 1, {WIDTH, 1, 1, 1}},
    {"model.layers.0.mlp.gate_proj.weight", "blk.0.ffn_gate.weight", 2, {1, WIDTH, 1, 1}},
    {"model.layers.0.mlp.up_proj.weight", "blk.0.ffn_up.weight", 2, {1, WIDTH, 1, 1}},
    {"model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight", 2, {WIDTH, 1, 1, 1}},
    {"model.norm.weight", "output_norm.weight", 1, {WIDTH, 1, 1, 1}}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

static size_t bytes_of(const tensor *t, int vocab) {
    return (size_t)((t->shape[0] ? t->shape[0] : vocab) * t->shape[1]) * sizeof(float);
}

static void write_path(const char *folder, const char *name, const void *bytes, size_t size) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    fuzz_write(path, bytes, size);
}

static void write_weights(const char *name, int vocab) {
    static char file[1 << 14];
    char header[4096] = "{", *at = header + 1;
    size_t offset = 0;
    for (int i = 0; i < TENSORS; i++) {
        const tensor *t = &tensors[i];
        const size_t bytes = bytes_of(t, vocab);
        at += sprintf(at, "%s\"%s\": {\"dtype\": \"F32\", \"shape\": [%d", i ? ", " : "", t->name,
                      (int)(t->shape[0] ? t->shape[0] : vocab));
        if (t->rank == 2) at += sprintf(at, ", %d", (int)t->shape[1]);
        at += sprintf(at, "], \"data_offsets\": [%zu, %zu]}", offset, offset + bytes);
        offset += bytes;
    }
    at += sprintf(at, "}");
    const uint64_t size = (uint64_t)(at - header);
    fuzz_require(8 + size + offset <= sizeof file, "room for the weights of the target itself");
    memset(file, 0, sizeof file);
    memcpy(file, &size, 8);
    memcpy(file + 8, header, size);
    write_path(name, "model.safetensors", file, 8 + size + offset);
}

void fuzz_words_write_folder(const char *name, int vocab, const char *json, size_t bytes, const char *settings,
                             const char *more_config) {
    char config[1024];
    mkdir(fuzz_path(name), 0777);
    const int n = snprintf(config, sizeof config,
                           "{\"model_type\": \"llama\", \"hidden_size\": %d, \"num_hidden_layers\": 1, "
                           "\"num_attention_heads\": 1, \"intermediate_size\": 1, \"max_position_embeddings\": 16, "
                           "\"rms_norm_eps\": 1e-05, \"tie_word_embeddings\": true, \"vocab_size\": %d%s}",
                           WIDTH, vocab, more_config);
    write_path(name, "config.json", config, (size_t)n);
    if (settings) write_path(name, "tokenizer_config.json", settings, strlen(settings));
    write_path(name, "tokenizer.json", json, bytes);
    write_weights(name, vocab);
}

/* -- a GGUF -- */
static void put_id(gyre_gguf_writer *keys, const char *key, int id) {
    if (id >= 0) gyre_gguf_write_u32(keys, key, (uint32_t)id);
}

static void put_words(gyre_gguf_writer *keys, const fuzz_words *w) {
    gyre_gguf_write_string(keys, "tokenizer.ggml.model", w->byte_level ? "gpt2" : "llama");
    gyre_gguf_write_array(keys, "tokenizer.ggml.tokens", GYRE_GGUF_STRING, (uint64_t)w->count);
    for (int i = 0; i < w->count; i++) {
        char pad[WORDS_BYTES];
        snprintf(pad, sizeof pad, "[PAD%d]", i);
        const char *word = w->word[i].kind == FUZZ_WORD_NONE ? pad : w->word[i].text;
        gyre_gguf_write_array_string(keys, word, strlen(word));
    }
    if (!w->byte_level) gyre_gguf_write_array(keys, "tokenizer.ggml.scores", GYRE_GGUF_F32, (uint64_t)w->count);
    for (int i = 0; i < w->count && !w->byte_level; i++)
        gyre_gguf_write_array_number(keys, GYRE_GGUF_F32, w->word[i].score);
    gyre_gguf_write_array(keys, "tokenizer.ggml.token_type", GYRE_GGUF_I32, (uint64_t)w->count);
    for (int i = 0; i < w->count; i++)
        gyre_gguf_write_array_number(keys, GYRE_GGUF_I32,
                                     w->word[i].kind == FUZZ_WORD_NONE ? FUZZ_WORD_UNUSED : w->word[i].kind);
    if (!w->byte_level) return;
    gyre_gguf_write_array(keys, "tokenizer.ggml.merges", GYRE_GGUF_STRING, (uint64_t)w->merges);
    for (int i = 0; i < w->merges; i++) {
        char pair[2 * WORDS_BYTES];
        snprintf(pair, sizeof pair, "%s %s", w->word[w->merge[i].left].text, w->word[w->merge[i].right].text);
        gyre_gguf_write_array_string(keys, pair, strlen(pair));
    }
}

static void put_keys(gyre_gguf_writer *keys, const fuzz_words *w) {
    static const char *const sizes[] = {"context_length",      "embedding_length",     "block_count",
                                        "feed_forward_length", "attention.head_count", "attention.head_count_kv"};
    static const uint32_t values[] = {16, WIDTH, 1, 1, 1, 1};
    int count;
    char key[64];
    gyre_gguf_write_string(keys, "general.architecture", "llama");
    for (int i = 0; i < 6; i++) {
        snprintf(key, sizeof key, "llama.%s", sizes[i]);
        gyre_gguf_write_u32(keys, key, values[i]);
    }
    gyre_gguf_write_f32(keys, "llama.attention.layer_norm_rms_epsilon", 1e-5);
    put_words(keys, w);
    const char *pre = row_of(w, &count)->text;
    if (pre) gyre_gguf_write_string(keys, "tokenizer.ggml.pre", pre);
    put_id(keys, "tokenizer.ggml.bos_token_id", w->begin);
    put_id(keys, "tokenizer.ggml.eos_token_id", w->end);
    put_id(keys, "tokenizer.ggml.unknown_token_id", w->unknown);
    put_id(keys, "tokenizer.ggml.padding_token_id", w->pad);
    if (w->adds_begin >= 0) gyre_gguf_write_bool(keys, "tokenizer.ggml.add_bos_token", w->adds_begin);
    if (w->adds_end) gyre_gguf_write_bool(keys, "tokenizer.ggml.add_eos_token", 1);
    if (w->space_prefix >= 0) gyre_gguf_write_bool(keys, "tokenizer.ggml.add_space_prefix", w->space_prefix);
}

void fuzz_words_write_gguf(const char *name, const fuzz_words *w) {
    static unsigned char file[1 << 16];
    gyre_gguf_writer keys = {0};
    unsigned char *head = NULL;
    size_t bytes;
    gyre_error err = {0, ""};
    put_keys(&keys, w);
    for (int i = 0; i < TENSORS; i++) {
        int64_t shape[4];
        memcpy(shape, tensors[i].shape, sizeof shape);
        if (!shape[0]) shape[0] = w->count;
        gyre_gguf_write_tensor_info(&keys, tensors[i].gguf_name, GYRE_STORED_F32, tensors[i].rank, shape);
    }
    fuzz_require(!gyre_gguf_write_metadata(&keys, &head, &bytes, &err), err.text);
    memset(file, 0, sizeof file);
    memcpy(file, head, bytes < sizeof file ? bytes : 0);
    for (int i = 0; i < TENSORS; i++)
        bytes += (size_t)gyre_gguf_pad(bytes_of(&tensors[i], w->count));
    fuzz_require(bytes <= sizeof file, "room for the GGUF of the target itself");
    fuzz_write(name, file, bytes);
    free(head);
    gyre_gguf_writer_free(&keys);
}
