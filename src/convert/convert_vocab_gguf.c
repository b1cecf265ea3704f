/* convert_vocab_gguf.c: the tokens of a GGUF, both ways. */
#include "convert/convert_pre_tokenizer.h"
#include "convert/convert_vocab.h"
#include "tokenizer/gguf_strings.h"
#include "tokenizer/tokenizer_byte_level.h"
#include "util/error.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- reading -- */
static const gyre_gguf_value *value_of(const gyre_gguf *file, const char *key) {
    const gyre_gguf_kv *pair = gyre_gguf_find_key(file, key);
    return pair ? &pair->value : NULL;
}

static int64_t integer_or(const gyre_gguf *file, const char *key, int64_t fallback) {
    const gyre_gguf_value *value = value_of(file, key);
    int64_t x;
    return value && value->type != GYRE_GGUF_ARRAY && gyre_gguf_integer(value, 0, &x) ? x : fallback;
}

static int is_string_array(const gyre_gguf_value *value) {
    return value && value->type == GYRE_GGUF_ARRAY && value->element == GYRE_GGUF_STRING && value->count < INT32_MAX;
}

/* A user-defined piece is searched for in a text that has spaces still, and an added token of a tokenizer.json as it is
 * written: U+2581 becomes the space that it stands for. */
static void write_spaces(char *text) {
    char *to = text;
    for (const char *at = text; *at; to++) {
        const int is_space = strncmp(at, GYRE_SPACE_SYMBOL, sizeof GYRE_SPACE_SYMBOL - 1) == 0;
        *to = is_space ? ' ' : *at;
        at += is_space ? sizeof GYRE_SPACE_SYMBOL - 1 : 1;
    }
    *to = '\0';
}

static gyre_status read_tokens(gyre_convert_vocab *out, const gyre_gguf *file, int byte_level, const char *path,
                               gyre_error *err) {
    const gyre_gguf_value *tokens = value_of(file, "tokenizer.ggml.tokens");
    const gyre_gguf_value *scores = value_of(file, "tokenizer.ggml.scores"),
                          *types = value_of(file, "tokenizer.ggml.token_type");
    if (!is_string_array(tokens))
        return gyre_fail(err, GYRE_EFORMAT, "tokenizer.ggml.tokens: not a list of words (%s)", path);
    if (!byte_level && (!scores || scores->type != GYRE_GGUF_ARRAY || scores->count != tokens->count))
        return gyre_fail(err, GYRE_EFORMAT, "tokenizer.ggml.scores: not one for each token (%s)", path);
    if (types && (types->type != GYRE_GGUF_ARRAY || types->count != tokens->count))
        return gyre_fail(err, GYRE_EFORMAT, "tokenizer.ggml.token_type: not one for each token (%s)", path);
    gyre_status status = gyre_convert_vocab_init(out, (int64_t)tokens->count, err);
    out->byte_level = byte_level;
    const unsigned char *cursor = tokens->data;
    for (int64_t i = 0; i < out->count && !status; i++) {
        size_t bytes;
        double score = 0;
        int64_t kind = GYRE_TOKEN_NORMAL;
        const char *word = gyre_gguf_next_string(&cursor, &bytes);
        status = gyre_convert_vocab_set_text(out, i, word, bytes, path, err);
        if (!byte_level && !status && (!gyre_gguf_number(scores, (uint64_t)i, &score) || isnan(score)))
            status =
                gyre_fail(err, GYRE_EFORMAT, "tokenizer.ggml.scores: element %lld is not a number (%s)", (long long)i, path);
        if (types) (void)gyre_gguf_integer(types, (uint64_t)i, &kind);
        out->id_to_token[i].score = (float)score;
        out->id_to_token[i].kind = kind >= GYRE_TOKEN_NORMAL && kind <= GYRE_TOKEN_BYTE ? (int)kind : GYRE_TOKEN_NORMAL;
        if (!status && !byte_level && kind == GYRE_TOKEN_USER_DEFINED) write_spaces(out->id_to_token[i].text);
    }
    return status;
}

static gyre_status read_merges(gyre_convert_vocab *out, const gyre_gguf *file, const char *path, gyre_error *err) {
    const gyre_gguf_value *merges = value_of(file, "tokenizer.ggml.merges");
    if (!is_string_array(merges))
        return gyre_fail(err, GYRE_EFORMAT, "tokenizer.ggml.merges: not a list of words (%s)", path);
    out->merges = calloc((size_t)merges->count + 1, sizeof *out->merges);
    if (!out->merges) return gyre_fail(err, GYRE_ENOMEM, "tokens: no memory (%s)", path);
    const unsigned char *cursor = merges->data;
    for (uint64_t i = 0; i < merges->count; i++) {
        size_t bytes;
        const char *word = gyre_gguf_next_string(&cursor, &bytes);
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

static int32_t id_at(const gyre_gguf *file, const char *key, int32_t fallback, int64_t count) {
    const int64_t id = integer_or(file, key, fallback);
    return id >= 0 && id < count ? (int32_t)id : -1;
}

static gyre_status read_pre_tokenizer(gyre_convert_vocab *out, const gyre_gguf *file, const char *path, gyre_error *err) {
    char *name = text_at(file, "tokenizer.ggml.pre");
    snprintf(out->tokenizer_pre, sizeof out->tokenizer_pre, "%s", name ? name : "default");
    free(name);
    for (char *c = out->tokenizer_pre; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
    if (gyre_pre_tokenizer_named(out->tokenizer_pre)) return GYRE_OK;
    return gyre_fail(err, GYRE_EUNSUPPORTED, "tokenizer.ggml.pre: no pattern is known for \"%s\" (%s)", out->tokenizer_pre,
                     path);
}

/* Defaults are llama.cpp's: tokens 0, 1 and 2 of sentencepiece's kind have a meaning, and it puts the begin token and a
 * space before a text. */
static void read_special_tokens(gyre_convert_vocab *out, const gyre_gguf *file) {
    const int pieces = !out->byte_level;
    const int adds_begin = pieces || gyre_pre_tokenizer_named(out->tokenizer_pre)->adds_begin;
    out->begin = id_at(file, "tokenizer.ggml.bos_token_id", pieces ? 1 : -1, out->count);
    out->end = id_at(file, "tokenizer.ggml.eos_token_id", pieces ? 2 : -1, out->count);
    out->unknown = id_at(file, "tokenizer.ggml.unknown_token_id", pieces ? 0 : -1, out->count);
    out->pad = id_at(file, "tokenizer.ggml.padding_token_id", -1, out->count);
    out->adds_begin = out->begin >= 0 && integer_or(file, "tokenizer.ggml.add_bos_token", adds_begin) != 0;
    out->adds_end = out->end >= 0 && integer_or(file, "tokenizer.ggml.add_eos_token", 0) != 0;
    out->space_prefix = pieces && integer_or(file, "tokenizer.ggml.add_space_prefix", 1) != 0;
    out->chat_template = text_at(file, "tokenizer.chat_template");
    /* Old files have no types of tokens.  A begin token that is added to a text is not one of its words. */
    if (pieces && out->adds_begin && out->id_to_token[out->begin].kind == GYRE_TOKEN_NORMAL)
        out->id_to_token[out->begin].kind = GYRE_TOKEN_CONTROL;
}

gyre_status gyre_convert_vocab_from_gguf(gyre_convert_vocab *out, int *there, const gyre_gguf *file, const char *path,
                                         gyre_error *err) {
    const gyre_gguf_value *model = value_of(file, "tokenizer.ggml.model");
    *there = model && !gyre_gguf_equals(model, "none") && !gyre_gguf_equals(model, "no_vocab");
    if (!*there) return GYRE_OK;
    const int byte_level = gyre_gguf_equals(model, "gpt2");
    if (!byte_level && !gyre_gguf_equals(model, "llama"))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "tokenizer.ggml.model: neither llama nor gpt2 (%s)", path);
    gyre_status status = read_tokens(out, file, byte_level, path, err);
    if (!status && byte_level) status = read_merges(out, file, path, err);
    if (!status && byte_level) status = read_pre_tokenizer(out, file, path, err);
    if (!status) read_special_tokens(out, file);
    if (status) gyre_convert_vocab_free(out);
    return status;
}

/* -- writing -- */
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
