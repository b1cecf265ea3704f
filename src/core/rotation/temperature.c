/* temperature.c: a factor on queries that keeps attention as sharp over many keys as over few. */
#include "core/rotation/temperature.h"
#include "core/encoding.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>

gyre_status gyre_temperature_check(gyre_encoding *encoding, gyre_error *err) {
    struct gyre_query_config *query = &encoding->config.query;
    if (query->temperature == GYRE_TEMPERATURE_NONE) return GYRE_OK;
    if (query->reference_length == 0) query->reference_length = encoding->config.trained_length;
    const int64_t minimum = query->temperature == GYRE_TEMPERATURE_LOG ? 2 : 1; /* ln(1) = 0 cannot divide */
    if (query->reference_length < minimum)
        return gyre_fail(err, GYRE_EINVAL,
                         "query.reference_length: %" PRId64 "; the temperature needs at least %" PRId64
                         ", from here or trained_length "
                         "(gyre_config)",
                         query->reference_length, minimum);
    encoding->places |= GYRE_PLACE_QUERY_KEY;
    return GYRE_OK;
}

/* ln(1 + floor(x / length)); 0 for x below length, negative x included. */
static double log_steps(int64_t x, int64_t length) {
    const int64_t steps = x < length ? 0 : x / length;
    return log1p((double)steps);
}

double gyre_temperature_at(const gyre_encoding *encoding, int64_t position) {
    const struct gyre_query_config *query = &encoding->config.query;
    switch (query->temperature) {
    case GYRE_TEMPERATURE_LOG:
        return position < query->reference_length ? 1 : log((double)(position + 1)) / log((double)query->reference_length);
    case GYRE_TEMPERATURE_LLAMA4:
        return 1 + query->slope * log_steps(position + 1, query->reference_length);
    case GYRE_TEMPERATURE_MINISTRAL:
        return 1 + query->slope * log_steps(position, query->reference_length);
    case GYRE_TEMPERATURE_INKLING:
        return 1 + query->slope * log(fmax(1, (double)(position + 1) / (double)query->reference_length));
    default:
        return 1;
    }
}
