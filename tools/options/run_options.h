/* run_options.h: options for the results of a long run: --journal, --resume, --json-lines, --report and --figure. */
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
#define ROW_REPORT(member, help, group)                                                                                     \
    { "report", "FILE", help, group, CLI_TEXT(member), .file = CLI_FILE_WRITTEN }
#define ROW_FIGURE(member, help, group)                                                                                     \
    { "figure", "FILE", help, group, CLI_TEXT(member), .file = CLI_FILE_WRITTEN }

typedef struct run_options {
    const char *journal, *report, *figure; /* NULL without the option */
    int resume, json_lines;
} run_options;

/* Called after parsing.  Usage error for options that contradict each other. */
void run_options_check(const run_options *o, const cli_options *common);
/* out = the end of a message about a run that was stopped and keeps its journal, "" without one. */
const char *run_options_how_to_continue(const run_options *o, const cli_options *common);
/* --resume continues a journal; --force alone replaces it. */
journal_mode run_options_journal_mode(const run_options *o, const cli_options *common);
/* Called before the work: whether the report and the figure can be written.  Errors: those of report_target_check. */
gyre_status run_options_check_targets(const run_options *o, gyre_error *err);

#endif
