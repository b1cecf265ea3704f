/* double_attention.h: attention of one segment whose queries, keys and values are doubles, for checks of gradients. */
#ifndef GYRE_ATTENTION_DOUBLE_ATTENTION_H
#define GYRE_ATTENTION_DOUBLE_ATTENTION_H
#include "attention/tiles/scratch.h"

/* plan->jobs and plan->job_bytes, all the scratch that such a segment needs. */
void gyre_double_measure(gyre_attention_plan *plan, int64_t concurrency);
/* Computes out, lse and weights; of a gradient dq, dk, dv and those of tables, sink logits and gate sums. */
void gyre_double_run(gyre_attention_call *call, const gyre_exec *exec);

#endif
