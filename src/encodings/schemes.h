/* schemes.h: every scheme there is, one file each. */
#ifndef GYRE_ENCODINGS_SCHEMES_H
#define GYRE_ENCODINGS_SCHEMES_H
#include "core/encoding.h"

#define GYRE_SCHEME(name) extern const gyre_scheme gyre_scheme_##name;
#include "encodings/schemes.def"
#undef GYRE_SCHEME

#endif
