/* contextual_call.h: calls of contextual attention with scratch of exactly the size that they ask for. */
#ifndef GYRE_TESTS_CONTEXTUAL_CALL_H
#define GYRE_TESTS_CONTEXTUAL_CALL_H
#include "gyre/gyre_contextual.h"
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

static inline void give(void *scratch, size_t bytes) {
    for (int i = 0; i < 64; i++)
        assert_int_equal(((unsigned char *)scratch)[bytes + (size_t)i], 0x5a);
    free(scratch);
}

static inline void run_forward(const gyre_contextual_args *args, const gyre_exec *exec) {
    gyre_error err = {0, ""};
    const size_t bytes = gyre_contextual_scratch(args, 0, exec);
    assert_true(bytes > 0);
    void *scratch = take(bytes);
    if (gyre_contextual_attention(args, scratch, bytes, exec, &err)) fail_msg("%s", err.text);
    give(scratch, bytes);
}

static inline void run_backward(const gyre_contextual_args *args, const gyre_cview *dout,
                                const gyre_contextual_gradients *to, const gyre_exec *exec) {
    gyre_error err = {0, ""};
    const size_t bytes = gyre_contextual_scratch(args, 1, exec);
    assert_true(bytes > 0);
    void *scratch = take(bytes);
    if (gyre_contextual_gradient(args, dout, to, scratch, bytes, exec, &err)) fail_msg("%s", err.text);
    give(scratch, bytes);
}

#endif
