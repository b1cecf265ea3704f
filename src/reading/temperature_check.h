/* temperature_check.h: whether a written copy has the temperature of queries that was asked for. */
#ifndef GYRE_READING_TEMPERATURE_CHECK_H
#define GYRE_READING_TEMPERATURE_CHECK_H

#include "gyre/gyre.h"

typedef struct gyre_temperature_expected {
    struct gyre_query_config query; /* complete, as in an encoding */
    double tolerance;               /* of the slope, relative */
    const char *key;                /* of the length from which the temperature and a scaling count */
    const char *path;               /* of the model, for messages */
} gyre_temperature_expected;

/* Fails unless the layers called `name` got the kind, slope and reference length that were expected.  EUNSUPPORTED. */
gyre_status gyre_temperature_check_written(const struct gyre_query_config *got, const gyre_temperature_expected *wanted,
                                           const char *name, gyre_error *err);

#endif /* GYRE_READING_TEMPERATURE_CHECK_H */
