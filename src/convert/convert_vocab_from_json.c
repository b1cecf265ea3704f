/* convert_vocab_from_json.c: the tokens of a tokenizer.json. */
#include "convert/convert_loss.h"
#include "convert/convert_pre_tokenizer.h"
#include "convert/convert_vocab.h"
#include "convert/convert_vocab_merges.h"
#include "convert/convert_vocab_pipeline.h"

#include "files/file_read.h"
#include "files/json_load.h"
#include "files/replace_folder.h"
#include "tokenizer/tokenizer_byte_level.h"
#include "util/checkpoint_files.h"
#include "util/error.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 4 };
static const float UNMERGED_SCORE = -1e9f; /* of a token that no merge makes */

typedef struct reader {
    const char *path;
    const json_t *root, *model, *settings, *config; /* settings: tokenizer_config.json; config: config.json; or NULL */
    const gyre_convert_pipeline *pipeline;
    const gyre_convert_options *options;
    gyre_convert_vocab *out;
    gyre_error *err;
} reader;

static gyre_status fail(const reader *r, gyre_status status, const char *what, const char *why) {
    return gyre_fail(r->err, status, "tokenizer.json: %s: %s (%s)", what, why, r->path);
}

static gyre_status lose(const reader *r, const char *what, const char *why) {
    return gyre_convert_lose(r->options, r->err, "tokenizer.json: %s: %s (%s)", what, why, r->path);
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

static gyre_status read_vocab(const reader *r) {
    const json_t *vocab = json_object_get(r->model, "vocab");
    const char *unknown = text_at(r->model, "unk_token"), *text;
    json_t *id;
    gyre_status status = GYRE_OK;
    if (!json_is_object(vocab)) return fail(r, GYRE_EFORMAT, "model.vocab", "no object of tokens");
    json_object_foreach((json_t *)vocab, text, id) {
        const int kind = !r->out->byte_level && gyre_byte_fallback_decode(text, strlen(text)) >= 0 ? GYRE_TOKEN_BYTE
                         : !r->out->byte_level && strcmp(text, unknown) == 0                       ? GYRE_TOKEN_UNKNOWN
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
    int takes_spaces = 0;
    json_array_foreach((json_t *)list, i, token) {
        const char *text = text_at(token, "content");
        const json_t *id = json_object_get(token, "id");
        const int is_unknown = json_is_integer(id) && json_integer_value(id) == r->out->unknown;
        const int special = json_is_true(json_object_get(token, "special"));
        takes_spaces |= json_is_true(json_object_get(token, "lstrip")) || json_is_true(json_object_get(token, "rstrip")) ||
                        json_is_true(json_object_get(token, "single_word"));
        if (status == GYRE_OK)
            status = set_token(r, text, id,
                               is_unknown ? GYRE_TOKEN_UNKNOWN
                               : special  ? GYRE_TOKEN_CONTROL
                                          : GYRE_TOKEN_USER_DEFINED);
    }
    if (status == GYRE_OK && takes_spaces)
        status = lose(r, "added_tokens", "lstrip, rstrip and single_word have no key in a GGUF");
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

/* *out = the tokens of a merge.  Returns 1 if texts may become all three, 0 if not, and -1 if one is no token, or without
 * memory. */
static int find_merge(const reader *r, const json_t *merge, gyre_convert_merge *out) {
    const json_t *vocab = json_object_get(r->model, "vocab");
    char *pair = join_merge(merge, 1), *whole = join_merge(merge, 0);
    const json_t *ids[3] = {NULL};
    char *space = pair ? strchr(pair + 1, ' ') : NULL;
    if (space && whole) {
        *space = '\0';
        ids[0] = json_object_get(vocab, whole);
        ids[1] = json_object_get(vocab, pair);
        ids[2] = json_object_get(vocab, space + 1);
    }
    free(pair);
    free(whole);
    if (!json_is_integer(ids[0]) || !json_is_integer(ids[1]) || !json_is_integer(ids[2])) return -1;
    *out = (gyre_convert_merge){(int32_t)json_integer_value(ids[0]), (int32_t)json_integer_value(ids[1]),
                                (int32_t)json_integer_value(ids[2]), 0};
    const gyre_convert_token *tokens = r->out->id_to_token;
    return gyre_convert_token_merges(&tokens[out->merged_id]) && gyre_convert_token_merges(&tokens[out->left]) &&
           gyre_convert_token_merges(&tokens[out->right]);
}

/* For sentencepiece's kind: the score of a token is minus the rank of the first merge that makes it. */
static gyre_status read_scores(const reader *r, const json_t *merges) {
    const json_t *vocab = json_object_get(r->model, "vocab"), *merge;
    gyre_convert_merge *list = malloc((json_array_size(merges) + 1) * sizeof *list);
    size_t i, count = 0;
    gyre_status status = list ? GYRE_OK : fail(r, GYRE_ENOMEM, "model.merges", "no memory");
    for (int64_t k = 0; k < r->out->count; k++)
        r->out->id_to_token[k].score = r->out->id_to_token[k].kind == GYRE_TOKEN_NORMAL ? UNMERGED_SCORE : 0;
    json_array_foreach((json_t *)merges, i, merge) {
        char *whole = join_merge(merge, 0);
        if (status == GYRE_OK && !whole)
            status = fail(r, GYRE_EFORMAT, "model.merges", "holds something that is not a pair of tokens");
        free(whole);
        const int found = status == GYRE_OK ? find_merge(r, merge, &list[count]) : 0;
        if (found < 0) status = fail(r, GYRE_EFORMAT, "model.merges", "holds or makes what is not a token");
        if (found <= 0) continue;
        gyre_convert_token *piece = &r->out->id_to_token[list[count].merged_id];
        if (piece->score == UNMERGED_SCORE) piece->score = -(float)i;
        list[count++].score = piece->score;
    }
    const int same = status == GYRE_OK ? gyre_convert_merges_are_scores(r->out, vocab, list, count) : 1;
    if (same < 0) status = fail(r, GYRE_ENOMEM, "model.merges", "no memory");
    if (same == 0) status = lose(r, "model.merges", "scores of tokens, as a GGUF has, would merge otherwise");
    free(list);
    return status;
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
static gyre_status read_pipeline(const reader *r) {
    const gyre_convert_pipeline *p = r->pipeline;
    const int ignore_merges = json_is_true(json_object_get(r->model, "ignore_merges"));
    int cuts = 0;
    if (p->refused[0]) return fail(r, GYRE_EUNSUPPORTED, p->refused, "a GGUF has no way to say it");
    if (!p->byte_level) {
        r->out->space_prefix = p->space_prefix;
        for (int64_t i = 0; i < r->out->count && p->cuts_before_spaces; i++)
            if (r->out->id_to_token[i].kind == GYRE_TOKEN_NORMAL && r->out->id_to_token[i].text[0] &&
                strstr(r->out->id_to_token[i].text + 1, GYRE_SPACE_SYMBOL))
                cuts = 1;
        if (ignore_merges) return fail(r, GYRE_EUNSUPPORTED, "model.ignore_merges", "a GGUF has no way to say it");
        return cuts ? lose(r, "pre_tokenizer Metaspace.split", "a GGUF has no way to say it") : GYRE_OK;
    }
    const char *name = gyre_pre_tokenizer_name(p->pattern, p->digits, ignore_merges);
    if (!name) return fail(r, GYRE_EUNSUPPORTED, "pre_tokenizer", "llama.cpp's name for it is not known");
    snprintf(r->out->tokenizer_pre, sizeof r->out->tokenizer_pre, "%s", name);
    return GYRE_OK;
}

static int32_t id_of(const reader *r, const char *text) {
    for (int64_t i = 0; i < r->out->count && *text; i++)
        if (strcmp(r->out->id_to_token[i].text, text) == 0) return (int32_t)i;
    return -1;
}

/* In tokenizer_config.json a string or an object with a content; else in config.json a number or a list of some. */
static int32_t special_token_id(const reader *r, const char *key, const char *number) {
    const json_t *value = json_object_get(r->settings, key), *other = json_object_get(r->config, number);
    const int32_t id = id_of(r, json_is_string(value) ? json_string_value(value) : text_at(value, "content"));
    if (json_is_array(other)) other = json_array_get(other, 0);
    const json_int_t i = json_is_integer(other) ? json_integer_value(other) : -1;
    return id >= 0 ? id : i >= 0 && i < r->out->count ? (int32_t)i : -1;
}

/* Sets the begin token from a template that puts one before the text.  Returns 1 if there is a template. */
static int read_template(const reader *r, const json_t *post, int depth) {
    const char *type = text_at(post, "type");
    const json_t *single = json_object_get(post, "single"), *list = json_object_get(post, "processors");
    const size_t count = json_array_size(single);
    const char *begin;
    int found = 0;
    if (strcmp(type, "Sequence") == 0 && depth < MAX_DEPTH) {
        for (size_t i = 0; i < json_array_size(list); i++)
            found |= read_template(r, json_array_get(list, i), depth + 1);
        return found;
    }
    if (strcmp(type, "TemplateProcessing") == 0) {
        begin = text_at(json_object_get(json_array_get(single, 0), "SpecialToken"), "id");
        r->out->adds_end |= count > 1 && json_object_get(json_array_get(single, count - 1), "SpecialToken");
    } else if (strcmp(type, "RobertaProcessing") == 0 || strcmp(type, "BertProcessing") == 0) {
        begin = json_string_value(json_array_get(json_object_get(post, "cls"), 0));
        r->out->adds_end = 1;
    } else {
        return 0;
    }
    const int32_t id = id_of(r, begin ? begin : "");
    if (id >= 0) r->out->begin = id;
    r->out->adds_begin |= id >= 0;
    return 1;
}

static gyre_status read_settings(const reader *r) {
    gyre_convert_vocab *p = r->out;
    const int has_template = read_template(r, json_object_get(r->root, "post_processor"), 0);
    if (p->begin < 0) p->begin = special_token_id(r, "bos_token", "bos_token_id");
    p->end = special_token_id(r, "eos_token", "eos_token_id");
    p->pad = special_token_id(r, "pad_token", "pad_token_id");
    if (p->unknown < 0) p->unknown = special_token_id(r, "unk_token", "unk_token_id");
    if (!has_template) p->adds_begin = p->begin >= 0 && json_is_true(json_object_get(r->settings, "add_bos_token"));
    const char *chat = text_at(r->settings, "chat_template");
    if (*chat) {
        p->chat_template = strdup(chat);
        if (!p->chat_template) return fail(r, GYRE_ENOMEM, "chat_template", "no memory");
    }
    return read_pipeline(r);
}

/* -- reading -- */
static gyre_status read_all(const reader *r, int64_t vocab) {
    if (strcmp(text_at(r->model, "type"), "BPE") != 0)
        return fail(r, GYRE_EUNSUPPORTED, "model.type", "only BPE is converted");
    gyre_status status = gyre_convert_vocab_init(r->out, vocab, r->err);
    if (status != GYRE_OK) return status;
    const json_t *merges = json_object_get(r->model, "merges");
    r->out->byte_level = r->pipeline->byte_level || !json_is_true(json_object_get(r->model, "byte_fallback"));
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
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_MAX) return GYRE_OK;
    if (stat(path, &info) != 0) return errno == ENOENT ? GYRE_OK : gyre_fail_errno(err, path, errno);
    const gyre_status status = gyre_document_read(path, &text, &bytes, err);
    if (status != GYRE_OK) return status;
    *out = gyre_json_load(text, bytes, &error);
    free(text);
    if (*out) return GYRE_OK;
    if (gyre_json_lacked_memory(&error)) return gyre_fail(err, GYRE_ENOMEM, "%s: no memory (%s)", name, path);
    return gyre_fail(err, GYRE_EFORMAT, "%s: %s (%s, line %d)", name, error.text, path, error.line);
}

gyre_status gyre_convert_vocab_from_json(gyre_convert_vocab *out, int *there, const char *folder, int64_t vocab,
                                         const gyre_convert_options *options, gyre_error *err) {
    json_t *root, *settings = NULL, *config = NULL;
    gyre_status status = load(folder, GYRE_TOKENIZER_FILE, &root, err);
    *there = root != NULL;
    if (status != GYRE_OK || !root) return status;
    status = load(folder, GYRE_TOKENIZER_CONFIG_FILE, &settings, err);
    if (status == GYRE_OK) status = load(folder, GYRE_CONFIG_FILE, &config, err);
    const gyre_convert_pipeline pipeline = gyre_convert_pipeline_of(root);
    const reader r = {folder, root, json_object_get(root, "model"), settings, config, &pipeline, options, out, err};
    if (status == GYRE_OK) status = read_all(&r, vocab);
    if (status != GYRE_OK) gyre_convert_vocab_free(out);
    json_decref(root);
    json_decref(settings);
    json_decref(config);
    return status;
}
