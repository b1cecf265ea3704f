/* test_device_fused.c: gyre_device.h where the compiler fuses products and sums, as those of devices do. */
#include <math.h>

#define GYRE_DEVICE_MULTIPLY_ADD(a, b, c) fmaf((a), (b), (c))
#include "device_angles.h"

int main(void) {
    const struct CMUnitTest tests[] = {DEVICE_ANGLE_TESTS};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
