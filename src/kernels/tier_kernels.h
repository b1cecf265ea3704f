/* tier_kernels.h: kernels written once over a small vector vocabulary.  The source file of a tier includes its vocabulary
 * (vec_*.h), then the templates.  This one defines kernels and, at the end, the tier's table.
 *
 * The vocabulary: TIER (its name), vec, mask, LANES (1, 4, 8 or 16), MATMUL_BLOCK_ROWS and MATMUL_BLOCK_VECS (as many
 * accumulators of the product as fit the registers together with its operands) and the vec_ functions used below.
 * vec_max(a, b) and vec_min(a, b) give b if either is a NaN. */
#ifndef GYRE_KERNELS_TIER_KERNELS_H
#define GYRE_KERNELS_TIER_KERNELS_H
#include "kernels/kernel_names.h"

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* -- matrix product -- */

/* Keeps rows x vecs vectors of sums in registers while l runs:
 *
 *                 x[0]        x[1]           b[l][j ..]
 *     y = a[0][l] sum[0][0]   sum[0][1]
 *     y = a[1][l] sum[1][0]   sum[1][1]
 *
 * rows and vecs are constants after inlining, so the accumulators are registers.  a_col_stride is the constant 1 for the
 * plain product, which saves address arithmetic.  The previous c is added last, so that a sum over many products is rounded
 * once per product, not once per term. */
INLINE void matmul_block(const gyre_matmul *p, int64_t i, int64_t j, int rows, int vecs, int64_t a_row_stride,
                         int64_t a_col_stride) {
    const float *a = p->a + i * a_row_stride, *b = p->b + j;
    float *c = p->c + i * p->c_row_stride + j;
    vec sum[MATMUL_BLOCK_ROWS][GEMV_VECS];
    for (int r = 0; r < rows && p->prefetch_c; r++)
        __builtin_prefetch(c + r * p->c_row_stride, 1, 3), __builtin_prefetch(c + r * p->c_row_stride + 16, 1, 3);
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vecs; v++)
            sum[r][v] = vec_set1(0);
    }
    for (int64_t l = 0; l < p->k; l++) {
        vec x[GEMV_VECS];
        UNROLL
        for (int v = 0; v < vecs; v++)
            x[v] = vec_load(b + l * p->b_row_stride + v * LANES);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const vec y = vec_set1(a[r * a_row_stride + l * a_col_stride]);
            UNROLL
            for (int v = 0; v < vecs; v++)
                sum[r][v] = vec_fma(y, x[v], sum[r][v]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vecs; v++) {
            float *to = c + r * p->c_row_stride + v * LANES;
            vec_store(to, p->accumulate ? vec_add(vec_load(to), sum[r][v]) : sum[r][v]);
        }
    }
}

/* Rows past the last whole block are done four, two and one at a time. */
INLINE void matmul_columns(const gyre_matmul *p, int64_t j, int vecs, int64_t a_row_stride, int64_t a_col_stride) {
    int64_t i = 0;
    for (; i + MATMUL_BLOCK_ROWS <= p->m; i += MATMUL_BLOCK_ROWS)
        matmul_block(p, i, j, MATMUL_BLOCK_ROWS, vecs, a_row_stride, a_col_stride);
    for (; i + 4 <= p->m; i += 4)
        matmul_block(p, i, j, 4, vecs, a_row_stride, a_col_stride);
    for (; i + 2 <= p->m; i += 2)
        matmul_block(p, i, j, 2, vecs, a_row_stride, a_col_stride);
    for (; i < p->m; i++)
        matmul_block(p, i, j, 1, vecs, a_row_stride, a_col_stride);
}

INLINE void matmul_all(const gyre_matmul *p, int64_t a_row_stride, int64_t a_col_stride) {
    int64_t j = 0;
    if (p->m == 1) /* a single row needs more columns at once to hide the latency of its sums */
        for (; j + GEMV_VECS * LANES <= p->n; j += GEMV_VECS * LANES)
            matmul_block(p, 0, j, 1, GEMV_VECS, a_row_stride, a_col_stride);
    for (; j + MATMUL_BLOCK_VECS * LANES <= p->n; j += MATMUL_BLOCK_VECS * LANES)
        matmul_columns(p, j, MATMUL_BLOCK_VECS, a_row_stride, a_col_stride);
    for (; j < p->n; j += LANES)
        matmul_columns(p, j, 1, a_row_stride, a_col_stride);
}

KERNEL(matmul_f32)(const gyre_matmul *p) {
    if (p->a_col_stride == 1)
        matmul_all(p, p->a_row_stride, 1);
    else if (p->a_row_stride == 1)
        matmul_all(p, 1, p->a_col_stride);
    else
        matmul_all(p, p->a_row_stride, p->a_col_stride);
}

/* -- rows -- */

/* exp(x) = 2^n exp(r), n the integer nearest x / ln 2, |r| <= ln 2 / 2.  Adding 1.5 * 2^23 to x / ln 2 leaves n in the low
 * bits of the float.  ln 2 is split in two parts; the first is short enough that n times it is exact.  Polynomial: Cephes'
 * expf, of degree 7, the first two coefficients 1.  Largest error over every 61st float from -87.3365 to -2^-25: 0.97 ulp
 * without FMA, 1.01 ulp with it, relative 2^-23.5. */
INLINE vec vec_exp_from(vec x, float from) { /* 0 for x < from */
    const vec smallest = vec_set1(from), magic = vec_set1(12582912.0f);
    const vec clamped = vec_max(smallest, vec_min(vec_set1(88.3f), x)); /* a NaN passes: it is the second operand */
    const vec t = vec_fma(clamped, vec_set1(1.44269504f), magic), n = vec_sub(t, magic);
    const vec r = vec_fma(n, vec_set1(2.12194440e-4f), vec_fma(n, vec_set1(-0.693359375f), clamped));
    vec y = vec_set1(1.9875691500e-4f);
    y = vec_fma(y, r, vec_set1(1.3981999507e-3f));
    y = vec_fma(y, r, vec_set1(8.3334519073e-3f));
    y = vec_fma(y, r, vec_set1(4.1665795894e-2f));
    y = vec_fma(y, r, vec_set1(1.6666665459e-1f));
    y = vec_fma(y, r, vec_set1(5.0000001201e-1f));
    y = vec_add(vec_fma(vec_mul(y, r), r, r), vec_set1(1));
    return vec_and_mask(vec_not_less(x, smallest), vec_ldexp(y, n));
}
INLINE vec vec_exp(vec x) {
    return vec_exp_from(x, -87.33654f);
}

INLINE void exp_row_from(float *x, int64_t n, float shift, float *sum, float from) {
    const vec by = vec_set1(shift);
    vec total = vec_set1(0);
    for (int64_t i = 0; i < n; i += LANES) {
        const vec y = vec_exp_from(vec_sub(vec_load(x + i), by), from);
        vec_store(x + i, y);
        total = vec_add(total, y);
    }
    *sum = vec_reduce_add(total);
}
KERNEL(exp_row_f32)(float *x, int64_t n, float shift, float *sum) {
    exp_row_from(x, n, shift, sum, -87.33654f);
}
KERNEL(weights_row_f32)(float *x, int64_t n, float shift, float *sum) {
    exp_row_from(x, n, shift, sum, GYRE_SMALLEST_WEIGHT_LOG);
}

KERNEL(max_row_f32)(const float *x, int64_t n, float *max) {
    /* two, because each step waits for the one before */
    vec largest[2] = {vec_set1(-__builtin_inff()), vec_set1(-__builtin_inff())};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        largest[0] = vec_max(vec_load(x + i), largest[0]);
        largest[1] = vec_max(vec_load(x + i + LANES), largest[1]);
    }
    if (i < n) largest[0] = vec_max(vec_load(x + i), largest[0]);
    *max = vec_reduce_max(vec_max(largest[0], largest[1]));
}

KERNEL(scale_row_f32)(float *x, int64_t n, float factor) {
    const vec by = vec_set1(factor);
    for (int64_t i = 0; i < n; i += LANES)
        vec_store(x + i, vec_mul(vec_load(x + i), by));
}

/* tanh(y): below 0.625 Cephes' polynomial, with relative error 2^-23; above, 1 - 2 / (exp(2 |y|) + 1) with the sign of y. */
INLINE vec vec_tanh(vec y) {
    const vec size = vec_max(vec_mul(vec_set1(-1), y), y), square = vec_mul(y, y), one = vec_set1(1);
    vec low = vec_set1(-5.70498872745e-3f);
    low = vec_fma(low, square, vec_set1(2.06390887954e-2f));
    low = vec_fma(low, square, vec_set1(-5.37397155531e-2f));
    low = vec_fma(low, square, vec_set1(1.33314422036e-1f));
    low = vec_fma(low, square, vec_set1(-3.33332819422e-1f));
    low = vec_fma(vec_mul(low, square), y, y);
    const vec high = vec_sub(one, vec_div(vec_set1(2), vec_add(vec_exp(vec_add(size, size)), one)));
    const vec signed_high = vec_select(vec_not_less(y, vec_set1(0)), high, vec_mul(vec_set1(-1), high));
    return vec_select(vec_not_less(size, vec_set1(0.625f)), signed_high, low);
}

KERNEL(softcap_row_f32)(float *x, float *slope, int64_t n, float cap) {
    const vec by = vec_set1(cap), lowest = vec_set1(-__builtin_inff()), one = vec_set1(1);
    for (int64_t i = 0; i < n; i += LANES) {
        const vec score = vec_load(x + i), t = vec_tanh(vec_div(score, by));
        const mask visible = vec_not_equal(score, lowest);
        vec_store(x + i, vec_select(visible, vec_mul(by, t), score));
        if (slope) vec_store(slope + i, vec_and_mask(visible, vec_fma(vec_mul(vec_set1(-1), t), t, one)));
    }
}

/* t >= 0 less the nearest integer, exact, in -1/2 .. 1/2.  Adding 1.5 * 2^23 rounds a number below 2^22 to an integer; of a
 * larger one the first step leaves an integer or a half, and the second the fraction of that. */
INLINE vec vec_fraction(vec t) {
    const vec magic = vec_set1(12582912.0f);
    const vec rest = vec_sub(t, vec_sub(vec_add(t, magic), magic));
    return vec_sub(rest, vec_sub(vec_add(rest, magic), magic));
}

INLINE vec vec_size(vec x) {
    return vec_max(vec_sub(vec_set1(0), x), x);
}

/* sin(2 pi u), |u| <= 1/4, with an error below 2^-22 (2^-22.5 over two million floats).  The polynomial has the least error,
 * 2^-28, of those that are 1 at 1/4, and its rounded coefficients give that 1 exactly.  Without FMA, so that every tier has
 * the same bits. */
INLINE vec vec_sine_of_turns(vec u) {
    const vec square = vec_mul(u, u);
    vec y = vec_set1(39.485924f);
    y = vec_add(vec_mul(y, square), vec_set1(-76.54338f));
    y = vec_add(vec_mul(y, square), vec_set1(81.60073f));
    y = vec_add(vec_mul(y, square), vec_set1(-41.34165f));
    y = vec_add(vec_mul(y, square), vec_set1(6.283185f));
    return vec_mul(y, u);
}

KERNEL(phase_row_f32)(const gyre_phase_row *row) {
    const vec zero = vec_set1(0), quarter = vec_set1(0.25f), half = vec_set1(0.5f), by = vec_set1(-6.28318531f);
    for (int64_t i = 0; i < row->n; i += LANES) {
        const vec x = vec_load(row->x + i), turns = vec_load(row->turns + i), t = vec_mul(turns, vec_load(row->phase + i));
        const vec rest = vec_fraction(vec_size(t)), size = vec_size(rest);
        const vec cosine = vec_sine_of_turns(vec_sub(quarter, size));
        vec_store(row->x + i, vec_mul(x, cosine));
        if (!row->cosine) continue;
        const vec sine = vec_sine_of_turns(vec_min(size, vec_sub(half, size)));
        const vec signed_sine = vec_select(vec_not_less(rest, zero), sine, vec_sub(zero, sine));
        const vec slope = vec_mul(vec_mul(vec_mul(by, turns), x), signed_sine);
        vec_store(row->cosine + i, cosine);
        vec_store(row->phase + i, vec_select(vec_not_less(t, zero), slope, vec_sub(zero, slope)));
    }
}

KERNEL(phase_gradient_row_f32)(float *dx, float *slope, const float *cosine, int64_t n) {
    const vec zero = vec_set1(0);
    for (int64_t i = 0; i < n; i += LANES) {
        const vec d = vec_load(dx + i);
        const mask some = vec_not_equal(d, zero);
        vec_store(slope + i, vec_and_mask(some, vec_mul(d, vec_load(slope + i))));
        vec_store(dx + i, vec_and_mask(some, vec_mul(d, vec_load(cosine + i))));
    }
}

INLINE void factored_columns(const gyre_factored_product *p, int64_t j, int vecs) {
    vec sum[GEMV_VECS];
    UNROLL
    for (int v = 0; v < vecs; v++)
        sum[v] = vec_set1(0);
    for (int64_t c = 0; c < p->channels; c++) {
        const float *factors = p->factors + c * p->factor_stride + j, *b = p->b + c * p->b_stride + j;
        const vec a = vec_set1(p->a[c]);
        UNROLL
        for (int v = 0; v < vecs; v++)
            sum[v] = vec_fma(vec_mul(a, vec_load(factors + v * LANES)), vec_load(b + v * LANES), sum[v]);
    }
    UNROLL
    for (int v = 0; v < vecs; v++)
        vec_store(p->out + j + v * LANES, sum[v]);
}

KERNEL(factored_product_f32)(const gyre_factored_product *p) {
    int64_t j = 0;
    for (; j + GEMV_VECS * LANES <= p->n; j += GEMV_VECS * LANES)
        factored_columns(p, j, GEMV_VECS);
    for (; j < p->n; j += LANES)
        factored_columns(p, j, 1);
}

/* One vector of channels.  Keys in a run that share a row add up before their sum goes to it, so that a row with many pairs
 * keeps its digits. */
INLINE void factored_gradient_channels(const gyre_factored_gradient *p, int64_t c) {
    const vec a = vec_load(p->a + c);
    vec da = vec_load(p->da + c);
    for (int64_t j = 0; j < p->n;) {
        const int32_t row = p->row[j];
        const int64_t of_row = row * p->channels + c;
        const vec f = vec_load(p->factors + of_row);
        vec df = vec_set1(0);
        for (; j < p->n && p->row[j] == row; j++) {
            if (p->dout[j] == 0) continue;
            const int64_t of_b = j * p->channels + c;
            const vec d = vec_set1(p->dout[j]), by_a = vec_mul(d, a), b = vec_load(p->b + of_b);
            da = vec_fma(vec_mul(d, f), b, da);
            df = vec_fma(by_a, b, df);
            vec_store(p->db + of_b, vec_fma(by_a, f, vec_load(p->db + of_b)));
        }
        vec_store(p->dfactors + of_row, vec_add(vec_load(p->dfactors + of_row), df));
    }
    vec_store(p->da + c, da);
}

KERNEL(factored_gradient_f32)(const gyre_factored_gradient *p) {
    for (int64_t c = 0; c < p->channels; c += LANES)
        factored_gradient_channels(p, c);
}

/* Plain C: compilers vectorize the inner loop, whose length they know. */
KERNEL(split_row_f64)(const double *x, double base, int64_t n, float *high, float *low) {
    for (int64_t i = 0; i < n; i += 16) {
        const double *restrict from = x + i;
        float *restrict h = high + i, *restrict l = low + i;
        for (int j = 0; j < 16; j++) {
            const double difference = from[j] - base;
            h[j] = (float)difference;
            l[j] = (float)(difference - (double)h[j]);
        }
    }
}

KERNEL(difference_row_f32)(float *x, int64_t n, const gyre_differences *by) {
    const vec high = vec_set1(by->from_high), low = vec_set1(by->from_low);
    for (int64_t i = 0; i < n; i += LANES) {
        const vec difference = vec_add(vec_sub(high, vec_load(by->high + i)), vec_sub(low, vec_load(by->low + i)));
        vec_store(x + i, vec_add(vec_load(x + i), difference));
    }
}

KERNEL(dot_row_f32)(const float *a, const float *b, int64_t n, float *sum) {
    vec total = vec_set1(0);
    for (int64_t i = 0; i < n; i += LANES)
        total = vec_fma(vec_load(a + i), vec_load(b + i), total);
    *sum = vec_reduce_add(total);
}

KERNEL(softmax_gradient_row_f32)(const float *p, float *dp, int64_t n, float delta) {
    const vec less = vec_set1(delta), zero = vec_set1(0);
    for (int64_t i = 0; i < n; i += LANES) {
        const vec weight = vec_load(p + i);
        vec_store(dp + i, vec_and_mask(vec_not_equal(weight, zero), vec_mul(weight, vec_sub(vec_load(dp + i), less))));
    }
}

/* !(0 < x) holds for a NaN too, whose product with the slope is one. */
KERNEL(leaky_relu_row_f32)(float *x, float *y, int64_t n, float bias, float slope) {
    const vec by = vec_set1(slope), shift = vec_set1(bias), zero = vec_set1(0);
    for (int64_t i = 0; i < n; i += LANES) {
        const vec unit = vec_add(vec_load(x + i), shift);
        if (x != y) vec_store(x + i, unit);
        vec_store(y + i, vec_select(vec_not_less(zero, unit), vec_mul(by, unit), unit));
    }
}
KERNEL(leaky_relu_gradient_row_f32)(const float *x, float *dy, int64_t n, float slope) {
    const vec by = vec_set1(slope), zero = vec_set1(0);
    for (int64_t i = 0; i < n; i += LANES) {
        const vec gradient = vec_load(dy + i);
        vec_store(dy + i, vec_select(vec_not_less(zero, vec_load(x + i)), vec_mul(by, gradient), gradient));
    }
}

KERNEL(finite_row_f32)(const float *x, int64_t n, int *finite) {
    vec sum = vec_set1(0); /* 0 x is 0 for a finite x, NaN otherwise */
    for (int64_t i = 0; i < n; i += LANES)
        sum = vec_fma(vec_load(x + i), vec_set1(0), sum);
    *finite = vec_reduce_add(sum) == 0;
}

/* steady: row numbers of LANES neighbouring columns differ by less than LANES, so one load covers their entries and a
 * permutation distributes them.  The load may read LANES - 1 entries past the last one needed. */
INLINE void gather_add_row(float *restrict to, const float *restrict from, const int32_t *restrict row, int64_t n,
                           int steady) {
    int64_t j = 0;
    for (; steady && j + LANES <= n; j += LANES) {
        const int32_t first = row[j], last = row[j + LANES - 1], low = first < last ? first : last;
        vec_store(to + j, vec_add(vec_load(to + j), vec_permute(from + low, row + j, low)));
    }
    for (; j < n; j++)
        to[j] += from[row[j]];
}

KERNEL(gather_add_f32)(const gyre_gather_add *p) {
    for (int64_t l = 0; l < p->lines && p->n > 0; l++) {
        float *restrict to = p->to + l * p->to_row_stride;
        const float *restrict from = p->from + l * p->from_row_stride;
        const int64_t at = p->offset ? p->offset[l] : 0;
        if (!p->row)
            for (int64_t j = 0; j < p->n; j++)
                to[j] += from[at + j];
        else if (p->step == 0)
            gather_add_row(to, from - p->base, p->row + at, p->n, p->steady);
        else
            for (int64_t j = 0; j < p->n; j++)
                to[j] += from[(p->row[at + j] - p->base) * p->step + j];
    }
}

KERNEL(transpose_f32)(const gyre_transpose *t) {
    for (int64_t r = 0; r < t->rows; r += TRANSPOSE)
        for (int64_t c = 0; c < t->columns; c += TRANSPOSE)
            transpose_square(t->in + r * t->in_row_stride + c, t->in_row_stride, t->out + c * t->out_row_stride + r,
                             t->out_row_stride);
}

/* -- the tier's table -- */
#define TILES_F32                                                                                                           \
    { PRODUCT_ROWS, PRODUCT_OUTS, 1, GYRE_PRODUCT_BLOCK, LANES, sizeof(float), sizeof(float) }
#ifndef TILES_BF16 /* widened when they are packed */
#define TILES_BF16         TILES_F32
#define TILES_ROUNDED_BF16 TILES_F32
#endif
static const gyre_kernels all_kernels = {
    .tier = TIER_TEXT,
    .lanes = LANES,
    .tiles_f32 = TILES_F32,
    .tiles_bf16 = TILES_BF16,
    .tiles_rounded_bf16 = TILES_ROUNDED_BF16,
    .matmul_rows = MATMUL_BLOCK_ROWS,
    .matmul_columns = MATMUL_BLOCK_VECS * LANES < 16 ? 16 : MATMUL_BLOCK_VECS * LANES,
#define KERNEL_LIST "kernels/kernels.def"
#include "kernels/places/fill_table.def"
};
const gyre_kernels *const NAME_IN(tier, TIER) = &all_kernels;

#endif
