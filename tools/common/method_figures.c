/* method_figures.c: heat maps of the angles, and the wavelengths. */
#include "tools/common/method_figures.h"
#include "tools/cli/cli_error.h"
#include "tools/common/variants.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double TURN = 6.283185307179586;

static gyre_status add_maps(const method_figures *f, gyre_report_page *page, gyre_error *err) {
    const method_map *first = &f->maps[0];
    char title[160], label[64];
    gyre_report_heatmap *maps = calloc((size_t)f->count, sizeof *maps);
    if (!maps) return gyre_fail(err, GYRE_ENOMEM, "figure: out of memory (%lld maps)", (long long)f->count);
    for (int64_t i = 0; i < f->count; i++)
        maps[i] = (gyre_report_heatmap){f->maps[i].label, f->maps[i].columns, f->maps[i].pairs, f->maps[i].cosine};
    snprintf(title, sizeof title, "cos(angle) of each pair by distance, extended from %lld to %lld %s",
             (long long)f->trained, (long long)f->target, f->unit);
    snprintf(label, sizeof label, "distance (%s)", f->unit);
    gyre_report_heatmap_grid panels = GYRE_REPORT_HEATMAP_GRID_INIT;
    panels.title = title;
    panels.x = (gyre_report_axis){label, GYRE_REPORT_SCALE_LINEAR, 0, first->longest};
    panels.y = (gyre_report_axis){"pair of channels", GYRE_REPORT_SCALE_LINEAR, 0, (double)(first->pairs - 1)};
    panels.z = (gyre_report_axis){"cos(angle)", GYRE_REPORT_SCALE_LINEAR, -1, 1};
    panels.x_marker = (double)f->trained < first->longest ? (double)f->trained : 0;
    panels.maps = maps;
    panels.maps_count = f->count;
    panels.columns = 2;
    (void)gyre_report_page_heatmap_grid(
        page, &panels,
        "The angle between a query and a key, by the distance between them; in each column the mean over its distances, so "
        "a pair that turns faster than the columns show is pale. Dashed: the trained length. Slow pairs (top) never finish "
        "a turn within it; past it, pairs as trained show angles that training never did. A scaling slows pairs down: "
        "`linear` all of them alike, also the fast ones, which distinguish neighbours; `ntk` each a little more than the "
        "one before; `by-parts` and `yarn` leave the fast ones as they were.");
    free(maps);
    return GYRE_OK;
}

static gyre_status add_wavelengths(const method_figures *f, gyre_report_page *page, gyre_error *err) {
    const int64_t pairs = f->maps[0].pairs;
    char label[64];
    gyre_report_series *series = calloc((size_t)f->count, sizeof *series);
    double *x = calloc((size_t)pairs, sizeof *x), *y = calloc((size_t)(f->count * pairs), sizeof *y);
    gyre_status status = GYRE_OK;
    if (series && x && y) {
        for (int64_t p = 0; p < pairs; p++)
            x[p] = (double)p;
        for (int64_t i = 0; i < f->count; i++) {
            for (int64_t p = 0; p < pairs; p++)
                y[i * pairs + p] = TURN / f->maps[i].inv_freq[p];
            series[i] = (gyre_report_series){.name = f->maps[i].label,
                                             .count = pairs,
                                             .x = x,
                                             .y = y + i * pairs,
                                             .look = subject_look(f->maps[i].label)};
        }
        snprintf(label, sizeof label, "%s for one turn", f->unit);
        const gyre_report_marker lengths[2] = {{(double)f->trained, "trained length", 1},
                                               {(double)f->target, "length extended to", 1}};
        gyre_report_chart chart = GYRE_REPORT_CHART_INIT;
        chart.title = "Wavelength of each pair";
        chart.style = GYRE_REPORT_CHART_STYLE_POINTS;
        chart.x = (gyre_report_axis){"pair of channels", GYRE_REPORT_SCALE_LINEAR, 0, 0};
        chart.y = (gyre_report_axis){label, GYRE_REPORT_SCALE_LOG10, 0, 0};
        chart.series = series;
        chart.series_count = f->count;
        chart.markers = lengths;
        chart.markers_count = f->target != f->trained ? 2 : 1;
        (void)gyre_report_page_chart(
            page, &chart, "A pair above the lower line never finished a turn in training: those are the ones to slow down.");
    } else
        status = gyre_fail(err, GYRE_ENOMEM, "figure: out of memory (%lld pairs)", (long long)pairs);
    free(series);
    free(x);
    free(y);
    return status;
}

gyre_status method_figures_add(const method_figures *f, gyre_report_page *page, gyre_error *err) {
    /* A map has at least two rows. */
    const gyre_status status = f->maps[0].pairs > 1 ? add_maps(f, page, err) : GYRE_OK;
    return status ? status : add_wavelengths(f, page, err);
}
