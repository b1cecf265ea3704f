/* cmd_show.c: gyre show: properties of position encodings, computed with the library. */
#include "tools/show/show.h"
#include "tools/subcommands.h"
#include "util/random.h"

enum { MAX_POSITIONS = 1 << 24, QUESTIONS = 5 };
#define CLI_STRUCT show_options

static const char *const names[QUESTIONS] = {"rotation", "shift", "repeats", "interpolation-error", "stretched"};
static show_question *const questions[QUESTIONS] = {show_rotation, show_shift, show_repeats, show_interpolation,
                                                    show_stretched};

static const cli_option rows[] = {
    {"dim", "N", "Channels of the encoding, an even number (default: 128, rotation 8)", 1, CLI_EVEN(dim, 2, 4096)},
    {"base", "X", "Base of the frequencies (default: 10000)", 1, CLI_NUMBER(base, 1.001, 1e18)},
    {"position", "M", "rotation: the position of the vector (default: 3)", 1, CLI_INTEGER(position, 0, CLI_MAX_TOKENS)},
    {"positions", "N",
     "Positions or distances to look at (default: repeats 1000000, interpolation-error and stretched 4096; rotation and "
     "shift have their own)",
     1, CLI_INTEGER(positions, 2, MAX_POSITIONS)},
    {0}};

static const char documentation[] =
    "Shows a property of position encodings on numbers that the library computes."
    "\vThe properties:\n"
    "  rotation             RoPE on one vector: matrix, companion, both layouts, length, score by distance\n"
    "  shift                PE(p + k) = M_k PE(p): a sinusoid moves by one matrix\n"
    "  repeats              does a sinusoid repeat? the least distance between two rows\n"
    "  interpolation-error  how much smaller the bound of interpolation is than that of extrapolation\n"
    "  stretched            are positions that were divided by a million still distinguishable?\n\n"
    "Examples:\n"
    "  gyre show rotation\n"
    "  gyre show shift --dim 8\n"
    "  gyre show repeats --positions 1M\n";

/* out = a multiple of 2^-63 in [-1, 1). */
double show_random(uint64_t *state) {
    return (double)(int64_t)gyre_random_next(state) * 0x1p-63;
}

static int read_argument(void *options, char *text) {
    show_options *o = options;
    if (o->question >= 0) cli_usage_error("%s: one question at a time", text);
    o->question = cli_choice("QUESTION", text, names, QUESTIONS);
    return 0;
}

static int run(const show_options *o, const cli_output *output) {
    json_t *result = NULL;
    gyre_error err = {0, ""};
    cli_page page;
    FILE *lines = o->common.json ? NULL : cli_page_begin(&page, output->file);
    const gyre_status status = questions[o->question](o, lines, &result, &err);
    if (lines) cli_page_end(&page);
    if (status) return cli_fail_error(&err);
    return lines ? 0 : cli_json_write(output->file, result);
}

int cmd_show(int argc, char **argv) {
    static const cli_command command = {
        rows, CLI_ALL, "rotation|shift|repeats|interpolation-error|stretched", documentation, read_argument, 0, NULL};
    show_options o = {.question = -1, .position = 3, .base = 10000};
    cli_output output;
    gyre_pool *pool = NULL;
    cli_parse(&command, argc, argv, &o);
    if (o.question < 0) cli_usage_error("QUESTION: missing; rotation, shift, repeats, interpolation-error or stretched");
    const int rotation = questions[o.question] == show_rotation;
    if (o.positions && (rotation || questions[o.question] == show_shift))
        cli_usage_error("--positions: %s has its own positions and takes no other", names[o.question]);
    if (!rotation && cli_given(&o.common, "position"))
        cli_usage_error("--position: only rotation has one vector, at one position");
    if (!o.dim) o.dim = rotation ? 8 : 128;
    int status = cli_output_open(&output, o.common.output);
    if (status) return status;
    status = cli_pool_open(&o.common, &pool, &o.exec);
    if (!status) status = run(&o, &output);
    gyre_pool_free(pool);
    return cli_output_close(&output, status);
}
