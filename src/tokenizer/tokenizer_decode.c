/* tokenizer_decode.c: ids to text. */
#include "tokenizer/tokenizer.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct decoder {
    char *text;
    size_t used, capacity;
    int drops_space; /* the next text begins with a space that the encoder put there */
} decoder;

static gyre_status append_text(decoder *d, const void *bytes, size_t length, gyre_error *err) {
    if (d->capacity - d->used <= length) {
        const size_t capacity = 2 * d->capacity + length + 64;
        char *grown = realloc(d->text, capacity);
        if (!grown) return gyre_fail(err, GYRE_ENOMEM, "detokenize: no memory for %zu bytes", capacity);
        d->text = grown;
        d->capacity = capacity;
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
        const int shows = p->kind == GYRE_PIECE_ADDED || flags & GYRE_TOKENIZE_SPECIAL;
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

/* 1 if the encoder put the token before the text. */
static int is_begin(const gyre_tokenizer *t, int32_t id) {
    return id == t->info.begin && t->vocabulary.pieces[id].kind == GYRE_PIECE_SPECIAL;
}

gyre_status gyre_detokenize(const gyre_tokenizer *tokenizer, const gyre_text *tokens, unsigned flags, char **text,
                            size_t *bytes, gyre_error *err) {
    if (!tokenizer || !tokens || !text || !bytes || tokens->count < 0 || (!tokens->ids && tokens->count > 0))
        return gyre_fail(err, GYRE_EINVAL, "detokenize: NULL, or a count below 0");
    const int32_t *ids = tokens->ids;
    const int64_t count = tokens->count;
    decoder d = {.drops_space = tokenizer->prepend_scheme != GYRE_PREPEND_NEVER && !(flags & GYRE_TOKENIZE_INSIDE)};
    gyre_status status = append_text(&d, "", 0, err);
    for (int64_t i = 0; i < count && !status; i++) {
        if (ids[i] < 0 || ids[i] >= tokenizer->info.vocab)
            status = gyre_fail(err, GYRE_EINVAL, "detokenize: id %" PRId32 " at %" PRId64 " is not below %" PRId64 " (%s)",
                               ids[i], i, tokenizer->info.vocab, tokenizer->path);
        else if (i > 0 || !is_begin(tokenizer, ids[i]) || flags & GYRE_TOKENIZE_SPECIAL)
            status = decode_token(&d, tokenizer, ids[i], flags, err);
    }
    if (!status) {
        *text = d.text;
        *bytes = d.used;
    } else {
        free(d.text);
    }
    return status;
}
