/* attention.h: gyre_attention with keys from any source, in steps, for calls that are made of several. */
#ifndef GYRE_ATTENTION_ATTENTION_H
#define GYRE_ATTENTION_ATTENTION_H
#include "attention/attention_check.h"
#include "attention/plan/attention_plan.h"
#include "call/call_steps.h"

/* A call, and the plan of its largest segment.  plan points into segment: do not copy. */
typedef struct gyre_attention_run {
    gyre_call common;
    const gyre_attention_request *request;
    gyre_segment segment;
    int split; /* 1: the call has more segments than that one */
    gyre_attention_plan plan;
} gyre_attention_run;

/* The steps of a gyre_attention_run with a request. */
extern const gyre_call_steps gyre_attention_steps;

/* *args = the caller's, whatever the version of their structs, with a shape for an `out` that is left open.
 * Errors: EINVAL (gyre_sized_read). */
gyre_status gyre_attention_args_read(gyre_attention_inputs *args, const gyre_attention_args *given, gyre_error *err);
/* What gyre_attention_gradients says, in the form of gyre_gradient_views.  views points into it: do not copy. */
typedef struct gyre_gradients {
    gyre_cview dout, dlse;
    gyre_view dqkv[3];
    gyre_gradient_views views;
} gyre_gradients;
/* *own, and what *args has for a gradient = the caller's.  Errors: EINVAL (gyre_sized_read). */
gyre_status gyre_gradients_read(gyre_gradients *own, gyre_attention_inputs *args, const gyre_attention_gradients *given,
                                gyre_error *err);
/* The whole of a call, with what it checks.  Errors: those of gyre_attention. */
gyre_status gyre_attention_perform(const gyre_attention_request *request, gyre_scratch scratch, const gyre_exec *exec,
                                   gyre_error *err);
/* *bytes = scratch that it needs, not 0.  Looks at shapes alone.  Errors: those of gyre_attention in shapes, and EINVAL for
 * bytes NULL. */
gyre_status gyre_attention_request_bytes(const gyre_attention_request *request, const gyre_exec *exec, size_t *bytes,
                                         gyre_error *err);

#endif
