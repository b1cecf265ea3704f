/* gyre_train.h: training a gyre_model on a text, resumable and reproducible to the last bit.
 *
 * AdamW, linear warm-up and cosine decay, gradient clipping by global norm.  The work of a step is split into a fixed number
 * of groups of sequences whatever the threads, and their gradients are added in a fixed order. */
#ifndef GYRE_TRAIN_H
#define GYRE_TRAIN_H
#include "gyre/gyre_model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the sequences of a run are made of.  The tasks below TEXT need no text; each sequence begins with a start symbol, the
 * last of the task's vocabulary, and the rest is drawn from seed, step and index alone.  PosGen (Resonance RoPE, arXiv
 * 2403.00071, with j = 1, k = 3): symbols x_0, x_1, ... below 17; x_0 .. x_3 are drawn, and each later one is the sum modulo
 * 17 of x_{l-3}, x_{l-2}, x_{l-1} and a fourth, so no position is harder than another. */
typedef enum gyre_task {
    GYRE_TASK_TEXT,
    GYRE_TASK_POSGEN_RECURSIVE, /* x_{l-4} */
    GYRE_TASK_POSGEN_COT,       /* chain of thought: x_0 */
    GYRE_TASK_POSGEN_SEMI,      /* semi-recursive: x_{floor((l - 4) / 2)}, which falls back as the sequence goes on */
    GYRE_TASK_COPY              /* symbols below 32; after `distance` tokens, the start symbol among them, all come again */
} gyre_task;

typedef struct gyre_train_options {
    size_t size;               /* set by GYRE_TRAIN_INIT */
    gyre_model_config model;   /* its position.trained_length is left to the caller */
    int64_t context;           /* tokens of a training sequence */
    int64_t batch;             /* sequences of a step */
    int64_t steps;             /* of the whole run, warm-up included */
    int64_t warmup;            /* steps of linear warm-up */
    double learning_rate;      /* at its peak */
    double final_fraction;     /* of the peak, at the end of the cosine */
    double weight_decay;       /* of matrices and vectors; not of norms, biases (u and v too) and numbers that multiply */
    double clip;               /* of the gradient's norm; 0 = none */
    double retrieval_fraction; /* share of sequences that hold passkeys or copies, half of it each; the rest is plain text */
    uint64_t seed;             /* of the weights and of the sequences drawn */
    gyre_task task; /* other than TEXT: text may be NULL, mix is not looked at, vocab must be the task's at least */
} gyre_train_options;

/* Sets fields that are zero to how the bundled models were trained: warm-up, weight decay, clipping, retrieval.  Begin with
 * it, then change what differs. */
GYRE_API void gyre_train_options_suggest(gyre_train_options *options);

typedef struct gyre_trainer gyre_trainer;

/* *out = a run at step 0.  start: a model whose weights it begins from (its tensors must be those of options->model, the
 * encoding may differ otherwise), or NULL for random ones.  text is borrowed; exec sizes the memory (NULL = one thread).
 * Errors: EINVAL (an option out of range; a text shorter than context + 1), ENOMEM, ERANGE (context past a learned
 * table). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trainer_create(gyre_trainer **out, const gyre_train_options *options,
                                                         const gyre_model *start, const gyre_text *text,
                                                         const gyre_exec *exec, gyre_error *err);
/* *out = the run that gyre_trainer_save wrote, at the step where it was; the next steps equal those of a run that never
 * stopped, bit for bit.  Errors: as gyre_model_open; EINVAL for another text than the one it was trained on. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trainer_open(gyre_trainer **out, const char *folder, const gyre_text *text,
                                                       const gyre_exec *exec, gyre_error *err);
GYRE_API void gyre_trainer_free(gyre_trainer *trainer); /* NULL is fine */
/* One step; *loss = weighted nats per token of its sequences before the update.  EINVAL when the run is complete; EFORMAT
 * when the loss is not finite: the weights are then as before the step. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trainer_step(gyre_trainer *trainer, double *loss, gyre_error *err);
/* Writes model (F32), optimiser state and options into `folder`, in one step: a kill leaves the old or the new
 * checkpoint. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trainer_save(const gyre_trainer *trainer, const char *folder, gyre_error *err);
/* Writes the model alone, weights as F32, F16 or BF16, with a training.json that says how it was made.  Not resumable. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trainer_export(const gyre_trainer *trainer, const char *folder, gyre_dtype dtype,
                                                         gyre_error *err);
/* What a person types to make this model again, kept in its training.json, over stops too: the first one given stays.
 * Copied. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trainer_describe(gyre_trainer *trainer, const char *command, gyre_error *err);
/* out = steps done; the options of the run; the model being trained (valid as long as the trainer). */
GYRE_API int64_t gyre_trainer_steps(const gyre_trainer *trainer);
GYRE_API const gyre_train_options *gyre_trainer_get_options(const gyre_trainer *trainer);
GYRE_API const gyre_model *gyre_trainer_get_model(const gyre_trainer *trainer);

/* out = floating-point operations of one trained token by the usual count: 6 per weight (position tables aside: no token is
 * multiplied by all of them), 12 x layers x heads x head_dim x context for attention (as if nothing were masked). */
GYRE_API double gyre_train_flops(const gyre_model_config *model, int64_t context);

/* out[0 .. length - 1] = sequence `index` of step `step`: plain text, or text with passkeys, or with copies; or one of the
 * task (text may be NULL).  weights[i] = how much predicting out[i] counts: 0 for what is drawn at random, 1 for text and
 * what a task determines, 3 for what stands before in the sequence. */
GYRE_API void gyre_train_sequence(const gyre_text *text, const gyre_train_options *options, int64_t step, int64_t index,
                                  int64_t length, int32_t *out, float *weights);

/* -- tasks -- */
/* A copy is asked for in the last tokens of a sequence, this many of them: its distance is the length less these. */
enum { GYRE_TASK_COPY_SPAN = 8 };

/* out = symbols of a task, its start symbol among them; 0 for TEXT or a value that is no task. */
GYRE_API int64_t gyre_task_vocab(gyre_task task);
/* out[0 .. length] = a sequence: the start symbol and `length` more.  weights[i] (or NULL) = 1 where out[i] is determined by
 * what stands before it, else 0.  distance: of COPY, 1 .. length; other tasks ignore it.  state: of the generator, advanced.
 * Nothing happens for TEXT. */
GYRE_API void gyre_task_sequence(gyre_task task, int64_t length, int64_t distance, uint64_t *state, int32_t *out,
                                 float *weights);

typedef struct gyre_task_options {
    size_t size; /* set by GYRE_TASK_INIT */
    gyre_task task;
    int64_t length;    /* tokens read of each sequence; COPY: its distance is length - GYRE_TASK_COPY_SPAN */
    int64_t sequences; /* drawn */
    uint64_t seed;
    void (*progress)(void *ctx, int64_t done, int64_t all); /* tokens, from any thread; or NULL */
    void *progress_ctx;
} gyre_task_options;

/* right[i] = how many determined tokens with i symbols between them and the start were the model's likeliest, given all the
 * right ones before; asked[i] = of how many; i < length.  encoding: NULL = the model's own.  Errors: EINVAL (no task, a
 * model with a smaller vocabulary, a length below 16 or above 2^24, no sequences), ENOMEM, those of gyre_context_forward. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_task_measure(const gyre_model *model, const gyre_encoding *encoding,
                                                       const gyre_task_options *options, int64_t *right, int64_t *asked,
                                                       const gyre_exec *exec, gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_TRAIN_H */
