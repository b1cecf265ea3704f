/* tokenizer_table.c: open addressing, grown at three quarters. */
#include "tokenizer/tokenizer_table.h"

#include "files/fnv1a.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

enum { INITIAL_SLOTS = 64 };

static uint64_t mix64(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* -- pieces -- */
gyre_status gyre_vocabulary_init(gyre_rope_dialect *v, int64_t count, gyre_error *err) {
    size_t slots = INITIAL_SLOTS;
    while (slots / 2 < (size_t)count)
        slots *= 2;
    *v = (gyre_rope_dialect){.count = count, .mask = slots - 1};
    v->pieces = calloc((size_t)count + 1, sizeof *v->pieces);
    v->slots = malloc(slots * sizeof *v->slots);
    if (!v->pieces || !v->slots) {
        gyre_vocabulary_free(v);
        return gyre_fail(err, GYRE_ENOMEM, "tokenizer: no memory for %lld tokens", (long long)count);
    }
    for (size_t i = 0; i < slots; i++)
        v->slots[i] = -1;
    v->seed = mix64((uint64_t)(uintptr_t)v->slots);
    return GYRE_OK;
}

void gyre_vocabulary_free(gyre_rope_dialect *v) {
    free(v->bytes);
    free(v->pieces);
    free(v->slots);
    *v = (gyre_rope_dialect){0};
}

/* out = the slot that has these bytes, or the empty one where they belong. */
static size_t slot_of(const gyre_rope_dialect *v, const void *bytes, size_t length) {
    size_t slot = (size_t)mix64(gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS ^ v->seed, bytes, length)) & v->mask;
    for (;; slot = (slot + 1) & v->mask) {
        const int32_t id = v->slots[slot];
        if (id < 0) return slot;
        const gyre_piece *p = &v->pieces[id];
        if (p->length == length && memcmp(v->bytes + p->bytes_offset, bytes, length) == 0) return slot;
    }
}

gyre_status gyre_vocabulary_set(gyre_rope_dialect *v, int32_t id, const void *bytes, size_t length, gyre_error *err) {
    if (length > UINT32_MAX / 2) return gyre_fail(err, GYRE_EFORMAT, "a token of %zu bytes", length);
    if (v->room - v->used < length || !v->bytes) {
        const size_t room = 2 * v->room + length + 4096;
        unsigned char *grown = realloc(v->bytes, room);
        if (!grown) return gyre_fail(err, GYRE_ENOMEM, "tokenizer: no memory for its tokens");
        v->bytes = grown;
        v->room = room;
    }
    memcpy(v->bytes + v->used, bytes, length);
    v->pieces[id].bytes_offset = v->used;
    v->pieces[id].length = (uint32_t)length;
    v->used += length;
    const size_t slot = slot_of(v, bytes, length);
    if (v->slots[slot] < 0 && (size_t)v->used_slots < v->mask / 8 * 7) {
        v->slots[slot] = id;
        v->used_slots++;
    }
    return GYRE_OK;
}

int32_t gyre_vocabulary_find(const gyre_rope_dialect *v, const void *bytes, size_t length) {
    return v->slots[slot_of(v, bytes, length)];
}

/* -- pairs -- */
void gyre_pair_map_free(gyre_pair_map *map) {
    free(map->slots);
    *map = (gyre_pair_map){0};
}

static gyre_pair_slot *pair_slot(const gyre_pair_map *map, uint64_t key) {
    size_t slot = (size_t)mix64(key + map->seed) & map->mask;
    while (map->slots[slot].key != key && map->slots[slot].key != UINT64_MAX)
        slot = (slot + 1) & map->mask;
    return &map->slots[slot];
}

static int grow(gyre_pair_map *map) {
    const size_t slots = map->slots ? 2 * (map->mask + 1) : INITIAL_SLOTS;
    gyre_pair_map grown = {malloc(slots * sizeof *grown.slots), slots - 1, map->used_slots, 0};
    if (!grown.slots) return 0;
    for (size_t i = 0; i < slots; i++)
        grown.slots[i].key = UINT64_MAX;
    grown.seed = mix64((uint64_t)(uintptr_t)grown.slots);
    for (size_t i = 0; map->slots && i <= map->mask; i++)
        if (map->slots[i].key != UINT64_MAX) *pair_slot(&grown, map->slots[i].key) = map->slots[i];
    free(map->slots);
    *map = grown;
    return 1;
}

int gyre_pair_map_set(gyre_pair_map *map, uint32_t left, uint32_t right, uint32_t rank, int32_t value) {
    const uint64_t key = (uint64_t)left << 32 | right;
    if ((!map->slots || map->used_slots >= (map->mask + 1) / 4 * 3) && !grow(map)) return 0;
    gyre_pair_slot *slot = pair_slot(map, key);
    map->used_slots += slot->key == UINT64_MAX;
    *slot = (gyre_pair_slot){key, rank, value};
    return 1;
}

const gyre_pair_slot *gyre_pair_map_find(const gyre_pair_map *map, uint32_t left, uint32_t right) {
    if (!map->slots) return NULL;
    const gyre_pair_slot *slot = pair_slot(map, (uint64_t)left << 32 | right);
    return slot->key == UINT64_MAX ? NULL : slot;
}

/* -- added tokens -- */
void gyre_added_trie_free(gyre_added_trie *added) {
    gyre_pair_map_free(&added->steps);
    free(added->ids);
    *added = (gyre_added_trie){0};
}

/* out = a new node, or 0 without memory (the root is never new, but first). */
static uint32_t new_node(gyre_added_trie *added) {
    if (added->nodes == added->room) {
        const uint32_t room = 2 * added->room + 64;
        int32_t *grown = room > added->room ? realloc(added->ids, room * sizeof *grown) : NULL;
        if (!grown) return 0;
        added->ids = grown;
        added->room = room;
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

int gyre_added_trie_find(const gyre_added_trie *added, const gyre_rope_dialect *v, const unsigned char *text, size_t bytes,
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
