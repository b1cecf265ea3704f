/* search_options.c: the options of gyre search. */
#include "tools/search/search.h"
#include <stdlib.h>
#include <string.h>

enum {
    KEY_BUDGET = CLI_FIRST_KEY,
    KEY_WINDOWS,
    KEY_HELD_OUT,
    KEY_STRIDE,
    KEY_NEEDLES,
    KEY_SEED,
    KEY_ATTENTION,
    KEY_FORCE,
    KEY_TEMPERATURE,
    KEY_PAIRS,
    KEY_START_TOKENS
};
/* Those of the paper's search (arXiv 2402.13753). */
static const char paper_starts[] = "0,1,2,4,8,12,16,20,24,28,32,64,128,256";

static const struct argp_option option_table[] = {
    OPTION_TO(1),
    OPTION_TEXT(1),
    OPTION_IDS(1),
    OPTION_AS(5),
    OPTION_TOKENIZER(5),
    {"budget", KEY_BUDGET, "N", 0,
     "Cost limit of the search: as many windows as N evaluations of all of them read (default: 50)", 2},
    {"windows", KEY_WINDOWS, "N", 0, "Maximum number of windows to search on (default: 32)", 2},
    {"held-out", KEY_HELD_OUT, "N", 0, "Maximum number of windows to judge the result on, outside the budget (default: 32)",
     2},
    {"stride", KEY_STRIDE, "N", 0,
     "Tokens from one window to the next; the last N predictions of each are scored (default: half of --to)", 2},
    {"needles", KEY_NEEDLES, "N", 0,
     "Hide N keys in each window, 1 to 8, ask for them at its end, and score only the answers, as LongRoPE2 does (default: "
     "the text itself is scored)",
     2},
    {"seed", KEY_SEED, "N", 0, "Seed of all random choices (default: 1)", 3},
    {"attention-factor", KEY_ATTENTION, "X", 0,
     "Multiplier of cosines and sines (default: searched together with the factors)", 3},
    {"start-tokens", KEY_START_TOKENS, "LIST", 0,
     "Search, together with the factors, how many of the first tokens rotate as trained, as LongRoPE does: one of these "
     "numbers or none, at most 31 of them, or \"paper\" for those of its paper (default: none)",
     3},
    OPTION_TRAINED(3),
    OPTION_JOURNAL(
        "Write each measurement to this file, one per line. A search with such a file continues from it, with the "
        "same result as one that was never stopped. --budget may be larger then",
        4),
    OPTION_REPORT("Write an HTML report: the verdict, the factors of every method by pair, and the held-out windows", 4),
    OPTION_WRITE("the factors found (rope_scaling: longrope)", 4),
    {"temperature", KEY_TEMPERATURE, NULL, 0,
     "Search no factors: measure YaRN under a range of attention factors, and compare the best one with YaRN's formula, "
     "0.1 ln s + 1",
     3},
    {"pairs", KEY_PAIRS, NULL, 0,
     "After the search, measure on the held-out windows what the factor of each pair is worth: what the result loses if "
     "that "
     "pair alone keeps its trained frequency, and what the model as it is wins if that pair alone is divided",
     3},
    {"force", KEY_FORCE, NULL, 0,
     "Write the factors found even if a method that needs no search predicts the held-out text better", 4},
    {0}};

static const char documentation[] =
    "Finds, for each pair of a rotation, what to divide its frequency by so that the model predicts a text best at a longer "
    "context, as LongRoPE does: position interpolation, NTK and YaRN are varied and mixed, with factors that never fall "
    "from "
    "one pair to the next. " MODEL_HELP "\v"
    "Stretches of the text alternate between those searched on and those held out. The perplexities of the known methods "
    "and "
    "of the factors found are measured on the held-out ones. The verdict names the best. Factors that lose there to a "
    "method "
    "that needs no search are not written, and the exit status is then 1.\n"
    "With --temperature nothing is searched but YaRN's temperature t: the windows searched on choose sqrt(1/t), the "
    "attention "
    "factor, and the held-out ones compare it with the formula.\n"
    "Example: gyre search models/rope --text /usr/share/common-licenses/GPL-3 --to 1k --budget 100 --write found.json";

static void read_starts(search_options *o, const char *text) {
    int64_t *list = NULL;
    const char *numbers = strcmp(text, "paper") == 0 ? paper_starts : text;
    o->starts_count = cli_integers("--start-tokens", numbers, 0, CLI_MAX_TOKENS, &list);
    if (o->starts_count > SEARCH_STARTS - 1)
        cli_usage_error("--start-tokens: %lld numbers, more than %d", (long long)o->starts_count, SEARCH_STARTS - 1);
    memcpy(o->starts, list, (size_t)o->starts_count * sizeof *list);
    free(list);
}

static error_t parse_option(int key, char *text, struct argp_state *state) {
    search_options *o = state->input;
    switch (key) {
    case KEY_BUDGET:
        o->budget = cli_integer("--budget", text, 1, 1000000);
        return 0;
    case KEY_WINDOWS:
        o->windows = cli_integer("--windows", text, 1, 100000);
        return 0;
    case KEY_HELD_OUT:
        o->held_out = cli_integer("--held-out", text, 2, 100000);
        return 0;
    case KEY_STRIDE:
        o->stride = cli_integer("--stride", text, 1, CLI_MAX_TOKENS);
        return 0;
    case KEY_NEEDLES:
        o->needles = cli_integer("--needles", text, 1, SEARCH_MAX_NEEDLES);
        return 0;
    case KEY_SEED:
        o->seed = cli_seed(text);
        return 0;
    case KEY_TEMPERATURE:
        o->temperature = 1;
        return 0;
    case KEY_PAIRS:
        o->pairs = 1;
        return 0;
    case KEY_FORCE:
        o->force = 1;
        return 0;
    case KEY_START_TOKENS:
        read_starts(o, text);
        return 0;
    case KEY_ATTENTION:
        o->attention = cli_number("--attention-factor", text, 0.1, 10);
        return 0;
    default:
        if (stretch_option(&o->stretch, key, text) == 0 || run_option(&o->run, key, text) == 0) return 0;
        return model_option(&o->model, key, text);
    }
}

void search_options_read(int argc, char **argv, search_options *o) {
    const struct argp argp = {.options = option_table, .parser = parse_option, .args_doc = "MODEL", .doc = documentation};
    *o = (search_options){.budget = 50, .windows = 32, .held_out = 32, .seed = 1};
    model_options_init(&o->model, argc);
    cli_parse(&argp, CLI_THREADS | CLI_JSON | CLI_OUTPUT, argc, argv, &o->common);
    model_options_check(&o->model, 1);
    stretch_options_check(&o->stretch);
    if (o->temperature && (o->attention != 0 || o->stretch.write))
        cli_usage_error("--temperature: fits the attention factor and writes nothing; without %s",
                        o->stretch.write ? "--write" : "--attention-factor");
    if (o->temperature && o->pairs) cli_usage_error("--pairs: shows factors, which --temperature does not search for");
    if (o->temperature && o->starts_count)
        cli_usage_error("--start-tokens: belong to factors, which --temperature does not search for");
    for (int64_t i = 0; i < o->starts_count; i++)
        if (o->starts[i] >= o->stretch.to)
            cli_usage_error("--start-tokens: %lld is not below --to %lld", (long long)o->starts[i],
                            (long long)o->stretch.to);
    if (o->needles && o->stride) cli_usage_error("--stride: with --needles only answers are scored; give one of the two");
    if (o->needles && o->model.ids && !o->model.tokenizer)
        cli_usage_error("--needles: sentences cannot be put between token ids of --ids; give a text");
    if (o->stride > o->stretch.to)
        cli_usage_error("--stride: %lld is above --to %lld", (long long)o->stride, (long long)o->stretch.to);
    if (o->run.journal && !*o->run.journal) cli_usage_error("--journal: the name of the file is empty");
    if (o->run.report && !*o->run.report) cli_usage_error("--report: the name of the file is empty");
    if (o->run.report && o->temperature) cli_usage_error("--report: shows factors, which --temperature does not search for");
    if (o->force && !o->stretch.write) cli_usage_error("--force: nothing is written without --write");
    if (!o->stride) o->stride = o->needles ? o->stretch.to : o->stretch.to / 2;
}
