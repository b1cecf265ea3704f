/* row_tier.h: rows of f32, f16 and bf16 as vectors of a tier's vocabulary (vec_*.h), whole or in part.
 *
 * The rest of a row past its last whole vector goes through a vector on the stack and the same operations. */
#ifndef GYRE_KERNELS_ROW_TIER_H
#define GYRE_KERNELS_ROW_TIER_H
#include "kernels/tier_names.h"

#include <stdint.h>
#include <string.h>

#define TIER_INLINE static inline __attribute__((always_inline))

#if defined(__clang__)
#define TIER_UNROLL _Pragma("unroll")
#else
#define TIER_UNROLL _Pragma("GCC unroll 16")
#endif

/* -- reading ahead -- */
/* A line of 16-bit numbers takes several times the instructions of a line of floats, so the window in which a processor runs
 * ahead covers too few lines of them.  On Intel's processors a prefetch for each line mends that, best into the second-level
 * cache; AMD's are faster without (docs/performance.md). */
enum { READ_AHEAD_BYTES = 8192, READ_LINE_BYTES = 64 };
static inline int is_intel(void) {
#if defined(__x86_64__)
    return __builtin_cpu_is("intel") != 0;
#else
    return 0;
#endif
}
/* out = how far ahead to prefetch, in bytes; 0 = not at all. */
static inline int64_t read_ahead(void) {
    return is_intel() ? READ_AHEAD_BYTES : 0;
}
/* The memory need not exist: a prefetch never faults. */
TIER_INLINE void prefetch_ahead(const void *at, int64_t ahead) {
#if defined(__GNUC__)
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): it may be past the end */
    if (ahead) __builtin_prefetch((const char *)((uintptr_t)at + (uintptr_t)ahead), 0, 2);
#else
    (void)at, (void)ahead;
#endif
}
/* near: into the first-level cache, otherwise into the second-level one.  The memory need not exist either. */
TIER_INLINE void prefetch_line(const void *at, int near) {
#if defined(__GNUC__)
    if (near)
        __builtin_prefetch(at, 0, 3);
    else
        __builtin_prefetch(at, 0, 2);
#else
    (void)at, (void)near;
#endif
}

/* -- types -- */
typedef vec load_function(const void *p);
typedef void store_function(void *p, vec a);
/* Always passed as a constant, so that the calls are inlined. */
typedef struct elem_type {
    load_function *load;
    store_function *store;
    int64_t size; /* bytes of an element */
} elem_type;

static inline vec load_f32(const void *p) {
    return vec_load(p);
}
static inline void store_f32(void *p, vec a) {
    vec_store(p, a);
}
#ifndef VEC_STREAM /* no such store, or not measured */
#define VEC_STREAM     0
#define vec_stream     vec_store
#define vec_stream_f16 vec_store_f16
static inline void vec_stream_end(void) {}
#endif
static inline void stream_f32(void *p, vec a) {
    vec_stream(p, a);
}
static inline void stream_f16(void *p, vec a) {
    vec_stream_f16(p, a);
}
static inline vec load_f16(const void *p) {
    return vec_load_f16(p);
}
static inline void store_f16(void *p, vec a) {
    vec_store_f16(p, a);
}
static inline vec load_bf16(const void *p) {
    return vec_load_bf16(p);
}
static inline void store_bf16(void *p, vec a) {
    vec_store_bf16(p, a);
}

/* The first n < LANES elements at p, zeros after them. */
TIER_INLINE vec load_partial(elem_type type, const char *p, int64_t n) {
#ifdef VEC_LOAD_FIRST /* the copy below would be read before it is written through */
    if (type.load == load_f32) return n > 0 ? vec_load_first(p, n) : vec_set1(0);
#endif
#ifdef VEC_LOAD_FIRST_16
    if (type.load == load_f16) return n > 0 ? vec_load_first_f16(p, n) : vec_set1(0);
    if (type.load == load_bf16) return n > 0 ? vec_load_first_bf16(p, n) : vec_set1(0);
#endif
    float some[LANES] = {0};
    if (n > 0) memcpy(some, p, (size_t)(n * type.size));
    return type.load(some);
}
TIER_INLINE void store_partial(elem_type type, char *p, vec a, int64_t n) {
#ifdef VEC_LOAD_FIRST
    if (type.store == store_f32) {
        if (n > 0) vec_store_first(p, a, n);
        return;
    }
#endif
    float some[LANES];
    type.store(some, a);
    if (n > 0) memcpy(p, some, (size_t)(n * type.size));
}
/* load_partial and store_partial for any n: whole vectors if n >= LANES. */
TIER_INLINE vec load_up_to(elem_type type, const char *p, int64_t n) {
#ifdef VEC_LOAD_PARTS
    if (type.load == load_f32 && n == LANES / 2) return vec_load_half(p);
    if (type.load == load_f32 && n == LANES / 4) return vec_load_quarter(p);
#endif
    return n >= LANES ? type.load(p) : load_partial(type, p, n);
}
TIER_INLINE void store_up_to(elem_type type, char *p, vec a, int64_t n) {
#ifdef VEC_LOAD_PARTS
    if (type.store == store_f32 && n == LANES / 2) {
        vec_store_half(p, a);
        return;
    }
    if (type.store == store_f32 && n == LANES / 4) {
        vec_store_quarter(p, a);
        return;
    }
#endif
    if (n >= LANES)
        type.store(p, a);
    else if (n > 0)
        store_partial(type, p, a, n);
}

#endif
