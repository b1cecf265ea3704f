/* convert_vocab_added.c: the added tokens of a tokenizer.json. */
#include "convert/convert_vocab_from_json.h"

#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_byte_level.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COMPARED = 1 << 26 }; /* bytes of tokens that are held against each other */

/* -- tokens that a reader finds in the text before others -- */
/* 1 if `other` is part of `one`, or an end of `one` is a beginning of `other`.  O(bytes of both): after each byte of `one`,
 * `length` is the longest beginning of `other` that ends there, and borders[i] the longest that ends other[0 .. i] and is
 * shorter than it (Knuth, Morris, Pratt). */
static int runs_into(const char *one, const char *other) {
    uint16_t borders[GYRE_MAX_ADDED_TOKEN_BYTES] = {0};
    size_t length = 0;
    for (size_t i = 1; other[i]; i++) {
        while (length > 0 && other[i] != other[length])
            length = borders[length - 1];
        length += other[i] == other[length];
        borders[i] = (uint16_t)length;
    }
    length = 0;
    for (; *one && other[length]; one++) {
        while (length > 0 && *one != other[length])
            length = borders[length - 1];
        length += *one == other[length];
    }
    return length > 0;
}

static int overlap(const char *one, const char *other) {
    return runs_into(one, other) || runs_into(other, one);
}

/* Adds the contents of tokens whose "normalized" is that, and their bytes. */
static size_t contents_of(const json_t *list, int normalized, const char **out, size_t *bytes) {
    size_t i, count = 0;
    const json_t *token;
    json_array_foreach((json_t *)list, i, token) {
        const char *text = gyre_vocab_text(token, "content");
        if (!*text || json_is_true(json_object_get(token, "normalized")) != normalized) continue;
        out[count++] = text;
        *bytes += strlen(text);
    }
    return count;
}

/* A tokenizer.json searches a text for tokens that are not normalized first, a GGUF for all at once.  Where one of each
 * overlap they find another one.  More than can be compared count as overlapping. */
static gyre_status check_order(const gyre_vocab_reader *r, const json_t *list) {
    const size_t all = json_array_size(list);
    size_t bytes[2] = {0, 0};
    const char **texts = malloc((all + 1) * sizeof *texts);
    if (!texts) return gyre_vocab_fail(r, GYRE_ENOMEM, "added_tokens", "no memory");
    const size_t first = contents_of(list, 0, texts, &bytes[0]);
    const size_t other = contents_of(list, 1, texts + first, &bytes[1]);
    int found = first > 0 && other > MOST_COMPARED / (bytes[0] + bytes[1]) / first;
    for (size_t i = 0; i < first && !found; i++)
        for (size_t k = 0; k < other && !found; k++)
            found = overlap(texts[i], texts[first + k]);
    free(texts);
    return found ? gyre_vocab_lose(r, "added_tokens.normalized",
                                   "a GGUF does not say which of two tokens that overlap is searched for first")
                 : GYRE_OK;
}

/* -- reading -- */
/* 1 for a token of the vocabulary whose U+2581 is a space.  As an added token it would match a literal U+2581. */
static int stands_for_spaces(const gyre_vocab_reader *r, const char *text, const json_t *id) {
    const json_int_t i = json_is_integer(id) ? json_integer_value(id) : -1;
    return !r->out->byte_level && strstr(text, GYRE_SPACE_SYMBOL) && i >= 0 && i < r->out->count &&
           r->out->id_to_token[i].text;
}

static int is_added(const gyre_vocab_reader *r, const json_t *id) {
    const json_int_t i = json_is_integer(id) ? json_integer_value(id) : -1;
    if (i < 0 || i >= r->out->count) return 0;
    const int kind = r->out->id_to_token[i].kind;
    return kind == GYRE_TOKEN_UNKNOWN || kind == GYRE_TOKEN_CONTROL || kind == GYRE_TOKEN_USER_DEFINED;
}

/* What of the list is lost. */
typedef struct losses {
    int spaces;  /* a U+2581 */
    int strips;  /* white space beside a token */
    int doubles; /* one of two tokens with the same text */
    int writes;  /* how the normalizer writes a token that is searched for */
    json_t *ids; /* of the texts so far */
} losses;

/* 1 if a token of another id has the text. */
static int is_double(losses *l, const gyre_vocab_reader *r, const char *text, const json_t *id) {
    const json_t *in_vocab = json_object_get(json_object_get(r->model, "vocab"), text);
    const int found = (in_vocab && !json_equal(in_vocab, id)) || json_object_get(l->ids, text);
    return json_object_set(l->ids, text, (json_t *)id) != 0 ? -1 : found;
}

static gyre_status read_one(const gyre_vocab_reader *r, const json_t *token, losses *l) {
    const char *text = gyre_vocab_text(token, "content"), *unknown = gyre_vocab_text(r->model, "unk_token");
    const json_t *id = json_object_get(token, "id");
    const int special = json_is_true(json_object_get(token, "special"));
    const int is_unknown = !r->out->byte_level && *unknown && strcmp(text, unknown) == 0;
    const int doubled = json_is_integer(id) ? is_double(l, r, text, id) : 0;
    if (doubled < 0) return gyre_vocab_fail(r, GYRE_ENOMEM, "added_tokens", "no memory");
    if (strlen(text) > GYRE_MAX_ADDED_TOKEN_BYTES)
        return gyre_vocab_fail(r, GYRE_EUNSUPPORTED, "added_tokens",
                               "more than 512 bytes in one, which Gyre does not search for");
    l->doubles |= doubled;
    l->strips |= json_is_true(json_object_get(token, "lstrip")) || json_is_true(json_object_get(token, "rstrip")) ||
                 json_is_true(json_object_get(token, "single_word"));
    l->writes |= json_is_true(json_object_get(token, "normalized")) &&
                 (r->pipeline->normalizer_prepends || (r->pipeline->normalizer_replaces && strchr(text, ' ')));
    if (is_added(r, id)) return gyre_vocab_fail(r, GYRE_EFORMAT, "added_tokens", "two of them have the same id");
    if (!special && stands_for_spaces(r, text, id)) return GYRE_OK;
    l->spaces |= !special && !r->out->byte_level && strstr(text, GYRE_SPACE_SYMBOL) != NULL;
    return gyre_vocab_set_token(r, text, id,
                                !special     ? GYRE_TOKEN_USER_DEFINED
                                : is_unknown ? GYRE_TOKEN_UNKNOWN
                                             : GYRE_TOKEN_CONTROL);
}

static gyre_status tell(const gyre_vocab_reader *r, const losses *l) {
    gyre_status status = GYRE_OK;
    if (l->strips) status = gyre_vocab_lose(r, "added_tokens", "lstrip, rstrip and single_word have no key in a GGUF");
    if (!status && l->spaces)
        status = gyre_vocab_lose(r, "added_tokens", "a U+2581 in them is a space to readers of a GGUF");
    if (!status && l->doubles)
        status = gyre_vocab_lose(r, "added_tokens", "of two tokens with the same text readers of a GGUF find one");
    if (!status && l->writes)
        status = gyre_vocab_lose(r, "added_tokens.normalized",
                                 "readers of a GGUF search for a token as it is written, not as the normalizer writes it");
    return status;
}

gyre_status gyre_vocab_read_added(const gyre_vocab_reader *r) {
    const json_t *list = json_object_get(r->root, "added_tokens"), *token;
    size_t i;
    losses l = {.ids = json_object()};
    gyre_status status = l.ids ? GYRE_OK : gyre_vocab_fail(r, GYRE_ENOMEM, "added_tokens", "no memory");
    json_array_foreach((json_t *)list, i, token) if (!status) status = read_one(r, token, &l);
    json_decref(l.ids);
    if (!status) status = tell(r, &l);
    return !status ? check_order(r, list) : status;
}
