/* row_states.h: rows whose keys are not all in one call (gyre_attention_inputs.state).
 *
 * A state is doubles: the largest score, the sum of exp(score - largest), and for each channel the sum of values
 * weighted by exp(score - largest).  A sum of 0 means that no key was seen, whatever the other numbers are.  Two states
 * of one row over different keys are added by rescaling both to the larger of their largest scores. */
#ifndef GYRE_ATTENTION_ROW_STATES_H
#define GYRE_ATTENTION_ROW_STATES_H
#include "attention/terms/softmax.h"

enum { GYRE_STATE_LARGEST, GYRE_STATE_SUM, GYRE_STATE_VALUES };

/* to += from.  A side whose largest score is too far below adds nothing, even of infinite and NaN values. */
void gyre_row_state_add(double *to, const double *from, int64_t channels);
/* to += the row of one call. */
void gyre_row_state_add_row(double *to, const gyre_row_state *row, int64_t channels);
/* *row = a state, to go on from; relative to row->bias, which is given.  row->out: [channels] floats. */
void gyre_row_state_load(const double *state, int64_t channels, gyre_row_state *row);
/* The other way. */
void gyre_row_state_store(const gyre_row_state *row, int64_t channels, double *state);

#endif
