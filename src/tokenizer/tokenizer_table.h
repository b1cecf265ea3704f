/* tokenizer_table.h: pieces by their bytes, pairs by their numbers, and a tree of the tokens that stand in text as they are.
 *
 * Hashes are seeded with where a table lies, so that no file can be written whose pieces all collide; nothing that is found
 * depends on the seed. */
#ifndef GYRE_MODEL_TOKENIZER_TABLE_H
#define GYRE_MODEL_TOKENIZER_TABLE_H
#include "gyre/gyre.h"

typedef enum gyre_piece_kind {
    GYRE_PIECE_NONE,   /* no token has this id */
    GYRE_PIECE_NORMAL, /* what characters are merged into */
    GYRE_PIECE_BYTE,   /* "<0x0A>": a byte */
    GYRE_PIECE_ADDED,  /* found in text before anything else */
    GYRE_PIECE_SPECIAL /* stands for no text */
} gyre_piece_kind;

typedef struct gyre_piece {
    size_t bytes_offset; /* of its bytes */
    uint32_t length;
    unsigned char kind, byte;
    unsigned char is_text; /* 0: written with characters that text never has here, so nothing is merged into it */
    unsigned char strips;  /* 1: white space before it goes with it, 2: after it, 3: both */
} gyre_piece;

typedef struct gyre_vocabulary {
    unsigned char *bytes;
    size_t used, room;
    gyre_piece *pieces; /* [count], by id */
    int64_t count;
    int32_t *slots; /* [mask + 1] ids; -1: empty */
    size_t mask;
    int64_t used_slots; /* slots that are taken */
    uint64_t seed;
} gyre_vocabulary;

/* All ids below count, none a token yet. */
gyre_status gyre_vocabulary_init(gyre_vocabulary *v, int64_t count, gyre_error *err);
void gyre_vocabulary_free(gyre_vocabulary *v);
/* The token's bytes.  Where another has the same, that stays the one that is found.  Its kind is left as it is. */
gyre_status gyre_vocabulary_set(gyre_vocabulary *v, int32_t id, const void *bytes, size_t length, gyre_error *err);
/* out = the id, or -1. */
int32_t gyre_vocabulary_find(const gyre_vocabulary *v, const void *bytes, size_t length);
static inline const unsigned char *gyre_piece_bytes(const gyre_vocabulary *v, int32_t id) {
    return v->bytes + v->pieces[id].bytes_offset;
}

/* From a pair of numbers to another. */
typedef struct gyre_pair_slot {
    uint64_t key; /* UINT64_MAX: empty */
    uint32_t rank;
    int32_t value;
} gyre_pair_slot;
typedef struct gyre_pair_map {
    gyre_pair_slot *slots;
    size_t mask, used_slots;
    uint64_t seed;
} gyre_pair_map;
void gyre_pair_map_free(gyre_pair_map *map);
/* Replaces what the pair had.  out = 0 without memory. */
int gyre_pair_map_set(gyre_pair_map *map, uint32_t left, uint32_t right, uint32_t rank, int32_t value);
/* out = NULL where there is none. */
const gyre_pair_slot *gyre_pair_map_find(const gyre_pair_map *map, uint32_t left, uint32_t right);

/* A tree of added tokens, a byte a step. */
typedef struct gyre_added_trie {
    gyre_pair_map steps; /* node, byte: node */
    int32_t *ids;        /* [nodes] of the token that ends there; -1 */
    uint32_t nodes, room;
    unsigned char first[256]; /* 1: some token begins with it */
} gyre_added_trie;
void gyre_added_trie_free(gyre_added_trie *added);
gyre_status gyre_added_trie_insert(gyre_added_trie *added, const unsigned char *bytes, size_t length, int32_t id,
                                   gyre_error *err);
typedef struct gyre_added_match {
    size_t start, end;
    int32_t id;
} gyre_added_match;
/* out = 1 and *found = the first place from `at` on where a token stands, the longest there; special: those too. */
int gyre_added_trie_find(const gyre_added_trie *added, const gyre_vocabulary *v, const unsigned char *text, size_t bytes,
                         size_t at, int special, gyre_added_match *found);

#endif
