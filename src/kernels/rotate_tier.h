/* rotate_tier.h: rotation, written once over the vocabulary of a tier (vec_*.h) for every type and layout of pairs.
 *
 * Two products and one sum, each rounded: a rotation has the same bits in every tier, layout and way through memory.  What
 * is left of a row past its last whole vector goes through a vector on the stack, so it is computed like all others. */
#ifndef GYRE_KERNELS_ROTATE_TIER_H
#define GYRE_KERNELS_ROTATE_TIER_H
#include "kernels/tiers.h"

#include <string.h>

#define TURN_INLINE static inline __attribute__((always_inline))

enum { TURN_CHUNK = 256 }; /* pairs whose cos and sin are spread out at a time */

/* -- types ------------------------------------------------------------------------------------------------------------- */
typedef vec turn_load(const void *p);
typedef void turn_store(void *p, vec a);
/* Constants wherever it is passed on, so that all of it is inlined. */
typedef struct turn_type {
    turn_load *load;
    turn_store *store;
    int64_t size; /* bytes of an element */
} turn_type;

TURN_INLINE vec turn_load_f32(const void *p) {
    return vec_load(p);
}
TURN_INLINE void turn_store_f32(void *p, vec a) {
    vec_store(p, a);
}
TURN_INLINE vec turn_load_f16(const void *p) {
    return vec_load_f16(p);
}
TURN_INLINE void turn_store_f16(void *p, vec a) {
    vec_store_f16(p, a);
}
TURN_INLINE vec turn_load_bf16(const void *p) {
    return vec_load_bf16(p);
}
TURN_INLINE void turn_store_bf16(void *p, vec a) {
    vec_store_bf16(p, a);
}

/* The first n < LANES elements at p, zeros after them. */
TURN_INLINE vec turn_load_some(turn_type type, const char *p, int64_t n) {
    float some[LANES] = {0};
    memcpy(some, p, (size_t)(n * type.size));
    return type.load(some);
}
TURN_INLINE void turn_store_some(turn_type type, char *p, vec a, int64_t n) {
    float some[LANES];
    type.store(some, a);
    memcpy(p, some, (size_t)(n * type.size));
}
/* n >= LANES: a whole vector. */
TURN_INLINE vec turn_load_up_to(turn_type type, const char *p, int64_t n) {
    return n >= LANES ? type.load(p) : turn_load_some(type, p, n);
}
TURN_INLINE void turn_store_up_to(turn_type type, char *p, vec a, int64_t n) {
    if (n >= LANES)
        type.store(p, a);
    else if (n > 0)
        turn_store_some(type, p, a, n);
}

/* -- the turn ---------------------------------------------------------------------------------------------------------- */
TURN_INLINE void turn_pairs(vec *a, vec *b, vec c, vec s) {
    const vec x = *a, y = *b;
    *a = vec_sub(vec_mul(x, c), vec_mul(y, s));
    *b = vec_add(vec_mul(x, s), vec_mul(y, c));
}

/* Pairs of one head from `from` to `to`, n <= LANES of them at a time.  rest: 1 where n may be below LANES. */
TURN_INLINE void turn_some(turn_type type, const gyre_turns *t, const char *in, char *out, int64_t i, int64_t n, vec c,
                           vec s) {
    const int64_t half = t->pairs * type.size, at = i * type.size;
    vec a, b;
    if (t->from_half) {
        a = turn_load_up_to(type, in + at, n);
        b = turn_load_up_to(type, in + half + at, n);
    } else {
        a = turn_load_up_to(type, in + 2 * at, 2 * n);
        b = 2 * n > LANES ? turn_load_up_to(type, in + 2 * at + LANES * type.size, 2 * n - LANES) : vec_set1(0);
        vec_part(&a, &b);
    }
    turn_pairs(&a, &b, c, s);
    if (t->to_half) {
        turn_store_up_to(type, out + at, a, n);
        turn_store_up_to(type, out + half + at, b, n);
    } else {
        vec_join(&a, &b);
        turn_store_up_to(type, out + 2 * at, a, 2 * n);
        turn_store_up_to(type, out + 2 * at + LANES * type.size, b, 2 * n - LANES);
    }
}

TURN_INLINE void turn_across(turn_type type, const gyre_turns *t) {
    const vec sign = vec_set1(t->back ? -1.0f : 1.0f);
    const turn_type table = {turn_load_f32, turn_store_f32, sizeof(float)};
    const float *cosine = t->cosine, *sine = t->sine;
    const int64_t whole = t->pairs - t->pairs % LANES, rest = t->pairs - whole;
    vec c_rest = vec_set1(0), s_rest = vec_set1(0);
    if (rest) {
        c_rest = turn_load_some(table, (const char *)(cosine + whole), rest);
        s_rest = vec_mul(sign, turn_load_some(table, (const char *)(sine + whole), rest));
    }
    for (int64_t h = 0; h < t->heads; h++) {
        const char *in = (const char *)t->in + h * t->in_head * type.size;
        char *out = (char *)t->out + h * t->out_head * type.size;
        for (int64_t i = 0; i < whole; i += LANES)
            turn_some(type, t, in, out, i, LANES, vec_load(cosine + i), vec_mul(sign, vec_load(sine + i)));
        if (rest) turn_some(type, t, in, out, whole, rest, c_rest, s_rest);
    }
}

#if LANES > 1
/* cos and sin of pairs first .. first + n - 1 spread over both members: (c0 c0 c1 c1 ...), (-s0 s0 -s1 s1 ...). */
TURN_INLINE void turn_spread(const gyre_turns *t, int64_t first, int64_t n, float *c, float *s) {
    const vec sign = vec_set1(t->back ? -1.0f : 1.0f), minus = vec_set1(-1.0f);
    const turn_type table = {turn_load_f32, turn_store_f32, sizeof(float)};
    for (int64_t i = 0; i < n; i += LANES) {
        vec a = turn_load_up_to(table, (const char *)((const float *)t->cosine + first + i), n - i), b = a;
        vec_join(&a, &b);
        vec_store(c + 2 * i, a);
        vec_store(c + 2 * i + LANES, b);
        b = vec_mul(sign, turn_load_up_to(table, (const char *)((const float *)t->sine + first + i), n - i));
        a = vec_mul(minus, b);
        vec_join(&a, &b);
        vec_store(s + 2 * i, a);
        vec_store(s + 2 * i + LANES, b);
    }
}

/* Pairs that stay beside each other: each element times its cos, plus its neighbour times the sin with a sign of its own. */
TURN_INLINE void turn_beside(turn_type type, const gyre_turns *t) {
    float c[2 * TURN_CHUNK], s[2 * TURN_CHUNK];
    for (int64_t first = 0, n; first < t->pairs; first += n) {
        n = t->pairs - first < TURN_CHUNK ? t->pairs - first : TURN_CHUNK;
        turn_spread(t, first, n, c, s);
        for (int64_t h = 0; h < t->heads; h++) {
            const char *in = (const char *)t->in + (h * t->in_head + 2 * first) * type.size;
            char *out = (char *)t->out + (h * t->out_head + 2 * first) * type.size;
            int64_t i = 0;
            for (; i + LANES <= 2 * n; i += LANES) {
                const vec x = type.load(in + i * type.size);
                type.store(out + i * type.size, vec_add(vec_mul(x, vec_load(c + i)), vec_mul(vec_swap(x), vec_load(s + i))));
            }
            if (i == 2 * n) continue;
            const vec x = turn_load_some(type, in + i * type.size, 2 * n - i);
            const vec y = vec_add(vec_mul(x, vec_load(c + i)), vec_mul(vec_swap(x), vec_load(s + i)));
            turn_store_some(type, out + i * type.size, y, 2 * n - i);
        }
    }
}
#else
#define turn_beside turn_across
#endif

/* The layouts are constants in what is inlined. */
TURN_INLINE void turn_rows(turn_type type, const gyre_turns *t) {
    gyre_turns known = *t;
    if (t->from_half && t->to_half) {
        known.from_half = known.to_half = 1;
        turn_across(type, &known);
    } else if (!t->from_half && !t->to_half) {
        known.from_half = known.to_half = 0;
        turn_beside(type, &known);
    } else if (t->from_half) {
        known.from_half = 1, known.to_half = 0;
        turn_across(type, &known);
    } else {
        known.from_half = 0, known.to_half = 1;
        turn_across(type, &known);
    }
}

static void rotate_f32(const gyre_turns *t) {
    turn_rows((turn_type){turn_load_f32, turn_store_f32, 4}, t);
}
static void rotate_f16(const gyre_turns *t) {
    turn_rows((turn_type){turn_load_f16, turn_store_f16, 2}, t);
}
static void rotate_bf16(const gyre_turns *t) {
    turn_rows((turn_type){turn_load_bf16, turn_store_bf16, 2}, t);
}

/* -- f64 --------------------------------------------------------------------------------------------------------------- */
/* in == out or no overlap at all: iterations are independent either way, which `restrict` could not say. */
#if defined(__clang__)
#define INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

TURN_INLINE void turn_doubles(const gyre_turns *t, int64_t from_step, int64_t from_other, int64_t to_step,
                              int64_t to_other) {
    const double *cosine = t->cosine, *sine = t->sine, sign = t->back ? -1.0 : 1.0;
    for (int64_t h = 0; h < t->heads; h++) {
        const double *in = (const double *)t->in + h * t->in_head;
        double *out = (double *)t->out + h * t->out_head;
        INDEPENDENT_ITERATIONS
        for (int64_t i = 0; i < t->pairs; i++) {
            const double x = in[i * from_step], y = in[i * from_step + from_other], s = sign * sine[i];
            out[i * to_step] = x * cosine[i] - y * s;
            out[i * to_step + to_other] = x * s + y * cosine[i];
        }
    }
}

static void rotate_f64(const gyre_turns *t) {
    if (t->from_half && t->to_half)
        turn_doubles(t, 1, t->pairs, 1, t->pairs);
    else if (t->from_half)
        turn_doubles(t, 1, t->pairs, 2, 1);
    else if (t->to_half)
        turn_doubles(t, 2, 1, 1, t->pairs);
    else
        turn_doubles(t, 2, 1, 2, 1);
}

#endif
