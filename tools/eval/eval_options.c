/* eval_options.c: the options of gyre eval. */
#include "tools/eval/eval.h"
#include <stdlib.h>
#include <string.h>

enum { REPORT_BUCKETS = 16, NOT_GIVEN = -1 };

const char *const eval_protocol_names[] = {[GYRE_EVAL_PROTOCOL_SLIDING] = "sliding",
                                           [GYRE_EVAL_PROTOCOL_TRUNCATE] = "truncate",
                                           [GYRE_EVAL_PROTOCOL_LAST] = "last"};

const char *const eval_products_names[] = {[GYRE_PRODUCTS_F32] = "f32", [GYRE_PRODUCTS_BF16] = "bf16"};

#define CLI_STRUCT eval_options
static const cli_option rows[] = {
    ROW_TEXT(model, 1),
    ROW_IDS(model, 1),
    ROW_AS(model.profile, 1),
    ROW_TOKENIZER(model.tokenizer, 1),
    {"contexts", "LIST", "Context lengths in tokens, rising, such as 256,512,1k; k = 1024 " DEFAULT_LENGTHS_HELP, 2,
     CLI_OTHER(length_list, contexts, length_list_read)},
    ROW_METHODS(
        method,
        "Any of " METHOD_NAMES METHOD_NUMBERS_HELP
        ". Alone, a method is scaled for every context L by max(1, L / trained length); a factor, as in ntk:4, "
        "applies to every context. dynamic:4 is transformers' dynamic NTK with a factor of 4: its base follows the length "
        "in "
        "use; dynamic-yarn is yarn with the factor of length L. linear, ntk, ntk-past, dynamic and dynamic-linear also "
        "stretch "
        "ALiBi's slopes. none is the model as its config says; the other "
        "methods replace a scaling in the config (default: none). rerope:WINDOW, leaky:FACTOR and "
        "self-extend:GROUP reduce the rotation of pairs further apart than half the trained length; dca:CHUNK and "
        "dca-paper:CHUNK count positions within chunks; clipped:PAIRS and clipped-hard:PAIRS slow or stop the last pairs. "
        "Any "
        "of " METHOD_MODIFIERS " may follow a name, as in yarn:4+resonance",
        3),
    ROW_LENGTH_POLICIES(
        method,
        "Any of declared, causal, prefix, or all of them: one row each, for methods that depend on the length in use "
        "(dynamic, dynamic-yarn, dynamic-linear, and none if the model has LongRoPE or one of those). declared: L for a "
        "whole window. "
        "causal: for each token, the tokens up to it, rounded up to 64. prefix: as in an engine that generates, the tokens "
        "before the first scored one for all of those, then for each pass of 64 tokens, up to its end (default: as the "
        "model's config says, which is declared)",
        4),
    {"protocol", "sliding|truncate|last",
     "sliding: windows of L tokens every --stride, the last stride predictions of each scored; truncate: windows side by "
     "side, every prediction scored; last: like sliding, the last 200 predictions scored (default: sliding)",
     5, CLI_CHOICE(gyre_eval_protocol, protocol, GYRE_EVAL_PROTOCOL_SLIDING)},
    {"stride", "N",
     "Tokens from one window to the next, at most the shortest context; YaRN's paper uses 256 (default: L / 2)", 6,
     CLI_INTEGER(stride, 1, CLI_MAX_TOKENS)},
    {"windows", "N", "Maximum number of windows per context, spread over the text; 0 = all (default: 0)", 6,
     CLI_INTEGER(windows, 0, CLI_MAX_TOKENS)},
    ROW_BUDGET(run.budget, "how many windows fit, and leaves out the longest contexts if three do not", 6),
    {"first", NULL, "Read the first --windows windows of a text instead of spreading them over it", 6, CLI_FLAG(first)},
    {"first-position", "N",
     "The position of the first token of every window: a score that sees only distances stays the same. A length in use is "
     "the last position + 1, as in an engine: N + L for a whole window (default: 0)",
     6, CLI_INTEGER(first_position, 0, CLI_MAX_TOKENS), .excludes = "passkey",
     .why = "keys are asked for at positions from 0"},
    ROW_BETA_FAST(method.betas.fast, "32", 4),
    ROW_BETA_SLOW(method.betas.slow, "1", 4),
    {"by-position", "N",
     "Also measure the loss of all predictions by their position in the window, in N equal parts (default: 0 = off; 16 with "
     "--report, which then shows it alone)",
     7, CLI_INTEGER(buckets, 0, EVAL_MAX_BUCKETS)},
    {"passkey", "N",
     "Also ask for keys hidden in the text, N trials or a few more per context; needs a model that reads bytes, and --text "
     "(default: 0 = off)",
     7, CLI_INTEGER(passkey, 0, 1000000), .excludes = "ids", .why = "hides keys among bytes; it needs --text"},
    ROW_CACHE(method.cache, 7),
    {"products", "f32|bf16",
     "bf16: round what is multiplied by matrices stored in bf16 to bf16 too, as other libraries do. The cost in loss is "
     "measured in one cell and printed (default: f32)",
     7, CLI_CHOICE(gyre_products, products, GYRE_PRODUCTS_F32), .excludes = "passkey",
     .why = "keys are asked for with products of f32 alone"},
    ROW_JOURNAL_OF(run.journal, "figure", 8),
    ROW_RESUME(run.resume, "files, texts", 8),
    ROW_JSON_LINES(run.json_lines, "figure", 9),
    ROW_WATCH(run.watch, "figure", 9),
    ROW_REPORT(run.report, "Also write an HTML page with figures", 9),
    {0}};

static const char documentation[] =
    "Measures how well a model predicts texts at each context length, under each method to extend its context. Every "
    "method reads the same windows. " MODEL_HELP "\v"
    "Prints perplexity per token, bits per byte (per token with --ids), and how many pairs of a head the method keeps as "
    "trained, blends, and divides by its factor at the longest context. Each text has its own rows. Several texts also have "
    "rows for all together, in which every scored prediction counts the same.\n"
    "Example: gyre eval models/rope --text /usr/share/common-licenses/GPL-3 --contexts 256,512,1k --methods "
    "none,linear,ntk,ntk:4,yarn";

/* Finds errors that do not depend on the model. */
static void check_options(const eval_options *o) {
    const int64_t shortest = o->contexts.count ? o->contexts.values[0] : INT64_MAX;
    model_options_check(&o->model, 1);
    run_options_check(&o->run, &o->common);
    if (o->stride && o->protocol == GYRE_EVAL_PROTOCOL_TRUNCATE)
        cli_usage_error("--stride: the windows of --protocol truncate lie side by side");
    if (o->stride > shortest)
        cli_usage_error("--stride: %lld is above the shortest context %lld", (long long)o->stride, (long long)shortest);
    if (o->buckets > shortest)
        cli_usage_error("--by-position: %lld shares of the shortest context %lld", (long long)o->buckets,
                        (long long)shortest);
    if (o->passkey && o->method.cache != GYRE_DTYPE_F32)
        cli_usage_error("--cache: keys are asked for with a cache of f32 alone; see gyre passkey");
    if (o->first && !o->windows) cli_usage_error("--first: of how many? It needs --windows");
}

void eval_options_read(int argc, char **argv, eval_options *o) {
    static const cli_command command = {
        rows, CLI_ALL, "MODEL", documentation, model_options_argument, offsetof(eval_options, model), NULL};
    *o = (eval_options){.protocol = GYRE_EVAL_PROTOCOL_SLIDING, .buckets = NOT_GIVEN};
    model_options_init(&o->model, argc);
    method_options_init(&o->method);
    cli_parse(&command, argc, argv, o);
    o->prints_positions = o->buckets > 0;
    if (o->buckets == NOT_GIVEN) {
        o->buckets = o->run.report ? REPORT_BUCKETS : 0;
        if (o->contexts.count && o->buckets > o->contexts.values[0]) o->buckets = o->contexts.values[0];
    }
    check_options(o);
    method_options_finish(&o->method);
}

void eval_options_free(eval_options *o) {
    model_options_free(&o->model);
    method_options_free(&o->method);
    length_list_free(&o->contexts);
}
