/* option_order.h: the options of a command in the order of --help. */
#ifndef GYRE_TOOLS_OPTION_ORDER_H
#define GYRE_TOOLS_OPTION_ORDER_H
#include "tools/cli/cli_parse.h"

enum { OPTION_ORDER_MAX = 128 };

/* out[0 .. count) = the options that --help prints, and headings (name NULL), by group and then by name.  Groups below zero
 * come last.  out = count. */
int option_order(const cli_description *command, const struct argp_option *options[OPTION_ORDER_MAX]);

#endif
