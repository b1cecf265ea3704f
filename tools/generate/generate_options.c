/* generate_options.c: what gyre generate is asked to do. */
#include "tools/generate/generate.h"
#include "tools/passkey/passkey.h"
#include <stdlib.h>
#include <string.h>

enum {
    KEY_PROMPT = CLI_FIRST_KEY,
    KEY_PROMPT_FILE,
    KEY_SPECIAL,
    KEY_TOKENS,
    KEY_CONTEXT,
    KEY_STREAM,
    KEY_METHOD,
    KEY_LENGTH_POLICY,
    KEY_BETA_FAST,
    KEY_BETA_SLOW,
    KEY_CACHE,
    KEY_TEMPERATURE,
    KEY_TOP_P,
    KEY_TOP_K,
    KEY_SEED,
    KEY_IGNORE_END,
    KEY_ECHO
};

static const int64_t token_limit = (int64_t)1 << 31; /* positions end there */

static const struct argp_option option_table[] = {
    {"prompt", KEY_PROMPT, "TEXT", 0, "What the text begins with (default: nothing)", 1},
    {"prompt-file", KEY_PROMPT_FILE, "FILE", 0, "The same from a file, byte for byte", 1},
    {"special", KEY_SPECIAL, NULL, 0, "Names of added tokens in the prompt, such as <|user|>, are those tokens", 1},
    {"tokens", KEY_TOKENS, "N", 0, "Tokens to write at most; 0 = without end, with --stream (default: 128)", 1},
    {"echo", KEY_ECHO, NULL, 0, "Print the prompt first", 1},
    {"ignore-end", KEY_IGNORE_END, NULL, 0, "Go on past the token that ends a text", 1},
    MODEL_OPTIONS(2),
    {"temperature", KEY_TEMPERATURE, "X", 0,
     "0: always the likeliest token; above: by chance, 1 as the model has it "
     "(default: 0)",
     3},
    {"top-k", KEY_TOP_K, "N", 0, "Draw from the N likeliest tokens; 0 = all (default: 0)", 3},
    {"top-p", KEY_TOP_P, "X", 0, "Draw from the likeliest tokens that together have this share (default: 1)", 3},
    {"seed", KEY_SEED, "N", 0, "Other draws (default: 1)", 3},
    {"method", KEY_METHOD, "NAME", 0,
     "Out of " METHOD_NAMES
     ", alone (scaled for --context) or with a number, as in yarn:4, and with any of " METHOD_MODIFIERS
     " behind it; as for gyre eval (default: none)",
     4},
    {"length-policy", KEY_LENGTH_POLICY, "NAME", 0,
     "Whose length is in use, for methods whose rotation depends on it (dynamic, dynamic-yarn, LongRoPE). declared: "
     "--context, from the first token on; causal: each token's own; prefix: of the prompt, then of each token, as "
     "transformers has it (default: as the model's config says, which is declared)",
     4},
    {"beta-fast", KEY_BETA_FAST, "X", 0,
     "by-parts and yarn: turns over the trained length above which a pair is kept (default: 32)", 4},
    {"beta-slow", KEY_BETA_SLOW, "X", 0, "by-parts and yarn: turns below which a pair is divided (default: 1)", 4},
    {"context", KEY_CONTEXT, "N", 0, "Tokens of prompt and text at most (default: as many as they take)", 5},
    {"stream", KEY_STREAM, "SINKS,WINDOW", 0,
     "See no more than WINDOW tokens, the first SINKS and the last others, and go on without end (Xiao 2023)", 5},
    {"cache", KEY_CACHE, "TYPE", 0, "What keys and values are kept as: f32, f16, bf16 or q8 (default: f32)", 5},
    {0}};

static const char documentation[] =
    "Writes on from a prompt. " MODEL_HELP "\v"
    "Text is printed as it comes, whole characters at a time; how fast it came stands on standard error. The same seed "
    "gives the same text whatever --threads.\n"
    "Example: gyre generate llama --prompt 'Once upon a time' --tokens 200 --temperature 0.8 --top-p 0.95";

/* -- values -- */
static void set_method(generate_options *o, const char *text) {
    gyre_error err = {0, ""};
    if (method_parse(text, &o->method, &err)) cli_usage_error("%s", err.text);
}

static void set_stream(generate_options *o, const char *text) {
    int64_t *values = NULL;
    if (cli_integers("--stream", text, 0, token_limit, &values) != 2)
        cli_usage_error("--stream: \"%s\" is not two numbers, sinks and window", text);
    o->sinks = values[0];
    o->window = values[1];
    free(values);
    if (o->window < o->sinks + 2)
        cli_usage_error("--stream: a window of %lld does not hold %lld sinks and two tokens more", (long long)o->window,
                        (long long)o->sinks);
}

static error_t parse_sampling(generate_options *o, int key, const char *text) {
    switch (key) {
    case KEY_TEMPERATURE:
        o->sampling.temperature = cli_number("--temperature", text, 0, 1000);
        return 0;
    case KEY_TOP_P:
        o->sampling.top_p = cli_number("--top-p", text, 0, 1);
        return 0;
    case KEY_TOP_K:
        o->sampling.top_k = cli_integer("--top-k", text, 0, token_limit);
        return 0;
    case KEY_SEED:
        o->seed = (uint64_t)cli_integer("--seed", text, 0, INT64_MAX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_positions(generate_options *o, int key, const char *text) {
    switch (key) {
    case KEY_METHOD:
        set_method(o, text);
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
    case KEY_CONTEXT:
        o->context = cli_integer("--context", text, 2, token_limit);
        return 0;
    case KEY_STREAM:
        set_stream(o, text);
        return 0;
    case KEY_CACHE:
        o->cache = passkey_cache(text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *text, struct argp_state *state) {
    generate_options *o = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (o->model.path) return ARGP_ERR_UNKNOWN;
        o->model.path = text;
        return 0;
    case KEY_PROMPT:
        o->prompt = text;
        return 0;
    case KEY_PROMPT_FILE:
        o->prompt_file = text;
        return 0;
    case KEY_SPECIAL:
        o->special = 1;
        return 0;
    case KEY_TOKENS:
        o->tokens = cli_integer("--tokens", text, 0, token_limit);
        return 0;
    case KEY_IGNORE_END:
        o->ignore_end = 1;
        return 0;
    case KEY_ECHO:
        o->echo = 1;
        return 0;
    default:
        if (parse_sampling(o, key, text) == 0 || parse_positions(o, key, text) == 0) return 0;
        return model_option(&o->model, key, text);
    }
}

/* What needs no model to be known as wrong. */
static void check_options(const generate_options *o) {
    model_options_check(&o->model, 0);
    if (o->prompt && o->prompt_file) cli_usage_error("--prompt-file: takes the place of --prompt; give one of them");
    if (o->betas.fast < o->betas.slow)
        cli_usage_error("--beta-fast: %g is below --beta-slow %g", o->betas.fast, o->betas.slow);
    if (o->window && o->context) cli_usage_error("--context: has no end under --stream, whose WINDOW is what is seen");
    if (!o->tokens && !o->window) cli_usage_error("--tokens: 0, without end, takes --stream");
}

void generate_options_read(int argc, char **argv, generate_options *o) {
    const struct argp argp = {.options = option_table, .parser = parse_option, .args_doc = "MODEL", .doc = documentation};
    *o = (generate_options){.tokens = 128,
                            .policy = -1,
                            .betas = {32, 1},
                            .cache = GYRE_DTYPE_F32,
                            .sampling = GYRE_INIT(gyre_sampling),
                            .seed = 1};
    set_method(o, "none");
    model_options_begin(&o->model, argc);
    cli_parse(&argp, CLI_THREADS | CLI_JSON | CLI_OUTPUT, argc, argv, &o->common);
    check_options(o);
}
