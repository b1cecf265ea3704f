/* device_angles.h: the angles of gyre_device.h against libm, for a program that includes it with products and sums fused or
 * apart. */
#ifndef GYRE_TESTS_DEVICE_ANGLES_H
#define GYRE_TESTS_DEVICE_ANGLES_H
#include "gyre/gyre_device.h"
#include "support.h"

#include <math.h>

#define DEVICE_BOUND 1.25e-7 /* of cosine and sine at a phase */

/* The largest error at `rest` 2^-64 turns, with what rounding `rest` to a float may add. */
static double error_at_rest(int64_t rest) {
    const double angle = (double)rest * (0x1p-64 * 6.283185307179586476925), rounded = fabs(angle) * 0x1p-24;
    const gyre_device_angle at = gyre_device_cos_sin((uint64_t)rest, 1);
    const double c = cos(angle), s = sin(angle);
    return fmax(fabs((double)at.cosine - c) + rounded * fabs(s), fabs((double)at.sine - s) + rounded * c);
}

/* Every float from 2^-12 to 1 eighths of a turn, or one of 61; those below, one of 4099. */
static void angles_of_every_float(void **state) {
    (void)state;
    double worst = 0;
    for (int e = 0; e <= 60; e++) {
        const int64_t ulp = e > 23 ? (int64_t)1 << (e - 23) : 1, first = (int64_t)1 << e;
        const int64_t step = ulp * (e < 49 ? 4099 : test_all() ? 1 : 61);
        for (int64_t rest = first; rest < 2 * first; rest += step)
            worst = fmax(worst, fmax(error_at_rest(rest), error_at_rest(-rest)));
    }
    worst = fmax(worst, fmax(error_at_rest(0), error_at_rest(-((int64_t)1 << 61))));
    print_message("cos and sin of a phase: %.3g, bound %.3g\n", worst, DEVICE_BOUND);
    assert_true(worst <= DEVICE_BOUND);
}

/* All around the circle, its eighths among them. */
static void angles_of_every_quarter(void **state) {
    (void)state;
    static const long double turn = 6.283185307179586476925286766559L;
    test_random random = {7};
    for (int i = 0; i < 200000; i++) {
        const uint64_t phase = i < 64 ? ((uint64_t)i / 3 << 61) + (uint64_t)(i % 3) - 1 : test_next(&random);
        const long double angle = ldexpl((long double)phase, -64) * turn;
        const gyre_device_angle at = gyre_device_cos_sin(phase, 1), twice = gyre_device_cos_sin(phase, 2);
        test_close((long double)at.cosine, cosl(angle), DEVICE_BOUND, "cosine");
        test_close((long double)at.sine, sinl(angle), DEVICE_BOUND, "sine");
        assert_true(twice.cosine == 2 * at.cosine && twice.sine == 2 * at.sine);
    }
    const gyre_device_angle none = gyre_device_cos_sin(0, 1), half = gyre_device_cos_sin((uint64_t)1 << 63, 1);
    assert_true(none.cosine == 1 && none.sine == 0 && half.cosine == -1 && half.sine == 0);
}

#define DEVICE_ANGLE_TESTS cmocka_unit_test(angles_of_every_float), cmocka_unit_test(angles_of_every_quarter)
#endif
