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

/* A sum of n products: a[i * a_step] b[i * b_step]. */
typedef struct double_sum {
    const float *a, *b;
    int64_t n, a_step, b_step;
    double before;
} double_sum;

/* out = |value - exact| as a fraction of gamma_(n + 2) (sum |a b| + |before|). */
static long double share_of_bound(float value, const double_sum *s) {
    const double gamma = (double)(s->n + 2) * 0x1p-24 * 1.001;
    double exact = s->before, sum = fabs(s->before);
    for (int64_t i = 0; i < s->n; i++) {
        const double product = (double)s->a[i * s->a_step] * (double)s->b[i * s->b_step];
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

static long double check_forward(const linear_case *c, linear_data *d, const gyre_linear_work *work) {
    float *before = copy_of(&d->y);
    long double worst = 0;
    gyre_linear_forward(&d->map, work, d->x.data, c->accumulate, d->y.data);
    for (int64_t i = 0; i < c->rows * c->out; i++) {
        const int64_t row = i / c->out, o = i % c->out;
        const double_sum sum = {
            d->x.data + row * c->in, d->w.data + o * c->in, c->in, 1, 1, c->accumulate ? (double)before[i] : 0};
        worst = fmaxl(worst, share_of_bound(d->y.data[i], &sum));
    }
    free(before);
    return worst;
}

static long double check_input_gradient(const linear_case *c, linear_data *d, const gyre_linear_work *work) {
    float *before = copy_of(&d->dx);
    long double worst = 0;
    gyre_linear_input_gradient(&d->map, work, d->dy.data, c->accumulate, d->dx.data);
    for (int64_t i = 0; i < c->rows * c->in; i++) {
        const double_sum sum = {d->dy.data + i / c->in * c->out,      d->w.data + i % c->in, c->out, 1, c->in,
                                c->accumulate ? (double)before[i] : 0};
        worst = fmaxl(worst, share_of_bound(d->dx.data[i], &sum));
    }
    free(before);
    return worst;
}

static long double check_weight_gradient(const linear_case *c, linear_data *d, const gyre_linear_work *work) {
    float *before = copy_of(&d->dw);
    long double worst = 0;
    gyre_linear_weight_gradient(&d->map, work, d->x.data, d->dy.data, d->dw.data);
    for (int64_t i = 0; i < c->out * c->in; i++) {
        const double_sum sum = {d->dy.data + i / c->in, d->x.data + i % c->in, c->rows, c->out, c->in, (double)before[i]};
        worst = fmaxl(worst, share_of_bound(d->dw.data[i], &sum));
    }
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
        worst = fmaxl(worst, check_forward(&cases[i], &d, &work));
        worst = fmaxl(worst, check_input_gradient(&cases[i], &d, &work));
        worst = fmaxl(worst, check_weight_gradient(&cases[i], &d, &work));
        free_data(&d);
    }
    report_fraction("linear", kernels, worst);
}

int main(void) {
    const struct CMUnitTest tests[] = {FOR_TIERS(maps_within_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
