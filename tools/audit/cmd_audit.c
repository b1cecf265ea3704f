/* cmd_audit.c: gyre audit: everything that the files of a model say about positions, held against each other. */
#include "tools/audit/audit.h"
#include "tools/audit/audit_cache.h"
#include "tools/cli/cli.h"
#include "tools/subcommands.h"
#include "util/checkpoint_files.h"
#include "util/error.h"
#include "util/open_regular.h"
#include "util/path.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { EXIT_FOUND = 3 };

typedef struct audit_options {
    cli_options common;      /* first */
    model_options model;     /* texts: for the layout of pairs */
    reading_options reading; /* --length */
    const char *cache;
} audit_options;

static void refuse_buffers(const char *option, const char *text, void *at) {
    (void)text, (void)at;
    cli_usage_error("%s: only the Python package's gyre audits a model in memory (docs/python.md)", option);
}

#define CLI_STRUCT audit_options
static const cli_option rows[] = {
    ROW_AS(model.profile, 0),
    ROW_LENGTH(reading.length, 0),
    ROW_TOKENIZER(model.tokenizer, 0),
    ROW_TEXT(model, 0),
    {"cache", "FILE",
     "Instead, compare a table of angles that a program keeps (cos_sin_cache, cos, sin or inv_freq, in a .npy or "
     ".safetensors) with the config as each program reads it, or as --as says",
     0, CLI_TEXT(cache), .file = CLI_FILE_READ, .excludes = "text", .why = "reads a table, and runs no model"},
    {"buffers", NULL,
     "Instead, load the model with transformers and compare its rotary buffers; needs the Python package and torch", 0,
     CLI_OTHER_OF_ALL(refuse_buffers)},
    {0}};

static const char DOC[] =
    "Compares what the files of a model state about positions: config, weights, tokenizer, limits of generation, and the "
    "programs that read them.\vMODEL is a config.json, a folder with one, or a GGUF file; or " MODEL_PATH_HELP
    " The exit status is 0 if nothing is wrong, 3 if something is wrong or in doubt.\n\n"
    "With --cache the exit status is 0 if each table is that of a program, 3 if not. The page says in which precision it "
    "was "
    "computed, and from which position and pair on it is off.\n\n"
    "With --text the layout of pairs is checked too: the text is read under both layouts.\n\n"
    "Examples:\n"
    "  gyre audit models/rope\n"
    "  gyre audit models/rope --text /usr/share/common-licenses/GPL-3\n"
    "  gyre audit config.json --as vllm --json\n"
    "  gyre audit config.json --cache cos_sin_cache.npy\n";

/* -- the file that describes the model -- */
/* Sets path, folder and described.  Paths of files are printed as path + '/' + name. */
static int find_files(audit *a, const char *model) {
    struct stat info;
    size_t length = strlen(model);
    if (length + 2 + sizeof GYRE_CONFIG_FILE > sizeof a->path)
        return cli_fail("MODEL: the path is too long (%.200s...)", model);
    length = gyre_path_length(model);
    memcpy(a->path, model, length);
    snprintf(a->described, sizeof a->described, "%s", a->path);
    if (stat(model, &info)) return errno == ENOENT ? 0 : cli_fail("%s: %s (audit)", model, strerror(errno));
    if (!S_ISDIR(info.st_mode)) return 0;
    snprintf(a->folder, sizeof a->folder, "%.*s/", (int)(a->path[length - 1] == '/' ? length - 1 : length), a->path);
    snprintf(a->described, sizeof a->described, "%.*s" GYRE_CONFIG_FILE, (int)(sizeof a->path - sizeof GYRE_CONFIG_FILE),
             a->folder);
    return 0;
}

/* *out = 1 if the file is what it should be, so that what it says is at fault: a JSON object, or a GGUF with its tensors. */
static gyre_status is_readable(const audit *a, int *out, gyre_error *err) {
    gyre_stored_positions *stored = NULL;
    gyre_error why = {0, ""};
    *out = !a->is_gguf && a->config.root;
    if (!a->is_gguf || a->profile != GYRE_PROFILE_LLAMA_CPP) return GYRE_OK; /* no other program reads a GGUF */
    const gyre_status status = gyre_stored_positions_open(&stored, a->path, &why);
    gyre_stored_positions_free(stored);
    *out = !status;
    if (!audit_is_failure(status)) return GYRE_OK;
    *err = why;
    return status;
}

/* What a refused file is: a GGUF, a regular file, or neither. */
static gyre_status find_kind(audit *a, int *is_file, gyre_error *err) {
    struct stat info;
    int there = 0;
    gyre_status status = audit_find_path(a->described, &info, &there, err);
    *is_file = there && S_ISREG(info.st_mode);
    if (status || a->reading || !*is_file) return status;
    char head[4] = "";
    FILE *file = gyre_open_regular(a->described);
    if (!file) return gyre_fail(err, GYRE_EIO, "%s: %s (audit)", a->described, strerror(errno));
    a->is_gguf = fread(head, 1, sizeof head, file) == sizeof head && memcmp(head, "GGUF", sizeof head) == 0;
    if (ferror(file)) status = gyre_fail(err, GYRE_EIO, "%s: %s (audit)", a->described, strerror(errno));
    fclose(file);
    return status;
}

/* Reads the file as the profile does.  A file that the profile refuses is a finding; a file that is not a config is an
 * error. */
static gyre_status open_reading(audit *a, gyre_reading **reading, gyre_profile profile, gyre_error *err) {
    int is_file = 0, readable = 0;
    const gyre_status refused = gyre_reading_open(
        reading, a->path, GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = a->length), &a->refused);
    if (refused) *err = a->refused;
    if (audit_is_failure(refused)) return refused;
    a->reading = *reading;
    a->is_gguf = a->reading && strcmp(a->reading->format, "GGUF") == 0;
    gyre_status status = find_kind(a, &is_file, err);
    if (status) return status;
    a->profile = a->reading                        ? a->reading->profile
                 : profile != GYRE_PROFILE_DEFAULT ? profile
                 : a->is_gguf                      ? GYRE_PROFILE_LLAMA_CPP
                                                   : GYRE_PROFILE_HF_5;
    if (!a->is_gguf && is_file) status = audit_file_open(&a->config, a->described, GYRE_CONFIG_FILE, err);
    if (status) return status;
    const char *type = json_string_value(json_object_get(a->config.root, "model_type"));
    a->model_type = a->reading ? a->reading->model_type : type ? type : "";
    if (!refused) return GYRE_OK;
    status = is_readable(a, &readable, err);
    return status || ((refused == GYRE_EFORMAT || refused == GYRE_EUNSUPPORTED) && readable) ? status : refused;
}

/* -- the command -- */
static gyre_status check_all(audit *a, const audit_options *o, int argc, char **argv, const gyre_exec *exec,
                             gyre_error *err) {
    static gyre_status (*const checks[])(audit *, gyre_error *) = {audit_config,  audit_programs, audit_lengths,
                                                                   audit_weights, audit_tokens,   audit_ids};
    gyre_status status = GYRE_OK;
    for (size_t i = 0; i < sizeof checks / sizeof *checks && !status; i++)
        status = checks[i](a, err);
    return status ? status : audit_layout(a, &o->model, argc, argv, exec, err);
}

static int run(audit *a, const audit_options *o, int argc, char **argv) {
    gyre_pool *pool = NULL;
    gyre_exec exec;
    gyre_error err = {0, ""};
    cli_output output;
    int status = cli_pool_open(&o->common, &pool, &exec);
    if (!status && check_all(a, o, argc, argv, &exec, &err)) status = cli_fail_error(&err);
    gyre_pool_free(pool);
    if (!status) status = cli_json_check(0);
    if (!status) status = cli_output_open(&output, o->common.output);
    if (status) return status;
    if (o->common.json) {
        status = audit_write_json(a, output.file);
    } else {
        const explain_terminal page = explain_terminal_open(output.file);
        audit_view(&page, a);
    }
    return cli_output_close(&output, status);
}

int cmd_audit(int argc, char **argv) {
    static const cli_command command = {rows, CLI_ALL, "MODEL", DOC, model_options_argument, offsetof(audit_options, model),
                                        NULL};
    audit_options o = {.reading = {.profile = GYRE_PROFILE_DEFAULT}};
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    model_options_init(&o.model, argc);
    cli_parse(&command, argc, argv, &o);
    model_options_check(&o.model, 0);
    if (o.cache) {
        const audit_cache_request request = {o.cache, o.model.path, o.model.profile, o.reading.length};
        const int found = audit_cache(&request, &o.common);
        model_options_free(&o.model);
        return found;
    }
    audit a = {.length = o.reading.length, .findings = calloc(AUDIT_MAX_FINDINGS, sizeof(audit_finding))};
    int status = a.findings ? 0 : cli_fail("MODEL: out of memory (%s)", o.model.path);
    if (!status) status = find_files(&a, o.model.path);
    if (!status && open_reading(&a, &reading, o.model.profile, &err)) status = cli_fail_error(&err);
    o.model.path = a.path;
    o.model.lists_notes = 1;
    if (!status) status = run(&a, &o, argc, argv);
    if (!status && (audit_count(&a, AUDIT_WRONG) || audit_count(&a, AUDIT_DOUBT))) status = EXIT_FOUND;
    audit_file_close(&a.config);
    gyre_reading_free(reading);
    free(a.findings);
    model_options_free(&o.model);
    return status;
}
