/* plot_attention.c: the attention weights of a layer of a model on a text: query by key, and by distance. */
#include "tools/common/model_input.h"
#include "tools/plot/plot.h"
#include "util/plain_numbers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMN_CASE, COLUMN_HEAD, COLUMN_QUERY, COLUMN_KEY, COLUMN_WEIGHT, COLUMNS };
static const plot_column columns[] = {{"method", NULL},  {"head", ""},   {"query", "tokens"},
                                      {"key", "tokens"}, {"weight", ""}, {NULL, NULL}};
enum { TOKENS = 96, MOST_HEADS = 8 };

/* -- numbers -- */
typedef struct attention_work {
    plot_work *w;
    model_input input;
    const char *model; /* named in labels; NULL = not */
    int64_t tokens, layer, head;
} attention_work;

static gyre_status read_weights(attention_work *a, const gyre_encoding *encoding, float *weights, gyre_error *err) {
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    gyre_context *context = NULL;
    options.encoding = encoding;
    options.max_tokens = a->tokens;
    options.cache_dtype = GYRE_DTYPE_F32;
    options.exec = &a->w->options->exec;
    gyre_status status = gyre_context_create(&context, a->input.model, &options, err);
    if (!status) status = gyre_context_watch(context, a->layer, weights, err);
    if (!status) status = gyre_context_forward(context, a->input.texts[0].ids, a->tokens, 0, NULL, err);
    gyre_context_free(context);
    return status;
}

static gyre_status add_case(attention_work *a, const method *m, gyre_error *err) {
    plot_table *t = &a->w->table;
    const int64_t heads = gyre_model_get_config(a->input.model)->heads, n = a->tokens;
    const int64_t from = a->head >= 0 ? a->head : 0, to = a->head >= 0         ? a->head + 1
                                                          : heads < MOST_HEADS ? heads
                                                                               : MOST_HEADS;
    gyre_encoding *encoding = NULL;
    float *weights = cli_alloc(n * heads * n, sizeof *weights);
    gyre_status status = method_is_none(m)
                             ? GYRE_OK
                             : model_input_encoding(&a->input, m, -1, n, &a->w->options->method.betas, &encoding, err);
    if (!status) status = method_name_failure(read_weights(a, encoding, weights, err), m->label, n, err);
    char label[PLOT_LABEL];
    if (a->model && method_is_none(m))
        snprintf(label, sizeof label, "%s", a->model);
    else
        snprintf(label, sizeof label, a->model ? "%.40s, %.48s" : "%.0s%.48s", a->model ? a->model : "", m->label);
    const double name = plot_table_label(t, label);
    for (int64_t h = from; h < to && !status; h++)
        for (int64_t q = 0; q < n; q++)
            for (int64_t k = 0; k <= q; k++)
                plot_table_add(
                    t, (double[COLUMNS]){name, (double)h, (double)q, (double)k, (double)weights[(q * heads + h) * n + k]});
    gyre_encoding_free(encoding);
    free(weights);
    return status;
}

static gyre_status check(attention_work *a, gyre_error *err) {
    const plot_options *o = a->w->options;
    const gyre_model_config *c = gyre_model_get_config(a->input.model);
    a->layer = o->layer >= 0 ? o->layer : c->layers - 1;
    a->head = o->head;
    if (a->layer >= c->layers)
        return gyre_fail(err, GYRE_EINVAL, "--layer: %lld, and the model has %lld, counted from 0 (%s)", (long long)a->layer,
                         (long long)c->layers, a->input.options->path);
    if (a->head >= c->heads)
        return gyre_fail(err, GYRE_EINVAL, "--head: %lld, and a layer has %lld, counted from 0 (%s)", (long long)a->head,
                         (long long)c->heads, a->input.options->path);
    return GYRE_OK;
}

static gyre_status add_all(attention_work *a, gyre_error *err) {
    const plot_options *o = a->w->options;
    const char *names = o->compare && !a->model ? o->compare : "none";
    method *list = NULL;
    int64_t count = o->method.count;
    gyre_status status = o->method.count ? GYRE_OK : methods_parse(names, &list, &count, err);
    for (int64_t m = 0; m < count && !status; m++)
        status = add_case(a, list ? &list[m] : &o->method.list[m], err);
    free(list);
    return status;
}

/* Reads the text with one model and adds its maps.  compares: beside another model. */
static gyre_status add_model(attention_work *a, const char *given, int compares, gyre_error *err) {
    plot_work *w = a->w;
    model_options options = w->options->model;
    options.path = model_path_find(given);
    options.profile = w->options->reading.profile;
    model_options_check(&options, 1);
    a->model = compares ? given : NULL;
    gyre_status status = model_input_open(&a->input, &options, w->options->reading.length, err);
    if (status) return status;
    status = check(a, err);
    if (!status) status = model_input_read(&a->input, a->tokens, err);
    if (!status) status = add_all(a, err);
    w->trained = gyre_encoding_get_config(gyre_model_get_encoding(a->input.model))->trained_length;
    model_input_free(&a->input);
    return status;
}

static gyre_status compute(plot_work *w, gyre_error *err) {
    const plot_options *o = w->options;
    const char *models[PLOT_SUBJECTS];
    const int count = plot_models(o, models);
    attention_work a = {.w = w, .tokens = o->tokens ? o->tokens : TOKENS};
    gyre_status status = GYRE_OK;
    if (!count) cli_usage_error("MODEL: missing; attention reads a text with a model");
    plot_table_columns(&w->table, columns);
    for (int i = 0; i < count && !status; i++)
        status = add_model(&a, models[i], count > 1, err);
    if (count > 1 && o->layer < 0)
        snprintf(w->table.title, sizeof w->table.title, "Attention weights of the last layers, %lld tokens",
                 (long long)a.tokens);
    else
        gyre_plain_snprintf(w->table.title, sizeof w->table.title, "Attention weights of layer %lld%s%.80s, %lld tokens",
                            (long long)a.layer, count > 1 ? "" : " of ", count > 1 ? "" : model_path_shown(models[0]),
                            (long long)a.tokens);
    return status;
}

/* -- the figure -- */
/* out = one past the rows of one head of one case. */
static int64_t map_end(const plot_table *t, int64_t first) {
    const int64_t head = plot_table_group_end(t, first, COLUMN_HEAD),
                  method_end = plot_table_group_end(t, first, COLUMN_CASE);
    return head < method_end ? head : method_end;
}

/* One head: rows first .. end - 1. */
static void put_map(const plot_table *t, plot_script *s, int64_t first, int64_t end) {
    const int64_t n = (int64_t)plot_table_number(t, end - 1, COLUMN_QUERY) + 1;
    int64_t r = first;
    fputs("$map << EOD\n", s->file);
    for (int64_t q = 0; q < n; q++)
        for (int64_t k = 0; k < n; k++)
            fprintf(s->file, k <= q ? "%lld %lld %.7g\n" : "%lld %lld NaN\n", (long long)k, (long long)q,
                    k <= q ? plot_table_number(t, r++, COLUMN_WEIGHT) : 0);
    fputs("EOD\n", s->file);
    /* By distance: the mean over the queries that have such a key. */
    fputs("$by << EOD\n", s->file);
    for (int64_t d = 0; d < n; d++) {
        double sum = 0;
        for (int64_t q = d; q < n; q++)
            sum += plot_table_number(t, first + q * (q + 1) / 2 + q - d, COLUMN_WEIGHT);
        fprintf(s->file, "%lld %.9g\n", (long long)d, sum / (double)(n - d));
    }
    fputs("EOD\n", s->file);
}

/* One bar of colours for all heads, at the foot. */
static void put_scale(plot_script *s, double left, double wide) {
    const double height = s->height;
    fprintf(s->file,
            "set colorbox horizontal user origin screen %.4f, screen %.4f size screen %.4f, screen %.4f\n"
            "set cbtics ('0.001' 0.001, '0.01' 0.01, '0.1' 0.1, '1' 1) font ',11'\n",
            left / s->width, 30 / height, wide / s->width, 10 / height);
}

/* gnuplot's own label of an axis is beside the widest tick, and that of the lower panel outside the picture. */
static void label_left(plot_script *s, const char *text, double left, double middle) {
    fprintf(s->file, "set label '%s' at screen %.4f, screen %.4f center rotate by 90 font ',12' textcolor rgb '#3c4043'\n",
            text, (left - 52) / s->width, 1 - middle / s->height);
}

static void draw_head(const plot_work *w, plot_script *s, int64_t first, int64_t end, double left, double top, double side) {
    const plot_table *t = &w->table;
    const double n = plot_table_number(t, end - 1, COLUMN_QUERY) + 1, width = s->width, height = s->height;
    char title[2 * PLOT_LABEL];
    put_map(t, s, first, end);
    plot_box_begin(s, (plot_box){left / width, (left + side) / width, 1 - (top + side) / height, 1 - top / height});
    snprintf(title, sizeof title, plot_table_groups(t, COLUMN_CASE) > 1 ? "head %.0f, %s" : "head %.0f%.0s",
             plot_table_number(t, first, COLUMN_HEAD), plot_table_text(t, first, COLUMN_CASE));
    plot_panel_title(s, title);
    fprintf(
        s->file,
        "unset grid\nset border 15\nset xrange [-0.5:%g]\nset yrange [%g:-0.5]\nset cbrange [0:1]\nset logscale cb\n"
        "set cbrange [0.001:1]\nset palette defined (0 '#ffffff', 1 '#cfe3f3', 2 '#4a97cd', 3 '#0b2545')\nunset colorbox\n",
        n - 0.5, n - 0.5);
    if (first == 0) put_scale(s, left, side);
    plot_label(s, 'x', "key (token)");
    label_left(s, "query (token)", left, top + side / 2);
    fputs("plot $map using 1:2:($3 > 0.001 ? $3 : $3 > -1 ? 0.001 : NaN) with image notitle\n", s->file);
    plot_box_begin(
        s, (plot_box){left / width, (left + side) / width, 1 - (top + side + 150) / height, 1 - (top + side + 56) / height});
    plot_label(s, 'x', "distance (tokens)");
    label_left(s, "mean weight", left, top + side + 103);
    fprintf(s->file,
            "set logscale y\nset yrange [1e-4:1]\nset ytics ('10⁻⁴' 1e-4, '0.01' 0.01, '1' 1)\nset xrange [0:%g]\n"
            "plot $by using 1:($2 > 1e-4 ? $2 : 1e-4) with lines linewidth 2 linecolor rgb '#d55e00' notitle\n",
            n);
}

static void draw(const plot_work *w, plot_script *s) {
    const plot_table *t = &w->table;
    int count = 0, index = 0;
    for (int64_t first = 0; first < t->rows; count++)
        first = map_end(t, first);
    const int across = count < 2 ? 1 : count < 4 ? count : 4, down = (count + across - 1) / across;
    const double side = count == 1 ? 480 : count == 2 ? 320 : 220, cell_x = side + 74, cell_y = side + 236;
    char title[400];
    snprintf(title, sizeof title, "%s (log colours from 0.001)", t->title);
    plot_script_start(s, (int)(cell_x * across + 24), (int)(cell_y * down + 90), title);
    for (int64_t first = 0, end; first < t->rows; first = end, index++) {
        end = map_end(t, first);
        const int row = index / across, column = index % across;
        draw_head(w, s, first, end, 66 + cell_x * column, 76 + cell_y * row, side);
    }
}

const plot_kind plot_attention = {"attention",
                                  "attention weights of a layer of a model on a text, and by distance",
                                  PLOT_TAKES_NOTHING,
                                  1,
                                  PLOT_OPTION_COMPARE | PLOT_OPTION_METHODS | PLOT_OPTION_BETAS | PLOT_OPTION_LAYER |
                                      PLOT_OPTION_HEAD | PLOT_OPTION_TOKENS | PLOT_OPTION_AS | PLOT_OPTION_TEXT,
                                  compute,
                                  draw};
