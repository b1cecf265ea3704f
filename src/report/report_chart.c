/* report_chart.c: lines and points over two axes. */
#include "report/report_internal.h"

#include <math.h>

enum { COLORS = 8, DASHES = 5, SHAPES = 8, FEW_POINTS = 24, LEGEND_LINE = 20, MIN_HEIGHT = 420, WIDTH = 960 };

/* Okabe and Ito, "Color Universal Design" (2008): distinguishable by colour-blind readers.  Their yellow is darkened,
 * because it vanishes on white. */
static const char *const colors[COLORS] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                           "#E69F00", "#56B4E9", "#000000", "#B8A800"};
static const char *const dashes[DASHES] = {"solid", "(14,6)", "(4,5)", "(14,5,3,5)", "(22,5,3,5,3,5)"};
/* gnuplot's circle, square, triangle and diamond, then the hollow ones and the falling triangle. */
static const int shapes[SHAPES] = {7, 5, 9, 13, 6, 4, 8, 11};
/* Hollow or thin shapes only: points without lines may coincide, and both must show. */
static const int open_shapes[SHAPES] = {6, 4, 8, 2, 12, 1, 10, 14};

/* -- checks and ranges -- */
static gyre_status check(const gyre_report_chart *c, gyre_error *err) {
    if (!c || c->size != sizeof *c)
        return gyre_fail(err, GYRE_EINVAL, "chart: its size is not set by GYRE_REPORT_CHART_INIT (figure)");
    if (c->series_count < 1 || !c->series) return gyre_fail(err, GYRE_EINVAL, "chart: no series to draw (figure)");
    if (c->markers_count < 0 || (c->markers_count && !c->markers) || (unsigned)c->style > GYRE_REPORT_CHART_STYLE_POINTS ||
        !(c->clip >= 0) || isinf(c->clip))
        return gyre_fail(err, GYRE_EINVAL, "chart: markers %lld, style %d or clip %g is out of range (figure)",
                         (long long)c->markers_count, (int)c->style, c->clip);
    for (int64_t i = 0; i < c->series_count; i++) {
        const gyre_report_series *s = &c->series[i];
        if (s->count < 0 || (s->count && (!s->x || !s->y)) || !s->low != !s->high)
            return gyre_fail(err, GYRE_EINVAL, "chart: series %lld lacks numbers (figure)", (long long)i);
        if (s->color < 0 || s->color > COLORS || s->dash < 0 || s->dash > DASHES)
            return gyre_fail(err, GYRE_EINVAL, "chart: series %lld: color %d or dash %d is out of range (figure)",
                             (long long)i, s->color, s->dash);
    }
    const gyre_status status = gyre_report_axis_check(&c->x, "x", err);
    return status ? status : gyre_report_axis_check(&c->y, "y", err);
}

/* out = where y is drawn; NaN if nowhere. */
static double clipped_y(const gyre_report_chart *c, double y) {
    if (c->clip > 0 && y > c->clip) return c->clip;
    return gyre_report_axis_can_show(&c->y, y) ? y : (double)NAN;
}

static void measure_ranges(const gyre_report_chart *c, gyre_report_range *x, gyre_report_range *y) {
    for (int64_t i = 0; i < c->series_count; i++) {
        const gyre_report_series *s = &c->series[i];
        for (int64_t k = 0; k < s->count; k++) {
            if (!gyre_report_axis_can_show(&c->x, s->x[k]) || isnan(clipped_y(c, s->y[k]))) continue;
            gyre_report_range_add(x, s->x[k]);
            gyre_report_range_add(y, clipped_y(c, s->y[k]));
            if (!s->low || isnan(clipped_y(c, s->low[k])) || isnan(clipped_y(c, s->high[k]))) continue;
            gyre_report_range_add(y, clipped_y(c, s->low[k]));
            gyre_report_range_add(y, clipped_y(c, s->high[k]));
        }
    }
    if (x->low > x->high) return;
    for (int64_t i = 0; i < c->markers_count; i++) {
        const gyre_report_marker *m = &c->markers[i];
        if (gyre_report_axis_can_show(m->horizontal ? &c->y : &c->x, m->at))
            gyre_report_range_add(m->horizontal ? y : x, m->at);
    }
}

/* -- the script -- */
static void put_data(gyre_report_buffer *script, const gyre_report_chart *c) {
    for (int64_t i = 0; i < c->series_count; i++) {
        const gyre_report_series *s = &c->series[i];
        gyre_report_printf(script, "$s%lld << EOD\n", (long long)i);
        for (int64_t k = 0; k < s->count; k++) {
            gyre_report_put_gnuplot_number(script, gyre_report_axis_can_show(&c->x, s->x[k]) ? s->x[k] : (double)NAN);
            const double y[] = {s->y[k], s->low ? s->low[k] : (double)NAN, s->low ? s->high[k] : (double)NAN};
            for (int column = 0; column < 3; column++) {
                gyre_report_put(script, " ");
                gyre_report_put_gnuplot_number(script, clipped_y(c, y[column]));
            }
            gyre_report_put(script, "\n");
        }
        if (s->count == 0) gyre_report_put(script, "NaN NaN NaN NaN\n"); /* gnuplot refuses an empty block */
        gyre_report_put(script, "EOD\n");
    }
}

/* Labels of vertical markers are between the frame and the title. */
static int has_vertical_marker(const gyre_report_chart *c) {
    for (int64_t i = 0; i < c->markers_count; i++)
        if (!c->markers[i].horizontal && gyre_report_axis_can_show(&c->x, c->markers[i].at)) return 1;
    return 0;
}

static void put_theme(gyre_report_buffer *script, const gyre_report_chart *c) {
    const int marked = has_vertical_marker(c);
    gyre_report_put(script,
                    "set border 3 linecolor rgb '#80868b' linewidth 0.8\n"
                    "set grid xtics ytics linetype 1 linecolor rgb '#e8eaed' linewidth 0.8\n"
                    "set tics nomirror out scale 0.5,0.25 textcolor rgb '#3c4043'\n"
                    "set format '%h'\n"
                    "set key outside right top vertical Left reverse samplen 2.5 spacing 1.2 textcolor rgb '#202124'\n"
                    "set lmargin 10\nset bmargin 3\n");
    gyre_report_printf(script, "set tmargin %s\nset label ", marked ? "3.6" : "2.4");
    gyre_report_put_gnuplot_string(script, c->title);
    gyre_report_printf(script, " at graph 0, graph 1 left offset 0,%s font ',16' textcolor rgb '#202124'\n",
                       marked ? "2.2" : "1.1");
}

static void put_marker(gyre_report_buffer *script, const gyre_report_chart *c, const gyre_report_marker *m) {
    if (!gyre_report_axis_can_show(m->horizontal ? &c->y : &c->x, m->at)) return;
    gyre_report_put(script, "set arrow from ");
    gyre_report_put(script, m->horizontal ? "graph 0, first " : "first ");
    gyre_report_put_gnuplot_number(script, m->at);
    gyre_report_put(script, m->horizontal ? " to graph 1, first " : ", graph 0 to first ");
    gyre_report_put_gnuplot_number(script, m->at);
    gyre_report_put(script, m->horizontal ? "" : ", graph 1");
    gyre_report_put(script, " nohead linewidth 1.2 linecolor rgb '#5f6368' dashtype (6,5) back\nset label ");
    gyre_report_put_gnuplot_string(script, m->label);
    gyre_report_put(script, m->horizontal ? " at graph 0.995, first " : " at first ");
    gyre_report_put_gnuplot_number(script, m->at);
    gyre_report_put(script, m->horizontal ? " right offset 0,0.5" : ", graph 1 center offset 0,0.7");
    gyre_report_put(script, " font ',12' textcolor rgb '#5f6368'\n");
}

static int has_few_points(const gyre_report_series *s) {
    return s->count <= FEW_POINTS;
}

static void put_curve(gyre_report_buffer *script, const gyre_report_chart *c, int64_t i) {
    const gyre_report_series *s = &c->series[i];
    const int points = c->style == GYRE_REPORT_CHART_STYLE_POINTS, with_points = points || has_few_points(s);
    const char *color = colors[s->color ? s->color - 1 : i % COLORS];
    /* If points distinguish the series, dashes change only when the colours repeat. */
    const char *dash = dashes[s->dash ? s->dash - 1 : with_points ? i / COLORS % DASHES : i % DASHES];
    gyre_report_printf(script, "$s%lld using 1:2 with %s linecolor rgb '%s'", (long long)i,
                       points        ? "points"
                       : with_points ? "linespoints"
                                     : "lines",
                       color);
    if (points) gyre_report_printf(script, " linewidth 1.6 pointtype %d pointsize 0.9", open_shapes[i % SHAPES]);
    if (!points) gyre_report_printf(script, " linewidth 2 dashtype %s", dash);
    if (!points && with_points) gyre_report_printf(script, " pointtype %d pointsize 0.7", shapes[i % SHAPES]);
    gyre_report_put(script, " title ");
    gyre_report_put_gnuplot_string(script, s->name);
}

static void put_plot(gyre_report_buffer *script, const gyre_report_chart *c) {
    gyre_report_put(script, "plot ");
    for (int64_t i = 0; i < c->series_count; i++) {
        const gyre_report_series *s = &c->series[i];
        if (!s->low || !s->count) continue;
        gyre_report_printf(script,
                           "$s%lld using 1:3:4 with filledcurves fillstyle transparent solid 0.15 noborder "
                           "linecolor rgb '%s' notitle, ",
                           (long long)i, colors[s->color ? s->color - 1 : i % COLORS]);
    }
    for (int64_t i = 0; i < c->series_count; i++) {
        if (i) gyre_report_put(script, ", ");
        put_curve(script, c, i);
    }
    gyre_report_put(script, "\n");
}

static int chart_height(int64_t series) {
    const int64_t legend = 90 + LEGEND_LINE * (series < 200 ? series : 200);
    return legend > MIN_HEIGHT ? (int)legend : MIN_HEIGHT;
}

gyre_status gyre_report_chart_svg(const gyre_report_chart *chart, char **out, gyre_error *err) {
    const gyre_status status = check(chart, err);
    if (status) return status;
    if (!out) return gyre_fail(err, GYRE_EINVAL, "chart: nowhere to put it (figure)");
    gyre_report_range x = GYRE_REPORT_RANGE_EMPTY, y = GYRE_REPORT_RANGE_EMPTY;
    measure_ranges(chart, &x, &y);
    if (x.low > x.high) return gyre_fail(err, GYRE_EINVAL, "chart: nothing finite to draw (figure)");
    gyre_report_buffer script = {NULL, 0, 0, 0};
    put_data(&script, chart);
    put_theme(&script, chart);
    gyre_report_put_axis(&script, 'x', &chart->x, x, 0);
    gyre_report_put_axis(&script, 'y', &chart->y, y, y.high == chart->clip ? chart->clip : 0);
    for (int64_t i = 0; i < chart->markers_count; i++)
        put_marker(&script, chart, &chart->markers[i]);
    put_plot(&script, chart);
    const gyre_report_canvas canvas = {chart->title, WIDTH, chart_height(chart->series_count)};
    const gyre_status drawn = gyre_report_gnuplot(&canvas, &script, out, err);
    gyre_report_buffer_free(&script);
    return drawn;
}
