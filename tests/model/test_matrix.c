/* test_matrix.c: products with stored weights against double, on every tier, for every type, from one row to many. */
#include "guarded_memory.h"
#include "make_quant_blocks.h"

#include "run_each_tier.h"

#include "model/ops/float_buffer.h"
#include "model/ops/matrix.h"
#include <float.h>
#include <stdlib.h>

enum { MOST_ROWS = 40, GUARD = 3 };
static const float CANARY = -12345.25f;

/* -- weights -- */
typedef struct weights {
    gyre_matrix w;
    size_t bytes;
    float *numbers; /* [out][in] */
} weights;

static int is_plain(gyre_stored_type type) {
    return type <= GYRE_STORED_BF16;
}
static gyre_dtype dtype_of(gyre_stored_type type) {
    return type == GYRE_STORED_F32 ? GYRE_DTYPE_F32 : type == GYRE_STORED_F16 ? GYRE_DTYPE_F16 : GYRE_DTYPE_BF16;
}

/* A matrix that ends at a page without access. The values of blocks come from the library's widening, which has its own
 * tests; other types are read by test code. */
static weights make_weights(test_random *random, gyre_stored_type type, int64_t out, int64_t in) {
    weights m = {.w = {type, NULL, out, in, gyre_stored_row_bytes(type, in)}};
    m.bytes = (size_t)(out * m.w.row_bytes);
    unsigned char *data = guarded(m.bytes);
    m.w.data = data;
    m.numbers = malloc((size_t)(out * in) * sizeof(float));
    assert_non_null(m.numbers);
    if (!is_plain(type)) {
        const quant_format *format = &quant_formats[type - GYRE_STORED_Q8_0];
        fill_quant_blocks(random, format, 1.0 / 64, (int64_t)m.bytes / format->bytes, data);
    }
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; is_plain(type) && i < in; i++) {
            test_put(data, dtype_of(type), (size_t)(o * in + i), test_uniform(random));
            m.numbers[o * in + i] = (float)test_get(data, dtype_of(type), (size_t)(o * in + i));
        }
    for (int64_t o = 0; o < out && !is_plain(type); o++)
        gyre_stored_dequantize(gyre_kernels_tier("scalar"), type, data + o * m.w.row_bytes, m.numbers + o * in, in);
    return m;
}
static void free_weights(weights *m) {
    unguard((void *)(uintptr_t)m->w.data, m->bytes);
    free(m->numbers);
}

/* -- products -- */
typedef struct product_case {
    gyre_stored_type type;
    int64_t out, in, x_gap, y_gap;
    int bias, add;
} product_case;

typedef struct product_data {
    weights m;
    float *x, *bias, *before, *y; /* y: GUARD floats before and after do not belong to it */
    int64_t rows, x_row_stride, y_row_stride;
    size_t y_count;
} product_data;

static float *random_floats(test_random *random, int64_t n) {
    float *out = malloc((size_t)(n > 0 ? n : 1) * sizeof *out);
    assert_non_null(out);
    test_fill(random, out, (size_t)n);
    return out;
}

/* x ends at a page without access, right after its last row, with NaNs between rows. */
static product_data make_data(test_random *random, const product_case *c, int64_t rows) {
    product_data d = {.m = make_weights(random, c->type, c->out, c->in), .rows = rows};
    d.x_row_stride = c->in + c->x_gap;
    d.y_row_stride = c->out + c->y_gap;
    d.y_count = (size_t)(rows * d.y_row_stride) + 2 * GUARD;
    d.x = guarded((size_t)(rows * d.x_row_stride - c->x_gap) * sizeof(float));
    for (int64_t i = 0; i < rows * d.x_row_stride - c->x_gap; i++)
        d.x[i] = i % d.x_row_stride < c->in ? (float)test_uniform(random) : NAN;
    d.bias = random_floats(random, c->out);
    d.before = random_floats(random, rows * c->out);
    d.y = malloc(d.y_count * sizeof *d.y);
    assert_non_null(d.y);
    return d;
}
static void free_data(product_data *d) {
    unguard(d->x, (size_t)((d->rows - 1) * d->x_row_stride + d->m.w.in) * sizeof(float));
    free_weights(&d->m);
    free(d->bias);
    free(d->before);
    free(d->y);
}

/* Computes y with an exec of that concurrency (0 = none) and scratch of exactly the requested size. */
static void run_product(const product_case *c, product_data *d, int64_t rows, const gyre_kernels *kernels, gyre_exec *exec) {
    const int width = exec ? (int)exec->concurrency : 1;
    const int64_t floats = gyre_gemm_scratch(&d->m.w, rows, width);
    float *scratch = gyre_alloc_floats(floats + GUARD);
    assert_non_null(scratch);
    for (int i = 0; i < GUARD; i++)
        scratch[floats + i] = CANARY;
    for (size_t i = 0; i < d->y_count; i++)
        d->y[i] = CANARY;
    float *y = d->y + GUARD;
    for (int64_t i = 0; i < rows * c->out; i++)
        y[i / c->out * d->y_row_stride + i % c->out] = c->add ? d->before[i] : NAN;
    const gyre_gemm p = {&d->m.w, c->bias ? d->bias : NULL, d->x, y, rows, d->x_row_stride, d->y_row_stride, c->add};
    gyre_gemm_run(&p, kernels, scratch, exec);
    for (int i = 0; i < GUARD; i++)
        assert_true(scratch[floats + i] == CANARY);
    free(scratch);
}

/* |y - exact| <= gamma_(in + 3) (sum |x w| + |bias| + |y before|), and nothing written outside the outputs. */
static long double check_product(const product_case *c, const product_data *d, int64_t rows) {
    double worst = 0;
    const double gamma = (double)(c->in + 3) * 0x1p-24 * 1.001;
    for (size_t i = 0; i < d->y_count; i++) {
        const int64_t at = (int64_t)i - GUARD, r = at / d->y_row_stride, o = at % d->y_row_stride;
        if (at < 0 || r >= rows || o >= c->out) {
            assert_true(d->y[i] == CANARY);
            continue;
        }
        const float *x = d->x + r * d->x_row_stride, *w = d->m.numbers + o * c->in;
        const double biased = c->bias ? (double)d->bias[o] : 0, before = c->add ? (double)d->before[r * c->out + o] : 0;
        double exact = biased + before, sum = fabs(biased) + fabs(before);
        for (int64_t k = 0; k < c->in; k++) {
            exact += (double)x[k] * (double)w[k];
            sum += fabs((double)x[k] * (double)w[k]);
        }
        const double share = fabs((double)d->y[i] - exact) / (gamma * sum + DBL_MIN);
        worst = share <= worst ? worst : isnan(share) ? INFINITY : share;
    }
    return worst;
}

/* Every remainder of the kernels' blocks, of tasks with few rows and with many; one task, and several. */
static const product_case cases[] = {
    {GYRE_STORED_F32, 1, 1, 0, 0, 0, 0},      {GYRE_STORED_F32, 70, 7, 2, 3, 1, 0},
    {GYRE_STORED_F32, 17, 33, 0, 0, 0, 1},    {GYRE_STORED_F32, 201, 257, 5, 1, 1, 1},
    {GYRE_STORED_F16, 3, 1, 0, 2, 1, 1},      {GYRE_STORED_F16, 201, 7, 0, 0, 0, 0},
    {GYRE_STORED_F16, 64, 33, 1, 0, 1, 0},    {GYRE_STORED_F16, 66, 257, 0, 7, 0, 1},
    {GYRE_STORED_BF16, 2, 1, 3, 0, 0, 1},     {GYRE_STORED_BF16, 65, 7, 0, 1, 1, 1},
    {GYRE_STORED_BF16, 195, 33, 2, 2, 0, 0},  {GYRE_STORED_BF16, 31, 257, 0, 0, 1, 0},
    {GYRE_STORED_Q8_0, 67, 32, 0, 1, 0, 0},   {GYRE_STORED_Q8_0, 5, 96, 3, 0, 1, 1},
    {GYRE_STORED_Q4_0, 197, 64, 1, 2, 1, 0},  {GYRE_STORED_Q4_0, 6, 352, 0, 0, 0, 1},
    {GYRE_STORED_Q4_K, 66, 256, 0, 0, 1, 1},  {GYRE_STORED_Q4_K, 3, 768, 1, 4, 0, 0},
    {GYRE_STORED_Q5_K, 69, 256, 2, 0, 0, 1},  {GYRE_STORED_Q5_K, 2, 512, 0, 3, 1, 0},
    {GYRE_STORED_Q6_K, 193, 256, 0, 1, 0, 0}, {GYRE_STORED_Q6_K, 7, 512, 5, 0, 1, 1},
    {GYRE_STORED_F32, 29, 769, 0, 0, 1, 1},   {GYRE_STORED_F16, 7, 1537, 3, 0, 0, 0},
    {GYRE_STORED_BF16, 50, 2000, 0, 1, 0, 1}, {GYRE_STORED_Q8_0, 26, 1568, 0, 0, 1, 0},
    {GYRE_STORED_Q4_0, 9, 800, 0, 0, 0, 0},   {GYRE_STORED_Q4_K, 13, 1792, 0, 2, 1, 1},
    {GYRE_STORED_Q5_K, 4, 1024, 0, 0, 0, 1},  {GYRE_STORED_Q6_K, 25, 1024, 1, 0, 0, 0},
    {GYRE_STORED_Q4_1, 70, 96, 0, 1, 0, 0},   {GYRE_STORED_Q5_0, 35, 832, 1, 0, 1, 1},
    {GYRE_STORED_Q5_1, 67, 64, 0, 0, 0, 1},   {GYRE_STORED_Q2_K, 9, 1024, 2, 0, 1, 0},
    {GYRE_STORED_Q3_K, 66, 256, 0, 3, 0, 0},  {GYRE_STORED_IQ4_NL, 33, 160, 0, 0, 1, 1},
    {GYRE_STORED_IQ4_XS, 5, 768, 1, 1, 0, 0}, {GYRE_STORED_MXFP4, 68, 800, 0, 0, 1, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

static void products_within_bound(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    test_random random = {71};
    long double worst = 0;
    for (int i = 0; i < CASES; i++) {
        product_data d = make_data(&random, &cases[i], MOST_ROWS);
        for (int64_t rows = 1; rows <= MOST_ROWS; rows += cases[i].in > 200 && rows > 20 ? 7 : 1) {
            run_product(&cases[i], &d, rows, kernels, NULL);
            worst = fmaxl(worst, check_product(&cases[i], &d, rows));
        }
        free_data(&d);
    }
    report_fraction("product", kernels, worst);
}

/* Without a row, or without a matrix, nothing happens. */
static void empty_products(void **state) {
    (void)state;
    test_random random = {72};
    const product_case c = {GYRE_STORED_F32, 5, 8, 0, 0, 0, 0};
    product_data d = make_data(&random, &c, 2);
    run_product(&c, &d, 0, gyre_kernels_select(), NULL);
    check_product(&c, &d, 0);
    const gyre_matrix none = {.type = GYRE_STORED_F32};
    const gyre_gemm p = {&none, NULL, d.x, d.y, 2, 8, 5, 0};
    assert_int_equal(gyre_gemm_scratch(&none, 2, 2), 0);
    gyre_gemm_run(&p, gyre_kernels_select(), NULL, NULL);
    check_product(&c, &d, 0);
    free_data(&d);
}

/* -- bits -- */
static void same_bits_on_any_threads(void **state) {
    (void)state;
    const gyre_kernels *kernels = gyre_kernels_select();
    test_random random = {73};
    for (int i = 0; i < CASES; i++)
        for (int64_t rows = 1; rows <= MOST_ROWS; rows += 13) {
            product_data d = make_data(&random, &cases[i], rows);
            run_product(&cases[i], &d, rows, kernels, NULL);
            float *alone = malloc(d.y_count * sizeof *alone);
            assert_non_null(alone);
            memcpy(alone, d.y, d.y_count * sizeof *alone);
            for (int threads = 1; threads <= 3; threads++) {
                gyre_pool *pool = NULL;
                assert_ok(gyre_pool_create(&pool, threads, NULL));
                gyre_exec exec = gyre_pool_exec(pool);
                run_product(&cases[i], &d, rows, kernels, &exec);
                assert_memory_equal(alone, d.y, d.y_count * sizeof *alone);
                gyre_pool_free(pool);
            }
            free(alone);
            free_data(&d);
        }
}

/* Rows first .. first + n - 1 of d alone have the bits they have among all. */
static void check_part(const product_case *c, product_data *d, const float *together, int64_t first, int64_t n,
                       const gyre_kernels *kernels) {
    float *x = d->x, *before = d->before;
    d->x += first * d->x_row_stride;
    d->before += first * c->out;
    run_product(c, d, n, kernels, NULL);
    for (int64_t r = 0; r < n; r++)
        assert_memory_equal(together + GUARD + (first + r) * d->y_row_stride, d->y + GUARD + r * d->y_row_stride,
                            (size_t)c->out * sizeof *together);
    d->x = x;
    d->before = before;
}

/* More rows than are packed at once, cut anywhere: one row, a few (the kernels of decoding), or many. */
static void same_bits_however_rows_are_cut(void **state) {
    enum { ROWS = 230, CUTS = 6 };
    const gyre_kernels *kernels = tier_or_skip(*state);
    test_random random = {74};
    for (int i = 0; i < CASES; i++) {
        product_data d = make_data(&random, &cases[i], ROWS);
        float *together = malloc(d.y_count * sizeof *together);
        assert_non_null(together);
        run_product(&cases[i], &d, ROWS, kernels, NULL);
        memcpy(together, d.y, d.y_count * sizeof *together);
        for (int64_t n = 1; n <= 18; n += 4)
            check_part(&cases[i], &d, together, (int64_t)(test_next(&random) >> 33) % (ROWS - n), n, kernels);
        for (int cut = 0; cut < CUTS; cut++) {
            const int64_t n = 1 + (int64_t)(test_next(&random) >> 33) % ROWS;
            check_part(&cases[i], &d, together, (int64_t)(test_next(&random) >> 33) % (ROWS - n + 1), n, kernels);
        }
        free(together);
        free_data(&d);
    }
}

/* Products that round to -0 leave the same zero with one row as with many. */
static void same_zeros(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    const product_case c = {GYRE_STORED_F32, 20, 40, 0, 0, 0, 0};
    test_random random = {77};
    product_data d = make_data(&random, &c, 9);
    for (int64_t i = 0; i < d.rows * c.in; i++)
        d.x[i] = -1e-30F;
    for (int64_t i = 0; i < c.out * c.in; i++)
        ((float *)(uintptr_t)d.m.w.data)[i] = 1e-30F;
    run_product(&c, &d, d.rows, kernels, NULL);
    float together[GUARD + 9 * 20];
    memcpy(together, d.y, sizeof together);
    check_part(&c, &d, together, 4, 1, kernels);
    free_data(&d);
}

/* Ten products at once, more than one round takes, of every type, with few and many rows: the same bits as one by one. */
static void several_products_at_once(void **state) {
    (void)state;
    enum { PRODUCTS = 10 };
    const gyre_kernels *kernels = gyre_kernels_select();
    test_random random = {75};
    gyre_pool *pool = NULL;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    gyre_exec exec = gyre_pool_exec(pool);
    product_data d[PRODUCTS];
    gyre_gemm products[PRODUCTS];
    float *alone[PRODUCTS];
    int64_t floats = 0;
    for (int i = 0; i < PRODUCTS; i++) {
        product_case c = cases[i * CASES / PRODUCTS];
        c.add = 0;
        d[i] = make_data(&random, &c, i % 3 ? 1 + i : 20 + i);
        run_product(&c, &d[i], d[i].rows, kernels, NULL);
        alone[i] = malloc(d[i].y_count * sizeof(float));
        assert_non_null(alone[i]);
        memcpy(alone[i], d[i].y, d[i].y_count * sizeof(float));
        for (size_t j = 0; j < d[i].y_count; j++)
            d[i].y[j] = CANARY;
        products[i] = (gyre_gemm){&d[i].m.w,         c.bias ? d[i].bias : NULL, d[i].x, d[i].y + GUARD, d[i].rows,
                                  d[i].x_row_stride, d[i].y_row_stride,         0};
        const int64_t most = gyre_gemm_scratch(&d[i].m.w, d[i].rows, 3);
        floats = most > floats ? most : floats;
    }
    float *scratch = gyre_alloc_floats(floats);
    assert_non_null(scratch);
    gyre_gemm_run_many(products, PRODUCTS, kernels, scratch, &exec);
    for (int i = 0; i < PRODUCTS; i++) {
        assert_memory_equal(alone[i], d[i].y, d[i].y_count * sizeof(float));
        free(alone[i]);
        free_data(&d[i]);
    }
    free(scratch);
    gyre_pool_free(pool);
}

static void rows_are_widened(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    test_random random = {76};
    for (int i = 0; i < CASES; i++) {
        weights m = make_weights(&random, cases[i].type, cases[i].out, cases[i].in);
        float *row = malloc((size_t)cases[i].in * sizeof *row);
        assert_non_null(row);
        for (int64_t o = 0; o < m.w.out; o++) {
            gyre_matrix_row(&m.w, kernels, o, row);
            assert_memory_equal(row, m.numbers + o * m.w.in, (size_t)m.w.in * sizeof *row);
        }
        free(row);
        free_weights(&m);
    }
}

/* A few MiB per thread, for any matrix. */
static void scratch_is_bounded(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{32000, 768},  {768, 2048},   {151936, 896},
                                       {4096, 14336}, {8192, 28672}, {262144, 2304}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int type = GYRE_STORED_F32; type < GYRE_STORED_OTHER; type++) {
            const gyre_matrix w = {(gyre_stored_type)type, NULL, sizes[i][0], sizes[i][1],
                                   gyre_stored_row_bytes((gyre_stored_type)type, sizes[i][1])};
            assert_true(gyre_gemm_scratch(&w, 2048, 1) * 4 <= 4 << 20);
            assert_int_equal(gyre_gemm_scratch(&w, 2048, 2), 2 * gyre_gemm_scratch(&w, 2048, 1));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {FOR_TIERS(products_within_bound),
                                       cmocka_unit_test(empty_products),
                                       cmocka_unit_test(same_bits_on_any_threads),
                                       FOR_TIERS(same_bits_however_rows_are_cut),
                                       FOR_TIERS(same_zeros),
                                       cmocka_unit_test(several_products_at_once),
                                       FOR_TIERS(rows_are_widened),
                                       cmocka_unit_test(scratch_is_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
