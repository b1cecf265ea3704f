/* status.c: the text of each gyre_status, and the version. */
#include "gyre/gyre.h"

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
