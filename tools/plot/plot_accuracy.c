/* plot_accuracy.c: how far cos and sin of an engine's recipe are from the exact ones, by position. */
#include "gyre/gyre_fields.h"
#include "tools/plot/plot.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMN_RECIPE, COLUMN_POSITION, COLUMN_ERROR, COLUMN_MEAN, COLUMNS };
static const plot_column columns[] = {
    {"recipe", NULL}, {"position", "tokens"}, {"largest_error", ""}, {"mean_error", ""}, {NULL, NULL}};
enum { POINTS = 48, AROUND = 16, RECIPES = 5 };

/* cosine[pairs], sine[pairs] of one position, by an encoding with the angles of a program. */
typedef struct recipe_work {
    const gyre_encoding *rope;
    double base;
    int64_t dim, around; /* around: positions of a point */
    float *cosine, *sine;
    long double *theta; /* of the pairs that are shown */
} recipe_work;

/* -- recipes -- */
static const struct {
    const char *name;
    gyre_angle_path path;
    int rounds_positions; /* a position is itself bfloat16, as in code that casts positions to the type of the model */
} recipes[RECIPES] = {{"exact: double, rounded once (Gyre)", GYRE_ANGLE_PATH_EXACT, 0},
                      {"transformers: all in float", GYRE_ANGLE_PATH_TORCH, 0},
                      {"llama.cpp: running product in float", GYRE_ANGLE_PATH_LLAMA_CPP, 0},
                      {"vLLM: float table kept in bfloat16", GYRE_ANGLE_PATH_VLLM_BF16, 0},
                      {"positions in bfloat16", GYRE_ANGLE_PATH_TORCH, 1}};

/* bfloat16: the upper half of a float, rounded to even. */
static int64_t to_bf16(int64_t position) {
    float value = (float)position;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & UINT32_C(0xffff0000);
    memcpy(&value, &bits, sizeof bits);
    return (int64_t)value;
}

static gyre_status angles_at(const recipe_work *r, int64_t position, gyre_error *err) {
    const gyre_positions at = {.base = position};
    const gyre_view c = gyre_dense(r->cosine, GYRE_DTYPE_F32, 1, 1, 1, r->dim / 2);
    const gyre_view s = gyre_dense(r->sine, GYRE_DTYPE_F32, 1, 1, 1, r->dim / 2);
    return gyre_cos_sin(r->rope, &at, &c, &s, NULL, err);
}

/* -- numbers -- */
/* The exact angle in long double: at position 2^31 its error is below 1e-9 where long double has 64 bits. */
static void add_errors(const recipe_work *r, int64_t position, double *largest, double *sum) {
    for (int64_t k = 0; k < plot_pairs_shown(r->dim / 2); k++) {
        const int64_t i = plot_pair_shown(r->dim / 2, k);
        const long double angle = (long double)position * r->theta[k];
        const double c = fabs((double)(cosl(angle) - (long double)r->cosine[i]));
        const double s = fabs((double)(sinl(angle) - (long double)r->sine[i]));
        *largest = fmax(*largest, fmax(c, s));
        *sum += c + s;
    }
}

static gyre_status add_recipe(plot_table *t, const recipe_work *r, int index, int64_t longest, int64_t points,
                              gyre_error *err) {
    const double name = plot_table_label(t, recipes[index].name);
    int64_t last = 0;
    for (int64_t k = 0; k < points; k++) {
        /* Some neighbours too: a single position may be a lucky one.  At least 1. */
        const int64_t at = llround(pow((double)longest, (double)k / (double)(points - 1)));
        if (k > 0 && at == last) continue; /* the first points are closer than positions are */
        last = at;
        const int64_t first = at > r->around ? at - r->around + 1 : 1, count = at - first + 1;
        double largest = 0, sum = 0;
        for (int64_t p = first; p <= at; p++) {
            const gyre_status status = angles_at(r, recipes[index].rounds_positions ? to_bf16(p) : p, err);
            if (status) return status;
            add_errors(r, p, &largest, &sum);
        }
        plot_table_add(
            t, (double[COLUMNS]){name, (double)at, largest, sum / (double)(2 * count * plot_pairs_shown(r->dim / 2))});
    }
    return GYRE_OK;
}

/* Positions of a point: fewer of a head of more pairs than are shown, since every pair of a position is computed. */
static int64_t positions_around(int64_t pairs) {
    const int64_t most = AROUND * PLOT_PAIRS / pairs;
    return most > AROUND ? AROUND : most > 1 ? most : 1;
}

/* A build without SLEEF leaves out the recipes that need it. */
static gyre_status add_recipe_of(plot_work *w, recipe_work *r, int index, gyre_error *err) {
    const plot_options *o = w->options;
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = gyre_kind_find("rope");
    config.head_dim = r->dim;
    config.rope.base = r->base;
    config.rope.angles = recipes[index].path;
    gyre_encoding *rope = NULL;
    gyre_status status = gyre_encoding_create(&rope, &config, NULL, err);
    if (status == GYRE_EUNSUPPORTED && config.rope.angles != GYRE_ANGLE_PATH_EXACT) return GYRE_OK;
    r->rope = rope;
    if (!status)
        status =
            add_recipe(&w->table, r, index, o->stretch.to ? o->stretch.to : 1 << 20, o->points ? o->points : POINTS, err);
    gyre_encoding_free(rope);
    return status;
}

static gyre_status compute(plot_work *w, gyre_error *err) {
    const gyre_config *config = &w->subjects[0].config;
    recipe_work r = {.base = config->rope.base > 0 ? config->rope.base : 10000,
                     .dim = config->rope.dim ? config->rope.dim : config->head_dim};
    plot_table_columns(&w->table, columns);
    if (!gyre_kind_has(config->kind, GYRE_TRAIT_ROTATES))
        return gyre_fail(err, GYRE_EUNSUPPORTED, "positions: %s does not rotate, so there are no angles (%s)",
                         gyre_kind_name(config->kind), w->subjects[0].label);
    const int64_t pairs = r.dim / 2;
    r.around = positions_around(pairs);
    r.cosine = cli_alloc(r.dim, sizeof *r.cosine);
    r.theta = cli_alloc(plot_pairs_shown(pairs), sizeof *r.theta);
    gyre_status status = GYRE_OK;
    r.sine = r.cosine + pairs;
    for (int64_t k = 0; k < plot_pairs_shown(pairs) && !status; k++)
        r.theta[k] = powl((long double)r.base, -2.0L * (long double)plot_pair_shown(pairs, k) / (long double)r.dim);
    for (int i = 0; i < RECIPES && !status; i++)
        status = add_recipe_of(w, &r, i, err);
    char *title = w->table.title, some[PLOT_PAIRS_TEXT];
    const int length = snprintf(title, sizeof w->table.title, "Error of cos and sin by position: %lld channels, base %g",
                                (long long)r.dim, r.base);
    if (plot_pairs_shown(pairs) < pairs)
        snprintf(title + length, sizeof w->table.title - (size_t)length, "; %s, %lld position%s a point",
                 plot_pairs_text(pairs, some), (long long)r.around, r.around == 1 ? "" : "s");
    free(r.cosine);
    free(r.theta);
    return status;
}

/* -- the figure -- */
static void draw(const plot_work *w, plot_script *s) {
    const plot_table *t = &w->table;
    double longest = 1;
    for (int64_t r = 0; r < t->rows; r++)
        longest = fmax(longest, plot_table_number(t, r, COLUMN_POSITION));
    plot_script_start(s, 1000, 560, t->title);
    plot_data(s, t, "all", 0, t->rows);
    plot_box_begin(s, (plot_box){0.085, 0.97, 0.26, 0.9});
    plot_label(s, 'x', "position (tokens)");
    plot_label(s, 'y', "largest error of cos and sin, 16 positions");
    plot_ticks_of_two(s, 'x', 1, longest);
    plot_ticks_of_ten(s, 'y', 1e-8, 2);
    fputs(
        "set yrange [1e-8:3]\nset key at screen 0.5, screen 0.125 center top maxrows 3 vertical\n"
        "set arrow from graph 0, first 0.001953125 to graph 1, first 0.001953125 nohead linewidth 1 linecolor rgb '#5f6368' "
        "dashtype (8,5)\nset label 'rounding of bfloat16 below 1: 2⁻⁹' at graph 0.01, first 0.001953125 left offset 0,0.55 "
        "textcolor rgb '#5f6368'\n",
        s->file);
    plot_put_lines(s, t, &(plot_lines){COLUMN_RECIPE, "2:3", NULL, 2.2, 0.75, 6, 1});
}

const plot_kind plot_accuracy = {
    "accuracy", "error of cos and sin against position, as each engine computes them", PLOT_TAKES_SUBJECT,
    1,          PLOT_OPTIONS_ROTATION | PLOT_OPTION_TO | PLOT_OPTION_POINTS,           compute,
    draw};
