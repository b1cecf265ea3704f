/* status.c: the text of each gyre_status, the version, and the environment. */
#include "kernels/tier_list.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        return "not supported by this build or this scheme";
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

static void add_word(char *text, size_t size, const char *word) {
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", word);
}

gyre_status gyre_cpu_check(gyre_error *err) {
#define NAME_OF(unused, name, text) text,
    static const char *const tiers[] = {GYRE_TIERS(NAME_OF, )};
#undef NAME_OF
    const char *asked = getenv("GYRE_CPU");
    char all[128] = "", here[128] = "";
    int known = 0;
    if (!asked || !*asked || gyre_place_kernels_tier(asked)) return GYRE_OK;
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++) {
        known |= strcmp(asked, tiers[i]) == 0;
        add_word(all, sizeof all, tiers[i]);
        if (gyre_place_kernels_tier(tiers[i])) add_word(here, sizeof here, tiers[i]);
    }
    return known
               ? gyre_fail(err, GYRE_EUNSUPPORTED, "GYRE_CPU: this processor or this build has no %s; it has %s", asked,
                           here)
               : gyre_fail(err, GYRE_EINVAL, "GYRE_CPU: '%.40s' is not one of %s; this processor has %s", asked, all, here);
}
