/* convert_loss.h: reports of what a conversion loses, to callers that ask for them. */
#ifndef GYRE_CONVERT_LOSS_H
#define GYRE_CONVERT_LOSS_H
#include "gyre/gyre_model.h"

/* Reports a loss to the caller and returns OK; fails with EUNSUPPORTED and the same words if options->lost is NULL.
 * options NULL = no report. */
gyre_status gyre_convert_lose(const gyre_convert_options *options, gyre_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for losses that do not change the model's results: without a report they are not refused. */
void gyre_convert_tell(const gyre_convert_options *options, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
