/* passkey_print.c: the results of gyre passkey as tables and as JSON. */
#include "tools/cli/plain_stream.h"
#include "tools/common/model_path.h"
#include "tools/passkey/passkey.h"
#include <string.h>

/* -- tables -- */
static result_table begin_table(const passkey *p, const char *first, gyre_report_emphasis emphasis) {
    result_table t = RESULT_TABLE_INIT;
    t.table.colors = "Colour: the share of keys found, none at 0%, full at 100%.";
    result_column(&t, (gyre_report_column){.title = first});
    for (int64_t l = 0; l < p->options.lengths.count; l++)
        result_column(&t, (gyre_report_column){.title = result_text(&t, "%lld", (long long)p->options.lengths.values[l]),
                                               .group = "right at length",
                                               .unit = "%",
                                               .emphasis = emphasis});
    return t;
}

/* accuracy NaN: nothing was measured, printed as a dash. */
static void add_accuracy(result_table *t, double accuracy) {
    gyre_report_cell cell = gyre_report_cell_number(100 * accuracy);
    cell.heat = accuracy > 0 ? accuracy : 0;
    result_cell(t, cell);
}

result_table passkey_table_methods(const passkey *p) {
    const passkey_options *o = &p->options;
    result_table t =
        begin_table(p, "method", o->method.count > 1 ? GYRE_REPORT_EMPHASIS_HIGHEST : GYRE_REPORT_EMPHASIS_NONE);
    for (int64_t m = 0; m < o->method.count; m++) {
        result_name(&t, p->rows[m].method->label);
        for (int64_t l = 0; l < o->lengths.count; l++) {
            add_accuracy(&t, passkey_column_accuracy(p, &p->rows[m].columns[l]));
            if (p->rows[m].columns[l].out_of_range) t.table.note = "-: the encoding ends before that length does";
        }
    }
    return t;
}

result_table passkey_table_depths(const passkey *p) {
    const passkey_options *o = &p->options;
    result_table t = begin_table(p, "depth", GYRE_REPORT_EMPHASIS_NONE);
    for (int64_t m = 0; m < o->method.count; m++) {
        if (o->method.count > 1) result_heading(&t, p->rows[m].method->label);
        for (int64_t d = 0; d < o->depths_count; d++) {
            result_name(&t, result_text(&t, "%.4g%%", 100 * o->depths[d]));
            for (int64_t l = 0; l < o->lengths.count; l++)
                add_accuracy(&t, passkey_accuracy(p, &p->rows[m].columns[l].cells[d]));
        }
    }
    return t;
}

static void print_header(const passkey *p, FILE *out) {
    const passkey_options *o = &p->options;
    cli_page page;
    FILE *file = cli_page_begin(&page, out);
    char model[4400];
    model_input_describe(&p->input, model, sizeof model);
    fprintf(file, "model    %s\n", plain_line(model));
    fprintf(file, "format   %s", passkey_format_name(p));
    if (o->phrases.chat) fprintf(file, " (%s)", o->phrases.chat->form->name);
    fprintf(file, ", %s\n", p->choice);
    fprintf(file, "trials   %lld for each length and depth, seed %lld, cache %s; the answer %s\n", (long long)o->trials,
            (long long)o->seed, dtype_name(o->method.cache),
            o->contains ? "stands in what is generated" : "begins what is generated");
    fprintf(file, "prompts  ");
    for (int64_t l = 0; l < o->lengths.count; l++) {
        char tokens[PASSKEY_TOKENS];
        passkey_prompt_tokens(p, l, tokens);
        fprintf(file, "%s%lld: %s%s", l ? "; " : "", (long long)o->lengths.values[l], tokens,
                strcmp(tokens, "none") == 0 ? "" : " tokens");
    }
    fprintf(file, "\n\n");
    cli_page_end(&page);
}

int passkey_print_tables(const passkey *p, FILE *file) {
    char verdict[PASSKEY_VERDICT], same[SAME_ROWS_TEXT];
    print_header(p, file);
    if (!passkey_found_none(p)) { /* tables of nothing but zeros say no more than the verdict */
        int status = result_table_show(passkey_table_methods(p), file);
        fputc('\n', file);
        if (!status) status = result_table_show(passkey_table_depths(p), file);
        fputc('\n', file);
        if (status) return status;
    }
    same_rows_describe(&p->same, p->options.lengths.values, p->options.lengths.count, passkey_row_name, p, same);
    if (*same) cli_page_printf(file, "%s\n\n", same);
    if (passkey_verdict(p, verdict)) cli_page_printf(file, "%s\n\n", verdict);
    run_card_print(&p->card, file);
    return 0;
}

/* -- JSON -- */
static json_t *json_of_trials(const passkey *p, const passkey_cell *cell) {
    json_t *trials = json_array();
    for (int64_t t = 0; cell->done && t < p->options.trials; t++) {
        const passkey_trial *r = &cell->trials[t];
        (void)json_array_append_new(trials, JSON_OBJECT("key", JSON(r->key), "answer", JSON(r->answer), "said",
                                                        JSON(r->output), "right", json_boolean(r->right), "prompt_tokens",
                                                        JSON(r->tokens), "depth", JSON(r->depth)));
    }
    return trials;
}

static json_t *json_of_cell(const passkey *p, const passkey_row *row, int64_t length, const passkey_cell *cell) {
    const passkey_column *column = &row->columns[length];
    const method *m = row->method;
    const int64_t same = same_rows_of(&p->same, row - p->rows, length);
    return JSON_OBJECT(
        "method", JSON(m->name), "label", JSON(m->label), "factor", m->factor != 0 ? JSON(m->factor) : json_null(),
        "length_policy", cli_json_text(row->depends_on_length ? gyre_length_policy_name(row->policy) : NULL), "length",
        JSON(p->options.lengths.values[length]), "depth", JSON(cell->depth), "right", JSON(passkey_accuracy(p, cell)),
        "trials", json_of_trials(p, cell), "same_as", same < 0 ? NULL : JSON(passkey_row_name(p, same)), "error",
        column->out_of_range && !cell->done ? cli_json_text(column->note.text) : NULL);
}

static json_t *json_of_totals(const passkey *p) {
    const passkey_options *o = &p->options;
    json_t *totals = json_array();
    for (int64_t m = 0; m < o->method.count; m++)
        for (int64_t l = 0; l < o->lengths.count; l++)
            (void)json_array_append_new(totals, JSON_OBJECT("label", JSON(o->method.list[m].label), "length",
                                                            JSON(o->lengths.values[l]), "right",
                                                            JSON(passkey_column_accuracy(p, &p->rows[m].columns[l]))));
    return totals;
}

/* Everything but the cells. */
static json_t *json_of_run(const passkey *p) {
    const passkey_options *o = &p->options;
    const gyre_config *position = gyre_encoding_get_config(gyre_model_get_encoding(p->input.model));
    char verdict[PASSKEY_VERDICT];
    const int unfit = passkey_verdict(p, verdict), marks = o->phrases.marks;
    json_t *prompt = JSON_OBJECT("format", JSON(passkey_format_name(p)), "chosen", JSON(p->choice), "chat_template",
                                 cli_json_text(o->phrases.chat ? o->phrases.chat->form->name : NULL), "needle",
                                 cli_json_text(marks ? NULL : o->phrases.needle), "question",
                                 cli_json_text(marks ? NULL : o->phrases.question), "answer", JSON(o->phrases.answer),
                                 "match", JSON(o->contains ? "contains" : "exact"));
    return JSON_OBJECT("model", JSON(model_path_as_given(o->model.path)), "kind", JSON(gyre_kind_name(position->kind)),
                       "trained_length", JSON(position->trained_length), "parameters",
                       JSON(gyre_model_parameters(p->input.model)), "trials", JSON(o->trials), "seed", JSON(o->seed),
                       "cache", JSON(dtype_name(o->method.cache)), "prompt", prompt, "card", run_card_json(&p->card),
                       "totals", json_of_totals(p), "verdict", cli_json_text(unfit ? verdict : NULL));
}

int passkey_print_json(const passkey *p, FILE *file) {
    const passkey_options *o = &p->options;
    json_t *results = json_array();
    for (int64_t m = 0; m < o->method.count; m++)
        for (int64_t l = 0; l < o->lengths.count; l++)
            for (int64_t d = 0; d < o->depths_count; d++)
                (void)json_array_append_new(results, json_of_cell(p, &p->rows[m], l, &p->rows[m].columns[l].cells[d]));
    return cli_json_write(file, cli_json_add(json_of_run(p), "results", results, NULL));
}

int passkey_print_cell_line(const passkey *p, const passkey_row *row, int64_t length, const passkey_cell *cell) {
    return cli_json_line(JSON_OBJECT("result", json_of_cell(p, row, length, cell)));
}

int passkey_print_last_line(const passkey *p) {
    return cli_json_line(JSON_OBJECT("run", json_of_run(p)));
}
