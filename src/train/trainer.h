/* trainer.h: the inside of a gyre_trainer. */
#ifndef GYRE_TRAIN_TRAINER_H
#define GYRE_TRAIN_TRAINER_H
#include "gyre/gyre_train.h"
#include "train/backprop.h"
#include "train/optimizer.h"

/* The memory of one thread.  Worker w of n computes groups w, w + n, ... */
typedef struct gyre_train_worker {
    gyre_backprop backprop;
    int32_t *tokens;     /* [microbatch_size][context + 1] */
    float *loss_weights; /* [microbatch_size][context + 1] */
    int64_t *positions;  /* [microbatch_size][context]; NULL = 0 .. context - 1 */
    gyre_status status;
} gyre_train_worker;

/* A step splits its batch like this:
 *
 *     batch          = groups x sequences of a group        each group has its own gradient
 *     group          = microbatches, one after the other    on one thread
 *     microbatch     = microbatch_size sequences of context + 1 tokens */
struct gyre_trainer {
    gyre_train_options options;
    gyre_model *model;
    const gyre_text *text;
    gyre_exec exec; /* run NULL = one thread */
    int64_t step;
    char *command; /* NULL = none given */
    int64_t groups, microbatch_size;
    gyre_layer_tables tables; /* of the model, refreshed after each step */
    gyre_optimizer optimizer;
    float *gradients; /* [groups][weights] */
    double *losses;   /* [groups] */
    gyre_train_worker *workers;
    int64_t worker_count;
    const gyre_team *team; /* NULL = this process alone */
};

/* *out = a trainer at step 0.  Checks nothing.  Owns `model` from here on, even after an error. */
gyre_status gyre_trainer_from_model(gyre_trainer **out, const gyre_train_options *options, gyre_model *model,
                                    const gyre_text *text, const gyre_exec *exec, gyre_error *err);
/* Fills in the defaults of fields that are zero and may not be. */
void gyre_train_options_complete(gyre_train_options *options);
/* EINVAL if an option is out of range or the text does not fit the options. */
gyre_status gyre_train_options_check(const gyre_train_options *options, const gyre_text *text, gyre_error *err);

#endif
