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

typedef struct gyre_train_options {
    size_t size;             /* set by GYRE_TRAIN_INIT */
    gyre_model_config model; /* its position.trained_length is left to the caller */
    int64_t context;         /* tokens of a training sequence */
    int64_t batch;           /* sequences of a step */
    int64_t steps;           /* of the whole run, warm-up included */
    int64_t warmup;          /* steps of linear warm-up */
    double learning_rate;    /* at its peak */
    double final_share;      /* of the peak, at the end of the cosine */
    double weight_decay;     /* of matrices and vectors; not of norms, biases (u and v too) and numbers that multiply */
    double clip;             /* of the gradient's norm; 0 = none */
    double mix;              /* share of sequences that hold passkeys or copies, half of it each; the rest is plain text */
    uint64_t seed;           /* of the weights and of the sequences drawn */
} gyre_train_options;
/* clang-format off */
#define GYRE_TRAIN_INIT \
    { sizeof(gyre_train_options), GYRE_MODEL_CONFIG_INIT, 256, 8, 4883, 100, 4e-3, 0.1, 0.1, 1.0, 0.8, 1 }
/* clang-format on */

typedef struct gyre_trainer gyre_trainer;

/* *out = a run at step 0.  start: a model whose weights it begins from (its tensors must be those of options->model, the
 * encoding may differ otherwise), or NULL for random ones.  text is borrowed; exec sizes the memory (NULL = one thread).
 * Errors: EINVAL (an option out of range; a text shorter than context + 1), ENOMEM, ERANGE (context past a learned table).
 */
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
/* Writes model (F32), optimiser state and options into `folder`, in one step: a kill leaves the old or the new checkpoint.
 */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trainer_save(const gyre_trainer *trainer, const char *folder, gyre_error *err);
/* Writes the model alone, weights as F32, F16 or BF16, with a training.json that says how it was made.  Not resumable. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trainer_export(const gyre_trainer *trainer, const char *folder, gyre_dtype dtype,
                                                         gyre_error *err);
/* What a person types to make this model again, kept in its training.json, over stops too: the first one given stays.
 * Copied. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_trainer_describe(gyre_trainer *trainer, const char *command, gyre_error *err);
/* out = steps done; the options of the run; the model being trained (valid as long as the trainer). */
GYRE_API int64_t gyre_trainer_steps(const gyre_trainer *trainer);
GYRE_API const gyre_train_options *gyre_trainer_options(const gyre_trainer *trainer);
GYRE_API const gyre_model *gyre_trainer_model(const gyre_trainer *trainer);

/* out = floating-point operations of one trained token by the usual count: 6 per weight (position tables aside: no token is
 * multiplied by all of them), 12 x layers x heads x head_dim x context for attention (as if nothing were masked). */
GYRE_API double gyre_train_flops(const gyre_model_config *model, int64_t context);

/* out[0 .. length - 1] = sequence `index` of step `step`: plain text, or text with passkeys, or with copies.  weights[i] =
 * how much predicting out[i] counts: 0 for what is drawn at random, 1 for text, 3 for what stands before in the sequence. */
GYRE_API void gyre_train_sequence(const gyre_text *text, const gyre_train_options *options, int64_t step, int64_t index,
                                  int64_t length, int32_t *out, float *weights);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_TRAIN_H */
