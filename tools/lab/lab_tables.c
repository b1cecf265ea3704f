/* lab_tables.c: the tables of the lab, for the terminal, the report and JSON. */
#include "tools/lab/lab_tables.h"
#include "tools/cli/cli_page.h"
#include "tools/lab/bootstrap.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const PART_NAMES[LAB_PARTS] = {"encodings", "the RoPE model as it is", "fine-tuned",
                                                  "the ALiBi model as it is"};
enum { HEAT_DOUBLINGS = 4, NOTE = 320 };
#define HEAT_RULE "Colour: the perplexity over the lowest of the table, none at equal, full at 16 times it."
static const char NOT_MEASURED[] = ".";

/* -- tables -- */
static int cells_count(const lab *l) {
    return l->plan.contexts_count * l->plan.measures;
}

/* out = the context of cell i of a row; *measure = its measure. */
static int context_of(const lab *l, lab_layout layout, int i, int *measure) {
    const int contexts = l->plan.contexts_count, measures = l->plan.measures;
    *measure = layout == LAB_ON_PAGE ? i / contexts : i % measures;
    return layout == LAB_ON_PAGE ? i % contexts : i / measures;
}

static const char *context_name(const lab *l, result_table *t, int c) {
    return result_text(t, "%lld%s", (long long)l->plan.contexts[c], c ? "" : " (trained)");
}

static int has_pairs(const lab *l, lab_layout layout) {
    return l->plan.details && layout == LAB_ON_TERMINAL;
}

static result_table begin(const lab *l, const char *first, lab_layout layout) {
    static const char *const titles[LAB_MEASURES] = {"ppl", "key", "copy"};
    static const char *const groups[LAB_MEASURES] = {"perplexity", "keys (%)", "copies (%)"};
    result_table t = RESULT_TABLE_INIT;
    const char *group = NULL;
    t.table.colors = HEAT_RULE;
    result_column(&t, (gyre_report_column){.title = first});
    for (int i = 0; i < cells_count(l); i++) {
        int m;
        const int c = context_of(l, layout, i, &m), is_share = m != LAB_PERPLEXITY, is_page = layout == LAB_ON_PAGE;
        if (m == 0 && !is_page) group = context_name(l, &t, c);
        result_column(
            &t, (gyre_report_column){.title = is_page ? result_text(&t, "%lld", (long long)l->plan.contexts[c]) : titles[m],
                                     .group = is_page ? groups[m] : group,
                                     .decimals = is_share ? 0 : 2,
                                     .unit = is_share && !is_page ? "%" : NULL,
                                     .emphasis = is_share ? GYRE_REPORT_EMPHASIS_HIGHEST : GYRE_REPORT_EMPHASIS_LOWEST});
    }
    return t;
}

static gyre_report_cell cell_of(const lab_spread *s, int measure) {
    if (!s->measured) return gyre_report_cell_text(NOT_MEASURED);
    if (!s->known) return gyre_report_cell_missing();
    return gyre_report_cell_number((measure == LAB_PERPLEXITY ? 1 : 100) * s->of[measure].mean);
}

static void add_cells(const lab *l, result_table *t, const lab_row *row, lab_layout layout) {
    result_name(t, row->name);
    for (int i = 0, m; i < cells_count(l); i++) {
        const lab_spread *s = &row->spread[context_of(l, layout, i, &m)];
        result_cell(t, cell_of(s, m));
    }
}

static void add_row_of_method(const lab *l, result_table *t, const lab_row *row, lab_layout layout) {
    const gyre_scaling_parts *p = &row->parts;
    add_cells(l, t, row, layout);
    if (has_pairs(l, layout))
        result_name(t, row->rotates ? result_text(t, "%lld/%lld/%lld", (long long)p->kept, (long long)p->blended,
                                                  (long long)p->divided)
                                    : NULL);
}

/* Colours the perplexities of all rows by one rule, the one of HEAT_RULE. */
static void add_heat(result_table *t) {
    double lowest = INFINITY;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < t->cells_count; i++) {
            gyre_report_cell *cell = &t->cells[i];
            const int is_perplexity = t->columns[i % t->table.columns_count].emphasis == GYRE_REPORT_EMPHASIS_LOWEST;
            if (!is_perplexity || cell->kind != GYRE_REPORT_CELL_NUMBER) continue;
            if (pass == 0)
                lowest = fmin(lowest, cell->value);
            else
                cell->heat = fmin(1, fmax(0, log2(cell->value / lowest) / HEAT_DOUBLINGS));
        }
}

static const char *note_of(const lab *l, result_table *t, const char *note) {
    return l->stopped ? result_text(t, "%s  A dot: not measured, because the run was stopped.", note)
                      : result_text(t, "%s", note);
}

result_table lab_table_encodings(const lab *l, lab_layout layout) {
    result_table t = begin(l, "encoding", layout);
    t.table.caption =
        l->plan.measures > LAB_COPIES
            ? "Train short, test long: perplexity per byte, passkeys found and copied bytes right, by context in bytes"
            : "Train short, test long: perplexity per byte and passkeys found, by context in bytes";
    t.table.note = note_of(l, &t, "A dash: the encoding ends before that context (a learned table has no rows there).");
    for (int i = 0; i < l->plan.encodings_count; i++)
        add_cells(l, &t, &l->encodings[i], layout);
    add_heat(&t);
    return t;
}

static int has_static(const lab_plan *p) {
    for (int i = 0; i < p->methods_count; i++)
        if (strchr(p->methods[i].label, ':')) return 1;
    return 0;
}

static const char *describe_methods(const lab *l, result_table *t, int pairs) {
    char factors[120] = "The factor of name:factor is fixed, that of a bare name follows the context.", note[NOTE];
    if (!has_static(&l->plan))
        snprintf(factors, sizeof factors, "Each method but none stretches by context / %lld: by %lld at %lld bytes.",
                 (long long)l->plan.trained, (long long)(l->plan.contexts[1] / l->plan.trained),
                 (long long)l->plan.contexts[1]);
    snprintf(note, sizeof note, "%s%s%s", factors,
             l->plan.tuned_rows > l->plan.tuned_methods
                 ? "  drope: without rotation, fine-tuned at the trained length on as many tokens."
                 : "",
             pairs ? "  pairs: of channels that the method keeps/blends/divides at the longest context." : "");
    return note_of(l, t, note);
}

result_table lab_table_methods(const lab *l, lab_layout layout) {
    result_table t = begin(l, "method", layout);
    if (has_pairs(l, layout)) result_column(&t, (gyre_report_column){.title = "pairs"});
    t.table.caption = l->plan.methods_caption;
    t.table.note = describe_methods(l, &t, has_pairs(l, layout));
    result_heading(&t, "as it is");
    for (int i = 0; i < l->plan.methods_count; i++)
        add_row_of_method(l, &t, &l->methods[i], layout);
    result_heading(&t, "fine-tuned");
    for (int i = 0; i < l->plan.tuned_rows; i++)
        add_row_of_method(l, &t, &l->tuned[i], layout);
    add_heat(&t);
    return t;
}

result_table lab_table_slopes(const lab *l, lab_layout layout) {
    result_table t = begin(l, "method", layout);
    t.table.caption = "The ALiBi model, as it is, under methods that stretch its slopes";
    t.table.note = note_of(l, &t, "The factor of name:factor is fixed, that of a bare name follows the context.");
    for (int i = 0; i < l->plan.stretched_count; i++)
        add_cells(l, &t, &l->stretched[i], layout);
    add_heat(&t);
    return t;
}

result_table lab_table_pairs(const lab *l) {
    static const char *const titles[] = {"method", "kept", "blended", "divided"};
    result_table t = RESULT_TABLE_INIT;
    t.table.caption =
        result_text(&t, "How each method treats the pairs of channels at %lld bytes", (long long)l->plan.longest);
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        result_column(&t, (gyre_report_column){.title = titles[i]});
    for (int i = 0; i < l->plan.methods_count; i++) {
        const lab_row *row = &l->methods[i];
        if (!row->rotates) continue;
        result_name(&t, row->name);
        result_number(&t, (double)row->parts.kept);
        result_number(&t, (double)row->parts.blended);
        result_number(&t, (double)row->parts.divided);
    }
    return t;
}

/* -- intervals -- */
static const char *interval_text(result_table *t, const lab_spread *s, int measure) {
    const lab_figure *f = &s->of[measure];
    if (!s->measured) return NOT_MEASURED;
    if (!s->known) return "-";
    return measure == LAB_PERPLEXITY ? result_text(t, "%.2f (%.2f to %.2f)", f->mean, f->low, f->high)
                                     : result_text(t, "%.0f (%.0f to %.0f)", 100 * f->mean, 100 * f->low, 100 * f->high);
}

void lab_describe_interval(const lab *l, char *out, size_t size) {
    snprintf(out, size, "95 %% of %d bootstrap samples of %s", BOOTSTRAP_RESAMPLES,
             l->plan.seeds > 1 ? "the seeds and, apart from them, of the windows" : "the windows, for one seed");
}

/* One column for each context, whose cells have an interval in brackets. */
static result_table begin_brackets(const lab *l, const char *first, const char *more) {
    result_table t = RESULT_TABLE_INIT;
    char interval[128];
    lab_describe_interval(l, interval, sizeof interval);
    t.table.note = result_text(&t, "In brackets: %s%s.", interval, more);
    result_column(&t, (gyre_report_column){.title = first});
    for (int c = 0; c < l->plan.contexts_count; c++)
        result_column(&t, (gyre_report_column){.title = context_name(l, &t, c)});
    return t;
}

result_table lab_table_intervals(const lab *l, lab_measure measure) {
    static const char *const captions[LAB_MEASURES] = {"Perplexity per byte", "Passkeys found, in percent",
                                                       "Copied bytes right, in percent"};
    result_table t = begin_brackets(l, "encoding or method", "");
    t.table.caption = result_text(&t, "%s: mean over %lld seed%s, and interval", captions[measure], (long long)l->plan.seeds,
                                  l->plan.seeds > 1 ? "s" : "");
    for (int part = 0; part < LAB_PARTS; part++) {
        int count;
        const lab_row *rows = lab_part_rows(l, (lab_part)part, &count);
        if (count) result_heading(&t, PART_NAMES[part]);
        for (int i = 0; i < count; i++) {
            result_name(&t, rows[i].name);
            for (int c = 0; c < l->plan.contexts_count; c++)
                result_name(&t, interval_text(&t, &rows[i].spread[c], measure));
        }
    }
    return t;
}

/* -- ranks -- */
result_table lab_table_ranks(const lab *l) {
    static const char *const pairs[LAB_PAIRS] = {"perplexity and keys", "perplexity and copies", "keys and copies"};
    result_table t = begin_brackets(l, "rows, and measures", ", the same for all rows.  Equal rows count once");
    t.table.caption = "Do the measures rank the rows alike?  Kendall's tau: 1 in the same order, 0 unrelated, -1 opposite";
    for (int part = 0; part < LAB_PARTS; part++) {
        int count;
        const lab_row *rows = lab_part_rows(l, (lab_part)part, &count);
        if (!count || !lab_row_begun(rows)) continue;
        result_heading(&t, PART_NAMES[part]);
        for (int p = 0; p < LAB_PAIRS; p++) {
            result_name(&t, pairs[p]);
            for (int c = 0; c < l->plan.contexts_count; c++) {
                const lab_rank *r = &l->ranks[part][p][c];
                result_name(&t, r->known ? result_text(&t, "%.2f (%.2f to %.2f)", r->tau, r->low, r->high) : "-");
            }
        }
    }
    return t;
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
static int print_whole(result_table t, FILE *file) {
    const int status = result_table_show(t, file);
    fputc('\n', file);
    return status;
}

int lab_print_end(const lab *l, FILE *file) {
    char text[160], line[256];
    int status = 0;
    for (int m = 0; m < l->plan.measures && l->plan.seeds > 1 && !status; m++)
        status = print_whole(lab_table_intervals(l, (lab_measure)m), file);
    if (!status && l->plan.details) status = print_whole(lab_table_ranks(l), file);
    if (status) return status;
    lab_describe_text(l, text, sizeof text);
    snprintf(line, sizeof line, "%s models, measured on %s; %.0f s", l->work ? l->plan.preset : "bundled", text, l->seconds);
    cli_page_paragraph(file, NULL, line);
    return 0;
}

/* -- JSON -- */
static json_t *if_known(int known, double value) {
    return JSON(known ? value : (double)NAN);
}

static json_t *interval_json(int known, double low, double high) {
    return known ? json_pack("[f, f]", low, high) : json_null();
}

/* The figures of each seed that is measured. */
static json_t *seeds_json(const lab *l, const lab_row *row, int context) {
    json_t *list = json_array();
    for (int s = 0; s < row->spread[context].measured; s++) {
        const lab_cell *c = &row->cells[s][context];
        json_array_append_new(list, JSON_OBJECT("perplexity", if_known(c->known, exp(c->nats)), "passkey",
                                                if_known(c->known, c->keys.share), "copied",
                                                if_known(c->known && l->plan.measures > LAB_COPIES, c->copies.share)));
    }
    return list;
}

static json_t *cell_json(const lab *l, const lab_row *row, int c) {
    static const char *const names[LAB_MEASURES][2] = {
        {"perplexity", "perplexity_interval"}, {"passkey", "passkey_interval"}, {"copied", "copied_interval"}};
    const lab_spread *s = &row->spread[c];
    const lab_cell *first = &row->cells[0][c];
    const lab_figure *ppl = &s->of[LAB_PERPLEXITY];
    json_t *out = JSON_OBJECT("context", JSON(l->plan.contexts[c]));
    for (int m = 0; m < LAB_MEASURES; m++) {
        const lab_figure *f = &s->of[m];
        const int is_taken = m < l->plan.measures;
        JSON_ADD(out, names[m][0], if_known(s->known && is_taken, f->mean), names[m][1],
                 interval_json(s->known && s->measured && is_taken, f->low, f->high));
        if (m == LAB_PERPLEXITY)
            JSON_ADD(out, "perplexity_least", if_known(s->known, ppl->least), "perplexity_greatest",
                     if_known(s->known, ppl->greatest), "bits_per_byte", if_known(s->known, log2(ppl->mean)));
    }
    JSON_ADD(out, "scored", JSON(first->scored), "trials", JSON(first->keys.asked), "copied_asked",
             JSON(first->copies.asked), "seeds", seeds_json(l, row, c));
    return out;
}

/* The rows that were begun. */
static json_t *rows_json(const lab *l, const lab_row *rows, int count) {
    json_t *array = json_array();
    for (int i = 0; i < count; i++) {
        const lab_row *row = &rows[i];
        const gyre_scaling_parts *p = &row->parts;
        if (!lab_row_begun(row)) continue;
        json_t *cells = json_array();
        for (int c = 0; c < l->plan.contexts_count; c++)
            json_array_append_new(cells, cell_json(l, row, c));
        json_t *pairs = row->rotates
                            ? JSON_OBJECT("kept", JSON(p->kept), "blended", JSON(p->blended), "divided", JSON(p->divided))
                            : NULL;
        json_array_append_new(array, JSON_OBJECT("name", JSON(row->name), "cells", cells, "pairs", pairs));
    }
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
                json_array_append_new(cells, JSON_OBJECT("context", JSON(l->plan.contexts[c]), "tau",
                                                         if_known(r->known, r->tau), "interval",
                                                         interval_json(r->known, r->low, r->high), "rows", JSON(r->rows)));
            }
            json_array_append_new(array,
                                  json_pack("{s:s, s:[s, s], s:o}", "part", parts[part], "measures",
                                            measures[lab_pair_first(p)], measures[lab_pair_second(p)], "cells", cells));
        }
    return array;
}

int lab_print_json(const lab *l, FILE *file) {
    const lab_plan *p = &l->plan;
    const int methods = p->rope >= 0 ? p->methods_count : 0, tuned = p->rope >= 0 ? p->tuned_rows : 0;
    char interval[128];
    lab_describe_interval(l, interval, sizeof interval);
    json_t *text =
        JSON_OBJECT("hash", cli_json_hash(l->all.hash), "bytes", JSON(l->all.count), "held_out", JSON(l->held_out.count));
    return cli_json_write(
        file,
        JSON_OBJECT("preset", JSON(p->preset), "trained_length", JSON(p->trained), "seeds", JSON(p->seeds), "interval",
                    JSON(interval), "text", text, "seconds", JSON(l->seconds), "report", JSON(l->run.report), "encodings",
                    rows_json(l, l->encodings, p->encodings_count), "methods", rows_json(l, l->methods, methods),
                    "fine_tuned", rows_json(l, l->tuned, tuned), "ranks", ranks_json(l), "alibi_methods",
                    p->stretched_count ? rows_json(l, l->stretched, p->stretched_count) : NULL, "stopped",
                    l->stopped ? JSON_OBJECT("rows_complete", JSON(lab_rows_done(l)), "rows", JSON(lab_rows_count(l)))
                               : NULL));
}
