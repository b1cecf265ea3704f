/* explain_accuracy_view.c: accuracy as text and as JSON. */
#include "tools/cli/cli_json.h"
#include "tools/explain/explain_accuracy.h"
#include <inttypes.h>
#include <stdio.h>

enum { MARGIN = 2, NAME_WIDTH = 32, NUMBER_WIDTH = 10 };

static void cell(const explain_terminal *page, explain_style style, const char *text) {
    explain_print_spaces(page, NUMBER_WIDTH - explain_display_width(text));
    explain_print(page, style, "%s", text);
}

static void number_cell(const explain_terminal *page, double value) {
    char text[32];
    snprintf(text, sizeof text, "%.1e", value);
    cell(page, EXPLAIN_STYLE_PLAIN, text);
}

static void integer_cell(const explain_terminal *page, explain_style style, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    cell(page, style, text);
}

static void heading(const explain_terminal *page, const char *text) {
    explain_print_spaces(page, MARGIN);
    explain_print_wrapped(page, EXPLAIN_STYLE_BOLD, MARGIN, MARGIN, text);
}

static void begin_row(const explain_terminal *page, const char *name) {
    explain_print_spaces(page, MARGIN);
    explain_print_padded(page, EXPLAIN_STYLE_PLAIN, NAME_WIDTH, name);
}

static void view_program(const explain_terminal *page, const explain_accuracy *a, int p) {
    char text[32] = "nowhere";
    begin_row(page, explain_accuracy_program(p));
    for (int i = 0; i < a->count && a->has[p]; i++)
        number_cell(page, a->error[p][i]);
    if (a->moves_from[p] > 0) snprintf(text, sizeof text, "%" PRId64, a->moves_from[p]);
    if (a->has[p])
        cell(page, EXPLAIN_STYLE_PLAIN, text);
    else
        explain_print(page, EXPLAIN_STYLE_DIM,
                      "  not computed: it has no such scaling or axes, or Gyre was built without SLEEF");
    fputc('\n', page->file);
}

static void view_types(const explain_terminal *page, const explain_accuracy *a) {
    heading(page, "How much a score moves when the rotated key is kept in a type, and after shifts of it");
    begin_row(page, "");
    cell(page, EXPLAIN_STYLE_DIM, "kept");
    for (int s = 0; s < ACCURACY_SHIFTS; s++)
        integer_cell(page, EXPLAIN_STYLE_DIM, explain_accuracy_shifts(s));
    explain_print(page, EXPLAIN_STYLE_DIM, " shifts");
    fputc('\n', page->file);
    for (int t = 0; t < ACCURACY_TYPES; t++) {
        begin_row(page, explain_accuracy_type(t));
        number_cell(page, a->kept[t]);
        for (int s = 0; s < ACCURACY_SHIFTS; s++)
            number_cell(page, a->shifted[t][s]);
        fputc('\n', page->file);
    }
}

void explain_accuracy_view(const explain_terminal *page, const explain_accuracy *a) {
    char text[256];
    fputc('\n', page->file);
    heading(page, "Largest error of cos and sin up to a position, as each program computes them");
    begin_row(page, "");
    for (int i = 0; i < a->count; i++)
        integer_cell(page, EXPLAIN_STYLE_DIM, a->positions[i]);
    explain_print(page, EXPLAIN_STYLE_DIM, " moves from");
    fputc('\n', page->file);
    for (int p = 0; p < ACCURACY_PROGRAMS; p++)
        view_program(page, a, p);
    snprintf(
        text, sizeof text,
        "moves from: from there on a score moves by more than rounding query and key to bf16 moves it, %.1e of its size "
        "(root mean square over random queries and keys)",
        a->rounding);
    explain_print_spaces(page, MARGIN);
    explain_print_wrapped(page, EXPLAIN_STYLE_DIM, MARGIN, MARGIN, text);
    fputc('\n', page->file);
    view_types(page, a);
}

/* -- JSON -- */
static json_t *program_json(const explain_accuracy *a, int p) {
    json_t *object = json_object(), *errors = json_array();
    for (int i = 0; i < a->count && a->has[p]; i++)
        errors = cli_json_append(errors, cli_json_number(a->error[p][i]));
    int bad = cli_json_set(object, "program", json_string(explain_accuracy_program(p)));
    bad |= cli_json_set(object, "largest_error", a->has[p] ? json_incref(errors) : json_null());
    bad |= cli_json_set(object, "moves_from", a->moves_from[p] > 0 ? json_integer(a->moves_from[p]) : json_null());
    json_decref(errors);
    return cli_json_checked(object, bad);
}

static json_t *type_json(const explain_accuracy *a, int t) {
    json_t *object = json_object(), *list = json_array();
    for (int s = 0; s < ACCURACY_SHIFTS; s++) {
        json_t *shift = json_object();
        int bad = cli_json_set(shift, "shifts", json_integer(explain_accuracy_shifts(s)));
        bad |= cli_json_set(shift, "moves", cli_json_number(a->shifted[t][s]));
        list = cli_json_append(list, cli_json_checked(shift, bad));
    }
    int bad = cli_json_set(object, "type", json_string(explain_accuracy_type(t)));
    bad |= cli_json_set(object, "moves", cli_json_number(a->kept[t]));
    bad |= cli_json_set(object, "shifted", list);
    return cli_json_checked(object, bad);
}

json_t *explain_accuracy_json(const explain_accuracy *a) {
    json_t *object = json_object(), *positions = json_array(), *list = json_array(), *kept = json_array();
    for (int i = 0; i < a->count; i++)
        positions = cli_json_append(positions, json_integer(a->positions[i]));
    for (int p = 0; p < ACCURACY_PROGRAMS; p++)
        list = cli_json_append(list, program_json(a, p));
    for (int t = 0; t < ACCURACY_TYPES; t++)
        kept = cli_json_append(kept, type_json(a, t));
    int bad = cli_json_set(object, "positions", positions);
    bad |= cli_json_set(object, "programs", list);
    bad |= cli_json_set(object, "rounding", cli_json_number(a->rounding));
    bad |= cli_json_set(object, "kept", kept);
    return cli_json_checked(object, bad);
}
