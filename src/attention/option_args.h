/* option_args.h: checks of what a call of attention may ask for beside queries, keys and values. */
#ifndef GYRE_ATTENTION_OPTION_ARGS_H
#define GYRE_ATTENTION_OPTION_ARGS_H
#include "gyre/gyre.h"

/* softcap, sinks, dropout, mask and sink_logits of args, whose shapes and, where batches are packed, starts were checked.
 * GYRE_OK; EINVAL: a number out of range or missing memory; EDTYPE; ESHAPE.  Touches no element. */
gyre_status gyre_options_check(const gyre_attention_args *args);
/* The same of weights, which the gradient does not look at; EINVAL too where there are no such queries. */
gyre_status gyre_weights_check(const gyre_attention_args *args);

#endif
