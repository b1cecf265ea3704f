/* cmd_bench.c: gyre bench: benchmarks on this machine, each beside a reference measured in the same run. */
#include "tools/bench/bench.h"
#include "tools/subcommands.h"
#include <stdlib.h>
#include <string.h>

enum {
    KEY_CONTEXT = CLI_FIRST_KEY,
    KEY_BATCH,
    KEY_ENCODING,
    KEY_TOKENS,
    KEY_HEADS,
    KEY_HEAD_DIM,
    KEY_SCHEMES,
    KEY_GRADIENT,
    KEY_ONLY,
    KEY_MEMORY,
    KEY_QUICK,
    KEY_LAYERS,
    KEY_VOCAB,
    KEY_ROUNDS
};

/* Options that only some benchmarks have: those of one benchmark, and the choice of cases. */
typedef enum option_group { GROUP_TRAIN, GROUP_ENCODINGS, GROUP_ATTENTION, GROUP_MODEL, GROUP_CASES, GROUPS } option_group;

static const struct argp_option OPTIONS[] = {
    {NULL, 0, NULL, 0, "Of all:", 1},
    {"rounds", KEY_ROUNDS, "N", 0, "number of rounds; medians are printed (default: 7)", 1},
    {NULL, 0, NULL, 0, "Of encodings:", 2},
    {"tokens", KEY_TOKENS, "LIST", 0, "input lengths (default: 512,2048,8192)", 2},
    {"heads", KEY_HEADS, "N", 0, "number of heads (default: 12)", 2},
    {"head-dim", KEY_HEAD_DIM, "N", 0, "channels per head (default: 64)", 2},
    {"schemes", KEY_SCHEMES, "LIST", 0,
     "schemes or kinds, such as alibi-causal,deberta,rope-table; a wrong name lists them (default: all)", 2},
    {"gradient", KEY_GRADIENT, NULL, 0, "measure the gradient, to the inputs and the tables, instead of the forward call",
     2},
    {NULL, 0, NULL, 0, "Of attention, latents and products:", 3},
    {"only", KEY_ONLY, "LIST", 0,
     "cases, or beginnings of their names: prefill-512,decode or nt-512,row (default: all but memory)", 3},
    {"quick", KEY_QUICK, NULL, 0, "three rounds, and no attention over more than 4096 tokens: ends in under two minutes", 3},
    {"memory", KEY_MEMORY, NULL, 0,
     "attention: also measure the extra memory of a prefill of 65536 tokens, which takes minutes", 3},
    {NULL, 0, NULL, 0, "Of train:", 4},
    {"encoding", KEY_ENCODING, "KIND", 0, "any encoding of gyre train; a wrong name lists them (default: rope)", 4},
    {"context", KEY_CONTEXT, "N", 0, "tokens per sequence (default: 256)", 4},
    {"batch", KEY_BATCH, "N", 0, "sequences per step (default: 8)", 4},
    {NULL, 0, NULL, 0, "Of model:", 5},
    {"layers", KEY_LAYERS, "N", 0, "number of layers (default: 12)", 5},
    {"vocab", KEY_VOCAB, "N", 0, "size of the vocabulary (default: 32000)", 5},
    {0}};

/* What the parser fills in. */
typedef struct bench_arguments {
    bench_options options;
    const char *given[GROUPS]; /* the last option given that only the benchmark of the group has; NULL = none */
} bench_arguments;

static error_t parse_train(int key, char *arg, bench_arguments *a) {
    struct bench_train_options *o = &a->options.train;
    const char **given = &a->given[GROUP_TRAIN];
    switch (key) {
    case KEY_ENCODING:
        *given = "--encoding";
        o->encoding = variant_option(arg);
        return 0;
    case KEY_CONTEXT:
        o->context = cli_integer(*given = "--context", arg, 16, 1 << 16);
        return 0;
    case KEY_BATCH:
        o->batch = cli_integer(*given = "--batch", arg, 1, 1 << 12);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_encodings(int key, char *arg, bench_arguments *a) {
    struct bench_encodings_options *o = &a->options.encodings;
    const char **given = &a->given[GROUP_ENCODINGS];
    switch (key) {
    case KEY_TOKENS:
        o->tokens_count = cli_integers(*given = "--tokens", arg, 2, 1 << 17, &o->tokens);
        return 0;
    case KEY_HEADS:
        o->heads = cli_integer(*given = "--heads", arg, 1, 1 << 10);
        return 0;
    case KEY_HEAD_DIM:
        o->head_dim = cli_integer(*given = "--head-dim", arg, 1, 1 << 10);
        return 0;
    case KEY_SCHEMES:
        *given = "--schemes";
        o->schemes = arg;
        return 0;
    case KEY_GRADIENT:
        *given = "--gradient";
        o->gradient = 1;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    bench_arguments *a = state->input;
    bench_options *o = &a->options;
    switch (key) {
    case KEY_ROUNDS:
        o->rounds = cli_integer("--rounds", arg, 1, BENCH_MAX_ROUNDS);
        return 0;
    case KEY_ONLY:
        a->given[GROUP_CASES] = "--only";
        o->only = arg;
        return 0;
    case KEY_MEMORY:
        a->given[GROUP_ATTENTION] = "--memory";
        o->attention.memory = 1;
        return 0;
    case KEY_QUICK:
        a->given[GROUP_CASES] = "--quick";
        o->quick = 1;
        return 0;
    case KEY_LAYERS:
        o->model.layers = cli_integer(a->given[GROUP_MODEL] = "--layers", arg, 1, 1 << 7);
        return 0;
    case KEY_VOCAB:
        o->model.vocab = cli_integer(a->given[GROUP_MODEL] = "--vocab", arg, 2, 1 << 18);
        return 0;
    case ARGP_KEY_ARG:
        if (o->benchmark_name) cli_usage_error("%s: one benchmark at a time", arg);
        o->benchmark_name = arg;
        return 0;
    default:
        return parse_train(key, arg, a) == 0 ? 0 : parse_encodings(key, arg, a);
    }
}

typedef struct benchmark {
    const char *name;
    int (*run)(const bench_options *options);
    option_group group; /* of its own options */
    int cases;          /* 1: has the options of GROUP_CASES */
} benchmark;
static const benchmark benchmarks[] = {{"rotate", bench_rotate, GROUPS, 0},
                                       {"angles", bench_angles, GROUPS, 0},
                                       {"add", bench_add, GROUPS, 0},
                                       {"encodings", bench_encodings, GROUP_ENCODINGS, 0},
                                       {"attention", bench_attention, GROUP_ATTENTION, 1},
                                       {"cache", bench_cache, GROUPS, 0},
                                       {"latents", bench_latents, GROUPS, 1},
                                       {"products", bench_products, GROUPS, 1},
                                       {"train", bench_train, GROUP_TRAIN, 0},
                                       {"model", bench_model, GROUP_MODEL, 0}};
enum { BENCHMARKS = sizeof benchmarks / sizeof *benchmarks };
#define BENCHMARK_NAMES "rotate, angles, add, encodings, attention, cache, latents, products, train, model"

static const char DOC[] =
    "Measures what positions cost attention, or the speed of training, on this machine."
    "\vrotate: queries rotated in place, for every data type and layout of pairs, 1 to 4096 tokens, against a "
    "multiplication of "
    "the same bytes by a constant: medians, and the median over rounds of their ratio.\n\n"
    "angles: cos and sin of 131072 positions x 64 frequencies, exact and as PyTorch computes them.\n\n"
    "add: position embeddings added at the input in place, 4096 channels.\n\n"
    "encodings: attention with each scheme, at batch 1, alternating with attention without positions: median milliseconds "
    "and "
    "the median over rounds of their ratio; the scratch memory, and the growth of the resident memory of a process during "
    "the "
    "call (the system counts late, by up to some hundred KiB).  Goals are for 2048 tokens in 12 heads of 64.  With --json "
    "one "
    "line for each row.\n\n"
    "attention: prefill, decoding, gradients, length policies and the fixed order in 32 query heads of 128, 8 key heads, on "
    "one thread and on "
    "two, against references of the same rounds: the arithmetic peak and the rate of reading the same number of "
    "bytes.  Slow cases have fewer rounds, at least 3; everything takes about ten minutes, "
    "with "
    "--quick under two.  A line on stderr says how far it is.  With --json one line for each row.\n\n"
    "cache: each call of a cache of 4096 tokens, 8 key heads of 128, and attention of one query over it, before and after a "
    "shift; save and load under TMPDIR, else /tmp.\n\n"
    "latents: decoding over a cache of 4096 latents (multi-head latent attention, absorbed) in 16 and 128 heads, against "
    "reading each latent once, the arithmetic peak, and the plain form over a cache of the keys and values of every head: "
    "least processor times of the rounds.  With --json one line for each row.\n\n"
    "products: the matrix products of models.  nt-ROWS-OUTxIN: of ROWS tokens with a matrix of OUT rows of IN weights, on "
    "one thread and on two; nn, tn: its gradients for inputs and for weights in training, on one; against the arithmetic "
    "peak.  row-TYPE: one token with 128 MiB of weights of a type, against reading them and against f32: of saved is the "
    "speed relative to f32 over the bytes saved, 1 if time falls with the bytes.  With --json one line for each row.\n\n"
    "train: tokens and floating-point operations per second of the lab's trainer, against the arithmetic peak.\n\n"
    "model: a llama of a hundred million parameters, written to a temporary folder in f32 and in bf16 (600 MB, removed as "
    "soon as it is mapped), on one thread and on two: a prefill of 512 tokens against the arithmetic peak; "
    "decoding a "
    "token against reading the same number of bytes; an evaluation against the forward pass of its windows.  Goals are for "
    "the "
    "full model.  With --json one line for each row.\n\n"
    "Nothing else should run at the same time.\n\n"
    "Examples:\n"
    "  gyre bench rotate\n"
    "  gyre bench encodings --threads 1\n"
    "  gyre bench encodings --tokens 2k --schemes alibi,deberta --rounds 15\n"
    "  gyre bench encodings --tokens 512 --gradient --json\n"
    "  gyre bench attention --quick\n"
    "  gyre bench attention --only prefill-512,decode --threads 1\n"
    "  gyre bench products --only nt-512,row-q8_0\n"
    "  gyre bench train --rounds 9\n"
    "  gyre bench model --rounds 9 --threads 1\n";

int cmd_bench(int argc, char **argv) {
    static const struct argp ARGP = {
        OPTIONS, parse, "rotate|angles|add|encodings|attention|cache|latents|products|train|model", DOC, NULL, NULL, NULL};
    bench_arguments a = {.options = {.rounds = 7,
                                     .train = {.context = 256, .batch = 8, .encoding = variant_option("rope")},
                                     .model = {BENCH_MODEL_LAYERS, BENCH_MODEL_VOCAB},
                                     .encodings = {.heads = BENCH_GOAL_HEADS, .head_dim = BENCH_GOAL_CHANNELS}}};
    cli_parse(&ARGP, CLI_THREADS | CLI_JSON, argc, argv, &a.options.common);
    const char *what = a.options.benchmark_name;
    const benchmark *chosen = NULL;
    for (int i = 0; what && i < BENCHMARKS; i++)
        if (strcmp(benchmarks[i].name, what) == 0) chosen = &benchmarks[i];
    if (!chosen) cli_usage_error("%s: no such benchmark; known are: " BENCHMARK_NAMES, what ? what : "benchmark");
    for (int g = 0; g < GROUPS; g++)
        if (a.given[g] && !((option_group)g == GROUP_CASES ? chosen->cases : (option_group)g == chosen->group))
            cli_usage_error("%s: not an option of gyre bench %s", a.given[g], what);
    const int status = chosen->run(&a.options);
    free(a.options.encodings.tokens);
    return status;
}
