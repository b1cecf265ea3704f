/* passkey_options.c: the options of gyre passkey. */
#include "tools/passkey/passkey.h"
#include <stdlib.h>
#include <string.h>

/* A single number is a count. */
static void read_depths(const char *option, const char *text, void *at) {
    enum { MAX_DEPTHS = 101 };
    passkey_options *o = at;
    int64_t *list = NULL;
    const int spread = !strchr(text, ',');
    const int64_t values = cli_integers(option, text, spread, spread ? MAX_DEPTHS : 100, &list);
    const int64_t count = spread ? list[0] : values;
    cli_check_rising(option, list, values);
    free(o->depths);
    o->depths = cli_alloc(count, sizeof *o->depths);
    for (int64_t i = 0; i < count; i++)
        o->depths[i] = !spread ? (double)list[i] / 100 : count == 1 ? 0.5 : (double)i / (double)(count - 1);
    o->depths_count = count;
    free(list);
}

enum { OF_PHRASES = 1 }; /* cli_option.of */
#define CLI_STRUCT passkey_options
static const cli_option rows[] = {
    {"lengths", "LIST", "Lengths in tokens of prompt and answer, rising, such as 1k,2k,4k; k = 1024 " DEFAULT_LENGTHS_HELP,
     1, CLI_OTHER(length_list, lengths, length_list_read)},
    {"depths", "N|LIST",
     "Where the key is hidden: N evenly spread depths, or a list of rising percentages of the filler before it "
     "(default: 11)",
     1, CLI_OTHER_OF_ALL(read_depths)},
    {"trials", "N", "Keys asked for at each length and depth (default: 10)", 1, CLI_INTEGER(trials, 1, 100000)},
    ROW_BUDGET(run.budget, "how many trials fit, and leaves out the longest lengths if three do not", 1),
    {"seed", "N", "Chooses other keys (default: 1)", 1, CLI_SEED(seed)},
    ROW_AS(model.profile, 2),
    ROW_TOKENIZER(model.tokenizer, 2),
    ROW_METHODS(method,
                "Any of " METHOD_NAMES METHOD_NUMBERS_HELP
                ", each alone (scaled for every length) or with a number, as in yarn:4, and followed by any "
                "of " METHOD_MODIFIERS "; as for gyre eval (default: none)",
                3),
    ROW_LENGTH_POLICY(
        method,
        "declared, causal or prefix: the length in use, for methods that depend on it (dynamic, dynamic-yarn, "
        "dynamic-linear, LongRoPE). prefix, as in an engine that generates: the length of the prompt, then of each token; "
        "prompts then "
        "cannot share what they have in common (default: as the model's config says, which is declared: the length)",
        3),
    ROW_BETA_FAST(method.betas.fast, "32", 3),
    ROW_BETA_SLOW(method.betas.slow, "1", 3),
    ROW_CACHE(method.cache, 3),
    {"format", "words|marks|chat",
     "words: sentences with a key of five digits, as published; marks: four digits between bytes that no text has, which "
     "models of gyre train know; chat: the sentences as the question of a chat, for an instruct model (default: marks for a "
     "model of bytes that finds such keys in a short trial; chat for one whose files have a chat template that Gyre knows; "
     "else words)",
     4, CLI_CHOICE(passkey_format, format, PASSKEY_FORMAT_WORDS)},
    ROW_CHAT_TEMPLATE(chat_form, 4),
    {"needle", "TEXT", "The text that is hidden; {key} stands for the key of a trial (default: \"" PASSKEY_NEEDLE "\")", 4,
     CLI_TEXT(phrases.needle), .of = OF_PHRASES},
    {"question", "TEXT",
     "The question at the end (default: \"" PASSKEY_QUESTION "\"; in a chat \"" PASSKEY_CHAT_QUESTION
     "\", and the model's turn begins with \"" PASSKEY_CHAT_REPLY "\")",
     4, CLI_TEXT(phrases.question), .of = OF_PHRASES},
    {"answer", "TEXT", "The expected answer (default: \"" PASSKEY_ANSWER "\")", 4, CLI_TEXT(phrases.answer),
     .of = OF_PHRASES},
    {"match", "exact|contains",
     "exact: the generated text begins with the answer; contains: the answer is anywhere in it (default: exact)", 4,
     CLI_CHOICE(int, contains, 0)},
    {"answer-tokens", "N",
     "Maximum number of tokens to generate (default: one for each byte of the answer and one more; contains: 32)", 4,
     CLI_INTEGER(answer_tokens, 1, 4096)},
    ROW_JOURNAL_OF(run.journal, "length and depth", 5),
    ROW_RESUME(run.resume, "model, prompt", 5),
    ROW_JSON_LINES(run.json_lines, "length and depth", 6),
    ROW_WATCH(run.watch, "length and depth", 6),
    ROW_REPORT(run.report, "Also write an HTML page with heat maps", 6),
    ROW_FIGURE(run.figure, "Also write the heat maps as SVG; needs two lengths and two depths", 6),
    {0}};

static const char documentation[] =
    "Asks a model for keys hidden in filler, by the length of the text and the depth of the key (Mohtashami and Jaggi "
    "2023). " MODEL_HELP "\v"
    "A trial is right when the most likely next tokens are the key. Prints the share of right trials for each method and "
    "length, then by depth. Keys depend on seed, length, depth and trial only: every method is asked for the same keys.\n"
    "Example: gyre passkey llama --lengths 4k,8k,16k --depths 10 --methods none,yarn --report passkey.html";

/* Finds errors that do not depend on the model. */
static void check_options(const passkey_options *o) {
    model_options_check(&o->model, 0);
    run_options_check(&o->run, &o->common);
    if (o->run.figure && (o->depths_count < 2 || o->lengths.count == 1))
        cli_usage_error("--figure: a heat map takes two lengths and two depths");
    if (!*o->phrases.answer) cli_usage_error("--answer: is empty");
    if (o->chat_form && o->format != PASSKEY_FORMAT_CHAT) cli_usage_error("--chat-template: goes with --format chat");
    if (o->given && o->format == PASSKEY_FORMAT_MARKS)
        cli_usage_error("--format: marks have no phrases; leave out --needle, --question and --answer");
    if (strcmp(o->phrases.needle, PASSKEY_NEEDLE) != 0 && strstr(o->phrases.answer, "{key}") &&
        !strstr(o->phrases.needle, "{key}"))
        cli_usage_error("--answer: asks for the {key}, which --needle does not hold");
}

void passkey_options_read(int argc, char **argv, passkey_options *o) {
    enum { CONTAINS_TOKENS = 32 };
    static const cli_command command = {
        rows, CLI_ALL, "MODEL", documentation, model_options_argument, offsetof(passkey_options, model), NULL};
    *o = (passkey_options){
        .trials = 10, .seed = 1, .phrases = {PASSKEY_NEEDLE, PASSKEY_QUESTION, PASSKEY_ANSWER, 0, NULL, NULL}};
    model_options_init(&o->model, argc);
    method_options_init(&o->method);
    cli_parse(&command, argc, argv, o);
    o->given = cli_given_of(&o->common, OF_PHRASES) != NULL;
    o->asks = cli_given(&o->common, "question");
    if (o->chat_form && o->format == PASSKEY_FORMAT_AUTO) o->format = PASSKEY_FORMAT_CHAT;
    if (!o->depths) read_depths("--depths", "11", o);
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
