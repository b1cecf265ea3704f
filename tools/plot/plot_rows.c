/* plot_rows.c: tables of positions: the sinusoid, and the one that a model learned, position by channel. */
#include "gyre/gyre_fields.h"
#include "tools/common/model_input.h"
#include "tools/common/variants.h"
#include "tools/plot/plot.h"
#include "util/plain_numbers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMN_TABLE, COLUMN_POSITION, COLUMN_CHANNEL, COLUMN_PAIR, COLUMN_VALUE, COLUMNS };
static const plot_column columns[] = {{"table", NULL}, {"position", "tokens"}, {"channel", ""},
                                      {"pair", ""},    {"value", ""},          {NULL, NULL}};
enum { CHANNELS = 64, POSITIONS = 128, MOST_POSITIONS = 512, MOST_CELLS = 1 << 20, MOST_DRAWN = 256 };

/* -- numbers -- */
/* out = the step between the positions of a table.  Of a position it has every channel. */
static int64_t step_of_rows(int64_t rows, int64_t channels) {
    const int64_t fit = MOST_CELLS / channels, most = fit < 1 ? 1 : fit < MOST_POSITIONS ? fit : MOST_POSITIONS;
    return (rows + most - 1) / most;
}

/* out = the pair whose sine or cosine a channel of a sinusoid is; NAN for a table that was learned, and for the last of an
 * odd number of channels. */
static double pair_of(const gyre_config *config, int64_t channel) {
    const int64_t pairs = config->input.dim / 2;
    if (gyre_config_has(config, "input.positions") || channel >= 2 * pairs) return (double)NAN;
    return (double)(config->input.layout == GYRE_SINUSOID_INTERLEAVED ? channel / 2 : channel % pairs);
}

/* Adds rows of a table that an encoding adds to the input. */
static gyre_status add_rows(plot_table *t, const char *label, const gyre_encoding *encoding, const gyre_tables *tables,
                            int64_t rows, int64_t channels, gyre_error *err) {
    const gyre_config *config = gyre_encoding_get_config(encoding);
    const int64_t row_step = step_of_rows(rows, channels);
    const double name = plot_table_label(t, label);
    double *row = cli_alloc(channels, sizeof *row);
    gyre_status status = GYRE_OK;
    for (int64_t p = 0; p < rows && !status; p += row_step) {
        const gyre_positions at = {.base = p};
        const gyre_view out = gyre_dense(row, GYRE_DTYPE_F64, 1, 1, 1, channels);
        const gyre_cview in = gyre_const(out);
        memset(row, 0, (size_t)channels * sizeof *row);
        status = gyre_add_input(
            encoding, GYRE_ARGS(gyre_add_input_args, .tables = tables, .positions = &at, .in = in, .out = out), NULL, err);
        for (int64_t c = 0; c < channels && !status; c++)
            plot_table_add(t, (double[COLUMNS]){name, (double)p, (double)c, pair_of(config, c), row[c]});
    }
    free(row);
    return status;
}

static gyre_status add_sinusoid(plot_table *t, gyre_sinusoid layout, const char *label, double base, int64_t rows,
                                int64_t channels, gyre_error *err) {
    gyre_encoding *encoding = NULL;
    gyre_status status = sinusoid_create(&encoding, channels, base, layout, err);
    if (!status) status = add_rows(t, label, encoding, NULL, rows, channels, err);
    gyre_encoding_free(encoding);
    return status;
}

/* alone: beside a sinusoid of the same size. */
static gyre_status add_model(plot_work *w, const char *given, int alone, gyre_error *err) {
    const plot_options *o = w->options;
    model_options options = o->model;
    model_input input;
    char label[PLOT_LABEL];
    options.path = model_path_find(given);
    options.profile = o->reading.profile;
    gyre_status status = model_input_open(&input, &options, o->reading.length, err);
    if (status) return status;
    const gyre_encoding *encoding = gyre_model_get_encoding(input.model);
    const gyre_config *config = gyre_encoding_get_config(encoding);
    const gyre_tables tables = {.input = gyre_model_get_input_table(input.model)};
    int64_t rows = o->tokens ? o->tokens : config->trained_length;
    if (gyre_config_has(config, "input.positions") && rows > config->input.positions - config->input.offset)
        rows = config->input.positions - config->input.offset;
    if (!(gyre_encoding_places(encoding) & GYRE_PLACE_INPUT))
        status =
            gyre_fail(err, GYRE_EUNSUPPORTED, "table: %s adds none at the input (%s)", gyre_kind_name(config->kind), given);
    gyre_plain_snprintf(label, sizeof label, "%.60s: %s", given, gyre_kind_name(config->kind));
    if (!status) status = add_rows(&w->table, label, encoding, &tables, rows > 0 ? rows : POSITIONS, config->input.dim, err);
    if (!status && alone && gyre_config_has(config, "input.positions"))
        status = add_sinusoid(&w->table, GYRE_SINUSOID_INTERLEAVED, "a sinusoid of the same size", 0, rows,
                              config->input.dim, err);
    model_input_free(&input);
    return status;
}

static gyre_status compute(plot_work *w, gyre_error *err) {
    const plot_options *o = w->options;
    const int64_t rows = o->tokens ? o->tokens : POSITIONS, channels = o->head_dim ? o->head_dim : CHANNELS;
    plot_table_columns(&w->table, columns);
    snprintf(w->table.title, sizeof w->table.title, "What is added to a token at each position");
    const char *models[PLOT_SUBJECTS];
    const int count = plot_models(o, models);
    gyre_status status = GYRE_OK;
    for (int i = 0; i < count && !status; i++)
        status = add_model(w, models[i], count == 1, err);
    if (count) return status;
    status =
        add_sinusoid(&w->table, GYRE_SINUSOID_INTERLEAVED, "sinusoid, sin and cos in turn", o->base, rows, channels, err);
    return status ? status
                  : add_sinusoid(&w->table, GYRE_SINUSOID_SIN_COS, "sinusoid, sines first", o->base, rows, channels, err);
}

/* -- the figure -- */
/* out = the cosine of the angle between two rows of a table. */
static double likeness(const plot_table *t, int64_t a, int64_t b, int64_t channels) {
    double dot = 0, aa = 0, bb = 0;
    for (int64_t c = 0; c < channels; c++) {
        const double x = plot_table_number(t, a + c, COLUMN_VALUE), y = plot_table_number(t, b + c, COLUMN_VALUE);
        dot += x * y;
        aa += x * x;
        bb += y * y;
    }
    return aa > 0 && bb > 0 ? dot / sqrt(aa * bb) : 0;
}

/* The rows of one table among those of the figure. */
typedef struct table_part {
    int64_t first, end, channels, positions, middle; /* middle: the first cell of the position in the middle */
} table_part;

static table_part part_of(const plot_table *t, int64_t first, int64_t end) {
    int64_t row_end = first;
    while (row_end < end && plot_table_number(t, row_end, COLUMN_POSITION) == plot_table_number(t, first, COLUMN_POSITION))
        row_end++;
    const int64_t channels = row_end > first ? row_end - first : 1, positions = (end - first) / channels;
    return (table_part){first, end, channels, positions, first + positions / 2 * channels};
}

/* out = 1 if a channel is drawn.  Of a wide table every few pairs are, both channels of each: a step over channels may
 * leave out every cosine. */
static int is_drawn(const plot_table *t, int64_t row, int64_t step) {
    const double pair = plot_table_number(t, row, COLUMN_PAIR);
    return (int64_t)(isnan(pair) ? plot_table_number(t, row, COLUMN_CHANNEL) : pair) % step == 0;
}

/* Writes the cells of the map as $map.  A drawn channel is as wide as its share of all of them.  out = that width; *most =
 * the largest magnitude. */
static double put_map(const plot_table *t, plot_script *s, const table_part *part, double *most) {
    const int64_t step = (part->channels + MOST_DRAWN - 1) / MOST_DRAWN;
    int64_t drawn = 0;
    for (int64_t c = 0; c < part->channels; c++)
        drawn += is_drawn(t, part->first + c, step);
    const double width = (double)part->channels / (double)drawn;
    fputs("$map << EOD\n", s->file);
    for (int64_t r = part->first, at = 0; r < part->end; r++) {
        if ((r - part->first) % part->channels == 0) at = 0;
        *most = fmax(*most, fabs(plot_table_number(t, r, COLUMN_VALUE)));
        if (!is_drawn(t, r, step)) continue;
        fprintf(s->file, "%.9g %.9g %.9g\n", ((double)at++ + 0.5) * width - 0.5, plot_table_number(t, r, COLUMN_POSITION),
                plot_table_number(t, r, COLUMN_VALUE));
    }
    fputs("EOD\n", s->file);
    return width;
}

static void draw_map(const plot_table *t, plot_script *s, const table_part *part, plot_box box) {
    double most = 1e-12;
    const double width = put_map(t, s, part, &most), last = plot_table_number(t, part->end - 1, COLUMN_POSITION);
    /* A sinusoid has what nothing turned, cos 1, in the lightest colour; the numbers of a trained table lie around 0. */
    const char *palette = isnan(plot_table_number(t, part->first, COLUMN_PAIR))
                              ? "-1 '#0b3a66', -0.5 '#4a97cd', 0 '#fdfdfb', 0.5 '#ec9a52', 1 '#7a3300'"
                              : "-1 '#0b3a66', 0 '#4a97cd', 1 '#fdfdfb'";
    const double half = part->positions > 1 ? last / (double)(part->positions - 1) / 2 : 0.5; /* of a cell */
    plot_box_begin(s, box);
    plot_panel_title(s, plot_table_text(t, part->first, COLUMN_TABLE));
    plot_label(s, 'x', "channel");
    plot_label(s, 'y', "position (tokens)");
    fprintf(s->file,
            "unset grid\nset border 15\nset xrange [-0.5:%.9g]\nset yrange [%.9g:%.9g]\nset cbrange [%.9g:%.9g]\n"
            "set palette defined (%s)\n"
            "set colorbox user origin screen 0.545, screen %.4f size screen 0.014, screen %.4f\nset cbtics font ',11'\n"
            "plot $map using 1:2:3 %s notitle\n",
            (double)part->channels - 0.5, -half, last + half, -most, most, palette, box.bottom, box.top - box.bottom,
            plot_image((double)part->channels / width * (double)part->positions));
}

static void draw_likeness(const plot_table *t, plot_script *s, const table_part *part, plot_box box) {
    char title[PLOT_LABEL];
    fputs("$alike << EOD\n", s->file);
    for (int64_t r = part->first; r < part->end; r += part->channels)
        fprintf(s->file, "%.9g %.9g\n", plot_table_number(t, r, COLUMN_POSITION),
                likeness(t, part->middle, r, part->channels));
    fputs("EOD\n", s->file);
    plot_box_begin(s, box);
    snprintf(title, sizeof title, "how alike row %.0f and the others are",
             plot_table_number(t, part->middle, COLUMN_POSITION));
    plot_panel_title(s, title);
    plot_label(s, 'x', "position (tokens)");
    plot_label(s, 'y', "cosine of the two rows");
    fputs("set yrange [*<0:1.05]\nset xrange [*:*] noextend\nplot $alike using 1:2 with lines linewidth 2 linecolor rgb "
          "'#0072b2' notitle\n",
          s->file);
}

static void draw(const plot_work *w, plot_script *s) {
    const plot_table *t = &w->table;
    const int count = plot_table_groups(t, COLUMN_TABLE);
    plot_script_start(s, 1000, 50 + 360 * count, t->title);
    for (plot_group g = {0}; plot_group_next(t, COLUMN_TABLE, &g);) {
        const double top = 1 - (50.0 + 360 * g.index + 34) / s->height;
        const table_part part = part_of(t, g.first, g.end);
        draw_map(t, s, &part, (plot_box){0.09, 0.53, top - 250.0 / s->height, top});
        draw_likeness(t, s, &part, (plot_box){0.68, 0.975, top - 250.0 / s->height, top});
    }
}

const plot_kind plot_rows = {"table",
                             "tables of positions: the sinusoid, and what a model learned",
                             PLOT_TAKES_NOTHING,
                             1,
                             PLOT_OPTION_TOKENS | PLOT_OPTION_HEAD_DIM | PLOT_OPTION_BASE | PLOT_OPTION_AS |
                                 PLOT_OPTION_COMPARE,
                             compute,
                             draw};
