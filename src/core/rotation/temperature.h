/* temperature.h: the factor on queries that grows with position. */
#ifndef GYRE_CORE_TEMPERATURE_H
#define GYRE_CORE_TEMPERATURE_H
#include "gyre/gyre.h"

/* Checks config.query of an encoding under creation, fills in its defaults and adds its place. */
gyre_status gyre_temperature_check(gyre_encoding *encoding, gyre_error *err);
/* out = the factor of a query at `position` (gyre_temperature); 1 without a temperature. */
double gyre_temperature_at(const gyre_encoding *encoding, int64_t position);

#endif
