/* plot_turns.c: e^(i m theta) of some pairs over the positions m (helix --axis position): a curve in space with the position
 * as third axis, its projections, and the angle before it is wrapped. */
#include "gyre/gyre_fields.h"
#include "tools/plot/plot.h"
#include <math.h>

enum { COLUMN_PAIR, COLUMN_POSITION, COLUMN_ANGLE, COLUMN_COSINE, COLUMN_SINE, COLUMN_WHOLE, COLUMNS };
/* Between the positions m is continued, so that the curve can be followed. */
static const plot_column columns[] = {{"pair", ""}, {"position", "tokens"}, {"angle", "rad"}, {"cos", ""},
                                      {"sin", ""},  {"is_token", ""},       {NULL, NULL}};
enum { STEPS = 12, POSITIONS = 64, MOST_POSITIONS = 512, ROWS = 4, ROW_HEIGHT = 230, HEAD = 52, FOOT = 26, WIDTH = 1120 };
static const double TURN = 6.283185307179586, POINT_SIZE = 0.35;

gyre_status plot_turns_compute(plot_work *w, gyre_error *err) {
    const plot_options *o = w->options;
    const gyre_config *config = &w->subjects[0].config;
    const double base = config->rope.base > 0 ? config->rope.base : 10000;
    const int64_t dim = config->rope.dim ? config->rope.dim : config->head_dim, pairs = dim / 2;
    const int64_t last = o->position >= 0 ? o->position : POSITIONS, rows = pairs < ROWS ? pairs : ROWS;
    plot_table *t = &w->table;
    if (o->bases_count)
        return gyre_fail(err, GYRE_EINVAL, "bases: curves by position have one base; give --base (plot helix)");
    if (!gyre_kind_has(config->kind, GYRE_TRAIT_ROTATES))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "positions: %s does not rotate, so there are no angles (%s)",
                         gyre_kind_name(config->kind), w->subjects[0].label);
    if (last < 1 || last > MOST_POSITIONS)
        return gyre_fail(err, GYRE_EINVAL, "position: %lld; curves by position end at 1 to %d (plot helix)", (long long)last,
                         MOST_POSITIONS);
    plot_table_columns(t, columns);
    snprintf(t->title, sizeof t->title, "Pairs turn with the position: e^(i m θ), m = 0 to %lld, base %.15g",
             (long long)last, base);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t pair = pairs < 2 * ROWS ? r : r * (pairs / (2 * ROWS)); /* of the fast half, whose curves turn */
        const double theta = pow(base, -2 * (double)pair / (double)dim);
        for (int64_t k = 0; k <= last * STEPS; k++) {
            const double position = (double)k / STEPS, angle = position * theta;
            plot_table_add(t, (double[COLUMNS]){(double)pair, position, angle, cos(angle), sin(angle), k % STEPS == 0});
        }
    }
    return GYRE_OK;
}

/* -- the figure -- */
static void draw_space(plot_script *s, const char *rows, double bottom, double height, double last, const char *color) {
    plot_box_begin(s, (plot_box){0, 1, 0, 1});
    fprintf(s->file,
            "unset lmargin\nunset rmargin\nunset tmargin\nunset bmargin\nset origin 0.09,%.4f\nset size 0.33,%.4f\n"
            "set border 4095 linecolor rgb '#bdc1c6'\nset view 68,24,1.25,1.25\nset xyplane relative 0\n"
            "set xrange [0:%.9g]\nset yrange [-1:1]\nset zrange [-1:1]\nset xtics offset 0,-0.3\nset ytics (-1,1) offset "
            "-0.2,-0.3\n"
            "set ztics (-1,1)\n",
            bottom - 40.0 / s->height, height + 10.0 / s->height, last);
    plot_helix_curve(s, rows, &(plot_helix_columns){"2", "4", "5"}, POINT_SIZE, color);
    fputs("set border 3 linecolor rgb '#5f6368'\nset origin 0,0\nset size 1,1\n", s->file);
}

/* Whether a row of panels is the first, which has titles, and the last, which has the name of the axis. */
typedef struct row_place {
    int first, last;
} row_place;

static void put_words(plot_script *s, row_place place, const char *title) {
    if (place.first) fprintf(s->file, "set title '%s' offset 0,-0.4 font ',11' textcolor rgb '#202124'\n", title);
    if (place.last) fputs("set xlabel 'position (tokens)' textcolor rgb '#3c4043' font ',12' offset 0,-0.1\n", s->file);
}

/* Cosine and sine by position, the sine dashed. */
static void draw_waves(plot_script *s, const char *rows, plot_box box, row_place place, const char *color) {
    plot_box_begin(s, box);
    put_words(s, place, "cos, from above; sin, from the side (dashed)");
    fprintf(s->file,
            "set yrange [-1.1:1.1]\nset ytics (-1,0,1)\nplot $all every %s using 2:4 with lines linewidth 1.4 linecolor rgb "
            "'%s' notitle, $all every %s using 2:5 with lines dashtype 2 linewidth 1.4 linecolor rgb '%s' notitle\n",
            rows, color, rows, color);
}

/* The angle as it grows, and within one turn, where it begins again. */
static void draw_angle(plot_script *s, const char *rows, plot_box box, row_place place, const char *color) {
    plot_box_begin(s, box);
    put_words(s, place, "turns (grey: without whole turns)");
    fprintf(s->file,
            "set yrange [0:*]\nplot $all every %s using 2:($6 == 1 ? $3 / %.15g - floor($3 / %.15g) : NaN) with points "
            "pointtype "
            "7 pointsize 0.3 linecolor rgb '#80868b' notitle, $all every %s using 2:($3 / %.15g) with lines linewidth 1.4 "
            "linecolor rgb '%s' notitle\n",
            rows, TURN, TURN, rows, TURN, color);
}

static void draw_row(const plot_table *t, plot_script *s, const plot_group *g, int count) {
    const double height = (1.0 - (double)(HEAD + FOOT) / s->height) / count;
    const double top = 1 - (double)HEAD / s->height - g->index * height, bottom = top - height + 44.0 / s->height;
    const double pair = plot_table_number(t, g->first, COLUMN_PAIR),
                 theta = plot_table_number(t, g->first + STEPS, COLUMN_ANGLE);
    const char *color = plot_color(gyre_report_look_at(g->index));
    const row_place place = {g->index == 0, g->index == count - 1};
    char rows[64];
    snprintf(rows, sizeof rows, "::%lld::%lld", (long long)g->first, (long long)g->end - 1);
    draw_space(s, rows, bottom, height, plot_table_number(t, g->end - 1, COLUMN_POSITION), color);
    plot_box circle = {0.44, 0.56, bottom, top - 26.0 / s->height};
    plot_box_begin(s, circle);
    fprintf(s->file,
            "set label 'pair %.0f' at screen 0.012, screen %.4f left font ',14' textcolor rgb '%s'\n"
            "set label 'θ = %.3g' at screen 0.012, screen %.4f left font ',12' textcolor rgb '#3c4043'\n"
            "set label 'a turn in' at screen 0.012, screen %.4f left font ',12' textcolor rgb '#3c4043'\n"
            "set label '%.3g tokens' at screen 0.012, screen %.4f left font ',12' textcolor rgb '#3c4043'\n",
            pair, top - 26.0 / s->height, color, theta, top - 48.0 / s->height, top - 66.0 / s->height, TURN / theta,
            top - 84.0 / s->height);
    if (g->index == 0) plot_panel_title(s, "from the end");
    fputs("set xrange [-1.1:1.1]\nset yrange [-1.1:1.1]\nset xtics (-1,0,1)\nset ytics (-1,0,1)\nset size ratio -1\n",
          s->file);
    plot_helix_curve(s, rows, &(plot_helix_columns){"4", "5", NULL}, POINT_SIZE, color);
    fputs("set size noratio\n", s->file);
    draw_waves(s, rows, (plot_box){0.61, 0.79, circle.bottom, circle.top}, place, color);
    draw_angle(s, rows, (plot_box){0.835, 0.985, circle.bottom, circle.top}, place, color);
}

void plot_turns_draw(const plot_work *w, plot_script *s) {
    const plot_table *t = &w->table;
    const int count = plot_table_groups(t, COLUMN_PAIR);
    plot_script_start(s, WIDTH, HEAD + ROW_HEIGHT * count + FOOT, t->title);
    plot_data(s, t, "all", 0, t->rows);
    for (plot_group g = {0}; plot_group_next(t, COLUMN_PAIR, &g);)
        draw_row(t, s, &g, count);
}
