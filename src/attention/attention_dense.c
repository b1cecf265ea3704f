/* attention_dense.c: attention over dense tensors, its scratch memory taken and given back here. */
#include "core/encoding.h"
#include "core/sized.h"

#include <stdlib.h>

enum { SCRATCH_ALIGNMENT = 64 };

/* The memory comes from the encoding's allocator, so that a program with its own sees every byte. */
static void *take(const gyre_encoding *encoding, size_t bytes) {
    const size_t rounded = (bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
    if (!encoding) return aligned_alloc(SCRATCH_ALIGNMENT, rounded);
    return encoding->alloc.alloc(encoding->alloc.ctx, rounded, SCRATCH_ALIGNMENT);
}

static void give_back(const gyre_encoding *encoding, void *memory) {
    if (encoding)
        encoding->alloc.free(encoding->alloc.ctx, memory);
    else
        free(memory);
}

gyre_status gyre_attention_dense(const gyre_attention_dense_args *given, gyre_error *err) {
    gyre_attention_dense_args a;
    if (gyre_sized_read(&a, sizeof a, given, "gyre_attention_dense_args", err)) return GYRE_EINVAL;
    const int64_t kv_heads = a.kv_heads ? a.kv_heads : a.heads;
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.encoding = a.encoding;
    args.q = gyre_cdense(a.q, a.dtype, a.batch, a.queries, a.heads, a.head_dim);
    args.k = gyre_cdense(a.k, a.dtype, a.batch, a.keys, kv_heads, a.head_dim);
    args.v = gyre_cdense(a.v, a.dtype, a.batch, a.keys, kv_heads, a.head_dim);
    args.out = gyre_dense(a.out, a.dtype, a.batch, a.queries, a.heads, a.head_dim);
    args.q_pos.base = a.keys < 0 || a.queries < 0 ? 0 : a.keys - a.queries; /* gyre_attention refuses such shapes */
    args.q_pos.context_length = a.context_length;
    args.causal = a.causal;
    args.window = a.window;
    args.window_after = a.window_after;
    args.scale = a.scale;
    args.softcap = a.softcap;
    gyre_scratch scratch = {NULL, 0};
    gyre_status status = gyre_attention_scratch(&args, 0, NULL, &scratch.bytes, err);
    if (status) return status;
    scratch.memory = take(a.encoding, scratch.bytes);
    if (!scratch.memory)
        return gyre_fail(err, GYRE_ENOMEM, "scratch: no memory (%zu bytes) (gyre_attention_dense)", scratch.bytes);
    status = gyre_attention(&args, scratch, NULL, err);
    give_back(a.encoding, scratch.memory);
    return status;
}
