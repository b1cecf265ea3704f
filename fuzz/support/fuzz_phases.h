/* fuzz_phases.h: TAPA's product by its definition in double: (q_A . k_A) cos(2 pi t), t = |m - n|^alpha (q_P . k_P) /
 * sqrt(channels of P). */
#ifndef GYRE_FUZZ_PHASES_H
#define GYRE_FUZZ_PHASES_H
#include "fuzz_tables.h"
#include "gyre/gyre.h"

/* What floats may be off: a sum of n products by n + 4 of their roundings, as in tests/attention/test_tapa.c.  A phase of
 * many turns multiplies what its product is off. */
typedef struct fuzz_phased {
    fuzz_number product;                /* what takes the place of q . k */
    fuzz_number of_amplitude, of_phase; /* its derivatives by q_A . k_A and q_P . k_P */
} fuzz_phased;

/* out = the first channels of q and k that are amplitudes. */
int64_t fuzz_phases_first(const gyre_config *config);
fuzz_phased fuzz_phases_of(const gyre_config *config, const fuzz_pair *pair);

#endif
