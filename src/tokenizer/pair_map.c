#include "tokenizer/pair_map.h"

#include "tokenizer/hash_mix.h"

#include <stdlib.h>

enum { MIN_SLOTS = 64 };

void gyre_pair_map_free(gyre_pair_map *map) {
    free(map->slots);
    *map = (gyre_pair_map){0};
}

static gyre_pair_slot *pair_slot(const gyre_pair_map *map, uint64_t key) {
    size_t slot = (size_t)gyre_hash_mix(key + map->seed) & map->mask;
    while (map->slots[slot].key != key && map->slots[slot].key != UINT64_MAX)
        slot = (slot + 1) & map->mask;
    return &map->slots[slot];
}

static int grow(gyre_pair_map *map) {
    const size_t slots = map->slots ? 2 * (map->mask + 1) : MIN_SLOTS;
    gyre_pair_map grown = {malloc(slots * sizeof *grown.slots), slots - 1, map->used_slots, 0};
    if (!grown.slots) return 0;
    for (size_t i = 0; i < slots; i++)
        grown.slots[i].key = UINT64_MAX;
    grown.seed = gyre_hash_mix((uint64_t)(uintptr_t)grown.slots);
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
