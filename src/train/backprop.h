/* backprop.h: loss and gradient of a decoder over a few sequences, on one thread. */
#ifndef GYRE_TRAIN_BACKPROP_H
#define GYRE_TRAIN_BACKPROP_H
#include "model/layer_tables.h"
#include "model/layers.h"

typedef struct gyre_backprop {
    const gyre_model *model;
    const gyre_layer_tables *tables;
    int64_t sequences, length, rows; /* rows = sequences * length */
    float *memory;
    int32_t *inputs;    /* [rows] */
    gyre_block *blocks; /* [layers] */
    float *layers_out, *final_norm, *final_rstd, *logits;
    float *dx, *dnorm, *dmlp_act, *dattn_out, *dqkv;
    float *
        dprojected; /* [layers][tables->made_count]: the gradient to tables that are products, since it was last passed on */
    void *scratch;
    size_t scratch_bytes;
} gyre_backprop;

/* Memory for `sequences` sequences of `length` tokens at once.  tables: those of the model, borrowed, up to date whenever
 * gyre_backprop_run is called. */
gyre_status gyre_backprop_create(gyre_backprop *b, const gyre_layer_tables *tables, int64_t sequences, int64_t length);
void gyre_backprop_free(gyre_backprop *b);
/* *loss += sum of -weight log p(token) over all predictions;  gradient[] += its derivative times `share`.
 * tokens, weights: [sequences][length + 1]; the first weight of a sequence is not used. */
typedef struct gyre_microbatch {
    const int32_t *tokens;
    const float *loss_weights;
    double grad_scale;
} gyre_microbatch;
gyre_status gyre_backprop_run(gyre_backprop *b, const gyre_microbatch *lesson, double *loss, float *gradient);
/* After the last run whose gradient goes to `gradient`: what the runs left to tables that are made of other weights is
 * passed on to those, once for all runs. */
void gyre_backprop_finish(gyre_backprop *b, float *gradient);

#endif
