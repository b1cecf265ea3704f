/* plot_shift.c: PE(p + k) = M_k PE(p): the rows of a sinusoid, and one matrix that moves them all by k. */
#include "tools/common/variants.h"
#include "tools/plot/plot.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMN_PART, COLUMN_POSITION, COLUMN_ROW, COLUMN_COLUMN, COLUMN_VALUE, COLUMNS };
/* M_k has no position; a vector has no column, and lists the difference of M_k PE(p) from PE(p + k) as a separate part. */
static const plot_column columns[] = {{"part", NULL}, {"position", "tokens"}, {"row", ""},
                                      {"column", ""}, {"value", ""},          {NULL, NULL}};
enum { VECTORS = 6, DIM = 8, SHIFT = 5, MANY = 12, MOST_NAMED = 16, WIDTH = 1120, NAME_GAP = 6 };
static const int64_t positions[VECTORS] = {0, 1, 2, 3, 10, 100};

/* matrix = the columns of M_k, which are what it makes of the unit vectors. */
static gyre_status columns_of(const gyre_encoding *shift, int64_t k, int64_t dim, double *matrix, gyre_error *err) {
    double *units = cli_alloc(dim * dim, sizeof *units);
    for (int64_t c = 0; c < dim; c++)
        units[c * dim + c] = 1;
    const gyre_status status = shift_rows(shift, k, units, dim, matrix, NULL, err);
    free(units);
    return status;
}

static gyre_status compute(plot_work *w, gyre_error *err) {
    const plot_options *o = w->options;
    const int64_t dim = o->head_dim ? o->head_dim : DIM, k = o->position >= 0 ? o->position : SHIFT;
    const double base = o->base > 0 ? o->base : 10000;
    plot_table *t = &w->table;
    gyre_encoding *pe = NULL, *shift = NULL;
    double *matrix = cli_alloc((dim + 3) * dim, sizeof *matrix), worst = 0;
    double *const row = matrix + dim * dim, *const later = row + dim, *const product = later + dim;
    plot_table_columns(t, columns);
    const double part = plot_table_label(t, "M_k"), before = plot_table_label(t, "PE(p)");
    const double after = plot_table_label(t, "PE(p + k)"), off = plot_table_label(t, "M_k PE(p) - PE(p + k)");
    gyre_status status = sinusoid_create(&pe, dim, base, GYRE_SINUSOID_INTERLEAVED, err);
    if (!status) status = shift_create(&shift, dim, base, 1, 1, err);
    if (!status) status = columns_of(shift, k, dim, matrix, err);
    for (int64_t r = 0; r < dim && !status; r++)
        for (int64_t c = 0; c < dim; c++)
            plot_table_add(
                t, (double[COLUMNS]){part, (double)NAN, (double)r, (double)c, matrix[c * dim + r] + 0.0}); /* no -0 */
    for (int v = 0; v < VECTORS && !status; v++) {
        status = sinusoid_rows(pe, positions[v], 1, row, NULL, err);
        if (!status) status = sinusoid_rows(pe, positions[v] + k, 1, later, NULL, err);
        if (!status) status = shift_rows(shift, k, row, 1, product, NULL, err);
        for (int64_t r = 0; r < dim && !status; r++) {
            const double p = (double)positions[v], difference = product[r] - later[r];
            plot_table_add(t, (double[COLUMNS]){before, p, (double)r, (double)v, row[r]});
            plot_table_add(t, (double[COLUMNS]){after, p, (double)r, (double)v, later[r]});
            plot_table_add(t, (double[COLUMNS]){off, p, (double)r, (double)v, difference});
            worst = fmax(worst, fabs(difference));
        }
    }
    snprintf(t->title, sizeof t->title, "One matrix moves every row of a sinusoid by k = %lld; largest difference %.1g",
             (long long)k, worst);
    gyre_encoding_free(pe);
    gyre_encoding_free(shift);
    free(matrix);
    return status;
}

/* -- the figure -- */
/* out = the step between the channels that are named, so that no more than `most` are. */
static int named_every(double channels, double most) {
    int step = 1;
    while (channels / step > most)
        step *= 2;
    return step;
}

/* out = the number of channels whose names fit side by side below a part.  A digit is 7 pixels wide. */
static double names_across(plot_box box, double channels) {
    return floor((box.right - box.left) * WIDTH / (7 * snprintf(NULL, 0, "%.0f", channels - 1) + NAME_GAP));
}

static void draw_part(const plot_table *t, plot_script *s, const char *part, plot_box box, double across, double down) {
    plot_box_begin(s, box);
    plot_panel_title(s, part);
    fprintf(s->file,
            "unset grid\nset xtics textcolor rgb '#3c4043' font ',12'\nset border 15\nset xrange [-0.5:%g]\nset yrange "
            "[%g:-0.5]\nset cbrange [-1:1]\n"
            "set palette defined (-1 '#5fa8d9', 0 '#ffffff', 1 '#f2a266')\nset ytics %d\n",
            across - 0.5, down - 0.5, named_every(down, MOST_NAMED));
    if (part[0] == 'P') {
        fputs("set xtics font ',11' (", s->file);
        for (int v = 0; v < VECTORS; v++)
            fprintf(s->file, "%s'%lld%s' %d", v ? ", " : "", (long long)positions[v], part[4] == ' ' ? "+k" : "", v);
        fputs(")\n", s->file);
        plot_label(s, 'x', part[4] == ' ' ? "position p + k" : "position p");
    } else {
        fprintf(s->file, "set xtics %d\n", named_every(across, fmin(MOST_NAMED, names_across(box, across))));
        plot_label(s, 'x', "channel");
        plot_label(s, 'y', "channel");
    }
    fputs("$part << EOD\n", s->file);
    for (int64_t r = 0; r < t->rows; r++)
        if (strcmp(plot_table_text(t, r, COLUMN_PART), part) == 0)
            fprintf(s->file, "%.0f %.0f %.9g\n", plot_table_number(t, r, COLUMN_COLUMN), plot_table_number(t, r, COLUMN_ROW),
                    plot_table_number(t, r, COLUMN_VALUE));
    fprintf(s->file, "EOD\nplot $part using 1:2:3 %s notitle", plot_image(across * down));
    if (down <= MANY)
        fputs(", $part using 1:2:(abs($3) < 1e-12 ? '0' : sprintf('%.2g', $3)) with labels font ',11' textcolor rgb "
              "'#202124' notitle",
              s->file);
    fputc('\n', s->file);
}

static void draw(const plot_work *w, plot_script *s) {
    const plot_table *t = &w->table;
    double dim = 0;
    for (int64_t r = 0; r < t->rows && plot_table_number(t, r, COLUMN_PART) == 0; r++)
        dim = fmax(dim, plot_table_number(t, r, COLUMN_ROW) + 1);
    plot_script_start(s, WIDTH, 440, t->title);
    draw_part(t, s, "M_k", (plot_box){0.06, 0.36, 0.17, 0.83}, dim, dim);
    draw_part(t, s, "PE(p)", (plot_box){0.44, 0.67, 0.17, 0.83}, VECTORS, dim);
    fputs("set label 1 '×' at screen 0.38, screen 0.5 center font ',26' textcolor rgb '#202124'\nset label 2 '=' at screen "
          "0.71, screen 0.5 center "
          "font "
          "',26' textcolor rgb '#202124'\nset border 0\nunset xtics\nunset ytics\nset xlabel ''\nset ylabel ''\nset title "
          "''\nplot NaN notitle\n",
          s->file);
    draw_part(t, s, "PE(p + k)", (plot_box){0.755, 0.985, 0.17, 0.83}, VECTORS, dim);
}

const plot_kind plot_shift = {"shift", "PE(p + k) = M_k PE(p), on numbers: one matrix for every p",    PLOT_TAKES_NOTHING,
                              0,       PLOT_OPTION_HEAD_DIM | PLOT_OPTION_BASE | PLOT_OPTION_POSITION, compute,
                              draw};
