/* lab_rows.c: prints each row of the tables as soon as it is known, in the order of the tables, which is that of the
 * work.  Of a table that is wider than the terminal, the other blocks follow when all rows are known. */
#include "tools/cli/cli_page.h"
#include "tools/lab/lab_findings.h"
#include "tools/lab/lab_tables.h"
#include <string.h>

enum { ENCODINGS, METHODS, SLOPES, TABLES, HEADINGS = 2 /* of the table of methods */ };

int lab_rows_count(const lab *l) {
    return l->plan.encodings_count + (l->plan.rope >= 0 ? l->plan.methods_count + l->plan.tuned_rows : 0) +
           l->plan.stretched_count;
}

/* out = the table that is printed now. */
static int current_table(const lab *l) {
    static const int order[2][TABLES] = {{ENCODINGS, METHODS, SLOPES}, {METHODS, ENCODINGS, SLOPES}};
    return order[l->plan.methods_first][l->printed.tables];
}

static int64_t rows_of(const lab *l, int table) {
    return table == ENCODINGS  ? l->plan.encodings_count
           : table == SLOPES   ? l->plan.stretched_count
           : l->plan.rope >= 0 ? l->plan.methods_count + l->plan.tuned_rows + HEADINGS
                               : 0;
}

/* out = NULL for a heading. */
static const lab_row *row_at(const lab *l, int table, int64_t at) {
    if (table == ENCODINGS) return &l->encodings[at];
    if (table == SLOPES) return &l->stretched[at];
    const int tuned = at > l->plan.methods_count;
    const int64_t of_part = at - (tuned ? l->plan.methods_count + 1 : 0);
    if (of_part == 0) return NULL;
    return tuned ? &l->tuned[of_part - 1] : &l->methods[of_part - 1];
}

int lab_row_begun(const lab_row *row) {
    return row->cells[0][0].measured;
}

/* The first row of a part is measured first. */
int lab_has_rows(const lab *l) {
    int begun = 0, count;
    for (int part = 0; part < LAB_PARTS; part++) {
        const lab_row *rows = lab_part_rows(l, (lab_part)part, &count);
        begun |= count && lab_row_begun(rows);
    }
    return begun;
}

int lab_rows_done(const lab *l) {
    int done = 0;
    for (int table = 0; table < TABLES; table++)
        for (int64_t at = 0; at < rows_of(l, table); at++) {
            const lab_row *row = row_at(l, table, at);
            done += row && row->seeds_done == l->plan.seeds;
        }
    return done;
}

/* What is best is not known before the last row. */
static result_table make_table(const lab *l) {
    static result_table (*const make[TABLES])(const lab *l, lab_layout layout) = {lab_table_encodings, lab_table_methods,
                                                                                  lab_table_slopes};
    result_table t = make[current_table(l)](l, LAB_ON_TERMINAL);
    for (int64_t c = 0; c < t.table.columns_count; c++)
        t.columns[c].emphasis = GYRE_REPORT_EMPHASIS_NONE;
    return t;
}

/* Samples in place of all numbers: the columns must fit rows that are not known yet.  The pairs are known. */
static result_table make_samples(const lab *l) {
    result_table t = make_table(l);
    for (int64_t i = 0; i < t.cells_count; i++) {
        const int64_t column = i % t.table.columns_count;
        if (column && column <= (int64_t)l->plan.contexts_count * l->plan.measures)
            t.cells[i] = gyre_report_cell_number(t.columns[column].decimals ? 100.25 : 100);
    }
    return t;
}

/* Prints the titles of the table and of its first block. */
static int print_head(lab *l, FILE *file) {
    lab_printed *p = &l->printed;
    result_table t = make_samples(l);
    table_block_next(&t.table, file, &p->first);
    cli_page_paragraph(file, "1", t.table.caption);
    fputc('\n', file);
    p->has_head = 1;
    const int status = table_block_head(&t.table, p->first, p->width, file);
    result_table_free(&t);
    return status;
}

/* Prints the rows next .. end - 1 of the first block, after the titles if they are the first. */
static int print_rows(lab *l, int64_t end, FILE *file) {
    const lab_printed *p = &l->printed;
    int status = p->has_head ? 0 : print_head(l, file);
    if (status) return status;
    result_table t = make_table(l);
    status = table_block_rows(&t.table, &(table_rows){p->first, p->next, end}, p->width, file);
    result_table_free(&t);
    return status;
}

/* out = the end of a row that begins here: a heading belongs to its first row. */
static int64_t row_end(const lab *l, int64_t at) {
    return at + (row_at(l, current_table(l), at) ? 1 : 2);
}

/* The rows that were begun, in the block after *block. */
static int print_block(lab *l, const result_table *t, table_block *block, FILE *file) {
    int64_t width[LAB_COLUMNS];
    result_table samples = make_samples(l);
    fputc('\n', file);
    table_block_next(&samples.table, file, block);
    int status = table_block_head(&samples.table, *block, width, file);
    result_table_free(&samples);
    for (int64_t at = 0, end; at < t->table.rows && !status; at = end) {
        end = row_end(l, at);
        if (lab_row_begun(row_at(l, current_table(l), end - 1)))
            status = table_block_rows(&t->table, &(table_rows){*block, at, end}, width, file);
    }
    return status;
}

static int end_table(lab *l, FILE *file) {
    const int table = current_table(l);
    char finding[LAB_FINDING];
    int status = 0;
    result_table t = make_table(l);
    for (table_block block = l->printed.first; l->printed.has_head && block.end < t.table.columns_count && !status;)
        status = print_block(l, &t, &block, file);
    if (l->printed.has_head && !status) {
        fputc('\n', file);
        if (t.table.note) cli_page_paragraph(file, "2", t.table.note);
        if (table != SLOPES && lab_finding(l, table == METHODS, finding)) {
            fputc('\n', file);
            for (char *mark; (mark = strchr(finding, '`'));) /* the markup of a page */
                memmove(mark, mark + 1, strlen(mark));
            cli_page_paragraph(file, NULL, finding);
        }
        fputc('\n', file);
    }
    result_table_free(&t);
    l->printed = (lab_printed){.tables = l->printed.tables + 1};
    return status;
}

/* out = 0 if there is nothing more to print for now. */
static int advance(lab *l, FILE *file, int *status) {
    lab_printed *p = &l->printed;
    if (p->tables == TABLES) return 0;
    if (p->next == rows_of(l, current_table(l))) {
        *status = end_table(l, file);
        return !*status;
    }
    const int64_t end = row_end(l, p->next);
    const lab_row *row = row_at(l, current_table(l), end - 1);
    if (row->seeds_done < l->plan.seeds && !l->stopped) return 0;
    if (lab_row_begun(row)) *status = print_rows(l, end, file);
    p->next = end;
    return !*status;
}

int lab_print_rows(lab *l, FILE *file) {
    int status = 0;
    cli_progress_erase();
    while (advance(l, file, &status)) {
    }
    return status;
}
