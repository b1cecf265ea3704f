/* extend_verdict.h: how gyre extend ends: the method it would take, what to write for each engine, and what it costs. */
#ifndef GYRE_TOOLS_EXTEND_VERDICT_H
#define GYRE_TOOLS_EXTEND_VERDICT_H
#include "tools/common/result_table.h"
#include "tools/extend/extend.h"
#include "tools/measuring/same_encoding.h"
#include "tools/options/model_options.h"
#include "tools/options/run_options.h"

/* -- what a method costs, measured: extend_cost.c -- */
/* A mean over windows of a text, in nats per token. */
typedef struct extend_mean {
    double nats, half; /* the 95 % interval is nats - half to nats + half: Student's t; half < 0 with fewer than 3 windows */
    int64_t windows;   /* 0 = not measured */
} extend_mean;

enum { EXTEND_NEAR, EXTEND_FAR, EXTEND_RANGES, EXTEND_MIN_WINDOWS = 3 /* with an interval */ };
/* One method.  over_none: its loss minus that of the unchanged model, window by window. */
typedef struct extend_loss {
    extend_mean at[EXTEND_RANGES], over_none[EXTEND_RANGES];
    char note[160]; /* why it was not measured; "" = it was */
} extend_loss;

typedef struct extend_cost_options {
    model_options model; /* texts_count 0 = nothing is measured */
    int64_t near;        /* context within the trained length; 0 = the trained length */
    int64_t windows;     /* of each text, at most */
    run_options run;     /* of its members journal, resume, budget and watch */
} extend_cost_options;

typedef struct extend_cost {
    int64_t context[EXTEND_RANGES];
    extend_loss *losses;                /* [methods], for the rows of the table */
    double *by_window[EXTEND_RANGES];   /* [methods][windows] */
    int64_t windows[EXTEND_RANGES];     /* of all texts together */
    int64_t max_windows, methods, none; /* none: the row of the unchanged model */
    int64_t vocab;                      /* of the model */
    same_rows same;                     /* rows whose cells another row measures too */
    int complete;                       /* 1: not stopped by Ctrl-C */
} extend_cost;

/* Measures every row near and far.  One row is `none`.  out = 0, or CLI_FAILED with the error printed. */
int extend_cost_measure(const extension *e, const extend_cost_options *o, const cli_options *common,
                        const extend_method *methods, int64_t count, extend_cost *out);
void extend_cost_free(extend_cost *cost); /* also of one that is zeroed */
/* out = perplexities and differences, a row for each method: extend_print_verdict.c. */
result_table extend_cost_table(const extend_method *methods, const extend_cost *cost);
/* out = the mean of row a minus row b over the windows that both read. */
extend_mean extend_cost_difference(const extend_cost *cost, int range, int64_t a, int64_t b);

/* -- what to write: extend_engines.c -- */
enum { EXTEND_TRANSFORMERS, EXTEND_VLLM, EXTEND_LLAMA_CPP, EXTEND_ENGINES, EXTEND_COMMAND = 16384, EXTEND_NOTE = 400 };
extern const char *const extend_engine_names[EXTEND_ENGINES];

/* The settings for one engine, checked by reading them as the engine does. */
typedef struct extend_advice {
    extend_support support; /* what the engine then computes; SAME is the only one with something to write */
    char why[200];          /* unless SAME */
    json_t *keys,
        *old_keys;          /* changes of config.json, null for a key to remove; old_keys: for transformers 4; NULL = none */
    char readers[160];      /* the profiles that read the keys so */
    char *command;          /* a command line; NULL = none */
    char note[EXTEND_NOTE]; /* "" = none */
} extend_advice;

/* out[EXTEND_ENGINES] = the advice for a row.  Errors: EIO, ENOMEM. */
gyre_status extend_advice_make(const extend_method *r, const extend_effect *effect, const extension *e,
                               extend_advice out[EXTEND_ENGINES], gyre_error *err);
/* *after = the model's config.json changed for the method; it stays as it is if no config.json states it.  Errors: EIO,
 * ENOMEM. */
gyre_status extend_changed_config(const extension *e, const gyre_config *config, json_t **after, gyre_error *err);
void extend_advice_free(extend_advice advice[EXTEND_ENGINES]);

/* -- the verdict: extend_verdict.c -- */
enum { EXTEND_MEASURE = 1024 };
typedef struct extend_verdict {
    int64_t method; /* the row that is recommended */
    char reason[900];
    extend_advice advice[EXTEND_ENGINES];
    char alike[EXTEND_ENGINES][200]; /* for an engine that cannot say the method: the rows that it reads alike; "" = none */
    char measure[EXTEND_MEASURE];    /* the command that measures; "" = it was measured */
    char warning[400];               /* why nothing follows from what was measured; "" = it does, or nothing was */
    extend_cost cost;                /* losses NULL = no text */
} extend_verdict;

/* Recommends a row, by its cost if that was measured, else by rules, and fills in the rest.  out->cost is given.  Errors:
 * those of extend_advice_make. */
gyre_status extend_verdict_make(const extension *e, const extend_method *methods, const extend_effect *rows, int64_t count,
                                extend_verdict *out, gyre_error *err);
/* out = the context length that the file states; 0 = none. */
int64_t extend_stated_length(const extension *e);
/* out = 1 if the model is named by a file of its config, which has no weights. */
int extend_is_config_alone(const extension *e);
/* out = the model in a command that needs its weights: as it was given, or FOLDER for a config alone. */
void extend_model_with_weights(const extension *e, char out[900]);
void extend_verdict_free(extend_verdict *verdict);

#endif
