/* tokenizer_gguf.c: the tokenizer inside a GGUF, as llama.cpp reads it.  Model "gpt2" is byte-level BPE with merges,
 * model "llama" is sentencepiece's BPE, whose pieces have scores. */
#include "core/encoding.h"
#include "files/gguf.h"
#include "tokenizer/gguf_strings.h"
#include "tokenizer/pre_tokenizer_patterns.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_byte_level.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPE_UNKNOWN = 2, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED, TYPE_BYTE, MAX_TOKENS = 1 << 24 };

typedef struct gguf_reader {
    const gyre_gguf *file;
    const char *path;
    gyre_tokenizer *t;
    int is_llama;
    gyre_error *err;
} gguf_reader;

static gyre_status refuse(const gguf_reader *r, gyre_status status, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static gyre_status refuse(const gguf_reader *r, gyre_status status, const char *key, const char *format, ...) {
    char why[240];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    const gyre_gguf_kv *pair = gyre_gguf_find_key(r->file, key);
    const uint64_t offset = pair ? pair->offset : 0;
    (void)gyre_fail(r->err, status, "%s: %s (%.150s, offset %" PRIu64 ")", key, why, r->path, offset);
    if (r->err) r->err->offset = offset;
    return status;
}

#ifdef __clang_analyzer__ /* it does not look into variadic functions */
#define refuse(r, status, ...) ((void)refuse(r, status, __VA_ARGS__), (status))
#endif

/* -- pre-tokenizer -- */
static gyre_status set_pre_tokenizer(const gguf_reader *r) {
    char name[64] = "default";
    gyre_error why = {0};
    const gyre_gguf_kv *pre = gyre_gguf_find_key(r->file, "tokenizer.ggml.pre");
    if (pre && pre->value.type == GYRE_GGUF_STRING && pre->value.count < sizeof name - 3)
        snprintf(name, sizeof name, "%.*s", (int)pre->value.count, (const char *)pre->value.data);
    else if (pre)
        return refuse(r, GYRE_EFORMAT, "tokenizer.ggml.pre", "not a name");
    const gyre_pre_tokenizer_patterns *known = gyre_pre_tokenizer_patterns_named(name);
    if (!known) {
        for (size_t i = 0; name[i]; i++)
            if (name[i] < ' ' || name[i] > '~') name[i] = '?';
        gyre_tokenizer_add_note(r->t, "tokenizer.ggml.pre %s: not known, cut by GPT-2's pattern", name);
        known = gyre_pre_tokenizer_patterns_named("gpt-2");
    }
    r->t->ignore_merges = known->ignore_merges;
    r->t->info.adds_begin = known->adds_begin;
    for (size_t i = 0; i < GYRE_MAX_PATTERNS && known->patterns[i]; i++) {
        const char *pattern = known->patterns[i];
        const gyre_status status =
            gyre_pre_tokenizer_add(&r->t->steps, pattern, strlen(pattern), 0, GYRE_SPLIT_ISOLATED, 0, &why);
        if (status) return refuse(r, status, "tokenizer.ggml.pre", "%s", why.text);
    }
    return GYRE_OK;
}

/* -- arrays -- */
/* *out = the key's array of `element`, or NULL if the key is missing and not required.  count: elements it must have;
 * 0 = any number. */
static gyre_status array_of(const gguf_reader *r, const char *key, gyre_gguf_type element, int is_required, uint64_t count,
                            const gyre_gguf_value **out) {
    const gyre_gguf_kv *pair = gyre_gguf_find_key(r->file, key);
    *out = NULL;
    if (!pair) return is_required ? refuse(r, GYRE_EFORMAT, key, "missing") : GYRE_OK;
    const gyre_gguf_value *v = &pair->value;
    const int is_number = element != GYRE_GGUF_STRING;
    if (v->type != GYRE_GGUF_ARRAY || (is_number ? !gyre_gguf_type_size(v->element) : v->element != element))
        return refuse(r, GYRE_EFORMAT, key, "not an array of %s", is_number ? "numbers" : "strings");
    if (count && v->count != count)
        return refuse(r, GYRE_EFORMAT, key, "%" PRIu64 " elements for %" PRIu64 " tokens", v->count, count);
    *out = v;
    return GYRE_OK;
}

/* Scratch for the bytes of one string. */
typedef struct byte_buffer {
    unsigned char *bytes;
    size_t capacity;
} byte_buffer;

static gyre_status reserve(const gguf_reader *r, byte_buffer *b, size_t bytes) {
    if (bytes < b->capacity) return GYRE_OK;
    unsigned char *grown = realloc(b->bytes, 2 * bytes + 64);
    if (!grown) return gyre_fail(r->err, GYRE_ENOMEM, "tokenizer: no memory (%s)", r->path);
    b->bytes = grown;
    b->capacity = 2 * bytes + 64;
    return GYRE_OK;
}

/* -- tokens -- */
/* to = the bytes of text that a piece stands for.  Returns whether text can contain them. */
static int decode(const gguf_reader *r, const char *text, size_t bytes, unsigned char *to, size_t *length) {
    if (r->is_llama) return gyre_metaspace_decode(text, bytes, to, length);
    if (gyre_byte_level_decode(text, bytes, to, length)) return 1;
    memcpy(to, text, bytes);
    *length = bytes;
    return 0;
}

static int is_added_type(int64_t type) {
    return type == TYPE_UNKNOWN || type == TYPE_CONTROL || type == TYPE_USER_DEFINED;
}

/* 1 for an added token in GPT-2's alphabet that is written otherwise than the bytes it stands for.  Merges may make it of
 * those, so until they are read (put_other_words) it is a word. */
static int is_other_word(const gguf_reader *r, const char *text, size_t bytes, int64_t type, unsigned char *scratch) {
    size_t length;
    return !r->is_llama && is_added_type(type) && gyre_byte_level_decode(text, bytes, scratch, &length) &&
           (length != bytes || memcmp(text, scratch, bytes) != 0);
}

static gyre_status put_token(const gguf_reader *r, int32_t id, const char *text, size_t bytes, int64_t type,
                             unsigned char *scratch) {
    gyre_tokenizer *t = r->t;
    gyre_piece *p = &t->vocabulary.pieces[id];
    size_t length = bytes;
    const int byte = type == TYPE_BYTE ? gyre_byte_fallback_decode(text, bytes) : -1;
    if (type == TYPE_BYTE && byte < 0)
        return refuse(r, GYRE_EFORMAT, "tokenizer.ggml.tokens", "token %" PRId32 " is of type byte, but not <0xXX>", id);
    const int is_added = is_added_type(type) && !is_other_word(r, text, bytes, type, scratch);
    p->kind = byte >= 0 ? GYRE_PIECE_BYTE : GYRE_PIECE_NORMAL;
    p->byte = (unsigned char)(byte >= 0 ? byte : 0);
    if (is_added && !(r->is_llama && type == TYPE_USER_DEFINED))
        memcpy(scratch, text, bytes);
    else if (decode(r, text, bytes, scratch, &length))
        p->is_text = !is_added;
    gyre_status status = gyre_vocabulary_set(&t->vocabulary, id, scratch, length, r->err);
    if (!status && is_added && length > 0)
        status = gyre_tokenizer_mark_added(t, id, type != TYPE_USER_DEFINED, 0, 0, 0, r->err);
    if (!status || status == GYRE_ENOMEM) return status;
    return refuse(r, status, "tokenizer.ggml.tokens", "token %" PRId32 " has %zu bytes", id, bytes);
}

static gyre_status put_tokens(const gguf_reader *r, const gyre_gguf_value *tokens) {
    const gyre_gguf_value *types;
    gyre_status status = array_of(r, "tokenizer.ggml.token_type", GYRE_GGUF_I32, 0, tokens->count, &types);
    if (status) return status;
    byte_buffer scratch = {NULL, 0};
    const unsigned char *cursor = tokens->data;
    for (int32_t id = 0; id < (int32_t)tokens->count && !status; id++) {
        size_t bytes;
        int64_t type = 1;
        const char *text = gyre_gguf_next_string(&cursor, &bytes);
        if (types && !gyre_gguf_integer(types, (uint64_t)id, &type))
            status = refuse(r, GYRE_EFORMAT, "tokenizer.ggml.token_type", "element %" PRId32 " is not a type", id);
        if (!status) status = reserve(r, &scratch, bytes);
        if (!status) status = put_token(r, id, text, bytes, type, scratch.bytes);
    }
    free(scratch.bytes);
    return status;
}

/* Such a word, after the merges.  It stays one if text becomes it by its bytes. */
static gyre_status put_other_word(const gguf_reader *r, int32_t id, const char *text, size_t bytes, int64_t type,
                                  gyre_making making) {
    gyre_tokenizer *t = r->t;
    const int special = type != TYPE_USER_DEFINED;
    if (special && making == GYRE_MADE_BY_MERGE)
        return refuse(r, GYRE_EUNSUPPORTED, "tokenizer.ggml.token_type", "%" PRId32 ": " GYRE_SPECIAL_WORD, id);
    if (!special && making != GYRE_MADE_NEVER) {
        gyre_tokenizer_add_note(t, GYRE_WORD_NOTE, "tokenizer.ggml.token_type");
        return GYRE_OK;
    }
    t->vocabulary.pieces[id].is_text = 0;
    gyre_status status = gyre_vocabulary_set(&t->vocabulary, id, text, bytes, r->err);
    if (!status) status = gyre_tokenizer_mark_added(t, id, special, 0, 0, 0, r->err);
    if (!status || status == GYRE_ENOMEM) return status;
    return refuse(r, status, "tokenizer.ggml.tokens", "token %" PRId32 " has %zu bytes", id, bytes);
}

/* After merges and pre-tokenizer, which determine words. */
static gyre_status put_other_words(const gguf_reader *r, const gyre_gguf_value *tokens) {
    const gyre_gguf_value *types;
    unsigned char *made = NULL;
    byte_buffer scratch = {NULL, 0};
    gyre_status status = array_of(r, "tokenizer.ggml.token_type", GYRE_GGUF_I32, 0, tokens->count, &types);
    if (!status && types) status = gyre_tokenizer_list_made(r->t, &made, r->err);
    const unsigned char *cursor = tokens->data;
    for (int32_t id = 0; made && id < (int32_t)tokens->count && !status; id++) {
        size_t bytes;
        int64_t type = 1;
        const char *text = gyre_gguf_next_string(&cursor, &bytes);
        (void)gyre_gguf_integer(types, (uint64_t)id, &type);
        status = is_added_type(type) ? reserve(r, &scratch, bytes) : GYRE_OK;
        if (status || !is_added_type(type) || !is_other_word(r, text, bytes, type, scratch.bytes)) continue;
        status = put_other_word(r, id, text, bytes, type, (gyre_making)made[id]);
    }
    free(scratch.bytes);
    free(made);
    return status;
}

/* -- merges and scores -- */
static gyre_status put_merge(const gguf_reader *r, uint64_t i, const char *text, size_t bytes, unsigned char *scratch) {
    static const char key[] = "tokenizer.ggml.merges";
    const gyre_vocabulary *v = &r->t->vocabulary;
    const char *space = bytes > 1 ? memchr(text + 1, ' ', bytes - 1) : NULL;
    size_t left, right;
    if (!space) return refuse(r, GYRE_EFORMAT, key, "element %" PRIu64 " is not a pair", i);
    const size_t first = (size_t)(space - text);
    (void)decode(r, text, first, scratch, &left);
    (void)decode(r, space + 1, bytes - first - 1, scratch + left, &right);
    const int32_t a = gyre_vocabulary_find(v, scratch, left), b = gyre_vocabulary_find(v, scratch + left, right);
    const int32_t merged = gyre_vocabulary_find(v, scratch, left + right);
    if (a < 0 || b < 0 || merged < 0)
        return refuse(r, GYRE_EFORMAT, key, "element %" PRIu64 ": \"%.*s\", or what it makes, is not a token", i,
                      (int)(bytes < 60 ? bytes : 60), text);
    if (gyre_tokenizer_add_merge(r->t, a, b, merged, (uint32_t)i) < 0)
        return gyre_fail(r->err, GYRE_ENOMEM, "tokenizer: no memory for merges (%s)", r->path);
    return GYRE_OK;
}

static gyre_status put_merges(const gguf_reader *r) {
    const gyre_gguf_value *merges;
    gyre_status status = array_of(r, "tokenizer.ggml.merges", GYRE_GGUF_STRING, 1, 0, &merges);
    if (status) return status;
    if (merges->count > UINT32_MAX) return refuse(r, GYRE_EFORMAT, "tokenizer.ggml.merges", "too many");
    const unsigned char *cursor = merges->data;
    byte_buffer scratch = {NULL, 0};
    for (uint64_t i = 0; i < merges->count && !status; i++) {
        size_t bytes;
        const char *text = gyre_gguf_next_string(&cursor, &bytes);
        status = reserve(r, &scratch, bytes);
        if (!status) status = put_merge(r, i, text, bytes, scratch.bytes);
    }
    free(scratch.bytes);
    return status;
}

typedef struct id_score {
    double score;
    int32_t id;
} id_score;

static int by_score(const void *a, const void *b) {
    const double x = ((const id_score *)a)->score, y = ((const id_score *)b)->score;
    return (x < y) - (x > y);
}

/* ranks[id] = position of the score, highest first.  Equal scores have equal ranks. */
static gyre_status put_scores(const gguf_reader *r) {
    const gyre_gguf_value *scores;
    const int64_t count = r->t->vocabulary.count;
    gyre_status status = array_of(r, "tokenizer.ggml.scores", GYRE_GGUF_F32, 1, (uint64_t)count, &scores);
    if (status) return status;
    id_score *order = malloc((size_t)count * sizeof *order);
    r->t->ranks = malloc((size_t)count * sizeof *r->t->ranks);
    if (!order || !r->t->ranks) {
        free(order);
        return gyre_fail(r->err, GYRE_ENOMEM, "tokenizer: no memory for scores (%s)", r->path);
    }
    for (int64_t i = 0; i < count && !status; i++) {
        order[i].id = (int32_t)i;
        if (!gyre_gguf_number(scores, (uint64_t)i, &order[i].score) || isnan(order[i].score))
            status = refuse(r, GYRE_EFORMAT, "tokenizer.ggml.scores", "element %" PRId64 " is not a number", i);
    }
    if (!status) qsort(order, (size_t)count, sizeof *order, by_score);
    uint32_t rank = 0;
    for (int64_t i = 0; i < count && !status; i++) {
        rank += i > 0 && order[i].score < order[i - 1].score;
        r->t->ranks[order[i].id] = rank;
    }
    r->t->by_scores = 1;
    free(order);
    return status;
}

/* -- special tokens -- */
/* Reads a token id.  One out of range is an error if is_used.  Otherwise it is noted: published files have some. */
static gyre_status read_id(const gguf_reader *r, const char *key, int32_t fallback, int is_used, int32_t *out) {
    const gyre_gguf_kv *pair = gyre_gguf_find_key(r->file, key);
    int64_t id = fallback;
    if (pair && (!gyre_gguf_integer(&pair->value, 0, &id) || id < 0 || id >= r->t->vocabulary.count)) {
        if (is_used) return refuse(r, GYRE_EFORMAT, key, "no token's id");
        gyre_tokenizer_add_note(r->t, "%s: no token's id", key);
        id = -1;
    }
    *out = id < r->t->vocabulary.count ? (int32_t)id : -1;
    return GYRE_OK;
}

static int bool_or(const gguf_reader *r, const char *key, int fallback) {
    const gyre_gguf_kv *pair = gyre_gguf_find_key(r->file, key);
    int64_t value;
    return pair && gyre_gguf_integer(&pair->value, 0, &value) ? value != 0 : fallback;
}

static gyre_status read_special_tokens(const gguf_reader *r) {
    gyre_tokenizer_info *info = &r->t->info;
    gyre_status status = read_id(r, "tokenizer.ggml.bos_token_id", r->is_llama ? 1 : -1, 1, &info->begin);
    if (!status) status = read_id(r, "tokenizer.ggml.eos_token_id", r->is_llama ? 2 : -1, 1, &info->end);
    if (!status) status = read_id(r, "tokenizer.ggml.unknown_token_id", r->is_llama ? 0 : -1, 0, &info->unknown);
    if (!status) status = read_id(r, "tokenizer.ggml.padding_token_id", -1, 0, &info->pad);
    if (status) return status;
    info->adds_begin = info->begin >= 0 && bool_or(r, "tokenizer.ggml.add_bos_token", r->is_llama || info->adds_begin);
    if (info->end >= 0 && bool_or(r, "tokenizer.ggml.add_eos_token", 0))
        gyre_tokenizer_add_note(r->t, GYRE_NO_END_TOKEN_NOTE, "tokenizer.ggml.add_eos_token");
    if (r->is_llama && bool_or(r, "tokenizer.ggml.add_space_prefix", 1)) r->t->prepend_scheme = GYRE_PREPEND_ALWAYS;
    gyre_tokenizer_finish(r->t);
    return GYRE_OK;
}

/* -- chat template -- */
/* One that is no text is ignored, as one is that holds a NUL. */
static gyre_status read_chat_template(const gguf_reader *r) {
    const gyre_gguf_kv *pair = gyre_gguf_find_key(r->file, "tokenizer.chat_template");
    if (!pair || pair->value.type != GYRE_GGUF_STRING || memchr(pair->value.data, 0, pair->value.count)) return GYRE_OK;
    r->t->chat_template = strndup((const char *)pair->value.data, pair->value.count);
    return r->t->chat_template ? GYRE_OK : gyre_fail(r->err, GYRE_ENOMEM, "tokenizer: no memory (%s)", r->path);
}

static gyre_status read_all(const gguf_reader *r) {
    const gyre_gguf_value *tokens;
    gyre_status status = array_of(r, "tokenizer.ggml.tokens", GYRE_GGUF_STRING, 1, 0, &tokens);
    if (status) return status;
    if (tokens->count == 0 || tokens->count > MAX_TOKENS)
        return refuse(r, GYRE_EFORMAT, "tokenizer.ggml.tokens", "%" PRIu64 " tokens", tokens->count);
    status = gyre_vocabulary_init(&r->t->vocabulary, (int64_t)tokens->count, r->err);
    if (!status) status = put_tokens(r, tokens);
    if (!status) status = r->is_llama ? put_scores(r) : put_merges(r);
    if (!status && !r->is_llama) status = set_pre_tokenizer(r);
    if (!status && !r->is_llama) status = put_other_words(r, tokens);
    if (!status) status = read_chat_template(r);
    return !status ? read_special_tokens(r) : status;
}

static gyre_status read_model(gguf_reader *r, gyre_tokenizer **out) {
    static const char key[] = "tokenizer.ggml.model";
    const gyre_gguf_kv *model = gyre_gguf_find_key(r->file, key);
    if (!model || model->value.type != GYRE_GGUF_STRING) return refuse(r, GYRE_EFORMAT, key, "missing, or not a name");
    r->is_llama = gyre_gguf_equals(&model->value, "llama");
    if (!r->is_llama && !gyre_gguf_equals(&model->value, "gpt2"))
        return refuse(r, GYRE_EUNSUPPORTED, key, "\"%.*s\" is neither gpt2 nor llama",
                      (int)(model->value.count < 40 ? model->value.count : 40), (const char *)model->value.data);
    gyre_status status =
        gyre_tokenizer_create(&r->t, r->path, r->is_llama ? GYRE_TOKENIZER_PIECES : GYRE_TOKENIZER_BYTE_LEVEL, r->err);
    if (status) return status;
    status = read_all(r);
    if (!status)
        *out = r->t;
    else
        gyre_tokenizer_free(r->t);
    return status;
}

gyre_status gyre_tokenizer_from_gguf(gyre_tokenizer **out, const void *bytes, size_t size, const char *path,
                                     gyre_error *err) {
    gyre_gguf *file;
    gyre_error why = {0};
    gyre_status status = gyre_gguf_open_head(&file, bytes, size, 1, &why);
    if (status) {
        (void)gyre_fail(err, status, "%.300s (%.150s, offset %" PRIu64 ")", why.text, path, why.offset);
        if (err) err->offset = why.offset;
        return status;
    }
    gguf_reader r = {.file = file, .path = path, .err = err};
    status = read_model(&r, out);
    gyre_gguf_free(file);
    return status;
}
