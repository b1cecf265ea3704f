/* report_legend.c: which panel of a chart shows a series, how the series looks, and legends in HTML. */
#include "report/report_internal.h"

#include <string.h>

enum { MAX_TOGETHER = GYRE_REPORT_COLORS, BLACK = 6 };

/* -- panels -- */
static int has_panels(const gyre_report_chart *c) {
    for (int64_t i = 0; i < c->series_count; i++)
        if (c->series[i].panel) return 1;
    return 0;
}

/* out = the panel's title; NULL = the series is in every panel. */
static const char *panel_of(const gyre_report_chart *c, int64_t series) {
    const gyre_report_series *s = &c->series[series];
    return s->panel || has_panels(c) || c->series_count <= MAX_TOGETHER ? s->panel : s->name ? s->name : "";
}

/* out = 1 if no series before this one has the same panel. */
static int begins_panel(const gyre_report_chart *c, int64_t series) {
    const char *panel = panel_of(c, series);
    for (int64_t i = 0; panel && i < series; i++)
        if (panel_of(c, i) && strcmp(panel_of(c, i), panel) == 0) return 0;
    return panel != NULL;
}

int64_t gyre_report_chart_panels(const gyre_report_chart *chart, const char **names, int64_t limit) {
    int64_t count = 0;
    for (int64_t i = 0; i < chart->series_count && count < limit; i++) {
        if (!begins_panel(chart, i)) continue;
        if (names) names[count] = panel_of(chart, i);
        count++;
    }
    return count;
}

int gyre_report_series_is_own(const gyre_report_chart *chart, int64_t series, int64_t panel) {
    const char *wanted = NULL, *name = panel_of(chart, series);
    if (panel < 0 || !name) return 1;
    for (int64_t i = 0, at = 0; i < chart->series_count && !wanted; i++)
        if (begins_panel(chart, i) && at++ == panel) wanted = panel_of(chart, i);
    return wanted && strcmp(wanted, name) == 0;
}

/* -- styles -- */
/* Series of all panels are black, and others never are, so that the series of a panel differ. */
static int64_t style_index(const gyre_report_chart *c, int64_t series) {
    int64_t own = 0, shared = 0;
    if (!has_panels(c)) return series;
    for (int64_t i = 0; i < series; i++)
        *(panel_of(c, i) ? &own : &shared) += 1;
    if (!panel_of(c, series)) return BLACK + shared * GYRE_REPORT_COLORS;
    const int64_t round = own / (GYRE_REPORT_COLORS - 1), color = own % (GYRE_REPORT_COLORS - 1);
    return round * GYRE_REPORT_COLORS + color + (color >= BLACK);
}

/* Points without lines may coincide, and both must show: their symbols are hollow. */
gyre_report_style gyre_report_series_style(const gyre_report_chart *chart, int64_t series) {
    const gyre_report_look *own = &chart->series[series].look;
    gyre_report_look look = gyre_report_look_at(style_index(chart, series));
    if (has_panels(chart) && !chart->series[series].panel) look.dash = 1;
    if (own->color) look.color = own->color;
    if (own->mark) look.mark = own->mark;
    if (own->dash) look.dash = own->dash;
    look.hollow = own->hollow || chart->style == GYRE_REPORT_CHART_STYLE_POINTS;
    return gyre_report_look_style(look);
}

/* -- the legend -- */
/* A sample of the line with one symbol, as in the picture. */
static void put_sample(gyre_report_buffer *out, const gyre_report_style *style, int line) {
    gyre_report_put(out, "<svg class=\"sample\" viewBox=\"0 0 60 14\" aria-hidden=\"true\">");
    if (line)
        gyre_report_printf(out,
                           "<path d=\"M2,7H58\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"/>",
                           style->color, *style->dash ? style->dash : "none");
    gyre_report_printf(out,
                       "<path d=\"%s\" transform=\"translate(30,7) scale(4)\" stroke=\"%s\" stroke-width=\".4\" "
                       "fill=\"%s\"/></svg>",
                       style->path, style->color, style->filled ? style->color : "none");
}

/* Which lines are grey, as those of other panels are. */
static void put_others(gyre_report_buffer *out, const gyre_report_chart *chart, int64_t panel) {
    int others = 0;
    for (int64_t i = 0; i < chart->series_count; i++) {
        if (gyre_report_series_is_own(chart, i, panel)) continue;
        gyre_report_put(out, others++ ? ", "
                                      : "<li class=\"others\"><svg class=\"sample\" viewBox=\"0 0 60 14\" "
                                        "aria-hidden=\"true\"><path d=\"M2,7H58\" stroke=\"" GYRE_REPORT_INK_OTHER
                                        "\"/></svg><span>");
        gyre_report_put_html(out, chart->series[i].name);
    }
    if (others) gyre_report_put(out, "</span></li>\n");
}

void gyre_report_put_legend(gyre_report_buffer *out, const gyre_report_chart *chart, int64_t panel) {
    char number[64];
    gyre_report_put(out, "<ul class=\"legend\">");
    for (int64_t i = 0; i < chart->series_count; i++) {
        if (!gyre_report_series_is_own(chart, i, panel)) continue;
        const gyre_report_style style = gyre_report_series_style(chart, i);
        const double highest = gyre_report_highest(&chart->series[i]);
        gyre_report_put(out, "<li>");
        put_sample(out, &style, chart->style == GYRE_REPORT_CHART_STYLE_LINES);
        gyre_report_put_html(out, chart->series[i].name);
        if (chart->clip > 0 && highest > chart->clip) {
            gyre_report_format_number(number, 'g', 3, highest);
            gyre_report_printf(out, " (up to %s, beyond the axis)", number);
        }
        gyre_report_put(out, "</li>\n");
    }
    put_others(out, chart, panel);
    gyre_report_put(out, "</ul>\n");
}
