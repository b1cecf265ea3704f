/* exact_scratch.h: scratch of exactly the size that a call asks for. */
#ifndef GYRE_TESTS_EXACT_SCRATCH_H
#define GYRE_TESTS_EXACT_SCRATCH_H
#include "support.h"

#include <stdlib.h>
#include <string.h>

static inline void *take(size_t bytes) {
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    assert_non_null(scratch);
    memset(scratch, 0xa5, bytes); /* what is not written shows as a NaN or as an odd number */
    memset((char *)scratch + bytes, 0x5a, 64);
    return scratch;
}

/* Fails if the call wrote past it. */
static inline void give(void *scratch, size_t bytes) {
    for (int i = 0; i < 64; i++)
        assert_int_equal(((unsigned char *)scratch)[bytes + (size_t)i], 0x5a);
    free(scratch);
}

#endif
