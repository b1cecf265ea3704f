/* added_trie.h: a trie of added tokens, which are found in the text as they are written. */
#ifndef GYRE_TOKENIZER_ADDED_TRIE_H
#define GYRE_TOKENIZER_ADDED_TRIE_H
#include "tokenizer/pair_map.h"
#include "tokenizer/vocabulary.h"

/* All zeros is an empty trie. */
typedef struct gyre_added_trie {
    gyre_pair_map steps; /* (node, byte) -> node; the root is node 0 */
    int32_t *ids;        /* [nodes] the token that ends at a node, or -1 */
    uint32_t nodes, capacity;
    unsigned char first[256]; /* 1: some token begins with this byte */
} gyre_added_trie;

void gyre_added_trie_free(gyre_added_trie *added);
gyre_status gyre_added_trie_insert(gyre_added_trie *added, const unsigned char *bytes, size_t length, int32_t id,
                                   gyre_error *err);

typedef struct gyre_added_match {
    size_t start, end;
    int32_t id;
} gyre_added_match;
/* Searches text[at .. bytes - 1].  Returns 1, with the leftmost token in *found, the longest that begins there, or 0.
 * special: find special tokens too. */
int gyre_added_trie_find(const gyre_added_trie *added, const gyre_vocabulary *v, const unsigned char *text, size_t bytes,
                         size_t at, int special, gyre_added_match *found);

#endif
