/* check_rotation_kernels.h: the requirements on kernels that rotate. Each check returns what is wrong instead of failing, so
 * that kernels known to be wrong can be checked too (test_mutations.c). */
#ifndef GYRE_TESTS_CHECK_ROTATION_KERNELS_H
#define GYRE_TESTS_CHECK_ROTATION_KERNELS_H
#include "kernels/kernels.h"
#include "numbers.h"

#include <math.h>
#include <string.h>

typedef void rotate_kernel(const gyre_rotate_job *job);

typedef struct rotation_type {
    const char *name;
    gyre_dtype dtype;
} rotation_type;
enum { ROTATION_TYPES = 4 };
static const rotation_type rotation_types[ROTATION_TYPES] = {
    {"f32", GYRE_DTYPE_F32}, {"f16", GYRE_DTYPE_F16}, {"bf16", GYRE_DTYPE_BF16}, {"f64", GYRE_DTYPE_F64}};

static inline rotate_kernel *rotation_of(const gyre_kernels *kernels, gyre_dtype dtype) {
    return dtype == GYRE_DTYPE_F32    ? kernels->rotate_f32
           : dtype == GYRE_DTYPE_F16  ? kernels->rotate_f16
           : dtype == GYRE_DTYPE_BF16 ? kernels->rotate_bf16
                                      : kernels->rotate_f64;
}

typedef struct rotation_case {
    gyre_dtype dtype;
    int from_half, to_half, negate_sine;
    int64_t pairs;
} rotation_case;

/* The eight combinations of input layout, output layout and sign of the sine; pair counts cover every remainder of a
 * vector. */
enum { ROTATION_VARIANTS = 8, ROTATION_PAIRS = 80 };
static inline rotation_case rotation_variant(gyre_dtype dtype, int way, int64_t pairs) {
    return (rotation_case){dtype, way & 1, way >> 1 & 1, way >> 2, pairs};
}

/* wrong: NULL, or a description of the defect. worst: the largest error as a fraction of its bound. */
typedef struct rotation_verdict {
    const char *wrong;
    double worst;
} rotation_verdict;

/* Heads with gaps before, between and after them, and rows of cos and sin with gaps too. Elements have the type of the
 * case. */
enum { HEADS = 3, ROW = 2 * ROTATION_PAIRS + 7, BEFORE = 5, BUFFER = BEFORE + HEADS * ROW, ANGLES = ROTATION_PAIRS + 10 };
typedef struct rotation_operands {
    double x[BUFFER], y[BUFFER], cosine[ANGLES], sine[ANGLES];
} rotation_operands;

/* The cos and sin are random and unrelated: that finds more errors than real rotations. */
static inline void fill_rotation(rotation_operands *o, const rotation_case *k, test_random *random) {
    const gyre_dtype table = k->dtype == GYRE_DTYPE_F64 ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32;
    memset(o, 0x5A, sizeof *o);
    for (size_t i = 0; i < BUFFER; i++)
        test_put(o->x, k->dtype, i, test_uniform(random));
    for (size_t i = 0; i < ANGLES; i++) {
        test_put(o->cosine, table, i, test_uniform(random));
        test_put(o->sine, table, i, test_uniform(random));
    }
}

/* The rows of cos and sin begin at their sixth element. */
static inline void call_rotation(rotate_kernel *kernel, const rotation_case *k, rotation_operands *o, double *out) {
    const size_t size = gyre_dtype_size(k->dtype), angle = k->dtype == GYRE_DTYPE_F64 ? sizeof(double) : sizeof(float);
    kernel(&(gyre_rotate_job){.in = (char *)o->x + BEFORE * size,
                              .out = (char *)out + BEFORE * size,
                              .heads = HEADS,
                              .pairs = k->pairs,
                              .in_head_stride = ROW,
                              .out_head_stride = ROW,
                              .from_half = k->from_half,
                              .to_half = k->to_half,
                              .negate_sine = k->negate_sine,
                              .cosine = (char *)o->cosine + BEFORE * angle,
                              .sine = (char *)o->sine + BEFORE * angle,
                              .exceeds_cache = (int)(k->pairs / 2 % 2)});
}

/* The elements of pair i of a head, and its cos and sin. */
typedef struct rotation_pair {
    size_t in[2], out[2];
    double c, s;
} rotation_pair;
static inline rotation_pair pair_at(const rotation_operands *o, const rotation_case *k, int64_t head, int64_t i) {
    const gyre_dtype table = k->dtype == GYRE_DTYPE_F64 ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32;
    const size_t first = (size_t)(BEFORE + head * ROW), angle = (size_t)(BEFORE + i);
    const size_t in = first + (size_t)(k->from_half ? i : 2 * i), out = first + (size_t)(k->to_half ? i : 2 * i);
    const double s = test_get(o->sine, table, angle);
    return (rotation_pair){{in, in + (size_t)(k->from_half ? k->pairs : 1)},
                           {out, out + (size_t)(k->to_half ? k->pairs : 1)},
                           test_get(o->cosine, table, angle),
                           k->negate_sine ? -s : s};
}

/* Two products and a sum: |got - exact| <= gamma_2 (|a c| + |b s|), u the unit roundoff of the type computed in, plus half
 * an ulp of the type stored. */
static inline double fraction_of_bound(gyre_dtype dtype, double got, long double p, long double q) {
    const double u = dtype == GYRE_DTYPE_F64 ? 0x1p-53 : 0x1p-24, gamma = 2 * u / (1 - 2 * u);
    const long double exact = p + q, size = fabsl(p) + fabsl(q);
    long double bound = (long double)gamma * size;
    if (dtype == GYRE_DTYPE_F16 || dtype == GYRE_DTYPE_BF16)
        bound += (long double)test_half_ulp(dtype, (double)(fabsl(exact) + bound));
    return isfinite(got) ? (double)(fabsl((long double)got - exact) / bound) : (double)INFINITY;
}

static inline double worst_of_bound(const rotation_operands *o, const rotation_case *k) {
    double worst = 0;
    for (int64_t h = 0; h < HEADS; h++)
        for (int64_t i = 0; i < k->pairs; i++) {
            const rotation_pair at = pair_at(o, k, h, i);
            const long double a = (long double)test_get(o->x, k->dtype, at.in[0]), c = (long double)at.c;
            const long double b = (long double)test_get(o->x, k->dtype, at.in[1]), s = (long double)at.s;
            worst = fmax(worst, fraction_of_bound(k->dtype, test_get(o->y, k->dtype, at.out[0]), a * c, -(b * s)));
            worst = fmax(worst, fraction_of_bound(k->dtype, test_get(o->y, k->dtype, at.out[1]), a * s, b * c));
        }
    return worst;
}

/* Whether the elements before, between and after the heads are the same in both. */
static inline int same_around(const double *x, const double *y, const rotation_case *k) {
    const size_t size = gyre_dtype_size(k->dtype), head = 2 * (size_t)k->pairs;
    const char *a = (const char *)x, *b = (const char *)y;
    if (memcmp(a, b, BEFORE * size) != 0) return 0;
    for (size_t h = 0; h < HEADS; h++) {
        const size_t end = (BEFORE + h * ROW + head) * size;
        if (memcmp(a + end, b + end, (ROW - head) * size) != 0) return 0;
    }
    return memcmp(a + BUFFER * size, b + BUFFER * size, BUFFER * (sizeof *x - size)) == 0;
}

static inline int same_heads(const double *x, const double *y, const rotation_case *k) {
    const size_t size = gyre_dtype_size(k->dtype);
    for (size_t h = 0; h < HEADS; h++) {
        const size_t at = (BEFORE + h * ROW) * size;
        if (memcmp((const char *)x + at, (const char *)y + at, 2 * (size_t)k->pairs * size) != 0) return 0;
    }
    return 1;
}

static inline int same_angles(const rotation_operands *o, const rotation_operands *was) {
    return memcmp(o->cosine, was->cosine, sizeof o->cosine) == 0 && memcmp(o->sine, was->sine, sizeof o->sine) == 0;
}

/* The result is within the bound; in place gives the same bits as out of place; no byte around an operand or of a read-only
 * operand changes. */
static inline rotation_verdict check_rotation(rotate_kernel *kernel, const rotation_case *k, test_random *random) {
    static rotation_operands o, was;
    rotation_verdict verdict = {NULL, 0};
    fill_rotation(&o, k, random);
    was = o;
    call_rotation(kernel, k, &o, o.y);
    verdict.worst = worst_of_bound(&o, k);
    if (!same_around(o.y, was.y, k))
        verdict.wrong = "it writes outside the heads";
    else if (memcmp(o.x, was.x, sizeof o.x) != 0)
        verdict.wrong = "it writes to its input";
    else if (!same_angles(&o, &was))
        verdict.wrong = "it writes to cos or sin";
    else if (verdict.worst > 1)
        verdict.wrong = "a result is past its bound";
    if (verdict.wrong) return verdict;
    call_rotation(kernel, k, &o, o.x);
    if (!same_around(o.x, was.x, k))
        verdict.wrong = "in place it writes outside the heads";
    else if (!same_angles(&o, &was))
        verdict.wrong = "in place it writes to cos or sin";
    else if (!same_heads(o.x, o.y, k))
        verdict.wrong = "in place it gives other bits";
    return verdict;
}

/* All cases of a type, up to the first defect. Every kernel gets the same seed. */
static inline rotation_verdict check_rotations(rotate_kernel *kernel, gyre_dtype dtype) {
    test_random random = {35};
    rotation_verdict all = {NULL, 0};
    for (int64_t pairs = 1; pairs <= ROTATION_PAIRS && !all.wrong; pairs++)
        for (int way = 0; way < ROTATION_VARIANTS && !all.wrong; way++) {
            const rotation_case k = rotation_variant(dtype, way, pairs);
            const rotation_verdict verdict = check_rotation(kernel, &k, &random);
            all.wrong = verdict.wrong;
            all.worst = fmax(all.worst, verdict.worst);
        }
    return all;
}

/* -- infinities and NaNs -- */

static inline int same_number(double a, double b) {
    return isnan(a) ? isnan(b) : a == b && !signbit(a) == !signbit(b);
}

/* A pair with one infinite or NaN member: it must give what the formula gives, and no other pair may change. The other
 * member is finite, so inf - inf never occurs. */
static inline const char *check_nonfinite_pair(rotate_kernel *kernel, const rotation_case *k, int64_t head, int64_t i,
                                               int member, double nonfinite, test_random *random) {
    static rotation_operands o, clean;
    fill_rotation(&o, k, random);
    clean = o;
    call_rotation(kernel, k, &clean, clean.y);
    const rotation_pair changed_pair = pair_at(&o, k, head, i);
    test_put(o.x, k->dtype, changed_pair.in[member], nonfinite);
    call_rotation(kernel, k, &o, o.y);
    const double want[2] = {nonfinite * (member ? -changed_pair.s : changed_pair.c),
                            nonfinite * (member ? changed_pair.c : changed_pair.s)};
    for (int m = 0; m < 2; m++) {
        if (!same_number(test_get(o.y, k->dtype, changed_pair.out[m]), want[m])) return "infinity or NaN is lost";
        test_put(o.y, k->dtype, changed_pair.out[m], test_get(clean.y, k->dtype, changed_pair.out[m]));
    }
    return memcmp(o.y, clean.y, sizeof o.y) == 0 ? NULL : "infinity or NaN touches a neighbour";
}

static inline const char *check_nonfinite_pairs(rotate_kernel *kernel, gyre_dtype dtype) {
    static const double nonfinite[] = {(double)INFINITY, -(double)INFINITY, (double)NAN};
    static const int64_t widths[] = {1, 2, 5, 13, 16, 37, 64, 79};
    test_random random = {36};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int way = 0; way < ROTATION_VARIANTS; way++)
            for (int64_t i = 0; i < widths[w]; i++) {
                const rotation_case k = rotation_variant(dtype, way, widths[w]);
                const int64_t head = (int64_t)(test_next(&random) % HEADS);
                const int member = (int)(test_next(&random) % 2);
                const char *wrong = check_nonfinite_pair(kernel, &k, head, i, member, nonfinite[i % 3], &random);
                if (wrong) return wrong;
            }
    return NULL;
}

/* -- rounding -- */

/* (1, 0) rotated by (x, 0) is (x, 0): that brings any float to the final rounding. Both members of a pair are checked. */
static inline const char *check_roundings(rotate_kernel *kernel, gyre_dtype dtype, int half, const float *x, int64_t pairs) {
    static uint16_t in[2 * ROTATION_PAIRS], out[2 * ROTATION_PAIRS];
    static const float zeros[ROTATION_PAIRS];
    for (int member = 0; member < 2; member++) {
        for (int64_t i = 0; i < 2 * pairs; i++)
            test_put(in, dtype, (size_t)i, (half ? i / pairs : i % 2) == member);
        kernel(&(gyre_rotate_job){.in = in,
                                  .out = out,
                                  .heads = 1,
                                  .pairs = pairs,
                                  .in_head_stride = 2 * pairs,
                                  .out_head_stride = 2 * pairs,
                                  .from_half = half,
                                  .to_half = half,
                                  .cosine = x,
                                  .sine = zeros});
        for (int64_t i = 0; i < pairs; i++) {
            const size_t at = (size_t)(half ? member * pairs + i : 2 * i + member);
            uint16_t want;
            test_put(&want, dtype, 0, (double)x[i]);
            if (isnan(x[i]) ? !isnan(test_get(out, dtype, at)) : x[i] != 0 && out[at] != want) return "it rounds wrongly";
        }
    }
    return NULL;
}

/* NaNs of many kinds, including one with every bit set: rounding that one by its bits would carry into the sign. */
static inline float nan_of(uint32_t bits, uint32_t i) {
    const uint32_t payload = i == 0 ? 0x7fffffu : ((bits * 2654435761u + i) & 0x7fffffu) | 1u;
    const uint32_t all = (bits & 0x8000u) << 16 | 0x7f800000u | payload;
    float nan;
    memcpy(&nan, &all, sizeof nan);
    return nan;
}

/* Every number of a 16-bit type with infinities and NaNs, the midpoint to the next number, and the floats next to either. */
static inline const char *check_all_roundings(rotate_kernel *kernel, gyre_dtype dtype) {
    enum { BITS = 65536, NEAR = 6 };
    static float x[ROTATION_PAIRS];
    const int64_t pairs = 77; /* one block and a remainder, for every vector width */
    int64_t n = 0;
    for (uint32_t bits = 0; bits < BITS; bits++) {
        const uint16_t here = (uint16_t)bits;
        const float at = (float)test_get(&here, dtype, 0);
        const float middle = at + copysignf((float)test_half_ulp(dtype, isfinite(at) ? (double)at : 1.0), at);
        const float all[NEAR] = {at,     nextafterf(at, 0),     nextafterf(at, 4 * at),
                                 middle, nextafterf(middle, 0), nextafterf(middle, 4 * middle)};
        for (int i = 0; i < NEAR; i++) {
            x[n++] = isnan(at) ? nan_of(bits, (uint32_t)i) : all[i];
            if (n < pairs && !(bits == BITS - 1 && i == NEAR - 1)) continue;
            const char *wrong = check_roundings(kernel, dtype, (int)(bits % 2), x, n);
            if (wrong) return wrong;
            n = 0;
        }
    }
    return NULL;
}

#endif
