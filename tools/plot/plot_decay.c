/* plot_decay.c: how far a rotated inner product reaches: its mean over random vectors, and Su's bound. */
#include "tools/plot/plot.h"
#include "util/plain_numbers.h"
#include <math.h>
#include <stdlib.h>

enum { COLUMN_CASE, COLUMN_DISTANCE, COLUMN_MEAN, COLUMN_LOW, COLUMN_HIGH, COLUMN_BOUND, COLUMNS };
static const plot_column columns[] = {{"rotation", NULL}, {"distance", "tokens"}, {"mean", ""}, {"mean_least", ""},
                                      {"mean_most", ""},  {"bound", ""},          {NULL, NULL}};
enum { LINE_POINTS = 160, SAMPLES = 256, KEY_COLUMNS = 3 };
static const double GOLDEN = 0.6180339887498949;

/* -- numbers -- */
/* mean: of q . R(s) q over directions of q, divided by |q|^2: (2/d) sum of cos(s theta_i).  bound: (2/d) sum over i of
 * |sum over j <= i of e^(i s theta_j)|, which bounds |q . R(s) k| after Abel's summation (arXiv 2104.09864, 3.4.3).  Both
 * are estimated from the pairs that are shown. */
typedef struct values {
    double mean, bound;
} values;

static values at_distance(const double *inv_freq, int64_t pairs, double s) {
    double re = 0, im = 0, bound = 0;
    const int64_t shown = plot_pairs_shown(pairs);
    for (int64_t i = 0; i < shown; i++) {
        const int64_t p = plot_pair_shown(pairs, i);
        re += cos(s * inv_freq[p]);
        im += sin(s * inv_freq[p]);
        bound += hypot(re, im);
    }
    return (values){re / (double)shown, bound / (double)shown * ((double)pairs / (double)shown)};
}

/* One point of the line: the distances of the octave around `at`, at most SAMPLES of them.  Neighbouring pairs, whose
 * speeds differ by a fixed ratio, ripple along the line with that ratio; an octave holds whole ripples.  Steps of the
 * golden ratio coincide with no pair's period, as even steps would. */
static void add_point(plot_table *t, double name, const double *inv_freq, int64_t pairs, int64_t at) {
    const int64_t from = llround((double)at / sqrt(2)), to = at < 2 ? 1 : llround((double)at * sqrt(2));
    const int64_t range = to - from + 1, count = range < SAMPLES ? range : SAMPLES;
    double sum = 0, bound = 0, low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        const double place = (double)i * GOLDEN - floor((double)i * GOLDEN);
        const values v =
            at_distance(inv_freq, pairs, (double)(from + (count < range ? (int64_t)(place * (double)range) : i)));
        sum += v.mean;
        bound += v.bound;
        low = fmin(low, v.mean);
        high = fmax(high, v.mean);
    }
    const double n = (double)count;
    plot_table_add(t, (double[COLUMNS]){name, (double)at, sum / n, low, high, bound / n});
}

static void add_line(plot_table *t, const char *label, const double *inv_freq, int64_t pairs, int64_t longest,
                     int64_t points) {
    const double name = plot_table_label(t, label);
    int64_t before = 0;
    for (int64_t k = 0; k < points; k++) {
        const int64_t at = llround(pow((double)longest, (double)k / (double)(points - 1)));
        if (at > before) add_point(t, name, inv_freq, pairs, at);
        before = at;
    }
}

/* Without a model or methods: bases. */
static gyre_status add_bases(plot_work *w, gyre_error *err) {
    static const double usual[] = {1e4, 5e5, 1e6};
    const plot_options *o = w->options;
    const int count = o->bases_count ? o->bases_count : o->base > 0 ? 1 : 3;
    const double *bases = o->bases_count ? o->bases : o->base > 0 ? &o->base : usual;
    const int64_t dim = w->subjects[0].config.head_dim, longest = o->stretch.to ? o->stretch.to : 131072;
    double *inv_freq = cli_alloc(dim, sizeof *inv_freq);
    for (int b = 0; b < count; b++) {
        char label[PLOT_LABEL];
        gyre_encoding *rope = NULL;
        gyre_status status = gyre_rope_create(&rope, dim, bases[b], GYRE_LAYOUT_HALF, err);
        if (!status) status = gyre_encoding_frequencies(rope, 0, inv_freq, NULL);
        gyre_encoding_free(rope);
        if (status) {
            free(inv_freq);
            return status;
        }
        snprintf(label, sizeof label, "base %.15g", bases[b]);
        add_line(&w->table, label, inv_freq, dim / 2, longest, o->points ? o->points : LINE_POINTS);
    }
    char *title = w->table.title, some[PLOT_PAIRS_TEXT];
    const int length = snprintf(title, sizeof w->table.title,
                                "Decay of a rotated inner product with distance, heads of %lld channels", (long long)dim);
    if (plot_pairs_shown(dim / 2) < dim / 2)
        snprintf(title + length, sizeof w->table.title - (size_t)length, ", %s", plot_pairs_text(dim / 2, some));
    free(inv_freq);
    return GYRE_OK;
}

/* Of two models, the lines say the bases, which differ; the pairs are said where they are the same. */
static void set_title(plot_work *w, const plot_case *cases, int count) {
    static const char what[] = "Decay of a rotated inner product with distance";
    const plot_subject *a = &w->subjects[0], *b = &w->subjects[w->subjects_count - 1];
    const int64_t pairs = cases[0].pairs, other = cases[count - 1].pairs;
    char *title = w->table.title, some[PLOT_PAIRS_TEXT];
    (void)plot_pairs_text(pairs, some);
    const size_t size = sizeof w->table.title;
    if (w->subjects_count == 1)
        snprintf(title, size, "%s, %s, base %g", what, some, a->config.rope.base);
    else if (pairs == other)
        gyre_plain_snprintf(title, size, "%s: %.60s and %.60s, %s", what, a->label, b->label, some);
    else
        gyre_plain_snprintf(title, size, "%s: %.60s, %s, and %.60s, %lld", what, a->label, some, b->label, (long long)other);
}

static gyre_status compute(plot_work *w, gyre_error *err) {
    const plot_options *o = w->options;
    plot_case cases[PLOT_CASES];
    int count = 0;
    plot_table_columns(&w->table, columns);
    if (!o->files_count && !o->compare && !o->method.count) return add_bases(w, err);
    const gyre_status status = plot_cases_make(o, w->subjects, w->subjects_count, "none", cases, &count, err);
    if (status) return status;
    for (int i = 0; i < count; i++) {
        const plot_case *c = &cases[i];
        char label[PLOT_LABEL];
        if (w->subjects_count > 1)
            gyre_plain_snprintf(label, sizeof label, "%.60s, base %g", c->label, c->subject->config.rope.base);
        else
            gyre_plain_snprintf(label, sizeof label, "%.90s", c->label);
        add_line(&w->table, label, c->inv_freq, c->pairs, c->to, o->points ? o->points : LINE_POINTS);
    }
    set_title(w, cases, count);
    plot_cases_free(cases, count);
    return GYRE_OK;
}

/* -- the figure -- */
static void draw(const plot_work *w, plot_script *s) {
    const plot_table *t = &w->table;
    double longest = 1;
    for (int64_t r = 0; r < t->rows; r++)
        longest = fmax(longest, plot_table_number(t, r, COLUMN_DISTANCE));
    const int lines = plot_table_groups(t, COLUMN_CASE), rows = (lines + KEY_COLUMNS - 1) / KEY_COLUMNS, key = 22 * rows;
    const double bottom = (74.0 + key) / (480 + key), top = 1 - 77.0 / (480 + key);
    plot_script_start(s, 1040, 480 + key, t->title);
    plot_data(s, t, "all", 0, t->rows);
    plot_box_begin(s, (plot_box){0.075, 0.49, bottom, top});
    plot_panel_title(s, "mean of q · R(s)q / |q|² over q; band: its range in an octave");
    plot_label(s, 'x', "distance s (tokens)");
    plot_label(s, 'y', "mean (1 at distance 0)");
    plot_ticks_of_two(s, 'x', 1, longest);
    /* Below both panels: lines of other lengths and bases run everywhere in them. */
    fprintf(s->file,
            "set key vertical maxrows %d samplen 3 center bottom at screen 0.52, screen 0.01\n"
            "set xzeroaxis linetype 1 linecolor rgb '#5f6368'\n",
            rows);
    plot_put_lines(s, t, &(plot_lines){COLUMN_CASE, "2:3", "2:4:5", 2, 0.7, 16, 0});
    plot_box_begin(s, (plot_box){0.575, 0.985, bottom, top});
    plot_panel_title(s, "Su's bound, mean of |S_i|");
    plot_label(s, 'x', "distance s (tokens)");
    plot_label(s, 'y', "bound / largest |h_i - h_(i+1)|");
    plot_ticks_of_two(s, 'x', 1, longest);
    fputs("set yrange [0:*]\n", s->file);
    plot_put_lines(s, t, &(plot_lines){COLUMN_CASE, "2:6", NULL, 2, 0.7, 16, 0});
}

const plot_kind plot_decay = {"decay",
                              "bound and mean of the rotated inner product against distance, for each base",
                              PLOT_TAKES_SUBJECT,
                              1,
                              PLOT_OPTIONS_STRETCH | PLOT_OPTION_BASES | PLOT_OPTION_POINTS,
                              compute,
                              draw};
