/* routing.h: which experts of a mixture a token goes to, and with which weights. */
#ifndef GYRE_MODEL_ROUTING_H
#define GYRE_MODEL_ROUTING_H
#include <stdint.h>

typedef enum gyre_router_score {
    GYRE_ROUTER_SOFTMAX, /* over all experts */
    GYRE_ROUTER_SIGMOID
} gyre_router_score;

enum { GYRE_MOST_EXPERTS = 4096, GYRE_MOST_ACTIVE = 64 };

/* score = softmax or sigmoid of the logits; chosen = the `active` experts of the largest score + bias, among the
 * `kept_groups` groups of the largest sums of their two largest score + bias; weight = scale x score, or scale x score / sum
 * of the scores of the chosen (sigmoid: + 1e-20), if normalized. */
typedef struct gyre_routing {
    gyre_router_score score;
    int64_t experts, active; /* at most GYRE_MOST_EXPERTS, GYRE_MOST_ACTIVE */
    int64_t groups,
        kept_groups; /* groups of experts / groups neighbours; kept_groups = groups: all experts are candidates */
    int normalized;
    double scale;
} gyre_routing;

/* chosen[active] = numbers of experts in rising order, none twice, weights[active] = their weights, for the logits[experts]
 * of one token.  bias[experts], or NULL = 0.  scratch[2 experts].  Of equal scores the first expert is chosen.  NaN counts
 * as the largest score, so that the weights show it. */
void gyre_route(const gyre_routing *routing, const float *logits, const float *bias, double *scratch, int32_t *chosen,
                float *weights);

#endif
