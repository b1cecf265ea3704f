/* convert_loss.h: what a conversion goes without, if its caller wants to be told. */
#ifndef GYRE_CONVERT_LOSS_H
#define GYRE_CONVERT_LOSS_H
#include "gyre/gyre_model.h"

/* Tells the caller what is lost and returns OK; fails with EUNSUPPORTED and the same words if options->lost is NULL.
 * options NULL = nobody is told. */
gyre_status gyre_convert_lose(const gyre_convert_options *options, gyre_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for what the model computes as well without it: nothing is refused where nobody is told. */
void gyre_convert_tell(const gyre_convert_options *options, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
