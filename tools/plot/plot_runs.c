/* plot_runs.c: results of gyre eval, gyre passkey and gyre lab, several runs in one picture. */
#include "tools/plot/plot_results.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of a figure, whose rows are held against each other to find lines. */
enum { MOST_RESULTS = 10000, MOST_PLACES = 256 /* of squares, in a row or a column */ };

/* -- perplexity -- */
static gyre_status compute_perplexity(plot_work *w, gyre_error *err) {
    return plot_results_read(w, RUNS_PERPLEXITY, err);
}

static int same_line(const plot_table *t, int64_t a, int64_t b) {
    return plot_table_number(t, a, COLUMN_RUN) == plot_table_number(t, b, COLUMN_RUN) &&
           plot_table_number(t, a, COLUMN_METHOD) == plot_table_number(t, b, COLUMN_METHOD);
}

/* The rows of the line that row `first` begins: other lines may be between them. */
static void put_line(const plot_table *t, plot_script *s, int64_t first) {
    fprintf(s->file, "$line%lld << EOD\n", (long long)first);
    for (int64_t r = first; r < t->rows; r++) {
        if (!same_line(t, first, r)) continue;
        for (int c = COLUMN_LENGTH; c < t->columns_count; c++) {
            const double value = plot_table_number(t, r, c);
            fprintf(s->file, isfinite(value) ? "%.9g " : "NaN ", value);
        }
        fputc('\n', s->file);
    }
    fputs("EOD\n", s->file);
}

static int begins_line(const plot_table *t, int64_t row) {
    for (int64_t r = 0; r < row; r++)
        if (same_line(t, r, row)) return 0;
    return 1;
}

static void mark_trained(const plot_work *w, plot_script *s, double low, double high) {
    const double at = (double)w->trained;
    if (!(at >= low && at <= high)) return;
    fprintf(s->file,
            "set arrow from %.9g, graph 0 to %.9g, graph 1 nohead linewidth 1.4 linecolor rgb '#202124' dashtype (8,5)\n"
            "set label 'trained' at %.9g, graph 1.02 center offset 0,0.2 textcolor rgb '#202124'\n",
            at, at, at);
}

/* -- panels -- */
/* Only few lines can be distinguished in one panel.  More methods get a panel for each family, with `none` in every one. */
enum {
    MOST_LINES = 8,
    MOST_PANELS = 96,
    FAMILIES = 6,
    NAME_ROOM = 40,
    NAME_CHARACTER = 9,
    LEAST_ROOM = 110,
    ALL_FAMILIES = -1,
    OTHER_FAMILY = FAMILIES - 1,
    REFERENCE = -2
};
static const struct {
    const char *title, *methods;
} families[FAMILIES] = {{"linear", ",linear,"},
                        {"NTK", ",ntk,ntk-past,ntk-mixed,dynamic,dynamic-linear,base,"},
                        {"by parts", ",by-parts,by-parts-paper,yarn,dynamic-yarn,llama3,"},
                        {"far pairs", ",rerope,leaky,self-extend,dca,dca-paper,"},
                        {"clipped", ",clipped,clipped-hard,"},
                        {"others", ","}};
/* What a panel draws: a run, or the methods of a family of it. */
typedef struct runs_panel {
    double run;
    int family;
} runs_panel;
typedef struct runs_layout {
    runs_panel panels[MOST_PANELS];
    int count, whole; /* the first `whole` panels are runs with all their lines */
    int is_split;
    int room; /* pixels for names right of a panel */
} runs_layout;

static int family_of(const char *label) {
    char name[PLOT_LABEL + 2];
    const int is_none = strcmp(label, "none") == 0;
    snprintf(name, sizeof name, ",%.*s,", (int)strcspn(label, ":+,"), label);
    for (int i = 0; i < OTHER_FAMILY; i++)
        if (strstr(families[i].methods, name)) return i;
    return is_none ? REFERENCE : OTHER_FAMILY;
}

static int is_drawn(const plot_table *t, const runs_panel *p, int64_t row) {
    if (plot_table_number(t, row, COLUMN_RUN) != p->run) return 0;
    const int family = p->family == ALL_FAMILIES ? ALL_FAMILIES : family_of(plot_table_text(t, row, COLUMN_METHOD));
    return family == p->family || family == REFERENCE;
}

static void add_panels_of_run(const plot_table *t, const plot_group *g, int family, runs_layout *l) {
    int lines = 0, its = 0;
    for (int64_t r = g->first; r < g->end; r++) {
        if (!begins_line(t, r)) continue;
        lines++;
        its += family_of(plot_table_text(t, r, COLUMN_METHOD)) == family;
    }
    const int is_split = lines > MOST_LINES;
    l->is_split |= is_split;
    if (l->count < MOST_PANELS && (family == ALL_FAMILIES ? !is_split : is_split && its))
        l->panels[l->count++] = (runs_panel){plot_table_number(t, g->first, COLUMN_RUN), family};
}

static void make_layout(const plot_table *t, runs_layout *l) {
    *l = (runs_layout){.count = 0};
    for (int family = ALL_FAMILIES; family < FAMILIES; family++) {
        for (plot_group g = {0}; plot_group_next(t, COLUMN_RUN, &g);)
            add_panels_of_run(t, &g, family, l);
        if (family == ALL_FAMILIES) l->whole = l->count;
    }
    size_t longest = 0;
    for (int64_t r = 0; r < t->rows; r++) {
        const size_t length = strlen(plot_table_text(t, r, COLUMN_METHOD));
        longest = length > longest ? length : longest;
    }
    l->room =
        NAME_ROOM + NAME_CHARACTER * (int)longest > LEAST_ROOM ? NAME_ROOM + NAME_CHARACTER * (int)longest : LEAST_ROOM;
}

static const double ROOM = 1.12; /* above and below the perplexities */
typedef struct runs_range {
    double x_low, x_high, low, high;
} runs_range;

/* Panels of whole runs have one range, so that heights compare; p: of that panel alone, or NULL. */
static runs_range range_of(const plot_table *t, const runs_panel *p) {
    runs_range range = {INFINITY, 0, INFINITY, 0};
    for (int64_t r = 0; r < t->rows; r++) {
        const double x = plot_table_number(t, r, COLUMN_LENGTH), y = plot_table_number(t, r, COLUMN_VALUE);
        range.x_low = fmin(range.x_low, x);
        range.x_high = fmax(range.x_high, x);
        if (p && !is_drawn(t, p, r)) continue;
        range.low = fmin(range.low, y);
        range.high = fmax(range.high, y);
    }
    return range;
}

/* Ticks at 1, 2, 3 and 5 times powers of ten, and between them where perplexities are within half a decade. */
static void ticks_of_perplexity(plot_script *s, const runs_range *range) {
    static const double marks[] = {1, 2, 3, 5, 1.2, 1.5, 2.5, 3.5, 4, 6, 7, 8};
    const int count = range->high < 3 * range->low ? sizeof marks / sizeof *marks : 4;
    fputs("set logscale y\nset ytics (", s->file);
    int n = 0;
    for (int e = -1; pow(10, e) <= range->high * 10; e++)
        for (int m = 0; m < count; m++) {
            const double at = marks[m] * pow(10, e);
            if (at > range->low / 2 && at < range->high * 2) fprintf(s->file, "%s'%.6g' %.9g", n++ ? ", " : "", at, at);
        }
    fprintf(s->file, ")\nset yrange [%.9g:%.9g]\n", range->low / ROOM, range->high * ROOM);
}

static double height_of(const runs_range *range, int is_perplexity, double value) {
    return is_perplexity ? log(value / range->low * ROOM) / log(range->high / range->low * ROOM * ROOM) : (value + 4) / 108;
}

/* A line that ends early is named where it ends, others to the right. */
static void label_ends(const plot_table *t, plot_script *s, const runs_panel *p, const runs_range *range) {
    plot_end ends[PLOT_ENDS];
    int lines = 0, index = 0;
    for (int64_t r = 0; r < t->rows && lines < PLOT_ENDS; r++) {
        if (!is_drawn(t, p, r) || !begins_line(t, r)) continue;
        const char *name = plot_table_text(t, r, COLUMN_METHOD);
        int64_t last = r;
        for (int64_t k = r; k < t->rows; k++)
            if (same_line(t, r, k) && plot_table_number(t, k, COLUMN_LENGTH) >= plot_table_number(t, last, COLUMN_LENGTH))
                last = k;
        const double x = plot_table_number(t, last, COLUMN_LENGTH), y = plot_table_number(t, last, COLUMN_VALUE);
        const gyre_report_look look = plot_look_of(t, r, COLUMN_METHOD, index++);
        if (x < range->x_high) {
            fputs("set label ", s->file);
            plot_text(s, name);
            fprintf(s->file, " at first %.9g, first %.9g left offset 1.2,0 front boxed textcolor rgb '#202124'\n", x, y);
            continue;
        }
        ends[lines++] = (plot_end){name, look, height_of(range, t->columns == plot_perplexity_columns, y)};
    }
    plot_end_labels(s, ends, lines);
}

/* out = 1 if any row has a range. */
static int has_ranges(const plot_table *t) {
    int ranges = 0;
    for (int64_t r = 0; r < t->rows; r++)
        ranges |= plot_table_number(t, r, COLUMN_LOW) < plot_table_number(t, r, COLUMN_HIGH);
    return ranges;
}

static void draw_panel_lines(const plot_table *t, plot_script *s, const runs_panel *p, const runs_range *range) {
    char look[PLOT_LOOK];
    const int bands = has_ranges(t);
    int lines = 0;
    for (int64_t r = 0; r < t->rows; r++)
        if (is_drawn(t, p, r) && begins_line(t, r)) put_line(t, s, r);
    label_ends(t, s, p, range);
    fputs("plot ", s->file);
    for (int64_t r = 0; r < t->rows; r++) {
        if (!is_drawn(t, p, r) || !begins_line(t, r)) continue;
        const gyre_report_look of = plot_look_of(t, r, COLUMN_METHOD, lines);
        if (lines) fputs(", ", s->file);
        if (bands)
            fprintf(s->file,
                    "$line%lld using 1:3:4 with filledcurves fillstyle transparent solid 0.12 noborder linecolor "
                    "rgb '%s' notitle, ",
                    (long long)r, plot_color(of));
        fprintf(s->file, "$line%lld using 1:2 with linespoints %s linewidth 2.2 pointsize 0.9 notitle", (long long)r,
                plot_look(of, look));
        lines++;
    }
    fputc('\n', s->file);
}

/* Panels of families are narrow and in two columns: a page of 400 pixels still shows their words. */
enum { SPLIT_LEFT = 68, SPLIT_PANEL = 214, SPLIT_TOP = 90, SPLIT_HEIGHT = 316, SPLIT_FOOT = 30 };
static plot_box split_box(const plot_script *s, const runs_layout *l, int slot, int is_alone) {
    const int row = slot / 2, column = slot % 2, width = s->width / (is_alone ? 1 : 2);
    const double left = 0.5 * column * s->width + SPLIT_LEFT, top = SPLIT_TOP + row * SPLIT_HEIGHT;
    return (plot_box){left / s->width, (left + width - SPLIT_LEFT - l->room) / s->width,
                      1 - (top + SPLIT_HEIGHT - 110) / s->height, 1 - top / s->height};
}

static plot_box whole_box(const plot_script *s, const runs_layout *l, int index) {
    plot_box box = plot_grid(s, index, l->count, l->count > 1 ? 2 : 1);
    box.right -= (double)(l->room - 20) / s->width;
    if (l->count > 2) box.top -= 26.0 / s->height; /* for the panel's title, below the axis of the row above */
    return box;
}

static void begin_lines(plot_script *s, const runs_layout *l, const char *title) {
    const int slots = (l->whole + 1) / 2 * 2 + l->count - l->whole, rows = (slots + 1) / 2;
    if (l->is_split)
        plot_script_start(s, 2 * (SPLIT_LEFT + SPLIT_PANEL + l->room), 44 + SPLIT_HEIGHT * rows + SPLIT_FOOT, title);
    else
        plot_script_start(s, l->count > 1 ? 1120 : 860, 44 + (l->count > 2 ? 450 : 420) * ((l->count + 1) / 2), title);
}

/* Below the last panel. */
static void put_note(plot_script *s, int is_perplexity) {
    fprintf(s->file,
            "set label 'A panel for each family of methods, each with none, the model without a method.%s' at screen 0.5, "
            "screen %.4f center font ',12' textcolor rgb '#3c4043'\n",
            is_perplexity ? "  Ranges differ." : "", 16.0 / s->height);
}

static void title_panel(const plot_table *t, plot_script *s, const runs_panel *p) {
    char title[2 * PLOT_LABEL];
    snprintf(title, sizeof title, p->family == ALL_FAMILIES ? "%s%s" : "%s (%s)", t->labels[(int)p->run],
             p->family == ALL_FAMILIES ? "" : families[p->family].title);
    plot_panel_title(s, title);
}

/* A panel for each run, or for each family of methods of a run. */
static void draw_lines(const plot_work *w, plot_script *s, const char *x, const char *y, int is_perplexity) {
    const plot_table *t = &w->table;
    runs_layout l;
    make_layout(t, &l);
    begin_lines(s, &l, t->title);
    for (int i = 0; i < l.count; i++) {
        const runs_panel *p = &l.panels[i];
        const runs_range range = range_of(t, l.is_split ? p : NULL);
        const int slot = i < l.whole ? i : i + l.whole % 2;
        plot_box_begin(s, l.is_split ? split_box(s, &l, slot, i + 1 == l.whole && slot % 2 == 0) : whole_box(s, &l, i));
        if (l.count > 1) title_panel(t, s, p);
        if (l.is_split) fputs("set title offset 0,0.3\n", s->file);
        if (l.is_split && i + 1 == l.count) put_note(s, is_perplexity);
        plot_label(s, 'x', x);
        if (slot % 2 == 0) plot_label(s, 'y', y);
        plot_ticks_of_two(s, 'x', range.x_low, range.x_high);
        fprintf(s->file, "set xrange [%.9g:%.9g]\n", range.x_low / 1.07, range.x_high * 1.0001);
        if (is_perplexity)
            ticks_of_perplexity(s, &range);
        else
            fputs("set yrange [-4:104]\n", s->file);
        mark_trained(w, s, range.x_low, range.x_high);
        draw_panel_lines(t, s, p, &range);
    }
}

static void draw_perplexity(const plot_work *w, plot_script *s) {
    draw_lines(w, s, "context (tokens)",
               !has_ranges(&w->table) ? "perplexity (log)"
               : w->seeds             ? "perplexity (log); band: seeds"
                                      : "perplexity (log); band: 95 %",
               1);
}

const plot_kind plot_perplexity = {"perplexity",
                                   "perplexity by context, of files that gyre eval or gyre lab wrote",
                                   PLOT_TAKES_NOTHING,
                                   PLOT_FILES,
                                   PLOT_OPTION_TRAINED | PLOT_OPTION_METHODS,
                                   compute_perplexity,
                                   draw_perplexity};

/* -- passkey -- */
static gyre_status compute_passkey(plot_work *w, gyre_error *err) {
    const gyre_status status = plot_results_read(w, RUNS_KEYS, err);
    int64_t deep = 0;
    for (int64_t r = 0; r < w->table.rows && !status; r++)
        deep += isfinite(plot_table_number(&w->table, r, COLUMN_DEPTH)) != 0;
    if (status || deep == 0 || deep == w->table.rows) return status;
    return gyre_fail(err, GYRE_EINVAL, "results: some say the depth of the key and some do not; draw them apart (passkey)");
}

/* The values of a column, each once, rising: the place of one is its index. */
typedef struct runs_places {
    double values[MOST_RESULTS];
    int count;
} runs_places;

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void find_places(const plot_table *t, int column, runs_places *out) {
    const int rows = t->rows < MOST_RESULTS ? (int)t->rows : MOST_RESULTS;
    out->count = 0;
    for (int r = 0; r < rows; r++)
        out->values[r] = plot_table_number(t, r, column);
    qsort(out->values, (size_t)rows, sizeof *out->values, by_value);
    for (int r = 0; r < rows; r++)
        if (r == 0 || out->values[r] != out->values[r - 1]) out->values[out->count++] = out->values[r];
}

static int place_of(const runs_places *p, double value) {
    const double *at = bsearch(&value, p->values, (size_t)p->count, sizeof value, by_value);
    return at ? (int)(at - p->values) : 0;
}

static void put_places(const runs_places *p, plot_script *s, char axis, const char *unit) {
    fprintf(s->file, "set %ctics (", axis);
    for (int i = 0; i < p->count; i++)
        fprintf(s->file, "%s'%g%s' %d", i ? ", " : "", p->values[i], unit, i);
    fputs(")\n", s->file);
}

/* Length by depth for one method: a square for each, with its number. */
static void draw_map(const plot_work *w, plot_script *s, int64_t first, const runs_places *lengths,
                     const runs_places *depths, plot_box box, int left_most) {
    const plot_table *t = &w->table;
    char title[2 * PLOT_LABEL + 4];
    fputs("$map << EOD\n", s->file);
    for (int64_t r = first; r < t->rows; r++)
        if (same_line(t, first, r))
            fprintf(s->file, "%d %d %.9g\n", place_of(lengths, plot_table_number(t, r, COLUMN_LENGTH)),
                    place_of(depths, plot_table_number(t, r, COLUMN_DEPTH)), plot_table_number(t, r, COLUMN_VALUE));
    fputs("EOD\n", s->file);
    plot_box_begin(s, box);
    snprintf(title, sizeof title, w->options->files_count > 1 ? "%s: %s" : "%s%s",
             w->options->files_count > 1 ? plot_table_text(t, first, COLUMN_RUN) : "",
             plot_table_text(t, first, COLUMN_METHOD));
    plot_panel_title(s, title);
    plot_label(s, 'x', "length (tokens)");
    if (left_most) plot_label(s, 'y', "depth of the key");
    put_places(lengths, s, 'x', "");
    put_places(depths, s, 'y', " %%");
    fprintf(s->file,
            "unset grid\nset border 15\nset xrange [-0.5:%g]\nset yrange [%g:-0.5]\nset cbrange [0:100]\n"
            "set palette defined (0 '#ffffff', 1 '#5aa7dc')\nset style fill solid 1 border rgb '#ffffff'\n"
            "plot $map using 1:2:(0.48):(0.48):3 with boxxyerror linecolor palette notitle, "
            "$map using 1:2:(sprintf('%%.0f', $3)) with labels font ',12' textcolor rgb '#202124' notitle\n",
            lengths->count - 0.5, depths->count - 0.5);
}

/* out = maps of lengths and depths, one for each method of a run; 0 = nothing says a depth. */
static int maps_of(const plot_table *t) {
    int maps = 0, depths = 0;
    for (int64_t r = 0; r < t->rows; r++) {
        maps += begins_line(t, r);
        depths |= isfinite(plot_table_number(t, r, COLUMN_DEPTH));
    }
    return depths ? maps : 0;
}

int plot_runs_fit(const plot_table *t) {
    static runs_places lengths, depths;
    const int keys = t->columns == plot_passkey_columns, of_runs = keys || t->columns == plot_perplexity_columns;
    if (!of_runs && t->columns != plot_copying_columns) return 0;
    if (t->rows > MOST_RESULTS)
        return cli_fail("results: %lld do not fit one figure, which holds %d; --csv prints them (plot)", (long long)t->rows,
                        MOST_RESULTS);
    const int maps = keys ? maps_of(t) : 0;
    if (maps) find_places(t, COLUMN_LENGTH, &lengths), find_places(t, COLUMN_DEPTH, &depths);
    if (maps <= MOST_PANELS && lengths.count <= MOST_PLACES && depths.count <= MOST_PLACES) return 0;
    return cli_fail("results: %d, %d and %d methods, lengths and depths do not fit one figure, which holds %d, %d and %d; "
                    "--csv prints them (plot)",
                    maps, lengths.count, depths.count, MOST_PANELS, MOST_PLACES, MOST_PLACES);
}

static void draw_passkey(const plot_work *w, plot_script *s) {
    static runs_places lengths, depths;
    const plot_table *t = &w->table;
    const int maps = maps_of(t);
    int index = 0;
    if (!maps) {
        draw_lines(w, s, "context (tokens)", has_ranges(t) ? "keys found (%); band: 95 %" : "keys found (%)", 0);
        return;
    }
    find_places(t, COLUMN_LENGTH, &lengths);
    find_places(t, COLUMN_DEPTH, &depths);
    const int across = maps < 3 ? maps : 3;
    plot_script_start(s, across == 1 ? 560 : 380 * across, 44 + 300 * ((maps + across - 1) / across), "Keys found (%)");
    for (int64_t r = 0; r < t->rows; r++) {
        if (!begins_line(t, r)) continue;
        draw_map(w, s, r, &lengths, &depths, plot_grid(s, index, maps, across), index % across == 0);
        index++;
    }
}

const plot_kind plot_passkey = {"passkey",
                                "keys found by length and depth, of files that gyre passkey, gyre eval or gyre lab wrote",
                                PLOT_TAKES_NOTHING,
                                PLOT_FILES,
                                PLOT_OPTION_TRAINED | PLOT_OPTION_METHODS,
                                compute_passkey,
                                draw_passkey};

/* -- copying -- */
static gyre_status compute_copying(plot_work *w, gyre_error *err) {
    return plot_results_read(w, RUNS_COPIES, err);
}

static void draw_copying(const plot_work *w, plot_script *s) {
    draw_lines(w, s, "context (tokens)", has_ranges(&w->table) ? "bytes right (%); band: 95 %" : "bytes right (%)", 0);
}

const plot_kind plot_copying = {"copying",
                                "copied bytes right by context, of files that gyre lab wrote",
                                PLOT_TAKES_NOTHING,
                                PLOT_FILES,
                                PLOT_OPTION_TRAINED | PLOT_OPTION_METHODS,
                                compute_copying,
                                draw_copying};
