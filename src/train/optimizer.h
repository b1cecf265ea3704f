/* optimizer.h: AdamW over one block of weights (Loshchilov and Hutter, arXiv 1711.05101), in fixed pieces. */
#ifndef GYRE_TRAIN_OPTIMIZER_H
#define GYRE_TRAIN_OPTIMIZER_H
#include "model/model.h"

typedef struct gyre_piece {
    int64_t offset, count;
    int decays; /* as gyre_tensor says */
} gyre_piece;

/* A weight that the encoding wants kept within a range. */
typedef struct gyre_bound {
    int64_t offset;
    float least, most;
} gyre_bound;

typedef struct gyre_optimizer {
    int64_t count, pieces_count;
    gyre_piece *pieces;    /* each tensor cut into at most 16384 weights: the unit of work and of every sum */
    float *first, *second; /* moments */
    double *squares;       /* [pieces] */
    gyre_bound *bounds;
    int64_t bounds_count;
} gyre_optimizer;

typedef struct gyre_update {
    float *weights;
    float *gradients;     /* [groups][count]; the sum is left in the first */
    int64_t groups, step; /* step counts from 1 */
    double rate, decay, clip;
} gyre_update;

gyre_status gyre_optimizer_create(gyre_optimizer *o, const gyre_model *model);
void gyre_optimizer_free(gyre_optimizer *o);
/* Adds the groups' gradients in order, clips by the norm of the sum, moves the weights, puts those with
 * bounds back within them.  *norm = that norm; the weights and
 * moments are untouched when it is not finite. */
void gyre_optimizer_step(gyre_optimizer *o, const gyre_update *update, const gyre_exec *exec, double *norm);

#endif
