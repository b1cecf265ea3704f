/* rotate_tier.h: rotation and addition, written once over a tier's vocabulary (vec_*.h) for every type and layout of pairs.
 *
 * The rest of a row past its last whole vector goes through a vector on the stack and the same operations, so a rotation has
 * the same bits in every layout and on every code path.
 *
 * Paths of rotate_heads, by layout:
 *     half -> half                  rotate_half_blocks          then rotate_rest for the remaining pairs
 *     interleaved -> interleaved    rotate_interleaved_blocks   then rotate_rest
 *     half <-> interleaved          rotate_cross_blocks         then rotate_cross_rest
 * bf16 has rotate_bf16_blocks for all of them, and f64 its own functions at the end.
 *
 * libgyre_rope (GYRE_ROPE_ALONE) has fewer copies of these loops: the same operations in a third of the code. */
#ifndef GYRE_KERNELS_ROTATE_TIER_H
#define GYRE_KERNELS_ROTATE_TIER_H
#include "kernels/row_tier.h"

/* -- rotation -- */
/* cos, sin and -sin of LANES pairs.  An inverse rotation swaps s and minus_s. */
typedef struct vec_angles {
    vec c, s, minus_s;
} vec_angles;

/* (x c - y s, y c + x s): one product rounded, one fused, the same in every layout. */
TIER_INLINE void rotate_vec_pairs(vec *a, vec *b, const vec_angles *k) {
    const vec x = vec_in_register(*a), y = vec_in_register(*b);
    *a = vec_fma(x, k->c, vec_mul(y, k->minus_s));
    *b = vec_fma(y, k->c, vec_mul(x, k->s));
}

/* out = angles of pairs i .. i + n - 1, n <= LANES. */
TIER_INLINE vec_angles vec_angles_at(const gyre_rotate_job *t, int64_t i, int64_t n) {
    const elem_type table = {load_f32, store_f32, sizeof(float)};
    const vec s = load_up_to(table, (const char *)((const float *)t->sine + i), n), minus_s = vec_mul(vec_set1(-1), s);
    const vec c = load_up_to(table, (const char *)((const float *)t->cosine + i), n);
    return t->negate_sine ? (vec_angles){c, minus_s, s} : (vec_angles){c, s, minus_s};
}

TIER_INLINE const char *head_in(const gyre_rotate_job *t, elem_type type, int64_t h) {
    return (const char *)t->in + h * t->in_head_stride * type.size;
}
TIER_INLINE char *head_out(const gyre_rotate_job *t, elem_type type, int64_t h) {
    return (char *)t->out + h * t->out_head_stride * type.size;
}

/* Rotates pairs i .. i + n - 1 of a head, n <= LANES, from any layout to any. */
TIER_INLINE void rotate_partial(elem_type type, const gyre_rotate_job *t, const char *in, char *out, int64_t i, int64_t n,
                                const vec_angles *k) {
    const int64_t half = t->pairs * type.size, at = i * type.size, second = LANES * type.size;
    vec a, b;
    if (t->from_half) {
        a = load_up_to(type, in + at, n);
        b = load_up_to(type, in + half + at, n);
    } else {
        a = load_up_to(type, in + 2 * at, 2 * n);
        b = 2 * n > LANES ? load_up_to(type, in + 2 * at + second, 2 * n - LANES) : vec_set1(0);
        vec_deinterleave(&a, &b);
    }
    rotate_vec_pairs(&a, &b, k);
    if (t->to_half) {
        store_up_to(type, out + at, a, n);
        store_up_to(type, out + half + at, b, n);
    } else {
        vec_interleave(&a, &b);
        store_up_to(type, out + 2 * at, a, 2 * n);
        store_up_to(type, out + 2 * at + second, b, 2 * n - LANES);
    }
}

/* Rotates pairs first .. pairs - 1 within a layout: one vector of pairs at a time, for all heads. */
TIER_INLINE void rotate_rest(elem_type type, const gyre_rotate_job *t, int64_t first) {
    for (int64_t i = first, n; i < t->pairs; i += n) {
        n = t->pairs - i < LANES ? t->pairs - i : LANES;
        const vec_angles k = vec_angles_at(t, i, n);
        for (int64_t h = 0; h < t->heads; h++)
            rotate_partial(type, t, head_in(t, type, h), head_out(t, type, h), i, n, &k);
    }
}

/* Rotates pairs first .. pairs - 1 from one layout to the other, head by head; in place, through a copy on the stack. */
TIER_INLINE void rotate_cross_rest(elem_type type, const gyre_rotate_job *t, int64_t first) {
    char copy[2 * GYRE_ROTATE_MAX_PAIRS * 4];
    for (int64_t h = 0; h < t->heads && first < t->pairs; h++) {
        const char *in = head_in(t, type, h);
        int64_t i = first;
        if (t->in == t->out) in = memcpy(copy, in, (size_t)(2 * t->pairs * type.size));
        for (; i + LANES <= t->pairs; i += LANES) {
            const vec_angles k = vec_angles_at(t, i, LANES);
            rotate_partial(type, t, in, head_out(t, type, h), i, LANES, &k);
        }
        if (i == t->pairs) continue;
        const vec_angles k = vec_angles_at(t, i, t->pairs - i);
        rotate_partial(type, t, in, head_out(t, type, h), i, t->pairs - i, &k);
    }
}

/* Prefetches what is read `ahead` bytes later, if heads are dense; at (a constant): bytes from `in`, the first of each line
 * counts.  ahead: 0 for data that fits a cache. */
TIER_INLINE void rotate_prefetch(const char *in, int64_t at, int64_t ahead) {
    if (at % READ_LINE_BYTES == 0) prefetch_ahead(in + at, ahead);
}
TIER_INLINE int64_t rotate_ahead(const gyre_rotate_job *t) {
    return t->exceeds_cache ? read_ahead() : 0;
}

#if LANES > 1
/* Half to half: keeps ROTATE_HALF_VECS vectors of angles in registers for all heads.  out = pairs done. */
TIER_INLINE int64_t rotate_half_blocks(elem_type type, const gyre_rotate_job *t) {
    const int64_t block = ROTATE_HALF_VECS * LANES, half = t->pairs * type.size, ahead = rotate_ahead(t);
    int64_t i = 0;
    for (; i + block <= t->pairs; i += block) {
        vec_angles k[ROTATE_HALF_VECS];
        TIER_UNROLL
        for (int v = 0; v < ROTATE_HALF_VECS; v++)
            k[v] = vec_angles_at(t, i + v * LANES, LANES);
        for (int64_t h = 0; h < t->heads; h++) {
            const char *in = head_in(t, type, h) + i * type.size;
            char *out = head_out(t, type, h) + i * type.size;
            TIER_UNROLL
            for (int v = 0; v < ROTATE_HALF_VECS; v++) {
                rotate_prefetch(in, v * LANES * type.size, ahead);
                rotate_prefetch(in + half, v * LANES * type.size, ahead);
                vec a = type.load(in + v * LANES * type.size), b = type.load(in + half + v * LANES * type.size);
                rotate_vec_pairs(&a, &b, &k[v]);
                type.store(out + v * LANES * type.size, a);
                type.store(out + half + v * LANES * type.size, b);
            }
        }
    }
    return i;
}

/* One layout to the other, with angles in registers.  Reads a whole block before it writes any of it, so in place the block
 * must be the whole head.  out = pairs done. */
TIER_INLINE int64_t rotate_cross_blocks(elem_type type, const gyre_rotate_job *t) {
    const int64_t block = ROTATE_CROSS_VECS * LANES, half = t->pairs * type.size, vector = LANES * type.size;
    const int64_t ahead = rotate_ahead(t);
    int64_t i = 0;
    if (t->in == t->out && t->pairs != block) return 0;
    for (; i + block <= t->pairs; i += block) {
        vec_angles k[ROTATE_CROSS_VECS];
        TIER_UNROLL
        for (int v = 0; v < ROTATE_CROSS_VECS; v++)
            k[v] = vec_angles_at(t, i + v * LANES, LANES);
        for (int64_t h = 0; h < t->heads; h++) {
            const char *in = head_in(t, type, h) + (t->from_half ? 1 : 2) * i * type.size;
            char *out = head_out(t, type, h) + (t->to_half ? 1 : 2) * i * type.size;
            vec a[ROTATE_CROSS_VECS], b[ROTATE_CROSS_VECS];
            TIER_UNROLL
            for (int v = 0; v < ROTATE_CROSS_VECS; v++) {
                rotate_prefetch(in, (t->from_half ? v : 2 * v) * vector, ahead);
                rotate_prefetch(t->from_half ? in + half : in, (t->from_half ? v : 2 * v + 1) * vector, ahead);
                a[v] = type.load(in + (t->from_half ? v : 2 * v) * vector);
                b[v] = type.load(t->from_half ? in + half + v * vector : in + (2 * v + 1) * vector);
                if (!t->from_half) vec_deinterleave(&a[v], &b[v]);
                rotate_vec_pairs(&a[v], &b[v], &k[v]);
                if (!t->to_half) vec_interleave(&a[v], &b[v]);
            }
            TIER_UNROLL
            for (int v = 0; v < ROTATE_CROSS_VECS; v++) {
                type.store(out + (t->to_half ? v : 2 * v) * vector, a[v]);
                type.store(t->to_half ? out + half + v * vector : out + (2 * v + 1) * vector, b[v]);
            }
        }
    }
    return i;
}

/* Interleaved to interleaved: each element times its cos, plus its neighbour times the signed sin.  out = pairs done.
 *
 *     x   a0  b0  a1  b1 ...        swapped   b0  a0  b1  a1 ...
 *     c   c0  c0  c1  c1 ...        s        -s0  s0 -s1  s1 ... */
TIER_INLINE int64_t rotate_interleaved_blocks(elem_type type, const gyre_rotate_job *t) {
    const int64_t block = ROTATE_INTERLEAVED_VECS * LANES / 2, ahead = rotate_ahead(t);
    int64_t i = 0;
    for (; i + block <= t->pairs; i += block) {
        vec c[ROTATE_INTERLEAVED_VECS], s[ROTATE_INTERLEAVED_VECS];
        TIER_UNROLL
        for (int v = 0; v < ROTATE_INTERLEAVED_VECS; v += 2) {
            const vec_angles k = vec_angles_at(t, i + v * LANES / 2, LANES);
            c[v] = c[v + 1] = k.c;
            s[v] = k.minus_s;
            s[v + 1] = k.s;
            vec_interleave(&c[v], &c[v + 1]);
            vec_interleave(&s[v], &s[v + 1]);
        }
        for (int64_t h = 0; h < t->heads; h++) {
            const char *in = head_in(t, type, h) + 2 * i * type.size;
            char *out = head_out(t, type, h) + 2 * i * type.size;
            TIER_UNROLL
            for (int v = 0; v < ROTATE_INTERLEAVED_VECS; v++) {
                rotate_prefetch(in, v * LANES * type.size, ahead);
                const vec x = vec_in_register(type.load(in + v * LANES * type.size));
                type.store(out + v * LANES * type.size, vec_fma(x, c[v], vec_mul(vec_swap_pairs(x), s[v])));
            }
        }
    }
    return i;
}

/* bf16: 2 LANES elements at a time, in order (consecutive) or split into even and odd places. */
#ifndef VEC_CONSECUTIVE_BF16
static inline void vec_load_consecutive_bf16(const uint16_t *p, vec *a, vec *b) {
    *a = vec_load_bf16(p);
    *b = vec_load_bf16(p + LANES);
}
static inline void vec_store_consecutive_bf16(uint16_t *p, vec a, vec b) {
    vec_store_bf16(p, a);
    vec_store_bf16(p + LANES, b);
}
#endif
#ifndef VEC_STORE_MANY_BF16
/* Stores n (a constant) pairs of vectors to p[i]: interleaved (a[i] at even places) or a[i] before b[i]. */
TIER_INLINE void vec_store_many_bf16(uint16_t *const *p, const vec *a, const vec *b, int n, int interleaved, int stream) {
    (void)stream;
    TIER_UNROLL
    for (int i = 0; i < n; i++)
        (interleaved ? vec_store_even_odd_bf16 : vec_store_consecutive_bf16)(p[i], a[i], b[i]);
}
#endif

/* Rotates at_once (a constant, even) vectors of pairs of a head.  Reads all of them before it writes any.  From half to half
 * the elements are split into even and odd places, and the angles with them (deinterleave_angles). */
TIER_INLINE void rotate_bf16_head(const gyre_rotate_job *t, const uint16_t *in, uint16_t *out, const vec_angles *k,
                                  int at_once) {
    uint16_t *to[ROTATE_CROSS_VECS];
    vec a[ROTATE_CROSS_VECS], b[ROTATE_CROSS_VECS];
    const int64_t ahead = rotate_ahead(t);
    TIER_UNROLL
    for (int v = 0; v < at_once; v += 2) {
        const int64_t i = v * LANES, j = t->pairs + i;
        rotate_prefetch((const char *)(t->from_half ? in : in + i), 2 * i, ahead);
        rotate_prefetch((const char *)(t->from_half ? in + t->pairs : in + i + 2 * LANES), 2 * i, ahead);
        if (!t->from_half) {
            vec_load_even_odd_bf16(in + 2 * i, &a[v], &a[v + 1]);
            vec_load_even_odd_bf16(in + 2 * (i + LANES), &b[v], &b[v + 1]);
        } else {
            (t->to_half ? vec_load_even_odd_bf16 : vec_load_consecutive_bf16)(in + i, &a[v], &b[v]);
            (t->to_half ? vec_load_even_odd_bf16 : vec_load_consecutive_bf16)(in + j, &a[v + 1], &b[v + 1]);
        }
        rotate_vec_pairs(&a[v], &a[v + 1], &k[v]);
        rotate_vec_pairs(&b[v], &b[v + 1], &k[v + 1]);
        to[v] = out + (t->to_half ? i : 2 * i);
        to[v + 1] = out + (t->to_half ? j : 2 * (i + LANES));
        if (t->to_half) continue;
        const vec odd = a[v + 1];
        a[v + 1] = b[v];
        b[v] = odd;
    }
    vec_store_many_bf16(to, a, b, at_once, t->from_half || !t->to_half, t->past_caches);
}

TIER_INLINE void deinterleave_angles(vec_angles *k, int n) {
    TIER_UNROLL
    for (int v = 0; v < n; v += 2) {
        vec_deinterleave(&k[v].c, &k[v + 1].c);
        vec_deinterleave(&k[v].s, &k[v + 1].s);
        vec_deinterleave(&k[v].minus_s, &k[v + 1].minus_s);
    }
}

/* Any layout to any.  In place from one layout to the other, the block must be the whole head.  out = pairs done. */
TIER_INLINE int64_t rotate_bf16_blocks(const gyre_rotate_job *t, int at_once) {
    const int64_t block = at_once * LANES;
    int64_t i = 0;
    if (t->from_half != t->to_half && t->in == t->out && t->pairs != block) return 0;
    for (; i + block <= t->pairs; i += block) {
        vec_angles k[ROTATE_CROSS_VECS];
        TIER_UNROLL
        for (int v = 0; v < at_once; v++)
            k[v] = vec_angles_at(t, i + v * LANES, LANES);
        if (t->from_half && t->to_half) deinterleave_angles(k, at_once);
        for (int64_t h = 0; h < t->heads; h++)
            rotate_bf16_head(t, (const uint16_t *)t->in + h * t->in_head_stride + (t->from_half ? i : 2 * i),
                             (uint16_t *)t->out + h * t->out_head_stride + (t->to_half ? i : 2 * i), k, at_once);
    }
    return i;
}
#else
#define rotate_half_blocks(type, t)        0
#define rotate_cross_blocks(type, t)       0
#define rotate_interleaved_blocks(type, t) 0
#define rotate_bf16_blocks(t, at_once)     0
#endif

/* Makes the layouts constants for the inlined functions. */
/* NOLINTBEGIN(bugprone-branch-clone): one lane has neither kind of blocks */
TIER_INLINE void rotate_heads(elem_type type, int is_bf16, const gyre_rotate_job *t) {
    gyre_rotate_job known = *t;
    if (t->from_half && t->to_half) {
        known.from_half = known.to_half = 1;
        rotate_rest(type, &known, is_bf16 ? rotate_bf16_blocks(&known, ROTATE_HALF_VECS) : rotate_half_blocks(type, &known));
    } else if (!t->from_half && !t->to_half) {
        known.from_half = known.to_half = 0;
        rotate_rest(type, &known,
                    is_bf16 ? rotate_bf16_blocks(&known, ROTATE_HALF_VECS) : rotate_interleaved_blocks(type, &known));
    } else if (t->from_half) {
        known.from_half = 1, known.to_half = 0;
        rotate_cross_rest(type, &known,
                          is_bf16 ? rotate_bf16_blocks(&known, ROTATE_CROSS_VECS) : rotate_cross_blocks(type, &known));
    } else {
        known.from_half = 0, known.to_half = 1;
        rotate_cross_rest(type, &known,
                          is_bf16 ? rotate_bf16_blocks(&known, ROTATE_CROSS_VECS) : rotate_cross_blocks(type, &known));
    }
}
/* NOLINTEND(bugprone-branch-clone) */

KERNEL(rotate_f32)(const gyre_rotate_job *t) {
    rotate_heads((elem_type){load_f32, store_f32, 4}, 0, t);
}
KERNEL(rotate_f16)(const gyre_rotate_job *t) {
    rotate_heads((elem_type){load_f16, store_f16, 2}, 0, t);
}
KERNEL_OWN(rotate_bf16)(const gyre_rotate_job *t) {
    gyre_rotate_job cached = *t;
    cached.past_caches = 0;
    rotate_heads((elem_type){load_bf16, store_bf16, 2}, 1, &cached);
}

/* -- several tokens -- */
/* Calls the kernel of a token.  size: bytes of an element. */
static void rotate_one_by_one(void (*rotate)(const gyre_rotate_job *job), int64_t size, const gyre_rotate_tokens_job *job) {
    const int64_t number = size == 8 ? 8 : 4; /* bytes of an angle */
    gyre_rotate_job t = job->one;
    for (int64_t k = 0; k < job->tokens; k++) {
        t.in = (const char *)job->one.in + k * job->in_token_stride * size;
        t.out = (char *)job->one.out + k * job->out_token_stride * size;
        t.cosine = job->rows[k];
        t.sine = (const char *)job->rows[k] + t.pairs * number;
        rotate(&t);
    }
}

#ifdef GYRE_ROPE_ALONE
KERNEL(rotate_tokens_f32)(const gyre_rotate_tokens_job *job) {
    rotate_one_by_one(OF_TIER(rotate_f32), 4, job);
}
KERNEL(rotate_tokens_f16)(const gyre_rotate_tokens_job *job) {
    rotate_one_by_one(OF_TIER(rotate_f16), 2, job);
}
KERNEL_OWN(rotate_tokens_bf16)(const gyre_rotate_tokens_job *job) {
    rotate_one_by_one(OF_TIER(rotate_bf16), 2, job);
}
#else
/* out = 1 if the rows of the job may be written past the caches: they are whole lines, and so are their halves. */
TIER_INLINE int writes_lines(const gyre_rotate_tokens_job *job, int64_t size) {
#if VEC_STREAM
    const gyre_rotate_job *t = &job->one;
    const int64_t steps = (job->out_token_stride | t->out_head_stride | t->pairs) * size;
    return t->past_caches && t->in != t->out && (((uintptr_t)t->out | (uintptr_t)steps) & 63) == 0;
#else
    (void)job, (void)size;
    return 0;
#endif
}
/* Inlined, so that the job of a token stays in registers. */
TIER_INLINE void rotate_tokens(elem_type type, int is_bf16, int past_caches, const gyre_rotate_tokens_job *job) {
    gyre_rotate_job t = job->one;
    t.past_caches = past_caches;
    for (int64_t k = 0; k < job->tokens; k++) {
        t.in = (const char *)job->one.in + k * job->in_token_stride * type.size;
        t.out = (char *)job->one.out + k * job->out_token_stride * type.size;
        t.cosine = job->rows[k];
        t.sine = (const float *)job->rows[k] + t.pairs;
        rotate_heads(type, is_bf16, &t);
    }
}
KERNEL(rotate_tokens_f32)(const gyre_rotate_tokens_job *job) {
    if (!writes_lines(job, 4)) {
        rotate_tokens((elem_type){load_f32, store_f32, 4}, 0, 0, job);
        return;
    }
    rotate_tokens((elem_type){load_f32, stream_f32, 4}, 0, 1, job);
    vec_stream_end();
}
KERNEL(rotate_tokens_f16)(const gyre_rotate_tokens_job *job) {
    if (!writes_lines(job, 2)) {
        rotate_tokens((elem_type){load_f16, store_f16, 2}, 0, 0, job);
        return;
    }
    rotate_tokens((elem_type){load_f16, stream_f16, 2}, 0, 1, job);
    vec_stream_end();
}
KERNEL_OWN(rotate_tokens_bf16)(const gyre_rotate_tokens_job *job) {
    if (!writes_lines(job, 2)) {
        rotate_tokens((elem_type){load_bf16, store_bf16, 2}, 1, 0, job);
        return;
    }
    rotate_tokens((elem_type){load_bf16, store_bf16, 2}, 1, 1, job);
    vec_stream_end();
}
#endif

#ifndef GYRE_ROPE_ALONE
TIER_INLINE void rotate_rows_as(const gyre_rotate_rows_job *job, int half) {
    const elem_type type = {load_f32, store_f32, 4};
    gyre_rotate_job t = {
        .heads = 1, .pairs = job->pairs, .from_half = half, .to_half = half, .negate_sine = job->negate_sine};
    for (int64_t r = 0; r < job->rows; r++) {
        char *x = (char *)(job->x + r * job->stride);
        int64_t i = 0;
        t.cosine = job->angles + 2 * r * job->pairs;
        t.sine = (const float *)t.cosine + job->pairs;
        for (; i + LANES <= job->pairs; i += LANES) {
            const vec_angles k = vec_angles_at(&t, i, LANES);
            rotate_partial(type, &t, x, x, i, LANES, &k);
        }
        if (i == job->pairs) continue;
        const vec_angles k = vec_angles_at(&t, i, job->pairs - i);
        rotate_partial(type, &t, x, x, i, job->pairs - i, &k);
    }
}
KERNEL(rotate_rows_f32)(const gyre_rotate_rows_job *job) {
    if (job->half)
        rotate_rows_as(job, 1);
    else
        rotate_rows_as(job, 0);
}

/* -- addition -- */
TIER_INLINE void add_row(elem_type type, const void *in, void *out, const float *row, int64_t n) {
    const elem_type table = {load_f32, store_f32, sizeof(float)};
    const char *from = in;
    char *to = out;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        type.store(to + i * type.size, vec_add(type.load(from + i * type.size), vec_load(row + i)));
    if (i >= n) return;
    const vec sum =
        vec_add(load_partial(type, from + i * type.size, n - i), load_partial(table, (const char *)(row + i), n - i));
    store_partial(type, to + i * type.size, sum, n - i);
}

KERNEL(add_f32)(const void *in, void *out, const float *row, int64_t n) {
    add_row((elem_type){load_f32, store_f32, 4}, in, out, row, n);
}
KERNEL(add_f16)(const void *in, void *out, const float *row, int64_t n) {
    add_row((elem_type){load_f16, store_f16, 2}, in, out, row, n);
}
KERNEL_OWN(add_bf16)(const void *in, void *out, const float *row, int64_t n) {
    add_row((elem_type){load_bf16, store_bf16, 2}, in, out, row, n);
}

#endif

/* -- f64 -- */
/* Rotation by vectors of VECD_LANES doubles.  (From plain C, GCC 12 fuses some of the products and not others, whatever
 * -ffp-contract says.) */
/* Bytes of n doubles, n below VECD_LANES.  GCC without optimisation warns of a larger n unless it sees the bound. */
TIER_INLINE size_t vecd_bytes(int64_t n) {
    return (size_t)(n < VECD_LANES ? n : VECD_LANES) * sizeof(double);
}
TIER_INLINE vecd vecd_load_up_to(const double *p, int64_t n) {
    double some[VECD_LANES] = {0};
    if (n >= VECD_LANES) return vecd_load(p);
    if (n > 0) memcpy(some, p, vecd_bytes(n));
    return vecd_load(some);
}
TIER_INLINE void vecd_store_up_to(double *p, vecd a, int64_t n) {
    double some[VECD_LANES];
    vecd_store(n >= VECD_LANES ? p : some, a);
    if (n > 0 && n < VECD_LANES) memcpy(p, some, vecd_bytes(n));
}

typedef struct vecd_angles {
    vecd c, s, minus_s;
} vecd_angles;

TIER_INLINE vecd_angles vecd_angles_at(const gyre_rotate_job *t, int64_t i, int64_t n) {
    const vecd s = vecd_load_up_to((const double *)t->sine + i, n), minus_s = vecd_mul(vecd_set1(-1), s);
    const vecd c = vecd_load_up_to((const double *)t->cosine + i, n);
    return t->negate_sine ? (vecd_angles){c, minus_s, s} : (vecd_angles){c, s, minus_s};
}

/* Reads and writes pairs i .. i + n - 1, n <= VECD_LANES, in any layout. */
TIER_INLINE void vecd_read(const gyre_rotate_job *t, const double *in, int64_t i, int64_t n, vecd *a, vecd *b) {
    if (t->from_half) {
        *a = vecd_load_up_to(in + i, n);
        *b = vecd_load_up_to(in + t->pairs + i, n);
    } else {
        *a = vecd_load_up_to(in + 2 * i, 2 * n);
        *b = vecd_load_up_to(in + 2 * i + VECD_LANES, 2 * n - VECD_LANES);
        vecd_deinterleave(a, b);
    }
}
TIER_INLINE void vecd_write(const gyre_rotate_job *t, double *out, int64_t i, int64_t n, vecd x, vecd y) {
    if (t->to_half) {
        vecd_store_up_to(out + i, x, n);
        vecd_store_up_to(out + t->pairs + i, y, n);
    } else {
        vecd_interleave(&x, &y);
        vecd_store_up_to(out + 2 * i, x, 2 * n);
        vecd_store_up_to(out + 2 * i + VECD_LANES, y, 2 * n - VECD_LANES);
    }
}
TIER_INLINE void rotate_vecd_pairs(vecd *a, vecd *b, const vecd_angles *k) {
    const vecd x = vecd_in_register(*a), y = vecd_in_register(*b);
    *a = vecd_fma(x, k->c, vecd_mul(y, k->minus_s));
    *b = vecd_fma(y, k->c, vecd_mul(x, k->s));
}
TIER_INLINE void rotate_doubles(const gyre_rotate_job *t, const double *in, double *out, int64_t i, int64_t n,
                                const vecd_angles *k) {
    vecd a, b;
    vecd_read(t, in, i, n, &a, &b);
    rotate_vecd_pairs(&a, &b, k);
    vecd_write(t, out, i, n, a, b);
}

/* Keeps the angles of at_once (a constant, at most 8) vectors in registers for all heads. */
TIER_INLINE void rotate_f64_blocks(const gyre_rotate_job *t, int at_once, int64_t first) {
    int64_t i = first;
    for (; i + at_once * VECD_LANES <= t->pairs; i += at_once * VECD_LANES) {
        vecd_angles k[8];
        TIER_UNROLL
        for (int v = 0; v < at_once; v++)
            k[v] = vecd_angles_at(t, i + v * VECD_LANES, VECD_LANES);
        for (int64_t h = 0; h < t->heads; h++) {
            TIER_UNROLL
            for (int v = 0; v < at_once; v++)
                rotate_doubles(t, (const double *)t->in + h * t->in_head_stride, (double *)t->out + h * t->out_head_stride,
                               i + v * VECD_LANES, VECD_LANES, &k[v]);
        }
    }
    for (int64_t n; i < t->pairs; i += n) {
        n = t->pairs - i < VECD_LANES ? t->pairs - i : VECD_LANES;
        const vecd_angles k = vecd_angles_at(t, i, n);
        for (int64_t h = 0; h < t->heads; h++)
            rotate_doubles(t, (const double *)t->in + h * t->in_head_stride, (double *)t->out + h * t->out_head_stride, i, n,
                           &k);
    }
}

#ifndef GYRE_ROPE_ALONE
#if VECD_LANES > 1
/* Interleaved to interleaved, like rotate_interleaved_blocks.  out = pairs done. */
TIER_INLINE int64_t rotate_f64_interleaved(const gyre_rotate_job *t) {
    const int64_t block = ROTATE_INTERLEAVED_VECS * VECD_LANES / 2;
    int64_t i = 0;
    for (; i + block <= t->pairs; i += block) {
        vecd c[ROTATE_INTERLEAVED_VECS], s[ROTATE_INTERLEAVED_VECS];
        TIER_UNROLL
        for (int v = 0; v < ROTATE_INTERLEAVED_VECS; v += 2) {
            const vecd_angles k = vecd_angles_at(t, i + v * VECD_LANES / 2, VECD_LANES);
            c[v] = c[v + 1] = k.c;
            s[v] = k.minus_s;
            s[v + 1] = k.s;
            vecd_interleave(&c[v], &c[v + 1]);
            vecd_interleave(&s[v], &s[v + 1]);
        }
        for (int64_t h = 0; h < t->heads; h++) {
            const double *in = (const double *)t->in + h * t->in_head_stride + 2 * i;
            double *out = (double *)t->out + h * t->out_head_stride + 2 * i;
            TIER_UNROLL
            for (int v = 0; v < ROTATE_INTERLEAVED_VECS; v++) {
                const vecd x = vecd_in_register(vecd_load(in + v * VECD_LANES));
                vecd_store(out + v * VECD_LANES, vecd_fma(x, c[v], vecd_mul(vecd_swap(x), s[v])));
            }
        }
    }
    return i;
}
#else
#define rotate_f64_interleaved(t) 0
#endif

/* One layout to the other in place, head by head: through registers if a head fits, else through a copy on the stack. */
TIER_INLINE void rotate_f64_cross_registers(const gyre_rotate_job *t) {
    enum { VECTORS = 8 };
    vecd_angles k[VECTORS];
    TIER_UNROLL
    for (int v = 0; v < VECTORS; v++)
        k[v] = vecd_angles_at(t, v * VECD_LANES, VECD_LANES);
    for (int64_t h = 0; h < t->heads; h++) {
        vecd a[VECTORS], b[VECTORS];
        TIER_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            vecd_read(t, (const double *)t->in + h * t->in_head_stride, v * VECD_LANES, VECD_LANES, &a[v], &b[v]);
            rotate_vecd_pairs(&a[v], &b[v], &k[v]);
        }
        TIER_UNROLL
        for (int v = 0; v < VECTORS; v++)
            vecd_write(t, (double *)t->out + h * t->out_head_stride, v * VECD_LANES, VECD_LANES, a[v], b[v]);
    }
}
#endif
TIER_INLINE void rotate_f64_cross_copy(const gyre_rotate_job *t) {
    double copy[2 * GYRE_ROTATE_MAX_PAIRS];
    for (int64_t h = 0; h < t->heads; h++) {
        const double *in = memcpy(copy, (const double *)t->in + h * t->in_head_stride, (size_t)(2 * t->pairs) * sizeof *in);
        double *head = (double *)t->out + h * t->out_head_stride;
        int64_t i = 0;
        for (; i + VECD_LANES <= t->pairs; i += VECD_LANES) {
            const vecd_angles k = vecd_angles_at(t, i, VECD_LANES);
            rotate_doubles(t, in, head, i, VECD_LANES, &k);
        }
        if (i == t->pairs) continue;
        const vecd_angles k = vecd_angles_at(t, i, t->pairs - i);
        rotate_doubles(t, in, head, i, t->pairs - i, &k);
    }
}
#ifndef GYRE_ROPE_ALONE
TIER_INLINE void rotate_f64_cross(const gyre_rotate_job *t) {
    if (t->in != t->out && t->exceeds_cache)
        rotate_f64_blocks(t, 8, 0);
    else if (t->in != t->out)
        rotate_f64_blocks(t, 2, 0);
    else if (VECD_LANES == 8 && t->pairs == 64)
        rotate_f64_cross_registers(t);
    else
        rotate_f64_cross_copy(t);
}

/* Not inlined: together with the rest, GCC runs out of registers for addresses. */
static __attribute__((noinline)) void rotate_f64_to_half(const gyre_rotate_job *t) {
    gyre_rotate_job known = *t;
    known.from_half = 0, known.to_half = 1;
    rotate_f64_cross(&known);
}
static __attribute__((noinline)) void rotate_f64_from_half(const gyre_rotate_job *t) {
    gyre_rotate_job known = *t;
    known.from_half = 1, known.to_half = 0;
    rotate_f64_cross(&known);
}

/* Data in memory (exceeds_cache): 8 vectors at a time, so that each row is read once from end to end and prefetched by the
 * processor.  Data in cache: 2 vectors, with fewer angles in registers. */
KERNEL(rotate_f64)(const gyre_rotate_job *t) {
    gyre_rotate_job known = *t;
    if (t->from_half && t->to_half) {
        known.from_half = known.to_half = 1;
        if (t->exceeds_cache)
            rotate_f64_blocks(&known, 8, 0);
        else
            rotate_f64_blocks(&known, 2, 0);
    } else if (!t->from_half && !t->to_half) {
        known.from_half = known.to_half = 0;
        if (t->exceeds_cache)
            rotate_f64_blocks(&known, 8, 0);
        else
            rotate_f64_blocks(&known, 2, rotate_f64_interleaved(&known));
    } else if (t->from_half) {
        rotate_f64_from_half(t);
    } else {
        rotate_f64_to_half(t);
    }
}
#else
KERNEL(rotate_f64)(const gyre_rotate_job *t) {
    if (t->from_half != t->to_half && t->in == t->out)
        rotate_f64_cross_copy(t);
    else
        rotate_f64_blocks(t, 2, 0);
}
#endif

KERNEL(rotate_tokens_f64)(const gyre_rotate_tokens_job *job) {
    rotate_one_by_one(OF_TIER(rotate_f64), 8, job);
}

#endif
