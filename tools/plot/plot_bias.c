/* plot_bias.c: what encodings, and models that learned it, add to a score: as a curve over the distance, and as a map of
 * queries and keys. */
#include "gyre/gyre_fields.h"
#include "gyre/gyre_model.h"
#include "tools/plot/plot.h"
#include "util/absent_path.h"
#include "util/checkpoint_files.h"
#include "util/plain_numbers.h"
#include "util/random.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { COLUMN_ENCODING, COLUMN_HEAD, COLUMN_QUERY, COLUMN_KEY, COLUMN_VALUE, COLUMNS };
static const plot_column columns[] = {{"encoding", NULL}, {"head", ""},  {"query", "tokens"},
                                      {"key", "tokens"},  {"value", ""}, {NULL, NULL}};
static const char ROWS_NOTE[] = ", row of the table";
enum { TOKENS = 128, HEADS = 8, SHOWN_HEADS = 3, MOST_HEADS = 1024 };

/* The order of the panels, and how papers spell a scheme.  Others that put a number on a score follow under their own names.
 * DeBERTa multiplies its rows with queries and keys, so its rows are all that can be drawn without a text. */
static const struct {
    const char *label, *scheme;
} schemes[] = {{"ALiBi", "alibi"}, {"Sandwich", "sandwich"}, {"KERPLE", "kerple"}, {"FIRE", "fire"},
               {"T5", "t5"},       {"DeBERTa", "deberta"}};
enum { SCHEMES = sizeof schemes / sizeof *schemes, MOST_SCHEMES = 32 };

/* kinds[0 .. returned - 1] = those to draw; the first SCHEMES are those above. */
static int list_schemes(gyre_kind kinds[MOST_SCHEMES]) {
    int count = 0;
    for (; count < SCHEMES; count++)
        kinds[count] = gyre_kind_find(schemes[count].scheme);
    for (int kind = 1; gyre_kind_name((gyre_kind)kind) && count < MOST_SCHEMES; kind++) {
        int listed = !gyre_kind_has((gyre_kind)kind, GYRE_TRAIT_BIAS);
        for (int i = 0; i < SCHEMES; i++)
            listed |= kinds[i] == (gyre_kind)kind;
        if (!listed) kinds[count++] = (gyre_kind)kind;
    }
    return count;
}

/* What is drawn for a model or, without one, for a scheme. */
typedef struct source {
    const plot_subject *subject; /* NULL = none */
    gyre_model *model;           /* owned; NULL = without weights */
    float *learned;              /* owned; the table of a checkpoint that Gyre does not run; NULL = none */
    gyre_cview table;            /* data NULL = not trained */
    int64_t tokens;
} source;

/* -- numbers -- */
/* *table = the bias table at its initial draw; the caller frees its data. */
static gyre_status initial_table(const gyre_encoding *encoding, gyre_tables *tables, double **memory) {
    int64_t shape[4];
    uint64_t state = 1;
    gyre_table_entry entry;
    gyre_status status = gyre_encoding_table_shape(encoding, GYRE_TABLE_BIAS, shape);
    if (status || !shape[2] || !shape[3]) return status;
    double *values = *memory = cli_alloc(shape[2] * shape[3], sizeof *values);
    for (int64_t r = 0; r < shape[2] && !status; r++)
        for (int64_t h = 0; h < shape[3] && !status; h++) {
            status = gyre_encoding_table_entry(encoding, GYRE_TABLE_BIAS, 0, r, h, &entry);
            const double drawn = entry.initial_mean + entry.initial_deviation * gyre_random_normal(&state);
            values[r * shape[3] + h] = fmin(fmax(drawn, entry.minimum), entry.maximum);
        }
    tables->bias = gyre_cdense(values, GYRE_DTYPE_F64, 1, 1, shape[2], shape[3]);
    return status;
}

static int is_in_folder(const char *folder, const char *name) {
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && !gyre_is_absent(path);
}

/* The table of a T5 by another program.  A folder may hold a config.json alone, or weights of a format that is not read. */
static gyre_status read_checkpoint(const plot_options *o, source *s, gyre_error *err) {
    const gyre_config *config = &s->subject->config;
    const char *path = s->subject->path;
    struct stat info;
    const int is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    const int64_t rows = config->score.buckets, heads = config->heads;
    if (!gyre_config_has(config, "score.buckets") || rows < 1 || heads < 1) return GYRE_OK;
    if (is_folder && !is_in_folder(path, GYRE_WEIGHTS_FILE) && !is_in_folder(path, GYRE_WEIGHTS_INDEX_FILE)) return GYRE_OK;
    s->learned = cli_alloc(rows * heads, sizeof *s->learned);
    const gyre_view table = gyre_dense(s->learned, GYRE_DTYPE_F32, 1, 1, rows, heads);
    const gyre_status status = gyre_checkpoint_bias(path, s->subject->group, o->layer >= 0 ? o->layer : 0, &table, err);
    if (!status) s->table = gyre_const(table);
    return status == GYRE_EUNSUPPORTED ? GYRE_OK : status;
}

/* A config.json has no weights.  A family that Gyre cannot run is drawn by its config too. */
static gyre_status open_weights(const plot_options *o, source *s, gyre_error *err) {
    const char *path = s->subject->path, *dot = path ? strrchr(path, '.') : NULL;
    if (!path || (dot && strcmp(dot, ".json") == 0)) return GYRE_OK;
    const gyre_status status = gyre_model_open(
        &s->model, path, GYRE_ARGS(gyre_reading_options, .profile = o->reading.profile, .context_length = o->reading.length),
        err);
    if (status == GYRE_EUNSUPPORTED) return read_checkpoint(o, s, err);
    if (status) return status;
    s->table = gyre_model_get_bias_table(s->model, o->layer >= 0 ? o->layer : 0);
    return GYRE_OK;
}

static gyre_status check_layer(const plot_options *o, const source *s, gyre_error *err) {
    if (o->layer < 0 || s->table.data) return GYRE_OK;
    const int64_t layers = s->model ? gyre_model_get_config(s->model)->layers : 0;
    const char *label = s->subject ? s->subject->label : "bias";
    if (s->model && o->layer >= layers)
        return gyre_fail(err, GYRE_EINVAL, "--layer: %lld, and the model has %lld, counted from 0 (%s)", (long long)o->layer,
                         (long long)layers, label);
    return gyre_fail(err, GYRE_EINVAL, "--layer: the layers have no trained numbers (%s)", label);
}

static gyre_status make_encoding(const source *s, gyre_kind kind, gyre_encoding **out, gyre_error *err) {
    const gyre_config *own = s->subject ? &s->subject->config : NULL;
    gyre_config config = own ? *own : (gyre_config)GYRE_INIT(gyre_config);
    if (!own) {
        config.kind = kind;
        config.heads = HEADS;
        config.head_dim = 64;
        config.trained_length = s->tokens;
        if (gyre_config_has(&config, "score.position_buckets")) { /* few, so that a small map shows them */
            config.score.position_buckets = 32;
            config.score.max_distance = s->tokens > 64 ? s->tokens : 64;
        }
    }
    const gyre_status status = gyre_config_suggest(&config);
    if (status) return gyre_fail(err, status, "bias: %s (%s)", gyre_status_text(status), gyre_kind_name(kind));
    return gyre_encoding_create(out, &config, NULL, err);
}

/* 1: queries see the keys after them too.  Products with vectors, as DeBERTa's, belong to encoders. */
static int is_bidirectional(const gyre_encoding *encoding) {
    const gyre_config *config = gyre_encoding_get_config(encoding);
    return !gyre_kind_has(config->kind, GYRE_TRAIT_BIAS) || config->score.bidirectional;
}

static gyre_status add_rows(plot_table *t, const gyre_encoding *encoding, double name, int64_t tokens, gyre_error *err) {
    const int both = is_bidirectional(encoding);
    for (int64_t m = 0; m < tokens; m++)
        for (int64_t n = 0; n < (both ? tokens : m + 1); n++) {
            int64_t row = 0;
            const gyre_status status = gyre_encoding_row(encoding, m, n, &row);
            if (status) return gyre_fail(err, status, "row: %s (bias)", gyre_status_text(status));
            plot_table_add(t, (double[COLUMNS]){name, 0, (double)m, (double)n, (double)row});
        }
    return GYRE_OK;
}

/* The map of the first head shown, then the query of the others whose curve is drawn: the last one, or one in the middle if
 * there are keys on both sides. */
static gyre_status add_numbers(plot_table *t, const source *from, const gyre_encoding *encoding, double name, int64_t head,
                               gyre_error *err) {
    const int64_t tokens = from->tokens, both = is_bidirectional(encoding);
    const int64_t curve = both ? tokens / 2 : tokens - 1;
    const int64_t all = gyre_encoding_get_config(encoding)->heads, heads = all > 0 ? all : 1;
    const int64_t shown[SHOWN_HEADS] = {head >= 0 ? head : 0, head >= 0 ? head : heads / 2, head >= 0 ? head : heads - 1};
    const gyre_positions positions = {.base = 0};
    gyre_tables tables = {.bias = from->table};
    if (heads > MOST_HEADS) /* a config of a few bytes would take gigabytes */
        return gyre_fail(err, GYRE_EUNSUPPORTED, "heads: %lld, and a figure computes the biases of %d at most (bias)",
                         (long long)heads, MOST_HEADS);
    double *memory = NULL, *scores = cli_alloc(tokens * tokens * heads, sizeof *scores);
    gyre_status status = from->table.data ? GYRE_OK : initial_table(encoding, &tables, &memory);
    if (!status && shown[0] >= heads)
        status = gyre_fail(err, GYRE_EINVAL, "--head: %lld of %lld heads (bias)", (long long)head, (long long)heads);
    const gyre_view view = gyre_dense(scores, GYRE_DTYPE_F64, 1, tokens, heads, tokens);
    if (!status)
        status = gyre_add_bias(
            encoding,
            GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &positions, .keys = &positions, .scores = view),
            NULL, err);
    for (int i = 0; i < SHOWN_HEADS && !status; i++)
        for (int64_t m = i ? curve : 0; m <= (i ? curve : tokens - 1) && (i == 0 || shown[i] != shown[i - 1]); m++)
            for (int64_t n = 0; n < (both ? tokens : m + 1); n++)
                plot_table_add(t, (double[COLUMNS]){name, (double)shown[i], (double)m, (double)n,
                                                    scores[(m * heads + shown[i]) * tokens + n]});
    free(memory);
    free(scores);
    return status;
}

/* Numbers that a model learned are drawn where its weights are there.  Else a scheme with rows by distance is drawn by the
 * row that a distance takes, and others with a table as training begins with them. */
static gyre_status draw_untrained(const gyre_encoding *encoding, const char **note, int *rows) {
    int64_t shape[4], row;
    *rows = !gyre_encoding_row(encoding, 0, 0, &row);
    const gyre_status status = gyre_encoding_table_shape(encoding, GYRE_TABLE_BIAS, shape);
    *note = *rows ? ROWS_NOTE : shape[2] > 0 ? ", before training" : "";
    return status;
}

static gyre_status add_scheme(plot_work *w, const source *s, gyre_kind kind, const char *name, gyre_error *err) {
    gyre_encoding *encoding = NULL;
    char label[PLOT_LABEL], of[PLOT_LABEL] = "", layer[48] = "";
    const char *untrained = "";
    int rows = 0;
    gyre_status status = make_encoding(s, kind, &encoding, err);
    if (!status) status = draw_untrained(encoding, &untrained, &rows);
    if (w->subjects_count > 1) gyre_plain_snprintf(of, sizeof of, "%.40s: ", s->subject->label);
    if (s->table.data)
        snprintf(layer, sizeof layer, ", layer %lld", (long long)(w->options->layer >= 0 ? w->options->layer : 0));
    const int stacks = s->learned && strcmp(s->subject->group, "all") != 0; /* an encoder, maybe a decoder */
    gyre_plain_snprintf(label, sizeof label, "%.40s%s%s%.10s%s", of, name, stacks ? " " : "",
                        stacks ? s->subject->group : "", s->table.data ? layer : untrained);
    const double number = plot_table_label(&w->table, label);
    if (!status)
        status = rows && !s->table.data ? add_rows(&w->table, encoding, number, s->tokens, err)
                                        : add_numbers(&w->table, s, encoding, number, w->options->head, err);
    gyre_encoding_free(encoding);
    return status;
}

/* A model, or every scheme. */
static gyre_status add_source(plot_work *w, const plot_subject *subject, int64_t tokens, gyre_error *err) {
    source s = {.subject = subject, .tokens = tokens};
    gyre_status status = subject ? open_weights(w->options, &s, err) : GYRE_OK;
    if (!status) status = check_layer(w->options, &s, err);
    gyre_kind kinds[MOST_SCHEMES];
    int drawn = 0;
    const int count = list_schemes(kinds);
    for (int i = 0; i < count && !status; i++) {
        if (subject && subject->config.kind != kinds[i]) continue;
        status = add_scheme(w, &s, kinds[i], i < SCHEMES ? schemes[i].label : gyre_kind_name(kinds[i]), err);
        drawn++;
    }
    if (!status && subject && !drawn)
        status = gyre_fail(err, GYRE_EUNSUPPORTED, "bias: %s adds no number to scores (%s)",
                           gyre_kind_name(subject->config.kind), subject->label);
    gyre_model_free(s.model);
    free(s.learned);
    return status;
}

static int shows_rows(const plot_table *t, int64_t row) {
    return strstr(plot_table_text(t, row, COLUMN_ENCODING), ROWS_NOTE) != NULL;
}

/* A row of a table is not what is added: the number in it is trained. */
static void set_title(plot_table *t, int64_t tokens) {
    int numbers = 0, rows = 0;
    for (plot_group g = {0}; plot_group_next(t, COLUMN_ENCODING, &g);) {
        rows += shows_rows(t, g.first);
        numbers += !shows_rows(t, g.first);
    }
    snprintf(t->title, sizeof t->title, "%s%s%s: %lld queries and keys%s", numbers ? "What is added to a score" : "",
             numbers && rows ? ", or " : "",
             !rows     ? ""
             : numbers ? "which row of a trained table"
                       : "Which row of a trained table a distance takes",
             (long long)tokens, numbers ? "; the number at a line is its head" : "");
}

static gyre_status compute(plot_work *w, gyre_error *err) {
    const int64_t tokens = w->options->tokens ? w->options->tokens : TOKENS;
    gyre_status status = GYRE_OK;
    plot_table_columns(&w->table, columns);
    if (!w->subjects_count) status = add_source(w, NULL, tokens, err);
    for (int i = 0; i < w->subjects_count && !status; i++)
        status = add_source(w, &w->subjects[i], tokens, err);
    set_title(&w->table, tokens);
    return status;
}

/* -- the figure -- */
/* The rows of a scheme: tokens on both axes of the map, and the query whose curve is drawn. */
typedef struct extent {
    int64_t first, end;
    double tokens, query;
} extent;

static extent extent_of(const plot_table *t, int64_t first, int64_t end) {
    extent e = {first, end, 0, 0};
    int both = 0;
    for (int64_t r = first; r < end; r++) {
        both |= plot_table_number(t, r, COLUMN_KEY) > plot_table_number(t, r, COLUMN_QUERY);
        e.tokens = fmax(e.tokens, plot_table_number(t, r, COLUMN_KEY) + 1);
    }
    e.query = both ? floor(e.tokens / 2) : e.tokens - 1;
    return e;
}

/* The curve of one query for each head, with the head's number at its end. */
static void draw_curves(const plot_table *t, plot_script *s, const extent *e) {
    const int64_t first = e->first, end = e->end;
    char look[PLOT_LOOK], names[SHOWN_HEADS][16];
    plot_end ends[SHOWN_HEADS];
    double low = INFINITY, high = -INFINITY;
    int heads = 0;
    for (int64_t r = first; r < end; r++) {
        if (plot_table_number(t, r, COLUMN_QUERY) != e->query) continue;
        low = fmin(low, plot_table_number(t, r, COLUMN_VALUE));
        high = fmax(high, plot_table_number(t, r, COLUMN_VALUE));
    }
    const double margin = 0.05 * (high - low);
    fprintf(s->file, "set border 3\nset yrange [%.9g:%.9g]\n", low - margin, high + margin);
    for (int64_t from = first, to; from < end && heads < SHOWN_HEADS; from = to, heads++) {
        to = plot_table_group_end(t, from, COLUMN_HEAD) < end ? plot_table_group_end(t, from, COLUMN_HEAD) : end;
        double far = low; /* at key 0 */
        for (int64_t r = from; r < to; r++)
            if (plot_table_number(t, r, COLUMN_QUERY) == e->query && plot_table_number(t, r, COLUMN_KEY) == 0)
                far = plot_table_number(t, r, COLUMN_VALUE);
        snprintf(names[heads], sizeof names[heads], "%.0f", plot_table_number(t, from, COLUMN_HEAD));
        ends[heads] = (plot_end){names[heads], gyre_report_look_at(heads), (far - low + margin) / (high - low + 2 * margin)};
    }
    if (heads > 1) plot_end_labels(s, ends, heads);
    int index = 0;
    fputs("plot ", s->file);
    for (int64_t from = first, to; from < end && index < heads; from = to, index++) {
        to = plot_table_group_end(t, from, COLUMN_HEAD) < end ? plot_table_group_end(t, from, COLUMN_HEAD) : end;
        fprintf(s->file,
                "%s$all every ::%lld::%lld using ($3 == %g ? $3 - $4 : NaN):5 with linespoints %s linewidth 2 "
                "pointsize 0.6 pointinterval %d notitle",
                index ? ", " : "", (long long)from, (long long)to - 1, e->query, plot_look(gyre_report_look_at(index), look),
                e->tokens > 16 ? (int)e->tokens / 8 : 1);
    }
    fputc('\n', s->file);
}

/* The map of one head: queries down, keys across; NaN for keys that no query sees. */
static void put_map(const plot_table *t, plot_script *s, int64_t first, int64_t end, int tokens) {
    double low = INFINITY, high = -INFINITY;
    fputs("$map << EOD\n", s->file);
    int64_t r = first;
    for (int m = 0; m < tokens; m++)
        for (int n = 0; n < tokens; n++) {
            const int is_here =
                r < end && plot_table_number(t, r, COLUMN_QUERY) == m && plot_table_number(t, r, COLUMN_KEY) == n;
            if (is_here) {
                const double value = plot_table_number(t, r++, COLUMN_VALUE);
                fprintf(s->file, "%d %d %.9g\n", n, m, value);
                low = fmin(low, value);
                high = fmax(high, value);
            } else {
                fprintf(s->file, "%d %d NaN\n", n, m);
            }
        }
    const double middle = (low + high) / 2;
    fprintf(s->file, "EOD\nset cbrange [%.9g:%.9g]\nset cbtics ('%.3g' %.9g, '%.3g' %.9g, '%.3g' %.9g)\n", low, high, low,
            low, middle, middle, high, high);
}

/* Where a scheme is drawn: one alone has its map beside its curves, several have theirs below. */
typedef struct places {
    plot_box curves, map;
    double scale; /* height of the colour bar's foot */
    int is_first; /* of the row: it names the y axes */
} places;

static places places_of(int i, int count) {
    if (count == 1) return (places){{0.09, 0.46, 0.17, 0.83}, {0.6, 0.896, 0.3, 0.88}, 0.11, 1};
    const double left = 0.055 + (double)i / count * 0.945, right = left + 0.945 / count - 0.062;
    return (places){{left, right, 0.6, 0.85}, {left, right, 0.23, 0.49}, 0.085, i == 0};
}

static void draw_map(const plot_table *t, plot_script *s, const places *at, int64_t first, int64_t end, double tokens) {
    plot_box_begin(s, at->map);
    fprintf(s->file,
            "unset grid\nset border 15\nset size ratio -1\nset xrange [-0.5:%g]\nset yrange [%g:-0.5]\nset xtics %g\nset "
            "ytics %g font ',11'\nset colorbox horizontal user origin screen %.4f, screen %.3g size "
            "screen %.4f, screen 0.022\nset cbtics font ',10'\n",
            tokens - 0.5, tokens - 0.5, tokens / 2, tokens / 2, at->map.left, at->scale, at->map.right - at->map.left);
    /* Light to dark: the most favoured keys are light.  Rows of a table favour none: grey. */
    fputs(shows_rows(t, first) ? "set palette defined (0 '#3c4043', 1 '#f1f3f4')\n"
                               : "set palette defined (0 '#0b2545', 0.35 '#0072b2', 0.7 '#9ecae1', 1 '#fff8e1')\n",
          s->file);
    plot_label(s, 'x', "key (tokens)");
    if (at->is_first) plot_label(s, 'y', "query (tokens)");
    put_map(t, s, first, end, (int)tokens);
    fprintf(s->file, "plot $map using 1:2:3 %s notitle\nset size noratio\n", plot_image(tokens * tokens));
}

static void draw_scheme(const plot_table *t, plot_script *s, int i, int count, int64_t first, int64_t end) {
    const places at = places_of(i, count);
    const extent e = extent_of(t, first, end);
    int64_t head_end = first + 1;
    while (head_end < end && plot_table_number(t, head_end, COLUMN_HEAD) == plot_table_number(t, first, COLUMN_HEAD))
        head_end++;
    plot_box_begin(s, at.curves);
    plot_panel_title(s, plot_table_text(t, first, COLUMN_ENCODING));
    plot_label(s, 'x', e.query + 1 < e.tokens ? "query - key (tokens)" : "distance (tokens)");
    const int is_row = shows_rows(t, first);
    if (at.is_first || is_row) plot_label(s, 'y', is_row ? "row of the table" : "added to the score");
    fprintf(s->file, "set grid xtics ytics\nset xtics %g font ',12'\nset ytics font ',11'\nset xrange [%g:%g]\n",
            e.tokens / 2, e.query + 1 < e.tokens ? e.query - e.tokens : 0, e.query + 1);
    draw_curves(t, s, &e);
    draw_map(t, s, &at, first, head_end, e.tokens);
}

static void draw(const plot_work *w, plot_script *s) {
    const plot_table *t = &w->table;
    const int count = plot_table_groups(t, COLUMN_ENCODING);
    plot_script_start(s, count > 3 ? 240 * count : count > 1 ? 420 * count : 900, count > 1 ? 620 : 460, t->title);
    plot_data(s, t, "all", 0, t->rows);
    for (plot_group g = {0}; plot_group_next(t, COLUMN_ENCODING, &g);)
        draw_scheme(t, s, g.index, count, g.first, g.end);
}

const plot_kind plot_bias = {"bias",
                             "numbers added to scores, as curves and maps: ALiBi, Sandwich, KERPLE, FIRE, T5, DeBERTa",
                             PLOT_TAKES_MODEL,
                             1,
                             PLOT_OPTION_HEAD | PLOT_OPTION_TOKENS | PLOT_OPTION_TRAINED | PLOT_OPTION_BASE |
                                 PLOT_OPTION_AS | PLOT_OPTION_LAYER_TYPE | PLOT_OPTION_LAYER | PLOT_OPTION_COMPARE,
                             compute,
                             draw};
