/* list_tiers.c: prints the tiers that this build has and this processor runs, best first, one a line (ci/run tiers). */
#include "kernels/kernels.h"

#include <stdio.h>

int main(void) {
#define NAME_OF(unused, name, text) text,
    static const char *const tiers[] = {GYRE_TIERS(NAME_OF, )};
#undef NAME_OF
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++)
        if (gyre_kernels_tier(tiers[i])) puts(tiers[i]);
    return 0;
}
