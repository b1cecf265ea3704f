/* cmd_explain.c: gyre explain: what positions a model really uses, as one program or another reads its config. */
#include "tools/explain/explain_check.h"
#include "tools/explain/explain_stats.h"
#include "tools/explain/explain_text.h"
#include "tools/explain/explain_view.h"
#include <string.h>

enum { KEY_AS = CLI_FIRST_KEY, KEY_LENGTH, KEY_LAYER_TYPE, KEY_CHECK };

static const struct argp_option OPTIONS[] = {
    {"as", KEY_AS, "PROFILE", 0,
     "read it as hf-5, hf-4.56, hf-4.51, hf-4.43, vllm, llama.cpp or reference does (default: hf-5 for a config.json, "
     "llama.cpp for a GGUF)",
     0},
    {"length", KEY_LENGTH, "N", 0, "the context length in use (default: what the model was trained for)", 0},
    {"layer-type", KEY_LAYER_TYPE, "NAME", 0, "only these layers: full_attention, vision; a wrong name lists them", 0},
    {"check", KEY_CHECK, "TEXT", 0,
     "read this text with pairs as halves and interleaved, and say which of them the weights were trained with", 0},
    {0}};

typedef struct explain_options {
    cli_options common;                     /* first */
    const char *model, *layer_type, *check; /* check: a text, or NULL */
    gyre_profile profile;
    int64_t length;
    explain_check checked; /* where check is one */
} explain_options;

static error_t parse(int key, char *arg, struct argp_state *state) {
    explain_options *o = state->input;
    switch (key) {
    case KEY_AS:
        o->profile = explain_parse_profile("--as", arg);
        return 0;
    case KEY_LENGTH:
        o->length = cli_integer("--length", arg, 1, EXPLAIN_MAX_LENGTH);
        return 0;
    case KEY_LAYER_TYPE:
        o->layer_type = arg;
        return 0;
    case KEY_CHECK:
        o->check = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (o->model) cli_usage_error("%s: one model at a time; gyre diff compares two", arg);
        o->model = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char DOC[] = "Say what positions a model uses: the encoding, every number of it and where it comes from, and "
                          "which pairs of channels a "
                          "scaling keeps, blends and interpolates."
                          "\vMODEL is a config.json, a folder with one, or a GGUF file.  The same file gives other "
                          "positions in other programs, and "
                          "in other versions of one: --as says whose reading is meant.\n\n"
                          "Examples:\n"
                          "  gyre explain models/rope\n"
                          "  gyre explain config.json --as vllm --length 32k\n"
                          "  gyre explain model.gguf --json\n"
                          "  gyre explain gemma-3/config.json --layer-type full_attention\n"
                          "  gyre explain models/rope --check README.md\n";

/* -- JSON -- */
static json_t *group_object(const gyre_reading *reading, const gyre_layer_reading *group, gyre_error *err) {
    explain_stats stats;
    if (explain_stats_compute(&stats, reading, group, err)) return NULL;
    json_t *object = json_object();
    if (explain_group_json(object, reading, &stats)) {
        (void)gyre_fail(err, GYRE_ENOMEM, "JSON: out of memory (%.200s)", reading->path);
        json_decref(object);
        object = NULL;
    }
    explain_stats_free(&stats);
    return object;
}

/* out = every wanted group; NULL with err. */
static json_t *group_objects(const explain_options *o, const gyre_reading *reading, gyre_error *err) {
    json_t *list = json_array();
    if (!list) (void)gyre_fail(err, GYRE_ENOMEM, "JSON: out of memory (%.200s)", reading->path);
    for (int64_t i = 0; list && i < reading->groups_count; i++) {
        if (!explain_is_selected(&reading->groups[i], o->layer_type)) continue;
        json_t *object = group_object(reading, &reading->groups[i], err);
        if (object && json_array_append_new(list, object) == 0) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

/* The keys of the first group stand at the top too: most models have one. */
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

static int write_json(const explain_options *o, const gyre_reading *reading, FILE *file) {
    gyre_error err = {0, ""};
    json_t *groups = group_objects(o, reading, &err);
    if (!groups) return cli_fail_error(&err);
    json_t *root = json_object();
    int bad = json_object_set_new(root, "path", explain_json_text(reading->path));
    bad |= json_object_set_new(root, "format", json_string(reading->format));
    bad |= json_object_set_new(root, "model_type", explain_json_text(reading->model_type));
    bad |= json_object_set_new(root, "profile", json_string(gyre_profile_name(reading->profile)));
    bad |= add_first(root, groups);
    bad |= json_object_set_new(root, "groups", groups);
    bad |= json_object_set_new(root, "warnings", explain_warnings_json(reading));
    if (o->check) bad |= json_object_set_new(root, "check", explain_check_json(&o->checked, o->check));
    if (bad) json_decref(root);
    return cli_json_write(file, bad ? NULL : root);
}

/* -- terminal -- */
static int write_view(const explain_options *o, const gyre_reading *reading, FILE *file) {
    const explain_terminal page = explain_terminal_open(file);
    explain_view_head(&page, reading);
    for (int64_t i = 0; i < reading->groups_count; i++) {
        explain_stats stats;
        gyre_error err = {0, ""};
        if (!explain_is_selected(&reading->groups[i], o->layer_type)) continue;
        if (explain_stats_compute(&stats, reading, &reading->groups[i], &err)) return cli_fail_error(&err);
        explain_view_group(&page, reading, &stats);
        explain_stats_free(&stats);
    }
    explain_view_warnings(&page, reading);
    if (o->check) explain_check_view(&page, &o->checked, o->model);
    return 0;
}

/* Weights are read for this alone. */
static int check(explain_options *o, int argc, char **argv) {
    const model_options options = {.path = o->model, .profile = o->profile, .texts = &o->check, .texts_count = 1};
    gyre_pool *pool = NULL;
    gyre_exec exec;
    gyre_error err = {0, ""};
    int status = o->check ? cli_pool_open(&o->common, &pool, &exec) : 0;
    if (!status && o->check && explain_check_run(&o->checked, &options, argc, argv, &exec, &err))
        status = cli_fail_error(&err);
    gyre_pool_free(pool);
    return status;
}

int cmd_explain(int argc, char **argv) {
    static const struct argp ARGP = {OPTIONS, parse, "MODEL", DOC, NULL, NULL, NULL};
    explain_options o = {.profile = GYRE_PROFILE_DEFAULT};
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    cli_output output;
    cli_parse(&ARGP, CLI_THREADS | CLI_JSON | CLI_OUTPUT, argc, argv, &o.common);
    if (!o.model) cli_usage_error("MODEL: missing");
    if (gyre_reading_open(&reading, o.model, o.profile, o.length, &err)) return cli_fail_error(&err);
    explain_check_layer_type(o.layer_type, reading, NULL);
    cli_check_output(o.common.output, reading->path);
    cli_check_output(o.common.output, o.model);
    int status = check(&o, argc, argv);
    if (!status) status = cli_output_open(&output, o.common.output);
    if (!status) {
        status = (o.common.json ? write_json : write_view)(&o, reading, output.file);
        status = cli_output_close(&output, status);
    }
    explain_check_free(&o.checked);
    gyre_reading_free(reading);
    return status;
}
