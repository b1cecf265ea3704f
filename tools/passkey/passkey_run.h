/* passkey_run.h: asks a model for hidden keys, with trials in parallel.
 *
 * Prompts of one length are equal up to their needles.  Each worker goes from the deepest needle to the shallowest and keeps
 * the cached tokens before it.  Over evenly spread depths, half of all tokens are never read again. */
#ifndef GYRE_TOOLS_PASSKEY_RUN_H
#define GYRE_TOOLS_PASSKEY_RUN_H
#include "tools/passkey/passkey_prompt.h"

enum { PASSKEY_OUTPUT_SIZE = 160 };

typedef struct passkey_trial {
    int key, right;
    int64_t tokens; /* of the prompt */
    double depth;   /* the actual depth of the needle: fraction of the filler before it */
    char answer[PASSKEY_OUTPUT_SIZE], output[PASSKEY_OUTPUT_SIZE]; /* cut to the size; valid UTF-8 */
} passkey_trial;

/* The trials at one depth. */
typedef struct passkey_cell {
    double depth;
    int done;              /* 1: measured; set when all trials are done */
    passkey_trial *trials; /* [passkey_job.trials] */
} passkey_cell;

/* A model under one encoding, at one length. */
typedef struct passkey_job {
    const gyre_model *model;
    const gyre_encoding *encoding; /* NULL = the model's own */
    const passkey_template *template;
    gyre_dtype cache;
    int unchunked_prefill; /* 1: read each prompt at once, because each read has its own length in use
                              (GYRE_LENGTH_POLICY_PREFIX) */
    int contains;          /* 1: the answer may be anywhere in the generated text */
    uint64_t seed;
    int64_t trials;      /* at each depth */
    passkey_cell *cells; /* [cells_count] */
    int64_t cells_count;
    /* Called for each cell, in the order of the list, when it and all cells before it are done; or NULL. */
    gyre_status (*report)(void *ctx, const passkey_cell *cell, gyre_error *err);
    void (*progress)(void *ctx, int64_t done, int64_t all); /* tokens, as in gyre_eval_options; or NULL */
    void *ctx, *progress_ctx;
    const gyre_team *team; /* processes that share the trials; NULL = this one runs all */
    int64_t read;          /* output: total tokens read by this process, of prompts and answers */
} passkey_job;

/* Runs the trials of all cells that are not done.  The result does not depend on exec.  Errors: EINVAL, ENOMEM, ERANGE (the
 * encoding ends before the length does), those of report. */
gyre_status passkey_run(passkey_job *job, const gyre_exec *exec, gyre_error *err);

#endif
