/* generate.h: gyre generate in parts: what was asked for, and what a model wrote. */
#ifndef GYRE_TOOLS_GENERATE_H
#define GYRE_TOOLS_GENERATE_H
#include "tools/common/methods.h"
#include "tools/common/run_card.h"

typedef struct generate_options {
    cli_options common; /* first */
    model_options model;
    const char *prompt, *prompt_file; /* one of them, or neither: an empty prompt */
    int special;                      /* 1: names of added tokens in the prompt are those tokens */
    int64_t tokens;                   /* to write at most; 0 = without end */
    int64_t context;                  /* 0 = as many as prompt and text take */
    int64_t sinks, window;            /* --stream; window 0 = none */
    method method;
    int policy; /* a gyre_length_policy; -1 = the model's own */
    method_betas betas;
    gyre_dtype cache;
    gyre_sampling sampling;
    uint64_t seed;
    int ignore_end, echo;
} generate_options;

typedef enum generate_stop {
    GENERATE_STOP_TOKENS,     /* as many as were asked for */
    GENERATE_STOP_END,        /* the model ended the text */
    GENERATE_STOP_CONTEXT,    /* no room is left */
    GENERATE_STOP_INTERRUPTED /* Ctrl-C */
} generate_stop;

typedef struct generation {
    generate_options options;
    model_input input;
    run_card card;
    gyre_pool *pool;
    gyre_exec exec;
    char *prompt; /* its text */
    size_t prompt_bytes;
    int32_t *prompt_ids; /* [prompt_count] */
    int64_t prompt_count;
    gyre_encoding *encoding;
    int64_t length; /* tokens that it serves */
    gyre_context *context;
    float *logits;
    int32_t *ids; /* [count] that were written */
    int64_t count, ids_capacity;
    char *text;                           /* [bytes] of them */
    size_t bytes, text_capacity, printed; /* shown: bytes that were printed */
    FILE *text_output;                    /* where text goes as it comes; NULL = nowhere */
    generate_stop stop;
    double prompt_seconds, seconds;
} generation;

/* -- generate_options.c -- */
void generate_options_read(int argc, char **argv, generate_options *o);

/* -- generate_run.c -- */
/* Opens what is needed to read the prompt, then reads it and writes on.  Errors: those of the model and the tokenizer;
 * EINVAL: no room for the prompt. */
gyre_status generate_open(generation *g, int argc, char **argv, gyre_error *err);
gyre_status generate_run(generation *g, gyre_error *err);
void generate_close(generation *g);

#endif
