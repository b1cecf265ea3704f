/* segment.h: a part of a call that has one shape and one context length.  segments.h cuts calls into segments. */
#ifndef GYRE_ATTENTION_SEGMENT_H
#define GYRE_ATTENTION_SEGMENT_H
#include "attention/plan/attention_inputs.h"
#include "call/key_source.h"

typedef struct gyre_segment {
    /* The call's arguments, narrowed: q, out, lse, weights, mask, slopes and both positions begin at the segment, except for
     * the heads of slopes and sink_logits.  q_pos.context_length is the length in use.  k and v have the shape of the
     * segment, but `source` says where their elements are.  q_starts, k_starts, k_first, k_end,
     * q_end and context_lengths are NULL. */
    gyre_attention_inputs args;
    gyre_key_source source;
    int64_t head_first;             /* first query head of the segment, counted in the call */
    int64_t view_head;              /* the same, counted in the views of the call, which may have some of its heads */
    int64_t sequence;               /* of the call; row b of the segment's batch is sequence + b */
    int64_t query_first, key_first; /* first token of the segment, counted in its sequence */
    int64_t query_order;            /* GYRE_CAUSAL_BY_ORDER: index in the sequence of the last key that query 0 sees */
    int64_t packed_key_first;       /* first key of the sequence, counted in the views of the call */
    int accumulate_gates;           /* the same for dk_gate_sums, whose heads are those of queries */
    int accumulate_dkv; /* 1: dk and dv are added to: an earlier segment had these keys, or the caller wants it */
    /* gyre_attention_inputs.q_index and k_index, from the first token of the segment on; used if `indexed`. */
    int indexed;
    gyre_positions q_index, k_index;
} gyre_segment;

#endif
