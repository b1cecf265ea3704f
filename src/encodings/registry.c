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

int gyre_kind_has(gyre_kind kind, gyre_trait trait) {
    const gyre_scheme *scheme = gyre_scheme_find(kind);
    if (!scheme) return 0;
    return trait == GYRE_TRAIT_BIAS ? scheme->bias_row != NULL : (scheme->traits & trait) != 0;
}

unsigned gyre_kind_places(gyre_kind kind) {
    const gyre_scheme *scheme = gyre_scheme_find(kind);
    return scheme ? scheme->places : 0;
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
