/* cmd_extend.c: gyre extend: what each way to stretch a model's context would need and do, and writing one. */
#include "tools/common/cli.h"
#include "tools/extend/extend.h"
#include "tools/extend/extend_print.h"
#include "util/checkpoint_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct extend_options {
    cli_options common;
    const char *path, *methods, *method, *write, *layer_type;
    gyre_profile profile;
    int64_t to, trained;
    method_betas betas; /* 0 = the model's own, or 32 and 1 */
} extend_options;

/* -- options -- */
enum {
    KEY_TO = CLI_FIRST_KEY,
    KEY_AS,
    KEY_LAYER_TYPE,
    KEY_METHODS,
    KEY_METHOD,
    KEY_WRITE,
    KEY_TRAINED,
    KEY_BETA_FAST,
    KEY_BETA_SLOW
};

static const int64_t token_limit = (int64_t)1 << 31; /* positions end there */

static const struct argp_option option_table[] = {
    {"to", KEY_TO, "N", 0, "The context length wanted, in tokens; 128k is 131072, 1M 1048576", 1},
    {"methods", KEY_METHODS, "LIST", 0,
     "Rows of the table, out of " EXTEND_METHOD_NAMES
     ", each alone (its factor is N over the trained length) or with a factor, as "
     "in yarn:8; any of " METHOD_MODIFIERS " may follow (default: all that rotate all pairs alike near and far)",
     2},
    {"method", KEY_METHOD, "M", 0, "The one to write", 3},
    {"write", KEY_WRITE, "PATH", 0,
     "Write the model's config, changed for --method and N, to this file, or as config.json into this folder; everything "
     "else in it stays byte for byte. Never the model's own file",
     3},
    {"as", KEY_AS, "PROFILE", 0, "Whose reading of the model counts: hf-5, vllm, llama.cpp, ... (default: the usual one)",
     4},
    {"layer-type", KEY_LAYER_TYPE, "T", 0,
     "The layers looked at, where they differ (default: the first that see all tokens)", 4},
    {"trained", KEY_TRAINED, "N", 0,
     "Tokens that the model was trained on, before any scaling (default: as its config says)", 4},
    {"beta-fast", KEY_BETA_FAST, "X", 0,
     "by-parts and yarn: turns over the trained length above which a pair is kept (default: the model's, or 32)", 5},
    {"beta-slow", KEY_BETA_SLOW, "X", 0,
     "by-parts and yarn: turns below which a pair is divided (default: the model's, or 1)", 5},
    {0}};

static const char documentation[] =
    "Lays the ways to stretch a model's context side by side: what each would need in its config, what it does to the "
    "rotation, and which programs would read that config so. MODEL is a config.json, a folder with one, or a GGUF file."
    "\v"
    "A scaling that the model holds already gives way to the new one, which counts from the length before it.\n"
    "Example: gyre extend models/rope --to 1k\n"
    "Example: gyre extend models/rope --to 1k --method yarn --write stretched.json";

static gyre_profile parse_profile(const char *text) {
    const char *names[16];
    int count = 0;
    for (gyre_profile p = GYRE_PROFILE_HF_5; count < 16 && gyre_profile_name(p); p = (gyre_profile)(p + 1))
        names[count++] = gyre_profile_name(p);
    return (gyre_profile)(GYRE_PROFILE_HF_5 + cli_choice("--as", text, names, count));
}

static error_t parse_option(int key, char *text, struct argp_state *state) {
    extend_options *o = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (o->path) return ARGP_ERR_UNKNOWN;
        o->path = text;
        return 0;
    case KEY_TO:
        o->to = cli_integer("--to", text, 2, token_limit);
        return 0;
    case KEY_AS:
        o->profile = parse_profile(text);
        return 0;
    case KEY_LAYER_TYPE:
        o->layer_type = text;
        return 0;
    case KEY_METHODS:
        o->methods = text;
        return 0;
    case KEY_METHOD:
        o->method = text;
        return 0;
    case KEY_WRITE:
        o->write = text;
        return 0;
    case KEY_TRAINED:
        o->trained = cli_integer("--trained", text, 4, token_limit);
        return 0;
    case KEY_BETA_FAST:
        o->betas.fast = cli_number("--beta-fast", text, 1e-6, 1e9);
        return 0;
    case KEY_BETA_SLOW:
        o->betas.slow = cli_number("--beta-slow", text, 1e-6, 1e9);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void read_options(int argc, char **argv, extend_options *o) {
    const struct argp argp = {.options = option_table, .parser = parse_option, .args_doc = "MODEL", .doc = documentation};
    *o = (extend_options){.profile = GYRE_PROFILE_DEFAULT};
    cli_parse(&argp, CLI_JSON | CLI_OUTPUT, argc, argv, &o->common);
    if (!o->path) cli_usage_error("MODEL: missing; name a config.json, a folder with one, or a GGUF file");
    if (!o->to) cli_usage_error("--to: missing; name the context length wanted, such as 128k");
    if (o->method && !o->write)
        cli_usage_error("--method: nothing is written without --write; --methods picks rows of the table");
    if (o->write && !o->method) cli_usage_error("--write: missing what to write; name it with --method, such as yarn");
    if (o->write && !*o->write) cli_usage_error("--write: the name of the file is empty");
    if (o->method && o->methods) cli_usage_error("--methods: picks rows of the table, which --write does not print");
}

/* -- the model -- */
static int is_rotating(const gyre_layer_reading *group) {
    return group->config.kind == GYRE_KIND_ROPE && strcmp(group->name, "vision") != 0;
}

/* The layers asked for; else the first that rotate and see all tokens; else the first that rotate; else the first. */
static const gyre_layer_reading *find_layers(const gyre_reading *reading, const char *name) {
    const gyre_layer_reading *rotating = NULL, *groups = reading->groups;
    for (int64_t i = 0; i < reading->groups_count; i++) {
        if (name && strcmp(groups[i].name, name) == 0) return &groups[i];
        if (!name && is_rotating(&groups[i]) && groups[i].window == 0) return &groups[i];
        if (!rotating && is_rotating(&groups[i])) rotating = &groups[i];
    }
    if (name) return NULL;
    return rotating ? rotating : &groups[0];
}

static _Noreturn void unknown_layers(const gyre_reading *reading, const char *name) {
    char list[400] = "";
    for (int64_t i = 0; i < reading->groups_count; i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", reading->groups[i].name);
    }
    cli_usage_error("--layer-type: \"%s\" is none of this model's: %s", name, list);
}

static double first_nonzero(double a, double b, double c) {
    return a != 0 ? a : b != 0 ? b : c;
}

static int open_model(const extend_options *o, extension *e) {
    gyre_error err = {0, ""};
    if (gyre_reading_open(&e->reading, o->path, o->profile, o->to, &err)) return cli_fail_error(&err);
    struct stat info; /* of a pipe nothing is left to be changed */
    if (stat(e->reading->path, &info) == 0 && !S_ISREG(info.st_mode))
        return cli_fail("model: no regular file, and it is read more than once; save it first (%s)", e->reading->path);
    e->path = o->path;
    e->profile = o->profile;
    e->to = o->to;
    e->group = find_layers(e->reading, o->layer_type);
    if (!e->group) unknown_layers(e->reading, o->layer_type);
    const gyre_config *c = &e->group->config;
    const int ramps = c->rope.scaling == GYRE_SCALING_YARN || c->rope.scaling == GYRE_SCALING_BY_PARTS;
    const int native = strcmp(e->reading->model_type, "gyre") == 0; /* says what it was trained on, whatever the scaling */
    e->trained = o->trained ? o->trained : native ? c->trained_length : extend_trained_length(c);
    e->betas.fast = first_nonzero(o->betas.fast, ramps ? c->rope.beta_fast : 0, 32);
    e->betas.slow = first_nonzero(o->betas.slow, ramps ? c->rope.beta_slow : 0, 1);
    if (e->betas.fast < e->betas.slow)
        return cli_fail("--beta-fast: %g is below --beta-slow %g (%s)", e->betas.fast, e->betas.slow, o->path);
    return 0;
}

/* -- the work -- */
static int print_figures(const extend_options *o, const extension *e, FILE *file) {
    gyre_error err = {0, ""};
    extend_method *recipes = NULL;
    int64_t count = 0;
    if (extend_methods_parse(o->methods ? o->methods : extend_methods_for(e), &recipes, &count, &err))
        cli_usage_error("%s", err.text);
    extend_effect *rows = calloc((size_t)count, sizeof *rows);
    int status = rows ? 0 : cli_fail("results: out of memory (extend)");
    cli_defer_signals(); /* extend_check_support has files of its own to remove */
    for (int64_t i = 0; i < count && !status; i++)
        if (extend_effect_compute(&recipes[i], e, &rows[i], &err) || extend_check_support(&recipes[i], e, &rows[i], &err))
            status = cli_fail_error(&err);
        else if (cli_interrupted())
            status = cli_fail("interrupted (extend)");
    if (!status)
        status = o->common.json ? extend_print_json(e, recipes, rows, count, file)
                                : extend_print_table(e, recipes, rows, count, file);
    free(rows);
    free(recipes);
    return status;
}

/* A factor that the user names may fall short of the length, which is written all the same. */
static void warn_of_reach(const extend_options *o, const extension *e, double factor) {
    const double reach = factor * (double)e->trained;
    if (strchr(o->method, ':') && factor > 1 && reach < (double)o->to)
        cli_warn("--method %s: its factor reaches %.0f tokens of the %lld that the model now says it reads", o->method,
                 reach, (long long)o->to);
}

static int write_model(const extend_options *o, const extension *e, FILE *file) {
    gyre_error err = {0, ""};
    extend_method r;
    gyre_config config;
    struct stat info;
    char path[4200];
    extend_key_change changes[EXTEND_MAX_KEY_CHANGES];
    if (extend_method_parse(o->method, &r, &err)) cli_usage_error("%s", err.text);
    if (extend_method_config(&r, e, &config, &err)) return cli_fail_error(&err);
    const int is_folder = stat(o->write, &info) == 0 && S_ISDIR(info.st_mode);
    const int has_slash = o->write[strlen(o->write) - 1] == '/';
    const char *slash = strrchr(e->reading->path, '/'); /* a config.json, or a GGUF of any name */
    const char *name = strcmp(e->reading->format, "GGUF") == 0 ? (slash ? slash + 1 : e->reading->path) : GYRE_CONFIG_FILE;
    snprintf(path, sizeof path, "%s%s%s", o->write, is_folder && !has_slash ? "/" : "", is_folder ? name : "");
    cli_set_pending_copy(path);
    const gyre_status status = gyre_reading_write(o->path, &config, o->to, o->write, &err);
    cli_set_pending_copy(NULL);
    if (status) return cli_fail_error(&err);
    warn_of_reach(o, e, config.rope.factor);
    const int count = extend_changes(e, path, changes);
    return o->common.json ? extend_print_written_json(e, &r, path, changes, count, file)
                          : extend_print_written(e, &r, path, changes, count, file);
}

static int extend(const extend_options *o, const extension *e, FILE *file) {
    const gyre_kind kind = e->group->config.kind;
    if (kind == GYRE_KIND_LEARNED || kind == GYRE_KIND_BERT)
        return cli_fail("positions: a table that was learned ends with its rows, and no config says how to stretch it (%s)",
                        e->reading->path);
    if (kind != GYRE_KIND_ROPE && o->write)
        return cli_fail("--write: %s has nothing to stretch (%s)", gyre_kind_name(kind), e->reading->path);
    if (kind != GYRE_KIND_ROPE) return extend_print_other(e, o->common.json, file);
    if (e->trained < 4)
        return cli_fail("trained length: the model does not say it; name it with --trained (%s)", e->reading->path);
    if (e->to <= e->trained)
        return cli_fail("--to: %lld is within the trained length of %lld, which needs no stretching (%s)", (long long)e->to,
                        (long long)e->trained, e->reading->path);
    return o->write ? write_model(o, e, file) : print_figures(o, e, file);
}

int cmd_extend(int argc, char **argv) {
    extend_options options;
    extension e = {0};
    read_options(argc, argv, &options);
    int status = open_model(&options, &e);
    if (!status) {
        cli_output output;
        cli_check_output(options.common.output, e.reading->path);
        status = cli_output_open(&output, options.common.output);
        if (!status) status = cli_output_close(&output, extend(&options, &e, output.file));
    }
    gyre_reading_free(e.reading);
    return status;
}
