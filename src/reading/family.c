/* family.c: the table of families. */
#include "reading/family.h"

#include <string.h>

#define FAMILY(type, reader, layout, base, partial, positions, head_dim, traits)                                            \
    {type, reader, base, partial, positions, head_dim, layout, traits},

static const gyre_family families[] = {
#include "reading/families_other.def"
#include "reading/families_rope.def"
};
enum { FAMILIES = sizeof families / sizeof *families };

const gyre_family *gyre_family_of(const char *model_type) {
    for (size_t i = 0; i < FAMILIES; i++)
        if (strcmp(families[i].model_type, model_type) == 0) return &families[i];
    return NULL;
}

const gyre_family *gyre_family_at(size_t i) {
    return i < FAMILIES ? &families[i] : NULL;
}
