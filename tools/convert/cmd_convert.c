/* cmd_convert.c: gyre convert: writes a model in another format, data type or layout of pairs. */
#include "gyre/gyre_fields.h"
#include "gyre/gyre_model.h"
#include "tools/cli/cli.h"
#include "tools/cli/cli_guard.h"
#include "tools/cli/cli_lock.h"
#include "tools/cli/plain_stream.h"
#include "tools/common/model_input.h"
#include "tools/common/model_path.h"
#include "tools/options/value_names.h"
#include "tools/subcommands.h"
#include <string.h>

typedef struct convert_options {
    cli_options common; /* first */
    const char *model;
    gyre_dtype dtype; /* what convert points to */
    gyre_layout layout, source_layout;
    gyre_convert_options convert;
} convert_options;

#define CLI_STRUCT convert_options
static const cli_option rows[] = {
    {"output", "PATH", "a folder for safetensors, a file for GGUF", 0, CLI_TEXT(common.output), .letter = 'o',
     .file = CLI_FILE_FOLDER},
    {"to", "safetensors|gguf", "safetensors or gguf (default: gguf if PATH ends in .gguf, else safetensors)", 0,
     CLI_CHOICE(gyre_model_format, convert.format, GYRE_MODEL_FORMAT_SAFETENSORS)},
    {"dtype", "f32|f16|bf16|q8",
     "f32, f16, bf16, or q8 in a GGUF (default: as in MODEL; quantized weights become f16 in safetensors)", 0,
     CLI_OTHER(gyre_dtype, dtype, dtype_read)},
    {"layout", "half|interleaved",
     "half or interleaved: layout of the pairs of channels in the rows of query and key (default: as readers of the format "
     "expect)",
     0, CLI_CHOICE(gyre_layout, layout, GYRE_LAYOUT_HALF)},
    {"from-layout", "half|interleaved",
     "their layout in MODEL, overriding its files; repairs a model that states the wrong layout", 0,
     CLI_CHOICE(gyre_layout, source_layout, GYRE_LAYOUT_HALF)},
    {0}};

/* A GGUF or a folder: --to says it, else the name. */
static void note_output(void *options) {
    convert_options *o = options;
    const char *output = o->common.output;
    if (output && !cli_given(&o->common, "to") && is_gguf_path(output)) o->convert.format = GYRE_MODEL_FORMAT_GGUF;
    if (output && o->convert.format == GYRE_MODEL_FORMAT_GGUF) cli_guard_write("output", output, CLI_GUARD_FILE);
}

static const char DOC[] =
    "Writes a model in another format, with its config and tokenizer: a folder of safetensors for transformers, or a GGUF "
    "for "
    "llama.cpp."
    "\vMODEL is a folder of safetensors, a GGUF file, or a folder with a checkpoint of llama2.c (*.bin and tok*.bin); "
    "or " MODEL_PATH_HELP "  "
    "Between safetensors and GGUF, models of the families llama, mistral, qwen2 and qwen3 are converted.  If the layout of "
    "pairs changes, rows of query and key are reordered within each head: a llama's GGUF has interleaved pairs, its "
    "safetensors have halves.\n\n"
    "Examples:\n"
    "  gyre convert stories260K -o stories\n"
    "  gyre convert stories -o stories.gguf --dtype q8\n"
    "  gyre convert model.gguf -o model --dtype bf16\n"
    "  gyre convert wrong -o right --from-layout interleaved\n";

static void read_options(int argc, char **argv, convert_options *o) {
    static const cli_command command = {
        rows, CLI_JSON, "MODEL -o PATH", DOC, model_path_argument, offsetof(convert_options, model), note_output};
    const gyre_convert_options usual = GYRE_INIT(gyre_convert_options);
    *o = (convert_options){.convert = usual};
    cli_parse(&command, argc, argv, o);
    if (cli_given(&o->common, "dtype")) o->convert.dtype = &o->dtype;
    if (cli_given(&o->common, "layout")) o->convert.layout = &o->layout;
    if (cli_given(&o->common, "from-layout")) o->convert.source_layout = &o->source_layout;
    if (!o->model) cli_usage_error("MODEL: missing");
    if (!o->common.output) cli_usage_error("-o: missing; name a folder or a file");
    if (o->convert.format == GYRE_MODEL_FORMAT_SAFETENSORS && o->convert.dtype && o->dtype == GYRE_DTYPE_Q8)
        cli_usage_error("--dtype q8: safetensors have no such type; --to gguf has");
}

/* -- the result -- */
/* What gyre_convert said is lost.  It is printed behind the progress, and only of a model that is there. */
typedef struct losses {
    gyre_error list[32];
    int count;
} losses;

static void keep_loss(void *ctx, const char *what) {
    losses *l = ctx;
    if (l->count < (int)(sizeof l->list / sizeof *l->list))
        snprintf(l->list[l->count++].text, sizeof l->list[0].text, "%s", what);
}

static void warn(const convert_options *o, const losses *lost, const gyre_reading *after) {
    const gyre_config *config = &after->groups[0]->config;
    if (strcmp(after->model_type, "gyre") == 0 && gyre_kind_has(config->kind, GYRE_TRAIT_ROTATES) &&
        config->rope.layout == GYRE_LAYOUT_INTERLEAVED)
        cli_warn(
            "%s: its pairs are interleaved, which its config.json says in a key of Gyre's own: other programs refuse it, "
            "and would read it wrong",
            o->common.output);
    for (int i = 0; i < lost->count; i++)
        cli_warn("%s goes without something of the model: %s", o->common.output, lost->list[i].text);
}

/* Of a source that has a tokenizer. */
static void warn_of_notes(const convert_options *o) {
    gyre_tokenizer *tokenizer = NULL;
    gyre_error err = {0, ""};
    if (gyre_tokenizer_open(&tokenizer, o->model, &err)) return;
    tokenizer_notes_warn(tokenizer, o->model);
    gyre_tokenizer_free(tokenizer);
}

static json_t *losses_json(const losses *lost) {
    json_t *list = json_array();
    for (int i = 0; i < lost->count && list; i++)
        if (json_array_append_new(list, cli_json_text(lost->list[i].text)) != 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

static int print_summary(const convert_options *o, const losses *lost, const gyre_reading *after, int64_t bytes) {
    const gyre_config *config = &after->groups[0]->config;
    const int rotates = gyre_kind_has(config->kind, GYRE_TRAIT_ROTATES);
    char amount[16];
    if (!o->common.json) {
        fprintf(cli_stdout(), "%s: %s, %s, %sB%s%s\n", plain_line(o->common.output),
                after->format[0] == 'G' ? "GGUF" : "safetensors", plain_line(after->model_type),
                cli_format_count((double)bytes, amount), rotates ? ", pairs " : "",
                rotates ? gyre_layout_name(config->rope.layout) : "");
        return 0;
    }
    json_t *root = json_pack("{s:o, s:s, s:o, s:I, s:o, s:o}", "path", cli_json_text(o->common.output), "format",
                             after->format[0] == 'G' ? "GGUF" : "safetensors", "model_type",
                             cli_json_text(after->model_type), "bytes", (json_int_t)bytes, "losses", losses_json(lost),
                             "layout", rotates ? json_string(gyre_layout_name(config->rope.layout)) : json_null());
    return cli_json_write(cli_stdout(), root);
}

/* The amount of work is known only when the model is open. */
static void advance(void *progress, int64_t step, int64_t all) {
    ((cli_progress *)progress)->total = all;
    cli_progress_step(progress, step, all);
}

static int is_interrupted(void *progress) {
    (void)progress;
    return cli_interrupted();
}

/* Keeps other runs from the folder. */
static gyre_status take_target(const convert_options *o, cli_lock *lock, gyre_error *err) {
    if (o->convert.format != GYRE_MODEL_FORMAT_SAFETENSORS) return GYRE_OK;
    return cli_lock_new_folder(lock, o->common.output, o->common.force, "", err);
}

static gyre_status convert(convert_options *o, gyre_reading **after, gyre_error *err) {
    cli_progress progress;
    cli_progress_begin(&progress, "converting", "bytes", 0);
    o->convert.watcher = (gyre_watcher){advance, is_interrupted, &progress};
    cli_defer_signals(); /* gyre_convert removes an unfinished model */
    const gyre_status status = gyre_convert(o->model, o->common.output, &o->convert, err);
    cli_progress_end(&progress);
    return status ? status : gyre_reading_open(after, o->common.output, NULL, err);
}

int cmd_convert(int argc, char **argv) {
    convert_options o;
    gyre_reading *after = NULL;
    int64_t bytes = 0;
    losses lost = {.count = 0};
    gyre_error err = {0, ""};
    cli_lock lock = {.file = -1};
    read_options(argc, argv, &o);
    o.convert.lost = keep_loss;
    o.convert.ctx = &lost;
    o.convert.written = &bytes;
    gyre_status status = take_target(&o, &lock, &err);
    if (!status) status = convert(&o, &after, &err);
    cli_lock_release(&lock);
    if (status) return cli_fail_error(&err);
    warn(&o, &lost, after);
    warn_of_notes(&o);
    const int exit_status = print_summary(&o, &lost, after, bytes);
    gyre_reading_free(after);
    return exit_status;
}
