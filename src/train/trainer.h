/* trainer.h: what is inside a gyre_trainer. */
#ifndef GYRE_TRAIN_TRAINER_H
#define GYRE_TRAIN_TRAINER_H
#include "gyre/gyre_train.h"
#include "train/backprop.h"
#include "train/optimizer.h"

/* One worker's memory; worker w of n takes groups w, w + n, ... */
typedef struct gyre_train_worker {
    gyre_backprop backprop;
    int32_t *tokens;     /* [microbatch_size][context + 1] */
    float *loss_weights; /* [microbatch_size][context + 1] */
    gyre_status status;
} gyre_train_worker;

struct gyre_trainer {
    gyre_train_options options;
    gyre_model *model;
    const gyre_text *text;
    gyre_exec exec; /* run == NULL: one thread */
    int64_t step;
    char *command;                   /* NULL: none given */
    int64_t groups, microbatch_size; /* sequences of one backward pass */
    gyre_layer_tables tables;        /* of the model, formed again after each step */
    gyre_optimizer optimizer;
    float *gradients; /* [groups][weights] */
    double *losses;   /* [groups] */
    gyre_train_worker *workers;
    int64_t worker_count;
};

/* Checks the options; makes a trainer at step 0 that owns `model` from here on, even when it fails. */
gyre_status gyre_trainer_from_model(gyre_trainer **out, const gyre_train_options *options, gyre_model *model,
                                    const gyre_text *text, const gyre_exec *exec, gyre_error *err);
gyre_status gyre_train_options_check(const gyre_train_options *options, const gyre_text *text, gyre_error *err);

#endif
