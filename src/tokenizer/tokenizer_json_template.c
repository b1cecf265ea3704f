/* tokenizer_json_template.c: TemplateProcessing, RobertaProcessing and BertProcessing.  Steps of a Sequence work one after
 * another: each puts its tokens around those of the steps before it. */
#include "tokenizer/tokenizer_json_parts.h"

#include "tokenizer/tokenizer_json.h"
#include "util/error.h"
#include "util/plain_numbers.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 6, MAX_PIECES = 64, NO_TOKEN = -1 };

typedef struct reader {
    const json_t *root, *added; /* added: contents of added tokens to ids */
    gyre_json_template *out;
} reader;

static void note_odd(const reader *r, const char *what) {
    if (r->out->odd[0]) return;
    gyre_plain_snprintf(r->out->odd, sizeof r->out->odd, "%.70s", what);
    for (char *c = r->out->odd; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
}

/* -- ids -- */
/* out = an object of the ids of added tokens, by content; NULL = no memory.  Of two with one content the first counts.  The
 * steps may name as many tokens as there are, so each is looked up by its hash. */
static json_t *ids_of_added(const json_t *root) {
    const json_t *token;
    json_t *ids = json_object();
    size_t i;
    json_array_foreach(json_object_get(root, "added_tokens"), i, token) {
        const char *content = gyre_tokenizer_json_string(token, "content");
        json_t *id = json_object_get(token, "id");
        if (!ids || json_object_get(ids, content)) continue;
        if (json_object_set_new_nocheck(ids, content, id ? json_incref(id) : json_null()) == 0) continue;
        json_decref(ids);
        return NULL;
    }
    return ids;
}

static int64_t id_named(const reader *r, const char *content) {
    const json_t *id = json_object_get(r->added, content);
    if (!id) id = json_object_get(json_object_get(json_object_get(r->root, "model"), "vocab"), content);
    return json_is_integer(id) ? (int64_t)json_integer_value(id) : NO_TOKEN;
}

/* The id in the processor has precedence over the id of the name. */
static int64_t id_or_named(const reader *r, const json_t *id, const char *name) {
    if (json_is_integer(id)) return (int64_t)json_integer_value(id);
    const int64_t named = *name ? id_named(r, name) : NO_TOKEN;
    if (named < 0) note_odd(r, "a name that is no token");
    return named;
}

/* -- tokens around a text -- */
static void put_before(const reader *r, int64_t id) {
    if (r->out->before++ == 0) r->out->begin = id;
}

static void put_after(const reader *r, int64_t id) {
    r->out->after++;
    r->out->end = id;
}

/* -- TemplateProcessing -- */
static const json_t *special_token(const json_t *piece) {
    return json_object_get(piece, "SpecialToken");
}

/* Puts the tokens of one SpecialToken, usually one. */
static void put_special(const reader *r, const json_t *post, const json_t *special, int is_after, gyre_json_template *own) {
    const reader to_own = {r->root, r->added, own};
    const char *name = gyre_tokenizer_json_string(special, "id");
    const json_t *ids = json_object_get(json_object_get(json_object_get(post, "special_tokens"), name), "ids");
    const size_t listed = json_array_size(ids), count = listed == 0 ? 1 : listed < MAX_PIECES ? listed : MAX_PIECES;
    for (size_t i = 0; i < count; i++)
        (is_after ? put_after : put_before)(&to_own, id_or_named(r, json_array_get(ids, i), name));
}

/* 1 if the list has the special token. */
static int has_special(const json_t *list, const char *name) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *special = special_token(json_array_get(list, i));
        if (special && strcmp(gyre_tokenizer_json_string(special, "id"), name) == 0) return 1;
    }
    return 0;
}

static void read_pair(const reader *r, const json_t *single, const json_t *pair) {
    for (size_t i = 0; i < json_array_size(pair); i++) {
        const json_t *special = special_token(json_array_get(pair, i));
        if (special && !has_special(single, gyre_tokenizer_json_string(special, "id"))) r->out->pair_differs = 1;
    }
}

static void wrap(const reader *r, const gyre_json_template *own) {
    if (own->before > 0) r->out->begin = own->begin;
    if (own->after > 0) r->out->end = own->end;
    r->out->before += own->before;
    r->out->after += own->after;
    r->out->there = 1;
}

static void read_template(const reader *r, const json_t *post) {
    const json_t *single = json_object_get(post, "single"), *pair = json_object_get(post, "pair");
    gyre_json_template own = {.begin = NO_TOKEN, .end = NO_TOKEN};
    int texts = 0;
    if (json_array_size(single) > MAX_PIECES || json_array_size(pair) > MAX_PIECES) {
        note_odd(r, "more than 64 tokens around a text");
        return;
    }
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *special = special_token(json_array_get(single, i));
        if (!special)
            texts++;
        else
            put_special(r, post, special, texts > 0, &own);
        if (!special && (texts > 1 || own.after > 0)) note_odd(r, "tokens within the text, or the text twice");
    }
    if (texts == 0) note_odd(r, "no text in TemplateProcessing.single");
    wrap(r, &own);
    read_pair(r, single, pair);
}

/* -- RobertaProcessing and BertProcessing: ["<s>", 0] before, ["</s>", 2] after -- */
static int64_t id_of_pair(const reader *r, const json_t *pair) {
    const char *name = json_string_value(json_array_get(pair, 0));
    return id_or_named(r, json_array_get(pair, 1), name ? name : "");
}

static void read_cls_sep(const reader *r, const json_t *post) {
    const gyre_json_template own = {.before = 1,
                                    .after = 1,
                                    .begin = id_of_pair(r, json_object_get(post, "cls")),
                                    .end = id_of_pair(r, json_object_get(post, "sep"))};
    wrap(r, &own);
}

static void read_step(const reader *r, const json_t *post, int depth) {
    const char *type = gyre_tokenizer_json_string(post, "type");
    const json_t *list = json_object_get(post, "processors");
    if (!post || json_is_null(post) || strcmp(type, "ByteLevel") == 0) return; /* that one moves offsets alone */
    if (strcmp(type, "Sequence") == 0 && depth < MAX_DEPTH)
        for (size_t i = 0; i < json_array_size(list); i++)
            read_step(r, json_array_get(list, i), depth + 1);
    else if (strcmp(type, "TemplateProcessing") == 0)
        read_template(r, post);
    else if (strcmp(type, "RobertaProcessing") == 0 || strcmp(type, "BertProcessing") == 0)
        read_cls_sep(r, post);
    else
        note_odd(r, *type ? type : "a step without a type");
}

gyre_status gyre_tokenizer_json_template(const json_t *root, gyre_json_template *out, gyre_error *err) {
    const json_t *post = json_object_get(root, "post_processor");
    json_t *added = json_is_object(post) ? ids_of_added(root) : NULL;
    *out = (gyre_json_template){.begin = NO_TOKEN, .end = NO_TOKEN};
    if (json_is_object(post) && !added) return gyre_fail(err, GYRE_ENOMEM, "tokenizer: no memory for its post_processor");
    read_step(&(reader){root, added, out}, post, 0);
    json_decref(added);
    return GYRE_OK;
}
