/* tokenizer_bpe.c: one word into tokens by byte-pair merges, from a heap of the pairs that may be merged.
 *
 * A word is first cut where no merge can ever join what stands left and right, which most spaces are where a whole text is
 * one word: the heap stays as small as the words people write. */
#include "tokenizer/tokenizer.h"
#include "util/error.h"

#include <stdlib.h>

enum { NO_SYMBOL = -1, MAX_UTF8_BYTES = 4 };

/* A piece of the word, in a list of those that are left; a character at first. */
typedef struct gyre_bpe_symbol {
    uint32_t start;
    int32_t id; /* -1: no piece has these bytes */
    int32_t previous, next;
} symbol;

/* Two neighbours that may be merged, unless one of them has been since: then they are no longer `length` bytes. */
typedef struct gyre_bpe_bigram {
    uint32_t rank;
    int32_t left;
    uint32_t length;
    int32_t merged;
} bigram;

typedef struct bpe_state {
    const gyre_tokenizer *t;
    gyre_bpe_scratch *scratch;
    const unsigned char *word;
    uint32_t end; /* of the stretch under work */
    size_t symbols, heap;
    gyre_error *err;
} bpe_state;

void gyre_bpe_scratch_free(gyre_bpe_scratch *scratch) {
    free(scratch->symbols);
    free(scratch->heap);
    *scratch = (gyre_bpe_scratch){0};
}

gyre_status gyre_ids_append(gyre_ids *ids, int32_t id, gyre_error *err) {
    if (ids->count == ids->room) {
        const int64_t room = 2 * ids->room + 64;
        int32_t *grown = realloc(ids->ids, (size_t)room * sizeof *grown);
        if (!grown) return gyre_fail(err, GYRE_ENOMEM, "tokenizer: no memory for %lld tokens", (long long)room);
        ids->ids = grown;
        ids->room = room;
    }
    ids->ids[ids->count++] = id;
    return GYRE_OK;
}

/* -- the heap: lowest rank first, of those the leftmost -- */
static int is_before(const bigram *a, const bigram *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static gyre_status push(bpe_state *m, bigram c) {
    gyre_bpe_scratch *s = m->scratch;
    if (m->heap == s->heap_room) {
        const size_t room = 2 * s->heap_room + 64;
        bigram *grown = realloc(s->heap, room * sizeof *grown);
        if (!grown) return gyre_fail(m->err, GYRE_ENOMEM, "tokenizer: no memory for a word");
        s->heap = grown;
        s->heap_room = room;
    }
    size_t at = m->heap++;
    for (; at > 0 && is_before(&c, &s->heap[(at - 1) / 2]); at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = c;
    return GYRE_OK;
}

static bigram pop(bpe_state *m) {
    bigram *heap = m->scratch->heap;
    const bigram first = heap[0], last = heap[--m->heap];
    size_t at = 0;
    for (size_t child = 1; child < m->heap; child = 2 * at + 1) {
        if (child + 1 < m->heap && is_before(&heap[child + 1], &heap[child])) child++;
        if (!is_before(&heap[child], &last)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

/* -- neighbours -- */
static uint32_t end_of(const bpe_state *m, const symbol *s) {
    return s->next == NO_SYMBOL ? m->end : m->scratch->symbols[s->next].start;
}

static gyre_status push_bigram(bpe_state *m, int32_t left) {
    const gyre_tokenizer *t = m->t;
    const symbol *a = &m->scratch->symbols[left];
    if (a->next == NO_SYMBOL) return GYRE_OK;
    const symbol *b = &m->scratch->symbols[a->next];
    const uint32_t length = end_of(m, b) - a->start;
    if (t->by_scores) {
        const int32_t id =
            length <= t->max_piece_bytes ? gyre_vocabulary_find(&t->vocabulary, m->word + a->start, length) : -1;
        if (id < 0 || t->vocabulary.pieces[id].kind != GYRE_PIECE_NORMAL || !t->vocabulary.pieces[id].is_text)
            return GYRE_OK;
        return push(m, (bigram){t->ranks[id], left, length, id});
    }
    if (a->id < 0 || b->id < 0) return GYRE_OK;
    const gyre_pair_slot *pair = gyre_pair_map_find(&t->merges, (uint32_t)a->id, (uint32_t)b->id);
    return pair ? push(m, (bigram){pair->rank, left, length, pair->value}) : GYRE_OK;
}

/* The left one takes the bytes of the right one, which leaves the list. */
static gyre_status merge(bpe_state *m, const bigram *c) {
    symbol *symbols = m->scratch->symbols, *a = &symbols[c->left], *b = &symbols[a->next];
    a->id = c->merged;
    a->next = b->next;
    b->start = UINT32_MAX; /* says that it is gone */
    if (a->next != NO_SYMBOL) symbols[a->next].previous = c->left;
    gyre_status status = push_bigram(m, c->left);
    if (status == GYRE_OK && a->previous != NO_SYMBOL) status = push_bigram(m, a->previous);
    return status;
}

static int is_bigram_current(const bpe_state *m, const bigram *c) {
    const symbol *a = &m->scratch->symbols[c->left];
    if (a->start == UINT32_MAX || a->next == NO_SYMBOL) return 0;
    return end_of(m, &m->scratch->symbols[a->next]) - a->start == c->length;
}

/* -- a stretch -- */
/* out = bytes of the character at the place; 1 where there is none. */
static uint32_t utf8_length(const unsigned char *text, uint32_t left) {
    const uint32_t n = text[0] < 0xC2 ? 1 : text[0] < 0xE0 ? 2 : text[0] < 0xF0 ? 3 : text[0] < 0xF5 ? MAX_UTF8_BYTES : 1;
    if (n > left) return 1;
    for (uint32_t i = 1; i < n; i++)
        if ((text[i] & 0xC0) != 0x80) return 1;
    return n;
}

static uint32_t symbol_length(const bpe_state *m, uint32_t at, uint32_t bytes) {
    return m->t->info.kind == GYRE_TOKENIZER_BYTE_LEVEL ? 1 : utf8_length(m->word + at, bytes - at);
}

static gyre_status add_symbol(bpe_state *m, uint32_t start, uint32_t length) {
    gyre_bpe_scratch *s = m->scratch;
    const gyre_rope_dialect *v = &m->t->vocabulary;
    if (m->symbols == s->symbols_room) {
        const size_t room = 2 * s->symbols_room + 64;
        symbol *grown = room <= INT32_MAX ? realloc(s->symbols, room * sizeof *grown) : NULL;
        if (!grown) return gyre_fail(m->err, GYRE_ENOMEM, "tokenizer: no memory for a word");
        s->symbols = grown;
        s->symbols_room = room;
    }
    const int32_t at = (int32_t)m->symbols++, id = gyre_vocabulary_find(v, m->word + start, length);
    const int is_piece = id >= 0 && v->pieces[id].kind == GYRE_PIECE_NORMAL && v->pieces[id].is_text;
    s->symbols[at] = (symbol){start, is_piece ? id : -1, at - 1, NO_SYMBOL};
    if (at > 0) s->symbols[at - 1].next = at;
    return GYRE_OK;
}

static gyre_status emit(const bpe_state *m, const symbol *s, gyre_ids *out) {
    gyre_status status = GYRE_OK;
    if (s->id >= 0) return gyre_ids_append(out, s->id, m->err);
    for (uint32_t i = s->start; i < end_of(m, s) && status == GYRE_OK; i++) {
        const int32_t id = m->t->byte_ids[m->word[i]];
        if (id < 0)
            return gyre_fail(m->err, GYRE_EINVAL, "text: no token stands for byte 0x%02X (%s)", m->word[i], m->t->path);
        status = gyre_ids_append(out, id, m->err);
    }
    return status;
}

/* The symbols are there. */
static gyre_status merge_symbols(bpe_state *m, gyre_ids *out) {
    gyre_status status = GYRE_OK;
    m->heap = 0;
    for (size_t i = 0; i + 1 < m->symbols && status == GYRE_OK; i++)
        status = push_bigram(m, (int32_t)i);
    while (m->heap > 0 && status == GYRE_OK) {
        const bigram c = pop(m);
        if (is_bigram_current(m, &c)) status = merge(m, &c);
    }
    for (int32_t i = 0; i != NO_SYMBOL && status == GYRE_OK; i = m->scratch->symbols[i].next)
        status = emit(m, &m->scratch->symbols[i], out);
    return status;
}

static int may_join(const gyre_tokenizer *t, unsigned char left, unsigned char right) {
    const uint32_t bit = (uint32_t)left << 8 | right;
    return t->joins[bit / 8] >> (bit % 8) & 1;
}

gyre_status gyre_bpe_encode_word(const gyre_tokenizer *t, gyre_bpe_scratch *scratch, const unsigned char *word, size_t bytes,
                                 gyre_ids *out, gyre_error *err) {
    bpe_state m = {.t = t, .scratch = scratch, .word = word, .err = err};
    gyre_status status = GYRE_OK;
    if (t->ignore_merges) {
        const int32_t id = gyre_vocabulary_find(&t->vocabulary, word, bytes);
        if (id >= 0 && t->vocabulary.pieces[id].kind == GYRE_PIECE_NORMAL && t->vocabulary.pieces[id].is_text)
            return gyre_ids_append(out, id, err);
    }
    for (uint32_t at = 0, length; at < bytes && status == GYRE_OK; at += length) {
        length = symbol_length(&m, at, (uint32_t)bytes);
        if (m.symbols > 0 && !may_join(t, word[at - 1], word[at])) {
            m.end = at;
            status = merge_symbols(&m, out);
            m.symbols = 0;
        }
        if (status == GYRE_OK) status = add_symbol(&m, at, length);
    }
    m.end = (uint32_t)bytes;
    return status == GYRE_OK && m.symbols > 0 ? merge_symbols(&m, out) : status;
}
