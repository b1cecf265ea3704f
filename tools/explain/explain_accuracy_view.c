/* explain_accuracy_view.c: accuracy as text and as JSON. */
#include "tools/cli/cli_json.h"
#include "tools/explain/explain_accuracy.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MARGIN = 2, NAME_WIDTH = 22, NUMBER_WIDTH = 9, LAST_WIDTH = 11 }; /* 80 columns with six of numbers */

static void cell_of(const explain_terminal *page, int width, explain_style style, const char *text) {
    explain_print_spaces(page, width - cli_display_width(text));
    explain_print(page, style, "%s", text);
}

static void cell(const explain_terminal *page, explain_style style, const char *text) {
    cell_of(page, NUMBER_WIDTH, style, text);
}

static void number_cell(const explain_terminal *page, double value) {
    char text[32];
    snprintf(text, sizeof text, "%.1e", value);
    cell(page, EXPLAIN_STYLE_PLAIN, isnan(value) ? "-" : text);
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
    explain_print_spaces(page, NAME_WIDTH - explain_print(page, EXPLAIN_STYLE_PLAIN, "%s", name));
}

static void note(const explain_terminal *page, const char *text) {
    explain_print_spaces(page, MARGIN);
    explain_print_wrapped(page, EXPLAIN_STYLE_DIM, MARGIN, MARGIN, text);
}

static void view_program(const explain_terminal *page, const explain_accuracy *a, int p) {
    char text[ACCURACY_REASON + 32] = "nowhere";
    begin_row(page, explain_accuracy_program(p));
    if (a->reason[p][0]) {
        snprintf(text, sizeof text, "  not computed: %s", a->reason[p]);
        explain_print_wrapped(page, EXPLAIN_STYLE_DIM, MARGIN + NAME_WIDTH, MARGIN + NAME_WIDTH + 2, text);
        return;
    }
    for (int i = 0; i < a->count; i++)
        number_cell(page, a->error[p][i]);
    if (a->moves_from[p] > 0) snprintf(text, sizeof text, "%" PRId64, a->moves_from[p]);
    cell_of(page, LAST_WIDTH, EXPLAIN_STYLE_PLAIN, text);
    fputc('\n', page->file);
}

/* Tables of bfloat16 have it, alike in all programs. */
static void view_factor(const explain_terminal *page, const explain_accuracy *a) {
    char text[384];
    for (int p = 0; p < ACCURACY_PROGRAMS; p++) {
        if (!strstr(explain_accuracy_program(p), "bfloat16") || !(a->factor_moves[p] > 0)) continue;
        snprintf(text, sizeof text,
                 "bfloat16: the table has the attention factor %.6g as %.6g, which alone moves the score of a pair that "
                 "does not rotate by %.1e%s",
                 a->attention_factor, a->table_factor[p], a->factor_moves[p],
                 a->factor_moves[p] > a->rounding ? ": so scores move from the first positions on, and no angle is the cause"
                                                  : "");
        note(page, text);
        return;
    }
}

static int computes(const explain_accuracy *a, const char *program) {
    int found = 0;
    for (int p = 0; p < ACCURACY_PROGRAMS; p++)
        found |= !a->reason[p][0] && strncmp(explain_accuracy_program(p), program, strlen(program)) == 0;
    return found;
}

static void view_notes(const explain_terminal *page, const explain_accuracy *a) {
    char text[512];
    const int64_t of_doubling = a->search_of_doubling;
    snprintf(text, sizeof text,
             "measured: all positions below %" PRId64 "; from there on %" PRId64 " of each doubling, and the last %" PRId64
             " of each context",
             a->every, a->of_octave, a->last);
    note(page, text);
    snprintf(text, sizeof text,
             "moves from: from this position on a score moves by more than rounding query and key to bf16 moves it, %.1e of "
             "its size (root mean square over random queries and keys).  Searched from %" PRId64 " down, at %" PRId64
             " position%s of each doubling, then by bisection among numbers of two digits",
             a->rounding, a->search_end, of_doubling, of_doubling == 1 ? "" : "s");
    note(page, text);
    if (a->search_queries < ACCURACY_USUAL_QUERIES) {
        snprintf(text, sizeof text,
                 "so many pairs: at each position %" PRId64 " quer%s instead of %d, and keys that are %" PRId64
                 " times as far as the one before, instead of %d",
                 a->search_queries, a->search_queries == 1 ? "y" : "ies", ACCURACY_USUAL_QUERIES, a->distance_ratio,
                 ACCURACY_USUAL_RATIO);
        note(page, text);
    }
    view_factor(page, a);
    if (a->follows_length)
        note(page, "frequencies follow the context: each column has those of its length, and \"moves from\" those of a "
                   "context that ends there");
    if (a->largest_position > 0) {
        snprintf(text, sizeof text,
                 "dual chunks: a query or key rotates by at most %" PRId64 " positions, however long the context",
                 a->largest_position);
        note(page, text);
    }
    if (computes(a, "vLLM") || computes(a, "TensorRT-LLM"))
        note(page,
             "not run: vLLM, whose formulas are computed as PyTorch does on a CPU (it makes its table on the GPU), and "
             "TensorRT-LLM, whose formulas are computed as NumPy does");
}

static void view_caches(const explain_terminal *page, const explain_accuracy *a) {
    char text[256];
    int lacks = 0;
    heading(page, "How much a score moves when a cache keeps the rotated key in few bits, and after shifts of it");
    begin_row(page, "");
    cell(page, EXPLAIN_STYLE_DIM, "kept");
    for (int s = 0; s < ACCURACY_SHIFTS; s++)
        integer_cell(page, EXPLAIN_STYLE_DIM, explain_accuracy_shifts(s));
    explain_print(page, EXPLAIN_STYLE_DIM, " shifts");
    fputc('\n', page->file);
    for (int c = 0; c < ACCURACY_CACHES; c++) {
        snprintf(text, sizeof text, "%s, %s", explain_accuracy_cache(c), explain_accuracy_type(c));
        lacks |= isnan(a->kept[c]);
        begin_row(page, text);
        number_cell(page, a->kept[c]);
        for (int s = 0; s < ACCURACY_SHIFTS; s++)
            number_cell(page, a->shifted[c][s]);
        fputc('\n', page->file);
    }
    snprintf(text, sizeof text, "keys: %" PRId64 " random ones at position %d, which each shift moves %d tokens back",
             a->keys, ACCURACY_KEY_POSITION, -ACCURACY_SHIFT);
    note(page, text);
    if (lacks) note(page, "-: the cache takes no such rotated key");
    note(page,
         "gyre_cache: run; q8 has one scale for each row of a head, and a shift changes no key.  llama.cpp: its rounding, "
         "restated; Q8_0 has one scale for each 32 channels, and a shift rotates the kept key and rounds it again");
}

void explain_accuracy_view(const explain_terminal *page, const explain_accuracy *a) {
    fputc('\n', page->file);
    heading(page, "Largest error of cos and sin in a context of so many tokens, as each program computes them");
    begin_row(page, "");
    for (int i = 0; i < a->count; i++)
        integer_cell(page, EXPLAIN_STYLE_DIM, a->lengths[i]);
    explain_print(page, EXPLAIN_STYLE_DIM, " moves from");
    fputc('\n', page->file);
    for (int p = 0; p < ACCURACY_PROGRAMS; p++)
        view_program(page, a, p);
    if (a->turns_in_weights) return;
    view_notes(page, a);
    fputc('\n', page->file);
    view_caches(page, a);
}

/* -- JSON -- */
static json_t *program_json(const explain_accuracy *a, int p) {
    json_t *object = json_object(), *errors = json_array();
    const int has = !a->reason[p][0];
    for (int i = 0; i < a->count && has; i++)
        errors = cli_json_append(errors, cli_json_number(a->error[p][i]));
    int bad = cli_json_set(object, "program", json_string(explain_accuracy_program(p)));
    bad |= cli_json_set(object, "largest_error", has ? json_incref(errors) : json_null());
    bad |= cli_json_set(object, "moves_from", a->moves_from[p] > 0 ? json_integer(a->moves_from[p]) : json_null());
    bad |= cli_json_set(object, "table_factor", cli_json_number(a->table_factor[p] > 0 ? a->table_factor[p] : NAN));
    bad |= cli_json_set(object, "factor_moves", cli_json_number(a->table_factor[p] > 0 ? a->factor_moves[p] : NAN));
    bad |= cli_json_set(object, "reason", has ? json_null() : cli_json_text(a->reason[p]));
    json_decref(errors);
    return cli_json_checked(object, bad);
}

static json_t *cache_json(const explain_accuracy *a, int c) {
    json_t *object = json_object(), *list = json_array();
    for (int s = 0; s < ACCURACY_SHIFTS; s++) {
        json_t *shift = json_object();
        int bad = cli_json_set(shift, "shifts", json_integer(explain_accuracy_shifts(s)));
        bad |= cli_json_set(shift, "moves", cli_json_number(a->shifted[c][s]));
        list = cli_json_append(list, cli_json_checked(shift, bad));
    }
    int bad = cli_json_set(object, "cache", json_string(explain_accuracy_cache(c)));
    bad |= cli_json_set(object, "type", json_string(explain_accuracy_type(c)));
    bad |= cli_json_set(object, "moves", cli_json_number(a->kept[c]));
    bad |= cli_json_set(object, "shifted", list);
    return cli_json_checked(object, bad);
}

static json_t *measured_json(const explain_accuracy *a) {
    json_t *object = json_object();
    int bad = cli_json_set(object, "all_below", json_integer(a->every));
    bad |= cli_json_set(object, "of_each_doubling", json_integer(a->of_octave));
    bad |= cli_json_set(object, "last", json_integer(a->last));
    return cli_json_checked(object, bad);
}

static json_t *search_json(const explain_accuracy *a) {
    json_t *object = json_object();
    int bad = cli_json_set(object, "end", json_integer(a->search_end));
    bad |= cli_json_set(object, "of_each_doubling", json_integer(a->search_of_doubling));
    bad |= cli_json_set(object, "queries", json_integer(a->search_queries));
    bad |= cli_json_set(object, "distance_ratio", json_integer(a->distance_ratio));
    bad |= cli_json_set(object, "digits", json_integer(ACCURACY_DIGITS));
    return cli_json_checked(object, bad);
}

static json_t *keys_json(const explain_accuracy *a) {
    json_t *object = json_object();
    int bad = cli_json_set(object, "count", json_integer(a->keys));
    bad |= cli_json_set(object, "position", json_integer(ACCURACY_KEY_POSITION));
    bad |= cli_json_set(object, "shift", json_integer(ACCURACY_SHIFT));
    return cli_json_checked(object, bad);
}

json_t *explain_accuracy_json(const explain_accuracy *a) {
    json_t *object = json_object(), *lengths = json_array(), *list = json_array(), *kept = json_array();
    for (int i = 0; i < a->count; i++)
        lengths = cli_json_append(lengths, json_integer(a->lengths[i]));
    for (int p = 0; p < ACCURACY_PROGRAMS; p++)
        list = cli_json_append(list, program_json(a, p));
    for (int c = 0; c < ACCURACY_CACHES; c++)
        kept = cli_json_append(kept, cache_json(a, c));
    int bad = cli_json_set(object, "lengths", lengths);
    bad |= cli_json_set(object, "measured", measured_json(a));
    bad |= cli_json_set(object, "follows_length", json_boolean(a->follows_length));
    bad |=
        cli_json_set(object, "largest_position", a->largest_position > 0 ? json_integer(a->largest_position) : json_null());
    bad |= cli_json_set(object, "search", search_json(a));
    bad |= cli_json_set(object, "programs", list);
    bad |= cli_json_set(object, "rounding", cli_json_number(a->rounding));
    bad |= cli_json_set(object, "keys", keys_json(a));
    bad |= cli_json_set(object, "kept", kept);
    return cli_json_checked(object, bad);
}
