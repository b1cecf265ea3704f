/* gradient_sinks.h: the gradient of gyre_attention_inputs.sink_logits.  Such a score has weight exp(sink - lse) in a row and
 * no value, so a loss changes with it by -exp(sink - lse) (dout . out - dlse), summed over the rows of its head. */
#ifndef GYRE_ATTENTION_GRADIENT_SINKS_H
#define GYRE_ATTENTION_GRADIENT_SINKS_H
#include "attention/tiles/scratch.h"

/* Adds the gradient of the segment to the caller's memory, if it is wanted. */
void gyre_sink_gradient(gyre_attention_call *call, const gyre_exec *exec);

#endif
