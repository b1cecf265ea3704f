/* sequence_options.c: the options of one sequence of a call. */
#include "attention/sequence_options.h"
#include "call/call_sequences.h"
#include "core/positions.h"
#include "core/view.h"

void gyre_sequence_options_take(gyre_attention_inputs *row, int64_t s, int64_t tokens, gyre_sequence_indices *indices) {
    const int64_t *starts = row->q_starts;
    gyre_call_take_queries(&row->mask, starts, s);
    gyre_call_take_queries(&row->q_gate_sums, starts, s);
    gyre_call_take_results(&row->state, starts, s);
    gyre_cview_narrow(&row->slopes, 0, s, 1);
    if (row->mask.data) row->mask.shape[3] = tokens;
    row->k_gate_sums.data = NULL; /* the source has them */
    if (row->q_end) row->q_end += s;
    if (row->context_lengths) row->context_lengths += s;
    if (row->q_index) indices->q = gyre_call_query_positions(row->q_index, starts, s), row->q_index = &indices->q;
    if (row->k_index) indices->k = gyre_positions_of_row(row->k_index, s), row->k_index = &indices->k;
    row->q_starts = NULL;
    row->sequences = 0;
}
