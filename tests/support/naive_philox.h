/* naive_philox.h: Philox 4x32-10 word by word as in the paper (Salmon 2011, section 2.2 and table 2), and the dropout
 * decision made from it. */
#ifndef GYRE_TESTS_NAIVE_PHILOX_H
#define GYRE_TESTS_NAIVE_PHILOX_H
#include <math.h>
#include <stdint.h>

static inline void naive_philox(const uint32_t counter[4], uint64_t seed, uint32_t out[4]) {
    uint32_t l0 = counter[0], r0 = counter[1], l1 = counter[2], r1 = counter[3];
    for (uint32_t round = 0; round < 10; round++) {
        const uint32_t k0 = (uint32_t)seed + round * 0x9E3779B9u, k1 = (uint32_t)(seed >> 32) + round * 0xBB67AE85u;
        const uint64_t p0 = (uint64_t)l0 * 0xD2511F53u, p1 = (uint64_t)l1 * 0xCD9E8D57u;
        l0 = (uint32_t)(p1 >> 32) ^ r0 ^ k0;
        l1 = (uint32_t)(p0 >> 32) ^ r1 ^ k1;
        r0 = (uint32_t)p1;
        r1 = (uint32_t)p0;
    }
    out[0] = l0, out[1] = r0, out[2] = l1, out[3] = r1;
}

static inline int naive_is_kept(double chance, uint64_t seed, int64_t sequence, int64_t head, int64_t query, int64_t key) {
    const uint32_t counter[4] = {(uint32_t)(key / 4), (uint32_t)query, (uint32_t)head, (uint32_t)sequence};
    uint32_t number[4];
    naive_philox(counter, seed, number);
    return (double)number[key % 4] >= floor(chance * 4294967296.0 + 0.5);
}

#endif
