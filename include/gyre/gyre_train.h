/* gyre_train.h: training a gyre_model on a text, resumable and bit-identical.
 *
 * AdamW, linear warm-up and cosine decay, gradient clipping by global norm.  A step splits its sequences into a fixed
 * number of groups and adds their gradients in a fixed order, so results do not depend on the number of threads.  The
 * conventions of gyre.h hold.  Unstable until 1.0. */
#ifndef GYRE_TRAIN_H
#define GYRE_TRAIN_H
#include "gyre/gyre_model.h"
#include "gyre/gyre_positions.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The source of the sequences of a run.  Tasks other than TEXT need no text: each sequence is a start symbol, the last of
 * the task's vocabulary, and symbols that depend only on seed, step and index.
 * PosGen (Resonance RoPE, arXiv 2403.00071, j = 1, k = 3): symbols x[0], x[1], ... below 17.  x[0] .. x[3] are random;
 * each later x[l] is the sum modulo 17 of x[l-3], x[l-2], x[l-1] and a fourth, so all positions are equally hard. */
typedef enum gyre_task {
    GYRE_TASK_TEXT,
    GYRE_TASK_POSGEN_RECURSIVE, /* the fourth is x[l-4] */
    GYRE_TASK_POSGEN_COT,       /* chain of thought: x[0] */
    GYRE_TASK_POSGEN_SEMI,      /* semi-recursive: x[floor((l - 4) / 2)], at growing distance */
    GYRE_TASK_COPY /* symbols below 32; all are repeated `distance` tokens later, counted with the start symbol */
} gyre_task;

typedef struct gyre_train_options {
    size_t size;               /* set by GYRE_INIT */
    int64_t context;           /* tokens of a training sequence; 0 = 256 */
    int64_t batch;             /* sequences of a step; 0 = 8 */
    int64_t steps;             /* of the whole run, warm-up included; 0 = 4883 */
    int64_t warmup;            /* steps of linear warm-up; 0 = none */
    double learning_rate;      /* at its peak; 0 = 4e-3 */
    double final_fraction;     /* of the peak, at the end of the cosine; 0 = down to 0 */
    double weight_decay;       /* of matrices and vectors; not of norms, biases (u and v too) and factors; 0 = none */
    double clip;               /* the norm of the gradient is clipped to it; 0 = never */
    double retrieval_fraction; /* of sequences, half with passkeys, half with copies; the others are plain text; 0 = none */
    uint64_t seed;             /* of the weights and of the sequences; 0 = the seed 0 */
    gyre_task task; /* other than TEXT: text may be NULL, retrieval_fraction is ignored, vocab is the task's or more */
    /* The positions of the tokens of a sequence, drawn for each from 0 .. position_range - 1; the symbols do not depend on
     * it.  The loss is measured at these positions, and everything that reads the model later counts from 0. */
    gyre_position_draw positions;
    int64_t position_range;  /* at least context; needed with positions other than NONE */
    gyre_model_config model; /* its size may be 0; its position.trained_length is the caller's */
} gyre_train_options;
/* Sets fields that are zero to the recipe of the bundled models: warm-up 100, final_fraction 0.1, weight_decay 0.1, clip
 * 1, retrieval_fraction 0.8, seed 1, and the defaults above, those of the model too.  Set the model's shape before the
 * call, and intended zeros after it.  Does nothing if size is not set. */
GYRE_API void gyre_train_options_suggest(gyre_train_options *options);

typedef struct gyre_trainer gyre_trainer;

/* *out = a run at step 0.  start: a model with the initial weights, or NULL for random ones; its tensors must match
 * options->model, its encoding may differ otherwise.  text is borrowed.  exec sizes the memory (NULL = one thread).
 * Errors: EINVAL (an option out of range, a text shorter than context + 1), ENOMEM, ERANGE (context past a learned
 * table). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trainer_create(gyre_trainer **out, const gyre_train_options *options,
                                                         const gyre_model *start, const gyre_text *text,
                                                         const gyre_exec *exec, gyre_error *err);
/* *out = the run saved by gyre_trainer_save, at its step.  The next steps are bit-identical to those of an uninterrupted
 * run.  Errors: as gyre_model_open; EINVAL (another text than it was trained on). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trainer_open(gyre_trainer **out, const char *folder, const gyre_text *text,
                                                       const gyre_exec *exec, gyre_error *err);
GYRE_API void gyre_trainer_free(gyre_trainer *trainer); /* NULL is fine */
/* The processes of the team share the groups of each later step, whose gradients are added in the order of one process.
 * All have the same run at the same step.  Borrowed; NULL = only this process.  More processes than groups (at most 8, a
 * divisor of batch) do not help.  Errors: EINVAL (a function of the team is NULL, an invalid rank). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trainer_set_team(gyre_trainer *trainer, const gyre_team *team, gyre_error *err);
/* One step.  *loss = weighted nats per token of its sequences before the update.
 * Errors: EINVAL (the run is complete), EFORMAT (the loss is not finite; the weights are unchanged). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trainer_step(gyre_trainer *trainer, double *loss, gyre_error *err);
/* Writes model (F32), optimiser state and options to `folder`.  If killed, the old or the new checkpoint remains,
 * complete.  Other files in a checkpoint of the same tokens, such as its tokenizer or figures, are kept. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trainer_save(const gyre_trainer *trainer, const char *folder, gyre_error *err);
/* Writes only the model, weights as F32, F16 or BF16, and a training.json that describes its training.  Not resumable. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trainer_export(const gyre_trainer *trainer, const char *folder, gyre_dtype dtype,
                                                         gyre_error *err);
/* Records the command that makes this model, for its training.json.  The first one is kept, also after a stop.  Copied;
 * bytes that are not UTF-8 become '?'. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trainer_describe(gyre_trainer *trainer, const char *command, gyre_error *err);
/* out = steps done. */
GYRE_API int64_t gyre_trainer_steps(const gyre_trainer *trainer);
/* out = the options of the run, defaults filled in; valid as long as the trainer. */
GYRE_API const gyre_train_options *gyre_trainer_get_options(const gyre_trainer *trainer);
/* out = the model being trained; valid as long as the trainer. */
GYRE_API const gyre_model *gyre_trainer_get_model(const gyre_trainer *trainer);

/* -- tasks -- */
/* The scored last tokens of a copy task; its distance is the length minus these. */
enum { GYRE_TASK_COPY_SPAN = 8 };

/* out = symbols of a task, its start symbol included; 0 for TEXT or an invalid task. */
GYRE_API int64_t gyre_task_vocab(gyre_task task);
typedef struct gyre_task_options {
    size_t size;                   /* set by GYRE_INIT */
    gyre_task task;                /* needed */
    int64_t length;                /* tokens of each sequence; 0 = 64.  COPY: its distance is length - GYRE_TASK_COPY_SPAN */
    int64_t sequences;             /* 0 = 1000 */
    uint64_t seed;                 /* 0 = the seed 0 */
    const gyre_encoding *encoding; /* NULL = the model's own */
    gyre_watcher watcher;
    const gyre_team *team; /* processes that share the sequences; NULL = this one reads all */
} gyre_task_options;
/* For each distance i from the start, i < length: asked[i] = determined tokens with i symbols between them and the start,
 * right[i] = number of them that were the model's likeliest, given the right ones before.
 * Errors: EINVAL (no task, too small a vocabulary, a length outside 16 .. 2^24, no sequences), ENOMEM, those of
 * gyre_context_forward. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_task_measure(const gyre_model *model, const gyre_task_options *options,
                                                       int64_t *right, int64_t *asked, const gyre_exec *exec,
                                                       gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_TRAIN_H */
