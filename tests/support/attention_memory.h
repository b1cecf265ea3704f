/* attention_memory.h: memory for the operands and the scratch of attention. */
#ifndef GYRE_TESTS_ATTENTION_MEMORY_H
#define GYRE_TESTS_ATTENTION_MEMORY_H
#include "attention_setup.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

/* n zeros of `size` bytes; never NULL. */
static inline void *room(size_t n, size_t size) {
    void *memory = calloc(n > 0 ? n : 1, size);
    assert_non_null(memory);
    return memory;
}

/* Scratch for a call, filled with NaNs: no result may depend on what it contains. */
static inline void *scratch_for(size_t bytes) {
    assert_true(bytes > 0);
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(scratch);
    memset(scratch, 0xFF, bytes);
    return scratch;
}

/* Forward with a scratch of its own. */
static inline void attend(const attention_setup *args, const gyre_exec *exec) {
    const size_t bytes = attention_scratch(args, 0, exec);
    void *scratch = scratch_for(bytes);
    assert_ok(run_attention(args, (gyre_scratch){scratch, bytes}, exec, NULL));
    free(scratch);
}

/* The gradient with a scratch of its own. */
static inline void differentiate(const attention_setup *args, const gyre_cview *dout, const gyre_view dqkv[3],
                                 const gyre_table_gradients *gradients, const gyre_exec *exec) {
    const size_t bytes = attention_scratch(args, 1, exec);
    void *scratch = scratch_for(bytes);
    assert_ok(run_attention_gradient(
        args,
        GYRE_ARGS(gyre_attention_gradients, .dout = *dout, .dq = dqkv[0], .dk = dqkv[1], .dv = dqkv[2], .tables = gradients),
        (gyre_scratch){scratch, bytes}, exec, NULL));
    free(scratch);
}

#endif
