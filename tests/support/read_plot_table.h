/* read_plot_table.h: the numbers that gyre plot writes, by the names of their columns. */
#ifndef GYRE_TESTS_READ_PLOT_TABLE_H
#define GYRE_TESTS_READ_PLOT_TABLE_H
#include "run_command.h"

#include <math.h>

typedef struct table {
    json_t *root, *rows;
    int columns;
} table;

/* The output of a figure is larger than that of other commands. */
static inline table table_of(const char *arguments) {
    char line[512];
    json_error_t error;
    outcome *o;
    snprintf(line, sizeof line, "plot %s -o @numbers.json --force", arguments);
    o = run(line);
    if (o->exit) fail_msg("gyre %s: exit %d: %s", line, o->exit, o->err);
    table t = {.root = json_load_file(in_folder("numbers.json"), 0, &error)};
    if (!t.root) fail_msg("%s: %s", line, error.text);
    t.rows = json_object_get(t.root, "rows");
    t.columns = (int)json_array_size(json_object_get(t.root, "columns"));
    assert_true(json_array_size(t.rows) > 0);
    return t;
}

static inline void table_free(table *t) {
    json_decref(t->root);
}

/* out = the index of a column of that name and unit ("" = none). */
static inline int column_of(const table *t, const char *name, const char *unit) {
    for (int c = 0; c < t->columns; c++) {
        const json_t *column = json_array_get(json_object_get(t->root, "columns"), (size_t)c);
        const char *its = json_string_value(json_object_get(column, "unit"));
        if (strcmp(json_string_value(json_object_get(column, "name")), name) != 0) continue;
        assert_string_equal(its ? its : "", unit);
        return c;
    }
    fail_msg("no column %s", name);
    return 0;
}

static inline int64_t rows_of(const table *t) {
    return (int64_t)json_array_size(t->rows);
}

static inline double number(const table *t, int64_t row, int column) {
    const json_t *cell = json_array_get(json_array_get(t->rows, (size_t)row), (size_t)column);
    return json_is_number(cell) ? json_number_value(cell) : (double)NAN;
}

static inline const char *text(const table *t, int64_t row, int column) {
    return json_string_value(json_array_get(json_array_get(t->rows, (size_t)row), (size_t)column));
}

#endif
