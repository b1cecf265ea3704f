/* bench.h: what the benchmarks of gyre bench share. */
#ifndef GYRE_TOOLS_BENCH_H
#define GYRE_TOOLS_BENCH_H
#include "tools/cli/cli.h"
#include "tools/common/variants.h"

enum { BENCH_MAX_ROUNDS = 99, BENCH_MAX_SCHEMES = 64 };

typedef struct bench_options {
    cli_options common;
    const char *benchmark_name;
    int64_t rounds;
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
        const char *only; /* a comma list of cases; NULL = all but that of memory */
        int memory;
    } attention;
    struct bench_model_options {
        int64_t layers, vocab;
    } model;
} bench_options;
enum { BENCH_MODEL_LAYERS = 12, BENCH_MODEL_VOCAB = 32000 }; /* about a hundred million parameters, for which goals are */

/* One benchmark each.  out = the exit status. */
int bench_train(const bench_options *options);
int bench_encodings(const bench_options *options);
int bench_attention(const bench_options *options);
int bench_rotate(const bench_options *options);
int bench_angles(const bench_options *options);
int bench_add(const bench_options *options);
int bench_cache(const bench_options *options);
int bench_model(const bench_options *options);

/* -- measuring -- */
double bench_seconds(void); /* of a clock that only rises */
/* Sorts values; out = the middle one, the upper of two. */
double bench_median(double *values, int64_t n);
/* out = the most bytes by which the resident memory of a process grows over work(arg), as the system counts it page by page:
 * whatever was allocated, and however, nothing escapes.  Both run in a child, prepare first: what that leaves counts as
 * there before, so it should touch the code that work runs.  -1: one of them failed, or the system does not tell.  Call it
 * while the process has one thread. */
int64_t bench_peak_rss_growth(int (*prepare)(void *arg), int (*work)(void *arg), void *arg);

/* -- the schemes compared -- */
typedef struct bench_scheme {
    const char *name;
    gyre_kind kind;
    int causal;  /* and so is the attention without positions beside it */
    double goal; /* times of it, forward, at BENCH_GOAL_TOKENS tokens in 12 heads of 64 channels; 0 = none set */
    /* Sets what the papers or the checkpoints set for an input of so many tokens.  NULL = gyre_config_suggest says it
     * all. */
    void (*configure)(gyre_config *config, int64_t tokens);
} bench_scheme;
enum { BENCH_GOAL_TOKENS = 2048, BENCH_GOAL_HEADS = 12, BENCH_GOAL_CHANNELS = 64 };

/* Every kind of this library in its usual forms; list: names of schemes or of kinds at commas, NULL or "all" = each.  A name
 * that is none ends the program.  out = how many. */
int bench_choose_schemes(const char *list, bench_scheme out[BENCH_MAX_SCHEMES]);

/* -- attention with one of them -- */
typedef struct bench_shape {
    int64_t tokens, heads, head_dim;
    int gradient; /* 1 = the gradient call is what is measured */
} bench_shape;

/* What every call of a shape reads and writes; random, and the same for all schemes. */
typedef struct bench_data {
    bench_shape shape;
    float *q, *k, *v, *dout, *dq, *dk, *dv, *x; /* the gradients NULL where none is measured */
} bench_data;
gyre_status bench_data_create(bench_data *out, const bench_shape *shape, gyre_error *err);
void bench_data_free(bench_data *data);

enum { BENCH_TABLES = GYRE_TABLE_POSITION_BIAS + 1 };
typedef struct bench_call {
    const char *name;
    gyre_encoding *encoding; /* NULL = attention without positions */
    gyre_tables tables;
    gyre_table_gradients gradients;
    gyre_attention_args args;
    gyre_cview dout;
    gyre_view dqkv[3], x; /* x: what a scheme at the input adds to, [1, tokens, 1, heads head_dim]; data NULL for others */
    int gradient;
    float *out, *lse, *table[BENCH_TABLES], *dtable[BENCH_TABLES];
} bench_call;
/* scheme NULL: without positions, causal as told.  The call borrows data. */
gyre_status bench_call_create(bench_call *out, const bench_scheme *scheme, int causal, const bench_data *data,
                              gyre_error *err);
void bench_call_free(bench_call *call);
/* Whether a call of the scheme can be created, but for memory; err names the scheme. */
gyre_status bench_scheme_check(const bench_scheme *scheme, const bench_shape *shape, gyre_error *err);
/* out = the same call over the first tokens alone. */
bench_call bench_call_shortened(const bench_call *call, int64_t tokens);
size_t bench_call_scratch(const bench_call *call, const gyre_exec *exec);
/* The forward or the gradient, as the shape says: at the input where the scheme acts there, and in attention. */
gyre_status bench_call_run(const bench_call *call, void *scratch, size_t bytes, const gyre_exec *exec);
/* Before a gradient is measured: the forward that it goes back from.  Nothing to do for a forward. */
gyre_status bench_call_forward(const bench_call *call, const gyre_exec *exec, gyre_error *err);

#endif
