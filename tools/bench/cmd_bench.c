/* cmd_bench.c: gyre bench: measurements of this machine, each beside its own measure in the same run. */
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
    KEY_LAYERS,
    KEY_VOCAB,
    KEY_ROUNDS
};

static const struct argp_option OPTIONS[] = {
    {NULL, 0, NULL, 0, "Of all:", 1},
    {"rounds", KEY_ROUNDS, "N", 0, "rounds; medians are printed (default: 7)", 1},
    {NULL, 0, NULL, 0, "Of encodings:", 2},
    {"tokens", KEY_TOKENS, "LIST", 0, "lengths of the input (default: 512,2048,8192)", 2},
    {"heads", KEY_HEADS, "N", 0, "heads (default: 12)", 2},
    {"head-dim", KEY_HEAD_DIM, "N", 0, "channels of a head (default: 64)", 2},
    {"schemes", KEY_SCHEMES, "LIST", 0,
     "schemes or kinds: alibi-causal,deberta,rope-table; a wrong name lists them (default: all)", 2},
    {"gradient", KEY_GRADIENT, NULL, 0, "measure the gradient, to the inputs and the tables, in place of the forward", 2},
    {NULL, 0, NULL, 0, "Of attention:", 3},
    {"only", KEY_ONLY, "LIST", 0, "cases, or how their names begin: prefill-512,decode (default: all but memory)", 3},
    {"memory", KEY_MEMORY, NULL, 0, "and the extra memory of a prefill of 65536 tokens, which takes minutes", 3},
    {NULL, 0, NULL, 0, "Of train:", 4},
    {"encoding", KEY_ENCODING, "KIND", 0, "any that gyre train takes; a wrong name lists them (default: rope)", 4},
    {"context", KEY_CONTEXT, "N", 0, "tokens of a sequence (default: 256)", 4},
    {"batch", KEY_BATCH, "N", 0, "sequences of a step (default: 8)", 4},
    {NULL, 0, NULL, 0, "Of model:", 5},
    {"layers", KEY_LAYERS, "N", 0, "layers (default: 12)", 5},
    {"vocab", KEY_VOCAB, "N", 0, "tokens that there are (default: 32000)", 5},
    {0}};

/* What the parser fills: the options, and the last one given that only one benchmark has. */
typedef struct bench_arguments {
    bench_options options;
    const char *of_train, *of_encodings, *of_attention, *of_model;
} bench_arguments;

static error_t parse_model(int key, char *arg, bench_arguments *a) {
    switch (key) {
    case KEY_LAYERS:
        a->options.model.layers = cli_integer(a->of_model = "--layers", arg, 1, 1 << 7);
        return 0;
    case KEY_VOCAB:
        a->options.model.vocab = cli_integer(a->of_model = "--vocab", arg, 2, 1 << 18);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_train(int key, char *arg, bench_arguments *a) {
    struct bench_train_options *o = &a->options.train;
    gyre_error err;
    switch (key) {
    case KEY_ENCODING:
        a->of_train = "--encoding";
        if (variant_find(arg, strlen(arg), &o->encoding, &err)) cli_usage_error("--encoding: %s", err.text);
        return 0;
    case KEY_CONTEXT:
        o->context = cli_integer(a->of_train = "--context", arg, 16, 1 << 16);
        return 0;
    case KEY_BATCH:
        o->batch = cli_integer(a->of_train = "--batch", arg, 1, 1 << 12);
        return 0;
    default:
        return parse_model(key, arg, a);
    }
}

static error_t parse_attention(int key, char *arg, bench_arguments *a) {
    switch (key) {
    case KEY_ONLY:
        a->of_attention = "--only";
        a->options.attention.only = arg;
        return 0;
    case KEY_MEMORY:
        a->of_attention = "--memory";
        a->options.attention.memory = 1;
        return 0;
    default:
        return parse_train(key, arg, a);
    }
}

static error_t parse_encodings(int key, char *arg, bench_arguments *a) {
    struct bench_encodings_options *o = &a->options.encodings;
    switch (key) {
    case KEY_TOKENS:
        o->tokens_count = cli_integers(a->of_encodings = "--tokens", arg, 2, 1 << 17, &o->tokens);
        return 0;
    case KEY_HEADS:
        o->heads = cli_integer(a->of_encodings = "--heads", arg, 1, 1 << 10);
        return 0;
    case KEY_HEAD_DIM:
        o->head_dim = cli_integer(a->of_encodings = "--head-dim", arg, 1, 1 << 10);
        return 0;
    case KEY_SCHEMES:
        a->of_encodings = "--schemes";
        o->schemes = arg;
        return 0;
    case KEY_GRADIENT:
        a->of_encodings = "--gradient";
        o->gradient = 1;
        return 0;
    default:
        return parse_attention(key, arg, a);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    bench_arguments *a = state->input;
    switch (key) {
    case KEY_ROUNDS:
        a->options.rounds = cli_integer("--rounds", arg, 1, BENCH_MAX_ROUNDS);
        return 0;
    case ARGP_KEY_ARG:
        if (a->options.benchmark_name) cli_usage_error("%s: one benchmark at a time", arg);
        a->options.benchmark_name = arg;
        return 0;
    default:
        return parse_encodings(key, arg, a);
    }
}

typedef struct benchmark {
    const char *name;
    int (*run)(const bench_options *options);
} benchmark;
static const benchmark benchmarks[] = {
    {"rotate", bench_rotate},       {"angles", bench_angles}, {"add", bench_add},     {"encodings", bench_encodings},
    {"attention", bench_attention}, {"cache", bench_cache},   {"train", bench_train}, {"model", bench_model}};
enum { BENCHMARKS = sizeof benchmarks / sizeof *benchmarks };
#define BENCHMARK_NAMES "rotate, angles, add, encodings, attention, cache, train, model"

static const char DOC[] =
    "Measure what positions cost attention, or the speed of training, on this machine."
    "\vrotate: queries turned in place, every type and layout of pairs, 1 to 4096 tokens, against a multiplication of the "
    "same bytes by a constant: medians, and the median of the rounds' ratios.\n\n"
    "angles: cos and sin of 131072 positions x 64 frequencies, exact and as PyTorch computes them.\n\n"
    "add: position embeddings added at the input in place, 4096 channels.\n\n"
    "encodings: attention with each scheme, at batch 1, in turn with attention without positions: milliseconds, medians, "
    "and "
    "the median of the rounds' ratios; the scratch memory it asks for, and by how much the resident memory of a process "
    "grows "
    "in the call (the system counts late: to some hundred KiB).  Goals are those for 2048 tokens in 12 heads of 64.  With "
    "--json one line for each row.\n\n"
    "attention: prefill, decoding, gradients and length policies in 32 query heads of 128, 8 key heads, on one thread and "
    "on "
    "two: of the same rounds a product of matrices by OpenBLAS, the rate of reading as many bytes, and the peak of the "
    "arithmetic.  Slow cases have fewer rounds, at least 3; all of it takes some ten minutes.  With --json one line for "
    "each "
    "row.\n\n"
    "cache: each call of a cache of 4096 tokens, 8 key heads of 128, and attention of one query over it, before and after a "
    "shift; save and load in /tmp.\n\n"
    "train: tokens and floating-point operations per second of the lab's trainer, against single-precision matrix products "
    "by OpenBLAS.\n\n"
    "model: a llama of a hundred million parameters, written to a temporary folder in f32 and in bf16 (600 MB, gone as soon "
    "as it is mapped), on one thread and on two: a prefill of 512 tokens against a product of matrices by OpenBLAS; "
    "decoding "
    "a token against reading as many bytes; an evaluation against the forward pass of its windows.  Goals are those of the "
    "whole model.  With --json one line for each row.\n\n"
    "Nothing else should run meanwhile.\n\n"
    "Examples:\n"
    "  gyre bench rotate\n"
    "  gyre bench encodings --threads 1\n"
    "  gyre bench encodings --tokens 2k --schemes alibi,deberta --rounds 15\n"
    "  gyre bench encodings --tokens 512 --gradient --json\n"
    "  gyre bench attention --only prefill-512,decode --threads 1\n"
    "  gyre bench train --rounds 9\n"
    "  gyre bench model --rounds 9 --threads 1\n";

int cmd_bench(int argc, char **argv) {
    static const struct argp ARGP = {OPTIONS, parse, "rotate|angles|add|encodings|attention|cache|train|model", DOC, NULL,
                                     NULL,    NULL};
    bench_arguments a = {.options = {.rounds = 7,
                                     .train = {.context = 256, .batch = 8, .encoding = {"rope", GYRE_KIND_ROPE}},
                                     .model = {BENCH_MODEL_LAYERS, BENCH_MODEL_VOCAB},
                                     .encodings = {.heads = BENCH_GOAL_HEADS, .head_dim = BENCH_GOAL_CHANNELS}}};
    cli_parse(&ARGP, CLI_THREADS | CLI_JSON, argc, argv, &a.options.common);
    const char *what = a.options.benchmark_name;
    const benchmark *chosen = NULL;
    for (int i = 0; what && i < BENCHMARKS; i++)
        if (strcmp(benchmarks[i].name, what) == 0) chosen = &benchmarks[i];
    if (!chosen) cli_usage_error("%s: no such benchmark; known are: " BENCHMARK_NAMES, what ? what : "benchmark");
    if (a.of_train && chosen->run != bench_train) cli_usage_error("%s: not an option of gyre bench %s", a.of_train, what);
    if (a.of_encodings && chosen->run != bench_encodings)
        cli_usage_error("%s: not an option of gyre bench %s", a.of_encodings, what);
    if (a.of_attention && chosen->run != bench_attention)
        cli_usage_error("%s: not an option of gyre bench %s", a.of_attention, what);
    if (a.of_model && chosen->run != bench_model) cli_usage_error("%s: not an option of gyre bench %s", a.of_model, what);
    const int status = chosen->run(&a.options);
    free(a.options.encodings.tokens);
    return status;
}
