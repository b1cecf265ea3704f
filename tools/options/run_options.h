/* run_options.h: options for the results of a long run: --journal, --resume, --json-lines, --report and --figure. */
#ifndef GYRE_TOOLS_RUN_OPTIONS_H
#define GYRE_TOOLS_RUN_OPTIONS_H
#include "tools/cli/cli_parse.h"

enum { RUN_KEY_JOURNAL = 0x1b0, RUN_KEY_RESUME, RUN_KEY_LINES, RUN_KEY_REPORT, RUN_KEY_FIGURE };

#define OPTION_JOURNAL(help, group)                                                                                         \
    { "journal", RUN_KEY_JOURNAL, "FILE", 0, help, group }
/* result: what one line of the journal holds, such as "figure". */
#define OPTION_JOURNAL_OF(result, group)                                                                                    \
    OPTION_JOURNAL("Add a line to FILE for each " result " as soon as it is measured", group)
#define OPTION_RESUME(inputs, group)                                                                                        \
    {                                                                                                                       \
        "resume", RUN_KEY_RESUME, NULL, 0,                                                                                  \
            "Continue from --journal: results in it for the same " inputs " and options are not measured again", group      \
    }
#define OPTION_JSON_LINES(result, group)                                                                                    \
    {                                                                                                                       \
        "json-lines", RUN_KEY_LINES, NULL, 0,                                                                               \
            "Print a line of JSON for each " result " as it is measured, and one for the run", group                        \
    }
#define OPTION_REPORT(help, group)                                                                                          \
    { "report", RUN_KEY_REPORT, "FILE", 0, help, group }
#define OPTION_FIGURE(help, group)                                                                                          \
    { "figure", RUN_KEY_FIGURE, "FILE", 0, help, group }

typedef struct run_options {
    const char *journal, *report, *figure; /* NULL without the option */
    int resume, json_lines;
} run_options;

/* out = 0, or ARGP_ERR_UNKNOWN if the key is not one of these. */
error_t run_option(run_options *o, int key, char *text);
/* Called after parsing.  Usage error for options that contradict each other. */
void run_options_check(const run_options *o, const cli_options *common);
/* Called before the work: whether the report and the figure can be written.  Errors: those of report_target_check. */
gyre_status run_options_check_targets(const run_options *o, gyre_error *err);

#endif
