/* timeline_view.c: the timeline as a table, for a terminal. */
#include "tools/explain/explain_view.h"
#include "tools/timeline/timeline.h"
#include "util/plain_numbers.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN = 2, SINCE_COLUMN = 9, LETTER_COLUMN = 3, MOST_CHANGES = 5 };

static void view_head(const explain_terminal *page, const timeline *t) {
    const char *dot = page->utf8 ? " \xc2\xb7 " : " - ";
    const gyre_reading *reading = t->rows[t->default_row].reading;
    explain_print(page, EXPLAIN_STYLE_BOLD, "%s", reading->path);
    fputc('\n', page->file);
    if (*reading->model_type) explain_print(page, EXPLAIN_STYLE_PLAIN, "%s%s", reading->model_type, dot);
    explain_print(page, EXPLAIN_STYLE_PLAIN, "%s as programs and their versions read it", reading->format);
    if (*t->saved_by) explain_print(page, EXPLAIN_STYLE_PLAIN, "%ssaved by transformers %s", dot, t->saved_by);
    if (t->length > 0) explain_print(page, EXPLAIN_STYLE_PLAIN, "%slength in use %" PRId64, dot, t->length);
    fputs("\n\n", page->file);
}

/* -- one row -- */
static void append(char *out, size_t size, const char *text) {
    const size_t used = strlen(out);
    gyre_plain_snprintf(out + used, size - used, "%s", text);
}

/* Six digits are enough to tell two numbers apart here; --json has all. */
static void append_value(char *out, size_t size, const char *value) {
    char number[EXPLAIN_TEXT_SIZE], *end;
    const double parsed = strtod(value, &end);
    append(out, size, *value && !*end ? explain_format_number(parsed, 6, number) : value);
}

static void append_change(const explain_terminal *page, const timeline_change *c, char *out, size_t size) {
    char place[480];
    if (*c->layers && strcmp(c->name, "layers") == 0) {
        append(out, size, "layers called ");
        append(out, size, c->layers);
    } else {
        append(out, size, c->name);
        if (*c->layers) append(out, size, " in ");
        append(out, size, c->layers);
    }
    if (strcmp(c->before, c->after) != 0) {
        append(out, size, " ");
        append_value(out, size, c->before);
        append(out, size, page->utf8 ? " \xe2\x86\x92 " : " -> ");
        append_value(out, size, c->after);
    } else {
        append(out, size, " is used at other lengths");
    }
    explain_format_location(c->key, c->line, place, sizeof place);
    if (!*place) return;
    append(out, size, " (");
    append(out, size, place);
    append(out, size, ")");
}

static void append_changes(const explain_terminal *page, const timeline_row *row, char *out, size_t size) {
    char text[96];
    if (row->changes_count == 0) {
        append(out, size, row->verdict);
        return;
    }
    for (int i = 0; i < row->changes_count && i < MOST_CHANGES; i++) {
        if (i) append(out, size, "; ");
        append_change(page, &row->changes[i], out, size);
    }
    if (row->changes_count > MOST_CHANGES) {
        snprintf(text, sizeof text, "; and %d more", row->changes_count - MOST_CHANGES);
        append(out, size, text);
    }
    if (row->first_position >= 0) {
        snprintf(text, sizeof text, "; more than 0.01 rad off from position %" PRId64 " on", row->first_position);
        append(out, size, text);
    }
}

static void row_text(const explain_terminal *page, const timeline *t, int i, char *out, size_t size) {
    const timeline_row *row = &t->rows[i];
    char title[128];
    *out = 0;
    if (!row->reading) {
        append(out, size, "refused: ");
        append(out, size, row->refused);
    } else if (row->same_as < i) {
        timeline_title(&t->rows[row->same_as], title, sizeof title);
        append(out, size, "as ");
        append(out, size, title);
    } else if (row->compared < 0) {
        timeline_summary(t, row->reading, out, size);
    } else {
        timeline_title(&t->rows[row->compared], title, sizeof title);
        append(out, size, "not as ");
        append(out, size, title);
        append(out, size, ": ");
        append_changes(page, row, out, size);
    }
}

/* Reasons that the reader gives for the values of this row, each once. */
static void view_reasons(const explain_terminal *page, const timeline_row *row, int column) {
    for (int i = 0; i < row->changes_count && i < MOST_CHANGES; i++) {
        const char *why = row->changes[i].why;
        int seen = !why;
        for (int k = 0; k < i && !seen; k++)
            seen = row->changes[k].why && strcmp(row->changes[k].why, why) == 0;
        if (seen) continue;
        explain_print_spaces(page, column);
        const int mark = explain_print(page, EXPLAIN_STYLE_YELLOW, "%s ", page->utf8 ? "\xe2\x86\xb3" : "->");
        explain_print_wrapped(page, EXPLAIN_STYLE_DIM, column + mark, column + mark, why);
    }
}

static void view_row(const explain_terminal *page, const timeline *t, int i, int names) {
    const timeline_row *row = &t->rows[i];
    char title[128], text[2048], letter[8] = "-";
    timeline_title(row, title, sizeof title);
    row_text(page, t, i, text, sizeof text);
    if (row->letter >= 0) snprintf(letter, sizeof letter, "%c", 'A' + row->letter);
    explain_print_spaces(page, MARGIN);
    explain_print_padded(page, EXPLAIN_STYLE_DIM, SINCE_COLUMN, row->first.since ? row->first.since : "");
    explain_print_padded(page, EXPLAIN_STYLE_PLAIN, names, title);
    explain_print_padded(page, row->reading ? EXPLAIN_STYLE_BOLD : EXPLAIN_STYLE_RED, LETTER_COLUMN, letter);
    const int column = MARGIN + SINCE_COLUMN + names + LETTER_COLUMN;
    explain_print_wrapped(page, EXPLAIN_STYLE_PLAIN, column, column, text);
    if (row->reading && row->same_as == i) view_reasons(page, row, column);
}

static void view_foot(const explain_terminal *page, const timeline *t) {
    explain_print_wrapped(page, EXPLAIN_STYLE_DIM, 0, 0,
                          "Rows with one letter read the same positions. For transformers, the table heeds which version "
                          "brought the class of the model. For other programs, the month is that of the source that Gyre "
                          "follows, and a row holds for how the program reads the file, not for whether it runs the model.");
    if (!t->has_class)
        explain_print_wrapped(page, EXPLAIN_STYLE_DIM, 0, 0,
                              "transformers has no class for this model_type: its rows hold for code beside the "
                              "file that builds on the rotations of transformers.");
}

void timeline_view(const explain_terminal *page, const timeline *t) {
    char title[128];
    int names = 0;
    view_head(page, t);
    for (int i = 0; i < t->count; i++) {
        timeline_title(&t->rows[i], title, sizeof title);
        const int width = cli_display_width(title) + 2;
        if (width > names) names = width;
    }
    explain_print_spaces(page, MARGIN);
    explain_print_padded(page, EXPLAIN_STYLE_DIM, SINCE_COLUMN, "since");
    explain_print_padded(page, EXPLAIN_STYLE_DIM, names, "read by");
    explain_print(page, EXPLAIN_STYLE_DIM, "positions");
    fputc('\n', page->file);
    for (int i = 0; i < t->count; i++)
        view_row(page, t, i, names);
    fputc('\n', page->file);
    view_foot(page, t);
    explain_view_doubts(page, t->rows[t->default_row].reading, NULL);
}
