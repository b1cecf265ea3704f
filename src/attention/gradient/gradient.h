/* gradient.h: the gradient of attention, one segment at a time. */
#ifndef GYRE_ATTENTION_GRADIENT_H
#define GYRE_ATTENTION_GRADIENT_H
#include "attention/plan/attention_plan.h"

/* Views of the whole call, as gyre_attention_gradient takes them. */
typedef struct gyre_gradient_views {
    const gyre_cview *dout;
    const gyre_view *dqkv;                 /* [3] */
    const gyre_table_gradients *gradients; /* NULL = none wanted */
    const gyre_cview *dlse;                /* NULL, or data NULL = 0 */
} gyre_gradient_views;

/* Zeros dk, dv and the gradient of gate sums of keys, for calls with padding: segments do not write keys outside
 * k_first .. k_end. */
void gyre_gradient_clear_padding(const gyre_attention_inputs *args, const gyre_gradient_views *views);
/* Writes dq, dk and dv of a segment of the call `args`, and adds to the gradients of tables and sink logits.
 * scratch: plan->bytes, 64-byte aligned. */
void gyre_gradient_run(gyre_attention_plan *plan, const gyre_attention_inputs *args, const gyre_gradient_views *views,
                       char *scratch, const gyre_exec *exec);

#endif
