/* scaling_traits.c: what config.json says of a scaling. */
#include "reading/scaling_traits.h"

#include <string.h>

int gyre_find_rope_type(const char *text, gyre_scaling *scaling) {
    const char *name;
    for (int s = 0; (name = gyre_rope_type((gyre_scaling)s)) && s < GYRE_SCALING_RIFLEX; s++)
        if (strcmp(name, text) == 0) {
            *scaling = (gyre_scaling)s;
            return 1;
        }
    return 0;
}

int gyre_scaling_has_original_length(gyre_scaling scaling) {
    return scaling == GYRE_SCALING_BY_PARTS || scaling == GYRE_SCALING_BY_PARTS_PAPER || scaling == GYRE_SCALING_YARN ||
           scaling == GYRE_SCALING_LLAMA3 || scaling == GYRE_SCALING_LONGROPE || scaling == GYRE_SCALING_DYNAMIC_YARN;
}

int gyre_scaling_has_attention_factor(gyre_scaling scaling) {
    return scaling == GYRE_SCALING_YARN || scaling == GYRE_SCALING_LONGROPE || scaling == GYRE_SCALING_DYNAMIC_YARN;
}
