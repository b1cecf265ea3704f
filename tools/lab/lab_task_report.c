/* lab_task_report.c: the results of a task as table, as JSON and as a report with figures. */
#include "tools/common/result_table.h"
#include "tools/common/variants.h"
#include "tools/lab/lab_task.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COLUMNS = 1 + 2 * TASK_RULES + TASK_POINTS, HEADINGS = 2, ROWS = TASK_ROWS + HEADINGS };

typedef struct task_table {
    gyre_report_table table;
    gyre_report_column columns[COLUMNS];
    int rule[COLUMNS], point[COLUMNS];
    char heads[COLUMNS][24], caption[256], note[512], texts[ROWS][COLUMNS][32];
    gyre_report_cell cells[ROWS * COLUMNS];
    int intervals; /* 1: the mean and its interval */
} task_table;

static const char HEADING_ENCODINGS[] = "trained with", HEADING_METHODS[] = "the RoPE model, as it is, under";

/* -- the table -- */
static int64_t trials(const task_lab *t, int rule, int point) {
    int64_t max = 0;
    for (int r = 0; r < t->rows_count; r++) {
        const int64_t asked = task_accuracy_of(t, &t->rows[r], rule, point).asked;
        if (asked > max) max = asked;
    }
    return max;
}

static void add_column(const task_lab *t, task_table *out, const char *group, int rule, int point) {
    const int64_t i = out->table.columns_count++;
    if (point < 0)
        snprintf(out->heads[i], sizeof out->heads[i], "%s", point == TASK_INSIDE ? "inside" : "outside");
    else
        snprintf(out->heads[i], sizeof out->heads[i], "%.0f", t->at[point]);
    out->columns[i] =
        (gyre_report_column){.title = out->heads[i],
                             .group = group,
                             .unit = out->intervals ? NULL : "%",
                             .decimals = 1,
                             .emphasis = out->intervals ? GYRE_REPORT_EMPHASIS_NONE : GYRE_REPORT_EMPHASIS_HIGHEST};
    out->rule[i] = rule;
    out->point[i] = point;
}

static void add_columns(const task_lab *t, task_table *out) {
    out->columns[out->table.columns_count++] = (gyre_report_column){.title = "encoding or method"};
    for (int r = 0; r < t->rules; r++) {
        add_column(t, out, t->rule[r].description, r, TASK_INSIDE);
        add_column(t, out, t->rule[r].description, r, TASK_OUTSIDE);
    }
    for (int p = 0; t->columns && p < t->points; p++)
        add_column(t, out, "distance", 0, p);
}

static void add_row(const task_lab *t, task_table *out, const task_row *row) {
    const int64_t at = out->table.rows++;
    gyre_report_cell *cells = &out->cells[at * out->table.columns_count];
    cells[0] = gyre_report_cell_text(row->name);
    for (int64_t c = 1; c < out->table.columns_count; c++) {
        const task_accuracy s = task_accuracy_of(t, row, out->rule[c], out->point[c]);
        cells[c] = s.known ? gyre_report_cell_number(100 * s.mean) : gyre_report_cell_missing();
        if (!out->intervals || !s.known) continue;
        snprintf(out->texts[at][c], sizeof out->texts[at][c], "%.1f (%.1f to %.1f)", 100 * s.mean, 100 * s.low,
                 100 * s.high);
        cells[c] = gyre_report_cell_text(out->texts[at][c]);
    }
}

static void add_heading(task_table *out, const char *text) {
    out->cells[out->table.rows++ * out->table.columns_count] = gyre_report_cell_heading(text);
}

static void describe(const task_lab *t, task_table *out) {
    const lab_plan *p = &t->lab->plan;
    char counts[256] = "";
    for (int r = 0, used = 0; r < t->rules; r++)
        used +=
            snprintf(counts + used, sizeof counts - (size_t)used, "%s%s %lld inside and %lld outside", r ? "; " : "",
                     t->rule[r].description, (long long)trials(t, r, TASK_INSIDE), (long long)trials(t, r, TASK_OUTSIDE));
    snprintf(out->caption, sizeof out->caption, "%s: %s, in percent; trained on %lld tokens, asked to %lld", t->title,
             out->intervals ? "mean and, in brackets, 95 % of a bootstrap over the seeds"
                            : "determined tokens that are the likeliest",
             (long long)p->trained, (long long)p->longest);
    snprintf(out->note, sizeof out->note, "Tokens asked for, of each row: %s.  A dash: the encoding ends before.", counts);
    out->table.caption = out->caption;
    out->table.note = out->note;
}

static void make_table(const task_lab *t, task_table *out, int intervals) {
    *out = (task_table){.table = GYRE_REPORT_TABLE_INIT, .intervals = intervals};
    out->table.columns = out->columns;
    out->table.cells = out->cells;
    add_columns(t, out);
    describe(t, out);
    add_heading(out, HEADING_ENCODINGS);
    for (int r = 0; r < t->rows_count; r++) {
        if (t->rows[r].method == 0) add_heading(out, HEADING_METHODS);
        add_row(t, out, &t->rows[r]);
    }
}

int task_print(const task_lab *t, FILE *file) {
    gyre_error err = {0};
    gyre_status status = GYRE_OK;
    task_table *table = malloc(sizeof *table);
    if (!table) return cli_fail("tables: out of memory (gyre lab)");
    for (int intervals = 0; intervals <= (t->lab->plan.seeds > 1) && !status; intervals++) {
        make_table(t, table, intervals);
        status = result_table_print(&table->table, file, &err);
        fputc('\n', file);
    }
    free(table);
    if (status) return cli_fail_error(&err);
    fprintf(file, "%s models, seeds: %lld; %.0f s\n", t->lab->plan.preset, (long long)t->lab->plan.seeds, t->lab->seconds);
    return 0;
}

/* -- JSON -- */
static json_t *accuracy_json(const task_lab *t, const task_row *row, int rule, int point) {
    const task_accuracy s = task_accuracy_of(t, row, rule, point);
    const double none = NAN;
    const double ends[2] = {s.low, s.high};
    return json_pack("{s:o, s:o, s:o, s:o, s:I}", "accuracy", cli_json_number(s.known ? s.mean : none), "interval",
                     s.known && t->lab->plan.seeds > 1 ? cli_json_numbers(ends, 2) : json_null(), "least",
                     cli_json_number(s.known ? s.min : none), "greatest", cli_json_number(s.known ? s.max : none), "asked",
                     (json_int_t)s.asked);
}

static json_t *rule_json(const task_lab *t, const task_row *row, int rule) {
    json_t *points = json_array();
    for (int p = 0; p < t->points; p++) {
        json_t *point = accuracy_json(t, row, rule, p);
        if (!point) continue;
        json_object_set_new(point, "at", json_real(t->at[p]));
        json_object_set_new(point, "length", json_integer((json_int_t)t->length[p]));
        json_array_append_new(points, point);
    }
    return json_pack("{s:s, s:o, s:o, s:o}", "rule", t->rule[rule].name, "inside", accuracy_json(t, row, rule, TASK_INSIDE),
                     "outside", accuracy_json(t, row, rule, TASK_OUTSIDE), "points", points);
}

static json_t *rows_json(const task_lab *t, int methods) {
    json_t *rows = json_array();
    for (int r = 0; r < t->rows_count; r++) {
        if ((t->rows[r].method >= 0) != methods) continue;
        json_t *rules = json_array();
        for (int rule = 0; rule < t->rules; rule++)
            json_array_append_new(rules, rule_json(t, &t->rows[r], rule));
        json_array_append_new(rows, json_pack("{s:s, s:o}", "name", t->rows[r].name, "results", rules));
    }
    return rows;
}

int task_print_json(const task_lab *t, FILE *file) {
    const lab_plan *p = &t->lab->plan;
    return cli_json_write(file, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:o, s:o, s:o}", "task", t->lab->task,
                                          "preset", p->preset, "trained_length", (json_int_t)p->trained, "longest",
                                          (json_int_t)p->longest, "seeds", (json_int_t)p->seeds, "sequences",
                                          (json_int_t)t->sequences, "steps", (json_int_t)p->run.steps, "seconds",
                                          t->lab->seconds, "report", cli_json_text(t->lab->run.report), "encodings",
                                          rows_json(t, 0), "methods", rows_json(t, 1)));
}

/* -- the report -- */
typedef struct curves {
    gyre_report_series series[TASK_ROWS];
    double y[TASK_ROWS][TASK_POINTS], low[TASK_ROWS][TASK_POINTS], high[TASK_ROWS][TASK_POINTS];
    int64_t count;
} curves;

/* methods: each kind of method in a panel, with the model as it is in every panel. */
static void add_curve(const task_lab *t, curves *c, const task_row *row, int rule, int methods) {
    const int64_t i = c->count++;
    const int bands = t->lab->plan.seeds > 1;
    for (int p = 0; p < t->points; p++) {
        const task_accuracy s = task_accuracy_of(t, row, rule, p);
        c->y[i][p] = s.known ? 100 * s.mean : (double)NAN;
        c->low[i][p] = s.known ? 100 * s.low : (double)NAN;
        c->high[i][p] = s.known ? 100 * s.high : (double)NAN;
    }
    c->series[i] = (gyre_report_series){.name = row->name,
                                        .count = t->points,
                                        .x = t->at,
                                        .y = c->y[i],
                                        .low = bands ? c->low[i] : NULL,
                                        .high = bands ? c->high[i] : NULL,
                                        .look = subject_look(row->name),
                                        .panel = methods && row->method >= 0 ? t->methods[row->method].name : NULL};
}

/* The page keeps the first error, so the results of its calls are ignored. */
static void add_chart(const task_lab *t, gyre_report_page *page, curves *c, int rule, int methods) {
    const lab_plan *p = &t->lab->plan;
    char title[128];
    c->count = 0;
    for (int r = 0; r < t->rows_count; r++)
        if (methods ? t->rows[r].method >= 0 || r == p->rope : t->rows[r].method < 0)
            add_curve(t, c, &t->rows[r], rule, methods);
    snprintf(title, sizeof title, "%s%s%s, %s", t->title, t->rules > 1 ? ", " : "",
             t->rules > 1 ? t->rule[rule].description : "", methods ? "the RoPE model under every method" : "by encoding");
    const gyre_report_marker trained = {(double)(t->columns ? p->trained - GYRE_TASK_COPY_SPAN : p->trained), "trained", 0};
    gyre_report_chart chart = GYRE_REPORT_CHART_INIT;
    chart.title = title;
    chart.x = (gyre_report_axis){t->axis, t->scale, 0, 0};
    chart.y = (gyre_report_axis){"right (%)", GYRE_REPORT_SCALE_LINEAR, 0, 100};
    chart.series = c->series;
    chart.series_count = c->count;
    chart.markers = &trained;
    chart.markers_count = 1;
    (void)gyre_report_page_chart(page, &chart, NULL);
}

static void protocol(const task_lab *t, gyre_report_page *page) {
    const lab_plan *p = &t->lab->plan;
    const gyre_model_config *m = &p->run.model;
    char text[1024];
    (void)gyre_report_page_section(page, "How it was measured");
    (void)gyre_report_page_paragraph(
        page,
        t->columns
            ? "Symbols drawn at random, and after some tokens the same ones again: a start symbol says that the copy "
              "begins. A model that finds the earlier place can copy every token that follows, at any distance."
            : "PosGen (Resonance RoPE, arXiv 2403.00071): each symbol is the sum modulo 17 of four before it, three of "
              "them its neighbours. The fourth is the next one back (recursive), always the first (chain of thought), "
              "or half the way back (semi-recursive). The first four are drawn at random and not asked for. No "
              "position is harder than another, so what is lost outside is lost to the encoding. "
              "Neighbouring sums differ in two tokens, so `x[l] = 2 x[l-1] - x[l-5]` (recursive) or `- x[l-4]` (chain of "
              "thought, and every second token of the semi-recursive rule): models find that first.");
    snprintf(text, sizeof text,
             "Trained for %lld steps of %lld sequences of %lld tokens, drawn again for each step; %lld layers of width "
             "%lld, heads of %lld channels. Asked in %lld sequences of each length, the right tokens given before each. "
             "Methods are scaled for the length of the sequence that is read%s; by-parts and YaRN keep pairs that make %g "
             "turns within the trained length.",
             (long long)p->run.steps, (long long)p->run.batch, (long long)p->run.context, (long long)m->layers,
             (long long)m->model_dim, (long long)m->head_dim, (long long)t->sequences,
             t->columns ? "" : ", and that is the longest for the tokens inside too", p->betas.fast);
    (void)gyre_report_page_paragraph(page, text);
}

/* Of the first rule. */
static double wrong_outside(const void *of, int64_t row) {
    const task_lab *t = of;
    const task_accuracy s = task_accuracy_of(t, &t->rows[row], 0, TASK_OUTSIDE);
    return s.known ? -s.mean : (double)NAN;
}

/* The best row outside of what training showed, and what it has inside. */
static void answer(const task_lab *t, gyre_report_page *page) {
    char text[512];
    const int64_t row = result_best_row(t->rows_count, wrong_outside, t);
    if (row < 0) return;
    const task_row *best = &t->rows[row];
    snprintf(
        text, sizeof text,
        "Outside the trained length `%s` is best of %d rows: %.0f %% of the answers are right, and %.0f %% inside it%s%s.",
        best->name, t->rows_count, 100 * task_accuracy_of(t, best, 0, TASK_OUTSIDE).mean,
        100 * task_accuracy_of(t, best, 0, TASK_INSIDE).mean, t->rules > 1 ? ", for the rule " : "",
        t->rules > 1 ? t->rule[0].name : "");
    (void)gyre_report_page_paragraph(page, text);
}

static void footer(const task_lab *t, gyre_report_page *page) {
    const lab *l = t->lab;
    char seconds[32], date[REPORT_DATE];
    snprintf(seconds, sizeof seconds, "%.0f s", l->seconds);
    const gyre_report_key_value facts[] = {{"command", l->command}, {"gyre", gyre_version()},    {"preset", l->plan.preset},
                                           {"task", l->task},       {"date", report_date(date)}, {"time", seconds}};
    (void)gyre_report_page_footer(page, facts, sizeof facts / sizeof *facts);
}

static void fill_page(const task_lab *t, gyre_report_page *page, curves *c, task_table *table) {
    answer(t, page);
    (void)gyre_report_page_section(page, "Inside and outside");
    for (int intervals = 0; intervals <= (t->lab->plan.seeds > 1); intervals++) {
        make_table(t, table, intervals);
        (void)gyre_report_page_table(page, &table->table);
    }
    (void)gyre_report_page_section(page, t->columns ? "By distance" : "By position");
    for (int rule = 0; rule < t->rules; rule++)
        for (int methods = 0; methods <= (t->methods_count > 0); methods++)
            add_chart(t, page, c, rule, methods);
    protocol(t, page);
    footer(t, page);
}

gyre_status task_write_report(const task_lab *t, gyre_error *err) {
    gyre_report_page *page = NULL;
    curves *c = malloc(sizeof *c);
    task_table *table = malloc(sizeof *table);
    char title[64];
    snprintf(title, sizeof title, "gyre lab: %s", t->title);
    gyre_status status = c && table ? gyre_report_page_create(&page, title, err)
                                    : gyre_fail(err, GYRE_ENOMEM, "report: out of memory (%s)", "gyre lab");
    if (!status) {
        fill_page(t, page, c, table);
        status = cli_signals_before_pipe(t->lab->run.report, err);
        if (!status) status = gyre_report_page_write(page, t->lab->run.report, err);
    }
    gyre_report_page_free(page);
    free(c);
    free(table);
    return status;
}
