/* convert_vocab_special.c: the tokens that a tokenizer.json puts around a text and removes in decoding, as far as a GGUF
 * can state them. */
#include "convert/convert_vocab_from_json.h"

#include "convert/convert_loss.h"
#include "files/file_read.h"
#include "tokenizer/tokenizer_json_parts.h"
#include "util/checkpoint_files.h"
#include "util/error.h"
#include "util/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* -- special tokens -- */
static int32_t id_of(const gyre_vocab_reader *r, const char *text) {
    for (int64_t i = 0; i < r->out->count && *text; i++)
        if (strcmp(r->out->id_to_token[i].text, text) == 0) return (int32_t)i;
    return -1;
}

/* In tokenizer_config.json a string or an object with a content. */
static int32_t settings_token_id(const gyre_vocab_reader *r, const char *key) {
    const json_t *value = json_object_get(r->settings, key);
    return id_of(r, json_is_string(value) ? json_string_value(value) : gyre_vocab_text(value, "content"));
}

/* Else in config.json a number or a list of some. */
static int32_t special_token_id(const gyre_vocab_reader *r, const char *key, const char *number) {
    const json_t *other = json_object_get(r->config, number);
    const int32_t id = settings_token_id(r, key);
    if (json_is_array(other)) other = json_array_get(other, 0);
    const json_int_t i = json_is_integer(other) ? json_integer_value(other) : -1;
    return id >= 0 ? id : i >= 0 && i < r->out->count ? (int32_t)i : -1;
}

static int is_token(const gyre_vocab_reader *r, int64_t id) {
    return id >= 0 && id < r->out->count && r->out->id_to_token[id].kind != GYRE_TOKEN_UNUSED;
}

/* -- chat template -- */
static gyre_status read_chat_template(const gyre_vocab_reader *r) {
    int several;
    const gyre_status status =
        gyre_tokenizer_json_chat_template(r->path, r->settings, &r->out->chat_template, &several, r->err);
    if (status || !several) return status;
    return gyre_vocab_lose(r, "chat_template of tokenizer_config.json", "a GGUF gets the one named default, if any");
}

gyre_status gyre_vocab_read_special(const gyre_vocab_reader *r) {
    gyre_convert_vocab *p = r->out;
    gyre_json_template around;
    const gyre_status status = gyre_tokenizer_json_template(r->root, &around, r->err);
    if (status) return status;
    p->begin = is_token(r, around.begin) ? (int32_t)around.begin : special_token_id(r, "bos_token", "bos_token_id");
    p->end = special_token_id(r, "eos_token", "eos_token_id");
    p->pad = special_token_id(r, "pad_token", "pad_token_id");
    p->unknown = id_of(r, gyre_vocab_text(r->model, "unk_token"));
    if (p->unknown < 0) p->unknown = special_token_id(r, "unk_token", "unk_token_id");
    p->adds_begin = around.there ? is_token(r, around.begin)
                                 : p->begin >= 0 && json_is_true(json_object_get(r->settings, "add_bos_token"));
    p->adds_end = p->end >= 0 && (around.there ? around.after > 0 && around.end == p->end
                                               : json_is_true(json_object_get(r->settings, "add_eos_token")));
    return read_chat_template(r);
}

/* -- what a GGUF cannot say -- */
static gyre_status lose_if(const gyre_vocab_reader *r, gyre_status status, int lost, const char *what, const char *why) {
    return !status && lost ? gyre_vocab_lose(r, what, why) : status;
}

static gyre_status check_template(const gyre_vocab_reader *r) {
    static const char field[] = "post_processor";
    const gyre_convert_vocab *p = r->out;
    const int32_t bos = settings_token_id(r, "bos_token");
    gyre_json_template t;
    gyre_status status = gyre_tokenizer_json_template(r->root, &t, r->err);
    if (status) return status;
    const int begins = t.before > 0 && is_token(r, t.begin);
    status = lose_if(r, GYRE_OK, *t.odd != '\0', field, t.odd);
    status = lose_if(r, status, t.before > 0 && !begins, field,
                     "it puts something before a text that is not a token of the file");
    status = lose_if(r, status, t.before > 1, field, "a GGUF has one token that is put before a text");
    status = lose_if(r, status, t.after > 1 || (t.after > 0 && !p->adds_end), field,
                     "a GGUF has one token that is put after a text, eos_token");
    status = lose_if(r, status, t.pair_differs, field, "a GGUF does not say what is put around two texts");
    status = lose_if(r, status, begins && bos >= 0 && bos != t.begin, field,
                     "it begins a text with another token than bos_token, and a GGUF has one key for both");
    return lose_if(r, status, p->adds_begin && !p->byte_level && p->id_to_token[p->begin].kind == GYRE_TOKEN_NORMAL, field,
                   "the token before a text is an ordinary one, which a GGUF makes a special one");
}

static gyre_status check_decoder(const gyre_vocab_reader *r) {
    char why[GYRE_JSON_DECODER_WHY];
    const gyre_json_decoder_task task = {.byte_level = r->out->byte_level,
                                         .spaces = r->pipeline->spaces,
                                         .space_prefix = r->out->space_prefix,
                                         .bytes = !r->out->byte_level &&
                                                  json_is_true(json_object_get(r->model, "byte_fallback"))};
    const int fits = gyre_tokenizer_json_decoder_fits(json_object_get(r->root, "decoder"), task, why);
    return lose_if(r, GYRE_OK, !fits, "decoder: readers of a GGUF decode otherwise", why);
}

/* A GGUF has one end token.  Readers of the others stop at each. */
static gyre_status check_ends(const gyre_vocab_reader *r) {
    const json_t *list = json_object_get(r->config, "eos_token_id"), *id;
    char path[PATH_MAX];
    struct stat info;
    int others = 0;
    size_t i;
    json_array_foreach(list, i, id) others |= json_integer_value(id) != r->out->end;
    if (snprintf(path, sizeof path, "%s/" GYRE_GENERATION_CONFIG_FILE, r->path) < PATH_MAX && stat(path, &info) == 0)
        gyre_convert_tell(r->options, GYRE_GENERATION_CONFIG_FILE ": a GGUF has no keys for it (%s)", r->path);
    return lose_if(r, GYRE_OK, others, "eos_token_id of config.json", "a GGUF has one end token, not a list");
}

gyre_status gyre_vocab_check_rest(const gyre_vocab_reader *r) {
    const int fallback = json_is_true(json_object_get(r->model, "byte_fallback"));
    const double dropout = json_number_value(json_object_get(r->model, "dropout"));
    gyre_status status = lose_if(r, GYRE_OK, dropout > 0, "model.dropout", "a GGUF has no way to say it");
    status = lose_if(r, status, !r->out->byte_level && !fallback, "model.byte_fallback",
                     "false, and readers of a GGUF write characters without a token as bytes");
    if (!status) status = check_template(r);
    if (!status) status = check_decoder(r);
    return !status ? check_ends(r) : status;
}
