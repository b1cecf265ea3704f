/* temperature.h: what queries are multiplied by, position by position. */
#ifndef GYRE_CORE_TEMPERATURE_H
#define GYRE_CORE_TEMPERATURE_H
#include "core/encoding.h"

/* Checks config.query of an encoding under creation, fills in its defaults and adds the place where it acts. */
gyre_status gyre_temperature_check(gyre_encoding *encoding, gyre_error *err);

#endif
