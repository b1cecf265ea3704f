/* report_heatmaps.c: heat maps in a grid with one colour scale. */
#include "report/report_internal.h"

#include <math.h>

enum {
    WIDTH = 960,
    ROW_HEIGHT = 230,
    TITLE_HEIGHT = 44,
    FOOT_HEIGHT = 62,
    LEFT = 66,
    COLORBAR_WIDTH = 92,
    GAP = 26,
    NAME_HEIGHT = 30
};

/* Diverging: ColorBrewer's RdBu reversed, white in the middle, safe for colour-blind readers.  Sequential: its YlGnBu. */
static const char *const palettes[] = {
    "(0 '#2166ac', 1 '#67a9cf', 2 '#d1e5f0', 3 '#f7f7f7', 4 '#fddbc7', 5 '#ef8a62', 6 '#b2182b')",
    "(0 '#ffffd9', 1 '#c7e9b4', 2 '#7fcdbb', 3 '#41b6c4', 4 '#1d91c0', 5 '#225ea8', 6 '#0c2c84')"};

static gyre_status check_axis(const gyre_report_axis *axis, const char *name, gyre_error *err) {
    if (axis->scale != GYRE_REPORT_SCALE_LINEAR)
        return gyre_fail(err, GYRE_EINVAL, "panels: the %s axis of a map is linear (figure)", name);
    return gyre_report_axis_check(axis, name, err);
}

static gyre_status check(const gyre_report_heatmap_grid *p, gyre_error *err) {
    if (!p || p->size != sizeof *p)
        return gyre_fail(err, GYRE_EINVAL, "panels: their size is not set by GYRE_REPORT_HEATMAP_GRID_INIT (figure)");
    if (p->maps_count < 1 || !p->maps) return gyre_fail(err, GYRE_EINVAL, "panels: no maps to draw (figure)");
    if (p->maps_count > 100 || p->columns < 0 || p->columns > 10 || (unsigned)p->palette > GYRE_REPORT_PALETTE_SEQUENTIAL)
        return gyre_fail(err, GYRE_EINVAL,
                         "panels: %lld maps (at most 100), columns %lld (10) or palette %d is out of range (figure)",
                         (long long)p->maps_count, (long long)p->columns, (int)p->palette);
    for (int64_t i = 0; i < p->maps_count; i++) {
        const gyre_report_heatmap *m = &p->maps[i];
        if (m->width < 2 || m->height < 2 || !m->z || m->width > INT64_MAX / 8 / m->height)
            return gyre_fail(err, GYRE_EINVAL, "panels: map %lld is %lld x %lld cells, at least 2 x 2 are needed (figure)",
                             (long long)i, (long long)m->width, (long long)m->height);
    }
    gyre_status status = check_axis(&p->x, "x", err);
    if (!status) status = check_axis(&p->y, "y", err);
    return status ? status : check_axis(&p->z, "z", err);
}

/* -- layout -- */
typedef struct grid {
    int columns, rows, height;
    double width; /* of one map */
} grid;

static grid grid_of(const gyre_report_heatmap_grid *p) {
    const int64_t wanted = p->columns ? p->columns : 3;
    grid g;
    g.columns = (int)(wanted < p->maps_count ? wanted : p->maps_count);
    g.rows = (int)((p->maps_count + g.columns - 1) / g.columns);
    g.height = TITLE_HEIGHT + g.rows * ROW_HEIGHT + FOOT_HEIGHT;
    g.width = (WIDTH - LEFT - COLORBAR_WIDTH - GAP * (g.columns - 1)) / (double)g.columns;
    return g;
}

/* Position of a map, as fractions of the picture from its lower left corner. */
static void put_position(gyre_report_buffer *script, const grid *g, int column, int row) {
    const double left = LEFT + column * (g->width + GAP), top = TITLE_HEIGHT + row * ROW_HEIGHT + NAME_HEIGHT;
    const double bottom = TITLE_HEIGHT + (row + 1) * ROW_HEIGHT - 6;
    const double margins[] = {left / WIDTH, (left + g->width) / WIDTH, 1 - top / g->height, 1 - bottom / g->height};
    static const char *const names[] = {"lmargin", "rmargin", "tmargin", "bmargin"};
    for (int i = 0; i < 4; i++) {
        gyre_report_printf(script, "set %s at screen ", names[i]);
        gyre_report_put_gnuplot_number(script, margins[i]);
        gyre_report_put(script, "\n");
    }
}

/* -- the script -- */
static void put_data(gyre_report_buffer *script, const gyre_report_heatmap_grid *p) {
    for (int64_t i = 0; i < p->maps_count; i++) {
        const gyre_report_heatmap *m = &p->maps[i];
        gyre_report_printf(script, "$m%lld << EOD\n", (long long)i);
        for (int64_t row = 0; row < m->height; row++)
            for (int64_t column = 0; column < m->width; column++) {
                char number[64];
                const double z = m->z[row * m->width + column];
                gyre_report_format_number(number, 'g', 6, z); /* finer than the colours */
                gyre_report_put(script, isfinite(z) ? number : "NaN");
                gyre_report_put(script, column + 1 < m->width ? " " : "\n");
            }
        gyre_report_put(script, "EOD\n");
    }
}

static gyre_report_range data_range_of(const gyre_report_heatmap_grid *p) {
    gyre_report_range z = GYRE_REPORT_RANGE_EMPTY;
    for (int64_t i = 0; i < p->maps_count; i++)
        for (int64_t k = 0; k < p->maps[i].width * p->maps[i].height; k++)
            if (isfinite(p->maps[i].z[k])) gyre_report_range_add(&z, p->maps[i].z[k]);
    return z;
}

static void put_colors(gyre_report_buffer *script, const gyre_report_heatmap_grid *p, gyre_report_range z, const grid *g) {
    if (p->z.low != p->z.high) z = (gyre_report_range){p->z.low, p->z.high};
    if (z.low == z.high) z = (gyre_report_range){z.low - 1, z.high + 1};
    gyre_report_printf(script, "set palette defined %s\nset cbrange [", palettes[p->palette]);
    gyre_report_put_gnuplot_number(script, z.low);
    gyre_report_put(script, ":");
    gyre_report_put_gnuplot_number(script, z.high);
    gyre_report_put(script, "]\nset cblabel ");
    gyre_report_put_gnuplot_string(script, p->z.label);
    gyre_report_put(script, " textcolor rgb '#3c4043'\nset colorbox vertical user origin screen ");
    gyre_report_put_gnuplot_number(script, (WIDTH - COLORBAR_WIDTH + 18.0) / WIDTH);
    gyre_report_put(script, ", screen ");
    gyre_report_put_gnuplot_number(script, (FOOT_HEIGHT + 6.0) / g->height);
    gyre_report_put(script, " size screen ");
    gyre_report_put_gnuplot_number(script, 12.0 / WIDTH);
    gyre_report_put(script, ", screen ");
    gyre_report_put_gnuplot_number(script, (g->rows * ROW_HEIGHT - NAME_HEIGHT - 6.0) / g->height);
    gyre_report_put(script, " noborder\n");
}

/* A gnuplot expression for the value of cell i of n on an axis. */
static void put_mapping(gyre_report_buffer *script, const gyre_report_axis *axis, int64_t cells, int column) {
    const int named = axis->low != axis->high;
    const double step = named && cells > 1 ? (axis->high - axis->low) / (double)(cells - 1) : 1;
    gyre_report_put(script, "(");
    gyre_report_put_gnuplot_number(script, named ? axis->low : 0);
    gyre_report_printf(script, "+$%d*", column);
    gyre_report_put_gnuplot_number(script, step);
    gyre_report_put(script, ")");
}

/* Extends the range to the outer edges of the first and last cell. */
static void put_range(gyre_report_buffer *script, char letter, const gyre_report_axis *axis, int64_t cells) {
    const int named = axis->low != axis->high;
    const double low = named ? axis->low : 0, high = named && cells > 1 ? axis->high : low + (double)(cells - 1);
    const double half = cells > 1 ? (high - low) / (double)(cells - 1) / 2 : 0.5;
    gyre_report_printf(script, "set %crange [", letter);
    gyre_report_put_gnuplot_number(script, low - half);
    gyre_report_put(script, ":");
    gyre_report_put_gnuplot_number(script, high + half);
    gyre_report_put(script, "]\n");
}

static void put_map(gyre_report_buffer *script, const gyre_report_heatmap_grid *p, const grid *g, int64_t i) {
    const gyre_report_heatmap *m = &p->maps[i];
    const int column = (int)(i % g->columns), row = (int)(i / g->columns);
    const int lowest = i + g->columns >= p->maps_count;
    put_position(script, g, column, row);
    put_range(script, 'x', &p->x, m->width);
    put_range(script, 'y', &p->y, m->height);
    gyre_report_put(script, "unset label\nset label ");
    gyre_report_put_gnuplot_string(script, m->name);
    gyre_report_put(script, " at graph 0, graph 1 left offset 0,0.6 textcolor rgb '#202124'\n");
    if (i == 0) {
        gyre_report_put(script, "set label ");
        gyre_report_put_gnuplot_string(script, p->title);
        gyre_report_printf(script, " at screen %d.0/%d, screen 1-24.0/%d left font ',16' textcolor rgb '#202124'\n", LEFT,
                           WIDTH, g->height);
    }
    gyre_report_put(script, lowest ? "set format x '%h'\nset xlabel " : "set format x ''\nset xlabel ");
    gyre_report_put_gnuplot_string(script, lowest ? p->x.label : "");
    gyre_report_put(script, " textcolor rgb '#3c4043' offset 0,0.4\n");
    gyre_report_put(script, column == 0 ? "set format y '%h'\nset ylabel " : "set format y ''\nset ylabel ");
    gyre_report_put_gnuplot_string(script, column == 0 ? p->y.label : "");
    gyre_report_printf(script, " textcolor rgb '#3c4043'\n%s\nplot $m%lld matrix using ", i ? "unset colorbox" : "",
                       (long long)i);
    put_mapping(script, &p->x, m->width, 1);
    gyre_report_put(script, ":");
    put_mapping(script, &p->y, m->height, 2);
    gyre_report_put(script, ":3 with image notitle\n");
}

gyre_status gyre_report_heatmap_grid_svg(const gyre_report_heatmap_grid *panels, char **out, gyre_error *err) {
    const gyre_status status = check(panels, err);
    if (status) return status;
    if (!out) return gyre_fail(err, GYRE_EINVAL, "panels: nowhere to put them (figure)");
    const gyre_report_range z = data_range_of(panels);
    if (z.low > z.high) return gyre_fail(err, GYRE_EINVAL, "panels: nothing finite to draw (figure)");
    const grid g = grid_of(panels);
    gyre_report_buffer script = {NULL, 0, 0, 0};
    put_data(&script, panels);
    gyre_report_put(&script,
                    "set border 15 linecolor rgb '#80868b' linewidth 0.8\nunset key\nset grid noxtics noytics\n"
                    "set tics nomirror out scale 0.5 textcolor rgb '#3c4043'\nset cbtics scale 0\n"
                    "set object 1 rectangle from graph 0, graph 0 to graph 1, graph 1 behind fillcolor rgb '#bdc1c6' "
                    "fillstyle solid noborder\n");
    put_colors(&script, panels, z, &g);
    gyre_report_put(&script, "set multiplot\n");
    for (int64_t i = 0; i < panels->maps_count; i++)
        put_map(&script, panels, &g, i);
    gyre_report_put(&script, "unset multiplot\n");
    const gyre_report_canvas canvas = {panels->title, WIDTH, g.height};
    const gyre_status drawn = gyre_report_gnuplot(&canvas, &script, out, err);
    gyre_report_buffer_free(&script);
    return drawn;
}
