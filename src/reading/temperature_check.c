/* temperature_check.c: whether a written copy has the temperature of queries that was asked for. */
#include "reading/temperature_check.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>

static gyre_status fail_kind(const struct gyre_query_config *got, const gyre_temperature_expected *wanted, const char *name,
                             gyre_error *err) {
    const int asked = wanted->query.temperature != GYRE_TEMPERATURE_NONE;
    if (got->temperature == GYRE_TEMPERATURE_NONE)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "%s layers: no key of the copy says their temperature of queries (%s)",
                         name, wanted->path);
    return gyre_fail(err, GYRE_EUNSUPPORTED, "%s layers: the copy has %s temperature of queries (%s)", name,
                     asked ? "another" : "a", wanted->path);
}

gyre_status gyre_temperature_check_written(const struct gyre_query_config *got, const gyre_temperature_expected *wanted,
                                           const char *name, gyre_error *err) {
    const struct gyre_query_config *query = &wanted->query;
    if (got->temperature != query->temperature) return fail_kind(got, wanted, name, err);
    if (query->temperature == GYRE_TEMPERATURE_NONE) return GYRE_OK;
    if (got->reference_length != query->reference_length)
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "%s layers: their temperature of queries would count from %" PRId64 " tokens, not %" PRId64
                         ": %s is the length of the scaling too (%s)",
                         name, got->reference_length, query->reference_length, wanted->key, wanted->path);
    if (query->temperature != GYRE_TEMPERATURE_LOG && !(fabs(got->slope - query->slope) <= wanted->tolerance * query->slope))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "%s layers: their temperature of queries has the slope %.9g, not %.9g (%s)",
                         name, got->slope, query->slope, wanted->path);
    return GYRE_OK;
}
