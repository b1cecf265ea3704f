/* report_chart.c: lines and points over two axes. */
#include "report/report_internal.h"

#include <math.h>
#include <stdlib.h>

enum {
    MANY_SYMBOLS = 8, /* on a line of more than a few points */
    MANY_SPOTS = 32,  /* points of a line that answer the pointer */
    MAX_WHOLE = 12,   /* range of an x axis that is counted */
    MOST_COMPARED = 64,
    LEGEND_LINE = 20,
    MIN_HEIGHT = 420,
    PICTURE_HEIGHT = 380,
    SMALL_HEIGHT = 300
};

static const double FAR_ABOVE = 2, ROOM_ABOVE = 1.15;

/* A picture of a chart: all of its series, or one panel. */
typedef struct picture {
    const gyre_report_chart *chart;
    int64_t panel; /* -1 = all series in their own colours */
    int small, alone;
    gyre_report_range x, y;
} picture;

/* -- checks and ranges -- */
gyre_status gyre_report_chart_check(const gyre_report_chart *c, gyre_error *err) {
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
        if ((unsigned)s->look.color >= GYRE_REPORT_PAINTS || (unsigned)s->look.mark >= GYRE_REPORT_MARKS ||
            s->look.dash < 0 || s->look.dash > GYRE_REPORT_DASHES)
            return gyre_fail(err, GYRE_EINVAL, "chart: series %lld: color %d, mark %d or dash %d is out of range (figure)",
                             (long long)i, (int)s->look.color, (int)s->look.mark, s->look.dash);
    }
    const gyre_status status = gyre_report_axis_check(&c->x, "x", err);
    return status ? status : gyre_report_axis_check(&c->y, "y", err);
}

/* out = where y is drawn; NaN if nowhere. */
double gyre_report_clipped_y(const gyre_report_chart *c, double y) {
    if (c->clip > 0 && y > c->clip) return c->clip;
    return gyre_report_axis_can_show(&c->y, y) ? y : (double)NAN;
}

static void measure_ranges(const gyre_report_chart *c, gyre_report_range *x, gyre_report_range *y) {
    for (int64_t i = 0; i < c->series_count; i++) {
        const gyre_report_series *s = &c->series[i];
        for (int64_t k = 0; k < s->count; k++) {
            if (!gyre_report_axis_can_show(&c->x, s->x[k]) || isnan(gyre_report_clipped_y(c, s->y[k]))) continue;
            gyre_report_range_add(x, s->x[k]);
            gyre_report_range_add(y, gyre_report_clipped_y(c, s->y[k]));
            if (!s->low || isnan(gyre_report_clipped_y(c, s->low[k])) || isnan(gyre_report_clipped_y(c, s->high[k])))
                continue;
            gyre_report_range_add(y, gyre_report_clipped_y(c, s->low[k]));
            gyre_report_range_add(y, gyre_report_clipped_y(c, s->high[k]));
        }
    }
    if (x->low > x->high) return;
    for (int64_t i = 0; i < c->markers_count; i++) {
        const gyre_report_marker *m = &c->markers[i];
        if (gyre_report_axis_can_show(m->horizontal ? &c->y : &c->x, m->at))
            gyre_report_range_add(m->horizontal ? y : x, m->at);
    }
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double gyre_report_highest(const gyre_report_series *s) {
    double high = -INFINITY;
    for (int64_t k = 0; k < s->count; k++)
        if (isfinite(s->y[k])) high = fmax(high, s->y[k]);
    return high;
}

double gyre_report_far_above(const gyre_report_series *series, int64_t count) {
    double highs[MOST_COMPARED], rest = -INFINITY;
    const int64_t n = count < MOST_COMPARED ? count : MOST_COMPARED;
    for (int64_t i = 0; i < n; i++)
        highs[i] = gyre_report_highest(&series[i]);
    qsort(highs, (size_t)n, sizeof *highs, compare);
    for (int64_t i = 0; i < n; i++)
        if (highs[i] <= FAR_ABOVE * highs[(n - 1) / 2]) rest = fmax(rest, highs[i]);
    return n > 2 && rest > 0 && highs[n - 1] > rest * ROOM_ABOVE ? rest * ROOM_ABOVE : 0;
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
                gyre_report_put_gnuplot_number(script, gyre_report_clipped_y(c, y[column]));
            }
            gyre_report_put(script, "\n");
        }
        if (s->count == 0) gyre_report_put(script, "NaN NaN NaN NaN\n"); /* gnuplot refuses an empty block */
        gyre_report_put(script, "EOD\n");
    }
}

/* -- the points that answer the pointer -- */
/* out = 1 for all points of a short line, and for some of a long one. */
static int has_spot(const gyre_report_chart *c, const gyre_report_series *s, int64_t k) {
    return k % ((s->count + MANY_SPOTS - 1) / MANY_SPOTS) == 0 && gyre_report_axis_can_show(&c->x, s->x[k]) &&
           !isnan(gyre_report_clipped_y(c, s->y[k]));
}

static int has_spots(const gyre_report_chart *c, const gyre_report_series *s) {
    int any = 0;
    for (int64_t k = 0; k < s->count && !any; k++)
        any = has_spot(c, s, k);
    return any;
}

static void put_spots(gyre_report_buffer *script, const gyre_report_chart *c) {
    for (int64_t i = 0; i < c->series_count; i++) {
        const gyre_report_series *s = &c->series[i];
        if (!has_spots(c, s)) continue; /* gnuplot 5.4 fails on labels of nothing */
        gyre_report_printf(script, "$h%lld << EOD\n", (long long)i);
        for (int64_t k = 0; k < s->count; k++) {
            if (!has_spot(c, s, k)) continue;
            gyre_report_put_gnuplot_number(script, s->x[k]);
            gyre_report_put(script, " ");
            gyre_report_put_gnuplot_number(script, gyre_report_clipped_y(c, s->y[k]));
            gyre_report_printf(script, " %lld\n", (long long)k);
        }
        gyre_report_put(script, "EOD\n");
    }
}

/* Labels of vertical markers are between the frame and the title. */
static int has_vertical_marker(const gyre_report_chart *c) {
    for (int64_t i = 0; i < c->markers_count; i++)
        if (!c->markers[i].horizontal && gyre_report_axis_can_show(&c->x, c->markers[i].at)) return 1;
    return 0;
}

/* A wide picture has room to name each line where it ends. */
static int names_ends(const picture *p) {
    return !p->alone && !p->small && p->panel < 0 && p->chart->style == GYRE_REPORT_CHART_STYLE_LINES;
}

static void put_theme(gyre_report_buffer *script, const picture *p) {
    const gyre_report_chart *c = p->chart;
    const int marked = has_vertical_marker(c);
    gyre_report_put(script, "set border 3 linecolor rgb '" GYRE_REPORT_INK_FRAME "' linewidth 0.8\n"
                            "set grid xtics ytics linetype 1 linecolor rgb '" GYRE_REPORT_INK_GRID "' linewidth 0.8\n"
                            "set tics nomirror out scale 0.5,0.25 textcolor rgb '" GYRE_REPORT_INK_LABEL "'\n"
                            "set format '%h'\n");
    gyre_report_printf(script, "set lmargin %d\nset bmargin 3\n", p->small ? 8 : 10);
    if (!p->alone) {
        gyre_report_printf(script, "unset key\nset rmargin %d\nset tmargin %s\n",
                           names_ends(p) ? (int)gyre_report_end_room(c) : 2, marked ? "1.6" : "0.6");
        return;
    }
    gyre_report_put(script, "set key outside right top vertical Left reverse samplen 4 spacing 1.2 "
                            "textcolor rgb '" GYRE_REPORT_INK_TEXT "'\n");
    gyre_report_printf(script, "set tmargin %s\nset label ", marked ? "3.6" : "2.4");
    gyre_report_put_gnuplot_string(script, c->title);
    gyre_report_printf(script, " at graph 0, graph 1 left offset 0,%s font ',16' textcolor rgb '" GYRE_REPORT_INK_TEXT "'\n",
                       marked ? "2.2" : "1.1");
}

/* The label of a vertical marker does not reach past the frame. */
static const char *marker_label_place(const picture *p, const gyre_report_marker *m) {
    if (m->horizontal) return " right offset 0,0.5";
    const double at = gyre_report_axis_fraction(&p->chart->x, p->x, m->at), room = p->small ? 0.15 : 0.07;
    return at < room       ? ", graph 1 left offset 0,0.7"
           : at > 1 - room ? ", graph 1 right offset 0,0.7"
                           : ", graph 1 center offset 0,0.7";
}

static void put_marker(gyre_report_buffer *script, const picture *p, const gyre_report_marker *m) {
    const gyre_report_chart *c = p->chart;
    if (!gyre_report_axis_can_show(m->horizontal ? &c->y : &c->x, m->at)) return;
    gyre_report_put(script, "set arrow from ");
    gyre_report_put(script, m->horizontal ? "graph 0, first " : "first ");
    gyre_report_put_gnuplot_number(script, m->at);
    gyre_report_put(script, m->horizontal ? " to graph 1, first " : ", graph 0 to first ");
    gyre_report_put_gnuplot_number(script, m->at);
    gyre_report_put(script, m->horizontal ? "" : ", graph 1");
    gyre_report_put(script,
                    " nohead linewidth 1.2 linecolor rgb '" GYRE_REPORT_INK_QUIET "' dashtype (6,5) back\nset label ");
    gyre_report_put_gnuplot_string(script, m->label);
    gyre_report_put(script, m->horizontal ? " at graph 0.995, first " : " at first ");
    gyre_report_put_gnuplot_number(script, m->at);
    gyre_report_put(script, marker_label_place(p, m));
    gyre_report_put(script, " font ',12' textcolor rgb '" GYRE_REPORT_INK_QUIET "'\n");
}

static void put_dash(gyre_report_buffer *script, const char *dash) {
    if (*dash)
        gyre_report_printf(script, " dashtype (%s)", dash);
    else
        gyre_report_put(script, " dashtype solid");
}

/* out = 1 if both points are drawn at the same place, where one hides the other. */
static int coincide(const picture *p, double a, double b) {
    const int linear = p->chart->y.scale == GYRE_REPORT_SCALE_LINEAR;
    const double high = linear ? p->y.high : log(p->y.high), low = linear ? p->y.low : log(p->y.low);
    const double off = linear ? a - b : log(a / b);
    return fabs(off) <= 0.01 * (high - low);
}

static int is_own(const picture *p, int64_t i) {
    return gyre_report_series_is_own(p->chart, i, p->panel);
}

static void put_curve(gyre_report_buffer *script, const picture *p, int64_t i) {
    const gyre_report_chart *c = p->chart;
    const gyre_report_series *s = &c->series[i];
    const gyre_report_style style = gyre_report_series_style(c, i);
    gyre_report_printf(script, "$s%lld using 1:2 with ", (long long)i);
    if (c->style == GYRE_REPORT_CHART_STYLE_POINTS) {
        gyre_report_printf(script, "points linecolor rgb '%s' linewidth 1.6 pointtype %d pointsize 0.9", style.color,
                           style.shape);
    } else {
        gyre_report_printf(script, "linespoints linecolor rgb '%s' linewidth 2 pointtype %d pointsize 0.7", style.color,
                           style.shape);
        put_dash(script, style.dash);
        if (s->count > GYRE_REPORT_FEW_POINTS)
            gyre_report_printf(script, " pointinterval %lld", (long long)(s->count / MANY_SYMBOLS));
    }
    gyre_report_put(script, " title ");
    gyre_report_put_gnuplot_string(script, s->name);
}

/* A line of another panel, behind the panel's own. */
static void put_other(gyre_report_buffer *script, const picture *p, int64_t i) {
    const int points = p->chart->style == GYRE_REPORT_CHART_STYLE_POINTS;
    gyre_report_printf(script, "$s%lld using 1:2 with %s linecolor rgb '" GYRE_REPORT_INK_OTHER "' linewidth 1%s notitle, ",
                       (long long)i, points ? "points" : "lines", points ? " pointtype 7 pointsize 0.3" : "");
}

static void put_band(gyre_report_buffer *script, const picture *p, int64_t i) {
    gyre_report_printf(script,
                       "$s%lld using 1:3:4 with filledcurves fillstyle transparent solid 0.15 noborder "
                       "linecolor rgb '%s' notitle, ",
                       (long long)i, gyre_report_series_style(p->chart, i).color);
}

static void put_plot(gyre_report_buffer *script, const picture *p) {
    const gyre_report_chart *c = p->chart;
    int curves = 0;
    gyre_report_put(script, "plot ");
    for (int64_t i = 0; i < c->series_count; i++)
        if (!is_own(p, i)) put_other(script, p, i);
    for (int64_t i = 0; i < c->series_count; i++)
        if (is_own(p, i) && c->series[i].low && c->series[i].count) put_band(script, p, i);
    /* Dashed lines are drawn over solid ones, which show between the dashes. */
    for (int dashed = 0; dashed < 2; dashed++)
        for (int64_t i = 0; i < c->series_count; i++) {
            if (!is_own(p, i) || (*gyre_report_series_style(c, i).dash != 0) != dashed) continue;
            gyre_report_put(script, curves++ ? ", " : "");
            put_curve(script, p, i);
        }
    /* The label names series and point; report_svg.c makes a spot with a hint of it. */
    for (int64_t i = 0; i < c->series_count; i++)
        if (is_own(p, i) && has_spots(c, &c->series[i]))
            gyre_report_printf(
                script, ", $h%lld using 1:2:(sprintf('%lld %%d', $3)) with labels hypertext point pointtype 7 notitle",
                (long long)i, (long long)i);
    gyre_report_put(script, "\n");
}

/* Values that are counted, such as pairs of channels, have no ticks between them. */
static int counts_on_x(const picture *p) {
    int whole = p->chart->x.scale == GYRE_REPORT_SCALE_LINEAR && p->x.high - p->x.low <= MAX_WHOLE;
    for (int64_t i = 0; i < p->chart->series_count && whole; i++)
        for (int64_t k = 0; k < p->chart->series[i].count; k++)
            whole &= p->chart->series[i].x[k] == floor(p->chart->series[i].x[k]);
    return whole;
}

/* -- hints -- */
static void put_value(gyre_report_buffer *out, const char *label, double value) {
    char number[64];
    gyre_report_format_number(number, 'g', 6, value);
    gyre_report_put(out, "\n");
    gyre_report_put_sanitized(out, label);
    gyre_report_printf(out, "%s%s", label && *label ? ": " : "", number);
}

static void put_hint(const void *ctx, int64_t map, int64_t series, int64_t point, gyre_report_buffer *out) {
    const picture *p = ctx;
    const gyre_report_chart *c = p->chart;
    (void)map;
    if (series < 0 || series >= c->series_count || point < 0 || point >= c->series[series].count) return;
    const gyre_report_series *s = &c->series[series];
    gyre_report_put_sanitized(out, s->name);
    for (int64_t i = 0; i < c->series_count; i++) {
        const gyre_report_series *other = &c->series[i];
        if (i == series || !is_own(p, i) || point >= other->count || other->x[point] != s->x[point]) continue;
        if (isnan(gyre_report_clipped_y(c, other->y[point])) ||
            !coincide(p, gyre_report_clipped_y(c, other->y[point]), gyre_report_clipped_y(c, s->y[point])))
            continue;
        gyre_report_put(out, ", ");
        gyre_report_put_sanitized(out, other->name);
    }
    put_value(out, c->x.label, s->x[point]);
    put_value(out, c->y.label, s->y[point]);
    if (!s->low || !isfinite(s->low[point]) || !isfinite(s->high[point])) return;
    char low[64], high[64];
    gyre_report_format_number(low, 'g', 6, s->low[point]);
    gyre_report_format_number(high, 'g', 6, s->high[point]);
    gyre_report_printf(out, " (%s to %s)", low, high);
}

/* -- pictures -- */
static int picture_height(const picture *p) {
    const int64_t series = p->chart->series_count, legend = 90 + LEGEND_LINE * (series < 200 ? series : 200);
    if (!p->alone) return p->small ? SMALL_HEIGHT : PICTURE_HEIGHT;
    return legend > MIN_HEIGHT ? (int)legend : MIN_HEIGHT;
}

static gyre_status draw(gyre_report_plotter *plotter, picture *p, char **out, gyre_error *err) {
    const gyre_report_chart *c = p->chart;
    p->x = p->y = (gyre_report_range)GYRE_REPORT_RANGE_EMPTY;
    measure_ranges(c, &p->x, &p->y);
    if (p->x.low > p->x.high) return gyre_fail(err, GYRE_EINVAL, "chart: nothing finite to draw (figure)");
    gyre_report_buffer script = {NULL, 0, 0, 0};
    put_data(&script, c);
    put_spots(&script, c);
    put_theme(&script, p);
    gyre_report_put_axis(&script, 'x', &c->x, p->x, 0);
    if (counts_on_x(p)) gyre_report_put(&script, "set xtics 1\n");
    gyre_report_put_axis(&script, 'y', &c->y, p->y, p->y.high == c->clip ? c->clip : 0);
    for (int64_t i = 0; i < c->markers_count; i++)
        put_marker(&script, p, &c->markers[i]);
    if (names_ends(p)) gyre_report_put_end_labels(&script, c, p->x, p->y);
    put_plot(&script, p);
    const gyre_report_canvas canvas = {.title = c->title,
                                       .width = p->small ? GYRE_REPORT_SMALL_WIDTH : GYRE_REPORT_WIDE_WIDTH,
                                       .height = picture_height(p),
                                       .alone = p->alone,
                                       .hint = put_hint,
                                       .ctx = p};
    const gyre_status drawn = gyre_report_gnuplot(plotter, &canvas, &script, out, err);
    gyre_report_buffer_free(&script);
    return drawn;
}

gyre_status gyre_report_chart_svg(const gyre_report_chart *chart, char **out, gyre_error *err) {
    const gyre_status status = gyre_report_chart_check(chart, err);
    if (status) return status;
    if (!out) return gyre_fail(err, GYRE_EINVAL, "chart: nowhere to put it (figure)");
    picture p = {.chart = chart, .panel = -1, .alone = 1};
    return draw(NULL, &p, out, err);
}

gyre_status gyre_report_chart_picture(gyre_report_plotter *plotter, const gyre_report_chart *chart, int64_t panel, int small,
                                      char **out, gyre_error *err) {
    const gyre_status status = gyre_report_chart_check(chart, err);
    picture p = {.chart = chart, .panel = panel, .small = small};
    return status ? status : draw(plotter, &p, out, err);
}
