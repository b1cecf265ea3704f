/* block_state.h: the state of a block that one thread fills in and others read. */
#ifndef GYRE_CORE_BLOCK_STATE_H
#define GYRE_CORE_BLOCK_STATE_H

enum { GYRE_BLOCK_EMPTY, GYRE_BLOCK_FILLING, GYRE_BLOCK_READY };

#if __STDC_VERSION__ >= 201112L
#include <stdatomic.h>
typedef _Atomic unsigned char gyre_block_state;

static inline void gyre_block_init(gyre_block_state *state) {
    atomic_init(state, GYRE_BLOCK_EMPTY);
}
/* 1 if the caller now owns the block: it fills it in, then calls gyre_block_publish. */
static inline int gyre_block_claim(gyre_block_state *state) {
    unsigned char empty = GYRE_BLOCK_EMPTY;
    return atomic_compare_exchange_strong_explicit(state, &empty, GYRE_BLOCK_FILLING, memory_order_acquire,
                                                   memory_order_relaxed);
}
static inline void gyre_block_publish(gyre_block_state *state) {
    atomic_store_explicit(state, GYRE_BLOCK_READY, memory_order_release);
}
static inline int gyre_block_is_ready(const gyre_block_state *state) {
    return atomic_load_explicit((gyre_block_state *)state, memory_order_acquire) == GYRE_BLOCK_READY;
}
#else /* C99, as which gyre_rope.c compiles: scripts/amalgamate */
typedef unsigned char gyre_block_state;

static inline void gyre_block_init(gyre_block_state *state) {
    *state = GYRE_BLOCK_EMPTY;
}
static inline int gyre_block_claim(gyre_block_state *state) {
    unsigned char empty = GYRE_BLOCK_EMPTY;
    return __atomic_compare_exchange_n(state, &empty, GYRE_BLOCK_FILLING, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}
static inline void gyre_block_publish(gyre_block_state *state) {
    __atomic_store_n(state, GYRE_BLOCK_READY, __ATOMIC_RELEASE);
}
static inline int gyre_block_is_ready(const gyre_block_state *state) {
    return __atomic_load_n(state, __ATOMIC_ACQUIRE) == GYRE_BLOCK_READY;
}
#endif

#endif
