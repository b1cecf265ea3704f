/* experts.h: a mixture of experts in the place of a layer's mlp, over rows of its input. */
#ifndef GYRE_MODEL_EXPERTS_H
#define GYRE_MODEL_EXPERTS_H
#include "model/architecture/mixture.h"
#include "model/ops/activation.h"
#include "model/ops/matrix.h"
#include "model/ops/norm.h"

typedef struct gyre_expert {
    gyre_affine gate, up, down;
} gyre_expert;

/* The weights of a layer. */
typedef struct gyre_experts {
    gyre_affine router;       /* to a logit for each expert */
    const float *choice_bias; /* [experts]; NULL = none */
    gyre_expert *expert;      /* [experts]; NULL = the layer has an mlp */
    gyre_expert shared;       /* reads every token; down.w.out = 0: none */
    gyre_affine shared_switch;
    /* Of experts beside the mlp: */
    gyre_norm_weights router_norm, norm, post_norm, post_dense_norm; /* of the stream, for router and experts; of outputs */
    const float *scales; /* [experts] multiply the weight of an expert; NULL = 1 */
} gyre_experts;

typedef struct gyre_experts_call {
    const gyre_mixture *mixture;
    const gyre_experts *experts;
    gyre_activation activation;
    const gyre_kernels *kernels;
    const gyre_exec *exec;
    int64_t rows, model_dim;
    const float *x;      /* [rows][model_dim] */
    const float *routed; /* [rows][model_dim] what the router reads; NULL = x */
    float *y;            /* [rows][model_dim], not x */
    float *scratch;      /* gyre_experts_scratch floats, 64-byte aligned */
    float *gemm_scratch;
} gyre_experts_call;

/* out = floats of scratch for up to `rows` rows; 0 without experts. */
int64_t gyre_experts_scratch(const gyre_mixture *mixture, int64_t model_dim, int64_t rows);
/* y = sum over the chosen experts of weight x expert(x), and the shared expert's output.  The bits of a row do not depend on
 * the other rows or the number of threads. */
void gyre_experts_run(const gyre_experts_call *call);
/* out = the largest gyre_gemm_scratch of the maps of a layer. */
int64_t gyre_experts_gemm_scratch(const gyre_mixture *mixture, const gyre_experts *experts, int64_t rows, int concurrency);

#endif
