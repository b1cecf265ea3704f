/* straight.h: one query with few keys, whose rows one kernel reads in place and finishes. */
#ifndef GYRE_ATTENTION_STRAIGHT_H
#define GYRE_ATTENTION_STRAIGHT_H
#include "attention/plan/attention_plan.h"

/* 1: types, channels and rotation are those that the kernel serves. */
int gyre_straight_suits(const gyre_attention_plan *plan);
/* For a segment for which gyre_decode_is_straight holds, with its angles prepared.  out = 0: the kernel does not serve it,
 * and nothing was written.  Otherwise *finite = 1: out and lse are written, as by gyre_decode_split; 0: a value is
 * infinite or NaN, and all is to be computed again. */
int gyre_straight_run(const gyre_attention_plan *plan, int *finite);

#endif
