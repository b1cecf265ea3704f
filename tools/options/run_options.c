/* run_options.c: --journal, --resume, --json-lines, --report and --figure. */
#include "tools/options/run_options.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/write_target.h"
#include "tools/team/team.h"

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
