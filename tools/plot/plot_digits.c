/* plot_digits.c: a position written in three ways: one-hot, in binary digits, and as a sinusoid.  The sinusoid's pairs
 * slow down as digits do.  Positions run across and channels down: channels of all three are below the same positions. */
#include "tools/common/variants.h"
#include "tools/plot/plot.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMN_CODE, COLUMN_POSITION, COLUMN_CHANNEL, COLUMN_PERIOD, COLUMN_VALUE, COLUMNS };
static const plot_column columns[] = {{"code", NULL},       {"position", "tokens"}, {"channel", ""},
                                      {"period", "tokens"}, {"value", ""},          {NULL, NULL}};
enum { POSITIONS = 32, MOST_POSITIONS = 256 };
static const double TURN = 6.283185307179586;

/* -- numbers -- */
/* out = the least number of binary digits that distinguish `positions` positions. */
static int digits_of(int64_t positions) {
    int digits = 1;
    while (((int64_t)1 << digits) < positions)
        digits++;
    return digits;
}

static void add_one_hot(plot_table *t, int64_t positions) {
    const double name = plot_table_label(t, "one-hot");
    for (int64_t c = 0; c < positions; c++)
        for (int64_t p = 0; p < positions; p++)
            plot_table_add(t, (double[COLUMNS]){name, (double)p, (double)c, (double)NAN, c == p});
}

/* The lowest digit first: it is the fast one, as the first pair is. */
static void add_digits(plot_table *t, int64_t positions) {
    const double name = plot_table_label(t, "binary digits");
    for (int c = 0; c < digits_of(positions); c++)
        for (int64_t p = 0; p < positions; p++)
            plot_table_add(t, (double[COLUMNS]){name, (double)p, c, (double)((int64_t)2 << c), (double)(p >> c & 1)});
}

static gyre_status add_sinusoid(plot_table *t, double base, int64_t positions, int64_t channels, gyre_error *err) {
    const double name = plot_table_label(t, "sinusoid");
    double *rows = cli_alloc(positions * channels, sizeof *rows);
    gyre_encoding *encoding = NULL;
    gyre_status status = sinusoid_create(&encoding, channels, base, GYRE_SINUSOID_INTERLEAVED, err);
    if (!status) status = sinusoid_rows(encoding, 0, positions, rows, NULL, err);
    gyre_encoding_free(encoding);
    for (int64_t c = 0; c < channels && !status; c++) {
        const int64_t pair = c / 2;
        const double period = TURN * pow(base, 2 * (double)pair / (double)channels);
        for (int64_t p = 0; p < positions; p++)
            plot_table_add(t, (double[COLUMNS]){name, (double)p, (double)c, period, rows[p * channels + c]});
    }
    free(rows);
    return status;
}

static gyre_status compute(plot_work *w, gyre_error *err) {
    const plot_options *o = w->options;
    const int64_t positions = o->tokens ? o->tokens : POSITIONS;
    if (positions > MOST_POSITIONS)
        cli_usage_error("--tokens: %lld; a picture of digits shows at most %d", (long long)positions, MOST_POSITIONS);
    const int64_t channels = o->head_dim ? o->head_dim : 2 * digits_of(positions);
    /* Each pair half as fast as the one before it, as digits of base 2 are. */
    const double base = o->base > 0 ? o->base : pow(2, (double)channels / 2);
    plot_table_columns(&w->table, columns);
    snprintf(w->table.title, sizeof w->table.title, "Positions 0 to %lld, written in three ways", (long long)positions - 1);
    add_one_hot(&w->table, positions);
    add_digits(&w->table, positions);
    return add_sinusoid(&w->table, base, positions, channels, err);
}

/* -- the figure -- */
enum {
    WIDTH = 720,
    HEAD = 52,
    PANEL_HEAD = 26,
    GAP = 16,
    AXIS = 46,
    SCALE = 44,
    MOST_ROW = 22,
    MOST_HEIGHT = 290,
    ROW_OF_TEXT = 13
};

static int64_t channels_of(const plot_table *t, const plot_group *g) {
    return (int64_t)plot_table_number(t, g->end - 1, COLUMN_CHANNEL) + 1;
}

/* out = the height of a panel: the rows of a code with few channels are high enough for words. */
static double height_of(int64_t channels) {
    return channels * MOST_ROW < MOST_HEIGHT ? (double)(channels * MOST_ROW)
           : channels <= 24                  ? MOST_HEIGHT
                                             : 0.7 * MOST_HEIGHT;
}

/* out = 1, or a step between the channels that are named, each the sine of a pair. */
static int named_every(int64_t channels) {
    const int every = (int)ceil((double)channels * ROW_OF_TEXT / height_of(channels));
    return every > 1 ? every + every % 2 : 1;
}

/* To the left what a channel is, to the right how many tokens it takes to repeat. */
static void name_channels(const plot_table *t, plot_script *s, const plot_group *g) {
    const int64_t channels = channels_of(t, g), positions = (g->end - g->first) / channels;
    const int is_digits = g->index == 1, every = named_every(channels);
    if (g->index == 0) return;
    fputs("set ytics (", s->file);
    for (int64_t c = 0; c < channels; c += every) {
        if (c) fputs(", ", s->file);
        if (is_digits)
            fprintf(s->file, "'%lld' %lld", 1LL << c, (long long)c);
        else
            fprintf(s->file, "'%s %lld' %lld", c % 2 ? "cos" : "sin", (long long)c / 2, (long long)c);
    }
    fputs(")\n", s->file);
    for (int64_t c = 0; c < channels; c += is_digits || every > 1 ? every : 2) { /* a pair has one period */
        const double period = plot_table_number(t, g->first + c * positions, COLUMN_PERIOD);
        fprintf(s->file, "set label '%.*f' at graph 1, first %g left offset 1,0 font ',12' textcolor rgb '#3c4043'\n",
                is_digits || period >= 100 ? 0 : 1, period, (double)c + (is_digits || every > 1 ? 0 : 0.5));
    }
    fputs("set label 'repeats after' at graph 1, graph 1 left offset 1,0.8 font ',12' textcolor rgb '#3c4043'\n", s->file);
}

static void name_code(const plot_table *t, plot_script *s, const plot_group *g) {
    const int64_t channels = channels_of(t, g), positions = (g->end - g->first) / channels;
    char title[PLOT_LABEL] = "one-hot: one channel for each position";
    if (g->index == 1) snprintf(title, sizeof title, "binary digits: each half as fast as the one above it");
    if (g->index == 2 && channels == 2) snprintf(title, sizeof title, "sinusoid: one smooth digit");
    if (g->index == 2 && channels > 2)
        snprintf(title, sizeof title, "sinusoid: smooth digits; each pair %.4g times slower than the one above it",
                 plot_table_number(t, g->first + 2 * positions, COLUMN_PERIOD) /
                     plot_table_number(t, g->first, COLUMN_PERIOD));
    fputs("set label ", s->file);
    plot_text(s, title);
    fputs(" at graph 0, graph 1 left offset 0,0.8 font ',13' textcolor rgb '#202124'\n", s->file);
}

/* Light is 0, or -1 in the sinusoid; dark is 1 in all three. */
static void put_scale(plot_script *s) {
    fprintf(s->file,
            "set colorbox horizontal user origin screen 0.3, screen %.4f size screen 0.35, screen %.4f\n"
            "set cbtics ('-1 (digits: 0)' -1, '0' 0, '1' 1) scale 0 font ',11'\n",
            32.0 / s->height, 10.0 / s->height);
}

static void draw_code(const plot_table *t, plot_script *s, const plot_group *g, plot_box box) {
    const int64_t channels = channels_of(t, g), positions = (g->end - g->first) / channels;
    fprintf(s->file, "$map%d << EOD\n", g->index);
    for (int64_t r = g->first; r < g->end; r++)
        fprintf(s->file, "%.9g %.9g %.9g\n", plot_table_number(t, r, COLUMN_POSITION),
                plot_table_number(t, r, COLUMN_CHANNEL), plot_table_number(t, r, COLUMN_VALUE));
    fputs("EOD\n", s->file);
    plot_box_begin(s, box);
    name_code(t, s, g);
    plot_label(s, 'y', g->index == 0 ? "channel" : g->index == 1 ? "digit" : "channel");
    fprintf(s->file, "unset grid\nset border 15\nset xrange [-0.5:%g]\nset yrange [%g:-0.5]\nset cbrange [%d:1]\n",
            (double)positions - 0.5, (double)channels - 0.5, g->index == 2 ? -1 : 0);
    fprintf(s->file, "set xtics 0,%lld\n", positions > 64 ? (long long)positions / 8 : positions > 16 ? 4LL : 1LL);
    if (g->index == 0) fprintf(s->file, "set ytics 0,%lld\n", channels > 8 ? (long long)channels / 4 : 1LL);
    if (g->end == t->rows)
        plot_label(s, 'x', "position (tokens)");
    else
        fputs("set format x ''\n", s->file);
    if (g->end == t->rows) put_scale(s);
    name_channels(t, s, g);
    fprintf(s->file, "plot $map%d using 1:2:3 with image pixels notitle", g->index);
    /* A reader looks for the digits themselves.  Both colours change places on a dark page, as the cells do. */
    if (g->index == 1 && positions <= 40)
        fprintf(s->file,
                ", $map%d using 1:2:(sprintf('%%d', $3)):($3 > 0 ? 0xffffff : 0x202124) with labels font ',11' "
                "textcolor rgb variable notitle",
                g->index);
    fputs("\nset format x '%h'\n", s->file);
}

static void draw(const plot_work *w, plot_script *s) {
    const plot_table *t = &w->table;
    double height = HEAD + AXIS + SCALE, y = HEAD;
    for (plot_group g = {0}; plot_group_next(t, COLUMN_CODE, &g);)
        height += PANEL_HEAD + GAP + height_of(channels_of(t, &g));
    plot_script_start(s, WIDTH, (int)height, t->title);
    fputs("set palette defined (0 '#fbfaf5', 0.5 '#63a5d6', 1 '#0b3a66')\n", s->file);
    for (plot_group g = {0}; plot_group_next(t, COLUMN_CODE, &g);) {
        const double its = height_of(channels_of(t, &g));
        y += PANEL_HEAD;
        draw_code(t, s, &g, (plot_box){0.105, 0.845, 1 - (y + its) / height, 1 - y / height});
        y += its + GAP;
    }
}

const plot_kind plot_digits = {"digits", "positions as one-hot, as binary digits, and as a sinusoid",  PLOT_TAKES_NOTHING,
                               0,        PLOT_OPTION_TOKENS | PLOT_OPTION_HEAD_DIM | PLOT_OPTION_BASE, compute,
                               draw};
