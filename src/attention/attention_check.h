/* attention_check.h: all that a call of attention must satisfy, checked in one place and once for each call. */
#ifndef GYRE_ATTENTION_ATTENTION_CHECK_H
#define GYRE_ATTENTION_ATTENTION_CHECK_H
#include "attention/gradient/gradient.h"
#include "call/key_source.h"

/* A call, or one batch row of a call of gyre_cache_attention. */
typedef struct gyre_attention_request {
    const char *name;                    /* of the function called, for messages */
    const gyre_attention_inputs *args;   /* as gyre_sized_read leaves them */
    const gyre_key_source *source;       /* NULL = args->k and args->v; otherwise these are shapes alone, and batch is 1 */
    const gyre_gradient_views *gradient; /* NULL = forward */
    /* The views have query heads head_first .. of a larger call, and the key heads that belong to them.  Slopes, sink logits,
     * tables and the encoding have all `heads` of that call.  heads 0: the views have all. */
    int64_t head_first, heads;
    const struct gyre_between_tiles *between; /* NULL = nothing */
} gyre_attention_request;

/* Types and shapes of q, k, v, out and lse. */
gyre_status gyre_attention_check_views(const gyre_attention_request *call, gyre_error *err);
/* Numbers, types, shapes, starts and ends: all that the bytes of scratch depend on.  Reads no element and no position. */
gyre_status gyre_attention_check_shapes(const gyre_attention_request *call, gyre_error *err);
/* All of the above, and memory, tables and positions.  After GYRE_OK nothing but a lack of scratch can fail. */
gyre_status gyre_attention_check(const gyre_attention_request *call, gyre_error *err);
/* What a segment of a checked call has apart from the call: its positions.  Errors: EINVAL, EDTYPE, ERANGE. */
gyre_status gyre_attention_check_segment(const gyre_attention_request *call, const gyre_segment *segment, gyre_error *err);
/* 1: the call has nothing to write. */
int gyre_attention_is_empty(const gyre_attention_request *call);

/* EINVAL if an output of the call shares memory with an input or with another output.  Called by gyre_attention_check; apart
 * from it for a batch whose rows are calls of their own.  The shapes are checked before. */
gyre_status gyre_attention_check_overlap(const gyre_attention_request *call, gyre_error *err);

/* All that gyre_attention_merge checks (attention_merge.c).  args: as gyre_sized_read leaves them. */
gyre_status gyre_attention_merge_check(const gyre_attention_merge_args *args, gyre_error *err);

#endif
