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

gyre_status gyre_attention_dense(const gyre_encoding *encoding, const void *q, const void *k, const void *v, void *out,
                                 const gyre_attention_shape *shape, gyre_error *err) {
    gyre_attention_shape s;
    if (gyre_sized_read(&s, sizeof s, shape, "gyre_attention_shape", err)) return GYRE_EINVAL;
    const int64_t kv_heads = s.kv_heads ? s.kv_heads : s.heads;
    gyre_attention_args args = GYRE_INIT(gyre_attention_args);
    args.encoding = encoding;
    args.q = gyre_cdense(q, s.dtype, s.batch, s.queries, s.heads, s.head_dim);
    args.k = gyre_cdense(k, s.dtype, s.batch, s.keys, kv_heads, s.head_dim);
    args.v = gyre_cdense(v, s.dtype, s.batch, s.keys, kv_heads, s.head_dim);
    args.out = gyre_dense(out, s.dtype, s.batch, s.queries, s.heads, s.head_dim);
    args.q_pos.base = s.keys < 0 || s.queries < 0 ? 0 : s.keys - s.queries; /* gyre_attention refuses such shapes */
    args.causal = s.causal;
    args.window = s.window;
    args.window_after = s.window_after;
    args.scale = s.scale;
    args.softcap = s.softcap;
    const size_t bytes = gyre_attention_scratch(&args, 0, NULL);
    if (!bytes) return gyre_attention(&args, NULL, 0, NULL, err); /* which says what is wrong */
    void *scratch = take(encoding, bytes);
    if (!scratch) return gyre_fail(err, GYRE_ENOMEM, "scratch: no memory (%zu bytes) (gyre_attention_dense)", bytes);
    const gyre_status status = gyre_attention(&args, scratch, bytes, NULL, err);
    give_back(encoding, scratch);
    return status;
}
