/* plot_clock.c: pairs as hands of a clock.  A row is a method, a column a pair: the angle between query and key at one
 * distance, how far it grows with a token, and which part of the dial training showed.  A score sees no other angle: both
 * hands may be anywhere. */
#include "tools/plot/plot.h"
#include "util/plain_numbers.h"
#include <math.h>
#include <string.h>

enum {
    COLUMN_METHOD,
    COLUMN_PAIR,
    COLUMN_DISTANCE,
    COLUMN_STEP,
    COLUMN_TURNS,
    COLUMN_ANGLE,
    COLUMN_REACHED,
    COLUMN_EXCESS,
    COLUMNS
};
static const plot_column columns[] = {
    {"method", NULL},   {"pair", ""},     {"distance", "tokens"},         {"step", "rad/token"},
    {"turns", "turns"}, {"angle", "rad"}, {"reached_in_training", "rad"}, {"excess", "arc"},
    {NULL, NULL}};
enum { DIALS = 6 };
static const double TURN = 6.283185307179586;

/* -- numbers -- */
static void add_hand(plot_table *t, const plot_case *c, double name, const double *inv_freq, int64_t pair, double distance) {
    const double angle = distance * inv_freq[pair];
    const double reached = fmin(TURN, c->original[pair] * (double)c->trained);
    const double wrapped = plot_wrap(angle);
    plot_table_add(t, (double[COLUMNS]){name, (double)pair, distance, inv_freq[pair], angle / TURN,
                                        wrapped < 0 ? wrapped + TURN : wrapped, reached, plot_excess(c, pair, angle)});
}

static void add_hands(plot_table *t, const plot_case *c, const char *label, const double *inv_freq, double distance) {
    const double name = plot_table_label(t, label);
    const int64_t dials = c->pairs < DIALS ? c->pairs : DIALS;
    for (int64_t d = 0; d < dials; d++)
        add_hand(t, c, name, inv_freq, dials > 1 ? (d * (c->pairs - 1) + (dials - 1) / 2) / (dials - 1) : 0, distance);
}

/* Of two models, each has its own trained length; its row says it. */
static void set_title(plot_work *w, double distance) {
    const plot_subject *a = &w->subjects[0], *b = &w->subjects[w->subjects_count - 1];
    plot_table *t = &w->table;
    if (w->subjects_count == 1)
        snprintf(t->title, sizeof t->title, "Query and key %.0f tokens apart, pair by pair: trained on %lld tokens",
                 distance, (long long)a->trained);
    else
        gyre_plain_snprintf(t->title, sizeof t->title,
                            "Query and key, pair by pair: %.60s, trained on %lld tokens, and %.60s, on %lld", a->label,
                            (long long)a->trained, b->label, (long long)b->trained);
}

/* The first case of a model shows how it was trained; each is shown at the length that it is stretched to. */
static void add_case(plot_work *w, const plot_case *c, int is_first) {
    const double asked = (double)w->options->position, distance = asked >= 0 ? asked : (double)(c->to - 1);
    char label[PLOT_LABEL];
    if (is_first && w->subjects_count > 1)
        gyre_plain_snprintf(label, sizeof label, "%.50s as trained, at %lld", c->subject->label, (long long)c->trained - 1);
    else if (is_first)
        snprintf(label, sizeof label, "as trained, at %lld", (long long)c->trained - 1);
    if (is_first) add_hands(&w->table, c, label, c->original, (double)(c->trained - 1));
    gyre_plain_snprintf(label, sizeof label, "%.60s, at %.0f", c->label, distance);
    add_hands(&w->table, c, label, c->inv_freq, distance);
    if (is_first && c->subject == w->subjects) set_title(w, distance);
}

static gyre_status compute(plot_work *w, gyre_error *err) {
    plot_case cases[PLOT_CASES];
    int count = 0;
    plot_table_columns(&w->table, columns);
    const gyre_status status =
        plot_cases_make(w->options, w->subjects, w->subjects_count, "none,linear,ntk,yarn", cases, &count, err);
    if (status) return status;
    for (int i = 0; i < count; i++)
        add_case(w, &cases[i], i == 0 || cases[i].subject != cases[i - 1].subject);
    plot_cases_free(cases, count);
    return GYRE_OK;
}

/* -- the figure -- */
enum {
    SIDE = 140,
    TOP = 62,
    HEADING = 26,
    FOOT = 22,
    FOOT_LINE = 20,
    FOOT_CHARACTER = 7, /* at most, in the mean of a line */
    NAME_CHARACTER = 7,
    TITLE_CHARACTER = 8,
    MOST_TITLE = 960,
    MIN_NAMES = 150,
    MARKS = 8
};
static const char *const captions[] = {
    "The key is at the top.  The hand is the query, so many tokens later: a score sees the angle between the two, wherever "
    "both stand.  Grey: one token nearer.",
    "Blue: the angles between query and key that training showed.  A hand past them is coloured, from yellow just past to "
    "red a whole arc past."};

/* Clockwise from the top, as a clock. */
static void put_hand(plot_script *s, double angle, double length, const char *style) {
    fprintf(s->file, "set arrow from 0,0 to %.6f,%.6f %s\n", length * sin(angle), length * cos(angle), style);
}

/* A mark every eighth of a turn; the quarters are longer, and on the first dial they are named. */
static void put_marks(plot_script *s, int with_names) {
    static const struct {
        double x, y;
        const char *name;
    } quarters[] = {{0, 1.17, "0"}, {1.14, 0, "¼"}, {0, -1.17, "½"}, {-1.14, 0, "¾"}};
    for (int i = 0; i < MARKS; i++) {
        const double angle = i * TURN / MARKS, from = i % 2 ? 0.92 : 0.85;
        fprintf(s->file, "set arrow from %.6f,%.6f to %.6f,%.6f nohead front linewidth 1.2 linecolor rgb '#5f6368'\n",
                from * sin(angle), from * cos(angle), sin(angle), cos(angle));
    }
    for (int i = 0; with_names && i < 4; i++)
        fprintf(s->file, "set label '%s' at %g,%g center font ',10' textcolor rgb '#5f6368'\n", quarters[i].name,
                quarters[i].x, quarters[i].y);
}

/* How slow the hand is, as of the hands of a clock: one turn in 60 minutes, one in 12 hours.  A pair without a frequency
 * has no period. */
static void put_period(plot_script *s, double period) {
    const int digits = period < 10 ? 2 : period < 1000 ? 1 : 0;
    if (!isfinite(period)) {
        fputs("set label 'does not rotate'", s->file);
    } else if (period < 1e6) {
        fprintf(s->file, "set label '1 turn in %.*f tokens'", digits, period);
    } else {
        const int power = (int)floor(log10(period));
        fprintf(s->file, "set label '1 turn in %.1fe%d tokens'", period / pow(10, power), power);
    }
    fputs(" at 0,-1.7 center font ',11' textcolor rgb '#5f6368'\n", s->file);
}

static void draw_dial(const plot_table *t, plot_script *s, int64_t r, plot_box box) {
    const double angle = plot_table_number(t, r, COLUMN_ANGLE), step = plot_table_number(t, r, COLUMN_STEP);
    const double reached = plot_table_number(t, r, COLUMN_REACHED), turns = plot_table_number(t, r, COLUMN_TURNS);
    const double excess = plot_table_number(t, r, COLUMN_EXCESS);
    char style[96];
    snprintf(style, sizeof style, "head filled size 0.16,22 linewidth 3 linecolor rgb %d",
             excess > 0 ? gyre_report_excess_color(excess) : 0x202124);
    plot_box_begin(s, box);
    fputs("unset border\nunset xtics\nunset ytics\nset size ratio -1\nset xrange [-1.55:1.55]\nset yrange [-1.85:1.25]\n",
          s->file);
    fprintf(s->file,
            "set object 1 circle at 0,0 size 1 arc [%.4f:%d] fillcolor rgb '#b7d6ec' fillstyle solid noborder\n"
            "set object 2 circle at 0,0 size 1 fillstyle empty border linecolor rgb '#5f6368' linewidth 1.2\n",
            reached >= TURN ? 0.0 : 90 - reached * 360 / TURN, reached >= TURN ? 360 : 90);
    put_marks(s, r == 0);
    put_hand(s, angle - step, 0.78, "nohead linewidth 1.4 linecolor rgb '#80868b'");
    put_hand(s, angle, 0.95, style);
    /* With a word on the excess a number has a digit less and smaller letters: dials stand close together. */
    const int past = excess > 0;
    if (turns < 1000)
        fprintf(s->file, "set label '%.*g turn%s", past ? 3 : 4, turns, turns == 1 ? "" : "s");
    else
        fprintf(s->file, "set label '%.0f turns", turns);
    if (past) fprintf(s->file, excess < 0.1 ? ", %.1f %% past" : ", %.0f %% past", 100 * excess);
    fprintf(s->file, "' at 0,-1.42 center font ',%d' textcolor rgb '%s'\n", past ? 10 : 11, past ? "#b34700" : "#3c4043");
    put_period(s, TURN / step);
    fputs("plot NaN notitle\nset size noratio\nset border 3\n", s->file);
}

/* out = the bytes of the next line of a text: whole words, no wider than the picture. */
static size_t caption_line(const char *text, int width) {
    size_t end = 0, word = strcspn(text, " ");
    while (word > 0 && (end == 0 || (int)word * FOOT_CHARACTER <= width)) {
        end = word;
        word += strspn(text + word, " ");
        word = text[word] ? word + strcspn(text + word, " ") : 0;
    }
    return end;
}

/* Writes the captions below the dials, `count` lines in all; NULL: counts the lines.  out = lines. */
static int put_captions(plot_script *s, int width, int count) {
    int line = 0;
    for (int i = 0; i < 2; i++)
        for (const char *at = captions[i]; *at; line++) {
            const size_t length = caption_line(at, width);
            if (s)
                fprintf(s->file, "set label '%.*s' at screen 0.5, screen %.4f center font ',12' textcolor rgb '#3c4043'\n",
                        (int)length, at, (16.0 + FOOT_LINE * (count - 1 - line)) / s->height);
            at += length;
            at += strspn(at, " ");
        }
    return line;
}

/* Text of the whole picture is drawn with a separate panel, which shows nothing else. */
static void put_texts(const plot_table *t, plot_script *s, const plot_group *g, plot_box row, int has_heading) {
    plot_box_begin(s, row);
    fputs("set label 1 ", s->file);
    plot_text(s, g->name);
    fprintf(s->file, " at screen %.4f, screen %.4f left font ',13' textcolor rgb '#202124'\n", 12.0 / s->width,
            row.bottom + (row.top - row.bottom) * 1.85 / 3.1);
    for (int64_t r = g->first; r < g->end && has_heading; r++)
        fprintf(s->file, "set label 'pair %.0f' at screen %.4f, screen %.4f center font ',13' textcolor rgb '#202124'\n",
                plot_table_number(t, r, COLUMN_PAIR), row.left + ((double)(r - g->first) + 0.5) * SIDE / s->width,
                row.top + 10.0 / s->height);
    if (g->end == t->rows) (void)put_captions(s, s->width, put_captions(NULL, s->width, 0));
    fputs("set border 0\nunset xtics\nunset ytics\nset xrange [0:1]\nset yrange [0:1]\nplot NaN notitle\nset border 3\n",
          s->file);
}

/* out = 1 if the row shows other pairs than the row before it: models may have more and fewer. */
static int has_other_pairs(const plot_table *t, int64_t first, int64_t dials, int64_t before, int64_t dials_before) {
    int differ = dials != dials_before;
    for (int64_t d = 0; d < dials && !differ; d++)
        differ = plot_table_number(t, first + d, COLUMN_PAIR) != plot_table_number(t, before + d, COLUMN_PAIR);
    return differ;
}

static void draw(const plot_work *w, plot_script *s) {
    const plot_table *t = &w->table;
    int64_t most = 0, before = 0, dials_before = 0;
    size_t longest = 0;
    int headings = 0, rows = 0;
    for (plot_group g = {0}; plot_group_next(t, COLUMN_METHOD, &g);
         before = g.first, dials_before = g.end - g.first, rows++) {
        headings += has_other_pairs(t, g.first, g.end - g.first, before, dials_before);
        most = g.end - g.first > most ? g.end - g.first : most;
        longest = strlen(g.name) > longest ? strlen(g.name) : longest;
    }
    const double left = fmax(MIN_NAMES, 12 + (double)longest * NAME_CHARACTER);
    int y = TOP;
    const double of_title = fmin(24 + (double)strlen(t->title) * TITLE_CHARACTER, MOST_TITLE);
    const int width = (int)fmax(left + (double)(SIDE * most) + 16, of_title),
              foot = FOOT + FOOT_LINE * put_captions(NULL, width, 0);
    plot_script_start(s, width, TOP + SIDE * rows + HEADING * headings + foot, t->title);
    before = dials_before = 0;
    for (plot_group g = {0}; plot_group_next(t, COLUMN_METHOD, &g); y += SIDE) {
        const int64_t dials = g.end - g.first;
        const int has_heading = has_other_pairs(t, g.first, dials, before, dials_before);
        y += has_heading * HEADING;
        plot_box row = {left / s->width, (left + (double)(SIDE * dials)) / s->width, 1 - (double)(y + SIDE) / s->height,
                        1 - (double)y / s->height};
        put_texts(t, s, &g, row, has_heading);
        for (int64_t d = 0; d < dials; d++) {
            plot_box box = row;
            box.left = (left + (double)(SIDE * d)) / s->width;
            box.right = (left + (double)(SIDE * (d + 1))) / s->width;
            draw_dial(t, s, g.first + d, box);
        }
        before = g.first;
        dials_before = dials;
    }
}

const plot_kind plot_clock = {"clock",
                              "pairs as hands of a clock: the angle between query and key at a distance, under each method",
                              PLOT_TAKES_SUBJECT,
                              1,
                              PLOT_OPTIONS_STRETCH | PLOT_OPTION_POSITION,
                              compute,
                              draw};
