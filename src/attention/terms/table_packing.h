/* table_packing.h: rows of an encoding's tables as products read them. */
#ifndef GYRE_ATTENTION_TABLE_PACKING_H
#define GYRE_ATTENTION_TABLE_PACKING_H
#include "attention/plan/buffers.h"

/* queries->tables->query, key, value = the rows of the head of `queries` that occur in the segment, as floats.  Rows that
 * are packed already stay. */
void gyre_tables_pack(const gyre_attention_plan *plan, gyre_query_buffers *queries);

#endif
