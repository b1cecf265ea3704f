/* contextual_run.h: a planned call, computed.  scratch: as planned, checked. */
#ifndef GYRE_CONTEXTUAL_RUN_H
#define GYRE_CONTEXTUAL_RUN_H
#include "contextual/contextual_plan.h"

/* The steps of a gyre_contextual_call. */
extern const gyre_call_steps gyre_contextual_steps;
/* Either of the two, for a gyre_contextual_call. */
void gyre_contextual_run(void *call, char *scratch, const gyre_exec *exec);
void gyre_contextual_gradient_run(const gyre_contextual_plan *plan, char *scratch, const gyre_exec *exec);

#endif
