/* lab_tables.h: the results of the lab as tables. */
#ifndef GYRE_TOOLS_LAB_TABLES_H
#define GYRE_TOOLS_LAB_TABLES_H
#include "report/report.h"
#include "tools/lab/lab.h"

enum { LAB_TABLE_ROWS = MAX_VARIANTS + LAB_METHODS + LAB_TUNED_METHODS + 3 };

/* A table and the memory that it points to.  Must not be copied. */
typedef struct lab_table {
    gyre_report_table table;
    int has_parts;
    gyre_report_column columns[LAB_COLUMNS];
    char groups[LAB_CONTEXTS][32];
    gyre_report_cell cells[LAB_TABLE_ROWS * LAB_COLUMNS];
    char texts[LAB_TABLE_ROWS][2 * LAB_CONTEXTS][24]; /* of lab_table_spread */
} lab_table;

/* Writes which text was measured, as a noun phrase. */
void lab_describe_text(const lab *l, char *out, size_t size);
void lab_table_encodings(const lab *l, lab_table *t);
void lab_table_methods(const lab *l, lab_table *t);
void lab_table_spread(const lab *l, lab_table *t);

#endif
