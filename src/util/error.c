/* error.c: the one place that formats error messages. */
#include "util/error.h"

#include <stdarg.h>
#include <stdio.h>

gyre_status(gyre_fail)(gyre_error *err, gyre_status status, const char *format, ...) {
    if (!err) return status;
    err->offset = 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(err->text, sizeof err->text, format, arguments);
    va_end(arguments);
    return status;
}
