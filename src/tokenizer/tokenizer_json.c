/* tokenizer_json.c: vocabulary, merges and added tokens of a tokenizer.json. */
#include "tokenizer/tokenizer_json.h"

#include "files/file_read.h"
#include "files/json_locate.h"
#include "tokenizer/tokenizer_byte_level.h"
#include "util/error.h"
#include "util/json_load.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_ID_RATIO = 16,   /* ids must be below MAX_ID_RATIO times the number of tokens, */
    MAX_ID_SLACK = 65536 /* plus MAX_ID_SLACK */
};

gyre_status gyre_tokenizer_json_fail(const gyre_tokenizer_json_reader *r, gyre_status status, const char *key,
                                     const char *format, ...) {
    char why[300], line[32] = "";
    gyre_json_member member = {0};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    if (gyre_json_locate(r->text, r->bytes, key, &member))
        snprintf(line, sizeof line, ", line %lld", (long long)member.line);
    status = gyre_fail(r->err, status, "%s (%.150s%s)", why, r->path, line);
    if (r->err) r->err->offset = member.key;
    return status;
}

#ifdef __clang_analyzer__ /* it does not look into variadic functions */
#define gyre_tokenizer_json_fail(r, status, ...) ((void)gyre_tokenizer_json_fail(r, status, __VA_ARGS__), (status))
#endif

const char *gyre_tokenizer_json_string(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* -- vocabulary -- */
/* *count = the largest id of both lists + 1.  Ids far above the number of tokens are refused. */
static gyre_status count_ids(const gyre_tokenizer_json_reader *r, const json_t *vocab, const json_t *added, int64_t *count) {
    const size_t tokens = json_object_size(vocab) + json_array_size(added);
    const int64_t limit =
        (int64_t)(tokens < INT32_MAX / 2 / MAX_ID_RATIO ? tokens : INT32_MAX / 2 / MAX_ID_RATIO) * MAX_ID_RATIO +
        MAX_ID_SLACK;
    const char *piece;
    size_t i;
    json_t *value;
    *count = 0;
    json_object_foreach((json_t *)vocab, piece, value) {
        const json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id >= limit)
            return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "model.vocab",
                                            "model.vocab: the id of \"%.60s\" is not of 0 .. %lld", piece,
                                            (long long)limit - 1);
        if (id >= *count) *count = id + 1;
    }
    json_array_foreach(added, i, value) {
        const json_t *number = json_object_get(value, "id");
        const json_int_t id = json_integer_value(number);
        if (!json_is_integer(number) || id < 0 || id >= limit)
            return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "added_tokens", "added_tokens[%zu].id: not of 0 .. %lld", i,
                                            (long long)limit - 1);
        if (!json_is_string(json_object_get(value, "content")))
            return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "added_tokens", "added_tokens[%zu].content: not a text", i);
        if (id >= *count) *count = id + 1;
    }
    return *count > 0 ? GYRE_OK : gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "model.vocab", "model.vocab: no tokens");
}

/* to = the bytes of text that a piece stands for.  Returns whether text can contain them. */
static int decode_piece(const gyre_tokenizer_json_reader *r, const char *piece, size_t bytes, unsigned char *to,
                        size_t *length) {
    if (r->byte_level && gyre_byte_level_decode(piece, bytes, to, length)) return 1;
    if (!r->byte_level && r->spaces) return gyre_metaspace_decode(piece, bytes, to, length);
    memcpy(to, piece, bytes);
    *length = bytes;
    return !r->byte_level;
}

static gyre_status put_piece(const gyre_tokenizer_json_reader *r, const char *piece, int32_t id, int has_bytes,
                             unsigned char *scratch) {
    gyre_vocabulary *v = &r->t->vocabulary;
    size_t length;
    if (v->pieces[id].kind != GYRE_PIECE_NONE)
        return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "model.vocab", "model.vocab: \"%.60s\" has the id %d of another",
                                        piece, (int)id);
    const int byte = has_bytes ? gyre_byte_fallback_decode(piece, strlen(piece)) : -1;
    const int is_text = decode_piece(r, piece, strlen(piece), scratch, &length);
    v->pieces[id].kind = byte >= 0 ? GYRE_PIECE_BYTE : GYRE_PIECE_NORMAL;
    v->pieces[id].byte = (unsigned char)(byte >= 0 ? byte : 0);
    v->pieces[id].is_text = is_text != 0;
    const gyre_status status = gyre_vocabulary_set(v, id, scratch, length, r->err);
    return status == GYRE_EFORMAT ? gyre_tokenizer_json_fail(r, status, "model.vocab", "model.vocab: too long a token")
                                  : status;
}

/* Adds the pieces that are text first.  Lookups then find those, should another piece decode to the same bytes. */
static gyre_status put_vocabulary(const gyre_tokenizer_json_reader *r, const json_t *vocab, unsigned char *scratch) {
    const int has_bytes = !r->byte_level && json_is_true(json_object_get(r->model, "byte_fallback"));
    const char *piece;
    json_t *value;
    gyre_status status = GYRE_OK;
    for (int pass = 0; pass < 2; pass++)
        json_object_foreach((json_t *)vocab, piece, value) {
            size_t length;
            if (decode_piece(r, piece, strlen(piece), scratch, &length) == pass) continue;
            status = put_piece(r, piece, (int32_t)json_integer_value(value), has_bytes, scratch);
            if (status) return status;
        }
    return status;
}

/* -- added tokens -- */
static gyre_status put_added_token(const gyre_tokenizer_json_reader *r, const json_t *token, size_t i) {
    gyre_tokenizer *t = r->t;
    const char *content = gyre_tokenizer_json_string(token, "content");
    const int32_t id = (int32_t)json_integer_value(json_object_get(token, "id"));
    const int special = json_is_true(json_object_get(token, "special"));
    if (!*content) return GYRE_OK;
    if (json_is_true(json_object_get(token, "single_word")))
        return gyre_tokenizer_json_fail(r, GYRE_EUNSUPPORTED, "added_tokens",
                                        "added_tokens[%zu].single_word: \"%.60s\" wants it, "
                                        "which is not done here",
                                        i, content);
    const json_t *word = json_object_get(json_object_get(r->model, "vocab"), content);
    if (word && json_integer_value(word) != id)
        gyre_tokenizer_add_note(t, "added_tokens: a word that model.vocab has with another id, which tokenizers takes");
    gyre_piece *p = &t->vocabulary.pieces[id];
    if (p->kind == GYRE_PIECE_ADDED || p->kind == GYRE_PIECE_SPECIAL)
        return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "added_tokens", "added_tokens[%zu].id: %d is that of another", i,
                                        (int)id);
    /* The piece stands for spaces.  As an added token it would match a literal U+2581, which must decode to itself. */
    if (r->spaces && p->kind != GYRE_PIECE_NONE && !special && strstr(content, "\xE2\x96\x81")) return GYRE_OK;
    /* tokenizers searches a normalized text for the normalized content: with Prepend for a space and the token. */
    if (json_is_true(json_object_get(token, "normalized")) &&
        (r->normalizer_prepends || (r->normalizer_replaces && strchr(content, ' '))))
        gyre_tokenizer_add_note(
            t, "added_tokens.normalized: searched for as they are written, not as the normalizer writes them");
    p->is_text = 0;
    gyre_status status = gyre_vocabulary_set(&t->vocabulary, id, content, strlen(content), r->err);
    if (!status)
        status = gyre_tokenizer_mark_added(t, id, special, json_is_true(json_object_get(token, "normalized")),
                                           json_is_true(json_object_get(token, "lstrip")),
                                           json_is_true(json_object_get(token, "rstrip")), r->err);
    if (status == GYRE_ENOMEM || !status) return status;
    return gyre_tokenizer_json_fail(r, status, "added_tokens",
                                    "added_tokens[%zu].content: %d bytes are the most that are looked for", i,
                                    GYRE_MAX_ADDED_TOKEN_BYTES);
}

/* 1 for a word of a byte-level vocabulary that is written otherwise than the bytes it stands for, as one with a space is. */
static int is_other_word(const gyre_tokenizer_json_reader *r, const json_t *token, unsigned char *scratch) {
    const char *content = gyre_tokenizer_json_string(token, "content");
    const size_t bytes = strlen(content);
    size_t length;
    return r->byte_level &&
           json_equal(json_object_get(json_object_get(r->model, "vocab"), content), json_object_get(token, "id")) &&
           gyre_byte_level_decode(content, bytes, scratch, &length) &&
           (length != bytes || memcmp(content, scratch, bytes) != 0);
}

/* An added token that is such a word, after the merges.  It stays one if text becomes it by its bytes. */
static gyre_status put_other_word(const gyre_tokenizer_json_reader *r, const json_t *token, size_t i, gyre_making making) {
    const int special = json_is_true(json_object_get(token, "special"));
    if (special && making == GYRE_MADE_BY_MERGE)
        return gyre_tokenizer_json_fail(r, GYRE_EUNSUPPORTED, "added_tokens", "added_tokens[%zu]: " GYRE_SPECIAL_WORD, i);
    if (special || making == GYRE_MADE_NEVER) return put_added_token(r, token, i);
    gyre_tokenizer_add_note(r->t, GYRE_WORD_NOTE, "added_tokens");
    return GYRE_OK;
}

/* made: NULL = puts the added tokens that are no such words, before the merges, because nothing is merged into one.  Else
 * [vocab] gyre_making, and puts those words. */
static gyre_status put_added_tokens(const gyre_tokenizer_json_reader *r, const unsigned char *made, unsigned char *scratch) {
    const json_t *token;
    gyre_status status = GYRE_OK;
    size_t i;
    json_array_foreach(json_object_get(r->root, "added_tokens"), i, token) {
        if (is_other_word(r, token, scratch) != (made != NULL)) continue;
        status = made ? put_other_word(r, token, i, made[json_integer_value(json_object_get(token, "id"))])
                      : put_added_token(r, token, i);
        if (status) return status;
    }
    return status;
}

/* -- merges -- */
/* Splits a merge, "a b" or ["a", "b"], in two. */
static int split_merge(const json_t *merge, const char *half[2], size_t bytes[2]) {
    if (json_is_array(merge) && json_array_size(merge) == 2) {
        for (size_t i = 0; i < 2; i++) {
            half[i] = json_string_value(json_array_get(merge, i));
            bytes[i] = json_string_length(json_array_get(merge, i));
        }
        return half[0] && half[1];
    }
    const char *text = json_string_value(merge), *space = text ? strchr(text, ' ') : NULL;
    if (!space || strchr(space + 1, ' ')) return 0;
    half[0] = text;
    half[1] = space + 1;
    bytes[0] = (size_t)(space - text);
    bytes[1] = strlen(space + 1);
    return 1;
}

static gyre_status put_merge(const gyre_tokenizer_json_reader *r, const json_t *merge, size_t i, unsigned char *scratch) {
    const gyre_vocabulary *v = &r->t->vocabulary;
    const char *half[2];
    size_t bytes[2], length[2];
    int32_t id[3];
    if (!split_merge(merge, half, bytes))
        return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "model.merges",
                                        "model.merges[%zu]: neither \"a b\" nor [\"a\", \"b\"]", i);
    (void)decode_piece(r, half[0], bytes[0], scratch, &length[0]);
    (void)decode_piece(r, half[1], bytes[1], scratch + length[0], &length[1]);
    id[0] = gyre_vocabulary_find(v, scratch, length[0]);
    id[1] = gyre_vocabulary_find(v, scratch + length[0], length[1]);
    id[2] = gyre_vocabulary_find(v, scratch, length[0] + length[1]);
    for (int k = 0; k < 3; k++)
        if (id[k] < 0)
            return gyre_tokenizer_json_fail(
                r, GYRE_EFORMAT, "model.merges", "model.merges[%zu]: \"%.*s\" is not in model.vocab", i,
                k < 2 ? (int)(bytes[k] < 60 ? bytes[k] : 60) : 60, k < 2 ? half[k] : "what it makes");
    if (gyre_tokenizer_add_merge(r->t, id[0], id[1], id[2], (uint32_t)i) < 0)
        return gyre_fail(r->err, GYRE_ENOMEM, "tokenizer: no memory for merges (%s)", r->path);
    return GYRE_OK;
}

/* -- the file -- */
static void note_what_is_left_out(const gyre_tokenizer_json_reader *r) {
    if (json_number_value(json_object_get(r->model, "dropout")) > 0.0)
        gyre_tokenizer_add_note(r->t, "model.dropout: not applied");
    if (json_is_object(json_object_get(r->root, "truncation")))
        gyre_tokenizer_add_note(r->t, "truncation: not applied, texts keep all their tokens");
    if (json_is_object(json_object_get(r->root, "padding")))
        gyre_tokenizer_add_note(r->t, "padding: not applied, texts get no more tokens");
}

static gyre_status check_model(const gyre_tokenizer_json_reader *r) {
    const char *type = gyre_tokenizer_json_string(r->model, "type");
    const json_t *merges = json_object_get(r->model, "merges");
    if (!json_is_object(r->model)) return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "model", "model: not an object");
    if (*type ? strcmp(type, "BPE") != 0 : !merges)
        return gyre_tokenizer_json_fail(r, GYRE_EUNSUPPORTED, "model.type", "model.type: \"%.60s\" is not BPE", type);
    if (!json_is_object(json_object_get(r->model, "vocab")))
        return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "model.vocab", "model.vocab: not an object");
    if (!json_is_array(merges) || json_array_size(merges) > INT32_MAX)
        return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "model.merges", "model.merges: not an array");
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "end_of_word_suffix" : "continuing_subword_prefix";
        if (*gyre_tokenizer_json_string(r->model, name))
            return gyre_tokenizer_json_fail(r, GYRE_EUNSUPPORTED, "model", "model.%s: not done here", name);
    }
    const json_t *added = json_object_get(r->root, "added_tokens");
    if (added && !json_is_null(added) && !json_is_array(added))
        return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "added_tokens", "added_tokens: not an array");
    note_what_is_left_out(r);
    return GYRE_OK;
}

static gyre_status put_tokens(const gyre_tokenizer_json_reader *r, unsigned char *scratch) {
    const json_t *vocab = json_object_get(r->model, "vocab"), *merges = json_object_get(r->model, "merges");
    unsigned char *made = NULL;
    int64_t count;
    gyre_status status = count_ids(r, vocab, json_object_get(r->root, "added_tokens"), &count);
    if (!status) status = gyre_vocabulary_init(&r->t->vocabulary, count, r->err);
    if (!status) status = put_vocabulary(r, vocab, scratch);
    if (!status) status = put_added_tokens(r, NULL, scratch);
    for (size_t i = 0; i < json_array_size(merges) && !status; i++)
        status = put_merge(r, json_array_get(merges, i), i, scratch);
    r->t->ignore_merges = json_is_true(json_object_get(r->model, "ignore_merges"));
    if (!status) status = gyre_tokenizer_list_made(r->t, &made, r->err);
    if (!status) status = put_added_tokens(r, made, scratch);
    free(made);
    return status;
}

static gyre_status read_file(gyre_tokenizer_json_reader *r, const char *folder) {
    unsigned char *scratch =
        malloc(r->bytes + 8); /* no string of the file, and no two halves of a merge together, are longer than the file */
    gyre_status status = scratch ? GYRE_OK : gyre_fail(r->err, GYRE_ENOMEM, "tokenizer: no memory (%s)", r->path);
    if (!status) status = check_model(r);
    if (!status) status = gyre_tokenizer_json_pipeline(r);
    if (!status) status = put_tokens(r, scratch);
    free(scratch);
    if (status) return status;
    r->t->prepend_scheme = r->prepend_scheme;
    status = gyre_tokenizer_json_special_tokens(r, folder);
    if (!status) gyre_tokenizer_finish(r->t);
    return status;
}

gyre_status gyre_tokenizer_from_json(gyre_tokenizer **out, const char *text, size_t bytes, const char *path,
                                     const char *folder, gyre_error *err) {
    json_error_t why;
    json_t *root = gyre_json_load(text, bytes, &why);
    gyre_tokenizer_json_reader r = {.path = path, .text = text, .bytes = bytes, .root = root, .err = err};
    if (!root && gyre_json_lacked_memory(&why)) return gyre_fail(err, GYRE_ENOMEM, "tokenizer: no memory (%.150s)", path);
    if (!json_is_object(root)) {
        const size_t offset = root ? 0 : why.position > 0 ? (size_t)why.position : 0;
        (void)gyre_fail(err, GYRE_EFORMAT, "tokenizer: %s (%.150s, line %d)", root ? "no object" : why.text, path,
                        root ? 1 : why.line);
        if (err) err->offset = offset;
        json_decref(root);
        return GYRE_EFORMAT;
    }
    r.model = json_object_get(root, "model");
    gyre_status status = gyre_tokenizer_create(&r.t, path, GYRE_TOKENIZER_PIECES, err);
    if (!status) {
        status = read_file(&r, folder);
        if (!status)
            *out = r.t;
        else
            gyre_tokenizer_free(r.t);
    }
    json_decref(root);
    return status;
}
