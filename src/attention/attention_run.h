/* attention_run.h: a call of attention, whatever its keys lie in. */
#ifndef GYRE_ATTENTION_ATTENTION_RUN_H
#define GYRE_ATTENTION_ATTENTION_RUN_H
#include "attention/key_source.h"

/* gyre_attention with keys and values from `source` (NULL = the views k and v of args).  With a source, args.k and args.v
 * say shapes alone, and batch is 1.  Checks all, then writes. */
gyre_status gyre_attention_run(const gyre_attention_args *args, const gyre_key_source *source, void *scratch, size_t bytes,
                               const gyre_exec *exec);
/* The checks alone, for calls that are made of several. */
gyre_status gyre_attention_run_check(const gyre_attention_args *args, const gyre_key_source *source, const void *scratch,
                                     size_t bytes, const gyre_exec *exec);
/* Bytes of scratch; 0 = the arguments are invalid. */
size_t gyre_attention_run_scratch(const gyre_attention_args *args, const gyre_key_source *source, const gyre_exec *exec);

#endif
