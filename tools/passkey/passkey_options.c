/* passkey_options.c: what gyre passkey is asked to do. */
#include "tools/passkey/passkey.h"
#include <stdlib.h>
#include <string.h>

enum {
    KEY_LENGTHS = CLI_FIRST_KEY,
    KEY_DEPTHS,
    KEY_TRIALS,
    KEY_SEED,
    KEY_METHODS,
    KEY_LENGTH_POLICY,
    KEY_BETA_FAST,
    KEY_BETA_SLOW,
    KEY_CACHE,
    KEY_NEEDLE,
    KEY_QUESTION,
    KEY_ANSWER,
    KEY_MATCH,
    KEY_ANSWER_TOKENS,
    KEY_JOURNAL,
    KEY_RESUME,
    KEY_LINES,
    KEY_REPORT,
    KEY_FIGURE
};

static const int64_t token_limit = (int64_t)1 << 31; /* positions end there */
const char *const passkey_policy_names[] = {[GYRE_LENGTH_POLICY_DECLARED] = "declared",
                                            [GYRE_LENGTH_POLICY_CAUSAL] = "causal",
                                            [GYRE_LENGTH_POLICY_PREFIX] = "prefix"};
static const char *const cache_names[] = {"f32", "f16", "bf16", "q8"};
static const gyre_dtype caches[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};
enum { CACHES = 4 };

static const struct argp_option option_table[] = {
    {"lengths", KEY_LENGTHS, "LIST", 0,
     "Lengths in tokens of prompt and answer, rising, such as 1k,2k,4k; k = 1024 (default: 1, 2 and 4 times the trained "
     "length)",
     1},
    {"depths", KEY_DEPTHS, "N|LIST", 0,
     "How deep the key is hidden: N depths spread evenly, or a list of rising percentages of the filler before it "
     "(default: 11)",
     1},
    {"trials", KEY_TRIALS, "N", 0, "Keys asked for at each length and depth (default: 10)", 1},
    {"seed", KEY_SEED, "N", 0, "Other keys (default: 1)", 1},
    MODEL_OPTIONS(2),
    {"methods", KEY_METHODS, "LIST", 0,
     "Out of " METHOD_NAMES ", each alone (scaled for every length) or with a number, as in yarn:4, and with any "
     "of " METHOD_MODIFIERS " behind it; as for gyre eval (default: none)",
     3},
    {"length-policy", KEY_LENGTH_POLICY, "NAME", 0,
     "declared, causal or prefix: whose length is in use, for methods whose rotation depends on it (dynamic, dynamic-yarn, "
     "LongRoPE). prefix, as an engine that generates: of the prompt, then of each token; nothing of one prompt then serves "
     "another (default: as the model's config says, which is declared: the length)",
     3},
    {"beta-fast", KEY_BETA_FAST, "X", 0,
     "by-parts and yarn: turns over the trained length above which a pair is kept (default: 32)", 3},
    {"beta-slow", KEY_BETA_SLOW, "X", 0, "by-parts and yarn: turns below which a pair is divided (default: 1)", 3},
    {"cache", KEY_CACHE, "TYPE", 0, "What keys and values are kept as: f32, f16, bf16 or q8 (default: f32)", 3},
    {"needle", KEY_NEEDLE, "TEXT", 0,
     "What is hidden; {key} stands for the key of a trial (default: \"" PASSKEY_NEEDLE "\")", 4},
    {"question", KEY_QUESTION, "TEXT", 0, "What is asked (default: \"" PASSKEY_QUESTION "\")", 4},
    {"answer", KEY_ANSWER, "TEXT", 0, "What has to come (default: \"" PASSKEY_ANSWER "\")", 4},
    {"match", KEY_MATCH, "NAME", 0,
     "exact: what is generated begins with the answer; contains: the answer stands anywhere in it (default: exact)", 4},
    {"answer-tokens", KEY_ANSWER_TOKENS, "N", 0,
     "Tokens to generate at most (default: one for each byte of the answer and one more; contains: 32)", 4},
    {"journal", KEY_JOURNAL, "FILE", 0, "Add a line to FILE for each length and depth as soon as it is measured", 5},
    {"resume", KEY_RESUME, NULL, 0,
     "Go on from --journal: what it holds of the same model, prompt and options is not measured again", 5},
    {"json-lines", KEY_LINES, NULL, 0,
     "Print a line of JSON for each length and depth as it is measured, and one for the run", 6},
    {"report", KEY_REPORT, "FILE", 0, "Also write an HTML page with heat maps", 6},
    {"figure", KEY_FIGURE, "FILE", 0, "Also write the heat maps as SVG; needs two lengths and two depths", 6},
    {0}};

static const char documentation[] =
    "Asks a model for keys hidden in filler, by how long the text is and how deep they lie (Mohtashami and Jaggi "
    "2023). " MODEL_HELP "\v"
    "A trial is right when the most likely next tokens are the key. Prints the share of right ones for each method and "
    "length, then by depth. Keys depend on seed, length, depth and trial alone: every method is asked for the same.\n"
    "Example: gyre passkey llama --lengths 4k,8k,16k --depths 10 --methods none,yarn --report passkey.html";

gyre_dtype passkey_cache(const char *text) {
    return caches[cli_choice("--cache", text, cache_names, CACHES)];
}

const char *passkey_cache_name(gyre_dtype dtype) {
    for (int i = 0; i < CACHES; i++)
        if (caches[i] == dtype) return cache_names[i];
    return "?";
}

/* -- values -- */
static void set_methods(passkey_options *o, const char *list) {
    gyre_error err = {0, ""};
    free(o->methods);
    if (methods_parse(list, &o->methods, &o->methods_count, &err)) cli_usage_error("%s", err.text);
}

static void check_rising(const char *option, const int64_t *values, int64_t count) {
    for (int64_t i = 1; i < count; i++)
        if (values[i] <= values[i - 1])
            cli_usage_error("%s: %lld after %lld does not rise", option, (long long)values[i], (long long)values[i - 1]);
}

static void set_lengths(passkey_options *o, const char *list) {
    o->lengths_count = cli_integers("--lengths", list, 2, token_limit, &o->lengths);
    check_rising("--lengths", o->lengths, o->lengths_count);
}

/* A number alone says how many. */
static void set_depths(passkey_options *o, const char *text) {
    enum { MOST = 101 };
    int64_t *list = NULL;
    const int spread = !strchr(text, ',');
    const int64_t values = cli_integers("--depths", text, spread, spread ? MOST : 100, &list);
    const int64_t count = spread ? list[0] : values;
    check_rising("--depths", list, values);
    free(o->depths);
    o->depths = calloc((size_t)count, sizeof *o->depths);
    if (!o->depths) cli_usage_error("--depths: out of memory for %lld", (long long)count);
    for (int64_t i = 0; i < count; i++)
        o->depths[i] = !spread ? (double)list[i] / 100 : count == 1 ? 0.5 : (double)i / (double)(count - 1);
    o->depths_count = count;
    free(list);
}

static error_t parse_phrases(passkey_options *o, int key, const char *text) {
    static const char *const matches[] = {"exact", "contains"};
    switch (key) {
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

static error_t parse_output(passkey_options *o, int key, const char *text) {
    switch (key) {
    case KEY_JOURNAL:
        o->journal = text;
        return 0;
    case KEY_RESUME:
        o->resume = 1;
        return 0;
    case KEY_LINES:
        o->json_lines = 1;
        return 0;
    case KEY_REPORT:
        o->report = text;
        return 0;
    case KEY_FIGURE:
        o->figure = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_grid(passkey_options *o, int key, const char *text) {
    switch (key) {
    case KEY_LENGTHS:
        set_lengths(o, text);
        return 0;
    case KEY_DEPTHS:
        set_depths(o, text);
        return 0;
    case KEY_TRIALS:
        o->trials = cli_integer("--trials", text, 1, 100000);
        return 0;
    case KEY_SEED:
        o->seed = (uint64_t)cli_integer("--seed", text, 0, INT64_MAX);
        return 0;
    case KEY_METHODS:
        set_methods(o, text);
        return 0;
    case KEY_LENGTH_POLICY:
        o->policy = cli_choice("--length-policy", text, passkey_policy_names, 3);
        return 0;
    case KEY_BETA_FAST:
        o->betas.fast = cli_number("--beta-fast", text, 1e-6, 1e9);
        return 0;
    case KEY_BETA_SLOW:
        o->betas.slow = cli_number("--beta-slow", text, 1e-6, 1e9);
        return 0;
    case KEY_CACHE:
        o->cache = passkey_cache(text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *text, struct argp_state *state) {
    passkey_options *o = state->input;
    if (key == ARGP_KEY_ARG) {
        if (o->model.path) return ARGP_ERR_UNKNOWN;
        o->model.path = text;
        return 0;
    }
    if (parse_grid(o, key, text) == 0 || parse_phrases(o, key, text) == 0 || parse_output(o, key, text) == 0) return 0;
    return model_option(&o->model, key, text);
}

/* What needs no model to be known as wrong. */
static void check_options(const passkey_options *o) {
    model_options_check(&o->model, 0);
    if (o->betas.fast < o->betas.slow)
        cli_usage_error("--beta-fast: %g is below --beta-slow %g", o->betas.fast, o->betas.slow);
    if (o->resume && !o->journal) cli_usage_error("--resume: needs the --journal to go on from");
    if (o->json_lines && o->common.json) cli_usage_error("--json-lines: contradicts --json");
    if (o->json_lines && o->common.output)
        cli_usage_error("--json-lines: come one by one on standard output; not with --output");
    if (o->figure && (o->depths_count < 2 || o->lengths_count == 1))
        cli_usage_error("--figure: a heat map takes two lengths and two depths");
    if (strcmp(o->phrases.needle, PASSKEY_NEEDLE) != 0 && strstr(o->phrases.answer, "{key}") &&
        !strstr(o->phrases.needle, "{key}"))
        cli_usage_error("--answer: asks for the {key}, which --needle does not hold");
}

void passkey_options_read(int argc, char **argv, passkey_options *o) {
    enum { CONTAINS_TOKENS = 32 };
    const struct argp argp = {.options = option_table, .parser = parse_option, .args_doc = "MODEL", .doc = documentation};
    *o = (passkey_options){.trials = 10,
                           .seed = 1,
                           .policy = -1,
                           .betas = {32, 1},
                           .cache = GYRE_DTYPE_F32,
                           .phrases = {PASSKEY_NEEDLE, PASSKEY_QUESTION, PASSKEY_ANSWER}};
    model_options_begin(&o->model, argc);
    cli_parse(&argp, CLI_THREADS | CLI_JSON | CLI_OUTPUT, argc, argv, &o->common);
    if (!o->methods) set_methods(o, "none");
    if (!o->depths) set_depths(o, "11");
    if (o->contains && !o->answer_tokens) o->answer_tokens = CONTAINS_TOKENS;
    check_options(o);
}

void passkey_options_free(passkey_options *o) {
    model_options_free(&o->model);
    free(o->lengths);
    free(o->depths);
    free(o->methods);
}
