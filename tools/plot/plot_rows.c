/* plot_rows.c: tables of positions: the sinusoid, and the one that a model learned, position by channel. */
#include "gyre/gyre_fields.h"
#include "tools/common/model_input.h"
#include "tools/common/variants.h"
#include "tools/plot/plot.h"
#include "util/plain_numbers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMN_TABLE, COLUMN_POSITION, COLUMN_CHANNEL, COLUMN_VALUE, COLUMNS };
static const plot_column columns[] = {{"table", NULL}, {"position", "tokens"}, {"channel", ""}, {"value", ""}, {NULL, NULL}};
enum { CHANNELS = 64, POSITIONS = 128, MOST_POSITIONS = 512, MOST_CHANNELS = 256 };

/* -- numbers -- */
/* Adds rows of a table that an encoding adds to the input.  A large one is drawn by every few of its rows and channels. */
static gyre_status add_rows(plot_table *t, const char *label, const gyre_encoding *encoding, const gyre_tables *tables,
                            int64_t rows, int64_t channels, gyre_error *err) {
    const int64_t row_step = (rows + MOST_POSITIONS - 1) / MOST_POSITIONS;
    const int64_t channel_step = (channels + MOST_CHANNELS - 1) / MOST_CHANNELS;
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
        for (int64_t c = 0; c < channels && !status; c += channel_step)
            plot_table_add(t, (double[COLUMNS]){name, (double)p, (double)c, row[c]});
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

static void draw_table(const plot_table *t, plot_script *s, int64_t first, int64_t end, double bottom, double top) {
    double most = 1e-12;
    int64_t row_end = first;
    while (row_end < end && plot_table_number(t, row_end, COLUMN_POSITION) == plot_table_number(t, first, COLUMN_POSITION))
        row_end++;
    const int64_t channels = row_end > first ? row_end - first : 1, rows = (end - first) / channels,
                  middle = first + rows / 2 * channels;
    const double half[2] = {channels > 1 ? plot_table_number(t, first + 1, COLUMN_CHANNEL) / 2 : 0.5,
                            rows > 1 ? plot_table_number(t, first + channels, COLUMN_POSITION) / 2 : 0.5}; /* of a cell */
    fputs("$map << EOD\n", s->file);
    for (int64_t r = first; r < end; r++) {
        most = fmax(most, fabs(plot_table_number(t, r, COLUMN_VALUE)));
        fprintf(s->file, "%.9g %.9g %.9g\n", plot_table_number(t, r, COLUMN_CHANNEL),
                plot_table_number(t, r, COLUMN_POSITION), plot_table_number(t, r, COLUMN_VALUE));
    }
    fputs("EOD\n$alike << EOD\n", s->file);
    for (int64_t r = 0; r < rows; r++)
        fprintf(s->file, "%.9g %.9g\n", plot_table_number(t, first + r * channels, COLUMN_POSITION),
                likeness(t, middle, first + r * channels, channels));
    fputs("EOD\n", s->file);
    plot_box_begin(s, (plot_box){0.09, 0.53, bottom, top});
    plot_panel_title(s, plot_table_text(t, first, COLUMN_TABLE));
    plot_label(s, 'x', "channel");
    plot_label(s, 'y', "position (tokens)");
    fprintf(s->file,
            "unset grid\nset border 15\nset xrange [%.9g:%.9g]\nset yrange [%.9g:%.9g]\nset cbrange [%.9g:%.9g]\n"
            "set palette defined (-1 '#0b3a66', -0.5 '#4a97cd', 0 '#fdfdfb', 0.5 '#ec9a52', 1 '#7a3300')\n"
            "set colorbox user origin screen 0.545, screen %.4f size screen 0.014, screen %.4f\nset cbtics font ',11'\n"
            "plot $map using 1:2:3 %s notitle\n",
            plot_table_number(t, first, COLUMN_CHANNEL) - half[0], plot_table_number(t, end - 1, COLUMN_CHANNEL) + half[0],
            plot_table_number(t, first, COLUMN_POSITION) - half[1], plot_table_number(t, end - 1, COLUMN_POSITION) + half[1],
            -most, most, bottom, top - bottom, plot_image((double)(end - first)));
    plot_box_begin(s, (plot_box){0.68, 0.975, bottom, top});
    char title[PLOT_LABEL];
    snprintf(title, sizeof title, "how alike row %.0f and the others are", plot_table_number(t, middle, COLUMN_POSITION));
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
        draw_table(t, s, g.first, g.end, top - 250.0 / s->height, top);
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
