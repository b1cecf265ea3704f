/* run_options.h: options for the results of a long run: --journal, --resume, --json-lines, --watch, --budget,
 * --report and --figure. */
#ifndef GYRE_TOOLS_RUN_OPTIONS_H
#define GYRE_TOOLS_RUN_OPTIONS_H
#include "tools/cli/cli_parse.h"
#include "tools/common/keyed_journal.h"

#define ROW_JOURNAL(member, help, group)                                                                                    \
    { "journal", "FILE", help, group, CLI_TEXT(member), .file = CLI_FILE_JOURNAL }
/* result: what one line of the journal holds, such as "figure". */
#define ROW_JOURNAL_OF(member, result, group)                                                                               \
    ROW_JOURNAL(member, "Add a line to FILE for each " result " as soon as it is measured", group)
#define ROW_RESUME(member, inputs, group)                                                                                   \
    {                                                                                                                       \
        "resume", NULL,                                                                                                     \
            "Continue from --journal: results in it for the same " inputs " and options are not measured again", group,     \
            CLI_FLAG(member), .needs = "journal", .why = "needs the --journal to go on from"                                \
    }
#define ROW_JSON_LINES(member, result, group)                                                                               \
    {                                                                                                                       \
        "json-lines", NULL, "Print a line of JSON for each " result " as it is measured, and one for the run", group,       \
            CLI_FLAG(member), .excludes = "json", .why = "contradicts --json"                                               \
    }
/* what: that the trial chooses, such as "how many windows fit, and leaves out the longest contexts if three do not". */
#define ROW_BUDGET(member, what, group)                                                                                     \
    {                                                                                                                       \
        "budget", "TIME", "At most about so long on this machine, such as 30s, 5min or 2h: a short trial decides " what,    \
            group, CLI_OTHER(double, member, budget_read)                                                                   \
    }
#define ROW_WATCH(member, result, group)                                                                                    \
    {                                                                                                                       \
        "watch", NULL,                                                                                                      \
            "Show the results so far on stderr: on a terminal the table, drawn again after each " result                    \
            "; elsewhere a line for each",                                                                                  \
            group, CLI_FLAG(member)                                                                                         \
    }
#define ROW_REPORT(member, help, group)                                                                                     \
    { "report", "FILE", help, group, CLI_TEXT(member), .file = CLI_FILE_WRITTEN }
#define ROW_FIGURE(member, help, group)                                                                                     \
    { "figure", "FILE", help, group, CLI_TEXT(member), .file = CLI_FILE_WRITTEN }

typedef struct run_options {
    const char *journal, *report, *figure; /* NULL without the option */
    int resume, json_lines, watch;
    double budget; /* seconds; 0 = none */
} run_options;

/* Of ROW_BUDGET.  at: a double, seconds.  A wrong value is a usage error. */
void budget_read(const char *option, const char *text, void *at);

/* Called after parsing.  Usage error for options that contradict each other. */
void run_options_check(const run_options *o, const cli_options *common);
/* out = the end of a message about a run that was stopped and keeps its journal, "" without one. */
const char *run_options_how_to_continue(const run_options *o, const cli_options *common);
/* --resume continues a journal; --force alone replaces it. */
journal_mode run_options_journal_mode(const run_options *o, const cli_options *common);
/* Called before the work: whether the report and the figure can be written.  Errors: those of report_target_check. */
gyre_status run_options_check_targets(const run_options *o, gyre_error *err);

#endif
