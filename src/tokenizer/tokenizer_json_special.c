/* tokenizer_json_special.c: the special tokens of a tokenizer.json and of the files beside it. */
#include "files/file_read.h"
#include "files/json_file.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/tokenizer_json_parts.h"
#include "util/checkpoint_files.h"
#include "util/error.h"
#include "util/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int32_t id_of(const gyre_tokenizer *t, const char *content) {
    return content && *content ? gyre_vocabulary_find(&t->vocabulary, content, strlen(content)) : -1;
}

/* -- chat template -- */
static gyre_status copy_template(const char *text, char **out, gyre_error *err) {
    *out = strdup(text);
    return *out ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "chat_template: no memory");
}

/* The separate file, which has precedence in transformers over the one in tokenizer_config.json.  *there = 1 if there is
 * one. */
static gyre_status read_template_file(const char *folder, char **out, int *there, gyre_error *err) {
    char path[PATH_MAX], *text;
    struct stat info;
    size_t bytes;
    *there = snprintf(path, sizeof path, "%s/" GYRE_CHAT_TEMPLATE_FILE, folder) < PATH_MAX && stat(path, &info) == 0;
    if (!*there) return GYRE_OK;
    gyre_status status = gyre_document_read(path, &text, &bytes, err);
    if (status) return status;
    json_t *valid = memchr(text, 0, bytes) ? NULL : json_stringn(text, bytes); /* jansson checks UTF-8 */
    status = valid ? copy_template(json_string_value(valid), out, err)
                   : gyre_fail(err, GYRE_EFORMAT, GYRE_CHAT_TEMPLATE_FILE ": no UTF-8 (%s)", path);
    json_decref(valid);
    free(text);
    return status;
}

/* In settings a string, or a list of templates with names, of which transformers uses "default" unless it is asked for
 * another. */
gyre_status gyre_tokenizer_json_chat_template(const char *folder, const json_t *settings, char **out, int *several,
                                              gyre_error *err) {
    const json_t *value = json_object_get(settings, "chat_template"), *named;
    const char *chosen = json_string_value(value);
    size_t i;
    int there;
    *out = NULL;
    *several = 0;
    const gyre_status status = read_template_file(folder, out, &there, err);
    if (status || there || !value || json_is_null(value)) return status;
    json_array_foreach(value, i, named) if (strcmp(gyre_tokenizer_json_string(named, "name"), "default") == 0) chosen =
        json_string_value(json_object_get(named, "template"));
    *several = !json_is_string(value) && (!chosen || json_array_size(value) > 1);
    return chosen && *chosen ? copy_template(chosen, out, err) : GYRE_OK;
}

/* A template that cannot be read is no reason to refuse a tokenizer. */
static gyre_status add_chat_template(gyre_tokenizer *t, const char *folder, const json_t *settings, gyre_error *err) {
    int several;
    gyre_error why = {0};
    const gyre_status status = gyre_tokenizer_json_chat_template(folder, settings, &t->chat_template, &several, &why);
    if (status == GYRE_ENOMEM) return gyre_fail(err, status, "%s", why.text);
    if (status) gyre_tokenizer_add_note(t, "%.200s", why.text);
    return GYRE_OK;
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
    if (!status) status = add_chat_template(t, folder, settings, err);
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
