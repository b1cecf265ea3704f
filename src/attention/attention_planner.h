/* attention_planner.h: decides how a segment is computed, and how much scratch that takes. */
#ifndef GYRE_ATTENTION_ATTENTION_PLANNER_H
#define GYRE_ATTENTION_ATTENTION_PLANNER_H
#include "attention/plan/attention_plan.h"

/* *plan = the plan of a segment of a checked call.  The segment must outlive it.  The only error is ENOMEM: the bytes of
 * scratch do not fit a size_t. */
gyre_status gyre_attention_plan_make(gyre_attention_plan *plan, const gyre_segment *segment, int gradient,
                                     const gyre_exec *exec);

#endif
