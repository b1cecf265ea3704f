/* result_page.c: lines of charts, the date and the file of a page. */
#include "tools/cli/cli_memory.h"
#include "tools/cli/cli_signals.h"
#include "tools/common/result_table.h"
#include "tools/common/variants.h"
#include "util/plain_numbers.h"
#include <stdlib.h>
#include <time.h>

enum { MAX_NAME = 96 };

gyre_report_series *chart_line(chart_lines *l, const char *panel, const char *name, ...) {
    char *text = cli_alloc(MAX_NAME, 1);
    va_list arguments;
    va_start(arguments, name);
    (void)gyre_plain_vsnprintf(text, MAX_NAME, name, arguments);
    va_end(arguments);
    l->series = cli_grow(l->series, l->count, sizeof *l->series);
    l->names = cli_grow(l->names, l->count, sizeof *l->names);
    l->names[l->count] = text;
    l->series[l->count] = (gyre_report_series){.name = text, .panel = panel, .look = subject_look(text)};
    return &l->series[l->count++];
}

static const double *add(const double *numbers, int64_t count, double number) {
    double *grown = cli_grow((double *)numbers, count, sizeof *grown);
    grown[count] = number;
    return grown;
}

void chart_point(chart_lines *l, double x, double y) {
    gyre_report_series *s = &l->series[l->count - 1];
    s->x = add(s->x, s->count, x);
    s->y = add(s->y, s->count++, y);
}

void chart_banded_point(chart_lines *l, double x, double y, double low, double high) {
    gyre_report_series *s = &l->series[l->count - 1];
    s->low = add(s->low, s->count, low);
    s->high = add(s->high, s->count, high);
    chart_point(l, x, y);
}

void chart_lines_clear(chart_lines *l) {
    for (int64_t i = 0; i < l->count; i++) {
        free((double *)l->series[i].x);
        free((double *)l->series[i].y);
        free((double *)l->series[i].low);
        free((double *)l->series[i].high);
        free(l->names[i]);
    }
    free(l->series);
    free(l->names);
    *l = (chart_lines){.count = 0};
}

void chart_lines_draw(chart_lines *l, gyre_report_page *page, gyre_report_chart *chart, const char *caption) {
    chart->series = l->series;
    chart->series_count = l->count;
    if (l->count) (void)gyre_report_page_chart(page, chart, caption);
    chart_lines_clear(l);
}

const char *report_date(char out[REPORT_DATE]) {
    const time_t now = time(NULL);
    struct tm utc;
    out[0] = 0;
    if (gmtime_r(&now, &utc)) (void)strftime(out, REPORT_DATE, "%Y-%m-%d %H:%M UTC", &utc);
    return out;
}

gyre_status report_page_end(gyre_report_page *page, gyre_status status, const char *path, gyre_error *err) {
    if (!status) status = cli_signals_before_pipe(path, err);
    if (!status) status = gyre_report_page_write(page, path, err);
    gyre_report_page_free(page);
    return status;
}
