/* optimizer.h: AdamW over one block of weights (Loshchilov and Hutter, arXiv 1711.05101), in fixed pieces. */
#ifndef GYRE_TRAIN_OPTIMIZER_H
#define GYRE_TRAIN_OPTIMIZER_H
#include "model/model.h"

typedef struct gyre_weight_chunk {
    int64_t offset, count;
    int has_weight_decay; /* as gyre_tensor says */
} gyre_weight_chunk;

/* A weight that the encoding wants kept within a range. */
typedef struct gyre_weight_bound {
    int64_t offset;
    float minimum, maximum;
} gyre_weight_bound;

typedef struct gyre_optimizer {
    int64_t weight_count, chunk_count;
    gyre_weight_chunk *chunks;           /* each tensor cut into at most 16384 weights: the unit of work and of every sum */
    float *first_moment, *second_moment; /* moments */
    double *squared_norms;               /* [pieces] */
    gyre_weight_bound *bounds;
    int64_t bounds_count;
} gyre_optimizer;

typedef struct gyre_adamw_args {
    float *weights;
    float *gradients;     /* [groups][count]; the sum is left in the first */
    int64_t groups, step; /* step counts from 1 */
    double learning_rate, weight_decay, clip;
} gyre_adamw_args;

gyre_status gyre_optimizer_create(gyre_optimizer *o, const gyre_model *model);
void gyre_optimizer_free(gyre_optimizer *o);
/* Adds the groups' gradients in order, clips by the norm of the sum, moves the weights, puts those with
 * bounds back within them.  *norm = that norm; the weights and
 * moments are untouched when it is not finite. */
void gyre_optimizer_step(gyre_optimizer *o, const gyre_adamw_args *update, const gyre_exec *exec, double *norm);

#endif
