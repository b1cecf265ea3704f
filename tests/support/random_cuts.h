/* random_cuts.h: how many random cuts a test of bits tries. */
#ifndef GYRE_TESTS_RANDOM_CUTS_H
#define GYRE_TESTS_RANDOM_CUTS_H
#include "support.h"

#include <stdlib.h>

#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(thread_sanitizer) ||                       \
    HAS_FEATURE(address_sanitizer) /* takes 30 times as long */
enum { FEW_CUTS = 16, ALL_CUTS = 20 };
#else
enum { FEW_CUTS = 16, ALL_CUTS = 200 };
#endif

/* out = 16, or 200 with GYRE_TEST_ALL, under a sanitizer 20; GYRE_TEST_CUTS where that is set, for emulators. */
static inline int random_cuts(void) {
    const char *wanted = getenv("GYRE_TEST_CUTS");
    return wanted && atoi(wanted) > 0 ? atoi(wanted) : test_all() ? ALL_CUTS : FEW_CUTS;
}

/* out = 1 if texts and lists are to be short as well. */
static inline int is_short_test(void) {
    return random_cuts() < 10;
}

#endif
