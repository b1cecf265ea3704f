/* passkey_options.c: the options of gyre passkey. */
#include "tools/passkey/passkey.h"
#include <stdlib.h>
#include <string.h>

enum {
    KEY_LENGTHS = CLI_FIRST_KEY,
    KEY_DEPTHS,
    KEY_TRIALS,
    KEY_SEED,
    KEY_NEEDLE,
    KEY_QUESTION,
    KEY_ANSWER,
    KEY_MATCH,
    KEY_ANSWER_TOKENS,
    KEY_FORMAT
};

static const struct argp_option option_table[] = {
    {"lengths", KEY_LENGTHS, "LIST", 0,
     "Lengths in tokens of prompt and answer, rising, such as 1k,2k,4k; k = 1024 " DEFAULT_LENGTHS_HELP, 1},
    {"depths", KEY_DEPTHS, "N|LIST", 0,
     "Where the key is hidden: N evenly spread depths, or a list of rising percentages of the filler before it "
     "(default: 11)",
     1},
    {"trials", KEY_TRIALS, "N", 0, "Keys asked for at each length and depth (default: 10)", 1},
    {"seed", KEY_SEED, "N", 0, "Chooses other keys (default: 1)", 1},
    OPTION_AS(2),
    OPTION_TOKENIZER(2),
    OPTION_METHODS("Any of " METHOD_NAMES METHOD_NUMBERS_HELP
                   ", each alone (scaled for every length) or with a number, as in yarn:4, and followed by any "
                   "of " METHOD_MODIFIERS "; as for gyre eval (default: none)",
                   3),
    OPTION_LENGTH_POLICY(
        "declared, causal or prefix: the length in use, for methods that depend on it (dynamic, dynamic-yarn, "
        "dynamic-linear, LongRoPE). prefix, as in an engine that generates: the length of the prompt, then of each token; "
        "prompts then "
        "cannot share what they have in common (default: as the model's config says, which is declared: the length)",
        3),
    OPTION_BETA_FAST("32", 3),
    OPTION_BETA_SLOW("1", 3),
    OPTION_CACHE(3),
    {"format", KEY_FORMAT, "words|marks", 0,
     "words: sentences with a key of five digits, as published; marks: four digits between bytes that no text has, which "
     "models of gyre train know (default: marks for a model of bytes that finds such keys in a short trial, else words)",
     4},
    {"needle", KEY_NEEDLE, "TEXT", 0,
     "The text that is hidden; {key} stands for the key of a trial (default: \"" PASSKEY_NEEDLE "\")", 4},
    {"question", KEY_QUESTION, "TEXT", 0, "The question at the end (default: \"" PASSKEY_QUESTION "\")", 4},
    {"answer", KEY_ANSWER, "TEXT", 0, "The expected answer (default: \"" PASSKEY_ANSWER "\")", 4},
    {"match", KEY_MATCH, "exact|contains", 0,
     "exact: the generated text begins with the answer; contains: the answer is anywhere in it (default: exact)", 4},
    {"answer-tokens", KEY_ANSWER_TOKENS, "N", 0,
     "Maximum number of tokens to generate (default: one for each byte of the answer and one more; contains: 32)", 4},
    OPTION_JOURNAL_OF("length and depth", 5),
    OPTION_RESUME("model, prompt", 5),
    OPTION_JSON_LINES("length and depth", 6),
    OPTION_REPORT("Also write an HTML page with heat maps", 6),
    OPTION_FIGURE("Also write the heat maps as SVG; needs two lengths and two depths", 6),
    {0}};

static const char documentation[] =
    "Asks a model for keys hidden in filler, by the length of the text and the depth of the key (Mohtashami and Jaggi "
    "2023). " MODEL_HELP "\v"
    "A trial is right when the most likely next tokens are the key. Prints the share of right trials for each method and "
    "length, then by depth. Keys depend on seed, length, depth and trial only: every method is asked for the same keys.\n"
    "Example: gyre passkey llama --lengths 4k,8k,16k --depths 10 --methods none,yarn --report passkey.html";

/* -- values -- */
/* A single number is a count. */
static void set_depths(passkey_options *o, const char *text) {
    enum { MAX_DEPTHS = 101 };
    int64_t *list = NULL;
    const int spread = !strchr(text, ',');
    const int64_t values = cli_integers("--depths", text, spread, spread ? MAX_DEPTHS : 100, &list);
    const int64_t count = spread ? list[0] : values;
    cli_check_rising("--depths", list, values);
    free(o->depths);
    o->depths = calloc((size_t)count, sizeof *o->depths);
    if (!o->depths) exit(cli_fail("--depths: out of memory (options)"));
    for (int64_t i = 0; i < count; i++)
        o->depths[i] = !spread ? (double)list[i] / 100 : count == 1 ? 0.5 : (double)i / (double)(count - 1);
    o->depths_count = count;
    free(list);
}

static error_t parse_phrases(passkey_options *o, int key, const char *text) {
    static const char *const matches[] = {"exact", "contains"};
    static const char *const formats[] = {"words", "marks"};
    o->given |= key == KEY_NEEDLE || key == KEY_QUESTION || key == KEY_ANSWER;
    switch (key) {
    case KEY_FORMAT:
        o->format = cli_choice("--format", text, formats, 2) ? PASSKEY_FORMAT_MARKS : PASSKEY_FORMAT_WORDS;
        return 0;
    case KEY_NEEDLE:
        o->phrases.needle = text;
        return 0;
    case KEY_QUESTION:
        o->phrases.question = text;
        return 0;
    case KEY_ANSWER:
        if (!*text) cli_usage_error("--answer: is empty");
        o->phrases.answer = text;
        return 0;
    case KEY_MATCH:
        o->contains = cli_choice("--match", text, matches, 2);
        return 0;
    case KEY_ANSWER_TOKENS:
        o->answer_tokens = cli_integer("--answer-tokens", text, 1, 4096);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_grid(passkey_options *o, int key, const char *text) {
    switch (key) {
    case KEY_LENGTHS:
        length_list_parse(&o->lengths, "--lengths", text);
        return 0;
    case KEY_DEPTHS:
        set_depths(o, text);
        return 0;
    case KEY_TRIALS:
        o->trials = cli_integer("--trials", text, 1, 100000);
        return 0;
    case KEY_SEED:
        o->seed = cli_seed(text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *text, struct argp_state *state) {
    passkey_options *o = state->input;
    if (parse_grid(o, key, text) == 0 || parse_phrases(o, key, text) == 0) return 0;
    if (method_option(&o->method, key, text) == 0 || run_option(&o->run, key, text) == 0) return 0;
    return model_option(&o->model, key, text);
}

/* Finds errors that do not depend on the model. */
static void check_options(const passkey_options *o) {
    model_options_check(&o->model, 0);
    run_options_check(&o->run, &o->common);
    if (o->run.figure && (o->depths_count < 2 || o->lengths.count == 1))
        cli_usage_error("--figure: a heat map takes two lengths and two depths");
    if (o->given && o->format == PASSKEY_FORMAT_MARKS)
        cli_usage_error("--format: marks have no phrases; leave out --needle, --question and --answer");
    if (strcmp(o->phrases.needle, PASSKEY_NEEDLE) != 0 && strstr(o->phrases.answer, "{key}") &&
        !strstr(o->phrases.needle, "{key}"))
        cli_usage_error("--answer: asks for the {key}, which --needle does not hold");
}

void passkey_options_read(int argc, char **argv, passkey_options *o) {
    enum { CONTAINS_TOKENS = 32 };
    const struct argp argp = {.options = option_table, .parser = parse_option, .args_doc = "MODEL", .doc = documentation};
    *o = (passkey_options){.trials = 10, .seed = 1, .phrases = {PASSKEY_NEEDLE, PASSKEY_QUESTION, PASSKEY_ANSWER, 0}};
    model_options_init(&o->model, argc);
    method_options_init(&o->method);
    cli_parse(&argp, CLI_THREADS | CLI_JSON | CLI_OUTPUT, argc, argv, &o->common);
    if (!o->depths) set_depths(o, "11");
    if (o->contains && !o->answer_tokens) o->answer_tokens = CONTAINS_TOKENS;
    check_options(o);
    method_options_finish(&o->method);
}

void passkey_options_free(passkey_options *o) {
    model_options_free(&o->model);
    method_options_free(&o->method);
    length_list_free(&o->lengths);
    free(o->depths);
}
