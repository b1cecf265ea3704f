/* run_options.c: --journal, --resume, --json-lines, --watch, --budget, --report and --figure. */
#include "tools/options/run_options.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/write_target.h"
#include "tools/team/team.h"
#include <stdlib.h>
#include <string.h>

void budget_read(const char *option, const char *text, void *at) {
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}};
    static const double most = 1e4 * 3600;
    char *unit;
    const double number = strtod(text, &unit);
    *(double *)at = 0;
    for (size_t i = 0; i < sizeof units / sizeof *units && number > 0; i++)
        if (strcmp(unit, units[i].unit) == 0) *(double *)at = number * units[i].seconds;
    if (*(double *)at > most) cli_usage_error("%s: \"%s\" is above 10000h", option, text);
    if (*(double *)at <= 0) cli_usage_error("%s: \"%s\" is not a time such as 30s, 5min or 2h", option, text);
}

void run_options_check(const run_options *o, const cli_options *common) {
    if (o->json_lines && common->output)
        cli_usage_error("--json-lines: come one by one on standard output; not with --output");
}

const char *run_options_how_to_continue(const run_options *o, const cli_options *common) {
    if (!o->journal) return "";
    return common->output || o->report || o->figure ? "; the same command with --resume and --force continues from here"
                                                    : "; the same command with --resume continues from here";
}

journal_mode run_options_journal_mode(const run_options *o, const cli_options *common) {
    return o->resume ? JOURNAL_RESUME : common->force ? JOURNAL_REPLACE : JOURNAL_NEW;
}

gyre_status run_options_check_targets(const run_options *o, gyre_error *err) {
    if (!team_leads()) return GYRE_OK;
    const gyre_status status = o->report ? report_target_check(o->report, err) : GYRE_OK;
    return !status && o->figure ? report_target_check(o->figure, err) : status;
}
