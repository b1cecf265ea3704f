/* plot_wavelengths.c: how many tokens each pair takes for one turn, and what each method divides its frequency by. */
#include "tools/plot/plot.h"
#include <math.h>
#include <string.h>

enum { COLUMN_METHOD, COLUMN_PAIR, COLUMN_WAVELENGTH, COLUMN_TURNS, COLUMN_DIVISOR, COLUMNS };
static const plot_column columns[] = {{"method", NULL},
                                      {"pair", ""},
                                      {"wavelength", "tokens"},
                                      {"turns_in_trained_length", "turns"},
                                      {"frequency_divided_by", ""},
                                      {NULL, NULL}};
static const double TURN = 6.283185307179586;

/* A title says the lengths only where they are those of every model drawn; else it names the models. */
static void set_title(plot_work *w, const char *what, int with_base) {
    const plot_subject *a = &w->subjects[0], *b = &w->subjects[w->subjects_count - 1];
    char base[48] = "";
    const long long to = (long long)plot_target(w->options, a);
    if (with_base) snprintf(base, sizeof base, " (base %g)", a->config.rope.base);
    if (w->subjects_count > 1)
        snprintf(w->table.title, sizeof w->table.title, "%s: %.80s and %.80s", what, a->label, b->label);
    else
        snprintf(w->table.title, sizeof w->table.title, "%s: trained on %lld tokens, stretched to %lld%s", what,
                 (long long)a->trained, to, base);
}

static gyre_status compute_for(plot_work *w, const char *usual, gyre_error *err) {
    plot_case cases[PLOT_CASES];
    int count = 0;
    plot_table *t = &w->table;
    plot_table_columns(t, columns);
    const gyre_status status = plot_cases_make(w->options, w->subjects, w->subjects_count, usual, cases, &count, err);
    if (status) return status;
    set_title(w, "Wavelength of each pair", 1);
    for (int i = 0; i < count; i++) {
        const plot_case *c = &cases[i];
        const double name = plot_table_label(t, c->label);
        for (int64_t p = 0; p < c->pairs; p++) {
            const double wavelength = TURN / c->inv_freq[p];
            /* A ramp is set by the turns that training showed, so those of the pair before it is stretched. */
            const double turns = (double)c->trained * c->original[p] / TURN;
            plot_table_add(t, (double[COLUMNS]){name, (double)p, wavelength, turns, c->original[p] / c->inv_freq[p]});
        }
    }
    plot_cases_free(cases, count);
    return status;
}

static gyre_status compute(plot_work *w, gyre_error *err) {
    return compute_for(w, "none,linear,ntk,yarn", err);
}

/* -- the figure -- */
/* Shades the pairs that a ramp blends, between those it keeps and those it divides. */
static void shade_ramp(plot_script *s, const plot_table *t, int64_t first, int64_t end) {
    const double most = plot_table_number(t, end - 1, COLUMN_DIVISOR);
    int64_t begins = first, full = first;
    while (begins < end && plot_table_number(t, begins, COLUMN_DIVISOR) < 1 + 1e-9)
        begins++;
    while (full < end && plot_table_number(t, full, COLUMN_DIVISOR) < most * (1 - 1e-9))
        full++;
    if (!(most > 1) || begins == first || full <= begins) return;
    const double from = (double)(begins - first) - 0.5, to = (double)(full - first) - 0.5;
    fprintf(s->file,
            "set object rectangle from %.9g, graph 0 to %.9g, graph 1 behind fillcolor rgb '#f3ead8' fillstyle solid "
            "noborder\n",
            from, to);
    fprintf(s->file, "set label 'kept' at %.9g, graph 0.04 center textcolor rgb '#5f6368'\n", from / 2);
    fprintf(s->file, "set label 'blended' at %.9g, graph 0.04 center textcolor rgb '#5f6368'\n", (from + to) / 2);
    fprintf(s->file, "set label 'divided by %.4g' at %.9g, graph 0.04 center textcolor rgb '#5f6368'\n", most,
            (to + (double)(end - first)) / 2);
    fprintf(s->file, "set label 'ramp of %s' at %.9g, graph 0.09 center textcolor rgb '#5f6368'\n",
            plot_table_text(t, first, COLUMN_METHOD), (from + to) / 2);
}

static void mark_length(plot_script *s, double at, const char *text, double tokens) {
    fprintf(s->file,
            "set arrow from graph 0, first %.9g to graph 1, first %.9g nohead linewidth 1.4 linecolor rgb '#202124' "
            "dashtype (8,5)\n",
            at, at);
    fprintf(s->file, "set label '%s, %.0f' at graph 0.01, first %.9g left offset 0,0.55 textcolor rgb '#202124'\n", text,
            tokens, at);
}

/* One line where the models agree, else one a model. */
static void mark_lengths(const plot_work *w, plot_script *s, int of_target) {
    const char *what = of_target ? "wanted" : "trained";
    int64_t lengths[PLOT_SUBJECTS] = {0};
    for (int i = 0; i < w->subjects_count; i++)
        lengths[i] = of_target ? plot_target(w->options, &w->subjects[i]) : w->subjects[i].trained;
    const int agree = w->subjects_count < 2 || lengths[0] == lengths[1];
    for (int i = 0; i < (agree ? 1 : w->subjects_count); i++) {
        char text[2 * PLOT_LABEL];
        snprintf(text, sizeof text, agree ? "%s" : "%s, %s", what, w->subjects[i].label);
        mark_length(s, (double)lengths[i], text, (double)lengths[i]);
    }
}

/* The pairs of the model that has most. */
static double last_pair(const plot_table *t) {
    double last = 0;
    for (int64_t r = 0; r < t->rows; r++)
        last = fmax(last, plot_table_number(t, r, COLUMN_PAIR));
    return last;
}

static void draw(const plot_work *w, plot_script *s) {
    const plot_table *t = &w->table;
    double low = INFINITY, high = 0;
    plot_script_start(s, 960, 620, t->title);
    plot_data(s, t, "all", 0, t->rows);
    plot_box_begin(s, (plot_box){0.09, 0.97, 0.11, 0.92});
    for (plot_group g = {0}; plot_group_next(t, COLUMN_METHOD, &g);) {
        for (int64_t r = g.first; r < g.end; r++) {
            const double wavelength = plot_table_number(t, r, COLUMN_WAVELENGTH);
            if (!isfinite(wavelength)) continue;
            low = fmin(low, wavelength);
            high = fmax(high, wavelength);
        }
        if (strstr(g.name, "yarn") || strstr(g.name, "by-parts") || strstr(g.name, "llama3"))
            shade_ramp(s, t, g.first, g.end);
    }
    mark_lengths(w, s, 0);
    mark_lengths(w, s, 1);
    plot_label(s, 'x', "pair of channels");
    plot_label(s, 'y', "tokens for one turn");
    plot_ticks_of_ten(s, 'y', low, high);
    /* Another model with fewer pairs rises where the key of one model is. */
    fprintf(s->file, "set key %s opaque\nset xrange [-0.5:%.9g]\n", w->subjects_count > 1 ? "bottom right" : "top left",
            last_pair(t) + 0.5);
    plot_put_lines(s, t, &(plot_lines){COLUMN_METHOD, "2:3", NULL, 2, 3.2, 0.7, 4, 0});
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
    const gyre_status status = compute_for(w, "linear,ntk,yarn,by-parts-paper,llama3", err);
    if (!status) set_title(w, "What each method divides the frequencies by", 0);
    return status;
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
    plot_put_lines(s, t, &(plot_lines){COLUMN_METHOD, "2:5", NULL, 2.4, 0, 0.8, 5, 0});
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
    plot_put_lines(s, t, &(plot_lines){COLUMN_METHOD, "4:5", NULL, 2.4, 0, 0.8, 5, 0});
}

const plot_kind plot_ramp = {"ramp",
                             "what each method divides the frequency of each pair by, by pair and by turns",
                             PLOT_TAKES_SUBJECT,
                             1,
                             PLOT_OPTIONS_STRETCH,
                             compute_ramp,
                             draw_ramp};
