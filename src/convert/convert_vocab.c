/* convert_vocab.c: the tokens of a model, out of a GGUF or a tokenizer of llama2.c, and into a GGUF. */
#include "convert/convert_model.h"

#include "files/file_read.h"
#include "util/error.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LLAMA2C_FIRST_BYTE = 3 /* the id of <0x00> */, BYTES = 256 };

/* -- in memory -- */
void gyre_convert_vocab_free(gyre_convert_vocab *pieces) {
    for (int64_t i = 0; i < pieces->count; i++)
        free(pieces->id_to_token[i].text);
    for (int64_t i = 0; i < pieces->merges_count; i++)
        free(pieces->merges[i]);
    free(pieces->id_to_token);
    free(pieces->merges);
    free(pieces->chat_template);
    *pieces = (gyre_convert_vocab){.count = 0};
}

gyre_status gyre_convert_vocab_init(gyre_convert_vocab *out, int64_t count, gyre_error *err) {
    gyre_convert_token *piece = calloc((size_t)count + 1, sizeof *piece);
    if (!piece) return gyre_fail(err, GYRE_ENOMEM, "tokens: no memory for %" PRId64, count);
    for (int64_t i = 0; i < count; i++)
        piece[i].kind = GYRE_TOKEN_NORMAL;
    *out = (gyre_convert_vocab){.id_to_token = piece, .count = count, .begin = -1, .end = -1, .unknown = -1, .pad = -1};
    return GYRE_OK;
}

gyre_status gyre_convert_vocab_set_text(gyre_convert_vocab *pieces, int64_t id, const char *text, size_t bytes,
                                        const char *path, gyre_error *err) {
    json_t *valid = memchr(text, 0, bytes) ? NULL : json_stringn(text, bytes); /* jansson checks UTF-8 */
    json_decref(valid);
    if (!valid) return gyre_fail(err, GYRE_EFORMAT, "token %" PRId64 ": no UTF-8 (%s)", id, path);
    char *copy = malloc(bytes + 1);
    if (!copy) return gyre_fail(err, GYRE_ENOMEM, "tokens: no memory (%s)", path);
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    free(pieces->id_to_token[id].text);
    pieces->id_to_token[id].text = copy;
    return GYRE_OK;
}

/* -- out of a GGUF -- */
static const gyre_gguf_value *value_of(const gyre_gguf *file, const char *key) {
    const gyre_gguf_kv *pair = gyre_gguf_find_key(file, key);
    return pair ? &pair->value : NULL;
}

static int64_t integer_or(const gyre_gguf *file, const char *key, int64_t fallback) {
    const gyre_gguf_value *value = value_of(file, key);
    int64_t x;
    return value && value->type != GYRE_GGUF_ARRAY && gyre_gguf_integer(value, 0, &x) ? x : fallback;
}

/* The next string of an array that was walked when the file was opened. */
static const char *next_string_at(const unsigned char **at, size_t *bytes) {
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | (*at)[i];
    const char *word = (const char *)*at + 8;
    *bytes = (size_t)length;
    *at += 8 + length;
    return word;
}

static int is_string_array(const gyre_gguf_value *value) {
    return value && value->type == GYRE_GGUF_ARRAY && value->element == GYRE_GGUF_STRING && value->count < INT32_MAX;
}

static gyre_status take_tokens(gyre_convert_vocab *out, const gyre_gguf *file, const char *path, gyre_error *err) {
    const gyre_gguf_value *tokens = value_of(file, "tokenizer.ggml.tokens");
    const gyre_gguf_value *scores = value_of(file, "tokenizer.ggml.scores"),
                          *types = value_of(file, "tokenizer.ggml.token_type");
    if (!is_string_array(tokens)) return gyre_fail(err, GYRE_EFORMAT, "tokenizer.ggml.tokens: no list of words (%s)", path);
    gyre_status status = gyre_convert_vocab_init(out, (int64_t)tokens->count, err);
    const unsigned char *at = tokens->data;
    for (int64_t i = 0; i < out->count && status == GYRE_OK; i++) {
        size_t bytes;
        double score = 0;
        int64_t kind = GYRE_TOKEN_NORMAL;
        const char *word = next_string_at(&at, &bytes);
        status = gyre_convert_vocab_set_text(out, i, word, bytes, path, err);
        if (scores && scores->count == tokens->count) (void)gyre_gguf_number(scores, (uint64_t)i, &score);
        if (types && types->count == tokens->count) (void)gyre_gguf_integer(types, (uint64_t)i, &kind);
        out->id_to_token[i].score = (float)score;
        out->id_to_token[i].kind = kind >= GYRE_TOKEN_NORMAL && kind <= GYRE_TOKEN_BYTE ? (int)kind : GYRE_TOKEN_NORMAL;
    }
    return status;
}

static gyre_status take_merges(gyre_convert_vocab *out, const gyre_gguf *file, const char *path, gyre_error *err) {
    const gyre_gguf_value *merges = value_of(file, "tokenizer.ggml.merges");
    if (!is_string_array(merges)) return gyre_fail(err, GYRE_EFORMAT, "tokenizer.ggml.merges: no list of words (%s)", path);
    out->merges = calloc((size_t)merges->count + 1, sizeof *out->merges);
    if (!out->merges) return gyre_fail(err, GYRE_ENOMEM, "tokens: no memory (%s)", path);
    const unsigned char *at = merges->data;
    for (uint64_t i = 0; i < merges->count; i++) {
        size_t bytes;
        const char *word = next_string_at(&at, &bytes);
        char *copy = malloc(bytes + 1);
        if (!copy) return gyre_fail(err, GYRE_ENOMEM, "tokens: no memory (%s)", path);
        memcpy(copy, word, bytes);
        copy[bytes] = '\0';
        out->merges[out->merges_count++] = copy;
    }
    return GYRE_OK;
}

static char *text_at(const gyre_gguf *file, const char *key) {
    const gyre_gguf_value *value = value_of(file, key);
    if (!value || value->type != GYRE_GGUF_STRING) return NULL;
    char *copy = malloc((size_t)value->count + 1);
    if (!copy) return NULL;
    memcpy(copy, value->data, (size_t)value->count);
    copy[value->count] = '\0';
    return copy;
}

static int32_t id_at(const gyre_gguf *file, const char *key, int64_t count) {
    const int64_t id = integer_or(file, key, -1);
    return id >= 0 && id < count ? (int32_t)id : -1;
}

static gyre_status take_pre_tokenizer(gyre_convert_vocab *out, const gyre_gguf *file, const char *path, gyre_error *err) {
    int digits;
    char *name = text_at(file, "tokenizer.ggml.pre");
    snprintf(out->tokenizer_pre, sizeof out->tokenizer_pre, "%s", name ? name : "default");
    free(name);
    if (gyre_pre_tokenizer_pattern(out->tokenizer_pre, &digits)) return GYRE_OK;
    return gyre_fail(err, GYRE_EUNSUPPORTED, "tokenizer.ggml.pre: no pattern is known for \"%s\" (%s)", out->tokenizer_pre,
                     path);
}

gyre_status gyre_convert_vocab_from_gguf(gyre_convert_vocab *out, int *there, const gyre_gguf *file, const char *path,
                                         gyre_error *err) {
    const gyre_gguf_value *model = value_of(file, "tokenizer.ggml.model");
    *there = model && !gyre_gguf_equals(model, "none") && !gyre_gguf_equals(model, "no_vocab");
    if (!*there) return GYRE_OK;
    const int byte_level = gyre_gguf_equals(model, "gpt2");
    if (!byte_level && !gyre_gguf_equals(model, "llama"))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "tokenizer.ggml.model: neither llama nor gpt2 (%s)", path);
    gyre_status status = take_tokens(out, file, path, err);
    out->byte_level = byte_level;
    if (status == GYRE_OK && byte_level) status = take_merges(out, file, path, err);
    if (status == GYRE_OK && byte_level) status = take_pre_tokenizer(out, file, path, err);
    out->begin = id_at(file, "tokenizer.ggml.bos_token_id", out->count);
    out->end = id_at(file, "tokenizer.ggml.eos_token_id", out->count);
    out->unknown = id_at(file, "tokenizer.ggml.unknown_token_id", out->count);
    out->pad = id_at(file, "tokenizer.ggml.padding_token_id", out->count);
    /* llama.cpp's own defaults: sentencepiece's kind begins its texts, and puts a space before them. */
    out->adds_begin = integer_or(file, "tokenizer.ggml.add_bos_token", !byte_level) != 0;
    out->adds_end = integer_or(file, "tokenizer.ggml.add_eos_token", 0) != 0;
    out->space_prefix = integer_or(file, "tokenizer.ggml.add_space_prefix", !byte_level) != 0;
    out->chat_template = text_at(file, "tokenizer.chat_template");
    if (status != GYRE_OK) gyre_convert_vocab_free(out);
    return status;
}

/* -- out of a tokenizer of llama2.c -- */
/* Bytes of a file, each read checked. */
typedef struct cursor {
    const unsigned char *at, *end;
} cursor;

static int take_u32(cursor *c, uint32_t *out) {
    if (c->end - c->at < 4) return 0;
    *out = (uint32_t)c->at[0] | (uint32_t)c->at[1] << 8 | (uint32_t)c->at[2] << 16 | (uint32_t)c->at[3] << 24;
    c->at += 4;
    return 1;
}

/* Its exporter has turned the mark of a space into one, and put line ends around the names of special tokens. */
static gyre_status set_llama2c(gyre_convert_vocab *out, int64_t id, const unsigned char *bytes, size_t count,
                               const char *path, gyre_error *err) {
    char *text = malloc(3 * count + 1);
    size_t length = 0;
    if (!text) return gyre_fail(err, GYRE_ENOMEM, "tokens: no memory (%s)", path);
    for (size_t i = 0; i < count; i++) {
        const int is_space = bytes[i] == ' ';
        memcpy(text + length, is_space ? "\xE2\x96\x81" : (const char *)bytes + i, is_space ? 3 : 1);
        length += is_space ? 3 : 1;
    }
    const int is_special = id < LLAMA2C_FIRST_BYTE;
    const int framed = is_special && length > 2 && text[0] == '\n' && text[length - 1] == '\n';
    const gyre_status status = gyre_convert_vocab_set_text(out, id, text + framed, length - (framed ? 2 : 0), path, err);
    free(text);
    out->id_to_token[id].kind = id == 0                           ? GYRE_TOKEN_UNKNOWN
                                : is_special                      ? GYRE_TOKEN_CONTROL
                                : id < LLAMA2C_FIRST_BYTE + BYTES ? GYRE_TOKEN_BYTE
                                                                  : GYRE_TOKEN_NORMAL;
    return status;
}

static gyre_status read_llama2c(gyre_convert_vocab *out, cursor c, const char *path, gyre_error *err) {
    const unsigned char *const begin = c.at;
    uint32_t longest, score, length;
    gyre_status status = GYRE_OK;
    int whole = take_u32(&c, &longest);
    for (int64_t id = 0; id < out->count && whole && status == GYRE_OK; id++) {
        whole = take_u32(&c, &score) && take_u32(&c, &length) && length <= (size_t)(c.end - c.at);
        if (!whole) break;
        memcpy(&out->id_to_token[id].score, &score, sizeof score);
        status = set_llama2c(out, id, c.at, length, path, err);
        c.at += length;
    }
    if (status == GYRE_OK && (!whole || c.at != c.end))
        status = gyre_fail(err, GYRE_EFORMAT, "tokens: not %" PRId64 " of them, as the model has (%s, byte %lld)",
                           out->count, path, (long long)(c.at - begin));
    return status;
}

gyre_status gyre_convert_vocab_from_llama2c(gyre_convert_vocab *out, const char *path, int64_t vocab, gyre_error *err) {
    gyre_mapping map = {NULL, 0};
    gyre_status status = gyre_mapping_open(&map, path, err);
    if (status != GYRE_OK) return status;
    if ((uint64_t)vocab > map.size / 8 || vocab < LLAMA2C_FIRST_BYTE + BYTES)
        status = gyre_fail(err, GYRE_EFORMAT, "tokens: not %" PRId64 " of them, as the model has (%s)", vocab, path);
    if (status == GYRE_OK) status = gyre_convert_vocab_init(out, vocab, err);
    if (status == GYRE_OK) {
        status = read_llama2c(out, (cursor){map.bytes, map.bytes + map.size}, path, err);
        out->begin = 1;
        out->end = 2;
        out->unknown = 0;
        out->adds_begin = out->space_prefix = 1;
        if (status != GYRE_OK) gyre_convert_vocab_free(out);
    }
    gyre_mapping_close(&map);
    return status;
}

/* -- bytes -- */
/* gpt2's letters: a byte that prints in Latin-1 stands for itself, the others are counted from U+0100 on. */
gyre_status gyre_convert_vocab_from_bytes(gyre_convert_vocab *out, gyre_error *err) {
    unsigned next = GYRE_BYTE_TOKENS;
    gyre_status status = gyre_convert_vocab_init(out, GYRE_BYTE_TOKENS, err);
    for (unsigned byte = 0; byte < GYRE_BYTE_TOKENS && status == GYRE_OK; byte++) {
        const int prints = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
        const unsigned code = prints ? byte : next++;
        const char text[2] = {(char)(code < 0x80 ? code : 0xC0 | code >> 6), (char)(0x80 | (code & 0x3F))};
        status = gyre_convert_vocab_set_text(out, byte, text, code < 0x80 ? 1 : 2, "bytes", err);
    }
    out->byte_level = 1;
    snprintf(out->tokenizer_pre, sizeof out->tokenizer_pre, "gpt-2");
    if (status != GYRE_OK) gyre_convert_vocab_free(out);
    return status;
}

/* -- into a GGUF -- */
static void put_id(gyre_gguf_writer *keys, const char *key, int32_t id) {
    if (id >= 0) gyre_gguf_write_u32(keys, key, (uint32_t)id);
}

void gyre_convert_vocab_to_gguf(const gyre_convert_vocab *p, gyre_gguf_writer *keys) {
    gyre_gguf_write_string(keys, "tokenizer.ggml.model", p->byte_level ? "gpt2" : "llama");
    gyre_gguf_write_string(keys, "tokenizer.ggml.pre", p->byte_level ? p->tokenizer_pre : "default");
    gyre_gguf_write_array(keys, "tokenizer.ggml.tokens", GYRE_GGUF_STRING, (uint64_t)p->count);
    for (int64_t i = 0; i < p->count; i++)
        gyre_gguf_write_array_string(keys, p->id_to_token[i].text, strlen(p->id_to_token[i].text));
    if (!p->byte_level) gyre_gguf_write_array(keys, "tokenizer.ggml.scores", GYRE_GGUF_F32, (uint64_t)p->count);
    for (int64_t i = 0; i < p->count && !p->byte_level; i++)
        gyre_gguf_write_array_number(keys, GYRE_GGUF_F32, p->id_to_token[i].score);
    gyre_gguf_write_array(keys, "tokenizer.ggml.token_type", GYRE_GGUF_I32, (uint64_t)p->count);
    for (int64_t i = 0; i < p->count; i++)
        gyre_gguf_write_array_number(keys, GYRE_GGUF_I32, p->id_to_token[i].kind);
    if (p->byte_level) gyre_gguf_write_array(keys, "tokenizer.ggml.merges", GYRE_GGUF_STRING, (uint64_t)p->merges_count);
    for (int64_t i = 0; i < p->merges_count && p->byte_level; i++)
        gyre_gguf_write_array_string(keys, p->merges[i], strlen(p->merges[i]));
    put_id(keys, "tokenizer.ggml.bos_token_id", p->begin);
    put_id(keys, "tokenizer.ggml.eos_token_id", p->end);
    put_id(keys, "tokenizer.ggml.unknown_token_id", p->unknown);
    put_id(keys, "tokenizer.ggml.padding_token_id", p->pad);
    gyre_gguf_write_bool(keys, "tokenizer.ggml.add_bos_token", p->adds_begin);
    gyre_gguf_write_bool(keys, "tokenizer.ggml.add_eos_token", p->adds_end);
    gyre_gguf_write_bool(keys, "tokenizer.ggml.add_space_prefix", p->space_prefix);
    if (p->chat_template) gyre_gguf_write_string(keys, "tokenizer.chat_template", p->chat_template);
}
