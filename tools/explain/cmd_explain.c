/* cmd_explain.c: gyre explain: the positions that a model uses, as one program or another reads its config. */
#include "tools/cli/cli.h"
#include "tools/common/model_path.h"
#include "tools/explain/explain_accuracy.h"
#include "tools/explain/explain_check.h"
#include "tools/explain/explain_stats.h"
#include "tools/explain/explain_view.h"
#include "tools/options/reading_options.h"
#include "tools/subcommands.h"
#include "tools/timeline/timeline.h"
#include <stdlib.h>
#include <string.h>

typedef struct explain_options {
    cli_options common; /* first */
    reading_options reading;
    const char *model, *check; /* check: a text, or NULL */
    int accuracy, timeline;
    explain_check checked; /* its result, if check is set */
} explain_options;

#define CLI_STRUCT explain_options
static const cli_option rows[] = {
    ROW_AS(reading.profile, 0),
    ROW_LENGTH(reading.length, 0),
    ROW_LAYER_TYPE(reading.layer_type, ONLY_LAYERS_HELP, 0),
    {"check", "TEXT",
     "Read this text with pairs in half and in interleaved layout, and say which one the weights were trained with", 0,
     CLI_TEXT(check), .file = CLI_FILE_READ},
    {"accuracy", NULL,
     "How wrong the angles of each program are in contexts of 4k to 1M tokens, from where on scores feel it, and what a "
     "cache in few bits and 1, 10 and 100 shifts do to them",
     0, CLI_FLAG(accuracy)},
    {"timeline", NULL, "How each version of each program read this config, in the order of time, and what changed", 0,
     CLI_FLAG(timeline), .excludes = "as", .why = "reads as every program"},
    {0}};

static int read_argument(void *options, char *text) {
    explain_options *o = options;
    if (o->model) cli_usage_error("%s: one model at a time; gyre diff compares two", text);
    o->model = model_path_find(text);
    return 0;
}

static const char DOC[] =
    "Shows the positions that a model uses: the encoding, each of its numbers with its source, and which pairs of channels "
    "a "
    "scaling keeps, blends and interpolates."
    "\vMODEL is a config.json, a folder with one, or a GGUF file; or " MODEL_PATH_HELP
    "  Programs, and versions of one program, read different "
    "positions from the same file: --as chooses whose reading is shown.\n\n"
    "Examples:\n"
    "  gyre explain models/rope\n"
    "  gyre explain config.json --as vllm --length 32k\n"
    "  gyre explain model.gguf --json\n"
    "  gyre explain gemma-3/config.json --layer-type full_attention\n"
    "  gyre explain models/rope --check /usr/share/common-licenses/GPL-3\n"
    "  gyre explain config.json --accuracy\n"
    "  gyre explain config.json --timeline\n";

/* -- what is shown -- */
/* The groups that --layer-type selects. */
typedef struct shown_groups {
    explain_stats *stats;         /* [count] */
    explain_accuracy **accuracy;  /* [count], of groups that rotate; all NULL without --accuracy */
    const explain_stats **listed; /* [count], to each of stats */
    int count;
} shown_groups;

static void close_groups(shown_groups *g) {
    for (int i = 0; i < g->count; i++)
        explain_stats_free(&g->stats[i]);
    if (g->accuracy) explain_accuracy_free(g->accuracy, g->count);
    free(g->stats);
    free(g->accuracy);
    free((void *)g->listed);
}

/* *g is to be closed whatever comes out. */
static gyre_status open_groups(shown_groups *g, const explain_options *o, const gyre_reading *reading, gyre_error *err) {
    const size_t most = (size_t)reading->groups_count;
    gyre_status status = GYRE_OK;
    g->stats = calloc(most + 1, sizeof *g->stats);
    g->accuracy = calloc(most + 1, sizeof(void *));
    g->listed = calloc(most + 1, sizeof(void *));
    if (!g->stats || !g->accuracy || !g->listed)
        return gyre_fail(err, GYRE_ENOMEM, "layers: out of memory (%.200s)", reading->path);
    for (size_t i = 0; i < most && !status; i++) {
        if (!reading_is_selected(reading->groups[i], o->reading.layer_type)) continue;
        status = explain_stats_compute(&g->stats[g->count], reading, reading->groups[i], err);
        if (status) break;
        g->listed[g->count] = &g->stats[g->count];
        g->count++;
    }
    if (!status && o->accuracy) status = explain_accuracy_compute(g->accuracy, g->listed, g->count, err);
    return status;
}

/* -- JSON -- */
static json_t *group_object(const explain_options *o, const gyre_reading *reading, const shown_groups *g, int i) {
    json_t *object = json_object();
    int bad = explain_group_json(object, reading, &g->stats[i]);
    if (o->accuracy)
        bad |= cli_json_set(object, "accuracy", g->accuracy[i] ? explain_accuracy_json(g->accuracy[i]) : json_null());
    return cli_json_checked(object, bad);
}

/* Repeats the keys of the first group at the top level, because most models have one group. */
static int add_first(json_t *root, const json_t *groups) {
    static const char *const keys[] = {
        "encoding", "kind",           "layout",    "head_dim",         "rotary_dim",         "base",
        "scaling",  "trained_length", "length",    "attention_factor", "softmax_multiplier", "scale",
        "window",   "inv_freq",       "wavelength"};
    const json_t *first = json_array_get(groups, 0);
    int bad = !first;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        bad |= json_object_set(root, keys[i], json_object_get(first, keys[i])) != 0;
    return bad;
}

static int write_json(const explain_options *o, const gyre_reading *reading, const shown_groups *g, FILE *file) {
    json_t *root = json_object(), *groups = json_array();
    for (int i = 0; i < g->count; i++)
        groups = cli_json_append(groups, group_object(o, reading, g, i));
    int bad = cli_json_set(root, "path", cli_json_text(reading->path));
    bad |= cli_json_set(root, "format", json_string(reading->format));
    bad |= cli_json_set(root, "model_type", cli_json_text(reading->model_type));
    bad |= cli_json_set(root, "profile", json_string(gyre_profile_name(reading->profile)));
    bad |= add_first(root, groups);
    bad |= cli_json_set(root, "groups", groups);
    bad |= cli_json_set(root, "warnings", explain_warnings_json(reading));
    if (o->check) bad |= cli_json_set(root, "check", explain_check_json(&o->checked, o->check));
    if (bad) json_decref(root);
    return cli_json_write(file, bad ? NULL : root);
}

/* -- text -- */
static void view_accuracy(const explain_terminal *page, const explain_accuracy *accuracy) {
    if (accuracy) {
        explain_accuracy_view(page, accuracy);
        return;
    }
    fputc('\n', page->file);
    explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, 0, 2, "  --accuracy: nothing rotates here, so there are no angles");
}

static int write_view(const explain_options *o, const gyre_reading *reading, const shown_groups *g, FILE *file) {
    const explain_terminal page = explain_terminal_open(file);
    explain_view_head(&page, reading);
    for (int i = 0; i < g->count; i++) {
        explain_view_group(&page, reading, &g->stats[i]);
        if (o->accuracy) view_accuracy(&page, g->accuracy[i]);
    }
    explain_view_warnings(&page, reading);
    if (o->check) explain_check_view(&page, &o->checked, o->model);
    return 0;
}

static int write_reading(const explain_options *o, const gyre_reading *reading) {
    shown_groups groups = {.count = 0};
    gyre_error err = {0, ""};
    cli_output output;
    int status = open_groups(&groups, o, reading, &err) ? cli_fail_error(&err) : 0;
    if (!status) status = cli_output_open(&output, o->common.output);
    if (!status) {
        status = (o->common.json ? write_json : write_view)(o, reading, &groups, output.file);
        status = cli_output_close(&output, status);
    }
    close_groups(&groups);
    return status;
}

/* Only --check reads the weights. */
static int check(explain_options *o, int argc, char **argv) {
    const model_options options = {.path = o->model, .profile = o->reading.profile, .texts = &o->check, .texts_count = 1};
    gyre_pool *pool = NULL;
    gyre_exec exec;
    gyre_error err = {0, ""};
    int status = o->check ? cli_pool_open(&o->common, &pool, &exec) : 0;
    if (!status && o->check && explain_check_run(&o->checked, &options, argc, argv, &exec, &err))
        status = cli_fail_error(&err);
    gyre_pool_free(pool);
    return status;
}

/* -- the timeline -- */
static int write_timeline(const explain_options *o, const timeline *t) {
    cli_output output;
    int status = cli_output_open(&output, o->common.output);
    if (status) return status;
    if (o->common.json) {
        status = timeline_write_json(t, output.file);
    } else {
        const explain_terminal page = explain_terminal_open(output.file);
        timeline_view(&page, t);
    }
    return cli_output_close(&output, status);
}

static int show_timeline(const explain_options *o) {
    gyre_error err = {0, ""};
    timeline *t = calloc(1, sizeof *t);
    if (!t) return cli_fail("timeline: out of memory (%.200s)", o->model);
    t->path = o->model;
    t->length = o->reading.length;
    t->layer_type = o->reading.layer_type;
    const gyre_status failed = timeline_read(t, &err);
    if (!failed && cli_json_check(0)) exit(CLI_FAILED); /* a file that memory cut short would have no versions */
    if (!failed) reading_check_layer_type(t->layer_type, t->rows[t->default_row].reading, NULL);
    const int status = failed ? cli_fail_error(&err) : write_timeline(o, t);
    timeline_free(t);
    free(t);
    return status;
}

int cmd_explain(int argc, char **argv) {
    static const cli_command command = {rows, CLI_ALL, "MODEL", DOC, read_argument, 0, NULL};
    explain_options o = {.reading = {.profile = GYRE_PROFILE_DEFAULT}};
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    cli_parse(&command, argc, argv, &o);
    if (!o.model) cli_usage_error("MODEL: missing");
    if (o.timeline && (o.check || o.accuracy)) cli_usage_error("--timeline: it has no --%s", o.check ? "check" : "accuracy");
    if (o.timeline) return show_timeline(&o);
    if (gyre_reading_open(&reading, o.model,
                          GYRE_ARGS(gyre_reading_options, .profile = o.reading.profile, .context_length = o.reading.length),
                          &err))
        return cli_fail_error(&err);
    reading_check_layer_type(o.reading.layer_type, reading, NULL);
    int status = check(&o, argc, argv);
    if (!status) status = write_reading(&o, reading);
    explain_check_free(&o.checked);
    gyre_reading_free(reading);
    return status;
}
