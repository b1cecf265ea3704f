/* vocabulary.h: the pieces of a tokenizer, by id and by their bytes. */
#ifndef GYRE_TOKENIZER_VOCABULARY_H
#define GYRE_TOKENIZER_VOCABULARY_H
#include "gyre/gyre.h"

typedef enum gyre_piece_kind {
    GYRE_PIECE_NONE,   /* no token has this id */
    GYRE_PIECE_NORMAL, /* made by merging characters */
    GYRE_PIECE_BYTE,   /* "<0x0A>": a byte */
    GYRE_PIECE_ADDED,  /* an added token: found in the text before anything is merged */
    GYRE_PIECE_SPECIAL /* an added token without text */
} gyre_piece_kind;

typedef struct gyre_piece {
    size_t bytes_offset; /* into gyre_vocabulary.bytes */
    uint32_t length;
    unsigned char kind, byte;
    unsigned char is_text; /* 0: written with characters that text never contains, so nothing is merged into it */
    unsigned char strips;  /* white space that it includes: 1 = before it, 2 = after it, 3 = both */
} gyre_piece;

/* A hash table with open addressing from bytes to ids, never more than seven eighths full. */
typedef struct gyre_vocabulary {
    unsigned char *bytes;
    size_t used, capacity; /* of bytes */
    gyre_piece *pieces;    /* [count], by id */
    int64_t count;
    int32_t *slots; /* [mask + 1] ids; -1 = empty */
    size_t mask;
    int64_t used_slots;
    uint64_t seed;
} gyre_vocabulary;

/* Makes a vocabulary of `count` ids, none of which is a token yet. */
gyre_status gyre_vocabulary_init(gyre_vocabulary *v, int64_t count, gyre_error *err);
void gyre_vocabulary_free(gyre_vocabulary *v);
/* Sets the bytes of a piece, not its kind.  If an earlier piece has the same bytes, lookups keep finding the earlier
 * one. */
gyre_status gyre_vocabulary_set(gyre_vocabulary *v, int32_t id, const void *bytes, size_t length, gyre_error *err);
/* out = the id of the piece with these bytes, or -1. */
int32_t gyre_vocabulary_find(const gyre_vocabulary *v, const void *bytes, size_t length);

static inline const unsigned char *gyre_piece_bytes(const gyre_vocabulary *v, int32_t id) {
    return v->bytes + v->pieces[id].bytes_offset;
}

/* 1 if merges may read or make the piece. */
static inline int gyre_piece_is_mergeable(const gyre_vocabulary *v, int32_t id) {
    return v->pieces[id].kind == GYRE_PIECE_NORMAL && v->pieces[id].is_text;
}

#endif
