/* plot_results.c: reads results of gyre eval, gyre passkey and gyre lab, of several runs.
 *
 * A file holds what --json or --json-lines printed, or a journal.  All are read as a row of JSON values.  What the lab wrote
 * holds up to four runs: its encodings, the methods as they are and after fine-tuning, and those of the ALiBi model. */
#include "tools/plot/plot_results.h"
#include "tools/common/window_statistics.h"
#include "util/open_regular.h"
#include "util/path.h"
#include "util/plain_numbers.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Each row looks for its name. */
enum { MOST_NAMES = 1024 };
const plot_column plot_perplexity_columns[] = {{"run", NULL}, {"method", NULL}, {"context", "tokens"}, {"perplexity", ""},
                                               {"low", ""},   {"high", ""},     {NULL, NULL}};
const plot_column plot_passkey_columns[] = {{"run", NULL}, {"method", NULL}, {"length", "tokens"}, {"right", "%"},
                                            {"low", "%"},  {"high", "%"},    {"depth", "%"},       {NULL, NULL}};
const plot_column plot_copying_columns[] = {{"run", NULL}, {"method", NULL}, {"context", "tokens"}, {"right", "%"},
                                            {"low", "%"},  {"high", "%"},    {NULL, NULL}};

/* A file being read. */
typedef struct runs_reader {
    plot_table *table;
    const method_options *methods; /* that are read; none listed = all */
    const char *name;              /* of the file */
    double run;                    /* label */
    runs_measure measure;
    int of_seeds;    /* 1: a range is that of the seeds */
    int64_t trained; /* 0 = not said */
    int64_t rows;    /* of this file */
    int is_wrong;    /* 1: `wrong` is a number that the measure cannot have */
    double wrong;
} runs_reader;

/* -- reading -- */
/* out = 1 if rows of the method are read. */
static int is_wanted(const runs_reader *r, const char *label) {
    for (int64_t i = 0; i < r->methods->count; i++)
        if (strcmp(r->methods->list[i].label, label) == 0) return 1;
    return r->methods->count == 0;
}

/* Past the bound nothing is looked for: read_file refuses the file. */
static double name_of(runs_reader *r, const char *text) {
    return r->table->labels_count > MOST_NAMES ? 0 : plot_table_label(r->table, text);
}

static double number_at(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* A row of a length policy is a separate line. */
static double label_of(runs_reader *r, const json_t *result, const char *key, const char *policy) {
    char label[PLOT_LABEL];
    const char *name = json_string_value(json_object_get(result, key));
    const char *by = json_string_value(json_object_get(result, policy));
    gyre_plain_snprintf(label, sizeof label, by && strcmp(by, "any") != 0 ? "%.60s, %.30s" : "%.60s", name ? name : "", by);
    return name_of(r, label);
}

static void add_perplexity(runs_reader *r, double label, double context, double value, double low, double high) {
    if (!(context > 0) || !isfinite(value)) return;
    if (!(value > 1e-9 && value < 1e30)) r->wrong = value, r->is_wrong = 1;
    plot_table_add(r->table, (double[]){r->run, label, context, value, low, high});
    r->rows++;
}

/* low, high and depth may be NaN. */
static void add_share(runs_reader *r, double label, const double length_right_low_high_depth[5]) {
    const double *v = length_right_low_high_depth;
    if (!(v[0] > 0) || !isfinite(v[1])) return;
    if (!(v[1] >= 0 && v[1] <= 1)) r->wrong = v[1], r->is_wrong = 1;
    plot_table_add(r->table, (double[]){r->run, label, v[0], 100 * v[1], 100 * v[2], 100 * v[3], 100 * v[4]});
    r->rows++;
}

static void add_passkey(runs_reader *r, double label, double length, double right, double depth) {
    add_share(r, label, (double[]){length, right, (double)NAN, (double)NAN, depth});
}

/* *low, *high = the numbers at key: [low, high]; NaN without it.  out = 1 if it is there. */
static int interval_at(const json_t *object, const char *key, double *low, double *high) {
    const json_t *interval = json_object_get(object, key);
    const json_t *ends[2] = {json_array_get(interval, 0), json_array_get(interval, 1)};
    *low = json_is_number(ends[0]) ? json_number_value(ends[0]) : (double)NAN;
    *high = json_is_number(ends[1]) ? json_number_value(ends[1]) : (double)NAN;
    return isfinite(*low) && isfinite(*high);
}

static const char *text_at(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* A line of "results". */
static void read_result(runs_reader *r, const json_t *result) {
    if (!is_wanted(r, text_at(result, "label"))) return;
    const double label = label_of(r, result, "label", "length_policy");
    const double context = number_at(result, "context");
    double low, high;
    (void)interval_at(result, "perplexity_interval", &low, &high);
    if (r->measure == RUNS_COPIES) return;
    if (r->measure == RUNS_KEYS && isfinite(context))
        add_passkey(r, label, context, number_at(result, "passkey"), (double)NAN);
    else if (r->measure == RUNS_KEYS)
        add_passkey(r, label, number_at(result, "length"), number_at(result, "right"), number_at(result, "depth"));
    else
        add_perplexity(r, label, context, number_at(result, "perplexity"), low, high);
}

/* A line of a journal: the figures of one cell, an object (eval) or a list of trials (passkey). */
static void read_cell(runs_reader *r, const json_t *cell, const json_t *figures) {
    if (r->measure == RUNS_COPIES || !is_wanted(r, text_at(cell, "method"))) return;
    const double label = label_of(r, cell, "method", "policy");
    const double trials = number_at(figures, "trials"), nats = number_at(figures, "nats");
    if (json_is_array(figures) && r->measure == RUNS_KEYS) {
        int64_t right = 0;
        const size_t count = json_array_size(figures);
        for (size_t i = 0; i < count; i++)
            right += json_is_true(json_object_get(json_array_get(figures, i), "right"));
        add_passkey(r, label, number_at(cell, "length"), (double)right / (double)count, number_at(cell, "depth"));
    } else if (json_is_object(figures) && r->measure == RUNS_KEYS) {
        add_passkey(r, label, number_at(cell, "context"), number_at(figures, "right") / trials, (double)NAN);
    } else if (json_is_object(figures)) {
        const double windows = number_at(figures, "windows"), variance = number_at(figures, "variance");
        const double half = windows >= 3 ? student_t(windows - 1) * sqrt(variance / windows) : (double)NAN;
        add_perplexity(r, label, number_at(cell, "context"), exp(nats), exp(nats - half), exp(nats + half));
    }
}

/* What older labs wrote has no intervals of perplexity, but the range of its seeds. */
static void read_lab_cell(runs_reader *r, double label, const json_t *cell) {
    const double context = number_at(cell, "context");
    const int copies = r->measure == RUNS_COPIES;
    double low, high;
    if (r->measure != RUNS_PERPLEXITY) {
        (void)interval_at(cell, copies ? "copied_interval" : "passkey_interval", &low, &high);
        add_share(r, label, (double[]){context, number_at(cell, copies ? "copied" : "passkey"), low, high, (double)NAN});
    } else if (interval_at(cell, "perplexity_interval", &low, &high)) {
        add_perplexity(r, label, context, number_at(cell, "perplexity"), low, high);
    } else {
        add_perplexity(r, label, context, number_at(cell, "perplexity"), number_at(cell, "perplexity_least"),
                       number_at(cell, "perplexity_greatest"));
        r->of_seeds |= !json_object_get(cell, "perplexity_interval");
    }
}

/* A part of what the lab wrote: rows of cells. */
static void read_lab_rows(runs_reader *r, const json_t *rows, const char *part, int are_methods) {
    char name[PLOT_LABEL];
    if (!json_is_array(rows)) return;
    gyre_plain_snprintf(name, sizeof name, "%.60s: %s", r->name, part);
    r->run = name_of(r, name);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *cells = json_object_get(row, "cells");
        if (are_methods && !is_wanted(r, text_at(row, "name"))) continue;
        const double label = name_of(r, text_at(row, "name"));
        for (size_t k = 0; k < json_array_size(cells); k++)
            read_lab_cell(r, label, json_array_get(cells, k));
    }
}

static void read_trained(runs_reader *r, const json_t *run) {
    const double trained = number_at(run, "trained_length");
    if (trained >= 1 && trained < 9e15) r->trained = (int64_t)trained;
}

/* Of several texts, those of all together ("text": null) are read. */
static void read_results(runs_reader *r, const json_t *results) {
    int all = 0;
    for (size_t i = 0; i < json_array_size(results); i++)
        all |= json_is_null(json_object_get(json_array_get(results, i), "text"));
    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *result = json_array_get(results, i);
        if (!all || json_is_null(json_object_get(result, "text"))) read_result(r, result);
    }
}

/* The only encoding is the RoPE that the methods extend: the row of none has its numbers. */
static int is_among_methods(const runs_reader *r, const json_t *value) {
    const json_t *encodings = json_object_get(value, "encodings");
    return json_array_size(encodings) == 1 && strcmp(text_at(json_array_get(encodings, 0), "name"), "rope") == 0 &&
           json_array_size(json_object_get(value, "methods")) > 0 && is_wanted(r, "none");
}

static void read_value(runs_reader *r, const json_t *value) {
    const json_t *run = json_object_get(value, "run"), *result = json_object_get(value, "result");
    const json_t *cell = json_object_get(value, "cell");
    read_trained(r, run ? run : value);
    read_results(r, json_object_get(value, "results"));
    if (result) read_result(r, result);
    if (cell) read_cell(r, cell, json_object_get(value, "figures"));
    if (!is_among_methods(r, value)) read_lab_rows(r, json_object_get(value, "encodings"), "encodings", 0);
    read_lab_rows(r, json_object_get(value, "methods"), "methods, not fine-tuned", 1);
    read_lab_rows(r, json_object_get(value, "fine_tuned"), "methods, fine-tuned", 1);
    read_lab_rows(r, json_object_get(value, "alibi_methods"), "methods, ALiBi", 1);
}

static gyre_status read_file(runs_reader *r, const char *path, gyre_error *err) {
    json_error_t error = {.line = 0};
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) return gyre_fail(err, GYRE_EIO, "not a regular file (%s)", path);
    FILE *file = gyre_open_regular(path);
    json_t *value;
    if (!file) return gyre_fail_errno(err, path, errno);
    while ((value = json_loadf(file, JSON_DISABLE_EOF_CHECK, &error))) {
        read_value(r, value);
        json_decref(value);
    }
    const int whole = feof(file) && error.position <= 1;
    (void)fclose(file);
    if (!whole && json_error_code(&error) != json_error_premature_end_of_input)
        return gyre_fail(err, GYRE_EFORMAT, "line %d: %s (%s)", error.line, error.text, path);
    if (r->table->labels_count > MOST_NAMES)
        return gyre_fail(err, GYRE_EINVAL, "results: more than %d names of methods and runs (%s)", MOST_NAMES, path);
    if (r->is_wrong)
        return gyre_fail(err, GYRE_EFORMAT, "results: %g is no %s (%s)", r->wrong,
                         r->measure == RUNS_PERPLEXITY ? "perplexity" : "share of right answers", path);
    if (r->rows) return GYRE_OK;
    if (r->methods->count) return gyre_fail(err, GYRE_EINVAL, "--methods: no result of them (%s)", path);
    if (r->measure == RUNS_COPIES)
        return gyre_fail(err, GYRE_EFORMAT,
                         "results: no copies in it; gyre lab --json writes them since it counts them (%s)", path);
    static const char *const from[] = {"gyre eval or gyre lab", "gyre passkey, gyre lab, or gyre eval --passkey,",
                                       "gyre lab --json"};
    return gyre_fail(err, GYRE_EFORMAT,
                     "results: none of %s in it; it takes what --json, --json-lines or --journal wrote (%s)",
                     from[r->measure], path);
}

/* out = the last part of a path without its ending, which names the run. */
static void name_of_run(const char *path, char out[PLOT_LABEL]) {
    const char *base = gyre_path_name(path);
    snprintf(out, PLOT_LABEL, "%.*s", (int)strcspn(base, "."), base);
}

gyre_status plot_results_read(plot_work *w, runs_measure measure, gyre_error *err) {
    static const struct {
        const plot_column *columns;
        const char *command, *title;
    } of[] = {{plot_perplexity_columns, "eval", "Perplexity by context length"},
              {plot_passkey_columns, "passkey", "Keys found, by length"},
              {plot_copying_columns, "lab", "Copied bytes right, by context length"}};
    const plot_options *o = w->options;
    gyre_status status = GYRE_OK;
    int others = 0;
    if (!o->files_count)
        cli_usage_error("FILE: missing; name what gyre %s --json wrote%s", of[measure].command,
                        measure == RUNS_COPIES ? "" : ", or its journal");
    plot_table_columns(&w->table, of[measure].columns);
    for (int i = 0; i < o->files_count && !status; i++) {
        char name[PLOT_LABEL];
        name_of_run(o->files[i], name);
        runs_reader r = {.table = &w->table, .methods = &o->method, .name = name, .measure = measure};
        const int known = w->table.labels_count;
        r.run = plot_table_label(&w->table, name);
        if (w->table.labels_count == known) r.run = plot_table_label(&w->table, r.name = o->files[i]); /* a name twice */
        status = read_file(&r, o->files[i], err);
        w->seeds |= r.of_seeds;
        others |= r.trained && w->trained && w->trained != r.trained;
        if (r.trained) w->trained = r.trained;
    }
    if (others) w->trained = 0; /* one mark for all panels would be wrong in some */
    if (o->stretch.trained) w->trained = o->stretch.trained;
    snprintf(w->table.title, sizeof w->table.title, "%s", of[measure].title);
    return status;
}
