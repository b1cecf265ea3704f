/* scratch_bytes.h: the bytes of scratch of a call; 0 where it is refused. */
#ifndef GYRE_TESTS_SCRATCH_BYTES_H
#define GYRE_TESTS_SCRATCH_BYTES_H
#include "gyre/gyre_adaptive.h"
#include "gyre/gyre_contextual.h"
#include "gyre/gyre_ring.h"

static inline size_t adaptive_scratch(const gyre_adaptive_args *args, int gradient, const gyre_exec *exec) {
    size_t bytes = 0;
    return gyre_adaptive_scratch(args, gradient, exec, &bytes, NULL) ? 0 : bytes;
}

static inline size_t contextual_scratch(const gyre_contextual_args *args, int gradient, const gyre_exec *exec) {
    size_t bytes = 0;
    return gyre_contextual_scratch(args, gradient, exec, &bytes, NULL) ? 0 : bytes;
}

static inline size_t cache_adaptive_scratch(const gyre_cache *cache, const int64_t *sequences,
                                            const gyre_adaptive_args *args, const gyre_exec *exec) {
    size_t bytes = 0;
    return gyre_cache_adaptive_scratch(cache, sequences, args, exec, &bytes, NULL) ? 0 : bytes;
}

static inline size_t cache_contextual_scratch(const gyre_cache *cache, const int64_t *sequences,
                                              const gyre_contextual_args *args, const gyre_exec *exec) {
    size_t bytes = 0;
    return gyre_cache_contextual_scratch(cache, sequences, args, exec, &bytes, NULL) ? 0 : bytes;
}

static inline size_t ring_scratch(const gyre_ring_args *args, int gradient, const gyre_exec *exec) {
    size_t bytes = 0;
    return gyre_ring_scratch(args, gradient, exec, &bytes, NULL) ? 0 : bytes;
}

static inline size_t ring_merge_scratch(const gyre_ring_merge_args *args) {
    size_t bytes = 0;
    return gyre_ring_merge_scratch(args, &bytes, NULL) ? 0 : bytes;
}

#endif
