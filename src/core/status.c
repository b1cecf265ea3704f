/* status.c: texts of statuses and errors, and the version. */
#include "core/fail.h"

#include <stdarg.h>
#include <stdio.h>

const char *gyre_status_text(gyre_status status) {
    switch (status) {
    case GYRE_OK:
        return "ok";
    case GYRE_EINVAL:
        return "an argument is outside its documented range";
    case GYRE_ESHAPE:
        return "shapes do not agree";
    case GYRE_EDTYPE:
        return "element type not supported by this call";
    case GYRE_ENOMEM:
        return "out of memory, or scratch too small";
    case GYRE_EFORMAT:
        return "malformed file";
    case GYRE_EIO:
        return "the system failed";
    case GYRE_EUNSUPPORTED:
        return "not something this build or this scheme does";
    case GYRE_ERANGE:
        return "a position this encoding cannot represent";
    }
    return "unknown status";
}

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

const char *gyre_version(void) {
    return TEXT(GYRE_VERSION_MAJOR) "." TEXT(GYRE_VERSION_MINOR) "." TEXT(GYRE_VERSION_PATCH);
}

gyre_status(gyre_fail)(gyre_error *err, gyre_status status, const char *format, ...) {
    if (!err) return status;
    err->offset = 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(err->text, sizeof err->text, format, arguments);
    va_end(arguments);
    return status;
}
