/* lab_blocks.c: a table that is wider than the terminal, in blocks of whole contexts under the names of the rows. */
#include "tools/cli/cli_page.h"
#include "tools/lab/lab_tables.h"
#include <stdlib.h>
#include <string.h>

/* *out = the first column, and columns first .. end - 1. */
static void take_columns(const lab_table *t, int64_t first, int64_t end, lab_table *out) {
    const gyre_report_table *from = &t->table;
    const int64_t count = 1 + end - first;
    out->table = *from;
    out->table.caption = out->table.note = NULL;
    out->table.columns = out->columns;
    out->table.columns_count = count;
    out->table.cells = out->cells;
    for (int64_t c = 0; c < count; c++)
        out->columns[c] = from->columns[c ? first + c - 1 : 0];
    for (int64_t r = 0; r < from->rows; r++)
        for (int64_t c = 0; c < count; c++)
            out->cells[r * count + c] = from->cells[r * from->columns_count + (c ? first + c - 1 : 0)];
}

static gyre_status make_block(const lab_table *t, const lab_printed *p, int block, lab_table **out, gyre_error *err) {
    *out = malloc(sizeof **out);
    if (!*out) return gyre_fail(err, GYRE_ENOMEM, "tables: out of memory (gyre lab)");
    take_columns(t, block ? p->ends[block - 1] : 1, p->ends[block], *out);
    return GYRE_OK;
}

/* out = the end of the columns of one context, or of the pairs. */
static int64_t part_end(const lab_table *t, int64_t first) {
    const int64_t end = first + t->measures;
    return end < t->table.columns_count ? end : t->table.columns_count;
}

gyre_status lab_blocks_plan(const lab_table *t, lab_printed *p, FILE *file, gyre_error *err) {
    const int columns = cli_page_width(file);
    gyre_status status = GYRE_OK;
    p->blocks = 0;
    for (int64_t first = 1; first < t->table.columns_count && !status; first = p->ends[p->blocks++]) {
        p->ends[p->blocks] = part_end(t, first);
        for (int64_t end = p->ends[p->blocks], wide = 0; end < t->table.columns_count && !status;) {
            lab_table *wider = malloc(sizeof *wider);
            if (!wider) return gyre_fail(err, GYRE_ENOMEM, "tables: out of memory (gyre lab)");
            end = part_end(t, end);
            take_columns(t, first, end, wider);
            status = gyre_report_table_measure(&wider->table, p->width, &wide, err);
            free(wider);
            if (wide > columns) break;
            p->ends[p->blocks] = end;
        }
    }
    return status;
}

gyre_status lab_block_head(const lab_table *t, int block, lab_printed *p, FILE *file, gyre_error *err) {
    lab_table *of = NULL;
    gyre_status status = make_block(t, p, block, &of, err);
    if (!status)
        status = result_table_printed(gyre_report_table_print_head(&of->table, p->width, file, cli_use_color(file), err),
                                      file, err);
    free(of);
    return status;
}

gyre_status lab_block_rows(const lab_table *t, int block, int64_t first, int64_t end, const lab_printed *p, FILE *file,
                           gyre_error *err) {
    lab_table *of = NULL;
    gyre_status status = make_block(t, p, block, &of, err);
    if (!status)
        status = result_table_printed(
            gyre_report_table_print_rows(&of->table, first, end, p->width, file, cli_use_color(file), err), file, err);
    free(of);
    return status;
}

gyre_status lab_blocks_print(const lab_table *t, FILE *file, gyre_error *err) {
    lab_printed p = {.tables = 0};
    gyre_status status = lab_blocks_plan(t, &p, file, err);
    if (t->table.caption) cli_page_paragraph(file, "1", t->table.caption);
    for (int block = 0; block < p.blocks && !status; block++) {
        fputc('\n', file);
        status = lab_block_head(t, block, &p, file, err);
        if (!status) status = lab_block_rows(t, block, 0, t->table.rows, &p, file, err);
    }
    fputc('\n', file);
    if (t->table.note) cli_page_paragraph(file, "2", t->table.note);
    fputc('\n', file);
    return status;
}
