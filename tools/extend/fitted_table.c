/* fitted_table.c: cuts a table between columns where it is wider than the page. */
#include "tools/extend/fitted_table.h"
#include "tools/common/result_table.h"
#include "util/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first column of a table and `count` others from `first` on, as a table of its own. */
typedef struct table_part {
    gyre_report_column *columns; /* [1 + count] */
    gyre_report_cell *cells;
} table_part;

static gyre_status make_part(const gyre_report_table *whole, int64_t first, int64_t count, table_part *part,
                             gyre_report_table *out, gyre_error *err) {
    const int64_t columns = 1 + count;
    part->columns = calloc((size_t)columns, sizeof *part->columns);
    part->cells = calloc((size_t)(whole->rows * columns) + 1, sizeof *part->cells);
    if (!part->columns || !part->cells) return gyre_fail(err, GYRE_ENOMEM, "table: out of memory (page)");
    for (int64_t c = 0; c < columns; c++) {
        const int64_t from = c ? first + c - 1 : 0;
        part->columns[c] = whole->columns[from];
        for (int64_t r = 0; r < whole->rows; r++)
            part->cells[r * columns + c] = whole->cells[r * whole->columns_count + from];
    }
    *out = *whole;
    out->caption = out->note = NULL;
    out->columns = part->columns;
    out->columns_count = columns;
    out->cells = part->cells;
    return GYRE_OK;
}

static void free_part(table_part *part) {
    free(part->columns);
    free(part->cells);
    *part = (table_part){NULL, NULL};
}

/* *width = columns of the screen that the table takes. */
static gyre_status measure(const gyre_report_table *table, int *width, gyre_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory) return gyre_fail(err, GYRE_ENOMEM, "table: out of memory (page)");
    gyre_status status = gyre_report_table_print(table, memory, 0, err);
    if (fclose(memory) && !status) status = gyre_fail(err, GYRE_ENOMEM, "table: out of memory (page)");
    *width = 0;
    for (char *line = text; !status && line && *line;) {
        char *end = line + strcspn(line, "\n"), *next = *end ? end + 1 : end;
        *end = 0;
        if (explain_display_width(line) > *width) *width = explain_display_width(line);
        line = next;
    }
    free(text);
    return status;
}

static int same_group(const gyre_report_column *a, const gyre_report_column *b) {
    return a->group && b->group && strcmp(a->group, b->group) == 0;
}

/* *count = how many columns from `first` on fit beside the first one: at least one group of columns. */
static gyre_status count_fitting(const gyre_report_table *whole, int64_t first, int width, int64_t *count, gyre_error *err) {
    int64_t n = 0;
    gyre_status status = GYRE_OK;
    while (!status && first + n < whole->columns_count) {
        table_part part = {NULL, NULL};
        gyre_report_table table;
        int taken = 0;
        int64_t more = 1;
        while (first + n + more < whole->columns_count &&
               same_group(&whole->columns[first + n + more - 1], &whole->columns[first + n + more]))
            more++;
        status = make_part(whole, first, n + more, &part, &table, err);
        if (!status) status = measure(&table, &taken, err);
        free_part(&part);
        if (taken > width && n > 0) break;
        n += more;
    }
    *count = n;
    return status;
}

gyre_status fitted_table_print(const explain_terminal *page, const gyre_report_table *whole, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t first = 1, count = 0; first < whole->columns_count && !status; first += count) {
        table_part part = {NULL, NULL};
        gyre_report_table table;
        status = count_fitting(whole, first, page->width, &count, err);
        if (first > 1) fputc('\n', page->file);
        if (!status) status = make_part(whole, first, count, &part, &table, err);
        if (!status)
            status = result_table_printed(gyre_report_table_print(&table, page->file, page->styled, err), page->file, err);
        free_part(&part);
    }
    return status;
}
