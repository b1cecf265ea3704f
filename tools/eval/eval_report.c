/* eval_report.c: the HTML report of gyre eval: charts by context and by position, tables, and the run card. */
#include "tools/eval/eval.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct lines {
    gyre_report_series *series; /* [rows] */
    double *x, *y;              /* [rows][points] */
    char (*names)[METHOD_LABEL + 16];
    int64_t count, points; /* lines in use; capacity of each */
} lines;

typedef struct figures {
    const evaluation *e;
    gyre_report_page *page;
    gyre_report_marker trained;
    lines lines;
} figures;

/* from, to: range of the x axis.  A trained length outside it is not marked. */
static void draw(figures *f, gyre_report_chart *chart, double from, double to, const char *caption) {
    chart->series = f->lines.series;
    chart->series_count = f->lines.count;
    chart->markers = &f->trained;
    chart->markers_count = f->trained.at > 0 && f->trained.at >= from && f->trained.at <= to;
    (void)gyre_report_page_chart(f->page, chart, caption); /* the page keeps the first error */
    f->lines.count = 0;
}

/* out = a new line without points, or NULL if nothing was measured. */
static gyre_report_series *new_line(figures *f, int64_t set, int64_t row, double **x, double **y) {
    const evaluation *e = f->e;
    lines *l = &f->lines;
    int64_t measured = 0;
    for (int64_t c = 0; c < e->options.contexts.count; c++)
        measured += !eval_cell_at(e, set, row, c)->out_of_range;
    if (!measured) return NULL;
    const int64_t i = l->count++;
    const eval_row *r = &e->rows[row];
    snprintf(l->names[i], sizeof l->names[i], eval_shows_policies(e) && r->depends_on_length ? "%s, %s" : "%s",
             r->method->label, length_policy_names[r->policy]);
    *x = l->x + i * l->points;
    *y = l->y + i * l->points;
    l->series[i] = (gyre_report_series){.name = l->names[i], .x = *x, .y = *y};
    return &l->series[i];
}

/* -- charts -- */
static void context_chart(figures *f, int64_t set, int passkey) {
    const evaluation *e = f->e;
    char title[160];
    if (e->options.contexts.count < 2) return; /* one point makes no line */
    for (int64_t r = 0; r < e->rows_count; r++) {
        double *x, *y;
        gyre_report_series *line = new_line(f, set, r, &x, &y);
        for (int64_t c = 0; line && c < e->options.contexts.count; c++, line->count++) {
            const eval_cell *cell = eval_cell_at(e, set, r, c);
            x[c] = (double)e->options.contexts.values[c];
            y[c] = cell->out_of_range ? NAN
                   : passkey          ? 100 * (double)cell->passkey.right / (double)cell->passkey.trials
                                      : exp(cell->figures.nats);
        }
    }
    if (!f->lines.count) return;
    gyre_report_chart chart = GYRE_REPORT_CHART_INIT;
    snprintf(title, sizeof title, "%s by context%s%.100s", passkey ? "Passkeys found" : "Perplexity",
             e->sets > 1 ? ": " : "", e->sets > 1 ? eval_set_name(e, set) : "");
    chart.title = title;
    chart.x = (gyre_report_axis){"context (tokens)", GYRE_REPORT_SCALE_LOG2, 0, 0};
    chart.y = passkey ? (gyre_report_axis){"passkeys found (%)", GYRE_REPORT_SCALE_LINEAR, 0, 100}
                      : (gyre_report_axis){"perplexity per token", GYRE_REPORT_SCALE_LOG10, 0, 0};
    draw(f, &chart, (double)e->options.contexts.values[0], (double)e->options.contexts.values[e->options.contexts.count - 1],
         passkey ? "A key has to be remembered; perplexity rewards forgetting."
                 : "On contexts up to the trained length, a dashed line where it lies among them, the model was trained.");
}

static void position_chart(figures *f, int64_t set, int64_t column) {
    const evaluation *e = f->e;
    const int64_t buckets = e->options.buckets, context = e->options.contexts.values[column];
    char title[160];
    for (int64_t r = 0; r < e->rows_count; r++) {
        const eval_cell *cell = eval_cell_at(e, set, r, column);
        double *x, *y;
        gyre_report_series *line = cell->out_of_range ? NULL : new_line(f, set, r, &x, &y);
        for (int64_t b = 0; line && b < buckets; b++, line->count++) {
            x[b] = ((double)b + 0.5) * (double)context / (double)buckets;
            y[b] = cell->by_position[b];
        }
    }
    if (!f->lines.count || buckets < 2) return;
    gyre_report_chart chart = GYRE_REPORT_CHART_INIT;
    snprintf(title, sizeof title, "Loss by position at %lld%s%.100s", (long long)context, e->sets > 1 ? ": " : "",
             e->sets > 1 ? eval_set_name(e, set) : "");
    chart.title = title;
    chart.x = (gyre_report_axis){"position in the window (tokens)", GYRE_REPORT_SCALE_LINEAR, 0, (double)context};
    chart.y = (gyre_report_axis){"loss (nats per token)", GYRE_REPORT_SCALE_LINEAR, 0, 0};
    draw(f, &chart, 0, (double)context, NULL);
}

/* -- the page -- */
static void introduction(const figures *f) {
    const evaluation *e = f->e;
    const eval_options *o = &e->options;
    char text[1024], stride[48] = "half of it", windows[48] = "all that the text holds";
    if (o->protocol == GYRE_EVAL_PROTOCOL_TRUNCATE) snprintf(stride, sizeof stride, "the next window's first token");
    if (o->stride) snprintf(stride, sizeof stride, "%lld tokens", (long long)o->stride);
    if (o->windows)
        snprintf(windows, sizeof windows, o->first ? "the first %lld" : "at most %lld, spread over the text",
                 (long long)o->windows);
    snprintf(text, sizeof text,
             "How well `%.200s` predicts %s at each context length, under each method to extend its context.", o->model.path,
             e->input.texts_count > 1 ? "several texts" : "a text");
    (void)gyre_report_page_paragraph(f->page, text);
    snprintf(text, sizeof text,
             "Protocol %s: windows of the context's length, from one to the next %s; %s. Scored: %s. Every method reads the "
             "same windows%s.",
             eval_protocol_names[o->protocol], stride, windows, eval_protocol_description(o),
             e->sets > 1 ? "; of all texts together, every scored prediction counts alike" : "");
    (void)gyre_report_page_paragraph(f->page, text);
}

/* Explains the dashes of the tables. */
static void out_of_range_notes(const figures *f) {
    const evaluation *e = f->e;
    char text[700];
    for (int64_t s = 0; s < e->input.texts_count; s++)
        for (int64_t r = 0; r < e->rows_count; r++)
            for (int64_t c = 0; c < e->options.contexts.count; c++) {
                const eval_cell *cell = eval_cell_at(e, s, r, c);
                if (!cell->out_of_range) continue;
                snprintf(text, sizeof text, "`%s` at %lld: %s", e->rows[r].method->label,
                         (long long)e->options.contexts.values[c], cell->note.text);
                (void)gyre_report_page_paragraph(f->page, text);
            }
}

static gyre_status add_table(const figures *f, result_table *t, gyre_status status) {
    if (!status) (void)gyre_report_page_table(f->page, &t->table);
    result_table_free(t);
    return status;
}

static gyre_status position_part(figures *f, int64_t set, gyre_error *err) {
    gyre_status status = GYRE_OK;
    result_table t;
    for (int64_t c = 0; c < f->e->options.contexts.count; c++)
        position_chart(f, set, c);
    (void)gyre_report_page_details_begin(f->page, "Loss by position in figures");
    for (int64_t c = 0; c < f->e->options.contexts.count && !status; c++)
        status = add_table(f, &t, eval_table_positions(f->e, set, c, &t, err));
    (void)gyre_report_page_details_end(f->page);
    return status;
}

static gyre_status fill(figures *f, gyre_error *err) {
    const evaluation *e = f->e;
    gyre_report_key_value facts[RUN_CARD_MAX_KEY_VALUES];
    char room[RUN_CARD_LINE];
    result_table t;
    introduction(f);
    (void)gyre_report_page_section(f->page, "Perplexity");
    gyre_status status = add_table(f, &t, eval_table_figures(e, &t, err));
    out_of_range_notes(f);
    /* All texts together come first: most readers want that. */
    for (int64_t s = e->sets; s-- > 0;)
        for (int passkey = 0; passkey < 1 + (e->options.passkey > 0); passkey++)
            context_chart(f, s, passkey);
    if (e->options.buckets) (void)gyre_report_page_section(f->page, "Loss by position");
    for (int64_t s = e->sets; e->options.buckets && s-- > 0 && !status;)
        status = position_part(f, s, err);
    (void)gyre_report_page_footer(f->page, facts, run_card_key_values(&e->card, facts, room));
    return status;
}

gyre_status eval_write_report(const evaluation *e, gyre_error *err) {
    const double trained = (double)gyre_model_get_config(e->input.model)->position.trained_length;
    const int64_t buckets = e->options.buckets, columns = e->options.contexts.count;
    figures f = {.e = e, .trained = {trained, "trained length", 0}};
    f.lines.points = buckets > columns ? buckets : columns;
    const size_t rows = (size_t)e->rows_count, points = rows * (size_t)f.lines.points;
    f.lines.series = calloc(rows, sizeof *f.lines.series);
    f.lines.names = calloc(rows, sizeof *f.lines.names);
    f.lines.x = calloc(points, sizeof *f.lines.x);
    f.lines.y = calloc(points, sizeof *f.lines.y);
    gyre_status status = gyre_report_page_create(&f.page, "gyre eval: perplexity against context", err);
    if (!status && (!f.lines.series || !f.lines.names || !f.lines.x || !f.lines.y))
        status = gyre_fail(err, GYRE_ENOMEM, "report: out of memory (%s)", e->options.run.report);
    if (!status) status = fill(&f, err);
    if (!status) status = gyre_report_page_write(f.page, e->options.run.report, err);
    free(f.lines.series);
    free(f.lines.names);
    free(f.lines.x);
    free(f.lines.y);
    gyre_report_page_free(f.page);
    return status;
}
