/* tokenizer_json.c: vocabulary, merges and added tokens of a tokenizer.json, and what its neighbours say of begin and
 * end. */
#include "tokenizer/tokenizer_json.h"

#include "files/file_read.h"
#include "files/json_load.h"
#include "files/json_locate.h"
#include "tokenizer/tokenizer_byte_level.h"
#include "util/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_ID_RATIO = 16,   /* ids may reach to so many times the number of tokens, */
    MAX_ID_SLACK = 65536 /* and so much further */
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

#ifdef __clang_analyzer__ /* which does not look into functions of any number of arguments */
#define gyre_tokenizer_json_fail(r, status, ...) ((void)gyre_tokenizer_json_fail(r, status, __VA_ARGS__), (status))
#endif

const char *gyre_tokenizer_json_string(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* -- vocabulary -- */
/* The largest id of both lists, which must not be far more than there are. */
static gyre_status count_ids(const gyre_tokenizer_json_reader *r, const json_t *vocab, const json_t *added, int64_t *count) {
    const size_t tokens = json_object_size(vocab) + json_array_size(added);
    const int64_t most =
        (int64_t)(tokens < INT32_MAX / 2 / MAX_ID_RATIO ? tokens : INT32_MAX / 2 / MAX_ID_RATIO) * MAX_ID_RATIO +
        MAX_ID_SLACK;
    const char *piece;
    size_t i;
    json_t *value;
    *count = 0;
    json_object_foreach((json_t *)vocab, piece, value) {
        const json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id >= most)
            return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "model.vocab",
                                            "model.vocab: the id of \"%.60s\" is not of 0 .. %lld", piece,
                                            (long long)most - 1);
        if (id >= *count) *count = id + 1;
    }
    json_array_foreach(added, i, value) {
        const json_t *number = json_object_get(value, "id");
        const json_int_t id = json_integer_value(number);
        if (!json_is_integer(number) || id < 0 || id >= most)
            return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "added_tokens", "added_tokens[%zu].id: not of 0 .. %lld", i,
                                            (long long)most - 1);
        if (!json_is_string(json_object_get(value, "content")))
            return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "added_tokens", "added_tokens[%zu].content: no text", i);
        if (id >= *count) *count = id + 1;
    }
    return *count > 0 ? GYRE_OK : gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "model.vocab", "model.vocab: no tokens");
}

/* The piece's bytes of text in to[]; out = whether text can have them. */
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
    gyre_rope_dialect *v = &r->t->vocabulary;
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

/* Pieces that are text first, so that they are the ones found where another is written otherwise and stands for the same. */
static gyre_status put_vocabulary(const gyre_tokenizer_json_reader *r, const json_t *vocab, unsigned char *scratch) {
    const int has_bytes = !r->byte_level && json_is_true(json_object_get(r->model, "byte_fallback"));
    const char *piece;
    json_t *value;
    gyre_status status = GYRE_OK;
    for (int late = 0; late < 2; late++)
        json_object_foreach((json_t *)vocab, piece, value) {
            size_t length;
            if (decode_piece(r, piece, strlen(piece), scratch, &length) == late) continue;
            status = put_piece(r, piece, (int32_t)json_integer_value(value), has_bytes, scratch);
            if (status != GYRE_OK) return status;
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
    gyre_piece *p = &t->vocabulary.pieces[id];
    if (p->kind == GYRE_PIECE_ADDED || p->kind == GYRE_PIECE_SPECIAL)
        return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "added_tokens", "added_tokens[%zu].id: %d is that of another", i,
                                        (int)id);
    /* What such a token stands for is spaces; the text that it is written as has to come back as that text. */
    if (r->spaces && p->kind != GYRE_PIECE_NONE && !special && strstr(content, "\xE2\x96\x81")) return GYRE_OK;
    p->is_text = 0;
    gyre_status status = gyre_vocabulary_set(&t->vocabulary, id, content, strlen(content), r->err);
    if (status == GYRE_OK)
        status = gyre_tokenizer_mark_added(t, id, special, json_is_true(json_object_get(token, "normalized")),
                                           json_is_true(json_object_get(token, "lstrip")),
                                           json_is_true(json_object_get(token, "rstrip")), r->err);
    if (status == GYRE_ENOMEM || status == GYRE_OK) return status;
    return gyre_tokenizer_json_fail(r, status, "added_tokens",
                                    "added_tokens[%zu].content: %d bytes are the most that are looked for", i,
                                    GYRE_MAX_ADDED_TOKEN_BYTES);
}

/* -- merges -- */
/* The two halves of a merge: "a b", or ["a", "b"]. */
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
    const gyre_rope_dialect *v = &r->t->vocabulary;
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
static gyre_status check_model(const gyre_tokenizer_json_reader *r) {
    const char *type = gyre_tokenizer_json_string(r->model, "type");
    const json_t *merges = json_object_get(r->model, "merges");
    if (!json_is_object(r->model)) return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "model", "model: no object");
    if (*type ? strcmp(type, "BPE") != 0 : !merges)
        return gyre_tokenizer_json_fail(r, GYRE_EUNSUPPORTED, "model.type", "model.type: \"%.60s\" is not BPE", type);
    if (!json_is_object(json_object_get(r->model, "vocab")))
        return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "model.vocab", "model.vocab: no object");
    if (!json_is_array(merges) || json_array_size(merges) > INT32_MAX)
        return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "model.merges", "model.merges: no array");
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "end_of_word_suffix" : "continuing_subword_prefix";
        if (*gyre_tokenizer_json_string(r->model, name))
            return gyre_tokenizer_json_fail(r, GYRE_EUNSUPPORTED, "model", "model.%s: not done here", name);
    }
    const json_t *added = json_object_get(r->root, "added_tokens");
    if (added && !json_is_null(added) && !json_is_array(added))
        return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "added_tokens", "added_tokens: no array");
    if (json_number_value(json_object_get(r->model, "dropout")) > 0.0) gyre_tokenizer_add_note(r->t, "dropout: not applied");
    return GYRE_OK;
}

static gyre_status put_tokens(const gyre_tokenizer_json_reader *r, unsigned char *scratch) {
    const json_t *vocab = json_object_get(r->model, "vocab"), *merges = json_object_get(r->model, "merges");
    const json_t *added = json_object_get(r->root, "added_tokens"), *value;
    int64_t count;
    size_t i;
    gyre_status status = count_ids(r, vocab, added, &count);
    if (status == GYRE_OK) status = gyre_vocabulary_init(&r->t->vocabulary, count, r->err);
    if (status == GYRE_OK) status = put_vocabulary(r, vocab, scratch);
    /* Added tokens first: nothing is merged into one. */
    for (i = 0; i < json_array_size(added) && status == GYRE_OK; i++)
        status = put_added_token(r, json_array_get(added, i), i);
    for (i = 0; i < json_array_size(merges) && status == GYRE_OK; i++) {
        value = json_array_get(merges, i);
        status = put_merge(r, value, i, scratch);
    }
    r->t->ignore_merges = json_is_true(json_object_get(r->model, "ignore_merges"));
    return status;
}

static int32_t id_of(const gyre_tokenizer *t, const char *content) {
    return content && *content ? gyre_vocabulary_find(&t->vocabulary, content, strlen(content)) : -1;
}

/* -- beside it -- */
/* out = the file's object, or NULL where it is missing or none: then it says nothing. */
static json_t *load_sibling_json(const char *folder, const char *name) {
    char path[4096], *text;
    size_t bytes;
    json_error_t why;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path) return NULL;
    if (gyre_file_read(path, &text, &bytes, NULL) != GYRE_OK) return NULL;
    json_t *root = gyre_json_load(text, bytes, &why);
    free(text);
    return root;
}

/* "bos_token": a text, or an added token. */
static int32_t settings_token_id(const gyre_tokenizer *t, const json_t *settings, const char *key) {
    const json_t *value = json_object_get(settings, key);
    return id_of(t, json_is_object(value) ? gyre_tokenizer_json_string(value, "content") : json_string_value(value));
}

/* "eos_token_id": a number, or a list, whose first is taken. */
static int32_t config_token_id(const gyre_tokenizer *t, const json_t *config, const char *key) {
    const json_t *value = json_object_get(config, key);
    if (json_is_array(value)) value = json_array_get(value, 0);
    const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    return id >= 0 && id < t->vocabulary.count ? (int32_t)id : -1;
}

static void read_special_ids(gyre_tokenizer *t, const char *folder, int has_template) {
    json_t *settings = load_sibling_json(folder, "tokenizer_config.json"),
           *config = load_sibling_json(folder, "config.json");
    const struct {
        const char *name, *number;
        int32_t *id;
    } wanted[] = {{"bos_token", "bos_token_id", &t->info.begin},
                  {"eos_token", "eos_token_id", &t->info.end},
                  {"pad_token", "pad_token_id", &t->info.pad},
                  {"unk_token", "unk_token_id", &t->info.unknown}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (*wanted[i].id < 0) *wanted[i].id = settings_token_id(t, settings, wanted[i].name);
        if (*wanted[i].id < 0) *wanted[i].id = config_token_id(t, config, wanted[i].number);
    }
    if (!has_template && t->info.begin >= 0 && json_is_true(json_object_get(settings, "add_bos_token")))
        t->info.adds_begin = 1;
    json_decref(settings);
    json_decref(config);
}

/* What a template puts before the text; out = 1 where there is one. */
static int read_template(const gyre_tokenizer_json_reader *r, const json_t *post, int depth) {
    gyre_tokenizer *t = r->t;
    const char *type = gyre_tokenizer_json_string(post, "type");
    int32_t id = -1;
    if (strcmp(type, "Sequence") == 0 && depth < 4) {
        const json_t *list = json_object_get(post, "processors");
        int found = 0;
        for (size_t i = 0; i < json_array_size(list); i++)
            found |= read_template(r, json_array_get(list, i), depth + 1);
        return found;
    }
    if (strcmp(type, "TemplateProcessing") == 0) {
        const json_t *list = json_object_get(post, "single");
        const json_t *first = json_object_get(json_array_get(list, 0), "SpecialToken");
        const json_t *last = json_object_get(json_array_get(list, json_array_size(list) - 1), "SpecialToken");
        id = id_of(t, gyre_tokenizer_json_string(first, "id"));
        if (last && last != first) gyre_tokenizer_add_note(t, "post_processor: no token is added at the end");
    } else if (strcmp(type, "RobertaProcessing") == 0 || strcmp(type, "BertProcessing") == 0) {
        id = id_of(t, json_string_value(json_array_get(json_object_get(post, "cls"), 0)));
        gyre_tokenizer_add_note(t, "post_processor: no token is added at the end");
    } else {
        return 0;
    }
    if (id >= 0) {
        t->info.begin = id;
        t->info.adds_begin = 1;
    }
    return 1;
}

static gyre_status read_file(gyre_tokenizer_json_reader *r, const char *folder) {
    unsigned char *scratch = malloc(r->bytes + 8); /* no string is longer than the file, nor are two halves of one */
    gyre_status status = scratch ? GYRE_OK : gyre_fail(r->err, GYRE_ENOMEM, "tokenizer: no memory (%s)", r->path);
    if (status == GYRE_OK) status = check_model(r);
    if (status == GYRE_OK) status = gyre_tokenizer_json_pipeline(r);
    if (status == GYRE_OK) status = put_tokens(r, scratch);
    free(scratch);
    if (status != GYRE_OK) return status;
    gyre_tokenizer *t = r->t;
    t->prepend_scheme = r->prepend_scheme;
    t->info.unknown = id_of(t, gyre_tokenizer_json_string(r->model, "unk_token"));
    const int has_template = read_template(r, json_object_get(r->root, "post_processor"), 0);
    if (folder) read_special_ids(t, folder, has_template);
    gyre_tokenizer_finish(t);
    return GYRE_OK;
}

gyre_status gyre_tokenizer_from_json(gyre_tokenizer **out, const char *text, size_t bytes, const char *path,
                                     const char *folder, gyre_error *err) {
    json_error_t why;
    json_t *root = gyre_json_load(text, bytes, &why);
    gyre_tokenizer_json_reader r = {.path = path, .text = text, .bytes = bytes, .root = root, .err = err};
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
    if (status == GYRE_OK) {
        status = read_file(&r, folder);
        if (status == GYRE_OK)
            *out = r.t;
        else
            gyre_tokenizer_free(r.t);
    }
    json_decref(root);
    return status;
}
