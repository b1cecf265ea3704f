/* generate.h: the parts of gyre generate: its options and the generated text. */
#ifndef GYRE_TOOLS_GENERATE_H
#define GYRE_TOOLS_GENERATE_H
#include "tools/chat/chat_prompt.h"
#include "tools/cli/cli.h"
#include "tools/common/run_card.h"
#include "tools/options/method_options.h"

typedef struct generate_options {
    cli_options common; /* first */
    model_options model;
    method_options method;            /* one method */
    const char *prompt, *prompt_file; /* at most one is set; neither: an empty prompt */
    int special;                      /* 1: names of added tokens in the prompt are read as those tokens */
    int chat;                         /* 1: the prompt is a question, written as the chat template does */
    const chat_form *chat_form;       /* NULL = that of the model's files */
    const char *system;               /* a message before the question; NULL = the template's own, if it has one */
    int64_t tokens;                   /* maximum to write; 0 = without end */
    int64_t context;                  /* 0 = as many as prompt and text need */
    int64_t sinks, window;            /* --stream; window 0 = none */
    gyre_sampling sampling;
    uint64_t seed;
    int ignore_end, echo;
    gyre_order order; /* of attention */
} generate_options;

typedef enum generate_stop {
    GENERATE_STOP_TOKENS,     /* --tokens were written */
    GENERATE_STOP_END,        /* the model produced its end token */
    GENERATE_STOP_CONTEXT,    /* the context is full */
    GENERATE_STOP_INTERRUPTED /* Ctrl-C */
} generate_stop;

typedef struct generation {
    generate_options options;
    model_input input;
    chat chat; /* with --chat */
    run_card card;
    gyre_pool *pool;
    gyre_exec exec;
    char *prompt; /* [prompt_bytes] */
    size_t prompt_bytes;
    int32_t *prompt_ids; /* [prompt_count] */
    int64_t prompt_count;
    gyre_encoding *encoding;
    int64_t length; /* tokens that the encoding is made for */
    gyre_context *context;
    float *logits;
    int32_t *ids; /* [count] generated tokens; only with --json */
    int64_t count, ids_capacity;
    char *text;                           /* [bytes] of the generated tokens */
    size_t bytes, text_capacity, printed; /* printed: bytes of text already printed */
    FILE *text_output;                    /* where text is printed as it is generated; NULL = nowhere */
    generate_stop stop;
    double prompt_seconds, seconds;
} generation;

/* -- generate_options.c -- */
void generate_options_read(int argc, char **argv, generate_options *o);

/* -- generate_run.c -- */
/* Opens the model, the tokenizer and a context, and tokenizes the prompt.  Errors: those of the model and the tokenizer;
 * EINVAL (the prompt does not fit). */
gyre_status generate_open(generation *g, int argc, char **argv, gyre_error *err);
/* Reads the prompt and generates. */
gyre_status generate_run(generation *g, gyre_error *err);
void generate_close(generation *g);

#endif
