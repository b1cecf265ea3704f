/* contextual_call.h: calls of contextual attention with scratch of exactly the size that they ask for. */
#ifndef GYRE_TESTS_CONTEXTUAL_CALL_H
#define GYRE_TESTS_CONTEXTUAL_CALL_H
#include "exact_scratch.h"
#include "gyre/gyre_contextual.h"
#include "scratch_bytes.h"

static inline void run_forward(const gyre_contextual_args *args, const gyre_exec *exec) {
    gyre_error err = {0, ""};
    const size_t bytes = contextual_scratch(args, 0, exec);
    assert_true(bytes > 0);
    void *scratch = take(bytes);
    if (gyre_contextual_attention(args, (gyre_scratch){scratch, bytes}, exec, &err)) fail_msg("%s", err.text);
    give(scratch, bytes);
}

static inline void run_backward(const gyre_contextual_args *args, const gyre_cview *dout,
                                const gyre_contextual_gradients *to, const gyre_exec *exec) {
    gyre_error err = {0, ""};
    const size_t bytes = contextual_scratch(args, 1, exec);
    assert_true(bytes > 0);
    void *scratch = take(bytes);
    if (gyre_contextual_gradient(args, dout, to, (gyre_scratch){scratch, bytes}, exec, &err)) fail_msg("%s", err.text);
    give(scratch, bytes);
}

#endif
