/* cmd_passkey.c: gyre passkey: can a model still find what it read long ago, by length and by depth? */
#include "tools/common/report_target.h"
#include "tools/passkey/passkey.h"
#include <stdlib.h>
#include <string.h>

static void list_methods(passkey *p) {
    const passkey_options *o = &p->options;
    size_t used = 0;
    for (int64_t m = 0; m < o->methods_count && used < sizeof p->methods_text; m++) {
        const int n =
            snprintf(p->methods_text + used, sizeof p->methods_text - used, "%s%s", m ? ", " : "", o->methods[m].label);
        used += n > 0 ? (size_t)n : 0;
    }
}

static int open_input(passkey *p, int argc, char **argv) {
    const passkey_options *o = &p->options;
    gyre_error err = {0, ""};
    gyre_status status = GYRE_OK;
    if (o->report) status = report_target_check(o->report, &err);
    if (!status && o->figure) status = report_target_check(o->figure, &err);
    if (!status) status = model_input_open(&p->input, &o->model, 0, &err);
    if (!status) status = model_input_tokenizer(&p->input, &err);
    list_methods(p);
    if (!status) status = run_card_make(&p->card, &p->input, p->methods_text, argc, argv, &err);
    if (status) return cli_fail_error(&err);
    const int failed = passkey_cells_make(p);
    if (failed) return failed;
    return keyed_journal_open(&p->journal, o->journal, o->resume, &err) ? cli_fail_error(&err) : 0;
}

/* What the table cannot say in a dash. */
static void warn_out_of_range(const passkey *p) {
    const passkey_options *o = &p->options;
    for (int64_t m = 0; m < o->methods_count; m++)
        for (int64_t l = 0; l < o->lengths_count; l++)
            if (p->rows[m].columns[l].out_of_range)
                cli_warn("%s at %lld: %s", p->rows[m].method->label, (long long)o->lengths[l],
                         p->rows[m].columns[l].note.text);
}

static int print(const passkey *p, FILE *file) {
    if (p->options.json_lines) return passkey_print_last_line(p);
    return p->options.common.json ? passkey_print_json(p, file) : passkey_print_tables(p, file);
}

static int measure_and_print(passkey *p, const cli_output *output) {
    gyre_error err = {0, ""};
    int status = cli_pool_open(&p->options.common, &p->pool, &p->exec);
    if (!status) status = passkey_cells_measure(p);
    if (status) return status;
    warn_out_of_range(p);
    status = print(p, output->file);
    if (!status && p->options.figure && passkey_write_figure(p, &err)) status = cli_fail_error(&err);
    if (!status && p->options.report && passkey_write_report(p, &err)) status = cli_fail_error(&err);
    return status;
}

int cmd_passkey(int argc, char **argv) {
    passkey p = {.journal = {.lock = {.file = -1}}};
    char **words = calloc((size_t)argc + 1, sizeof *words);
    if (!words) cli_usage_error("arguments: out of memory for %d", argc);
    const int count = run_card_argv(argc, argv, words);
    passkey_options_read(argc, argv, &p.options);
    cli_check_output(p.options.common.output, p.options.model.path);
    cli_check_target("--report", p.options.report, p.options.model.path);
    cli_check_target("--figure", p.options.figure, p.options.model.path);
    cli_check_target("--journal", p.options.journal, p.options.model.path);
    int status = open_input(&p, count, words);
    if (!status) {
        cli_output output;
        status = cli_output_open(&output, p.options.common.output);
        if (!status) status = cli_output_close(&output, measure_and_print(&p, &output));
    }
    keyed_journal_close(&p.journal);
    gyre_pool_free(p.pool);
    passkey_cells_free(&p);
    model_input_free(&p.input);
    passkey_options_free(&p.options);
    free(words);
    return status;
}
