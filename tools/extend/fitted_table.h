/* fitted_table.h: a table for a page of a given width. */
#ifndef GYRE_TOOLS_FITTED_TABLE_H
#define GYRE_TOOLS_FITTED_TABLE_H
#include "report/report.h"
#include "tools/explain/explain_terminal.h"

/* Prints the table.  Columns that are too many for the width of the page go below, under the first column again; groups of
 * columns stay together.  Caption and note are not printed.  Errors: those of gyre_report_table_print. */
gyre_status fitted_table_print(const explain_terminal *page, const gyre_report_table *whole, gyre_error *err);

#endif
