/* tokenizer_encode.c: text to ids. */
#include "tokenizer/tokenizer_bpe.h"
#include "util/error.h"
#include "util/fnv1a.h"

#include <stdlib.h>
#include <string.h>

typedef struct encoder {
    const gyre_tokenizer *t;
    const unsigned char *text;
    size_t bytes;
    unsigned flags;
    uint64_t work_left; /* of patterns, for all pieces of the text */
    gyre_bpe_scratch scratch;
    gyre_ids ids;
    int is_after_added;      /* an added token was found before */
    unsigned char *prefixed; /* a copy of the text with a space before it */
    size_t prefixed_capacity;
} encoder;

static gyre_status encode_word(void *ctx, const unsigned char *word, size_t bytes, gyre_error *err) {
    encoder *e = ctx;
    return gyre_bpe_encode_word(e->t, &e->scratch, word, bytes, &e->ids, err);
}

/* Encodes text[start .. end - 1], which holds no added token. */
static gyre_status encode_plain(encoder *e, size_t start, size_t end, gyre_error *err) {
    const size_t bytes = end - start;
    if (bytes == 0) return GYRE_OK;
    const int is_first = !e->is_after_added;
    const int gets_space = is_first ? e->t->prepend_scheme != GYRE_PREPEND_NEVER && !(e->flags & GYRE_TOKENIZE_INSIDE)
                                    : e->t->prepend_scheme == GYRE_PREPEND_ALWAYS;
    if (!gets_space) return gyre_pre_tokenize(&e->t->steps, e->text + start, bytes, &e->work_left, encode_word, e, err);
    if (!e->prefixed || e->prefixed_capacity < bytes + 1) {
        unsigned char *grown = realloc(e->prefixed, bytes + 1);
        if (!grown) return gyre_fail(err, GYRE_ENOMEM, "tokenizer: no memory for %zu bytes", bytes);
        e->prefixed = grown;
        e->prefixed_capacity = bytes + 1;
    }
    e->prefixed[0] = ' ';
    memcpy(e->prefixed + 1, e->text + start, bytes);
    return gyre_pre_tokenize(&e->t->steps, e->prefixed, bytes + 1, &e->work_left, encode_word, e, err);
}

/* out = bytes of the character at s if it is white space (Unicode's White_Space), else 0. */
static size_t white_space_at(const unsigned char *s, size_t left) {
    if (s[0] == ' ' || (s[0] >= '\t' && s[0] <= '\r')) return 1;
    if (left > 1 && s[0] == 0xC2) return s[1] == 0x85 || s[1] == 0xA0 ? 2 : 0; /* U+0085, U+00A0 */
    if (left < 3 || s[0] < 0xE1 || s[0] > 0xE3) return 0;
    const unsigned code = (s[0] & 0x0Fu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu);
    if ((s[1] & 0xC0) != 0x80 || (s[2] & 0xC0) != 0x80) return 0;
    const int is_white = code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
                         code == 0x202F || code == 0x205F || code == 0x3000;
    return is_white ? 3 : 0;
}

/* out = where the white space before text[at] begins. */
static size_t white_space_before(const unsigned char *text, size_t start, size_t at) {
    for (size_t n = 1; n <= 3 && n <= at - start;) {
        const int is_white = white_space_at(text + at - n, n) == n;
        at -= is_white ? n : 0;
        n = is_white ? 1 : n + 1;
    }
    return at;
}

/* Encodes text[start .. end - 1].  Splits it at the tokens of t->added[which].  The text between them is searched for
 * those of the next trie, and then encoded as plain text. */
static gyre_status encode_span(encoder *e, int which, size_t start, size_t end, gyre_error *err) {
    gyre_status status = GYRE_OK;
    gyre_added_match found;
    size_t from = start;
    if (which == 2) return encode_plain(e, start, end, err);
    while (!status && gyre_added_trie_find(&e->t->added[which], &e->t->vocabulary, e->text, end, from,
                                           e->flags & GYRE_TOKENIZE_SPECIAL, &found)) {
        const unsigned char strips = e->t->vocabulary.pieces[found.id].strips;
        from = found.end; /* a token may begin in white space that the one before it strips, as in the tokenizers library */
        if (found.start < start) found.start = start;
        if (strips & GYRE_STRIPS_LEFT) found.start = white_space_before(e->text, start, found.start);
        status = encode_span(e, which + 1, start, found.start, err);
        if (!status) status = gyre_ids_append(&e->ids, found.id, err);
        e->is_after_added = 1;
        for (size_t n; strips & GYRE_STRIPS_RIGHT && found.end < end; found.end += n)
            if ((n = white_space_at(e->text + found.end, end - found.end)) == 0) break;
        start = found.end;
    }
    return !status ? encode_span(e, which + 1, start, end, err) : status;
}

gyre_status gyre_tokenize(const gyre_tokenizer *tokenizer, const char *text, size_t bytes, unsigned flags, gyre_text *out,
                          gyre_error *err) {
    encoder e = {.t = tokenizer, .text = (const unsigned char *)(text ? text : ""), .bytes = bytes, .flags = flags};
    gyre_status status = GYRE_OK;
    if (!tokenizer || !out || (!text && bytes > 0)) return gyre_fail(err, GYRE_EINVAL, "tokenize: NULL");
    if (bytes >= INT32_MAX)
        return gyre_fail(err, GYRE_EINVAL, "tokenize: %zu bytes at once, at most 2^31 - 2 (%s)", bytes, tokenizer->path);
    if (flags & GYRE_TOKENIZE_BEGIN && tokenizer->info.adds_begin)
        status = gyre_ids_append(&e.ids, tokenizer->info.begin, err);
    if (tokenizer->info.kind == GYRE_TOKENIZER_BYTES) {
        for (size_t i = 0; i < bytes && !status; i++)
            status = gyre_ids_append(&e.ids, e.text[i], err);
    } else if (!status) {
        e.work_left = gyre_pre_tokenizer_work(bytes + 1); /* with the space before a text */
        status = encode_span(&e, 0, 0, bytes, err);
    }
    /* NULL would be no memory to those who look, so there is some even without tokens. */
    if (!status && !e.ids.ids) {
        e.ids.ids = malloc(sizeof *e.ids.ids);
        if (!e.ids.ids) status = gyre_fail(err, GYRE_ENOMEM, "tokenize: no memory");
    }
    gyre_bpe_scratch_free(&e.scratch);
    free(e.prefixed);
    if (!status)
        *out = (gyre_text){.ids = e.ids.ids,
                           .count = e.ids.count,
                           .hash = gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, e.text, bytes),
                           .bytes = (int64_t)bytes};
    else
        free(e.ids.ids);
    return status;
}
