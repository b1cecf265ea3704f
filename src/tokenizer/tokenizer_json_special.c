/* tokenizer_json_special.c: the special tokens of a tokenizer.json and of the files beside it. */
#include "files/json_file.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/tokenizer_json_parts.h"
#include "util/error.h"

#include <string.h>

static int32_t id_of(const gyre_tokenizer *t, const char *content) {
    return content && *content ? gyre_vocabulary_find(&t->vocabulary, content, strlen(content)) : -1;
}

/* -- sibling files -- */
/* "bos_token" is a string or an object. */
static int32_t settings_token_id(const gyre_tokenizer *t, const json_t *settings, const char *key) {
    const json_t *value = json_object_get(settings, key);
    return id_of(t, json_is_object(value) ? gyre_tokenizer_json_string(value, "content") : json_string_value(value));
}

/* "eos_token_id" is a number, or a list, of which the first counts. */
static int32_t config_token_id(const gyre_tokenizer *t, const json_t *config, const char *key) {
    const json_t *value = json_object_get(config, key);
    if (json_is_array(value)) value = json_array_get(value, 0);
    const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    return id >= 0 && id < t->vocabulary.count ? (int32_t)id : -1;
}

/* Fills in the special ids that are still missing. */
static gyre_status read_sibling_files(gyre_tokenizer *t, const char *folder, int has_template, gyre_error *err) {
    json_t *settings, *config = NULL;
    gyre_status status = gyre_json_file_load(&settings, folder, "tokenizer_config.json", 1, err);
    if (!status) status = gyre_json_file_load(&config, folder, "config.json", 1, err);
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
    if (!has_template && t->info.end >= 0 && json_is_true(json_object_get(settings, "add_eos_token")))
        gyre_tokenizer_add_note(t, GYRE_NO_END_TOKEN_NOTE, "tokenizer_config.json add_eos_token");
    json_decref(settings);
    json_decref(config);
    return status;
}

/* -- post_processor -- */
/* Sets the begin token from a template that puts one before the text.  *there = 1 if there is a template. */
static gyre_status read_template(const gyre_tokenizer_json_reader *r, int *there) {
    gyre_tokenizer *t = r->t;
    gyre_json_template p;
    const gyre_status status = gyre_tokenizer_json_template(r->root, &p, r->err);
    if (status) return status;
    const int is_token =
        p.begin >= 0 && p.begin < t->vocabulary.count && t->vocabulary.pieces[p.begin].kind != GYRE_PIECE_NONE;
    if (is_token) {
        t->info.begin = (int32_t)p.begin;
        t->info.adds_begin = 1;
    }
    if (p.before > 0 && !is_token) gyre_tokenizer_add_note(t, "post_processor: it puts an unknown token before a text");
    if (p.before > 1) gyre_tokenizer_add_note(t, "post_processor: only the first of the tokens before a text is added");
    if (p.after > 0) gyre_tokenizer_add_note(t, GYRE_NO_END_TOKEN_NOTE, "post_processor");
    if (*p.odd) gyre_tokenizer_add_note(t, "post_processor: not followed: %s", p.odd);
    *there = p.there;
    return GYRE_OK;
}

gyre_status gyre_tokenizer_json_special_tokens(const gyre_tokenizer_json_reader *r, const char *folder) {
    r->t->info.unknown = id_of(r->t, gyre_tokenizer_json_string(r->model, "unk_token"));
    int has_template = 0;
    const gyre_status status = read_template(r, &has_template);
    return !status && folder ? read_sibling_files(r->t, folder, has_template, r->err) : status;
}
