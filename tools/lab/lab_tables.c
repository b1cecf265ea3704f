/* lab_tables.c: the tables of the lab, for the terminal, the report and JSON. */
#include "tools/lab/lab_tables.h"
#include "tools/cli/cli_page.h"
#include "tools/lab/bootstrap.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const PART_NAMES[LAB_PARTS] = {"encodings", "the RoPE model as it is", "fine-tuned",
                                                  "the ALiBi model as it is"};
enum { PARTS = 3, HEAT_DOUBLINGS = 4 };
#define HEAT_RULE "Colour: the perplexity over the lowest of the table, none at equal, full at 16 times it."
static const char NOT_MEASURED[] = ".";
static const char *const PAIR_PARTS[PARTS] = {"kept", "blended", "divided"};

/* -- tables -- */
static gyre_report_cell cell_of(const lab_spread *s, int measure) {
    if (!s->measured) return gyre_report_cell_text(NOT_MEASURED);
    if (!s->known) return gyre_report_cell_missing();
    return gyre_report_cell_number((measure == LAB_PERPLEXITY ? 1 : 100) * s->of[measure].mean);
}

static void add_row(const lab *l, lab_table *t, const lab_row *row) {
    gyre_report_cell *cells = &t->cells[t->table.rows * t->table.columns_count];
    cells[0] = gyre_report_cell_text(row->name);
    for (int c = 0; c < l->plan.contexts_count; c++)
        for (int m = 0; m < l->plan.measures; m++)
            cells[lab_column(t, c, m)] = cell_of(&row->spread[c], m);
    if (t->has_parts && row->rotates) {
        char *text = t->texts[t->table.rows][0];
        snprintf(text, sizeof t->texts[0][0], "%lld/%lld/%lld", (long long)row->parts.kept, (long long)row->parts.blended,
                 (long long)row->parts.divided);
        cells[lab_column(t, l->plan.contexts_count, 0)] = gyre_report_cell_text(text);
    }
    t->table.rows++;
}

/* Colours the perplexities of all rows by one rule, the one of HEAT_RULE. */
static void add_heat(const lab *l, lab_table *t) {
    double lowest = INFINITY;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t r = 0; r < t->table.rows; r++)
            for (int c = 0; c < l->plan.contexts_count; c++) {
                gyre_report_cell *cell = &t->cells[r * t->table.columns_count + lab_column(t, c, LAB_PERPLEXITY)];
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
    *t = (lab_table){.has_parts = has_parts, .measures = l->plan.measures, .table = GYRE_REPORT_TABLE_INIT};
    t->columns[0] = (gyre_report_column){.title = first};
    for (int c = 0; c < l->plan.contexts_count; c++) {
        snprintf(t->groups[c], sizeof t->groups[c], "%lld%s", (long long)l->plan.contexts[c], c ? "" : " (trained)");
        for (int m = 0; m < l->plan.measures; m++) {
            static const char *const titles[LAB_MEASURES] = {"ppl", "key", "copy"};
            const int is_share = m != LAB_PERPLEXITY;
            t->columns[lab_column(t, c, m)] =
                (gyre_report_column){.title = titles[m],
                                     .group = t->groups[c],
                                     .decimals = is_share ? 0 : 2,
                                     .unit = is_share ? "%" : NULL,
                                     .emphasis = is_share ? GYRE_REPORT_EMPHASIS_HIGHEST : GYRE_REPORT_EMPHASIS_LOWEST};
        }
    }
    t->columns[lab_column(t, l->plan.contexts_count, 0)] = (gyre_report_column){.title = "pairs"};
    t->table.columns = t->columns;
    t->table.columns_count = lab_column(t, l->plan.contexts_count, has_parts);
    t->table.cells = t->cells;
}

static void put_note(const lab *l, lab_table *t, const char *note) {
    snprintf(t->note, sizeof t->note, "%s%s", note, l->stopped ? "  A dot: not measured, because the run was stopped." : "");
    t->table.note = t->note;
}

void lab_table_encodings(const lab *l, lab_table *t) {
    begin(l, t, "encoding", 0);
    t->table.caption =
        l->plan.measures > LAB_COPIES
            ? "Train short, test long: perplexity per byte, passkeys found and copied bytes right, by context in bytes"
            : "Train short, test long: perplexity per byte and passkeys found, by context in bytes";
    t->table.colors = HEAT_RULE;
    put_note(l, t, "A dash: the encoding ends before that context (a learned table has no rows there).");
    for (int i = 0; i < l->plan.encodings_count; i++)
        add_row(l, t, &l->encodings[i]);
    add_heat(l, t);
}

static int has_static(const lab_plan *p) {
    for (int i = 0; i < p->methods_count; i++)
        if (strchr(p->methods[i].label, ':')) return 1;
    return 0;
}

static void describe_methods(const lab *l, lab_table *t) {
    char factors[120] = "name:factor is static, a bare name follows the context.";
    if (!has_static(&l->plan))
        snprintf(factors, sizeof factors, "Each method but none stretches by context / %lld: by %lld at %lld bytes.",
                 (long long)l->plan.trained, (long long)(l->plan.contexts[1] / l->plan.trained),
                 (long long)l->plan.contexts[1]);
    char note[LAB_NOTE];
    snprintf(note, sizeof note, "%s%s%s", factors,
             l->plan.tuned_rows > l->plan.tuned_methods
                 ? "  drope: without rotation, fine-tuned at the trained length on as many tokens."
                 : "",
             t->has_parts ? "  pairs: of channels that the method keeps/blends/divides at the longest context." : "");
    put_note(l, t, note);
}

void lab_table_methods(const lab *l, lab_table *t) {
    begin(l, t, "method", l->plan.details);
    t->table.caption = l->plan.methods_caption;
    t->table.colors = HEAT_RULE;
    describe_methods(l, t);
    add_heading(t, "as it is");
    for (int i = 0; i < l->plan.methods_count; i++)
        add_row(l, t, &l->methods[i]);
    add_heading(t, "fine-tuned");
    for (int i = 0; i < l->plan.tuned_rows; i++)
        add_row(l, t, &l->tuned[i]);
    add_heat(l, t);
}

void lab_table_slopes(const lab *l, lab_table *t) {
    begin(l, t, "method", 0);
    t->table.caption = "The ALiBi model, as it is, under methods that stretch its slopes";
    t->table.colors = HEAT_RULE;
    put_note(l, t, "name:factor is static, a bare name follows the context.");
    for (int i = 0; i < l->plan.stretched_count; i++)
        add_row(l, t, &l->stretched[i]);
    add_heat(l, t);
}

/* -- for a page -- */
void lab_table_for_page(const lab *l, lab_table *t) {
    static const char *const groups[LAB_MEASURES] = {"perplexity", "keys (%)", "copies (%)"};
    gyre_report_column columns[LAB_COLUMNS] = {t->columns[0]};
    const int contexts = l->plan.contexts_count;
    const int64_t held = t->table.columns_count, count = 1 + contexts * t->measures;
    for (int c = 0; c < contexts; c++)
        snprintf(t->titles[c], sizeof t->titles[c], "%lld", (long long)l->plan.contexts[c]);
    /* Rows become shorter, so no cell is overwritten before it is read. */
    for (int64_t r = 0; r < t->table.rows; r++) {
        gyre_report_cell cells[LAB_COLUMNS] = {t->cells[r * held]};
        for (int c = 0; c < contexts; c++)
            for (int m = 0; m < t->measures; m++)
                cells[1 + contexts * m + c] = t->cells[r * held + lab_column(t, c, m)];
        memcpy(&t->cells[r * count], cells, (size_t)count * sizeof *cells);
    }
    for (int m = 0; m < t->measures; m++)
        for (int c = 0; c < contexts; c++) {
            gyre_report_column *column = &columns[1 + contexts * m + c];
            *column = t->columns[lab_column(t, c, m)];
            column->title = t->titles[c];
            column->group = groups[m];
            column->unit = NULL;
        }
    memcpy(t->columns, columns, sizeof columns);
    t->table.columns_count = count;
    if (!t->has_parts) return;
    t->has_parts = 0;
    describe_methods(l, t);
}

void lab_table_pairs(const lab *l, lab_table *t) {
    begin(l, t, "method", 0);
    snprintf(t->caption, sizeof t->caption, "How each method treats the pairs of channels at %lld bytes",
             (long long)l->plan.longest);
    t->table.caption = t->caption;
    t->table.columns_count = 1 + PARTS;
    for (int i = 0; i < PARTS; i++)
        t->columns[1 + i] = (gyre_report_column){.title = PAIR_PARTS[i]};
    for (int i = 0; i < l->plan.methods_count; i++) {
        const lab_row *row = &l->methods[i];
        const int64_t parts[PARTS] = {row->parts.kept, row->parts.blended, row->parts.divided};
        gyre_report_cell *cells = &t->cells[t->table.rows * t->table.columns_count];
        if (!row->rotates) continue;
        cells[0] = gyre_report_cell_text(row->name);
        for (int k = 0; k < PARTS; k++)
            cells[1 + k] = gyre_report_cell_number((double)parts[k]);
        t->table.rows++;
    }
}

/* -- intervals -- */
static void interval_text(const lab_spread *s, int measure, char *out, size_t size) {
    const lab_figure *f = &s->of[measure];
    if (!s->measured)
        snprintf(out, size, "%s", NOT_MEASURED);
    else if (!s->known)
        snprintf(out, size, "-");
    else if (measure == LAB_PERPLEXITY)
        snprintf(out, size, "%.2f (%.2f to %.2f)", f->mean, f->low, f->high);
    else
        snprintf(out, size, "%.0f (%.0f to %.0f)", 100 * f->mean, 100 * f->low, 100 * f->high);
}

static void add_intervals(const lab *l, lab_table *t, const lab_row *row, int measure) {
    const int64_t at = t->table.rows++;
    gyre_report_cell *cells = &t->cells[at * t->table.columns_count];
    cells[0] = gyre_report_cell_text(row->name);
    for (int c = 0; c < l->plan.contexts_count; c++) {
        interval_text(&row->spread[c], measure, t->texts[at][c], sizeof t->texts[0][0]);
        cells[1 + c] = gyre_report_cell_text(t->texts[at][c]);
    }
}

void lab_describe_interval(const lab *l, char *out, size_t size) {
    snprintf(out, size, "95 %% of %d bootstrap samples of %s", BOOTSTRAP_RESAMPLES,
             l->plan.seeds > 1 ? "the seeds and, apart from them, of the windows" : "the windows, for one seed");
}

/* One column for each context, whose cells have an interval in brackets. */
static void begin_brackets(const lab *l, lab_table *t, const char *more) {
    char interval[128];
    lab_describe_interval(l, interval, sizeof interval);
    snprintf(t->note, sizeof t->note, "In brackets: %s%s.", interval, more);
    t->table.note = t->note;
    t->table.columns_count = 1 + l->plan.contexts_count;
    t->measures = 1;
    for (int c = 0; c < l->plan.contexts_count; c++)
        t->columns[1 + c] = (gyre_report_column){.title = t->groups[c]};
}

void lab_table_intervals(const lab *l, lab_table *t, lab_measure measure) {
    static const char *const captions[LAB_MEASURES] = {"Perplexity per byte", "Passkeys found, in percent",
                                                       "Copied bytes right, in percent"};
    begin(l, t, "encoding or method", 0);
    snprintf(t->caption, sizeof t->caption, "%s: mean over %lld seed%s, and interval", captions[measure],
             (long long)l->plan.seeds, l->plan.seeds > 1 ? "s" : "");
    t->table.caption = t->caption;
    begin_brackets(l, t, "");
    for (int part = 0; part < LAB_PARTS; part++) {
        int count;
        const lab_row *rows = lab_part_rows(l, (lab_part)part, &count);
        if (count) add_heading(t, PART_NAMES[part]);
        for (int i = 0; i < count; i++)
            add_intervals(l, t, &rows[i], measure);
    }
}

/* -- ranks -- */
static const char *const PAIR_NAMES[LAB_PAIRS] = {"perplexity and keys", "perplexity and copies", "keys and copies"};

void lab_table_ranks(const lab *l, lab_table *t) {
    begin(l, t, "rows, and measures", 0);
    t->table.caption = "Do the measures rank the rows alike?  Kendall's tau: 1 in the same order, 0 unrelated, -1 opposite";
    begin_brackets(l, t, ", the same for all rows.  Equal rows count once");
    for (int part = 0; part < LAB_PARTS; part++) {
        int count;
        const lab_row *rows = lab_part_rows(l, (lab_part)part, &count);
        if (!count || !lab_row_begun(rows)) continue;
        add_heading(t, PART_NAMES[part]);
        for (int p = 0; p < LAB_PAIRS; p++) {
            const int64_t at = t->table.rows++;
            gyre_report_cell *cells = &t->cells[at * t->table.columns_count];
            cells[0] = gyre_report_cell_text(PAIR_NAMES[p]);
            for (int c = 0; c < l->plan.contexts_count; c++) {
                const lab_rank *r = &l->ranks[part][p][c];
                snprintf(t->texts[at][c], sizeof t->texts[0][0], r->known ? "%.2f (%.2f to %.2f)" : "-", r->tau, r->low,
                         r->high);
                cells[1 + c] = gyre_report_cell_text(t->texts[at][c]);
            }
        }
    }
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
static gyre_status print_whole(const lab_table *t, FILE *file, gyre_error *err) {
    const gyre_status status = result_table_print(&t->table, file, err);
    fputc('\n', file);
    return status;
}

int lab_print_end(const lab *l, FILE *file) {
    gyre_error err = {0};
    lab_table *t = malloc(sizeof *t);
    if (!t) return cli_fail("tables: out of memory (gyre lab)");
    gyre_status status = GYRE_OK;
    for (int m = 0; m < l->plan.measures && l->plan.seeds > 1 && !status; m++) {
        lab_table_intervals(l, t, (lab_measure)m);
        status = print_whole(t, file, &err);
    }
    if (!status && l->plan.details) {
        lab_table_ranks(l, t);
        status = print_whole(t, file, &err);
    }
    free(t);
    if (status) return cli_fail_error(&err);
    char text[160];
    lab_describe_text(l, text, sizeof text);
    char line[256];
    snprintf(line, sizeof line, "%s models, measured on %s; %.0f s", l->work ? l->plan.preset : "bundled", text, l->seconds);
    cli_page_paragraph(file, NULL, line);
    return 0;
}

/* -- JSON -- */
static const double NONE = NAN;

static json_t *interval_json(const lab *l, const lab_spread *s, lab_measure measure) {
    const double ends[2] = {s->of[measure].low, s->of[measure].high};
    return s->known && s->measured && (int)measure < l->plan.measures ? cli_json_numbers(ends, 2) : json_null();
}

/* The figures of each seed that is measured. */
static json_t *seeds_json(const lab *l, const lab_row *row, int context) {
    json_t *list = json_array();
    for (int s = 0; s < row->spread[context].measured; s++) {
        const lab_cell *c = &row->cells[s][context];
        json_array_append_new(
            list, json_pack("{s:o, s:o, s:o}", "perplexity", cli_json_number(c->known ? exp(c->nats) : NONE), "passkey",
                            cli_json_number(c->known ? c->keys.share : NONE), "copied",
                            cli_json_number(c->known && l->plan.measures > LAB_COPIES ? c->copies.share : NONE)));
    }
    return list;
}

static json_t *cell_json(const lab *l, const lab_row *row, int c) {
    const lab_spread *s = &row->spread[c];
    const lab_cell *first = &row->cells[0][c];
    const lab_figure *ppl = &s->of[LAB_PERPLEXITY];
    return json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:o}", "context", (json_int_t)l->plan.contexts[c],
        "perplexity", cli_json_number(s->known ? ppl->mean : NONE), "perplexity_interval",
        interval_json(l, s, LAB_PERPLEXITY), "perplexity_least", cli_json_number(s->known ? ppl->least : NONE),
        "perplexity_greatest", cli_json_number(s->known ? ppl->greatest : NONE), "bits_per_byte",
        cli_json_number(s->known ? log2(ppl->mean) : NONE), "passkey",
        cli_json_number(s->known ? s->of[LAB_KEYS].mean : NONE), "passkey_interval", interval_json(l, s, LAB_KEYS), "copied",
        cli_json_number(s->known && l->plan.measures > LAB_COPIES ? s->of[LAB_COPIES].mean : NONE), "copied_interval",
        interval_json(l, s, LAB_COPIES), "scored", (json_int_t)first->scored, "trials", (json_int_t)first->keys.asked,
        "copied_asked", (json_int_t)first->copies.asked, "seeds", seeds_json(l, row, c));
}

static json_t *row_json(const lab *l, const lab_row *row) {
    json_t *cells = json_array();
    for (int c = 0; c < l->plan.contexts_count; c++)
        json_array_append_new(cells, cell_json(l, row, c));
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

/* One object for each part and pair of measures. */
static json_t *ranks_json(const lab *l) {
    static const char *const parts[LAB_PARTS] = {"encodings", "methods", "fine_tuned", "alibi_methods"};
    static const char *const measures[LAB_MEASURES] = {"perplexity", "passkey", "copied"};
    json_t *array = json_array();
    for (int part = 0; part < LAB_PARTS && l->plan.details; part++)
        for (int p = 0; p < LAB_PAIRS && (part != LAB_SLOPES || l->plan.stretched_count); p++) {
            json_t *cells = json_array();
            for (int c = 0; c < l->plan.contexts_count; c++) {
                const lab_rank *r = &l->ranks[part][p][c];
                const double ends[2] = {r->low, r->high};
                json_array_append_new(cells, json_pack("{s:I, s:o, s:o, s:I}", "context", (json_int_t)l->plan.contexts[c],
                                                       "tau", cli_json_number(r->known ? r->tau : NONE), "interval",
                                                       r->known ? cli_json_numbers(ends, 2) : json_null(), "rows",
                                                       (json_int_t)r->rows));
            }
            json_array_append_new(array,
                                  json_pack("{s:s, s:[s, s], s:o}", "part", parts[part], "measures",
                                            measures[lab_pair_first(p)], measures[lab_pair_second(p)], "cells", cells));
        }
    return array;
}

int lab_print_json(const lab *l, FILE *file) {
    const int methods = l->plan.rope >= 0 ? l->plan.methods_count : 0, tuned = l->plan.rope >= 0 ? l->plan.tuned_rows : 0;
    char interval[128];
    lab_describe_interval(l, interval, sizeof interval);
    json_t *root = json_pack(
        "{s:s, s:I, s:I, s:s, s:{s:o, s:I, s:I}, s:f, s:o, s:o, s:o, s:o, s:o}", "preset", l->plan.preset, "trained_length",
        (json_int_t)l->plan.trained, "seeds", (json_int_t)l->plan.seeds, "interval", interval, "text", "hash",
        cli_json_hash(l->all.hash), "bytes", (json_int_t)l->all.count, "held_out", (json_int_t)l->held_out.count, "seconds",
        l->seconds, "report", cli_json_text(l->run.report), "encodings", rows_json(l, l->encodings, l->plan.encodings_count),
        "methods", rows_json(l, l->methods, methods), "fine_tuned", rows_json(l, l->tuned, tuned), "ranks", ranks_json(l));
    if (root && l->plan.stretched_count)
        json_object_set_new(root, "alibi_methods", rows_json(l, l->stretched, l->plan.stretched_count));
    if (root && l->stopped)
        json_object_set_new(root, "stopped",
                            json_pack("{s:i, s:i}", "rows_complete", lab_rows_done(l), "rows", lab_rows_count(l)));
    return cli_json_write(file, root);
}
