#include "tokenizer/added_trie.h"
#include "util/error.h"

#include <stdlib.h>

void gyre_added_trie_free(gyre_added_trie *added) {
    gyre_pair_map_free(&added->steps);
    free(added->ids);
    *added = (gyre_added_trie){0};
}

/* Returns 0 without memory.  0 is also the root, which is only created first. */
static uint32_t new_node(gyre_added_trie *added) {
    if (added->nodes == added->capacity) {
        const uint32_t capacity = 2 * added->capacity + 64;
        int32_t *grown = capacity > added->capacity ? realloc(added->ids, capacity * sizeof *grown) : NULL;
        if (!grown) return 0;
        added->ids = grown;
        added->capacity = capacity;
    }
    added->ids[added->nodes] = -1;
    return added->nodes++;
}

gyre_status gyre_added_trie_insert(gyre_added_trie *added, const unsigned char *bytes, size_t length, int32_t id,
                                   gyre_error *err) {
    uint32_t node = 0;
    if (added->nodes == 0) (void)new_node(added);
    if (added->nodes == 0) return gyre_fail(err, GYRE_ENOMEM, "tokenizer: no memory for added tokens");
    for (size_t i = 0; i < length; i++) {
        const gyre_pair_slot *step = gyre_pair_map_find(&added->steps, node, bytes[i]);
        const uint32_t next = step ? (uint32_t)step->value : new_node(added);
        if (next == 0 || (!step && !gyre_pair_map_set(&added->steps, node, bytes[i], 0, (int32_t)next)))
            return gyre_fail(err, GYRE_ENOMEM, "tokenizer: no memory for added tokens");
        node = next;
    }
    added->first[bytes[0]] = 1;
    added->ids[node] = id;
    return GYRE_OK;
}

int gyre_added_trie_find(const gyre_added_trie *added, const gyre_vocabulary *v, const unsigned char *text, size_t bytes,
                         size_t at, int special, gyre_added_match *found) {
    if (added->nodes == 0) return 0;
    for (; at < bytes; at++) {
        if (!added->first[text[at]]) continue;
        uint32_t node = 0;
        found->end = at;
        for (size_t i = at; i < bytes; i++) {
            const gyre_pair_slot *step = gyre_pair_map_find(&added->steps, node, text[i]);
            if (!step) break;
            node = (uint32_t)step->value;
            const int32_t id = added->ids[node];
            if (id < 0 || (!special && v->pieces[id].kind == GYRE_PIECE_SPECIAL)) continue;
            *found = (gyre_added_match){at, i + 1, id};
        }
        if (found->end > at) return 1;
    }
    return 0;
}
