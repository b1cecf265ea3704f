/* result_table.h: a table of src/report that grows, column by column and then cell by cell, and owns its texts; and lines
 * of charts that grow point by point.  Without memory the command ends (cli_memory.h). */
#ifndef GYRE_TOOLS_RESULT_TABLE_H
#define GYRE_TOOLS_RESULT_TABLE_H
#include "report/report.h"
#include <jansson.h>

typedef struct result_table {
    gyre_report_table table; /* as far as it is filled; caption, note and colors are the caller's */
    gyre_report_column *columns;
    gyre_report_cell *cells;
    int64_t cells_count;
    char **texts; /* [texts_count] */
    int64_t texts_count;
} result_table;
#define RESULT_TABLE_INIT                                                                                                   \
    { GYRE_REPORT_TABLE_INIT, NULL, NULL, 0, NULL, 0 }

/* out = a text that the table owns. */
const char *result_text(result_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Columns come before cells.  Titles are borrowed. */
void result_column(result_table *t, gyre_report_column column);
/* The next cell of the row, or the first of the next row.  NaN is shown as a dash. */
void result_cell(result_table *t, gyre_report_cell cell);
void result_number(result_table *t, double value);
void result_name(result_table *t, const char *text); /* borrowed; NULL is shown as a dash */
/* A row that is a heading. */
void result_heading(result_table *t, const char *text);
void result_table_free(result_table *t); /* also for one that is zeroed */

/* A column of a table of JSON objects, and where each object has its value: "gain.percent_interval.0". */
typedef struct result_field {
    const char *path;
    gyre_report_column column;
    const char *(*text)(result_table *t, const json_t *value); /* NULL: numbers and texts as they are; else out = the cell */
} result_field;
/* out = a table with a row for each object of a list, which it releases.  A value that is null or absent is a dash. */
result_table result_table_of(json_t *rows, const result_field *fields, int64_t count);

/* Both take the table over. */
/* out = 0, or CLI_FAILED with the error printed. */
int result_table_show(result_table t, FILE *file);
void result_table_add(result_table t, gyre_report_page *page);

/* -- tables in blocks that fit the page (cli_page_width), in colour where the file takes it -- */
/* Each: out = 0, or CLI_FAILED with the error printed, which names what the stream writes to (cli_output_name). */
/* Prints a whole table.  Columns that are too many for the page go below, under the first column again; groups of columns
 * stay together. */
int result_table_print(const gyre_report_table *whole, FILE *file);
/* The same in parts, for a table whose rows become known one by one.  Columns first .. end - 1, beside column 0. */
typedef struct table_block {
    int64_t first, end;
} table_block;
/* *block = the one after it; that of a zeroed one is the first.  The table holds samples for rows that are not known. */
void table_block_next(const gyre_report_table *whole, FILE *file, table_block *block);
/* Prints the column titles, and fills in width[1 + columns of the block], that of the rows: samples count. */
int table_block_head(const gyre_report_table *whole, table_block of, int64_t *width, FILE *file);
/* Rows first .. end - 1 of a block. */
typedef struct table_rows {
    table_block block;
    int64_t first, end;
} table_rows;
int table_block_rows(const gyre_report_table *whole, const table_rows *rows, const int64_t *width, FILE *file);

/* out = the row of 0 .. rows - 1 that costs least, the first of equal ones; -1 if every cost is NaN: not measured, or not
 * asked for. */
int64_t result_best_row(int64_t rows, double (*cost)(const void *of, int64_t row), const void *of);

/* -- result_page.c: what pages of results share -- */
/* The lines of a chart, which grow point by point.  All zeros is empty. */
typedef struct chart_lines {
    gyre_report_series *series; /* [count] */
    char **names;               /* [count] */
    int64_t count;
} chart_lines;
/* out = a new line without points, in the look of its name (subject_look).  Borrows the panel. */
gyre_report_series *chart_line(chart_lines *l, const char *panel, const char *name, ...)
    __attribute__((format(printf, 3, 4)));
/* A point of the newest line; a line with a band has one around each of its points. */
void chart_point(chart_lines *l, double x, double y);
void chart_banded_point(chart_lines *l, double x, double y, double low, double high);
/* Adds the chart, if it has lines, and empties the lines.  The page keeps the first error. */
void chart_lines_draw(chart_lines *l, gyre_report_page *page, gyre_report_chart *chart, const char *caption);
void chart_lines_clear(chart_lines *l);

enum { REPORT_DATE = 32 };
/* out = the current time, "2026-01-31 12:00 UTC", for the footer of a page. */
const char *report_date(char out[REPORT_DATE]);
/* Writes the page if status is 0, and frees it.  out = status.  Errors: those of cli_signals_before_pipe and
 * gyre_report_page_write. */
gyre_status report_page_end(gyre_report_page *page, gyre_status status, const char *path, gyre_error *err);

#endif
