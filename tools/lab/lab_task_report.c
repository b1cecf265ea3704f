/* lab_task_report.c: the results of a task as table, as JSON and as a report with figures. */
#include "tools/common/result_table.h"
#include "tools/lab/lab_task.h"
#include <math.h>
#include <string.h>

/* -- the table -- */
static int64_t trials(const task_lab *t, int rule, int point) {
    int64_t max = 0;
    for (int r = 0; r < t->rows_count; r++) {
        const int64_t asked = task_accuracy_of(t, &t->rows[r], rule, point).asked;
        if (asked > max) max = asked;
    }
    return max;
}

/* What a column holds: a rule, and a point of it. */
typedef struct task_column {
    int rule, point;
} task_column;

static int columns_of(const task_lab *t) {
    return 2 * t->rules + (t->columns ? t->points : 0);
}

static task_column column_at(const task_lab *t, int i) {
    if (i >= 2 * t->rules) return (task_column){0, i - 2 * t->rules};
    return (task_column){i / 2, i % 2 ? TASK_OUTSIDE : TASK_INSIDE};
}

static void add_columns(const task_lab *t, int intervals, result_table *out) {
    result_column(out, (gyre_report_column){.title = "encoding or method"});
    for (int i = 0; i < columns_of(t); i++) {
        const task_column c = column_at(t, i);
        const char *title = c.point == TASK_INSIDE    ? "inside"
                            : c.point == TASK_OUTSIDE ? "outside"
                                                      : result_text(out, "%.0f", t->at[c.point]);
        result_column(
            out, (gyre_report_column){.title = title,
                                      .group = c.point < 0 ? t->rule[c.rule].description : "distance",
                                      .unit = intervals ? NULL : "%",
                                      .decimals = 1,
                                      .emphasis = intervals ? GYRE_REPORT_EMPHASIS_NONE : GYRE_REPORT_EMPHASIS_HIGHEST});
    }
}

static void add_row(const task_lab *t, const task_row *row, int intervals, result_table *out) {
    result_name(out, row->name);
    for (int i = 0; i < columns_of(t); i++) {
        const task_accuracy s = task_accuracy_of(t, row, column_at(t, i).rule, column_at(t, i).point);
        if (!intervals || !s.known)
            result_number(out, s.known ? 100 * s.mean : NAN);
        else
            result_name(out, result_text(out, "%.1f (%.1f to %.1f)", 100 * s.mean, 100 * s.low, 100 * s.high));
    }
}

/* intervals: 1: the mean and its interval. */
static result_table make_table(const task_lab *t, int intervals) {
    const lab_plan *p = &t->lab->plan;
    result_table out = RESULT_TABLE_INIT;
    char counts[200] = "";
    for (int r = 0, used = 0; r < t->rules; r++)
        used +=
            snprintf(counts + used, sizeof counts - (size_t)used, "%s%s %lld inside and %lld outside", r ? "; " : "",
                     t->rule[r].description, (long long)trials(t, r, TASK_INSIDE), (long long)trials(t, r, TASK_OUTSIDE));
    out.table.caption = result_text(&out, "%s: %s, in percent; trained on %lld tokens, asked to %lld", t->title,
                                    intervals ? "mean and, in brackets, 95 % of a bootstrap over the seeds"
                                              : "determined tokens that are the likeliest",
                                    (long long)p->trained, (long long)p->longest);
    out.table.note = result_text(&out, "Tokens asked for, of each row: %s.  A dash: the encoding ends before.", counts);
    add_columns(t, intervals, &out);
    result_heading(&out, "trained with");
    for (int r = 0; r < t->rows_count; r++) {
        if (t->rows[r].method == 0) result_heading(&out, "the RoPE model, as it is, under");
        add_row(t, &t->rows[r], intervals, &out);
    }
    return out;
}

int task_print(const task_lab *t, FILE *file) {
    int status = 0;
    for (int intervals = 0; intervals <= (t->lab->plan.seeds > 1) && !status; intervals++) {
        status = result_table_show(make_table(t, intervals), file);
        fputc('\n', file);
    }
    if (!status)
        fprintf(file, "%s models, seeds: %lld; %.0f s\n", t->lab->plan.preset, (long long)t->lab->plan.seeds,
                t->lab->seconds);
    return status;
}

/* -- JSON -- */
static json_t *accuracy_json(const task_lab *t, const task_row *row, int rule, int point) {
    const task_accuracy s = task_accuracy_of(t, row, rule, point);
    const double none = NAN;
    return JSON_OBJECT("accuracy", JSON(s.known ? s.mean : none), "interval",
                       s.known && t->lab->plan.seeds > 1 ? json_pack("[f, f]", s.low, s.high) : json_null(), "least",
                       JSON(s.known ? s.min : none), "greatest", JSON(s.known ? s.max : none), "asked", JSON(s.asked));
}

static json_t *rule_json(const task_lab *t, const task_row *row, int rule) {
    json_t *points = json_array();
    for (int p = 0; p < t->points; p++) {
        json_t *point = accuracy_json(t, row, rule, p);
        JSON_ADD(point, "at", JSON(t->at[p]), "length", JSON(t->length[p]));
        json_array_append_new(points, point);
    }
    return JSON_OBJECT("rule", JSON(t->rule[rule].name), "inside", accuracy_json(t, row, rule, TASK_INSIDE), "outside",
                       accuracy_json(t, row, rule, TASK_OUTSIDE), "points", points);
}

static json_t *rows_json(const task_lab *t, int methods) {
    json_t *rows = json_array();
    for (int r = 0; r < t->rows_count; r++) {
        if ((t->rows[r].method >= 0) != methods) continue;
        json_t *rules = json_array();
        for (int rule = 0; rule < t->rules; rule++)
            json_array_append_new(rules, rule_json(t, &t->rows[r], rule));
        json_array_append_new(rows, JSON_OBJECT("name", JSON(t->rows[r].name), "results", rules));
    }
    return rows;
}

int task_print_json(const task_lab *t, FILE *file) {
    const lab_plan *p = &t->lab->plan;
    return cli_json_write(file, JSON_OBJECT("task", JSON(t->lab->task), "preset", JSON(p->preset), "trained_length",
                                            JSON(p->trained), "longest", JSON(p->longest), "seeds", JSON(p->seeds),
                                            "sequences", JSON(t->sequences), "steps", JSON(p->run.steps), "seconds",
                                            JSON(t->lab->seconds), "report", JSON(t->lab->run.report), "encodings",
                                            rows_json(t, 0), "methods", rows_json(t, 1)));
}

/* -- the report -- */
/* methods: each kind of method in a panel, with the model as it is in every panel. */
static void add_curve(const task_lab *t, chart_lines *lines, const task_row *row, int rule, int methods) {
    (void)chart_line(lines, methods && row->method >= 0 ? t->methods[row->method].name : NULL, "%s", row->name);
    for (int p = 0; p < t->points; p++) {
        const task_accuracy s = task_accuracy_of(t, row, rule, p);
        const double unit = s.known ? 100 : NAN;
        if (t->lab->plan.seeds > 1)
            chart_banded_point(lines, t->at[p], unit * s.mean, unit * s.low, unit * s.high);
        else
            chart_point(lines, t->at[p], unit * s.mean);
    }
}

static void add_chart(const task_lab *t, gyre_report_page *page, int rule, int methods) {
    const lab_plan *p = &t->lab->plan;
    chart_lines lines = {.count = 0};
    char title[128];
    for (int r = 0; r < t->rows_count; r++)
        if (methods ? t->rows[r].method >= 0 || r == p->rope : t->rows[r].method < 0)
            add_curve(t, &lines, &t->rows[r], rule, methods);
    snprintf(title, sizeof title, "%s%s%s, %s", t->title, t->rules > 1 ? ", " : "",
             t->rules > 1 ? t->rule[rule].description : "", methods ? "the RoPE model under every method" : "by encoding");
    const gyre_report_marker trained = {(double)(t->columns ? p->trained - GYRE_TASK_COPY_SPAN : p->trained), "trained", 0};
    gyre_report_chart chart = GYRE_REPORT_CHART_INIT;
    chart.title = title;
    chart.x = (gyre_report_axis){t->axis, t->scale, 0, 0};
    chart.y = (gyre_report_axis){"right (%)", GYRE_REPORT_SCALE_LINEAR, 0, 100};
    chart.markers = &trained;
    chart.markers_count = 1;
    chart_lines_draw(&lines, page, &chart, NULL);
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

static void fill_page(const task_lab *t, gyre_report_page *page) {
    answer(t, page);
    (void)gyre_report_page_section(page, "Inside and outside");
    for (int intervals = 0; intervals <= (t->lab->plan.seeds > 1); intervals++)
        result_table_add(make_table(t, intervals), page);
    (void)gyre_report_page_section(page, t->columns ? "By distance" : "By position");
    for (int rule = 0; rule < t->rules; rule++)
        for (int methods = 0; methods <= (t->methods_count > 0); methods++)
            add_chart(t, page, rule, methods);
    protocol(t, page);
    footer(t, page);
}

gyre_status task_write_report(const task_lab *t, gyre_error *err) {
    gyre_report_page *page = NULL;
    char title[64];
    snprintf(title, sizeof title, "gyre lab: %s", t->title);
    const gyre_status status = gyre_report_page_create(&page, title, err);
    if (status) return status;
    fill_page(t, page);
    return report_page_end(page, status, t->lab->run.report, err);
}
