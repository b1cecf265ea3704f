/* plot_methods.c: the angle of every pair at every position, under each method, and which angles training never showed. */
#include "tools/plot/plot.h"
#include <math.h>
#include <stdlib.h>

enum { COLUMN_METHOD, COLUMN_PAIR, COLUMN_POSITION, COLUMN_ANGLE, COLUMN_RESULTANT, COLUMN_SEEN, COLUMNS };
static const plot_column columns[] = {{"method", NULL}, {"pair", ""},           {"position", "tokens"},
                                      {"angle", "rad"}, {"mean_resultant", ""}, {"is_seen", ""},
                                      {NULL, NULL}};
enum { MAP_COLUMNS = 192, FEW_PAIRS = 24 };

/* -- numbers -- */
/* out = the length of the mean of e^(i angle) over `width` tokens: 1 where they point alike, 0 where they point all ways. */
static double mean_resultant(double inv_freq, double width) {
    const double half = inv_freq * width / 2;
    return half > 1e-8 ? fabs(sin(half) / half) : 1;
}

/* inv_freq[points][pairs_shown] = the frequencies in each column of the map.  all: room for c->pairs. */
static gyre_status column_frequencies(const plot_case *c, int64_t points, double *all, double *inv_freq, gyre_error *err) {
    const double step = (double)(c->to - 1) / (double)(points - 1);
    const int64_t shown = plot_pairs_shown(c->pairs);
    gyre_status status = GYRE_OK;
    for (int64_t k = 0; k < points && !status; k++) {
        /* A method that follows the length has, at a position, read that far. */
        const int64_t position = llround((double)k * step);
        if (k == 0 || c->follows_length)
            status = plot_case_frequencies(c, c->follows_length ? position + 1 : c->to, all, err);
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
            const double position = (double)llround((double)k * step), rate = inv_freq[k * shown + i];
            const double angle = plot_wrap(position * rate);
            plot_table_add(t, (double[COLUMNS]){name, (double)p, position, angle, mean_resultant(rate, step),
                                                plot_is_seen(c, p, position * rate)});
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
typedef struct ink {
    double part[3];
} ink;

static ink mix(ink a, ink b, double by) {
    for (int i = 0; i < 3; i++)
        a.part[i] += (b.part[i] - a.part[i]) * by;
    return a;
}

/* A circle of colours: light at 0, dark at pi; blue on one side and orange on the other.  Its lightness is |angle|, so it
 * is read in grey too.  Grey where the tokens of a cell point all ways. */
static ink angle_ink(double angle, double resultant) {
    static const ink light = {{252, 252, 250}}, dark = {{38, 24, 54}}, grey = {{176, 178, 181}};
    static const ink hue[2] = {{{64, 145, 201}}, {{226, 136, 44}}};
    const double far = fabs(angle) / 3.141592653589793;
    const ink *middle = &hue[angle < 0];
    const ink pure = far < 0.5 ? mix(light, *middle, 2 * far) : mix(*middle, dark, 2 * far - 1);
    return mix(grey, pure, fmin(1, resultant * resultant * 1.6));
}

static void put_pixel(plot_script *s, double x, double y, ink c) {
    fprintf(s->file, "%.9g %.9g %.0f %.0f %.0f\n", x, y, c.part[0], c.part[1], c.part[2]);
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

static void put_map(plot_script *s, const plot_table *t, int index, int64_t first, int64_t end) {
    const map_rows m = rows_of(t, first, end);
    fprintf(s->file, "$map%d << EOD\n", index);
    for (int64_t r = first; r < end; r++) {
        const int64_t row = (r - first) / m.points;
        put_pixel(s, plot_table_number(t, r, COLUMN_POSITION), (double)row * m.height,
                  angle_ink(plot_table_number(t, r, COLUMN_ANGLE), plot_table_number(t, r, COLUMN_RESULTANT)));
    }
    fputs("EOD\n", s->file);
    /* Unseen cells: a mark on every few of them.  Few pairs are high enough for a mark each. */
    const int64_t every = m.rows <= FEW_PAIRS ? 1 : 3;
    fprintf(s->file, "$unseen%d << EOD\nNaN NaN\n", index);
    for (int64_t r = first; r < end; r++) {
        const int64_t column = (r - first) % m.points, row = (r - first) / m.points;
        if (plot_table_number(t, r, COLUMN_SEEN) == 0 && row % every == every / 2 && column % 6 == (row / every % 2) * 3)
            fprintf(s->file, "%.9g %.9g\n", plot_table_number(t, r, COLUMN_POSITION), (double)row * m.height);
    }
    fputs("EOD\n", s->file);
}

static void put_scale(plot_script *s, plot_box box) {
    fputs("$scale << EOD\n", s->file);
    for (int i = 0; i <= 120; i++)
        for (int row = 0; row < 2; row++) {
            const double angle = (i - 60) * 3.141592653589793 / 60;
            put_pixel(s, angle, row, angle_ink(angle, 1));
        }
    fputs("EOD\n", s->file);
    plot_box_begin(s, box);
    plot_label(s, 'x', "angle (rad), wrapped; grey: too fast to draw   × an angle that training never showed");
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
        const double length = plot_table_number(t, end - 1, COLUMN_POSITION) + 1;
        plot_script grid = {.width = s->width, .height = s->height - bottom};
        plot_box box = plot_grid(&grid, i, count, across);
        const double scale = (double)grid.height / s->height;
        box.bottom = 1 - (1 - box.bottom) * scale;
        box.top = 1 - (1 - box.top) * scale;
        put_map(s, t, i, first, end);
        plot_box_begin(s, box);
        plot_panel_title(s, plot_table_text(t, first, COLUMN_METHOD));
        if (i / across == rows - 1) plot_label(s, 'x', "position (tokens)");
        if (i % across == 0) plot_label(s, 'y', "pair of channels");
        const double half = rows_of(t, first, end).height / 2;
        fprintf(s->file, "set xrange [0:%.9g]\nset yrange [%.9g:%.9g]\n", length, -half,
                plot_table_number(t, end - 1, COLUMN_PAIR) + half);
        plot_ticks_of_tokens(s, length);
        fprintf(s->file,
                "unset grid\nset arrow from %.9g, graph 0 to %.9g, graph 1 nohead front linewidth 2 linecolor rgb "
                "'#000000' dashtype (8,5)\n",
                trained, trained);
        fprintf(s->file,
                "plot $map%d using 1:2:3:4:5 with rgbimage notitle, $unseen%d using 1:2 with points pointtype 7 pointsize "
                "0.42 linecolor rgb '#ffffff' notitle, $unseen%d using 1:2 with points pointtype 2 pointsize "
                "0.42 linewidth 1.2 linecolor rgb '#000000' notitle\n",
                i, i, i);
        first = end;
    }
    put_scale(s, (plot_box){0.3, 0.7, 56.0 / s->height, 72.0 / s->height});
}

const plot_kind plot_methods = {"methods",
                                "the angle of each pair at each position under each method, wrapped; seen and unseen",
                                PLOT_TAKES_SUBJECT,
                                1,
                                PLOT_OPTIONS_STRETCH | PLOT_OPTION_POINTS,
                                compute,
                                draw};
