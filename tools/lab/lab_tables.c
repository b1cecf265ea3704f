/* lab_tables.c: the tables of the lab, for the terminal, the report and JSON. */
#include "tools/lab/lab_tables.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 1, PARTS = 3, HEAT_DOUBLINGS = 4 };
#define HEAT_RULE "Colour: the perplexity over the lowest of the table, none at equal, full at 16 times it."
static const char NOT_MEASURED[] = ".";

/* -- tables -- */
static void add_row(const lab *l, lab_table *t, const lab_row *row) {
    gyre_report_cell *cells = &t->cells[t->table.rows * t->table.columns_count];
    cells[0] = gyre_report_cell_text(row->name);
    for (int c = 0; c < LAB_CONTEXTS; c++) {
        const lab_spread s = lab_cell_spread(l, row, c);
        gyre_report_cell *two = &cells[FIRST + 2 * c];
        if (!s.measured) {
            two[0] = two[1] = gyre_report_cell_text(NOT_MEASURED);
            continue;
        }
        two[0] = s.known ? gyre_report_cell_number(s.perplexity) : gyre_report_cell_missing();
        two[1] = s.known ? gyre_report_cell_number(100 * s.passkey) : gyre_report_cell_missing();
    }
    const int64_t parts[PARTS] = {row->parts.kept, row->parts.blended, row->parts.divided};
    for (int i = 0; t->has_parts && i < PARTS; i++)
        cells[FIRST + 2 * LAB_CONTEXTS + i] =
            row->rotates ? gyre_report_cell_number((double)parts[i]) : gyre_report_cell_missing();
    t->table.rows++;
}

/* Colours the perplexities of all rows by one rule, the one of HEAT_RULE. */
static void add_heat(lab_table *t) {
    double lowest = INFINITY;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t r = 0; r < t->table.rows; r++)
            for (int c = 0; c < LAB_CONTEXTS; c++) {
                gyre_report_cell *cell = &t->cells[r * t->table.columns_count + FIRST + 2 * c];
                if (cell->kind != GYRE_REPORT_CELL_NUMBER) continue;
                if (pass == 0)
                    lowest = fmin(lowest, cell->value);
                else
                    cell->heat = fmin(1, fmax(0, log2(cell->value / lowest) / HEAT_DOUBLINGS));
            }
}

static void add_heading(lab_table *t, const char *text) {
    t->cells[t->table.rows++ * t->table.columns_count] = gyre_report_cell_heading(text);
}

static void begin(const lab *l, lab_table *t, const char *first, int has_parts) {
    *t = (lab_table){.has_parts = has_parts, .table = GYRE_REPORT_TABLE_INIT};
    t->columns[0] = (gyre_report_column){.title = first};
    for (int c = 0; c < LAB_CONTEXTS; c++) {
        snprintf(t->groups[c], sizeof t->groups[c], "%lld%s", (long long)l->plan.contexts[c], c ? "" : " (trained)");
        t->columns[FIRST + 2 * c] = (gyre_report_column){
            .title = "ppl", .group = t->groups[c], .decimals = 2, .emphasis = GYRE_REPORT_EMPHASIS_LOWEST};
        t->columns[FIRST + 2 * c + 1] = (gyre_report_column){
            .title = "key", .group = t->groups[c], .unit = "%", .emphasis = GYRE_REPORT_EMPHASIS_HIGHEST};
    }
    static const char *const names[PARTS] = {"kept", "blended", "divided"};
    for (int i = 0; i < PARTS; i++)
        t->columns[FIRST + 2 * LAB_CONTEXTS + i] = (gyre_report_column){.title = names[i], .group = "pairs"};
    t->table.columns = t->columns;
    t->table.columns_count = FIRST + 2 * LAB_CONTEXTS + (has_parts ? PARTS : 0);
    t->table.cells = t->cells;
}

void lab_table_encodings(const lab *l, lab_table *t) {
    begin(l, t, "encoding", 0);
    t->table.caption = "Train short, test long: perplexity per byte and passkeys found, by context in bytes";
    t->table.colors = HEAT_RULE;
    t->table.note = l->stopped ? "A dash: the encoding ends before that context (a learned table has no rows there).  A "
                                 "dot: not measured, because the run was stopped."
                               : "A dash: the encoding ends before that context (a learned table has no rows there).";
    for (int i = 0; i < l->plan.encodings_count; i++)
        add_row(l, t, &l->encodings[i]);
    add_heat(t);
}

void lab_table_methods(const lab *l, lab_table *t) {
    begin(l, t, "method", 1);
    t->table.caption = "The RoPE model under every method, as it is and after a short fine-tuning at the longest context";
    t->table.colors = HEAT_RULE;
    t->table.note =
        "name:factor is static, a bare name follows the context.  pairs: how the method treats the pairs of channels at "
        "the longest context.";
    add_heading(t, "as it is");
    for (int i = 0; i < l->plan.methods_count; i++)
        add_row(l, t, &l->methods[i]);
    add_heading(t, "fine-tuned");
    for (int i = 0; i < LAB_TUNED_METHODS; i++)
        add_row(l, t, &l->tuned[i]);
    add_heat(t);
}

/* -- minimum and maximum over the seeds -- */
static void spread_text(const lab_spread *s, char *out, size_t size) {
    if (!s->measured)
        snprintf(out, size, "%s", NOT_MEASURED);
    else if (s->known)
        snprintf(out, size, "%.2f..%.2f", s->min, s->max);
    else
        snprintf(out, size, "-");
}

static void add_spread(const lab *l, lab_table *t, const lab_row *row) {
    const int64_t at = t->table.rows++;
    gyre_report_cell *cells = &t->cells[at * t->table.columns_count];
    cells[0] = gyre_report_cell_text(row->name);
    for (int c = 0; c < LAB_CONTEXTS; c++) {
        const lab_spread s = lab_cell_spread(l, row, c);
        char *ppl = t->texts[at][2 * c], *key = t->texts[at][2 * c + 1];
        spread_text(&s, ppl, sizeof t->texts[0][0]);
        snprintf(key, sizeof t->texts[0][0],
                 !s.measured ? NOT_MEASURED
                 : s.known   ? "%.0f..%.0f"
                             : "-",
                 100 * s.passkey_min, 100 * s.passkey_max);
        cells[FIRST + 2 * c] = gyre_report_cell_text(ppl);
        cells[FIRST + 2 * c + 1] = gyre_report_cell_text(key);
    }
}

void lab_table_spread(const lab *l, lab_table *t) {
    begin(l, t, "encoding or method", 0);
    t->table.caption = "Least and greatest over the seeds: perplexity, and passkeys found in percent";
    for (int c = 0; c < LAB_CONTEXTS; c++)
        t->columns[FIRST + 2 * c + 1].unit = NULL;
    add_heading(t, "encodings");
    for (int i = 0; i < l->plan.encodings_count; i++)
        add_spread(l, t, &l->encodings[i]);
    if (l->plan.rope < 0) return;
    add_heading(t, "the RoPE model as it is");
    for (int i = 0; i < l->plan.methods_count; i++)
        add_spread(l, t, &l->methods[i]);
    add_heading(t, "fine-tuned");
    for (int i = 0; i < LAB_TUNED_METHODS; i++)
        add_spread(l, t, &l->tuned[i]);
}

void lab_describe_text(const lab *l, char *out, size_t size) {
    if (l->work)
        snprintf(out, size, "the last tenth of the text (%lld of %lld bytes, fnv1a64:%016" PRIx64 ")",
                 (long long)l->held_out.count, (long long)l->all.count, l->all.hash);
    else
        snprintf(out, size, "the system headers held out of training (%lld bytes in %lld files, fnv1a64:%016" PRIx64 ")",
                 (long long)l->held_out.count, (long long)l->held_out.files, l->held_out.hash);
}

/* -- text -- */
int lab_print_end(const lab *l, FILE *file) {
    gyre_error err = {0};
    if (l->plan.seeds > 1) {
        lab_table *t = malloc(sizeof *t);
        if (!t) return cli_fail("tables: out of memory (gyre lab)");
        lab_table_spread(l, t);
        const gyre_status status = gyre_report_table_print(&t->table, file, cli_use_color(file), &err);
        free(t);
        if (status) return cli_fail_error(&err);
        fputc('\n', file);
    }
    char text[160];
    lab_describe_text(l, text, sizeof text);
    fprintf(file, "%s models, measured on %s; %.0f s\n", l->plan.preset, text, l->seconds);
    return 0;
}

/* -- JSON -- */
static json_t *row_json(const lab *l, const lab_row *row) {
    json_t *cells = json_array();
    for (int c = 0; c < LAB_CONTEXTS; c++) {
        const lab_spread s = lab_cell_spread(l, row, c);
        const double none = NAN;
        json_array_append_new(
            cells, json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "context", (json_int_t)l->plan.contexts[c],
                             "perplexity", cli_json_number(s.known ? s.perplexity : none), "perplexity_least",
                             cli_json_number(s.known ? s.min : none), "perplexity_greatest",
                             cli_json_number(s.known ? s.max : none), "bits_per_byte",
                             cli_json_number(s.known ? log2(s.perplexity) : none), "passkey",
                             cli_json_number(s.known ? s.passkey : none), "scored", (json_int_t)row->cells[0][c].scored,
                             "trials", (json_int_t)row->cells[0][c].trials));
    }
    json_t *json = json_pack("{s:s, s:o}", "name", row->name, "cells", cells);
    if (json && row->rotates)
        json_object_set_new(json, "pairs",
                            json_pack("{s:I, s:I, s:I}", "kept", (json_int_t)row->parts.kept, "blended",
                                      (json_int_t)row->parts.blended, "divided", (json_int_t)row->parts.divided));
    return json;
}

/* The rows that were begun. */
static json_t *rows_json(const lab *l, const lab_row *rows, int count) {
    json_t *array = json_array();
    for (int i = 0; i < count; i++)
        if (lab_row_begun(&rows[i])) json_array_append_new(array, row_json(l, &rows[i]));
    return array;
}

int lab_print_json(const lab *l, FILE *file) {
    const int methods = l->plan.rope >= 0 ? l->plan.methods_count : 0, tuned = l->plan.rope >= 0 ? LAB_TUNED_METHODS : 0;
    json_t *root = json_pack("{s:s, s:I, s:I, s:{s:o, s:I, s:I}, s:f, s:s, s:o, s:o, s:o}", "preset", l->plan.preset,
                             "trained_length", (json_int_t)l->plan.trained, "seeds", (json_int_t)l->plan.seeds, "text",
                             "hash", cli_json_hash(l->all.hash), "bytes", (json_int_t)l->all.count, "held_out",
                             (json_int_t)l->held_out.count, "seconds", l->seconds, "report", l->run.report, "encodings",
                             rows_json(l, l->encodings, l->plan.encodings_count), "methods",
                             rows_json(l, l->methods, methods), "fine_tuned", rows_json(l, l->tuned, tuned));
    if (root && l->stopped)
        json_object_set_new(root, "stopped",
                            json_pack("{s:i, s:i}", "rows_complete", lab_rows_done(l), "rows", lab_rows_count(l)));
    return cli_json_write(file, root);
}
