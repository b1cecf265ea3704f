/* tokenizer.c: building a tokenizer. */
#include "tokenizer/tokenizer.h"
#include "core/sized.h"

#include "util/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 256 };

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
    t->info = (gyre_tokenizer_info){.kind = kind, .begin = -1, .end = -1, .unknown = -1, .pad = -1, .notes = t->notes};
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
    free(t->chat_template);
    free(t);
}

void gyre_tokenizer_add_note(gyre_tokenizer *t, const char *format, ...) {
    char note[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(note, sizeof note, format, arguments);
    va_end(arguments);
    for (char *c = note; *c; c++) /* words of a file */
        *c = *c == ';' ? ',' : (unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c;
    const size_t used = strlen(t->notes);
    if (strstr(t->notes, note) || used + strlen(note) + 3 > sizeof t->notes) return;
    snprintf(t->notes + used, sizeof t->notes - used, "%s%s", used > 0 ? "; " : "", note);
}

static int is_mergeable(const gyre_tokenizer *t, int32_t id) {
    return gyre_piece_is_mergeable(&t->vocabulary, id) && t->vocabulary.pieces[id].length > 0;
}

static void allow_join(gyre_tokenizer *t, unsigned char left, unsigned char right) {
    const uint32_t bit = (uint32_t)left << 8 | right;
    t->joins[bit / 8] |= (unsigned char)(1u << (bit % 8));
}

int gyre_tokenizer_add_merge(gyre_tokenizer *t, int32_t left, int32_t right, int32_t merged, uint32_t rank) {
    const gyre_vocabulary *v = &t->vocabulary;
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
    if (is_special)
        p->strips = (unsigned char)((strips_left ? GYRE_STRIPS_LEFT : 0) | (strips_right ? GYRE_STRIPS_RIGHT : 0));
    if (!is_special && (strips_left || strips_right))
        gyre_tokenizer_add_note(t,
                                "lstrip and rstrip of added tokens that are not special: white space beside them is kept");
    return gyre_added_trie_insert(&t->added[is_normalized != 0], gyre_piece_bytes(&t->vocabulary, id), p->length, id, err);
}

gyre_status gyre_tokenizer_list_made(const gyre_tokenizer *t, unsigned char **out, gyre_error *err) {
    const gyre_vocabulary *v = &t->vocabulary;
    unsigned char *made = calloc((size_t)v->count + 1, 1);
    if (!made) return gyre_fail(err, GYRE_ENOMEM, "tokenizer: no memory for %" PRId64 " tokens", v->count);
    for (size_t i = 0; t->merges.slots && i <= t->merges.mask; i++)
        if (t->merges.slots[i].key != UINT64_MAX) made[t->merges.slots[i].value] = GYRE_MADE_BY_MERGE;
    for (int64_t id = 0; id < v->count; id++) {
        if (!is_mergeable(t, (int32_t)id) || made[id]) continue;
        if (v->pieces[id].length == 1)
            made[id] = GYRE_MADE_BY_MERGE;
        else if (t->ignore_merges)
            made[id] = GYRE_MADE_AS_WORD;
    }
    *out = made;
    return GYRE_OK;
}

/* The begin token that encoding puts before a text must not decode to text, so it becomes special.  One that merges can
 * make cannot become special and is not added. */
static void check_bos(gyre_tokenizer *t) {
    if (!t->info.adds_begin) return;
    gyre_piece *p = &t->vocabulary.pieces[t->info.begin];
    if (p->kind == GYRE_PIECE_ADDED || (p->kind == GYRE_PIECE_NORMAL && t->by_scores)) p->kind = GYRE_PIECE_SPECIAL;
    if (p->kind == GYRE_PIECE_SPECIAL) return;
    t->info.adds_begin = 0;
    gyre_tokenizer_add_note(t, "the begin token is an ordinary one: not put before texts");
}

void gyre_tokenizer_finish(gyre_tokenizer *t) {
    const gyre_vocabulary *v = &t->vocabulary;
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
    if (status) return status;
    status = gyre_vocabulary_init(&t->vocabulary, BYTES, err);
    for (int i = 0; i < BYTES && !status; i++) {
        const unsigned char byte = (unsigned char)i;
        status = gyre_vocabulary_set(&t->vocabulary, i, &byte, 1, err);
        t->vocabulary.pieces[i].kind = GYRE_PIECE_NORMAL;
        t->byte_ids[i] = i;
    }
    t->info.vocab = BYTES;
    if (!status)
        *out = t;
    else
        gyre_tokenizer_free(t);
    return status;
}

gyre_status gyre_tokenizer_get_info(const gyre_tokenizer *tokenizer, gyre_tokenizer_info *out) {
    gyre_tokenizer_info info;
    if (!tokenizer || gyre_sized_read(&info, sizeof info, out, "gyre_tokenizer_info", NULL)) return GYRE_EINVAL;
    const size_t size = info.size;
    info = tokenizer->info;
    info.size = size;
    info.chat_template = tokenizer->chat_template ? tokenizer->chat_template : "";
    gyre_sized_write(out, &info);
    return GYRE_OK;
}
