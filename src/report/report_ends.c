/* report_ends.c: the names of lines, to the right of where they end. */
#include "report/report_internal.h"

#include <math.h>

enum { MOST_ENDS = 8, LEADER_CHARACTERS = 5 };
static const double APART = 0.062;    /* of the height of a chart */
static const double LAST_PART = 0.85; /* of its width: lines that reach it have their names to the right */

typedef struct line_end {
    const char *name;
    gyre_report_style style;
    double x, y, at; /* of the last point, as fractions of the chart; at: of its name */
} line_end;

int64_t gyre_report_end_room(const gyre_report_chart *chart) {
    int64_t most = 0;
    for (int64_t i = 0; i < chart->series_count; i++) {
        const int64_t width = gyre_report_display_width(chart->series[i].name);
        if (width > most) most = width;
    }
    return LEADER_CHARACTERS + most;
}

/* out = 1 with the end of series i, if any of it shows. */
static int find_end(const gyre_report_chart *c, int64_t i, gyre_report_range x, gyre_report_range y, line_end *out) {
    const gyre_report_series *s = &c->series[i];
    int64_t last = s->count - 1;
    while (last >= 0 && (!gyre_report_axis_can_show(&c->x, s->x[last]) || isnan(gyre_report_clipped_y(c, s->y[last]))))
        last--;
    if (last < 0) return 0;
    *out = (line_end){.name = s->name,
                      .style = gyre_report_series_style(c, i),
                      .x = gyre_report_axis_fraction(&c->x, x, s->x[last]),
                      .y = gyre_report_axis_fraction(&c->y, y, gyre_report_clipped_y(c, s->y[last]))};
    return 1;
}

/* From low to high, at least APART from each other, within the chart. */
static void move_apart(line_end *ends, int count) {
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && ends[k].y < ends[k - 1].y; k--) {
            const line_end held = ends[k];
            ends[k] = ends[k - 1];
            ends[k - 1] = held;
        }
    double last = -APART;
    for (int i = 0; i < count; i++)
        last = ends[i].at = fmax(ends[i].y, last + APART);
    for (int i = count - 1; i >= 0; i--)
        ends[i].at = fmin(ends[i].at, 1 - APART * (count - 1 - i));
}

/* The text is dark: some colours cannot be read as text. */
static void put_name(gyre_report_buffer *script, const line_end *e, double x, double y) {
    char at[2][64];
    gyre_report_format_number(at[0], 'f', 4, x);
    gyre_report_format_number(at[1], 'f', 4, y);
    gyre_report_put(script, "set label ");
    gyre_report_put_gnuplot_string(script, e->name);
    gyre_report_printf(script, " at graph %s, graph %s left font ',12' textcolor rgb '" GYRE_REPORT_INK_TEXT "'\n", at[0],
                       at[1]);
}

static void put_leader(gyre_report_buffer *script, const line_end *e) {
    char number[3][64];
    const double values[] = {e->x, e->y, e->at};
    for (int i = 0; i < 3; i++)
        gyre_report_format_number(number[i], 'f', 4, values[i]);
    gyre_report_printf(
        script, "set arrow from graph %s, graph %s to graph 1.025, graph %s nohead linewidth 0.9 linecolor rgb '%s'\n",
        number[0], number[1], number[2], e->style.color);
}

/* A line that ends early is named there, others to the right of the chart. */
void gyre_report_put_end_labels(gyre_report_buffer *script, const gyre_report_chart *chart, gyre_report_range x,
                                gyre_report_range y) {
    line_end ends[MOST_ENDS];
    int count = 0;
    for (int64_t i = 0; i < chart->series_count && count < MOST_ENDS; i++) {
        if (!find_end(chart, i, x, y, &ends[count])) continue;
        if (ends[count].x < LAST_PART)
            put_name(script, &ends[count], ends[count].x + 0.015, ends[count].y + 0.03);
        else
            count++;
    }
    move_apart(ends, count);
    for (int i = 0; i < count; i++) {
        put_leader(script, &ends[i]);
        put_name(script, &ends[i], 1.03, ends[i].at);
    }
}
