/* contextual_run.h: a planned call, computed.  scratch: plan->bytes, checked. */
#ifndef GYRE_CONTEXTUAL_RUN_H
#define GYRE_CONTEXTUAL_RUN_H
#include "contextual/contextual_plan.h"

void gyre_contextual_forward_run(const gyre_contextual_plan *plan, char *scratch, const gyre_exec *exec);
void gyre_contextual_gradient_run(const gyre_contextual_plan *plan, char *scratch, const gyre_exec *exec);

#endif
