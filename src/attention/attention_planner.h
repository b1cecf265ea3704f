/* attention_planner.h: decides how a segment is computed, and how much scratch that takes. */
#ifndef GYRE_ATTENTION_ATTENTION_PLANNER_H
#define GYRE_ATTENTION_ATTENTION_PLANNER_H
#include "attention/plan/attention_plan.h"

/* *plan = the plan of a segment of a checked call.  The segment must outlive it.  The only error is ENOMEM: the bytes of
 * scratch do not fit a size_t. */
gyre_status gyre_attention_plan_make(gyre_attention_plan *plan, const gyre_segment *segment, int gradient,
                                     const gyre_exec *exec);
/* *plan = that of its segment with `keys` keys instead, if both numbers are at most plan->most_straight_keys; the
 * scratch stays laid out for those that the plan was made for, which are at least as many. */
void gyre_attention_plan_set_keys(gyre_attention_plan *plan, gyre_segment *segment, int64_t keys);

#endif
