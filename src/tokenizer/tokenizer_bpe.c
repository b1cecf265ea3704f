/* tokenizer_bpe.c: byte-pair merges with a heap of candidate bigrams.
 *
 * A word is first cut at places that no merge can ever join.  If a whole text is one word, most spaces are such places,
 * so the heap stays as small as the words people write. */
#include "tokenizer/tokenizer_bpe.h"
#include "util/error.h"

#include <stdlib.h>

enum { NO_SYMBOL = -1, MAX_UTF8_BYTES = 4 };

/* A piece of the word, at first one character, in a linked list of the pieces that are left. */
typedef struct gyre_bpe_symbol {
    uint32_t start;
    int32_t id; /* -1 = no piece of the vocabulary has these bytes */
    int32_t previous, next;
} symbol;

/* Two neighbors that may be merged.  The entry is stale if one of them has been merged since: then they are no longer
 * `length` bytes together. */
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
    uint32_t end; /* of the section being merged */
    size_t symbol_count, heap_count;
    gyre_error *err;
} bpe_state;

void gyre_bpe_scratch_free(gyre_bpe_scratch *scratch) {
    free(scratch->symbols);
    free(scratch->heap);
    *scratch = (gyre_bpe_scratch){0};
}

gyre_status gyre_ids_append(gyre_ids *ids, int32_t id, gyre_error *err) {
    if (ids->count == ids->capacity) {
        const int64_t capacity = 2 * ids->capacity + 64;
        int32_t *grown = realloc(ids->ids, (size_t)capacity * sizeof *grown);
        if (!grown) return gyre_fail(err, GYRE_ENOMEM, "tokenizer: no memory for %lld tokens", (long long)capacity);
        ids->ids = grown;
        ids->capacity = capacity;
    }
    ids->ids[ids->count++] = id;
    return GYRE_OK;
}

/* -- the heap: lowest rank first, the leftmost of equal ranks -- */
static int is_before(const bigram *a, const bigram *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static gyre_status push(bpe_state *m, bigram c) {
    gyre_bpe_scratch *s = m->scratch;
    if (m->heap_count == s->heap_capacity) {
        const size_t capacity = 2 * s->heap_capacity + 64;
        bigram *grown = realloc(s->heap, capacity * sizeof *grown);
        if (!grown) return gyre_fail(m->err, GYRE_ENOMEM, "tokenizer: no memory for a word");
        s->heap = grown;
        s->heap_capacity = capacity;
    }
    size_t at = m->heap_count++;
    for (; at > 0 && is_before(&c, &s->heap[(at - 1) / 2]); at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = c;
    return GYRE_OK;
}

static bigram pop(bpe_state *m) {
    bigram *heap = m->scratch->heap;
    const bigram first = heap[0], last = heap[--m->heap_count];
    size_t at = 0;
    for (size_t child = 1; child < m->heap_count; child = 2 * at + 1) {
        if (child + 1 < m->heap_count && is_before(&heap[child + 1], &heap[child])) child++;
        if (!is_before(&heap[child], &last)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

/* -- neighbors -- */
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
        if (id < 0 || !gyre_piece_is_mergeable(&t->vocabulary, id)) return GYRE_OK;
        return push(m, (bigram){t->ranks[id], left, length, id});
    }
    if (a->id < 0 || b->id < 0) return GYRE_OK;
    const gyre_pair_slot *pair = gyre_pair_map_find(&t->merges, (uint32_t)a->id, (uint32_t)b->id);
    return pair ? push(m, (bigram){pair->rank, left, length, pair->value}) : GYRE_OK;
}

/* Merges a bigram: the left symbol takes over the bytes of the right one, which leaves the list. */
static gyre_status merge(bpe_state *m, const bigram *c) {
    symbol *symbols = m->scratch->symbols, *a = &symbols[c->left], *b = &symbols[a->next];
    a->id = c->merged;
    a->next = b->next;
    b->start = UINT32_MAX; /* marks it as merged */
    if (a->next != NO_SYMBOL) symbols[a->next].previous = c->left;
    gyre_status status = push_bigram(m, c->left);
    if (!status && a->previous != NO_SYMBOL) status = push_bigram(m, a->previous);
    return status;
}

static int is_bigram_current(const bpe_state *m, const bigram *c) {
    const symbol *a = &m->scratch->symbols[c->left];
    if (a->start == UINT32_MAX || a->next == NO_SYMBOL) return 0;
    return end_of(m, &m->scratch->symbols[a->next]) - a->start == c->length;
}

/* -- a section -- */
/* out = bytes of the UTF-8 character at text; 1 if there is none. */
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
    const gyre_vocabulary *v = &m->t->vocabulary;
    if (m->symbol_count == s->symbol_capacity) {
        const size_t capacity = 2 * s->symbol_capacity + 64;
        symbol *grown = capacity <= INT32_MAX ? realloc(s->symbols, capacity * sizeof *grown) : NULL;
        if (!grown) return gyre_fail(m->err, GYRE_ENOMEM, "tokenizer: no memory for a word");
        s->symbols = grown;
        s->symbol_capacity = capacity;
    }
    const int32_t at = (int32_t)m->symbol_count++, id = gyre_vocabulary_find(v, m->word + start, length);
    const int is_piece = id >= 0 && gyre_piece_is_mergeable(v, id);
    s->symbols[at] = (symbol){start, is_piece ? id : -1, at - 1, NO_SYMBOL};
    if (at > 0) s->symbols[at - 1].next = at;
    return GYRE_OK;
}

static gyre_status emit(const bpe_state *m, const symbol *s, gyre_ids *out) {
    gyre_status status = GYRE_OK;
    if (s->id >= 0) return gyre_ids_append(out, s->id, m->err);
    for (uint32_t i = s->start; i < end_of(m, s) && !status; i++) {
        const int32_t id = m->t->byte_ids[m->word[i]];
        if (id < 0)
            return gyre_fail(m->err, GYRE_EINVAL, "text: no token stands for byte 0x%02X (%s)", m->word[i], m->t->path);
        status = gyre_ids_append(out, id, m->err);
    }
    return status;
}

/* Merges the symbols of a section and appends the resulting tokens. */
static gyre_status merge_symbols(bpe_state *m, gyre_ids *out) {
    gyre_status status = GYRE_OK;
    m->heap_count = 0;
    for (size_t i = 0; i + 1 < m->symbol_count && !status; i++)
        status = push_bigram(m, (int32_t)i);
    while (m->heap_count > 0 && !status) {
        const bigram c = pop(m);
        if (is_bigram_current(m, &c)) status = merge(m, &c);
    }
    for (int32_t i = 0; i != NO_SYMBOL && !status; i = m->scratch->symbols[i].next)
        status = emit(m, &m->scratch->symbols[i], out);
    return status;
}

/* 1 if some merge joins a piece that ends with `left` to one that begins with `right`. */
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
        if (id >= 0 && gyre_piece_is_mergeable(&t->vocabulary, id)) return gyre_ids_append(out, id, err);
    }
    for (uint32_t at = 0, length; at < bytes && !status; at += length) {
        length = symbol_length(&m, at, (uint32_t)bytes);
        if (m.symbol_count > 0 && !may_join(t, word[at - 1], word[at])) {
            m.end = at;
            status = merge_symbols(&m, out);
            m.symbol_count = 0;
        }
        if (!status) status = add_symbol(&m, at, length);
    }
    m.end = (uint32_t)bytes;
    return !status && m.symbol_count > 0 ? merge_symbols(&m, out) : status;
}
