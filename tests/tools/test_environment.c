/* test_environment.c: what a command says of a variable of the environment whose value it would have to ignore. */
#include "run_command.h"

static void wrong_values_are_usage_errors(void **state) {
    (void)state;
    setenv("GYRE_THREADS", "many", 1);
    assert_fails("eval models/rope --text README.md", 2, "GYRE_THREADS: ");
    unsetenv("GYRE_THREADS");
    static const char *const tiers[] = {"AVX2", "sse", "bogus", "neon avx2"};
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++) {
        setenv("GYRE_CPU", tiers[i], 1);
        assert_fails("eval models/rope --text README.md", 2,
                     "' is not one of amx, avx512bf16, avx512vnni, avx512, avx2, neon, wasm, scalar, amx-emulated; this ");
        assert_fails("explain models/rope", 2, "GYRE_CPU: '");
    }
    setenv("GYRE_CPU", "wasm", 1); /* known, but of no processor that runs a command */
    assert_fails("eval models/rope --text README.md", 2, "GYRE_CPU: this processor or this build has no wasm; it has ");
    unsetenv("GYRE_CPU");
    setenv("COLUMNS", "wide", 1);
    assert_fails("explain models/rope", 2, "COLUMNS: ");
    unsetenv("COLUMNS");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_values_are_usage_errors)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
