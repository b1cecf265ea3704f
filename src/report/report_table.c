/* report_table.c: tables for the terminal and for HTML. */
#include "report/report_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    GAP = 2,
    GROUP_GAP = 4,
    NARROW = 34,     /* characters of a row that a small screen has room for */
    MOST_ABREAST = 5 /* cells side by side there, under titles that all parts of a row share */
};

static const char bold[] = "\033[1m", dim[] = "\033[2m", reset[] = "\033[0m";

gyre_report_cell gyre_report_cell_number(double value) {
    return (gyre_report_cell){GYRE_REPORT_CELL_NUMBER, NULL, value, 0};
}

gyre_report_cell gyre_report_cell_text(const char *text) {
    return (gyre_report_cell){GYRE_REPORT_CELL_TEXT, text, 0, 0};
}

gyre_report_cell gyre_report_cell_heading(const char *text) {
    return (gyre_report_cell){GYRE_REPORT_CELL_HEADING, text, 0, 0};
}

gyre_report_cell gyre_report_cell_missing(void) {
    return (gyre_report_cell){GYRE_REPORT_CELL_MISSING, NULL, 0, 0};
}

/* -- cells -- */
static gyre_status check(const gyre_report_table *t, gyre_error *err) {
    if (!t || t->size != sizeof *t)
        return gyre_fail(err, GYRE_EINVAL, "table: its size is not set by GYRE_REPORT_TABLE_INIT (report)");
    if (t->columns_count < 1 || !t->columns || t->rows < 0 || (t->rows && !t->cells) ||
        t->rows > INT64_MAX / (int64_t)sizeof(gyre_report_cell) / t->columns_count)
        return gyre_fail(err, GYRE_EINVAL, "table: no columns, or no cells for its %lld rows (report)", (long long)t->rows);
    for (int64_t c = 0; c < t->columns_count; c++) {
        const gyre_report_column *column = &t->columns[c];
        if (column->decimals < 0 || column->decimals > 17 || (unsigned)column->align > GYRE_REPORT_ALIGN_CENTER ||
            (unsigned)column->emphasis > GYRE_REPORT_EMPHASIS_HIGHEST)
            return gyre_fail(err, GYRE_EINVAL,
                             "table: column %lld: decimals %d, align %d or best %d is out of range (report)", (long long)c,
                             column->decimals, (int)column->align, (int)column->emphasis);
    }
    return GYRE_OK;
}

static const gyre_report_cell *cell_at(const gyre_report_table *t, int64_t row, int64_t column) {
    return &t->cells[row * t->columns_count + column];
}

static int is_heading(const gyre_report_table *t, int64_t row) {
    return cell_at(t, row, 0)->kind == GYRE_REPORT_CELL_HEADING;
}

static int is_number(const gyre_report_cell *cell) {
    return cell->kind == GYRE_REPORT_CELL_NUMBER && !isnan(cell->value);
}

/* out = what the cell shows: its own text, or `number` filled in; NULL for a dash. */
static const char *cell_text(const gyre_report_column *column, const gyre_report_cell *cell, char number[64]) {
    if (cell->kind == GYRE_REPORT_CELL_TEXT || cell->kind == GYRE_REPORT_CELL_HEADING) return cell->text ? cell->text : "";
    if (!is_number(cell)) return NULL;
    const int large = fabs(cell->value) >= 1e6;
    gyre_report_format_number(number, 'f', large ? 2 : column->decimals, cell->value);
    return number;
}

static const char *unit_of(const gyre_report_column *column, const gyre_report_cell *cell) {
    return is_number(cell) && column->unit ? column->unit : "";
}

/* out = 1 if the number is the best of its group of rows, from one heading to the next. */
static int is_best(const gyre_report_table *t, int64_t row, int64_t c) {
    const gyre_report_column *column = &t->columns[c];
    if (column->emphasis == GYRE_REPORT_EMPHASIS_NONE || !is_number(cell_at(t, row, c))) return 0;
    int64_t first = row, last = row, numbers = 0;
    while (first > 0 && !is_heading(t, first - 1))
        first--;
    while (last + 1 < t->rows && !is_heading(t, last + 1))
        last++;
    const gyre_report_cell *best = cell_at(t, row, c);
    for (int64_t r = first; r <= last; r++) {
        const gyre_report_cell *cell = cell_at(t, r, c);
        if (!is_number(cell)) continue;
        numbers++;
        if (column->emphasis == GYRE_REPORT_EMPHASIS_LOWEST ? cell->value < best->value : cell->value > best->value)
            best = cell;
    }
    char own[64], other[64];
    if (column->emphasis == GYRE_REPORT_EMPHASIS_HIGHEST && best->value <= 0) return 0; /* nobody succeeded */
    return numbers > 1 && strcmp(cell_text(column, cell_at(t, row, c), own), cell_text(column, best, other)) == 0;
}

static gyre_report_align align_of(const gyre_report_table *t, int64_t c) {
    if (t->columns[c].align != GYRE_REPORT_ALIGN_AUTO) return t->columns[c].align;
    return c == 0 ? GYRE_REPORT_ALIGN_LEFT : GYRE_REPORT_ALIGN_RIGHT;
}

/* out = one past the last column under the same group heading as c. */
static int64_t group_end(const gyre_report_table *t, int64_t c) {
    const char *group = t->columns[c].group;
    int64_t end = c + 1;
    while (end < t->columns_count &&
           (group && t->columns[end].group ? strcmp(group, t->columns[end].group) == 0 : group == t->columns[end].group))
        end++;
    return end;
}

static int has_groups(const gyre_report_table *t) {
    for (int64_t c = 0; c < t->columns_count; c++)
        if (t->columns[c].group) return 1;
    return 0;
}

/* -- the terminal -- */
static int64_t gap_before(const gyre_report_table *t, int64_t c) {
    if (c == 0) return 0;
    return has_groups(t) && group_end(t, c - 1) == c ? GROUP_GAP : GAP;
}

static int64_t span_width(const gyre_report_table *t, const int64_t *width, int64_t first, int64_t end) {
    int64_t sum = 0;
    for (int64_t c = first; c < end; c++)
        sum += width[c] + (c > first ? gap_before(t, c) : 0);
    return sum;
}

static void measure_columns(const gyre_report_table *t, int64_t *width) {
    char number[64];
    for (int64_t c = 0; c < t->columns_count; c++) {
        width[c] = gyre_report_display_width(t->columns[c].title);
        for (int64_t r = 0; r < t->rows; r++) {
            if (is_heading(t, r)) continue;
            const gyre_report_cell *cell = cell_at(t, r, c);
            const char *text = cell_text(&t->columns[c], cell, number);
            const int64_t w =
                text ? gyre_report_display_width(text) + gyre_report_display_width(unit_of(&t->columns[c], cell)) : 1;
            if (w > width[c]) width[c] = w;
        }
    }
    for (int64_t c = 0; c < t->columns_count; c = group_end(t, c)) {
        const int64_t missing_width =
            gyre_report_display_width(t->columns[c].group) - span_width(t, width, c, group_end(t, c));
        if (missing_width > 0) width[group_end(t, c) - 1] += missing_width;
    }
}

/* The pieces of a cell's line.  `style` is around the text alone, so that spaces stay plain. */
typedef struct styled_text {
    const char *text, *unit, *style;
    int64_t width;
    gyre_report_align align;
} styled_text;

static void put_styled_text(gyre_report_buffer *out, const styled_text *p) {
    const int64_t spaces = p->width - gyre_report_display_width(p->text) - gyre_report_display_width(p->unit);
    const int64_t left = p->align == GYRE_REPORT_ALIGN_RIGHT    ? spaces
                         : p->align == GYRE_REPORT_ALIGN_CENTER ? spaces / 2
                                                                : 0;
    gyre_report_put_spaces(out, left);
    if (p->style) gyre_report_put(out, p->style);
    gyre_report_put_sanitized(out, p->text);
    gyre_report_put_sanitized(out, p->unit);
    if (p->style) gyre_report_put(out, reset);
    gyre_report_put_spaces(out, spaces - left);
}

static void end_line(gyre_report_buffer *out) {
    while (!out->failed && out->length && out->text[out->length - 1] == ' ')
        out->length--;
    gyre_report_put(out, "\n");
}

static void put_line(gyre_report_buffer *out, const char *text, const char *style) {
    const styled_text p = {text, NULL, style, 0, GYRE_REPORT_ALIGN_LEFT};
    put_styled_text(out, &p);
    end_line(out);
}

static void put_column_titles(gyre_report_buffer *out, const gyre_report_table *t, const int64_t *width, int terminal) {
    if (has_groups(t)) {
        for (int64_t c = 0; c < t->columns_count; c = group_end(t, c)) {
            const int64_t columns_width = span_width(t, width, c, group_end(t, c));
            const styled_text p = {t->columns[c].group, NULL, terminal && t->columns[c].group ? bold : NULL, columns_width,
                                   GYRE_REPORT_ALIGN_CENTER};
            gyre_report_put_spaces(out, gap_before(t, c));
            put_styled_text(out, &p);
        }
        end_line(out);
    }
    for (int64_t c = 0; c < t->columns_count; c++) {
        const styled_text p = {t->columns[c].title, NULL, terminal ? dim : NULL, width[c], align_of(t, c)};
        gyre_report_put_spaces(out, gap_before(t, c));
        put_styled_text(out, &p);
    }
    end_line(out);
}

static void put_row(gyre_report_buffer *out, const gyre_report_table *t, int64_t row, const int64_t *width, int terminal) {
    char number[64];
    for (int64_t c = 0; c < t->columns_count; c++) {
        const gyre_report_cell *cell = cell_at(t, row, c);
        const char *text = cell_text(&t->columns[c], cell, number);
        const char *style = !terminal ? NULL : !text ? dim : is_best(t, row, c) ? bold : NULL;
        const styled_text p = {text ? text : "-", unit_of(&t->columns[c], cell), style, width[c], align_of(t, c)};
        gyre_report_put_spaces(out, gap_before(t, c));
        put_styled_text(out, &p);
    }
    end_line(out);
}

static void put_head(gyre_report_buffer *out, const gyre_report_table *t, const int64_t *width, int terminal) {
    if (t->caption) {
        put_line(out, t->caption, terminal ? bold : NULL);
        gyre_report_put(out, "\n");
    }
    put_column_titles(out, t, width, terminal);
}

static void put_rows(gyre_report_buffer *out, const gyre_report_table *t, int64_t first, int64_t end, const int64_t *width,
                     int terminal) {
    for (int64_t r = first; r < end; r++)
        if (is_heading(t, r)) {
            gyre_report_put(out, "\n");
            put_line(out, cell_at(t, r, 0)->text, terminal ? bold : NULL);
        } else
            put_row(out, t, r, width, terminal);
}

static void put_note(gyre_report_buffer *out, const gyre_report_table *t, int terminal) {
    if (!t->note) return;
    gyre_report_put(out, "\n");
    put_line(out, t->note, terminal ? dim : NULL);
}

/* Prints the text in `out` and frees it. */
static gyre_status print_buffer(gyre_report_buffer *out, FILE *file, gyre_error *err) {
    char *text = NULL;
    if (gyre_report_buffer_take(out, &text, "table", err)) return GYRE_ENOMEM;
    errno = 0;
    const int failed = fputs(text, file) < 0 || fflush(file) != 0;
    const int code = errno;
    free(text);
    if (!failed) return GYRE_OK;
    gyre_fail(err, GYRE_EIO, "table: %s (report)", code ? strerror(code) : "the stream is broken");
    errno = code; /* a caller that knows the stream's target may set it */
    return GYRE_EIO;
}

static gyre_status check_print(const gyre_report_table *table, const FILE *file, gyre_error *err) {
    const gyre_status status = check(table, err);
    if (status || file) return status;
    return gyre_fail(err, GYRE_EINVAL, "table: no file to print to (report)");
}

gyre_status gyre_report_table_print(const gyre_report_table *table, FILE *file, int terminal, gyre_error *err) {
    const gyre_status status = check_print(table, file, err);
    if (status) return status;
    int64_t *width = calloc((size_t)table->columns_count, sizeof *width);
    gyre_report_buffer out = {NULL, 0, 0, !width};
    if (width) {
        measure_columns(table, width);
        put_head(&out, table, width, terminal);
        put_rows(&out, table, 0, table->rows, width, terminal);
        put_note(&out, table, terminal);
    }
    free(width);
    return print_buffer(&out, file, err);
}

gyre_status gyre_report_table_print_head(const gyre_report_table *table, int64_t *width, FILE *file, int terminal,
                                         gyre_error *err) {
    const gyre_status status = check_print(table, file, err);
    if (status) return status;
    gyre_report_buffer out = {NULL, 0, 0, 0};
    measure_columns(table, width);
    put_head(&out, table, width, terminal);
    return print_buffer(&out, file, err);
}

gyre_status gyre_report_table_measure(const gyre_report_table *table, int64_t *width, int64_t *row_width, gyre_error *err) {
    const gyre_status status = check(table, err);
    if (status) return status;
    measure_columns(table, width);
    *row_width = span_width(table, width, 0, table->columns_count);
    return GYRE_OK;
}

gyre_status gyre_report_table_print_rows(const gyre_report_table *table, int64_t first, int64_t end, const int64_t *width,
                                         FILE *file, int terminal, gyre_error *err) {
    const gyre_status status = check_print(table, file, err);
    if (status) return status;
    if (first < 0 || end < first || end > table->rows)
        return gyre_fail(err, GYRE_EINVAL, "table: rows %lld to %lld of %lld (report)", (long long)first, (long long)end,
                         (long long)table->rows);
    gyre_report_buffer out = {NULL, 0, 0, 0};
    put_rows(&out, table, first, end, width, terminal);
    return print_buffer(&out, file, err);
}

gyre_status gyre_report_table_print_note(const gyre_report_table *table, FILE *file, int terminal, gyre_error *err) {
    const gyre_status status = check_print(table, file, err);
    if (status) return status;
    gyre_report_buffer out = {NULL, 0, 0, 0};
    put_note(&out, table, terminal);
    return print_buffer(&out, file, err);
}

/* -- HTML -- */
/* A row that is too wide for a small screen folds there: cells of a group are side by side after the group's name, under
 * the titles of the first group; without groups each cell is a line behind its title.  The style sheet does it, with
 * what is written here: classes, names of groups that wide screens hide, and titles as data-label. */
typedef struct folds {
    int is_wide;       /* folds at all */
    int64_t abreast;   /* cells beside each other; 0 = one a line */
    int shares_titles; /* the column titles stay, those of the first group */
    int64_t first;     /* the first column with a group */
} folds;

static folds folds_of(const gyre_report_table *t, const int64_t *width) {
    folds f = {.is_wide = span_width(t, width, 0, t->columns_count) > NARROW};
    if (!f.is_wide || !has_groups(t)) return f;
    while (!t->columns[f.first].group)
        f.first++;
    f.abreast = group_end(t, f.first) - f.first;
    f.shares_titles = f.abreast <= MOST_ABREAST;
    if (!f.shares_titles) f.abreast = MOST_ABREAST - 1;
    return f;
}

static int begins_group(const gyre_report_table *t, int64_t c) {
    return t->columns[c].group && (c == 0 || group_end(t, c - 1) == c);
}

/* out = 1 if, folded, the cell of column c is under its own title. */
static int is_under_title(const gyre_report_table *t, const folds *f, int64_t c) {
    int64_t first = c;
    while (!begins_group(t, first) && first > 0)
        first--;
    const int64_t at = f->first + c - first;
    return f->shares_titles && begins_group(t, first) && c - first < f->abreast && t->columns[c].title &&
           t->columns[at].title && strcmp(t->columns[at].title, t->columns[c].title) == 0;
}

static const char *align_class(const gyre_report_table *t, int64_t c) {
    static const char *const names[] = {"", "left", "right", "center"};
    return names[align_of(t, c)];
}

static void put_html_groups(gyre_report_buffer *out, const gyre_report_table *t) {
    gyre_report_put(out, "<tr class=\"groups\">");
    for (int64_t c = 0; c < t->columns_count; c = group_end(t, c)) {
        const char *group = t->columns[c].group;
        gyre_report_printf(out, group ? "<th scope=\"colgroup\" colspan=\"%lld\"><span>" : "<td colspan=\"%lld\">",
                           (long long)(group_end(t, c) - c));
        gyre_report_put_html(out, group);
        gyre_report_put(out, group ? "</span></th>" : "</td>");
    }
    gyre_report_put(out, "</tr>\n");
}

static void put_html_column_titles(gyre_report_buffer *out, const gyre_report_table *t, const folds *f) {
    gyre_report_put(out, "<thead>\n");
    if (has_groups(t)) put_html_groups(out, t);
    gyre_report_put(out, "<tr>");
    for (int64_t c = 0; c < t->columns_count; c++) {
        const int is_shared = f->shares_titles && (c == 0 || (c >= f->first && c < f->first + f->abreast));
        gyre_report_printf(out, "<th scope=\"col\" class=\"%s%s%s\">", align_class(t, c), is_shared ? " shared" : "",
                           begins_group(t, c) ? " begin" : "");
        gyre_report_put_html(out, t->columns[c].title);
        gyre_report_put(out, "</th>");
    }
    gyre_report_put(out, "</tr>\n</thead>\n");
}

static void put_fold(gyre_report_buffer *out, const gyre_report_table *t, const folds *f, int64_t c) {
    if (!f->abreast || !begins_group(t, c)) return;
    gyre_report_put(out, "<td class=\"part\" aria-hidden=\"true\">");
    gyre_report_put_html(out, t->columns[c].group);
    gyre_report_put(out, "</td>");
}

static void put_html_cell(gyre_report_buffer *out, const gyre_report_table *t, const folds *f, int64_t row, int64_t c) {
    char number[64], heat[64];
    const gyre_report_cell *cell = cell_at(t, row, c);
    const char *text = cell_text(&t->columns[c], cell, number);
    const char *tag = c == 0 ? "th" : "td";
    gyre_report_printf(out, "<%s%s class=\"%s%s%s%s\"", tag, c == 0 ? " scope=\"row\"" : "", align_class(t, c),
                       text ? "" : " missing", is_best(t, row, c) ? " best" : "", cell->heat > 0 ? " heat" : "");
    if (cell->heat > 0) {
        gyre_report_format_number(heat, 'f', 3, cell->heat < 1 ? cell->heat : 1);
        gyre_report_printf(out, " style=\"--heat:%s\"", heat);
    }
    if (f->is_wide && c && !is_under_title(t, f, c)) {
        gyre_report_put(out, " data-label=\"");
        gyre_report_put_html(out, t->columns[c].title);
        gyre_report_put(out, "\"");
    }
    gyre_report_put(out, ">");
    gyre_report_put_html(out, text ? text : "–");
    gyre_report_put_html(out, unit_of(&t->columns[c], cell));
    gyre_report_printf(out, "</%s>", tag);
}

static void put_html_row(gyre_report_buffer *out, const gyre_report_table *t, const folds *f, int64_t row) {
    if (is_heading(t, row)) {
        gyre_report_printf(out, "<tr class=\"heading\"><th colspan=\"%lld\"><span>", (long long)t->columns_count);
        gyre_report_put_html(out, cell_at(t, row, 0)->text);
        gyre_report_put(out, "</span></th></tr>\n");
        return;
    }
    gyre_report_put(out, "<tr>");
    for (int64_t c = 0; c < t->columns_count; c++) {
        put_fold(out, t, f, c);
        put_html_cell(out, t, f, row, c);
    }
    gyre_report_put(out, "</tr>\n");
}

static void put_html_caption(gyre_report_buffer *out, const gyre_report_table *t) {
    if (!t->caption && !t->colors) return;
    gyre_report_put(out, "<caption><div>");
    gyre_report_put_html(out, t->caption);
    gyre_report_put(out, t->colors ? "<small>" : "");
    gyre_report_put_html(out, t->colors);
    gyre_report_put(out, t->colors ? "</small></div></caption>\n" : "</div></caption>\n");
}

static void put_html_table(gyre_report_buffer *out, const gyre_report_table *t, const folds *f) {
    if (f->abreast)
        gyre_report_printf(out, "<table class=\"parts%s\" style=\"--abreast:%lld;--part:%s\">\n",
                           f->shares_titles ? "" : " untitled", (long long)f->abreast, f->abreast > 3 ? "4.8rem" : "7.5rem");
    else
        gyre_report_put(out, f->is_wide ? "<table class=\"lines\">\n" : "<table>\n");
    put_html_caption(out, t);
    put_html_column_titles(out, t, f);
    gyre_report_put(out, "<tbody>\n");
    for (int64_t r = 0; r < t->rows; r++)
        put_html_row(out, t, f, r);
    gyre_report_put(out, "</tbody>\n");
    if (t->note) {
        gyre_report_printf(out, "<tfoot><tr><td colspan=\"%lld\"><span>", (long long)t->columns_count);
        gyre_report_put_html(out, t->note);
        gyre_report_put(out, "</span></td></tr></tfoot>\n");
    }
    gyre_report_put(out, "</table>\n");
}

gyre_status gyre_report_table_html(const gyre_report_table *table, char **out, gyre_error *err) {
    const gyre_status status = check(table, err);
    if (status) return status;
    if (!out) return gyre_fail(err, GYRE_EINVAL, "table: nowhere to put its text (report)");
    int64_t *width = calloc((size_t)table->columns_count, sizeof *width);
    gyre_report_buffer html = {NULL, 0, 0, !width};
    if (width) {
        measure_columns(table, width);
        const folds f = folds_of(table, width);
        put_html_table(&html, table, &f);
    }
    free(width);
    return gyre_report_buffer_take(&html, out, "table", err);
}
