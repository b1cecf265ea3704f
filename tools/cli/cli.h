/* cli.h: all of tools/cli: what every subcommand does the same way. */
#ifndef GYRE_TOOLS_CLI_H
#define GYRE_TOOLS_CLI_H
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_json.h"
#include "tools/cli/cli_lock.h"
#include "tools/cli/cli_memory.h"
#include "tools/cli/cli_output.h"
#include "tools/cli/cli_page.h"
#include "tools/cli/cli_parse.h"
#include "tools/cli/cli_progress.h"
#include "tools/cli/cli_signals.h"
#include "tools/cli/cli_values.h"
#include "tools/cli/write_target.h"

#endif
