/* test_tiers.c: which tier of kernels runs: the best, or what GYRE_CPU asks for. */
#include "kernels/kernels.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

static void environment_lowers_the_tier(void **state) {
    (void)state;
#define NAME_OF(unused, name, text) text,
    static const char *const tiers[] = {GYRE_TIERS(NAME_OF, )};
#undef NAME_OF
    enum { TIERS = sizeof tiers / sizeof *tiers };
    unsetenv("GYRE_CPU");
    const gyre_kernels *best = gyre_kernels_select(), *first = NULL;
    for (int i = 0; i < TIERS && !first; i++)
        first = gyre_kernels_tier(tiers[i]);
    assert_non_null(best);
    assert_ptr_equal(best, first);
    assert_non_null(gyre_kernels_tier("scalar"));
    assert_null(gyre_kernels_tier("mmx"));
    for (int i = 0; i < TIERS; i++) {
        const gyre_kernels *tier = gyre_kernels_tier(tiers[i]);
        assert_int_equal(setenv("GYRE_CPU", tiers[i], 1), 0);
        assert_ptr_equal(gyre_kernels_select(), tier ? tier : best);
    }
    assert_int_equal(setenv("GYRE_CPU", "mmx", 1), 0);
    assert_ptr_equal(gyre_kernels_select(), best);
    unsetenv("GYRE_CPU");
}

/* A name that is ignored is never silent, and a tier counts letter for letter. */
static void other_tiers_are_refused(void **state) {
    (void)state;
#define NAME_OF(unused, name, text) text,
    static const char *const tiers[] = {GYRE_TIERS(NAME_OF, )}, *const unknown[] = {"AVX2", "sse", "bogus", " scalar",
                                                                                    "avx2 "};
#undef NAME_OF
    gyre_error err = {0, "as before"};
    unsetenv("GYRE_CPU");
    assert_int_equal(gyre_cpu_check(&err), GYRE_OK);
    assert_int_equal(setenv("GYRE_CPU", "", 1), 0);
    assert_int_equal(gyre_cpu_check(&err), GYRE_OK);
    assert_string_equal(err.text, "as before");
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        assert_int_equal(setenv("GYRE_CPU", unknown[i], 1), 0);
        assert_int_equal(gyre_cpu_check(NULL), GYRE_EINVAL);
        assert_int_equal(gyre_cpu_check(&err), GYRE_EINVAL);
        for (size_t t = 0; t < sizeof tiers / sizeof *tiers; t++)
            assert_non_null(strstr(err.text, tiers[t]));
    }
    assert_non_null(strstr(err.text, "GYRE_CPU: 'avx2 ' is not one of amx, avx512bf16, avx512vnni, avx512, avx2, neon, "
                                     "wasm, scalar, amx-emulated; this processor"));
    for (size_t t = 0; t < sizeof tiers / sizeof *tiers; t++) {
        assert_int_equal(setenv("GYRE_CPU", tiers[t], 1), 0);
        assert_int_equal(gyre_cpu_check(&err), gyre_kernels_tier(tiers[t]) ? GYRE_OK : GYRE_EUNSUPPORTED);
        if (gyre_kernels_tier(tiers[t])) continue;
        assert_non_null(strstr(err.text, "GYRE_CPU: this processor or this build has no "));
        assert_non_null(strstr(err.text, "scalar"));
    }
    unsetenv("GYRE_CPU");
}

/* A tier that every processor of a family has must be in every build for it. */
static void best_tier_is_selected(void **state) {
    (void)state;
#if defined(__aarch64__)
    assert_string_equal(gyre_kernels_select()->tier, "neon");
#elif defined(__x86_64__)
    assert_true(gyre_tier_avx2 && gyre_tier_avx512 && gyre_tier_avx512vnni && gyre_tier_avx512bf16);
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment_lowers_the_tier),
        cmocka_unit_test(other_tiers_are_refused),
        cmocka_unit_test(best_tier_is_selected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
