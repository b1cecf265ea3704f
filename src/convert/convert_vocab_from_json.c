/* convert_vocab_from_json.c: the tokens of a tokenizer.json. */
#include "convert/convert_vocab_from_json.h"

#include "convert/convert_loss.h"
#include "convert/convert_pre_tokenizer.h"
#include "convert/convert_vocab_merges.h"

#include "files/json_file.h"
#include "files/replace_folder.h"
#include "tokenizer/tokenizer_byte_level.h"
#include "util/checkpoint_files.h"
#include "util/error.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const float UNMERGED_SCORE = -1e9f; /* of a token that no merge makes */

typedef gyre_vocab_reader reader;

gyre_status gyre_vocab_fail(const reader *r, gyre_status status, const char *what, const char *why) {
    return gyre_fail(r->err, status, "tokenizer.json: %s: %s (%s)", what, why, r->path);
}

gyre_status gyre_vocab_lose(const reader *r, const char *what, const char *why) {
    return gyre_convert_lose(r->options, r->err, "tokenizer.json: %s: %s (%s)", what, why, r->path);
}

const char *gyre_vocab_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* -- tokens -- */
gyre_status gyre_vocab_set_token(const reader *r, const char *text, const json_t *id, int kind) {
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
    const int has_bytes = !r->out->byte_level && json_is_true(json_object_get(r->model, "byte_fallback"));
    const char *text;
    json_t *id;
    gyre_status status = GYRE_OK;
    if (!json_is_object(vocab)) return gyre_vocab_fail(r, GYRE_EFORMAT, "model.vocab", "no object of tokens");
    json_object_foreach((json_t *)vocab, text, id) {
        const int is_byte = has_bytes && gyre_byte_fallback_decode(text, strlen(text)) >= 0;
        const json_int_t i = json_is_integer(id) ? json_integer_value(id) : -1;
        if (i >= 0 && i < r->out->count && r->out->id_to_token[i].text)
            return gyre_vocab_fail(r, GYRE_EFORMAT, "model.vocab", "two tokens have the same id");
        status = gyre_vocab_set_token(r, text, id, is_byte ? GYRE_TOKEN_BYTE : GYRE_TOKEN_NORMAL);
        if (status) return status;
    }
    return status;
}

/* Names the rows of the embedding that have no token as llama.cpp's converter does. */
static gyre_status fill_unused_ids(const reader *r) {
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < r->out->count && !status; i++) {
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
    gyre_status status = list ? GYRE_OK : gyre_vocab_fail(r, GYRE_ENOMEM, "model.merges", "no memory");
    for (int64_t k = 0; k < r->out->count; k++)
        r->out->id_to_token[k].score = r->out->id_to_token[k].kind == GYRE_TOKEN_NORMAL ? UNMERGED_SCORE : 0;
    json_array_foreach((json_t *)merges, i, merge) {
        char *whole = join_merge(merge, 0);
        if (!status && !whole)
            status = gyre_vocab_fail(r, GYRE_EFORMAT, "model.merges", "holds something that is not a pair of tokens");
        free(whole);
        const int found = !status ? find_merge(r, merge, &list[count]) : 0;
        if (found < 0) status = gyre_vocab_fail(r, GYRE_EFORMAT, "model.merges", "holds or makes what is not a token");
        if (found <= 0) continue;
        gyre_convert_token *piece = &r->out->id_to_token[list[count].merged_id];
        if (piece->score == UNMERGED_SCORE) piece->score = -(float)i;
        list[count++].score = piece->score;
    }
    const int same = !status ? gyre_convert_merges_are_scores(r->out, vocab, list, count) : 1;
    if (same < 0) status = gyre_vocab_fail(r, GYRE_ENOMEM, "model.merges", "no memory");
    if (same == 0) status = gyre_vocab_lose(r, "model.merges", "scores of tokens, as a GGUF has, would merge otherwise");
    free(list);
    return status;
}

static gyre_status read_merges(const reader *r, const json_t *merges) {
    const json_t *merge;
    size_t i;
    r->out->merges = calloc(json_array_size(merges) + 1, sizeof *r->out->merges);
    if (!r->out->merges) return gyre_vocab_fail(r, GYRE_ENOMEM, "model.merges", "no memory");
    json_array_foreach((json_t *)merges, i, merge) {
        char *text = join_merge(merge, 1);
        if (!text) return gyre_vocab_fail(r, GYRE_EFORMAT, "model.merges", "holds something that is not a pair of tokens");
        r->out->merges[r->out->merges_count++] = text;
    }
    return GYRE_OK;
}

/* -- words -- */
static gyre_status read_pipeline(const reader *r) {
    const gyre_convert_pipeline *p = r->pipeline;
    const int ignore_merges = json_is_true(json_object_get(r->model, "ignore_merges"));
    int cuts = 0;
    if (p->refused[0]) return gyre_vocab_fail(r, GYRE_EUNSUPPORTED, p->refused, "a GGUF has no way to say it");
    if (!p->byte_level) {
        r->out->space_prefix = p->space_prefix;
        for (int64_t i = 0; i < r->out->count && p->cuts_before_spaces; i++)
            if (r->out->id_to_token[i].kind == GYRE_TOKEN_NORMAL && r->out->id_to_token[i].text[0] &&
                strstr(r->out->id_to_token[i].text + 1, GYRE_SPACE_SYMBOL))
                cuts = 1;
        if (ignore_merges)
            return gyre_vocab_fail(r, GYRE_EUNSUPPORTED, "model.ignore_merges", "a GGUF has no way to say it");
        return cuts ? gyre_vocab_lose(r, "pre_tokenizer Metaspace.split", "a GGUF has no way to say it") : GYRE_OK;
    }
    const char *name = gyre_pre_tokenizer_name(p->pattern, p->digits, ignore_merges, p->nfc);
    if (!name) return gyre_vocab_fail(r, GYRE_EUNSUPPORTED, "pre_tokenizer", "llama.cpp's name for it is not known");
    snprintf(r->out->tokenizer_pre, sizeof r->out->tokenizer_pre, "%s", name);
    return GYRE_OK;
}

/* -- reading -- */
static gyre_status check_model(const reader *r) {
    static const char why[] = "a GGUF has no way to say it";
    if (strcmp(gyre_vocab_text(r->model, "type"), "BPE") != 0)
        return gyre_vocab_fail(r, GYRE_EUNSUPPORTED, "model.type", "only BPE is converted");
    if (*gyre_vocab_text(r->model, "continuing_subword_prefix"))
        return gyre_vocab_fail(r, GYRE_EUNSUPPORTED, "model.continuing_subword_prefix", why);
    if (*gyre_vocab_text(r->model, "end_of_word_suffix"))
        return gyre_vocab_fail(r, GYRE_EUNSUPPORTED, "model.end_of_word_suffix", why);
    return GYRE_OK;
}

static gyre_status read_all(const reader *r, int64_t vocab) {
    const json_t *merges = json_object_get(r->model, "merges");
    gyre_status status = check_model(r);
    if (!status) status = gyre_convert_vocab_init(r->out, vocab, r->err);
    if (status) return status;
    r->out->byte_level = r->pipeline->byte_level;
    status = read_vocab(r);
    if (!status) status = gyre_vocab_read_added(r);
    if (!status) status = fill_unused_ids(r);
    if (!status) status = r->out->byte_level ? read_merges(r, merges) : read_scores(r, merges);
    if (!status) status = gyre_vocab_read_special(r);
    if (!status) status = read_pipeline(r);
    return !status ? gyre_vocab_check_rest(r) : status;
}

gyre_status gyre_convert_vocab_from_json(gyre_convert_vocab *out, int *there, const char *folder, int64_t vocab,
                                         const gyre_convert_options *options, gyre_error *err) {
    json_t *root, *settings = NULL, *config = NULL;
    gyre_status status = gyre_json_file_load(&root, folder, GYRE_TOKENIZER_FILE, 0, err);
    *there = root != NULL;
    if (status || !root) return status;
    status = gyre_json_file_load(&settings, folder, GYRE_TOKENIZER_CONFIG_FILE, 0, err);
    if (!status) status = gyre_json_file_load(&config, folder, GYRE_CONFIG_FILE, 0, err);
    const gyre_convert_pipeline pipeline = gyre_convert_pipeline_of(root);
    const reader r = {folder, root, json_object_get(root, "model"), settings, config, &pipeline, options, out, err};
    if (!status) status = read_all(&r, vocab);
    if (status) gyre_convert_vocab_free(out);
    json_decref(root);
    json_decref(settings);
    json_decref(config);
    return status;
}
