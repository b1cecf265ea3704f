#include "convert/convert_loss.h"

#include "util/error.h"
#include "util/plain_numbers.h"

#include <stdarg.h>
#include <stdio.h>

gyre_status gyre_convert_lose(const gyre_convert_options *options, gyre_error *err, const char *format, ...) {
    gyre_error what = {0, ""};
    va_list arguments;
    va_start(arguments, format);
    (void)gyre_plain_vsnprintf(what.text, sizeof what.text, format, arguments);
    va_end(arguments);
    if (!options || !options->lost) return gyre_fail(err, GYRE_EUNSUPPORTED, "%s", what.text);
    options->lost(options->ctx, what.text);
    return GYRE_OK;
}

void gyre_convert_tell(const gyre_convert_options *options, const char *format, ...) {
    gyre_error what = {0, ""};
    va_list arguments;
    if (!options || !options->lost) return;
    va_start(arguments, format);
    (void)gyre_plain_vsnprintf(what.text, sizeof what.text, format, arguments);
    va_end(arguments);
    options->lost(options->ctx, what.text);
}
