/* passkey_run.h: asking a model for hidden keys, trials in parallel.
 *
 * Prompts of one length are alike up to their needles.  Each worker goes from the deepest needle to the shallowest and keeps
 * what it has read before it: half the tokens, over all depths, are never read again. */
#ifndef GYRE_TOOLS_PASSKEY_RUN_H
#define GYRE_TOOLS_PASSKEY_RUN_H
#include "tools/passkey/passkey_prompt.h"

enum { PASSKEY_OUTPUT_SIZE = 160 };

typedef struct passkey_trial {
    int key, right;
    int64_t tokens; /* of the prompt */
    double depth;   /* where the needle really stands: share of the filler before it */
    char answer[PASSKEY_OUTPUT_SIZE], output[PASSKEY_OUTPUT_SIZE]; /* as much as there is room for; valid UTF-8 */
} passkey_trial;

/* Trials at one depth. */
typedef struct passkey_cell {
    double depth;
    int done;              /* 1: nothing to do, it was measured before; set once all trials are */
    passkey_trial *trials; /* [passkey_job.trials] */
} passkey_cell;

/* A model, one way to see its positions, one length. */
typedef struct passkey_job {
    const gyre_model *model;
    const gyre_encoding *encoding; /* NULL = the model's */
    const passkey_template *template;
    gyre_dtype cache;
    int unchunked_prefill; /* 1: each read has a length in use of its own (GYRE_LENGTH_POLICY_PREFIX): prompts are read at
                              once */
    int contains;          /* 1: the answer may stand anywhere in what is said */
    uint64_t seed;
    int64_t trials;      /* at each depth */
    passkey_cell *cells; /* [cells_count] */
    int64_t cells_count;
    /* Called for each cell in the order of the list as soon as it and those before it are done; or NULL. */
    gyre_status (*report)(void *ctx, const passkey_cell *cell, gyre_error *err);
    void (*progress)(void *ctx, int64_t done, int64_t all); /* tokens, as in gyre_eval_options; or NULL */
    void *ctx, *progress_ctx;
    int64_t read; /* out: tokens that were read in all, of prompts and answers */
} passkey_job;

/* Fills in the trials of all cells that are not done; the same whatever exec is.  Errors: EINVAL, ENOMEM, ERANGE (the
 * encoding ends before the length does), those of report. */
gyre_status passkey_run(passkey_job *job, const gyre_exec *exec, gyre_error *err);

#endif
