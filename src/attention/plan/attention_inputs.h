/* attention_inputs.h: a call of attention with all its options in one struct: gyre_attention_args and what its pointers
 * lead to, and the gradients wanted to gate sums.  gyre_attention.h explains the fields. */
#ifndef GYRE_ATTENTION_PLAN_ATTENTION_INPUTS_H
#define GYRE_ATTENTION_PLAN_ATTENTION_INPUTS_H
#include "gyre/gyre.h"

typedef struct gyre_attention_inputs {
    const gyre_encoding *encoding;
    const gyre_tables *tables;
    gyre_cview q, k, v;
    gyre_positions q_pos, k_pos;
    double scale, softcap;
    gyre_causal causal;
    gyre_order order;
    int64_t window, window_after, sinks;
    gyre_cview mask, sink_logits;
    gyre_view out, lse;
    /* gyre_attention_batch */
    const int64_t *q_starts, *k_starts;
    int64_t sequences;
    const int64_t *k_first, *k_end, *q_end, *context_lengths;
    gyre_cview slopes;
    int64_t q_pos_head_stride, k_pos_head_stride;
    /* gyre_attention_gates, and gradients to them */
    gyre_cview q_gate_sums, k_gate_sums;
    gyre_view dq_gate_sums, dk_gate_sums;
    /* gyre_attention_dropout */
    double dropout;
    uint64_t seed;
    /* gyre_attention_weights */
    gyre_view weights;
    int64_t weights_first;
    int weights_are_scores;
    /* gyre_attention_part */
    gyre_view state;
    const gyre_positions *q_index, *k_index;
    int accumulate; /* of gyre_attention_gradients */
} gyre_attention_inputs;

/* *inputs = what the caller gave, whatever the version of their structs.  Errors: EINVAL (gyre_sized_read). */
gyre_status gyre_attention_inputs_read(gyre_attention_inputs *inputs, const gyre_attention_args *given, gyre_error *err);

#endif
