/* input_config.h: config.input, as far as all additions at the input share it. */
#ifndef GYRE_ENCODINGS_INPUT_CONFIG_H
#define GYRE_ENCODINGS_INPUT_CONFIG_H
#include "gyre/gyre.h"

/* Checks input.dim and input.scale of an encoding under creation and fills in their defaults. */
gyre_status gyre_input_config_check(gyre_encoding *encoding, gyre_error *err);

#endif
