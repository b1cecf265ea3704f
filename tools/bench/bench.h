/* bench.h: what the benchmarks of gyre bench share: options, measuring, and attention calls. */
#ifndef GYRE_TOOLS_BENCH_H
#define GYRE_TOOLS_BENCH_H
#include "tools/bench/rounds/bench_rounds.h"
#include "tools/cli/cli.h"
#include "tools/common/variants.h"

enum { BENCH_QUICK_ROUNDS = 3, BENCH_MAX_SCHEMES = 64 };

typedef struct bench_options {
    cli_options common;
    const char *benchmark_name;
    int64_t rounds;
    /* Of attention, latents, products and growth: */
    const char *only; /* a comma list of cases; NULL = all, of attention all but the memory case */
    int quick;
    struct bench_train_options {
        int64_t context, batch;
        variant encoding;
    } train;
    struct bench_encodings_options {
        int64_t *tokens, tokens_count, heads, head_dim;
        const char *schemes; /* a comma list; NULL = all */
        int gradient;
    } encodings;
    struct bench_attention_options {
        int memory;
    } attention;
    struct bench_model_options {
        const char *shape;      /* NULL = the usual measurements of a llama of a hundred million parameters */
        int64_t layers, vocab;  /* 0 = those of the shape; goals hold for these only */
        gyre_products products; /* with BF16, only the model in bf16 is measured */
    } model;
} bench_options;

/* One function per benchmark.  out = the exit status. */
int bench_train(const bench_options *options);
int bench_encodings(const bench_options *options);
int bench_attention(const bench_options *options);
int bench_rotate(const bench_options *options);
int bench_angles(const bench_options *options);
int bench_add(const bench_options *options);
int bench_cache(const bench_options *options);
int bench_small_calls(const bench_options *options);
int bench_latents(const bench_options *options);
int bench_model(const bench_options *options);
int bench_products(const bench_options *options);
int bench_growth(const bench_options *options);

/* -- measuring -- */
/* out = the largest growth of resident memory during work(arg), in bytes.  The system counts pages, so every kind of
 * allocation is included.  prepare(arg) and work(arg) run in a child process.  Memory that prepare leaves behind does not
 * count, so prepare should touch the code that work runs.  -1: one of them failed, or the system does not provide the
 * figure.  Call it while the process has one thread. */
int64_t bench_peak_rss_growth(int (*prepare)(void *arg), int (*work)(void *arg), void *arg);
/* out = pages that were never touched, which malloc cannot guarantee; NULL if there are none.  Released with munmap. */
void *bench_map_untouched(size_t bytes);
/* out = memory in huge pages if the system has them, so that all measurements use the same page size.  Released with free().
 * NULL = out of memory. */
void *bench_alloc_huge(size_t bytes);
extern const gyre_alloc bench_huge_alloc; /* takes such memory */
/* out = a random number 0 <= x < 1 in steps of 2^-24, the same on every machine.  Advances *seed. */
double bench_random(uint64_t *seed);

/* -- a result: a JSON object, which is a line of --json or a row of a table -- */
/* A column of the table, and the key whose value it shows: a text; a number, times `unit` unless that is 0; for a
 * boolean the key or "none"; "-" for null. */
typedef struct bench_column {
    const char *key, *title;
    int width, decimals; /* width: < 0 = to the left; decimals: BENCH_EXPONENT = as 1.2e-03 */
    double unit;
} bench_column;
enum { BENCH_EXPONENT = -1 };
/* Adds the column of quiet rounds.  end: a last title, which stands over the notes of rows; NULL = none. */
void bench_print_titles(const bench_column *columns, int count, const char *end);
/* Prints the row, with its quiet rounds, and releases it.  note: at the end of a row of the table; NULL = none.  out = the
 * exit status. */
int bench_print_row(const bench_options *o, json_t *row, const bench_quiet *quiet, const bench_column *columns, int count,
                    const char *note);
/* Says how many rounds were quiet, as the column of a table or as a sentence. */
const char *bench_quiet_text(const bench_quiet *quiet, char out[32]);
/* A goal for the number of a row that `of` names: at most `value` for "ratio", else at least.  of NULL: null. */
json_t *bench_goal(const char *of, double value);
/* out = what is said after a goal: nothing, that it was missed, or that no round was quiet, so that it is not judged. */
const char *bench_goal_verdict(const bench_quiet *quiet, int is_reached);
/* out = the goal of a row as a note: "of_peak >= 0.80", and the verdict. */
const char *bench_goal_note(const json_t *row, const bench_quiet *quiet, char out[80]);
/* out = 0, or CLI_FAILED with the error printed, if standard output cannot be written. */
int bench_flush(void);

/* Pools of --threads threads, or of one and of two. */
enum { BENCH_MAX_EXECS = 2 };
typedef struct bench_execs {
    int count;
    gyre_pool *pools[BENCH_MAX_EXECS];
    gyre_exec of[BENCH_MAX_EXECS];
} bench_execs;
/* threads 0: one and two.  On failure nothing is allocated. */
gyre_status bench_execs_open(bench_execs *execs, int threads, gyre_error *err);
void bench_execs_close(bench_execs *execs);

/* -- the schemes compared -- */
/* What is combined with a scheme: forget gates; positions that queries count, with BENCH_POSITIONS embeddings; a Fourier
 * series for each pair and head; polar coordinates with phases for each head; frequencies for each head; or a network
 * that adapts its bias, of BENCH_NETWORK_WIDTH hidden units. */
typedef enum bench_extra {
    BENCH_NO_EXTRA,
    BENCH_GATES,
    BENCH_CONTEXTUAL,
    BENCH_FOURIER,
    BENCH_POLAR,
    BENCH_FREQUENCIES,
    BENCH_ADAPTIVE
} bench_extra;
enum { BENCH_POSITIONS = 64, BENCH_NETWORK_WIDTH = 32 };
typedef struct bench_scheme {
    const char *name, *scheme; /* gyre_kind_name */
    int causal;                /* also for the attention without positions that it is compared with */
    bench_extra extra;
    double goal; /* maximum ratio to it, forward, at BENCH_GOAL_TOKENS tokens in 12 heads of 64 channels; 0 = none */
    /* Sets what papers or checkpoints set, for an input of `tokens` tokens.  NULL = gyre_config_suggest is enough. */
    void (*configure)(gyre_config *config, int64_t tokens);
} bench_scheme;
enum { BENCH_GOAL_TOKENS = 2048, BENCH_GOAL_HEADS = 12, BENCH_GOAL_CHANNELS = 64 };

/* out[0 .. returned - 1] = the chosen schemes, out of every kind of the library in its usual forms.  list: a comma list of
 * names of schemes or kinds; NULL or "all" = all.  An unknown name is a usage error. */
int bench_choose_schemes(const char *list, bench_scheme out[BENCH_MAX_SCHEMES]);

/* -- attention with one of them -- */
typedef struct bench_shape {
    int64_t tokens, heads, head_dim;
    int gradient; /* 1: the gradient call is measured */
} bench_shape;

/* What every call of a shape reads and writes: random numbers, the same for all schemes. */
typedef struct bench_data {
    bench_shape shape;
    float *q, *k, *v, *dout, *dq, *dk, *dv, *x; /* the gradients are NULL unless measured */
} bench_data;
/* Errors: ENOMEM. */
gyre_status bench_data_create(bench_data *out, const bench_shape *shape, gyre_error *err);
void bench_data_free(bench_data *data);

enum { BENCH_TABLES = GYRE_TABLE_POSITION_BIAS + 1, BENCH_NETWORK_PARTS = 4 };
typedef struct bench_fourier bench_fourier; /* bench_fourier.c */
typedef struct bench_trained bench_trained; /* bench_trained.c */
typedef struct bench_call {
    const char *name;
    gyre_encoding *encoding; /* NULL = attention without positions */
    gyre_tables tables;
    gyre_table_gradients gradients;
    gyre_attention_args args;
    gyre_cview dout;
    gyre_view dqkv[3],
        x; /* x: the input that a scheme adds to, [1, tokens, 1, heads head_dim]; data is NULL for other schemes */
    int gradient;
    float *out, *lse, *table[BENCH_TABLES], *dtable[BENCH_TABLES];
    double *gate_sums, *dgate_sums;  /* [heads][tokens]; [2][heads][tokens]; NULL without gates */
    gyre_attention_gates gates;      /* views of gate_sums, which args of a run point to */
    gyre_view dq_gates, dk_gates;    /* of dgate_sums */
    float *embeddings, *dembeddings; /* [BENCH_POSITIONS][head_dim]; NULL without contextual positions */
    bench_fourier *series;           /* NULL without Fourier series */
    bench_trained *turns;            /* NULL without trained frequencies or polar coordinates */
    /* Weights and biases of both layers of the network, and gradients to them; NULL without one. */
    float *network[BENCH_NETWORK_PARTS], *dnetwork[BENCH_NETWORK_PARTS];
} bench_call;
/* 1: a pair of such heads makes a revolution within the tokens, and one has a series. */
int bench_fourier_fits(const bench_shape *shape);
/* Fourier series of released size for queries and keys of a shape that fits: frequencies 10000^(-2 t / head_dim) of a
 * revolution or more within the tokens.  NULL = out of memory. */
bench_fourier *bench_fourier_create(const bench_shape *shape);
void bench_fourier_free(bench_fourier *series); /* NULL is fine */
/* qk[0], qk[1] = where the queries and keys are that attention takes in place of those of args. */
void bench_fourier_turned(const bench_fourier *series, const gyre_attention_args *args, gyre_view qk[2]);
/* Computes them. */
gyre_status bench_fourier_run(const bench_fourier *series, const gyre_attention_args *args, const gyre_exec *exec);
/* dqk, on entry the gradients to what bench_fourier_run computed, become those to queries and keys of args; sums those to
 * the coefficients. */
gyre_status bench_fourier_gradient(const bench_fourier *series, const gyre_attention_args *args, const gyre_view dqk[2],
                                   const gyre_exec *exec);

/* Trained frequencies of a half layout for each head, which begin near those of RoPE; or PoPE: frequencies
 * 10000^(-i / head_dim) of all heads, phases of each head for keys.  NULL = out of memory. */
bench_trained *bench_trained_create(const bench_shape *shape, int is_polar);
void bench_trained_free(bench_trained *trained); /* NULL is fine */
/* args: the queries, keys and scale give way to those that attention takes. */
void bench_trained_turned(const bench_trained *trained, gyre_attention_args *args);
/* Computes them from the queries and keys of args. */
gyre_status bench_trained_run(const bench_trained *trained, const gyre_attention_args *args, const gyre_exec *exec);
/* out = memory for the gradient to the rotated queries (i 0) or keys (1); dqk = memory for that to the given ones. */
gyre_view bench_trained_gradient_view(const bench_trained *trained, const gyre_view *dqk, int i);
/* dqk = gradients to queries and keys of args, given those to the rotated ones; sums those to frequencies or phases. */
gyre_status bench_trained_gradient(const bench_trained *trained, const gyre_attention_args *args, const gyre_view dqk[2],
                                   const gyre_exec *exec);

/* scheme NULL: attention without positions.  The call borrows data.  Errors: ENOMEM, those of gyre_encoding_create. */
gyre_status bench_call_create(bench_call *out, const bench_scheme *scheme, int causal, const bench_data *data,
                              gyre_error *err);
void bench_call_free(bench_call *call);
/* Checks that a call of the scheme can be created, apart from memory.  err names the scheme. */
gyre_status bench_scheme_check(const bench_scheme *scheme, const bench_shape *shape, gyre_error *err);
/* out = the same call over the first `tokens` tokens only. */
bench_call bench_call_shortened(const bench_call *call, int64_t tokens);
size_t bench_call_scratch(const bench_call *call, const gyre_exec *exec);
/* Runs the forward or the gradient call, as the shape says: at the input, if the scheme acts there, and in attention. */
gyre_status bench_call_run(const bench_call *call, void *scratch, size_t bytes, const gyre_exec *exec);
/* Runs the forward call that a gradient needs.  Does nothing if the forward call is measured. */
gyre_status bench_call_forward(const bench_call *call, const gyre_exec *exec, gyre_error *err);

#endif
