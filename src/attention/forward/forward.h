/* forward.h: attention of one segment. */
#ifndef GYRE_ATTENTION_FORWARD_H
#define GYRE_ATTENTION_FORWARD_H
#include "attention/plan/attention_plan.h"

/* out = bytes of the memory of one job. */
size_t gyre_forward_job_bytes(const gyre_attention_plan *plan);
/* Computes out, and lse and weights if they are wanted.  scratch: plan->bytes, 64-byte aligned. */
void gyre_forward_run(gyre_attention_plan *plan, char *scratch, const gyre_exec *exec);

#endif
