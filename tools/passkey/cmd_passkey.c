/* cmd_passkey.c: gyre passkey: whether a model finds a key that it read earlier, by length and depth. */
#include "tools/passkey/passkey.h"
#include "tools/subcommands.h"
#include "tools/team/team.h"
#include "util/fnv1a.h"
#include <stdlib.h>
#include <string.h>

static int open_input(passkey *p, int argc, char **argv) {
    const passkey_options *o = &p->options;
    gyre_error err = {0, ""};
    gyre_status status = run_options_check_targets(&o->run, &err);
    if (!status) status = model_input_open(&p->input, &o->model, 0, &err);
    if (!status) status = model_input_tokenizer(&p->input, &err);
    method_options_labels(&o->method, p->methods_text);
    if (!status) status = run_card_make(&p->card, &p->input, p->methods_text, argc, argv, &err);
    if (!status) status = passkey_choose_format(p, &err);
    if (status) return cli_fail_error(&err);
    p->card.prompts = passkey_format_name(p);
    const int failed = passkey_cells_make(p);
    if (failed) return failed;
    uint64_t hash = GYRE_FNV1A_OFFSET_BASIS;
    for (int64_t l = 0; l < o->lengths.count; l++)
        hash = gyre_fnv1a(hash, &p->templates[l].hash, sizeof p->templates[l].hash);
    if (team_same("tokenizer", hash, &err)) return cli_fail_error(&err);
    return keyed_journal_open(&p->journal, o->run.journal, run_options_journal_mode(&o->run, &o->common), &err)
               ? cli_fail_error(&err)
               : 0;
}

/* Explains the dashes of the table. */
static void warn_out_of_range(const passkey *p) {
    const passkey_options *o = &p->options;
    for (int64_t m = 0; m < o->method.count; m++)
        for (int64_t l = 0; l < o->lengths.count; l++)
            if (p->rows[m].columns[l].out_of_range)
                cli_warn("%s at %lld: %s", p->rows[m].method->label, (long long)o->lengths.values[l],
                         p->rows[m].columns[l].note.text);
}

static int print(const passkey *p, FILE *file) {
    if (p->options.run.json_lines) return passkey_print_last_line(p);
    return p->options.common.json ? passkey_print_json(p, file) : passkey_print_tables(p, file);
}

static int measure_and_print(passkey *p, const cli_output *output) {
    gyre_error err = {0, ""};
    int status = cli_pool_open(&p->options.common, &p->pool, &p->exec);
    if (!status) status = passkey_budget_plan(p);
    if (!status) status = passkey_cells_measure(p);
    if (!status && journal_finish(&p->journal.lines, &err)) status = cli_fail_error(&err);
    if (status) return status;
    warn_out_of_range(p);
    status = print(p, output->file);
    if (!status && p->options.run.figure && team_leads() && passkey_write_figure(p, &err)) status = cli_fail_error(&err);
    if (!status && p->options.run.report && team_leads() && passkey_write_report(p, &err)) status = cli_fail_error(&err);
    return status;
}

int cmd_passkey(int argc, char **argv) {
    passkey p = {.pool = NULL};
    char **words = cli_alloc(argc + 1, sizeof *words);
    const int count = run_card_argv(argc, argv, words);
    passkey_options_read(argc, argv, &p.options);
    int status = open_input(&p, count, words);
    if (!status) {
        cli_output output;
        status = cli_output_open(&output, p.options.common.output);
        if (!status) status = cli_output_close(&output, measure_and_print(&p, &output));
    }
    keyed_journal_close(&p.journal);
    gyre_pool_free(p.pool);
    passkey_cells_free(&p);
    chat_close(&p.chat);
    model_input_free(&p.input);
    passkey_options_free(&p.options);
    free(words);
    return status;
}
