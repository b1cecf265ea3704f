/* pair_map.h: a hash table from a pair of 32-bit numbers to a rank and a value. */
#ifndef GYRE_TOKENIZER_PAIR_MAP_H
#define GYRE_TOKENIZER_PAIR_MAP_H
#include <stddef.h>
#include <stdint.h>

typedef struct gyre_pair_slot {
    uint64_t key; /* left << 32 | right; UINT64_MAX = empty */
    uint32_t rank;
    int32_t value;
} gyre_pair_slot;

/* Open addressing, grown at three quarters.  All zeros is an empty map. */
typedef struct gyre_pair_map {
    gyre_pair_slot *slots; /* [mask + 1] */
    size_t mask, used_slots;
    uint64_t seed;
} gyre_pair_map;

void gyre_pair_map_free(gyre_pair_map *map);
/* Replaces the pair's entry.  Returns 0 without memory, else 1. */
int gyre_pair_map_set(gyre_pair_map *map, uint32_t left, uint32_t right, uint32_t rank, int32_t value);
/* out = the entry, or NULL. */
const gyre_pair_slot *gyre_pair_map_find(const gyre_pair_map *map, uint32_t left, uint32_t right);

#endif
