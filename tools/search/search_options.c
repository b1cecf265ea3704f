/* search_options.c: the options of gyre search. */
#include "tools/search/search.h"
#include <stdlib.h>
#include <string.h>

/* Those of the paper's search (arXiv 2402.13753). */
static const char paper_starts[] = "0,1,2,4,8,12,16,20,24,28,32,64,128,256";

static void read_starts(const char *option, const char *text, void *at) {
    search_options *o = at;
    int64_t *list = NULL;
    const char *numbers = strcmp(text, "paper") == 0 ? paper_starts : text;
    o->starts_count = cli_integers(option, numbers, 0, CLI_MAX_TOKENS, &list);
    if (o->starts_count > SEARCH_STARTS - 1)
        cli_usage_error("%s: %lld numbers, more than %d", option, (long long)o->starts_count, SEARCH_STARTS - 1);
    memcpy(o->starts, list, (size_t)o->starts_count * sizeof *list);
    free(list);
}

#define CLI_STRUCT search_options
static const cli_option rows[] = {
    ROW_TO(stretch.to, 1),
    ROW_TEXT(model, 1),
    ROW_IDS(model, 1),
    ROW_AS(model.profile, 5),
    ROW_TOKENIZER(model.tokenizer, 5),
    {"budget", "N", "Cost limit of the search: as many windows as N evaluations of all of them read (default: 50)", 2,
     CLI_INTEGER(budget, 1, 1000000)},
    {"windows", "N", "Maximum number of windows to search on (default: 32)", 2, CLI_INTEGER(windows, 1, 100000)},
    {"held-out", "N", "Maximum number of windows to judge the result on, outside the budget (default: 32)", 2,
     CLI_INTEGER(held_out, 2, 100000)},
    {"stride", "N", "Tokens from one window to the next; the last N predictions of each are scored (default: half of --to)",
     2, CLI_INTEGER(stride, 1, CLI_MAX_TOKENS), .excludes = "needles",
     .why = "with --needles only answers are scored; give one of the two"},
    {"needles", "N",
     "Hide N keys in each window, 1 to 8, ask for them at its end, and score only the answers, as LongRoPE2 does (default: "
     "the text itself is scored)",
     2, CLI_INTEGER(needles, 1, SEARCH_MAX_NEEDLES)},
    {"seed", "N", "Seed of all random choices (default: 1)", 3, CLI_SEED(seed)},
    {"attention-factor", "X", "Multiplier of cosines and sines (default: searched together with the factors)", 3,
     CLI_NUMBER(attention, 0.1, 10), .excludes = "temperature",
     .why = "is what --temperature searches for; give one of them"},
    {"start-tokens", "LIST",
     "Search, together with the factors, how many of the first tokens rotate as trained, as LongRoPE does: one of these "
     "numbers or none, at most 31 of them, or \"paper\" for those of its paper (default: none)",
     3, CLI_OTHER_OF_ALL(read_starts), .excludes = "temperature",
     .why = "belong to factors, which --temperature does not search for"},
    ROW_TRAINED(stretch.trained, 3),
    ROW_JOURNAL(run.journal,
                "Write each measurement to this file, one per line. A search with such a file continues from it, with the "
                "same result as one that was never stopped. --budget may be larger then",
                4),
    ROW_REPORT(run.report,
               "Write an HTML report: the verdict, the factors of every method by pair, and the held-out windows", 4),
    ROW_WRITE(stretch.write, "the factors found (rope_scaling: longrope)", 4),
    {"temperature", NULL,
     "Search no factors: measure YaRN under a range of attention factors, and compare the best one with YaRN's formula, "
     "0.1 ln s + 1",
     3, CLI_FLAG(temperature)},
    {"pairs", NULL,
     "After the search, measure on the held-out windows what the factor of each pair is worth: what the result loses if "
     "that "
     "pair alone keeps its trained frequency, and what the model as it is wins if that pair alone is divided",
     3, CLI_FLAG(pairs), .excludes = "temperature", .why = "shows factors, which --temperature does not search for"},
    {"even-if-worse", NULL,
     "Write the factors found even if a method that needs no search predicts the held-out text better", 4,
     CLI_FLAG(even_if_worse), .needs = "write", .why = "nothing is written without --write"},
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

void search_options_read(int argc, char **argv, search_options *o) {
    static const cli_command command = {
        rows, CLI_ALL, "MODEL", documentation, model_options_argument, offsetof(search_options, model), NULL};
    *o = (search_options){.budget = 50, .windows = 32, .held_out = 32, .seed = 1};
    model_options_init(&o->model, argc);
    cli_parse(&command, argc, argv, o);
    model_options_check(&o->model, 1);
    stretch_options_check(&o->stretch);
    if (o->temperature && o->stretch.write)
        cli_usage_error("--temperature: fits the attention factor and writes nothing; without --write");
    for (int64_t i = 0; i < o->starts_count; i++)
        if (o->starts[i] >= o->stretch.to)
            cli_usage_error("--start-tokens: %lld is not below --to %lld", (long long)o->starts[i],
                            (long long)o->stretch.to);
    if (o->needles && o->model.ids && !o->model.tokenizer)
        cli_usage_error("--needles: sentences cannot be put between token ids of --ids; give a text");
    if (o->stride > o->stretch.to)
        cli_usage_error("--stride: %lld is above --to %lld", (long long)o->stride, (long long)o->stretch.to);
    if (o->run.report && o->temperature) cli_usage_error("--report: shows factors, which --temperature does not search for");
    if (!o->stride) o->stride = o->needles ? o->stretch.to : o->stretch.to / 2;
}
