/* explorer_command.c: the subcommands that the page runs, with the files of the command itself. */
#include "explorer/wasm/explorer_numbers.h"
#include "tools/cli/cli.h"
#include "tools/subcommands.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *title;
    int (*run)(int argc, char **argv);
} subcommands[] = {{"explain", "gyre explain", cmd_explain},
                   {"diff", "gyre diff", cmd_diff},
                   {"extend", "gyre extend", cmd_extend},
                   {"eval", "gyre eval", cmd_eval},
                   {"show", "gyre show", cmd_show}};

/* Runs argv[0] with the arguments after it, and ends the instance with its status. */
EXPLORER_EXPORT(explorer_command) _Noreturn void explorer_command(int argc, char **argv);
_Noreturn void explorer_command(int argc, char **argv) {
    for (size_t i = 0; argc > 0 && i < sizeof subcommands / sizeof *subcommands; i++) {
        if (strcmp(subcommands[i].name, argv[0]) != 0) continue;
        argv[0] = (char *)subcommands[i].title;
        exit(cli_exit_status(subcommands[i].run(argc, argv)));
    }
    cli_usage_error("%s: no subcommand that runs in a page", argc > 0 ? argv[0] : "");
}
