/* adaptive_run.h: a planned call, computed.  scratch: as planned, checked. */
#ifndef GYRE_ADAPTIVE_RUN_H
#define GYRE_ADAPTIVE_RUN_H
#include "adaptive/adaptive_plan.h"

/* The steps of a gyre_adaptive_call. */
extern const gyre_call_steps gyre_adaptive_steps;
/* Either of the two, for a gyre_adaptive_call. */
void gyre_adaptive_run(void *call, char *scratch, const gyre_exec *exec);
void gyre_adaptive_gradient_run(const gyre_adaptive_plan *plan, char *scratch, const gyre_exec *exec);

#endif
