/* lab_rows.c: prints each row of the tables as soon as it is known, in the order of the tables, which is that of the
 * work. */
#include "tools/lab/lab_tables.h"
#include <stdlib.h>

enum { TABLES = 3, HEADINGS = 2 /* of the table of methods */ };

int lab_rows_count(const lab *l) {
    return l->plan.encodings_count + (l->plan.rope >= 0 ? l->plan.methods_count + l->plan.tuned_rows : 0) +
           l->plan.stretched_count;
}

static int64_t table_rows(const lab *l, int table) {
    return table == 0          ? l->plan.encodings_count
           : table == 2        ? l->plan.stretched_count
           : l->plan.rope >= 0 ? l->plan.methods_count + l->plan.tuned_rows + HEADINGS
                               : 0;
}

/* out = NULL for a heading. */
static const lab_row *row_at(const lab *l, int table, int64_t at) {
    if (table == 0) return &l->encodings[at];
    if (table == 2) return &l->stretched[at];
    const int tuned = at > l->plan.methods_count;
    const int64_t of_part = at - (tuned ? l->plan.methods_count + 1 : 0);
    if (of_part == 0) return NULL;
    return tuned ? &l->tuned[of_part - 1] : &l->methods[of_part - 1];
}

int lab_row_begun(const lab_row *row) {
    return row->cells[0][0].measured;
}

int lab_rows_done(const lab *l) {
    int done = 0;
    for (int table = 0; table < TABLES; table++)
        for (int64_t at = 0; at < table_rows(l, table); at++) {
            const lab_row *row = row_at(l, table, at);
            done += row && row->seeds_done == l->plan.seeds;
        }
    return done;
}

/* What is best is not known before the last row. */
static void make_table(const lab *l, lab_table *t) {
    if (l->printed.table == 0)
        lab_table_encodings(l, t);
    else if (l->printed.table == 2)
        lab_table_slopes(l, t);
    else
        lab_table_methods(l, t);
    for (int64_t c = 0; c < t->table.columns_count; c++)
        t->columns[c].emphasis = GYRE_REPORT_EMPHASIS_NONE;
}

/* Samples in place of all numbers: the columns must fit rows that are not known yet. */
static gyre_status print_head(lab *l, lab_table *t, FILE *file, gyre_error *err) {
    make_table(l, t);
    for (int64_t r = 0; r < t->table.rows; r++)
        for (int64_t c = 1; c < t->table.columns_count; c++)
            t->cells[r * t->table.columns_count + c] = gyre_report_cell_number(t->columns[c].decimals ? 100.25 : 100);
    /* kept, blended, divided: their titles fit */
    for (int64_t c = LAB_COLUMN(LAB_CONTEXTS, 0); c < t->table.columns_count; c++)
        for (int64_t r = 0; r < t->table.rows; r++)
            t->cells[r * t->table.columns_count + c] = gyre_report_cell_missing();
    l->printed.has_head = 1;
    return result_table_printed(gyre_report_table_print_head(&t->table, l->printed.width, file, cli_use_color(file), err),
                                file, err);
}

/* Prints the rows next .. end - 1, after the head if they are the first. */
static gyre_status print_rows(lab *l, lab_table *t, int64_t end, FILE *file, gyre_error *err) {
    gyre_status status = l->printed.has_head ? GYRE_OK : print_head(l, t, file, err);
    if (status) return status;
    make_table(l, t);
    return result_table_printed(
        gyre_report_table_print_rows(&t->table, l->printed.next, end, l->printed.width, file, cli_use_color(file), err),
        file, err);
}

static gyre_status end_table(lab *l, lab_table *t, FILE *file, gyre_error *err) {
    gyre_status status = GYRE_OK;
    if (l->printed.has_head) {
        make_table(l, t);
        status = result_table_printed(gyre_report_table_print_note(&t->table, file, cli_use_color(file), err), file, err);
        fputc('\n', file);
    }
    l->printed = (lab_printed){.table = l->printed.table + 1};
    return status;
}

/* out = 0 if there is nothing more to print for now. */
static int advance(lab *l, lab_table *t, FILE *file, gyre_status *status, gyre_error *err) {
    lab_printed *p = &l->printed;
    if (p->table == TABLES) return 0;
    if (p->next == table_rows(l, p->table)) {
        *status = end_table(l, t, file, err);
        return !*status;
    }
    const int64_t end = p->next + (row_at(l, p->table, p->next) ? 1 : 2); /* a heading goes with its first row */
    const lab_row *row = row_at(l, p->table, end - 1);
    if (row->seeds_done < l->plan.seeds && !l->stopped) return 0;
    if (lab_row_begun(row)) *status = print_rows(l, t, end, file, err);
    p->next = end;
    return !*status;
}

gyre_status lab_print_rows(lab *l, FILE *file, gyre_error *err) {
    gyre_status status = GYRE_OK;
    lab_table *t = malloc(sizeof *t);
    if (!t) return gyre_fail(err, GYRE_ENOMEM, "tables: out of memory (gyre lab)");
    cli_progress_erase();
    while (advance(l, t, file, &status, err)) {
    }
    free(t);
    return status;
}
