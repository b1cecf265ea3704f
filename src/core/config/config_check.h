/* config_check.h: what config.def says of each field: its range, and the value that 0 stands for. */
#ifndef GYRE_CORE_CONFIG_CHECK_H
#define GYRE_CORE_CONFIG_CHECK_H
#include "gyre/gyre.h"

/* EINVAL if a field is outside the range of its row, whatever the kind.  Numbers of lists are not looked at. */
gyre_status gyre_config_check(const gyre_config *config, gyre_error *err);
/* Fields of the kind that are 0 get the value that their row names. */
void gyre_config_fill_standards(gyre_config *config);

#endif
