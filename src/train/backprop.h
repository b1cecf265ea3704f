/* backprop.h: the loss of a decoder and its gradient over a few sequences, on one thread. */
#ifndef GYRE_TRAIN_BACKPROP_H
#define GYRE_TRAIN_BACKPROP_H
#include "model/layer_tables.h"
#include "train/block.h"

typedef struct gyre_backprop {
    const gyre_model *model;
    const gyre_layer_tables *tables;
    int64_t sequences, length, rows;             /* rows = sequences * length */
    gyre_positions positions;                    /* of the inputs */
    int32_t *inputs;                             /* [rows] */
    gyre_block *blocks;                          /* [layers] */
    float *layers_out, *final_norm, *final_rstd; /* [rows][model_dim], the same normalized, [rows] 1 / rms */
    float *logits;                               /* [rows][vocab], later their gradient */
    float *dx, *dnorm;                           /* [rows][model_dim] gradient to the residual stream, to a norm */
    float *dmlp_act, *dattn_out, *dqkv;          /* gradients to the buffers of a block */
    float *drotated;                             /* [rows][gyre_rotated_qk_dim] the same, in models that have those */
    float *dgates;                               /* [rows][heads] the same, in models with forget gates */
    double *dgate_sums[2];                       /* [rows][heads] to gate sums, as those of queries and of keys */
    float
        *dprojected; /* [layers][tables->projected_count] gradient to projected tables, summed since gyre_backprop_finish */
    void *scratch;   /* of attention, of either kind */
    size_t scratch_bytes;
    gyre_linear_work work;
    gyre_part_work part; /* of the part that makes queries and keys */
    float *memory;       /* holds the float buffers above */
    gyre_error error;    /* of the last run that failed */
} gyre_backprop;

/* Sequences of one run. */
typedef struct gyre_microbatch {
    const int32_t *tokens;     /* [sequences][length + 1] */
    const float *loss_weights; /* [sequences][length + 1]; the first of each sequence is not used */
    double grad_scale;
} gyre_microbatch;

/* Allocates memory for `sequences` sequences of `length` tokens at a time.  tables: those of the model, borrowed, up to
 * date whenever gyre_backprop_run is called.  positions: [sequences][length], borrowed, rising in each sequence from here
 * on; NULL = 0 .. length - 1. */
gyre_status gyre_backprop_create(gyre_backprop *b, const gyre_layer_tables *tables, int64_t sequences, int64_t length,
                                 const int64_t *positions);
void gyre_backprop_free(gyre_backprop *b);
/* *loss += sum over all predictions of -loss_weight log p(token).  gradient[] += grad_scale times its derivative, laid
 * out as the model's weights, except for projected tables.  Errors: those of gyre_add_input, gyre_attention and their
 * gradients; b->error holds the text. */
gyre_status gyre_backprop_run(gyre_backprop *b, const gyre_microbatch *microbatch, double *loss, float *gradient);
/* Call after the last run into `gradient`: adds what the runs left for projected tables to the weights they are made of,
 * once for all runs. */
void gyre_backprop_finish(gyre_backprop *b, float *gradient);

#endif
