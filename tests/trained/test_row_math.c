/* test_row_math.c: cos, sin, softplus and sigmoid of rows against long double, and bits that no processor changes. */
#include "support.h"
#include "trained/row_math.h"

#include <math.h>
#include <string.h>

enum { N = 1000 };
static const double NUMBERS[] = {0,    -0.0,  1e-300, -1e-300, 0x1p-1074, 0.5, -0.5,  0.8813735870195430, -0.88137358701954,
                                 36.5, -36.5, 699.9,  -699.9,  700.1,     1e4, -700.1};
enum { NUMBER_COUNT = sizeof NUMBERS / sizeof *NUMBERS };

/* Uniform in +-2^lowest .. +-2^highest, with some multiples of a quarter turn, near which cos or sin is small. */
static void draw(test_random *random, double lowest, double highest, double *x) {
    for (int i = 0; i < N; i++) {
        const double u = (double)(test_next(random) % 1000001) / 1000000, scale = exp2(lowest + u * (highest - lowest));
        const double v = (double)(test_next(random) % 2000001) / 1000000 - 1;
        x[i] = i % 5 == 0 ? rint(v * scale) * 1.5707963267948966 : v * scale;
    }
}

static void angles_are_right(void **state) {
    (void)state;
    test_random random = {1};
    double x[N], c[N], s[N];
    for (int round = 0; round < 200; round++) {
        draw(&random, -9, 30.9, x);
        gyre_row_cos_sin(x, N, c, s);
        for (int i = 0; i < N; i++) {
            assert_true(fabsl((long double)c[i] - cosl((long double)x[i])) <= 0x1.6ap-53L);
            assert_true(fabsl((long double)s[i] - sinl((long double)x[i])) <= 0x1.6ap-53L);
        }
    }
}

static void check_magnitudes(const double *x, int n) {
    double plus[N], slope[N];
    gyre_row_softplus(x, n, plus);
    gyre_row_sigmoid(x, n, slope);
    for (int i = 0; i < n; i++) {
        const long double e = expl(-fabsl((long double)x[i])), above = x[i] > 0 ? (long double)x[i] : 0;
        const long double p = above + log1pl(e), g = (x[i] > 0 ? 1 : e) / (1 + e);
        assert_true(fabsl((long double)plus[i] - p) <= 0x1.6ap-52L * p);
        assert_true(fabsl((long double)slope[i] - g) <= 0x1p-51L * g);
    }
}

static void magnitudes_are_right(void **state) {
    (void)state;
    test_random random = {2};
    double x[N];
    for (int round = 0; round < 200; round++) {
        draw(&random, -9, 8.4, x);
        check_magnitudes(x, N);
    }
    check_magnitudes(NUMBERS, NUMBER_COUNT);
}

static void ends_are_those_of_the_functions(void **state) {
    (void)state;
    const double x[] = {0, -0.0, NAN, INFINITY, -INFINITY, 0x1p31, 1e300};
    enum { COUNT = sizeof x / sizeof *x };
    double c[COUNT], s[COUNT];
    gyre_row_cos_sin(x, COUNT, c, s);
    for (int i = 0; i < 2; i++)
        assert_true(c[i] == 1 && s[i] == 0);
    for (int i = 2; i < 5; i++)
        assert_true(isnan(c[i]) && isnan(s[i]));
    for (int i = 5; i < 7; i++)
        assert_true(c[i] == cos(x[i]) && s[i] == sin(x[i]));
    gyre_row_softplus(x, COUNT, c);
    gyre_row_sigmoid(x, COUNT, s);
    assert_true(isnan(c[2]) && isnan(s[2]));
    assert_true(c[3] == INFINITY && s[3] == 1);
    assert_true(c[4] == 0 && s[4] == 0);
    assert_true(c[6] == 1e300 && s[6] == 1);
}

/* A number has the same result anywhere in a row, and where the row becomes its result. */
static void bits_do_not_depend_on_the_row(void **state) {
    (void)state;
    test_random random = {3};
    double x[N], whole[4][N], part[4][N];
    draw(&random, -9, 11, x);
    memcpy(x, NUMBERS, sizeof NUMBERS);
    gyre_row_cos_sin(x, N, whole[0], whole[1]);
    gyre_row_softplus(x, N, whole[2]);
    gyre_row_sigmoid(x, N, whole[3]);
    for (int first = 0, n; first < N; first += n) {
        n = (int)(test_next(&random) % 9) + 1;
        if (n > N - first) n = N - first;
        memcpy(part[2] + first, x + first, (size_t)n * sizeof *x);
        memcpy(part[3] + first, x + first, (size_t)n * sizeof *x);
        gyre_row_cos_sin(x + first, n, part[0] + first, part[1] + first);
        gyre_row_softplus(part[2] + first, n, part[2] + first);
        gyre_row_sigmoid(part[3] + first, n, part[3] + first);
    }
    assert_memory_equal(part, whole, sizeof whole);
}

/* FNV-1a of the bits of the results for numbers that need no libm.  The value is that of x86-64 with gcc; other processors
 * and compilers must come to it. */
static void bits_do_not_depend_on_the_processor(void **state) {
    (void)state;
    double x[N], y[4][N];
    uint64_t hash = UINT64_C(14695981039346656037), bits;
    for (int i = 0; i < N; i++)
        x[i] = (i - 500) * (1.25 + i * 0x1p-13);
    gyre_row_cos_sin(x, N, y[0], y[1]);
    gyre_row_softplus(x, N, y[2]);
    gyre_row_sigmoid(x, N, y[3]);
    for (int i = 0; i < 4 * N; i++) {
        memcpy(&bits, &y[i / N][i % N], sizeof bits);
        hash = (hash ^ bits) * UINT64_C(1099511628211);
    }
    assert_int_equal(hash, UINT64_C(0xdabb26ab33cde4a9));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(angles_are_right),
        cmocka_unit_test(magnitudes_are_right),
        cmocka_unit_test(ends_are_those_of_the_functions),
        cmocka_unit_test(bits_do_not_depend_on_the_row),
        cmocka_unit_test(bits_do_not_depend_on_the_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
