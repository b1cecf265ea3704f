/* contextual_check.h: all that a call must satisfy. */
#ifndef GYRE_CONTEXTUAL_CHECK_H
#define GYRE_CONTEXTUAL_CHECK_H
#include "gyre/gyre_contextual.h"

/* *args = the caller's, whatever the version of their struct, with scales in place of their defaults.
 * Errors: EINVAL. */
gyre_status gyre_contextual_args_read(gyre_contextual_args *args, const gyre_contextual_args *given, gyre_error *err);
/* Shapes and numbers, without looking at memory but that of starts and padding.  Errors: EINVAL, ESHAPE, EDTYPE. */
gyre_status gyre_contextual_check_shapes(const gyre_contextual_args *args, const char *where, gyre_error *err);
/* All of the forward call; of the gradient what both have, with out and lse read; of a call over a cache what has no keys
 * in memory of the caller. */
typedef enum gyre_contextual_use {
    GYRE_CONTEXTUAL_FORWARD,
    GYRE_CONTEXTUAL_GRADIENT,
    GYRE_CONTEXTUAL_CACHED
} gyre_contextual_use;
gyre_status gyre_contextual_check(const gyre_contextual_args *args, gyre_contextual_use use, const char *where,
                                  gyre_error *err);
/* What the gradient has beside: dout and the gradients. */
gyre_status gyre_contextual_check_gradient(const gyre_contextual_args *args, const gyre_cview *dout,
                                           const gyre_contextual_gradients *gradients, const char *where, gyre_error *err);

#endif
