/* fitted_table.c: prints a table, cut between columns where it is wider than the page. */
#include "tools/cli/cli_page.h"
#include "tools/cli/cli_progress.h"
#include "tools/common/result_table.h"
#include "util/error.h"
#include <stdlib.h>
#include <string.h>

/* The columns of a block as a table. */
typedef struct block_table {
    gyre_report_table table;
    gyre_report_column *columns;
    gyre_report_cell *cells;
} block_table;

static gyre_status make_block(const gyre_report_table *whole, table_block of, block_table *out, gyre_error *err) {
    const int64_t count = 1 + of.end - of.first;
    *out = (block_table){.table = *whole,
                         .columns = calloc((size_t)count, sizeof *out->columns),
                         .cells = calloc((size_t)(whole->rows * count) + 1, sizeof *out->cells)};
    if (!out->columns || !out->cells) return gyre_fail(err, GYRE_ENOMEM, "table: out of memory (page)");
    for (int64_t c = 0; c < count; c++) {
        const int64_t from = c ? of.first + c - 1 : 0;
        out->columns[c] = whole->columns[from];
        for (int64_t r = 0; r < whole->rows; r++)
            out->cells[r * count + c] = whole->cells[r * whole->columns_count + from];
    }
    out->table.caption = out->table.note = NULL;
    out->table.columns = out->columns;
    out->table.columns_count = count;
    out->table.cells = out->cells;
    return GYRE_OK;
}

static void free_block(block_table *block) {
    free(block->columns);
    free(block->cells);
}

/* *width = columns of the screen that a row of the block takes. */
static gyre_status measure(const gyre_report_table *whole, table_block of, int64_t *width, gyre_error *err) {
    block_table block;
    int64_t *widths = calloc((size_t)(1 + of.end - of.first), sizeof *widths);
    gyre_status status = make_block(whole, of, &block, err);
    if (!status && !widths) status = gyre_fail(err, GYRE_ENOMEM, "table: out of memory (page)");
    if (!status) status = gyre_report_table_measure(&block.table, widths, width, err);
    free_block(&block);
    free(widths);
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

gyre_status table_block_next(const gyre_report_table *whole, FILE *file, table_block *block, gyre_error *err) {
    const int width = cli_page_width(file);
    int cuts = 0;
    gyre_status status = GYRE_OK;
    block->first = block->end > 1 ? block->end : 1;
    for (block->end = block->first; block->end < whole->columns_count && !status;) {
        const int64_t more = cuts ? 1 : group_size(whole, block->end);
        int64_t taken = 0;
        status = measure(whole, (table_block){block->first, block->end + more}, &taken, err);
        if (taken > width && block->end > block->first) break;
        if (taken > width && more > 1)
            cuts = 1; /* a group that is too wide alone */
        else
            block->end += more;
    }
    return status;
}

gyre_status table_block_head(const gyre_report_table *whole, table_block of, int64_t *width, FILE *file, gyre_error *err) {
    block_table block;
    gyre_status status = make_block(whole, of, &block, err);
    if (!status)
        status = result_table_printed(gyre_report_table_print_head(&block.table, width, file, cli_use_color(file), err),
                                      file, err);
    free_block(&block);
    return status;
}

gyre_status table_block_rows(const gyre_report_table *whole, const table_rows *rows, const int64_t *width, FILE *file,
                             gyre_error *err) {
    block_table block;
    gyre_status status = make_block(whole, rows->block, &block, err);
    if (!status)
        status = result_table_printed(
            gyre_report_table_print_rows(&block.table, rows->first, rows->end, width, file, cli_use_color(file), err), file,
            err);
    free_block(&block);
    return status;
}

gyre_status result_table_print(const gyre_report_table *whole, FILE *file, gyre_error *err) {
    int64_t *width = calloc((size_t)whole->columns_count + 1, sizeof *width);
    gyre_status status = width ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "table: out of memory (page)");
    table_block block = {0, 0};
    if (whole->caption) {
        cli_page_paragraph(file, "1", whole->caption);
        fputc('\n', file);
    }
    do {
        if (block.end) fputc('\n', file);
        if (!status) status = table_block_next(whole, file, &block, err);
        if (!status) status = table_block_head(whole, block, width, file, err);
        if (!status) status = table_block_rows(whole, &(table_rows){block, 0, whole->rows}, width, file, err);
    } while (!status && block.end < whole->columns_count);
    free(width);
    if (status || !whole->note) return status;
    fputc('\n', file);
    cli_page_fold(&(cli_fold){file, cli_page_width(file), 0, 2, cli_use_color(file) ? "2" : NULL}, whole->note);
    return status;
}
