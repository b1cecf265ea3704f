/* table_buffers.h: what an encoding adds by distance, as decided for a segment, and the memory it takes. */
#ifndef GYRE_ATTENTION_TABLE_BUFFERS_H
#define GYRE_ATTENTION_TABLE_BUFFERS_H
#include "attention/plan/buffers.h"

/* 1: the encoding has vectors of table `which`, trained, or fixed as term `term` (GYRE_TERM_*).  encoding may be NULL. */
int gyre_has_vector_table(const gyre_encoding *encoding, gyre_table which, unsigned term);
/* Fills in plan->table and plan->uses_tables. */
void gyre_tables_measure(gyre_attention_plan *plan);
/* Sets the pointers of *buffers to parts of the arena. */
void gyre_tables_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_table_buffers *buffers);
/* out = heads of one item that have table `which`, and so a gradient, of their own. */
int64_t gyre_table_heads_in_item(const gyre_attention_plan *plan, int which);
/* Gradient, at the start of an item: zeros the gradients of the tables. */
void gyre_tables_clear(const gyre_attention_plan *plan, gyre_query_buffers *queries);

#endif
