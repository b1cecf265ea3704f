/* generate_options.c: the options of gyre generate. */
#include "tools/generate/generate.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char documentation[] =
    "Continues a prompt. " MODEL_HELP "\v"
    "Text is printed as it is generated, in whole characters; the speed is printed on standard error. The same seed gives "
    "the same text for any --threads.\n"
    "Example: gyre generate llama --prompt 'Once upon a time' --tokens 200 --temperature 0.8 --top-p 0.95\n"
    "Example: gyre generate SmolLM2-135M-Instruct.gguf --chat --prompt 'What is the capital of France?'";

static void read_stream(const char *option, const char *text, void *at) {
    generate_options *o = at;
    int64_t *values = NULL;
    if (cli_integers(option, text, 0, CLI_MAX_TOKENS, &values) != 2)
        cli_usage_error("%s: \"%s\" is not two numbers, sinks and window", option, text);
    o->sinks = values[0];
    o->window = values[1];
    free(values);
    if (o->window < o->sinks + 2)
        cli_usage_error("%s: a window of %lld does not hold %lld sinks and two tokens more", option, (long long)o->window,
                        (long long)o->sinks);
}

/* gyre_sampling reads 0 as 1.  Here 0 means the most likely token only. */
static void read_top_p(const char *option, const char *text, void *at) {
    *(double *)at = fmax(cli_number(option, text, 0, 1), DBL_MIN);
}

#define CLI_STRUCT generate_options
static const cli_option rows[] = {
    {"prompt", "TEXT", "The beginning of the text (default: empty)", 1, CLI_TEXT(prompt)},
    {"prompt-file", "FILE", "The same from a file, byte for byte", 1, CLI_TEXT(prompt_file), .file = CLI_FILE_READ,
     .excludes = "prompt", .why = "takes the place of --prompt; give one of them"},
    {"special", NULL, "Read names of added tokens in the prompt, such as <|user|>, as those tokens", 1, CLI_FLAG(special)},
    {"chat", NULL,
     "The prompt is a question to an instruct model: write it with the chat template of the model's files, and end where "
     "the "
     "model ends its turn",
     1, CLI_FLAG(chat)},
    ROW_CHAT_TEMPLATE(chat_form, 1),
    {"system", "TEXT", "With --chat: the system message before the question (default: the template's own, if it has one)", 1,
     CLI_TEXT(system)},
    {"tokens", "N", "Maximum number of tokens to write; 0 = without end, with --stream (default: 128)", 1,
     CLI_INTEGER(tokens, 0, CLI_MAX_TOKENS)},
    {"echo", NULL, "Print the prompt first", 1, CLI_FLAG(echo)},
    {"ignore-end", NULL, "Continue past the token that ends a text", 1, CLI_FLAG(ignore_end)},
    ROW_AS(model.profile, 2),
    ROW_TOKENIZER(model.tokenizer, 2),
    {"temperature", "X", "0: always the most likely token; above 0: sampled, 1 as the model predicts (default: 0)", 3,
     CLI_NUMBER(sampling.temperature, 0, 1000)},
    {"top-k", "N", "Sample from the N most likely tokens; 0 = all (default: 0)", 3,
     CLI_INTEGER(sampling.top_k, 0, CLI_MAX_TOKENS)},
    {"top-p", "X", "Sample from the most likely tokens that together have this probability (default: 1)", 3,
     CLI_OTHER(double, sampling.top_p, read_top_p)},
    {"seed", "N", "Chooses other samples (default: 1)", 3, CLI_SEED(seed)},
    ROW_METHOD(method, "NAME",
               "One of " METHOD_NAMES METHOD_NUMBERS_HELP
               ", alone (scaled for --context) or with a number, as in yarn:4, and followed by any of " METHOD_MODIFIERS
               "; as for gyre eval (default: none)",
               4),
    ROW_LENGTH_POLICY(
        method,
        "The length in use, for methods that depend on it (dynamic, dynamic-yarn, dynamic-linear, LongRoPE). declared: "
        "--context, from the first token on; causal: each token's own; prefix: that of the prompt, then of each token, as "
        "in transformers (default: as the model's config says, which is declared)",
        4),
    ROW_BETA_FAST(method.betas.fast, "32", 4),
    ROW_BETA_SLOW(method.betas.slow, "1", 4),
    {"context", "N", "Maximum number of tokens of prompt and text (default: as many as they need)", 5,
     CLI_INTEGER(context, 2, CLI_MAX_TOKENS), .excludes = "stream",
     .why = "has no end under --stream, whose WINDOW is what is seen"},
    {"stream", "SINKS,WINDOW",
     "See at most WINDOW tokens, the first SINKS and the last others, and continue without end (Xiao 2023)", 5,
     CLI_OTHER_OF_ALL(read_stream)},
    ROW_CACHE(method.cache, 5),
    {"order", "fast|fixed",
     "How attention adds. fast: a single token reads the cache in another order than a prompt; fixed: a text read token by "
     "token gets the same scores as a prompt, in more time (default: fast)",
     5, CLI_CHOICE(gyre_order, order, 0)},
    {0}};

/* Finds errors that do not depend on the model. */
static void check_options(const generate_options *o) {
    model_options_check(&o->model, 0);
    if (o->system && !o->chat) cli_usage_error("--system: goes with --chat");
    if (!o->tokens && !o->window) cli_usage_error("--tokens: 0, without end, takes --stream");
}

void generate_options_read(int argc, char **argv, generate_options *o) {
    static const cli_command command = {
        rows, CLI_ALL, "MODEL", documentation, model_options_argument, offsetof(generate_options, model), NULL};
    *o = (generate_options){.tokens = 128, .sampling = GYRE_INIT(gyre_sampling), .seed = 1};
    o->sampling.top_p = 1;
    model_options_init(&o->model, argc);
    method_options_init(&o->method);
    cli_parse(&command, argc, argv, o);
    if (o->chat_form) o->chat = 1;
    check_options(o);
    method_options_finish(&o->method);
}
