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

/* -- fitted_table.c: tables in blocks that fit the page (cli_page_width), in colour where the file takes it -- */
/* Prints a whole table.  Columns that are too many for the page go below, under the first column again; groups of columns
 * stay together.  Errors: those of gyre_report_table_print, as above. */
gyre_status result_table_print(const gyre_report_table *whole, FILE *file, gyre_error *err);
/* The same in parts, for a table whose rows become known one by one.  Columns first .. end - 1, beside column 0. */
typedef struct table_block {
    int64_t first, end;
} table_block;
/* *block = the one after it; that of a zeroed one is the first.  The table holds samples for rows that are not known. */
gyre_status table_block_next(const gyre_report_table *whole, FILE *file, table_block *block, gyre_error *err);
/* Prints the column titles, and fills in width[1 + columns of the block], that of the rows: samples count. */
gyre_status table_block_head(const gyre_report_table *whole, table_block of, int64_t *width, FILE *file, gyre_error *err);
/* Rows first .. end - 1 of a block. */
typedef struct table_rows {
    table_block block;
    int64_t first, end;
} table_rows;
gyre_status table_block_rows(const gyre_report_table *whole, const table_rows *rows, const int64_t *width, FILE *file,
                             gyre_error *err);

/* out = the row of 0 .. rows - 1 that costs least, the first of equal ones; -1 if every cost is NaN: not measured, or not
 * asked for. */
int64_t result_best_row(int64_t rows, double (*cost)(const void *of, int64_t row), const void *of);
void result_table_free(result_table *t); /* also for one that is zeroed or failed to be created */

enum { REPORT_DATE = 32 };
/* out = the current time, "2026-01-31 12:00 UTC", for the footer of a page. */
const char *report_date(char out[REPORT_DATE]);

#endif
