/* plot_clock.c: pairs as hands of a clock.  A row is a method, a column a pair: where the hand points at one position, how
 * far it moves with a token, and which part of the dial training showed. */
#include "tools/plot/plot.h"
#include <math.h>

enum {
    COLUMN_METHOD,
    COLUMN_PAIR,
    COLUMN_POSITION,
    COLUMN_STEP,
    COLUMN_TURNS,
    COLUMN_ANGLE,
    COLUMN_REACHED,
    COLUMN_SEEN,
    COLUMNS
};
static const plot_column columns[] = {
    {"method", NULL},   {"pair", ""},     {"position", "tokens"},         {"step", "rad/token"},
    {"turns", "turns"}, {"angle", "rad"}, {"reached_in_training", "rad"}, {"is_seen", ""},
    {NULL, NULL}};
enum { DIALS = 6 };
static const double TURN = 6.283185307179586;

/* -- numbers -- */
static void add_hand(plot_table *t, const plot_case *c, double name, const double *inv_freq, int64_t pair, double position) {
    const double angle = position * inv_freq[pair];
    const double reached = fmin(TURN, c->original[pair] * (double)c->trained);
    const double wrapped = plot_wrap(angle);
    plot_table_add(t, (double[COLUMNS]){name, (double)pair, position, inv_freq[pair], angle / TURN,
                                        wrapped < 0 ? wrapped + TURN : wrapped, reached, plot_is_seen(c, pair, angle)});
}

static void add_hands(plot_table *t, const plot_case *c, const char *label, const double *inv_freq, double position) {
    const double name = plot_table_label(t, label);
    const int64_t dials = c->pairs < DIALS ? c->pairs : DIALS;
    for (int64_t d = 0; d < dials; d++)
        add_hand(t, c, name, inv_freq, dials > 1 ? (d * (c->pairs - 1) + (dials - 1) / 2) / (dials - 1) : 0, position);
}

static gyre_status compute(plot_work *w, gyre_error *err) {
    plot_case cases[PLOT_CASES];
    int count = 0;
    char label[PLOT_LABEL];
    plot_table *t = &w->table;
    plot_table_columns(t, columns);
    gyre_status status =
        plot_cases_make(w->options, w->subjects, w->subjects_count, "none,linear,ntk,yarn", cases, &count, err);
    if (status) return status;
    const plot_case *c = &cases[0];
    const double position = w->options->position >= 0 ? (double)w->options->position : (double)(c->to - 1);
    snprintf(t->title, sizeof t->title, "Pairs as hands: trained on %lld tokens, now at position %.0f",
             (long long)c->trained, position);
    snprintf(label, sizeof label, "as trained, at %lld", (long long)c->trained - 1);
    add_hands(t, c, label, c->original, (double)(c->trained - 1));
    for (int i = 0; i < count; i++) {
        snprintf(label, sizeof label, "%.60s, at %.0f", cases[i].label, position);
        add_hands(t, &cases[i], label, cases[i].inv_freq, position);
    }
    plot_cases_free(cases, count);
    return GYRE_OK;
}

/* -- the figure -- */
/* Clockwise from the top, as a clock. */
static void put_hand(plot_script *s, double angle, double length, const char *style) {
    fprintf(s->file, "set arrow from 0,0 to %.6f,%.6f %s\n", length * sin(angle), length * cos(angle), style);
}

static void draw_dial(const plot_table *t, plot_script *s, int64_t r, plot_box box) {
    const double angle = plot_table_number(t, r, COLUMN_ANGLE), step = plot_table_number(t, r, COLUMN_STEP);
    const double reached = plot_table_number(t, r, COLUMN_REACHED), turns = plot_table_number(t, r, COLUMN_TURNS);
    const int seen = plot_table_number(t, r, COLUMN_SEEN) != 0;
    plot_box_begin(s, box);
    fputs("unset border\nunset xtics\nunset ytics\nset size ratio -1\nset xrange [-1.45:1.45]\nset yrange [-1.75:1.15]\n",
          s->file);
    fprintf(s->file,
            "set object 1 circle at 0,0 size 1 arc [%.4f:%d] fillcolor rgb '#b7d6ec' fillstyle solid noborder\n"
            "set object 2 circle at 0,0 size 1 fillstyle empty border linecolor rgb '#5f6368' linewidth 1.2\n",
            reached >= TURN ? 0.0 : 90 - reached * 360 / TURN, reached >= TURN ? 360 : 90);
    put_hand(s, angle - step, 0.78, "nohead linewidth 1.4 linecolor rgb '#80868b' dashtype (4,3)");
    put_hand(s, angle, 0.95,
             seen ? "head filled size 0.16,22 linewidth 3 linecolor rgb '#202124'"
                  : "head filled size 0.16,22 linewidth 3 linecolor rgb '#d55e00'");
    fprintf(s->file, "set label '%.4g turn%s%s' at 0,-1.28 center font ',11' textcolor rgb '%s'\n", turns,
            turns == 1 ? "" : "s", seen ? "" : ", unseen", seen ? "#3c4043" : "#b34700");
    fprintf(s->file, "set label '%.3g rad a token' at 0,-1.62 center font ',11' textcolor rgb '#5f6368'\n", step);
    fputs("plot NaN notitle\nset size noratio\nset border 3\n", s->file);
}

static void draw(const plot_work *w, plot_script *s) {
    const plot_table *t = &w->table;
    const int rows = plot_table_groups(t, COLUMN_METHOD);
    const int64_t dials = plot_table_group_end(t, 0, COLUMN_METHOD);
    const double top = 84, foot = 40, left = 150, side = 140;
    plot_script_start(s, (int)(left + side * (double)dials + 16), (int)(top + side * rows + foot), t->title);
    for (int64_t r = 0; r < t->rows; r++) {
        const int64_t line = r / dials;
        const double column = (double)(r % dials), row = (double)line;
        const plot_box box = {(left + side * column) / s->width, (left + side * (column + 1)) / s->width,
                              1 - (top + side * (row + 1)) / s->height, 1 - (top + side * row) / s->height};
        draw_dial(t, s, r, box);
        fputs("unset label\n", s->file);
        if (row == 0)
            fprintf(s->file,
                    "set label 1 'pair %.0f' at screen %.4f, screen %.4f center font ',13' textcolor rgb '#202124'\n",
                    plot_table_number(t, r, COLUMN_PAIR), (box.left + box.right) / 2, 1 - (top - 14) / s->height);
        if (column == 0) {
            fputs("set label 2 ", s->file);
            plot_text(s, plot_table_text(t, r, COLUMN_METHOD));
            fprintf(s->file, " at screen %.4f, screen %.4f left font ',13'\n", 12.0 / s->width,
                    box.bottom + (box.top - box.bottom) * 1.75 / 2.9);
        }
        if (r + 1 == t->rows)
            fprintf(s->file,
                    "set label 3 'Blue: the part of the dial that the pair showed in training.  Grey: the hand one token "
                    "before.  Orange hand: an angle that training never showed.' at screen 0.5, screen %.4f center font "
                    "',12' textcolor rgb '#3c4043'\n",
                    16.0 / s->height);
        fputs(
            "set border 0\nunset xtics\nunset ytics\nset object 1 circle at 0,0 size 0.001\nunset object\nunset arrow\nplot "
            "NaN notitle\nset border 3\n",
            s->file);
    }
}

const plot_kind plot_clock = {"clock",
                              "pairs as hands of a clock, and what each method does to them",
                              PLOT_TAKES_SUBJECT,
                              1,
                              PLOT_OPTIONS_STRETCH | PLOT_OPTION_POSITION,
                              compute,
                              draw};
