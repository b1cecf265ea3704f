/* adaptive_run.h: a planned call, computed.  scratch: plan->bytes, checked. */
#ifndef GYRE_ADAPTIVE_RUN_H
#define GYRE_ADAPTIVE_RUN_H
#include "adaptive/adaptive_plan.h"

void gyre_adaptive_forward_run(const gyre_adaptive_plan *plan, char *scratch, const gyre_exec *exec);
void gyre_adaptive_gradient_run(const gyre_adaptive_plan *plan, char *scratch, const gyre_exec *exec);

#endif
