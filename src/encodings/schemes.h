/* schemes.h: every scheme there is, one file each. */
#ifndef GYRE_ENCODINGS_SCHEMES_H
#define GYRE_ENCODINGS_SCHEMES_H
#include "core/encoding.h"

extern const gyre_scheme gyre_scheme_nope, gyre_scheme_learned, gyre_scheme_sinusoidal, gyre_scheme_rope, gyre_scheme_alibi,
    gyre_scheme_t5, gyre_scheme_kerple, gyre_scheme_shaw, gyre_scheme_nezha, gyre_scheme_bert, gyre_scheme_deberta;

#endif
