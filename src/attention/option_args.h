/* option_args.h: checks of what a call of attention may ask for beside queries, keys and values. */
#ifndef GYRE_ATTENTION_OPTION_ARGS_H
#define GYRE_ATTENTION_OPTION_ARGS_H
#include "gyre/gyre.h"

/* softcap, sinks, dropout, mask, sink_logits and weights of args, whose q, k, out and, where batches are packed, starts were
 * checked; the gradient does not look at weights.  GYRE_OK; EINVAL: a number out of range, missing memory, or queries of
 * which there are no weights; EDTYPE; ESHAPE. Touches no element. */
gyre_status gyre_options_check(const gyre_attention_args *args, int gradient);

#endif
