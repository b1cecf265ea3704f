/* plot_hands.c: a wall clock of three hands, which shows 12 hours, read for longer: as it is, with all hands slowed down
 * (linear), and with the hands slowed down the more, the slower they are, and the fastest not at all (NTK).  The hands are a
 * rotation of three pairs, whose trained length is 43200 tokens of a second. */
#include "tools/plot/plot.h"
#include <math.h>

enum {
    COLUMN_METHOD,
    COLUMN_HAND,
    COLUMN_DIVISOR,
    COLUMN_STEP,
    COLUMN_PERIOD,
    COLUMN_TRAINED_TURNS,
    COLUMN_TURNS,
    COLUMN_END_TURNS,
    COLUMN_ANGLE,
    COLUMNS
};
static const plot_column columns[] = {{"method", NULL},   {"hand", NULL},
                                      {"slowed_by", ""},  {"step", "rad/s"},
                                      {"period", "s"},    {"turns_in_trained_length", "turns"},
                                      {"turns", "turns"}, {"turns_at_the_end", "turns"},
                                      {"angle", "rad"},   {NULL, NULL}};
enum { HANDS = 3, METHODS = 3, TRAINED = 43200, FACTOR = 3, READ = 100000 };
static const double TURN = 6.283185307179586;
static const struct {
    const char *name;
    double period, length, width;
} hands[HANDS] = {{"second", 60, 0.95, 1.6}, {"minute", 3600, 0.8, 3}, {"hour", TRAINED, 0.55, 5}};
static const char *const methods[METHODS] = {"none", "linear", "ntk"};

/* -- numbers -- */
/* NTK divides pair i of n by s^(i / (n - 1)). */
static double divisor(int m, int hand, double s) {
    return m == 0 ? 1 : m == 1 ? s : pow(s, (double)hand / (HANDS - 1));
}

static gyre_status compute(plot_work *w, gyre_error *err) {
    const plot_options *o = w->options;
    const double s = o->factor > 0 ? o->factor : FACTOR, end = s * TRAINED;
    const double at = o->position >= 0 ? (double)o->position : fmin(READ, end);
    plot_table *t = &w->table;
    if (at > end)
        return gyre_fail(err, GYRE_EINVAL, "position: %.0f s are past the end, %.0f s; --factor moves it (plot hands)", at,
                         end);
    plot_table_columns(t, columns);
    snprintf(t->title, sizeof t->title, "A clock made for %d s, read at %.0f s of %.0f s", TRAINED, at, end);
    for (int m = 0; m < METHODS; m++) {
        const double name = plot_table_label(t, methods[m]);
        for (int h = 0; h < HANDS; h++) {
            const double by = divisor(m, h, s), period = hands[h].period * by, turns = at / period;
            plot_table_add(t,
                           (double[COLUMNS]){name, plot_table_label(t, hands[h].name), by, TURN / period, period,
                                             TRAINED / hands[h].period, turns, end / period, (turns - floor(turns)) * TURN});
        }
    }
    return GYRE_OK;
}

/* -- the figure -- */
enum { SIDE = 300, HEAD = 60, TEXT = 115, LINE = 20 };

static void put_dial(plot_script *s) {
    fputs("unset border\nunset xtics\nunset ytics\nset size ratio -1\nset xrange [-1.1:1.1]\nset yrange [-1.1:1.1]\n"
          "set object 1 circle at 0,0 size 1 fillcolor rgb '#5f6368' fillstyle empty border rgb '#5f6368' linewidth 1.4\n",
          s->file);
    for (int i = 0; i < 60; i++) {
        const double angle = i * TURN / 60, from = i % 5 ? 0.96 : 0.89;
        fprintf(s->file, "set arrow from %.6f,%.6f to %.6f,%.6f nohead front linewidth %s linecolor rgb '#5f6368'\n",
                from * sin(angle), from * cos(angle), sin(angle), cos(angle), i % 5 ? "0.7" : "1.6");
    }
}

/* What a reader sees and what it costs: how far a hand moves in a second, and after how long the clock is as at first. */
static void put_text(const plot_table *t, plot_script *s, int64_t first, plot_box box) {
    const double middle = (box.left + box.right) / 2;
    double y = box.bottom - 14.0 / s->height;
    for (int h = 0; h < HANDS; h++) {
        const int64_t r = first + h;
        const double turns = plot_table_number(t, r, COLUMN_END_TURNS), by = plot_table_number(t, r, COLUMN_DIVISOR);
        fprintf(s->file, "set label '%s: %.3g°/s, %.4g turn%s in all", plot_table_text(t, r, COLUMN_HAND),
                plot_table_number(t, r, COLUMN_STEP) * 360 / TURN, turns, fabs(turns - 1) < 1e-9 ? "" : "s");
        if (by > 1) fprintf(s->file, ", slowed by %.3g", by);
        fprintf(s->file, "' at screen %.4f, screen %.4f center font ',11' textcolor rgb '#3c4043'\n", middle, y);
        y -= LINE / (double)s->height;
    }
    const double hour = plot_table_number(t, first + HANDS - 1, COLUMN_END_TURNS);
    fprintf(s->file, "set label '%s' at screen %.4f, screen %.4f center font ',11' textcolor rgb '%s'\n",
            hour > 1 + 1e-9 ? "past 12 hours: the same again" : "no two moments look alike", middle, y,
            hour > 1 + 1e-9 ? "#b34700" : "#3c4043");
}

static void draw(const plot_work *w, plot_script *s) {
    const plot_table *t = &w->table;
    plot_script_start(s, METHODS * (SIDE + 40), HEAD + 30 + SIDE + TEXT, t->title);
    for (plot_group g = {0}; plot_group_next(t, COLUMN_METHOD, &g);) {
        const double left = 20 + g.index * (SIDE + 40.0);
        const plot_box box = {left / s->width, (left + SIDE) / s->width, (double)TEXT / s->height,
                              (double)(TEXT + SIDE) / s->height};
        plot_box_begin(s, box);
        plot_panel_title(s, g.name);
        put_dial(s);
        for (int h = HANDS - 1; h >= 0; h--) {
            const double angle = plot_table_number(t, g.first + h, COLUMN_ANGLE);
            fprintf(s->file, "set arrow from 0,0 to %.6f,%.6f nohead front linewidth %g linecolor rgb '%s'\n",
                    hands[h].length * sin(angle), hands[h].length * cos(angle), hands[h].width,
                    h == 0 ? "#0072b2" : "#202124");
        }
        put_text(t, s, g.first, box);
        fputs("plot NaN notitle\nset size noratio\nset border 3\n", s->file);
    }
}

const plot_kind plot_hands = {"hands",
                              "a wall clock with three hands, read past the time that it shows, under linear and NTK",
                              PLOT_TAKES_NOTHING,
                              0,
                              PLOT_OPTION_FACTOR | PLOT_OPTION_POSITION,
                              compute,
                              draw};
