/* cmd_extend.c: gyre extend: what each way to stretch a model's context needs and does, and writing one. */
#include "gyre/gyre_fields.h"
#include "tools/cli/cli.h"
#include "tools/cli/cli_json.h"
#include "tools/extend/extend.h"
#include "tools/extend/extend_print.h"
#include "tools/extend/extend_trainers.h"
#include "tools/extend/extend_verdict.h"
#include "tools/options/method_options.h"
#include "tools/options/model_options.h"
#include "tools/options/reading_options.h"
#include "tools/options/run_options.h"
#include "tools/options/stretch_options.h"
#include "tools/subcommands.h"
#include "util/checkpoint_files.h"
#include "util/path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct extend_options {
    cli_options common; /* first */
    reading_options reading;
    stretch_options stretch;
    extend_cost_options cost;     /* MODEL is in its model options */
    const char *methods, *method; /* methods, method: as given, because extend knows more methods than methods.h */
    int all;                      /* 1: prints the tables */
    gyre_profile write_for;       /* DEFAULT without the option */
    method_options betas;         /* only the betas; 0 = the model's own, or 32 and 1 */
} extend_options;

/* -- options -- */
enum { DEFAULT_WINDOWS = 16, MAX_WINDOWS = 1 << 20 };

#define CLI_STRUCT extend_options
static const cli_option option_rows[] = {
    ROW_TO(stretch.to, 1),
    {"all", NULL, "Also print what each method does to the rotation, and which programs read it so", 1, CLI_FLAG(all),
     .excludes = "method", .why = "adds tables, which --write does not print"},
    {"methods", "LIST",
     "Rows of the table: any of " EXTEND_METHOD_NAMES METHOD_NUMBERS_HELP
     ", each alone (its factor is N over the trained length) or with a factor, as in yarn:8; followed by any "
     "of " METHOD_MODIFIERS " (default: all that rotate near and far pairs alike)",
     2, CLI_TEXT(methods), .excludes = "method", .why = "picks rows of the table, which --write does not print"},
    {"method", "M", "The method to write (default of --write-for: the one that is recommended)", 3, CLI_TEXT(method),
     .needs = "write|write-for",
     .why = "nothing is written without --write or --write-for; --methods picks rows of the table"},
    ROW_WRITE(stretch.write, "--method and N", 3),
    {"write-for", EXTEND_TRAINERS,
     "Print the settings of this trainer that rotate as the method does; a trainer that has no such settings is refused, "
     "with "
     "the reason",
     3, CLI_CHOICE(gyre_profile, write_for, EXTEND_FIRST_TRAINER), .excludes = "write",
     .why = "prints settings, and --write changes a config"},
    ROW_AS(reading.profile, 4),
    ROW_LAYER_TYPE(reading.layer_type, "The layers to look at, if they differ (default: the first that see all tokens)", 4),
    ROW_TRAINED(stretch.trained, 4),
    ROW_BETA_FAST(betas.betas.fast, "the model's, or 32", 5),
    ROW_BETA_SLOW(betas.betas.slow, "the model's, or 1", 5),
    ROW_TEXT(cost.model, 6),
    ROW_IDS(cost.model, 6),
    ROW_TOKENIZER(cost.model.tokenizer, 6),
    {"near", "N",
     "With a text: the context within the trained length at which the cost near by is measured (default: the trained "
     "length)",
     7, CLI_INTEGER(cost.near, 2, CLI_MAX_TOKENS)},
    {"windows", "N", "With a text: maximum number of windows per context, spread over it (default: 16)", 7,
     CLI_INTEGER(cost.windows, 1, MAX_WINDOWS)},
    ROW_BUDGET(cost.run.budget, "how many of these windows fit", 7),
    ROW_WATCH(cost.run.watch, "method and length", 7),
    ROW_JOURNAL_OF(cost.run.journal, "method and length", 7),
    ROW_RESUME(cost.run.resume, "files, texts", 7),
    {0}};

static const char documentation[] =
    "Recommends a way to stretch a model's context, with its reason and what to write for transformers, vLLM and llama.cpp. "
    "--all and --methods add what each way does to the rotation, what it needs in the config, and which programs read that "
    "so. With a text the methods are measured first, and the model needs its weights. MODEL is a config.json, a "
    "folder with one, or a GGUF file; or " MODEL_PATH_HELP "\v"
    "A scaling that the model already has is replaced by the new one, which counts from the length before it.\n"
    "Example: gyre extend models/rope --to 1k\n"
    "Example: gyre extend models/rope --to 1k --text /usr/share/common-licenses/GPL-3\n"
    "Example: gyre extend models/rope --to 1k --method yarn --write stretched.json";

static int is_for_trainer(const extend_options *o) {
    return o->write_for != GYRE_PROFILE_DEFAULT;
}

static void read_options(int argc, char **argv, extend_options *o) {
    static const cli_command command = {
        option_rows, CLI_ALL, "MODEL", documentation, model_options_argument, offsetof(extend_options, cost.model), NULL};
    *o = (extend_options){.reading = {.profile = GYRE_PROFILE_DEFAULT},
                          .write_for = GYRE_PROFILE_DEFAULT,
                          .cost = {.windows = DEFAULT_WINDOWS}};
    model_options_init(&o->cost.model, argc);
    cli_parse(&command, argc, argv, o);
    o->cost.model.profile = o->reading.profile;
    if (!o->cost.model.path) cli_usage_error("MODEL: missing; name a config.json, a folder with one, or a GGUF file");
    stretch_options_check(&o->stretch);
    if (o->stretch.write && !o->method)
        cli_usage_error("--method: missing; --write needs the method to write, such as yarn");
    if (is_for_trainer(o) && o->all) cli_usage_error("--all: adds tables, which --write-for does not print");
    if (is_for_trainer(o) && o->cost.model.texts_count)
        cli_usage_error("--text: --write-for measures nothing; run it without");
    if (o->cost.model.texts_count) {
        model_options_check(&o->cost.model, 1);
        if (o->stretch.write) cli_usage_error("--text: --write measures nothing; run it without");
        if (o->reading.layer_type) cli_usage_error("--text: the layers that see all tokens are measured, not --layer-type");
        return;
    }
    const char *of_text = o->cost.near              ? "--near"
                          : o->cost.model.tokenizer ? "--tokenizer"
                          : o->cost.run.budget > 0  ? "--budget"
                          : o->cost.run.watch       ? "--watch"
                          : o->cost.run.journal     ? "--journal"
                                                    : NULL;
    if (of_text) cli_usage_error("%s: nothing is measured without --text", of_text);
}

/* -- the model -- */
static int is_rotating(const gyre_layer_reading *group) {
    return gyre_kind_has(group->config.kind, GYRE_TRAIT_ROTATES) && !reading_is_beside(group);
}

static _Noreturn void unknown_layers(const gyre_reading *reading, const char *name) {
    char list[400] = "";
    for (int64_t i = 0; i < reading->groups_count; i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", reading->groups[i]->name);
    }
    cli_usage_error("--layer-type: \"%s\" is not one of this model's: %s", name, list);
}

/* out = the group called `name`.  name NULL: the first group that rotates and sees all tokens, else the first that
 * rotates, else the first. */
static const gyre_layer_reading *find_layers(const gyre_reading *reading, const char *name) {
    const gyre_layer_reading *rotating = NULL;
    for (int64_t i = 0; i < reading->groups_count; i++) {
        const gyre_layer_reading *group = reading->groups[i];
        if (name && reading_is_selected(group, name)) return group;
        if (!name && is_rotating(group) && group->window == 0) return group;
        if (!rotating && is_rotating(group)) rotating = group;
    }
    if (name) unknown_layers(reading, name);
    return rotating ? rotating : reading->groups[0];
}

static double first_nonzero(double a, double b, double c) {
    return a != 0 ? a : b != 0 ? b : c;
}

static int open_model(const extend_options *o, extension *e) {
    gyre_error err = {0, ""};
    if (gyre_reading_open(&e->reading, o->cost.model.path,
                          GYRE_ARGS(gyre_reading_options, .profile = o->reading.profile, .context_length = o->stretch.to),
                          &err))
        return cli_fail_error(&err);
    if (strcmp(e->reading->format, "settings") == 0)
        return cli_fail("--as %s: a trainer's settings are read, not changed; name a model, with --write-for %s (%s)",
                        gyre_profile_name(o->reading.profile), gyre_profile_name(o->reading.profile), e->reading->path);
    struct stat info; /* a pipe is empty when it is read again */
    if (stat(e->reading->path, &info) == 0 && !S_ISREG(info.st_mode))
        return cli_fail("model: not a regular file, but it is read more than once; save it first (%s)", e->reading->path);
    e->config = strcmp(e->reading->format, "GGUF") == 0 ? NULL : cli_json_load(e->reading->path);
    e->path = o->cost.model.path;
    e->profile = o->reading.profile;
    e->to = o->stretch.to;
    e->group = find_layers(e->reading, o->reading.layer_type);
    const gyre_config *c = &e->group->config;
    const int ramps = c->rope.scaling == GYRE_SCALING_YARN || c->rope.scaling == GYRE_SCALING_BY_PARTS;
    const int native = strcmp(e->reading->model_type, "gyre") == 0; /* states the trained length under any scaling */
    e->trained = o->stretch.trained ? o->stretch.trained : native ? c->trained_length : extend_trained_length(c);
    e->betas.fast = first_nonzero(o->betas.betas.fast, ramps ? c->rope.beta_fast : 0, 32);
    e->betas.slow = first_nonzero(o->betas.betas.slow, ramps ? c->rope.beta_slow : 0, 1);
    if (e->betas.fast < e->betas.slow)
        return cli_fail("--beta-fast: %g is below --beta-slow %g (%s)", e->betas.fast, e->betas.slow, o->cost.model.path);
    return 0;
}

/* -- the work -- */
/* The list of methods: none is among them if methods are measured, because it is what the others are compared with. */
static int list_methods(const extend_options *o, const extension *e, extend_method **methods, int64_t *count) {
    gyre_error err = {0, ""};
    const char *list = o->methods ? o->methods : e->to <= e->trained ? "none" : extend_methods_for(e);
    const gyre_status status = extend_methods_parse(list, methods, count, &err);
    if (status == GYRE_ENOMEM) return cli_fail_error(&err);
    if (status) cli_usage_error("%s", err.text);
    int has_none = !o->cost.model.texts_count;
    for (int64_t i = 0; i < *count; i++)
        has_none |= method_is_none(&(*methods)[i].method);
    if (has_none) return 0;
    extend_method *more = cli_alloc(*count + 1, sizeof *more);
    memcpy(more + 1, *methods, (size_t)*count * sizeof *more);
    free(*methods);
    *methods = more;
    ++*count;
    return extend_method_parse("none", &more[0], &err) ? cli_fail_error(&err) : 0;
}

static int compute_rows(const extension *e, const extend_method *methods, int64_t count, extend_effect *rows) {
    gyre_error err = {0, ""};
    cli_defer_signals(); /* extend_check_support removes its temporary files */
    for (int64_t i = 0; i < count; i++)
        if (extend_effect_compute(&methods[i], e, &rows[i], &err))
            return cli_fail_error(&err);
        else if (cli_interrupted())
            return cli_fail("interrupted (extend)");
    cli_stop_deferring_signals(); /* a text may be a pipe that waits */
    return 0;
}

static int print_methods(const extend_options *o, const extension *e, FILE *file) {
    gyre_error err = {0, ""};
    extend_method *methods = NULL;
    int64_t count = 0;
    extend_verdict *verdict = cli_alloc(1, sizeof *verdict);
    int status = list_methods(o, e, &methods, &count);
    extend_effect *rows = cli_alloc(count, sizeof *rows);
    if (!status) status = compute_rows(e, methods, count, rows);
    if (!status && o->cost.model.texts_count)
        status = extend_cost_measure(e, &o->cost, &o->common, methods, count, &verdict->cost);
    if (!status && extend_verdict_make(e, methods, rows, count, verdict, &err)) status = cli_fail_error(&err);
    if (!status)
        status = o->common.json ? extend_print_json(e, methods, rows, count, verdict, file)
                                : extend_print_page(e, methods, rows, count, verdict, o->all || o->methods, file);
    if (verdict) extend_verdict_free(verdict);
    free(verdict);
    free(rows);
    free(methods);
    return status;
}

/* A factor that the user chose may not reach --to.  The config is written anyway. */
static void warn_if_too_short(const extend_options *o, const extension *e, double factor) {
    const double reach = factor * (double)e->trained;
    if (strchr(o->method, ':') && factor > 1 && reach < (double)o->stretch.to)
        cli_warn("--method %s: its factor reaches %.0f tokens of the %lld that the model now says it reads", o->method,
                 reach, (long long)o->stretch.to);
}

static int write_model(const extend_options *o, const extension *e, FILE *file) {
    gyre_error err = {0, ""};
    extend_method r;
    gyre_config config;
    stretch_target target;
    extend_key_change changes[EXTEND_MAX_KEY_CHANGES];
    if (extend_method_parse(o->method, &r, &err)) cli_usage_error("%s", err.text);
    if (extend_method_config(&r, e, &config, &err)) return cli_fail_error(&err);
    const char *name = strcmp(e->reading->format, "GGUF") == 0 ? gyre_path_name(e->reading->path) : GYRE_CONFIG_FILE;
    gyre_status status = stretch_target_find(o->stretch.write, name, &target, &err);
    if (!status) status = stretch_target_make_folder(&target, &err);
    if (status) return cli_fail_error(&err);
    cli_set_pending_copy(target.path);
    status = gyre_reading_write(o->cost.model.path, &config, o->stretch.to, target.path, &err);
    cli_set_pending_copy(NULL);
    if (status) stretch_target_discard(&target);
    if (status) return cli_fail_error(&err);
    warn_if_too_short(o, e, config.rope.factor);
    int count = 0;
    json_t *after = e->config ? cli_json_load(target.path) : NULL;
    status = extend_changes(e, target.path, after, changes, &count, &err);
    json_decref(after);
    if (status) return cli_fail_error(&err);
    return o->common.json ? extend_print_written_json(e, &r, target.path, changes, count, file)
                          : extend_print_written(e, &r, target.path, changes, count, file);
}

/* *out = the method of --method, else the one that is recommended. */
static int find_method(const extend_options *o, const extension *e, extend_method *out) {
    gyre_error err = {0, ""};
    extend_method *methods = NULL;
    int64_t count = 0;
    if (o->method) {
        if (extend_method_parse(o->method, out, &err)) cli_usage_error("%s", err.text);
        return 0;
    }
    int status = list_methods(o, e, &methods, &count);
    extend_effect *rows = cli_alloc(count, sizeof *rows);
    extend_verdict *verdict = cli_alloc(1, sizeof *verdict);
    if (!status) status = compute_rows(e, methods, count, rows);
    if (!status && extend_verdict_make(e, methods, rows, count, verdict, &err)) status = cli_fail_error(&err);
    if (!status) *out = methods[verdict->method];
    extend_verdict_free(verdict);
    free(verdict);
    free(rows);
    free(methods);
    return status;
}

static int write_settings(const extend_options *o, const extension *e, FILE *file) {
    gyre_error err = {0, ""};
    extend_method r;
    char *text;
    const int status = find_method(o, e, &r);
    if (status) return status;
    cli_defer_signals(); /* the settings are read back from a temporary folder */
    if (extend_trainer_settings(&r, e, o->write_for, &text, &err)) return cli_fail_error(&err);
    cli_stop_deferring_signals();
    if (cli_interrupted()) return cli_fail("interrupted (extend)");
    if (o->common.json) {
        const int written = extend_print_settings_json(e, &r, o->write_for, text, file);
        free(text);
        return written;
    }
    fputs(text, file);
    free(text);
    return 0;
}

static int extend(const extend_options *o, const extension *e, FILE *file) {
    const gyre_kind kind = e->group->config.kind;
    if (gyre_kind_has(kind, GYRE_TRAIT_ENDS))
        return cli_fail("positions: a table that was learned ends with its rows, and no config says how to stretch it (%s)",
                        e->reading->path);
    if (gyre_kind_has(kind, GYRE_TRAIT_SLOPES) && o->stretch.write)
        return cli_fail(
            "--write: only scalings of rotations are written; --method and --methods of generate, eval and passkey "
            "stretch slopes (%s)",
            e->reading->path);
    if (!gyre_kind_has(kind, GYRE_TRAIT_ROTATES) && o->stretch.write)
        return cli_fail("--write: %s has nothing to stretch (%s)", gyre_kind_name(kind), e->reading->path);
    if (extend_part_in_place(e))
        return cli_fail("%s: what the model trained has taken the place of its rotation, and no scaling of it is read (%s)",
                        extend_part_in_place(e), e->reading->path);
    if (!gyre_kind_has(kind, GYRE_TRAIT_ROTATES)) return extend_print_other(e, o->common.json, file);
    /* A length that the unchanged model reaches needs a verdict, but nothing to write. */
    const int within = !o->stretch.write && e->trained >= STRETCH_MIN_TRAINED;
    const int status = within ? 0 : stretch_check_length(&o->stretch, e->trained, e->reading->path);
    if (status) return status;
    if (o->cost.near > e->trained && o->cost.model.texts_count)
        return cli_fail("--near: %lld is past the trained length of %lld (%s)", (long long)o->cost.near,
                        (long long)e->trained, e->reading->path);
    if (o->cost.model.texts_count && extend_is_config_alone(e))
        return cli_fail("--text: measuring needs weights; name the folder with config.json and the weights (%s)", e->path);
    if (is_for_trainer(o)) return write_settings(o, e, file);
    return o->stretch.write ? write_model(o, e, file) : print_methods(o, e, file);
}

int cmd_extend(int argc, char **argv) {
    extend_options options;
    extension e = {0};
    read_options(argc, argv, &options);
    int status = open_model(&options, &e);
    if (!status) {
        cli_output output;
        status = cli_output_open(&output, options.common.output);
        if (!status) status = cli_output_close(&output, extend(&options, &e, output.file));
    }
    json_decref(e.config);
    gyre_reading_free(e.reading);
    model_options_free(&options.cost.model);
    return status;
}
