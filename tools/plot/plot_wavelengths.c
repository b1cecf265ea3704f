/* plot_wavelengths.c: how many tokens each pair takes for one turn, and what each method divides its frequency by. */
#include "tools/common/variants.h"
#include "tools/plot/plot.h"
#include "util/plain_numbers.h"
#include <math.h>
#include <string.h>

enum { COLUMN_METHOD, COLUMN_PAIR, COLUMN_WAVELENGTH, COLUMN_TURNS, COLUMN_DIVISOR, COLUMN_BITS, COLUMNS };
static const plot_column columns[] = {{"method", NULL},
                                      {"pair", ""},
                                      {"wavelength", "tokens"},
                                      {"turns_in_trained_length", "turns"},
                                      {"frequency_divided_by", ""},
                                      {"bits_for_a_step", "bits"},
                                      {NULL, NULL}};
static const double TURN = 6.283185307179586;

/* A title says the lengths only where they are those of every model drawn; else it names the models. */
static void set_title(plot_work *w, const char *what, int with_base) {
    const plot_subject *a = &w->subjects[0], *b = &w->subjects[w->subjects_count - 1];
    char base[48] = "";
    const long long to = (long long)plot_target(w->options, a);
    if (with_base) snprintf(base, sizeof base, " (base %g)", a->config.rope.base);
    if (w->subjects_count > 1 && with_base)
        gyre_plain_snprintf(w->table.title, sizeof w->table.title, "%s: %.80s (base %g) and %.80s (base %g)", what, a->label,
                            a->config.rope.base, b->label, b->config.rope.base);
    else if (w->subjects_count > 1)
        gyre_plain_snprintf(w->table.title, sizeof w->table.title, "%s: %.80s and %.80s", what, a->label, b->label);
    else
        snprintf(w->table.title, sizeof w->table.title, "%s: trained on %lld tokens, stretched to %lld%s", what,
                 (long long)a->trained, to, base);
}

/* Says once that not every pair is shown. */
static void add_pairs(plot_table *t, int64_t pairs) {
    const size_t used = strlen(t->title);
    char some[PLOT_PAIRS_TEXT];
    if (plot_pairs_shown(pairs) < pairs && !strstr(t->title, " pairs"))
        snprintf(t->title + used, sizeof t->title - used, ", %s", plot_pairs_text(pairs, some));
}

static gyre_status compute_for(plot_work *w, const char *usual, const char *what, int with_base, gyre_error *err) {
    plot_case cases[PLOT_CASES];
    int count = 0;
    plot_table *t = &w->table;
    plot_table_columns(t, columns);
    const gyre_status status = plot_cases_make(w->options, w->subjects, w->subjects_count, usual, cases, &count, err);
    if (status) return status;
    set_title(w, what, with_base);
    for (int i = 0; i < count; i++) {
        const plot_case *c = &cases[i];
        const double name = plot_table_label(t, c->label);
        add_pairs(t, c->pairs);
        for (int64_t k = 0; k < plot_pairs_shown(c->pairs); k++) {
            const int64_t p = plot_pair_shown(c->pairs, k);
            const double wavelength = TURN / c->inv_freq[p];
            /* A ramp depends on the revolutions in training, so on those of the pair before it is stretched. */
            const double turns = (double)c->trained * c->original[p] / TURN;
            plot_table_add(t, (double[COLUMNS]){name, (double)p, wavelength, turns, c->original[p] / c->inv_freq[p],
                                                -log2(c->inv_freq[p])});
        }
    }
    plot_cases_free(cases, count);
    return status;
}

static gyre_status compute(plot_work *w, gyre_error *err) {
    return compute_for(w, "none,linear,ntk,yarn", "Wavelength of each pair", 1, err);
}

/* -- the figure -- */
/* The pairs that a ramp blends: edges between those it keeps, those, and those it divides. */
typedef struct ramp {
    double from, to, divisor;
} ramp;

/* out = 1 if a line has a ramp: pairs that are kept, pairs between, and two or more that are divided alike.  Resonance
 * moves every pair a little, so its ends are not shown. */
static int find_ramp(const plot_table *t, const plot_group *g, ramp *out) {
    const double most = plot_table_number(t, g->end - 1, COLUMN_DIVISOR);
    int64_t begins = g->first, full = g->first;
    if (strstr(g->name, "resonance")) return 0;
    while (begins < g->end && plot_table_number(t, begins, COLUMN_DIVISOR) < 1 + 1e-9)
        begins++;
    while (full < g->end && plot_table_number(t, full, COLUMN_DIVISOR) < most * (1 - 1e-9))
        full++;
    const double from = plot_table_number(t, begins < g->end ? begins : g->end - 1, COLUMN_PAIR);
    *out = (ramp){from - 0.5, plot_table_number(t, full < g->end ? full : g->end - 1, COLUMN_PAIR) - 0.5, most};
    return most > 1 && begins > g->first && full > begins && g->end - full >= 2;
}

/* The words of one ramp, over the whole panel. */
static void name_ramp_parts(plot_script *s, const ramp *r, double pairs) {
    static const char style[] = "graph 0.04 center textcolor rgb '#5f6368'";
    fprintf(s->file, "set label 'kept' at %.9g, %s\n", r->from / 2, style);
    fprintf(s->file, "set label 'blended' at %.9g, %s\n", (r->from + r->to) / 2, style);
    fprintf(s->file, "set label 'divided by %.4g' at %.9g, %s\n", r->divisor, (r->to + pairs) / 2, style);
}

/* Shades ramps: one over the whole panel, several as bars above each other. */
static void shade_ramps(plot_script *s, const plot_table *t) {
    ramp r;
    int count = 0, index = 0;
    for (plot_group g = {0}; plot_group_next(t, COLUMN_METHOD, &g);)
        count += find_ramp(t, &g, &r);
    for (plot_group g = {0}; plot_group_next(t, COLUMN_METHOD, &g);) {
        if (!find_ramp(t, &g, &r)) continue;
        const double low = count > 1 ? 0.012 + 0.045 * index : 0, high = count > 1 ? low + 0.038 : 1;
        fprintf(s->file,
                "set object rectangle from %.9g, graph %.4f to %.9g, graph %.4f behind fillcolor rgb '#f3ead8' fillstyle "
                "solid noborder\n",
                r.from, low, r.to, high);
        fprintf(s->file, "set label 'ramp of %s' at %.9g, graph %.4f center textcolor rgb '#5f6368'\n", g.name,
                (r.from + r.to) / 2, count > 1 ? (low + high) / 2 : 0.09);
        if (count == 1) name_ramp_parts(s, &r, plot_table_number(t, g.end - 1, COLUMN_PAIR) + 1);
        index++;
    }
}

static void put_length(plot_script *s, double at, const char *style) {
    fprintf(s->file, "set arrow from graph 0, first %.9g to graph 1, first %.9g nohead %s\n", at, at, style);
}

static void mark_length(plot_script *s, double at, const char *text) {
    put_length(s, at, "linewidth 1.4 linecolor rgb '#202124' dashtype (8,5)");
    fprintf(s->file, "set label '%s, %.0f' at graph 0.01, first %.9g left offset 0,0.55 textcolor rgb '#202124'\n", text, at,
            at);
}

/* out = the look of a model's line; zeros if it has several, under methods. */
static gyre_report_look look_of_model(const plot_work *w, int model) {
    const int several = plot_table_groups(&w->table, COLUMN_METHOD) != w->subjects_count;
    const gyre_report_look look = subject_look(w->subjects[model].label);
    return several ? (gyre_report_look){.hollow = 0} : look.color ? look : gyre_report_look_at(model);
}

static size_t name_length(const plot_work *w, int of, char name[2 * PLOT_LABEL]) {
    const plot_subject *model = &w->subjects[of / 2];
    const long long at = of % 2 ? (long long)plot_target(w->options, model) : (long long)model->trained;
    return (size_t)gyre_plain_snprintf(name, 2 * PLOT_LABEL, "%.50s: %s %lld", model->label, of % 2 ? "wanted" : "trained",
                                       at);
}

/* The lengths of the models, in the colours of their lines, named to the right: two may be close. */
static void mark_models(const plot_work *w, plot_script *s, double low, double high) {
    char names[2 * PLOT_SUBJECTS][2 * PLOT_LABEL];
    plot_end ends[2 * PLOT_SUBJECTS];
    for (int i = 0; i < 2 * w->subjects_count; i++) {
        const plot_subject *model = &w->subjects[i / 2];
        const double at = i % 2 ? (double)plot_target(w->options, model) : (double)model->trained;
        const gyre_report_look look = look_of_model(w, i / 2);
        char style[PLOT_LOOK];
        (void)name_length(w, i, names[i]);
        /* Widths differ as well: gnuplot writes a dash only where the colour or the width changes. */
        snprintf(style, sizeof style, "%s linecolor rgb '%s'",
                 i % 2 ? "linewidth 1.7 dashtype (2,5)" : "linewidth 1.5 dashtype (12,6)",
                 look.color ? plot_color(look) : "#5f6368");
        put_length(s, at, style);
        ends[i] = (plot_end){names[i], look, log(at / low) / log(high / low)};
    }
    plot_end_labels(s, ends, 2 * w->subjects_count);
}

static void mark_lengths(const plot_work *w, plot_script *s, double low, double high) {
    if (w->subjects_count > 1) {
        mark_models(w, s, low, high);
        return;
    }
    mark_length(s, (double)w->subjects[0].trained, "trained");
    mark_length(s, (double)plot_target(w->options, &w->subjects[0]), "wanted");
}

/* The pairs of the model that has most. */
static double last_pair(const plot_table *t) {
    double last = 0;
    for (int64_t r = 0; r < t->rows; r++)
        last = fmax(last, plot_table_number(t, r, COLUMN_PAIR));
    return last;
}

/* Of the pairs that rotate; 1 where none does. */
static void range_of(const plot_table *t, double *low, double *high) {
    *low = INFINITY;
    *high = 0;
    for (int64_t r = 0; r < t->rows; r++) {
        const double wavelength = plot_table_number(t, r, COLUMN_WAVELENGTH);
        if (!isfinite(wavelength)) continue;
        *low = fmin(*low, wavelength);
        *high = fmax(*high, wavelength);
    }
    if (!isfinite(*low)) *low = 1;
}

/* out = the room in pixels for names of lengths right of the panel: of two models, they would cover the other's line. */
static double room_for_lengths(const plot_work *w) {
    size_t longest = 0;
    char name[2 * PLOT_LABEL];
    if (w->subjects_count == 1) return 28;
    for (int i = 0; i < 2 * w->subjects_count; i++) {
        const size_t length = name_length(w, i, name);
        longest = length > longest ? length : longest;
    }
    return 60 + 7.2 * (double)longest;
}

enum { WIDTH = 980, HEIGHT = 600, KEY_ROW = 22, KEY_COLUMNS = 4, KEY_COLUMNS_OF_MODELS = 2 };

static void draw(const plot_work *w, plot_script *s) {
    const plot_table *t = &w->table;
    const int of_models = w->subjects_count > 1, columns_of_key = of_models ? KEY_COLUMNS_OF_MODELS : KEY_COLUMNS;
    const int rows = (plot_table_groups(t, COLUMN_METHOD) + columns_of_key - 1) / columns_of_key;
    double low, high;
    range_of(t, &low, &high);
    for (int i = 0; i < w->subjects_count; i++)
        high = fmax(high, fmax((double)w->subjects[i].trained, (double)plot_target(w->options, &w->subjects[i])));
    low = pow(10, floor(log10(low)));
    high = fmin(pow(10, ceil(log10(high))), 1e308); /* the next power is no number */
    plot_script_start(s, WIDTH + (of_models ? 80 : 0), HEIGHT + KEY_ROW * rows, t->title);
    plot_data(s, t, "all", 0, t->rows);
    const double bottom = (68.0 + KEY_ROW * rows) / s->height;
    plot_box_begin(s, (plot_box){88.0 / s->width, 1 - room_for_lengths(w) / s->width, bottom, 1 - 50.0 / s->height});
    shade_ramps(s, t);
    mark_lengths(w, s, low, high);
    plot_label(s, 'x', "pair of channels");
    plot_label(s, 'y', "tokens for one turn");
    plot_ticks_of_ten(s, 'y', low, high);
    fprintf(s->file,
            "set yrange [%.9g:%.9g]\nset xrange [-0.5:%.9g]\nset key vertical maxrows %d samplen 3 center bottom at screen "
            "0.5, screen 0.01\n",
            low, high, last_pair(t) + 0.5, rows);
    plot_put_lines(s, t, &(plot_lines){COLUMN_METHOD, "2:3", NULL, 2, 0.7, 4, 0});
}

const plot_kind plot_wavelengths = {"wavelengths",
                                    "tokens that each pair takes for a turn, against the lengths; the ramp shaded",
                                    PLOT_TAKES_SUBJECT,
                                    1,
                                    PLOT_OPTIONS_STRETCH,
                                    compute,
                                    draw};

/* -- the ramp -- */
static gyre_status compute_ramp(plot_work *w, gyre_error *err) {
    return compute_for(w, "linear,ntk,yarn,by-parts-paper,llama3", "What each method divides the frequencies by", 0, err);
}

static void draw_ramp(const plot_work *w, plot_script *s) {
    const plot_table *t = &w->table;
    const method_betas betas = w->options->method.betas;
    double low = INFINITY, high = 0, most = 1;
    for (int64_t r = 0; r < t->rows; r++) {
        const double turns = plot_table_number(t, r, COLUMN_TURNS), by = plot_table_number(t, r, COLUMN_DIVISOR);
        if (turns > 0) low = fmin(low, turns), high = fmax(high, turns);
        if (isfinite(by)) most = fmax(most, by);
    }
    plot_script_start(s, 1040, 560, t->title);
    plot_data(s, t, "all", 0, t->rows);
    plot_box_begin(s, (plot_box){0.07, 0.485, 0.27, 0.86});
    plot_panel_title(s, "by pair: fast ones left");
    plot_label(s, 'x', "pair of channels");
    plot_label(s, 'y', "frequency divided by");
    fprintf(s->file,
            "set key horizontal samplen 2 width 1 center bottom at screen 0.52, screen 0.03\nset yrange "
            "[%.4g:%.4g]\nset xrange [-0.5:%.9g]\n",
            1 - 0.03 * most, 1.12 * most, last_pair(t) + 0.5);
    plot_put_lines(s, t, &(plot_lines){COLUMN_METHOD, "2:5", NULL, 2.4, 0.8, 5, 0});
    plot_box_begin(s, (plot_box){0.57, 0.975, 0.27, 0.86});
    plot_panel_title(s, "by turns in the trained length: slow ones left");
    plot_label(s, 'x', "turns in the trained length (log)");
    plot_ticks_of_ten(s, 'x', low, high);
    fprintf(s->file, "set yrange [%.4g:%.4g]\n", 1 - 0.03 * most, 1.12 * most);
    const double ends[2] = {betas.slow, betas.fast};
    for (int i = 0; i < 2; i++)
        fprintf(s->file,
                "set arrow from %.9g, graph 0 to %.9g, graph 1 nohead linewidth 1.4 linecolor rgb '#202124' dashtype (8,5)\n"
                "set label '%g turn%s' at %.9g, graph 0.95 left offset 0.5,0 textcolor rgb '#202124'\n",
                ends[i], ends[i], ends[i], ends[i] == 1 ? "" : "s", ends[i]);
    plot_put_lines(s, t, &(plot_lines){COLUMN_METHOD, "4:5", NULL, 2.4, 0.8, 5, 0});
}

const plot_kind plot_ramp = {"ramp",
                             "what each method divides the frequency of each pair by, by pair and by turns",
                             PLOT_TAKES_SUBJECT,
                             1,
                             PLOT_OPTIONS_STRETCH,
                             compute_ramp,
                             draw_ramp};
