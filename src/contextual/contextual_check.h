/* contextual_check.h: all that a call must satisfy: the first steps of call/call_steps.h, for a gyre_contextual_call. */
#ifndef GYRE_CONTEXTUAL_CHECK_H
#define GYRE_CONTEXTUAL_CHECK_H
#include "contextual/contextual_plan.h"

/* *args = the caller's, whatever the version of their struct, with scales in place of their defaults.
 * Errors: EINVAL. */
gyre_status gyre_contextual_args_read(gyre_contextual_args *args, const gyre_contextual_args *given, gyre_error *err);
/* Shapes and numbers, without looking at memory but that of starts and padding.  Errors: EINVAL, ESHAPE, EDTYPE. */
gyre_status gyre_contextual_check_shapes(const void *call, gyre_error *err);
gyre_status gyre_contextual_check(const void *call, gyre_error *err);
int gyre_contextual_is_empty(const void *call);

#endif
