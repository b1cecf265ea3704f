/* optimizer.h: AdamW (Loshchilov and Hutter, arXiv 1711.05101) over one block of weights, in fixed chunks. */
#ifndef GYRE_TRAIN_OPTIMIZER_H
#define GYRE_TRAIN_OPTIMIZER_H
#include "model/model.h"

/* A piece of a tensor: at most 16384 weights.  The unit of work, and of every sum. */
typedef struct gyre_weight_chunk {
    int64_t offset, count;
    int has_weight_decay; /* as in gyre_tensor */
} gyre_weight_chunk;

/* The range that the encoding prescribes for a weight. */
typedef struct gyre_weight_bound {
    int64_t offset;
    float minimum, maximum;
} gyre_weight_bound;

typedef struct gyre_optimizer {
    int64_t weight_count, chunk_count;
    gyre_weight_chunk *chunks;           /* [chunk_count] */
    float *first_moment, *second_moment; /* [weight_count] */
    double *squared_norms;               /* [chunk_count] of the gradient */
    gyre_weight_bound *bounds;           /* [bounds_count] */
    int64_t bounds_count;
} gyre_optimizer;

typedef struct gyre_adamw_args {
    float *weights;
    float *gradients;                         /* [groups][weight_count]; receives the sum in the first group */
    int64_t groups, step;                     /* step counts from 1 */
    double learning_rate, weight_decay, clip; /* clip: of the gradient's norm; 0 = none */
} gyre_adamw_args;

gyre_status gyre_optimizer_create(gyre_optimizer *o, const gyre_model *model);
void gyre_optimizer_free(gyre_optimizer *o);
/* Adds the gradients of the groups in order, clips the sum by its norm, updates the weights, and moves weights with
 * bounds back into them.  *norm = the norm of the sum.  If it is not finite, weights and moments are left unchanged. */
void gyre_optimizer_step(gyre_optimizer *o, const gyre_adamw_args *update, const gyre_exec *exec, double *norm);

#endif
