/* passkey_print.c: the results of gyre passkey as tables and as JSON. */
#include "tools/cli/plain_stream.h"
#include "tools/common/model_path.h"
#include "tools/passkey/passkey.h"
#include <stdlib.h>
#include <string.h>

/* -- tables -- */
/* texts: the lengths, then the depths. */
static gyre_status make_table(const passkey *p, result_table *t, const char *first, int64_t rows, gyre_error *err) {
    const passkey_options *o = &p->options;
    const int64_t lengths = o->lengths.count;
    const gyre_status status = result_table_create(t, 1 + lengths, rows, lengths + o->depths_count, err);
    if (status) return status;
    t->table.colors = "Colour: the share of keys found, none at 0%, full at 100%.";
    t->columns[0] = (gyre_report_column){.title = first};
    for (int64_t l = 0; l < lengths; l++) {
        snprintf(t->texts[l], sizeof t->texts[l], "%lld", (long long)o->lengths.values[l]);
        t->columns[1 + l] = (gyre_report_column){.title = t->texts[l], .group = "right at length", .unit = "%"};
    }
    for (int64_t d = 0; d < o->depths_count; d++)
        snprintf(t->texts[lengths + d], sizeof t->texts[0], "%.4g%%", 100 * o->depths[d]);
    return GYRE_OK;
}

/* accuracy NaN: nothing was measured, printed as a dash. */
static gyre_report_cell accuracy_cell(double accuracy) {
    gyre_report_cell cell = gyre_report_cell_number(100 * accuracy);
    cell.heat = accuracy > 0 ? accuracy : 0;
    return cell;
}

gyre_status passkey_table_methods(const passkey *p, result_table *out, gyre_error *err) {
    const passkey_options *o = &p->options;
    const gyre_status status = make_table(p, out, "method", o->method.count, err);
    if (status) return status;
    gyre_report_cell *cell = out->cells;
    for (int64_t l = 0; l < o->lengths.count; l++)
        out->columns[1 + l].emphasis = o->method.count > 1 ? GYRE_REPORT_EMPHASIS_HIGHEST : GYRE_REPORT_EMPHASIS_NONE;
    for (int64_t m = 0; m < o->method.count; m++) {
        *cell++ = gyre_report_cell_text(p->rows[m].method->label);
        for (int64_t l = 0; l < o->lengths.count; l++) {
            *cell++ = accuracy_cell(passkey_column_accuracy(p, &p->rows[m].columns[l]));
            if (p->rows[m].columns[l].out_of_range) out->table.note = "-: the encoding ends before that length does";
        }
    }
    return GYRE_OK;
}

gyre_status passkey_table_depths(const passkey *p, result_table *out, gyre_error *err) {
    const passkey_options *o = &p->options;
    const int64_t each = o->depths_count + (o->method.count > 1);
    const gyre_status status = make_table(p, out, "depth", each * o->method.count, err);
    if (status) return status;
    gyre_report_cell *cell = out->cells;
    for (int64_t m = 0; m < o->method.count; m++) {
        if (o->method.count > 1) {
            *cell = gyre_report_cell_heading(p->rows[m].method->label);
            cell += 1 + o->lengths.count;
        }
        for (int64_t d = 0; d < o->depths_count; d++) {
            *cell++ = gyre_report_cell_text(out->texts[o->lengths.count + d]);
            for (int64_t l = 0; l < o->lengths.count; l++)
                *cell++ = accuracy_cell(passkey_accuracy(p, &p->rows[m].columns[l].cells[d]));
        }
    }
    return GYRE_OK;
}

static void print_header(const passkey *p, FILE *out) {
    const passkey_options *o = &p->options;
    cli_page page;
    FILE *file = cli_page_begin(&page, out);
    char model[4400];
    model_input_describe(&p->input, model, sizeof model);
    fprintf(file, "model    %s\n", plain_line(model));
    fprintf(file, "format   %s, %s\n", passkey_format_name(p), p->choice);
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

/* Tables of nothing but zeros say no more than the verdict. */
static gyre_status print_tables(const passkey *p, FILE *file, gyre_error *err) {
    result_table methods = {.columns = NULL}, depths = {.columns = NULL};
    gyre_status status = passkey_table_methods(p, &methods, err);
    if (!status) status = passkey_table_depths(p, &depths, err);
    if (!status) status = result_table_print(&methods.table, file, err);
    if (!status) {
        fputc('\n', file);
        status = result_table_print(&depths.table, file, err);
    }
    result_table_free(&methods);
    result_table_free(&depths);
    if (!status) fputc('\n', file);
    return status;
}

int passkey_print_tables(const passkey *p, FILE *file) {
    gyre_error err = {0, ""};
    char verdict[PASSKEY_VERDICT];
    print_header(p, file);
    if (!passkey_found_none(p) && print_tables(p, file, &err)) return cli_fail_error(&err);
    if (passkey_verdict(p, verdict)) cli_page_printf(file, "%s\n\n", verdict);
    run_card_print(&p->card, file);
    return 0;
}

/* -- JSON -- */
static json_t *json_of_trials(const passkey *p, const passkey_cell *cell) {
    json_t *trials = json_array();
    for (int64_t t = 0; cell->done && t < p->options.trials; t++) {
        const passkey_trial *r = &cell->trials[t];
        (void)json_array_append_new(trials, json_pack("{s:i, s:s, s:s, s:b, s:I, s:f}", "key", r->key, "answer", r->answer,
                                                      "said", r->output, "right", r->right, "prompt_tokens",
                                                      (json_int_t)r->tokens, "depth", r->depth));
    }
    return trials;
}

static json_t *json_of_cell(const passkey *p, const passkey_row *row, int64_t length, const passkey_cell *cell) {
    const passkey_column *column = &row->columns[length];
    const method *m = row->method;
    json_t *out = json_pack("{s:s, s:s, s:o, s:o, s:I, s:f, s:o, s:o}", "method", m->name, "label", m->label, "factor",
                            m->factor != 0 ? cli_json_number(m->factor) : json_null(), "length_policy",
                            row->depends_on_length ? json_string(gyre_length_policy_name(row->policy)) : json_null(),
                            "length", (json_int_t)p->options.lengths.values[length], "depth", cell->depth, "right",
                            cli_json_number(passkey_accuracy(p, cell)), "trials", json_of_trials(p, cell));
    if (out && column->out_of_range && !cell->done)
        (void)json_object_set_new(out, "error", cli_json_text(column->note.text));
    return out;
}

static json_t *json_of_totals(const passkey *p) {
    const passkey_options *o = &p->options;
    json_t *totals = json_array();
    for (int64_t m = 0; m < o->method.count; m++)
        for (int64_t l = 0; l < o->lengths.count; l++)
            (void)json_array_append_new(totals,
                                        json_pack("{s:s, s:I, s:o}", "label", o->method.list[m].label, "length",
                                                  (json_int_t)o->lengths.values[l], "right",
                                                  cli_json_number(passkey_column_accuracy(p, &p->rows[m].columns[l]))));
    return totals;
}

/* Everything but the cells. */
static json_t *json_of_run(const passkey *p) {
    const passkey_options *o = &p->options;
    const gyre_config *position = gyre_encoding_get_config(gyre_model_get_encoding(p->input.model));
    char verdict[PASSKEY_VERDICT];
    const int unfit = passkey_verdict(p, verdict), marks = o->phrases.marks;
    return json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:s, s:{s:s, s:s, s:o, s:o, s:o, s:s}, s:o, s:o, s:o}", "model",
                     cli_json_text(model_path_as_given(o->model.path)), "kind", gyre_kind_name(position->kind),
                     "trained_length", (json_int_t)position->trained_length, "parameters",
                     (json_int_t)gyre_model_parameters(p->input.model), "trials", (json_int_t)o->trials, "seed",
                     (json_int_t)o->seed, "cache", dtype_name(o->method.cache), "prompt", "format", passkey_format_name(p),
                     "chosen", p->choice, "needle", cli_json_text(marks ? NULL : o->phrases.needle), "question",
                     cli_json_text(marks ? NULL : o->phrases.question), "answer", cli_json_text(o->phrases.answer), "match",
                     o->contains ? "contains" : "exact", "card", run_card_json(&p->card), "totals", json_of_totals(p),
                     "verdict", cli_json_text(unfit ? verdict : NULL));
}

int passkey_print_json(const passkey *p, FILE *file) {
    const passkey_options *o = &p->options;
    json_t *run = json_of_run(p), *results = json_array();
    for (int64_t m = 0; m < o->method.count; m++)
        for (int64_t l = 0; l < o->lengths.count; l++)
            for (int64_t d = 0; d < o->depths_count; d++)
                (void)json_array_append_new(results, json_of_cell(p, &p->rows[m], l, &p->rows[m].columns[l].cells[d]));
    if (run)
        (void)json_object_set_new(run, "results", results);
    else
        json_decref(results);
    return cli_json_write(file, run);
}

int passkey_print_cell_line(const passkey *p, const passkey_row *row, int64_t length, const passkey_cell *cell) {
    return cli_json_line(json_pack("{s:o}", "result", json_of_cell(p, row, length, cell)));
}

int passkey_print_last_line(const passkey *p) {
    return cli_json_line(json_pack("{s:o}", "run", json_of_run(p)));
}
