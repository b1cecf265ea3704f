/* convert_vocab_from_json.c: the tokens of a tokenizer.json. */
#include "convert/convert_pre_tokenizer.h"
#include "convert/convert_vocab.h"

#include "files/file_read.h"
#include "files/replace_folder.h"
#include "tokenizer/tokenizer_byte_level.h"
#include "util/checkpoint_files.h"
#include "util/error.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const float UNMERGED_SCORE = -1e9f; /* of a token that no merge makes */

typedef struct reader {
    const char *path;
    const json_t *root, *model, *settings; /* settings: tokenizer_config.json, or NULL */
    gyre_convert_vocab *out;
    gyre_error *err;
} reader;

static gyre_status fail(const reader *r, gyre_status status, const char *what, const char *why) {
    return gyre_fail(r->err, status, "tokenizer.json: %s: %s (%s)", what, why, r->path);
}

static const char *text_at(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* -- tokens -- */
static gyre_status set_token(const reader *r, const char *text, const json_t *id, int kind) {
    const json_int_t i = json_is_integer(id) ? json_integer_value(id) : -1;
    if (i < 0 || i >= r->out->count)
        return gyre_fail(r->err, GYRE_EFORMAT,
                         "tokenizer.json: token \"%.60s\": id %lld, where the model has %" PRId64 " (%s)", text,
                         (long long)i, r->out->count, r->path);
    r->out->id_to_token[i].kind = kind;
    return gyre_convert_vocab_set_text(r->out, i, text, strlen(text), r->path, r->err);
}

static int is_byte_token(const char *text) {
    return strlen(text) == 6 && strncmp(text, "<0x", 3) == 0 && text[5] == '>';
}

static gyre_status read_vocab(const reader *r) {
    const json_t *vocab = json_object_get(r->model, "vocab");
    const char *unknown = text_at(r->model, "unk_token"), *text;
    json_t *id;
    gyre_status status = GYRE_OK;
    if (!json_is_object(vocab)) return fail(r, GYRE_EFORMAT, "model.vocab", "no object of tokens");
    json_object_foreach((json_t *)vocab, text, id) {
        const int kind = !r->out->byte_level && is_byte_token(text)          ? GYRE_TOKEN_BYTE
                         : !r->out->byte_level && strcmp(text, unknown) == 0 ? GYRE_TOKEN_UNKNOWN
                                                                             : GYRE_TOKEN_NORMAL;
        status = set_token(r, text, id, kind);
        if (status != GYRE_OK) return status;
        if (kind == GYRE_TOKEN_UNKNOWN) r->out->unknown = (int32_t)json_integer_value(id);
    }
    return status;
}

static gyre_status read_added(const reader *r) {
    const json_t *list = json_object_get(r->root, "added_tokens"), *token;
    size_t i;
    gyre_status status = GYRE_OK;
    json_array_foreach((json_t *)list, i, token) {
        const char *text = text_at(token, "content");
        const json_t *id = json_object_get(token, "id");
        const int is_unknown = json_is_integer(id) && json_integer_value(id) == r->out->unknown;
        const int special = json_is_true(json_object_get(token, "special"));
        if (status == GYRE_OK)
            status = set_token(r, text, id,
                               is_unknown ? GYRE_TOKEN_UNKNOWN
                               : special  ? GYRE_TOKEN_CONTROL
                                          : GYRE_TOKEN_USER_DEFINED);
    }
    return status;
}

/* Names the rows of the embedding that have no token as llama.cpp's converter does. */
static gyre_status fill_unused_ids(const reader *r) {
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < r->out->count && status == GYRE_OK; i++) {
        char name[32];
        if (r->out->id_to_token[i].text) continue;
        const int length = snprintf(name, sizeof name, "[PAD%" PRId64 "]", i);
        r->out->id_to_token[i].kind = GYRE_TOKEN_UNUSED;
        status = gyre_convert_vocab_set_text(r->out, i, name, (size_t)length, r->path, r->err);
    }
    return status;
}

/* -- merges -- */
/* out = a merge, "a b" or ["a", "b"], as "a b" (spaced) or "ab", which the caller frees.  NULL: no merge, or no memory. */
static char *join_merge(const json_t *merge, int spaced) {
    const char *one = json_string_value(merge);
    const char *left = json_string_value(json_array_get(merge, 0)), *right = json_string_value(json_array_get(merge, 1));
    const char *space = one && *one ? strchr(one + 1, ' ') : NULL;
    if (one ? !space : !left || !right) return NULL;
    const size_t first = one ? (size_t)(space - one) : strlen(left);
    const char *rest = one ? space + 1 : right;
    char *text = malloc(first + strlen(rest) + 2);
    if (!text) return NULL;
    memcpy(text, one ? one : left, first);
    if (spaced) text[first] = ' ';
    memcpy(text + first + (spaced ? 1 : 0), rest, strlen(rest) + 1);
    return text;
}

/* For sentencepiece's kind: the score of a token is minus the rank of the first merge that makes it. */
static gyre_status read_scores(const reader *r, const json_t *merges) {
    const json_t *vocab = json_object_get(r->model, "vocab"), *merge;
    size_t i;
    for (int64_t k = 0; k < r->out->count; k++)
        r->out->id_to_token[k].score = r->out->id_to_token[k].kind == GYRE_TOKEN_NORMAL ? UNMERGED_SCORE : 0;
    json_array_foreach((json_t *)merges, i, merge) {
        char *whole = join_merge(merge, 0);
        if (!whole) return fail(r, GYRE_EFORMAT, "model.merges", "holds something that is not a pair of tokens");
        const json_t *id = json_object_get(vocab, whole);
        free(whole);
        if (!json_is_integer(id)) return fail(r, GYRE_EFORMAT, "model.merges", "makes what is not a token");
        gyre_convert_token *piece = &r->out->id_to_token[json_integer_value(id)];
        if (piece->score == UNMERGED_SCORE) piece->score = -(float)i;
    }
    return GYRE_OK;
}

static gyre_status read_merges(const reader *r, const json_t *merges) {
    const json_t *merge;
    size_t i;
    r->out->merges = calloc(json_array_size(merges) + 1, sizeof *r->out->merges);
    if (!r->out->merges) return fail(r, GYRE_ENOMEM, "model.merges", "no memory");
    json_array_foreach((json_t *)merges, i, merge) {
        char *text = join_merge(merge, 1);
        if (!text) return fail(r, GYRE_EFORMAT, "model.merges", "holds something that is not a pair of tokens");
        r->out->merges[r->out->merges_count++] = text;
    }
    return GYRE_OK;
}

/* -- words, begin and end of a text -- */
/* out = step i of a Sequence, whose list is named `list`; of any other object, step 0 is the object itself.  NULL after
 * the last. */
static const json_t *pipeline_step(const json_t *object, const char *list, size_t i) {
    if (strcmp(text_at(object, "type"), "Sequence") != 0) return i == 0 && json_is_object(object) ? object : NULL;
    return json_array_get(json_object_get(object, list), i);
}

static gyre_status read_pre_tokenizer(const reader *r) {
    const json_t *pre_tokenizer_json = json_object_get(r->root, "pre_tokenizer"), *one;
    const char *pattern = "";
    int digits = 0, splits = 0;
    for (size_t i = 0; (one = pipeline_step(pre_tokenizer_json, "pretokenizers", i)); i++) {
        if (strcmp(text_at(one, "type"), "Digits") == 0) digits = json_is_true(json_object_get(one, "individual_digits"));
        if (strcmp(text_at(one, "type"), "Split") != 0) continue;
        pattern = text_at(json_object_get(one, "pattern"), "Regex");
        splits++;
    }
    const char *name = splits > 1 ? NULL : gyre_pre_tokenizer_name(pattern, digits);
    if (!name) return fail(r, GYRE_EUNSUPPORTED, "pre_tokenizer", "llama.cpp's name for it is not known");
    snprintf(r->out->tokenizer_pre, sizeof r->out->tokenizer_pre, "%s", name);
    return GYRE_OK;
}

static int32_t id_of(const reader *r, const char *text) {
    for (int64_t i = 0; i < r->out->count && *text; i++)
        if (strcmp(r->out->id_to_token[i].text, text) == 0) return (int32_t)i;
    return -1;
}

/* The value is a string or an object with a content. */
static int32_t special_token_id(const reader *r, const char *key) {
    const json_t *value = json_object_get(r->settings, key);
    return id_of(r, json_is_string(value) ? json_string_value(value) : text_at(value, "content"));
}

/* Sets the begin token from a template that puts one before the text. */
static void read_template(const reader *r) {
    const json_t *processor = json_object_get(r->root, "post_processor"), *one;
    for (size_t i = 0; (one = pipeline_step(processor, "processors", i)); i++) {
        if (strcmp(text_at(one, "type"), "TemplateProcessing") != 0) continue;
        const json_t *single = json_object_get(one, "single");
        const json_t *first = json_object_get(json_array_get(single, 0), "SpecialToken");
        const json_t *last =
            json_object_get(json_array_get(single, json_array_size(single) - (json_array_size(single) > 0)), "SpecialToken");
        const int32_t begin = id_of(r, text_at(first, "id"));
        if (begin >= 0 && r->out->begin < 0) r->out->begin = begin;
        r->out->adds_begin |= begin >= 0;
        r->out->adds_end |= last && json_array_size(single) > 1;
    }
}

static void read_space_prefix(const reader *r) {
    const json_t *normalizer = json_object_get(r->root, "normalizer"),
                 *pre_tokenizer_json = json_object_get(r->root, "pre_tokenizer");
    const json_t *one;
    for (size_t i = 0; (one = pipeline_step(normalizer, "normalizers", i)); i++)
        if (strcmp(text_at(one, "type"), "Prepend") == 0 && strcmp(text_at(one, "prepend"), GYRE_SPACE_SYMBOL) == 0)
            r->out->space_prefix = 1;
    for (size_t i = 0; (one = pipeline_step(pre_tokenizer_json, "pretokenizers", i)); i++)
        if (strcmp(text_at(one, "type"), "Metaspace") == 0 && strcmp(text_at(one, "prepend_scheme"), "never") != 0)
            r->out->space_prefix = !json_is_false(json_object_get(one, "add_prefix_space"));
}

static gyre_status read_settings(const reader *r) {
    gyre_convert_vocab *p = r->out;
    p->begin = special_token_id(r, "bos_token");
    p->end = special_token_id(r, "eos_token");
    p->pad = special_token_id(r, "pad_token");
    if (p->unknown < 0) p->unknown = special_token_id(r, "unk_token");
    read_template(r);
    if (!json_object_get(r->root, "post_processor"))
        p->adds_begin = json_is_true(json_object_get(r->settings, "add_bos_token"));
    const char *chat = text_at(r->settings, "chat_template");
    if (*chat) {
        p->chat_template = strdup(chat);
        if (!p->chat_template) return fail(r, GYRE_ENOMEM, "chat_template", "no memory");
    }
    if (p->byte_level) return read_pre_tokenizer(r);
    read_space_prefix(r);
    return GYRE_OK;
}

/* -- reading -- */
static gyre_status read_all(const reader *r, int64_t vocab) {
    if (strcmp(text_at(r->model, "type"), "BPE") != 0)
        return fail(r, GYRE_EUNSUPPORTED, "model.type", "only BPE is converted");
    gyre_status status = gyre_convert_vocab_init(r->out, vocab, r->err);
    if (status != GYRE_OK) return status;
    const json_t *merges = json_object_get(r->model, "merges");
    r->out->byte_level = !json_is_true(json_object_get(r->model, "byte_fallback"));
    status = read_vocab(r);
    if (status == GYRE_OK) status = read_added(r);
    if (status == GYRE_OK) status = fill_unused_ids(r);
    if (status == GYRE_OK) status = r->out->byte_level ? read_merges(r, merges) : read_scores(r, merges);
    return status == GYRE_OK ? read_settings(r) : status;
}

/* *out = the parsed file, or NULL if there is none. */
static gyre_status load(const char *folder, const char *name, json_t **out, gyre_error *err) {
    char path[PATH_MAX], *text;
    size_t bytes;
    struct stat info;
    json_error_t error;
    *out = NULL;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_MAX || stat(path, &info) != 0) return GYRE_OK;
    const gyre_status status = gyre_document_read(path, &text, &bytes, err);
    if (status != GYRE_OK) return status;
    *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (*out) return GYRE_OK;
    return gyre_fail(err, GYRE_EFORMAT, "%s: %s (%s, line %d)", name, error.text, path, error.line);
}

gyre_status gyre_convert_vocab_from_json(gyre_convert_vocab *out, int *there, const char *folder, int64_t vocab,
                                         gyre_error *err) {
    json_t *root, *settings = NULL;
    gyre_status status = load(folder, GYRE_TOKENIZER_FILE, &root, err);
    *there = root != NULL;
    if (status != GYRE_OK || !root) return status;
    status = load(folder, GYRE_TOKENIZER_CONFIG_FILE, &settings, err);
    const reader r = {folder, root, json_object_get(root, "model"), settings, out, err};
    if (status == GYRE_OK) status = read_all(&r, vocab);
    if (status != GYRE_OK) gyre_convert_vocab_free(out);
    json_decref(root);
    json_decref(settings);
    return status;
}
