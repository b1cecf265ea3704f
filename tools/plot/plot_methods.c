/* plot_methods.c: the angle of every pair at every distance, under each method, and how far it is past what training
 * showed. */
#include "tools/common/method_map.h"
#include "tools/plot/plot.h"
#include <math.h>
#include <stdlib.h>

enum { COLUMN_METHOD, COLUMN_PAIR, COLUMN_DISTANCE, COLUMN_ANGLE, COLUMN_RESULTANT, COLUMN_EXCESS, COLUMNS };
static const plot_column columns[] = {{"method", NULL}, {"pair", ""},           {"distance", "tokens"},
                                      {"angle", "rad"}, {"mean_resultant", ""}, {"excess", "arc"},
                                      {NULL, NULL}};
enum { MAP_COLUMNS = 192, FEW_PAIRS = 24 };

/* -- numbers -- */
/* inv_freq[points][pairs_shown] = the frequencies in each column of the map.  all: room for c->pairs. */
static gyre_status column_frequencies(const plot_case *c, int64_t points, double *all, double *inv_freq, gyre_error *err) {
    const double step = (double)(c->to - 1) / (double)(points - 1);
    const int64_t shown = plot_pairs_shown(c->pairs);
    gyre_status status = GYRE_OK;
    for (int64_t k = 0; k < points && !status; k++) {
        /* A method that follows the length has, at a distance from the first token, read that far. */
        const int64_t distance = llround((double)k * step);
        if (k == 0 || c->follows_length)
            status = plot_case_frequencies(c, c->follows_length ? distance + 1 : c->to, all, err);
        for (int64_t i = 0; i < shown && !status; i++)
            inv_freq[k * shown + i] = all[plot_pair_shown(c->pairs, i)];
    }
    return status;
}

static gyre_status add_case(plot_table *t, const plot_case *c, int64_t points, gyre_error *err) {
    const double step = (double)(c->to - 1) / (double)(points - 1), name = plot_table_label(t, c->label);
    const int64_t shown = plot_pairs_shown(c->pairs);
    double *all = cli_alloc(c->pairs + shown * points, sizeof *all), *inv_freq = all + c->pairs;
    const gyre_status status = column_frequencies(c, points, all, inv_freq, err);
    for (int64_t i = 0; i < shown && !status; i++)
        for (int64_t k = 0; k < points; k++) {
            const int64_t p = plot_pair_shown(c->pairs, i);
            const double distance = (double)llround((double)k * step), rate = inv_freq[k * shown + i];
            plot_table_add(t, (double[COLUMNS]){name, (double)p, distance, plot_wrap(distance * rate),
                                                method_map_resultant(rate, step), plot_excess(c, p, distance * rate)});
        }
    free(all);
    return status;
}

static gyre_status compute(plot_work *w, gyre_error *err) {
    plot_case cases[PLOT_CASES];
    int count = 0;
    plot_table *t = &w->table;
    plot_table_columns(t, columns);
    gyre_status status = plot_cases_make(w->options, w->subjects, w->subjects_count, "none,linear,ntk,dynamic,by-parts,yarn",
                                         cases, &count, err);
    if (status) return status;
    const plot_case *c = &cases[0];
    char some[PLOT_PAIRS_TEXT];
    snprintf(t->title, sizeof t->title, "Angles of %s, trained on %lld tokens, read up to %lld (base %g)",
             plot_pairs_text(c->pairs, some), (long long)c->trained, (long long)c->to, c->subject->config.rope.base);
    for (int i = 0; i < count && !status; i++)
        status = add_case(t, &cases[i], w->options->points ? w->options->points : MAP_COLUMNS, err);
    plot_cases_free(cases, count);
    return status;
}

/* -- the figure -- */
static void put_pixel(plot_script *s, double x, double y, int color) {
    fprintf(s->file, "%.9g %.9g %d %d %d\n", x, y, color >> 16, color >> 8 & 255, color & 255);
}

/* The rows of a map.  Those of a head of many pairs are several pairs high: images need rows of one height. */
typedef struct map_rows {
    int64_t points, rows;
    double height; /* in pairs; 1 where all are shown */
} map_rows;

static map_rows rows_of(const plot_table *t, int64_t first, int64_t end) {
    const int64_t points = plot_table_group_end(t, first, COLUMN_PAIR) - first, rows = (end - first) / points;
    return (map_rows){points, rows, rows > 1 ? plot_table_number(t, end - 1, COLUMN_PAIR) / (double)(rows - 1) : 1};
}

/* x, y, size and colour of a mark: from small and yellow just past the trained arc to large and red a whole arc past it. */
static void put_dot(plot_script *s, double x, double y, double excess) {
    fprintf(s->file, "%.9g %.9g %.3g %d\n", x, y, 0.14 + 0.36 * gyre_report_excess_strength(excess),
            gyre_report_excess_color(excess));
}

static void put_map(plot_script *s, const plot_table *t, int index, int64_t first, int64_t end) {
    const map_rows m = rows_of(t, first, end);
    fprintf(s->file, "$map%d << EOD\n", index);
    for (int64_t r = first; r < end; r++) {
        const int64_t row = (r - first) / m.points;
        put_pixel(s, plot_table_number(t, r, COLUMN_DISTANCE), (double)row * m.height,
                  gyre_report_angle_color(plot_table_number(t, r, COLUMN_ANGLE), plot_table_number(t, r, COLUMN_RESULTANT)));
    }
    fputs("EOD\n", s->file);
    /* Cells past the trained arc: a dot on every few of them, larger and darker the further past it they are.  Few pairs are
     * high enough for a dot each. */
    const int64_t every = m.rows <= FEW_PAIRS ? 1 : 3;
    fprintf(s->file, "$past%d << EOD\nNaN NaN NaN NaN\n", index);
    for (int64_t r = first; r < end; r++) {
        const int64_t column = (r - first) % m.points, row = (r - first) / m.points;
        const double excess = plot_table_number(t, r, COLUMN_EXCESS);
        if (!(excess > 0) || row % every != every / 2 || column % 6 != (row / every % 2) * 3) continue;
        put_dot(s, plot_table_number(t, r, COLUMN_DISTANCE), (double)row * m.height, excess);
    }
    fputs("EOD\n", s->file);
}

/* What the dots mean, beside the colours of angles. */
static void put_excess_scale(plot_script *s, plot_box box) {
    static const double excesses[] = {0.05, 0.25, 0.5, 1};
    fputs("$dots << EOD\n", s->file);
    for (int i = 0; i < 4; i++)
        put_dot(s, i, 0, excesses[i]);
    fputs("EOD\n", s->file);
    plot_box_begin(s, box);
    plot_label(s, 'x', "past the arc that training showed, in arcs");
    fputs("set border 0\nunset grid\nunset ytics\nset xtics ('0.05' 0, '0.25' 1, '0.5' 2, '1 or more' 3) scale 0\n"
          "set xrange [-0.5:3.5]\nset yrange [-1:1]\nplot $dots using 1:2:3:4 with points pointtype 7 pointsize variable "
          "linecolor rgb variable notitle\nset border 3\n",
          s->file);
}

static void put_scale(plot_script *s, plot_box box) {
    fputs("$scale << EOD\n", s->file);
    for (int i = 0; i <= 120; i++)
        for (int row = 0; row < 2; row++) {
            const double angle = (i - 60) * 3.141592653589793 / 60;
            put_pixel(s, angle, row, gyre_report_angle_color(angle, 1));
        }
    fputs("EOD\n", s->file);
    plot_box_begin(s, box);
    plot_label(s, 'x', "angle between query and key (rad); grey: too fast to draw");
    fputs("unset ytics\nset xtics ('-π' -pi, '-π/2' -pi/2, '0' 0, 'π/2' pi/2, 'π' pi)\nset xrange [-pi:pi]\n"
          "set yrange [-0.5:1.5]\nplot $scale using 1:2:3:4:5 with rgbimage notitle\n",
          s->file);
}

static void draw(const plot_work *w, plot_script *s) {
    const plot_table *t = &w->table;
    const int count = plot_table_groups(t, COLUMN_METHOD), across = count < 3 ? count : count == 4 ? 2 : 3;
    const int rows = (count + across - 1) / across, bottom = 84;
    const double trained = (double)w->subjects[0].trained;
    plot_script_start(s, 1040, 44 + 230 * rows + bottom, t->title);
    int64_t first = 0;
    for (int i = 0; i < count; i++) {
        const int64_t end = plot_table_group_end(t, first, COLUMN_METHOD);
        const double length = plot_table_number(t, end - 1, COLUMN_DISTANCE) + 1;
        plot_script grid = {.width = s->width, .height = s->height - bottom};
        plot_box box = plot_grid(&grid, i, count, across);
        const double scale = (double)grid.height / s->height;
        box.bottom = 1 - (1 - box.bottom) * scale;
        box.top = 1 - (1 - box.top) * scale;
        put_map(s, t, i, first, end);
        plot_box_begin(s, box);
        plot_panel_title(s, plot_table_text(t, first, COLUMN_METHOD));
        if (i / across == rows - 1) plot_label(s, 'x', "distance from query to key (tokens)");
        if (i % across == 0) plot_label(s, 'y', "pair of channels");
        const double half = rows_of(t, first, end).height / 2;
        fprintf(s->file, "set xrange [0:%.9g]\nset yrange [%.9g:%.9g]\n", length,
                plot_table_number(t, end - 1, COLUMN_PAIR) + half, -half); /* the fastest pair is on top */
        plot_ticks_of_tokens(s, length);
        fprintf(s->file,
                "unset grid\nset arrow from %.9g, graph 0 to %.9g, graph 1 nohead front linewidth 2 linecolor rgb "
                "'#000000' dashtype (8,5)\n",
                trained, trained);
        fprintf(s->file,
                "plot $map%d using 1:2:3:4:5 with rgbimage notitle, $past%d using 1:2:3:4 with points pointtype 7 pointsize "
                "variable linecolor rgb variable notitle\n",
                i, i);
        first = end;
    }
    put_scale(s, (plot_box){0.08, 0.48, 56.0 / s->height, 72.0 / s->height});
    put_excess_scale(s, (plot_box){0.6, 0.92, 56.0 / s->height, 72.0 / s->height});
}

const plot_kind plot_methods = {"methods",
                                "the angle of each pair at each distance under each method, and how far past training it is",
                                PLOT_TAKES_SUBJECT,
                                1,
                                PLOT_OPTIONS_STRETCH | PLOT_OPTION_POINTS,
                                compute,
                                draw};
