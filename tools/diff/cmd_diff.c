/* cmd_diff.c: gyre diff: compares two readings: of one model by two programs, or of two models. */
#include "tools/cli/cli.h"
#include "tools/common/model_path.h"
#include "tools/diff/diff_compare.h"
#include "tools/diff/diff_draft.h"
#include "tools/options/reading_options.h"
#include "tools/subcommands.h"
#include <string.h>
#include <sys/stat.h>

enum { EXIT_DIFFERENT = 3, EXIT_REFUSED = 4 };

typedef struct diff_options {
    cli_options common;      /* first */
    reading_options reading; /* its profile: for A */
    const char *path[2];
    gyre_profile with; /* for B */
    int accuracy;
    diff_draft_kind draft;
} diff_options;

#define CLI_STRUCT diff_options
static const cli_option rows[] = {
    ROW_AS(reading.profile, 0),
    {"with", "PROFILE", "The same for B; required if no B is named", 0, CLI_OTHER(gyre_profile, with, profile_read)},
    ROW_LENGTH(reading.length, 0),
    ROW_LAYER_TYPE(reading.layer_type, ONLY_LAYERS_HELP, 0),
    {"accuracy", NULL,
     "Also how wrong the angles of each program are in contexts of 4k to 1M tokens, and from where on scores feel it", 0,
     CLI_FLAG(accuracy)},
    {"draft", "auto|head|cache|model",
     "Whether A, a draft for speculative decoding, rotates as its target B: auto finds its kind", 0,
     CLI_CHOICE(diff_draft_kind, draft, DIFF_DRAFT_AUTO), .excludes = "layer-type",
     .why = "compares all layers of the draft"},
    {0}};

static int read_argument(void *options, char *text) {
    diff_options *o = options;
    if (o->path[1]) cli_usage_error("%s: two models at most", text);
    o->path[o->path[0] ? 1 : 0] = model_path_find(text);
    return 0;
}

static const char DOC[] =
    "Shows how two readings of positions differ: what is read differently and why, by how much frequencies and scores "
    "differ, "
    "and from which position on rotations differ by more than 0.01 rad."
    "\vA and B are each a config.json, a folder with one, or a GGUF file; or " MODEL_PATH_HELP
    " Without B, A is compared with itself as another "
    "program reads it (--as for A, --with for B).  The exit status is 0 if both give the same positions, 3 if they "
    "differ, 4 if one of the two programs refuses the model.\n\n"
    "With --draft, what must agree depends on what the two share: a draft that reads the target's keys (cache) rotates as "
    "they do, a head of EAGLE or MTP (head) as it was trained, which is as its target, and an independent model (model) "
    "only "
    "needs the target's length. The exit status is 0 if all of that agrees, else 3.\n\n"
    "Examples:\n"
    "  gyre diff config.json --with vllm\n"
    "  gyre diff config.json --as hf-4.51 --with hf-5 --length 128k\n"
    "  gyre diff config.json model.gguf\n"
    "  gyre diff eagle3/config.json target/config.json --draft auto\n";

/* -- the two operands -- */
static void read_operand(diff_operand *operand, int64_t length) {
    operand->status = gyre_reading_open(
        &operand->reading, operand->path,
        GYRE_ARGS(gyre_reading_options, .profile = operand->profile, .context_length = length), &operand->err);
    if (operand->status) operand->reading = NULL;
}

/* out = the profile that read operand s, or refused to.  The default profile depends on the format, which the other operand
 * may know. */
static gyre_profile reader_of(const diff_operand operand[2], int s) {
    if (operand[s].reading) return operand[s].reading->profile;
    if (operand[s].profile != GYRE_PROFILE_DEFAULT) return operand[s].profile;
    const gyre_reading *other = operand[!s].reading;
    const int is_gguf = other && strcmp(operand[0].path, operand[1].path) == 0 && strcmp(other->format, "GGUF") == 0;
    return is_gguf ? GYRE_PROFILE_LLAMA_CPP : GYRE_PROFILE_HF_5;
}

/* Names the profile of each operand, and labels both by profile, or by A and B if they have the same. */
static void label_operands(diff_operand operand[2]) {
    static const char *const letters[] = {"A", "B"};
    for (int s = 0; s < 2; s++)
        operand[s].profile = reader_of(operand, s);
    const int by_reader = operand[0].profile != operand[1].profile;
    for (int s = 0; s < 2; s++)
        snprintf(operand[s].label, sizeof operand[s].label, "%s",
                 by_reader ? gyre_profile_name(operand[s].profile) : letters[s]);
}

/* A refusal is a result if the other program reads the same file.  A file that neither can read is an error. */
static int is_refusal(const diff_operand operand[2], int s) {
    if (!operand[s].status || operand[!s].status) return 0;
    return operand[s].status == GYRE_EUNSUPPORTED ||
           (operand[s].status == GYRE_EFORMAT && strcmp(operand[0].path, operand[1].path) == 0);
}

/* out = 1 if one pipe would be read twice: it is empty the second time. */
static int is_read_twice(const diff_options *o) {
    struct stat info;
    const char *b = o->path[1] ? o->path[1] : o->path[0];
    return strcmp(o->path[0], b) == 0 && stat(b, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

/* out = 0 if there is something to compare, or CLI_FAILED with the error printed. */
static int read_operands(const diff_options *o, diff_operand operand[2]) {
    if (is_read_twice(o)) return cli_fail("A: not a regular file, but it is read twice; save it first (%s)", o->path[0]);
    for (int s = 0; s < 2; s++) {
        operand[s].path = o->path[s] ? o->path[s] : o->path[0];
        operand[s].profile = s ? o->with : o->reading.profile;
        read_operand(&operand[s], o->reading.length);
    }
    label_operands(operand);
    if (cli_json_check(0)) return CLI_FAILED; /* a config that memory cut short looks like one that is refused */
    for (int s = 0; s < 2; s++)
        if (operand[s].status && !is_refusal(operand, s)) return cli_fail_error(&operand[s].err);
    return 0;
}

/* -- the command -- */
static int write_result(const diff_options *o, diff_result *result, diff_draft *draft) {
    gyre_error err = {0, ""};
    cli_output output;
    if (diff_compare(result, o->reading.layer_type, &err)) return cli_fail_error(&err);
    if (o->accuracy && diff_measure_accuracy(result, &err)) return cli_fail_error(&err);
    if (draft && diff_draft_compare(draft, result->operand, o->draft, o->reading.length, &err)) return cli_fail_error(&err);
    int status = cli_json_check(0);
    if (!status) status = cli_output_open(&output, o->common.output);
    if (status) return status;
    if (o->common.json) {
        status = diff_write_json(result, draft, output.file);
    } else {
        const explain_terminal page = explain_terminal_open(output.file);
        if (draft)
            diff_draft_view(&page, draft, result->operand);
        else
            diff_view(&page, result);
    }
    return cli_output_close(&output, status);
}

int cmd_diff(int argc, char **argv) {
    static const cli_command command = {rows, CLI_JSON | CLI_OUTPUT, "A [B]", DOC, read_argument, 0, NULL};
    diff_options o = {.with = GYRE_PROFILE_DEFAULT, .reading = {.profile = GYRE_PROFILE_DEFAULT}};
    diff_result result = {.count = 0};
    diff_draft draft = {.count = 0};
    cli_parse(&command, argc, argv, &o);
    if (!o.path[0]) cli_usage_error("A: missing");
    if (!o.path[1] && o.with == GYRE_PROFILE_DEFAULT) cli_usage_error("B: missing; name it, or a program with --with");
    int status = read_operands(&o, result.operand);
    if (!status) {
        reading_check_layer_type(o.reading.layer_type, result.operand[0].reading, result.operand[1].reading);
        status =
            write_result(&o, &result, o.draft && result.operand[0].reading && result.operand[1].reading ? &draft : NULL);
    }
    const int refused = result.operand[0].status || result.operand[1].status;
    if (!refused && o.draft)
        status = !status && !draft.agrees ? EXIT_DIFFERENT : status;
    else if (!status && !result.same)
        status = refused ? EXIT_REFUSED : EXIT_DIFFERENT;
    diff_result_free(&result);
    return status;
}
