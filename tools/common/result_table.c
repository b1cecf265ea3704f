/* result_table.c: tables that grow, tables of JSON objects, and their printing, cut between columns where one is wider than
 * the page. */
#include "tools/common/result_table.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_memory.h"
#include "tools/cli/cli_output.h"
#include "tools/cli/cli_page.h"
#include "tools/cli/cli_progress.h"
#include "tools/cli/cli_signals.h"
#include "util/plain_numbers.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 256 };

static const char *own(result_table *t, const char *text) {
    const size_t size = strlen(text) + 1;
    char *copy = cli_alloc((int64_t)size, 1);
    t->texts = cli_grow(t->texts, t->texts_count, sizeof *t->texts);
    t->texts[t->texts_count++] = copy;
    return memcpy(copy, text, size);
}

const char *result_text(result_table *t, const char *format, ...) {
    char text[MAX_TEXT];
    va_list arguments;
    va_start(arguments, format);
    (void)gyre_plain_vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return own(t, text);
}

void result_column(result_table *t, gyre_report_column column) {
    t->columns = cli_grow(t->columns, t->table.columns_count, sizeof *t->columns);
    t->columns[t->table.columns_count++] = column;
    t->table.columns = t->columns;
}

void result_cell(result_table *t, gyre_report_cell cell) {
    t->cells = cli_grow(t->cells, t->cells_count, sizeof *t->cells);
    t->cells[t->cells_count++] = cell;
    t->table.cells = t->cells;
    t->table.rows = t->cells_count / t->table.columns_count;
}

void result_number(result_table *t, double value) {
    result_cell(t, gyre_report_cell_number(value));
}

void result_name(result_table *t, const char *text) {
    result_cell(t, text ? gyre_report_cell_text(text) : gyre_report_cell_missing());
}

void result_heading(result_table *t, const char *text) {
    for (int64_t c = 0; c < t->table.columns_count; c++)
        result_cell(t, c ? gyre_report_cell_missing() : gyre_report_cell_heading(text));
}

void result_table_free(result_table *t) {
    for (int64_t i = 0; i < t->texts_count; i++)
        free(t->texts[i]);
    free(t->texts);
    free(t->columns);
    free(t->cells);
}

/* -- of JSON -- */
static const json_t *value_at(const json_t *object, const char *path) {
    for (char key[48]; object && *path; path += path[strlen(key)] ? strlen(key) + 1 : strlen(key)) {
        snprintf(key, sizeof key, "%.*s", (int)strcspn(path, "."), path);
        object =
            json_is_array(object) ? json_array_get(object, (size_t)strtol(key, NULL, 10)) : json_object_get(object, key);
    }
    return object;
}

result_table result_table_of(json_t *rows, const result_field *fields, int64_t count) {
    result_table t = RESULT_TABLE_INIT;
    for (int64_t c = 0; c < count; c++)
        result_column(&t, fields[c].column);
    for (size_t r = 0; r < json_array_size(rows); r++)
        for (int64_t c = 0; c < count; c++) {
            const json_t *value = value_at(json_array_get(rows, r), fields[c].path);
            if (fields[c].text)
                result_name(&t, fields[c].text(&t, value));
            else if (json_is_string(value))
                result_name(&t, own(&t, json_string_value(value)));
            else
                result_number(&t, json_is_number(value) ? json_number_value(value) : NAN);
        }
    json_decref(rows);
    return t;
}

/* -- use -- */
int result_table_show(result_table t, FILE *file) {
    const int status = result_table_print(&t.table, file);
    result_table_free(&t);
    return status;
}

void result_table_add(result_table t, gyre_report_page *page) {
    (void)gyre_report_page_table(page, &t.table); /* the page keeps the first error */
    result_table_free(&t);
}

int64_t result_best_row(int64_t rows, double (*cost)(const void *of, int64_t row), const void *of) {
    int64_t best = -1;
    double least = NAN;
    for (int64_t r = 0; r < rows; r++) {
        const double its = cost(of, r);
        if (isnan(its) || its >= least) continue;
        best = r;
        least = its;
    }
    return best;
}

/* -- printing -- */
/* The columns of a block as a table. */
typedef struct block_table {
    gyre_report_table table;
    gyre_report_column *columns;
    gyre_report_cell *cells;
} block_table;

static block_table make_block(const gyre_report_table *whole, table_block of) {
    const int64_t count = 1 + of.end - of.first;
    block_table out = {.table = *whole,
                       .columns = cli_alloc(count, sizeof *out.columns),
                       .cells = cli_alloc(whole->rows * count, sizeof *out.cells)};
    for (int64_t c = 0; c < count; c++) {
        const int64_t from = c ? of.first + c - 1 : 0;
        out.columns[c] = whole->columns[from];
        for (int64_t r = 0; r < whole->rows; r++)
            out.cells[r * count + c] = whole->cells[r * whole->columns_count + from];
    }
    out.table.caption = out.table.note = NULL;
    out.table.columns = out.columns;
    out.table.columns_count = count;
    out.table.cells = out.cells;
    return out;
}

/* Frees the block after a gyre_report_table_... to `file` has returned status.  out = 0, or CLI_FAILED with the error
 * printed; that of EIO names what the stream writes to. */
static int end_block(block_table *block, gyre_status status, FILE *file, const gyre_error *err) {
    const int code = errno;
    const char *name = cli_output_name(file);
    free(block->columns);
    free(block->cells);
    if (status == GYRE_ENOMEM) cli_end_without_memory();
    if (status == GYRE_EIO && code && name) return cli_fail("%.380s: %s (writing the result)", name, strerror(code));
    return status ? cli_fail_error(err) : 0;
}

/* out = columns of the screen that a row of the block takes. */
static int64_t measure(const gyre_report_table *whole, table_block of, FILE *file) {
    gyre_error err = {0, ""};
    block_table block = make_block(whole, of);
    int64_t *widths = cli_alloc(block.table.columns_count, sizeof *widths), width = 0;
    (void)end_block(&block, gyre_report_table_measure(&block.table, widths, &width, &err), file, &err);
    free(widths);
    return width;
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

void table_block_next(const gyre_report_table *whole, FILE *file, table_block *block) {
    const int width = cli_page_width(file);
    int cuts = 0;
    block->first = block->end > 1 ? block->end : 1;
    for (block->end = block->first; block->end < whole->columns_count;) {
        const int64_t more = cuts ? 1 : group_size(whole, block->end);
        const int64_t taken = measure(whole, (table_block){block->first, block->end + more}, file);
        if (taken > width && block->end > block->first) break;
        if (taken > width && more > 1)
            cuts = 1; /* a group that is too wide alone */
        else
            block->end += more;
    }
}

int table_block_head(const gyre_report_table *whole, table_block of, int64_t *width, FILE *file) {
    gyre_error err = {0, ""};
    block_table block = make_block(whole, of);
    return end_block(&block, gyre_report_table_print_head(&block.table, width, file, cli_use_color(file), &err), file, &err);
}

int table_block_rows(const gyre_report_table *whole, const table_rows *rows, const int64_t *width, FILE *file) {
    gyre_error err = {0, ""};
    block_table block = make_block(whole, rows->block);
    const gyre_status status =
        gyre_report_table_print_rows(&block.table, rows->first, rows->end, width, file, cli_use_color(file), &err);
    return end_block(&block, status, file, &err);
}

int result_table_print(const gyre_report_table *whole, FILE *file) {
    int64_t *width = cli_alloc(whole->columns_count, sizeof *width);
    table_block block = {0, 0};
    int status = 0;
    if (whole->caption) {
        cli_page_paragraph(file, "1", whole->caption);
        fputc('\n', file);
    }
    do {
        if (block.end) fputc('\n', file);
        table_block_next(whole, file, &block);
        status = table_block_head(whole, block, width, file);
        if (!status) status = table_block_rows(whole, &(table_rows){block, 0, whole->rows}, width, file);
    } while (!status && block.end < whole->columns_count);
    free(width);
    if (status || !whole->note) return status;
    fputc('\n', file);
    cli_page_fold(&(cli_fold){file, cli_page_width(file), 0, 2, cli_use_color(file) ? "2" : NULL}, whole->note);
    return status;
}
