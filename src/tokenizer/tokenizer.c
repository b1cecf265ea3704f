/* tokenizer.c: text to ids and back. */
#include "tokenizer/tokenizer.h"

#include "core/encoding.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, STRIPS_LEFT = 1, STRIPS_RIGHT = 2, SPECIALS = GYRE_TOKENIZE_SPECIAL };

/* -- making one -- */
gyre_status gyre_tokenizer_create(gyre_tokenizer **out, const char *path, gyre_tokenizer_kind kind, gyre_error *err) {
    gyre_tokenizer *t = calloc(1, sizeof *t);
    char *copy = malloc(strlen(path) + 1);
    if (!t || !copy) {
        free(t);
        free(copy);
        return gyre_fail(err, GYRE_ENOMEM, "tokenizer: no memory (%s)", path);
    }
    memcpy(copy, path, strlen(path) + 1);
    t->path = copy;
    t->info = (gyre_tokenizer_info){kind, 0, -1, -1, -1, -1, 0, t->notes};
    for (int i = 0; i < BYTES; i++)
        t->byte_ids[i] = -1;
    *out = t;
    return GYRE_OK;
}

void gyre_tokenizer_free(gyre_tokenizer *t) {
    if (!t) return;
    gyre_vocabulary_free(&t->vocabulary);
    gyre_pair_map_free(&t->merges);
    gyre_added_trie_free(&t->added[0]);
    gyre_added_trie_free(&t->added[1]);
    gyre_pre_tokenizer_free(&t->steps);
    free(t->ranks);
    free(t->path);
    free(t);
}

void gyre_tokenizer_add_note(gyre_tokenizer *t, const char *format, ...) {
    char note[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(note, sizeof note, format, arguments);
    va_end(arguments);
    const size_t used = strlen(t->notes);
    if (strstr(t->notes, note) || used + strlen(note) + 3 > sizeof t->notes) return;
    snprintf(t->notes + used, sizeof t->notes - used, "%s%s", used > 0 ? "; " : "", note);
}

static int is_mergeable(const gyre_tokenizer *t, int32_t id) {
    const gyre_piece *p = &t->vocabulary.pieces[id];
    return p->kind == GYRE_PIECE_NORMAL && p->is_text && p->length > 0;
}

static void allow_join(gyre_tokenizer *t, unsigned char left, unsigned char right) {
    const uint32_t bit = (uint32_t)left << 8 | right;
    t->joins[bit / 8] |= (unsigned char)(1u << (bit % 8));
}

int gyre_tokenizer_add_merge(gyre_tokenizer *t, int32_t left, int32_t right, int32_t merged, uint32_t rank) {
    const gyre_rope_dialect *v = &t->vocabulary;
    if (!is_mergeable(t, left) || !is_mergeable(t, right) || !is_mergeable(t, merged)) return 0;
    allow_join(t, gyre_piece_bytes(v, left)[v->pieces[left].length - 1], gyre_piece_bytes(v, right)[0]);
    return gyre_pair_map_set(&t->merges, (uint32_t)left, (uint32_t)right, rank, merged) ? 1 : -1;
}

gyre_status gyre_tokenizer_mark_added(gyre_tokenizer *t, int32_t id, int is_special, int is_normalized, int strips_left,
                                      int strips_right, gyre_error *err) {
    gyre_piece *p = &t->vocabulary.pieces[id];
    if (p->length > GYRE_MAX_ADDED_TOKEN_BYTES)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "%" PRIu32 " bytes, at most %d are looked for", p->length,
                         GYRE_MAX_ADDED_TOKEN_BYTES);
    p->kind = is_special ? GYRE_PIECE_SPECIAL : GYRE_PIECE_ADDED;
    if (is_special) p->strips = (unsigned char)((strips_left ? STRIPS_LEFT : 0) | (strips_right ? STRIPS_RIGHT : 0));
    if (!is_special && (strips_left || strips_right))
        gyre_tokenizer_add_note(t,
                                "lstrip and rstrip of added tokens that are not special: white space beside them is kept");
    return gyre_added_trie_insert(&t->added[is_normalized != 0], gyre_piece_bytes(&t->vocabulary, id), p->length, id, err);
}

/* What is put before a text must not be taken for a part of it. */
static void check_bos(gyre_tokenizer *t) {
    if (!t->info.adds_begin) return;
    gyre_piece *p = &t->vocabulary.pieces[t->info.begin];
    if (p->kind == GYRE_PIECE_ADDED || (p->kind == GYRE_PIECE_NORMAL && t->by_scores)) p->kind = GYRE_PIECE_SPECIAL;
    if (p->kind == GYRE_PIECE_SPECIAL) return;
    t->info.adds_begin = 0;
    gyre_tokenizer_add_note(t, "the begin token is an ordinary one: not put before texts");
}

void gyre_tokenizer_finish(gyre_tokenizer *t) {
    const gyre_rope_dialect *v = &t->vocabulary;
    check_bos(t);
    t->info.vocab = v->count;
    for (int64_t id = 0; id < v->count; id++) {
        const gyre_piece *p = &v->pieces[id];
        const unsigned char *bytes = gyre_piece_bytes(v, (int32_t)id);
        if (p->kind == GYRE_PIECE_BYTE && t->byte_ids[p->byte] < 0) t->byte_ids[p->byte] = (int32_t)id;
        if (!is_mergeable(t, (int32_t)id)) continue;
        if (p->length > t->max_piece_bytes) t->max_piece_bytes = p->length;
        for (uint32_t i = 1; t->by_scores && i < p->length; i++)
            allow_join(t, bytes[i - 1], bytes[i]);
    }
}

gyre_status gyre_tokenizer_create_bytes(gyre_tokenizer **out, gyre_error *err) {
    gyre_tokenizer *t;
    gyre_status status = gyre_tokenizer_create(&t, "bytes", GYRE_TOKENIZER_BYTES, err);
    if (status != GYRE_OK) return status;
    status = gyre_vocabulary_init(&t->vocabulary, BYTES, err);
    for (int i = 0; i < BYTES && status == GYRE_OK; i++) {
        const unsigned char byte = (unsigned char)i;
        status = gyre_vocabulary_set(&t->vocabulary, i, &byte, 1, err);
        t->vocabulary.pieces[i].kind = GYRE_PIECE_NORMAL;
        t->byte_ids[i] = i;
    }
    t->info.vocab = BYTES;
    if (status == GYRE_OK)
        *out = t;
    else
        gyre_tokenizer_free(t);
    return status;
}

gyre_tokenizer_info gyre_tokenizer_get_info(const gyre_tokenizer *tokenizer) {
    return tokenizer->info;
}

/* -- text to ids -- */
typedef struct encoder {
    const gyre_tokenizer *t;
    const unsigned char *text;
    size_t bytes;
    unsigned flags;
    gyre_bpe_scratch scratch;
    gyre_ids ids;
    int is_after_added; /* something was found before */
    unsigned char *prefixed;
    size_t prefixed_room;
} encoder;

static gyre_status encode_word(void *ctx, const unsigned char *word, size_t bytes, gyre_error *err) {
    encoder *e = ctx;
    return gyre_bpe_encode_word(e->t, &e->scratch, word, bytes, &e->ids, err);
}

/* text[start .. end - 1], which holds no added token. */
static gyre_status encode_plain(encoder *e, size_t start, size_t end, gyre_error *err) {
    const size_t bytes = end - start;
    if (bytes == 0) return GYRE_OK;
    const int is_first = !e->is_after_added;
    const int gets_space = is_first ? e->t->prepend_scheme != GYRE_PREPEND_NEVER && !(e->flags & GYRE_TOKENIZE_INSIDE)
                                    : e->t->prepend_scheme == GYRE_PREPEND_ALWAYS;
    if (!gets_space) return gyre_pre_tokenize(&e->t->steps, e->text + start, bytes, encode_word, e, err);
    if (!e->prefixed || e->prefixed_room < bytes + 1) {
        unsigned char *grown = realloc(e->prefixed, bytes + 1);
        if (!grown) return gyre_fail(err, GYRE_ENOMEM, "tokenizer: no memory for %zu bytes", bytes);
        e->prefixed = grown;
        e->prefixed_room = bytes + 1;
    }
    e->prefixed[0] = ' ';
    memcpy(e->prefixed + 1, e->text + start, bytes);
    return gyre_pre_tokenize(&e->t->steps, e->prefixed, bytes + 1, encode_word, e, err);
}

static int is_white(unsigned char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Looks for the tokens of t->added[which] in text[start .. end - 1]; what lies between goes to the next, then to words. */
static gyre_status encode_span(encoder *e, int which, size_t start, size_t end, gyre_error *err) {
    gyre_status status = GYRE_OK;
    gyre_added_match found;
    if (which == 2) return encode_plain(e, start, end, err);
    while (status == GYRE_OK &&
           gyre_added_trie_find(&e->t->added[which], &e->t->vocabulary, e->text, end, start, e->flags & SPECIALS, &found)) {
        const unsigned char strips = e->t->vocabulary.pieces[found.id].strips;
        while (strips & STRIPS_LEFT && found.start > start && is_white(e->text[found.start - 1]))
            found.start--;
        status = encode_span(e, which + 1, start, found.start, err);
        if (status == GYRE_OK) status = gyre_ids_append(&e->ids, found.id, err);
        e->is_after_added = 1;
        while (strips & STRIPS_RIGHT && found.end < end && is_white(e->text[found.end]))
            found.end++;
        start = found.end;
    }
    return status == GYRE_OK ? encode_span(e, which + 1, start, end, err) : status;
}

gyre_status gyre_tokenize(const gyre_tokenizer *tokenizer, const char *text, size_t bytes, unsigned flags, int32_t **ids,
                          int64_t *count, gyre_error *err) {
    encoder e = {.t = tokenizer, .text = (const unsigned char *)(text ? text : ""), .bytes = bytes, .flags = flags};
    gyre_status status = GYRE_OK;
    if (!tokenizer || !ids || !count || (!text && bytes > 0)) return gyre_fail(err, GYRE_EINVAL, "tokenize: NULL");
    if (bytes >= INT32_MAX)
        return gyre_fail(err, GYRE_EINVAL, "tokenize: %zu bytes at once, at most 2^31 - 2 (%s)", bytes, tokenizer->path);
    if (flags & GYRE_TOKENIZE_BEGIN && tokenizer->info.adds_begin)
        status = gyre_ids_append(&e.ids, tokenizer->info.begin, err);
    if (tokenizer->info.kind == GYRE_TOKENIZER_BYTES) {
        for (size_t i = 0; i < bytes && status == GYRE_OK; i++)
            status = gyre_ids_append(&e.ids, e.text[i], err);
    } else if (status == GYRE_OK) {
        status = encode_span(&e, 0, 0, bytes, err);
    }
    /* No tokens are memory too: the caller frees what it gets. */
    if (status == GYRE_OK && !e.ids.ids) {
        e.ids.ids = malloc(sizeof *e.ids.ids);
        if (!e.ids.ids) status = gyre_fail(err, GYRE_ENOMEM, "tokenize: no memory");
    }
    gyre_bpe_scratch_free(&e.scratch);
    free(e.prefixed);
    if (status == GYRE_OK) {
        *ids = e.ids.ids;
        *count = e.ids.count;
    } else {
        free(e.ids.ids);
    }
    return status;
}

/* -- ids to text -- */
typedef struct decoder {
    char *text;
    size_t used, room;
    int drops_space; /* the next text begins with a space that was put there */
} decoder;

static gyre_status append_text(decoder *d, const void *bytes, size_t length, gyre_error *err) {
    if (d->room - d->used <= length) {
        const size_t room = 2 * d->room + length + 64;
        char *grown = realloc(d->text, room);
        if (!grown) return gyre_fail(err, GYRE_ENOMEM, "detokenize: no memory for %zu bytes", room);
        d->text = grown;
        d->room = room;
    }
    if (length > 0) memcpy(d->text + d->used, bytes, length);
    d->used += length;
    d->text[d->used] = '\0';
    return GYRE_OK;
}

static gyre_status decode_token(decoder *d, const gyre_tokenizer *t, int32_t id, unsigned flags, gyre_error *err) {
    const gyre_piece *p = &t->vocabulary.pieces[id];
    const unsigned char *bytes = p->kind == GYRE_PIECE_BYTE ? &p->byte : gyre_piece_bytes(&t->vocabulary, id);
    const size_t length = p->kind == GYRE_PIECE_BYTE ? 1 : p->length;
    if (p->kind == GYRE_PIECE_NONE) return GYRE_OK;
    if (p->kind == GYRE_PIECE_ADDED || p->kind == GYRE_PIECE_SPECIAL) {
        const int shows = p->kind == GYRE_PIECE_ADDED || flags & SPECIALS;
        if (t->prepend_scheme == GYRE_PREPEND_ALWAYS)
            d->drops_space = 1;
        else if (shows)
            d->drops_space = 0;
        return shows ? append_text(d, bytes, length, err) : GYRE_OK;
    }
    const size_t dropped = d->drops_space && length > 0 && bytes[0] == ' ';
    if (length > 0) d->drops_space = 0;
    return append_text(d, bytes + dropped, length - dropped, err);
}

/* A begin token that is not shown was put there, and is not of the text. */
static int is_begin(const gyre_tokenizer *t, int32_t id) {
    return id == t->info.begin && t->vocabulary.pieces[id].kind == GYRE_PIECE_SPECIAL;
}

gyre_status gyre_detokenize(const gyre_tokenizer *tokenizer, const int32_t *ids, int64_t count, unsigned flags, char **text,
                            size_t *bytes, gyre_error *err) {
    if (!tokenizer || !text || !bytes || count < 0 || (!ids && count > 0))
        return gyre_fail(err, GYRE_EINVAL, "detokenize: NULL, or a count below 0");
    decoder d = {.drops_space = tokenizer->prepend_scheme != GYRE_PREPEND_NEVER && !(flags & GYRE_TOKENIZE_INSIDE)};
    gyre_status status = append_text(&d, "", 0, err);
    for (int64_t i = 0; i < count && status == GYRE_OK; i++) {
        if (ids[i] < 0 || ids[i] >= tokenizer->info.vocab)
            status = gyre_fail(err, GYRE_EINVAL, "detokenize: id %" PRId32 " at %" PRId64 " is not below %" PRId64 " (%s)",
                               ids[i], i, tokenizer->info.vocab, tokenizer->path);
        else if (i > 0 || !is_begin(tokenizer, ids[i]) || flags & SPECIALS)
            status = decode_token(&d, tokenizer, ids[i], flags, err);
    }
    if (status == GYRE_OK) {
        *text = d.text;
        *bytes = d.used;
    } else {
        free(d.text);
    }
    return status;
}
