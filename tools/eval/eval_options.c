/* eval_options.c: what gyre eval is asked to do. */
#include "tools/eval/eval.h"
#include <stdlib.h>
#include <string.h>

enum {
    KEY_CONTEXTS = CLI_FIRST_KEY,
    KEY_METHODS,
    KEY_STRIDE,
    KEY_WINDOWS,
    KEY_FIRST,
    KEY_PROTOCOL,
    KEY_BETA_FAST,
    KEY_BETA_SLOW,
    KEY_PASSKEY,
    KEY_LENGTH_POLICY,
    KEY_BY_POSITION,
    KEY_CACHE,
    KEY_JOURNAL,
    KEY_RESUME,
    KEY_LINES,
    KEY_REPORT
};

enum { REPORT_BUCKETS = 16, NOT_GIVEN = -1, CACHES = 4 };

static const int64_t token_limit = (int64_t)1 << 31; /* positions end there */
const char *const eval_protocol_names[] = {[GYRE_EVAL_PROTOCOL_SLIDING] = "sliding",
                                           [GYRE_EVAL_PROTOCOL_TRUNCATE] = "truncate",
                                           [GYRE_EVAL_PROTOCOL_LAST] = "last"};
const char *const eval_policy_names[] = {[GYRE_LENGTH_POLICY_DECLARED] = "declared",
                                         [GYRE_LENGTH_POLICY_CAUSAL] = "causal",
                                         [GYRE_LENGTH_POLICY_PREFIX] = "prefix",
                                         "all"};

static const char *const cache_names[CACHES] = {"f32", "f16", "bf16", "q8"};
static const gyre_dtype cache_types[CACHES] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};

const char *eval_cache_name(const eval_options *o) {
    int i = 0;
    while (i < CACHES - 1 && cache_types[i] != o->cache)
        i++;
    return cache_names[i];
}

static const struct argp_option option_table[] = {
    TEXT_OPTIONS(1),
    MODEL_OPTIONS(1),
    {"contexts", KEY_CONTEXTS, "LIST", 0,
     "Context lengths in tokens, rising, such as 256,512,1k; k = 1024 (default: 1, 2 and 4 times the trained length)", 2},
    {"methods", KEY_METHODS, "LIST", 0,
     "Out of " METHOD_NAMES ", each alone (scaled for every context L by max(1, L / trained length)) or with a factor that "
     "stays the same at every context, as in ntk:4; dynamic is transformers' formula at length L, its factor 1 unless "
     "given; dynamic-yarn is yarn with the factor of length L; "
     "none is the model as its config says, the others replace a scaling it holds (default: none). rerope:WINDOW, "
     "leaky:FACTOR and self-extend:GROUP turn pairs less that are further apart than half the trained length; any "
     "of " METHOD_MODIFIERS " may follow a name, as in yarn:4+resonance",
     3},
    {"length-policy", KEY_LENGTH_POLICY, "LIST", 0,
     "Out of declared, causal, prefix, or all of them: a row for each, for methods whose rotation depends on the length in "
     "use (dynamic, dynamic-yarn, and none where the model has LongRoPE or one of those). declared: L for all of a window; "
     "causal: for each token, of the tokens up to it, rounded up to 64; prefix: as an engine that generates "
     "has it, of the tokens before the first one scored for all of those, then for each pass of 64, up to its end (default: "
     "as the model's config says, which is declared)",
     4},
    {"protocol", KEY_PROTOCOL, "NAME", 0,
     "sliding: windows of L tokens every --stride, the last stride predictions of each scored; truncate: windows side by "
     "side, every prediction scored; last: as sliding, the last 200 predictions scored (default: sliding)",
     5},
    {"stride", KEY_STRIDE, "N", 0,
     "Tokens from window to window, at most the shortest context; YaRN's paper has 256 (default: L / 2)", 6},
    {"windows", KEY_WINDOWS, "N", 0, "Windows per context at most, spread over the text; 0 = all (default: 0)", 6},
    {"first", KEY_FIRST, NULL, 0, "Read the first --windows of a text instead of spreading them over it", 6},
    {"beta-fast", KEY_BETA_FAST, "X", 0,
     "by-parts and yarn: turns over the trained length above which a pair is kept (default: 32)", 4},
    {"beta-slow", KEY_BETA_SLOW, "X", 0, "by-parts and yarn: turns below which a pair is divided (default: 1)", 4},
    {"by-position", KEY_BY_POSITION, "N", 0,
     "Also the loss of all predictions by where in the window they are made, in N equal shares (default: 0 = do not; 16 "
     "with "
     "--report)",
     7},
    {"passkey", KEY_PASSKEY, "N", 0,
     "Also ask for keys hidden in the text, N trials or a few more per context; needs a model that reads bytes, and --text "
     "(default: 0 = do not)",
     7},
    {"cache", KEY_CACHE, "TYPE", 0, "Keep keys and values as f32, f16, bf16 or q8 (default: f32)", 7},
    {"journal", KEY_JOURNAL, "FILE", 0, "Add a line to FILE for each figure as soon as it is measured", 8},
    {"resume", KEY_RESUME, NULL, 0,
     "Go on from --journal: what it holds of the same files, texts and options is not measured again", 8},
    {"json-lines", KEY_LINES, NULL, 0, "Print a line of JSON for each figure as it is measured, and one for the run", 9},
    {"report", KEY_REPORT, "FILE", 0, "Also write an HTML page with figures", 9},
    {0}};

static const char documentation[] =
    "Measures how well a model predicts texts at each context length, under each method to extend its context. Every "
    "method reads the same windows. " MODEL_HELP "\v"
    "Prints perplexity per token, bits per byte (per token with --ids), and how many pairs of a head the method keeps as "
    "trained, blends, and divides by its factor at the longest context; for each text, and where there are several, for all "
    "together, every scored prediction counting alike.\n"
    "Example: gyre eval models/rope --text README.md --contexts 256,512,1k --methods none,linear,ntk,ntk:4,yarn";

static void set_methods(eval_options *o, const char *list) {
    gyre_error err = {0, ""};
    free(o->methods);
    if (methods_parse(list, &o->methods, &o->methods_count, &err)) cli_usage_error("%s", err.text);
}

static void set_policies(eval_options *o, const char *list) {
    o->policies_count = 0;
    for (const char *name = list;; name++) {
        char one[16];
        const size_t length = strcspn(name, ",");
        snprintf(one, sizeof one, "%.*s", length < sizeof one ? (int)length : (int)sizeof one - 1, name);
        const int policy = cli_choice("--length-policy", one, eval_policy_names, EVAL_POLICIES + 1);
        for (int p = 0; p < EVAL_POLICIES; p++) {
            int known = policy != p && policy != EVAL_POLICIES;
            for (int64_t i = 0; i < o->policies_count; i++)
                known |= (int)o->policies[i] == p;
            if (!known) o->policies[o->policies_count++] = (gyre_length_policy)p;
        }
        name += length;
        if (!*name) return;
    }
}

static void set_contexts(eval_options *o, const char *list) {
    o->contexts_count = cli_integers("--contexts", list, 2, token_limit, &o->contexts);
    for (int64_t i = 1; i < o->contexts_count; i++)
        if (o->contexts[i] <= o->contexts[i - 1])
            cli_usage_error("--contexts: %lld after %lld does not rise", (long long)o->contexts[i],
                            (long long)o->contexts[i - 1]);
}

static error_t parse_figures(eval_options *o, int key, const char *text) {
    switch (key) {
    case KEY_STRIDE:
        o->stride = cli_integer("--stride", text, 1, token_limit);
        return 0;
    case KEY_WINDOWS:
        o->windows = cli_integer("--windows", text, 0, token_limit);
        return 0;
    case KEY_BETA_FAST:
        o->betas.fast = cli_number("--beta-fast", text, 1e-6, 1e9);
        return 0;
    case KEY_BETA_SLOW:
        o->betas.slow = cli_number("--beta-slow", text, 1e-6, 1e9);
        return 0;
    case KEY_PASSKEY:
        o->passkey = cli_integer("--passkey", text, 0, 1000000);
        return 0;
    case KEY_BY_POSITION:
        o->buckets = cli_integer("--by-position", text, 0, EVAL_MAX_BUCKETS);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *text, struct argp_state *state) {
    eval_options *o = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (o->model.path) return ARGP_ERR_UNKNOWN;
        o->model.path = text;
        return 0;
    case KEY_CONTEXTS:
        set_contexts(o, text);
        return 0;
    case KEY_METHODS:
        set_methods(o, text);
        return 0;
    case KEY_LENGTH_POLICY:
        set_policies(o, text);
        return 0;
    case KEY_PROTOCOL:
        o->protocol = (gyre_eval_protocol)cli_choice("--protocol", text, eval_protocol_names, 3);
        return 0;
    case KEY_FIRST:
        o->first = 1;
        return 0;
    case KEY_CACHE:
        o->cache = cache_types[cli_choice("--cache", text, cache_names, CACHES)];
        return 0;
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
    default:
        return parse_figures(o, key, text) == 0 ? 0 : model_option(&o->model, key, text);
    }
}

/* What needs no model to be known as wrong. */
static void check_options(const eval_options *o) {
    model_options_check(&o->model, 1);
    if (o->model.ids && o->passkey) cli_usage_error("--passkey: hides keys among bytes; it needs --text");
    if (o->betas.fast < o->betas.slow)
        cli_usage_error("--beta-fast: %g is below --beta-slow %g", o->betas.fast, o->betas.slow);
    if (o->stride && o->protocol == GYRE_EVAL_PROTOCOL_TRUNCATE)
        cli_usage_error("--stride: the windows of --protocol truncate lie side by side");
    if (o->contexts_count && o->stride > o->contexts[0])
        cli_usage_error("--stride: %lld is above the shortest context %lld", (long long)o->stride,
                        (long long)o->contexts[0]);
    if (o->contexts_count && o->buckets > o->contexts[0])
        cli_usage_error("--by-position: %lld shares of the shortest context %lld", (long long)o->buckets,
                        (long long)o->contexts[0]);
    if (o->passkey && o->cache != GYRE_DTYPE_F32)
        cli_usage_error("--cache: keys are asked for with a cache of f32 alone; see gyre passkey");
    if (o->first && !o->windows) cli_usage_error("--first: of how many? It needs --windows");
    if (o->resume && !o->journal) cli_usage_error("--resume: needs the --journal to go on from");
    if (o->json_lines && o->common.json) cli_usage_error("--json-lines: contradicts --json");
    if (o->json_lines && o->common.output)
        cli_usage_error("--json-lines: come one by one on standard output; not with --output");
}

void eval_options_read(int argc, char **argv, eval_options *o) {
    const struct argp argp = {.options = option_table, .parser = parse_option, .args_doc = "MODEL", .doc = documentation};
    *o = (eval_options){.protocol = GYRE_EVAL_PROTOCOL_SLIDING, .betas = {32, 1}, .buckets = NOT_GIVEN};
    model_options_begin(&o->model, argc);
    cli_parse(&argp, CLI_THREADS | CLI_JSON | CLI_OUTPUT, argc, argv, &o->common);
    if (!o->methods) set_methods(o, "none");
    if (o->buckets == NOT_GIVEN) {
        o->buckets = o->report ? REPORT_BUCKETS : 0;
        if (o->contexts_count && o->buckets > o->contexts[0]) o->buckets = o->contexts[0];
    }
    check_options(o);
}

void eval_options_free(eval_options *o) {
    model_options_free(&o->model);
    free(o->contexts);
    free(o->methods);
}
