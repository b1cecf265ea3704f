/* lab_tables.h: the results of the lab as tables. */
#ifndef GYRE_TOOLS_LAB_TABLES_H
#define GYRE_TOOLS_LAB_TABLES_H
#include "tools/common/result_table.h"
#include "tools/lab/lab.h"

/* Writes which text was measured, as a noun phrase. */
void lab_describe_text(const lab *l, char *out, size_t size);
/* Writes what the intervals are, as a noun phrase. */
void lab_describe_interval(const lab *l, char *out, size_t size);
/* On a page, contexts are side by side under their measure, so that a row reads from short to long, and there are no
 * pairs. */
typedef enum lab_layout { LAB_ON_TERMINAL, LAB_ON_PAGE } lab_layout;
result_table lab_table_encodings(const lab *l, lab_layout layout);
result_table lab_table_methods(const lab *l, lab_layout layout);
/* The ALiBi model under the methods for slopes. */
result_table lab_table_slopes(const lab *l, lab_layout layout);
/* How each method treats the pairs. */
result_table lab_table_pairs(const lab *l);
/* A measure with its intervals. */
result_table lab_table_intervals(const lab *l, lab_measure measure);
/* How alike the measures rank the rows. */
result_table lab_table_ranks(const lab *l);

#endif
