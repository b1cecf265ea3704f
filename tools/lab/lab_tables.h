/* lab_tables.h: the results of the lab as tables. */
#ifndef GYRE_TOOLS_LAB_TABLES_H
#define GYRE_TOOLS_LAB_TABLES_H
#include "report/report.h"
#include "tools/lab/lab.h"

enum { LAB_TABLE_ROWS = MAX_VARIANTS + LAB_METHODS + LAB_TUNED_ROWS + LAB_STRETCHED + 4, LAB_NOTE = 320 };

/* A table and the memory that it points to.  Must not be copied. */
typedef struct lab_table {
    gyre_report_table table;
    int has_parts;
    int measures; /* columns of a context */
    gyre_report_column columns[LAB_COLUMNS];
    char groups[LAB_CONTEXTS][32], titles[LAB_CONTEXTS][24];
    gyre_report_cell cells[LAB_TABLE_ROWS * LAB_COLUMNS];
    char caption[192], note[LAB_NOTE + 64], texts[LAB_TABLE_ROWS][LAB_CONTEXTS][40]; /* of pairs, and of intervals */
} lab_table;

/* out = the column of a measure at context number c.  The pairs are the column where a further context would begin. */
static inline int64_t lab_column(const lab_table *t, int c, int measure) {
    return 1 + t->measures * c + measure;
}

/* Writes which text was measured, as a noun phrase. */
void lab_describe_text(const lab *l, char *out, size_t size);
/* Writes what the intervals are, as a noun phrase. */
void lab_describe_interval(const lab *l, char *out, size_t size);
void lab_table_encodings(const lab *l, lab_table *t);
void lab_table_methods(const lab *l, lab_table *t);
/* The ALiBi model under the methods for slopes. */
void lab_table_slopes(const lab *l, lab_table *t);
/* Makes a table of encodings, methods or slopes one for a page: contexts are side by side under their measure, so that a
 * row reads from short to long, and the pairs are left out. */
void lab_table_for_page(const lab *l, lab_table *t);
/* How each method treats the pairs. */
void lab_table_pairs(const lab *l, lab_table *t);
/* A measure with its intervals. */
void lab_table_intervals(const lab *l, lab_table *t, lab_measure measure);
/* How alike the measures rank the rows. */
void lab_table_ranks(const lab *l, lab_table *t);

#endif
