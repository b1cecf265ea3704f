/* rotate_tier.h: rotation and addition, written once over the vocabulary of a tier (vec_*.h) for every type and layout of
 * pairs.
 *
 * What is left of a row past its last whole vector goes through a vector on the stack, so it is computed like all others,
 * and a rotation has the same bits in every layout and by every way through memory. */
#ifndef GYRE_KERNELS_ROTATE_TIER_H
#define GYRE_KERNELS_ROTATE_TIER_H
#include "kernels/tiers.h"

#include <string.h>

#define TURN_INLINE static inline __attribute__((always_inline))

#if defined(__clang__)
#define TURN_UNROLL _Pragma("unroll")
#else
#define TURN_UNROLL _Pragma("GCC unroll 16")
#endif

/* -- types ------------------------------------------------------------------------------------------------------------- */
typedef vec turn_load(const void *p);
typedef void turn_store(void *p, vec a);
/* Constants wherever it is passed on, so that all of it is inlined. */
typedef struct turn_type {
    turn_load *load;
    turn_store *store;
    int64_t size; /* bytes of an element */
} turn_type;

static inline vec turn_load_f32(const void *p) {
    return vec_load(p);
}
static inline void turn_store_f32(void *p, vec a) {
    vec_store(p, a);
}
static inline vec turn_load_f16(const void *p) {
    return vec_load_f16(p);
}
static inline void turn_store_f16(void *p, vec a) {
    vec_store_f16(p, a);
}
static inline vec turn_load_bf16(const void *p) {
    return vec_load_bf16(p);
}
static inline void turn_store_bf16(void *p, vec a) {
    vec_store_bf16(p, a);
}

/* The first n < LANES elements at p, zeros after them. */
TURN_INLINE vec turn_load_some(turn_type type, const char *p, int64_t n) {
    float some[LANES] = {0};
    if (n > 0) memcpy(some, p, (size_t)(n * type.size));
    return type.load(some);
}
TURN_INLINE void turn_store_some(turn_type type, char *p, vec a, int64_t n) {
    float some[LANES];
    type.store(some, a);
    if (n > 0) memcpy(p, some, (size_t)(n * type.size));
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
/* cos and sin of some pairs; minus = -sin.  Back, the two change places. */
typedef struct turn_angles {
    vec c, s, minus;
} turn_angles;

/* Two roundings and a fused product, the same in every layout: (x c - y s, y c + x s). */
TURN_INLINE void turn_pairs(vec *a, vec *b, const turn_angles *k) {
    const vec x = vec_held(*a), y = vec_held(*b);
    *a = vec_fma(x, k->c, vec_mul(y, k->minus));
    *b = vec_fma(y, k->c, vec_mul(x, k->s));
}

/* Of pairs i .. i + n - 1, n <= LANES. */
TURN_INLINE turn_angles angles_at(const gyre_turns *t, int64_t i, int64_t n) {
    const turn_type table = {turn_load_f32, turn_store_f32, sizeof(float)};
    const vec s = turn_load_up_to(table, (const char *)((const float *)t->sine + i), n), minus = vec_mul(vec_set1(-1), s);
    const vec c = turn_load_up_to(table, (const char *)((const float *)t->cosine + i), n);
    return t->back ? (turn_angles){c, minus, s} : (turn_angles){c, s, minus};
}

TURN_INLINE const char *head_in(const gyre_turns *t, turn_type type, int64_t h) {
    return (const char *)t->in + h * t->in_head * type.size;
}
TURN_INLINE char *head_out(const gyre_turns *t, turn_type type, int64_t h) {
    return (char *)t->out + h * t->out_head * type.size;
}

/* Pairs i .. i + n - 1 of a head, n <= LANES, from any layout to any. */
TURN_INLINE void turn_some(turn_type type, const gyre_turns *t, const char *in, char *out, int64_t i, int64_t n,
                           const turn_angles *k) {
    const int64_t half = t->pairs * type.size, at = i * type.size, second = LANES * type.size;
    vec a, b;
    if (t->from_half) {
        a = turn_load_up_to(type, in + at, n);
        b = turn_load_up_to(type, in + half + at, n);
    } else {
        a = turn_load_up_to(type, in + 2 * at, 2 * n);
        b = 2 * n > LANES ? turn_load_up_to(type, in + 2 * at + second, 2 * n - LANES) : vec_set1(0);
        vec_part(&a, &b);
    }
    turn_pairs(&a, &b, k);
    if (t->to_half) {
        turn_store_up_to(type, out + at, a, n);
        turn_store_up_to(type, out + half + at, b, n);
    } else {
        vec_join(&a, &b);
        turn_store_up_to(type, out + 2 * at, a, 2 * n);
        turn_store_up_to(type, out + 2 * at + second, b, 2 * n - LANES);
    }
}

/* Pairs from `first` on within a layout, a vector of all heads at a time. */
TURN_INLINE void turn_rest(turn_type type, const gyre_turns *t, int64_t first) {
    for (int64_t i = first, n; i < t->pairs; i += n) {
        n = t->pairs - i < LANES ? t->pairs - i : LANES;
        const turn_angles k = angles_at(t, i, n);
        for (int64_t h = 0; h < t->heads; h++)
            turn_some(type, t, head_in(t, type, h), head_out(t, type, h), i, n, &k);
    }
}

/* From one layout to the other, pairs from `first` on, head by head; in place, through a copy on the stack. */
TURN_INLINE void turn_across(turn_type type, const gyre_turns *t, int64_t first) {
    char copy[2 * GYRE_TURN_PAIRS * 4];
    for (int64_t h = 0; h < t->heads && first < t->pairs; h++) {
        const char *in = head_in(t, type, h);
        int64_t i = first;
        if (t->in == t->out) in = memcpy(copy, in, (size_t)(2 * t->pairs * type.size));
        for (; i + LANES <= t->pairs; i += LANES) {
            const turn_angles k = angles_at(t, i, LANES);
            turn_some(type, t, in, head_out(t, type, h), i, LANES, &k);
        }
        if (i == t->pairs) continue;
        const turn_angles k = angles_at(t, i, t->pairs - i);
        turn_some(type, t, in, head_out(t, type, h), i, t->pairs - i, &k);
    }
}

#if LANES > 1
/* The same from half to half, TURN_BLOCK vectors of angles in registers while all heads go by; out = pairs done. */
TURN_INLINE int64_t turn_halves(turn_type type, const gyre_turns *t) {
    const int64_t block = TURN_BLOCK * LANES, half = t->pairs * type.size;
    int64_t i = 0;
    for (; i + block <= t->pairs; i += block) {
        turn_angles k[TURN_BLOCK];
        TURN_UNROLL
        for (int v = 0; v < TURN_BLOCK; v++)
            k[v] = angles_at(t, i + v * LANES, LANES);
        for (int64_t h = 0; h < t->heads; h++) {
            const char *in = head_in(t, type, h) + i * type.size;
            char *out = head_out(t, type, h) + i * type.size;
            TURN_UNROLL
            for (int v = 0; v < TURN_BLOCK; v++) {
                vec a = type.load(in + v * LANES * type.size), b = type.load(in + half + v * LANES * type.size);
                turn_pairs(&a, &b, &k[v]);
                type.store(out + v * LANES * type.size, a);
                type.store(out + half + v * LANES * type.size, b);
            }
        }
    }
    return i;
}

/* From one layout to the other, likewise: all of a block is read before any is written, so in place the block must be the
 * whole head.  out = pairs done. */
TURN_INLINE int64_t turn_apart(turn_type type, const gyre_turns *t) {
    const int64_t block = TURN_APART * LANES, half = t->pairs * type.size, vector = LANES * type.size;
    int64_t i = 0;
    if (t->in == t->out && t->pairs != block) return 0;
    for (; i + block <= t->pairs; i += block) {
        turn_angles k[TURN_APART];
        TURN_UNROLL
        for (int v = 0; v < TURN_APART; v++)
            k[v] = angles_at(t, i + v * LANES, LANES);
        for (int64_t h = 0; h < t->heads; h++) {
            const char *in = head_in(t, type, h) + (t->from_half ? 1 : 2) * i * type.size;
            char *out = head_out(t, type, h) + (t->to_half ? 1 : 2) * i * type.size;
            vec a[TURN_APART], b[TURN_APART];
            TURN_UNROLL
            for (int v = 0; v < TURN_APART; v++) {
                a[v] = type.load(in + (t->from_half ? v : 2 * v) * vector);
                b[v] = type.load(t->from_half ? in + half + v * vector : in + (2 * v + 1) * vector);
                if (!t->from_half) vec_part(&a[v], &b[v]);
                turn_pairs(&a[v], &b[v], &k[v]);
                if (!t->to_half) vec_join(&a[v], &b[v]);
            }
            TURN_UNROLL
            for (int v = 0; v < TURN_APART; v++) {
                type.store(out + (t->to_half ? v : 2 * v) * vector, a[v]);
                type.store(t->to_half ? out + half + v * vector : out + (2 * v + 1) * vector, b[v]);
            }
        }
    }
    return i;
}

/* Pairs that stay beside each other: each element times its cos, plus its neighbour times the sin with a sign of its own:
 * (c0 c0 c1 c1 ...), (-s0 s0 -s1 s1 ...).  out = pairs done. */
TURN_INLINE int64_t turn_beside(turn_type type, const gyre_turns *t) {
    const int64_t block = TURN_BESIDE * LANES / 2;
    int64_t i = 0;
    for (; i + block <= t->pairs; i += block) {
        vec c[TURN_BESIDE], s[TURN_BESIDE];
        TURN_UNROLL
        for (int v = 0; v < TURN_BESIDE; v += 2) {
            const turn_angles k = angles_at(t, i + v * LANES / 2, LANES);
            c[v] = c[v + 1] = k.c;
            s[v] = k.minus;
            s[v + 1] = k.s;
            vec_join(&c[v], &c[v + 1]);
            vec_join(&s[v], &s[v + 1]);
        }
        for (int64_t h = 0; h < t->heads; h++) {
            const char *in = head_in(t, type, h) + 2 * i * type.size;
            char *out = head_out(t, type, h) + 2 * i * type.size;
            TURN_UNROLL
            for (int v = 0; v < TURN_BESIDE; v++) {
                const vec x = vec_held(type.load(in + v * LANES * type.size));
                type.store(out + v * LANES * type.size, vec_fma(x, c[v], vec_mul(vec_swap(x), s[v])));
            }
        }
    }
    return i;
}

/* bf16: 2 LANES elements at a time, in their order, or those at even places and those at odd ones. */
#ifndef VEC_ROWS_BF16
static inline void vec_load_row_bf16(const uint16_t *p, vec *a, vec *b) {
    *a = vec_load_bf16(p);
    *b = vec_load_bf16(p + LANES);
}
static inline void vec_store_row_bf16(uint16_t *p, vec a, vec b) {
    vec_store_bf16(p, a);
    vec_store_bf16(p + LANES, b);
}
#endif
#ifndef VEC_STORE_ROWS_BF16
/* n of them (constant) to p[i], in turn (a[i] at even places) or one after the other. */
TURN_INLINE void vec_store_rows_bf16(uint16_t *const *p, const vec *a, const vec *b, int n, int in_turn) {
    TURN_UNROLL
    for (int i = 0; i < n; i++)
        (in_turn ? vec_store_two_bf16 : vec_store_row_bf16)(p[i], a[i], b[i]);
}
#endif

/* Pairs i on of a head, two vectors of angles and at_once (constant, even) in all.  All of it is read before any is
 * written.  From half to half the angles are dealt out to even and odd places as the elements are. */
TURN_INLINE void turn_brain_head(const gyre_turns *t, const uint16_t *in, uint16_t *out, const turn_angles *k, int at_once) {
    uint16_t *to[TURN_APART];
    vec a[TURN_APART], b[TURN_APART];
    TURN_UNROLL
    for (int v = 0; v < at_once; v += 2) {
        const int64_t i = v * LANES, j = t->pairs + i;
        if (!t->from_half) {
            vec_load_two_bf16(in + 2 * i, &a[v], &a[v + 1]);
            vec_load_two_bf16(in + 2 * (i + LANES), &b[v], &b[v + 1]);
        } else {
            (t->to_half ? vec_load_two_bf16 : vec_load_row_bf16)(in + i, &a[v], &b[v]);
            (t->to_half ? vec_load_two_bf16 : vec_load_row_bf16)(in + j, &a[v + 1], &b[v + 1]);
        }
        turn_pairs(&a[v], &a[v + 1], &k[v]);
        turn_pairs(&b[v], &b[v + 1], &k[v + 1]);
        to[v] = out + (t->to_half ? i : 2 * i);
        to[v + 1] = out + (t->to_half ? j : 2 * (i + LANES));
        if (t->to_half) continue;
        const vec odd = a[v + 1];
        a[v + 1] = b[v];
        b[v] = odd;
    }
    vec_store_rows_bf16(to, a, b, at_once, t->from_half || !t->to_half);
}

TURN_INLINE void deal_angles(turn_angles *k, int n) {
    TURN_UNROLL
    for (int v = 0; v < n; v += 2) {
        vec_part(&k[v].c, &k[v + 1].c);
        vec_part(&k[v].s, &k[v + 1].s);
        vec_part(&k[v].minus, &k[v + 1].minus);
    }
}

/* From any layout to any; in place from one to the other, the block must be the whole head.  out = pairs done. */
TURN_INLINE int64_t turn_brains(const gyre_turns *t, int at_once) {
    const int64_t block = at_once * LANES;
    int64_t i = 0;
    if (t->from_half != t->to_half && t->in == t->out && t->pairs != block) return 0;
    for (; i + block <= t->pairs; i += block) {
        turn_angles k[TURN_APART];
        TURN_UNROLL
        for (int v = 0; v < at_once; v++)
            k[v] = angles_at(t, i + v * LANES, LANES);
        if (t->from_half && t->to_half) deal_angles(k, at_once);
        for (int64_t h = 0; h < t->heads; h++)
            turn_brain_head(t, (const uint16_t *)t->in + h * t->in_head + (t->from_half ? i : 2 * i),
                            (uint16_t *)t->out + h * t->out_head + (t->to_half ? i : 2 * i), k, at_once);
    }
    return i;
}
#else
#define turn_halves(type, t)    0
#define turn_apart(type, t)     0
#define turn_beside(type, t)    0
#define turn_brains(t, at_once) 0
#endif

/* The layouts are constants in what is inlined. */
TURN_INLINE void turn_rows(turn_type type, int brain, const gyre_turns *t) {
    gyre_turns known = *t;
    if (t->from_half && t->to_half) {
        known.from_half = known.to_half = 1;
        /* NOLINTNEXTLINE(bugprone-branch-clone): one lane has neither */
        turn_rest(type, &known, brain ? turn_brains(&known, TURN_BLOCK) : turn_halves(type, &known));
    } else if (!t->from_half && !t->to_half) {
        known.from_half = known.to_half = 0;
        /* NOLINTNEXTLINE(bugprone-branch-clone): one lane has neither */
        turn_rest(type, &known, brain ? turn_brains(&known, TURN_BLOCK) : turn_beside(type, &known));
    } else if (t->from_half) {
        known.from_half = 1, known.to_half = 0;
        /* NOLINTNEXTLINE(bugprone-branch-clone): one lane has neither */
        turn_across(type, &known, brain ? turn_brains(&known, TURN_APART) : turn_apart(type, &known));
    } else {
        known.from_half = 0, known.to_half = 1;
        /* NOLINTNEXTLINE(bugprone-branch-clone): one lane has neither */
        turn_across(type, &known, brain ? turn_brains(&known, TURN_APART) : turn_apart(type, &known));
    }
}

static void rotate_f32(const gyre_turns *t) {
    turn_rows((turn_type){turn_load_f32, turn_store_f32, 4}, 0, t);
}
static void rotate_f16(const gyre_turns *t) {
    turn_rows((turn_type){turn_load_f16, turn_store_f16, 2}, 0, t);
}
static void rotate_bf16(const gyre_turns *t) {
    turn_rows((turn_type){turn_load_bf16, turn_store_bf16, 2}, 1, t);
}

TURN_INLINE void turn_rows_within(const gyre_row_turns *job, int half) {
    const turn_type type = {turn_load_f32, turn_store_f32, 4};
    gyre_turns t = {.heads = 1, .pairs = job->pairs, .from_half = half, .to_half = half, .back = job->back};
    for (int64_t r = 0; r < job->rows; r++) {
        char *x = (char *)(job->x + r * job->stride);
        int64_t i = 0;
        t.cosine = job->angles + 2 * r * job->pairs;
        t.sine = (const float *)t.cosine + job->pairs;
        for (; i + LANES <= job->pairs; i += LANES) {
            const turn_angles k = angles_at(&t, i, LANES);
            turn_some(type, &t, x, x, i, LANES, &k);
        }
        if (i == job->pairs) continue;
        const turn_angles k = angles_at(&t, i, job->pairs - i);
        turn_some(type, &t, x, x, i, job->pairs - i, &k);
    }
}
static void turn_rows_f32(const gyre_row_turns *job) {
    if (job->half)
        turn_rows_within(job, 1);
    else
        turn_rows_within(job, 0);
}

/* -- adding ------------------------------------------------------------------------------------------------------------ */
TURN_INLINE void add_row(turn_type type, const void *in, void *out, const float *row, int64_t n) {
    const turn_type table = {turn_load_f32, turn_store_f32, sizeof(float)};
    const char *from = in;
    char *to = out;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        type.store(to + i * type.size, vec_add(type.load(from + i * type.size), vec_load(row + i)));
    if (i >= n) return;
    const vec sum =
        vec_add(turn_load_some(type, from + i * type.size, n - i), turn_load_some(table, (const char *)(row + i), n - i));
    turn_store_some(type, to + i * type.size, sum, n - i);
}

static void add_f32(const void *in, void *out, const float *row, int64_t n) {
    add_row((turn_type){turn_load_f32, turn_store_f32, 4}, in, out, row, n);
}
static void add_f16(const void *in, void *out, const float *row, int64_t n) {
    add_row((turn_type){turn_load_f16, turn_store_f16, 2}, in, out, row, n);
}
static void add_bf16(const void *in, void *out, const float *row, int64_t n) {
    add_row((turn_type){turn_load_bf16, turn_store_bf16, 2}, in, out, row, n);
}

/* -- f64 --------------------------------------------------------------------------------------------------------------- */
/* The same by vectors of WIDE_LANES doubles.  (Written as plain C, GCC 12 fuses some of the products and not others,
 * whatever -ffp-contract says.) */
TURN_INLINE wide wide_load_up_to(const double *p, int64_t n) {
    double some[WIDE_LANES] = {0};
    if (n >= WIDE_LANES) return wide_load(p);
    if (n > 0) memcpy(some, p, (size_t)n * sizeof *p);
    return wide_load(some);
}
TURN_INLINE void wide_store_up_to(double *p, wide a, int64_t n) {
    double some[WIDE_LANES];
    wide_store(n >= WIDE_LANES ? p : some, a);
    if (n > 0 && n < WIDE_LANES) memcpy(p, some, (size_t)n * sizeof *p);
}

typedef struct wide_angles {
    wide c, s, minus;
} wide_angles;

TURN_INLINE wide_angles wide_angles_at(const gyre_turns *t, int64_t i, int64_t n) {
    const wide s = wide_load_up_to((const double *)t->sine + i, n), minus = wide_mul(wide_set1(-1), s);
    const wide c = wide_load_up_to((const double *)t->cosine + i, n);
    return t->back ? (wide_angles){c, minus, s} : (wide_angles){c, s, minus};
}

/* Pairs i .. i + n - 1, n <= WIDE_LANES, from any layout and to any. */
TURN_INLINE void wide_read(const gyre_turns *t, const double *in, int64_t i, int64_t n, wide *a, wide *b) {
    if (t->from_half) {
        *a = wide_load_up_to(in + i, n);
        *b = wide_load_up_to(in + t->pairs + i, n);
    } else {
        *a = wide_load_up_to(in + 2 * i, 2 * n);
        *b = wide_load_up_to(in + 2 * i + WIDE_LANES, 2 * n - WIDE_LANES);
        wide_part(a, b);
    }
}
TURN_INLINE void wide_write(const gyre_turns *t, double *out, int64_t i, int64_t n, wide x, wide y) {
    if (t->to_half) {
        wide_store_up_to(out + i, x, n);
        wide_store_up_to(out + t->pairs + i, y, n);
    } else {
        wide_join(&x, &y);
        wide_store_up_to(out + 2 * i, x, 2 * n);
        wide_store_up_to(out + 2 * i + WIDE_LANES, y, 2 * n - WIDE_LANES);
    }
}
TURN_INLINE void wide_pairs(wide *a, wide *b, const wide_angles *k) {
    const wide x = wide_held(*a), y = wide_held(*b);
    *a = wide_fma(x, k->c, wide_mul(y, k->minus));
    *b = wide_fma(y, k->c, wide_mul(x, k->s));
}
TURN_INLINE void turn_wide(const gyre_turns *t, const double *in, double *out, int64_t i, int64_t n, const wide_angles *k) {
    wide a, b;
    wide_read(t, in, i, n, &a, &b);
    wide_pairs(&a, &b, k);
    wide_write(t, out, i, n, a, b);
}

/* Angles of a few vectors in registers while all heads go by: at_once (constant, at most 8) of them. */
TURN_INLINE void turn_doubles(const gyre_turns *t, int at_once, int64_t first) {
    int64_t i = first;
    for (; i + at_once * WIDE_LANES <= t->pairs; i += at_once * WIDE_LANES) {
        wide_angles k[8];
        TURN_UNROLL
        for (int v = 0; v < at_once; v++)
            k[v] = wide_angles_at(t, i + v * WIDE_LANES, WIDE_LANES);
        for (int64_t h = 0; h < t->heads; h++) {
            TURN_UNROLL
            for (int v = 0; v < at_once; v++)
                turn_wide(t, (const double *)t->in + h * t->in_head, (double *)t->out + h * t->out_head, i + v * WIDE_LANES,
                          WIDE_LANES, &k[v]);
        }
    }
    for (int64_t n; i < t->pairs; i += n) {
        n = t->pairs - i < WIDE_LANES ? t->pairs - i : WIDE_LANES;
        const wide_angles k = wide_angles_at(t, i, n);
        for (int64_t h = 0; h < t->heads; h++)
            turn_wide(t, (const double *)t->in + h * t->in_head, (double *)t->out + h * t->out_head, i, n, &k);
    }
}

#if WIDE_LANES > 1
/* Pairs that stay beside each other, as turn_beside has it.  out = pairs done. */
TURN_INLINE int64_t turn_doubles_beside(const gyre_turns *t) {
    const int64_t block = TURN_BESIDE * WIDE_LANES / 2;
    int64_t i = 0;
    for (; i + block <= t->pairs; i += block) {
        wide c[TURN_BESIDE], s[TURN_BESIDE];
        TURN_UNROLL
        for (int v = 0; v < TURN_BESIDE; v += 2) {
            const wide_angles k = wide_angles_at(t, i + v * WIDE_LANES / 2, WIDE_LANES);
            c[v] = c[v + 1] = k.c;
            s[v] = k.minus;
            s[v + 1] = k.s;
            wide_join(&c[v], &c[v + 1]);
            wide_join(&s[v], &s[v + 1]);
        }
        for (int64_t h = 0; h < t->heads; h++) {
            const double *in = (const double *)t->in + h * t->in_head + 2 * i;
            double *out = (double *)t->out + h * t->out_head + 2 * i;
            TURN_UNROLL
            for (int v = 0; v < TURN_BESIDE; v++) {
                const wide x = wide_held(wide_load(in + v * WIDE_LANES));
                wide_store(out + v * WIDE_LANES, wide_fma(x, c[v], wide_mul(wide_swap(x), s[v])));
            }
        }
    }
    return i;
}
#else
#define turn_doubles_beside(t) 0
#endif

/* From one layout to the other in place, head by head: through registers where a head fits them, else through a copy on the
 * stack. */
TURN_INLINE void turn_doubles_apart(const gyre_turns *t) {
    enum { VECTORS = 8 };
    wide_angles k[VECTORS];
    TURN_UNROLL
    for (int v = 0; v < VECTORS; v++)
        k[v] = wide_angles_at(t, v * WIDE_LANES, WIDE_LANES);
    for (int64_t h = 0; h < t->heads; h++) {
        wide a[VECTORS], b[VECTORS];
        TURN_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            wide_read(t, (const double *)t->in + h * t->in_head, v * WIDE_LANES, WIDE_LANES, &a[v], &b[v]);
            wide_pairs(&a[v], &b[v], &k[v]);
        }
        TURN_UNROLL
        for (int v = 0; v < VECTORS; v++)
            wide_write(t, (double *)t->out + h * t->out_head, v * WIDE_LANES, WIDE_LANES, a[v], b[v]);
    }
}
TURN_INLINE void turn_doubles_across(const gyre_turns *t) {
    double copy[2 * GYRE_TURN_PAIRS];
    for (int64_t h = 0; h < t->heads; h++) {
        const double *in = memcpy(copy, (const double *)t->in + h * t->in_head, (size_t)(2 * t->pairs) * sizeof *in);
        double *head = (double *)t->out + h * t->out_head;
        int64_t i = 0;
        for (; i + WIDE_LANES <= t->pairs; i += WIDE_LANES) {
            const wide_angles k = wide_angles_at(t, i, WIDE_LANES);
            turn_wide(t, in, head, i, WIDE_LANES, &k);
        }
        if (i == t->pairs) continue;
        const wide_angles k = wide_angles_at(t, i, t->pairs - i);
        turn_wide(t, in, head, i, t->pairs - i, &k);
    }
}
TURN_INLINE void turn_doubles_between(const gyre_turns *t) {
    if (t->in != t->out && t->streams)
        turn_doubles(t, 8, 0);
    else if (t->in != t->out)
        turn_doubles(t, 2, 0);
    else if (WIDE_LANES == 8 && t->pairs == 64)
        turn_doubles_apart(t);
    else
        turn_doubles_across(t);
}

/* Functions of their own: in one with the rest, GCC runs out of registers for addresses. */
static __attribute__((noinline)) void doubles_to_half(const gyre_turns *t) {
    gyre_turns known = *t;
    known.from_half = 0, known.to_half = 1;
    turn_doubles_between(&known);
}
static __attribute__((noinline)) void doubles_from_half(const gyre_turns *t) {
    gyre_turns known = *t;
    known.from_half = 1, known.to_half = 0;
    turn_doubles_between(&known);
}

/* Out of memory, rows go by once, from end to end, so that they are read ahead; out of a cache, fewer angles stay in
 * registers. */
static void rotate_f64(const gyre_turns *t) {
    gyre_turns known = *t;
    if (t->from_half && t->to_half) {
        known.from_half = known.to_half = 1;
        if (t->streams)
            turn_doubles(&known, 8, 0);
        else
            turn_doubles(&known, 2, 0);
    } else if (!t->from_half && !t->to_half) {
        known.from_half = known.to_half = 0;
        if (t->streams)
            turn_doubles(&known, 8, 0);
        else
            turn_doubles(&known, 2, turn_doubles_beside(&known));
    } else if (t->from_half) {
        doubles_from_half(t);
    } else {
        doubles_to_half(t);
    }
}

#endif
