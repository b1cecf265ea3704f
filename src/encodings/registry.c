/* registry.c: the list of schemes, and lookup by kind. */
#include "core/sized.h"
#include "encodings/schemes.h"

static const gyre_scheme *const schemes[] = {
#define GYRE_SCHEME(name) &gyre_scheme_##name,
#include "encodings/schemes.def"
#undef GYRE_SCHEME
    NULL};

const gyre_scheme *gyre_scheme_find(gyre_kind kind) {
    for (const gyre_scheme *const *scheme = schemes; *scheme; scheme++)
        if ((*scheme)->kind == kind) return *scheme;
    return NULL;
}

gyre_status gyre_config_suggest(gyre_config *config) {
    gyre_config own;
    if (gyre_sized_read(&own, sizeof own, config, "gyre_config", NULL)) return GYRE_EINVAL;
    const gyre_scheme *scheme = gyre_scheme_find(own.kind);
    if (!scheme) return GYRE_EINVAL;
    if (scheme->suggest) scheme->suggest(&own);
    gyre_sized_write(config, &own);
    return GYRE_OK;
}
