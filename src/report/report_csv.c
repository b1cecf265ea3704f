/* report_csv.c: the numbers of a figure as CSV, and CSV as an address that a page holds. */
#include "report/report_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXACT_CELLS = 4096, DIGITS = 6 };

/* A cell is quoted if it holds a comma or a quote.  A name is on one line, as in the page. */
static void put_cell(gyre_report_buffer *out, const char *text) {
    const int quoted = text && strpbrk(text, ",\"") != NULL;
    gyre_report_put(out, quoted ? "\"" : "");
    for (gyre_report_char c = gyre_report_next_char(&text); c.count; c = gyre_report_next_char(&text)) {
        if (c.code == '"') gyre_report_put(out, "\"");
        gyre_report_put_bytes(out, c.code == '\n' ? " " : c.bytes, c.count);
    }
    gyre_report_put(out, quoted ? "\"" : "");
}

/* The fewest digits from six on that read back as the same number; fewer would print 10 as 1e+01. */
static int digits_of(double value) {
    char number[64];
    for (int digits = DIGITS; digits < 17; digits++) {
        snprintf(number, sizeof number, "%.*g", digits, value);
        if (strtod(number, NULL) == value) return digits;
    }
    return 17;
}

/* digits 0: as many as it takes. */
static void put_number(gyre_report_buffer *out, double value, int digits) {
    char number[64] = "";
    if (isfinite(value)) gyre_report_format_number(number, 'g', digits ? digits : digits_of(value), value);
    gyre_report_put(out, number);
}

/* -- charts -- */
gyre_status gyre_report_chart_csv(const gyre_report_chart *chart, char **out, gyre_error *err) {
    const gyre_status status = gyre_report_chart_check(chart, err);
    if (status) return status;
    if (!out) return gyre_fail(err, GYRE_EINVAL, "chart: nowhere to put its numbers (figure)");
    gyre_report_buffer csv = {NULL, 0, 0, 0};
    int bands = 0;
    for (int64_t i = 0; i < chart->series_count; i++)
        bands |= chart->series[i].low != NULL;
    gyre_report_put(&csv, "series,");
    put_cell(&csv, chart->x.label && *chart->x.label ? chart->x.label : "x");
    gyre_report_put(&csv, ",");
    put_cell(&csv, chart->y.label && *chart->y.label ? chart->y.label : "y");
    gyre_report_put(&csv, bands ? ",low,high\r\n" : "\r\n");
    for (int64_t i = 0; i < chart->series_count; i++) {
        const gyre_report_series *s = &chart->series[i];
        for (int64_t k = 0; k < s->count; k++) {
            const double values[] = {s->x[k], s->y[k], s->low ? s->low[k] : (double)NAN, s->low ? s->high[k] : (double)NAN};
            put_cell(&csv, s->name);
            for (int v = 0; v < (bands ? 4 : 2); v++) {
                gyre_report_put(&csv, ",");
                put_number(&csv, values[v], 0);
            }
            gyre_report_put(&csv, "\r\n");
        }
    }
    return gyre_report_buffer_take(&csv, out, "figure", err);
}

/* -- maps -- */
static void put_map(gyre_report_buffer *csv, const gyre_report_heatmap_grid *grid, const gyre_report_heatmap *m) {
    const int digits = m->width * m->height <= EXACT_CELLS ? 0 : DIGITS;
    for (int64_t row = 0; row < m->height; row++) {
        put_cell(csv, m->name);
        gyre_report_put(csv, ",");
        put_number(csv, gyre_report_cell_value(&grid->y, grid->y_values, m->height, row), DIGITS);
        for (int64_t column = 0; column < m->width; column++) {
            gyre_report_put(csv, ",");
            put_number(csv, m->z[row * m->width + column], digits);
        }
        gyre_report_put(csv, "\r\n");
    }
}

static void put_head(gyre_report_buffer *csv, const gyre_report_heatmap_grid *grid, const gyre_report_heatmap *m) {
    gyre_report_put(csv, "map,");
    put_cell(csv, grid->y.label && *grid->y.label ? grid->y.label : "y");
    for (int64_t column = 0; column < m->width; column++) {
        gyre_report_put(csv, ",");
        put_number(csv, gyre_report_cell_value(&grid->x, grid->x_values, m->width, column), DIGITS);
    }
    gyre_report_put(csv, "\r\n");
}

gyre_status gyre_report_heatmap_grid_csv(const gyre_report_heatmap_grid *panels, char **out, gyre_error *err) {
    const gyre_status status = gyre_report_heatmap_check(panels, err);
    if (status) return status;
    if (!out) return gyre_fail(err, GYRE_EINVAL, "panels: nowhere to put their numbers (figure)");
    gyre_report_buffer csv = {NULL, 0, 0, 0};
    for (int64_t i = 0; i < panels->maps_count; i++) {
        const gyre_report_heatmap *m = &panels->maps[i];
        if (i == 0 || m->width != m[-1].width) put_head(&csv, panels, m); /* maps of another width have other columns */
        put_map(&csv, panels, m);
    }
    return gyre_report_buffer_take(&csv, out, "figure", err);
}

/* -- addresses -- */
void gyre_report_put_csv_address(gyre_report_buffer *out, const char *csv) {
    gyre_report_put(out, "data:text/csv;charset=utf-8,");
    for (const char *c = csv; *c; c++) {
        const unsigned char byte = (unsigned char)*c;
        const int plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
                          (byte && strchr("-._~,:;()/", byte) != NULL);
        if (plain)
            gyre_report_put_bytes(out, c, 1);
        else
            gyre_report_printf(out, "%%%02X", byte);
    }
}
