/* live_table.h: --watch: the results so far, on stderr.  On a terminal the table is drawn again after each cell, above the
 * progress bar; elsewhere, where it does not fit, or where lines go to that terminal, each cell is a line: "gyre: yarn at
 * 16384: perplexity 18.61". */
#ifndef GYRE_TOOLS_LIVE_TABLE_H
#define GYRE_TOOLS_LIVE_TABLE_H
#include "tools/common/result_table.h"

typedef struct live_table {
    int on;     /* 1: --watch */
    int redraw; /* 1: stderr is a terminal with room for the table, and alone */
    int lines;  /* that are drawn */
} live_table;

/* watch: --watch.  prints_lines: standard output gets lines between the cells, which a table drawn again on the same
 * terminal would erase.  Nothing is shown by a process that does not lead its team. */
void live_table_begin(live_table *live, int watch, int prints_lines);
/* A cell is measured.  table: makes the table so far, if it is drawn; the line says what was measured. */
void live_table_show(live_table *live, result_table (*table)(const void *of), const void *of, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Adds to the note of a table so far that a dash may stand for a cell that is still to come. */
void live_table_note_open(result_table *table);
/* Erases a table that the final one on the same terminal replaces. */
void live_table_end(live_table *live);

#endif
