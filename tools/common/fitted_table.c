/* fitted_table.c: prints a table, cut between columns where it is wider than the page. */
#include "tools/cli/cli_page.h"
#include "tools/cli/cli_progress.h"
#include "tools/common/result_table.h"
#include "util/error.h"
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
    if (first > 1) out->caption = NULL;
    out->note = NULL;
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
        if (cli_display_width(line) > *width) *width = cli_display_width(line);
        line = next;
    }
    free(text);
    return status;
}

static int same_group(const gyre_report_column *a, const gyre_report_column *b) {
    return a->group && b->group && strcmp(a->group, b->group) == 0;
}

/* out = columns of the group that begins at column `at`: 1 without a group. */
static int64_t group_size(const gyre_report_table *t, int64_t at) {
    int64_t size = 1;
    while (at + size < t->columns_count && same_group(&t->columns[at], &t->columns[at + size]))
        size++;
    return size;
}

/* *count = how many columns from `first` on fit beside the first one, at least one.  A group is cut only if it is too wide
 * alone. */
static gyre_status count_fitting(const gyre_report_table *whole, int64_t first, int width, int64_t *count, gyre_error *err) {
    int cuts = 0;
    gyre_status status = GYRE_OK;
    for (*count = 0; !status && first + *count < whole->columns_count;) {
        table_part part = {NULL, NULL};
        gyre_report_table table;
        int taken = 0;
        const int64_t more = cuts ? 1 : group_size(whole, first + *count);
        status = make_part(whole, first, *count + more, &part, &table, err);
        if (!status) status = measure(&table, &taken, err);
        free_part(&part);
        if (taken > width && *count > 0) break;
        if (taken > width && more > 1)
            cuts = 1;
        else
            *count += more;
    }
    return status;
}

/* Prints columns first .. first + count - 1 beside the first one. */
static gyre_status print_part(const gyre_report_table *whole, int64_t first, int64_t count, FILE *file, gyre_error *err) {
    table_part part = {NULL, NULL};
    gyre_report_table table;
    gyre_status status = make_part(whole, first, count, &part, &table, err);
    if (!status) status = result_table_printed(gyre_report_table_print(&table, file, cli_use_color(file), err), file, err);
    free_part(&part);
    return status;
}

gyre_status result_table_print(const gyre_report_table *whole, FILE *file, gyre_error *err) {
    gyre_status status = GYRE_OK;
    const int width = cli_page_width(file);
    if (whole->columns_count == 1) status = print_part(whole, 1, 0, file, err);
    for (int64_t first = 1, count = 0; first < whole->columns_count && !status; first += count) {
        status = count_fitting(whole, first, width, &count, err);
        if (first > 1) fputc('\n', file);
        if (!status) status = print_part(whole, first, count, file, err);
    }
    if (status || !whole->note) return status;
    fputc('\n', file);
    cli_page_fold(&(cli_fold){file, width, 0, 2, cli_use_color(file) ? "2" : NULL}, whole->note);
    return status;
}
