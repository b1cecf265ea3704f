/* temperature.c: what queries are multiplied by, so that attention stays as sharp over many keys as over few. */
#include "core/temperature.h"

#include <math.h>

gyre_status gyre_temperature_check(gyre_encoding *encoding, gyre_error *err) {
    struct gyre_query_config *query = &encoding->config.query;
    if (query->temperature == GYRE_TEMPERATURE_NONE) return GYRE_OK;
    if ((unsigned)query->temperature > GYRE_TEMPERATURE_MINISTRAL)
        return gyre_fail(err, GYRE_EINVAL, "query.temperature: %d names no temperature (gyre_config)",
                         (int)query->temperature);
    if (query->length == 0) query->length = encoding->config.trained_length;
    const int64_t least = query->temperature == GYRE_TEMPERATURE_LOG ? 2 : 1; /* ln(1) is no divisor */
    if (query->length < least)
        return gyre_fail(err, GYRE_EINVAL,
                         "query.length: %lld; the temperature needs at least %lld, from here or trained_length "
                         "(gyre_config)",
                         (long long)query->length, (long long)least);
    if (query->slope == 0) query->slope = 0.1;
    if (!(query->slope > 0 && query->slope <= 0x1p32))
        return gyre_fail(err, GYRE_EINVAL, "query.slope: %g is not in (0, 2^32] (gyre_config)", query->slope);
    encoding->places |= GYRE_AT_QUERY_KEY;
    return GYRE_OK;
}

double gyre_temperature_at(const gyre_encoding *encoding, int64_t position) {
    const struct gyre_query_config *query = &encoding->config.query;
    const int64_t m = position < 0 ? 0 : position;
    switch (query->temperature) {
    case GYRE_TEMPERATURE_LOG:
        return m + 1 <= query->length ? 1 : log((double)(m + 1)) / log((double)query->length);
    case GYRE_TEMPERATURE_LLAMA4:
        return 1 + query->slope * log1p((double)((m + 1) / query->length));
    case GYRE_TEMPERATURE_MINISTRAL:
        return 1 + query->slope * log1p((double)(m / query->length));
    default:
        return 1;
    }
}
