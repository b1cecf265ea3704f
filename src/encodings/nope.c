/* nope.c: no positions at all. */
#include "encodings/schemes.h"

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    (void)encoding;
    (void)err;
    return GYRE_OK;
}

const gyre_scheme gyre_scheme_nope = {.kind = GYRE_KIND_NOPE, .init = init};
