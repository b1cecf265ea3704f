/* plot_helix.c: e^(i m theta) of one position over all pairs: a curve in space with the pair as third axis, and its three
 * projections. */
#include "gyre/gyre_fields.h"
#include "tools/plot/plot.h"
#include <math.h>

enum { COLUMN_BASE, COLUMN_PAIR, COLUMN_ANGLE, COLUMN_COSINE, COLUMN_SINE, COLUMN_WHOLE, COLUMNS };
/* Between the pairs theta is continued, base^(-2 i / dim), so that the curve can be followed. */
static const plot_column columns[] = {{"base", NULL}, {"pair", ""},    {"angle", "rad"}, {"cos", ""},
                                      {"sin", ""},    {"is_pair", ""}, {NULL, NULL}};
enum { STEPS = 24, POSITION = 32 };

/* STEPS of them from one pair that is shown to the next. */
static double pair_at(int64_t pairs, int64_t step) {
    const int64_t from = plot_pair_shown(pairs, step / STEPS), part = step % STEPS;
    const int64_t width = part ? plot_pair_shown(pairs, step / STEPS + 1) - from : 1;
    return width == 1 ? (double)(from * STEPS + part) / STEPS : (double)from + (double)(part * width) / STEPS;
}

static gyre_status compute(plot_work *w, gyre_error *err) {
    static const double usual[] = {1e4, 5e5, 1e6};
    const plot_options *o = w->options;
    if (o->axis == PLOT_AXIS_POSITION) return plot_turns_compute(w, err);
    const gyre_config *config = &w->subjects[0].config;
    const int own = o->files_count > 0 || o->base > 0;
    const double base_of_model = config->rope.base > 0 ? config->rope.base : 10000;
    const int count = o->bases_count ? o->bases_count : own ? 1 : 3;
    const double *bases = o->bases_count ? o->bases : own ? &base_of_model : usual;
    const int64_t dim = config->rope.dim ? config->rope.dim : config->head_dim;
    const double position = o->position >= 0 ? (double)o->position : POSITION;
    plot_table *t = &w->table;
    char some[PLOT_PAIRS_TEXT];
    if (!gyre_kind_has(config->kind, GYRE_TRAIT_ROTATES))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "positions: %s does not rotate, so there are no angles (%s)",
                         gyre_kind_name(config->kind), w->subjects[0].label);
    plot_table_columns(t, columns);
    snprintf(t->title, sizeof t->title, "Position %.0f as RoPE writes it: e^(i m θ) over %s, m = %.0f", position,
             plot_pairs_text(dim / 2, some), position);
    for (int b = 0; b < count; b++) {
        char label[PLOT_LABEL];
        snprintf(label, sizeof label, "base %.15g", bases[b]);
        const double name = plot_table_label(t, label);
        for (int64_t k = 0; k <= (plot_pairs_shown(dim / 2) - 1) * STEPS; k++) {
            const double pair = pair_at(dim / 2, k), angle = position * pow(bases[b], -2 * pair / (double)dim);
            plot_table_add(t, (double[COLUMNS]){name, pair, angle, cos(angle), sin(angle), k % STEPS == 0});
        }
    }
    return GYRE_OK;
}

/* -- the figure -- */
void plot_helix_curve(plot_script *s, const char *rows, const plot_helix_columns *of, double point_size, const char *color) {
    const char *x = of->x, *y = of->y, *z = of->z;
    fprintf(s->file, "%s $all every %s using %s:%s", z ? "splot" : "plot", rows, x, y);
    if (z) fprintf(s->file, ":%s", z);
    fprintf(s->file, " with lines linewidth 1.1 linecolor rgb '%s' notitle, $all every %s using %s:($6 == 1 ? $%s : NaN)",
            color, rows, x, y);
    if (z) fprintf(s->file, ":%s", z);
    fprintf(s->file, " with points pointtype 7 pointsize %g linecolor rgb '%s' notitle\n", point_size, color);
}

static void draw_row(const plot_table *t, plot_script *s, int index, int count, int64_t first, int64_t end) {
    const double height = (1.0 - 52.0 / s->height) / count, top = 1 - 52.0 / s->height - index * height;
    const double bottom = top - height + 52.0 / s->height, last = plot_table_number(t, end - 1, COLUMN_PAIR);
    const char *color = plot_color(gyre_report_look_at(index));
    char rows[64];
    snprintf(rows, sizeof rows, "::%lld::%lld", (long long)first, (long long)end - 1);
    /* In space: no box of axes but the pair's. */
    plot_box_begin(s, (plot_box){0, 1, 0, 1});
    fprintf(s->file, "set label '%s' at screen 0.015, screen %.4f left font ',14' textcolor rgb '%s'\n",
            plot_table_text(t, first, COLUMN_BASE), top - 14.0 / s->height, color);
    fprintf(s->file,
            "unset lmargin\nunset rmargin\nunset tmargin\nunset bmargin\nset origin 0.015,%.4f\nset size 0.345,%.4f\n"
            "set border 4095 linecolor rgb '#bdc1c6'\nset view 68,24,1.25,1.25\nset xyplane at 0\nset xrange [0:%.9g]\nset "
            "yrange [-1:1]\nset zrange [-1:1]\nset xyplane relative 0\n"
            "set xtics 16 offset 0,-0.3\nset ytics (-1,1) offset -0.2,-0.3\nset ztics (-1,1)\nset xlabel ''\nset ylabel ''\n"
            "set zlabel ''\nset label 'pair' at screen 0.12, screen %.4f center font ',12' textcolor rgb '#3c4043'\n"
            "set label 'cos' at screen 0.305, screen %.4f center font ',12' textcolor rgb '#3c4043'\n"
            "set label 'sin' at screen 0.008, screen %.4f left font ',12' textcolor rgb '#3c4043'\n",
            bottom - 40.0 / s->height, height + 10.0 / s->height, last, bottom - 28.0 / s->height, bottom - 4.0 / s->height,
            (bottom + top) / 2);
    plot_helix_curve(s, rows, &(plot_helix_columns){"2", "4", "5"}, 0.5, color);
    fputs("set border 3 linecolor rgb '#5f6368'\nset zlabel ''\nset origin 0,0\nset size 1,1\n", s->file);
    static const struct {
        double left, right;
        const char *title, *x, *y, *column_x, *column_y;
    } views[] = {{0.395, 0.535, "along the pairs", "cos", "sin", "4", "5"},
                 {0.605, 0.775, "from above", "pair of channels", "cos", "2", "4"},
                 {0.83, 0.985, "from the side", "pair of channels", "sin", "2", "5"}};
    for (int v = 0; v < 3; v++) {
        plot_box_begin(s, (plot_box){views[v].left, views[v].right, bottom, top - 22.0 / s->height});
        if (index == 0) plot_panel_title(s, views[v].title);
        if (index == count - 1 || v == 0) plot_label(s, 'x', views[v].x);
        plot_label(s, 'y', views[v].y);
        fprintf(s->file, "set yrange [-1.1:1.1]\nset ytics (-1,0,1)\n%s\n",
                v == 0 ? "set xrange [-1.1:1.1]\nset xtics (-1,0,1)\nset size ratio -1" : "set size noratio\nset xtics 16");
        if (v) fprintf(s->file, "set xrange [0:%.9g]\n", last);
        plot_helix_curve(s, rows, &(plot_helix_columns){views[v].column_x, views[v].column_y, NULL}, 0.5, color);
        fputs("set size noratio\n", s->file);
    }
}

static void draw(const plot_work *w, plot_script *s) {
    const plot_table *t = &w->table;
    if (w->options->axis == PLOT_AXIS_POSITION) {
        plot_turns_draw(w, s);
        return;
    }
    const int count = plot_table_groups(t, COLUMN_BASE);
    plot_script_start(s, 1120, 52 + 250 * count, t->title);
    plot_data(s, t, "all", 0, t->rows);
    int index = 0;
    for (int64_t first = 0, end; first < t->rows; first = end, index++) {
        end = plot_table_group_end(t, first, COLUMN_BASE);
        draw_row(t, s, index, count, first, end);
    }
}

const plot_kind plot_helix = {
    "helix", "e^(i m theta) in space, the pair or the position as third axis, and its projections", PLOT_TAKES_SUBJECT,
    1,       PLOT_OPTIONS_ROTATION | PLOT_OPTION_BASES | PLOT_OPTION_POSITION | PLOT_OPTION_AXIS,   compute,
    draw};
