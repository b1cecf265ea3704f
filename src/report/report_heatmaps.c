/* report_heatmaps.c: heat maps in a grid with one colour scale. */
#include "report/report_internal.h"

#include <math.h>

enum {
    ROW_HEIGHT = 230,
    TITLE_HEIGHT = 44,
    FOOT_HEIGHT = 62,
    LEFT = 66,
    COLORBAR_WIDTH = 92,
    GAP = 26,
    NAME_HEIGHT = 30,
    TICK_WIDTH = 44, /* room for the label of a tick: 1024, 100% */
    TICK_HEIGHT = 22,
    MAX_WHOLE = 12, /* cells that are counted have a tick each */
    MAX_SPOTS = 16  /* columns and rows of a map that answer the pointer */
};

/* Diverging: ColorBrewer's RdBu reversed, white in the middle, safe for colour-blind readers.  Sequential: its YlGnBu.
 * Cosine: the lightness of the angles of gyre plot and of the explorer. */
static const char *const palettes[] = {
    "(0 '#2166ac', 1 '#67a9cf', 2 '#d1e5f0', 3 '#f7f7f7', 4 '#fddbc7', 5 '#ef8a62', 6 '#b2182b')",
    "(0 '#ffffd9', 1 '#c7e9b4', 2 '#7fcdbb', 3 '#41b6c4', 4 '#1d91c0', 5 '#225ea8', 6 '#0c2c84')",
    "(-1 '#261836', 0 '#b0b2b5', 1 '#fcfcfa')"};

static gyre_status check_axis(const gyre_report_axis *axis, const char *name, gyre_error *err) {
    if (axis->scale != GYRE_REPORT_SCALE_LINEAR)
        return gyre_fail(err, GYRE_EINVAL, "panels: the %s axis of a map is linear (figure)", name);
    return gyre_report_axis_check(axis, name, err);
}

gyre_status gyre_report_heatmap_check(const gyre_report_heatmap_grid *panels, gyre_error *err) {
    if (!panels || panels->size != sizeof *panels)
        return gyre_fail(err, GYRE_EINVAL, "panels: their size is not set by GYRE_REPORT_HEATMAP_GRID_INIT (figure)");
    if (panels->maps_count < 1 || !panels->maps) return gyre_fail(err, GYRE_EINVAL, "panels: no maps to draw (figure)");
    if (panels->maps_count > 100 || panels->columns < 0 || panels->columns > 10 ||
        (unsigned)panels->palette > GYRE_REPORT_PALETTE_COSINE)
        return gyre_fail(err, GYRE_EINVAL,
                         "panels: %lld maps (at most 100), columns %lld (10) or palette %d is out of range (figure)",
                         (long long)panels->maps_count, (long long)panels->columns, (int)panels->palette);
    for (int64_t i = 0; i < panels->maps_count; i++) {
        const gyre_report_heatmap *m = &panels->maps[i];
        if (m->width < 2 || m->height < 2 || !m->z || m->width > INT64_MAX / 8 / m->height)
            return gyre_fail(err, GYRE_EINVAL, "panels: map %lld is %lld x %lld cells, at least 2 x 2 are needed (figure)",
                             (long long)i, (long long)m->width, (long long)m->height);
        if ((panels->x_values && m->width != panels->maps[0].width) ||
            (panels->y_values && m->height != panels->maps[0].height))
            return gyre_fail(err, GYRE_EINVAL,
                             "panels: map %lld has another size than the first, whose values it shares (figure)",
                             (long long)i);
    }
    gyre_status status = check_axis(&panels->x, "x", err);
    if (!status) status = check_axis(&panels->y, "y", err);
    return status ? status : check_axis(&panels->z, "z", err);
}

/* -- layout -- */
typedef struct grid {
    const gyre_report_heatmap_grid *grid;
    int columns, rows, width, height, title_height, alone;
    double map_width;
} grid;

static grid grid_of(const gyre_report_heatmap_grid *p, int small, int alone) {
    const int64_t wanted = small ? 1 : p->columns ? p->columns : 3;
    grid g = {.grid = p, .alone = alone};
    g.width = small ? GYRE_REPORT_SMALL_WIDTH : GYRE_REPORT_WIDE_WIDTH;
    g.title_height = alone ? TITLE_HEIGHT : 0;
    g.columns = (int)(wanted < p->maps_count ? wanted : p->maps_count);
    g.rows = (int)((p->maps_count + g.columns - 1) / g.columns);
    g.height = g.title_height + g.rows * ROW_HEIGHT + FOOT_HEIGHT;
    g.map_width = (g.width - LEFT - COLORBAR_WIDTH - GAP * (g.columns - 1)) / (double)g.columns;
    return g;
}

/* Position of a map, as fractions of the picture from its lower left corner. */
static void put_position(gyre_report_buffer *script, const grid *g, int column, int row) {
    const double left = LEFT + column * (g->map_width + GAP), top = g->title_height + row * ROW_HEIGHT + NAME_HEIGHT;
    const double bottom = g->title_height + (row + 1) * ROW_HEIGHT - 6;
    const double margins[] = {left / g->width, (left + g->map_width) / g->width, 1 - top / g->height,
                              1 - bottom / g->height};
    static const char *const names[] = {"lmargin", "rmargin", "tmargin", "bmargin"};
    for (int i = 0; i < 4; i++) {
        gyre_report_printf(script, "set %s at screen ", names[i]);
        gyre_report_put_gnuplot_number(script, margins[i]);
        gyre_report_put(script, "\n");
    }
}

/* -- axes -- */
double gyre_report_cell_value(const gyre_report_axis *axis, const double *values, int64_t n, int64_t i) {
    if (values) return values[i];
    if (axis->low == axis->high) return (double)i;
    return n > 1 ? axis->low + (axis->high - axis->low) * (double)i / (double)(n - 1) : axis->low;
}

/* Ticks in the middle of cells, as many as have room.  gnuplot takes their text for a format. */
static void put_value_ticks(gyre_report_buffer *script, char letter, const double *values, int64_t count, const char *unit,
                            double room, int labels) {
    const int64_t fit = room > 1 ? (int64_t)room : 1, step = (count + fit - 1) / fit;
    char number[64], label[96];
    gyre_report_printf(script, "set %ctics (", letter);
    for (int64_t i = 0; i < count; i += step) {
        gyre_report_format_number(number, 'g', 6, values[i]);
        snprintf(label, sizeof label, "%s%s%s", number, unit && *unit == '%' ? "%" : "", unit ? unit : "");
        gyre_report_put(script, i ? ", " : "");
        gyre_report_put_gnuplot_string(script, labels ? label : "");
        gyre_report_printf(script, " %lld", (long long)i);
    }
    gyre_report_put(script, ")\n");
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
    gyre_report_put(script, " textcolor rgb '" GYRE_REPORT_INK_LABEL "'\nset colorbox vertical user origin screen ");
    gyre_report_put_gnuplot_number(script, (g->width - COLORBAR_WIDTH + 18.0) / g->width);
    gyre_report_put(script, ", screen ");
    gyre_report_put_gnuplot_number(script, ((g->rows - 1) * ROW_HEIGHT + FOOT_HEIGHT + 6.0) / g->height);
    gyre_report_put(script, " size screen ");
    gyre_report_put_gnuplot_number(script, 12.0 / g->width);
    gyre_report_put(script, ", screen ");
    /* As high as one row: a longer scale says no more. */
    gyre_report_put_gnuplot_number(script, (ROW_HEIGHT - NAME_HEIGHT - 6.0) / g->height);
    gyre_report_put(script, " noborder\n");
}

/* A gnuplot expression for where cell i of n is on an axis. */
static void put_mapping(gyre_report_buffer *script, const gyre_report_axis *axis, const double *values, int64_t cells,
                        int column) {
    const int named = !values && axis->low != axis->high;
    const double step = named && cells > 1 ? (axis->high - axis->low) / (double)(cells - 1) : 1;
    gyre_report_put(script, "(");
    gyre_report_put_gnuplot_number(script, named ? axis->low : 0);
    gyre_report_printf(script, "+$%d*", column);
    gyre_report_put_gnuplot_number(script, step);
    gyre_report_put(script, ")");
}

/* Extends the range to the outer edges of the first and last cell. */
static void put_range(gyre_report_buffer *script, char letter, const gyre_report_axis *axis, const double *values,
                      int64_t cells) {
    const int named = !values && axis->low != axis->high;
    const double low = named ? axis->low : 0, high = named && cells > 1 ? axis->high : low + (double)(cells - 1);
    const double half = cells > 1 ? (high - low) / (double)(cells - 1) / 2 : 0.5;
    gyre_report_printf(script, "set %crange [", letter);
    gyre_report_put_gnuplot_number(script, low - half);
    gyre_report_put(script, ":");
    gyre_report_put_gnuplot_number(script, high + half);
    gyre_report_put(script, "]\n");
}

/* labels: 1 on the outer maps, which have ticks with numbers and a label. */
static void put_map_axis(gyre_report_buffer *script, const grid *g, char letter, int64_t cells, int labels) {
    const gyre_report_heatmap_grid *p = g->grid;
    const int is_x = letter == 'x';
    const gyre_report_axis *axis = is_x ? &p->x : &p->y;
    const double *values = is_x ? p->x_values : p->y_values;
    put_range(script, letter, axis, values, cells);
    if (values)
        put_value_ticks(script, letter, values, cells, is_x ? p->x_unit : p->y_unit,
                        is_x ? g->map_width / TICK_WIDTH : (double)ROW_HEIGHT / TICK_HEIGHT, labels);
    else if (axis->high - axis->low == (double)(cells - 1) && cells <= MAX_WHOLE)
        gyre_report_printf(script, "set %ctics 1\n", letter);
    else
        gyre_report_printf(script, "set %ctics autofreq\n", letter);
    gyre_report_printf(script, labels ? "set format %c '%%h'\nset %clabel " : "set format %c ''\nset %clabel ", letter,
                       letter);
    gyre_report_put_gnuplot_string(script, labels ? axis->label : "");
    gyre_report_printf(script, " textcolor rgb '" GYRE_REPORT_INK_LABEL "'%s\n", is_x ? " offset 0,0.4" : "");
}

static void put_map(gyre_report_buffer *script, const grid *g, int64_t i) {
    const gyre_report_heatmap_grid *p = g->grid;
    const gyre_report_heatmap *m = &p->maps[i];
    const int column = (int)(i % g->columns), row = (int)(i / g->columns);
    put_position(script, g, column, row);
    put_map_axis(script, g, 'x', m->width, i + g->columns >= p->maps_count);
    put_map_axis(script, g, 'y', m->height, column == 0);
    gyre_report_put(script, "unset label\nset label ");
    gyre_report_put_gnuplot_string(script, m->name);
    gyre_report_put(script, " at graph 0, graph 1 left offset 0,0.6 textcolor rgb '" GYRE_REPORT_INK_TEXT "'\n");
    if (i == 0 && g->alone) {
        gyre_report_put(script, "set label ");
        gyre_report_put_gnuplot_string(script, p->title);
        gyre_report_printf(script,
                           " at screen %d.0/%d, screen 1-24.0/%d left font ',16' textcolor rgb '" GYRE_REPORT_INK_TEXT "'\n",
                           LEFT, g->width, g->height);
    }
    if (p->x_marker != 0 && !p->x_values) {
        gyre_report_put(script, "unset arrow\nset arrow from first ");
        gyre_report_put_gnuplot_number(script, p->x_marker);
        gyre_report_put(script, ", graph 0 to first ");
        gyre_report_put_gnuplot_number(script, p->x_marker);
        gyre_report_put(script,
                        ", graph 1 nohead linewidth 1.4 linecolor rgb '" GYRE_REPORT_INK_TEXT "' dashtype (6,5) front\n");
    }
    gyre_report_printf(script, "%s\nplot $m%lld matrix using ", i ? "unset colorbox" : "", (long long)i);
    put_mapping(script, &p->x, p->x_values, m->width, 1);
    gyre_report_put(script, ":");
    put_mapping(script, &p->y, p->y_values, m->height, 2);
    gyre_report_put(script, ":3 with image notitle\n");
}

/* -- hints -- */
static void hint_grid(const void *ctx, int64_t map, int64_t *columns, int64_t *rows) {
    const grid *g = ctx;
    if (map >= g->grid->maps_count) return;
    const gyre_report_heatmap *m = &g->grid->maps[map];
    *columns = m->width < MAX_SPOTS ? m->width : MAX_SPOTS;
    *rows = m->height < MAX_SPOTS ? m->height : MAX_SPOTS;
}

static void put_hint_value(gyre_report_buffer *out, const char *label, double value, const char *unit) {
    char number[64] = "-";
    if (isfinite(value)) gyre_report_format_number(number, 'g', 4, value);
    gyre_report_put(out, "\n");
    gyre_report_put_sanitized(out, label);
    gyre_report_printf(out, "%s%s", label && *label ? ": " : "", number);
    gyre_report_put_sanitized(out, unit);
}

/* The value of the cell in the middle of the spot. */
static void put_hint(const void *ctx, int64_t map, int64_t spot_row, int64_t spot_column, gyre_report_buffer *out) {
    const grid *g = ctx;
    const gyre_report_heatmap_grid *p = g->grid;
    const gyre_report_heatmap *m = &p->maps[map];
    int64_t columns = 1, rows = 1;
    hint_grid(ctx, map, &columns, &rows);
    const int64_t column = (2 * spot_column + 1) * m->width / (2 * columns),
                  row = (2 * spot_row + 1) * m->height / (2 * rows);
    gyre_report_put_sanitized(out, m->name);
    put_hint_value(out, p->x.label, gyre_report_cell_value(&p->x, p->x_values, m->width, column), p->x_unit);
    put_hint_value(out, p->y.label, gyre_report_cell_value(&p->y, p->y_values, m->height, row), p->y_unit);
    put_hint_value(out, p->z.label, m->z[row * m->width + column], NULL);
}

/* -- pictures -- */
static gyre_status draw(gyre_report_plotter *plotter, const gyre_report_heatmap_grid *p, int small, int alone, char **out,
                        gyre_error *err) {
    const gyre_report_range z = data_range_of(p);
    if (z.low > z.high) return gyre_fail(err, GYRE_EINVAL, "panels: nothing finite to draw (figure)");
    const grid g = grid_of(p, small, alone);
    gyre_report_buffer script = {NULL, 0, 0, 0};
    put_data(&script, p);
    gyre_report_put(&script,
                    "set border 15 linecolor rgb '" GYRE_REPORT_INK_FRAME "' linewidth 0.8\nunset key\n"
                    "set grid noxtics noytics\nset tics nomirror out scale 0.5 textcolor rgb '" GYRE_REPORT_INK_LABEL
                    "'\nset cbtics scale 0\nset object 1 rectangle from graph 0, graph 0 to graph 1, graph 1 behind "
                    "fillcolor rgb '" GYRE_REPORT_INK_OTHER "' fillstyle solid noborder\n");
    put_colors(&script, p, z, &g);
    gyre_report_put(&script, "set multiplot\n");
    for (int64_t i = 0; i < p->maps_count; i++)
        put_map(&script, &g, i);
    gyre_report_put(&script, "unset multiplot\n");
    const gyre_report_canvas canvas = {.title = p->title,
                                       .width = g.width,
                                       .height = g.height,
                                       .alone = alone,
                                       .hint = put_hint,
                                       .ctx = &g,
                                       .hint_grid = hint_grid};
    const gyre_status drawn = gyre_report_gnuplot(plotter, &canvas, &script, out, err);
    gyre_report_buffer_free(&script);
    return drawn;
}

gyre_status gyre_report_heatmap_grid_svg(const gyre_report_heatmap_grid *panels, char **out, gyre_error *err) {
    const gyre_status status = gyre_report_heatmap_check(panels, err);
    if (status) return status;
    if (!out) return gyre_fail(err, GYRE_EINVAL, "panels: nowhere to put them (figure)");
    return draw(NULL, panels, 0, 1, out, err);
}

gyre_status gyre_report_heatmap_picture(gyre_report_plotter *plotter, const gyre_report_heatmap_grid *panels, int small,
                                        char **out, gyre_error *err) {
    const gyre_status status = gyre_report_heatmap_check(panels, err);
    return status ? status : draw(plotter, panels, small, 0, out, err);
}
