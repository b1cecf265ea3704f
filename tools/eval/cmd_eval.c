/* cmd_eval.c: gyre eval: perplexity by context length, one row per method. */
#include "tools/eval/eval.h"
#include "tools/subcommands.h"
#include "tools/team/team.h"
#include <stdlib.h>
#include <string.h>

/* -- input -- */
/* A position is below 2^31. */
static int check_positions(const eval_options *o) {
    const int64_t longest = o->contexts.values[o->contexts.count - 1];
    if (o->first_position <= ((int64_t)1 << 31) - longest) return 0;
    return cli_fail("--first-position: %lld and a context of %lld go past 2^31 (eval)", (long long)o->first_position,
                    (long long)longest);
}

/* 1, 2 and 4 times the trained length, unless --contexts was given. */
static int set_contexts(eval_options *o, int64_t trained) {
    const int too_long = o->stride > trained ? 1 : o->buckets > trained ? 2 : 0;
    if (!o->contexts.count && trained >= 2 && too_long)
        return cli_fail("%s: %lld is above the shortest context %lld (contexts)",
                        too_long == 1 ? "--stride" : "--by-position", (long long)(too_long == 1 ? o->stride : o->buckets),
                        (long long)trained);
    return length_list_default(&o->contexts, "--contexts", trained, o->model.path);
}

static int open_input(evaluation *e) {
    eval_options *o = &e->options;
    gyre_error err = {0, ""};
    if (model_input_open(&e->input, &o->model, 0, &err)) return cli_fail_error(&err);
    const gyre_model_config *config = gyre_model_get_config(e->input.model);
    int status = set_contexts(o, config->position.trained_length);
    if (!status) status = check_positions(o);
    if (status) return status;
    if (o->passkey && config->vocab != 256)
        return cli_fail("--passkey: hides keys among bytes, and this model's vocabulary is of %lld (%s)",
                        (long long)config->vocab, o->model.path);
    /* A text that is too short for the longest context is reported before any work. */
    const int64_t min_tokens = o->contexts.values[o->contexts.count - 1] + 1;
    if (!model_input_read(&e->input, min_tokens, &err)) return 0;
    const char *needed = strstr(err.text, "are needed"), *where = needed ? strchr(needed, '(') : NULL;
    if (!where) return cli_fail_error(&err);
    return cli_fail("%.*sfor the longest context; --contexts names shorter ones %s", (int)(where - err.text), err.text,
                    where);
}

static gyre_status make_card(evaluation *e, int argc, char **argv, gyre_error *err) {
    method_options_labels(&e->options.method, e->methods_text);
    return run_card_make(&e->card, &e->input, e->methods_text, argc, argv, err);
}

/* -- the subcommand -- */
/* Explains the dashes of the table. */
static void warn_out_of_range(const evaluation *e) {
    const eval_options *o = &e->options;
    for (int64_t s = 0; s < e->input.texts_count; s++)
        for (int64_t r = 0; r < e->rows_count; r++)
            for (int64_t l = 0; l < o->contexts.count; l++) {
                const eval_cell *c = eval_cell_at(e, s, r, l);
                if (c->out_of_range)
                    cli_warn("%s at %lld: %s", e->rows[r].method->label, (long long)o->contexts.values[l], c->note.text);
            }
}

static int print_results(const evaluation *e, FILE *file) {
    if (e->options.run.json_lines) return eval_print_last_line(e);
    return e->options.common.json ? eval_print_json(e, file) : eval_print_tables(e, file);
}

static int evaluate_and_print(evaluation *e, const cli_output *output) {
    const eval_options *o = &e->options;
    gyre_error err = {0, ""};
    if (eval_journal_open(e, &err)) return cli_fail_error(&err);
    if (eval_rows_make(e, &err)) return cli_fail_error(&err);
    int status = cli_pool_open(&o->common, &e->pool, &e->exec);
    if (!status) status = eval_budget_plan(e);
    if (status) return status;
    eval_cells_make(e);
    status = eval_cells_measure(e, o->run.json_lines ? eval_print_cell_line : NULL);
    if (!status && journal_finish(&e->journal.lines.lines, &err)) status = cli_fail_error(&err);
    if (!status) status = eval_products_measure(e);
    if (status) return status;
    if (e->stopped)
        cli_warn("stopped: a dash stands for what was not measured%s (eval)",
                 run_options_how_to_continue(&o->run, &o->common));
    else
        warn_out_of_range(e);
    status = print_results(e, output->file);
    if (!status && o->run.report && team_leads() && eval_write_report(e, &err)) status = cli_fail_error(&err);
    return status;
}

static int run(evaluation *e, int argc, char **argv) {
    gyre_error err = {0, ""};
    cli_output output;
    const eval_options *o = &e->options;
    if (run_options_check_targets(&o->run, &err)) return cli_fail_error(&err);
    int status = open_input(e);
    if (!status && make_card(e, argc, argv, &err)) status = cli_fail_error(&err);
    if (!status) status = cli_output_open(&output, o->common.output);
    return status ? status : cli_output_close(&output, evaluate_and_print(e, &output));
}

int cmd_eval(int argc, char **argv) {
    evaluation *e = cli_alloc(1, sizeof *e);
    char **words = cli_alloc(argc + 1, sizeof *words);
    const int count = run_card_argv(argc, argv, words);
    eval_options_read(argc, argv, &e->options);
    const int status = run(e, count, words);
    eval_journal_close(&e->journal);
    gyre_pool_free(e->pool);
    model_input_free(&e->input);
    eval_cells_free(e);
    eval_options_free(&e->options);
    free(words);
    free(e);
    return status;
}
