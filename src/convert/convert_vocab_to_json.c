/* convert_vocab_to_json.c: tokens as tokenizer.json and tokenizer_config.json, as transformers reads them. */
#include "convert/convert_loss.h"
#include "convert/convert_pre_tokenizer.h"
#include "convert/convert_vocab.h"
#include "convert/convert_vocab_merges.h"
#include "files/json_write.h"

#include "tokenizer/tokenizer_byte_level.h"
#include "util/error.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- merges -- */
static json_t *merges_of_scores(const gyre_convert_vocab *p, const json_t *vocab) {
    gyre_convert_merges m;
    json_t *list = json_array();
    int failed = !gyre_convert_merges_of_scores(p, vocab, &m) || !list;
    for (size_t i = 0; i < m.count && !failed; i++)
        failed = json_array_append_new(list, json_pack("[s, s]", p->id_to_token[m.list[i].left].text,
                                                       p->id_to_token[m.list[i].right].text)) != 0;
    free(m.list);
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

static json_t *merges_listed(const gyre_convert_vocab *p) {
    json_t *list = json_array();
    int failed = !list;
    for (int64_t i = 0; i < p->merges_count && !failed; i++)
        failed = json_array_append_new(list, json_string(p->merges[i])) != 0;
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

/* -- members of tokenizer.json -- */
/* 1 if the token is the name that a row of the embedding without a token gets in a GGUF. */
static int is_row_without_token(const gyre_convert_vocab *p, int64_t id) {
    char name[32];
    snprintf(name, sizeof name, "[PAD%" PRId64 "]", id);
    return p->id_to_token[id].kind == GYRE_TOKEN_UNUSED && strcmp(p->id_to_token[id].text, name) == 0;
}

static json_t *vocab_of(const gyre_convert_vocab *p) {
    json_t *vocab = json_object();
    int failed = !vocab;
    for (int64_t i = 0; i < p->count && !failed; i++)
        if (!json_object_get(vocab, p->id_to_token[i].text) && !is_row_without_token(p, i)) /* of duplicates the first */
            failed = json_object_set_new(vocab, p->id_to_token[i].text, json_integer(i)) != 0;
    if (!failed) return vocab;
    json_decref(vocab);
    return NULL;
}

static int is_added(const gyre_convert_vocab *p, int64_t id) {
    const int kind = p->id_to_token[id].kind;
    return kind == GYRE_TOKEN_UNKNOWN || kind == GYRE_TOKEN_CONTROL || kind == GYRE_TOKEN_USER_DEFINED;
}

static json_t *added_tokens(const gyre_convert_vocab *p) {
    json_t *list = json_array();
    int failed = !list;
    for (int64_t i = 0; i < p->count && !failed; i++) {
        const int kind = p->id_to_token[i].kind;
        if (!is_added(p, i)) continue;
        failed = json_array_append_new(list, json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)i, "content",
                                                       p->id_to_token[i].text, "single_word", 0, "lstrip", 0, "rstrip", 0,
                                                       "normalized", 0, "special", kind != GYRE_TOKEN_USER_DEFINED)) != 0;
    }
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

/* Appends what a template says of one text: begin and end token around it, where there are such. */
static int append_text(json_t *list, const char *begin, const char *end, const char *text, int type_id) {
    const struct { const char *kind, *id; } pieces[] = {{"SpecialToken", begin}, {"Sequence", text}, {"SpecialToken", end}};
    int failed = !list;
    for (int i = 0; i < 3 && !failed; i++)
        if (pieces[i].id)
            failed = json_array_append_new(
                         list, json_pack("{s:{s:s, s:i}}", pieces[i].kind, "id", pieces[i].id, "type_id", type_id)) != 0;
    return failed;
}

static json_t *post_processor(const gyre_convert_vocab *p) {
    const int32_t around[] = {p->adds_begin ? p->begin : -1, p->adds_end ? p->end : -1};
    const char *begin = around[0] >= 0 ? p->id_to_token[around[0]].text : NULL,
               *end = around[1] >= 0 ? p->id_to_token[around[1]].text : NULL;
    if (!begin && !end)
        return p->byte_level ? json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets",
                                         0, "use_regex", 1)
                             : json_null();
    json_t *single = json_array(), *pair = json_array(), *tokens = json_object();
    int failed = append_text(single, begin, end, "A", 0) || append_text(pair, begin, end, "A", 0) ||
                 append_text(pair, begin, end, "B", 1) || !tokens;
    for (int i = 0; i < 2 && !failed; i++) {
        const char *text = around[i] >= 0 ? p->id_to_token[around[i]].text : NULL;
        if (text)
            failed =
                json_object_set_new(
                    tokens, text, json_pack("{s:s, s:[i], s:[s]}", "id", text, "ids", (int)around[i], "tokens", text)) != 0;
    }
    json_t *out = failed ? NULL
                         : json_pack("{s:s, s:O, s:O, s:O}", "type", "TemplateProcessing", "single", single, "pair", pair,
                                     "special_tokens", tokens);
    json_decref(single);
    json_decref(pair);
    json_decref(tokens);
    return out;
}

static json_t *normalizer(const gyre_convert_vocab *p) {
    const gyre_named_pre_tokenizer *named = p->byte_level ? gyre_pre_tokenizer_named(p->tokenizer_pre) : NULL;
    if (p->byte_level) return named && named->nfc ? json_pack("{s:s}", "type", "NFC") : json_null();
    if (!p->space_prefix)
        return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", " ", "content", GYRE_SPACE_SYMBOL);
    return json_pack("{s:s, s:[{s:s, s:s}, {s:s, s:{s:s}, s:s}]}", "type", "Sequence", "normalizers", "type", "Prepend",
                     "prepend", GYRE_SPACE_SYMBOL, "type", "Replace", "pattern", "String", " ", "content",
                     GYRE_SPACE_SYMBOL);
}

static json_t *byte_level(int use_regex) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                     use_regex);
}

static json_t *pre_tokenizer(const gyre_convert_vocab *p) {
    const gyre_named_pre_tokenizer *named = p->byte_level ? gyre_pre_tokenizer_named(p->tokenizer_pre) : NULL;
    if (!named) return json_null();
    if (named->digits)
        return json_pack("{s:s, s:[{s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Digits",
                         "individual_digits", 1, byte_level(1));
    if (!*named->pattern) return byte_level(1);
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Split",
                     "pattern", "Regex", named->pattern, "behavior", "Isolated", "invert", 0, byte_level(0));
}

static json_t *decoder(const gyre_convert_vocab *p) {
    if (p->byte_level) return byte_level(1);
    json_t *steps = json_pack("[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]", "type", "Replace", "pattern", "String",
                              GYRE_SPACE_SYMBOL, "content", " ", "type", "ByteFallback", "type", "Fuse");
    json_t *strip =
        p->space_prefix ? json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ", "start", 1, "stop", 0) : NULL;
    if (p->space_prefix && json_array_append_new(steps, strip) != 0) {
        json_decref(steps);
        return NULL;
    }
    return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", steps);
}

static json_t *model(const gyre_convert_vocab *p) {
    json_t *vocab = vocab_of(p);
    json_t *list = !vocab ? NULL : p->byte_level ? merges_listed(p) : merges_of_scores(p, vocab);
    const gyre_named_pre_tokenizer *named = p->byte_level ? gyre_pre_tokenizer_named(p->tokenizer_pre) : NULL;
    json_t *out = json_pack("{s:s, s:n, s:s?, s:n, s:n, s:b, s:b, s:b}", "type", "BPE", "dropout", "unk_token",
                            p->unknown >= 0 && !p->byte_level ? p->id_to_token[p->unknown].text : NULL,
                            "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", !p->byte_level, "byte_fallback",
                            !p->byte_level, "ignore_merges", named && named->ignore_merges);
    int failed = !out || json_object_set_new(out, "vocab", vocab) != 0;
    failed |= !out || json_object_set_new(out, "merges", list) != 0;
    if (!failed) return out;
    json_decref(out);
    return NULL;
}

/* -- the files -- */
static json_t *tokenizer_json(const gyre_convert_vocab *p) {
    const struct {
        const char *key;
        json_t *value;
    } parts[] = {{"version", json_string("1.0")},       {"truncation", json_null()},   {"padding", json_null()},
                 {"added_tokens", added_tokens(p)},     {"normalizer", normalizer(p)}, {"pre_tokenizer", pre_tokenizer(p)},
                 {"post_processor", post_processor(p)}, {"decoder", decoder(p)},       {"model", model(p)}};
    json_t *root = json_object();
    int failed = !root;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        failed |= !root || json_object_set_new(root, parts[i].key, parts[i].value) != 0;
    if (!failed) return root;
    json_decref(root);
    return NULL;
}

static json_t *tokenizer_config_json(const gyre_convert_vocab *p, int64_t length) {
    const struct {
        const char *key;
        int32_t id;
    } names[] = {{"bos_token", p->begin}, {"eos_token", p->end}, {"unk_token", p->unknown}, {"pad_token", p->pad}};
    json_t *root =
        json_pack("{s:s, s:b, s:b, s:b, s:I}", "tokenizer_class", "PreTrainedTokenizerFast", "add_bos_token", p->adds_begin,
                  "add_eos_token", p->adds_end, "clean_up_tokenization_spaces", 0, "model_max_length", (json_int_t)length);
    int failed = !root;
    for (int i = 0; i < 4 && !failed; i++)
        if (names[i].id >= 0)
            failed = json_object_set_new(root, names[i].key, json_string(p->id_to_token[names[i].id].text)) != 0;
    if (p->chat_template && !failed) failed = json_object_set_new(root, "chat_template", json_string(p->chat_template)) != 0;
    if (!failed) return root;
    json_decref(root);
    return NULL;
}

/* A tokenizer.json has no types: pieces that are written as bytes are bytes, and byte-level tokens never are. */
static gyre_status check_types(const gyre_convert_vocab *p, gyre_error *err) {
    for (int64_t i = 0; i < p->count; i++) {
        const gyre_convert_token *token = &p->id_to_token[i];
        const int is_byte = token->kind == GYRE_TOKEN_BYTE;
        if (p->byte_level ? is_byte
                          : !is_byte && gyre_convert_token_merges(token) &&
                                gyre_byte_fallback_decode(token->text, strlen(token->text)) >= 0)
            return gyre_fail(err, GYRE_EUNSUPPORTED,
                             "tokens: %" PRId64 " is \"%.60s\" and %s a byte, which a tokenizer.json "
                             "cannot say",
                             i, token->text, is_byte ? "typed as" : "not");
    }
    return GYRE_OK;
}

/* A list ranks every merge; of those with equal scores the leftmost in the text comes first.  It joins tokens alone. */
static gyre_status check_scores(const gyre_convert_vocab *p, const gyre_convert_options *options, gyre_error *err) {
    gyre_convert_merges m = {NULL, 0, 0, -1, -1};
    json_t *vocab = vocab_of(p);
    const int there = vocab && gyre_convert_merges_of_scores(p, vocab, &m);
    gyre_status status = there ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "tokenizer.json: no memory");
    size_t i = 1;
    while (i < m.count && (m.list[i].score != m.list[i - 1].score || m.list[i].merged_id == m.list[i - 1].merged_id))
        i++;
    if (!status && i < m.count)
        status = gyre_convert_lose(options, err,
                                   "tokens: %" PRId32 " and %" PRId32 " have the same score, and the merges of a "
                                   "tokenizer.json have an order",
                                   m.list[i - 1].merged_id, m.list[i].merged_id);
    if (!status && m.through_character >= 0)
        status =
            gyre_convert_lose(options, err,
                              "tokens: %" PRId32 " is made of a character that is no token, which scores join to others "
                              "and the merges of a tokenizer.json do not",
                              m.through_character);
    if (!status && m.too_long >= 0)
        status = gyre_convert_lose(options, err, "tokens: %" PRId32 " has more than %d bytes, and gets no merges",
                                   m.too_long, GYRE_MAX_MERGED_BYTES);
    json_decref(vocab);
    free(m.list);
    return status;
}

/* tokenizers finds an added token by its text, whatever id the file gives it. */
static gyre_status check_doubles(const gyre_convert_vocab *p, const gyre_convert_options *options, gyre_error *err) {
    json_t *vocab = vocab_of(p);
    gyre_status status = vocab ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "tokenizer.json: no memory");
    for (int64_t i = 0; i < p->count && !status; i++) {
        const int64_t first = (int64_t)json_integer_value(json_object_get(vocab, p->id_to_token[i].text));
        if (!is_added(p, i) || first == i) continue;
        status = gyre_convert_lose(
            options, err, "tokens: %" PRId64 " and %" PRId64 " have the same text, and a tokenizer.json finds one of them",
            first, i);
        break;
    }
    json_decref(vocab);
    return status;
}

gyre_status gyre_convert_vocab_to_json(const gyre_convert_vocab *vocab, int64_t length, const gyre_convert_options *options,
                                       char **out, char **config, gyre_error *err) {
    gyre_status status = check_types(vocab, err);
    if (!status) status = check_doubles(vocab, options, err);
    if (!status && !vocab->byte_level) status = check_scores(vocab, options, err);
    if (status) return status;
    json_t *root = tokenizer_json(vocab), *other = tokenizer_config_json(vocab, length);
    char *text = root ? gyre_json_text(root, JSON_INDENT(1)) : NULL,
         *text2 = other ? gyre_json_text(other, JSON_INDENT(2)) : NULL;
    json_decref(root);
    json_decref(other);
    if (text && text2) {
        *out = text;
        *config = text2;
        return GYRE_OK;
    }
    free(text);
    free(text2);
    return gyre_fail(err, GYRE_ENOMEM, "tokenizer.json: no memory");
}
