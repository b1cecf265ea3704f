/* test_linear.c: the linear maps of training, forward and gradients, against double, on every tier. */
#include "guarded_memory.h"

#include "run_each_tier.h"

#include "model/ops/float_buffer.h"
#include "model/ops/linear.h"
#include <float.h>
#include <stdlib.h>

typedef struct linear_case {
    int64_t rows, in, out;
    int accumulate;
} linear_case;

/* Every remainder of tiles, panels and blocks of channels and rows. */
static const linear_case cases[] = {{1, 1, 1, 0},     {3, 5, 7, 1},      {16, 16, 16, 0},  {17, 33, 31, 1},
                                    {64, 48, 130, 0}, {130, 20, 9, 1},   {9, 513, 40, 0},  {40, 770, 65, 1},
                                    {200, 97, 12, 0}, {5, 1040, 300, 1}, {257, 129, 2, 1}, {2, 32, 1030, 0}};
enum { CASES = sizeof cases / sizeof *cases };
static const float CANARY = -12345.25f;

/* Memory that ends at a page without access. */
typedef struct buffer {
    float *data;
    size_t bytes;
} buffer;

static buffer make(test_random *random, int64_t count) {
    buffer b = {.bytes = (size_t)count * sizeof(float)};
    b.data = guarded(b.bytes);
    test_fill(random, b.data, (size_t)count);
    return b;
}
static void release(buffer *b) {
    unguard(b->data, b->bytes);
}

/* Result (i, j) is the sum over k < n of a[i a_row_stride + k a_step] b[j b_row_stride + k b_step]. */
typedef struct expected_product {
    int64_t rows, columns, n;
    const float *a;
    int64_t a_row_stride, a_step;
    const float *b;
    int64_t b_row_stride, b_step;
    int accumulate;
} expected_product;

/* out = |value - exact| of result (i, j) as a fraction of gamma_(n + 2) (sum |a b| + |before|). */
static long double share_of_bound(const expected_product *p, int64_t i, int64_t j, float value, float before) {
    const double gamma = (double)(p->n + 2) * 0x1p-24 * 1.001;
    double exact = p->accumulate ? (double)before : 0, sum = fabs(exact);
    for (int64_t k = 0; k < p->n; k++) {
        const double a = (double)p->a[i * p->a_row_stride + k * p->a_step];
        const double product = a * (double)p->b[j * p->b_row_stride + k * p->b_step];
        exact += product;
        sum += fabs(product);
    }
    const double share = fabs((double)value - exact) / (gamma * sum + DBL_MIN);
    return isnan(share) ? INFINITY : share;
}

typedef struct linear_data {
    buffer x, w, dy, y, dx, dw; /* results hold what they had before */
    gyre_linear map;
    float *scratch;
    int64_t scratch_floats;
} linear_data;

static linear_data make_data(test_random *random, const linear_case *c) {
    linear_data d = {.x = make(random, c->rows * c->in),
                     .w = make(random, c->out * c->in),
                     .dy = make(random, c->rows * c->out),
                     .y = make(random, c->rows * c->out),
                     .dx = make(random, c->rows * c->in),
                     .dw = make(random, c->out * c->in)};
    d.map = (gyre_linear){d.w.data, c->rows, c->in, c->out};
    d.scratch_floats = gyre_linear_scratch(c->rows, c->in);
    d.scratch = gyre_alloc_floats(d.scratch_floats + 1);
    assert_non_null(d.scratch);
    d.scratch[d.scratch_floats] = CANARY;
    return d;
}
static void free_data(linear_data *d) {
    assert_true(d->scratch[d->scratch_floats] == CANARY);
    release(&d->x), release(&d->w), release(&d->dy), release(&d->y), release(&d->dx), release(&d->dw);
    free(d->scratch);
}

static float *copy_of(const buffer *b) {
    float *copy = malloc(b->bytes);
    assert_non_null(copy);
    memcpy(copy, b->data, b->bytes);
    return copy;
}

typedef enum linear_call { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, CALLS } linear_call;

static expected_product expected_of(linear_call call, const linear_case *c, const linear_data *d) {
    const int64_t rows = c->rows, in = c->in, out = c->out;
    if (call == FORWARD) return (expected_product){rows, out, in, d->x.data, in, 1, d->w.data, in, 1, c->accumulate};
    if (call == INPUT_GRADIENT)
        return (expected_product){rows, in, out, d->dy.data, out, 1, d->w.data, 1, in, c->accumulate};
    return (expected_product){out, in, rows, d->dy.data, 1, out, d->x.data, 1, in, 1};
}

static void run(linear_call call, const linear_case *c, linear_data *d, const gyre_linear_work *work) {
    if (call == FORWARD)
        gyre_linear_forward(&d->map, work, d->x.data, c->accumulate, d->y.data);
    else if (call == INPUT_GRADIENT)
        gyre_linear_input_gradient(&d->map, work, d->dy.data, c->accumulate, d->dx.data);
    else
        gyre_linear_weight_gradient(&d->map, work, d->x.data, d->dy.data, d->dw.data);
}

static long double check(linear_call call, const linear_case *c, linear_data *d, const gyre_linear_work *work) {
    const buffer *result = call == FORWARD ? &d->y : call == INPUT_GRADIENT ? &d->dx : &d->dw;
    const expected_product p = expected_of(call, c, d);
    float *before = copy_of(result);
    long double worst = 0;
    run(call, c, d, work);
    for (int64_t i = 0; i < p.rows * p.columns; i++)
        worst = fmaxl(worst, share_of_bound(&p, i / p.columns, i % p.columns, result->data[i], before[i]));
    free(before);
    return worst;
}

static void maps_within_bound(void **state) {
    const gyre_kernels *kernels = tier_or_skip(*state);
    test_random random = {91};
    long double worst = 0;
    for (int i = 0; i < CASES; i++) {
        linear_data d = make_data(&random, &cases[i]);
        const gyre_linear_work work = {kernels, d.scratch};
        for (int call = 0; call < CALLS; call++)
            worst = fmaxl(worst, check((linear_call)call, &cases[i], &d, &work));
        free_data(&d);
    }
    report_fraction("linear", kernels, worst);
}

int main(void) {
    const struct CMUnitTest tests[] = {FOR_TIERS(maps_within_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
