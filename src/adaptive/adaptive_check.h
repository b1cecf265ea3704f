/* adaptive_check.h: all that a call must satisfy. */
#ifndef GYRE_ADAPTIVE_CHECK_H
#define GYRE_ADAPTIVE_CHECK_H
#include "gyre/gyre_adaptive.h"

/* *args = the caller's, whatever the version of their struct, with scale and slope in place of their defaults.
 * Errors: EINVAL. */
gyre_status gyre_adaptive_args_read(gyre_adaptive_args *args, const gyre_adaptive_args *given, gyre_error *err);
/* Shapes and numbers, without looking at memory but that of starts and padding.  Errors: EINVAL, ESHAPE, EDTYPE,
 * EUNSUPPORTED. */
gyre_status gyre_adaptive_check_shapes(const gyre_adaptive_args *args, const char *where, gyre_error *err);
/* All of the forward call; of the gradient what both have, with out and lse read; of a call over a cache what has no keys
 * in memory of the caller. */
typedef enum gyre_adaptive_use { GYRE_ADAPTIVE_FORWARD, GYRE_ADAPTIVE_GRADIENT, GYRE_ADAPTIVE_CACHED } gyre_adaptive_use;
gyre_status gyre_adaptive_check(const gyre_adaptive_args *args, gyre_adaptive_use use, const char *where, gyre_error *err);
/* What the gradient has beside: dout and the gradients. */
gyre_status gyre_adaptive_check_gradient(const gyre_adaptive_args *args, const gyre_cview *dout,
                                         const gyre_adaptive_gradients *to, const char *where, gyre_error *err);

#endif
