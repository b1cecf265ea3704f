/* search_gain.c: the paired bootstrap over windows: both methods use the same drawn windows. */
#include "tools/search/search_gain.h"
#include "tools/cli/cli_error.h"
#include "tools/search/search_rescale.h"
#include "util/random.h"
#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

gyre_status search_gain(const double *before, const double *after, int64_t windows, uint64_t seed, search_interval *out,
                        gyre_error *err) {
    double *means = malloc(SEARCH_RESAMPLES * sizeof *means), all = 0;
    if (!means) return gyre_fail(err, GYRE_ENOMEM, "bootstrap: out of memory (search)");
    for (int64_t w = 0; w < windows; w++)
        all += before[w] - after[w];
    for (int r = 0; r < SEARCH_RESAMPLES; r++) {
        double sum = 0;
        for (int64_t i = 0; i < windows; i++) {
            const int64_t w = gyre_random_below(&seed, windows);
            sum += before[w] - after[w];
        }
        means[r] = sum / (double)windows;
    }
    qsort(means, SEARCH_RESAMPLES, sizeof *means, by_value);
    *out = (search_interval){all / (double)windows, means[SEARCH_RESAMPLES / 40],
                             means[SEARCH_RESAMPLES - 1 - SEARCH_RESAMPLES / 40]};
    free(means);
    return GYRE_OK;
}
