/* run_each_tier.h: runs a test once per tier. Tiers that this build or this processor does not have are skipped. */
#ifndef GYRE_TESTS_RUN_EACH_TIER_H
#define GYRE_TESTS_RUN_EACH_TIER_H
#include "kernels/kernels.h"
#include "support.h"

#include <math.h>
#include <string.h>

/* NULL if the tier runs here. */
static inline const char *why_skipped(const char *tier) {
#define BUILT_OF(wanted, name, text) || (strcmp(wanted, text) == 0 && gyre_tier_##name)
    const int built = 0 GYRE_TIERS(BUILT_OF, tier);
#undef BUILT_OF
    if (gyre_kernels_tier(tier)) return NULL;
    return built ? "this processor has not got it" : "it is another family of processors'";
}

static inline const gyre_kernels *tier_or_skip(const char *tier) {
    const gyre_kernels *kernels = gyre_kernels_tier(tier);
    if (!kernels) skip();
    assert_string_equal(kernels->tier, tier);
    return kernels;
}

/* Prints the largest error of a kernel as a fraction of its bound. Fails above 1 and for NaN. */
static inline void report_fraction(const char *kernel, const gyre_kernels *kernels, long double worst) {
    print_message("%s %s: %.2Lf of its bound\n", kernel, kernels->tier, worst);
    assert_true(worst <= 1);
}

/* out = the larger of `worst` and |got - want| / bound; infinite for a NaN. */
static inline long double larger_fraction(long double worst, long double got, long double want, long double bound) {
    const long double off = fabsl(got - want), fraction = off == 0 ? 0 : off / bound;
    return fraction <= worst ? worst : isnan(fraction) ? (long double)INFINITY : fraction;
}

/* Entries of an array of struct CMUnitTest. Each test gets the name of its tier as its state. */
#define FOR_TIER(test, tier, text)                                                                                          \
    { #test " " text, test, NULL, NULL, (void *)(uintptr_t)text }
#define FOR_TIER_THEN(test, tier, text) FOR_TIER(test, tier, text),
#define FOR_TIERS(test)                 GYRE_TIERS_AND_LAST(FOR_TIER_THEN, FOR_TIER, test)

#endif
