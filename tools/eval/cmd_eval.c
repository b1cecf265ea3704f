/* cmd_eval.c: gyre eval: perplexity against context, a row per method. */
#include "tools/common/report_target.h"
#include "tools/eval/eval.h"
#include <stdlib.h>
#include <string.h>

/* -- input -- */
/* Leaves o->contexts NULL, the reason printed, where they cannot be told. */
static void default_contexts(eval_options *o, int64_t trained) {
    enum { RATIOS = 3 };
    if (trained < 2)
        cli_fail("%s: does not say its trained length; name the lengths with --contexts (contexts)", o->model.path);
    else if (o->stride > trained || o->buckets > trained)
        cli_fail("%s: %lld is above the shortest context %lld (contexts)",
                 o->stride > trained ? "--stride" : "--by-position",
                 (long long)(o->stride > trained ? o->stride : o->buckets), (long long)trained);
    else if (!(o->contexts = calloc(RATIOS, sizeof *o->contexts)))
        cli_fail("contexts: out of memory (options)");
    else
        for (; o->contexts_count < RATIOS; o->contexts_count++)
            o->contexts[o->contexts_count] = trained << o->contexts_count;
}

static int open_input(evaluation *e) {
    eval_options *o = &e->options;
    gyre_error err = {0, ""};
    if (model_input_open(&e->input, &o->model, 0, &err)) return cli_fail_error(&err);
    const gyre_model_config *config = gyre_model_get_config(e->input.model);
    if (!o->contexts) default_contexts(o, config->position.trained_length);
    if (!o->contexts) return CLI_FAILED;
    if (o->passkey && config->vocab != 256)
        return cli_fail("--passkey: hides keys among bytes, and this model's vocabulary is of %lld (%s)",
                        (long long)config->vocab, o->model.path);
    /* Checked before any work, not after the first column. */
    const int64_t least = o->contexts[o->contexts_count - 1] + 1;
    return model_input_read(&e->input, least, &err) ? cli_fail_error(&err) : 0;
}

static gyre_status make_card(evaluation *e, int argc, char **argv, gyre_error *err) {
    const eval_options *o = &e->options;
    size_t used = 0;
    for (int64_t m = 0; m < o->methods_count && used < sizeof e->methods_text; m++)
        used += (size_t)snprintf(e->methods_text + used, sizeof e->methods_text - used, "%s%s", m ? ", " : "",
                                 o->methods[m].label);
    return run_card_make(&e->card, &e->input, e->methods_text, argc, argv, err);
}

/* -- the subcommand -- */
/* What the table cannot say in a dash. */
static void warn_out_of_range(const evaluation *e) {
    const eval_options *o = &e->options;
    for (int64_t s = 0; s < e->input.texts_count; s++)
        for (int64_t r = 0; r < e->rows_count; r++)
            for (int64_t l = 0; l < o->contexts_count; l++) {
                const eval_cell *c = eval_cell_at(e, s, r, l);
                if (c->out_of_range)
                    cli_warn("%s at %lld: %s", e->rows[r].method->label, (long long)o->contexts[l], c->note.text);
            }
}

static int print_results(const evaluation *e, FILE *file) {
    if (e->options.json_lines) return eval_print_last_line(e);
    return e->options.common.json ? eval_print_json(e, file) : eval_print_tables(e, file);
}

static int evaluate_and_print(evaluation *e, const cli_output *output) {
    const eval_options *o = &e->options;
    gyre_error err = {0, ""};
    if (eval_journal_open(e, &err)) return cli_fail_error(&err);
    int status = eval_cells_make(e);
    if (!status) status = cli_pool_open(&o->common, &e->pool, &e->exec);
    if (!status) status = eval_cells_measure(e, o->json_lines ? eval_print_cell_line : NULL);
    if (status) return status;
    warn_out_of_range(e);
    status = print_results(e, output->file);
    if (!status && o->report && eval_write_report(e, &err)) status = cli_fail_error(&err);
    return status;
}

static int run(evaluation *e, int argc, char **argv) {
    gyre_error err = {0, ""};
    cli_output output;
    const char *model = e->options.model.path;
    cli_check_output(e->options.common.output, model);
    cli_check_target("--report", e->options.report, model);
    cli_check_target("--journal", e->options.journal, model);
    if (e->options.report && report_target_check(e->options.report, &err)) return cli_fail_error(&err);
    int status = open_input(e);
    if (!status && make_card(e, argc, argv, &err)) status = cli_fail_error(&err);
    if (!status) status = cli_output_open(&output, e->options.common.output);
    return status ? status : cli_output_close(&output, evaluate_and_print(e, &output));
}

int cmd_eval(int argc, char **argv) {
    evaluation *e = calloc(1, sizeof *e);
    if (!e) return cli_fail("eval: out of memory (gyre eval)");
    char **words = calloc((size_t)argc + 1, sizeof *words);
    if (!words) cli_usage_error("arguments: out of memory for %d", argc);
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
