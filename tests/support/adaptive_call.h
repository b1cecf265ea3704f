/* adaptive_call.h: calls of adaptive attention with scratch of exactly the size that they ask for. */
#ifndef GYRE_TESTS_ADAPTIVE_CALL_H
#define GYRE_TESTS_ADAPTIVE_CALL_H
#include "exact_scratch.h"
#include "gyre/gyre_adaptive.h"
#include "scratch_bytes.h"

static inline void run_forward(const gyre_adaptive_args *args, const gyre_exec *exec) {
    gyre_error err = {0, ""};
    const size_t bytes = adaptive_scratch(args, 0, exec);
    assert_true(bytes > 0);
    void *scratch = take(bytes);
    if (gyre_adaptive_attention(args, (gyre_scratch){scratch, bytes}, exec, &err)) fail_msg("%s", err.text);
    give(scratch, bytes);
}

static inline void run_backward(const gyre_adaptive_args *args, const gyre_cview *dout, const gyre_adaptive_gradients *to,
                                const gyre_exec *exec) {
    gyre_error err = {0, ""};
    const size_t bytes = adaptive_scratch(args, 1, exec);
    assert_true(bytes > 0);
    void *scratch = take(bytes);
    if (gyre_adaptive_gradient(args, dout, to, (gyre_scratch){scratch, bytes}, exec, &err)) fail_msg("%s", err.text);
    give(scratch, bytes);
}

#endif
