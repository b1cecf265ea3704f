/* plot_table.c: the numbers of a figure, and how they are printed. */
#include "tools/cli/plain_stream.h"
#include "tools/common/utf8_text.h"
#include "tools/plot/plot.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void plot_table_columns(plot_table *t, const plot_column *columns) {
    t->columns = columns;
    for (t->columns_count = 0; columns[t->columns_count].name;)
        t->columns_count++;
}

void plot_table_free(plot_table *t) {
    free(t->cells);
    free(t->labels);
    *t = (plot_table){.rows = 0};
}

void plot_table_add(plot_table *t, const double *cells) {
    t->cells = cli_grow(t->cells, t->rows, (size_t)t->columns_count * sizeof *t->cells);
    memcpy(t->cells + t->rows++ * t->columns_count, cells, (size_t)t->columns_count * sizeof *cells);
}

double plot_table_label(plot_table *t, const char *text) {
    for (int i = 0; i < t->labels_count; i++)
        if (strcmp(t->labels[i], text) == 0) return i;
    t->labels = cli_grow(t->labels, t->labels_count, sizeof *t->labels);
    char *label = t->labels[t->labels_count];
    snprintf(label, PLOT_LABEL, "%s", text);
    label[utf8_complete_prefix(label, strlen(label))] = 0; /* cut after a whole character */
    return t->labels_count++;
}

double plot_table_number(const plot_table *t, int64_t row, int column) {
    return t->cells[row * t->columns_count + column];
}

const char *plot_table_text(const plot_table *t, int64_t row, int column) {
    return t->labels[(int)plot_table_number(t, row, column)];
}

int64_t plot_table_group_end(const plot_table *t, int64_t first, int column) {
    int64_t end = first + 1;
    while (end < t->rows && plot_table_number(t, end, column) == plot_table_number(t, first, column))
        end++;
    return end;
}

int plot_table_groups(const plot_table *t, int column) {
    int count = 0;
    for (int64_t first = 0; first < t->rows; first = plot_table_group_end(t, first, column))
        count++;
    return count;
}

int plot_group_next(const plot_table *t, int column, plot_group *g) {
    g->index += g->begun;
    g->begun = 1;
    g->first = g->end;
    if (g->first >= t->rows) return 0;
    g->end = plot_table_group_end(t, g->first, column);
    g->name = t->columns[column].unit ? NULL : plot_table_text(t, g->first, column);
    return 1;
}

/* -- printing -- */
int plot_table_json(const plot_table *t, const char *kind, FILE *file) {
    json_t *columns = json_array(), *rows = json_array();
    for (int c = 0; c < t->columns_count; c++) {
        const char *unit = t->columns[c].unit;
        (void)json_array_append_new(
            columns, JSON_OBJECT("name", JSON(t->columns[c].name), "unit", cli_json_text(unit && *unit ? unit : NULL)));
    }
    for (int64_t r = 0; r < t->rows; r++) {
        json_t *cells = json_array();
        for (int c = 0; c < t->columns_count; c++)
            (void)json_array_append_new(cells, t->columns[c].unit ? JSON(plot_table_number(t, r, c))
                                                                  : JSON(plot_table_text(t, r, c)));
        (void)json_array_append_new(rows, cells);
    }
    return cli_json_write(file, JSON_OBJECT("kind", JSON(kind), "title", JSON(t->title), "columns", columns, "rows", rows));
}

/* As in RFC 4180, quotes around what holds a comma or a quote.  A line break of a name is spelt, as in any text here:
 * between quotes too it would begin a line of what is printed. */
static void put_csv_text(FILE *file, const char *name) {
    const char *text = plain_line(name);
    const int quoted = strpbrk(text, ",\"") != NULL;
    if (quoted) fputc('"', file);
    for (; *text; text++) {
        if (*text == '"') fputc('"', file);
        fputc(*text, file);
    }
    if (quoted) fputc('"', file);
}

int plot_table_csv(const plot_table *t, FILE *file) {
    for (int c = 0; c < t->columns_count; c++) {
        char name[PLOT_LABEL];
        const char *unit = t->columns[c].unit;
        snprintf(name, sizeof name, unit && *unit ? "%s (%s)" : "%s", t->columns[c].name, unit);
        if (c) fputc(',', file);
        put_csv_text(file, name);
    }
    fputc('\n', file);
    for (int64_t r = 0; r < t->rows; r++) {
        for (int c = 0; c < t->columns_count; c++) {
            if (c) fputc(',', file);
            const double value = plot_table_number(t, r, c);
            if (!t->columns[c].unit)
                put_csv_text(file, plot_table_text(t, r, c));
            else if (isfinite(value))
                fprintf(file, "%.17g", value);
        }
        fputc('\n', file);
    }
    return 0;
}
