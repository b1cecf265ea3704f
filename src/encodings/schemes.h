/* schemes.h: every scheme, one file each, and the lookup by kind. */
#ifndef GYRE_ENCODINGS_SCHEMES_H
#define GYRE_ENCODINGS_SCHEMES_H
#include "core/scheme.h"

#define GYRE_SCHEME(name) extern const gyre_scheme gyre_scheme_##name;
#include "encodings/schemes.def"
#undef GYRE_SCHEME

/* out = the scheme of a kind, or NULL. */
const gyre_scheme *gyre_scheme_find(gyre_kind kind);
/* gyre_encoding_create for a scheme that the caller knows, so that a program is linked without the others. */
gyre_status gyre_encoding_make(gyre_encoding **out, const gyre_scheme *scheme, const gyre_config *given,
                               const gyre_alloc *alloc, gyre_error *err);

#endif
