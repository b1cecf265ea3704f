/* result_table.h: a table of src/report and the memory that it points to. */
#ifndef GYRE_TOOLS_RESULT_TABLE_H
#define GYRE_TOOLS_RESULT_TABLE_H
#include "report/report.h"

typedef struct result_table {
    gyre_report_table table;
    gyre_report_column *columns;
    gyre_report_cell *cells; /* [rows][columns] */
    char (*texts)[48];       /* room for column titles and row labels */
    char title[64], caption[256];
} result_table;

/* *out = a table with zeroed columns, cells and texts.  Errors: ENOMEM. */
gyre_status result_table_create(result_table *out, int64_t columns, int64_t rows, int64_t texts, gyre_error *err);
/* out = status, which a gyre_report_table_print... to `file` has just returned.  The error of EIO then names what
 * the stream writes to (cli_output_name). */
gyre_status result_table_printed(gyre_status status, FILE *file, gyre_error *err);
/* fitted_table.c: prints a whole table, in colour where the file takes it.  Columns that are too many for the page
 * (cli_page_width) go below, under the first column again; groups of columns stay together.  Errors: those of
 * gyre_report_table_print, as above. */
gyre_status result_table_print(const gyre_report_table *whole, FILE *file, gyre_error *err);
void result_table_free(result_table *t); /* also for one that is zeroed or failed to be created */

enum { REPORT_DATE = 32 };
/* out = the current time, "2026-01-31 12:00 UTC", for the footer of a page. */
const char *report_date(char out[REPORT_DATE]);

#endif
