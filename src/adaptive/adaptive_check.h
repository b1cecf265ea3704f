/* adaptive_check.h: all that a call must satisfy: the first steps of call/call_steps.h, for a gyre_adaptive_call. */
#ifndef GYRE_ADAPTIVE_CHECK_H
#define GYRE_ADAPTIVE_CHECK_H
#include "adaptive/adaptive_plan.h"

/* *args = the caller's, whatever the version of their struct, with scale and slope in place of their defaults.
 * Errors: EINVAL. */
gyre_status gyre_adaptive_args_read(gyre_adaptive_args *args, const gyre_adaptive_args *given, gyre_error *err);
/* Shapes and numbers, without looking at memory but that of starts and padding.  Errors: EINVAL, ESHAPE, EDTYPE,
 * EUNSUPPORTED. */
gyre_status gyre_adaptive_check_shapes(const void *call, gyre_error *err);
gyre_status gyre_adaptive_check(const void *call, gyre_error *err);
int gyre_adaptive_is_empty(const void *call);

#endif
