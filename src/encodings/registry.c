/* registry.c: the list of schemes, lookup by kind, and creation by kind. */
#include "core/sized.h"
#include "encodings/schemes.h"
#include "util/error.h"

static const gyre_scheme *const schemes[] = {
#define GYRE_SCHEME(name) &gyre_scheme_##name,
#ifdef GYRE_ROPE_ALONE /* libgyre_rope */
    GYRE_SCHEME(nope) GYRE_SCHEME(rope)
#else
#include "encodings/schemes.def"
#endif
#undef GYRE_SCHEME
        NULL};

const gyre_scheme *gyre_scheme_find(gyre_kind kind) {
    for (const gyre_scheme *const *scheme = schemes; *scheme; scheme++)
        if ((*scheme)->kind == kind) return *scheme;
    return NULL;
}

gyre_status gyre_encoding_create(gyre_encoding **out, const gyre_config *given, const gyre_alloc *alloc, gyre_error *err) {
    gyre_config own;
    if (!out || !given) return gyre_fail(err, GYRE_EINVAL, "arguments: out or config is NULL (gyre_encoding_create)");
    if (gyre_sized_read(&own, sizeof own, given, "gyre_config", err)) return GYRE_EINVAL;
    const gyre_scheme *scheme = gyre_scheme_find(own.kind);
    if (!own.kind)
        return gyre_fail(err, GYRE_EINVAL, "kind: not set; GYRE_KIND_NOPE is an encoding without positions (gyre_config)");
    if (!scheme) return gyre_fail(err, GYRE_EINVAL, "kind: %d names no scheme (gyre_config)", (int)own.kind);
    return gyre_encoding_make(out, scheme, &own, alloc, err);
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
