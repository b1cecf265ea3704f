/* method_figures.c: heat maps of the angles, and the wavelengths. */
#include "tools/common/method_figures.h"
#include "tools/cli/cli_memory.h"
#include "tools/common/result_table.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double TURN = 6.283185307179586;

static void add_maps(const method_figures *f, gyre_report_page *page) {
    const method_map *first = &f->maps[0];
    char title[160], label[64];
    const int64_t pairs = first->pairs, cells = pairs * first->columns;
    gyre_report_heatmap *maps = cli_alloc(f->count, sizeof *maps);
    double *rows = cli_alloc(f->count * cells + pairs, sizeof *rows), *names = rows + f->count * cells;
    for (int64_t i = 0; i < f->count; i++)
        maps[i] = (gyre_report_heatmap){f->maps[i].label, first->columns, pairs, rows + i * cells};
    /* The fastest pair is on top, as in every figure: rows of a map begin at the bottom. */
    for (int64_t p = 0; p < pairs; p++) {
        names[p] = (double)(pairs - 1 - p);
        for (int64_t i = 0; i < f->count; i++)
            memcpy(rows + i * cells + p * first->columns, f->maps[i].cosine + (pairs - 1 - p) * first->columns,
                   (size_t)first->columns * sizeof *rows);
    }
    snprintf(title, sizeof title, "cos(angle) of each pair by distance, extended from %lld to %lld %s",
             (long long)f->trained, (long long)f->target, f->unit);
    snprintf(label, sizeof label, "distance (%s)", f->unit);
    gyre_report_heatmap_grid panels = GYRE_REPORT_HEATMAP_GRID_INIT;
    panels.title = title;
    panels.x = (gyre_report_axis){label, GYRE_REPORT_SCALE_LINEAR, 0, first->longest};
    panels.y = (gyre_report_axis){"pair of channels", GYRE_REPORT_SCALE_LINEAR, 0, 0};
    panels.y_values = names;
    panels.z = (gyre_report_axis){"cos(angle)", GYRE_REPORT_SCALE_LINEAR, -1, 1};
    panels.x_marker = (double)f->trained < first->longest ? (double)f->trained : 0;
    panels.maps = maps;
    panels.maps_count = f->count;
    panels.columns = 2;
    panels.palette = GYRE_REPORT_PALETTE_COSINE;
    (void)gyre_report_page_heatmap_grid(
        page, &panels,
        "The angle between a query and a key, by the distance between them: light where they point alike, dark where they "
        "point opposite ways. In each column the mean over its distances, so a pair that turns faster than the columns show "
        "is grey. Dashed: the trained length. Slow pairs (below) never finish "
        "a turn within it; past it, pairs as trained show angles that training never did. A scaling slows pairs down: "
        "`linear` all of them alike, also the fast ones, which distinguish neighbours; `ntk` each a little more than the "
        "one before; `by-parts` and `yarn` leave the fast ones as they were.");
    free(maps);
    free(rows);
}

static void add_wavelengths(const method_figures *f, gyre_report_page *page) {
    chart_lines lines = {.count = 0};
    char label[64];
    for (int64_t i = 0; i < f->count; i++) {
        (void)chart_line(&lines, NULL, "%s", f->maps[i].label);
        for (int64_t p = 0; p < f->maps[0].pairs; p++)
            chart_point(&lines, (double)p, TURN / f->maps[i].inv_freq[p]);
    }
    snprintf(label, sizeof label, "%s for one turn", f->unit);
    const gyre_report_marker lengths[2] = {{(double)f->trained, "trained length", 1},
                                           {(double)f->target, "length extended to", 1}};
    gyre_report_chart chart = GYRE_REPORT_CHART_INIT;
    chart.title = "Wavelength of each pair";
    chart.style = GYRE_REPORT_CHART_STYLE_POINTS;
    chart.x = (gyre_report_axis){"pair of channels", GYRE_REPORT_SCALE_LINEAR, 0, 0};
    chart.y = (gyre_report_axis){label, GYRE_REPORT_SCALE_LOG10, 0, 0};
    chart.markers = lengths;
    chart.markers_count = f->target != f->trained ? 2 : 1;
    chart_lines_draw(&lines, page, &chart,
                     "A pair above the lower line never finished a turn in training: those are the ones to slow down.");
}

void method_figures_add(const method_figures *f, gyre_report_page *page) {
    if (f->maps[0].pairs > 1) add_maps(f, page); /* a map has at least two rows */
    add_wavelengths(f, page);
}
