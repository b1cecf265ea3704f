/* registry.c: the list of schemes.  A new one is a file, a declaration in schemes.h and a line here. */
#include "encodings/schemes.h"

static const gyre_scheme *const schemes[] = {&gyre_scheme_nope,   &gyre_scheme_learned, &gyre_scheme_sinusoidal,
                                             &gyre_scheme_rope,   &gyre_scheme_alibi,   &gyre_scheme_t5,
                                             &gyre_scheme_kerple, &gyre_scheme_shaw,    &gyre_scheme_nezha,
                                             &gyre_scheme_bert,   &gyre_scheme_deberta, NULL};

const gyre_scheme *gyre_scheme_find(gyre_kind kind) {
    for (const gyre_scheme *const *scheme = schemes; *scheme; scheme++)
        if ((*scheme)->kind == kind) return *scheme;
    return NULL;
}
