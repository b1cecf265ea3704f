/* config_names.h: spellings of enumerators that only the libraries need. */
#ifndef GYRE_CORE_CONFIG_NAMES_H
#define GYRE_CORE_CONFIG_NAMES_H
#include "gyre/gyre_fields.h"

const char *gyre_sinusoid_name(gyre_sinusoid layout);
const char *gyre_clip_name(gyre_clip mode);
const char *gyre_longrope_start_name(gyre_longrope_start mode);

#endif
