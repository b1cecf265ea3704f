/* hash_mix.h: the last step of the tokenizer's hashes.
 *
 * Hash tables are seeded with the address of their slots, so that no file can be written whose entries all collide.
 * What a lookup finds never depends on the seed. */
#ifndef GYRE_TOKENIZER_HASH_MIX_H
#define GYRE_TOKENIZER_HASH_MIX_H
#include <stdint.h>

/* The finalizer of splitmix64. */
static inline uint64_t gyre_hash_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
