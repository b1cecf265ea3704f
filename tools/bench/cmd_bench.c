/* cmd_bench.c: gyre bench: benchmarks on this machine, each beside a reference measured in the same run. */
#include "tools/bench/bench_shapes.h"
#include "tools/subcommands.h"
#include <stdlib.h>
#include <string.h>

/* Options that only some benchmarks have: those of one benchmark, and the choice of cases (cli_option.of). */
enum { OF_TRAIN = 1, OF_ENCODINGS = 2, OF_ATTENTION = 4, OF_MODEL = 8, OF_CASES = 16, OF_LENGTHS = 32, OF_QUICK = 64 };

static void read_tokens(const char *option, const char *text, void *at) {
    struct bench_encodings_options *o = at;
    o->tokens_count = cli_integers(option, text, 2, 1 << 17, &o->tokens);
}

#define CLI_STRUCT bench_options
static const cli_option rows[] = {
    {NULL, NULL, "Of all:", 1, CLI_NONE},
    {"rounds", "N", "number of rounds; medians of the quiet ones are printed (default: 7)", 1,
     CLI_INTEGER(rounds, 1, BENCH_MAX_ROUNDS)},
    {NULL, NULL, "Of encodings (--tokens also of model):", 2, CLI_NONE},
    {"tokens", "LIST", "input lengths (default: 512,2048,8192; of model with --shape 2048,8192,16384)", 2,
     CLI_OTHER(struct bench_encodings_options, encodings, read_tokens), .of = OF_LENGTHS},
    {"heads", "N", "number of heads (default: 12)", 2, CLI_INTEGER(encodings.heads, 1, 1 << 10), .of = OF_ENCODINGS},
    {"head-dim", "N", "channels per head (default: 64)", 2, CLI_INTEGER(encodings.head_dim, 1, 1 << 10), .of = OF_ENCODINGS},
    {"schemes", "LIST", "schemes or kinds, such as alibi-causal,deberta,rope-table; a wrong name lists them (default: all)",
     2, CLI_TEXT(encodings.schemes), .of = OF_ENCODINGS},
    {"gradient", NULL, "measure the gradient, to the inputs and the tables, instead of the forward call", 2,
     CLI_FLAG(encodings.gradient), .of = OF_ENCODINGS},
    {NULL, NULL, "Of attention, latents, products and growth:", 3, CLI_NONE},
    {"only", "LIST", "cases, or beginnings of their names: prefill-512,decode or nt-512,row (default: all but memory)", 3,
     CLI_TEXT(only), .of = OF_CASES},
    {"quick", NULL, "not growth: three rounds, and no attention over more than 4096 tokens: ends in under two minutes", 3,
     CLI_FLAG(quick), .of = OF_QUICK},
    {"memory", NULL, "attention: also measure the extra memory of a prefill of 65536 tokens, which takes minutes", 3,
     CLI_FLAG(attention.memory), .of = OF_ATTENTION},
    {NULL, NULL, "Of train:", 4, CLI_NONE},
    {"encoding", "KIND", "any encoding of gyre train; a wrong name lists them (default: rope)", 4,
     CLI_OTHER(variant, train.encoding, variant_read), .of = OF_TRAIN},
    {"context", "N", "tokens per sequence (default: 256)", 4, CLI_INTEGER(train.context, 16, 1 << 16), .of = OF_TRAIN},
    {"batch", "N", "sequences per step (default: 8)", 4, CLI_INTEGER(train.batch, 1, 1 << 12), .of = OF_TRAIN},
    {NULL, NULL, "Of model:", 5, CLI_NONE},
    {"shape", "NAME", "a prefill and decoding at long lengths, and where their time goes: " BENCH_SHAPE_NAMES, 5,
     CLI_TEXT(model.shape), .of = OF_MODEL},
    {"layers", "N", "number of layers (default: 12, or the shape's)", 5, CLI_INTEGER(model.layers, 1, 1 << 7),
     .of = OF_MODEL},
    {"vocab", "N", "size of the vocabulary (default: 32000, or the shape's)", 5, CLI_INTEGER(model.vocab, 2, 1 << 18),
     .of = OF_MODEL},
    {"products", "f32|bf16",
     "bf16: only the model in bf16, whose products round what they multiply to bf16; the error of its logits is printed "
     "(default: f32)",
     5, CLI_CHOICE(gyre_products, model.products, GYRE_PRODUCTS_F32), .of = OF_MODEL, .excludes = "shape",
     .why = "shapes are models in f16"},
    {0}};

static int read_argument(void *options, char *text) {
    bench_options *o = options;
    if (o->benchmark_name) cli_usage_error("%s: one benchmark at a time", text);
    o->benchmark_name = text;
    return 0;
}

typedef struct benchmark {
    const char *name;
    int (*run)(const bench_options *options);
    unsigned options; /* OF_... that it has */
} benchmark;
static const benchmark benchmarks[] = {{"rotate", bench_rotate, 0},
                                       {"angles", bench_angles, 0},
                                       {"add", bench_add, 0},
                                       {"encodings", bench_encodings, OF_ENCODINGS | OF_LENGTHS},
                                       {"attention", bench_attention, OF_ATTENTION | OF_CASES | OF_QUICK},
                                       {"cache", bench_cache, 0},
                                       {"call", bench_small_calls, 0},
                                       {"latents", bench_latents, OF_CASES | OF_QUICK},
                                       {"products", bench_products, OF_CASES | OF_QUICK},
                                       {"train", bench_train, OF_TRAIN},
                                       {"model", bench_model, OF_MODEL | OF_LENGTHS},
                                       {"growth", bench_growth, OF_CASES}};
enum { BENCHMARKS = sizeof benchmarks / sizeof *benchmarks };
#define BENCHMARK_NAMES "rotate, angles, add, encodings, attention, cache, call, latents, products, train, model, growth"

static const char DOC[] =
    "Measures what positions cost attention, or the speed of training, on this machine."
    "\vrotate: queries rotated in place, for every data type and layout of pairs, 1 to 4096 tokens, against a "
    "multiplication of the same bytes by a constant: medians, and the median over rounds of their ratio.\n\n"
    "angles: cos and sin of 131072 positions x 64 frequencies, exact and as PyTorch computes them.\n\n"
    "add: position embeddings added at the input in place, 4096 channels.\n\n"
    "encodings: attention with each scheme, at batch 1, alternating with attention without positions: median "
    "milliseconds and the median over rounds of their ratio; the scratch memory, and the growth of the resident memory "
    "of a process during the call (the system counts late, by up to some hundred KiB).  Goals are for 2048 tokens in 12 "
    "heads of 64.\n\n"
    "attention: prefill, decoding, gradients, length policies and the fixed order in 32 query heads of 128, 8 key heads, "
    "on one thread and on two, against the arithmetic peak and the rate of reading the same bytes.  Slow cases have "
    "fewer rounds, at least 3.\n\n"
    "cache: each call of a cache of 4096 tokens, 8 key heads of 128, and attention of one query over it, before and "
    "after a shift; save and load under TMPDIR, else /tmp.\n\n"
    "call: one query of 8 heads over 1 to 1024 keys, and the rotation of one token, in heads of 8 to 256 channels: as a "
    "plain call, as a prepared one, and as a loop in plain C that is compiled for the vectors of the processor; least "
    "processor times of the rounds, and the ratio of the prepared call to the loop.\n\n"
    "latents: decoding over a cache of 4096 latents (multi-head latent attention, absorbed) in 16 and 128 heads, against "
    "reading each latent once, the arithmetic peak, and the plain form over a cache of the keys and values of every "
    "head.\n\n"
    "products: the matrix products of models.  nt-ROWS-OUTxIN: of ROWS tokens with a matrix of OUT rows of IN weights, "
    "on one thread and on two; nn, tn: its gradients for inputs and for weights in training, on one; against the "
    "arithmetic peak.  row-TYPE: one token with 128 MiB of weights of a type, against reading them and against f32: of "
    "saved is the speed relative to f32 over the bytes saved, 1 if time falls with the bytes.\n\n"
    "train: tokens and floating-point operations per second of the lab's trainer, against the arithmetic peak.\n\n"
    "model: a llama of a hundred million parameters, written to a temporary folder in f32 and in bf16 (600 MB, removed "
    "as soon as it is mapped), on one thread and on two: a prefill of 512 tokens against the arithmetic peak; decoding a "
    "token against reading the same number of bytes; an evaluation against the forward pass of its windows.  Goals are "
    "for the full model.  With --shape, one model in f16 reads one text up to each length of --tokens, and then decodes; "
    "its products, and attention of a layer with and without positions, are run alone after each pass of 512, so that "
    "the time is split.  All layers of smollm2 over 16384 tokens take three minutes on a quiet core; --layers 4 has "
    "nearly the same shares of a prefill.\n\n"
    "growth: processor time and memory of the calls of a cache, and of eval, explain and convert, at rising sizes, with "
    "fitted exponents beside those expected; DEFECT marks a larger one.\n\n"
    "Medians are over quiet rounds, and goals are judged in them alone: before, within and after such a round the core "
    "ran at least 0.85 of its usual nops a cycle, which a busy partner of a hyperthread halves, and this thread waited "
    "for a processor at most 0.02 of it.  Column quiet: quiet rounds / rounds; - where nops cannot be measured.  With "
    "--json one line for each row.  Nothing else should run at the same time.\n\n"
    "Examples:\n"
    "  gyre bench rotate\n"
    "  gyre bench encodings --threads 1\n"
    "  gyre bench encodings --tokens 2k --schemes alibi,deberta --rounds 15\n"
    "  gyre bench attention --quick\n"
    "  gyre bench attention --only prefill-512,decode --threads 1\n"
    "  gyre bench call --rounds 15\n"
    "  gyre bench products --only nt-512,row-q8_0\n"
    "  gyre bench train --rounds 9\n"
    "  gyre bench model --rounds 9 --threads 1\n"
    "  gyre bench model --shape smollm2 --threads 1\n"
    "  gyre bench growth --only cache\n";

int cmd_bench(int argc, char **argv) {
    static const cli_command command = {
        rows, CLI_THREADS | CLI_JSON, "rotate|angles|add|encodings|attention|cache|call|latents|products|train|model|growth",
        DOC,  read_argument,          0,
        NULL};
    bench_options o = {.rounds = 7,
                       .train = {.context = 256, .batch = 8},
                       .encodings = {.heads = BENCH_GOAL_HEADS, .head_dim = BENCH_GOAL_CHANNELS}};
    variant_read("--encoding", "rope", &o.train.encoding);
    cli_parse(&command, argc, argv, &o);
    const char *what = o.benchmark_name;
    const benchmark *chosen = NULL;
    for (int i = 0; what && i < BENCHMARKS; i++)
        if (strcmp(benchmarks[i].name, what) == 0) chosen = &benchmarks[i];
    if (!chosen) cli_usage_error("%s: no such benchmark; known are: " BENCHMARK_NAMES, what ? what : "benchmark");
    const cli_option *other = cli_given_of(&o.common, ~chosen->options);
    if (other) cli_usage_error("--%s: not an option of gyre bench %s", other->name, what);
    const int status = chosen->run(&o);
    free(o.encodings.tokens);
    return status;
}
