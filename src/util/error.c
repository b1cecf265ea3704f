/* error.c: the one place that formats error messages. */
#include "util/error.h"
#include "util/plain_numbers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

gyre_status(gyre_fail)(gyre_error *err, gyre_status status, const char *format, ...) {
    if (!err) return status;
    err->offset = 0;
    va_list arguments;
    va_start(arguments, format);
    (void)gyre_plain_vsnprintf(err->text, sizeof err->text, format, arguments);
    va_end(arguments);
    return status;
}

gyre_status gyre_status_of_errno(int code) {
    return code == ENOMEM ? GYRE_ENOMEM : GYRE_EIO;
}

gyre_status(gyre_fail_errno)(gyre_error *err, const char *path, int code) {
    return gyre_fail(err, gyre_status_of_errno(code), "%s: %s", path, strerror(code));
}
