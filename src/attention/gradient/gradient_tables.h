/* gradient_tables.h: the gradients of the tables, from the parts that items leave. */
#ifndef GYRE_ATTENTION_GRADIENT_TABLES_H
#define GYRE_ATTENTION_GRADIENT_TABLES_H
#include "attention/tiles/scratch.h"

/* Adds the parts of the items of a wave, in their order, to the caller's memory. */
void gyre_tables_collect(gyre_attention_call *call, const gyre_exec *exec);

#endif
